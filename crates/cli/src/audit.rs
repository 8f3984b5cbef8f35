//! `audit`: what people did by hand, and whether the record of it is whole. It reads the ledger beside a daemon.

use crate::cli::{Common, OutputArgs};
use crate::client;
use anyhow::{Context, bail};
use bridge_core::value::{AuditCheck, AuditEnds, AuditEntry, AuditFound, AuditLink};
use bridge_daemon::config::Environment;
use bridge_daemon::state::StateDir;
use bridge_daemon::term::{escape_line, when};
use bridge_store::AuditPublicKey;
use bridge_store::key::KeyError;
use bridge_store::sqlite::{self, AuditRecord, AuditSigner};
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Most entries on one page.
const LIMIT_MAX: i64 = 10_000;
/// The longest file that is read: every entry that one page can have, at a generous size.
const FILE_MAX_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug, Args)]
#[command(
    after_help = "Every entry is summed with the one before it, and the newest sum is signed with the database's key: an entry that was edited or taken out shows, and so does a record that was rewritten as a whole. Who has the public key can verify a database, or the output of `audit --json`, without the key itself.\n\nExit codes: 0 the record is whole; 1 it is not, or can't be read\n\nExample: codex-bridge audit --limit 5\nExample: codex-bridge audit --public-key\nExample: codex-bridge audit --verify --public-key ed25519:... --file acts.json"
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
    /// With --verify: verify with this public key; alone: print the public key of this database
    #[arg(long, value_name = "KEY", num_args = 0..=1, default_missing_value = "")]
    public_key: Option<String>,
    /// Verify this output of `audit --json` instead of the database
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
    let code = client::exit_code(whole);
    match args.output.json || args.public_key.as_deref() == Some("") {
        true => client::print(&text, code),
        false => client::tell(&text, code),
    }
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
        Some("") if args.verify => bail!(
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
        let found = verify_file(file, key)?;
        let said = format!("this part of the record is {}", verdict(&found));
        return Ok((escape_line(&said).into_owned(), found.is_ok()));
    }
    let record = sqlite::audit(&state.ledger(), args.limit, key.as_ref())?;
    let text = if args.output.json {
        format!("{:#}", in_json(record.as_ref(), args.verify))
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
            "signed by {key}, which only the database itself names: compare it with the one that you know"
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

/// What of the JSON is verified.
#[derive(Debug, Deserialize)]
struct AuditExport {
    entries: Vec<AuditLink>,
    before: Option<String>,
    ends: AuditEnds,
    signature: Option<String>,
}

/// The record as JSON; without entries where only the verdict is wanted.
fn in_json(record: Option<&AuditRecord>, verify: bool) -> Value {
    let entries: Vec<&AuditLink> = record
        .filter(|_| !verify)
        .into_iter()
        .flat_map(|record| &record.newest)
        .collect();
    let chain = record.map(|record| &record.chain);
    let found = chain.and_then(|chain| chain.as_ref().ok());
    let signer = record.map_or(AuditSigner::Nobody, |record| record.signer);
    let (verified, key) = match signer {
        AuditSigner::Verified(key) => (true, Some(key.to_string())),
        AuditSigner::Named(key) => (false, Some(key.to_string())),
        AuditSigner::Nobody => (false, None),
    };
    json!({
        "ok": chain.is_none_or(Result::is_ok),
        "chained": found.map_or(0, |found| found.chained),
        "without_sums": found.map_or(0, |found| found.unchained),
        "broken": chain.and_then(|chain| chain.as_ref().err()),
        "signature_verified": verified,
        "public_key": key,
        "signature": record.and_then(|record| record.signature.clone()),
        "ends": record.map(|record| &record.ends),
        "before": record.and_then(|record| record.before.clone()),
        "entries": entries,
    })
}

/// Verifies a JSON that `audit --json` printed.
fn verify_file(path: &Path, key: &AuditPublicKey) -> anyhow::Result<Result<AuditFound, String>> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("open {shown}"))?;
    let mut text = String::new();
    let mut file = file.take(FILE_MAX_BYTES + 1);
    file.read_to_string(&mut text)
        .with_context(|| format!("read {shown}"))?;
    if text.len() as u64 > FILE_MAX_BYTES {
        bail!("{shown} is longer than {FILE_MAX_BYTES} bytes; export fewer entries with --limit");
    }
    let export = serde_json::from_str(&text)
        .with_context(|| format!("{shown} is not what `codex-bridge audit --json` prints"))?;
    Ok(verify_export(export, key))
}

fn verify_export(export: AuditExport, key: &AuditPublicKey) -> Result<AuditFound, String> {
    let signature = export.signature.unwrap_or_default();
    if !key.verifies(&export.ends.statement(), &signature) {
        return Err(format!("it is not signed by the key {key}"));
    }
    let mut check = AuditCheck::behind(export.before, export.ends);
    for link in export.entries.iter().rev() {
        check.next(link)?;
    }
    check.end()
}
