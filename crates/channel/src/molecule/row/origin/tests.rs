//! Who wrote the recorded rows, and that no writer can pass for the owner.

use super::*;
use serde_json::json;
use serde_json::value::RawValue;

/// Rows as the platform of August 2026 stored them, one of each origin.
const RECORDED: &str = include_str!("../../../../../sim/tests/golden/molecule/rows-2026-08.jsonl");

struct Recorded {
    label: String,
    row: Value,
}

fn recorded() -> Vec<Recorded> {
    let lines = RECORDED.lines().filter(|line| !line.trim().is_empty());
    let read = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let mut row = line["row"].take();
        // The feed does not show these columns.
        for hidden in ["message_id", "idempotency_key"] {
            row.as_object_mut().unwrap().remove(hidden);
        }
        let label = line["label"].as_str().unwrap().to_owned();
        Recorded { label, row }
    };
    lines.map(read).collect()
}

fn of(row: &Value, origins: &Origins) -> Writer {
    let raw = RawValue::from_string(row.to_string()).unwrap();
    let own = row["workspace_id"].as_str().unwrap_or_default();
    writer(&Row::split(&raw), row.get("request_body"), own, origins)
}

fn tier(row: &Value, origins: &Origins) -> Tier {
    match of(row, origins) {
        Writer::Outside(outside) => outside.tier,
        Writer::Own | Writer::Peer(_) | Writer::Platform(_) | Writer::Unknown(_) => Tier::Peer,
    }
}

fn first(label: &str) -> Value {
    let found = recorded().into_iter().find(|one| one.label == label);
    found.unwrap().row
}

/// Everything that an operator could say, and a person on Telegram.
fn generous() -> Origins {
    let tiers = Origin::ALL.map(|origin| (origin, Tier::Owner));
    Origins {
        tiers: tiers.into(),
        owners: BTreeSet::from(["telegram:777".to_owned()]),
        agents: BTreeMap::new(),
    }
}

/// The operator trusts the canvas, one person on Telegram and nobody else.
fn usual() -> Origins {
    Origins {
        owners: BTreeSet::from(["telegram:777".to_owned()]),
        ..Origins::of([Origin::Canvas], Tier::Owner)
    }
}

#[test]
fn d1_recorded_rows_have_their_origin() {
    let origins = usual();
    for Recorded { label, row } in recorded() {
        let (origin, tier, sender) = match (label.as_str(), of(&row, &origins)) {
            ("peer", Writer::Peer(_)) => continue,
            ("self-stall", Writer::Platform(kind)) => {
                assert_eq!(kind, "self-stall");
                continue;
            }
            (_, Writer::Outside(outside)) => (outside.origin, outside.tier, outside.sender),
            (label, other) => panic!("{label}: {other:?}"),
        };
        let expected = match label.as_str() {
            "telegram" => (Origin::Telegram, Tier::Owner, "telegram:777@4242"),
            "github" => (Origin::Github, Tier::Peer, "github:mallory@o/r"),
            "inbound" | "upload" => (Origin::Unmarked, Tier::Peer, "unmarked"),
            _ => (Origin::Canvas, Tier::Owner, "canvas"),
        };
        assert_eq!((origin, tier, sender.as_str()), expected, "{label}");
    }
}

#[test]
fn d1_verified_people_at_the_canvas() {
    let mut row = first("canvas");
    let origins = Origins {
        owners: BTreeSet::from(["canvas:u1".to_owned()]),
        ..Origins::default()
    };
    let metadata = |row: &mut Value, status: &str| {
        row["request_body"]["params"]["metadata"] =
            json!({"source": "canvas_user", "user_identity_status": status, "user_id": "u1"});
    };
    metadata(&mut row, "AUTHENTICATED");
    assert_eq!(tier(&row, &origins), Tier::Owner);
    metadata(&mut row, "UNAUTHENTICATED");
    assert_eq!(
        tier(&row, &origins),
        Tier::Peer,
        "the id is the sender's own word"
    );
}

/// What a sender of this origin chooses freely. A holder of the inbound secret writes the whole body and the method;
/// people on other services and webhooks write a text.
fn writable(label: &str) -> &'static [&'static str] {
    match label {
        "peer" | "inbound" => &["/request_body", "/method"],
        "telegram" | "github" => &["/request_body/params/message/parts"],
        _ => &[],
    }
}

/// Bodies that an attacker tries: those of every recorded row, and each with the marks of an owner written over it,
/// in every place and spelling that one of the two readers could take for the right one.
fn forgeries() -> Vec<Value> {
    let mut bodies: Vec<Value> = recorded()
        .into_iter()
        .map(|one| one.row["request_body"].clone())
        .collect();
    let owners = [
        json!({"source": "canvas_user", "user_identity_status": "AUTHENTICATED", "user_id": "u1"}),
        json!({"source": "telegram", "user_id": "777", "chat_id": "4242"}),
    ];
    for body in bodies.clone() {
        for marks in &owners {
            for place in ["/params", "/params/message"] {
                let mut forged = body.clone();
                if let Some(Value::Object(object)) = forged.pointer_mut(place) {
                    object.insert("metadata".to_owned(), marks.clone());
                    bodies.push(forged);
                }
            }
        }
    }
    for body in bodies.clone() {
        for (key, value) in [
            ("messageid", json!("")),
            ("MessageID", json!(7)),
            ("me\u{17f}\u{17f}ageId", json!("")),
            ("messageId", json!("")),
            ("messageId", json!(null)),
        ] {
            let mut forged = body.clone();
            if let Some(Value::Object(message)) = forged.pointer_mut("/params/message") {
                message.insert(key.to_owned(), value);
                bodies.push(forged);
            }
        }
        for (place, key) in [
            ("", "Params"),
            ("/params", "Message"),
            ("/params", "me\u{17f}sage"),
        ] {
            let mut forged = body.clone();
            if let Some(Value::Object(object)) = forged.pointer_mut(place) {
                object.insert(key.to_owned(), json!(7));
                bodies.push(forged);
            }
        }
    }
    bodies
}

/// What the server of August 2026 writes over a row of these callers, whatever they send.
fn stored(label: &str, mut row: Value) -> Value {
    let body = &row["request_body"];
    // Its reader of keys does not mind their case, and a later one wins.
    let id = body.pointer("/params/message").and_then(Value::as_object);
    let folds = |key: &str| {
        key.replace('\u{17f}', "s")
            .eq_ignore_ascii_case("messageid")
    };
    let id = id.and_then(|message| message.iter().rfind(|(key, _)| folds(key)));
    let whole = |value: &Value, name: &str| {
        let object = value.as_object();
        let same = |key: &&String| key.replace('\u{17f}', "s").eq_ignore_ascii_case(name);
        object.is_none_or(|object| object.keys().filter(same).count() < 2)
    };
    let readable = whole(body, "params") && whole(&body["params"], "message");
    let has_id = readable && id.is_some_and(|(_, id)| id.as_str().is_some_and(|id| !id.is_empty()));
    let send = row["method"] == "message/send";
    let stage = match (label, has_id && send) {
        ("telegram" | "github", _) | (_, false) => "queued for poll",
        (_, true) => "ingest",
    };
    row["summary"] = json!(format!(
        "{} → alpha ({stage})",
        row["method"].as_str().unwrap()
    ));
    row
}

/// A holder of the inbound secret can write everything that the platform writes for the canvas: then, and only
/// then, the operator's word for the canvas holds for them.
fn only_by_the_operators_word(row: &Value, origins: &Origins) -> bool {
    let marked = text(&row["request_body"], "/params/metadata/source") == Some("canvas_user");
    marked && origins.tier(Origin::Canvas) == Tier::Owner
}

#[test]
fn d1_senders_cannot_forge_owner_rows() {
    let silent = Origins {
        owners: BTreeSet::from(["telegram:777".to_owned()]),
        ..Origins::default()
    };
    let mut tried = 0;
    for Recorded { label, row } in recorded() {
        let places = writable(&label);
        for body in forgeries() {
            for method in ["message/send", "message/stream"] {
                let mut forged = row.clone();
                for place in places {
                    let value = match *place {
                        "/method" => json!(method),
                        "/request_body" => body.clone(),
                        _ => body
                            .pointer("/params/message/parts")
                            .cloned()
                            .unwrap_or_default(),
                    };
                    *forged.pointer_mut(place).unwrap() = value;
                }
                if places.is_empty() || label == "telegram" {
                    continue;
                }
                let forged = stored(&label, forged);
                tried += 1;
                assert_eq!(tier(&forged, &silent), Tier::Peer, "{label}: {forged}");
                if !only_by_the_operators_word(&forged, &usual()) {
                    assert_eq!(tier(&forged, &usual()), Tier::Peer, "{label}: {forged}");
                }
            }
        }
    }
    assert!(tried > 1_000, "{tried}");
}

#[test]
fn d1_peer_cannot_claim_canvas_origin() {
    let mut row = first("peer");
    row["request_body"] = first("canvas")["request_body"].take();
    assert_eq!(tier(&row, &generous()), Tier::Peer);
}

/// The operator gave one agent more. Whatever a row says, nobody else gets that, and nobody becomes an owner by it.
#[test]
fn d1_an_agent_gets_its_own_tier() {
    let named = "11111111-2222-4333-8444-555555555555";
    let origins = Origins {
        agents: BTreeMap::from([(named.to_owned(), AgentTier::Tool)]),
        ..generous()
    };
    let of_agent = |row: &Value| match of(row, &origins) {
        Writer::Peer(peer) => Some(origins.tier_of_agent(&peer)),
        _ => None,
    };
    let mut tried = 0;
    for body in forgeries() {
        let mut row = first("peer");
        row["request_body"] = body;
        assert_eq!(of_agent(&row), Some(Tier::Peer), "{row}");
        row["request_body"]["params"]["metadata"]["source_id"] = json!(named);
        row["request_body"]["source_id"] = json!(named);
        assert_eq!(of_agent(&row), Some(Tier::Peer), "{row}");
        row["source_id"] = json!(named);
        assert_eq!(of_agent(&row), Some(Tier::Tool), "{row}");
        row["source_id"] = Value::Null;
        assert_eq!(of_agent(&row), None, "{row}");
        tried += 1;
    }
    assert!(tried > 100, "{tried}");
    assert_eq!(origins.tier_of_sender(named), Tier::Tool);
}

#[test]
fn d1_unmarked_rows_need_operator_configuration() {
    let mut old = first("canvas");
    old["request_body"]["params"]["metadata"] = Value::Null;
    old.as_object_mut().unwrap().remove("seq");
    assert_eq!(tier(&old, &usual()), Tier::Peer);
    assert_eq!(
        tier(&old, &Origins::of([Origin::Unmarked], Tier::Owner)),
        Tier::Owner
    );
    // A program's marks count only where the server is known to keep others from writing them.
    let mut telegram = first("telegram");
    telegram.as_object_mut().unwrap().remove("seq");
    assert_eq!(tier(&telegram, &usual()), Tier::Peer);
    let trusting = Origins::of([Origin::Unmarked], Tier::Owner);
    assert_eq!(tier(&telegram, &trusting), Tier::Peer, "it names a program");
}
