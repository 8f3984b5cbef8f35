//! `audit`: what people did by hand, and whether the record of it is whole. It reads the ledger beside a daemon.

mod export;

use crate::cli::{Common, OutputArgs};
use crate::client;
use bridge_core::value::{AuditEntry, AuditFound, AuditLink};
use bridge_daemon::config::Environment;
use bridge_daemon::state::StateDir;
use bridge_daemon::term::{escape_line, when};
use bridge_store::AuditPublicKey;
use bridge_store::key::KeyError;
use bridge_store::sqlite::{self, AuditRecord, AuditSigner};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Most entries on one page.
const LIMIT_MAX: i64 = 10_000;

#[derive(Debug, Args)]
#[command(
    after_help = "Every entry is summed with the one before it, and the newest sum is signed with the ledger's key: an entry that was edited or taken out shows, and so does a record that was rewritten as a whole. Who has the public key can verify a ledger, or the output of `audit --json`, without the key itself.\n\nExit codes: 0 the record is whole; 1 it is not, or can't be read\n\nExample: codex-bridge audit --limit 5\nExample: codex-bridge audit --public-key\nExample: codex-bridge audit --verify --public-key ed25519:... --file acts.json"
)]
pub(crate) struct AuditArgs {
    /// How many entries, newest first
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=LIMIT_MAX))]
    limit: u32,
    /// Only say whether the record is whole
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// With --verify: verify with this public key; alone: print the public key of this ledger
    #[arg(long, value_name = "KEY", num_args = 0..=1, default_missing_value = "")]
    public_key: Option<String>,
    /// Verify this output of `audit --json` instead of the ledger
    #[arg(long, value_name = "FILE", requires_all = ["verify", "public_key"])]
    file: Option<PathBuf>,
}

/// Prints the record and judges it.
pub(crate) fn run(
    args: &AuditArgs,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let (text, whole) = answer(args, common, environment)?;
    client::print(&text, client::exit_code(whole))
}

/// What is printed, and whether all is well.
fn answer(
    args: &AuditArgs,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<(String, bool)> {
    let state = StateDir::existing(&environment.state_dir(common.state_dir.as_deref())?);
    let place = || common.find_key(environment, &state);
    let key = match args.public_key.as_deref() {
        Some("") if args.verify => anyhow::bail!(
            "--verify --public-key needs the key to verify with; `codex-bridge audit --public-key` prints it"
        ),
        Some("") => return Ok((place()?.load()?.public().to_string(), true)),
        Some(text) => Some(text.parse::<AuditPublicKey>()?),
        None => match place()?.load() {
            Ok(key) => Some(key.public()),
            Err(KeyError::Missing { .. }) => None,
            Err(error) => return Err(error.into()),
        },
    };
    if let (Some(file), Some(key)) = (&args.file, &key) {
        let found = export::verify(file, key)?;
        let said = format!("this part of the record is {}", verdict(&found));
        return Ok((escape_line(&said).into_owned(), found.is_ok()));
    }
    let record = sqlite::audit(&state.ledger(), args.limit, key.as_ref())?;
    let text = if args.output.json {
        format!("{:#}", export::in_json(record.as_ref(), args.verify))
    } else {
        in_words(record.as_ref(), args.verify)
    };
    Ok((text, record.is_none_or(|record| record.chain.is_ok())))
}

/// What the chain amounts to, as a line; `doctor` says the same.
pub(crate) fn verdict(chain: &Result<AuditFound, String>) -> String {
    match chain {
        Ok(AuditFound {
            chained,
            unchained: 0,
        }) => format!("whole, {chained} entries"),
        Ok(AuditFound { chained, unchained }) => {
            format!(
                "whole since its key began, {chained} entries; {unchained} older ones are not verified"
            )
        }
        Err(why) => format!("changed by hand: {why}"),
    }
}

/// Who vouches for it, as a line.
pub(crate) fn signed(signer: AuditSigner) -> String {
    match signer {
        AuditSigner::Verified(key) => format!("signed by {key}"),
        AuditSigner::Named(key) => format!(
            "signed by {key}, which only the ledger itself names: compare it with the one that you know"
        ),
        AuditSigner::Nobody => "not signed".to_owned(),
    }
}

fn in_words(record: Option<&AuditRecord>, verify: bool) -> String {
    let Some(record) = record else {
        return "nothing was done by hand yet".to_owned();
    };
    let line = |link: &AuditLink| {
        let row = link.row;
        let AuditEntry {
            at,
            actor,
            what,
            subject,
            detail,
        } = &link.entry;
        let line = format!(
            "{row:>5}  {}  {what} {subject} by {actor}  {detail}",
            when(at.0)
        );
        escape_line(line.trim_end()).into_owned()
    };
    let shown = record.newest.iter().filter(|_| !verify).map(line);
    let verdict = format!(
        "the record is {}; {}",
        verdict(&record.chain),
        signed(record.signer)
    );
    let lines: Vec<String> = shown.chain([escape_line(&verdict).into_owned()]).collect();
    lines.join("\n")
}
