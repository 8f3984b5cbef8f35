//! Where the news of a turn waits for whoever follows it.
//!
//! The connection's task never waits for a follower: text is coalesced into its newest form, items queue up
//! to a bound, and a follower that falls further behind loses sight of the turn and must reconcile.

use crate::account::Account;
use crate::fault;
use crate::host::wall_now;
use bridge_codex::rpc::RawId;
use bridge_codex::turn::{ItemStage, TurnFold, TurnNews, TurnOutcome};
use bridge_codex::wire::server_request::RequestKind as WireKind;
use bridge_codex::wire::values::TurnStatus as WireStatus;
use bridge_codex::wire::{Notification, ServerRequest, ThreadId, TurnId};
use bridge_core::port::{Asked, AskedRef, ItemNote, TurnEnd, TurnEvent, TurnStatus};
use bridge_core::value::{self, Failure, IncarnationId, RequestKind, Timestamp, Usage};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Events that may wait for a follower.
const QUEUE_MAX: usize = 4096;
/// Notifications kept while it is not known yet which turn is followed.
const EARLY_MAX: usize = 4096;
/// Questions of Codex that may wait for an answer at the same time.
const ASKED_MAX: usize = 256;

/// All mailboxes of one connection, by thread.
#[derive(Debug, Default)]
pub(crate) struct Mailboxes {
    by_thread: Mutex<HashMap<ThreadId, Arc<Mailbox>>>,
    asked: Mutex<HashMap<RawId, ServerRequest>>,
    account: Arc<Account>,
}

/// The mailbox of one followed turn.
#[derive(Debug)]
pub(crate) struct Mailbox {
    incarnation: IncarnationId,
    inner: Mutex<Inner>,
    wake: Notify,
}

#[derive(Debug)]
struct Inner {
    stage: Stage,
    queue: VecDeque<TurnEvent>,
    /// The newest text that nobody has read.
    text: Option<TurnEvent>,
    /// Something happened since the last event that was read.
    alive: bool,
    over: bool,
}

#[derive(Debug)]
enum Stage {
    /// The thread is being looked at; which turn is ours is not known yet.
    Early(Vec<Notification>),
    Folding(Box<TurnFold>),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mailboxes {
    pub(crate) fn new(account: Arc<Account>) -> Self {
        Self {
            account,
            ..Self::default()
        }
    }

    /// Opens a mailbox for a turn that is about to start on an idle thread.
    pub(crate) fn open(
        &self,
        fold: TurnFold,
        thread: ThreadId,
        incarnation: IncarnationId,
    ) -> Arc<Mailbox> {
        self.insert(Stage::Folding(Box::new(fold)), thread, incarnation)
    }

    /// Opens a mailbox for a thread that is about to be looked at; nothing that comes meanwhile is missed.
    pub(crate) fn open_early(&self, thread: ThreadId, incarnation: IncarnationId) -> Arc<Mailbox> {
        self.insert(Stage::Early(Vec::new()), thread, incarnation)
    }

    fn insert(&self, stage: Stage, thread: ThreadId, incarnation: IncarnationId) -> Arc<Mailbox> {
        let inner = Inner {
            stage,
            queue: VecDeque::new(),
            text: None,
            alive: false,
            over: false,
        };
        let mailbox = Arc::new(Mailbox {
            incarnation,
            inner: Mutex::new(inner),
            wake: Notify::new(),
        });
        locked(&self.by_thread).insert(thread, Arc::clone(&mailbox));
        mailbox
    }

    /// Closes a mailbox, unless another one took its place.
    pub(crate) fn close(&self, thread: &ThreadId, mailbox: &Arc<Mailbox>) {
        let mut boxes = locked(&self.by_thread);
        if boxes
            .get(thread)
            .is_some_and(|present| Arc::ptr_eq(present, mailbox))
        {
            boxes.remove(thread);
        }
    }

    pub(crate) fn deliver(&self, notification: &Notification) {
        if let Notification::ServerRequestResolved(resolved) = notification {
            locked(&self.asked).remove(&resolved.request_id);
        }
        let Some(thread) = notification.thread_id() else {
            return;
        };
        let mailbox = locked(&self.by_thread).get(thread).cloned();
        if let Some(mailbox) = mailbox {
            let resets_at = self.account.resets_at(wall_now());
            mailbox.deliver(notification, resets_at);
        }
    }

    /// Hands a question to the follower of its thread; gives it back when there is none.
    pub(crate) fn ask(&self, request: ServerRequest) -> Result<(), Box<ServerRequest>> {
        let mailbox = request
            .thread_id()
            .and_then(|thread| locked(&self.by_thread).get(thread).cloned());
        let mut asked = locked(&self.asked);
        let Some(mailbox) = mailbox.filter(|mailbox| asked.len() < ASKED_MAX && !mailbox.is_over())
        else {
            return Err(Box::new(request));
        };
        mailbox.push(TurnEvent::Asked(Asked {
            asked: AskedRef {
                incarnation: mailbox.incarnation.clone(),
                rpc_id: request.id.to_string(),
                item_id: request.item_id().map(|id| value::ItemId::new(id.as_str())),
            },
            method: request.method.clone(),
            kind: kind_of(&request),
            headline: request.headline(),
            shown: request.headline(),
            payload: request.params.to_string(),
        }));
        asked.insert(request.id.clone(), request);
        Ok(())
    }

    /// Takes a question out, to answer it.
    pub(crate) fn take_asked(&self, rpc_id: &str) -> Option<ServerRequest> {
        let mut asked = locked(&self.asked);
        let id = asked.keys().find(|id| id.to_string() == rpc_id).cloned()?;
        asked.remove(&id)
    }

    /// The connection is gone: every follower hears it.
    pub(crate) fn lose_all(&self, why: &str) {
        for (_, mailbox) in locked(&self.by_thread).drain() {
            mailbox.push(TurnEvent::Lost {
                why: why.to_owned(),
            });
        }
    }
}

fn kind_of(request: &ServerRequest) -> RequestKind {
    match &request.kind {
        WireKind::Command(_) | WireKind::LegacyExec(_) => RequestKind::Command,
        WireKind::FileChange(_) | WireKind::LegacyPatch(_) => RequestKind::FileChange,
        WireKind::Permissions(_) => RequestKind::Permissions,
        WireKind::UserInput(_) => RequestKind::UserInput,
        WireKind::Elicitation(_) => RequestKind::Elicitation,
        WireKind::ToolCall(_) => RequestKind::ToolCall,
        WireKind::AuthRefresh(_)
        | WireKind::CurrentTime(_)
        | WireKind::Attestation
        | WireKind::Unknown { .. } => RequestKind::Other(request.method.clone()),
    }
}

impl Mailbox {
    /// Codex named the turn that is followed: what came early is sorted now.
    pub(crate) fn bind(&self, thread: &ThreadId, turn_id: TurnId) {
        let mut inner = locked(&self.inner);
        match &mut inner.stage {
            Stage::Folding(fold) => {
                fold.bind(turn_id);
            }
            Stage::Early(early) => {
                let early = std::mem::take(early);
                let fold = TurnFold::new(thread.clone(), Some(turn_id), None);
                inner.stage = Stage::Folding(Box::new(fold));
                for notification in &early {
                    inner.fold(notification, None);
                }
            }
        }
        drop(inner);
        self.wake.notify_one();
    }

    fn deliver(&self, notification: &Notification, resets_at: Option<Timestamp>) {
        let mut inner = locked(&self.inner);
        if let Stage::Early(early) = &mut inner.stage {
            match early.len() < EARLY_MAX {
                true => early.push(notification.clone()),
                false => inner.lose("too much happened while the thread was looked at"),
            }
        } else {
            inner.fold(notification, resets_at);
        }
        drop(inner);
        self.wake.notify_one();
    }

    /// Whether the turn has ended for whoever follows it: nobody would hear a question any more.
    fn is_over(&self) -> bool {
        locked(&self.inner).over
    }

    fn push(&self, event: TurnEvent) {
        locked(&self.inner).push(event);
        self.wake.notify_one();
    }

    /// The next event; items first, then the newest text, then a mere sign of life.
    pub(crate) async fn next(&self) -> TurnEvent {
        loop {
            let woken = self.wake.notified();
            {
                let mut inner = locked(&self.inner);
                if let Some(event) = inner.queue.pop_front() {
                    return event;
                }
                if let Some(text) = inner.text.take() {
                    return text;
                }
                if std::mem::take(&mut inner.alive) {
                    return TurnEvent::Alive;
                }
            }
            woken.await;
        }
    }
}

impl Inner {
    fn fold(&mut self, notification: &Notification, resets_at: Option<Timestamp>) {
        let Stage::Folding(fold) = &mut self.stage else {
            return;
        };
        if let Notification::Malformed { method, why, .. } = notification
            && method == "turn/completed"
        {
            return self.lose(&format!("codex told its end in an unknown form ({why})"));
        }
        match fold.apply(notification) {
            Some(TurnNews::Item { kind, stage, .. }) if is_silent(&kind, stage) => {
                self.alive = true;
            }
            Some(TurnNews::Item {
                stage,
                item_id,
                headline,
                effect,
                ..
            }) => {
                let item_id = value::ItemId::new(item_id.as_str());
                if self
                    .text
                    .as_ref()
                    .is_some_and(|text| is_text_of(text, &item_id))
                {
                    self.text = None;
                }
                let completed = stage == ItemStage::Completed;
                self.push(TurnEvent::Item(ItemNote {
                    item_id,
                    completed,
                    headline,
                    effect,
                }));
            }
            Some(TurnNews::Text { item_id, text }) => {
                let item_id = value::ItemId::new(item_id.as_str());
                self.text = Some(TurnEvent::Text { item_id, text });
            }
            Some(TurnNews::Retrying { message }) => self.push(TurnEvent::Retrying { message }),
            Some(TurnNews::Completed(outcome)) => {
                self.text = None;
                if outcome.unread && outcome.answer.is_none() {
                    return self.lose("codex answered in an unknown form");
                }
                if outcome.joined {
                    tracing::warn!(turn_id = %outcome.turn_id.as_str(), "a message was put into a turn that another program had begun on its thread");
                }
                self.push(TurnEvent::Ended(end(*outcome, resets_at)));
            }
            Some(TurnNews::Started { .. } | TurnNews::Usage(_)) => self.alive = true,
            None => self.alive |= fold.concerns(notification),
        }
    }

    fn push(&mut self, event: TurnEvent) {
        if self.over {
            return;
        }
        self.over = matches!(event, TurnEvent::Ended(_) | TurnEvent::Lost { .. });
        if self.over || self.queue.len() < QUEUE_MAX {
            self.queue.push_back(event);
        } else {
            self.lose("its news came faster than it could be kept");
        }
    }

    fn lose(&mut self, why: &str) {
        self.push(TurnEvent::Lost {
            why: why.to_owned(),
        });
    }
}

/// The user's own message is no news, and an agent message that just began has no words yet.
fn is_silent(kind: &str, stage: ItemStage) -> bool {
    kind == "userMessage" || (kind == "agentMessage" && stage == ItemStage::Started)
}

fn is_text_of(event: &TurnEvent, item: &value::ItemId) -> bool {
    matches!(event, TurnEvent::Text { item_id, .. } if item_id == item)
}

fn end(outcome: TurnOutcome, resets_at: Option<Timestamp>) -> TurnEnd {
    let status = match outcome.status {
        WireStatus::Completed => TurnStatus::Completed,
        WireStatus::Interrupted => TurnStatus::Interrupted,
        WireStatus::Failed | WireStatus::InProgress | WireStatus::Other(_) => TurnStatus::Failed,
    };
    let failure: Option<Failure> = outcome
        .error
        .as_ref()
        .map(|error| fault::of_turn(error, resets_at));
    let usage = outcome.usage.map(|usage| usage.turn).unwrap_or_default();
    TurnEnd {
        turn_id: value::TurnId::new(outcome.turn_id.as_str()),
        status,
        answer: outcome.answer.map(|answer| answer.text),
        touched: outcome.effects,
        heard: crate::history::client_ids(&outcome.heard),
        failure,
        usage: Usage {
            input_tokens: i64::try_from(usage.input_tokens).unwrap_or(i64::MAX),
            output_tokens: i64::try_from(usage.output_tokens).unwrap_or(i64::MAX),
        },
    }
}
