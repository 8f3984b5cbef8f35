//! `audit`: what people did by hand, and whether the record of it is whole. It reads the ledger beside a daemon.

use crate::cli::Common;
use crate::config::Environment;
use crate::state::StateDir;
use crate::term::{self, escape_line, when};
use bridge_core::value::{AuditEntry, AuditFound};
use bridge_store::sqlite::{self, AuditRecord};
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Most entries on one page.
const LIMIT_MAX: i64 = 10_000;

#[derive(Debug, Args)]
#[command(
    after_help = "Every entry is summed with the one before it: one that was edited or taken out shows. The sums hold no secret, so they prove nothing against somebody who rewrites the whole record.\n\nExit codes: 0 the record is whole; 1 it is not, or can't be read\n\nExample: codex-bridge audit --limit 5"
)]
pub(crate) struct AuditArgs {
    /// How many entries, newest first
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=LIMIT_MAX))]
    limit: u32,
    /// Only say whether the record is whole
    #[arg(long)]
    verify: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the record and judges it.
pub(crate) fn run(args: &AuditArgs, common: &Common, environment: &Environment) -> ExitCode {
    let record = match read(args, common, environment) {
        Ok(record) => record,
        Err(error) => {
            term::complain(&term::escape(&format!("{error:#}")));
            return ExitCode::FAILURE;
        }
    };
    let text = match args.json {
        true => format!("{:#}", in_json(record.as_ref(), args.verify)),
        false => in_words(record.as_ref(), args.verify),
    };
    let whole = record.is_none_or(|record| record.chain.is_ok());
    match (term::print(&text), whole) {
        (Ok(()), true) => ExitCode::SUCCESS,
        (Ok(()), false) | (Err(_), _) => ExitCode::FAILURE,
    }
}

fn read(
    args: &AuditArgs,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<Option<AuditRecord>> {
    let root = environment.state_dir(common.state_dir.as_deref())?;
    Ok(sqlite::audit(
        &StateDir::existing(&root).ledger(),
        args.limit,
    )?)
}

/// What the chain amounts to, as a line; `doctor` says the same.
pub(crate) fn verdict(chain: &Result<AuditFound, String>) -> String {
    match chain {
        Ok(AuditFound {
            chained,
            unchained: 0,
        }) => format!("whole, {chained} entries"),
        Ok(AuditFound { chained, unchained }) => {
            format!("whole, {chained} entries, and {unchained} older ones without sums")
        }
        Err(why) => format!("changed by hand: {why}"),
    }
}

fn in_words(record: Option<&AuditRecord>, verify: bool) -> String {
    let Some(record) = record else {
        return "nothing was done by hand yet".to_owned();
    };
    let line = |(row, entry): &(i64, AuditEntry)| {
        let AuditEntry {
            at,
            actor,
            what,
            subject,
            detail,
        } = entry;
        let line = format!(
            "{row:>5}  {}  {what} {subject} by {actor}  {detail}",
            when(at.0)
        );
        escape_line(line.trim_end()).into_owned()
    };
    let shown = record.newest.iter().filter(|_| !verify).map(line);
    let verdict = format!("the record is {}", verdict(&record.chain));
    let lines: Vec<String> = shown.chain([escape_line(&verdict).into_owned()]).collect();
    lines.join("\n")
}

fn in_json(record: Option<&AuditRecord>, verify: bool) -> Value {
    let entry = |(row, entry): &(i64, AuditEntry)| {
        json!({
            "row": row,
            "at": entry.at.0,
            "actor": entry.actor,
            "what": entry.what,
            "subject": entry.subject,
            "detail": entry.detail,
        })
    };
    let entries: Vec<Value> = record
        .filter(|_| !verify)
        .into_iter()
        .flat_map(|record| record.newest.iter().map(entry))
        .collect();
    let chain = record.map(|record| &record.chain);
    let found = chain.and_then(|chain| chain.as_ref().ok());
    json!({
        "ok": chain.is_none_or(Result::is_ok),
        "chained": found.map_or(0, |found| found.chained),
        "without_sums": found.map_or(0, |found| found.unchained),
        "broken": chain.and_then(|chain| chain.as_ref().err()),
        "entries": entries,
    })
}
