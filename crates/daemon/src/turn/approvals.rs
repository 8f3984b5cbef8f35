//! What Codex asks while a turn runs, from the question to the answer: judged by the rules, written down, told to
//! Codex once it is decided. What a decision means is the core's; here it only reaches who must hear it.

use crate::Daemon;
use crate::process::ids::{now, request_id};
use crate::turn::follow::Followed;
use crate::turn::wants::wants;
use bridge_codex::rpc::RawId;
use bridge_codex::wire::ServerRequest;
use bridge_codex::wire::values::GrantScope;
use bridge_core::limits::{REQUEST_PAYLOAD_MAX_CHARS, clip};
use bridge_core::port::{
    Agent, ApprovalRequest, Ledger, LedgerError, RequestKey, Responded, Sink, Standing,
};
use bridge_core::rules::{Case, Judgement, Ruling};
use bridge_core::show;
use bridge_core::step::{Ask, AskOutcome, Deaf, Resolve, Tend, Tended, Told, Unheard};
use bridge_core::value::{
    Class, Deciders, EffectDigest, Message, MessageId, Request, RequestDecision, RequestId,
    RequestKind, RequestState, RequestVerdict, Timestamp, Wants,
};
use bridge_front::wants_secret;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Questions whose time has come that are settled in one go; the rest is due at once.
const TEND_MAX: usize = 100;
/// How soon open questions are looked at again when the ledger failed.
const TEND_PAUSE_MS: i64 = 1_000;

/// The questions of one turn.
#[derive(Debug)]
pub(crate) struct Questions {
    /// Those that a person has not decided yet: while there are any, no clock of the turn runs.
    open: watch::Sender<BTreeSet<RequestId>>,
    /// Held from the look at the rows until `open` is what they say: no older look counts after a newer one.
    looking: tokio::sync::Mutex<()>,
    /// Those that Codex asked while we listened; after a restart it asks again, a moment after the turn is found.
    heard: Mutex<BTreeSet<RequestId>>,
}

impl Questions {
    /// Those of a turn that waits for these; the receiver hears of every change.
    pub(crate) fn new(open: BTreeSet<RequestId>) -> (Self, watch::Receiver<BTreeSet<RequestId>>) {
        let (open, changes) = watch::channel(open);
        let questions = Self {
            open,
            looking: tokio::sync::Mutex::default(),
            heard: Mutex::default(),
        };
        (questions, changes)
    }

    /// What the turn waits for.
    #[cfg(test)]
    pub(crate) fn open(&self) -> BTreeSet<RequestId> {
        self.open.borrow().clone()
    }

    fn heard(&self) -> MutexGuard<'_, BTreeSet<RequestId>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of the questions of a turn that ran before it was followed.
#[derive(Debug, Default)]
pub(crate) struct AskedBefore {
    /// How long it waited for people so far.
    pub(crate) waited: Duration,
    /// What it waits for now.
    pub(crate) open: BTreeSet<RequestId>,
}

/// One time that Codex is told what was decided.
#[derive(Clone, Debug)]
struct Telling {
    request_id: RequestId,
    told_again: u32,
}

/// Who listens to the turn of a question that Codex does not seem to ask.
enum Listening {
    /// It was heard, so it is really gone.
    Heard,
    /// The turn was found and is followed; when it asks again, it is told.
    NotYet,
    /// The turn is found, or about to be, and not followed yet: the decision holds until it asks again.
    Nobody,
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Codex asks. The question is on disk before anybody hears of it.
    pub(crate) async fn asked(self: &Arc<Self>, turn: &Followed, asked: ApprovalRequest) {
        if self.called(turn, &asked).await {
            return;
        }
        let message_id = &turn.message_id;
        let to = asked.key.clone();
        let ask = match self.question(message_id, asked).await {
            Some(ask) => ask,
            None if self.halt.is_cancelled() => return,
            None => return self.decline(&to, message_id).await,
        };
        match self.insist(ask).await {
            Some(AskOutcome::Waits { request_id }) => {
                tracing::info!(%message_id, %request_id, "codex asks, and waits for a decision");
                if let Some(questions) = self.questions_of(message_id) {
                    questions.heard().insert(request_id);
                }
            }
            Some(AskOutcome::Answer {
                request_id,
                verdict,
                told_again,
            }) => {
                tracing::info!(%message_id, %request_id, via = %verdict.via, decision = verdict.decision.as_str(), "codex asks, and is answered");
                let telling = Telling {
                    request_id,
                    told_again,
                };
                let heard = self.tell_at_once(&to, &telling, &verdict).await;
                if heard == Some(Responded::Disconnected) {
                    // A person's word that was kept for this question is kept for the next one like it.
                    self.unheard(telling, Deaf::Cut).await;
                }
            }
            None if self.halt.is_cancelled() => {}
            None => self.decline(&to, message_id).await,
        }
        self.look_at_open(message_id).await;
    }

    /// The question as a row, with what the rules say to it.
    async fn question(&self, message_id: &MessageId, asked: ApprovalRequest) -> Option<Ask> {
        let message = self.asker(message_id).await?;
        let judgement = self.judge(&message, &asked);
        let at = now();
        let at_once = at_once(&judgement, at);
        let deadline = self.settings().approval_deadline_ms();
        let shown = show::question(&asked.kind, &asked.shown);
        let mut request = Request {
            request_id: request_id(),
            message_id: message_id.clone(),
            attempt: message.life.attempt,
            incarnation: asked.key.incarnation,
            rpc_id: asked.key.rpc_id,
            item_id: asked.key.item_id,
            method: asked.method,
            digest: EffectDigest::of(&asked.kind, &shown),
            headline: show::question(&asked.kind, &asked.headline),
            kind: asked.kind,
            shown,
            payload: clip(&asked.payload, REQUEST_PAYLOAD_MAX_CHARS),
            wants: Wants::Form,
            deciders: judgement.who,
            state: RequestState::Open,
            created_at: at,
            deadline: at.plus_ms(deadline),
            reminded: false,
            told_again: 0,
        };
        request.wants = wants(&request.kind, &request.method, &asked.payload);
        if request.kind == RequestKind::UserInput && wants_secret(&request) {
            // What is written in a chat stays there.
            request.deciders = Deciders::Owner;
        }
        Some(Ask { request, at_once })
    }

    /// The message whose turn asks. A ledger that can't be read for a while is no reason for a no.
    async fn asker(&self, message_id: &MessageId) -> Option<Message> {
        for tries in 0_u32.. {
            let error = match self.load(message_id).await {
                Ok(found) => return found.map(|(message, _)| message),
                Err(error) => error,
            };
            tracing::error!(%error, %message_id, "the message of a question can't be read");
            if error.class() != Class::Transient || !self.pause(tries).await {
                return None;
            }
        }
        None
    }

    fn judge(&self, message: &Message, asked: &ApprovalRequest) -> Judgement {
        self.settings().policy.judge(Case {
            tier: message.tier,
            kind: &asked.kind,
            effect: &asked.effect,
        })
    }

    /// The rows can't take the question: its message is over.
    async fn decline(&self, to: &RequestKey, message_id: &MessageId) {
        let verdict = RequestVerdict::own(RequestDecision::Decline, "its message is over", now());
        if let Err(error) = self.agent.respond(to, &verdict).await {
            tracing::warn!(%error, %message_id, "a question of codex could not be declined");
        }
    }

    /// Codex is told what was decided before.
    async fn tell_at_once(
        self: &Arc<Self>,
        to: &RequestKey,
        telling: &Telling,
        verdict: &RequestVerdict,
    ) -> Option<Responded> {
        let request_id = &telling.request_id;
        let heard = self.agent.respond(to, verdict).await;
        let heard = heard
            .inspect_err(|error| {
                tracing::warn!(%error, %request_id, "an answer could not be given to codex");
            })
            .ok()?;
        match &heard {
            Responded::Gone => self.forget_secret(request_id).await,
            Responded::Invalid { why } => {
                let why = why.clone();
                self.unheard(telling.clone(), Deaf::Unfit { why }).await;
            }
            Responded::Delivered | Responded::Disconnected => {}
        }
        Some(heard)
    }

    async fn unheard(self: &Arc<Self>, telling: Telling, because: Deaf) {
        let Telling {
            request_id,
            told_again,
        } = telling;
        tracing::info!(%request_id, ?because, "codex did not take a decision");
        self.settle(Unheard {
            request_id,
            because,
            told_again,
        })
        .await;
    }

    /// Tells Codex what was decided. A decision that does not reach it is not lost: while it lives it asks again.
    pub(crate) async fn answer(self: Arc<Self>, request_id: RequestId) {
        let Some((request, verdict)) = self.decided(&request_id).await else {
            return;
        };
        let to = named(&request);
        let because = match self.agent.respond(&to, &verdict).await {
            Ok(Responded::Delivered) => None,
            // The end of the turn is under way by itself.
            Ok(Responded::Gone | Responded::Disconnected)
                if verdict.decision == RequestDecision::Cancel =>
            {
                None
            }
            Ok(Responded::Gone) => match self.listening(&request) {
                Listening::Heard => Some(Deaf::Gone),
                Listening::NotYet => None,
                Listening::Nobody => Some(Deaf::Cut),
            },
            Ok(Responded::Disconnected) => Some(Deaf::Cut),
            Ok(Responded::Invalid { why }) => Some(Deaf::Unfit { why }),
            Err(error) => {
                tracing::warn!(%error, %request_id, "a decision could not be given to codex");
                None
            }
        };
        if let Some(because) = because {
            let told_again = request.told_again;
            let telling = Telling {
                request_id,
                told_again,
            };
            self.unheard(telling, because).await;
        }
        self.look_at_open(&request.message_id).await;
    }

    async fn decided(&self, request_id: &RequestId) -> Option<(Request, RequestVerdict)> {
        let id = request_id.clone();
        let request = match self.ledger.read(move |rows| rows.request(&id)).await {
            Ok(request) => request?,
            Err(error) => {
                tracing::error!(%error, %request_id, "a decision can't be read");
                self.doubt.notify_one();
                return None;
            }
        };
        match request.state.clone() {
            RequestState::Decided(verdict) => Some((request, verdict)),
            RequestState::Open
            | RequestState::Orphaned
            | RequestState::Granted(_)
            | RequestState::Withdrawn { .. } => None,
        }
    }

    /// Secret answers are kept until Codex has them, and no longer.
    async fn forget_secret(self: &Arc<Self>, request_id: &RequestId) {
        let id = request_id.clone();
        let read = self.ledger.read(move |rows| rows.request(&id)).await;
        self.forget_secrets(read.map(|request| request.into_iter().collect()))
            .await;
    }

    /// Codex has our answer: a secret one is forgotten now.
    pub(crate) async fn confirmed(self: &Arc<Self>, turn: &Followed, asked: RequestKey) {
        let message_id = turn.message_id.clone();
        let RequestKey {
            incarnation,
            rpc_id,
            ..
        } = asked;
        tracing::info!(%message_id, request = rpc_id, "codex confirmed that it has an answer");
        let read = self
            .ledger
            .read(move |rows| rows.requests_named(&message_id, &incarnation, &rpc_id));
        self.forget_secrets(read.await).await;
    }

    /// The turn of a message is over, seen or not: nobody needs its secret answers any more.
    pub(crate) async fn forget_secrets_of(self: &Arc<Self>, message_id: &MessageId) {
        let id = message_id.clone();
        let read = self.ledger.read(move |rows| rows.requests(&id)).await;
        self.forget_secrets(read).await;
    }

    async fn forget_secrets(self: &Arc<Self>, requests: Result<Vec<Request>, LedgerError>) {
        let requests = requests.unwrap_or_else(|error| {
            tracing::error!(%error, "a secret answer that codex has can't be forgotten yet");
            Vec::new()
        });
        for request in requests {
            if holds_secret(&request) {
                let request_id = request.request_id;
                self.settle(Told { request_id }).await;
            }
        }
    }

    /// Codex let go of a question by itself.
    pub(crate) async fn resolved(self: &Arc<Self>, turn: &Followed, asked: RequestKey) {
        if turn.calls.let_go(&asked) {
            return;
        }
        let resolve = Resolve {
            message_id: turn.message_id.clone(),
            incarnation: asked.incarnation,
            rpc_id: asked.rpc_id,
        };
        let _settled = self.insist(resolve).await;
        self.look_at_open(&turn.message_id).await;
    }

    /// The questions of a turn that is followed now.
    fn questions_of(&self, message_id: &MessageId) -> Option<Arc<Questions>> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running
            .get(message_id)
            .map(|running| Arc::clone(&running.questions))
    }

    /// The rows alone say what a turn waits for; they are looked at after every change of them.
    async fn look_at_open(&self, message_id: &MessageId) {
        let Some(questions) = self.questions_of(message_id) else {
            return;
        };
        let _one_at_a_time = questions.looking.lock().await;
        match self.standings(message_id).await {
            Ok(standings) => {
                let waits_for = open(&standings);
                questions.open.send_if_modified(|open| {
                    let changed = *open != waits_for;
                    *open = waits_for;
                    changed
                });
            }
            Err(error) => {
                tracing::error!(%error, %message_id, "what a turn waits for can't be read");
                self.doubt.notify_one();
            }
        }
    }

    /// How the questions of a message's present attempt stand.
    async fn standings(&self, message_id: &MessageId) -> Result<Vec<Standing>, LedgerError> {
        let id = message_id.clone();
        let read = self.ledger.read(move |rows| {
            let attempt = rows.message(&id)?.map(|message| message.life.attempt);
            let mut standings = rows.standings(&id)?;
            standings.retain(|standing| Some(standing.attempt) == attempt);
            Ok(standings)
        });
        read.await
    }

    /// Whether Codex can be believed that it does not ask this.
    fn listening(&self, request: &Request) -> Listening {
        match self.questions_of(&request.message_id) {
            Some(questions) if questions.heard().contains(&request.request_id) => Listening::Heard,
            Some(_) => Listening::NotYet,
            None => Listening::Nobody,
        }
    }

    /// The questions of a turn that is followed again: time spent waiting for a person does not count.
    pub(crate) async fn asked_before(&self, turn: &Followed) -> AskedBefore {
        match self.standings(&turn.message_id).await {
            Ok(standings) => AskedBefore {
                waited: waited(&standings, now()),
                open: open(&standings),
            },
            Err(error) => {
                tracing::warn!(%error, message_id = %turn.message_id, "what a turn asked before can't be read");
                AskedBefore::default()
            }
        }
    }

    /// Settles the questions whose time has come; tells when the next one is due.
    pub(crate) async fn tend(self: &Arc<Self>) -> Option<Timestamp> {
        for _ in 0..TEND_MAX {
            let tend = Tend {
                now: now(),
                reminder_ms: self.settings().approval_reminder_ms(),
            };
            match self.commit(tend).await {
                Ok(Tended::Did(request_id)) => {
                    tracing::info!(%request_id, "a question of codex was not decided in time, or is told of again");
                }
                Ok(Tended::Idle { next_due }) => return next_due,
                Err(error) => {
                    tracing::error!(%error, "open questions can't be looked at");
                    return Some(now().plus_ms(TEND_PAUSE_MS));
                }
            }
        }
        Some(now())
    }

    /// What the ledger's failure may have swallowed: decisions of running turns that Codex was not told.
    pub(crate) async fn answer_again(self: &Arc<Self>) -> Result<(), LedgerError> {
        let running: Vec<MessageId> = {
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.keys().cloned().collect()
        };
        for message_id in running {
            for standing in self.standings(&message_id).await? {
                if let RequestState::Decided(verdict) = &standing.state {
                    let to = RequestKey {
                        incarnation: standing.incarnation,
                        rpc_id: standing.rpc_id,
                        item_id: standing.item_id,
                    };
                    let telling = Telling {
                        request_id: standing.request_id,
                        told_again: standing.told_again,
                    };
                    // It may have been told before: what does not reach it now is no grant.
                    self.tell_at_once(&to, &telling, verdict).await;
                }
            }
            self.look_at_open(&message_id).await;
        }
        Ok(())
    }
}

/// What the rules decide without a person.
fn at_once(judgement: &Judgement, at: Timestamp) -> Option<RequestVerdict> {
    let decision = match judgement.ruling {
        Ruling::Ask => return None,
        Ruling::Allow => RequestDecision::Accept,
        Ruling::Deny => RequestDecision::Decline,
    };
    let via = match &judgement.because {
        Some(rule) => format!("rule {rule}"),
        None => judgement.why.clone(),
    };
    Some(RequestVerdict::own(decision, &via, at))
}

/// Whether its answer is a secret that is still kept.
fn holds_secret(request: &Request) -> bool {
    match &request.state {
        RequestState::Decided(verdict) => verdict.answers.is_some() && wants_secret(request),
        RequestState::Open
        | RequestState::Orphaned
        | RequestState::Granted(_)
        | RequestState::Withdrawn { .. } => false,
    }
}

fn named(request: &Request) -> RequestKey {
    RequestKey {
        incarnation: request.incarnation.clone(),
        rpc_id: request.rpc_id.clone(),
        item_id: request.item_id.clone(),
    }
}

fn open(standings: &[Standing]) -> BTreeSet<RequestId> {
    let open = standings
        .iter()
        .filter(|standing| standing.state == RequestState::Open);
    open.map(|standing| standing.request_id.clone()).collect()
}

/// How long at least one of these questions was open.
fn waited(standings: &[Standing], now: Timestamp) -> Duration {
    let mut spans: Vec<(Timestamp, Timestamp)> = standings
        .iter()
        .filter_map(|standing| match &standing.state {
            RequestState::Open => Some((standing.created_at, now)),
            RequestState::Decided(verdict) => Some((standing.created_at, verdict.at)),
            RequestState::Orphaned | RequestState::Granted(_) | RequestState::Withdrawn { .. } => {
                None
            }
        })
        .collect();
    spans.sort_unstable();
    let (mut until, mut all) = (Timestamp(i64::MIN), 0_i64);
    for (from, to) in spans {
        all = all.saturating_add(to.since_ms(from.max(until)).max(0));
        until = until.max(to);
    }
    Duration::from_millis(u64::try_from(all).unwrap_or(0))
}

/// Why a decision does not fit its question, as far as the row tells.
pub(crate) fn misfit(request: &Request, verdict: &RequestVerdict) -> Option<String> {
    let scope = match verdict.decision {
        RequestDecision::Accept => GrantScope::Turn,
        RequestDecision::AcceptForSession => GrantScope::Session,
        RequestDecision::Decline | RequestDecision::Cancel => return None,
    };
    let params: Value = serde_json::from_str(&request.payload).ok()?;
    let asked = ServerRequest::parse(RawId::Integer(0), request.method.clone(), params);
    let answers = match verdict
        .answers
        .as_deref()
        .map(serde_json::from_str::<Value>)
    {
        None => None,
        Some(Ok(answers)) => Some(answers),
        Some(Err(error)) => return Some(format!("the answers are not JSON ({error})")),
    };
    let answers = answers.as_ref().filter(|answers| !answers.is_null());
    asked.accept_with(answers, &scope).err()
}

#[cfg(test)]
mod tests;
