//! `/metrics` in Prometheus' text format, and the counters behind it.
//!
//! No label contains an id, a name or a text of a user.

use super::quota::{QuotasView, own_windows, quotas};
use super::status::counts;
use super::{Context, ProblemResponse};
use crate::{
    BridgeService, CodexMemoryView, HealthView, HistogramView, LedgerView, Measured, lock,
};
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use bridge_core::port::{Figures, StateCount};
use bridge_core::step::{Incarnate, IncarnationGone, Transition};
use bridge_core::value::{NodeId, StateName, Timestamp};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Content type of Prometheus' text format.
pub(super) const MEDIA: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Counts since the start that no row has.
#[derive(Debug, Default)]
pub(super) struct Counters {
    panics: AtomicU64,
    connections: Arc<AtomicU64>,
    /// Responses by status code.
    responses: Mutex<BTreeMap<u16, u64>>,
}

/// An open connection; uncounted when dropped.
#[derive(Debug)]
pub(super) struct CountedConnection(Arc<AtomicU64>);

impl Counters {
    pub(super) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn answered(&self, status: u16) {
        let mut responses = lock(&self.responses);
        *responses.entry(status).or_default() += 1;
    }

    pub(super) fn opened(&self) -> CountedConnection {
        self.connections.fetch_add(1, Ordering::Relaxed);
        CountedConnection(Arc::clone(&self.connections))
    }

    pub(super) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    pub(super) fn responses(&self) -> Vec<(u16, u64)> {
        let responses = lock(&self.responses);
        responses
            .iter()
            .map(|(status, count)| (*status, *count))
            .collect()
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) async fn show<D: BridgeService>(
    State(context): State<Context<D>>,
) -> Result<impl IntoResponse, ProblemResponse> {
    let now = context.service.now();
    let read = counts(&context.service, now).await;
    let health = context.service.health().await;
    let mut text = MetricsText::default();
    text.add_health(&health);
    // A ledger that can't be read has no counts; `ledger_readable` says so.
    if let Ok((counts, figures)) = &read {
        text.add_messages(counts, figures, now);
    }
    let this_node = context.service.read(|rows| Ok(rows.this_node())).await;
    if let (Ok(shown), Ok(node)) = (quotas(&context.service).await, this_node) {
        let shown = shown.unwrap_or_default();
        let node = node.as_ref().map(NodeId::as_str);
        text.add_quotas(&shown, &own_windows(&shown, node, now));
    }
    let readable = u64::from(read.is_ok());
    text.gauge(
        "ledger_readable",
        "Whether the database could be read.",
        readable,
    );
    if let Some(bytes) = context.service.ledger_bytes() {
        text.gauge("ledger_bytes", "What the database takes on disk.", bytes);
    }
    text.add_transitions(&context.service.steps());
    text.add_measured(&context.service.measured());
    text.counter(
        "task_panics_total",
        "Tasks of the daemon that panicked; each is a bug.",
        context.service.task_panics(),
    );
    text.add_calls(&context.shared.counters, context.shared.streams.taken());
    Ok(([(header::CONTENT_TYPE, MEDIA)], text.0))
}

#[derive(Default)]
struct MetricsText(String);

impl MetricsText {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a `String` can't fail.
        let _ = writeln!(self.0, "# HELP codex_bridge_{name} {help}");
        let _ = writeln!(self.0, "# TYPE codex_bridge_{name} {kind}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.head(name, "gauge", help);
        let _ = writeln!(self.0, "codex_bridge_{name} {value}");
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "counter", help);
        let _ = writeln!(self.0, "codex_bridge_{name} {value}");
    }

    /// One value per label; labels are from a small fixed set.
    fn labelled(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        label: &str,
        values: impl IntoIterator<Item = (String, u64)>,
    ) {
        self.head(name, kind, help);
        for (word, value) in values {
            let _ = writeln!(self.0, "codex_bridge_{name}{{{label}=\"{word}\"}} {value}");
        }
    }

    /// Of the default CODEX_HOME: windows are `primary` and `secondary`, accounts have no label.
    fn add_quotas(&mut self, shown: &QuotasView, windows: &[(String, u64, u64)]) {
        let used = windows.iter().map(|(name, used, _)| (name.clone(), *used));
        let help = "Percent of the account's limit that are used.";
        self.labelled(("quota_used_percent", "gauge", help), "window", used);
        let resets = windows.iter().map(|(name, _, left)| (name.clone(), *left));
        let help = "Seconds until the account's limit resets.";
        self.labelled(("quota_reset_seconds", "gauge", help), "window", resets);
        let waiting = [
            ("people".to_owned(), shown.people_waiting),
            ("agents".to_owned(), shown.agents_waiting),
        ];
        let help = "Messages that wait for an account's limit or a budget.";
        self.labelled(("quota_waiting", "gauge", help), "kind", waiting);
    }

    fn histogram(&mut self, name: &str, help: &str, values: &HistogramView) {
        self.head(name, "histogram", help);
        for (bound, count) in &values.buckets {
            let _ = writeln!(
                self.0,
                "codex_bridge_{name}_bucket{{le=\"{bound}\"}} {count}"
            );
        }
        let HistogramView { sum, count, .. } = values;
        let _ = writeln!(self.0, "codex_bridge_{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(self.0, "codex_bridge_{name}_sum {sum}");
        let _ = writeln!(self.0, "codex_bridge_{name}_count {count}");
    }

    fn add_measured(&mut self, measured: &Measured) {
        for (name, help, values) in [
            (
                "ledger_commit_seconds",
                "How long commits took, with their fsync and the wait for the writer.",
                &measured.commit_seconds,
            ),
            (
                "turn_seconds",
                "How long turns took.",
                &measured.turn_seconds,
            ),
            (
                "answer_seconds",
                "From the arrival of a message to its answer, waiting for people included.",
                &measured.answer_seconds,
            ),
            (
                "approval_seconds",
                "From a question of Codex to its decision.",
                &measured.approval_seconds,
            ),
        ] {
            self.histogram(name, help, values);
        }
        let decisions = measured.approvals.iter();
        let help = "Questions of Codex by how they were decided since the start.";
        self.labelled(
            ("approvals_total", "counter", help),
            "decision",
            decisions.map(|(decision, count)| ((*decision).to_owned(), *count)),
        );
        let help = "Tokens of turns that ended since the start, as Codex reports them.";
        let (input, output) = (measured.input_tokens, measured.output_tokens);
        self.labelled(
            ("tokens_total", "counter", help),
            "type",
            [("input".to_owned(), input), ("output".to_owned(), output)],
        );
        let help = "Spans that the receiver of traces took since the start.";
        self.counter("trace_spans_exported_total", help, measured.spans_exported);
        let help = "Spans that found no room or were not taken since the start.";
        self.counter("trace_spans_dropped_total", help, measured.spans_dropped);
    }

    fn add_transitions(&mut self, steps: &[(&'static str, u64)]) {
        let count = |name: &str| {
            let found = steps.iter().find(|(step, _)| *step == name);
            found.map_or(0, |(_, count)| *count)
        };
        // Ends that grow while the daemon runs are crashes, or homes that nobody used.
        self.counter(
            "codex_starts_total",
            "Processes of Codex that were begun or found again since the start.",
            count(Incarnate::NAME),
        );
        self.counter(
            "codex_ends_total",
            "Processes of Codex that were found gone since the start.",
            count(IncarnationGone::NAME),
        );
        let help = "Steps of messages that were committed since the start.";
        self.labelled(
            ("transitions_total", "counter", help),
            "transition",
            steps
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count)),
        );
    }

    fn add_health(&mut self, health: &HealthView) {
        self.labelled(
            ("build_info", "gauge", "Which version runs."),
            "version",
            [(health.version.clone(), 1)],
        );
        let ready = u64::from(health.ready);
        self.gauge("ready", "Whether it can answer messages now.", ready);
        let mut channels: BTreeMap<String, u64> = BTreeMap::new();
        for channel in &health.channels {
            *channels.entry(channel.state.clone()).or_default() += 1;
        }
        let head = ("channels", "gauge", "Channels by how they are.");
        self.labelled(head, "state", channels);
        if let Some(memory) = &health.codex_memory {
            self.add_codex_memory(memory);
        }
        if let Some(ledger) = &health.ledger {
            self.add_ledger(ledger);
        }
        // Linux only.
        if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
            self.gauge("process_open_fds", "Open file descriptors.", open.count());
        }
        if let Some(bytes) = resident_bytes() {
            let help = "Memory of the daemon, without Codex.";
            self.gauge("process_resident_memory_bytes", help, bytes);
        }
    }

    fn add_codex_memory(&mut self, memory: &CodexMemoryView) {
        if let Some(bytes) = memory.resident_bytes {
            let help = "Resident memory of Codex and of what it started.";
            self.gauge("codex_memory_bytes", help, bytes);
        }
        if let Some(bytes) = memory.budget_bytes {
            let help = "What Codex may have (codex.memory_mib).";
            self.gauge("codex_memory_budget_bytes", help, bytes);
        }
        let help = "Threads that Codex has loaded.";
        self.gauge("codex_threads_loaded", help, memory.threads_loaded);
        let help = "Threads that were loaded again for a message since the start.";
        self.counter("codex_threads_resumed_total", help, memory.threads_resumed);
        let help = "Threads that were unloaded since the start.";
        self.counter(
            "codex_threads_released_total",
            help,
            memory.threads_released,
        );
    }

    fn add_ledger(&mut self, ledger: &LedgerView) {
        let damaged = u64::from(ledger.health == "damaged");
        self.gauge(
            "ledger_damaged",
            "Whether the database is damaged.",
            damaged,
        );
        let closed = u64::from(ledger.closed.is_some());
        self.gauge("intake_closed", "Whether nothing more is taken in.", closed);
        let log = ledger.log_bytes;
        self.gauge("ledger_log_bytes", "Size of the write-ahead log.", log);
        if let Some(free) = ledger.free_bytes {
            self.gauge("ledger_free_bytes", "Room on the database's disk.", free);
        }
    }

    fn add_messages(&mut self, counts: &[StateCount], figures: &Figures, now: Timestamp) {
        // Also those that no message is in: a rule over a series that is not there never fires.
        let states = StateName::ALL.map(|state| {
            let counted = counts.iter().filter(|entry| entry.state == state);
            (
                state.as_str().to_owned(),
                counted.map(|entry| entry.count).sum(),
            )
        });
        self.labelled(("messages", "gauge", "Messages by state."), "state", states);
        let oldest = figures
            .oldest_unanswered
            .map_or(0, |at| now.since_ms(at).max(0) / 1000);
        let help = "Age of the oldest message without an answer; 0 without one.";
        self.gauge("messages_oldest_unanswered_seconds", help, oldest);
        for (name, help, value) in [
            (
                "messages_answered_last_day",
                "Messages answered in the last 24 hours.",
                figures.answered,
            ),
            (
                "messages_suspected",
                "Unanswered messages under which Codex died.",
                figures.suspects,
            ),
            (
                "messages_waiting_for_operator",
                "Messages that wait until something is mended.",
                figures.operator,
            ),
            (
                "approvals_waiting",
                "Questions of Codex that wait for somebody.",
                figures.requests_waiting,
            ),
            (
                "replies_undelivered",
                "Replies that were tried and are not delivered.",
                figures.replies_retried,
            ),
        ] {
            self.gauge(name, help, value);
        }
    }

    fn add_calls(&mut self, counters: &Counters, streams: usize) {
        let responses = counters.responses().into_iter();
        let responses = responses.map(|(status, count)| (status.to_string(), count));
        let help = "Calls by how they were answered.";
        self.labelled(("http_responses_total", "counter", help), "code", responses);
        self.counter(
            "http_panics_total",
            "Handlers that panicked.",
            counters.panics(),
        );
        let connections = counters.connections();
        self.gauge(
            "http_connections",
            "Open connections of the API.",
            connections,
        );
        self.gauge("http_streams", "Open event streams.", streams);
    }
}

/// Linux only.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}
