//! Plays the shapes on one Codex and records what it does.

use super::ReplayCost;
use super::shape::{COMMANDS_MAX, ConversationShape, TURNS_MAX, TurnShape, filler};
use crate::app_server::connection::CallError;
use crate::keeper::launch::LaunchOptions;
use crate::process::cost::ProcessCost;
use crate::self_check::private_codex::PrivateCodex;
use crate::self_check::responder::{ModelStep, Responder};
use crate::self_check::turn_record::{TurnPlan, TurnRecord, listed_items};
use crate::self_check::{CheckError, Finding, Room, thread};
use crate::thread::operator_config::OperatorConfig;
use crate::thread::settings;
use bridge_codex::wire::Turn;
use bridge_codex::wire::method::ThreadResume;
use bridge_codex::wire::thread::ThreadResumeParams;
use bridge_codex::wire::values::SortDirection;
use bridge_core::port::ThreadSpec;
use bridge_core::value::{ApprovalPolicy, Sandbox, ThreadId};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

/// Members of a thread's settings that differ from one run to the next.
const OF_THE_RUN: [&str; 2] = ["thread", "cwd"];
/// Stands for the directory of the run.
const ROOT: &str = "DIRECTORY";

/// What one Codex did with all conversations.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) conversations: Vec<PlayedConversation>,
    /// Notifications by their method, and those of them that this bridge does not read.
    pub(super) notifications: BTreeMap<String, u64>,
    pub(super) unknown: BTreeSet<String>,
    pub(super) findings: BTreeSet<Finding>,
    pub(super) cost: ReplayCost,
    /// Why it went no further.
    pub(super) failure: Option<String>,
}

/// One conversation.
#[derive(Debug, Default)]
pub(super) struct PlayedConversation {
    /// What Codex says of the settings of its thread.
    pub(super) settings: BTreeMap<String, Value>,
    pub(super) complaint: Option<String>,
    pub(super) turns: Vec<PlayedTurn>,
    /// What the next process reads of each turn.
    pub(super) history: Vec<String>,
}

/// One turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlayedTurn {
    pub(super) end: String,
    /// Whether the answer is the one that the model gave.
    pub(super) answered: bool,
    pub(super) requests: Vec<String>,
    pub(super) items: Vec<String>,
    pub(super) statuses: Vec<String>,
    pub(super) notifications: BTreeMap<String, u64>,
    pub(super) findings: Vec<Finding>,
}

impl Played {
    pub(super) fn turns(&self) -> u64 {
        let turns = self.conversations.iter().map(|one| one.turns.len());
        u64::try_from(turns.sum::<usize>()).unwrap_or(u64::MAX)
    }
}

/// A thread that the next process is asked about.
struct OpenThread {
    id: ThreadId,
    spec: ThreadSpec,
}

struct Player<'a> {
    room: &'a Room,
    responder: &'a Responder,
    played: Played,
    open: Vec<OpenThread>,
    process: ProcessCost,
}

pub(super) async fn play(
    launch: &LaunchOptions,
    shapes: &[ConversationShape],
    scratch: &Path,
) -> Result<Played, CheckError> {
    let began = Instant::now();
    let responder = Responder::start().await?;
    let room = Room::make(launch, scratch, &responder)?;
    let mut player = Player {
        room: &room,
        responder: &responder,
        played: Played {
            conversations: Vec::new(),
            notifications: BTreeMap::new(),
            unknown: BTreeSet::new(),
            findings: BTreeSet::new(),
            cost: ReplayCost {
                version: launch.codex_version.clone(),
                cpu_ms: 0,
                peak_kib: 0,
                wall_ms: 0,
                model_requests: 0,
            },
            failure: None,
        },
        open: Vec::new(),
        process: ProcessCost::default(),
    };
    if let Err(error) = player.both_lives(shapes).await {
        player.played.failure = Some(error.to_string());
    }
    let mut played = player.played;
    played.cost.cpu_ms = player.process.cpu_ms;
    played.cost.peak_kib = player.process.peak_kib;
    played.cost.wall_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let requests = responder.requests();
    played.cost.model_requests = requests.scripted.saturating_add(requests.unscripted);
    Ok(played)
}

impl Player<'_> {
    /// Plays on one process, and reads on the next what came of it.
    async fn both_lives(&mut self, shapes: &[ConversationShape]) -> Result<(), CallError> {
        let mut codex = self.room.start().await?;
        let mut played = Ok(());
        for (number, shape) in shapes.iter().enumerate() {
            played = self.conversation(&mut codex, number, shape).await;
            if played.is_err() {
                break;
            }
        }
        self.end(codex).await;
        played?;
        let mut codex = self.room.start().await?;
        let read = self.histories(&mut codex).await;
        self.end(codex).await;
        read
    }

    async fn end(&mut self, codex: PrivateCodex) {
        let cost = codex.cost();
        self.process.cpu_ms = self.process.cpu_ms.saturating_add(cost.cpu_ms);
        self.process.peak_kib = self.process.peak_kib.max(cost.peak_kib);
        let seen = codex.stop().await;
        for (method, count) in seen.notifications {
            let total = self.played.notifications.entry(method).or_default();
            *total = total.saturating_add(count);
        }
        self.played.unknown.extend(seen.unknown);
        self.played.findings.extend(seen.findings);
    }

    async fn conversation(
        &mut self,
        codex: &mut PrivateCodex,
        number: usize,
        shape: &ConversationShape,
    ) -> Result<(), CallError> {
        let name = format!("conversation-{number}");
        let spec = self.room.spec(&name, shape.sandbox, shape.approval_policy);
        std::fs::create_dir(&spec.workdir).map_err(|error| CallError::Closed {
            why: format!("the scratch directory can't be used: {error}"),
        })?;
        let opened = thread::open(codex, self.room, &spec).await?;
        self.played.conversations.push(PlayedConversation {
            settings: self.comparable(&opened.reported),
            complaint: opened.complaint,
            ..PlayedConversation::default()
        });
        let from = shape.turns.len().saturating_sub(TURNS_MAX);
        for (turn, shape_of_turn) in shape.turns.iter().skip(from).enumerate() {
            let name = format!("{name}-turn-{turn}");
            let record = self
                .turn(codex, &opened.id, &name, shape, shape_of_turn)
                .await?;
            if let Some(conversation) = self.played.conversations.last_mut() {
                conversation.turns.push(record);
            }
        }
        self.open.push(OpenThread {
            id: opened.id,
            spec,
        });
        Ok(())
    }

    async fn turn(
        &self,
        codex: &mut PrivateCodex,
        thread: &ThreadId,
        name: &str,
        shape: &ConversationShape,
        turn: &TurnShape,
    ) -> Result<PlayedTurn, CallError> {
        let answer = filler("answer", turn.answer_chars);
        self.responder.script(name, steps(shape, turn, &answer));
        let plan = TurnPlan {
            thread: thread.clone(),
            client_id: format!("{name}.1"),
            text: filler(name, turn.text_chars),
            decisions: turn.asked.clone(),
            interrupts: turn.stopped,
        };
        let record = codex.run_turn(plan).await?;
        Ok(played_turn(&record, &answer))
    }

    async fn histories(&mut self, codex: &mut PrivateCodex) -> Result<(), CallError> {
        for (thread, conversation) in self.open.iter().zip(&mut self.played.conversations) {
            let isolation = self.room.isolation();
            let settings = settings(&thread.spec, &isolation, &OperatorConfig::default());
            let newest = u32::try_from(TURNS_MAX).unwrap_or(u32::MAX);
            let params = ThreadResumeParams::with_newest_turns(thread.id.clone(), settings, newest);
            let resumed = codex.call::<ThreadResume>(&params).await?;
            let (_, turns) = resumed.into_parts(&SortDirection::Descending);
            conversation.history = turns.iter().map(history_line).collect();
        }
        Ok(())
    }

    /// The settings of a thread as they are the same in every run.
    fn comparable(&self, reported: &Value) -> BTreeMap<String, Value> {
        let root = self.room.root().display().to_string();
        let members = reported.as_object().into_iter().flatten();
        let members = members.filter(|(name, _)| !OF_THE_RUN.contains(&name.as_str()));
        let without_root = |value: &Value| {
            let text = value.to_string().replace(&root, ROOT);
            serde_json::from_str(&text).unwrap_or(Value::Null)
        };
        members
            .map(|(name, value)| (name.clone(), without_root(value)))
            .collect()
    }
}

fn played_turn(record: &TurnRecord, answer: &str) -> PlayedTurn {
    let end = record.outcome.as_ref().map(|outcome| outcome.end.status);
    let requests = record.requests.iter().map(|request| request.method.clone());
    PlayedTurn {
        end: end.map_or("not told".to_owned(), |end| {
            format!("{end:?}").to_lowercase()
        }),
        answered: record.answer() == Some(answer),
        requests: requests.collect(),
        items: record.items.clone(),
        statuses: record.statuses.clone(),
        notifications: record.notifications.clone(),
        findings: record.findings("a replayed turn"),
    }
}

/// The model does in its place what was done: it asks as often, and runs as many commands, harmless ones.
fn steps(shape: &ConversationShape, turn: &TurnShape, answer: &str) -> Vec<ModelStep> {
    if turn.stopped {
        return vec![ModelStep::Hang];
    }
    // What makes Codex ask depends on its policy; where nothing is asked of anybody, nothing is made to.
    let asking = match (shape.approval_policy, shape.sandbox) {
        (ApprovalPolicy::Never, _) | (_, Sandbox::DangerFullAccess) => None,
        (ApprovalPolicy::OnRequest, _) => Some(true),
        (ApprovalPolicy::Untrusted, _) => Some(false),
    };
    let command = |script: &str, escalate| ModelStep::Command {
        script: script.to_owned(),
        escalate,
    };
    let asked = turn.asked.iter().filter_map(|_| asking);
    let asked = asked.map(|escalate| command("touch asked", escalate));
    // Under `untrusted` only what reads runs without being asked about.
    let ran = (0..turn.commands.min(COMMANDS_MAX)).map(|_| command("ls", false));
    let mut steps: Vec<_> = asked.take(COMMANDS_MAX as usize).chain(ran).collect();
    steps.push(ModelStep::Answer(answer.to_owned()));
    steps
}

fn history_line(turn: &Turn) -> String {
    let marks = turn.client_ids().count();
    let items = listed_items(turn);
    format!(
        "{}, {marks} of our messages, {}",
        turn.status,
        items.join(", ")
    )
}
