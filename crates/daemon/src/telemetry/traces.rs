//! Exports the trace of every message when it is over.
//!
//! Spans come from its rows, so nothing waits for them and a crash loses none: what ended shortly before one is exported
//! again, with the same ids. Commits and tools are only seen as they happen; they are kept, within bounds, until their
//! message is over. A slow receiver costs spans, which are counted, and no message any time.

use crate::Daemon;
use crate::config::TelemetryConfig;
use crate::process::ids::now;
use bridge_channel::otlp::{ExportError, OtlpExporter};
use bridge_core::port::{Agent, Change, ItemNote, Ledger, LedgerError, Sink};
use bridge_core::retry::backoff_ms;
use bridge_core::trace::{Moment, MomentKind, Nanos, Span, TraceRows};
use bridge_core::value::{ItemId, Message, MessageId, SpanId, StateName, Timestamp, TraceParent};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// News that wait for the exporter. Beyond it they are counted and dropped.
const QUEUE_MAX: usize = 4096;
/// Spans in one request.
const BATCH_MAX: usize = 512;
/// How long the first span of a request waits for others.
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// How often a request is sent that may be taken later.
const TRIES_MAX: u32 = 4;
const RETRY_BASE_MS: i64 = 500;
const RETRY_MAX_MS: i64 = 5_000;
/// Messages under way whose commits and tools are kept.
const MESSAGES_MAX: usize = 1024;
/// Commits and tools that are kept of one message.
const MOMENTS_MAX: usize = 256;
/// How long the last request of a stopping daemon may take.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// How far before its start a daemon looks for messages whose trace the one before may not have exported.
const AGAIN_MS: i64 = 60_000;

/// Traces of messages; off unless the configuration names a receiver.
#[derive(Debug, Default)]
pub(crate) struct Traces(Option<Tracing>);

#[derive(Debug)]
struct Tracing {
    config: TelemetryConfig,
    news: mpsc::Sender<News>,
    /// Taken by the exporter.
    queue: Mutex<Option<mpsc::Receiver<News>>>,
    exported: AtomicU64,
    dropped: AtomicU64,
}

/// What the exporter hears of.
#[derive(Debug)]
enum News {
    Seen(Moment),
    ToolBegan {
        message_id: MessageId,
        item_id: ItemId,
        at: Nanos,
    },
    ToolEnded {
        moment: Moment,
        item_id: ItemId,
    },
    /// It may be over: its row says so.
    Over(MessageId),
}

/// When a commit was begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitClock {
    at: Timestamp,
    began: std::time::Instant,
}

/// Spans since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpanCounts {
    pub(crate) exported: u64,
    pub(crate) dropped: u64,
}

impl Traces {
    pub(crate) fn new(config: &TelemetryConfig) -> Self {
        let tracing = config.otlp.is_some().then(|| {
            let (news, queue) = mpsc::channel(QUEUE_MAX);
            Tracing {
                config: config.clone(),
                news,
                queue: Mutex::new(Some(queue)),
                exported: AtomicU64::new(0),
                dropped: AtomicU64::new(0),
            }
        });
        Self(tracing)
    }

    pub(crate) fn counts(&self) -> SpanCounts {
        self.0
            .as_ref()
            .map_or_else(SpanCounts::default, |tracing| SpanCounts {
                exported: tracing.exported.load(Ordering::Relaxed),
                dropped: tracing.dropped.load(Ordering::Relaxed),
            })
    }

    /// What somebody who is called for a message is given. Without traces of our own the caller's span goes on to them.
    pub(crate) fn parent(&self, message: &Message, span_id: SpanId) -> Option<TraceParent> {
        match self.0 {
            Some(_) => Some(message.trace_parent(span_id)),
            None => message.trace,
        }
    }

    /// Asked before a commit.
    pub(crate) fn clock(&self) -> Option<CommitClock> {
        self.0.as_ref().map(|_| CommitClock {
            at: now(),
            began: std::time::Instant::now(),
        })
    }

    /// Notes a commit, for the messages that it changed.
    pub(crate) fn committed(
        &self,
        transition: &'static str,
        clock: Option<CommitClock>,
        changes: &[Change],
    ) {
        let (Some(tracing), Some(clock)) = (&self.0, clock) else {
            return;
        };
        let start = Nanos::from(clock.at);
        let took = u64::try_from(clock.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut noted: Vec<&MessageId> = Vec::new();
        for message_id in changes.iter().filter_map(message_of) {
            if noted.contains(&message_id) {
                continue;
            }
            noted.push(message_id);
            tracing.push(News::Seen(Moment {
                message_id: message_id.clone(),
                start,
                end: start.plus(took),
                what: MomentKind::Commit { transition },
            }));
        }
        let mut over: Vec<&MessageId> = changes.iter().filter_map(may_be_over).collect();
        over.dedup();
        for message_id in over {
            tracing.push(News::Over(message_id.clone()));
        }
    }

    /// Notes that a tool began or ended.
    pub(crate) fn item(&self, message: &Message, item: &ItemNote) {
        let Some(tracing) = &self.0 else { return };
        if !MomentKind::is_tool(&item.kind) {
            return;
        }
        let (message_id, at) = (message.message_id.clone(), Nanos::from(now()));
        let item_id = item.item_id.clone();
        if !item.completed {
            return tracing.push(News::ToolBegan {
                message_id,
                item_id,
                at,
            });
        }
        let moment = Moment {
            message_id,
            start: at,
            end: at,
            what: MomentKind::Tool {
                attempt: message.life.attempt,
                item_id: item.item_id.clone(),
                kind: item.kind.clone(),
                declined: item.declined,
                headline: item.headline.clone(),
            },
        };
        tracing.push(News::ToolEnded { moment, item_id });
    }
}

/// The message that a change is about.
fn message_of(change: &Change) -> Option<&MessageId> {
    match change {
        Change::NewMessage(message) => Some(&message.message_id),
        Change::NewTurn(turn) | Change::Turn(turn) => Some(&turn.message_id),
        Change::NewEvent(event) => Some(&event.message_id),
        Change::NewRequest(request) => Some(&request.message_id),
        Change::NewReply(reply) => Some(&reply.message_id),
        Change::UpdateState { message_id, .. } | Change::Reply { message_id, .. } => {
            Some(message_id)
        }
        _ => None,
    }
}

/// The message that may be over with this change: the notice of one that was given up is sent after its end.
fn may_be_over(change: &Change) -> Option<&MessageId> {
    match change {
        Change::UpdateState {
            message_id, life, ..
        } if life.state.name().finished() => Some(message_id),
        Change::Reply { message_id, to, .. } if to.settled() => Some(message_id),
        _ => None,
    }
}

impl Tracing {
    fn push(&self, news: News) {
        if self.news.try_send(news).is_err() {
            self.drop_spans(1);
        }
    }

    fn drop_spans(&self, spans: u64) {
        self.dropped.fetch_add(spans, Ordering::Relaxed);
    }
}

/// What was seen of messages that are not over.
#[derive(Debug, Default)]
struct Seen(HashMap<MessageId, SeenOf>);

#[derive(Debug, Default)]
struct SeenOf {
    moments: Vec<Moment>,
    /// Tools at work, and since when.
    tools: HashMap<ItemId, Nanos>,
    seen_at: Nanos,
}

impl Seen {
    /// Says whether there was room.
    fn add(&mut self, moment: Moment) -> bool {
        let of = self.of(&moment.message_id, moment.end);
        let fits = of.moments.len() < MOMENTS_MAX;
        if fits {
            of.moments.push(moment);
        }
        fits
    }

    fn tool_began(&mut self, message_id: &MessageId, item_id: ItemId, at: Nanos) -> bool {
        let of = self.of(message_id, at);
        let fits = of.tools.len() < MOMENTS_MAX;
        if fits {
            of.tools.entry(item_id).or_insert(at);
        }
        fits
    }

    fn tool_ended(&mut self, moment: Moment, item_id: &ItemId) -> bool {
        let of = self.of(&moment.message_id, moment.end);
        let began = of.tools.remove(item_id);
        let start = began.unwrap_or(moment.start);
        self.add(Moment { start, ..moment })
    }

    /// Of a new message the one gives way that nothing was seen of for longest: it may never be over.
    fn of(&mut self, message_id: &MessageId, at: Nanos) -> &mut SeenOf {
        if self.0.len() >= MESSAGES_MAX && !self.0.contains_key(message_id) {
            let oldest = self.0.iter().min_by_key(|(_, of)| of.seen_at);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                self.0.remove(&oldest);
            }
        }
        let of = self.0.entry(message_id.clone()).or_default();
        of.seen_at = at;
        of
    }

    /// All that was seen of a message that is over.
    fn take(&mut self, message_id: &MessageId) -> Vec<Moment> {
        self.0.remove(message_id).unwrap_or_default().moments
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Exports traces until the daemon goes.
    pub(crate) async fn export_traces(self: Arc<Self>) {
        let Some(tracing) = &self.traces.0 else {
            return;
        };
        let queue = tracing.queue.lock();
        let Some(queue) = queue.unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let address = tracing.config.otlp.as_deref().unwrap_or_default();
        let header = tracing.config.header_file.clone();
        match OtlpExporter::new(address, header, self.resource()) {
            Ok(exporter) => {
                let export = Export {
                    daemon: &self,
                    tracing,
                    exporter,
                    seen: Seen::default(),
                    batch: Vec::new(),
                    failing: false,
                };
                export.run(queue).await;
            }
            Err(error) => tracing::error!(%error, "no traces are exported"),
        }
    }

    /// What all spans of this process are of.
    fn resource(&self) -> Vec<(&'static str, String)> {
        let settings = self.settings();
        let node = settings.start.node.as_ref();
        let node = node.map(|node| ("service.instance.id", node.node_id.to_string()));
        let mut resource = vec![
            ("service.name", "codex-bridge".to_owned()),
            ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        resource.extend(node);
        resource
    }
}

/// The exporter at work.
struct Export<'a, L: Ledger, A: Agent, S: Sink> {
    daemon: &'a Daemon<L, A, S>,
    tracing: &'a Tracing,
    exporter: OtlpExporter,
    seen: Seen,
    batch: Vec<Span>,
    /// Whether the last request failed: an outage is logged once.
    failing: bool,
}

impl<L: Ledger, A: Agent, S: Sink> Export<'_, L, A, S> {
    async fn run(mut self, mut queue: mpsc::Receiver<News>) {
        self.catch_up().await;
        let mut due = Instant::now();
        loop {
            let is_empty = self.batch.is_empty();
            let news = tokio::select! {
                biased;
                () = self.daemon.halt.cancelled() => break,
                () = tokio::time::sleep_until(due), if !is_empty => None,
                news = queue.recv() => news,
            };
            match news {
                Some(news) => {
                    self.hear(news).await;
                    if is_empty {
                        let now = Instant::now();
                        due = now.checked_add(BATCH_WAIT).unwrap_or(now);
                    }
                }
                None if is_empty => return,
                None => self.flush().await,
            }
        }
        while let Ok(news) = queue.try_recv() {
            self.hear(news).await;
        }
        if !self.batch.is_empty() {
            let last = tokio::time::timeout(LAST_WAIT, self.send_once()).await;
            if !matches!(last, Ok(Ok(()))) {
                self.give_up();
            }
        }
    }

    /// Exports again what ended shortly before this daemon began.
    async fn catch_up(&mut self) {
        let since = now().plus_ms(-AGAIN_MS);
        for state in [StateName::Done, StateName::Dead, StateName::Cancelled] {
            let ended = self
                .daemon
                .ledger
                .read(move |rows| rows.finished_since(state, since));
            let ended = ended.await.unwrap_or_default();
            for message in ended.into_iter().take(BATCH_MAX) {
                self.hear(News::Over(message.message_id)).await;
            }
        }
    }

    async fn hear(&mut self, news: News) {
        let fitted = match news {
            News::Seen(moment) => self.seen.add(moment),
            News::ToolBegan {
                message_id,
                item_id,
                at,
            } => self.seen.tool_began(&message_id, item_id, at),
            News::ToolEnded { moment, item_id } => self.seen.tool_ended(moment, &item_id),
            News::Over(message_id) => match self.spans_of(&message_id).await {
                Ok(spans) => {
                    self.batch.extend(spans);
                    true
                }
                Err(error) => {
                    tracing::debug!(%error, "the trace of a message could not be read");
                    false
                }
            },
        };
        if !fitted {
            self.tracing.drop_spans(1);
        }
        if self.batch.len() >= BATCH_MAX {
            self.flush().await;
        }
    }

    async fn spans_of(&mut self, message_id: &MessageId) -> Result<Vec<Span>, LedgerError> {
        let id = message_id.clone();
        let rows = self
            .daemon
            .ledger
            .read(move |rows| TraceRows::read(rows, &id));
        let rows = rows.await?;
        let over = rows.filter(|rows| rows.message.life.state.name().finished());
        let Some(rows) = over else {
            return Ok(Vec::new());
        };
        let moments = self.seen.take(message_id);
        if !rows.message.is_traced() {
            return Ok(Vec::new());
        }
        let texts = self.tracing.config.texts;
        let mut spans = rows.spans(texts);
        let seen = moments
            .iter()
            .map(|moment| moment.span(&rows.message, texts));
        spans.extend(seen);
        Ok(spans)
    }

    /// Sends what there is, and a few times again what may be taken later.
    async fn flush(&mut self) {
        for tries in 1..=TRIES_MAX {
            match self.send_once().await {
                Ok(()) => return,
                Err(error) => {
                    self.note_failure(&error);
                    if !matches!(error, ExportError::Later(_)) || tries == TRIES_MAX {
                        break;
                    }
                }
            }
            let pause = backoff_ms(tries, RETRY_BASE_MS, RETRY_MAX_MS, 0);
            let pause = Duration::from_millis(u64::try_from(pause).unwrap_or(1));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.daemon.halt.cancelled() => break,
            }
        }
        self.give_up();
    }

    async fn send_once(&mut self) -> Result<(), ExportError> {
        let rejected = self.exporter.export(&self.batch).await?;
        let all = u64::try_from(self.batch.len()).unwrap_or(u64::MAX);
        let exported = all.saturating_sub(rejected);
        self.tracing.exported.fetch_add(exported, Ordering::Relaxed);
        self.tracing.drop_spans(rejected);
        self.batch.clear();
        if std::mem::take(&mut self.failing) {
            tracing::info!("the receiver of traces takes spans again");
        }
        Ok(())
    }

    fn give_up(&mut self) {
        let spans = u64::try_from(self.batch.len()).unwrap_or(u64::MAX);
        self.tracing.drop_spans(spans);
        self.batch.clear();
    }

    fn note_failure(&mut self, error: &ExportError) {
        let is_new = !std::mem::replace(&mut self.failing, true);
        if is_new {
            let why = crate::term::escape_line(&error.to_string()).into_owned();
            tracing::warn!(
                why,
                "traces are not exported; spans that find no room are dropped"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(message: &str) -> Moment {
        Moment {
            message_id: MessageId::new(message),
            start: Nanos(5),
            end: Nanos(9),
            what: MomentKind::Commit { transition: "note" },
        }
    }

    #[test]
    fn moments_of_endless_messages_are_bounded() {
        let mut seen = Seen::default();
        for _ in 0..MOMENTS_MAX {
            assert!(seen.add(moment("m")));
        }
        assert!(!seen.add(moment("m")));
        for number in 1..MESSAGES_MAX {
            assert!(seen.add(moment(&number.to_string())));
        }
        assert_eq!(seen.take(&MessageId::new("m")).len(), MOMENTS_MAX);
        assert!(seen.add(moment("another")) && seen.add(moment("one more")));
        assert_eq!(seen.0.len(), MESSAGES_MAX);
    }

    #[test]
    fn tool_begins_when_it_was_first_seen() {
        let mut seen = Seen::default();
        let (message_id, item) = (MessageId::new("m"), ItemId::new("i"));
        assert!(seen.tool_began(&message_id, item.clone(), Nanos(2)));
        assert!(seen.tool_began(&message_id, item.clone(), Nanos(3)));
        assert!(seen.tool_ended(moment("m"), &item));
        let told = seen.take(&message_id);
        assert_eq!((told[0].start, told[0].end), (Nanos(2), Nanos(9)));
    }

    #[test]
    fn full_queue_drops_and_counts_news() {
        let config = TelemetryConfig {
            otlp: Some("http://127.0.0.1:1".to_owned()),
            ..TelemetryConfig::default()
        };
        let traces = Traces::new(&config);
        let message_id = MessageId::new("m");
        let life = bridge_core::value::Life::new(Timestamp(0));
        let change = Change::UpdateState {
            message_id,
            from: StateName::Received,
            life,
        };
        for _ in 0..=QUEUE_MAX {
            traces.committed("claim", traces.clock(), std::slice::from_ref(&change));
        }
        assert_eq!(traces.counts().dropped, 1);
    }
}
