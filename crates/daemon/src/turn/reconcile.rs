//! A turn whose end we did not see: look at Codex's history while holding the thread's writer, let the core
//! decide, and follow the turn again if it still runs.

use crate::Daemon;
use crate::process::ids::{jitter, now};
use crate::turn::Claimed;
use crate::turn::follow::Followed;
use bridge_core::limits;
use bridge_core::port::{
    Agent, Ledger, LedgerError, LostTurn, Sink, TurnHistory, TurnLookup, TurnSpec, TurnStatus,
    TurnTransport,
};
use bridge_core::prompt::turn_text;
use bridge_core::retry::backoff_ms;
use bridge_core::step::{DeferReconcile, Reconcile};
use bridge_core::value::{Failure, MessageId, StateName, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// Longest pause between two looks.
const LOOK_PAUSE_MAX_MS: i64 = 15_000;

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Looks until it has seen; the row stays `unclear` as long as that takes.
    pub(crate) async fn reconcile(self: Arc<Self>, message_id: MessageId) {
        let _in_flight = self.turns.in_flight.enter(&message_id);
        for tries in 0_u32.. {
            let Err(failure) = self.look(&message_id).await else {
                return;
            };
            let reason = crate::term::escape_line(&failure.reason).into_owned();
            tracing::warn!(%message_id, reason, "a lost turn could not be looked at yet");
            let pause = backoff_ms(
                tries,
                limits::RECONCILE_RETRY_MS,
                LOOK_PAUSE_MAX_MS,
                jitter(),
            );
            self.settle(DeferReconcile {
                message_id: message_id.clone(),
                failure,
                until: now().plus_ms(pause),
            })
            .await;
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(u64::try_from(pause).unwrap_or(1))) => {}
                () = self.stopping.cancelled() => return,
            }
        }
    }

    async fn look(self: &Arc<Self>, message_id: &MessageId) -> Result<(), Failure> {
        let lost = self.lost_turn(message_id).await?;
        let Some((claimed, lost, started_at)) = lost else {
            self.turns.detached.over(message_id);
            return Ok(());
        };
        let TurnSpec { thread, spec, .. } = &lost.turn;
        self.bring_thread(&claimed.conversation, thread, spec)
            .await?;
        let looked = self.agent.look_up(&lost).await;
        let TurnLookup { mut found, stream } = looked.map_err(|fault| fault.failure)?;
        if let TurnHistory::Turn(finding) = &found {
            // Before what is found of it, as a followed turn's before its answer.
            if finding.status == TurnStatus::InProgress {
                self.store_thread(&claimed, thread).await;
            } else if !self.store_thread_whole(&claimed, thread).await {
                return Ok(());
            }
        }
        let parcel = self.harvest(&claimed, &mut found).await;
        let running = match &found {
            TurnHistory::Turn(finding) => Some((finding.turn_id.clone(), finding.received.clone())),
            TurnHistory::Absent | TurnHistory::Foreign | TurnHistory::Unreadable { .. } => None,
        };
        let decided = self
            .commit(Reconcile {
                message_id: message_id.clone(),
                found,
                boot_id: self.settings().start.boot_id.clone(),
                attachments: parcel.files(),
                reply_max_chars: self.reply_max_chars(&claimed),
                on_cut: self.on_cut(&claimed),
                pace: self.settings().pace(),
            })
            .await;
        self.let_go(message_id, parcel).await;
        match (decided, stream, running) {
            (Ok(true), Some(stream), Some((turn_id, received))) => {
                let followed = Followed {
                    claimed,
                    thread: lost.turn.thread,
                    turn_id,
                    started_at,
                    // A run of `codex exec` is never found running: it ends with its follower.
                    patience: self.settings().patience(TurnTransport::AppServer),
                    attached: true,
                    received,
                    calls: self.turns.detached.found(message_id),
                };
                self.follow(followed, stream).await;
                Ok(())
            }
            (Ok(_), _, _) | (Err(LedgerError::Refused(_)), _, _) => {
                self.turns.detached.over(message_id);
                self.forget_secrets_of(message_id).await;
                Ok(())
            }
            (Err(error), _, _) => Err(ledger_failure(error)),
        }
    }

    async fn lost_turn(
        self: &Arc<Self>,
        message_id: &MessageId,
    ) -> Result<Option<(Arc<Claimed>, LostTurn, Timestamp)>, Failure> {
        let loaded = self.load(message_id).await.map_err(ledger_failure)?;
        let Some(claimed) = loaded else {
            return Ok(None);
        };
        let message = &claimed.message;
        // Who moved a conversation to another node leaves its lost turn to that one.
        let here = self.is_at_home(&message.conversation_id).await;
        if message.life.state.name() != StateName::Unclear || !here.map_err(ledger_failure)? {
            return Ok(None);
        }
        let (id, attempt) = (message_id.clone(), message.life.attempt);
        let turn = self.ledger.read(move |rows| rows.turn(&id, attempt)).await;
        let turn = turn.map_err(ledger_failure)?;
        let spec = self.spec_of(message, &claimed.conversation).await?;
        let text = turn_text(message, &[]);
        Ok(turn.map(|turn| {
            let lost = LostTurn {
                turn: TurnSpec {
                    thread: turn.thread,
                    spec,
                    client_id: turn.client_id,
                    text,
                    images: Vec::new(),
                    trace: None,
                },
                turn_id: turn.turn_id,
                after_turn: turn.after_turn,
                incarnation: turn.incarnation,
            };
            (claimed, lost, turn.started_at)
        }))
    }
}

fn ledger_failure(error: LedgerError) -> Failure {
    Failure::new(error.class(), error.to_string())
}
