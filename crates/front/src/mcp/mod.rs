//! The MCP server: the ancestor's tool `codex_bridge`, small tools beside it, and tasks as resources.
//!
//! One handler for both transports, stdio and `/mcp`; it turns calls into [`Act`](crate::Act)s and knows
//! no task, no ledger and no Codex. Who may do what is decided by [`Control`](crate::Control).

mod arguments;
mod brief;
mod codex_bridge;
mod resources;
mod server;
mod sessions;
mod small;
mod transport;
mod wait;

#[cfg(test)]
mod tests;

pub use transport::{route, serve_stdio};
