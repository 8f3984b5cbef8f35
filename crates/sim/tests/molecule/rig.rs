//! A platform, two workspaces on it, and a client that speaks for one of them.

use bridge_sim::molecule::{Edition, MoleculeOptions, MoleculePlatform, Workspace};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};

/// Everything that a test of the platform needs.
pub(crate) struct Rig {
    pub(crate) platform: MoleculePlatform,
    pub(crate) alpha: Workspace,
    pub(crate) beta: Workspace,
    client: Client,
}

impl Rig {
    pub(crate) async fn start(edition: Edition) -> Self {
        let options = MoleculeOptions {
            edition,
            clock_stands_still: true,
            ..MoleculeOptions::default()
        };
        Self::with(options).await
    }

    pub(crate) async fn with(options: MoleculeOptions) -> Self {
        let platform = MoleculePlatform::start(options).await.unwrap();
        Self {
            alpha: platform.add_workspace("alpha"),
            beta: platform.add_workspace("beta"),
            platform,
            client: Client::builder().no_proxy().build().unwrap(),
        }
    }

    /// A call without any credentials.
    pub(crate) fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.platform.url());
        self.client.request(method, url)
    }

    /// A call of a workspace about itself.
    pub(crate) fn own(&self, method: Method, workspace: &Workspace, rest: &str) -> RequestBuilder {
        self.bare(method, &format!("/workspaces/{}{rest}", workspace.id))
            .bearer_auth(&workspace.token)
    }

    pub(crate) async fn page(&self, workspace: &Workspace, query: &str) -> Vec<Value> {
        let call = self.own(Method::GET, workspace, &format!("/activity{query}"));
        call.send().await.unwrap().json().await.unwrap()
    }

    pub(crate) async fn page_status(&self, workspace: &Workspace, query: &str) -> (u16, Value) {
        let call = self.own(Method::GET, workspace, &format!("/activity{query}"));
        said(call.send().await.unwrap()).await
    }

    pub(crate) async fn notify(&self, workspace: &Workspace, body: &Value) -> (u16, Value) {
        let call = self.own(Method::POST, workspace, "/notify").json(body);
        said(call.send().await.unwrap()).await
    }

    pub(crate) fn a2a(&self, from: &Workspace, to: &Workspace, body: &Value) -> RequestBuilder {
        self.bare(Method::POST, &format!("/workspaces/{}/a2a", to.id))
            .bearer_auth(&from.token)
            .header("X-Workspace-ID", &from.id)
            .json(body)
    }

    pub(crate) async fn send(
        &self,
        from: &Workspace,
        to: &Workspace,
        body: &Value,
    ) -> (u16, Value) {
        said(self.a2a(from, to, body).send().await.unwrap()).await
    }

    pub(crate) async fn registry(
        &self,
        workspace: &Workspace,
        call: &str,
        body: &Value,
    ) -> (u16, Value) {
        let call = self
            .bare(Method::POST, &format!("/registry/{call}"))
            .bearer_auth(&workspace.token)
            .json(body);
        said(call.send().await.unwrap()).await
    }

    pub(crate) async fn beat(&self, workspace: &Workspace) -> (u16, Value) {
        self.registry(
            workspace,
            "heartbeat",
            &json!({"workspace_id": workspace.id}),
        )
        .await
    }

    pub(crate) async fn sign_on(&self, workspace: &Workspace) -> (u16, Value) {
        let body = json!({"id": workspace.id, "url": "", "agent_card": {"name": "a", "skills": []}, "delivery_mode": "poll"});
        self.registry(workspace, "register", &body).await
    }

    pub(crate) async fn look(&self, workspace: &Workspace) -> (u16, Value) {
        let call = self.bare(Method::GET, &format!("/workspaces/{}", workspace.id));
        said(call.send().await.unwrap()).await
    }
}

/// A message with this text and this id.
pub(crate) fn message(id: &str, text: &str) -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": id,
        "method": "message/send",
        "params": {"message": {"role": "user", "messageId": id, "parts": [{"kind": "text", "text": text}]}},
    })
}

/// The status and the body; a body that is no JSON is its text.
pub(crate) async fn said(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (
        status,
        serde_json::from_str(&text).unwrap_or(Value::String(text)),
    )
}

/// The first text of each row: a message's part or a bubble's words.
pub(crate) fn texts(rows: &[Value]) -> Vec<&str> {
    rows.iter()
        .map(|row| {
            let part = row.pointer("/request_body/params/message/parts/0/text");
            let bubble = row.pointer("/response_body/result");
            part.or(bubble).and_then(Value::as_str).unwrap_or_default()
        })
        .collect()
}
