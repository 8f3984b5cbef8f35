//! Reads what a message asks the model to do: directives such as `echo:hi`, in steps set apart
//! by ` ;; `. Pure: text in, [`Step`]s out. The words themselves are described at [`ScriptedModel`].
//! How a step is put on the wire is not here (`respond`).
//!
//! A word whose argument does not read (`usage: of this tool`) is ordinary text, so that people
//! may write what they like.
//!
//! [`ScriptedModel`]: crate::ScriptedModel

use super::arguments::{self, BIGGEST, or};
use super::step::{Act, Call, Cue, Ending, Phase, Step};

/// The name of a `hang:` that was given none, for those who wait until it hangs.
const HANG: &str = "hang";

/// A directive, by how far its argument reaches.
#[derive(Debug, Clone, Copy)]
enum Word {
    Bare(Bare),
    Rest(Rest),
    Text(Text),
    Token(Token),
}

/// No argument.
#[derive(Debug, Clone, Copy)]
enum Bare {
    Incomplete,
    Remember,
}

/// All that is left of the step.
#[derive(Debug, Clone, Copy)]
enum Rest {
    Echo,
    Escal,
    NsTool,
    Patch,
    Shell,
    Tool,
}

/// Up to the next directive.
#[derive(Debug, Clone, Copy)]
enum Text {
    Reason,
    Say,
}

/// Up to the next white space.
#[derive(Debug, Clone, Copy)]
enum Token {
    Append,
    Relay,
    Big,
    Break,
    Fail,
    Hang,
    Hold,
    Pause,
    Phase,
    Sleep,
    SseFail,
    Stream,
    Usage,
    UsageLimit,
}

const WORDS: [(&str, Word); 24] = [
    ("append", Word::Token(Token::Append)),
    ("big", Word::Token(Token::Big)),
    ("break", Word::Token(Token::Break)),
    ("echo", Word::Rest(Rest::Echo)),
    ("escal", Word::Rest(Rest::Escal)),
    ("fail", Word::Token(Token::Fail)),
    ("hang", Word::Token(Token::Hang)),
    ("hold", Word::Token(Token::Hold)),
    ("incomplete", Word::Bare(Bare::Incomplete)),
    ("nstool", Word::Rest(Rest::NsTool)),
    ("patch", Word::Rest(Rest::Patch)),
    ("pause", Word::Token(Token::Pause)),
    ("phase", Word::Token(Token::Phase)),
    ("reason", Word::Text(Text::Reason)),
    ("relay", Word::Token(Token::Relay)),
    ("remember", Word::Bare(Bare::Remember)),
    ("say", Word::Text(Text::Say)),
    ("shell", Word::Rest(Rest::Shell)),
    ("sleep", Word::Token(Token::Sleep)),
    ("sse_fail", Word::Token(Token::SseFail)),
    ("stream", Word::Token(Token::Stream)),
    ("tool", Word::Rest(Rest::Tool)),
    ("usage", Word::Token(Token::Usage)),
    ("usage_limit", Word::Token(Token::UsageLimit)),
];

/// The steps of a message; at least one.
pub(super) fn read(text: &str) -> Vec<Step> {
    split_steps(text).into_iter().map(read_step).collect()
}

/// Whether `text` holds a directive word.
pub(super) fn has_directive(text: &str) -> bool {
    find_word(text).is_some()
}

/// Only a `;;` with space around it divides, so that a shell `case` can be written.
fn split_steps(text: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    let mut start = 0;
    for (at, mark) in text.match_indices(";;") {
        let before = text.get(..at).unwrap_or_default();
        let after = text.get(at + mark.len()..).unwrap_or_default();
        let alone = before.chars().next_back().is_none_or(char::is_whitespace)
            && after.chars().next().is_none_or(char::is_whitespace);
        if alone {
            steps.push(text.get(start..at).unwrap_or_default().trim());
            start = at + mark.len();
        }
    }
    steps.push(text.get(start..).unwrap_or_default().trim());
    steps
}

fn read_step(text: &str) -> Step {
    let mut reader = Reader::default();
    let mut rest = text;
    while let Some(found) = find_word(rest) {
        rest = reader
            .take(found.word, found.argument)
            .unwrap_or(found.argument);
    }
    reader.step.phase = reader.phase;
    reader.step
}

struct Found<'a> {
    before: &'a str,
    word: Word,
    /// All that follows the word's colon.
    argument: &'a str,
    /// The same from the word itself on.
    from_word: &'a str,
}

/// The first directive word in `text`.
fn find_word(text: &str) -> Option<Found<'_>> {
    text.match_indices(':').find_map(|(colon, _)| {
        let (head, _) = text.split_at_checked(colon)?;
        let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
        let before = head.trim_end_matches(part_of_name);
        let name = head.get(before.len()..)?;
        let (_, word) = WORDS.iter().find(|(known, _)| *known == name)?;
        Some(Found {
            before,
            word: *word,
            argument: text.get(colon + 1..)?,
            from_word: text.get(before.len()..)?,
        })
    })
}

#[derive(Debug, Default)]
struct Reader {
    step: Step,
    /// Set by `phase:`, used up by the next message.
    phase: Option<Phase>,
}

impl Reader {
    /// Takes one directive in; gives what is left to read, or nothing if the argument is not one.
    fn take<'a>(&mut self, word: Word, argument: &'a str) -> Option<&'a str> {
        match word {
            Word::Bare(word) => {
                self.bare(word);
                Some(argument)
            }
            Word::Rest(word) => {
                self.rest(word, argument.trim())?;
                Some("")
            }
            Word::Text(word) => {
                let next = find_word(argument);
                let (text, after) = next.map_or((argument, ""), |f| (f.before, f.from_word));
                self.text(word, text.trim().to_owned());
                Some(after)
            }
            Word::Token(word) => {
                let end = argument.find(char::is_whitespace);
                let (token, after) = argument.split_at_checked(end.unwrap_or(argument.len()))?;
                self.token(word, token)?;
                Some(after)
            }
        }
    }

    fn bare(&mut self, word: Bare) {
        match word {
            Bare::Incomplete => self.step.ending = Ending::Incomplete,
            Bare::Remember => self.act(Act::Remember),
        }
    }

    fn rest(&mut self, word: Rest, argument: &str) -> Option<()> {
        match word {
            Rest::Echo => self.act(Act::Echo(argument.to_owned())),
            Rest::Shell => self.call(arguments::shell(argument, false)),
            Rest::Escal => self.call(arguments::shell(argument, true)),
            Rest::Patch => self.call(arguments::patch(argument)),
            Rest::Tool => self.call(arguments::function(None, argument)?),
            Rest::NsTool => self.call(arguments::namespaced(argument)?),
        }
        Some(())
    }

    fn text(&mut self, word: Text, text: String) {
        self.step.cues.push(match word {
            Text::Reason => Cue::Reason(text),
            Text::Say => Cue::Say {
                text,
                phase: self.phase.take().unwrap_or(Phase::Commentary),
            },
        });
    }

    fn token(&mut self, word: Token, token: &str) -> Option<()> {
        let step = &mut self.step;
        match word {
            Token::Append => {
                let call = arguments::append(token)?;
                self.call(call);
            }
            Token::Relay if token.is_empty() => return None,
            Token::Relay => self.call(Call::Relay {
                agent: token.to_owned(),
            }),
            Token::Big => {
                let size = arguments::within(or(token, "1000"), BIGGEST)?;
                self.act(Act::Big(size));
            }
            Token::Stream => self.act(arguments::stream(token)?),
            Token::Sleep => step
                .cues
                .push(Cue::Sleep(arguments::seconds(or(token, "1"))?)),
            Token::Hold if token.is_empty() => return None,
            Token::Hold => step.cues.push(Cue::Hold(token.to_owned())),
            Token::Hang => step.cues.push(Cue::Hang(or(token, HANG).to_owned())),
            Token::Fail => step.refusal = Some(arguments::fail(token)?),
            Token::UsageLimit => step.refusal = Some(arguments::usage_limit(token)?),
            Token::SseFail => {
                let code = or(token, "server_error").to_owned();
                step.ending = Ending::Failed { code };
            }
            Token::Break => step.ending = arguments::breaking(token)?,
            Token::Pause if token.is_empty() => return None,
            Token::Pause => step.pause = Some(token.to_owned()),
            Token::Phase => self.phase = Some(Phase::read(token)?),
            Token::Usage => step.usage = arguments::usage(token)?,
        }
        Some(())
    }

    /// The first act stands, but a tool call outranks an answer.
    fn act(&mut self, act: Act) {
        if self.step.act == Act::Quote {
            self.step.act = act;
        }
    }

    fn call(&mut self, call: Call) {
        self.step.act = Act::Call(call);
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
