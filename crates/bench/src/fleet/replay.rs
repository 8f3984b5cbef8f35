//! Storing a thread by itself, in this process: the file of a thread that a node stored grows again as it grew then, and is
//! read and stored by the daemon's own code. So its processor time is seen without a turn around it.

use super::lives;
use super::nodes::{Node, Scene};
use crate::stage::process::own_time;
use crate::stats::{Spread, median, millis};
use anyhow::{Context, bail};
use bridge_core::port::Ledger;
use bridge_core::step::StoreSegments;
use bridge_core::value::{Message, Segment, ThreadId, Timestamp};
use bridge_host::rollout::{CodexHome, RolloutChange, RolloutMark, RolloutPath, RolloutTail};
use bridge_hot::life::Lives;
use bridge_store::PostgresLedger;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// Bytes in one segment, as in the daemon.
const SEGMENT_MAX: usize = 1024 * 1024;
/// Growths before those that count.
const WARM_UP: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(super) struct Replay {
    pub(super) wall: Spread,
    /// Processor time of storing once, in ms.
    pub(super) processor: f64,
    /// The server's.
    pub(super) server: f64,
}

/// What grew, and where it is stored.
struct Store {
    ledger: PostgresLedger,
    message: Message,
    generation: u32,
    home: CodexHome,
    tail: Option<RolloutTail>,
}

pub(super) async fn measure(scene: &Scene, node: &Node) -> anyhow::Result<Replay> {
    let growths = scene
        .database
        .ask("SELECT path, start, length FROM segment ORDER BY path, start");
    let growths = growths.await?;
    let path = growths.split('|').next().unwrap_or_default().to_owned();
    let bytes =
        std::fs::read(node.place.codex_home().join(&path)).context("read the thread's file")?;
    let directory = tempfile::Builder::new().prefix("cb-replay-").tempdir()?;
    let copy = directory.path().join(&path);
    std::fs::create_dir_all(copy.parent().context("a file without a directory")?)?;
    let mut store = Store::open(scene, directory.path(), &path).await?;
    let mut file = OpenOptions::new().create(true).append(true).open(&copy)?;
    let (mut walls, mut processors) = (Vec::new(), Vec::new());
    let server = scene.database.postgres.processor();
    for line in growths.lines() {
        let numbers: Vec<usize> = line
            .split('|')
            .filter_map(|word| word.parse().ok())
            .collect();
        let [start, length] = numbers.as_slice() else {
            bail!("{line:?} is no segment");
        };
        let grown = bytes.get(*start..start + length);
        file.write_all(grown.context("the thread's file is shorter than what is stored")?)?;
        let (began, processor) = (Instant::now(), own_time()?);
        store.store().await?;
        processors.push(millis(own_time()?.saturating_sub(processor)));
        walls.push(began.elapsed());
    }
    let server = (scene.database.postgres.processor() - server) / walls.len() as f64;
    let warm = WARM_UP.min(walls.len().saturating_sub(1));
    Ok(Replay {
        wall: Spread::of(walls.get(warm..).unwrap_or_default()),
        processor: median(processors.get(warm..).unwrap_or_default()),
        server,
    })
}

impl Store {
    /// A node with one message whose turn runs.
    async fn open(scene: &Scene, home: &Path, path: &str) -> anyhow::Result<Self> {
        let database = scene.database.postgres.database("replay").await?;
        let url = database.url();
        let ledger = tokio::task::spawn_blocking(move || lives::open(&url, 0)).await??;
        let lives = Lives::over(ledger.clone(), 0);
        lives.receive(0).await?;
        let claimed = lives.claim(1).await?.pop().context("nothing to claim")?;
        lives.begin(&claimed).await?;
        let id = claimed.message.conversation_id.clone();
        let at = ledger.read(move |rows| rows.home(&id)).await?;
        let at = at.context("the conversation has no home")?;
        Ok(Self {
            ledger,
            message: claimed.message,
            generation: at.generation,
            home: CodexHome::open(home)?,
            tail: Some(RolloutTail::new(
                RolloutPath::parse(path)?,
                RolloutMark::default(),
            )),
        })
    }

    /// What the daemon does at the end of a turn.
    async fn store(&mut self) -> anyhow::Result<()> {
        let id = self.message.conversation_id.clone();
        let at = self.ledger.read(move |rows| rows.home(&id)).await?;
        at.context("the conversation lost its home")?;
        let mut tail = self.tail.take().context("nobody follows the file")?;
        let home = self.home.clone();
        let read = tokio::task::spawn_blocking(move || {
            let read = tail.read(&home, SEGMENT_MAX);
            if let Ok(RolloutChange::Appended(read)) = &read {
                tail.stored(read);
            }
            (tail, read)
        });
        let (tail, read) = read.await?;
        let RolloutChange::Appended(read) = read? else {
            bail!("the file did not grow");
        };
        let segment = Segment {
            thread: ThreadId::new(self.message.conversation_id.as_str()),
            path: tail.path().as_str().to_owned(),
            generation: self.generation,
            offset: read.offset,
            bytes: read.bytes,
            digest: read.mark.digest,
        };
        self.tail = Some(tail);
        let store = StoreSegments {
            message_id: self.message.message_id.clone(),
            anew: None,
            segments: vec![segment],
        };
        self.ledger.transact(store, Timestamp(0)).await?;
        Ok(())
    }
}
