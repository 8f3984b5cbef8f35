//! The state directory, the room on its disk, whether a daemon has it, and the ledger in it.

use super::database;
use super::report::{Check, DoctorReport, Topic};
use crate::audit::{signed, verdict};
use crate::client::ApiClient;
use bridge_core::value::AuditFound;
use bridge_daemon::config::{Config, Environment};
use bridge_daemon::ledger_key::{KeyLocation, KeyNotFound};
use bridge_daemon::state::StateDir;
use bridge_daemon::term;
use bridge_store::key::KeyError;
use bridge_store::sqlite::{
    AuditRecord, Depth, Inspection, SealedPushes, audit, audit_signer, inspect, sealed_pushes,
};
use bridge_store::{AuditPublicKey, LedgerKey};
use nix::sys::statvfs::statvfs;
use std::error::Error;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Room below which the ledger and Codex's own files are too near to a full disk.
const FREE_MIN_BYTES: u64 = 512 * 1024 * 1024;
const MIB: u64 = 1024 * 1024;

/// What to do about a key that is not where it was looked for.
const NOT_HERE_FIX: &str = "nothing, if the service has it as a credential (`LoadCredential=`), which only the service can see; else put it back before the daemon starts: with another key the credentials of push notifications can't be read, and the record goes on under another signature";

/// Begins the name of the doctor's directory in the state directory.
const SCRATCH_PREFIX: &str = ".doctor-";

/// Looks at the state directory, and returns where the doctor may work: in it, or in the nearest directory above one that
/// is still to be made. `None` where the daemon could not use it either.
pub(super) async fn prepare(
    environment: &Environment,
    explicit: Option<&Path>,
    config: &Config,
    report: &mut DoctorReport,
) -> Option<PathBuf> {
    let topic = Topic("state", "state directory");
    let root = match environment.state_dir(explicit) {
        Ok(root) => root,
        Err(error) => {
            report.add(topic.of_error(&error));
            return None;
        }
    };
    if let Err(forbidden) = StateDir::existing(&root).may_enter() {
        report.add(topic.fail(forbidden.to_string(), "see above"));
        return None;
    }
    if !root.exists() {
        let above = root.ancestors().find(|above| above.is_dir());
        let above = above.unwrap_or(Path::new("/")).to_owned();
        report.add(topic.ok(format!(
            "{} is not there yet; the daemon makes it",
            root.display()
        )));
        report.add(disk(&above));
        report.add(daemon(&StateDir::existing(&root)).await);
        return Some(above);
    }
    let state = match StateDir::prepare(&root) {
        Ok(state) => state,
        Err(error) => {
            let fix = "mend that, or name another with --state-dir or CODEX_BRIDGE_STATE_DIR";
            report.add(topic.fail(error.to_string(), fix));
            return None;
        }
    };
    report.add(place(state.root(), &environment.temporary_dirs()));
    report.add(disk(state.root()));
    report.add(daemon(&state).await);
    let key_file = config.daemon.key_file.as_deref();
    let place = KeyLocation::of(key_file, environment.credentials_dir(), &state);
    let loaded = place.load();
    match bridge_daemon::database_url(config) {
        Ok(Some(url)) => database::check(&url, &place, &loaded, report),
        Ok(None) => file(&state.ledger(), &place, &loaded, report),
        Err(error) => report.add(Topic("ledger", "database").of_error(error.as_ref())),
    }
    Some(state.root().to_owned())
}

/// The database in the state directory, its key and its record.
fn file(
    path: &Path,
    place: &KeyLocation,
    loaded: &Result<LedgerKey, KeyError>,
    report: &mut DoctorReport,
) {
    report.add(ledger(path));
    report.add(match audit_signer(path) {
        Ok(signer) => {
            key(signer, place, loaded).map_or_else(|check| check, |key| readable(path, place, key))
        }
        Err(error) => KEY.of_error(&error),
    });
    let public = loaded.as_ref().ok().map(LedgerKey::public);
    report.add(record(audit(path, 1, public.as_ref())));
}

/// A directory of the doctor's own, gone when it is dropped. It lies in the state directory because the
/// sandbox lets commands write in the temporary ones.
pub(super) fn scratch(place: &Path, report: &mut DoctorReport) -> Option<TempDir> {
    let made = tempfile::Builder::new()
        .prefix(SCRATCH_PREFIX)
        .tempdir_in(place);
    match made {
        Ok(scratch) => Some(scratch),
        Err(error) => {
            let fix = "make it writable for this user, and make room on its disk";
            let detail = format!("{}: {error}", place.display());
            report.add(Topic("scratch", "writing to the state").fail(detail, fix));
            None
        }
    }
}

fn place(root: &Path, temporary: &[PathBuf]) -> Check {
    let topic = Topic("state", "state directory");
    let shown = root.display();
    match below(root, temporary) {
        Some(temporary) => {
            let detail = format!(
                "{shown} lies below {}, where Codex's commands may write and the system may clean up",
                temporary.display()
            );
            let fix = "keep it elsewhere, with --state-dir or CODEX_BRIDGE_STATE_DIR";
            topic.warn(detail, fix)
        }
        None => topic.ok(format!("{shown} is private and ours")),
    }
}

/// The temporary directory that a path lies in.
pub(super) fn below<'a>(path: &Path, temporary: &'a [PathBuf]) -> Option<&'a PathBuf> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    temporary
        .iter()
        .find(|temporary| real(path).starts_with(real(temporary)))
}

fn disk(root: &Path) -> Check {
    let topic = Topic("disk", "disk space");
    match statvfs(root) {
        Ok(found) => room(
            found
                .blocks_available()
                .saturating_mul(found.fragment_size()),
        ),
        Err(error) => topic.warn(format!("can't be read: {error}"), "look at it with `df`"),
    }
}

fn room(free: u64) -> Check {
    let topic = Topic("disk", "disk space");
    let detail = format!("{} free for the state", term::size(free));
    if free >= FREE_MIN_BYTES {
        return topic.ok(detail);
    }
    let fix = format!("make room: at least {} MiB", FREE_MIN_BYTES / MIB);
    topic.fail(detail, fix)
}

/// Reads all of it, beside a daemon if one runs.
fn ledger(path: &Path) -> Check {
    let topic = Topic("ledger", "database");
    let recover = "stop the daemon and run `codex-bridge recover`; with `--from` it fills the holes from a backup";
    match inspect(path, Depth::Quick) {
        Ok(Inspection::Missing) => topic.ok("none yet; the daemon makes it"),
        Ok(Inspection::Sound { messages }) => topic.ok(format!("sound, {messages} messages")),
        Ok(Inspection::RecoveryCut) => {
            let cut = "a recovery was cut before its end";
            topic.fail(cut, "run `codex-bridge recover` again")
        }
        Ok(Inspection::Damaged { findings }) => {
            topic.fail(format!("damaged: {}", findings.join("\n")), recover)
        }
        Err(error) => topic.of_error(&error),
    }
}

const KEY: Topic = Topic("key", "key of the database");

/// The database's key, if it is the one that signs there; else what to say.
pub(super) fn key<'k>(
    signer: Option<AuditPublicKey>,
    place: &KeyLocation,
    loaded: &'k Result<LedgerKey, KeyError>,
) -> Result<&'k LedgerKey, Check> {
    let shown = place.path().display();
    let not_here = |why| KEY.warn(KeyNotFound { signer, why }.to_string(), NOT_HERE_FIX);
    let key = match loaded {
        Ok(key) => key,
        Err(KeyError::Missing { .. }) if signer.is_none() => {
            return Err(KEY.ok("none yet; the daemon makes it"));
        }
        Err(KeyError::Missing { .. }) => return Err(not_here(format!("there is none at {shown}"))),
        Err(error) => return Err(KEY.of_error(error)),
    };
    if signer.is_some_and(|signer| signer != key.public()) {
        return Err(not_here(format!("{shown} is {}", key.public())));
    }
    Ok(key)
}

pub(super) fn key_is_here(place: &KeyLocation, key: &LedgerKey) -> Check {
    KEY.ok(format!("{}, {}", place.path().display(), key.public()))
}

/// Whether the key can read what is encrypted.
fn readable(ledger: &Path, place: &KeyLocation, key: &LedgerKey) -> Check {
    match sealed_pushes(ledger, key) {
        Ok(Some(SealedPushes { all, unreadable })) if unreadable > 0 => {
            let detail = format!(
                "{} can't decrypt {unreadable} of {all} push configurations: nothing is sent for them",
                place.path().display()
            );
            let fix =
                "put the key back that they were stored with, or let their owners set them again";
            KEY.warn(detail, fix)
        }
        Ok(_) => key_is_here(place, key),
        Err(error) => KEY.of_error(&error),
    }
}

/// The record of manual acts, and whether it was changed afterwards.
pub(super) fn record<E: Error>(found: Result<Option<AuditRecord>, E>) -> Check {
    let topic = Topic("audit", "audit");
    match found {
        Ok(None) => topic.ok("empty"),
        Ok(Some(record)) => {
            let said = format!("{}; {}", verdict(&record.chain), signed(record.signer));
            match record.chain {
                Ok(AuditFound { unchained: 0, .. }) => topic.ok(said),
                Ok(_) => topic.warn(
                    said,
                    "if nobody removed the key on purpose, somebody may have changed the older entries: verify them with the key that you noted, `audit --verify --public-key`",
                ),
                Err(_) => topic.fail(
                    said,
                    "find out who writes to the database beside the daemon; `codex-bridge audit` shows what is left",
                ),
            }
        }
        Err(error) => topic.of_error(&error),
    }
}

/// Whether a daemon runs, and what it says of itself.
async fn daemon(state: &StateDir) -> Check {
    let topic = Topic("daemon", "daemon");
    let Some(pid) = state.holder() else {
        return topic.ok("not running; `codex-bridge run` starts it");
    };
    let status = match ApiClient::new(state.clone()) {
        Ok(client) => client.status().await,
        Err(error) => Err(error),
    };
    match status {
        Ok(status) if status.health.detail.contains("stopping") => topic.warn(
            format!("stopping, pid {pid}"),
            "wait until it has stopped, then start it again",
        ),
        Ok(_) => topic.ok(format!("running, pid {pid}")),
        Err(error) => topic.warn(
            format!("pid {pid} has the state directory, but: {error}"),
            "it is starting or stopping; look again, and at its log",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::CheckStatus;
    use super::*;

    #[test]
    fn a_nearly_full_disk_fails() {
        assert_eq!(room(FREE_MIN_BYTES).status(), CheckStatus::Ok);
        let full = room(FREE_MIN_BYTES - 1);
        assert_eq!(full.status(), CheckStatus::Fail);
        assert!(full.words().contains("511 MiB free"), "{}", full.words());
    }

    #[test]
    fn state_in_temp_dir_warns() {
        let directory = tempfile::tempdir().unwrap();
        let temporary = directory.path().join("tmp");
        let inside = temporary.join("state");
        std::fs::create_dir_all(&inside).unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&inside, &link).unwrap();
        let all = [temporary];
        assert_eq!(place(&inside, &all).status(), CheckStatus::Warn);
        assert_eq!(place(&link, &all).status(), CheckStatus::Warn);
        assert_eq!(place(directory.path(), &all).status(), CheckStatus::Ok);
    }
}
