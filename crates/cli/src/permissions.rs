//! `api permissions`: what holders of each scope may call and what turns of each tier may do, made from the tables that
//! the guards work with. `docs/guides/permissions.md` holds it, and a test compares the two.

use crate::client;
use bridge_core::value::{ApprovalPolicy, ReadAccess, Sandbox};
use bridge_daemon::config::{TierConfig, Tiers};
use bridge_daemon::routes;
use bridge_front::api::{Access, RouteEntry, Trace, Verb};
use bridge_front::{ControlAction, Scope, StartArgs};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Prints the tables.
pub(crate) fn print() -> anyhow::Result<ExitCode> {
    client::print(tables().trim_end(), ExitCode::SUCCESS)
}

/// The tables, as Markdown.
fn tables() -> String {
    let routes = routes();
    let mut page = String::new();
    let _fits = writeln!(page, "## Calls by scope\n");
    of_access(&mut page, &routes, Access::Public, "no token");
    of_access(&mut page, &routes, Access::Platform, "a platform's secret");
    of_access(
        &mut page,
        &routes,
        Access::Local,
        "the owner over `api.sock`",
    );
    of_access(&mut page, &routes, Access::Known, "any token or session");
    of_access(
        &mut page,
        &routes,
        Access::Decide,
        "either of `control` and `approve`",
    );
    for scope in Scope::ALL {
        let title = format!("`{}`", scope.as_str());
        of_access(&mut page, &routes, Access::Scope(scope), &title);
        acts(&mut page, scope);
    }
    let _fits = writeln!(page, "## Turns by tier\n");
    tiers(&mut page, &Tiers::default());
    page
}

fn of_access(page: &mut String, routes: &[RouteEntry], access: Access, title: &str) {
    let _fits = writeln!(page, "### {title}: {}\n", means(access));
    let rows: Vec<&RouteEntry> = routes
        .iter()
        .filter(|route| route.access == access)
        .collect();
    if rows.is_empty() {
        return;
    }
    let _fits = writeln!(page, "| call | what it does | what it leaves behind |");
    let _fits = writeln!(page, "| --- | --- | --- |");
    for route in rows {
        let verb = match route.verb {
            Verb::Get => "GET",
            Verb::Post => "POST",
            Verb::Delete => "DELETE",
            Verb::Any => "any method",
        };
        let (path, what) = (route.path, route.summary);
        let _fits = writeln!(page, "| {verb} `{path}` | {what} | {} |", left(route.trace));
    }
    page.push('\n');
}

/// What a scope is for, in one line.
fn means(access: Access) -> &'static str {
    match access {
        Access::Public => {
            "whether the daemon lives, who it says it is, and the page of the console, which shows nothing before it is signed in"
        }
        Access::Local => "lets a browser in, and lends conversations to Codex's terminal",
        Access::Known => "who it is itself",
        Access::Decide => "decides what Codex asks; to accept needs `approve`",
        Access::Platform => {
            "hands over messages of a workspace with `molecule.delivery = \"push\"`; what they may do is decided by who wrote them"
        }
        Access::Scope(Scope::Read) => "sees everything that is in the database, of all senders",
        Access::Scope(Scope::Send) => {
            "lets Codex work in the tier `tool`, in conversations of its own; with `admin` in the tier `owner`"
        }
        Access::Scope(Scope::Control) => {
            "starts tasks in the tier `tool`, stops what runs, declines what Codex asks, answers what Codex asks it about its own tasks"
        }
        Access::Scope(Scope::Approve) => "decides what Codex asks, whoever caused it",
        Access::Scope(Scope::Admin) => {
            "makes and revokes tokens, so it can give itself every scope; counts as the owner"
        }
        Access::Scope(Scope::A2a) => {
            "lets Codex work in the tier `peer`; sees and stops its own tasks alone"
        }
    }
}

fn left(trace: Trace) -> String {
    let words = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        words.join(", ")
    };
    match trace {
        Trace::Nothing => "-".to_owned(),
        Trace::Row => "a row with its sender".to_owned(),
        Trace::Audit(named) => format!("audit {}", words(named)),
        Trace::RowOrAudit(named) => format!("a row with its sender, or audit {}", words(named)),
    }
}

/// The acts of MCP tools; opening `/mcp` needs `read` beside it.
fn acts(page: &mut String, scope: Scope) {
    let acts = every_act().filter(|act| act.scope() == scope);
    let names: Vec<&str> = acts.map(|act| name(&act)).collect();
    if !names.is_empty() {
        let _fits = writeln!(page, "Over MCP: {}.\n", names.join(", "));
    }
}

/// Each act leads to the next: a new one does not compile before it has its place here.
fn every_act() -> impl Iterator<Item = ControlAction> {
    let first = ControlAction::Status {
        task_id: String::new(),
    };
    std::iter::successors(Some(first), act_after)
}

fn act_after(act: &ControlAction) -> Option<ControlAction> {
    let task_id = String::new();
    Some(match act {
        ControlAction::Status { .. } => ControlAction::List { limit: None },
        ControlAction::List { .. } => ControlAction::Requests,
        ControlAction::Requests => notify(true),
        ControlAction::NotifyCompleted { dry_run: true, .. } => {
            ControlAction::Start(StartArgs::default())
        }
        ControlAction::Start(_) => ControlAction::Steer {
            task_id,
            instruction: String::new(),
        },
        ControlAction::Steer { .. } => ControlAction::Interrupt { task_id },
        ControlAction::Interrupt { .. } => ControlAction::Respond {
            task_id,
            request_id: String::new(),
            decision: None,
            answers: None,
        },
        ControlAction::Respond { .. } => notify(false),
        ControlAction::NotifyCompleted { dry_run: false, .. } => return None,
    })
}

fn notify(dry_run: bool) -> ControlAction {
    ControlAction::NotifyCompleted {
        limit: None,
        dry_run,
    }
}

fn name(act: &ControlAction) -> &'static str {
    match act {
        ControlAction::Status { .. } => "status of a task",
        ControlAction::List { .. } => "list of tasks",
        ControlAction::Requests => "list of questions",
        ControlAction::NotifyCompleted { dry_run: true, .. } => "which notifications are unsent",
        ControlAction::Start(_) => "start a task",
        ControlAction::Steer { .. } => "steer a task",
        ControlAction::Interrupt { .. } => "stop a task",
        ControlAction::Respond { .. } => "decide what Codex asks (to accept needs `approve` too)",
        ControlAction::NotifyCompleted { dry_run: false, .. } => "send notifications",
    }
}

fn tiers(page: &mut String, tiers: &Tiers) {
    let _fits = writeln!(page, "| tier | write | read | network | Codex asks |");
    let _fits = writeln!(page, "| --- | --- | --- | --- | --- |");
    tier(page, "owner", &tiers.owner);
    tier(page, "tool", &tiers.tool);
    tier(page, "peer", &tiers.peer);
}

fn tier<T>(page: &mut String, name: &str, tier: &TierConfig<T>) {
    let (write, network) = match tier.sandbox() {
        Sandbox::ReadOnly => ("nothing", "none"),
        Sandbox::WorkspaceWrite => ("the working directory", "none"),
        Sandbox::DangerFullAccess => ("all that the daemon's user may", "all"),
    };
    let read = match tier.reads {
        ReadAccess::Disk => "all that the daemon's user may",
        ReadAccess::Isolated => {
            "the system's own directories, the working directory and `reads_also`"
        }
    };
    let asks = match tier.approval_policy() {
        ApprovalPolicy::OnRequest => "before a command leaves the sandbox",
        ApprovalPolicy::Untrusted => "before nearly every command",
        ApprovalPolicy::Never => "never",
    };
    let _fits = writeln!(page, "| `{name}` | {write} | {read} | {network} | {asks} |");
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str = include_str!("../../../docs/guides/permissions.md");

    #[test]
    fn published_permissions_match_the_guards() {
        let (_, rest) = GUIDE.split_once("<!-- tables -->\n").unwrap();
        let (published, _) = rest.split_once("<!-- end of tables -->").unwrap();
        assert!(
            published.trim() == tables().trim(),
            "put the output of `codex-bridge api permissions` between the marks of docs/guides/permissions.md"
        );
    }

    #[test]
    fn tables_list_every_scope_and_act() {
        let tables = tables();
        for scope in Scope::ALL {
            let title = format!("### `{}`", scope.as_str());
            assert!(tables.contains(&title), "{title}");
        }
        for act in every_act() {
            let (_, rest) = tables
                .split_once(&format!("### `{}`", act.scope().as_str()))
                .unwrap();
            let section = rest.split("\n### ").next().unwrap();
            assert!(section.contains(name(&act)), "{act:?}");
            assert_eq!(tables.matches(name(&act)).count(), 1, "{act:?}");
        }
    }
}
