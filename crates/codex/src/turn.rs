//! Folds the notifications of ONE turn into what happened and how it ended.
//!
//! Pure and bounded: a flood of deltas costs one draft. The fold decides nothing about the
//! message the turn belongs to; when the end of a turn was not seen, [`crate::oracle`] reads it
//! from the thread's history.

mod changes;
mod text;

use std::collections::BTreeSet;

pub use changes::{OpenChanges, completed_command, completed_diff};
use text::TextDraft;
pub use text::{MAX_DRAFT_BYTES, completed_text};

use bridge_core::port::{self, TextUpdate, TurnEnd};

use crate::answer::AnswerCandidates;
use crate::wire::account::{ThreadTokenUsage, TokenUsage};
use crate::wire::item::{Item, MessageMark};
use crate::wire::notification::{ErrorNotice, ItemDelta, TurnNotice};
use crate::wire::turn::TurnError;
use crate::wire::values::TurnStatus;
use crate::wire::{Notification, Turn};
use bridge_core::value::{ClientId, ItemId, ThreadId, TurnId, Usage};

/// Items that may be open at once; beyond it the turn simply counts as having touched the world.
const MAX_OPEN_EFFECTS: usize = 1024;

/// Client ids that are kept of the messages in one turn; nobody steers a turn more often.
pub const MAX_RECEIVED: usize = 256;

/// Whether an item begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemStage {
    Started,
    Completed,
}

/// The effect of a notification, for watchers and for the ledger.
///
/// Silence is not idleness: a full draft gives no more news. [`TurnFold::concerns`] is the sign of
/// life.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnNews {
    /// The turn runs; from now on it can be interrupted.
    Started {
        turn_id: TurnId,
    },
    Item {
        stage: ItemStage,
        item_id: ItemId,
        kind: String,
        headline: String,
        /// It may touch the world: journal this before anything else.
        effect: bool,
    },
    /// More of the message being written: [`TurnFold::writing`] has all of it so far. What
    /// it is when it ends is in the item's own news: [`completed_text`].
    Text,
    /// A model call failed and is tried again. Not a failure.
    Retrying {
        message: String,
    },
    Usage,
    /// The end. Later notifications of the turn change nothing.
    Completed(Box<TurnOutcome>),
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnOutcome {
    /// Without a failure: the caller classifies `error`, because it knows when the account's limit resets.
    pub end: TurnEnd,
    pub error: Option<TurnError>,
    /// The turn was begun by a message that is not the one it was followed for.
    pub joined: bool,
    /// Why this end proves nothing, and the history must be read instead.
    pub doubt: Option<String>,
}

/// Which turn the fold is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Aim {
    /// The turn id is not known yet; `begun` is a turn of our thread that was seen to start.
    Unknown {
        begun: Option<TurnId>,
    },
    /// Known, but not seen running.
    Expected(TurnId),
    Running(TurnId),
    Done,
}

/// The fold of one turn.
#[derive(Debug)]
pub struct TurnFold {
    thread_id: ThreadId,
    client_id: Option<ClientId>,
    aim: Aim,
    draft: Option<TextDraft>,
    candidates: AnswerCandidates,
    error: Option<TurnError>,
    touched: bool,
    open_effects: BTreeSet<ItemId>,
    usage: Usage,
    /// Usage of the thread before this turn.
    baseline: Option<TokenUsage>,
    received: Vec<ClientId>,
    /// The first user message that was seen: whose it was.
    opener: Option<Option<ClientId>>,
    seen: Seen,
}

/// What speaks against believing the end of a turn.
#[derive(Debug, Default)]
struct Seen {
    /// A message of Codex in a form we can't read.
    unread_message: bool,
    /// An item that may have been one: its kind is new.
    unknown_item: bool,
    /// Anything but the messages that the turn was given.
    any_item: bool,
    /// Messages that Codex does not say whose they are; two are as good as many.
    unmarked: BTreeSet<ItemId>,
}

impl TurnFold {
    /// A fold for a turn of `thread_id`. Without a turn id it waits for [`TurnFold::bind`] or for
    /// the user message that carries `client_id`; without either, the next turn to start is ours.
    pub fn new(thread_id: ThreadId, turn_id: Option<TurnId>, client_id: Option<ClientId>) -> Self {
        Self {
            thread_id,
            client_id,
            aim: turn_id.map_or(Aim::Unknown { begun: None }, Aim::Expected),
            draft: None,
            candidates: AnswerCandidates::default(),
            error: None,
            touched: false,
            open_effects: BTreeSet::new(),
            usage: Usage::default(),
            baseline: None,
            received: Vec::new(),
            opener: None,
            seen: Seen::default(),
        }
    }

    /// Tells the fold the id that the `turn/start` response gave. A turn that was already found by
    /// its client id is kept.
    pub fn bind(&mut self, turn_id: TurnId) -> Option<TurnNews> {
        match &self.aim {
            Aim::Unknown { begun } if begun.as_ref() == Some(&turn_id) => {
                Some(self.running(turn_id))
            }
            Aim::Unknown { .. } => {
                self.aim = Aim::Expected(turn_id);
                None
            }
            Aim::Expected(_) | Aim::Running(_) | Aim::Done => None,
        }
    }

    pub fn turn_id(&self) -> Option<&TurnId> {
        match &self.aim {
            Aim::Expected(turn_id) | Aim::Running(turn_id) => Some(turn_id),
            Aim::Unknown { .. } | Aim::Done => None,
        }
    }

    /// True when the notification belongs to this turn: a sign of life.
    pub fn concerns(&self, notification: &Notification) -> bool {
        notification.thread_id() == Some(&self.thread_id)
            && self.turn_id().is_some()
            && notification.turn_id() == self.turn_id()
    }

    /// The message being written, as far as it is known. Borrowed, because a copy for every delta would cost the square
    /// of its length.
    pub fn writing(&self) -> Option<&TextUpdate> {
        self.draft.as_ref().map(|draft| &draft.text)
    }

    /// True when the turn may have touched the world so far.
    pub fn has_effects(&self) -> bool {
        self.touched || !self.open_effects.is_empty()
    }

    /// Takes in one notification of any thread; others' are ignored.
    pub fn apply(&mut self, notification: &Notification) -> Option<TurnNews> {
        if notification.thread_id() != Some(&self.thread_id) {
            return None;
        }
        match &self.aim {
            Aim::Unknown { .. } => self.look_for_ours(notification),
            Aim::Expected(_) | Aim::Running(_) => self.apply_ours(notification),
            Aim::Done => None,
        }
    }

    fn look_for_ours(&mut self, notification: &Notification) -> Option<TurnNews> {
        if let Some(client_id) = &self.client_id
            && let Some(turn_id) = turn_said_by(notification, client_id)
        {
            return Some(self.running(turn_id.clone()));
        }
        let Notification::TurnStarted(notice) = notification else {
            return None;
        };
        let turn_id = notice.turn.id.clone();
        if self.client_id.is_none() {
            return Some(self.running(turn_id));
        }
        self.aim = Aim::Unknown {
            begun: Some(turn_id),
        };
        None
    }

    fn running(&mut self, turn_id: TurnId) -> TurnNews {
        self.aim = Aim::Running(turn_id.clone());
        TurnNews::Started { turn_id }
    }

    fn apply_ours(&mut self, notification: &Notification) -> Option<TurnNews> {
        if !self.concerns(notification) {
            return None;
        }
        if let Aim::Expected(turn_id) = &self.aim {
            self.aim = Aim::Running(turn_id.clone());
        }
        match notification {
            Notification::TurnStarted(notice) => Some(self.running(notice.turn.id.clone())),
            Notification::TurnCompleted(notice) => Some(self.complete(notice)),
            Notification::ItemStarted(notice) => Some(self.item(&notice.item, ItemStage::Started)),
            Notification::ItemCompleted(notice) => {
                Some(self.item(&notice.item, ItemStage::Completed))
            }
            Notification::AgentMessageDelta(delta) => self.text(delta),
            Notification::TurnDiffUpdated(diff) => {
                self.touched |= !diff.diff.is_empty();
                None
            }
            Notification::Error(notice) => self.trouble(notice),
            Notification::TokenUsageUpdated(notice) => Some(self.count(&notice.token_usage)),
            _ => None,
        }
    }

    fn item(&mut self, item: &Item, stage: ItemStage) -> TurnNews {
        let effect = item.is_effect();
        self.note_user_message(item);
        match stage {
            ItemStage::Started if effect => self.open_effect(item.id()),
            ItemStage::Started => {
                if let Item::AgentMessage(message) = item {
                    self.draft = Some(TextDraft::begun(message));
                }
            }
            ItemStage::Completed => {
                self.open_effects.remove(item.id());
                self.touched |= effect;
                self.keep_message(item);
            }
        }
        TurnNews::Item {
            stage,
            item_id: item.id().clone(),
            kind: item.kind().to_owned(),
            headline: item.headline(),
            effect,
        }
    }

    /// Codex reports a user message twice, when it begins and when it ends.
    fn note_user_message(&mut self, item: &Item) {
        let Item::UserMessage(message) = item else {
            return;
        };
        let client_id = message.client_id();
        self.opener.get_or_insert_with(|| client_id.cloned());
        if message.mark == MessageMark::Missing && self.seen.unmarked.len() < 2 {
            self.seen.unmarked.insert(message.id.clone());
        }
        if let Some(client_id) = client_id
            && self.received.len() < MAX_RECEIVED
            && !self.received.contains(client_id)
        {
            self.received.push(client_id.clone());
        }
    }

    /// Until it ends, an open item counts as an effect; one that ends declined never was.
    fn open_effect(&mut self, item_id: &ItemId) {
        if self.open_effects.len() < MAX_OPEN_EFFECTS {
            self.open_effects.insert(item_id.clone());
        } else {
            self.touched = true;
        }
    }

    fn keep_message(&mut self, item: &Item) {
        self.candidates.consider(item);
        self.seen.unread_message |= item.is_unread_message();
        self.seen.unknown_item |= item.may_be_message();
        self.seen.any_item |= !matches!(item, Item::UserMessage(_));
        if self
            .draft
            .as_ref()
            .is_some_and(|draft| draft.is_of(item.id()))
        {
            self.draft = None;
        }
    }

    fn text(&mut self, delta: &ItemDelta) -> Option<TurnNews> {
        let draft = match self.draft.take() {
            Some(draft) if draft.is_of(&delta.item_id) => self.draft.insert(draft),
            Some(_) | None => self.draft.insert(TextDraft::joined(&delta.item_id)),
        };
        draft.push(&delta.delta).then_some(TurnNews::Text)
    }

    fn trouble(&mut self, notice: &ErrorNotice) -> Option<TurnNews> {
        if notice.will_retry {
            return Some(TurnNews::Retrying {
                message: notice.error.message.clone(),
            });
        }
        self.error = Some(notice.error.clone());
        None
    }

    /// By difference to the thread's counter, so a repeated report is not counted twice.
    fn count(&mut self, usage: &ThreadTokenUsage) -> TurnNews {
        let baseline = *self
            .baseline
            .get_or_insert_with(|| usage.total.since(&usage.last));
        let turn = usage.total.since(&baseline);
        self.usage = Usage {
            input_tokens: i64::try_from(turn.input_tokens).unwrap_or(i64::MAX),
            output_tokens: i64::try_from(turn.output_tokens).unwrap_or(i64::MAX),
        };
        TurnNews::Usage
    }

    fn complete(&mut self, notice: &TurnNotice) -> TurnNews {
        let turn: &Turn = &notice.turn;
        for item in &turn.items {
            self.touched |= item.is_effect();
            self.keep_message(item);
        }
        let failed = turn.status != TurnStatus::Completed;
        let error = turn
            .error
            .clone()
            .or_else(|| self.error.take().filter(|_| failed));
        self.aim = Aim::Done;
        self.draft = None;
        let end = TurnEnd {
            turn_id: turn.id.clone(),
            status: match turn.status {
                TurnStatus::Completed => port::TurnStatus::Completed,
                TurnStatus::Interrupted => port::TurnStatus::Interrupted,
                TurnStatus::Failed | TurnStatus::InProgress | TurnStatus::Other(_) => {
                    port::TurnStatus::Failed
                }
            },
            answer: self.candidates.pick(&turn.status),
            touched: self.has_effects(),
            received: std::mem::take(&mut self.received),
            failure: None,
            usage: self.usage,
        };
        let joined = self.client_id.is_some()
            && self
                .opener
                .as_ref()
                .is_some_and(|opener| *opener != self.client_id);
        let doubt = self.seen.doubt(&turn.status, end.answer.is_some());
        TurnNews::Completed(Box::new(TurnOutcome {
            end,
            error,
            joined,
            doubt,
        }))
    }
}

impl Seen {
    /// Why the end of a turn proves nothing.
    fn doubt(&self, status: &TurnStatus, answered: bool) -> Option<String> {
        let silent = *status == TurnStatus::Completed && !answered;
        if let TurnStatus::Other(_) | TurnStatus::InProgress = status {
            Some(format!("codex reported its end with the status `{status}`"))
        } else if (self.unread_message && !answered) || (silent && self.unknown_item) {
            Some("codex answered in an unknown form".to_owned())
        } else if silent && !self.any_item {
            Some("codex reported its end and nothing of what it did".to_owned())
        } else if self.unmarked.len() > 1 {
            Some("codex did not say which messages it was given".to_owned())
        } else {
            None
        }
    }
}

/// The turn that an item notification shows to be the one our message opened or joined.
fn turn_said_by<'a>(notification: &'a Notification, client_id: &ClientId) -> Option<&'a TurnId> {
    let (Notification::ItemStarted(notice) | Notification::ItemCompleted(notice)) = notification
    else {
        return None;
    };
    let Item::UserMessage(message) = &notice.item else {
        return None;
    };
    (message.client_id() == Some(client_id)).then_some(&notice.turn_id)
}

#[cfg(test)]
mod tests;
