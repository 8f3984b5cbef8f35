//! What a report means for people and agents, at each part of a window.

use super::*;

const MINUTE: i64 = 60_000;

fn window(used_percent: u32, resets_at: i64) -> Option<QuotaWindow> {
    Some(QuotaWindow {
        used_percent,
        minutes: Some(300),
        resets_at: Some(Timestamp(resets_at)),
    })
}

fn quota(report: QuotaReport) -> Quota {
    Quota {
        source: QuotaSource {
            node_id: None,
            codex_home: None,
        },
        report,
        primary_slowed: None,
        secondary_slowed: None,
        reported_at: Timestamp(0),
    }
}

fn primary(used_percent: u32) -> Quota {
    quota(QuotaReport {
        primary: window(used_percent, 100 * MINUTE),
        ..QuotaReport::default()
    })
}

fn rules() -> QuotaRules {
    QuotaRules {
        reserve_percent: 10,
        slow_percent: 70,
        account: None,
    }
}

/// Until when people and agents wait, and when the next agent may begin.
fn waits(quota: &Quota, now: i64) -> (Option<i64>, Option<i64>, Option<i64>) {
    let gate = QuotaGate::of(quota, &rules(), Timestamp(now));
    let until = |wait: Option<QuotaWait>| wait.map(|wait| wait.until.0);
    (
        until(gate.holds(true)),
        until(gate.holds(false)),
        until(gate.slowed),
    )
}

#[test]
fn people_go_on_until_limit_is_used_up() {
    let end = Some(100 * MINUTE);
    for (used, expected) in [
        (0, (None, None, None)),
        (69, (None, None, None)),
        (70, (None, None, Some(0))),
        (89, (None, None, Some(0))),
        (90, (None, end, None)),
        (99, (None, end, None)),
        (100, (end, end, None)),
        (250, (end, end, None)),
    ] {
        assert_eq!(waits(&primary(used), 0), expected, "{used} %");
    }
}

#[test]
fn passed_or_unbelievable_reset_limits_nobody() {
    let free = (None, None, None);
    assert_eq!(waits(&primary(100), 100 * MINUTE), free);
    let mut report = primary(100);
    report.report.primary.as_mut().unwrap().resets_at = None;
    assert_eq!(waits(&report, 0), free);
    let far = Timestamp(QUOTA_WINDOW_MAX_MS + 1);
    report.report.primary.as_mut().unwrap().resets_at = Some(far);
    assert_eq!(waits(&report, 0), free);
    assert_eq!(waits(&quota(QuotaReport::default()), 0), free);
}

#[test]
fn window_that_resets_last_is_waited_for() {
    let both = quota(QuotaReport {
        primary: window(100, 20 * MINUTE),
        secondary: window(95, 90 * MINUTE),
        ..QuotaReport::default()
    });
    let expected = (Some(20 * MINUTE), Some(90 * MINUTE), None);
    assert_eq!(waits(&both, 0), expected);
}

#[test]
fn credits_pay_for_people_alone() {
    let mut paid = primary(100);
    paid.report.has_credits = true;
    assert_eq!(waits(&paid, 0), (None, Some(100 * MINUTE), None));
    let nothing_kept = QuotaGate::of(&paid, &QuotaRules::default(), Timestamp(0));
    assert_eq!(nothing_kept, QuotaGate::default());
}

#[test]
fn refused_turn_counts_whatever_windows_say() {
    let mut refused = primary(3);
    refused.report.refused_until = Some(Timestamp(7 * MINUTE));
    let all = (Some(7 * MINUTE), Some(7 * MINUTE), None);
    assert_eq!(waits(&refused, 0), all);
    assert_eq!(waits(&refused, 7 * MINUTE), (None, None, None));
}

#[test]
fn slowed_agents_share_rest_of_time_evenly() {
    let mut slowed = primary(70);
    let since = |quota: &Quota, before: Option<&Quota>, now| {
        slowed_since(
            quota.report.primary,
            before.and_then(|before| before.report.primary),
            before.and_then(|before| before.primary_slowed),
            &rules(),
            Timestamp(now),
        )
    };
    slowed.primary_slowed = since(&slowed, None, 20 * MINUTE);
    // 20 percent are left for 80 minutes.
    for (used, next) in [(70, 20), (71, 24), (75, 40), (80, 60), (89, 96)] {
        let mut later = primary(used);
        later.primary_slowed = since(&later, Some(&slowed), 50 * MINUTE);
        assert_eq!(waits(&later, 0).2, Some(next * MINUTE), "{used} %");
    }
    // The next window begins anew, and so does one in which room was made.
    let mut next = primary(72);
    next.report.primary.as_mut().unwrap().resets_at = Some(Timestamp(400 * MINUTE));
    assert_eq!(
        since(&next, Some(&slowed), 105 * MINUTE).unwrap().at.0,
        105 * MINUTE
    );
    assert_eq!(since(&primary(69), Some(&slowed), 50 * MINUTE), None);
}

#[test]
fn small_shift_of_reset_is_no_news() {
    let old = primary(40).report;
    let mut new = old.clone();
    new.primary = window(40, 101 * MINUTE);
    assert!(is_known(&new, &old));
    new.primary = window(41, 100 * MINUTE);
    assert!(!is_known(&new, &old));
    new.primary = window(40, 300 * MINUTE);
    assert!(!is_known(&new, &old));
}

#[test]
fn newest_report_of_account_counts() {
    let named = |node: &str, used, at, account: Option<&str>| Quota {
        source: QuotaSource {
            node_id: Some(NodeId::new(node)),
            codex_home: None,
        },
        reported_at: Timestamp(at),
        report: QuotaReport {
            account: account.map(str::to_owned),
            ..primary(used).report
        },
        ..primary(used)
    };
    let gate = |quotas: &[Quota], node: &str, rules: &QuotaRules| {
        let gates = QuotaGates::of(quotas, Some(&NodeId::new(node)), rules, Timestamp(5));
        gates.home(None).holds(true).is_some()
    };
    let team = [
        named("n1", 20, 1, Some("team")),
        named("n2", 100, 2, Some("team")),
    ];
    assert!(gate(&team, "n1", &rules()));
    let own = [named("n1", 20, 1, None), named("n2", 100, 2, None)];
    assert!(
        !gate(&own, "n1", &rules()),
        "nobody knows that it is the same"
    );
    assert!(!gate(&team, "n3", &rules()), "it has not said whose it is");
    let known = QuotaRules {
        account: Some("team".to_owned()),
        ..rules()
    };
    assert!(gate(&team, "n3", &known));
}

#[test]
fn programs_are_no_people() {
    let owners = [(ChannelId::new("task"), "local owner".to_owned())];
    let who = |kind, tier, channel: &str, sender: &str| {
        is_person(&owners, kind, tier, &ChannelId::new(channel), sender)
    };
    let person = SenderKind::Person;
    assert!(who(person, Tier::Owner, "local", "local owner"));
    assert!(who(person, Tier::Tool, "local", "user ann"));
    assert!(who(person, Tier::Tool, "task", "local owner"));
    assert!(who(person, Tier::Peer, "molecule:x", "canvas"));
    assert!(!who(person, Tier::Tool, "local", "ci"));
    assert!(!who(person, Tier::Tool, "task", "ci"));
    assert!(!who(SenderKind::Agent, Tier::Peer, "a2a", "bob"));
}

#[test]
fn one_agent_at_a_time_while_slowed() {
    let flight = |kind, turns, waiting| Flight {
        channel: ChannelId::new("a2a"),
        sender: "bob".to_owned(),
        tier: Tier::Owner,
        kind,
        turns,
        waiting,
        suspects: 0,
        at: None,
        node: None,
    };
    let busy = |used, flight: &[Flight]| {
        let gates = QuotaGates::of(&[primary(used)], None, &rules(), Timestamp(1));
        gates.busy_homes(flight, &[], Timestamp(1))
    };
    let agent = SenderKind::Agent;
    assert_eq!(busy(70, &[flight(agent, 1, 0)]), [""]);
    assert!(
        busy(70, &[flight(agent, 1, 1)]).is_empty(),
        "it waits for a person"
    );
    assert!(busy(70, &[flight(SenderKind::Person, 3, 0)]).is_empty());
    assert!(busy(69, &[flight(agent, 9, 0)]).is_empty());
}
