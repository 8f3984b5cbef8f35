//! What daemons that share one ledger read and write beside the rows of messages.

use super::rows::RowsError;
use crate::value::{
    ConversationId, FileDigest, Home, KeptFile, MessageId, Node, NodeId, NodeInfo, NodeState,
    Segment, ThreadFile, ThreadId, Timestamp,
};

/// Which conversations a node may take messages of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFilter {
    pub node_id: NodeId,
    /// A conversation that wrote files on a node that is gone stays there: its directory is there alone.
    pub leave_written: bool,
}

/// Nodes, homes of conversations, and the threads and files that go with them.
pub trait FleetRead {
    /// The node that this transaction runs on; absent where one daemon has the ledger for itself.
    fn this_node(&self) -> Option<NodeId>;
    /// Nodes, those that live first, by id: none beyond [`PAGE_MAX`](crate::limits::PAGE_MAX).
    fn nodes(&self) -> Result<Vec<Node>, RowsError>;
    /// One of them.
    fn node(&self, node_id: &NodeId) -> Result<Option<Node>, RowsError>;
    /// Which node has a conversation; absent when none ever had it.
    fn home(&self, id: &ConversationId) -> Result<Option<Home>, RowsError>;
    /// Conversations of this node, in id order after `after`, at most `limit`.
    fn homes_of(
        &self,
        node_id: &NodeId,
        after: Option<&ConversationId>,
        limit: u32,
    ) -> Result<Vec<Home>, RowsError>;
    /// How many conversations this node has; it counts to `max` and no further.
    fn homes_counted(&self, node_id: &NodeId, max: u32) -> Result<u64, RowsError>;
    /// Conversations with work at hand (a turn, or replies to send) whose node is gone, or that have none, in id order, at
    /// most `limit`; with `leave_written` without those that wrote files on a node that is gone.
    fn stranded(&self, limit: u32, leave_written: bool) -> Result<Vec<ConversationId>, RowsError>;
    /// Which of these messages have their turns on other nodes, and on which, by id, at most `limit`.
    fn in_flight_elsewhere(
        &self,
        messages: &[MessageId],
        limit: u32,
    ) -> Result<Vec<(MessageId, NodeId)>, RowsError>;
    /// Whether a turn of a conversation wrote, or may have written, files.
    fn wrote_files(&self, id: &ConversationId) -> Result<bool, RowsError>;
    /// What is stored of a thread's files, without their bytes, by path: the oldest first, its own last.
    fn thread_files(&self, thread: &ThreadId) -> Result<Vec<ThreadFile>, RowsError>;
    /// The stored segment of a thread's file that begins at an offset.
    fn segment(
        &self,
        thread: &ThreadId,
        path: &str,
        offset: u64,
    ) -> Result<Option<Segment>, RowsError>;
    /// How much of a file is stored; absent when nothing of it is.
    fn kept_file(&self, digest: &FileDigest) -> Result<Option<KeptFile>, RowsError>;
    /// The same for many: those of which something is stored.
    fn kept_files(&self, digests: &[FileDigest]) -> Result<Vec<KeptFile>, RowsError>;
    /// The stored bytes of a file that begin at an offset.
    fn file_piece(&self, digest: &FileDigest, offset: u64) -> Result<Option<Vec<u8>>, RowsError>;
    /// Files that no node was about to name since `before`, by digest, after `after`, at most `limit`: none beyond
    /// [`FILES_SCAN_MAX`](crate::limits::FILES_SCAN_MAX).
    fn files_kept_before(
        &self,
        before: Timestamp,
        after: Option<&FileDigest>,
        limit: u32,
    ) -> Result<Vec<KeptFile>, RowsError>;
}

/// The closed list of what they write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetChange {
    /// Gives a conversation to a node, or lets it go, expecting who has it now.
    Home { from: Option<NodeId>, to: Home },
    /// Records what a node says about itself.
    NodeInfo { node_id: NodeId, about: NodeInfo },
    /// Changes what a node does with new work, expecting its present state. A node that left can write nothing more.
    NodeState {
        node_id: NodeId,
        /// The state it must be in.
        from: NodeState,
        to: NodeState,
    },
    /// Stores bytes of a thread's file behind those that are stored of it.
    NewSegment(Segment),
    /// Removes all that is stored of a thread.
    DropSegments(ThreadId),
    /// Records that a node is about to name a file, as it then is.
    KeepFile(KeptFile),
    /// Stores bytes of a file behind those that are stored of it.
    NewFilePiece {
        digest: FileDigest,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// Removes a file that no node was about to name since `kept_at`.
    DropFile(KeptFile),
}
