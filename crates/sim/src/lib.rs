//! What stands in for the world: in tests, in `codex-bridge demo` and in drills.
//! The scripted model is the part of the OpenAI Responses API that Codex uses; Molecule in a box is where messages come
//! from and replies go to; the history says from outside whether every promise was kept.
//! Nothing here may be reached from the daemon's own path of a message.

mod agent;
pub mod bend;
mod clock;
mod codex;
pub mod drill;
mod error;
pub mod history;
mod model;
pub mod molecule;
pub mod postgres;
mod random;
mod serving;
mod talks;

pub use agent::{Ground as PeerGround, Heard, PeerAgent, Task as PeerTask};
pub use codex::{CODEX_BIN_VAR, codex_for_tests};
pub use error::Error;
pub use model::{Options, Quota, ScriptedModel, Seen};
pub use random::Dice;
pub use talks::{NEW, NEW_SAYS, SinkKind, Talks, TalksOptions};
