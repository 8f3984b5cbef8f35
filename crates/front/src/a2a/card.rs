//! The agent card, one document for clients of 1.0 and 0.3.

use super::call::ProtocolVersion;
use super::{extension, legacy};
use crate::{A2aAuth, A2aProfile, A2aSkill, Caller, lock};
use a2a::{
    AgentCapabilities, AgentCard, AgentInterface, AgentSkill, HttpAuthSecurityScheme,
    SecurityScheme,
};
use bridge_core::value::Timestamp;
use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::Mutex;

/// `max-age` of the card.
pub(crate) const MAX_AGE_SECONDS: u32 = 60;
/// Base URLs whose card's age is remembered.
const REMEMBERED_MAX: usize = 16;

const SCHEME: &str = "token";
const GUIDE: &str = "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md";
const TEXT: &str = "text/plain";
const JSON: &str = "application/json";
const ANYTHING: &str = "*/*";

/// The public card. Clients that name 1.0 get a card of 1.0; all others get one that clients of 0.3 can read as well
/// (specification 3.6.2).
pub(crate) fn public(profile: &A2aProfile, base: &str, version: ProtocolVersion) -> Value {
    let mut card = document(card(profile, base));
    match version {
        ProtocolVersion::V1 => {}
        ProtocolVersion::V03 => legacy::beside(&mut card),
    }
    card
}

/// The extended card, which names the caller.
pub(crate) fn extended(profile: &A2aProfile, base: &str, caller: &Caller) -> Value {
    let mut card = card(profile, base);
    card.description = format!(
        "{} You are known here as {}.",
        card.description, caller.name
    );
    document(card)
}

fn document(card: AgentCard) -> Value {
    serde_json::to_value(card).unwrap_or_default()
}

fn card(profile: &A2aProfile, base: &str) -> AgentCard {
    let secured = profile.auth == A2aAuth::Tokens;
    let url = format!("{base}/a2a");
    let version = |binding: &str, version: &str| AgentInterface {
        protocol_version: version.to_owned(),
        ..AgentInterface::new(url.as_str(), binding)
    };
    AgentCard {
        name: profile.name.clone(),
        description: profile.description.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        supported_interfaces: vec![
            version(a2a::TRANSPORT_PROTOCOL_JSONRPC, a2a::VERSION),
            version(a2a::TRANSPORT_PROTOCOL_HTTP_JSON, a2a::VERSION),
            version(a2a::TRANSPORT_PROTOCOL_JSONRPC, legacy::VERSION),
        ],
        capabilities: AgentCapabilities {
            streaming: Some(true),
            push_notifications: Some(true),
            extensions: Some(extension::declared()),
            extended_agent_card: Some(true),
        },
        default_input_modes: [TEXT, JSON, ANYTHING].map(str::to_owned).into(),
        default_output_modes: [TEXT, JSON, ANYTHING].map(str::to_owned).into(),
        skills: profile.skills.iter().map(skill).collect(),
        provider: None,
        documentation_url: Some(GUIDE.to_owned()),
        icon_url: None,
        security_schemes: secured.then(|| HashMap::from([(SCHEME.to_owned(), bearer())])),
        security_requirements: secured
            .then(|| vec![HashMap::from([(SCHEME.to_owned(), Vec::new())])]),
        signatures: None,
    }
}

fn bearer() -> SecurityScheme {
    SecurityScheme::HttpAuth(HttpAuthSecurityScheme {
        scheme: "Bearer".to_owned(),
        description: Some(
            "The owner of this agent gives it: codex-bridge peers add NAME".to_owned(),
        ),
        bearer_format: None,
    })
}

fn skill(skill: &A2aSkill) -> AgentSkill {
    AgentSkill {
        id: skill.id.clone(),
        name: skill.name.clone(),
        description: skill.description.clone(),
        tags: skill.tags.clone(),
        examples: (!skill.examples.is_empty()).then(|| skill.examples.clone()),
        input_modes: None,
        output_modes: None,
        security_requirements: None,
    }
}

/// ETag of the content.
pub(crate) fn etag(content: &str) -> String {
    let hash = Sha256::digest(content);
    format!("\"{}\"", HEXLOWER.encode(&hash[..16]))
}

/// Last change of each card, which follows the configuration.
#[derive(Debug, Default)]
pub(crate) struct Ages(Mutex<HashMap<String, (String, Timestamp)>>);

impl Ages {
    /// When the card at `base` got this tag.
    pub(crate) fn since(&self, base: &str, etag: &str, now: Timestamp) -> Timestamp {
        let mut known = lock(&self.0);
        if known.len() >= REMEMBERED_MAX && !known.contains_key(base) {
            known.clear();
        }
        let entry = known
            .entry(base.to_owned())
            .or_insert_with(|| (etag.to_owned(), now));
        if entry.0 != etag {
            *entry = (etag.to_owned(), now);
        }
        entry.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn card_serves_both_protocol_versions() {
        let card = public(&A2aProfile::default(), "http://h", ProtocolVersion::V03);
        let read: AgentCard = serde_json::from_value(card.clone()).unwrap();
        assert_eq!(read.supported_interfaces.len(), 3);
        assert_eq!(read.supported_interfaces[1].protocol_binding, "HTTP+JSON");
        assert_eq!(card["url"], "http://h/a2a");
        assert_eq!(card["preferredTransport"], "JSONRPC");
        assert_eq!(
            card["securityRequirements"][0]["schemes"]["token"]["list"],
            serde_json::json!([])
        );
    }

    #[test]
    fn without_tokens_the_card_asks_for_none() {
        let profile = A2aProfile {
            auth: A2aAuth::None,
            ..A2aProfile::default()
        };
        let card = public(&profile, "http://h", ProtocolVersion::V1);
        assert!(card.get("securitySchemes").is_none());
        assert!(card.get("securityRequirements").is_none());
        assert!(card.get("url").is_none(), "who speaks 1.0 is not shown 0.3");
    }

    #[test]
    fn card_age_tracks_content() {
        let ages = Ages::default();
        assert_eq!(ages.since("b", "x", Timestamp(1)), Timestamp(1));
        assert_eq!(ages.since("b", "x", Timestamp(2)), Timestamp(1));
        assert_eq!(ages.since("b", "y", Timestamp(3)), Timestamp(3));
        for n in 0..REMEMBERED_MAX * 3 {
            ages.since(&n.to_string(), "x", Timestamp(4));
        }
        assert!(ages.0.lock().unwrap().len() <= REMEMBERED_MAX);
    }
}
