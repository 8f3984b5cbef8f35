//! Whom the token is shown to: nobody in the clear, and nobody whose certificate the system does not trust.

use crate::stage::{Fetching, Tray, may, settings};
use bridge_channel::molecule::{ChannelState, Molecule, OpenError};
use bridge_core::port::Sink;
use bridge_core::value::Class;
use bridge_sim::molecule::{Edition, MoleculePlatform, Workspace};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A certificate for 127.0.0.1 that signed itself, and its key; made for this test and good for nothing else.
const CERTIFICATE: &[u8] = include_bytes!("tls/cert.pem");
const KEY: &[u8] = include_bytes!("tls/key.pem");

fn acceptor() -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn stage() -> (MoleculePlatform, Workspace) {
    crate::stage::platform(Edition::New).await
}

#[tokio::test]
async fn threat_30_untrusted_certificate_ends_call() {
    let (platform, own) = stage().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = settings(&platform, &own);
    settings.platform_url = format!("https://{}", listener.local_addr().unwrap());
    let fetching = Fetching::start(Molecule::open(settings).unwrap(), Tray::new());
    let acceptor = acceptor();
    // Two calls: the state is said after the first one failed, before the second begins.
    for _ in 0..2 {
        let (socket, _) = listener.accept().await.unwrap();
        if let Ok(mut stream) = acceptor.accept(socket).await {
            let mut said = Vec::new();
            let _broken = stream.read_to_end(&mut said).await;
            assert_eq!(said, b"", "the token was shown");
        }
    }
    let health = fetching.channel.health();
    assert_eq!(health.state, ChannelState::Retrying);
    assert!(health.detail.contains("certificate"), "{}", health.detail);
}

#[tokio::test]
async fn threat_30_token_requires_tls_by_default() {
    let (platform, own) = stage().await;
    for url in ["http://platform.example.com", "http://10.0.0.1:8080"] {
        let mut settings = settings(&platform, &own);
        settings.platform_url = url.to_owned();
        let opened = Molecule::open(settings.clone());
        assert_eq!(opened.map(drop), Err(OpenError::NotSecret));
        settings.allow_http = true;
        assert!(Molecule::open(settings).is_ok());
    }
}

/// A redirect would carry the token to wherever it points.
#[tokio::test]
async fn threat_30_a_redirect_is_not_followed() {
    let (platform, own) = stage().await;
    let elsewhere = platform.url();
    for status in [301, 302, 307, 308] {
        let target = elsewhere.clone();
        let away = axum::Router::new().fallback(async move |uri: axum::http::Uri| {
            let status = axum::http::StatusCode::from_u16(status).unwrap();
            (status, [("location", format!("{target}{uri}"))])
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut settings = settings(&platform, &own);
        settings.platform_url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, away).await });
        let channel = Molecule::open(settings).unwrap();
        let message = crate::stage::message(&channel, "m1", None);
        let reply = crate::stage::reply(&message, "hi");
        let fault = channel.send(&message, &reply, &may).await.unwrap_err();
        assert_eq!(fault.failure.class, Class::Config, "{fault:?}");
        assert!(
            fault.failure.reason.contains("redirects are not followed"),
            "{fault:?}"
        );
        server.abort();
    }
    assert_eq!(platform.calls(), []);
}
