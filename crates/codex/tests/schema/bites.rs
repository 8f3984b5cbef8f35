//! The check must be able to fail.
//!
//! Each case doctors the real schema in one place and expects a complaint about it.

use serde_json::{Value, json};

use crate::install;
use bridge_codex::schema::{Schema, compare};
use std::collections::BTreeMap;

/// Applies `doctor` to the definition or file `name` wherever it is stored.
fn doctored(files: &BTreeMap<String, Value>, name: &str, doctor: impl Fn(&mut Value)) -> Schema {
    let mut files = files.clone();
    let mut places = 0;
    for (file, root) in &mut files {
        if file == name {
            doctor(root);
            places += 1;
        }
        if let Some(definition) = root
            .get_mut("definitions")
            .and_then(|all| all.get_mut(name))
        {
            doctor(definition);
            places += 1;
        }
    }
    assert!(places > 0, "nothing is called {name}");
    Schema::new(files).unwrap()
}

fn rename(members: &mut Value, from: &str, to: &str) {
    let members = members.as_object_mut().unwrap();
    let value = members.remove(from).unwrap();
    members.insert(to.to_owned(), value);
}

fn drop_word(definition: &mut Value, word: &str) {
    let lists = match definition.get_mut("oneOf") {
        Some(variants) => variants.as_array_mut().unwrap().iter_mut().collect(),
        None => vec![definition],
    };
    for list in lists {
        if let Some(words) = list.get_mut("enum").and_then(Value::as_array_mut) {
            words.retain(|one| one != word);
        }
    }
}

fn rename_method(file: &mut Value, from: &str, to: &str) {
    for variant in file["oneOf"].as_array_mut().unwrap() {
        let name = &mut variant["properties"]["method"]["enum"][0];
        if name == from {
            *name = json!(to);
        }
    }
}

struct Case {
    name: &'static str,
    doctor: fn(&mut Value),
    expected: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "TurnStartParams",
        doctor: |node| {
            rename(
                &mut node["properties"],
                "clientUserMessageId",
                "clientMessageId",
            )
        },
        expected: "turn/start.clientUserMessageId: we write it, codex does not know it",
    },
    Case {
        name: "TurnSteerParams",
        doctor: |node| node["required"].as_array_mut().unwrap().push(json!("mood")),
        expected: "turn/steer.mood: codex requires it, we do not write it",
    },
    Case {
        name: "ThreadResumeParams",
        doctor: |node| node["properties"]["excludeTurns"]["type"] = json!("string"),
        expected: "thread/resume.excludeTurns: we write boolean (true), codex takes something else",
    },
    Case {
        name: "AskForApproval",
        doctor: |node| drop_word(node, "on-request"),
        expected: "AskForApproval: codex no longer has the word \"on-request\"",
    },
    Case {
        name: "SandboxMode",
        doctor: |node| drop_word(node, "read-only"),
        expected: "thread/start.sandbox: we write \"read-only\", codex knows [\"workspace-write\",\"danger-full-access\"]",
    },
    Case {
        name: "TurnStatus",
        doctor: |node| node["enum"].as_array_mut().unwrap().push(json!("paused")),
        expected: "TurnStatus: codex has the new word \"paused\"",
    },
    Case {
        name: "ClientRequest",
        doctor: |node| rename_method(node, "turn/interrupt", "turn/stop"),
        expected: "turn/interrupt: codex has no such request",
    },
    Case {
        name: "ThreadResumeResponse",
        doctor: |node| {
            rename(
                &mut node["properties"],
                "activePermissionProfile",
                "profile",
            )
        },
        expected: "ThreadResumeResponse.activePermissionProfile: we read it, codex does not send it",
    },
    Case {
        name: "Turn",
        doctor: |node| node["properties"]["id"]["type"] = json!("integer"),
        expected: "turn/completed.turn.id: we read string, codex sends something else",
    },
    Case {
        name: "TurnError",
        doctor: |node| node["properties"]["message"]["type"] = json!(["string", "null"]),
        expected: "we fail: invalid type: null, expected a string",
    },
    Case {
        name: "ServerNotification",
        doctor: |node| rename_method(node, "item/agentMessage/delta", "agent_message_delta"),
        expected: "item/agentMessage/delta: codex has no such message",
    },
    Case {
        name: "ThreadItem",
        doctor: |node| node["oneOf"][6]["properties"]["type"]["enum"][0] = json!("shellRun"),
        expected: "shellRun: an item we do not know; does it touch the world?",
    },
    Case {
        name: "ThreadItem",
        doctor: |node| rename(&mut node["oneOf"][0]["properties"], "clientId", "client"),
        expected: "userMessage.clientId: we read it, codex does not send it",
    },
    Case {
        name: "ServerRequest",
        doctor: |node| rename_method(node, "item/tool/call", "item/tool/run"),
        expected: "item/tool/run: codex asks it, we do not know it",
    },
    Case {
        name: "FileChangeApprovalDecision",
        doctor: |node| drop_word(node, "decline"),
        expected: "item/fileChange/requestApproval.decision: we write \"decline\", codex knows",
    },
    Case {
        name: "PermissionsRequestApprovalResponse",
        doctor: |node| rename(&mut node["properties"], "scope", "range"),
        expected: "item/permissions/requestApproval.scope: we write it, codex does not know it",
    },
    Case {
        name: "CodexErrorInfo",
        doctor: |node| drop_word(&mut node["anyOf"][0], "unauthorized"),
        expected: "CodexErrorInfo: codex no longer has the word \"unauthorized\"",
    },
];

#[test]
fn every_kind_of_drift_is_reported() {
    let (_, files) = install::schema();
    for case in CASES {
        let findings = compare(&doctored(&files, case.name, case.doctor));
        assert!(
            findings
                .iter()
                .any(|finding| finding.what.contains(case.expected)),
            "{} was doctored and not noticed; findings: {findings:#?}",
            case.name
        );
    }
}
