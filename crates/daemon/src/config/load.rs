//! Puts the configuration together: defaults, then the file, then the environment; and says of every key
//! where its value comes from. Flags of a command go on top, and are the command's business.

use super::environment::{self, Environment};
use super::error::{ConfigError, ConfigProblem, ProblemPlace};
use super::fleet::LedgerUrl;
use super::keys::Config;
use super::molecule::{self, Variables, Workspace};
use super::parse::Spots;
use super::protected_paths::ProtectedPaths;
use super::{file, parse, validate};
use bridge_channel::molecule::AgentTier;
use bridge_core::value::ReadAccess;
use std::path::{Path, PathBuf};

/// Where Codex keeps its things when nobody says otherwise.
const CODEX_HOME_DEFAULT: &str = ".codex";

/// A configuration that can be worked with.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What is in force.
    pub config: Config,
    /// The file it was read from, if there was one.
    pub file: Option<PathBuf>,
    /// What the operator should know at every start.
    pub warnings: Vec<String>,
    /// The Molecule workspaces that are served.
    pub molecule: Vec<Workspace>,
    pub(super) origins: ValueOrigins,
    pub(super) protected_paths: ProtectedPaths,
}

/// Where the values come from that are not defaults.
#[derive(Clone, Debug, Default)]
pub(super) struct ValueOrigins {
    spots: Spots,
}

/// Loads the configuration. A `path` that was named must exist; without one the usual place is looked at,
/// and no file there means defaults. `state_dir` is what the command line named.
pub fn load(
    path: Option<&Path>,
    environment: &Environment,
    state_dir: Option<&Path>,
) -> Result<Loaded, ConfigError> {
    let found = file::find(path, environment)?;
    let (file, text) = match found {
        Some(found) => (Some(found.path), found.text),
        None => (None, String::new()),
    };
    load_text(file, &text, environment, state_dir)
}

/// As [`load`], for the text of a file that need not exist yet.
pub fn load_text(
    file: Option<PathBuf>,
    text: &str,
    environment: &Environment,
    state_dir: Option<&Path>,
) -> Result<Loaded, ConfigError> {
    let (mut config, spots) = parse::read(text).map_err(|problems| ConfigError::Invalid {
        file: file.clone(),
        problems,
    })?;
    let mut origins = ValueOrigins::of(spots);
    overlay(&mut config, &mut origins, environment);
    let protected_paths = protected_paths(&config, environment, state_dir);
    let mut problems = validate::problems(&config, &origins, &protected_paths);
    let resolved = molecule::resolve(&config.molecule, &origins, Variables::read(environment));
    problems.extend(resolved.problems);
    if !problems.is_empty() {
        problems.sort_by_key(|problem| problem.place);
        return Err(ConfigError::Invalid { file, problems });
    }
    let mut warnings = validate::warnings(&config);
    warnings.extend(resolved.warnings);
    let loaded = Loaded {
        config,
        file,
        warnings,
        molecule: resolved.workspaces,
        origins,
        protected_paths,
    };
    let problems = validate::reads_also_problems(
        &loaded.config,
        &loaded.origins,
        &loaded.protected_paths,
        &loaded.hidden(),
    );
    if problems.is_empty() {
        Ok(loaded)
    } else {
        Err(ConfigError::Invalid {
            file: loaded.file,
            problems,
        })
    }
}

impl Loaded {
    /// The defaults and the environment, for callers that go on although the file can't be used.
    pub fn without_file(environment: &Environment, state_dir: Option<&Path>) -> Self {
        let mut config = Config::default();
        let mut origins = ValueOrigins::default();
        overlay(&mut config, &mut origins, environment);
        let protected_paths = protected_paths(&config, environment, state_dir);
        Self {
            config,
            file: None,
            warnings: Vec::new(),
            molecule: Vec::new(),
            origins,
            protected_paths,
        }
    }

    /// Where the API is served over TCP, as a flag says; [`Loaded::override_with`] judges it.
    pub fn listen_on(&mut self, listen: Option<String>) {
        if let Some(listen) = listen {
            self.config.http.listen = Some(listen);
            let flag = "--listen";
            self.origins.set("http.listen", ProblemPlace::Flag { flag });
        }
    }

    /// Puts the flags of a command on top of everything, and judges what they say like the rest.
    pub fn override_with(
        &mut self,
        codex_bin: Option<PathBuf>,
        workdir: Option<PathBuf>,
    ) -> Result<(), ConfigError> {
        if let Some(bin) = codex_bin {
            self.config.codex.bin = Some(bin);
            self.origins.set(
                "codex.bin",
                ProblemPlace::Flag {
                    flag: "--codex-bin",
                },
            );
        }
        if let Some(workdir) = workdir {
            // What does not become absolute is refused below.
            let workdir = std::path::absolute(&workdir).unwrap_or(workdir);
            self.config.tiers.owner.workdir = Some(workdir);
            let flag = "--workdir";
            self.origins
                .set("tiers.owner.workdir", ProblemPlace::Flag { flag });
        }
        let problems = validate::problems(&self.config, &self.origins, &self.protected_paths);
        if problems.is_empty() {
            return Ok(());
        }
        Err(ConfigError::Invalid {
            file: self.file.clone(),
            problems,
        })
    }

    /// The owner's conversations work in this directory if no key or flag names another. One that they must not have is
    /// said and left alone: the legacy program ran anywhere, and must start anywhere.
    pub fn work_in(&mut self, directory: &Path) {
        let tier = &self.config.tiers.owner;
        if tier.workdir.is_some() {
            return;
        }
        let exposed = tier.sandbox().can_write() || tier.reads == ReadAccess::Isolated;
        match self.protected_paths.refuse_workdir(directory, exposed) {
            None => self.config.tiers.owner.workdir = Some(directory.to_owned()),
            Some(why) => self.warnings.push(format!(
                "conversations do not work in the directory that this was started in, which {why}: each works in a directory of its own. Start it in a project's directory, or name one with --workdir"
            )),
        }
    }

    /// What turns of shielded senders may never read: logins, other conversations, this configuration, and the files
    /// with tokens.
    pub fn hidden(&self) -> Vec<PathBuf> {
        let files = self.molecule.iter().filter_map(Workspace::token_file);
        let secrets = self.config.notify.webhook_secret_file.as_deref();
        let secrets = secrets
            .into_iter()
            .chain(self.config.notify.ntfy.token_file.as_deref())
            .chain(self.config.notify.smtp.password_file.as_deref())
            .chain(self.config.telemetry.header_file.as_deref())
            .chain(self.config.daemon.key_file.as_deref());
        let agents = self.config.a2a.token_files();
        let hidden = self.file.as_deref().into_iter().chain(files).chain(secrets);
        let hidden = hidden.chain(agents);
        self.protected_paths.hidden(hidden.map(Path::to_path_buf))
    }

    /// Whether isolated turns may come in: of peers, or of token holders and of agents that count as such.
    pub fn serves_isolated(&self) -> bool {
        let tiers = &self.config.tiers;
        let agents = |one: &Workspace| {
            one.settings
                .origins
                .agents
                .values()
                .any(|tier| *tier == AgentTier::Tool)
        };
        let tokens = self.config.may_serve_tcp() || self.molecule.iter().any(agents);
        (tiers.peer.reads == ReadAccess::Isolated && self.serves_peers())
            || (tiers.tool.reads == ReadAccess::Isolated && tokens)
    }

    /// Whether a channel is on whose senders may be peers.
    fn serves_peers(&self) -> bool {
        let agents = self.config.a2a.enabled && self.config.may_serve_tcp();
        !self.molecule.is_empty() || agents
    }

    /// What a directory that turns work in must not hold.
    pub fn protected_paths(&self) -> &ProtectedPaths {
        &self.protected_paths
    }

    /// Where CODEX_HOME is in the end; nowhere without a home directory.
    pub fn codex_home(&self) -> Option<&Path> {
        self.protected_paths.codex_home.as_deref()
    }
}

impl ValueOrigins {
    pub(super) fn of(spots: Spots) -> Self {
        Self { spots }
    }

    /// Where the value of a key comes from; `None` is its default.
    pub(super) fn of_key(&self, key: &str) -> Option<ProblemPlace> {
        self.spots.get(key).copied()
    }

    /// The first place at which anything below a table is set.
    pub(super) fn first_of(&self, table: &str) -> Option<ProblemPlace> {
        let below = self.spots.iter().filter(|(key, _)| key.starts_with(table));
        below.map(|(_, place)| *place).min()
    }

    /// A problem with a key, at its place. A default is never a problem: nobody could mend it.
    pub(super) fn problem(&self, key: &str, what: String) -> Option<ConfigProblem> {
        let place = self.of_key(key)?;
        let what = match place {
            ProblemPlace::Spot { .. } => format!("`{key}` {what}"),
            ProblemPlace::Variable { .. } | ProblemPlace::Flag { .. } => what,
        };
        Some(ConfigProblem { place, what })
    }

    fn set(&mut self, key: &str, place: ProblemPlace) {
        self.spots.insert(key.to_owned(), place);
    }
}

/// Our own variables go before the file. CODEX_HOME is not ours: it may have been set for the user's
/// terminal, so what the file says about the daemon's Codex goes before it.
fn overlay(config: &mut Config, origins: &mut ValueOrigins, environment: &Environment) {
    let variable = |variable| ProblemPlace::Variable { variable };
    if let Some(bin) = environment.codex_bin() {
        config.codex.bin = Some(bin.to_owned());
        origins.set("codex.bin", variable(environment::CODEX_BIN));
    }
    if let Some(url) = environment.ledger_url() {
        config.ledger.url = Some(LedgerUrl::new(url));
        origins.set("ledger.url", variable(environment::LEDGER_URL));
    }
    if let Some(listen) = environment.listen() {
        config.http.listen = Some(listen);
        origins.set("http.listen", variable(environment::LISTEN));
    }
    if let Some(level) = environment.log_filter() {
        level.clone_into(&mut config.log.level);
        origins.set("log.level", variable(environment::LOG));
    }
    if config.codex.home.is_none()
        && let Some(home) = environment.codex_home()
    {
        config.codex.home = Some(home.to_owned());
        origins.set("codex.home", variable(environment::CODEX_HOME));
    }
}

fn protected_paths(
    config: &Config,
    environment: &Environment,
    state_dir: Option<&Path>,
) -> ProtectedPaths {
    let home = environment.home().map(Path::to_owned);
    let default = home.as_ref().map(|home| home.join(CODEX_HOME_DEFAULT));
    ProtectedPaths {
        state_dir: environment.state_dir(state_dir).ok(),
        codex_home: config.codex.home.clone().or(default),
        home,
        codex_homes: config.codex.homes.clone(),
    }
}
