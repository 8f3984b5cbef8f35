//! Paths as a rule sees them: absolute, without `.` and `..`, compared by whole components. The disk is never looked
//! at, so a link in a directory that a rule lets through leads where it leads.

/// A file or directory that a rule names, with everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    parts: Vec<String>,
}

impl Place {
    /// Reads an absolute path.
    #[must_use]
    pub fn parse(path: &str) -> Option<Self> {
        Self::seen_from(path, None)
    }

    /// Reads a path; a relative one is taken from `cwd`.
    #[must_use]
    pub fn seen_from(path: &str, cwd: Option<&str>) -> Option<Self> {
        let whole = match (path.starts_with('/'), cwd) {
            (true, _) => path.to_owned(),
            (false, Some(cwd)) if cwd.starts_with('/') => format!("{cwd}/{path}"),
            (false, _) => return None,
        };
        if path.is_empty() || whole.contains('\0') {
            return None;
        }
        let mut parts: Vec<String> = Vec::new();
        for part in whole.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop();
                }
                part => parts.push(part.to_owned()),
            }
        }
        Some(Self { parts })
    }

    /// Whether `other` is this place or below it.
    pub(super) fn holds(&self, other: &Self) -> bool {
        other.parts.starts_with(&self.parts)
    }

    /// The same, as a file system that knows no case would see it.
    pub(super) fn may_hold(&self, other: &Self) -> bool {
        other.parts.len() >= self.parts.len()
            && self
                .parts
                .iter()
                .zip(&other.parts)
                .all(|(ours, theirs)| ours.to_lowercase() == theirs.to_lowercase())
    }
}
