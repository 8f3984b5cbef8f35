//! A deserializer that walks our type instead of data: serde gives every struct's field names to
//! `deserialize_struct`, and each of them must be in the schema with a fitting JSON type.
//! So no list of the fields we read has to be kept anywhere.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::document::Node;

/// Complaints about the fields that `T` reads from `schema`.
pub(super) fn fields<T: DeserializeOwned>(schema: Node<'_>, path: &str) -> Vec<String> {
    let walk = Walk::default();
    let probe = Probe {
        schema: Some(schema),
        path: path.to_owned(),
        walk: &walk,
    };
    let read = T::deserialize(probe);
    let mut complaints = walk.complaints.into_inner();
    if let Err(error) = read {
        complaints.push(format!("{path}: {error}"));
    }
    complaints
}

/// The names of all fields that `T` reads, at any depth.
pub(super) fn names<T: DeserializeOwned>() -> BTreeSet<&'static str> {
    let walk = Walk::default();
    let probe = Probe {
        schema: None,
        path: String::new(),
        walk: &walk,
    };
    // What stops the walk is a type that wants more than a placeholder; its names were seen by then.
    let _read = T::deserialize(probe);
    walk.names.into_inner()
}

/// What a walk finds.
#[derive(Default)]
struct Walk {
    complaints: RefCell<Vec<String>>,
    names: RefCell<BTreeSet<&'static str>>,
}

/// One place in our type. Without a schema (already complained) everything goes.
struct Probe<'a> {
    schema: Option<Node<'a>>,
    path: String,
    walk: &'a Walk,
}

impl Probe<'_> {
    fn expect(&self, kind: &str) {
        if self.schema.is_some_and(|schema| !schema.takes(kind)) {
            self.complain(&format!("we read {kind}, codex sends something else"));
        }
    }

    fn complain(&self, what: &str) {
        self.walk
            .complaints
            .borrow_mut()
            .push(format!("{}: {what}", self.path));
    }
}

#[derive(Debug)]
struct ProbeError(String);

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProbeError {}

impl de::Error for ProbeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

macro_rules! scalars {
    ($($name:ident($visit:ident, $value:expr) = $kind:literal)+) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ProbeError> {
            self.expect($kind);
            visitor.$visit($value)
        }
    )+};
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = ProbeError;

    scalars! {
        deserialize_bool(visit_bool, true) = "boolean"
        deserialize_i64(visit_i64, 1) = "integer"
        deserialize_u64(visit_u64, 1) = "integer"
        deserialize_u32(visit_u32, 1) = "integer"
        deserialize_str(visit_str, "x") = "string"
        deserialize_string(visit_str, "x") = "string"
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ProbeError> {
        match self.schema {
            Some(schema) if schema.takes("string") => {
                visitor.visit_str(schema.words().first().unwrap_or(&"x"))
            }
            Some(_) | None => visitor.visit_unit(),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ProbeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ProbeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ProbeError> {
        self.expect("array");
        let element = Probe {
            schema: self.schema.and_then(Node::items),
            path: format!("{}[]", self.path),
            walk: self.walk,
        };
        visitor.visit_seq(OneElement(Some(element)))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ProbeError> {
        if !fields.is_empty() {
            self.expect("object");
        }
        self.walk.names.borrow_mut().extend(fields);
        visitor.visit_map(Fields {
            probe: self,
            left: fields,
            current: "",
        })
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u128 f32 f64 char bytes byte_buf unit unit_struct tuple
        tuple_struct map enum identifier ignored_any
    }
}

struct OneElement<'a>(Option<Probe<'a>>);

impl<'de> SeqAccess<'de> for OneElement<'_> {
    type Error = ProbeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ProbeError> {
        self.0
            .take()
            .map(|probe| seed.deserialize(probe))
            .transpose()
    }
}

struct Fields<'a> {
    probe: Probe<'a>,
    left: &'static [&'static str],
    current: &'static str,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = ProbeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ProbeError> {
        let Some((first, rest)) = self.left.split_first() else {
            return Ok(None);
        };
        (self.current, self.left) = (first, rest);
        seed.deserialize(StrDeserializer::new(first)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ProbeError> {
        let field = Probe {
            schema: self
                .probe
                .schema
                .and_then(|schema| schema.property(self.current)),
            path: format!("{}.{}", self.probe.path, self.current),
            walk: self.probe.walk,
        };
        if self.probe.schema.is_some() && field.schema.is_none() {
            field.complain("we read it, codex does not send it");
        }
        seed.deserialize(field)
    }
}
