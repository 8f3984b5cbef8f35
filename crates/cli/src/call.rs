//! `codex-bridge call`: asks another agent over A2A from the command line, without a daemon. How agents are talked to is
//! `bridge_channel::a2a::client`'s; here it only meets a person.

use crate::cli::CallArgs;
use crate::client::{EXIT_INTERRUPTED, EXIT_LATER, EXIT_STOPPED, Failed, print_json};
use anyhow::{Context, bail};
use bridge_channel::a2a::client::{
    AgentAnswer, AgentCallError, AgentClient, AgentFile, AgentQuestion, AgentTaskState, AnswerWait,
    CallProgress, FileLocation, RemoteCall, Trust,
};
use bridge_daemon::term::{self, Paint, escape, escape_line};
use schemars::JsonSchema;
use serde::Serialize;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;
use uuid::Uuid;

/// Asks, shows how it goes on stderr, and prints the answer on stdout.
pub(crate) async fn run(args: CallArgs, text: String, no_color: bool) -> anyhow::Result<ExitCode> {
    let mut interrupted = pin!(term::interrupted());
    let (patience, json) = (patience(&args), args.json);
    let show = CallOutput {
        paint: Paint::stderr(no_color),
        quiet: args.quiet,
    };
    let hint = if private_would_do(&args.url, args.allow_private) {
        "; here --allow-private does that"
    } else {
        ""
    };
    let begun = tokio::select! {
        begun = begin(args, text, &show) => begun,
        () = interrupted.as_mut() => {
            let failed = Failed::new("left", "left: the agent was not sent the message");
            return Err(failed.going_on(None, EXIT_INTERRUPTED).into());
        }
    };
    let mut ask = match begun {
        Ok(ask) => ask,
        Err(fault @ AgentCallError::Address(_)) => bail!("{fault}{hint}"),
        Err(fault) => bail!("{fault}"),
    };
    let mut watch = |progress: CallProgress<'_>| show.progress(&progress);
    let end = tokio::select! {
        ended = ask.run(patience, &mut watch) => Some(ended),
        () = interrupted => None,
    };
    match end {
        Some(Ok(outcome)) => report(&outcome, json, &show),
        Some(Err(fault @ AgentCallError::Late(_))) => {
            Err(goes_on(&ask, "not yet", &fault.to_string(), EXIT_LATER).into())
        }
        Some(Err(fault)) => bail!("{fault}"),
        None => Err(goes_on(&ask, "left", "left", EXIT_INTERRUPTED).into()),
    }
}

fn patience(args: &CallArgs) -> AnswerWait {
    if args.no_wait {
        AnswerWait::Taken
    } else {
        AnswerWait::For(Duration::from_secs(args.wait))
    }
}

/// Nothing is listed: a private address may be called, but no token goes there in the clear.
fn trust(private: bool) -> Trust {
    Trust {
        own: private,
        listed: Vec::new(),
    }
}

/// Whether the address is refused for what the flag is for, and for nothing else.
fn private_would_do(url: &str, allowed: bool) -> bool {
    let taken = |private| AgentClient::new(url, &trust(private), None).is_ok();
    !taken(allowed) && taken(true)
}

async fn begin(
    args: CallArgs,
    text: String,
    show: &CallOutput,
) -> Result<RemoteCall, AgentCallError> {
    let client = AgentClient::new(&args.url, &trust(args.allow_private), args.token_file)?;
    let peer = client.look_up().await?;
    show.line("→", peer.name());
    let mut question = AgentQuestion::new(text, Uuid::now_v7().to_string());
    question.context = args.context;
    question.task = args.task;
    Ok(RemoteCall::new(peer, question))
}

/// What a person sees meanwhile.
struct CallOutput {
    paint: Paint,
    quiet: bool,
}

impl CallOutput {
    fn line(&self, mark: &str, text: &str) {
        if !self.quiet {
            let text = self.paint.dim(&escape_line(text));
            term::complain(&format!("{} {text}", self.paint.cyan(mark)));
        }
    }

    fn progress(&self, progress: &CallProgress<'_>) {
        match progress {
            CallProgress::Task(task) => self.line("·", &format!("task {task}")),
            CallProgress::State(state, Some(said)) => {
                self.line("·", &format!("{}: {said}", state.as_str()));
            }
            CallProgress::State(state, None) => self.line("·", state.as_str()),
            // It is printed whole at the end.
            CallProgress::Text(_) => {}
            CallProgress::Lost(fault) => self.line("!", &fault.to_string()),
        }
    }
}

fn goes_on(ask: &RemoteCall, title: &'static str, why: &str, code: u8) -> Failed {
    let known = match ask.task() {
        Some(task) => format!("task {task} goes on there"),
        None => "the agent may have received it".to_owned(),
    };
    Failed::new(title, format!("{why}: {known}")).going_on(ask.task(), code)
}

fn report(outcome: &AgentAnswer, json: bool, show: &CallOutput) -> anyhow::Result<ExitCode> {
    let code = match outcome.state {
        AgentTaskState::Completed => ExitCode::SUCCESS,
        AgentTaskState::Failed | AgentTaskState::Rejected => ExitCode::FAILURE,
        AgentTaskState::Canceled => ExitCode::from(EXIT_STOPPED),
        AgentTaskState::Submitted
        | AgentTaskState::Working
        | AgentTaskState::InputRequired
        | AgentTaskState::AuthRequired
        | AgentTaskState::Unknown => ExitCode::from(EXIT_LATER),
    };
    if json {
        return print_json(&CallView::of(outcome), code);
    }
    print(outcome, show).context("the answer could not be printed")?;
    Ok(code)
}

fn print(outcome: &AgentAnswer, show: &CallOutput) -> std::io::Result<()> {
    if !outcome.text.is_empty() {
        term::print(&escape(&outcome.text))?;
    }
    for file in &outcome.files {
        show.line("+", &listed(file));
    }
    let stands = match (outcome.state, &outcome.remark) {
        (AgentTaskState::Completed, _) => None,
        (state, Some(remark)) => Some(format!("{}: {remark}", state.as_str())),
        (state, None) => Some(state.as_str().to_owned()),
    };
    if let Some(stands) = stands {
        term::complain(&escape(&stands));
    }
    if let Some(context) = &outcome.context {
        show.line("·", &format!("context {context}"));
    }
    if let Some(task) = answerable(outcome) {
        show.line("·", &format!("to answer it: --task {task}"));
    }
    Ok(())
}

/// The task that waits for our input. An authorisation on the other side is not ours to give.
fn answerable(outcome: &AgentAnswer) -> Option<&str> {
    let asks = outcome.state == AgentTaskState::InputRequired;
    outcome.task.as_deref().filter(|_| asks)
}

fn listed(file: &AgentFile) -> String {
    let name = file.name.as_deref().unwrap_or("a file");
    let kind = file.media_type.as_deref().unwrap_or("unknown type");
    match &file.place {
        FileLocation::Inline(size) => format!("{name} ({kind}, {size} characters of base64)"),
        FileLocation::Url(url) => format!("{name} ({kind}) at {url}"),
    }
}

/// What `call --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CallView {
    /// The state of the agent's task, in A2A's words.
    state: &'static str,
    /// Its answer.
    text: String,
    /// What it says beside the answer: a question, or why it failed.
    remark: Option<String>,
    files: Vec<CallFile>,
    /// Its task, for `--task`.
    task: Option<String>,
    /// Its context, for `--context`.
    context: Option<String>,
}

/// A file of an answer.
#[derive(Debug, Serialize, JsonSchema)]
struct CallFile {
    name: Option<String>,
    media_type: Option<String>,
    /// Its size, where it came with the answer.
    base64_chars: Option<usize>,
    /// Where it is, otherwise.
    url: Option<String>,
}

impl CallView {
    fn of(outcome: &AgentAnswer) -> Self {
        Self {
            state: outcome.state.as_str(),
            text: outcome.text.clone(),
            remark: outcome.remark.clone(),
            files: outcome.files.iter().map(CallFile::of).collect(),
            task: outcome.task.clone(),
            context: outcome.context.clone(),
        }
    }
}

impl CallFile {
    fn of(file: &AgentFile) -> Self {
        let (base64_chars, url) = match &file.place {
            FileLocation::Inline(size) => (Some(*size), None),
            FileLocation::Url(url) => (None, Some(url.clone())),
        };
        Self {
            name: file.name.clone(),
            media_type: file.media_type.clone(),
            base64_chars,
            url,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn private_flag_suggested_only_when_useful() {
        for private in [
            "http://agents.example/",
            "http://127.0.0.1:1",
            "https://10.0.0.1/",
        ] {
            assert!(private_would_do(private, false), "{private}");
            assert!(!private_would_do(private, true), "{private}");
        }
        for never in [
            "agents.example",
            "ftp://agents.example/",
            "https://user:word@agents.example/",
            "http://agents.example/#there",
            "https://agents.example/",
        ] {
            assert!(!private_would_do(never, false), "{never}");
        }
    }

    #[tokio::test]
    async fn no_token_over_plain_http() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "s3cret-s3cret").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let client = AgentClient::new("http://192.0.2.1:9/", &trust(true), Some(file)).unwrap();
        let refused = client.look_up().await.unwrap_err();
        assert!(matches!(refused, AgentCallError::Token(_)), "{refused}");
    }

    #[test]
    fn only_input_required_task_is_answerable() {
        let outcome = |state| AgentAnswer {
            state,
            text: String::new(),
            remark: None,
            files: Vec::new(),
            task: Some("t".to_owned()),
            context: None,
        };
        assert_eq!(
            answerable(&outcome(AgentTaskState::InputRequired)),
            Some("t")
        );
        assert_eq!(answerable(&outcome(AgentTaskState::AuthRequired)), None);
    }
}
