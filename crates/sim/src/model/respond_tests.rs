//! What a script becomes on the wire, event by event. Pure: beats are looked at, not played.
//! How they are played over a socket is in `tests/model.rs`, whether Codex accepts them in
//! `tests/real_codex`.

use super::*;
use crate::model::script;

fn prompt(users: &[&str]) -> Prompt {
    Prompt {
        users: users.iter().map(|text| (*text).to_owned()).collect(),
        ..Prompt::default()
    }
}

fn play(text: &str, breaks: bool) -> Vec<Beat> {
    let steps = script::read(text);
    compose(&prompt(&[text]), steps.first(), breaks)
}

fn data(beat: &Beat) -> Option<Value> {
    let Beat::Send(bytes) = beat else { return None };
    let text = std::str::from_utf8(bytes).unwrap();
    let (_, data) = text.split_once("\ndata: ").unwrap();
    Some(serde_json::from_str(data.trim_end()).unwrap())
}

/// The kinds of the events, and what is not an event in `<>`.
fn kinds(beats: &[Beat]) -> Vec<String> {
    beats
        .iter()
        .map(|beat| match data(beat) {
            Some(data) => data["type"].as_str().unwrap().replace("response.", ""),
            None => format!("<{beat:?}>"),
        })
        .collect()
}

/// The completed items.
fn items(beats: &[Beat]) -> Vec<Value> {
    beats
        .iter()
        .filter_map(data)
        .filter(|data| data["type"] == "response.output_item.done")
        .map(|data| data["item"].clone())
        .collect()
}

fn texts(beats: &[Beat]) -> Vec<String> {
    items(beats)
        .iter()
        .filter_map(|item| item["content"][0]["text"].as_str().map(str::to_owned))
        .collect()
}

fn deltas(beats: &[Beat]) -> String {
    let events = beats.iter().filter_map(data);
    let deltas = events.filter_map(|event| event["delta"].as_str().map(str::to_owned));
    deltas.collect()
}

#[test]
fn plain_answer_quotes_message_deterministically() {
    let beats = play("hello", false);
    let expected = [
        "created",
        "output_item.added",
        "output_text.delta",
        "output_item.done",
        "completed",
    ];
    assert_eq!(kinds(&beats), expected);
    assert!(texts(&beats)[0].starts_with("You said: \"hello\"."));
    assert_eq!(texts(&beats), texts(&play("hello", false)));
    assert!(
        texts(&play(&"ä".repeat(300), false))[0].contains(&format!("\"{}…\"", "ä".repeat(200)))
    );
}

#[test]
fn pause_splits_the_answer() {
    let beats = play("pause:gate echo:first second", false);
    let hold = beats
        .iter()
        .position(|b| *b == Beat::Hold("gate".to_owned()))
        .unwrap();
    assert_eq!(deltas(&beats[..hold]), "first ");
    assert_eq!(deltas(&beats[hold..]), "second");
    assert_eq!(texts(&beats), ["first second"]);
}

#[test]
fn commentary_precedes_hold_and_answer() {
    let beats = play("say:looking hold:gate phase:final_answer echo:done", false);
    let hold = beats
        .iter()
        .position(|b| *b == Beat::Hold("gate".to_owned()))
        .unwrap();
    assert_eq!(texts(&beats[..hold]), ["looking"]);
    assert_eq!(texts(&beats), ["looking", "done"]);
    let phases: Vec<_> = items(&beats)
        .iter()
        .map(|item| item["phase"].clone())
        .collect();
    assert_eq!(phases, ["commentary", "final_answer"]);
    assert_eq!(items(&play("echo:x", false))[0].get("phase"), None);
}

#[test]
fn commentary_may_come_before_a_tool_call() {
    let beats = play("say:looking tool:ping", false);
    let types: Vec<_> = items(&beats)
        .iter()
        .map(|item| item["type"].clone())
        .collect();
    assert_eq!(types, ["message", "function_call"]);
}

#[test]
fn break_interrupts_answer_not_commentary() {
    let kinds = kinds(&play("say:a break: stream:2", true));
    let at = kinds.iter().position(|kind| kind == "<Break>").unwrap();
    assert_eq!(
        kinds[..at]
            .iter()
            .filter(|k| *k == "output_item.done")
            .count(),
        1
    );
    assert_eq!(kinds[at - 1], "output_text.delta");
    assert!(!self::kinds(&play("break: stream:2", false)).contains(&"<Break>".to_owned()));
}

#[test]
fn broken_tool_call_never_completes() {
    let beats = play("break: tool:ping", true);
    let at = beats.iter().position(|beat| *beat == Beat::Break).unwrap();
    assert_eq!(kinds(&beats[..at]), ["created", "output_item.added"]);
}

#[test]
fn stream_failure_has_no_answer() {
    let beats = play("sse_fail:rate_limit_exceeded", false);
    assert_eq!(kinds(&beats), ["created", "failed"]);
    let failed = data(beats.last().unwrap()).unwrap();
    assert_eq!(failed["response"]["error"]["code"], "rate_limit_exceeded");
}

#[test]
fn deltas_add_up_to_the_text() {
    let beats = play("stream:3:20 usage:7:8", false);
    assert_eq!(texts(&beats), ["w0 w1 w2 "]);
    let gaps = beats
        .iter()
        .filter(|b| **b == Beat::Sleep(Duration::from_millis(20)));
    assert_eq!(gaps.count(), 3);
    let usage = &data(beats.last().unwrap()).unwrap()["response"]["usage"];
    assert_eq!(
        (&usage["input_tokens"], &usage["total_tokens"]),
        (&json!(7), &json!(15))
    );
}

#[test]
fn remembering_counts_and_quotes_what_came_before() {
    let said = |users: &[&str]| {
        let step = script::read("remember:");
        texts(&compose(&prompt(users), step.first(), false)).concat()
    };
    assert_eq!(
        said(&["remember:"]),
        "I have seen 1 message from you; nothing before this one."
    );
    let two = "I have seen 2 messages from you; before this one: \"my cat is Tom\"";
    assert_eq!(said(&["my cat is Tom", "remember:"]), two);
    let many: Vec<String> = (0..30).map(|n| format!("m{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(
        said(&many).starts_with("I have seen 30 messages from you; before this one: …, \"m9\"")
    );
}

#[test]
fn exhausted_script_repeats_tool_output() {
    let mut prompt = prompt(&["tool:ping"]);
    prompt.outputs.push("pong".to_owned());
    assert_eq!(texts(&compose(&prompt, None, false)), ["tool said: pong"]);
}
