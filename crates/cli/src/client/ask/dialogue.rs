//! The dialogue about one approval request: typed lines in, the next step or the decision out. Pure.
//!
//! Nothing is ever accepted by Enter alone, and what was typed for one question never counts for another.

use super::request::ApprovalView;
use bridge_host::form::{FormField, form_fields};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DialogueDecision {
    /// The API's name of it.
    pub(crate) decision: &'static str,
    pub(crate) answers: Option<Value>,
}

/// The result of one typed line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DialogueStep {
    /// It was not understood, and why; the same is asked again.
    Again(String),
    /// The next thing is asked.
    Next,
    /// It is decided.
    Done(DialogueDecision),
    /// The person leaves it for later; it stays open.
    Later,
}

#[derive(Clone, Debug, PartialEq)]
enum DialogueStage {
    /// The field of this number.
    Fill(usize),
    /// Yes or no.
    Decide,
}

#[derive(Clone, Debug)]
pub(crate) struct Dialogue {
    pub(crate) request: ApprovalView,
    fields: Vec<FormField>,
    stage: DialogueStage,
    filled: Map<String, Value>,
}

impl Dialogue {
    pub(crate) fn new(request: ApprovalView) -> Self {
        let fields = form_fields(&request.kind, &request.payload);
        let stage = if fields.is_empty() {
            DialogueStage::Decide
        } else {
            DialogueStage::Fill(0)
        };
        Self {
            request,
            fields,
            stage,
            filled: Map::new(),
        }
    }

    /// What is asked now: lines above the prompt, then the prompt itself.
    pub(crate) fn ask(&self) -> (Vec<String>, String) {
        let code = self.request.handle();
        let Some(field) = self.field() else {
            let session = if self.for_session() {
                "s for the session, "
            } else {
                ""
            };
            let accept = match (self.filled.is_empty(), self.is_yes_or_no()) {
                (true, true) => "y yes",
                (true, false) => "a accept",
                (false, _) => "a send it",
            };
            let decline = if self.is_yes_or_no() {
                "n no"
            } else {
                "d decline"
            };
            let above = if self.filled.is_empty() {
                Vec::new()
            } else {
                vec![Value::Object(self.filled.clone()).to_string()]
            };
            let prompt =
                format!("{code}: {accept}, {session}{decline}, c cancel the turn, l later > ");
            return (above, prompt);
        };
        let mut above = vec![field.title.clone()];
        for (at, option) in field.options.iter().enumerate() {
            let help = match option.help.as_str() {
                "" => String::new(),
                help => format!(" ({help})"),
            };
            above.push(format!("  {} {}{help}", at + 1, option.label));
        }
        let how = match (
            field.options.is_empty(),
            field.typed.is_some(),
            field.secret,
        ) {
            (_, _, true) => "type it (it is not shown)",
            (true, _, _) => "type the answer",
            (false, true, _) => "a number, or type another answer",
            (false, false, _) => "a number",
        };
        let empty = match (&field.preset, field.required) {
            (Some(preset), _) => format!(", Enter for {preset}"),
            (None, false) => ", Enter to leave it out".to_owned(),
            (None, true) => String::new(),
        };
        let prompt = format!("{code}: {how}{empty}; /d decline, /c cancel the turn, /l later > ");
        (above, prompt)
    }

    /// Whether what is typed now must not be shown.
    pub(crate) fn secret(&self) -> bool {
        self.field().is_some_and(|field| field.secret)
    }

    fn field(&self) -> Option<&FormField> {
        match self.stage {
            DialogueStage::Fill(at) => self.fields.get(at),
            DialogueStage::Decide => None,
        }
    }

    /// Whether yes and no have one meaning: this once, or not.
    fn is_yes_or_no(&self) -> bool {
        self.fields.is_empty()
            && (self.request.is_tool_approval()
                || matches!(self.request.kind.as_str(), "command" | "file_change"))
    }

    fn for_session(&self) -> bool {
        self.request.is_tool_approval()
            || matches!(
                self.request.kind.as_str(),
                "command" | "file_change" | "permissions"
            )
    }

    /// Takes one line that was typed.
    pub(crate) fn take(&mut self, line: &str) -> DialogueStep {
        let line = line.trim();
        match (&self.stage, line) {
            (DialogueStage::Fill(_), "/d") => return done("decline"),
            (DialogueStage::Fill(_), "/c") => return done("cancel"),
            (DialogueStage::Fill(_), "/l") => return DialogueStep::Later,
            (DialogueStage::Fill(_) | DialogueStage::Decide, _) => {}
        }
        match self.field().cloned() {
            Some(field) => self.fill(&field, line),
            None => self.decide(line),
        }
    }

    fn decide(&self, line: &str) -> DialogueStep {
        match line {
            "a" | "accept" if !self.fields.is_empty() => DialogueStep::Done(DialogueDecision {
                decision: "accept",
                answers: Some(Value::Object(self.filled.clone())),
            }),
            "a" | "accept" => done("accept"),
            "y" | "Y" | "yes" if self.is_yes_or_no() => done("accept"),
            "n" | "N" | "no" if self.is_yes_or_no() => done("decline"),
            "s" | "session" | "acceptForSession" if self.for_session() => done("acceptForSession"),
            "d" | "decline" => done("decline"),
            "c" | "cancel" => done("cancel"),
            "l" | "later" => DialogueStep::Later,
            "" => DialogueStep::Again(
                "Enter alone decides nothing: type one of the letters".to_owned(),
            ),
            _ => DialogueStep::Again("type one of the letters".to_owned()),
        }
    }

    fn fill(&mut self, field: &FormField, line: &str) -> DialogueStep {
        let value = match (line, &field.preset) {
            ("", Some(preset)) => Some(preset.clone()),
            ("", None) if !field.required => None,
            ("", None) => return DialogueStep::Again("Enter alone is no answer".to_owned()),
            (line, _) => match chosen(field, line) {
                Ok(value) => Some(value),
                Err(why) => return DialogueStep::Again(why),
            },
        };
        if let Some(value) = value {
            self.filled.insert(field.id.clone(), value);
        }
        self.stage = match self.stage {
            DialogueStage::Fill(at) if at + 1 < self.fields.len() => DialogueStage::Fill(at + 1),
            // The answer to a question is the decision; a form is sent when its reader says so.
            DialogueStage::Fill(_) | DialogueStage::Decide if self.request.kind == "user_input" => {
                return DialogueStep::Done(DialogueDecision {
                    decision: "accept",
                    answers: Some(Value::Object(self.filled.clone())),
                });
            }
            DialogueStage::Fill(_) | DialogueStage::Decide => DialogueStage::Decide,
        };
        DialogueStep::Next
    }
}

fn chosen(field: &FormField, line: &str) -> Result<Value, String> {
    let number = line
        .parse::<usize>()
        .ok()
        .filter(|_| !field.options.is_empty());
    match (number, field.typed) {
        (Some(number), _) => number
            .checked_sub(1)
            .and_then(|at| field.options.get(at))
            .map(|option| option.value.clone())
            .ok_or_else(|| format!("there is no option {number}")),
        (None, Some(typed)) => typed.parse(line).map_err(ToOwned::to_owned),
        (None, None) => Err("choose one of the numbers".to_owned()),
    }
}

fn done(decision: &'static str) -> DialogueStep {
    DialogueStep::Done(DialogueDecision {
        decision,
        answers: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dialogue(kind: &str, payload: Value) -> Dialogue {
        Dialogue::new(ApprovalView {
            code: "k3x9qz".to_owned(),
            kind: kind.to_owned(),
            payload,
            ..ApprovalView::default()
        })
    }

    #[track_caller]
    fn again(step: DialogueStep) {
        assert!(matches!(step, DialogueStep::Again(_)), "{step:?}");
    }

    #[test]
    fn approval_requires_explicit_key() {
        let mut talk = dialogue("command", Value::Null);
        for line in ["", "   ", "ye", "A ccept", "1", "\n", "yn"] {
            again(talk.take(line));
        }
        let (_, prompt) = talk.ask();
        let keys = "y yes, s for the session, n no, c cancel the turn, l later > ";
        assert_eq!(prompt, format!("k3x9qz: {keys}"));
        for (line, decision) in [("y", "accept"), ("Y\n", "accept"), ("no", "decline")] {
            assert_eq!(talk.take(line), done(decision), "{line}");
        }
        assert_eq!(talk.take(" a\r\n"), done("accept"));
        assert_eq!(talk.take("s"), done("acceptForSession"));
        assert_eq!(talk.take("d"), done("decline"));
        assert_eq!(talk.take("c"), done("cancel"));
        assert_eq!(talk.take("l"), DialogueStep::Later);
        again(dialogue("elicitation", Value::Null).take("s"));
        // More than this once would hang on it.
        for kind in ["permissions", "elicitation"] {
            again(dialogue(kind, Value::Null).take("y"));
            again(dialogue(kind, Value::Null).take("n"));
        }
    }

    #[test]
    fn user_input_takes_number_or_text() {
        let payload = json!({"questions": [
            {"id": "color", "question": "Which?", "options": [{"label": "Red", "description": "hot"}, {"label": "Blue"}]},
            {"id": "why", "question": "Why?", "isOther": true, "options": [{"label": "So"}]},
            {"id": "key", "question": "Key?", "isSecret": true},
        ]});
        // Some surfaces give what Codex sent as text.
        let mut talk = dialogue("user_input", Value::from(payload.to_string()));
        let (above, prompt) = talk.ask();
        assert_eq!(above, ["Which?", "  1 Red (hot)", "  2 Blue"]);
        assert!(prompt.starts_with("k3x9qz: a number; "), "{prompt}");
        for line in ["", "0", "3", "Red"] {
            again(talk.take(line));
        }
        assert_eq!(talk.take("2"), DialogueStep::Next);
        assert_eq!(talk.take("because"), DialogueStep::Next);
        assert!(talk.secret());
        let DialogueStep::Done(choice) = talk.take("123") else {
            panic!("the last answer is the decision");
        };
        assert_eq!(choice.decision, "accept");
        assert_eq!(
            choice.answers,
            Some(json!({"color": "Blue", "why": "because", "key": "123"}))
        );
    }

    #[test]
    fn form_checks_types_and_confirms_sending() {
        let mut talk = dialogue(
            "elicitation",
            json!({"requestedSchema": {"required": ["age", "size"], "properties": {
                "age": {"type": "integer", "title": "Age"},
                "nick": {"type": "string"},
                "ok": {"type": "boolean", "default": true},
                "size": {"enum": ["s", "l"], "enumNames": ["small", "large"]},
            }}}),
        );
        again(talk.take(""));
        again(talk.take("old"));
        assert_eq!(talk.take("42"), DialogueStep::Next);
        assert_eq!(talk.take(""), DialogueStep::Next, "nick is optional");
        assert_eq!(talk.take(""), DialogueStep::Next, "ok has a preset");
        again(talk.take("small"));
        assert_eq!(talk.take("2"), DialogueStep::Next);
        let (above, prompt) = talk.ask();
        assert_eq!(above, [r#"{"age":42,"ok":true,"size":"l"}"#]);
        assert!(prompt.contains("a send it, d decline"), "{prompt}");
        again(talk.take(""));
        let sent = json!({"age": 42, "ok": true, "size": "l"});
        assert_eq!(
            talk.take("a"),
            DialogueStep::Done(DialogueDecision {
                decision: "accept",
                answers: Some(sent)
            })
        );
        let mut other = dialogue("user_input", json!({"questions": [{"id": "q"}]}));
        assert_eq!(other.take("/d"), done("decline"));
    }
}
