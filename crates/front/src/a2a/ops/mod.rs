//! The operations of A2A over the service. Both bindings call [`run`], and know nothing else of them.

mod cancel;
mod get;
mod list;
mod push;
mod send;

pub(crate) use get::file;

use super::call::A2aCall;
use super::decode::request as decode;
use super::error::A2aError;
use super::sse::TaskEventStream;
use super::{card, schema};
use crate::BridgeService;
use a2a::methods;
use serde::Serialize;
use serde_json::{Value, json};

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
pub(crate) enum OperationResult {
    Value(Value),
    Events(Box<TaskEventStream>),
}

impl OperationResult {
    fn of(value: &impl Serialize) -> Result<Self, A2aError> {
        serde_json::to_value(value)
            .map(Self::Value)
            .map_err(|error| A2aError::internal(format!("the answer can't be written: {error}")))
    }
}

/// Does what a client asks for.
pub(crate) async fn run<D: BridgeService>(
    call: &A2aCall<D>,
    op: Op,
    params: Value,
) -> Result<OperationResult, A2aError> {
    match op {
        Op::Send => OperationResult::of(&send::send(call, decode(&schema::SEND, params)?).await?),
        Op::Stream => send::stream(call, decode(&schema::SEND, params)?)
            .await
            .map(events),
        Op::Get => OperationResult::of(&get::get(call, decode(&schema::GET, params)?).await?),
        Op::List => OperationResult::of(&list::list(call, decode(&schema::LIST, params)?).await?),
        Op::Cancel => {
            OperationResult::of(&cancel::cancel(call, decode(&schema::CANCEL, params)?).await?)
        }
        Op::Subscribe => get::subscribe(call, decode(&schema::SUBSCRIBE, params)?)
            .await
            .map(events),
        Op::CreatePush => {
            OperationResult::of(&push::create(call, decode(&schema::CREATE_PUSH, params)?).await?)
        }
        Op::GetPush => {
            OperationResult::of(&push::get(call, decode(&schema::ONE_PUSH, params)?).await?)
        }
        Op::ListPush => {
            OperationResult::of(&push::list(call, decode(&schema::LIST_PUSH, params)?).await?)
        }
        Op::DeletePush => {
            push::delete(call, decode(&schema::ONE_PUSH, params)?).await?;
            Ok(OperationResult::Value(json!({})))
        }
        Op::ExtendedCard => {
            let _request: a2a::GetExtendedAgentCardRequest =
                decode(&schema::EXTENDED_CARD, params)?;
            let profile = call.context.service.a2a();
            let card = card::extended(&profile, &call.base, &call.caller);
            Ok(OperationResult::Value(card))
        }
    }
}

fn events(events: TaskEventStream) -> OperationResult {
    OperationResult::Events(Box::new(events))
}
