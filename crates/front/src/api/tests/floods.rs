//! Connections that say nothing, over real sockets: they cost a client with a token nothing.

use super::*;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Descriptors that leave TCP eight connections.
const FEW_DESCRIPTORS: usize = 64;
/// It takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

async fn served() -> (SocketAddr, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let hosts = Hosts::new(address.port(), &[], None).unwrap();
    let api = api().within_descriptors(FEW_DESCRIPTORS);
    let stop = api.context.stop.clone();
    tokio::spawn(api.serve_tcp(listener, hosts, false));
    (address, stop)
}

async fn healthz(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let call = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(call.as_bytes()).await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    said
}

#[tokio::test]
async fn f6_idle_connections_do_not_block_listener() {
    let (address, stop) = served().await;
    let mut idle = Vec::new();
    for _ in 0..40 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    let said = tokio::time::timeout(PATIENCE, healthz(address)).await;
    assert!(said.unwrap().starts_with("HTTP/1.1 200"));
    let mut closed = 0;
    for stream in &mut idle {
        let mut byte = [0];
        let read = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut byte)).await;
        closed += usize::from(matches!(read, Ok(Ok(0) | Err(_))));
    }
    assert!(closed >= 32, "{closed} made room");
    stop.cancel();
}
