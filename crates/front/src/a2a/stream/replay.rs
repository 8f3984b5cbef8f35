//! Buffer of a task's newest events, shared by all of its subscribers.
//!
//! Each subscriber reads at its own position. One that falls behind the buffer gets [`BufferRead::Lost`].

use a2a::StreamResponse;
use std::collections::VecDeque;
use std::sync::Arc;

/// Events kept for slow and reconnecting subscribers.
const EVENTS_MAX: usize = 512;
/// Approximate bytes of all kept events; the newest event is kept whatever its size.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// An event of a task's stream with its sequence number.
#[derive(Clone, Debug)]
pub(crate) struct SequencedEvent {
    /// For a snapshot, the number of the last event it includes.
    pub(crate) sequence: u64,
    pub(crate) event: Arc<StreamResponse>,
}

/// Result of reading the buffer after a position.
#[derive(Debug)]
pub(super) enum BufferRead {
    Next(SequencedEvent),
    /// Not published yet.
    Pending,
    /// The stream is closed.
    End,
    /// Dropped from the buffer, or never in it.
    Lost,
}

/// The newest events of one task.
#[derive(Debug, Default)]
pub(super) struct ReplayBuffer {
    events: VecDeque<(SequencedEvent, usize)>,
    bytes: usize,
    /// The newest sequence number.
    last: u64,
    closed: bool,
    /// Set when an event could not be published: nobody may resume from this buffer.
    invalid: bool,
}

impl ReplayBuffer {
    /// An empty buffer whose next event has the number `last + 1`.
    pub(super) fn starting_after(last: u64) -> Self {
        Self {
            last,
            ..Self::default()
        }
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn push(&mut self, events: Vec<StreamResponse>) {
        for event in events {
            let bytes = weight(&event);
            self.last = self.last.saturating_add(1);
            let event = SequencedEvent {
                sequence: self.last,
                event: Arc::new(event),
            };
            self.bytes = self.bytes.saturating_add(bytes);
            self.events.push_back((event, bytes));
        }
        while self.events.len() > EVENTS_MAX || (self.bytes > BYTES_MAX && self.events.len() > 1) {
            let dropped = self.events.pop_front().map_or(0, |(_, bytes)| bytes);
            self.bytes = self.bytes.saturating_sub(dropped);
        }
    }

    /// Marks the stream as complete.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Closes a stream that is incomplete.
    pub(super) fn invalidate(&mut self) {
        self.closed = true;
        self.invalid = true;
    }

    pub(super) fn is_invalid(&self) -> bool {
        self.invalid
    }

    /// Whether all events after `sequence` are in the buffer.
    pub(super) fn reaches(&self, sequence: u64) -> bool {
        !matches!(self.after(sequence), BufferRead::Lost)
    }

    /// Returns the event after `sequence`.
    pub(super) fn after(&self, sequence: u64) -> BufferRead {
        let Some(missed) = self.last.checked_sub(sequence) else {
            return BufferRead::Lost;
        };
        if missed == 0 {
            return if self.closed {
                BufferRead::End
            } else {
                BufferRead::Pending
            };
        }
        let missed = usize::try_from(missed).unwrap_or(usize::MAX);
        let at = self.events.len().checked_sub(missed);
        match at.and_then(|at| self.events.get(at)) {
            Some((event, _)) => BufferRead::Next(event.clone()),
            None => BufferRead::Lost,
        }
    }
}

/// Approximate memory of an event: its long texts and bytes.
fn weight(event: &StreamResponse) -> usize {
    const SMALL: usize = 512;
    let parts = match event {
        StreamResponse::ArtifactUpdate(update) => &update.artifact.parts,
        StreamResponse::StatusUpdate(update) => match &update.status.message {
            Some(message) => &message.parts,
            None => return SMALL,
        },
        StreamResponse::Message(message) => &message.parts,
        StreamResponse::Task(_) => return SMALL,
    };
    let sizes = parts.iter().map(|part| match &part.content {
        a2a::PartContent::Text(text) | a2a::PartContent::Url(text) => text.len(),
        a2a::PartContent::Raw(bytes) => bytes.len(),
        a2a::PartContent::Data(data) => data.to_string().len(),
    });
    sizes.fold(SMALL, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use a2a::{Message, Part, Role};

    fn event(text: &str) -> StreamResponse {
        StreamResponse::Message(Message::new(Role::Agent, vec![Part::text(text)]))
    }

    #[test]
    fn readers_detect_missed_events() {
        let mut replay = ReplayBuffer::starting_after(7);
        assert!(matches!(replay.after(7), BufferRead::Pending));
        assert!(matches!(replay.after(6), BufferRead::Lost));
        replay.push((0..EVENTS_MAX + 3).map(|_| event("x")).collect());
        assert!(matches!(replay.after(9), BufferRead::Lost));
        assert!(matches!(replay.after(10), BufferRead::Next(event) if event.sequence == 11));
        assert!(matches!(replay.after(replay.last() + 1), BufferRead::Lost));
        replay.close();
        assert!(matches!(replay.after(replay.last()), BufferRead::End));
        assert!(matches!(
            replay.after(replay.last() - 1),
            BufferRead::Next(_)
        ));
    }

    #[test]
    fn long_events_take_the_place_of_many() {
        let mut replay = ReplayBuffer::starting_after(0);
        let long = "x".repeat(BYTES_MAX / 2);
        replay.push(vec![event(&long), event(&long), event("y")]);
        assert!(matches!(replay.after(0), BufferRead::Lost));
        assert!(matches!(replay.after(2), BufferRead::Next(event) if event.sequence == 3));
        assert!(replay.bytes <= BYTES_MAX);
    }
}
