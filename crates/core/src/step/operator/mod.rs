//! What people and the daemon's own housekeeping do: stop, send again, give up, tokens, records.

mod cancel;
mod import_tasks;
mod records;
mod redrive;
mod token;

pub use cancel::{Cancel, CancelOutcome, SenderStopped, StopCause, StopSender};
pub use import_tasks::{ImportTasks, OldEvent, OldTask};
pub use records::{
    Adopted, Import, Imported, Incarnate, IncarnationGone, Keep, Prune, Record, regenerate,
};
pub use redrive::{Discard, Redrive, RedriveOutcome};
pub use token::{AddToken, RevokeToken, TokenAdded, UseToken};
