//! Browsers that get alerts: questions, failures and ends of tasks (Web Push). Each belongs to the session that added it.

use super::extract::{Body, Who};
use super::route::{Access, Route, Trace};
use super::{Context, ProblemResponse};
use crate::control::{Caller, Grants, Scope};
use crate::{BridgeService, Time};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use bridge_core::limits::DEVICES_PER_SESSION_MAX;
use bridge_core::step::{AddDevice, DeviceAdded, DropDevice};
use bridge_core::value::{AlertDetail, AlertKind, PushDevice, Receiver, ReceiverId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

const READ: Access = Access::Scope(Scope::Read);
/// Begins the ids of browsers.
const DEVICE: &str = "browser";
/// Longest key of a browser, in base64url.
const KEY_MAX_CHARS: usize = 200;

/// Answer to `GET /v1/push`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct PushList {
    /// The key to subscribe with: `applicationServerKey`, in base64url.
    key: String,
    /// The browsers of the session that calls; of all sessions with `admin`.
    subscriptions: Vec<PushView>,
}

/// A browser that gets alerts.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct PushView {
    id: String,
    /// The session that it belongs to, and ends with.
    session: String,
    about: Vec<PushAbout>,
    detail: PushDetail,
    created_at: Time,
    /// Why the newest alert was not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What a browser is alerted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum PushAbout {
    /// Codex asks, and somebody must decide.
    Question,
    /// A message was given up, or waits for a person.
    Failure,
    /// A task has ended.
    Task,
}

/// How much of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum PushDetail {
    /// The kind and ids; nothing that Codex or a sender wrote.
    #[default]
    Hint,
    /// The first line, too.
    Headline,
}

/// Body of `POST /v1/push`: what a browser's `PushSubscription` says.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPush {
    /// The address of the browser's push service.
    endpoint: String,
    /// The browser's public key, in base64url.
    p256dh: String,
    /// The browser's secret, in base64url.
    auth: String,
    /// At least one.
    about: Vec<PushAbout>,
    #[serde(default)]
    detail: PushDetail,
}

impl fmt::Debug for NewPush {
    /// Without address and keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewPush")
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

/// Answer to `POST /v1/push`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct PushAdded {
    /// The same again for the same browser.
    id: String,
}

impl From<AlertKind> for PushAbout {
    fn from(kind: AlertKind) -> Self {
        match kind {
            AlertKind::Question => Self::Question,
            AlertKind::Failure => Self::Failure,
            AlertKind::Task => Self::Task,
        }
    }
}

impl From<PushAbout> for AlertKind {
    fn from(about: PushAbout) -> Self {
        match about {
            PushAbout::Question => Self::Question,
            PushAbout::Failure => Self::Failure,
            PushAbout::Task => Self::Task,
        }
    }
}

impl PushView {
    /// `None` for a receiver that is no browser.
    fn of(receiver: Receiver) -> Option<Self> {
        Some(Self {
            id: receiver.receiver_id.to_string(),
            session: receiver.device?.session,
            about: receiver.about.into_iter().map(PushAbout::from).collect(),
            detail: match receiver.detail {
                AlertDetail::Hint => PushDetail::Hint,
                AlertDetail::Headline => PushDetail::Headline,
            },
            created_at: receiver.created_at.into(),
            error: receiver.error,
        })
    }
}

pub(super) fn rows<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::get(
            "/v1/push",
            READ,
            "Browsers that get alerts of questions, failures and ends of tasks, and the key to subscribe with",
            list::<D>,
        )
        .answers::<PushList>(),
        Route::post(
            "/v1/push",
            READ,
            Trace::Audit(&["push-add"]),
            "Tell the browser of the session that calls, until the session ends",
            add::<D>,
        )
        .takes::<NewPush>()
        .answers::<PushAdded>()
        .with_statuses(&[201]),
        Route::delete(
            "/v1/push/{id}",
            READ,
            Trace::Audit(&["push-remove"]),
            "Tell a browser nothing more",
            remove::<D>,
        )
        .answers_nothing(),
    ]
}

/// The session that calls, if it is one.
fn session_of(caller: &Caller) -> Option<String> {
    match &caller.grants {
        Grants::Session { name, .. } => Some(name.clone()),
        Grants::LocalOwner | Grants::Scopes(_) | Grants::Member(_) => None,
    }
}

async fn list<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
) -> Result<Json<PushList>, ProblemResponse> {
    let key = service.push_key().await?;
    let key = key.map_err(ProblemResponse::unavailable)?;
    let receivers = service.read(|rows| rows.receivers()).await?;
    let own = session_of(&caller);
    let shown = |view: &PushView| caller.may(Scope::Admin) || own.as_ref() == Some(&view.session);
    let views = receivers.into_iter().filter_map(PushView::of);
    Ok(Json(PushList {
        key,
        subscriptions: views.filter(shown).collect(),
    }))
}

async fn add<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Body(new): Body<NewPush>,
) -> Result<(StatusCode, Json<PushAdded>), ProblemResponse> {
    let Some(session) = session_of(&caller) else {
        return Err(ProblemResponse::forbidden(
            "only a browser that is signed in to the console can get alerts: run `codex-bridge console`",
        ));
    };
    let mut about: Vec<AlertKind> = new.about.into_iter().map(AlertKind::from).collect();
    about.sort();
    about.dedup();
    if about.is_empty() {
        return Err(ProblemResponse::unprocessable(
            "`about` names at least one of `question`, `failure` and `task`",
        ));
    }
    if new.p256dh.len() > KEY_MAX_CHARS || new.auth.len() > KEY_MAX_CHARS {
        return Err(ProblemResponse::unprocessable(
            "`p256dh` and `auth` are no keys of a browser",
        ));
    }
    let device = PushDevice {
        session,
        endpoint: new.endpoint,
        p256dh: new.p256dh,
        auth: new.auth,
        unreadable: false,
    };
    let fits = service.check_device(&device);
    fits.map_err(ProblemResponse::unprocessable)?;
    let receiver_id = ReceiverId::of(DEVICE, &device.endpoint);
    let added = service.commit(AddDevice {
        receiver: Receiver {
            receiver_id: receiver_id.clone(),
            device: Some(device),
            about,
            detail: match new.detail {
                PushDetail::Hint => AlertDetail::Hint,
                PushDetail::Headline => AlertDetail::Headline,
            },
            error: None,
            created_at: Timestamp(0),
        },
        by: caller.actor().to_string(),
    });
    match added.await? {
        DeviceAdded::Added => {
            service.receiver_added(&receiver_id);
            let id = receiver_id.to_string();
            Ok((StatusCode::CREATED, Json(PushAdded { id })))
        }
        DeviceAdded::NoSession => Err(ProblemResponse::unauthorized(
            "this session has ended: run `codex-bridge console` again",
        )),
        DeviceAdded::Full => Err(ProblemResponse::ambiguous(format!(
            "this session has {DEVICES_PER_SESSION_MAX} browsers with alerts already: remove one (DELETE /v1/push/ID)"
        ))),
    }
}

async fn remove<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Result<StatusCode, ProblemResponse> {
    let session = match caller.may(Scope::Admin) {
        true => None,
        // A token without `admin` has no browser.
        false => Some(session_of(&caller).unwrap_or_default()),
    };
    let removed = service.commit(DropDevice {
        receiver_id: ReceiverId::new(&*id),
        session,
        by: caller.actor().to_string(),
    });
    match removed.await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ProblemResponse::not_found(format!(
            "no browser {id} of yours gets alerts"
        ))),
    }
}
