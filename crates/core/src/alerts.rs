//! What receivers of alerts are sent, derived from rows: questions that wait, messages that a person must look at, and
//! tasks that have ended.
//!
//! Nothing is queued beside the rows: a daemon that was killed finds again what was not noticed.

use crate::limits::ALERT_AGE_MS;
use crate::port::{Read, RowsError, readable};
use crate::task_events::Timeline;
use crate::value::{
    Alert, AlertKind, AlertState, AlertSubject, ConversationId, Message, MessageId, MessageState,
    Receiver, RequestId, StateName, TaskId, Timestamp,
};

/// How a subject stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertEvent {
    pub subject: AlertSubject,
    pub conversation_id: ConversationId,
    /// The message that it is about; the newest of a task.
    pub message_id: MessageId,
    /// Its stable name within the subject.
    pub mark: String,
    pub at: Timestamp,
    /// `asked`, `settled`, `dead`, `parked`, or how the task ended.
    pub word: &'static str,
    /// What Codex or a sender wrote of it, on one line or on many: nothing of it is in a hint.
    pub headline: String,
}

impl AlertEvent {
    /// How it stands now; `None` where nobody need be alerted, or its rows are gone.
    pub fn load(rows: &dyn Read, subject: &AlertSubject) -> Result<Option<Self>, RowsError> {
        match subject.kind {
            AlertKind::Question => question(rows, subject),
            AlertKind::Failure => failure(rows, subject),
            AlertKind::Task => task_end(rows, subject),
        }
    }

    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.mark == Alert::SETTLED
    }

    /// The end of a question whose rows are gone.
    #[must_use]
    pub fn settled(alert: &Alert) -> Self {
        Self {
            subject: alert.subject.clone(),
            conversation_id: alert.conversation_id.clone(),
            message_id: MessageId::new(""),
            mark: Alert::SETTLED.to_owned(),
            at: alert.created_at,
            word: Alert::SETTLED,
            headline: String::new(),
        }
    }

    fn of(subject: &AlertSubject, message: &Message, mark: String, word: &'static str) -> Self {
        Self {
            subject: subject.clone(),
            conversation_id: message.conversation_id.clone(),
            message_id: message.message_id.clone(),
            mark,
            at: message.life.updated_at,
            word,
            headline: String::new(),
        }
    }
}

fn question(rows: &dyn Read, subject: &AlertSubject) -> Result<Option<AlertEvent>, RowsError> {
    let request = readable(rows.request(&RequestId::new(&*subject.id)))?.flatten();
    let Some(request) = request else {
        return Ok(None);
    };
    let Some(message) = readable(rows.message(&request.message_id))?.flatten() else {
        return Ok(None);
    };
    let mark = match request.state.waits() {
        true => Alert::ASKED,
        false => Alert::SETTLED,
    };
    Ok(Some(AlertEvent {
        at: request.created_at,
        headline: request.headline,
        ..AlertEvent::of(subject, &message, mark.to_owned(), mark)
    }))
}

fn failure(rows: &dyn Read, subject: &AlertSubject) -> Result<Option<AlertEvent>, RowsError> {
    let message = readable(rows.message(&MessageId::new(&*subject.id)))?.flatten();
    Ok(message.and_then(|message| {
        let (MessageState::Dead { reason } | MessageState::Parked { reason, .. }) =
            &message.life.state
        else {
            return None;
        };
        let word = message.life.state.name().as_str();
        // One that fails again after a retry is alerted again.
        let mark = format!("{word}/{}", message.life.updated_at.0);
        Some(AlertEvent {
            headline: reason.clone(),
            ..AlertEvent::of(subject, &message, mark, word)
        })
    }))
}

fn task_end(rows: &dyn Read, subject: &AlertSubject) -> Result<Option<AlertEvent>, RowsError> {
    let task_id = TaskId::new(&*subject.id);
    let timeline = readable(Timeline::load(rows, &task_id))?.flatten();
    Ok(timeline.and_then(|timeline| {
        timeline.end()?;
        let summary = timeline.view.task.start.as_ref()?.prompt_summary.clone();
        let last = &timeline.view.messages.last()?.message;
        // A task that went on ends again.
        let mark = format!("end/{}", last.message_id);
        let word = timeline.view.state().control().as_str();
        Some(AlertEvent {
            headline: summary,
            ..AlertEvent::of(subject, last, mark, word)
        })
    }))
}

/// What there may be to tell of a message.
pub fn subjects_of(
    rows: &dyn Read,
    message_id: &MessageId,
    receivers: &[Receiver],
) -> Result<Vec<AlertSubject>, RowsError> {
    let Some(message) = readable(rows.message(message_id))?.flatten() else {
        return Ok(Vec::new());
    };
    let mut subjects = Vec::new();
    for standing in rows.standings(message_id)? {
        let subject = AlertSubject {
            kind: AlertKind::Question,
            id: standing.request_id.to_string(),
        };
        // A message may have many that were settled long ago.
        if standing.state.waits() || is_known(rows, receivers, &subject)? {
            subjects.push(subject);
        }
    }
    if needs_a_person(message.life.state.name()) {
        subjects.push(AlertSubject {
            kind: AlertKind::Failure,
            id: message_id.to_string(),
        });
    }
    // A task ends with a message that ends, and every other change of it is read for nothing.
    let may_end_a_task = !message.life.state.name().awaits_answer();
    if may_end_a_task && let Some(task_id) = rows.task_of_message(message_id)? {
        subjects.push(AlertSubject {
            kind: AlertKind::Task,
            id: task_id.to_string(),
        });
    }
    Ok(subjects)
}

/// Whether a message in this state waits for somebody, or was given up.
fn needs_a_person(state: StateName) -> bool {
    matches!(state, StateName::Dead | StateName::Parked)
}

fn is_known(
    rows: &dyn Read,
    receivers: &[Receiver],
    subject: &AlertSubject,
) -> Result<bool, RowsError> {
    for receiver in receivers {
        if rows.alert(&receiver.receiver_id, subject)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The alerts that are to be written for these subjects, new ones and those that go on.
pub fn noticed(
    rows: &dyn Read,
    receivers: &[Receiver],
    subjects: &[AlertSubject],
    now: Timestamp,
) -> Result<Vec<Alert>, RowsError> {
    let mut noticed = Vec::new();
    for subject in subjects {
        let event = AlertEvent::load(rows, subject)?;
        let is_of_task = match &event {
            Some(event) if event.word == StateName::Dead.as_str() => {
                rows.started_task(&event.conversation_id)?.is_some()
            }
            Some(_) | None => false,
        };
        for receiver in receivers {
            // The failed end of a task is sent as that, once.
            let sent_as_task = is_of_task && receiver.about.contains(&AlertKind::Task);
            if !receiver.about.contains(&subject.kind) || sent_as_task {
                continue;
            }
            let known = rows.alert(&receiver.receiver_id, subject)?;
            noticed.extend(next(receiver, event.as_ref(), known, now));
        }
    }
    Ok(noticed)
}

fn next(
    receiver: &Receiver,
    event: Option<&AlertEvent>,
    known: Option<Alert>,
    now: Timestamp,
) -> Option<Alert> {
    let Some(known) = known else {
        let oldest = receiver.created_at.max(now.plus_ms(-ALERT_AGE_MS));
        let event = event.filter(|event| !event.is_settled() && event.at >= oldest)?;
        return Some(fresh(receiver, event, now));
    };
    match event {
        Some(event) if event.mark == known.mark => None,
        Some(event) if !event.is_settled() => {
            let is_under_way = known.state == AlertState::Sending;
            (!is_under_way).then(|| fresh(receiver, event, now))
        }
        Some(_) | None => taken_back(known),
    }
}

fn fresh(receiver: &Receiver, event: &AlertEvent, now: Timestamp) -> Alert {
    Alert {
        receiver_id: receiver.receiver_id.clone(),
        subject: event.subject.clone(),
        conversation_id: event.conversation_id.clone(),
        mark: event.mark.clone(),
        state: AlertState::Waiting { not_before: None },
        summed: false,
        tries: 0,
        first_try_at: None,
        tried_at: None,
        created_at: now,
    }
}

/// What is shown of a question that was settled disappears. One that is not sent yet is looked at when it would be.
fn taken_back(known: Alert) -> Option<Alert> {
    (known.state == AlertState::Shown).then(|| known.settle())
}

impl Alert {
    /// The same question, to be taken back.
    #[must_use]
    pub fn settle(self) -> Self {
        Self {
            mark: Self::SETTLED.to_owned(),
            state: AlertState::Waiting { not_before: None },
            tries: 0,
            first_try_at: None,
            ..self
        }
    }
}
