//! What the new Codex did otherwise than the old one, and how bad that is.

use super::play::{Played, PlayedConversation, PlayedTurn};
use crate::self_check::{Finding, Severity};
use std::collections::{BTreeMap, BTreeSet};

/// Notifications that a turn can't be followed without, or that what may be done depends on.
const VITAL: [&str; 7] = [
    "turn/started",
    "turn/completed",
    "item/started",
    "item/completed",
    "serverRequest/resolved",
    "thread/settings/updated",
    "thread/status/changed",
];
/// Differences that are listed; one cause shows in every conversation.
const CHANGES_MAX: usize = 100;
/// More time or memory than this, in percent of the old one's, is worth a word.
const COST_PERCENT: u64 = 150;
/// Below this a difference of time is noise.
const CPU_NOISE_MS: u64 = 500;

/// The differences, the worst first; each with how many conversations show it.
pub(super) fn changes(old: &Played, new: &Played) -> Vec<Finding> {
    let mut found: BTreeMap<(Severity, String), BTreeSet<usize>> = BTreeMap::new();
    let mut note = |severity: Severity, what: String, conversation: Option<usize>| {
        found
            .entry((severity, what))
            .or_default()
            .extend(conversation);
    };
    for (number, before) in old.conversations.iter().enumerate() {
        if let Some(after) = new.conversations.get(number) {
            conversation(before, after, &mut |severity, what| {
                note(severity, what, Some(number))
            });
        }
    }
    whole(old, new, &mut |severity, what| note(severity, what, None));
    let mut changes: Vec<_> = found.into_iter().collect();
    changes.sort_by(|((one, _), _), ((other, _), _)| other.cmp(one));
    let changes = changes.into_iter().map(|((severity, what), of)| Finding {
        severity,
        what: match of.len() {
            0 => what,
            1 => format!("{what} (1 conversation)"),
            many => format!("{what} ({many} conversations)"),
        },
    });
    changes.take(CHANGES_MAX).collect()
}

/// What concerns no single conversation.
fn whole(old: &Played, new: &Played, note: &mut dyn FnMut(Severity, String)) {
    if let Some(why) = &new.failure {
        let at = new.conversations.len();
        note(
            Severity::Breaks,
            format!("the replay ends at conversation {at}: {why}"),
        );
    }
    for finding in new.findings.difference(&old.findings) {
        note(finding.severity, finding.what.clone());
    }
    for method in old.notifications.keys() {
        if !new.notifications.contains_key(method) {
            let severity = match (
                VITAL.contains(&method.as_str()),
                old.unknown.contains(method),
            ) {
                (true, _) => Severity::Breaks,
                (false, false) => Severity::BlindSpot,
                (false, true) => Severity::Harmless,
            };
            note(severity, format!("{method}: it does not come any more"));
        }
    }
    for method in new.notifications.keys() {
        if !old.notifications.contains_key(method) {
            let what = format!("{method}: a notification that did not come before");
            note(Severity::Harmless, what);
        }
    }
    let (before, after) = (&old.cost, &new.cost);
    let noise = before.cpu_ms.saturating_add(CPU_NOISE_MS);
    if is_more(before.cpu_ms, after.cpu_ms) && after.cpu_ms > noise {
        let what = format!(
            "processor time: {} ms, {} ms before",
            after.cpu_ms, before.cpu_ms
        );
        note(Severity::Harmless, what);
    }
    if is_more(before.peak_kib, after.peak_kib) {
        let mib = |kib: u64| kib / 1024;
        let (now, was) = (mib(after.peak_kib), mib(before.peak_kib));
        note(
            Severity::Harmless,
            format!("memory: {now} MiB at most, {was} MiB before"),
        );
    }
    if after.model_requests > before.model_requests && new.failure.is_none() {
        let (now, was) = (after.model_requests, before.model_requests);
        let what = format!("requests to the model, which are paid: {now}, {was} before");
        note(Severity::BlindSpot, what);
    }
}

fn is_more(before: u64, after: u64) -> bool {
    after.saturating_mul(100) > before.saturating_mul(COST_PERCENT)
}

fn conversation(
    old: &PlayedConversation,
    new: &PlayedConversation,
    note: &mut dyn FnMut(Severity, String),
) {
    if let (None, Some(complaint)) = (&old.complaint, &new.complaint) {
        note(Severity::Breaks, complaint.clone());
    }
    let names: BTreeSet<_> = old.settings.keys().chain(new.settings.keys()).collect();
    for name in names {
        let shown = |value: Option<&serde_json::Value>| {
            value.map_or("nothing".to_owned(), |value| format!("`{value}`"))
        };
        let (was, is) = (old.settings.get(name), new.settings.get(name));
        match (was, is) {
            _ if was == is => {}
            (None, Some(_)) => note(
                Severity::Harmless,
                format!("thread/start: a new setting `{name}` is {}", shown(is)),
            ),
            _ => note(
                Severity::BlindSpot,
                format!(
                    "thread/start: `{name}` is {}, it was {}",
                    shown(is),
                    shown(was)
                ),
            ),
        }
    }
    for (before, after) in old.turns.iter().zip(&new.turns) {
        turn(before, after, note);
    }
    if old.history != new.history && old.turns.len() == new.turns.len() {
        let differing = old
            .history
            .iter()
            .zip(&new.history)
            .find(|(was, is)| was != is);
        let (was, is) = differing.map_or_else(
            || {
                (
                    format!("{} turns", old.history.len()),
                    format!("{} turns", new.history.len()),
                )
            },
            |(was, is)| (was.clone(), is.clone()),
        );
        note(
            Severity::Breaks,
            format!("the history of a conversation says otherwise: `{is}`, it was `{was}`"),
        );
    }
}

fn turn(old: &PlayedTurn, new: &PlayedTurn, note: &mut dyn FnMut(Severity, String)) {
    for finding in &new.findings {
        if !old.findings.contains(finding) {
            note(finding.severity, finding.what.clone());
        }
    }
    if new.end != old.end {
        let (is, was) = (&new.end, &old.end);
        note(
            Severity::Breaks,
            format!("the end of a turn: `{is}`, it was `{was}`"),
        );
    }
    if old.answered && !new.answered {
        note(
            Severity::Breaks,
            "a turn has not the answer that the model gave".to_owned(),
        );
    }
    if new.requests != old.requests {
        let (is, was) = (listed(&new.requests), listed(&old.requests));
        note(
            Severity::Breaks,
            format!("what a turn asks: {is}, it was {was}"),
        );
    }
    if new.items != old.items {
        let (is, was) = (listed(&new.items), listed(&old.items));
        note(
            Severity::Breaks,
            format!("what a turn reports as done: {is}, it was {was}"),
        );
    }
    if new.statuses != old.statuses {
        let (is, was) = (listed(&new.statuses), listed(&old.statuses));
        note(
            Severity::BlindSpot,
            format!("how a thread stands during a turn: {is}, it was {was}"),
        );
    }
    for (method, was) in &old.notifications {
        let is = new.notifications.get(method).copied().unwrap_or(0);
        // Where it never comes any more, that is said once for all.
        if is > 0 && is < *was && VITAL.contains(&method.as_str()) {
            let what = format!("{method}: it comes {is} times in a turn, it was {was} times");
            note(Severity::Breaks, what);
        }
    }
}

/// In their order, a repeated one once with its number.
fn listed(words: &[String]) -> String {
    let mut runs: Vec<(&str, usize)> = Vec::new();
    for word in words {
        match runs.last_mut() {
            Some((last, count)) if last == word => *count = count.saturating_add(1),
            _ => runs.push((word, 1)),
        }
    }
    let runs: Vec<_> = runs
        .into_iter()
        .map(|(word, count)| match count {
            1 => format!("`{word}`"),
            many => format!("`{word}` {many} times"),
        })
        .collect();
    if runs.is_empty() {
        "nothing".to_owned()
    } else {
        runs.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::ReplayCost;
    use super::*;
    use serde_json::json;

    fn turn_of(requests: &[&str]) -> PlayedTurn {
        PlayedTurn {
            end: "completed".to_owned(),
            answered: true,
            requests: requests.iter().map(|&word| word.to_owned()).collect(),
            items: vec!["agentMessage".to_owned()],
            statuses: vec!["active".to_owned(), "idle".to_owned()],
            notifications: BTreeMap::from([("item/started".to_owned(), 4)]),
            findings: Vec::new(),
        }
    }

    fn played(turn: fn() -> PlayedTurn) -> Played {
        let conversation = || PlayedConversation {
            settings: BTreeMap::from([("model".to_owned(), json!("m"))]),
            complaint: None,
            turns: vec![turn()],
            history: vec!["completed".to_owned()],
        };
        Played {
            conversations: vec![conversation(), conversation()],
            notifications: BTreeMap::from([
                ("turn/completed".to_owned(), 2),
                ("x/y".to_owned(), 1),
            ]),
            unknown: BTreeSet::from(["x/y".to_owned()]),
            findings: BTreeSet::new(),
            cost: ReplayCost {
                version: "1.0.0".to_owned(),
                cpu_ms: 1_000,
                peak_kib: 100_000,
                wall_ms: 1,
                model_requests: 2,
            },
            failure: None,
        }
    }

    fn usual() -> Played {
        played(|| turn_of(&["approval"]))
    }

    /// The differences from the usual one after this was changed.
    fn after(change: impl FnOnce(&mut Played)) -> Vec<String> {
        let mut new = usual();
        change(&mut new);
        changes(&usual(), &new)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn equal_runs_have_no_changes() {
        assert_eq!(changes(&usual(), &usual()), []);
    }

    #[test]
    fn missing_and_new_questions_break() {
        let silent = changes(&usual(), &played(|| turn_of(&[])));
        let words = "breaks: what a turn asks: nothing, it was `approval` (2 conversations)";
        assert_eq!(
            silent.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [words]
        );
        let more = changes(&usual(), &played(|| turn_of(&["approval", "mood", "mood"])));
        assert!(
            more[0].what.contains("`approval`, `mood` 2 times"),
            "{more:?}"
        );
    }

    #[test]
    fn lost_notification_counts_by_its_meaning() {
        let lost = after(|new| new.notifications.clear());
        assert_eq!(
            lost,
            [
                "breaks: turn/completed: it does not come any more",
                "harmless: x/y: it does not come any more"
            ]
        );
        let fewer = after(|new| {
            new.conversations[0].turns[0].notifications =
                BTreeMap::from([("item/started".to_owned(), 3)]);
        });
        assert_eq!(
            fewer,
            ["breaks: item/started: it comes 3 times in a turn, it was 4 times (1 conversation)"]
        );
    }

    #[test]
    fn settings_history_and_cost_are_compared() {
        let other = after(|new| {
            new.conversations[1].settings = BTreeMap::from([("model".to_owned(), json!("n"))]);
            new.conversations[1].history = vec!["interrupted".to_owned()];
            new.cost.cpu_ms = 9_000;
            new.cost.peak_kib = 200_000;
            new.cost.model_requests = 3;
        });
        assert_eq!(
            other,
            [
                "breaks: the history of a conversation says otherwise: `interrupted`, it was `completed` (1 conversation)",
                "blind spot: requests to the model, which are paid: 3, 2 before",
                "blind spot: thread/start: `model` is `\"n\"`, it was `\"m\"` (1 conversation)",
                "harmless: memory: 195 MiB at most, 97 MiB before",
                "harmless: processor time: 9000 ms, 1000 ms before",
            ]
        );
    }
}
