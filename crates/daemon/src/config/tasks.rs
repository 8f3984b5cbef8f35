//! The keys of `[tasks]` and `[notify]`: where tasks of callers may work, and who may be notified that one is finished.
//!
//! A secret is never a key: the file may be readable by others and ends up in repositories.

use super::alerts::{self, AlertConfig, NtfyConfig, SmtpConfig};
use super::error::ConfigProblem;
use super::keys::Config;
use super::load::ValueOrigins;
use bridge_channel::guard::{AddressGuard, check_origin};
use bridge_channel::notify::{Signer, Target, Webhook, is_command_name, is_scheme};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The longest time that a command of a notification may take.
const COMMAND_MAX_SECS: u64 = 300;

/// Tasks that callers start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TasksConfig {
    /// Directories below which holders of a token may let tasks work; absolute, and they must exist. The local owner
    /// and a token with `admin` may name any directory. Without any, tasks of other token holders work in directories of
    /// their own.
    pub roots: Vec<PathBuf>,
    /// The database of the older `codex_bridge` tool whose tasks are taken over as finished ones, once; an absolute path.
    /// Without it `codex_bridge.db` is looked for in `$HERMES_HOME` and in `~/.hermes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", length(min = 1))]
    pub import: Option<PathBuf>,
    /// Whether the events of tasks also hold the lines of Codex's protocol (`protocol/raw`, the first 100 of a turn,
    /// without the parts of a text) and of its standard error (`codex/stderr`, which may be about another task: one Codex
    /// serves all). Known secrets are taken out of them.
    pub raw_events: bool,
}

/// Who may be notified when a task has finished, and who is alerted to what needs a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NotifyConfig {
    /// A file of mode 0600 that holds the secrets by which webhooks are signed (Standard Webhooks): `whsec_…`, one a
    /// line; several while one is being replaced. It is read for every call. Without it there are no webhooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", length(min = 1))]
    pub webhook_secret_file: Option<PathBuf>,
    /// Origins (scheme, host and port) that webhooks may call although they are not https or not public.
    pub allow_origins: Vec<String>,
    /// Commands that can be a target (`command:NAME`), one table each.
    pub command: Vec<NotifyCommandConfig>,
    /// Who sends to targets of other senders, by their scheme: `feishu = "command:NAME"` or `"webhook:https://…"` takes
    /// `feishu:<address>`. The sender gets `scheme`, `address` and `text` with the notification.
    pub schemes: BTreeMap<String, String>,
    /// Who is alerted to questions, failures and ends of tasks, one table each.
    pub alert: Vec<AlertConfig>,
    pub ntfy: NtfyConfig,
    pub smtp: SmtpConfig,
}

/// One command. It gets the notification as JSON on its standard input; an exit status of 0 confirms it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NotifyCommandConfig {
    /// What callers know it by: letters, digits, `-` and `_`.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The program by its absolute path, and its arguments. No shell reads them, and nothing of a task is in them.
    pub argv: Vec<String>,
    /// How long it may take, in seconds, before it is killed with everything it started.
    #[schemars(range(min = 1, max = COMMAND_MAX_SECS))]
    pub timeout_secs: u64,
}

impl Default for NotifyCommandConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            argv: Vec::new(),
            timeout_secs: 30,
        }
    }
}

impl NotifyConfig {
    /// What calls webhooks.
    pub fn webhook(&self) -> Webhook {
        let origins = self
            .allow_origins
            .iter()
            .flat_map(|text| check_origin(text));
        Webhook::new(
            AddressGuard::new(origins.collect()),
            self.webhook_secret_file.clone(),
        )
    }
}

/// What is wrong with the values.
pub(super) fn problems(config: &Config, origins: &ValueOrigins) -> Vec<ConfigProblem> {
    let mut found = Vec::new();
    let mut say = |key: &str, what: String| found.extend(origins.problem(key, what));
    for root in &config.tasks.roots {
        if let Some(what) = refuse_directory(root) {
            say("tasks.roots", what);
        }
    }
    if let Some(file) = &config.tasks.import
        && !file.is_absolute()
    {
        let what = format!("names {}, which is no absolute path", file.display());
        say("tasks.import", what);
    }
    for home in &config.codex.homes {
        if let Some(what) = refuse_directory(home) {
            say("codex.homes", what);
        }
    }
    let notify = &config.notify;
    for origin in &notify.allow_origins {
        if let Err(refusal) = check_origin(origin) {
            let what = format!(
                "holds {origin:?}, which is no origin ({refusal}); write something like \"http://127.0.0.1:9000\""
            );
            say("notify.allow_origins", what);
        }
    }
    if let Some(path) = &notify.webhook_secret_file
        && let Err(error) = Signer::open(path)
    {
        say(
            "notify.webhook_secret_file",
            format!("can't be used: {error}"),
        );
    }
    for (at, command) in notify.command.iter().enumerate() {
        let twice = notify.command.iter().take(at);
        let twice = twice.filter(|other| other.name == command.name).count() > 0;
        let key = |last: &str| format!("notify.command.{at}.{last}");
        if !is_command_name(&command.name) || twice {
            let what = format!(
                "is {:?}; give each command a name of its own, of letters, digits, `-` and `_`",
                command.name
            );
            say(&key("name"), what);
        }
        if let Some(what) = refuse_argv(&command.argv) {
            say(&key("argv"), what);
        }
    }
    for (key, what) in alerts::problems(notify) {
        say(&key, what);
    }
    for (scheme, sender) in &notify.schemes {
        if let Some(what) = refuse_sender(notify, scheme, sender) {
            say("notify.schemes", format!("has {scheme:?}, which {what}"));
        }
    }
    found
}

/// Why a scheme can't be mapped so.
fn refuse_sender(notify: &NotifyConfig, scheme: &str, sender: &str) -> Option<String> {
    if !is_scheme(scheme) {
        return Some("is no name of a scheme of another sender: small letters, digits, `-` and `_`, and none of our own targets".to_owned());
    }
    let known = |name: &String| notify.command.iter().any(|command| command.name == *name);
    match Target::parse(sender) {
        Ok(Target::Command(name)) if known(&name) => None,
        Ok(Target::Command(name)) => Some(format!(
            "names command:{name}, and there is no [[notify.command]] of that name"
        )),
        Ok(Target::Webhook(url)) => notify
            .webhook()
            .check(&url)
            .err()
            .map(|what| format!("can't be used: {what}")),
        Ok(_) | Err(_) => Some(format!(
            "is {sender:?}; write \"command:NAME\" or \"webhook:https://…\""
        )),
    }
}

fn refuse_argv(argv: &[String]) -> Option<String> {
    let Some(program) = argv.first() else {
        return Some("is empty; name a program".to_owned());
    };
    if argv.iter().any(|word| word.contains('\0')) {
        return Some("holds a NUL".to_owned());
    }
    let path = Path::new(program);
    if path.is_absolute() && path.is_file() {
        None
    } else {
        Some(format!(
            "begins with {program:?}, which is no program by its absolute path"
        ))
    }
}

fn refuse_directory(directory: &Path) -> Option<String> {
    let shown = directory.display();
    if directory.is_absolute() && directory.is_dir() {
        None
    } else {
        Some(format!(
            "names {shown}, which is no directory by its absolute path; create it first"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::read;
    use super::*;

    fn judge(text: &str) -> Vec<String> {
        let (config, spots) = read(text).unwrap();
        let origins = ValueOrigins::of(spots);
        let line = |problem: &ConfigProblem| problem.what.clone();
        problems(&config, &origins).iter().map(line).collect()
    }

    #[test]
    fn rejects_invalid_task_and_notify_settings() {
        for (text, says) in [
            ("tasks.roots = ['here']", "`tasks.roots`"),
            ("codex.homes = ['/nonexistent/home']", "`codex.homes`"),
            ("notify.allow_origins = ['http://h/x']", "no origin"),
            (
                "notify.webhook_secret_file = '/nonexistent/s'",
                "can't be read",
            ),
            (
                "[[notify.command]]\nname = 'a b'\nargv = ['/bin/sh']",
                "of its own",
            ),
            (
                "[[notify.command]]\nname = 'a'\nargv = ['sh']",
                "absolute path",
            ),
            ("[[notify.command]]\nname = 'a'\nargv = []", "is empty"),
            (
                "[notify.schemes]\nfeishu = 'command:a'",
                "no [[notify.command]]",
            ),
            ("[notify.schemes]\nfeishu = 'chat'", "command:NAME"),
            (
                "[notify.schemes]\nlocal = 'command:a'",
                "no name of a scheme",
            ),
            (
                "[notify.schemes]\nfeishu = 'webhook:http://10.0.0.1/'",
                "can't be used",
            ),
            ("tasks.import = 'codex_bridge.db'", "absolute path"),
            ("[[notify.alert]]\nto = 'local'", "reaches nobody"),
            (
                "[[notify.alert]]\nto = 'ntfy:codex'",
                "`notify.ntfy.server`",
            ),
            (
                "[[notify.alert]]\nto = 'command:a'",
                "no [[notify.command]]",
            ),
            ("[[notify.alert]]\nto = 'feishu:x'", "does not have feishu"),
            (
                "[[notify.alert]]\nto = 'email:ann@example.org'",
                "`notify.smtp.host`",
            ),
            (
                "[[notify.alert]]\nto = 'email:ann@example.org'\n[notify.smtp]\nhost = 'mail.example'\nfrom = 'b@example.org'\ntls = 'none'",
                "another machine",
            ),
            ("notify.ntfy.server = 'ntfy.example'", "no address"),
        ] {
            let said = judge(text);
            assert_eq!(said.len(), 1, "{text}: {said:?}");
            assert!(said[0].contains(says), "{text}: {said:?}");
        }
        let twice = "[[notify.command]]\nname = 'a'\nargv = ['/bin/sh']\n";
        assert_eq!(judge(&twice.repeat(2)).len(), 1);
        assert!(judge(twice).is_empty());
        let topic = "[[notify.alert]]\nto = 'ntfy:https://ntfy.example/codex'\n";
        assert!(judge(topic).is_empty());
        assert_eq!(judge(&topic.repeat(2)).len(), 1);
        assert!(
            judge("tasks.roots = ['/']\nnotify.allow_origins = ['http://127.0.0.1:9000']")
                .is_empty()
        );
    }
}
