//! The requests we send: one type per method, tying name, params, response and deadline together.
//!
//! What the params hold is declared beside what they are about, in the sibling files.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::account::{
    AccountReadParams, AccountReadResponse, LoginStartParams, LoginStartResponse,
};
use super::config::{ConfigReadParams, ConfigReadResponse};
use super::thread::{
    BackgroundTerminals, Empty, LoadedThreads, ThreadIdParams, ThreadLoadedListParams,
    ThreadOpened, ThreadReadParams, ThreadReadResponse, ThreadResumeParams, ThreadResumed,
    ThreadSettingsUpdateParams, ThreadStartParams, ThreadTurnsListParams, TurnsPage,
};
use super::turn::{Turn, UserInput};
use bridge_core::value::{ClientId, ThreadId, TraceParent, TurnId};

/// For what Codex answers from memory. Measured answers take milliseconds; a burst may lose a
/// request without any answer, so every request has an end.
pub const QUICK_MS: u64 = 10_000;
/// For what reads or writes a thread's history.
pub const HISTORY_MS: u64 = 30_000;
/// For opening a thread, which may have to start MCP servers first.
pub const OPEN_MS: u64 = 60_000;

/// One request of the protocol.
pub trait Method {
    /// Codex's name for it.
    const NAME: &'static str;
    type Params: Serialize;
    type Response: DeserializeOwned + std::fmt::Debug;

    /// How long to wait for the response before its outcome counts as unknown.
    fn deadline_ms() -> u64 {
        QUICK_MS
    }

    /// The span that what Codex does for it hangs under.
    fn trace(_params: &Self::Params) -> Option<TraceParent> {
        None
    }
}

/// Is shown every method we send.
pub trait MethodVisitor {
    fn method<M: Method>(&mut self);
}

macro_rules! methods {
    ($($(#[$meta:meta])* $name:ident = $wire:literal ($params:ty) -> $response:ty, $deadline:expr $(, $trace:expr)?;)+) => {
        $(
            $(#[$meta])*
            #[derive(Debug, Clone, Copy)]
            pub struct $name;

            impl Method for $name {
                const NAME: &'static str = $wire;
                type Params = $params;
                type Response = $response;

                fn deadline_ms() -> u64 {
                    $deadline
                }

                $(fn trace(params: &Self::Params) -> Option<TraceParent> {
                    let traced: fn(&Self::Params) -> Option<TraceParent> = $trace;
                    traced(params)
                })?
            }
        )+

        /// Shows every method; the list can not be incomplete.
        pub fn each_method(visitor: &mut impl MethodVisitor) {
            $(visitor.method::<$name>();)+
        }
    };
}

methods! {
    /// The handshake, once per connection, followed by the notification [`INITIALIZED`].
    Initialize = "initialize" (InitializeParams) -> InitializeResponse, HISTORY_MS;
    ThreadStart = "thread/start" (ThreadStartParams) -> ThreadOpened, OPEN_MS;
    /// Loads a thread and takes its writer; only after this is its history to be trusted.
    ThreadResume = "thread/resume" (ThreadResumeParams) -> ThreadResumed, OPEN_MS;
    ThreadRead = "thread/read" (ThreadReadParams) -> ThreadReadResponse, HISTORY_MS;
    ThreadTurnsList = "thread/turns/list" (ThreadTurnsListParams) -> TurnsPage, HISTORY_MS;
    /// Unloads the thread and frees its MCP servers; it can not be resumed until unarchived.
    ThreadArchive = "thread/archive" (ThreadIdParams) -> Empty, HISTORY_MS;
    ThreadLoadedList = "thread/loaded/list" (ThreadLoadedListParams) -> LoadedThreads, QUICK_MS;
    /// Ends this connection's news of a thread. It stays loaded for half an hour.
    ThreadUnsubscribe = "thread/unsubscribe" (ThreadIdParams) -> Empty, QUICK_MS;
    /// Brings an archived thread back; it is not loaded by that, so nobody holds its writer.
    ThreadUnarchive = "thread/unarchive" (ThreadIdParams) -> Empty, HISTORY_MS;
    /// Removes the thread with its file, its projection and all agents that it started, also while it is loaded. Where
    /// the file is gone already, that takes 0.2 s, and the rest goes all the same.
    ThreadDelete = "thread/delete" (ThreadIdParams) -> Empty, OPEN_MS;
    /// The response is no promise: a kill right after it may leave no trace of the turn. While a
    /// turn runs, this steers it instead, so send it to idle threads only.
    TurnStart = "turn/start" (TurnStartParams) -> TurnStartResponse, HISTORY_MS, |params| params.trace;
    TurnSteer = "turn/steer" (TurnSteerParams) -> TurnSteerResponse, QUICK_MS;
    /// A stale one is not answered until the thread's next turn ends; the deadline covers that.
    TurnInterrupt = "turn/interrupt" (TurnInterruptParams) -> Empty, QUICK_MS;
    /// Ends commands that an interrupted turn left running.
    BackgroundTerminalsClean = "thread/backgroundTerminals/clean" (ThreadIdParams) -> Empty, QUICK_MS;
    BackgroundTerminalsList = "thread/backgroundTerminals/list" (ThreadIdParams) -> BackgroundTerminals, QUICK_MS;
    /// What is in force for new threads: the operator's own config.toml, and what was put over it.
    ConfigRead = "config/read" (ConfigReadParams) -> ConfigReadResponse, QUICK_MS;
    /// Changes what the next turns of a loaded thread may do; needs the experimental API.
    ThreadSettingsUpdate = "thread/settings/update" (ThreadSettingsUpdateParams) -> Empty, QUICK_MS;
    AccountRead = "account/read" (AccountReadParams) -> AccountReadResponse, QUICK_MS;
    AccountLoginStart = "account/login/start" (LoginStartParams) -> LoginStartResponse, HISTORY_MS;
}

/// The notification that ends the handshake.
pub const INITIALIZED: &str = "initialized";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    pub client_info: ClientInfo,
    pub capabilities: Capabilities,
}

impl InitializeParams {
    /// A client of the experimental API: permission profiles and terminal cleaning need it.
    pub fn experimental(name: &str, version: &str) -> Self {
        Self {
            client_info: ClientInfo {
                name: name.to_owned(),
                version: version.to_owned(),
            },
            capabilities: Capabilities {
                experimental_api: true,
                opt_out_notification_methods: Vec::new(),
            },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClientInfo {
    pub name: String,
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    pub experimental_api: bool,
    /// Notifications this connection does not want, by method.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub opt_out_notification_methods: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResponse {
    /// `name/0.166.0 (…)`: see [`crate::version::from_user_agent`].
    pub user_agent: String,
    pub codex_home: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnStartParams {
    pub thread_id: ThreadId,
    pub input: Vec<UserInput>,
    /// Comes back as `clientId` of the user message, also after a crash.
    #[serde(rename = "clientUserMessageId")]
    pub client_id: ClientId,
    /// Stands beside the params in the request.
    #[serde(skip)]
    pub trace: Option<TraceParent>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TurnStartResponse {
    pub turn: Turn,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnSteerParams {
    pub thread_id: ThreadId,
    /// Refused when another turn is active, so a late steer can not reach a stranger's turn.
    pub expected_turn_id: TurnId,
    pub input: Vec<UserInput>,
    #[serde(rename = "clientUserMessageId")]
    pub client_id: ClientId,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnSteerResponse {
    pub turn_id: TurnId,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnInterruptParams {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn serializes_exact_names_without_unset_fields() {
        let params = TurnStartParams {
            thread_id: ThreadId::new("t"),
            input: vec![UserInput::text("hi\n\"there\"")],
            client_id: ClientId::new("m1.1"),
            trace: None,
        };
        assert_eq!(
            serde_json::to_value(&params).unwrap(),
            json!({"threadId": "t", "clientUserMessageId": "m1.1",
                   "input": [{"type": "text", "text": "hi\n\"there\""}]})
        );
        assert_eq!(
            serde_json::to_value(InitializeParams::experimental("b", "1")).unwrap(),
            json!({"clientInfo": {"name": "b", "version": "1"},
                   "capabilities": {"experimentalApi": true}})
        );
    }

    #[test]
    fn every_method_has_an_end() {
        struct Deadlines(Vec<u64>);
        impl MethodVisitor for Deadlines {
            fn method<M: Method>(&mut self) {
                self.0.push(M::deadline_ms());
            }
        }
        let mut deadlines = Deadlines(Vec::new());
        each_method(&mut deadlines);
        assert!(
            deadlines
                .0
                .iter()
                .all(|ms| (QUICK_MS..=OPEN_MS).contains(ms))
        );
    }
}
