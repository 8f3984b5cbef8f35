//! How many messages per second the SQLite ledger carries through their whole life, durable, with 64
//! conversations at once: first on an empty file, then with finished rows behind it.
//!
//! Usage: `ledger_rate [messages] [finished rows] [directory]`. Codex and the platform answer at once.

use bridge_core::port::{Ledger, LedgerError};
use bridge_core::step::{
    Answered, Attach, Begin, Bind, Claim, ClaimOutcome, Confirm, MidTurn, Receive, Send,
    SendOutcome, Verdict,
};
use bridge_core::value::{
    AckMode, BootId, ChannelId, ConversationId, Epoch, ExternalId, IncarnationId, Message,
    MessageId, Sandbox, SenderKind, ThreadId, Tier, Timestamp, TurnId, Usage,
};
use bridge_store::{Options, SqliteLedger};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokio::task::JoinSet;

const CONVERSATIONS: u64 = 64;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let messages: u64 = args.next().map_or(Ok(30_000), |n| n.parse())?;
    let finished: u64 = args.next().map_or(Ok(100_000), |n| n.parse())?;
    let directory = args
        .next()
        .map_or_else(std::env::temp_dir, std::path::PathBuf::from);
    let path = directory.join(format!("ledger-rate-{}.db", std::process::id()));
    let ledger = SqliteLedger::open(&path, Options::default())?;
    let serial = Arc::new(AtomicU64::new(0));
    measure(&ledger, &serial, messages, "empty").await?;
    let behind = finished.saturating_sub(messages);
    measure(&ledger, &serial, behind, "filling").await?;
    let behind = serial.load(Ordering::Relaxed);
    measure(
        &ledger,
        &serial,
        messages,
        &format!("{behind} finished behind"),
    )
    .await?;
    drop(ledger);
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
    Ok(())
}

async fn measure(
    ledger: &SqliteLedger,
    serial: &Arc<AtomicU64>,
    messages: u64,
    label: &str,
) -> Result<(), Box<dyn Error>> {
    let commits = ledger.commits();
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for conversation in 0..CONVERSATIONS {
        let share = messages / CONVERSATIONS;
        tasks.spawn(converse(
            ledger.clone(),
            Arc::clone(serial),
            conversation,
            share,
        ));
    }
    let mut transitions = 0;
    while let Some(done) = tasks.join_next().await {
        transitions += done??;
    }
    let seconds = start.elapsed().as_secs_f64();
    let commits = ledger.commits() - commits;
    println!(
        "{label}: {:.0} messages/s ({transitions} transitions in {commits} commits, {seconds:.1} s)",
        messages as f64 / seconds,
    );
    Ok(())
}

/// One conversation: messages one after the other, each through its whole life.
async fn converse(
    ledger: SqliteLedger,
    serial: Arc<AtomicU64>,
    conversation: u64,
    messages: u64,
) -> Result<u64, LedgerError> {
    let mut transitions = 0;
    for _ in 0..messages {
        receive(
            &ledger,
            serial.fetch_add(1, Ordering::Relaxed),
            conversation,
        )
        .await?;
        transitions += 1;
        // Claims go by age, so the message claimed here may be another conversation's: one for one.
        let message = loop {
            let claim = Claim {
                turns_max: u32::MAX,
                turns_per_channel: u32::MAX,
                one_writer: Vec::new(),
                readers: Vec::new(),
                budgets: std::sync::Arc::default(),
                now: now(),
            };
            transitions += 1;
            match ledger.transact(claim, now()).await?.outcome {
                ClaimOutcome::Claimed {
                    message,
                    conversation,
                } => {
                    if conversation.thread.is_none() {
                        transitions += 1;
                        let thread = ThreadId::new(conversation.conversation_id.as_str());
                        let conversation_id = conversation.conversation_id;
                        ledger
                            .transact(
                                Bind {
                                    conversation_id,
                                    thread,
                                },
                                now(),
                            )
                            .await?;
                    }
                    break *message;
                }
                ClaimOutcome::Buried
                | ClaimOutcome::Held
                | ClaimOutcome::Idle { .. }
                | ClaimOutcome::Full { .. } => {
                    tokio::task::yield_now().await;
                }
            }
        };
        transitions += work(&ledger, &message).await?;
    }
    Ok(transitions)
}

async fn receive(ledger: &SqliteLedger, serial: u64, conversation: u64) -> Result<(), LedgerError> {
    let received = Receive {
        message_id: MessageId::new(format!("0199c0de-0000-7000-8000-{serial:012}")),
        conversation_id: ConversationId::new(format!("conversation-{conversation:03}")),
        workdir: "/work".to_owned(),
        channel: ChannelId::new("local"),
        external_key: format!("key-{conversation:03}"),
        external_id: ExternalId::new(format!("external-{serial:012}")),
        kind: SenderKind::Person,
        sender: "somebody".to_owned(),
        tier: Tier::Owner,
        body: "Please look at the failing test and tell me why it fails.".repeat(4),
        ack: AckMode::None,
        mid_turn: MidTurn::Queue,
        verdict: Verdict::Fit,
        extras: bridge_core::step::Extras::default(),
    };
    ledger.transact(received, now()).await?;
    Ok(())
}

async fn work(ledger: &SqliteLedger, message: &Message) -> Result<u64, LedgerError> {
    let message_id = message.message_id.clone();
    let turn_id = TurnId::new(format!("turn-{message_id}"));
    let begin = Begin {
        message_id: message_id.clone(),
        thread: ThreadId::new(message.conversation_id.as_str()),
        incarnation: IncarnationId::new("incarnation"),
        epoch: Epoch(ledger.epoch().0),
        boot_id: BootId::new("boot"),
        sandbox: Sandbox::ReadOnly,
    };
    ledger.transact(begin, now()).await?;
    let attach = Attach {
        message_id: message_id.clone(),
        turn_id: turn_id.clone(),
    };
    ledger.transact(attach, now()).await?;
    let answered = Answered {
        attachments: Vec::new(),
        message_id: message_id.clone(),
        turn_id,
        text: Some("It fails because the clock of the machine went back.".repeat(8)),
        heard: Vec::new(),
        usage: Usage::default(),
        reply_max_chars: None,
    };
    ledger.transact(answered, now()).await?;
    deliver(ledger, message)
        .await
        .map(|transitions| transitions + 3)
}

/// Empties the lane: another task may have a reply of the same conversation in it.
async fn deliver(ledger: &SqliteLedger, message: &Message) -> Result<u64, LedgerError> {
    let mut transitions = 1;
    loop {
        let send = Send {
            conversation_id: message.conversation_id.clone(),
        };
        let SendOutcome::Send { reply, .. } = ledger.transact(send, now()).await?.outcome else {
            return Ok(transitions);
        };
        let confirm = Confirm {
            message_id: reply.message_id,
            ordinal: reply.ordinal,
            receipt: "receipt".to_owned(),
        };
        ledger.transact(confirm, now()).await?;
        transitions += 2;
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp(since.map_or(0, |since| since.as_millis() as i64))
}
