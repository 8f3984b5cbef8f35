//! Interrupt: everything of a task that has no answer ends. It is done when the rows say that the turn is over, and the
//! caller is told which it was.

use super::envelope::TaskEnvelope;
use super::rows::{Subject, TaskRows};
use super::service::{Done, shown, unavailable};
use super::{Caller, ControlError, ControlErrorKind, TaskService};
use crate::service::BridgeService;
use bridge_core::deadline::after;
use bridge_core::limits::STOP_MAX;
use bridge_core::port::Ledger;
use bridge_core::step::{Cancel, CancelOutcome};
use bridge_core::value::{Message, MessageId, StateName};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long a caller waits for Codex's word: longer than the watchdog gives a turn before its process goes.
const WAIT: Duration = Duration::from_secs(20);
/// How often the rows are looked at without news.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl<D: BridgeService> TaskService<D> {
    pub(super) async fn interrupt(&self, caller: &Caller, task_id: &str) -> Done {
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
                "Codex was told to stop and has not confirmed it yet; ask for the status.",
            )
        };
        let envelope = TaskEnvelope::of(&rows).with_message(message);
        shown(envelope.interrupted(word))
    }

    /// What of it has no answer and may get one.
    async fn open_of(&self, subject: &Subject) -> Result<Vec<Message>, ControlError> {
        let subject = subject.clone();
        let open = self.service.ledger().read(move |rows| match subject {
            Subject::Task(task) => rows.unanswered_of(&task.conversation_id, STOP_MAX),
            Subject::Message(message_id) => {
                let message = rows.message(&message_id)?;
                let open = message.filter(|message| message.life.state.name().awaits_answer());
                Ok(open.into_iter().collect())
            }
        });
        open.await.map_err(unavailable)
    }

    /// Stops what is open until nothing is; `false` when it takes too long. What waited behind the running turn goes
    /// first, or it would begin when that one ends.
    async fn stop_all(
        &self,
        caller: &Caller,
        subject: &Subject,
        mut open: Vec<Message>,
    ) -> Result<bool, ControlError> {
        let patience = after(Instant::now(), WAIT);
        while let Some(first) = open.first() {
            let mut news = self.service.hub().watch(&first.message_id);
            for message in open.iter().rev() {
                if message.life.stop.is_none() {
                    self.stop(caller, message).await?;
                }
            }
            let next = async {
                match &mut news {
                    Some(news) => drop(tokio::time::timeout(LOOK_EVERY, news.next()).await),
                    None => tokio::time::sleep(LOOK_EVERY).await,
                }
            };
            // What ended at once is not waited for.
            open = self.open_of(subject).await?;
            if open.is_empty() {
                return Ok(true);
            }
            if timeout_at(patience, next).await.is_err() {
                return Ok(false);
            }
            open = self.open_of(subject).await?;
        }
        Ok(true)
    }

    async fn stop(&self, caller: &Caller, message: &Message) -> Result<(), ControlError> {
        let message_id: MessageId = match &message.life.state {
            // Its leader is stopped; after that it waits again, and is met here as one that waits.
            state if state.name() == StateName::Steered => return Ok(()),
            _ => message.message_id.clone(),
        };
        let by = caller.actor();
        let stopped = self.service.commit(Cancel { message_id, by }).await;
        match stopped.map_err(unavailable)? {
            CancelOutcome::Cancelled
            | CancelOutcome::Stopping
            | CancelOutcome::Steered(_)
            | CancelOutcome::TooLate => Ok(()),
        }
    }
}
