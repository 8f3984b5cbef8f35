//! `send`: gives the daemon a message, follows it through restarts of the daemon, and ends with its answer or
//! with the reason why there is none.

use super::api::{ApiClient, ClientError, submit_until};
use super::ask::{AskMode, Asker};
use super::message::file_words;
use super::output::{EXIT_INTERRUPTED, EXIT_LATER, EXIT_STOPPED, print, print_json};
use super::screen::{OutputStream, Screen};
use super::watch::{FollowOutcome, WatchLines, Watcher};
use bridge_core::deadline::after;
use bridge_daemon::term::{self, Paint, escape};
use bridge_front::{MessageView, SubmitRequest};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Debug)]
pub(crate) struct SendOptions {
    pub(crate) text: String,
    pub(crate) conversation: String,
    pub(crate) wait: Duration,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) no_color: bool,
}

/// Runs the command.
pub(crate) async fn send(client: &ApiClient, options: SendOptions) -> anyhow::Result<ExitCode> {
    let mut screen = Screen::new(OutputStream::Stderr, options.no_color);
    let paint = screen.paint();
    let deadline = after(Instant::now(), options.wait);
    let submitted = match client.expect_daemon() {
        Ok(()) => submit(client, &options, deadline, &mut screen).await,
        Err(error) => Err(error),
    };
    let message_id = match submitted {
        Ok(message_id) => message_id,
        Err(error) => {
            // A call that broke off may have arrived; sending the text again would then be a second message.
            let title = match error {
                ClientError::Unreachable { .. } => "not known to have arrived:",
                _ => "not sent:",
            };
            let reason = error.to_string();
            term::complain(&format!("{} {}", paint.red(title), escape(&reason)));
            return Ok(ExitCode::FAILURE);
        }
    };
    let interrupted = term::interrupted();
    let asker = if options.json {
        Asker::new(client, AskMode::Show)
    } else {
        Asker::for_screen(client, &screen)
    };
    let lines = (!options.quiet && !options.json).then(WatchLines::default);
    let mut watcher = Watcher::of_message(asker, &message_id, screen, lines);
    watcher.note(&format!("message {message_id} is on disk"));
    let followed = tokio::select! {
        followed = watcher.follow(deadline) => followed,
        () = interrupted => {
            watcher.leave();
            return Ok(ExitCode::from(EXIT_INTERRUPTED));
        }
    };
    watcher.clear();
    match followed {
        Ok(FollowOutcome::StillWorking) => {
            if options.json
                && let Ok(message) = client.message(&message_id).await
            {
                return print_json(&message, ExitCode::from(EXIT_LATER));
            }
            term::complain(&format!(
                "{} the answer is not there yet; see it later with `codex-bridge show {message_id}`",
                paint.yellow("still working:")
            ));
            Ok(ExitCode::from(EXIT_LATER))
        }
        Ok(FollowOutcome::Answered(message)) => report(&message, ExitCode::SUCCESS, options.json),
        Ok(FollowOutcome::Unanswered(message)) if message.state == "cancelled" => {
            let hint = "it was not answered; send it again if it is still wanted";
            tell_reason("stopped:", &message, hint, &options, paint);
            report(&message, ExitCode::from(EXIT_STOPPED), options.json)
        }
        Ok(FollowOutcome::Unanswered(message)) => {
            let hint = format!("`codex-bridge why {message_id}` says more");
            tell_reason("no answer:", &message, &hint, &options, paint);
            report(&message, ExitCode::FAILURE, options.json)
        }
        Ok(FollowOutcome::Held(message)) => {
            let (title, hint) = match (&message.hold, message.state.as_str()) {
                (None, "parked") => ("waiting for you:", message.why.next.clone()),
                (None, _) => ("waiting:", message.why.next.clone()),
                (Some(_), _) => (
                    "waiting:",
                    format!("`codex-bridge show {message_id}` prints the answer when it is there"),
                ),
            };
            tell_reason(title, &message, &hint, &options, paint);
            report(&message, ExitCode::from(EXIT_LATER), options.json)
        }
        Err(error) => {
            term::complain(&format!(
                "{} {}\nmessage {message_id} was taken in; look for it with `codex-bridge show {message_id}`",
                paint.red("lost sight of it:"),
                escape(&error.to_string())
            ));
            Ok(ExitCode::from(EXIT_LATER))
        }
    }
}

/// Prints the message as JSON, or its answer if there is one.
fn report(message: &MessageView, code: ExitCode, json: bool) -> anyhow::Result<ExitCode> {
    match &message.answer {
        _ if json => print_json(message, code),
        Some(answer) => {
            for file in &answer.files {
                term::complain(&escape(&format!("file: {}", file_words(file))));
            }
            print(&escape(&answer.text), code)
        }
        None => Ok(code),
    }
}

/// Says why there is no answer; programs find it in the JSON.
fn tell_reason(
    title: &str,
    message: &MessageView,
    hint: &str,
    options: &SendOptions,
    paint: Paint,
) {
    if options.json {
        return;
    }
    let id = &message.message_id;
    let reason = match &message.hold {
        Some(hold) => &hold.failure.reason,
        None => &message.why.now,
    };
    term::complain(&format!(
        "{} {}\nmessage {id} is kept; {hint}",
        paint.red(title),
        escape(reason)
    ));
}

/// Submits the message; the same key makes a repetition harmless.
pub(crate) async fn submit(
    client: &ApiClient,
    options: &SendOptions,
    deadline: Instant,
    screen: &mut Screen,
) -> Result<String, ClientError> {
    let key = uuid::Uuid::new_v4().to_string();
    let request = SubmitRequest {
        text: options.text.clone(),
        conversation: Some(options.conversation.clone()),
    };
    let submit = async || client.submit(&request, &key).await;
    let submitted = submit_until(Some(deadline), submit, |why| screen.warn(why)).await?;
    Ok(submitted.message_id)
}
