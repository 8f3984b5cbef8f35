//! The schema that a Codex generates about itself: offline, without a login, in a fraction of a second.

use super::{CheckError, Room, blocking};
use crate::process::oneshot::{self, End, Output};
use bridge_codex::schema::Schema;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// It takes 0.2 s; what needs longer than this hangs.
const DEADLINE: Duration = Duration::from_secs(30);
/// Folders of a schema.
const PARTS: [&str; 3] = ["", "v1", "v2"];
/// A whole schema has about 700 files.
const FILES_MAX: usize = 10_000;
/// The largest file of 0.166 has 700 kB.
const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Lines of its output that an error shows.
const TAIL_LINES: usize = 4;

/// Generates and reads it, experimental parts included.
pub(super) async fn generate(room: &Room) -> Result<Schema, CheckError> {
    let out = room.path("schema");
    let mut command = Command::new(&room.launch.codex);
    command
        .args([
            "app-server",
            "generate-json-schema",
            "--experimental",
            "--out",
        ])
        .arg(&out)
        .env_clear()
        .envs(room.launch.env.iter().map(|(name, value)| (name, value)))
        .current_dir(room.path("tmp"));
    let (end, Output { stderr, .. }) =
        blocking(move || oneshot::run(command, DEADLINE, &mut |_| {})).await?;
    let refused =
        |why: String| CheckError::Schema(format!("this Codex does not generate its schema: {why}"));
    match end {
        End::Exited(status) if status.success() => {}
        End::Exited(status) => {
            let tail = oneshot::tail(&stderr, TAIL_LINES);
            return Err(refused(format!("{status}; {tail}")));
        }
        End::Overrun => {
            return Err(refused(format!("no end within {} s", DEADLINE.as_secs())));
        }
    }
    let files = blocking(move || read(&out)).await?;
    Schema::new(files).map_err(|error| refused(error.to_string()))
}

fn read(folder: &Path) -> io::Result<BTreeMap<String, Value>> {
    let mut files = BTreeMap::new();
    for part in PARTS {
        for entry in fs::read_dir(folder.join(part))? {
            let path = entry?.path();
            let is_schema = path.extension().is_some_and(|ext| ext == "json");
            let name = path.file_stem().and_then(|stem| stem.to_str());
            if let (true, Some(name)) = (is_schema && files.len() < FILES_MAX, name) {
                let mut text = Vec::new();
                File::open(&path)?
                    .take(FILE_BYTES_MAX)
                    .read_to_end(&mut text)?;
                files.insert(name.to_owned(), serde_json::from_slice(&text)?);
            }
        }
    }
    Ok(files)
}
