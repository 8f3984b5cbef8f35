//! Shares of the turns: people keep places of their own, and one sender never has them all.

use crate::fixture::Fixture;
use crate::given::{World, answered, attach, begin, claim, message, request, text, verdict};
use bridge_core::limits::WAITING_TURNS_FACTOR;
use bridge_core::port::{Kept, Ledger};
use bridge_core::step::{
    Ask, Authority, Claim, ClaimOutcome, Decide, Extras, Receive, TurnsPerSender,
};
use bridge_core::value::{
    ChannelId, EffectDigest, RequestDecision, RequestId, RequestKind, Sandbox, SenderKind,
    StateName, Tier, Timestamp,
};
use bridge_core::why::WhyRows;
use std::collections::BTreeMap;
use std::sync::Arc;

const TURNS_MAX: u32 = 8;
const RESERVED: u32 = 2;
const PER_SENDER: u32 = 3;
const HOUR_MS: i64 = 3_600_000;

fn shared(now: Timestamp) -> Claim {
    Claim {
        turns_reserved: RESERVED,
        turns_per_channel: u32::MAX,
        per_sender: Arc::new(TurnsPerSender {
            max: PER_SENDER,
            owners: vec![(ChannelId::new("task"), "owner".to_owned())],
        }),
        ..claim(TURNS_MAX, now)
    }
}

/// Who sends, with what the door would say of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Person,
    Agent(&'static str),
    /// A person whom a channel does not call the owner.
    Stranger(&'static str),
    /// Holds a token: somebody waits for it, but no person.
    Program(&'static str),
}

impl Who {
    /// A text in a conversation of its own.
    fn sends(self, id: &str) -> Receive {
        let (kind, tier, sender) = match self {
            Self::Person => (SenderKind::Person, Tier::Owner, "owner"),
            Self::Agent(name) => (SenderKind::Agent, Tier::Peer, name),
            Self::Stranger(name) => (SenderKind::Person, Tier::Peer, name),
            Self::Program(name) => (SenderKind::Person, Tier::Tool, name),
        };
        Receive {
            kind,
            tier,
            sender: sender.to_owned(),
            extras: Extras {
                by_talk: true,
                ..Extras::default()
            },
            ..text(id, id)
        }
    }
}

async fn claims<L: Ledger>(world: &World<L>) -> Option<String> {
    match world.does(shared(world.now)).await.outcome {
        ClaimOutcome::Claimed { message, .. } => Some(message.message_id.to_string()),
        ClaimOutcome::Idle { .. } | ClaimOutcome::Full { .. } => None,
        other => panic!("{other:?}"),
    }
}

async fn runs<L: Ledger>(world: &World<L>, id: &str) {
    world.does(begin(id, Sandbox::ReadOnly)).await;
    world.does(attach(id)).await;
}

async fn asks<L: Ledger>(world: &World<L>, id: &str, name: &str) {
    let mut request = request(id, name);
    request.deadline = world.now.plus_ms(HOUR_MS);
    request.rpc_id = name.to_owned();
    request.digest = EffectDigest::of(&RequestKind::Command, name);
    let at_once = None;
    world.does(Ask { request, at_once }).await;
}

async fn decides<L: Ledger>(world: &World<L>, name: &str) {
    world
        .does(Decide {
            request_id: RequestId::new(name),
            digest: None,
            verdict: verdict(RequestDecision::Accept, "owner"),
            authority: Authority::Owner,
        })
        .await;
}

async fn kept<L: Ledger>(world: &World<L>, id: &str) -> Option<Kept> {
    let (id, claim) = (message(id), shared(world.now));
    let case = world
        .reads(move |rows| WhyRows::load(rows, &id, &claim))
        .await
        .unwrap();
    assert_eq!(case.message.life.state.name(), StateName::Received);
    case.kept
}

/// A task of the owner, which has the tier of tools.
fn owner_task(id: &str) -> Receive {
    Receive {
        channel: ChannelId::new("task"),
        ..Who::Program("owner").sends(id)
    }
}

/// Programs fill what is not kept: the owner's own tasks run all the same, and strangers wait.
pub(super) async fn f3_only_owners_have_kept_places<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for n in 0..4 {
        for name in ["ci", "cron"] {
            world
                .does(Who::Program(name).sends(&format!("{name}{n}")))
                .await;
            world.pass_ms(1);
        }
    }
    for _ in 0..TURNS_MAX - RESERVED {
        assert!(claims(&world).await.is_some());
    }
    world.does(Who::Stranger("eve").sends("e1")).await;
    assert_eq!(kept(&world, "e1").await, Some(Kept::Reserved));
    let elsewhere = Who::Program("owner").sends("x1");
    world.does(elsewhere).await;
    assert_eq!(kept(&world, "x1").await, Some(Kept::Reserved), "a namesake");
    assert_eq!(claims(&world).await, None);
    for id in ["t1", "t2"] {
        world.does(owner_task(id)).await;
        assert_eq!(kept(&world, id).await, None);
        assert_eq!(claims(&world).await.as_deref(), Some(id));
    }
    world.does(owner_task("t3")).await;
    assert_eq!(kept(&world, "t3").await, Some(Kept::Slots));
    assert_eq!(claims(&world).await, None);
}

pub(super) async fn f3_people_keep_a_place<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let peers = ["a", "b", "c", "d"].map(Who::Agent);
    for n in 0..12 {
        let who = peers[n % 4];
        world.does(who.sends(&format!("m{n:02}"))).await;
        world.pass_ms(1);
    }
    world.does(Who::Program("ci").sends("p1")).await;
    let mut claimed = Vec::new();
    while let Some(id) = claims(&world).await {
        claimed.push(id);
    }
    assert_eq!(claimed.len(), 6, "{claimed:?}");
    assert_eq!(kept(&world, "m11").await, Some(Kept::Reserved));
    for id in ["n1", "n2"] {
        world.does(Who::Person.sends(id)).await;
        assert_eq!(kept(&world, id).await, None);
        assert_eq!(claims(&world).await.as_deref(), Some(id));
    }
    world.does(Who::Person.sends("n3")).await;
    assert_eq!(claims(&world).await, None);
    assert_eq!(kept(&world, "n3").await, Some(Kept::Slots));
}

pub(super) async fn f3_one_sender_has_its_share<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for n in 0..6 {
        world
            .does(Who::Agent("mallory").sends(&format!("m{n}")))
            .await;
        world.pass_ms(1);
    }
    for id in ["m0", "m1", "m2"] {
        assert_eq!(claims(&world).await.as_deref(), Some(id));
    }
    assert_eq!(claims(&world).await, None);
    assert_eq!(kept(&world, "m3").await, Some(Kept::Sender));
    world.does(Who::Agent("bob").sends("b1")).await;
    assert_eq!(claims(&world).await.as_deref(), Some("b1"));
    runs(&world, "m0").await;
    world.does(answered("m0", "yes", None)).await;
    assert_eq!(claims(&world).await.as_deref(), Some("m3"));
    // The owner has no such limit, also not for tasks, which have the tier of tools.
    for n in 0..5 {
        world.does(Who::Person.sends(&format!("n{n}"))).await;
        world.does(owner_task(&format!("t{n}"))).await;
        world.pass_ms(1);
    }
    let mut tasks = 0;
    while let Some(id) = claims(&world).await {
        tasks += u32::from(id.starts_with('t'));
    }
    assert_eq!(tasks, 2, "half of what is left");
}

pub(super) async fn f3_questions_fill_a_sender_s_share_only<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let most = PER_SENDER * WAITING_TURNS_FACTOR;
    for n in 0..=most {
        world
            .does(Who::Agent("mallory").sends(&format!("m{n:02}")))
            .await;
        world.pass_ms(1);
    }
    for n in 0..most {
        let id = claims(&world).await.unwrap();
        runs(&world, &id).await;
        asks(&world, &id, &format!("r{n}")).await;
    }
    assert_eq!(claims(&world).await, None);
    assert_eq!(
        kept(&world, &format!("m{most:02}")).await,
        Some(Kept::Sender)
    );
    // They all go on at once: more work than there are places, and people have theirs all the same.
    for n in 0..most {
        decides(&world, &format!("r{n}")).await;
    }
    world.does(Who::Agent("bob").sends("b1")).await;
    assert_eq!(claims(&world).await, None);
    for id in ["n1", "n2"] {
        world.does(Who::Person.sends(id)).await;
        assert_eq!(claims(&world).await.as_deref(), Some(id));
    }
}

/// A sequence of arrivals, questions and ends, with what is at work.
struct Run<L> {
    world: World<L>,
    dice: u64,
    greedy: Who,
    sent: u32,
    /// In the order of arrival: who sent it, and how many turns of the greedy one began since then.
    waiting: BTreeMap<String, (Who, u32)>,
    /// Who sent it, and whether it waits for a person.
    working: BTreeMap<String, (Who, bool)>,
}

impl<L: Ledger> Run<L> {
    fn below(&mut self, end: usize) -> usize {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        usize::try_from(self.dice % end as u64).unwrap()
    }

    /// Turns of these senders: those that work, and all.
    fn places(&self, of: impl Fn(Who) -> bool) -> (u32, u32) {
        let turns = self.working.values().filter(|(who, _)| of(*who));
        turns.fold((0, 0), |(working, all), (_, waits)| {
            (working + u32::from(!waits), all + 1)
        })
    }

    async fn arrive(&mut self, who: Who) {
        let id = format!("m{:05}", self.sent);
        self.sent += 1;
        self.world.does(who.sends(&id)).await;
        self.world.pass_ms(1);
        self.waiting.insert(id, (who, 0));
    }

    async fn arrivals(&mut self) {
        for _ in 0..self.below(5) {
            self.arrive(self.greedy).await;
        }
        if self.below(3) == 0 {
            self.arrive(Who::Person).await;
        }
        match self.below(7) {
            2 => self.arrive(Who::Stranger("eve")).await,
            0 => self.arrive(Who::Agent("polite")).await,
            1 => self.arrive(Who::Program("ci")).await,
            _ => {}
        }
    }

    /// One turn asks, goes on, or ends.
    async fn work(&mut self) {
        if self.working.is_empty() {
            return;
        }
        let one = self.below(self.working.len());
        let (id, (who, waits)) = self.working.iter().nth(one).unwrap();
        let (id, who, waits) = (id.clone(), *who, *waits);
        let question = format!("r-{id}-{}", self.sent);
        match (waits, self.below(3)) {
            (false, 0) => {
                asks(&self.world, &id, &question).await;
                self.working.insert(id, (who, true));
            }
            (true, 0) => {
                let of = message(&id);
                let open = self.world.reads(move |rows| rows.live_requests(&of)).await;
                for request in open.iter().filter(|request| request.state.waits()) {
                    decides(&self.world, request.request_id.as_str()).await;
                }
                self.working.insert(id, (who, false));
            }
            (false, 1) => {
                self.world.does(answered(&id, "yes", None)).await;
                self.working.remove(&id);
            }
            _ => {}
        }
    }

    async fn schedule(&mut self) {
        while let Some(id) = claims(&self.world).await {
            let (who, overtaken) = self.waiting.remove(&id).unwrap();
            let (working, all) = self.places(|other| other == who);
            let (others, _) = self.places(|other| other != Who::Person);
            if who != Who::Person {
                assert!(working < PER_SENDER, "{who:?} has {working}");
                assert!(all < PER_SENDER * WAITING_TURNS_FACTOR, "{who:?}: {all}");
                assert!(others < TURNS_MAX - RESERVED, "{others}");
            }
            if who == Who::Agent("polite") && matches!(self.greedy, Who::Agent(_)) {
                // One of each round, and the polite one's own before it.
                let before = self.waiting.values().filter(|(other, _)| *other == who);
                let own = u32::try_from(before.count()).unwrap();
                assert!(overtaken <= own + 3 + PER_SENDER, "{overtaken}");
            }
            if who == self.greedy {
                for (_, overtaken) in self.waiting.values_mut() {
                    *overtaken += 1;
                }
            }
            runs(&self.world, &id).await;
            self.working.insert(id, (who, false));
        }
        let (people, all) = self.places(|who| who == Who::Person);
        let filled = people >= RESERVED || all >= RESERVED * WAITING_TURNS_FACTOR;
        let waits = self.waiting.values().any(|(who, _)| *who == Who::Person);
        assert!(!waits || filled, "a person waits");
        // Nobody waits without a reason.
        if let Some(one) = self.waiting.keys().next() {
            assert!(kept(&self.world, one).await.is_some(), "{one}");
        }
    }
}

/// One sender wants everything; people, another agent and a program come at random.
pub(super) async fn f3_shares_hold_whatever_arrives<F: Fixture>() {
    for seed in 1..=4_u64 {
        let fixture = F::open();
        let mut run = Run {
            world: World::over(fixture.ledger()),
            dice: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            greedy: match seed % 2 {
                0 => Who::Agent("greedy"),
                _ => Who::Program("greedy"),
            },
            sent: 0,
            waiting: BTreeMap::new(),
            working: BTreeMap::new(),
        };
        for _ in 0..100 {
            run.arrivals().await;
            run.schedule().await;
            run.work().await;
            run.work().await;
            run.schedule().await;
        }
        assert!(run.sent > 150, "seed {seed}: {} messages", run.sent);
    }
}
