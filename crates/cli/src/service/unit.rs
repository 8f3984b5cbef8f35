//! The text of the systemd unit, and whether an installed one was changed by hand. Pure; nothing is written here.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Begins the first line of a unit that we wrote; the rest of the line is the digest of what follows it.
const MARK: &str = "# Written by `codex-bridge service install`, digest ";
/// How long a stop may take beyond the time that turns are given: interrupting them, ending Codex, closing.
const STOP_EXTRA_SECS: u64 = 45;

/// Whose manager runs the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceScope {
    /// The user's own.
    User,
    /// The machine's.
    System,
}

/// What a unit is made of.
#[derive(Clone, Debug)]
pub(super) struct UnitPlan {
    pub(super) scope: ServiceScope,
    /// Our own binary.
    pub(super) program: PathBuf,
    pub(super) state_dir: PathBuf,
    /// The configuration file, where one was named or found.
    pub(super) config: Option<PathBuf>,
    /// Variables with secrets: tokens, keys.
    pub(super) environment_file: PathBuf,
    /// What Codex and its commands are found by.
    pub(super) path: String,
    pub(super) codex_bin: Option<PathBuf>,
    pub(super) codex_home: Option<PathBuf>,
    /// A directory that all conversations work in.
    pub(super) workdir: Option<PathBuf>,
    /// Whom the daemon runs as; a user's manager knows that itself.
    pub(super) run_as: Option<String>,
    pub(super) drain_secs: u64,
    pub(super) handover: bool,
    /// Sockets lie in /tmp because the state directory's path is too long: clients must see the same /tmp.
    pub(super) sockets_in_tmp: bool,
    /// The group that has a socket of its own.
    pub(super) group: Option<String>,
}

/// What an installed unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitOrigin {
    /// As we wrote it, now or earlier.
    Ours,
    /// Changed after we wrote it, or never ours.
    Changed,
}

/// The whole file.
pub(super) fn text(plan: &UnitPlan) -> String {
    let body = body(plan);
    format!("{MARK}{}\n{body}", digest(&body))
}

/// Whether a file is as we wrote it.
pub(super) fn origin(text: &str) -> UnitOrigin {
    let ours = text.split_once('\n').is_some_and(|(first, body)| {
        first
            .strip_prefix(MARK)
            .is_some_and(|said| said == digest(body))
    });
    if ours {
        UnitOrigin::Ours
    } else {
        UnitOrigin::Changed
    }
}

fn digest(body: &str) -> String {
    let hash = Sha256::digest(body.as_bytes());
    HEXLOWER.encode(&hash[..16])
}

/// The target that starts the unit.
pub(super) fn wanted_by(scope: ServiceScope) -> &'static str {
    match scope {
        ServiceScope::User => "default.target",
        ServiceScope::System => "multi-user.target",
    }
}

/// Everything below the mark.
fn body(plan: &UnitPlan) -> String {
    let network = match plan.scope {
        ServiceScope::User => "",
        ServiceScope::System => "Wants=network-online.target\nAfter=network-online.target\n",
    };
    let target = wanted_by(plan.scope);
    let stop = plan.drain_secs.saturating_add(STOP_EXTRA_SECS);
    format!(
        "\
# Change it with `systemctl edit`, which survives `service install`.

[Unit]
Description=codex-bridge, messages in and Codex turns out
{network}StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=notify
NotifyAccess=main
{}
# Tokens and keys, one NAME=value per line; mode 0600. Not in this file: anyone may read it.
EnvironmentFile=-{}
# Or a credential. systemd copies it at the start, so a new token needs a restart; for one without, use
# `token_file` in codex-bridge.toml:
# LoadCredential=molecule-token:/etc/codex-bridge/molecule-token
# Environment=MOLECULE_WORKSPACE_TOKEN_FILE=%d/molecule-token
WatchdogSec=30
Restart=on-failure
RestartSec=2
# 65: the database is damaged. Starting again does not mend it; `codex-bridge recover` does.
RestartPreventExitStatus=65
TimeoutStartSec=300
TimeoutStopSec={stop}
{LIMITS}{}
[Install]
WantedBy={target}
",
        start_lines(plan).join("\n"),
        escape(&plan.environment_file.display().to_string()),
        sandbox_lines(plan),
    )
}

/// The lines that are the same in every unit.
const LIMITS: &str = "\
# Only the daemon is signalled. It ends Codex itself when it stops; when it crashes, Codex works on behind its
# socket, the next daemon takes it over, and without one its keeper ends it after `codex.linger_secs`.
KillMode=process
# A command of Codex that the kernel kills for its memory is Codex's business, not the daemon's end.
OOMPolicy=continue
UMask=0077
LimitNOFILE=65536
LimitCORE=0
TasksMax=8192
# MemoryMax=4G
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
# Codex's own sandbox is bubblewrap: it makes user, mount, pid and network namespaces and mounts /proc in them.
# RestrictNamespaces would forbid it; ProtectProc, ProtectKernelTunables and ProtectKernelLogs cover parts of
# /proc, and then the kernel refuses a fresh one. MemoryDenyWriteExecute breaks what commands run (node, Java).
# `codex-bridge doctor` proves the sandbox; run it in the unit's own environment after changing these lines.
";

/// The command, its user and its variables.
fn start_lines(plan: &UnitPlan) -> Vec<String> {
    let mut command = vec![
        word(&plan.program),
        "--state-dir".to_owned(),
        word(&plan.state_dir),
    ];
    if let Some(config) = &plan.config {
        command.extend(["--config".to_owned(), word(config)]);
    }
    command.push("run".to_owned());
    if let Some(workdir) = &plan.workdir {
        command.extend(["--workdir".to_owned(), word(workdir)]);
    }
    if plan.handover {
        command.push("--handover".to_owned());
    }
    let mut lines = vec![
        format!("ExecStart={}", command.join(" ")),
        "ExecReload=/bin/kill -HUP $MAINPID".to_owned(),
    ];
    lines.extend(plan.run_as.iter().map(|user| format!("User={user}")));
    lines.push(variable("PATH", &plan.path));
    for (name, path) in [
        ("CODEX_BRIDGE_CODEX_BIN", &plan.codex_bin),
        ("CODEX_HOME", &plan.codex_home),
    ] {
        let path = path.as_ref().map(|path| path.display().to_string());
        lines.extend(path.map(|path| variable(name, &path)));
    }
    lines
}

fn sandbox_lines(plan: &UnitPlan) -> String {
    if plan.scope == ServiceScope::User {
        return "\
# A user's manager makes mount namespaces only inside a user namespace, in which file owners and Codex's
# sandbox come out differently; so ProtectSystem and PrivateTmp are for `service install --system`.
"
        .to_owned();
    }
    let private_tmp = if plan.sockets_in_tmp {
        "# PrivateTmp=no: the state directory's path is too long for sockets, they lie in /tmp."
    } else {
        "PrivateTmp=yes"
    };
    let mut lines = format!(
        "\
ProtectSystem=strict
ProtectKernelModules=yes
ProtectControlGroups=yes
CapabilityBoundingSet=
StateDirectory=codex-bridge/state codex-bridge/codex
StateDirectoryMode=0700
# The socket of a group (`daemon.group`) lies here, outside of the private state directory.
RuntimeDirectory=codex-bridge
RuntimeDirectoryMode=0755
{private_tmp}
"
    );
    if let Some(group) = &plan.group {
        lines.push_str(&format!("SupplementaryGroups={group}\n"));
    }
    let places = [
        Some(&plan.state_dir),
        plan.codex_home.as_ref(),
        plan.workdir.as_ref(),
    ];
    // They may be missing.
    for place in places.into_iter().flatten() {
        let place = quoted(&place.display().to_string());
        lines.push_str(&format!("ReadWritePaths=\"-{place}\"\n"));
    }
    lines
}

fn variable(name: &str, value: &str) -> String {
    format!("Environment=\"{name}={}\"", quoted(value))
}

/// One argument of a command line: no variable, no specifier, no second argument.
fn word(path: &Path) -> String {
    let text = quoted(&path.display().to_string());
    format!("\"{}\"", text.replace('$', "$$"))
}

/// Inside double quotes.
fn quoted(text: &str) -> String {
    escape(text).replace('\\', "\\\\").replace('"', "\\\"")
}

/// `%` begins a specifier everywhere in a unit.
fn escape(text: &str) -> String {
    text.replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    pub(super) fn plan(scope: ServiceScope, directory: &Path) -> UnitPlan {
        UnitPlan {
            scope,
            program: std::env::current_exe().unwrap(),
            state_dir: directory.join("a 100% \"odd\" $HOME"),
            config: Some(directory.join("codex-bridge.toml")),
            environment_file: directory.join("env"),
            path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
            codex_bin: None,
            codex_home: Some(directory.join("codex")),
            workdir: None,
            run_as: (scope == ServiceScope::System).then(|| "root".to_owned()),
            drain_secs: 60,
            handover: false,
            sockets_in_tmp: false,
            group: None,
        }
    }

    #[test]
    fn edited_unit_is_detected() {
        let text = text(&plan(ServiceScope::User, Path::new("/s")));
        assert_eq!(origin(&text), UnitOrigin::Ours);
        let changed = text.replace("WatchdogSec=30", "WatchdogSec=90");
        assert_eq!(origin(&changed), UnitOrigin::Changed);
        assert_eq!(origin("[Unit]\n"), UnitOrigin::Changed);
        assert_eq!(origin(""), UnitOrigin::Changed);
    }

    #[test]
    fn unit_leaves_codex_sandbox_unrestricted() {
        for scope in [ServiceScope::User, ServiceScope::System] {
            let text = text(&plan(scope, Path::new("/s")));
            let set = |key: &str| {
                text.lines()
                    .any(|line| line.starts_with(&format!("{key}=")))
            };
            for forbidden in [
                "RestrictNamespaces",
                "ProtectProc",
                "ProtectKernelTunables",
                "ProtectKernelLogs",
                "PrivateUsers",
                "MemoryDenyWriteExecute",
                "SystemCallFilter",
            ] {
                assert!(!set(forbidden), "{scope:?} {forbidden}");
            }
            for needed in [
                "NoNewPrivileges",
                "WatchdogSec",
                "KillMode",
                "UMask",
                "LimitCORE",
            ] {
                assert!(set(needed), "{scope:?} {needed}");
            }
            assert_eq!(set("ProtectSystem"), scope == ServiceScope::System);
        }
    }

    #[test]
    fn unit_quotes_paths() {
        let text = text(&plan(ServiceScope::User, Path::new("/s")));
        assert!(
            text.contains(
                r#"--state-dir "/s/a 100%% \"odd\" $$HOME" --config "/s/codex-bridge.toml" run"#
            ),
            "{text}"
        );
    }

    /// systemd itself reads the units where it is installed; elsewhere the lines above are what is checked.
    #[test]
    fn systemd_finds_nothing_wrong() {
        let directory = tempfile::tempdir().unwrap();
        for scope in [ServiceScope::User, ServiceScope::System] {
            let mut plan = plan(scope, directory.path());
            plan.state_dir = directory.path().join("state");
            let file = directory.path().join("codex-bridge.service");
            std::fs::write(&file, text(&plan)).unwrap();
            let mut verify = Command::new("systemd-analyze");
            verify.arg("verify").arg("--man=no");
            if scope == ServiceScope::User {
                verify.arg("--user");
                verify.env("XDG_RUNTIME_DIR", directory.path());
            }
            let Ok(output) = verify.arg(&file).output() else {
                return;
            };
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let about_us: Vec<_> = said
                .lines()
                .filter(|line| line.contains("codex-bridge.service"))
                .collect();
            assert!(about_us.is_empty(), "{scope:?}: {said}");
        }
    }
}
