//! How an errand stands, derived from the rows of its messages, their answers and questions. Pure, and the only place
//! that says so: fronts and notifications show what this says.

use crate::outcome::{self, Outcome};
use crate::port::{Read, RowsError};
use crate::value::{
    Answer, Attachment, Became, Deciders, Errand, ErrandId, Message, MessageState, ReplyKind,
    Request, StateName, Timestamp, Word,
};

/// Where an errand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrandState {
    /// Taken in; nothing was done yet.
    Submitted,
    /// Codex works on it.
    Working,
    /// It waits for its owner's next word.
    InputRequired,
    /// It waits for the owner of this machine.
    AuthRequired,
    /// Done.
    Completed,
    /// Given up.
    Failed,
    /// Stopped.
    Canceled,
    /// Never begun, or refused by Codex itself.
    Rejected,
}

impl ErrandState {
    /// Whether nothing more happens to it.
    #[must_use]
    pub fn terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected => true,
            Self::Submitted | Self::Working | Self::InputRequired | Self::AuthRequired => false,
        }
    }

    /// Whether it waits for somebody.
    #[must_use]
    pub fn interrupted(self) -> bool {
        match self {
            Self::InputRequired | Self::AuthRequired => true,
            Self::Submitted
            | Self::Working
            | Self::Completed
            | Self::Failed
            | Self::Canceled
            | Self::Rejected => false,
        }
    }
}

/// All that is shown of an errand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrandView {
    /// The errand.
    pub errand: Errand,
    /// The key of its conversation.
    pub context: String,
    /// What its owner said, in order.
    pub words: Vec<Word>,
    /// What became of that, in order.
    pub messages: Vec<ErrandMessage>,
}

/// One message of an errand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrandMessage {
    /// The message.
    pub message: Message,
    /// Its answer.
    pub answer: Option<Answer>,
    /// The files of its answer.
    pub files: Vec<Attachment>,
    /// What Codex asks now.
    pub requests: Vec<Request>,
    /// The newest thing that the bridge itself said about it.
    pub notice: Option<String>,
}

/// How an errand stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stand {
    /// Where it is.
    pub state: ErrandState,
    /// What it waits for, or why it ended so.
    pub why: Option<String>,
    /// Since when, as far as rows say.
    pub at: Timestamp,
}

impl ErrandView {
    /// Reads it.
    pub fn load(rows: &dyn Read, errand_id: &ErrandId) -> Result<Option<Self>, RowsError> {
        let Some(errand) = rows.errand(errand_id)? else {
            return Ok(None);
        };
        let conversation = rows.conversation(&errand.conversation_id)?;
        let words = rows.words(errand_id)?;
        let mut messages = Vec::with_capacity(words.len());
        for word in &words {
            if let Became::Message(message_id) = &word.became
                && let Some(message) = rows.message(message_id)?
            {
                messages.push(ErrandMessage::load(rows, message)?);
            }
        }
        Ok(Some(Self {
            context: conversation.map_or_else(String::new, |known| known.external_key),
            errand,
            words,
            messages,
        }))
    }

    /// How it stands.
    #[must_use]
    pub fn now(&self) -> Stand {
        let times = self.messages.iter().flat_map(|one| {
            let asked = one.requests.iter().map(|request| request.created_at);
            asked.chain([one.message.life.updated_at])
        });
        let at = times.max().unwrap_or(self.errand.created_at);
        let (state, why) = self.state();
        Stand { state, why, at }
    }

    fn state(&self) -> (ErrandState, Option<String>) {
        let flying = |one: &&ErrandMessage| one.message.life.state.name().in_flight();
        if let Some(one) = self.messages.iter().find(flying) {
            return one.at_work();
        }
        let waiting = |one: &&ErrandMessage| one.message.life.state.name().awaits_answer();
        match (self.messages.iter().find(waiting), self.messages.last()) {
            (Some(one), _) => one.waits(),
            (None, Some(last)) => last.over(),
            (None, None) => (ErrandState::Submitted, None),
        }
    }
}

impl ErrandMessage {
    fn load(rows: &dyn Read, message: Message) -> Result<Self, RowsError> {
        let replies = rows.replies(&message.message_id)?;
        let of = |kind: ReplyKind| replies.iter().filter(move |reply| reply.kind == kind);
        Ok(Self {
            answer: rows.answer(&message.message_id)?,
            files: of(ReplyKind::Answer)
                .flat_map(|reply| reply.attachments.clone())
                .collect(),
            notice: of(ReplyKind::Notice).last().map(|reply| reply.body.clone()),
            requests: rows.live_requests(&message.message_id)?,
            message,
        })
    }

    fn at_work(&self) -> (ErrandState, Option<String>) {
        match self.requests.first() {
            Some(request) => match request.deciders {
                Deciders::Sender => (ErrandState::InputRequired, Some(request.headline.clone())),
                Deciders::Owner => {
                    let why = format!("waits for its owner to decide: {}", request.headline);
                    (ErrandState::AuthRequired, Some(why))
                }
            },
            None => (ErrandState::Working, None),
        }
    }

    fn waits(&self) -> (ErrandState, Option<String>) {
        match &self.message.life.state {
            MessageState::Parked { reason, .. } => {
                (ErrandState::AuthRequired, Some(reason.clone()))
            }
            state => {
                let why = state.hold().map(|hold| hold.failure.reason.clone());
                (ErrandState::Submitted, why)
            }
        }
    }

    fn over(&self) -> (ErrandState, Option<String>) {
        match &self.message.life.state {
            MessageState::Dead { reason } => {
                let state = match self.message.life.attempt {
                    0 => ErrandState::Rejected,
                    _ => ErrandState::Failed,
                };
                (state, Some(reason.clone()))
            }
            MessageState::Cancelled { reason } => (ErrandState::Canceled, Some(reason.clone())),
            state => {
                debug_assert_ne!(state.name(), StateName::Received);
                let said = self
                    .answer
                    .as_ref()
                    .map(|answer| outcome::read(&answer.text));
                match said {
                    Some((Outcome::Asks, text)) => {
                        (ErrandState::InputRequired, Some(text.to_owned()))
                    }
                    Some((Outcome::Refuses, text)) => {
                        (ErrandState::Rejected, Some(text.to_owned()))
                    }
                    Some((Outcome::Done | Outcome::Says, _)) | None => {
                        (ErrandState::Completed, None)
                    }
                }
            }
        }
    }
}
