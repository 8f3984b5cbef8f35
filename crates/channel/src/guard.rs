//! The guard against server-side request forgery: a caller who names an address must not make this machine call its own
//! network.
//!
//! https only, names are resolved by us, every address they stand for is looked at, and the connection goes to exactly
//! those. Origins that the operator listed go before all that. What is sent there is the caller's business.

use crate::http::client;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Url};
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long resolving, connecting and answering may take together.
pub const CALL_DEADLINE: Duration = Duration::from_secs(15);
/// The longest address that is taken.
const URL_MAX_CHARS: usize = 2_048;
/// Addresses of one name that are looked at; a name with more is refused.
const ADDRESSES_MAX: usize = 64;

/// Why an address is not called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressRefusal {
    /// It is no address.
    #[error("is no URL ({0})")]
    Form(String),
    /// It is one that is never called.
    #[error(
        "must be https, without a user, a password or a fragment, unless the operator lists its origin in allow_origins of [notify] or [a2a]"
    )]
    Unfit,
    /// It leads to where only this machine's neighbours are.
    #[error(
        "leads to {address}, which is no public address; if it is meant, the operator lists its origin in allow_origins of [notify] or [a2a]"
    )]
    NotPublic {
        /// The address.
        address: IpAddr,
    },
    /// It stands for too many.
    #[error("stands for more than {ADDRESSES_MAX} addresses")]
    TooMany,
}

/// What a name stands for; the machine's own resolver, or a script in tests.
pub trait Lookup: Send + Sync + 'static {
    /// All of its addresses.
    fn lookup(&self, name: &str) -> Looking;
}

/// A look-up under way.
pub type Looking = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// The machine's own resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: &str) -> Looking {
        let name = name.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Says where we go when somebody else names the address, and makes the clients that go there.
#[derive(Clone)]
pub struct AddressGuard {
    allowed: Arc<[Url]>,
    resolver: Arc<Public>,
    /// For names that anybody may give.
    wary: Arc<OnceLock<Client>>,
    /// For origins that the operator listed.
    trusting: Arc<OnceLock<Client>>,
}

impl fmt::Debug for AddressGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = self.allowed.iter().map(Url::as_str);
        f.debug_list().entries(allowed).finish()
    }
}

/// Reads an origin that the operator exempts: scheme, host and port, and nothing else.
pub fn check_origin(text: &str) -> Result<Url, AddressRefusal> {
    let url = Url::parse(text.trim()).map_err(|error| AddressRefusal::Form(error.to_string()))?;
    let bare = url.path() == "/" && url.query().is_none() && nothing_hidden(&url);
    match (bare, url.scheme()) {
        (true, "http" | "https") => Ok(url),
        _ => Err(AddressRefusal::Unfit),
    }
}

fn nothing_hidden(url: &Url) -> bool {
    url.username().is_empty()
        && url.password().is_none()
        && url.fragment().is_none()
        && url.host_str().is_some()
}

impl AddressGuard {
    /// A guard with the origins that it lets through.
    #[must_use]
    pub fn new(allowed: Vec<Url>) -> Self {
        Self::with_lookup(allowed, Arc::new(SystemLookup))
    }

    /// The same with another resolver.
    #[must_use]
    pub fn with_lookup(allowed: Vec<Url>, lookup: Arc<dyn Lookup>) -> Self {
        Self {
            allowed: allowed.into(),
            resolver: Arc::new(Public(lookup)),
            wary: Arc::default(),
            trusting: Arc::default(),
        }
    }

    /// Judges an address by its form; what its name stands for is judged when it is called, each time anew. A host
    /// that is written as a number is an address here, however it is written.
    pub fn check(&self, text: &str) -> Result<Url, AddressRefusal> {
        if text.chars().nth(URL_MAX_CHARS).is_some() {
            let why = format!("it is longer than {URL_MAX_CHARS} characters");
            return Err(AddressRefusal::Form(why));
        }
        let url =
            Url::parse(text.trim()).map_err(|error| AddressRefusal::Form(error.to_string()))?;
        if !nothing_hidden(&url) {
            return Err(AddressRefusal::Unfit);
        }
        if self.exempts(&url) {
            return Ok(url);
        }
        if url.scheme() != "https" {
            return Err(AddressRefusal::Unfit);
        }
        match literal(&url) {
            Some(address) if !is_public(address) => Err(AddressRefusal::NotPublic { address }),
            Some(_) | None => Ok(url),
        }
    }

    /// The client that may call an address which [`AddressGuard::check`] let through.
    pub fn client(&self, url: &Url) -> Result<&Client, reqwest::Error> {
        let (kept, builder) = if self.exempts(url) {
            (&self.trusting, client())
        } else {
            let resolver: Arc<Public> = Arc::clone(&self.resolver);
            let builder = client().https_only(true).dns_resolver(resolver);
            (&self.wary, builder)
        };
        if let Some(client) = kept.get() {
            return Ok(client);
        }
        let made = builder.timeout(CALL_DEADLINE).build()?;
        Ok(kept.get_or_init(|| made))
    }

    /// Whether the operator listed the origin of this address.
    #[must_use]
    pub fn exempts(&self, url: &Url) -> bool {
        let origin = url.origin();
        self.allowed
            .iter()
            .any(|allowed| allowed.origin() == origin)
    }
}

/// The refusal that a failed call was stopped by, if it was one.
#[must_use]
pub fn refusal(error: &reqwest::Error) -> Option<&AddressRefusal> {
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(inner) = cause {
        if let Some(refusal) = inner.downcast_ref() {
            return Some(refusal);
        }
        cause = inner.source();
    }
    None
}

/// Resolves, and gives out public addresses only.
struct Public(Arc<dyn Lookup>);

impl Resolve for Public {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.0.lookup(name.as_str());
        Box::pin(async move {
            let addresses = judge(found.await?)?;
            let sockets = addresses.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(sockets) as Addrs)
        })
    }
}

/// One address that is not public spoils the name: somebody chose it.
fn judge(found: Vec<IpAddr>) -> Result<Vec<IpAddr>, AddressRefusal> {
    if found.len() > ADDRESSES_MAX {
        return Err(AddressRefusal::TooMany);
    }
    match found.iter().find(|address| !is_public(**address)) {
        Some(address) => Err(AddressRefusal::NotPublic { address: *address }),
        None => Ok(found),
    }
}

/// The host as an address, if it is one.
fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse().ok()
}

/// Whether an address belongs to the public network: what nobody has routed to this machine or its neighbours.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// What the IANA registry of special-purpose addresses has, and multicast.
fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        [0 | 10 | 127, ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [192, 168, ..]
            | [198, 18..=19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
            | [224..=255, ..]
    )
}

/// Global unicast, without the parts that carry other addresses in them or are for documents; and the prefix by which
/// a network without IPv4 reaches public IPv4.
fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_public_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        }
        [0x2001, 0x0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] => false,
        [0x3fff, 0x0..=0xfff, ..] => false,
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threat_17_only_public_addresses_are_public() {
        for private in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.7",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in [
            "1.1.1.1",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:200::1",
            "64:ff9b::101:101",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn threat_17_guard_recognizes_every_address_form() {
        let guard = AddressGuard::new(Vec::new());
        for written in [
            "https://127.0.0.1/x",
            "https://2130706433/",
            "https://0177.0.0.1/",
            "https://0x7f.1/",
            "https://127.1/",
            "https://2852039166/latest/meta-data/",
            "https://[::1]/",
            "https://[::ffff:169.254.169.254]/",
            "https://[::ffff:a9fe:a9fe]/",
            "https://①②⑦.0.0.1/",
        ] {
            let said = guard.check(written);
            assert!(
                matches!(said, Err(AddressRefusal::NotPublic { .. })),
                "{written}: {said:?}"
            );
        }
        for unfit in [
            "http://example.com/",
            "ftp://example.com/",
            "file:///etc/passwd",
            "https://user@example.com/",
            "https://user:pass@example.com/",
            "https://example.com/#x",
        ] {
            assert_eq!(guard.check(unfit), Err(AddressRefusal::Unfit), "{unfit}");
        }
        assert!(matches!(
            guard.check("example.com"),
            Err(AddressRefusal::Form(_))
        ));
        let long = format!("https://example.com/{}", "x".repeat(URL_MAX_CHARS));
        assert!(matches!(guard.check(&long), Err(AddressRefusal::Form(_))));
        assert!(guard.check("https://hooks.example.com:8443/a?b=c").is_ok());
    }

    #[test]
    fn threat_17_an_origin_is_exempt_exactly() {
        let allowed = check_origin("http://127.0.0.1:9000").unwrap();
        let guard = AddressGuard::new(vec![allowed]);
        assert!(guard.check("http://127.0.0.1:9000/hook?x=1").is_ok());
        assert!(guard.check("http://2130706433:9000/hook").is_ok());
        for other in [
            "http://127.0.0.1:9001/hook",
            "http://127.0.0.1/hook",
            "https://127.0.0.1:9000/hook",
            "http://localhost:9000/hook",
            "http://127.0.0.1:9000@example.com/",
        ] {
            assert!(guard.check(other).is_err(), "{other}");
        }
        for no_origin in ["http://127.0.0.1:9000/x", "http://h/?q", "ftp://h", "h:1"] {
            assert!(check_origin(no_origin).is_err(), "{no_origin}");
        }
    }

    /// Gives one answer after the other.
    struct Script(std::sync::Mutex<Vec<Vec<IpAddr>>>);

    impl Lookup for Script {
        fn lookup(&self, _name: &str) -> Looking {
            let next = self.0.lock().unwrap().pop();
            Box::pin(async move { Ok(next.unwrap_or_default()) })
        }
    }

    #[tokio::test]
    async fn threat_17_guard_blocks_dns_rebinding() {
        let public: IpAddr = "93.184.216.34".parse().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answers = vec![
            vec![public, IpAddr::V4(Ipv4Addr::LOCALHOST)],
            vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            vec![public],
        ];
        let guard = AddressGuard::with_lookup(Vec::new(), Arc::new(Script(answers.into())));
        let first = guard.resolver.resolve("rebind.example".parse().unwrap());
        assert_eq!(first.await.unwrap().count(), 1);
        let url = guard
            .check(&format!("https://rebind.example:{port}/"))
            .unwrap();
        for _ in 0..2 {
            let call = guard.client(&url).unwrap().post(url.clone()).send();
            let error = call.await.unwrap_err();
            let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
            assert_eq!(
                refusal(&error),
                Some(&AddressRefusal::NotPublic { address })
            );
        }
        let nobody = futures_util::FutureExt::now_or_never(listener.accept());
        assert!(nobody.is_none(), "somebody connected");
    }
}
