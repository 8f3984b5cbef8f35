//! JSON schemas as Codex writes them: one file per type, each with its own definitions.
//!
//! Only what the comparison needs; this is no validator.

use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;

/// Fewer files than this are no schema of Codex: 0.150 writes 300.
const FILES_MIN: usize = 100;

/// What was generated is no schema of Codex.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("codex generated only {0} schema files, a whole schema has hundreds")]
pub struct SchemaError(usize);

/// What `codex app-server generate-json-schema` wrote.
#[derive(Debug, Clone)]
pub struct Schema {
    pub(super) files: BTreeMap<String, Value>,
}

/// A place in a file; references resolve within that file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a> {
    root: &'a Value,
    pub(super) at: &'a Value,
    /// The node whose fields this alternative has besides its own.
    shared: Option<&'a Value>,
}

impl Schema {
    /// From the files of all its folders, by their names without `.json`.
    pub fn new(files: BTreeMap<String, Value>) -> Result<Self, SchemaError> {
        if files.len() < FILES_MIN {
            return Err(SchemaError(files.len()));
        }
        Ok(Self { files })
    }

    pub(super) fn file(&self, name: &str) -> Option<Node<'_>> {
        let root = self.files.get(name)?;
        Some(Node::new(root, root))
    }

    /// A definition by name, from the first file that has it.
    pub(super) fn definition(&self, name: &str) -> Option<Node<'_>> {
        self.files.values().find_map(|root| {
            let at = root.get("definitions")?.get(name)?;
            Some(Node::new(root, at))
        })
    }

    /// Methods of a message file (`ClientRequest`, …) with the name of their params type.
    pub(super) fn methods(&self, file: &str) -> BTreeMap<&str, Option<&str>> {
        let variants = self
            .files
            .get(file)
            .and_then(|file| file["oneOf"].as_array());
        let names = variants.into_iter().flatten().filter_map(|variant| {
            let method = variant["properties"]["method"]["enum"][0].as_str()?;
            let params = variant["properties"]["params"]["$ref"].as_str();
            Some((
                method,
                params.and_then(|reference| reference.rsplit('/').next()),
            ))
        });
        names.collect()
    }
}

impl<'a> Node<'a> {
    fn new(root: &'a Value, at: &'a Value) -> Self {
        let shared = None;
        Self { root, at, shared }
    }

    fn with(self, at: &'a Value) -> Self {
        Self::new(self.root, at)
    }

    /// The same alternative, described elsewhere.
    fn moved(self, at: &'a Value) -> Self {
        Self { at, ..self }
    }

    /// Follows references and one-element `allOf`s.
    pub(super) fn resolve(self) -> Self {
        let name = self.at["$ref"].as_str();
        if let Some(name) = name.and_then(|name| name.strip_prefix("#/definitions/")) {
            return self.moved(&self.root["definitions"][name]).resolve();
        }
        match self.at["allOf"].as_array().map(Vec::as_slice) {
            Some([only]) => self.moved(only).resolve(),
            _ => self,
        }
    }

    /// The alternatives this node stands for, flattened. Fields that stand beside alternatives
    /// belong to each of them.
    pub(super) fn alternatives(self) -> Vec<Self> {
        let node = self.resolve();
        let shared = node.at.get("properties").map(|_| node.at).or(node.shared);
        let mut found = Vec::new();
        for word in ["oneOf", "anyOf"] {
            for at in node.at[word].as_array().into_iter().flatten() {
                let alternative = Self {
                    shared,
                    ..node.with(at)
                };
                found.extend(alternative.alternatives());
            }
        }
        if found.is_empty() {
            found.push(node);
        }
        found
    }

    /// The field of this one alternative.
    pub(super) fn own_property(self, name: &str) -> Option<Self> {
        let field = |node: &'a Value| node.get("properties")?.get(name);
        let at = field(self.at).or_else(|| field(self.shared?))?;
        Some(self.with(at))
    }

    /// Names of the fields of this one alternative.
    pub(super) fn own_properties(self) -> impl Iterator<Item = &'a str> {
        let names = |node: &'a Value| node["properties"].as_object().into_iter().flatten();
        let shared = self.shared.into_iter().flat_map(names);
        names(self.at).chain(shared).map(|(name, _)| name.as_str())
    }

    /// The field of any alternative.
    pub(super) fn property(self, name: &str) -> Option<Self> {
        let mut alternatives = self.alternatives().into_iter();
        alternatives.find_map(|node| node.own_property(name))
    }

    /// True for an object with named fields.
    pub(super) fn has_fields(self) -> bool {
        self.at.get("properties").is_some() || self.shared.is_some()
    }

    pub(super) fn items(self) -> Option<Self> {
        let items = |node: Self| node.at.get("items").map(|at| node.with(at));
        self.alternatives().into_iter().find_map(items)
    }

    /// Names of the required fields of this alternative.
    pub(super) fn required(self) -> Vec<&'a str> {
        let names = |node: &'a Value| node["required"].as_array().into_iter().flatten();
        let shared = self.shared.into_iter().flat_map(names);
        names(self.at)
            .chain(shared)
            .filter_map(Value::as_str)
            .collect()
    }

    /// Every string that one of the alternatives names.
    pub(super) fn words(self) -> Vec<&'a str> {
        let words = |node: Self| node.at["enum"].as_array().into_iter().flatten();
        let words = self.alternatives().into_iter().flat_map(words);
        words.filter_map(Value::as_str).collect()
    }

    /// True when a value of this JSON type fits, as far as types go; no statement fits all.
    pub(super) fn takes(self, kind: &str) -> bool {
        self.alternatives().into_iter().any(|node| {
            if node.has_fields() {
                return kind == "object";
            }
            match &node.at["type"] {
                Value::String(one) => one == kind || (one == "number" && kind == "integer"),
                Value::Array(many) => many.iter().any(|one| one == kind),
                _ => node.at.get("enum").is_none(),
            }
        })
    }

    /// The alternative whose tag field has this value.
    pub(super) fn tagged(self, tag: &str, value: &str) -> Option<Self> {
        let mut alternatives = self.alternatives().into_iter();
        alternatives.find(|node| node.tag(tag) == Some(value))
    }

    /// Every value of a tag field among the alternatives.
    pub(super) fn tags(self, tag: &str) -> Vec<&'a str> {
        let alternatives = self.alternatives().into_iter();
        alternatives.filter_map(|node| node.tag(tag)).collect()
    }

    fn tag(self, tag: &str) -> Option<&'a str> {
        self.own_property(tag)?.at["enum"][0].as_str()
    }
}
