//! Writes one change of a transition to its table. No SQL here: statements are in the tables' files.

use super::rows::SqlRows;
use super::{
    alert, audit, budget, conversation, fleet, incarnation, loan, message, queue, quota, reply,
    request, subscription, task, token, turn,
};
use crate::key::LedgerKey;
use crate::sql::Conn;
use bridge_core::port::{Change, OldRecords, Rows, RowsError};

impl Rows for SqlRows<'_> {
    fn apply(&mut self, change: &Change) -> Result<(), RowsError> {
        let (conn, key) = self.writer()?;
        match change {
            Change::NewConversation(conversation) => conversation::insert(conn, conversation),
            Change::Rekey {
                conversation_id,
                external_key,
                context,
            } => conversation::rekey(conn, conversation_id, external_key, context.as_deref()),
            Change::Cursor {
                channel,
                position,
                at,
            } => conversation::set_cursor(conn, channel, position, *at),
            Change::Bind {
                conversation_id,
                from,
                to,
            } => conversation::bind(conn, conversation_id, from.as_ref(), to.as_ref()),
            Change::Active(id, at) => conversation::touch(conn, id.as_str(), *at),
            Change::LastTurn {
                conversation_id,
                turn_id,
                at,
            } => conversation::last_turn(conn, conversation_id, turn_id, *at),
            Change::NewMessage(message) => message::insert(conn, message),
            Change::UpdateState {
                message_id,
                from,
                life,
            } => message::live(conn, message_id, *from, life),
            Change::Tail {
                message_id,
                seq,
                at,
            } => message::tail(conn, message_id, *seq, *at),
            Change::Round(round) => queue::set_round(conn, *round),
            Change::Forget { message_id, from } => message::forget(conn, message_id, *from),
            Change::ForgetRecords(old) => forget_records(conn, key, *old),
            Change::Stored(stored) => budget::add_stored(conn, stored),
            Change::Audit(entry) => audit::insert(conn, key, entry),
            Change::Token(change) => token::apply(conn, change),
            Change::NewTurn(turn) => turn::insert(conn, turn),
            Change::Turn(turn) => turn::update(conn, turn),
            Change::NewAnswer(answer) => turn::insert_answer(conn, answer),
            Change::NewReply(reply) => reply::insert(conn, reply),
            Change::Reply {
                message_id,
                ordinal,
                from,
                to,
                tries,
                first_try_at,
            } => {
                let step = reply::ReplyMove::new(*from, to, *tries, *first_try_at);
                reply::update(conn, message_id, *ordinal, &step)
            }
            Change::NewEvent(event) => turn::insert_event(conn, event),
            Change::NewRequest(request) => request::insert(conn, key, request),
            Change::NewTask(task) => task::insert(conn, task),
            Change::Request {
                request_id,
                from,
                to,
            } => request::moved(conn, key, request_id, *from, to),
            Change::Reminded { request_id } => request::reminded(conn, request_id),
            Change::AnswerResent { request_id } => request::resends(conn, request_id),
            Change::Orphan(of) => request::orphan(conn, of),
            Change::Withdraw { message_id, why } => request::withdraw(conn, message_id, why),
            Change::NewTaskInput(word) => task::insert_input(conn, word),
            Change::TaskSequence { task_id, sequence } => task::sequence(conn, task_id, *sequence),
            Change::PutSubscription(new) => subscription::put(conn, key, new),
            Change::DropSubscription {
                task_id,
                subscription_id,
            } => subscription::remove(conn, task_id, subscription_id),
            Change::DropPushesOf { owner } => subscription::remove_pushes_of(conn, owner),
            Change::NewIncarnation(incarnation) => incarnation::insert(conn, incarnation),
            Change::IncarnationEnded { incarnation_id, at } => {
                incarnation::end(conn, incarnation_id, *at)
            }
            Change::Quota(quota) => quota::put(conn, quota),
            Change::Alert(change) => alert::apply(conn, key, change),
            Change::Fleet(change) => fleet::apply(conn, key, change),
            Change::Loan(change) => loan::apply(conn, change),
        }
    }
}

fn forget_records(conn: Conn<'_>, key: &LedgerKey, old: OldRecords) -> Result<(), RowsError> {
    incarnation::forget(conn, old.incarnations)?;
    budget::forget_stored(conn, old.stored)?;
    alert::forget(conn, old.alerts)?;
    quota::forget(conn, old.quotas)?;
    fleet::forget_nodes(conn, old.nodes)?;
    audit::forget(conn, key, old.audit)
}
