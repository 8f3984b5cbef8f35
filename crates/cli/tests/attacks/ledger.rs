//! A ledger that was damaged: the daemon serves it or says why not, and never panics.

use crate::fake::{Fake, binary};
use crate::world::{Lines, World, signal, within};
use bridge_sim::Dice;
use nix::sys::signal::Signal;
use std::path::Path;
use std::time::Duration;

/// Random damages; as many as the adversary tried.
const DAMAGES: u64 = 22;
/// How many daemons try at the same time.
const AT_ONCE: usize = 4;

/// A ledger with some rows in it.
async fn whole() -> (World, Vec<u8>) {
    let fake = Fake::start("", "").await;
    for n in 0..3 {
        let text = format!("echo:{}", n.to_string().repeat(2_000));
        fake.world.ask("main", &text).await;
    }
    let Fake { world, daemon } = fake;
    assert_eq!(daemon.stop().await, Some(0));
    let bytes = std::fs::read(world.state_dir().join("ledger.db")).unwrap();
    (world, bytes)
}

/// Overwrites, cuts or fills a piece of it.
fn damage(bytes: &mut Vec<u8>, seed: u64) {
    let mut dice = Dice::new(seed);
    let mut at = |below: usize| usize::try_from(dice.below(below as u64)).unwrap();
    let length = bytes.len();
    match at(5) {
        0 => bytes.truncate(at(length)),
        1 => {
            let from = at(length);
            let to = (from + 4096).min(length);
            bytes[from..to].fill(0);
        }
        2 => {
            let from = at(100);
            bytes[from] ^= 0xff;
        }
        3 => {
            for _ in 0..50 {
                let here = at(length);
                bytes[here] = u8::try_from(at(256)).unwrap();
            }
        }
        _ => {
            let (from, to) = (at(length), at(length));
            let end = (from + 512).min(length).max(from);
            let piece = bytes[from..end].to_vec();
            bytes.splice(to..to, piece);
        }
    }
}

/// Starts a daemon on a copy of the state; it must serve or say why not.
async fn tried(world: &World, what: &str, put: impl FnOnce(&Path)) {
    let place = tempfile::Builder::new()
        .prefix("cb-")
        .tempdir_in(world.path())
        .unwrap();
    let state = place.path().join("state");
    copy(&world.state_dir(), &state);
    let ledger = state.join("ledger.db");
    for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
        let _none = std::fs::remove_file(state.join(name));
    }
    put(&ledger);
    let mut command = world.command_on(&state, &["run", "--codex-bin", &binary()]);
    let mut child = command.spawn().unwrap();
    let lines = Lines::of(child.stderr.take().unwrap());
    let mut look = tokio::time::interval(Duration::from_millis(10));
    let served = within(what, async {
        loop {
            look.tick().await;
            match child.try_wait().unwrap() {
                Some(status) => return Some(status.code()),
                None if lines.text().contains(" ready ") => return None,
                None => {}
            }
        }
    });
    let code = served.await;
    let mut last = lines.clone();
    if code.is_none() {
        signal(i32::try_from(child.id().unwrap()).unwrap(), Signal::SIGTERM);
        within(what, child.wait()).await.unwrap();
    }
    last.closed().await;
    let log = last.text();
    assert!(
        matches!(code, None | Some(Some(1 | 65))),
        "{what}: {code:?}\n{log}"
    );
    assert!(!log.contains("panicked"), "{what}:\n{log}");
    if code.is_some() {
        assert!(log.trim().len() > 20, "{what} is refused without a reason");
    }
}

fn copy(from: &Path, to: &Path) {
    use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
    std::fs::DirBuilder::new().mode(0o700).create(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        let place = to.join(entry.file_name());
        if kind.is_dir() {
            copy(&entry.path(), &place);
        } else if kind.is_file() && !kind.is_socket() {
            std::fs::copy(entry.path(), place).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ledgers_with_random_damage_never_panic() {
    let (world, bytes) = whole().await;
    let seeds: Vec<u64> = (1..=DAMAGES).collect();
    for some in seeds.chunks(AT_ONCE) {
        let tries = some.iter().map(|seed| {
            let mut bytes = bytes.clone();
            damage(&mut bytes, *seed);
            let put = move |path: &Path| private(path, &bytes);
            let world = &world;
            async move { tried(world, &format!("damage {seed}"), put).await }
        });
        futures_util::future::join_all(tries).await;
    }
    assert_eq!(
        world.processes().len(),
        0,
        "nothing is left behind: {:?}",
        world.processes()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ledgers_that_are_none_are_refused() {
    let (world, bytes) = whole().await;
    let elsewhere = world.path().join("elsewhere.db");
    private(&elsewhere, &bytes);
    let newer = {
        let mut newer = bytes.clone();
        // The header's user version, where the schema's number is.
        newer[60..64].copy_from_slice(&9_999_u32.to_be_bytes());
        newer
    };
    tried(&world, "nothing in it", |path| private(path, b"")).await;
    tried(&world, "a text", |path| private(path, b"hello\n")).await;
    tried(&world, "a newer schema", |path| private(path, &newer)).await;
    tried(&world, "a directory", |path| {
        std::fs::create_dir(path).unwrap()
    })
    .await;
    tried(&world, "a link", |path| {
        std::os::unix::fs::symlink(&elsewhere, path).unwrap();
    })
    .await;
    tried(&world, "a pipe", |path| {
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRUSR).unwrap();
    })
    .await;
}

fn private(path: &Path, bytes: &[u8]) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path).unwrap().write_all(bytes).unwrap();
}
