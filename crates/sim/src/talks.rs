//! Conversations with a daemon over Molecule in a box: what people and agents wrote, and what they got back.
//!
//! The platform does not say which message a reply answers, so a reply is known by its text. A message says how it is
//! answered (`echo:` and the answer). A text that no message of the conversation asked for is a notice, about the oldest
//! message that has no end yet. Everything is read from the platform's table, nothing from the daemon.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Error;
use crate::clock::now_ms;
use crate::history::{Event, Fact, RowId, Word};
use crate::molecule::{
    Edition, MoleculeFault, MoleculeOptions, MoleculePlatform, Route, Workspace, Written,
};

/// A chat command that ends a conversation.
pub const NEW: &str = "/new";
/// What the daemon says to it.
pub const NEW_SAYS: &str = "A new conversation begins with your next message.";
/// What stands in a message before the answer that it asks for.
const ECHO: &str = "echo:";
/// The beginnings of notices that end nothing: a message waits, or Codex lost the thread and the answer comes on a new
/// one.
const UNENDING: [&str; 2] = [
    "This message waits",
    "Codex's record of this conversation is lost",
];

/// What the platform does with a reply that comes twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkKind {
    /// It knows the message's id and shows it once: peers on today's platform.
    Idempotent,
    /// It shows it twice, but can be asked whether it arrived: the canvas.
    Probeable,
    /// It shows it twice and can't be asked: peers on the oldest platform.
    Blind,
}

/// How to set up a platform and those who write on it.
#[derive(Clone, Debug)]
pub struct TalksOptions {
    /// What it does with a reply that comes twice; so it also decides who writes.
    pub kind: SinkKind,
    /// Conversations at a canvas: each is a workspace of its own.
    pub canvases: usize,
    /// Where random faults come from.
    pub seed: u64,
    /// How long waits last before they give up with an error.
    pub patience: Duration,
}

impl Default for TalksOptions {
    fn default() -> Self {
        Self {
            kind: SinkKind::Idempotent,
            canvases: 1,
            seed: 0,
            patience: Duration::from_secs(60),
        }
    }
}

/// A Molecule platform, the workspaces on it that a daemon serves, and everybody who writes to them.
#[derive(Debug)]
pub struct Talks {
    /// The platform itself: faults, outages, calls.
    pub platform: MoleculePlatform,
    kind: SinkKind,
    served: Vec<Workspace>,
    /// Locked from before a message is stored until it is known here, so that its reply always finds it.
    record: Mutex<Record>,
}

impl Talks {
    /// Starts the platform and makes the workspaces that a daemon is to serve.
    pub async fn start(options: TalksOptions) -> io::Result<Self> {
        let edition = match options.kind {
            SinkKind::Idempotent | SinkKind::Probeable => Edition::August,
            SinkKind::Blind => Edition::Seed,
        };
        let platform = MoleculePlatform::start(MoleculeOptions {
            edition,
            seed: options.seed,
            patience: options.patience,
            ..MoleculeOptions::default()
        })
        .await?;
        let count = match options.kind {
            SinkKind::Probeable => options.canvases,
            SinkKind::Idempotent | SinkKind::Blind => 1,
        };
        Ok(Self {
            served: (0..count)
                .map(|number| platform.add_workspace(&format!("served {number}")))
                .collect(),
            platform,
            kind: options.kind,
            record: Mutex::new(Record::default()),
        })
    }

    /// What the platform does with a reply that comes twice.
    #[must_use]
    pub fn kind(&self) -> SinkKind {
        self.kind
    }

    /// The workspaces that the daemon serves.
    #[must_use]
    pub fn served(&self) -> &[Workspace] {
        &self.served
    }

    /// The sections of codex-bridge.toml for these workspaces, with `keys` as further lines of `[molecule]`. Their tokens
    /// are written into files of this directory.
    pub fn settings(&self, directory: &Path, keys: &str) -> io::Result<String> {
        let mut settings = format!(
            "[molecule]\nplatform_url = \"{}\"\npoll_secs = 1\n{keys}\n[molecule.origins]\ncanvas = \"owner\"\n",
            self.platform.url()
        );
        for (number, workspace) in self.served.iter().enumerate() {
            let file = directory.join(format!("molecule-token-{number}"));
            std::fs::write(&file, &workspace.token)?;
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600))?;
            settings.push_str(&format!(
                "[[molecule.workspace]]\nid = \"{}\"\ntoken_file = {:?}\n",
                workspace.id,
                file.display().to_string()
            ));
        }
        Ok(settings)
    }

    /// Somebody writes in this conversation, which begins with its first message.
    pub fn post(&self, conversation: &str, text: &str) -> Result<RowId, Error> {
        let mut record = self.lock();
        let place = match record.places.get(conversation) {
            Some(place) => place.clone(),
            None => self.place(conversation, &mut record)?,
        };
        let stored = match self.kind {
            SinkKind::Probeable => self.platform.canvas_says(&place, text)?,
            SinkKind::Idempotent | SinkKind::Blind => {
                let us = self.served.first().ok_or(Error::NotStored)?;
                self.platform.peer_says(&place, us, text)?
            }
        };
        Ok(record.posted(conversation, text, stored))
    }

    /// The canvas of a conversation, or its peer.
    fn place(&self, conversation: &str, record: &mut Record) -> Result<Workspace, Error> {
        let place = match self.kind {
            SinkKind::Probeable => {
                let free = self.served.get(record.places.len());
                free.ok_or(Error::NoCanvas)?.clone()
            }
            SinkKind::Idempotent | SinkKind::Blind => self.platform.add_workspace(conversation),
        };
        record.places.insert(conversation.to_owned(), place.clone());
        let (id, name) = (place.id.clone(), conversation.to_owned());
        record.conversations.insert(id, name);
        Ok(place)
    }

    /// The next replies meet these faults, one each.
    pub fn script_replies(&self, faults: impl IntoIterator<Item = MoleculeFault>) {
        let route = match self.kind {
            SinkKind::Probeable => Route::Notify,
            SinkKind::Idempotent | SinkKind::Blind => Route::A2a,
        };
        self.platform.script(route, faults);
    }

    /// The platform stores a message a second time; false when there is none.
    pub fn show_again(&self, row: RowId) -> bool {
        let mut record = self.lock();
        let Some(message) = record.messages.get(&row) else {
            return false;
        };
        let shown = self.platform.repeat_message(&message.stored);
        if shown {
            record.note(now_ms(), Fact::Redelivered { row });
        }
        shown
    }

    /// How many messages were written.
    pub fn posted(&self) -> usize {
        self.lock().messages.len()
    }

    /// Everything that was seen from outside so far.
    pub fn history(&self) -> Vec<Event> {
        self.read().history.clone()
    }

    /// Texts of the replies that became visible, in that order, with what they reply to.
    pub fn visible(&self) -> Vec<(RowId, String)> {
        self.read().visible.clone()
    }

    /// How many messages have no visible end yet, by conversation.
    pub fn waiting(&self) -> BTreeMap<String, usize> {
        let record = self.read();
        let waiting = record.waiting.iter().filter(|(_, rows)| !rows.is_empty());
        waiting
            .map(|(conversation, rows)| (conversation.clone(), rows.len()))
            .collect()
    }

    /// Returns when the history fulfils `until`.
    pub async fn wait_for(
        &self,
        what: &str,
        mut until: impl FnMut(&[Event]) -> bool,
    ) -> Result<(), Error> {
        let reached = |_: &MoleculePlatform| until(&self.read().history);
        self.platform.wait_until(what, reached).await
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record, with every reply that is on the platform by now.
    fn read(&self) -> MutexGuard<'_, Record> {
        let mut record = self.lock();
        let (written, next) = self.platform.written_from(record.next);
        record.next = next;
        for written in written {
            if self.is_reply(&written) {
                record.replied(written);
            }
        }
        record
    }

    /// Whether the daemon wrote it; messages to the served workspaces are in the same table.
    fn is_reply(&self, written: &Written) -> bool {
        let is_served = |id: &str| self.served.iter().any(|own| own.id == id);
        match &written.source {
            None => is_served(&written.workspace),
            Some(source) => is_served(source),
        }
    }
}

/// One message.
#[derive(Debug)]
struct Posted {
    conversation: String,
    /// Its row on the platform.
    stored: String,
    /// Replies so far.
    replies: u32,
}

/// What is known from outside.
#[derive(Debug, Default)]
struct Record {
    /// The canvas or the peer of each conversation, and the other way round by its id.
    places: BTreeMap<String, Workspace>,
    conversations: HashMap<String, String>,
    messages: BTreeMap<RowId, Posted>,
    /// Messages by the answer that they ask for.
    wanted: HashMap<String, Vec<RowId>>,
    waiting: BTreeMap<String, BTreeSet<RowId>>,
    /// The latest message of each conversation.
    latest: HashMap<String, RowId>,
    /// The row of the platform's table that is read next.
    next: usize,
    history: Vec<Event>,
    visible: Vec<(RowId, String)>,
}

impl Record {
    fn posted(&mut self, conversation: &str, text: &str, stored: String) -> RowId {
        let row = RowId(self.messages.len() as u64 + 1);
        let conversation = conversation.to_owned();
        if let Some(answer) = answer_of(text) {
            self.wanted.entry(answer).or_default().push(row);
        }
        let waiting = self.waiting.entry(conversation.clone()).or_default();
        waiting.insert(row);
        self.latest.insert(conversation.clone(), row);
        let message = Posted {
            conversation: conversation.clone(),
            stored,
            replies: 0,
        };
        self.messages.insert(row, message);
        self.note(now_ms(), Fact::Posted { row, conversation });
        row
    }

    fn note(&mut self, at_ms: u64, fact: Fact) {
        self.history.push(Event { at_ms, fact });
    }

    fn replied(&mut self, written: Written) {
        let Written {
            workspace,
            text,
            at_ms,
            ..
        } = written;
        let conversation = self.conversations.get(&workspace).cloned();
        let conversation = conversation.unwrap_or_default();
        let (row, word) = self.meaning(&conversation, text.trim());
        if word != Word::Waits
            && let Some(waiting) = self.waiting.get_mut(&conversation)
        {
            waiting.remove(&row);
        }
        let ordinal = match self.messages.get_mut(&row) {
            Some(message) => {
                message.replies += 1;
                message.replies
            }
            None => 0,
        };
        // A reply that comes twice is the same text twice, whatever it is called.
        let key = text.clone();
        self.note(
            at_ms,
            Fact::Visible {
                row,
                ordinal,
                key,
                word,
            },
        );
        self.visible.push((row, text));
    }

    /// Which message a reply is about, and what it means to its sender.
    fn meaning(&self, conversation: &str, text: &str) -> (RowId, Word) {
        let waiting = self.waiting.get(conversation);
        let asked = self.wanted.get(text).map(Vec::as_slice).unwrap_or_default();
        let is_here = |row: &&RowId| {
            let message = self.messages.get(row);
            message.is_some_and(|message| message.conversation == conversation)
        };
        let mut here = asked.iter().filter(is_here);
        let open = |row: &&RowId| waiting.is_some_and(|waiting| waiting.contains(row));
        if let Some(row) = here.clone().find(open).or_else(|| here.next_back()) {
            return (*row, Word::Answer);
        }
        let oldest = waiting.and_then(BTreeSet::first).copied();
        let row = oldest.or_else(|| self.latest.get(conversation).copied());
        let word = if !asked.is_empty() {
            Word::Wrong
        } else if UNENDING.iter().any(|begin| text.starts_with(begin)) {
            Word::Waits
        } else {
            Word::Buried
        };
        // Nobody wrote here: the row of no message makes it a strange reply.
        (row.unwrap_or(RowId(0)), word)
    }
}

/// The answer that a message asks for.
fn answer_of(text: &str) -> Option<String> {
    if text == NEW {
        return Some(NEW_SAYS.to_owned());
    }
    let (_, answer) = text.rsplit_once(ECHO)?;
    Some(answer.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(texts: &[(&str, &str)]) -> Record {
        let mut record = Record::default();
        for (conversation, text) in texts {
            record.posted(conversation, text, String::new());
            let (id, name) = ((*conversation).to_owned(), (*conversation).to_owned());
            record.conversations.insert(id, name);
        }
        record
    }

    /// What each reply in a conversation is taken for, in this order.
    fn taken(record: &mut Record, replies: &[(&str, &str)]) -> Vec<(u64, Word)> {
        for (conversation, text) in replies {
            record.replied(Written {
                workspace: (*conversation).to_owned(),
                source: None,
                text: (*text).to_owned(),
                at_ms: 1,
            });
        }
        let visible = record.history.iter().filter_map(|event| match event.fact {
            Fact::Visible { row, word, .. } => Some((row.0, word)),
            _ => None,
        });
        visible.collect()
    }

    #[test]
    fn replies_are_known_by_their_text() {
        let mut record = record(&[("a", "echo:one"), ("a", "sleep:1 echo:two"), ("b", NEW)]);
        let replies = [
            ("a", "This message waits and will be answered later"),
            ("a", "one\n"),
            ("a", "There is no answer to this message"),
            ("a", "one"),
            ("b", NEW_SAYS),
        ];
        assert_eq!(
            taken(&mut record, &replies),
            [
                (1, Word::Waits),
                (1, Word::Answer),
                (2, Word::Buried),
                (1, Word::Answer),
                (3, Word::Answer),
            ]
        );
        assert!(record.waiting.values().all(BTreeSet::is_empty));
    }

    #[test]
    fn wrong_and_strange_replies_are_found() {
        let mut record = record(&[("a", "echo:one"), ("b", "echo:two")]);
        let replies = [("b", "one"), ("c", "two"), ("c", "what?")];
        assert_eq!(
            taken(&mut record, &replies),
            [(2, Word::Wrong), (0, Word::Wrong), (0, Word::Buried)]
        );
    }

    #[test]
    fn equal_answers_end_messages_in_order() {
        let mut record = record(&[("a", "echo:one"), ("a", "echo:one")]);
        let replies = [("a", "one"), ("a", "one"), ("a", "one")];
        let words = taken(&mut record, &replies);
        let rows: Vec<u64> = words.into_iter().map(|(row, _)| row).collect();
        assert_eq!(rows, [1, 2, 2], "the third is one too many");
    }
}
