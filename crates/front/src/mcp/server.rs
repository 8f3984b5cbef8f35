//! The handler of both transports.

use super::small::{Small, SmallCall};
use super::wait::{self, Waited};
use super::{brief, codex_bridge, resources};
use crate::{Act, Caller, Control, ControlError, ControlErrorKind, StartArgs};
use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, Implementation, JsonObject, ListPromptsRequestMethod,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use std::time::Duration;

/// Instructions for the model.
const INSTRUCTIONS: &str = "Gives tasks to the OpenAI Codex CLI on this machine and controls them. \
    codex_start begins a task and returns its task_id; codex_wait follows it until it ends or Codex asks; \
    codex_respond answers what Codex asks. Tasks go on without you and survive restarts. \
    codex_bridge does the same in one tool, for agents that know it already.";

/// The caller of tool calls.
#[derive(Clone, Debug)]
pub(super) enum CallerSource {
    /// The user that started this process.
    Always(Caller),
    /// The caller of each HTTP request, not of the session.
    OfRequest,
}

/// The MCP server over some [`Control`].
#[derive(Clone, Debug)]
pub(super) struct McpServer<C> {
    control: C,
    who: CallerSource,
}

impl<C: Control> McpServer<C> {
    pub(super) fn new(control: C, who: CallerSource) -> Self {
        Self { control, who }
    }

    fn caller(&self, context: &RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
        match &self.who {
            CallerSource::Always(caller) => Ok(caller.clone()),
            CallerSource::OfRequest => context
                .extensions
                .get::<Parts>()
                .and_then(|parts| parts.extensions.get::<Caller>())
                .cloned()
                .ok_or_else(|| ErrorData::internal_error("nobody knows who calls", None)),
        }
    }

    async fn small(
        &self,
        tool: Small,
        arguments: Option<JsonObject>,
        caller: &Caller,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ControlError> {
        match tool.call(arguments)? {
            SmallCall::Do(act @ Act::List { .. }) => {
                Ok(brief::list(&self.control.act(caller, act).await?))
            }
            SmallCall::Do(act) => Ok(brief::task(&self.control.act(caller, act).await?)),
            SmallCall::Start(args, patience) => self.start(args, patience, caller, context).await,
            SmallCall::Wait { task_id, patience } => {
                self.wait(&task_id, patience, caller, context).await
            }
            SmallCall::Requests => self.requests(caller).await,
        }
    }

    async fn start(
        &self,
        args: StartArgs,
        patience: Option<Duration>,
        caller: &Caller,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ControlError> {
        let started = self.control.act(caller, Act::Start(args)).await?;
        let task_id = started.pointer("/task/task_id").and_then(Value::as_str);
        match (patience, task_id) {
            (Some(patience), Some(task_id)) => self.wait(task_id, patience, caller, context).await,
            (Some(_), None) | (None, _) => Ok(brief::task(&started)),
        }
    }

    async fn wait(
        &self,
        task_id: &str,
        patience: Duration,
        caller: &Caller,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ControlError> {
        let waited = wait::wait(&self.control, caller, task_id, patience, context).await?;
        Ok(match waited {
            Waited::Settled(envelope) => brief::task(&envelope),
            Waited::StillWorks(envelope) => {
                let mut brief = brief::task(&envelope);
                if let Some(brief) = brief.as_object_mut() {
                    brief.insert("timed_out".to_owned(), json!(true));
                }
                brief
            }
        })
    }

    /// All open requests: of tasks, and of messages of other channels under their own id.
    async fn requests(&self, caller: &Caller) -> Result<Value, ControlError> {
        let listed = self.control.act(caller, Act::Requests).await?;
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
            let act = Act::Status {
                task_id: task_id.clone(),
            };
            let envelope = match self.control.act(caller, act).await {
                Ok(envelope) => envelope,
                // Pruned since the list was read, together with its request.
                Err(error) if error.kind == ControlErrorKind::Unknown => continue,
                Err(error) => return Err(error),
            };
            let task = envelope.get("task").cloned().unwrap_or_default();
            for mut request in brief::requests(&task) {
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

/// All tools, the legacy one first.
fn tools() -> Vec<Tool> {
    let small = Small::ALL.into_iter().map(Small::tool);
    std::iter::once(codex_bridge::tool()).chain(small).collect()
}

/// The envelope as text, as in the legacy tool, and as structured content.
fn respond(result: Result<Value, ControlError>) -> CallToolResponse {
    match result {
        // Some refusals show the task as well.
        Ok(envelope) if envelope.get("success") == Some(&json!(false)) => {
            CallToolResult::structured_error(envelope)
        }
        Ok(envelope) => CallToolResult::structured(envelope),
        Err(error) => {
            CallToolResult::structured_error(json!({"success": false, "error": error.message}))
        }
    }
    .into()
}

impl<C: Control> ServerHandler for McpServer<C> {
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
            name => Small::named(name).map(Small::tool),
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = self.caller(&context)?;
        let CallToolRequestParams {
            name, arguments, ..
        } = request;
        if name == codex_bridge::NAME {
            let act = match codex_bridge::act(arguments) {
                Ok(act) => act,
                Err(error) => return Ok(respond(Err(error))),
            };
            return Ok(respond(self.control.act(&caller, act).await));
        }
        let Some(tool) = Small::named(&name) else {
            return Err(ErrorData::invalid_params(
                format!("there is no tool {name:?}"),
                None,
            ));
        };
        Ok(respond(
            self.small(tool, arguments, &caller, &context).await,
        ))
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        resources::list(&self.control, &self.caller(&context)?).await
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
        let caller = self.caller(&context)?;
        let read = resources::read(&self.control, &caller, &request.uri).await?;
        Ok(read.into())
    }

    // Not declared, so refused; the library's default is an empty result.
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
