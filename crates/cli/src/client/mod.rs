//! The command line's side of `api.sock`: find the running daemon, ask it, follow a message through restarts.

mod api;
mod ask;
mod control;
mod dead;
#[cfg(feature = "demo")]
mod demo;
mod interrupt;
mod progress;
mod redrive;
mod reload;
mod scene;
mod screen;
mod send;
mod show;
mod sse;
mod status;
mod story;
mod watch;

pub(crate) use api::{ApiClient, ClientError};
pub(crate) use control::{control, interrupt_task, is_task, task_status};
pub(crate) use dead::{drop_dead, list_dead, show_dead};
#[cfg(feature = "demo")]
pub(crate) use demo::Client as DemoClient;
pub(crate) use interrupt::interrupt;
pub(crate) use redrive::{Redriving, redrive};
pub(crate) use reload::reload;
pub(crate) use send::{RETRY_MAX, RETRY_MIN, SUBMIT_PATIENCE, SendOptions, send};
pub(crate) use show::{show, why};
pub(crate) use sse::SseReader;
pub(crate) use status::status;
