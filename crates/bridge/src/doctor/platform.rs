//! Each Molecule workspace: is its platform there, does it take the token, is the workspace in order, do the clocks
//! agree. It only reads there.

use super::report::{Check, Report};
use crate::config::Workspace;
use bridge_channel::molecule::{Examined, Molecule};

/// How far the clocks may differ before it deserves a word: the daemon trusts the platform's own times.
const SKEW_MAX_MS: i64 = 60_000;
/// What the check is called.
const PLATFORM: (&str, &str) = ("molecule", "Molecule workspace");

/// Looks at all of them.
pub(super) async fn check(workspaces: &[Workspace], report: &mut Report) {
    for workspace in workspaces {
        let (id, title) = PLATFORM;
        let check = match Molecule::open(workspace.settings.clone()) {
            Ok(molecule) => judge(workspace, &molecule.examine().await),
            Err(error) => Check::of_error(id, title, &error),
        };
        report.add(check);
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
