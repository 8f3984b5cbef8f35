//! One question to another agent, followed to its end: sent once, read as a stream where the card offers one, taken up
//! again after a lost connection, and asked about where nothing is streamed.

use super::dialect::{About, Saying};
use super::fault::AgentCallError;
use super::read::{self, Event, State};
use super::tale::{AskOutcome, Tale};
use super::wire::{CALL_DEADLINE, Peer, Stream};
use crate::poll::Backoff;
use std::time::Duration;

/// How often a call that did not work out is made again.
pub(super) const TRIES_MAX: u32 = 5;
/// How often in a row a task may be out of sight before it is given up.
const LOSSES_MAX: u32 = 10;
/// First pause between two looks at a task that is not streamed; doubles up to [`LOOK_MAX`].
const LOOK_FIRST: Duration = Duration::from_millis(500);
const LOOK_MAX: Duration = Duration::from_secs(10);
/// How long the end of a task over there may take that nobody here waits for any more.
const CANCEL_DEADLINE: Duration = Duration::from_secs(10);
/// Longest pause that an agent may ask for.
const LATER_MAX: Duration = Duration::from_secs(60);

/// What is said.
#[derive(Clone, Debug)]
pub struct AgentQuestion {
    /// The words.
    pub text: String,
    /// Ours; a repeat of the same question has the same.
    pub message_id: String,
    /// The talk that it belongs to.
    pub context: Option<String>,
    /// The task that it answers.
    pub task: Option<String>,
    /// How many agents answered each other before it.
    pub hops: u32,
    /// Whether the other side recognises a repeat.
    pub(super) keyed: bool,
}

impl AgentQuestion {
    /// A question that begins a talk.
    #[must_use]
    pub fn new(text: impl Into<String>, message_id: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            message_id: message_id.into(),
            context: None,
            task: None,
            hops: 0,
            keyed: false,
        }
    }
}

/// How long an answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskPatience {
    /// Until the other side has it.
    Taken,
    /// Until it ended or waits for somebody, or for so long.
    For(Duration),
    /// Until it ended or asks us something, or for so long: what somebody over there must allow first is waited for.
    Through(Duration),
}

/// How it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskProgress<'a> {
    /// The other side made a task of it.
    Task(&'a str),
    /// The task stands so now, and this was said about it.
    State(State, Option<&'a str>),
    /// A piece of the result.
    Text(&'a str),
    /// The connection was lost, and is made again.
    Lost(&'a AgentCallError),
}

/// Who hears how it goes.
type AskWatch<'a> = &'a mut (dyn FnMut(AskProgress<'_>) + Send);

/// A question under way.
#[derive(Debug)]
pub struct Ask {
    peer: Peer,
    question: AgentQuestion,
    tale: Tale,
    /// Something may have been missed.
    gaps: bool,
    /// What somebody over there must allow first is waited for.
    through: bool,
}

impl Ask {
    /// A question to an agent.
    #[must_use]
    pub fn new(peer: Peer, mut question: AgentQuestion) -> Self {
        question.keyed = peer.is_idempotent();
        Self {
            peer,
            question,
            tale: Tale::default(),
            gaps: false,
            through: false,
        }
    }

    /// Says it, and waits. Dropping this leaves the other side at work; see [`Ask::cancel`].
    pub async fn run(
        &mut self,
        patience: AskPatience,
        watch: AskWatch<'_>,
    ) -> Result<AskOutcome, AgentCallError> {
        match patience {
            AskPatience::Taken => {
                self.begin(Saying::Once, watch).await?;
                Ok(self.tale.outcome())
            }
            AskPatience::For(time) | AskPatience::Through(time) => {
                self.through = patience == AskPatience::Through(time);
                match tokio::time::timeout(time, self.pursue(watch)).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err(AgentCallError::Late(time)),
                }
            }
        }
    }

    /// How it stands, as far as is known.
    #[must_use]
    pub fn state(&self) -> State {
        self.tale.state()
    }

    /// Nothing more comes that is waited for.
    fn is_settled(&self) -> bool {
        let theirs = self.tale.state() == State::AuthRequired;
        self.tale.is_settled() || (theirs && !self.through)
    }

    /// The task that the other side made of it, as far as is known.
    #[must_use]
    pub fn task(&self) -> Option<&str> {
        self.tale.task()
    }

    /// Cancels it at the other side; returns whether the agent accepted that.
    pub async fn cancel(&mut self) -> Result<(), AgentCallError> {
        let ending = async {
            if self.tale.task().is_none() && self.question.keyed {
                // The agent may have it already, and recognises the repeat.
                self.say_once(&mut |_| {}).await?;
            }
            match self.tale.task() {
                Some(_) if self.tale.state().is_over() => Ok(()),
                Some(task) => {
                    let request = self.peer.interface().about(task, About::Cancel);
                    self.peer.call(request, CANCEL_DEADLINE).await.map(drop)
                }
                None => Ok(()),
            }
        };
        match tokio::time::timeout(CANCEL_DEADLINE, ending).await {
            Ok(ended) => ended,
            Err(_) => Err(AgentCallError::Late(CANCEL_DEADLINE)),
        }
    }

    async fn pursue(&mut self, watch: AskWatch<'_>) -> Result<AskOutcome, AgentCallError> {
        let saying = if self.peer.streams() {
            Saying::Stream
        } else {
            Saying::Once
        };
        self.begin(saying, watch).await?;
        self.wait(watch).await?;
        if self.gaps {
            // The whole task once more; the stream's own events will do where that fails.
            let _looked = self.look(watch).await;
        }
        Ok(self.tale.outcome())
    }

    /// Says it until it is known what the other side made of it.
    async fn begin(&mut self, saying: Saying, watch: AskWatch<'_>) -> Result<(), AgentCallError> {
        let mut backoff = Backoff::default();
        for tries in 1.. {
            let said = match saying {
                Saying::Stream => self.say_and_hear(watch).await,
                Saying::Once => self.say_once(watch).await,
            };
            let fault = match said {
                Ok(()) => return Ok(()),
                Err(fault) => fault,
            };
            if self.tale.task().is_some() {
                self.lost(&fault, watch);
                return Ok(());
            }
            if tries >= TRIES_MAX || !fault.is_passing(self.question.keyed) {
                return Err(fault);
            }
            watch(AskProgress::Lost(&fault));
            tokio::time::sleep(pause_after(&fault, &mut backoff)).await;
        }
        Ok(())
    }

    async fn say_once(&mut self, watch: AskWatch<'_>) -> Result<(), AgentCallError> {
        let request = self.peer.interface().say(&self.question, Saying::Once);
        // An agent that does not know how to answer at once answers when it is done; the caller's patience is the bound.
        let answer = self.peer.call(request, LONGEST_ANSWER).await?;
        match read::event(&answer) {
            Some(event) => self.take(event, watch),
            None => Err(AgentCallError::Unreadable(
                "it is neither a task nor a message".to_owned(),
            )),
        }
    }

    async fn say_and_hear(&mut self, watch: AskWatch<'_>) -> Result<(), AgentCallError> {
        let request = self.peer.interface().say(&self.question, Saying::Stream);
        let stream = self.peer.stream(request).await?;
        self.hear(stream, watch).await?;
        if self.tale.task().is_some() || self.is_settled() {
            Ok(())
        } else {
            Err(AgentCallError::Broken(
                "it closed the stream without a word".to_owned(),
            ))
        }
    }

    /// Hears a stream to its end.
    async fn hear(
        &mut self,
        mut stream: Stream,
        watch: AskWatch<'_>,
    ) -> Result<(), AgentCallError> {
        while let Some(value) = stream.next().await? {
            if let Some(event) = read::event(&value) {
                self.take(event, watch)?;
            }
            if self.is_settled() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Event, watch: AskWatch<'_>) -> Result<(), AgentCallError> {
        let known = self.tale.task().is_some();
        let stood = self.tale.state();
        if let Event::Artifact { artifact, .. } = &event {
            watch(AskProgress::Text(&artifact.said.text));
        }
        self.tale.take(event)?;
        if let Some(task) = self.tale.task().filter(|_| !known) {
            watch(AskProgress::Task(task));
        }
        if self.tale.state() != stood {
            watch(AskProgress::State(self.tale.state(), self.tale.remark()));
        }
        Ok(())
    }

    fn lost(&mut self, fault: &AgentCallError, watch: AskWatch<'_>) {
        self.gaps = true;
        watch(AskProgress::Lost(fault));
    }

    /// Waits until the task is settled: by its stream where there is one, else by looking.
    async fn wait(&mut self, watch: AskWatch<'_>) -> Result<(), AgentCallError> {
        let mut streams = self.peer.streams();
        let mut losses = 0;
        let mut pause = LOOK_FIRST;
        while !self.is_settled() {
            if streams {
                match self.subscribe(watch).await {
                    Ok(()) => {}
                    // It is over, or this agent knows no such thing: looking tells.
                    Err(AgentCallError::Refused { later: None, .. }) => streams = false,
                    Err(fault) => self.lost(&fault, watch),
                }
                if self.is_settled() {
                    return Ok(());
                }
            }
            match self.look(watch).await {
                Ok(()) => losses = 0,
                Err(fault) => {
                    losses += 1;
                    self.lost(&fault, watch);
                    if losses >= LOSSES_MAX || !fault.is_passing(true) {
                        return Err(fault);
                    }
                }
            }
            if !self.is_settled() {
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(2).min(LOOK_MAX);
            }
        }
        Ok(())
    }

    async fn subscribe(&mut self, watch: AskWatch<'_>) -> Result<(), AgentCallError> {
        let Some(task) = self.tale.task() else {
            return Ok(());
        };
        let request = self.peer.interface().about(task, About::Subscribe);
        // What was said between the streams is in the task that is looked at, at the end at the latest.
        self.gaps = true;
        let stream = self.peer.stream(request).await?;
        self.hear(stream, watch).await
    }

    async fn look(&mut self, watch: AskWatch<'_>) -> Result<(), AgentCallError> {
        let Some(task) = self.tale.task() else {
            return Ok(());
        };
        let request = self.peer.interface().about(task, About::Get);
        let answer = self.peer.call(request, CALL_DEADLINE).await?;
        match read::task(&answer) {
            Some(seen) => {
                self.gaps = false;
                self.take(Event::Task(seen), watch)
            }
            None => Err(AgentCallError::Unreadable("it is no task".to_owned())),
        }
    }
}

/// How long an agent may take to answer a message that it should have answered at once.
const LONGEST_ANSWER: Duration = Duration::from_secs(3_600);

pub(super) fn pause_after(fault: &AgentCallError, backoff: &mut Backoff) -> Duration {
    match fault {
        AgentCallError::Refused {
            later: Some(Some(after)),
            ..
        } => (*after).min(LATER_MAX),
        AgentCallError::Refused { .. }
        | AgentCallError::Address(_)
        | AgentCallError::Card(_)
        | AgentCallError::Token(_)
        | AgentCallError::Unreached(_)
        | AgentCallError::Broken(_)
        | AgentCallError::Unreadable(_)
        | AgentCallError::Late(_) => backoff.next(),
    }
}
