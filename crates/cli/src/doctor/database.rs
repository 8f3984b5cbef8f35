//! A database of PostgreSQL: whether a daemon could open it, and what its server must be set to where not.

use super::report::{Check, DoctorReport, Topic};
use super::state::{key, key_is_here, record};
use bridge_daemon::ledger_key::KeyLocation;
use bridge_store::key::KeyError;
use bridge_store::postgres::{self, DatabaseReport};
use bridge_store::sqlite::AuditSigner;
use bridge_store::{AuditPublicKey, LedgerKey, PostgresUrl};

const DATABASE: Topic = Topic("ledger", "database");

/// Looks at it beside the daemons that share it.
pub(super) fn check(
    url: &PostgresUrl,
    place: &KeyLocation,
    loaded: &Result<LedgerKey, KeyError>,
    report: &mut DoctorReport,
) {
    let found = match postgres::examine(url) {
        Ok(found) => found,
        Err(error) => return report.add(DATABASE.of_error(&error)),
    };
    report.add(schema(&found));
    for warning in &found.warnings {
        report.add(match warning.split_once("; ") {
            Some((what, fix)) => DATABASE.warn(what, fix),
            None => DATABASE.warn(warning, "see the documentation of PostgreSQL"),
        });
    }
    let signer = match postgres::audit(url, 1, None) {
        Ok(acts) => acts.and_then(|acts| named(acts.signer)),
        Err(error) => return report.add(DATABASE.of_error(&error)),
    };
    let loaded_key = key(signer, place, loaded);
    report.add(loaded_key.map_or_else(|check| check, |key| key_is_here(place, key)));
    let public = loaded.as_ref().ok().map(LedgerKey::public);
    report.add(record(postgres::audit(url, 1, public.as_ref())));
}

/// The key that a record names.
fn named(signer: AuditSigner) -> Option<AuditPublicKey> {
    match signer {
        AuditSigner::Verified(key) | AuditSigner::Named(key) => Some(key),
        AuditSigner::Nobody => None,
    }
}

fn schema(found: &DatabaseReport) -> Check {
    let DatabaseReport {
        place,
        schema,
        known,
        older_nodes,
        ..
    } = found;
    if *schema == 0 {
        return DATABASE.ok(format!(
            "{place} is empty; the daemon makes its tables there"
        ));
    }
    if schema > known {
        return DATABASE.warn(
            format!("{place} has schema version {schema}, of a newer codex-bridge; this one knows {known} and may still use it"),
            "upgrade this codex-bridge",
        );
    }
    if schema == known {
        return DATABASE.ok(format!("{place}, schema version {schema}"));
    }
    let older = format!("{place} has schema version {schema}, of an older codex-bridge");
    if older_nodes.is_empty() {
        let fix = format!("start the daemon: it brings the database to version {known}");
        return DATABASE.warn(older, fix);
    }
    let nodes = older_nodes.join(", ");
    DATABASE.fail(
        format!("{older}, and these nodes could not use version {known}: {nodes}"),
        "stop them first (`codex-bridge node drain NODE`), then start the daemon here: it changes the database",
    )
}

#[cfg(test)]
mod tests {
    use super::super::report::CheckStatus;
    use super::*;

    #[test]
    fn schemas_say_what_to_do() {
        let found = |schema, known, nodes: &[&str]| {
            let check = super::schema(&DatabaseReport {
                place: "bridge on db".to_owned(),
                schema,
                known,
                older_nodes: nodes.iter().map(|&node| node.to_owned()).collect(),
                warnings: Vec::new(),
            });
            (check.status(), check.words())
        };
        assert_eq!(found(0, 2, &[]).0, CheckStatus::Ok);
        assert_eq!(found(2, 2, &[]).0, CheckStatus::Ok);
        for (schema, nodes, status, words) in [
            (
                1,
                &[][..],
                CheckStatus::Warn,
                "brings the database to version 2",
            ),
            (3, &[], CheckStatus::Warn, "upgrade this codex-bridge"),
            (
                1,
                &["a", "b"],
                CheckStatus::Fail,
                "could not use version 2: a, b",
            ),
        ] {
            let (found, said) = found(schema, 2, nodes);
            assert_eq!(found, status, "{said}");
            assert!(said.contains(words), "{said}");
        }
    }
}
