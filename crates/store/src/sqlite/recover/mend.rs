//! Makes rows that were brought over a ledger again: nothing may run twice, every reference holds, and what is
//! missing is said in the row itself.
//!
//! A message that may have gone further than its row says becomes a dead letter with a notice to its sender; it is
//! never put back into the queue. Rows that belong to nothing are dropped and counted. The rows are in the newest
//! version of the schema here.

use super::salvage::{Identity, SEQUENCE_LEAP, SalvagedRows};
use super::{RecoveryNotice, RecoveryReport, TableReport};
use crate::key::LedgerKey;
use crate::sql::{audit, sums};
use bridge_core::port::RowsError;
use bridge_core::value::{AuditEntry, MessageId, ReplyKey, Timestamp};
use rusqlite::{Connection, Error, OptionalExtension, params};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Input of a recovery.
pub(super) struct RecoverSettings<'a> {
    pub(super) work_root: &'a Path,
    pub(super) now: Timestamp,
    pub(super) key: &'a LedgerKey,
    /// Commits at the end of the damaged ledger are lost, so that any row may be older than it looks.
    pub(super) log_broken: bool,
}

/// No answer yet: the messages that could be run.
const AWAITS: &str =
    "state IN ('received', 'claimed', 'starting', 'running', 'unclear', 'steered', 'parked')";
/// With Codex, as far as the row knows.
const FLIGHT: &str =
    "(state IN ('claimed', 'starting', 'running') OR (state = 'unclear' AND hold_until IS NULL))";
/// Holds its conversation back without taking the place of a turn.
const KEPT: &str =
    "(state IN ('steered', 'parked') OR (state = 'unclear' AND hold_until IS NOT NULL))";
/// Answered, and not finished.
const OUT: &str = "state IN ('answered', 'sending')";

const LOST_TEXT: &str = "(this text was lost when the database was damaged)";

/// Tables whose rows belong to a message.
const CHILDREN: [&str; 6] = ["turn", "answer", "reply", "request", "event", "task_input"];

/// Brings the rows in order and says what was done.
pub(super) fn mend(
    new: &Connection,
    found: SalvagedRows,
    settings: &RecoverSettings<'_>,
) -> Result<RecoveryReport, Error> {
    let mut mender = Mender {
        new,
        settings,
        report: RecoveryReport::default(),
        counts: found.counts,
    };
    mender.tombstones(&found.identities)?;
    mender.lost(&found.identities)?;
    mender.orphans()?;
    mender.conversations()?;
    mender.tasks()?;
    mender.texts()?;
    mender.stale(&found.stale)?;
    mender.flights()?;
    mender.followers()?;
    mender.answers()?;
    mender.replies()?;
    mender.places()?;
    mender.notices()?;
    mender.epoch(found.epoch)?;
    mender.audit()?;
    mender.finish()
}

struct Mender<'a> {
    new: &'a Connection,
    settings: &'a RecoverSettings<'a>,
    report: RecoveryReport,
    counts: BTreeMap<String, TableReport>,
}

impl Mender<'_> {
    /// A message whose row is destroyed, and whose indexes still say who it was, stays as a dead letter: otherwise
    /// its source could show it again and it would be taken for a new one.
    fn tombstones(&mut self, identities: &[Identity]) -> Result<(), Error> {
        let insert = "INSERT OR IGNORE INTO message (row, message_id, conversation_id, seq, channel, \
             external_id, kind, sender, tier, sent_at, hops, round, received_at, state, reason, attempt, spent, continues, \
             suspect, input, failure_class, failure_reason, updated_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'agent', '(lost)', 'peer', 0, 0, 0, ?7, 'dead', ?8, \
             coalesce((SELECT max(attempt) FROM turn WHERE message_id = ?2), 0), 0, 0, 0, 'message', \
             'ambiguous', ?8, ?7)";
        let reason =
            "the database was damaged and this message's row was lost; it may have been answered";
        let mut insert = self.new.prepare(insert)?;
        for identity in identities {
            let (Some(message_id), Some((channel, external_id)), Some((conversation, seq))) =
                (&identity.message_id, &identity.external, &identity.spot)
            else {
                continue;
            };
            let made = insert.execute(params![
                identity.row,
                message_id,
                conversation,
                seq,
                channel,
                external_id,
                self.settings.now.0,
                reason
            ])?;
            if made == 1 {
                let what = "its row was lost, and its indexes say who it was";
                push(&mut self.report.buried, message_id, what);
            }
        }
        Ok(())
    }

    /// Ids that something still names and no row has.
    fn lost(&mut self, identities: &[Identity]) -> Result<(), Error> {
        let mut lost: BTreeSet<String> = BTreeSet::new();
        for table in CHILDREN {
            let query = format!(
                "SELECT DISTINCT message_id FROM {table} \
                 WHERE message_id NOT IN (SELECT message_id FROM message)"
            );
            lost.extend(self.ids(&query)?);
        }
        let texts =
            "SELECT of_message FROM message_text WHERE row NOT IN (SELECT row FROM message)";
        lost.extend(self.ids(texts)?);
        let mut known = self
            .new
            .prepare("SELECT 1 FROM message WHERE message_id = ?1")?;
        for id in identities.iter().filter_map(|one| one.message_id.as_ref()) {
            if known.query_row([id], |_| Ok(())).optional()?.is_none() {
                lost.insert(id.clone());
            }
        }
        self.report.lost = lost.into_iter().collect();
        Ok(())
    }

    /// Drops rows that belong to nothing.
    fn orphans(&mut self) -> Result<(), Error> {
        for table in CHILDREN {
            self.drop_rows(table, "message_id NOT IN (SELECT message_id FROM message)")?;
        }
        self.drop_rows("message_text", "row NOT IN (SELECT row FROM message)")?;
        self.drop_rows("reply_text", "row NOT IN (SELECT row FROM reply)")
    }

    fn drop_rows(&mut self, table: &str, which: &str) -> Result<(), Error> {
        let delete = format!("DELETE FROM {table} WHERE {which}");
        let dropped = self.new.execute(&delete, [])? as u64;
        if let Some(count) = self.counts.get_mut(table) {
            count.dropped += dropped;
            count.kept = count.kept.saturating_sub(dropped);
        }
        Ok(())
    }

    /// A message whose conversation is lost gets a conversation under an unused name.
    fn conversations(&mut self) -> Result<(), Error> {
        let orphaned = "conversation_id NOT IN (SELECT conversation_id FROM conversation)";
        self.bury(
            &format!("{AWAITS} AND {orphaned}"),
            "the database was damaged and the conversation of this message was lost",
        )?;
        let ids = self.ids(&format!("SELECT message_id FROM message WHERE {orphaned}"))?;
        for id in ids {
            push(
                &mut self.report.incomplete,
                &id,
                "its conversation was lost",
            );
        }
        let mut root = self.settings.work_root.display().to_string();
        root.push('/');
        self.new.execute(
            &format!(
                "INSERT INTO conversation (conversation_id, channel, external_key, workdir, created_at, active_at) \
                 SELECT conversation_id, min(channel), 'lost-' || conversation_id, \
                 ?1 || conversation_id, min(received_at), max(updated_at) \
                 FROM message WHERE {orphaned} GROUP BY conversation_id"
            ),
            [root],
        )?;
        Ok(())
    }

    /// A task whose row was lost is made again from its inputs: its owner is whoever sent its messages. One without
    /// a message is nothing, and so is what hangs on it.
    fn tasks(&mut self) -> Result<(), Error> {
        self.new.execute(
            "INSERT INTO task (task_id, channel, conversation_id, owner, sequence, created_at, changed_at) \
             SELECT task_id, channel, conversation_id, sender, ?1, at, max(updated_at) \
             FROM task_input JOIN message USING (message_id) \
             WHERE task_id NOT IN (SELECT task_id FROM task) AND message.channel <> 'task' AND sender <> '(lost)' GROUP BY task_id",
            [SEQUENCE_LEAP],
        )?;
        self.new.execute_batch(
            "UPDATE task SET channel = (SELECT channel FROM conversation \
             WHERE conversation.conversation_id = task.conversation_id) \
             WHERE EXISTS (SELECT 1 FROM conversation WHERE conversation.conversation_id = task.conversation_id \
             AND conversation.channel <> task.channel)",
        )?;
        let inputless =
            "task_id NOT IN (SELECT task_id FROM task_input WHERE message_id IS NOT NULL)";
        self.drop_rows("task", inputless)?;
        let orphaned = "task_id NOT IN (SELECT task_id FROM task)";
        self.drop_rows("task_input", orphaned)?;
        self.drop_rows("subscription", orphaned)?;
        let unsent = "receiver_id NOT IN (SELECT receiver_id FROM receiver)";
        self.drop_rows("alert", unsent)
    }

    fn texts(&mut self) -> Result<(), Error> {
        let textless = "row NOT IN (SELECT row FROM message_text)";
        self.bury(
            &format!("{AWAITS} AND {textless}"),
            "the database was damaged and the text of this message was lost",
        )?;
        let ids = self.ids(&format!("SELECT message_id FROM message WHERE {textless}"))?;
        for id in ids {
            push(&mut self.report.incomplete, &id, "its text was lost");
        }
        self.new.execute(
            &format!(
                "INSERT INTO message_text (row, of_message, body, body_sum) \
                 SELECT row, message_id, ?1, ?2 FROM message WHERE {textless}"
            ),
            params![LOST_TEXT, sums::sum(LOST_TEXT)],
        )?;
        Ok(())
    }

    /// Rows that are older than what happened.
    fn stale(&mut self, stale: &BTreeSet<String>) -> Result<(), Error> {
        if self.settings.log_broken {
            self.bury(
                AWAITS,
                "the newest entries of the database were lost, and this message may have been run meanwhile",
            )?;
        }
        self.new
            .execute_batch("CREATE TEMP TABLE stale (message_id TEXT PRIMARY KEY)")?;
        for id in stale {
            self.new.execute("INSERT INTO stale VALUES (?1)", [id])?;
        }
        self.bury(
            &format!("{AWAITS} AND message_id IN (SELECT message_id FROM temp.stale)"),
            "this message was restored from a backup, and may have been run since that was made",
        )?;
        self.new.execute_batch("DROP TABLE temp.stale")
    }

    /// What runs can be looked for only with the turn's row.
    fn flights(&mut self) -> Result<(), Error> {
        let begun = "state IN ('starting', 'running', 'unclear')";
        let turn = "SELECT 1 FROM turn WHERE turn.message_id = message.message_id \
             AND turn.attempt = message.attempt";
        self.bury(
            &format!("{begun} AND NOT EXISTS ({turn})"),
            "the database was damaged while Codex worked on this message, and what was known of its turn was lost",
        )
    }

    /// A message that was given to the turn of another ends with it.
    fn followers(&mut self) -> Result<(), Error> {
        self.bury(
            "state = 'steered' AND leader NOT IN (SELECT message_id FROM message \
             WHERE state NOT IN ('done', 'dead', 'cancelled'))",
            "the database was damaged, and the message whose turn was given this text was lost or is buried",
        )
    }

    /// An answer is sent whole or not at all.
    fn answers(&mut self) -> Result<(), Error> {
        let answer = "SELECT 1 FROM answer WHERE answer.message_id = message.message_id";
        let pieces = "SELECT count(*) = max(ordinal) + 1 AND max(kind = 'answer') \
             FROM reply WHERE reply.message_id = message.message_id \
             AND row IN (SELECT row FROM reply_text)";
        let whole = format!("EXISTS ({answer}) AND coalesce(({pieces}), 0)");
        self.bury(
            &format!("{OUT} AND NOT ({whole})"),
            "the database was damaged and a part of this message's answer was lost before all of it was sent",
        )?;
        let gone = "SELECT message_id FROM message WHERE state = 'done' \
             AND message_id NOT IN (SELECT message_id FROM answer)";
        for id in self.ids(gone)? {
            push(&mut self.report.incomplete, &id, "its answer was lost");
        }
        Ok(())
    }

    /// Pieces of buried answers are not sent, and neither are those without a text.
    fn replies(&mut self) -> Result<(), Error> {
        let buried: Vec<String> = self
            .report
            .buried
            .iter()
            .map(|one| one.message_id.clone())
            .collect();
        let give_up = "UPDATE reply SET state = 'dead', not_before = NULL, \
             reason = 'a part of it was lost when the ledger was damaged' \
             WHERE state IN ('queued', 'sending')";
        let mut of_message = self
            .new
            .prepare(&format!("{give_up} AND message_id = ?1"))?;
        for id in buried {
            of_message.execute([id])?;
        }
        self.new.execute_batch(
            "UPDATE reply SET (conversation_id, seq) = (SELECT conversation_id, seq FROM message \
             WHERE message.message_id = reply.message_id) \
             WHERE EXISTS (SELECT 1 FROM message WHERE message.message_id = reply.message_id \
             AND (message.conversation_id <> reply.conversation_id OR message.seq < reply.seq))",
        )?;
        let textless = "row NOT IN (SELECT row FROM reply_text)";
        self.new.execute(&format!("{give_up} AND {textless}"), [])?;
        let ids = self.ids(&format!(
            "SELECT DISTINCT message_id FROM reply WHERE {textless}"
        ))?;
        for id in ids {
            push(
                &mut self.report.incomplete,
                &id,
                "the text of a reply was lost",
            );
        }
        self.new.execute(
            &format!(
                "INSERT INTO reply_text (row, body, body_sum) SELECT row, ?1, ?2 FROM reply WHERE {textless}"
            ),
            params![LOST_TEXT, sums::sum(LOST_TEXT)],
        )?;
        Ok(())
    }

    /// The queues are derived, so they are derived again.
    fn places(&mut self) -> Result<(), Error> {
        self.new.execute_batch(&format!(
            "UPDATE message SET queue = CASE WHEN {FLIGHT} THEN 'in_flight' WHEN {KEPT} THEN 'blocking' WHEN {OUT} THEN 'outbox' \
             WHEN state = 'received' THEN 'queued' END;
             UPDATE message SET queue = iif(hold_until IS NULL, 'ready', 'held') WHERE row IN (\
                 SELECT row FROM (SELECT row, min(seq) FROM message WHERE state = 'received' \
                 AND conversation_id NOT IN (SELECT conversation_id FROM message WHERE {FLIGHT} OR {KEPT}) \
                 GROUP BY conversation_id))"
        ))
    }

    /// Queues a notice to the sender of each message that was buried. A lost row's sender is not known.
    fn notices(&mut self) -> Result<(), Error> {
        let read = "SELECT conversation_id, seq, reason, \
             coalesce((SELECT max(ordinal) + 1 FROM reply WHERE reply.message_id = message.message_id), 0) \
             FROM message WHERE message_id = ?1 AND sender <> '(lost)'";
        let mut read = self.new.prepare(read)?;
        for notice in &self.report.buried {
            let id = &notice.message_id;
            let row = read.query_row([id], |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, i64>(1)?,
                    row.get::<_, String>(2)?,
                    row.get::<_, u32>(3)?,
                ))
            });
            let Some((conversation, seq, reason, ordinal)) = row.optional()? else {
                continue;
            };
            let key = ReplyKey::of(&MessageId::new(id.clone()), ordinal);
            self.new.execute(
                "INSERT INTO reply (message_id, ordinal, conversation_id, seq, reply_key, kind, state, \
                 tries, created_at) VALUES (?1, ?2, ?3, ?4, ?5, 'notice', 'queued', 0, ?6)",
                params![id, ordinal, conversation, seq, key.as_str(), self.settings.now.0],
            )?;
            let text = format!(
                "There is no answer to this message: {reason} (message {id}; it is kept and can be sent again)"
            );
            self.new.execute(
                "INSERT INTO reply_text (row, body, body_sum) VALUES (?1, ?2, ?3)",
                params![self.new.last_insert_rowid(), text, sums::sum(&text)],
            )?;
        }
        Ok(())
    }

    /// An opening of the damaged ledger must stay fenced off.
    fn epoch(&mut self, seen: i64) -> Result<(), Error> {
        let set = "UPDATE instance SET epoch = max(?1, coalesce((SELECT max(epoch) FROM turn), 0))";
        self.new.execute(set, [seen]).map(drop)
    }

    fn audit(&mut self) -> Result<(), Error> {
        let report = &self.report;
        let entry = |found: &audit::SalvagedAudit| AuditEntry {
            at: self.settings.now,
            actor: "operator".to_owned(),
            what: "recover".to_owned(),
            subject: "ledger".to_owned(),
            detail: format!(
                "{} messages buried, {} incomplete, {} lost; this record {}",
                report.buried.len(),
                report.incomplete.len(),
                report.lost.len(),
                match found.cuts.as_slice() {
                    [] => "shows no hole".to_owned(),
                    cuts => format!("was cut: {}", cuts.join(", ")),
                }
            ),
        };
        let failed = |error: RowsError| Error::ToSqlConversionFailure(error.into());
        let found = audit::salvaged(self.new.into(), self.settings.key, entry).map_err(failed)?;
        self.report.audit_cuts = found.cuts;
        Ok(())
    }

    fn bury(&mut self, which: &str, reason: &str) -> Result<(), Error> {
        let bury = format!(
            "UPDATE message SET state = 'dead', reason = ?1, turn_id = NULL, leader = NULL, hold_until = NULL, \
             hold_class = NULL, hold_class_until = NULL, hold_reason = NULL, \
             failure_class = 'ambiguous', failure_until = NULL, failure_reason = ?1, updated_at = ?2 \
             WHERE {which} RETURNING message_id"
        );
        let mut bury = self.new.prepare(&bury)?;
        let ids = bury.query_map(params![reason, self.settings.now.0], |row| row.get(0))?;
        let ids: Vec<String> = ids.collect::<Result<_, _>>()?;
        for id in ids {
            push(&mut self.report.buried, &id, reason);
        }
        Ok(())
    }

    fn ids(&self, query: &str) -> Result<Vec<String>, Error> {
        let mut statement = self.new.prepare(query)?;
        let ids = statement.query_map([], |row| row.get(0))?;
        ids.collect()
    }

    fn finish(mut self) -> Result<RecoveryReport, Error> {
        let messages: i64 = self
            .new
            .query_row("SELECT count(*) FROM message", [], |row| row.get(0))?;
        self.report.messages = u64::try_from(messages).unwrap_or(0);
        self.report.tables = self.counts.into_values().collect();
        Ok(self.report)
    }
}

fn push(notices: &mut Vec<RecoveryNotice>, message_id: &str, what: &str) {
    notices.push(RecoveryNotice {
        message_id: message_id.to_owned(),
        what: what.to_owned(),
    });
}
