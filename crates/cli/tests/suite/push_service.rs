//! A browser and its push service: what comes in is opened with the browser's own keys, by RFC 8291 and 8292 as they are
//! written, with nothing of the daemon's.

use crate::notifications::{Call, called_raw};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hmac;
use aws_lc_rs::signature;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::net::TcpListener;

const AUTH: [u8; 16] = *b"sixteen bytes of";

pub(crate) struct PushService {
    listener: TcpListener,
    key: PrivateKey,
}

/// What the daemon sent.
pub(crate) struct Pushed {
    pub(crate) call: Call,
    pub(crate) payload: Value,
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    parts.iter().for_each(|part| context.update(part));
    context.sign().as_ref().to_vec()
}

impl PushService {
    pub(crate) async fn open() -> Self {
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            key: PrivateKey::generate(&ECDH_P256).unwrap(),
        }
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }

    fn public(&self) -> Vec<u8> {
        self.key.compute_public_key().unwrap().as_ref().to_vec()
    }

    /// What the browser tells the page.
    pub(crate) fn subscription(&self, about: &[&str], detail: &str) -> Value {
        json!({
            "endpoint": format!("{}/send/browser-1", self.origin()),
            "p256dh": URL_SAFE_NO_PAD.encode(self.public()),
            "auth": URL_SAFE_NO_PAD.encode(AUTH),
            "about": about,
            "detail": detail,
        })
    }

    /// The next message, opened; its sender must be who this key says.
    pub(crate) async fn next(&self, vapid: &str) -> Pushed {
        let (call, body) = called_raw(&self.listener).await;
        self.check_sender(&call, vapid);
        let payload = serde_json::from_slice(&self.open_body(&body)).unwrap();
        Pushed { call, payload }
    }

    pub(crate) fn nothing_came(&self) -> bool {
        futures_util::FutureExt::now_or_never(self.listener.accept()).is_none()
    }

    fn check_sender(&self, call: &Call, vapid: &str) {
        let said = call.header("authorization").strip_prefix("vapid t=");
        let (token, key) = said.unwrap().split_once(", k=").unwrap();
        assert_eq!(key, vapid, "browsers subscribed with another key");
        let (signed, signed_by) = token.rsplit_once('.').unwrap();
        let key = URL_SAFE_NO_PAD.decode(key).unwrap();
        let key = signature::UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, key);
        let signed_by = URL_SAFE_NO_PAD.decode(signed_by).unwrap();
        key.verify(signed.as_bytes(), &signed_by).unwrap();
        let claims = signed.split_once('.').unwrap().1;
        let claims = URL_SAFE_NO_PAD.decode(claims).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!(claims["aud"], self.origin(), "{claims}");
        assert!(claims["sub"].as_str().unwrap().contains(':'), "{claims}");
        assert!(claims["exp"].is_u64(), "{claims}");
    }

    fn open_body(&self, body: &[u8]) -> Vec<u8> {
        let (salt, rest) = body.split_at(16);
        let (length, theirs) = (usize::from(rest[4]), &rest[5..]);
        let (theirs, sealed) = theirs.split_at(length);
        let point = UnparsedPublicKey::new(&ECDH_P256, theirs);
        let secret = agree(&self.key, point, Unspecified, |secret| Ok(secret.to_vec())).unwrap();
        let shared = mac(&AUTH, &[&secret]);
        let own = self.public();
        let material = mac(&shared, &[b"WebPush: info\0", &own, theirs, &[1]]);
        let keys = mac(salt, &[&material]);
        let key = mac(&keys, &[b"Content-Encoding: aes128gcm\0", &[1]]);
        let nonce = mac(&keys, &[b"Content-Encoding: nonce\0", &[1]]);
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key[..16]).unwrap());
        let nonce = Nonce::try_assume_unique_for_key(&nonce[..12]).unwrap();
        let mut text = sealed.to_vec();
        let opened = key.open_in_place(nonce, Aad::empty(), &mut text).unwrap();
        let (last, text) = opened.split_last().unwrap();
        assert_eq!(*last, 2, "the last record ends so");
        text.to_vec()
    }
}
