//! Who acts. Rights go by the name alone; the program is for the records.

use std::fmt;

/// Who does something by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The name of the owner, of a token or of a sender.
    pub name: String,
    /// The program that acts for them, unless it is a person at a terminal.
    pub program: Option<String>,
}

impl Actor {
    /// Somebody of whom only the name is known.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            program: None,
        }
    }
}

/// As the records have it. Nothing is read back from it: a name may look like this too.
impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.program {
            Some(program) => write!(f, "{} ({program})", self.name),
            None => f.write_str(&self.name),
        }
    }
}
