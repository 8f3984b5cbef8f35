//! JSON schemas as Codex writes them: one file per type, each with its own definitions.
//!
//! Only what the comparison needs; this is no validator.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

/// All files, by type name.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    pub(crate) files: BTreeMap<String, Value>,
}

/// A place in a file; references resolve within that file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'a> {
    root: &'a Value,
    pub(crate) at: &'a Value,
    /// The node whose fields this alternative has besides its own.
    shared: Option<&'a Value>,
}

impl Schema {
    pub(crate) fn load(folder: &Path) -> Self {
        let mut files = BTreeMap::new();
        for part in ["", "v1", "v2"] {
            for entry in std::fs::read_dir(folder.join(part)).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|ext| ext == "json") {
                    let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
                    let text = std::fs::read_to_string(&path).unwrap();
                    files.insert(name, serde_json::from_str(&text).unwrap());
                }
            }
        }
        assert!(files.len() > 100, "only {} schema files", files.len());
        Self { files }
    }

    pub(crate) fn file(&self, name: &str) -> Option<Node<'_>> {
        let root = self.files.get(name)?;
        Some(Node::new(root, root))
    }

    /// A definition by name, from the first file that has it.
    pub(crate) fn definition(&self, name: &str) -> Option<Node<'_>> {
        self.files.values().find_map(|root| {
            let at = root.get("definitions")?.get(name)?;
            Some(Node::new(root, at))
        })
    }

    /// Methods of a message file (`ClientRequest`, …) with the name of their params type.
    pub(crate) fn methods(&self, file: &str) -> BTreeMap<&str, Option<&str>> {
        let variants = self.files[file]["oneOf"].as_array().unwrap();
        let names = variants.iter().map(|variant| {
            let method = variant["properties"]["method"]["enum"][0].as_str().unwrap();
            let params = variant["properties"]["params"]["$ref"].as_str();
            (
                method,
                params.and_then(|reference| reference.rsplit('/').next()),
            )
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
    pub(crate) fn resolve(self) -> Self {
        if let Some(reference) = self.at["$ref"].as_str() {
            let name = reference.strip_prefix("#/definitions/").unwrap();
            return self.moved(&self.root["definitions"][name]).resolve();
        }
        match self.at["allOf"].as_array().map(Vec::as_slice) {
            Some([only]) => self.moved(only).resolve(),
            _ => self,
        }
    }

    /// The alternatives this node stands for, flattened. Fields that stand beside alternatives
    /// belong to each of them.
    pub(crate) fn alternatives(self) -> Vec<Self> {
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
    pub(crate) fn own_property(self, name: &str) -> Option<Self> {
        let field = |node: &'a Value| node.get("properties")?.get(name);
        let at = field(self.at).or_else(|| field(self.shared?))?;
        Some(self.with(at))
    }

    /// The field of any alternative.
    pub(crate) fn property(self, name: &str) -> Option<Self> {
        let mut alternatives = self.alternatives().into_iter();
        alternatives.find_map(|node| node.own_property(name))
    }

    /// True for an object with named fields.
    pub(crate) fn has_fields(self) -> bool {
        self.at.get("properties").is_some() || self.shared.is_some()
    }

    pub(crate) fn items(self) -> Option<Self> {
        let items = |node: Self| node.at.get("items").map(|at| node.with(at));
        self.alternatives().into_iter().find_map(items)
    }

    /// Names of the required fields of this alternative.
    pub(crate) fn required(self) -> Vec<&'a str> {
        let names = |node: &'a Value| node["required"].as_array().into_iter().flatten();
        let shared = self.shared.into_iter().flat_map(names);
        names(self.at)
            .chain(shared)
            .filter_map(Value::as_str)
            .collect()
    }

    /// Every string that one of the alternatives names.
    pub(crate) fn words(self) -> Vec<&'a str> {
        let words = |node: Self| node.at["enum"].as_array().into_iter().flatten();
        let words = self.alternatives().into_iter().flat_map(words);
        words.filter_map(Value::as_str).collect()
    }

    /// True when a value of this JSON type fits, as far as types go; no statement fits all.
    pub(crate) fn takes(self, kind: &str) -> bool {
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
    pub(crate) fn tagged(self, tag: &str, value: &str) -> Option<Self> {
        let mut alternatives = self.alternatives().into_iter();
        alternatives.find(|node| node.tag(tag) == Some(value))
    }

    /// Every value of a tag field among the alternatives.
    pub(crate) fn tags(self, tag: &str) -> Vec<&'a str> {
        let alternatives = self.alternatives().into_iter();
        alternatives.filter_map(|node| node.tag(tag)).collect()
    }

    fn tag(self, tag: &str) -> Option<&'a str> {
        self.own_property(tag)?.at["enum"][0].as_str()
    }
}
