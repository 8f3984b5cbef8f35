//! The keys of `[ledger]` and `[fleet]`: where the database is, and what daemons that share one do for each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Shorter than this, a busy machine would lose its conversations to others.
const LEASE_MIN_SECS: u64 = 3;
/// Longer than this, people would wait for nothing.
const LEASE_MAX_SECS: u64 = 600;
/// Longer than this, nobody would see that a drain still goes on.
const LEAVE_MAX_SECS: u64 = 600;
/// Longest name of a node.
const NODE_MAX_CHARS: usize = 64;

/// Where the database is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LedgerConfig {
    /// A PostgreSQL database, such as "postgres://bridge@db.example/bridge?sslmode=verify-full"; several daemons may share
    /// it. Without it the database is a file in the state directory. CODEX_BRIDGE_LEDGER_URL goes before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub url: Option<LedgerUrl>,
    /// A file of mode 0600 with the password of that database, by its absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", length(min = 1))]
    pub password_file: Option<PathBuf>,
}

/// The address of a database. It may hold a password, so it is shown without.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct LedgerUrl(String);

impl LedgerUrl {
    pub(crate) fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The whole address, for whoever connects.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The password in it.
    pub(super) fn password(&self) -> Option<&str> {
        let (user, _host) = self.authority()?.rsplit_once('@')?;
        let (_name, password) = user.split_once(':')?;
        Some(password)
    }

    fn authority(&self) -> Option<&str> {
        let (_scheme, rest) = self.0.split_once("://")?;
        rest.split(['/', '?']).next()
    }

    fn shown(&self) -> String {
        match self.password() {
            Some(password) if !password.is_empty() => {
                self.0.replacen(&format!(":{password}@"), ":***@", 1)
            }
            Some(_) | None => self.0.clone(),
        }
    }
}

impl fmt::Debug for LedgerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl Serialize for LedgerUrl {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.shown())
    }
}

/// Daemons that share one database. These keys count only where `ledger.url` names one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FleetConfig {
    /// The name of this node, unlike any other: letters, digits, `-`, `_` and `.`. Without it one is made at the first start
    /// and kept in the state directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = NODE_MAX_CHARS))]
    pub node: Option<String>,
    /// How long a node may be silent, in seconds, before the others take its conversations over. It ends its Codex before.
    #[schemars(range(min = LEASE_MIN_SECS, max = LEASE_MAX_SECS))]
    pub lease_secs: u64,
    /// How long a drained node serves on, in seconds, after `/readyz` began to answer 503: longer than load balancers take to
    /// see it.
    #[schemars(range(max = LEAVE_MAX_SECS))]
    pub leave_secs: u64,
    /// Whether working directories are on storage that all nodes have under the same paths.
    pub shared_workdir: bool,
    /// What becomes of a conversation that wrote files on a node that is gone, where directories are not shared.
    pub on_node_lost: OnNodeLost,
}

/// What becomes of a conversation that wrote files on a node that is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnNodeLost {
    /// It waits until that node is back, or a person moves it.
    #[default]
    Wait,
    /// It goes on elsewhere without those files; Codex and the sender are told.
    Continue,
}

impl Default for FleetConfig {
    fn default() -> Self {
        Self {
            node: None,
            lease_secs: 10,
            leave_secs: 10,
            shared_workdir: false,
            on_node_lost: OnNodeLost::default(),
        }
    }
}

impl FleetConfig {
    /// Whether a conversation that wrote files waits for a node that is gone.
    pub(crate) fn leaves_written(&self) -> bool {
        !self.shared_workdir && self.on_node_lost == OnNodeLost::Wait
    }

    /// What is wrong with it, each with its key.
    pub(super) fn problems(&self) -> Option<(&'static str, String)> {
        let node = self.node.as_deref().filter(|node| !is_node_name(node))?;
        let what = format!(
            "is {node:?}; write letters, digits, `-`, `_` and `.`, at most {NODE_MAX_CHARS} of them"
        );
        Some(("fleet.node", what))
    }
}

/// Whether a text can be a node's name, which is shown and logged unescaped.
pub(crate) fn is_node_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty()
        && name.len() <= NODE_MAX_CHARS
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_addresses_are_not_shown() {
        let url = LedgerUrl::new("postgres://bridge:hunter2@db.example/bridge?host=/run");
        assert_eq!(url.password(), Some("hunter2"));
        assert!(!format!("{url:?}").contains("hunter2"));
        assert!(!serde_json::to_string(&url).unwrap().contains("hunter2"));
        assert_eq!(LedgerUrl::new("postgres://bridge@db/x").password(), None);
        assert_eq!(LedgerUrl::new("nothing").password(), None);
    }

    #[test]
    fn names_of_nodes_are_plain() {
        for good in ["a", "node-1", "db.example_2"] {
            assert!(is_node_name(good), "{good}");
        }
        for bad in ["", "-a", "a b", "a/b", "\u{e4}", &"a".repeat(65)] {
            assert!(!is_node_name(bad), "{bad}");
        }
    }
}
