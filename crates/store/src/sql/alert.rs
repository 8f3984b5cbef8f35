//! The tables `receiver` and `alert`: who is alerted, and how far each alert is. Addresses and keys of browsers are
//! encrypted.

use super::fields::Fields;
use super::rows::SqlRows;
use super::seal::{self, SealContext};
use crate::key::{LedgerKey, Unreadable};
use crate::page;
use crate::sql::{self, Conn, Row, params};
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{AlertChange, AlertRead, AlertsTried, RowsError};
use bridge_core::value::{
    Alert, AlertState, AlertSubject, ConversationId, PushDevice, PushKey, Receiver, ReceiverId,
    Timestamp,
};

macro_rules! select_receiver {
    ($tail:literal) => {
        concat!(
            "SELECT receiver_id, session, endpoint, p256dh, auth, about, detail, error, created_at FROM receiver ",
            $tail
        )
    };
}

macro_rules! select_alert {
    ($tail:literal) => {
        concat!(
            "SELECT receiver_id, kind, subject, conversation_id, mark, state, not_before, summed, tries, first_try_at, \
             tried_at, created_at FROM alert ",
            $tail
        )
    };
}

fn read_receiver(row: &Row<'_>) -> Result<Receiver, RowsError> {
    let mut fields = Fields::of("receiver of alerts", row);
    let receiver_id = fields.id(ReceiverId::new)?;
    let parts: [Option<String>; 4] = [
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
    ];
    let device = match parts {
        [Some(session), Some(endpoint), Some(p256dh), Some(auth)] => Some(PushDevice {
            session,
            endpoint,
            p256dh,
            auth,
            unreadable: false,
        }),
        _ => None,
    };
    let about: String = fields.next()?;
    let about = about.split_whitespace().map(str::parse).collect();
    let about: Result<_, _> = about;
    Ok(Receiver {
        receiver_id,
        device,
        about: fields.required("it is about something unknown", about.ok())?,
        detail: fields.word()?,
        error: fields.next()?,
        created_at: fields.time()?,
    })
}

/// Decrypts address and keys; a browser whose can't be is given without them.
fn opened(key: &LedgerKey, stored: Receiver) -> Receiver {
    let Some(sealed) = &stored.device else {
        return stored;
    };
    let device = device(key, &stored.receiver_id, sealed).unwrap_or_else(|Unreadable| PushDevice {
        session: sealed.session.clone(),
        endpoint: String::new(),
        p256dh: String::new(),
        auth: String::new(),
        unreadable: true,
    });
    Receiver {
        device: Some(device),
        ..stored
    }
}

fn device(key: &LedgerKey, id: &ReceiverId, sealed: &PushDevice) -> Result<PushDevice, Unreadable> {
    let open = |part, text: &str| seal::open(key, &SealContext::receiver(part, id.as_str()), text);
    Ok(PushDevice {
        session: sealed.session.clone(),
        endpoint: open("endpoint", &sealed.endpoint)?,
        p256dh: open("p256dh", &sealed.p256dh)?,
        auth: open("auth", &sealed.auth)?,
        unreadable: false,
    })
}

fn read_alert(row: &Row<'_>) -> Result<Alert, RowsError> {
    let mut fields = Fields::of("alert of receiver", row);
    let receiver_id = fields.id(ReceiverId::new)?;
    let subject = AlertSubject {
        kind: fields.word()?,
        id: fields.next()?,
    };
    let conversation_id = fields.id(ConversationId::new)?;
    let (mark, word): (_, String) = (fields.next()?, fields.next()?);
    let not_before = fields.maybe_time()?;
    let state = match word.as_str() {
        "waiting" => AlertState::Waiting { not_before },
        "sending" => AlertState::Sending,
        "shown" => AlertState::Shown,
        "over" => AlertState::Over,
        other => return Err(fields.unreadable(format!("unknown state {other:?}"))),
    };
    Ok(Alert {
        receiver_id,
        subject,
        conversation_id,
        mark,
        state,
        summed: fields.next()?,
        tries: fields.next()?,
        first_try_at: fields.maybe_time()?,
        tried_at: fields.maybe_time()?,
        created_at: fields.time()?,
    })
}

impl AlertRead for SqlRows<'_> {
    fn receivers(&self) -> Result<Vec<Receiver>, RowsError> {
        let query = select_receiver!("ORDER BY receiver_id LIMIT ?1");
        let limit = sql::reach(PAGE_MAX);
        let found = sql::many_readable(self.conn(), query, [limit], PAGE_MAX, read_receiver)?;
        Ok(found
            .into_iter()
            .map(|one| opened(self.key(), one))
            .collect())
    }

    fn receiver(&self, id: &ReceiverId) -> Result<Option<Receiver>, RowsError> {
        let query = select_receiver!("WHERE receiver_id = ?1");
        let found = sql::one(self.conn(), query, [id.as_str()], read_receiver)?;
        Ok(found.map(|one| opened(self.key(), one)))
    }

    fn alert(&self, to: &ReceiverId, of: &AlertSubject) -> Result<Option<Alert>, RowsError> {
        let query = select_alert!("WHERE receiver_id = ?1 AND kind = ?2 AND subject = ?3");
        let key = params![to.as_str(), of.kind.as_str(), of.id];
        sql::one(self.conn(), query, key, read_alert)
    }

    fn unsent_alerts(&self, to: &ReceiverId, limit: u32) -> Result<Vec<Alert>, RowsError> {
        let query = select_alert!(
            "WHERE receiver_id = ?1 AND (state = 'waiting' OR state = 'sending') \
             ORDER BY created_at, kind, subject LIMIT ?2"
        );
        let of = params![to.as_str(), page(limit)];
        sql::many(self.conn(), query, of, read_alert)
    }

    fn shown_alerts(
        &self,
        after: Option<(&ReceiverId, &AlertSubject)>,
        limit: u32,
    ) -> Result<Vec<Alert>, RowsError> {
        let query = select_alert!(
            "WHERE state = 'shown' AND (CAST(?1 AS TEXT) IS NULL OR (receiver_id, kind, subject) > (?1, ?2, ?3)) \
             ORDER BY receiver_id, kind, subject LIMIT ?4"
        );
        let (to, of) = after.unzip();
        let of = params![
            to.map(ReceiverId::as_str),
            of.map_or("", |of| of.kind.as_str()),
            of.map_or("", |of| &*of.id),
            page(limit)
        ];
        sql::many(self.conn(), query, of, read_alert)
    }

    fn alerts_tried(&self, to: &ReceiverId, since: Timestamp) -> Result<AlertsTried, RowsError> {
        let single =
            "SELECT count(*) FROM alert WHERE receiver_id = ?1 AND tried_at >= ?2 AND summed = 0";
        let summary = "SELECT max(tried_at) FROM alert WHERE receiver_id = ?1 AND tried_at >= ?2 AND summed = 1";
        let summary_at = sql::one(self.conn(), summary, params![to.as_str(), since.0], |row| {
            row.get::<Option<i64>>(0).map_err(sql::failed)
        })?;
        Ok(AlertsTried {
            single: sql::count(self.conn(), single, params![to.as_str(), since.0])?,
            summary_at: summary_at.flatten().map(Timestamp),
        })
    }

    fn push_key(&self) -> Result<Option<PushKey>, RowsError> {
        let query = "SELECT push_key FROM instance WHERE id = 1";
        let sealed = sql::one(self.conn(), query, [], |row| {
            row.get::<Option<String>>(0).map_err(sql::failed)
        })?;
        let open = |sealed: String| seal::open(self.key(), &SealContext::push_key(), &sealed).ok();
        Ok(sealed.flatten().and_then(open).map(PushKey))
    }
}

pub(crate) fn apply(
    conn: Conn<'_>,
    key: &LedgerKey,
    change: &AlertChange,
) -> Result<(), RowsError> {
    match change {
        AlertChange::PutReceiver(receiver) => put_receiver(conn, key, receiver),
        AlertChange::ReceiverError { receiver_id, error } => sql::write(
            conn,
            "UPDATE receiver SET error = ?2 WHERE receiver_id = ?1",
            params![receiver_id.as_str(), error],
            || format!("receiver {receiver_id}"),
        ),
        AlertChange::DropReceiver(id) => {
            let alerts = "DELETE FROM alert WHERE receiver_id = ?1";
            sql::run(conn, alerts, [id.as_str()])?;
            let receiver = "DELETE FROM receiver WHERE receiver_id = ?1";
            sql::run(conn, receiver, [id.as_str()])
        }
        AlertChange::DropDevicesOf { session } => {
            let alerts = "DELETE FROM alert WHERE receiver_id IN (SELECT receiver_id FROM receiver WHERE session = ?1)";
            sql::run(conn, alerts, [session.as_str()])?;
            let devices = "DELETE FROM receiver WHERE session = ?1";
            sql::run(conn, devices, [session.as_str()])
        }
        AlertChange::Put(alert) => put(conn, alert),
        AlertChange::PushKey(new) => {
            let sealed = seal::seal(key, &SealContext::push_key(), &new.0)?;
            sql::write(
                conn,
                "UPDATE instance SET push_key = ?1 WHERE id = 1",
                params![sealed],
                || "the key of push services".to_owned(),
            )
        }
    }
}

fn put_receiver(conn: Conn<'_>, key: &LedgerKey, receiver: &Receiver) -> Result<(), RowsError> {
    let id = receiver.receiver_id.as_str();
    let device = receiver.device.as_ref();
    let sealed = |part, text: Option<&String>| {
        let text = text.map(|text| seal::seal(key, &SealContext::receiver(part, id), text));
        text.transpose()
    };
    let about: Vec<_> = receiver.about.iter().map(|kind| kind.as_str()).collect();
    sql::write(
        conn,
        "INSERT INTO receiver (receiver_id, session, endpoint, p256dh, auth, about, detail, error, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (receiver_id) DO UPDATE SET \
         session = excluded.session, endpoint = excluded.endpoint, p256dh = excluded.p256dh, auth = excluded.auth, \
         about = excluded.about, detail = excluded.detail, error = excluded.error, created_at = excluded.created_at",
        params![
            id,
            device.map(|device| device.session.as_str()),
            sealed("endpoint", device.map(|device| &device.endpoint))?,
            sealed("p256dh", device.map(|device| &device.p256dh))?,
            sealed("auth", device.map(|device| &device.auth))?,
            about.join(" "),
            receiver.detail.as_str(),
            receiver.error,
            receiver.created_at.0,
        ],
        || format!("receiver {id}"),
    )
}

fn put(conn: Conn<'_>, alert: &Alert) -> Result<(), RowsError> {
    let not_before = match alert.state {
        AlertState::Waiting { not_before } => not_before,
        AlertState::Sending | AlertState::Shown | AlertState::Over => None,
    };
    sql::write(
        conn,
        "INSERT INTO alert (receiver_id, kind, subject, conversation_id, mark, state, not_before, summed, tries, \
         first_try_at, tried_at, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) \
         ON CONFLICT (receiver_id, kind, subject) DO UPDATE SET conversation_id = excluded.conversation_id, \
         mark = excluded.mark, state = excluded.state, not_before = excluded.not_before, summed = excluded.summed, \
         tries = excluded.tries, first_try_at = excluded.first_try_at, tried_at = excluded.tried_at, \
         created_at = excluded.created_at",
        params![
            alert.receiver_id.as_str(),
            alert.subject.kind.as_str(),
            alert.subject.id,
            alert.conversation_id.as_str(),
            alert.mark,
            alert.state.name().as_str(),
            not_before.map(|at| at.0),
            alert.summed,
            alert.tries,
            alert.first_try_at.map(|at| at.0),
            alert.tried_at.map(|at| at.0),
            alert.created_at.0,
        ],
        || format!("alert of {} for {}", alert.subject.id, alert.receiver_id),
    )
}

/// Forgets what was sent before this.
pub(crate) fn forget(conn: Conn<'_>, before: Timestamp) -> Result<(), RowsError> {
    let old = "DELETE FROM alert WHERE state = 'over' AND created_at < ?1";
    sql::run(conn, old, [before.0])
}
