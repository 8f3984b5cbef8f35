//! The chapter about control: a task wants to leave its sandbox, asks, and goes on when somebody said yes.

use super::say;
use super::stage::Stage;
use super::story::PATIENCE;
use crate::client::DemoClient;
use anyhow::{Context, bail};
use bridge_daemon::term::{Paint, escape};
use bridge_front::StartArgs;
use std::time::Duration;

/// What is made outside the sandbox, once it is allowed.
const MADE: &str = "published";
/// How often it is looked whether the task asks something.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) async fn tell<C: DemoClient>(stage: &Stage<C>, paint: Paint) -> anyhow::Result<()> {
    let prompt = format!("Publish it. escal:touch {MADE} ;; echo:Published, after you said yes.");
    let directory = stage.project()?;
    say(&format!("  {} {prompt}", paint.cyan("codex-bridge start:")));
    let terms = StartArgs {
        prompt,
        cwd: Some(directory.display().to_string()),
        ..StartArgs::default()
    };
    let task = stage.client.start_task(&terms).await?;
    let told = async {
        let (watched, approved) = tokio::join!(
            stage.client.watch_task(&task),
            approve_when_asked(&stage.client, &task)
        );
        let code = approved?;
        say(&format!(
            "  {} codex-bridge approve {code}",
            paint.cyan("you:")
        ));
        watched
    };
    let ended = tokio::time::timeout(PATIENCE, told)
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

/// Waits until a task asks something, and accepts it; gives its code. Whoever calls sets the bound.
async fn approve_when_asked<C: DemoClient>(client: &C, task: &str) -> anyhow::Result<String> {
    loop {
        if let Some(code) = client.accept_request(task).await? {
            return Ok(code);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
