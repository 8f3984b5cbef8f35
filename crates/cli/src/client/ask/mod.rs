//! Questions of Codex before a person: what is shown, how it is answered, and how it is taken back.

mod asker;
mod dialogue;
mod fields;
mod keys;
mod question;

pub(crate) use asker::{Asker, Mode, Scope};
pub(crate) use question::{Question, Reader};
