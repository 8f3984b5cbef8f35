//! Codex dies after a command has changed the world and before it has written that down: the effect is not repeated.
//!
//! A sweep, because the instants that matter are a few milliseconds wide: each round kills Codex a little later
//! after the effect became visible.

use crate::stand::{SOCKET, STDIO, Setup, Stand};
use crate::world::{gone, kill_9, within};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Rounds of one sweep.
const ROUNDS: u32 = 8;
/// How often the effect is looked for, and how much later each round kills.
const TICK: Duration = Duration::from_micros(400);

/// Waits until the working directory of the one conversation holds this line.
async fn visible(stand: &Stand, line: &str) -> PathBuf {
    let work = stand.world.state_dir().join("work");
    let found = || {
        let directory = std::fs::read_dir(&work).ok()?.next()?.ok()?.path();
        let log = directory.join("log.txt");
        let text = std::fs::read_to_string(&log).ok()?;
        text.lines().any(|known| known == line).then_some(log)
    };
    let mut look = tokio::time::interval(TICK);
    within("an effect", async {
        loop {
            look.tick().await;
            if let Some(log) = found() {
                return log;
            }
        }
    })
    .await
}

/// Whether Codex's own record says that the command with this word has ended.
fn is_recorded(home: &Path, word: &str) -> bool {
    let mut open = vec![home.join("sessions")];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let ended = |line: &str| {
                    line.contains("function_call_output") || line.contains("exec_command_end")
                };
                let mut after = text.lines().skip_while(|line| !line.contains(word));
                if after.any(ended) {
                    return true;
                }
            }
        }
    }
    false
}

async fn sweep(setup: Setup) {
    let stand = Stand::new(setup).await;
    let daemon = stand.world.daemon().await;
    let mut unrecorded = 0;
    for round in 0..ROUNDS {
        let line = format!("round-{round}");
        let gate = format!("gate-{round}");
        // A conversation keeps its directory, so all rounds are counted in one file.
        let row = stand.post(
            "a",
            &format!("append:log.txt:{line} ;; hold:{gate} echo:done {round}"),
        );
        visible(&stand, &line).await;
        let mut later = tokio::time::interval(TICK);
        for _ in 0..round {
            later.tick().await;
        }
        let codex = stand.world.codex_pid();
        kill_9(codex);
        gone(codex).await;
        unrecorded += u32::from(!is_recorded(&stand.world.codex_home(), &line));
        stand.world.model.release(&gate);
        stand.settled(row).await;
        assert_eq!(stand.answers(row), 1, "round {round}");
    }
    let log = visible(&stand, "round-0").await;
    let done = std::fs::read_to_string(log).unwrap();
    for round in 0..ROUNDS {
        let line = format!("round-{round}");
        let times = done.lines().filter(|known| *known == line).count();
        assert_eq!(times, 1, "round {round} was done {times} times:\n{done}");
    }
    eprintln!("{unrecorded} of {ROUNDS} effects were not on Codex's disk when it died");
    assert!(
        unrecorded > 0,
        "the sweep never met the instant that matters"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn codex_kill_never_repeats_effect_over_socket() {
    sweep(SOCKET).await;
}

#[tokio::test]
async fn codex_kill_never_repeats_effect_over_pipes() {
    sweep(STDIO).await;
}
