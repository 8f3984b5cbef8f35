//! What stands in for the world: in tests, in `codex-bridge demo` and in drills.
//! Today that is the scripted model, the part of the OpenAI Responses API that Codex uses,
//! and the finder of the Codex binary that tests drive.
//! Nothing here may be reached from the daemon's own path of a message.

mod codex;
mod error;
mod model;

pub use codex::{CODEX_BIN_VAR, codex_for_tests};
pub use error::Error;
pub use model::{Options, ScriptedModel, Seen};
