//! Waits until a task is in a wanted state.

use super::Call;
use super::find::owned;
use crate::BridgeService;
use crate::a2a::error::A2aError;
use crate::api::StreamPermit;
use crate::hub::MessageUpdates;
use bridge_core::deadline::after;
use bridge_core::task::TaskSnapshot;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Interval at which rows are read without an update: a message that joined another one's turn has no updates of its own.
const POLL_EVERY: Duration = Duration::from_secs(2);

/// Waits until `enough` says so, the time is over or the daemon stops; then says how the task stands. Whoever waits on a
/// permit is told nothing more once its token is revoked.
pub(super) async fn until<D: BridgeService>(
    call: &Call<D>,
    permit: Option<&StreamPermit>,
    id: &str,
    longest: Duration,
    enough: impl Fn(&TaskSnapshot) -> bool,
) -> Result<TaskSnapshot, A2aError> {
    let service = &call.context.service;
    let deadline = after(Instant::now(), longest);
    let stop = permit.map_or_else(|| call.context.stop.clone(), StreamPermit::stop);
    let revoked = || stop.is_cancelled() && !call.context.stop.is_cancelled();
    let mut updates = MessageUpdates::new(service.hub());
    loop {
        let view = owned(service, &call.caller, id).await?;
        if revoked() {
            return Err(A2aError::revoked());
        }
        if enough(&view) {
            return Ok(view);
        }
        let last = view.messages.last();
        let last = last.map(|one| one.message.message_id.clone());
        if updates.follow(last.as_slice()) {
            continue;
        }
        tokio::select! {
            () = updates.changed() => {}
            () = sleep(POLL_EVERY) => {}
            () = sleep_until(deadline) => return Ok(view),
            () = stop.cancelled() => if revoked() { return Err(A2aError::revoked()) } else { return Ok(view) },
            () = call.gone.cancelled() => return Ok(view),
        }
    }
}
