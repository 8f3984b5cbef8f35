//! `lend` and `return`: a conversation in Codex's own terminal.

use super::api::{ApiClient, ClientError};
use super::find::{conversation_of, path_to};
use super::output::{EXIT_INTERRUPTED, EXIT_LATER, Failed, say};
use crate::cli::{LendArgs, OutputArgs, ReturnArgs};
use anyhow::Context;
use bridge_daemon::config::Environment;
use bridge_daemon::term::{escape, interrupted};
use bridge_front::{LendRequest, LendView, ReturnRequest, ReturnView, TerminalView};
use bridge_host::process::foreground;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// How often a running turn is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// How long the daemon may take to release a thread, or to take it back.
const LEND_DEADLINE: Duration = Duration::from_secs(90);
/// Tries to give a conversation back to a daemon that does not answer; then it ends by its time.
const RETURN_TRIES: u32 = 20;
/// Pause between two of them.
const RETURN_PAUSE: Duration = Duration::from_millis(500);
/// The API's status for what does not exist.
const NOT_FOUND: u16 = 404;

/// A loan that this command asked for.
struct Lender<'a> {
    client: &'a ApiClient,
    conversation: String,
    loan_id: String,
}

pub(crate) async fn lend(
    client: &ApiClient,
    args: &LendArgs,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let only_prints = args.print || args.output.json;
    let in_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !only_prints && !in_terminal {
        let said = "Codex's terminal needs a terminal: run this in one, or use --print";
        return Err(Failed::new("no terminal", said).into());
    }
    let mut lender = Lender {
        client,
        conversation: args.conversation.clone(),
        loan_id: Uuid::now_v7().to_string(),
    };
    let lent = tokio::select! {
        lent = lender.borrow(args) => lent,
        () = interrupted() => {
            lender.give_back().await;
            return Ok(ExitCode::from(EXIT_INTERRUPTED));
        }
    };
    let lent = match lent {
        Ok(Some(lent)) => lent,
        Ok(None) => {
            lender.give_back().await;
            return Ok(ExitCode::from(EXIT_LATER));
        }
        Err(error) => return Err(error),
    };
    let Some(terminal) = &lent.terminal else {
        return Err(Failed::new("not lent", lent.detail).into());
    };
    if only_prints {
        return args
            .output
            .show(&lent, ExitCode::SUCCESS, |lent| printed(lent, terminal));
    }
    let ran = run(terminal, environment).await;
    lender.give_back().await;
    let status = ran.context("start Codex's terminal")?;
    Ok(match status.code() {
        Some(0) => ExitCode::SUCCESS,
        Some(_) | None => ExitCode::FAILURE,
    })
}

impl Lender<'_> {
    /// Asks for the loan until it is ready; nothing when a turn runs for too long.
    async fn borrow(&mut self, args: &LendArgs) -> anyhow::Result<Option<LendView>> {
        let end = bridge_core::deadline::after(Instant::now(), Duration::from_secs(args.wait));
        let mut request = LendRequest {
            loan_id: self.loan_id.clone(),
            for_secs: Some(u64::from(args.minutes) * 60),
            strangers: args.yes,
        };
        let mut told = String::new();
        loop {
            let lent: LendView =
                post(self.client, &mut self.conversation, "lend", &request).await?;
            match lent.state.as_str() {
                "busy" => {}
                "stranger" => {
                    confirm(&lent)?;
                    request.strangers = true;
                    continue;
                }
                _ => return Ok(Some(lent)),
            }
            if lent.detail != told {
                say(&format!("{}: {}", lent.key, lent.detail));
                told = lent.detail;
            }
            if Instant::now() >= end {
                say("it was not lent: `codex-bridge stop` ends what runs, and --wait waits longer");
                return Ok(None);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Ends the loan, also when the daemon is just being started again.
    async fn give_back(&mut self) {
        let request = ReturnRequest {
            loan_id: Some(self.loan_id.clone()),
        };
        for _ in 0..RETURN_TRIES {
            let back: Result<ReturnView, ClientError> =
                post(self.client, &mut self.conversation, "return", &request).await;
            match back {
                Ok(back) => return say(&format!("{}: {}", back.key, back.detail)),
                // It ended already, or never began.
                Err(ClientError::Refused(_)) => return,
                Err(_) => sleep(RETURN_PAUSE).await,
            }
        }
        say(&format!(
            "the daemon does not answer; the loan ends by itself, or with `codex-bridge return {}`",
            self.conversation
        ));
    }
}

/// Calls a route of a conversation, which may be named by something in it.
async fn post<T: DeserializeOwned>(
    client: &ApiClient,
    conversation: &mut String,
    act: &str,
    request: &impl Serialize,
) -> Result<T, ClientError> {
    let path = path_to(&["v1", "conversations", conversation.as_str(), act])?;
    let answer = client.post_within(LEND_DEADLINE, &path, Some(request), None);
    match answer.await {
        Err(ClientError::Refused(problem)) if problem.status == NOT_FOUND => {
            *conversation = conversation_of(client, conversation).await?;
            let path = path_to(&["v1", "conversations", conversation.as_str(), act])?;
            client
                .post_within(LEND_DEADLINE, &path, Some(request), None)
                .await
        }
        answer => answer,
    }
}

/// Asks whether a stranger's conversation is opened; without a terminal the answer is no.
fn confirm(lent: &LendView) -> Result<(), Failed> {
    let warning = escape(&lent.detail).into_owned();
    let refused = |why: &str| {
        let said = format!("{} was not lent: {why}", lent.key);
        Err(Failed::new("not confirmed", said))
    };
    if !std::io::stdin().is_terminal() {
        return refused(&format!("{warning}; say --yes"));
    }
    let mut stderr = std::io::stderr().lock();
    let _closed = write!(stderr, "{warning}.\nOpen it? [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    match (read, answer.trim()) {
        (Ok(_), "y" | "Y" | "yes") => Ok(()),
        _ => refused("you did not say yes"),
    }
}

async fn run(
    terminal: &TerminalView,
    environment: &Environment,
) -> std::io::Result<std::process::ExitStatus> {
    let mut env = environment.for_terminal();
    env.retain(|(name, _)| name != CODEX_HOME);
    let home = terminal.codex_home.as_ref();
    env.extend(home.map(|home| (OsString::from(CODEX_HOME), OsString::from(home))));
    let program = Path::new(&terminal.program);
    let workdir = Path::new(&terminal.workdir);
    foreground::run_attended((program, &terminal.args), workdir, &env).await
}

/// Codex's own variable.
const CODEX_HOME: &str = "CODEX_HOME";

/// The command as a shell takes it, and what ends the loan.
fn printed(lent: &LendView, terminal: &TerminalView) -> String {
    let home = terminal.codex_home.as_deref();
    let home = home.map(|home| format!("CODEX_HOME={} ", quoted(home)));
    let words = std::iter::once(&terminal.program).chain(&terminal.args);
    let words: Vec<String> = words.map(|word| quoted(word)).collect();
    let command = format!(
        "cd {} && {}{}",
        quoted(&terminal.workdir),
        home.unwrap_or_default(),
        words.join(" ")
    );
    say(&format!(
        "{}: {}; `codex-bridge return {}` ends that. Run:",
        lent.key, lent.detail, lent.key
    ));
    escape(&command).into_owned()
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

pub(crate) async fn give_back(client: &ApiClient, args: &ReturnArgs) -> anyhow::Result<ExitCode> {
    let mut conversation = args.conversation.clone();
    let request = ReturnRequest::default();
    let back: ReturnView = post(client, &mut conversation, "return", &request).await?;
    let code = match back.state.as_str() {
        "returned" => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_LATER),
    };
    let output: OutputArgs = args.output;
    output.show(&back, code, |back| {
        escape(&format!("{}: {}", back.key, back.detail)).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_takes_quoted_words_as_they_are() {
        assert_eq!(quoted("--cd=/w/a-b"), "--cd=/w/a-b");
        assert_eq!(quoted("a=\"b\" $(c)"), "'a=\"b\" $(c)'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
