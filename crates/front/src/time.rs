//! A moment in JSON: RFC 3339 in UTC with milliseconds, `2026-11-18T12:00:00.000Z`, everywhere that we choose the form.

use bridge_core::value::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// A moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(i64);

impl Time {
    /// From milliseconds since the epoch.
    #[must_use]
    pub fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub fn ms(self) -> i64 {
        self.0
    }

    /// How long after another moment this one is, in milliseconds.
    #[must_use]
    pub fn since_ms(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl From<Timestamp> for Time {
    fn from(at: Timestamp) -> Self {
        Self(at.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = jiff::Timestamp::from_millisecond(self.0).map_err(|_| fmt::Error)?;
        write!(f, "{at:.3}")
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => serializer.collect_str(&format_args!("{at:.3}")),
            // Nobody lives then; a reader still gets a time.
            Err(_) => serializer.collect_str(&format_args!("{:.3}", jiff::Timestamp::MAX)),
        }
    }
}

/// Also reads what older daemons and the older tool wrote: whole milliseconds, or seconds with a fraction.
impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TimeVisitor)
    }
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = Time;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time as RFC 3339 has it")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Time, E> {
        let at: jiff::Timestamp = text.parse().map_err(E::custom)?;
        Ok(Time(at.as_millisecond()))
    }

    fn visit_i64<E: de::Error>(self, ms: i64) -> Result<Time, E> {
        Ok(Time(ms))
    }

    fn visit_u64<E: de::Error>(self, ms: u64) -> Result<Time, E> {
        i64::try_from(ms).map(Time).map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Time, E> {
        let ms = (seconds * 1_000.0).round();
        if !ms.is_finite() {
            return Err(E::custom("it is no number"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the cast saturates, and times of this age fit"
        )]
        Ok(Time(ms as i64))
    }
}

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::Time;
    use serde_json::{from_value, json, to_value};

    #[test]
    fn times_are_written_as_rfc_3339() {
        let time = Time(1_795_003_200_007);
        let written = to_value(time).unwrap();
        assert_eq!(written, json!("2026-11-18T12:00:00.007Z"));
        for read in [
            written,
            json!(1_795_003_200_007_i64),
            json!(1_795_003_200.007),
        ] {
            assert_eq!(from_value::<Time>(read).unwrap(), time);
        }
        assert_eq!(
            to_value(Time(0)).unwrap(),
            json!("1970-01-01T00:00:00.000Z")
        );
        assert!(from_value::<Time>(json!("yesterday")).is_err());
        assert!(to_value(Time(i64::MAX)).unwrap().is_string());
    }
}
