//! The client of `api.sock`: the commands that need a running daemon.

mod api;
mod ask;
mod console;
mod control;
mod daemon;
mod dead;
#[cfg(feature = "demo")]
mod demo;
mod find;
mod interrupt;
mod lend;
mod log;
mod ls;
mod markdown;
mod message;
mod names;
mod nodes;
mod output;
mod page;
mod quota;
mod rehearse;
mod screen;
mod send;
mod show;
mod sse;
mod status;
mod watch;
mod work;

pub(crate) use api::{ApiClient, ClientError, MCP_VERSION, RETRY_MAX, RETRY_MIN, SUBMIT_PATIENCE};
pub(crate) use ask::Keyboard;
pub(crate) use console::console;
pub(crate) use control::PeerList;
pub(crate) use control::control;
use control::task_status;
pub(crate) use daemon::offer_daemon;
pub(crate) use dead::{Dropped as DiscardReport, Redriven as RetryReport, dead};
#[cfg(feature = "demo")]
pub(crate) use demo::ApiDemoClient;
pub(crate) use interrupt::{StopReport, stop};
pub(crate) use lend::{give_back, lend};
pub(crate) use log::log;
pub(crate) use ls::ls;
pub(crate) use names::names;
pub(crate) use nodes::{move_conversation, node};
pub(crate) use output::{
    EXIT_INTERRUPTED, EXIT_LATER, EXIT_STOPPED, ErrorReport, Failed, exit_code, failure_code,
    failure_words, print, print_error, print_json, say, say_titled,
};
pub(crate) use page::{PLAIN, Page};
pub(crate) use rehearse::{RehearsalView, run as rehearse};
pub(crate) use screen::{OutputStream, Screen, stdout_width};
pub(crate) use send::{SendOptions, send};
pub(crate) use show::{reload, show, why};
pub(crate) use status::status;
pub(crate) use watch::WatchLine;
pub(crate) use work::{uploads, whole_path};

/// The time now, in milliseconds since the epoch.
fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
