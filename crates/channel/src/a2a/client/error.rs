//! Why another agent could not be asked, in words that say what it means for the message and what to do.

use crate::guard::AddressRefusal;
use crate::http::HttpError;
use std::time::Duration;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentCallError {
    /// Its address is one that is not called.
    #[error("the agent was not called: its address {0}")]
    Address(#[from] AddressRefusal),
    /// There is no card, or nothing can be done with it.
    #[error("the agent was not called: {0}")]
    Card(String),
    /// Our token for it can't be used.
    #[error("the agent was not called: {0}")]
    Token(String),
    /// Nobody was there.
    #[error("the agent can't be reached ({0}); it has not received the message")]
    Unreached(String),
    /// The call broke off somewhere on the way.
    #[error("the connection to the agent was lost ({0}); it may have received the message")]
    Broken(String),
    /// It said no.
    #[error("the agent refused it: {said}")]
    Refused {
        /// Its own words, shortened.
        said: String,
        /// It may say yes later, after this long if it said so.
        later: Option<Option<Duration>>,
    },
    /// What it said can't be read.
    #[error("what the agent answered can't be read ({0})")]
    Unreadable(String),
    /// It took too long.
    #[error("the agent did not finish within {} s", .0.as_secs())]
    Late(Duration),
}

impl AgentCallError {
    /// Whether the same call is worth another try. Where the agent may have it already, only if taking it twice is taking
    /// it once.
    pub(super) fn is_passing(&self, repeatable: bool) -> bool {
        match self {
            Self::Unreached(_) | Self::Refused { later: Some(_), .. } => true,
            Self::Broken(_) => repeatable,
            Self::Address(_)
            | Self::Card(_)
            | Self::Token(_)
            | Self::Refused { later: None, .. }
            | Self::Unreadable(_)
            | Self::Late(_) => false,
        }
    }

    /// A clear no.
    pub(super) fn refused(said: impl Into<String>) -> Self {
        Self::Refused {
            said: said.into(),
            later: None,
        }
    }
}

impl From<HttpError> for AgentCallError {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Unreached(why) => Self::Unreached(why),
            HttpError::Broken(why) => Self::Broken(why),
            HttpError::Unreadable(why) => Self::Unreadable(why),
            HttpError::TooLong(max) => Self::Unreadable(format!("it is longer than {max} bytes")),
            HttpError::Status(refused) => {
                let later = matches!(refused.status.as_u16(), 429 | 503).then(|| {
                    let seconds = refused.retry_after.and_then(|s| u64::try_from(s).ok());
                    seconds.map(Duration::from_secs)
                });
                let said = refused.to_string();
                Self::Refused { said, later }
            }
        }
    }
}
