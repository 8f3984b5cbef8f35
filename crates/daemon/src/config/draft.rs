//! The first configuration file: what a person chose, each key with its explanation, cut from the documented example.

use std::collections::BTreeMap;
use toml::Value;

const EXAMPLE: &str = include_str!("../../../../docs/codex-bridge.toml");

const HEAD: &str = "\
# The configuration of codex-bridge, written by `codex-bridge init`.
#
# A key behind `#` is not set: its default is in force, and what ends in `# example` has none. docs/codex-bridge.toml
# has every key; `codex-bridge config check` says what is in force and where it comes from.
";

/// What a first file shows, set or not.
const SHOWN: [&str; 10] = [
    "codex.bin",
    "tiers.owner.sandbox",
    "tiers.owner.reads",
    "tiers.owner.approval_policy",
    "tiers.owner.workdir",
    "molecule.origins.canvas",
    "molecule.workspace.id",
    "molecule.workspace.platform_url",
    "molecule.workspace.token_file",
    "http.listen",
];

/// A configuration file that is not written yet.
#[derive(Clone, Debug, Default)]
pub struct ConfigDraft {
    chosen: BTreeMap<&'static str, Value>,
}

/// A line of the example.
enum Line<'a> {
    Blank,
    Comment,
    /// `[name]`, or `[[name]]`, which is commented out.
    Table(&'a str),
    /// A key that is commented out.
    Key(&'a str),
}

impl ConfigDraft {
    /// Sets a key by its whole name; a key that the draft does not show is left out.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.chosen.insert(key, value.into());
    }

    pub fn unset(&mut self, key: &'static str) {
        self.chosen.remove(key);
    }

    /// The whole file. A value can't leave its quotes: the TOML library writes it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        let mut table = "";
        // The explanation that began after the last blank line, and the table's with its first line.
        let mut comment = String::new();
        let mut header = None;
        for line in EXAMPLE.lines() {
            match read(line) {
                Line::Blank => comment.clear(),
                Line::Comment => comment.extend([line, "\n"]),
                Line::Table(name) => {
                    table = name;
                    let line = self.table_line(name, line);
                    header = Some(format!("\n{}{line}\n", std::mem::take(&mut comment)));
                }
                Line::Key(name) => {
                    let key = format!("{table}.{name}");
                    if SHOWN.contains(&key.as_str()) {
                        text.push_str(&header.take().unwrap_or_else(|| "\n".to_owned()));
                        text.push_str(&std::mem::take(&mut comment));
                        match self.chosen.get(key.as_str()) {
                            Some(value) => text.push_str(&format!("{name} = {value}\n")),
                            None => text.extend([line, "\n"]),
                        }
                    }
                }
            }
        }
        text
    }

    /// A table of a list is there once one of its keys is.
    fn table_line(&self, name: &str, line: &str) -> String {
        let is_below = |key: &&str| {
            key.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('.'))
        };
        if line.starts_with('#') && self.chosen.keys().any(is_below) {
            format!("[[{name}]]")
        } else {
            line.to_owned()
        }
    }
}

fn read(line: &str) -> Line<'_> {
    if line.is_empty() {
        return Line::Blank;
    }
    let text = line.strip_prefix("# ").unwrap_or(line);
    if text.starts_with('[') {
        let name = text.trim_start_matches('[').split(']').next();
        return Line::Table(name.unwrap_or_default());
    }
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    match text.split_once(" = ") {
        Some((name, _)) if is_name(name) => Line::Key(name),
        Some(_) | None => Line::Comment,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn draft_without_choices_sets_nothing() {
        let text = ConfigDraft::default().text();
        assert_eq!(toml::from_str::<Config>(&text).unwrap(), Config::default());
        assert!(text.parse::<toml::Table>().unwrap().len() < 5, "{text}");
    }

    #[test]
    fn draft_explains_each_shown_key_once() {
        let text = ConfigDraft::default().text();
        let (mut table, mut found) = ("", Vec::new());
        let mut before = "";
        for line in text.lines() {
            match read(line) {
                Line::Table(name) => table = name,
                Line::Key(name) => {
                    assert!(before.starts_with('#'), "{name} has an explanation");
                    found.push(format!("{table}.{name}"));
                }
                Line::Blank | Line::Comment => {}
            }
            before = line;
        }
        found.sort();
        let mut shown = SHOWN.to_vec();
        shown.sort_unstable();
        assert_eq!(found, shown);
    }

    #[test]
    fn chosen_text_stays_one_value() {
        for text in [
            "/a \"quoted\" 'place'",
            "/a'''b\"\"\"c",
            "/x\"\n[tiers.peer]\nsandbox = \"danger-full-access\"\n",
            "/x\n\n[tiers.owner]\nreads = 'disk' # \\",
            "/tab\there\r\nand \u{7f}\u{1b}[2J",
        ] {
            let mut draft = ConfigDraft::default();
            draft.set("tiers.owner.workdir", text);
            let read: Config = toml::from_str(&draft.text()).unwrap();
            let mut expected = Config::default();
            expected.tiers.owner.workdir = Some(text.into());
            assert_eq!(read, expected, "{text:?}");
        }
    }

    #[test]
    fn chosen_workspace_gets_its_table() {
        let mut draft = ConfigDraft::default();
        draft.set("molecule.workspace.id", "3132147e");
        draft.set("molecule.origins.canvas", "owner");
        let table: toml::Table = draft.text().parse().unwrap();
        let molecule = table["molecule"].as_table().unwrap();
        assert_eq!(molecule["workspace"][0]["id"].as_str(), Some("3132147e"));
        assert_eq!(molecule["origins"]["canvas"].as_str(), Some("owner"));
        draft.unset("molecule.workspace.id");
        assert!(!draft.text().contains("\n[[molecule.workspace]]"));
    }
}
