//! The JSON Schemas of what `--json` prints, by command, made from the types that are printed.

use crate::audit::{AuditView, PublicKeyView};
use crate::backup::{BackupReport, RecoverReport};
use crate::call::CallView;
use crate::client::{
    self, DiscardReport, ErrorReport, PeerList, RehearsalView, RetryReport, StopReport, WatchLine,
};
use crate::doctor::DoctorView;
use crate::ledger::CopyView;
use crate::upgrade_codex::UpgradeReport;
use bridge_daemon::config::ConfigReport;
use bridge_front::{
    ConversationList, DeadList, DecisionView, ExplainView, LendView, LoginMade, MessageList,
    MessageView, MoveView, NodeActView, NodeList, NotifyReply, ReloadView, RequestList, ReturnView,
    StatusView, StopSenderView, StoryView, TaskPageView, TaskReply, TokenList, TokenMade,
    TokenRevoked,
};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::process::ExitCode;

type SchemaOf = fn(&mut SchemaGenerator) -> Value;

/// What each command prints. Behind its words is what makes it print something else.
const COMMANDS: &[(&str, SchemaOf)] = &[
    ("approve", schema::<DecisionView>),
    ("audit", schema::<AuditView>),
    ("audit --public-key", schema::<PublicKeyView>),
    ("backup", schema::<BackupReport>),
    ("call", schema::<CallView>),
    ("config check", schema::<ConfigReport>),
    ("console", schema::<LoginMade>),
    ("decline", schema::<DecisionView>),
    ("discard", schema::<DiscardReport>),
    ("doctor", schema::<DoctorView>),
    #[cfg(feature = "demo")]
    ("drill", schema::<bridge_demo::DrillView>),
    ("error", schema::<ErrorReport>),
    ("failed", schema::<DeadList>),
    ("ledger copy", schema::<CopyView>),
    ("lend", schema::<LendView>),
    ("list", schema::<TaskPageView>),
    ("log", schema::<MessageList>),
    ("log --follow", schema::<MessageView>),
    ("ls", schema::<ConversationList>),
    ("move", schema::<MoveView>),
    ("node activate", schema::<NodeActView>),
    ("node drain", schema::<NodeActView>),
    ("node list", schema::<NodeList>),
    ("notify-completed", schema::<NotifyReply>),
    ("peers add", schema::<TokenMade>),
    ("peers list", schema::<PeerList>),
    ("peers revoke", schema::<TokenRevoked>),
    ("policy explain", schema::<ExplainView>),
    ("recover", schema::<RecoverReport>),
    ("rehearse", schema::<RehearsalView>),
    ("reload", schema::<ReloadView>),
    ("requests", schema::<RequestList>),
    ("respond", schema::<TaskReply>),
    ("retry", schema::<RetryReport>),
    ("return", schema::<ReturnView>),
    ("send", schema::<MessageView>),
    ("show", schema::<StoryView>),
    ("start", schema::<TaskReply>),
    ("status", schema::<StatusView>),
    ("status --watch", schema::<StatusView>),
    ("status ID", schema::<TaskReply>),
    ("steer", schema::<TaskReply>),
    ("stop", schema::<StopReport>),
    ("stop --sender", schema::<StopSenderView>),
    ("stop TASK", schema::<TaskReply>),
    ("token add", schema::<TokenMade>),
    ("token list", schema::<TokenList>),
    ("token revoke", schema::<TokenRevoked>),
    ("upgrade-codex", schema::<UpgradeReport>),
    ("watch", schema::<WatchLine>),
    ("why", schema::<StoryView>),
];

/// The document.
fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let commands: Map<String, Value> = COMMANDS
        .iter()
        .map(|(words, schema)| ((*words).to_owned(), schema(&mut generator)))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What codex-bridge prints with --json, by command",
        "commands": commands,
        "$defs": generator.take_definitions(true),
    })
}

fn schema<T: schemars::JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

/// As it is published.
fn text() -> String {
    let text = serde_json::to_string_pretty(&document()).unwrap_or_default();
    format!("{text}\n")
}

/// Prints it.
pub(crate) fn print() -> anyhow::Result<ExitCode> {
    client::print(text().trim_end(), ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::{Command, CommandFactory};

    /// The words of every command with `--json` that people see.
    fn commands() -> Vec<String> {
        fn below(words: &str, command: &Command, found: &mut Vec<String>) {
            for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
                let words = format!("{words} {}", one.get_name());
                below(&words, one, found);
                if one
                    .get_arguments()
                    .any(|arg| arg.get_long() == Some("json"))
                {
                    found.push(words.trim().to_owned());
                }
            }
        }
        let mut cli = Cli::command();
        cli.build();
        let mut found = Vec::new();
        below("", &cli, &mut found);
        found
    }

    #[test]
    fn every_json_command_has_a_schema() {
        let found = commands();
        assert!(found.len() > 30, "{found:?}");
        for words in &found {
            let has = COMMANDS.iter().any(|(named, _)| named == words);
            assert!(has, "`{words} --json` has no schema in schemas.rs");
        }
        for (words, _) in COMMANDS {
            let is_command = found
                .iter()
                .any(|command| words.starts_with(command.as_str()));
            assert!(
                is_command || *words == "error",
                "there is no `{words} --json`"
            );
        }
    }

    #[test]
    fn page_names_every_command_and_form() {
        let page = include_str!("../../../docs/json.md");
        let document = document();
        for (words, _) in COMMANDS {
            let form = document["commands"][words]["$ref"].as_str().unwrap_or("");
            let form = form.rsplit('/').next().unwrap_or("");
            let row = page.lines().find(|line| {
                let row = line
                    .strip_prefix("| ")
                    .and_then(|row| row.split_once(" | "));
                row.is_some_and(|(commands, forms)| {
                    commands.contains(&format!("`{words}`")) && forms.contains(&format!("`{form}`"))
                })
            });
            assert!(
                row.is_some(),
                "docs/json.md has no row with `{words}` and `{form}`"
            );
        }
    }

    #[test]
    fn published_schemas_are_those_printed() {
        let published = include_str!("../../../docs/json.schema.json");
        assert!(
            published == text(),
            "write it again: codex-bridge api json > docs/json.schema.json"
        );
    }
}
