//! The platform as the ancestor's tools show it: wait for one message, reply, pop. Nothing is tried again here.
//! What was popped is kept in a file: the row of each feed that was worked on last.

use anyhow::{Context, bail};
use reqwest::{Client, RequestBuilder};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How long a call may take.
const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// How long it is waited when no feed has a message.
const PAUSE: Duration = Duration::from_millis(100);
/// Rows of one look; what the platform shows at most.
const ROWS: usize = 500;

/// A workspace that is served, as `ID:TOKEN`.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    id: String,
    token: String,
}

impl std::str::FromStr for Served {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (id, token) = text.split_once(':').ok_or("not ID:TOKEN")?;
        Ok(Self {
            id: id.to_owned(),
            token: token.to_owned(),
        })
    }
}

/// A message.
#[derive(Debug)]
pub(super) struct Row {
    id: String,
    workspace: Served,
    pub(super) text: String,
}

impl Row {
    /// A canvas is one conversation.
    pub(super) fn conversation(&self) -> &str {
        &self.workspace.id
    }
}

/// A row of a feed, as far as it is used.
#[derive(Debug, Deserialize)]
struct Shown {
    id: String,
    seq: u64,
    method: Option<String>,
    #[serde(default)]
    request_body: Value,
}

impl Shown {
    fn text(&self) -> String {
        let parts = self.request_body.pointer("/params/message/parts");
        let parts = parts.and_then(Value::as_array).into_iter().flatten();
        parts
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect()
    }
}

#[derive(Debug)]
pub(super) struct Inbox {
    http: Client,
    url: String,
    workspaces: Vec<Served>,
    file: PathBuf,
    popped: BTreeMap<String, String>,
}

impl Inbox {
    pub(super) fn new(url: &str, workspaces: Vec<Served>, file: PathBuf) -> anyhow::Result<Self> {
        let http = Client::builder()
            .no_proxy()
            .timeout(CALL_DEADLINE)
            .build()?;
        let popped = match std::fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text).context("understand what was popped")?,
            Err(_) => BTreeMap::new(),
        };
        Ok(Self {
            http,
            url: url.trim_end_matches('/').to_owned(),
            workspaces,
            file,
            popped,
        })
    }

    /// The oldest message that was not popped; none when there is none now.
    pub(super) async fn wait_for_message(&self) -> anyhow::Result<Option<Row>> {
        let mut oldest: Option<(u64, Row)> = None;
        for workspace in &self.workspaces {
            let found = self.first_message(workspace).await?;
            if let Some(shown) = found
                && oldest.as_ref().is_none_or(|(seq, _)| shown.seq < *seq)
            {
                let row = Row {
                    text: shown.text(),
                    id: shown.id,
                    workspace: workspace.clone(),
                };
                oldest = Some((shown.seq, row));
            }
        }
        if oldest.is_none() {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(oldest.map(|(_, row)| row))
    }

    async fn first_message(&self, workspace: &Served) -> anyhow::Result<Option<Shown>> {
        let popped = self.popped.get(&workspace.id);
        let after = popped.map_or(String::new(), |row| format!("&since_id={row}"));
        let feed = format!("{}/workspaces/{}/activity", self.url, workspace.id);
        let call = self
            .http
            .get(format!("{feed}?type=a2a_receive&limit={ROWS}{after}"))
            .bearer_auth(&workspace.token);
        let mut rows: Vec<Shown> = call_of(call).await?.json().await?;
        if popped.is_none() {
            // Without a row to begin after, the newest is first.
            rows.reverse();
        }
        let is_message = |row: &Shown| {
            let method = row.method.as_deref();
            method.is_some_and(|method| method.starts_with("message/"))
        };
        Ok(rows.into_iter().find(is_message))
    }

    pub(super) async fn reply(&self, row: &Row, text: &str) -> anyhow::Result<()> {
        let Served { id, token } = &row.workspace;
        let call = self
            .http
            .post(format!("{}/workspaces/{id}/notify", self.url))
            .bearer_auth(token)
            .json(&json!({ "message": text }));
        let answer = call_of(call).await?;
        answer.bytes().await.context("read the answer").map(drop)
    }

    /// Half a file would lose all of it, so it is put in place whole.
    pub(super) fn pop(&mut self, row: Row) -> anyhow::Result<()> {
        self.popped.insert(row.workspace.id, row.id);
        let fresh = self.file.with_extension("new");
        std::fs::write(&fresh, serde_json::to_string(&self.popped)?)?;
        std::fs::rename(&fresh, &self.file).context("keep what was popped")
    }
}

async fn call_of(request: RequestBuilder) -> anyhow::Result<reqwest::Response> {
    let response = request.send().await.context("call the platform")?;
    if response.status().is_success() {
        Ok(response)
    } else {
        bail!("the platform says {}", response.status())
    }
}
