//! Where the console is: where the API is served over TCP, or on an address of its own that is opened for it.

use crate::api::listeners::{Tcp, TcpPlace};
use crate::config::{CONSOLE_ADDRESS, HttpConfig};
use bridge_core::value::{Timestamp, Token, TokenKind};
use bridge_front::api::Api;
use bridge_front::{BridgeService, ConsolePlace};
use std::io;
use std::net::SocketAddr;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Calls that wait for the listener; more of them wait before they are put.
const CALLS_MAX: usize = 4;
/// Why there is none.
pub(crate) const NOT_SERVED: &str = "this daemon serves no console: it was built without, or `console.enabled` is false in its configuration";
const STOPPING: &str = "the daemon is stopping: open the console when it is back";

/// Whether this program holds the page.
pub(crate) fn is_built() -> bool {
    bridge_front::CONSOLE_IS_BUILT
}

type Reply = oneshot::Sender<Result<SocketAddr, String>>;

/// Asks for the console's listener.
#[derive(Clone)]
pub(crate) struct ConsoleCalls(mpsc::Sender<Reply>);

/// What is asked, for the task that listens.
pub(crate) struct ConsoleRequests(mpsc::Receiver<Reply>);

pub(crate) fn channel() -> (ConsoleCalls, ConsoleRequests) {
    let (calls, requests) = mpsc::channel(CALLS_MAX);
    (ConsoleCalls(calls), ConsoleRequests(requests))
}

impl ConsoleCalls {
    /// Listens for the console, unless that was done before.
    pub(crate) async fn listen(&self) -> Result<SocketAddr, String> {
        let (reply, answer) = oneshot::channel();
        self.0.send(reply).await.map_err(|_| STOPPING.to_owned())?;
        answer.await.map_err(|_| STOPPING.to_owned())?
    }
}

/// Listens when somebody asks, and serves until `stop`.
pub(crate) async fn serve<D: BridgeService>(
    api: Api<D>,
    place: TcpPlace,
    mut requests: ConsoleRequests,
    stop: CancellationToken,
) {
    let mut serving = None;
    loop {
        let request = tokio::select! {
            request = requests.0.recv() => request,
            () = stop.cancelled() => None,
        };
        let Some(reply) = request else { break };
        let answer = match &serving {
            Some((address, _)) => Ok(*address),
            None => match open(&place).await {
                Ok(tcp) => {
                    let address = tcp.address;
                    tracing::info!(%address, "listens for the console");
                    serving = Some((address, tokio::spawn(tcp.serve(api.clone()))));
                    Ok(address)
                }
                Err(error) => Err(format!("{error:#}")),
            },
        };
        // A caller that hung up asks again.
        let _gone = reply.send(answer);
    }
    if let Some((_, served)) = serving {
        let _ended = served.await;
    }
}

/// The address of bookmarks, or any other where another program has it.
async fn open(place: &TcpPlace) -> anyhow::Result<Tcp> {
    match Tcp::bind(place, CONSOLE_ADDRESS).await {
        Err(error) if is_taken(&error) => {
            Tcp::bind(place, SocketAddr::new(CONSOLE_ADDRESS.ip(), 0)).await
        }
        bound => bound,
    }
}

fn is_taken(error: &anyhow::Error) -> bool {
    let source = error.downcast_ref::<io::Error>();
    source.is_some_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

/// The console's addresses, where the API is served at this one.
pub(crate) fn place(address: SocketAddr, http: &HttpConfig) -> Result<ConsolePlace, String> {
    let ip = address.ip().to_canonical();
    let host = match (ip.is_unspecified(), ip.is_loopback()) {
        (true, _) => Some(SocketAddr::new(CONSOLE_ADDRESS.ip(), address.port())),
        (false, true) => Some(address),
        (false, false) => None,
    };
    let url = host.map(|host| format!("http://{host}/console/"));
    let public_url = http.public_url.as_deref();
    let public_url = public_url.map(|base| format!("{}/console/", base.trim_end_matches('/')));
    if url.is_none() && public_url.is_none() {
        return Err(format!(
            "browsers reach {address} only through your proxy: set `http.public_url` to its address"
        ));
    }
    let is_other = http.listen.is_none() && address != CONSOLE_ADDRESS;
    Ok(ConsolePlace {
        url,
        public_url,
        remark: is_other.then(|| {
            format!(
                "another program listens on {CONSOLE_ADDRESS}, so the console has another port until the daemon ends; set `http.listen` for one that stays"
            )
        }),
    })
}

/// Listens again where somebody is signed in, so that an open page finds a daemon that was started again.
pub(crate) async fn reopen<D: BridgeService>(service: &D) {
    let now = service.now();
    let signed_in =
        service.read(move |rows| Ok(rows.tokens()?.iter().any(|row| is_session(row, now))));
    if !service.console_enabled() || !matches!(signed_in.await, Ok(true)) {
        return;
    }
    let problem = match service.open_console().await {
        Ok(place) => place.remark,
        Err(why) => Some(why),
    };
    if let Some(why) = problem {
        tracing::warn!(%why, "open pages of the console can't reach this daemon");
    }
}

fn is_session(row: &Token, now: Timestamp) -> bool {
    matches!(row.kind, TokenKind::Session(_)) && row.is_live(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str, listen: bool, public_url: Option<&str>) -> Result<ConsolePlace, String> {
        let http = HttpConfig {
            listen: listen.then(|| address.to_owned()),
            public_url: public_url.map(ToOwned::to_owned),
            ..HttpConfig::default()
        };
        place(address.parse().unwrap(), &http)
    }

    #[test]
    fn console_addresses_are_reachable() {
        let url = |address| at(address, true, None).unwrap().url.unwrap();
        assert_eq!(url("127.0.0.1:80"), "http://127.0.0.1:80/console/");
        assert_eq!(url("[::1]:80"), "http://[::1]:80/console/");
        assert_eq!(url("0.0.0.0:9"), "http://127.0.0.1:9/console/");
        assert!(at("10.0.0.2:80", true, None).is_err());
        let behind = at("10.0.0.2:80", true, Some("https://b.example/x/")).unwrap();
        assert_eq!(behind.url, None);
        assert_eq!(behind.public_url.unwrap(), "https://b.example/x/console/");
    }

    #[test]
    fn other_ports_are_remarked() {
        let remark = |address, listen| at(address, listen, None).unwrap().remark;
        assert_eq!(remark("127.0.0.1:4141", false), None);
        assert_eq!(remark("127.0.0.1:9", true), None);
        let said = remark("127.0.0.1:9", false).unwrap();
        assert!(said.contains("`http.listen`"), "{said}");
    }
}
