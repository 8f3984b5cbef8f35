//! What the rules say: to something that Codex might ask, and to what it asked lately. Nothing is executed, and nothing is
//! decided.

mod replay;

pub use replay::{ReplayEntry, ReplayList};
pub(crate) use replay::{ReplayParams, replay};

use super::extract::Body;
use super::{Context, ProblemResponse};
use crate::{BridgeService, PolicyInForce};
use axum::Json;
use axum::extract::State;
use bridge_core::rules::{Effect, McpTool, RuleDecision, RuleQuery, accept_means};
use bridge_core::value::{ApprovalPolicy, RequestKind, Tier};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Body of `POST /v1/policy/explain`: whose turn asks, and what for.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExplainRequest {
    /// `owner`, `peer` or `tool`; or `channel` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// The channel that the message came from: `local`, `task`, `a2a`, `molecule:ID`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Who sent it: on `molecule:ID` `canvas` or the id of an agent, on `local` and `a2a` the name of a
    /// token without `admin`, because one with it is the owner everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// `command`, `file_change`, `permissions`, `mcp_tool`, `user_input` or `elicitation`; by what else is given when
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The command, as a line for a shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Where it runs and relative paths begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Files that would be changed or opened.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// An MCP server, by its name in Codex's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The tool of that server that would run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Codex says that it wants out of the sandbox.
    pub escalated: bool,
}

/// What would happen.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ExplainView {
    /// `allow`, `ask` or `deny`.
    pub decision: String,
    /// Who decides a request: `owner` or `sender`.
    pub who: Option<String>,
    /// The rule that decided.
    pub rule: Option<String>,
    pub why: String,
    pub tier: String,
    pub kind: String,
    pub command: Option<String>,
    pub cwd: Option<String>,
    pub paths: Vec<String>,
    pub server: Option<String>,
    pub tool: Option<String>,
    pub sandbox: String,
    pub approval_policy: String,
    /// When Codex asks such a thing at all.
    pub asked: String,
    /// What an accept would mean.
    pub accept_means: String,
    /// After how many seconds silence is a decline.
    pub deadline_secs: u64,
    /// All rules, in the order in which they count.
    pub rules: Vec<RuleView>,
}

/// What one rule says to it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RuleView {
    pub name: String,
    /// `allow`, `ask` or `deny`.
    pub then: String,
    /// Whether it matches; the first one that does counts.
    pub matches: bool,
    /// Why it does not.
    pub why_not: Option<String>,
}

impl ExplainRequest {
    /// Whose turn asks; `tier_of` knows the tiers of senders.
    fn tier(
        &self,
        tier_of: impl Fn(&str, Option<&str>) -> Result<Tier, String>,
    ) -> Result<Tier, String> {
        match (&self.tier, &self.channel) {
            (Some(_), Some(_)) => Err("give `tier` or `channel`, not both".to_owned()),
            (Some(_), None) if self.sender.is_some() => {
                Err("`sender` needs its `channel`, and no `tier`".to_owned())
            }
            (Some(tier), None) => tier
                .parse()
                .map_err(|_| format!("there is no tier `{tier}`; tiers are owner, peer and tool")),
            (None, Some(channel)) => tier_of(channel, self.sender.as_deref()),
            (None, None) => Err("name a tier or a channel".to_owned()),
        }
    }

    fn kind(&self) -> Result<RequestKind, String> {
        let kind = match &self.kind {
            Some(kind) => kind.parse().unwrap_or(RequestKind::Command),
            None if self.server.is_some() => RequestKind::McpTool,
            None if self.command.is_none() && !self.paths.is_empty() => RequestKind::FileChange,
            None => RequestKind::Command,
        };
        match &kind {
            RequestKind::Command if self.command.as_deref().is_none_or(str::is_empty) => {
                Err("name the command, or another kind".to_owned())
            }
            RequestKind::ToolCall | RequestKind::Other(_) => Err(format!(
                "`{}` is not asked; kinds are command, file_change, permissions, mcp_tool, user_input and elicitation",
                kind.as_str()
            )),
            kind if (*kind == RequestKind::McpTool) != self.server.is_some() => {
                Err("the kind `mcp_tool` and a server go together".to_owned())
            }
            _ => Ok(kind),
        }
    }

    fn effect(self) -> Effect {
        let tool = self.tool;
        Effect {
            command: self.command,
            cwd: self.cwd,
            paths: self.paths,
            escalated: self.escalated,
            mcp_tool: self.server.map(|server| Box::new(McpTool { server, tool })),
            beyond: None,
        }
    }

    /// What would happen under these rules, or why that can't be said.
    pub fn explain(
        self,
        policy: &PolicyInForce,
        tier_of: impl Fn(&str, Option<&str>) -> Result<Tier, String>,
    ) -> Result<ExplainView, String> {
        let (tier, kind) = (self.tier(tier_of)?, self.kind()?);
        let effect = self.effect();
        Ok(explained(policy, tier, &kind, effect))
    }
}

fn explained(
    policy: &PolicyInForce,
    tier: Tier,
    kind: &RequestKind,
    effect: Effect,
) -> ExplainView {
    let case = RuleQuery {
        tier,
        kind,
        effect: &effect,
    };
    let judged = policy.policy.judge(case);
    let rules = policy.policy.rules.iter().map(|rule| {
        let mismatch = rule.mismatch(case);
        RuleView {
            name: rule.name.clone(),
            then: rule.then.as_str().to_owned(),
            matches: mismatch.is_none(),
            why_not: mismatch.map(str::to_owned),
        }
    });
    let rules = rules.collect();
    let terms = policy.terms(tier);
    let means = accept_means(kind, effect.escalated, terms.sandbox, terms.approval_policy);
    let (server, tool) = match effect.mcp_tool.map(|asked| *asked) {
        Some(McpTool { server, tool }) => (Some(server), tool),
        None => (None, None),
    };
    ExplainView {
        decision: judged.ruling.as_str().to_owned(),
        who: (judged.ruling == RuleDecision::Ask).then(|| judged.who.as_str().to_owned()),
        rule: judged.because,
        why: judged.why,
        tier: tier.as_str().to_owned(),
        kind: kind.as_str().to_owned(),
        command: effect.command,
        cwd: effect.cwd,
        paths: effect.paths,
        server,
        tool,
        sandbox: terms.sandbox.as_str().to_owned(),
        approval_policy: terms.approval_policy.as_str().to_owned(),
        asked: asked(kind, terms.approval_policy).to_owned(),
        accept_means: means.to_owned(),
        deadline_secs: policy.deadline_secs,
        rules,
    }
}

/// When Codex asks such a thing.
fn asked(kind: &RequestKind, policy: ApprovalPolicy) -> &'static str {
    match (kind, policy) {
        (RequestKind::UserInput, _) => {
            "whenever the model has a question, under every approval policy"
        }
        (RequestKind::ToolCall | RequestKind::Other(_), _) => "this is not asked",
        (RequestKind::McpTool, ApprovalPolicy::Never) => {
            "never under this approval policy: Codex refuses tools that are not marked as read-only"
        }
        (RequestKind::McpTool, _) => {
            "for every tool that its server does not mark as read-only; isolated turns have no MCP servers at all"
        }
        (_, ApprovalPolicy::Never) => {
            "never under this approval policy: what the sandbox forbids fails"
        }
        (RequestKind::Command, ApprovalPolicy::Untrusted) => "for nearly every command",
        (RequestKind::Command, ApprovalPolicy::OnRequest) => {
            "only where the model wants the command to leave the sandbox; everything else runs inside without asking"
        }
        (RequestKind::FileChange, _) => {
            "where the sandbox would not let the files change, or under `untrusted`"
        }
        (RequestKind::Permissions, _) => "where the model wants more than its sandbox gives",
        (RequestKind::Elicitation, _) => "whenever an MCP server has a form or a link",
    }
}

pub(super) async fn explain<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Body(request): Body<ExplainRequest>,
) -> Result<Json<ExplainView>, ProblemResponse> {
    let policy = service.policy();
    let explained = request.explain(&policy, |channel, sender| service.tier_of(channel, sender));
    explained.map(Json).map_err(ProblemResponse::unprocessable)
}
