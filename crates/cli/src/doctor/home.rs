//! CODEX_HOME as a directory: there, ours, and closed to others. What Codex makes of the files in it is
//! asked of Codex itself, in [`super::server`].

use super::report::{Check, Topic};
use super::state::below;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const TOPIC: Topic = Topic("codex_home", "CODEX_HOME");
/// Where Codex keeps its login.
const AUTH: &str = "auth.json";
/// Any right of group or others.
const OPEN: u32 = 0o077;

pub(super) fn check(home: &Path, temporary: &[PathBuf]) -> Check {
    let ours = nix::unistd::geteuid().as_raw();
    let shown = home.display();
    let found = match home.metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let detail = format!("{shown} does not exist yet; Codex makes it at its first start");
            return TOPIC.warn(detail, "log in with `codex login`");
        }
        Err(error) => {
            let fix = "make it readable for this user, or set codex.home";
            return TOPIC.fail(format!("{shown}: {error}"), fix);
        }
    };
    if !found.is_dir() {
        let fix = "name a directory in codex.home or CODEX_HOME";
        return TOPIC.fail(format!("{shown} is not a directory"), fix);
    }
    if found.uid() != ours {
        let detail = format!(
            "{shown} belongs to uid {}, and this is uid {ours}",
            found.uid()
        );
        let fix = "run as its owner, or set codex.home to a directory of this user";
        return TOPIC.fail(detail, fix);
    }
    let auth = home.join(AUTH);
    if let Ok(auth_found) = auth.metadata()
        && auth_found.mode() & OPEN != 0
    {
        let auth = auth.display();
        let detail = format!("{auth} holds the login, and others may use it");
        return TOPIC.fail(detail, format!("run `chmod 600 {auth}`"));
    }
    if found.mode() & OPEN != 0 {
        let mode = found.mode() & 0o777;
        let detail = format!("{shown} is open to others (mode {mode:03o})");
        return TOPIC.warn(detail, format!("run `chmod 700 {shown}`"));
    }
    if let Some(temporary) = below(home, temporary) {
        let temporary = temporary.display();
        let detail = format!("{shown} lies below {temporary}, where Codex's commands may write");
        return TOPIC.warn(detail, "keep it elsewhere");
    }
    TOPIC.ok(format!("{shown} is private and ours"))
}

#[cfg(test)]
mod tests {
    use super::super::report::CheckStatus;
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn codex_home_must_be_private() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        let status = || check(&home, &[]).status();
        assert_eq!(status(), CheckStatus::Warn, "missing");
        std::fs::create_dir(&home).unwrap();
        mode(&home, 0o755);
        assert_eq!(status(), CheckStatus::Warn, "open");
        mode(&home, 0o700);
        assert_eq!(status(), CheckStatus::Ok);
        let temporary = [directory.path().to_owned()];
        assert_eq!(check(&home, &temporary).status(), CheckStatus::Warn);
        std::fs::write(home.join(AUTH), "{}").unwrap();
        mode(&home.join(AUTH), 0o644);
        let open = check(&home, &[]);
        assert_eq!(open.status(), CheckStatus::Fail);
        assert!(open.words().contains("chmod 600"), "{}", open.words());
        let file = check(&home.join(AUTH), &[]);
        assert_eq!(file.status(), CheckStatus::Fail);
    }
}
