//! Push delivery: the platform calls us with a message and waits for its answer.
//!
//! A call proves that the platform made it, and nothing of who wrote the message: the platform names no caller and hands on
//! bodies that callers wrote. So a call is a wake-up, and a place for the answer. The message is the row that the
//! platform stored before it called, taken in by the feed like every other (ADR 0065).

mod answer;
mod waiting;

pub(crate) use answer::{is_answered, receipt_of};
pub(crate) use waiting::Pushes;

use crate::http::HttpError;
use crate::inbox::{Arrival, Inbox, IntakeStatus, Page};
use crate::molecule::Molecule;
use crate::molecule::client::FeedQuery;
use crate::molecule::feed::{Limit, step_back};
use crate::molecule::row::origin::Origins;
use crate::molecule::row::{self, Incoming, Notice, Reading, RowContext, identity};
use crate::molecule::wire::{Row, field};
use answer::{result, rpc_error, rpc_result, text_again};
use bridge_core::deadline::after;
use bridge_core::port::LedgerError;
use bridge_core::step::Received;
use bridge_core::value::ExternalId;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use waiting::Waiting;

/// The one method that carries messages.
const SEND: &str = "message/send";
/// Pauses before the looks for the row of a call. The platform stores the row first, unless one of its own programs speaks.
const ROW_LOOKS: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(300),
    Duration::from_millis(1_000),
];
/// Pages that a look for one row reads.
const ROW_PAGES_MAX: u32 = 10;
/// How long the feed may take to take a row in; after that the row is taken in by itself.
const TAKE_WITHIN: Duration = Duration::from_secs(15);
/// How long a call waits for its answer: less than the 30 minutes after which the platform hangs up.
const ANSWER_WITHIN: Duration = Duration::from_secs(25 * 60);
/// How often we look whether the message ended in another way.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Names messages without a row; any fixed value does.
const CALLS: Uuid = Uuid::from_u128(0x4c0e_9d2a_61b7_4f3c_8a5d_17e2_90cb_3f84);
/// What the platform hears when it speaks for itself. It shows the answer to its first greeting.
const READY: &str = "Ready.";
const OWN: &str = "(a message of this workspace to itself: nothing to do)";

/// How messages reach us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// We read the feed.
    #[default]
    Poll,
    /// The platform also calls this address, and waits for answers there.
    Push { url: String },
}

/// What a call of the platform is answered with.
#[derive(Clone, Debug, PartialEq)]
pub enum PushAnswer {
    /// A JSON-RPC response.
    Rpc(Value),
    /// A receipt: the message is on disk, and its answer goes another way.
    Queued(Value),
    /// Nothing can be said of the message yet; the platform has it and should call again.
    NotNow(String),
}

/// Why nothing can be said of a message.
#[derive(Debug, thiserror::Error)]
enum PushError {
    #[error("the platform does not show the message: {0}")]
    Call(#[from] HttpError),
    #[error("the database can't take the message: {0}")]
    Ledger(#[from] LedgerError),
    #[error("too many messages wait already")]
    Full,
    #[error("too many calls wait already")]
    Crowded,
    #[error("its row is further back in the feed than one look reads")]
    FarBack,
    #[error("a file of the message has not come yet")]
    Files,
    #[error("the daemon is stopping")]
    Stopping,
}

/// Result of a look for a row.
enum RowFound {
    Row(Box<Row>),
    Absent,
    /// The feed is longer than one look reads. That is not absent: the message would be done a second time.
    FarBack,
}

/// What a call is about.
enum Subject<'a> {
    /// A message that is on disk, and the place where its answer is waited for.
    Message(Waiting<'a>),
    /// Something that no turn answers.
    Said(&'static str),
    /// A second message under the id of another one.
    OtherText,
}

impl Molecule {
    /// Whether the platform calls us with this secret.
    #[must_use]
    pub fn is_called_with(&self, secret: &str) -> bool {
        self.0.pushes.accepts(secret)
    }

    pub(crate) fn push_url(&self) -> Option<&str> {
        match &self.0.settings.delivery {
            Delivery::Poll => None,
            Delivery::Push { url } => Some(url),
        }
    }

    /// Answers a call of the platform. It may take as long as a turn, but not longer than until `stop` is cancelled; a
    /// caller that goes away changes nothing.
    pub async fn receive_push<D: Inbox>(
        &self,
        inbox: &D,
        call: Value,
        stop: &CancellationToken,
    ) -> PushAnswer {
        let id = call.get("id").cloned().unwrap_or(Value::Null);
        let method = call.get("method").and_then(Value::as_str);
        let Some(SEND) = method else {
            return PushAnswer::Rpc(rpc_error(id, -32601, "only message/send is answered here"));
        };
        let named = call.pointer("/params/message/messageId");
        let Some(message_id) = named.and_then(Value::as_str).filter(|id| !id.is_empty()) else {
            return PushAnswer::Rpc(rpc_error(id, -32602, "the message has no messageId"));
        };
        let subject = tokio::select! {
            subject = self.subject(inbox, &call, message_id) => subject,
            () = stop.cancelled() => Err(PushError::Stopping),
        };
        // Nothing of it is needed while the answer is waited for.
        drop(call);
        match subject {
            Ok(Subject::Message(waiting)) => {
                tokio::select! {
                    answer = self.wait_for_answer(inbox, id, waiting) => answer,
                    // The message is on disk, and the next life of the daemon sends its answer another way.
                    () = stop.cancelled() => PushAnswer::Queued(receipt()),
                }
            }
            Ok(Subject::Said(text)) => PushAnswer::Rpc(rpc_result(id, result(text, None, &[]))),
            Ok(Subject::OtherText) => {
                let why =
                    "another message has this messageId: send it again under an id of its own";
                PushAnswer::Rpc(rpc_error(id, -32600, why))
            }
            Err(error) => {
                let reason = error.to_string().escape_debug().to_string();
                tracing::warn!(channel = %self.channel(), reason, "a call of the platform was put off");
                PushAnswer::NotNow(error.to_string())
            }
        }
    }

    /// Finds the message of a call, and takes it in.
    async fn subject<D: Inbox>(
        &self,
        inbox: &D,
        call: &Value,
        message_id: &str,
    ) -> Result<Subject<'_>, PushError> {
        let Some(row) = self.row_of_call(message_id).await? else {
            return self.take_call(inbox, call, message_id).await;
        };
        let body: Option<Value> = field(row.request_body.as_deref()).ok().flatten();
        if body.as_ref().and_then(|body| body.get("params")) != call.get("params") {
            return Ok(Subject::OtherText);
        }
        match row::read(&row, self.ground()) {
            Reading::Message(mut incoming) => {
                identity::assign(&mut incoming.arrival, &row);
                self.take_row(inbox, *incoming).await
            }
            Reading::Platform(notice) => Ok(self.answer_notice(notice).await),
            Reading::NoMessage | Reading::Nothing(_) => Ok(Subject::Said(OWN)),
        }
    }

    async fn answer_notice(&self, notice: Notice) -> Subject<'_> {
        self.answer_notices(&[notice]).await;
        Subject::Said(READY)
    }

    async fn row_of_call(&self, message_id: &str) -> Result<Option<Row>, PushError> {
        for pause in ROW_LOOKS {
            sleep(pause).await;
            let carries = |row: &Row| identity::message_id(row).as_deref() == Some(message_id);
            match self.find_row(carries).await? {
                RowFound::Row(row) => return Ok(Some(*row)),
                RowFound::Absent => {}
                RowFound::FarBack => return Err(PushError::FarBack),
            }
        }
        Ok(None)
    }

    /// The newest row like this, among those that one look reads.
    async fn find_row(&self, matches: impl Fn(&Row) -> bool) -> Result<RowFound, HttpError> {
        let (mut limit, mut feed) = (Limit::default(), FeedQuery::default());
        for _ in 0..ROW_PAGES_MAX {
            let (page, whole) = self.one_page(&mut limit, &feed).await?;
            let oldest = page.rows.iter().filter_map(Row::at).min();
            // Of two rows of one message the older one says how it came in.
            if let Some(row) = page.rows.into_iter().rev().find(&matches) {
                return Ok(RowFound::Row(Box::new(row)));
            }
            match oldest {
                Some(oldest) if !whole => feed.before = Some(step_back(feed.before, oldest)),
                Some(_) | None => return Ok(RowFound::Absent),
            }
        }
        Ok(RowFound::FarBack)
    }

    /// Waits until the feed has taken a row in: it keeps the order of each sender's messages.
    async fn take_row<D: Inbox>(
        &self,
        inbox: &D,
        incoming: Incoming,
    ) -> Result<Subject<'_>, PushError> {
        let Incoming { arrival, files } = incoming;
        let external_id = arrival.external_id.clone();
        // Before the row is taken in, so that no answer is sent past this call.
        let waiting = self.0.pushes.wait_for(&external_id);
        let waiting = waiting.ok_or(PushError::Crowded)?;
        let mut commits = self.0.pushes.commits();
        self.0.bell.notify_one();
        let deadline = after(Instant::now(), TAKE_WITHIN);
        loop {
            match inbox.standing(self.channel(), &external_id).await? {
                IntakeStatus::Known { .. } => return Ok(Subject::Message(waiting)),
                IntakeStatus::Full => return Err(PushError::Full),
                IntakeStatus::New => {}
            }
            match timeout_at(deadline, commits.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => break,
            }
        }
        // Older than the first start, so the feed passes it over; the platform asks for it all the same.
        if !files.is_empty() {
            return Err(PushError::Files);
        }
        self.take_by_itself(inbox, arrival).await?;
        Ok(Subject::Message(waiting))
    }

    /// Takes in a message that the platform stored nowhere. Nothing proves who wrote it, so it is nobody's: a peer, in the
    /// conversation of unmarked messages, whatever the operator says of those.
    async fn take_call<D: Inbox>(
        &self,
        inbox: &D,
        call: &Value,
        message_id: &str,
    ) -> Result<Subject<'_>, PushError> {
        let nobody = Origins::default();
        let context = RowContext {
            origins: &nobody,
            ..self.ground()
        };
        let row = row_of(call, message_id);
        match row::read(&row, context) {
            Reading::Message(mut incoming) => {
                identity::assign(&mut incoming.arrival, &row);
                let external_id = incoming.arrival.external_id.clone();
                let waiting = self.0.pushes.wait_for(&external_id);
                let waiting = waiting.ok_or(PushError::Crowded)?;
                self.take_by_itself(inbox, incoming.arrival).await?;
                Ok(Subject::Message(waiting))
            }
            Reading::Platform(notice) => Ok(self.answer_notice(notice).await),
            Reading::NoMessage | Reading::Nothing(_) => Ok(Subject::Said(OWN)),
        }
    }

    async fn take_by_itself<D: Inbox>(&self, inbox: &D, arrival: Arrival) -> Result<(), PushError> {
        self.remember_contexts(std::slice::from_ref(&arrival));
        let page = Page {
            channel: self.channel().clone(),
            arrivals: vec![arrival],
            position: None,
        };
        match inbox.take_page(page).await?.first() {
            Some(Received::New(_) | Received::Duplicate(_)) => Ok(()),
            Some(
                Received::Full | Received::OverBudget(_) | Received::Revoked | Received::OtherTerms,
            )
            | None => Err(PushError::Full),
        }
    }

    async fn wait_for_answer<D: Inbox>(
        &self,
        inbox: &D,
        id: Value,
        mut waiting: Waiting<'_>,
    ) -> PushAnswer {
        let deadline = after(Instant::now(), ANSWER_WITHIN);
        while Instant::now() < deadline {
            // The call may be a repeated one, of a message that was answered meanwhile.
            let replies = inbox.replies(self.channel(), waiting.message());
            if let Ok(Some(replies)) = replies.await {
                return match text_again(&replies) {
                    Some(text) => PushAnswer::Rpc(rpc_result(id, result(&text, None, &[]))),
                    None => PushAnswer::Queued(receipt()),
                };
            }
            tokio::select! {
                answer = waiting.answer() => match answer {
                    Some(answer) => return PushAnswer::Rpc(rpc_result(id, answer)),
                    None => break,
                },
                () = sleep(LOOK_EVERY) => {}
            }
        }
        PushAnswer::Queued(receipt())
    }

    /// What a row is called in the ledger.
    fn name_of(&self, row: &Row) -> Option<ExternalId> {
        match row::read(row, self.ground()) {
            Reading::Message(mut incoming) => {
                identity::assign(&mut incoming.arrival, row);
                Some(incoming.arrival.external_id)
            }
            Reading::NoMessage | Reading::Platform(_) | Reading::Nothing(_) => None,
        }
    }
}

/// The words that the platform takes for a receipt and for no answer.
pub fn receipt() -> Value {
    json!({"status": "queued", "delivery_mode": "push-async", "method": SEND})
}

/// A call as a row without any mark of the platform. The mark of the canvas is one that a caller may have written.
fn row_of(call: &Value, message_id: &str) -> Row {
    let mut body = call.clone();
    let metadata = body.pointer_mut("/params/metadata");
    if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
        metadata.remove("source");
    }
    let id = Uuid::new_v5(&CALLS, message_id.as_bytes()).hyphenated();
    let row = json!({
        "id": id.to_string(),
        "activity_type": "a2a_receive",
        "method": SEND,
        "request_body": body,
    });
    match RawValue::from_string(row.to_string()) {
        Ok(raw) => Row::split(&raw),
        Err(_) => Row::default(),
    }
}

#[cfg(test)]
mod tests;
