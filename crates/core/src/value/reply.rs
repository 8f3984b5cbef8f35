//! Replies: outbound pieces of an answer.
//!
//! Both are rows of their own, so that a failed reply never runs Codex again.

use super::{Attachment, ConversationId, MessageId, ReplyKey, Seq, Timestamp};

/// One outbound piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The message it replies to.
    pub message_id: MessageId,
    /// Its place among the pieces of that answer.
    pub ordinal: u32,
    /// The lane it travels in.
    pub conversation_id: ConversationId,
    /// Its place in that lane, with `ordinal`.
    pub seq: Seq,
    /// The same for every try, so that an idempotent platform shows it once.
    pub key: ReplyKey,
    /// Whose words it carries.
    pub kind: ReplyKind,
    /// The text of this piece.
    pub body: String,
    /// The files that go with it: with the last piece of an answer.
    pub attachments: Vec<Attachment>,
    /// How far it is.
    pub state: ReplyState,
    pub tries: u32,
    /// When the first send began: the start of the window a probe looks at.
    pub first_try_at: Option<Timestamp>,
    /// When it was written.
    pub created_at: Timestamp,
}

/// Another reply that says exactly the same and was taken: what a look for the first must not mistake for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twin {
    /// Its key.
    pub key: ReplyKey,
    /// When its first send began.
    pub first_try_at: Timestamp,
    /// When it was known to be taken: it was shown between these two times.
    pub sent_at: Timestamp,
}

/// Whose words a reply carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// A piece of Codex's answer.
    Answer,
    /// Written by the bridge: why there is no answer, or not yet.
    Notice,
}

words!(ReplyKind {
    Answer => "answer",
    Notice => "notice",
});

/// How far a reply is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyState {
    /// Waiting for its place in the lane.
    Queued {
        /// Not before this, after a refusal.
        not_before: Option<Timestamp>,
    },
    /// A send has begun and its end is not known.
    Sending,
    /// The platform took it.
    Sent {
        /// What the platform gave as proof.
        receipt: String,
        /// When that was known; absent if it was sent before this was noted.
        at: Option<Timestamp>,
    },
    /// Given up; the text stays readable.
    Dead { reason: String },
}

impl ReplyState {
    /// Whether the lane is done with it.
    #[must_use]
    pub fn settled(&self) -> bool {
        match self {
            Self::Queued { .. } | Self::Sending => false,
            Self::Sent { .. } | Self::Dead { .. } => true,
        }
    }
}

state_names!(
    /// A reply's state without its data.
    ReplyStateName of ReplyState {
        Queued => "queued",
        Sending => "sending",
        Sent => "sent",
        Dead => "dead",
    }
);

/// Cuts an answer into pieces of at most `max_chars`, at a line end where one is near.
#[must_use]
pub fn split_reply(text: &str, max_chars: Option<usize>) -> Vec<String> {
    let Some(max) = max_chars.filter(|max| *max > 0) else {
        return vec![text.to_owned()];
    };
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((cut, _)) = rest.char_indices().nth(max) {
        let (head, _) = rest.split_at(cut);
        let at = match head.rfind('\n') {
            Some(newline) if newline >= cut / 2 => newline + 1,
            Some(_) | None => cut,
        };
        let (piece, tail) = rest.split_at(at);
        pieces.push(piece.to_owned());
        rest = tail;
    }
    if !rest.is_empty() || pieces.is_empty() {
        pieces.push(rest.to_owned());
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_loses_nothing_and_respects_the_limit() {
        for (text, max, pieces) in [
            ("", Some(3), vec![""]),
            ("abc", Some(3), vec!["abc"]),
            ("abcd", Some(3), vec!["abc", "d"]),
            ("ab\ncd", Some(4), vec!["ab\n", "cd"]),
            ("äöüß", Some(2), vec!["äö", "üß"]),
            ("anything at all", None, vec!["anything at all"]),
        ] {
            assert_eq!(split_reply(text, max), pieces, "{text:?} {max:?}");
        }
    }
}
