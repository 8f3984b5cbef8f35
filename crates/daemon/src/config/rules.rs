//! The keys of `[[rules]]` and `[approvals]`: what the operator decides beforehand about what Codex asks.
//!
//! How a rule is held against a question is the core's business; here is only what can't be meant.

use super::error::ConfigProblem;
use super::keys::{Config, DAY_SECS};
use super::load::ValueOrigins;
use bridge_core::rules::{Place, Policy, Prefix, Rule, RuleDecision, is_approval};
use bridge_core::value::{Deciders, RequestKind, Tier};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// More rules than anybody reads; each question is held against all of them.
const RULES_MAX: usize = 200;
/// A week: beyond it a message would be given up before its question.
const DEADLINE_MAX_SECS: u64 = 7 * DAY_SECS;
/// Programs that run whatever they are given: to allow them is to allow everything.
const RUN_ANYTHING: &[&str] = &[
    "bash", "sh", "zsh", "dash", "fish", "env", "sudo", "doas", "su", "xargs", "nohup", "nice",
    "timeout", "ssh", "python", "python3", "node", "perl", "ruby", "awk", "find", "docker", "eval",
    "exec",
];

/// How long what Codex asks waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalsConfig {
    /// After how many seconds a question that nobody answered is declined.
    #[schemars(range(min = 1, max = DEADLINE_MAX_SECS))]
    pub deadline_secs: u64,
    /// After how many seconds those who may answer are reminded; 0 is never.
    #[schemars(range(min = 0, max = DEADLINE_MAX_SECS))]
    pub reminder_secs: u64,
}

impl Default for ApprovalsConfig {
    fn default() -> Self {
        Self {
            deadline_secs: 3_600,
            reminder_secs: 900,
        }
    }
}

/// One decision made beforehand. The first rule that matches a question counts; what no rule matches is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleConfig {
    /// The name of the rule in reports of its decisions.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Whose turns it is about. Without it all tiers.
    #[serde(default)]
    pub tier: Vec<Tier>,
    /// What kinds of questions it is about. Without it all that the other keys fit.
    #[serde(default)]
    pub kind: Vec<KindKey>,
    /// Commands by their first words, such as "git push". A rule that allows matches only where the whole line is that
    /// one command; any other rule matches where the command is anywhere in the line.
    #[serde(default)]
    pub command: Vec<String>,
    /// Absolute files or directories, with everything below them, for changes of files and for permissions. A rule
    /// that allows needs all paths of the question to be in them; for any other rule one is enough. No question has a
    /// command and paths: a rule with both keys is about commands like these, and about files like these.
    #[serde(default)]
    pub path: Vec<String>,
    /// MCP servers by their names in Codex's configuration, for `kind = ["mcp-tool"]`. A rule that allows tools names
    /// their servers.
    #[serde(default)]
    pub server: Vec<String>,
    /// Tools of these servers. Without it all of them.
    #[serde(default)]
    pub tool: Vec<String>,
    /// What happens.
    pub then: RuleDecision,
    /// Who decides where somebody is asked. Without it what is usual for the tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Deciders")]
    pub who: Option<Deciders>,
    /// Needed for a rule that allows something to peers: nobody looks at what strangers have Codex do then.
    #[serde(default)]
    pub even_peers: bool,
}

/// What a question is about.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum KindKey {
    /// May this command run?
    Command,
    /// May these files change?
    FileChange,
    /// May the turn have more permissions?
    Permissions,
    /// A question to the user.
    UserInput,
    /// A form or link of an MCP server.
    Elicitation,
    /// May this tool of an MCP server run?
    McpTool,
}

impl KindKey {
    /// The kind in the core's words.
    pub fn kind(self) -> RequestKind {
        match self {
            Self::Command => RequestKind::Command,
            Self::FileChange => RequestKind::FileChange,
            Self::Permissions => RequestKind::Permissions,
            Self::UserInput => RequestKind::UserInput,
            Self::Elicitation => RequestKind::Elicitation,
            Self::McpTool => RequestKind::McpTool,
        }
    }

    /// Whether its questions have a command or paths that a rule can look at.
    fn has(self, what: Looked) -> bool {
        match (self, what) {
            (Self::Command, Looked::Command)
            | (Self::FileChange | Self::Permissions, Looked::Path)
            | (Self::McpTool, Looked::Tool) => true,
            (
                Self::Command
                | Self::FileChange
                | Self::Permissions
                | Self::UserInput
                | Self::Elicitation
                | Self::McpTool,
                _,
            ) => false,
        }
    }
}

/// What a rule looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looked {
    Command,
    Path,
    Tool,
}

impl RuleConfig {
    fn rule(&self) -> Rule {
        Rule {
            name: self.name.clone(),
            tiers: self.tier.clone(),
            kinds: self.kind.iter().map(|key| key.kind()).collect(),
            commands: self
                .command
                .iter()
                .filter_map(|text| Prefix::parse(text))
                .collect(),
            places: self
                .path
                .iter()
                .filter_map(|path| Place::parse(path))
                .collect(),
            servers: self.server.clone(),
            tools: self.tool.clone(),
            then: self.then,
            who: self.who,
            even_peers: self.even_peers,
        }
    }

    fn is_for_peers(&self) -> bool {
        self.tier.is_empty() || self.tier.contains(&Tier::Peer)
    }

    /// Everything that can't be meant, with the key it is about.
    fn problems(&self) -> Vec<(&'static str, String)> {
        let mut found = self.unreadable();
        let mut say = |key: &'static str, what: &str| found.push((key, what.to_owned()));
        let allows = self.then == RuleDecision::Allow;
        if allows && self.is_for_peers() && !self.even_peers {
            say(
                "then",
                "is \"allow\" for peers too: nobody would look at what strangers have Codex do. Name the tiers it is \
                 for (`tier = [\"owner\"]`), or say that you mean it with `even_peers = true`",
            );
        }
        if self.even_peers && !(allows && self.is_for_peers()) {
            say(
                "even_peers",
                "is only for a rule that allows something to peers; take it out",
            );
        }
        if allows && self.kind.iter().any(|kind| !is_approval(&kind.kind())) {
            say(
                "kind",
                "names a kind that needs an answer in words, which no rule can give; take it out",
            );
        }
        let about_tools = !self.tool.is_empty() || self.kind.contains(&KindKey::McpTool);
        if allows && about_tools && self.server.is_empty() {
            let key = if self.tool.is_empty() { "kind" } else { "tool" };
            say(
                key,
                "is about tools of MCP servers, which run outside of every sandbox: a rule that allows them names whose \
                 they are, with `server = [\"NAME\"]`",
            );
        }
        if allows && self.who.is_some() {
            say("who", "decides nothing where nobody is asked; take it out");
        }
        if self.who == Some(Deciders::Sender)
            && self.tier == [Tier::Peer]
            && self.asks_for_approval()
        {
            say(
                "who",
                "is \"sender\", but a peer never decides an approval; take it out, or make the rule about \
                 `kind = [\"user-input\"]`",
            );
        }
        for (key, looked, set) in [
            ("command", Looked::Command, !self.command.is_empty()),
            ("path", Looked::Path, !self.path.is_empty()),
            ("server", Looked::Tool, !self.server.is_empty()),
            ("tool", Looked::Tool, !self.tool.is_empty()),
        ] {
            if set && !self.kind.is_empty() && !self.kind.iter().any(|kind| kind.has(looked)) {
                say(
                    key,
                    "is nothing that questions of this `kind` have, so the rule could never match",
                );
            }
        }
        found
    }

    fn asks_for_approval(&self) -> bool {
        self.kind.is_empty() || self.kind.iter().any(|kind| *kind != KindKey::UserInput)
    }

    fn unreadable(&self) -> Vec<(&'static str, String)> {
        let command = |text: &&String| Prefix::parse(text).is_none();
        let path = |path: &&String| Place::parse(path).is_none();
        let commands = self.command.iter().filter(command).map(|text| {
            let what = format!(
                "holds {text:?}, which is not the plain first words of one command: no operators, variables or patterns"
            );
            ("command", what)
        });
        let paths = self.path.iter().filter(path).map(|path| {
            (
                "path",
                format!("holds {path:?}, which is not an absolute path; write it out from `/`"),
            )
        });
        let empty = |key: &'static str, names: &[String]| {
            let empty = names.iter().any(|name| name.trim().is_empty());
            empty.then(|| (key, "holds an empty name; take it out".to_owned()))
        };
        let names = [empty("server", &self.server), empty("tool", &self.tool)];
        let names = names.into_iter().flatten();
        commands.chain(paths).chain(names).collect()
    }

    /// What an operator should know at every start.
    fn warnings(&self) -> Vec<String> {
        let name = &self.name;
        if self.then != RuleDecision::Allow {
            return Vec::new();
        }
        let covers =
            |looked: Looked| self.kind.is_empty() || self.kind.iter().any(|kind| kind.has(looked));
        let named = [&self.command, &self.path, &self.server, &self.tool];
        let free = named.iter().all(|names| names.is_empty());
        let everything = (free && covers(Looked::Command)).then(|| {
            format!(
                "the rule `{name}` accepts every command without asking, also out of the sandbox"
            )
        });
        let runs = self.command.iter().filter_map(|text| {
            let prefix = Prefix::parse(text)?;
            let program = prefix.words().first()?.rsplit('/').next()?.to_owned();
            (RUN_ANYTHING.contains(&program.as_str()) && prefix.words().len() == 1).then(|| {
                format!("the rule `{name}` allows `{program}`, which runs whatever it is given: it accepts everything")
            })
        });
        everything.into_iter().chain(runs).collect()
    }
}

impl Config {
    /// The rules in the core's words.
    pub fn policy(&self) -> Policy {
        Policy {
            rules: self.rules.iter().map(RuleConfig::rule).collect(),
        }
    }
}

/// What is wrong with the rules.
pub(super) fn problems(config: &Config, origins: &ValueOrigins) -> Vec<ConfigProblem> {
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    for (at, rule) in config.rules.iter().enumerate() {
        let mut said = rule.problems();
        if !names.insert(&rule.name) {
            said.push((
                "name",
                format!(
                    "is {:?}, as another rule before it; give it its own",
                    rule.name
                ),
            ));
        }
        if at == RULES_MAX {
            said.push((
                "name",
                format!("begins more rules than {RULES_MAX}; put several commands into one"),
            ));
        }
        for (key, what) in said {
            found.extend(origins.problem(&format!("rules.{at}.{key}"), what));
        }
    }
    found
}

/// What an operator should know of the rules at every start.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let approvals = &config.approvals;
    let late = approvals.reminder_secs >= approvals.deadline_secs;
    let late = late.then(|| {
        "approvals.reminder_secs is not below approvals.deadline_secs: nobody is reminded"
            .to_owned()
    });
    let rules = config.rules.iter().flat_map(RuleConfig::warnings);
    late.into_iter().chain(rules).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse::read;

    fn judge(text: &str) -> Vec<String> {
        let (config, spots) = read(text).unwrap();
        let problems = problems(&config, &ValueOrigins::of(spots));
        problems
            .iter()
            .map(|problem| format!("{}: {}", problem.place, problem.what))
            .collect()
    }

    fn one(keys: &str) -> Vec<String> {
        judge(&format!("[[rules]]\nname = 'r'\n{keys}\n"))
    }

    #[test]
    fn nothing_is_allowed_to_peers_by_accident() {
        for keys in [
            "then = 'allow'",
            "then = 'allow'\ntier = ['peer', 'owner']\ncommand = ['ls']",
        ] {
            let said = one(keys);
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(said[0].starts_with("3:1: `rules.0.then`"), "{said:?}");
            assert!(said[0].contains("even_peers"), "{said:?}");
            assert!(one(&format!("{keys}\neven_peers = true")).is_empty());
        }
        assert!(one("then = 'allow'\ntier = ['owner', 'tool']").is_empty());
        assert!(one("then = 'deny'").is_empty());
        assert_eq!(one("then = 'ask'\neven_peers = true").len(), 1);
        assert_eq!(
            one("then = 'ask'\nwho = 'sender'\ntier = ['peer']").len(),
            1
        );
        assert!(
            one("then = 'ask'\nwho = 'sender'\ntier = ['peer']\nkind = ['user-input']").is_empty()
        );
    }

    #[test]
    fn rejects_invalid_rules_with_position() {
        for (keys, said) in [
            (
                "then = 'deny'\ncommand = ['git push', 'a; b']",
                "4:1: `rules.0.command` holds \"a; b\"",
            ),
            (
                "then = 'deny'\npath = ['work']",
                "4:1: `rules.0.path` holds \"work\"",
            ),
            (
                "then = 'deny'\nkind = ['command']\npath = ['/x']",
                "5:1: `rules.0.path` is nothing",
            ),
            (
                "then = 'allow'\ntier = ['owner']\nkind = ['user-input']",
                "5:1: `rules.0.kind` names a kind",
            ),
            (
                "then = 'allow'\ntier = ['owner']\nkind = ['mcp-tool']",
                "5:1: `rules.0.kind` is about tools of MCP servers",
            ),
            (
                "then = 'allow'\ntier = ['owner']\ntool = ['list_peers']",
                "5:1: `rules.0.tool` is about tools of MCP servers",
            ),
            (
                "then = 'deny'\nkind = ['command']\nserver = ['molecule']",
                "5:1: `rules.0.server` is nothing",
            ),
            (
                "then = 'deny'\nserver = ['']",
                "4:1: `rules.0.server` holds an empty name",
            ),
            (
                "then = 'allow'\ntier = ['owner']\nwho = 'owner'",
                "5:1: `rules.0.who` decides nothing",
            ),
        ] {
            let found = one(keys);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(said), "{found:?}");
        }
        let twice =
            judge("[[rules]]\nname = 'a'\nthen = 'ask'\n[[rules]]\nname = 'a'\nthen = 'ask'\n");
        assert!(
            twice[0].starts_with("5:1: `rules.1.name` is \"a\""),
            "{twice:?}"
        );
    }

    #[test]
    fn checks_rule_keys_and_values() {
        let said = |text: &str| {
            let problems = read(text).unwrap_err();
            problems
                .iter()
                .map(|problem| problem.what.clone())
                .collect::<Vec<_>>()
        };
        let rule = "[[rules]]\nname = 'r'\n";
        let found = said(&format!("{rule}then = 'alow'"));
        assert!(found[0].contains("did you mean \"allow\"?"), "{found:?}");
        let found = said(&format!("{rule}then = 'ask'\nkind = ['comand']"));
        assert!(found[0].contains("did you mean \"command\"?"), "{found:?}");
        let found = said(&format!("{rule}then = 'ask'\ncomands = ['x']"));
        assert!(
            found[0].contains("did you mean `rules.0.command`?"),
            "{found:?}"
        );
        let found = said(rule);
        assert!(found[0].contains("then"), "{found:?}");
    }

    #[test]
    fn wide_rules_are_warned_of() {
        let warned = |keys: &str| {
            let text = format!("[[rules]]\nname = 'r'\nthen = 'allow'\ntier = ['owner']\n{keys}");
            warnings(&read(&text).unwrap().0).len()
        };
        assert_eq!(warned(""), 1);
        assert_eq!(warned("command = ['/bin/bash', 'git status']"), 1);
        assert_eq!(warned("command = ['python3 tools/check.py']"), 0);
        assert_eq!(warned("kind = ['file-change']"), 0);
        assert_eq!(warned("server = ['molecule']"), 0);
        let late = "approvals.deadline_secs = 60\napprovals.reminder_secs = 60";
        assert_eq!(warnings(&read(late).unwrap().0).len(), 1);
    }

    #[test]
    fn a_rule_reaches_the_core() {
        let text = "[[rules]]\nname = 'push'\ntier = ['tool']\nkind = ['command']\ncommand = ['git push']\n\
                    path = ['/x']\nthen = 'ask'\nwho = 'owner'\n";
        let policy = read(text).unwrap().0.policy();
        let rule = &policy.rules[0];
        assert_eq!((rule.name.as_str(), rule.then), ("push", RuleDecision::Ask));
        assert_eq!(
            (rule.tiers.as_slice(), rule.kinds.as_slice()),
            (&[Tier::Tool][..], &[RequestKind::Command][..])
        );
        assert_eq!((rule.commands.len(), rule.places.len()), (1, 1));
        assert_eq!(rule.who, Some(Deciders::Owner));
        let text = "[[rules]]\nname = 'peers'\ntier = ['owner']\nkind = ['mcp-tool']\nserver = ['molecule']\n\
                    tool = ['list_peers']\nthen = 'allow'\n";
        let rule = read(text).unwrap().0.policy().rules.remove(0);
        assert_eq!(
            (rule.servers, rule.tools, rule.kinds),
            (
                vec!["molecule".to_owned()],
                vec!["list_peers".to_owned()],
                vec![RequestKind::McpTool]
            )
        );
    }
}
