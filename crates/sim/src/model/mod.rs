//! The scripted model: its public face. A real HTTP server on loopback that Codex takes for
//! the OpenAI Responses API, and that does what the last user message tells it to.
//! The parts: `script` and `arguments` read that message into `step`s, `respond`, `calls` and `refuse` shape
//! the answer, `server` plays it, `board` remembers.

mod arguments;
mod board;
mod calls;
mod kit;
mod options;
mod prompt;
mod quota;
mod refuse;
mod respond;
mod script;
mod seen;
mod server;
mod step;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::Error;
use crate::serving::Serving;
use board::{Board, Shared};
use server::Server;

pub use options::Options;
pub use quota::Quota;
pub use seen::Seen;

/// How long [`ScriptedModel::stop`] waits for connections to close before it cuts them off.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// How much of the last message an error quotes.
const ERROR_QUOTE_CHARS: usize = 200;

/// A model on loopback that answers by script.
///
/// The text of the last user message chooses the behaviour. Directives may stand anywhere in
/// it. ` ;; ` divides steps; one step is used up by each tool output that comes back, so
/// `shell:echo hi ;; echo:done` is a tool call and then an answer. Without a directive the
/// model quotes the message.
///
/// | directive | what the model does |
/// | --- | --- |
/// | `echo:TEXT` | answers TEXT, to the end of the step |
/// | `stream:N:MS` | answers in N deltas, MS milliseconds apart |
/// | `big:BYTES` | answers with so many bytes in one delta |
/// | `remember:` | says how many messages it was shown, and quotes the earlier ones |
/// | `shell:CMD`, `escal:CMD` | runs CMD with the tool Codex offers; `escal` asks to leave the sandbox |
/// | `append:FILE:LINE` | adds LINE to FILE; told by the bridge that its work was cut off, it first looks whether it is there |
/// | `patch:FILE:CONTENT` | adds FILE with `apply_patch` |
/// | `tool:NAME:JSON`, `nstool:NS:NAME:JSON` | calls any function |
/// | `relay:AGENT` | asks AGENT the very same with the tool `ask_agent` |
/// | `reason:TEXT`, `say:TEXT` | first a reasoning item; first a message (commentary, unless `phase:` says else) |
/// | `phase:P` | marks the next message `commentary`, `partial_answer` or `final_answer` |
/// | `sleep:SECS` | waits |
/// | `hold:NAME` | waits until [`release`](Self::release) opens that gate |
/// | `pause:NAME` | waits at that gate in the middle of the answer |
/// | `hang:[NAME]` | says nothing more |
/// | `fail:CODE[:N]` | HTTP error, always or for the first N requests with this message |
/// | `usage_limit:SECS[:N]` | HTTP 429 that says the plan's limit is reached and resets in SECS |
/// | `sse_fail:CODE` | `response.failed` with that error code |
/// | `incomplete:` | `response.incomplete` after the answer |
/// | `break:[N]` | breaks the socket in the middle of the answer, always or N times |
/// | `usage:IN:OUT` | token counts to report |
///
/// It serves until it is dropped or [`stop`](Self::stop)ped; streams under way then break.
#[derive(Debug)]
pub struct ScriptedModel {
    address: SocketAddr,
    options: Arc<Options>,
    board: Shared,
    serving: Serving,
}

impl ScriptedModel {
    /// Binds to 127.0.0.1 and serves from then on.
    pub async fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
        let address = listener.local_addr()?;
        let board = Arc::new(watch::Sender::new(Board::default()));
        let options = Arc::new(options);
        let (shown, asked) = (Arc::clone(&board), Arc::clone(&options));
        let serving = Serving::start(|stop| {
            let server = Server {
                board: shown,
                stop,
                options: asked,
            };
            server::serve(listener, server)
        });
        Ok(Self {
            address,
            options,
            board,
            serving,
        })
    }

    /// Stops serving, breaks what is under way, and frees the port before it returns.
    pub async fn stop(self) {
        self.serving.end(STOP_GRACE).await;
    }

    /// The provider's `base_url`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The port in use, for a second model in the place of a stopped one.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The text of a `CODEX_HOME/config.toml` that makes this the only model Codex knows.
    pub fn codex_config(&self) -> String {
        options::codex_config(&self.options, &self.base_url(), None)
    }

    /// The same for one home of several, by whose name its requests are known.
    pub fn codex_config_of(&self, home: &str) -> String {
        options::codex_config(&self.options, &self.base_url(), Some(home))
    }

    /// Opens the gate of `hold:NAME`, for those who wait at it and for all who come later:
    /// it does not matter which of the two is first.
    pub fn release(&self, name: &str) {
        self.board.send_modify(|board| board.release(name));
    }

    /// The latest requests, oldest first (at most 4096 of them).
    pub fn requests(&self) -> Vec<Seen> {
        self.board.borrow().seen.iter().cloned().collect()
    }

    /// The requests from this number on, for whoever keeps more of them than the model does.
    pub fn requests_from(&self, number: u64) -> Vec<Seen> {
        let board = self.board.borrow();
        let later = board.seen.iter().filter(|seen| seen.number >= number);
        later.cloned().collect()
    }

    /// Requests that were refused because [`Options::quota`] was used up.
    pub fn quota_refusals(&self) -> u64 {
        self.board.borrow().quota.refused()
    }

    /// Streams under way now.
    pub fn active(&self) -> usize {
        self.board.borrow().active
    }

    /// The most streams that were under way at once.
    pub fn max_active(&self) -> usize {
        self.board.borrow().max_active
    }

    /// Streams whose client went away before they were finished.
    pub fn aborted(&self) -> u64 {
        self.board.borrow().aborted
    }

    /// The first request, of those seen and those to come, that `wanted` is true for.
    pub async fn wait_for(&self, wanted: impl Fn(&Seen) -> bool) -> Result<Seen, Error> {
        let mut found = None;
        self.wait("a request that the test describes", |board| {
            found = board.seen.iter().find(|seen| wanted(seen)).cloned();
            found.is_some()
        })
        .await?;
        found.ok_or_else(|| self.never("a request that the test describes"))
    }

    /// Returns when a request waits at `hold:NAME` or `hang:NAME` (`hang:` alone is "hang").
    pub async fn wait_held(&self, name: &str) -> Result<(), Error> {
        let what = format!("a request held at {name:?}");
        self.wait(&what, |board| board.is_waiting(name)).await
    }

    /// Returns when at least `count` clients went away before their stream was finished.
    pub async fn wait_aborted(&self, count: u64) -> Result<(), Error> {
        let what = format!("{count} aborted streams");
        self.wait(&what, |board| board.aborted >= count).await
    }

    /// Returns when no stream is under way.
    pub async fn wait_idle(&self) -> Result<(), Error> {
        self.wait("the last stream to end", |board| board.active == 0)
            .await
    }

    async fn wait(&self, what: &str, until: impl FnMut(&Board) -> bool) -> Result<(), Error> {
        let mut board = self.board.subscribe();
        let reached = tokio::time::timeout(self.options.patience, board.wait_for(until)).await;
        match reached {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(self.never(what)),
        }
    }

    fn never(&self, what: &str) -> Error {
        let board = self.board.borrow();
        let last = board.seen.back().map_or("", Seen::last);
        Error::NeverHappened {
            what: what.to_owned(),
            waited: self.options.patience,
            requests: board.total,
            last: respond::clip(last, ERROR_QUOTE_CHARS),
        }
    }
}
