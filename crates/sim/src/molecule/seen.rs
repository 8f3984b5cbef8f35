//! What callers did, as the platform saw it: for tests that ask which header was sent and how often.
//! Tokens themselves are never kept here.

use super::route::Route;
use super::wire::Call;

/// Calls that are remembered.
pub(super) const SEEN_MOST: usize = 100_000;

/// What kind of `Authorization` a call had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthSeen {
    /// None, or not spelled `Bearer …`.
    None,
    /// The admin's token.
    Admin,
    /// A live token of the workspace that the path names, or of any workspace where it names none.
    Own,
    /// A live token of another workspace.
    Other,
    /// A token that nobody has, or has any more.
    Unknown,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which number it had.
    pub number: u64,
    /// What it was.
    pub route: Route,
    /// The `:id` of its path, as written.
    pub workspace: String,
    /// Everything after `?`, as key and value.
    pub query: Vec<(String, String)>,
    /// What was answered; none when the connection was cut or the answer is still due.
    pub status: Option<u16>,
    /// `Origin`.
    pub origin: Option<String>,
    /// `Authorization`, without the token.
    pub auth: AuthSeen,
    /// `X-Workspace-ID`.
    pub workspace_header: Option<String>,
    /// `X-Molecule-Org-Id`.
    pub org: Option<String>,
}

impl Seen {
    pub(super) fn of(number: u64, call: &Call, auth: AuthSeen) -> Self {
        let header = |name: &str| call.header(name).map(str::to_owned);
        Self {
            number,
            route: call.place.route,
            workspace: call.place.id.clone(),
            query: call.query.clone(),
            status: None,
            origin: header("origin"),
            auth,
            workspace_header: header("x-workspace-id"),
            org: header("x-molecule-org-id"),
        }
    }
}
