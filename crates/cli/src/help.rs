//! The first screen of help: commands in groups, the rare ones behind `help --all`.

use crate::cli::{Cli, HelpArgs};
use crate::client::{self, Page};
use bridge_daemon::term::Paint;
use clap::{Command, CommandFactory};
use std::process::ExitCode;

/// Width where there is no terminal.
const WIDTH_DEFAULT: usize = 80;
/// Widest help.
const WIDTH_MAX: usize = 100;
/// Cells of the names of commands.
const NAME_WIDTH: usize = 17;

/// The commands of the first screen, in its order.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Talk", &["send", "start", "steer", "stop", "lend"]),
    (
        "See",
        &["console", "ls", "log", "show", "why", "watch", "status"],
    ),
    (
        "Decide",
        &[
            "requests", "approve", "decline", "failed", "retry", "discard",
        ],
    ),
    ("Serve", &["init", "run", "service", "mcp", "demo"]),
    (
        "Manage",
        &[
            "doctor",
            "config",
            "reload",
            "token",
            "peers",
            "audit",
            "backup",
            "upgrade-codex",
            "completions",
        ],
    ),
];

/// Commands that few people type.
const RARE: [&str; 14] = [
    "list",
    "respond",
    "call",
    "notify-completed",
    "policy",
    "node",
    "move",
    "return",
    "recover",
    "rehearse",
    "ledger",
    "drill",
    "api",
    "help",
];

/// The command line with its first screen.
pub(crate) fn command() -> Command {
    let command = named(Cli::command());
    let width = client::stdout_width().unwrap_or(WIDTH_DEFAULT);
    let groups = groups(&command, width.min(WIDTH_MAX));
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\nOptions:\n{{options}}{{after-help}}"
    ))
}

/// Every command says the program's name and version, under whatever name it was started.
fn named(command: Command) -> Command {
    let name = "codex-bridge";
    command.display_name(name).mut_subcommands(named)
}

fn groups(command: &Command, width: usize) -> String {
    let mut page = Page::new(Paint::plain(), Some(width));
    let about = |name: &str| command.find_subcommand(name).and_then(Command::get_about);
    for (group, names) in GROUPS {
        page.line(0, &format!("{group}:"), client::PLAIN);
        for name in names {
            if let Some(about) = about(name) {
                // The rest of the sentence is in the command's own help.
                let about = about.to_string();
                let about = about.split([';', ':']).next().unwrap_or(&about);
                page.field(&format!("  {name}"), NAME_WIDTH, about);
            }
        }
        page.gap();
    }
    let more: Vec<&str> = RARE
        .into_iter()
        .filter(|name| about(name).is_some())
        .collect();
    let more = format!("{} (`codex-bridge help --all`)", more.join(", "));
    page.hang("More: ", 6, &more, client::PLAIN);
    page.into_text()
}

/// `help`: the first screen, all commands, or one of them.
pub(crate) fn help(args: &HelpArgs) -> anyhow::Result<ExitCode> {
    let mut command = if args.all { Cli::command() } else { command() };
    command.build();
    let mut found = &mut command;
    for name in &args.command {
        found = match found.find_subcommand_mut(name) {
            Some(below) => below,
            None => {
                anyhow::bail!("there is no command {name}; `codex-bridge help --all` lists all")
            }
        };
    }
    let text = found.render_long_help().to_string();
    client::print(text.trim_end(), ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_a_group() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
        for one in shown {
            let name = one.get_name();
            let grouped = GROUPS.iter().any(|(_, names)| names.contains(&name));
            assert!(grouped != RARE.contains(&name), "{name} has one place");
        }
    }

    #[test]
    fn every_command_names_the_program() {
        for line in [
            &["codex-channel-molecule", "run", "--version"][..],
            &["codex-bridge", "token", "add", "-V"],
        ] {
            let shown = command().try_get_matches_from(line).unwrap_err();
            let version = env!("CARGO_PKG_VERSION");
            assert_eq!(shown.to_string(), format!("codex-bridge {version}\n"));
        }
    }

    #[test]
    fn first_screen_fits_eighty_columns() {
        let text = command().render_help().to_string();
        let wide = groups(&Cli::command(), 80);
        assert!(
            wide.lines().all(|line| line.chars().count() <= 80),
            "{wide}"
        );
        assert!(text.contains("Talk:") && text.contains("More: "), "{text}");
        assert!(!text.contains("\n  notify-completed"), "{text}");
    }
}
