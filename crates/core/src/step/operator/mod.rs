//! What people do, and the daemon's own housekeeping: stop, send again, give up, tokens, records.

mod cancel;
mod records;
mod redrive;
mod session;
mod token;

pub use cancel::{Cancel, CancelOutcome, SenderStopped, StopCause, StopSender};
pub use records::{Incarnate, IncarnationGone, Keep, Prune, Record};
pub use redrive::{Discard, Redrive, RedriveOutcome};
pub use session::{AddLogin, LoginAdded, OpenSession};
pub use token::{AddToken, RevokeToken, TokenAdded, UseToken};
