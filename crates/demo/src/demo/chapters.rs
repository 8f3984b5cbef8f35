//! The chapters of the demo: two conversations side by side, memory, a command in the sandbox, a platform, an approval
//! request, and a crash.

use super::say;
use super::setup::DemoSetup;
use crate::DemoClient;
use anyhow::{Context, bail};
use bridge_daemon::term::{Paint, escape};
use bridge_front::StartArgs;
use std::time::Duration;

/// How long one message of the demo may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// The gate that a message waits at while Codex is killed.
const GATE: &str = "crash";
/// What is made outside the sandbox, once it is allowed.
const MADE: &str = "published";

pub(super) async fn play<C: DemoClient>(setup: &DemoSetup<C>, paint: Paint) -> anyhow::Result<()> {
    say("");
    say("The model is scripted: what stands behind `echo:`, `shell:` or `remember:`");
    say("tells it what to do.");
    chapter(
        paint,
        "1. Two conversations at the same time, one Codex process",
    );
    tokio::try_join!(
        converse(
            setup,
            paint,
            "alice",
            "My favourite colour is teal. echo:Noted: teal."
        ),
        converse(
            setup,
            paint,
            "bob",
            "Which files are here? shell:touch hello.txt; ls -la ;; echo:One file: hello.txt."
        ),
    )?;
    chapter(paint, "2. A conversation remembers, and only its own");
    converse(setup, paint, "alice", "What did I tell you? remember:").await?;
    converse(setup, paint, "bob", "And what did I tell you? remember:").await?;
    chapter(
        paint,
        "3. A Molecule platform: a person and a peer agent write at the same time",
    );
    tokio::try_join!(
        setup
            .platform
            .canvas_says(paint, "Is the build green? echo:It is green."),
        setup
            .platform
            .scout_says(paint, "What do you know? echo:Only what you told me."),
    )?;
    chapter(
        paint,
        "4. A task wants to leave its sandbox: it asks, and a person says yes",
    );
    ask_approval(setup, paint).await?;
    chapter(
        paint,
        "5. Codex is killed in the middle of a turn (kill -9)",
    );
    crash(setup, paint).await
}

pub(super) fn chapter(paint: Paint, title: &str) {
    say("");
    say(&paint.bold(title));
}

/// Sends a message and prints its answer.
async fn converse<C: DemoClient>(
    setup: &DemoSetup<C>,
    paint: Paint,
    who: &str,
    text: &str,
) -> anyhow::Result<()> {
    say(&format!("  {} {}", paint.cyan(&format!("{who}:")), text));
    let answer = setup.client.send(who, text, PATIENCE).await?;
    say(&format!(
        "  {} {}",
        paint.green(&format!("codex to {who}:")),
        escape(&answer)
    ));
    Ok(())
}

/// A task wants to leave its sandbox, asks, and goes on once it is allowed to.
async fn ask_approval<C: DemoClient>(setup: &DemoSetup<C>, paint: Paint) -> anyhow::Result<()> {
    let prompt = format!("Publish it. escal:touch {MADE} ;; echo:Published, after you said yes.");
    let directory = setup.project("project")?;
    say(&format!("  {} {prompt}", paint.cyan("codex-bridge start:")));
    let terms = StartArgs {
        prompt,
        cwd: Some(directory.display().to_string()),
        ..StartArgs::default()
    };
    let task = setup.client.start_task(&terms).await?;
    let you = paint.cyan("you:");
    let say_yes = |code: &str| say(&format!("  {you} codex-bridge approve {code}"));
    let watched = setup.client.watch_task(&task, say_yes);
    let ended = tokio::time::timeout(PATIENCE, watched)
        .await
        .context("the task took too long")??;
    let answer = ended.context("the task has no answer")?;
    if !directory.join(MADE).exists() {
        bail!("what was allowed was not done");
    }
    say(&format!(
        "  {} {}",
        paint.green(&format!("codex, {task}:")),
        escape(&answer)
    ));
    Ok(())
}

async fn crash<C: DemoClient>(setup: &DemoSetup<C>, paint: Paint) -> anyhow::Result<()> {
    let kill = async {
        setup.model.wait_held(GATE).await?;
        setup.kill_codex()?;
        for line in [
            "Codex is dead. The message is on disk: the bridge starts Codex again,",
            "looks what became of the turn, and continues it.",
        ] {
            say(&format!("  {}", paint.yellow(line)));
        }
        setup.model.release(GATE);
        anyhow::Ok(())
    };
    let text = format!("A long job. hold:{GATE} echo:Finished, in spite of the crash.");
    tokio::try_join!(converse(setup, paint, "alice", &text), kill)?;
    Ok(())
}
