//! Where the kit is: `cargo xtask test` (or `cargo xtask console-kit`) installs it. Without it these tests fail; a test that
//! silently did not run proves nothing.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::{Mutex, MutexGuard};

/// Names the kit to use instead of the installed one.
const VAR: &str = "CODEX_BRIDGE_CONSOLE_KIT";

/// All tests of a file together; only a broken one gets there.
const PATIENCE: Duration = Duration::from_secs(240);

/// One browser at a time: they measure, and the machine may have two cores.
static TURN: Mutex<()> = Mutex::const_new(());

pub(crate) struct Kit {
    place: PathBuf,
    root: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Kit {
    pub(crate) async fn find() -> Self {
        let named = std::env::var_os(VAR).filter(|value| !value.is_empty());
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let installed = here
            .ancestors()
            .map(|dir| dir.join("target/tools/console-kit"));
        let found = named.map(PathBuf::from).into_iter().chain(installed);
        let found = found.into_iter().find(|kit| kit.join("kit.json").is_file());
        let Some(place) = found else {
            panic!(
                "no console kit ({VAR}, then target/tools/console-kit): run `cargo xtask console-kit`"
            )
        };
        Self {
            place,
            root: here.ancestors().nth(2).unwrap().to_owned(),
            _turn: TURN.lock().await,
        }
    }

    /// A file of `crates/front/console-tests`.
    pub(crate) async fn test(&self, file: &str, env: &[(&str, &str)]) {
        let file = format!("crates/front/console-tests/{file}");
        self.node(&["--test", "--test-reporter=tap", &file], env)
            .await;
    }

    pub(crate) async fn node(&self, args: &[&str], env: &[(&str, &str)]) {
        let modules = self.place.join("node_modules");
        let mut names = std::fs::read_dir(&modules).unwrap().flatten();
        let node = names.find_map(|entry| {
            let is_node = entry.file_name().to_string_lossy().starts_with("node-");
            let program = entry.path().join("bin/node");
            (is_node && program.is_file()).then_some(program)
        });
        let node = node.unwrap_or_else(|| panic!("no Node.js in {}", modules.display()));
        self.succeeds(Command::new(node).args(args).envs(env.iter().copied()))
            .await;
    }

    pub(crate) async fn tsc(&self, args: &[&str]) {
        let script = self.place.join("node_modules/typescript/bin/tsc");
        let script = script.to_str().unwrap();
        self.node(&[&[script], args].concat(), &[]).await;
    }

    async fn succeeds(&self, command: &mut Command) {
        let command = command
            .current_dir(&self.root)
            .env("CONSOLE_KIT", &self.place)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let ended = tokio::time::timeout(PATIENCE, command.output()).await;
        let ended = ended.unwrap_or_else(|_| panic!("{command:?} did not end in {PATIENCE:?}"));
        let ended = ended.unwrap();
        let text = String::from_utf8_lossy(&ended.stdout);
        let errors = String::from_utf8_lossy(&ended.stderr);
        println!("{text}");
        assert!(ended.status.success(), "{command:?}\n{text}\n{errors}");
    }
}
