//! Who may decide an approval request.

use super::DecideRefusal;
use crate::requester::sent_by;
use crate::value::{
    ConversationId, Deciders, Message, Request, RequestDecision, RequestKind, Tier,
};

/// By what right somebody decides. Made from what a channel or a front has checked, never from a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// On a surface of the owner: the command line, or a token with the scope to approve.
    Owner,
    /// A token without the scope to approve. To accept is a scope of its own: whoever may decline need not be trusted
    /// with the machine. An answer to what Codex asks about their own work gives no rights, so they may give it.
    Caller { name: String },
    /// In a conversation.
    Sender {
        conversation_id: ConversationId,
        /// By the channel's authenticated field.
        sender: String,
        tier: Tier,
    },
}

impl Authority {
    /// Refuses a decision that is not theirs. `starter` started the task that the message belongs to, if it is of one.
    pub fn check(
        &self,
        decision: RequestDecision,
        request: &Request,
        message: &Message,
        starter: Option<&str>,
    ) -> Result<(), DecideRefusal> {
        let allowed = match self {
            Self::Owner => true,
            Self::Caller { name } => {
                let own = sent_by(message, name) || starter == Some(name);
                !decision.accepts() || (own && request.kind == RequestKind::UserInput)
            }
            Self::Sender {
                conversation_id,
                sender,
                tier,
            } => {
                if *conversation_id != message.conversation_id {
                    // Whether it exists is nobody's business elsewhere.
                    return Err(DecideRefusal::Unknown);
                }
                let sent_it = *sender == message.sender && *tier == message.tier;
                request.sender_may(*tier) && (*tier == Tier::Owner || sent_it)
            }
        };
        if allowed {
            return Ok(());
        }
        let who = match request.deciders {
            Deciders::Owner => "the owner of this bridge",
            Deciders::Sender => {
                "the owner of this bridge, or for a question to the user whoever sent the message,"
            }
        };
        Err(DecideRefusal::NotYours { who })
    }
}
