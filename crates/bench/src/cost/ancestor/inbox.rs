//! The platform as the ancestor's tools show it: wait for one message, reply, pop. Nothing is tried again here.

use anyhow::{Context, bail};
use reqwest::{Client, RequestBuilder};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a call may take, the wait of the inbox included.
const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// How long the inbox may keep us waiting.
const WAIT: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize)]
pub(super) struct Row {
    pub(super) row: String,
    pub(super) conversation: String,
    pub(super) text: String,
}

#[derive(Debug, Deserialize)]
struct Page {
    rows: Vec<Row>,
}

/// What goes back to a conversation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    Answer(String),
    Notice(String),
}

#[derive(Debug)]
pub(super) struct Inbox {
    http: Client,
    url: String,
}

impl Inbox {
    pub(super) fn new(url: &str) -> anyhow::Result<Self> {
        let http = Client::builder()
            .no_proxy()
            .timeout(CALL_DEADLINE)
            .build()?;
        Ok(Self {
            http,
            url: url.trim_end_matches('/').to_owned(),
        })
    }

    /// The oldest row without an ack, as soon as there is one; none when there is none for a while.
    pub(super) async fn wait_for_message(&self) -> anyhow::Result<Option<Row>> {
        let wait = WAIT.as_millis();
        let url = format!("{}/inbox?limit=1&mark=0&wait={wait}", self.url);
        let page: Page = call(self.http.get(url)).await?.json().await?;
        Ok(page.rows.into_iter().next())
    }

    /// The ancestor gives its replies neither a key nor a place; the platform wants both, and the time serves.
    pub(super) async fn reply(&self, row: &Row, said: &Said) -> anyhow::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let (kind, text) = match said {
            Said::Answer(text) => ("answer", text),
            Said::Notice(text) => ("notice", text),
        };
        let place = u32::try_from(now.as_millis() % u128::from(u32::MAX))?;
        let body = json!({
            "key": format!("{}-{}", row.row, now.as_nanos()),
            "conversation": row.conversation,
            "row": row.row,
            "ordinal": place,
            "kind": kind,
            "text": text,
        });
        self.post("replies", &body).await
    }

    pub(super) async fn pop(&self, row: &str) -> anyhow::Result<()> {
        self.post("acks", &json!({ "row": row })).await
    }

    async fn post(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        let url = format!("{}/{path}", self.url);
        let answer = call(self.http.post(url).json(body)).await?;
        answer.bytes().await.context("read the answer").map(drop)
    }
}

async fn call(request: RequestBuilder) -> anyhow::Result<reqwest::Response> {
    let response = request.send().await.context("call the platform")?;
    if response.status().is_success() {
        Ok(response)
    } else {
        bail!("the platform says {}", response.status())
    }
}
