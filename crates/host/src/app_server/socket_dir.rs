//! Codex's own directory for its sockets, `/tmp/codex-daemon-UID`: whether Codex can use it, and the removal of what a
//! killed Codex leaves there.
//!
//! Since 0.156 the path after `--listen unix://` becomes a link to a socket in that directory. The place is fixed in
//! Codex: neither TMPDIR nor XDG_RUNTIME_DIR moves it (tried with 0.166). Codex refuses the directory unless it belongs
//! to its own user with mode 0700, so another local user who makes it first keeps Codex from its socket, and its
//! sandbox from running commands: bubblewrap hides the directory from them, and Codex checks it before it does.

use crate::keeper::CODEX_SOCKET;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Length of a socket's name there: a SHA-256 in hexadecimal.
const NAME_CHARS: usize = 64;

/// The directory of this user.
fn directory() -> PathBuf {
    let uid = nix::unistd::getuid();
    PathBuf::from(format!("/tmp/codex-daemon-{uid}"))
}

/// Why Codex can't have a socket, and what to do; `None` when nothing is in its way.
#[must_use]
pub fn obstacle() -> Option<String> {
    obstacle_at(&directory())
}

fn obstacle_at(directory: &Path) -> Option<String> {
    let why = match std::fs::symlink_metadata(directory) {
        Ok(found) => unfit(&found)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => error.to_string(),
    };
    Some(format!(
        "Codex keeps its sockets in {0} and refuses to use it ({why}); its sandbox runs no command then either. Remove {0} (as root if it is not yours); Codex makes it again at its next start",
        directory.display()
    ))
}

fn unfit(found: &Metadata) -> Option<String> {
    let uid = nix::unistd::getuid().as_raw();
    let mode = found.mode() & 0o777;
    if !found.is_dir() {
        Some("it is no directory".to_owned())
    } else if found.uid() != uid {
        Some(format!("it belongs to uid {}, not to {uid}", found.uid()))
    } else if mode != 0o700 {
        Some(format!("its mode is {mode:03o}, not 700"))
    } else {
        None
    }
}

/// Removes the socket and the lock of a Codex that has ended. One that ends by itself removes them; a killed one can't.
pub(crate) fn remove_socket(incarnation_directory: &Path) {
    remove_linked(&incarnation_directory.join(CODEX_SOCKET), &directory());
}

fn remove_linked(link: &Path, directory: &Path) {
    let Ok(socket) = std::fs::read_link(link) else {
        return;
    };
    let name = socket.file_name().and_then(|name| name.to_str());
    let is_hash = name.is_some_and(|name| {
        name.len() == NAME_CHARS && name.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    // Only what Codex puts there: a link that somebody turned leads to no other file's end.
    if !is_hash || socket.parent() != Some(directory) || obstacle_at(directory).is_some() {
        return;
    }
    let mut lock = socket.clone().into_os_string();
    lock.push(".lock");
    let lock = PathBuf::from(lock);
    remove_if(&socket, |found| found.file_type().is_socket());
    remove_if(&lock, |found| found.is_file() && found.len() == 0);
}

fn remove_if(path: &Path, fits: impl Fn(&Metadata) -> bool) {
    if std::fs::symlink_metadata(path).is_ok_and(|found| fits(&found))
        && let Err(error) = std::fs::remove_file(path)
    {
        tracing::warn!(%error, path = %path.display(), "a socket of codex could not be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A directory as Codex makes it.
    fn sockets(root: &Path) -> PathBuf {
        let sockets = root.join("codex-daemon-0");
        std::fs::create_dir(&sockets).unwrap();
        mode(&sockets, 0o700);
        sockets
    }

    #[test]
    fn f9_squatted_directory_is_named() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("codex-daemon-0");
        assert_eq!(obstacle_at(&place), None, "Codex makes it");
        std::fs::write(&place, "").unwrap();
        assert!(obstacle_at(&place).unwrap().contains("no directory"));
        std::fs::remove_file(&place).unwrap();
        symlink(root.path(), &place).unwrap();
        assert!(obstacle_at(&place).is_some(), "a link");
        std::fs::remove_file(&place).unwrap();
        let place = sockets(root.path());
        assert_eq!(obstacle_at(&place), None);
        mode(&place, 0o755);
        let why = obstacle_at(&place).unwrap();
        assert!(why.contains("755") && why.contains("Remove"), "{why}");
    }

    #[test]
    fn f9_killed_codex_leaves_no_socket() {
        let root = tempfile::tempdir().unwrap();
        let sockets = sockets(root.path());
        let name = "5".repeat(NAME_CHARS);
        let (socket, lock) = (sockets.join(&name), sockets.join(format!("{name}.lock")));
        drop(UnixListener::bind(&socket).unwrap());
        std::fs::write(&lock, "").unwrap();
        let link = root.path().join(CODEX_SOCKET);
        symlink(&socket, &link).unwrap();
        remove_linked(&link, &sockets);
        assert!(!socket.exists() && !lock.exists());
    }

    #[test]
    fn f9_turned_link_removes_nothing() {
        let root = tempfile::tempdir().unwrap();
        let sockets = sockets(root.path());
        let link = root.path().join(CODEX_SOCKET);
        let hash = "5".repeat(NAME_CHARS);
        let elsewhere = root.path().join(&hash);
        let short = sockets.join("short");
        let file = sockets.join(&hash);
        let listeners = [&elsewhere, &short].map(|path| UnixListener::bind(path).unwrap());
        std::fs::write(&file, "no socket").unwrap();
        for target in [&elsewhere, &short, &file] {
            symlink(target, &link).unwrap();
            remove_linked(&link, &sockets);
            assert!(target.exists(), "{}", target.display());
            std::fs::remove_file(&link).unwrap();
        }
        drop(listeners);
    }
}
