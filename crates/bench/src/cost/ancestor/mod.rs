//! The ancestor's algorithm as a program, rebuilt from its description and its tests: one row of the inbox after the
//! other, one `codex exec` for each, its stdout as the reply, then the ack. Measured under the same faults as the
//! bridge, so it is given every doubt: the form of `resume` that works, a closed stdin, notices for failed runs.
//! Nothing here is mended beyond that.

mod inbox;
mod runner;
mod sessions;

use crate::args::Ancestor;
use anyhow::Context;
use inbox::{Inbox, Row, Said};
use runner::{Run, Runner};
use sessions::Sessions;
use std::collections::BTreeSet;
use std::time::Duration;

/// Pauses after a poll that failed, from and to; doubled each time.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Runs until it is killed, or whoever started it is gone.
pub(crate) async fn run(args: Ancestor) -> anyhow::Result<()> {
    // A bench that is ended leaves nobody behind who polls for ever.
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    let mut daemon = Daemon {
        inbox: Inbox::new(&args.platform).context("make a client")?,
        runner: Runner::new(args.codex),
        sessions: Sessions::read(args.state.join("sessions.json"))?,
        unpopped: BTreeSet::new(),
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
    /// Replied to, and the ack failed: not run again while this process lives, as its tests promise.
    unpopped: BTreeSet<String>,
}

impl Daemon {
    async fn dispatch(&mut self, row: Row) -> anyhow::Result<()> {
        if !self.unpopped.contains(&row.row) {
            let session = self.sessions.get(&row.conversation);
            let run = self.runner.run(&row.text, session).await?;
            if let Some(session) = &run.session {
                self.sessions.set(&row.conversation, session)?;
            }
            if let Err(error) = self.inbox.reply(&row, &said(run)).await {
                eprintln!("reply to {}: {error:#}; it comes again", row.row);
                return Ok(());
            }
        }
        match self.inbox.pop(&row.row).await {
            Ok(()) => {
                self.unpopped.remove(&row.row);
            }
            Err(error) => {
                eprintln!("ack of {}: {error:#}", row.row);
                self.unpopped.insert(row.row);
            }
        }
        Ok(())
    }
}

/// What is said for a run: a failure is said as well, and counts as a notice.
fn said(run: Run) -> Said {
    match run.exit {
        0 if run.text.is_empty() => Said::Notice("(codex returned empty output)".to_owned()),
        0 => Said::Answer(run.text),
        exit => Said::Notice(format!("{}\n(codex exit={exit})", run.text)),
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
        assert_eq!(said(run("done", 0)), Said::Answer("done".to_owned()));
        assert!(matches!(said(run("", 0)), Said::Notice(_)));
        assert!(matches!(said(run("half", -9)), Said::Notice(text) if text.contains("exit=-9")));
    }
}
