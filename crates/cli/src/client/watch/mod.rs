//! `watch`: follows one message, one task or everything through restarts of the daemon. A person at a terminal answers
//! Codex's approval requests right there.

mod event;
mod lines;

use super::api::{ApiClient, ClientError, RETRY_MAX, RETRY_MIN};
use super::ask::{ApprovalView, AskMode, Asker, RequestFilter};
use super::find::{Target, resolve};
use super::output::{
    EXIT_INTERRUPTED, EXIT_LATER, EXIT_STOPPED, Failed, print, print_line, say, shown_id,
};
use super::page::{PLAIN, Page};
use super::screen::{OutputStream, Screen, TICK};
use super::sse::SseEvent;
use super::work::answer_text;
use crate::cli::WatchArgs;
use bridge_core::deadline::after;
use bridge_daemon::term;
use bridge_front::{MessageList, MessageView};
pub(crate) use event::WatchEvent;
pub(crate) use lines::{WatchLines, event_words, last_words, without_phase};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, interval_at, timeout_at};

/// How long a daemon that is away is waited for.
const AWAY_MAX: Duration = Duration::from_secs(3600);
/// How often open requests are read while one is on the screen, besides on events.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Running messages that are shown first when everything is watched.
const RUNNING_MAX: u32 = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WatchTarget {
    All,
    Message(String),
    Task(String),
}

impl WatchTarget {
    /// What is named; everything without a name.
    async fn find(client: &ApiClient, reference: Option<&str>) -> Result<Self, ClientError> {
        let Some(reference) = reference else {
            return Ok(Self::All);
        };
        Ok(match resolve(client, reference).await? {
            Target::Message(id) => Self::Message(id),
            Target::Task(id) => Self::Task(id),
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

/// What `watch --json` prints, on one line each.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WatchLine {
    /// `state`, `item`, `text`, `diff`, `output`, `request`, `end`, `ready` or `reset`.
    event: String,
    /// Where it is in the stream; empty for what may be lost.
    id: String,
    /// What is told: the message with `state` and `end` of one message or task, something small otherwise.
    data: Value,
}

/// Where events are shown.
enum WatchOutput {
    People(WatchLines, Screen),
    /// A screen for requests and warnings alone.
    Quiet(Screen),
    Programs,
}

impl WatchOutput {
    fn screen(&mut self) -> Option<&mut Screen> {
        match self {
            Self::People(_, screen) | Self::Quiet(screen) => Some(screen),
            Self::Programs => None,
        }
    }
}

/// How waiting for a message ended.
#[derive(Clone, Debug)]
pub(crate) enum FollowOutcome {
    Answered(Box<MessageView>),
    /// It is finished without an answer.
    Unanswered(Box<MessageView>),
    /// It waits for something that will not come by itself soon.
    Held(Box<MessageView>),
    /// The time to wait is over; it is worked on all the same.
    StillWorking,
}

/// Follows the events of a target.
pub(crate) struct Watcher<'a> {
    target: WatchTarget,
    output: WatchOutput,
    asker: Asker<'a>,
    filter: RequestFilter,
    /// Id of the newest event that was shown.
    seen: Option<String>,
}

/// Runs `watch`.
pub(crate) async fn watch(
    client: &ApiClient,
    args: WatchArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    client.expect_daemon()?;
    let target = WatchTarget::find(client, args.id.as_deref()).await?;
    let interrupted = term::interrupted();
    let mut watcher = if args.json {
        Watcher::for_programs(client, target.clone())
    } else {
        let mut watcher =
            Watcher::for_people(client, target.clone(), OutputStream::Stdout, no_color);
        watcher.with_times();
        watcher
    };
    let watched = tokio::select! {
        watched = watcher.until_its_end() => watched,
        () = interrupted => {
            // The end of a stream is no failure.
            return watcher.left(false);
        }
    };
    watcher.clear();
    let message = watched?;
    if args.json {
        return Ok(ending(&message));
    }
    match &message.answer {
        Some(answer) => print(
            &answer_text(&answer.text, false, no_color),
            ending(&message),
        ),
        None => {
            let (title, words) = last_words(&message);
            let mut page = Page::stdout(no_color);
            let title = format!("{} ", page.paint.red(title));
            page.hang(&title, 0, &words, PLAIN);
            print(page.into_text().trim_end(), ending(&message))
        }
    }
}

/// The exit code for how a message ended.
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
        target: WatchTarget,
        to: OutputStream,
        no_color: bool,
    ) -> Self {
        let screen = Screen::new(to, no_color);
        let asker = Asker::for_screen(client, &screen);
        let lines = WatchLines::new(target == WatchTarget::All);
        Self::new(target, WatchOutput::People(lines, screen), asker)
    }

    fn with_times(&mut self) {
        if let WatchOutput::People(lines, _) = &mut self.output {
            lines.with_times();
        }
    }

    /// Shows requests without a prompt, and gives the first one to `shown`.
    #[cfg(feature = "demo")]
    pub(crate) fn without_prompt(
        client: &'a ApiClient,
        target: WatchTarget,
        no_color: bool,
        shown: tokio::sync::oneshot::Sender<ApprovalView>,
    ) -> Self {
        let mut watcher = Self::for_people(client, target, OutputStream::Stdout, no_color);
        watcher.asker = Asker::new(client, AskMode::Show);
        watcher.asker.tell_first(shown);
        if let Some(screen) = watcher.output.screen() {
            screen.keep_still();
        }
        watcher
    }

    /// Follows one message on a screen; without `lines` only requests and warnings are shown.
    pub(crate) fn of_message(
        asker: Asker<'a>,
        message_id: &str,
        screen: Screen,
        lines: Option<WatchLines>,
    ) -> Self {
        let output = match lines {
            Some(lines) => WatchOutput::People(lines, screen),
            None => WatchOutput::Quiet(screen),
        };
        Self::new(WatchTarget::Message(message_id.to_owned()), output, asker)
    }

    fn for_programs(client: &'a ApiClient, target: WatchTarget) -> Self {
        let asker = Asker::new(client, AskMode::Silent);
        Self::new(target, WatchOutput::Programs, asker)
    }

    fn new(target: WatchTarget, output: WatchOutput, asker: Asker<'a>) -> Self {
        let filter = match &target {
            WatchTarget::All => RequestFilter::All,
            WatchTarget::Message(id) => RequestFilter::Messages([id.clone()].into()),
            WatchTarget::Task(_) => RequestFilter::Messages(BTreeSet::new()),
        };
        Self {
            target,
            output,
            asker,
            filter,
            seen: None,
        }
    }

    /// Says that the work goes on: to people on stderr, to programs that wait for one value as a failure.
    pub(crate) fn left(&mut self, json: bool) -> anyhow::Result<ExitCode> {
        if !json {
            self.leave();
            return Ok(ExitCode::from(EXIT_INTERRUPTED));
        }
        self.clear();
        let id = self.target.id();
        let failed = Failed::new("left", self.leaving(false));
        Err(failed.going_on(Some(id), EXIT_INTERRUPTED).into())
    }

    fn leaving(&self, for_people: bool) -> String {
        match self.target.id() {
            "" => "left; everything goes on".to_owned(),
            id => {
                let id = shown_id(id, for_people);
                format!(
                    "left; {id} goes on: `codex-bridge watch {id}` shows it again, `codex-bridge stop {id}` stops it"
                )
            }
        }
    }

    /// Says that the work goes on, and what waits for a decision meanwhile.
    fn leave(&mut self) {
        self.clear();
        let width = OutputStream::Stderr.width();
        let said = self.leaving(width.is_some());
        let now = jiff::Timestamp::now().as_millisecond();
        let open = self.asker.open().map(|request| {
            let open = request.waits_for_you(now);
            format!("waiting for you: {open}")
        });
        for line in std::iter::once(said).chain(open) {
            say(&line);
        }
    }

    /// What Codex asks in the watched work now, as far as it can be known.
    pub(crate) async fn waits_for_you(&mut self) -> Vec<String> {
        let now = jiff::Timestamp::now().as_millisecond();
        let words = |request: &ApprovalView| request.waits_for_you(now);
        match self.asker.client.open_requests().await {
            Ok(open) => {
                let own = open.iter().filter(|request| self.filter.matches(request));
                own.map(words).collect()
            }
            Err(_) => self.asker.open().map(words).collect(),
        }
    }

    pub(crate) fn client(&self) -> &'a ApiClient {
        self.asker.client
    }

    /// How long it has been watched.
    pub(crate) fn elapsed(&mut self) -> Duration {
        let screen = self.output.screen();
        screen.map_or(Duration::ZERO, |screen| screen.elapsed())
    }

    /// Says that it is done, and what it took.
    pub(crate) fn done(&mut self, spent: &str) {
        if let Some(screen) = self.output.screen() {
            let paint = screen.paint();
            let line = format!("{} {}", paint.green("✓"), paint.dim(spent));
            screen.lines(&[line]);
        }
    }

    /// Removes the unfinished line.
    pub(crate) fn clear(&mut self) {
        if let Some(screen) = self.output.screen() {
            screen.clear();
        }
    }

    /// Follows a message until it ends or waits for a person, at most until `deadline`.
    pub(crate) async fn follow(&mut self, deadline: Instant) -> Result<FollowOutcome, ClientError> {
        let Ok(watched) = timeout_at(deadline, self.until_its_end()).await else {
            return Ok(FollowOutcome::StillWorking);
        };
        let message = Box::new(watched?);
        Ok(match &message.answer {
            _ if !is_over(&message.state) => FollowOutcome::Held(message),
            None => FollowOutcome::Unanswered(message),
            Some(answer) => {
                if answer.source == "shared" {
                    self.note("answered together with the message whose turn took it");
                }
                FollowOutcome::Answered(message)
            }
        })
    }

    /// A remark of our own, unless it is quiet.
    pub(crate) fn note(&mut self, text: &str) {
        if let WatchOutput::People(lines, screen) = &mut self.output {
            let (paint, width) = (screen.paint(), screen.width());
            let lines = lines.marked(self.target.id(), "→", text, paint, width);
            screen.lines(&lines);
        }
    }

    /// Watches until the target has ended or waits for a person; watching everything never ends. Waits for a daemon
    /// that went away.
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
                    let what = match self.target {
                        WatchTarget::Message(_) => "message",
                        WatchTarget::Task(_) | WatchTarget::All => "work",
                    };
                    self.warn(&format!(
                        "the daemon went away; waiting for it to come back (the {what} is safe)"
                    ));
                    self.live("waiting for the daemon");
                    pause = RETRY_MIN;
                    away = Some(Instant::now());
                }
                (Some(since), Some(error)) if since.elapsed() > AWAY_MAX => return Err(error),
                (Some(_), _) => {}
            }
            let _over = timeout_at(after(Instant::now(), pause), self.tick()).await;
            pause = pause.saturating_mul(2).min(RETRY_MAX);
        }
    }

    /// Lets the clock run, for ever.
    async fn tick(&mut self) {
        loop {
            tokio::time::sleep(TICK).await;
            if let Some(screen) = self.output.screen() {
                screen.tick();
            }
        }
    }

    fn live(&mut self, text: &str) {
        if let WatchOutput::People(_, screen) = &mut self.output {
            screen.live(text);
        }
    }

    /// Shows what runs already, when everything is watched.
    async fn running_now(&mut self) -> Result<(), ClientError> {
        if self.target != WatchTarget::All || matches!(self.output, WatchOutput::Programs) {
            return Ok(());
        }
        let path = format!("/v1/messages?limit={RUNNING_MAX}");
        let list: MessageList = self.asker.client.get(&path).await?;
        let mut running = list.messages;
        running.retain(|message| !is_over(&message.state));
        self.note(&match running.len() {
            0 => "watching everything; nothing runs now (Ctrl-C leaves)".to_owned(),
            1 => "watching everything; one message is under way (Ctrl-C leaves)".to_owned(),
            many => format!("watching everything; {many} messages are under way (Ctrl-C leaves)"),
        });
        for message in running.into_iter().rev() {
            self.show(&WatchEvent::State(Box::new(message)));
        }
        Ok(())
    }

    /// Reads one stream of events; `None` when it ended before the target did.
    async fn stream(
        &mut self,
        away: &mut Option<Instant>,
    ) -> Result<Option<MessageView>, ClientError> {
        let path = self.target.path();
        let mut stream = self
            .asker
            .client
            .stream(&path, self.seen.as_deref())
            .await?;
        if away.take().is_some() {
            self.warn("the daemon is back; going on after the last event");
        }
        self.look().await?;
        let mut ticks = tokio::time::interval(TICK);
        let mut looks = interval_at(after(Instant::now(), LOOK_EVERY), LOOK_EVERY);
        loop {
            let event = tokio::select! {
                event = stream.next() => event?,
                line = self.asker.typed() => {
                    if let Some(screen) = self.output.screen() {
                        self.asker.take(line, screen).await;
                    }
                    continue;
                }
                _ = looks.tick(), if self.asker.is_asking() => {
                    self.look().await?;
                    continue;
                }
                _ = ticks.tick() => {
                    if let Some(screen) = self.output.screen() {
                        screen.tick();
                    }
                    continue;
                }
            };
            let Some(event) = event else {
                return Ok(None);
            };
            if let Some(message) = self.on_event(&event).await? {
                return Ok(Some(message));
            }
        }
    }

    async fn on_event(&mut self, event: &SseEvent) -> Result<Option<MessageView>, ClientError> {
        if !event.id.is_empty() {
            self.seen = Some(event.id.clone());
        }
        if matches!(self.output, WatchOutput::Programs) {
            let line = WatchLine {
                event: event.name.clone(),
                id: event.id.clone(),
                data: serde_json::from_str(&event.data).unwrap_or(Value::Null),
            };
            print_line(&line).map_err(|error| broken(&format!("{error:#}")))?;
        }
        let event = WatchEvent::read(event, self.target.id())
            .map_err(|error| broken(&error.to_string()))?;
        if let (RequestFilter::Messages(ids), Some(id)) = (&mut self.filter, event.message_id()) {
            ids.insert(id.to_owned());
        }
        let event = self.with_its_end(event).await;
        if event.is_request() {
            // The box says it all; only a request that has none gets a line.
            self.look().await?;
        }
        let own = match &event {
            WatchEvent::Item { event, .. } => self.asker.is_own_decision(&event.text),
            _ => false,
        };
        let in_box = event.is_request() && self.asker.is_asking();
        if !own && !in_box {
            self.show(&event);
        }
        match event {
            WatchEvent::End(message) if self.target != WatchTarget::All => {
                return Ok(Some(*message));
            }
            // It waits for a person. Of a task, a message that is over is not yet the end.
            WatchEvent::State(message)
                if self.target != WatchTarget::All
                    && !message.worth_waiting
                    && !is_over(&message.state) =>
            {
                return Ok(Some(*message));
            }
            event if event.may_ask() && !event.is_request() => self.look().await?,
            _ => {}
        }
        Ok(None)
    }

    /// Loads how a message ended: the stream of everything only says that it did.
    async fn with_its_end(&self, event: WatchEvent) -> WatchEvent {
        match &event {
            WatchEvent::Moved {
                message_id, state, ..
            } if is_over(state) && matches!(self.output, WatchOutput::People(..)) => {
                match self.asker.client.message(message_id).await {
                    Ok(story) => WatchEvent::End(Box::new(story.message)),
                    Err(_) => event,
                }
            }
            _ => event,
        }
    }

    fn show(&mut self, event: &WatchEvent) {
        if let WatchOutput::People(lines, screen) = &mut self.output {
            lines.show(event, screen);
        }
    }

    async fn look(&mut self) -> Result<(), ClientError> {
        match self.output.screen() {
            Some(screen) => self.asker.look(&self.filter, screen).await,
            None => Ok(()),
        }
    }

    fn warn(&mut self, text: &str) {
        match self.output.screen() {
            Some(screen) => screen.warn(text),
            None => say(text),
        }
    }
}

fn is_over(state: &str) -> bool {
    matches!(state, "done" | "dead" | "cancelled")
}

fn broken(why: &str) -> ClientError {
    ClientError::Unreadable(format!("the news: {why}"))
}
