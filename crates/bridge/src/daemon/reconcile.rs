//! A turn whose end we did not see: look at Codex's history while holding the thread's writer, let the core
//! decide, and follow the turn again if it still runs.

use super::Daemon;
use super::follow::Followed;
use super::ids::jitter;
use bridge_core::limits;
use bridge_core::port::{Agent, Found, Ledger, LedgerError, Looked, LostTurn, Sink, TurnSpec};
use bridge_core::prompt::turn_text;
use bridge_core::retry::backoff_ms;
use bridge_core::step::{Note, Reconcile};
use bridge_core::value::{EventKind, MessageId, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// Longest pause between two looks.
const LOOK_PAUSE_MAX_MS: i64 = 60_000;

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Looks until it has seen; the row stays `unclear` as long as that takes.
    pub(crate) async fn reconcile(self: Arc<Self>, message_id: MessageId) {
        let mut told = String::new();
        for tries in 0_u32.. {
            let Err(reason) = self.look(&message_id).await else {
                return;
            };
            let shown = crate::term::escape_line(&reason).into_owned();
            tracing::warn!(%message_id, reason = shown, "a lost turn could not be looked at yet");
            if told != reason {
                self.tell_blind(&message_id, &reason).await;
                told = reason;
            }
            let pause = backoff_ms(
                tries,
                limits::RECONCILE_RETRY_MS,
                LOOK_PAUSE_MAX_MS,
                jitter(),
            );
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(u64::try_from(pause).unwrap_or(1))) => {}
                () = self.stopping.cancelled() => return,
            }
        }
    }

    /// Whoever waits for the answer hears what it waits for, once per reason.
    async fn tell_blind(self: &Arc<Self>, message_id: &MessageId, reason: &str) {
        self.settle(Note {
            message_id: message_id.clone(),
            kind: EventKind::Bridge,
            text: format!("what became of the turn can't be seen yet: {reason}"),
            effect: false,
        })
        .await;
    }

    async fn look(self: &Arc<Self>, message_id: &MessageId) -> Result<(), String> {
        let lost = self
            .lost_turn(message_id)
            .await
            .map_err(|error| error.to_string())?;
        let Some((lost, started_at)) = lost else {
            return Ok(());
        };
        let looked = self.agent.look(&lost).await;
        let Looked { found, stream, .. } = looked.map_err(|fault| fault.to_string())?;
        let running = match &found {
            Found::Turn(finding) => Some(finding.turn_id.clone()),
            Found::Absent | Found::Foreign | Found::Unreadable { .. } => None,
        };
        let decided = self
            .commit(Reconcile {
                message_id: message_id.clone(),
                found,
                boot_id: self.settings.boot_id.clone(),
                reply_max_chars: self.sink.max_chars(),
                pace: self.settings.pace(),
            })
            .await;
        match (decided, stream, running) {
            (Ok(true), Some(stream), Some(turn_id)) => {
                let followed = Followed {
                    message_id: message_id.clone(),
                    thread: lost.turn.thread,
                    turn_id,
                    started_at,
                };
                self.follow(followed, stream).await;
                Ok(())
            }
            (Ok(_), _, _) | (Err(LedgerError::Refused(_)), _, _) => Ok(()),
            (Err(error), _, _) => Err(error.to_string()),
        }
    }

    async fn lost_turn(
        self: &Arc<Self>,
        message_id: &MessageId,
    ) -> Result<Option<(LostTurn, Timestamp)>, LedgerError> {
        let Some((message, conversation)) = self.load(message_id).await? else {
            return Ok(None);
        };
        let (id, attempt) = (message_id.clone(), message.life.attempt);
        let turn = self
            .ledger
            .read(move |rows| rows.turn(&id, attempt))
            .await?;
        Ok(turn.map(|turn| {
            let lost = LostTurn {
                turn: TurnSpec {
                    thread: turn.thread,
                    spec: self.settings.thread_spec(message.tier, &conversation),
                    client_id: turn.client_id,
                    text: turn_text(&message),
                },
                after_turn: turn.after_turn,
                incarnation: turn.incarnation,
            };
            (lost, turn.started_at)
        }))
    }
}
