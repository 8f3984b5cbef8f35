//! The tests that each version of Codex must pass, in groups, and how they are counted.

use std::collections::BTreeMap;

/// Tests of one promise.
pub(super) struct Group {
    /// The head of its column.
    pub(super) name: &'static str,
    tests: &'static [&'static str],
    /// How many of them, from the first, are the short core.
    short: usize,
}

impl Group {
    pub(super) fn tests(&self, short: bool) -> &'static [&'static str] {
        let number = if short { self.short } else { self.tests.len() };
        self.tests.get(..number).unwrap_or(self.tests)
    }
}

/// All of them need the real Codex, and none goes by a version's number.
pub(super) const CORE: &[Group] = &[
    Group {
        name: "messages",
        tests: &[
            "processes::concurrent_conversations_share_one_codex",
            "attachments::image_reaches_model_file_reaches_workdir",
            "stop::interrupt_ends_turn_and_its_command",
            "exec::messages_of_one_conversation_resume_one_thread",
            "homes::idle_home_ends_and_restarts",
            "processes::restart_after_kill_attaches_to_codex",
        ],
        short: 2,
    },
    Group {
        name: "approvals",
        tests: &[
            "requests::command_runs_only_when_accepted",
            "requests::file_changes_only_when_accepted",
            "requests::permissions_questions_and_forms_take_every_decision",
            "requests_deaths::approval_request_survives_daemon_kill",
            "requests_deaths::c11_grant_answers_same_command_once",
            "requests_lost::f5_a_lost_answer_is_given_again",
        ],
        short: 2,
    },
    Group {
        name: "tasks",
        tests: &[
            "tasks::task_approval_is_answered_by_code",
            "tasks::task_api_starts_shows_and_lists",
            "tasks::task_is_steered_after_daemon_kill",
            "ask_agent::ask_agent_returns_answer_as_data",
        ],
        short: 1,
    },
    Group {
        name: "crash and reconcile",
        tests: &[
            "crash::restart_attaches_to_running_codex",
            "crash::c1_codex_killed_in_mid_turn_continues",
            "crash::answer_during_downtime_is_harvested",
            "crash::cut_turn_over_pipes_is_continued",
            "crash_points::k4_crash_during_turn_start_never_duplicates",
            "crash_points::k8_crash_before_answer_commit_harvests_it",
            "codex_threads::c17_torn_rollout_keeps_earlier_turns",
            "codex_threads::c19_foreign_turn_is_waited_for",
            "codex_threads::c20_thread_open_elsewhere_is_waited_for",
            "codex_threads::c21_lost_turn_waits_for_thread_holder",
            "histories::legacy_history_never_repeats_failed_work",
            "exec::k8_unseen_exec_answer_is_harvested",
        ],
        short: 3,
    },
    Group {
        name: "sandbox",
        tests: &[
            "power::turn_writes_only_where_sandbox_allows",
            "shield::threat_27_peers_read_only_their_directory",
            "shield::threat_27_writing_peer_stays_isolated",
            "shield::threat_24_hostile_repository_runs_nothing",
            "shield::threat_24_peers_get_no_operator_tools",
            "exec::read_isolation_applies_to_exec_runs",
        ],
        short: 2,
    },
    Group {
        name: "drift",
        tests: &[
            "drift::c23_doctor_finds_settings_codex_ignores",
            "drift::c14_renamed_client_id_runs_once",
            "drift::c14_unknown_status_never_runs_again",
            "drift::c14_renamed_turn_end_reads_history",
            "drift::c14_missing_method_waits_for_operator",
        ],
        short: 2,
    },
];

/// A way in which versions may differ and work all the same.
pub(super) struct Trait {
    /// The head of its column.
    pub(super) name: &'static str,
    /// Passes where it is so.
    pub(super) test: &'static str,
    /// What people see where it is not.
    pub(super) otherwise: &'static str,
}

pub(super) const TRAITS: &[Trait] = &[
    Trait {
        name: "steers at once",
        test: "agent::steer_reaches_only_the_running_turn",
        otherwise: "a text that is given to a running turn reaches the model when that has said its present answer, not at once; both answers are sent",
    },
    Trait {
        name: "keeps commands",
        test: "histories::work_that_failed_unseen_is_not_repeated",
        otherwise: "the history of its threads does not keep the commands of a turn: one that was lost from sight counts as one that may have changed something",
    },
];

/// How each test ended.
#[derive(Debug, Default)]
pub(super) struct Outcomes(BTreeMap<String, Outcome>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    PassedAlone,
    Failed,
}

impl Outcomes {
    /// Reads what the test harness prints: `test NAME ... ok`. What a test itself prints may stand between.
    pub(super) fn of(output: &str) -> Self {
        let mut outcomes = BTreeMap::new();
        let mut running = None;
        for line in output.lines() {
            if let Some((name, end)) = line
                .strip_prefix("test ")
                .and_then(|line| line.split_once(" ... "))
            {
                running = Some(name.to_owned());
                if let Some(outcome) = read(end) {
                    outcomes.insert(name.to_owned(), outcome);
                }
            } else if let (Some(outcome), Some(name)) = (read(line), &running) {
                outcomes.insert(name.clone(), outcome);
            }
        }
        Self(outcomes)
    }

    /// Those of these that did not pass, or were not found.
    pub(super) fn failed<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        let passed = |name: &&&str| {
            matches!(
                self.0.get(**name),
                Some(Outcome::Passed | Outcome::PassedAlone)
            )
        };
        names.iter().filter(|name| !passed(name)).copied().collect()
    }

    pub(super) fn try_again(&mut self, again: &Self) {
        for (name, outcome) in &again.0 {
            if *outcome == Outcome::Passed {
                self.0.insert(name.clone(), Outcome::PassedAlone);
            }
        }
    }
}

fn read(end: &str) -> Option<Outcome> {
    match end.trim() {
        "ok" => Some(Outcome::Passed),
        "FAILED" => Some(Outcome::Failed),
        _ => None,
    }
}

/// A group's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: usize,
    /// Of those, at the second try.
    pub(super) alone: usize,
    pub(super) all: usize,
}

impl Counts {
    pub(super) fn of(outcomes: &Outcomes, names: &[&str]) -> Self {
        let count = |wanted: &[Outcome]| {
            let ended = names.iter().filter_map(|name| outcomes.0.get(*name));
            ended.filter(|outcome| wanted.contains(outcome)).count()
        };
        Self {
            passed: count(&[Outcome::Passed, Outcome::PassedAlone]),
            alone: count(&[Outcome::PassedAlone]),
            all: names.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_test_counts_as_failed() {
        let said = "test a ... ok\ntest b ... 3 of 8 effects\nok\ntest c ... FAILED\n";
        let mut outcomes = Outcomes::of(said);
        let names = ["a", "b", "c", "d"];
        assert_eq!(outcomes.failed(&names), ["c", "d"]);
        outcomes.try_again(&Outcomes::of("test c ... ok\n"));
        assert_eq!(outcomes.failed(&names), ["d"]);
        let counts = Counts::of(&outcomes, &names);
        assert_eq!((counts.passed, counts.alone, counts.all), (3, 1, 4));
    }

    #[test]
    fn short_core_is_part_of_core() {
        for group in CORE {
            assert!(group.tests(false).starts_with(group.tests(true)));
            assert!(!group.tests(true).is_empty(), "{}", group.name);
        }
    }
}
