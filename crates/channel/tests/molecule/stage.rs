//! A platform, the channel that speaks to it, and a tray in place of the ledger.

use bridge_channel::Secret;
use bridge_channel::molecule::{
    ChannelState, Delivery, FirstStart, Molecule, Origin, Origins, Settings, TokenSource,
};
use bridge_channel::{Activity, Arrival, Inbox, IntakeStatus, Page};
use bridge_core::port::{LedgerError, OnUnknown};
use bridge_core::step::Received;
use bridge_core::value::{
    ChannelId, ConversationId, ExternalId, Failure, Life, Message, MessageId, Reply, ReplyKey,
    ReplyKind, ReplyState, Round, SenderKind, Seq, Tier, Timestamp,
};
use bridge_sim::molecule::{Edition, MoleculeOptions, MoleculePlatform, Workspace};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn platform(edition: Edition) -> (MoleculePlatform, Workspace) {
    let options = MoleculeOptions {
        edition,
        ..MoleculeOptions::default()
    };
    let platform = MoleculePlatform::start(options).await.unwrap();
    let own = platform.add_workspace("alpha");
    (platform, own)
}

pub(crate) fn settings(platform: &MoleculePlatform, own: &Workspace) -> Settings {
    Settings {
        workspace: own.id.clone(),
        platform_url: platform.url(),
        token: TokenSource::Value(Secret::new(own.token.clone())),
        org_id: None,
        allow_http: false,
        origins: Origins::of([Origin::Canvas, Origin::Unmarked], Tier::Owner),
        first_start: FirstStart { minutes: 10 },
        poll: Duration::from_millis(50),
        wake: false,
        max_reply_chars: 16_000,
        name: None,
        delivery: Delivery::Poll,
        on_unknown: OnUnknown::Hold,
    }
}

pub(crate) fn channel(platform: &MoleculePlatform, own: &Workspace) -> Molecule {
    Molecule::open(settings(platform, own)).unwrap()
}

/// A daemon that has its conversations.
pub(crate) fn may() -> Result<(), Failure> {
    Ok(())
}

/// What the ledger would hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) cursor: Option<String>,
    /// Rows that came again.
    pub(crate) again: usize,
    /// Takes nothing more beyond this many.
    pub(crate) room: Option<usize>,
}

impl Held {
    pub(crate) fn texts(&self) -> Vec<&str> {
        let texts = self.arrivals.iter().map(|arrival| arrival.body.as_str());
        texts.collect()
    }
}

/// A inbox that keeps what comes in.
#[derive(Clone, Debug)]
pub(crate) struct Tray(Arc<watch::Sender<Held>>);

impl Tray {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Held::default())))
    }

    pub(crate) fn held(&self) -> Held {
        self.0.borrow().clone()
    }

    pub(crate) fn make_room(&self, room: Option<usize>) {
        self.0.send_modify(|held| held.room = room);
    }

    /// As a version that named messages by their rows would have stored them.
    pub(crate) fn forget_names(&self) {
        self.0.send_modify(|held| {
            for arrival in &mut held.arrivals {
                if let Some(former) = arrival.extras.former_id.take() {
                    arrival.external_id = former;
                }
            }
        });
    }

    pub(crate) async fn until(&self, what: &str, until: impl FnMut(&Held) -> bool) -> Held {
        let mut changes = self.0.subscribe();
        match tokio::time::timeout(PATIENCE, changes.wait_for(until)).await {
            Ok(held) => held.unwrap().clone(),
            Err(_) => panic!("never: {what}; {:?}", self.held().texts()),
        }
    }

    pub(crate) async fn until_texts(&self, count: usize) -> Vec<String> {
        let what = format!("{count} texts");
        let held = self.until(&what, |held| held.arrivals.len() >= count).await;
        held.texts().into_iter().map(ToOwned::to_owned).collect()
    }
}

fn put(held: &mut Held, arrival: Arrival) -> Received {
    let id = MessageId::new(arrival.external_id.as_str());
    let known = |other: &Arrival| {
        other.external_id == arrival.external_id
            || Some(&other.external_id) == arrival.extras.former_id.as_ref()
    };
    if held.arrivals.iter().any(known) {
        held.again += 1;
        return Received::Duplicate(id);
    }
    if held.room.is_some_and(|room| held.arrivals.len() >= room) {
        return Received::Full;
    }
    held.arrivals.push(arrival);
    Received::New(id)
}

impl Inbox for Tray {
    async fn take_page(&self, page: Page) -> Result<Vec<Received>, LedgerError> {
        let mut received = Vec::new();
        self.0.send_modify(|held| {
            for arrival in page.arrivals {
                received.push(put(held, arrival));
                if received.contains(&Received::Full) {
                    return;
                }
            }
            held.cursor = page.position.or(held.cursor.take());
        });
        Ok(received)
    }

    async fn cursor(&self, _channel: &ChannelId) -> Result<Option<String>, LedgerError> {
        Ok(self.held().cursor)
    }

    async fn standing(
        &self,
        _channel: &ChannelId,
        id: &ExternalId,
    ) -> Result<IntakeStatus, LedgerError> {
        let held = self.held();
        let known = held.arrivals.iter().find(|held| held.external_id == *id);
        Ok(match known {
            Some(known) => IntakeStatus::Known {
                files: known.extras.attachments.len(),
            },
            None if held.room.is_some_and(|room| held.arrivals.len() >= room) => IntakeStatus::Full,
            None => IntakeStatus::New,
        })
    }

    async fn activity(&self, _channel: &ChannelId) -> Activity {
        Activity::default()
    }
}

/// A channel that fetches until it is dropped.
pub(crate) struct Fetching {
    pub(crate) tray: Tray,
    pub(crate) channel: Molecule,
    task: JoinHandle<()>,
}

impl Fetching {
    pub(crate) fn start(channel: Molecule, tray: Tray) -> Self {
        let (own, inbox) = (channel.clone(), tray.clone());
        let task = tokio::spawn(async move { own.fetch(inbox, CancellationToken::new()).await });
        Self {
            tray,
            channel,
            task,
        }
    }

    /// Returns when the channel is in a state; asked again whenever the platform was called.
    pub(crate) async fn until(&self, platform: &MoleculePlatform, state: ChannelState) -> String {
        let is = |_: &MoleculePlatform| self.channel.health().state == state;
        // A failing channel calls again and again, so the state is looked at again too.
        if platform.wait_until("a state", is).await.is_err() {
            panic!("never {}: {:?}", state.as_str(), self.channel.health());
        }
        self.channel.health().detail
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_millis()).unwrap())
}

/// A message as the ledger would hold it; the canvas's unless a peer is named.
pub(crate) fn message(channel: &Molecule, id: &str, peer: Option<&Workspace>) -> Message {
    Message {
        message_id: MessageId::new(id),
        conversation_id: ConversationId::new("c1"),
        seq: Seq(1),
        channel: channel.channel().clone(),
        external_id: ExternalId::new(id),
        kind: peer.map_or(SenderKind::Person, |_| SenderKind::Agent),
        sender: peer.map_or("canvas".to_owned(), |peer| peer.id.clone()),
        tier: Tier::Owner,
        body: "hello".to_owned(),
        attachments: Vec::new(),
        said_at: Timestamp(0),
        hops: 2,
        round: Round(0),
        received_at: now(),
        trace: None,
        life: Life::new(now()),
    }
}

pub(crate) fn reply(message: &Message, text: &str) -> Reply {
    Reply {
        message_id: message.message_id.clone(),
        ordinal: 0,
        conversation_id: message.conversation_id.clone(),
        seq: message.seq,
        key: ReplyKey::of(&message.message_id, 0),
        kind: ReplyKind::Answer,
        body: text.to_owned(),
        attachments: Vec::new(),
        state: ReplyState::Sending,
        tries: 1,
        first_try_at: Some(now()),
        created_at: now(),
    }
}
