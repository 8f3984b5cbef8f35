//! Answers that Codex has not confirmed yet, on one connection.
//!
//! An answer is written to a pipe or a socket, and nothing says that it arrived. Codex tells every client
//! `serverRequest/resolved` once it has taken one, and for a dynamic tool call it tells the end of the call's item.
//! An answer without either is given again; `thread/resume` makes Codex repeat what it still asks, so a request that
//! is not repeated then was settled. A second answer for a settled request is ignored by Codex (measured on 0.166), and
//! the ids of one process never name another request, so no repetition can reach the wrong one.
//!
//! Only decides; the connection's task writes. `now` is an argument.

use bridge_codex::rpc::RawId;
use bridge_codex::wire::{ItemId, Outcome, ServerRequest, ThreadId, TurnId};
use bridge_core::deadline::after;
use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

/// How long Codex may take to confirm an answer before something is done about it, try by try: the answer is repeated
/// once, then the thread is resumed twice. Codex confirms within 100 ms; the first pause is for a machine under load,
/// and after the last one (40 s in all) the connection counts as broken.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(5),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
];

/// An answer under way. It may be a secret, so it has no printed form.
struct Answer {
    request: ServerRequest,
    outcome: Outcome,
    since: Instant,
    due: Instant,
    /// How many of [`PAUSES`] have passed.
    tries: usize,
    /// Codex resumed the thread after the newest repetition, and did not ask again since.
    resumed: bool,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut answer = f.debug_struct("Answer");
        answer.field("request", &self.request.id);
        answer.field("tries", &self.tries).finish_non_exhaustive()
    }
}

/// What is done about an answer that Codex does not confirm.
#[derive(Debug, PartialEq)]
pub(crate) enum Overdue {
    /// Give the same answer once more.
    Repeat { id: RawId, outcome: Outcome },
    /// Resume the thread, so that Codex repeats what it still asks.
    Resume { id: RawId, thread: ThreadId },
    /// Codex resumed the thread and does not ask it any more: the answer arrived.
    Settled(Box<ServerRequest>),
    /// Codex asks again and again, or does not resume the thread: this connection is of no use.
    GiveUp { why: String },
}

/// The answers of one connection that are not confirmed.
#[derive(Debug, Default)]
pub(crate) struct Unconfirmed {
    by_id: HashMap<RawId, Answer>,
}

impl Unconfirmed {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn insert(&mut self, request: ServerRequest, outcome: Outcome, now: Instant) {
        let answer = Answer {
            outcome,
            since: now,
            due: after(now, PAUSES[0]),
            tries: 0,
            resumed: false,
            request,
        };
        self.by_id.insert(answer.request.id.clone(), answer);
    }

    pub(crate) fn answers(&self) -> impl Iterator<Item = (&ServerRequest, &Outcome)> {
        let answers = self.by_id.values();
        answers.map(|answer| (&answer.request, &answer.outcome))
    }

    /// The answer to repeat when Codex asks the same again. The same id for anything else is a new request.
    pub(crate) fn asked_again(&mut self, request: &ServerRequest) -> Option<Outcome> {
        let answer = self.by_id.get_mut(&request.id)?;
        if answer.request != *request {
            self.by_id.remove(&request.id);
            return None;
        }
        answer.resumed = false;
        Some(answer.outcome.clone())
    }

    /// Codex resumed the thread for this answer's sake.
    pub(crate) fn resumed(&mut self, id: &RawId) {
        if let Some(answer) = self.by_id.get_mut(id) {
            answer.resumed = true;
        }
    }

    pub(crate) fn confirm(&mut self, id: &RawId) -> Option<ServerRequest> {
        self.by_id.remove(id).map(|answer| answer.request)
    }

    /// The item has ended, and what was asked about it with it.
    pub(crate) fn confirm_item(&mut self, item: &ItemId) -> Vec<ServerRequest> {
        self.confirm_where(|request| request.item_id() == Some(item))
    }

    /// The turn has ended, and everything it asked.
    pub(crate) fn confirm_turn(&mut self, thread: &ThreadId, turn: &TurnId) -> Vec<ServerRequest> {
        self.confirm_where(|request| {
            request.thread_id() == Some(thread)
                && request.turn_id().is_none_or(|asking| asking == turn)
        })
    }

    fn confirm_where(&mut self, settled: impl Fn(&ServerRequest) -> bool) -> Vec<ServerRequest> {
        let settled = self
            .by_id
            .extract_if(|_, answer| settled(&answer.request))
            .map(|(_, answer)| answer.request);
        settled.collect()
    }

    /// When [`Unconfirmed::expire`] has something to do.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.by_id.values().map(|answer| answer.due).min()
    }

    /// What is to be done about the answers whose pause has passed.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<Overdue> {
        let late = self.by_id.iter().filter(|(_, answer)| answer.due <= now);
        let late: Vec<RawId> = late.map(|(id, _)| id.clone()).collect();
        late.iter().filter_map(|id| self.overdue(id, now)).collect()
    }

    fn overdue(&mut self, id: &RawId, now: Instant) -> Option<Overdue> {
        let answer = self.by_id.get_mut(id)?;
        if answer.resumed {
            let settled = self.by_id.remove(id)?;
            return Some(Overdue::Settled(Box::new(settled.request)));
        }
        let waited = now.saturating_duration_since(answer.since).as_secs();
        answer.tries += 1;
        let (Some(pause), Some(thread)) = (PAUSES.get(answer.tries), answer.request.thread_id())
        else {
            let why = format!("codex did not take the answer to request {id} for {waited} s");
            return Some(Overdue::GiveUp { why });
        };
        answer.due = after(now, *pause);
        let method = &answer.request.method;
        tracing::warn!(
            request = %id,
            method,
            tries = answer.tries,
            "answered request {id}, Codex has not confirmed it for {waited} s: it is answered again"
        );
        Some(match answer.tries {
            1 => Overdue::Repeat {
                id: id.clone(),
                outcome: answer.outcome.clone(),
            },
            _ => Overdue::Resume {
                id: id.clone(),
                thread: thread.clone(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const SECOND: Duration = Duration::from_secs(1);

    fn request(id: i64, method: &str, more: &Value) -> ServerRequest {
        let mut params = json!({"threadId": "t", "turnId": "u", "itemId": format!("i{id}")});
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        ServerRequest::parse(RawId::Integer(id), method.to_owned(), params)
    }

    fn command(id: i64) -> ServerRequest {
        let params = json!({"command": "ls", "cwd": "/w"});
        request(id, "item/commandExecution/requestApproval", &params)
    }

    fn yes() -> Outcome {
        Outcome::Result(json!({"decision": "accept"}))
    }

    fn repeat(id: i64) -> Overdue {
        Overdue::Repeat {
            id: RawId::Integer(id),
            outcome: yes(),
        }
    }

    fn resume(id: i64) -> Overdue {
        Overdue::Resume {
            id: RawId::Integer(id),
            thread: ThreadId::from("t"),
        }
    }

    /// One answer, given at the beginning.
    fn answered() -> (Unconfirmed, Instant) {
        let (mut book, start) = (Unconfirmed::default(), Instant::now());
        book.insert(command(0), yes(), start);
        (book, start)
    }

    #[test]
    fn f5_a_confirmed_answer_needs_no_timer() {
        let (mut book, start) = answered();
        assert_eq!(book.next_due(), Some(start + 5 * SECOND));
        assert_eq!(book.expire(start + 4 * SECOND), []);
        assert_eq!(book.confirm(&RawId::Integer(0)), Some(command(0)));
        assert_eq!(book.next_due(), None);
        assert_eq!(book.expire(start + 100 * SECOND), []);
    }

    #[test]
    fn f5_an_unconfirmed_answer_is_given_again() {
        let (mut book, start) = answered();
        assert_eq!(book.expire(start + 5 * SECOND), [repeat(0)]);
        assert_eq!(book.expire(start + 9 * SECOND), []);
        assert_eq!(book.expire(start + 10 * SECOND), [resume(0)]);
        book.resumed(&RawId::Integer(0));
        assert_eq!(book.asked_again(&command(0)), Some(yes()));
        assert_eq!(book.next_due(), Some(start + 20 * SECOND));
    }

    #[test]
    fn f5_codex_that_never_confirms_is_given_up() {
        let (mut book, start) = answered();
        let mut did = Vec::new();
        while let Some(due) = book.next_due() {
            did.extend(book.expire(due));
            if let Some(Overdue::GiveUp { why }) = did.last() {
                assert!(why.contains("request 0 for 40 s"), "{why}");
                assert_eq!(due, start + 40 * SECOND);
                break;
            }
            if did.last() == Some(&resume(0)) {
                book.resumed(&RawId::Integer(0));
                book.asked_again(&command(0)).unwrap();
            }
        }
        assert_eq!(did[..3], [repeat(0), resume(0), resume(0)]);
    }

    /// A version of Codex that does not confirm some kind of request costs one repetition and one resume.
    #[test]
    fn f5_a_request_not_asked_again_is_settled() {
        let (mut book, start) = answered();
        book.expire(start + 5 * SECOND);
        book.expire(start + 10 * SECOND);
        book.resumed(&RawId::Integer(0));
        let settled = Overdue::Settled(Box::new(command(0)));
        assert_eq!(book.expire(start + 20 * SECOND), [settled]);
        assert_eq!(book.len(), 0);
    }

    #[test]
    fn f5_an_answer_reaches_no_other_request() {
        let (mut book, _) = answered();
        let other = request(
            0,
            "item/commandExecution/requestApproval",
            &json!({"command": "rm", "cwd": "/w"}),
        );
        assert_eq!(book.asked_again(&other), None);
        assert_eq!(book.len(), 0, "the old request is gone with its id");
        assert_eq!(book.asked_again(&command(1)), None);
    }

    #[test]
    fn f5_the_end_of_item_or_turn_confirms() {
        let (mut book, start) = answered();
        let call = json!({"callId": "c", "tool": "ask_agent", "arguments": {}});
        book.insert(request(1, "item/tool/call", &call), yes(), start);
        book.insert(command(2), yes(), start);
        let of_call = book.confirm_item(&ItemId::from("c"));
        assert_eq!(of_call.len(), 1);
        assert_eq!(of_call[0].id, RawId::Integer(1));
        let (thread, other) = (ThreadId::from("t"), TurnId::from("other"));
        assert_eq!(book.confirm_turn(&thread, &other), []);
        assert_eq!(book.confirm_turn(&thread, &TurnId::from("u")).len(), 2);
        assert_eq!(book.next_due(), None);
    }
}
