//! Judges what the values mean together and on this machine: directories that must exist, names that must
//! not pass, powers that deserve a warning. The form of the file was checked before.

use super::environment::CODEX_HOME;
use super::error::ConfigProblem;
use super::keys::{Config, TransportKey};
use super::load::ValueOrigins;
use super::protected_paths::ProtectedPaths;
use super::tiers::TierConfig;
use bridge_core::value::{ApprovalPolicy, ReadAccess, Sandbox};
use std::path::{Path, PathBuf};
use tracing_subscriber::EnvFilter;

/// Variables that are ours and must never reach Codex: they hold the way to our platforms.
const OURS: [&str; 2] = ["WORKSPACE_ID", "PLATFORM_URL"];
/// Families of such variables.
const OUR_PREFIXES: [&str; 3] = ["CODEX_BRIDGE_", "CODEX_CHANNEL_MOLECULE_", "MOLECULE_"];

/// Everything that is wrong with the values.
pub(super) fn problems(
    config: &Config,
    origins: &ValueOrigins,
    protected_paths: &ProtectedPaths,
) -> Vec<ConfigProblem> {
    let mut found = Vec::new();
    let mut say = |key: &str, what: String| found.extend(origins.problem(key, what));
    if let Some(home) = &config.codex.home
        && let Some(what) = refuse_home(home)
    {
        say("codex.home", what);
    }
    if let Some(path) = &config.ledger.password_file
        && !path.is_absolute()
    {
        let what = format!("names {}; write an absolute path", path.display());
        say("ledger.password_file", what);
    }
    if let Some((key, what)) = config.fleet.problems() {
        say(key, what);
    }
    if let Some((key, what)) = config.telemetry.problem() {
        say(key, what);
    }
    if let Some(path) = &config.daemon.key_file
        && !path.is_absolute()
    {
        let what = format!("names {}; write an absolute path", path.display());
        say("daemon.key_file", what);
    }
    if let Some(path) = &config.daemon.group_socket
        && !path.is_absolute()
    {
        let what = format!("names {}; write an absolute path", path.display());
        say("daemon.group_socket", what);
    }
    for name in &config.codex.env_pass {
        if let Some(what) = refuse_variable(name) {
            say("codex.env_pass", what);
        }
    }
    if config.codex.transport == TransportKey::Socket && config.has_unsandboxed_tier() {
        let what = "is \"socket\", but a tier has no sandbox: its commands could answer what Codex \
                    asks through that socket; use \"auto\" or \"stdio\"";
        say("codex.transport", what.to_owned());
    }
    if let Some(home) = &config.quota.fallback_home
        && !config.codex.homes.contains(home)
    {
        let what = format!(
            "names {}, which `codex.homes` does not list",
            home.display()
        );
        say("quota.fallback_home", what);
    }
    if config.turns_reserved() >= config.daemon.turns_max {
        let what =
            "is not less than `daemon.turns_max`: no place would be left for agents and programs";
        say("daemon.turns_reserved", what.to_owned());
    }
    let tiers = &config.tiers;
    found.extend(tier_problems(
        "owner",
        &tiers.owner,
        origins,
        protected_paths,
    ));
    found.extend(tier_problems("peer", &tiers.peer, origins, protected_paths));
    found.extend(tier_problems("tool", &tiers.tool, origins, protected_paths));
    found.extend(super::tasks::problems(config, origins));
    found.extend(super::rules::problems(config, origins));
    found.extend(super::a2a::problems(config, origins));
    let mut say = |key: &str, what: String| found.extend(origins.problem(key, what));
    if let Some(what) = config.exec.problem() {
        say("exec.conversations", what);
    }
    for (key, what) in config.http.problems() {
        say(key, what);
    }
    if let Err(error) = EnvFilter::builder().parse(&config.log.level) {
        let what = format!("is no log filter ({error}); write a level such as `info`");
        say("log.level", what);
    }
    found.sort_by_key(|problem| problem.place);
    found
}

/// What is wrong with the keys of one tier.
fn tier_problems<T>(
    name: &str,
    tier: &TierConfig<T>,
    origins: &ValueOrigins,
    protected_paths: &ProtectedPaths,
) -> Vec<ConfigProblem> {
    let mut found = Vec::new();
    let key = |last: &str| format!("tiers.{name}.{last}");
    let mut say = |last: &str, what: String| found.extend(origins.problem(&key(last), what));
    if tier.profile.is_some() {
        for last in ["sandbox", "approval_policy"] {
            say(
                last,
                "is chosen by `profile`; take one of the two out".to_owned(),
            );
        }
    }
    let sandbox = tier.sandbox();
    let shielded = tier.reads == ReadAccess::Isolated;
    if shielded && sandbox == Sandbox::DangerFullAccess {
        let what = "is \"danger-full-access\", and without a sandbox nothing can be kept from being read; \
                    say that you accept it with `reads = \"disk\"`";
        say("sandbox", what.to_owned());
    }
    if let Some(workdir) = &tier.workdir
        && let Some(what) = protected_paths.refuse_workdir(workdir, sandbox.can_write() || shielded)
    {
        say("workdir", what);
    }
    found
}

/// What is wrong with the paths that isolated turns may read beside their working directory. `hidden` is what they must
/// never read.
pub(super) fn reads_also_problems(
    config: &Config,
    origins: &ValueOrigins,
    protected_paths: &ProtectedPaths,
    hidden: &[PathBuf],
) -> Vec<ConfigProblem> {
    let tiers = &config.tiers;
    let lists = [
        ("owner", &tiers.owner.reads_also, tiers.owner.reads),
        ("peer", &tiers.peer.reads_also, tiers.peer.reads),
        ("tool", &tiers.tool.reads_also, tiers.tool.reads),
    ];
    let mut found = Vec::new();
    for (name, paths, reads) in lists {
        let refuse = |path: &PathBuf| protected_paths.refuse_readable(path, hidden);
        let refused: Vec<_> = match (paths.is_empty(), reads) {
            (false, ReadAccess::Disk) => vec![
                "is of no use where `reads` is \"disk\": everything is read there; take one of the two out"
                    .to_owned(),
            ],
            _ => paths.iter().filter_map(refuse).collect(),
        };
        let key = format!("tiers.{name}.reads_also");
        let refused = refused.into_iter();
        found.extend(refused.filter_map(|what| origins.problem(&key, what)));
    }
    found
}

/// What an operator should know at every start.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let tiers = &config.tiers;
    let mut found = tier_warnings("owner", &tiers.owner);
    found.extend(tier_warnings("peer", &tiers.peer));
    found.extend(tier_warnings("tool", &tiers.tool));
    if tiers.peer.reads == ReadAccess::Disk {
        found.push(
            "tiers.peer.reads is \"disk\": commands of peers read whatever this user may read, also logins and keys"
                .to_owned(),
        );
    }
    if tiers.tool.reads == ReadAccess::Disk {
        found.push(
            "tiers.tool.reads is \"disk\": commands of whoever holds a token with `send` or `control` read whatever this user may read, also logins and keys; such a token is as good as the owner's"
                .to_owned(),
        );
    }
    found.extend(exec_warning(config));
    found.extend(super::rules::warnings(config));
    found.extend(super::a2a::warnings(config));
    found
}

/// What a tier promises and `codex exec` can't keep.
fn exec_warning(config: &Config) -> Option<String> {
    let asks = config.tiers.owner.approval_policy() != ApprovalPolicy::Never;
    (config.uses_exec() && asks).then(|| {
        "turns over `codex exec` ask nobody: what leaves the sandbox fails there, whatever approval_policy says"
            .to_owned()
    })
}

fn tier_warnings<T>(name: &str, tier: &TierConfig<T>) -> Vec<String> {
    let sandbox = match tier.sandbox() {
        Sandbox::DangerFullAccess => Some(format!(
            "tiers.{name}.sandbox is \"danger-full-access\": commands of this tier run without a sandbox, with all the rights of this user"
        )),
        Sandbox::ReadOnly | Sandbox::WorkspaceWrite => None,
    };
    let approval = match tier.approval_policy() {
        ApprovalPolicy::Never => Some(format!(
            "tiers.{name}.approval_policy is \"never\": nobody is asked before a command runs"
        )),
        ApprovalPolicy::Untrusted => Some(format!(
            "tiers.{name}.approval_policy is \"untrusted\": a command that is accepted may run outside the sandbox"
        )),
        ApprovalPolicy::OnRequest => None,
    };
    sandbox.into_iter().chain(approval).collect()
}

fn refuse_home(home: &Path) -> Option<String> {
    let shown = home.display();
    if !home.is_absolute() {
        return Some(format!(
            "names {shown}, which is not an absolute path; write it out from `/`"
        ));
    }
    match home.metadata() {
        Ok(found) if found.is_dir() => None,
        Ok(_) => Some(format!("names {shown}, which is not a directory")),
        Err(error) => Some(format!(
            "names {shown}: {error}; create it with `mkdir -m 700 {shown}`, or name another"
        )),
    }
}

fn refuse_variable(name: &str) -> Option<String> {
    let ours = OURS.contains(&name) || OUR_PREFIXES.iter().any(|ours| name.starts_with(ours));
    if ours {
        return Some(format!(
            "names `{name}`, which is ours and never reaches Codex; take it out"
        ));
    }
    if name == CODEX_HOME {
        return Some(format!(
            "names `{name}`, which Codex gets anyway; set `codex.home` to change it"
        ));
    }
    if name.is_empty() || name.contains(['=', '\0']) {
        return Some(format!("names {name:?}, which is no name of a variable"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse::read;

    fn judge(text: &str) -> Vec<String> {
        let (config, spots) = read(text).unwrap();
        let origins = ValueOrigins::of(spots);
        let problems = problems(&config, &origins, &ProtectedPaths::default());
        let line = |problem: &ConfigProblem| format!("{}: {}", problem.place, problem.what);
        problems.iter().map(line).collect()
    }

    #[test]
    fn our_own_variables_never_pass() {
        for name in [
            "CODEX_BRIDGE_STATE_DIR",
            "MOLECULE_WORKSPACE_TOKEN",
            "WORKSPACE_ID",
            "PLATFORM_URL",
        ] {
            let said = judge(&format!("codex.env_pass = ['MY_KEY', '{name}']"));
            assert_eq!(said.len(), 1, "{name}: {said:?}");
            assert!(said[0].contains("`codex.env_pass`") && said[0].contains(name));
        }
        assert!(judge("codex.env_pass = ['MY_KEY', 'OPENROUTER_API_KEY']").is_empty());
        assert_eq!(judge("codex.env_pass = ['', 'A=B']").len(), 2);
    }

    #[test]
    fn reports_invalid_values_in_file_order() {
        let said = judge(
            "log.level = 'bridge=loud'\ncodex.home = '/nonexistent/home'\ntiers.owner.workdir = 'here'\n",
        );
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].starts_with("1:5: `log.level`"), "{said:?}");
        assert!(said[1].contains("mkdir -m 700"), "{said:?}");
        assert!(said[2].contains("absolute"), "{said:?}");
    }

    #[test]
    fn rejects_socket_with_unsandboxed_tier() {
        let danger = "tiers.owner.sandbox = 'danger-full-access'\n";
        assert!(judge(danger).is_empty());
        let both = judge(&format!("{danger}codex.transport = 'socket'"));
        assert_eq!(both.len(), 1, "{both:?}");
    }

    #[test]
    fn f3_reserve_leaves_a_place_for_agents() {
        let said = judge("[quota]\nfallback_home = '/nonexistent/home'");
        assert!(said[0].contains("`quota.fallback_home`"), "{said:?}");
        let said = judge("[daemon]\nturns_max = 2\nturns_reserved = 2");
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("`daemon.turns_reserved`"), "{said:?}");
        assert!(judge("[daemon]\nturns_max = 2\nturns_reserved = 1").is_empty());
        assert!(judge("daemon.turns_max = 1").is_empty());
    }

    #[test]
    fn powers_are_warned_of() {
        let warned = |text: &str| warnings(&read(text).unwrap().0);
        assert!(warned("").is_empty());
        let both =
            warned("[tiers.owner]\nsandbox = 'danger-full-access'\napproval_policy = 'never'\n");
        assert_eq!(both.len(), 2, "{both:?}");
        assert_eq!(warned("tiers.owner.approval_policy = 'untrusted'").len(), 1);
        assert_eq!(warned("tiers.peer.profile = 'workspace-agent'").len(), 1);
        assert_eq!(warned("tiers.peer.reads = 'disk'").len(), 1);
        assert_eq!(warned("tiers.tool.reads = 'disk'").len(), 1);
    }

    #[test]
    fn rejects_read_isolation_without_sandbox() {
        let danger = "tiers.peer.sandbox = 'danger-full-access'\n";
        let said = judge(danger);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("reads = "), "{said:?}");
        assert!(judge(&format!("{danger}tiers.peer.reads = 'disk'")).is_empty());
    }

    #[test]
    fn rejects_profile_with_explicit_sandbox() {
        let said = judge("[tiers.owner]\nprofile = 'workspace-agent'\nsandbox = 'read-only'\n");
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with("3:1: `tiers.owner.sandbox`"),
            "{said:?}"
        );
        assert!(judge("tiers.owner.profile = 'workspace-agent'").is_empty());
    }
}
