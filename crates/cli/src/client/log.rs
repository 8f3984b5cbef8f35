//! `log`: what was said in a conversation, or in all of them, both sides, newest last; `-f` goes on with what comes.

use super::api::{ApiClient, ClientError, RETRY_MAX, RETRY_MIN};
use super::ask::ApprovalView;
use super::find::{conversation_of, path_with, short};
use super::now_ms;
use super::output::{EXIT_INTERRUPTED, print, print_json, say, tell};
use super::page::{BOLD, DIM, PLAIN, Page, YELLOW};
use super::watch::WatchEvent;
use crate::cli::LogArgs;
use crate::client::watch::without_phase;
use bridge_core::phase::Phase;
use bridge_core::requester::{AT_TERMINAL, LOCAL_OWNER};
use bridge_daemon::term::{self, span, when};
use bridge_front::{MessageList, MessageView};
use std::collections::BTreeMap;
use std::process::ExitCode;
use tokio::time::Instant;

/// Indent of what was said.
const INDENT: usize = 2;
/// Messages whose printed parts are remembered while following.
const REMEMBERED: usize = 1_000;

pub(crate) async fn log(
    client: &ApiClient,
    args: &LogArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    let conversation = match &args.conversation {
        Some(name) => Some(conversation_of(client, name).await?),
        None => None,
    };
    let mut log = Log {
        client,
        args,
        conversation,
        no_color,
        printed: BTreeMap::new(),
    };
    if !args.follow {
        return log.once().await;
    }
    let interrupted = term::interrupted();
    tokio::select! {
        followed = log.follow() => followed.map(|()| ExitCode::SUCCESS),
        () = interrupted => Ok(ExitCode::from(EXIT_INTERRUPTED)),
    }
}

/// How much of a message was printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Printed {
    text: bool,
    end: bool,
    /// The requests that were shown.
    asked: Vec<String>,
}

struct Log<'a> {
    client: &'a ApiClient,
    args: &'a LogArgs,
    conversation: Option<String>,
    no_color: bool,
    printed: BTreeMap<String, Printed>,
}

impl Log<'_> {
    /// The newest messages, oldest first.
    async fn newest(&self) -> Result<MessageList, ClientError> {
        let limit = self.args.limit.to_string();
        let mut query = vec![("limit", limit.as_str())];
        if let Some(conversation) = &self.conversation {
            query.push(("conversation", conversation));
        }
        let mut found: MessageList = self.client.get(&path_with("/v1/messages", &query)?).await?;
        found.messages.reverse();
        Ok(found)
    }

    async fn once(&mut self) -> anyhow::Result<ExitCode> {
        let found = self.newest().await?;
        if self.args.output.json {
            return print_json(&found, ExitCode::SUCCESS);
        }
        if found.messages.is_empty() {
            return tell("nothing was said yet", ExitCode::SUCCESS);
        }
        let mut page = Page::stdout(self.no_color);
        for message in &found.messages {
            self.tell(message, &mut page);
            if !is_over(message) {
                now(message, &mut page);
            }
        }
        print(page.into_text().trim_end(), ExitCode::SUCCESS)
    }

    /// Prints what is there and what comes, through restarts of the daemon.
    async fn follow(&mut self) -> anyhow::Result<()> {
        let mut pause = RETRY_MIN;
        let mut away: Option<Instant> = None;
        loop {
            match self.stream(&mut away).await {
                Ok(()) => pause = RETRY_MIN,
                Err(error) if error.may_pass() && !self.printed.is_empty() => {}
                Err(error) => return Err(error.into()),
            }
            if away.is_none() {
                away = Some(Instant::now());
                say("the daemon went away; going on when it is back");
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(RETRY_MAX);
        }
    }

    /// One stream of events. What was said meanwhile is read first, so that nothing is missed.
    async fn stream(&mut self, away: &mut Option<Instant>) -> Result<(), ClientError> {
        let mut stream = self.client.stream("/v1/events", None).await?;
        *away = None;
        for message in self.newest().await?.messages {
            self.show(&message)?;
        }
        while let Some(event) = stream.next().await? {
            let event = WatchEvent::read(&event, "")
                .map_err(|error| ClientError::Unreadable(error.to_string()))?;
            let id = match &event {
                WatchEvent::Moved { message_id, .. } => Some(message_id.clone()),
                WatchEvent::Item { message_id, event } if event.kind == "request" => {
                    Some(message_id.clone())
                }
                _ => None,
            };
            if let Some(id) = id {
                let message = self.client.message(&id).await?.message;
                self.show(&message)?;
            }
        }
        Ok(())
    }

    /// Prints what is new of a message, if it is of this conversation.
    fn show(&mut self, message: &MessageView) -> Result<(), ClientError> {
        let other = |name: &String| *name != message.conversation;
        if self.conversation.as_ref().is_some_and(other) {
            return Ok(());
        }
        let before = self.printed.get(&message.message_id).cloned();
        let mut page = Page::stdout(self.no_color);
        self.tell(message, &mut page);
        let changed = before.as_ref() != self.printed.get(&message.message_id);
        let text = if self.args.output.json && changed {
            serde_json::to_string(message).unwrap_or_default()
        } else if self.args.output.json {
            String::new()
        } else {
            page.into_text().trim_end().to_owned()
        };
        if text.is_empty() {
            return Ok(());
        }
        term::print(&text)
            .map_err(|error| ClientError::Unreadable(format!("it could not be printed: {error}")))
    }

    /// Adds what was not printed yet: the text, what Codex asks, how it ended.
    fn tell(&mut self, message: &MessageView, page: &mut Page) {
        while self.printed.len() >= REMEMBERED {
            self.printed.pop_first();
        }
        let many = self.conversation.is_none();
        let printed = self.printed.entry(message.message_id.clone()).or_default();
        if !printed.text {
            printed.text = true;
            said(message, many, page);
        }
        for request in &message.requests {
            if request.state == "open" && !printed.asked.contains(&request.request_id) {
                printed.asked.push(request.request_id.clone());
                let asked = ApprovalView::of(message, request);
                asked.tell(INDENT, "", now_ms(), page);
            }
        }
        if !printed.end && is_over(message) {
            printed.end = true;
            ended(message, many, page);
        }
    }
}

fn is_over(message: &MessageView) -> bool {
    message.answer.is_some() || matches!(message.state.as_str(), "done" | "dead" | "cancelled")
}

/// Who sent it, for people.
pub(super) fn sender(message: &MessageView) -> &str {
    match message.sender.as_str() {
        LOCAL_OWNER => "you",
        AT_TERMINAL => "you, at a terminal",
        sender => sender,
    }
}

fn said(message: &MessageView, many: bool, page: &mut Page) {
    let place = match many {
        true => format!(" in {}", message.conversation),
        false => String::new(),
    };
    let who = format!("{}{place}", sender(message));
    let at = when(message.received_at.ms());
    page.head(&at, &who, short(&message.message_id));
    page.block(INDENT, &message.text, PLAIN);
}

fn ended(message: &MessageView, many: bool, page: &mut Page) {
    match &message.answer {
        Some(answer) => {
            let took = span(answer.created_at.since_ms(message.received_at));
            let who = match many {
                true => format!("Codex in {}", message.conversation),
                false => "Codex".to_owned(),
            };
            page.head(
                &when(answer.created_at.ms()),
                &who,
                &format!("after {took}"),
            );
            page.answer(INDENT, &answer.text);
        }
        None => now(message, page),
    }
}

/// Where it is, and why, in one line.
fn now(message: &MessageView, page: &mut Page) {
    if message.requests.iter().any(|one| one.state == "open") {
        return;
    }
    let look = match message.phase.as_str() {
        phase if phase == Phase::WaitingForYou.as_str() => YELLOW,
        phase if phase == Phase::Failed.as_str() => BOLD,
        _ => DIM,
    };
    page.line(
        INDENT,
        &format!("{}: {}", message.phase, without_phase(&message.why.now)),
        look,
    );
}
