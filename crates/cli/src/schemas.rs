//! The JSON Schemas of what `--json` prints, by command, made from the types that are printed.

use crate::client::{self, ErrorReport, RetryReport, StopReport};
use bridge_front::{
    ConversationList, DeadList, MessageList, NotifyReply, ReloadView, RequestList, StatusView,
    StopSenderView, StoryView, TaskPageView, TaskReply, TokenList, TokenMade, TokenRevoked,
};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use std::process::ExitCode;

/// The document.
fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let commands = json!({
        "error": schema::<ErrorReport>(&mut generator),
        "failed": schema::<DeadList>(&mut generator),
        "list": schema::<TaskPageView>(&mut generator),
        "log": schema::<MessageList>(&mut generator),
        "ls": schema::<ConversationList>(&mut generator),
        "notify-completed": schema::<NotifyReply>(&mut generator),
        "reload": schema::<ReloadView>(&mut generator),
        "requests": schema::<RequestList>(&mut generator),
        "retry": schema::<RetryReport>(&mut generator),
        "show": schema::<StoryView>(&mut generator),
        "start": schema::<TaskReply>(&mut generator),
        "status": schema::<StatusView>(&mut generator),
        "status ID": schema::<TaskReply>(&mut generator),
        "steer": schema::<TaskReply>(&mut generator),
        "stop": schema::<StopReport>(&mut generator),
        "stop --sender": schema::<StopSenderView>(&mut generator),
        "token add": schema::<TokenMade>(&mut generator),
        "token list": schema::<TokenList>(&mut generator),
        "token revoke": schema::<TokenRevoked>(&mut generator),
        "why": schema::<StoryView>(&mut generator),
    });
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

    #[test]
    fn published_schemas_are_those_printed() {
        let published = include_str!("../../../docs/json.schema.json");
        assert!(
            published == text(),
            "write it again: codex-bridge api json > docs/json.schema.json"
        );
    }
}
