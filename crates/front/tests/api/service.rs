//! A service over a ledger in memory, and how it is called.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use bridge_core::port::{Change, Ledger, LedgerError, Steering};
use bridge_core::rules::Policy;
use bridge_core::step::{
    AcceptInput, Action, AddToken, AnswerTask, Authority, Cancel, CancelOutcome, Claim, Decide,
    DecideOutcome, Extras, InputAccepted, InputTarget, Lend, LendOutcome, MidTurn, NotifyBegin,
    Receive, Received, Record, ReserveSequence, ReturnLoan, RunError, StopSender, TaskAnswered,
    Tell, TokenAdded, Transition, Tx, Verdict,
};
use bridge_core::task::TaskSnapshot;
use bridge_core::value::{
    Actor, ApprovalPolicy, Attachment, AuditEntry, ChannelId, ConversationId, ExternalId, LoanId,
    MessageId, NodeId, NodeInfo, PushDevice, RequestVerdict, Sandbox, SenderKind, Subscription,
    Task, TaskId, TaskInput, Tier, Timestamp,
};
use bridge_front::api::{Api, Listener};
use bridge_front::{
    A2aProfile, BridgeService, Caller, ConsolePlace, HealthView, Hub, Lending, LiveUpdate,
    LoanReturned, NewAnswer, NewLoan, NewTask, NewTaskInput, Notified, PolicyInForce, PushPut,
    ReloadView, StartError, StopRequest, Stopped, SubmitError, SubmitRequest, Submitted, TaskBegun,
    TierTerms, TokenHash,
};
use bridge_testkit::MemoryLedger;
use futures_util::StreamExt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Longer than a stream waits between two looks; nothing more comes after it.
const QUIET: Duration = Duration::from_secs(12);

/// How long a node of a fleet may be silent.
pub(crate) const LEASE_MS: i64 = 10_000;

fn about() -> NodeInfo {
    NodeInfo {
        version: "1.2.3".to_owned(),
        codex_version: "0.150.0".to_owned(),
        capacity: 4,
        ..NodeInfo::default()
    }
}

#[derive(Clone)]
pub(crate) struct TestService {
    ledger: MemoryLedger,
    hub: Hub,
    now: Arc<AtomicI64>,
    tasks: Arc<AtomicU64>,
    randoms: Arc<AtomicU64>,
    redacted: Arc<Mutex<Vec<String>>>,
    /// No numbers are left for news of tasks.
    mute: Arc<AtomicBool>,
    /// How often files were brought for somebody who opens them.
    brought: Arc<AtomicU64>,
    pub(crate) policy: Policy,
}

impl TestService {
    pub(crate) fn new() -> Self {
        Self {
            ledger: MemoryLedger::new(),
            hub: Hub::default(),
            now: Arc::new(AtomicI64::new(1_000_000_000)),
            tasks: Arc::default(),
            randoms: Arc::default(),
            redacted: Arc::default(),
            mute: Arc::default(),
            brought: Arc::default(),
            policy: Policy::default(),
        }
    }

    /// Two nodes over one ledger: `a`, which answers, and `b`.
    pub(crate) fn of_fleet() -> Self {
        let service = Self::new();
        let (ledger, now) = (service.ledger.clone(), service.now());
        ledger.set_clock(now).unwrap();
        ledger.join(&NodeId::new("b"), about(), LEASE_MS).unwrap();
        let ledger = ledger.join(&NodeId::new("a"), about(), LEASE_MS);
        Self {
            ledger: ledger.unwrap(),
            ..service
        }
    }

    /// The leases of all nodes but `a` end.
    pub(crate) async fn loses_others(&self) {
        self.pass_ms(LEASE_MS - 1);
        self.ledger.set_clock(self.now()).unwrap();
        self.does(Put(Vec::new())).await.unwrap();
        self.pass_ms(1);
        self.ledger.set_clock(self.now()).unwrap();
    }

    /// From now on no stream of a task can begin.
    pub(crate) fn falls_mute(&self) {
        self.mute.store(true, Ordering::SeqCst);
    }

    pub(crate) fn brought(&self) -> u64 {
        self.brought.load(Ordering::SeqCst)
    }

    /// What was made and must not leave.
    pub(crate) fn redacted(&self) -> Vec<String> {
        self.redacted.lock().unwrap().clone()
    }

    /// How many random numbers were given.
    pub(crate) fn randoms(&self) -> u64 {
        self.randoms.load(Ordering::SeqCst)
    }

    pub(crate) fn pass_ms(&self, ms: i64) {
        self.now.fetch_add(ms, Ordering::SeqCst);
    }

    pub(crate) fn router(&self) -> Router {
        let api = Api::new(self.clone(), CancellationToken::new());
        api.router(Listener::Local)
    }

    pub(crate) async fn does<T: Transition>(
        &self,
        transition: T,
    ) -> Result<T::Outcome, LedgerError> {
        let committed = self.ledger.transact(transition, self.now()).await?;
        Ok(committed.outcome)
    }

    pub(crate) async fn cancel(
        &self,
        message_id: MessageId,
        by: Actor,
    ) -> Result<CancelOutcome, LedgerError> {
        self.commit(Cancel { message_id, by }).await
    }

    /// There is a token of this name for A2A.
    pub(crate) async fn knows_peer(&self, name: &str) {
        self.knows_for(name, "a2a").await;
    }

    /// There is a token of this name.
    pub(crate) async fn knows(&self, name: &str) {
        self.knows_for(name, "read").await;
    }

    async fn knows_for(&self, name: &str, scope: &str) {
        let token = AddToken {
            name: name.to_owned(),
            hash: TokenHash::of(name).hex(),
            scopes: vec![scope.to_owned()],
            rotate: false,
            by: "somebody".to_owned(),
        };
        assert_eq!(self.does(token).await.unwrap(), TokenAdded::Added);
    }

    /// A message of its own conversation comes in, and subscribers are notified.
    pub(crate) async fn receives(&self, id: &str) {
        let received = self.does(message(id, "local", "ann")).await;
        assert!(matches!(received, Ok(Received::New(_))));
        self.hub.publish(&MessageId::new(id), LiveUpdate::Changed);
    }
}

impl TestService {
    /// As the daemon takes in what another agent said: messages are `m1`, `m2`, their tasks `e1`, `e2`.
    async fn task(&self, new: NewTaskInput) -> AcceptInput {
        let n = self.tasks.fetch_add(1, Ordering::SeqCst) + 1;
        let owner = new.from.name;
        let old = new.task_id.clone();
        let old = self.ledger.read(move |rows| match old {
            Some(id) => TaskSnapshot::load(rows, &id),
            None => Ok(None),
        });
        let key = match (old.await.unwrap(), new.context) {
            (Some(view), _) => view.context,
            (None, Some(context)) => format!("{owner}/{context}"),
            (None, None) => format!("{owner}/made-{n}"),
        };
        let id = format!("m{n}");
        let external_id = match new.key {
            Some(key) => key_id(&owner, &key),
            None => ExternalId::new(format!("{}#{id}", new.client_message_id)),
        };
        let receive = Receive {
            conversation_id: ConversationId::new(format!("c-{key}")),
            external_key: key,
            external_id,
            kind: SenderKind::Agent,
            tier: Tier::Peer,
            body: new.text,
            ..message(&id, "a2a", &owner)
        };
        AcceptInput {
            place: match new.task_id {
                Some(task_id) => InputTarget::Old { task_id, owner },
                None => InputTarget::New(Task {
                    task_id: TaskId::new(format!("e{n}")),
                    channel: receive.channel.clone(),
                    conversation_id: receive.conversation_id.clone(),
                    owner,
                    sequence: 0,
                    created_at: self.now(),
                    start: None,
                }),
            },
            receive,
            client_message_id: new.client_message_id,
            original: new.original,
            brief: new.brief,
        }
    }
}

fn key_id(owner: &str, key: &str) -> ExternalId {
    ExternalId::new(format!("#key:{owner}:{key}"))
}

/// Rows as a test wants them.
#[derive(Clone)]
pub(crate) struct Put(pub(crate) Vec<Change>);

impl Transition for Put {
    type Outcome = ();
    const NAME: &'static str = "put";

    fn apply(self, tx: &mut Tx<'_>, _: Timestamp) -> Result<(), RunError> {
        for change in self.0 {
            tx.change(change)?;
        }
        Ok(())
    }
}

/// A message of its own conversation.
pub(crate) fn message(id: &str, channel: &str, sender: &str) -> Receive {
    Receive {
        message_id: MessageId::new(id),
        conversation_id: ConversationId::new(format!("c-{id}")),
        workdir: "/work".to_owned(),
        channel: ChannelId::new(channel),
        external_key: id.to_owned(),
        external_id: ExternalId::new(id),
        kind: SenderKind::Person,
        sender: sender.to_owned(),
        tier: Tier::Owner,
        body: "hello".to_owned(),
        mid_turn: MidTurn::Queue,
        verdict: Verdict::Fit,
        extras: Extras::default(),
    }
}

impl BridgeService for TestService {
    type Ledger = MemoryLedger;

    fn ledger(&self) -> &MemoryLedger {
        &self.ledger
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }

    async fn lend(&self, new: NewLoan) -> Result<Lending, LedgerError> {
        let lend = Lend {
            conversation_id: new.conversation_id,
            loan_id: new.loan_id,
            borrower: new.borrower,
            until: new.until,
        };
        Ok(match self.commit(lend).await? {
            LendOutcome::Lent(loan) => Lending::Busy {
                loan,
                message_id: None,
            },
            LendOutcome::Busy { loan, message_id } => Lending::Busy { loan, message_id },
            LendOutcome::Taken(loan) => Lending::Taken(loan),
            LendOutcome::NoThread => Lending::NoThread,
        })
    }

    async fn return_loan(
        &self,
        conversation_id: &ConversationId,
        loan_id: Option<LoanId>,
        by: &str,
    ) -> Result<LoanReturned, LedgerError> {
        let back = ReturnLoan {
            conversation_id: conversation_id.clone(),
            loan_id,
            by: by.to_owned(),
        };
        let found = self.commit(back).await?;
        Ok(found.map_or(LoanReturned::NotLent, |_| LoanReturned::Back))
    }

    async fn commit<T: Transition>(&self, transition: T) -> Result<T::Outcome, LedgerError> {
        if T::NAME == ReserveSequence::NAME && self.mute.load(Ordering::SeqCst) {
            let what = "no numbers are left".to_owned();
            return Err(LedgerError::Unavailable { what });
        }
        let committed = self.ledger.transact(transition, self.now()).await?;
        for action in committed.actions {
            if let Action::Announce { message_id } = action {
                self.hub.publish(&message_id, LiveUpdate::Changed);
            }
        }
        Ok(committed.outcome)
    }

    async fn submit(
        &self,
        _message: SubmitRequest,
        _key: &str,
        _from: Caller,
    ) -> Result<Submitted, SubmitError> {
        Err(SubmitError::Stopping)
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }

    fn claim(&self) -> Claim {
        Claim {
            turns_max: 1,
            turns_reserved: 0,
            turns_per_channel: 1,
            per_sender: std::sync::Arc::new(bridge_core::step::TurnsPerSender::UNLIMITED),
            one_writer: Vec::new(),
            readers: Vec::new(),
            budgets: std::sync::Arc::default(),
            leave_written: false,
            now: self.now(),
        }
    }

    fn ledger_bytes(&self) -> Option<u64> {
        None
    }

    async fn stop_sender(&self, stop: StopRequest, by: Actor) -> Result<Stopped, LedgerError> {
        let batch = self
            .does(StopSender {
                sender: stop.sender,
                session: None,
                channels: stop.channel.into_iter().collect(),
                by,
                cause: stop.cause,
                after: None,
            })
            .await?;
        Ok(Stopped {
            cancelled: batch.cancelled,
            running: batch.running,
            joined: batch.joined,
        })
    }

    fn random_token(&self) -> Option<String> {
        let n = self.randoms.fetch_add(1, Ordering::SeqCst);
        Some(format!("random-{n}"))
    }

    fn redact(&self, secret: &str) {
        self.redacted.lock().unwrap().push(secret.to_owned());
    }

    async fn open_console(&self) -> Result<ConsolePlace, String> {
        Ok(ConsolePlace {
            url: Some("http://127.0.0.1:4141/console/".to_owned()),
            public_url: Some("https://bridge.example/console/".to_owned()),
            remark: None,
        })
    }

    async fn push_key(&self) -> Result<Result<String, String>, LedgerError> {
        Ok(Ok("the-key".to_owned()))
    }

    fn check_device(&self, device: &PushDevice) -> Result<(), String> {
        match device.endpoint.strip_prefix("https://") {
            Some(_) => Ok(()),
            None => Err("it must be https".to_owned()),
        }
    }

    async fn decide(&self, decide: Decide) -> Result<DecideOutcome, LedgerError> {
        self.does(decide).await
    }

    fn policy(&self) -> PolicyInForce {
        let terms = TierTerms {
            sandbox: Sandbox::ReadOnly,
            approval_policy: ApprovalPolicy::OnRequest,
        };
        PolicyInForce {
            policy: self.policy.clone(),
            owner: terms,
            peer: terms,
            tool: terms,
            deadline_secs: 600,
        }
    }

    fn tier_of(&self, channel: &str, _: Option<&str>) -> Result<Tier, String> {
        match channel {
            "a2a" => Ok(Tier::Peer),
            other => Err(format!("there is no channel `{other}`")),
        }
    }

    async fn reload(&self, by: &str) -> ReloadView {
        let entry = AuditEntry {
            at: self.now(),
            actor: by.to_owned(),
            what: "reload".to_owned(),
            subject: "configuration".to_owned(),
            detail: String::new(),
        };
        drop(self.does(Record { entry }).await);
        ReloadView::failed(self.now(), "there is no file".to_owned())
    }

    async fn start_task(&self, _: NewTask) -> Result<TaskBegun, StartError> {
        Err(SubmitError::Stopping.into())
    }

    async fn steer_task(&self, _: &Task, _: String, _: &Caller) -> Result<Steering, SubmitError> {
        Ok(Steering::Steered)
    }

    async fn tell(
        &self,
        message_id: MessageId,
        text: String,
        by: &str,
    ) -> Result<Steering, LedgerError> {
        let (by, mark) = (by.to_owned(), "mark".to_owned());
        let tell = Tell {
            message_id,
            text,
            by,
            mark,
        };
        self.does(tell).await.map(|_| Steering::Steered)
    }

    async fn notify_task(&self, task_id: &TaskId, by: &str) -> Result<Notified, LedgerError> {
        let begin = NotifyBegin {
            task_id: task_id.clone(),
            subscription_id: Subscription::END.to_owned(),
            asked: Some(by.to_owned()),
        };
        self.does(begin).await.map(|_| Notified::Nothing)
    }

    fn steps(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    fn a2a(&self) -> A2aProfile {
        A2aProfile::default()
    }

    async fn accept_input(&self, task: NewTaskInput) -> Result<InputAccepted, SubmitError> {
        let taken = self.does(self.task(task).await).await?;
        if let InputAccepted::New { message_id, .. } = &taken {
            self.hub.publish(message_id, LiveUpdate::Changed);
        }
        Ok(taken)
    }

    async fn answer_task(&self, answer: NewAnswer) -> Result<TaskAnswered, LedgerError> {
        let sender = answer.from.name;
        let done = self.does(AnswerTask {
            idempotency_key: answer.key.map(|key| key_id(&sender, &key)),
            decide: Decide {
                request_id: answer.request_id,
                digest: None,
                verdict: RequestVerdict {
                    decision: answer.decision,
                    answers: answer.answers,
                    by: bridge_core::value::DecidedBy::caller(&sender),
                    via: "a2a".to_owned(),
                    at: self.now(),
                },
                authority: Authority::Sender {
                    conversation_id: answer.conversation_id,
                    sender,
                    tier: Tier::Peer,
                },
            },
            task_id: answer.task_id,
            client_message_id: answer.client_message_id,
            original: answer.original,
        });
        done.await
    }

    async fn repeated_input(
        &self,
        from: &Caller,
        task_id: &TaskId,
        key: &str,
    ) -> Result<Option<TaskInput>, LedgerError> {
        let (task_id, idempotency_key) = (task_id.clone(), key_id(&from.name, key));
        let read = self
            .ledger
            .read(move |rows| bridge_core::task::repeated_input(rows, &task_id, &idempotency_key));
        read.await
    }

    fn talk(&self, from: &Caller, context: &str) -> (ChannelId, String) {
        (ChannelId::new("a2a"), format!("{}/{context}", from.name))
    }

    async fn put_push(&self, push: Subscription, by: &str) -> Result<PushPut, LedgerError> {
        let url = push.push().map(|push| push.url.as_str());
        if url.is_some_and(|url| url.starts_with("http://10.")) {
            let why = "it leads into a private network".to_owned();
            return Ok(PushPut::Refused { why });
        }
        let task_id = push.task_id.clone();
        let known = self.ledger.read(move |rows| rows.task(&task_id)).await?;
        if known.is_some_and(|task| task.owner == by) {
            self.does(Put(vec![Change::PutSubscription(push)])).await?;
            Ok(PushPut::Put)
        } else {
            Ok(PushPut::Unknown)
        }
    }

    async fn drop_push(&self, id: &TaskId, name: &str, by: &str) -> Result<bool, LedgerError> {
        let (task_id, config_id) = (id.clone(), name.to_owned());
        let wanted = (task_id.clone(), config_id.clone());
        let (known, push) = self
            .ledger
            .read(move |rows| {
                Ok((
                    rows.task(&wanted.0)?,
                    rows.subscription(&wanted.0, &wanted.1)?,
                ))
            })
            .await?;
        if known.is_none_or(|task| task.owner != by) {
            return Ok(false);
        }
        if push.is_some() {
            let drop = Change::DropSubscription {
                task_id,
                subscription_id: config_id,
            };
            self.does(Put(vec![drop])).await?;
        }
        Ok(true)
    }

    fn file_path(&self, file: &Attachment) -> String {
        file.digest.to_string()
    }

    async fn bring_files(&self, _files: Vec<Attachment>) {
        self.brought.fetch_add(1, Ordering::SeqCst);
    }

    /// Files of tests are short: their bytes are their digest.
    async fn read_file(&self, file: &Attachment) -> Result<Vec<u8>, String> {
        let bytes = file.digest.bytes().iter().copied();
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        if bytes.is_empty() {
            Err("it is gone".to_owned())
        } else {
            Ok(bytes)
        }
    }

    async fn health(&self) -> HealthView {
        HealthView {
            ready: true,
            reload: None,
            detail: "ready".to_owned(),
            pid: 1,
            version: "0".to_owned(),
            codex: "none".to_owned(),
            codex_memory: None,
            ledger: None,
            channels: Vec::new(),
        }
    }
}

/// A stream of events that nobody reads until it is asked for.
pub(crate) struct Reader(axum::body::BodyDataStream);

impl Reader {
    pub(crate) async fn open(router: &Router, path: &str, last: Option<&str>) -> Self {
        let mut request = Request::get(path);
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        Self::of(router, request).await
    }

    pub(crate) async fn of(router: &Router, request: axum::http::request::Builder) -> Self {
        let request = request.body(Body::empty()).unwrap();
        let response = tower::ServiceExt::oneshot(router.clone(), request)
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Self(response.into_body().into_data_stream())
    }

    /// The next event, without comments.
    pub(crate) async fn next(&mut self) -> String {
        let next = async {
            loop {
                let chunk = self.0.next().await.unwrap().unwrap();
                let text = std::str::from_utf8(&chunk).unwrap();
                if text.starts_with("event: ") {
                    return text.to_owned();
                }
            }
        };
        tokio::time::timeout(QUIET, next).await.unwrap()
    }

    /// Waits until the stream is over.
    pub(crate) async fn ended(&mut self) {
        let end = async { while self.0.next().await.is_some() {} };
        tokio::time::timeout(QUIET, end).await.unwrap();
    }

    /// Everything that comes until nothing more does, without comments.
    pub(crate) async fn rest(&mut self) -> Vec<String> {
        let mut text = String::new();
        let quiet = tokio::time::Instant::now() + QUIET;
        while let Ok(Some(chunk)) = tokio::time::timeout_at(quiet, self.0.next()).await {
            text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        }
        let events = text
            .split("\n\n")
            .filter(|event| event.starts_with("event: "));
        events.map(ToOwned::to_owned).collect()
    }
}
