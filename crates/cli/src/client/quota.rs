//! Limits of accounts in `status`: what is used, when it resets, and who waits.

use super::page::{PLAIN, Page, YELLOW};
use bridge_core::value::QuotaWindow;
use bridge_daemon::term::span;
use bridge_front::{QuotaView, QuotaWindowView, QuotasView};

pub(super) fn quota_lines(quotas: &QuotasView, now_ms: i64, page: &mut Page) {
    for account in &quotas.accounts {
        if account.windows.is_empty() && account.detail.is_none() {
            continue;
        }
        let look = if account.state == "free" {
            PLAIN
        } else {
            YELLOW
        };
        page.line(2, &in_a_line(account, now_ms), look);
        if let Some(detail) = &account.detail {
            page.line(4, detail, look);
        }
    }
    let (people, agents) = (quotas.people_waiting, quotas.agents_waiting);
    if people.saturating_add(agents) > 0 {
        let said = format!(
            "{people} of people and {agents} of agents wait for an account's limit or a budget; `codex-bridge why ID` says which"
        );
        page.line(4, &said, YELLOW);
    }
}

fn in_a_line(account: &QuotaView, now_ms: i64) -> String {
    let whose = match (&account.node, &account.codex_home) {
        (None, None) => String::new(),
        (Some(node), None) => format!(" of node {node}"),
        (None, Some(home)) => format!(" of {home}"),
        (Some(node), Some(home)) => format!(" of {home} on node {node}"),
    };
    let windows = account.windows.iter().map(|window| {
        let left = span(window.resets_at.ms().saturating_sub(now_ms));
        let name = name(window);
        format!(
            "{} % of the {name}limit used, resets in {left}",
            window.used_percent
        )
    });
    let windows: Vec<_> = windows.collect();
    format!(
        "account{whose}: {}{}",
        account.state,
        if windows.is_empty() {
            String::new()
        } else {
            format!(", {}", windows.join("; "))
        }
    )
}

fn name(window: &QuotaWindowView) -> String {
    let window = QuotaWindow {
        used_percent: window.used_percent,
        minutes: window.minutes,
        resets_at: None,
    };
    window.name()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_front::Time;

    #[test]
    fn line_names_windows_and_resets() {
        let account = QuotaView {
            node: None,
            codex_home: None,
            account: None,
            state: "reserved".to_owned(),
            detail: None,
            until: None,
            windows: vec![QuotaWindowView {
                name: "primary".to_owned(),
                used_percent: 93,
                minutes: Some(300),
                resets_at: Time::from_ms(42 * 60_000),
            }],
            reported_at: Time::from_ms(0),
        };
        assert_eq!(
            in_a_line(&account, 0),
            "account: reserved, 93 % of the 5-hour limit used, resets in 42 min"
        );
    }
}
