//! The Codex executable: where it was found, which one it is, whether we know its version; and whether it can use its
//! directory for sockets.

use super::report::{Check, DoctorReport, Topic};
use bridge_daemon::config::{Config, Environment};
use bridge_host::binary::{self, Binary};
use bridge_host::version::{FLOOR, PINNED, Version};

const TOPIC: Topic = Topic("codex", "codex");

pub(super) fn find(
    config: &Config,
    environment: &Environment,
    report: &mut DoctorReport,
) -> Option<Binary> {
    match binary::find(config.codex.bin.as_deref(), environment.program_vars()) {
        Ok(found) => {
            report.add(judge(&found));
            Some(found)
        }
        Err(error) => {
            report.add(TOPIC.of_error(&error));
            None
        }
    }
}

fn judge(found: &Binary) -> Check {
    let path = found.path.display();
    let version = &found.version;
    let way = match &found.shim {
        Some(shim) => format!(" (the native one behind npm's {})", shim.display()),
        None => String::new(),
    };
    let detail = format!("{version} at {path}{way}");
    match PINNED.parse::<Version>() {
        Ok(pinned) if *version > pinned => TOPIC.warn(
            format!("{detail}; newer than {PINNED}, the one this bridge was tested with"),
            format!("if it makes trouble: `npm install -g @openai/codex@{PINNED}`"),
        ),
        Ok(pinned) if *version == pinned => TOPIC.ok(detail),
        Ok(_) | Err(_) => TOPIC.ok(format!(
            "{detail}; works from {FLOOR} on, tested with {PINNED}"
        )),
    }
}

/// Looks at Codex's directory for sockets. Without it Codex has no socket, and its sandbox runs no command.
pub(super) fn check_socket(obstacle: Option<String>) -> Option<Check> {
    let topic = Topic("socket", "Codex's socket");
    let remedy = "remove that directory, or run the daemon as a system service, which has a /tmp of its own (`codex-bridge service install --system`)";
    obstacle.map(|obstacle| topic.fail(obstacle, remedy))
}

#[cfg(test)]
mod tests {
    use super::super::report::CheckStatus;
    use super::*;

    fn codex(version: &str) -> Binary {
        Binary {
            path: "/opt/codex".into(),
            shim: Some("/usr/bin/codex.js".into()),
            version: version.parse().unwrap(),
        }
    }

    #[test]
    fn newer_codex_version_warns() {
        assert_eq!(judge(&codex(PINNED)).status(), CheckStatus::Ok);
        assert_eq!(judge(&codex("0.150.0")).status(), CheckStatus::Ok);
        let newer = judge(&codex("99.0.0"));
        assert_eq!(newer.status(), CheckStatus::Warn);
        assert!(newer.words().contains("npm install"), "{}", newer.words());
        assert!(newer.words().contains("/usr/bin/codex.js"));
    }

    #[test]
    fn f9_doctor_names_a_squatted_socket_directory() {
        let found = check_socket(Some("/tmp/codex-daemon-1 belongs to uid 2".to_owned())).unwrap();
        assert_eq!(found.status(), CheckStatus::Fail);
        assert!(found.words().contains("belongs to uid 2"));
        assert!(check_socket(None).is_none());
    }
}
