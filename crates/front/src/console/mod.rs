//! The console: the page and its files, as they are in the tree. What it shows comes from `/v1`.
//!
//! Addresses are relative, so that it runs below any prefix that a proxy gives it.

mod assets;

use crate::api::{Access, Context, ProblemResponse, Route};
use crate::{BridgeService, NO_CONSOLE};
use assets::Asset;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// What the page may do. `sw` is the one policy that Trusted Types allow: without it no service worker can be registered.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; \
     manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types sw",
);
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const FIRST_FILE: &str = "index.html";

pub(crate) fn rows<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::get("/", Access::Public, "Leads to the console", lead::<D>)
            .answers_media("text/plain")
            .with_statuses(&[307]),
        Route::get(
            "/console",
            Access::Public,
            "Leads to the console",
            lead::<D>,
        )
        .answers_media("text/plain")
        .with_statuses(&[307]),
        Route::get("/console/", Access::Public, "The console", page::<D>)
            .answers_media("text/html"),
        Route::get(
            "/console/{*file}",
            Access::Public,
            "A file of the console",
            file::<D>,
        )
        .answers_media("*/*"),
    ]
}

async fn lead<D: BridgeService>(
    State(context): State<Context<D>>,
) -> Result<Response, ProblemResponse> {
    enabled(&context)?;
    let to = [(header::LOCATION, HeaderValue::from_static("console/"))];
    Ok((StatusCode::TEMPORARY_REDIRECT, to).into_response())
}

async fn page<D: BridgeService>(
    State(context): State<Context<D>>,
    headers: HeaderMap,
) -> Result<Response, ProblemResponse> {
    enabled(&context)?;
    serve(FIRST_FILE, &headers)
}

async fn file<D: BridgeService>(
    State(context): State<Context<D>>,
    Path(file): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ProblemResponse> {
    enabled(&context)?;
    serve(&file, &headers)
}

fn enabled<D: BridgeService>(context: &Context<D>) -> Result<(), ProblemResponse> {
    if context.service.console_enabled() {
        return Ok(());
    }
    Err(ProblemResponse::not_found(NO_CONSOLE))
}

fn serve(path: &str, headers: &HeaderMap) -> Result<Response, ProblemResponse> {
    let asset = assets::find(path)
        .ok_or_else(|| ProblemResponse::not_found("the console has no such file"))?;
    let names = |name: HeaderName, part: &str| {
        let values = headers.get_all(name).iter();
        let mut values = values.filter_map(|value| value.to_str().ok());
        values.any(|value| value.split(',').any(|one| one.trim().starts_with(part)))
    };
    let tag = &asset.tag;
    let mut response = if names(header::IF_NONE_MATCH, tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if names(header::ACCEPT_ENCODING, "gzip") {
        let coding = (header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        ([coding], asset.gzip.clone()).into_response()
    } else {
        asset.bytes.into_response()
    };
    head(asset, response.headers_mut()).map_err(|_| ProblemResponse::bug())?;
    Ok(response)
}

/// The browser asks again at every load, and mostly hears that nothing changed.
fn head(asset: &Asset, headers: &mut HeaderMap) -> Result<(), header::InvalidHeaderValue> {
    let text = HeaderValue::from_static;
    headers.insert(header::CONTENT_TYPE, text(asset.media));
    headers.insert(header::ETAG, HeaderValue::try_from(&asset.tag)?);
    headers.insert(header::CACHE_CONTROL, text("no-cache"));
    headers.insert(header::VARY, text("accept-encoding"));
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::REFERRER_POLICY, text("no-referrer"));
    headers.insert(OPENER_POLICY, text("same-origin"));
    Ok(())
}

#[cfg(test)]
#[cfg(feature = "console")]
mod tests {
    use super::*;

    fn get(path: &str, headers: &[(HeaderName, &str)]) -> Response {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(name, value.parse().unwrap());
        }
        serve(path, &map).unwrap()
    }

    async fn body(response: Response) -> Vec<u8> {
        let read = axum::body::to_bytes(response.into_body(), 1 << 20).await;
        read.unwrap().to_vec()
    }

    #[tokio::test]
    async fn files_have_types_tags_and_policies() {
        let page = get(FIRST_FILE, &[]);
        assert_eq!(
            page.headers()[header::CONTENT_TYPE],
            "text/html; charset=utf-8"
        );
        assert_eq!(page.headers()[header::CACHE_CONTROL], "no-cache");
        assert_eq!(page.headers()[header::CONTENT_SECURITY_POLICY], POLICY);
        let tag = page.headers()[header::ETAG].to_str().unwrap().to_owned();
        let known = get(FIRST_FILE, &[(header::IF_NONE_MATCH, &tag)]);
        assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(known.headers()[header::ETAG], tag.as_str());
        assert!(body(known).await.is_empty());
        let other = get(FIRST_FILE, &[(header::IF_NONE_MATCH, "W/\"x\"")]);
        assert_eq!(other.status(), StatusCode::OK);
        let script = get("app.js", &[]);
        assert_eq!(
            script.headers()[header::CONTENT_TYPE],
            "text/javascript; charset=utf-8"
        );
    }

    #[tokio::test]
    async fn gzip_is_sent_where_accepted() {
        use std::io::Read as _;
        let zipped = get("app.js", &[(header::ACCEPT_ENCODING, "br, gzip;q=0.9")]);
        assert_eq!(zipped.headers()[header::CONTENT_ENCODING], "gzip");
        let zipped = body(zipped).await;
        let mut text = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(zipped.as_slice());
        reader.read_to_end(&mut text).unwrap();
        assert_eq!(text, body(get("app.js", &[])).await);
    }

    #[test]
    fn strange_paths_are_no_files() {
        for path in [
            "",
            "..",
            "../Cargo.toml",
            "index.html/",
            "%2e%2e",
            "app.js?x",
        ] {
            assert!(serve(path, &HeaderMap::new()).is_err(), "{path}");
        }
    }
}
