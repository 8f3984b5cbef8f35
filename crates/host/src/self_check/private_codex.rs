//! One Codex process of a check, in a CODEX_HOME of its own: it is asked one thing after the other, and what it says
//! meanwhile is recorded and compared with its own schema.

use crate::app_server::connection::CallError;
use crate::app_server::transport::{TransportReader, TransportWriter};
use crate::app_server::{new_incarnation, unwanted, wall_now};
use crate::keeper::launch::{self, KeeperHold, LaunchError, LaunchOptions};
use crate::process::{self, cost::ProcessCost};
use crate::self_check::turn_record::{Running, TurnPlan, TurnRecord};
use crate::thread::permissions::ReportedPermissions;
use bridge_codex::link::{Ignored, Link, LinkError, LinkEvent, LinkOptions};
use bridge_codex::rpc::{RpcMessage, parse};
use bridge_codex::schema::{Finding, LiveComparison, LiveMessage, Severity};
use bridge_codex::wire::method::{
    INITIALIZED, Initialize, InitializeParams, ThreadRead, TurnInterrupt, TurnInterruptParams,
    TurnStart, TurnStartParams,
};
use bridge_codex::wire::notification::EffectiveSettings;
use bridge_codex::wire::thread::ThreadReadParams;
use bridge_codex::wire::turn::UserInput;
use bridge_codex::wire::{Method, Notification};
use bridge_core::value::{ClientId, Incarnation, ThreadId, Transport};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A scripted turn takes a third of a second; on a machine that is busy with others, seconds.
const TURN_PATIENCE: Duration = Duration::from_secs(20);
/// How long a notification may come after the answer that it belongs to.
const REPORT_PATIENCE: Duration = Duration::from_secs(10);
/// How Codex may end its databases.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Findings about its messages that are kept; a drift shows in each of them.
const LIVE_FINDINGS_MAX: usize = 48;

/// What a Codex said in a life, beside the answers to what it was asked.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Notifications by their method.
    pub(crate) notifications: BTreeMap<String, u64>,
    /// Which of them no type of ours reads.
    pub(crate) unknown: BTreeSet<String>,
    pub(crate) findings: BTreeSet<Finding>,
    settings: Option<(ThreadId, EffectiveSettings)>,
}

/// A Codex process that only a check talks to.
pub(crate) struct PrivateCodex {
    link: Link,
    reader: TransportReader,
    writer: TransportWriter,
    incarnation: Incarnation,
    hold: KeeperHold,
    comparison: Option<Arc<LiveComparison>>,
    origin: Instant,
    turn: Option<Running>,
    pub(crate) seen: Seen,
}

impl PrivateCodex {
    /// Starts it over pipes, so that it ends with us, and says hello.
    pub(crate) async fn start(
        launch: &LaunchOptions,
        comparison: Option<Arc<LiveComparison>>,
    ) -> Result<Self, CallError> {
        let launched = launch::launch(
            launch,
            Transport::Stdio,
            None,
            new_incarnation(),
            wall_now(),
        )
        .await
        .map_err(|error: LaunchError| closed(error.to_string()))?;
        let mut codex = Self {
            link: Link::new(LinkOptions::default()),
            reader: launched.reader,
            writer: launched.writer,
            incarnation: launched.incarnation,
            hold: launched.hold,
            comparison,
            origin: Instant::now(),
            turn: None,
            seen: Seen::default(),
        };
        let mut hello = InitializeParams::experimental("codex-bridge", env!("CARGO_PKG_VERSION"));
        hello.capabilities.opt_out_notification_methods = unwanted();
        let greeted = codex.call::<Initialize>(&hello).await;
        let text = codex.link.notify(INITIALIZED);
        match greeted {
            Ok(_) => codex.send(text).await.map(|()| codex),
            Err(error) => {
                codex.stop().await;
                Err(error)
            }
        }
    }

    /// Ends it and everything that it started; gives what it said.
    pub(crate) async fn stop(self) -> Seen {
        // Codex ends with its standard input.
        drop(self.writer);
        launch::stop(&self.incarnation, self.hold, STOP_GRACE).await;
        self.seen
    }

    /// Asks for something and takes in whatever comes before the answer.
    pub(crate) async fn call<M: Method>(
        &mut self,
        params: &M::Params,
    ) -> Result<M::Response, CallError> {
        let result = self.call_raw::<M>(params).await?;
        serde_json::from_value(result).map_err(|error| CallError::Unreadable {
            method: M::NAME,
            why: error.to_string(),
        })
    }

    /// The same, with all that the answer says.
    pub(crate) async fn call_raw<M: Method>(
        &mut self,
        params: &M::Params,
    ) -> Result<Value, CallError> {
        let asked = self.link.request::<M>(params, self.now());
        let (id, text) = asked.map_err(|error: LinkError| closed(error.to_string()))?;
        self.send(text).await?;
        let answer = async {
            loop {
                match self.next().await? {
                    LinkEvent::Response { call, result, .. } if call == id => return Ok(result),
                    event => self.take(event).await?,
                }
            }
        };
        let deadline = Duration::from_millis(M::deadline_ms());
        let answer = tokio::time::timeout(deadline, answer).await;
        let answer = answer.map_err(|_elapsed| CallError::Silent { method: M::NAME })??;
        let result = answer.map_err(|error| CallError::Refused {
            method: M::NAME,
            error,
        })?;
        self.compare(LiveMessage::Response {
            method: M::NAME,
            result: &result,
        });
        Ok(result)
    }

    /// Time and memory of all its processes so far.
    pub(crate) fn cost(&self) -> ProcessCost {
        let pids = process::descendants(self.incarnation.keeper.pid);
        pids.into_iter()
            .map(ProcessCost::of)
            .fold(ProcessCost::default(), ProcessCost::plus)
    }

    /// What it reports as in force on a thread after a change of its settings.
    pub(crate) async fn reported_settings(
        &mut self,
        thread: &ThreadId,
        judge: impl FnOnce(ReportedPermissions<'_>) -> Option<String>,
    ) -> Result<SettingsReport, CallError> {
        let mut patience = std::pin::pin!(tokio::time::sleep(REPORT_PATIENCE));
        loop {
            if let Some((_, settings)) = self.seen.settings.take_if(|(of, _)| of == thread) {
                let complaint = judge(ReportedPermissions::from(&settings));
                return Ok(complaint.map_or(SettingsReport::AsAsked, SettingsReport::Exceeds));
            }
            let event = tokio::select! {
                event = self.next() => event?,
                () = &mut patience => return Ok(SettingsReport::Missing),
            };
            self.take(event).await?;
        }
    }

    /// Runs one turn to its end, or until patience ends.
    pub(crate) async fn run_turn(&mut self, plan: TurnPlan) -> Result<TurnRecord, CallError> {
        let thread = plan.thread.clone();
        let interrupts = plan.interrupts;
        let params = TurnStartParams {
            trace: None,
            thread_id: thread.clone(),
            input: vec![UserInput::text(plan.text.clone())],
            client_id: ClientId::new(plan.client_id.clone()),
        };
        let began = Instant::now();
        self.turn = Some(Running::begin(plan));
        let started = self.call::<TurnStart>(&params).await?;
        if let Some(turn) = &mut self.turn {
            turn.bind(started.turn.id.clone());
        }
        if interrupts && self.until(Running::runs).await? {
            let params = TurnInterruptParams {
                thread_id: thread.clone(),
                turn_id: started.turn.id.clone(),
            };
            self.call::<TurnInterrupt>(&params).await?;
        }
        self.until(Running::is_over).await?;
        // Whatever belongs to the turn comes before this answer.
        let read = ThreadReadParams {
            thread_id: thread,
            include_turns: false,
        };
        let thread = self.call::<ThreadRead>(&read).await?.thread;
        let running = self.turn.take();
        let record = running.map(|turn| turn.into_record(started.turn.id, thread.status));
        let mut record = record.ok_or_else(|| closed("the turn was lost".to_owned()))?;
        record.took = began.elapsed();
        Ok(record)
    }

    /// Takes in what comes until the turn is that far; false when patience ends first.
    async fn until(&mut self, reached: fn(&Running) -> bool) -> Result<bool, CallError> {
        let mut patience = std::pin::pin!(tokio::time::sleep(TURN_PATIENCE));
        while !self.turn.as_ref().is_none_or(reached) {
            let event = tokio::select! {
                event = self.next() => event?,
                () = &mut patience => return Ok(false),
            };
            self.take(event).await?;
        }
        Ok(true)
    }

    async fn next(&mut self) -> Result<LinkEvent, CallError> {
        let text = match self.reader.next().await {
            Ok(Some(text)) => text,
            Ok(None) => return Err(closed("codex closed it".to_owned())),
            Err(error) => return Err(closed(error.to_string())),
        };
        match parse(&text) {
            RpcMessage::Notification { method, params } => {
                let count = self.seen.notifications.entry(method.clone()).or_default();
                *count = count.saturating_add(1);
                self.compare(LiveMessage::Notification {
                    method: &method,
                    params: &params,
                });
            }
            RpcMessage::Request { method, params, .. } => self.compare(LiveMessage::Request {
                method: &method,
                params: &params,
            }),
            RpcMessage::Response { .. } | RpcMessage::Malformed { .. } => {}
        }
        Ok(self.link.handle(&text, self.now()))
    }

    async fn take(&mut self, event: LinkEvent) -> Result<(), CallError> {
        match event {
            LinkEvent::Notification(notification) => self.notified(&notification),
            LinkEvent::Request(request) => {
                let outcome = match &mut self.turn {
                    Some(turn) => turn.answer(&request),
                    None => request.decline(),
                };
                let text = self.link.respond(&request.id, outcome);
                self.send(text).await?;
            }
            LinkEvent::Ignored(Ignored::UnknownNotification { method }) => {
                self.seen.unknown.insert(method);
            }
            LinkEvent::Ignored(Ignored::Malformed { why }) => {
                self.find(
                    Severity::BlindSpot,
                    format!("it sent what is no message: {why}"),
                );
            }
            LinkEvent::Ignored(_) | LinkEvent::Response { .. } => {}
        }
        Ok(())
    }

    fn notified(&mut self, notification: &Notification) {
        match notification {
            Notification::Malformed { method, why, .. } => {
                let what = format!("{method}: this bridge can't read it: {why}");
                self.find(Severity::Breaks, what);
            }
            Notification::ThreadSettingsUpdated(updated) => {
                let settings = updated.thread_settings.clone();
                self.seen.settings = Some((updated.thread_id.clone(), settings));
            }
            _ => {}
        }
        if let Some(turn) = &mut self.turn {
            turn.notified(notification);
        }
    }

    fn compare(&mut self, message: LiveMessage<'_>) {
        let comparison = self.comparison.clone();
        let found = comparison.map_or_else(Vec::new, |comparison| comparison.compare(message));
        for finding in found {
            self.find(finding.severity, finding.what);
        }
    }

    fn find(&mut self, severity: Severity, what: String) {
        if self.seen.findings.len() < LIVE_FINDINGS_MAX {
            self.seen.findings.insert(Finding { severity, what });
        }
    }

    async fn send(&mut self, text: String) -> Result<(), CallError> {
        let sent = self.writer.send(text).await;
        sent.map_err(|error| closed(error.to_string()))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// What it says of a thread's settings.
#[derive(Debug)]
pub(crate) enum SettingsReport {
    AsAsked,
    /// More than was asked for, as a clause.
    Exceeds(String),
    Missing,
}

fn closed(why: String) -> CallError {
    CallError::Closed { why }
}
