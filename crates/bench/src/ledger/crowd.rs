//! Many conversations at once on one ledger, as in the daemon: one scheduler claims for all of them, each conversation
//! does the work of its own message, and everybody waits for the disk.

use bridge_core::port::Ledger;
use bridge_core::step::Claims;
use bridge_core::value::ConversationId;
use bridge_hot::life::{Claimed, Lives};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

/// What one round was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) messages: u64,
    /// Until every message is done and the log is moved into the file.
    pub(crate) took: Duration,
    pub(crate) transitions: u64,
    pub(crate) commits: u64,
}

impl Round {
    pub(crate) fn rate(&self) -> f64 {
        self.messages as f64 / self.took.as_secs_f64()
    }
}

/// `each` messages in each of so many conversations.
pub(crate) async fn round(
    lives: &Lives,
    path: &Path,
    conversations: u64,
    each: u64,
) -> anyhow::Result<Round> {
    let (transitions, commits) = (lives.transitions(), lives.ledger().commits());
    let began = Instant::now();
    let taken = live(lives, 0..conversations, each).await?;
    let log = path.to_owned();
    tokio::task::spawn_blocking(move || checkpoint(&log)).await??;
    let took = began.elapsed();
    let messages = conversations * each;
    anyhow::ensure!(
        taken == messages,
        "{taken} messages were answered, not {messages}"
    );
    Ok(Round {
        messages,
        took,
        transitions: lives.transitions() - transitions,
        commits: lives.ledger().commits() - commits,
    })
}

/// `each` messages in each of these conversations; gives how many replies were taken.
pub(crate) async fn live<L: Ledger>(
    lives: &Lives<L>,
    conversations: Range<u64>,
    each: u64,
) -> anyhow::Result<u64> {
    let wake = Arc::new(Notify::new());
    let mut doors = HashMap::new();
    let mut tasks = JoinSet::new();
    for conversation in conversations {
        let (door, claimed) = mpsc::channel(1);
        doors.insert(Lives::conversation(conversation), door);
        let lives = lives.clone();
        tasks.spawn(converse(
            lives,
            Arc::clone(&wake),
            conversation,
            each,
            claimed,
        ));
    }
    let scheduler = tokio::spawn(schedule(lives.clone(), wake, doors));
    let mut taken = 0;
    while let Some(done) = tasks.join_next().await {
        match done? {
            Ok(answered) => taken += answered,
            Err(error) => {
                scheduler.abort();
                return Err(error);
            }
        }
    }
    scheduler.abort();
    match scheduler.await {
        Ok(Err(error)) => Err(error),
        Ok(Ok(())) | Err(_) => Ok(taken),
    }
}

/// Claims while something can be claimed, as many at once as the daemon does, then waits to be woken. It ends when
/// nobody takes what it claims.
async fn schedule<L: Ledger>(
    lives: Lives<L>,
    wake: Arc<Notify>,
    doors: HashMap<ConversationId, mpsc::Sender<Claimed>>,
) -> anyhow::Result<()> {
    let mut claims = Claims::default();
    loop {
        let found = lives.claim(claims.now()).await?;
        let all = found.len() == claims.now();
        claims.round(all);
        for claimed in found {
            let door = doors.get(&claimed.message.conversation_id);
            let Some(door) = door else {
                anyhow::bail!("a message of a conversation that is not measured was claimed");
            };
            if door.send(claimed).await.is_err() {
                return Ok(());
            }
        }
        if !all {
            wake.notified().await;
        }
    }
}

/// Messages one after the other, each through its whole life; gives how many replies were taken.
async fn converse<L: Ledger>(
    lives: Lives<L>,
    wake: Arc<Notify>,
    conversation: u64,
    each: u64,
    mut claimed: mpsc::Receiver<Claimed>,
) -> anyhow::Result<u64> {
    let mut taken = 0;
    for _ in 0..each {
        lives.receive(conversation).await?;
        wake.notify_one();
        let Some(claimed) = claimed.recv().await else {
            anyhow::bail!("the scheduler ended");
        };
        lives.begin(&claimed).await?;
        lives.attach(&claimed.message).await?;
        lives.answer(&claimed.message).await?;
        taken += lives.deliver(&claimed.message).await?;
    }
    Ok(taken)
}

/// What a quiet daemon does a second later: the log goes into the file, so that no round leaves work to the next.
fn checkpoint(path: &Path) -> anyhow::Result<()> {
    let conn = rusqlite::Connection::open(path)?;
    let busy: i64 = conn.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| row.get(0))?;
    anyhow::ensure!(busy == 0, "somebody holds the log of the ledger");
    Ok(())
}
