//! Errands: take one in, or the next word of one, together with its message; answer a question of Codex in one; and
//! reserve numbers for news of one. The rest of its life is that of its messages.

use super::{
    Decide, DecideOutcome, DecideRefusal, Decision, Receive, Received, Refused, Transition,
};
use crate::errand::{self, ErrandState, ErrandView};
use crate::limits;
use crate::port::{Change, Read, RowsError};
use crate::storage::OverBudget;
use crate::value::{Became, Errand, ErrandId, ExternalId, MessageId, StateName, Timestamp, Word};

/// Takes in what another agent said.
#[derive(Clone, Debug)]
pub struct TakeErrand {
    /// Its message.
    pub receive: Receive,
    /// Where it belongs.
    pub place: ErrandPlace,
    /// The owner's own id for it.
    pub said_as: String,
    /// What was said, in the channel's stored form.
    pub original: String,
    /// The same without its parts: what is kept when a guard refuses the message.
    pub brief: String,
}

/// Where a word belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrandPlace {
    /// It begins an errand; its conversation is that of the message.
    New(Errand),
    /// It is the next word of one.
    Old {
        /// Which.
        errand_id: ErrandId,
        /// Who says it.
        owner: String,
    },
}

/// What became of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrandTaken {
    /// It is on disk.
    New {
        /// Of this errand.
        errand: Errand,
        /// As this message.
        message_id: MessageId,
    },
    /// It was here before, with the same key.
    Known {
        /// Of this errand.
        errand: Errand,
        /// As this message.
        message_id: MessageId,
    },
    /// It was here before, with the same key, and answered a question.
    KnownAnswer {
        /// Of this errand.
        errand: Errand,
    },
    /// The errand is over; nothing was stored.
    Over(ErrandState),
    /// This owner has no such errand; nothing was stored.
    Unknown,
    /// Too much waits already; nothing was stored.
    Full,
    /// Its owner has stored as much as it may; nothing was stored.
    OverBudget(OverBudget),
    /// Its owner's token was revoked while it was on its way; nothing was stored.
    Revoked,
}

/// The rows that decide.
#[derive(Debug)]
pub struct TakeView {
    receive: <Receive as Transition>::View,
    known: Option<(Errand, MessageId)>,
    old: Option<ErrandView>,
}

impl Transition for TakeErrand {
    type View = TakeView;
    type Outcome = ErrandTaken;
    const NAME: &'static str = "take_errand";

    fn load(&self, rows: &dyn Read) -> Result<TakeView, RowsError> {
        let receive = &self.receive;
        let mut known = None;
        if let Some(message) = rows.message_by_external(&receive.channel, &receive.external_id)?
            && let Some(errand_id) = rows.errand_of(&message.message_id)?
            && let Some(errand) = rows.errand(&errand_id)?
        {
            known = Some((errand, message.message_id));
        }
        Ok(TakeView {
            known,
            old: match &self.place {
                ErrandPlace::New(_) => None,
                ErrandPlace::Old { errand_id, .. } => ErrandView::load(rows, errand_id)?,
            },
            receive: self.receive.load(rows)?,
        })
    }

    fn decide(self, view: TakeView, now: Timestamp) -> Result<Decision<ErrandTaken>, Refused> {
        let owner = match &self.place {
            ErrandPlace::New(errand) => &errand.owner,
            ErrandPlace::Old { owner, .. } => owner,
        };
        if let Some((errand, message_id)) = view.known {
            return Ok(Decision::nothing(if errand.owner == *owner {
                ErrandTaken::Known { errand, message_id }
            } else {
                ErrandTaken::Unknown
            }));
        }
        let (errand, ordinal, new) = match self.place {
            ErrandPlace::New(errand) => (errand, 1, true),
            ErrandPlace::Old { owner, .. } => match view.old {
                Some(old) if old.errand.owner == owner => {
                    if errand::answer_known_as(&old.words, &self.receive.external_id).is_some() {
                        let errand = old.errand;
                        return Ok(Decision::nothing(ErrandTaken::KnownAnswer { errand }));
                    }
                    let state = old.now().state;
                    if state.terminal() {
                        return Ok(Decision::nothing(ErrandTaken::Over(state)));
                    }
                    (old.errand, next_ordinal(&old.words), false)
                }
                Some(_) | None => return Ok(Decision::nothing(ErrandTaken::Unknown)),
            },
        };
        if usize::try_from(ordinal).unwrap_or(usize::MAX) > limits::ERRAND_WORDS_MAX {
            return Ok(Decision::nothing(ErrandTaken::Full));
        }
        let own_id = self.receive.message_id.clone();
        let mut receive = self.receive;
        receive.extras.storage.beside = u64::try_from(self.original.len()).unwrap_or(u64::MAX);
        let received = receive.decide(view.receive, now)?;
        let (mut changes, actions) = (received.changes, received.actions);
        let message_id = match received.outcome {
            Received::New(message_id) => message_id,
            // A message with this key that is of no errand: somebody else's, of which nothing is told.
            Received::Duplicate(_) => return Err(Refused::new(Self::NAME, &own_id, None)),
            Received::Full => return Ok(Decision::nothing(ErrandTaken::Full)),
            Received::Revoked => return Ok(Decision::nothing(ErrandTaken::Revoked)),
            Received::OverBudget(over) => {
                return Ok(Decision::nothing(ErrandTaken::OverBudget(over)));
            }
        };
        let seated = changes.iter().find_map(|change| match change {
            Change::NewMessage(message) => Some(message.conversation_id.clone()),
            _ => None,
        });
        let seated = seated.unwrap_or_else(|| errand.conversation_id.clone());
        if !new && seated != errand.conversation_id {
            // A chain never leaves its conversation.
            return Ok(Decision::nothing(ErrandTaken::Unknown));
        }
        let errand = Errand {
            conversation_id: seated,
            ..errand
        };
        let refused_by_guard = changes.iter().any(buries);
        if new {
            changes.push(Change::NewErrand(errand.clone()));
        }
        changes.push(Change::NewWord(Word {
            errand_id: errand.errand_id.clone(),
            ordinal,
            said_as: self.said_as,
            known_as: None,
            became: Became::Message(message_id.clone()),
            original: if refused_by_guard {
                self.brief
            } else {
                self.original
            },
            at: now,
        }));
        Ok(Decision {
            changes,
            actions,
            outcome: ErrandTaken::New { errand, message_id },
        })
    }
}

/// A message that is a dead letter when it comes was refused by a guard, or is unfit.
fn buries(change: &Change) -> bool {
    matches!(change, Change::Live { life, .. } if life.state.name() == StateName::Dead)
}

pub(super) fn next_ordinal(words: &[Word]) -> u32 {
    words
        .last()
        .map_or(1, |word| word.ordinal.saturating_add(1))
}

/// Answers a question of Codex with a word of an errand's owner.
#[derive(Clone, Debug)]
pub struct AnswerErrand {
    /// The decision.
    pub decide: Decide,
    /// In which errand.
    pub errand_id: ErrandId,
    /// The owner's own id for what was said.
    pub said_as: String,
    /// A repeat is known again by this.
    pub known_as: Option<ExternalId>,
    /// What was said, in the channel's stored form.
    pub original: String,
}

/// What became of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrandAnswered {
    /// It was judged.
    Judged(DecideOutcome),
    /// It was here before, with the same key, as this word; nothing was done.
    Known(Word),
}

/// The rows that decide.
#[derive(Debug)]
pub struct AnswerView {
    known: Option<Word>,
    decide: <Decide as Transition>::View,
    /// The question is one of this errand.
    asked_here: bool,
    words: Vec<Word>,
}

impl Transition for AnswerErrand {
    type View = AnswerView;
    type Outcome = ErrandAnswered;
    const NAME: &'static str = "answer_errand";

    fn load(&self, rows: &dyn Read) -> Result<AnswerView, RowsError> {
        let asked_in = match rows.request(&self.decide.request_id)? {
            Some(request) => rows.errand_of(&request.message_id)?,
            None => None,
        };
        Ok(AnswerView {
            known: match &self.known_as {
                Some(known_as) => errand::said_before(rows, &self.errand_id, known_as)?,
                None => None,
            },
            decide: self.decide.load(rows)?,
            asked_here: asked_in.as_ref() == Some(&self.errand_id),
            words: rows.words(&self.errand_id)?,
        })
    }

    fn decide(self, view: AnswerView, now: Timestamp) -> Result<Decision<ErrandAnswered>, Refused> {
        if let Some(word) = view.known {
            return Ok(Decision::nothing(ErrandAnswered::Known(word)));
        }
        let words = view.words;
        if !view.asked_here || words.len() >= limits::ERRAND_WORDS_MAX {
            // Whether it is asked elsewhere is nobody's business here.
            let unknown = DecideOutcome::Refused(DecideRefusal::Unknown);
            return Ok(Decision::nothing(ErrandAnswered::Judged(unknown)));
        }
        let request_id = self.decide.request_id.clone();
        let decision = self.decide.decide(view.decide, now)?;
        let mut changes = decision.changes;
        // A refused decision changes nothing, and then nothing was said either.
        if !changes.is_empty() {
            changes.push(Change::NewWord(Word {
                errand_id: self.errand_id,
                ordinal: next_ordinal(&words),
                said_as: self.said_as,
                known_as: self.known_as,
                became: Became::Decision(request_id),
                original: self.original,
                at: now,
            }));
        }
        Ok(Decision {
            changes,
            actions: decision.actions,
            outcome: ErrandAnswered::Judged(decision.outcome),
        })
    }
}

/// Reserves numbers for news of an errand, so that none is given twice, also after a crash.
#[derive(Clone, Debug)]
pub struct ReserveTold {
    /// Of which.
    pub errand_id: ErrandId,
    /// How many.
    pub more: u32,
}

impl Transition for ReserveTold {
    type View = Option<Errand>;
    /// The first of them; absent when there is no such errand.
    type Outcome = Option<u64>;
    const NAME: &'static str = "reserve_told";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        rows.errand(&self.errand_id)
    }

    fn decide(
        self,
        errand: Option<Errand>,
        _now: Timestamp,
    ) -> Result<Decision<Option<u64>>, Refused> {
        let Some(errand) = errand else {
            return Ok(Decision::nothing(None));
        };
        let told = errand.told.saturating_add(u64::from(self.more));
        Ok(Decision {
            changes: vec![Change::ErrandTold {
                errand_id: self.errand_id,
                told,
            }],
            actions: Vec::new(),
            outcome: Some(errand.told.saturating_add(1)),
        })
    }
}
