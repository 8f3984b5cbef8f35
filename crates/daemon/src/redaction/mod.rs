//! Everything that Codex says passes here once, on its way in: known secrets are taken out of it before it is
//! written down, shown or sent. So no reply, notice, hint or event can hold one.
//!
//! Which values are secret is the [`registry`]'s business; what a turn amounts to is the core's.

pub(crate) mod registry;

use self::registry::SecretRegistry;
use bridge_core::deadline::after;
use bridge_core::port::{
    Agent, AgentError, ApprovalRequest, Extent, ForeignTurn, LostTurn, RecordedTurn, RequestKey,
    Responded, Started, Steer, Steered, TextUpdate, ThreadSpec, TravellingThread, TurnEnd,
    TurnEvent, TurnHistory, TurnLookup, TurnSpec, TurnStream,
};
use bridge_core::secrets::Redacted;
use bridge_core::value::{
    Failure, IncarnationId, MessageId, QuotaReport, RequestVerdict, ThreadId, TurnId,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Shortest time between two live texts: nobody reads faster, and the answer itself is a row. Each is the whole text so
/// far and is looked through as a whole, so those between are not looked at.
const TEXT_PAUSE: Duration = Duration::from_millis(50);

/// An agent whose words are looked through.
#[derive(Debug)]
pub(crate) struct RedactingAgent<A> {
    agent: A,
    filter: Arc<Filter>,
}

/// The news of a turn, looked through.
#[derive(Debug)]
pub(crate) struct VeiledStream<T> {
    stream: T,
    filter: Arc<Filter>,
    /// When the next live text may be shown.
    next_text: Instant,
    /// The newest one that came before that: a text that is not followed by another is shown too.
    held: Option<TurnEvent>,
}

#[derive(Debug)]
struct Filter {
    secret_registry: Arc<SecretRegistry>,
    /// Secrets redacted since the start.
    redactions: AtomicU64,
}

impl<A> RedactingAgent<A> {
    pub(crate) fn new(agent: A, secret_registry: Arc<SecretRegistry>) -> Self {
        let filter = Arc::new(Filter {
            secret_registry,
            redactions: AtomicU64::new(0),
        });
        Self { agent, filter }
    }

    /// The agent itself, for what is not about turns.
    pub(crate) fn inner(&self) -> &A {
        &self.agent
    }
}

impl Filter {
    fn count(&self, redacted: Redacted) -> String {
        if redacted.redactions > 0 {
            let found = u64::try_from(redacted.redactions).unwrap_or(u64::MAX);
            let before = self.redactions.fetch_add(found, Ordering::Relaxed);
            tracing::warn!(
                found,
                since_start = before.saturating_add(found),
                "a secret value was withheld from what codex said"
            );
        }
        redacted.text
    }

    fn text(&self, text: &str) -> String {
        self.count(self.secret_registry.secrets().redact(text))
    }

    fn answer(&self, answer: Option<String>) -> Option<String> {
        answer.map(|answer| self.count(self.secret_registry.secrets().redact_answer(&answer)))
    }

    fn failure(&self, failure: Failure) -> Failure {
        Failure {
            reason: self.text(&failure.reason),
            ..failure
        }
    }

    fn fault(&self, fault: AgentError) -> AgentError {
        AgentError {
            failure: self.failure(fault.failure),
            ..fault
        }
    }

    fn asked(&self, asked: ApprovalRequest) -> ApprovalRequest {
        ApprovalRequest {
            headline: self.text(&asked.headline),
            shown: self.text(&asked.shown),
            payload: self.text(&asked.payload),
            tool_arguments: asked.tool_arguments.map(|text| self.text(&text)),
            ..asked
        }
    }

    fn end(&self, end: TurnEnd) -> TurnEnd {
        TurnEnd {
            answer: self.answer(end.answer),
            failure: end.failure.map(|failure| self.failure(failure)),
            ..end
        }
    }

    fn recorded(&self, turn: RecordedTurn) -> RecordedTurn {
        RecordedTurn {
            answer: self.answer(turn.answer),
            effects: turn.effects.iter().map(|line| self.text(line)).collect(),
            failure: turn.failure.map(|failure| self.failure(failure)),
            ..turn
        }
    }

    fn found(&self, found: TurnHistory) -> TurnHistory {
        match found {
            TurnHistory::Turn(finding) => TurnHistory::Turn(self.recorded(finding)),
            TurnHistory::Unreadable { why } => TurnHistory::Unreadable {
                why: self.text(&why),
            },
            TurnHistory::Absent => TurnHistory::Absent,
            TurnHistory::Foreign => TurnHistory::Foreign,
        }
    }

    fn event(&self, event: TurnEvent) -> TurnEvent {
        match event {
            TurnEvent::Item(mut item) => {
                item.headline = self.text(&item.headline);
                item.diff = item.diff.map(|diff| self.text(&diff));
                item.output = item.output.map(|output| self.text(&output));
                TurnEvent::Item(item)
            }
            // It comes again and again as it grows, and is counted when it is whole.
            TurnEvent::Text(said) => {
                let secrets = self.secret_registry.secrets();
                let redacted = match said.extent {
                    Extent::Middle | Extent::Head => secrets.redact_growing(&said.text),
                    Extent::Whole => secrets.redact(&said.text),
                };
                TurnEvent::Text(TextUpdate {
                    text: redacted.text,
                    ..said
                })
            }
            TurnEvent::Raw(line) => TurnEvent::Raw(self.text(&line)),
            TurnEvent::Stderr(line) => TurnEvent::Stderr(self.text(&line)),
            TurnEvent::Retrying { message } => TurnEvent::Retrying {
                message: self.text(&message),
            },
            TurnEvent::Request(asked) => TurnEvent::Request(self.asked(asked)),
            TurnEvent::Ended(end) => TurnEvent::Ended(self.end(end)),
            TurnEvent::Lost { why } => TurnEvent::Lost {
                why: self.text(&why),
            },
            TurnEvent::Named { thread } => TurnEvent::Named { thread },
            TurnEvent::Resolved(asked) => TurnEvent::Resolved(asked),
            TurnEvent::Confirmed(asked) => TurnEvent::Confirmed(asked),
            TurnEvent::Alive => TurnEvent::Alive,
        }
    }
}

impl<T: TurnStream> TurnStream for VeiledStream<T> {
    async fn next(&mut self) -> TurnEvent {
        let event = tokio::select! {
            biased;
            event = self.stream.next() => event,
            () = tokio::time::sleep_until(self.next_text), if self.held.is_some() => {
                self.held.take().unwrap_or(TurnEvent::Alive)
            }
        };
        match &event {
            TurnEvent::Text(said) if said.extent != Extent::Whole => {
                let now = Instant::now();
                if now < self.next_text {
                    self.held = Some(event);
                    return TurnEvent::Alive;
                }
                self.next_text = after(now, TEXT_PAUSE);
                self.held = None;
            }
            TurnEvent::Text(_) | TurnEvent::Ended(_) | TurnEvent::Lost { .. } => self.held = None,
            TurnEvent::Item(_)
            | TurnEvent::Named { .. }
            | TurnEvent::Retrying { .. }
            | TurnEvent::Raw(_)
            | TurnEvent::Stderr(_)
            | TurnEvent::Request(_)
            | TurnEvent::Resolved(_)
            | TurnEvent::Confirmed(_)
            | TurnEvent::Alive => {}
        }
        self.filter.event(event)
    }

    fn show_raw(&mut self) {
        self.stream.show_raw();
    }
}

impl<A: Agent> RedactingAgent<A> {
    fn stream(&self, stream: A::Stream) -> VeiledStream<A::Stream> {
        VeiledStream {
            stream,
            filter: Arc::clone(&self.filter),
            next_text: Instant::now(),
            held: None,
        }
    }

    fn redacted<T>(&self, said: Result<T, AgentError>) -> Result<T, AgentError> {
        said.map_err(|fault| self.filter.fault(fault))
    }
}

impl<A: Agent> Agent for RedactingAgent<A> {
    type Stream = VeiledStream<A::Stream>;

    async fn ready(&self, home: Option<&str>) -> Result<IncarnationId, AgentError> {
        self.redacted(self.agent.ready(home).await)
    }

    fn quotas(&self) -> Vec<(Option<String>, QuotaReport)> {
        self.agent.quotas()
    }

    async fn quota_changed(&self) {
        self.agent.quota_changed().await;
    }

    async fn open_thread(&self, spec: &ThreadSpec) -> Result<ThreadId, AgentError> {
        self.redacted(self.agent.open_thread(spec).await)
    }

    async fn resume_thread(&self, thread: &ThreadId, spec: &ThreadSpec) -> Result<(), AgentError> {
        self.redacted(self.agent.resume_thread(thread, spec).await)
    }

    fn life_of(&self, thread: &ThreadId) -> Option<IncarnationId> {
        self.agent.life_of(thread)
    }

    async fn start_turn(&self, turn: &TurnSpec) -> Result<Started<Self::Stream>, AgentError> {
        let started = self.redacted(self.agent.start_turn(turn).await)?;
        Ok(Started {
            turn_id: started.turn_id,
            stream: self.stream(started.stream),
        })
    }

    async fn look_up(&self, lost: &LostTurn) -> Result<TurnLookup<Self::Stream>, AgentError> {
        let looked = self.redacted(self.agent.look_up(lost).await)?;
        Ok(TurnLookup {
            found: self.filter.found(looked.found),
            stream: looked.stream.map(|stream| self.stream(stream)),
        })
    }

    async fn respond(
        &self,
        to: &RequestKey,
        verdict: &RequestVerdict,
    ) -> Result<Responded, AgentError> {
        match self.redacted(self.agent.respond(to, verdict).await)? {
            Responded::Invalid { why } => Ok(Responded::Invalid {
                why: self.filter.text(&why),
            }),
            other @ (Responded::Delivered | Responded::Gone | Responded::Disconnected) => Ok(other),
        }
    }

    async fn end_life(&self, thread: &ThreadId, why: &str) {
        self.agent.end_life(thread, why).await;
    }

    async fn probe(&self, thread: &ThreadId) -> Result<(), AgentError> {
        self.redacted(self.agent.probe(thread).await)
    }

    async fn steer(&self, steer: &Steer) -> Result<Steered, AgentError> {
        match self.redacted(self.agent.steer(steer).await)? {
            Steered::Refused { why } => Ok(Steered::Refused {
                why: self.filter.text(&why),
            }),
            Steered::Taken => Ok(Steered::Taken),
        }
    }

    async fn interrupt(&self, thread: &ThreadId, turn_id: &TurnId) -> Result<(), AgentError> {
        self.redacted(self.agent.interrupt(thread, turn_id).await)
    }

    async fn release_thread(
        &self,
        thread: &ThreadId,
        spec: &ThreadSpec,
    ) -> Result<Option<TurnId>, AgentError> {
        self.redacted(self.agent.release_thread(thread, spec).await)
    }

    async fn turns_of_others(
        &self,
        thread: &ThreadId,
        spec: &ThreadSpec,
        after: Option<&TurnId>,
    ) -> Result<Vec<ForeignTurn>, AgentError> {
        let read = self.agent.turns_of_others(thread, spec, after).await;
        let turns = self.redacted(read)?.into_iter();
        Ok(turns
            .map(|turn| ForeignTurn {
                input: self.filter.text(&turn.input),
                recorded: self.filter.recorded(turn.recorded),
                ..turn
            })
            .collect())
    }

    async fn bring_thread(&self, thread: &TravellingThread) -> Result<(), AgentError> {
        self.redacted(self.agent.bring_thread(thread).await)
    }

    async fn delete_thread(&self, home: Option<&str>, thread: &ThreadId) -> Result<(), AgentError> {
        self.redacted(self.agent.delete_thread(home, thread).await)
    }

    async fn store_thread(
        &self,
        thread: &TravellingThread,
        message_id: &MessageId,
    ) -> Result<(), AgentError> {
        self.redacted(self.agent.store_thread(thread, message_id).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::port::Phase;
    use bridge_core::value::ItemId;

    /// Says one more word whenever it is asked, as often as it may.
    struct Talk {
        said: usize,
        most: usize,
    }

    impl TurnStream for Talk {
        async fn next(&mut self) -> TurnEvent {
            if self.said == self.most {
                return std::future::pending().await;
            }
            self.said += 1;
            TurnEvent::Text(TextUpdate {
                item_id: ItemId::new("i"),
                phase: Phase::Unmarked,
                extent: Extent::Head,
                text: "secret-word ".repeat(self.said),
            })
        }
    }

    fn redacted(most: usize) -> VeiledStream<Talk> {
        let secret_registry = SecretRegistry::new(vec!["secret-word".to_owned()]);
        VeiledStream {
            stream: Talk { said: 0, most },
            filter: RedactingAgent::new((), Arc::new(secret_registry)).filter,
            next_text: Instant::now(),
            held: None,
        }
    }

    fn redactions(event: &TurnEvent) -> usize {
        match event {
            TurnEvent::Text(said) => said.text.matches("[withheld]").count(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn redaction_flushes_last_text_on_silence() {
        let mut stream = redacted(3);
        assert_eq!(redactions(&stream.next().await), 1);
        assert_eq!(stream.next().await, TurnEvent::Alive);
        assert_eq!(stream.next().await, TurnEvent::Alive);
        assert_eq!(redactions(&stream.next().await), 3);
        assert!(stream.held.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn redaction_of_growing_text_is_throttled() {
        let mut stream = redacted(100);
        assert_eq!(redactions(&stream.next().await), 1);
        for _ in 0..3 {
            assert_eq!(stream.next().await, TurnEvent::Alive);
        }
        tokio::time::advance(TEXT_PAUSE).await;
        assert_eq!(redactions(&stream.next().await), 5);
    }
}
