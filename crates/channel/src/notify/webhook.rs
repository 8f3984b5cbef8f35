//! Webhooks as Standard Webhooks says: one signed call to an address that a caller named.
//!
//! A delivery is signed over id, time and body by every secret in force, so that a secret can be replaced while both are
//! known. The file of secrets is read here, and the secrets are never printed.

use crate::guard::AddressGuard;
use crate::guarded_post::{GuardedPost, PostPayload};
use crate::poll::now;
use crate::secret::{Secret, SecretFile};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bridge_core::value::{Class, Failure};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use std::path::{Path, PathBuf};

/// Calls webhooks.
#[derive(Clone, Debug)]
pub struct Webhook {
    post: GuardedPost,
    secret_file: Option<PathBuf>,
}

impl Webhook {
    /// Webhooks behind a guard, signed with what the file holds.
    #[must_use]
    pub fn new(guard: AddressGuard, secret_file: Option<PathBuf>) -> Self {
        Self {
            post: GuardedPost::new(guard, "the webhook"),
            secret_file,
        }
    }

    /// Why an address can't be a target; asked when it is named, and again at every call.
    pub fn check(&self, url: &str) -> Result<(), String> {
        self.post.check(url)?;
        self.signer().map(drop).map_err(|failure| failure.reason)
    }

    /// The secrets in force: no text may carry them.
    #[must_use]
    pub fn secrets(&self) -> Vec<Secret> {
        let signer = self.secret_file.as_deref().map(Signer::open);
        signer
            .and_then(Result::ok)
            .map_or_else(Vec::new, |signer| signer.secrets())
    }

    /// Calls an address once.
    pub async fn deliver(&self, url: &str, delivery: PostPayload<'_>) -> Result<(), Failure> {
        // A refused address goes before a missing secret: it stays refused.
        self.post
            .check(url)
            .map_err(|reason| Failure::new(Class::Permanent, reason))?;
        let seconds = now().0.div_euclid(1_000);
        let signature = self
            .signer()?
            .sign(delivery.id, seconds, delivery.body.as_bytes());
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in [
            ("webhook-id", delivery.id),
            ("webhook-timestamp", seconds.to_string().as_str()),
            ("webhook-signature", signature.as_str()),
        ] {
            let value = HeaderValue::from_str(value).map_err(|error| {
                Failure::new(Class::Bug, format!("{name} is no header: {error}"))
            })?;
            headers.insert(HeaderName::from_static(name), value);
        }
        self.post.post(url, headers, delivery.body.to_owned()).await
    }

    fn signer(&self) -> Result<Signer, Failure> {
        let path = self.secret_file.as_deref().ok_or_else(|| {
            let reason = "webhooks are signed, and there is no secret: name a file of mode 0600 with a line `whsec_…` in notify.webhook_secret_file";
            Failure::new(Class::Config, reason)
        })?;
        Signer::open(path)
            .map_err(|error: SecretError| Failure::new(Class::Config, error.to_string()))
    }
}

/// What begins a secret.
const PREFIX: &str = "whsec_";
/// Secrets that are in force at the same time.
const SECRETS_MAX: usize = 8;
/// The shortest secret that is worth its name, in bytes.
const KEY_MIN_BYTES: usize = 24;
/// The longest file of secrets.
const FILE_MAX_BYTES: u64 = 4_096;

/// Why there is nothing to sign with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The file can't be read.
    #[error("the file of webhook secrets {path} can't be read ({why})")]
    Unreadable {
        path: String,
        /// Why not.
        why: String,
    },
    /// Others may read it.
    #[error("the file of webhook secrets {path} can be read by others: chmod 600 {path}")]
    Open { path: String },
    /// What is there is no secret.
    #[error(
        "the file of webhook secrets {path} holds no usable secret ({why}): one a line, `whsec_` and at least {KEY_MIN_BYTES} bytes in base64, at most {SECRETS_MAX}"
    )]
    Unfit {
        path: String,
        /// What is wrong, without showing it.
        why: &'static str,
    },
}

/// The secrets in force. Not printable.
pub struct Signer(Vec<Signing>);

struct Signing {
    text: String,
    key: hmac::Key,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Signer({} secrets)", self.0.len())
    }
}

impl Signer {
    /// Reads the file; it is read for every delivery, so that a new secret needs no restart.
    pub fn open(path: &Path) -> Result<Self, SecretError> {
        let shown = path.display().to_string();
        let unreadable = |error: std::io::Error| SecretError::Unreadable {
            path: shown.clone(),
            why: error.to_string(),
        };
        let file = SecretFile::read(path, FILE_MAX_BYTES).map_err(unreadable)?;
        if !file.is_private {
            return Err(SecretError::Open { path: shown });
        }
        Self::read(&file.text).map_err(|why| SecretError::Unfit { path: shown, why })
    }

    fn read(text: &str) -> Result<Self, &'static str> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let secrets = lines.map(Signing::read).collect::<Result<Vec<_>, _>>()?;
        match secrets.len() {
            0 => Err("it is empty"),
            1..=SECRETS_MAX => Ok(Self(secrets)),
            _ => Err("it holds too many"),
        }
    }

    /// The values that no text may carry to people.
    #[must_use]
    pub fn secrets(&self) -> Vec<Secret> {
        let texts = self.0.iter().map(|signing| Secret::new(&*signing.text));
        texts.collect()
    }

    /// What the header `webhook-signature` says.
    #[must_use]
    pub fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let signatures = self.0.iter().map(|signing| {
            let mut context = hmac::Context::with_key(&signing.key);
            context.update(format!("{id}.{seconds}.").as_bytes());
            context.update(body);
            format!("v1,{}", STANDARD.encode(context.sign()))
        });
        signatures.collect::<Vec<_>>().join(" ")
    }
}

impl Signing {
    fn read(line: &str) -> Result<Self, &'static str> {
        let coded = line
            .strip_prefix(PREFIX)
            .ok_or("a line does not begin with `whsec_`")?;
        let bytes = STANDARD.decode(coded).map_err(|_| "a line is no base64")?;
        if bytes.len() < KEY_MIN_BYTES {
            return Err("one is too short");
        }
        Ok(Self {
            text: line.to_owned(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &bytes),
        })
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod signature_tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn signs_like_standard_webhooks_example() {
        let signer = Signer::read(SECRET).unwrap();
        let signed = signer.sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn signs_with_each_valid_secret() {
        let other = format!("{PREFIX}{}", STANDARD.encode([7; 32]));
        let signer = Signer::read(&format!("{SECRET}\n\n{other}\n")).unwrap();
        let signed = signer.sign("id", 1, b"body");
        assert_eq!(signed.split(' ').count(), 2);
        assert_eq!(format!("{signer:?}"), "Signer(2 secrets)");
        for bad in ["", "secret", "whsec_", "whsec_***", "whsec_c2hvcnQ="] {
            assert!(Signer::read(bad).is_err(), "{bad}");
        }
        assert!(Signer::read(&format!("{SECRET}\n").repeat(9)).is_err());
    }

    #[test]
    fn secret_file_must_be_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secrets");
        std::fs::write(&path, SECRET).unwrap();
        for (mode, fine) in [(0o600, true), (0o640, false), (0o604, false), (0o400, true)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(Signer::open(&path).is_ok(), fine, "{mode:o}");
        }
        let missing = Signer::open(Path::new("/nonexistent/secrets"));
        assert!(matches!(missing, Err(SecretError::Unreadable { .. })));
    }
}
