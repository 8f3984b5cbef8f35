//! Directories that must stay out of reach of what Codex writes, and the judgement about a working
//! directory. Which sandbox a sender has is not decided here.

use std::path::{Path, PathBuf};

/// What a writing turn must not have below its working directory: there lie its own approvals, the login,
/// and everything the user owns.
#[derive(Clone, Debug, Default)]
pub struct ProtectedPaths {
    /// Where our state is.
    pub state_dir: Option<PathBuf>,
    /// Where Codex keeps its login and threads.
    pub(super) codex_home: Option<PathBuf>,
    /// The user's home.
    pub(super) home: Option<PathBuf>,
    /// Other places where a Codex keeps such things.
    pub(super) codex_homes: Vec<PathBuf>,
}

impl ProtectedPaths {
    /// The user's home.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The same with this home.
    #[cfg(test)]
    pub(crate) fn with_home(self, home: PathBuf) -> Self {
        Self {
            home: Some(home),
            ..self
        }
    }

    /// Why conversations may not work in `directory`; `None` when they may. One that turns can write in, or that
    /// is all they may read, must not hold what matters: `exposed`.
    pub fn refuse_workdir(&self, directory: &Path, exposed: bool) -> Option<String> {
        if !directory.is_absolute() {
            return Some("is not an absolute path; write it out from `/`".to_owned());
        }
        let shown = directory.display();
        let resolved = match directory.canonicalize() {
            Ok(resolved) if resolved.is_dir() => resolved,
            Ok(_) => return Some(format!("names {shown}, which is not a directory")),
            Err(error) => return Some(format!("names {shown}: {error}; create it first")),
        };
        if !exposed {
            return None;
        }
        if resolved.parent().is_none() {
            return Some("is `/`; that is everything, name a directory".to_owned());
        }
        let others = self.codex_homes.iter().map(|home| (home, "a CODEX_HOME"));
        [
            (&self.home, "the home directory"),
            (&self.state_dir, "the state directory"),
            (&self.codex_home, "CODEX_HOME"),
        ]
        .into_iter()
        .filter_map(|(place, name)| Some((place.as_ref()?, name)))
        .chain(others)
        .find(|(place, _)| resolve(place).starts_with(&resolved))
        .map(|(_, name)| {
            format!(
                "names {shown}, which holds {name}; these turns may not have that, name a directory of its own"
            )
        })
    }

    /// Which of our directories `real` lies in; the home directory is not one of them.
    pub fn holder_of(&self, real: &Path) -> Option<&'static str> {
        let state = self
            .state_dir
            .as_ref()
            .map(|place| (place, "the state directory"));
        let homes = self.codex_home.iter().chain(&self.codex_homes);
        let mut places = state
            .into_iter()
            .chain(homes.map(|home| (home, "a CODEX_HOME")));
        places
            .find(|(place, _)| real.starts_with(resolve(place)))
            .map(|(_, name)| name)
    }

    /// Why isolated turns may not read `path` beside their working directory; `None` when they may. `hidden` is what they
    /// must never read.
    pub(super) fn refuse_readable(&self, path: &Path, hidden: &[PathBuf]) -> Option<String> {
        let shown = path.display();
        if !path.is_absolute() {
            return Some(format!(
                "names {shown}, which is not an absolute path; write it out from `/`"
            ));
        }
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) => return Some(format!("names {shown}: {error}; create it first")),
        };
        if real.parent().is_none() {
            return Some("names `/`; that is everything, name a directory".to_owned());
        }
        let home = self.home.as_deref().map(resolve);
        let overlaps = |place: &&PathBuf| {
            place.starts_with(&real) || (real.starts_with(place) && home.as_ref() != Some(*place))
        };
        let place = hidden.iter().find(overlaps)?;
        Some(format!(
            "names {shown}, which holds or lies in {}; isolated turns must not read that, name another",
            place.display()
        ))
    }

    /// All of them as they are on disk, and what else must not be read.
    pub(super) fn hidden(&self, more: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
        let places = [&self.home, &self.state_dir, &self.codex_home];
        let places = places
            .into_iter()
            .flatten()
            .chain(&self.codex_homes)
            .cloned();
        let mut hidden: Vec<_> = places.chain(more).map(|place| resolve(&place)).collect();
        hidden.sort();
        hidden.dedup();
        hidden
    }
}

/// The place with the symbolic links of what exists of it resolved: a state directory that is not there yet
/// must be protected as well.
fn resolve(place: &Path) -> PathBuf {
    let resolved = place.ancestors().find_map(|existing| {
        let canonical = existing.canonicalize().ok()?;
        let rest = place.strip_prefix(existing).ok()?;
        Some(canonical.join(rest))
    });
    resolved.unwrap_or_else(|| place.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_writable_workdir_holding_protected_paths() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in ["home/u/project", "home/u/.codex", "var", "srv/other-home"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("home/u"), at("link")).unwrap();
        let places = ProtectedPaths {
            state_dir: Some(at("var/not-there-yet/state")),
            codex_home: Some(at("home/u/.codex")),
            home: Some(at("home/u")),
            codex_homes: vec![at("srv/other-home")],
        };
        for (name, says) in [
            ("home/u/project", None),
            ("home/u", Some("home directory")),
            ("home", Some("home directory")),
            ("link", Some("home directory")),
            ("home/u/.codex", Some("CODEX_HOME")),
            ("var", Some("state directory")),
            ("srv", Some("a CODEX_HOME")),
            ("missing", Some("create it")),
        ] {
            let said = places.refuse_workdir(&at(name), true);
            match (&said, says) {
                (Some(said), Some(says)) => assert!(said.contains(says), "{name}: {said}"),
                (said, says) => assert_eq!(said.is_some(), says.is_some(), "{name}: {said:?}"),
            }
        }
        let write = |path| places.refuse_workdir(Path::new(path), true);
        assert!(write("/").is_some());
        assert!(write("relative").is_some());
    }

    #[test]
    fn f1_secrets_are_never_granted() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for name in [
            "u/src",
            "u/.codex/sessions",
            "u/state/work",
            "etc/bridge",
            "srv",
        ] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::fs::write(at("etc/bridge/token"), "t").unwrap();
        std::os::unix::fs::symlink(at("u"), at("link")).unwrap();
        let places = ProtectedPaths {
            state_dir: Some(at("u/state")),
            codex_home: Some(at("u/.codex")),
            home: Some(at("u")),
            codex_homes: Vec::new(),
        };
        let hidden = places.hidden([at("etc/bridge/token")].into_iter());
        let refused = |path: &Path| places.refuse_readable(path, &hidden);
        for name in ["u/src", "srv"] {
            assert_eq!(refused(&at(name)), None, "{name}");
        }
        for name in [
            "u",
            "link",
            "u/.codex",
            "u/.codex/sessions",
            "u/state/work",
            "etc",
            "etc/bridge/token",
            "missing",
        ] {
            assert!(refused(&at(name)).is_some(), "{name}");
        }
        for path in ["/", "src"] {
            assert!(refused(Path::new(path)).is_some(), "{path}");
        }
    }

    #[test]
    fn hidden_paths_are_canonicalized() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(&real, real.join("link")).unwrap();
        let places = ProtectedPaths {
            home: Some(real.clone()),
            state_dir: Some(real.join("link/state")),
            codex_home: None,
            codex_homes: Vec::new(),
        };
        let token = real.join("link/token");
        let hidden = places.hidden([token].into_iter());
        assert_eq!(
            hidden,
            [real.clone(), real.join("state"), real.join("token")]
        );
    }

    #[test]
    fn for_reading_any_directory_will_do() {
        let places = ProtectedPaths {
            home: Some(PathBuf::from("/")),
            ..ProtectedPaths::default()
        };
        let root = Path::new("/");
        assert_eq!(places.refuse_workdir(root, false), None);
    }
}
