//! What other nodes committed: this node looks at the rows, and does what is its own.
//!
//! A wake-up may be lost, as every hint; a slow look finds what was missed.

use crate::Daemon;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_core::step::{Action, MidTurn};
use bridge_core::value::{Message, MessageId, StateName};
use bridge_front::LiveUpdate;
use bridge_store::{PostgresLedger, Wakeup, Wakeups};
use std::sync::Arc;
use std::time::Duration;

/// How long a change stays unseen whose wake-up was lost.
const SLOW_LOOK: Duration = Duration::from_secs(60);

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// The loop.
    pub(crate) async fn hear_other_nodes(
        self: Arc<Self>,
        nodes: PostgresLedger,
        mut wakeups: Wakeups,
    ) {
        loop {
            let wakeup = tokio::select! {
                () = self.stopping.cancelled() => return,
                wakeup = wakeups.next() => wakeup,
            };
            let looked = match wakeup {
                Wakeup::Changed {
                    messages,
                    conversations,
                    requests,
                    schedule: _,
                } => {
                    for conversation_id in conversations {
                        self.deliver(conversation_id);
                    }
                    for request_id in requests {
                        self.perform(vec![Action::Answer { request_id }]);
                    }
                    self.look_at(messages).await
                }
                Wakeup::Live(node, note) => {
                    self.hear_live(&nodes, &node, note);
                    continue;
                }
                Wakeup::Missed => self.look_everywhere().await,
            };
            self.turns.wake();
            if let Err(error) = looked {
                tracing::warn!(%error, "what other nodes changed can't be read yet");
                self.turns.recheck();
            }
        }
    }

    /// The other loop: nobody notices that a wake-up was lost, so the rows are looked at without one, now and then.
    pub(crate) async fn look_slowly(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.damaged.cancelled() => return,
                () = tokio::time::sleep(SLOW_LOOK) => {}
            }
            self.turns.recheck();
        }
    }

    async fn look_at(self: &Arc<Self>, messages: Vec<MessageId>) -> Result<(), LedgerError> {
        for message_id in messages {
            self.hub.publish(&message_id, LiveUpdate::Changed);
            self.slots.changed(&message_id);
            let message = self.ledger.read(move |rows| rows.message(&message_id));
            let Some(message) = message.await? else {
                continue;
            };
            if self.is_at_home(&message.conversation_id).await? {
                self.look_at_own(message).await?;
            }
        }
        Ok(())
    }

    /// Another node changed a message of ours: somebody stopped it, decided what its turn asks, wrote more, or moved its
    /// conversation here with a turn that its last node left.
    async fn look_at_own(self: &Arc<Self>, message: Message) -> Result<(), LedgerError> {
        if message.life.stop.is_some() {
            self.turns.running.interrupt(&message.message_id);
        }
        if message.life.state.name() != StateName::Received {
            self.turns.recheck_if_left(&message);
            return self.answer_again_to(&message.message_id).await;
        }
        let id = message.conversation_id.clone();
        let read = self.ledger.read(move |rows| rows.conversation(&id)).await?;
        let joins = read.is_some_and(|conversation| {
            let (settings, key) = (self.settings(), &conversation.external_key);
            settings.mid_turn(message.tier, &message.channel, key) == MidTurn::Steer
                && message.attachments.is_empty()
        });
        if joins {
            let (daemon, message_id) = (Arc::clone(self), message.message_id);
            self.spawn_for(message_id.clone(), async move {
                let _joined = daemon.join_turn(message_id).await;
            });
        }
        Ok(())
    }

    async fn look_everywhere(self: &Arc<Self>) -> Result<(), LedgerError> {
        self.reopen_lanes().await?;
        self.turns.recheck();
        self.answer_again().await
    }
}
