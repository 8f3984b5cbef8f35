//! Presence against the platform in a box: what it shows of an agent while turns run, the platform fails, and the
//! daemon stops.

use bridge_channel::Secret;
use bridge_channel::molecule::{
    Delivery, FIRST_START, MAX_REPLY_CHARS, Molecule, Origin, Origins, POLL, Settings, TokenSource,
};
use bridge_channel::{Activity, Inbox, IntakeStatus, Page};
use bridge_core::port::{LedgerError, OnUnknown};
use bridge_core::step::Received;
use bridge_core::value::{ChannelId, ExternalId, Tier};
use bridge_sim::molecule::{
    MoleculeFault, MoleculeOptions, MoleculePlatform, Route, Status, Workspace,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A inbox that nobody goes through: only what the turns do is asked.
#[derive(Clone, Default)]
struct BridgeService(Arc<Mutex<Activity>>);

impl BridgeService {
    fn does(&self, turns: u32, current: Option<&str>) {
        let current = current.map(ToOwned::to_owned);
        *self.0.lock().unwrap() = Activity { turns, current };
    }
}

fn closed<T>() -> Result<T, LedgerError> {
    Err(LedgerError::Unavailable {
        what: "nothing comes in here".to_owned(),
    })
}

impl Inbox for BridgeService {
    async fn take_page(&self, _: Page) -> Result<Vec<Received>, LedgerError> {
        closed()
    }

    async fn cursor(&self, _: &ChannelId) -> Result<Option<String>, LedgerError> {
        closed()
    }

    async fn standing(&self, _: &ChannelId, _: &ExternalId) -> Result<IntakeStatus, LedgerError> {
        closed()
    }

    async fn activity(&self, _: &ChannelId) -> Activity {
        self.0.lock().unwrap().clone()
    }
}

struct Stage {
    platform: MoleculePlatform,
    alpha: Workspace,
    service: BridgeService,
    stop: CancellationToken,
}

impl Stage {
    async fn new() -> Self {
        let platform = MoleculePlatform::start(MoleculeOptions::default())
            .await
            .unwrap();
        Self {
            alpha: platform.workspace("alpha"),
            platform,
            service: BridgeService::default(),
            stop: CancellationToken::new(),
        }
    }

    fn attends(&self) -> JoinHandle<()> {
        let settings = Settings {
            workspace: self.alpha.id.clone(),
            platform_url: self.platform.url(),
            token: TokenSource::Value(Secret::new(self.alpha.token.clone())),
            org_id: None,
            allow_http: false,
            origins: Origins::of([Origin::Canvas, Origin::Unmarked], Tier::Owner),
            first_start: FIRST_START,
            poll: POLL,
            wake: false,
            max_reply_chars: MAX_REPLY_CHARS,
            name: Some("Codex".to_owned()),
            delivery: Delivery::Poll,
            on_unknown: OnUnknown::Hold,
        };
        let channel = Molecule::open(settings).unwrap();
        let (service, stop) = (self.service.clone(), self.stop.clone());
        tokio::spawn(async move { channel.attend(service, stop).await })
    }

    async fn until(&self, what: &str, mut reached: impl FnMut(&MoleculePlatform) -> bool) {
        let seen = self.platform.wait_until(what, |platform| reached(platform));
        if let Err(error) = seen.await {
            panic!("{error}: {:?}", self.platform.heartbeats(&self.alpha));
        }
    }

    fn refused(&self, route: Route) -> usize {
        self.platform.count(route, 500)
    }
}

#[tokio::test]
async fn presence_reports_activity_and_final_idle() {
    let stage = Stage::new().await;
    let attending = stage.attends();
    let alpha = &stage.alpha;
    stage
        .until("online", |p| p.status(alpha) == Status::Online)
        .await;
    let card = stage.platform.agent_card(alpha).unwrap();
    assert_eq!(card["name"], "Codex");
    stage.service.does(2, Some("$ cargo test"));
    stage
        .until("two tasks", |p| {
            let beats = p.heartbeats(alpha);
            beats.active_tasks == 2 && beats.current_task.as_deref() == Some("$ cargo test")
        })
        .await;
    stage
        .service
        .does(1, Some(&format!("$ echo {}", alpha.token)));
    stage
        .until("one task", |p| p.heartbeats(alpha).active_tasks == 1)
        .await;
    let beats = stage.platform.heartbeats(alpha);
    assert_eq!(beats.current_task.as_deref(), Some("working"), "no secret");
    assert_eq!(beats.registrations, 1);
    stage.stop.cancel();
    attending.await.unwrap();
    let last = stage.platform.heartbeats(alpha);
    assert_eq!((last.active_tasks, last.count), (0, beats.count + 1));
}

/// The database goes away in the middle: nothing is given up, no sign-on is refused and held against us, and the
/// workspace is online again by itself.
#[tokio::test]
async fn workspace_returns_online_after_outage() {
    let stage = Stage::new().await;
    let attending = stage.attends();
    let alpha = &stage.alpha;
    stage
        .until("a heartbeat", |p| p.heartbeats(alpha).count == 1)
        .await;
    stage.platform.set_database(false);
    stage.service.does(1, None);
    stage
        .until("a refused heartbeat", |_| {
            stage.refused(Route::Heartbeat) >= 1
        })
        .await;
    stage.platform.set_database(true);
    stage
        .until("another sign-on", |p| {
            let beats = p.heartbeats(alpha);
            beats.registrations == 2 && beats.active_tasks == 1
        })
        .await;
    assert_eq!(stage.platform.status(alpha), Status::Online);
    assert_eq!(stage.refused(Route::Register), 0);
    stage.stop.cancel();
    attending.await.unwrap();
}

/// Virtual time passes; everything that is due meanwhile is done.
async fn pass(span: Duration) {
    let _passed = tokio::time::timeout(span, std::future::pending::<()>()).await;
}

const TEN_MINUTES: Duration = Duration::from_secs(600);

/// The platform would take the sign-on of a removed workspace and mint a token for it.
#[tokio::test(start_paused = true)]
async fn a_removed_workspace_is_not_signed_on() {
    let stage = Stage::new().await;
    stage.platform.remove(&stage.alpha);
    let attending = stage.attends();
    pass(TEN_MINUTES).await;
    let looks = stage.platform.count(Route::Workspace, 410);
    assert!((8..=11).contains(&looks), "{looks} looks in ten minutes");
    assert_eq!(stage.platform.calls().len(), looks, "and nothing else");
    stage.stop.cancel();
    attending.await.unwrap();
}

/// The platform goes on taking heartbeats; only a look at the workspace says that it is gone.
#[tokio::test(start_paused = true)]
async fn removed_workspace_gets_no_more_heartbeats() {
    let stage = Stage::new().await;
    let attending = stage.attends();
    stage
        .until("a heartbeat", |p| p.heartbeats(&stage.alpha).count == 1)
        .await;
    stage.platform.remove(&stage.alpha);
    pass(Duration::from_secs(120)).await;
    assert!(stage.platform.count(Route::Workspace, 410) >= 1);
    let (beats, calls) = (
        stage.platform.count(Route::Heartbeat, 200),
        stage.platform.calls().len(),
    );
    pass(TEN_MINUTES).await;
    assert_eq!(stage.platform.count(Route::Heartbeat, 200), beats);
    assert_eq!(stage.platform.count(Route::Register, 200), 1);
    let calls = stage.platform.calls().len() - calls;
    assert!((8..=11).contains(&calls), "{calls} calls in ten minutes");
    stage.stop.cancel();
    attending.await.unwrap();
}

/// At the start, and after an outage: heartbeats go on at their pace, and the sign-on is tried less and less often.
#[tokio::test(start_paused = true)]
async fn refused_registration_delays_no_heartbeat() {
    for outage in [false, true] {
        let stage = Stage::new().await;
        let refuse = || {
            let refused = MoleculeFault::refuse(500, "registration failed");
            stage.platform.stand(Route::Register, refused);
        };
        if !outage {
            refuse();
        }
        let attending = stage.attends();
        stage
            .until("a heartbeat", |p| p.heartbeats(&stage.alpha).count == 1)
            .await;
        if outage {
            refuse();
            stage.platform.set_database(false);
            pass(Duration::from_secs(60)).await;
            stage.platform.set_database(true);
            pass(Duration::from_secs(60)).await;
        }
        let before = (
            stage.platform.count(Route::Heartbeat, 200),
            stage.refused(Route::Register),
        );
        pass(TEN_MINUTES).await;
        let beats = stage.platform.count(Route::Heartbeat, 200) - before.0;
        let refused = stage.refused(Route::Register) - before.1;
        assert!((28..=31).contains(&beats), "{beats} heartbeats, {outage}");
        assert!((8..=20).contains(&refused), "{refused} refusals, {outage}");
        stage.platform.stand(Route::Register, MoleculeFault::None);
        pass(Duration::from_secs(90)).await;
        let signed_on = stage.platform.count(Route::Register, 200);
        assert_eq!(signed_on, 1 + usize::from(outage));
        stage.stop.cancel();
        attending.await.unwrap();
    }
}

/// The platform has no sign-off: a stop says that nothing is done, calls nothing else, and messages go on queueing.
#[tokio::test]
async fn d10_stop_sends_only_idle_heartbeat() {
    let stage = Stage::new().await;
    let attending = stage.attends();
    let alpha = &stage.alpha;
    stage
        .until("online", |p| p.status(alpha) == Status::Online)
        .await;
    stage.service.does(1, Some("$ cargo test"));
    stage
        .until("one task", |p| p.heartbeats(alpha).active_tasks == 1)
        .await;
    let calls = stage.platform.calls().len();
    stage.stop.cancel();
    attending.await.unwrap();
    let last = stage.platform.calls().split_off(calls);
    let routes: Vec<Route> = last.iter().map(|seen| seen.route).collect();
    assert_eq!(routes, [Route::Heartbeat]);
    assert_eq!(stage.platform.heartbeats(alpha).active_tasks, 0);
    assert_eq!(stage.platform.status(alpha), Status::Online);
    stage.platform.advance(Duration::from_secs(181));
    assert_eq!(stage.platform.status(alpha), Status::AwaitingAgent);
    assert!(stage.platform.canvas_says(alpha, "while away").is_ok());
}
