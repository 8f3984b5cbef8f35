//! `send`: gives the daemon a message, follows it through restarts of the daemon, and ends with its answer or
//! with the reason why there is none.

use super::api::{ApiClient, ClientError, RETRY_MAX, RETRY_MIN, submit_until};
use super::ask::{AskMode, Asker, RequestFilter};
use super::message::file_words;
use super::output::{print, print_json};
use super::progress::SendProgress;
use super::sse::SseEvent;
use bridge_core::deadline::after;
use bridge_daemon::term::{self, Paint, escape};
use bridge_front::{EventView, MessageView, SubmitRequest, TextView};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::Instant;

/// Exit code when the answer may still come: the message is kept (EX_TEMPFAIL).
pub(super) const EXIT_LATER: u8 = 75;
/// Exit code after Ctrl-C, as shells have it: we left, the work goes on.
pub(super) const EXIT_INTERRUPTED: u8 = 130;
/// How often open requests are read while one is on the screen, besides on events.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Exit code when the message was stopped.
pub(super) const EXIT_STOPPED: u8 = 3;

#[derive(Clone, Debug)]
pub(crate) struct SendOptions {
    pub(crate) text: String,
    pub(crate) conversation: String,
    pub(crate) wait: Duration,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) no_color: bool,
}

/// How waiting for a message ended.
#[derive(Clone, Debug)]
pub(crate) enum SendOutcome {
    /// It has its answer.
    Answered(Box<MessageView>),
    /// It is finished without an answer.
    Unanswered(Box<MessageView>),
    /// It waits for something that will not come by itself soon.
    Held(Box<MessageView>),
    /// The time to wait is over; it is worked on all the same.
    StillWorking(String),
}

/// Runs the command.
pub(crate) async fn send(client: &ApiClient, options: SendOptions) -> anyhow::Result<ExitCode> {
    let mut progress = SendProgress::new(options.quiet || options.json, options.no_color);
    let paint = Paint::stderr(options.no_color);
    let sender = Sender {
        client,
        deadline: after(Instant::now(), options.wait),
    };
    let submitted = match client.expect_daemon() {
        Ok(()) => sender.submit(&options, &mut progress).await,
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
    let mut asker = if options.json {
        Asker::new(client, AskMode::Show)
    } else {
        Asker::for_screen(client, progress.screen())
    };
    let attended = sender.attend(&message_id, &mut progress, &mut asker);
    let followed = tokio::select! {
        followed = attended => followed,
        () = interrupted => {
            drop(asker);
            progress.screen().retract();
            term::complain(&leaving(&message_id));
            return Ok(ExitCode::from(EXIT_INTERRUPTED));
        }
    };
    progress.clear();
    match followed {
        Ok(SendOutcome::StillWorking(message_id)) if options.json => {
            match client.message(&message_id).await {
                Ok(message) => print_json(&message, ExitCode::from(EXIT_LATER)),
                Err(_) => report(SendOutcome::StillWorking(message_id), true, paint),
            }
        }
        Ok(outcome) => report(outcome, options.json, paint),
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

/// The remark at Ctrl-C: the message goes on.
pub(super) fn leaving(id: &str) -> String {
    format!(
        "left; {id} goes on: `codex-bridge watch {id}` shows it again, `codex-bridge interrupt {id}` stops it"
    )
}

fn report(outcome: SendOutcome, json: bool, paint: Paint) -> anyhow::Result<ExitCode> {
    let (message, code) = match outcome {
        SendOutcome::Answered(message) => (message, ExitCode::SUCCESS),
        SendOutcome::Unanswered(message) if message.state == "cancelled" => {
            if !json {
                let hint = "it was not answered; send it again if it is still wanted";
                tell_reason("stopped:", &message, hint, paint);
            }
            (message, ExitCode::from(EXIT_STOPPED))
        }
        SendOutcome::Unanswered(message) => {
            if !json {
                let id = &message.message_id;
                let hint = format!("`codex-bridge why {id}` says more");
                tell_reason("no answer:", &message, &hint, paint);
            }
            (message, ExitCode::FAILURE)
        }
        SendOutcome::Held(message) => {
            if !json {
                let id = &message.message_id;
                let (title, hint) = match (&message.hold, message.state.as_str()) {
                    (None, "parked") => ("waiting for you:", message.why.next.clone()),
                    (None, _) => ("waiting:", message.why.next.clone()),
                    (Some(_), _) => (
                        "waiting:",
                        format!("`codex-bridge show {id}` prints the answer when it is there"),
                    ),
                };
                tell_reason(title, &message, &hint, paint);
            }
            (message, ExitCode::from(EXIT_LATER))
        }
        SendOutcome::StillWorking(message_id) => {
            term::complain(&format!(
                "{} the answer is not there yet; see it later with `codex-bridge show {message_id}`",
                paint.yellow("still working:")
            ));
            return Ok(ExitCode::from(EXIT_LATER));
        }
    };
    match &message.answer {
        _ if json => print_json(&*message, code),
        Some(answer) => {
            for file in &answer.files {
                term::complain(&escape(&format!("file: {}", file_words(file))));
            }
            print(&escape(&answer.text), code)
        }
        None => Ok(code),
    }
}

fn tell_reason(title: &str, message: &MessageView, hint: &str, paint: Paint) {
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

/// Sends one message and waits for its end.
pub(crate) struct Sender<'a> {
    pub(crate) client: &'a ApiClient,
    pub(crate) deadline: Instant,
}

impl Sender<'_> {
    /// Hands the message over; the same key makes a repetition harmless.
    pub(crate) async fn submit(
        &self,
        options: &SendOptions,
        progress: &mut SendProgress,
    ) -> Result<String, ClientError> {
        let key = uuid::Uuid::new_v4().to_string();
        let request = SubmitRequest {
            text: options.text.clone(),
            conversation: Some(options.conversation.clone()),
        };
        let submit = async || self.client.submit(&request, &key).await;
        let warn = |why: &str| progress.warn(why);
        let id = submit_until(Some(self.deadline), submit, warn)
            .await?
            .message_id;
        progress.line("→", &format!("message {id} is on disk"));
        Ok(id)
    }

    /// Follows a message until it ends, also while the daemon is away, without showing requests.
    pub(crate) async fn follow(
        &self,
        message_id: &str,
        progress: &mut SendProgress,
    ) -> Result<SendOutcome, ClientError> {
        let mut nobody = Asker::new(self.client, AskMode::Silent);
        self.attend(message_id, progress, &mut nobody).await
    }

    /// Follows a message until it ends, and shows what Codex asks.
    pub(crate) async fn attend(
        &self,
        message_id: &str,
        progress: &mut SendProgress,
        asker: &mut Asker<'_>,
    ) -> Result<SendOutcome, ClientError> {
        let mut seen = 0;
        let mut pause = RETRY_MIN;
        loop {
            let watched = self.watch(message_id, &mut seen, progress, asker);
            let error = match tokio::time::timeout_at(self.deadline, watched).await {
                Err(_elapsed) => return Ok(SendOutcome::StillWorking(message_id.to_owned())),
                Ok(Ok(Some(outcome))) => return Ok(outcome),
                Ok(Ok(None)) => None,
                Ok(Err(error)) if error.may_pass() => Some(error),
                Ok(Err(error)) => return Err(error),
            };
            if error.is_some() && pause == RETRY_MIN {
                progress.warn(
                    "the daemon went away; waiting for it to come back (the message is safe)",
                );
            }
            if after(Instant::now(), pause) >= self.deadline {
                return Ok(SendOutcome::StillWorking(message_id.to_owned()));
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(RETRY_MAX);
        }
    }

    /// Reads one stream of events; `None` when it ended before the message did.
    async fn watch(
        &self,
        message_id: &str,
        seen: &mut u32,
        progress: &mut SendProgress,
        asker: &mut Asker<'_>,
    ) -> Result<Option<SendOutcome>, ClientError> {
        let filter = RequestFilter::Messages([message_id.to_owned()].into());
        let mut stream = self.client.events(message_id, *seen).await?;
        loop {
            let event = tokio::select! {
                event = stream.next() => event?,
                line = asker.typed() => {
                    asker.take(line, progress.screen()).await;
                    continue;
                }
                () = tokio::time::sleep(LOOK_EVERY), if asker.is_asking() => {
                    asker.look(&filter, progress.screen()).await?;
                    continue;
                }
            };
            let Some(event) = event else {
                return Ok(None);
            };
            let looks = may_ask(&event);
            if let Some(outcome) = on_event(&event, seen, progress)? {
                progress.screen().retract();
                return Ok(Some(outcome));
            }
            if looks {
                asker.look(&filter, progress.screen()).await?;
            }
        }
    }
}

/// Whether an event can mean that Codex asks something, or does not any more.
pub(super) fn may_ask(event: &SseEvent) -> bool {
    match event.name.as_str() {
        "state" => true,
        "item" => event.data.contains("\"request\""),
        name => name.starts_with("request"),
    }
}

fn on_event(
    event: &SseEvent,
    seen: &mut u32,
    progress: &mut SendProgress,
) -> Result<Option<SendOutcome>, ClientError> {
    match event.name.as_str() {
        "item" => {
            let item: EventView = parse(&event.data)?;
            *seen = item.ordinal;
            progress.event(&item);
        }
        "diff" => progress.diff(&parse::<TextView>(&event.data)?.text),
        "text" => progress.text(&parse::<TextView>(&event.data)?.text),
        "state" => {
            let message: MessageView = parse(&event.data)?;
            progress.state(&message);
            if !message.worth_waiting {
                return Ok(Some(SendOutcome::Held(Box::new(message))));
            }
        }
        "end" => {
            let message: MessageView = parse(&event.data)?;
            if message
                .answer
                .as_ref()
                .is_some_and(|answer| answer.source == "shared")
            {
                progress.line(
                    "→",
                    "answered together with the message whose turn heard it",
                );
            }
            return Ok(Some(match message.answer {
                Some(_) => SendOutcome::Answered(Box::new(message)),
                None => SendOutcome::Unanswered(Box::new(message)),
            }));
        }
        _ => {}
    }
    Ok(None)
}

fn parse<T: serde::de::DeserializeOwned>(data: &str) -> Result<T, ClientError> {
    serde_json::from_str(data).map_err(|error| ClientError::Unreadable(error.to_string()))
}
