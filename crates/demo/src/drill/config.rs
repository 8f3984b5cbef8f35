//! The configuration of a daemon that is drilled, alone or as a node, and the scene around it.

use crate::args::{DrillArgs, DrillSink, DrillTransport};
use anyhow::Context;
use bridge_sim::SinkKind;
use bridge_sim::drill::Scene;
use std::path::Path;

/// Starts what stands around the daemons.
pub(super) async fn scene(args: &DrillArgs, seed: u64) -> anyhow::Result<Scene> {
    let kind = match args.sink {
        DrillSink::Idempotent => SinkKind::Idempotent,
        DrillSink::Probeable => SinkKind::Probeable,
    };
    Scene::set(kind, seed)
        .await
        .context("start the model and the platform")
}

/// What the configuration of a drilled daemon is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrillConfig<'a> {
    pub(super) codex: &'a Path,
    pub(super) codex_home: &'a Path,
    pub(super) transport: DrillTransport,
    /// The sections of the platform.
    pub(super) platform: &'a str,
    pub(super) node: Option<NodeConfig<'a>>,
}

/// What a daemon shares with the other nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeConfig<'a> {
    pub(super) name: &'a str,
    pub(super) lease_secs: u64,
    pub(super) key_file: &'a Path,
    /// Where turns of all nodes work.
    pub(super) work: &'a Path,
}

impl DrillConfig<'_> {
    /// A daemon that is restarted a hundred times on purpose needs a wider limit and shorter pauses, and few turns at a
    /// time, or on a small machine each would last from one kill to the next. Peers may do here what owners may. Chats
    /// get no notices about progress, because every message there is counted. Nothing else differs from an ordinary
    /// daemon.
    pub(super) fn text(&self) -> String {
        let transport = match self.transport {
            DrillTransport::Socket => "socket",
            DrillTransport::Stdio => "stdio",
        };
        let (key_file, workdir, fleet) = match &self.node {
            None => (String::new(), String::new(), String::new()),
            Some(node) => (
                format!("key_file = {}\n", quoted(node.key_file)),
                format!("workdir = {}\n", quoted(node.work)),
                format!(
                    "[fleet]\nnode = \"{}\"\nlease_secs = {}\nshared_workdir = true\n\n",
                    node.name, node.lease_secs
                ),
            ),
        };
        format!(
            "[daemon]\nturns_max = 2\nturns_reserved = 0\nturns_per_sender = 2\ndrain_secs = 10\n{key_file}\n\
             [codex]\nbin = {bin}\nhome = {home}\ntransport = \"{transport}\"\nlinger_secs = 60\nrestarts_per_minute = 600\n\n\
             [turn]\nbackoff_base_ms = 100\nconfig_probe_secs = 1\ntimeout_secs = 60\nprogress_after_secs = 0\n\n\
             [tiers.owner]\n{workdir}\n[tiers.peer]\nprofile = \"workspace-agent\"\nreads = \"disk\"\n{workdir}\n\
             {fleet}{platform}",
            bin = quoted(self.codex),
            home = quoted(self.codex_home),
            platform = self.platform,
        )
    }
}

/// A JSON string is also a TOML basic string.
fn quoted(path: &Path) -> String {
    serde_json::Value::from(path.display().to_string()).to_string()
}
