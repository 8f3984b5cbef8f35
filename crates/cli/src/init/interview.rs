//! The questions of `init`. Enter takes the default; an answer that the configuration refuses is asked for again.

use crate::cli::Common;
use crate::client::{Keyboard, OutputStream, PLAIN, Screen, whole_path};
use crate::service;
use bridge_daemon::config::{
    CONSOLE_ADDRESS, ConfigDraft, ConfigError, Environment, Loaded, load_text,
};
use bridge_host::binary::{self, Binary};
use bridge_host::process::foreground;
use std::path::Path;
use tempfile::NamedTempFile;

/// Where Codex keeps its login.
const AUTH: &str = "auth.json";

/// The keys of a workspace.
const WORKSPACE: [&str; 3] = [
    "molecule.workspace.id",
    "molecule.workspace.platform_url",
    "molecule.workspace.token_file",
];

/// What is to be written.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) draft: ConfigDraft,
    /// The token of the workspace.
    pub(super) token: Option<String>,
    /// Whether this user's service is to be installed.
    pub(super) service: bool,
}

impl Answers {
    pub(super) fn defaults(draft: ConfigDraft) -> Self {
        Self {
            draft,
            token: None,
            service: false,
        }
    }
}

/// A conversation with a person at a terminal. Its questions give `None` when the person leaves.
#[derive(Debug)]
pub(super) struct Interview<'a> {
    answers: Answers,
    file: &'a Path,
    token_file: &'a Path,
    state_dir: Option<&'a Path>,
    environment: &'a Environment,
    keys: Keyboard,
    screen: Screen,
}

impl<'a> Interview<'a> {
    pub(super) fn new(
        draft: ConfigDraft,
        file: &'a Path,
        token_file: &'a Path,
        common: &'a Common,
        environment: &'a Environment,
    ) -> Self {
        Self {
            answers: Answers::defaults(draft),
            file,
            token_file,
            state_dir: common.state_dir.as_deref(),
            environment,
            keys: Keyboard::default(),
            screen: Screen::new(OutputStream::Stdout, environment.no_color()),
        }
    }

    pub(super) async fn run(mut self) -> Option<Answers> {
        self.say(&format!(
            "This writes {}. Enter takes the default; Ctrl-C leaves, and nothing is written.",
            self.file.display()
        ));
        let codex = self.codex().await?;
        self.login(codex.as_ref()).await?;
        self.work().await?;
        self.workspace().await?;
        self.programs().await?;
        if service::is_possible() {
            self.answers.service = self
                .yes("Install a service that runs codex-bridge for you?", false)
                .await?;
        }
        let writes = self.yes("Write it?", true).await?;
        writes.then_some(self.answers)
    }

    /// Which Codex; one on the PATH needs no key.
    async fn codex(&mut self) -> Option<Option<Binary>> {
        let named = self.load().ok().and_then(|loaded| loaded.config.codex.bin);
        let mut found = binary::find(named.as_deref(), self.environment.program_vars());
        loop {
            let prompt = match &found {
                Ok(codex) => {
                    let (version, path) = (&codex.version, codex.path.display());
                    self.say(&format!("Codex {version} is at {path}."));
                    "Path of another one"
                }
                Err(error) => {
                    self.say(&format!("{error}."));
                    "Its path, if it is installed; Enter goes on without"
                }
            };
            let answer = self.line(prompt, false).await?;
            if answer.is_empty() {
                return Some(found.ok());
            }
            let path = self.path(&answer)?;
            found = binary::find(Some(Path::new(&path)), self.environment.program_vars());
            if found.is_ok() {
                self.answers.draft.set("codex.bin", path);
            }
        }
    }

    async fn login(&mut self, codex: Option<&Binary>) -> Option<()> {
        let loaded = self.load().ok();
        let home = loaded.as_ref().and_then(|loaded| loaded.codex_home());
        let (Some(codex), Some(home)) = (codex, home) else {
            return Some(());
        };
        if home.join(AUTH).exists() || self.environment.openai_api_key().is_some() {
            self.say("Codex has a login.");
            return Some(());
        }
        self.say(&format!(
            "Codex has no login in {}; with a model_provider in its config.toml it needs none.",
            home.display()
        ));
        if self.yes("Run `codex login` now?", false).await? {
            let program = codex.path.display().to_string();
            let ended = foreground::run(&program, &["login".to_owned()]);
            if !ended.is_ok_and(|status| status.success()) {
                self.say("It did not log in; run `codex login` later.");
            }
        }
        Some(())
    }

    /// Where the owner's turns work, and what they may do there.
    async fn work(&mut self) -> Option<()> {
        let prompt = "A directory that all your conversations work in; Enter: each has its own";
        loop {
            let answer = self.line(prompt, false).await?;
            if answer.is_empty() {
                break;
            }
            let path = self.path(&answer)?;
            self.answers.draft.set("tiers.owner.workdir", path);
            if self.fits() {
                break;
            }
            self.answers.draft.unset("tiers.owner.workdir");
        }
        let question = "May Codex change files in the directories it works in for you?";
        if !self.yes(question, true).await? {
            self.answers.draft.set("tiers.owner.sandbox", "read-only");
        }
        let question = "May Codex ask you to let a command out of its sandbox?";
        if !self.yes(question, true).await? {
            let key = "tiers.owner.approval_policy";
            self.answers.draft.set(key, "never");
        }
        Some(())
    }

    async fn workspace(&mut self) -> Option<()> {
        if !self.yes("Serve a workspace of Molecule?", false).await? {
            return Some(());
        }
        // The configuration is refused without a token, and nothing may be written yet.
        let scratch = match NamedTempFile::new().and_then(|file| {
            std::fs::write(file.path(), "placeholder")?;
            Ok(file)
        }) {
            Ok(scratch) => scratch,
            Err(error) => {
                self.say(&format!("No workspace, then: no temporary file: {error}."));
                return Some(());
            }
        };
        loop {
            let id = "Its id, from External Connect on its canvas; Enter: none";
            let id = self.line(id, false).await?;
            if id.is_empty() {
                return Some(());
            }
            let platform = self
                .line("The address of its platform (https://…)", false)
                .await?;
            let token_file = whole_path(scratch.path()).ok()?;
            for (key, value) in WORKSPACE.into_iter().zip([id, platform, token_file]) {
                self.answers.draft.set(key, value);
            }
            if self.fits() {
                break;
            }
        }
        self.token(&scratch).await?;
        if self.answers.token.is_none() && !self.token_file.exists() {
            self.say("No workspace, then.");
            for key in WORKSPACE {
                self.answers.draft.unset(key);
            }
            return Some(());
        }
        let [_, _, key] = WORKSPACE;
        self.answers
            .draft
            .set(key, whole_path(self.token_file).ok()?);
        let prompt = "May whoever writes at its canvas do what you may? If not, they only read, apart from you";
        if self.yes(prompt, false).await? {
            self.answers.draft.set("molecule.origins.canvas", "owner");
        }
        Some(())
    }

    /// The workspace's token: the one that is at its place already, or one that is typed.
    async fn token(&mut self, scratch: &NamedTempFile) -> Option<()> {
        if self.token_file.exists() {
            let file = self.token_file.display();
            self.say(&format!("Its token is read from {file}."));
            return Some(());
        }
        loop {
            let prompt = "Its token, which is not shown; Enter: none";
            let token = self.line(prompt, true).await?;
            if token.is_empty() {
                return Some(());
            }
            if std::fs::write(scratch.path(), &token).is_ok() && self.fits() {
                self.answers.token = Some(token);
                return Some(());
            }
        }
    }

    async fn programs(&mut self) -> Option<()> {
        let prompt = format!("Serve programs and agents that hold a token, on {CONSOLE_ADDRESS}?");
        if self.yes(&prompt, false).await? {
            let address = CONSOLE_ADDRESS.to_string();
            self.answers.draft.set("http.listen", address);
            self.say("`codex-bridge token add NAME` makes a token once the daemon runs.");
        }
        Some(())
    }

    /// Whether the configuration takes the draft; if not, says why.
    fn fits(&mut self) -> bool {
        let Err(error) = self.load() else {
            return true;
        };
        for problem in error.problems() {
            self.screen
                .say(problem.what(), |paint, text| paint.red(text));
        }
        false
    }

    fn load(&self) -> Result<Loaded, ConfigError> {
        let text = self.answers.draft.text();
        load_text(None, &text, self.environment, self.state_dir)
    }

    /// A typed path as a whole, `~` included.
    fn path(&self, typed: &str) -> Option<String> {
        let home = self.environment.home();
        let path = match (typed.strip_prefix("~/"), home) {
            (Some(below), Some(home)) => home.join(below),
            (Some(_), None) | (None, _) => typed.into(),
        };
        whole_path(&path).ok()
    }

    fn say(&mut self, text: &str) {
        self.screen.say(text, PLAIN);
    }

    async fn yes(&mut self, question: &str, default: bool) -> Option<bool> {
        let choice = if default { "[Y/n]" } else { "[y/N]" };
        loop {
            let answer = self.line(&format!("{question} {choice}"), false).await?;
            match answer.to_ascii_lowercase().as_str() {
                "" => return Some(default),
                "y" | "yes" => return Some(true),
                "n" | "no" => return Some(false),
                _ => self.say("Type y or n, or Enter for the default."),
            }
        }
    }

    /// One typed line, without the space around it.
    async fn line(&mut self, prompt: &str, hidden: bool) -> Option<String> {
        self.keys.listen(hidden);
        self.screen.ask(&format!("{prompt} > "));
        let line = tokio::select! {
            line = self.keys.line() => line,
            _ = tokio::signal::ctrl_c() => None,
        };
        self.screen.typed(hidden || line.is_none());
        self.keys.show();
        line.map(|line| line.trim().to_owned())
    }
}
