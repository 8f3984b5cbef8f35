//! Paths that isolated turns may read beside their working directory (`reads_also`), as they are on this disk.

use std::path::PathBuf;

/// The paths without symbolic links, taken when the configuration is read. One that is not there is granted to nobody.
pub(crate) fn real_places(paths: &[PathBuf]) -> Vec<PathBuf> {
    let real = paths.iter().filter_map(|path| path.canonicalize().ok());
    real.collect()
}

/// Those that are still the same place. Turns write in directories that others may read: a path that became a link since
/// then leads where nobody granted anything.
pub(crate) fn still_there(places: &[PathBuf]) -> Vec<String> {
    let same = |place: &&PathBuf| place.canonicalize().is_ok_and(|real| real == **place);
    let places = places.iter().filter(same);
    places.map(|place| place.display().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn f1_symlinked_grant_is_dropped() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for name in ["shared", "secret"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        symlink(at("shared"), at("link")).unwrap();
        let granted = real_places(&[at("link"), at("missing")]);
        assert_eq!(granted, [at("shared")]);
        assert_eq!(still_there(&granted), [at("shared").display().to_string()]);
        std::fs::remove_dir(at("shared")).unwrap();
        symlink(at("secret"), at("shared")).unwrap();
        assert_eq!(still_there(&granted), Vec::<String>::new());
    }
}
