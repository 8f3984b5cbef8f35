//! Messages as our wire types read them, without what differs from run to run: ids become numbers in the order
//! of their appearance, times and places become words. Equal texts mean that the bridge can't tell the two apart.

use bridge_codex::rpc::{self, Incoming};
use bridge_codex::version;
use bridge_codex::wire::Notification;
use bridge_codex::wire::method::{self, Method, MethodVisitor};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Words of the machine and of the scripted model's name, not of the protocol.
const NOT_COMPARED: [&str; 2] = ["warning", "configWarning"];

/// What one life said.
pub(crate) struct Plain {
    place: PathBuf,
    ids: Vec<String>,
    notices: Vec<String>,
    answers: Vec<String>,
}

impl Plain {
    pub(crate) fn new(place: &Path) -> Self {
        Self {
            place: place.to_owned(),
            ids: Vec::new(),
            notices: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// What was told, then what was answered: under load the real one does not keep the order between the two.
    pub(crate) fn said(self) -> Vec<String> {
        [self.notices, self.answers].concat()
    }

    /// Takes in one message; `asked` is the method whose answer is waited for.
    pub(crate) fn take(&mut self, asked: &str, line: &str) {
        match rpc::parse(line) {
            Incoming::Notification { method, .. } if NOT_COMPARED.contains(&method.as_str()) => {}
            Incoming::Notification { method, params } => {
                match Notification::parse(&method, &params) {
                    Notification::Unknown { .. } => {}
                    Notification::Malformed { why, .. } => panic!("{why}: {line}"),
                    known => {
                        let plain = self.plain(&format!("{known:?}"));
                        self.notices.push(plain);
                    }
                }
            }
            Incoming::Response { result, .. } => {
                let read = match result {
                    Ok(result) => format!("answer to {asked}: {}", answer(asked, &result)),
                    Err(error) => format!("refusal of {asked}: {error:?}"),
                };
                let plain = self.plain(&read);
                self.answers.push(plain);
            }
            other @ (Incoming::Request { .. } | Incoming::Malformed { .. }) => panic!("{other:?}"),
        }
    }

    fn plain(&mut self, text: &str) -> String {
        let text = text.replace(&*self.place.to_string_lossy(), "PLACE");
        let mut plain = String::new();
        let word = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        let mut rest = text.as_str();
        while let Some(start) = rest.find(word) {
            let (before, from) = rest.split_at(start);
            let end = from.find(|c| !word(c)).unwrap_or(from.len());
            let (token, after) = from.split_at(end);
            plain.push_str(before);
            plain.push_str(&self.token(token));
            rest = after;
        }
        plain.push_str(rest);
        plain
    }

    fn token(&mut self, token: &str) -> String {
        let is_uuid = token.len() == 36 && token.matches('-').count() == 4;
        if is_uuid || token.starts_with("msg_") {
            let at = self.ids.iter().position(|id| id == token);
            let at = at.unwrap_or_else(|| {
                self.ids.push(token.to_owned());
                self.ids.len() - 1
            });
            return format!("ID{at}");
        }
        let is_time = token.len() >= 10 && token.bytes().all(|b| b.is_ascii_digit());
        if is_time {
            "TIME".to_owned()
        } else {
            token.to_owned()
        }
    }
}

/// A result as the type of its method reads it.
fn answer(asked: &str, result: &Value) -> String {
    struct Reader<'a> {
        asked: &'a str,
        result: &'a Value,
        read: Option<String>,
    }
    impl MethodVisitor for Reader<'_> {
        fn method<M: Method>(&mut self) {
            if M::NAME == self.asked {
                let read = serde_json::from_value::<M::Response>(self.result.clone());
                let read = read.unwrap_or_else(|error| panic!("{error}: {}", self.result));
                self.read = Some(format!("{read:?}"));
            }
        }
    }
    if asked == "initialize" {
        let agent = result["userAgent"].as_str().unwrap();
        return format!("{:?}", version::from_user_agent(agent).unwrap());
    }
    let mut result = result.clone();
    // A cursor is its maker's own affair.
    if let Some(cursor @ Value::String(_)) = result.get_mut("nextCursor") {
        *cursor = Value::from("CURSOR");
    }
    let mut reader = Reader {
        asked,
        result: &result,
        read: None,
    };
    method::each_method(&mut reader);
    reader
        .read
        .unwrap_or_else(|| panic!("no type reads {asked}"))
}
