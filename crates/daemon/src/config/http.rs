//! The keys of the HTTP API over TCP and of the console behind it. `api.sock` needs none.

use super::Config;
use bridge_front::A2aAuth;
use bridge_front::api::Hosts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The HTTP API over TCP, for holders of a token. Without `listen` there is only `api.sock`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Address and port to listen on, such as "127.0.0.1:4141"; port 0 picks a free one, and the file `listen` in
    /// the state directory says which. CODEX_BRIDGE_LISTEN and --listen go before it. Another address than one of
    /// this machine alone needs `trusted_proxy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub listen: Option<String>,
    /// Where people reach it through a proxy, such as "https://bridge.example".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub public_url: Option<String>,
    /// Hosts that requests may name beside this machine's own names and that of `public_url`, with their port if they
    /// have one. A request that names another host, or comes from a page of another, is refused.
    pub trusted_hosts: Vec<String>,
    /// Whether a proxy of yours with TLS stands in front of it, sets X-Forwarded-For, and is the only one that
    /// can reach it.
    pub trusted_proxy: bool,
}

/// Where `codex-bridge console` listens without `http.listen`: always the same, so that a bookmark works.
pub const CONSOLE_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4141);

/// The console, a page in the browser. `codex-bridge console` opens it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConsoleConfig {
    /// Whether it is served. Without `http.listen` the daemon listens on 127.0.0.1:4141 once somebody opens it, and as
    /// long as somebody is signed in.
    pub enabled: bool,
}

impl Default for ConsoleConfig {
    fn default() -> Self {
        Self { enabled: true }
    }
}

impl Config {
    /// Whether tokens and sessions may come in over TCP: at the address that was asked for, or at the console's own.
    #[must_use]
    pub fn may_serve_tcp(&self) -> bool {
        self.http.listen.is_some() || (bridge_front::CONSOLE_IS_BUILT && self.console.enabled)
    }

    /// How other agents say who they are. Nobody asked for a port without `http.listen`, so that the console's own never
    /// takes calls of `anonymous`.
    #[must_use]
    pub fn a2a_auth(&self) -> A2aAuth {
        match self.http.listen {
            Some(_) => self.a2a.auth,
            None => A2aAuth::Tokens,
        }
    }
}

impl HttpConfig {
    /// The address, if it is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listen.as_deref()?.parse().ok()
    }

    /// What is wrong with it, each with its key.
    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        if let Some(listen) = &self.listen {
            found.extend(self.refuse(listen).map(|what| ("http.listen", what)));
        }
        if let Err(error) = Hosts::new(0, &self.trusted_hosts, None) {
            found.push(("http.trusted_hosts", format!("can't be used: {error}")));
        }
        if let Err(error) = Hosts::new(0, &[], self.public_url.as_deref()) {
            found.push(("http.public_url", format!("can't be used: {error}")));
        }
        found
    }

    fn refuse(&self, listen: &str) -> Option<String> {
        let Ok(address) = listen.parse::<SocketAddr>() else {
            return Some(format!(
                "is {listen:?}, and not an address with a port; write one such as \"127.0.0.1:4141\" or \"[::1]:0\""
            ));
        };
        (!address.ip().to_canonical().is_loopback() && !self.trusted_proxy).then(|| {
            format!(
                "is {listen}, which others on the network can reach, and there tokens would travel in plain text; \
                 listen on 127.0.0.1 and put a proxy with TLS in front of it, or set http.trusted_proxy = true \
                 if only such a proxy can reach this address"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(listen: &str, proxy: bool) -> usize {
        let config = HttpConfig {
            listen: Some(listen.to_owned()),
            trusted_proxy: proxy,
            ..HttpConfig::default()
        };
        config.problems().len()
    }

    #[test]
    fn threat_1_public_listen_requires_trusted_proxy() {
        for own in [
            "127.0.0.1:0",
            "127.8.9.1:80",
            "[::1]:4141",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert_eq!(problems(own, false), 0, "{own}");
        }
        for others in [
            "0.0.0.0:80",
            "[::]:80",
            "192.168.0.2:80",
            "[::ffff:10.0.0.1]:1",
        ] {
            assert_eq!(problems(others, false), 1, "{others}");
            assert_eq!(problems(others, true), 0, "{others}");
        }
        for none in ["localhost:80", "80", ":80", "127.0.0.1", ""] {
            assert_eq!(problems(none, true), 1, "{none}");
        }
    }

    #[test]
    fn names_are_judged_where_they_are_written() {
        let config = HttpConfig {
            public_url: Some("bridge.example".to_owned()),
            trusted_hosts: vec!["a b".to_owned()],
            ..HttpConfig::default()
        };
        let keys: Vec<_> = config.problems().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["http.trusted_hosts", "http.public_url"]);
    }
}
