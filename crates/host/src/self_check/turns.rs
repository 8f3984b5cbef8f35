//! The scripted turns of a check: answer, command in the sandbox, approval declined and accepted, nothing asked where
//! nothing may be asked, interruption, and what the history says of all that to the next process.

use crate::app_server::connection::CallError;
use crate::self_check::private_codex::{PrivateCodex, Seen};
use crate::self_check::responder::{ModelStep, Responder};
use crate::self_check::turn_record::{Decision, TurnPlan, TurnRecord, listed_items};
use crate::self_check::{CheckError, Room, thread};
use crate::thread::operator_config::OperatorConfig;
use crate::thread::settings;
use bridge_codex::schema::{Finding, Severity};
use bridge_codex::wire::Turn;
use bridge_codex::wire::method::{ThreadResume, ThreadTurnsList};
use bridge_codex::wire::thread::{ThreadResumeParams, ThreadTurnsListParams, TurnsPageParams};
use bridge_codex::wire::values::{ItemsView, SortDirection, TurnStatus as WireTurnStatus};
use bridge_core::port::{ThreadSpec, TurnStatus};
use bridge_core::value::{ApprovalPolicy, ClientId, Sandbox, ThreadId};
use std::path::{Path, PathBuf};

/// Turns of one thread that are read back at once.
const HISTORY_PAGE: u32 = 20;
/// Without these no turn can be followed.
const VITAL: [&str; 5] = [
    "turn/started",
    "item/started",
    "item/completed",
    "thread/status/changed",
    "turn/completed",
];
/// Without these something is missed: what is written meanwhile, and what was used.
const USEFUL: [&str; 2] = ["item/agentMessage/delta", "thread/tokenUsage/updated"];
/// An approval that was answered.
const RESOLVED: &str = "serverRequest/resolved";

/// How the line of an item ends that was refused before it ran.
const DECLINED: &str = "declined";

/// Why the scripted turns end early.
pub(super) enum Halt {
    /// What was found says enough.
    Found,
    /// Nothing can be said.
    Failed(CheckError),
}

/// One thread of the check.
struct Thread {
    id: ThreadId,
    spec: ThreadSpec,
    turns: Vec<Expected>,
}

/// A turn as the history must list it.
struct Expected {
    name: &'static str,
    client_id: String,
    record: TurnRecord,
    interrupted: bool,
}

/// What is asked of a turn.
struct Script {
    name: &'static str,
    steps: Vec<ModelStep>,
    decisions: Vec<Decision>,
    interrupts: bool,
}

impl Script {
    fn new(name: &'static str, mut steps: Vec<ModelStep>) -> Self {
        steps.push(ModelStep::Answer(answer_of(name)));
        Self {
            name,
            steps,
            decisions: Vec::new(),
            interrupts: false,
        }
    }

    fn deciding(self, decision: Decision) -> Self {
        Self {
            decisions: vec![decision],
            ..self
        }
    }
}

fn answer_of(name: &str) -> String {
    format!("The answer of {name}.")
}

/// The scripted turns on one Codex.
pub(super) struct ScriptedTurns<'a> {
    room: &'a Room,
    responder: &'a Responder,
    codex: PrivateCodex,
    pub(super) findings: Vec<Finding>,
}

impl<'a> ScriptedTurns<'a> {
    pub(super) fn new(room: &'a Room, responder: &'a Responder, codex: PrivateCodex) -> Self {
        Self {
            room,
            responder,
            codex,
            findings: Vec::new(),
        }
    }

    /// Runs all of it, over two processes.
    pub(super) async fn run(mut self) -> Result<Vec<Finding>, CheckError> {
        let threads = self.first_life().await;
        let seen = self.codex.stop().await;
        let mut findings = self.findings;
        keep(&mut findings, seen);
        let threads = match threads {
            Ok(threads) => threads,
            Err(Halt::Found) => return Ok(findings),
            Err(Halt::Failed(error)) => return Err(error),
        };
        let codex = self.room.start().await?;
        let mut second = ScriptedTurns::new(self.room, self.responder, codex);
        let read = second.second_life(&threads).await;
        let seen = second.codex.stop().await;
        findings.append(&mut second.findings);
        keep(&mut findings, seen);
        match read {
            Ok(()) | Err(Halt::Found) => Ok(findings),
            Err(Halt::Failed(error)) => Err(error),
        }
    }

    async fn first_life(&mut self) -> Result<Vec<Thread>, Halt> {
        let asking = self.asking_thread().await?;
        let silent = self.silent_thread().await?;
        let untrusting = self.untrusting_thread().await?;
        self.listed(&asking).await?;
        Ok(vec![asking, silent, untrusting])
    }

    /// What the owner's conversations do.
    async fn asking_thread(&mut self) -> Result<Thread, Halt> {
        let spec = self
            .room
            .spec("asking", Sandbox::WorkspaceWrite, ApprovalPolicy::OnRequest);
        let mut thread = self.open(spec).await?;
        let work = PathBuf::from(&thread.spec.workdir);
        self.turn(&mut thread, Script::new("check-answer", Vec::new()))
            .await?;

        let outside = self.room.outside("sandboxed");
        let both = format!("echo x > inside; echo x > {}", quoted(&outside));
        let script = Script::new("check-sandbox", vec![command(both, false)]);
        self.turn(&mut thread, script).await?;
        if outside.exists() {
            self.breaks(
                "a command in its sandbox `workspace-write` wrote outside of its directory",
            );
        } else if !work.join("inside").exists() {
            self.blind(
                "no command runs in its sandbox on this machine: `codex-bridge doctor` says why",
            );
        }

        let declined = self.room.outside("declined");
        let script = Script::new("check-decline", vec![write(&declined, true)]);
        let script = script.deciding(Decision::Decline);
        let asked = self.turn(&mut thread, script).await?;
        self.must_ask(asked, "on-request", "leaves the sandbox");
        self.must_not_run(&thread, &declined);

        let accepted = self.room.outside("accepted");
        let script = Script::new("check-accept", vec![write(&accepted, true)]);
        let script = script.deciding(Decision::Accept);
        let asked = self.turn(&mut thread, script).await?;
        self.must_ask(asked, "on-request", "leaves the sandbox");
        if asked > 0 && !accepted.exists() {
            self.breaks("a command that was accepted did not run");
        }

        let hang = Script {
            name: "check-interrupt",
            steps: vec![ModelStep::Hang],
            decisions: Vec::new(),
            interrupts: true,
        };
        self.turn(&mut thread, hang).await?;
        Ok(thread)
    }

    /// What an agent's conversations do: nothing may be asked, and nothing written.
    async fn silent_thread(&mut self) -> Result<Thread, Halt> {
        let spec = self
            .room
            .spec("silent", Sandbox::ReadOnly, ApprovalPolicy::Never);
        let mut thread = self.open(spec).await?;
        let inside = PathBuf::from(&thread.spec.workdir).join("inside");
        let outside = self.room.outside("never");
        let steps = vec![write(&outside, true), write(&inside, false)];
        let asked = self
            .turn(&mut thread, Script::new("check-never", steps))
            .await?;
        if asked > 0 {
            self.breaks("approval policy `never`: it asks all the same");
        }
        if outside.exists() || inside.exists() {
            self.breaks("a command in its sandbox `read-only` wrote a file");
        }
        Ok(thread)
    }

    /// Nearly everything is asked.
    async fn untrusting_thread(&mut self) -> Result<Thread, Halt> {
        let spec = self
            .room
            .spec("untrusting", Sandbox::ReadOnly, ApprovalPolicy::Untrusted);
        let mut thread = self.open(spec).await?;
        let inside = PathBuf::from(&thread.spec.workdir).join("inside");
        let script = Script::new("check-untrusted", vec![write(&inside, false)]);
        let script = script.deciding(Decision::Decline);
        let asked = self.turn(&mut thread, script).await?;
        self.must_ask(asked, "untrusted", "writes a file");
        self.must_not_run(&thread, &inside);
        Ok(thread)
    }

    fn must_ask(&mut self, asked: usize, policy: &str, does: &str) {
        if asked == 0 {
            self.breaks(&format!(
                "approval policy `{policy}`: a command that {does} is not asked about"
            ));
        }
    }

    /// The newest turn was to write this file, and was not allowed to.
    fn must_not_run(&mut self, thread: &Thread, file: &Path) {
        if file.exists() {
            self.breaks("a command that was declined ran all the same");
        }
        let items = thread
            .turns
            .last()
            .map_or(&[][..], |turn| &turn.record.items);
        if !items.iter().any(|item| item.ends_with(DECLINED)) {
            self.breaks(&format!(
                "a command that was declined is not reported so: {items:?}"
            ));
        }
    }

    /// Opens a thread as the bridge opens the thread of a conversation.
    async fn open(&mut self, spec: ThreadSpec) -> Result<Thread, Halt> {
        std::fs::create_dir(&spec.workdir).map_err(|error| Halt::Failed(error.into()))?;
        let opened = thread::open(&mut self.codex, self.room, &spec).await;
        let opened = self.understood(opened)?;
        if let Some(complaint) = opened.complaint {
            self.breaks(&complaint);
            return Err(Halt::Found);
        }
        Ok(Thread {
            id: opened.id,
            spec,
            turns: Vec::new(),
        })
    }

    /// Runs a turn and looks at what every turn must show; gives how many approvals it asked.
    async fn turn(&mut self, thread: &mut Thread, script: Script) -> Result<usize, Halt> {
        let Script {
            name,
            steps,
            decisions,
            interrupts,
        } = script;
        self.responder.script(name, steps);
        let client_id = format!("{name}.1");
        let plan = TurnPlan {
            thread: thread.id.clone(),
            client_id: client_id.clone(),
            text: format!("This is {name} of codex-bridge."),
            decisions,
            interrupts,
        };
        let ran = self.codex.run_turn(plan).await;
        let record = self.understood(ran)?;
        self.findings.extend(record.findings(name));
        let known = record
            .requests
            .iter()
            .filter(|request| request.unknown.is_none());
        let asked = known.count();
        if record.outcome.is_none() {
            return Err(self.without_end(thread, &record, name).await);
        }
        self.judge(name, &record, asked, interrupts);
        thread.turns.push(Expected {
            name,
            client_id,
            record,
            interrupted: interrupts,
        });
        Ok(asked)
    }

    fn judge(&mut self, name: &str, record: &TurnRecord, asked: usize, interrupted: bool) {
        let missing = |method: &&&str| !record.notifications.contains_key(**method);
        let vital: Vec<_> = VITAL.iter().filter(missing).collect();
        for method in vital {
            self.breaks(&format!("{method}: it does not come in a turn"));
        }
        if asked > 0 && missing(&&RESOLVED) {
            self.breaks(&format!(
                "{RESOLVED}: it does not come after an approval was answered"
            ));
        }
        let status = record.outcome.as_ref().map(|outcome| outcome.end.status);
        if interrupted {
            if status != Some(TurnStatus::Interrupted) {
                self.breaks(&format!(
                    "{name}: a turn that was interrupted ended as {status:?}"
                ));
            }
            return;
        }
        let useful: Vec<_> = USEFUL.iter().filter(missing).collect();
        for method in useful {
            self.blind(&format!("{method}: it does not come in a turn"));
        }
        if status != Some(TurnStatus::Completed) {
            self.breaks(&format!("{name}: the turn ended as {status:?}"));
        }
        if record.answer() != Some(answer_of(name).as_str()) {
            let answer = record.answer();
            self.breaks(&format!(
                "{name}: the turn has not its answer, it has {answer:?}"
            ));
        }
        if asked > 0
            && !record
                .statuses
                .iter()
                .any(|status| status.contains("waitingOnApproval"))
        {
            self.blind("a thread that waits for an approval does not say so");
        }
    }

    /// The end of a turn was not told. Only the history says whether it has ended; if not, the machine may be slow.
    async fn without_end(&mut self, thread: &Thread, record: &TurnRecord, name: &str) -> Halt {
        let listed = self.list(&thread.id).await;
        let turns = match self.understood(listed) {
            Ok(turns) => turns,
            Err(halt) => return halt,
        };
        let ours = turns.iter().find(|turn| turn.id == record.turn_id);
        match ours.map(|turn| &turn.status) {
            Some(WireTurnStatus::InProgress) | None if self.fails() => Halt::Found,
            Some(WireTurnStatus::InProgress) | None => Halt::Failed(CheckError::Slow),
            Some(status) => {
                self.breaks(&format!(
                    "turn/completed: it did not come for {name}, and the history says `{status}`"
                ));
                Halt::Found
            }
        }
    }

    async fn list(&mut self, thread: &ThreadId) -> Result<Vec<Turn>, CallError> {
        let params = ThreadTurnsListParams {
            thread_id: thread.clone(),
            cursor: None,
            page: page(),
        };
        let listed = self.codex.call::<ThreadTurnsList>(&params).await?;
        Ok(listed.into_oldest_first(&SortDirection::Descending))
    }

    /// The living process lists its turns.
    async fn listed(&mut self, thread: &Thread) -> Result<(), Halt> {
        let listed = self.list(&thread.id).await;
        let listed = self.understood(listed)?;
        for turn in &thread.turns {
            if !listed.iter().any(|listed| listed.id == turn.record.turn_id) {
                let name = turn.name;
                self.breaks(&format!("{name}: the history does not list the turn"));
            }
        }
        Ok(())
    }

    /// The next process knows what the first one did.
    async fn second_life(&mut self, threads: &[Thread]) -> Result<(), Halt> {
        for thread in threads {
            let operator = OperatorConfig::default();
            let settings = settings(&thread.spec, &self.room.isolation(), &operator);
            let params =
                ThreadResumeParams::with_newest_turns(thread.id.clone(), settings, HISTORY_PAGE);
            let resumed = self.codex.call::<ThreadResume>(&params).await;
            let resumed = self.understood(resumed)?;
            let has_page = resumed.initial_turns_page.is_some();
            let (opened, turns) = resumed.into_parts(&SortDirection::Descending);
            if !has_page {
                self.breaks("thread/resume: it does not show the newest turns");
            }
            if *opened.approval_policy.as_str() != *thread.spec.approval_policy.as_str() {
                let (is, was) = (
                    &opened.approval_policy,
                    thread.spec.approval_policy.as_str(),
                );
                self.breaks(&format!(
                    "a thread with approval policy `{was}` comes back with `{is}`"
                ));
            }
            let keeps_all = opened.thread.keeps_all_items();
            for expected in &thread.turns {
                self.remembered(expected, &turns, keeps_all);
            }
        }
        Ok(())
    }

    fn remembered(&mut self, expected: &Expected, turns: &[Turn], keeps_all: bool) {
        let name = expected.name;
        let Some(turn) = turns.iter().find(|turn| turn.id == expected.record.turn_id) else {
            self.breaks(&format!("{name}: the history does not list the turn"));
            return;
        };
        let client_id = ClientId::new(expected.client_id.clone());
        if !turn.client_ids().any(|listed| *listed == client_id) {
            self.breaks(&format!(
                "{name}: the history does not say whose the message is"
            ));
        }
        let status = if expected.interrupted {
            WireTurnStatus::Interrupted
        } else {
            WireTurnStatus::Completed
        };
        if turn.status != status {
            let listed = &turn.status;
            self.breaks(&format!(
                "{name}: the history says `{listed}` of a turn that is `{status}`"
            ));
        }
        // What was declined is not listed: it was not done.
        let done = |items: &[String]| -> Vec<String> {
            let done = items.iter().filter(|item| !item.ends_with(DECLINED));
            done.cloned().collect()
        };
        let (told, listed) = (done(&expected.record.items), done(&listed_items(turn)));
        if keeps_all && turn.has_all_items() && !expected.interrupted && listed != told {
            self.breaks(&format!(
                "{name}: the turn did {told:?}, the history lists {listed:?}"
            ));
        }
    }

    /// A refusal or an unreadable answer is a finding; silence and an end are none.
    fn understood<T>(&mut self, result: Result<T, CallError>) -> Result<T, Halt> {
        result.map_err(|error| match error {
            CallError::Refused { .. } | CallError::Unreadable { .. } => {
                self.breaks(&error.to_string());
                Halt::Found
            }
            CallError::Closed { .. } | CallError::Silent { .. } => Halt::Failed(error.into()),
        })
    }

    fn fails(&self) -> bool {
        let breaks = |finding: &Finding| finding.severity == Severity::Breaks;
        self.findings.iter().any(breaks)
    }

    fn breaks(&mut self, what: &str) {
        self.find(Severity::Breaks, what);
    }

    fn blind(&mut self, what: &str) {
        self.find(Severity::BlindSpot, what);
    }

    fn find(&mut self, severity: Severity, what: &str) {
        let what = what.to_owned();
        self.findings.push(Finding { severity, what });
    }
}

fn keep(findings: &mut Vec<Finding>, seen: Seen) {
    findings.extend(seen.findings);
}

fn page() -> TurnsPageParams {
    TurnsPageParams {
        items_view: ItemsView::Full,
        limit: HISTORY_PAGE,
        sort_direction: SortDirection::Descending,
    }
}

fn command(script: String, escalate: bool) -> ModelStep {
    ModelStep::Command { script, escalate }
}

fn write(file: &Path, escalate: bool) -> ModelStep {
    command(format!("echo x > {}", quoted(file)), escalate)
}

/// As one word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    format!("'{}'", text.replace('\'', r"'\''"))
}
