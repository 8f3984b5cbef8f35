//! An agent that answers at once, remembers every turn it was given, and fails on demand. It lives on when a
//! daemon goes, like a Codex behind its socket.

use bridge_core::port::{
    Agent, AgentError, ApprovalRequest, ItemNote, LostTurn, RecordedTurn, RequestKey, Responded,
    Started, Steer, Steered, ThreadFailure, ThreadSpec, TravellingThread, TurnEnd, TurnEvent,
    TurnHistory, TurnLookup, TurnSpec, TurnStatus, TurnStream,
};
use bridge_core::value::{
    Class, ClientId, Failure, IncarnationId, ItemId, MessageId, RequestDecision, RequestVerdict,
    ThreadId, Timestamp, TurnId, Usage,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// What goes wrong with the next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It is refused, and may work later.
    Refused,
    /// The account's limit is reached for a while.
    Limit,
    /// It is taken and answered, but nobody sees its end.
    Lost,
    /// Whether it was taken is not known; it was.
    InDoubt,
    /// It begins a command and takes this long.
    Slow(Duration),
    /// It begins a command, is lost from sight, and is found at work; then it takes this long.
    Adrift(Duration),
    /// The task that starts it panics; it was not taken.
    Panics,
    /// It is taken and answered, but the task that follows it panics.
    FollowerPanics,
}

/// What becomes of the next text for a running turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// It is taken.
    Taken,
    /// Nobody knows.
    InDoubt,
    /// Nothing is ever said.
    Silence,
}

#[derive(Debug, Default)]
struct Known {
    words: VecDeque<Word>,
    steered: Vec<String>,
    threads: u32,
    turns: Vec<(ThreadId, TurnId, ClientId, String)>,
    troubles: VecDeque<Trouble>,
    /// What the next turn asks.
    asks: Vec<ApprovalRequest>,
    /// Outcomes of the next answers; without one an answer is accepted.
    hears: VecDeque<Responded>,
    /// What it was answered.
    answers: Vec<RequestVerdict>,
    /// News of a slow turn that it tells when it looks next.
    later: VecDeque<TurnEvent>,
    /// What a look at a turn that is out of sight finds at work.
    adrift: Option<ScriptedStream>,
    /// What every turn costs.
    cost: Usage,
    /// How many looks at a lost turn panic.
    looks_panic: u32,
    /// How often a thread's file can't be read.
    unreadable: u32,
    /// How often a thread was stored.
    stored: u32,
}

/// The scripted agent.
#[derive(Clone, Debug, Default)]
pub(super) struct ScriptedAgent(Arc<Mutex<Known>>);

impl ScriptedAgent {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap()
    }

    pub(super) fn trouble(&self, trouble: Trouble) {
        self.known().troubles.push_back(trouble);
    }

    /// The next turn asks this when it begins; it ends in its own time.
    pub(super) fn asks(&self, asks: Vec<ApprovalRequest>, time: Duration) {
        self.known().asks = asks;
        self.trouble(Trouble::Slow(time));
    }

    /// The same, but the turn is lost from sight after it asked, and asks again when it is found.
    pub(super) fn asks_adrift(&self, asks: Vec<ApprovalRequest>, time: Duration) {
        self.known().asks = asks;
        self.trouble(Trouble::Adrift(time));
    }

    /// Whether a turn that is out of sight was not looked for yet.
    pub(super) fn is_adrift(&self) -> bool {
        self.known().adrift.is_some()
    }

    /// What becomes of the next answer.
    pub(super) fn hears(&self, outcome: Responded) {
        self.known().hears.push_back(outcome);
    }

    /// What it was answered so far.
    pub(super) fn answers(&self) -> Vec<RequestDecision> {
        let known = self.known();
        known.answers.iter().map(|said| said.decision).collect()
    }

    /// The words of these answers.
    pub(super) fn words(&self) -> Vec<String> {
        let known = self.known();
        let words = known.answers.iter().map(|said| said.answers.clone());
        words.flatten().collect()
    }

    /// So many looks at a lost turn panic.
    pub(super) fn looks_panic(&self, times: u32) {
        self.known().looks_panic = times;
    }

    /// Files of threads can't be read so many times.
    pub(super) fn hides_threads(&self, times: u32) {
        self.known().unreadable = times;
    }

    /// How often a thread was stored.
    pub(super) fn stored(&self) -> u32 {
        self.known().stored
    }

    /// A slow turn has news now.
    pub(super) fn tells(&self, event: TurnEvent) {
        self.known().later.push_back(event);
    }

    /// Every turn costs so many tokens from now on.
    pub(super) fn costs(&self, tokens: i64) {
        self.known().cost = Usage {
            input_tokens: tokens,
            output_tokens: 0,
        };
    }

    pub(super) fn says(&self, word: Word) {
        self.known().words.push_back(word);
    }

    /// Texts that were given to running turns.
    pub(super) fn steered(&self) -> Vec<String> {
        self.known().steered.clone()
    }

    /// How often a turn with this text was taken.
    pub(super) fn asked(&self, text: &str) -> usize {
        let known = self.known();
        let same = known.turns.iter().filter(|(_, _, _, asked)| asked == text);
        same.count()
    }
}

fn fault(class: Class) -> AgentError {
    AgentError::new(Failure::new(class, "as the script says"))
}

fn end(turn_id: TurnId, text: String, usage: Usage) -> TurnEvent {
    TurnEvent::Ended(TurnEnd {
        turn_id,
        status: TurnStatus::Completed,
        answer: Some(text),
        touched: false,
        received: Vec::new(),
        failure: None,
        usage,
    })
}

impl Agent for ScriptedAgent {
    type Stream = ScriptedStream;

    async fn ready(&self, _home: Option<&str>) -> Result<IncarnationId, AgentError> {
        Ok(IncarnationId::new("i"))
    }

    async fn open_thread(&self, _spec: &ThreadSpec) -> Result<ThreadId, AgentError> {
        let mut known = self.known();
        known.threads += 1;
        Ok(ThreadId::new(format!("t{}", known.threads)))
    }

    async fn resume_thread(&self, _: &ThreadId, _: &ThreadSpec) -> Result<(), AgentError> {
        Ok(())
    }

    async fn start_turn(&self, turn: &TurnSpec) -> Result<Started<ScriptedStream>, AgentError> {
        let mut known = self.known();
        let trouble = known.troubles.pop_front();
        match trouble {
            Some(Trouble::Refused) => return Err(fault(Class::Transient)),
            Some(Trouble::Limit) => {
                let until = Some(Timestamp(i64::MAX));
                let soon = crate::process::ids::now().plus_ms(60_000);
                return Err(fault(Class::Capacity {
                    until: until.map(|until| until.min(soon)),
                }));
            }
            Some(Trouble::Panics) => {
                drop(known);
                panic!("as the script says");
            }
            Some(
                Trouble::Lost
                | Trouble::InDoubt
                | Trouble::Slow(_)
                | Trouble::Adrift(_)
                | Trouble::FollowerPanics,
            )
            | None => {}
        }
        let turn_id = TurnId::new(format!("u{}", known.turns.len()));
        let text = turn.text.clone();
        known.turns.push((
            turn.thread.clone(),
            turn_id.clone(),
            turn.client_id.clone(),
            text.clone(),
        ));
        let event = match trouble {
            Some(Trouble::InDoubt) => return Err(fault(Class::Ambiguous)),
            Some(Trouble::Lost | Trouble::Adrift(_)) => TurnEvent::Lost {
                why: "as the script says".to_owned(),
            },
            Some(
                Trouble::Refused
                | Trouble::Limit
                | Trouble::Slow(_)
                | Trouble::Panics
                | Trouble::FollowerPanics,
            )
            | None => end(turn_id.clone(), text, known.cost),
        };
        let mut begun = VecDeque::from([command_began()]);
        let (first, ends) = match trouble {
            Some(Trouble::Slow(time)) => {
                begun.extend(known.asks.drain(..).map(TurnEvent::Request));
                (begun, Some(Instant::now() + time))
            }
            Some(Trouble::Adrift(time)) => {
                begun.extend(known.asks.drain(..).map(TurnEvent::Request));
                known.adrift = Some(ScriptedStream {
                    first: begun.clone(),
                    ends: Some(Instant::now() + time),
                    last: Some(end(turn_id.clone(), turn.text.clone(), known.cost)),
                    panics: false,
                    agent: self.clone(),
                });
                (begun, None)
            }
            Some(
                Trouble::Refused
                | Trouble::Limit
                | Trouble::Lost
                | Trouble::InDoubt
                | Trouble::Panics
                | Trouble::FollowerPanics,
            )
            | None => (VecDeque::new(), None),
        };
        let stream = ScriptedStream {
            first,
            ends,
            last: Some(event),
            panics: trouble == Some(Trouble::FollowerPanics),
            agent: self.clone(),
        };
        Ok(Started { turn_id, stream })
    }

    async fn look_up(&self, lost: &LostTurn) -> Result<TurnLookup<ScriptedStream>, AgentError> {
        let mut known = self.known();
        if known.looks_panic > 0 {
            known.looks_panic -= 1;
            drop(known);
            panic!("as the script says");
        }
        let stream = known.adrift.take();
        let (status, over) = match stream {
            Some(_) => (TurnStatus::InProgress, false),
            None => (TurnStatus::Completed, true),
        };
        let ours = known
            .turns
            .iter()
            .find(|(_, _, client_id, _)| *client_id == lost.turn.client_id);
        let found = match ours {
            None => TurnHistory::Absent,
            Some((_, turn_id, client_id, text)) => TurnHistory::Turn(RecordedTurn {
                turn_id: turn_id.clone(),
                status,
                answer: over.then(|| text.clone()),
                effects: Vec::new(),
                received: vec![client_id.clone()],
                failure: None,
            }),
        };
        Ok(TurnLookup { found, stream })
    }

    async fn respond(
        &self,
        _: &RequestKey,
        verdict: &RequestVerdict,
    ) -> Result<Responded, AgentError> {
        let mut known = self.known();
        known.answers.push(verdict.clone());
        Ok(known.hears.pop_front().unwrap_or(Responded::Delivered))
    }

    async fn end_life(&self, _thread: &ThreadId, _why: &str) {}

    async fn probe(&self, _thread: &ThreadId) -> Result<(), AgentError> {
        Ok(())
    }

    async fn steer(&self, steer: &Steer) -> Result<Steered, AgentError> {
        let word = {
            let mut known = self.known();
            known.steered.push(steer.text.clone());
            known.words.pop_front()
        };
        match word {
            Some(Word::Taken) => Ok(Steered::Taken),
            Some(Word::InDoubt) => Err(fault(Class::Ambiguous)),
            Some(Word::Silence) => std::future::pending().await,
            None => {
                let why = "no turn runs".to_owned();
                Ok(Steered::Refused { why })
            }
        }
    }

    async fn interrupt(&self, _: &ThreadId, _: &TurnId) -> Result<(), AgentError> {
        Ok(())
    }

    async fn store_thread(&self, _: &TravellingThread, _: &MessageId) -> Result<(), AgentError> {
        let mut known = self.known();
        if known.unreadable > 0 {
            known.unreadable -= 1;
            return Err(AgentError {
                thread: Some(ThreadFailure::Damaged),
                ..fault(Class::Transient)
            });
        }
        known.stored += 1;
        Ok(())
    }
}

/// What the command of a slow turn is called.
pub(super) const COMMAND: &str = "$ cargo test";

fn command_began() -> TurnEvent {
    TurnEvent::Item(ItemNote {
        item_id: ItemId::new("command"),
        kind: "commandExecution".to_owned(),
        completed: false,
        headline: COMMAND.to_owned(),
        effect: true,
        diff: None,
        output: None,
        declined: false,
    })
}

/// The news of a turn: it ends at once, or begins something and ends later.
#[derive(Debug)]
pub(super) struct ScriptedStream {
    first: VecDeque<TurnEvent>,
    ends: Option<Instant>,
    last: Option<TurnEvent>,
    panics: bool,
    agent: ScriptedAgent,
}

impl TurnStream for ScriptedStream {
    async fn next(&mut self) -> TurnEvent {
        assert!(!self.panics, "as the script says");
        if let Some(first) = self.first.pop_front() {
            return first;
        }
        if let Some(ends) = self.ends {
            // The turn's own time, which is virtual.
            let mut look = tokio::time::interval(Duration::from_secs(1));
            while Instant::now() < ends {
                if let Some(event) = self.agent.known().later.pop_front() {
                    return event;
                }
                look.tick().await;
            }
        }
        match self.last.take() {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }
}
