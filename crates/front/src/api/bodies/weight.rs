//! Estimates the memory of a parsed JSON body. Values take much more than their bytes, an empty list eleven times as
//! much. Counts without building the values, up to a bound.

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Values in one body.
pub(super) const VALUES_MAX: usize = 100_000;
/// Memory of one value, with the spare capacity of a growing list.
const VALUE_BYTES: usize = 80;
/// Values that an object counts as: its table has room for eleven entries, however few there are.
const OBJECT_VALUES: usize = 8;

/// The body has too many values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyValues;

/// The memory that the values of a body take. Invalid JSON counts up to its error, which the parser reports later.
pub(super) fn of(json: &[u8]) -> Result<usize, TooManyValues> {
    let mut values = 0;
    let mut reader = serde_json::Deserializer::from_slice(json);
    let _readable = ValueCount(&mut values).deserialize(&mut reader);
    if values > VALUES_MAX {
        Err(TooManyValues)
    } else {
        Ok(values.saturating_mul(VALUE_BYTES))
    }
}

/// Counts a value and those in it.
struct ValueCount<'c>(&'c mut usize);

impl ValueCount<'_> {
    fn add<E: Error>(&mut self, values: usize) -> Result<(), E> {
        *self.0 = self.0.saturating_add(values);
        if *self.0 > VALUES_MAX {
            Err(E::custom("too many values"))
        } else {
            Ok(())
        }
    }
}

impl<'de> DeserializeSeed<'de> for ValueCount<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(mut self, reader: D) -> Result<(), D::Error> {
        self.add(1)?;
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueCount<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(ValueCount(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut object: A) -> Result<(), A::Error> {
        self.add(OBJECT_VALUES)?;
        while object.next_key::<IgnoredAny>()?.is_some() {
            object.next_value_seed(ValueCount(&mut *self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(json: &str) -> usize {
        of(json.as_bytes()).unwrap() / VALUE_BYTES
    }

    #[test]
    fn f4_counts_json_values_before_parsing() {
        assert_eq!(values("[]"), 1);
        assert_eq!(values(r#"[1, -1, 0.5, "a\n", null, true, []]"#), 8);
        assert_eq!(values(r#"{"a": {"b": 1}}"#), 2 * OBJECT_VALUES + 3);
        assert_eq!(values("[1, 2"), 3, "not JSON");
        assert_eq!(values(&"[".repeat(100_000)), 128, "too deep");
        let list = |n: usize| format!("[{}[]]", "[],".repeat(n));
        assert!(of(list(VALUES_MAX - 2).as_bytes()).is_ok());
        assert_eq!(of(list(VALUES_MAX - 1).as_bytes()), Err(TooManyValues));
        assert_eq!(of(list(2_700_000).as_bytes()), Err(TooManyValues));
        let objects = format!("[{}0]", r#"{"":0},"#.repeat(20_000));
        assert_eq!(of(objects.as_bytes()), Err(TooManyValues));
    }
}
