//! Publishes the events of one A2A task to all of its subscribers.
//!
//! A publisher merges two sources, committed rows and live Codex output, into one numbered sequence. The sequence is kept
//! in a replay buffer, so every subscriber sees the same events in the same order and can resume after a disconnect.

use super::draft::Drafts;
use super::replay::{ReplayBuffer, SequencedEvent};
use super::snapshot::Snapshot;
use crate::a2a::error::A2aError;
use crate::a2a::task::{Detail, task};
use crate::{BridgeService, LiveSubscription, LiveUpdate, lock};
use a2a::{Task, TaskState};
use bridge_core::limits::EVENTS_PER_MESSAGE_MAX;
use bridge_core::port::{Read, RowsError};
use bridge_core::step::ReserveSequence;
use bridge_core::task::TaskSnapshot;
use bridge_core::value::{Answer, Attachment, EventKind, ItemEvent, MessageId, TaskId};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Sequence numbers reserved per commit. A restart skips the unused rest of the block.
const SEQUENCE_BLOCK: u32 = 256;

/// Messages of one task whose live output is followed at the same time; the others are polled.
const LIVE_MESSAGES_MAX: usize = 16;

/// Publishes the events of one task.
#[derive(Debug)]
pub(super) struct TaskPublisher {
    task_id: TaskId,
    /// Base URL for links to files too large to inline; that of the first subscriber.
    base_url: String,
    /// Held while events are computed: two concurrent refreshes would publish the same event twice.
    state: tokio::sync::Mutex<Option<PublisherState>>,
    replay: Mutex<ReplayBuffer>,
    /// Incremented after each published event; subscribers wait on it.
    published: watch::Sender<u64>,
    /// Wakes the publisher's loop when a subscriber arrives.
    arrived: Notify,
    /// Subscriptions that the publisher's loop has not taken over yet.
    new_subscriptions: Mutex<Vec<(MessageId, LiveSubscription)>>,
    /// Last time the loop saw a subscriber.
    last_active: Mutex<Instant>,
}

/// The inputs that the published events were computed from.
#[derive(Debug)]
struct PublisherState {
    /// The task as subscribers know it.
    snapshot: Snapshot,
    view: TaskSnapshot,
    /// The task as rows have it, without live output.
    task: Arc<Task>,
    drafts: Drafts,
    /// Messages whose live output is followed.
    watched: BTreeSet<MessageId>,
    /// Ordinal of the newest published item of each message.
    published_items: HashMap<MessageId, u32>,
    /// The first sequence number that is not reserved.
    reserved_end: u64,
}

/// The rows of one refresh.
struct PublisherRows {
    view: TaskSnapshot,
    /// Items that were not published yet.
    items: Vec<ItemEvent>,
}

/// Where a subscriber wants to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartAt {
    Snapshot,
    /// After this sequence number if it is still buffered, otherwise with a snapshot.
    After(u64),
}

/// Where a subscriber starts.
#[derive(Debug)]
pub(super) enum SubscriberStart {
    Snapshot(SequencedEvent),
    After(u64),
    /// Nowhere: this publisher has closed but the task goes on. The next one has to be asked.
    Retired,
}

impl TaskPublisher {
    pub(super) fn new(task_id: TaskId, base_url: String) -> Self {
        Self {
            task_id,
            base_url,
            state: tokio::sync::Mutex::default(),
            replay: Mutex::default(),
            published: watch::Sender::new(0),
            arrived: Notify::new(),
            new_subscriptions: Mutex::default(),
            last_active: Mutex::new(Instant::now()),
        }
    }

    pub(super) fn last_active(&self) -> Instant {
        *lock(&self.last_active)
    }

    /// Notes that there is a subscriber now.
    pub(super) fn mark_active(&self) {
        *lock(&self.last_active) = Instant::now();
    }

    pub(super) fn replay(&self) -> MutexGuard<'_, ReplayBuffer> {
        lock(&self.replay)
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    pub(super) fn subscribers(&self) -> usize {
        self.published.receiver_count()
    }

    pub(super) fn task_id(&self) -> &TaskId {
        &self.task_id
    }

    /// Refreshes, and returns where a new subscriber starts.
    pub(super) async fn start<D: BridgeService>(
        &self,
        service: &D,
        start: StartAt,
    ) -> Result<SubscriberStart, A2aError> {
        let mut state = self.state.lock().await;
        if self.replay().is_closed() && (state.is_none() || !self.is_still_over(service).await?) {
            self.invalidate();
            return Ok(SubscriberStart::Retired);
        }
        self.refresh_state(service, &mut state).await?;
        self.arrived.notify_one();
        let Some(state) = state.as_ref() else {
            return Err(A2aError::internal("a publisher refreshed and has no state"));
        };
        let replay = self.replay();
        if let StartAt::After(sequence) = start
            && replay.reaches(sequence)
        {
            return Ok(SubscriberStart::After(sequence));
        }
        let sequence = replay.last();
        Ok(SubscriberStart::Snapshot(SequencedEvent {
            sequence,
            event: Arc::new(state.snapshot.event(sequence)),
        }))
    }

    /// Whether the task is still over: an operator may have redriven a dead message.
    async fn is_still_over<D: BridgeService>(&self, service: &D) -> Result<bool, A2aError> {
        let id = self.task_id.clone();
        let read = service.read(move |rows| TaskSnapshot::load(rows, &id));
        match read.await? {
            Some(view) => Ok(view.now().state.terminal()),
            None => Err(A2aError::task_not_found(self.task_id.as_str())),
        }
    }

    /// Resolves when a subscriber has arrived since the last call.
    pub(super) async fn subscriber_arrived(&self) {
        self.arrived.notified().await;
    }

    /// Publishes changes of the rows.
    pub(super) async fn refresh<D: BridgeService>(&self, service: &D) -> Result<(), A2aError> {
        let mut state = self.state.lock().await;
        self.refresh_state(service, &mut state).await
    }

    async fn refresh_state<D: BridgeService>(
        &self,
        service: &D,
        state: &mut Option<PublisherState>,
    ) -> Result<(), A2aError> {
        loop {
            self.refresh_once(service, state).await?;
            let Some(known) = state.as_mut().filter(|_| !self.replay().is_closed()) else {
                return Ok(());
            };
            // A change between the read and the new subscription notified nobody: read again.
            if !self.follow_open_messages(service, known).await? {
                return Ok(());
            }
        }
    }

    /// Subscribes to the live output of unanswered messages and publishes what Codex has written so far. Returns whether
    /// a message was added.
    async fn follow_open_messages<D: BridgeService>(
        &self,
        service: &D,
        state: &mut PublisherState,
    ) -> Result<bool, A2aError> {
        let open = state.open_messages();
        state.watched.retain(|message_id| open.contains(message_id));
        let mut added = false;
        for message_id in open.into_iter().rev() {
            if state.watched.len() >= LIVE_MESSAGES_MAX || state.watched.contains(&message_id) {
                continue;
            }
            let Some(subscription) = service.hub().watch(&message_id) else {
                break;
            };
            lock(&self.new_subscriptions).push((message_id.clone(), subscription));
            state.watched.insert(message_id.clone());
            added = true;
            if let Some(text) = service.hub().current_text(&message_id) {
                let progress = state.drafts.apply(&message_id, &text).into_iter().collect();
                self.publish(service, state, progress).await?;
            }
        }
        Ok(added)
    }

    /// Subscriptions added since the last call.
    pub(super) fn take_new_subscriptions(&self) -> Vec<(MessageId, LiveSubscription)> {
        std::mem::take(&mut *lock(&self.new_subscriptions))
    }

    async fn refresh_once<D: BridgeService>(
        &self,
        service: &D,
        state: &mut Option<PublisherState>,
    ) -> Result<(), A2aError> {
        if self.replay().is_closed() {
            return Ok(());
        }
        let published = state.as_ref().map(|state| state.published_items.clone());
        let id = self.task_id.clone();
        let read = service.read(move |rows| read_rows(rows, &id, published.as_ref()));
        let Some(rows) = read.await? else {
            self.invalidate();
            return Err(A2aError::task_not_found(self.task_id.as_str()));
        };
        match state {
            None => *state = Some(self.initial_state(service, rows).await?),
            Some(known) if known.view == rows.view && rows.items.is_empty() => {}
            Some(known) => {
                known.task = Arc::new(self.render(service, known, &rows.view).await);
                known.drafts.retain_in_flight(&rows.view);
                known.view = rows.view;
                known.mark_published(&rows.items);
                let progress = rows.items.iter().filter_map(progress_line).collect();
                self.publish(service, known, progress).await?;
            }
        }
        if state
            .as_ref()
            .is_some_and(|state| is_terminal(state.snapshot.state()))
        {
            self.close();
        }
        Ok(())
    }

    /// Renders the task. Files are read again only if an answer has changed.
    async fn render<D: BridgeService>(
        &self,
        service: &D,
        known: &PublisherState,
        view: &TaskSnapshot,
    ) -> Task {
        let same = answers(&known.view).eq(answers(view));
        let detail = Detail {
            artifacts: !same,
            ..Detail::WHOLE
        };
        let mut rendered = task(service, &self.base_url, view, detail).await;
        if same {
            rendered.artifacts.clone_from(&known.task.artifacts);
        }
        rendered
    }

    /// The state after the first read. Reserving numbers first gives the snapshot a number that no earlier publisher of
    /// this task has used.
    async fn initial_state<D: BridgeService>(
        &self,
        service: &D,
        rows: PublisherRows,
    ) -> Result<PublisherState, A2aError> {
        let first = self.reserve(service, SEQUENCE_BLOCK).await?;
        *self.replay() = ReplayBuffer::starting_after(first);
        let task = Arc::new(task(service, &self.base_url, &rows.view, Detail::WHOLE).await);
        let drafts = Drafts::default();
        let progress = rows.items.iter().filter_map(progress_line).collect();
        let mut state = PublisherState {
            snapshot: Snapshot::new(drafts.merge(&task, progress)),
            view: rows.view,
            task,
            drafts,
            watched: BTreeSet::new(),
            published_items: HashMap::new(),
            reserved_end: first.saturating_add(u64::from(SEQUENCE_BLOCK)),
        };
        state.mark_published(&rows.items);
        Ok(state)
    }

    /// Applies a live update of one message.
    pub(super) async fn apply_live<D: BridgeService>(
        &self,
        service: &D,
        message_id: &MessageId,
        live: LiveUpdate,
    ) -> Result<(), A2aError> {
        let text = match live {
            LiveUpdate::Changed => return self.refresh(service).await,
            LiveUpdate::Diff(_) => return Ok(()),
            LiveUpdate::Text(text) => text,
        };
        let mut state = self.state.lock().await;
        match state.as_mut() {
            Some(state) if !self.replay().is_closed() => {
                let progress = state.drafts.apply(message_id, &text).into_iter().collect();
                self.publish(service, state, progress).await
            }
            Some(_) => Ok(()),
            None => self.refresh_state(service, &mut state).await,
        }
    }

    /// Publishes the difference between the snapshot and the current state.
    async fn publish<D: BridgeService>(
        &self,
        service: &D,
        state: &mut PublisherState,
        progress: Vec<String>,
    ) -> Result<(), A2aError> {
        let next = self.replay().last().saturating_add(1);
        let current = state.drafts.merge(&state.task, progress);
        let events = state.snapshot.update(current, next);
        if events.is_empty() {
            return Ok(());
        }
        let count = u64::try_from(events.len()).unwrap_or(u64::MAX);
        while next.saturating_add(count) > state.reserved_end {
            let more = self.reserve(service, SEQUENCE_BLOCK).await;
            if more.as_ref() != Ok(&state.reserved_end) {
                // These events have no numbers. Subscribers reconnect and get them in a snapshot.
                self.invalidate();
                more?;
                return Err(A2aError::unavailable(
                    "the numbers of this task's events were taken; subscribe again",
                ));
            }
            state.reserved_end = state.reserved_end.saturating_add(u64::from(SEQUENCE_BLOCK));
        }
        let mut replay = self.replay();
        replay.push(events);
        self.published.send_replace(replay.last());
        Ok(())
    }

    async fn reserve<D: BridgeService>(&self, service: &D, count: u32) -> Result<u64, A2aError> {
        let first = service
            .commit(ReserveSequence {
                task_id: self.task_id.clone(),
                more: count,
            })
            .await?;
        first.ok_or_else(|| A2aError::task_not_found(self.task_id.as_str()))
    }

    /// Ends the stream; subscribers still read the buffered events.
    pub(super) fn close(&self) {
        self.replay().close();
        self.published.send_modify(|_| {});
    }

    /// Ends a stream that is incomplete; subscribers start again with a snapshot.
    pub(super) fn invalidate(&self) {
        self.replay().invalidate();
        self.published.send_modify(|_| {});
        self.arrived.notify_one();
    }

    /// Messages whose subscriptions are still needed.
    pub(super) async fn watched_messages(&self) -> Vec<MessageId> {
        let state = self.state.lock().await;
        let watched = state.iter().flat_map(|state| &state.watched);
        watched.cloned().collect()
    }
}

impl PublisherState {
    /// Messages without an answer.
    fn open_messages(&self) -> Vec<MessageId> {
        let messages = self.view.messages.iter();
        let open = messages.filter(|one| one.answer.is_none());
        open.map(|one| one.message.message_id.clone()).collect()
    }

    fn mark_published(&mut self, items: &[ItemEvent]) {
        for item in items {
            self.published_items
                .insert(item.message_id.clone(), item.ordinal);
        }
    }
}

/// Loads the task and its unpublished items; on the first read only the newest item of each message.
fn read_rows(
    rows: &dyn Read,
    task_id: &TaskId,
    published: Option<&HashMap<MessageId, u32>>,
) -> Result<Option<PublisherRows>, RowsError> {
    let Some(view) = TaskSnapshot::load(rows, task_id)? else {
        return Ok(None);
    };
    let mut items = Vec::new();
    for one in &view.messages {
        let message_id = &one.message.message_id;
        let after = match published {
            Some(published) => published.get(message_id).copied().unwrap_or(0),
            None => rows.last_event(message_id)?.saturating_sub(1),
        };
        items.extend(rows.events(message_id, after, EVENTS_PER_MESSAGE_MAX)?);
    }
    Ok(Some(PublisherRows { view, items }))
}

/// The parts of a task that its artifacts are made of.
fn answers(
    view: &TaskSnapshot,
) -> impl Iterator<Item = (&MessageId, Option<&Answer>, &[Attachment])> {
    let messages = view.messages.iter();
    messages.map(|one| {
        let id = &one.message.message_id;
        (id, one.answer.as_ref(), one.files.as_slice())
    })
}

/// The item's text for the task's owner. Notes of the bridge are for its operator only.
fn progress_line(item: &ItemEvent) -> Option<String> {
    match item.kind {
        EventKind::Started | EventKind::Completed | EventKind::Retrying => Some(item.text.clone()),
        EventKind::Asked
        | EventKind::Bridge
        | EventKind::Raw
        | EventKind::Stderr
        | EventKind::Imported => None,
    }
}

fn is_terminal(state: &TaskState) -> bool {
    matches!(
        state,
        TaskState::Completed | TaskState::Failed | TaskState::Canceled | TaskState::Rejected
    )
}
