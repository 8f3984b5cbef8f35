//! The calls that the platform knows, told apart by method and path; what an edition lacks is unknown to it.

use axum::http::Method;

use super::options::Edition;

/// A kind of call, for faults and for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Route {
    /// `GET /health`
    Health,
    /// `GET /buildinfo`
    BuildInfo,
    /// `POST /workspaces`
    Create,
    /// `GET /workspaces/:id`
    Workspace,
    /// `DELETE /workspaces/:id`
    Delete,
    /// `GET /workspaces/:id/state`
    State,
    /// `POST /workspaces/:id/pause`
    Pause,
    /// `POST /workspaces/:id/resume`
    Resume,
    /// `POST /registry/register`
    Register,
    /// `POST /registry/heartbeat`
    Heartbeat,
    /// `POST /registry/update-card`
    UpdateCard,
    /// `GET /registry/discover/:id`
    Discover,
    /// `GET /registry/:id/peers`
    Peers,
    /// `GET /workspaces/:id/activity`: the feed.
    Activity,
    /// `POST /workspaces/:id/activity`
    Report,
    /// `POST /workspaces/:id/activity/ack`
    Ack,
    /// `POST /workspaces/:id/notify`: a bubble for the canvas.
    Notify,
    /// `POST /workspaces/:id/a2a`: a message to that workspace.
    A2a,
    /// `POST /workspaces/:id/a2a/inbound`: a message of whoever holds the inbound secret.
    Inbound,
    /// `GET /workspaces/:id/channels`
    Channels,
    /// `POST /workspaces/:id/channels/:channel/send`
    SendToChannel,
    /// `POST /workspaces/:id/delegate`
    Delegate,
    /// `GET /workspaces/:id/delegations`
    Delegations,
    /// `GET /workspaces/:id/chat-history`
    ChatHistory,
    /// `POST /workspaces/:id/chat/uploads`
    Upload,
    /// `GET /workspaces/:id/pending-uploads/:file/content`
    PendingContent,
    /// `POST /workspaces/:id/pending-uploads/:file/ack`
    PendingAck,
    /// `GET /uploads/limits`
    UploadLimits,
    /// `GET /workspaces/:id/tokens`
    Tokens,
    /// `POST /workspaces/:id/tokens`
    MintToken,
    /// `DELETE /workspaces/:id/tokens/:token`
    RevokeToken,
    /// `GET /workspaces/:id/external/connection`
    Connection,
    /// `POST /workspaces/:id/external/rotate`
    Rotate,
    /// `POST /workspaces/:id/broadcast`
    Broadcast,
    /// `POST /workspaces/:id/mcp`
    Mcp,
    /// `GET /workspaces/:id/events/stream`
    Events,
    /// Anything else.
    Unknown,
}

/// A call's route with the ids of its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) route: Route,
    /// The `:id`, as written.
    pub(super) id: String,
    /// The file or token, as written.
    pub(super) part: String,
}

impl Place {
    pub(super) fn of(method: &Method, path: &str, edition: Edition) -> Self {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (route, id, part) = match (method.as_str(), segments.as_slice()) {
            ("GET", ["health"]) => (Route::Health, "", ""),
            ("GET", ["buildinfo"]) => (Route::BuildInfo, "", ""),
            ("GET", ["uploads", "limits"]) => (Route::UploadLimits, "", ""),
            ("POST", ["registry", "register"]) => (Route::Register, "", ""),
            ("POST", ["registry", "heartbeat"]) => (Route::Heartbeat, "", ""),
            ("POST", ["registry", "update-card"]) => (Route::UpdateCard, "", ""),
            ("GET", ["registry", "discover", id]) => (Route::Discover, *id, ""),
            ("GET", ["registry", id, "peers"]) => (Route::Peers, *id, ""),
            ("POST", ["workspaces"]) => (Route::Create, "", ""),
            (method, ["workspaces", id, rest @ ..]) => {
                let (route, part) = of_workspace(method, rest);
                (route, *id, part)
            }
            _ => (Route::Unknown, "", ""),
        };
        let route = match edition {
            Edition::New | Edition::August => route,
            Edition::Seed => known_to_the_seed(route),
        };
        Self {
            route,
            id: id.to_owned(),
            part: part.to_owned(),
        }
    }
}

fn of_workspace<'a>(method: &str, rest: &[&'a str]) -> (Route, &'a str) {
    let route = match (method, rest) {
        ("GET", []) => Route::Workspace,
        ("DELETE", []) => Route::Delete,
        ("GET", ["state"]) => Route::State,
        ("POST", ["pause"]) => Route::Pause,
        ("POST", ["resume"]) => Route::Resume,
        ("GET", ["activity"]) => Route::Activity,
        ("POST", ["activity"]) => Route::Report,
        ("POST", ["activity", "ack"]) => Route::Ack,
        ("POST", ["notify"]) => Route::Notify,
        ("POST", ["a2a"]) => Route::A2a,
        ("POST", ["a2a", "inbound"]) => Route::Inbound,
        ("GET", ["channels"]) => Route::Channels,
        ("POST", ["channels", channel, "send"]) => return (Route::SendToChannel, channel),
        ("POST", ["delegate"]) => Route::Delegate,
        ("GET", ["delegations"]) => Route::Delegations,
        ("GET", ["chat-history"]) => Route::ChatHistory,
        ("POST", ["chat", "uploads"]) => Route::Upload,
        ("GET", ["pending-uploads", file, "content"]) => return (Route::PendingContent, file),
        ("POST", ["pending-uploads", file, "ack"]) => return (Route::PendingAck, file),
        ("GET", ["tokens"]) => Route::Tokens,
        ("POST", ["tokens"]) => Route::MintToken,
        ("DELETE", ["tokens", token]) => return (Route::RevokeToken, token),
        ("GET", ["external", "connection"]) => Route::Connection,
        ("POST", ["external", "rotate"]) => Route::Rotate,
        ("POST", ["broadcast"]) => Route::Broadcast,
        ("POST", ["mcp"]) => Route::Mcp,
        ("GET", ["events", "stream"]) => Route::Events,
        _ => Route::Unknown,
    };
    (route, "")
}

fn known_to_the_seed(route: Route) -> Route {
    let newer = [
        Route::Ack,
        Route::Inbound,
        Route::Channels,
        Route::SendToChannel,
        Route::ChatHistory,
        Route::UploadLimits,
        Route::Broadcast,
    ];
    if newer.contains(&route) {
        Route::Unknown
    } else {
        route
    }
}
