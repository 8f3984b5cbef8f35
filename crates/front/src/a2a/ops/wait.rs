//! Waiting until a task stands where a caller wants it: news only says "look", the rows say how it stands.

use super::Call;
use super::find::owned;
use crate::a2a::fault::Fault;
use crate::api::Seat;
use crate::{BridgeService, Subscription};
use bridge_core::deadline::after;
use bridge_core::task::TaskSnapshot;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// How often the rows are looked at without news: a message that was given to another one's turn has none of its own.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Waits until `enough` says so, the time is over or the daemon stops; then says how the task stands. Whoever waits on a
/// seat is told nothing more once its token is revoked.
pub(super) async fn until<D: BridgeService>(
    call: &Call<D>,
    seat: Option<&Seat>,
    id: &str,
    longest: Duration,
    enough: impl Fn(&TaskSnapshot) -> bool,
) -> Result<TaskSnapshot, Fault> {
    let service = &call.context.service;
    let deadline = after(Instant::now(), longest);
    let stop = seat.map_or_else(|| call.context.stop.clone(), Seat::stop);
    let revoked = || stop.is_cancelled() && !call.context.stop.is_cancelled();
    let mut watched = 0;
    let mut news: Option<Subscription> = None;
    loop {
        let view = owned(service, &call.caller, id).await?;
        if revoked() {
            return Err(Fault::revoked());
        }
        if enough(&view) {
            return Ok(view);
        }
        if watched < view.messages.len() {
            watched = view.messages.len();
            let last = view.messages.last();
            news = last.and_then(|one| service.hub().watch(&one.message.message_id));
            // What happened before it was watched was not heard.
            continue;
        }
        tokio::select! {
            () = changed(&mut news) => {}
            () = sleep(LOOK_EVERY) => {}
            () = sleep_until(deadline) => return Ok(view),
            () = stop.cancelled() => if revoked() { return Err(Fault::revoked()) } else { return Ok(view) },
            () = call.gone.cancelled() => return Ok(view),
        }
    }
}

/// The rows changed. Never without somebody to hear it from.
async fn changed(news: &mut Option<Subscription>) {
    match news {
        Some(news) => news.changed().await,
        None => std::future::pending().await,
    }
}
