//! The record of one request, for tests to look at: what Codex showed the model.
//! Data only; keeping records and waiting for them is `board`'s business.
//! Nothing secret is kept, so that a failing test may print it.

/// One request that Codex made, as far as tests care.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// Its place among all requests, from 0.
    pub number: u64,
    /// When it came, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The Codex thread it came from, if Codex said.
    pub thread_id: Option<String>,
    /// The name of the CODEX_HOME it came from, if that has one.
    pub home: Option<String>,
    /// The model that was asked for.
    pub model: String,
    /// What users said, oldest first, without what Codex adds in their name.
    pub users: Vec<String>,
    /// How many pictures came with the last of these.
    pub images: usize,
    /// What tools gave back since the last of these.
    pub outputs: Vec<String>,
    /// The names of the tools that Codex offered.
    pub tools: Vec<String>,
    /// Whether there was an `Authorization` header. Its value is never kept.
    pub authorized: bool,
    /// The size of the body in bytes.
    pub body_bytes: usize,
}

impl Seen {
    /// The last user message, the one that chose the behaviour.
    pub fn last(&self) -> &str {
        self.users.last().map_or("", String::as_str)
    }

    /// Which step of that message's script was played, from 0.
    pub fn step(&self) -> usize {
        self.outputs.len()
    }

    /// What keeping it costs, in bytes of text.
    pub(super) fn weight(&self) -> usize {
        let texts = self.users.iter().chain(&self.outputs).chain(&self.tools);
        texts.map(String::len).sum()
    }
}
