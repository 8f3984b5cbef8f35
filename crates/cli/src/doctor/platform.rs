//! Each Molecule workspace: is its platform there, does it take the token, is the workspace in order, do the clocks
//! agree. It only reads there.

use super::report::{Check, Report};
use bridge_channel::molecule::{Examined, Marks, Molecule, Origin};
use bridge_core::value::Tier;
use bridge_daemon::config::Workspace;

/// How far the clocks may differ before it deserves a word: the daemon trusts the platform's own times.
const SKEW_MAX_MS: i64 = 60_000;
/// What the checks are called.
const PLATFORM: (&str, &str) = ("molecule", "Molecule workspace");
const OWNERS: (&str, &str) = ("molecule-owners", "Molecule owners");

/// Looks at all of them.
pub(super) async fn check(workspaces: &[Workspace], report: &mut Report) {
    for workspace in workspaces {
        let (id, title) = PLATFORM;
        let mut marks = Marks::Unknown;
        let check = match Molecule::open(workspace.settings.clone()) {
            Ok(molecule) => {
                let found = molecule.examine().await;
                marks = found.marks;
                judge(workspace, &found)
            }
            Err(error) => Check::of_error(id, title, &error),
        };
        report.add(check);
        report.add(owners(workspace, marks));
    }
}

/// Who counts as owner, and what the platform can prove of it.
fn owners(workspace: &Workspace, marks: Marks) -> Check {
    let (id, title) = OWNERS;
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
        (false, _) if origins.is_decided() => Check::ok(id, title, detail),
        (false, _) => Check::warn(
            id,
            title,
            format!("{detail}; so nobody there can approve, stop or give commands"),
            "say who does, under [molecule.origins]: docs/guides/molecule.md, \"Who counts as owner\"",
        ),
        (true, Marks::Absent) if !unmarked => Check::warn(
            id,
            title,
            format!("{detail}; so nobody there is an owner"),
            "if nobody else can write without a workspace's token, set `unmarked = \"owner\"` under [molecule.origins]",
        ),
        (true, _) => Check::ok(id, title, detail),
    }
}

fn judge(workspace: &Workspace, found: &Examined) -> Check {
    let (id, title) = PLATFORM;
    let settings = &workspace.settings;
    let who = format!("{} at {}", settings.workspace, settings.platform_url);
    if let Some(why) = &found.unreached {
        let fix = "check PLATFORM_URL and the network; on a platform with several organisations also MOLECULE_ORG_ID";
        return Check::fail(id, title, format!("{who}: {why}"), fix);
    }
    let status = found.workspace.as_ref();
    if status.is_some_and(|found| found.status == "removed") {
        let fix = "make a new workspace on the canvas and use its id and token";
        return Check::fail(id, title, format!("{who}: it was removed"), fix);
    }
    if let Some(why) = &found.refused {
        let fix = format!(
            "take a token from the canvas, External Connect or the Tokens tab; it is read from {}",
            workspace.token_from
        );
        return Check::fail(id, title, format!("{who}: {why}"), fix);
    }
    let status = status.map_or_else(String::new, |found| {
        format!(" {:?} is {}", found.name, found.status)
    });
    let detail = format!("{who}:{status}, token accepted");
    match found.skew_ms {
        Some(skew) if skew.abs() > SKEW_MAX_MS => Check::warn(
            id,
            title,
            format!(
                "{detail}; its clock and ours are {} s apart",
                skew.abs() / 1_000
            ),
            "set this machine's clock (`timedatectl set-ntp true`); messages are not lost by it, times are shown wrong",
        ),
        Some(_) | None => Check::ok(id, title, detail),
    }
}
