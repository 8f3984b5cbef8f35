//! What the operator decided beforehand about what Codex asks: allowed, asked, denied, and who decides.
//!
//! The first rule that matches counts; without one the sender's tier does. Nothing in a message changes a rule. What
//! lets through must fit as a whole, what holds back need only be in it somewhere.

mod shell;
#[cfg(test)]
mod tests;

pub use shell::{Prefix, quote};

use crate::value::{ApprovalPolicy, Deciders, RequestKind, Sandbox, Tier, words};
use serde::{Deserialize, Serialize};

/// What Codex wants to do, in facts that rules look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Effect {
    /// The command line, its words quoted as for a shell.
    pub command: Option<String>,
    /// Where it runs, and where relative paths begin.
    pub cwd: Option<String>,
    /// Every file or directory that would be changed or opened.
    pub paths: Vec<String>,
    /// Whether Codex says that it wants out of the sandbox.
    pub escalated: bool,
    /// The tool of an MCP server that would run.
    pub mcp_tool: Option<Box<McpTool>>,
    /// What an accept would give beside command and paths (the network, input to a running command); no rule allows
    /// that unseen.
    pub beyond: Option<String>,
}

impl Effect {
    /// How long its texts are together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let tool = self.mcp_tool.as_deref();
        [
            self.command.as_deref(),
            self.cwd.as_deref(),
            self.beyond.as_deref(),
            tool.map(|asked| asked.server.as_str()),
            tool.and_then(|asked| asked.tool.as_deref()),
        ]
        .into_iter()
        .flatten()
        .chain(self.paths.iter().map(String::as_str))
        .fold(0, |sum: usize, text| sum.saturating_add(text.len()))
    }

    /// The same with every text changed so.
    #[must_use]
    pub fn map_texts(self, change: impl Fn(&str) -> String) -> Self {
        let each = |text: Option<String>| text.map(|text| change(&text));
        Self {
            command: each(self.command),
            cwd: each(self.cwd),
            paths: self.paths.iter().map(|path| change(path)).collect(),
            escalated: self.escalated,
            mcp_tool: self.mcp_tool.map(|asked| {
                Box::new(McpTool {
                    server: change(&asked.server),
                    tool: each(asked.tool),
                })
            }),
            beyond: each(self.beyond),
        }
    }
}

/// A tool of an MCP server, by the names that Codex gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpTool {
    /// The server's name in Codex's configuration.
    pub server: String,
    /// `None` where Codex does not say it in a form that can be read for certain.
    pub tool: Option<String>,
}

/// One approval request, as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct RuleQuery<'a> {
    /// Whose turn asks; from the channel, never from a text.
    pub tier: Tier,
    /// What kind of answer it needs.
    pub kind: &'a RequestKind,
    /// What it is about.
    pub effect: &'a Effect,
}

/// What happens to an approval request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum RuleDecision {
    /// It is accepted without asking anybody.
    Allow,
    /// A person decides.
    Ask,
    /// It is declined without asking anybody.
    Deny,
}

words!(RuleDecision {
    Allow => "allow",
    Ask => "ask",
    Deny => "deny",
});

/// A file or directory that a rule names, with everything below it: absolute, without `.` and `..`, compared by whole
/// components. The disk is never looked at, so a link in a directory that a rule lets through leads where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    parts: Vec<String>,
}

impl Place {
    /// Reads an absolute path.
    #[must_use]
    pub fn parse(path: &str) -> Option<Self> {
        Self::seen_from(path, None)
    }

    /// Reads a path; a relative one is taken from `cwd`.
    #[must_use]
    pub fn seen_from(path: &str, cwd: Option<&str>) -> Option<Self> {
        let whole = match (path.starts_with('/'), cwd) {
            (true, _) => path.to_owned(),
            (false, Some(cwd)) if cwd.starts_with('/') => format!("{cwd}/{path}"),
            (false, _) => return None,
        };
        if path.is_empty() || whole.contains('\0') {
            return None;
        }
        let mut parts: Vec<String> = Vec::new();
        for part in whole.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop();
                }
                part => parts.push(part.to_owned()),
            }
        }
        Some(Self { parts })
    }

    /// Whether `other` is this place or below it.
    fn holds(&self, other: &Self) -> bool {
        other.parts.starts_with(&self.parts)
    }

    /// The same, as a file system that knows no case would see it.
    fn may_hold(&self, other: &Self) -> bool {
        other.parts.len() >= self.parts.len()
            && self
                .parts
                .iter()
                .zip(&other.parts)
                .all(|(ours, theirs)| ours.to_lowercase() == theirs.to_lowercase())
    }
}

/// One decision of the operator, made beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name in explanations.
    pub name: String,
    /// Whose turns; empty for all.
    pub tiers: Vec<Tier>,
    /// Which approval requests; empty for all that the other conditions fit.
    pub kinds: Vec<RequestKind>,
    /// Commands by their first words.
    pub commands: Vec<Prefix>,
    /// Files and directories.
    pub places: Vec<Place>,
    /// MCP servers, by their names in Codex's configuration.
    pub servers: Vec<String>,
    /// Tools of MCP servers.
    pub tools: Vec<String>,
    /// What happens.
    pub then: RuleDecision,
    /// Who decides where somebody must; the tier's own answer when absent.
    pub who: Option<Deciders>,
    /// The operator knows that an `allow` is for peers too.
    pub even_peers: bool,
}

/// What the origin of a rule's own decision begins with; its name follows.
pub const RULE: &str = "rule ";

/// All rules, in the order in which they count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The rules.
    pub rules: Vec<Rule>,
}

/// What happens to an approval request, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleEvaluation {
    /// What happens.
    pub ruling: RuleDecision,
    /// Who decides where somebody must.
    pub who: Deciders,
    /// The rule that said so.
    pub because: Option<String>,
    /// The same in a sentence.
    pub why: String,
}

impl Policy {
    /// What happens to an approval request.
    #[must_use]
    pub fn judge(&self, case: RuleQuery<'_>) -> RuleEvaluation {
        if let Some(why) = unanswerable(case.kind) {
            return RuleEvaluation {
                ruling: RuleDecision::Deny,
                who: Deciders::Owner,
                because: None,
                why,
            };
        }
        let usual = usual_deciders(case.tier, case.kind);
        match self.rules.iter().find(|rule| rule.matches(case)) {
            Some(rule) => RuleEvaluation {
                ruling: rule.then,
                who: match (rule.who, peer_approval(case)) {
                    (Some(who), false) => who,
                    (None, _) | (_, true) => usual,
                },
                because: Some(rule.name.clone()),
                why: format!("the rule `{}` says {}", rule.name, rule.then.as_str()),
            },
            None => RuleEvaluation {
                ruling: RuleDecision::Ask,
                who: usual,
                because: None,
                why: format!(
                    "no rule matches, and what turns of the tier {} ask is decided by a person",
                    case.tier.as_str()
                ),
            },
        }
    }
}

impl Rule {
    /// Whether it says anything about this approval request.
    #[must_use]
    pub fn matches(&self, case: RuleQuery<'_>) -> bool {
        self.mismatch(case).is_none()
    }

    /// Why it says nothing about this approval request.
    #[must_use]
    pub fn mismatch(&self, case: RuleQuery<'_>) -> Option<&'static str> {
        let tier = self.tiers.is_empty() || self.tiers.contains(&case.tier);
        let kind = self.kinds.is_empty() || self.kinds.contains(case.kind);
        if !tier {
            Some("it is for other tiers")
        } else if !kind {
            Some("it is for other kinds of requests")
        } else if !self.may_loosen(case) {
            Some(
                "its allow does not reach so far: not beyond commands and paths, not to unnamed servers, not to peers unless it says so",
            )
        } else if !self.fits(case) {
            Some("it names something else")
        } else {
            None
        }
    }

    /// What lets more through than a person would have seen is held to more.
    fn may_loosen(&self, case: RuleQuery<'_>) -> bool {
        match self.then {
            RuleDecision::Ask | RuleDecision::Deny => true,
            RuleDecision::Allow => {
                is_approval(case.kind)
                    && case.effect.beyond.is_none()
                    // These run outside of every sandbox, so an `allow` of everything else is none of theirs.
                    && (*case.kind != RequestKind::McpTool || !self.servers.is_empty())
                    && (case.tier != Tier::Peer || self.even_peers)
            }
        }
    }

    fn fits(&self, case: RuleQuery<'_>) -> bool {
        let names_tools = !(self.servers.is_empty() && self.tools.is_empty());
        let free = self.commands.is_empty() && self.places.is_empty() && !names_tools;
        match case.kind {
            RequestKind::McpTool if names_tools => self.fits_tool(case.effect.mcp_tool.as_deref()),
            RequestKind::Command if self.commands.is_empty() => free,
            RequestKind::Command => self.fits_command(case.effect.command.as_deref()),
            RequestKind::FileChange | RequestKind::Permissions if self.places.is_empty() => free,
            RequestKind::FileChange | RequestKind::Permissions => self.fits_paths(case),
            RequestKind::McpTool
            | RequestKind::UserInput
            | RequestKind::Elicitation
            | RequestKind::ToolCall
            | RequestKind::Other(_) => free,
        }
    }

    fn fits_tool(&self, asked: Option<&McpTool>) -> bool {
        // What Codex does not tell may be any tool.
        let Some(asked) = asked else {
            return !self.loosens();
        };
        let named = |names: &[String], name: &str| match self.loosens() {
            true => names.iter().any(|known| known == name),
            false => names.iter().any(|known| known.eq_ignore_ascii_case(name)),
        };
        let server = self.servers.is_empty() || named(&self.servers, &asked.server);
        let tool = match &asked.tool {
            _ if self.tools.is_empty() => true,
            Some(tool) => named(&self.tools, tool),
            None => !self.loosens(),
        };
        server && tool
    }

    fn fits_command(&self, line: Option<&str>) -> bool {
        // What Codex does not tell may be anything.
        let Some(line) = line else {
            return !self.loosens();
        };
        if self.loosens() {
            self.commands.iter().any(|prefix| prefix.is_all_of(line))
        } else {
            self.commands.iter().any(|prefix| prefix.is_in(line))
        }
    }

    fn fits_paths(&self, case: RuleQuery<'_>) -> bool {
        let effect = case.effect;
        let mut seen = effect
            .paths
            .iter()
            .map(|path| Place::seen_from(path, effect.cwd.as_deref()));
        match self.loosens() {
            true => {
                !effect.paths.is_empty()
                    && seen.all(|path| {
                        path.is_some_and(|path| self.places.iter().any(|place| place.holds(&path)))
                    })
            }
            // What Codex does not tell, and a path that can't be read, may be anywhere. Permissions for something else
            // than files have none.
            false if effect.paths.is_empty() => {
                *case.kind == RequestKind::FileChange || effect.beyond.is_none()
            }
            false => seen.any(|path| {
                path.is_none_or(|path| self.places.iter().any(|place| place.may_hold(&path)))
            }),
        }
    }

    /// Whether it gives more than the tier has by itself; then all of the request must fit it.
    fn loosens(&self) -> bool {
        match (self.then, self.who) {
            (RuleDecision::Allow, _) | (RuleDecision::Ask, Some(Deciders::Sender)) => true,
            (RuleDecision::Deny, _) | (RuleDecision::Ask, Some(Deciders::Owner) | None) => false,
        }
    }
}

/// Whether an accept lets Codex do something, instead of telling it something.
#[must_use]
pub fn is_approval(kind: &RequestKind) -> bool {
    match kind {
        RequestKind::Command
        | RequestKind::FileChange
        | RequestKind::Permissions
        | RequestKind::McpTool => true,
        RequestKind::UserInput
        | RequestKind::Elicitation
        | RequestKind::ToolCall
        | RequestKind::Other(_) => false,
    }
}

/// A peer decides no approval and fills in no form, whatever a rule says.
fn peer_approval(case: RuleQuery<'_>) -> bool {
    case.tier == Tier::Peer && *case.kind != RequestKind::UserInput
}

fn usual_deciders(tier: Tier, kind: &RequestKind) -> Deciders {
    match (tier, kind) {
        (Tier::Owner, _) | (Tier::Peer, RequestKind::UserInput) => Deciders::Sender,
        (Tier::Peer | Tier::Tool, _) => Deciders::Owner,
    }
}

/// What nobody could answer, as a reason.
fn unanswerable(kind: &RequestKind) -> Option<String> {
    match kind {
        RequestKind::ToolCall => {
            Some("codex-bridge gives Codex no tools, so nobody could answer this call".to_owned())
        }
        RequestKind::Other(method) => Some(format!(
            "this version of codex-bridge does not know what `{method}` asks for"
        )),
        RequestKind::Command
        | RequestKind::FileChange
        | RequestKind::Permissions
        | RequestKind::UserInput
        | RequestKind::Elicitation
        | RequestKind::McpTool => None,
    }
}

/// What an accept would mean, for whoever decides; an accepted command is not always held by the sandbox.
#[must_use]
pub fn accept_means(
    kind: &RequestKind,
    escalated: bool,
    sandbox: Sandbox,
    policy: ApprovalPolicy,
) -> &'static str {
    match kind {
        RequestKind::Command if sandbox == Sandbox::DangerFullAccess => {
            "the command runs without a sandbox, as everything of this tier does"
        }
        RequestKind::Command if escalated => {
            "the command runs outside the sandbox, with all the rights of this user"
        }
        RequestKind::Command => match policy {
            ApprovalPolicy::Untrusted => {
                "the command runs in the sandbox, and if that stops it, again outside of it without asking"
            }
            ApprovalPolicy::OnRequest | ApprovalPolicy::Never => {
                "the command runs; where it asked to leave the sandbox, outside of it, with all the rights of this user"
            }
        },
        RequestKind::FileChange => {
            "the files are changed as shown, also where the sandbox would not let them"
        }
        RequestKind::Permissions => "commands of this turn get these rights beside their sandbox",
        RequestKind::UserInput => "Codex is told the answer; it gets no rights by it",
        RequestKind::Elicitation => "the MCP server that asks gets what is filled in",
        RequestKind::McpTool => {
            "the tool runs where its MCP server runs, outside of every sandbox and with that server's logins"
        }
        RequestKind::ToolCall | RequestKind::Other(_) => "nothing: it can't be accepted",
    }
}
