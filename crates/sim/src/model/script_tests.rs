//! What people and tests may write, and how it reads. Pure: text in, steps out.
//! Each test names a promise of the directive language; what a step becomes on the wire is
//! in `respond_tests.rs`, what Codex makes of it in `tests/real_codex`.

use std::time::Duration;

use super::*;
use crate::model::step::{Refusal, Usage};

fn one(text: &str) -> Step {
    let steps = read(text);
    assert_eq!(steps.len(), 1, "{steps:?}");
    steps.into_iter().next().unwrap()
}

fn echo(text: &str) -> Act {
    Act::Echo(text.to_owned())
}

#[test]
fn plain_text_is_a_step_that_quotes() {
    assert_eq!(one("hello there"), Step::default());
    assert_eq!(one(""), Step::default());
}

#[test]
fn echo_takes_rest_of_step() {
    assert_eq!(one("echo: a fail:500 b\nc ").act, echo("a fail:500 b\nc"));
    assert_eq!(one("echo: a fail:500 b").refusal, None);
}

#[test]
fn directives_match_whole_words_only() {
    assert_eq!(one("please do (echo:hi").act, echo("hi"));
    assert_eq!(one("été,echo:hi").act, echo("hi"));
    assert_eq!(
        one("my_echo:hi reecho:hi éecho:hi Echo:hi echo hi").act,
        Act::Quote
    );
}

#[test]
fn a_longer_word_is_not_its_ending() {
    let step = one("sse_fail:rate_limit_exceeded");
    assert_eq!(step.refusal, None);
    let code = "rate_limit_exceeded".to_owned();
    assert_eq!(step.ending, Ending::Failed { code });
    let step = one("usage_limit:60 usage:7:8");
    assert_eq!(
        step.usage,
        Usage {
            input: 7,
            output: 8
        }
    );
    let limit = Refusal::UsageLimit {
        resets_in: 60,
        times: None,
    };
    assert_eq!(step.refusal, Some(limit));
}

#[test]
fn standalone_double_semicolon_separates_steps() {
    let steps = read("shell:echo hi ;; echo:done");
    let call = Call::Shell {
        command: "echo hi".to_owned(),
        escalate: false,
    };
    assert_eq!(steps[0].act, Act::Call(call));
    assert_eq!(steps[1].act, echo("done"));
    assert_eq!(read("shell:case a in a) ls;; esac").len(), 1);
    assert_eq!(read("echo:a\n;;\necho:b").len(), 2);
}

#[test]
fn cues_keep_written_order() {
    let step = one("reason:let me see say:working on it hold:gate sleep:0.5 echo:x");
    let say = Cue::Say {
        text: "working on it".to_owned(),
        phase: Phase::Commentary,
    };
    let expected = [
        Cue::Reason("let me see".to_owned()),
        say,
        Cue::Hold("gate".to_owned()),
        Cue::Sleep(Duration::from_millis(500)),
    ];
    assert_eq!(step.cues, expected);
    assert_eq!(step.act, echo("x"));
}

#[test]
fn a_phase_marks_the_next_message_only() {
    let step = one("phase:final_answer say:42 hold:a echo:bye");
    let say = Cue::Say {
        text: "42".to_owned(),
        phase: Phase::FinalAnswer,
    };
    assert_eq!(step.cues.first(), Some(&say));
    assert_eq!(step.phase, None);
    assert_eq!(
        one("phase:partial_answer echo:x").phase,
        Some(Phase::PartialAnswer)
    );
    assert_eq!(one("phase:moon echo:x").phase, None);
}

#[test]
fn waits_have_names_and_limits() {
    assert_eq!(one("hang:").cues, [Cue::Hang("hang".to_owned())]);
    assert_eq!(one("hang:here").cues, [Cue::Hang("here".to_owned())]);
    assert_eq!(one("hold: echo:x").cues, []);
    assert_eq!(
        one("sleep: echo:x").cues,
        [Cue::Sleep(Duration::from_secs(1))]
    );
    assert_eq!(one("sleep:3601 sleep:-1 sleep:NaN echo:x").cues, []);
}

#[test]
fn failures_may_be_counted() {
    let refusal = |text| one(text).refusal;
    let status = |code, times| Some(Refusal::Status { code, times });
    assert_eq!(refusal("fail:500"), status(500, None));
    assert_eq!(refusal("fail:429:2 echo:ok"), status(429, Some(2)));
    assert_eq!(refusal("fail:200"), None);
    assert_eq!(refusal("fail:often"), None);
    let limit = Refusal::UsageLimit {
        resets_in: 9,
        times: Some(1),
    };
    assert_eq!(refusal("usage_limit:9:1 echo:x"), Some(limit));
}

#[test]
fn endings() {
    let ending = |text| one(text).ending;
    assert_eq!(ending("echo:x"), Ending::Completed);
    assert_eq!(ending("incomplete: echo:x"), Ending::Incomplete);
    assert_eq!(ending("break:"), Ending::Broken { times: None });
    assert_eq!(ending("break:1 echo:x"), Ending::Broken { times: Some(1) });
    assert_eq!(
        ending("take a break: it is late"),
        Ending::Broken { times: None }
    );
    let code = "server_error".to_owned();
    assert_eq!(ending("sse_fail:"), Ending::Failed { code });
}

#[test]
fn answers_other_than_echo() {
    let stream = |deltas, ms| Act::Stream {
        deltas,
        gap: Duration::from_millis(ms),
    };
    assert_eq!(one("stream:3:20").act, stream(3, 20));
    assert_eq!(one("stream:").act, stream(5, 0));
    assert_eq!(one("stream:100001").act, Act::Quote);
    assert_eq!(one("big:5").act, Act::Big(5));
    assert_eq!(one("big:").act, Act::Big(1000));
    assert_eq!(one("remember: what did I say?").act, Act::Remember);
    assert_eq!(one("stream:3:20 echo:x").act, stream(3, 20));
}

#[test]
fn tool_calls() {
    let function = |namespace: Option<&str>, name: &str, arguments: &str| {
        Act::Call(Call::Function {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        })
    };
    assert_eq!(
        one(r#"tool:send:{"a":"b:c"}"#).act,
        function(None, "send", r#"{"a":"b:c"}"#)
    );
    assert_eq!(one("tool:ping").act, function(None, "ping", "{}"));
    assert_eq!(
        one("nstool:mcp__x:ping:{}").act,
        function(Some("mcp__x"), "ping", "{}")
    );
    assert_eq!(one("the right tool: a hammer").act, Act::Quote);
    let call = Call::Shell {
        command: "touch a".to_owned(),
        escalate: true,
    };
    assert_eq!(one("big:3 escal:touch a").act, Act::Call(call));
    let call = Call::Append {
        file: "log".to_owned(),
        line: "r7".to_owned(),
    };
    assert_eq!(one("do append:log:r7 now").act, Act::Call(call));
    assert_eq!(one("append:log:r7;rm").act, Act::Quote);
    let call = Call::Patch {
        file: "a.txt".to_owned(),
        content: "x:y".to_owned(),
    };
    assert_eq!(one("patch:a.txt:x:y").act, Act::Call(call));
}

#[test]
fn invalid_directive_arguments_are_plain_text() {
    assert_eq!(one("the usage: of echo:hi").act, echo("hi"));
    assert_eq!(one("usage:lots").usage, Usage::default());
}
