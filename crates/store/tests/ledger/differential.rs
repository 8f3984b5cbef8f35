//! The stores compared: the same random transitions must give the same outcomes and the same reads.
//!
//! Every sequence is seeded; a failure names its seed and its step, and comes back with them.

mod loans;

use crate::fixture::{Fixture, InFleet, InMemory, OnDisk, OnPostgres};
use crate::given::{
    Write, answered, attach, begin, claim, conversation, failure, found, incarnation, lose,
    message, note, pace, reconcile, request, text, verdict,
};
use crate::view::everything;
use bridge_core::budget::{Budgets, DayBudget, QuotaRules};
use bridge_core::port::{Change, Ledger, Read, TurnHistory, TurnStatus};
use bridge_core::step::{
    AcceptInput, AddLogin, AddToken, AnswerDelivered, AnswerTask, AnswerUndelivered, Answered, Ask,
    Authority, Bind, Cancel, Claim, Confirm, Decide, DeferReconcile, Discard, DropPush,
    ExpireRequests, Fail, FreeHeld, Incarnate, IncarnationGone, InputTarget, Join, Keep, Leave,
    MidTurn, NoteQuota, NotifyBegin, NotifyEnd, OpenSession, Prune, PutPush, Redrive,
    ReserveSequence, Resume, RevokeToken, Send, SendFailed, StopCause, StopSender, Suspend,
    Transition, TurnsPerSender, Unbind, UndeliveredReason, Verdict,
};
use bridge_core::storage::StorageBudget;
use bridge_core::task_events::{FROM_NOW, Timeline, behind};
use bridge_core::value::{
    Actor, BootId, ChannelId, Class, ClientId, CutPolicy, EffectDigest, ExternalId, IncarnationId,
    PushTarget, QuotaReport, QuotaWindow, RequestDecision, RequestId, RequestKind, Sandbox,
    SenderKind, StateName, Subscription, SubscriptionState, SubscriptionTarget, Task, TaskId,
    ThreadId, Tier, Timestamp, Usage,
};
use std::fmt::Debug;
use std::sync::Arc;

const STEPS: u32 = 60;
const MESSAGES: u64 = 7;
const CONVERSATIONS: u64 = 3;

/// Marsaglia's xorshift: small, seeded, and good enough to choose with.
struct Dice(u64);

fn quota_rules() -> QuotaRules {
    QuotaRules {
        reserve_percent: 10,
        slow_percent: 70,
        account: None,
    }
}

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn choose<T: Clone>(&mut self, from: &[T]) -> T {
        let index = self.below(from.len() as u64);
        from[usize::try_from(index).unwrap()].clone()
    }
}

/// The stores side by side.
pub(crate) struct Pair {
    memory: InMemory,
    pub(crate) disk: OnDisk,
    /// PostgreSQL, where every daemon is a node, and a node in memory.
    server: Option<(OnPostgres, InFleet)>,
    dice: Dice,
    now: Timestamp,
    seed: u64,
    step: u32,
}

impl Pair {
    pub(crate) fn open(seed: u64) -> Self {
        Self {
            memory: InMemory::open(),
            disk: OnDisk::open(),
            server: None,
            dice: Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            now: Timestamp(1_000_000),
            seed,
            step: 0,
        }
    }

    /// With a third store beside them.
    fn open_three(seed: u64) -> Self {
        Self {
            server: Some((OnPostgres::open(), InFleet::open())),
            ..Self::open(seed)
        }
    }

    async fn both<T: Transition + Clone + Debug>(&self, transition: T)
    where
        T::Outcome: PartialEq + Debug,
    {
        let expected = self
            .memory
            .ledger()
            .transact(transition.clone(), self.now)
            .await;
        let found = self
            .disk
            .ledger()
            .transact(transition.clone(), self.now)
            .await;
        let (seed, step) = (self.seed, self.step);
        assert_eq!(found, expected, "seed {seed} step {step}: {transition:?}");
        if let Some((server, memory)) = &self.server {
            let found = server.ledger().transact(transition.clone(), self.now).await;
            let expected = memory.ledger().transact(transition.clone(), self.now).await;
            assert_eq!(
                found, expected,
                "postgres, seed {seed} step {step}: {transition:?}"
            );
        }
    }

    async fn compare(&self) {
        let expected = everything(self.memory.ledger(), self.now).await;
        let found = everything(self.disk.ledger(), self.now).await;
        self.expect_equal("sqlite", &found, &expected);
        if let Some((server, memory)) = &self.server {
            let found = everything(server.ledger(), self.now).await;
            let expected = everything(memory.ledger(), self.now).await;
            self.expect_equal("postgres", &found, &expected);
        }
    }

    fn expect_equal(&self, store: &str, found: &[String], expected: &[String]) {
        let (seed, step) = (self.seed, self.step);
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found, expected, "{store}, seed {seed} step {step}");
        }
        assert_eq!(
            found.len(),
            expected.len(),
            "{store}, seed {seed} step {step}"
        );
    }

    fn id(&mut self) -> String {
        format!("m{}", self.dice.below(MESSAGES))
    }

    fn key(&mut self) -> String {
        format!("k{}", self.dice.below(CONVERSATIONS))
    }

    fn policy(&mut self) -> CutPolicy {
        self.dice
            .choose(&[CutPolicy::Continue, CutPolicy::Ask, CutPolicy::Bury])
    }

    fn class(&mut self) -> Class {
        let until = Some(self.now.plus_ms(500));
        self.dice.choose(&[
            Class::Transient,
            Class::Capacity { until: None },
            Class::Capacity { until },
            Class::Config,
            Class::Permanent,
            Class::Ambiguous,
            Class::Bug,
        ])
    }

    /// One more ordinary command on both.
    pub(crate) async fn step(&mut self) {
        let wait = self.dice.choose(&[0, 1, 1, 700, 20_000]);
        self.now = self.now.plus_ms(wait);
        match self.dice.below(10) {
            0..=1 => self.receive().await,
            2 => self.claim().await,
            3 => self.anything().await,
            4 => self.aside().await,
            _ => self.next_of_some_message().await,
        }
        self.step += 1;
    }

    async fn receive(&mut self) {
        let (key, id) = (self.key(), self.id());
        let mut text = text(&key, &id);
        text.kind = self.dice.choose(&[SenderKind::Person, SenderKind::Agent]);
        text.sender = self.dice.choose(&["ann".to_owned(), "bob".to_owned()]);
        text.tier = self.dice.choose(&[Tier::Owner, Tier::Peer, Tier::Tool]);
        text.mid_turn = self.dice.choose(&[MidTurn::Queue, MidTurn::Steer]);
        text.extras.storage = StorageBudget {
            bytes_per_day: self.dice.choose(&[None, Some(4_000)]),
            refusable: self.dice.one_in(2),
            beside: 0,
        };
        if self.dice.one_in(8) {
            text.verdict = Verdict::Unfit {
                reason: "too large".to_owned(),
                tell: self.dice.one_in(2),
            };
        }
        if self.dice.one_in(4) {
            text.external_id = ExternalId::new(format!("x-{}", self.id()));
        }
        if self.dice.one_in(2) {
            return self.both(text).await;
        }
        let owner = text.sender.clone();
        let task_id = TaskId::new(format!("e{}", self.dice.below(4)));
        let place = if self.dice.one_in(2) {
            InputTarget::New(Task {
                task_id,
                channel: text.channel.clone(),
                conversation_id: text.conversation_id.clone(),
                owner,
                sequence: 0,
                created_at: self.now,
                start: None,
            })
        } else {
            InputTarget::Old { task_id, owner }
        };
        self.both(AcceptInput {
            receive: text,
            place,
            client_message_id: id,
            original: "said".to_owned(),
            brief: String::new(),
        })
        .await;
    }

    /// Numbers for news of a task, or a word of its owner that answers a question.
    async fn a2a_task(&mut self, name: &str) {
        let task_id = TaskId::new(format!("e{}", self.dice.below(4)));
        if self.dice.one_in(2) {
            return self.both(ReserveSequence { task_id, more: 3 }).await;
        }
        let mut verdict = verdict(self.dice.choose(&RequestDecision::ALL), "ann");
        verdict.answers = Some("{}".to_owned());
        verdict.at = self.now;
        let idempotency_key = self.dice.choose(&[None, Some(ExternalId::new("x-answer"))]);
        self.both(AnswerTask {
            decide: Decide {
                request_id: RequestId::new(format!("r-{name}")),
                digest: None,
                verdict,
                authority: Authority::Owner,
            },
            task_id,
            client_message_id: "answer".to_owned(),
            idempotency_key,
            original: "yes".to_owned(),
        })
        .await;
    }

    /// Where an owner wants to be told, and the telling; now and then an owner loses its token.
    async fn push(&mut self) {
        let task_id = TaskId::new(format!("e{}", self.dice.below(4)));
        let subscription_id = self.dice.choose(&["p".to_owned(), "q".to_owned()]);
        let by = self.dice.choose(&["ann".to_owned(), "bob".to_owned()]);
        match self.dice.below(8) {
            0..3 => {
                let target = PushTarget {
                    url: "https://hooks.example.com/".to_owned(),
                    token: self.dice.choose(&[None, Some("t".to_owned())]),
                    authorization: None,
                    unreadable: false,
                    version: "1.0".to_owned(),
                };
                let subscription = Subscription {
                    task_id,
                    subscription_id,
                    target: SubscriptionTarget::Push(target),
                    state: SubscriptionState::Waiting { not_before: None },
                    mark: self.dice.choose(&[None, Some(FROM_NOW.to_owned())]),
                    tries: 0,
                    first_try_at: None,
                    error: None,
                    created_at: self.now,
                };
                self.both(PutPush { subscription, by }).await;
            }
            3 => {
                self.both(DropPush {
                    task_id,
                    subscription_id,
                    by,
                })
                .await;
            }
            4 => {
                let (name, hash) = (by.clone(), format!("h{}", self.step));
                let scopes = vec!["a2a".to_owned()];
                let rotate = self.dice.one_in(2);
                self.both(AddToken {
                    name,
                    hash,
                    scopes,
                    rotate,
                    by: by.clone(),
                })
                .await;
                if self.dice.one_in(3) {
                    self.both(RevokeToken {
                        name: by.clone(),
                        by,
                    })
                    .await;
                }
            }
            5 => self.session(by).await,
            _ => self.tell(task_id, subscription_id).await,
        }
    }

    async fn session(&mut self, by: String) {
        let name = format!("console-{}", self.dice.below(3));
        let (code, hash) = (format!("code of {name}"), format!("s{}", self.step));
        self.both(AddLogin {
            name: name.clone(),
            hash: code.clone(),
            scopes: vec!["read".to_owned()],
            label: "phone".to_owned(),
            by: by.clone(),
        })
        .await;
        self.both(OpenSession { code, hash }).await;
        if self.dice.one_in(2) {
            self.both(RevokeToken { name, by }).await;
        }
    }

    async fn tell(&mut self, task_id: TaskId, subscription_id: String) {
        let begin = NotifyBegin {
            task_id: task_id.clone(),
            subscription_id: subscription_id.clone(),
            asked: None,
        };
        self.both(begin.clone()).await;
        let load = move |rows: &dyn Read| {
            let subscription = rows.subscription(&begin.task_id, &begin.subscription_id)?;
            Ok((subscription, Timeline::load(rows, &begin.task_id)?))
        };
        let sent = self.memory.ledger().read(load).await.unwrap();
        let (Some(push), Some(timeline)) = sent else {
            return;
        };
        let task_events = timeline.task_events();
        let Some(sent) = behind(&task_events, push.mark.as_deref()) else {
            return;
        };
        let class = self.class();
        let away = self.dice.one_in(4);
        self.both(NotifyEnd {
            task_id,
            subscription_id,
            mark: sent.mark.clone(),
            failure: away.then(|| failure(class)),
            jitter: 10,
        })
        .await;
    }

    /// Codex reports how much of an account is used.
    async fn quota(&mut self) {
        let percent = self.dice.choose(&[3, 70, 75, 92, 100]);
        let resets_at = self.now.plus_ms(self.dice.choose(&[-5, 900, 30_000]));
        let window = QuotaWindow {
            used_percent: percent,
            minutes: self.dice.choose(&[None, Some(300)]),
            resets_at: Some(resets_at),
        };
        let primary = (!self.dice.one_in(4)).then_some(window);
        let report = QuotaReport {
            account: self.dice.choose(&[None, Some("team".to_owned())]),
            primary,
            secondary: self.dice.one_in(3).then_some(window),
            has_credits: self.dice.one_in(5),
            refused_until: self.dice.one_in(5).then_some(resets_at),
        };
        let rules = quota_rules();
        let owners = Vec::new();
        let codex_home = self.dice.choose(&[None, None, Some("/home/b".to_owned())]);
        self.both(NoteQuota {
            codex_home,
            report,
            rules: rules.clone(),
        })
        .await;
        if self.dice.one_in(2) {
            self.both(FreeHeld { rules, owners }).await;
        }
    }

    async fn claim(&mut self) {
        if self.dice.one_in(3) {
            self.quota().await;
        }
        let claim = Claim {
            turns_reserved: self.dice.choose(&[0, 0, 1]),
            turns_per_channel: self.dice.choose(&[1, 9]),
            per_sender: Arc::new(TurnsPerSender {
                max: self.dice.choose(&[1, 2, 9]),
                owners: self.dice.choose(&[
                    Vec::new(),
                    vec![(ChannelId::new("local"), "ann".to_owned())],
                ]),
            }),
            one_writer: self.dice.choose(&[Vec::new(), vec!["/work".to_owned()]]),
            readers: vec![Tier::Peer],
            budgets: self.budgets(),
            leave_written: false,
            ..claim(self.dice.choose(&[1, 2, 9]), self.now)
        };
        self.both(claim).await;
    }

    fn budgets(&mut self) -> Arc<Budgets> {
        let (turns, tokens) = (Some(4), self.dice.choose(&[None, Some(25)]));
        let own = DayBudget {
            turns,
            tokens,
            bytes: None,
        };
        let local = ChannelId::new("local");
        if self.dice.one_in(3) {
            Arc::new(Budgets {
                tiers: vec![(Tier::Peer, own)],
                senders: vec![(local, "bob".to_owned(), own)],
                quota: quota_rules(),
            })
        } else {
            Arc::default()
        }
    }

    /// Moves a message on from where it is.
    async fn next_of_some_message(&mut self) {
        let id = self.id();
        let known = message(&id);
        let found = self
            .memory
            .ledger()
            .read(move |rows| rows.message(&known))
            .await;
        let Some(known) = found.unwrap() else {
            return self.receive().await;
        };
        match known.life.state.name() {
            StateName::Received => self.claim().await,
            StateName::Claimed => self.begin(&id).await,
            StateName::Starting => self.end_or_attach(&id).await,
            StateName::Running => self.end(&id).await,
            StateName::Unclear => self.reconcile(&id).await,
            StateName::Steered | StateName::Parked => self.by_hand(&id).await,
            StateName::Answered | StateName::Sending => {
                self.deliver(&id).await;
            }
            StateName::Done | StateName::Dead | StateName::Cancelled => self.by_hand(&id).await,
        }
    }

    /// A transition of a message that may be anywhere.
    async fn anything(&mut self) {
        let id = self.id();
        match self.dice.below(9) {
            7..9 => self.by_hand(&id).await,
            0 => self.begin(&id).await,
            1 => self.end_or_attach(&id).await,
            2 => self.end(&id).await,
            3 => self.reconcile(&id).await,
            4 => self.deliver(&id).await,
            5 => self.half(&id).await,
            _ => {
                let message_id = message(&id);
                self.both(Resume { message_id }).await;
            }
        }
    }

    async fn begin(&mut self, id: &str) {
        let sandbox = self
            .dice
            .choose(&[Sandbox::ReadOnly, Sandbox::WorkspaceWrite]);
        self.both(begin(id, sandbox)).await;
    }

    async fn end_or_attach(&mut self, id: &str) {
        if self.dice.one_in(3) {
            self.end(id).await;
        } else {
            self.both(attach(id)).await;
        }
    }

    async fn end(&mut self, id: &str) {
        match self.dice.below(6) {
            0 => self.both(lose(id)).await,
            1 => {
                let fail = Fail {
                    message_id: message(id),
                    failure: failure(self.class()),
                    touched: self.dice.one_in(2),
                    usage: Usage {
                        input_tokens: 5,
                        output_tokens: 1,
                    },
                    on_cut: self.policy(),
                    pace: pace(300),
                };
                self.both(fail).await;
            }
            2 => {
                let effect = self.dice.one_in(2);
                self.both(note(id, "did something", effect)).await;
            }
            _ => {
                let max = self.dice.choose(&[None, Some(3)]);
                let heard = (0..MESSAGES).map(|m| ClientId::of(&message(&format!("m{m}")), 1));
                let answered = Answered {
                    attachments: Vec::new(),
                    received: heard.take(4).collect(),
                    ..answered(id, "an answer", max)
                };
                self.both(answered).await;
            }
        }
    }

    async fn reconcile(&mut self, id: &str) {
        let answer = self.dice.choose(&[None, Some("found")]);
        let effects: &[&str] = if self.dice.one_in(2) { &["wrote"] } else { &[] };
        let status = self.dice.choose(&[
            TurnStatus::InProgress,
            TurnStatus::Completed,
            TurnStatus::Interrupted,
            TurnStatus::Failed,
        ]);
        let why = "no file".to_owned();
        let history = self.dice.choose(&[
            found(id, status, answer, effects),
            TurnHistory::Absent,
            TurnHistory::Foreign,
            TurnHistory::Unreadable { why },
        ]);
        let mut look = reconcile(id, history);
        look.on_cut = self.policy();
        look.boot_id = self
            .dice
            .choose(&[BootId::new("boot"), BootId::new("later")]);
        self.both(look).await;
    }

    async fn deliver(&mut self, id: &str) {
        let conversation_id = conversation(&self.key());
        self.both(Send { conversation_id }).await;
        let message_id = message(id);
        let ordinal = u32::try_from(self.dice.below(3)).unwrap();
        if self.dice.one_in(4) {
            let failed = SendFailed {
                message_id,
                ordinal,
                failure: failure(self.class()),
                jitter: 10,
            };
            self.both(failed).await;
        } else {
            let confirm = Confirm {
                message_id,
                ordinal,
                receipt: "receipt".to_owned(),
            };
            self.both(confirm).await;
        }
    }

    /// What people and sources do to a message, wherever it is.
    async fn by_hand(&mut self, id: &str) {
        let message_id = message(id);
        let by = "me".to_owned();
        match self.dice.below(8) {
            0 if self.dice.one_in(4) => self.stop_sender(Actor::named(by)).await,
            0 => {
                let by = Actor::named(by);
                self.both(Cancel { message_id, by }).await;
            }
            1..3 => {
                let later = Some(self.now.plus_ms(500));
                let not_before = self.dice.choose(&[None, later]);
                self.both(Redrive {
                    message_id,
                    by,
                    not_before,
                })
                .await
            }
            3 => self.both(Discard { message_id, by }).await,
            4 => self.both(Join { message_id }).await,
            5 => self.both(Leave { message_id }).await,
            6 => {
                let blind = DeferReconcile {
                    message_id: message_id.clone(),
                    failure: failure(Class::Config),
                    until: self.now.plus_ms(300),
                };
                self.both(blind).await;
                self.both(Suspend { message_id }).await;
            }
            _ => {
                let keep = Keep {
                    done_ms: 10_000,
                    dead_ms: 30_000,
                    audit_ms: 20_000,
                    redelivery_ms: self.dice.choose(&[0, 15_000]),
                };
                let now = self.now;
                self.both(Prune { now, keep }).await;
            }
        }
    }

    async fn stop_sender(&mut self, by: Actor) {
        let stop = StopSender {
            sender: self.dice.choose(&["ann".to_owned(), "bob".to_owned()]),
            session: None,
            channels: self
                .dice
                .choose(&[Vec::new(), vec![ChannelId::new("local")]]),
            by,
            cause: self.dice.choose(&[StopCause::Operator, StopCause::Revoked]),
            after: self.dice.choose(&[None, Some(message("m3"))]),
        };
        self.both(stop).await;
    }

    /// A question is decided, or its decision is not heard.
    async fn decide(&mut self, name: &str) {
        let request_id = RequestId::new(format!("r-{name}"));
        let decision = self.dice.choose(&RequestDecision::ALL);
        match self.dice.below(4) {
            0 => {
                let because = self.dice.choose(&[
                    UndeliveredReason::Gone,
                    UndeliveredReason::Unfit {
                        why: "no".to_owned(),
                    },
                ]);
                let resends = u32::from(self.dice.below(4) == 0);
                self.both(AnswerUndelivered {
                    request_id,
                    because,
                    resends,
                })
                .await;
            }
            1 => self.both(AnswerDelivered { request_id }).await,
            _ => {
                let mut verdict = verdict(decision, "ann");
                verdict.answers = Some("{}".to_owned());
                let other = EffectDigest::of(&RequestKind::FileChange, "another");
                let digest = self.dice.choose(&[None, None, Some(other)]);
                self.both(Decide {
                    request_id,
                    digest,
                    verdict,
                    authority: Authority::Owner,
                })
                .await;
            }
        }
    }

    /// Writes that fail after the first of them.
    async fn half(&mut self, id: &str) {
        let cursor = Change::Cursor {
            channel: ChannelId::new("local"),
            position: id.to_owned(),
            at: self.now,
        };
        let nothing = Change::Reminded {
            request_id: RequestId::new("nothing"),
        };
        self.both(Write(vec![cursor, nothing])).await;
    }

    /// What is not about a message's way.
    async fn aside(&mut self) {
        let (key, id) = (self.key(), self.id());
        let conversation_id = conversation(&key);
        let thread = self
            .dice
            .choose(&[ThreadId::new("thread"), ThreadId::new("other")]);
        let name = format!("i{}", self.dice.below(3));
        match self.dice.below(17) {
            15..17 => self.lend(&key).await,
            8..10 => self.a2a_task(&name).await,
            10..15 => self.push().await,
            0 => {
                self.both(Bind {
                    conversation_id,
                    thread,
                })
                .await
            }
            1 => {
                self.both(Unbind {
                    message_id: message(&id),
                    thread,
                    why: "gone".to_owned(),
                })
                .await
            }
            2 => {
                let incarnation = incarnation(&name, self.now.0);
                self.both(Incarnate { incarnation }).await;
            }
            3 => {
                let incarnation_id = IncarnationId::new(name);
                self.both(IncarnationGone { incarnation_id }).await;
            }
            4 => {
                let mut request = request(&id, &format!("r-{name}"));
                request.deadline = self.now.plus_ms(10_000);
                request.incarnation = IncarnationId::new(self.dice.choose(&["i1", "i2"]));
                let at_once = self
                    .dice
                    .one_in(4)
                    .then(|| verdict(RequestDecision::Decline, "a rule"));
                self.both(Ask { request, at_once }).await;
            }
            5 => self.decide(&name).await,
            6 => {
                let (now, reminder_ms) = (self.now, Some(5_000));
                self.both(ExpireRequests { now, reminder_ms }).await;
            }
            _ => {
                self.memory.reopen();
                self.disk.reopen();
                if let Some((server, memory)) = &mut self.server {
                    server.reopen();
                    memory.reopen();
                }
            }
        }
    }
}

async fn run(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        compared(Pair::open(seed)).await;
    }
}

async fn compared(mut pair: Pair) {
    while pair.step < STEPS {
        pair.step().await;
        if pair.step.is_multiple_of(10) {
            pair.compare().await;
        }
    }
}

#[tokio::test]
async fn three_stores_agree_on_random_sequences() {
    for seed in 240..260 {
        compared(Pair::open_three(seed)).await;
    }
}

#[tokio::test]
async fn three_stores_agree_on_further_sequences() {
    for seed in 260..280 {
        compared(Pair::open_three(seed)).await;
    }
}

#[tokio::test]
async fn random_sequences_give_equal_ledgers_1() {
    run(0..80).await;
}

#[tokio::test]
async fn random_sequences_give_equal_ledgers_2() {
    run(80..160).await;
}

#[tokio::test]
async fn random_sequences_give_equal_ledgers_3() {
    run(160..240).await;
}
