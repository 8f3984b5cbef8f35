//! `show` and `why`: what the ledger knows of a message, for people and for programs; and how commands print.

use super::api::{ApiClient, ClientError};
use super::story::story_words;
use bridge_daemon::term::{self, Paint, escape};
use bridge_front::StoryView;
use serde::Serialize;
use std::process::ExitCode;

pub(crate) async fn show(client: &ApiClient, id: &str, json: bool, no_color: bool) -> ExitCode {
    finish(
        client,
        client.message(id).await,
        json,
        no_color,
        story_words,
    )
}

pub(crate) async fn why(client: &ApiClient, id: &str, json: bool, no_color: bool) -> ExitCode {
    finish(client, client.message(id).await, json, no_color, why_words)
}

pub(super) fn finish<T: Serialize>(
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
    if json {
        print_json(&found, ExitCode::SUCCESS)
    } else {
        print(
            words(&found, Paint::stdout(no_color)).trim_end(),
            ExitCode::SUCCESS,
        )
    }
}

/// Prints what the daemon said: as it is for programs, in words for people.
pub(super) fn finish_value(
    client: &ApiClient,
    result: Result<serde_json::Value, ClientError>,
    json: bool,
    words: impl FnOnce(&serde_json::Value) -> String,
) -> ExitCode {
    finish(client, result, json, true, |found, _| words(found))
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

fn why_words(story: &StoryView, paint: Paint) -> String {
    let message = &story.message;
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
