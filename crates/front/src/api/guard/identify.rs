//! Identifies callers: the owner of this machine through `api.sock`, the holder of a token, or a session of the console
//! (threats 1 and 32).
//!
//! Only hashes are stored. What is presented is hashed and compared with every candidate in constant time, so that timing
//! reveals nothing about them.

use super::known::{Candidate, TokenLookup};
use super::session::{SESSION_HEADER, SESSION_OVER, SessionHalves};
use super::{Listener, ListenerGuard};
use crate::api::limits::TOKEN_MAX_BYTES;
use crate::api::platform::PATH as PLATFORM_PATH;
use crate::control::{Caller, Grants, LocalProgram, Via};
use crate::{A2aAuth, BridgeService, NO_CONSOLE, TokenHash, lock};
use axum::http::{HeaderMap, header};
use bridge_core::step::UseToken;
use std::time::Duration;
use tokio::time::Instant;

/// The result of identifying a caller.
#[derive(Clone, Debug)]
pub(in crate::api) enum Identity {
    Known(Caller),
    /// Not identified, and why.
    Nobody(&'static str),
    /// A token was presented, but the ledger can't be read.
    Unsure,
}

/// Path of the A2A routes.
pub(in crate::api) const A2A_PATH: &str = "/a2a";
/// Answer to a call of the platform's route without its secret.
const NO_SECRET: &str = "only a platform that pushes messages calls this, with the secret that it gave us; a platform that sends none to this address needs MOLECULE_A2A_ALWAYS_AUTH=true";
/// Interval at which the use of a token is recorded.
const USE_NOTED_EVERY: Duration = Duration::from_secs(60);

impl<D: BridgeService> ListenerGuard<D> {
    /// Identifies the caller of a request.
    pub(super) async fn identify(
        &self,
        path: &str,
        headers: &HeaderMap,
        program: Option<LocalProgram>,
        user: Option<String>,
    ) -> Identity {
        let unnamed = || !headers.contains_key(header::AUTHORIZATION);
        match &self.listener {
            Listener::Local => {
                let via = via(headers);
                Identity::Known(Caller {
                    program: program.and_then(|program| program.named(via)),
                    ..Caller::local_owner(via)
                })
            }
            Listener::Group { scopes } => match user {
                Some(user) => Identity::Known(Caller::member(&user, via(headers), scopes)),
                None => Identity::Nobody("the user at the other end is not known"),
            },
            Listener::Tcp { .. } if unnamed() && self.is_open(path) => {
                Identity::Known(Caller::anonymous())
            }
            Listener::Tcp { .. } if path == PLATFORM_PATH => match bearer(headers) {
                Ok(secret) => self.platform(secret),
                Err(_) => Identity::Nobody(NO_SECRET),
            },
            Listener::Tcp { .. } if headers.contains_key(SESSION_HEADER) => {
                self.session(SessionHalves::read(headers)).await
            }
            Listener::Tcp { .. } => match bearer(headers) {
                Ok(token) => self.holder(token).await,
                Err(why) => Identity::Nobody(why),
            },
        }
    }

    /// Whether the path is open without a token: for conformance kits on this machine only.
    fn is_open(&self, path: &str) -> bool {
        let below = path.strip_prefix(A2A_PATH);
        let ours = below.is_some_and(|below| below.is_empty() || below.starts_with('/'));
        ours && self.context.service.a2a().auth == A2aAuth::None
    }

    /// The platform with this secret. Tokens are good for nothing here, and the secret is good for nothing elsewhere.
    fn platform(&self, secret: &str) -> Identity {
        match self.context.service.platform(secret) {
            Some(channel) => Identity::Known(Caller {
                name: channel.to_string(),
                via: Via::Http,
                program: None,
                grants: Grants::Scopes(Vec::new()),
                trace: None,
            }),
            None => Identity::Nobody(NO_SECRET),
        }
    }

    async fn holder(&self, token: &str) -> Identity {
        match self
            .look_up(&TokenHash::of(token), Candidate::is_bearer)
            .await
        {
            TokenLookup::Known(caller) => self.seen(caller),
            TokenLookup::Unsure => Identity::Unsure,
            TokenLookup::Unknown => {
                Identity::Nobody("the token is not valid: it was never made, or it was revoked")
            }
        }
    }

    /// The session whose halves these are.
    async fn session(&self, halves: Result<SessionHalves<'_>, &'static str>) -> Identity {
        if !self.context.service.console_enabled() {
            return Identity::Nobody(NO_CONSOLE);
        }
        let halves = match halves {
            Ok(halves) => halves,
            Err(why) => return Identity::Nobody(why),
        };
        let now = self.context.service.now();
        let fits = |one: &Candidate| !one.is_bearer() && one.is_live(now);
        match self.look_up(&halves.hash(), fits).await {
            TokenLookup::Known(caller) => self.seen(caller),
            TokenLookup::Unsure => Identity::Unsure,
            TokenLookup::Unknown => Identity::Nobody(SESSION_OVER),
        }
    }

    fn seen(&self, caller: Caller) -> Identity {
        self.note_use(caller.credential());
        Identity::Known(caller)
    }

    /// Records the use of a token in the background, at most once per interval.
    fn note_use(&self, name: &str) {
        let now = Instant::now();
        let mut seen = lock(&self.context.shared.seen);
        let lately = seen
            .get(name)
            .is_some_and(|at| now.duration_since(*at) < USE_NOTED_EVERY);
        if lately {
            return;
        }
        // Bounded: only names of valid tokens get here.
        seen.insert(name.to_owned(), now);
        let (service, name) = (self.context.service.clone(), name.to_owned());
        tokio::spawn(async move {
            if let Err(error) = service.commit(UseToken { name }).await {
                tracing::debug!(%error, "the use of a token was not noted");
            }
        });
    }
}

/// Header in which our own programs name their surface. For the records only: all of them act as the owner.
pub const VIA_HEADER: &str = "codex-bridge-via";

fn via(headers: &HeaderMap) -> Via {
    match headers.get(VIA_HEADER) {
        Some(word) if word == Via::Mcp.as_str() => Via::Mcp,
        Some(_) | None => Via::Cli,
    }
}

/// The bearer token of a request.
fn bearer(headers: &HeaderMap) -> Result<&str, &'static str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(
            "a token is needed: send it once, as `Authorization: Bearer TOKEN`; the owner of this service makes tokens",
        );
    };
    let unreadable = "the Authorization header must be `Bearer TOKEN`";
    let (scheme, token) = value
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .ok_or(unreadable)?;
    let token = token.trim();
    if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= TOKEN_MAX_BYTES
    {
        Ok(token)
    } else {
        Err(unreadable)
    }
}
