//! `stop`: everything of one sender ends.

use super::answered;
use crate::cli::StopArgs;
use crate::client::api::{ApiClient, ClientError};
use bridge_daemon::term::escape_line;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Ids that are named in a line; the rest is counted.
const IDS_SHOWN: usize = 10;

pub(super) async fn stop(client: &ApiClient, args: StopArgs) -> ExitCode {
    let mut body = json!({ "sender": args.sender });
    if let Some(channel) = &args.channel {
        body["channel"] = Value::from(channel.as_str());
    }
    let done: Result<Value, ClientError> = client.post("/v1/stop", Some(&body), None).await;
    answered(client, done, args.json, |done| {
        let said = format!("{}: {}", args.sender, stopped_words(done));
        (escape_line(&said).into_owned(), ExitCode::SUCCESS)
    })
}

fn stopped_words(done: &Value) -> String {
    let (cancelled, running) = (count(done), ids(&done["interrupted"]));
    let joined = joined_words(done);
    match (cancelled, running.as_slice()) {
        (0, []) if joined.is_empty() => "nothing of it waits or runs".to_owned(),
        (cancelled, []) => {
            format!("{cancelled} waiting cancelled, nothing of its own runs{joined}")
        }
        (cancelled, running) => format!(
            "{cancelled} waiting cancelled, {} running interrupted: {}{joined}",
            running.len(),
            some(running)
        ),
    }
}

/// What turns of others have of it: those are nobody's to end here.
fn joined_words(done: &Value) -> String {
    match ids(&done["joined"]).as_slice() {
        [] => String::new(),
        joined => format!(
            "; {} were given to running turns of others, which go on with them ({}): `codex-bridge show ID` names the \
             turn, and `codex-bridge interrupt` ends it",
            joined.len(),
            some(joined)
        ),
    }
}

/// What became of the messages of somebody whose token was revoked.
pub(super) fn revoked_words(name: &str, done: &Value) -> String {
    let (cancelled, running) = (count(done), ids(&done["running"]));
    let waiting = match cancelled {
        0 => String::new(),
        cancelled => format!("; {cancelled} waiting messages of it are cancelled"),
    };
    let running = match running.as_slice() {
        [] => String::new(),
        running => format!(
            "; {} are with Codex and go on ({}): `codex-bridge stop --sender {name}` ends them",
            running.len(),
            some(running)
        ),
    };
    format!("{name} is revoked{waiting}{running}{}", joined_words(done))
}

fn count(done: &Value) -> u64 {
    done["cancelled"].as_u64().unwrap_or(0)
}

fn ids(list: &Value) -> Vec<&str> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

fn some(ids: &[&str]) -> String {
    let shown: Vec<&str> = ids.iter().take(IDS_SHOWN).copied().collect();
    match ids.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f4_revoking_says_what_still_runs() {
        let said = revoked_words("bob", &json!({"cancelled": 0, "running": []}));
        assert_eq!(said, "bob is revoked");
        let said = revoked_words("bob", &json!({"cancelled": 3, "running": ["m1", "m2"]}));
        assert_eq!(
            said,
            "bob is revoked; 3 waiting messages of it are cancelled; 2 are with Codex and go on (m1, m2): \
             `codex-bridge stop --sender bob` ends them"
        );
        let many: Vec<String> = (0..12).map(|n| format!("m{n}")).collect();
        let said = stopped_words(&json!({"cancelled": 1, "interrupted": many}));
        assert!(said.ends_with("m9, and 2 more"), "{said}");
        let said = stopped_words(&json!({"cancelled": 0, "interrupted": [], "joined": ["m1"]}));
        let goes_on =
            "0 waiting cancelled, nothing of its own runs; 1 were given to running turns of others";
        assert!(said.starts_with(goes_on), "{said}");
    }
}
