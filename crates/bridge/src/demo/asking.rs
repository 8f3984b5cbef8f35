//! The chapter about control: a task wants to leave its sandbox, asks, and goes on when somebody said yes.

use super::say;
use super::stage::Stage;
use super::story::PATIENCE;
use crate::client::{ApiClient, ClientError, Target, Watcher, start_task};
use crate::term::{Paint, escape};
use anyhow::{Context, bail};
use bridge_front::StartArgs;
use std::time::Duration;

/// What is made outside the sandbox, once it is allowed.
const MADE: &str = "published";
/// How often it is looked whether the task asks something.
const LOOK_EVERY: Duration = Duration::from_millis(50);

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

/// Waits until a task asks something, and accepts it; gives its code. Whoever calls sets the bound.
async fn approve_when_asked(client: &ApiClient, task: &str) -> Result<String, ClientError> {
    loop {
        let open = client.open_requests().await?;
        let mut own = open
            .iter()
            .filter(|question| question.task_id.as_deref() == Some(task));
        if let Some(question) = own.next() {
            client.decide(&question.request_id, "accept", None).await?;
            return Ok(question.handle().to_owned());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
