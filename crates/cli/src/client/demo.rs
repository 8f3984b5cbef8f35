//! The client that the commands of `bridge_demo` use: the same code as behind `send`, `start` and `watch`.

use super::api::ApiClient;
use super::ask::{AskMode, Asker};
use super::console::owner_address;
use super::control::start_task;
use super::find::short;
use super::screen::{OutputStream, Screen};
use super::send::{SendOptions, submit};
use super::watch::{FollowOutcome, WatchLines, WatchTarget, Watcher};
use anyhow::{Context, bail};
use bridge_core::deadline::after;
use bridge_daemon::state::StateDir;
use bridge_demo::DemoClient;
use bridge_front::StartArgs;
use std::path::Path;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How long the daemon may take to store a message.
const SUBMIT_PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct ApiDemoClient {
    api: ApiClient,
    no_color: bool,
}

impl ApiDemoClient {
    fn options(&self, conversation: &str, text: &str, patience: Duration) -> SendOptions {
        SendOptions {
            text: text.to_owned(),
            conversation: conversation.to_owned(),
            cwd: None,
            model: None,
            sandbox: None,
            files: Vec::new(),
            wait: Some(patience),
            json: false,
            quiet: false,
            raw: false,
            no_color: self.no_color,
        }
    }
}

impl DemoClient for ApiDemoClient {
    fn connect(state_dir: &Path, no_color: bool) -> anyhow::Result<Self> {
        let api = ApiClient::new(StateDir::existing(state_dir))?;
        Ok(Self { api, no_color })
    }

    async fn send(
        &self,
        conversation: &str,
        text: &str,
        patience: Duration,
    ) -> anyhow::Result<String> {
        let options = self.options(conversation, text, patience);
        let mut screen = Screen::new(OutputStream::Stderr, self.no_color);
        let deadline = after(Instant::now(), patience);
        let submitted = submit(&self.api, &options, deadline, &mut screen).await?;
        let message_id = submitted.message_id;
        let asker = Asker::new(&self.api, AskMode::Silent);
        let lines = WatchLines::named(&format!("  {conversation}"));
        let mut watcher = Watcher::of_message(asker, &message_id, screen, Some(lines));
        watcher.note(&format!("message {} is on disk", short(&message_id)));
        let outcome = watcher.follow(deadline).await?;
        watcher.clear();
        match outcome {
            FollowOutcome::Answered(message) => {
                let answer = message
                    .answer
                    .context("an answered message has an answer")?;
                Ok(answer.text)
            }
            FollowOutcome::Unanswered(message) | FollowOutcome::Held(message) => {
                bail!("{}", message.why.now)
            }
            FollowOutcome::StillWorking => bail!("message {message_id} took too long"),
        }
    }

    async fn submit(&self, conversation: &str, text: &str) -> anyhow::Result<()> {
        let options = self.options(conversation, text, SUBMIT_PATIENCE);
        let mut screen = Screen::new(OutputStream::Stderr, self.no_color);
        let deadline = after(Instant::now(), SUBMIT_PATIENCE);
        submit(&self.api, &options, deadline, &mut screen).await?;
        Ok(())
    }

    async fn console(&self) -> anyhow::Result<String> {
        owner_address(&self.api).await
    }

    async fn start_task(&self, args: &StartArgs) -> anyhow::Result<String> {
        Ok(start_task(&self.api, args).await?)
    }

    async fn watch_task(
        &self,
        task_id: &str,
        say_yes: impl FnOnce(&str),
    ) -> anyhow::Result<Option<String>> {
        let target = WatchTarget::Task(task_id.to_owned());
        let (shown, asked) = oneshot::channel();
        let mut watcher = Watcher::without_prompt(&self.api, target, self.no_color, shown);
        // It owns the watcher: a task that asks nothing drops `shown`, and nobody waits for it any more.
        let watched = async move {
            let ended = watcher.until_its_end().await;
            watcher.clear();
            ended
        };
        let accepted = async {
            let Ok(request) = asked.await else {
                return Ok(());
            };
            say_yes(request.handle());
            let decided = self.api.decide(&request.request_id, "accept", None).await;
            decided.map(|_| ())
        };
        let (ended, ()) = tokio::try_join!(watched, accepted)?;
        Ok(ended.answer.map(|answer| answer.text))
    }
}
