//! A running turn is followed to its end: what it does is journaled, what it says is shown, and its end becomes
//! an answer, a failure, or a turn that was lost from sight.

use crate::Daemon;
use crate::process::ids::now;
use crate::turn::Claimed;
use crate::turn::agents::Calls;
use crate::turn::approvals::{AskedBefore, TurnRequests};
use crate::turn::progress::ProgressTimer;
use crate::turn::running::RunningTurn;
use crate::turn::watchdog::{Cause, Duty, Watchdog};
use bridge_core::channels;
use bridge_core::find::short_id;
use bridge_core::port::{
    Agent, ItemNote, Ledger, Sink, TRACE, TurnEnd, TurnEvent, TurnStatus, TurnStream, TurnTransport,
};
use bridge_core::step::{Answered, Fail, Lose, Name, Note, Suspend};
use bridge_core::value::{
    Class, ClientId, EventKind, Failure, MessageId, ThreadId, Timestamp, TurnId,
};
use bridge_front::LiveUpdate;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A turn that is followed to its end.
pub(crate) struct Followed {
    pub(crate) claimed: Arc<Claimed>,
    pub(crate) thread: ThreadId,
    pub(crate) turn_id: TurnId,
    /// When its intent was written down.
    pub(crate) started_at: Timestamp,
    /// How long it may take.
    pub(crate) patience: TurnTimeouts,
    /// Whether it ran before we followed it: a command may be at work that is silent for long.
    pub(crate) attached: bool,
    /// The texts that it was given before we followed it; its answer answers them too.
    pub(crate) received: Vec<ClientId>,
    /// What it asks other agents.
    pub(crate) calls: Arc<Calls>,
}

impl Followed {
    pub(crate) fn message_id(&self) -> &MessageId {
        &self.claimed.message.message_id
    }

    fn timed_out(&self) -> Failure {
        let timeout = self.patience.timeout.as_secs();
        // The legacy program gave a run that it ended the code -1, and people match on it.
        let code = match self.patience.transport {
            TurnTransport::AppServer => "",
            TurnTransport::Exec => " (exit=-1)",
        };
        Failure::new(
            Class::Permanent,
            format!("timed out after {timeout}s{code}"),
        )
    }

    /// A turn's time counts from its beginning, also when it is followed again after a restart, but for what it waited
    /// for people.
    fn time_left(&self, waited: Duration) -> Duration {
        let worked = gone_since(self.started_at).saturating_sub(waited);
        self.patience.timeout.saturating_sub(worked)
    }
}

/// How long a turn may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnTimeouts {
    /// From its start to its end.
    pub(crate) timeout: Duration,
    /// Without an event.
    pub(crate) idle: Duration,
    /// What runs it.
    pub(crate) transport: TurnTransport,
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    pub(crate) async fn follow(self: &Arc<Self>, turn: Followed, mut stream: A::Stream) {
        let before = if turn.attached {
            self.asked_before(&turn).await
        } else {
            AskedBefore::default()
        };
        let (requests, mut asked) = TurnRequests::new(before.open);
        let requests = Arc::new(requests);
        let mut entry = RunningEntry {
            daemon: self,
            turn: &turn,
            requests: Arc::clone(&requests),
            ended: false,
        };
        let stop = self.register(&turn, requests).await;
        let gone = gone_since(turn.started_at);
        let left = turn.time_left(before.waited);
        let mut watchdog = Watchdog::new(left, turn.patience.idle, Instant::now());
        watchdog.person(!asked.borrow_and_update().is_empty(), Instant::now());
        let mut progress =
            ProgressTimer::new(self.settings().progress_times(), gone, Instant::now());
        if turn.attached {
            watchdog.know_nothing();
        }
        let of_task = turn.claimed.message.channel.as_str() == channels::TASK;
        if of_task && self.settings().config.tasks.raw_events {
            stream.show_raw();
        }
        loop {
            let ending = watchdog.cause().is_some();
            let event = tokio::select! {
                event = stream.next() => event,
                () = tokio::time::sleep_until(watchdog.wake()) => {
                    let duty = watchdog.due(Instant::now());
                    self.do_duty(&turn, duty, watchdog.cause()).await;
                    continue;
                }
                () = tokio::time::sleep_until(progress.wake()), if !ending => {
                    progress.shown(Instant::now());
                    self.tell_progress(&turn);
                    continue;
                }
                () = stop.cancelled(), if !ending => {
                    let duty = watchdog.stop(Instant::now());
                    self.do_duty(&turn, duty, watchdog.cause()).await;
                    continue;
                }
                Ok(()) = asked.changed() => {
                    let waits = !asked.borrow_and_update().is_empty();
                    watchdog.person(waits, Instant::now());
                    continue;
                }
                () = self.halt.cancelled() => break,
            };
            watchdog.observe(&event, Instant::now());
            self.turns.running.note(turn.message_id(), &event);
            let ended = matches!(event, TurnEvent::Ended(_));
            let lost = matches!(event, TurnEvent::Lost { .. });
            if lost {
                // Before anybody looks for it.
                self.turns.detached.keep(turn.message_id(), &turn.calls);
            }
            self.news(&turn, event, watchdog.cause()).await;
            if ended {
                turn.calls.all_over();
            }
            if ended || lost {
                break;
            }
        }
        entry.ended = true;
    }

    /// A silent Codex is asked whether it is there; a turn that does not end when it is interrupted takes its
    /// Codex with it, and its stream ends as lost.
    async fn do_duty(&self, turn: &Followed, duty: Option<Duty>, cause: Option<Cause>) {
        let message_id = turn.message_id();
        match duty {
            None => {}
            Some(Duty::Probe) => {
                tracing::warn!(%message_id, "a turn was silent for too long");
                if let Err(error) = self.agent.probe(&turn.thread).await {
                    let reason = crate::term::escape_line(&error.failure.reason).into_owned();
                    tracing::error!(%message_id, reason, "codex does not answer and is ended");
                    let why = "codex was silent";
                    return self.agent.end_life(&turn.thread, why).await;
                }
                self.interrupt_turn(turn).await;
            }
            Some(Duty::Interrupt) => {
                tracing::warn!(id = %short_id(message_id), cause = cause.map(Cause::as_str), "a turn is interrupted");
                self.interrupt_turn(turn).await;
            }
            // A run has a process of its own: nobody else's turn ends with it.
            Some(Duty::EndLife) if turn.turn_id.is_run() => self.interrupt_turn(turn).await,
            Some(Duty::EndLife) => {
                tracing::error!(%message_id, "a turn does not end; its codex is ended");
                self.agent
                    .end_life(&turn.thread, "a turn did not end when it was interrupted")
                    .await;
            }
        }
    }

    async fn interrupt_turn(&self, turn: &Followed) {
        if let Err(error) = self.agent.interrupt(&turn.thread, &turn.turn_id).await {
            let message_id = turn.message_id();
            tracing::warn!(%error, %message_id, "the interrupt failed");
        }
    }

    /// Registers the turn first and reads its row then, so that no stop falls between the two.
    async fn register(&self, turn: &Followed, requests: Arc<TurnRequests>) -> CancellationToken {
        let stop = CancellationToken::new();
        let running = RunningTurn {
            thread: turn.thread.clone(),
            turn_id: turn.turn_id.clone(),
            stop: stop.clone(),
            requests,
            channel: turn.claimed.message.channel.clone(),
            doing: None,
        };
        let id = turn.message_id().clone();
        self.turns.running.lock().insert(id.clone(), running);
        match self.ledger.read(move |rows| rows.message(&id)).await {
            Ok(Some(message)) if message.life.stop.is_some() => stop.cancel(),
            Ok(_) => {}
            // Whether it was stopped is looked up again when the ledger can be read.
            Err(_) => self.turns.recheck(),
        }
        stop
    }

    async fn news(self: &Arc<Self>, turn: &Followed, event: TurnEvent, cause: Option<Cause>) {
        let message_id = turn.message_id();
        match event {
            TurnEvent::Alive => {}
            TurnEvent::Raw(line) => self.note(message_id, EventKind::Raw, line, false).await,
            TurnEvent::Stderr(line) => {
                self.note(message_id, EventKind::Stderr, line, false).await;
            }
            TurnEvent::Item(item) => {
                self.traces.item(&turn.claimed.message, &item);
                let wrote = item.effect && item.completed;
                self.item(message_id, item).await;
                if wrote {
                    self.store_thread(&turn.claimed, &turn.thread).await;
                }
            }
            TurnEvent::Text(said) => {
                tracing::debug!(target: TRACE, at = "text", %message_id);
                self.hub.publish(message_id, LiveUpdate::Text(said.into()));
            }
            TurnEvent::Named { thread } => {
                self.settle(Name {
                    message_id: message_id.clone(),
                    thread,
                })
                .await;
            }
            TurnEvent::Retrying { message } => {
                self.note(message_id, EventKind::Retrying, message, false)
                    .await;
            }
            TurnEvent::Request(asked) => {
                self.store_thread(&turn.claimed, &turn.thread).await;
                self.asked(turn, asked).await;
            }
            TurnEvent::Resolved(asked) => self.resolved(turn, asked).await,
            TurnEvent::Confirmed(asked) => self.confirmed(turn, asked).await,
            TurnEvent::Ended(end) => {
                self.note_quotas().await;
                self.ended(turn, end, cause).await;
            }
            TurnEvent::Lost { why } => {
                self.settle(Lose {
                    message_id: message_id.clone(),
                    why,
                    end: (cause == Some(Cause::Timeout)).then(|| turn.timed_out()),
                })
                .await;
            }
        }
    }

    async fn note(
        self: &Arc<Self>,
        message_id: &MessageId,
        kind: EventKind,
        text: String,
        effect: bool,
    ) {
        self.settle(Note {
            message_id: message_id.clone(),
            kind,
            text,
            effect,
        })
        .await;
    }

    /// What begins is journaled, and what may touch the world or was declined also when it ends.
    async fn item(self: &Arc<Self>, message_id: &MessageId, item: ItemNote) {
        let kind = if item.completed {
            EventKind::Completed
        } else {
            EventKind::Started
        };
        if item.effect || !item.completed || item.declined {
            self.note(message_id, kind, item.headline, item.effect)
                .await;
        }
        if let Some(diff) = item.diff {
            self.hub.publish(message_id, LiveUpdate::Diff(diff.into()));
        }
        if let Some(output) = item.output {
            let output = LiveUpdate::Output(output.into());
            self.hub.publish(message_id, output);
        }
    }

    async fn ended(self: &Arc<Self>, turn: &Followed, end: TurnEnd, cause: Option<Cause>) {
        let message_id = turn.message_id();
        // Before its answer: another node that takes the conversation over finds the thread as far as its answers.
        let stored = self.store_thread_whole(&turn.claimed, &turn.thread).await;
        if !stored {
            // The next daemon finds the turn, and how it ended.
            return;
        }
        let failure = match (end.status, end.answer, cause) {
            // A text that Codex marked as final is the answer, also of a turn that was cut after it.
            (TurnStatus::Completed, answer, _) | (_, answer @ Some(_), _) => {
                tracing::debug!(target: TRACE, at = "ended", %message_id);
                let parcel = self.gather(&turn.claimed).await;
                let answered = Answered {
                    attachments: parcel.files(),
                    message_id: message_id.clone(),
                    turn_id: end.turn_id,
                    text: parcel.complete(answer),
                    received: [turn.received.as_slice(), &end.received].concat(),
                    usage: end.usage,
                    reply_max_chars: self.reply_max_chars(&turn.claimed),
                };
                self.settle(answered).await;
                tracing::debug!(target: TRACE, at = "answered", %message_id);
                return self.let_go(message_id, parcel).await;
            }
            (TurnStatus::Interrupted, None, None) if self.stopping.is_cancelled() => {
                let message_id = message_id.clone();
                return self.settle(Suspend { message_id }).await;
            }
            (_, None, Some(Cause::Timeout)) => turn.timed_out(),
            (_, None, Some(Cause::Silence)) => {
                let idle = turn.patience.idle.as_secs();
                let why = format!("the turn was silent for {idle} s");
                Failure::new(Class::Transient, why)
            }
            (_, None, Some(Cause::Stopped) | None) => end.failure.unwrap_or_else(|| {
                Failure::new(Class::Transient, "the turn was interrupted at Codex")
            }),
        };
        self.settle(Fail {
            message_id: message_id.clone(),
            failure,
            touched: end.touched,
            usage: end.usage,
            on_cut: self.on_cut(&turn.claimed),
            pace: self.settings().pace(),
        })
        .await;
    }
}

/// The entry of a followed turn in the registry, given back when its task ends, also by a panic: then the turn runs on
/// unseen, and the task that finds it again goes on with its calls.
struct RunningEntry<'a, L: Ledger, A: Agent, S: Sink> {
    daemon: &'a Daemon<L, A, S>,
    turn: &'a Followed,
    requests: Arc<TurnRequests>,
    ended: bool,
}

impl<L: Ledger, A: Agent, S: Sink> Drop for RunningEntry<'_, L, A, S> {
    fn drop(&mut self) {
        let (daemon, message_id) = (self.daemon, self.turn.message_id());
        if !self.ended {
            daemon.turns.detached.keep(message_id, &self.turn.calls);
        }
        daemon.hub.clear_text(message_id);
        daemon.turns.running.remove(message_id, &self.requests);
    }
}

/// A turn's time counts from its beginning, also when it is followed again after a restart.
fn gone_since(started_at: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(now().since_ms(started_at)).unwrap_or(0))
}
