//! What an alert says. A hint holds our own words and ids alone; a headline also the first line of what Codex or a sender
//! wrote, made harmless.

use super::notification::{Note, Notification};
use bridge_core::alerts::AlertEvent;
use bridge_core::find::short_id;
use bridge_core::limits::clip;
use bridge_core::show;
use bridge_core::step::AlertDelivery;
use bridge_core::value::{AlertDetail, AlertKind, MessageId, ReceiverId, RequestId};
use serde::Serialize;
use serde_json::json;

/// Longest headline.
const HEADLINE_MAX_CHARS: usize = 200;
/// Stands for the id of what a summary is about.
const SUMMARY_ID: &str = "summary";

/// An alert, as browsers and programs get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct AlertPayload {
    /// `question`, `failure` or `task`; `settled` of a question that is not to be shown any more.
    pub(super) kind: &'static str,
    /// Of the request, message or task.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) body: String,
    /// Where the console shows it.
    pub(super) path: String,
}

impl AlertPayload {
    pub(super) fn of(delivery: &AlertDelivery) -> Self {
        match delivery.events.as_slice() {
            [one] => Self::of_one(one, delivery.receiver.detail),
            many => Self::of_many(many),
        }
    }

    fn of_one(event: &AlertEvent, detail: AlertDetail) -> Self {
        let id = &event.subject.id;
        let message = short_id(&event.message_id);
        let (kind, title, hint, path) = match event.subject.kind {
            AlertKind::Question if event.is_settled() => (
                "settled",
                "Settled".to_owned(),
                format!("The question {} needs no answer any more.", code(id)),
                format!("#/requests/{id}"),
            ),
            AlertKind::Question => (
                "question",
                "Codex asks something".to_owned(),
                format!("Question {} about message {message} waits.", code(id)),
                format!("#/requests/{id}"),
            ),
            AlertKind::Failure => (
                "failure",
                "A message needs somebody".to_owned(),
                format!("Message {message} is {}.", event.word),
                format!("#/messages/{id}"),
            ),
            AlertKind::Task => (
                "task",
                "A task has ended".to_owned(),
                format!("Task {id}: {}.", event.word),
                format!("#/tasks/{id}"),
            ),
        };
        let headline = headline(&event.headline);
        let shows = detail == AlertDetail::Headline && !event.is_settled() && !headline.is_empty();
        Self {
            kind,
            id: id.clone(),
            title,
            body: match shows {
                true => format!("{headline}\n{hint}"),
                false => hint,
            },
            path,
        }
    }

    fn of_many(events: &[AlertEvent]) -> Self {
        let count = |kind| events.iter().filter(|it| it.subject.kind == kind).count();
        let (questions, failures, tasks) = (
            count(AlertKind::Question),
            count(AlertKind::Failure),
            count(AlertKind::Task),
        );
        let (kind, path) = match (questions, failures) {
            (1.., _) => ("question", "#/requests"),
            (0, 1..) => ("failure", "#/dead"),
            (0, 0) => ("task", "#/tasks"),
        };
        let parts = [
            (questions, "Codex asks", "question", "questions"),
            (failures, "needing somebody:", "message", "messages"),
            (tasks, "ended:", "task", "tasks"),
        ];
        let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
        let parts = parts.map(|(count, what, one, many)| {
            let noun = if count == 1 { one } else { many };
            format!("{what} {count} {noun}")
        });
        Self {
            kind,
            id: SUMMARY_ID.to_owned(),
            title: format!("{} alerts at once", events.len()),
            body: format!("{}.", parts.collect::<Vec<_>>().join("; ")),
            path: path.to_owned(),
        }
    }

    /// What push services tell messages apart by: what settles a question replaces it.
    pub(super) fn topic(&self) -> String {
        match self.kind {
            "settled" => format!("question/{}", self.id),
            kind => format!("{kind}/{}", self.id),
        }
    }
}

/// How people name a question.
fn code(request_id: &str) -> String {
    RequestId::new(request_id).code().to_owned()
}

/// One line, with everything written out that can't be seen or turns a text round.
fn headline(text: &str) -> String {
    let first = text.trim().lines().next().unwrap_or_default();
    clip(&show::effect_line(first), HEADLINE_MAX_CHARS)
}

/// An alert for a target of the configuration.
pub(super) fn notification(delivery: &AlertDelivery, console: &str) -> Option<Notification> {
    let first = delivery.events.first()?;
    let payload = AlertPayload::of(delivery);
    let link = format!("{console}{}", payload.path);
    // A question that is asked again is another alert.
    let name = format!(
        "{}/{}/{}",
        payload.topic(),
        first.mark,
        delivery.first_try_at.0
    );
    let id = ReceiverId::of("alert", &name).to_string();
    let text = format!("{}\n{}\n{link}", payload.title, payload.body);
    let body = json!({"type": format!("alert.{}", payload.kind), "id": id, "alert": payload, "url": link, "text": text});
    Some(Notification {
        reply_of: MessageId::new(&*id),
        id,
        conversation_id: first.conversation_id.clone(),
        text,
        body,
        note: Note {
            title: payload.title,
            headline: payload.body.clone(),
            text: payload.body,
            link,
            is_urgent: payload.kind == "question",
        },
        again: delivery.again,
        tries: delivery.tries,
        first_try_at: Some(delivery.first_try_at),
        created_at: first.at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::value::{Alert, AlertSubject, ConversationId, Receiver, Timestamp};

    const HOSTILE: &str = "run \u{202e}rm\u{1b}[0m <b>\r\nBcc: x";

    fn event(kind: AlertKind, id: &str) -> AlertEvent {
        AlertEvent {
            subject: AlertSubject {
                kind,
                id: id.to_owned(),
            },
            conversation_id: ConversationId::new("c"),
            message_id: MessageId::new("01a1e60b-3a0b-7377-98e0-da2da8945be2"),
            mark: Alert::ASKED.to_owned(),
            at: Timestamp(1),
            word: "dead",
            headline: HOSTILE.to_owned(),
        }
    }

    fn delivery(detail: AlertDetail, events: Vec<AlertEvent>) -> AlertDelivery {
        AlertDelivery {
            receiver: Receiver {
                receiver_id: ReceiverId::new("r"),
                device: None,
                about: AlertKind::ALL.to_vec(),
                detail,
                error: None,
                created_at: Timestamp(0),
            },
            events,
            again: false,
            tries: 1,
            first_try_at: Timestamp(5),
        }
    }

    #[test]
    fn hints_hold_no_foreign_text() {
        for kind in AlertKind::ALL {
            let hint = delivery(AlertDetail::Hint, vec![event(kind, "k3v9qaxx")]);
            let alert = notification(&hint, "https://b.example/console/").unwrap();
            let all = format!("{alert:?}");
            assert!(!all.contains("rm") && !all.contains("Bcc"), "{all}");
            assert!(
                alert.note.link.starts_with("https://b.example/console/#/"),
                "{all}"
            );
        }
    }

    #[test]
    fn headlines_are_one_harmless_line() {
        let alert = delivery(
            AlertDetail::Headline,
            vec![event(AlertKind::Question, "k3v9qaxx")],
        );
        let alert = AlertPayload::of(&alert);
        let (headline, hint) = alert.body.split_once('\n').unwrap();
        assert!(
            headline.contains("<U+202E>") && headline.contains("<b>"),
            "{headline}"
        );
        assert!(!alert.body.contains('\u{1b}') && !alert.body.contains("Bcc"));
        assert!(hint.starts_with("Question k3v9qa"), "{hint}");
        assert!(!hint.contains('\n'));
    }

    #[test]
    fn summaries_count_and_lead_to_the_inbox() {
        let events = [
            (AlertKind::Question, "a"),
            (AlertKind::Question, "b"),
            (AlertKind::Task, "t"),
        ];
        let events = events.map(|(kind, id)| event(kind, id)).to_vec();
        let alert = AlertPayload::of(&delivery(AlertDetail::Headline, events));
        assert_eq!(alert.title, "3 alerts at once");
        assert_eq!(alert.body, "Codex asks 2 questions; ended: 1 task.");
        assert_eq!((alert.kind, &*alert.path), ("question", "#/requests"));
    }

    #[test]
    fn settling_replaces_the_question() {
        let asked = event(AlertKind::Question, "k3v9qaxx");
        let settled = AlertEvent {
            mark: Alert::SETTLED.to_owned(),
            ..asked.clone()
        };
        let payload = |event| AlertPayload::of(&delivery(AlertDetail::Headline, vec![event]));
        let (asked, settled) = (payload(asked), payload(settled));
        assert_eq!((asked.kind, settled.kind), ("question", "settled"));
        assert_eq!((asked.topic(), &asked.id), (settled.topic(), &settled.id));
        assert!(!settled.body.contains("rm"));
    }
}
