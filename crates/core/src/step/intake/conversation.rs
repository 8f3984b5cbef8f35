//! Which conversation a text belongs to. A key of a platform always means its present conversation; when the
//! platform's talk changes, or a person asks for a new one, the old conversation keeps its rows under another key.

use super::Receive;
use crate::port::{Change, Read, RowsError};
use crate::step::Tx;
use crate::value::{Conversation, ConversationId, Timestamp};

/// The conversations that a text may belong to.
pub(super) struct Candidates {
    /// The one that the key means now.
    present: Option<Conversation>,
    /// An earlier one of the text's own talk.
    former: Option<Conversation>,
    /// The talk changed.
    moved: bool,
}

impl Candidates {
    pub(super) fn load(rows: &dyn Read, text: &Receive) -> Result<Self, RowsError> {
        let (channel, key) = (&text.channel, &text.external_key);
        let context = text.extras.context.as_deref();
        let present = rows.conversation_by_key(channel, key)?;
        let other_talk = present.as_ref().zip(context).is_some_and(|(present, now)| {
            // A conversation that knows no talk yet (an import, an older platform) takes the first one as its own.
            present.context.as_deref().is_some_and(|then| then != now)
        });
        let former = match context {
            Some(context) if other_talk => {
                rows.conversation_by_key(channel, &aside(key, context))?
            }
            _ => None,
        };
        Ok(Self {
            present,
            former,
            moved: other_talk,
        })
    }

    /// Whether the text names terms, and its conversation exists on others.
    pub(super) fn has_other_terms(&self, text: &Receive) -> bool {
        let Some(present) = &self.present else {
            return false;
        };
        let terms = &text.extras;
        terms
            .cwd
            .as_ref()
            .is_some_and(|cwd| *cwd != present.workdir)
            || terms.model.is_some() && terms.model != present.model
            || terms.sandbox.is_some() && terms.sandbox != present.sandbox
    }

    /// The conversation it will be, if it exists.
    pub(super) fn conversation_id(&self) -> Option<&ConversationId> {
        let resolved = if self.moved {
            &self.former
        } else {
            &self.present
        };
        let resolved = resolved.as_ref();
        resolved.map(|conversation| &conversation.conversation_id)
    }

    /// Resolves the text's conversation, and moves keys where the talk changed.
    pub(super) fn resolve(
        self,
        tx: &mut Tx<'_>,
        text: &Receive,
        now: Timestamp,
    ) -> Result<ConversationId, RowsError> {
        let key = &text.external_key;
        let context = text.extras.context.clone();
        let resolved = if self.moved {
            if let Some(Conversation {
                conversation_id,
                context: Some(then),
                ..
            }) = self.present
            {
                tx.change(Change::Rekey {
                    conversation_id,
                    external_key: aside(key, &then),
                    context: Some(then),
                })?;
            }
            self.former
        } else {
            self.present
        };
        let Some(resolved) = resolved else {
            tx.change(Change::NewConversation(Conversation {
                conversation_id: text.conversation_id.clone(),
                channel: text.channel.clone(),
                external_key: key.clone(),
                context,
                thread: None,
                last_turn: None,
                workdir: text
                    .extras
                    .cwd
                    .clone()
                    .unwrap_or_else(|| text.workdir.clone()),
                model: text.extras.model.clone(),
                sandbox: text.extras.sandbox,
                created_at: now,
            }))?;
            return Ok(text.conversation_id.clone());
        };
        if self.moved || (resolved.context.is_none() && context.is_some()) {
            tx.change(Change::Rekey {
                conversation_id: resolved.conversation_id.clone(),
                external_key: key.clone(),
                context,
            })?;
        }
        Ok(resolved.conversation_id)
    }
}

/// Lets a conversation go: its key is free for the next text.
pub(super) fn leave(tx: &mut Tx<'_>, id: &ConversationId, key: &str) -> Result<(), RowsError> {
    tx.change(Change::Rekey {
        conversation_id: id.clone(),
        external_key: aside(key, id.as_str()),
        context: None,
    })
}

/// The key of a conversation that is not the present one of its place.
fn aside(key: &str, mark: &str) -> String {
    format!("{key}#{mark}")
}
