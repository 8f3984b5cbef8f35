//! Read isolation: commands of a thread read the system's own directories, their working directory and what the operator
//! grants beside it, nothing else.
//!
//! It is a permission profile of Codex that is given with the thread, so the operator's config.toml stays as it
//! is. What was measured is in ADR 0024. Which senders are isolated is decided elsewhere.

use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The profile's name. Codex reports it back as active, and drops it without a word when it is asked for wrongly.
pub(crate) const PROFILE: &str = "codex-bridge-shield";

/// Codex's word for what programs need to run at all.
const MINIMAL: &str = ":minimal";

/// Granted by [`MINIMAL`] on Linux: a hidden path in there must be denied by name.
const SYSTEM: [&str; 8] = [
    "/bin",
    "/sbin",
    "/usr",
    "/etc",
    "/lib",
    "/lib64",
    "/nix/store",
    "/run/current-system",
];

/// Paths of this machine that the profile depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IsolationBase {
    /// The native executable of Codex: its sandbox runs it once more inside.
    pub(crate) codex: PathBuf,
    /// A place that is always denied by name. Only with such an entry do commands stay in the sandbox that the
    /// operator's own rules allow to leave it.
    pub(crate) denied: PathBuf,
}

/// Paths that the commands of one thread may read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadGrants<'a> {
    pub(crate) workdir: &'a str,
    pub(crate) write: bool,
    /// Readable beside the working directory.
    pub(crate) also: &'a [String],
    pub(crate) hidden: &'a [String],
}

impl IsolationBase {
    /// The keys of config.toml that turn read isolation on.
    pub(crate) fn profile(&self, grants: ReadGrants<'_>) -> Map<String, Value> {
        let profile = json!({
            "filesystem": self.filesystem(grants),
            "network": { "enabled": false },
        });
        let mut profiles = Map::new();
        profiles.insert(PROFILE.to_owned(), profile);
        let mut keys = Map::new();
        keys.insert("default_permissions".to_owned(), PROFILE.into());
        keys.insert("permissions".to_owned(), profiles.into());
        keys
    }

    fn filesystem(&self, grants: ReadGrants<'_>) -> Map<String, Value> {
        let codex = self.codex.display().to_string();
        let granted = granted(grants.workdir, &codex, grants.also);
        let mut entries = Map::new();
        entries.insert(self.denied.display().to_string(), "none".into());
        for place in grants.hidden {
            if must_be_named(place, &granted) {
                entries.insert(place.clone(), "none".into());
            }
        }
        let work = if grants.write { "write" } else { "read" };
        entries.insert(MINIMAL.to_owned(), "read".into());
        // A narrower entry in the working directory would take away the right to write there.
        for place in grants.also {
            if !Path::new(place).starts_with(grants.workdir) {
                entries.insert(place.clone(), "read".into());
            }
        }
        entries.insert(codex.clone(), "read".into());
        entries.insert(grants.workdir.to_owned(), work.into());
        entries
    }

    /// A hidden place that commands would read all the same: it lies in what is granted, and can't be denied because
    /// it holds what else is granted.
    pub(crate) fn exposed<'a>(
        &self,
        workdir: &str,
        also: &[String],
        hidden: &'a [String],
    ) -> Option<&'a str> {
        let codex = self.codex.display().to_string();
        let granted = granted(workdir, &codex, also);
        let mut hidden = hidden.iter().map(String::as_str);
        hidden.find(|place| lies_in(place, &granted) && holds(place, &granted))
    }
}

/// The real place of a directory, which is what is granted and denied: a link to it hides nothing.
pub(crate) fn real(directory: &str) -> String {
    let real = Path::new(directory).canonicalize();
    real.map_or_else(|_| directory.to_owned(), |real| real.display().to_string())
}

fn granted<'a>(workdir: &'a str, codex: &'a str, also: &'a [String]) -> Vec<&'a str> {
    let also = also.iter().map(String::as_str);
    [workdir, codex].into_iter().chain(also).collect()
}

/// Whether a hidden place lies in what is granted. One that holds what is granted is not granted anyway, and naming
/// it would take the other away: Codex does not show what lies below a denied place.
fn must_be_named(place: &str, granted: &[&str]) -> bool {
    lies_in(place, granted) && !holds(place, granted)
}

fn lies_in(place: &str, granted: &[&str]) -> bool {
    let mut all = SYSTEM.iter().chain(granted);
    all.any(|granted| Path::new(place).starts_with(granted))
}

fn holds(place: &str, granted: &[&str]) -> bool {
    let mut granted = granted.iter();
    granted.any(|granted| Path::new(granted).starts_with(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(workdir: &str, write: bool, hidden: &[&str]) -> Value {
        entries_with(workdir, write, &[], hidden)
    }

    fn entries_with(workdir: &str, write: bool, also: &[&str], hidden: &[&str]) -> Value {
        let isolation = IsolationBase {
            codex: "/home/u/.npm/codex".into(),
            denied: "/home/u/state/run".into(),
        };
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (also, hidden) = (texts(also), texts(hidden));
        let grants = ReadGrants {
            workdir,
            write,
            also: &also,
            hidden: &hidden,
        };
        let keys = isolation.profile(grants);
        assert_eq!(keys["default_permissions"], PROFILE);
        let profile = &keys["permissions"][PROFILE];
        assert_eq!(profile["network"]["enabled"], false);
        profile["filesystem"].clone()
    }

    #[test]
    fn grants_only_system_workdir_and_codex() {
        let hidden = ["/home/u", "/home/u/state", "/home/u/.codex"];
        assert_eq!(
            entries("/home/u/state/work/c", false, &hidden),
            json!({":minimal": "read", "/home/u/.npm/codex": "read",
                   "/home/u/state/work/c": "read", "/home/u/state/run": "none"})
        );
        assert_eq!(entries("/srv/x", true, &hidden)["/srv/x"], "write");
    }

    #[test]
    fn unhideable_paths_are_reported() {
        let isolation = IsolationBase {
            codex: "/usr/local/codex/bin/codex".into(),
            denied: "/home/u/state/run".into(),
        };
        for (workdir, hidden, exposed) in [
            ("/srv/x", "/usr/local/codex", true),
            ("/usr/state/work/c", "/usr/state", true),
            ("/srv/x", "/usr/state", false),
            ("/srv/x", "/srv", false),
            ("/srv/x", "/srv/x/token", false),
        ] {
            let hidden = [hidden.to_owned()];
            let found = isolation.exposed(workdir, &[], &hidden);
            assert_eq!(found.is_some(), exposed, "{workdir} {hidden:?}");
        }
    }

    #[test]
    fn f1_granted_paths_hide_secrets() {
        let also = ["/home/u/docs", "/srv/x/sub"];
        let hidden = ["/home/u", "/home/u/docs/token"];
        let found = entries_with("/srv/x", true, &also, &hidden);
        assert_eq!(found["/home/u/docs"], "read");
        assert_eq!(found["/home/u/docs/token"], "none");
        assert_eq!(found.get("/home/u"), None);
        assert_eq!(found.get("/srv/x/sub"), None, "it stays writable");
    }

    #[test]
    fn denies_hidden_paths_inside_grants() {
        let found = entries(
            "/srv/x",
            false,
            &["/etc/codex-bridge", "/srv/x/secret", "/srv"],
        );
        assert_eq!(found["/etc/codex-bridge"], "none");
        assert_eq!(found["/srv/x/secret"], "none");
        assert_eq!(found.get("/srv"), None);
        assert_eq!(entries("/srv/x", false, &["/srv/x"])["/srv/x"], "read");
    }
}
