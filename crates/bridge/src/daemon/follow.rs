//! A running turn is followed to its end: what it does is journaled, what it says is shown, and its end becomes
//! an answer, a failure, or a turn that was lost from sight.

use super::Daemon;
use super::ids::{now, request_id};
use bridge_core::limits::{REQUEST_PAYLOAD_MAX_CHARS, clip};
use bridge_core::port::{
    Agent, Asked, ItemNote, Ledger, Sink, TurnEnd, TurnEvent, TurnStatus, TurnStream,
};
use bridge_core::step::{Answered, Ask, Lose, Note, Suspend};
use bridge_core::value::{
    Class, EventKind, Failure, MessageId, Request, RequestDecision, RequestState, ThreadId,
    Timestamp, TurnId,
};
use bridge_front::Live;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long an interrupt may take to end a turn.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(10);

/// Shortest time between two live texts: nobody reads faster, and the answer itself is a row.
const TEXT_PAUSE: Duration = Duration::from_millis(50);

/// A turn that is followed to its end.
pub(crate) struct Followed {
    pub(crate) message_id: MessageId,
    pub(crate) thread: ThreadId,
    pub(crate) turn_id: TurnId,
    /// When its intent was written down.
    pub(crate) started_at: Timestamp,
}

/// How far the time budget of a turn is.
enum Budget {
    Running(Instant),
    /// It was used up: the turn was interrupted and must end now.
    Spent(Instant),
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    pub(crate) async fn follow(self: &Arc<Self>, turn: Followed, mut stream: A::Stream) {
        self.note_running(&turn, true);
        let mut budget = Budget::Running(self.deadline(turn.started_at));
        let mut next_text = Instant::now();
        loop {
            let deadline = match budget {
                Budget::Running(at) | Budget::Spent(at) => at,
            };
            let event = tokio::select! {
                event = stream.next() => event,
                () = tokio::time::sleep_until(deadline) => {
                    budget = self.time_is_up(&turn, budget).await;
                    continue;
                }
                () = self.halt.cancelled() => break,
            };
            if matches!(event, TurnEvent::Text { .. }) {
                if Instant::now() < next_text {
                    continue;
                }
                next_text = Instant::now() + TEXT_PAUSE;
            }
            let over = matches!(event, TurnEvent::Ended(_) | TurnEvent::Lost { .. });
            self.news(&turn.message_id, event, &budget).await;
            if over {
                break;
            }
        }
        self.note_running(&turn, false);
    }

    /// A turn's time counts from its beginning, also when it is followed again after a restart.
    fn deadline(&self, started_at: Timestamp) -> Instant {
        let gone = u64::try_from(now().since_ms(started_at)).unwrap_or(0);
        let left = self
            .settings
            .turn_timeout
            .saturating_sub(Duration::from_millis(gone));
        Instant::now() + left
    }

    /// First it is interrupted; a turn that does not end then takes its Codex with it, and its stream ends as lost.
    async fn time_is_up(&self, turn: &Followed, budget: Budget) -> Budget {
        let message_id = &turn.message_id;
        match budget {
            Budget::Running(_) => {
                tracing::warn!(%message_id, "a turn used up its time and is interrupted");
                if let Err(error) = self.agent.interrupt(&turn.thread, &turn.turn_id).await {
                    tracing::warn!(%error, %message_id, "the interrupt failed");
                }
            }
            Budget::Spent(_) => {
                tracing::error!(%message_id, "a turn does not end; its codex is ended");
                self.agent
                    .end_life("a turn did not end when it was interrupted")
                    .await;
            }
        }
        Budget::Spent(Instant::now() + INTERRUPT_PATIENCE)
    }

    fn note_running(&self, turn: &Followed, runs: bool) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match runs {
            true => running.insert(
                turn.message_id.clone(),
                (turn.thread.clone(), turn.turn_id.clone()),
            ),
            false => running.remove(&turn.message_id),
        };
    }

    async fn news(self: &Arc<Self>, message_id: &MessageId, event: TurnEvent, budget: &Budget) {
        match event {
            TurnEvent::Item(item) => self.item(message_id, item).await,
            TurnEvent::Text { text, .. } => {
                self.hub.publish(message_id, Live::Text(text.into()));
            }
            TurnEvent::Retrying { message } => {
                self.note(message_id, EventKind::Retrying, message, false)
                    .await;
            }
            TurnEvent::Asked(asked) => self.asked(message_id, asked).await,
            TurnEvent::Ended(end) => self.ended(message_id, end, budget).await,
            TurnEvent::Lost { why } => {
                self.settle(Lose {
                    message_id: message_id.clone(),
                    why,
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
        let request = Request {
            request_id: request_id(),
            message_id: message_id.clone(),
            attempt,
            incarnation: asked.incarnation.clone(),
            rpc_id: asked.rpc_id.clone(),
            item_id: asked.item_id.clone(),
            kind: asked.kind.clone(),
            headline: asked.headline.clone(),
            payload: clip(&asked.payload, REQUEST_PAYLOAD_MAX_CHARS),
            state: RequestState::Decided {
                decision: RequestDecision::Decline,
                by: "codex-bridge".to_owned(),
            },
            created_at: now(),
        };
        self.settle(Ask { request, told }).await;
        if let Err(error) = self.agent.decline(&asked).await {
            tracing::warn!(%error, %message_id, "a question of codex could not be declined");
        }
    }

    async fn ended(self: &Arc<Self>, message_id: &MessageId, end: TurnEnd, budget: &Budget) {
        let timeout = self.settings.turn_timeout.as_secs();
        let failure = match (end.status, end.answer, budget) {
            // A text that Codex marked as final is the answer, also of a turn that was cut after it.
            (TurnStatus::Completed, answer, _) | (_, answer @ Some(_), _) => {
                let answered = Answered {
                    message_id: message_id.clone(),
                    turn_id: end.turn_id,
                    text: answer,
                    usage: end.usage,
                    reply_max_chars: self.sink.max_chars(),
                };
                return self.settle(answered).await;
            }
            (TurnStatus::Interrupted, None, Budget::Running(_)) if self.stopping.is_cancelled() => {
                let message_id = message_id.clone();
                return self.settle(Suspend { message_id }).await;
            }
            (_, None, Budget::Spent(_)) => {
                Failure::new(Class::Permanent, format!("timed out after {timeout}s"))
            }
            (_, None, Budget::Running(_)) => end.failure.unwrap_or_else(|| {
                Failure::new(Class::Transient, "the turn was interrupted at Codex")
            }),
        };
        self.fail(message_id.clone(), failure, end.touched).await;
    }
}
