//! A running turn is followed to its end: what it does is journaled, what it says is shown, and its end becomes
//! an answer, a failure, or a turn that was lost from sight.

use super::Daemon;
use super::activity::Doing;
use super::ids::{now, request_id};
use super::progress::Progress;
use super::watchdog::{Cause, Duty, Watchdog};
use bridge_core::limits::{REQUEST_PAYLOAD_MAX_CHARS, clip};
use bridge_core::port::{
    Agent, Asked, ItemNote, Ledger, Sink, TurnEnd, TurnEvent, TurnStatus, TurnStream,
};
use bridge_core::step::{Answered, Ask, Lose, Name, Note, Suspend};
use bridge_core::value::{
    ChannelId, Class, ClientId, Deciders, EffectDigest, EventKind, Failure, MessageId, Request,
    RequestDecision, RequestState, RequestVerdict, ThreadId, Timestamp, TurnId,
};
use bridge_front::Live;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A turn that is followed to its end.
pub(crate) struct Followed {
    pub(crate) message_id: MessageId,
    pub(crate) thread: ThreadId,
    pub(crate) turn_id: TurnId,
    /// When its intent was written down.
    pub(crate) started_at: Timestamp,
    /// How long it may take.
    pub(crate) patience: Patience,
    /// Whether it ran before we followed it: a command may be at work of which nothing will be heard for long.
    pub(crate) attached: bool,
    /// What its end must say: which texts it was given before we followed it.
    pub(crate) heard: Vec<ClientId>,
}

impl Followed {
    fn timed_out(&self) -> Failure {
        let timeout = self.patience.timeout.as_secs();
        Failure::new(Class::Permanent, format!("timed out after {timeout}s"))
    }

    /// A turn's time counts from its beginning, also when it is followed again after a restart.
    fn time_left(&self) -> Duration {
        let gone = u64::try_from(now().since_ms(self.started_at)).unwrap_or(0);
        let timeout = self.patience.timeout;
        timeout.saturating_sub(Duration::from_millis(gone))
    }
}

/// How long a turn may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// In all.
    pub(crate) timeout: Duration,
    /// Without a sign of it.
    pub(crate) idle: Duration,
}

/// A turn that runs now, for whoever wants it to end.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) thread: ThreadId,
    pub(crate) turn_id: TurnId,
    /// Set when a person stopped it.
    pub(crate) stop: CancellationToken,
    /// Whose platform may show what it does; not known before its row was read.
    pub(crate) channel: Option<ChannelId>,
    /// The newest thing it began.
    pub(crate) doing: Option<Doing>,
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    pub(crate) async fn follow(self: &Arc<Self>, turn: Followed, mut stream: A::Stream) {
        let stop = self.note_running(&turn).await;
        let gone = gone_since(turn.started_at);
        let left = turn.time_left();
        let mut watchdog = Watchdog::new(left, turn.patience.idle, Instant::now());
        let mut progress = Progress::new(self.settings().progress, gone, Instant::now());
        if turn.attached {
            watchdog.know_nothing();
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
                    progress.told(Instant::now());
                    self.tell_progress(&turn.message_id, turn.started_at);
                    continue;
                }
                () = stop.cancelled(), if !ending => {
                    let duty = watchdog.stop(Instant::now());
                    self.do_duty(&turn, duty, watchdog.cause()).await;
                    continue;
                }
                () = self.halt.cancelled() => break,
            };
            watchdog.heard(&event, Instant::now());
            self.note_doing(&turn.message_id, &event);
            let over = matches!(event, TurnEvent::Ended(_) | TurnEvent::Lost { .. });
            self.news(&turn, event, watchdog.cause()).await;
            if over {
                break;
            }
        }
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&turn.message_id);
    }

    /// A silent Codex is asked whether it is there; a turn that does not end when it is interrupted takes its
    /// Codex with it, and its stream ends as lost.
    async fn do_duty(&self, turn: &Followed, duty: Option<Duty>, cause: Option<Cause>) {
        let message_id = &turn.message_id;
        match duty {
            None => {}
            Some(Duty::Probe) => {
                tracing::warn!(%message_id, "nothing was heard of a turn for too long");
                if let Err(error) = self.agent.probe(&turn.thread).await {
                    let reason = crate::term::escape_line(&error.failure.reason).into_owned();
                    tracing::error!(%message_id, reason, "codex does not answer and is ended");
                    let why = "codex was silent";
                    return self.agent.end_life(&turn.thread, why).await;
                }
                self.interrupt_turn(turn).await;
            }
            Some(Duty::Interrupt) => {
                tracing::warn!(%message_id, ?cause, "a turn is interrupted");
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
            let message_id = &turn.message_id;
            tracing::warn!(%error, %message_id, "the interrupt failed");
        }
    }

    /// Registers the turn first and reads the row then, so that no stop falls between the two.
    async fn note_running(&self, turn: &Followed) -> CancellationToken {
        let stop = CancellationToken::new();
        let running = Running {
            thread: turn.thread.clone(),
            turn_id: turn.turn_id.clone(),
            stop: stop.clone(),
            channel: None,
            doing: None,
        };
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(turn.message_id.clone(), running);
        let stopped = match self.load(&turn.message_id).await {
            Ok(Some((message, _))) => {
                self.note_channel(&message);
                message.life.stop.is_some()
            }
            Ok(None) => false,
            Err(_) => {
                // Whether it was stopped is looked up again when the ledger can be read.
                self.doubt.notify_one();
                false
            }
        };
        if stopped {
            stop.cancel();
        }
        stop
    }

    async fn news(self: &Arc<Self>, turn: &Followed, event: TurnEvent, cause: Option<Cause>) {
        let message_id = &turn.message_id;
        match event {
            TurnEvent::Alive => {}
            TurnEvent::Item(item) => self.item(message_id, item).await,
            TurnEvent::Text { text, .. } => {
                self.hub.publish(message_id, Live::Text(text.into()));
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
            TurnEvent::Asked(asked) => self.asked(message_id, asked).await,
            TurnEvent::Resolved(_) => {}
            TurnEvent::Ended(end) => self.ended(turn, end, cause).await,
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

    /// What begins is journaled, and what may touch the world also when it ends.
    async fn item(self: &Arc<Self>, message_id: &MessageId, item: ItemNote) {
        let kind = match item.completed {
            true => EventKind::Completed,
            false => EventKind::Started,
        };
        if item.effect || !item.completed {
            self.note(message_id, kind, item.headline, item.effect)
                .await;
        }
    }

    /// Nobody can answer yet, and silence is never consent: journaled as declined, then declined.
    async fn asked(self: &Arc<Self>, message_id: &MessageId, asked: Asked) {
        let told = format!(
            "Codex asked: {}. Declined: nobody here can answer it",
            asked.headline
        );
        let attempt = match self.load(message_id).await {
            Ok(Some((message, _))) => message.life.attempt,
            Ok(None) | Err(_) => 0,
        };
        let verdict = RequestVerdict {
            decision: RequestDecision::Decline,
            answers: None,
            by: "codex-bridge".to_owned(),
            via: "codex-bridge".to_owned(),
            at: now(),
        };
        let request = Request {
            request_id: request_id(),
            message_id: message_id.clone(),
            attempt,
            incarnation: asked.asked.incarnation.clone(),
            rpc_id: asked.asked.rpc_id.clone(),
            item_id: asked.asked.item_id.clone(),
            method: asked.method.clone(),
            digest: EffectDigest::of(&asked.kind, &asked.shown),
            kind: asked.kind,
            headline: asked.headline,
            shown: asked.shown,
            payload: clip(&asked.payload, REQUEST_PAYLOAD_MAX_CHARS),
            deciders: Deciders::Owner,
            state: RequestState::Decided(verdict.clone()),
            created_at: now(),
            deadline: now(),
            reminded: false,
        };
        self.settle(Ask { request, told }).await;
        if let Err(error) = self.agent.respond(&asked.asked, &verdict).await {
            tracing::warn!(%error, %message_id, "a question of codex could not be declined");
        }
    }

    async fn ended(self: &Arc<Self>, turn: &Followed, end: TurnEnd, cause: Option<Cause>) {
        let message_id = &turn.message_id;
        let failure = match (end.status, end.answer, cause) {
            // A text that Codex marked as final is the answer, also of a turn that was cut after it.
            (TurnStatus::Completed, answer, _) | (_, answer @ Some(_), _) => {
                let parcel = self.gather(message_id).await;
                let answered = Answered {
                    attachments: parcel.files(),
                    message_id: message_id.clone(),
                    turn_id: end.turn_id,
                    text: parcel.told(answer),
                    heard: [turn.heard.as_slice(), &end.heard].concat(),
                    usage: end.usage,
                    reply_max_chars: self.reply_max_chars(message_id).await,
                };
                self.settle(answered).await;
                return self.let_go(message_id, parcel).await;
            }
            (TurnStatus::Interrupted, None, None) if self.stopping.is_cancelled() => {
                let message_id = message_id.clone();
                return self.settle(Suspend { message_id }).await;
            }
            (_, None, Some(Cause::Timeout)) => turn.timed_out(),
            (_, None, Some(Cause::Silence)) => {
                let idle = turn.patience.idle.as_secs();
                let why = format!("nothing was heard of the turn for {idle} s");
                Failure::new(Class::Transient, why)
            }
            (_, None, Some(Cause::Stopped) | None) => end.failure.unwrap_or_else(|| {
                Failure::new(Class::Transient, "the turn was interrupted at Codex")
            }),
        };
        self.fail(message_id.clone(), failure, end.touched).await;
    }
}

/// A turn's time counts from its beginning, also when it is followed again after a restart.
fn gone_since(started_at: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(now().since_ms(started_at)).unwrap_or(0))
}
