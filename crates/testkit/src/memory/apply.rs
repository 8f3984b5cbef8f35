//! Writing in memory: every change with its guard. A guard that does not hold is a conflict.
//!
//! What to write is decided by the core's transitions; the rollback after a conflict is `rows`'.

use super::MemoryRows;
use bridge_core::port::{Change, Rows, RowsError};
use bridge_core::value::{
    Answer, AuditEntry, Conversation, ConversationId, Incarnation, IncarnationId, ItemEvent, Life,
    Message, MessageId, Reply, ReplyState, ReplyStateName, StateName, ThreadId, Timestamp, Turn,
    TurnId,
};

impl Rows for MemoryRows {
    fn apply(&mut self, change: &Change) -> Result<(), RowsError> {
        match change {
            Change::NewConversation(conversation) => self.new_conversation(conversation)?,
            Change::Rekey {
                conversation_id,
                external_key,
                context,
            } => self.rekey(conversation_id, external_key, context.as_ref())?,
            Change::Cursor {
                channel,
                position,
                at: _,
            } => self.cursors.put(channel.clone(), position.clone()),
            Change::Bind {
                conversation_id,
                from,
                to,
            } => self.bind(conversation_id, from.as_ref(), to.as_ref())?,
            Change::Active(id, at) => self.touch(id, *at),
            Change::LastTurn {
                conversation_id,
                turn_id,
                at,
            } => self.last_turn(conversation_id, turn_id, *at)?,
            Change::NewMessage(message) => self.new_message(message)?,
            Change::UpdateState {
                message_id,
                from,
                life,
            } => self.live(message_id, *from, life)?,
            Change::Tail {
                message_id,
                seq,
                at,
            } => self.tail(message_id, *seq, *at)?,
            Change::Round(round) => self.rounds.put((), *round),
            Change::Forget { message_id, from } => self.forget(message_id, *from)?,
            Change::ForgetRecords(old) => self.forget_records(*old),
            Change::Stored(stored) => self.add_stored(stored),
            Change::Audit(entry) => self.audited(entry),
            Change::Token(change) => self.change_token(change)?,
            Change::NewTurn(turn) => self.new_turn(turn)?,
            Change::Turn(turn) => self.turn_again(turn)?,
            Change::NewAnswer(answer) => self.new_answer(answer)?,
            Change::NewReply(reply) => self.new_reply(reply)?,
            Change::Reply {
                message_id,
                ordinal,
                from,
                to,
                tries,
                first_try_at,
            } => self.move_reply((message_id.clone(), *ordinal), *from, |reply| {
                reply.state = to.clone();
                reply.tries = *tries;
                reply.first_try_at = *first_try_at;
            })?,
            Change::NewEvent(event) => self.new_event(event)?,
            Change::NewRequest(request) => self.new_request(request)?,
            Change::NewTask(task) => self.new_task(task)?,
            Change::Request {
                request_id,
                from,
                to,
            } => self.move_request(request_id, *from, to)?,
            Change::Reminded { request_id } => self.remind(request_id)?,
            Change::AnswerResent { request_id } => self.tell_again(request_id)?,
            Change::Orphan(of) => self.orphan(of),
            Change::Withdraw { message_id, why } => self.withdraw(message_id, why),
            Change::NewTaskInput(input) => self.new_input(input)?,
            Change::TaskSequence { task_id, sequence } => self.task_sequence(task_id, *sequence)?,
            Change::PutSubscription(new) => self.put_subscription(new)?,
            Change::DropSubscription {
                task_id,
                subscription_id,
            } => self.drop_subscription(task_id, subscription_id)?,
            Change::DropPushesOf { owner } => self.drop_pushes_of(owner),
            Change::NewIncarnation(incarnation) => self.new_incarnation(incarnation)?,
            Change::IncarnationEnded { incarnation_id, at } => {
                self.end_incarnation(incarnation_id, *at)?;
            }
            Change::Quota(quota) => self.quotas.put(quota.source.clone(), quota.clone()),
            Change::Alert(change) => self.change_alerts(change)?,
            Change::Fleet(change) => self.change_fleet(change)?,
            Change::Loan(change) => self.change_loans(change)?,
        }
        Ok(())
    }
}

impl MemoryRows {
    fn audited(&mut self, entry: &AuditEntry) {
        let last = self.audits.iter().next_back();
        let row = last.map_or(1, |(last, _)| last + 1);
        self.audits.put(row, entry.clone());
    }

    fn new_incarnation(&mut self, incarnation: &Incarnation) -> Result<(), RowsError> {
        let key = &incarnation.incarnation_id;
        guard(!self.incarnations.contains(key), || {
            format!("new incarnation {key}")
        })?;
        self.incarnations.put(key.clone(), incarnation.clone());
        Ok(())
    }

    fn end_incarnation(&mut self, id: &IncarnationId, at: Timestamp) -> Result<(), RowsError> {
        let live = self
            .incarnations
            .get(id)
            .filter(|incarnation| incarnation.ended_at.is_none());
        let mut ended = found(live, || format!("end of incarnation {id}"))?.clone();
        ended.ended_at = Some(at);
        self.incarnations.put(id.clone(), ended);
        Ok(())
    }

    fn new_conversation(&mut self, conversation: &Conversation) -> Result<(), RowsError> {
        let id = &conversation.conversation_id;
        let key = (
            conversation.channel.clone(),
            conversation.external_key.clone(),
        );
        guard(
            !self.conversations.contains(id) && !self.conversation_keys.contains(&key),
            || format!("new conversation {id}"),
        )?;
        self.conversation_keys.put(key, id.clone());
        self.conversations.put(id.clone(), conversation.clone());
        self.active.put(id.clone(), conversation.created_at);
        Ok(())
    }

    fn last_turn(
        &mut self,
        id: &ConversationId,
        turn_id: &TurnId,
        at: Timestamp,
    ) -> Result<(), RowsError> {
        self.edit_conversation(id, |conversation| {
            conversation.last_turn = Some(turn_id.clone());
        })?;
        self.touch(id, at);
        Ok(())
    }

    /// Something happened in a conversation.
    fn touch(&mut self, id: &ConversationId, at: Timestamp) {
        if self.active.get(id).is_some_and(|before| *before < at) {
            self.active.put(id.clone(), at);
        }
    }

    fn bind(
        &mut self,
        id: &ConversationId,
        from: Option<&ThreadId>,
        to: Option<&ThreadId>,
    ) -> Result<(), RowsError> {
        let bound = self
            .conversations
            .get(id)
            .filter(|conversation| conversation.thread.as_ref() == from);
        found(bound, || format!("binding of conversation {id}"))?;
        self.edit_conversation(id, |conversation| {
            if from != to {
                conversation.last_turn = None;
            }
            conversation.thread = to.cloned();
        })
    }

    fn rekey(
        &mut self,
        id: &ConversationId,
        external_key: &str,
        context: Option<&String>,
    ) -> Result<(), RowsError> {
        let what = || format!("key of conversation {id}");
        let channel = found(self.conversations.get(id), what)?.channel.clone();
        let new = (channel.clone(), external_key.to_owned());
        let free = self
            .conversation_keys
            .get(&new)
            .is_none_or(|holder| holder == id);
        guard(free, what)?;
        let old = found(self.conversations.get(id), what)?
            .external_key
            .clone();
        self.conversation_keys.remove(&(channel, old));
        self.conversation_keys.put(new, id.clone());
        self.edit_conversation(id, |conversation| {
            conversation.external_key = external_key.to_owned();
            conversation.context = context.cloned();
        })
    }

    fn edit_conversation(
        &mut self,
        id: &ConversationId,
        edit: impl FnOnce(&mut Conversation),
    ) -> Result<(), RowsError> {
        let known = self.conversations.get(id);
        let mut conversation = found(known, || format!("conversation {id}"))?.clone();
        edit(&mut conversation);
        self.conversations.put(id.clone(), conversation);
        Ok(())
    }

    fn new_message(&mut self, message: &Message) -> Result<(), RowsError> {
        let id = &message.message_id;
        let external = (message.channel.clone(), message.external_id.clone());
        let place = (message.conversation_id.clone(), message.seq);
        guard(
            !self.messages.contains(id)
                && !self.externals.contains(&external)
                && !self.seqs.contains(&place)
                && self.conversations.contains(&message.conversation_id),
            || format!("new message {id}"),
        )?;
        let arrival = self
            .arrivals
            .iter()
            .next_back()
            .map_or(1, |(last, _)| last + 1);
        self.arrivals.put(arrival, id.clone());
        self.externals.put(external, id.clone());
        self.seqs.put(place, id.clone());
        if !message.is_imported() {
            self.touch(&message.conversation_id, message.life.updated_at);
        }
        self.write_message(message.clone());
        Ok(())
    }

    fn write_message(&mut self, message: Message) {
        let id = message.message_id.clone();
        if message.life.state.name().finished() {
            self.open.remove(&id);
        } else if !self.open.contains(&id) {
            self.open.put(id.clone(), ());
        }
        self.messages.put(id, message);
    }

    fn live(&mut self, id: &MessageId, from: StateName, life: &Life) -> Result<(), RowsError> {
        let known = self
            .messages
            .get(id)
            .filter(|message| message.life.state.name() == from);
        let message = found(known, || format!("life of message {id}"))?;
        let message = Message {
            life: life.clone(),
            ..message.clone()
        };
        if from.stands_still() || life.state.name().stands_still() {
            self.touch(&message.conversation_id, life.updated_at);
        }
        self.write_message(message);
        self.touch_task(id, life.updated_at);
        Ok(())
    }

    fn new_turn(&mut self, turn: &Turn) -> Result<(), RowsError> {
        let key = (turn.message_id.clone(), turn.attempt);
        guard(
            !self.turns.contains(&key) && self.messages.contains(&turn.message_id),
            || format!("new turn {}.{}", turn.message_id, turn.attempt),
        )?;
        self.turns.put(key, turn.clone());
        Ok(())
    }

    fn turn_again(&mut self, turn: &Turn) -> Result<(), RowsError> {
        let key = (turn.message_id.clone(), turn.attempt);
        guard(self.turns.contains(&key), || {
            format!("turn {}.{}", turn.message_id, turn.attempt)
        })?;
        self.turns.put(key, turn.clone());
        Ok(())
    }

    fn new_answer(&mut self, answer: &Answer) -> Result<(), RowsError> {
        let id = &answer.message_id;
        guard(
            !self.answers.contains(id) && self.messages.contains(id),
            || format!("new answer to {id}"),
        )?;
        self.answers.put(id.clone(), answer.clone());
        Ok(())
    }

    fn new_reply(&mut self, reply: &Reply) -> Result<(), RowsError> {
        let key = (reply.message_id.clone(), reply.ordinal);
        guard(
            !self.replies.contains(&key)
                && !self.reply_keys.contains(&reply.key)
                && self.messages.contains(&reply.message_id),
            || format!("new reply {}/{}", reply.message_id, reply.ordinal),
        )?;
        self.write_reply(reply.clone());
        Ok(())
    }

    fn write_reply(&mut self, reply: Reply) {
        let lane = (reply.conversation_id.clone(), reply.seq, reply.ordinal);
        match reply.state {
            ReplyState::Queued { .. } | ReplyState::Sending => {
                self.lanes.put(lane, reply.message_id.clone());
                self.reply_keys.put(reply.key.clone(), ());
            }
            ReplyState::Sent { .. } | ReplyState::Dead { .. } => {
                self.lanes.remove(&lane);
                self.reply_keys.remove(&reply.key);
            }
        }
        self.replies
            .put((reply.message_id.clone(), reply.ordinal), reply);
    }

    fn move_reply(
        &mut self,
        key: (MessageId, u32),
        from: ReplyStateName,
        edit: impl FnOnce(&mut Reply),
    ) -> Result<(), RowsError> {
        let known = self
            .replies
            .get(&key)
            .filter(|reply| reply.state.name() == from);
        let mut reply = found(known, || format!("reply {}/{}", key.0, key.1))?.clone();
        edit(&mut reply);
        self.write_reply(reply);
        Ok(())
    }

    fn new_event(&mut self, event: &ItemEvent) -> Result<(), RowsError> {
        let key = (event.message_id.clone(), event.ordinal);
        guard(
            !self.events.contains(&key) && self.messages.contains(&event.message_id),
            || format!("new event {}/{}", event.message_id, event.ordinal),
        )?;
        self.events.put(key, event.clone());
        Ok(())
    }
}

pub(super) fn guard(holds: bool, what: impl FnOnce() -> String) -> Result<(), RowsError> {
    if holds {
        Ok(())
    } else {
        Err(RowsError::Conflict { what: what() })
    }
}

pub(super) fn found<V>(row: Option<&V>, what: impl FnOnce() -> String) -> Result<&V, RowsError> {
    row.ok_or_else(|| RowsError::Conflict { what: what() })
}
