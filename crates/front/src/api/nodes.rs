//! The nodes of a fleet: how they are, draining one, and moving a conversation to another one.

use super::extract::{Body, Who};
use super::messages::{ListRefusal, one_named, view};
use super::{Context, ProblemResponse};
use crate::{BridgeService, Caller, Time};
use axum::Json;
use axum::extract::{Path, State};
use bridge_core::find::short_id;
use bridge_core::limits::{HOMES_COUNTED_MAX, PAGE_MAX};
use bridge_core::port::{LedgerError, Read, RowsError};
use bridge_core::step::{MoveConversation, MoveOutcome, SetNodeState};
use bridge_core::value::{
    Conversation, ConversationId, MessageId, Node, NodeId, NodeState, Timestamp, reader_of,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A daemon that shares its database with none.
const SINGLE: &str = "this daemon has the database for itself; there are no other nodes";

/// Answer to `GET /v1/nodes`: those that live first, each kind by id. Empty where one daemon has the database for itself.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NodeList {
    /// The nodes.
    pub nodes: Vec<NodeView>,
}

/// A daemon that shares its database with others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeView {
    /// Its id.
    pub node_id: String,
    /// Whether it is the one that answers.
    pub answers: bool,
    /// `active`; `draining` while it takes nothing new; `left`; or `gone` when its lease has ended although it did not
    /// leave.
    pub state: String,
    /// How long its lease lasts if it is not renewed, in milliseconds; absent when it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<i64>,
    /// Since when it is gone, or has left at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_at: Option<Time>,
    /// When.
    pub started_at: Time,
    /// The daemon's version.
    pub version: String,
    /// Codex's version.
    pub codex_version: String,
    /// Turns that it may run at the same time.
    pub capacity: u32,
    /// Turns that it runs, or of one that is gone ran last.
    pub turns: u32,
    /// Conversations that it has; 10000 stands for that many or more.
    pub conversations: u64,
    /// Polled channels that it reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
}

/// What draining or activating a node came to.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NodeActView {
    /// The node.
    pub node_id: String,
    /// `draining` or `active`: what it is from now on, or was before.
    pub outcome: String,
    /// The same, as a sentence.
    pub detail: String,
}

/// Body of `POST /v1/conversations/{id}/move`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveRequest {
    /// The node that gets it.
    pub to: String,
}

/// What moving a conversation came to.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MoveView {
    /// The conversation.
    pub conversation_id: String,
    /// The platform's name for it.
    pub key: String,
    /// The node that has it now.
    pub node: String,
    /// `moved`, or `there` when it was there before.
    pub outcome: String,
    /// The same, as a sentence.
    pub detail: String,
}

/// How a node is, in the words of people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NodeCondition {
    Active,
    Draining,
    Gone,
    Left,
}

impl NodeCondition {
    fn of(node: &Node) -> Self {
        match node.state {
            NodeState::Left => Self::Left,
            _ if !node.alive => Self::Gone,
            NodeState::Active => Self::Active,
            NodeState::Draining => Self::Draining,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Draining => "draining",
            Self::Gone => "gone",
            Self::Left => "left",
        }
    }

    fn lives(self) -> bool {
        matches!(self, Self::Active | Self::Draining)
    }

    /// Why a node that does not live can't do what is asked of it.
    fn absence(self, id: &NodeId) -> Option<String> {
        match self {
            Self::Active | Self::Draining => None,
            Self::Gone => Some(format!(
                "node {id} is gone: its lease has ended, so it is down or does not reach the database; `codex-bridge node list` says since when"
            )),
            Self::Left => Some(format!(
                "node {id} has left: it is one again when its daemon is started"
            )),
        }
    }
}

impl NodeView {
    fn new(node: Node, load: NodeLoad, answers: bool, now: Timestamp) -> Self {
        let condition = NodeCondition::of(&node);
        let until = node.lease_until;
        // Leases are judged by the database's clock, and ours may be a little behind it.
        let (lease_ms, gone_at) = if condition.lives() {
            (Some(until.since_ms(now).max(0)), None)
        } else {
            (None, Some(Time::from(until.min(now))))
        };
        Self {
            node_id: node.node_id.to_string(),
            answers,
            state: condition.as_str().to_owned(),
            lease_ms,
            gone_at,
            started_at: node.started_at.into(),
            version: node.about.version,
            codex_version: node.about.codex_version,
            capacity: node.about.capacity,
            turns: load.turns,
            conversations: load.conversations,
            reads: load.reads,
        }
    }
}

/// What a node has to do.
#[derive(Clone, Debug, Default)]
struct NodeLoad {
    turns: u32,
    conversations: u64,
    reads: Vec<String>,
}

/// All nodes, those that live first; none where one daemon has the database for itself.
fn nodes(rows: &dyn Read, now: Timestamp) -> Result<Option<Vec<NodeView>>, RowsError> {
    let Some(this) = rows.this_node() else {
        return Ok(None);
    };
    let all = rows.nodes()?;
    let mut nodes = all.clone();
    nodes.sort_by_cached_key(|node| (NodeCondition::of(node), node.node_id.clone()));
    nodes.truncate(usize::try_from(PAGE_MAX).unwrap_or(usize::MAX));
    let flight = rows.flight(&[])?;
    let mut views = Vec::with_capacity(nodes.len());
    for node in nodes {
        let id = &node.node_id;
        let theirs = flight.iter().filter(|one| one.node.as_ref() == Some(id));
        let channels = node.about.channels.iter();
        let reads = channels.filter(|channel| reader_of(&all, channel) == Some(id));
        let load = NodeLoad {
            reads: reads.map(ToString::to_string).collect(),
            turns: theirs.fold(0, |sum, one| sum.saturating_add(one.turns)),
            conversations: rows.homes_counted(id, HOMES_COUNTED_MAX)?,
        };
        let answers = *id == this;
        views.push(NodeView::new(node, load, answers, now));
    }
    Ok(Some(views))
}

/// What `status` tells of nodes: those that have not left; nothing where one daemon has the database for itself.
pub(super) async fn present<D: BridgeService>(
    service: &D,
    now: Timestamp,
) -> Result<Option<Vec<NodeView>>, LedgerError> {
    let found = service.read(move |rows| nodes(rows, now)).await?;
    Ok(found.map(|mut nodes| {
        nodes.retain(|node| node.state != NodeCondition::Left.as_str());
        nodes
    }))
}

/// The node that has a conversation; `None` also where one daemon has the database for itself.
pub(super) fn node_of(rows: &dyn Read, id: &ConversationId) -> Result<Option<NodeId>, RowsError> {
    if rows.this_node().is_none() {
        return Ok(None);
    }
    Ok(rows.home(id)?.and_then(|home| home.node_id))
}

pub(super) async fn list<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
) -> Result<Json<NodeList>, ProblemResponse> {
    let now = service.now();
    let found = service.read(move |rows| nodes(rows, now)).await?;
    let nodes = found.unwrap_or_default();
    Ok(Json(NodeList { nodes }))
}

pub(super) async fn drain<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Result<Json<NodeActView>, ProblemResponse> {
    set_state(&service, &caller, NodeId::new(id), NodeState::Draining).await
}

pub(super) async fn activate<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Result<Json<NodeActView>, ProblemResponse> {
    set_state(&service, &caller, NodeId::new(id), NodeState::Active).await
}

async fn set_state<D: BridgeService>(
    service: &D,
    caller: &Caller,
    node_id: NodeId,
    state: NodeState,
) -> Result<Json<NodeActView>, ProblemResponse> {
    let (now, id) = (service.now(), node_id.clone());
    let read = service.read(move |rows| Ok((nodes(rows, now)?, rows.node(&id)?)));
    let (Some(nodes), node) = read.await? else {
        return Err(ProblemResponse::ambiguous(SINGLE));
    };
    // Before anything is written: the state of a node that is gone says nothing when it comes back.
    if node.is_some_and(|node| NodeCondition::of(&node) == NodeCondition::Gone) {
        return Err(absent(NodeCondition::Gone, &node_id));
    }
    let set = SetNodeState {
        node_id: node_id.clone(),
        state,
        actor: Some(caller.actor().to_string()),
    };
    let Some(before) = service.commit(set).await? else {
        return Err(ProblemResponse::not_found(unknown(&node_id)));
    };
    if before.state == NodeState::Left {
        return Err(absent(NodeCondition::Left, &node_id));
    }
    let changed = before.state != state;
    let detail = match (state, changed) {
        (NodeState::Active, true) => "it takes new work again".to_owned(),
        (NodeState::Active, false) => "it was active before".to_owned(),
        (_, true) => drain_words(&nodes, &node_id),
        (_, false) => "it was draining before".to_owned(),
    };
    Ok(Json(NodeActView {
        node_id: node_id.to_string(),
        outcome: state.as_str().to_owned(),
        detail,
    }))
}

/// What happens now to the work of a node that is drained.
fn drain_words(nodes: &[NodeView], id: &NodeId) -> String {
    let active = NodeCondition::Active.as_str();
    let is_it = |node: &&NodeView| node.node_id == id.as_str();
    let turns = match nodes.iter().find(is_it).map_or(0, |node| node.turns) {
        0 => String::new(),
        1 => "finishes the turn that runs, ".to_owned(),
        turns => format!("finishes the {turns} turns that run, "),
    };
    let others = nodes
        .iter()
        .any(|node| node.state == active && !is_it(&node));
    let alone = if others {
        ""
    } else {
        "; no other node is active, so new messages wait until one is"
    };
    format!("it takes nothing new, {turns}hands its conversations over and leaves{alone}")
}

fn unknown(id: &NodeId) -> String {
    format!("there is no node {id}; `codex-bridge node list` shows them")
}

fn absent(condition: NodeCondition, id: &NodeId) -> ProblemResponse {
    ProblemResponse::ambiguous(condition.absence(id).unwrap_or_default())
}

/// The conversation to move, and what people should know of it.
struct MovedConversation {
    conversation: Conversation,
    /// The node that had it, where it may have written files.
    wrote_on: Option<NodeId>,
}

pub(super) async fn move_conversation<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path(name): Path<String>,
    Body(request): Body<MoveRequest>,
) -> Result<Json<MoveView>, ProblemResponse> {
    let (who, actor) = (caller.clone(), caller.actor().to_string());
    let found = service
        .read(move |rows| to_move(rows, &who, &name))
        .await?
        .map_err(ProblemResponse::from)?;
    let to = NodeId::new(request.to);
    let moving = MoveConversation {
        conversation_id: found.conversation.conversation_id.clone(),
        to: to.clone(),
        actor,
    };
    let (outcome, detail) = match service.commit(moving).await? {
        MoveOutcome::Moved => ("moved", moved_words(&found, &to)),
        MoveOutcome::AtHome => ("there", format!("it was with node {to} before")),
        MoveOutcome::Busy { message_id } => {
            return Err(busy(&service, &found.conversation, message_id).await);
        }
        MoveOutcome::Unfit { found } => return Err(unfit(found.as_ref(), &to)),
        MoveOutcome::Lent(loan) => {
            return Err(ProblemResponse::ambiguous(format!(
                "{0} was not moved: it is lent to a Codex terminal, to {1}; `codex-bridge return {0}` ends that",
                found.conversation.external_key, loan.borrower
            )));
        }
        MoveOutcome::Single => return Err(ProblemResponse::ambiguous(SINGLE)),
    };
    Ok(Json(MoveView {
        conversation_id: found.conversation.conversation_id.to_string(),
        key: found.conversation.external_key,
        node: to.to_string(),
        outcome: outcome.to_owned(),
        detail,
    }))
}

fn to_move(
    rows: &dyn Read,
    caller: &Caller,
    name: &str,
) -> Result<Result<MovedConversation, ListRefusal>, RowsError> {
    let conversation = match one_named(rows, caller, name)? {
        Ok(one) => one,
        Err(refused) => return Ok(Err(refused)),
    };
    let id = &conversation.conversation_id;
    let holder = node_of(rows, id)?;
    let wrote_on = match holder {
        Some(holder) if rows.wrote_files(id)? => Some(holder),
        Some(_) | None => None,
    };
    Ok(Ok(MovedConversation {
        conversation,
        wrote_on,
    }))
}

fn moved_words(moved: &MovedConversation, to: &NodeId) -> String {
    let files = match &moved.wrote_on {
        Some(before) => format!(
            "; what it wrote in {} stays on node {before}, unless the nodes share that directory",
            moved.conversation.workdir
        ),
        None => String::new(),
    };
    format!("node {to} works on what comes next in it{files}")
}

/// Something is under way that its node must end first.
async fn busy<D: BridgeService>(
    service: &D,
    conversation: &Conversation,
    message_id: Option<MessageId>,
) -> ProblemResponse {
    let key = &conversation.external_key;
    let Some(message_id) = message_id else {
        return ProblemResponse::ambiguous(format!(
            "{key} was not moved: a reply in it is being sent; ask again when that is done"
        ));
    };
    let short = short_id(&message_id).to_owned();
    let message = match view(service, message_id).await {
        Ok(message) => message,
        Err(problem) => return problem,
    };
    let detail = format!(
        "{key} was not moved: message {short} in it is {}; wait until it is answered, or `codex-bridge stop {short}`",
        message.phase
    );
    ProblemResponse::conflict(detail, message.message_id, message.state)
}

/// A node that can't have it.
fn unfit(found: Option<&Node>, to: &NodeId) -> ProblemResponse {
    let Some(node) = found else {
        return ProblemResponse::unprocessable(unknown(to));
    };
    match NodeCondition::of(node) {
        condition @ (NodeCondition::Gone | NodeCondition::Left) => absent(condition, to),
        NodeCondition::Draining | NodeCondition::Active => ProblemResponse::ambiguous(format!(
            "node {to} is draining and takes nothing new; `codex-bridge node activate {to}` undoes that"
        )),
    }
}
