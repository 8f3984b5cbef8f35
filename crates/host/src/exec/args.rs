//! The argument vector of one run of `codex exec`. Nothing of a message is in it: the text goes through stdin.
//!
//! One spelling for 0.150 to 0.166: flags stand before `resume`, because `resume` has no `--sandbox` and no `--cd`,
//! and images after it, because those before it belong to a new thread.

use bridge_codex::wire::thread::ThreadSettings;
use bridge_codex::wire::values::SandboxMode;
use bridge_core::port::TurnSpec;
use serde_json::Value;

/// The arguments of the run that is this turn. `settings` are what its thread is asked to be, `overrides` what every
/// Codex of ours gets.
pub(super) fn args(
    turn: &TurnSpec,
    settings: &ThreadSettings,
    overrides: Vec<String>,
) -> Vec<String> {
    let spec = &turn.spec;
    let mut args: Vec<String> = ["exec", "--skip-git-repo-check"]
        .map(str::to_owned)
        .to_vec();
    // Beside a permission profile it would drop the profile without a word, so it is one of the two.
    let sandbox = settings.sandbox.as_ref().map(SandboxMode::as_str);
    args.extend(sandbox.map(|mode| format!("--sandbox={mode}")));
    let workdir = settings.cwd.as_deref().unwrap_or(&spec.workdir);
    args.push(format!("--cd={workdir}"));
    args.extend(spec.model.iter().map(|model| format!("--model={model}")));
    let tables = tables(settings);
    // `codex exec` asks nobody, whatever its policy says. Set all the same: no other default can step in, and Codex does not
    // note the directory as trusted.
    let own = [
        "approval_policy=\"never\"".to_owned(),
        format!("developer_instructions={}", quoted(&spec.instructions)),
    ];
    for setting in tables.chain(overrides).chain(own) {
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

/// The keys of config.toml that a thread is given. Whole tables go first: what is said of one of their keys later stands
/// beside it.
pub(crate) fn tables(settings: &ThreadSettings) -> impl Iterator<Item = String> {
    let tables = settings.config.iter();
    tables.map(|(key, value)| format!("{key}={}", toml(value)))
}

/// A value as TOML, on one line. TOML has no null; a key without a value is left out.
fn toml(value: &Value) -> String {
    match value {
        Value::Null => "\"\"".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(toml).collect();
            format!("[{}]", values.join(","))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| format!("{}={}", quoted(key), toml(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
    }
}

/// A TOML string. Every character that TOML does not take as it is is written out.
pub(crate) fn quoted(text: &str) -> String {
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
    use bridge_core::port::{Reads, ThreadSpec, TurnTransport};
    use bridge_core::value::{ApprovalPolicy, ClientId, Sandbox, ThreadId};
    use serde_json::json;

    fn reader() -> ThreadSettings {
        ThreadSettings {
            sandbox: Some(SandboxMode::ReadOnly),
            ..ThreadSettings::default()
        }
    }

    fn turn(thread: ThreadId) -> TurnSpec {
        TurnSpec {
            thread,
            spec: ThreadSpec {
                workdir: "/w".to_owned(),
                sandbox: Sandbox::ReadOnly,
                approval_policy: ApprovalPolicy::OnRequest,
                model: Some("m".to_owned()),
                instructions: "a \"b\"\n\\\u{7f}".to_owned(),
                reads: Reads::Disk,
                transport: TurnTransport::Exec,
                codex_home: None,
                agents: Vec::new(),
            },
            client_id: ClientId::new("m1.1"),
            text: "--help; the secret text".to_owned(),
            images: vec!["/i.png".to_owned()],
            trace: None,
        }
    }

    #[test]
    fn args_omit_prompt_and_name_resumed_thread() {
        let new = args(
            &turn(ThreadId::unnamed("x")),
            &reader(),
            vec!["a=1".to_owned()],
        );
        let words = "exec --skip-git-repo-check --sandbox=read-only --cd=/w --model=m -c a=1 \
                     -c approval_policy=\"never\" -c";
        assert!(new.join(" ").starts_with(words), "{new:?}");
        assert_eq!(new[new.len() - 3..], ["--image=/i.png", "--json", "-"]);
        assert!(!new.iter().any(|word| word.contains("secret")), "{new:?}");
        let again = args(&turn(ThreadId::new("t")), &reader(), Vec::new());
        let end = ["resume", "t", "--image=/i.png", "--json", "-"];
        assert_eq!(again[again.len() - 5..], end);
    }

    #[test]
    fn instructions_are_one_toml_string() {
        let instructions = &args(&turn(ThreadId::new("t")), &reader(), Vec::new())[8];
        assert_eq!(
            instructions,
            r#"developer_instructions="a \"b\"\n\\\u007F""#
        );
    }

    /// Without a sandbox beside it: that would drop the profile.
    #[test]
    fn read_isolation_replaces_sandbox_argument() {
        let mut shielded = ThreadSettings::default();
        let profile = json!({"p": {"filesystem": {"/a b": "none", "x": null}, "on": [true, 1]}});
        shielded.config.insert("permissions".to_owned(), profile);
        let words = args(
            &turn(ThreadId::new("t")),
            &shielded,
            vec!["a.b=1".to_owned()],
        );
        assert!(!words.iter().any(|word| word.starts_with("--sandbox")));
        assert_eq!(
            words[4..8],
            [
                "-c",
                r#"permissions={"p"={"filesystem"={"/a b"="none"},"on"=[true,1]}}"#,
                "-c",
                "a.b=1"
            ]
        );
    }
}
