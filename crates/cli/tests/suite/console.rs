//! The console's way in, over the built binary: the code, the page, the session, a daemon that is started again.

use crate::fake::Fake;
use crate::world::{Ended, World, within};
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

/// A browser that is signed in.
pub(crate) struct Browser {
    client: Client,
    page: String,
    session: HeaderMap,
}

impl Browser {
    pub(crate) fn new(page: &str) -> Self {
        Self {
            client: Client::builder().tls_certs_only([]).build().unwrap(),
            page: page.to_owned(),
            session: HeaderMap::new(),
        }
    }

    /// A call of the page, as the page addresses it.
    pub(crate) fn call(&self, method: Method, path: &str) -> RequestBuilder {
        let call = self.client.request(method, format!("{}{path}", self.page));
        call.header("Sec-Fetch-Site", "same-origin")
            .headers(self.session.clone())
    }

    pub(crate) async fn answer(&self, call: RequestBuilder) -> (StatusCode, Value) {
        let response = within("an answer", call.send()).await.unwrap();
        let status = response.status();
        (status, response.json().await.unwrap_or(Value::Null))
    }

    pub(crate) async fn sign_in(&mut self, code: &str) -> (StatusCode, Value) {
        let call = self.call(Method::POST, "../v1/session");
        let call = call.json(&json!({"code": code}));
        let response = within("an answer", call.send()).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let said: Value = response.json().await.unwrap();
        if let (Some(cookie), Some(half)) = (headers.get("set-cookie"), said["half"].as_str()) {
            let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
            let value = |text: &str| HeaderValue::from_str(text).unwrap();
            self.session.insert("cookie", value(cookie));
            self.session.insert("codex-bridge-session", value(half));
        }
        (status, said)
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.answer(self.call(Method::GET, path)).await
    }
}

#[track_caller]
fn says(ended: &Ended, words: &[&str]) {
    ended.must(0, &[]);
    for word in words {
        assert!(ended.stdout.contains(word), "{word:?} is not in {ended:?}");
    }
}

pub(crate) async fn login(world: &World, args: &[&str]) -> Value {
    let made = world.json(&[&["console", "--json"], args].concat()).await;
    assert!(made["code"].as_str().unwrap().starts_with("cbt_"), "{made}");
    made
}

#[tokio::test(flavor = "multi_thread")]
async fn console_signs_a_browser_in() {
    let fake = Fake::start("", "").await;
    let listen = fake.world.state_dir().join("listen");
    assert!(!listen.exists(), "nothing listens before it is asked for");
    let made = login(&fake.world, &[]).await;
    let mut browser = Browser::new(made["url"].as_str().unwrap());
    let address = std::fs::read_to_string(&listen).unwrap();
    assert_eq!(made["url"], format!("http://{}/console/", address.trim()));
    let page = browser.client.get(&browser.page).send().await.unwrap();
    assert_eq!(page.status(), StatusCode::OK);
    let policy = page.headers()["content-security-policy"].to_str().unwrap();
    assert!(
        policy.contains("require-trusted-types-for 'script'"),
        "{policy}"
    );
    let code = made["code"].as_str().unwrap();
    let (status, said) = browser.sign_in(code).await;
    assert_eq!((status, &said["name"]), (StatusCode::OK, &made["name"]));
    assert_eq!(browser.sign_in(code).await.0, StatusCode::UNAUTHORIZED);
    let sent = browser
        .call(Method::POST, "../v1/messages")
        .header("Idempotency-Key", "k1")
        .json(&json!({"text": "echo:one"}));
    let (status, sent) = browser.answer(sent).await;
    assert_eq!(status, StatusCode::CREATED, "{sent}");
    let id = sent["message_id"].as_str().unwrap();
    let (_, shown) = browser.get(&format!("../v1/messages/{id}")).await;
    assert_eq!(shown["sender"], "local owner", "the owner sends");
    let listed = fake.world.run(&["token", "list"]).await;
    says(&listed, &["(browser, signed in to the console until"]);
    let name = made["name"].as_str().unwrap();
    let audit = fake.world.run(&["audit"]).await;
    says(&audit, &["console-login", "console-open", name]);
    for secret in [code, said["half"].as_str().unwrap()] {
        let log = fake.daemon.log.text();
        assert!(!log.contains(secret) && !audit.stdout.contains(secret));
    }
    let revoked = fake.world.run(&["token", "revoke", name]).await;
    says(&revoked, &["is revoked"]);
    let (status, over) = browser.get("../v1/status").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let detail = over["detail"].as_str().unwrap();
    assert!(
        detail.contains("run `codex-bridge console` again"),
        "{detail}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_survive_a_killed_daemon() {
    let fake = Fake::start("", "").await;
    let made = login(&fake.world, &["--scopes", "read"]).await;
    let mut browser = Browser::new(made["url"].as_str().unwrap());
    browser.sign_in(made["code"].as_str().unwrap()).await;
    fake.daemon.kill_9().await;
    let again = Fake::daemon_of(&fake.world).await;
    // Another test's daemon may have had the usual port.
    let listen = fake.world.state_dir().join("listen");
    let address = std::fs::read_to_string(listen).unwrap();
    browser.page = format!("http://{}/console/", address.trim());
    let (status, who) = browser.get("../v1/session").await;
    assert_eq!((status, &who["scopes"]), (StatusCode::OK, &json!(["read"])));
    assert_eq!(browser.get("../v1/tokens").await.0, StatusCode::FORBIDDEN);
    again.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn consoles_refuse_what_they_cannot_serve() {
    let off = Fake::start("[console]\nenabled = false\n", "").await;
    let refused = off.world.run(&["console"]).await;
    refused.must(1, &["`console.enabled` is false"]);
    assert!(!off.world.state_dir().join("listen").exists());
    let plain = Fake::start("", "").await;
    let refused = plain.world.run(&["console", "--phone"]).await;
    refused.must(1, &["tailscale serve", "http.public_url", "ssh -L"]);
    let served = Fake::start("[http]\npublic_url = \"https://bridge.example/b/\"\n", "").await;
    let phone = served.world.run(&["console", "--phone"]).await;
    phone.must(0, &["may read, approve."]);
    says(&phone, &["https://bridge.example/b/console/#login=cbt_"]);
}
