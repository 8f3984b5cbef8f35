//! HTTP as a target: bytes on a connection, as a stranger may send them.

use crate::engine::Target;
use crate::service::TestService;
use bridge_front::LocalProgram;
use bridge_front::api::{Api, LocalProcess, ProcessFinder};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// Connections until everything is made anew.
const CONNECTIONS_MAX: u32 = 200;
/// How much of the answers is read.
const ANSWER_MAX_BYTES: usize = 1 << 20;
/// How long the server may take to say more, by a clock that jumps.
const PATIENCE: Duration = Duration::from_secs(20);
/// Stands for the length of the body.
const LENGTH: &str = "LENGTH";

/// A server on a socket in a directory of its own.
pub(crate) struct HttpWire {
    runtime: Runtime,
    folder: TempDir,
    stop: CancellationToken,
    served: u32,
}

impl HttpWire {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        Self {
            runtime,
            folder: tempfile::tempdir().unwrap(),
            stop: CancellationToken::new(),
            served: 0,
        }
    }

    fn refresh(&mut self) -> std::path::PathBuf {
        let turn = self.served / CONNECTIONS_MAX;
        let path = self.folder.path().join(turn.to_string());
        if self.served.is_multiple_of(CONNECTIONS_MAX) {
            self.stop.cancel();
            self.stop = CancellationToken::new();
            let _runs = self.runtime.enter();
            let listener = UnixListener::bind(&path).unwrap();
            let api = Api::new(TestService::new(), self.stop.clone());
            self.runtime.spawn(api.serve_local(listener, anybody()));
        }
        self.served += 1;
        path
    }
}

impl Target for HttpWire {
    const NAME: &'static str = "http";
    const DICTIONARY: &'static [&'static str] = crate::words::HTTP;

    fn read(&mut self, input: &[u8]) -> Result<String, String> {
        let path = self.refresh();
        let sent = with_length(input);
        let answers = self.runtime.block_on(async {
            let mut stream = UnixStream::connect(path).await.unwrap();
            // It may have heard enough before all was said.
            let _heard = stream.write_all(&sent).await;
            let mut answers = Vec::new();
            let mut chunk = vec![0; 16 << 10];
            while answers.len() < ANSWER_MAX_BYTES {
                match tokio::time::timeout(PATIENCE, stream.read(&mut chunk)).await {
                    Ok(Ok(count)) if count > 0 => answers.extend_from_slice(&chunk[..count]),
                    _ => break,
                }
            }
            answers
        });
        describe(&answers)
    }
}

/// The statuses of all answers, and whether they are answers at all.
fn describe(answers: &[u8]) -> Result<String, String> {
    if answers.is_empty() {
        return Ok("nothing".to_owned());
    }
    if !answers.starts_with(b"HTTP/1.") {
        let shown = String::from_utf8_lossy(&answers[..answers.len().min(80)]);
        return Err(format!("the answer is none of HTTP: {shown:?}"));
    }
    let text = String::from_utf8_lossy(answers);
    let mut words = String::new();
    for status in text.split("HTTP/1.").skip(1).take(4) {
        let number = status.get(2..5).unwrap_or("");
        if number == "500" {
            return Err("the answer is 500".to_owned());
        }
        let detail = status.split("\"detail\":\"").nth(1).unwrap_or("");
        let detail = detail
            .split(['`', '"', '\'', ':', '('])
            .next()
            .unwrap_or("");
        let named: String = number
            .bytes()
            .filter(u8::is_ascii_digit)
            .map(|digit| char::from(b'a' + digit - b'0'))
            .collect();
        words.push_str(&format!("s{named} {detail} "));
    }
    Ok(words)
}

/// The length of the body in the place of its name, where the head asks for it.
fn with_length(input: &[u8]) -> Vec<u8> {
    let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") else {
        return input.to_vec();
    };
    let (head, body) = input.split_at(end);
    let length = (body.len() - 4).to_string();
    let at = head
        .windows(LENGTH.len())
        .position(|word| word == LENGTH.as_bytes());
    match at {
        Some(at) => [
            &head[..at],
            length.as_bytes(),
            &head[at + LENGTH.len()..],
            body,
        ]
        .concat(),
        None => input.to_vec(),
    }
}

/// Lets every process in.
fn anybody() -> ProcessFinder {
    ProcessFinder::new(|_| LocalProcess::new(|| Ok(LocalProgram::OwnAlone)))
}
