//! Conversations: their JSON form, the list, and one with its messages.

use super::extract::{PageQuery, Params, Who};
use super::loans::LoanView;
use super::messages::rows_of;
use super::nodes::node_of;
use super::operator::first_line;
use super::{Context, ProblemResponse};
use crate::Time;
use crate::message_view::MessageRows;
use crate::{BridgeService, Caller, MessageView};
use axum::Json;
use axum::extract::{Path, State};
use bridge_core::limits::{ACTIVE_MESSAGES, CONVERSATIONS_SCAN_MAX, PAGE_MAX};
use bridge_core::phase::Phase;
use bridge_core::port::{Read, RowsError, readable};
use bridge_core::step::Claim;
use bridge_core::value::{Conversation, ConversationId, MessageId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Answer to `GET /v1/conversations`: where something happened last first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConversationList {
    /// The conversations.
    pub conversations: Vec<ActiveConversation>,
    /// What to give as `before` for the next page; absent on the last one. One page of a filtered list looks at 500
    /// conversations, so it may have few, or none, and a next one all the same.
    pub next: Option<String>,
}

/// A conversation.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConversationView {
    /// Its id.
    pub conversation_id: String,
    /// The channel.
    pub channel: String,
    /// The platform's name for it.
    pub key: String,
    /// Codex's thread.
    pub thread_id: Option<String>,
    /// Where it works.
    pub workdir: String,
    /// When.
    pub created_at: Time,
    /// The node that has it, where several share the database; absent when none has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Who has it in a Codex terminal; absent when nobody has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loan: Option<LoanView>,
}

/// A conversation and what happens in it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ActiveConversation {
    /// The conversation.
    #[serde(flatten)]
    pub conversation: ConversationView,
    /// When something last happened in it.
    pub active_at: Time,
    /// Where its first unanswered message is, else its newest: `queued`, `working`, `waiting for you`, `done`, `failed`
    /// or `stopped`. Absent when retention removed its messages.
    pub phase: Option<String>,
    /// Its newest message.
    pub message_id: Option<String>,
    /// The first line of that one.
    pub line: String,
    /// What Codex asks and nobody has decided.
    pub open_requests: u32,
}

/// Answer to `GET /v1/conversations/{id}`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConversationStory {
    /// The conversation.
    #[serde(flatten)]
    pub conversation: ConversationView,
    /// Its messages, newest first.
    pub messages: Vec<MessageView>,
    /// What to give as `before` for the next page; absent on the last one.
    pub next: Option<String>,
}

impl ConversationView {
    fn load(
        rows: &dyn Read,
        conversation: Conversation,
        now: Timestamp,
    ) -> Result<Self, RowsError> {
        let id = &conversation.conversation_id;
        let (node, loan) = (node_of(rows, id)?, rows.loan(id)?);
        Ok(Self {
            conversation_id: conversation.conversation_id.to_string(),
            channel: conversation.channel.to_string(),
            key: conversation.external_key,
            thread_id: conversation.thread.map(|thread| thread.to_string()),
            workdir: conversation.workdir,
            created_at: conversation.created_at.into(),
            node: node.map(|node| node.to_string()),
            loan: loan.map(|loan| LoanView::new(loan, now)),
        })
    }
}

/// Which conversations.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConversationQuery {
    /// How many, at most; 50 when absent.
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<u32>,
    /// Older than this one: the `next` of the page before.
    before: Option<String>,
    /// Only those of this channel.
    channel: Option<String>,
    /// Only those that are so: `queued`, `working`, `waiting for you`, `done`, `failed` or `stopped`.
    phase: Option<String>,
    /// Only those whose key or newest line has this; ASCII letters are the same in both cases.
    text: Option<String>,
}

impl ConversationQuery {
    fn has_filter(&self) -> bool {
        self.channel.is_some() || self.phase.is_some() || self.text.is_some()
    }

    fn refusal(&self) -> Option<String> {
        let phase = self.phase.as_deref()?;
        let words = Phase::ALL.map(Phase::as_str);
        (!words.contains(&phase)).then(|| format!("`phase` must be one of {}", words.join(", ")))
    }

    /// What can be said before its messages are read.
    fn may_have(&self, conversation: &Conversation) -> bool {
        let channel = self.channel.as_deref();
        channel.is_none_or(|channel| conversation.channel.as_str() == channel)
    }

    fn has(&self, found: &ActiveConversation) -> bool {
        let phase = self.phase.as_deref();
        let text = self.text.as_deref().map(str::to_ascii_lowercase);
        phase.is_none_or(|phase| found.phase.as_deref() == Some(phase))
            && text.is_none_or(|text| {
                let within = [&found.conversation.key, &found.line];
                within
                    .iter()
                    .any(|whole| whole.to_ascii_lowercase().contains(&text))
            })
    }
}

pub(super) async fn list<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Params(query): Params<ConversationQuery>,
) -> Result<Json<ConversationList>, ProblemResponse> {
    if let Some(refusal) = query.refusal() {
        return Err(ProblemResponse::bad_request(refusal));
    }
    let before = match query.before.as_deref().map(place) {
        None => None,
        Some(Some(before)) => Some(before),
        Some(None) => {
            return Err(ProblemResponse::bad_request(
                "`before` must be the `next` of the page before",
            ));
        }
    };
    let now = service.now();
    let (conversations, next) = service
        .read(move |rows| active(rows, &caller, &query, before, now))
        .await?;
    Ok(Json(ConversationList {
        conversations,
        next,
    }))
}

/// Where a page ends: a time, and the conversation it belongs to.
fn place(before: &str) -> Option<(Timestamp, ConversationId)> {
    let (at, id) = before.split_once('.')?;
    Some((Timestamp(at.parse().ok()?), ConversationId::new(id)))
}

type ActivePage = (Vec<ActiveConversation>, Option<String>);

/// A page, or of a filtered list what one look finds.
fn active(
    rows: &dyn Read,
    caller: &Caller,
    query: &ConversationQuery,
    mut before: Option<(Timestamp, ConversationId)>,
    now: Timestamp,
) -> Result<ActivePage, RowsError> {
    let limit = PageQuery::new(query.limit, None).limit();
    let mut unseen = match query.has_filter() {
        true => CONVERSATIONS_SCAN_MAX,
        false => limit,
    };
    let mut shown = Vec::new();
    while unseen > 0 {
        let size = unseen.min(limit);
        unseen = unseen.saturating_sub(size);
        // What a page says of where it ends is about rows that the caller may know of.
        let end = before.as_ref().map(|(at, id)| (*at, id));
        let seen = caller.newest_conversations(rows, end, size)?;
        let is_last = seen.len() < size as usize;
        for (one, at) in seen {
            before = Some((at, one.conversation_id.clone()));
            if !query.may_have(&one) {
                continue;
            }
            let found = readable(in_detail(rows, one, at, now))?;
            shown.extend(found.filter(|found| query.has(found)));
            if shown.len() >= limit as usize {
                return Ok((shown, before.as_ref().map(place_of)));
            }
        }
        if is_last {
            return Ok((shown, None));
        }
    }
    Ok((shown, before.as_ref().map(place_of)))
}

fn place_of((at, id): &(Timestamp, ConversationId)) -> String {
    format!("{}.{id}", at.0)
}

fn in_detail(
    rows: &dyn Read,
    conversation: Conversation,
    at: Timestamp,
    now: Timestamp,
) -> Result<ActiveConversation, RowsError> {
    let id = &conversation.conversation_id;
    let newest = rows.messages_before(id, None, 1)?.pop();
    let unanswered = rows.unanswered_of(id, ACTIVE_MESSAGES)?;
    let mut open_requests = 0_u32;
    for message in &unanswered {
        let live = rows.live_requests(&message.message_id)?;
        let open = live.iter().filter(|request| request.state.waits()).count();
        open_requests = open_requests.saturating_add(u32::try_from(open).unwrap_or(u32::MAX));
    }
    let present = unanswered.first().or(newest.as_ref());
    let phase = present.map(|one| Phase::of_message(one, open_requests > 0));
    Ok(ActiveConversation {
        conversation: ConversationView::load(rows, conversation, now)?,
        active_at: at.into(),
        phase: phase.map(|phase| phase.as_str().to_owned()),
        message_id: newest.as_ref().map(|one| one.message_id.to_string()),
        line: newest.map_or_else(String::new, |one| first_line(&one.body)),
        open_requests,
    })
}

pub(super) async fn show<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
    Params(page): Params<PageQuery>,
) -> Result<Json<ConversationStory>, ProblemResponse> {
    let (now, claim) = (service.now(), service.claim());
    let found = service
        .read(move |rows| story(rows, &ConversationId::new(id), &page, &claim))
        .await?;
    let seen = found.filter(|story| caller.sees_conversation(&story.conversation));
    let Some(Story {
        conversation: _,
        view,
        messages,
        next,
    }) = seen
    else {
        return Err(ProblemResponse::not_found("there is no such conversation"));
    };
    let messages = messages.into_iter().map(|rows| rows.view(now, &service));
    let messages: Vec<MessageView> = messages.collect();
    Ok(Json(ConversationStory {
        conversation: view,
        messages,
        next,
    }))
}

struct Story {
    conversation: Conversation,
    view: ConversationView,
    messages: Vec<MessageRows>,
    next: Option<String>,
}

fn story(
    rows: &dyn Read,
    id: &ConversationId,
    page: &PageQuery,
    claim: &Claim,
) -> Result<Option<Story>, RowsError> {
    let Some(conversation) = rows.conversation(id)? else {
        return Ok(None);
    };
    let before = match &page.before {
        Some(before) => rows.message(&MessageId::new(before.clone()))?,
        None => None,
    };
    let limit = page.limit();
    let found = rows.messages_before(id, before.map(|message| message.seq), limit)?;
    let next = PageQuery::next(&found, limit, |last| last.message_id.to_string());
    let mut messages = Vec::new();
    for message in found {
        messages.extend(readable(rows_of(rows, &message.message_id, claim))?.flatten());
    }
    Ok(Some(Story {
        view: ConversationView::load(rows, conversation.clone(), claim.now)?,
        conversation,
        messages,
        next,
    }))
}
