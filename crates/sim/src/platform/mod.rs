//! A recording platform on loopback: people post messages, a daemon fetches and answers them over HTTP, and
//! everything that could be seen from outside is written down with its time.
//! The parts: `ground` is what it knows, `fault` is what goes wrong, `wire` and `server` are its HTTP side.

mod fault;
mod ground;
mod server;
mod wire;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::Error;
use crate::history::{Event, RowId};
use crate::serving::Serving;
use ground::{Ground, Shared};

pub use fault::{Call, Fault, Weather};
pub use ground::Memory;

/// How long a stop waits for connections to close before it cuts them off.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// How to set up a platform.
#[derive(Clone, Debug)]
pub struct PlatformOptions {
    /// What it does with a reply that comes twice.
    pub memory: Memory,
    /// Where random faults come from.
    pub seed: u64,
    /// How long the `wait_…` functions wait before they give up with an error.
    pub patience: Duration,
}

impl Default for PlatformOptions {
    fn default() -> Self {
        Self {
            memory: Memory::Idempotent,
            seed: 0,
            patience: Duration::from_secs(60),
        }
    }
}

/// A platform on 127.0.0.1 that can refuse, lose, delay and redeliver, and that remembers what it showed.
///
/// | call | what it is |
/// | --- | --- |
/// | `GET /inbox?limit=N&wait=MS&mark=M` | messages without an ack, oldest first, shown again until acknowledged; with a `mark` of an earlier answer it waits up to MS for one that is newer |
/// | `POST /replies` | a reply: key, conversation, row, ordinal, kind (`answer` or `notice`), text |
/// | `GET /replies?key=K` | whether a reply arrived; not on a blind platform |
/// | `POST /acks` | the daemon is done with a row |
#[derive(Debug)]
pub struct Platform {
    address: SocketAddr,
    ground: Shared,
    patience: Duration,
    serving: Option<Serving>,
}

impl Platform {
    /// Binds to 127.0.0.1 and serves from then on.
    pub async fn start(options: PlatformOptions) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let ground = Arc::new(watch::Sender::new(Ground::new(
            options.memory,
            options.seed,
        )));
        let serving = Some(serve(listener, &ground));
        Ok(Self {
            address,
            ground,
            patience: options.patience,
            serving,
        })
    }

    /// Where it is, for a channel's configuration.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Somebody says something.
    pub fn post(&self, conversation: &str, sender: &str, text: &str) -> Result<RowId, Error> {
        self.change(|ground| ground.post(conversation, sender, text))
            .ok_or(Error::PlatformFull)
    }

    /// Puts a row into the inbox as it stands, however wrong it is.
    pub fn plant(&self, row: Value) -> Result<RowId, Error> {
        self.change(|ground| ground.plant(row))
            .ok_or(Error::PlatformFull)
    }

    /// The next calls of this kind meet these faults, one each, before any weather.
    pub fn script(&self, call: Call, faults: impl IntoIterator<Item = Fault>) {
        let faults: Vec<_> = faults.into_iter().collect();
        self.change(|ground| ground.faults.script(call, faults));
    }

    /// What may go wrong by chance from now on.
    pub fn set_weather(&self, weather: Weather) {
        self.change(|ground| ground.faults.weather = weather);
    }

    /// Forgets that a row was acknowledged and shows it again; false when it was not acknowledged.
    pub fn redeliver(&self, row: RowId) -> bool {
        self.change(|ground| ground.redeliver(row))
    }

    /// Everything that was seen from outside so far.
    pub fn history(&self) -> Vec<Event> {
        self.ground.borrow().history.clone()
    }

    /// Texts of the replies that became visible, in that order, with what they reply to.
    pub fn visible(&self) -> Vec<(RowId, String)> {
        self.ground.borrow().visible.clone()
    }

    /// How many messages have no visible end yet, by conversation.
    pub fn waiting(&self) -> BTreeMap<String, usize> {
        self.ground.borrow().waiting()
    }

    /// Rows that wait for an ack.
    pub fn open(&self) -> Vec<RowId> {
        self.ground.borrow().open_rows()
    }

    /// Returns when the history fulfils `until`.
    pub async fn wait_for(
        &self,
        what: &str,
        mut until: impl FnMut(&[Event]) -> bool,
    ) -> Result<(), Error> {
        let mut ground = self.ground.subscribe();
        let reached = ground.wait_for(|ground| until(&ground.history));
        let reached = tokio::time::timeout(self.patience, reached).await;
        match reached {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Error::NeverOnPlatform {
                what: what.to_owned(),
                waited: self.patience,
                events: self.ground.borrow().history.len(),
            }),
        }
    }

    /// Refuses connections until [`up`](Self::up); calls under way are cut.
    pub async fn down(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.end(STOP_GRACE).await;
        }
    }

    /// Serves again at the same address.
    pub async fn up(&mut self) -> io::Result<()> {
        if self.serving.is_none() {
            let listener = TcpListener::bind(self.address).await?;
            self.serving = Some(serve(listener, &self.ground));
        }
        Ok(())
    }

    fn change<T: Default>(&self, change: impl FnOnce(&mut Ground) -> T) -> T {
        ground::change(&self.ground, change)
    }
}

fn serve(listener: TcpListener, ground: &Shared) -> Serving {
    let ground = Arc::clone(ground);
    Serving::start(|stop| server::serve(listener, server::Server { ground, stop }))
}
