//! Whether Codex can have its socket, behind which it outlives a daemon that dies.

use super::report::Check;
use crate::config::Config;
use bridge_core::value::Transport;
use bridge_host::TransportChoice;

/// What the check is called.
const SOCKET: (&str, &str) = ("socket", "Codex's socket");

/// Looks at Codex's directory for sockets; nothing to say where no socket is used or nothing is in its way.
pub(super) fn check(config: &Config, obstacle: Option<String>) -> Option<Check> {
    let (id, title) = SOCKET;
    let obstacle = obstacle?;
    let remedy = "remove that directory, or run the daemon as a system service, which has a /tmp of its own (`codex-bridge service install --system`)";
    match config.transport_choice() {
        TransportChoice::Only(Transport::Stdio) => None,
        TransportChoice::Auto => {
            let detail =
                format!("turns end with the daemon, because Codex has only pipes: {obstacle}");
            Some(Check::warn(id, title, detail, remedy))
        }
        TransportChoice::Only(Transport::Socket) => {
            let detail =
                format!("Codex can't be started with codex.transport = \"socket\": {obstacle}");
            Some(Check::fail(id, title, detail, remedy))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Status;
    use super::*;

    #[test]
    fn f9_doctor_names_a_squatted_socket_directory() {
        let squatted = || Some("/tmp/codex-daemon-1 belongs to uid 2".to_owned());
        let found = check(&Config::default(), squatted()).unwrap();
        assert_eq!(found.status(), Status::Warn);
        assert!(found.words().contains("belongs to uid 2"));
        assert!(check(&Config::default(), None).is_none());
    }
}
