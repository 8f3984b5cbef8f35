//! Which conversation a text belongs to. A key of a platform always means its present conversation; when the
//! platform's talk changes, or a person asks for a new one, the old conversation keeps its rows under another key.

use super::Receive;
use crate::port::{Change, Read, RowsError};
use crate::value::{ChannelId, Conversation, ConversationId, Timestamp};

/// The conversations that a text may belong to.
#[derive(Debug)]
pub(super) struct Seat {
    /// The one that the key means now.
    present: Option<Conversation>,
    /// An earlier one of the text's own talk.
    former: Option<Conversation>,
    /// The talk changed.
    moved: bool,
}

/// Where a text was put.
#[derive(Debug)]
pub(super) struct Seated {
    pub(super) conversation_id: ConversationId,
    pub(super) external_key: String,
}

impl Seat {
    pub(super) fn load(
        rows: &dyn Read,
        channel: &ChannelId,
        key: &str,
        context: Option<&str>,
    ) -> Result<Self, RowsError> {
        let present = rows.conversation_by_key(channel, key)?;
        let other_talk = present.as_ref().zip(context).is_some_and(|(present, now)| {
            // A conversation that knows no talk yet (an import, an older platform) takes the first one as its own.
            present.context.as_deref().is_some_and(|then| then != now)
        });
        let former = match (other_talk, context) {
            (true, Some(context)) => rows.conversation_by_key(channel, &aside(key, context))?,
            (true | false, _) => None,
        };
        Ok(Self {
            present,
            former,
            moved: other_talk,
        })
    }

    /// The conversation it will be, if it exists.
    pub(super) fn conversation_id(&self) -> Option<&ConversationId> {
        let seat = if self.moved {
            &self.former
        } else {
            &self.present
        };
        seat.as_ref()
            .map(|conversation| &conversation.conversation_id)
    }

    /// Puts the text there, and moves keys where the talk changed.
    pub(super) fn take(self, text: &Receive, now: Timestamp, changes: &mut Vec<Change>) -> Seated {
        let key = &text.external_key;
        let context = text.extras.context.clone();
        let seat = if self.moved {
            if let Some(Conversation {
                conversation_id,
                context: Some(then),
                ..
            }) = self.present
            {
                changes.push(Change::Rekey {
                    conversation_id,
                    external_key: aside(key, &then),
                    context: Some(then),
                });
            }
            self.former
        } else {
            self.present
        };
        let conversation_id = match seat {
            Some(Conversation {
                conversation_id,
                context: known,
                ..
            }) => {
                if self.moved || (known.is_none() && context.is_some()) {
                    changes.push(Change::Rekey {
                        conversation_id: conversation_id.clone(),
                        external_key: key.clone(),
                        context,
                    });
                }
                conversation_id
            }
            None => {
                changes.push(Change::NewConversation(Conversation {
                    conversation_id: text.conversation_id.clone(),
                    channel: text.channel.clone(),
                    external_key: key.clone(),
                    context,
                    thread: None,
                    last_turn: None,
                    workdir: text.workdir.clone(),
                    created_at: now,
                }));
                text.conversation_id.clone()
            }
        };
        Seated {
            conversation_id,
            external_key: key.clone(),
        }
    }
}

impl Seated {
    /// Lets the conversation go: its key is free for the next text.
    pub(super) fn leave(&self) -> Change {
        Change::Rekey {
            conversation_id: self.conversation_id.clone(),
            external_key: aside(&self.external_key, self.conversation_id.as_str()),
            context: None,
        }
    }
}

/// The key of a conversation that is not the present one of its place.
fn aside(key: &str, mark: &str) -> String {
    format!("{key}#{mark}")
}
