//! The MCP server: the ancestor's tool `codex_bridge`, small tools beside it, and tasks as resources.
//!
//! One handler for both transports, stdio and `/mcp`. Behind `/mcp` calls become [`Act`](crate::Act)s, and
//! [`Control`](crate::Control) decides who may do what. A stdio server is a proxy: its [`Backend`] forwards to `/mcp`.

mod arguments;
mod brief;
mod codex_bridge;
mod http;
mod resources;
mod server;
mod sessions;
mod small;
mod stdio;
mod wait;

#[cfg(test)]
mod tests;

pub use http::route;
pub use server::{Backend, refused};
pub use small::CallTraits;
pub use stdio::serve_stdio;
