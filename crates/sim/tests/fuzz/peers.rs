//! What others say to us as targets: the Molecule platform, other agents, and Codex itself.

use crate::engine::Target;
use bridge_channel::a2a::client::fuzz as agent;
use bridge_channel::molecule::fuzz as molecule;
use bridge_codex::exec::ExecFold;
use bridge_codex::frame::LineReader;
use bridge_codex::link::{Link, LinkEvent, LinkOptions};
use bridge_codex::oracle::{Wanted, history};
use bridge_codex::turn::TurnFold;
use bridge_codex::wire::{Notification, ServerRequest, Turn};
use bridge_core::value::{ClientId, ThreadId, TurnId};
use serde_json::Value;
use std::fmt::Write as _;

/// Where a stream is cut in two: somewhere that the input decides.
fn cut(input: &[u8]) -> (&[u8], &[u8]) {
    let sum: usize = input.iter().map(|byte| usize::from(*byte)).sum();
    input.split_at(sum.checked_rem(input.len()).unwrap_or(0))
}

/// Pages, heads of pages and events of a Molecule platform.
pub(crate) struct Molecule;

impl Target for Molecule {
    const NAME: &'static str = "molecule";
    const DICTIONARY: &'static [&'static str] = crate::words::MOLECULE;

    fn read(&mut self, input: &[u8]) -> Result<String, String> {
        let (first, second) = cut(input);
        let news = molecule::events(first, second);
        if news != molecule::events(input, b"") {
            return Err("a stream says something else when it is cut".to_owned());
        }
        let head = molecule::head_of_page(input);
        let page = match molecule::page(input) {
            Ok(page) => page,
            Err(why) => return Ok(format!("{news} {head} {why}")),
        };
        let mut words = format!("{news} {head} ");
        for row in &page {
            let _fits = write!(words, "{} ", row.words);
        }
        check_texts(input, &page)?;
        Ok(words)
    }
}

/// The text of a message begins with the text of its parts, read in another way.
fn check_texts(input: &[u8], page: &[molecule::RowRead]) -> Result<(), String> {
    let Ok(Value::Array(rows)) = serde_json::from_slice::<Value>(input) else {
        return Ok(());
    };
    for (row, read) in rows.iter().zip(page) {
        let Some(text) = &read.text else {
            continue;
        };
        let body = &row["request_body"];
        let said = [
            &body["params"]["message"]["parts"],
            &body["params"]["parts"],
            &body["parts"],
        ];
        let said = said.map(|parts| {
            let parts = parts.as_array().cloned().unwrap_or_default();
            let is_text = |part: &&Value| match part.get("kind").or(part.get("type")) {
                Some(Value::Null) | None => part.get("text").is_some(),
                Some(kind) => kind == "text",
            };
            let texts = parts.iter().filter(is_text);
            let texts: Vec<&str> = texts.filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        });
        if !said.iter().any(|said| is_all_of(text, said)) {
            return Err(format!("read {text:?}, and said was {said:?}"));
        }
    }
    Ok(())
}

/// Whether a text for Codex is what was said, with data or a line of the bridge behind it.
fn is_all_of(text: &str, said: &str) -> bool {
    const UNREAD: &str = "[codex-bridge] Parts of this message";
    let Some(rest) = text.strip_prefix(said) else {
        return said.trim().is_empty() && text.starts_with(UNREAD);
    };
    let rest = rest.trim_start_matches('\n');
    rest.is_empty() || rest.starts_with("```") || rest.starts_with(UNREAD)
}

/// Cards, answers and streams of other agents.
pub(crate) struct Agent;

impl Target for Agent {
    const NAME: &'static str = "agent";
    const DICTIONARY: &'static [&'static str] = crate::words::A2A;

    fn read(&mut self, input: &[u8]) -> Result<String, String> {
        let card = agent::agent_card(input);
        let (first, second) = cut(input);
        let (whole, pieces) = (agent::events(input, b""), agent::events(first, second));
        match (&whole, &pieces) {
            (Ok(whole), Ok(pieces)) if whole != pieces => {
                return Err("a stream says something else when it is cut".to_owned());
            }
            _ => {}
        }
        let mut answers = Vec::new();
        if let Ok(data) = &whole {
            answers.extend(agent::answers(data)?);
        }
        if let Ok(text) = std::str::from_utf8(input) {
            answers.extend(agent::answers(&[text.to_owned()])?);
        }
        let mut words = format!(
            "{} {}",
            card.is_ok(),
            before_quotes(&card.unwrap_or_else(|e| e))
        );
        for answer in answers {
            match answer {
                Ok(outcome) => {
                    let files = outcome.files.len().min(1);
                    let text = !outcome.text.is_empty();
                    let _fits = write!(words, "{:?} f{text} n{} ", outcome.state, files == 1);
                }
                Err(fault) => {
                    let _fits = write!(words, "{} ", before_quotes(&fault.to_string()));
                }
            }
        }
        Ok(words)
    }
}

/// What an error says before it quotes somebody.
fn before_quotes(text: &str) -> String {
    let own = text.split(['`', '"', '\'', '(']).next().unwrap_or_default();
    own.chars().take(80).collect()
}

/// Lines of the app-server and of `codex exec`.
pub(crate) struct Codex {
    link: Link,
    left: u32,
}

impl Codex {
    pub(crate) fn new() -> Self {
        Self {
            link: Link::new(LinkOptions::default()),
            left: 0,
        }
    }
}

impl Target for Codex {
    const NAME: &'static str = "codex";
    const DICTIONARY: &'static [&'static str] = crate::words::CODEX;

    fn read(&mut self, input: &[u8]) -> Result<String, String> {
        if self.left == 0 {
            *self = Self {
                left: 1_000,
                ..Self::new()
            };
        }
        self.left -= 1;
        let lines = |pieces: [&[u8]; 2]| {
            let mut reader = LineReader::default();
            let lines: Vec<_> = pieces.iter().flat_map(|piece| reader.feed(piece)).collect();
            (lines, reader.finish())
        };
        let (first, second) = cut(input);
        let (whole, end) = lines([input, b""]);
        if (&whole, &end) != (&lines([first, second]).0, &lines([first, second]).1) {
            return Err("the lines are others when they come in pieces".to_owned());
        }
        let mut fold = TurnFold::new(ThreadId::new("t"), None, None);
        let mut run = ExecFold::default();
        let mut words = format!("{end:?} ");
        let last = String::from_utf8_lossy(input).into_owned();
        for text in whole.into_iter().flatten().chain([last]) {
            let news = format!("{:?}", run.line(&text));
            let _fits = write!(words, "{} ", before_quotes(&news));
            words.push_str(&self.digest(&mut fold, &text)?);
        }
        Ok(words)
    }
}

impl Codex {
    fn digest(&mut self, fold: &mut TurnFold, text: &str) -> Result<String, String> {
        Ok(match self.link.handle(text, 0) {
            LinkEvent::Request(request) => check_request(&self.link, &request)?,
            LinkEvent::Notification(notification) => {
                if let Some(thread) = thread_of(text) {
                    *fold = TurnFold::new(ThreadId::new(thread.as_str()), None, None);
                }
                fold.concerns(&notification);
                let news = format!("{:?}", fold.apply(&notification));
                let kind = format!("{notification:?}");
                check_items(&notification)?;
                format!("{} {} ", before_quotes(&kind), before_quotes(&news))
            }
            LinkEvent::Response { result, .. } => {
                if let Ok(value) = &result {
                    read_history(value);
                }
                format!("response {} ", result.is_ok())
            }
            LinkEvent::Ignored(why) => {
                if let Ok(value) = serde_json::from_str::<Value>(text) {
                    read_history(&value["result"]);
                }
                format!("{} ", before_quotes(&format!("{why:?}")))
            }
        })
    }
}

/// The thread that a turn begins on.
fn thread_of(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    let begins = value["method"] == "turn/started";
    let thread = value["params"]["threadId"].as_str()?;
    begins.then(|| thread.to_owned())
}

fn check_request(link: &Link, request: &ServerRequest) -> Result<String, String> {
    for outcome in [request.decline(), request.cancel()] {
        let text = link.respond(&request.id, outcome);
        let answer: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        if text.contains('\n') || answer["id"] != Value::from(request.id.clone()) {
            return Err(format!("no answer to what was asked: {text}"));
        }
    }
    let _both = (request.accept(), request.accept_for_session());
    if request.headline().len() <= 160 {
        Ok(format!(
            "request {} ",
            before_quotes(&format!("{request:?}"))
        ))
    } else {
        Err("the headline is too long".to_owned())
    }
}

fn check_items(notification: &Notification) -> Result<(), String> {
    match notification {
        Notification::ItemStarted(notice) | Notification::ItemCompleted(notice)
            if notice.item.headline().len() > 160 =>
        {
            Err("the headline is too long".to_owned())
        }
        _ => Ok(()),
    }
}

fn read_history(value: &Value) {
    for turns in [
        &value["thread"]["turns"],
        &value["data"],
        &value["initialTurnsPage"]["data"],
    ] {
        if let Ok(turns) = serde_json::from_value::<Vec<Turn>>(turns.clone()) {
            for turn in turns.iter().take(20) {
                look(&turns, "m5.1", Some(&turn.id));
            }
            look(&turns, "e4.1", None);
        }
    }
}

fn look(turns: &[Turn], client_id: &str, after: Option<&TurnId>) {
    let (client_id, turn_id) = (ClientId::new(client_id), turns.last().map(|turn| &turn.id));
    for turn_id in [None, turn_id] {
        let wanted = Wanted {
            client_id: &client_id,
            turn_id,
            after,
        };
        drop(history(turns, wanted));
    }
}
