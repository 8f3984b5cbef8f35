//! `service`: the daemon as a systemd service, of this user or of the machine.
//!
//! `install` and `uninstall` write one file and say the commands that follow; they do not talk to systemd. The unit's text
//! is in [`unit`], what asks systemd in [`control`].

mod control;
mod unit;

use self::unit::{ServiceScope, UnitOrigin, UnitPlan};
use crate::cli::{Common, ServiceCommand, ServiceInstall, ServicePlace};
use crate::client;
use anyhow::{Context, bail};
use bridge_daemon::config::{self, Environment};
use bridge_daemon::state::StateDir;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The unit's name.
const UNIT: &str = "codex-bridge.service";
/// Where the machine's manager looks for what the operator wrote.
const SYSTEM_UNITS: &str = "/etc/systemd/system";
/// Where the machine's service keeps everything.
const SYSTEM_HOME: &str = "/var/lib/codex-bridge";
/// Its configuration and secrets.
const SYSTEM_CONFIG: &str = "/etc/codex-bridge";
/// The default user.
const SYSTEM_USER: &str = "codex-bridge";
/// What a machine's service finds programs by.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs one of the commands.
pub(crate) fn run(
    command: &ServiceCommand,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let words = match command {
        ServiceCommand::Install(args) => install(args, common, environment),
        ServiceCommand::Uninstall(place) => uninstall(place, environment),
        ServiceCommand::Show(place) => show(place, environment),
        ServiceCommand::Start(place) => return control::systemctl("start", place, environment),
        ServiceCommand::Stop(place) => return control::systemctl("stop", place, environment),
        ServiceCommand::Restart(place) => return control::systemctl("restart", place, environment),
        ServiceCommand::Status(place) => return control::systemctl("status", place, environment),
        ServiceCommand::Logs(args) => return control::logs(args, environment),
    };
    // As it is: units and commands are copied.
    client::print(&words?, ExitCode::SUCCESS)
}

/// Whether systemd runs this machine, and can run a service of this user. Root's work belongs to a user of its own.
pub(crate) fn is_possible() -> bool {
    control::systemd_runs() && !nix::unistd::geteuid().is_root()
}

fn install(
    args: &ServiceInstall,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<String> {
    let scope = scope(&args.place);
    let plan = plan(scope, args, common, environment)?;
    let text = unit::text(&plan);
    if args.print {
        return Ok(text);
    }
    let file = unit_file(scope, environment)?;
    let state = write_unit(&file, &text, args.force)?;
    if scope == ServiceScope::User {
        StateDir::prepare(&plan.state_dir)?;
    }
    let secrets = create_secrets(&plan.environment_file)?;
    Ok(format!(
        "{} {}\n{secrets}\n{}",
        state,
        file.display(),
        next_commands(&plan)
    ))
}

fn uninstall(place: &ServicePlace, environment: &Environment) -> anyhow::Result<String> {
    let scope = scope(place);
    let file = unit_file(scope, environment)?;
    match std::fs::remove_file(&file) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("there is no {}; nothing was removed", file.display())
        }
        Err(error) => {
            return Err(error)
                .with_context(|| format!("remove {}; are you allowed to (sudo)?", file.display()));
        }
    }
    // What `systemctl enable` made; `disable` refuses once the unit's file is gone.
    let target = unit::wanted_by(scope);
    let link = file.with_file_name(format!("{target}.wants")).join(UNIT);
    if link.is_symlink() {
        std::fs::remove_file(&link).with_context(|| format!("remove {}", link.display()))?;
    }
    let systemctl = systemctl(scope);
    Ok(format!(
        "removed {}\nstate, configuration and secrets stay where they are\nnext, in this order:\n  {systemctl} stop {UNIT}   # it may still run\n  {systemctl} daemon-reload\n",
        file.display()
    ))
}

fn show(place: &ServicePlace, environment: &Environment) -> anyhow::Result<String> {
    let file = unit_file(scope(place), environment)?;
    let text = std::fs::read_to_string(&file).with_context(|| {
        format!(
            "read {}; `codex-bridge service install --user` (or --system) writes it",
            file.display()
        )
    })?;
    let said = match unit::origin(&text) {
        UnitOrigin::Ours => "as codex-bridge wrote it",
        UnitOrigin::Changed => "changed by hand",
    };
    Ok(format!("# {} ({said})\n{text}", file.display()))
}

fn scope(place: &ServicePlace) -> ServiceScope {
    if place.system {
        ServiceScope::System
    } else {
        ServiceScope::User
    }
}

fn systemctl(scope: ServiceScope) -> &'static str {
    match scope {
        ServiceScope::User => "systemctl --user",
        ServiceScope::System => "sudo systemctl",
    }
}

fn unit_file(scope: ServiceScope, environment: &Environment) -> anyhow::Result<PathBuf> {
    match scope {
        ServiceScope::User => {
            let base = environment
                .config_base()
                .context("there is no home directory for the unit: set HOME or XDG_CONFIG_HOME")?;
            Ok(base.join("systemd/user").join(UNIT))
        }
        ServiceScope::System => Ok(Path::new(SYSTEM_UNITS).join(UNIT)),
    }
}

fn plan(
    scope: ServiceScope,
    args: &ServiceInstall,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<UnitPlan> {
    let plan = UnitPlan {
        scope,
        program: std::env::current_exe().context("find our own binary")?,
        state_dir: Path::new(SYSTEM_HOME).join("state"),
        config: common.config.as_deref().map(absolute).transpose()?,
        environment_file: Path::new(SYSTEM_CONFIG).join("env"),
        path: SYSTEM_PATH.to_owned(),
        codex_bin: args.codex_bin.as_deref().map(absolute).transpose()?,
        codex_home: Some(Path::new(SYSTEM_HOME).join("codex")),
        workdir: args.workdir.workdir.as_deref().map(absolute).transpose()?,
        run_as: None,
        drain_secs: config::Config::default().daemon.drain_secs,
        handover: args.handover,
        sockets_in_tmp: false,
        group: None,
    };
    let plan = match scope {
        ServiceScope::User => for_user(plan, common, environment)?,
        ServiceScope::System => for_system(plan, args, common, environment)?,
    };
    let state = StateDir::existing(&plan.state_dir);
    Ok(UnitPlan {
        sockets_in_tmp: !state.run_dir().starts_with(state.root()),
        ..plan
    })
}

/// What this user's daemon would be in a terminal: same state, same programs, same Codex.
fn for_user(
    plan: UnitPlan,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<UnitPlan> {
    let state_dir = environment.state_dir(common.state_dir.as_deref())?;
    let loaded = config::load(plan.config.as_deref(), environment, Some(&state_dir))?;
    let base = environment
        .config_base()
        .context("there is no home directory: set HOME")?;
    let path = environment.path().and_then(|path| path.to_str());
    Ok(UnitPlan {
        environment_file: base.join("codex-bridge/env"),
        path: path.unwrap_or(SYSTEM_PATH).to_owned(),
        codex_home: environment.named_codex_home(),
        drain_secs: loaded.config.daemon.drain_secs,
        codex_bin: plan.codex_bin.or_else(|| environment.codex_bin()),
        config: plan.config.or(loaded.file),
        state_dir,
        ..plan
    })
}

fn for_system(
    plan: UnitPlan,
    args: &ServiceInstall,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<UnitPlan> {
    let named = common.state_dir.as_deref().map(absolute).transpose()?;
    let user = args.run_as.as_deref().unwrap_or(SYSTEM_USER);
    let state_dir = named.unwrap_or_else(|| plan.state_dir.clone());
    // Only a file that is named: the service does not use what lies in the installing user's home.
    let (drain_secs, group) = match &plan.config {
        Some(file) => {
            let daemon = config::load(Some(file), environment, Some(&state_dir))?;
            let daemon = daemon.config.daemon;
            (daemon.drain_secs, daemon.group)
        }
        None => (plan.drain_secs, None),
    };
    Ok(UnitPlan {
        run_as: Some(user_name(user)?),
        group: group.as_deref().map(user_name).transpose()?,
        state_dir,
        drain_secs,
        ..plan
    })
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("find {}", path.display()))
}

/// A name as the user database has them: nothing that systemd would read as something else.
fn user_name(name: &str) -> anyhow::Result<String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name == "root" {
        bail!("as root Codex's commands could do everything: name a user of its own with --run-as");
    }
    if !name.is_empty() && !name.starts_with('-') && name.chars().all(fine) {
        Ok(name.to_owned())
    } else {
        bail!("{name:?} is no name of a user: name one with --run-as")
    }
}

/// Writes the unit unless a person changed what is there.
fn write_unit(file: &Path, text: &str, force: bool) -> anyhow::Result<&'static str> {
    let there = match std::fs::read_to_string(file) {
        Ok(there) => Some(there),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("read {}", file.display())),
    };
    let state = match &there {
        None => "wrote",
        Some(there) if there == text => return Ok("unchanged:"),
        Some(there) if force || unit::origin(there) == UnitOrigin::Ours => "replaced",
        Some(_) => bail!(
            "{} was changed by hand and is left as it is: move the changes to `systemctl edit {UNIT}`, or replace it with --force",
            file.display()
        ),
    };
    let directory = file.parent().unwrap_or(Path::new("/"));
    let refused = || format!("write {}; are you allowed to (sudo)?", file.display());
    std::fs::create_dir_all(directory).with_context(refused)?;
    // A reader must never see half of it.
    let mut new = tempfile::NamedTempFile::new_in(directory).with_context(refused)?;
    new.write_all(text.as_bytes()).with_context(refused)?;
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    new.as_file()
        .set_permissions(readable)
        .with_context(refused)?;
    new.persist(file).with_context(refused)?;
    Ok(state)
}

/// Makes an empty private file for tokens, so that users do not create a readable one. An existing file stays.
fn create_secrets(file: &Path) -> anyhow::Result<String> {
    let refused = || format!("create {}", file.display());
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory).with_context(refused)?;
    }
    let made = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file);
    match made {
        Ok(mut file_made) => {
            file_made
                .write_all(b"# WORKSPACE_ID=\n# PLATFORM_URL=\n# MOLECULE_WORKSPACE_TOKEN=\n")
                .with_context(refused)?;
            Ok(format!("put tokens into {} (mode 0600)", file.display()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Ok(format!("tokens are read from {}", file.display()))
        }
        Err(error) => Err(error).with_context(refused),
    }
}

fn next_commands(plan: &UnitPlan) -> String {
    let systemctl = systemctl(plan.scope);
    let mut lines = Vec::new();
    if let Some(user) = &plan.run_as {
        lines.push(format!(
            "id {user} || sudo useradd --system --home-dir {SYSTEM_HOME} --shell /usr/sbin/nologin {user}"
        ));
        lines.push(format!(
            "sudo install -d -m 700 -o {user} {SYSTEM_HOME} {SYSTEM_HOME}/state {SYSTEM_HOME}/codex"
        ));
        let codex = plan.codex_bin.as_deref().unwrap_or(Path::new("codex"));
        lines.push(format!(
            "sudo -u {user} env CODEX_HOME={SYSTEM_HOME}/codex {} login",
            codex.display()
        ));
    }
    if let Some(group) = &plan.group {
        lines.push(format!(
            "getent group {group} || sudo groupadd --system {group}"
        ));
        lines.push(format!(
            "sudo usermod -aG {group} NAME   # for each person; it counts from their next login"
        ));
    }
    lines.push(format!("{systemctl} daemon-reload"));
    lines.push(format!("{systemctl} enable --now {UNIT}"));
    if plan.scope == ServiceScope::User {
        lines.push(
            "loginctl enable-linger   # so that it runs while you are not logged in".to_owned(),
        );
    }
    let journal = match plan.scope {
        ServiceScope::User => "journalctl --user -fu codex-bridge",
        ServiceScope::System => "sudo journalctl -fu codex-bridge",
    };
    lines.push(journal.to_owned());
    let reach = plan.run_as.as_deref().map(|user| how_to_reach(plan, user));
    format!(
        "next:\n  {}\n{}",
        lines.join("\n  "),
        reach.unwrap_or_default()
    )
}

/// How people use a daemon that runs as a user of its own.
fn how_to_reach(plan: &UnitPlan, user: &str) -> String {
    let state = plan.state_dir.display();
    let own = format!(
        "you, as its owner:\n  sudo -u {user} codex-bridge --state-dir {state} send \"hello\"\n"
    );
    let others = match &plan.group {
        Some(group) => format!(
            "people of the group {group}, each in conversations of their own and never as owner:\n  codex-bridge send \"hello\"\n"
        ),
        None => format!(
            "to let people of a group in, write `[daemon]` and `group = \"codex\"` into {SYSTEM_CONFIG}/codex-bridge.toml, then:\n  sudo codex-bridge --config {SYSTEM_CONFIG}/codex-bridge.toml service install --system\n"
        ),
    };
    format!("{own}{others}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_unit_needs_force_to_replace() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("systemd/user").join(UNIT);
        let first = "# not ours\n[Unit]\n";
        assert_eq!(write_unit(&file, first, false).unwrap(), "wrote");
        assert_eq!(write_unit(&file, first, false).unwrap(), "unchanged:");
        let error = write_unit(&file, "other", false).unwrap_err().to_string();
        assert!(error.contains("--force"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), first);
        assert_eq!(write_unit(&file, "other", true).unwrap(), "replaced");
    }

    #[test]
    fn rejects_invalid_unit_user_names() {
        assert_eq!(user_name("codex-bridge").unwrap(), "codex-bridge");
        for bad in ["", "root", "-x", "a b", "a\nExecStart=/bin/sh"] {
            assert!(user_name(bad).is_err(), "{bad:?}");
        }
    }
}
