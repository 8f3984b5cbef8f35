//! The start of the daemon after any end, as `recover` does it.

use crate::daemon::{Setback, commit, deliver, perform, wake, wake_poll};
use crate::dials::Mutant;
use crate::world::{Memory, World};
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::Read;
use bridge_core::step::{Fail, Resume, regenerate};
use bridge_core::value::{Class, Failure, Message, StateName};

pub(crate) fn start(world: &mut World) {
    let newest = world
        .rows
        .newest_time()
        .unwrap()
        .map_or(0, |newest| newest.0);
    world.daemon = Some(Memory {
        clock_base: newest.max(world.wall()),
        clock_steady: world.now_ms,
        ..Memory::default()
    });
    let life = world.life;
    world.note(format_args!("the daemon starts, life {life}"));
    for row in &mut world.platform.rows {
        row.show_at = 0;
    }
    for message in world.rows.unfinished(None, PAGE_MAX).unwrap() {
        match resume(world, message) {
            Ok(()) | Err(Setback::Refused) => {}
            Err(Setback::Died) => return,
            Err(Setback::Unavailable) => return world.end_daemon("could not start"),
        }
    }
    for lane in world.rows.lanes(None, PAGE_MAX).unwrap() {
        deliver(world, lane);
    }
    wake(world);
    wake_poll(world);
}

fn resume(world: &mut World, message: Message) -> Result<(), Setback> {
    let state = message.life.state.name();
    let message_id = message.message_id.clone();
    if !state.in_flight() || state == StateName::Unclear {
        perform(world, regenerate(&message));
        return Ok(());
    }
    if world.dials.has(Mutant::RestartForgets) {
        let failure = Failure::new(Class::Transient, "forgotten");
        let fail = crate::work::failed(world, message_id, failure, false);
        return commit::<Fail>(world, fail);
    }
    commit(world, Resume { message_id })
}
