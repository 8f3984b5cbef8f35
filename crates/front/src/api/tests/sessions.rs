//! Every route of the table, called with a session, with half of one, and from pages of others.

use super::{HOST, OWNER, api, call, every_call, request, row, tcp};
use crate::api::Access;
use crate::api::guard::{SESSION_HEADER, SessionHalves, cookie_name};
use axum::Router;
use axum::http::request::Builder;
use axum::http::{Method, StatusCode, header};
use bridge_core::value::{ConsoleAccess, Timestamp, TokenKind};

const NAME: &str = "console-1";
const PAGE: &str = "console-1.page-half";
const COOKIE: &str = "cookie-half";
const SITE: &str = "sec-fetch-site";

fn router(expires_at: i64) -> Router {
    let api = api();
    let halves = SessionHalves {
        page: PAGE,
        cookie: COOKIE,
    };
    let access = ConsoleAccess {
        label: "browser".to_owned(),
        expires_at: Timestamp(expires_at),
    };
    let mut session = row(NAME, "", TokenKind::Session(access.clone()));
    session.hash = halves.hash().hex();
    let login = row("console-2", "code", TokenKind::Login(access));
    let owner = row("owner", OWNER, TokenKind::Bearer);
    api.context.shared.known.hold(vec![owner, session, login]);
    api.router(tcp())
}

fn with_cookie(request: Builder, value: &str) -> Builder {
    let cookies = format!("other=1; {}={value}", cookie_name(NAME));
    request.header(header::COOKIE, cookies)
}

fn whole(request: Builder) -> Builder {
    with_cookie(request, COOKIE)
        .header(SESSION_HEADER, PAGE)
        .header(SITE, "same-origin")
}

type Attack = (&'static str, StatusCode, fn(Builder) -> Builder);

const ATTACKS: [Attack; 14] = [
    ("nothing", StatusCode::UNAUTHORIZED, |call| call),
    ("the cookie alone", StatusCode::UNAUTHORIZED, |call| {
        with_cookie(call, COOKIE).header(SITE, "same-origin")
    }),
    ("the page's half alone", StatusCode::UNAUTHORIZED, |call| {
        call.header(SESSION_HEADER, PAGE)
            .header(SITE, "same-origin")
    }),
    ("another cookie", StatusCode::UNAUTHORIZED, |call| {
        with_cookie(call, "guessed")
            .header(SESSION_HEADER, PAGE)
            .header(SITE, "same-origin")
    }),
    ("another page's half", StatusCode::UNAUTHORIZED, |call| {
        with_cookie(call, COOKIE)
            .header(SESSION_HEADER, "console-1.guessed")
            .header(SITE, "same-origin")
    }),
    ("two cookies", StatusCode::UNAUTHORIZED, |call| {
        with_cookie(whole(call), "guessed")
    }),
    ("two headers", StatusCode::UNAUTHORIZED, |call| {
        whole(call).header(SESSION_HEADER, PAGE)
    }),
    ("both halves as a token", StatusCode::UNAUTHORIZED, |call| {
        call.header(header::AUTHORIZATION, format!("Bearer {PAGE} {COOKIE}"))
    }),
    ("a code as a token", StatusCode::UNAUTHORIZED, |call| {
        call.header(header::AUTHORIZATION, "Bearer code")
    }),
    (
        "another port of this machine",
        StatusCode::FORBIDDEN,
        |call| whole(call).header(header::ORIGIN, "http://127.0.0.1:4142"),
    ),
    ("another origin", StatusCode::FORBIDDEN, |call| {
        whole(call).header(header::ORIGIN, "https://evil.test")
    }),
    ("a page of another port", StatusCode::FORBIDDEN, |call| {
        with_cookie(call, COOKIE)
            .header(SESSION_HEADER, PAGE)
            .header(SITE, "same-site")
    }),
    ("a page of another site", StatusCode::FORBIDDEN, |call| {
        with_cookie(call, COOKIE)
            .header(SESSION_HEADER, PAGE)
            .header(SITE, "cross-site")
    }),
    ("no browser", StatusCode::FORBIDDEN, |call| {
        with_cookie(call, COOKIE).header(SESSION_HEADER, PAGE)
    }),
];

#[tokio::test]
async fn threat_2_incomplete_sessions_open_nothing() {
    let router = router(1);
    let mut address = 0;
    for (method, path, access) in every_call() {
        for (what, refused, attack) in ATTACKS {
            address += 1;
            let response = call(&router, attack(request(&method, path, address))).await;
            let open = access == Access::Public && refused == StatusCode::UNAUTHORIZED;
            let is_refused = response.status() == refused;
            assert!(
                is_refused || open,
                "{method} {path} with {what}: {response:?}"
            );
        }
    }
}

#[tokio::test]
async fn sessions_open_what_their_scopes_say() {
    let mut address = 0;
    for (method, path, access) in every_call() {
        // What is known of a session is read again after 5 s, and here there is nothing to read it from.
        let router = router(1);
        address += 1;
        let response = call(&router, whole(request(&method, path, address))).await;
        let is_refused =
            [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&response.status());
        let expected = match access {
            Access::Local | Access::Platform => true,
            Access::Public | Access::Known | Access::Scope(_) | Access::Decide => false,
        };
        assert_eq!(is_refused, expected, "{method} {path}: {response:?}");
    }
}

#[tokio::test]
async fn expired_sessions_say_what_to_do() {
    let router = router(0);
    let response = call(&router, whole(request(&Method::GET, "/v1/dead", 1))).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    let body = axum::body::to_bytes(response.into_body(), 10_000).await;
    let said = String::from_utf8(body.unwrap().to_vec()).unwrap();
    assert!(said.contains("run `codex-bridge console` again"), "{said}");
    assert!(
        !said.contains("page-half") && !said.contains(HOST),
        "{said}"
    );
}
