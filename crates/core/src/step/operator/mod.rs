//! What people do, and the daemon's own housekeeping: stop, send again, give up, tokens, records.

mod cancel;
mod prune;
mod records;
mod redrive;
mod session;
mod token;

pub use cancel::{Cancel, CancelOutcome, SenderStopped, StopCause, StopSender};
pub use prune::{PruneThreads, ThreadDeleted};
pub use records::{Incarnate, IncarnationGone, Keep, Prune, Record};
pub use redrive::{Discard, REDRIVE_REASON, Redrive, RedriveOutcome};
pub use session::{AddLogin, LoginAdded, OpenSession, login_of};
pub use token::{AddToken, RevokeToken, TokenAdded, UseToken};
