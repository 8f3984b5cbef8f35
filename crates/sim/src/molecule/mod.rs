//! The Molecule platform in a box: the side of it that an external agent daemon sees, in the two editions that were
//! recorded and a third that was tried by hand, on loopback. It behaves; the recordings in `tests/golden/molecule`
//! judge it and are never looked up here.
//! Left out: `/ws` (the event stream carries the same hints) and calling tools over `/mcp`.

mod a2a;
mod actors;
mod answer;
mod auth;
mod commits;
mod delegate;
mod dispatch;
mod events;
mod faults;
mod feed;
mod files;
mod ground;
mod ids;
mod limiter;
mod notify;
mod office;
mod options;
mod outside;
mod push;
mod registry;
mod reply;
mod route;
mod rows;
mod seen;
mod server;
mod spaces;
mod time;
mod view;
mod weather;
mod wire;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

pub use actors::{Said, SaidFile};
pub use faults::{EventStream, FaultBody, Late, MoleculeFault, Weather};
pub use office::{AutoAnswer, Status};
pub use options::{Edition, MoleculeOptions, Tenant};
pub use outside::SocialChannel;
pub use route::Route;
pub use seen::{AuthSeen, Seen};
pub(crate) use view::Written;
pub use view::{Bubble, Heartbeats, InboxMessage, PendingFile};

use crate::serving::Serving;
use ground::{Ground, Shared};
use server::Server;

/// How long calls under way may take once the platform goes down.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// A workspace as its agent knows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Its id.
    pub id: String,
    /// A live token of it.
    pub token: String,
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Workspace").field(&self.id).finish()
    }
}

/// A Molecule platform on 127.0.0.1: people and agents write on it, a daemon serves it, and it can be made to fail
/// in every way that the real one was seen to.
#[derive(Debug)]
pub struct MoleculePlatform {
    address: SocketAddr,
    ground: Shared,
    patience: Duration,
    serving: Option<Serving>,
}

impl MoleculePlatform {
    /// Binds to 127.0.0.1 and serves from then on.
    pub async fn start(options: MoleculeOptions) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let patience = options.patience;
        let ground = Ground::new(options, format!("http://{address}"));
        let ground = Arc::new(watch::Sender::new(ground));
        let serving = Some(serve(listener, &ground));
        Ok(Self {
            address,
            ground,
            patience,
            serving,
        })
    }

    /// Where it is, as `PLATFORM_URL` wants it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Refuses connections until [`up`](Self::up); calls under way are cut. What it knows stays.
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
    Serving::start(|stop| server::serve(listener, Server::new(ground, stop)))
}
