//! An approval request as the API gives it, and the box it is shown in. Pure: values in, lines out.

use crate::client::find::short;
use crate::client::page::{BOLD, DIM, Page, YELLOW, hang};
use bridge_daemon::term::{Paint, cells, escape_line, span};
use bridge_front::{MessageView, RequestView, Time};
use bridge_host::form::form_fields;
use serde::Deserialize;
use serde_json::Value;

/// How a tab is shown, so that it is seen and takes its place.
const TAB: &str = "→   ";

/// A request of Codex, with all that is decided about.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ApprovalView {
    pub(crate) request_id: String,
    /// Its beginning, which people type.
    pub(crate) code: String,
    pub(crate) message_id: String,
    /// The conversation's key.
    pub(crate) conversation: String,
    /// Whose work it is about, as the daemon derives it from the message.
    pub(crate) requester: String,
    /// The task it belongs to, if it is one's.
    pub(crate) task_id: Option<String>,
    pub(crate) kind: String,
    /// What an accept must say; an MCP server's tool is asked about by a form that wants no more than a yes.
    pub(crate) wants: String,
    pub(crate) headline: String,
    /// All that is decided about, in plain lines; the daemon keeps it in its canonical form (`core::show`).
    pub(crate) shown: String,
    /// As Codex sent it; only `bridge_host::form` reads it.
    pub(crate) payload: Value,
    /// Then it is declined.
    pub(crate) deadline: Time,
    pub(crate) state: String,
    /// Who decided.
    pub(crate) by: Option<String>,
    /// On which surface.
    pub(crate) via: Option<String>,
    /// A decision from before Codex asked again.
    pub(crate) decision: Option<String>,
    /// Why it is not asked any more.
    pub(crate) why: Option<String>,
}

/// How the reader of the box answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerBy {
    /// At the prompt below it.
    Prompt,
    /// With another command.
    Command,
}

impl ApprovalView {
    /// A request as its message shows it.
    pub(crate) fn of(message: &MessageView, request: &RequestView) -> Self {
        Self {
            request_id: request.request_id.clone(),
            code: request.code.clone(),
            message_id: message.message_id.clone(),
            conversation: message.conversation.clone(),
            requester: request.requester.clone(),
            kind: request.kind.clone(),
            wants: request.wants.clone(),
            headline: request.headline.clone(),
            payload: request.payload.clone().unwrap_or_default(),
            deadline: request.deadline,
            state: request.state.clone(),
            ..Self::default()
        }
    }

    /// Whether Codex waits for a decision, or would if it lived.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state.as_str(), "open" | "orphaned")
    }

    /// The task or message that it belongs to.
    pub(crate) fn whose(&self) -> String {
        match &self.task_id {
            Some(task) => format!("task {task}"),
            None => format!("message {}", short(&self.message_id)),
        }
    }

    /// Whose work it is about.
    pub(crate) fn requester(&self) -> &str {
        match self.requester.as_str() {
            "" => "somebody whom the daemon does not name",
            requester => requester,
        }
    }

    /// The code, or the whole id where the daemon gave no code.
    pub(crate) fn handle(&self) -> &str {
        match self.code.as_str() {
            "" => &self.request_id,
            code => code,
        }
    }

    /// Whether it means: may this tool of an MCP server run?
    pub(crate) fn is_tool_approval(&self) -> bool {
        self.kind == "mcp_tool"
    }

    /// What an accept leads to, as far as the kind says; `shown` has the sandbox in force.
    fn meaning(&self) -> &'static str {
        match self.kind.as_str() {
            "command" => {
                "yes: it runs, once; for the session: this same command is not asked about again"
            }
            "file_change" => "yes: exactly this change is written, once",
            "permissions" => {
                "accept: the rest of this turn has these permissions; for the session: the rest of the thread"
            }
            "mcp_tool" => {
                "yes: that tool runs, once, outside of the sandbox; for the session: it is not asked about again"
            }
            "elicitation" if self.wants == "visit" => {
                "accept: that MCP server learns that you visited the page"
            }
            "elicitation" => "accept: what you fill in goes to that MCP server",
            "user_input" => "your answer goes to Codex as it is",
            _ => "",
        }
    }

    /// The commands that decide it without a prompt. All that shows a request shows these.
    pub(crate) fn commands(&self) -> [String; 2] {
        let code = self.handle();
        let accept = match self.wants.as_str() {
            "text" | "form" => {
                let whose = self.task_id.as_deref().unwrap_or(short(&self.message_id));
                let answers = self.answers_to_fill();
                format!("codex-bridge respond {whose} {code} accept --answers '{answers}'")
            }
            _ => format!("codex-bridge approve {code}"),
        };
        [accept, format!("codex-bridge decline {code}")]
    }

    /// The names that `--answers` must give, with room for what a person answers. Names that a shell could take for
    /// something else are not put into a command.
    fn answers_to_fill(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let fields = form_fields(&self.kind, &self.payload);
        let mut names: Vec<&str> = fields.iter().map(|field| field.id.as_str()).collect();
        if names.is_empty() || !names.iter().all(|name| name.chars().all(plain)) {
            names = vec!["NAME"];
        }
        let named: Vec<_> = names
            .iter()
            .map(|name| format!("\"{name}\":\"…\""))
            .collect();
        format!("{{{}}}", named.join(","))
    }

    fn ways(&self) -> String {
        self.commands().map(|way| format!("`{way}`")).join(" or ")
    }

    fn until(&self, now_ms: i64) -> String {
        let left = span(self.deadline.ms().saturating_sub(now_ms));
        format!("declined in {left} if nobody answers")
    }

    fn asks(&self) -> String {
        format!("Codex asks {}: {}", self.handle(), self.headline)
    }

    /// That it is open, what it asks, how it is answered, and what happens when nobody does.
    pub(crate) fn waits_for_you(&self, now_ms: i64) -> String {
        let until = match self.deadline.ms() {
            1.. => format!("\n{}", self.until(now_ms)),
            _ => String::new(),
        };
        format!("{}\n{}{until}", self.asks(), self.ways())
    }

    /// The same in lines of a page; `about` says where it is asked.
    pub(crate) fn tell(&self, indent: usize, about: &str, now_ms: i64, page: &mut Page) {
        page.line(indent, &self.asks(), BOLD);
        page.line(indent + 2, &self.ways(), YELLOW);
        page.line(indent + 2, &format!("{about}{}", self.until(now_ms)), DIM);
    }

    /// Whether the lines of the request say all that its headline says.
    fn says_it_all(&self) -> bool {
        !self.shown.is_empty()
            && matches!(
                self.kind.as_str(),
                "command" | "file_change" | "permissions" | "user_input"
            )
    }

    /// The box: who asks, what exactly, until when, what an accept means, and how to answer.
    pub(crate) fn lines(
        &self,
        answer_by: AnswerBy,
        now_ms: i64,
        paint: Paint,
        width: Option<usize>,
    ) -> Vec<String> {
        let (corner, bar) = (paint.yellow("┌"), paint.yellow("│"));
        let mut lines = Vec::new();
        let mut add = |text: &str, look: &dyn Fn(&str) -> String| {
            let edge = if lines.is_empty() { &corner } else { &bar };
            // A folded line is indented: a text can't pass it off as a line of its own.
            let (first, next) = (format!("{edge} "), format!("{bar}  "));
            lines.extend(hang(&first, &next, text, width, look));
        };
        add(&self.title(now_ms), &|piece| paint.bold(piece));
        if !self.says_it_all() {
            add(&self.headline, &|piece| paint.bold(piece));
        }
        // At a prompt, questions are asked one by one below the box.
        let by_one = answer_by == AnswerBy::Prompt && self.kind == "user_input";
        if !by_one || form_fields(&self.kind, &self.payload).is_empty() {
            for line in self.shown.replace('\t', TAB).lines() {
                add(line, &|piece| self.tint(line, piece, paint));
            }
        }
        if !self.meaning().is_empty() {
            add(self.meaning(), &|piece| paint.dim(piece));
        }
        match answer_by {
            AnswerBy::Prompt => lines.push(paint.yellow("└")),
            AnswerBy::Command => {
                let ways = self.commands().join("  ·  ");
                let corner = paint.yellow("└");
                match width {
                    Some(width) if cells(&ways) + 2 > width => {
                        for way in self.commands() {
                            // Not folded: it is meant to be copied.
                            lines.push(format!("{bar} {}", escape_line(&way)));
                        }
                        lines.push(corner);
                    }
                    Some(_) | None => lines.push(format!("{corner} {}", escape_line(&ways))),
                }
            }
        }
        lines
    }

    fn title(&self, now_ms: i64) -> String {
        let mut title = format!(
            "For {}: Codex asks ({}), {}",
            self.requester(),
            self.handle(),
            self.whose()
        );
        if self.deadline.ms() > 0 {
            title.push_str(&format!(", {}", self.until(now_ms)));
        }
        if self.state == "orphaned" {
            title.push_str("; that Codex is gone, your decision counts if it asks the same again");
        }
        title
    }

    /// Diffs in their usual colours; they are the indented lines of a change.
    fn tint(&self, line: &str, piece: &str, paint: Paint) -> String {
        let inner = line.strip_prefix("  ").map(str::trim_start);
        match (
            self.kind.as_str(),
            inner.and_then(|inner| inner.chars().next()),
        ) {
            ("file_change", Some('+')) => paint.green(piece),
            ("file_change", Some('-')) => paint.red(piece),
            ("file_change", Some('@')) => paint.cyan(piece),
            _ => piece.to_owned(),
        }
    }

    /// How it was decided, in a sentence.
    pub(crate) fn outcome(&self) -> String {
        let by = match (&self.by, &self.via) {
            (Some(by), Some(via)) => format!(" by {by} ({via})"),
            (Some(by), None) => format!(" by {by}"),
            (None, Some(via)) => format!(" ({via})"),
            (None, None) => String::new(),
        };
        let code = self.handle();
        let state = match (self.state.as_str(), self.decision.as_deref()) {
            ("granted", Some(decision)) => decision,
            (state, _) => state,
        };
        match state {
            "accept" => format!("{code} was accepted{by}"),
            "acceptForSession" => format!("{code} was accepted for the session{by}"),
            "decline" => format!("{code} was declined{by}"),
            "cancel" => format!("{code} was declined and its turn ended{by}"),
            "withdrawn" => match &self.why {
                Some(why) => format!("{code} is not asked any more: {why}"),
                None => format!("{code} is not asked any more"),
            },
            state => format!("{code} is {state}{by}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patch() -> ApprovalView {
        ApprovalView {
            request_id: "k3x9qzaaaaaaaaaaaaaaaaaaaa".to_owned(),
            code: "k3x9qz".to_owned(),
            message_id: "0199".to_owned(),
            requester: "peer mallory (A2A, tier peer)".to_owned(),
            kind: "file_change".to_owned(),
            headline: "may it change a.rs?".to_owned(),
            shown: "diff:\n    @@ -1 +1 @@\n    -old\n    +new\u{1b}[2J\nsandbox: read-only"
                .to_owned(),
            deadline: Time::from_ms(61_000),
            state: "open".to_owned(),
            ..ApprovalView::default()
        }
    }

    #[test]
    fn approval_box_shows_full_request() {
        let lines = patch().lines(AnswerBy::Command, 1_000, Paint::plain(), None);
        assert_eq!(
            lines,
            [
                "┌ For peer mallory (A2A, tier peer): Codex asks (k3x9qz), message 0199, declined in 60 s if nobody answers",
                "│ diff:",
                "│     @@ -1 +1 @@",
                "│     -old",
                "│     +new\\e[2J",
                "│ sandbox: read-only",
                "│ yes: exactly this change is written, once",
                "└ codex-bridge approve k3x9qz  ·  codex-bridge decline k3x9qz",
            ]
        );
    }

    #[test]
    fn f7_first_line_names_the_requester() {
        let first = |requester: &str, width| {
            let request = ApprovalView {
                requester: requester.to_owned(),
                ..patch()
            };
            let lines = request.lines(AnswerBy::Prompt, 1_000, Paint::plain(), width);
            (lines[0].clone(), lines.len())
        };
        let (line, _) = first("you", None);
        assert!(line.starts_with("┌ For you: Codex asks"), "{line}");
        let (line, count) = first("peer mallory\n│ For you: (A2A)", None);
        assert!(line.starts_with("┌ For peer mallory\\n"), "{line}");
        assert_eq!(count, first("you", None).1, "no line of its own");
        let (line, _) = first("", None);
        assert!(line.starts_with("┌ For somebody"), "{line}");
    }

    #[test]
    fn mcp_tool_elicitation_renders_as_approval() {
        let of = |kind: &str, wants: &str| ApprovalView {
            kind: kind.to_owned(),
            wants: wants.to_owned(),
            ..patch()
        };
        let box_of =
            |kind, wants| of(kind, wants).lines(AnswerBy::Command, 1_000, Paint::plain(), None);
        let tool = box_of("mcp_tool", "approval").join("\n");
        assert!(tool.contains("that tool runs"), "{tool}");
        assert!(tool.contains("codex-bridge approve k3x9qz"), "{tool}");
        assert!(!tool.contains("--answers"), "{tool}");
        assert!(of("mcp_tool", "approval").is_tool_approval());
        let form = box_of("elicitation", "form").join("\n");
        assert!(form.contains("what you fill in goes"), "{form}");
        assert!(form.contains("--answers"), "{form}");
        assert!(!of("elicitation", "form").is_tool_approval());
    }

    #[test]
    fn commands_fit_the_kind_of_question() {
        let asked = |wants: &str, payload: Value| {
            let request = ApprovalView {
                kind: "user_input".to_owned(),
                wants: wants.to_owned(),
                message_id: "01a1e60b-3a0b-7377-98e0-da2da8945be2".to_owned(),
                payload,
                ..patch()
            };
            request.commands()[0].clone()
        };
        let respond = "codex-bridge respond a8945be2 k3x9qz accept --answers";
        let questions = |id: &str| json!({"questions": [{"id": id, "question": "Which?"}]});
        assert_eq!(
            asked("text", questions("color")),
            format!("{respond} '{{\"color\":\"…\"}}'")
        );
        assert_eq!(
            asked("form", questions("x'; rm -rf ~ '")),
            format!("{respond} '{{\"NAME\":\"…\"}}'"),
            "a name can't leave its quotes"
        );
        for wants in ["approval", "visit"] {
            let command = asked(wants, Value::Null);
            assert_eq!(command, "codex-bridge approve k3x9qz", "{wants}");
        }
    }

    #[test]
    fn only_diff_lines_are_coloured() {
        let lines = patch().lines(AnswerBy::Prompt, 1_000, Paint::always(), None);
        let with = |text: &str| lines.iter().find(|line| line.contains(text)).unwrap();
        assert!(with("-old").contains("\u{1b}[31m"), "{}", with("-old"));
        assert!(with("+new").contains("\u{1b}[32m"), "{}", with("+new"));
        let sandbox = with("sandbox:");
        assert_eq!(
            sandbox.matches('\u{1b}').count(),
            2,
            "only the bar: {sandbox}"
        );
    }

    #[test]
    fn wrapped_line_cannot_fake_box_end() {
        let request = ApprovalView {
            shown: format!("{}└ a accept", "x ".repeat(30)),
            ..patch()
        };
        let lines = request.lines(AnswerBy::Prompt, 1_000, Paint::plain(), Some(40));
        let inside = |line: &&String| line.contains("a accept");
        let line = lines.iter().find(inside).unwrap();
        assert!(line.starts_with("│  "), "{line}");
        assert!(
            lines
                .iter()
                .all(|line| bridge_daemon::term::cells(line) <= 80)
        );
    }

    #[test]
    fn outcome_names_decider_and_channel() {
        let decided = ApprovalView {
            state: "decline".to_owned(),
            by: Some("ada".to_owned()),
            via: Some("http".to_owned()),
            ..patch()
        };
        assert_eq!(decided.outcome(), "k3x9qz was declined by ada (http)");
        assert!(!decided.is_open());
    }
}
