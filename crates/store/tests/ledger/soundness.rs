//! Whatever ordinary commands are given in whatever order: the ledger's own thorough check calls it sound, and a
//! backup takes it.
//!
//! The sequences are those of [`crate::differential`]: send, answer, fail, redrive, discard, stop, steer, requests,
//! tasks, subscriptions and pruning. A failure names its seed.

use crate::differential::Pair;
use crate::fixture::{Fixture, OnDisk};
use crate::given::{World, answered, fail, message};
use bridge_core::step::Redrive;
use bridge_core::value::{Class, Sandbox};
use bridge_store::sqlite::{Depth, Existing, Inspection, back_up, inspect};

const STEPS: u32 = 240;
const CHECKED_EVERY: u32 = 60;

fn expect_sound(disk: &OnDisk, when: &str) {
    let path = disk.path();
    let found = inspect(&path, Depth::Thorough).unwrap();
    let sound = matches!(found, Inspection::Sound { .. });
    assert!(sound, "{when}: {found:?}");
    let copy = path.with_extension("copy");
    let kept = back_up(&path, &copy, Existing::Replace);
    assert!(kept.is_ok(), "{when}: {kept:?}");
}

async fn run(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut pair = Pair::open(seed);
        for step in 1..=STEPS {
            pair.step().await;
            if step.is_multiple_of(CHECKED_EVERY) {
                expect_sound(&pair.disk, &format!("seed {seed} step {step}"));
            }
        }
    }
}

/// Seed 6 found the reply of a redriven message that was taken for damage.
#[tokio::test]
async fn ordinary_commands_leave_a_sound_ledger() {
    run(0..40).await;
}

/// What was said first goes out first, also if its message is asked again behind others.
#[tokio::test]
async fn earlier_replies_keep_their_place() {
    let disk = OnDisk::open();
    let mut world = World::over(disk.ledger());
    world.runs("k", "m1", Sandbox::ReadOnly).await;
    world.does(fail("m1", Class::Permanent)).await;
    world.runs("k", "m2", Sandbox::ReadOnly).await;
    world.does(answered("m2", "second", None)).await;
    let redrive = Redrive {
        message_id: message("m1"),
        by: "me".to_owned(),
        not_before: None,
    };
    world.does(redrive).await;
    expect_sound(&disk, "a redriven message behind another one");
    for id in ["m1", "m2"] {
        let reply = world.sends("k").await;
        assert_eq!(reply.message_id, message(id));
        world.confirms(&reply).await;
    }
    expect_sound(&disk, "its notice is delivered");
}
