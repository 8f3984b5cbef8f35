//! All tables in memory, and the transaction over them.
//!
//! Reading is in `read`, writing in `apply`. Everything is sorted and nothing is random, so the same
//! transitions give the same rows every time.

use super::alert::AlertKey;
use super::table::{Table, Transactional};
use bridge_core::port::Committed;
use bridge_core::step::{RunError, Transition};
use bridge_core::value::{
    Alert, Answer, AuditEntry, ChannelId, Conversation, ConversationId, ExternalId, FileDigest,
    Home, Incarnation, IncarnationId, ItemEvent, KeptFile, Loan, Message, MessageId, Node, NodeId,
    PushKey, Quota, QuotaSource, Receiver, ReceiverId, Reply, ReplyKey, Request, RequestId, Round,
    Segment, Seq, Subscription, Task, TaskId, TaskInput, ThreadId, Timestamp, Token, Turn,
};

/// The rows of a ledger, without a runtime. Copies are cheap: tables are shared until one side writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryRows {
    pub(super) conversations: Table<ConversationId, Conversation>,
    /// When something last happened in each.
    pub(super) active: Table<ConversationId, Timestamp>,
    /// By the platform's name.
    pub(super) conversation_keys: Table<(ChannelId, String), ConversationId>,
    pub(super) messages: Table<MessageId, Message>,
    /// By the platform's id.
    pub(super) externals: Table<(ChannelId, ExternalId), MessageId>,
    /// By place in the conversation.
    pub(super) seqs: Table<(ConversationId, Seq), MessageId>,
    /// In the order they were written.
    pub(super) arrivals: Table<u64, MessageId>,
    /// Those that are not finished.
    pub(super) open: Table<MessageId, ()>,
    pub(super) turns: Table<(MessageId, u32), Turn>,
    pub(super) answers: Table<MessageId, Answer>,
    pub(super) replies: Table<(MessageId, u32), Reply>,
    /// Of unsettled replies; settled ones are distinguished by message and ordinal.
    pub(super) reply_keys: Table<ReplyKey, ()>,
    /// Unsettled replies, by place in the lane.
    pub(super) lanes: Table<(ConversationId, Seq, u32), MessageId>,
    pub(super) events: Table<(MessageId, u32), ItemEvent>,
    pub(super) requests: Table<RequestId, Request>,
    /// Requests of a message, in the order they were written.
    pub(super) asked: Table<(MessageId, u64), RequestId>,
    pub(super) incarnations: Table<IncarnationId, Incarnation>,
    /// The round that is served now; one row at most.
    pub(super) rounds: Table<(), Round>,
    /// In the order they were written.
    pub(super) audits: Table<u64, AuditEntry>,
    /// The sum of the newest one that was removed; one row at most.
    pub(super) audit_removed: Table<(), String>,
    /// How far each source was read.
    pub(super) cursors: Table<ChannelId, String>,
    /// In the order they were written.
    pub(super) tasks: Table<TaskId, (Task, Timestamp)>,
    pub(super) tokens: Table<String, Token>,
    /// With the time of the newest change of any of its messages.
    /// Started tasks in the order they were written.
    pub(super) started: Table<u64, TaskId>,
    pub(super) inputs: Table<(TaskId, u32), TaskInput>,
    /// Inputs by the message that they are.
    pub(super) input_of: Table<MessageId, (TaskId, u32)>,
    /// By task and name.
    pub(super) subscriptions: Table<(TaskId, String), Subscription>,
    /// Bytes by channel, sender and hour.
    pub(super) stored: Table<(ChannelId, String, Timestamp), u64>,
    pub(super) quotas: Table<QuotaSource, Quota>,
    pub(super) receivers: Table<ReceiverId, Receiver>,
    pub(super) alerts: Table<AlertKey, Alert>,
    /// One row at most.
    pub(super) push_keys: Table<(), PushKey>,
    pub(super) nodes: Table<NodeId, Node>,
    pub(super) homes: Table<ConversationId, Home>,
    pub(super) loans: Table<ConversationId, Loan>,
    /// By thread, path and offset.
    pub(super) segments: Table<(ThreadId, String, u64), Segment>,
    pub(super) files: Table<FileDigest, KeptFile>,
    /// By file and offset.
    pub(super) file_pieces: Table<(FileDigest, u64), Vec<u8>>,
    /// The database's clock, with which leases are compared.
    pub(super) clock_ms: i64,
    /// The node whose transaction this is.
    pub(super) this_node: Option<NodeId>,
}

impl MemoryRows {
    /// Runs one transition: all of its changes, or none.
    ///
    /// [`Transition::run`] on these rows works too, but leaves what was applied before a conflict.
    pub fn transact<T: Transition>(
        &mut self,
        transition: T,
        now: Timestamp,
    ) -> Result<Committed<T::Outcome>, RunError> {
        self.each(|table| table.begin());
        match transition.run(self, now) {
            Ok(decision) => {
                self.each(|table| table.commit());
                Ok(Committed {
                    outcome: decision.outcome,
                    actions: decision.actions,
                    changes: decision.changes,
                })
            }
            Err(error) => {
                self.each(|table| table.rollback());
                Err(error)
            }
        }
    }

    fn each(&mut self, act: impl Fn(&mut dyn Transactional)) {
        let Self {
            conversations,
            active,
            conversation_keys,
            messages,
            externals,
            seqs,
            arrivals,
            open,
            turns,
            answers,
            replies,
            reply_keys,
            lanes,
            events,
            requests,
            asked,
            incarnations,
            rounds,
            audits,
            audit_removed,
            cursors,
            tasks,
            tokens,
            started,
            inputs,
            input_of,
            subscriptions,
            stored,
            quotas,
            receivers,
            alerts,
            push_keys,
            nodes,
            homes,
            loans,
            segments,
            files,
            file_pieces,
            clock_ms: _,
            this_node: _,
        } = self;
        let tables: [&mut dyn Transactional; 38] = [
            conversations,
            active,
            conversation_keys,
            messages,
            externals,
            seqs,
            arrivals,
            open,
            turns,
            answers,
            replies,
            reply_keys,
            lanes,
            events,
            requests,
            asked,
            incarnations,
            rounds,
            audits,
            audit_removed,
            cursors,
            tasks,
            tokens,
            started,
            inputs,
            input_of,
            subscriptions,
            stored,
            quotas,
            receivers,
            alerts,
            push_keys,
            nodes,
            homes,
            loans,
            segments,
            files,
            file_pieces,
        ];
        for table in tables {
            act(table);
        }
    }
}
