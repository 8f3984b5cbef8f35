//! The Codex installation: its executable and version, its directory for sockets, and CODEX_HOME as a directory. What
//! Codex makes of the files in it is asked of Codex itself, in [`super::server`].

use super::report::{Check, DoctorReport, Topic};
use super::state::below;
use bridge_daemon::config::{Config, Environment};
use bridge_host::binary::{self, Binary};
use bridge_host::self_check::is_unknown;
use bridge_host::version::{FLOOR, PINNED, TESTED_UP_TO};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const PROGRAM: Topic = Topic("codex", "codex");
const HOME: Topic = Topic("codex_home", "CODEX_HOME");
/// Where Codex keeps its login.
const AUTH: &str = "auth.json";
/// Any right of group or others.
const OPEN: u32 = 0o077;

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
            report.add(PROGRAM.of_error(&error));
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
    if is_unknown(version) {
        return PROGRAM.ok(format!(
            "{detail}; newer than {TESTED_UP_TO}, the newest that this bridge was tested with, so its check counts (see below)"
        ));
    }
    if version.to_string() == PINNED {
        return PROGRAM.ok(detail);
    }
    PROGRAM.ok(format!(
        "{detail}; works from {FLOOR} on, tested with {PINNED}"
    ))
}

/// Looks at Codex's directory for sockets. Without it Codex has no socket, and its sandbox runs no command.
pub(super) fn check_socket(obstacle: Option<String>) -> Option<Check> {
    let topic = Topic("socket", "Codex's socket");
    let remedy = "remove that directory, or run the daemon as a system service, which has a /tmp of its own (`codex-bridge service install --system`)";
    obstacle.map(|obstacle| topic.fail(obstacle, remedy))
}

pub(super) fn check_home(home: &Path, temporary: &[PathBuf]) -> Check {
    let ours = nix::unistd::geteuid().as_raw();
    let shown = home.display();
    let found = match home.metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let detail = format!("{shown} does not exist yet; Codex makes it at its first start");
            return HOME.warn(detail, "log in with `codex login`");
        }
        Err(error) => {
            let fix = "make it readable for this user, or set codex.home";
            return HOME.fail(format!("{shown}: {error}"), fix);
        }
    };
    if !found.is_dir() {
        let fix = "name a directory in codex.home or CODEX_HOME";
        return HOME.fail(format!("{shown} is not a directory"), fix);
    }
    if found.uid() != ours {
        let detail = format!(
            "{shown} belongs to uid {}, and this is uid {ours}",
            found.uid()
        );
        let fix = "run as its owner, or set codex.home to a directory of this user";
        return HOME.fail(detail, fix);
    }
    let auth = home.join(AUTH);
    if let Ok(auth_found) = auth.metadata()
        && auth_found.mode() & OPEN != 0
    {
        let auth = auth.display();
        let detail = format!("{auth} holds the login, and others may use it");
        return HOME.fail(detail, format!("run `chmod 600 {auth}`"));
    }
    if found.mode() & OPEN != 0 {
        let mode = found.mode() & 0o777;
        let detail = format!("{shown} is open to others (mode {mode:03o})");
        return HOME.warn(detail, format!("run `chmod 700 {shown}`"));
    }
    if let Some(temporary) = below(home, temporary) {
        let temporary = temporary.display();
        let detail = format!("{shown} lies below {temporary}, where Codex's commands may write");
        return HOME.warn(detail, "keep it elsewhere");
    }
    HOME.ok(format!("{shown} is private and ours"))
}

#[cfg(test)]
mod tests {
    use super::super::report::CheckStatus;
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn codex(version: &str) -> Binary {
        Binary {
            path: "/opt/codex".into(),
            shim: Some("/usr/bin/codex.js".into()),
            version: version.parse().unwrap(),
        }
    }

    #[test]
    fn newer_codex_version_refers_to_its_check() {
        assert_eq!(judge(&codex(PINNED)).status(), CheckStatus::Ok);
        assert_eq!(judge(&codex("0.150.0")).status(), CheckStatus::Ok);
        let newer = judge(&codex("99.0.0"));
        assert_eq!(newer.status(), CheckStatus::Ok);
        assert!(newer.words().contains("its check"), "{}", newer.words());
        assert!(newer.words().contains("/usr/bin/codex.js"));
    }

    #[test]
    fn f9_doctor_names_a_squatted_socket_directory() {
        let found = check_socket(Some("/tmp/codex-daemon-1 belongs to uid 2".to_owned())).unwrap();
        assert_eq!(found.status(), CheckStatus::Fail);
        assert!(found.words().contains("belongs to uid 2"));
        assert!(check_socket(None).is_none());
    }

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn codex_home_must_be_private() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        let status = || check_home(&home, &[]).status();
        assert_eq!(status(), CheckStatus::Warn, "missing");
        std::fs::create_dir(&home).unwrap();
        mode(&home, 0o755);
        assert_eq!(status(), CheckStatus::Warn, "open");
        mode(&home, 0o700);
        assert_eq!(status(), CheckStatus::Ok);
        let temporary = [directory.path().to_owned()];
        assert_eq!(check_home(&home, &temporary).status(), CheckStatus::Warn);
        std::fs::write(home.join(AUTH), "{}").unwrap();
        mode(&home.join(AUTH), 0o644);
        let open = check_home(&home, &[]);
        assert_eq!(open.status(), CheckStatus::Fail);
        assert!(open.words().contains("chmod 600"), "{}", open.words());
        let file = check_home(&home.join(AUTH), &[]);
        assert_eq!(file.status(), CheckStatus::Fail);
    }
}
