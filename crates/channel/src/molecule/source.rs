//! The source's loop: when the feed is read, and what follows when it can't be. It never ends by itself and never
//! drops anything: a row that is not in the ledger is shown again.

use super::Molecule;
use super::cursor::Cursor;
use super::fault::failure;
use super::feed::{Reader, Trouble};
use super::files::Later;
use super::health::ChannelState;
use super::outage::Refusal;
use crate::fault::Deed;
use crate::http::CallError;
use crate::inbox::Inbox;
use crate::poll::{Allowance, Backoff};
use bridge_core::deadline::after;
use bridge_core::port::LedgerError;
use reqwest::StatusCode;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// How often rows that appeared late are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// How soon the platform is told again what it may forget, after it did not listen: messages go first.
const TELL_AGAIN: Duration = Duration::from_secs(30);
/// Looks that events may ask for at once: a chat in full swing is heard without a pause, though the platform tells of
/// one message up to three times.
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
enum Look {
    /// It is time.
    Due,
    /// Something was heard.
    Heard,
}

/// What the loop remembers.
#[derive(Debug)]
struct Pace {
    backoff: Backoff,
    /// When the feed is read whatever was heard.
    due: Instant,
    sweep_due: Instant,
    /// The newest sequence number that the platform was told of.
    told: Option<i64>,
    /// A platform that did not want to be told is not asked again before this.
    tell_due: Instant,
    /// The platform has no such call.
    untold: bool,
    /// How many looks events may still ask for.
    looks: Allowance,
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

    /// Fetches until it is told to stop.
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
        let mut pace = Pace {
            backoff: Backoff::default(),
            due: Instant::now(),
            sweep_due: after(Instant::now(), SWEEP_EVERY),
            told: None,
            tell_due: Instant::now(),
            untold: false,
            looks: Allowance::new(LOOKS_AT_ONCE, LOOK_EVERY),
        };
        let mut look = Look::Due;
        loop {
            match self.look_once(inbox, &mut reader, &mut pace, look).await {
                Ok(()) => {
                    pace.backoff.reset();
                    self.0
                        .health
                        .set(ChannelState::Receiving, &self.receiving());
                    look = self.rest(&mut pace).await;
                }
                // The rest of the feed is heard as always; what waits for a file is before it, so all is looked at.
                Err(Trouble::Files(later @ (Later::Platform(_) | Later::Early))) => {
                    pace.backoff.reset();
                    let reason = later.to_string();
                    self.0.health.set(ChannelState::Retrying, &reason);
                    pace.due = after(Instant::now(), self.0.settings.poll);
                    self.rest(&mut pace).await;
                    look = Look::Due;
                }
                Err(trouble) => {
                    self.recover(&trouble, &mut pace).await;
                    look = Look::Due;
                }
            }
        }
    }

    /// A reader that begins where the ledger says.
    async fn reader<D: Inbox>(&self, inbox: &D) -> Reader {
        let mut backoff = Backoff::default();
        loop {
            match self.kept_cursor(inbox).await {
                Ok(cursor) => {
                    return Reader::from(cursor);
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
        reader: &mut Reader,
        pace: &mut Pace,
        look: Look,
    ) -> Result<(), Trouble> {
        match look {
            Look::Heard => self.look_ahead(inbox, reader).await?,
            Look::Due => {
                self.look(inbox, reader).await?;
                pace.due = after(Instant::now(), self.0.settings.poll);
                self.tell(reader, pace).await;
            }
        }
        if Instant::now() >= pace.sweep_due {
            self.sweep(inbox, reader).await?;
            pace.sweep_due = after(Instant::now(), SWEEP_EVERY);
        }
        Ok(())
    }

    /// Tells the platform which rows it may forget: those up to the cursor, which are all in the ledger.
    async fn tell(&self, reader: &Reader, pace: &mut Pace) {
        let seq = reader.cursor.as_ref().and_then(|cursor| cursor.seq);
        let may = !pace.untold && Instant::now() >= pace.tell_due;
        let Some(seq) = seq.filter(|_| may && seq > pace.told) else {
            return;
        };
        match self.0.client.acknowledge(seq).await {
            Ok(()) => pace.told = Some(seq),
            Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => pace.untold = true,
            Err(error) => {
                pace.tell_due = after(Instant::now(), TELL_AGAIN);
                let reason = error.to_string().escape_debug().to_string();
                tracing::debug!(channel = %self.channel(), reason, "the platform was not told what it may forget");
            }
        }
    }

    /// Waits until there is a reason to look again.
    async fn rest(&self, pace: &mut Pace) -> Look {
        tokio::select! {
            () = sleep_until(pace.due) => return Look::Due,
            () = self.0.bell.notified() => {}
        }
        sleep_until(pace.due.min(pace.looks.next(Instant::now()))).await;
        Look::Heard
    }

    /// Says what is wrong, and waits as long as that takes.
    async fn recover(&self, trouble: &Trouble, pace: &mut Pace) {
        let reason = trouble.to_string();
        match trouble {
            Trouble::Full | Trouble::Ledger(_) | Trouble::Files(_) => {
                self.0.health.set(ChannelState::Retrying, &reason);
                sleep(pace.backoff.next()).await;
            }
            Trouble::Call(error) => self.recover_call(error, pace).await,
        }
    }

    async fn recover_call(&self, error: &CallError, pace: &mut Pace) {
        let pause = pace.backoff.next();
        let failure = failure(Deed::Fetch, error);
        tracing::warn!(
            channel = %self.channel(),
            class = failure.class.as_str(),
            reason = failure.reason.escape_debug().to_string(),
            pause_ms = pause.as_millis(),
            "the feed could not be read"
        );
        match error {
            CallError::Status(refused) if refused.status == StatusCode::UNAUTHORIZED => {
                let why = self.why_refused().await;
                let (state, detail) = why.health();
                self.0.health.set(state, &detail);
                match why {
                    Refusal::NewToken => sleep(REFUSED_TOKEN_MIN).await,
                    Refusal::Outage => sleep(pause).await,
                    Refusal::Token(_) | Refusal::Removed(_) => self.wait_for_token(pause).await,
                }
            }
            CallError::Status(refused) if refused.status == StatusCode::TOO_MANY_REQUESTS => {
                self.0.health.set(ChannelState::Retrying, &failure.reason);
                sleep(named_pause(refused.retry_after).unwrap_or(pause)).await;
            }
            CallError::Status(_)
            | CallError::Unreached(_)
            | CallError::Broken(_)
            | CallError::Unreadable(_)
            | CallError::TooLong(_) => {
                self.0.health.set(ChannelState::Retrying, &failure.reason);
                sleep(pause).await;
            }
        }
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
