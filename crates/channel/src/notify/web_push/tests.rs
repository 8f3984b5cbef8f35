//! The example of RFC 8291, and a browser that opens what it gets and checks who sent it.

use super::*;
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::Value;

fn bytes(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}

/// RFC 8291, appendix A.
#[test]
fn encrypts_like_rfc_8291() {
    let keys = BrowserKeys::read(
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        "BTBZMqHH6r4Tts7J_aSIgg",
    )
    .unwrap();
    let own = bytes("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw");
    let own = PrivateKey::from_private_key(&ECDH_P256, &own).unwrap();
    let salt = bytes("DGv6ra1nlYgDCS1FRnbzlw").try_into().unwrap();
    let text = b"When I grow up, I want to be a watermelon";
    let body = keys.encrypt_with(text, &own, salt).unwrap();
    assert_eq!(
        URL_SAFE_NO_PAD.encode(body),
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    );
}

#[test]
fn vapid_token_is_verifiable() {
    let kept = VapidKey::generate().unwrap();
    let key = VapidKey::read(&kept).unwrap();
    assert_eq!(VapidKey::read(&kept).unwrap().public(), key.public());
    let said = key.authorization("https://push.example", "https://b.example", 1_000);
    let said = said.unwrap();
    let (token, public) = said
        .strip_prefix("vapid t=")
        .and_then(|said| said.split_once(", k="))
        .unwrap();
    assert_eq!(public, key.public());
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, bytes(public));
    public.verify(signed.as_bytes(), &bytes(signature)).unwrap();
    let (_, claims) = signed.split_once('.').unwrap();
    let claims: Value = serde_json::from_slice(&bytes(claims)).unwrap();
    let expected = serde_json::json!({"aud": "https://push.example", "sub": "https://b.example", "exp": 44_200});
    assert_eq!(claims, expected);
    assert!(VapidKey::read(&bridge_core::value::PushKey("x".to_owned())).is_err());
    assert_eq!(format!("{key:?} {kept:?}"), "VapidKey PushKey");
}

#[test]
fn threat_17_bad_browser_keys_are_refused() {
    let public =
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    let auth = "BTBZMqHH6r4Tts7J_aSIgg";
    assert!(BrowserKeys::read(public, auth).is_ok());
    assert!(BrowserKeys::read(&format!("{public}="), &format!("{auth}==")).is_ok());
    let mut off_curve = bytes(public);
    off_curve[64] ^= 1;
    let off_curve = URL_SAFE_NO_PAD.encode(off_curve);
    for bad in ["", "BCVx", &off_curve, &public.replace('B', "C"), "\u{0}"] {
        assert_eq!(BrowserKeys::read(bad, auth).err(), Some(KeyError::Public));
    }
    for bad in ["", "BTBZ", "*", public] {
        assert_eq!(BrowserKeys::read(public, bad).err(), Some(KeyError::Auth));
    }
    let keys = BrowserKeys::read(public, auth).unwrap();
    assert!(keys.encrypt(&[0; TEXT_MAX_BYTES]).unwrap().len() <= 4_096);
    let long = keys.encrypt(&[0; TEXT_MAX_BYTES + 1]);
    assert_eq!(long.err(), Some(KeyError::TooLong));
}

#[test]
fn topics_hide_names_and_fit() {
    let (one, other) = (topic("question/1"), topic("question/2"));
    assert_ne!(one, other);
    assert_eq!((one.len(), topic("question/1")), (TOPIC_CHARS, one));
}
