//! Attacks on the built binary, on loopback, with a Codex that only echoes: what an adversary tried by hand and what
//! held, again at every run. `docs/faults.md` lists them; attacks that other tests show are named there and not here.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on must fail where it stands"
)]

mod agents;
mod call;
mod http;
mod json;
mod ledger;
mod load;
mod mcp;
mod target;

#[path = "../suite/a2a_agent.rs"]
#[allow(
    dead_code,
    reason = "the rig of the whole suite; not all of it is used here"
)]
mod a2a_agent;
#[path = "../suite/fake.rs"]
#[allow(
    dead_code,
    reason = "the rig of the whole suite; not all of it is used here"
)]
mod fake;
#[path = "../suite/world.rs"]
#[allow(
    dead_code,
    reason = "the rig of the whole suite; not all of it is used here"
)]
mod world;
