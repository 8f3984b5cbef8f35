//! What the operator decided: the environment, the file `codex-bridge.toml`, and what both amount to.
//!
//! Nothing else in the program reads the environment or the file; everything else is given what it needs.
//! A key exists here once, as a field of [`Config`]: the schema, the checks, `config check` and the
//! documented example all follow from it.

mod a2a;
mod alerts;
mod check;
mod draft;
mod environment;
mod error;
mod file;
mod fleet;
mod http;
mod keys;
mod load;
mod loop_guard;
mod molecule;
mod parse;
mod protected_paths;
mod quota;
mod rules;
mod schema;
mod senders;
mod tasks;
mod telemetry;
mod tiers;
mod validate;

pub use a2a::{A2aConfig, AgentConfig, DefaultContext};
pub(crate) use alerts::AlertConfig;
pub use check::{ConfigReport, differing, in_force, print_schema, report};
pub use draft::ConfigDraft;
pub use environment::{Environment, ServiceManagerVars};
pub use error::{ConfigError, ConfigProblem};
pub use file::usual as usual_file;
pub(crate) use fleet::is_node_name;
pub use fleet::{FleetConfig, LedgerConfig, LedgerUrl, OnNodeLost};
pub use http::{CONSOLE_ADDRESS, HttpConfig};
pub use keys::{Config, DaemonConfig, GroupScope, LogFormat};
pub use load::{Loaded, load, load_text};
pub use molecule::Workspace;
pub use protected_paths::ProtectedPaths;
pub use rules::KindKey;
pub(crate) use telemetry::TelemetryConfig;
pub use tiers::{TierConfig, Tiers};

#[cfg(test)]
mod tests;
