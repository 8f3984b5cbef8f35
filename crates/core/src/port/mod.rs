//! The ports: what the edges implement and the bridge puts together.
//!
//! [`Ledger`] runs one transition in one transaction (`store`), [`Agent`] runs turns (`host`), [`Sink`] takes
//! replies (`channel`). Ports speak in the core's values only.

mod agent;
mod alerts;
mod change;
mod fleet;
mod ledger;
mod lists;
mod loans;
mod quota;
mod rows;
mod sink;

pub use agent::{
    Agent, AgentError, ApprovalRequest, Extent, ForeignTurn, ItemNote, LostTurn, Phase, Reads,
    RecordedTurn, RequestKey, Responded, Started, Steer, Steered, Steering, TextUpdate,
    ThreadFailure, ThreadSpec, TravellingThread, TurnEnd, TurnEvent, TurnHistory, TurnLookup,
    TurnSpec, TurnStatus, TurnStream, TurnTransport,
};
pub use alerts::{AlertChange, AlertRead, AlertsTried};
pub use change::{Change, OldRecords, RequestsOf, StoredBytes, TokenChange};
pub use fleet::{FleetChange, FleetRead, NodeFilter};
pub use ledger::{Committed, Lease, Ledger, LedgerError};
pub use lists::{
    AuditFilter, AuditPage, AuditQuery, FinishedMessage, FoundIn, ListRead, RecentSender,
    SearchHit, SearchPage, SearchQuery, TurnsUsed,
};
pub use loans::{LoanChange, LoanRead};
pub use quota::{CapacityWaiters, QueuePosition, QuotaRead};
pub use rows::{
    AgentMessage, Exchange, Figures, Flight, Head, HeadFilter, Kept, Read, Rows, RowsError,
    Standing, StateCount, TaskQuery, Workplace, readable,
};
pub(crate) use rows::{from_owner, is_among, only_reads};
pub use sink::{Approach, MayAct, OnUnknown, Probe, Sink, SinkClass, SinkFault, SinkTraits};

/// The log target of the moments in a message's life, for whoever wants to know where its time went: an operator turns
/// it on by name (`info,bridge_trace=debug`), and all edges tell theirs under the same one. Off, a moment costs one
/// comparison.
pub const TRACE: &str = "bridge_trace";
