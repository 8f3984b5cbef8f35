//! The database of the older `codex_bridge` tool is taken over once per file: its tasks become finished ones here, so
//! that their ids still answer. The file itself is left as it is.

use crate::Daemon;
use crate::process::ids;
use crate::turn::files::blocking;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_core::secrets::Secrets;
use bridge_core::step::{ImportTasks, Imported, OldTask};
use bridge_core::value::ChannelId;
use bridge_store::read_old_tasks;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Begins the mark of a file that was taken over; its path follows.
const MARK: &str = "import:tasks:";
/// What begins the id of a task, and how long one may be.
const ID_PREFIX: &str = "codex-";
const ID_MAX_CHARS: usize = 64;

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Takes over the tasks of these files. A file that can't be read is named in the log, and looked at again at the
    /// next start.
    pub(crate) async fn import_tasks(
        self: &Arc<Self>,
        files: &[PathBuf],
    ) -> Result<(), LedgerError> {
        for file in files {
            self.import_tasks_of(file).await?;
        }
        Ok(())
    }

    async fn import_tasks_of(self: &Arc<Self>, file: &Path) -> Result<(), LedgerError> {
        // Most machines never had the older tool: nothing is asked of the ledger there.
        if matches!(tokio::fs::try_exists(file).await, Ok(false)) {
            return Ok(());
        }
        let mark = ChannelId::new(format!("{MARK}{}", file.display()));
        let looked_for = mark.clone();
        let before = self.ledger.read(move |rows| rows.cursor(&looked_for));
        if before.await?.is_some() {
            return Ok(());
        }
        let shown = crate::term::escape_line(&file.display().to_string()).into_owned();
        let named = file.to_owned();
        let read = blocking(move || read_old_tasks(&named)).await;
        let refused = |why: &str| {
            let why = crate::term::escape_line(why).into_owned();
            tracing::warn!(
                file = shown,
                why,
                "the older tool's tasks can't be taken over; their ids stay unknown here"
            );
        };
        let tasks = match read {
            Ok(Ok(Some(tasks))) => tasks,
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => {
                refused(&error.to_string());
                return Ok(());
            }
            Err(failure) => {
                refused(&failure.reason);
                return Ok(());
            }
        };
        let secrets = self.settings().start.secret_registry.secrets();
        let (tasks, odd): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|it| is_id(&it.task_id));
        if !odd.is_empty() {
            let count = odd.len();
            tracing::warn!(
                file = shown,
                count,
                "old tasks are left out: their ids are none of the older tool's"
            );
        }
        let tasks = tasks.into_iter().map(|task| {
            let task = redacted(task, &secrets);
            (ids::conversation_id(), ids::message_id(), task)
        });
        let import = ImportTasks {
            mark,
            from: file.display().to_string(),
            tasks: tasks.collect(),
        };
        if let Imported::Now { taken, known } = self.commit(import).await? {
            tracing::info!(
                file = shown,
                taken,
                known,
                "tasks of the older codex_bridge tool are here as finished ones"
            );
        }
        Ok(())
    }
}

fn is_id(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    id.strip_prefix(ID_PREFIX)
        .is_some_and(|rest| !rest.is_empty() && rest.chars().all(plain))
        && id.len() <= ID_MAX_CHARS
}

/// The texts of a task are Codex's words, so known secrets are taken out of them as out of all others.
fn redacted(mut task: OldTask, secrets: &Secrets) -> OldTask {
    let texts = [
        &mut task.prompt_summary,
        &mut task.last_progress,
        &mut task.final_summary,
        &mut task.error_summary,
        &mut task.notification_error,
    ];
    for text in texts.into_iter().flatten() {
        *text = secrets.redact(text).text;
    }
    for event in &mut task.events {
        event.summary = secrets.redact(&event.summary).text;
    }
    task
}
