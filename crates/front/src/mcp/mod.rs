//! The MCP server: the legacy tool `codex_bridge`, small tools, and tasks as resources.
//!
//! One handler serves both transports, stdio and `/mcp`. It turns calls into [`Act`](crate::Act)s;
//! [`Control`](crate::Control) authorises and performs them.

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
