//! `send`: gives the daemon a message, follows it through restarts of the daemon, and ends with its answer or
//! with the reason why there is none.

use super::api::{ApiClient, ClientError, SUBMIT_PATIENCE, submit_until};
use super::ask::{AskMode, Asker};
use super::message::file_words;
use super::output::{
    EXIT_LATER, EXIT_STOPPED, Failed, print, print_json, say, say_titled, shown_id,
};
use super::screen::{OutputStream, Screen};
use super::watch::{FollowOutcome, WatchLines, Watcher, without_phase};
use super::work::{answer_text, spent, works_in};
use bridge_core::deadline::after;
use bridge_core::phase::Phase;
use bridge_daemon::term::{self, Paint};
use bridge_front::{FileUpload, MessageView, SubmitRequest, SubmitResponse};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Debug)]
pub(crate) struct SendOptions {
    pub(crate) text: String,
    pub(crate) conversation: String,
    /// Where a new conversation works.
    pub(crate) cwd: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) sandbox: Option<String>,
    pub(crate) files: Vec<FileUpload>,
    /// How long the answer is waited for; `None` is not at all.
    pub(crate) wait: Option<Duration>,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    /// Print Markdown as it came.
    pub(crate) raw: bool,
    pub(crate) no_color: bool,
}

/// Runs the command.
pub(crate) async fn send(client: &ApiClient, options: SendOptions) -> anyhow::Result<ExitCode> {
    let mut screen = Screen::new(OutputStream::Stderr, options.no_color);
    let paint = screen.paint();
    let patience = options.wait.unwrap_or(SUBMIT_PATIENCE);
    let deadline = after(Instant::now(), patience);
    let submitted = match client.expect_daemon() {
        Ok(()) => submit(client, &options, deadline, &mut screen).await,
        Err(error) => Err(error),
    };
    let submitted = match submitted {
        Ok(submitted) => submitted,
        Err(error) if options.json => return Err(error.into()),
        Err(error) => {
            // A call that broke off may have arrived; sending the text again would then be a second message.
            let title = if error.may_have_arrived() {
                "not known to have arrived:"
            } else {
                "not sent:"
            };
            say_titled(&paint.red(title), &error.to_string());
            return Ok(ExitCode::FAILURE);
        }
    };
    let message_id = submitted.message_id.clone();
    let shown = shown_id(&message_id, screen.is_terminal());
    let place = submitted.first || options.cwd.is_some();
    let place = place.then(|| works_in(&submitted.cwd, &submitted.sandbox));
    let interrupted = term::interrupted();
    let asker = if options.json {
        Asker::new(client, AskMode::Show)
    } else {
        Asker::for_screen(client, &screen)
    };
    let lines = (!options.quiet && !options.json).then(WatchLines::default);
    let mut watcher = Watcher::of_message(asker, &message_id, screen, lines);
    watcher.note(&format!("message {shown} is on disk"));
    if let Some(place) = place.filter(|_| !submitted.cwd.is_empty()) {
        watcher.note(&place);
    }
    if options.wait.is_none() {
        watcher.clear();
        return taken_in(client, &submitted, shown, &options).await;
    }
    let followed = tokio::select! {
        followed = watcher.follow(deadline) => followed,
        () = interrupted => {
            return watcher.left(options.json);
        }
    };
    watcher.clear();
    conclude(followed, &mut watcher, &message_id, &options).await
}

/// Tells how it ended, and gives the exit code.
async fn conclude(
    followed: Result<FollowOutcome, ClientError>,
    watcher: &mut Watcher<'_>,
    message_id: &str,
    options: &SendOptions,
) -> anyhow::Result<ExitCode> {
    let client = watcher.client();
    let paint = Paint::stderr(options.no_color);
    let shown = shown_id(message_id, OutputStream::Stderr.width().is_some());
    match followed {
        Ok(FollowOutcome::StillWorking) => {
            if options.json {
                return match client.message(message_id).await {
                    Ok(story) => print_json(&story.message, ExitCode::from(EXIT_LATER)),
                    Err(error) => Err(lost(&error, message_id).into()),
                };
            }
            let open = watcher.waits_for_you().await;
            for request in &open {
                say_titled(&paint.yellow("waiting for you:"), request);
            }
            if open.is_empty() {
                let said = format!(
                    "the answer is not there yet; see it later with `codex-bridge show {shown}`"
                );
                say_titled(&paint.yellow("still working:"), &said);
            }
            Ok(ExitCode::from(EXIT_LATER))
        }
        Ok(FollowOutcome::Answered(message)) => {
            if !options.quiet && !options.json {
                let spent = spent(client, message_id, watcher.elapsed()).await;
                watcher.done(&spent);
            }
            report(&message, ExitCode::SUCCESS, options)
        }
        Ok(FollowOutcome::Unanswered(message)) if message.state == "cancelled" => {
            let hint = "it was not answered; send it again if it is still wanted";
            tell_reason("stopped:", &message, hint, options, paint);
            report(&message, ExitCode::from(EXIT_STOPPED), options)
        }
        Ok(FollowOutcome::Unanswered(message)) => {
            let hint = format!("`codex-bridge why {shown}` says more");
            tell_reason("failed:", &message, &hint, options, paint);
            report(&message, ExitCode::FAILURE, options)
        }
        Ok(FollowOutcome::Held(message)) => {
            let hint = match &message.hold {
                None => message.why.next.clone(),
                Some(_) => {
                    format!("`codex-bridge show {shown}` prints the answer when it is there")
                }
            };
            // Also behind a message that waits for its operator.
            let hold = message.hold.as_ref();
            let is_config = hold.is_some_and(|hold| hold.failure.class == "config");
            let title = if is_config || message.phase == Phase::WaitingForYou.as_str() {
                "waiting for you:"
            } else {
                "waiting:"
            };
            tell_reason(title, &message, &hint, options, paint);
            report(&message, ExitCode::from(EXIT_LATER), options)
        }
        Err(error) if options.json => Err(lost(&error, message_id).into()),
        Err(error) => {
            let said = lost_words(&error, shown);
            say_titled(&paint.red("lost sight of it:"), &said);
            Ok(ExitCode::from(EXIT_LATER))
        }
    }
}

fn lost(error: &ClientError, message_id: &str) -> Failed {
    let failed = Failed::new("lost sight of it", lost_words(error, message_id));
    failed.going_on(Some(message_id), EXIT_LATER)
}

fn lost_words(error: &ClientError, id: &str) -> String {
    format!("{error}\nmessage {id} was taken in; look for it with `codex-bridge show {id}`")
}

/// `--no-wait`: its id alone goes to stdout.
async fn taken_in(
    client: &ApiClient,
    submitted: &SubmitResponse,
    shown: &str,
    options: &SendOptions,
) -> anyhow::Result<ExitCode> {
    if options.json {
        let story = client.message(&submitted.message_id).await;
        let story = story.map_err(|error| lost(&error, &submitted.message_id))?;
        return print_json(&story.message, ExitCode::SUCCESS);
    }
    if !options.quiet {
        let said = format!(
            "`codex-bridge watch {shown}` shows what Codex does, `codex-bridge show {shown}` its answer"
        );
        say(&said);
    }
    print(&submitted.message_id, ExitCode::SUCCESS)
}

/// Prints the message as JSON, or its answer if there is one.
fn report(
    message: &MessageView,
    code: ExitCode,
    options: &SendOptions,
) -> anyhow::Result<ExitCode> {
    match &message.answer {
        _ if options.json => print_json(message, code),
        Some(answer) => {
            for file in &answer.files {
                say(&format!("file: {}", file_words(file)));
            }
            let text = answer_text(&answer.text, options.raw, options.no_color);
            print(&text, code)
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
    let id = shown_id(&message.message_id, OutputStream::Stderr.width().is_some());
    let reason = match &message.hold {
        Some(hold) => &hold.failure.reason,
        None => without_phase(&message.why.now),
    };
    let said = format!("{reason}\nmessage {id} is kept; {hint}");
    say_titled(&paint.red(title), &said);
}

/// Submits the message; the same key makes a repetition harmless.
pub(crate) async fn submit(
    client: &ApiClient,
    options: &SendOptions,
    deadline: Instant,
    screen: &mut Screen,
) -> Result<SubmitResponse, ClientError> {
    let key = uuid::Uuid::new_v4().to_string();
    let request = SubmitRequest {
        text: options.text.clone(),
        conversation: Some(options.conversation.clone()),
        cwd: options.cwd.clone(),
        model: options.model.clone(),
        sandbox: options.sandbox.clone(),
        files: options.files.clone(),
    };
    let submit = async || client.submit(&request, &key).await;
    submit_until(Some(deadline), submit, |why| screen.warn(why)).await
}
