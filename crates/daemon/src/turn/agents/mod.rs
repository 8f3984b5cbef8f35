//! What Codex asks other agents with the tool `ask_agent`, from the call to what the tool gives back.
//!
//! No row is kept: the same call has the same message id after a restart, so the other side does not work twice. Whom
//! Codex may ask is the configuration's; how agents are talked to is `bridge_channel::a2a::client`'s.

mod returned;

use self::returned::{Returned, gone, is_id, tell, unasked, unknown};
use crate::Daemon;
use crate::config::{A2aConfig, AgentConfig};
use crate::process::ids::now;
use crate::settings::Settings;
use crate::term::escape_line;
use crate::turn::follow::Followed;
use bridge_channel::a2a::client::{
    AgentCallError, AgentClient, AgentQuestion, AgentTaskState, AnswerWait, CallProgress,
    RemoteAgent, RemoteCall, Trust, read_token,
};
use bridge_channel::guard::check_origin;
use bridge_core::port::{Agent, ApprovalRequest, Ledger, RequestKey, Sink};
use bridge_core::prompt::ASK_AGENT;
use bridge_core::value::{ConversationId, MessageId, RequestDecision, RequestVerdict, Tier};
use futures_util::FutureExt;
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How long another agent may take for one question.
const ASK_DEADLINE: Duration = Duration::from_secs(20 * 60);
/// Questions of one turn that may be open at the same time.
const OPEN_MAX: usize = 8;
/// The calls of one turn that are under way.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: Mutex<HashMap<RequestKey, CancellationToken>>,
}

/// Why a call does not begin.
enum NotBegun {
    /// It is under way.
    Known,
    /// Too many are.
    Full,
}

impl Calls {
    fn open(&self) -> MutexGuard<'_, HashMap<RequestKey, CancellationToken>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Codex asks the same again when somebody comes back to its turn.
    fn begin(&self, to: &RequestKey) -> Result<CancellationToken, NotBegun> {
        let mut open = self.open();
        if open.contains_key(to) {
            return Err(NotBegun::Known);
        }
        if open.len() >= OPEN_MAX {
            return Err(NotBegun::Full);
        }
        Ok(open.entry(to.clone()).or_default().clone())
    }

    fn end(&self, to: &RequestKey) {
        self.open().remove(to);
    }

    /// Codex let go of a question; says whether it was one of these.
    pub(crate) fn let_go(&self, to: &RequestKey) -> bool {
        let open = self.open();
        let call = open.get(to);
        if let Some(call) = call {
            call.cancel();
        }
        call.is_some()
    }

    /// The turn is over, so nobody waits for any of them.
    pub(crate) fn all_over(&self) {
        for call in self.open().values() {
            call.cancel();
        }
    }

    fn is_idle(&self) -> bool {
        self.open().is_empty()
    }
}

/// The calls of turns that are out of sight. Such a turn may run and wait for them: only a look at Codex tells.
#[derive(Debug, Default)]
pub(crate) struct DetachedCalls {
    by_message: Mutex<HashMap<MessageId, Arc<Calls>>>,
}

impl DetachedCalls {
    fn by_message(&self) -> MutexGuard<'_, HashMap<MessageId, Arc<Calls>>> {
        let kept = self.by_message.lock();
        kept.unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps them for the task that finds the turn. Those that ended meanwhile are let go here too, so that a turn which
    /// nobody looks for is not kept for ever.
    pub(crate) fn keep(&self, message_id: &MessageId, calls: &Arc<Calls>) {
        let mut kept = self.by_message();
        kept.insert(message_id.clone(), Arc::clone(calls));
        kept.retain(|_, calls| !calls.is_idle());
    }

    /// The turn runs, and goes on with them.
    pub(crate) fn found(&self, message_id: &MessageId) -> Arc<Calls> {
        self.by_message().remove(message_id).unwrap_or_default()
    }

    /// The turn does not run any more.
    pub(crate) fn over(&self, message_id: &MessageId) {
        self.found(message_id).all_over();
    }
}

/// Arguments of the tool `ask_agent`, as the model gave them.
#[derive(Debug, Deserialize)]
struct AgentToolCall {
    agent: String,
    text: String,
    context: Option<String>,
    task: Option<String>,
}

impl Settings {
    /// Whom the turns of a tier may ask.
    pub(crate) fn agents_of(&self, tier: Tier) -> &[AgentConfig] {
        let config = &self.config.a2a;
        let may = config.tool_tiers.contains(&tier);
        if may { &config.agents } else { &[] }
    }

    /// Their names, for the model.
    pub(crate) fn agent_names(&self, tier: Tier) -> Vec<String> {
        let agents = self.agents_of(tier).iter();
        agents.map(|agent| agent.name.clone()).collect()
    }

    /// What other agents gave us to be known by; no text may carry it.
    pub(crate) fn tokens_for_agents(config: &A2aConfig) -> impl Fn() -> Vec<String> + use<> {
        let agents = config.agents.iter();
        let files: Vec<PathBuf> = agents
            .filter_map(|agent| agent.token_file.clone())
            .collect();
        move || {
            let tokens = files.iter().filter_map(|file| read_token(file).ok());
            tokens.map(|token| token.expose().to_owned()).collect()
        }
    }

    fn trust(&self) -> Trust {
        let origins = self.config.a2a.allow_origins.iter();
        Trust {
            // The operator wrote these addresses.
            own: true,
            listed: origins.filter_map(|text| check_origin(text).ok()).collect(),
        }
    }
}

/// The same for every repetition of a call.
fn message_id(cause: &MessageId, to: &RequestKey) -> String {
    let call = match &to.item_id {
        Some(item) => item.as_str().to_owned(),
        None => format!("{}/{}", to.incarnation.as_str(), to.rpc_id),
    };
    derived(&format!("message/{}/{call}", cause.as_str()))
}

/// One talk with each agent for each conversation.
fn context_of(conversation: &ConversationId, agent: &str) -> String {
    derived(&format!("context/{}/{agent}", conversation.as_str()))
}

fn derived(name: &str) -> String {
    let name = format!("codex-bridge/{name}");
    Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).to_string()
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Begins a call of our tool, beside the turn; says whether it was one.
    pub(crate) async fn called(self: &Arc<Self>, turn: &Followed, asked: &ApprovalRequest) -> bool {
        let Some(arguments) = asked.tool_arguments.clone() else {
            return false;
        };
        let to = asked.key.clone();
        match turn.calls.begin(&to) {
            Ok(over) => {
                let (daemon, calls) = (Arc::clone(self), Arc::clone(&turn.calls));
                let cause = turn.message_id().clone();
                self.tasks.spawn(async move {
                    let call = daemon.run_call(&cause, &to, arguments, over);
                    if let Err(panic) = AssertUnwindSafe(call).catch_unwind().await {
                        let then = "the turn gets an error for its call of another agent";
                        daemon.count_panic(&cause, panic.as_ref(), then);
                        // Codex would wait for it until its turn's time is used up.
                        let why = "codex-bridge failed while it asked; whether the agent received it is not known";
                        daemon.give_back(&to, &Returned::failed(why)).await;
                    }
                    calls.end(&to);
                });
            }
            Err(NotBegun::Known) => {}
            Err(NotBegun::Full) => {
                let why = format!("{OPEN_MAX} questions to agents are open; wait for an answer");
                self.give_back(&to, &Returned::failed(why)).await;
            }
        }
        true
    }

    async fn run_call(
        &self,
        cause: &MessageId,
        to: &RequestKey,
        arguments: String,
        over: CancellationToken,
    ) {
        let asking = self.ask_agent(cause, to, arguments, over);
        let returned = tokio::select! {
            biased;
            // Codex repeats the request to the next daemon.
            () = self.halt.cancelled() => return,
            returned = asking => returned,
        };
        self.give_back(to, &returned).await;
    }

    async fn give_back(&self, to: &RequestKey, returned: &Returned) {
        let answers = json!({"text": returned.text, "success": returned.success});
        let verdict = RequestVerdict {
            answers: Some(answers.to_string()),
            ..RequestVerdict::own(RequestDecision::Accept, ASK_AGENT, now())
        };
        match self.respond(to, &verdict).await {
            Ok(responded) => tracing::debug!(?responded, "codex was given what its tool returned"),
            Err(error) => tracing::warn!(%error, "codex could not be given what its tool returned"),
        }
    }

    pub(crate) async fn ask_agent(
        &self,
        cause: &MessageId,
        to: &RequestKey,
        arguments: String,
        over: CancellationToken,
    ) -> Returned {
        let wanted: AgentToolCall = match serde_json::from_str(&arguments) {
            Ok(wanted) => wanted,
            Err(error) => return Returned::failed(format!("the arguments do not fit: {error}")),
        };
        let asking = async {
            let (peer, question) = self.prepare(cause, to, &wanted).await?;
            // The other agent knows no leases: once this node's is over, another one may have the turn.
            self.expect_lease()
                .map_err(|failure| Returned::failed(failure.reason))?;
            Ok(RemoteCall::new(peer, question))
        };
        let prepared = tokio::select! {
            prepared = asking => prepared,
            () = over.cancelled() => return gone(),
        };
        let mut ask = match prepared {
            Ok(ask) => ask,
            Err(returned) => return returned,
        };
        let agent = wanted.agent.as_str();
        tracing::info!(message_id = %cause, agent, "codex asks another agent");
        let mut unwatched = |_: CallProgress<'_>| {};
        let outcome = tokio::select! {
            outcome = ask.run(AnswerWait::Through(ASK_DEADLINE), &mut unwatched) => Some(outcome),
            () = over.cancelled() => None,
        };
        if matches!(outcome, None | Some(Err(AgentCallError::Late(_))))
            && let Err(fault) = ask.cancel().await
        {
            let (task, fault) = (ask.task().filter(|task| is_id(task)), line(&fault));
            tracing::warn!(message_id = %cause, agent, task, fault, "a task of another agent that nobody waits for could not be stopped");
        }
        match outcome {
            Some(Ok(outcome)) => {
                let task = outcome.task.as_deref().filter(|task| is_id(task));
                tracing::info!(message_id = %cause, agent, task, state = outcome.state.as_str(), "another agent answered");
                tell(agent, &question_id(to), &outcome)
            }
            Some(Err(fault)) => {
                let why = line(&fault);
                tracing::warn!(message_id = %cause, agent, why, "another agent did not answer");
                let waited = ask.state() == AgentTaskState::AuthRequired;
                unasked(agent, &question_id(to), &fault, waited)
            }
            None => gone(),
        }
    }

    /// Whom is asked what, or why nobody is.
    async fn prepare(
        &self,
        cause: &MessageId,
        to: &RequestKey,
        wanted: &AgentToolCall,
    ) -> Result<(RemoteAgent, AgentQuestion), Returned> {
        let id = cause.clone();
        let read = self.ledger.read(move |rows| {
            let Some(message) = rows.message(&id)? else {
                return Ok(None);
            };
            // Senders whose messages joined this turn count too.
            let joined = rows.followers(&id)?.into_iter().map(|other| other.hops);
            let hops = joined.fold(message.hops, u32::max);
            Ok(Some((message, hops)))
        });
        let (message, hops) = match read.await {
            Ok(Some(found)) => found,
            Ok(None) => return Err(Returned::failed("its message is over")),
            Err(error) => {
                let why = format!("the database can't be read now ({error}); try again later");
                return Err(Returned::failed(why));
            }
        };
        let here = self.is_at_home(&message.conversation_id).await;
        if !here.unwrap_or(false) {
            let why = "another node has this conversation now, or the database can't be read";
            return Err(Returned::failed(why));
        }
        let settings = self.settings();
        let agents = settings.agents_of(message.tier);
        let Some(agent) = agents.iter().find(|agent| agent.name == wanted.agent) else {
            return Err(unknown(&settings.agent_names(message.tier)));
        };
        let client = AgentClient::new(&agent.url, &settings.trust(), agent.token_file.clone());
        let unasked = |fault: AgentCallError| {
            let why = line(&fault);
            tracing::warn!(message_id = %cause, agent = agent.name, why, "another agent could not be asked");
            unasked(&agent.name, &question_id(to), &fault, false)
        };
        let peer = client.map_err(unasked)?.insist().await.map_err(unasked)?;
        let mut question = AgentQuestion::new(&*wanted.text, message_id(cause, to));
        question.hops = hops.saturating_add(1);
        question.task = wanted.task.clone().filter(|task| is_id(task));
        question.context = wanted.context.clone().filter(|context| is_id(context));
        // Other agents want to name their talks themselves.
        if peer.is_idempotent() && question.context.is_none() && question.task.is_none() {
            question.context = Some(context_of(&message.conversation_id, &agent.name));
        }
        let attempt = message.life.attempt;
        let span = match &to.item_id {
            Some(item_id) => message.tool_span(attempt, item_id),
            None => message.turn_span(attempt),
        };
        let trace = self.traces.parent(&message, span);
        Ok((peer.traced(trace), question))
    }
}

/// What went wrong, for the log: it may quote the other agent.
fn line(fault: &AgentCallError) -> String {
    escape_line(&fault.to_string()).into_owned()
}

/// A part of a name that nobody outside can know beforehand.
fn question_id(to: &RequestKey) -> String {
    derived(&format!(
        "answer/{}/{}/{}",
        to.incarnation.as_str(),
        to.rpc_id,
        now().0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::value::{IncarnationId, ItemId};

    fn to(rpc_id: &str, item: &str) -> RequestKey {
        RequestKey {
            incarnation: IncarnationId::new("life"),
            rpc_id: rpc_id.to_owned(),
            item_id: Some(ItemId::new(item)),
        }
    }

    #[test]
    fn message_id_is_stable_across_rpc_ids() {
        let cause = MessageId::new("m");
        let first = message_id(&cause, &to("0", "call_1"));
        assert_eq!(first, message_id(&cause, &to("7", "call_1")));
        assert_ne!(first, message_id(&cause, &to("0", "call_2")));
        assert_ne!(first, message_id(&MessageId::new("n"), &to("0", "call_1")));
        let talk = |agent| context_of(&ConversationId::new("c"), agent);
        assert_eq!(talk("a"), talk("a"));
        assert_ne!(talk("a"), talk("b"));
    }

    #[test]
    fn remote_error_is_one_log_line() {
        let fault = AgentCallError::Refused {
            said: "no\n2026-01-01 ERROR \u{1b}[31mforged".to_owned(),
            later: None,
        };
        let line = line(&fault);
        assert!(line.contains("forged") && !line.chars().any(char::is_control));
    }

    #[test]
    fn call_begins_once_and_ends_with_turn() {
        let calls = Calls::default();
        let over = calls.begin(&to("0", "a")).ok().unwrap();
        assert!(matches!(calls.begin(&to("0", "a")), Err(NotBegun::Known)));
        for n in 1..OPEN_MAX {
            assert!(calls.begin(&to(&n.to_string(), "a")).is_ok());
        }
        assert!(matches!(calls.begin(&to("99", "a")), Err(NotBegun::Full)));
        calls.all_over();
        assert!(over.is_cancelled());
        calls.end(&to("0", "a"));
        assert!(!calls.let_go(&to("0", "a")) && calls.let_go(&to("1", "a")));
    }

    #[test]
    fn detached_calls_kept_until_turn_found() {
        let (detached, lost) = (DetachedCalls::default(), MessageId::new("m"));
        let calls = Arc::new(Calls::default());
        let over = calls.begin(&to("0", "a")).ok().unwrap();
        detached.keep(&lost, &calls);
        // Codex asks the same again, and it is known.
        let found = detached.found(&lost);
        assert!(matches!(found.begin(&to("0", "a")), Err(NotBegun::Known)));
        assert!(!over.is_cancelled());
        detached.keep(&lost, &calls);
        detached.over(&lost);
        assert!(over.is_cancelled());
        detached.keep(&lost, &calls);
        calls.end(&to("0", "a"));
        detached.keep(&MessageId::new("n"), &Arc::default());
        assert!(detached.by_message().is_empty());
    }
}
