//! `audit`: what people did by hand, and whether the record of it is whole. It reads the ledger beside a daemon.

use crate::cli::{Common, OutputArgs};
use crate::client;
use anyhow::{Context, bail};
use bridge_core::value::{AuditCheck, AuditEnds, AuditEntry, AuditFound, AuditLink};
use bridge_daemon::config::{self, Environment};
use bridge_daemon::state::StateDir;
use bridge_daemon::term::{escape_line, when};
use bridge_front::{AuditEntryView, AuditPartView};
use bridge_store::key::KeyError;
use bridge_store::sqlite::{self, AuditRecord, AuditSigner};
use bridge_store::{AuditPublicKey, PostgresUrl, postgres};
use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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
    let state = StateDir::existing(&environment.state_dir(common.state_dir.as_deref())?);
    state.may_enter()?;
    let place = || common.find_key(environment, &state);
    let key = match args.public_key.as_deref() {
        Some("") if args.verify => bail!(
            "--verify --public-key needs the key to verify with; `codex-bridge audit --public-key` prints it"
        ),
        Some("") => {
            let public_key = place()?.load()?.public().to_string();
            let view = PublicKeyView { public_key };
            return args
                .output
                .show(&view, ExitCode::SUCCESS, |view| view.public_key.clone());
        }
        Some(text) => Some(text.parse::<AuditPublicKey>()?),
        None => match place()?.load() {
            Ok(key) => Some(key.public()),
            Err(KeyError::Missing { .. }) => None,
            Err(error) => return Err(error.into()),
        },
    };
    if let (Some(file), Some(key)) = (&args.file, &key) {
        let export = read_export(file)?;
        let chain = verify_export(&export, key);
        let code = client::exit_code(chain.is_ok());
        return args
            .output
            .show(&AuditView::of_file(&export, &chain, key), code, |_| {
                let said = format!("this part of the record is {}", verdict(&chain));
                escape_line(&said).into_owned()
            });
    }
    let record = match database(common, environment)? {
        Some(url) => postgres::audit(&url, args.limit, key.as_ref())?,
        None => sqlite::audit(&state.ledger(), args.limit, key.as_ref())?,
    };
    let whole = record.as_ref().is_none_or(|record| record.chain.is_ok());
    let view = AuditView::of(record.as_ref(), args.verify);
    args.output.show(&view, client::exit_code(whole), |_| {
        in_words(record.as_ref(), args.verify)
    })
}

/// The database that the configuration names. With one that can't be used nobody knows where the record is: the file in
/// the state directory may be of the time before it was copied to PostgreSQL.
fn database(common: &Common, environment: &Environment) -> anyhow::Result<Option<PostgresUrl>> {
    let (file, state_dir) = (common.config.as_deref(), common.state_dir.as_deref());
    let loaded =
        config::load(file, environment, state_dir).context("find which database has the record")?;
    bridge_daemon::database_url(&loaded.config)
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

/// What `audit --public-key --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PublicKeyView {
    public_key: String,
}

/// What `audit --json` prints; also what `--file` reads.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AuditView {
    /// Whether the record is whole.
    ok: bool,
    /// Entries whose sums were verified.
    chained: u64,
    /// Older entries, from before the ledger's key signed for the first time.
    without_sums: u64,
    /// What was changed by hand.
    broken: Option<String>,
    /// Whether the signature is one of a key that was given, or of the ledger's own.
    signature_verified: bool,
    /// The record; without entries with `--verify`.
    #[serde(flatten)]
    part: AuditPartView,
}

impl AuditView {
    /// The record; without entries where only the verdict is wanted.
    fn of(record: Option<&AuditRecord>, verify: bool) -> Self {
        let Some(record) = record else {
            return Self {
                ok: true,
                ..Self::default()
            };
        };
        let (signature_verified, public_key) = match record.signer {
            AuditSigner::Verified(key) => (true, Some(key.to_string())),
            AuditSigner::Named(key) => (false, Some(key.to_string())),
            AuditSigner::Nobody => (false, None),
        };
        let entries = record.newest.iter().filter(|_| !verify);
        Self {
            signature_verified,
            part: AuditPartView {
                public_key,
                signature: record.signature.clone(),
                ends: Some((&record.ends).into()),
                before: record.before.clone(),
                entries: entries.map(AuditEntryView::from).collect(),
            },
            ..Self::judged(&record.chain)
        }
    }

    /// What was found about an export.
    fn of_file(export: &Self, chain: &Result<AuditFound, String>, key: &AuditPublicKey) -> Self {
        Self {
            signature_verified: export.is_signed_by(key),
            part: AuditPartView {
                public_key: Some(key.to_string()),
                ..AuditPartView::default()
            },
            ..Self::judged(chain)
        }
    }

    fn judged(chain: &Result<AuditFound, String>) -> Self {
        let found = chain.as_ref().ok();
        Self {
            ok: chain.is_ok(),
            chained: found.map_or(0, |found| found.chained),
            without_sums: found.map_or(0, |found| found.unchained),
            broken: chain.as_ref().err().cloned(),
            ..Self::default()
        }
    }

    fn ends(&self) -> AuditEnds {
        self.part
            .ends
            .clone()
            .map(AuditEnds::from)
            .unwrap_or_default()
    }

    fn is_signed_by(&self, key: &AuditPublicKey) -> bool {
        let signature = self.part.signature.as_deref().unwrap_or_default();
        key.verifies(&self.ends().statement(), signature)
    }
}

/// Reads what `audit --json` printed.
fn read_export(path: &Path) -> anyhow::Result<AuditView> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("open {shown}"))?;
    let mut text = String::new();
    let mut file = file.take(FILE_MAX_BYTES + 1);
    file.read_to_string(&mut text)
        .with_context(|| format!("read {shown}"))?;
    if text.len() as u64 > FILE_MAX_BYTES {
        bail!("{shown} is longer than {FILE_MAX_BYTES} bytes; export fewer entries with --limit");
    }
    serde_json::from_str(&text)
        .with_context(|| format!("{shown} is not what `codex-bridge audit --json` prints"))
}

fn verify_export(export: &AuditView, key: &AuditPublicKey) -> Result<AuditFound, String> {
    if !export.is_signed_by(key) {
        return Err(format!("it is not signed by the key {key}"));
    }
    let mut check = AuditCheck::behind(export.part.before.clone(), export.ends());
    for entry in export.part.entries.iter().rev() {
        check.next(&entry.clone().into())?;
    }
    check.end()
}
