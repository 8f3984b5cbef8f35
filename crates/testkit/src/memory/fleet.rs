//! Several daemons over the rows in memory: nodes, their leases by one clock, homes of conversations, and the bytes of
//! threads and files.

use super::MemoryRows;
use super::apply::{found, guard};
use super::derived::page;
use bridge_core::limits::{FILES_SCAN_MAX, PAGE_MAX};
use bridge_core::port::{FleetChange, FleetRead, NodeFilter, RowsError};
use bridge_core::value::{
    ConversationId, Epoch, FileDigest, Home, KeptFile, Message, MessageId, Node, NodeId, NodeInfo,
    NodeState, Segment, StateName, ThreadFile, ThreadId, Timestamp,
};
use std::collections::BTreeSet;

impl MemoryRows {
    /// What the database's clock says from now on.
    pub fn set_clock(&mut self, clock: Timestamp) {
        self.clock_ms = clock.0;
    }

    pub fn clock(&self) -> Timestamp {
        Timestamp(self.clock_ms)
    }

    /// The node whose transactions follow.
    pub fn set_node(&mut self, node_id: Option<NodeId>) {
        self.this_node = node_id;
    }

    /// A node joins, or the same one again with a newer opening.
    pub fn join(&mut self, node_id: &NodeId, epoch: Epoch, about: NodeInfo, lease_ms: i64) {
        let node = Node {
            node_id: node_id.clone(),
            epoch,
            state: NodeState::Active,
            alive: true,
            lease_until: self.clock().plus_ms(lease_ms),
            started_at: self.clock(),
            about,
        };
        self.nodes.put(node_id.clone(), node);
    }

    /// Makes the lease of a node longer; false when it has ended, or another opening has the node.
    pub fn renew(&mut self, node_id: &NodeId, epoch: Epoch, lease_ms: i64) -> bool {
        let node = self.node_now(node_id);
        let Some(node) = node.filter(|node| node.epoch == epoch && node.keeps()) else {
            return false;
        };
        let lease_until = self.clock().plus_ms(lease_ms);
        self.nodes.put(
            node_id.clone(),
            Node {
                lease_until,
                ..node
            },
        );
        true
    }

    pub(super) fn node_now(&self, node_id: &NodeId) -> Option<Node> {
        let node = self.nodes.get(node_id)?.clone();
        Some(Node {
            alive: node.lease_until > self.clock(),
            ..node
        })
    }

    pub(super) fn all_nodes(&self) -> Vec<Node> {
        let ids = self.nodes.iter().map(|(id, _)| id);
        let mut nodes: Vec<_> = ids.filter_map(|id| self.node_now(id)).collect();
        nodes.sort_by_key(|node| !node.alive);
        nodes.truncate(page(PAGE_MAX));
        nodes
    }

    pub(super) fn forget_nodes(&mut self, before: Timestamp) {
        let nodes = self.nodes.iter().map(|(_, node)| node);
        let old = nodes.filter(|node| node.lease_until < before);
        let old: Vec<_> = old.map(|node| node.node_id.clone()).collect();
        for id in old {
            if self.count_homes(&id, 1) == 0 {
                self.nodes.remove(&id);
            }
        }
    }

    pub(super) fn all_homes_of(
        &self,
        node_id: &NodeId,
        after: Option<&ConversationId>,
        limit: u32,
    ) -> Vec<Home> {
        let homes = self.homes.iter().map(|(_, home)| home);
        let ours = homes.filter(|home| home.node_id.as_ref() == Some(node_id));
        let behind = ours.filter(|home| after.is_none_or(|after| home.conversation_id > *after));
        behind.take(page(limit)).cloned().collect()
    }

    pub(super) fn count_homes(&self, node_id: &NodeId, max: u32) -> u64 {
        let homes = self.homes.iter().map(|(_, home)| home);
        let ours = homes.filter(|home| home.node_id.as_ref() == Some(node_id));
        let counted = ours
            .take(usize::try_from(max).unwrap_or(usize::MAX))
            .count();
        u64::try_from(counted).unwrap_or(u64::MAX)
    }

    /// Whether no living node has a conversation.
    fn is_nobodys(&self, id: &ConversationId) -> bool {
        let holder = self.homes.get(id).and_then(|home| home.node_id.as_ref());
        let node = holder.and_then(|holder| self.node_now(holder));
        !node.is_some_and(|node| node.keeps())
    }

    pub(super) fn all_stranded(&self, limit: u32, leave_written: bool) -> Vec<ConversationId> {
        let at_work = |message: &&Message| {
            let name = message.life.state.name();
            name.awaits_answer() && name != StateName::Received
        };
        let working = self.open_messages().filter(at_work);
        let working = working.map(|message| message.conversation_id.clone());
        let sending = self.lanes.iter().map(|((id, _, _), _)| id.clone());
        let mut ids: Vec<_> = working.chain(sending).collect();
        ids.sort();
        ids.dedup();
        let is_left = |id: &ConversationId| {
            let has_home = self
                .homes
                .get(id)
                .is_some_and(|home| home.node_id.is_some());
            leave_written && has_home && self.has_written(id)
        };
        ids.retain(|id| self.is_nobodys(id) && !is_left(id));
        ids.truncate(page(limit));
        ids
    }

    pub(super) fn has_written(&self, id: &ConversationId) -> bool {
        let turns = self.turns.iter().map(|(_, turn)| turn);
        turns
            .filter(|turn| turn.touched && turn.sandbox.can_write())
            .filter_map(|turn| self.messages.get(&turn.message_id))
            .any(|message| message.conversation_id == *id)
    }

    /// Whether a node may take messages of a conversation.
    pub(super) fn lets_node(&self, filter: Option<&NodeFilter>, id: &ConversationId) -> bool {
        let Some(filter) = filter else {
            return true;
        };
        let holder = self.homes.get(id).and_then(|home| home.node_id.as_ref());
        match holder {
            Some(holder) if *holder == filter.node_id => true,
            Some(_) if filter.leave_written && self.has_written(id) => false,
            Some(_) => self.is_nobodys(id),
            None => true,
        }
    }

    pub(super) fn change_fleet(&mut self, change: &FleetChange) -> Result<(), RowsError> {
        match change {
            FleetChange::Home { from, to } => self.move_home(from.as_ref(), to),
            FleetChange::NodeInfo { node_id, about } => self.node_info(node_id, about),
            FleetChange::NodeState { node_id, from, to } => self.node_state(node_id, *from, *to),
            FleetChange::NewSegment(segment) => self.new_segment(segment),
            FleetChange::DropSegments(thread) => {
                self.drop_segments(thread);
                Ok(())
            }
            FleetChange::KeepFile(file) => {
                self.files.put(file.digest, *file);
                Ok(())
            }
            FleetChange::NewFilePiece {
                digest,
                offset,
                bytes,
            } => self.new_file_piece((*digest, *offset), bytes),
            FleetChange::DropFile(file) => self.drop_file(file),
        }
    }

    fn move_home(&mut self, from: Option<&NodeId>, to: &Home) -> Result<(), RowsError> {
        let id = &to.conversation_id;
        let holder = self.homes.get(id).and_then(|home| home.node_id.as_ref());
        guard(holder == from && self.conversations.contains(id), || {
            format!("home of conversation {id}")
        })?;
        self.homes.put(id.clone(), to.clone());
        Ok(())
    }

    fn node_info(&mut self, node_id: &NodeId, about: &NodeInfo) -> Result<(), RowsError> {
        let node = self.nodes.get(node_id);
        let mut node = found(node, || format!("node {node_id}"))?.clone();
        node.about = about.clone();
        self.nodes.put(node_id.clone(), node);
        Ok(())
    }

    fn node_state(
        &mut self,
        node_id: &NodeId,
        from: NodeState,
        to: NodeState,
    ) -> Result<(), RowsError> {
        let node = self.nodes.get(node_id).filter(|node| node.state == from);
        let node = found(node, || format!("state of node {node_id}"))?.clone();
        self.nodes.put(node_id.clone(), Node { state: to, ..node });
        Ok(())
    }

    fn new_segment(&mut self, segment: &Segment) -> Result<(), RowsError> {
        let (thread, path) = (&segment.thread, segment.path.clone());
        let file = self.files_of(thread).into_iter().find(|it| it.path == path);
        let end = file.map_or(0, |file| file.length);
        guard(segment.offset == end, || {
            format!("segment of thread {thread}")
        })?;
        self.segments
            .put((thread.clone(), path, segment.offset), segment.clone());
        Ok(())
    }

    fn drop_segments(&mut self, thread: &ThreadId) {
        let keys = self.segments.iter().map(|(key, _)| key);
        let keys: Vec<_> = keys.filter(|key| key.0 == *thread).cloned().collect();
        for key in keys {
            self.segments.remove(&key);
        }
    }

    fn new_file_piece(&mut self, place: (FileDigest, u64), bytes: &[u8]) -> Result<(), RowsError> {
        let end = u64::try_from(bytes.len()).map_or(u64::MAX, |more| place.1.saturating_add(more));
        let length = self.files.get(&place.0).map(|file| file.length);
        guard(length == Some(end), || format!("piece of file {}", place.0))?;
        self.file_pieces.put(place, bytes.to_vec());
        Ok(())
    }

    fn drop_file(&mut self, file: &KeptFile) -> Result<(), RowsError> {
        let digest = file.digest;
        guard(self.files.get(&digest) == Some(file), || {
            format!("file {digest}")
        })?;
        let places = self.file_pieces.iter().map(|(place, _)| *place);
        let places: Vec<_> = places.filter(|place| place.0 == digest).collect();
        for place in places {
            self.file_pieces.remove(&place);
        }
        self.files.remove(&digest);
        Ok(())
    }

    pub(super) fn files_of(&self, thread: &ThreadId) -> Vec<ThreadFile> {
        let segments = self.segments.iter().map(|(_, segment)| segment);
        let mut files: Vec<ThreadFile> = Vec::new();
        for segment in segments.filter(|segment| segment.thread == *thread) {
            files.retain(|file| file.path != segment.path);
            files.push(ThreadFile {
                path: segment.path.clone(),
                generation: segment.generation,
                length: segment.end(),
                digest: segment.digest,
            });
        }
        files
    }
}

impl FleetRead for MemoryRows {
    fn this_node(&self) -> Option<NodeId> {
        self.this_node.clone()
    }

    fn nodes(&self) -> Result<Vec<Node>, RowsError> {
        Ok(self.all_nodes())
    }

    fn node(&self, node_id: &NodeId) -> Result<Option<Node>, RowsError> {
        Ok(self.node_now(node_id))
    }

    fn home(&self, id: &ConversationId) -> Result<Option<Home>, RowsError> {
        Ok(self.homes.get(id).cloned())
    }

    fn homes_of(
        &self,
        node_id: &NodeId,
        after: Option<&ConversationId>,
        limit: u32,
    ) -> Result<Vec<Home>, RowsError> {
        Ok(self.all_homes_of(node_id, after, limit))
    }

    fn homes_counted(&self, node_id: &NodeId, max: u32) -> Result<u64, RowsError> {
        Ok(self.count_homes(node_id, max))
    }

    fn stranded(&self, limit: u32, leave_written: bool) -> Result<Vec<ConversationId>, RowsError> {
        Ok(self.all_stranded(limit, leave_written))
    }

    fn in_flight_elsewhere(
        &self,
        messages: &[MessageId],
        limit: u32,
    ) -> Result<Vec<(MessageId, NodeId)>, RowsError> {
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let asked: BTreeSet<&MessageId> = messages.iter().collect();
        let elsewhere = asked.into_iter().filter_map(|id| {
            let message = self.messages.get(id)?;
            let home = self.homes.get(&message.conversation_id)?;
            let node = home.node_id.as_ref()?;
            let goes_on = message.life.state.name().in_flight();
            let is_other = self.this_node.as_ref().is_some_and(|this| this != node);
            (goes_on && is_other).then(|| (id.clone(), node.clone()))
        });
        Ok(elsewhere.take(most).collect())
    }

    fn wrote_files(&self, id: &ConversationId) -> Result<bool, RowsError> {
        Ok(self.has_written(id))
    }

    fn thread_files(&self, thread: &ThreadId) -> Result<Vec<ThreadFile>, RowsError> {
        Ok(self.files_of(thread))
    }

    fn segment(
        &self,
        thread: &ThreadId,
        path: &str,
        offset: u64,
    ) -> Result<Option<Segment>, RowsError> {
        let key = (thread.clone(), path.to_owned(), offset);
        Ok(self.segments.get(&key).cloned())
    }

    fn kept_file(&self, digest: &FileDigest) -> Result<Option<KeptFile>, RowsError> {
        Ok(self.files.get(digest).copied())
    }

    fn kept_files(&self, digests: &[FileDigest]) -> Result<Vec<KeptFile>, RowsError> {
        let asked: BTreeSet<&FileDigest> = digests.iter().collect();
        Ok(asked
            .into_iter()
            .filter_map(|digest| self.files.get(digest).copied())
            .collect())
    }

    fn file_piece(&self, digest: &FileDigest, offset: u64) -> Result<Option<Vec<u8>>, RowsError> {
        Ok(self.file_pieces.get(&(*digest, offset)).cloned())
    }

    fn files_kept_before(
        &self,
        before: Timestamp,
        after: Option<&FileDigest>,
        limit: u32,
    ) -> Result<Vec<KeptFile>, RowsError> {
        let files = self.files.iter().map(|(_, file)| file);
        let old = files.filter(|file| file.kept_at < before);
        let old = old.filter(|file| after.is_none_or(|after| file.digest > *after));
        let most = usize::try_from(limit.min(FILES_SCAN_MAX)).unwrap_or(usize::MAX);
        Ok(old.take(most).copied().collect())
    }
}
