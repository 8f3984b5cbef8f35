//! The argument vector of one run of `codex exec`. Nothing of a message is in it: the text goes through stdin.
//!
//! One spelling for 0.150 to 0.166: flags stand before `resume`, because `resume` has no `--sandbox` and no `--cd`,
//! and images after it, because those before it belong to a new thread.

use bridge_core::port::TurnSpec;
use bridge_core::value::Sandbox;

/// The arguments of the run that is this turn. `overrides` are what every Codex of ours is told.
pub(super) fn args(turn: &TurnSpec, overrides: Vec<String>) -> Vec<String> {
    let spec = &turn.spec;
    let mut args: Vec<String> = ["exec", "--skip-git-repo-check"]
        .map(str::to_owned)
        .to_vec();
    args.push(format!("--sandbox={}", sandbox(spec.sandbox)));
    args.push(format!("--cd={}", spec.workdir));
    args.extend(spec.model.iter().map(|model| format!("--model={model}")));
    // `codex exec` asks nobody, whatever it is told; said all the same, so that no other default can step in.
    let own = [
        "approval_policy=\"never\"".to_owned(),
        format!("developer_instructions={}", quoted(&spec.instructions)),
    ];
    for setting in overrides.into_iter().chain(own) {
        args.extend(["-c".to_owned(), setting]);
    }
    if !turn.thread.is_unnamed() {
        args.extend(["resume".to_owned(), turn.thread.as_str().to_owned()]);
    }
    // With `=`: `--image` takes all words that follow it.
    args.extend(turn.images.iter().map(|path| format!("--image={path}")));
    args.extend(["--json", "-"].map(str::to_owned));
    args
}

fn sandbox(sandbox: Sandbox) -> &'static str {
    match sandbox {
        Sandbox::ReadOnly => "read-only",
        Sandbox::WorkspaceWrite => "workspace-write",
        Sandbox::DangerFullAccess => "danger-full-access",
    }
}

/// A TOML string. Every character that TOML does not take as it is is written out.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::port::{ThreadSpec, TurnTransport};
    use bridge_core::value::{ApprovalPolicy, ClientId, ThreadId};

    fn turn(thread: ThreadId) -> TurnSpec {
        TurnSpec {
            thread,
            spec: ThreadSpec {
                workdir: "/w".to_owned(),
                sandbox: Sandbox::ReadOnly,
                approval_policy: ApprovalPolicy::OnRequest,
                model: Some("m".to_owned()),
                instructions: "a \"b\"\n\\\u{7f}".to_owned(),
                transport: TurnTransport::Exec,
            },
            client_id: ClientId::new("m1.1"),
            text: "--help; the secret text".to_owned(),
            images: vec!["/i.png".to_owned()],
        }
    }

    #[test]
    fn a_text_is_never_an_argument_and_a_resume_names_its_thread() {
        let new = args(&turn(ThreadId::unnamed("x")), vec!["a=1".to_owned()]);
        let words = "exec --skip-git-repo-check --sandbox=read-only --cd=/w --model=m -c a=1 \
                     -c approval_policy=\"never\" -c";
        assert!(new.join(" ").starts_with(words), "{new:?}");
        assert_eq!(new[new.len() - 3..], ["--image=/i.png", "--json", "-"]);
        assert!(!new.iter().any(|word| word.contains("secret")), "{new:?}");
        let again = args(&turn(ThreadId::new("t")), Vec::new());
        let end = ["resume", "t", "--image=/i.png", "--json", "-"];
        assert_eq!(again[again.len() - 5..], end);
    }

    #[test]
    fn instructions_are_one_toml_string() {
        let instructions = &args(&turn(ThreadId::new("t")), Vec::new())[8];
        assert_eq!(
            instructions,
            r#"developer_instructions="a \"b\"\n\\\u007F""#
        );
    }
}
