//! Fields of a 0.3 card within a 1.0 card. Clients of both versions read the same document and ignore unknown fields.

use serde_json::{Map, Value, json};

use super::{VERSION, fields, list};

/// The version in 0.3 cards, with its patch number.
const CARD_VERSION: &str = "0.3.0";

/// Adds the fields of 0.3, unless the card offers no interface of 0.3.
pub(crate) fn beside(card: &mut Value) {
    let Value::Object(card) = card else {
        return;
    };
    let offered: Vec<Value> = list(card, "supportedInterfaces")
        .iter()
        .filter(|one| is_legacy(one))
        .map(interface)
        .collect();
    let Some(first) = offered.first().map(fields) else {
        return;
    };
    let mut put = |name: &str, value: Value| {
        card.entry(name).or_insert(value);
    };
    put("protocolVersion", CARD_VERSION.into());
    for (from, to) in [("url", "url"), ("transport", "preferredTransport")] {
        put(to, first.get(from).cloned().unwrap_or_default());
    }
    put("additionalInterfaces", offered.into());
    // Without authentication there is no extended card.
    let extended = card.get("capabilities").map(fields).unwrap_or_default();
    let secured = card.contains_key("securitySchemes");
    if secured && extended.get("extendedAgentCard") == Some(&true.into()) {
        card.insert("supportsAuthenticatedExtendedCard".to_owned(), true.into());
    }
    secure(card);
}

fn is_legacy(interface: &Value) -> bool {
    let version = interface.get("protocolVersion").and_then(Value::as_str);
    version.is_some_and(|version| version == VERSION || version == CARD_VERSION)
}

fn interface(offered: &Value) -> Value {
    json!({"url": offered["url"], "transport": offered["protocolBinding"]})
}

/// 1.0 names the kind of a security scheme by its field, 0.3 by `type`.
fn secure(card: &mut Map<String, Value>) {
    if let Some(Value::Object(schemes)) = card.get_mut("securitySchemes") {
        for scheme in schemes.values_mut().filter_map(Value::as_object_mut) {
            if let Some(http) = scheme.get("httpAuthSecurityScheme").map(fields) {
                scheme.insert("type".to_owned(), "http".into());
                scheme.extend(http);
            }
        }
    }
    let demands: Vec<Value> = list(card, "securityRequirements")
        .iter()
        .map(|demand| {
            let schemes = demand.get("schemes").map(fields).unwrap_or_default();
            schemes
                .into_iter()
                .map(|(name, scopes)| (name, scopes.get("list").cloned().unwrap_or(json!([]))))
                .collect::<Map<_, _>>()
                .into()
        })
        .collect();
    if !demands.is_empty() {
        card.insert("security".to_owned(), demands.into());
    }
}
