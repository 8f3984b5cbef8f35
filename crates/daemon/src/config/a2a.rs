//! The keys of `[a2a]`: whether other agents may call, who they are to us, and whom Codex may ask in turn.
//!
//! A token is never a key: those of peers are made by `peers add`, those for other agents are in files.

use super::error::ConfigProblem;
use super::keys::Config;
use super::load::ValueOrigins;
use super::tiers::{BYTES_PER_DAY_MAX, TOKENS_PER_DAY_MAX, TURNS_PER_DAY_MAX};
use bridge_channel::a2a::CHANNEL;
use bridge_channel::guard::check_origin;
use bridge_core::budget::DayBudget;
use bridge_core::value::{ChannelId, Tier};
use bridge_front::A2aAuth;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Longest name of a peer: that of a token.
const NAME_MAX_CHARS: usize = 64;

/// Other agents that call this one, and those that it may call, over A2A.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct A2aConfig {
    /// Whether agents may call at `/a2a` where the HTTP API is served over TCP.
    pub enabled: bool,
    /// How they say who they are.
    pub auth: A2aAuth,
    /// Where messages without a contextId belong.
    pub default_context: DefaultContext,
    /// The name on the agent card.
    #[schemars(length(min = 1))]
    pub name: String,
    /// What the agent card says that this agent does.
    #[schemars(length(min = 1))]
    pub description: String,
    /// Origins (scheme, host and port) that may be called for agents although they are not https or not public.
    pub allow_origins: Vec<String>,
    /// What is different for single peers, one table each. A peer needs none: `peers add` makes one.
    pub peers: Vec<PeerConfig>,
    /// Agents that Codex may ask, one table each.
    pub agents: Vec<AgentConfig>,
    /// Whose turns may ask them. With "peer" among them, what one agent sends can become a question to another.
    pub tool_tiers: Vec<Tier>,
}

/// Where messages without a contextId belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DefaultContext {
    /// Each begins a conversation of its own.
    #[default]
    New,
    /// To one conversation of their sender, which remembers.
    PerPeer,
}

/// What is different for one peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PeerConfig {
    /// The name of its token.
    #[schemars(length(min = 1))]
    pub name: String,
    /// What its turns may do.
    pub tier: Tier,
    /// How many turns its messages may begin within 24 hours; then they wait. Without it what its tier says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = TURNS_PER_DAY_MAX))]
    pub turns_per_day: Option<u32>,
    /// How many tokens, read and written, they may use within 24 hours. Without it what its tier says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1, max = TOKENS_PER_DAY_MAX))]
    pub tokens_per_day: Option<u64>,
    /// How many bytes its messages may take on disk within 24 hours, with their files. Without it what its tier says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1, max = BYTES_PER_DAY_MAX))]
    pub bytes_per_day: Option<u64>,
}

/// One agent that Codex may ask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// What Codex knows it by: letters, digits, dots, `-` and `_`.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Where it is: where its agent card lies, or the agent itself.
    #[schemars(length(min = 1))]
    pub url: String,
    /// A file of mode 0600 with the token that it gave us.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", length(min = 1))]
    pub token_file: Option<PathBuf>,
}

impl Default for A2aConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            auth: A2aAuth::Tokens,
            default_context: DefaultContext::New,
            name: "Codex".to_owned(),
            description: "OpenAI Codex behind codex-bridge: reads and writes code, runs commands in a sandbox, \
                          and answers questions about both."
                .to_owned(),
            allow_origins: Vec::new(),
            peers: Vec::new(),
            agents: Vec::new(),
            tool_tiers: vec![Tier::Owner, Tier::Tool],
        }
    }
}

impl Default for PeerConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            tier: Tier::Peer,
            turns_per_day: None,
            tokens_per_day: None,
            bytes_per_day: None,
        }
    }
}

impl A2aConfig {
    /// What is different for the peer of this name.
    pub(crate) fn peer_config(&self, name: &str) -> Option<&PeerConfig> {
        self.peers.iter().find(|peer| peer.name == name)
    }

    /// What peers by name may use within a day, where it is not what their tier may.
    pub(super) fn budgets(
        &self,
        tiers: &[(Tier, DayBudget)],
    ) -> Vec<(ChannelId, String, DayBudget)> {
        let own = |peer: &&PeerConfig| {
            let counted = [peer.tokens_per_day, peer.bytes_per_day];
            peer.turns_per_day.is_some() || counted.iter().any(Option::is_some)
        };
        let peers = self.peers.iter().filter(own);
        peers
            .map(|peer| {
                let tier = tiers.iter().find(|(tier, _)| *tier == peer.tier);
                let usual = tier.map(|(_, budget)| *budget).unwrap_or_default();
                let budget = DayBudget {
                    turns: peer.turns_per_day.map(u64::from).or(usual.turns),
                    tokens: peer.tokens_per_day.or(usual.tokens),
                    bytes: peer.bytes_per_day.or(usual.bytes),
                };
                (ChannelId::new(CHANNEL), peer.name.clone(), budget)
            })
            .collect()
    }

    /// Files that hold what other agents gave us.
    pub(super) fn token_files(&self) -> impl Iterator<Item = &Path> {
        let agents = self.agents.iter();
        agents.filter_map(|agent| agent.token_file.as_deref())
    }
}

/// What is wrong with the values.
pub(super) fn problems(config: &Config, origins: &ValueOrigins) -> Vec<ConfigProblem> {
    let a2a = &config.a2a;
    let mut found = Vec::new();
    let mut say = |key: &str, what: String| found.extend(origins.problem(key, what));
    if let Some(what) = refuse_auth(config) {
        say("a2a.auth", what);
    }
    for origin in &a2a.allow_origins {
        if let Err(refusal) = check_origin(origin) {
            let what = format!(
                "holds {origin:?}, which is no origin ({refusal}); write something like \"http://127.0.0.1:9000\""
            );
            say("a2a.allow_origins", what);
        }
    }
    let peers: Vec<&str> = a2a.peers.iter().map(|peer| peer.name.as_str()).collect();
    for (at, what) in refuse_names(&peers) {
        say(&format!("a2a.peers.{at}.name"), what);
    }
    let agents: Vec<&str> = a2a.agents.iter().map(|agent| agent.name.as_str()).collect();
    for (at, what) in refuse_names(&agents) {
        say(&format!("a2a.agents.{at}.name"), what);
    }
    for (at, agent) in a2a.agents.iter().enumerate() {
        let https = agent.url.starts_with("https://") || agent.url.starts_with("http://");
        if !https
            || agent
                .url
                .chars()
                .any(|c| c.is_whitespace() || c.is_control())
        {
            let what = format!(
                "is {:?}, and no URL; write something like \"https://agent.example\"",
                agent.url
            );
            say(&format!("a2a.agents.{at}.url"), what);
        }
        if let Some(file) = agent.token_file.as_deref()
            && !file.is_absolute()
        {
            let what = format!("names {}, which is no absolute path", file.display());
            say(&format!("a2a.agents.{at}.token_file"), what);
        }
    }
    found
}

/// What an operator should know at every start.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let open = config.a2a.enabled && config.a2a_auth() == A2aAuth::None;
    let warning = "a2a.auth is \"none\": every program on this machine may give Codex work as the peer `anonymous`";
    open.then(|| warning.to_owned()).into_iter().collect()
}

/// Without tokens nobody on the way may be able to reach it, nor anybody behind a proxy.
fn refuse_auth(config: &Config) -> Option<String> {
    let http = &config.http;
    let reached = http
        .address()
        .is_some_and(|address| !address.ip().to_canonical().is_loopback());
    let proxied = http.trusted_proxy || http.public_url.is_some() || !http.trusted_hosts.is_empty();
    let open = config.a2a.auth == A2aAuth::None && (reached || proxied);
    open.then(|| {
        "is \"none\", so that everybody who reaches this machine could give Codex work; it is for 127.0.0.1 alone, \
         without http.trusted_proxy, http.public_url and http.trusted_hosts; take it out, and give each agent a token \
         with `codex-bridge peers add NAME`"
            .to_owned()
    })
}

/// Names that can't be one, or are there twice.
fn refuse_names(names: &[&str]) -> Vec<(usize, String)> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let refuse = |(at, name): (usize, &&str)| {
        let is_name = !name.is_empty()
            && name.len() <= NAME_MAX_CHARS
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(fits);
        let twice = names.iter().take(at).any(|other| other == name);
        let what = format!(
            "is {name:?}; give each a name of its own, of letters, digits, dots, `-` and `_`"
        );
        (!is_name || twice).then_some((at, what))
    };
    names.iter().enumerate().filter_map(refuse).collect()
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
    fn threat_1_remote_a2a_requires_token() {
        for beside in [
            "http.listen = '0.0.0.0:1'\nhttp.trusted_proxy = true",
            "http.listen = '127.0.0.1:1'\nhttp.trusted_proxy = true",
            "http.public_url = 'https://bridge.example'",
            "http.trusted_hosts = ['bridge.lan']",
            "http.listen = '192.168.0.2:80'",
        ] {
            let said = judge(&format!("{beside}\na2a.auth = 'none'"));
            assert_eq!(said.len(), 1, "{beside}: {said:?}");
            assert!(said[0].contains("peers add"), "{said:?}");
            assert!(judge(&format!("{beside}\na2a.auth = 'tokens'")).is_empty());
        }
        assert!(judge("http.listen = '127.0.0.1:0'\na2a.auth = 'none'").is_empty());
        assert!(judge("http.listen = '[::1]:0'\na2a.auth = 'none'").is_empty());
    }

    #[test]
    fn it_is_warned_of() {
        let warned = |text: &str| warnings(&read(text).unwrap().0).len();
        assert_eq!(warned("a2a.auth = 'none'\nhttp.listen = '127.0.0.1:0'"), 1);
        assert_eq!(warned("a2a.auth = 'none'"), 0);
        assert_eq!(warned("http.listen = '127.0.0.1:0'"), 0);
    }

    /// The console is on by default, and nobody asked for its port to be open.
    #[test]
    fn threat_1_console_port_takes_no_anonymous() {
        let of = |text: &str| {
            let config = read(text).unwrap().0;
            (config.may_serve_tcp(), config.a2a_auth())
        };
        let built = bridge_front::CONSOLE_IS_BUILT;
        assert_eq!(of("a2a.auth = 'none'"), (built, A2aAuth::Tokens));
        assert_eq!(of("console.enabled = false"), (false, A2aAuth::Tokens));
        let asked = of("a2a.auth = 'none'\nhttp.listen = '127.0.0.1:0'");
        assert_eq!(asked, (true, A2aAuth::None));
    }

    #[test]
    fn rejects_invalid_a2a_settings() {
        for (text, says) in [
            ("a2a.allow_origins = ['http://h/x']", "no origin"),
            ("[[a2a.peers]]\nname = 'a b'", "of its own"),
            ("[[a2a.peers]]\nname = '-a'", "of its own"),
            (
                "[[a2a.agents]]\nname = 'a'\nurl = 'agent.example'",
                "no URL",
            ),
            (
                "[[a2a.agents]]\nname = 'a'\nurl = 'https://x'\ntoken_file = 'here'",
                "absolute",
            ),
        ] {
            let said = judge(text);
            assert_eq!(said.len(), 1, "{text}: {said:?}");
            assert!(said[0].contains(says), "{text}: {said:?}");
        }
        let twice = "[[a2a.peers]]\nname = 'a'\n";
        assert_eq!(judge(&twice.repeat(2)).len(), 1);
        assert!(judge(twice).is_empty());
    }
}
