//! The MCP server: the legacy tool `codex_bridge`, small tools, and tasks as resources.
//!
//! One handler serves both transports, stdio and `/mcp`. Behind `/mcp` calls become [`ControlAction`](crate::ControlAction)s, which
//! [`Control`](crate::Control) authorises and performs. A stdio server is a proxy: its [`Backend`] forwards to `/mcp`.

mod codex_bridge;
mod resources;
mod server;
mod summary;
mod tools;
mod transport;
mod wait;

#[cfg(test)]
mod tests;

pub use server::{Backend, DIRECTORY_META, refused};
pub use tools::CallTraits;
pub use transport::{route, serve_stdio};
