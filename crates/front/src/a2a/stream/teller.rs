//! The teller of one task: looks at its rows and hears what Codex says, and writes what is new into the book that all
//! its listeners read. One at a time may look, so everybody hears the same in the same order.

use super::book::{Book, Told};
use super::draft::Drafts;
use super::scene::Scene;
use crate::a2a::fault::Fault;
use crate::a2a::task::{Detail, task};
use crate::{BridgeService, Live, Subscription};
use a2a::{Task, TaskState};
use bridge_core::limits::EVENTS_PER_MESSAGE_MAX;
use bridge_core::port::{Ledger, Read, RowsError};
use bridge_core::task::TaskSnapshot;
use bridge_core::value::{Answer, Attachment, EventKind, ItemEvent, MessageId, TaskId};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Numbers that are reserved at a time: each time costs one commit, and a restart leaves the rest unused.
const BLOCK: u32 = 256;

/// Messages of one task whose live news is heard at the same time; rows tell of the others.
const HEARD_MAX: usize = 16;

/// The teller of one task.
#[derive(Debug)]
pub(super) struct Teller {
    task_id: TaskId,
    /// Where the first listener reached us: long files have addresses.
    base: String,
    mind: tokio::sync::Mutex<Option<Mind>>,
    book: Mutex<Book>,
    /// Rises with every event; whoever holds a receiver listens.
    written: watch::Sender<u64>,
    /// Somebody came, and may have brought a new word of the task.
    came: Notify,
    /// News of messages that nobody listens to yet.
    fresh: Mutex<Vec<(MessageId, Subscription)>>,
    /// When somebody listened last.
    heard_at: Mutex<Instant>,
}

/// What it knows.
#[derive(Debug)]
struct Mind {
    scene: Scene,
    view: TaskSnapshot,
    /// As rows say it.
    task: Arc<Task>,
    drafts: Drafts,
    /// The messages whose news is heard.
    watched: BTreeSet<MessageId>,
    /// The newest event of each message that was told.
    seen: HashMap<MessageId, u32>,
    /// The first number that is not ours any more.
    end: u64,
}

/// What rows say.
struct Rows {
    view: TaskSnapshot,
    events: Vec<ItemEvent>,
}

/// What a listener begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// The whole task.
    Snapshot,
    /// What comes behind this number, if that is known; otherwise the whole task.
    After(u64),
}

impl Teller {
    pub(super) fn new(task_id: TaskId, base: String) -> Self {
        Self {
            task_id,
            base,
            mind: tokio::sync::Mutex::default(),
            book: Mutex::default(),
            written: watch::Sender::new(0),
            came: Notify::new(),
            fresh: Mutex::default(),
            heard_at: Mutex::new(Instant::now()),
        }
    }

    /// When somebody listened last, as far as that was noted.
    pub(super) fn heard_at(&self) -> Instant {
        *self.heard_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody listens now.
    pub(super) fn is_heard(&self) {
        *self.heard_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn listen(&self) -> watch::Receiver<u64> {
        self.written.subscribe()
    }

    pub(super) fn listeners(&self) -> usize {
        self.written.receiver_count()
    }

    pub(super) fn task_id(&self) -> &TaskId {
        &self.task_id
    }

    /// Looks, and says where somebody who comes now begins: a snapshot of the task, or the number behind which it has
    /// missed something.
    pub(super) async fn begin<D: BridgeService>(
        &self,
        service: &D,
        from: From,
    ) -> Result<Begin, Fault> {
        let mut mind = self.mind.lock().await;
        if self.book().is_over() && (mind.is_none() || !self.stays_over(service).await?) {
            self.tear();
            return Ok(Begin::Anew);
        }
        self.look_with(service, &mut mind).await?;
        self.came.notify_one();
        let Some(mind) = mind.as_ref() else {
            return Err(Fault::internal("a teller has looked and knows nothing"));
        };
        let book = self.book();
        if let From::After(seq) = from
            && book.reaches(seq)
        {
            return Ok(Begin::Behind(seq));
        }
        let seq = book.last();
        Ok(Begin::With(Told {
            seq,
            event: Arc::new(mind.scene.snapshot(seq)),
        }))
    }

    /// Whether rows still say that it is over: a message that died may be given another try.
    async fn stays_over<D: BridgeService>(&self, service: &D) -> Result<bool, Fault> {
        let id = self.task_id.clone();
        let read = service
            .ledger()
            .read(move |rows| TaskSnapshot::load(rows, &id));
        match read.await? {
            Some(view) => Ok(view.now().state.terminal()),
            None => Err(Fault::task_not_found(self.task_id.as_str())),
        }
    }

    /// Returns when somebody came since the last time.
    pub(super) async fn looked_at(&self) {
        self.came.notified().await;
    }

    /// Writes whatever rows have that was not told yet.
    pub(super) async fn look<D: BridgeService>(&self, service: &D) -> Result<(), Fault> {
        let mut mind = self.mind.lock().await;
        self.look_with(service, &mut mind).await
    }

    async fn look_with<D: BridgeService>(
        &self,
        service: &D,
        mind: &mut Option<Mind>,
    ) -> Result<(), Fault> {
        loop {
            self.look_once(service, mind).await?;
            let Some(known) = mind.as_mut().filter(|_| !self.book().is_over()) else {
                return Ok(());
            };
            // What happened between the look and the watch is seen by looking again.
            if !self.attend(service, known).await? {
                return Ok(());
            }
        }
    }

    /// Hears the messages that have no answer yet, with what Codex is saying in them; `false` when there is none new.
    async fn attend<D: BridgeService>(&self, service: &D, mind: &mut Mind) -> Result<bool, Fault> {
        let open = mind.open();
        mind.watched.retain(|message_id| open.contains(message_id));
        let mut more = false;
        for message_id in open.into_iter().rev() {
            if mind.watched.len() >= HEARD_MAX || mind.watched.contains(&message_id) {
                continue;
            }
            let Some(news) = service.hub().watch(&message_id) else {
                break;
            };
            self.lock_fresh().push((message_id.clone(), news));
            mind.watched.insert(message_id.clone());
            more = true;
            if let Some(said) = service.hub().saying(&message_id) {
                let doings = mind.drafts.hear(&message_id, &said).into_iter().collect();
                self.tell(service, mind, doings).await?;
            }
        }
        Ok(more)
    }

    fn lock_fresh(&self) -> MutexGuard<'_, Vec<(MessageId, Subscription)>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// News of messages that are heard from now on.
    pub(super) fn fresh(&self) -> Vec<(MessageId, Subscription)> {
        std::mem::take(&mut *self.lock_fresh())
    }

    async fn look_once<D: BridgeService>(
        &self,
        service: &D,
        mind: &mut Option<Mind>,
    ) -> Result<(), Fault> {
        if self.book().is_over() {
            return Ok(());
        }
        let seen = mind.as_ref().map(|mind| mind.seen.clone());
        let id = self.task_id.clone();
        let read = service
            .ledger()
            .read(move |rows| read_rows(rows, &id, seen.as_ref()));
        let Some(rows) = read.await? else {
            self.tear();
            return Err(Fault::task_not_found(self.task_id.as_str()));
        };
        match mind {
            None => *mind = Some(self.wake(service, rows).await?),
            Some(known) if known.view == rows.view && rows.events.is_empty() => {}
            Some(known) => {
                known.task = Arc::new(self.task_after(service, known, &rows.view).await);
                known.drafts.keep_flying(&rows.view);
                known.view = rows.view;
                known.note(&rows.events);
                let doings = rows.events.iter().filter_map(doing).collect();
                self.tell(service, known, doings).await?;
            }
        }
        if mind
            .as_ref()
            .is_some_and(|mind| is_over(mind.scene.state()))
        {
            self.end();
        }
        Ok(())
    }

    /// The task now. Files are read again only where some answer is another one.
    async fn task_after<D: BridgeService>(
        &self,
        service: &D,
        known: &Mind,
        view: &TaskSnapshot,
    ) -> Task {
        let same = answers(&known.view).eq(answers(view));
        let detail = Detail {
            artifacts: !same,
            ..Detail::WHOLE
        };
        let mut now = task(service, &self.base, view, detail).await;
        if same {
            now.artifacts.clone_from(&known.task.artifacts);
        }
        now
    }

    /// The first look. The snapshot has a number of its own, so that no number of an earlier life means it.
    async fn wake<D: BridgeService>(&self, service: &D, rows: Rows) -> Result<Mind, Fault> {
        let first = self.reserve(service, BLOCK).await?;
        *self.book() = Book::behind(first);
        let task = Arc::new(task(service, &self.base, &rows.view, Detail::WHOLE).await);
        let drafts = Drafts::default();
        let doings = rows.events.iter().filter_map(doing).collect();
        let mut mind = Mind {
            scene: Scene::new(drafts.beside(&task, doings)),
            view: rows.view,
            task,
            drafts,
            watched: BTreeSet::new(),
            seen: HashMap::new(),
            end: first.saturating_add(u64::from(BLOCK)),
        };
        mind.note(&rows.events);
        Ok(mind)
    }

    /// Takes in live news of one message.
    pub(super) async fn hear<D: BridgeService>(
        &self,
        service: &D,
        message_id: &MessageId,
        live: Live,
    ) -> Result<(), Fault> {
        let said = match live {
            Live::Changed => return self.look(service).await,
            Live::Diff(_) => return Ok(()),
            Live::Text(said) => said,
        };
        let mut mind = self.mind.lock().await;
        match mind.as_mut() {
            Some(mind) if !self.book().is_over() => {
                let doings = mind.drafts.hear(message_id, &said).into_iter().collect();
                self.tell(service, mind, doings).await
            }
            Some(_) => Ok(()),
            None => self.look_with(service, &mut mind).await,
        }
    }

    /// Writes what is different now.
    async fn tell<D: BridgeService>(
        &self,
        service: &D,
        mind: &mut Mind,
        doings: Vec<String>,
    ) -> Result<(), Fault> {
        let next = self.book().last().saturating_add(1);
        let events = mind
            .scene
            .differences(mind.drafts.beside(&mind.task, doings), next);
        if events.is_empty() {
            return Ok(());
        }
        let count = u64::try_from(events.len()).unwrap_or(u64::MAX);
        while next.saturating_add(count) > mind.end {
            let more = self.reserve(service, BLOCK).await;
            if more.as_ref() != Ok(&mind.end) {
                // Whoever listens asks again and gets a snapshot: what could not be numbered is in it.
                self.tear();
                more?;
                return Err(Fault::unavailable(
                    "the numbers of this task's events were taken; subscribe again",
                ));
            }
            mind.end = mind.end.saturating_add(u64::from(BLOCK));
        }
        let mut book = self.book();
        book.write(events);
        self.written.send_replace(book.last());
        Ok(())
    }

    async fn reserve<D: BridgeService>(&self, service: &D, more: u32) -> Result<u64, Fault> {
        let first = service.reserve_sequence(&self.task_id, more).await?;
        first.ok_or_else(|| Fault::task_not_found(self.task_id.as_str()))
    }

    /// Nothing more comes; whoever listens hears what is left.
    pub(super) fn end(&self) {
        self.book().close();
        self.written.send_modify(|_| {});
    }

    /// Nothing more comes from here, and what came is not all.
    pub(super) fn tear(&self) {
        self.book().tear();
        self.written.send_modify(|_| {});
        self.came.notify_one();
    }

    /// The messages whose news counts.
    pub(super) async fn messages(&self) -> Vec<MessageId> {
        let mind = self.mind.lock().await;
        let watched = mind.iter().flat_map(|mind| &mind.watched);
        watched.cloned().collect()
    }
}

/// Where a listener begins.
#[derive(Debug)]
pub(super) enum Begin {
    With(Told),
    Behind(u64),
    /// With another teller: this one has ended, and the task has not.
    Anew,
}

impl Mind {
    /// The messages that have no answer.
    fn open(&self) -> Vec<MessageId> {
        let messages = self.view.messages.iter();
        let open = messages.filter(|one| one.answer.is_none());
        open.map(|one| one.message.message_id.clone()).collect()
    }

    fn note(&mut self, events: &[ItemEvent]) {
        for event in events {
            self.seen.insert(event.message_id.clone(), event.ordinal);
        }
    }
}

/// The task, and what happened in its turns since; at the first look only the newest of it.
fn read_rows(
    rows: &dyn Read,
    task_id: &TaskId,
    seen: Option<&HashMap<MessageId, u32>>,
) -> Result<Option<Rows>, RowsError> {
    let Some(view) = TaskSnapshot::load(rows, task_id)? else {
        return Ok(None);
    };
    let mut events = Vec::new();
    for one in &view.messages {
        let message_id = &one.message.message_id;
        let after = match seen {
            Some(seen) => seen.get(message_id).copied().unwrap_or(0),
            None => rows.last_event(message_id)?.saturating_sub(1),
        };
        events.extend(rows.events(message_id, after, EVENTS_PER_MESSAGE_MAX)?);
    }
    Ok(Some(Rows { view, events }))
}

/// What artifacts are made of.
fn answers(
    view: &TaskSnapshot,
) -> impl Iterator<Item = (&MessageId, Option<&Answer>, &[Attachment])> {
    let messages = view.messages.iter();
    messages.map(|one| {
        let id = &one.message.message_id;
        (id, one.answer.as_ref(), one.files.as_slice())
    })
}

/// What a row says about the work, for whoever gave it. What the bridge notes for its operator is not for them.
fn doing(event: &ItemEvent) -> Option<String> {
    match event.kind {
        EventKind::Started | EventKind::Completed | EventKind::Retrying => Some(event.text.clone()),
        EventKind::Asked | EventKind::Bridge => None,
    }
}

fn is_over(state: &TaskState) -> bool {
    matches!(
        state,
        TaskState::Completed | TaskState::Failed | TaskState::Canceled | TaskState::Rejected
    )
}
