//! The fake's threads: in memory while they are loaded, and in `$CODEX_HOME/sessions` from their first turn on, so
//! that the next life knows them. A turn that was cut by the end of a life is `interrupted`, as with the real one.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One thread: the settings it was given last, and its turns, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) id: String,
    pub(super) settings: Value,
    pub(super) turns: Vec<Value>,
}

impl Thread {
    pub(super) fn path(&self, home: &Path) -> PathBuf {
        file(home, &self.id)
    }

    /// The turn that runs.
    pub(super) fn active(&self) -> Option<&Value> {
        let last = self.turns.last()?;
        (last.get("status") == Some(&json!("inProgress"))).then_some(last)
    }

    pub(super) fn active_mut(&mut self) -> Option<&mut Value> {
        self.active()?;
        self.turns.last_mut()
    }
}

/// All threads of one life.
#[derive(Debug)]
pub(super) struct Threads {
    home: PathBuf,
    loaded: BTreeMap<String, Thread>,
    /// The disk takes no more.
    full: bool,
}

impl Threads {
    pub(super) fn new(home: PathBuf) -> Self {
        Self {
            home,
            loaded: BTreeMap::new(),
            full: false,
        }
    }

    /// From here on nothing is written down.
    pub(super) fn fill_up(&mut self) {
        self.full = true;
    }

    pub(super) fn open(&mut self, settings: Value) -> Thread {
        let thread = Thread {
            id: uuid::Uuid::now_v7().to_string(),
            settings,
            turns: Vec::new(),
        };
        self.loaded.insert(thread.id.clone(), thread.clone());
        thread
    }

    pub(super) fn get(&mut self, id: &str) -> Option<&mut Thread> {
        self.loaded.get_mut(id)
    }

    /// Loads a thread, from memory or from disk.
    pub(super) fn resume(&mut self, id: &str, settings: Value) -> Option<&mut Thread> {
        if !self.loaded.contains_key(id) {
            let text = std::fs::read_to_string(file(&self.home, id)).ok()?;
            let turns = text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok());
            let turns = turns.map(cut).collect();
            let thread = Thread {
                id: id.to_owned(),
                settings: Value::Null,
                turns,
            };
            self.loaded.insert(id.to_owned(), thread);
        }
        let thread = self.loaded.get_mut(id)?;
        thread.settings = settings;
        Some(thread)
    }

    /// Writes a thread down. Only a thread that has a turn is on disk.
    pub(super) fn save(&self, id: &str) {
        let Some(thread) = self.loaded.get(id).filter(|_| !self.full) else {
            return;
        };
        let text: String = thread
            .turns
            .iter()
            .map(|turn| format!("{turn}\n"))
            .collect();
        let path = thread.path(&self.home);
        let written = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, text));
        if let Err(error) = written {
            eprintln!("{}: {error}", path.display());
        }
    }
}

fn cut(mut turn: Value) -> Value {
    if turn.get("status") == Some(&json!("inProgress"))
        && let Some(status) = turn.get_mut("status")
    {
        *status = json!("interrupted");
    }
    turn
}

fn file(home: &Path, id: &str) -> PathBuf {
    home.join("sessions").join(format!("rollout-{id}.jsonl"))
}
