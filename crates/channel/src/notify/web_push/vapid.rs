//! Who sends a push message (RFC 8292): a token for one push service, signed with the key that browsers subscribed to.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bridge_core::value::PushKey;
use serde_json::json;
use std::fmt;

/// How long a token is good, in seconds; push services take up to a day.
const TOKEN_SECONDS: i64 = 12 * 3_600;

/// The key pair of this bridge.
pub struct VapidKey(EcdsaKeyPair);

impl fmt::Debug for VapidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VapidKey")
    }
}

/// Why there is no key, or nothing can be signed with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VapidError {
    #[error("the key of push services in the database can't be read")]
    Unreadable,
    #[error("the system gives no random numbers now, and push messages need them")]
    Crypto,
}

impl VapidKey {
    /// A new one, as it is kept.
    pub fn generate() -> Result<PushKey, VapidError> {
        let made =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let made = made.map_err(|_| VapidError::Crypto)?;
        Ok(PushKey(STANDARD.encode(made.as_ref())))
    }

    pub fn read(kept: &PushKey) -> Result<Self, VapidError> {
        let bytes = STANDARD.decode(&kept.0).ok();
        let pair = bytes.and_then(|bytes| {
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &bytes).ok()
        });
        pair.map(Self).ok_or(VapidError::Unreadable)
    }

    /// What browsers subscribe with: the uncompressed point in base64url.
    #[must_use]
    pub fn public(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0.public_key().as_ref())
    }

    /// The `Authorization` of a message to a push service.
    pub(super) fn authorization(
        &self,
        audience: &str,
        contact: &str,
        now_seconds: i64,
    ) -> Result<String, VapidError> {
        let until = now_seconds.saturating_add(TOKEN_SECONDS);
        let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = part(json!({"typ": "JWT", "alg": "ES256"}));
        let claims = part(json!({"aud": audience, "exp": until, "sub": contact}));
        let signed = format!("{head}.{claims}");
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.map_err(|_| VapidError::Crypto)?;
        let signature = URL_SAFE_NO_PAD.encode(signature.as_ref());
        Ok(format!("vapid t={signed}.{signature}, k={}", self.public()))
    }
}
