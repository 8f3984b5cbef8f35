//! The id of the newest message of ours in a thread's file: what the thread was last given, for comparison with the
//! ledger before its history is believed.

use super::error::RolloutError;
use super::home::{CodexHome, RolloutFile};
use bridge_core::value::ClientId;
use serde::Deserialize;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Read at a time, from the end.
const BLOCK: u64 = 64 * 1024;
/// A line may hold images; Codex takes far less.
const LINE_MAX: usize = 256 * 1024 * 1024;
/// What the line of a user's message has, in either form of history.
const MARK: &[u8] = b"\"client_id\"";

#[derive(Deserialize)]
struct Line {
    payload: Payload,
}

/// A message of a user: an event of its own in a legacy history, an item in a paginated one.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Payload {
    UserMessage {
        client_id: Option<String>,
    },
    ItemCompleted {
        item: Item,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Item {
    UserMessage {
        client_id: Option<String>,
    },
    #[serde(other)]
    Other,
}

impl CodexHome {
    /// The `clientUserMessageId` of the newest message in these files that has one.
    pub fn newest_client_id(
        &self,
        lineage: &[RolloutFile],
    ) -> Result<Option<ClientId>, RolloutError> {
        for file in lineage.iter().rev() {
            let place = self.place(&file.path);
            if file.path.is_compressed() {
                return Err(RolloutError::Compressed(place));
            }
            let open = self.read(&file.path)?;
            let failed = RolloutError::io("read", &place);
            let found = newest(&open, file.until).map_err(|error| match error.kind() {
                io::ErrorKind::FileTooLarge => RolloutError::LongLine(place.clone()),
                _ => failed(error),
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

fn newest(file: &File, until: Option<u64>) -> io::Result<Option<ClientId>> {
    let length = file.metadata()?.len();
    let mut end = until.map_or(length, |until| until.min(length));
    // The line that is being read, in blocks, its end first.
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    let mut held: usize = 0;
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let mut block = vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or(0)];
        file.read_exact_at(&mut block, start)?;
        end = start;
        while let Some(newline) = block.iter().rposition(|byte| *byte == b'\n') {
            let tail = block.split_off(newline.saturating_add(1));
            blocks.push(tail);
            if let Some(found) = client_id(&mut blocks) {
                return Ok(Some(found));
            }
            held = 0;
            block.truncate(newline);
        }
        held = held.saturating_add(block.len());
        if held > LINE_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        blocks.push(block);
    }
    Ok(client_id(&mut blocks))
}

/// Reads the line of these blocks, and takes them.
fn client_id(blocks: &mut Vec<Vec<u8>>) -> Option<ClientId> {
    let line: Vec<u8> = blocks.drain(..).rev().flatten().collect();
    if !line.windows(MARK.len()).any(|part| part == MARK) {
        return None;
    }
    // A torn line is none.
    let line: Line = serde_json::from_slice(&line).ok()?;
    let id = match line.payload {
        Payload::UserMessage { client_id }
        | Payload::ItemCompleted {
            item: Item::UserMessage { client_id },
        } => client_id,
        Payload::ItemCompleted { item: Item::Other } | Payload::Other => None,
    };
    id.map(ClientId::new)
}
