//! Operator actions: failed messages, redrive, discard, cancel, stop a sender, reload the configuration.

use super::extract::{Body, PageQuery, Params, Who};
use super::messages::{find, find_seen, view};
use super::{Context, ProblemResponse};
use crate::Time;
use crate::{BridgeService, Caller, MessageView, StopRequest};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use bridge_core::find::short_id;
use bridge_core::limits::clip;
use bridge_core::phase::Phase;
use bridge_core::port::{Read, RowsError, readable};
use bridge_core::step::{Cancel, CancelOutcome, Discard, Redrive, RedriveOutcome, StopCause};
use bridge_core::value::{
    ChannelId, Conversation, Message, MessageId, MessageState, StateName, Timestamp,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest text in a list.
const LINE_MAX_CHARS: usize = 200;

/// Answer to `GET /v1/dead`: messages that only a person moves on, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeadList {
    /// The messages.
    pub dead: Vec<DeadView>,
    /// What to give as `before` for the next page; absent on the last one.
    pub next: Option<String>,
}

/// A message that failed or waits for a person.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeadView {
    /// Its id.
    pub message_id: String,
    /// `dead`, or `parked` while it waits for a person.
    pub state: String,
    /// Why it failed or waits.
    pub reason: String,
    /// The conversation's key.
    pub conversation: String,
    /// The channel.
    pub channel: String,
    /// Who sent it.
    pub sender: String,
    /// The first line of its text.
    pub line: String,
    /// Attempts so far.
    pub attempts: u32,
    /// Whether it has an answer that could not be delivered.
    pub answered: bool,
    /// When.
    pub received_at: Time,
    /// Since when it is where it is.
    pub since: Time,
    /// How long that is, in milliseconds.
    pub age_ms: i64,
    /// When one that waits is given up.
    pub until: Option<Time>,
    /// What sending it again would come to: `queued`, `delivering` or `continuing`; absent where only its sender can send
    /// it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
}

/// What acting on a message came to.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ActView {
    /// Id of the message.
    pub message_id: String,
    /// `queued`, `delivering` or `continuing` for one that is sent again; `dropped`; `cancelled` or `stopping`.
    pub outcome: String,
    /// The same, as a sentence.
    pub detail: String,
    /// Its turn does not begin before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
}

impl ActView {
    fn new(message_id: &MessageId, (outcome, detail): (&str, &str)) -> Self {
        Self {
            message_id: message_id.to_string(),
            outcome: outcome.to_owned(),
            detail: detail.to_owned(),
            not_before: None,
        }
    }

    /// What sending one again came to, if it was sent.
    pub(super) fn redriven(
        message_id: &MessageId,
        outcome: RedriveOutcome,
        not_before: Option<Timestamp>,
    ) -> Option<Self> {
        let done = match outcome {
            RedriveOutcome::Queued => (
                "queued",
                "it waits for a turn, at the end of its conversation",
            ),
            RedriveOutcome::Delivering => (
                "delivering",
                "its answer is delivered again; Codex is not asked again",
            ),
            RedriveOutcome::Continuing => (
                "continuing",
                "it goes on where it was cut: Codex gets the instruction to look first",
            ),
            RedriveOutcome::Unfit | RedriveOutcome::NotDead => return None,
        };
        let waits = outcome != RedriveOutcome::Delivering;
        Some(Self {
            not_before: not_before.filter(|_| waits).map(Time::from),
            ..Self::new(message_id, done)
        })
    }

    pub(super) fn dropped(message_id: &MessageId) -> Self {
        let detail = "it is given up; its text can be read until retention removes it";
        Self::new(message_id, ("dropped", detail))
    }
}

/// The first line of a text that says something.
pub(super) fn first_line(text: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty());
    clip(first.unwrap_or_default(), LINE_MAX_CHARS)
}

impl DeadView {
    /// `None` if the message is neither dead nor parked.
    pub(crate) fn of(
        message: Message,
        conversation: Option<Conversation>,
        answered: bool,
        now: Timestamp,
    ) -> Option<Self> {
        let state = message.life.state.name().as_str().to_owned();
        let retry = RedriveOutcome::of(&message, answered);
        let retry = ActView::redriven(&message.message_id, retry, None);
        let (reason, until) = match message.life.state {
            MessageState::Dead { reason } => (reason, None),
            MessageState::Parked { until, reason } => (reason, Some(until.into())),
            _ => return None,
        };
        Some(Self {
            message_id: message.message_id.to_string(),
            state,
            reason,
            conversation: conversation.map_or_else(String::new, |c| c.external_key),
            channel: message.channel.to_string(),
            sender: message.sender,
            line: first_line(&message.body),
            attempts: message.life.attempt,
            answered,
            received_at: message.received_at.into(),
            since: message.life.updated_at.into(),
            age_ms: now.since_ms(message.life.updated_at).max(0),
            until,
            retry: retry.map(|would| would.outcome),
        })
    }
}

pub(super) async fn list<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Params(page): Params<PageQuery>,
) -> Result<Json<DeadList>, ProblemResponse> {
    let limit = page.limit();
    let before = page.before.map(MessageId::new);
    let now = service.now();
    let found = service
        .read(move |rows| dead(rows, before.as_ref(), limit, now))
        .await?;
    Ok(Json(found))
}

/// Merges dead and parked messages by id, which begins with the time.
fn dead(
    rows: &dyn Read,
    before: Option<&MessageId>,
    limit: u32,
    now: Timestamp,
) -> Result<DeadList, RowsError> {
    let mut found = rows.messages_in(StateName::Dead, before, limit)?;
    found.extend(rows.messages_in(StateName::Parked, before, limit)?);
    found.sort_by(|a, b| b.message_id.cmp(&a.message_id));
    let size = usize::try_from(limit).unwrap_or(usize::MAX);
    found.truncate(size);
    let next = PageQuery::next(&found, limit, |last| last.message_id.to_string());
    let mut dead = Vec::with_capacity(found.len());
    for message in found {
        let about = || -> Result<_, RowsError> {
            let conversation = rows.conversation(&message.conversation_id)?;
            Ok((conversation, rows.answer(&message.message_id)?.is_some()))
        };
        if let Some((conversation, answered)) = readable(about())? {
            dead.extend(DeadView::of(message, conversation, answered, now));
        }
    }
    Ok(DeadList { dead, next })
}

type MessageActionResult = Result<(StatusCode, Json<ActView>), ProblemResponse>;

fn done(status: StatusCode, message_id: &MessageId, act: (&str, &str)) -> MessageActionResult {
    Ok((status, Json(ActView::new(message_id, act))))
}

/// A conflict response that says in people's words where the message is; programs get its state.
async fn conflict<D: BridgeService>(
    service: &D,
    message_id: MessageId,
    why: &str,
) -> ProblemResponse {
    let short = short_id(&message_id).to_owned();
    let MessageView {
        message_id,
        state,
        phase,
        why: place,
        ..
    } = match view(service, message_id).await {
        Ok(view) => view,
        Err(problem) => return problem,
    };
    let is = if phase == Phase::Failed.as_str() {
        "has"
    } else {
        "is"
    };
    let detail = format!("message {short} {is} {phase}: {}; {why}", place.now);
    ProblemResponse::conflict(detail, message_id, state)
}

pub(super) async fn redrive<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> MessageActionResult {
    let message_id = find(&service, id).await?;
    let act = send_again(&service, &caller, message_id, None).await?;
    Ok((StatusCode::ACCEPTED, Json(act)))
}

/// Sends one again, now or later.
pub(super) async fn send_again<D: BridgeService>(
    service: &D,
    caller: &Caller,
    message_id: MessageId,
    not_before: Option<Timestamp>,
) -> Result<ActView, ProblemResponse> {
    let not_before = not_before.filter(|at| *at > service.now());
    let redrive = Redrive {
        message_id: message_id.clone(),
        by: caller.actor().to_string(),
        not_before,
    };
    let outcome = service.commit(redrive).await?;
    if let Some(act) = ActView::redriven(&message_id, outcome, not_before) {
        return Ok(act);
    }
    let why = match outcome {
        RedriveOutcome::Unfit => {
            "it was refused at intake, and only a part of it was kept: its sender must send it again"
        }
        _ => "only a failed message, or one that waits for a person, is sent again",
    };
    Err(conflict(service, message_id, why).await)
}

pub(super) async fn discard<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Result<Json<ActView>, ProblemResponse> {
    let message_id = find(&service, id).await?;
    give_up(&service, &caller, message_id).await.map(Json)
}

pub(super) async fn give_up<D: BridgeService>(
    service: &D,
    caller: &Caller,
    message_id: MessageId,
) -> Result<ActView, ProblemResponse> {
    let discard = Discard {
        message_id: message_id.clone(),
        by: caller.actor().to_string(),
    };
    if !service.commit(discard).await? {
        let why = "only a failed message, or one that waits for a person, is discarded; `codex-bridge stop` stops another";
        return Err(conflict(service, message_id, why).await);
    }
    Ok(ActView::dropped(&message_id))
}

pub(super) async fn cancel<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> MessageActionResult {
    let message_id = find_seen(&service, &caller, id).await?;
    let cancel = Cancel {
        message_id: message_id.clone(),
        by: caller.actor(),
    };
    match service.commit(cancel).await? {
        CancelOutcome::Cancelled => {
            let detail = "it was stopped before its turn began";
            done(StatusCode::OK, &message_id, ("cancelled", detail))
        }
        CancelOutcome::Stopping => {
            let detail = "its turn is being interrupted; if its answer comes first, it counts";
            done(StatusCode::ACCEPTED, &message_id, ("stopping", detail))
        }
        CancelOutcome::Steered(leader) => {
            let leader = short_id(&leader);
            let why = format!("stop that one: `codex-bridge stop {leader}`");
            Err(conflict(&service, message_id, &why).await)
        }
        CancelOutcome::TooLate => {
            Err(conflict(&service, message_id, "there is nothing to stop").await)
        }
    }
}

/// Body of `POST /v1/stop`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopSenderRequest {
    /// Whose messages: the name of a token or peer, or the channel's own name for a sender.
    pub sender: String,
    /// On which channel; on all of them when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

/// Answer to `POST /v1/stop`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StopSenderView {
    /// Whose messages.
    pub sender: String,
    /// Messages that had not begun and are cancelled.
    pub cancelled: u32,
    /// Messages whose turns are being interrupted; each ends as cancelled unless its answer comes first.
    pub interrupted: Vec<String>,
    /// Messages whose text was given to the turn of another sender: that turn goes on with it, and they end with it.
    pub joined: Vec<String>,
}

pub(super) async fn stop_sender<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Body(request): Body<StopSenderRequest>,
) -> Result<Json<StopSenderView>, ProblemResponse> {
    if request.sender.is_empty() {
        return Err(ProblemResponse::unprocessable(
            "`sender` is empty: name whose messages are to be stopped, as `codex-bridge show` does",
        ));
    }
    let stop = StopRequest {
        sender: request.sender.clone(),
        channel: request.channel.map(ChannelId::new),
        cause: StopCause::Operator,
    };
    let stopped = service.stop_sender(stop, caller.actor()).await?;
    Ok(Json(StopSenderView {
        sender: request.sender,
        cancelled: stopped.cancelled,
        interrupted: stopped.running.iter().map(ToString::to_string).collect(),
        joined: stopped.joined.iter().map(ToString::to_string).collect(),
    }))
}

/// Answer to `POST /v1/reload`, and what `status` tells of the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReloadView {
    /// Whether the file could be used. If not, what was in force before still is.
    pub ok: bool,
    /// When.
    pub at: Time,
    /// Why the file can't be used.
    pub error: Option<String>,
    /// Keys that have another value from now on.
    pub changed: Vec<String>,
    /// Keys that have another value in the file, and take effect at the next start.
    pub needs_restart: Vec<String>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

impl ReloadView {
    /// A failed reload.
    #[must_use]
    pub fn failed(at: Timestamp, error: String) -> Self {
        Self {
            ok: false,
            at: at.into(),
            error: Some(error),
            changed: Vec::new(),
            needs_restart: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// One line for the audit.
    #[must_use]
    pub fn in_a_line(&self) -> String {
        let keys = |keys: &[String]| match keys {
            [] => "nothing".to_owned(),
            keys => keys.join(" "),
        };
        match &self.error {
            Some(error) => format!("refused: {}", error.replace('\n', " ")),
            None if self.needs_restart.is_empty() => format!("changed {}", keys(&self.changed)),
            None => format!(
                "changed {}; at the next start {}",
                keys(&self.changed),
                keys(&self.needs_restart)
            ),
        }
    }
}

/// An invalid file is not an error of the call: the response has `ok: false`.
pub(super) async fn reload<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
) -> Json<ReloadView> {
    Json(service.reload(&caller.actor().to_string()).await)
}
