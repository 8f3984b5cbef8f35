//! The file of the key: made once, private, and never read where others could have put it.

use super::{KEY_BYTES, KeyAge, LedgerKey};
use crate::sqlite::{PRIVATE, sync_directory};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

/// Who keeps others away from the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Its owner and mode: it must be ours, and nobody else may read it.
    Mode,
    /// The service manager, whose directory of credentials only the service can enter: systemd gives access to one
    /// user by a list, which shows as the group's part of the mode.
    ServiceManager,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There is no such file.
    #[error("there is no key at {}", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// It must not be used.
    #[error("the database's key {} can't be used: {why}", path.display())]
    Unfit {
        /// Which file.
        path: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// The file system refused.
    #[error("cannot {doing} the database's key {}: {source}; check its owner and its directory", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// The library refused, which it does when the system gives no random numbers.
    #[error("the system's cryptography failed; nothing was changed, try again")]
    Crypto,
    /// A public key was expected.
    #[error(
        "this is no public key: it is `ed25519:` and 44 characters, as `codex-bridge audit --public-key` prints it"
    )]
    NotPublic,
}

impl LedgerKey {
    /// Reads the key.
    pub fn load(path: &Path, guard: Guard) -> Result<Self, KeyError> {
        let failed = |source| error("read", path, source);
        let file = OpenOptions::new()
            .read(true)
            // A pipe in its place must not make us wait.
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
            .open(path)
            .map_err(failed)?;
        check(&file, guard, path)?;
        let mut secret = Zeroizing::new([0; KEY_BYTES + 1]);
        let mut length = 0;
        let mut file = file;
        loop {
            let rest = secret.get_mut(length..).unwrap_or_default();
            match file.read(rest).map_err(failed)? {
                0 => break,
                read => length += read,
            }
        }
        let exact = secret
            .first_chunk::<KEY_BYTES>()
            .filter(|_| length == KEY_BYTES);
        let Some(secret) = exact else {
            let why = format!(
                "it has {length} bytes, and a key has {KEY_BYTES}; put the right file there, or move it away and a new key is made"
            );
            return Err(unfit(path, why));
        };
        Self::from_bytes(secret, KeyAge::Existing)
    }

    /// Reads the key, or makes one where none is.
    pub fn load_or_create(path: &Path, guard: Guard) -> Result<Self, KeyError> {
        match Self::load(path, guard) {
            Err(KeyError::Missing { .. }) => match create(path) {
                // Somebody else was faster.
                Err(KeyError::File { source, .. })
                    if source.kind() == io::ErrorKind::AlreadyExists =>
                {
                    Self::load(path, guard)
                }
                made => made,
            },
            loaded => loaded,
        }
    }
}

/// The file has its name only once it is whole and on disk, so that neither a crash nor a full disk leaves a part of a
/// key there, and nobody reads one.
fn create(path: &Path) -> Result<LedgerKey, KeyError> {
    let failed = |source| error("make", path, source);
    let mut secret = Zeroizing::new([0; KEY_BYTES]);
    aws_lc_rs::rand::fill(secret.as_mut_slice()).map_err(|_| KeyError::Crypto)?;
    let unnamed = unnamed(path, secret.as_slice()).map_err(failed)?;
    unnamed
        .persist_noclobber(path)
        .map_err(|taken| failed(taken.error))?;
    sync_directory(path).map_err(failed)?;
    LedgerKey::from_bytes(&secret, KeyAge::New)
}

/// A private file beside the key's place, on disk; it goes when it is dropped.
fn unnamed(path: &Path, secret: &[u8]) -> io::Result<NamedTempFile> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .prefix(".new-key-")
        .permissions(Permissions::from_mode(PRIVATE))
        .tempfile_in(directory.unwrap_or(Path::new(".")))?;
    file.write_all(secret)?;
    file.as_file().sync_all()?;
    Ok(file)
}

fn check(file: &File, guard: Guard, path: &Path) -> Result<(), KeyError> {
    let found = file
        .metadata()
        .map_err(|source| error("look at", path, source))?;
    if !found.is_file() {
        return Err(unfit(path, "it is not a file".to_owned()));
    }
    let uid = nix::unistd::getuid().as_raw();
    let (others, owned) = match guard {
        Guard::Mode => (0o077, found.uid() == uid),
        Guard::ServiceManager => (0o007, true),
    };
    if !owned {
        let why = format!("it belongs to uid {}, and this is uid {uid}", found.uid());
        return Err(unfit(path, why));
    }
    if found.mode() & others != 0 {
        let why = format!(
            "others may use it (mode {:03o}); run `chmod 600` on it, and if somebody may have read it, move it away so that a new one is made",
            found.mode() & 0o777
        );
        return Err(unfit(path, why));
    }
    Ok(())
}

fn unfit(path: &Path, why: String) -> KeyError {
    KeyError::Unfit {
        path: path.to_owned(),
        why,
    }
}

fn error(doing: &'static str, path: &Path, source: io::Error) -> KeyError {
    if source.raw_os_error() == Some(Errno::ELOOP as i32) {
        let why = "it is a symbolic link; put the file itself there";
        return unfit(path, why.to_owned());
    }
    match source.kind() {
        io::ErrorKind::NotFound if doing == "read" => KeyError::Missing {
            path: path.to_owned(),
        },
        _ => KeyError::File {
            doing,
            path: path.to_owned(),
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Barrier;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        (directory, path)
    }

    #[test]
    fn f1_key_is_made_once_and_private() {
        let (_directory, path) = place();
        let missing = LedgerKey::load(&path, Guard::Mode).unwrap_err();
        assert!(matches!(missing, KeyError::Missing { .. }), "{missing}");
        let made = LedgerKey::load_or_create(&path, Guard::Mode).unwrap();
        assert_eq!(made.age(), KeyAge::New);
        let found = fs::metadata(&path).unwrap();
        assert_eq!(
            (found.len(), found.permissions().mode() & 0o777),
            (32, 0o600)
        );
        let again = LedgerKey::load_or_create(&path, Guard::Mode).unwrap();
        assert_eq!(again.age(), KeyAge::Existing);
        assert_eq!(again.public(), made.public());
    }

    /// One that makes the key is never met half way.
    #[test]
    fn f1_starts_at_once_share_one_key() {
        const STARTS: usize = 8;
        for _ in 0..20 {
            let (directory, path) = place();
            let (path, together) = (&path, &Barrier::new(STARTS));
            let start = || {
                together.wait();
                LedgerKey::load_or_create(path, Guard::Mode)
            };
            let keys: Vec<_> = std::thread::scope(|scope| {
                let starts: Vec<_> = (0..STARTS).map(|_| scope.spawn(start)).collect();
                starts.into_iter().map(|one| one.join().unwrap()).collect()
            });
            let made = LedgerKey::load(path, Guard::Mode).unwrap().public();
            let new = keys.into_iter().filter(|key| {
                let key = key.as_ref().unwrap();
                assert_eq!(key.public(), made);
                key.age() == KeyAge::New
            });
            assert_eq!(new.count(), 1);
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn f1_a_cut_start_leaves_no_key() {
        let (directory, path) = place();
        let cut = unnamed(&path, &[7; 5]).unwrap();
        assert!(!path.exists());
        LedgerKey::load_or_create(&path, Guard::Mode).unwrap();
        drop(cut);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn f1_key_behind_a_link_is_refused() {
        let (directory, path) = place();
        let target = directory.path().join("target");
        LedgerKey::load_or_create(&target, Guard::Mode).unwrap();
        symlink(&target, &path).unwrap();
        let error = LedgerKey::load_or_create(&path, Guard::Mode).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        fs::remove_file(&path).unwrap();
        let nowhere = directory.path().join("nowhere");
        symlink(&nowhere, &path).unwrap();
        assert!(LedgerKey::load_or_create(&path, Guard::Mode).is_err());
        assert!(!nowhere.exists());
    }

    #[test]
    fn f1_key_others_can_read_is_refused() {
        let (_directory, path) = place();
        LedgerKey::load_or_create(&path, Guard::Mode).unwrap();
        for (mode, own, credential) in [
            (0o400, true, true),
            (0o440, false, true),
            (0o604, false, false),
        ] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let fine = |guard| LedgerKey::load(&path, guard).is_ok();
            assert_eq!(fine(Guard::Mode), own, "{mode:o}");
            assert_eq!(fine(Guard::ServiceManager), credential, "{mode:o}");
        }
    }

    #[test]
    fn f1_key_of_wrong_length_is_refused() {
        let (_directory, path) = place();
        for length in [0, 31, 33, 100] {
            fs::write(&path, vec![7; length]).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            let error = LedgerKey::load_or_create(&path, Guard::Mode).unwrap_err();
            assert!(matches!(error, KeyError::Unfit { .. }), "{error}");
        }
    }
}
