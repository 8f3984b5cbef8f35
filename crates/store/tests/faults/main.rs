//! The ledger under faults, one file per row of the fault matrix: a full disk, a locked file, damage, power loss, an
//! unknown commit, slow and long company; and what mends it: backup and recover.
//!
//! K15, a kill in the middle of a migration, is beside the migrations, because it needs one that is made up.

#[cfg(test)]
mod backup;
#[cfg(test)]
mod d9_links;
#[cfg(test)]
mod f1_secrets;
#[cfg(test)]
#[allow(
    dead_code,
    reason = "shared with the ledger's tests, which use other parts of it"
)]
#[path = "../ledger/given.rs"]
mod given;
#[cfg(test)]
mod recover;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod s10_slow;
#[cfg(test)]
mod s1_disk_full;
#[cfg(test)]
mod s2_locked;
#[cfg(test)]
mod s3_flipped;
#[cfg(test)]
mod s4_not_writable;
#[cfg(test)]
mod s5_power_loss;
#[cfg(test)]
mod s7_unknown_commit;
#[cfg(test)]
mod s8_recomputed;
#[cfg(test)]
mod s9_long_reader;
#[cfg(test)]
mod threat_28_audit;
#[cfg(test)]
#[path = "../ledger/view.rs"]
mod view;
