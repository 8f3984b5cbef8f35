//! What is read and written of alerts.

use super::rows::RowsError;
use crate::value::{Alert, AlertSubject, PushKey, Receiver, ReceiverId, Timestamp};

/// Receivers of alerts, and how far each alert is.
pub trait AlertRead {
    /// All receivers by id: none beyond [`PAGE_MAX`](crate::limits::PAGE_MAX).
    fn receivers(&self) -> Result<Vec<Receiver>, RowsError>;
    fn receiver(&self, id: &ReceiverId) -> Result<Option<Receiver>, RowsError>;
    fn alert(&self, to: &ReceiverId, of: &AlertSubject) -> Result<Option<Alert>, RowsError>;
    /// Alerts that are to be sent, or whose send was begun, in the order they were noticed, at most `limit`.
    fn unsent_alerts(&self, to: &ReceiverId, limit: u32) -> Result<Vec<Alert>, RowsError>;
    /// What is shown of questions, by receiver and request, behind this one, at most `limit`.
    fn shown_alerts(
        &self,
        after: Option<(&ReceiverId, &AlertSubject)>,
        limit: u32,
    ) -> Result<Vec<Alert>, RowsError>;
    /// What a receiver was sent since then.
    fn alerts_tried(&self, to: &ReceiverId, since: Timestamp) -> Result<AlertsTried, RowsError>;
    /// The key that push services know this bridge by; `None` where there is none that can be decrypted.
    fn push_key(&self) -> Result<Option<PushKey>, RowsError>;
}

/// What a receiver was sent lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlertsTried {
    /// Alerts that were sent each by itself.
    pub single: u64,
    /// When the newest summary was.
    pub summary_at: Option<Timestamp>,
}

/// The closed list of what is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertChange {
    /// Inserts or replaces a receiver.
    PutReceiver(Receiver),
    /// Records whether a receiver's newest alert was taken.
    ReceiverError {
        receiver_id: ReceiverId,
        error: Option<String>,
    },
    /// Removes a receiver with its alerts.
    DropReceiver(ReceiverId),
    /// Removes the browsers of a session with their alerts; there may be none.
    DropDevicesOf { session: String },
    /// Inserts or replaces an alert.
    Put(Alert),
    /// Stores the key that push services know this bridge by.
    PushKey(PushKey),
}
