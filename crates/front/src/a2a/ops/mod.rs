//! The operations of A2A over the service, one file per group. Both bindings call [`run`], and know nothing else of them.

mod card;
mod find;
mod list;
mod push;
mod send;
mod stop;
mod wait;

pub(crate) use find::file;

use super::error::A2aError;
use super::negotiate::ProtocolVersion;
use super::sse::EventStream;
use super::{decode, schema};
use crate::api::{BodyShare, Context};
use crate::{BridgeService, Caller};
use a2a::methods;
use serde::Serialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// One call: who calls, from where, and what was said beside the request.
pub(crate) struct Call<D> {
    pub(crate) context: Context<D>,
    pub(crate) caller: Caller,
    /// Where the caller reached us.
    pub(crate) base: String,
    /// The key from the header `Idempotency-Key`.
    pub(crate) key: Option<String>,
    pub(crate) version: ProtocolVersion,
    /// The number of the last event that a subscriber has who goes on behind it ([`super::extension::RESUME`]).
    pub(crate) after: Option<u64>,
    /// Set when the caller hung up: nobody waits for the answer.
    pub(crate) gone: CancellationToken,
    /// Holds the room of the body.
    pub(crate) room: Option<BodyShare>,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    CreatePush,
    GetPush,
    ListPush,
    DeletePush,
    ExtendedCard,
}

impl Op {
    const ALL: [Self; 11] = [
        Self::Send,
        Self::Stream,
        Self::Get,
        Self::List,
        Self::Cancel,
        Self::Subscribe,
        Self::CreatePush,
        Self::GetPush,
        Self::ListPush,
        Self::DeletePush,
        Self::ExtendedCard,
    ];

    /// The name on JSON-RPC.
    fn method(self) -> &'static str {
        match self {
            Self::Send => methods::SEND_MESSAGE,
            Self::Stream => methods::SEND_STREAMING_MESSAGE,
            Self::Get => methods::GET_TASK,
            Self::List => methods::LIST_TASKS,
            Self::Cancel => methods::CANCEL_TASK,
            Self::Subscribe => methods::SUBSCRIBE_TO_TASK,
            Self::CreatePush => methods::CREATE_PUSH_CONFIG,
            Self::GetPush => methods::GET_PUSH_CONFIG,
            Self::ListPush => methods::LIST_PUSH_CONFIGS,
            Self::DeletePush => methods::DELETE_PUSH_CONFIG,
            Self::ExtendedCard => methods::GET_EXTENDED_AGENT_CARD,
        }
    }

    /// By its name on JSON-RPC.
    pub(crate) fn named(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.method() == method)
    }
}

/// What an operation came to.
pub(crate) enum Done {
    Value(Value),
    Events(Box<EventStream>),
}

impl Done {
    fn of(value: &impl Serialize) -> Result<Self, A2aError> {
        serde_json::to_value(value)
            .map(Self::Value)
            .map_err(|error| A2aError::internal(format!("the answer can't be written: {error}")))
    }
}

/// Does what a client asks for.
pub(crate) async fn run<D: BridgeService>(
    call: &Call<D>,
    op: Op,
    params: Value,
) -> Result<Done, A2aError> {
    match op {
        Op::Send => {
            let request = decode::request(&schema::SEND, params)?;
            Done::of(&send::send(call, request).await?)
        }
        Op::Stream => {
            let request = decode::request(&schema::SEND, params)?;
            send::stream(call, request).await.map(events)
        }
        Op::Get => {
            let request = decode::request(&schema::GET, params)?;
            Done::of(&find::get(call, request).await?)
        }
        Op::List => {
            let request = decode::request(&schema::LIST, params)?;
            Done::of(&list::list(call, request).await?)
        }
        Op::Cancel => {
            let request = decode::request(&schema::CANCEL, params)?;
            Done::of(&stop::cancel(call, request).await?)
        }
        Op::Subscribe => {
            let request = decode::request(&schema::SUBSCRIBE, params)?;
            find::subscribe(call, request).await.map(events)
        }
        Op::CreatePush => {
            let request = decode::request(&schema::CREATE_PUSH, params)?;
            Done::of(&push::create(call, request).await?)
        }
        Op::GetPush => {
            let request = decode::request(&schema::ONE_PUSH, params)?;
            Done::of(&push::get(call, request).await?)
        }
        Op::ListPush => {
            let request = decode::request(&schema::LIST_PUSH, params)?;
            Done::of(&push::list(call, request).await?)
        }
        Op::DeletePush => {
            let request = decode::request(&schema::ONE_PUSH, params)?;
            push::delete(call, request).await?;
            Ok(Done::Value(json!({})))
        }
        Op::ExtendedCard => {
            let _request: a2a::GetExtendedAgentCardRequest =
                decode::request(&schema::EXTENDED_CARD, params)?;
            Ok(Done::Value(card::extended(call)))
        }
    }
}

fn events(events: EventStream) -> Done {
    Done::Events(Box::new(events))
}
