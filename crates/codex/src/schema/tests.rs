//! Severities, and that every method we send is compared.

use super::*;

#[test]
fn differences_are_graded() {
    let severity = |text: &str| Finding::from(text.to_owned()).severity;
    for (text, expected) in [
        (
            "TurnStatus: codex has the new word \"paused\"",
            Severity::BlindSpot,
        ),
        ("sleep: codex has no such item", Severity::Harmless),
        ("agentMessage: codex has no such item", Severity::Breaks),
        (
            "MessagePhase: codex no longer has the word \"x\"",
            Severity::Harmless,
        ),
        (
            "turn/start.input: we write it, codex does not know it",
            Severity::Breaks,
        ),
        (
            "userMessage.clientId: we read it, codex does not send it",
            Severity::Breaks,
        ),
        (
            "turn/completed: codex has no such message",
            Severity::Breaks,
        ),
    ] {
        assert_eq!(severity(text), expected, "{text}");
    }
}

struct Sampled;

impl MethodVisitor for Sampled {
    fn method<M: Method>(&mut self) {
        let samples = samples::all();
        let sample = samples.iter().find(|sample| sample.method == M::NAME);
        let params = &sample
            .unwrap_or_else(|| panic!("{} has no sample", M::NAME))
            .params;
        assert!(params.is_object(), "{}: {params}", M::NAME);
    }
}

#[test]
fn every_method_has_a_sample() {
    each_method(&mut Sampled);
}

/// A schema in which a notification has these properties, and the rest is empty.
fn schema_of(params: Value) -> Schema {
    let mut files: BTreeMap<String, Value> =
        (0..200).map(|n| (format!("Type{n}"), json!({}))).collect();
    let variant = json!({"properties": {
        "method": {"enum": ["turn/completed"]}, "params": {"$ref": "#/definitions/Notice"},
    }});
    files.insert("ServerNotification".to_owned(), json!({"oneOf": [variant]}));
    files.insert("Notice".to_owned(), params);
    Schema::new(files).unwrap()
}

#[test]
fn live_message_is_compared_with_own_schema() {
    let schema = schema_of(json!({
        "properties": {"threadId": {"type": "string"}, "mood": {"type": "string"}},
        "required": ["threadId"],
    }));
    let live = LiveComparison::new(schema);
    let compare = |params: Value| {
        let method = "turn/completed";
        live.compare(LiveMessage::Notification {
            method,
            params: &params,
        })
    };
    assert_eq!(compare(json!({"threadId": "t", "mood": "calm"})), []);
    let renamed = compare(json!({"thread": "t", "mood": "calm"}));
    assert!(
        renamed
            .iter()
            .any(|found| found.severity == Severity::Breaks),
        "{renamed:?}"
    );
    let more = compare(json!({"threadId": "t", "mood": "calm", "weather": 1}));
    assert_eq!(more.len(), 1);
    assert_eq!(more[0].severity, Severity::BlindSpot);
    assert!(more[0].what.contains("turn/completed.weather"), "{more:?}");
    let unread = compare(json!({"threadId": "t", "mood": 5}));
    assert_eq!(unread[0].severity, Severity::BlindSpot);
}

#[test]
fn too_few_files_are_no_schema() {
    assert!(Schema::new(BTreeMap::new()).is_err());
}
