//! The fleet's rows of an open transaction, as the core sees them.

use super::file;
use super::fleet;
use super::rows::SqlRows;
use crate::sql::Conn;
use bridge_core::port::{FleetRead, RowsError};
use bridge_core::value::{
    ConversationId, FileDigest, Home, KeptFile, MessageId, Node, NodeId, Segment, ThreadFile,
    ThreadId, Timestamp,
};

impl FleetRead for SqlRows<'_> {
    fn this_node(&self) -> Option<NodeId> {
        match self.conn() {
            Conn::Sqlite(_) => None,
            Conn::Postgres(session) => Some(session.node().clone()),
        }
    }

    fn nodes(&self) -> Result<Vec<Node>, RowsError> {
        fleet::nodes(self.conn())
    }

    fn node(&self, node_id: &NodeId) -> Result<Option<Node>, RowsError> {
        fleet::node(self.conn(), node_id)
    }

    fn home(&self, id: &ConversationId) -> Result<Option<Home>, RowsError> {
        fleet::home(self.conn(), id)
    }

    fn homes_of(
        &self,
        node_id: &NodeId,
        after: Option<&ConversationId>,
        limit: u32,
    ) -> Result<Vec<Home>, RowsError> {
        fleet::homes_of(self.conn(), node_id, after, limit)
    }

    fn homes_counted(&self, node_id: &NodeId, max: u32) -> Result<u64, RowsError> {
        fleet::homes_counted(self.conn(), node_id, max)
    }

    fn stranded(&self, limit: u32, leave_written: bool) -> Result<Vec<ConversationId>, RowsError> {
        fleet::stranded(self.conn(), limit, leave_written)
    }

    fn in_flight_elsewhere(
        &self,
        messages: &[MessageId],
        limit: u32,
    ) -> Result<Vec<(MessageId, NodeId)>, RowsError> {
        match self.this_node() {
            Some(this) => fleet::in_flight_elsewhere(self.conn(), &this, messages, limit),
            None => Ok(Vec::new()),
        }
    }

    fn wrote_files(&self, id: &ConversationId) -> Result<bool, RowsError> {
        fleet::wrote_files(self.conn(), id)
    }

    fn thread_files(&self, thread: &ThreadId) -> Result<Vec<ThreadFile>, RowsError> {
        fleet::thread_files(self.conn(), thread)
    }

    fn segment(
        &self,
        thread: &ThreadId,
        path: &str,
        offset: u64,
    ) -> Result<Option<Segment>, RowsError> {
        fleet::segment(self.conn(), self.key(), thread, path, offset)
    }

    fn kept_file(&self, digest: &FileDigest) -> Result<Option<KeptFile>, RowsError> {
        file::kept(self.conn(), digest)
    }

    fn kept_files(&self, digests: &[FileDigest]) -> Result<Vec<KeptFile>, RowsError> {
        file::kept_of(self.conn(), digests)
    }

    fn file_piece(&self, digest: &FileDigest, offset: u64) -> Result<Option<Vec<u8>>, RowsError> {
        file::piece(self.conn(), self.key(), digest, offset)
    }

    fn files_kept_before(
        &self,
        before: Timestamp,
        after: Option<&FileDigest>,
        limit: u32,
    ) -> Result<Vec<KeptFile>, RowsError> {
        file::kept_before(self.conn(), before, after, limit)
    }
}
