//! Sessions of the console: the owner's one-time code, the session that it becomes, who one is, and signing out.

use super::extract::{Body, Who};
use super::guard::{SessionHalves, cookie_name, is_same_origin, page_half};
use super::limits::{LOGIN_BODY_DEADLINE, LOGIN_BODY_MAX_BYTES, TOKEN_MAX_BYTES};
use super::route::{Access, Route, Trace};
use super::tokens::{scopes, to_the_end};
use super::{Context, ProblemResponse};
use crate::control::{Caller, Grants, Scope};
use crate::{BridgeService, ConsolePlace, Time, TokenHash};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bridge_core::limits::SESSION_MS;
use bridge_core::step::{AddLogin, LoginAdded, OpenSession, RevokeToken, login_of};
use bridge_core::value::Token;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Begins the names of sessions; no token has such a name.
pub(crate) const SESSION_PREFIX: &str = "console-";
/// Digits of a code's hash in the name of its session.
const NAME_DIGITS: usize = 8;
/// Longest label.
const LABEL_MAX_CHARS: usize = 64;
const CODE_REFUSED: &str = "this code is not good: it was used already, or it is older than 5 minutes; run `codex-bridge console` again (`codex-bridge token list` shows who is signed in)";
const NO_RANDOMNESS: &str = "the system gives no random numbers now; nothing was made";

/// Body of `POST /v1/logins`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLogin {
    /// What the session will be good for: `read`, `send`, `control`, `approve`, `admin`.
    pub scopes: Vec<String>,
    /// Where it will be used, in words for people.
    pub label: String,
    /// It is for another device: refused where `http.public_url` is not https.
    #[serde(default)]
    pub elsewhere: bool,
}

/// Answer to `POST /v1/logins`: the only place where the code is shown.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct LoginMade {
    /// What the session will be called.
    pub name: String,
    pub scopes: Vec<String>,
    /// Opens one session. It belongs behind `#login=` of an address below.
    pub code: String,
    /// Until when it is good.
    pub expires_at: Time,
    /// Where the console is on this machine; `null` where it is served only elsewhere.
    pub url: Option<String>,
    /// Where it is for others, if `http.public_url` says so.
    pub public_url: Option<String>,
    /// What is not as it should be.
    pub remark: Option<String>,
}

impl fmt::Debug for LoginMade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginMade")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Body of `POST /v1/session`.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LoginCode {
    /// The code of a login.
    code: String,
}

/// Answer to `POST /v1/session`. The other half is in its cookie.
#[derive(Clone, Serialize, JsonSchema)]
pub(super) struct SessionOpened {
    /// The page's half: the header `codex-bridge-session` of every call.
    half: String,
    #[serde(flatten)]
    session: SessionView,
}

/// Who calls, as `GET /v1/session` says it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct SessionView {
    /// The session or token, or the owner at this machine.
    name: String,
    scopes: Vec<String>,
    /// Where it is used; of sessions only.
    label: Option<String>,
    /// When a session ends, if it is used every week.
    expires_at: Option<Time>,
    /// `console`, or another surface.
    via: String,
}

impl SessionView {
    fn new(caller: &Caller, row: Option<&Token>) -> Self {
        let access = row.and_then(|row| row.kind.console());
        let scopes = caller.scopes().into_iter().map(Scope::as_str);
        Self {
            name: caller.credential().to_owned(),
            scopes: scopes.map(ToOwned::to_owned).collect(),
            label: access.map(|access| access.label.clone()),
            expires_at: access.map(|access| access.expires_at.into()),
            via: caller.via.as_str().to_owned(),
        }
    }
}

pub(super) fn rows<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::post(
            "/v1/logins",
            Access::Local,
            Trace::Audit(&["console-login"]),
            "Make a one-time code for a session of the console, and listen for it",
            add_login::<D>,
        )
        .takes::<NewLogin>()
        .answers::<LoginMade>()
        .with_statuses(&[201]),
        Route::post(
            "/v1/session",
            Access::Public,
            Trace::Audit(&["console-open"]),
            "Open a session of the console with a code: a cookie, and the half in the answer",
            open::<D>,
        )
        .takes::<LoginCode>()
        .answers::<SessionOpened>(),
        Route::get(
            "/v1/session",
            Access::Known,
            "Who calls, and what they may",
            show::<D>,
        )
        .answers::<SessionView>(),
        Route::delete(
            "/v1/session",
            Access::Known,
            Trace::Audit(&["token-revoke"]),
            "End the session that calls",
            close::<D>,
        )
        .answers_nothing(),
    ]
}

async fn add_login<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Body(new): Body<NewLogin>,
) -> Result<(StatusCode, Json<LoginMade>), ProblemResponse> {
    let service = context.service;
    let scopes = console_scopes(&new.scopes)?;
    let label = label(new.label)?;
    let place = service
        .open_console()
        .await
        .map_err(ProblemResponse::ambiguous)?;
    if new.elsewhere {
        reachable_elsewhere(&place)?;
    }
    let code = service.random_token();
    let code = code.ok_or_else(|| ProblemResponse::unavailable(NO_RANDOMNESS))?;
    let hash = TokenHash::of(&code).hex();
    let name: String = hash.chars().take(NAME_DIGITS).collect();
    let login = AddLogin {
        name: format!("{SESSION_PREFIX}{name}"),
        hash,
        scopes: scopes.clone(),
        label,
        by: caller.actor().to_string(),
    };
    let name = login.name.clone();
    match service.commit(login).await? {
        LoginAdded::Added { expires_at } => {
            service.redact(&code);
            let made = LoginMade {
                name,
                scopes,
                code,
                expires_at: expires_at.into(),
                url: place.url,
                public_url: place.public_url,
                remark: place.remark,
            };
            Ok((StatusCode::CREATED, Json(made)))
        }
        LoginAdded::Taken => Err(ProblemResponse::unavailable(
            "a session of this name exists by chance; nothing was made, ask again",
        )),
        LoginAdded::Full => Err(ProblemResponse::ambiguous(
            "there are too many sessions: `codex-bridge token list` shows them, and `codex-bridge token revoke NAME` ends one",
        )),
    }
}

/// Browsers give a page of another machine neither cookies that are safe nor notifications without https.
fn reachable_elsewhere(place: &ConsolePlace) -> Result<(), ProblemResponse> {
    if let Some(url) = &place.public_url
        && url.starts_with("https://")
    {
        return Ok(());
    }
    let here = place.url.as_deref().and_then(|url| url.split('/').nth(2));
    let here = here.unwrap_or("its address");
    Err(ProblemResponse::ambiguous(format!(
        "other devices reach the console over https alone, and `http.public_url` names no such address: let `tailscale serve` \
         or a proxy with TLS lead to http://{here}, and set `http.public_url` to what it is called there. On another computer \
         `ssh -L {here}:{here} HOST` does without: then open what `codex-bridge console` prints"
    )))
}

/// Sessions are the owner's; `a2a` makes a peer.
fn console_scopes(words: &[String]) -> Result<Vec<String>, ProblemResponse> {
    let scopes = scopes(words)?;
    if scopes.contains(&Scope::A2a) {
        return Err(ProblemResponse::unprocessable(
            "a session of the console is no agent: leave `a2a` out",
        ));
    }
    let words = scopes.into_iter().map(|scope| scope.as_str().to_owned());
    Ok(words.collect())
}

fn label(label: String) -> Result<String, ProblemResponse> {
    if label.chars().count() > LABEL_MAX_CHARS || label.chars().any(char::is_control) {
        return Err(ProblemResponse::unprocessable(format!(
            "a label is at most {LABEL_MAX_CHARS} characters in one line"
        )));
    }
    Ok(label)
}

async fn open<D: BridgeService>(
    State(context): State<Context<D>>,
    headers: HeaderMap,
    body: axum::body::Body,
) -> Result<Response, ProblemResponse> {
    let service = context.service;
    if !service.console_enabled() || !is_same_origin(&headers) {
        return Err(ProblemResponse::forbidden(
            "only the console's own page opens a session: run `codex-bridge console`",
        ));
    }
    let LoginCode { code } = read_code(body).await?;
    let code = TokenHash::of(&code).hex();
    // Anybody may guess: that costs a read, and neither a transaction nor what is known of others.
    let guess = code.clone();
    let now = service.now();
    let is_good = service.read(move |rows| Ok(login_of(rows, &guess, now)?.is_some()));
    if !is_good.await? {
        return Err(ProblemResponse::unauthorized(CODE_REFUSED));
    }
    let halves = service.random_token().zip(service.random_token());
    let (secret, cookie) = halves.ok_or_else(|| ProblemResponse::unavailable(NO_RANDOMNESS))?;
    let name: String = code.chars().take(NAME_DIGITS).collect();
    let page = page_half(&format!("{SESSION_PREFIX}{name}"), &secret);
    let halves = SessionHalves {
        page: &page,
        cookie: &cookie,
    };
    let hash = halves.hash().hex();
    let opened = service.commit(OpenSession { code, hash }).await?;
    let row = opened.ok_or_else(|| ProblemResponse::unauthorized(CODE_REFUSED))?;
    context.shared.known.forget();
    for half in [&secret, &cookie] {
        service.redact(half);
    }
    let scopes = row.scopes.iter();
    let scopes = scopes.filter_map(|word| Scope::from_word(word)).collect();
    let caller = Caller::session(&row.name, scopes);
    let session = SessionView::new(&caller, Some(&row));
    let cookie = set_cookie(&row.name, &cookie, SESSION_MS / 1_000, &headers)?;
    let body = Json(SessionOpened {
        half: page,
        session,
    });
    Ok((cookie, body).into_response())
}

/// Nobody is known yet: what is read is short and comes soon.
async fn read_code(body: axum::body::Body) -> Result<LoginCode, ProblemResponse> {
    let read = axum::body::to_bytes(body, LOGIN_BODY_MAX_BYTES);
    let read = tokio::time::timeout(LOGIN_BODY_DEADLINE, read).await;
    let found = match read {
        Ok(Ok(bytes)) => serde_json::from_slice(&bytes).ok(),
        Ok(Err(_)) | Err(_) => None,
    };
    found
        .filter(|found: &LoginCode| found.code.len() <= TOKEN_MAX_BYTES)
        .ok_or_else(|| {
            ProblemResponse::bad_request(
                "the body must be the code of a login: {\"code\": \"...\"}",
            )
        })
}

type CookieHeaders = [(header::HeaderName, HeaderValue); 2];

/// Without a path: browsers then send the cookie to what is below the address of this call, whatever prefix a proxy gives us.
fn set_cookie(
    session: &str,
    value: &str,
    seconds: i64,
    headers: &HeaderMap,
) -> Result<CookieHeaders, ProblemResponse> {
    let origin = headers.get(header::ORIGIN);
    let by_https = origin.is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    let secure = if by_https { "; Secure" } else { "" };
    let name = cookie_name(session);
    let cookie = format!("{name}={value}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    let cookie = HeaderValue::try_from(cookie).map_err(|_| ProblemResponse::bug())?;
    let no_store = HeaderValue::from_static("no-store");
    Ok([
        (header::SET_COOKIE, cookie),
        (header::CACHE_CONTROL, no_store),
    ])
}

async fn show<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
) -> Result<Json<SessionView>, ProblemResponse> {
    let name = caller.credential().to_owned();
    let row = match caller.grants {
        Grants::Session { .. } => service.read(move |rows| rows.token(&name)).await?,
        Grants::LocalOwner | Grants::Scopes(_) | Grants::Member(_) => None,
    };
    Ok(Json(SessionView::new(&caller, row.as_ref())))
}

/// Its messages and tasks go on: whoever signs out does not take back what they said.
async fn close<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    headers: HeaderMap,
) -> Result<Response, ProblemResponse> {
    let Grants::Session { name, .. } = &caller.grants else {
        return Err(ProblemResponse::ambiguous(
            "this call came without a session; `codex-bridge token revoke NAME` ends a token or another session",
        ));
    };
    let revoke = RevokeToken {
        name: name.clone(),
        by: caller.actor().to_string(),
    };
    let (service, shared) = (context.service, context.shared);
    let revoked = to_the_end(async move {
        let name = revoke.name.clone();
        let revoked = service.commit(revoke).await;
        shared.known.revoke(&name);
        shared.streams.end(&name);
        revoked
    });
    revoked.await??;
    let cookie = set_cookie(name, "", 0, &headers)?;
    Ok((StatusCode::NO_CONTENT, cookie).into_response())
}
