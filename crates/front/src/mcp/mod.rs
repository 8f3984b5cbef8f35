//! The MCP server: the legacy tool `codex_bridge`, small tools, and tasks as resources.
//!
//! One handler serves both transports, stdio and `/mcp`. Behind `/mcp` calls become [`Act`](crate::Act)s, which
//! [`Control`](crate::Control) authorises and performs. A stdio server is a proxy: its [`Backend`] forwards to `/mcp`.

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

pub use server::{Backend, refused};
pub use small::CallTraits;
pub use transport::{route, serve_stdio};
