//! Log fields with foreign text made visible: no message and no field breaks its line, moves the cursor or turns the
//! reading direction, whatever the call site put into it.

use crate::term::escape_line;
use std::error::Error;
use std::fmt;
use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

/// Deepest chain of causes that is written; an error could name itself as its cause.
const CAUSES_MAX: usize = 16;

/// Writes fields as `tracing-subscriber` does, with everything but our own colours escaped.
#[derive(Debug)]
pub(super) struct EscapedFields;

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
        let mut text = value.to_string();
        let mut cause = value.source();
        for _ in 0..CAUSES_MAX {
            let Some(error) = cause else { break };
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        self.write(field, &text);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.write(field, &format!("{value:?}"));
    }
}
