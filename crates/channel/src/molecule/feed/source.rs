//! The source's loop: when the feed is read, and what follows when it can't be. It never ends by itself and never
//! drops anything: a row that is not in the ledger is shown again.

use crate::http::HttpError;
use crate::http::Operation;
use crate::inbox::Inbox;
use crate::molecule::Molecule;
use crate::molecule::failure::failure;
use crate::molecule::feed::cursor::Cursor;
use crate::molecule::feed::{FeedReader, Trouble};
use crate::molecule::files::Later;
use crate::molecule::health::ChannelState;
use crate::molecule::health::TokenRefusal;
use crate::poll::{Allowance, Backoff};
use bridge_core::deadline::after;
use bridge_core::port::LedgerError;
use reqwest::StatusCode;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// How often rows that appeared late are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// Pause after a failed ack: messages go first.
const ACK_PAUSE: Duration = Duration::from_secs(30);
/// From one look to the next: the platform sends up to three events for one message, and a look brings the messages of
/// a whole burst. Without it a burst uses up within half a second what it may, and then waits.
const LOOK_GAP: Duration = Duration::from_millis(30);
/// Looks that events may cause beyond the long run.
const LOOKS_AT_ONCE: u32 = 120;
/// And then one more in this time. So looks take at most 360 of the 600 calls a minute that they share with
/// heartbeats, polls and replies.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Shortest and longest pause that a platform with too many calls is believed to ask for.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);
/// The first pause after a token was refused: long enough for a wrong one not to be a storm.
const REFUSED_TOKEN_MIN: Duration = Duration::from_secs(1);

/// Why the feed is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookReason {
    /// It is time.
    Due,
    /// An event came.
    Event,
}

/// What the loop remembers.
#[derive(Debug)]
struct FeedPace {
    backoff: Backoff,
    /// When the feed is read without an event.
    due: Instant,
    sweep_due: Instant,
    /// The newest sequence number that was acked.
    acked: Option<i64>,
    /// No ack before this: the last one failed.
    ack_due: Instant,
    /// The platform has no such call.
    no_acks: bool,
    /// How many looks events may still ask for.
    looks: Allowance,
    /// When the last look began.
    looked: Instant,
}

impl Molecule {
    /// Reads what the ledger knows of this channel. Replies need it before the first look, so the daemon calls it
    /// before it begins to send.
    pub async fn recall<D: Inbox>(&self, inbox: &D) -> Result<(), LedgerError> {
        self.kept_cursor(inbox).await.map(drop)
    }

    async fn kept_cursor<D: Inbox>(&self, inbox: &D) -> Result<Option<Cursor>, LedgerError> {
        let Some(text) = inbox.cursor(self.channel()).await? else {
            return Ok(None);
        };
        match Cursor::read(&text) {
            Ok(cursor) => {
                self.learn(cursor.edition);
                Ok(Some(cursor))
            }
            Err(why) => {
                tracing::error!(channel = %self.channel(), why, "how far the feed was read can't be read; it is read like at a first start");
                Ok(None)
            }
        }
    }

    /// Fetches until `stop` is cancelled.
    pub async fn fetch<D: Inbox>(&self, inbox: D, stop: CancellationToken) {
        let listen = async {
            if self.0.settings.wake {
                self.listen().await
            } else {
                std::future::pending().await
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.read_on(&inbox) => {}
            () = listen => {}
        }
    }

    async fn read_on<D: Inbox>(&self, inbox: &D) {
        let mut reader = self.reader(inbox).await;
        let mut pace = FeedPace {
            backoff: Backoff::default(),
            due: Instant::now(),
            sweep_due: after(Instant::now(), SWEEP_EVERY),
            acked: None,
            ack_due: Instant::now(),
            no_acks: false,
            looks: Allowance::new(LOOKS_AT_ONCE, LOOK_EVERY),
            looked: Instant::now(),
        };
        let mut look = LookReason::Due;
        loop {
            match self.look_once(inbox, &mut reader, &mut pace, look).await {
                Ok(()) => {
                    pace.backoff.reset();
                    self.works(ChannelState::Receiving, &self.receiving());
                    look = self.rest(&mut pace).await;
                }
                // The cursor stays before the message that waits for its file, so the next look is a whole one.
                Err(Trouble::Files(later @ (Later::Platform(_) | Later::Early))) => {
                    pace.backoff.reset();
                    let reason = later.to_string();
                    self.0.health.set(ChannelState::Retrying, &reason);
                    pace.due = after(Instant::now(), self.0.settings.poll);
                    self.rest(&mut pace).await;
                    look = LookReason::Due;
                }
                Err(trouble) => {
                    self.recover(&trouble, &mut pace).await;
                    look = LookReason::Due;
                }
            }
        }
    }

    /// A reader that begins where the ledger says.
    async fn reader<D: Inbox>(&self, inbox: &D) -> FeedReader {
        let mut backoff = Backoff::default();
        loop {
            match self.kept_cursor(inbox).await {
                Ok(cursor) => {
                    return FeedReader::from(cursor);
                }
                Err(error) => {
                    tracing::error!(%error, channel = %self.channel(), "how far the feed was read is not known yet");
                    sleep(backoff.next()).await;
                }
            }
        }
    }

    async fn look_once<D: Inbox>(
        &self,
        inbox: &D,
        reader: &mut FeedReader,
        pace: &mut FeedPace,
        look: LookReason,
    ) -> Result<(), Trouble> {
        pace.looked = Instant::now();
        match look {
            LookReason::Event => self.look_ahead(inbox, reader).await?,
            LookReason::Due => {
                self.look(inbox, reader).await?;
                pace.due = after(Instant::now(), self.0.settings.poll);
                self.acknowledge(reader, pace).await;
            }
        }
        if Instant::now() >= pace.sweep_due {
            self.sweep(inbox, reader).await?;
            pace.sweep_due = after(Instant::now(), SWEEP_EVERY);
        }
        Ok(())
    }

    /// Acks the rows up to the cursor, which are all in the ledger: the platform may forget them.
    async fn acknowledge(&self, reader: &FeedReader, pace: &mut FeedPace) {
        let seq = reader.cursor.as_ref().and_then(|cursor| cursor.seq);
        let may = !pace.no_acks && Instant::now() >= pace.ack_due;
        let Some(seq) = seq.filter(|_| may && seq > pace.acked) else {
            return;
        };
        match self.0.client.acknowledge(seq).await {
            Ok(()) => pace.acked = Some(seq),
            Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => pace.no_acks = true,
            Err(error) => {
                pace.ack_due = after(Instant::now(), ACK_PAUSE);
                let reason = error.to_string().escape_debug().to_string();
                tracing::debug!(channel = %self.channel(), reason, "the ack of the feed failed");
            }
        }
    }

    /// Waits until there is a reason to look again.
    async fn rest(&self, pace: &mut FeedPace) -> LookReason {
        tokio::select! {
            () = sleep_until(pace.due) => return LookReason::Due,
            // An event that came while the feed was read left a permit here, so it is not missed.
            () = self.0.bell.notified() => {}
        }
        let may = pace.looks.next(Instant::now());
        sleep_until(pace.due.min(may.max(after(pace.looked, LOOK_GAP)))).await;
        LookReason::Event
    }

    /// Says what is wrong, and waits as long as that takes.
    async fn recover(&self, trouble: &Trouble, pace: &mut FeedPace) {
        let reason = trouble.to_string();
        match trouble {
            Trouble::Full | Trouble::Ledger(_) | Trouble::Files(_) => {
                self.0.health.set(ChannelState::Retrying, &reason);
                sleep(pace.backoff.next()).await;
            }
            Trouble::Call(error) => self.recover_call(error, pace).await,
        }
    }

    async fn recover_call(&self, error: &HttpError, pace: &mut FeedPace) {
        let pause = pace.backoff.next();
        let failure = failure(Operation::Fetch, error);
        tracing::warn!(
            channel = %self.channel(),
            class = failure.class.as_str(),
            reason = failure.reason.escape_debug().to_string(),
            pause_ms = pause.as_millis(),
            "the feed could not be read"
        );
        if error.status() == Some(StatusCode::UNAUTHORIZED) {
            let why = self.why_refused().await;
            let (state, detail) = why.health();
            self.fails(state, &detail);
            return match why {
                TokenRefusal::NewToken => sleep(REFUSED_TOKEN_MIN).await,
                TokenRefusal::Outage => sleep(pause).await,
                TokenRefusal::Token(_) | TokenRefusal::Removed(_) => {
                    self.wait_for_token(pause).await
                }
            };
        }
        self.fails(ChannelState::Retrying, &failure.reason);
        let busy = error.response();
        let busy = busy.filter(|busy| busy.status == StatusCode::TOO_MANY_REQUESTS);
        let asked = busy.and_then(|busy| named_pause(busy.retry_after));
        sleep(asked.unwrap_or(pause)).await;
    }

    fn receiving(&self) -> String {
        let every = self.0.settings.poll.as_secs();
        if self.0.settings.wake {
            format!("the feed is read when the platform's events say so, and every {every} s")
        } else {
            format!("the feed is read every {every} s")
        }
    }
}

/// The pause that the platform asked for, within reason: zero would be a storm.
fn named_pause(seconds: Option<i64>) -> Option<Duration> {
    let seconds = u64::try_from(seconds?).unwrap_or(0);
    Some(Duration::from_secs(seconds).clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX))
}
