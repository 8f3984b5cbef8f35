//! `/metrics`: the few figures that say whether the promises hold, as Prometheus reads them.
//!
//! No label has an id, a name or a text of anybody in it.

use super::counters::Counters;
use super::{Context, ProblemResponse};
use crate::{BridgeService, Health, LedgerView};
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use bridge_core::port::{Figures, Ledger, StateCount};
use bridge_core::step::{Incarnate, IncarnationGone, Transition};
use bridge_core::value::Timestamp;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What Prometheus calls its text.
pub(super) const MEDIA: &str = "text/plain; version=0.0.4; charset=utf-8";
/// A day in milliseconds.
const DAY_MS: i64 = 24 * 3_600_000;

pub(super) async fn show<D: BridgeService>(
    State(context): State<Context<D>>,
) -> Result<impl IntoResponse, ProblemResponse> {
    let now = context.service.now();
    let since = now.plus_ms(-DAY_MS);
    let read = context
        .service
        .ledger()
        .read(move |rows| Ok((rows.counts()?, rows.figures(since)?)))
        .await;
    let health = context.service.health().await;
    let mut page = Page::default();
    page.of_health(&health);
    // A ledger that can't be read has no figures; that it can't is in the others.
    if let Ok((counts, figures)) = &read {
        page.of_messages(counts, figures, now);
    }
    page.one(
        "ledger_readable",
        "gauge",
        "Whether the ledger could be read.",
        u64::from(read.is_ok()),
    );
    if let Some(bytes) = context.service.ledger_bytes() {
        page.one(
            "ledger_bytes",
            "gauge",
            "What the ledger takes on disk.",
            bytes,
        );
    }
    let steps = context.service.steps();
    page.of_codex(&steps);
    let steps = steps
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count));
    page.many(
        "transitions_total",
        "counter",
        "Steps of messages that were committed since the start.",
        "transition",
        steps,
    );
    page.one(
        "task_panics_total",
        "counter",
        "Tasks of the daemon that panicked; each is a bug.",
        context.service.task_panics(),
    );
    page.of_calls(&context.shared.counters, context.shared.streams.taken());
    Ok(([(header::CONTENT_TYPE, MEDIA)], page.0))
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a text can't fail.
        let _ = writeln!(self.0, "# HELP codex_bridge_{name} {help}");
        let _ = writeln!(self.0, "# TYPE codex_bridge_{name} {kind}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.head(name, kind, help);
        let _ = writeln!(self.0, "codex_bridge_{name} {value}");
    }

    /// Values by a label that is one of few words of ours.
    fn many(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (String, u64)>,
    ) {
        self.head(name, kind, help);
        for (word, value) in values {
            let _ = writeln!(self.0, "codex_bridge_{name}{{{label}=\"{word}\"}} {value}");
        }
    }

    /// Starts and ends of Codex: ends that grow while the daemon runs are deaths, or homes that nobody used.
    fn of_codex(&mut self, steps: &[(&'static str, u64)]) {
        let count = |name: &str| {
            let found = steps.iter().find(|(step, _)| *step == name);
            found.map_or(0, |(_, count)| *count)
        };
        for (name, help, step) in [
            (
                "codex_starts_total",
                "Processes of Codex that were begun or found again since the start.",
                Incarnate::NAME,
            ),
            (
                "codex_ends_total",
                "Processes of Codex that were found gone since the start.",
                IncarnationGone::NAME,
            ),
        ] {
            self.one(name, "counter", help, count(step));
        }
    }

    fn of_health(&mut self, health: &Health) {
        self.many(
            "info",
            "gauge",
            "Which version runs.",
            "version",
            [(health.version.clone(), 1)],
        );
        let ready = u64::from(health.ready);
        self.one(
            "ready",
            "gauge",
            "Whether it can answer messages now.",
            ready,
        );
        let mut channels: BTreeMap<String, u64> = BTreeMap::new();
        for channel in &health.channels {
            *channels.entry(channel.state.clone()).or_default() += 1;
        }
        self.many(
            "channels",
            "gauge",
            "Channels by how they are.",
            "state",
            channels,
        );
        if let Some(ledger) = &health.ledger {
            self.of_ledger(ledger);
        }
        // Only where the system has it.
        if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
            self.one("open_fds", "gauge", "Open file descriptors.", open.count());
        }
    }

    fn of_ledger(&mut self, ledger: &LedgerView) {
        let damaged = u64::from(ledger.health == "damaged");
        self.one(
            "ledger_damaged",
            "gauge",
            "Whether the ledger is damaged.",
            damaged,
        );
        let closed = u64::from(ledger.closed.is_some());
        self.one(
            "door_closed",
            "gauge",
            "Whether nothing more is taken in.",
            closed,
        );
        let log = ledger.log_bytes;
        self.one(
            "ledger_log_bytes",
            "gauge",
            "Size of the write-ahead log.",
            log,
        );
        if let Some(free) = ledger.free_bytes {
            self.one(
                "ledger_free_bytes",
                "gauge",
                "Room on the ledger's disk.",
                free,
            );
        }
        if let Some(took) = ledger.last_commit_ms {
            let help = "How long the newest commit took.";
            self.one("ledger_commit_milliseconds", "gauge", help, took);
        }
    }

    fn of_messages(&mut self, counts: &[StateCount], figures: &Figures, now: Timestamp) {
        let states = counts
            .iter()
            .map(|entry| (entry.state.as_str().to_owned(), entry.count));
        self.many("messages", "gauge", "Messages by state.", "state", states);
        let oldest = figures
            .oldest_unanswered
            .map_or(0, |at| now.since_ms(at).max(0) / 1000);
        let help = "Age of the oldest message without an answer; 0 without one.";
        self.one("oldest_unanswered_seconds", "gauge", help, oldest);
        for (name, help, value) in [
            (
                "answered_last_day",
                "Messages answered in the last 24 hours.",
                figures.answered,
            ),
            (
                "suspects",
                "Unanswered messages under which Codex died.",
                figures.suspects,
            ),
            (
                "waiting_for_operator",
                "Messages that wait until something is mended.",
                figures.operator,
            ),
            (
                "requests_waiting",
                "Questions of Codex that wait for somebody.",
                figures.requests_waiting,
            ),
            (
                "acks_owed",
                "Sources that are still to be told of an end.",
                0,
            ),
            (
                "replies_retried",
                "Replies that were tried and are not delivered.",
                figures.replies_retried,
            ),
        ] {
            self.one(name, "gauge", help, value);
        }
    }

    fn of_calls(&mut self, counters: &Counters, streams: usize) {
        let responses = counters.responses().into_iter();
        let responses = responses.map(|(status, count)| (status.to_string(), count));
        self.many(
            "http_responses_total",
            "counter",
            "Calls by how they were answered.",
            "code",
            responses,
        );
        let help = "Handlers that panicked.";
        self.one("http_panics_total", "counter", help, counters.panics());
        let help = "Open connections of the API.";
        self.one("http_connections", "gauge", help, counters.connections());
        self.one("http_streams", "gauge", "Open event streams.", streams);
    }
}
