//! The audit record as JSON, and the verification of such a file with the public key alone.

use anyhow::{Context, bail};
use bridge_core::value::{AuditCheck, AuditEnds, AuditEntry, AuditFound, AuditLink, Timestamp};
use bridge_store::AuditPublicKey;
use bridge_store::sqlite::{AuditRecord, AuditSigner};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The longest file that is read: every entry that one page can have, at a generous size.
const FILE_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// What of the JSON is verified.
#[derive(Debug, Deserialize)]
struct Export {
    entries: Vec<ExportedEntry>,
    before: Option<String>,
    ends: ExportedEnds,
    signature: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ExportedEntry {
    row: i64,
    at: i64,
    actor: String,
    what: String,
    subject: String,
    detail: String,
    sum: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ExportedEnds {
    removed: Option<String>,
    newest: Option<String>,
    base: i64,
}

/// The record as JSON; without entries where only the verdict is wanted.
pub(super) fn in_json(record: Option<&AuditRecord>, verify: bool) -> Value {
    let entry = |link: &AuditLink| {
        json!({
            "row": link.row,
            "at": link.entry.at.0,
            "actor": link.entry.actor,
            "what": link.entry.what,
            "subject": link.entry.subject,
            "detail": link.entry.detail,
            "sum": link.sum,
        })
    };
    let entries: Vec<Value> = record
        .filter(|_| !verify)
        .into_iter()
        .flat_map(|record| record.newest.iter().map(entry))
        .collect();
    let chain = record.map(|record| &record.chain);
    let found = chain.and_then(|chain| chain.as_ref().ok());
    let signer = record.map_or(AuditSigner::Nobody, |record| record.signer);
    let (verified, key) = match signer {
        AuditSigner::Verified(key) => (true, Some(key.to_string())),
        AuditSigner::Named(key) => (false, Some(key.to_string())),
        AuditSigner::Nobody => (false, None),
    };
    let ends = record.map(|record| {
        let AuditEnds {
            removed,
            newest,
            base,
        } = &record.ends;
        json!({ "removed": removed, "newest": newest, "base": base })
    });
    json!({
        "ok": chain.is_none_or(Result::is_ok),
        "chained": found.map_or(0, |found| found.chained),
        "without_sums": found.map_or(0, |found| found.unchained),
        "broken": chain.and_then(|chain| chain.as_ref().err()),
        "signature_verified": verified,
        "public_key": key,
        "signature": record.and_then(|record| record.signature.clone()),
        "ends": ends,
        "before": record.and_then(|record| record.before.clone()),
        "entries": entries,
    })
}

/// Verifies a JSON that `audit --json` printed.
pub(super) fn verify(
    path: &Path,
    key: &AuditPublicKey,
) -> anyhow::Result<Result<AuditFound, String>> {
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
    Ok(judge(export, key))
}

fn judge(export: Export, key: &AuditPublicKey) -> Result<AuditFound, String> {
    let ExportedEnds {
        removed,
        newest,
        base,
    } = export.ends;
    let ends = AuditEnds {
        removed,
        newest,
        base,
    };
    let signature = export.signature.unwrap_or_default();
    if !key.verifies(&ends.statement(), &signature) {
        return Err(format!("it is not signed by the key {key}"));
    }
    let mut check = AuditCheck::behind(export.before, ends);
    for entry in export.entries.into_iter().rev() {
        check.next(&AuditLink {
            row: entry.row,
            sum: entry.sum,
            entry: AuditEntry {
                at: Timestamp(entry.at),
                actor: entry.actor,
                what: entry.what,
                subject: entry.subject,
                detail: entry.detail,
            },
        })?;
    }
    check.end()
}
