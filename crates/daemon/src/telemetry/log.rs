//! The daemon's log: one line per event on stderr, foreign text escaped, secrets never.
//!
//! Where stderr is the journal, lines carry their priority as the journal reads it, and no time and no colours: it
//! has its own.

use super::structured::{JOURNAL_SOCKET, JournalWriter, Structured};
use crate::config::LogFormat;
use crate::term::escape_line;
use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::OnceLock;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::{FilterFn, filter_fn};
use tracing_subscriber::fmt::format::{Compact, Format, Full, Writer};
use tracing_subscriber::fmt::{
    FmtContext, FormatEvent, FormatFields, MakeWriter, SubscriberBuilder,
};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;

/// Deepest chain of causes that is written; an error could name itself as its cause.
const CAUSES_MAX: usize = 16;

/// Changes what the log lets through.
type Change = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// The log of this process.
static FILTER: OnceLock<Change> = OnceLock::new();

/// How a process logs.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions<'a> {
    /// What is let through.
    pub filter: &'a str,
    pub format: LogFormat,
    pub no_color: bool,
    /// `JOURNAL_STREAM`: what the service manager says that stderr is.
    pub journal: Option<&'a OsStr>,
}

/// Starts logging.
pub fn start(options: LogOptions<'_>) {
    let LogOptions {
        format,
        no_color,
        journal,
        ..
    } = options;
    let filter = EnvFilter::try_new(options.filter).unwrap_or_else(|_| EnvFilter::new("info"));
    if let LogFormat::Json | LogFormat::Journald = format {
        return start_structured(format, filter);
    }
    let log = log_to(filter, std::io::stderr);
    // A second start (tests, demo) keeps the first one.
    let _already = if is_journal(journal) {
        let log = log.with_ansi(false).event_format(Journal::new());
        let log = log.with_filter_reloading();
        keep(log.reload_handle());
        tracing::subscriber::set_global_default(log.finish().with(discreet()))
    } else {
        let colours = std::io::stderr().is_terminal() && !no_color;
        let log = log.with_ansi(colours).with_target(false);
        let log = log.with_filter_reloading();
        keep(log.reload_handle());
        tracing::subscriber::set_global_default(log.finish().with(discreet()))
    };
}

/// Starts a log whose events have their fields apart. Where there is no journal the log is JSON, which loses nothing.
fn start_structured(format: LogFormat, filter: EnvFilter) {
    let journal = (format == LogFormat::Journald)
        .then(|| JournalWriter::connect(Path::new(JOURNAL_SOCKET)))
        .transpose();
    let log = log_to(filter, std::io::stderr);
    let why = match journal {
        Ok(Some(journal)) => {
            let log = log.with_writer(journal).event_format(Structured::Journal);
            let log = log.with_filter_reloading();
            keep(log.reload_handle());
            let _already = tracing::subscriber::set_global_default(log.finish().with(discreet()));
            return;
        }
        Ok(None) => None,
        Err(error) => Some(error),
    };
    let log = log.event_format(Structured::Json).with_filter_reloading();
    keep(log.reload_handle());
    let _already = tracing::subscriber::set_global_default(log.finish().with(discreet()));
    if let Some(error) = why {
        tracing::warn!(%error, "systemd's journal can't be reached; the log is JSON on standard error");
    }
}

/// The log of whatever this filter lets through; every message and field is escaped here, so no call site can forget it.
fn log_to<W>(
    filter: EnvFilter,
    writer: W,
) -> SubscriberBuilder<EscapedFields, Format<Full>, EnvFilter, W>
where
    W: for<'a> MakeWriter<'a> + 'static,
{
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .fmt_fields(EscapedFields)
        // What can't be logged (a full disk, a reader that went away) is dropped: complaining about it on the
        // same stderr would panic, and the work must go on.
        .log_internal_errors(false)
}

/// Begins the targets of the MCP library, which logs whole requests with their arguments: prompts, and the answers to
/// questions that ask for a secret.
const TALKATIVE: &str = "rmcp";

/// Whether an event may be logged at all; no filter of an operator goes before this.
fn is_discreet(event: &Metadata<'_>) -> bool {
    *event.level() <= Level::WARN || !event.target().starts_with(TALKATIVE)
}

/// Keeps out what would write the words of others into the log, whatever the filter lets through.
fn discreet() -> FilterFn {
    filter_fn(is_discreet)
}

fn keep<S: 'static>(handle: reload::Handle<EnvFilter, S>) {
    let change = move |filter| handle.reload(filter).map_err(|error| error.to_string());
    let _first_one_counts = FILTER.set(Box::new(change));
}

/// Logs what this filter lets through from now on; or says why it does not.
pub fn filter(text: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(text).map_err(|error| error.to_string())?;
    match FILTER.get() {
        Some(change) => change(filter),
        None => Ok(()),
    }
}

/// Whether stderr is what the variable names, `device:inode`: a shell started from a service inherits the variable
/// and not the stream.
fn is_journal(named: Option<&OsStr>) -> bool {
    let Some((device, inode)) = named
        .and_then(OsStr::to_str)
        .and_then(|text| text.split_once(':'))
    else {
        return false;
    };
    let Ok(found) = nix::sys::stat::fstat(std::io::stderr().as_fd()) else {
        return false;
    };
    device.parse() == Ok(found.st_dev) && inode.parse() == Ok(found.st_ino)
}

/// Lines as the journal reads them.
struct Journal(Format<Compact, ()>);

impl Journal {
    fn new() -> Self {
        Self(
            tracing_subscriber::fmt::format()
                .without_time()
                .with_target(false)
                .with_level(false)
                .with_ansi(false)
                .compact(),
        )
    }
}

impl<S, N> FormatEvent<S, N> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// syslog's numbers.
pub(super) fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// An error and what caused it.
pub(super) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    for _ in 0..CAUSES_MAX {
        let Some(error) = cause else { break };
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// Writes fields as `tracing-subscriber` does, with everything but our own colours escaped.
#[derive(Debug)]
struct EscapedFields;

impl<'writer> FormatFields<'writer> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut visitor = EscapedVisitor {
            writer,
            is_first: true,
            result: Ok(()),
        };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct EscapedVisitor<'writer> {
    writer: Writer<'writer>,
    is_first: bool,
    result: fmt::Result,
}

impl EscapedVisitor<'_> {
    fn write(&mut self, field: &Field, text: &str) {
        if self.result.is_ok() {
            self.result = self.try_write(field.name(), text);
        }
    }

    fn try_write(&mut self, name: &str, text: &str) -> fmt::Result {
        if !self.is_first {
            self.writer.write_char(' ')?;
        }
        self.is_first = false;
        let name = name.strip_prefix("r#").unwrap_or(name);
        match (name, self.writer.has_ansi_escapes()) {
            ("message", _) => {}
            (name, true) => write!(self.writer, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m")?,
            (name, false) => write!(self.writer, "{name}=")?,
        }
        self.writer.write_str(&escape_line(text))
    }
}

impl Visit for EscapedVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.write(field, value),
            _ => self.write(field, &format!("{value:?}")),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.write(field, &with_causes(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.write(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::show::is_hidden;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn journal_format_has_priorities_only() {
        let kept = LogBuffer::default();
        let writer = kept.clone();
        let log = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_max_level(Level::DEBUG)
            .with_ansi(false)
            .event_format(Journal::new())
            .finish();
        tracing::subscriber::with_default(log, || {
            tracing::error!("broken");
            tracing::warn!(n = 1, "odd");
            tracing::info!("fine");
            tracing::debug!("detail");
        });
        let said = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(said, "<3>broken\n<4>odd n=1\n<6>fine\n<7>detail\n");
    }

    /// What the log makes of these events.
    fn logged(ansi: bool, events: impl FnOnce()) -> String {
        let kept = LogBuffer::default();
        let writer = kept.clone();
        let log = log_to(EnvFilter::new("trace"), move || writer.clone())
            .with_ansi(ansi)
            .without_time()
            .with_target(false)
            .finish();
        tracing::subscriber::with_default(log, events);
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// Terminal sequences, C1, line breaks and a turned reading direction.
    const FOREIGN: &str = "a\u{1b}[31mb\r\nINFO forged\u{9b}c\u{202e}d\u{2066}e\u{7}\u{2028}f";

    #[test]
    fn f8_foreign_text_stays_on_its_line() {
        let error = std::io::Error::other(FOREIGN);
        let caused: &(dyn std::error::Error + 'static) = &error;
        let said = logged(false, || {
            tracing::warn!(error = %error, "shown");
            tracing::warn!(error = ?error, "debugged");
            tracing::warn!(error = caused, "as an error");
            tracing::warn!(text = FOREIGN, "as text");
            tracing::warn!("{FOREIGN}");
            let _inside = tracing::info_span!("span", name = %FOREIGN).entered();
            tracing::warn!("in a span");
        });
        assert_eq!(said.lines().count(), 6, "{said}");
        let raw = said.chars().filter(|c| *c != '\n' && is_hidden(*c));
        assert_eq!(raw.count(), 0, "{said}");
        assert_eq!(said.matches("\\u{202e}").count(), 6, "{said}");
        assert!(
            said.contains("a\\e[31mb\\r\\nINFO forged\\u{9b}c"),
            "{said}"
        );
    }

    #[test]
    fn f8_our_own_colours_stay() {
        let said = logged(true, || tracing::warn!(n = 1, text = %FOREIGN, "odd"));
        assert!(said.contains("\u{1b}[33m WARN\u{1b}[0m odd"), "{said:?}");
        assert!(
            said.contains("\u{1b}[3mn\u{1b}[0m\u{1b}[2m=\u{1b}[0m1"),
            "{said:?}"
        );
        assert!(!said.contains("\u{1b}[31m"), "{said:?}");
    }

    #[test]
    fn filter_cannot_enable_rmcp_request_logs() {
        let kept = LogBuffer::default();
        let writer = kept.clone();
        let log = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_env_filter("trace,rmcp::service=trace")
            .with_ansi(false)
            .event_format(Journal::new())
            .finish()
            .with(discreet());
        tracing::subscriber::with_default(log, || {
            tracing::debug!(target: "rmcp::service", "a secret");
            tracing::info!(target: "rmcp", "a secret");
            tracing::warn!(target: "rmcp::service", "odd");
            tracing::trace!("ours");
        });
        let said = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(said, "<4>odd\n<7>ours\n");
    }

    #[test]
    fn only_our_own_stderr_is_the_journal() {
        assert!(!is_journal(None));
        assert!(!is_journal(Some(OsStr::new("1:2"))));
        assert!(!is_journal(Some(OsStr::new("nonsense"))));
        let found = nix::sys::stat::fstat(std::io::stderr().as_fd()).unwrap();
        let named = format!("{}:{}", found.st_dev, found.st_ino);
        assert!(is_journal(Some(OsStr::new(&named))));
    }
}
