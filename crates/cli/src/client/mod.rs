//! The client of `api.sock`: the commands that need a running daemon.

mod api;
mod ask;
mod control;
mod daemon;
mod dead;
#[cfg(feature = "demo")]
mod demo;
mod interrupt;
mod markdown;
mod message;
mod output;
mod screen;
mod send;
mod show;
mod sse;
mod watch;
mod work;

pub(crate) use api::{ApiClient, ClientError, MCP_VERSION, RETRY_MAX, RETRY_MIN, SUBMIT_PATIENCE};
pub(crate) use control::{control, task_status};
pub(crate) use daemon::offer_daemon;
pub(crate) use dead::dead;
#[cfg(feature = "demo")]
pub(crate) use demo::ApiDemoClient;
pub(crate) use interrupt::interrupt;
pub(crate) use output::{EXIT_INTERRUPTED, EXIT_LATER, EXIT_STOPPED, exit_code, print, print_json};
pub(crate) use send::{SendOptions, send};
pub(crate) use show::{reload, show, status, why};
pub(crate) use work::{uploads, whole_path};
