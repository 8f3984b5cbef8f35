//! The listeners of the API: `api.sock`, and TCP where it was asked for, with the file in the state directory that goes with
//! it (`listen`).

use crate::api::console::{self, ConsoleRequests};
use crate::api::group::GroupListener;
use crate::api::service::DaemonService;
use crate::config::HttpConfig;
use crate::state::{StateDir, StateError};
use crate::term;
use anyhow::Context;
use bridge_channel::molecule::check_url;
use bridge_core::port::Ledger;
use bridge_core::value::Token;
use bridge_front::api::{Api, Hosts, LocalProcess, ProcessFinder, RouteEntry};
use bridge_front::{BridgeService, LocalProgram, Scope};
use bridge_host::process::peer::{Ours, PeerProcess, PeerProgram};
use bridge_store::AnyLedger;
use data_encoding::HEXLOWER;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;
/// Begins every token, so that people and scanners know what they look at.
const TOKEN_PREFIX: &str = "cbt_";

/// The listeners, bound and not yet open.
pub(crate) struct Listeners {
    local: UnixListener,
    bar: ProcessFinder,
    group: Option<GroupListener>,
    tcp: Option<Tcp>,
    /// What an address needs that is opened for the console.
    place: TcpPlace,
    /// How many file descriptors this process may have.
    descriptors: usize,
}

/// What every address has in common.
#[derive(Clone)]
pub(crate) struct TcpPlace {
    listen_file: PathBuf,
    trusted: Vec<String>,
    public_url: Option<String>,
    proxied: bool,
}

/// An address that is bound.
pub(crate) struct Tcp {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
    hosts: Hosts,
    proxied: bool,
}

/// The listeners, open.
pub(crate) struct Open {
    serving: Vec<JoinHandle<()>>,
    stop: CancellationToken,
    pub(crate) address: Option<SocketAddr>,
    group_socket: Option<PathBuf>,
}

impl Listeners {
    /// Binds what was asked for.
    pub(crate) async fn bind(
        state: &StateDir,
        http: &HttpConfig,
        push_urls: &[&str],
        group: Option<GroupListener>,
    ) -> anyhow::Result<Self> {
        let bar = process_finder(state.run_dir());
        remove(&state.listen_file());
        remove_legacy_token(&state.legacy_token_file());
        let place = TcpPlace::new(state, http, push_urls);
        let tcp = match http.address() {
            Some(address) => Some(Tcp::bind(&place, address).await?),
            None if push_urls.is_empty() => None,
            None => anyhow::bail!(
                "molecule.delivery is \"push\", and the platform can't call a daemon that does not listen: set http.listen, such as \"127.0.0.1:8000\""
            ),
        };
        let local = bind_local(state)?;
        Ok(Self {
            local,
            bar,
            group,
            tcp,
            place,
            descriptors: raise_descriptor_limit(),
        })
    }

    /// Where TCP is served.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().map(|tcp| tcp.address)
    }

    /// Serves at all of them.
    pub(crate) fn open<D: BridgeService>(self, service: D, console: ConsoleRequests) -> Open {
        let stop = CancellationToken::new();
        let address = self.address();
        let api = Api::new(service, stop.clone()).within_descriptors(self.descriptors);
        let bar = self.bar.clone();
        let mut serving = vec![tokio::spawn(api.clone().serve_local(self.local, self.bar))];
        let group_socket = self.group.as_ref().map(|group| group.path.clone());
        if let Some(group) = self.group {
            let api = api.clone();
            let serve = api.serve_group(group.listener, bar, group.users, group.scopes);
            serving.push(tokio::spawn(serve));
        }
        match self.tcp {
            Some(tcp) => serving.push(tokio::spawn(tcp.serve(api))),
            None => {
                let serve = console::serve(api, self.place, console, stop.clone());
                serving.push(tokio::spawn(serve));
            }
        }
        Open {
            serving,
            stop,
            address,
            group_socket,
        }
    }
}

impl Open {
    /// Ends open streams and lets calls finish.
    pub(crate) async fn close(self) {
        self.stop.cancel();
        for listener in self.serving {
            let _ended = tokio::time::timeout(crate::run::HALT_PATIENCE, listener).await;
        }
        if let Some(path) = self.group_socket {
            remove(&path);
        }
    }
}

impl TcpPlace {
    fn new(state: &StateDir, http: &HttpConfig, push_urls: &[&str]) -> Self {
        let mut trusted = http.trusted_hosts.clone();
        trusted.extend(push_urls.iter().filter_map(|url| host_of(url)));
        Self {
            listen_file: state.listen_file(),
            trusted,
            public_url: http.public_url.clone(),
            proxied: http.trusted_proxy,
        }
    }
}

impl Tcp {
    pub(crate) async fn bind(place: &TcpPlace, asked: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(asked)
            .await
            .with_context(|| format!("listen on {asked}: choose another address or port with --listen or http.listen, or end whoever has it"))?;
        let address = listener.local_addr()?;
        let hosts = Hosts::new(address.port(), &place.trusted, place.public_url.as_deref())?;
        write_private(&place.listen_file, &format!("{address}\n"))?;
        Ok(Self {
            listener,
            address,
            hosts,
            proxied: place.proxied,
        })
    }

    pub(crate) async fn serve<D: BridgeService>(self, api: Api<D>) {
        api.serve_tcp(self.listener, self.hosts, self.proxied).await;
    }
}

/// The host that callers of an address name, with its port if that is written out.
fn host_of(url: &str) -> Option<String> {
    let (url, _) = check_url(url).ok()?;
    let host = url.host_str()?;
    Some(match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

/// Refuses control to processes of Codex, and to processes that can't be inspected.
fn process_finder(run_dir: PathBuf) -> ProcessFinder {
    let run_dir: Arc<Path> = run_dir.into();
    ProcessFinder::new(move |stream| {
        let (found, run_dir) = (PeerProcess::of(stream), Arc::clone(&run_dir));
        LocalProcess::new(move || {
            let process = found.as_ref().map_err(ToString::to_string)?;
            let program = process.inspect(&run_dir).map_err(|why| why.to_string())?;
            Ok(local_program(program))
        })
    })
}

/// What hides its file and has our name may be anything, and never counts as a person.
fn local_program(program: PeerProgram) -> LocalProgram {
    match (program.ours, program.has_terminal) {
        (Ours::ByFile, true) => LocalProgram::OwnAtTerminal,
        (Ours::ByFile, false) | (Ours::ByName, _) => LocalProgram::OwnAlone,
        (Ours::No, _) => LocalProgram::Other(program.name),
    }
}

/// All routes of the API with their guards.
pub fn routes() -> Vec<RouteEntry> {
    Api::<DaemonService<AnyLedger>>::routes()
}

/// The OpenAPI document, as the running daemon gives it.
fn openapi_text() -> String {
    format!("{:#}\n", Api::<DaemonService<AnyLedger>>::openapi())
}

/// Prints it, for code generators and for `docs/openapi.json`.
pub fn print_openapi() -> ExitCode {
    match term::print_whole(&openapi_text()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Binds the API's socket. The lock is held, so a file that is there belongs to a daemon that is gone.
fn bind_local(state: &StateDir) -> Result<UnixListener, StateError> {
    let path = state.api_socket();
    remove(&path);
    let not_writable = |source| StateError::NotWritable {
        path: path.clone(),
        source,
    };
    let listener = UnixListener::bind(&path).map_err(not_writable)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
        .map_err(not_writable)?;
    Ok(listener)
}

/// Takes away what says where the daemon is.
pub(crate) fn remove_traces(state: &StateDir) {
    remove(&state.api_socket());
    remove(&state.listen_file());
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "an old file could not be removed");
    }
}

/// A new token.
pub(crate) fn random_token() -> io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{TOKEN_PREFIX}{}", HEXLOWER.encode(&bytes)))
}

/// Removes the owner's token as earlier versions kept it. Its value has no row, so it is accepted nowhere.
fn remove_legacy_token(path: &Path) {
    match std::fs::remove_file(path) {
        Ok(()) => tracing::warn!(
            path = %path.display(),
            "removed the file of the owner's token: it is not accepted any more, and no token is kept in a file; `codex-bridge token add NAME --owner` makes a new one"
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(
            %error, path = %path.display(),
            "the file of the owner's token could not be removed; it is not accepted any more"
        ),
    }
}

/// Says how to make an owner's token while nobody has one: without it TCP is of little use.
pub(crate) async fn suggest_owner_token(ledger: &AnyLedger) {
    let admin = Scope::Admin.as_str();
    let is_owner = move |token: &Token| {
        token.is_live_bearer() && token.scopes.iter().any(|scope| scope == admin)
    };
    let found = ledger.read(move |rows| Ok(rows.tokens()?.iter().any(is_owner)));
    if matches!(found.await, Ok(false)) {
        tracing::info!(
            "no token of the owner's was made yet: `codex-bridge token add NAME --owner` makes one and shows it once"
        );
    }
}

/// Writes a file that nobody else can read, whole or not at all.
fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        let place = path.parent().unwrap_or(Path::new("."));
        // Such a file is 0600 from the beginning.
        let mut file = tempfile::NamedTempFile::new_in(place)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("write {}", path.display()))
}

/// Enough for all connections with room to spare. Not more: what Codex runs inherits it, and some programs close every
/// descriptor up to the limit one by one.
const DESCRIPTORS_WANTED: u64 = 4096;
/// Taken as the limit where it can't be read; the least that systems give.
const DESCRIPTORS_UNKNOWN: u64 = 256;

/// Raises the soft limit of file descriptors and returns the limit that holds then.
fn raise_descriptor_limit() -> usize {
    let limit = match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, hard)) => {
            let wanted = hard.min(DESCRIPTORS_WANTED).max(soft);
            match setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) {
                Ok(()) => wanted,
                Err(_) => soft,
            }
        }
        Err(_) => DESCRIPTORS_UNKNOWN,
    };
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_openapi_is_current() {
        let published = include_str!("../../../../docs/openapi.json");
        assert!(
            published == openapi_text(),
            "write it again: codex-bridge api schema > docs/openapi.json"
        );
    }

    #[test]
    fn f2_a_hidden_program_is_no_person() {
        let program = |ours, has_terminal| {
            let name = "codex-bridge".to_owned();
            local_program(PeerProgram {
                name,
                ours,
                has_terminal,
            })
        };
        assert_eq!(program(Ours::ByFile, true), LocalProgram::OwnAtTerminal);
        assert_eq!(program(Ours::ByName, true), LocalProgram::OwnAlone);
        assert_eq!(program(Ours::ByName, false), LocalProgram::OwnAlone);
        let other = LocalProgram::Other("codex-bridge".to_owned());
        assert_eq!(program(Ours::No, true), other);
    }

    #[test]
    fn f1_token_file_of_earlier_versions_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        remove_legacy_token(&path);
        write_private(&path, "cbt_old\n").unwrap();
        remove_legacy_token(&path);
        assert!(!path.exists());
        let elsewhere = dir.path().join("elsewhere");
        std::fs::write(&elsewhere, "kept").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        remove_legacy_token(&path);
        assert!(elsewhere.exists() && !path.is_symlink());
    }

    #[test]
    fn threat_1_tokens_are_random() {
        let token = random_token().unwrap();
        assert_eq!(token.len(), TOKEN_PREFIX.len() + 2 * TOKEN_BYTES);
        assert_ne!(token, random_token().unwrap());
    }
}
