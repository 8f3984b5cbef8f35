//! The ledger's key: one secret outside of the ledger that encrypts the credentials in it and signs its audit record.
//!
//! Both keys are derived from the same 32 bytes with HKDF-SHA256 under labels of their own. Reading and making the file
//! is in `file`; what is encrypted and signed is `sqlite`'s business.

mod file;

pub use file::{Guard, KeyError};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use aws_lc_rs::{hkdf, rand};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Bytes of the secret.
pub const KEY_BYTES: usize = 32;

const SALT: &[u8] = b"codex-bridge ledger key 1";
const SEALING: &[u8] = b"credentials in the ledger";
const SIGNING: &[u8] = b"signature of the audit record";

/// Begins an encrypted value; the number is the version of its form.
const MARK: &str = "sealed:1:";

/// Begins a public key.
const PUBLIC_MARK: &str = "ed25519:";

/// Whether a key was made by this very start. Rows that it has not signed can only be from before it then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAge {
    /// It was made now.
    New,
    /// It was there.
    Existing,
}

/// The key of one ledger. Handles share it.
#[derive(Clone)]
pub struct LedgerKey(Arc<Derived>);

struct Derived {
    sealing: LessSafeKey,
    signing: Ed25519KeyPair,
    age: KeyAge,
}

/// Verifies what a [`LedgerKey`] signed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AuditPublicKey([u8; KEY_BYTES]);

/// A value could not be decrypted: another key, another row, or a changed byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl LedgerKey {
    /// The key that these bytes are the secret of.
    pub fn from_bytes(secret: &[u8; KEY_BYTES], age: KeyAge) -> Result<Self, KeyError> {
        derive(secret, age).map_err(|Unspecified| KeyError::Crypto)
    }

    /// Whether this start made it.
    #[must_use]
    pub fn age(&self) -> KeyAge {
        self.0.age
    }

    /// What anybody can verify its signatures with.
    #[must_use]
    pub fn public(&self) -> AuditPublicKey {
        let mut public = [0; KEY_BYTES];
        public.copy_from_slice(self.0.signing.public_key().as_ref());
        AuditPublicKey(public)
    }

    pub(crate) fn sign(&self, statement: &str) -> String {
        STANDARD.encode(self.0.signing.sign(statement.as_bytes()))
    }

    /// Encrypts a value for the one place that `place` names.
    pub(crate) fn seal(&self, place: &[u8], clear: &str) -> Result<String, Unspecified> {
        let bytes = self.seal_bytes(place, clear.as_bytes())?;
        Ok(format!("{MARK}{}", STANDARD.encode(bytes)))
    }

    /// The same for bytes: nonce, then what is encrypted.
    pub(crate) fn seal_bytes(&self, place: &[u8], clear: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce)?;
        let mut bytes = clear.to_vec();
        let nonce_used = Nonce::assume_unique_for_key(nonce);
        let sealing = &self.0.sealing;
        sealing.seal_in_place_append_tag(nonce_used, Aad::from(place), &mut bytes)?;
        bytes.splice(..0, nonce);
        Ok(bytes)
    }

    /// Decrypts a value of that place.
    pub(crate) fn open(&self, place: &[u8], stored: &str) -> Result<String, Unreadable> {
        let text = stored.strip_prefix(MARK).ok_or(Unreadable)?;
        let bytes = STANDARD.decode(text).map_err(|_| Unreadable)?;
        let clear = self.open_bytes(place, bytes)?;
        String::from_utf8(clear).map_err(|_| Unreadable)
    }

    /// The same for bytes.
    pub(crate) fn open_bytes(
        &self,
        place: &[u8],
        mut stored: Vec<u8>,
    ) -> Result<Vec<u8>, Unreadable> {
        let (nonce, sealed) = stored
            .split_first_chunk_mut::<NONCE_LEN>()
            .ok_or(Unreadable)?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self
            .0
            .sealing
            .open_in_place(nonce, Aad::from(place), sealed);
        let clear = opened.map_err(|Unspecified| Unreadable)?;
        Ok(clear.to_vec())
    }
}

fn derive(secret: &[u8; KEY_BYTES], age: KeyAge) -> Result<LedgerKey, Unspecified> {
    let root = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(secret);
    let part = |label: &[u8]| {
        let mut out = Zeroizing::new([0; KEY_BYTES]);
        let label = [label];
        root.expand(&label, hkdf::HKDF_SHA256)?
            .fill(out.as_mut_slice())?;
        Ok::<_, Unspecified>(out)
    };
    let sealing = UnboundKey::new(&AES_256_GCM, part(SEALING)?.as_slice())?;
    let signing = Ed25519KeyPair::from_seed_unchecked(part(SIGNING)?.as_slice());
    Ok(LedgerKey(Arc::new(Derived {
        sealing: LessSafeKey::new(sealing),
        signing: signing.map_err(|_| Unspecified)?,
        age,
    })))
}

impl fmt::Debug for LedgerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LedgerKey({})", self.public())
    }
}

impl AuditPublicKey {
    /// Whether the key signed this statement.
    #[must_use]
    pub fn verifies(&self, statement: &str, signature: &str) -> bool {
        let Ok(signature) = STANDARD.decode(signature) else {
            return false;
        };
        let key = UnparsedPublicKey::new(&ED25519, self.0);
        key.verify(statement.as_bytes(), &signature).is_ok()
    }
}

impl fmt::Display for AuditPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC_MARK}{}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for AuditPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for AuditPublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bytes = text
            .strip_prefix(PUBLIC_MARK)
            .and_then(|text| STANDARD.decode(text).ok());
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(KeyError::NotPublic)
    }
}

/// The key of tests.
#[cfg(test)]
pub(crate) fn for_tests() -> LedgerKey {
    LedgerKey::from_bytes(&[7; KEY_BYTES], KeyAge::New).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> LedgerKey {
        LedgerKey::from_bytes(&[byte; KEY_BYTES], KeyAge::New).unwrap()
    }

    #[test]
    fn f1_sealed_value_belongs_to_its_place() {
        let sealed = key(1).seal(b"here", "a token").unwrap();
        assert!(sealed.starts_with(MARK) && !sealed.contains("token"));
        assert_ne!(sealed, key(1).seal(b"here", "a token").unwrap());
        assert_eq!(key(1).open(b"here", &sealed).as_deref(), Ok("a token"));
        assert_eq!(key(1).open(b"there", &sealed), Err(Unreadable));
        assert_eq!(key(2).open(b"here", &sealed), Err(Unreadable));
        for broken in ["", "a token", MARK, "sealed:1:AAAA", "sealed:2:AAAA"] {
            assert_eq!(key(1).open(b"here", broken), Err(Unreadable), "{broken}");
        }
        let empty = key(1).seal(b"here", "").unwrap();
        assert_eq!(key(1).open(b"here", &empty).as_deref(), Ok(""));
    }

    #[test]
    fn f10_audit_signature_needs_the_key() {
        let signature = key(1).sign("statement");
        let public: AuditPublicKey = key(1).public().to_string().parse().unwrap();
        assert!(public.verifies("statement", &signature));
        assert!(!public.verifies("statement2", &signature));
        assert!(!public.verifies("statement", ""));
        assert!(!key(2).public().verifies("statement", &signature));
        assert!("ed25519:AAAA".parse::<AuditPublicKey>().is_err());
    }

    #[test]
    fn f1_debug_shows_the_public_key_only() {
        let shown = format!("{:?}", key(7));
        assert_eq!(shown, format!("LedgerKey({})", key(7).public()));
    }
}
