//! Everything that Codex says passes here once, on its way in: known secrets are taken out of it before it is
//! written down, shown or sent. So no reply, notice, hint or event can hold one.
//!
//! Which values are secret is the vault's business; what a turn amounts to is the core's.

use super::vault::Vault;
use bridge_core::deadline::after;
use bridge_core::port::{
    Agent, AgentFault, Asked, AskedRef, Extent, Finding, Found, Looked, LostTurn, Responded, Said,
    Started, Steer, Steered, ThreadSpec, TurnEnd, TurnEvent, TurnSpec, TurnStream,
};
use bridge_core::secrets::Veiled;
use bridge_core::value::{Failure, IncarnationId, RequestVerdict, ThreadId, TurnId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Shortest time between two live texts: nobody reads faster, and the answer itself is a row. Each is the whole text so
/// far and is looked through as a whole, so those between are not looked at.
const TEXT_PAUSE: Duration = Duration::from_millis(50);

/// An agent whose words are looked through.
#[derive(Debug)]
pub(crate) struct Veil<A> {
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
    vault: Arc<Vault>,
    /// How many secrets were withheld since the start.
    withheld: AtomicU64,
}

impl<A> Veil<A> {
    pub(crate) fn new(agent: A, vault: Arc<Vault>) -> Self {
        let filter = Arc::new(Filter {
            vault,
            withheld: AtomicU64::new(0),
        });
        Self { agent, filter }
    }

    /// The agent itself, for what is not about turns.
    pub(crate) fn inner(&self) -> &A {
        &self.agent
    }
}

impl Filter {
    fn count(&self, veiled: Veiled) -> String {
        if veiled.withheld > 0 {
            let found = u64::try_from(veiled.withheld).unwrap_or(u64::MAX);
            let before = self.withheld.fetch_add(found, Ordering::Relaxed);
            tracing::warn!(
                found,
                since_start = before.saturating_add(found),
                "a secret value was withheld from what codex said"
            );
        }
        veiled.text
    }

    fn text(&self, text: &str) -> String {
        self.count(self.vault.secrets().veil(text))
    }

    fn answer(&self, answer: Option<String>) -> Option<String> {
        answer.map(|answer| self.count(self.vault.secrets().veil_answer(&answer)))
    }

    fn failure(&self, failure: Failure) -> Failure {
        Failure {
            reason: self.text(&failure.reason),
            ..failure
        }
    }

    fn fault(&self, fault: AgentFault) -> AgentFault {
        AgentFault {
            failure: self.failure(fault.failure),
            ..fault
        }
    }

    fn asked(&self, asked: Asked) -> Asked {
        Asked {
            headline: self.text(&asked.headline),
            shown: self.text(&asked.shown),
            payload: self.text(&asked.payload),
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

    fn found(&self, found: Found) -> Found {
        match found {
            Found::Turn(finding) => Found::Turn(Finding {
                answer: self.answer(finding.answer),
                effects: finding.effects.iter().map(|line| self.text(line)).collect(),
                failure: finding.failure.map(|failure| self.failure(failure)),
                ..finding
            }),
            Found::Unreadable { why } => Found::Unreadable {
                why: self.text(&why),
            },
            Found::Absent => Found::Absent,
            Found::Foreign => Found::Foreign,
        }
    }

    fn event(&self, event: TurnEvent) -> TurnEvent {
        match event {
            TurnEvent::Item(mut item) => {
                item.headline = self.text(&item.headline);
                item.diff = item.diff.map(|diff| self.text(&diff));
                TurnEvent::Item(item)
            }
            // It comes again and again as it grows, and is counted when it is whole.
            TurnEvent::Text(said) => {
                let secrets = self.vault.secrets();
                let veiled = match said.extent {
                    Extent::Middle | Extent::Head => secrets.veil_growing(&said.text),
                    Extent::Whole => secrets.veil(&said.text),
                };
                TurnEvent::Text(Said {
                    text: veiled.text,
                    ..said
                })
            }
            TurnEvent::Retrying { message } => TurnEvent::Retrying {
                message: self.text(&message),
            },
            TurnEvent::Asked(asked) => TurnEvent::Asked(self.asked(asked)),
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
            | TurnEvent::Asked(_)
            | TurnEvent::Resolved(_)
            | TurnEvent::Confirmed(_)
            | TurnEvent::Alive => {}
        }
        self.filter.event(event)
    }
}

impl<A: Agent> Veil<A> {
    fn stream(&self, stream: A::Stream) -> VeiledStream<A::Stream> {
        VeiledStream {
            stream,
            filter: Arc::clone(&self.filter),
            next_text: Instant::now(),
            held: None,
        }
    }

    fn veiled<T>(&self, said: Result<T, AgentFault>) -> Result<T, AgentFault> {
        said.map_err(|fault| self.filter.fault(fault))
    }
}

impl<A: Agent> Agent for Veil<A> {
    type Stream = VeiledStream<A::Stream>;

    async fn ready(&self, home: Option<&str>) -> Result<IncarnationId, AgentFault> {
        self.veiled(self.agent.ready(home).await)
    }

    async fn open_thread(&self, spec: &ThreadSpec) -> Result<ThreadId, AgentFault> {
        self.veiled(self.agent.open_thread(spec).await)
    }

    async fn resume_thread(&self, thread: &ThreadId, spec: &ThreadSpec) -> Result<(), AgentFault> {
        self.veiled(self.agent.resume_thread(thread, spec).await)
    }

    async fn start_turn(&self, turn: &TurnSpec) -> Result<Started<Self::Stream>, AgentFault> {
        let started = self.veiled(self.agent.start_turn(turn).await)?;
        Ok(Started {
            turn_id: started.turn_id,
            stream: self.stream(started.stream),
        })
    }

    async fn look(&self, lost: &LostTurn) -> Result<Looked<Self::Stream>, AgentFault> {
        let looked = self.veiled(self.agent.look(lost).await)?;
        Ok(Looked {
            found: self.filter.found(looked.found),
            stream: looked.stream.map(|stream| self.stream(stream)),
        })
    }

    async fn respond(
        &self,
        to: &AskedRef,
        verdict: &RequestVerdict,
    ) -> Result<Responded, AgentFault> {
        match self.veiled(self.agent.respond(to, verdict).await)? {
            Responded::Unfit { why } => Ok(Responded::Unfit {
                why: self.filter.text(&why),
            }),
            heard @ (Responded::Told | Responded::Gone | Responded::Cut) => Ok(heard),
        }
    }

    async fn end_life(&self, thread: &ThreadId, why: &str) {
        self.agent.end_life(thread, why).await;
    }

    async fn probe(&self, thread: &ThreadId) -> Result<(), AgentFault> {
        self.veiled(self.agent.probe(thread).await)
    }

    async fn steer(&self, steer: &Steer) -> Result<Steered, AgentFault> {
        match self.veiled(self.agent.steer(steer).await)? {
            Steered::Refused { why } => Ok(Steered::Refused {
                why: self.filter.text(&why),
            }),
            Steered::Taken => Ok(Steered::Taken),
        }
    }

    async fn interrupt(&self, thread: &ThreadId, turn_id: &TurnId) -> Result<(), AgentFault> {
        self.veiled(self.agent.interrupt(thread, turn_id).await)
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
            TurnEvent::Text(Said {
                item_id: ItemId::new("i"),
                phase: Phase::Unmarked,
                extent: Extent::Head,
                text: "secret-word ".repeat(self.said),
            })
        }
    }

    fn veiled(most: usize) -> VeiledStream<Talk> {
        let vault = Vault::new(vec!["secret-word".to_owned()]);
        VeiledStream {
            stream: Talk { said: 0, most },
            filter: Veil::new((), Arc::new(vault)).filter,
            next_text: Instant::now(),
            held: None,
        }
    }

    fn withheld(event: &TurnEvent) -> usize {
        match event {
            TurnEvent::Text(said) => said.text.matches("[withheld]").count(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_text_before_a_silence_is_shown() {
        let mut stream = veiled(3);
        assert_eq!(withheld(&stream.next().await), 1);
        assert_eq!(stream.next().await, TurnEvent::Alive);
        assert_eq!(stream.next().await, TurnEvent::Alive);
        assert_eq!(withheld(&stream.next().await), 3);
        assert!(stream.held.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_growing_text_is_looked_through_at_most_every_pause() {
        let mut stream = veiled(100);
        assert_eq!(withheld(&stream.next().await), 1);
        for _ in 0..3 {
            assert_eq!(stream.next().await, TurnEvent::Alive);
        }
        tokio::time::advance(TEXT_PAUSE).await;
        assert_eq!(withheld(&stream.next().await), 5);
    }
}
