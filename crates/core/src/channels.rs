//! The channels whose senders we know ourselves: the local owner, holders of tokens, and callers without one. On every
//! other channel a platform says who writes.

use crate::requester::{ANONYMOUS, LOCAL_OWNER};
use crate::value::{ChannelId, ExternalId};

/// Messages over `api.sock` and HTTP.
pub const LOCAL: &str = "local";
/// Tasks.
pub const TASK: &str = "task";
/// Other agents that call over A2A.
pub const A2A: &str = "a2a";
/// All of them.
pub const OF_TOKENS: [&str; 3] = [LOCAL, TASK, A2A];

/// Whether names of senders are those of tokens there.
#[must_use]
pub fn is_of_tokens(channel: &ChannelId) -> bool {
    OF_TOKENS.contains(&channel.as_str())
}

/// The token that somebody sends with, by its name.
#[must_use]
pub fn token_of<'s>(channel: &ChannelId, sender: &'s str) -> Option<&'s str> {
    // Names with a blank are ours: the local owner's, and those of users of the group.
    let held = is_of_tokens(channel) && !sender.contains(' ') && sender != ANONYMOUS;
    held.then_some(sender)
}

/// Begins the names of conversations on the local channel that are not the owner's: no name that the owner may choose
/// begins so, and no caller's name holds a slash.
pub const HOLDER: char = '@';

/// The id of what the owner sent with this session of the console: whoever revokes the session finds it by that.
#[must_use]
pub fn id_in_session(session: Option<&str>, id: String) -> String {
    match session {
        Some(session) => format!("{}{id}", conversation_prefix(session)),
        None => id,
    }
}

/// The session of the console that the owner sent this with.
#[must_use]
pub fn session_of<'i>(
    channel: &ChannelId,
    sender: &str,
    external_id: &'i ExternalId,
) -> Option<&'i str> {
    let (session, _) = external_id.as_str().strip_prefix(HOLDER)?.split_once('/')?;
    // The owner's own ids that begin so have it twice.
    let is_session = is_of_tokens(channel) && sender == LOCAL_OWNER && !session.starts_with(HOLDER);
    is_session.then_some(session)
}

/// What the conversations of this caller begin with.
#[must_use]
pub fn conversation_prefix(caller: &str) -> String {
    format!("{HOLDER}{caller}/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requester::LOCAL_OWNER;

    #[test]
    fn f4_only_our_channels_have_tokens() {
        let token = |channel: &str, sender| token_of(&ChannelId::new(channel), sender).is_some();
        assert!(OF_TOKENS.into_iter().all(|channel| token(channel, "ci")));
        assert!(!token("molecule:w", "ci"));
        assert!(!token(LOCAL, "user ada"));
        assert!(!token(LOCAL, LOCAL_OWNER) && !token(A2A, ANONYMOUS));
    }

    #[test]
    fn only_the_owners_ids_name_sessions() {
        let session = |channel: &str, sender, id: &str| {
            let (channel, id) = (ChannelId::new(channel), ExternalId::new(id));
            session_of(&channel, sender, &id).map(ToOwned::to_owned)
        };
        let id = id_in_session(Some("console-1"), "a/b".to_owned());
        assert_eq!(
            session(TASK, LOCAL_OWNER, &id).as_deref(),
            Some("console-1")
        );
        assert_eq!(session(LOCAL, "ci", &id), None);
        assert_eq!(session("molecule:w", LOCAL_OWNER, &id), None);
        for own in ["a/b", "@@console-1/b", "@console-1"] {
            assert_eq!(session(LOCAL, LOCAL_OWNER, own), None, "{own}");
        }
        assert_eq!(id_in_session(None, "b".to_owned()), "b");
    }
}
