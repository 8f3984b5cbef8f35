//! The reply lanes: one per conversation, strictly in order, each reply's intent on disk before it is sent.

use crate::Daemon;
use crate::process::clock::until_due;
use crate::process::ids::{jitter, now};
use bridge_channel::files::FILE_TRIES_MAX;
use bridge_core::limits::{PAGE_MAX, TWIN_WINDOW_MS};
use bridge_core::port::{Agent, Approach, Ledger, LedgerError, Probe, Sink, SinkFault, TRACE};
use bridge_core::step::{Confirm, Send, SendFailed, SendOutcome};
use bridge_core::value::{Class, ConversationId, Failure, Message, Reply, Timestamp, Twin};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a look at a lane may take: long questions of others may be before it.
const LOOK_MAX: Duration = Duration::from_millis(100);
/// Pause after the ledger failed under a lane.
const FAULT_PAUSE_MS: i64 = 1_000;
/// Looks for replies that say the same, each further back: one is enough unless one of them was tried for long.
const TWIN_LOOKS_MAX: u32 = 8;
/// How far a platform's clock may be off when it says that a reply was shown.
const TWIN_SLACK_MS: i64 = 10_000;

/// Lanes that a task works on; `true` when another look was asked for meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Lanes(Mutex<HashMap<ConversationId, bool>>);

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a lane; `false` when another task has it, which then looks once more.
    fn enter(&self, id: &ConversationId) -> bool {
        let mut lanes = self.lock();
        if let Some(again) = lanes.get_mut(id) {
            *again = true;
            return false;
        }
        lanes.insert(id.clone(), false);
        true
    }

    /// Gives the lane up; `false` when another look was asked for meanwhile.
    fn leave(&self, id: &ConversationId) -> bool {
        let mut lanes = self.lock();
        match lanes.get_mut(id) {
            Some(again) if *again => {
                *again = false;
                false
            }
            Some(_) | None => {
                lanes.remove(id);
                true
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Works on a lane, unless a task does already.
    pub(crate) fn deliver(self: &Arc<Self>, conversation_id: ConversationId) {
        if !self.lanes.enter(&conversation_id) {
            return;
        }
        let daemon = Arc::clone(self);
        self.spawn_for(conversation_id.clone(), async move {
            let entry = LaneEntry {
                lanes: &daemon.lanes,
                conversation_id: &conversation_id,
            };
            daemon.lane(&conversation_id).await;
            entry.disarm();
        });
    }

    async fn lane(self: &Arc<Self>, conversation_id: &ConversationId) {
        loop {
            let pause_until = match self.send_next(conversation_id).await {
                Ok(Next::Sent) => continue,
                Ok(Next::Empty) if self.lanes.leave(conversation_id) => return,
                Ok(Next::Empty) => continue,
                Ok(Next::Later(at)) => at,
                Err(error) => {
                    tracing::error!(%error, %conversation_id, "a lane can't use the database");
                    now().plus_ms(FAULT_PAUSE_MS)
                }
            };
            tokio::select! {
                () = until_due(Some(pause_until)) => {}
                () = self.stopping.cancelled() => return,
            }
        }
    }

    async fn send_next(self: &Arc<Self>, lane: &ConversationId) -> Result<Next, LedgerError> {
        match self
            .commit(Send {
                conversation_id: lane.clone(),
            })
            .await?
        {
            SendOutcome::Empty => Ok(Next::Empty),
            SendOutcome::Later(at) => Ok(Next::Later(at)),
            SendOutcome::Send {
                message,
                reply,
                again,
            } => match self.send(&message, &reply, again).await? {
                Next::Sent if self.is_empty(lane).await => Ok(Next::Empty),
                next => Ok(next),
            },
        }
    }

    /// Whether a lane has nothing more: a look beside the writer, because most have one reply. A look that takes long
    /// or fails says nothing, and the writer is asked.
    async fn is_empty(&self, lane: &ConversationId) -> bool {
        let lane = lane.clone();
        let next = self.ledger.read(move |rows| rows.next_reply(&lane));
        let looked = tokio::time::timeout(LOOK_MAX, next).await;
        matches!(looked, Ok(Ok(None)))
    }

    /// Sends a reply; one that may have arrived is first looked for, or sent again, as its platform allows.
    async fn hand_over(&self, message: &Message, reply: &Reply, again: bool) -> Handed {
        let class = self.sink.traits(message).class;
        match class.approach(again) {
            Approach::Send => self.send_with_files(message, reply).await,
            Approach::Probe => match self.look_for(message, reply).await {
                Ok(Probe::Present { receipt }) => Ok(receipt),
                Ok(Probe::Absent) => self.send_with_files(message, reply).await,
                Err(fault) => Err(still_ambiguous(fault)),
            },
            Approach::GiveUp(failure) => Err(failure.into()),
        }
    }

    /// Files that another node made are brought first; like one that the platform does not take now, they keep the text
    /// back for a few tries only.
    async fn send_with_files(&self, message: &Message, reply: &Reply) -> Handed {
        match self.bring_files(&reply.attachments).await {
            Err(failure) if may_pass(&failure) && reply.tries <= FILE_TRIES_MAX => {
                return Err(failure.into());
            }
            Ok(()) | Err(_) => {}
        }
        let may_act = || self.expect_lease();
        self.sink.send(message, reply, &may_act).await
    }

    /// Looks for a reply, knowing which others say the same and are there.
    async fn look_for(&self, message: &Message, reply: &Reply) -> Result<Probe, SinkFault> {
        match self.twins(message, reply).await {
            Ok(twins) => self.sink.probe(message, reply, &twins).await,
            Err(error) => Err(SinkFault {
                failure: Failure::new(
                    Class::Ambiguous,
                    format!("replies that say the same could not be counted: {error}"),
                ),
            }),
        }
    }

    /// The replies that say the same as one, and were taken while any of them may have been shown. One that was tried
    /// for long may be any bubble of that time, so those of that time are asked for too.
    async fn twins(&self, message: &Message, reply: &Reply) -> Result<Vec<Twin>, LedgerError> {
        let (channel, kind) = (message.channel.clone(), message.kind);
        let body = reply.body.clone();
        let first_try = reply.first_try_at.unwrap_or(reply.created_at);
        self.ledger
            .read(move |rows| {
                let mut since = first_try.plus_ms(-TWIN_WINDOW_MS);
                let mut twins = Vec::new();
                for _ in 0..TWIN_LOOKS_MAX {
                    twins = rows.twins(&channel, kind, &body, since, PAGE_MAX)?;
                    let tries = twins.iter().map(|twin| twin.first_try_at);
                    let begun = tries.min().map(|oldest| oldest.plus_ms(-TWIN_SLACK_MS));
                    match begun.filter(|begun| *begun < since) {
                        Some(begun) => since = begun,
                        None => break,
                    }
                }
                Ok(twins)
            })
            .await
    }

    async fn send(
        self: &Arc<Self>,
        message: &Message,
        reply: &Reply,
        again: bool,
    ) -> Result<Next, LedgerError> {
        let (message_id, ordinal) = (message.message_id.clone(), reply.ordinal);
        tracing::debug!(target: TRACE, at = "handed", %message_id, ordinal);
        match self.hand_over(message, reply, again).await {
            Ok(receipt) => {
                tracing::debug!(target: TRACE, at = "taken", %message_id, ordinal);
                self.commit(Confirm {
                    message_id,
                    ordinal,
                    receipt,
                })
                .await?;
                Ok(Next::Sent)
            }
            Err(fault) => {
                let failure = fault.failure;
                let reason = crate::term::escape_line(&failure.reason).into_owned();
                tracing::warn!(%message_id, ordinal, reason, class = failure.class.as_str(), "a reply was not taken");
                let failed = SendFailed {
                    message_id,
                    ordinal,
                    failure,
                    jitter: jitter(),
                };
                Ok(self.commit(failed).await?.map_or(Next::Sent, Next::Later))
            }
        }
    }
}

/// The entry of a lane in the registry, given back when its task panics: otherwise nothing of the conversation would be
/// delivered until the next start.
struct LaneEntry<'a> {
    lanes: &'a Lanes,
    conversation_id: &'a ConversationId,
}

impl LaneEntry<'_> {
    /// The lane ended by itself. It took its entry out in `leave`, and another task may have one since.
    fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for LaneEntry<'_> {
    fn drop(&mut self) {
        self.lanes.lock().remove(self.conversation_id);
    }
}

/// Whether a file that is missing may still come.
fn may_pass(failure: &Failure) -> bool {
    matches!(failure.class, Class::Transient | Class::Capacity { .. })
}

/// A probe that failed proves nothing: the next try must probe again, whatever the reason.
fn still_ambiguous(fault: SinkFault) -> SinkFault {
    SinkFault {
        failure: Failure {
            class: Class::Ambiguous,
            ..fault.failure
        },
    }
}

/// The platform's proof, or why there is none.
type Handed = Result<String, SinkFault>;

/// What a lane does next.
enum Next {
    Sent,
    Later(Timestamp),
    Empty,
}
