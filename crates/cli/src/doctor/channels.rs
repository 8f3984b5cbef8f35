//! The channels that others write on: Molecule workspaces (is the platform there, does it take the token, do the clocks
//! agree; it only reads there) and A2A (where agents call, and whether everybody may).

use super::report::{Check, DoctorReport, Topic};
use bridge_channel::molecule::{Examined, Marks, Molecule, Origin};
use bridge_core::value::Tier;
use bridge_daemon::config::{Config, Workspace};
use bridge_front::A2aAuth;

/// Largest clock difference without a warning: the daemon trusts the platform's own times.
const SKEW_MAX_MS: i64 = 60_000;
/// What the checks are called.
const PLATFORM: Topic = Topic("molecule", "Molecule workspace");
const OWNERS: Topic = Topic("molecule-owners", "Molecule owners");

/// Looks at all workspaces.
pub(super) async fn check_molecule(workspaces: &[Workspace], report: &mut DoctorReport) {
    for workspace in workspaces {
        let mut marks = Marks::Unknown;
        let check = match Molecule::open(workspace.settings.clone()) {
            Ok(molecule) => {
                let found = molecule.examine().await;
                marks = found.marks;
                judge(workspace, &found)
            }
            Err(error) => PLATFORM.of_error(&error),
        };
        report.add(check);
        report.add(owners(workspace, marks));
    }
}

/// Who counts as owner, and what the platform can prove of it.
fn owners(workspace: &Workspace, marks: Marks) -> Check {
    let settings = &workspace.settings;
    let origins = &settings.origins;
    let proof = match marks {
        Marks::Seen => {
            "the platform marks who writes at its canvas; whoever holds the workspace's inbound secret can write that mark too"
        }
        Marks::Absent => "the platform does not mark who writes: its canvas is `unmarked`",
        Marks::Unknown => {
            "no message among the newest carries the canvas mark: nobody wrote there, or the platform is older than July 2026 and marks nobody"
        }
    };
    let detail = format!("{}: {origins}; {proof}", settings.workspace);
    let unmarked = origins.tier(Origin::Unmarked) == Tier::Owner;
    match (origins.has_owner(), marks) {
        (false, _) if origins.is_decided() => OWNERS.ok(detail),
        (false, _) => OWNERS.warn(
            format!("{detail}; so nobody there can approve, stop or give commands"),
            "say who does, under [molecule.origins]: docs/guides/molecule.md, \"Who counts as owner\"",
        ),
        (true, Marks::Absent) if !unmarked => OWNERS.warn(
            format!("{detail}; so nobody there is an owner"),
            "if nobody else can write without a workspace's token, set `unmarked = \"owner\"` under [molecule.origins]",
        ),
        (true, _) => OWNERS.ok(detail),
    }
}

fn judge(workspace: &Workspace, found: &Examined) -> Check {
    let settings = &workspace.settings;
    let who = format!("{} at {}", settings.workspace, settings.platform_url);
    if let Some(why) = &found.unreached {
        let fix = "check PLATFORM_URL and the network; on a platform with several organisations also MOLECULE_ORG_ID";
        return PLATFORM.fail(format!("{who}: {why}"), fix);
    }
    let status = found.workspace.as_ref();
    if status.is_some_and(|found| found.status == "removed") {
        let fix = "make a new workspace on the canvas and use its id and token";
        return PLATFORM.fail(format!("{who}: it was removed"), fix);
    }
    if let Some(why) = &found.refused {
        let fix = format!(
            "take a token from the canvas, External Connect or the Tokens tab; it is read from {}",
            workspace.token_from
        );
        return PLATFORM.fail(format!("{who}: {why}"), fix);
    }
    let status = status.map_or_else(String::new, |found| {
        format!(" {:?} is {}", found.name, found.status)
    });
    let detail = format!("{who}:{status}, token accepted");
    match found.skew_ms {
        Some(skew) if skew.abs() > SKEW_MAX_MS => {
            let seconds = skew.abs() / 1_000;
            let detail = format!("{detail}; its clock and ours are {seconds} s apart");
            let fix = "set this machine's clock (`timedatectl set-ntp true`); messages are not lost by it, times are shown wrong";
            PLATFORM.warn(detail, fix)
        }
        Some(_) | None => PLATFORM.ok(detail),
    }
}

/// Looks at the configuration of A2A; `None` where no address is there for agents. `peers list` names the agents.
pub(super) fn check_a2a(config: &Config) -> Option<Check> {
    let topic = Topic("a2a", "other agents (A2A)");
    let listen = config.http.listen.as_ref().filter(|_| config.a2a.enabled)?;
    let base = match &config.http.public_url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => format!("http://{listen}"),
    };
    Some(match config.a2a.auth {
        A2aAuth::Tokens => topic.ok(format!(
            "agents with a token call {base}/a2a while the daemon runs; `codex-bridge peers add NAME` makes one"
        )),
        A2aAuth::None => {
            let detail =
                format!("every program on this machine may call {base}/a2a without a token");
            let fix = "take a2a.auth out of the configuration, unless a conformance kit needs it";
            topic.warn(detail, fix)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_where_agents_call() {
        let said = |text: &str| {
            let check = check_a2a(&toml::from_str(text).unwrap());
            check.map(|check| serde_json::to_value(check).unwrap())
        };
        assert_eq!(said(""), None);
        assert_eq!(
            said("http.listen = '127.0.0.1:1'\na2a.enabled = false"),
            None
        );
        let here = said("http.listen = '127.0.0.1:1'").unwrap();
        assert_eq!(here["status"], "ok");
        assert!(
            here["detail"]
                .as_str()
                .unwrap()
                .contains("http://127.0.0.1:1/a2a")
        );
        let open = said("http.listen = '127.0.0.1:1'\na2a.auth = 'none'").unwrap();
        assert_eq!(open["status"], "warn");
        let there = said("http.listen = '127.0.0.1:1'\nhttp.public_url = 'https://b.example/'");
        assert!(
            there.unwrap()["detail"]
                .as_str()
                .unwrap()
                .contains("https://b.example/a2a")
        );
    }
}
