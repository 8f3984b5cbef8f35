//! TLS between a node and its server: rustls, with the certificates of this system or of one file.

use rustls::ClientConfig;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
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
