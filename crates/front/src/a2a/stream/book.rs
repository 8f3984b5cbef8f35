//! The newest events of one task, for all that listen: each reads at its own place, so that one buffer is enough, and
//! whoever falls behind it is told so and asks again.

use a2a::StreamResponse;
use std::collections::VecDeque;
use std::sync::Arc;

/// Events that are kept for whoever listens slowly or comes back.
const KEPT_MAX: usize = 512;
/// About how many bytes they may have together; the newest one is kept whatever its size.
const KEPT_BYTES: usize = 4 * 1024 * 1024;

/// One numbered event.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// Its number; that of a snapshot is that of the event that made it so.
    pub(crate) seq: u64,
    /// The event.
    pub(crate) event: Arc<StreamResponse>,
}

/// What stands at a place.
#[derive(Debug)]
pub(super) enum Entry {
    /// This comes next.
    Next(Told),
    /// Nothing yet.
    Blank,
    /// Nothing more comes.
    End,
    /// What came next is not kept any more.
    Lost,
}

/// The newest events.
#[derive(Debug, Default)]
pub(super) struct Book {
    kept: VecDeque<(Told, usize)>,
    bytes: usize,
    /// The newest number.
    last: u64,
    over: bool,
    /// Something that listeners know is not written here: nobody may go on with it.
    torn: bool,
}

impl Book {
    /// A book that begins behind `last`.
    pub(super) fn behind(last: u64) -> Self {
        Self {
            last,
            ..Self::default()
        }
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn write(&mut self, events: Vec<StreamResponse>) {
        for event in events {
            let bytes = weight(&event);
            self.last = self.last.saturating_add(1);
            let told = Told {
                seq: self.last,
                event: Arc::new(event),
            };
            self.bytes = self.bytes.saturating_add(bytes);
            self.kept.push_back((told, bytes));
        }
        while self.kept.len() > KEPT_MAX || (self.bytes > KEPT_BYTES && self.kept.len() > 1) {
            let gone = self.kept.pop_front().map_or(0, |(_, bytes)| bytes);
            self.bytes = self.bytes.saturating_sub(gone);
        }
    }

    /// Nothing more is written.
    pub(super) fn close(&mut self) {
        self.over = true;
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Nothing more is written, and what is here is not all.
    pub(super) fn tear(&mut self) {
        self.over = true;
        self.torn = true;
    }

    pub(super) fn is_torn(&self) -> bool {
        self.torn
    }

    /// Whether all that comes behind `seq` is known.
    pub(super) fn reaches(&self, seq: u64) -> bool {
        !matches!(self.after(seq), Entry::Lost)
    }

    /// What comes behind `seq`.
    pub(super) fn after(&self, seq: u64) -> Entry {
        let Some(missed) = self.last.checked_sub(seq) else {
            return Entry::Lost;
        };
        if missed == 0 {
            return if self.over { Entry::End } else { Entry::Blank };
        }
        let missed = usize::try_from(missed).unwrap_or(usize::MAX);
        let at = self.kept.len().checked_sub(missed);
        match at.and_then(|at| self.kept.get(at)) {
            Some((told, _)) => Entry::Next(told.clone()),
            None => Entry::Lost,
        }
    }
}

/// About how much memory an event takes: what is long in it.
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
        let mut book = Book::behind(7);
        assert!(matches!(book.after(7), Entry::Blank));
        assert!(matches!(book.after(6), Entry::Lost));
        book.write((0..KEPT_MAX + 3).map(|_| event("x")).collect());
        assert!(matches!(book.after(9), Entry::Lost));
        assert!(matches!(book.after(10), Entry::Next(told) if told.seq == 11));
        assert!(matches!(book.after(book.last() + 1), Entry::Lost));
        book.close();
        assert!(matches!(book.after(book.last()), Entry::End));
        assert!(matches!(book.after(book.last() - 1), Entry::Next(_)));
    }

    #[test]
    fn long_events_take_the_place_of_many() {
        let mut book = Book::behind(0);
        let long = "x".repeat(KEPT_BYTES / 2);
        book.write(vec![event(&long), event(&long), event("y")]);
        assert!(matches!(book.after(0), Entry::Lost));
        assert!(matches!(book.after(2), Entry::Next(told) if told.seq == 3));
        assert!(book.bytes <= KEPT_BYTES);
    }
}
