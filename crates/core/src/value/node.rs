//! Daemons that share one ledger, and which of them has a conversation.

use super::{ChannelId, ConversationId, Epoch, NodeId, ThreadId, Timestamp};

/// A daemon of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub node_id: NodeId,
    /// The opening of the ledger that may write for it.
    pub epoch: Epoch,
    pub state: NodeState,
    /// Its lease has not ended, by the database's clock: clocks of machines do not matter.
    pub alive: bool,
    /// When its lease ends, by the database's clock.
    pub lease_until: Timestamp,
    pub started_at: Timestamp,
    pub about: NodeInfo,
}

/// What a node says about itself when it joins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeInfo {
    /// Polled channels that it is configured for.
    pub channels: Vec<ChannelId>,
    pub version: String,
    pub codex_version: String,
    /// Turns that it may run at the same time.
    pub capacity: u32,
}

/// What a node does with new work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Takes it.
    Active,
    /// Takes none, finishes what runs, and hands the rest over.
    Draining,
    /// Is gone for good: it joins again as a new opening.
    Left,
}

words!(NodeState {
    Active => "active",
    Draining => "draining",
    Left => "left",
});

/// The node that reads a polled channel: of those that may, the one that is there longest.
#[must_use]
pub fn reader_of<'n>(nodes: &'n [Node], channel: &ChannelId) -> Option<&'n NodeId> {
    let may = |node: &&Node| {
        node.alive && node.state == NodeState::Active && node.about.channels.contains(channel)
    };
    let first = nodes.iter().filter(may);
    let first = first.min_by_key(|node| (node.started_at, &node.node_id));
    first.map(|node| &node.node_id)
}

impl Node {
    /// Whether conversations may stay with it.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.alive && self.state != NodeState::Left
    }
}

/// Which node has a conversation: its thread, its turns and its replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    pub conversation_id: ConversationId,
    /// Absent when any node may take it.
    pub node_id: Option<NodeId>,
    /// Counts the nodes that had it, one after the other: a node that meets a higher one than it knows has an old branch
    /// of the thread.
    pub generation: u32,
    pub since: Timestamp,
}

/// Bytes of one of a thread's files, stored so that another node can go on with the thread. A thread has one file; one
/// that was forked also needs those it was forked from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub thread: ThreadId,
    /// The file's path in its CODEX_HOME.
    pub path: String,
    /// The generation of the conversation's home that wrote it.
    pub generation: u32,
    /// Where it begins in the file.
    pub offset: u64,
    pub bytes: Vec<u8>,
    /// SHA-256 of the file up to the end of these bytes.
    pub digest: [u8; 32],
}

impl Segment {
    /// Where the next one begins.
    #[must_use]
    pub fn end(&self) -> u64 {
        let length = u64::try_from(self.bytes.len()).unwrap_or(u64::MAX);
        self.offset.saturating_add(length)
    }
}

/// What is stored of one of a thread's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadFile {
    /// Its path in its CODEX_HOME.
    pub path: String,
    /// The generation of its newest bytes.
    pub generation: u32,
    pub length: u64,
    /// SHA-256 of all of it.
    pub digest: [u8; 32],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, started_at: i64, state: NodeState, alive: bool) -> Node {
        Node {
            node_id: NodeId::new(id),
            epoch: Epoch(1),
            state,
            alive,
            lease_until: Timestamp(0),
            started_at: Timestamp(started_at),
            about: NodeInfo {
                channels: vec![ChannelId::new("molecule:1")],
                ..NodeInfo::default()
            },
        }
    }

    #[test]
    fn one_living_node_reads_a_channel() {
        let nodes = [
            node("a", 5, NodeState::Active, true),
            node("b", 1, NodeState::Active, false),
            node("c", 2, NodeState::Draining, true),
            node("d", 3, NodeState::Active, true),
        ];
        let read = |nodes: &[Node], channel: &str| {
            let reader = reader_of(nodes, &ChannelId::new(channel));
            reader.map(ToString::to_string)
        };
        assert_eq!(read(&nodes, "molecule:1").as_deref(), Some("d"));
        assert_eq!(read(&nodes, "molecule:2"), None);
        assert_eq!(read(&nodes[1..3], "molecule:1"), None);
    }
}
