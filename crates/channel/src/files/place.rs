//! A message's files in the working directory of its conversation: `attachments/<message id>/<name>`.
//!
//! They are copies, never links to our own: what Codex does to them must not change what was received. A file that
//! is there already stays as it is, because the turn that is continued may have worked on it.

use super::FileStore;
use super::held_directory::{EntryKind, HeldDirectory};
use bridge_core::value::{Attachment, MessageId};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The directory of received files in a working directory.
const ATTACHMENTS: &str = "attachments";

/// Why files could not be put there. No turn may begin without them.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The working directory does not let us.
    #[error(
        "the message's files can't be put into {}: {source}. Look at what is there, and remove or rename what is in the way",
        path.display()
    )]
    WorkingDirectory {
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Our own copy is gone.
    #[error("our copy of the message's file `{name}` can't be read: {source}")]
    Copy {
        /// Which file.
        name: String,
        /// What the system says.
        source: io::Error,
    },
}

/// Puts a message's files where its turn can read them.
pub fn place(
    file_store: &FileStore,
    workdir: &Path,
    message_id: &MessageId,
    files: &[Attachment],
) -> Result<(), PlaceError> {
    if files.is_empty() {
        return Ok(());
    }
    let ground = |source| PlaceError::WorkingDirectory {
        path: workdir.join(ATTACHMENTS).join(message_id.as_str()),
        source,
    };
    let directory = HeldDirectory::open(workdir)
        .and_then(|workdir| workdir.make_below(ATTACHMENTS))
        .and_then(|all| all.make_below(message_id.as_str()))
        .map_err(ground)?;
    for file in files {
        let copy = file_store.path_of(&file.digest);
        let mut copy = open_copy(&copy).map_err(|source| PlaceError::Copy {
            name: file.name.clone(),
            source,
        })?;
        put(&directory, &file.name, &mut copy).map_err(ground)?;
    }
    Ok(())
}

fn open_copy(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
        .open(path)
}

fn put(directory: &HeldDirectory, name: &str, copy: &mut File) -> io::Result<()> {
    match directory.look(name)? {
        Some(EntryKind::File { .. }) => return Ok(()),
        Some(EntryKind::Other) => directory.remove(name)?,
        Some(EntryKind::Directory) => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
        None => {}
    }
    let half = format!(".half-{name}");
    directory.remove(&half)?;
    let mut file = directory.create(&half)?;
    io::copy(copy, &mut file)?;
    file.sync_all()?;
    directory.rename_to(&half, directory, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::StoredFile;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use tempfile::TempDir;

    struct Fixture {
        root: TempDir,
        file_store: FileStore,
        copy: StoredFile,
    }

    impl Fixture {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            for folder in ["work", "elsewhere"] {
                fs::create_dir(root.path().join(folder)).unwrap();
            }
            let file_store = FileStore::open(root.path().join("files"), 99).unwrap();
            let mut draft = file_store.begin(99).unwrap();
            draft.write(b"what was sent").unwrap();
            let copy = draft.keep("text/plain").unwrap();
            Self {
                root,
                file_store,
                copy,
            }
        }

        fn at(&self, path: &str) -> PathBuf {
            self.root.path().join(path)
        }

        fn file(&self, name: &str) -> Attachment {
            Attachment {
                name: name.to_owned(),
                media_type: "text/plain".to_owned(),
                digest: self.copy.digest,
                bytes: 13,
            }
        }

        fn place(&self, name: &str) -> Result<(), PlaceError> {
            let files = [self.file(name)];
            place(
                &self.file_store,
                &self.at("work"),
                &MessageId::new("m1"),
                &files,
            )
        }
    }

    #[test]
    fn placed_file_is_private_and_keeps_edits() {
        let fixture = Fixture::new();
        fixture.place("a.sh").unwrap();
        let there = fixture.at("work/attachments/m1/a.sh");
        assert_eq!(fs::read_to_string(&there).unwrap(), "what was sent");
        let found = fs::metadata(&there).unwrap();
        assert_eq!(
            (found.permissions().mode() & 0o777, found.nlink()),
            (0o600, 1)
        );
        fs::write(&there, "worked on").unwrap();
        fixture.place("a.sh").unwrap();
        assert_eq!(fs::read_to_string(&there).unwrap(), "worked on");
        assert_eq!(
            fixture.file_store.read(&fixture.copy.digest).unwrap(),
            b"what was sent"
        );
    }

    #[test]
    fn partial_file_is_rewritten_after_crash() {
        let fixture = Fixture::new();
        fs::create_dir_all(fixture.at("work/attachments/m1")).unwrap();
        fs::write(fixture.at("work/attachments/m1/.half-a"), "wha").unwrap();
        fixture.place("a").unwrap();
        let there = fs::read_to_string(fixture.at("work/attachments/m1/a")).unwrap();
        assert_eq!(there, "what was sent");
    }

    #[test]
    fn threat_14_planted_links_are_not_followed() {
        for link in ["work/attachments", "work/attachments/m1"] {
            let fixture = Fixture::new();
            if link.ends_with("m1") {
                fs::create_dir(fixture.at("work/attachments")).unwrap();
            }
            symlink(fixture.at("elsewhere"), fixture.at(link)).unwrap();
            let error = fixture.place("a").unwrap_err();
            assert!(
                matches!(error, PlaceError::WorkingDirectory { .. }),
                "{error}"
            );
            assert_eq!(fs::read_dir(fixture.at("elsewhere")).unwrap().count(), 0);
        }
    }

    #[test]
    fn threat_14_placing_replaces_planted_links() {
        let fixture = Fixture::new();
        fs::create_dir_all(fixture.at("work/attachments/m1")).unwrap();
        fs::write(fixture.at("elsewhere/victim"), "precious").unwrap();
        for name in ["a", ".half-a"] {
            let name = format!("work/attachments/m1/{name}");
            symlink(fixture.at("elsewhere/victim"), fixture.at(&name)).unwrap();
        }
        fixture.place("a").unwrap();
        let there = fixture.at("work/attachments/m1/a");
        assert!(fs::symlink_metadata(&there).unwrap().is_file());
        let victim = fs::read_to_string(fixture.at("elsewhere/victim")).unwrap();
        assert_eq!(victim, "precious");
    }

    #[test]
    fn threat_14_placing_rejects_path_names() {
        let fixture = Fixture::new();
        for name in ["../a", "/tmp/a", "..", "", "a/b", "a\0b"] {
            assert!(fixture.place(name).is_err(), "{name:?}");
        }
        assert_eq!(
            fs::read_dir(fixture.at("work/attachments/m1"))
                .unwrap()
                .count(),
            0
        );
    }

    #[test]
    fn a_copy_that_is_gone_is_named() {
        let fixture = Fixture::new();
        fs::remove_file(fixture.file_store.path_of(&fixture.copy.digest)).unwrap();
        let error = fixture.place("a").unwrap_err();
        assert!(
            matches!(&error, PlaceError::Copy { name, .. } if name == "a"),
            "{error}"
        );
    }
}
