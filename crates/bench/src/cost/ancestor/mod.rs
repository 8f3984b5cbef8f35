//! The ancestor's algorithm as a program, rebuilt from its description and its tests: one row of the inbox after the
//! other, one `codex exec` for each, its stdout as the reply, then the ack. Measured under the same faults as the
//! bridge, so it is given every doubt: the form of `resume` that works, a closed stdin, notices for failed runs.
//! Nothing here is mended beyond that.

mod inbox;
mod runner;
mod sessions;

use crate::args::Ancestor;
use anyhow::Context;
use bridge_sim::{NEW, NEW_SAYS};
use inbox::{Inbox, Row};
use runner::{Run, Runner};
use sessions::Sessions;
use std::time::Duration;

pub(crate) use inbox::Served;

/// Pauses after a poll that failed, from and to; doubled each time.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Runs until it is killed, or whoever started it is gone.
pub(crate) async fn run(args: Ancestor) -> anyhow::Result<()> {
    // A bench that is ended leaves nobody behind who polls for ever.
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    let mut daemon = Daemon {
        inbox: Inbox::new(
            &args.platform,
            args.workspace,
            args.state.join("popped.json"),
        )
        .context("make a client")?,
        runner: Runner::new(args.codex),
        sessions: Sessions::read(args.state.join("sessions.json"))?,
    };
    let (first, most) = BACKOFF;
    let mut pause = first;
    loop {
        match daemon.inbox.wait_for_message().await {
            Ok(row) => {
                pause = first;
                if let Some(row) = row {
                    daemon.dispatch(row).await?;
                }
            }
            Err(error) => {
                eprintln!("poll: {error:#}; again in {} s", pause.as_secs());
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(most);
            }
        }
    }
}

struct Daemon {
    inbox: Inbox,
    runner: Runner,
    sessions: Sessions,
}

impl Daemon {
    async fn dispatch(&mut self, row: Row) -> anyhow::Result<()> {
        let said = if row.text == NEW {
            self.sessions.forget(row.conversation())?;
            NEW_SAYS.to_owned()
        } else {
            let session = self.sessions.get(row.conversation());
            let run = self.runner.run(&row.text, session).await?;
            if let Some(session) = &run.session {
                self.sessions.set(row.conversation(), session)?;
            }
            said(run)
        };
        match self.inbox.reply(&row, &said).await {
            Ok(()) => self.inbox.pop(row),
            Err(error) => {
                eprintln!("reply: {error:#}; the message comes again");
                Ok(())
            }
        }
    }
}

/// What is said for a run: a failure is said as well, in words that are no answer.
fn said(run: Run) -> String {
    match run.exit {
        0 if run.text.is_empty() => "(codex returned empty output)".to_owned(),
        0 => run.text,
        exit => format!("{}\n(codex exit={exit})", run.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_successful_nonempty_runs_are_answers() {
        let run = |text: &str, exit| Run {
            text: text.to_owned(),
            session: None,
            exit,
        };
        assert_eq!(said(run("done", 0)), "done");
        assert!(said(run("", 0)).contains("empty output"));
        assert!(said(run("half", -9)).contains("exit=-9"));
    }
}
