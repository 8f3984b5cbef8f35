//! What the rules make of messages; the program around them is tested with the real Codex.

use super::*;

fn bender(rules: Value) -> Bender {
    let rules = serde_json::from_value(rules).unwrap();
    Bender::new(BentCodex::new("/codex".into(), rules))
}

/// What the other side gets of it.
fn onward(bender: &mut Bender, from: Side, message: Value) -> Vec<Value> {
    let passed = bender.pass(from, message.to_string());
    assert!(passed.iter().all(|(to, _)| *to == from.other()));
    let texts = passed.iter().map(|(_, text)| text);
    texts
        .map(|text| serde_json::from_str(text).unwrap())
        .collect()
}

#[test]
fn renames_only_what_the_rule_names() {
    let mut bender = bender(json!([
        {"do": "method", "in": ["turn/completed"], "to": "turn/finished"},
        {"do": "member", "in": ["thread/resume"], "name": "clientId", "to": "mark"},
    ]));
    let ended = json!({"method": "turn/completed", "params": {"clientId": 1}});
    let said = onward(&mut bender, Side::Codex, ended);
    assert_eq!(
        said,
        [json!({"method": "turn/finished", "params": {"clientId": 1}})]
    );
    let asked = json!({"id": 7, "method": "thread/resume", "params": {"clientId": 1}});
    assert_eq!(
        onward(&mut bender, Side::Bridge, asked.clone()),
        [asked],
        "the bridge speaks as it does"
    );
    let answer = json!({"id": 7, "result": {"data": [{"clientId": "a"}]}});
    let said = onward(&mut bender, Side::Codex, answer.clone());
    assert_eq!(
        said,
        [json!({"id": 7, "result": {"data": [{"mark": "a"}]}})]
    );
    let other = onward(&mut bender, Side::Codex, answer.clone());
    assert_eq!(other, [answer], "an answer to nothing is of no method");
}

#[test]
fn replaces_values_beside_a_member() {
    let mut bender = bender(json!([
        {"do": "value", "name": "status", "is": "completed", "to": "succeeded", "beside": "itemsView"},
    ]));
    let turn = |status: &str| {
        let item = json!({"type": "commandExecution", "status": "completed"});
        json!({"method": "x", "params": {"status": status, "itemsView": "full", "items": [item]}})
    };
    let said = onward(&mut bender, Side::Codex, turn("completed"));
    assert_eq!(said, [turn("succeeded")]);
}

#[test]
fn refuses_as_codex_refuses_unknown_methods() {
    let mut bender = bender(json!([{"do": "refuse", "from": "bridge", "in": ["turn/start"]}]));
    let asked = json!({"id": 1, "method": "turn/start", "params": {}}).to_string();
    let [(to, text)] = &bender.pass(Side::Bridge, asked)[..] else {
        panic!();
    };
    let refused: Value = serde_json::from_str(text).unwrap();
    assert_eq!((*to, &refused["id"]), (Side::Bridge, &json!(1)));
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains("unknown variant `turn/start`"), "{words}");
}

#[test]
fn drops_and_adds_messages() {
    let added = json!({"id": 99, "method": "new/question", "params": {}});
    let mut bender = bender(json!([
        {"do": "drop", "in": ["item/started"]},
        {"do": "add", "in": ["turn/started"], "message": added},
    ]));
    let item = json!({"method": "item/started", "params": {}});
    assert_eq!(onward(&mut bender, Side::Codex, item), [] as [Value; 0]);
    let began = json!({"method": "turn/started", "params": {}});
    let said = onward(&mut bender, Side::Codex, began.clone());
    assert_eq!(said, [began, added]);
}

#[test]
fn claims_its_version_and_passes_noise() {
    let codex = BentCodex {
        version: Some("0.170.0".to_owned()),
        ..BentCodex::new("/codex".into(), Vec::new())
    };
    let mut bender = Bender::new(codex);
    let hello = json!({"id": 1, "method": "initialize", "params": {}});
    bender.pass(Side::Bridge, hello.to_string());
    let agent = json!({"id": 1, "result": {"userAgent": "x/0.166.0 (Debian 12; x86_64) y"}});
    let said = onward(&mut bender, Side::Codex, agent);
    assert_eq!(
        said[0]["result"]["userAgent"],
        "x/0.170.0 (Debian 12; x86_64) y"
    );
    let noise = bender.pass(Side::Codex, "{torn".to_owned());
    assert_eq!(noise, [(Side::Bridge, "{torn".to_owned())]);
}

#[test]
fn planted_codex_finds_its_rules() {
    let home = tempfile::tempdir().unwrap();
    let program = home.path().join("bent-codex");
    std::fs::write(&program, "program").unwrap();
    let rules = json!([{"do": "drop", "from": "bridge", "in": ["turn/interrupt"]}]);
    let codex = BentCodex::new("/real".into(), serde_json::from_value(rules).unwrap());
    let place = home.path().join("bent");
    let planted = codex.plant(&program, &place).unwrap();
    let found = BentCodex::beside(&planted).unwrap();
    assert_eq!(found.codex, Path::new("/real"));
    assert_eq!(found.rules[0].from, Side::Bridge);
}

#[test]
fn swapped_values_stand_for_each_other() {
    let rule =
        json!({"from": "bridge", "do": "swap", "name": "policy", "values": ["ask", "never"]});
    let mut bender = bender(json!([rule]));
    let said = |policy: &str| json!({"method": "x", "params": {"policy": policy, "other": "ask"}});
    for (sent, arrives) in [("ask", "never"), ("never", "ask"), ("else", "else")] {
        let passed = onward(&mut bender, Side::Bridge, said(sent));
        assert_eq!(passed, [said(arrives)]);
    }
}
