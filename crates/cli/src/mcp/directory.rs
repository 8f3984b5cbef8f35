//! Where the MCP client works: the first of its roots if it offers them, else the directory that it started us in.

use percent_encoding::percent_decode_str;
use rmcp::RoleServer;
use rmcp::service::Peer;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// How long a client may take to name its roots.
const ROOTS_PATIENCE: Duration = Duration::from_secs(5);

/// An absolute path, if there is one that can be written as text.
pub(super) async fn of(peer: &Peer<RoleServer>) -> Option<String> {
    let root = match peer.peer_info() {
        Some(info) if info.capabilities.roots.is_some() => first_root(peer).await,
        Some(_) | None => None,
    };
    let directory = root.or_else(|| std::env::current_dir().ok())?;
    directory.to_str().map(ToOwned::to_owned)
}

/// A client that does not answer is one without roots.
#[expect(
    deprecated,
    reason = "newer revisions of MCP have no roots; clients of the older ones still offer them"
)]
async fn first_root(peer: &Peer<RoleServer>) -> Option<PathBuf> {
    let listed = tokio::time::timeout(ROOTS_PATIENCE, peer.list_roots()).await;
    let roots = listed.ok()?.ok()?.roots;
    roots.iter().find_map(|root| path_of(&root.uri))
}

/// The path of a `file:` address on this machine.
fn path_of(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let bytes: Vec<u8> = percent_decode_str(rest).collect();
    let path = PathBuf::from(OsStr::from_bytes(&bytes));
    (path.is_absolute() && path.is_dir()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_directories_are_roots() {
        let place = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
        let path = place.path().to_str().unwrap();
        let uri = format!("file://{}", path.replace(' ', "%20"));
        assert_eq!(path_of(&uri).as_deref(), Some(place.path()));
        assert_eq!(path_of("file://localhost/tmp"), Some(PathBuf::from("/tmp")));
        for uri in [
            "https://example.com/",
            "file://elsewhere/tmp",
            "file:///no/such",
        ] {
            assert_eq!(path_of(uri), None, "{uri}");
        }
    }
}
