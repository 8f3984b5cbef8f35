//! Files that Codex wants to send: it puts them into `outbox/<conversation id>` of its working directory, and they
//! travel with the answer of the turn.
//!
//! Before anything is read the directory is set aside under the message's name, in one step that a crash can't cut:
//! what is set aside belongs to that message's answer, is read again if the answer was not written down, and is
//! thrown away if it was. So a file is sent with one answer, and not lost before it.

use super::clean;
use super::file_store::{Bundle, FileStore};
use super::held_directory::{EntryKind, HeldDirectory};
use super::media_type::claim_of;
use bridge_core::secrets::{Scan, Secrets};
use bridge_core::value::{Attachment, ConversationId, MessageId};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The directory of all outboxes in a working directory.
const OUTBOX: &str = "outbox";
/// Where files lie that could not be sent.
const NOT_SENT: &str = "not-sent";
/// Entries of an outbox that are looked at; what is beyond stays where it is.
const ENTRIES_MAX: usize = 10_000;
/// Files that were not sent are named up to this many.
const NAMED_MAX: usize = 10;

/// Where Codex puts files of this conversation, for the model to read.
#[must_use]
pub fn outbox_of(workdir: &str, conversation_id: &ConversationId) -> String {
    let path = Path::new(workdir)
        .join(OUTBOX)
        .join(conversation_id.as_str());
    path.display().to_string()
}

/// The outbox of one conversation.
#[derive(Clone, Debug)]
pub struct Outbox {
    workdir: PathBuf,
    conversation_id: ConversationId,
}

/// A directory that was set aside for one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    name: String,
    /// For which.
    pub message_id: MessageId,
}

/// What an answer takes along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Our copies.
    pub files: Vec<Attachment>,
    /// What was not sent and why, for people; empty when all was.
    pub not_sent: String,
}

impl Outbox {
    /// Of this conversation.
    #[must_use]
    pub fn new(workdir: &str, conversation_id: &ConversationId) -> Self {
        Self {
            workdir: workdir.into(),
            conversation_id: conversation_id.clone(),
        }
    }

    /// Sets aside for a message what is there, and tells of all that was set aside and is still there.
    pub fn set_aside(&self, message_id: &MessageId, attempt: u32) -> io::Result<Vec<Aside>> {
        let Some(all) = HeldDirectory::open(&self.workdir)?.below(OUTBOX)? else {
            return Ok(Vec::new());
        };
        let id = self.conversation_id.as_str();
        let filled = match all.below(id)? {
            Some(own) => !own.names(1)?.is_empty(),
            None => false,
        };
        let prefix = format!(".{id}.");
        if filled {
            let name = format!("{prefix}{}.{attempt}", message_id.as_str());
            // Where this attempt has set one aside before, what came later goes with the next answer.
            if all.look(&name)?.is_none() {
                all.rename_to(id, &all, &name)?;
            }
        }
        let names = all.names(ENTRIES_MAX)?;
        let stray = stray_files(&all, &names)?;
        if stray > 0 {
            tracing::warn!(
                %message_id,
                files = stray,
                place = %self.workdir.join(OUTBOX).display(),
                "files lie in the directory of all outboxes, where nobody knows which conversation they are for: they are not sent, and belong into the conversation's own outbox below it"
            );
        }
        let aside = names.into_iter().filter_map(|name| {
            let name = name.into_string().ok()?;
            let (message_id, _) = name.strip_prefix(&prefix)?.rsplit_once('.')?;
            let message_id = MessageId::new(message_id);
            Some(Aside { name, message_id })
        });
        Ok(aside.collect())
    }

    /// Whether there is anything in the outbox that Codex was given, however one gets there.
    #[must_use]
    pub fn is_there(&self) -> bool {
        let id = self.conversation_id.as_str();
        self.workdir.join(OUTBOX).join(id).exists()
    }

    /// Copies what was set aside. What can't be sent, because of what it is or because it holds a secret, is put
    /// under `outbox/not-sent` and named.
    pub fn gather(
        &self,
        aside: &[Aside],
        file_store: &FileStore,
        secrets: &Secrets,
    ) -> io::Result<Gathered> {
        let mut bundle = Bundle::default();
        let mut refused = NotSent::default();
        let Some(all) = HeldDirectory::open(&self.workdir)?.below(OUTBOX)? else {
            return Ok(Gathered::default());
        };
        for Aside { name, message_id } in aside {
            let Some(directory) = all.below(name)? else {
                continue;
            };
            for name in directory.names(ENTRIES_MAX)? {
                if let Err(why) = take(&directory, &name, file_store, &mut bundle, secrets) {
                    refused.note(&secrets.redact(&name.to_string_lossy()).text, &why);
                    let put_by = all
                        .make_below(NOT_SENT)
                        .and_then(|all| all.make_below(message_id.as_str()))
                        .and_then(|place| directory.rename_to(&name, &place, &name));
                    if let Err(error) = put_by {
                        tracing::warn!(%error, %message_id, "a file that was not sent stays in the outbox");
                    }
                }
            }
        }
        Ok(Gathered {
            files: bundle.into_files(),
            not_sent: refused.into_words(),
        })
    }

    /// Throws away what was set aside for answers that are written down. What can't be thrown away (a tree that
    /// nobody may write in, more than was looked at) is put by as a whole, so that it is in the way of no later answer.
    pub fn clear(&self, aside: &[Aside]) -> io::Result<()> {
        let Some(all) = HeldDirectory::open(&self.workdir)?.below(OUTBOX)? else {
            return Ok(());
        };
        for Aside { name, message_id } in aside {
            let emptied = empty(&all, name).or_else(|_| {
                let place = all.make_below(NOT_SENT)?;
                all.rename_to(name, &place, name)
            });
            if let Err(error) = emptied {
                tracing::warn!(%error, %message_id, "what was set aside for an answer stays in the outbox");
            }
        }
        Ok(())
    }
}

/// Files beside the outboxes. Conversations may share a working directory, so nobody knows whose these are.
fn stray_files(all: &HeldDirectory, names: &[OsString]) -> io::Result<usize> {
    let mut stray = 0;
    for name in names {
        stray += usize::from(matches!(all.look(name)?, Some(EntryKind::File { .. })));
    }
    Ok(stray)
}

fn empty(all: &HeldDirectory, name: &str) -> io::Result<()> {
    let Some(directory) = all.below(name)? else {
        return Ok(());
    };
    for file in directory.names(ENTRIES_MAX)? {
        directory.remove(&file)?;
    }
    all.remove_directory(name)
}

fn take(
    directory: &HeldDirectory,
    name: &OsStr,
    file_store: &FileStore,
    bundle: &mut Bundle,
    secrets: &Secrets,
) -> Result<(), String> {
    match directory.look(name).map_err(|error| error.to_string())? {
        Some(EntryKind::File { sole: true, .. }) => {}
        Some(EntryKind::File { sole: false, .. }) => {
            return Err("it is a hard link; a copy can be sent".to_owned());
        }
        Some(EntryKind::Directory) => {
            return Err("it is a directory; one file with all of it can be sent".to_owned());
        }
        Some(EntryKind::Other) => return Err("it is a link or a device, not a file".to_owned()),
        None => return Ok(()),
    }
    let Some(room) = bundle.room(file_store) else {
        return Err("an answer can't take more files along".to_owned());
    };
    let label = name.to_string_lossy();
    if secrets.is_in(&label) {
        return Err("its name holds a secret value".to_owned());
    }
    let file = directory.read(name).map_err(|error| error.to_string())?;
    let mut file = Watched {
        file,
        scan: secrets.scan(),
    };
    let mut draft = file_store.begin(room).map_err(|error| error.to_string())?;
    let written = draft.write_all_of(&mut file);
    written.map_err(|error| error.to_string())?;
    if file.scan.found() {
        return Err("it holds a secret value".to_owned());
    }
    let kept = draft
        .keep(claim_of(&label))
        .map_err(|error| error.to_string())?;
    bundle.add(&label, kept);
    Ok(())
}

/// A file that is looked through while it is copied: what is looked at is what is kept.
struct Watched<F> {
    file: F,
    scan: Scan,
}

impl<F: Read> Read for Watched<F> {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(piece)?;
        self.scan.see(piece.get(..read).unwrap_or_default());
        Ok(read)
    }
}

/// What was not sent.
#[derive(Debug, Default)]
struct NotSent {
    named: Vec<String>,
    more: usize,
}

impl NotSent {
    fn note(&mut self, name: &str, why: &str) {
        if self.named.len() < NAMED_MAX {
            let name = clean(name);
            self.named.push(format!("`{name}`: {why}"));
        } else {
            self.more += 1
        }
    }

    fn into_words(mut self) -> String {
        if self.named.is_empty() {
            return String::new();
        }
        if self.more > 0 {
            self.named.push(format!("and {} more", self.more));
        }
        format!(
            "[codex-bridge] Not sent along, and kept in {OUTBOX}/{NOT_SENT} of the working directory: {}.",
            self.named.join("; ")
        )
    }
}

#[cfg(test)]
mod tests;
