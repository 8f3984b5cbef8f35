//! Forwards what needs tasks to the daemon's `/mcp`, each request by itself, and outlives the daemon where that is safe.

use super::daemon::DaemonHandle;
use super::directory;
use crate::client::{ApiClient, ClientError, MCP_VERSION, RETRY_MAX, RETRY_MIN, SUBMIT_PATIENCE};
use bridge_core::deadline::after;
use bridge_front::mcp::{Backend, CallTraits, DIRECTORY_META, refused};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ErrorCode,
    ListResourcesResult, ProgressNotificationParam, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The daemon's MCP server, as a backend of this one.
#[derive(Clone, Debug)]
pub(super) struct Proxy(pub(super) Arc<DaemonHandle>);

/// Why a request has no result.
enum ForwardError {
    /// The daemon refused it.
    Refused(ErrorData),
    /// No daemon answered it.
    Unanswered(String),
}

impl From<ForwardError> for ErrorData {
    fn from(error: ForwardError) -> Self {
        match error {
            ForwardError::Refused(error) => error,
            ForwardError::Unanswered(why) => Self::internal_error(why, None),
        }
    }
}

impl Backend for Proxy {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let traits = CallTraits::of(&request);
        let params = json!({"name": request.name, "arguments": request.arguments});
        let mut call = ForwardedCall::new("tools/call", Some(&request.name), params, traits);
        if traits.starts {
            call.directory = directory::of(&context.peer).await;
        }
        match self.forward::<CallToolResult>(call, &context).await {
            Ok(result) => Ok(result.into()),
            Err(ForwardError::Refused(error)) => Err(error),
            Err(ForwardError::Unanswered(why)) => Ok(refused(&why)),
        }
    }

    async fn list_resources(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let call = ForwardedCall::new("resources/list", None, json!({}), READ);
        Ok(self.forward(call, &context).await?)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let params = json!({"uri": request.uri});
        let call = ForwardedCall::new("resources/read", Some(&request.uri), params, READ);
        match self.forward::<ReadResourceResult>(call, &context).await {
            Ok(read) => Ok(read.into()),
            // `MCP_VERSION` has no code of its own for it; where an older client has one, the handler above expects that.
            Err(ForwardError::Refused(error)) if error.code == ErrorCode::INVALID_PARAMS => {
                Err(ErrorData::resource_not_found(error.message, error.data))
            }
            Err(error) => Err(error.into()),
        }
    }
}

const READ: CallTraits = CallTraits {
    repeatable: true,
    starts: false,
    wait: None,
};

/// One request.
struct ForwardedCall<'a> {
    method: &'static str,
    name: Option<&'a str>,
    params: Value,
    traits: CallTraits,
    /// Where the client works, for a task that is started.
    directory: Option<String>,
}

impl<'a> ForwardedCall<'a> {
    fn new(method: &'static str, name: Option<&'a str>, params: Value, traits: CallTraits) -> Self {
        Self {
            method,
            name,
            params,
            traits,
            directory: None,
        }
    }

    /// What is left of the wait after `elapsed`. A call that is repeated asks for that much only.
    fn shorten_wait(&mut self, elapsed: Duration) -> Duration {
        let Some((argument, wait)) = self.traits.wait else {
            return Duration::ZERO;
        };
        let left = wait.saturating_sub(elapsed);
        // Rounded up: the first call asks for what the client asked for.
        self.params["arguments"][argument] = json!(left.as_millis().div_ceil(1000));
        left
    }
}

impl Proxy {
    /// Asks the daemon, and the next one if that went away and a repetition is harmless.
    async fn forward<T: DeserializeOwned>(
        &self,
        mut call: ForwardedCall<'_>,
        context: &RequestContext<RoleServer>,
    ) -> Result<T, ForwardError> {
        let key = uuid::Uuid::new_v4().to_string();
        let begun = Instant::now();
        let mut give_up = after(begun, SUBMIT_PATIENCE);
        let mut pause = RETRY_MIN;
        loop {
            // Not called off half way: a daemon of our own may be starting.
            let client = self.0.client().await;
            let client = client.map_err(|error| ForwardError::Unanswered(error.to_string()))?;
            let asked = Instant::now();
            let wait = call.shorten_wait(begun.elapsed());
            let answer = tokio::select! {
                answer = ask(&client, &call, wait, &key, context) => answer,
                () = context.ct.cancelled() => {
                    return Err(ForwardError::Unanswered("the call was cancelled".to_owned()));
                }
            };
            let error = match answer {
                Ok(Ok(result)) => {
                    let result = serde_json::from_value(result);
                    return result.map_err(|error| ForwardError::Unanswered(error.to_string()));
                }
                Ok(Err(error)) => return Err(ForwardError::Refused(error)),
                Err(error) => error,
            };
            if let ClientError::Unreachable { .. } = &error {
                self.0.forget().await;
            }
            // A daemon that served a long wait did well: the next one gets the whole patience again.
            if asked.elapsed() > SUBMIT_PATIENCE {
                give_up = after(Instant::now(), SUBMIT_PATIENCE);
                pause = RETRY_MIN;
            }
            let again = call.traits.repeatable && error.may_pass();
            if !again || after(Instant::now(), pause) >= give_up {
                return Err(ForwardError::Unanswered(explain(&error)));
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(RETRY_MAX);
        }
    }
}

/// Asks one daemon: the result, or its refusal. Progress goes on to the client.
async fn ask(
    client: &ApiClient,
    call: &ForwardedCall<'_>,
    wait: Duration,
    key: &str,
    context: &RequestContext<RoleServer>,
) -> Result<Result<Value, ErrorData>, ClientError> {
    let mut meta = context.meta.clone();
    meta.set_protocol_version(MCP_VERSION);
    meta.set_client_capabilities(ClientCapabilities::default());
    if let Some(directory) = &call.directory {
        let meta = &mut meta.0.0;
        meta.insert(DIRECTORY_META.to_owned(), json!(directory));
    }
    let mut params = call.params.clone();
    params["_meta"] = json!(meta);
    let request =
        json!({"jsonrpc": "2.0", "id": context.id, "method": call.method, "params": params});
    tracing::debug!(call.method, call.name, "asking the daemon");
    let mut events = client
        .mcp(call.method, call.name, &request, wait, key)
        .await?;
    while let Some(event) = events.next().await? {
        // Streams may begin with an empty event.
        let mut message: Value = serde_json::from_str(&event.data).unwrap_or_default();
        if let Some(result) = message.get_mut("result") {
            return Ok(Ok(result.take()));
        }
        if let Some(error) = message.get_mut("error") {
            let error = serde_json::from_value(error.take());
            return error
                .map(Err)
                .map_err(|error| ClientError::Unreadable(error.to_string()));
        }
        let progress =
            serde_json::from_value::<ProgressNotificationParam>(message["params"].take());
        if let Ok(progress) = progress {
            tracing::debug!("the daemon reports progress");
            // A client that is gone is noticed by its connection.
            let _gone = context.peer.notify_progress(progress).await;
        }
    }
    Err(client.unreachable("it ended before it answered"))
}

fn explain(error: &ClientError) -> String {
    match error {
        ClientError::Unreachable { why, .. } => format!(
            "The codex-bridge daemon went away during this call ({why}). What the call asked for may or may \
             not have been done: look with action=list or codex_list. Tasks are kept and go on when a daemon \
             is back; the next call finds it, or runs one."
        ),
        error => error.to_string(),
    }
}
