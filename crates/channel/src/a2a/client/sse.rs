//! Server-sent events of another agent: bytes in, the data of whole events out, with a cap. Names and ids of events
//! carry nothing in A2A.

use super::fault::AgentCallError;
use std::mem;

/// The longest event that is read.
const EVENT_MAX_BYTES: usize = 16 << 20;

/// Cuts a byte stream into events.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    line: Vec<u8>,
    data: String,
}

impl EventReader {
    /// Takes in bytes; returns the data of the events that are complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<String>, AgentCallError> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + self.data.len() + piece.len() > EVENT_MAX_BYTES {
                let why = format!("one of its events is longer than {EVENT_MAX_BYTES} bytes");
                return Err(AgentCallError::Unreadable(why));
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = mem::take(&mut self.line);
                let line = String::from_utf8(line).map_err(|_| {
                    AgentCallError::Unreadable("its events are no UTF-8".to_owned())
                })?;
                events.extend(self.take(line.trim_end_matches(['\n', '\r'])));
            }
        }
        Ok(events)
    }

    fn take(&mut self, line: &str) -> Option<String> {
        if line.is_empty() {
            let data = mem::take(&mut self.data);
            return (!data.is_empty()).then_some(data);
        }
        let value = line.strip_prefix("data:")?;
        if !self.data.is_empty() {
            self.data.push('\n');
        }
        self.data.push_str(value.strip_prefix(' ').unwrap_or(value));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_any_cut_of_the_bytes() {
        let text = "id: 1\ndata: {\"a\":1}\n\n: alive\n\nevent: x\r\ndata: x\r\ndata:y\r\n\r\n";
        for size in 1..text.len() {
            let mut reader = EventReader::default();
            let events: Vec<String> = text
                .as_bytes()
                .chunks(size)
                .flat_map(|chunk| reader.feed(chunk).unwrap())
                .collect();
            assert_eq!(events, ["{\"a\":1}", "x\ny"], "{size}");
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut reader = EventReader::default();
        let chunk = vec![b'x'; 1 << 20];
        let fed: Result<Vec<_>, _> = (0..17).map(|_| reader.feed(&chunk)).collect();
        assert!(fed.is_err());
    }
}
