//! Presence: the platform shows a workspace as online only while its agent says that it is there, however much it
//! reads and writes. So we sign on, say every 20 s that we are there and what Codex does, at once
//! when that changes, and go on while turns run, however long.
//!
//! It proves nothing about the feed: the platform takes heartbeats for a workspace that was removed. How the channel
//! is, is said by the source alone. A sign-on that is refused has pauses of its own and keeps no heartbeat back.
//! Probes of the platform in the feed are answered here too, or passed over; no turn sees them.

use crate::http::{HttpError, read};
use crate::inbox::{Activity, Inbox};
use crate::molecule::Molecule;
use crate::molecule::row::Notice;
use crate::molecule::wire::{Heartbeat, NewAgent, Registered, WorkspaceView};
use crate::poll::Backoff;
use bridge_core::deadline::after;
use bridge_core::limits::clip;
use reqwest::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Time between two heartbeats; the platform counts us as online for 90 s after one, newer ones for 180 s.
const BEAT_EVERY: Duration = Duration::from_secs(20);
/// Shortest time between two heartbeats: they share 600 calls a minute with everything else.
const BEAT_GAP: Duration = Duration::from_secs(2);
/// How often we look whether what Codex does has changed.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often the platform is asked whether it takes us for degraded.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// How often a removed workspace is looked at: it may have been made anew.
const REMOVED_LOOK_EVERY: Duration = Duration::from_secs(60);
/// How long signing on or a heartbeat may take.
const CALL_DEADLINE: Duration = Duration::from_secs(15);
/// How long the last heartbeat may hold up a stop.
const FAREWELL_DEADLINE: Duration = Duration::from_secs(3);
/// The longest answer to signing on, and the longest description of a workspace.
const VIEW_MAX_BYTES: usize = 256 << 10;
/// Longest pause that a platform with too many calls is believed to ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);
/// The name on the card where neither the operator nor the platform has one.
const NAME: &str = "Codex";
/// What is shown instead of a line that holds a secret.
const UNSAYABLE: &str = "working";
/// Longest line about what Codex does.
const TASK_MAX_CHARS: usize = 200;
/// How a platform calls a workspace whose agent signed on badly, or failed.
const DEGRADED: &str = "degraded";

/// What the platform knows of us.
#[derive(Debug)]
struct Presence {
    began: Instant,
    voice: Voice,
    sign_on: SignOn,
    reported: Option<Activity>,
    beat_due: Instant,
    /// Nothing is sent before.
    not_before: Instant,
    check_due: Instant,
    backoff: Backoff,
}

/// Whether the platform hears us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Voice {
    /// Nothing was reported yet.
    New,
    /// The last heartbeat came through.
    Reported,
    /// Nothing has come through since then.
    Silent { since: Instant },
    /// There is no such workspace any more, so nothing is said until it is.
    Removed,
}

/// Whether the platform knows what kind of agent we are.
#[derive(Debug)]
struct SignOn {
    /// It must be reported.
    wanted: bool,
    /// Not before, after a refusal.
    not_before: Instant,
    /// Only a sign-on that is taken makes pauses short again.
    backoff: Backoff,
    /// That it is refused was said.
    complained: bool,
}

/// Why nothing was said.
#[derive(Debug)]
enum Unsaid {
    /// A call failed.
    Call(HttpError),
    /// The workspace is removed, and signing on would only make the platform mint a token for it.
    Removed,
}

impl From<HttpError> for Unsaid {
    fn from(error: HttpError) -> Self {
        if error.status() == Some(StatusCode::GONE) {
            Self::Removed
        } else {
            Self::Call(error)
        }
    }
}

impl Molecule {
    /// Keeps the workspace present until `stop` is cancelled, which should be after the last turn.
    pub async fn attend<D: Inbox>(&self, inbox: D, stop: CancellationToken) {
        let mut presence = Presence::new(Instant::now());
        loop {
            let activity = self.sayable(inbox.activity(self.channel()).await);
            let said = tokio::select! {
                () = stop.cancelled() => break,
                said = self.say_what_is_due(&mut presence, &activity) => said,
            };
            match said {
                Ok(()) => {}
                Err(Unsaid::Removed) => self.note_removed(&mut presence),
                Err(Unsaid::Call(error)) => self.note_silence(&mut presence, &error),
            }
            let pause = presence.pause(Instant::now());
            tokio::select! {
                () = stop.cancelled() => break,
                () = sleep(pause) => {}
            }
        }
        if presence.voice == Voice::Reported {
            let idle = Activity::default();
            // Best effort: without it the platform notices by itself.
            let _sent = timeout(FAREWELL_DEADLINE, self.beat(&presence, &idle)).await;
        }
    }

    async fn say_what_is_due(
        &self,
        presence: &mut Presence,
        activity: &Activity,
    ) -> Result<(), Unsaid> {
        if Instant::now() < presence.not_before {
            return Ok(());
        }
        match presence.voice {
            Voice::Removed => {
                self.view().await?;
                tracing::info!(channel = %self.channel(), "the workspace is there again");
                presence.voice = Voice::New;
            }
            Voice::New | Voice::Reported | Voice::Silent { .. } => {}
        }
        if presence.may_sign_on(Instant::now()) {
            match self.sign_on().await {
                Ok(()) => presence.signed_on(Instant::now()),
                Err(Unsaid::Removed) => return Err(Unsaid::Removed),
                Err(Unsaid::Call(error)) => self.note_refused(presence, &error),
            }
        }
        if presence.beat_is_due(activity, Instant::now()) {
            // An error leaves `reported` as it was, so the same activity is due again.
            self.beat(presence, activity).await?;
            self.note_reported(presence);
            presence.beaten(activity.clone(), Instant::now());
        }
        if Instant::now() >= presence.check_due {
            presence.check_due = after(Instant::now(), CHECK_EVERY);
            self.check(presence).await?;
        }
        Ok(())
    }

    /// Looks what the platform takes us for. That it does not say is no news: the heartbeat tells whether it hears us.
    async fn check(&self, presence: &mut Presence) -> Result<(), Unsaid> {
        match self.view().await {
            Ok(view) if view.status.as_deref() == Some(DEGRADED) => {
                tracing::info!(channel = %self.channel(), "the platform takes the agent for degraded; it signs on again");
                presence.sign_on.wanted = true;
                Ok(())
            }
            Ok(_) | Err(Unsaid::Call(_)) => Ok(()),
            Err(Unsaid::Removed) => Err(Unsaid::Removed),
        }
    }

    /// Signs on, as an agent that polls or as one that is called.
    async fn sign_on(&self) -> Result<(), Unsaid> {
        let view = self.view().await?;
        let client = &self.0.client;
        let agent = NewAgent {
            id: client.workspace_id(),
            url: self.push_url().unwrap_or_default(),
            agent_card: card(self.0.settings.name.as_deref(), view),
            delivery_mode: match self.push_url() {
                None => "poll",
                Some(_) => "push",
            },
        };
        let call = client.post_to(&["registry", "register"]).json(&agent);
        let registered: Registered = read(call.timeout(CALL_DEADLINE), VIEW_MAX_BYTES).await?;
        if registered.auth_token.is_some() {
            tracing::warn!(
                channel = %self.channel(),
                place = client.token_place(),
                "the platform offered a new token, which it does for a workspace without any: it is not used; take one from the canvas, Tokens tab"
            );
        }
        match self.push_url() {
            None => tracing::info!(channel = %self.channel(), "signed on at the platform"),
            Some(url) => {
                tracing::info!(channel = %self.channel(), url, "signed on at the platform, which calls us there");
            }
        }
        self.learn_secret(&registered);
        Ok(())
    }

    /// Takes over the secret that the platform calls us with; who only polls has no use for it.
    fn learn_secret(&self, registered: &Registered) {
        if let (Some(_), Some(secret)) = (self.push_url(), &registered.platform_inbound_secret) {
            self.0.pushes.learn_secret(secret.expose());
        }
    }

    async fn view(&self) -> Result<WorkspaceView, Unsaid> {
        let call = self.0.client.get(&[]).timeout(CALL_DEADLINE);
        Ok(read(call, VIEW_MAX_BYTES).await?)
    }

    async fn beat(&self, presence: &Presence, activity: &Activity) -> Result<(), Unsaid> {
        let beat = Heartbeat {
            workspace_id: self.0.client.workspace_id(),
            active_tasks: activity.turns,
            uptime_seconds: presence.began.elapsed().as_secs(),
            current_task: Some(activity.current.as_deref().unwrap_or_default()),
            ..Heartbeat::default()
        };
        let answer = self.0.client.heartbeat(&beat).await?;
        self.learn_secret(&answer);
        Ok(())
    }

    /// A line may hold what a command was given; what is a secret of ours is not shown.
    fn sayable(&self, activity: Activity) -> Activity {
        let current = activity.current.map(|line| {
            let secret = |line: &str| {
                let secrets = self.secrets();
                secrets.iter().any(|secret| line.contains(secret.expose()))
            };
            if secret(&line) {
                UNSAYABLE.to_owned()
            } else {
                clip(&line.replace('\0', ""), TASK_MAX_CHARS)
            }
        });
        Activity {
            current,
            ..activity
        }
    }

    fn note_silence(&self, presence: &mut Presence, error: &HttpError) {
        let now = Instant::now();
        match presence.voice {
            Voice::New | Voice::Reported => {
                presence.voice = Voice::Silent { since: now };
                tracing::warn!(
                    channel = %self.channel(),
                    reason = error.to_string().escape_debug().to_string(),
                    "a heartbeat failed; it is sent again"
                );
            }
            // A look at a removed workspace failed: nothing is known of it that was not known before.
            Voice::Removed => return presence.removed(now),
            Voice::Silent { .. } => {}
        }
        presence.sign_on.wanted = true;
        let asked = retry_after(error).unwrap_or_default();
        presence.not_before = after(now, presence.backoff.next().max(asked));
        presence.beat_due = presence.not_before;
    }

    fn note_removed(&self, presence: &mut Presence) {
        if presence.voice != Voice::Removed {
            tracing::warn!(channel = %self.channel(), "the workspace is removed: heartbeats end");
        }
        presence.removed(Instant::now());
    }

    fn note_refused(&self, presence: &mut Presence, error: &HttpError) {
        let sign_on = &mut presence.sign_on;
        if !sign_on.complained {
            sign_on.complained = true;
            tracing::warn!(
                channel = %self.channel(),
                reason = error.to_string().escape_debug().to_string(),
                "the platform did not let us sign on; heartbeats go on, and it is tried again"
            );
        }
        let asked = retry_after(error).unwrap_or_default();
        sign_on.not_before = after(Instant::now(), sign_on.backoff.next().max(asked));
    }

    fn note_reported(&self, presence: &mut Presence) {
        if let Voice::Silent { since } = presence.voice {
            let seconds = since.elapsed().as_secs();
            tracing::info!(channel = %self.channel(), seconds, "the platform hears us again");
        }
        presence.voice = Voice::Reported;
        presence.backoff.reset();
    }
}

impl SignOn {
    fn new(wanted: bool, now: Instant) -> Self {
        Self {
            wanted,
            not_before: now,
            backoff: Backoff::default(),
            complained: false,
        }
    }
}

impl Presence {
    fn new(now: Instant) -> Self {
        Self {
            began: now,
            voice: Voice::New,
            sign_on: SignOn::new(true, now),
            reported: None,
            beat_due: now,
            not_before: now,
            check_due: after(now, CHECK_EVERY),
            backoff: Backoff::default(),
        }
    }

    /// After an outage a heartbeat goes first: a refused sign-on would be held against us for minutes.
    fn may_sign_on(&self, now: Instant) -> bool {
        let reached = match self.voice {
            Voice::New | Voice::Reported => true,
            Voice::Silent { .. } | Voice::Removed => false,
        };
        reached && self.sign_on.wanted && now >= self.sign_on.not_before
    }

    fn signed_on(&mut self, now: Instant) {
        self.sign_on = SignOn::new(false, now);
        self.check_due = after(now, CHECK_EVERY);
    }

    /// Nothing is said until the next look, and then everything anew.
    fn removed(&mut self, now: Instant) {
        self.voice = Voice::Removed;
        self.sign_on.wanted = true;
        self.reported = None;
        self.not_before = after(now, REMOVED_LOOK_EVERY);
        self.beat_due = self.not_before;
    }

    fn beat_is_due(&self, activity: &Activity, now: Instant) -> bool {
        now >= self.beat_due || self.reported.as_ref() != Some(activity)
    }

    fn beaten(&mut self, activity: Activity, now: Instant) {
        self.reported = Some(activity);
        self.beat_due = after(now, BEAT_EVERY);
        // A change is due at once, so this alone keeps a busy turn from flooding the platform.
        self.not_before = after(now, BEAT_GAP);
    }

    /// How long nothing can be due.
    fn pause(&self, now: Instant) -> Duration {
        let waits = self.not_before.saturating_duration_since(now);
        waits.max(LOOK_EVERY)
    }
}

/// What the platform asked for, if it asked us to wait.
fn retry_after(error: &HttpError) -> Option<Duration> {
    let seconds = u64::try_from(error.response()?.retry_after?).unwrap_or(0);
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// The agent card: what the platform has already, with the operator's name on it.
fn card(name: Option<&str>, view: WorkspaceView) -> Value {
    let mut card = match view.agent_card {
        Some(card @ Value::Object(_)) => card,
        Some(_) | None => json!({ "skills": [] }),
    };
    if let Some(fields) = card.as_object_mut() {
        fields.entry("skills").or_insert_with(|| json!([]));
        let own = fields.get("name").and_then(Value::as_str);
        let name = name.or(own).or(view.name.as_deref()).unwrap_or(NAME);
        let name = Value::from(name);
        fields.insert("name".to_owned(), name);
    }
    card
}

/// An entry of our own in the workspace's activity.
#[derive(Debug, Serialize)]
struct NewActivity<'a> {
    activity_type: &'a str,
    summary: &'a str,
}

impl Molecule {
    /// Answers what the platform asked in one page of the feed. A failure loses nothing: the platform asks again.
    pub(crate) async fn answer_notices(&self, notices: &[Notice]) {
        for notice in notices {
            if let Notice::Other(kind) = notice {
                let kind = kind.escape_debug().to_string();
                tracing::info!(channel = %self.channel(), kind, "a notice of the platform was passed over");
            }
        }
        if notices.contains(&Notice::Stall) {
            self.report_activity().await;
        }
    }

    /// Any entry of ours tells the platform that we do not hang; how long a turn may be silent is our own limit
    /// (`turn.idle_secs`).
    async fn report_activity(&self) {
        let activity = NewActivity {
            activity_type: "agent_log",
            summary: "codex-bridge is at work",
        };
        let call = self.0.client.post(&["activity"]).json(&activity);
        match crate::http::accept(call.timeout(CALL_DEADLINE)).await {
            Ok(_) => {
                tracing::info!(channel = %self.channel(), "the platform asked whether we work, and got an answer");
            }
            Err(error) => {
                let reason = error.to_string().escape_debug().to_string();
                tracing::warn!(channel = %self.channel(), reason, "the platform asked whether we work, and did not take the answer");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_card_keeps_what_the_platform_has() {
        let view = |card: Value| WorkspaceView {
            status: None,
            name: Some("alpha".to_owned()),
            agent_card: Some(card),
        };
        assert_eq!(
            card(None, view(Value::Null)),
            json!({"name": "alpha", "skills": []})
        );
        let known = json!({"name": "old", "skills": [{"id": "x"}], "description": "d"});
        assert_eq!(card(None, view(known.clone())), known);
        let renamed = card(Some("new"), view(known));
        assert_eq!(renamed["name"], "new");
        assert_eq!(renamed["skills"][0]["id"], "x");
        let nothing = WorkspaceView::default();
        assert_eq!(card(None, nothing), json!({"name": NAME, "skills": []}));
    }

    #[tokio::test(start_paused = true)]
    async fn activity_change_triggers_rate_limited_heartbeat() {
        let now = Instant::now();
        let busy = Activity {
            turns: 1,
            current: None,
        };
        let mut presence = Presence::new(now);
        assert!(presence.beat_is_due(&Activity::default(), now));
        presence.beaten(Activity::default(), now);
        assert!(!presence.beat_is_due(&Activity::default(), now + BEAT_GAP));
        assert!(presence.beat_is_due(&busy, now + BEAT_GAP));
        assert_eq!(presence.pause(now), BEAT_GAP, "nothing is said before");
        assert_eq!(presence.pause(now + BEAT_GAP), LOOK_EVERY);
        assert!(presence.beat_is_due(&Activity::default(), now + BEAT_EVERY));
    }
}
