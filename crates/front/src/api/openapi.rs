//! Builds the OpenAPI 3.1 document from the route table and the schemas of the JSON types.

use super::route::{Access, Good, Route, Verb};
use super::{Context, table};
use crate::control::Scope;
use crate::{BridgeService, Problem};
use axum::Json;
use axum::extract::State;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

const TOKEN: &str = "token";
const REFUSALS: [(&str, &str, &str); 3] = [
    ("401", "Unauthorized", "No token, or one that is not valid"),
    (
        "403",
        "Forbidden",
        "The token was not made for this, or Host or Origin is foreign",
    ),
    ("429", "TooMany", "Too much at once; Retry-After says when"),
];

pub(super) async fn show<D: BridgeService>(State(_): State<Context<D>>) -> Json<Value> {
    Json(document(&table::routes::<D>()))
}

/// The whole document.
pub(super) fn document<D>(routes: &[Route<D>]) -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let problem = generator.subschema_for::<Problem>();
    let mut paths = Map::new();
    for route in routes {
        let path = paths.entry(path(route.path)).or_insert_with(|| json!({}));
        for (method, operation) in operations(route, &mut generator) {
            if let Some(path) = path.as_object_mut() {
                path.insert(method.to_owned(), operation);
            }
        }
    }
    let content = json!({"application/problem+json": {"schema": problem}});
    let responses: Map<String, Value> = REFUSALS
        .iter()
        .map(|(_, name, what)| {
            (
                (*name).to_owned(),
                json!({"description": what, "content": content}),
            )
        })
        .chain([(
            "Problem".to_owned(),
            json!({"description": "What went wrong, and what to do", "content": content}),
        )])
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "codex-bridge",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A daemon between people and agents and the OpenAI Codex CLI. On api.sock no token is needed.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "responses": responses,
            "securitySchemes": {TOKEN: {
                "type": "http",
                "scheme": "bearer",
                "description": "`codex-bridge token add` makes tokens, with the scopes that they need; `--owner` makes one for everything.",
            }},
        },
    })
}

fn operations<D>(route: &Route<D>, generator: &mut SchemaGenerator) -> Vec<(&'static str, Value)> {
    let methods: &[&str] = match route.verb {
        Verb::Get => &["get"],
        Verb::Post => &["post"],
        Verb::Delete => &["delete"],
        Verb::Any => &["get", "post", "delete"],
    };
    methods
        .iter()
        .map(|method| (*method, operation(route, method, generator)))
        .collect()
}

fn operation<D>(route: &Route<D>, method: &str, generator: &mut SchemaGenerator) -> Value {
    let content = match route.good {
        Good::Json(schema) => json!({"application/json": {"schema": schema(generator)}}),
        Good::Media(media) => json!({media: {}}),
    };
    let mut responses: Map<String, Value> = route
        .statuses
        .iter()
        .map(|status| {
            (
                status.to_string(),
                json!({"description": "Done", "content": content}),
            )
        })
        .collect();
    let refused = |name: &str| json!({"$ref": format!("#/components/responses/{name}")});
    let mut operation = Map::new();
    operation.insert("operationId".to_owned(), name(route.path, method).into());
    operation.insert("summary".to_owned(), route.summary.into());
    match route.access {
        Access::Public => {
            operation.insert("security".to_owned(), json!([]));
        }
        Access::Platform => {
            operation.insert("security".to_owned(), json!([{TOKEN: []}]));
        }
        Access::Scope(_) | Access::Decide | Access::Known | Access::Local => {
            for (status, name, _) in REFUSALS {
                responses.insert(status.to_owned(), refused(name));
            }
            let (security, scope) = scopes(route.access);
            operation.insert("security".to_owned(), security);
            operation.insert("x-scope".to_owned(), scope.into());
        }
    }
    responses.insert("default".to_owned(), refused("Problem"));
    operation.insert("responses".to_owned(), responses.into());
    let parameters = parameters(route, generator);
    if !parameters.is_empty() {
        operation.insert("parameters".to_owned(), parameters.into());
    }
    if let Some(body) = route.body {
        let content = json!({"application/json": {"schema": body(generator)}});
        let body = json!({"required": true, "content": content});
        operation.insert("requestBody".to_owned(), body);
    }
    operation.into()
}

/// A path as the document has it: a placeholder for several segments is one there.
pub(super) fn path(of_route: &str) -> String {
    of_route.replace("{*", "{")
}

/// What a caller needs, as security requirements and in one word. A session of the console counts as a token.
fn scopes(access: Access) -> (Value, &'static str) {
    let one = |scope: Scope| json!({TOKEN: [scope.as_str()]});
    match access {
        Access::Scope(scope) => (json!([one(scope)]), scope.as_str()),
        Access::Decide => (
            json!([one(Scope::Control), one(Scope::Approve)]),
            "control approve",
        ),
        Access::Local => (json!([{TOKEN: ["local"]}]), "local"),
        Access::Known | Access::Public | Access::Platform => (json!([{TOKEN: []}]), "any"),
    }
}

fn parameters<D>(route: &Route<D>, generator: &mut SchemaGenerator) -> Vec<Value> {
    let text = json!({"type": "string"});
    let in_path = route.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        let name = name.trim_start_matches('*');
        Some(json!({"name": name, "in": "path", "required": true, "schema": text}))
    });
    let in_headers = route.headers.iter().map(|header| {
        json!({
            "name": header.name, "in": "header", "required": header.required,
            "description": header.what, "schema": text,
        })
    });
    let query = route.query.map(|schema| schema(generator).to_value());
    let properties = query
        .as_ref()
        .and_then(|query| query.get("properties")?.as_object());
    let required = |name: &str| {
        let required = query
            .as_ref()
            .and_then(|query| query.get("required")?.as_array());
        required.is_some_and(|required| required.iter().any(|known| known == name))
    };
    let in_query = properties.into_iter().flatten().map(|(name, schema)| {
        json!({"name": name, "in": "query", "required": required(name), "schema": schema})
    });
    in_path.chain(in_query).chain(in_headers).collect()
}

/// The operation id for code generators, such as `get_messages_id_events`.
fn name(path: &str, method: &str) -> String {
    let parts = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != "v1");
    let slash = path.len() > 1 && path.ends_with('/');
    let first = if slash {
        format!("{method}_slash")
    } else {
        method.to_owned()
    };
    parts.fold(first, |mut name, part| {
        name.push('_');
        name.extend(part.chars().filter_map(|c| match c {
            '{' | '}' | '*' => None,
            c if c.is_ascii_alphanumeric() => Some(c),
            _ => Some('_'),
        }));
        name
    })
}

/// The shape of a scope's word, for bodies.
impl JsonSchema for Scope {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Scope".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
        let words: Vec<&str> = Self::ALL.iter().map(|scope| scope.as_str()).collect();
        schemars::json_schema!({"type": "string", "enum": words})
    }
}
