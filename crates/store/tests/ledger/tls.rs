//! A server that is not on this machine is verified: its authority, its name, and every connection to it.

use crate::given::{World, key, text};
use bridge_core::value::NodeId;
use bridge_sim::postgres::TlsServer;
use bridge_store::{PostgresLedger, PostgresOpenError, PostgresOptions, PostgresUrl, Wakeup};
use std::net::TcpListener;

const NAME: &str = "db.example.org";
const DATABASE: &str = "private";

fn open(url: &str) -> Result<PostgresLedger, PostgresOpenError> {
    let options = PostgresOptions::default();
    PostgresLedger::open(&PostgresUrl::new(url)?, &NodeId::new("n1"), &key(), options)
}

fn refused(url: &str, words: &[&str]) {
    let error = open(url).unwrap_err();
    assert!(
        matches!(error, PostgresOpenError::Untrusted { .. }),
        "{error:?}"
    );
    for word in words {
        assert!(error.to_string().contains(word), "{word:?}: {error}");
    }
}

#[tokio::test]
async fn distant_servers_are_verified() {
    let tls = TlsServer::start(NAME).unwrap();
    tls.server.create_database(DATABASE, None).unwrap();
    let url = |name: &str| tls.url_of(DATABASE, name, &tls.authority());
    let stranger = tls.url_of(DATABASE, NAME, &tls.stranger());
    refused(&stranger, &["UnknownIssuer", "`sslrootcert=FILE`"]);
    refused(&url("other.example.org"), &[NAME, "use a host in the URL"]);
    let (place, password) = (url(NAME), tls.password());
    for strange in ["", ":wrong"] {
        let error = open(&place.replace(&format!(":{password}"), strange)).unwrap_err();
        assert!(
            !matches!(error, PostgresOpenError::Untrusted { .. }),
            "{error:?}"
        );
    }
    let made = "SELECT count(*) FROM pg_namespace WHERE nspname = 'codex_bridge'";
    let query = |query: &str| tls.server.psql(DATABASE, query).unwrap();
    assert_eq!(query(made), "0", "nothing was written");

    let ledger = open(&url(NAME)).unwrap();
    let mut wakeups = ledger.wakeups().unwrap();
    let world = World::over(&ledger);
    world.does(text("a", "m1")).await;
    assert_eq!(world.reads(|rows| rows.backlog()).await, 1);
    assert_eq!(wakeups.next().await, Wakeup::Missed, "it listens");
    let connections = "SELECT ssl, count(*) > 2 FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
         WHERE application_name = 'codex-bridge' GROUP BY ssl";
    assert_eq!(query(connections), "t|t", "writer, reader and listener");
    drop((ledger, world, wakeups));

    query("ALTER SYSTEM SET ssl = off");
    tls.server.restart_immediate().unwrap();
    refused(&url(NAME), &["does not support TLS", "`ssl = on`"]);
}

/// Somebody listens there, and is not asked.
#[test]
fn unverified_servers_are_not_connected() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let (host, port) = (address.ip(), address.port());
    for mode in [
        "",
        "&sslmode=require",
        "&sslmode=prefer",
        "&sslmode=disable",
    ] {
        let url = format!("postgres://u:hunter2@db.example.org:{port}/x?hostaddr={host}{mode}");
        let error = open(&url).unwrap_err();
        assert!(
            matches!(error, PostgresOpenError::Unverified { .. }),
            "{error:?}"
        );
        let said = error.to_string();
        assert!(
            said.contains("sslmode=verify-full") && !said.contains("hunter2"),
            "{said}"
        );
    }
    assert!(listener.accept().is_err(), "nobody came");
}
