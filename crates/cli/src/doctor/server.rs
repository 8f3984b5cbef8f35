//! Asks Codex itself, by starting its app-server for a moment: does its configuration load, and is there a
//! login where one is needed. Nothing is sent to a model, and no login is made.

use super::report::{Check, Topic};
use bridge_core::port::{Agent, AgentError, Reads, ThreadSpec, TurnTransport};
use bridge_core::value::{ApprovalPolicy, Class, Sandbox, Transport};
use bridge_daemon::config::{Environment, Loaded};
use bridge_host::binary::Binary;
use bridge_host::binary::settings::{SettingsResult, probe_settings};
use bridge_host::version::PINNED;
use bridge_host::{CodexAgent, HostOptions, LaunchOptions, TransportChoice};
use bridge_store::key::Guard;
use bridge_store::{LedgerKey, Options, SqliteLedger};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Id and title of the check of Codex's configuration.
pub(super) const CONFIG: Topic = Topic("codex_config", "codex configuration");
/// Id and title of the check of the settings that the bridge adds.
pub(super) const SETTINGS: Topic = Topic("codex_settings", "settings of the bridge for codex");
/// Id and title of the check of the login.
pub(super) const LOGIN: Topic = Topic("login", "codex login");

/// An app-server is up in a tenth of a second and opens a thread in another; what needs longer hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// How often Codex is started, if it falls over.
const TRIES: u32 = 3;
/// Between two starts. Codex makes its databases in less.
const PAUSE: Duration = Duration::from_secs(1);

/// Codex says this whenever it uses its own bubblewrap. Whether that works is what the sandbox check finds.
const BUBBLEWRAP: &str = "could not find bubblewrap on PATH";

/// The answers of an app-server.
#[derive(Debug)]
struct Answers {
    /// Whether a thread could be opened, which needs the whole configuration.
    thread: Result<(), AgentError>,
    /// Whether turns could run; asked only where a thread can be opened, because without its configuration
    /// Codex does not know which provider it has.
    ready: Option<Result<(), AgentError>>,
    warnings: Vec<String>,
}

/// What the answers are judged by.
#[derive(Debug)]
struct Circumstances {
    home: PathBuf,
    has_auth_file: bool,
    has_api_key: bool,
}

/// Checks configuration, settings and login. `scratch` is a private directory.
pub(super) async fn check(
    loaded: &Loaded,
    environment: &Environment,
    binary: &Binary,
    env: Vec<(OsString, OsString)>,
    scratch: &Path,
) -> [Check; 3] {
    let home = loaded.codex_home().unwrap_or(Path::new("CODEX_HOME"));
    let circumstances = Circumstances {
        home: home.to_owned(),
        has_auth_file: home.join("auth.json").exists(),
        has_api_key: environment.openai_api_key().is_some(),
    };
    let launch = match launch(loaded, binary, env, scratch) {
        Ok(launch) => launch,
        Err(error) => {
            let detail = format!("can't find our own program: {error}");
            let fix = "start codex-bridge by its full path";
            return [CONFIG.fail(detail, fix), unasked(), unknown_login()];
        }
    };
    let options = HostOptions {
        launch,
        transport: TransportChoice::Only(Transport::Stdio),
        new_threads: loaded.config.new_threads(),
        api_key: None,
        restarts_per_minute: loaded.config.codex.restarts_per_minute,
        memory_budget: None,
        threads_aside: scratch.join("threads-aside"),
        checks: None,
    };
    let ledger = match scratch_ledger(scratch) {
        Ok(ledger) => ledger,
        Err(error) => {
            let detail = format!("can't record the Codex of this check: {error:#}");
            let fix = "check free space and permissions of the state directory";
            return [CONFIG.fail(detail, fix), unasked(), unknown_login()];
        }
    };
    let settings = check_settings(options.launch.clone(), scratch).await;
    let agent = CodexAgent::new(options, ledger);
    let asked = tokio::time::timeout(DEADLINE, ask_patiently(&agent, scratch)).await;
    agent.stop().await;
    match asked {
        Ok(answers) => [
            judge_config(&answers, &circumstances),
            settings,
            judge_login(&answers, &circumstances),
        ],
        Err(_elapsed) => {
            let detail = format!("no answer within {} s", DEADLINE.as_secs());
            let fix = "try `codex app-server` by hand";
            [CONFIG.fail(detail, fix), settings, unknown_login()]
        }
    }
}

/// How this Codex is started.
pub(crate) fn launch(
    loaded: &Loaded,
    binary: &Binary,
    env: Vec<(OsString, OsString)>,
    scratch: &Path,
) -> io::Result<LaunchOptions> {
    Ok(LaunchOptions {
        keeper: std::env::current_exe()?,
        codex: binary.path.clone(),
        native: Ok(binary.path.clone()),
        codex_version: binary.version.to_string(),
        run_dir: scratch.join("run"),
        env,
        hidden_from_commands: loaded.config.hidden_from_commands(),
        linger: Duration::ZERO,
        lease: None,
    })
}

/// Asks Codex in its strict mode whether it knows what the bridge sets.
async fn check_settings(launch: LaunchOptions, scratch: &Path) -> Check {
    let scratch = scratch.join("settings");
    let probe = move || probe_settings(&launch, &scratch);
    let found = tokio::task::spawn_blocking(probe).await;
    match found.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Ok(SettingsResult::Known) => SETTINGS.ok("it knows all of them"),
        Ok(SettingsResult::Unknown(words)) => SETTINGS.fail(
            format!("this Codex ignores one of them, which may change how it works: {words}"),
            format!("use one that knows it: `npm install -g @openai/codex@{PINNED}`"),
        ),
        Ok(SettingsResult::Unclear(words)) => SETTINGS.warn(
            format!("it could not be asked: {words}"),
            "try `codex app-server --strict-config` by hand",
        ),
        Err(error) => {
            let detail = format!("it could not be asked: {error}");
            SETTINGS.warn(detail, "mend what failed above first")
        }
    }
}

fn unasked() -> Check {
    let why = "not looked at: it needs a codex that starts";
    SETTINGS.warn(why, "mend what failed above first")
}

/// A ledger for the Codex process of this check, removed with the scratch directory.
fn scratch_ledger(scratch: &Path) -> anyhow::Result<SqliteLedger> {
    let key = LedgerKey::load_or_create(&scratch.join("key"), Guard::Mode)?;
    let path = scratch.join("ledger.db");
    Ok(SqliteLedger::open(path, &key, Options::default())?)
}

/// Asks again where Codex fell over: two that start at once in a new CODEX_HOME make its databases at once, and one of
/// them gives up. A daemon that is started for the first time may be the other one.
async fn ask_patiently(agent: &CodexAgent<SqliteLedger>, workdir: &Path) -> Answers {
    for _ in 1..TRIES {
        let answers = ask(agent, workdir).await;
        match &answers.thread {
            Err(fault) if fault.failure.class != Class::Config => {}
            Ok(()) | Err(_) => return answers,
        }
        tokio::time::sleep(PAUSE).await;
    }
    ask(agent, workdir).await
}

/// A thread that may only read, so that Codex does not note the directory as trusted.
async fn ask(agent: &CodexAgent<SqliteLedger>, workdir: &Path) -> Answers {
    let spec = ThreadSpec {
        workdir: workdir.display().to_string(),
        sandbox: Sandbox::ReadOnly,
        approval_policy: ApprovalPolicy::OnRequest,
        model: None,
        instructions: String::new(),
        reads: Reads::Disk,
        transport: TurnTransport::AppServer,
        codex_home: None,
        agents: Vec::new(),
    };
    let thread = agent.open_thread(&spec).await.map(drop);
    let ready = match &thread {
        Ok(()) => Some(agent.ready(None).await.map(drop)),
        Err(_) => None,
    };
    Answers {
        thread,
        ready,
        warnings: agent.config_warnings().await,
    }
}

fn judge_config(answers: &Answers, circumstances: &Circumstances) -> Check {
    let home = circumstances.home.display();
    if let Err(fault) = &answers.thread {
        let reason = &fault.failure.reason;
        return match fault.failure.class {
            Class::Config => {
                CONFIG.fail(without_remedy(reason), format!("mend {home}/config.toml"))
            }
            Class::Transient
            | Class::Capacity { .. }
            | Class::Permanent
            | Class::Ambiguous
            | Class::Bug => CONFIG.fail(
                format!("a short-lived `codex app-server` did not work: {reason}"),
                "try `codex app-server` by hand, with the same CODEX_HOME",
            ),
        };
    }
    let notes: Vec<&str> = answers
        .warnings
        .iter()
        .filter(|warning| !warning.contains(BUBBLEWRAP))
        .map(String::as_str)
        .collect();
    match notes.as_slice() {
        [] => CONFIG.ok("it loads, and a thread can be opened"),
        notes => {
            let fix = format!("mend {home}/config.toml");
            CONFIG.warn(notes.join("\n"), fix)
        }
    }
}

/// The host ends its sentence with the advice to ask the doctor, who is speaking here.
fn without_remedy(reason: &str) -> &str {
    reason
        .split_once(". Mend config.toml")
        .map_or(reason, |(what, _)| what)
}

fn judge_login(answers: &Answers, circumstances: &Circumstances) -> Check {
    let home = circumstances.home.display();
    match &answers.ready {
        None => unknown_login(),
        Some(Ok(())) if circumstances.has_auth_file => LOGIN.ok("logged in"),
        Some(Ok(())) => LOGIN.ok("the model's provider needs none, or it is in the system's keyring",
        ),
        Some(Err(fault)) if fault.failure.class != Class::Config => LOGIN.fail(fault.failure.reason.as_str(),
            "try `codex login status`",
        ),
        Some(Err(_)) if circumstances.has_api_key => LOGIN.ok("none yet; the daemon logs Codex in with OPENAI_API_KEY",
        ),
        Some(Err(_)) => LOGIN.fail(format!("Codex is not logged in (CODEX_HOME is {home})"),
            format!(
                "run `CODEX_HOME={home} codex login` as this user, or start the daemon with OPENAI_API_KEY"
            ),
        ),
    }
}

fn unknown_login() -> Check {
    let why = "not looked at: Codex must load its configuration first";
    LOGIN.warn(why, "mend what failed above first")
}

#[cfg(test)]
mod tests {
    use super::super::report::CheckStatus;
    use super::*;
    use bridge_core::value::Failure;

    fn fault(class: Class, reason: &str) -> AgentError {
        AgentError::new(Failure::new(class, reason))
    }

    fn circumstances(has_api_key: bool) -> Circumstances {
        Circumstances {
            home: "/h".into(),
            has_auth_file: false,
            has_api_key,
        }
    }

    fn fine() -> Answers {
        Answers {
            thread: Ok(()),
            ready: Some(Ok(())),
            warnings: vec![format!("Codex {BUBBLEWRAP}. Install it")],
        }
    }

    #[test]
    fn missing_login_fails_without_api_key() {
        let answers = Answers {
            ready: Some(Err(fault(Class::Config, "not logged in"))),
            ..fine()
        };
        let missing = judge_login(&answers, &circumstances(false));
        assert_eq!(missing.status(), CheckStatus::Fail);
        let words = missing.words();
        assert!(words.contains("CODEX_HOME=/h codex login") && words.contains("OPENAI_API_KEY"));
        assert_eq!(
            judge_login(&answers, &circumstances(true)).status(),
            CheckStatus::Ok
        );
        assert_eq!(
            judge_login(&fine(), &circumstances(false)).status(),
            CheckStatus::Ok
        );
    }

    #[test]
    fn unloadable_config_leaves_login_unknown() {
        let answers = Answers {
            thread: Err(fault(
                Class::Config,
                "Codex can't read x:1:11. Mend config.toml in CODEX_HOME; `codex-bridge doctor` checks it",
            )),
            ready: None,
            warnings: Vec::new(),
        };
        let config = judge_config(&answers, &circumstances(false));
        assert_eq!(config.status(), CheckStatus::Fail);
        assert_eq!(
            config.words(),
            "Codex can't read x:1:11 -> mend /h/config.toml"
        );
        let login = judge_login(&answers, &circumstances(false));
        assert_eq!(login.status(), CheckStatus::Warn);
    }

    #[test]
    fn codex_warnings_pass_except_bubblewrap() {
        assert_eq!(
            judge_config(&fine(), &circumstances(false)).status(),
            CheckStatus::Ok
        );
        let mut answers = fine();
        answers.warnings.push("`mdoel` is ignored".to_owned());
        let config = judge_config(&answers, &circumstances(false));
        assert_eq!(config.status(), CheckStatus::Warn);
        assert!(config.words().starts_with("`mdoel`"), "{}", config.words());
    }
}
