//! Whether Codex can use its directory for sockets: without it, Codex has no socket and its sandbox runs no command.

use super::report::Check;

/// What the check is called.
const SOCKET: (&str, &str) = ("socket", "Codex's socket");

/// Looks at Codex's directory for sockets; nothing to say where nothing is in its way.
pub(super) fn check(obstacle: Option<String>) -> Option<Check> {
    let (id, title) = SOCKET;
    let remedy = "remove that directory, or run the daemon as a system service, which has a /tmp of its own (`codex-bridge service install --system`)";
    obstacle.map(|obstacle| Check::fail(id, title, obstacle, remedy))
}

#[cfg(test)]
mod tests {
    use super::super::report::Status;
    use super::*;

    #[test]
    fn f9_doctor_names_a_squatted_socket_directory() {
        let found = check(Some("/tmp/codex-daemon-1 belongs to uid 2".to_owned())).unwrap();
        assert_eq!(found.status(), Status::Fail);
        assert!(found.words().contains("belongs to uid 2"));
        assert!(check(None).is_none());
    }
}
