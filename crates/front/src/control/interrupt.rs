//! Interrupt: ends every message of a task that has no answer, and waits until the rows say that its turn is over.

use super::rows::{TaskRows, TaskSubject};
use super::service::{ActionResult, TaskOutcome};
use super::{Caller, ControlError, ControlErrorKind, TaskService};
use crate::live::MessageUpdates;
use crate::service::BridgeService;
use crate::task_view::TaskReply;
use bridge_core::deadline::after;
use bridge_core::limits::STOP_MAX;
use bridge_core::step::Cancel;
use bridge_core::value::{Message, StateName};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// How long a caller waits for Codex: longer than the watchdog gives a turn before it ends the process.
const WAIT: Duration = Duration::from_secs(20);
/// Interval at which rows are read without an update.
const POLL_EVERY: Duration = Duration::from_secs(1);

impl<D: BridgeService> TaskService<D> {
    pub(crate) async fn interrupt(&self, caller: &Caller, task_id: &str) -> ActionResult {
        let subject = self.subject(task_id).await?;
        let open = self.open_of(&subject).await?;
        if open.is_empty() {
            let rows = self.look(task_id).await?;
            let said = format!(
                "Task has no active Codex turn to interrupt. It is {}.",
                rows.status().as_str()
            );
            return Err(ControlError::new(ControlErrorKind::Refused, said));
        }
        let over = self.stop_all(caller, &subject, open).await?;
        let rows: TaskRows = self.look(task_id).await?;
        let (word, message) = if over {
            ("cancelled", "Codex has stopped.")
        } else {
            (
                "stopping",
                "Codex was asked to stop and has not confirmed it yet; ask for the status.",
            )
        };
        Ok(TaskOutcome::of(&rows).map(|reply| TaskReply {
            interrupt: Some(word.to_owned()),
            ..reply.with_message(message)
        }))
    }

    /// What of it has no answer and may get one.
    async fn open_of(&self, subject: &TaskSubject) -> Result<Vec<Message>, ControlError> {
        let subject = subject.clone();
        let open = self.service.read(move |rows| match subject {
            TaskSubject::Task(task) => rows.unanswered_of(&task.conversation_id, STOP_MAX),
            TaskSubject::Message(message_id) => {
                let message = rows.message(&message_id)?;
                let open = message.filter(|message| message.life.state.name().awaits_answer());
                Ok(open.into_iter().collect())
            }
        });
        Ok(open.await?)
    }

    /// Stops what is open until nothing is; `false` when it takes too long. What waited behind the running turn goes
    /// first, or it would begin when that one ends.
    async fn stop_all(
        &self,
        caller: &Caller,
        subject: &TaskSubject,
        mut open: Vec<Message>,
    ) -> Result<bool, ControlError> {
        let deadline = after(Instant::now(), WAIT);
        let mut updates = MessageUpdates::new(self.service.hub());
        while let Some(first) = open.first() {
            updates.follow(std::slice::from_ref(&first.message_id));
            for message in open.iter().rev() {
                if message.life.stop.is_none() {
                    self.stop(caller, message).await?;
                }
            }
            // What ended at once is not waited for.
            open = self.open_of(subject).await?;
            if open.is_empty() {
                return Ok(true);
            }
            let changed = timeout(POLL_EVERY, updates.changed());
            if timeout_at(deadline, changed).await.is_err() {
                return Ok(false);
            }
            open = self.open_of(subject).await?;
        }
        Ok(true)
    }

    async fn stop(&self, caller: &Caller, message: &Message) -> Result<(), ControlError> {
        // The leader of a steered message is stopped; after that it waits again, and is stopped as one that waits.
        if message.life.state.name() == StateName::Steered {
            return Ok(());
        }
        let (message_id, by) = (message.message_id.clone(), caller.actor());
        // The rows are read again, whatever the outcome.
        self.service.commit(Cancel { message_id, by }).await?;
        Ok(())
    }
}
