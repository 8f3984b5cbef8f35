//! One Codex for each CODEX_HOME: the usual one, and those that tasks ask for. A home is a login, a configuration and a
//! set of threads of its own, so each has its own process, keeper and rows; which homes may be named at all is decided
//! before anything gets here.
//!
//! The Codex of another home is started when it is needed and ended when nobody needed it for the linger.

use crate::app_server::connection::Learned;
use crate::app_server::{CodexHealth, Host, HostOptions, Session};
use crate::binary::program::Wanted;
use crate::error::agent_error;
use crate::locked;
use bridge_core::port::{AgentError, Ledger, LedgerError};
use bridge_core::value::{Class, IncarnationId, ThreadId};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::Notify;

/// Homes beside the usual one that may have a Codex at the same time; each costs about 100 MB.
pub const HOMES_MAX: usize = 8;

type HomeHosts<L> = Mutex<BTreeMap<String, Arc<Host<L>>>>;

pub(crate) struct Homes<L> {
    usual: Arc<Host<L>>,
    extra: Arc<HomeHosts<L>>,
    ledger: L,
    /// The Codex of all homes.
    pub(crate) wanted: Arc<Wanted>,
    /// Notified when the Codex that is wanted may be started now, or another one runs.
    pub(crate) look_again: Arc<Notify>,
    quota_changed: Arc<Notify>,
}

impl<L: Ledger> Homes<L> {
    pub(crate) fn new(options: HostOptions, ledger: L) -> Self {
        let wanted = Arc::new(Wanted::new(options.launch.program()));
        let look_again = Arc::<Notify>::default();
        let shared = (Arc::clone(&wanted), Arc::clone(&look_again));
        let quota_changed = Arc::new(Notify::new());
        let learned = Learned::new(&quota_changed);
        Self {
            usual: Arc::new(Host::new(options, None, learned, ledger.clone(), shared)),
            extra: Arc::default(),
            ledger,
            wanted,
            look_again,
            quota_changed,
        }
    }

    pub(crate) fn usual(&self) -> &Arc<Host<L>> {
        &self.usual
    }

    /// Woken when a Codex reported something new of its account. For one waiter.
    pub(crate) fn quota_changed(&self) -> &Notify {
        &self.quota_changed
    }

    /// The host of a home, as the configuration names it.
    pub(crate) fn of(&self, home: Option<&str>) -> Result<Arc<Host<L>>, AgentError> {
        let Some(home) = home else {
            return Ok(Arc::clone(&self.usual));
        };
        let options = &self.usual.options;
        let real = std::fs::canonicalize(home)
            .ok()
            .filter(|real| Path::new(home).is_absolute() && real.is_dir());
        let Some(real) = real else {
            let reason = format!(
                "CODEX_HOME {home} is no directory, so the turn was not begun: make it and log Codex in there, or take it out of the configuration"
            );
            return Err(agent_error(Class::Config, reason));
        };
        let usual = options.launch.usual_home();
        if usual.is_some_and(|usual| std::fs::canonicalize(usual).is_ok_and(|usual| usual == real))
        {
            return Ok(Arc::clone(&self.usual));
        }
        let key = real.display().to_string();
        let mut extra = locked(&self.extra);
        if let Some(host) = extra.get(&key) {
            return Ok(Arc::clone(host));
        }
        if extra.len() >= HOMES_MAX {
            let reason = format!(
                "Codex runs for {HOMES_MAX} other homes already; the message is answered when one of them is idle"
            );
            return Err(agent_error(Class::Capacity { until: None }, reason));
        }
        let launch = options.launch.with_home(&key);
        // The daemon's own key is for the usual home: another home is another account.
        let options = HostOptions {
            launch,
            api_key: None,
            ..options.clone()
        };
        let shared = (Arc::clone(&self.wanted), Arc::clone(&self.look_again));
        let learned = Learned::new(&self.quota_changed);
        let ledger = self.ledger.clone();
        let host = Host::new(options, Some(key.clone()), learned, ledger, shared);
        let host = Arc::new(host);
        tokio::spawn(retire(Arc::downgrade(&self.extra), key.clone()));
        extra.insert(key, Arc::clone(&host));
        Ok(host)
    }

    /// All that there are, the usual one first.
    pub(crate) fn all(&self) -> Vec<Arc<Host<L>>> {
        let mut all = vec![Arc::clone(&self.usual)];
        all.extend(locked(&self.extra).values().cloned());
        all
    }

    /// The host whose Codex has this thread, if one has it.
    pub(crate) fn with_thread(&self, thread: &ThreadId) -> Option<Arc<Host<L>>> {
        self.all().into_iter().find(|host| host.knows(thread))
    }

    /// The process to ask about a thread. The usual one refuses harmlessly what is not its own, and a run of `codex exec`
    /// is known to none.
    pub(crate) fn session_of(&self, thread: &ThreadId) -> Option<Arc<Session>> {
        let host = self.with_thread(thread);
        host.as_ref().unwrap_or(&self.usual).session_of(thread)
    }

    /// The session of one life of Codex, if that is there.
    pub(crate) fn with_life(&self, life: &IncarnationId) -> Option<Arc<Session>> {
        self.all().iter().find_map(|host| host.of_life(life))
    }

    /// Each home attaches to what an earlier daemon left of it; what belongs to no home is ended.
    pub(crate) async fn adopt(&self) -> Result<(), LedgerError> {
        let left = self.ledger.read(|rows| rows.live_incarnations()).await?;
        let mut by_home: BTreeMap<Option<String>, Vec<_>> = BTreeMap::new();
        for incarnation in left {
            let home = incarnation.codex_home.clone();
            by_home.entry(home).or_default().push(incarnation);
        }
        for (home, left) in by_home {
            match self.of(home.as_deref()) {
                Ok(host) => host.adopt(left).await,
                Err(error) => {
                    tracing::warn!(%error, "a codex process of an earlier daemon can't be used");
                    self.usual.adopt(left).await;
                }
            }
        }
        Ok(())
    }

    /// How the Codex of each other home is.
    pub(crate) async fn health(&self) -> Vec<(String, CodexHealth)> {
        let hosts: Vec<_> = locked(&self.extra).clone().into_iter().collect();
        let mut all = Vec::with_capacity(hosts.len());
        for (home, host) in hosts {
            all.push((home, host.health(None).await));
        }
        all
    }
}

/// Ends the Codex of a home that nobody needed for the linger.
async fn retire<L: Ledger>(hosts: Weak<HomeHosts<L>>, home: String) {
    let look = |hosts: &HomeHosts<L>| {
        let mut hosts = locked(hosts);
        let host = hosts.get(&home)?;
        let linger = host.options.launch.linger;
        let left = linger.saturating_sub(host.idle());
        // Its holder is about to use it, or has a run on it.
        let needed = Arc::strong_count(host) > 1;
        match (left.is_zero(), needed) {
            (true, false) => hosts.remove(&home).map(Ok),
            (true, true) => Some(Err(linger)),
            (false, _) => Some(Err(left)),
        }
    };
    loop {
        let Some(found) = hosts.upgrade().and_then(|hosts| look(&hosts)) else {
            return;
        };
        match found {
            Ok(host) => {
                tracing::info!(home, "codex is ended there: nobody needed it for a while");
                return host.stop().await;
            }
            Err(wait) => tokio::time::sleep(wait).await,
        }
    }
}
