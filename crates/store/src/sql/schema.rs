//! The schema's versions, for both engines.

/// The SQL that leads to version 1, 2, and so on. A file that has shipped is never edited.
pub(crate) const MIGRATIONS: &[&str] = &[include_str!("../../schema/0001_ledger.sql")];

/// How the file of a version says that programs of older versions work on it too: they neither miss nor mind what it adds.
const COMPATIBLE_SINCE: &str = "-- Compatible since version ";

/// The migrations of this program. A debug build may have one more, so that a test has two builds in one.
pub(crate) fn migrations() -> Vec<&'static str> {
    let known = MIGRATIONS.iter().copied();
    #[cfg(debug_assertions)]
    let known = known.chain(planned::next());
    known.collect()
}

/// The oldest version whose programs may work on a database of this one, beside newer ones. A file that says nothing of it
/// is for its own programs alone.
pub(crate) fn compatible_since(migration: &str, version: i64) -> i64 {
    let mut lines = migration.lines();
    let said = lines.find_map(|line| line.strip_prefix(COMPATIBLE_SINCE));
    let since = said.and_then(|said| said.trim_end_matches('.').parse().ok());
    since.unwrap_or(version).min(version)
}

#[cfg(debug_assertions)]
pub use planned::add_migration;

#[cfg(debug_assertions)]
mod planned {
    use std::sync::OnceLock;

    static NEXT: OnceLock<&'static str> = OnceLock::new();

    /// Makes this process one of a later build: one whose schema has this migration behind those that are known.
    pub fn add_migration(sql: String) {
        NEXT.get_or_init(|| sql.leak());
    }

    pub(super) fn next() -> Option<&'static str> {
        NEXT.get().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_compatible_only_by_declaration() {
        assert_eq!(compatible_since("ALTER TABLE message ADD x TEXT;", 3), 3);
        let declared = "-- Schema version 3.\n-- Compatible since version 2.\nCREATE TABLE x;";
        assert_eq!(compatible_since(declared, 3), 2);
        let mistyped = "-- Compatible since version two.\n";
        assert_eq!(compatible_since(mistyped, 3), 3);
    }
}
