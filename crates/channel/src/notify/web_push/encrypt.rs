//! Message encryption for Web Push (RFC 8291): what a browser's keys open and its push service can't read.

use super::TEXT_MAX_BYTES;
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand;
use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Bytes of an uncompressed point of P-256.
const POINT_BYTES: usize = 65;
/// What such a point begins with.
const UNCOMPRESSED: u8 = 4;
const AUTH_BYTES: usize = 16;
const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
const SECRET_BYTES: usize = 32;
/// The record size: there is one record, and it is shorter.
const RECORD_BYTES: u32 = 4_096;
/// Ends the last record.
const LAST: u8 = 2;

/// Browsers write base64url without padding, and other programs with it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a browser gave to encrypt for it.
#[derive(Clone)]
pub struct BrowserKeys {
    public: [u8; POINT_BYTES],
    auth: [u8; AUTH_BYTES],
}

impl std::fmt::Debug for BrowserKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BrowserKeys")
    }
}

/// Why nothing can be encrypted for a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("`p256dh` is no public key of P-256 in base64url")]
    Public,
    #[error("`auth` is not 16 bytes in base64url")]
    Auth,
    #[error("the message is longer than {TEXT_MAX_BYTES} bytes")]
    TooLong,
    /// The system gives no random numbers.
    #[error("the message could not be encrypted")]
    Crypto,
}

impl From<Unspecified> for KeyError {
    fn from(Unspecified: Unspecified) -> Self {
        Self::Crypto
    }
}

/// A length that a key of HKDF shall have.
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand<const N: usize>(from: &Prk, info: &[&[u8]]) -> Result<[u8; N], Unspecified> {
    let mut bytes = [0; N];
    from.expand(info, Bytes(N))?.fill(&mut bytes)?;
    Ok(bytes)
}

impl BrowserKeys {
    /// Reads `p256dh` and `auth` of a push subscription.
    pub fn read(p256dh: &str, auth: &str) -> Result<Self, KeyError> {
        let public = BASE64.decode(p256dh).ok();
        let public: Option<[u8; POINT_BYTES]> = public.and_then(|bytes| bytes.try_into().ok());
        let public = public.filter(|point| point[0] == UNCOMPRESSED);
        let auth = BASE64.decode(auth).ok();
        let keys = Self {
            public: public.ok_or(KeyError::Public)?,
            auth: auth
                .and_then(|bytes| bytes.try_into().ok())
                .ok_or(KeyError::Auth)?,
        };
        // A point that is not on the curve is found by using it.
        let probe = PrivateKey::generate(&ECDH_P256)?;
        keys.secret(&probe).map_err(|_| KeyError::Public)?;
        Ok(keys)
    }

    fn secret(&self, own: &PrivateKey) -> Result<[u8; SECRET_BYTES], Unspecified> {
        let theirs = UnparsedPublicKey::new(&ECDH_P256, self.public);
        let mut secret = [0; SECRET_BYTES];
        agree(own, theirs, Unspecified, |shared| {
            if shared.len() != SECRET_BYTES {
                return Err(Unspecified);
            }
            secret.copy_from_slice(shared);
            Ok(())
        })?;
        Ok(secret)
    }

    /// The body of a request that only the browser can read. Keys and salt are new for every message.
    pub(super) fn encrypt(&self, text: &[u8]) -> Result<Vec<u8>, KeyError> {
        let own = PrivateKey::generate(&ECDH_P256)?;
        let mut salt = [0; SALT_BYTES];
        rand::fill(&mut salt)?;
        self.encrypt_with(text, &own, salt)
    }

    pub(super) fn encrypt_with(
        &self,
        text: &[u8],
        own: &PrivateKey,
        salt: [u8; SALT_BYTES],
    ) -> Result<Vec<u8>, KeyError> {
        if text.len() > TEXT_MAX_BYTES {
            return Err(KeyError::TooLong);
        }
        let public = own.compute_public_key()?;
        let shared = Salt::new(HKDF_SHA256, &self.auth).extract(&self.secret(own)?);
        let info: [&[u8]; 3] = [b"WebPush: info\0", &self.public, public.as_ref()];
        let material: [u8; SECRET_BYTES] = expand(&shared, &info)?;
        let keys = Salt::new(HKDF_SHA256, &salt).extract(&material);
        let key: [u8; KEY_BYTES] = expand(&keys, &[b"Content-Encoding: aes128gcm\0"])?;
        let nonce: [u8; NONCE_BYTES] = expand(&keys, &[b"Content-Encoding: nonce\0"])?;
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key)?);
        let mut record = Vec::with_capacity(text.len() + 1 + AES_128_GCM.tag_len());
        record.extend_from_slice(text);
        record.push(LAST);
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce, Aad::empty(), &mut record)?;
        let id_length = u8::try_from(public.as_ref().len()).map_err(|_| KeyError::Crypto)?;
        let mut body = Vec::new();
        body.extend_from_slice(&salt);
        body.extend_from_slice(&RECORD_BYTES.to_be_bytes());
        body.push(id_length);
        body.extend_from_slice(public.as_ref());
        body.append(&mut record);
        Ok(body)
    }
}
