//! What packages make of the command line: completion scripts of shells, with the names that they complete with
//! (`complete` prints what there is now), and manual pages.

use crate::cli::{Cli, CompleteKind};
use crate::client::{self, ApiClient};
use anyhow::Context;
use bridge_core::limits::PAGE_MAX;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// How long a shell waits for names.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the scripts of bash call before their own completion.
const BASH: &str = r#"
_codex_bridge_names() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" word="" kind=""
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$word" in
            show|why|watch|stop|interrupt|cancel|steer|status|retry|discard) kind=ids; break ;;
            log|move|lend|open|return) kind=conversations; break ;;
            approve|decline) kind=codes; break ;;
        esac
    done
    case "$prev" in
        -c|--conversation) kind=conversations ;;
    esac
    if [[ -n "$kind" && "$cur" != -* ]]; then
        local IFS=$'\n'
        COMPREPLY=($(compgen -W "$(codex-bridge complete "$kind" 2>/dev/null | cut -f1)" -- "$cur"))
        return 0
    fi
    NAME "$@"
}
complete -F _codex_bridge_names -o bashdefault -o default codex-bridge
"#;

/// What zsh's arguments of these names call.
const ZSH: &str = r#"
_codex_bridge_names() {
    local -a names
    names=(${(f)"$(codex-bridge complete $1 2>/dev/null | cut -f1)"})
    compadd -a names
}
"#;

const FISH: &str = r#"
complete -c codex-bridge -n "__fish_seen_subcommand_from show why watch stop interrupt cancel steer status retry discard" -f -a "(codex-bridge complete ids 2>/dev/null)"
complete -c codex-bridge -n "__fish_seen_subcommand_from log move lend open return" -f -a "(codex-bridge complete conversations 2>/dev/null)"
complete -c codex-bridge -n "__fish_seen_subcommand_from approve decline" -f -a "(codex-bridge complete codes 2>/dev/null)"
complete -c codex-bridge -n "__fish_seen_subcommand_from send" -s c -l conversation -r -f -a "(codex-bridge complete conversations 2>/dev/null)"
"#;

/// Prints the script of a shell.
pub(crate) fn script(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown(), "codex-bridge", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => script.push_str(&bash_names(&script)),
        Shell::Zsh => script = with_names(&script),
        Shell::Fish => script.push_str(FISH),
        _ => {}
    }
    client::print(script.trim_end(), ExitCode::SUCCESS)
}

/// Writes the manual pages of all commands but the hidden ones.
pub(crate) fn manual(directory: &Path) -> anyhow::Result<ExitCode> {
    let written = clap_mangen::generate_to(Cli::command(), directory);
    written.with_context(|| format!("write manual pages to {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// What bash gets behind its script, whose first line begins the function that completes commands and flags.
fn bash_names(script: &str) -> String {
    let name = script.split('(').next().unwrap_or_default();
    BASH.replace("NAME", name.trim())
}

/// The command line without the commands that people do not type.
fn shown() -> Command {
    let all = Cli::command();
    let own = all.get_arguments().filter(|arg| !arg.is_hide_set());
    let commands = all.get_subcommands().filter(|one| !one.is_hide_set());
    Command::default()
        .name("codex-bridge")
        .disable_help_subcommand(true)
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(own)
        .subcommands(commands)
}

/// Zsh's script, whose ids, codes and conversations call for names.
fn with_names(script: &str) -> String {
    let kinds = [
        (":id -- ", "ids"),
        ("::ids -- ", "ids"),
        (":code -- ", "codes"),
        (":conversation -- ", "conversations"),
        ("'--conversation=", "conversations"),
    ];
    let mut lines: Vec<String> = script.lines().map(ToOwned::to_owned).collect();
    for line in &mut lines {
        if let Some((_, kind)) = kinds.iter().find(|(mark, _)| line.contains(mark)) {
            *line = line.replace(":_default'", &format!(":_codex_bridge_names {kind}'"));
        }
    }
    // The first line says what it completes.
    lines.insert(1.min(lines.len()), ZSH.to_owned());
    lines.join("\n")
}

/// Prints the names of a kind, one per line, with what they stand for behind a tab. A shell hears of no failure.
pub(crate) async fn names(api: &ApiClient, kind: CompleteKind) -> anyhow::Result<ExitCode> {
    let found = tokio::time::timeout(PATIENCE, client::names(api, kind, PAGE_MAX)).await;
    match found {
        Ok(Ok(names)) if !names.is_empty() => client::print(&names.join("\n"), ExitCode::SUCCESS),
        _ => Ok(ExitCode::SUCCESS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_calls_a_function_that_exists() {
        let mut script = Vec::new();
        clap_complete::generate(Shell::Bash, &mut shown(), "codex-bridge", &mut script);
        let script = String::from_utf8(script).unwrap();
        let names = bash_names(&script);
        let call = names
            .lines()
            .find(|line| line.ends_with(" \"$@\""))
            .unwrap();
        let called = call.trim().trim_end_matches(" \"$@\"");
        assert!(script.contains(&format!("{called}() {{")), "{called}");
    }

    #[test]
    fn scripts_name_no_hidden_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut shown(), "codex-bridge", &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("conversation"), "{shell}");
            assert!(script.contains("state-dir"), "{shell}");
            assert!(!script.contains("keeper"), "{shell}: {script}");
        }
    }

    #[test]
    fn zsh_completes_names_of_ids() {
        let script = "#compdef codex-bridge\n':id -- A message:_default' \\\n'--limit=[How many]:N:_default' \\";
        let changed = with_names(script);
        assert!(changed.starts_with("#compdef codex-bridge\n"), "{changed}");
        assert!(
            changed.contains("':id -- A message:_codex_bridge_names ids'"),
            "{changed}"
        );
        assert!(changed.contains("N:_default'"), "{changed}");
    }
}
