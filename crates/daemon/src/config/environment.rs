//! The environment, read once: the only place in the program that looks at it.
//!
//! What Codex may see of it is the host's allow-list; which value wins over the file is [`super::load`].
//! Secrets among the variables never reach a debug print: only names do.

use super::keys::Config;
use bridge_host::ApiKey;
use bridge_host::process::reexec;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Places the state.
pub(crate) const STATE_DIR: &str = "CODEX_BRIDGE_STATE_DIR";
/// The socket of a group that the caller is in.
const GROUP_SOCKET: &str = "CODEX_BRIDGE_GROUP_SOCKET";
/// Placed the state of the legacy program; still honoured.
const OLD_STATE_DIR: &str = "CODEX_CHANNEL_MOLECULE_STATE_DIR";
/// Where the older tool's program keeps its state, and its usual place below the home directory.
const HERMES_HOME: &str = "HERMES_HOME";
const HERMES: &str = ".hermes";
/// The older tool's database.
const OLD_TASKS: &str = "codex_bridge.db";
/// Where the legacy program kept its state by default, below the home directory.
const OLD_STATE: &str = ".codex-channel-molecule";
/// Names the Codex executable.
pub(crate) const CODEX_BIN: &str = "CODEX_BRIDGE_CODEX_BIN";
/// Where the API is served over TCP.
pub(crate) const LISTEN: &str = "CODEX_BRIDGE_LISTEN";
/// Names the database, perhaps with its password.
pub(crate) const LEDGER_URL: &str = "CODEX_BRIDGE_LEDGER_URL";
/// Names the database that a ledger is copied to, perhaps with its password.
const LEDGER_COPY_URL: &str = "CODEX_BRIDGE_LEDGER_COPY_URL";
/// Names an empty database for `demo --fleet`, perhaps with its password.
const DEMO_LEDGER_URL: &str = "CODEX_BRIDGE_DEMO_LEDGER_URL";
/// Whether tokens may travel over plain http to another machine.
pub(crate) const ALLOW_HTTP: &str = "CODEX_BRIDGE_ALLOW_HTTP";
/// Says what is logged.
pub(crate) const LOG: &str = "CODEX_BRIDGE_LOG";
/// Names the place at which a debug build dies, for tests.
#[cfg(debug_assertions)]
const FAIL_POINT: &str = "CODEX_BRIDGE_FAIL_POINT";
#[cfg(debug_assertions)]
const NEXT_SCHEMA: &str = "CODEX_BRIDGE_NEXT_SCHEMA";
/// Codex's own: where it keeps its configuration, login and threads.
pub(crate) const CODEX_HOME: &str = "CODEX_HOME";
/// A key to log Codex in with where it has no login.
const API_KEY: &str = "OPENAI_API_KEY";
/// Begins the variables that hold the way to a platform.
const PLATFORM_PREFIX: &str = "MOLECULE_";
/// Our directory below the user's base directories.
const OURS: &str = "codex-bridge";

/// Variables that libraries, the service manager or people looking at the process need to find, and that hold no secret.
const PUBLIC_NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TMPDIR",
    "TZ",
    "PWD",
    "SHLVL",
    "_",
    "HOSTNAME",
    "CODEX_HOME",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "JOURNAL_STREAM",
    "RUNTIME_DIRECTORY",
    "INVOCATION_ID",
    "SYSTEMD_EXEC_PID",
];
/// Families of such variables.
const PUBLIC_PREFIXES: &[&str] = &[
    "CODEX_BRIDGE_",
    "LC_",
    "XDG_",
    "RUST_",
    "LD_",
    "MALLOC_",
    "TOKIO_",
    "SSL_CERT_",
    "LLVM_PROFILE_",
];
/// What a name does not hold that is public, whatever family it belongs to.
const SECRET_WORDS: &[&str] = &[
    "TOKEN",
    "KEY",
    "SECRET",
    "PASS",
    "CREDENTIAL",
    "AUTH",
    "LEDGER_URL",
    "LEDGER_COPY_URL",
];

/// Why a place can't be read from the environment.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    #[error(
        "there is no home directory to keep state in: set HOME, or name a directory with --state-dir or {STATE_DIR}"
    )]
    NoHome,
    #[error("find {}: {source}; name an absolute directory", path.display())]
    NotAbsolute {
        path: PathBuf,
        source: std::io::Error,
    },
}

/// The variables this process was started with.
#[derive(Clone)]
pub struct Environment {
    vars: Vec<(OsString, OsString)>,
    home: Option<PathBuf>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.vars.iter().map(|(name, _)| name);
        f.debug_set().entries(names).finish()
    }
}

/// The variables by which a service manager asks for notifications.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceManagerVars<'a> {
    /// `NOTIFY_SOCKET`: a path, or `@` and an abstract name.
    pub socket: Option<&'a OsStr>,
    /// `WATCHDOG_USEC`.
    pub watchdog_usec: Option<&'a OsStr>,
    /// `WATCHDOG_PID`: whom the watchdog is for.
    pub watchdog_pid: Option<&'a OsStr>,
}

impl Environment {
    /// Reads what this process was started with. Without `HOME` the user database names the home.
    pub fn read() -> Self {
        Self {
            vars: std::env::vars_os().collect(),
            home: std::env::home_dir(),
        }
    }

    /// For Codex's own terminal: what a person's shell has, without what is ours or a platform's.
    pub fn for_terminal(&self) -> Vec<(OsString, OsString)> {
        let is_ours = |name: &str| {
            ["CODEX_BRIDGE_", PLATFORM_PREFIX, "CODEX_CHANNEL_MOLECULE_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        };
        let vars = self.vars.iter();
        vars.filter(|(name, _)| !name.to_str().is_some_and(is_ours))
            .cloned()
            .collect()
    }

    /// Removes a variable.
    pub(super) fn take(&mut self, name: &str) -> Option<OsString> {
        let at = self.vars.iter().position(|(known, _)| known == name)?;
        Some(self.vars.swap_remove(at).1)
    }

    /// As if it was started with plain http allowed.
    #[must_use]
    pub fn allowing_http(mut self) -> Self {
        let _replaced = self.take(ALLOW_HTTP);
        self.vars.push((ALLOW_HTTP.into(), "1".into()));
        self
    }

    /// Adds variables that came another way.
    pub(super) fn add(&mut self, vars: Vec<(OsString, OsString)>) {
        self.vars.extend(vars);
    }

    /// Those whose names satisfy `is_first`, and the others.
    pub(super) fn split(
        &self,
        is_first: impl Fn(&OsStr) -> bool,
    ) -> [Vec<(OsString, OsString)>; 2] {
        let (first, others) = self
            .vars
            .iter()
            .cloned()
            .partition(|(name, _)| is_first(name));
        [first, others]
    }

    /// All of them, for a program that works for the user: npm.
    pub fn all(&self) -> &[(OsString, OsString)] {
        &self.vars
    }

    /// The given variables and nothing else.
    #[cfg(test)]
    pub fn of<const N: usize>(vars: [(&str, &str); N]) -> Self {
        Self::of_slice(&vars)
    }

    /// As [`Environment::of`].
    #[cfg(test)]
    pub fn of_slice(vars: &[(&str, &str)]) -> Self {
        let vars: Vec<_> = vars
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)))
            .collect();
        let mut environment = Self { vars, home: None };
        environment.home = environment.directory("HOME");
        environment
    }

    /// A variable that is set to something: an empty one counts as unset.
    fn get(&self, name: &str) -> Option<&OsStr> {
        self.vars
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_os_str())
            .filter(|value| !value.is_empty())
    }

    /// A variable as text.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let text = self.get(name)?.to_str()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// A variable that must name an absolute directory to count, as the XDG rules say.
    fn directory(&self, name: &str) -> Option<PathBuf> {
        self.get(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    }

    /// What Codex gets to see: the host's allow-list, what `codex.env_pass` names, and `codex.home`.
    pub fn for_codex(&self, config: &Config) -> Vec<(OsString, OsString)> {
        let vars = self.vars.iter().cloned();
        let mut allowed = bridge_host::process::env::allowed(vars, &config.codex.env_pass);
        if let Some(home) = &config.codex.home {
            allowed.retain(|(name, _)| name != CODEX_HOME);
            allowed.push((CODEX_HOME.into(), home.into()));
        }
        allowed
    }

    /// Where the API is served over TCP.
    pub fn listen(&self) -> Option<String> {
        self.text(LISTEN)
    }

    /// Where the database is.
    pub fn ledger_url(&self) -> Option<String> {
        self.text(LEDGER_URL)
    }

    /// Where a ledger is copied to.
    pub fn ledger_copy_url(&self) -> Option<String> {
        self.text(LEDGER_COPY_URL)
    }

    /// An empty database for the demo of a fleet.
    pub fn demo_ledger_url(&self) -> Option<String> {
        self.text(DEMO_LEDGER_URL)
    }

    /// The user's home.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref().filter(|home| home.is_absolute())
    }

    /// Where programs are looked for.
    pub fn path(&self) -> Option<&OsStr> {
        self.get("PATH")
    }

    /// What a program is found and asked for its version with.
    pub fn program_vars(&self) -> bridge_host::binary::Vars<'_> {
        bridge_host::binary::Vars {
            path: self.path(),
            home: self.home().map(Path::as_os_str),
        }
    }

    pub fn service_manager(&self) -> ServiceManagerVars<'_> {
        ServiceManagerVars {
            socket: self.get("NOTIFY_SOCKET"),
            watchdog_usec: self.get("WATCHDOG_USEC"),
            watchdog_pid: self.get("WATCHDOG_PID"),
        }
    }

    /// Where the service manager keeps the credentials of this service.
    pub fn credentials_dir(&self) -> Option<&Path> {
        self.get("CREDENTIALS_DIRECTORY").map(Path::new)
    }

    /// The runtime directory that the service manager made; the first one where it made several.
    pub fn runtime_dir(&self) -> Option<PathBuf> {
        let all = self.get("RUNTIME_DIRECTORY")?.to_str()?;
        let first = all.split(':').next().map(PathBuf::from);
        first.filter(|path| path.is_absolute())
    }

    /// Whether a browser can be opened here.
    pub fn has_display(&self) -> bool {
        let set = |name| self.get(name).is_some_and(|value| !value.is_empty());
        set("WAYLAND_DISPLAY") || set("DISPLAY")
    }

    /// The socket of a group that a person names.
    pub fn group_socket(&self) -> Option<PathBuf> {
        self.directory(GROUP_SOCKET)
    }

    /// What the service manager says that standard error is.
    pub fn journal_stream(&self) -> Option<&OsStr> {
        self.get("JOURNAL_STREAM")
    }

    /// The place at which this debug build is to die.
    #[cfg(debug_assertions)]
    pub fn fail_point(&self) -> Option<&str> {
        self.get(FAIL_POINT)?.to_str()
    }

    /// A migration that this debug build knows beyond its own: the path of its SQL.
    #[cfg(debug_assertions)]
    pub fn next_schema(&self) -> Option<&Path> {
        self.get(NEXT_SCHEMA).map(Path::new)
    }

    /// Whether the user wants no colours.
    pub fn no_color(&self) -> bool {
        self.get("NO_COLOR").is_some()
    }

    /// The key to log Codex in with where it has no login.
    pub fn openai_api_key(&self) -> Option<ApiKey> {
        self.get(API_KEY)?.to_str().map(ApiKey::new)
    }

    /// Values that no text may carry to people: keys, tokens, and whatever is passed to Codex on purpose.
    pub fn secrets(&self, config: &Config) -> Vec<String> {
        let secret = |name: &str| {
            let ours = name.starts_with(PLATFORM_PREFIX) && name.ends_with("TOKEN");
            let passed = config.codex.env_pass.iter().any(|passed| passed == name);
            name == API_KEY || ours || passed
        };
        self.vars
            .iter()
            .filter(|(name, _)| name.to_str().is_some_and(secret))
            .filter_map(|(_, value)| value.to_str())
            .chain(config.ledger.url.as_ref().and_then(|url| url.password()))
            .map(str::to_owned)
            .collect()
    }

    /// The Codex executable that the environment names.
    pub fn codex_bin(&self) -> Option<PathBuf> {
        self.get(CODEX_BIN).map(PathBuf::from)
    }

    /// The CODEX_HOME that the environment names.
    pub(super) fn codex_home(&self) -> Option<&Path> {
        self.get(CODEX_HOME).map(Path::new)
    }

    /// What the environment wants logged.
    pub fn log_filter(&self) -> Option<&str> {
        self.get(LOG).and_then(OsStr::to_str)
    }

    /// Where the state is: what was named, else what the environment names, else the XDG place.
    pub fn state_dir(&self, explicit: Option<&Path>) -> Result<PathBuf, EnvironmentError> {
        let named = explicit
            .map(Path::to_owned)
            .or_else(|| self.get(STATE_DIR).map(PathBuf::from))
            .or_else(|| self.get(OLD_STATE_DIR).map(PathBuf::from));
        match named {
            Some(path) => std::path::absolute(&path)
                .map_err(|source| EnvironmentError::NotAbsolute { path, source }),
            None => self
                .base("XDG_STATE_HOME", ".local/state")
                .map(|base| base.join(OURS))
                .ok_or(EnvironmentError::NoHome),
        }
    }

    /// Where the legacy program may have kept its sessions: our state directory may be its own, the one that its variable
    /// names, and the place it used without.
    pub fn old_state_dirs(&self, state_dir: &Path) -> Vec<PathBuf> {
        let mut places = vec![state_dir.to_owned()];
        let named = self.get(OLD_STATE_DIR).map(PathBuf::from);
        let usual = self.home().map(|home| home.join(OLD_STATE));
        for place in named.into_iter().chain(usual) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }

    /// Where the tasks of the older `codex_bridge` tool may be: the file that the configuration names, else where the
    /// tool kept it.
    pub fn old_task_files(&self, config: &Config) -> Vec<PathBuf> {
        if let Some(named) = &config.tasks.import {
            return vec![named.clone()];
        }
        let named = self.directory(HERMES_HOME);
        let usual = self.home().map(|home| home.join(HERMES));
        let mut files: Vec<_> = named
            .into_iter()
            .chain(usual)
            .map(|home| home.join(OLD_TASKS))
            .collect();
        files.dedup();
        files
    }

    /// Our directory for configuration.
    pub(super) fn config_dir(&self) -> Option<PathBuf> {
        Some(self.config_base()?.join(OURS))
    }

    /// The user's directory for configuration.
    pub fn config_base(&self) -> Option<PathBuf> {
        self.base("XDG_CONFIG_HOME", ".config")
    }

    /// The CODEX_HOME of this environment, for a service that starts without it.
    pub fn named_codex_home(&self) -> Option<PathBuf> {
        self.directory(CODEX_HOME)
    }

    /// The user's directory for what can be fetched again.
    pub fn cache_dir(&self) -> Option<PathBuf> {
        self.base("XDG_CACHE_HOME", ".cache")
    }

    /// Directories in which every command of Codex that may write at all may write.
    pub fn temporary_dirs(&self) -> Vec<PathBuf> {
        let slash_tmp = Some(PathBuf::from("/tmp"));
        [slash_tmp, self.directory("TMPDIR")]
            .into_iter()
            .flatten()
            .collect()
    }

    fn base(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        self.directory(variable)
            .or_else(|| self.home().map(|home| home.join(below_home)))
    }
}

/// Any process of the same user can read `/proc/PID/environ`, and it never changes after the start. So a process that runs
/// a daemon starts itself again, as the same process, with harmless variables alone; the others travel in a file without a
/// name, which is read once and closed before anything else is started.
impl Environment {
    /// As [`Environment::read`]. Where there are variables that others must not see, this starts the program again
    /// without them and returns only if that fails. To be called before there are threads, or anything else to lose.
    pub fn read_privately() -> io::Result<Self> {
        let mut environment = Self::read();
        let marker = environment.take(reexec::MARKER);
        if let Some(handed) = marker.and_then(|marker| reexec::receive(&marker)) {
            environment.add(handed?);
            return Ok(environment);
        }
        let [public, private] = environment.split(is_public);
        if private.is_empty() {
            Ok(environment)
        } else {
            Err(reexec::start(&public, &private))
        }
    }
}

fn is_public(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let known = PUBLIC_NAMES.contains(&name) || PUBLIC_PREFIXES.iter().any(|p| name.starts_with(p));
    known && !SECRET_WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(vars: &Environment, explicit: Option<&str>) -> String {
        let found = vars.state_dir(explicit.map(Path::new)).unwrap();
        found.display().to_string()
    }

    #[test]
    fn state_dir_follows_precedence_order() {
        let home = ("HOME", "/home/u");
        let xdg = ("XDG_STATE_HOME", "/xdg");
        let old = (OLD_STATE_DIR, "/old");
        let new = (STATE_DIR, "/new");
        let all = Environment::of([home, xdg, old, new]);
        assert_eq!(state(&all, Some("/flag")), "/flag");
        assert_eq!(state(&all, None), "/new");
        assert_eq!(state(&Environment::of([home, xdg, old]), None), "/old");
        assert_eq!(
            state(&Environment::of([home, xdg]), None),
            "/xdg/codex-bridge"
        );
        assert_eq!(
            state(&Environment::of([home]), None),
            "/home/u/.local/state/codex-bridge"
        );
        let error = Environment::of([]).state_dir(None).unwrap_err().to_string();
        assert!(error.contains(STATE_DIR), "{error}");
    }

    #[test]
    fn ignores_empty_and_relative_base_dirs() {
        let vars = Environment::of([
            ("HOME", "/home/u"),
            ("XDG_STATE_HOME", "relative"),
            (STATE_DIR, ""),
        ]);
        assert_eq!(state(&vars, None), "/home/u/.local/state/codex-bridge");
        assert!(Path::new(&state(&vars, Some("here"))).is_absolute());
        assert_eq!(vars.cache_dir().unwrap(), Path::new("/home/u/.cache"));
    }

    #[test]
    fn secrets_include_keys_tokens_and_passed_env() {
        let vars = Environment::of([
            (API_KEY, "sk-one"),
            ("MOLECULE_WORKSPACE_TOKEN", "token-two"),
            ("MOLECULE_WORKSPACE_TOKEN_FILE", "/a/file"),
            ("MY_KEY", "key-three"),
            ("PATH", "/bin"),
        ]);
        let config: Config = toml::from_str("codex.env_pass = ['MY_KEY']").unwrap();
        let found = vars.secrets(&config);
        assert_eq!(found, ["sk-one", "token-two", "key-three"]);
    }

    #[test]
    fn no_value_is_ever_printed() {
        let vars = Environment::of([(API_KEY, "sk-very-secret"), ("PATH", "/bin")]);
        let printed = format!("{vars:?} {:?}", vars.openai_api_key());
        assert!(
            printed.contains(API_KEY) && !printed.contains("sk-"),
            "{printed}"
        );
    }

    #[test]
    fn f2_only_harmless_variables_stay_visible() {
        for public in ["PATH", "LC_ALL", "NOTIFY_SOCKET", "CODEX_BRIDGE_FAIL_POINT"] {
            assert!(is_public(OsStr::new(public)), "{public}");
        }
        for private in [
            "OPENAI_API_KEY",
            "MOLECULE_WORKSPACE_TOKEN",
            "MOLECULE_WORKSPACES",
            "HTTPS_PROXY",
            "MY_PROVIDER",
            "CODEX_BRIDGE_MASTER_KEY",
            LEDGER_URL,
            LEDGER_COPY_URL,
            DEMO_LEDGER_URL,
        ] {
            assert!(!is_public(OsStr::new(private)), "{private}");
        }
    }
}
