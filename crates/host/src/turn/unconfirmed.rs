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
use bridge_codex::wire::{RequestOutcome, ServerRequest};
use bridge_core::deadline::after;
use bridge_core::value::{ItemId, ThreadId, TurnId};
use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

/// How long Codex may take to confirm an answer before something is done about it, try by try: the answer is repeated
/// once, then the thread is resumed twice. Codex confirms within 100 ms; the first pause is for a machine under load,
/// and after the last one (40 s in all) the connection counts as broken, unless Codex refused to resume the thread: then
/// it lives, and others work over this connection.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(5),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
];

/// An answer under way. It may be a secret, so it has no printed form.
struct UnconfirmedAnswer {
    request: ServerRequest,
    outcome: RequestOutcome,
    since: Instant,
    due: Instant,
    /// How many of [`PAUSES`] have passed.
    tries: usize,
    resume: ResumeOutcome,
}

/// Codex's answer to `thread/resume`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResumeOutcome {
    /// It was not asked to, did not answer, or asked the same again since.
    Unanswered,
    /// It did, and did not ask again since.
    Done,
    /// It would not, so it does not say what it still asks.
    Refused,
}

impl UnconfirmedAnswer {
    /// When the pause after this try ends; `None` after the last one. It counts from the beginning, so that late looks
    /// do not add up; but half a pause is left, or a daemon that stood still would give up before it has read what
    /// Codex said meanwhile.
    fn next_due(&self, now: Instant) -> Option<Instant> {
        let pause = PAUSES.get(self.tries)?;
        let in_all = PAUSES.iter().take(self.tries + 1).sum();
        Some(after(self.since, in_all).max(after(now, *pause / 2)))
    }
}

impl fmt::Debug for UnconfirmedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut answer = f.debug_struct("Answer");
        answer.field("request", &self.request.id);
        answer.field("tries", &self.tries).finish_non_exhaustive()
    }
}

/// The next step for an answer that Codex does not confirm.
#[derive(Debug, PartialEq)]
pub(crate) enum Overdue {
    /// Give the same answer once more.
    Repeat { id: RawId, outcome: RequestOutcome },
    /// Resume the thread, so that Codex repeats what it still asks.
    Resume { id: RawId, thread: ThreadId },
    /// Codex resumed the thread and does not ask it any more, or refused to and does not ask it either: the answer
    /// counts as taken.
    Settled(Box<ServerRequest>),
    /// Codex asks again and again, or is silent: this connection is of no use.
    GiveUp { why: String },
}

/// The answers of one connection that are not confirmed.
#[derive(Debug, Default)]
pub(crate) struct Unconfirmed {
    by_id: HashMap<RawId, UnconfirmedAnswer>,
}

impl Unconfirmed {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn insert(&mut self, request: ServerRequest, outcome: RequestOutcome, now: Instant) {
        let answer = UnconfirmedAnswer {
            outcome,
            since: now,
            due: after(now, PAUSES[0]),
            tries: 0,
            resume: ResumeOutcome::Unanswered,
            request,
        };
        self.by_id.insert(answer.request.id.clone(), answer);
    }

    pub(crate) fn answers(&self) -> impl Iterator<Item = (&ServerRequest, &RequestOutcome)> {
        let answers = self.by_id.values();
        answers.map(|answer| (&answer.request, &answer.outcome))
    }

    /// The answer to repeat when Codex asks the same again. The same id for anything else is a new request.
    pub(crate) fn asked_again(&mut self, request: &ServerRequest) -> Option<RequestOutcome> {
        let answer = self.by_id.get_mut(&request.id)?;
        if answer.request != *request {
            self.by_id.remove(&request.id);
            return None;
        }
        answer.resume = ResumeOutcome::Unanswered;
        Some(answer.outcome.clone())
    }

    /// Codex resumed the thread for this answer's sake.
    pub(crate) fn resumed(&mut self, id: &RawId) {
        self.set_resume(id, ResumeOutcome::Done);
    }

    /// Codex refused to.
    pub(crate) fn not_resumed(&mut self, id: &RawId) {
        self.set_resume(id, ResumeOutcome::Refused);
    }

    fn set_resume(&mut self, id: &RawId, resume: ResumeOutcome) {
        if let Some(answer) = self.by_id.get_mut(id) {
            answer.resume = resume;
        }
    }

    pub(crate) fn confirm(&mut self, id: &RawId) -> Option<ServerRequest> {
        self.by_id.remove(id).map(|answer| answer.request)
    }

    /// The item has ended, and what was asked about it with it. Item ids are unique within their thread only.
    pub(crate) fn confirm_item(&mut self, thread: &ThreadId, item: &ItemId) -> Vec<ServerRequest> {
        self.confirm_where(|request| {
            request.thread_id() == Some(thread) && request.item_id() == Some(item)
        })
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

    /// The next steps for answers whose pause has passed.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<Overdue> {
        let late = self.by_id.iter().filter(|(_, answer)| answer.due <= now);
        let late: Vec<RawId> = late.map(|(id, _)| id.clone()).collect();
        late.iter().filter_map(|id| self.overdue(id, now)).collect()
    }

    fn overdue(&mut self, id: &RawId, now: Instant) -> Option<Overdue> {
        let answer = self.by_id.get_mut(id)?;
        answer.tries += 1;
        let is_last = answer.tries >= PAUSES.len();
        if answer.resume == ResumeOutcome::Done
            || is_last && answer.resume == ResumeOutcome::Refused
        {
            let settled = self.by_id.remove(id)?;
            return Some(Overdue::Settled(Box::new(settled.request)));
        }
        let waited = now.saturating_duration_since(answer.since).as_secs();
        let (Some(due), Some(thread)) = (answer.next_due(now), answer.request.thread_id()) else {
            let why = format!("codex did not take the answer to request {id} for {waited} s");
            return Some(Overdue::GiveUp { why });
        };
        answer.due = due;
        let method = &answer.request.method;
        tracing::warn!(
            request = %id,
            method,
            tries = answer.tries,
            "answered request {id}, Codex has not confirmed it for {waited} s: it is answered again"
        );
        Some(match (answer.tries, answer.resume) {
            (1, _) | (_, ResumeOutcome::Refused) => Overdue::Repeat {
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

    fn yes() -> RequestOutcome {
        RequestOutcome::Result(json!({"decision": "accept"}))
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
            thread: ThreadId::new("t"),
        }
    }

    /// One answer, given at the beginning.
    fn answered() -> (Unconfirmed, Instant) {
        let (mut answers, start) = (Unconfirmed::default(), Instant::now());
        answers.insert(command(0), yes(), start);
        (answers, start)
    }

    #[test]
    fn f5_a_confirmed_answer_needs_no_timer() {
        let (mut answers, start) = answered();
        assert_eq!(answers.next_due(), Some(start + 5 * SECOND));
        assert_eq!(answers.expire(start + 4 * SECOND), []);
        assert_eq!(answers.confirm(&RawId::Integer(0)), Some(command(0)));
        assert_eq!(answers.next_due(), None);
        assert_eq!(answers.expire(start + 100 * SECOND), []);
    }

    #[test]
    fn f5_an_unconfirmed_answer_is_given_again() {
        let (mut answers, start) = answered();
        assert_eq!(answers.expire(start + 5 * SECOND), [repeat(0)]);
        assert_eq!(answers.expire(start + 9 * SECOND), []);
        assert_eq!(answers.expire(start + 10 * SECOND), [resume(0)]);
        answers.resumed(&RawId::Integer(0));
        assert_eq!(answers.asked_again(&command(0)), Some(yes()));
        assert_eq!(answers.next_due(), Some(start + 20 * SECOND));
    }

    #[test]
    fn f5_unconfirmed_answer_gives_up_codex() {
        let (mut answers, start) = answered();
        let mut did = Vec::new();
        while let Some(due) = answers.next_due() {
            did.extend(answers.expire(due));
            if let Some(Overdue::GiveUp { why }) = did.last() {
                assert!(why.contains("request 0 for 40 s"), "{why}");
                assert_eq!(due, start + 40 * SECOND);
                break;
            }
            if did.last() == Some(&resume(0)) {
                answers.resumed(&RawId::Integer(0));
                answers.asked_again(&command(0)).unwrap();
            }
        }
        assert_eq!(did[..3], [repeat(0), resume(0), resume(0)]);
    }

    #[test]
    fn f5_late_looks_do_not_add_up() {
        let (mut answers, start) = answered();
        answers.expire(start + 7 * SECOND);
        assert_eq!(answers.next_due(), Some(start + 10 * SECOND));
        answers.expire(start + 11 * SECOND);
        assert_eq!(answers.next_due(), Some(start + 20 * SECOND));
    }

    #[test]
    fn f5_after_a_standstill_codex_has_time() {
        let (mut answers, start) = answered();
        let woken = start + 100 * SECOND;
        assert_eq!(answers.expire(woken), [repeat(0)]);
        assert_eq!(answers.expire(woken), []);
        assert_eq!(answers.next_due(), Some(woken + 5 * SECOND / 2));
    }

    /// Codex lives, and the turns of others with it.
    #[test]
    fn f5_a_refused_resume_ends_no_connection() {
        let (mut answers, start) = answered();
        answers.expire(start + 5 * SECOND);
        assert_eq!(answers.expire(start + 10 * SECOND), [resume(0)]);
        answers.not_resumed(&RawId::Integer(0));
        assert_eq!(answers.expire(start + 20 * SECOND), [repeat(0)]);
        let settled = Overdue::Settled(Box::new(command(0)));
        assert_eq!(answers.expire(start + 40 * SECOND), [settled]);
        assert_eq!(answers.len(), 0);
    }

    /// A version of Codex that does not confirm some kind of request costs one repetition and one resume.
    #[test]
    fn f5_request_not_repeated_is_settled() {
        let (mut answers, start) = answered();
        answers.expire(start + 5 * SECOND);
        answers.expire(start + 10 * SECOND);
        answers.resumed(&RawId::Integer(0));
        let settled = Overdue::Settled(Box::new(command(0)));
        assert_eq!(answers.expire(start + 20 * SECOND), [settled]);
        assert_eq!(answers.len(), 0);
    }

    #[test]
    fn f5_an_answer_reaches_no_other_request() {
        let (mut answers, _) = answered();
        let other = request(
            0,
            "item/commandExecution/requestApproval",
            &json!({"command": "rm", "cwd": "/w"}),
        );
        assert_eq!(answers.asked_again(&other), None);
        assert_eq!(answers.len(), 0, "the old request is gone with its id");
        assert_eq!(answers.asked_again(&command(1)), None);
    }

    #[test]
    fn f5_item_or_turn_end_confirms() {
        let (mut answers, start) = answered();
        let call = json!({"callId": "c", "tool": "ask_agent", "arguments": {}});
        answers.insert(request(1, "item/tool/call", &call), yes(), start);
        answers.insert(command(2), yes(), start);
        let (thread, other) = (ThreadId::new("t"), TurnId::new("other"));
        let of_call = answers.confirm_item(&thread, &ItemId::new("c"));
        assert_eq!(of_call.len(), 1);
        assert_eq!(of_call[0].id, RawId::Integer(1));
        assert_eq!(answers.confirm_turn(&thread, &other), []);
        assert_eq!(answers.confirm_turn(&thread, &TurnId::new("u")).len(), 2);
        assert_eq!(answers.next_due(), None);
    }

    #[test]
    fn f5_items_confirm_in_their_thread_only() {
        let (mut answers, start) = answered();
        let more = json!({"command": "ls", "cwd": "/w", "threadId": "other", "itemId": "i0"});
        let elsewhere = request(1, "item/commandExecution/requestApproval", &more);
        answers.insert(elsewhere.clone(), yes(), start);
        let ended = answers.confirm_item(&ThreadId::new("t"), &ItemId::new("i0"));
        assert_eq!(ended, [command(0)]);
        assert_eq!(answers.len(), 1, "the other thread's answer stays");
        let ended = answers.confirm_item(&ThreadId::new("other"), &ItemId::new("i0"));
        assert_eq!(ended, [elsewhere]);
    }
}
