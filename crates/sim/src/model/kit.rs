//! What the official A2A conformance kits expect an agent to do: they say it by how the id of a message begins. The
//! bridge names that id beside the sender, and here is what the model says to each.
//!
//! Longest beginning first, because some of them begin others. The words are those of the kit's own scenarios.

/// What the bridge writes before who sent a message.
const SENDER: &str = "Another agent (";
/// What it writes between who sent it and the id.
const NAMED: &str = ", message ";
/// What ids of the kit for 0.3 have in them, however they begin.
const KIT_03: &str = "-message-id-";
/// The kit for 0.3 goes on with every task that it began, and cancels some.
const ASKS: &str = "echo:What else should I know?\n[input-required]";

/// Where files go that Codex is to send; the conversation's directory is named after it.
macro_rules! outbox {
    ($content:literal) => {
        concat!(
            "shell:d=outbox/$(basename \"$PWD\"); mkdir -p $d && ",
            $content,
            " > $d/output.txt ;; echo:[completed]"
        )
    };
}

/// Beginnings of ids, and the scripts for them.
const TABLE: [(&str, &str); 18] = [
    // More than goes into a message, so that it becomes an address.
    (
        "tck-artifact-file-url",
        outbox!("head -c 300000 /dev/zero | tr '\\0' x"),
    ),
    (
        "tck-stream-artifact-file",
        outbox!("printf 'made by the agent'"),
    ),
    ("tck-artifact-file", outbox!("printf 'made by the agent'")),
    ("tck-artifact-text", "echo:Generated text content"),
    (
        "tck-artifact-data",
        "echo:{\"key\": \"value\", \"count\": 42}",
    ),
    ("tck-complete-task", "echo:Hello from TCK"),
    (
        "tck-message-response",
        "echo:Direct message response\n[message]",
    ),
    ("tck-input-required", ASKS),
    ("tck-reject-task", "echo:rejected\n[rejected]"),
    ("tck-stream-ordering-001", "echo:Ordered output"),
    ("tck-stream-artifact-text", "echo:Streamed text content"),
    ("tck-stream-artifact-chunked", "echo:chunk-1 chunk-2"),
    ("tck-stream-001", "echo:Stream hello from TCK"),
    (
        "tck-stream-002",
        "echo:Stream message-only response\n[message]",
    ),
    ("tck-stream-003", "echo:Stream task lifecycle"),
    // Both kits want it to last for twice their patience with a stream, which is 2 s.
    (
        "test-resubscribe-message-id",
        "sleep:6 echo:That took a while.",
    ),
    ("tck-", "echo:Hello from TCK"),
    ("test-", ASKS),
];

/// The script for a message of a kit.
pub(super) fn script(text: &str) -> Option<&'static str> {
    let id = their_id(text)?;
    let fits = TABLE.iter().filter(|(begins, _)| id.starts_with(begins));
    let longest = fits.max_by_key(|(begins, _)| begins.len());
    let older = id.contains(KIT_03).then_some(ASKS);
    longest.map(|(_, script)| *script).or(older)
}

/// The id as the bridge names it: in the brackets where the sender stands too.
fn their_id(text: &str) -> Option<&str> {
    let (_, after) = text.split_once(SENDER)?;
    let (sender, _) = after.split_once(')')?;
    sender.rsplit_once(NAMED).map(|(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::super::{script, step::Act};
    use super::*;

    fn said(id: &str) -> Option<&'static str> {
        let text = format!(
            "[codex-bridge] Another agent (anyone, message {id}) sent the text between the tags.\n<t>\nhi\n</t>"
        );
        super::script(&text)
    }

    #[test]
    fn the_longest_beginning_counts() {
        assert!(said("tck-artifact-file-url-ab12").is_some_and(|s| s.contains("300000")));
        assert!(said("tck-artifact-file-ab12").is_some_and(|s| s.contains("printf")));
        assert_eq!(said("tck-stream-001-x"), Some("echo:Stream hello from TCK"));
        assert_eq!(said("tck-dm-test-001-x"), Some("echo:Hello from TCK"));
        assert!(said("test-text-1").is_some_and(|s| s.ends_with("[input-required]")));
        assert!(said("cancel-test-message-id-1").is_some_and(|s| s.ends_with("[input-required]")));
        assert_eq!(said("mine"), None);
        assert_eq!(super::script("tck-complete-task"), None);
    }

    #[test]
    fn every_script_does_something() {
        for (begins, script) in TABLE {
            let steps = script::read(script);
            assert!(
                steps.iter().all(|step| step.act != Act::Quote),
                "{begins}: {steps:?}"
            );
        }
    }
}
