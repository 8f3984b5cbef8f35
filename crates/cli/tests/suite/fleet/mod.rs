//! Several daemons over one PostgreSQL, each with its own state directory and CODEX_HOME. Nodes are killed, frozen,
//! drained, and lose their disk; a conversation goes on, and nothing is done twice.

mod balancer;
mod deaths;
mod files;
mod leaving;
mod one_node;
mod reading;
mod refused;
mod steering;
mod upgrade;
mod watching;

use crate::world::{Daemon, Ended, Running, World, end_of_message};
use bridge_sim::postgres::Server;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::process::Command;

/// So long that a busy machine loses nothing.
const LEASE_SECS: u64 = 60;
/// So short that its end can be waited for.
const SHORT_LEASE_SECS: u64 = 5;

/// The database and what its daemons have in common.
struct Fleet {
    world: World,
    server: &'static Server,
    database: String,
    lease_secs: u64,
    /// How long a drained node serves on.
    leave_secs: u64,
    /// Whether working directories count as those of all.
    shared_workdir: bool,
}

impl Fleet {
    async fn new() -> Self {
        Self::with_settings("").await
    }

    async fn with_settings(settings: &str) -> Self {
        Self::over(Server::shared().unwrap(), settings).await
    }

    /// A fleet whose server nobody else has: it may be restarted. It ends with this process.
    async fn alone() -> Self {
        Self::over(Box::leak(Box::new(Server::start_fast().unwrap())), "").await
    }

    async fn over(server: &'static Server, settings: &str) -> Self {
        static FLEETS: AtomicUsize = AtomicUsize::new(0);
        let database = format!("fleet_{}", FLEETS.fetch_add(1, Ordering::Relaxed));
        server.create_database(&database, None).unwrap();
        let mut world = World::with_settings(settings).await;
        std::fs::create_dir(world.path().join("work")).unwrap();
        world.set_env("CODEX_BRIDGE_LEDGER_URL", &server.url_of(&database));
        Self {
            world,
            server,
            database,
            lease_secs: LEASE_SECS,
            leave_secs: 0,
            shared_workdir: true,
        }
    }

    /// Nodes die in it, or stand still: it is not waited long for the end of a lease. or stand still: it is not waited long for the end of a lease.
    fn with_short_lease(mut self) -> Self {
        self.lease_secs = SHORT_LEASE_SECS;
        self
    }

    /// A machine that may run a daemon. Its working directories are those of all.
    fn node(&self, name: &'static str) -> Node<'_> {
        let node = Node { fleet: self, name };
        let root = self.world.path().display();
        let common = std::fs::read_to_string(self.world.config_file()).unwrap();
        let config = format!(
            "{common}\n[fleet]\nnode = {name:?}\nlease_secs = {}\nleave_secs = {}\nshared_workdir = {}\n\
             [daemon]\nkey_file = \"{root}/ledger.key\"\n\
             [tiers.owner]\nsandbox = \"workspace-write\"\nworkdir = \"{root}/work\"\n",
            self.lease_secs, self.leave_secs, self.shared_workdir
        );
        std::fs::write(node.config_file(), config).unwrap();
        node.make_codex_home();
        node
    }

    /// The Codex that a node runs.
    fn codex_of(&self, node: &Node<'_>) -> i32 {
        bridge_host::process::children(self.keeper_of(node))[0]
    }

    /// The keeper of that Codex.
    fn keeper_of(&self, node: &Node<'_>) -> i32 {
        let own = node.state_dir().display().to_string();
        let processes = self.world.processes();
        let is_keeper = |line: &str| line.contains(" keeper ") && line.contains(&own);
        let keeper = processes.iter().find(|(_, line)| is_keeper(line));
        keeper.unwrap_or_else(|| panic!("{processes:#?}")).0
    }

    fn url(&self) -> String {
        self.server.url_of(&self.database)
    }

    /// What the database holds, as `psql` prints it.
    fn rows(&self, query: &str) -> String {
        self.server
            .psql(&self.database, query)
            .unwrap()
            .trim()
            .to_owned()
    }
}

/// One machine of the fleet.
#[derive(Clone, Copy)]
struct Node<'a> {
    fleet: &'a Fleet,
    name: &'static str,
}

impl Node<'_> {
    fn place(&self, what: &str) -> PathBuf {
        self.fleet.world.path().join(format!("{}{what}", self.name))
    }

    fn config_file(&self) -> PathBuf {
        self.place(".toml")
    }

    fn codex_home(&self) -> PathBuf {
        self.place("-home")
    }

    fn state_dir(&self) -> PathBuf {
        self.place("-state")
    }

    fn make_codex_home(&self) {
        std::fs::create_dir(self.codex_home()).unwrap();
        let config = self.fleet.world.codex_home().join("config.toml");
        std::fs::copy(config, self.codex_home().join("config.toml")).unwrap();
    }

    /// Everything that Codex remembered on this machine is gone for good.
    fn loses_its_disk(&self) {
        std::fs::remove_dir_all(self.codex_home()).unwrap();
        std::fs::remove_dir_all(self.state_dir()).unwrap();
        self.make_codex_home();
    }

    fn command(&self, args: &[&str]) -> Command {
        let world = &self.fleet.world;
        world.command_at(
            &self.state_dir(),
            &self.config_file(),
            &self.codex_home(),
            args,
        )
    }

    async fn daemon(&self) -> Daemon {
        Daemon::of(self.command(&["run"])).await
    }

    async fn start(&self, args: &[&str]) -> Running {
        Running::of(self.command(args))
    }

    async fn run(&self, args: &[&str]) -> Ended {
        self.start(args).await.ended().await
    }

    async fn json(&self, args: &[&str]) -> Value {
        let ended = self.run(args).await;
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
    }

    /// What `doctor` says of the database, with these variables. It looks for no Codex.
    async fn doctor_of_database(&self, env: &[(&str, &str)]) -> String {
        let mut command = self.command(&["doctor", "--json"]);
        command.envs(env.iter().copied());
        command.env("CODEX_BRIDGE_CODEX_BIN", "/nowhere/codex");
        let ended = Running::of(command).ended().await;
        let found: Value = serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("{error}: {ended:?}"));
        let checks = found["checks"].as_array().unwrap().iter();
        let checks = checks.filter(|check| check["id"] == "ledger");
        checks.map(|check| format!("{check}\n")).collect()
    }

    async fn ask(&self, conversation: &str, text: &str) -> String {
        let ended = self
            .run(&["send", "--conversation", conversation, text])
            .await;
        assert_eq!(ended.code, Some(0), "{text}: {ended:?}");
        ended.stdout.trim_end().to_owned()
    }

    /// Sends a message in the conversation `main`; gives its id when it is on disk.
    async fn sends(&self, text: &str) -> (Running, String) {
        let mut send = self.start(&["send", "--conversation", "main", text]).await;
        let message_id = send.on_disk().await;
        (send, message_id)
    }

    async fn finished(&self, message_id: &str) -> Value {
        end_of_message(&self.state_dir(), message_id).await;
        self.json(&["show", "--json", message_id]).await
    }

    /// Kills the daemon with its keepers and everything Codex runs: the machine is gone.
    async fn dies(&self, daemon: Daemon) {
        daemon.kill_9().await;
        let own = self.state_dir().display().to_string();
        for (pid, line) in self.fleet.world.processes() {
            if line.contains(&own) {
                kill_tree(pid);
            }
        }
    }
}

/// A process with all that it started.
fn kill_tree(pid: i32) {
    let children = bridge_host::process::children(pid);
    let process = nix::unistd::Pid::from_raw(pid);
    // It may have ended since it was listed.
    let _gone = nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGKILL);
    children.into_iter().for_each(kill_tree);
}
