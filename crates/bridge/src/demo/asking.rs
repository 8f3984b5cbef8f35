//! The chapter about control: a task wants to leave its sandbox, asks, and goes on when somebody said yes.

use super::say;
use super::stage::Stage;
use super::story::PATIENCE;
use crate::client::{Target, Watcher, approve_when_asked, start_task};
use crate::term::{Paint, escape};
use anyhow::{Context, bail};
use bridge_front::StartArgs;

/// What is made outside the sandbox, once it is allowed.
const MADE: &str = "published";

pub(super) async fn tell(stage: &Stage, paint: Paint) -> anyhow::Result<()> {
    let prompt = format!("Publish it. escal:touch {MADE} ;; echo:Published, after you said yes.");
    let directory = stage.project()?;
    say(&format!("  {} {prompt}", paint.cyan("codex-bridge start:")));
    let terms = StartArgs {
        prompt,
        cwd: Some(directory.display().to_string()),
        ..StartArgs::default()
    };
    let task = start_task(&stage.client, &terms).await?;
    let mut watcher = Watcher::who_reads(&stage.client, Target::Task(task.clone()), stage.no_color);
    let told = async {
        let (watched, approved) = tokio::join!(
            watcher.until_its_end(),
            approve_when_asked(&stage.client, &task)
        );
        let code = approved?;
        say(&format!(
            "  {} codex-bridge approve {code}",
            paint.cyan("you:")
        ));
        anyhow::Ok(watched?)
    };
    let ended = tokio::time::timeout(PATIENCE, told)
        .await
        .context("the task took too long")??;
    let answer = ended.answer.context("the task has no answer")?;
    if !directory.join(MADE).exists() {
        bail!("what was allowed was not done");
    }
    say(&format!(
        "  {} {}",
        paint.green(&format!("codex, {task}:")),
        escape(&answer.text)
    ));
    Ok(())
}
