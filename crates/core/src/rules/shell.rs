//! Command lines as a rule sees them: strictly for what is let through, loosely for what is held back.
//!
//! Nothing is expanded or run. A line that a shell could read in another way than we do has no strict reading.

/// How deep scripts within words are looked into, before a mention of the program is enough.
const DEPTH_MAX: usize = 4;
/// What makes more of a line than one simple command.
const META: &[char] = &[';', '&', '|', '<', '>', '(', ')', '$', '`'];
/// What a shell replaces before it runs a command.
const EXPANDED: &[char] = &['$', '`', '*', '?', '[', '{', '~'];
/// Shells whose `-c` is looked into.
const SHELLS: &[&str] = &["bash", "zsh", "sh", "dash"];
/// Where such a shell is the system's own.
const SHELL_PLACES: &[&str] = &["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];

/// The first words of a command line, such as `git push`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    words: Vec<String>,
}

impl Prefix {
    /// Reads the words; `None` where they are not plain words of one simple command, so that no line could match them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |word: &String| !word.is_empty() && !word.contains(EXPANDED);
        let words = simple(text)?;
        let program = words.first()?;
        (words.iter().all(plain) && !program.contains('=')).then_some(Self { words })
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Whether the line is this command, with whatever arguments, and nothing beside it.
    pub(super) fn is_all_of(&self, line: &str) -> bool {
        whole(line).is_some_and(|words| words.starts_with(&self.words))
    }

    /// Whether the line may run this command anywhere: in a list, a pipeline, a substitution, behind `sudo`.
    pub(super) fn is_in(&self, line: &str) -> bool {
        self.is_within(line, DEPTH_MAX)
    }

    fn is_within(&self, line: &str, depth: usize) -> bool {
        let Some(commands) = commands(line) else {
            return self.is_mentioned(line);
        };
        let nested = |word: &String| match (is_script(word), depth.checked_sub(1)) {
            (false, _) => false,
            (true, Some(depth)) => self.is_within(word, depth),
            (true, None) => self.is_mentioned(word),
        };
        commands
            .iter()
            .any(|words| self.is_run(words) || words.iter().any(nested))
    }

    fn is_run(&self, words: &[String]) -> bool {
        let begins =
            |at: usize, word: &str| self.is_program(word) || (at == 0 && is_replaced(word));
        let goes_on = |words: &[String]| {
            words.len() >= self.words.len()
                && words
                    .iter()
                    .zip(&self.words)
                    .skip(1)
                    .all(|(word, ours)| is_replaced(word) || word.eq_ignore_ascii_case(ours))
        };
        let glued = |word: &String| word.contains(['$', '`']) && self.is_mentioned(word);
        words.iter().any(glued)
            || words
                .iter()
                .enumerate()
                .any(|(at, word)| begins(at, word) && goes_on(words.get(at..).unwrap_or_default()))
    }

    /// The program is compared without its directory, and as file systems that know no case would.
    fn is_program(&self, word: &str) -> bool {
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        self.words
            .first()
            .is_some_and(|program| name(program) == name(word))
    }

    fn is_mentioned(&self, text: &str) -> bool {
        text.split(|c: char| !(c.is_alphanumeric() || "-_.+".contains(c)))
            .any(|word| self.is_program(word))
    }
}

/// The words of a line that is one simple command, also behind one `bash -lc`; `None` for everything else.
fn whole(line: &str) -> Option<Vec<String>> {
    let words = simple(line)?;
    match words.as_slice() {
        [shell, flag, script] if is_shell(shell) && matches!(flag.as_str(), "-lc" | "-c") => {
            simple(script)
        }
        _ => Some(words),
    }
}

fn is_shell(word: &str) -> bool {
    match word.rsplit_once('/') {
        Some((place, name)) => SHELL_PLACES.contains(&place) && SHELLS.contains(&name),
        None => SHELLS.contains(&word),
    }
}

/// Whether a shell would put something else in its place; `[` and `{` by themselves are commands.
fn is_replaced(word: &str) -> bool {
    word.contains(EXPANDED) && !matches!(word, "[" | "[[" | "{")
}

/// Words as one line that [`Prefix`]es read back as the same words.
#[must_use]
pub fn quote<W: AsRef<str>>(words: &[W]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    let quoted = |word: &str| {
        if !word.is_empty() && word.chars().all(plain) {
            word.to_owned()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    let words: Vec<String> = words.iter().map(|word| quoted(word.as_ref())).collect();
    words.join(" ")
}

fn is_script(word: &str) -> bool {
    word.contains(|c: char| c.is_whitespace() || META.contains(&c))
}

/// The words of one simple command. A control character, an operator or a substitution anywhere, or a quote without
/// its end, and there is none.
pub(super) fn simple(line: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    if line.contains(|c: char| c.is_control() && c != '\t') {
        return None;
    }
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => single_quoted(&mut chars, word.get_or_insert_default())?,
            '"' => strictly_quoted(&mut chars, word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().push(chars.next()?),
            '#' if word.is_none() => return None,
            c if c.is_whitespace() || META.contains(&c) => return None,
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    (!words.is_empty()).then_some(words)
}

fn single_quoted(chars: &mut std::str::Chars<'_>, word: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            '\'' => return Some(()),
            c => word.push(c),
        }
    }
}

fn strictly_quoted(chars: &mut std::str::Chars<'_>, word: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            '"' => return Some(()),
            '$' | '`' => return None,
            '\\' => match chars.next()? {
                c @ ('$' | '`' | '"' | '\\') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
}

fn loosely_quoted(chars: &mut std::str::Chars<'_>, word: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            '"' => return Some(()),
            '\\' => word.push(chars.next()?),
            c => word.push(c),
        }
    }
}

/// Every simple command that may be in a line, as words; `None` where quotes do not end.
fn commands(line: &str) -> Option<Vec<Vec<String>>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => single_quoted(&mut chars, word.get_or_insert_default())?,
            '"' => loosely_quoted(&mut chars, word.get_or_insert_default())?,
            '\\' => match chars.next()? {
                '\n' => {}
                c => word.get_or_insert_default().push(c),
            },
            '$' => word.get_or_insert_default().push(c),
            c if META.contains(&c) || (c.is_control() && c != '\t') => {
                words.extend(word.take());
                found.extend((!words.is_empty()).then(|| std::mem::take(&mut words)));
            }
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    found.extend((!words.is_empty()).then_some(words));
    Some(found)
}
