//! What the demo shows: two conversations side by side, memory, a command in the sandbox, a platform, a
//! question, and a crash.

use super::stage::Stage;
use super::{asking, say};
use crate::client::DemoClient;
use bridge_daemon::term::{Paint, escape};
use std::time::Duration;

/// How long one message of the demo may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// The gate that a message waits at while Codex is killed.
const GATE: &str = "crash";

pub(super) async fn tell<C: DemoClient>(stage: &Stage<C>, paint: Paint) -> anyhow::Result<()> {
    say("");
    say(
        "The model is scripted: what stands behind `echo:`, `shell:` or `remember:` tells it what to do.",
    );
    chapter(
        paint,
        "1. Two conversations at the same time, one Codex process",
    );
    tokio::try_join!(
        converse(
            stage,
            paint,
            "alice",
            "My favourite colour is teal. echo:Noted: teal."
        ),
        converse(
            stage,
            paint,
            "bob",
            "Which files are here? shell:touch hello.txt; ls -la ;; echo:One file: hello.txt."
        ),
    )?;
    chapter(paint, "2. A conversation remembers, and only its own");
    converse(stage, paint, "alice", "What did I tell you? remember:").await?;
    converse(stage, paint, "bob", "And what did I tell you? remember:").await?;
    chapter(
        paint,
        "3. A Molecule platform: a person at the canvas and a peer agent write at the same time",
    );
    tokio::try_join!(
        stage
            .molecule
            .canvas_says(paint, "Is the build green? echo:It is green."),
        stage
            .molecule
            .scout_says(paint, "What do you know? echo:Only what you told me."),
    )?;
    chapter(
        paint,
        "4. A task wants to leave its sandbox: it asks, and a person says yes",
    );
    asking::tell(stage, paint).await?;
    chapter(
        paint,
        "5. Codex is killed in the middle of a turn (kill -9)",
    );
    crash(stage, paint).await
}

fn chapter(paint: Paint, title: &str) {
    say("");
    say(&paint.bold(title));
}

/// Sends a message and prints its answer.
async fn converse<C: DemoClient>(
    stage: &Stage<C>,
    paint: Paint,
    who: &str,
    text: &str,
) -> anyhow::Result<()> {
    say(&format!("  {} {}", paint.cyan(&format!("{who}:")), text));
    let answer = stage.client.send(who, text, PATIENCE).await?;
    say(&format!(
        "  {} {}",
        paint.green(&format!("codex to {who}:")),
        escape(&answer)
    ));
    Ok(())
}

async fn crash<C: DemoClient>(stage: &Stage<C>, paint: Paint) -> anyhow::Result<()> {
    let kill = async {
        stage.model.wait_held(GATE).await?;
        stage.kill_codex()?;
        say(&format!("  {}", paint.yellow("Codex is dead. The message is on disk; the bridge starts Codex again, looks what became of the turn, and continues it.")));
        stage.model.release(GATE);
        anyhow::Ok(())
    };
    let text = format!("A long job. hold:{GATE} echo:Finished, in spite of the crash.");
    tokio::try_join!(converse(stage, paint, "alice", &text), kill)?;
    Ok(())
}
