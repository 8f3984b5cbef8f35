//! Host names this server answers to, against DNS rebinding (threat 3).
//!
//! A request must name one of them in `Host`, and one of their origins in `Origin` if it has one.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Uri, header};

/// Names of this machine that are always accepted.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "[::1]", "localhost"];

/// Accepted `Host` and `Origin` values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// Accepted `Host` values, in lower case.
    hosts: Vec<String>,
    /// Accepted `Origin` values, in lower case.
    origins: Vec<String>,
}

/// A configured name that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostsError {
    /// Not a host.
    #[error(
        "{0:?} is no host: give a name or address, with a port if it has one, such as \"bridge.example:8443\""
    )]
    Host(String),
    /// Not an origin.
    #[error(
        "{0:?} is no URL to reach this machine: give scheme and host, such as \"https://bridge.example\""
    )]
    Url(String),
}

impl Hosts {
    /// The names of this machine at this port, the `trusted` ones, and that of the `public` URL.
    pub fn new(port: u16, trusted: &[String], public: Option<&str>) -> Result<Self, HostsError> {
        let mut names = Self {
            hosts: Vec::new(),
            origins: Vec::new(),
        };
        for host in LOOPBACK {
            names.hosts.push(with_port(host, port, 80));
            names
                .origins
                .push(format!("http://{}", with_port(host, port, 80)));
        }
        for host in trusted {
            let authority = authority(host).ok_or_else(|| HostsError::Host(host.clone()))?;
            let name = authority.as_str().to_ascii_lowercase();
            names.origins.push(format!("http://{name}"));
            names.origins.push(format!("https://{name}"));
            // Without a port: proxies send it so, and clients do at the default port.
            if authority.port().is_none() {
                names.hosts.push(format!("{name}:{port}"));
                names.origins.push(format!("http://{name}:{port}"));
            }
            names.hosts.push(name);
        }
        if let Some(url) = public {
            let (host, origin) = public_url(url).ok_or_else(|| HostsError::Url(url.to_owned()))?;
            names.hosts.push(host);
            names.origins.push(origin);
        }
        Ok(names)
    }

    /// Whether a request names this server, and comes from one of its pages or from no page.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), &'static str> {
        let host = only(headers, header::HOST)?.ok_or("the request names no host")?;
        if !contains(&self.hosts, host) {
            return Err(
                "the request names a host that is not this one; add it to `http.trusted_hosts` if it is",
            );
        }
        if let Some(named) = uri.authority()
            && !contains(&self.hosts, named.as_str())
        {
            return Err("the request's target names a host that is not this one");
        }
        match only(headers, header::ORIGIN)? {
            Some(origin) if !contains(&self.origins, origin) => {
                Err("the request comes from a page that is not ours")
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn contains(names: &[String], name: &str) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// A header that must not be repeated: two parsers could use different values.
fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, &'static str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value
            .to_str()
            .map(Some)
            .map_err(|_| "the request's Host or Origin can't be read"),
        (Some(_), Some(_)) => Err("the request has two of Host or Origin"),
    }
}

fn with_port(host: &str, port: u16, usual: u16) -> String {
    if port == usual {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    }
}

fn authority(text: &str) -> Option<Authority> {
    let authority: Authority = text.parse().ok()?;
    (!text.contains('@') && !authority.host().is_empty()).then_some(authority)
}

/// The `Host` and the `Origin` of a URL.
fn public_url(url: &str) -> Option<(String, String)> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let usual = match scheme.as_str() {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let found = authority(uri.authority()?.as_str())?;
    let host = found.host().to_ascii_lowercase();
    let host = with_port(&host, found.port_u16().unwrap_or(usual), usual);
    Some((host.clone(), format!("{scheme}://{host}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        let pairs = pairs.iter().cloned();
        pairs
            .map(|(name, value)| (name, HeaderValue::from_str(value).unwrap()))
            .fold(HeaderMap::new(), |mut map, (name, value)| {
                map.append(name, value);
                map
            })
    }

    fn ours() -> Hosts {
        let trusted = ["bridge.lan".to_owned(), "box:9000".to_owned()];
        Hosts::new(4141, &trusted, Some("https://Bridge.Example/x")).unwrap()
    }

    #[test]
    fn threat_3_accepts_only_own_hosts() {
        let check =
            |host: &str| ours().check(&Uri::from_static("/"), &headers(&[(header::HOST, host)]));
        for host in [
            "127.0.0.1:4141",
            "LOCALHOST:4141",
            "[::1]:4141",
            "bridge.lan",
            "bridge.lan:4141",
            "box:9000",
            "bridge.example",
        ] {
            assert_eq!(check(host), Ok(()), "{host}");
        }
        for host in [
            "evil.test",
            "evil.test:4141",
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost:4142",
            "localhost.evil.test:4141",
            "127.0.0.1.nip.io:4141",
            "box",
            "bridge.example:4141",
            "0.0.0.0:4141",
            "2130706433:4141",
            "",
        ] {
            assert!(check(host).is_err(), "{host}");
        }
    }

    #[test]
    fn threat_3_accepts_only_own_origins() {
        let check = |origin: &str| {
            let pairs = [(header::HOST, "127.0.0.1:4141"), (header::ORIGIN, origin)];
            ours().check(&Uri::from_static("/"), &headers(&pairs))
        };
        for origin in [
            "http://127.0.0.1:4141",
            "http://localhost:4141",
            "https://bridge.example",
            "https://bridge.lan",
        ] {
            assert_eq!(check(origin), Ok(()), "{origin}");
        }
        for origin in [
            "null",
            "https://evil.test",
            "http://127.0.0.1",
            "https://127.0.0.1:4141",
            "http://bridge.example",
            "http://localhost:4141.evil.test",
            "file://",
            "",
        ] {
            assert!(check(origin).is_err(), "{origin}");
        }
    }

    #[test]
    fn threat_3_rejects_duplicate_or_foreign_hosts() {
        let host = (header::HOST, "127.0.0.1:4141");
        let two = headers(&[host.clone(), host.clone()]);
        assert!(ours().check(&Uri::from_static("/"), &two).is_err());
        assert!(ours().check(&Uri::from_static("/"), &headers(&[])).is_err());
        let target = Uri::from_static("http://evil.test/v1/status");
        assert!(ours().check(&target, &headers(&[host])).is_err());
    }

    #[test]
    fn names_that_are_none_are_refused() {
        for host in ["", "a b", "user@host", "http://x"] {
            assert!(Hosts::new(1, &[host.to_owned()], None).is_err(), "{host}");
        }
        for url in ["", "bridge.example", "ftp://x", "https://", "https://u@x"] {
            assert!(Hosts::new(1, &[], Some(url)).is_err(), "{url}");
        }
    }
}
