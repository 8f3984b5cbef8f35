//! From a URL to a connection that is set up: who the server is, how it is trusted, and the bounds of a session.
//!
//! The URL's password is a secret: nothing here puts the URL, or a part of it but the host, into an error or a log.

use super::error::OpenError;
use super::tls::Tls;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};

/// How long one attempt to connect may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long sent bytes may stay unacknowledged: a server that is cut off is given up then.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);

/// How often a connection that is silent is asked for a sign of life: one that a network dropped is noticed, and one that is
/// only quiet is not dropped.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 2;

/// A statement that takes longer is ended by the server. It covers the wait for the other nodes' batches too.
pub(super) const STATEMENT_MAX: Duration = Duration::from_secs(10);

/// A node that stands still in the middle of a transaction is cut off by the server after this time, and its locks are free.
/// It must be shorter than what others wait for the lock.
pub(super) const STANDSTILL_MAX: Duration = Duration::from_secs(4);

/// The schema in which everything of ours is.
pub(super) const SCHEMA: &str = "codex_bridge";

/// Where a ledger is, and how its server is reached.
#[derive(Clone)]
pub struct PostgresUrl {
    config: Config,
    tls: Option<Tls>,
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresUrl")
            .field("place", &self.place())
            .finish_non_exhaustive()
    }
}

impl PostgresUrl {
    /// Reads a URL such as `postgres://user:password@host:5432/database?sslmode=verify-full`. A server that is not on this
    /// machine must be verified; `sslrootcert` names a file with the certificates that vouch for it, without which those of
    /// this system count.
    pub fn new(url: &str) -> Result<Self, OpenError> {
        let (url, trust) = Trust::split(url)?;
        let mut config: Config = url.parse().map_err(|source| OpenError::Url { source })?;
        config
            .application_name("codex-bridge")
            .connect_timeout(CONNECT_MAX)
            .tcp_user_timeout(UNACKNOWLEDGED_MAX)
            .keepalives_idle(KEEPALIVE_EVERY)
            .keepalives_interval(KEEPALIVE_EVERY)
            .keepalives_retries(KEEPALIVE_RETRIES);
        let mut server = Self { config, tls: None };
        if trust.verifies {
            server.config.ssl_mode(SslMode::Require);
            server.tls = Some(Tls {
                config: Arc::new(trust.tls()?),
            });
        } else if let Some(host) = server.hosts().into_iter().find(|host| !is_local(host)) {
            return Err(OpenError::Unverified { host });
        } else {
            server.config.ssl_mode(SslMode::Disable);
        }
        Ok(server)
    }

    /// Host and database, for people. No user and no password.
    #[must_use]
    pub fn place(&self) -> String {
        let database = self.config.get_dbname().unwrap_or("(the user's own)");
        format!("{} on {}", database, self.hosts().join(", "))
    }

    fn hosts(&self) -> Vec<String> {
        let named = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let addresses = self.config.get_hostaddrs().iter().map(IpAddr::to_string);
        named.chain(addresses).collect()
    }

    /// A connection with its driver, which somebody must run.
    pub(super) async fn connect(&self) -> Result<(Client, Driver), tokio_postgres::Error> {
        let (client, driver) = match &self.tls {
            Some(tls) => {
                let (client, driver) = self.config.connect(tls.clone()).await?;
                (client, Driver::Private(Box::new(driver)))
            }
            None => {
                let (client, driver) = self.config.connect(NoTls).await?;
                (client, Driver::Plain(Box::new(driver)))
            }
        };
        Ok((client, driver))
    }
}

/// What moves the bytes of a connection.
pub(super) enum Driver {
    Private(Box<Connection<Socket, super::tls::PrivateStream>>),
    Plain(Box<Connection<Socket, tokio_postgres::tls::NoTlsStream>>),
}

impl Driver {
    /// What the server says unasked; nothing when the connection has ended.
    pub(super) fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<AsyncMessage, tokio_postgres::Error>>> {
        match self {
            Self::Private(driver) => driver.poll_message(context),
            Self::Plain(driver) => driver.poll_message(context),
        }
    }

    /// Runs until the connection ends. Its end is seen by whoever asks it something.
    pub(super) async fn run(self) {
        let ended = match self {
            Self::Private(driver) => driver.await,
            Self::Plain(driver) => driver.await,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection to the database ended");
        }
    }
}

/// The settings of a session when it begins. Plans must not depend on bound values, and the tables are made for their indexes:
/// without that, statements that are planned while a table is small walk it when it is large.
pub(super) fn setup(statement_max: Duration) -> String {
    format!(
        "SET search_path = {SCHEMA}; SET statement_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
         SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off; \
         SET client_min_messages = warning",
        statement_max.as_millis(),
        STANDSTILL_MAX.as_millis(),
    )
}

/// The parameters of a URL that say how the server is trusted; the driver does not know them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Trust {
    verifies: bool,
    certificates: Option<String>,
}

impl Trust {
    /// The URL without them, and what they say.
    fn split(url: &str) -> Result<(String, Self), OpenError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(OpenError::NoUrl);
        }
        let mut trust = Self::default();
        let Some((place, parameters)) = url.split_once('?') else {
            return Ok((url.to_owned(), trust));
        };
        let mut others = Vec::new();
        for parameter in parameters.split('&') {
            match parameter.split_once('=') {
                Some(("sslmode", "verify-full")) => trust.verifies = true,
                Some(("sslmode", "disable" | "allow" | "prefer" | "require")) => {}
                Some(("sslmode", _)) => return Err(OpenError::SslMode),
                Some(("sslrootcert", path)) => trust.certificates = Some(decoded(path)?),
                _ => others.push(parameter),
            }
        }
        let url = if others.is_empty() {
            place.to_owned()
        } else {
            format!("{place}?{}", others.join("&"))
        };
        Ok((url, trust))
    }

    fn tls(&self) -> Result<ClientConfig, OpenError> {
        let mut roots = RootCertStore::empty();
        let certificates = match &self.certificates {
            Some(path) => read_certificates(Path::new(path))?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        roots.add_parsable_certificates(certificates);
        if roots.is_empty() {
            return Err(OpenError::NoCertificates);
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|source| OpenError::Tls { source })?;
        Ok(config.with_root_certificates(roots).with_no_client_auth())
    }
}

fn decoded(value: &str) -> Result<String, OpenError> {
    let decoded = percent_encoding::percent_decode_str(value).decode_utf8();
    Ok(decoded.map_err(|_| OpenError::NoUrl)?.into_owned())
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let failed = |source| OpenError::Certificates {
        path: path.to_owned(),
        source,
    };
    let certificates = CertificateDer::pem_file_iter(path).map_err(failed)?;
    certificates.collect::<Result<_, _>>().map_err(failed)
}

/// A unix socket, or an address of this machine.
fn is_local(host: &str) -> bool {
    let address: Result<IpAddr, _> = host.parse();
    host.starts_with('/')
        || host == "localhost"
        || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distant_servers_must_be_verified() {
        for url in [
            "postgres://u:secret@db.example.com/bridge",
            "postgres://u:secret@db.example.com/bridge?sslmode=require",
            "postgresql://u:secret@localhost,10.0.0.1/bridge",
            "postgresql://u:secret@localhost/bridge?hostaddr=10.0.0.1",
        ] {
            let error = PostgresUrl::new(url).unwrap_err();
            assert!(matches!(error, OpenError::Unverified { .. }), "{error}");
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
        for url in [
            "postgres://u@localhost/bridge?sslmode=disable",
            "postgres://u@127.0.0.1:5433/bridge",
            "postgres://u@[::1]/bridge",
            "postgres://u@/bridge?host=/run/postgresql",
            "postgres://u@%2Frun%2Fpostgresql/bridge",
        ] {
            let server = PostgresUrl::new(url).unwrap();
            assert!(server.tls.is_none(), "{url}");
        }
    }

    #[test]
    fn debug_and_errors_keep_the_password() {
        let server = PostgresUrl::new("postgres://u:secret@localhost/bridge").unwrap();
        assert_eq!(server.place(), "bridge on localhost");
        assert!(!format!("{server:?}").contains("secret"));
        for url in [
            "mysql://u:secret@localhost/bridge",
            "postgres://u:secret@localhost/bridge?sslmode=secret",
            "postgres://u:secret@localhost:secret/bridge",
            "postgres://u:secret@localhost/bridge?secret=secret",
        ] {
            let error = PostgresUrl::new(url).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
