//! `show`, `why` and `status`: what the ledger knows, for people and for programs.

use super::api::{ApiClient, ClientError};
use crate::term::{self, Paint, escape, escape_line, when};
use bridge_front::{LedgerView, MessageView, StatusView};
use serde::Serialize;
use std::process::ExitCode;

const MIB: u64 = 1024 * 1024;

pub(crate) async fn show(client: &ApiClient, id: &str, json: bool, no_color: bool) -> ExitCode {
    finish(
        client,
        client.message(id).await,
        json,
        no_color,
        message_words,
    )
}

pub(crate) async fn why(client: &ApiClient, id: &str, json: bool, no_color: bool) -> ExitCode {
    finish(client, client.message(id).await, json, no_color, why_words)
}

pub(crate) async fn status(client: &ApiClient, json: bool, no_color: bool) -> ExitCode {
    finish(client, client.status().await, json, no_color, status_words)
}

fn finish<T: Serialize>(
    client: &ApiClient,
    result: Result<T, ClientError>,
    json: bool,
    no_color: bool,
    words: impl FnOnce(&T, Paint) -> String,
) -> ExitCode {
    let found = match result {
        Ok(found) => found,
        Err(error) => {
            // That no daemon runs says more than that its socket is silent.
            let error = client.expect_daemon().err().unwrap_or(error);
            term::complain(&escape(&error.to_string()));
            return ExitCode::FAILURE;
        }
    };
    match json {
        true => print_json(&found, ExitCode::SUCCESS),
        false => print(
            words(&found, Paint::stdout(no_color)).trim_end(),
            ExitCode::SUCCESS,
        ),
    }
}

/// Prints a value for programs; `code` if that works.
pub(super) fn print_json(value: &impl Serialize, code: ExitCode) -> ExitCode {
    match serde_json::to_string_pretty(value) {
        Ok(json) => print(&json, code),
        Err(error) => {
            term::complain(&format!("this can't be written as JSON: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a text; `code` if that works. Whoever relies on the text must hear that it did not arrive.
pub(super) fn print(text: &str, code: ExitCode) -> ExitCode {
    match term::print(text) {
        Ok(()) => code,
        Err(error) => {
            term::complain(&format!("this could not be printed: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn message_words(message: &MessageView, paint: Paint) -> String {
    let mut words = String::new();
    let mut head = |name: &str, text: &str| {
        words.push_str(&format!("{:<14}{}\n", paint.dim(name), escape_line(text)));
    };
    head("message", &message.message_id);
    head("conversation", &message.conversation);
    head(
        "from",
        &format!("{} on {}", message.sender, message.channel),
    );
    head("received", &when(message.received_at));
    head("state", &message.state);
    if let Some(thread) = &message.thread_id {
        head("codex thread", thread);
    }
    for request in &message.requests {
        head(
            "codex asked",
            &format!("{} ({})", request.headline, request.state),
        );
    }
    let outcome = match &message.answer {
        Some(answer) => {
            let source = match answer.source.as_str() {
                "harvested" => ", read from Codex's history after a restart",
                _ => "",
            };
            let title = format!("answer, {}{source}", when(answer.created_at));
            format!("{}\n\n{}", paint.bold(&title), escape(&answer.text))
        }
        None => format!("{} {}", paint.bold("no answer:"), escape(&message.why.now)),
    };
    format!("{words}\n{}\n\n{outcome}", escape(&message.text))
}

fn why_words(message: &MessageView, paint: Paint) -> String {
    let mut words = format!(
        "{} is {}\n  now:  {}\n  next: {}\n",
        paint.bold(&message.message_id),
        message.state,
        escape(&message.why.now),
        escape(&message.why.next)
    );
    if let Some(failure) = &message.failure {
        words.push_str(&format!(
            "  last failure ({}): {}",
            failure.class,
            escape(&failure.reason)
        ));
    }
    words
}

fn ledger_words(ledger: &LedgerView) -> String {
    let free = match ledger.free_bytes {
        Some(free) => format!(", {} MiB free on its disk", free / MIB),
        None => String::new(),
    };
    let log = ledger.log_bytes.div_ceil(1024);
    format!("ledger {}, {log} KiB of log{free}", ledger.health)
}

fn status_words(status: &StatusView, paint: Paint) -> String {
    let health = &status.health;
    let ready = match health.ready {
        true => paint.green("ready"),
        false => paint.yellow("not ready"),
    };
    let mut words = format!(
        "{ready}: codex-bridge {} (pid {})\n  {}\n",
        health.version,
        health.pid,
        escape(&health.codex)
    );
    if !health.ready && health.detail != health.codex {
        words.push_str(&format!("  {}\n", escape(&health.detail)));
    }
    if let Some(ledger) = &health.ledger {
        words.push_str(&format!("  {}\n", ledger_words(ledger)));
    }
    if status.counts.is_empty() {
        words.push_str("  no messages yet\n");
    }
    for (state, count) in &status.counts {
        words.push_str(&format!("  {state:<10} {count}\n"));
    }
    words
}
