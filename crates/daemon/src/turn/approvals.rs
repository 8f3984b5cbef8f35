//! The approval requests of a running turn: judged by the rules, written down, and answered to Codex once they are
//! decided. What a decision means is the core's; here it only reaches Codex.

use crate::Daemon;
use crate::process::ids::{now, request_id};
use crate::turn::follow::Followed;
use bridge_core::limits::{EFFECT_MAX_BYTES, REQUEST_PAYLOAD_MAX_CHARS, clip};
use bridge_core::port::{
    Agent, AgentError, ApprovalRequest, Ledger, LedgerError, RequestKey, Responded, Sink, Standing,
};
use bridge_core::rules::{RULE, RuleDecision, RuleEvaluation, RuleQuery};
use bridge_core::show;
use bridge_core::step::{
    AnswerDelivered, AnswerUndelivered, Ask, AskOutcome, ExpireOutcome, ExpireRequests, Resolve,
    UndeliveredReason,
};
use bridge_core::value::{
    Deciders, EffectDigest, Message, MessageId, Request, RequestDecision, RequestId, RequestKind,
    RequestState, RequestVerdict, Timestamp,
};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// OpenRequests whose time has come that are settled in one go; the rest is due at once.
const EXPIRE_MAX: usize = 100;
/// How soon open questions are looked at again when the ledger failed.
const EXPIRE_PAUSE_MS: i64 = 1_000;

/// The approval requests of one turn.
#[derive(Debug)]
pub(crate) struct TurnRequests {
    /// Those that nobody decided yet: while there are any, no clock of the turn runs.
    open: watch::Sender<BTreeSet<RequestId>>,
    /// Serialises refreshes of `open`, so a stale read never overwrites a newer one.
    looking: tokio::sync::Mutex<()>,
    /// Those that Codex sent to this process; after a restart it sends them again, a moment after the turn is found.
    received: Mutex<BTreeSet<RequestId>>,
}

impl TurnRequests {
    /// The requests of a turn that waits for `open`; the receiver sees every change.
    pub(crate) fn new(open: BTreeSet<RequestId>) -> (Self, watch::Receiver<BTreeSet<RequestId>>) {
        let (open, changes) = watch::channel(open);
        let requests = Self {
            open,
            looking: tokio::sync::Mutex::default(),
            received: Mutex::default(),
        };
        (requests, changes)
    }

    /// What the turn waits for.
    #[cfg(test)]
    pub(crate) fn open(&self) -> BTreeSet<RequestId> {
        self.open.borrow().clone()
    }

    /// The codes of what the turn waits for.
    pub(crate) fn open_codes(&self) -> Vec<String> {
        let open = self.open.borrow();
        open.iter().map(|id| id.code().to_owned()).collect()
    }

    fn received(&self) -> MutexGuard<'_, BTreeSet<RequestId>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
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

/// One attempt to give Codex a decision.
#[derive(Clone, Debug)]
struct ResponseAttempt {
    request_id: RequestId,
    resends: u32,
}

/// What it means that Codex does not know a request.
enum Unknown {
    /// It was received here, so it is really gone.
    Gone,
    /// The turn was found again and is followed; it is answered when Codex sends the request again.
    NotYet,
    /// The turn is not followed yet: the decision holds until the request comes again.
    NotFollowed,
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Codex asks. The request is on disk before anybody sees it.
    pub(crate) async fn asked(self: &Arc<Self>, turn: &Followed, asked: ApprovalRequest) {
        if self.called(turn, &asked).await {
            return;
        }
        let message_id = turn.message_id();
        let to = asked.key.clone();
        match self
            .insist(self.request_row(&turn.claimed.message, asked))
            .await
        {
            Some(AskOutcome::Waits { request_id }) => {
                self.work_log.asks(&request_id);
                if let Some(requests) = self.requests_of(message_id) {
                    requests.received().insert(request_id);
                }
            }
            Some(AskOutcome::Answer {
                request_id,
                verdict,
                resends,
            }) => {
                let attempt = ResponseAttempt {
                    request_id,
                    resends,
                };
                let responded = self.respond_at_once(&to, &attempt, &verdict).await;
                if responded == Some(Responded::Disconnected) {
                    // A person's decision that was kept for this request is kept for the next one like it.
                    self.not_delivered(attempt, UndeliveredReason::Cut).await;
                }
            }
            None if self.halt.is_cancelled() => {}
            None => self.decline(&to, message_id).await,
        }
        self.look_at_open(message_id).await;
    }

    /// The request as a row, with what the rules say to it.
    fn request_row(&self, message: &Message, asked: ApprovalRequest) -> Ask {
        let judgement = self.settings().policy.judge(RuleQuery {
            tier: message.tier,
            kind: &asked.kind,
            effect: &asked.effect,
        });
        let at = now();
        let at_once = at_once(&judgement, at);
        let deadline = self.settings().approval_deadline_ms();
        let shown = show::question(&asked.kind, &asked.shown);
        // A chat keeps everything that is written in it, so a secret is not asked for there.
        let is_secret = asked.kind == RequestKind::UserInput && asked.secret_answer;
        let deciders = if is_secret {
            Deciders::Owner
        } else {
            judgement.who
        };
        let secrets = self.settings().start.secret_registry.secrets();
        let effect = asked.effect.map_texts(|text| secrets.redact(text).text);
        let request = Request {
            request_id: request_id(),
            message_id: message.message_id.clone(),
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
            effect: (effect.bytes() <= EFFECT_MAX_BYTES).then_some(effect),
            wants: asked.wants,
            secret_answer: asked.secret_answer,
            deciders,
            state: RequestState::Open,
            created_at: at,
            deadline: at.plus_ms(deadline),
            reminded: false,
            resends: 0,
        };
        Ask { request, at_once }
    }

    /// Answers Codex, which may run a command then: no row is asked any more, so the lease is.
    pub(super) async fn respond(
        &self,
        to: &RequestKey,
        verdict: &RequestVerdict,
    ) -> Result<Responded, AgentError> {
        self.expect_lease().map_err(AgentError::new)?;
        self.agent.respond(to, verdict).await
    }

    /// The rows can't take the question: its message is over.
    async fn decline(&self, to: &RequestKey, message_id: &MessageId) {
        let verdict = RequestVerdict::own(RequestDecision::Decline, "its message is over", now());
        if let Err(error) = self.respond(to, &verdict).await {
            tracing::warn!(%error, %message_id, "a question of codex could not be declined");
        }
    }

    /// Gives Codex a decision that was made before it asked.
    async fn respond_at_once(
        self: &Arc<Self>,
        to: &RequestKey,
        attempt: &ResponseAttempt,
        verdict: &RequestVerdict,
    ) -> Option<Responded> {
        let request_id = &attempt.request_id;
        let responded = self.respond(to, verdict).await;
        let responded = responded
            .inspect_err(|error| {
                tracing::warn!(%error, %request_id, "an answer could not be given to codex");
            })
            .ok()?;
        match &responded {
            Responded::Gone => self.forget_secret(request_id).await,
            Responded::Invalid { why } => {
                let why = why.clone();
                self.not_delivered(attempt.clone(), UndeliveredReason::Unfit { why })
                    .await;
            }
            Responded::Delivered | Responded::Disconnected => {}
        }
        Some(responded)
    }

    async fn not_delivered(self: &Arc<Self>, attempt: ResponseAttempt, because: UndeliveredReason) {
        let ResponseAttempt {
            request_id,
            resends,
        } = attempt;
        tracing::info!(
            request = request_id.code(),
            because = because.as_str(),
            "Codex did not take a decision"
        );
        self.settle(AnswerUndelivered {
            request_id,
            because,
            resends,
        })
        .await;
    }

    /// Gives Codex a decision. One that does not reach it is not lost: as long as Codex lives it asks again.
    pub(crate) async fn answer(self: Arc<Self>, request_id: RequestId) {
        let Some((request, verdict)) = self.decided(&request_id).await else {
            return;
        };
        // The node whose turn asks is woken by the same commit.
        if !self.asks_here(&request).await {
            return;
        }
        let to = named(&request);
        let because = match self.respond(&to, &verdict).await {
            Ok(Responded::Delivered) => None,
            // The end of the turn is under way by itself.
            Ok(Responded::Gone | Responded::Disconnected)
                if verdict.decision == RequestDecision::Cancel =>
            {
                None
            }
            Ok(Responded::Gone) => match self.unknown(&request) {
                Unknown::Gone => Some(UndeliveredReason::Gone),
                Unknown::NotYet => None,
                Unknown::NotFollowed => Some(UndeliveredReason::Cut),
            },
            Ok(Responded::Disconnected) => Some(UndeliveredReason::Cut),
            Ok(Responded::Invalid { why }) => Some(UndeliveredReason::Unfit { why }),
            Err(error) => {
                tracing::warn!(%error, %request_id, "a decision could not be given to codex");
                None
            }
        };
        if let Some(because) = because {
            let resends = request.resends;
            let attempt = ResponseAttempt {
                request_id,
                resends,
            };
            self.not_delivered(attempt, because).await;
        }
        self.look_at_open(&request.message_id).await;
    }

    /// Whether the turn that asks runs on this node.
    async fn asks_here(&self, request: &Request) -> bool {
        if self.settings().start.node.is_none() {
            return true;
        }
        let message_id = request.message_id.clone();
        let message = self.ledger.read(move |rows| rows.message(&message_id));
        let here = match message.await {
            Ok(Some(message)) => self.is_at_home(&message.conversation_id).await,
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        };
        here.unwrap_or_else(|error| {
            tracing::error!(%error, "where a question of codex belongs can't be read");
            self.turns.recheck();
            false
        })
    }

    async fn decided(&self, request_id: &RequestId) -> Option<(Request, RequestVerdict)> {
        let id = request_id.clone();
        let request = match self.ledger.read(move |rows| rows.request(&id)).await {
            Ok(request) => request?,
            Err(error) => {
                tracing::error!(%error, %request_id, "a decision can't be read");
                self.turns.recheck();
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
        let message_id = turn.message_id().clone();
        let RequestKey {
            incarnation,
            rpc_id,
            ..
        } = asked;
        tracing::debug!(%message_id, request = rpc_id, "codex confirmed that it has an answer");
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
                self.settle(AnswerDelivered { request_id }).await;
            }
        }
    }

    /// Codex let go of a question by itself.
    pub(crate) async fn resolved(self: &Arc<Self>, turn: &Followed, asked: RequestKey) {
        if turn.calls.let_go(&asked) {
            return;
        }
        let resolve = Resolve {
            message_id: turn.message_id().clone(),
            incarnation: asked.incarnation,
            rpc_id: asked.rpc_id,
        };
        let _settled = self.insist(resolve).await;
        self.look_at_open(turn.message_id()).await;
    }

    /// The questions of a turn that is followed now.
    fn requests_of(&self, message_id: &MessageId) -> Option<Arc<TurnRequests>> {
        let running = self.turns.running.lock();
        running
            .get(message_id)
            .map(|turn| Arc::clone(&turn.requests))
    }

    /// The rows alone say what a turn waits for; they are looked at after every change of them.
    async fn look_at_open(&self, message_id: &MessageId) {
        let Some(requests) = self.requests_of(message_id) else {
            return;
        };
        let _one_at_a_time = requests.looking.lock().await;
        match self.standings(message_id).await {
            Ok(standings) => {
                let waits_for = open(&standings);
                requests.open.send_if_modified(|open| {
                    let changed = *open != waits_for;
                    *open = waits_for;
                    changed
                });
            }
            Err(error) => {
                tracing::error!(%error, %message_id, "what a turn waits for can't be read");
                self.turns.recheck();
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
    fn unknown(&self, request: &Request) -> Unknown {
        match self.requests_of(&request.message_id) {
            Some(requests) if requests.received().contains(&request.request_id) => Unknown::Gone,
            Some(_) => Unknown::NotYet,
            None => Unknown::NotFollowed,
        }
    }

    /// The questions of a turn that is followed again: time spent waiting for a person does not count.
    pub(crate) async fn asked_before(&self, turn: &Followed) -> AskedBefore {
        match self.standings(turn.message_id()).await {
            Ok(standings) => AskedBefore {
                waited: waited(&standings, now()),
                open: open(&standings),
            },
            Err(error) => {
                tracing::warn!(%error, message_id = %turn.message_id(), "what a turn asked before can't be read");
                AskedBefore::default()
            }
        }
    }

    /// Settles the requests whose time has come; returns when the next one is due.
    pub(crate) async fn expire_requests(self: &Arc<Self>) -> Option<Timestamp> {
        for _ in 0..EXPIRE_MAX {
            let expire = ExpireRequests {
                now: now(),
                reminder_ms: self.settings().approval_reminder_ms(),
            };
            match self.commit(expire).await {
                Ok(ExpireOutcome::Did(request_id)) => {
                    tracing::debug!(%request_id, "a question of codex was not decided in time, or is sent again as a reminder");
                }
                Ok(ExpireOutcome::Idle { next_due }) => return next_due,
                Err(error) => {
                    tracing::error!(%error, "open questions can't be looked at");
                    return Some(now().plus_ms(EXPIRE_PAUSE_MS));
                }
            }
        }
        Some(now())
    }

    /// Gives running turns the decisions that a failure of the ledger may have swallowed.
    pub(crate) async fn answer_again(self: &Arc<Self>) -> Result<(), LedgerError> {
        let running: Vec<_> = self.turns.running.lock().keys().cloned().collect();
        for message_id in running {
            self.answer_again_to(&message_id).await?;
        }
        Ok(())
    }

    /// The same for one message, if its turn runs here.
    pub(crate) async fn answer_again_to(
        self: &Arc<Self>,
        message_id: &MessageId,
    ) -> Result<(), LedgerError> {
        if self.requests_of(message_id).is_none() {
            return Ok(());
        }
        for standing in self.standings(message_id).await? {
            if let RequestState::Decided(verdict) = &standing.state {
                let to = RequestKey {
                    incarnation: standing.incarnation,
                    rpc_id: standing.rpc_id,
                    item_id: standing.item_id,
                };
                let attempt = ResponseAttempt {
                    request_id: standing.request_id,
                    resends: standing.resends,
                };
                // Codex may have it already: what does not reach it now is no grant.
                self.respond_at_once(&to, &attempt, verdict).await;
            }
        }
        self.look_at_open(message_id).await;
        Ok(())
    }
}

/// What the rules decide without a person.
fn at_once(judgement: &RuleEvaluation, at: Timestamp) -> Option<RequestVerdict> {
    let decision = match judgement.ruling {
        RuleDecision::Ask => return None,
        RuleDecision::Allow => RequestDecision::Accept,
        RuleDecision::Deny => RequestDecision::Decline,
    };
    let via = match &judgement.because {
        Some(rule) => format!("{RULE}{rule}"),
        None => judgement.why.clone(),
    };
    Some(RequestVerdict::own(decision, &via, at))
}

/// Whether its answer is a secret that is still kept.
fn holds_secret(request: &Request) -> bool {
    match &request.state {
        RequestState::Decided(verdict) => verdict.answers.is_some() && request.secret_answer,
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

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::value::{IncarnationId, RequestState};

    fn standing(from: i64, state: RequestState) -> Standing {
        Standing {
            request_id: RequestId::new(format!("r{from}")),
            attempt: 1,
            incarnation: IncarnationId::new("i"),
            rpc_id: "0".to_owned(),
            item_id: None,
            state,
            created_at: Timestamp(from),
            resends: 0,
        }
    }

    fn decided(from: i64, to: i64) -> Standing {
        let verdict = RequestVerdict::own(RequestDecision::Decline, "cli", Timestamp(to));
        standing(from, RequestState::Decided(verdict))
    }

    #[test]
    fn waits_that_overlap_count_once() {
        let now = Timestamp(1_000);
        let all = [
            decided(100, 300),
            decided(200, 250),
            decided(290, 400),
            standing(900, RequestState::Open),
            standing(500, RequestState::Orphaned),
        ];
        assert_eq!(waited(&all, now), Duration::from_millis(400));
        assert_eq!(waited(&[], now), Duration::ZERO);
        assert_eq!(open(&all).len(), 1);
    }
}
