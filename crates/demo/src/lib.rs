//! The commands `demo` and `drill`: the whole bridge on one machine, with a scripted model and a platform in a box.
//!
//! The simulators are in `bridge_sim`. The binary links this crate behind its feature `demo`.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod args;
mod demo;
mod drill;
mod machine;
mod strays;

pub use args::{DemoArgs, DrillArgs, DrillSink, DrillTransport};
pub use demo::run as demo;
pub use drill::{DrillView, run as drill};

use bridge_front::StartArgs;
use std::path::Path;
use std::time::Duration;

/// A client of one daemon that shows progress on the terminal, as the commands `send` and `watch` do. The binary
/// implements it; this crate can't depend on the binary.
#[expect(
    async_fn_in_trait,
    reason = "the demo awaits every call in place, on one task"
)]
pub trait DemoClient: Sized {
    /// A client of the daemon of a state directory.
    ///
    /// # Errors
    ///
    /// No daemon answers there.
    fn connect(state_dir: &Path, no_color: bool) -> anyhow::Result<Self>;

    /// Sends a message, shows its progress and returns the text of its answer.
    ///
    /// # Errors
    ///
    /// It was not answered within `patience`.
    async fn send(
        &self,
        conversation: &str,
        text: &str,
        patience: Duration,
    ) -> anyhow::Result<String>;

    /// Sends a message and does not wait for its answer.
    ///
    /// # Errors
    ///
    /// The daemon refused it.
    async fn submit(&self, conversation: &str, text: &str) -> anyhow::Result<()>;

    /// The console's address, which signs one browser in.
    ///
    /// # Errors
    ///
    /// This daemon serves none.
    async fn console(&self) -> anyhow::Result<String>;

    /// Starts a task and returns its id.
    ///
    /// # Errors
    ///
    /// The daemon refused it.
    async fn start_task(&self, args: &StartArgs) -> anyhow::Result<String>;

    /// Shows a task until it ends, and returns the text of its answer, if it has one. The first thing that it asks is
    /// shown, then `say_yes` is told its code, then it is accepted.
    ///
    /// # Errors
    ///
    /// The daemon refused the decision or went away.
    async fn watch_task(
        &self,
        task_id: &str,
        say_yes: impl FnOnce(&str),
    ) -> anyhow::Result<Option<String>>;
}
