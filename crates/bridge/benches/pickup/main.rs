//! How soon a message of a Molecule canvas is picked up: from its row being stored to the daemon having claimed it, with
//! the platform's events and by polling alone; and how long it takes until the answer is seen.
//!
//! `cargo xtask bench` runs it: the release build, the real Codex, a scripted model that answers at once. Nothing
//! passes or fails here.

mod stage;
mod table;

use stage::Stage;
use std::process::ExitCode;
use std::time::Duration;
use table::{Row, Times};

/// How often the feed is read; the daemon's default.
const POLL: Duration = Duration::from_secs(5);
/// The longest pause before a message where the platform's events wake the daemon.
const REST: Duration = Duration::from_secs(1);
/// Steps through the pauses, so that neighbours are not alike; it must share no factor with the numbers of messages.
const STRIDE: u32 = 7;

/// One way to pick messages up, and to write them.
struct Mode {
    name: &'static str,
    /// Whether the platform's events wake the daemon.
    wake: bool,
    messages: u32,
    /// The longest pause between an answer and the next message; the pauses are spread evenly below it, because a
    /// message that always comes at the same time after a look would measure that time.
    pause: Duration,
}

/// What is measured; `quick` is for seeing that it works.
fn modes(quick: bool) -> [Mode; 3] {
    let messages = |all: u32| if quick { all / 4 } else { all };
    [
        Mode {
            name: "events, at once after the last answer",
            wake: true,
            messages: messages(40),
            pause: Duration::ZERO,
        },
        Mode {
            name: "events, up to 1 s after it",
            wake: true,
            messages: messages(40),
            pause: REST,
        },
        Mode {
            name: "polling every 5 s only",
            wake: false,
            messages: messages(16),
            pause: POLL,
        },
    ]
}

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let asked = |word: &str| given.iter().any(|arg| arg == word);
    if !asked("--bench") {
        println!("measures only under `cargo xtask bench`");
        return ExitCode::SUCCESS;
    }
    match measure(asked("--quick")) {
        Ok(rows) => {
            println!("{}", table::show(&rows));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(quick: bool) -> anyhow::Result<Vec<Row>> {
    let runtime = tokio::runtime::Runtime::new()?;
    let mut rows = Vec::new();
    for mode in modes(quick) {
        eprintln!("{}: {} messages", mode.name, mode.messages);
        let times = runtime.block_on(play(&mode))?;
        rows.push(Row {
            name: mode.name,
            wake: mode.wake,
            times,
        });
    }
    Ok(rows)
}

async fn play(mode: &Mode) -> anyhow::Result<Times> {
    let mut stage = Stage::set(mode.wake, POLL).await?;
    let played = write(&mut stage, mode).await;
    let stopped = stage.strike().await;
    let times = played?;
    stopped?;
    Ok(times)
}

async fn write(stage: &mut Stage, mode: &Mode) -> anyhow::Result<Times> {
    stage.says("echo:the first starts the thread").await?;
    let mut times = Times::default();
    for number in 0..mode.messages {
        let step = number.wrapping_mul(STRIDE) % mode.messages;
        tokio::time::sleep(mode.pause * step / mode.messages).await;
        let taken = stage.says(&format!("echo:message {number}")).await?;
        times.claimed.push(taken.claimed);
        times.seen.push(taken.seen);
    }
    Ok(times)
}
