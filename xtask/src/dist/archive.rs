//! Archives that come out byte for byte the same from the same input: sorted by name, with one time for everything and
//! no owner or mode of this machine.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, bail};
use tar::{Builder, EntryType, Header};

/// Of directories that nobody named.
const DIRECTORY_MODE: u32 = 0o755;

/// What a path is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Directory,
    File(Vec<u8>),
    Link(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    content: Content,
    mode: u32,
    /// User and group.
    owner: u32,
}

/// Files by their relative paths.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    nodes: BTreeMap<String, Node>,
}

impl Tree {
    pub(super) fn file(&mut self, path: &str, mode: u32, bytes: impl Into<Vec<u8>>) {
        self.add(path, Content::File(bytes.into()), mode, 0);
    }

    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.add(path, Content::Link(target.to_owned()), 0o777, 0);
    }

    pub(super) fn directory(&mut self, path: &str, mode: u32, owner: u32) {
        self.add(path, Content::Directory, mode, owner);
    }

    /// Paths of its files, in order.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.nodes
            .iter()
            .filter_map(|(path, node)| match &node.content {
                Content::File(bytes) => Some((path.as_str(), bytes.as_slice())),
                Content::Directory | Content::Link(_) => None,
            })
    }

    /// Bytes of all files.
    pub(super) fn size(&self) -> u64 {
        self.files().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    fn add(&mut self, path: &str, content: Content, mode: u32, owner: u32) {
        for (at, _) in path.match_indices('/') {
            let above = Node {
                content: Content::Directory,
                mode: DIRECTORY_MODE,
                owner: 0,
            };
            self.nodes.entry(path[..at].to_owned()).or_insert(above);
        }
        let node = Node {
            content,
            mode,
            owner,
        };
        self.nodes.insert(path.to_owned(), node);
    }

    /// The tar, with `prefix` before every path.
    pub(super) fn tar(&self, prefix: &str, epoch: u64) -> anyhow::Result<Vec<u8>> {
        let mut tar = Builder::new(Vec::new());
        for (path, node) in &self.nodes {
            let mut header = Header::new_gnu();
            header.set_mtime(epoch);
            header.set_mode(node.mode);
            header.set_uid(u64::from(node.owner));
            header.set_gid(u64::from(node.owner));
            header.set_size(0);
            let whole = format!("{prefix}{path}");
            let written = match &node.content {
                Content::Directory => {
                    header.set_entry_type(EntryType::Directory);
                    tar.append_data(&mut header, format!("{whole}/"), [].as_slice())
                }
                Content::Link(target) => {
                    header.set_entry_type(EntryType::Symlink);
                    tar.append_link(&mut header, &whole, target)
                }
                Content::File(bytes) => {
                    header.set_size(bytes.len() as u64);
                    tar.append_data(&mut header, &whole, bytes.as_slice())
                }
            };
            written.with_context(|| format!("cannot put {whole} into an archive"))?;
        }
        tar.into_inner().context("cannot finish an archive")
    }

    pub(super) fn tar_gz(&self, prefix: &str, epoch: u64) -> anyhow::Result<Vec<u8>> {
        gzip(&self.tar(prefix, epoch)?)
    }
}

/// Compressed, without a name and a time. gzip itself does it: half a gigabyte takes a chore without optimization long.
pub(super) fn gzip(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    piped("gzip", &["-n", "-9"], bytes)
}

/// The SHA-256 in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> anyhow::Result<String> {
    let said = String::from_utf8(piped("sha256sum", &[], bytes)?)?;
    let digest = said.split(' ').next().unwrap_or_default();
    Ok(digest.to_owned())
}

/// What a program makes of its input.
fn piped(program: &str, args: &[&str], input: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let stdin = child.stdin.take();
    let mut stdin = stdin.with_context(|| format!("{program} has no input"))?;
    // It writes while it reads: both at once, or both wait for ever.
    let output = thread::scope(|scope| {
        let written = scope.spawn(move || stdin.write_all(input));
        let output = child.wait_with_output();
        (written.join(), output)
    });
    let (Ok(written), output) = output else {
        bail!("the thread that fed {program} died");
    };
    let output = output.with_context(|| format!("{program} ended badly"))?;
    if !output.status.success() {
        bail!("{program} ended with {}", output.status);
    }
    written.with_context(|| format!("cannot feed {program}"))?;
    Ok(output.stdout)
}

/// An `ar` archive, which is what a Debian package is.
pub(super) fn ar(members: &[(&str, &[u8])], epoch: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let size = bytes.len();
        let header = format!(
            "{name:<16}{epoch:<12}{:<6}{:<6}{:<8}{size:<10}`\n",
            0, 0, 100_644
        );
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(bytes);
        if size % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(order: &[usize]) -> Tree {
        let mut tree = Tree::default();
        for one in order {
            match one {
                0 => tree.file("usr/bin/b", 0o755, "binary"),
                1 => tree.file("etc/a", 0o644, "text"),
                2 => tree.link("usr/bin/c", "b"),
                _ => tree.directory("var/lib", 0o700, 7),
            }
        }
        tree
    }

    #[test]
    fn archive_does_not_depend_on_order() {
        let one = sample(&[0, 1, 2, 3]).tar_gz("p/", 86_400).unwrap();
        let other = sample(&[3, 2, 1, 0]).tar_gz("p/", 86_400).unwrap();
        assert_eq!(one, other);
        assert_ne!(one, sample(&[0, 1, 2, 3]).tar_gz("p/", 86_401).unwrap());
    }

    #[test]
    fn archive_names_everything_with_its_mode() {
        let tar = sample(&[0, 1, 2, 3]).tar("p/", 86_400).unwrap();
        let mut read = tar::Archive::new(tar.as_slice());
        let found: Vec<_> = read
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                let path = entry.path().unwrap().display().to_string();
                let owner = header.uid().unwrap();
                assert_eq!(header.mtime().unwrap(), 86_400);
                (path, header.mode().unwrap(), owner)
            })
            .collect();
        let expected = [
            ("p/etc/", 0o755, 0),
            ("p/etc/a", 0o644, 0),
            ("p/usr/", 0o755, 0),
            ("p/usr/bin/", 0o755, 0),
            ("p/usr/bin/b", 0o755, 0),
            ("p/usr/bin/c", 0o777, 0),
            ("p/var/", 0o755, 0),
            ("p/var/lib/", 0o700, 7),
        ];
        let expected = expected.map(|(path, mode, owner)| (path.to_owned(), mode, owner));
        assert_eq!(found, expected);
    }

    #[test]
    fn ar_members_begin_at_even_offsets() {
        let archive = ar(&[("a", b"odd"), ("b", b"even")], 1);
        assert_eq!(archive.len(), 8 + 60 + 4 + 60 + 4);
        assert_eq!(&archive[72..73], b"b");
    }
}
