//! The socket of a unix group: people beside the owner, each known by the uid that the kernel gives.
//!
//! Who may open it is decided by its file mode, and once more by the user database: a descriptor that was passed on, or a
//! mode that somebody changed, makes nobody a member.

use crate::config::{DaemonConfig, GroupScope};
use anyhow::{Context, bail};
use bridge_front::Scope;
use bridge_front::api::UserFinder;
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::{Gid, Group, Uid, User, chown, getgrouplist};
use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// Where the group's socket is without a service manager and a key.
const RUNTIME_DIR: &str = "/run/codex-bridge";
/// Its name.
const SOCKET: &str = "group.sock";

/// Where people look for the socket of a daemon that is the machine's service.
#[must_use]
pub fn usual_group_socket() -> PathBuf {
    Path::new(RUNTIME_DIR).join(SOCKET)
}

/// The place of the group's socket.
pub(crate) fn place(config: &DaemonConfig, runtime_dir: Option<&Path>) -> PathBuf {
    match (&config.group_socket, runtime_dir) {
        (Some(path), _) => path.clone(),
        (None, Some(directory)) => directory.join(SOCKET),
        (None, None) => usual_group_socket(),
    }
}

/// The socket, bound and not yet open.
pub(crate) struct GroupListener {
    pub(crate) listener: UnixListener,
    pub(crate) users: UserFinder,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) path: PathBuf,
}

impl GroupListener {
    /// Binds it where the configuration names a group.
    pub(crate) fn bind(config: &DaemonConfig, path: &Path) -> anyhow::Result<Option<Self>> {
        let Some(name) = &config.group else {
            return Ok(None);
        };
        let found = Group::from_name(name).with_context(|| format!("look for the group {name}"))?;
        let Some(group) = found else {
            bail!(
                "there is no group {name:?}, which `daemon.group` names: make it with `sudo groupadd --system {name}`, or take the key out"
            );
        };
        let directory = path.parent().unwrap_or(Path::new("/"));
        check_place(directory)?;
        remove_stale(path)?;
        let listener = UnixListener::bind(path).with_context(|| {
            let socket = path.display();
            format!(
                "make the group's socket {socket}: name another place with `daemon.group_socket`"
            )
        })?;
        give(path, &group)?;
        let gid = group.gid;
        tracing::info!(group = name, socket = %path.display(), "members of this group may send messages");
        Ok(Some(Self {
            listener,
            users: UserFinder::new(move |stream| member(stream, gid)),
            scopes: config.group_scopes.iter().map(scope).collect(),
            path: path.to_owned(),
        }))
    }
}

fn scope(scope: &GroupScope) -> Scope {
    match scope {
        GroupScope::Read => Scope::Read,
        GroupScope::Send => Scope::Send,
    }
}

/// A directory in which nobody else can put another socket in the place of ours.
fn check_place(directory: &Path) -> anyhow::Result<()> {
    let shown = directory.display();
    let found = std::fs::metadata(directory).with_context(|| {
        format!("use {shown} for the group's socket: make it with `sudo install -d -o USER {shown}` (a service has `RuntimeDirectory=`), or name another place with `daemon.group_socket`")
    })?;
    let own = Uid::current().as_raw();
    if found.uid() != own && found.uid() != 0 || found.mode() & 0o022 != 0 {
        bail!(
            "use {shown} for the group's socket: others may write to it, and could put theirs in its place; run `chmod go-w {shown}`, or name another place with `daemon.group_socket`"
        );
    }
    Ok(())
}

/// Removes the socket of a daemon that is gone.
fn remove_stale(path: &Path) -> anyhow::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("look at {}", path.display())),
    };
    if !found.file_type().is_socket() {
        bail!(
            "{} is no socket and is left as it is: name another place with `daemon.group_socket`",
            path.display()
        );
    }
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        bail!(
            "another daemon serves its group at {}: name another place with `daemon.group_socket`",
            path.display()
        );
    }
    std::fs::remove_file(path).with_context(|| format!("remove {}", path.display()))
}

/// Lets the group, and nobody else, open the socket.
fn give(path: &Path, group: &Group) -> anyhow::Result<()> {
    let name = &group.name;
    let shown = path.display();
    chown(path, None, Some(group.gid)).with_context(|| {
        format!("give {shown} to the group {name}: the daemon's user must be in it (`sudo usermod -aG {name} USER`, and `SupplementaryGroups={name}` in a unit)")
    })?;
    let mode = std::fs::Permissions::from_mode(0o660);
    std::fs::set_permissions(path, mode).with_context(|| format!("set the mode of {shown}"))
}

/// The name of the user at the other end, who must be in the group.
fn member(stream: &impl AsFd, gid: Gid) -> Result<String, String> {
    let unknown = || "the user at the other end can't be looked up".to_owned();
    let credentials = getsockopt(stream, sockopt::PeerCredentials).map_err(|_| unknown())?;
    let uid = Uid::from_raw(credentials.uid());
    let user = User::from_uid(uid).ok().flatten();
    let user = user.ok_or_else(|| format!("uid {uid} has no name on this machine"))?;
    let fits = |c: char| c.is_ascii_graphic() && c != '/';
    if user.name.is_empty() || !user.name.chars().all(fits) {
        return Err(format!("uid {uid} has a name that can't be used here"));
    }
    let groups = CString::new(user.name.as_str())
        .map_err(|_| unknown())
        .and_then(|name| getgrouplist(&name, user.gid).map_err(|_| unknown()))?;
    if groups.contains(&gid) {
        Ok(user.name)
    } else {
        Err(format!(
            "user {} is not in the group that this daemon serves",
            user.name
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn socket_needs_a_place_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(dir.path(), mode).unwrap();
        };
        mode(0o755);
        assert!(check_place(dir.path()).is_ok());
        for open in [0o775, 0o757, 0o1777] {
            mode(open);
            let error = check_place(dir.path()).unwrap_err().to_string();
            assert!(error.contains("others may write"), "{error}");
        }
        assert!(check_place(&dir.path().join("missing")).is_err());
    }

    #[test]
    fn only_a_dead_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        assert!(remove_stale(&path).is_ok());
        std::fs::write(&path, "").unwrap();
        assert!(remove_stale(&path).is_err());
        std::fs::remove_file(&path).unwrap();
        let live = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(remove_stale(&path).is_err());
        drop(live);
        assert!(remove_stale(&path).is_ok());
        assert!(!path.exists());
    }

    #[test]
    fn strangers_of_the_group_are_refused() {
        let (near, _far) = UnixStream::pair().unwrap();
        let own = User::from_uid(Uid::current()).unwrap().unwrap();
        assert_eq!(member(&near, own.gid), Ok(own.name.clone()));
        let error = member(&near, Gid::from_raw(4_000_000_000)).unwrap_err();
        assert!(error.contains("not in the group"), "{error}");
    }
}
