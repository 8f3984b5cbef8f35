//! The handler of both transports, and its backend inside the daemon, where each call is an act of its caller.

use super::tools::{McpCall, TaskTool};
use super::wait::{self, Waited};
use super::{codex_bridge, resources, summary};
use crate::api::idempotency_key;
use crate::{Caller, Control, ControlAction, ControlError, ControlErrorKind, StartArgs};
use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, Implementation, ListPromptsRequestMethod,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use std::future::Future;
use std::time::Duration;

/// Instructions for the model.
const INSTRUCTIONS: &str = "Gives tasks to the OpenAI Codex CLI on this machine and controls them. \
    codex_start begins a task and returns its task_id; codex_wait follows it until it ends or Codex asks; \
    codex_respond answers what Codex asks. Tasks go on without you and survive restarts. \
    codex_bridge does the same in one tool, for agents that know it already.";

/// Where a stdio server's client works, in `_meta` of a call. Believed from the local owner alone.
pub const DIRECTORY_META: &str = "codex-bridge/directory";

/// The caller's span in `_meta` of a call, as the protocol has it; it goes before the header of the HTTP request.
const TRACEPARENT_META: &str = "traceparent";

/// Answers the requests that need tasks.
pub trait Backend: Clone + Send + Sync + 'static {
    /// Calls a tool.
    fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<CallToolResponse, ErrorData>> + Send;

    /// Lists the tasks as resources.
    fn list_resources(
        &self,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<ListResourcesResult, ErrorData>> + Send;

    /// Reads one resource.
    fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<ReadResourceResponse, ErrorData>> + Send;
}

/// The MCP server of both transports: declares the tools and resources, and leaves the work to its backend.
#[derive(Clone, Debug)]
pub(super) struct McpServer<B>(pub(super) B);

/// The backend inside the daemon: each call is an act of the caller of its HTTP request. A session's first caller does
/// not speak for the others.
#[derive(Clone, Debug)]
pub(super) struct ControlBackend<C>(pub(super) C);

impl<C: Control> ControlBackend<C> {
    async fn call(
        &self,
        call: McpCall,
        caller: &Caller,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ControlError> {
        match call {
            McpCall::Whole(act) => self.0.act(caller, act).await,
            McpCall::Do(act @ ControlAction::List { .. }) => {
                Ok(summary::list(&self.0.act(caller, act).await?))
            }
            McpCall::Do(act) => Ok(summary::task(&self.0.act(caller, act).await?)),
            McpCall::Start(args, patience) => self.start(args, patience, caller, context).await,
            McpCall::Wait { task_id, patience } => {
                self.wait(&task_id, patience, caller, context).await
            }
            McpCall::Requests => self.requests(caller).await,
        }
    }

    async fn start(
        &self,
        args: StartArgs,
        patience: Option<Duration>,
        caller: &Caller,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ControlError> {
        let started = self.0.act(caller, ControlAction::Start(args)).await?;
        let task_id = started.pointer("/task/task_id").and_then(Value::as_str);
        match (patience, task_id) {
            (Some(patience), Some(task_id)) => self.wait(task_id, patience, caller, context).await,
            (Some(_), None) | (None, _) => Ok(summary::task(&started)),
        }
    }

    async fn wait(
        &self,
        task_id: &str,
        patience: Duration,
        caller: &Caller,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ControlError> {
        let waited = wait::wait(&self.0, caller, task_id, patience, context).await?;
        Ok(match waited {
            Waited::Settled(envelope) => summary::task(&envelope),
            Waited::StillWorks(envelope) => {
                let mut brief = summary::task(&envelope);
                if let Some(brief) = brief.as_object_mut() {
                    brief.insert("timed_out".to_owned(), json!(true));
                }
                brief
            }
        })
    }

    /// Every open request, of tasks however old, and of messages of other channels, which answer to their own id.
    async fn requests(&self, caller: &Caller) -> Result<Value, ControlError> {
        let listed = self.0.act(caller, ControlAction::Requests).await?;
        let asked = listed.get("requests").and_then(Value::as_array);
        let mut whose: Vec<String> = Vec::new();
        for request in asked.into_iter().flatten() {
            let text = |name| request.get(name).and_then(Value::as_str);
            let id = text("task_id").or_else(|| text("message_id"));
            if let Some(id) = id.filter(|id| !whose.iter().any(|known| known == id)) {
                whose.push(id.to_owned());
            }
        }
        let mut found = Vec::new();
        for task_id in whose {
            let act = ControlAction::Status {
                task_id: task_id.clone(),
            };
            let envelope = match self.0.act(caller, act).await {
                Ok(envelope) => envelope,
                // It was forgotten since the list was made, and its question with it.
                Err(error) if error.kind == ControlErrorKind::Unknown => continue,
                Err(error) => return Err(error),
            };
            let task = envelope.get("task").cloned().unwrap_or_default();
            for mut request in summary::requests(&task) {
                if let Some(request) = request.as_object_mut() {
                    request.insert("task_id".to_owned(), json!(task_id));
                }
                found.push(request);
            }
        }
        let next = if found.is_empty() {
            "Codex waits for nothing."
        } else {
            "Answer each with codex_respond: task_id, request_id, decision, and answers for questions."
        };
        Ok(json!({"success": true, "requests": found, "next": next}))
    }
}

fn request_parts(context: &RequestContext<RoleServer>) -> Result<&Parts, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    parts.ok_or_else(|| ErrorData::internal_error("a request without its HTTP head", None))
}

fn caller(context: &RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
    let caller = request_parts(context)?.extensions.get::<Caller>().cloned();
    caller.ok_or_else(|| ErrorData::internal_error("nobody knows who calls", None))
}

/// All tools, the legacy one first.
fn tools() -> Vec<Tool> {
    let small = TaskTool::ALL.into_iter().map(TaskTool::tool);
    std::iter::once(codex_bridge::tool()).chain(small).collect()
}

/// The envelope as text, as in the legacy tool, and as structured content.
fn tool_result(result: Result<Value, ControlError>) -> CallToolResponse {
    match result {
        // Control has a few refusals that also show the task.
        Ok(envelope) if envelope.get("success") == Some(&json!(false)) => {
            CallToolResult::structured_error(envelope).into()
        }
        Ok(envelope) => CallToolResult::structured(envelope).into(),
        Err(error) => refused(&error.message),
    }
}

/// The result of a tool call that was not done.
#[must_use]
pub fn refused(why: &str) -> CallToolResponse {
    CallToolResult::structured_error(json!({"success": false, "error": why})).into()
}

impl<C: Control> Backend for ControlBackend<C> {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut caller = caller(&context)?;
        let traced = context
            .meta
            .0
            .0
            .get(TRACEPARENT_META)
            .and_then(Value::as_str);
        caller.trace = traced.and_then(|text| text.parse().ok()).or(caller.trace);
        let key = idempotency_key(&request_parts(&context)?.headers)
            .map_err(|_| ErrorData::invalid_params("Idempotency-Key is no key", None))?;
        let directory = context.meta.0.0.get(DIRECTORY_META);
        let directory = directory.and_then(Value::as_str).map(ToOwned::to_owned);
        let result = match McpCall::read(request)? {
            Ok(call) => {
                let call = call.with_key(key).with_base(directory);
                self.call(call, &caller, &context).await
            }
            Err(error) => Err(error),
        };
        Ok(tool_result(result))
    }

    async fn list_resources(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        resources::list(&self.0, &caller(&context)?).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = resources::read(&self.0, &caller(&context)?, &request.uri).await?;
        Ok(read.into())
    }
}

impl<B: Backend> ServerHandler for McpServer<B> {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .build();
        let name = Implementation::new("codex-bridge", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities)
            .with_server_info(name.with_title("Codex bridge"))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        match name {
            codex_bridge::NAME => Some(codex_bridge::tool()),
            name => TaskTool::named(name).map(TaskTool::tool),
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.call_tool(request, context).await
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.0.list_resources(context).await
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.0.read_resource(request, context).await
    }

    // The library would answer these two with empty results, and what is not declared must not be answered.
    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn on_initialized(&self, _context: NotificationContext<RoleServer>) {
        tracing::debug!("an MCP client is there");
    }
}
