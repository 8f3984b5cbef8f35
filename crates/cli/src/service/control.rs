//! `service start|stop|restart|status|logs`: systemctl and journalctl for the installed unit.

use super::unit::ServiceScope;
use super::{UNIT, unit_file};
use crate::cli::{ServiceLogs, ServiceWhere};
use anyhow::{Context, bail};
use bridge_daemon::config::Environment;
use bridge_host::process::foreground;
use std::path::Path;
use std::process::ExitCode;

/// Is there while systemd runs the machine.
const SYSTEMD: &str = "/run/systemd/system";

/// Runs `systemctl VERB` on the unit.
pub(super) fn systemctl(
    verb: &str,
    place: &ServiceWhere,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let scope = installed(place, environment)?;
    let mut args = of_manager(scope);
    args.extend([verb.to_owned(), UNIT.to_owned()]);
    if verb == "status" {
        args.push("--no-pager".to_owned());
    }
    run("systemctl", &args, scope)
}

/// Runs `journalctl` on the unit.
pub(super) fn logs(args: &ServiceLogs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let scope = installed(&args.place, environment)?;
    let mut all = of_manager(scope);
    all.extend(["--no-pager", "--unit", UNIT].map(ToOwned::to_owned));
    all.push(format!("--lines={}", args.lines));
    if args.follow {
        all.push("--follow".to_owned());
    }
    run("journalctl", &all, scope)
}

/// Names the user's manager; the machine's needs no name.
fn of_manager(scope: ServiceScope) -> Vec<String> {
    match scope {
        ServiceScope::User => vec!["--user".to_owned()],
        ServiceScope::System => Vec::new(),
    }
}

/// Whose unit is meant: the one that is installed, where only one is.
fn installed(place: &ServiceWhere, environment: &Environment) -> anyhow::Result<ServiceScope> {
    let is_there = |scope| unit_file(scope, environment).is_ok_and(|file| file.exists());
    let user = is_there(ServiceScope::User);
    let system = is_there(ServiceScope::System);
    choose(place, user, system)
}

fn choose(place: &ServiceWhere, user: bool, system: bool) -> anyhow::Result<ServiceScope> {
    match (place.user, place.system, user, system) {
        (true, _, true, _) | (false, false, true, false) => Ok(ServiceScope::User),
        (_, true, _, true) | (false, false, false, true) => Ok(ServiceScope::System),
        (false, false, true, true) => {
            bail!(
                "a service of this user and one of the machine are installed: say --user or --system"
            )
        }
        (true, ..) | (false, false, false, false) => bail!(
            "no service is installed for this user: `codex-bridge service install --user` writes one"
        ),
        (_, true, ..) => bail!(
            "no service of the machine is installed: `sudo codex-bridge service install --system` writes one"
        ),
    }
}

fn run(program: &str, args: &[String], scope: ServiceScope) -> anyhow::Result<ExitCode> {
    let ended = match foreground::run(program, args) {
        Ok(ended) => ended,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(no_systemd()),
        Err(error) => return Err(error).with_context(|| format!("start {program}")),
    };
    if ended.success() {
        return Ok(ExitCode::SUCCESS);
    }
    if !systemd_runs() {
        bail!(no_systemd());
    }
    if scope == ServiceScope::System && !nix::unistd::geteuid().is_root() {
        crate::client::say("it is a service of the machine: are you allowed to (sudo)?");
    }
    let code = ended.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

pub(super) fn systemd_runs() -> bool {
    Path::new(SYSTEMD).exists()
}

fn no_systemd() -> &'static str {
    "systemd does not run here (a container, for example), so there is no service to talk to: run the daemon with `codex-bridge run`, under whatever starts programs on this machine"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_unit_is_found_by_itself() {
        let place = |user, system| ServiceWhere { user, system };
        let any = place(false, false);
        assert_eq!(choose(&any, true, false).unwrap(), ServiceScope::User);
        assert_eq!(choose(&any, false, true).unwrap(), ServiceScope::System);
        let both = choose(&any, true, true).unwrap_err().to_string();
        assert!(both.contains("say --user or --system"), "{both}");
        let none = choose(&any, false, false).unwrap_err().to_string();
        assert!(none.contains("service install --user"), "{none}");
        let named = choose(&place(false, true), true, true).unwrap();
        assert_eq!(named, ServiceScope::System);
        let missing = choose(&place(false, true), true, false).unwrap_err();
        assert!(missing.to_string().contains("--system"), "{missing}");
    }
}
