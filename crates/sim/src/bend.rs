//! A Codex that does not exist yet: the real one behind a proxy that bends what is said between it and the bridge.
//!
//! Here are the rules, and what they make of a message; the program `bent-codex` moves the messages. It is planted as a
//! directory of its own, with its rules in a file beside it, because Codex is started without our environment.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// The rules, beside the program.
const RULES_FILE: &str = "bend.json";
/// What the program is called there.
const PROGRAM: &str = "codex";

/// A bent Codex.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BentCodex {
    /// The native binary of the real one.
    pub codex: PathBuf,
    /// The version that it claims instead of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default)]
    pub rules: Vec<BendRule>,
}

/// Who wrote a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Bridge,
    #[default]
    Codex,
}

/// Which messages are bent, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BendRule {
    #[serde(default)]
    pub from: Side,
    /// The methods whose messages are bent; a response belongs to the method that it answers. All when empty.
    #[serde(default, rename = "in")]
    pub methods: Vec<String>,
    #[serde(flatten)]
    pub bend: Bend,
}

/// One change of the protocol.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "camelCase")]
pub enum Bend {
    /// The method is called otherwise.
    Method { to: String },
    /// A member is called otherwise, at any depth.
    Member { name: String, to: String },
    /// A member has another value where it had this one, at any depth; only beside a certain other member, if one is
    /// named.
    Value {
        name: String,
        is: Value,
        to: Value,
        beside: Option<String>,
    },
    /// Two values of a member stand for each other, at any depth. From both sides it is a flip of their meaning.
    Swap { name: String, values: [Value; 2] },
    /// The message does not arrive.
    Drop,
    /// A request of the bridge is refused as Codex refuses a method that it does not have.
    Refuse,
    /// Another message follows it.
    Add { message: Value },
}

/// The bending of one connection.
#[derive(Debug)]
pub struct Bender {
    codex: BentCodex,
    /// Methods of requests without a response yet, by who asked and the id.
    pending: HashMap<(Side, String), String>,
}

impl BentCodex {
    pub fn new(codex: PathBuf, rules: Vec<BendRule>) -> Self {
        Self {
            codex,
            version: None,
            rules,
        }
    }

    /// The one whose program this is.
    pub fn beside(program: &Path) -> io::Result<Self> {
        let text = std::fs::read_to_string(program.with_file_name(RULES_FILE))?;
        serde_json::from_str(&text).map_err(io::Error::other)
    }

    /// Puts it into a directory, which is made; gives the path of its program. `program` is the built `bent-codex`. One
    /// that was planted there before is replaced as npm replaces it: those that run go on from a deleted file.
    pub fn plant(&self, program: &Path, directory: &Path) -> io::Result<PathBuf> {
        std::fs::create_dir_all(directory)?;
        let planted = directory.join(PROGRAM);
        let fresh = directory.join("codex.new");
        std::fs::copy(program, &fresh)?;
        std::fs::write(directory.join(RULES_FILE), serde_json::to_vec(self)?)?;
        std::fs::rename(&fresh, &planted)?;
        Ok(planted)
    }
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Bridge => Self::Codex,
            Self::Codex => Self::Bridge,
        }
    }
}

impl Bender {
    pub fn new(codex: BentCodex) -> Self {
        Self {
            codex,
            pending: HashMap::new(),
        }
    }

    /// What becomes of a text: texts, each with whom it is for. What is no message passes as it is.
    pub fn pass(&mut self, from: Side, text: String) -> Vec<(Side, String)> {
        let Ok(mut message) = serde_json::from_str::<Value>(&text) else {
            return vec![(from.other(), text)];
        };
        let method = self.method_of(from, &message);
        if from == Side::Codex && method == "initialize" {
            self.claim_version(&mut message);
        }
        let rules = self.codex.rules.clone();
        let mut after = Vec::new();
        for rule in rules.iter().filter(|rule| rule.concerns(from, &method)) {
            match &rule.bend {
                Bend::Method { to } => {
                    if message.get("method").is_some() {
                        message["method"] = json!(to);
                    }
                }
                Bend::Member { name, to } => rename(&mut message, name, to),
                Bend::Value {
                    name,
                    is,
                    to,
                    beside,
                } => replace(&mut message, name, is, to, beside.as_deref()),
                Bend::Swap { name, values } => swap(&mut message, name, values),
                Bend::Drop => return Vec::new(),
                Bend::Refuse => {
                    return vec![(from, refusal(&message, &method))];
                }
                Bend::Add { message } => after.push((from.other(), message.to_string())),
            }
        }
        let mut passed = vec![(from.other(), message.to_string())];
        passed.append(&mut after);
        passed
    }

    /// Before it is bent: the method of a request or notification, or the one that a response answers.
    fn method_of(&mut self, from: Side, message: &Value) -> String {
        let id = message.get("id").map(Value::to_string);
        let method = message.get("method").and_then(Value::as_str);
        match (method, id) {
            (Some(method), Some(id)) => {
                self.pending.insert((from, id), method.to_owned());
                method.to_owned()
            }
            (Some(method), None) => method.to_owned(),
            (None, Some(id)) => {
                let asked = self.pending.remove(&(from.other(), id));
                asked.unwrap_or_default()
            }
            (None, None) => String::new(),
        }
    }

    /// `name/0.166.0 (Debian …)` becomes `name/VERSION (Debian …)`.
    fn claim_version(&self, message: &mut Value) {
        let agent = message.pointer_mut("/result/userAgent");
        let (Some(agent), Some(version)) = (agent, &self.codex.version) else {
            return;
        };
        let claimed = agent.as_str().and_then(|said| {
            let (name, rest) = said.split_once('/')?;
            let behind = rest.split_once(' ').map_or("", |(_, behind)| behind);
            Some(format!("{name}/{version} {behind}"))
        });
        if let Some(claimed) = claimed {
            *agent = json!(claimed);
        }
    }
}

impl BendRule {
    fn concerns(&self, from: Side, method: &str) -> bool {
        let named = self.methods.iter().any(|named| named == method);
        self.from == from && (self.methods.is_empty() || named)
    }
}

fn rename(value: &mut Value, name: &str, to: &str) {
    if let Value::Object(members) = value
        && let Some(member) = members.remove(name)
    {
        members.insert(to.to_owned(), member);
    }
    each_child(value, &mut |child| rename(child, name, to));
}

fn replace(value: &mut Value, name: &str, is: &Value, to: &Value, beside: Option<&str>) {
    if let Value::Object(members) = value
        && beside.is_none_or(|beside| members.contains_key(beside))
        && let Some(member) = members.get_mut(name)
        && member == is
    {
        member.clone_from(to);
    }
    each_child(value, &mut |child| replace(child, name, is, to, beside));
}

fn swap(value: &mut Value, name: &str, values: &[Value; 2]) {
    if let Some(member) = value.get_mut(name) {
        let other = match values.iter().position(|known| known == member) {
            Some(0) => Some(&values[1]),
            Some(_) => Some(&values[0]),
            None => None,
        };
        if let Some(other) = other {
            member.clone_from(other);
        }
    }
    each_child(value, &mut |child| swap(child, name, values));
}

fn each_child(value: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    match value {
        Value::Object(members) => members.values_mut().for_each(visit),
        Value::Array(items) => items.iter_mut().for_each(visit),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Measured on 0.166: the code is that of every refusal, and the words name the method.
fn refusal(request: &Value, method: &str) -> String {
    let words =
        format!("Invalid request: unknown variant `{method}`, expected one of `initialize`");
    json!({"id": request["id"], "error": {"code": -32600, "message": words}}).to_string()
}

#[cfg(test)]
mod tests;
