//! Long turns as people see them from outside: lines in the chat, what the channel's turns do, and the service
//! manager that hears whether the scheduler moves.

use super::agent::{COMMAND, Trouble};
use super::stage::Stage;
use crate::config::ServiceManagerVars;
use crate::process::service_manager::Notifier;
use bridge_channel::Activity;
use bridge_core::value::{ChannelId, SenderKind};
use std::ffi::OsStr;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Duration;

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

fn line(minutes: u64) -> String {
    format!("Still working, {minutes} min so far: {COMMAND}")
}

#[tokio::test(start_paused = true)]
async fn long_turn_sends_periodic_progress() {
    let stage = Stage::new();
    stage.agent.trouble(Trouble::Slow(minutes(14)));
    stage.start();
    stage.shown("slow").await;
    let channel = ChannelId::new("scripted");
    stage
        .until("the first line", || !stage.platform.hints().is_empty())
        .await;
    let busy = Activity {
        turns: 1,
        current: Some(COMMAND.to_owned()),
    };
    assert_eq!(stage.daemon.turns.running.activity(&channel), busy);
    let elsewhere = ChannelId::new("elsewhere");
    assert_eq!(
        stage.daemon.turns.running.activity(&elsewhere),
        Activity::default()
    );
    stage.done("slow").await;
    assert_eq!(stage.platform.hints(), [line(3), line(8), line(13)]);
    assert_eq!(
        stage.daemon.turns.running.activity(&channel),
        Activity::default()
    );
    stage.shown("quick").await;
    stage.done("quick").await;
    assert_eq!(stage.platform.hints().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn agents_get_no_progress_messages() {
    let stage = Stage::new();
    stage.agent.trouble(Trouble::Slow(minutes(14)));
    stage.start();
    stage.shown_by("slow", SenderKind::Agent).await;
    stage.done("slow").await;
    assert_eq!(stage.platform.hints(), Vec::<String>::new());
}

/// Watchdog signals that the socket received so far.
fn watchdog_signals(socket: &UnixDatagram) -> Vec<String> {
    let mut words = Vec::new();
    let mut bytes = [0; 512];
    while let Ok(length) = socket.recv(&mut bytes) {
        words.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
    }
    words.retain(|word| word == "WATCHDOG=1");
    words
}

#[tokio::test(start_paused = true)]
async fn stalled_scheduler_stops_watchdog_beats() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_nonblocking(true).unwrap();
    let asked = ServiceManagerVars {
        socket: Some(path.as_os_str()),
        watchdog_usec: Some(OsStr::new("30000000")),
        watchdog_pid: None,
    };
    let stage = Stage::new();
    let notifier = Notifier::new(asked, 1);
    tokio::spawn(Arc::clone(&stage.daemon).keep_alive(notifier));
    let never = || false;
    stage.reaches(minutes(2), never).await;
    assert_eq!(watchdog_signals(&socket).len(), 1, "only that it began");
    stage.start();
    stage.reaches(minutes(1), never).await;
    let beats = watchdog_signals(&socket).len();
    assert!((5..=7).contains(&beats), "{beats} beats in a minute");
    stage.daemon.stopping.cancel();
    stage.reaches(minutes(1), never).await;
    assert!(
        watchdog_signals(&socket).len() >= 5,
        "a stop that takes long is alive"
    );
}
