//! Errands: take one in, or the next word of one, together with its message; answer a question of Codex in one; and
//! reserve numbers for news of one. The rest of its life is that of its messages.

use super::{
    Decide, DecideOutcome, DecideRefusal, Receive, Received, Refused, RunError, Transition, Tx,
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

impl Transition for TakeErrand {
    type Outcome = ErrandTaken;
    const NAME: &'static str = "take_errand";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<ErrandTaken, RunError> {
        let owner = match &self.place {
            ErrandPlace::New(errand) => &errand.owner,
            ErrandPlace::Old { owner, .. } => owner,
        };
        if let Some((errand, message_id)) = self.known(&**tx)? {
            return Ok(if errand.owner == *owner {
                ErrandTaken::Known { errand, message_id }
            } else {
                ErrandTaken::Unknown
            });
        }
        let (errand, ordinal, new) = match self.place {
            ErrandPlace::New(errand) => (errand, 1, true),
            ErrandPlace::Old { owner, errand_id } => {
                let old = ErrandView::load(&**tx, &errand_id)?;
                let Some(old) = old.filter(|old| old.errand.owner == owner) else {
                    return Ok(ErrandTaken::Unknown);
                };
                if errand::answer_known_as(&old.words, &self.receive.external_id).is_some() {
                    let errand = old.errand;
                    return Ok(ErrandTaken::KnownAnswer { errand });
                }
                let state = old.now().state;
                if state.terminal() {
                    return Ok(ErrandTaken::Over(state));
                }
                (old.errand, next_ordinal(&old.words), false)
            }
        };
        if usize::try_from(ordinal).unwrap_or(usize::MAX) > limits::ERRAND_WORDS_MAX {
            return Ok(ErrandTaken::Full);
        }
        let mut receive = self.receive;
        receive.extras.storage.beside = u64::try_from(self.original.len()).unwrap_or(u64::MAX);
        // A chain never leaves its conversation.
        let leaves = !new && receive.present(&**tx)?.as_ref() != Some(&errand.conversation_id);
        let own_id = receive.message_id.clone();
        if leaves {
            return Ok(ErrandTaken::Unknown);
        }
        let message_id = match receive.apply(tx, now)? {
            Received::New(message_id) => message_id,
            // A message with this key that is of no errand: somebody else's, of which nothing is told.
            Received::Duplicate(_) => return Err(Refused::new(Self::NAME, &own_id, None).into()),
            Received::Full => return Ok(ErrandTaken::Full),
            Received::Revoked => return Ok(ErrandTaken::Revoked),
            Received::OverBudget(over) => return Ok(ErrandTaken::OverBudget(over)),
        };
        let message = tx.existing(Self::NAME, &message_id)?;
        let errand = Errand {
            conversation_id: message.conversation_id,
            ..errand
        };
        if new {
            tx.change(Change::NewErrand(errand.clone()))?;
        }
        // A message that is a dead letter when it comes was refused by a guard, or is unfit.
        let refused_by_guard = message.life.state.name() == StateName::Dead;
        tx.change(Change::NewWord(Word {
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
        }))?;
        Ok(ErrandTaken::New { errand, message_id })
    }
}

impl TakeErrand {
    /// The errand that has this word already, as this message.
    fn known(&self, rows: &dyn Read) -> Result<Option<(Errand, MessageId)>, RowsError> {
        let receive = &self.receive;
        if let Some(message) = rows.message_by_external(&receive.channel, &receive.external_id)?
            && let Some(errand_id) = rows.errand_of(&message.message_id)?
            && let Some(errand) = rows.errand(&errand_id)?
        {
            return Ok(Some((errand, message.message_id)));
        }
        Ok(None)
    }
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

impl Transition for AnswerErrand {
    type Outcome = ErrandAnswered;
    const NAME: &'static str = "answer_errand";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<ErrandAnswered, RunError> {
        if let Some(known_as) = &self.known_as
            && let Some(word) = errand::said_before(&**tx, &self.errand_id, known_as)?
        {
            return Ok(ErrandAnswered::Known(word));
        }
        let request_id = self.decide.request_id.clone();
        let asked_in = match tx.request(&request_id)? {
            Some(request) => tx.errand_of(&request.message_id)?,
            None => None,
        };
        let words = tx.words(&self.errand_id)?;
        if asked_in.as_ref() != Some(&self.errand_id) || words.len() >= limits::ERRAND_WORDS_MAX {
            // Whether it is asked elsewhere is nobody's business here.
            let unknown = DecideOutcome::Refused(DecideRefusal::Unknown);
            return Ok(ErrandAnswered::Judged(unknown));
        }
        let outcome = self.decide.apply(tx, now)?;
        // A refused decision changes nothing, and then nothing was said either.
        if !matches!(outcome, DecideOutcome::Refused(_)) {
            tx.change(Change::NewWord(Word {
                errand_id: self.errand_id,
                ordinal: next_ordinal(&words),
                said_as: self.said_as,
                known_as: self.known_as,
                became: Became::Decision(request_id),
                original: self.original,
                at: now,
            }))?;
        }
        Ok(ErrandAnswered::Judged(outcome))
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
    /// The first of them; absent when there is no such errand.
    type Outcome = Option<u64>;
    const NAME: &'static str = "reserve_told";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<Option<u64>, RunError> {
        let Some(errand) = tx.errand(&self.errand_id)? else {
            return Ok(None);
        };
        tx.change(Change::ErrandTold {
            errand_id: self.errand_id,
            told: errand.told.saturating_add(u64::from(self.more)),
        })?;
        Ok(Some(errand.told.saturating_add(1)))
    }
}
