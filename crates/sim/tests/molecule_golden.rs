//! The recordings of the real platform as the simulator's judge: every recorded call is made again, in order, and must
//! get the same status and the same body: keys, values, the number of elements of an array (their order is judged
//! elsewhere). Not compared: ids, times, secrets, a peer's made-up `url`, prose, and texts beyond a dash or 100 letters; nor
//! `seq` of delegations, which the real platform hands over a moment later. Ids and tokens of the recording become ours
//! as answers show them; it cut the tokens of requests, so `X-Workspace-ID` or `Replay::bearer_of` tells whose they were.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::collections::BTreeMap;

use bridge_sim::molecule::{Edition, MoleculeOptions, MoleculePlatform};
use reqwest::{Client, Method};
use serde::Deserialize;
use serde_json::{Value, json};

const CALLS: usize = 142;
/// Letters of a text that are compared; the recording cut longer ones.
const WORDING_CHARS: usize = 100;
const ADMIN: &str = "lab-admin";
const FORM: &str = "--BND\r\nContent-Disposition: form-data; name=\"files\"; filename=\"hello.txt\"\r\n\
                    Content-Type: text/plain\r\n\r\nhello file\r\n--BND--\r\n";

/// Calls whose answers may differ from the recording, each with the reason.
const EXCUSED: [(&str, &str); 1] = [(
    "mcp tools/list",
    "only the tools that the box knows are listed, so their number differs",
)];

#[derive(Deserialize)]
struct Recorded {
    label: String,
    method: String,
    path: String,
    req_headers: BTreeMap<String, String>,
    req_body: Value,
    status: u16,
    resp_body: Value,
}

struct Replay {
    platform: MoleculePlatform,
    client: Client,
    /// Of the recording, to those of the simulator.
    ids: BTreeMap<String, String>,
    /// The newest token that each recorded workspace got from its owner, and the one before.
    tokens: BTreeMap<String, Vec<String>>,
    /// The page that the recording cut, and whose oldest row it goes on from.
    whole_page: Vec<Value>,
}

impl Replay {
    async fn start(edition: Edition) -> Self {
        let options = MoleculeOptions {
            edition,
            admin_token: ADMIN.to_owned(),
            ..MoleculeOptions::default()
        };
        Self {
            platform: MoleculePlatform::start(options).await.unwrap(),
            client: Client::builder().no_proxy().build().unwrap(),
            ids: BTreeMap::new(),
            tokens: BTreeMap::new(),
            whole_page: Vec::new(),
        }
    }

    fn mapped(&self, text: &str) -> String {
        let here = text.replace("http://127.0.0.1:PORT", &self.platform.url());
        let ids = self.ids.iter();
        ids.fold(here, |text, (there, here)| text.replace(there, here))
    }

    /// The token that a recorded call was made with.
    fn bearer_of(&self, call: &Recorded) -> String {
        let id_of = |name: &str| self.named(name);
        let of = |id: &str, back: usize| {
            let tokens = self.tokens.get(id).cloned().unwrap_or_default();
            tokens.iter().rev().nth(back).cloned().unwrap_or_default()
        };
        match call.label.as_str() {
            "activity other ws token" | "peer bearer only no X-Workspace-ID" => {
                of(&id_of("beta"), 0)
            }
            "activity lower-case bearer" | "peer mismatch token/id" | "discover no x-ws" => {
                of(&id_of("alpha"), 0)
            }
            "activity with old token after rotate" => of(&id_of("alpha"), 1),
            _ => of(
                call.req_headers.get("X-Workspace-ID").expect(&call.label),
                0,
            ),
        }
    }

    /// The recorded id of a workspace.
    fn named(&self, name: &str) -> String {
        let id = self
            .tokens
            .keys()
            .find(|id| self.ids.get(&format!("name:{name}")) == Some(*id));
        id.expect(name).clone()
    }

    async fn call(&mut self, call: &Recorded) -> (u16, Value) {
        if call.label == "activity since_id asc limit 2" {
            let (_, there) = call.path.split_once("since_id=").unwrap();
            let there = there.split('&').next().unwrap().to_owned();
            let oldest = self.whole_page.last().unwrap();
            self.ids
                .insert(there, oldest["id"].as_str().unwrap().to_owned());
        }
        let method = Method::from_bytes(call.method.as_bytes()).unwrap();
        let url = format!("{}{}", self.platform.url(), self.mapped(&call.path));
        let mut request = self.client.request(method, url);
        for (name, value) in &call.req_headers {
            let value = match value.split_once(' ') {
                Some((scheme, "lab-a…")) => format!("{scheme} {ADMIN}"),
                Some((scheme, "TOKEN…")) => format!("{scheme} {}", self.bearer_of(call)),
                _ => self.mapped(value).replace('…', ""),
            };
            request = request.header(name, value);
        }
        if let Some(body) = self.body_of(&call.req_body) {
            request = request.body(body);
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (
            status,
            serde_json::from_str(&text).unwrap_or(Value::String(text)),
        )
    }

    fn body_of(&self, recorded: &Value) -> Option<String> {
        match recorded {
            Value::Null => None,
            Value::String(raw) => Some(match raw.as_str() {
                "<raw 5 bytes>" => "{nope".to_owned(),
                "<raw 9 bytes>" => "--BND--\r\n".to_owned(),
                "<raw 124 bytes>" => FORM.to_owned(),
                other => panic!("a body that this test can't make: {other}"),
            }),
            body => Some(self.mapped(&uncut(body.clone()).to_string())),
        }
    }

    /// Learns which id of the simulator stands for which of the recording.
    fn learn(&mut self, there: &Value, here: &Value) {
        match (there, here) {
            (Value::Object(there), Value::Object(here)) => {
                for (key, there) in there {
                    self.learn(there, here.get(key).unwrap_or(&Value::Null));
                }
            }
            (Value::Array(there), Value::Array(here)) => {
                for (there, here) in there.iter().zip(here) {
                    self.learn(there, here);
                }
            }
            (Value::String(there), Value::String(here)) => {
                let last = |text: &str| text.rsplit('/').next().unwrap_or_default().to_owned();
                let (there, here) = (last(there), last(here));
                if is_id(&there) && is_id(&here) {
                    self.ids.entry(there).or_insert(here);
                }
            }
            _ => {}
        }
    }

    fn learn_tokens(&mut self, call: &Recorded, here: &Value) {
        let Some(token) = here
            .pointer("/connection/auth_token")
            .and_then(Value::as_str)
        else {
            return;
        };
        let there = call.resp_body.pointer("/connection/workspace_id");
        let there = there.and_then(Value::as_str).unwrap().to_owned();
        if let Some(name) = call.req_body.get("name").and_then(Value::as_str) {
            self.ids.insert(format!("name:{name}"), there.clone());
        }
        if !token.is_empty() {
            self.tokens.entry(there).or_default().push(token.to_owned());
        }
    }
}

/// Texts that the recording cut, whole again.
fn uncut(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (key, uncut(value)))
            .collect(),
        Value::String(text) => match text.split_once("…<") {
            Some((start, count)) => {
                let count = count.trim_end_matches(" chars>").parse().unwrap();
                let letter = start.get(..1).unwrap();
                Value::String(letter.repeat(count))
            }
            None => Value::String(text),
        },
        other => other,
    }
}

/// How a recorded array was cut: the number of all rows.
fn rows_cut(rows: &[Value]) -> Option<usize> {
    let last = rows.last()?.as_str()?;
    last.strip_prefix("…<")?
        .strip_suffix(" rows>")?
        .parse()
        .ok()
}

/// What of a value must be the same.
fn shape(key: &str, value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let is_delegation = fields.get("activity_type") == Some(&json!("delegation"));
            let mut keys: Vec<String> = fields
                .iter()
                .filter(|(key, _)| !(is_delegation && *key == "seq"))
                .map(|(key, value)| format!("{key}:{}", shape(key, value)))
                .collect();
            keys.sort();
            format!("{{{}}}", keys.join(","))
        }
        Value::Array(rows) => {
            let shown: Vec<&Value> = rows.iter().filter(|row| !is_cut_mark(row)).collect();
            let count = rows_cut(rows).unwrap_or(rows.len());
            let mut shapes: Vec<String> = shown.iter().take(6).map(|row| shape("", row)).collect();
            shapes.sort();
            format!("{count}[{}]", shapes.join(","))
        }
        Value::String(text) => wording(key, text),
        Value::Number(_) | Value::Bool(_) | Value::Null => value.to_string(),
    }
}

/// What of a text must be the same: all of it up to a dash or a cut, but for what no two runs share.
fn wording(key: &str, text: &str) -> String {
    let ours = [
        "platform_inbound_secret",
        "auth_token",
        "prefix",
        "timestamp",
        "url",
    ];
    let prose = ["hint", "reason", "message", "description"];
    let is_time = key.ends_with("_at") || ours.contains(&key);
    if is_id(text) || is_time || prose.contains(&key) {
        return "text".to_owned();
    }
    let text = text.split(" — ").next().unwrap_or_default();
    text.chars().take(WORDING_CHARS).collect()
}

fn is_id(text: &str) -> bool {
    text.len() == 36 && text.matches('-').count() == 4
}

fn is_cut_mark(row: &Value) -> bool {
    row.as_str().is_some_and(|text| text.starts_with("…<"))
}

async fn replay(name: &str, recording: &str, edition: Edition) {
    let calls: Vec<Recorded> = recording
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(calls.len(), CALLS);
    let mut replay = Replay::start(edition).await;
    let mut differ = Vec::new();
    for call in &calls {
        let (status, body) = replay.call(call).await;
        replay.learn(&call.resp_body, &body);
        replay.learn_tokens(call, &body);
        if call.label == "activity desc default" {
            replay.whole_page = body.as_array().unwrap().clone();
        }
        let wanted = serde_json::from_str(&replay.mapped(&call.resp_body.to_string())).unwrap();
        let (wanted, got) = (shape("", &wanted), shape("", &body));
        if (status, &got) != (call.status, &wanted) {
            differ.push((
                call.label.as_str(),
                format!("{} {wanted}\n  not {status} {got}", call.status),
            ));
        }
    }
    let matched = CALLS - differ.len();
    println!("{name}: {matched} of {CALLS}");
    let mut wrong = Vec::new();
    for (label, how) in differ {
        match EXCUSED.iter().find(|(excused, _)| *excused == label) {
            Some((_, why)) => println!("{name}: {label}: {why}"),
            None => wrong.push(format!("{label}: {how}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn recorded_form_has_original_length() {
    assert_eq!(FORM.len(), 124);
}

#[tokio::test]
async fn may_2026_recording_replays_identically() {
    let recording = include_str!("golden/molecule/platform-2026-05.jsonl");
    replay("2026-05", recording, Edition::Seed).await;
}

#[tokio::test]
async fn june_2026_recording_replays_identically() {
    let recording = include_str!("golden/molecule/platform-2026-06.jsonl");
    replay("2026-06", recording, Edition::New).await;
}
