//! The daemon behind `mcp`: whichever runs on the state directory, or one of our own in this process.

use crate::client::{ApiClient, ClientError};
use bridge_core::deadline::after;
use bridge_daemon::state::{StateDir, StateError};
use bridge_daemon::term;
use bridge_daemon::{RunOptions, Source, Stop, run as run_daemon};
use bridge_front::{ControlError, ControlErrorKind};
use std::time::Duration;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long another daemon may take from its lock to its first answer.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked for meanwhile.
const LOOK: Duration = Duration::from_millis(100);

/// What a daemon of our own is started with. Read anew each time: what was wrong may have been mended since.
fn options(source: &Source) -> anyhow::Result<RunOptions> {
    let loaded = source.load()?;
    for warning in &loaded.warnings {
        tracing::warn!("{}", term::escape_line(warning));
    }
    let state_dir = source.state_dir.clone();
    let mut options = RunOptions::of(state_dir, loaded, &source.environment);
    options.source = Some(source.clone());
    Ok(options)
}

/// Finds the daemon, or runs it.
#[derive(Debug)]
pub(super) struct House {
    source: Source,
    stop: Stop,
    known: Mutex<Known>,
}

/// What we know about the daemon.
#[derive(Debug, Default)]
enum Known {
    /// Nothing yet, or it went away.
    #[default]
    Nothing,
    /// Another process's; it answered.
    Theirs(ApiClient),
    /// Ours.
    Own(ApiClient, JoinHandle<()>),
}

impl House {
    pub(super) fn new(source: Source, stop: Stop) -> Self {
        Self {
            source,
            stop,
            known: Mutex::default(),
        }
    }

    /// A client of a daemon that answers; started if need be.
    pub(super) async fn client(&self) -> Result<ApiClient, ControlError> {
        let mut known = self.known.lock().await;
        if let Some(client) = self.alive(&known) {
            return Ok(client);
        }
        let found = self.find().await?;
        let (Known::Theirs(client) | Known::Own(client, _)) = &found else {
            return Err(unavailable("there is no daemon"));
        };
        let client = client.clone();
        *known = found;
        Ok(client)
    }

    /// A client of the daemon that was found before, while that one lives. None is started for it.
    pub(super) async fn found(&self) -> Option<ApiClient> {
        self.alive(&*self.known.lock().await)
    }

    fn alive(&self, known: &Known) -> Option<ApiClient> {
        match known {
            Known::Theirs(client) if self.state().holder().is_some() => Some(client.clone()),
            Known::Own(client, task) if !task.is_finished() => Some(client.clone()),
            Known::Theirs(_) | Known::Own(..) | Known::Nothing => None,
        }
    }

    /// The daemon of another process did not answer: the next call looks for one again.
    pub(super) async fn forget(&self) {
        let mut known = self.known.lock().await;
        if let Known::Theirs(_) = &*known {
            *known = Known::Nothing;
        }
    }

    /// Ends a daemon of our own as SIGTERM would.
    pub(super) async fn leave(&self) {
        self.stop.gently.cancel();
        let known = std::mem::take(&mut *self.known.lock().await);
        if let Known::Own(_, task) = known {
            let _ended = task.await;
        }
    }

    /// Named anew each time: it may not have existed before.
    fn state(&self) -> StateDir {
        StateDir::existing(&self.source.state_dir)
    }

    async fn find(&self) -> Result<Known, ControlError> {
        let deadline = after(Instant::now(), START_PATIENCE);
        loop {
            if self.stop.gently.is_cancelled() {
                return Err(unavailable("this MCP server is stopping"));
            }
            let state = self.state();
            let (why, may_pass) = match state.holder() {
                None => match self.start().await {
                    Ok(Some(own)) => return Ok(own),
                    Ok(None) => ("another one was faster".to_owned(), true),
                    Err(error) => return Err(not_started(&error)),
                },
                Some(_) => match answering(state).await {
                    Ok(client) => return Ok(Known::Theirs(client)),
                    Err(error) => (error.to_string(), error.may_pass()),
                },
            };
            if !may_pass || Instant::now() >= deadline {
                return Err(unavailable(&format!(
                    "The codex-bridge daemon of {} does not serve: {why}. `codex-bridge status` says more",
                    self.source.state_dir.display()
                )));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Runs a daemon in this process; nothing when another one has the state directory already.
    async fn start(&self) -> anyhow::Result<Option<Known>> {
        let options = options(&self.source)?;
        let (ready, serving) = oneshot::channel();
        let mut daemon = tokio::spawn(run_daemon(options, ready, self.stop.clone()));
        tokio::select! {
            Ok(ready) = serving => {
                tracing::info!(
                    codex = ready.codex_version,
                    "no daemon ran here: this server runs one while it lives",
                );
                let client = ApiClient::new(self.state())?;
                Ok(Some(Known::Own(client, tokio::spawn(told(daemon)))))
            }
            ended = &mut daemon => match ended? {
                Ok(()) => Ok(None),
                Err(error) => match error.downcast_ref::<StateError>() {
                    Some(StateError::InUse { .. }) => Ok(None),
                    Some(_) | None => Err(error),
                },
            }
        }
    }
}

/// Says how our daemon ended, if that was not as it should.
async fn told(daemon: JoinHandle<anyhow::Result<()>>) {
    match daemon.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!("{}", term::escape_line(&format!("{error:#}"))),
        Err(error) => tracing::error!(%error, "the daemon failed"),
    }
}

async fn answering(state: StateDir) -> Result<ApiClient, ClientError> {
    let client = ApiClient::new(state)?;
    client.status().await?;
    Ok(client)
}

fn not_started(error: &anyhow::Error) -> ControlError {
    unavailable(&format!(
        "No codex-bridge daemon runs, and this server could not start one: {error:#}. \
         Mend that (`codex-bridge doctor` helps) and call again"
    ))
}

fn unavailable(message: &str) -> ControlError {
    ControlError::new(ControlErrorKind::Unavailable, message)
}
