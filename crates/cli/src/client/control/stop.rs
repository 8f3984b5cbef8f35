//! `stop`: everything of one sender ends.

use super::answered;
use crate::cli::StopArgs;
use crate::client::api::ApiClient;
use bridge_daemon::term::escape_line;
use bridge_front::{StopSenderRequest, StopSenderView, TokenRevoked};
use std::process::ExitCode;

/// Ids that are named in a line; the rest is counted.
const IDS_SHOWN: usize = 10;

pub(super) async fn stop(client: &ApiClient, args: StopArgs) -> anyhow::Result<ExitCode> {
    let body = StopSenderRequest {
        sender: args.sender,
        channel: args.channel,
    };
    let done = client.post("/v1/stop", Some(&body), None).await;
    answered(done, args.output, |done| {
        let said = format!("{}: {}", body.sender, stopped_words(done));
        (escape_line(&said).into_owned(), ExitCode::SUCCESS)
    })
}

fn stopped_words(done: &StopSenderView) -> String {
    let joined = joined_words(&done.joined);
    match (done.cancelled, done.interrupted.as_slice()) {
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

/// Messages that turns of others took over; this command does not end those turns.
fn joined_words(joined: &[String]) -> String {
    match joined {
        [] => String::new(),
        joined => format!(
            "; {} were given to running turns of others, which go on with them ({}): `codex-bridge show ID` names the \
             turn, and `codex-bridge interrupt` ends it",
            joined.len(),
            some(joined)
        ),
    }
}

/// What happened to the messages of a token's holder when it was revoked.
pub(super) fn revoked_words(name: &str, done: &TokenRevoked) -> String {
    let waiting = match done.cancelled {
        0 => String::new(),
        cancelled => format!("; {cancelled} waiting messages of it are cancelled"),
    };
    let running = match done.running.as_slice() {
        [] => String::new(),
        running => format!(
            "; {} are with Codex and go on ({}): `codex-bridge stop --sender {name}` ends them",
            running.len(),
            some(running)
        ),
    };
    format!(
        "{name} is revoked{waiting}{running}{}",
        joined_words(&done.joined)
    )
}

fn some(ids: &[String]) -> String {
    match ids.split_at_checked(IDS_SHOWN) {
        Some((shown, more)) if !more.is_empty() => {
            format!("{}, and {} more", shown.join(", "), more.len())
        }
        Some(_) | None => ids.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(count: u32) -> Vec<String> {
        (0..count).map(|n| format!("m{n}")).collect()
    }

    #[test]
    fn f4_revoking_says_what_still_runs() {
        let revoked = |cancelled, running| TokenRevoked {
            name: "bob".to_owned(),
            cancelled,
            running,
            joined: Vec::new(),
        };
        let said = revoked_words("bob", &revoked(0, ids(0)));
        assert_eq!(said, "bob is revoked");
        let said = revoked_words("bob", &revoked(3, ids(2)));
        assert_eq!(
            said,
            "bob is revoked; 3 waiting messages of it are cancelled; 2 are with Codex and go on (m0, m1): \
             `codex-bridge stop --sender bob` ends them"
        );
        let stopped = |cancelled, interrupted, joined| StopSenderView {
            sender: "bob".to_owned(),
            cancelled,
            interrupted,
            joined,
        };
        let said = stopped_words(&stopped(1, ids(12), ids(0)));
        assert!(said.ends_with("m9, and 2 more"), "{said}");
        let said = stopped_words(&stopped(0, ids(0), ids(1)));
        let goes_on =
            "0 waiting cancelled, nothing of its own runs; 1 were given to running turns of others";
        assert!(said.starts_with(goes_on), "{said}");
    }
}
