//! Connections of `api.sock`, and the processes that open them.
//!
//! Everybody who can open the socket acts as the owner, except processes that Codex runs: they are refused when they
//! connect. The guard checks the others again at each request.

use super::ProblemResponse;
use super::guard::ConnectionPeer;
use super::limits::{
    FIRST_BYTE_DEADLINE, HEAD_MAX_BYTES, REFUSAL_DEADLINE, REFUSAL_LOGGED_EVERY, REFUSALS_MAX,
};
use super::server::{Socket, refuse};
use crate::control::LocalProgram;
use crate::lock;
use axum::response::IntoResponse;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Finds the process at the other end of a connection.
#[derive(Clone)]
pub struct ProcessFinder(Arc<dyn Fn(&UnixStream) -> LocalProcess + Send + Sync>);

impl ProcessFinder {
    /// Called once per connection.
    pub fn new(find: impl Fn(&UnixStream) -> LocalProcess + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }
}

impl fmt::Debug for ProcessFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProcessFinder")
    }
}

/// The process that opened a connection.
#[derive(Clone)]
pub struct LocalProcess(Arc<dyn Fn() -> Result<LocalProgram, String> + Send + Sync>);

impl LocalProcess {
    /// `inspect` returns what the process is now, or why it is refused.
    pub fn new(inspect: impl Fn() -> Result<LocalProgram, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(inspect))
    }

    pub(super) fn inspect(&self) -> Result<LocalProgram, String> {
        (self.0)()
    }
}

impl fmt::Debug for LocalProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalProcess")
    }
}

type FindUser = dyn Fn(&UnixStream) -> Result<String, String> + Send + Sync;

/// Finds the user at the other end of a connection of the group's socket, or says why they are refused.
#[derive(Clone)]
pub struct UserFinder(Arc<FindUser>);

impl UserFinder {
    /// Called once per connection.
    pub fn new(
        find: impl Fn(&UnixStream) -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(find))
    }
}

impl fmt::Debug for UserFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserFinder")
    }
}

/// The listening socket of `api.sock`, or of the group.
pub(super) struct Local {
    listener: UnixListener,
    bar: ProcessFinder,
    /// Set on the group's socket.
    users: Option<UserFinder>,
    refusals: Arc<Semaphore>,
    logged: Mutex<Option<Instant>>,
}

impl Local {
    pub(super) fn new(listener: UnixListener, bar: ProcessFinder) -> Self {
        Self {
            listener,
            bar,
            users: None,
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            logged: Mutex::default(),
        }
    }

    /// The socket of a group.
    pub(super) fn of_group(listener: UnixListener, bar: ProcessFinder, users: UserFinder) -> Self {
        Self {
            users: Some(users),
            ..Self::new(listener, bar)
        }
    }

    /// Answers with the reason, outside the connection limit, and closes.
    fn refuse(&self, stream: UnixStream, why: String) {
        self.log(&why);
        let Ok(place) = Arc::clone(&self.refusals).try_acquire_owned() else {
            return;
        };
        tokio::spawn(async move {
            let _silent = tokio::time::timeout(REFUSAL_DEADLINE, tell(stream, why)).await;
            drop(place);
        });
    }

    fn log(&self, why: &str) {
        let mut logged = lock(&self.logged);
        let now = Instant::now();
        if logged.is_none_or(|at| now.duration_since(at) >= REFUSAL_LOGGED_EVERY) {
            *logged = Some(now);
            tracing::warn!(why, "a connection was refused");
        }
    }
}

impl Socket for Local {
    type Io = UnixStream;

    /// The owner's own connections may stay silent; those of a group are other people's.
    fn first_byte(&self) -> Option<Duration> {
        self.users.as_ref().map(|_| FIRST_BYTE_DEADLINE)
    }

    async fn accept(&self) -> io::Result<(UnixStream, ConnectionPeer)> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            let process = (self.bar.0)(&stream);
            match process.inspect() {
                Ok(_) => {
                    let user = match &self.users {
                        Some(users) => match (users.0)(&stream) {
                            Ok(user) => Some(user),
                            Err(why) => {
                                self.refuse(stream, why);
                                continue;
                            }
                        },
                        None => None,
                    };
                    let peer = ConnectionPeer {
                        address: None,
                        process: Some(process),
                        user,
                    };
                    return Ok((stream, peer));
                }
                Err(why) => self.refuse(stream, why),
            }
        }
    }
}

/// Answers one request with the reason. Reads its head first, because clients ignore an answer before their request.
async fn tell(mut stream: UnixStream, why: String) -> io::Result<()> {
    let (mut head, mut part) = (Vec::<u8>::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut part).await? {
            0 => return Ok(()),
            count => head.extend(part.iter().take(count)),
        }
        if head.len() > HEAD_MAX_BYTES {
            return Ok(());
        }
    }
    refuse(stream, ProblemResponse::forbidden(why).into_response()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn silent_members_are_closed_early() {
        let directory = tempfile::tempdir().unwrap();
        let listener = |name: &str| UnixListener::bind(directory.path().join(name)).unwrap();
        let bar = ProcessFinder::new(|_| LocalProcess::new(|| Ok(LocalProgram::OwnAtTerminal)));
        let own = Local::new(listener("own"), bar.clone());
        assert_eq!(own.first_byte(), None);
        let users = UserFinder::new(|_| Ok("ada".to_owned()));
        let group = Local::of_group(listener("group"), bar, users);
        assert_eq!(group.first_byte(), Some(FIRST_BYTE_DEADLINE));
    }
}
