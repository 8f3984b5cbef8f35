//! A start with 10,000 unfinished messages: it is ready soon, and nothing of them is lost.

use crate::world::{Daemon, World};
use bridge_core::port::Ledger;
use bridge_core::step::{Answered, Begin, Claim, MidTurn, Receive, Verdict};
use bridge_core::value::{
    BootId, ChannelId, ConversationId, ExternalId, IncarnationId, MessageId, Sandbox, SenderKind,
    ThreadId, Tier, Timestamp, TurnId, Usage,
};
use bridge_store::key::Guard;
use bridge_store::{LedgerKey, Options, SqliteLedger};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MESSAGES: u64 = 10_000;
const CONVERSATIONS: u64 = 2_000;
/// Of those, so many are answered and wait to be sent.
const ANSWERED: u64 = 500;
/// The figure to hold is 2 s for a release build; a debug build on a busy machine gets more.
const BOUND: Duration = Duration::from_secs(10);

const NOW: Timestamp = Timestamp(1_000);

fn text(number: u64) -> Receive {
    let key = number % CONVERSATIONS;
    Receive {
        message_id: MessageId::new(format!("00000000-0000-7000-8000-{number:012}")),
        conversation_id: ConversationId::new(format!("c-{key}")),
        workdir: "/tmp".to_owned(),
        channel: ChannelId::new("local"),
        external_key: format!("k-{key}"),
        external_id: ExternalId::new(format!("x-{number}")),
        kind: SenderKind::Person,
        sender: "me".to_owned(),
        tier: Tier::Owner,
        body: "hold:never".to_owned(),
        mid_turn: MidTurn::Queue,
        verdict: Verdict::Fit,
        extras: bridge_core::step::Extras::default(),
    }
}

/// Fills a ledger as a daemon that died under load would leave it.
async fn fill(path: &Path) {
    let key = LedgerKey::load_or_create(&path.with_file_name("key"), Guard::Mode).unwrap();
    let ledger = Arc::new(SqliteLedger::open(path, &key, Options::default()).unwrap());
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..MESSAGES {
        let ledger = Arc::clone(&ledger);
        waiting.spawn(async move { ledger.transact(text(number), NOW).await.unwrap().outcome });
        if waiting.len() > 200 {
            waiting.join_next().await;
        }
    }
    while waiting.join_next().await.is_some() {}
    for _ in 0..ANSWERED {
        answer(&ledger).await;
    }
}

async fn answer(ledger: &SqliteLedger) {
    let claim = Claim {
        turns_max: 1,
        turns_reserved: 0,
        turns_per_channel: 1,
        per_sender: std::sync::Arc::new(bridge_core::step::TurnsPerSender::UNLIMITED),
        one_writer: Vec::new(),
        readers: Vec::new(),
        budgets: std::sync::Arc::default(),
        leave_written: false,
        now: NOW,
    };
    let claimed = ledger.transact(claim, NOW).await.unwrap().outcome;
    let bridge_core::step::ClaimOutcome::Claimed { message, .. } = claimed else {
        panic!("nothing to claim: {claimed:?}");
    };
    let message_id = message.message_id;
    let begin = Begin {
        message_id: message_id.clone(),
        thread: ThreadId::new("t"),
        incarnation: IncarnationId::new("i"),
        epoch: ledger.epoch(),
        boot_id: BootId::new("b"),
        sandbox: Sandbox::ReadOnly,
    };
    ledger.transact(begin, NOW).await.unwrap();
    let answered = Answered {
        attachments: Vec::new(),
        message_id,
        turn_id: TurnId::new("u"),
        text: Some("yes".to_owned()),
        received: Vec::new(),
        usage: Usage::default(),
        reply_max_chars: None,
    };
    ledger.transact(answered, NOW).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_messages_resume_quickly() {
    let world = World::with_settings("[daemon]\nturns_max = 1\n").await;
    std::fs::create_dir(world.state_dir()).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(world.state_dir(), private).unwrap();
    fill(&world.state_dir().join("ledger.db")).await;
    let start = Instant::now();
    let daemon: Daemon = world.daemon().await;
    let ready = start.elapsed();
    eprintln!("ready after {ready:?} with {MESSAGES} unfinished messages");
    let found = format!("resumed={MESSAGES}");
    assert!(daemon.log.text().contains(&found), "{}", daemon.log.text());
    assert!(ready < BOUND, "{ready:?}");
    daemon.kill_9().await;
}
