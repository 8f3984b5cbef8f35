//! A2A from outside: the built binary with the real Codex, called by the official SDK for Python and by many contexts at
//! once. What the protocol says in detail is proved by the official kits (`cargo xtask a2a-kit`); here it is used.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on must fail where it stands"
)]

mod many;
mod sdk;

#[path = "../suite/world.rs"]
#[allow(
    dead_code,
    reason = "the rig of the whole suite; not all of it is used here"
)]
mod world;

use world::World;

/// Where its daemon listens.
fn base(world: &World) -> String {
    let listen = std::fs::read_to_string(world.state_dir().join("listen")).unwrap();
    format!("http://{}", listen.trim())
}

/// A new peer's token.
async fn peer_token(world: &World) -> String {
    let made = world.run(&["peers", "add", "reviewer"]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    made.stdout.trim().to_owned()
}
