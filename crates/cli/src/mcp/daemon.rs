//! The daemon behind `mcp`: the one that runs on the state directory, or one of our own in this process.

use crate::client::{ApiClient, ClientError};
use anyhow::{anyhow, bail};
use bridge_core::deadline::after;
use bridge_daemon::state::{StateDir, StateError};
use bridge_daemon::term;
use bridge_daemon::{RunOptions, Source, Stop, run as run_daemon};
use std::time::Duration;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long another daemon may take from its lock to its first answer.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked for meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a daemon of our own is started with. Read anew each time: the configuration may have been mended since.
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
pub(super) struct DaemonHandle {
    source: Source,
    stop: Stop,
    daemon: Mutex<Option<FoundDaemon>>,
}

/// The daemon that was found last.
#[derive(Debug)]
enum FoundDaemon {
    /// Of another process; it answered.
    Foreign(ApiClient),
    Own(ApiClient, JoinHandle<()>),
}

impl FoundDaemon {
    fn client(&self) -> ApiClient {
        let (Self::Foreign(client) | Self::Own(client, _)) = self;
        client.clone()
    }
}

impl DaemonHandle {
    pub(super) fn new(source: Source, stop: Stop) -> Self {
        Self {
            source,
            stop,
            daemon: Mutex::default(),
        }
    }

    /// A client of a daemon that answers; started if need be. Others wait meanwhile: only one daemon is started.
    pub(super) async fn client(&self) -> anyhow::Result<ApiClient> {
        let mut daemon = self.daemon.lock().await;
        match &*daemon {
            Some(found @ FoundDaemon::Foreign(_)) if self.state().holder().is_some() => {
                return Ok(found.client());
            }
            Some(found @ FoundDaemon::Own(_, task)) if !task.is_finished() => {
                return Ok(found.client());
            }
            Some(_) | None => {}
        }
        let found = self.find().await?;
        Ok(daemon.insert(found).client())
    }

    /// The daemon of another process did not answer: the next call looks for one again.
    pub(super) async fn forget(&self) {
        let mut daemon = self.daemon.lock().await;
        daemon.take_if(|daemon| matches!(daemon, FoundDaemon::Foreign(_)));
    }

    /// Ends a daemon of our own as SIGTERM would.
    pub(super) async fn leave(&self) {
        self.stop.gently.cancel();
        if let Some(FoundDaemon::Own(_, task)) = self.daemon.lock().await.take() {
            let _ended = task.await;
        }
    }

    /// Named anew each time: the directory may not have existed before.
    fn state(&self) -> StateDir {
        StateDir::existing(&self.source.state_dir)
    }

    async fn find(&self) -> anyhow::Result<FoundDaemon> {
        let deadline = after(Instant::now(), START_PATIENCE);
        loop {
            if self.stop.gently.is_cancelled() {
                bail!("this MCP server is stopping");
            }
            let state = self.state();
            let (why, may_pass) = match state.holder() {
                None => match self.start().await {
                    Ok(Some(own)) => return Ok(own),
                    Ok(None) => ("another one was faster".to_owned(), true),
                    Err(error) => {
                        return Err(anyhow!(
                            "No codex-bridge daemon runs, and this server could not start one: {error:#}. \
                             Mend that (`codex-bridge doctor` helps) and call again"
                        ));
                    }
                },
                Some(_) => match answering(state).await {
                    Ok(client) => return Ok(FoundDaemon::Foreign(client)),
                    Err(error) => (error.to_string(), error.may_pass()),
                },
            };
            if !may_pass || Instant::now() >= deadline {
                bail!(
                    "The codex-bridge daemon of {} does not serve: {why}. `codex-bridge status` says more",
                    self.source.state_dir.display()
                );
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Runs a daemon in this process; nothing when another one has the state directory already.
    async fn start(&self) -> anyhow::Result<Option<FoundDaemon>> {
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
                Ok(Some(FoundDaemon::Own(client, tokio::spawn(log_end(daemon)))))
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

/// Logs how our daemon ended, unless it stopped as asked.
async fn log_end(daemon: JoinHandle<anyhow::Result<()>>) {
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
