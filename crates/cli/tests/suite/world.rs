//! The rig: a scripted model, a private CODEX_HOME, a state directory, and the built binary as a daemon and as
//! commands. Nothing waits by sleeping: daemons say when they are ready, the model says what it was asked.

use bridge_sim::{Options, ScriptedModel, codex_for_tests};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::{OnceCell, watch};

/// Longest wait for anything; only a broken test gets there.
const PATIENCE: Duration = Duration::from_secs(60);

/// Everything a daemon needs, in one temporary directory.
pub(crate) struct World {
    pub(crate) model: ScriptedModel,
    directory: TempDir,
    settings: String,
    env: Vec<(String, String)>,
    /// Whose login shells run without a sandbox: killed in the profile of whoever runs the tests, they would leave locks
    /// behind that later shells wait for.
    person: TempDir,
    /// Made when it is first asked for.
    owner_token: OnceCell<String>,
}

/// The default, and that Codex has an answer: tests wait for it.
const LOG: &str = "info,bridge_daemon::turn::approvals=debug";

/// A running daemon.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) log: Lines,
}

/// Lines that a process wrote so far, which can be waited for.
#[derive(Clone)]
pub(crate) struct Lines(watch::Receiver<String>);

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A command that runs.
pub(crate) struct Running {
    child: Child,
    pub(crate) stderr: Lines,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with_settings("").await
    }

    /// A world whose daemons read these lines as codex-bridge.toml.
    pub(crate) async fn with_settings(settings: &str) -> Self {
        Self::with_model(Options::default(), settings).await
    }

    /// A world with this model, which Codex asks once and not again by itself.
    pub(crate) async fn with_model(options: Options, settings: &str) -> Self {
        let options = Options {
            request_max_retries: 0,
            stream_max_retries: 0,
            ..options
        };
        let model = ScriptedModel::start(options).await.unwrap();
        let place = || tempfile::Builder::new().prefix("cb-").tempdir().unwrap();
        let (directory, person) = (place(), place());
        let world = Self {
            model,
            directory,
            settings: settings.to_owned(),
            env: vec![
                ("HOME".to_owned(), person.path().display().to_string()),
                ("CODEX_BRIDGE_LOG".to_owned(), LOG.to_owned()),
            ],
            person,
            owner_token: OnceCell::new(),
        };
        std::fs::create_dir(world.codex_home()).unwrap();
        world.configure_codex(&world.model.codex_config());
        std::fs::write(world.config_file(), &world.settings).unwrap();
        world
    }

    /// Writes Codex's config.toml.
    pub(crate) fn configure_codex(&self, text: &str) {
        std::fs::write(self.codex_home().join("config.toml"), text).unwrap();
    }

    /// A variable in the environment of daemons and commands.
    pub(crate) fn set_env(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// Leaves a variable to the configuration.
    pub(crate) fn unset_env(&mut self, name: &str) {
        self.env.retain(|(known, _)| known != name);
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The home of whoever runs the daemons.
    pub(crate) fn person(&self) -> &Path {
        self.person.path()
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.path().join("state")
    }

    pub(crate) fn codex_home(&self) -> PathBuf {
        self.path().join("home")
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.path().join("codex-bridge.toml")
    }

    /// The built binary with this world's places.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_on(&self.state_dir(), args)
    }

    /// The built binary with this state directory; what follows a `--` stays at the end.
    pub(crate) fn command_on(&self, state_dir: &Path, args: &[&str]) -> Command {
        self.command_at(state_dir, &self.config_file(), &self.codex_home(), args)
    }

    /// The built binary with these places.
    pub(crate) fn command_at(
        &self,
        state_dir: &Path,
        config: &Path,
        codex_home: &Path,
        args: &[&str],
    ) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codex-bridge"));
        command
            .arg("--state-dir")
            .arg(state_dir)
            .arg("--config")
            .arg(config)
            .args(args)
            .env("CODEX_HOME", codex_home)
            .env("CODEX_BRIDGE_CODEX_BIN", codex_for_tests().unwrap())
            .env_remove("OPENAI_API_KEY")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// A token called `owner` that may do everything, also over A2A. A daemon must be running when it is first asked for.
    pub(crate) async fn owner_token(&self) -> String {
        let make = || self.token("my-laptop", "read,send,control,approve,admin,a2a");
        self.owner_token.get_or_init(make).await.clone()
    }

    /// A new token with these scopes.
    pub(crate) async fn token(&self, name: &str, scopes: &str) -> String {
        let made = self.run(&["token", "add", name, "--scope", scopes]).await;
        assert_eq!(made.code, Some(0), "{made:?}");
        made.stdout.trim().to_owned()
    }

    /// Starts a daemon and waits until it serves.
    pub(crate) async fn daemon(&self) -> Daemon {
        self.daemon_with(&[]).await
    }

    pub(crate) async fn daemon_with(&self, args: &[&str]) -> Daemon {
        let mut all = vec!["run"];
        all.extend(args);
        Daemon::of(self.command(&all)).await
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, args: &[&str]) -> Ended {
        self.start(args).await.ended().await
    }

    /// Runs a command with this standard input.
    pub(crate) async fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ended {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        let mut running = Running::of(command);
        let mut stdin = running.child.stdin.take().unwrap();
        // A command that needs no more of it closes the pipe.
        let _closed = stdin.write_all(input).await;
        drop(stdin);
        running.ended().await
    }

    pub(crate) async fn start(&self, args: &[&str]) -> Running {
        Running::of(self.command(args))
    }

    /// Waits until a message is finished; gives what `show --json` says then.
    pub(crate) async fn finished(&self, id: &str) -> Value {
        end_of_message(&self.state_dir(), id).await;
        self.json(&["show", "--json", id]).await
    }

    /// Sends a message and expects an answer.
    pub(crate) async fn ask(&self, conversation: &str, text: &str) -> String {
        let ended = self
            .run(&["send", "--conversation", conversation, text])
            .await;
        assert_eq!(ended.code, Some(0), "{text}: {ended:?}");
        ended.stdout.trim_end().to_owned()
    }

    /// A command's output as JSON.
    pub(crate) async fn json(&self, args: &[&str]) -> Value {
        let ended = self.run(args).await;
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
    }

    /// The texts the model was shown with the request whose last message is `last`.
    pub(crate) fn shown_with(&self, last: &str) -> Vec<String> {
        let requests = self.model.requests();
        let seen = requests
            .iter()
            .rev()
            .find(|seen| seen.last().contains(last));
        seen.unwrap_or_else(|| panic!("the model was never asked {last:?}"))
            .users
            .clone()
    }

    /// How often the model was asked something whose last message holds `text`.
    pub(crate) fn times_asked(&self, text: &str) -> usize {
        self.model
            .requests()
            .iter()
            .filter(|seen| seen.last().contains(text))
            .count()
    }

    /// Command lines of living processes that belong to this world: daemon, keeper, Codex.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        processes_with(&self.path().display().to_string())
    }

    /// The pid of the one Codex process of this world: the only child of the only keeper.
    pub(crate) fn codex_pid(&self) -> i32 {
        let keepers: Vec<_> = self
            .processes()
            .into_iter()
            .filter(|(_, line)| line.contains(" keeper "))
            .flat_map(|(pid, _)| bridge_host::process::children(pid))
            .collect();
        assert_eq!(
            keepers.len(),
            1,
            "one codex process: {:#?}",
            self.processes()
        );
        keepers[0]
    }
}

/// Waits until a message is finished, by the stream of news of the daemon with this state directory.
pub(crate) async fn end_of_message(state_dir: &Path, id: &str) {
    let mut stream = UnixStream::connect(state_dir.join("api.sock"))
        .await
        .unwrap();
    let ask = format!(
        "GET /v1/messages/{id}/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut news = Vec::new();
    within("the end of a message", stream.read_to_end(&mut news))
        .await
        .unwrap();
    let news = String::from_utf8_lossy(&news);
    assert!(news.contains("event: end"), "{news}");
}

/// Waits for the end of a process that is not our child.
pub(crate) async fn gone(pid: i32) {
    let mut look = tokio::time::interval(Duration::from_millis(5));
    let ended = async {
        while bridge_host::process::stamp(pid).is_some() {
            look.tick().await;
        }
    };
    within("the end of a process", ended).await;
}

/// A directory that no sandbox may write in: all of them may write in `/tmp` and `$TMPDIR`, wherever the checkout is.
pub(crate) fn outside_every_sandbox() -> TempDir {
    tempfile::Builder::new()
        .prefix("cb-outside-")
        .tempdir_in("/var/tmp")
        .unwrap()
}

/// Living processes whose command line holds `text`.
pub(crate) fn processes_with(text: &str) -> Vec<(i32, String)> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(text).then_some((pid, line))
        })
        .collect()
}

/// Kills without a warning.
pub(crate) fn kill_9(pid: i32) {
    signal(pid, nix::sys::signal::Signal::SIGKILL);
}

pub(crate) fn signal(pid: i32, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
}

/// Stops a process, and waits until each of its threads has: the signal stops one, which then stops the others.
pub(crate) async fn freeze(pid: i32) {
    signal(pid, nix::sys::signal::Signal::SIGSTOP);
    let mut look = tokio::time::interval(Duration::from_millis(5));
    let stopped = async {
        while !is_frozen(pid) {
            look.tick().await;
        }
    };
    within("a process that stops", stopped).await;
}

fn is_frozen(pid: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut states = threads.map(|thread| {
        // A thread may have ended since.
        let stat = std::fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
        let (_, behind_the_name) = stat.rsplit_once(") ")?;
        behind_the_name.chars().next()
    });
    states.all(|state| matches!(state, Some('T') | None))
}

/// Waits for something that must come.
pub(crate) async fn within<F: Future>(what: &str, future: F) -> F::Output {
    before(PATIENCE, what, future).await
}

/// Waits for something that comes after several lives of Codex, which are 15 s apart when they were short.
pub(crate) async fn in_the_end<F: Future>(what: &str, future: F) -> F::Output {
    before(3 * PATIENCE, what, future).await
}

async fn before<F: Future>(patience: Duration, what: &str, future: F) -> F::Output {
    match tokio::time::timeout(patience, future).await {
        Ok(output) => output,
        Err(_) => panic!("waited too long for {what}"),
    }
}

impl Drop for World {
    /// A test that failed must not leave its Codex behind; one that passed has none.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let asked = self.model.requests_from(0);
            let asked: Vec<_> = asked.iter().map(|seen| (seen.at_ms, seen.last())).collect();
            eprintln!("the model was asked: {asked:#?}");
            eprintln!("processes: {:#?}", self.processes());
        }
        for (pid, _) in self.processes() {
            let _gone = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(pid),
                nix::sys::signal::Signal::SIGKILL,
            );
        }
    }
}

impl Drop for Daemon {
    /// Whoever looks why a test failed starts with the log.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the daemon's log:\n{}", self.log.text());
        }
    }
}

impl Daemon {
    /// Starts this command, which must be a daemon, and waits until it serves.
    pub(crate) async fn of(command: Command) -> Self {
        Self::ready(Running::of(command)).await
    }

    /// Waits until a daemon that was started serves.
    pub(crate) async fn ready(started: Running) -> Self {
        let Running { child, mut stderr } = started;
        // As text, and as JSON.
        let serves = |text: &String| text.contains(" ready ") || text.contains("\"daemon.ready\"");
        let ready = within("a daemon that serves", stderr.0.wait_for(serves))
            .await
            .is_ok();
        assert!(ready, "it ended without serving:\n{}", stderr.text());
        Self { child, log: stderr }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id().unwrap()).unwrap()
    }

    /// kill -9, and waits until it is gone.
    pub(crate) async fn kill_9(mut self) {
        kill_9(self.pid());
        within("the daemon's death", self.child.wait())
            .await
            .unwrap();
    }

    /// SIGTERM, and waits for its end; gives its exit code.
    pub(crate) async fn stop(self) -> Option<i32> {
        self.terminate();
        self.ended().await
    }

    /// SIGTERM.
    pub(crate) fn terminate(&self) {
        signal(self.pid(), nix::sys::signal::Signal::SIGTERM);
    }

    /// Waits for its end; gives its exit code.
    pub(crate) async fn ended(mut self) -> Option<i32> {
        within("the daemon's end", self.child.wait())
            .await
            .unwrap()
            .code()
    }
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id().unwrap()).unwrap()
    }

    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stderr = Lines::of(child.stderr.take().unwrap());
        Self { child, stderr }
    }

    /// Waits until the command has said that its message is on disk; gives the message's id.
    pub(crate) async fn on_disk(&mut self) -> String {
        let said = self.stderr.wait_for("is on disk").await;
        let line = said
            .lines()
            .find(|line| line.contains("is on disk"))
            .unwrap();
        line.split_whitespace().nth(2).unwrap().to_owned()
    }

    pub(crate) async fn ended(self) -> Ended {
        let Self { child, mut stderr } = self;
        let output = within("a command", child.wait_with_output()).await.unwrap();
        stderr.closed().await;
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: stderr.text(),
        }
    }
}

impl Ended {
    /// Checks how it ended and that it said all of this on stderr.
    #[track_caller]
    pub(crate) fn must(&self, code: i32, words: &[&str]) -> &Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in {self:?}");
        }
        self
    }

    /// The id of the message that `send` said it keeps.
    pub(crate) fn kept(&self) -> String {
        let line = self
            .stderr
            .lines()
            .find(|line| line.contains(" is kept; "))
            .unwrap_or_else(|| panic!("no message is kept: {self:?}"));
        line.split_whitespace().nth(1).unwrap().to_owned()
    }
}

impl Lines {
    /// What somebody else collects.
    pub(crate) fn heard(heard: watch::Receiver<String>) -> Self {
        Self(heard)
    }

    pub(crate) fn of(stderr: ChildStderr) -> Self {
        let (said, heard) = watch::channel(String::new());
        tokio::spawn(async move {
            let mut lines = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                said.send_modify(|text| {
                    text.push_str(&line);
                    text.push('\n');
                });
            }
        });
        Self(heard)
    }

    /// What was said so far.
    pub(crate) fn text(&self) -> String {
        self.0.borrow().clone()
    }

    /// Waits until `words` were said; gives all that was said.
    pub(crate) async fn wait_for(&mut self, words: &str) -> String {
        let heard = within(words, self.0.wait_for(|text| text.contains(words))).await;
        let heard = heard.map(|text| text.clone());
        heard.unwrap_or_else(|_| panic!("it ended without saying {words:?}:\n{}", self.text()))
    }

    /// Waits until `words` were said this often.
    pub(crate) async fn wait_times(&mut self, words: &str, times: usize) {
        let often = |text: &String| text.matches(words).count() >= times;
        let what = format!("{words:?} for {times} times");
        let heard = tokio::time::timeout(PATIENCE, self.0.wait_for(often)).await;
        let heard = heard.map(|heard| heard.is_ok());
        assert_eq!(heard, Ok(true), "it did not say {what}:\n{}", self.text());
    }

    pub(crate) async fn closed(&mut self) {
        within("the end of its output", async {
            while self.0.changed().await.is_ok() {}
        })
        .await;
    }
}

/// The end of an id, as people are shown it.
pub(crate) fn short(id: &str) -> &str {
    &id[id.len() - 8..]
}
