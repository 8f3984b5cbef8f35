//! What an agent's card says about how to talk to it. It is read tolerantly, but nothing is guessed: an interface is
//! used only if the card names it with a binding and a version that we speak.

use super::dialect::{Dialect, Interface};
use super::error::AgentCallError;
use super::{HOPS, IDEMPOTENCY, QUESTIONS};
use crate::guard::AddressGuard;
use bridge_core::limits::clip;
use reqwest::Url;
use serde_json::Value;

/// Where a card is, below the address of an agent.
const WELL_KNOWN: &str = ".well-known/agent-card.json";
/// How much of an agent's own name is kept.
const NAME_MAX_CHARS: usize = 100;

/// What the card says, as far as it matters here.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Card {
    pub(super) name: String,
    pub(super) interface: Interface,
    pub(super) streaming: bool,
    /// The same key twice is the same message.
    pub(super) idempotent: bool,
}

/// Where the card may be, most likely place first.
pub(super) fn places(url: &Url) -> Vec<Url> {
    if url.path().ends_with(".json") {
        return vec![url.clone()];
    }
    let mut below = url.clone();
    below.set_query(None);
    let path = format!("{}/{WELL_KNOWN}", url.path().trim_end_matches('/'));
    below.set_path(&path);
    let mut root = below.clone();
    root.set_path(WELL_KNOWN);
    if root == below {
        vec![below]
    } else {
        vec![below, root]
    }
}

/// Reads a card that was found at `place`.
pub(super) fn read(
    card: &Value,
    place: &Url,
    guard: &AddressGuard,
) -> Result<Card, AgentCallError> {
    let capabilities = card.get("capabilities").unwrap_or(&Value::Null);
    let extensions = list(capabilities, "extensions");
    let uri = |extension: &'_ Value| text(extension, "uri").to_owned();
    let unknown = extensions.iter().find(|extension| {
        extension.get("required") == Some(&Value::Bool(true))
            && ![IDEMPOTENCY, QUESTIONS, HOPS].contains(&text(extension, "uri"))
    });
    if let Some(unknown) = unknown {
        let uri = clip(&uri(unknown), NAME_MAX_CHARS);
        return Err(AgentCallError::Card(format!(
            "its card requires the extension {uri}, which this bridge does not speak"
        )));
    }
    Ok(Card {
        name: clip(text(card, "name"), NAME_MAX_CHARS),
        interface: choose(card, place, guard)?,
        streaming: capabilities.get("streaming") == Some(&Value::Bool(true)),
        idempotent: extensions.iter().any(|known| uri(known) == IDEMPOTENCY),
    })
}

/// An interface as a card writes it.
struct Offer<'a> {
    url: &'a str,
    binding: &'a str,
    version: &'a str,
    tenant: Option<&'a str>,
}

impl Offer<'_> {
    fn dialect(&self) -> Option<Dialect> {
        let mut numbers = self.version.split('.');
        match (self.binding, numbers.next()?, numbers.next()?) {
            ("JSONRPC", "1", "0") => Some(Dialect::Rpc1),
            ("HTTP+JSON", "1", "0") => Some(Dialect::Rest1),
            ("JSONRPC", "0", "3") => Some(Dialect::Rpc03),
            _ => None,
        }
    }
}

fn offers(card: &Value) -> Vec<Offer<'_>> {
    let new = list(card, "supportedInterfaces").iter().map(|one| Offer {
        url: text(one, "url"),
        binding: text(one, "protocolBinding"),
        version: text(one, "protocolVersion"),
        tenant: one.get("tenant").and_then(Value::as_str),
    });
    let version = text(card, "protocolVersion");
    let preferred = match text(card, "preferredTransport") {
        // Version 0.3 says that this is the default.
        "" => "JSONRPC",
        named => named,
    };
    let main = [(text(card, "url"), preferred)];
    let more = list(card, "additionalInterfaces")
        .iter()
        .map(|one| (text(one, "url"), text(one, "transport")));
    let old = main.into_iter().chain(more).map(|(url, binding)| Offer {
        url,
        binding,
        version,
        tenant: None,
    });
    new.chain(old)
        .filter(|offer| !offer.url.is_empty())
        .collect()
}

/// The interface that we like best among those that the card names.
fn choose(card: &Value, place: &Url, guard: &AddressGuard) -> Result<Interface, AgentCallError> {
    let offers = offers(card);
    let best = offers
        .iter()
        .filter_map(|offer| Some((offer.dialect()?, offer)))
        .min_by_key(|(dialect, _)| *dialect);
    let Some((dialect, offer)) = best else {
        let named: Vec<String> = offers
            .iter()
            .map(|offer| format!("{} {}", offer.binding, offer.version))
            .collect();
        return Err(AgentCallError::Card(format!(
            "its card names no interface that this bridge speaks (JSONRPC 1.0, HTTP+JSON 1.0, JSONRPC 0.3), but: {}",
            clip(&named.join(", "), NAME_MAX_CHARS)
        )));
    };
    let url = guard.check(offer.url)?;
    if url.origin() != place.origin() && !guard.exempts(&url) {
        return Err(AgentCallError::Card(format!(
            "its card at {} points to {}, which is another origin; list that in allow_origins if it is meant",
            place.origin().ascii_serialization(),
            url.origin().ascii_serialization()
        )));
    }
    Ok(Interface {
        dialect,
        url,
        tenant: offer.tenant.filter(|t| !t.is_empty()).map(str::to_owned),
    })
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    let list = value.get(key).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn place() -> Url {
        Url::parse("https://a.example/.well-known/agent-card.json").unwrap()
    }

    fn chosen(card: &Value) -> Result<Interface, AgentCallError> {
        read(card, &place(), &AddressGuard::new(Vec::new())).map(|card| card.interface)
    }

    fn new(url: &str, binding: &str, version: &str) -> Value {
        json!({"url": url, "protocolBinding": binding, "protocolVersion": version})
    }

    #[test]
    fn card_lookup_tries_path_then_root() {
        let at = |url: &str| -> Vec<String> {
            let found = places(&Url::parse(url).unwrap());
            found.iter().map(ToString::to_string).collect()
        };
        let root = "https://a.example/.well-known/agent-card.json";
        assert_eq!(at("https://a.example"), [root]);
        let below = "https://a.example/x/.well-known/agent-card.json";
        assert_eq!(at("https://a.example/x/"), [below, root]);
        assert_eq!(at("https://a.example/c.json"), ["https://a.example/c.json"]);
    }

    #[test]
    fn picks_best_supported_card_interface() {
        let both = json!({"name": "a", "supportedInterfaces": [
            new("https://a.example/g", "GRPC", "1.0"),
            new("https://a.example/r", "HTTP+JSON", "1.0"),
            new("https://a.example/j", "JSONRPC", "1.0"),
        ]});
        let interface = chosen(&both).unwrap();
        assert_eq!(interface.dialect, Dialect::Rpc1);
        assert_eq!(interface.url.path(), "/j");
        let old = json!({"name": "a", "url": "https://a.example/o", "protocolVersion": "0.3.0"});
        assert_eq!(chosen(&old).unwrap().dialect, Dialect::Rpc03);
        for unspoken in [
            json!({"name": "a", "supportedInterfaces": [new("https://a.example/g", "GRPC", "1.0")]}),
            json!({"name": "a", "supportedInterfaces": [new("https://a.example/g", "JSONRPC", "2.0")]}),
            json!({"name": "a", "url": "https://a.example/", "protocolVersion": "0.2.6"}),
            json!({"name": "a", "url": "https://a.example/"}),
            json!([1]),
        ] {
            assert!(
                matches!(chosen(&unspoken), Err(AgentCallError::Card(_))),
                "{unspoken}"
            );
        }
    }

    #[test]
    fn threat_17_rejects_cards_naming_other_origins() {
        let card = |url: &str| json!({"supportedInterfaces": [new(url, "JSONRPC", "1.0")]});
        for elsewhere in ["https://b.example/", "https://a.example:8443/"] {
            let refused = chosen(&card(elsewhere)).unwrap_err();
            assert!(refused.to_string().contains("another origin"), "{refused}");
        }
        for inside in [
            "http://a.example/",
            "https://169.254.169.254/",
            "http://127.0.0.1/",
        ] {
            assert!(
                matches!(chosen(&card(inside)), Err(AgentCallError::Address(_))),
                "{inside}"
            );
        }
        let listed = AddressGuard::new(vec![Url::parse("https://b.example").unwrap()]);
        assert!(read(&card("https://b.example/"), &place(), &listed).is_ok());
    }

    #[test]
    fn unknown_required_extension_is_rejected() {
        let card = |uri: &str, required: bool| {
            json!({"supportedInterfaces": [new("https://a.example/", "JSONRPC", "1.0")],
                   "capabilities": {"streaming": true, "extensions": [{"uri": uri, "required": required}]}})
        };
        let guard = AddressGuard::new(Vec::new());
        let ours = read(&card(IDEMPOTENCY, true), &place(), &guard).unwrap();
        assert!(ours.idempotent && ours.streaming);
        assert!(
            !read(&card("x:y", false), &place(), &guard)
                .unwrap()
                .idempotent
        );
        assert!(read(&card("x:y", true), &place(), &guard).is_err());
    }
}
