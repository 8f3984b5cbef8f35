//! Intake of the channels: whether one more may come in, what ids and places it gets, and the commit of a page.

use crate::api::service::DaemonService;
use crate::process::ids;
use bridge_channel::{Activity, Arrival, Inbox, IntakeStatus, Page, PastReply};
use bridge_core::limits::BACKLOG_MAX;
use bridge_core::port::{Ledger, LedgerError};
use bridge_core::step::{Extras, MidTurn, Receive, ReceivePage, Received};
use bridge_core::value::{ChannelId, ExternalId, MessageId, ReplyState};
use bridge_front::BridgeService;
use bridge_store::sqlite::Pressure;

impl<L: Ledger> DaemonService<L> {
    /// Whether one more may come in. What is in already is known by its key, however closed the door is.
    pub(crate) async fn admit(&self, arrival: &Arrival) -> Result<Option<MessageId>, Pressure> {
        let Err(pressure) = self.gauge.admit() else {
            return Ok(None);
        };
        let (channel, external_id) = (arrival.channel.clone(), arrival.external_id.clone());
        let known = self
            .daemon
            .ledger
            .read(move |rows| rows.message_by_external(&channel, &external_id))
            .await;
        match known {
            Ok(Some(message)) => Ok(Some(message.message_id)),
            Ok(None) | Err(_) => Err(pressure),
        }
    }

    /// A row of a feed: its source shows it until it is taken in, so it is never refused.
    fn assign_row(&self, arrival: Arrival) -> Receive {
        let mut row = self.assign(arrival);
        row.extras.storage.refusable = false;
        row
    }

    /// The transition that takes an arrival in, with the ids and places it gets.
    pub(crate) fn assign(&self, arrival: Arrival) -> Receive {
        self.assign_as(arrival, ids::message_id())
    }

    /// The same for one whose id is known already.
    pub(crate) fn assign_as(&self, arrival: Arrival, message_id: MessageId) -> Receive {
        let settings = self.daemon.settings();
        let conversation_id = ids::conversation_id();
        let mid_turn = if arrival.extras.attachments.is_empty() {
            settings.mid_turn(arrival.tier, &arrival.channel, &arrival.conversation)
        } else {
            // Files are put into the working directory before a turn, and a running one takes text only.
            MidTurn::Queue
        };
        Receive {
            message_id,
            workdir: settings.workdir(arrival.tier, &conversation_id),
            conversation_id,
            extras: Extras {
                storage: settings.storage(&arrival.channel, &arrival.sender, arrival.tier),
                loop_limits: settings.loop_limits(),
                ..arrival.extras
            },
            channel: arrival.channel,
            external_key: arrival.conversation,
            external_id: arrival.external_id,
            kind: arrival.kind,
            sender: arrival.sender,
            tier: arrival.tier,
            body: arrival.body,
            mid_turn,
            verdict: arrival.verdict,
        }
    }
}

impl<L: Ledger> Inbox for DaemonService<L> {
    async fn take_page(&self, page: Page) -> Result<Vec<Received>, LedgerError> {
        self.gauge
            .admit()
            .map_err(|pressure| closed_door(&pressure))?;
        // Most pages have none: nothing is stored then.
        for arrival in &page.arrivals {
            let files = &arrival.extras.attachments;
            self.daemon.share_files(files).await?;
        }
        let rows = page
            .arrivals
            .into_iter()
            .map(|arrival| self.assign_row(arrival));
        self.commit(ReceivePage {
            channel: page.channel,
            rows: rows.collect(),
            position: page.position,
        })
        .await
    }

    async fn cursor(&self, channel: &ChannelId) -> Result<Option<String>, LedgerError> {
        let channel = channel.clone();
        let ledger = &self.daemon.ledger;
        ledger.read(move |rows| rows.cursor(&channel)).await
    }

    async fn standing(
        &self,
        channel: &ChannelId,
        external_id: &ExternalId,
    ) -> Result<IntakeStatus, LedgerError> {
        let (channel, external_id) = (channel.clone(), external_id.clone());
        let rows = self.daemon.ledger.read(move |rows| {
            let known = rows.message_by_external(&channel, &external_id)?;
            Ok((known, rows.backlog()?))
        });
        let (known, backlog) = rows.await?;
        if let Some(message) = known {
            let files = message.attachments.len();
            return Ok(IntakeStatus::Known { files });
        }
        self.gauge
            .admit()
            .map_err(|pressure| closed_door(&pressure))?;
        if backlog < BACKLOG_MAX {
            Ok(IntakeStatus::New)
        } else {
            Ok(IntakeStatus::Full)
        }
    }

    async fn replies(
        &self,
        channel: &ChannelId,
        external_id: &ExternalId,
    ) -> Result<Option<Vec<PastReply>>, LedgerError> {
        let (channel, external_id) = (channel.clone(), external_id.clone());
        let read = self.daemon.ledger.read(move |rows| {
            let message = rows.message_by_external(&channel, &external_id)?;
            let Some(message) = message.filter(|one| one.life.state.name().finished()) else {
                return Ok(None);
            };
            let replies = rows.replies(&message.message_id)?;
            let replies = replies.into_iter().map(|reply| PastReply {
                text: reply.body,
                receipt: match reply.state {
                    ReplyState::Sent { receipt, .. } => Some(receipt),
                    ReplyState::Queued { .. } | ReplyState::Sending | ReplyState::Dead { .. } => {
                        None
                    }
                },
            });
            Ok(Some(replies.collect()))
        });
        read.await
    }

    async fn activity(&self, channel: &ChannelId) -> Activity {
        self.daemon.turns.running.activity(channel)
    }
}

fn closed_door(pressure: &Pressure) -> LedgerError {
    LedgerError::Unavailable {
        what: pressure.to_string(),
    }
}
