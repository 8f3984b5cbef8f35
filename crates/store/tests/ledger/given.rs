//! Short words for transitions, so that a test reads as a story.

use bridge_core::port::{
    Change, Committed, ForeignTurn, Ledger, LedgerError, Read, RecordedTurn, RowsError,
    TurnHistory, TurnStatus,
};
use bridge_core::step::{
    Action, Answered, Attach, Begin, Bind, Claim, ClaimOutcome, Confirm, EndLoan, Fail, LentTurn,
    Lose, MidTurn, Note, Pace, Receive, Received, Reconcile, RunError, Send, SendFailed,
    SendOutcome, Transition, Tx, Verdict,
};
use bridge_core::value::{
    BootId, ChannelId, Class, ConversationId, CutPolicy, Deciders, EffectDigest, Epoch, EventKind,
    ExternalId, Failure, Incarnation, IncarnationId, ItemId, LoanId, Message, MessageId,
    ProcessStamp, Reply, Request, RequestDecision, RequestId, RequestKind, RequestState,
    RequestVerdict, Sandbox, SenderKind, StateName, ThreadId, Tier, Timestamp, Transport, TurnId,
    Usage, Wants,
};
use bridge_store::key::{KEY_BYTES, KeyAge, LedgerKey};

/// The key of the ledgers in tests.
pub(crate) fn key() -> LedgerKey {
    LedgerKey::from_bytes(&[7; KEY_BYTES], KeyAge::New).unwrap()
}

/// A ledger and a clock that moves when it is told to.
pub(crate) struct World<L> {
    pub(crate) ledger: L,
    pub(crate) now: Timestamp,
}

/// Writes changes as they are, to meet the guards without a transition in between.
#[derive(Clone, Debug)]
pub(crate) struct Write(pub(crate) Vec<Change>);

impl Transition for Write {
    type Outcome = ();
    const NAME: &'static str = "write";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        for change in self.0 {
            tx.change(change)?;
        }
        Ok(())
    }
}

pub(crate) fn message(id: &str) -> MessageId {
    MessageId::new(id)
}

pub(crate) fn conversation(key: &str) -> ConversationId {
    ConversationId::new(format!("c-{key}"))
}

pub(crate) fn failure(class: Class) -> Failure {
    Failure::new(class, "something broke")
}

/// A text from a person in a conversation.
pub(crate) fn text(key: &str, id: &str) -> Receive {
    Receive {
        message_id: message(id),
        conversation_id: conversation(key),
        workdir: "/work".to_owned(),
        channel: ChannelId::new("local"),
        external_key: key.to_owned(),
        external_id: ExternalId::new(format!("x-{id}")),
        kind: SenderKind::Person,
        sender: "ann".to_owned(),
        tier: Tier::Owner,
        body: format!("text of {id}"),
        mid_turn: MidTurn::Queue,
        verdict: Verdict::Fit,
        extras: bridge_core::step::Extras::default(),
    }
}

/// A claim with no cap but the one in all.
pub(crate) fn claim(turns_max: u32, now: Timestamp) -> Claim {
    Claim {
        turns_max,
        turns_reserved: 0,
        turns_per_channel: turns_max,
        per_sender: std::sync::Arc::new(bridge_core::step::TurnsPerSender::UNLIMITED),
        one_writer: Vec::new(),
        readers: Vec::new(),
        budgets: std::sync::Arc::default(),
        leave_written: false,
        now,
    }
}

pub(crate) fn begin(id: &str, sandbox: Sandbox) -> Begin {
    Begin {
        message_id: message(id),
        thread: ThreadId::new("thread"),
        incarnation: IncarnationId::new("i1"),
        epoch: Epoch(1),
        boot_id: BootId::new("boot"),
        sandbox,
    }
}

pub(crate) fn attach(id: &str) -> Attach {
    Attach {
        message_id: message(id),
        turn_id: TurnId::new(format!("t-{id}")),
    }
}

pub(crate) fn answered(id: &str, text: &str, reply_max_chars: Option<usize>) -> Answered {
    Answered {
        attachments: Vec::new(),
        message_id: message(id),
        turn_id: TurnId::new(format!("t-{id}")),
        text: Some(text.to_owned()),
        received: Vec::new(),
        usage: Usage {
            input_tokens: 7,
            output_tokens: 3,
        },
        reply_max_chars,
    }
}

pub(crate) fn fail(id: &str, class: Class) -> Fail {
    Fail {
        message_id: message(id),
        failure: failure(class),
        touched: false,
        usage: bridge_core::value::Usage::default(),
        on_cut: CutPolicy::Continue,
        pace: pace(1_000),
    }
}

/// First wait of 2 s, with this much of the random part.
pub(crate) fn pace(jitter: u16) -> Pace {
    Pace {
        backoff_base_ms: 2_000,
        config_probe_ms: 15_000,
        jitter,
    }
}

pub(crate) fn lose(id: &str) -> Lose {
    Lose {
        message_id: message(id),
        why: "the link broke".to_owned(),
        end: None,
    }
}

pub(crate) fn reconcile(id: &str, found: TurnHistory) -> Reconcile {
    Reconcile {
        attachments: Vec::new(),
        message_id: message(id),
        found,
        boot_id: BootId::new("boot"),
        reply_max_chars: None,
        on_cut: CutPolicy::Continue,
        pace: pace(1_000),
    }
}

pub(crate) fn found(
    id: &str,
    status: TurnStatus,
    answer: Option<&str>,
    effects: &[&str],
) -> TurnHistory {
    TurnHistory::Turn(RecordedTurn {
        turn_id: TurnId::new(format!("t-{id}")),
        status,
        answer: answer.map(str::to_owned),
        effects: effects.iter().map(|&effect| effect.to_owned()).collect(),
        received: Vec::new(),
        failure: None,
    })
}

pub(crate) fn note(id: &str, text: &str, effect: bool) -> Note {
    Note {
        message_id: message(id),
        kind: EventKind::Completed,
        text: text.to_owned(),
        effect,
    }
}

pub(crate) fn request(id: &str, request_id: &str) -> Request {
    Request {
        request_id: RequestId::new(request_id),
        message_id: message(id),
        attempt: 1,
        incarnation: IncarnationId::new("i1"),
        rpc_id: "0".to_owned(),
        item_id: Some(ItemId::new("item")),
        method: "item/commandExecution/requestApproval".to_owned(),
        kind: RequestKind::Command,
        headline: "run make".to_owned(),
        shown: "make\nin /work".to_owned(),
        digest: EffectDigest::of(&RequestKind::Command, "make\nin /work"),
        payload: r#"{"command":"make"}"#.to_owned(),
        wants: Wants::Approval,
        secret_answer: false,
        deciders: Deciders::Sender,
        state: RequestState::Open,
        created_at: Timestamp(5),
        deadline: Timestamp(500),
        effect: None,
        reminded: false,
        resends: 0,
    }
}

pub(crate) fn verdict(decision: RequestDecision, by: &str) -> RequestVerdict {
    RequestVerdict {
        decision,
        answers: None,
        by: bridge_core::value::DecidedBy::caller(by),
        via: "cli".to_owned(),
        at: Timestamp(6),
    }
}

/// A turn that was run at a Codex terminal.
pub(crate) fn terminal_turn(number: u64) -> LentTurn {
    LentTurn {
        message_id: message(&format!("at-{number}")),
        turn: ForeignTurn {
            input: "asked there".to_owned(),
            recorded: RecordedTurn {
                turn_id: TurnId::new(format!("turn-{number}")),
                status: TurnStatus::Completed,
                answer: Some("said there".to_owned()),
                effects: vec!["ran `ls`".to_owned()],
                received: Vec::new(),
                failure: None,
            },
            started_at: Some(Timestamp(5)),
            ended_at: Some(Timestamp(6)),
        },
    }
}

/// The end of loan `l1`, on this thread.
pub(crate) fn ended_loan(key: &str, thread: &str, said: Vec<LentTurn>) -> EndLoan {
    EndLoan {
        conversation_id: conversation(key),
        loan_id: LoanId::new("l1"),
        thread: Some(ThreadId::new(thread)),
        said,
        sandbox: Sandbox::WorkspaceWrite,
        epoch: Epoch(1),
        boot_id: BootId::new("boot"),
    }
}

pub(crate) fn incarnation(id: &str, started_at: i64) -> Incarnation {
    Incarnation {
        incarnation_id: IncarnationId::new(id),
        transport: Transport::Socket,
        keeper: ProcessStamp {
            pid: 42,
            start_ticks: u64::MAX,
        },
        directory: "/run/i".to_owned(),
        codex_version: "0.166.0".to_owned(),
        codex_home: (started_at % 2 == 1).then(|| "/homes/other".to_owned()),
        boot_id: BootId::new("boot"),
        started_at: Timestamp(started_at),
        ended_at: None,
        node_id: None,
    }
}

impl<L: Ledger> World<L> {
    pub(crate) fn over(ledger: &L) -> Self {
        Self {
            ledger: ledger.clone(),
            now: Timestamp(1_000_000),
        }
    }

    pub(crate) fn pass_ms(&mut self, ms: i64) {
        self.now = self.now.plus_ms(ms);
    }

    pub(crate) async fn does<T: Transition>(&self, transition: T) -> Committed<T::Outcome> {
        self.tries(transition).await.unwrap()
    }

    pub(crate) async fn tries<T: Transition>(
        &self,
        transition: T,
    ) -> Result<Committed<T::Outcome>, LedgerError> {
        self.ledger.transact(transition, self.now).await
    }

    pub(crate) async fn reads<V, F>(&self, query: F) -> V
    where
        V: core::marker::Send + 'static,
        F: FnOnce(&dyn Read) -> Result<V, RowsError> + core::marker::Send + 'static,
    {
        self.ledger.read(query).await.unwrap()
    }

    /// Receives texts a millisecond apart.
    pub(crate) async fn receives(&mut self, texts: &[(&str, &str)]) {
        for (key, id) in texts {
            self.pass_ms(1);
            let received = self.does(text(key, id)).await.outcome;
            assert_eq!(received, Received::New(message(id)));
        }
    }

    pub(crate) async fn claim(&self, turns_max: u32) -> ClaimOutcome {
        self.does(claim(turns_max, self.now)).await.outcome
    }

    /// Claims, expecting a message.
    pub(crate) async fn claims(&self) -> String {
        match self.claim(1_000).await {
            ClaimOutcome::Claimed { message, .. } => message.message_id.to_string(),
            other => panic!("expected a claim, got {other:?}"),
        }
    }

    /// Claims, expecting nothing; tells when the next one is due.
    pub(crate) async fn idles(&self) -> Option<Timestamp> {
        match self.claim(1_000).await {
            ClaimOutcome::Idle { next_due } => next_due,
            other => panic!("expected nothing to do, got {other:?}"),
        }
    }

    /// Receives, claims and begins one message.
    pub(crate) async fn starts(&mut self, key: &str, id: &str, sandbox: Sandbox) {
        self.receives(&[(key, id)]).await;
        assert_eq!(self.claims().await, id);
        self.does(begin(id, sandbox)).await;
    }

    /// Receives a message and brings it to `running`.
    pub(crate) async fn runs(&mut self, key: &str, id: &str, sandbox: Sandbox) {
        self.starts(key, id, sandbox).await;
        self.does(attach(id)).await;
    }

    /// Receives a message and brings it to `unclear`.
    pub(crate) async fn loses(&mut self, key: &str, id: &str, sandbox: Sandbox) {
        self.runs(key, id, sandbox).await;
        self.does(lose(id)).await;
    }

    pub(crate) async fn binds(&self, key: &str, thread: &str) {
        self.does(Bind {
            conversation_id: conversation(key),
            thread: ThreadId::new(thread),
        })
        .await;
    }

    pub(crate) async fn send(&self, key: &str) -> SendOutcome {
        let conversation_id = conversation(key);
        self.does(Send { conversation_id }).await.outcome
    }

    /// Sends, expecting a reply.
    pub(crate) async fn sends(&self, key: &str) -> Reply {
        match self.send(key).await {
            SendOutcome::Send { reply, .. } => *reply,
            other => panic!("expected a reply to send, got {other:?}"),
        }
    }

    pub(crate) async fn confirms(&self, reply: &Reply) -> Vec<Action> {
        self.does(Confirm {
            message_id: reply.message_id.clone(),
            ordinal: reply.ordinal,
            receipt: "receipt".to_owned(),
        })
        .await
        .actions
    }

    pub(crate) async fn refuses(&self, reply: &Reply, class: Class) -> Option<Timestamp> {
        self.does(SendFailed {
            message_id: reply.message_id.clone(),
            ordinal: reply.ordinal,
            failure: failure(class),
            jitter: 1_000,
        })
        .await
        .outcome
    }

    pub(crate) async fn message(&self, id: &str) -> Message {
        let id = message(id);
        self.reads(move |rows| rows.message(&id)).await.unwrap()
    }

    pub(crate) async fn state(&self, id: &str) -> StateName {
        self.message(id).await.life.state.name()
    }
}
