//! Server-sent events as they arrive: bytes in, whole events out, with a cap.

use std::mem;

/// Longest event that is kept; the daemon's longest holds one message with its answer.
const EVENT_MAX_BYTES: usize = 64 * 1024 * 1024;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    pub(crate) name: String,
    pub(super) data: String,
    /// What a reader resumes after; empty where it can't.
    pub(super) id: String,
}

/// Cuts a byte stream into events.
#[derive(Debug, Default)]
pub(crate) struct SseReader {
    line: Vec<u8>,
    event: SseEvent,
}

impl SseReader {
    /// Takes in bytes; gives what became complete. `None`: the stream makes no sense and must end.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Option<Vec<SseEvent>> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + self.event.data.len() + piece.len() > EVENT_MAX_BYTES {
                return None;
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = mem::take(&mut self.line);
                events.extend(
                    self.line(String::from_utf8(line).ok()?.trim_end_matches(['\n', '\r'])),
                );
            }
        }
        Some(events)
    }

    fn line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            let event = mem::take(&mut self.event);
            return (!event.name.is_empty()).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "id" => value.clone_into(&mut self.event.id),
            "data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_any_cut_of_the_bytes() {
        let text = "event: item\nid: 1\ndata: {\"a\":1}\n\n: keep-alive\n\nevent: end\r\ndata: x\r\ndata: y\r\n\r\n";
        for size in 1..text.len() {
            let mut reader = SseReader::default();
            let events: Vec<_> = text
                .as_bytes()
                .chunks(size)
                .flat_map(|chunk| reader.feed(chunk).unwrap())
                .collect();
            let event = |name: &str, data: &str, id: &str| SseEvent {
                name: name.to_owned(),
                data: data.to_owned(),
                id: id.to_owned(),
            };
            assert_eq!(
                events,
                [event("item", "{\"a\":1}", "1"), event("end", "x\ny", "")],
                "{size}"
            );
        }
    }
}
