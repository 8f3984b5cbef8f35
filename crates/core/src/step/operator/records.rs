//! Records: acts of people, Codex processes, conversations of an earlier program, and rows that are old enough to go.

use crate::limits;
use crate::port::{Change, OldRecords, RequestsOf};
use crate::step::{Action, RunError, Transition, Tx};
use crate::storage;
use crate::value::{
    AuditEntry, ChannelId, Conversation, ConversationId, Incarnation, IncarnationId, Message,
    MessageState, StateName, ThreadId, Timestamp,
};

/// The actions that a message's row asks for. An action is a hint; a crash loses hints, not rows.
#[must_use]
pub fn regenerate(message: &Message) -> Vec<Action> {
    let message_id = message.message_id.clone();
    match &message.life.state {
        MessageState::Received { hold: None } => vec![Action::Schedule],
        MessageState::Received { hold: Some(hold) } => vec![Action::ScheduleAt { at: hold.until }],
        MessageState::Claimed => vec![Action::Work { message_id }],
        MessageState::Parked { until, .. } => vec![Action::ScheduleAt { at: *until }],
        // Its leader decides about it.
        MessageState::Steered { .. } => Vec::new(),
        MessageState::Starting | MessageState::Running { .. } | MessageState::Unclear { .. } => {
            vec![Action::Reconcile { message_id }]
        }
        MessageState::Answered | MessageState::Sending => {
            vec![Action::Deliver {
                conversation_id: message.conversation_id.clone(),
            }]
        }
        MessageState::Done | MessageState::Dead { .. } | MessageState::Cancelled { .. } => {
            Vec::new()
        }
    }
}

/// Journals an act of a person.
#[derive(Clone, Debug)]
pub struct Record {
    pub entry: AuditEntry,
}

impl Transition for Record {
    type Outcome = ();
    const NAME: &'static str = "record";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        Ok(tx.change(Change::Audit(self.entry))?)
    }
}

/// Records a Codex process that was just started.
#[derive(Clone, Debug)]
pub struct Incarnate {
    pub incarnation: Incarnation,
}

/// Records that a Codex process is gone.
#[derive(Clone, Debug)]
pub struct IncarnationGone {
    pub incarnation_id: IncarnationId,
}

impl Transition for Incarnate {
    type Outcome = ();
    const NAME: &'static str = "incarnate";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        Ok(tx.change(Change::NewIncarnation(self.incarnation))?)
    }
}

impl Transition for IncarnationGone {
    type Outcome = ();
    const NAME: &'static str = "incarnation_gone";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let id = self.incarnation_id;
        let live = tx.live_incarnations()?;
        if live.iter().any(|live| live.incarnation_id == id) {
            tx.change(Change::Orphan(RequestsOf::Incarnation(id.clone())))?;
            tx.change(Change::IncarnationEnded {
                incarnation_id: id,
                at: now,
            })?;
        }
        Ok(())
    }
}

/// Takes over another program's conversations, which go on on their Codex threads. Once: the mark is written with them,
/// and a conversation that is here already is not touched.
#[derive(Clone, Debug)]
pub struct Import {
    /// Where it is marked that this was done, as if it were a source that was read.
    pub mark: ChannelId,
    /// What was taken over, in words for people.
    pub from: String,
    pub adopted: Vec<Adopted>,
}

/// One conversation that goes on here.
#[derive(Clone, Debug)]
pub struct Adopted {
    /// Its id here.
    pub conversation_id: ConversationId,
    /// The channel it goes on on.
    pub channel: ChannelId,
    /// The platform's name for it.
    pub external_key: String,
    /// Its Codex thread.
    pub thread: ThreadId,
    /// Where it works.
    pub workdir: String,
}

/// The result of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// It was done before.
    Before,
    /// It is done now.
    Now {
        /// Conversations that go on.
        taken: usize,
        /// Conversations that were here already.
        known: usize,
    },
}

impl Transition for Import {
    type Outcome = Imported;
    const NAME: &'static str = "import";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Imported, RunError> {
        if tx.cursor(&self.mark)?.is_some() {
            return Ok(Imported::Before);
        }
        let (mut taken, mut known) = (0, 0);
        for one in self.adopted {
            if tx
                .conversation_by_key(&one.channel, &one.external_key)?
                .is_some()
            {
                known += 1;
                continue;
            }
            taken += 1;
            tx.change(Change::NewConversation(Conversation {
                conversation_id: one.conversation_id,
                channel: one.channel,
                external_key: one.external_key,
                context: None,
                thread: Some(one.thread),
                last_turn: None,
                workdir: one.workdir,
                model: None,
                sandbox: None,
                created_at: now,
            }))?;
        }
        tx.change(Change::Cursor {
            channel: self.mark,
            position: self.from,
            at: now,
        })?;
        Ok(Imported::Now { taken, known })
    }
}

/// Removes finished rows that are old enough, a few at a time. A row is a dedupe key too, so none goes while its source
/// may still show it again.
#[derive(Clone, Debug)]
pub struct Prune {
    /// Rows are counted as old by this time.
    pub now: Timestamp,
    /// How long rows are kept.
    pub keep: Keep,
}

/// How long rows are kept, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Messages that are done or cancelled.
    pub done_ms: i64,
    /// Dead letters.
    pub dead_ms: i64,
    /// Acts of people, and Codex processes that ended.
    pub audit_ms: i64,
    /// The longest time after which a source may show a row again: nothing is removed earlier.
    pub redelivery_ms: i64,
}

impl Keep {
    fn before(&self, state: StateName, now: Timestamp) -> Timestamp {
        let kept = match state {
            StateName::Dead => self.dead_ms,
            _ => self.done_ms,
        };
        now.plus_ms(kept.max(self.redelivery_ms).saturating_neg())
    }
}

impl Transition for Prune {
    /// How many messages went; when it is a whole batch, there may be more.
    type Outcome = u32;
    const NAME: &'static str = "prune";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<u32, RunError> {
        let mut forgotten = 0;
        for state in [StateName::Done, StateName::Cancelled, StateName::Dead] {
            let room = limits::PRUNE_BATCH.saturating_sub(forgotten);
            for message_id in tx.forgettable(state, self.keep.before(state, self.now), room)? {
                tx.change(Change::Forget {
                    message_id,
                    from: state,
                })?;
                forgotten += 1;
            }
        }
        let before = now.plus_ms(self.keep.audit_ms.saturating_neg());
        tx.change(Change::ForgetRecords(OldRecords {
            incarnations: before,
            audit: before,
            stored: storage::counted_from(now),
        }))?;
        Ok(forgotten)
    }
}
