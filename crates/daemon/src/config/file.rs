//! Finds and reads `codex-bridge.toml`. The file decides sandboxes, so its writer decides what
//! Codex may do: it is believed only where that is us or root. What is in it is not looked at here.

use super::environment::Environment;
use super::error::ConfigError;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Our file in our configuration directory.
const NAME: &str = "codex-bridge.toml";
/// Longest file that is read; every key with its description is a hundredth of it.
const BYTES_MAX: u64 = 256 * 1024;
/// Who else may write: group and others.
const WRITABLE: u32 = 0o022;

/// A file that may be believed.
#[derive(Debug)]
pub(super) struct FoundFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// The file that was named, which must exist, or the one in the usual place, which need not.
pub(super) fn find(
    explicit: Option<&Path>,
    environment: &Environment,
) -> Result<Option<FoundFile>, ConfigError> {
    match explicit {
        Some(path) => match read(path)? {
            Some(found) => Ok(Some(found)),
            None => Err(ConfigError::NotFound {
                path: path.to_owned(),
            }),
        },
        None => match usual(environment) {
            Some(path) => read(&path),
            None => Ok(None),
        },
    }
}

/// Where the file is looked for when none is named.
#[must_use]
pub fn usual(environment: &Environment) -> Option<PathBuf> {
    Some(environment.config_dir()?.join(NAME))
}

fn read(path: &Path) -> Result<Option<FoundFile>, ConfigError> {
    let path = path.to_owned();
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ConfigError::Unreadable { path, source }),
    };
    let metadata = match file.metadata() {
        Ok(metadata) => metadata,
        Err(source) => return Err(ConfigError::Unreadable { path, source }),
    };
    let ours = nix::unistd::geteuid().as_raw();
    believe(&path, &metadata, ours)?;
    let mut bytes = Vec::new();
    if let Err(source) = file.take(BYTES_MAX + 1).read_to_end(&mut bytes) {
        return Err(ConfigError::Unreadable { path, source });
    }
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > BYTES_MAX {
        return Err(ConfigError::TooLong {
            path,
            max: BYTES_MAX,
        });
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(FoundFile { path, text })),
        Err(_) => Err(ConfigError::NotText { path }),
    }
}

/// Looks at the opened file, not at its name: a name can be turned to another file in between.
fn believe(path: &Path, metadata: &Metadata, ours: u32) -> Result<(), ConfigError> {
    let path = path.to_owned();
    if !metadata.is_file() {
        return Err(ConfigError::NotAFile { path });
    }
    let owner = metadata.uid();
    if owner != ours && owner != 0 {
        return Err(ConfigError::ForeignOwner { path, owner, ours });
    }
    if metadata.mode() & WRITABLE != 0 {
        let mode = metadata.mode() & 0o777;
        return Err(ConfigError::WritableByOthers { path, mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(mode: u32, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("some.toml");
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (directory, path)
    }

    fn nowhere() -> Environment {
        Environment::of([])
    }

    #[test]
    fn rejects_config_writable_by_others() {
        let (_directory, path) = file(0o644, b"x = 1");
        let found = find(Some(&path), &nowhere()).unwrap().unwrap();
        assert_eq!(found.text, "x = 1");
        for mode in [0o666, 0o664, 0o602] {
            let (_directory, path) = file(mode, b"");
            let error = find(Some(&path), &nowhere()).unwrap_err().to_string();
            assert!(error.contains("chmod go-w"), "{error}");
        }
    }

    #[test]
    fn accepts_config_only_from_self_or_root() {
        let (_directory, path) = file(0o600, b"");
        let metadata = std::fs::metadata(&path).unwrap();
        let owner = metadata.uid();
        assert!(believe(&path, &metadata, owner).is_ok());
        let as_another = believe(&path, &metadata, owner + 1);
        assert_eq!(as_another.is_ok(), owner == 0);
    }

    #[test]
    fn only_a_named_config_must_exist() {
        let error = find(Some(Path::new("/nonexistent/x.toml")), &nowhere()).unwrap_err();
        assert!(matches!(error, ConfigError::NotFound { .. }), "{error}");
        let home = tempfile::tempdir().unwrap();
        let environment = Environment::of([("HOME", home.path().to_str().unwrap())]);
        assert!(find(None, &environment).unwrap().is_none());
        let directory = home.path().join(".config/codex-bridge");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(NAME), "x = 2").unwrap();
        let found = find(None, &environment).unwrap().unwrap();
        assert_eq!(found.path, usual(&environment).unwrap());
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let error = find(Some(directory.path()), &nowhere()).unwrap_err();
        assert!(matches!(error, ConfigError::NotAFile { .. }), "{error}");
        let (_directory, path) = file(0o600, b"\xff\xfe");
        let error = find(Some(&path), &nowhere()).unwrap_err();
        assert!(matches!(error, ConfigError::NotText { .. }), "{error}");
        let long = vec![b'#'; usize::try_from(BYTES_MAX).unwrap() + 1];
        let (_directory, path) = file(0o600, &long);
        let error = find(Some(&path), &nowhere()).unwrap_err();
        assert!(matches!(error, ConfigError::TooLong { .. }), "{error}");
    }
}
