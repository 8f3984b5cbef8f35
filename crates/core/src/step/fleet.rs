//! Several daemons over one ledger: which node has a conversation, and what becomes of it when that node is gone.
//!
//! A node writes only while its lease lasts, which the store checks with every transaction. So whoever reads here that a
//! node is gone may take its conversations: nothing that the other one still does is accepted.

use super::turn::resume;
use super::{Action, Refused, RunError, Transition, Tx};
use crate::port::{Change, FleetChange, RequestsOf, RowsError};
use crate::value::{
    ConversationId, EventKind, Home, Loan, Message, MessageId, Node, NodeId, NodeInfo, NodeState,
    Segment, ThreadId, Timestamp, Turn,
};

impl Tx<'_> {
    /// Whether this node has a conversation. Where one daemon has the ledger for itself it has them all.
    pub(super) fn is_home(&self, id: &ConversationId) -> Result<bool, RowsError> {
        let Some(this) = self.this_node() else {
            return Ok(true);
        };
        let holder = self.home(id)?.and_then(|home| home.node_id);
        Ok(holder.is_none_or(|holder| holder == this))
    }

    /// A turn that is under way is known to the Codex of its conversation's node alone: nobody else may say what became
    /// of it.
    pub(super) fn expect_home(
        &self,
        transition: &'static str,
        message: &Message,
    ) -> Result<(), RunError> {
        if self.is_home(&message.conversation_id)? {
            return Ok(());
        }
        Err(Refused::new(transition, &message.message_id, Some(message)).into())
    }

    /// Makes this node the home of a conversation that no node has. False: another one has it, living or gone.
    ///
    /// Who only sends something takes nothing from a node that is gone: what runs there must be given up for lost with it,
    /// and what it wrote may be there alone. [`TakeOver`] sees to both.
    pub(super) fn come_home(
        &mut self,
        id: &ConversationId,
        now: Timestamp,
    ) -> Result<bool, RowsError> {
        let Some(this) = self.this_node() else {
            return Ok(true);
        };
        let home = self.home(id)?;
        if let Some(holder) = home.as_ref().and_then(|home| home.node_id.as_ref()) {
            return Ok(*holder == this);
        }
        self.set_home(id, home, Some(this), now)?;
        Ok(true)
    }

    /// Makes this node the home of a conversation that no living node has. False: another node has it.
    pub(super) fn take_home(
        &mut self,
        id: &ConversationId,
        now: Timestamp,
    ) -> Result<bool, RowsError> {
        let Some(this) = self.this_node() else {
            return Ok(true);
        };
        let home = self.home(id)?;
        let holder = home.as_ref().and_then(|home| home.node_id.as_ref());
        if holder == Some(&this) {
            return Ok(true);
        }
        if let Some(holder) = holder
            && self.node(holder)?.is_some_and(|node| node.keeps())
        {
            return Ok(false);
        }
        self.set_home(id, home, Some(this), now)?;
        Ok(true)
    }

    /// A node that comes to a conversation begins a new generation of its thread.
    fn set_home(
        &mut self,
        id: &ConversationId,
        before: Option<Home>,
        node_id: Option<NodeId>,
        now: Timestamp,
    ) -> Result<(), RowsError> {
        let generation = before.as_ref().map_or(0, |home| home.generation);
        let came = u32::from(node_id.is_some());
        self.change(Change::Fleet(FleetChange::Home {
            from: before.and_then(|home| home.node_id),
            to: Home {
                conversation_id: id.clone(),
                node_id,
                generation: generation.saturating_add(came),
                since: now,
            },
        }))
    }
}

/// Takes over conversations with work at hand whose node is gone, a few at a time. Their turns are lost, as after a crash
/// of this machine: what became of them is read from the thread.
#[derive(Clone, Debug)]
pub struct TakeOver {
    /// Conversations at once.
    pub limit: u32,
    /// Conversations that wrote files wait for their node, because their directories are there alone.
    pub leave_written: bool,
}

/// What a node took over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    pub conversations: Vec<ConversationId>,
    /// As many as were asked for: there may be more.
    pub more: bool,
}

impl Transition for TakeOver {
    type Outcome = TakenOver;
    const NAME: &'static str = "take_over";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<TakenOver, RunError> {
        if !takes_work(tx)? {
            return Ok(TakenOver::default());
        }
        let stranded = tx.stranded(self.limit, self.leave_written)?;
        let mut taken = TakenOver {
            more: u32::try_from(stranded.len()).unwrap_or(u32::MAX) >= self.limit,
            ..TakenOver::default()
        };
        for id in stranded {
            let before = tx.home(&id)?;
            if tx.take_home(&id, now)? {
                lose_turn(tx, &id, before.and_then(|home| home.node_id), now)?;
                tx.deliver(&id);
                taken.conversations.push(id);
            }
        }
        Ok(taken)
    }
}

/// Whether this node takes new work.
pub(super) fn takes_work(tx: &Tx<'_>) -> Result<bool, RowsError> {
    let Some(this) = tx.this_node() else {
        return Ok(false);
    };
    let node = tx.node(&this)?;
    Ok(node.is_some_and(|node| node.state == NodeState::Active))
}

/// The turn of a conversation that its last node had begun, and what Codex asked in it there. What it did after its last
/// stored bytes is in no history that can still be read, so it counts as touched wherever it could write.
fn lose_turn(
    tx: &mut Tx<'_>,
    id: &ConversationId,
    gone: Option<NodeId>,
    now: Timestamp,
) -> Result<(), RunError> {
    let Some(message) = tx.in_flight_of(id)? else {
        return Ok(());
    };
    if let Some(turn) = tx.turn_of(&message)?
        && turn.sandbox.can_write()
    {
        let node = gone.map_or_else(|| "its node".to_owned(), |gone| format!("node {gone}"));
        let line = format!(
            "{node} is gone in the middle of this turn: what Codex did there last is not known, and a machine that stood still may do a little more when it goes on; look whether something was done twice"
        );
        tx.event(&message, EventKind::Bridge, &line, now)?;
        if !turn.touched {
            tx.change(Change::Turn(Turn {
                touched: true,
                ..turn
            }))?;
        }
    }
    let requests = RequestsOf::Message(message.message_id.clone());
    tx.change(Change::Orphan(requests))?;
    // Whoever asks for a move need not be the node that is home now.
    Ok(resume(tx, message, now)?)
}

/// Lets go of what this node does not need any more, so that other nodes may take it: conversations in which nothing
/// runs and nothing is being sent.
#[derive(Clone, Debug)]
pub struct Release {
    /// Those behind this one.
    pub after: Option<ConversationId>,
    /// Conversations to look at.
    pub limit: u32,
    /// Conversations that wrote files stay this node's, because their directories are here alone.
    pub leave_written: bool,
}

/// How far a release came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Released {
    pub released: u32,
    /// Conversations in which something still runs.
    pub busy: u32,
    /// Conversations that wait for this node to come back, with the files that they wrote here.
    pub waiting: u32,
    /// Where the next page begins; absent at the end.
    pub next: Option<ConversationId>,
}

impl Transition for Release {
    type Outcome = Released;
    const NAME: &'static str = "release";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Released, RunError> {
        let mut done = Released::default();
        let Some(this) = tx.this_node() else {
            return Ok(done);
        };
        let homes = tx.homes_of(&this, self.after.as_ref(), self.limit)?;
        if u32::try_from(homes.len()).unwrap_or(u32::MAX) >= self.limit {
            done.next = homes.last().map(|home| home.conversation_id.clone());
        }
        for home in homes {
            let id = home.conversation_id.clone();
            if is_busy(tx, &id)? || tx.loan(&id)?.is_some() {
                done.busy = done.busy.saturating_add(1);
            } else if self.leave_written && tx.wrote_files(&id)? {
                done.waiting = done.waiting.saturating_add(1);
            } else {
                tx.set_home(&id, Some(home), None, now)?;
                done.released = done.released.saturating_add(1);
            }
        }
        if done.released > 0 {
            tx.act(Action::Schedule);
        }
        Ok(done)
    }
}

/// Whether a turn or a reply of a conversation is under way.
fn is_busy(tx: &Tx<'_>, id: &ConversationId) -> Result<bool, RowsError> {
    let at_work = tx.in_flight_of(id)?.is_some();
    Ok(at_work || tx.next_reply(id)?.is_some())
}

/// Why a conversation stays where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveOutcome {
    Moved,
    /// It was there already.
    AtHome,
    /// A turn runs in it, or a reply is being sent.
    Busy {
        /// The message whose turn runs.
        message_id: Option<MessageId>,
    },
    /// There is no such node, or it takes no work.
    Unfit {
        found: Option<Node>,
    },
    /// A Codex terminal on its node has it.
    Lent(Loan),
    /// It is a ledger of one daemon.
    Single,
}

/// Gives a conversation to another node. Of a node that is gone it takes what was left unfinished, without the files that
/// are there alone.
#[derive(Clone, Debug)]
pub struct MoveConversation {
    pub conversation_id: ConversationId,
    pub to: NodeId,
    /// Who asks for it.
    pub actor: String,
}

impl Transition for MoveConversation {
    type Outcome = MoveOutcome;
    const NAME: &'static str = "move";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<MoveOutcome, RunError> {
        let id = &self.conversation_id;
        if tx.this_node().is_none() {
            return Ok(MoveOutcome::Single);
        }
        let found = tx.node(&self.to)?;
        let fit = |node: &Node| node.keeps() && node.state == NodeState::Active;
        if !found.as_ref().is_some_and(fit) {
            return Ok(MoveOutcome::Unfit { found });
        }
        if let Some(loan) = tx.loan(id)? {
            return Ok(MoveOutcome::Lent(loan));
        }
        let outcome = give(tx, id, &self.to, now)?;
        if outcome == MoveOutcome::Moved {
            tx.audit(self.actor, "move", id, format!("to node {}", self.to), now)?;
            tx.act(Action::Schedule);
        }
        Ok(outcome)
    }
}

/// Makes a node the home of a conversation. What a node that is gone left unfinished comes with it.
pub(super) fn give(
    tx: &mut Tx<'_>,
    id: &ConversationId,
    to: &NodeId,
    now: Timestamp,
) -> Result<MoveOutcome, RunError> {
    let home = tx.home(id)?;
    let gone = home.as_ref().and_then(|home| home.node_id.clone());
    if gone.as_ref() == Some(to) {
        return Ok(MoveOutcome::AtHome);
    }
    let holder = match &gone {
        Some(holder) => tx.node(holder)?,
        None => None,
    };
    let lives = holder.is_some_and(|node| node.keeps());
    // A living node would go on with what runs there.
    if lives && is_busy(tx, id)? {
        let message_id = tx.in_flight_of(id)?.map(|message| message.message_id);
        return Ok(MoveOutcome::Busy { message_id });
    }
    tx.set_home(id, home, Some(to.clone()), now)?;
    if !lives {
        lose_turn(tx, id, gone, now)?;
        tx.deliver(id);
    }
    Ok(MoveOutcome::Moved)
}

/// Says what this node is to the others.
#[derive(Clone, Debug)]
pub struct Introduce {
    pub about: NodeInfo,
}

impl Transition for Introduce {
    type Outcome = ();
    const NAME: &'static str = "introduce";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        if let Some(node_id) = tx.this_node() {
            let about = self.about;
            tx.change(Change::Fleet(FleetChange::NodeInfo { node_id, about }))?;
        }
        Ok(())
    }
}

/// Changes what a node does with new work: drains it, or records that it left.
#[derive(Clone, Debug)]
pub struct SetNodeState {
    pub node_id: NodeId,
    pub state: NodeState,
    /// Who asks for it, if it is a person.
    pub actor: Option<String>,
}

impl Transition for SetNodeState {
    /// The node as it was; absent when there is none.
    type Outcome = Option<Node>;
    const NAME: &'static str = "set_node_state";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Option<Node>, RunError> {
        let Some(node) = tx.node(&self.node_id)? else {
            return Ok(None);
        };
        if node.state == self.state || node.state == NodeState::Left {
            return Ok(Some(node));
        }
        tx.change(Change::Fleet(FleetChange::NodeState {
            node_id: self.node_id.clone(),
            from: node.state,
            to: self.state,
        }))?;
        if let Some(actor) = self.actor {
            let what = match self.state {
                NodeState::Active => "node-activate",
                NodeState::Draining => "node-drain",
                NodeState::Left => "node-leave",
            };
            tx.audit(actor, what, &self.node_id, "", now)?;
        }
        tx.act(Action::Schedule);
        Ok(Some(node))
    }
}

/// Stores what a thread's file grew by. The answer of a turn is stored after its bytes: a node that takes over finds the
/// thread at least as far as its answers.
#[derive(Clone, Debug)]
pub struct StoreSegments {
    /// The message whose turn wrote them.
    pub message_id: MessageId,
    /// Set when a file does not begin any more with what is stored of it: everything of this thread is stored anew.
    pub anew: Option<ThreadId>,
    pub segments: Vec<Segment>,
}

impl Transition for StoreSegments {
    type Outcome = ();
    const NAME: &'static str = "store_segments";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        let message = tx.existing(Self::NAME, &self.message_id)?;
        let home = tx.home(&message.conversation_id)?;
        let ours = |segment: &Segment| {
            home.as_ref()
                .is_some_and(|home| home.generation == segment.generation)
        };
        if !self.segments.iter().all(ours) || !tx.is_home(&message.conversation_id)? {
            return Err(Refused::new(Self::NAME, &self.message_id, Some(&message)).into());
        }
        if let Some(thread) = self.anew {
            tx.change(Change::Fleet(FleetChange::DropSegments(thread)))?;
        }
        for segment in self.segments {
            tx.change(Change::Fleet(FleetChange::NewSegment(segment)))?;
        }
        Ok(())
    }
}
