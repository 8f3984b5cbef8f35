//! The private directory of one check: CODEX_HOME, working directories, what must not be written, and how Codex is started
//! in it.

use super::private_codex::PrivateCodex;
use super::responder::Responder;
use super::thread;
use crate::app_server::connection::CallError;
use crate::keeper::launch::{CODEX_HOME, LaunchOptions};
use crate::sandbox::read_isolation::IsolationBase;
use bridge_codex::schema::LiveComparison;
use bridge_core::port::ThreadSpec;
use bridge_core::value::{ApprovalPolicy, Sandbox};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Begins the name of every directory of a check.
const PREFIX: &str = "codex-check-";
/// A directory older than this belongs to a check that was killed.
const ABANDONED_AFTER: Duration = Duration::from_secs(60 * 60);
/// All that Codex gets of our environment: no key, no proxy that the loopback model would go through, none of the
/// operator's directories.
const ENV: [&str; 6] = ["PATH", "USER", "LOGNAME", "SHELL", "LANG", "TZ"];

/// A directory that is gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    root: PathBuf,
    pub(super) launch: LaunchOptions,
    comparison: Option<Arc<LiveComparison>>,
}

impl Room {
    /// Makes it below `scratch`, with a CODEX_HOME whose only model is the responder.
    pub(crate) fn make(
        launch: &LaunchOptions,
        scratch: &Path,
        responder: &Responder,
    ) -> io::Result<Self> {
        let private = |path: &Path| {
            fs::DirBuilder::new()
                .mode(0o700)
                .recursive(true)
                .create(path)
        };
        private(scratch)?;
        sweep(scratch);
        let name = uuid::Uuid::new_v4().simple().to_string();
        let root = scratch.canonicalize()?.join(format!("{PREFIX}{name}"));
        private(&root)?;
        let room = Self {
            launch: private_launch(launch, &root),
            root,
            comparison: None,
        };
        for name in ["home", "user", "tmp", "run", "work", "outside", "denied"] {
            private(&room.path(name))?;
        }
        responder.configure(&room.path("home"))?;
        Ok(room)
    }

    /// What Codex says is compared with this from now on.
    pub(crate) fn comparing(mut self, comparison: Arc<LiveComparison>) -> Self {
        self.comparison = Some(comparison);
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A file outside of every working directory.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.path("outside").join(name)
    }

    /// Of a thread with a working directory of this name.
    pub(crate) fn spec(
        &self,
        name: &str,
        sandbox: Sandbox,
        approval: ApprovalPolicy,
    ) -> ThreadSpec {
        thread::spec(&self.path("work").join(name), sandbox, approval)
    }

    pub(crate) fn isolation(&self) -> IsolationBase {
        IsolationBase {
            codex: self.launch.codex.clone(),
            denied: self.path("denied"),
        }
    }

    pub(crate) async fn start(&self) -> Result<PrivateCodex, CallError> {
        PrivateCodex::start(&self.launch, self.comparison.clone()).await
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // A Codex that is just being ended may still write into it; the next check removes what is left.
        let _left = fs::remove_dir_all(&self.root);
    }
}

/// Started as the bridge starts it, from the native executable, with nothing of the operator's.
fn private_launch(launch: &LaunchOptions, root: &Path) -> LaunchOptions {
    let kept = |name: &OsStr| {
        name.to_str()
            .is_some_and(|name| ENV.contains(&name) || name.starts_with("LC_"))
    };
    let mut env: Vec<_> = launch
        .env
        .iter()
        .filter(|(name, _)| kept(name))
        .cloned()
        .collect();
    for (name, directory) in [(CODEX_HOME, "home"), ("HOME", "user"), ("TMPDIR", "tmp")] {
        env.push((name.into(), root.join(directory).into()));
    }
    let codex = launch.native.as_ref().unwrap_or(&launch.codex).clone();
    LaunchOptions {
        native: Ok(codex.clone()),
        codex,
        run_dir: root.join("run"),
        env,
        hidden_from_commands: Vec::new(),
        linger: Duration::ZERO,
        lease: None,
        ..launch.clone()
    }
}

/// Removes what killed checks left.
fn sweep(scratch: &Path) {
    let Ok(entries) = fs::read_dir(scratch) else {
        return;
    };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let made = entry.metadata().and_then(|metadata| metadata.modified());
        let age = made
            .ok()
            .and_then(|made| SystemTime::now().duration_since(made).ok());
        if ours && age.is_some_and(|age| age > ABANDONED_AFTER) {
            let _left = fs::remove_dir_all(entry.path());
        }
    }
}
