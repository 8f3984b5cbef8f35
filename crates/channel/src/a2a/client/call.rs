//! One question to another agent, followed to its end: sent once, read as a stream where the card offers one, taken up
//! again after a lost connection, and asked about where nothing is streamed.

use super::agent::{CALL_DEADLINE, RemoteAgent, Stream};
use super::answer::{AgentAnswer, AnswerBuilder};
use super::dialect::{SendMode, TaskOperation};
use super::error::AgentCallError;
use super::event::{self, AgentEvent, AgentTaskState};
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
pub enum AnswerWait {
    /// Until the other side has it.
    Taken,
    /// Until it ended or waits for somebody, or for so long.
    For(Duration),
    /// Until it ended or asks us something, or for so long: what somebody over there must allow first is waited for.
    Through(Duration),
}

/// How it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallProgress<'a> {
    /// The other side made a task of it.
    Task(&'a str),
    /// The task stands so now, and this was said about it.
    State(AgentTaskState, Option<&'a str>),
    /// A piece of the result.
    Text(&'a str),
    /// The connection was lost, and is made again.
    Lost(&'a AgentCallError),
}

/// Who hears how it goes.
type ProgressWatch<'a> = &'a mut (dyn FnMut(CallProgress<'_>) + Send);

/// A question under way.
#[derive(Debug)]
pub struct RemoteCall {
    peer: RemoteAgent,
    question: AgentQuestion,
    answer: AnswerBuilder,
    /// Something may have been missed.
    gaps: bool,
    /// What somebody over there must allow first is waited for.
    through: bool,
}

impl RemoteCall {
    /// A question to an agent.
    #[must_use]
    pub fn new(peer: RemoteAgent, mut question: AgentQuestion) -> Self {
        question.keyed = peer.is_idempotent();
        Self {
            peer,
            question,
            answer: AnswerBuilder::default(),
            gaps: false,
            through: false,
        }
    }

    /// Says it, and waits. Dropping this leaves the other side at work; see [`RemoteCall::cancel`].
    pub async fn run(
        &mut self,
        patience: AnswerWait,
        watch: ProgressWatch<'_>,
    ) -> Result<AgentAnswer, AgentCallError> {
        match patience {
            AnswerWait::Taken => {
                self.begin(SendMode::Once, watch).await?;
                Ok(self.answer.outcome())
            }
            AnswerWait::For(time) | AnswerWait::Through(time) => {
                self.through = patience == AnswerWait::Through(time);
                match tokio::time::timeout(time, self.pursue(watch)).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err(AgentCallError::Late(time)),
                }
            }
        }
    }

    /// How it stands, as far as is known.
    #[must_use]
    pub fn state(&self) -> AgentTaskState {
        self.answer.state()
    }

    /// Nothing more comes that is waited for.
    fn is_settled(&self) -> bool {
        let theirs = self.answer.state() == AgentTaskState::AuthRequired;
        self.answer.is_settled() || (theirs && !self.through)
    }

    /// The task that the other side made of it, as far as is known.
    #[must_use]
    pub fn task(&self) -> Option<&str> {
        self.answer.task()
    }

    /// Cancels it at the other side; returns whether the agent accepted that.
    pub async fn cancel(&mut self) -> Result<(), AgentCallError> {
        let ending = async {
            if self.answer.task().is_none() && self.question.keyed {
                // The agent may have it already, and recognises the repeat.
                self.say_once(&mut |_| {}).await?;
            }
            match self.answer.task() {
                Some(_) if self.answer.state().is_over() => Ok(()),
                Some(task) => {
                    let request = self.peer.interface().about(task, TaskOperation::Cancel);
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

    async fn pursue(&mut self, watch: ProgressWatch<'_>) -> Result<AgentAnswer, AgentCallError> {
        let mode = if self.peer.streams() {
            SendMode::Stream
        } else {
            SendMode::Once
        };
        self.begin(mode, watch).await?;
        self.wait(watch).await?;
        if self.gaps {
            // The whole task once more; the stream's own events will do where that fails.
            let _looked = self.look(watch).await;
        }
        Ok(self.answer.outcome())
    }

    /// Says it until it is known what the other side made of it.
    async fn begin(
        &mut self,
        mode: SendMode,
        watch: ProgressWatch<'_>,
    ) -> Result<(), AgentCallError> {
        let mut backoff = Backoff::default();
        for tries in 1.. {
            let said = match mode {
                SendMode::Stream => self.say_and_hear(watch).await,
                SendMode::Once => self.say_once(watch).await,
            };
            let error = match said {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if self.answer.task().is_some() {
                self.lost(&error, watch);
                return Ok(());
            }
            if tries >= TRIES_MAX || !error.is_passing(self.question.keyed) {
                return Err(error);
            }
            watch(CallProgress::Lost(&error));
            tokio::time::sleep(pause_after(&error, &mut backoff)).await;
        }
        Ok(())
    }

    async fn say_once(&mut self, watch: ProgressWatch<'_>) -> Result<(), AgentCallError> {
        let request = self.peer.interface().say(&self.question, SendMode::Once);
        // An agent that does not know how to answer at once answers when it is done; the caller's patience is the bound.
        let answer = self.peer.call(request, LONGEST_ANSWER).await?;
        match event::event(&answer) {
            Some(event) => self.take(event, watch),
            None => Err(AgentCallError::Unreadable(
                "it is neither a task nor a message".to_owned(),
            )),
        }
    }

    async fn say_and_hear(&mut self, watch: ProgressWatch<'_>) -> Result<(), AgentCallError> {
        let request = self.peer.interface().say(&self.question, SendMode::Stream);
        let stream = self.peer.stream(request).await?;
        self.hear(stream, watch).await?;
        if self.answer.task().is_some() || self.is_settled() {
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
        watch: ProgressWatch<'_>,
    ) -> Result<(), AgentCallError> {
        while let Some(value) = stream.next().await? {
            if let Some(event) = event::event(&value) {
                self.take(event, watch)?;
            }
            if self.is_settled() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn take(&mut self, event: AgentEvent, watch: ProgressWatch<'_>) -> Result<(), AgentCallError> {
        let known = self.answer.task().is_some();
        let stood = self.answer.state();
        if let AgentEvent::Artifact { artifact, .. } = &event {
            watch(CallProgress::Text(&artifact.content.text));
        }
        self.answer.take(event)?;
        if let Some(task) = self.answer.task().filter(|_| !known) {
            watch(CallProgress::Task(task));
        }
        if self.answer.state() != stood {
            watch(CallProgress::State(
                self.answer.state(),
                self.answer.remark(),
            ));
        }
        Ok(())
    }

    fn lost(&mut self, error: &AgentCallError, watch: ProgressWatch<'_>) {
        self.gaps = true;
        watch(CallProgress::Lost(error));
    }

    /// Waits until the task is settled: by its stream where there is one, else by looking.
    async fn wait(&mut self, watch: ProgressWatch<'_>) -> Result<(), AgentCallError> {
        let mut streams = self.peer.streams();
        let mut losses = 0;
        let mut pause = LOOK_FIRST;
        while !self.is_settled() {
            if streams {
                match self.subscribe(watch).await {
                    Ok(()) => {}
                    // It is over, or this agent knows no such thing: looking tells.
                    Err(AgentCallError::Refused { later: None, .. }) => streams = false,
                    Err(error) => self.lost(&error, watch),
                }
                if self.is_settled() {
                    return Ok(());
                }
            }
            match self.look(watch).await {
                Ok(()) => losses = 0,
                Err(error) => {
                    losses += 1;
                    self.lost(&error, watch);
                    if losses >= LOSSES_MAX || !error.is_passing(true) {
                        return Err(error);
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

    async fn subscribe(&mut self, watch: ProgressWatch<'_>) -> Result<(), AgentCallError> {
        let Some(task) = self.answer.task() else {
            return Ok(());
        };
        let request = self.peer.interface().about(task, TaskOperation::Subscribe);
        // What was said between the streams is in the task that is looked at, at the end at the latest.
        self.gaps = true;
        let stream = self.peer.stream(request).await?;
        self.hear(stream, watch).await
    }

    async fn look(&mut self, watch: ProgressWatch<'_>) -> Result<(), AgentCallError> {
        let Some(task) = self.answer.task() else {
            return Ok(());
        };
        let request = self.peer.interface().about(task, TaskOperation::Get);
        let answer = self.peer.call(request, CALL_DEADLINE).await?;
        match event::task(&answer) {
            Some(seen) => {
                self.gaps = false;
                self.take(AgentEvent::Task(seen), watch)
            }
            None => Err(AgentCallError::Unreadable("it is no task".to_owned())),
        }
    }
}

/// How long an agent may take to answer a message that it should have answered at once.
const LONGEST_ANSWER: Duration = Duration::from_secs(3_600);

pub(super) fn pause_after(error: &AgentCallError, backoff: &mut Backoff) -> Duration {
    match error {
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
