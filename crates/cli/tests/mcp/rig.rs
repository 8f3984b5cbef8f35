//! A client of the official SDK, and the stdio server that it starts.
#![expect(deprecated, reason = "clients of older revisions offer roots")]

use crate::world::{Lines, World, within};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientConfig, ListRootsResult, Root, RootsCapabilities,
};
use rmcp::service::{RequestContext, RunningService};
use rmcp::{ClientHandler, ErrorData, RoleClient, ServiceExt};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Child;

/// A client, whichever way it is connected.
pub(crate) struct Client(pub(crate) RunningService<RoleClient, TestClient>);

/// A client with these roots; it offers none if there are none.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestClient {
    pub(crate) roots: Vec<PathBuf>,
}

impl ClientHandler for TestClient {
    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        let uri = |path: &PathBuf| Root::new(format!("file://{}", path.display()));
        Ok(ListRootsResult::new(self.roots.iter().map(uri).collect()))
    }

    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::default();
        if !self.roots.is_empty() {
            info.capabilities.roots = Some(RootsCapabilities::default());
        }
        info
    }
}

/// `codex-bridge mcp` and the client that started it.
pub(crate) struct Mcp {
    pub(crate) client: Client,
    pub(crate) log: Lines,
    child: Child,
}

impl Mcp {
    pub(crate) async fn start(world: &World) -> Self {
        Self::start_in(world, world.path(), TestClient::default()).await
    }

    /// The same, started in this directory by this client.
    pub(crate) async fn start_in(world: &World, directory: &Path, client: TestClient) -> Self {
        let mut command = world.command(&["mcp"]);
        command.current_dir(directory);
        command.stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let log = Lines::of(child.stderr.take().unwrap());
        let client = within("the handshake", client.serve((stdout, stdin)))
            .await
            .unwrap();
        Self {
            client: Client(client),
            log,
            child,
        }
    }

    /// Closes its standard input, as clients do; gives its exit code.
    pub(crate) async fn close(mut self) -> Option<i32> {
        self.client.0.cancel().await.unwrap();
        exit_code(&mut self.child).await
    }

    /// Waits for its end while the client still listens; gives its exit code.
    pub(crate) async fn ended(mut self) -> Option<i32> {
        exit_code(&mut self.child).await
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id().unwrap()).unwrap()
    }
}

async fn exit_code(child: &mut Child) -> Option<i32> {
    let ended = within("the end of mcp", child.wait()).await;
    ended.unwrap().code()
}

impl Client {
    pub(crate) async fn call(&self, tool: &'static str, arguments: Value) -> CallToolResult {
        let call =
            CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone());
        within(tool, self.0.call_tool(call)).await.unwrap()
    }

    /// A call that must work; what it said.
    pub(crate) async fn done(&self, tool: &'static str, arguments: Value) -> Value {
        let said = self.told(tool, arguments).await;
        assert_eq!(said["success"], true, "{said:#}");
        said
    }

    /// A call that must be refused; why.
    pub(crate) async fn refused(&self, tool: &'static str, arguments: Value) -> String {
        let said = self.told(tool, arguments).await;
        assert_eq!(said["success"], false, "{said:#}");
        said["error"].as_str().unwrap().to_owned()
    }

    /// The text of a result: JSON, the same as its structured content, and an error where it says so.
    async fn told(&self, tool: &'static str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        let text = result.content.first().unwrap().as_text().unwrap();
        let said: Value = serde_json::from_str(&text.text).unwrap();
        assert_eq!(result.structured_content.as_ref(), Some(&said));
        assert_eq!(
            said["success"] == true,
            result.is_error != Some(true),
            "{said:#}"
        );
        said
    }
}
