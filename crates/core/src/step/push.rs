//! Push configurations of tasks: where an owner wants to be told, and the telling. Its intent is on disk before the
//! send, what was taken is a mark that only moves forward, and a receiver that is away for too long is given up.

use super::note::event;
use super::notify::next_try;
use super::{Action, Decision, Refused, Staged};
use crate::limits;
use crate::port::{Change, Read, RowsError};
use crate::task_events::{FROM_NOW, TaskEvent, Timeline, behind};
use crate::value::{EventKind, Failure, Push, PushState, TaskId, Timestamp};

/// Keeps where the owner of a task wants to be told of it.
#[derive(Clone, Debug)]
pub struct PutPush {
    /// The configuration. Without a mark everything is told, with [`FROM_NOW`] what comes from now on; one that takes
    /// the place of another goes on where that one was.
    pub push: Push,
    pub by: String,
}

/// What became of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushStored {
    /// It is on disk.
    Stored,
    /// There is no such task of this owner; nothing was stored.
    Unknown,
    /// There are too many; nothing was stored.
    Full {
        /// So many may be.
        max: u32,
        /// In what.
        of: &'static str,
    },
}

/// The rows that decide.
#[derive(Debug)]
pub struct PutView {
    timeline: Option<Timeline>,
    there: usize,
    replaced: Option<Push>,
    held: u64,
}

impl Staged for PutPush {
    type View = PutView;
    type Outcome = PushStored;
    const NAME: &'static str = "put_push";

    fn load(&self, rows: &dyn Read) -> Result<PutView, RowsError> {
        let id = &self.push.task_id;
        Ok(PutView {
            timeline: Timeline::load(rows, id)?,
            there: rows.pushes_of(id)?.len(),
            replaced: rows.push(id, &self.push.config_id)?,
            held: rows.pushes_held(&self.by)?,
        })
    }

    fn decide(self, view: PutView, _now: Timestamp) -> Result<Decision<PushStored>, Refused> {
        let timeline = view
            .timeline
            .filter(|timeline| timeline.view.task.owner == self.by);
        let Some(timeline) = timeline else {
            return Ok(Decision::nothing(PushStored::Unknown));
        };
        let full = |max, of| Ok(Decision::nothing(PushStored::Full { max, of }));
        let new = view.replaced.is_none();
        let opened = !view.replaced.as_ref().is_some_and(|it| it.state.is_open());
        if new && view.there >= limits::PUSHES_PER_TASK_MAX as usize {
            return full(limits::PUSHES_PER_TASK_MAX, "one task");
        }
        if opened && view.held >= u64::from(limits::PUSHES_PER_OWNER_MAX) {
            return full(
                limits::PUSHES_PER_OWNER_MAX,
                "unfinished tasks of one agent",
            );
        }
        let mark = match (view.replaced, self.push.mark.as_deref()) {
            (Some(before), _) => before.mark,
            (None, Some(FROM_NOW)) => timeline
                .task_events()
                .pop()
                .map(|task_event| task_event.mark),
            (None, _) => self.push.mark,
        };
        let push = Push {
            state: PushState::Waiting { not_before: None },
            mark,
            tries: 0,
            first_try_at: None,
            error: None,
            ..self.push
        };
        Ok(Decision {
            changes: vec![Change::PutPush(push)],
            actions: Vec::new(),
            outcome: PushStored::Stored,
        })
    }
}

/// Forgets a configuration.
#[derive(Clone, Debug)]
pub struct DropPush {
    pub task_id: TaskId,
    pub config_id: String,
    pub by: String,
}

impl Staged for DropPush {
    type View = (bool, bool);
    /// Whether `by` has such a task; a configuration that is not there is fine.
    type Outcome = bool;
    const NAME: &'static str = "drop_push";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        let task = rows.a2a_task(&self.task_id)?;
        let own = task.is_some_and(|task| task.owner == self.by);
        let there = rows.push(&self.task_id, &self.config_id)?.is_some();
        Ok((own, there))
    }

    fn decide(self, (own, there): (bool, bool), _: Timestamp) -> Result<Decision<bool>, Refused> {
        let gone = (own && there).then_some(Change::DropPush {
            task_id: self.task_id,
            config: self.config_id,
        });
        Ok(Decision {
            changes: gone.into_iter().collect(),
            actions: Vec::new(),
            outcome: own,
        })
    }
}

/// Begins to tell the next thing.
#[derive(Clone, Debug)]
pub struct PushBegin {
    pub task_id: TaskId,
    /// Through which configuration.
    pub config_id: String,
}

/// What is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushStep {
    /// Tell it now.
    Send(Box<Telling>),
    /// Not before this.
    Later(Timestamp),
    /// There is nothing to tell.
    Nothing,
}

/// One thing that is told now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telling {
    /// Where to, with the try counted.
    pub push: Push,
    pub task_event: TaskEvent,
    pub timeline: Timeline,
}

impl Staged for PushBegin {
    type View = Option<(Push, Timeline)>;
    type Outcome = PushStep;
    const NAME: &'static str = "push_begin";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        let push = rows.push(&self.task_id, &self.config_id)?;
        let timeline = Timeline::load(rows, &self.task_id)?;
        Ok(push.zip(timeline))
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<PushStep>, Refused> {
        let Some((push, timeline)) = view else {
            return Ok(Decision::nothing(PushStep::Nothing));
        };
        let task_events = timeline.task_events();
        let next = behind(&task_events, push.mark.as_deref()).cloned();
        match (push.state, next) {
            (PushState::Dead { .. }, _) => Ok(Decision::nothing(PushStep::Nothing)),
            (PushState::Closed, None) => Ok(Decision::nothing(PushStep::Nothing)),
            (PushState::Waiting { .. } | PushState::Sending, None) => Ok(rests(push, &timeline)),
            (
                PushState::Waiting {
                    not_before: Some(at),
                },
                Some(_),
            ) if at > now => Ok(Decision::nothing(PushStep::Later(at))),
            (
                PushState::Waiting { .. } | PushState::Sending | PushState::Closed,
                Some(task_event),
            ) => {
                let push = Push {
                    state: PushState::Sending,
                    tries: push.tries.saturating_add(1),
                    first_try_at: Some(push.first_try_at.unwrap_or(now)),
                    ..push
                };
                Ok(Decision {
                    changes: vec![Change::PutPush(push.clone())],
                    actions: Vec::new(),
                    outcome: PushStep::Send(Box::new(Telling {
                        push,
                        task_event,
                        timeline,
                    })),
                })
            }
        }
    }
}

/// Whether [`PushBegin`] would tell something, or close it. Asked of rows before a place among those who are called is
/// taken, and before anything is written.
#[must_use]
pub fn push_has_work(push: &Push, timeline: &Timeline) -> bool {
    let more = || behind(&timeline.task_events(), push.mark.as_deref()).is_some();
    match push.state {
        PushState::Waiting { .. } => timeline.over() || more(),
        PushState::Sending => true,
        PushState::Closed => more(),
        PushState::Dead { .. } => false,
    }
}

/// Everything was told: of a task that is over, nothing more comes.
fn rests(push: Push, timeline: &Timeline) -> Decision<PushStep> {
    let state = quiet(timeline);
    let change = (push.state != state).then_some(Change::PutPush(Push {
        state,
        tries: 0,
        first_try_at: None,
        ..push
    }));
    Decision {
        changes: change.into_iter().collect(),
        actions: Vec::new(),
        outcome: PushStep::Nothing,
    }
}

fn quiet(timeline: &Timeline) -> PushState {
    if timeline.over() {
        PushState::Closed
    } else {
        PushState::Waiting { not_before: None }
    }
}

/// Journals what became of a send.
#[derive(Clone, Debug)]
pub struct PushEnd {
    pub task_id: TaskId,
    /// Through which configuration.
    pub config_id: String,
    /// What was told.
    pub mark: String,
    /// Why it was not taken.
    pub failure: Option<Failure>,
    /// Random number in 0..=1000.
    pub jitter: u16,
}

/// The rows that decide.
#[derive(Debug)]
pub struct EndView {
    push: Option<Push>,
    timeline: Option<Timeline>,
    last_event: u32,
}

impl Staged for PushEnd {
    type View = EndView;
    /// How far the configuration is now; nothing when its owner put another one there, or took it away.
    type Outcome = Option<PushState>;
    const NAME: &'static str = "push_end";

    fn load(&self, rows: &dyn Read) -> Result<EndView, RowsError> {
        let timeline = Timeline::load(rows, &self.task_id)?;
        let last = timeline
            .as_ref()
            .and_then(|timeline| timeline.view.messages.last());
        Ok(EndView {
            last_event: match last {
                Some(last) => rows.last_event(&last.message.message_id)?,
                None => 0,
            },
            push: rows.push(&self.task_id, &self.config_id)?,
            timeline,
        })
    }

    fn decide(self, view: EndView, now: Timestamp) -> Result<Decision<Option<PushState>>, Refused> {
        let push = view.push.filter(|push| push.state == PushState::Sending);
        let (Some(push), Some(timeline)) = (push, view.timeline) else {
            return Ok(Decision::nothing(None));
        };
        let Some(failure) = self.failure else {
            let more = behind(&timeline.task_events(), Some(&self.mark)).is_some();
            let state = if more {
                PushState::Waiting { not_before: None }
            } else {
                quiet(&timeline)
            };
            let push = Push {
                state,
                mark: Some(self.mark),
                tries: 0,
                first_try_at: None,
                error: None,
                ..push
            };
            return Ok(Decision {
                changes: vec![Change::PutPush(push)],
                actions: Vec::new(),
                outcome: Some(state),
            });
        };
        let again = next_try(&failure, push.tries, push.first_try_at, self.jitter, now);
        let state = match again {
            Some(at) => PushState::Waiting {
                not_before: Some(at),
            },
            None => PushState::Dead { at: now },
        };
        let (mut changes, mut actions) = (Vec::new(), Vec::new());
        if again.is_none()
            && let Some(last) = timeline.view.messages.last()
        {
            let text = given_up(&push, &failure);
            changes.extend(event(
                &last.message,
                view.last_event,
                EventKind::Bridge,
                &text,
                now,
            ));
            actions.push(Action::Announce {
                message_id: last.message.message_id.clone(),
            });
        }
        changes.push(Change::PutPush(Push {
            state,
            error: Some(limits::clip(&failure.reason, limits::REASON_MAX_CHARS)),
            ..push
        }));
        Ok(Decision {
            changes,
            actions,
            outcome: Some(state),
        })
    }
}

/// What people read. An address may hold a secret, so it is not in it.
fn given_up(push: &Push, failure: &Failure) -> String {
    let (id, tries, why) = (&push.config_id, push.tries, &failure.reason);
    let tries = match tries {
        1 => "1 try".to_owned(),
        tries => format!("{tries} tries"),
    };
    format!(
        "push notifications through {id:?} are given up after {tries}: {why}; the task itself can be read as before, and setting the configuration again begins anew"
    )
}
