//! `show` and `why`: one message or task, what it is about and where it is. `reload`: the configuration again.

use super::api::{ApiClient, ClientError};
use super::find::{Target, newest_of, resolve, short};
use super::message::{message_words, questions};
use super::output::{CONFIGURATION, Failed, exit_code};
use super::page::{PLAIN, Page, phase_look};
use crate::cli::{IdArgs, OutputArgs, ShowArgs};
use bridge_daemon::term::escape;
use bridge_front::{ReloadView, StoryView};
use std::process::ExitCode;

/// Width of the names in front of `why`.
const WHY_WIDTH: usize = 8;

/// A message, or the newest one of a task with the task's id.
async fn story(
    client: &ApiClient,
    reference: &str,
) -> Result<(StoryView, Option<String>), ClientError> {
    match resolve(client, reference).await? {
        Target::Message(id) => Ok((client.message(&id).await?, None)),
        Target::Task(id) => {
            let newest = newest_of(client, &id).await?;
            Ok((client.message(&newest).await?, Some(id)))
        }
    }
}

pub(crate) async fn show(
    client: &ApiClient,
    args: &ShowArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    let (story, task) = story(client, &args.id).await?;
    args.output.show(&story, ExitCode::SUCCESS, |story| {
        message_words(story, task.as_deref(), args.verbose, Page::stdout(no_color))
    })
}

pub(crate) async fn why(
    client: &ApiClient,
    args: &IdArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    let (story, task) = story(client, &args.id).await?;
    args.output.show(&story, ExitCode::SUCCESS, |story| {
        why_words(story, task.as_deref(), Page::stdout(no_color))
    })
}

fn why_words(story: &StoryView, task: Option<&str>, mut page: Page) -> String {
    let message = &story.message;
    let (id, phase) = (
        task.unwrap_or_else(|| short(&message.message_id)),
        &message.phase,
    );
    let is = match phase.as_str() {
        "failed" => "",
        _ => "is ",
    };
    let head = format!(
        "{} {is}{}",
        page.paint.bold(id),
        phase_look(phase)(page.paint, phase)
    );
    let line = message.text.lines().find(|line| !line.trim().is_empty());
    let place = match task {
        Some(_) => String::new(),
        None => format!(" in {}", message.conversation),
    };
    let about = format!("{place}: {}", line.unwrap_or_default());
    page.hang(&head, 2, &about, PLAIN);
    if !questions(message, 2, &mut page) {
        page.field("  now", WHY_WIDTH, &message.why.now);
        page.field("  next", WHY_WIDTH, &message.why.next);
    }
    // What went wrong on the way to an answer explains nothing any more.
    let failure = message.failure.as_ref();
    if let Some(failure) = failure.filter(|_| message.answer.is_none())
        && !message.why.now.contains(&failure.reason)
    {
        let said = format!("last failure ({}): {}", failure.class, failure.reason);
        page.line(2, &said, PLAIN);
    }
    page.into_text()
}

/// Lets the daemon read its configuration again; fails where the file can't be used.
pub(crate) async fn reload(client: &ApiClient, output: OutputArgs) -> anyhow::Result<ExitCode> {
    let view = client.reload().await?;
    if let Some(error) = view.error.as_ref().filter(|_| output.json) {
        let said = format!("nothing changed, the old configuration is in force: {error}");
        return Err(Failed::new(CONFIGURATION, said).into());
    }
    output.show(&view, exit_code(view.ok), |view| {
        escape(&reload_words(view)).into_owned()
    })
}

fn reload_words(view: &ReloadView) -> String {
    let mut words = match (&view.error, view.changed.as_slice()) {
        (Some(error), _) => {
            format!("nothing changed, the old configuration is in force: {error}\n")
        }
        (None, []) => "read again; nothing is different\n".to_owned(),
        (None, keys) => format!("in force from now on: {}\n", keys.join(" ")),
    };
    if !view.needs_restart.is_empty() {
        words.push_str(&format!(
            "restart the daemon for: {}\n",
            view.needs_restart.join(" ")
        ));
    }
    for warning in &view.warnings {
        words.push_str(&format!("warning: {warning}\n"));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_daemon::term::Paint;
    use serde_json::{Value, json};

    fn story(phase: &str, answer: &Value) -> StoryView {
        serde_json::from_value(json!({
            "message_id": "01a1e60b-3a0b-7377-98e0-da2da8945be2", "conversation": "main", "channel": "local",
            "sender": "local owner", "text": "Write a limerick\nin a file", "files": [], "state": "s", "phase": phase,
            "attempt": 1, "round": 1, "suspect": false, "stop": null, "leader": null, "followers": [], "behind": null,
            "ack": null, "thread_id": "t", "received_at": 0, "updated_at": 0, "hold": null, "workdir": "/w",
            "failure": {"class": "config", "reason": "Codex is not logged in"}, "answer": answer, "requests": [],
            "why": {"now": "it was answered", "next": "nothing"}, "worth_waiting": true,
            "attempts": [], "events": [], "replies": [], "acts": [],
        }))
        .unwrap()
    }

    #[test]
    fn why_forgets_failures_of_answered_messages() {
        let answer = json!({"text": "done", "files": [], "source": "live", "created_at": 9000});
        let page = || Page::new(Paint::plain(), Some(80));
        let words = why_words(&story("done", &answer), None, page());
        assert_eq!(
            words,
            "a8945be2 is done in main: Write a limerick\n  now   it was answered\n  next  nothing\n"
        );
        let words = why_words(&story("queued", &Value::Null), Some("codex-1"), page());
        assert!(words.starts_with("codex-1 is queued: Write"), "{words}");
        assert!(
            words.contains("last failure (config): Codex is not logged in"),
            "{words}"
        );
    }

    #[test]
    fn show_begins_with_text_and_answer() {
        let answer =
            json!({"text": "An answer", "files": [], "source": "live", "created_at": 9000});
        let said = |verbose| {
            let page = Page::new(Paint::plain(), Some(80));
            message_words(&story("done", &answer), None, verbose, page)
        };
        let words = said(false);
        let at = |what: &str| {
            words
                .find(what)
                .unwrap_or_else(|| panic!("{what}: {words}"))
        };
        assert!(at("in a file") < at("An answer") && at("An answer") < at("worked in     /w"));
        assert!(!words.contains("codex thread"), "{words}");
        assert!(said(true).contains("codex thread  t"));
    }
}
