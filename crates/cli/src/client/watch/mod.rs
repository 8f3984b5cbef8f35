//! `watch`: what happens to one message, one task or everything, as it happens, through restarts of the daemon; with
//! the questions of Codex, which a person at a terminal answers right there.

mod board;
mod news;

use super::api::{ApiClient, ClientError, checked};
use super::ask::{Asker, Mode, Scope};
use super::control::is_task;
use super::dead::failed;
use super::screen::{Screen, To};
use super::send::{
    EXIT_INTERRUPTED, EXIT_LATER, EXIT_STOPPED, LOOK_EVERY, RETRY_MAX, RETRY_MIN, leaving,
};
use super::show::print;
use super::sse::{SseEvent, SseReader};
use crate::cli::WatchArgs;
use board::Board;
pub(crate) use board::last_words;
use bridge_daemon::term;
use bridge_front::{MessageList, MessageView};
use news::News;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::Instant;

/// How long a daemon that is away is waited for.
const AWAY_MAX: Duration = Duration::from_secs(3600);
/// Messages that are told of when everything is watched, before the news.
const RUNNING_MAX: u32 = 100;

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    All,
    Message(String),
    Task(String),
}

impl Target {
    pub(crate) fn of(id: Option<&str>) -> Result<Self, ClientError> {
        Ok(match id {
            None => Self::All,
            Some(id) if is_task(id) => Self::Task(checked(id)?.to_owned()),
            Some(id) => Self::Message(checked(id)?.to_owned()),
        })
    }

    fn path(&self) -> String {
        match self {
            Self::All => "/v1/events".to_owned(),
            Self::Message(id) => format!("/v1/messages/{id}/events"),
            Self::Task(id) => format!("/v1/tasks/{id}/events"),
        }
    }

    fn id(&self) -> &str {
        match self {
            Self::All => "",
            Self::Message(id) | Self::Task(id) => id,
        }
    }
}

/// Where the news go.
enum Show {
    People(Board, Screen),
    Programs,
}

/// One who watches.
pub(crate) struct Watcher<'a> {
    client: &'a ApiClient,
    target: Target,
    show: Show,
    asker: Asker<'a>,
    scope: Scope,
    /// The newest event that was told.
    seen: Option<String>,
}

/// Runs the command.
pub(crate) async fn watch(client: &ApiClient, args: WatchArgs, no_color: bool) -> ExitCode {
    let target = match client
        .expect_daemon()
        .and_then(|()| Target::of(args.id.as_deref()))
    {
        Ok(target) => target,
        Err(error) => return failed(client, &error),
    };
    let interrupted = term::interrupted();
    let mut watcher = if args.json {
        Watcher::for_programs(client, target.clone())
    } else {
        Watcher::for_people(client, target.clone(), To::Stdout, no_color)
    };
    let watched = tokio::select! {
        watched = watcher.until_its_end() => watched,
        () = interrupted => {
            watcher.leave();
            return ExitCode::from(EXIT_INTERRUPTED);
        }
    };
    let paint = term::Paint::stdout(no_color);
    watcher.clear();
    match watched {
        Ok(message) if args.json => ending(&message),
        Ok(message) => print(&last_words(&message, paint), ending(&message)),
        Err(error) => failed(client, &error),
    }
}

/// The exit code that tells how a message ended.
pub(crate) fn ending(message: &MessageView) -> ExitCode {
    match (&message.answer, message.state.as_str()) {
        (Some(_), _) => ExitCode::SUCCESS,
        (None, "cancelled") => ExitCode::from(EXIT_STOPPED),
        (None, state) if is_over(state) => ExitCode::FAILURE,
        (None, _) => ExitCode::from(EXIT_LATER),
    }
}

impl<'a> Watcher<'a> {
    pub(crate) fn for_people(
        client: &'a ApiClient,
        target: Target,
        to: To,
        no_color: bool,
    ) -> Self {
        let screen = Screen::new(to, no_color);
        let asker = Asker::for_screen(client, &screen);
        let board = Board::new(target == Target::All);
        Self::new(client, target, Show::People(board, screen), asker)
    }

    /// For somebody who reads, and answers elsewhere.
    #[cfg(feature = "demo")]
    pub(crate) fn who_reads(client: &'a ApiClient, target: Target, no_color: bool) -> Self {
        let screen = Screen::new(To::Stdout, no_color);
        let asker = Asker::new(client, Mode::Tell);
        let board = Board::new(target == Target::All);
        Self::new(client, target, Show::People(board, screen), asker)
    }

    fn for_programs(client: &'a ApiClient, target: Target) -> Self {
        let nobody = Asker::new(client, Mode::Silent);
        Self::new(client, target, Show::Programs, nobody)
    }

    fn new(client: &'a ApiClient, target: Target, show: Show, asker: Asker<'a>) -> Self {
        let scope = match target {
            Target::All => Scope::All,
            Target::Message(_) | Target::Task(_) => Scope::Messages(BTreeSet::new()),
        };
        Self {
            client,
            target,
            show,
            asker,
            scope,
            seen: None,
        }
    }

    /// Says that the work goes on without us.
    pub(crate) fn leave(&mut self) {
        self.clear();
        let said = match self.target.id() {
            "" => "left; everything goes on".to_owned(),
            id => leaving(id),
        };
        term::complain(&term::escape(&said));
    }

    /// Takes away what is unfinished on the screen.
    pub(crate) fn clear(&mut self) {
        if let Show::People(_, screen) = &mut self.show {
            screen.retract();
        }
    }

    /// Watches until what is watched has ended or waits for somebody to act; everything never ends. A daemon that goes away is waited for.
    pub(crate) async fn until_its_end(&mut self) -> Result<MessageView, ClientError> {
        let mut away: Option<Instant> = None;
        let mut pause = RETRY_MIN;
        self.running_now().await?;
        loop {
            let lost = match self.stream(&mut away).await {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => None,
                Err(error) if error.may_pass() => Some(error),
                Err(error) => return Err(error),
            };
            match (away, lost) {
                (None, _) => {
                    self.warn("the stream of news ended; going on when the daemon is back (the work is safe)");
                    pause = RETRY_MIN;
                    away = Some(Instant::now());
                }
                (Some(since), Some(error)) if since.elapsed() > AWAY_MAX => return Err(error),
                (Some(_), _) => {}
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(RETRY_MAX);
        }
    }

    /// What runs already, when everything is watched.
    async fn running_now(&mut self) -> Result<(), ClientError> {
        if self.target != Target::All || matches!(self.show, Show::Programs) {
            return Ok(());
        }
        let path = format!("/v1/messages?limit={RUNNING_MAX}");
        let list: MessageList = self.client.get(&path).await?;
        for message in list.messages.into_iter().rev() {
            if !is_over(&message.state) {
                self.tell(&News::State(Box::new(message)));
            }
        }
        Ok(())
    }

    /// Reads one stream of news; `None` when it ended before what is watched did.
    async fn stream(
        &mut self,
        away: &mut Option<Instant>,
    ) -> Result<Option<MessageView>, ClientError> {
        let path = self.target.path();
        let mut stream = self.client.stream(&path, self.seen.as_deref()).await?;
        if away.take().is_some() {
            self.warn("the daemon is back; going on after what was told last");
        }
        self.look().await?;
        let mut reader = SseReader::default();
        loop {
            let chunk = tokio::select! {
                chunk = stream.chunk() => chunk,
                line = self.asker.typed() => {
                    if let Show::People(_, screen) = &mut self.show {
                        self.asker.take(line, screen).await;
                    }
                    continue;
                }
                () = tokio::time::sleep(LOOK_EVERY), if self.asker.is_asking() => {
                    self.look().await?;
                    continue;
                }
            };
            let Ok(Some(chunk)) = chunk else {
                return Ok(None);
            };
            let events = reader.feed(&chunk);
            let events = events.ok_or_else(|| broken("it is no stream of events"))?;
            for event in events {
                if let Some(message) = self.heard(&event).await? {
                    return Ok(Some(message));
                }
            }
        }
    }

    async fn heard(&mut self, event: &SseEvent) -> Result<Option<MessageView>, ClientError> {
        if !event.id.is_empty() {
            self.seen = Some(event.id.clone());
        }
        if matches!(self.show, Show::Programs) {
            let data: Value = serde_json::from_str(&event.data).unwrap_or(Value::Null);
            let line = json!({ "event": event.name, "id": event.id, "data": data });
            if let Err(error) = term::print(&line.to_string()) {
                return Err(broken(&format!("it could not be printed: {error}")));
            }
        }
        let news =
            News::read(event, self.target.id()).map_err(|error| broken(&error.to_string()))?;
        if let (Scope::Messages(ids), Some(id)) = (&mut self.scope, news.message_id()) {
            ids.insert(id.to_owned());
        }
        let news = self.with_its_end(news).await;
        self.tell(&news);
        match news {
            News::End(message) if self.target != Target::All => return Ok(Some(*message)),
            // It goes on only when somebody acts.
            News::State(message) if self.target != Target::All && !message.worth_waiting => {
                return Ok(Some(*message));
            }
            news if news.may_ask() => self.look().await?,
            _ => {}
        }
        Ok(None)
    }

    /// The stream of everything says that a message ended; people want to know how.
    async fn with_its_end(&self, news: News) -> News {
        match &news {
            News::Moved {
                message_id, state, ..
            } if is_over(state) && matches!(self.show, Show::People(..)) => {
                match self.client.message(message_id).await {
                    Ok(story) => News::End(Box::new(story.message)),
                    Err(_) => news,
                }
            }
            _ => news,
        }
    }

    fn tell(&mut self, news: &News) {
        if let Show::People(board, screen) = &mut self.show {
            board.show(news, screen);
        }
    }

    async fn look(&mut self) -> Result<(), ClientError> {
        match &mut self.show {
            Show::People(_, screen) => self.asker.look(&self.scope, screen).await,
            Show::Programs => Ok(()),
        }
    }

    fn warn(&mut self, text: &str) {
        match &mut self.show {
            Show::People(_, screen) => {
                let line = screen.paint().yellow(text);
                screen.lines(&[line]);
            }
            Show::Programs => term::complain(text),
        }
    }
}

fn is_over(state: &str) -> bool {
    matches!(state, "done" | "dead" | "cancelled")
}

fn broken(why: &str) -> ClientError {
    ClientError::Unreadable(format!("the news: {why}"))
}
