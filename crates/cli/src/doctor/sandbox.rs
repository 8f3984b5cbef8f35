//! Codex's sandbox on this machine: what the host's probe found, and what to do about it. In many
//! containers it does not work, and that must be known before the first message.

use super::report::{Check, Topic};
use bridge_core::value::Sandbox;
use bridge_daemon::config::Config;
use bridge_host::binary::Binary;
use bridge_host::sandbox::{Finding, Report, probe};
use std::ffi::OsString;
use std::path::Path;

/// Id and title of this check.
pub(super) const SANDBOX: Topic = Topic("sandbox", "codex sandbox");

/// What Codex's helper says, and what helps against it. The first that fits counts.
const REMEDIES: [(&str, &str); 9] = [
    (
        "max_",
        "allow user namespaces: `sysctl user.max_user_namespaces` must not be 0",
    ),
    (
        "RTM_NEWADDR",
        "let AppArmor allow it: a profile for bwrap, or `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`",
    ),
    (
        "uid map",
        "let AppArmor allow it: a profile for bwrap, or `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`",
    ),
    (
        "mount proc",
        "in a container: let it mount its own /proc (Docker: --security-opt systempaths=unconfined)",
    ),
    (
        "create new namespace",
        "allow user namespaces (`sysctl -w kernel.unprivileged_userns_clone=1`); in a container: a seccomp profile that allows unshare and mount, or --cap-add SYS_ADMIN",
    ),
    (
        "new namespace failed",
        "allow user namespaces (`sysctl -w kernel.unprivileged_userns_clone=1`); in a container: a seccomp profile that allows unshare and mount, or --cap-add SYS_ADMIN",
    ),
    (
        "unexpected argument",
        "this Codex has another `sandbox` command than the ones we know; update codex-bridge or Codex",
    ),
    (
        "app-server socket directory",
        "remove /tmp/codex-daemon-UID, where UID is the daemon's user: it must be that user's with mode 0700, and Codex makes it so",
    ),
    (
        "bubblewrap",
        "install bubblewrap with the system's package manager",
    ),
];

/// The advice where the error is unknown.
const REMEDY: &str = "install bubblewrap, and allow user namespaces (`sysctl kernel.unprivileged_userns_clone`, \
     `kernel.apparmor_restrict_unprivileged_userns`); a container needs a seccomp profile that allows unshare and mount";

/// The way out for machines that are a sandbox themselves.
const OTHERWISE: &str = "where this machine is itself the sandbox, tiers.owner.sandbox = \"danger-full-access\" does without";

/// Tries the sandbox. `scratch` is a private directory.
pub(super) async fn check(
    config: &Config,
    binary: &Binary,
    env: Vec<(OsString, OsString)>,
    scratch: &Path,
) -> Check {
    let codex = binary.path.clone();
    let scratch = scratch.join("sandbox");
    let probed = tokio::task::spawn_blocking(move || {
        std::fs::create_dir(&scratch)?;
        probe(&codex, &env, &scratch)
    });
    match probed.await {
        Ok(Ok(report)) => judge(&report, config.tiers.owner.sandbox()),
        Ok(Err(error)) => {
            let detail = format!("could not be tried: {error}");
            SANDBOX.fail(detail, "mend what failed above first")
        }
        Err(error) => {
            let detail = format!("could not be tried: {error}");
            SANDBOX.fail(detail, "run the doctor again, and report this")
        }
    }
}

/// A sandbox that no tier uses may be broken.
fn judge(report: &Report, used: Sandbox) -> Check {
    let findings = [
        (Sandbox::ReadOnly, &report.read_only),
        (Sandbox::WorkspaceWrite, &report.workspace_write),
    ];
    let worst = findings
        .into_iter()
        .find_map(|(sandbox, finding)| wrong(sandbox.as_str(), finding));
    match (worst, used) {
        (None, _) if report.elsewhere_tried => SANDBOX.ok(
            "commands run in it; it refused every write it must and allowed the one it must",
        ),
        (None, _) => SANDBOX.warn(
            "commands run in it; that it keeps them from writing elsewhere was not tried, because the state directory lies below /tmp",
            "use a --state-dir that is not below /tmp",
        ),
        (Some((detail, fix)), Sandbox::DangerFullAccess) => {
            let fix = format!("nothing, as long as no tier uses it; otherwise: {fix}");
            SANDBOX.warn(detail, fix)
        }
        (Some((detail, fix)), Sandbox::ReadOnly | Sandbox::WorkspaceWrite) => {
            SANDBOX.fail(detail, fix)
        }
    }
}

/// What is wrong with one sandbox, and what to do.
fn wrong(sandbox: &str, finding: &Finding) -> Option<(String, String)> {
    match finding {
        Finding::Holds => None,
        Finding::Leaks => Some((
            format!("{sandbox}: a command wrote where it must not; this sandbox does not hold"),
            "do not run the daemon here; update Codex and look again".to_owned(),
        )),
        Finding::Broken { tail } => Some((
            format!("{sandbox}: commands do not run in it: {tail}"),
            format!("{}; {OTHERWISE}", remedy(tail)),
        )),
        Finding::Hangs => Some((
            format!("{sandbox}: a command in it did not end"),
            "try `codex sandbox -P :read-only -- /bin/true` by hand".to_owned(),
        )),
    }
}

fn remedy(tail: &str) -> &'static str {
    let fits = |(words, _): &&(&str, &'static str)| tail.contains(words);
    REMEDIES.iter().find(fits).map_or(REMEDY, |(_, fix)| fix)
}

#[cfg(test)]
mod tests {
    use super::super::report::CheckStatus;
    use super::*;

    fn report(read_only: Finding, workspace_write: Finding) -> Report {
        Report {
            read_only,
            workspace_write,
            elsewhere_tried: true,
        }
    }

    fn broken(tail: &str) -> Finding {
        let tail = tail.to_owned();
        Finding::Broken { tail }
    }

    #[test]
    fn sandbox_error_maps_to_remedy() {
        for (tail, says) in [
            (
                "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
                "user.max_user_namespaces",
            ),
            (
                "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces.",
                "unprivileged_userns_clone=1",
            ),
            (
                "bwrap: Creating new namespace failed: Operation not permitted",
                "seccomp",
            ),
            ("bwrap: setting up uid map: Permission denied", "AppArmor"),
            (
                "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
                "AppArmor",
            ),
            (
                "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
                "systempaths",
            ),
            (
                "error building bubblewrap command: app-server socket directory must be a user-owned directory with mode 0700",
                "remove /tmp/codex-daemon",
            ),
            ("something else", "install bubblewrap"),
        ] {
            let check = judge(&report(broken(tail), Finding::Holds), Sandbox::ReadOnly);
            let words = check.words();
            assert_eq!(check.status(), CheckStatus::Fail);
            assert!(words.contains(says), "{tail}: {words}");
            assert!(words.contains("danger-full-access"), "{words}");
        }
    }

    #[test]
    fn broken_sandbox_fails_only_when_used() {
        let bad = report(Finding::Holds, broken("bwrap: no"));
        assert_eq!(
            judge(&bad, Sandbox::WorkspaceWrite).status(),
            CheckStatus::Fail
        );
        assert_eq!(
            judge(&bad, Sandbox::DangerFullAccess).status(),
            CheckStatus::Warn
        );
        let leaks = report(Finding::Leaks, Finding::Holds);
        assert_eq!(judge(&leaks, Sandbox::ReadOnly).status(), CheckStatus::Fail);
        let hangs = report(Finding::Hangs, Finding::Holds);
        assert_eq!(judge(&hangs, Sandbox::ReadOnly).status(), CheckStatus::Fail);
    }

    #[test]
    fn what_was_not_tried_is_said() {
        let mut good = report(Finding::Holds, Finding::Holds);
        assert_eq!(judge(&good, Sandbox::ReadOnly).status(), CheckStatus::Ok);
        good.elsewhere_tried = false;
        assert_eq!(judge(&good, Sandbox::ReadOnly).status(), CheckStatus::Warn);
    }
}
