//! TLS between a node and its server: rustls, with the certificates of this system or of one file.

use rustls::pki_types::{InvalidDnsNameError, ServerName};
use rustls::{CertificateError, ClientConfig};
use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// Makes a connection private and knows whose it is.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = PrivateStream;
    type TlsConnect = Handshake;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, InvalidDnsNameError> {
        Ok(Handshake {
            host: ServerName::try_from(host.to_owned())?,
            connector: TlsConnector::from(Arc::clone(&self.config)),
        })
    }
}

/// One handshake with one server.
pub(super) struct Handshake {
    host: ServerName<'static>,
    connector: TlsConnector,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = PrivateStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<PrivateStream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            Ok(PrivateStream(
                self.connector.connect(self.host, socket).await?,
            ))
        })
    }
}

/// A connection behind TLS.
pub(super) struct PrivateStream(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for PrivateStream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for PrivateStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for PrivateStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// What the driver says where TLS did not come about; it has no kind that could be asked for.
const HANDSHAKE_FAILED: &str = "error performing TLS handshake";

/// Why a server could not be verified, and what to do; nothing where that is not what went wrong.
pub(super) fn distrust(error: &tokio_postgres::Error) -> Option<String> {
    if !error.to_string().starts_with(HANDSHAKE_FAILED) {
        return None;
    }
    let source = error.source()?;
    let io = source.downcast_ref::<io::Error>();
    let inner = io.and_then(io::Error::get_ref);
    Some(match inner.and_then(|inner| inner.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(wrong)) => of_certificate(wrong),
        Some(other) => format!("the TLS connection failed ({other})"),
        None if io.is_some() => format!("the TLS connection broke off ({source})"),
        None => format!(
            "{source}; set `ssl = on` in its postgresql.conf, with a certificate for the host that the URL names (a unix socket \
             needs no `sslmode`)"
        ),
    })
}

fn of_certificate(wrong: &CertificateError) -> String {
    let what_to_do = match wrong {
        CertificateError::UnknownIssuer => {
            "name a file with the certificate of its authority as `sslrootcert=FILE` in the URL"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "use a host in the URL that its certificate names (`hostaddr=` says where that is, if names don't), or give it a \
             certificate for this one"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "give it a certificate that has not ended"
        }
        _ => "give it another certificate",
    };
    format!("{wrong}; {what_to_do}")
}
