//! Log events with their fields apart: as one JSON object per line, or as entries of systemd's journal.
//!
//! Texts are escaped here as in the text log: what a program reads is shown to people in the end.

use crate::term::escape_line;
use serde_json::{Map, Value, json};
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

/// Where the journal takes entries.
pub(super) const JOURNAL_SOCKET: &str = "/run/systemd/journal/socket";
/// Begins the names of our fields in the journal.
const FIELD_PREFIX: &str = "CODEX_BRIDGE_";

/// How an event is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Structured {
    Json,
    Journal,
}

/// The name of an event that has one: `message.answered`, and so on. Others are named after their place in the source.
fn event_name(event: &Metadata<'static>) -> Option<&'static str> {
    Some(event.name()).filter(|name| !name.starts_with("event "))
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        let name = field.name();
        let name = name.strip_prefix("r#").unwrap_or(name);
        match (name, value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => {
                self.others.insert(name.to_owned(), value);
            }
        }
    }

    fn add_text(&mut self, field: &Field, text: &str) {
        self.add(field, Value::String(escape_line(text).into_owned()));
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.add_text(field, &super::log::with_causes(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add_text(field, &format!("{value:?}"));
    }
}

impl<S, N> FormatEvent<S, N> for Structured
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let about = event.metadata();
        match self {
            Self::Json => write_json(&mut writer, about, fields),
            Self::Journal => write_entry(&mut writer, about, fields),
        }
    }
}

fn write_json(writer: &mut Writer<'_>, about: &Metadata<'static>, fields: Fields) -> fmt::Result {
    let mut line = json!({
        "time": jiff::Timestamp::now().to_string(),
        "level": about.level().as_str().to_lowercase(),
        "event": event_name(about),
        "message": fields.message,
        "target": about.target(),
    });
    if let Some(line) = line.as_object_mut() {
        line.insert("fields".to_owned(), Value::Object(fields.others));
    }
    writeln!(writer, "{line}")
}

/// An entry in the journal's own form, one field per line: no value has a line break.
fn write_entry(writer: &mut Writer<'_>, about: &Metadata<'static>, fields: Fields) -> fmt::Result {
    writeln!(writer, "MESSAGE={}", fields.message)?;
    writeln!(writer, "PRIORITY={}", super::log::priority(*about.level()))?;
    writeln!(writer, "SYSLOG_IDENTIFIER=codex-bridge")?;
    writeln!(writer, "{FIELD_PREFIX}TARGET={}", about.target())?;
    if let Some(name) = event_name(about) {
        writeln!(writer, "{FIELD_PREFIX}EVENT={name}")?;
    }
    for (name, value) in fields.others {
        let name = name
            .to_uppercase()
            .replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        match value {
            Value::String(text) => writeln!(writer, "{FIELD_PREFIX}{name}={text}")?,
            other => writeln!(writer, "{FIELD_PREFIX}{name}={other}")?,
        }
    }
    Ok(())
}

/// Gives each event to the journal as one datagram.
#[derive(Clone, Debug)]
pub(super) struct JournalWriter(Arc<UnixDatagram>);

impl JournalWriter {
    pub(super) fn connect(socket: &Path) -> io::Result<Self> {
        let datagrams = UnixDatagram::unbound()?;
        datagrams.connect(socket)?;
        // A journal that does not read must not hold up the daemon: the event is lost then, as on a full disk.
        datagrams.set_nonblocking(true)?;
        Ok(Self(Arc::new(datagrams)))
    }
}

impl Write for JournalWriter {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        self.0.send(entry)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for JournalWriter {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use tracing_subscriber::fmt::SubscriberBuilder;

    /// Text with a line break, a terminal sequence and a turned reading direction.
    const FOREIGN: &str = "a\nPRIORITY=0\u{1b}[31m\u{202e}b";

    fn log(
        format: Structured,
    ) -> SubscriberBuilder<tracing_subscriber::fmt::format::DefaultFields, Structured> {
        tracing_subscriber::fmt().event_format(format)
    }

    fn tell() {
        tracing::warn!(name: "message.answered", id = "9afb0c1", attempt = 2_u64, text = FOREIGN, "answered");
    }

    #[test]
    fn f8_json_lines_hold_escaped_fields() {
        let kept = tempfile::NamedTempFile::new().unwrap();
        let log = log(Structured::Json)
            .with_writer(Mutex::new(kept.reopen().unwrap()))
            .finish();
        tracing::subscriber::with_default(log, || {
            tell();
            tracing::info!("unnamed");
        });
        let text = std::fs::read_to_string(kept.path()).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0]["event"], "message.answered");
        assert_eq!(
            (&lines[0]["level"], &lines[0]["message"]),
            (&json!("warn"), &json!("answered"))
        );
        assert_eq!(lines[0]["fields"]["attempt"], 2);
        assert_eq!(
            lines[0]["fields"]["text"],
            "a\\nPRIORITY=0\\e[31m\\u{202e}b"
        );
        assert!(lines[1]["event"].is_null());
    }

    #[test]
    fn f8_journal_entry_has_our_fields_only() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("socket");
        let journal = UnixDatagram::bind(&socket).unwrap();
        let writer = JournalWriter::connect(&socket).unwrap();
        let log = log(Structured::Journal).with_writer(writer).finish();
        tracing::subscriber::with_default(log, tell);
        let mut entry = vec![0; 4096];
        let length = journal.recv(&mut entry).unwrap();
        let entry = String::from_utf8(entry[..length].to_vec()).unwrap();
        let lines: Vec<&str> = entry.lines().collect();
        for field in [
            "MESSAGE=answered",
            "PRIORITY=4",
            "CODEX_BRIDGE_EVENT=message.answered",
            "CODEX_BRIDGE_ID=9afb0c1",
            "CODEX_BRIDGE_ATTEMPT=2",
        ] {
            assert!(lines.contains(&field), "{field}: {entry}");
        }
        assert_eq!(
            lines
                .iter()
                .filter(|line| line.starts_with("PRIORITY"))
                .count(),
            1
        );
    }
}
