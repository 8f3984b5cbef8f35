//! One run: its keeper and process, its text, its lines, its end.
//!
//! The keeper's stdin is the stdin guard. It is ours alone, so the run ends when we let go of it, when we stop, and when we are
//! killed; what it started ends with it. Its row in the ledger is there before Codex has the text, so that the next
//! daemon finds a run that has not ended yet and waits for its end before it looks at the thread.

use super::RunSlot;
use super::args::args;
use super::run_end::RunEnd;
use crate::app_server::transport::Pipe;
use crate::app_server::{Host, wall_now};
use crate::error::agent_error;
use crate::keeper::launch::{self, LaunchOptions};
use crate::process;
use crate::thread::release::unarchive;
use crate::thread::{history, operator_config, settings};
use bridge_codex::exec::{ExecFold, ExecNews};
use bridge_codex::rpc::{INVALID_REQUEST, RpcError, RpcRefusal};
use bridge_codex::wire::thread::ThreadSettings;
use bridge_core::deadline::after;
use bridge_core::port::{
    AgentError, Extent, ItemNote, Ledger, Phase, TextUpdate, TurnEvent, TurnSpec,
};
use bridge_core::value::{Class, Incarnation, IncarnationId, ThreadId, Transport, TurnId};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a run may take to end after its stdin guard was let go, its last lines and its keeper together: the keeper gives
/// Codex a second and the rest five. Shorter than what the daemon waits for an interrupted turn.
const STOP_PATIENCE: Duration = Duration::from_secs(8);

/// A run that waits for its text.
pub(super) struct Run {
    turn: TurnSpec,
    incarnation: Incarnation,
    keeper: Child,
    stdin_guard: Option<ChildStdin>,
    /// When its patience ends; set when the stdin guard is let go.
    until: Option<Instant>,
    lines: Pipe,
    fold: ExecFold,
    /// Why its lines can't be followed any more.
    blind: Option<String>,
}

impl Run {
    /// Starts the process and writes it down. Codex does nothing before it has its text.
    pub(super) async fn begin<L: Ledger>(
        host: &Host<L>,
        turn: &TurnSpec,
    ) -> Result<Self, AgentError> {
        let options = &host.launch_options();
        let args = args(turn, &asked(host, turn).await?, options.overrides());
        let incarnation_id = IncarnationId::of_run(&turn.client_id);
        let directory = options.run_dir.join(incarnation_id.as_str());
        let started = start(options, turn, args, &directory);
        if let (Ok(_), Some(lease)) = (&started, &options.lease) {
            lease.follow(directory.clone());
        }
        let run = started.and_then(|child| Self::of(options, turn, directory, child));
        let run = run.map_err(|error| {
            agent_error(Class::Transient, format!("start `codex exec`: {error}"))
        })?;
        if let Err(error) = host.record(run.incarnation.clone()).await {
            let Self {
                incarnation,
                stdin_guard,
                ..
            } = run;
            drop(stdin_guard);
            launch::discard(&incarnation).await;
            return Err(error);
        }
        Ok(run)
    }

    fn of(
        options: &LaunchOptions,
        turn: &TurnSpec,
        directory: PathBuf,
        mut keeper: Child,
    ) -> io::Result<Self> {
        let pid = keeper.id().and_then(|pid| i32::try_from(pid).ok());
        let stamp = pid.and_then(process::child_stamp);
        let (Some(stamp), Some(stdin_guard), Some(stdout)) =
            (stamp, keeper.stdin.take(), keeper.stdout.take())
        else {
            return Err(io::Error::other("it ended at once"));
        };
        let incarnation = Incarnation {
            incarnation_id: IncarnationId::of_run(&turn.client_id),
            transport: Transport::Stdio,
            keeper: stamp,
            directory: directory.display().to_string(),
            codex_version: options.codex_version.clone(),
            codex_home: turn.spec.codex_home.clone(),
            boot_id: process::boot_id()?,
            started_at: wall_now(),
            ended_at: None,
            node_id: None,
        };
        Ok(Self {
            turn: turn.clone(),
            incarnation,
            keeper,
            stdin_guard: Some(stdin_guard),
            until: None,
            lines: Pipe::of(stdout),
            fold: ExecFold::default(),
            blind: None,
        })
    }

    /// Gives Codex its text and tells what happens until everything of the run is gone.
    pub(super) async fn follow<L: Ledger>(
        mut self,
        host: &Host<L>,
        slot: RunSlot,
        stop: &CancellationToken,
        events: &mpsc::Sender<TurnEvent>,
    ) {
        self.give_text(stop).await;
        self.listen(stop, events).await;
        let until = self.let_go();
        if tokio::time::timeout_at(until, self.keeper.wait())
            .await
            .is_err()
        {
            // The kernel ends Codex with its keeper.
            let _gone = self.keeper.start_kill();
        }
        let end = self.end(host, stop.is_cancelled(), &slot).await;
        // The thread is free before anybody hears of the end and wants it again.
        drop(slot);
        let _gone = events.send(end).await;
    }

    /// Lets go of the stdin guard; tells when the run must be gone, which stays the same however often it is asked.
    fn let_go(&mut self) -> Instant {
        self.stdin_guard = None;
        *self
            .until
            .get_or_insert_with(|| after(Instant::now(), STOP_PATIENCE))
    }

    /// Writes the prompt. A part of it counts as none: the keeper ends a run whose stdin guard goes before the text is whole.
    async fn give_text(&mut self, stop: &CancellationToken) {
        let Some(stdin_guard) = &mut self.stdin_guard else {
            return;
        };
        let give = async {
            stdin_guard.write_all(self.turn.text.as_bytes()).await?;
            stdin_guard.flush().await
        };
        tokio::select! {
            given = give => {
                if let Err(error) = given {
                    tracing::debug!(%error, "a run of codex ended before it had its text");
                }
            }
            () = stop.cancelled() => {}
        }
    }

    /// Reads until the run ends. When it is stopped, the stdin guard is dropped and the rest is read.
    async fn listen(&mut self, stop: &CancellationToken, events: &mpsc::Sender<TurnEvent>) {
        let mut until = Instant::now();
        loop {
            let held = self.stdin_guard.is_some();
            let line = tokio::select! {
                line = self.lines.next() => line,
                () = stop.cancelled(), if held => {
                    until = self.let_go();
                    continue;
                }
                () = tokio::time::sleep_until(until), if !held => return,
            };
            match line {
                Ok(Some(line)) => {
                    let news = self.fold.line(&line);
                    if self.is_astray() {
                        return;
                    }
                    // A follower that is gone has dropped the stream, which cancels `stop`.
                    let _gone = events.send(self.event(news)).await;
                }
                Ok(None) => return,
                Err(error) => {
                    self.blind = Some(error.to_string());
                    return;
                }
            }
        }
    }

    /// Whether Codex runs on another thread than the one it should resume.
    fn is_astray(&self) -> bool {
        let asked = &self.turn.thread;
        let given = self.fold.thread.as_ref();
        !asked.is_unnamed() && given.is_some_and(|given| given != asked)
    }

    fn event(&self, news: ExecNews) -> TurnEvent {
        match news {
            ExecNews::Thread(thread) if self.turn.thread.is_unnamed() => {
                TurnEvent::Named { thread }
            }
            ExecNews::Item {
                item_id,
                kind,
                completed,
                headline,
                effect,
                output,
            } => TurnEvent::Item(ItemNote {
                item_id,
                kind,
                completed,
                headline,
                effect,
                diff: None,
                output,
                declined: false,
            }),
            ExecNews::Said {
                item_id,
                completed,
                text,
            } => TurnEvent::Text(TextUpdate {
                item_id,
                phase: Phase::Unmarked,
                extent: if completed {
                    Extent::Whole
                } else {
                    Extent::Head
                },
                text,
            }),
            ExecNews::Retrying { message } => TurnEvent::Retrying { message },
            ExecNews::Thread(_) | ExecNews::Alive => TurnEvent::Alive,
        }
    }

    /// The last event, once the process and everything it started is gone.
    async fn end<L: Ledger>(mut self, host: &Host<L>, stopped: bool, slot: &RunSlot) -> TurnEvent {
        let status = self.keeper.wait().await;
        let code = status.ok().and_then(|status| status.code()).unwrap_or(-1);
        let tail = match launch::lease_end(&self.incarnation) {
            Some(why) => why.to_owned(),
            None => launch::stderr_tail(Path::new(&self.incarnation.directory)),
        };
        launch::remove_directory(&self.incarnation);
        host.record_gone(&self.incarnation.incarnation_id).await;
        if self.is_astray() {
            return TurnEvent::Lost {
                why: "`codex exec` began another thread than the one it should resume".to_owned(),
            };
        }
        if let Some(why) = self.blind {
            return TurnEvent::Lost { why };
        }
        let run_end = RunEnd {
            fold: self.fold,
            stopped,
            code,
            tail,
        };
        heal(host, &self.turn, &run_end).await;
        let fresh = self.turn.thread.is_unnamed();
        let named = run_end.fold.thread.clone();
        let before = named
            .as_ref()
            .and_then(|id| slot.count(id, fresh, run_end.fold.usage));
        let stand_in = TurnId::of_run(&self.turn.client_id);
        let turn_id = match (run_end.completed(), named) {
            (true, Some(thread)) => newest(host, thread).await,
            (true | false, _) => None,
        };
        TurnEvent::Ended(run_end.turn_end(turn_id.unwrap_or(stand_in), before))
    }
}

async fn newest<L: Ledger>(host: &Host<L>, thread: ThreadId) -> Option<TurnId> {
    let session = host.session().await.ok()?;
    let found = history::newest(&session, thread).await;
    if found.is_none() {
        tracing::warn!("codex did not tell the id of the turn that `codex exec` ran");
    }
    found
}

/// A thread that was let go of, and was left archived by a crash in between, is brought back: the next try has it.
async fn heal<L: Ledger>(host: &Host<L>, turn: &TurnSpec, run_end: &RunEnd) {
    let refused = RpcError::new(INVALID_REQUEST, run_end.tail.as_str()).refusal();
    if run_end.fold.began || refused != RpcRefusal::Archived {
        return;
    }
    let thread = turn.thread.clone();
    let back = match host.session().await {
        Ok(session) => unarchive(&session, &thread).await,
        Err(error) => Err(error),
    };
    if let Err(error) = back {
        tracing::warn!(%error, "an archived thread could not be brought back");
    }
}

/// What the run's thread is asked to be, the same as on the app-server: it is given by flags, and Codex does not report
/// back what came of it.
async fn asked<L: Ledger>(host: &Host<L>, turn: &TurnSpec) -> Result<ThreadSettings, AgentError> {
    let session = host.session().await?;
    host.ensure_isolation(&session, &turn.spec).await?;
    let operator = operator_config::read(&session.connection, &turn.spec).await?;
    Ok(settings(&turn.spec, &session.isolation, &operator))
}

fn start(
    options: &LaunchOptions,
    turn: &TurnSpec,
    args: Vec<String>,
    directory: &Path,
) -> io::Result<Child> {
    if options.is_lease_over() {
        return Err(io::Error::other("the lease of this node is over"));
    }
    launch::make_directory(directory)?;
    let child = Command::new(&options.keeper)
        .arg("keeper")
        .arg("--directory")
        .arg(directory)
        .args(["--transport", Transport::Stdio.as_str(), "--linger-ms", "0"])
        .args(options.lease_args())
        .args(["--prompt-bytes", &turn.text.len().to_string()])
        .arg("--")
        .arg(&options.codex)
        .args(args)
        .env_clear()
        .envs(options.env.iter().map(|(name, value)| (name, value)))
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    child.inspect_err(|_| {
        // Nothing was started that could leave anything else.
        let _left = std::fs::remove_dir(directory);
    })
}
