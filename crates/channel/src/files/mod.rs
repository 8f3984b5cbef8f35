//! Files that travel with messages and answers: our own copies of them ([`FileStore`]), how they reach the working
//! directory ([`place`]) and how they come back from it ([`Outbox`]).
//!
//! Nothing here knows a platform; fetching and uploading is each channel's own business.

mod file_store;
mod held_directory;
mod media_type;
mod name;
mod outbox;
mod pending;
mod place;

pub use file_store::{Bundle, Draft, FileStore, FileStoreError, SWEEP_GRACE, StoredFile};
pub use name::{Names, clean};
pub use outbox::{Aside, Gathered, Outbox, outbox_of};
pub use pending::PendingCopies;
pub use place::{PlaceError, place};

/// Longest file, unless the operator says otherwise.
pub const FILE_MAX_BYTES: u64 = 25 << 20;
/// Files of one message or answer; platforms take no more.
pub const MESSAGE_MAX_FILES: usize = 10;
/// Tries of a reply with its files; after them its text goes, with those that can be had.
pub const FILE_TRIES_MAX: u32 = 4;
/// All files of one message or answer together.
pub const MESSAGE_MAX_BYTES: u64 = 100 << 20;
