//! Values on their way to PostgreSQL and back.
//!
//! PostgreSQL stores no U+0000 in a text. It is written as two U+0001, and a U+0001 as U+0001 U+0002: that can be undone,
//! and keeps the order of texts.

use crate::sql::{Binder, unfit};
use bytes::{BufMut, BytesMut};
use rusqlite::types::{ToSql, ToSqlOutput, Value, ValueRef};
use std::borrow::Cow;
use std::error::Error;
use tokio_postgres::types::{FromSql, IsNull, Type, to_sql_checked};

const NUL: char = '\0';
const MARK: char = '\u{1}';
const AFTER: char = '\u{2}';

/// A text as it is stored.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains([NUL, MARK]) {
        return Cow::Borrowed(text);
    }
    let mut stored = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            NUL => stored.extend([MARK, MARK]),
            MARK => stored.extend([MARK, AFTER]),
            other => stored.push(other),
        }
    }
    Cow::Owned(stored)
}

/// The text that was stored, if it is another one.
fn unescaped(stored: &str) -> Option<String> {
    if !stored.contains(MARK) {
        return None;
    }
    let mut text = String::with_capacity(stored.len());
    let mut letters = stored.chars();
    while let Some(letter) = letters.next() {
        let next = match letter {
            MARK => letters.next(),
            other => {
                text.push(other);
                continue;
            }
        };
        text.push(if next == Some(MARK) { NUL } else { MARK });
    }
    Some(text)
}

/// A value that is bound to a parameter of whatever type the server gave it.
#[derive(Debug)]
pub(super) struct Bound(pub(super) Value);

/// Collects the values of a statement.
#[derive(Default)]
pub(super) struct BoundValues(Vec<Value>);

impl Binder for BoundValues {
    fn bind(&mut self, value: &(impl ToSql + ?Sized)) -> Result<(), rusqlite::Error> {
        let value = match value.to_sql()? {
            ToSqlOutput::Borrowed(value) => {
                Value::try_from(value).map_err(|error| unfit(self.0.len(), error.to_string()))?
            }
            ToSqlOutput::Owned(value) => value,
            other => return Err(unfit(self.0.len(), format!("{other:?} can't be bound"))),
        };
        self.0.push(value);
        Ok(())
    }
}

impl BoundValues {
    /// Those that a statement names, in its order.
    pub(super) fn in_order(self, order: &[usize]) -> Result<Vec<Value>, rusqlite::Error> {
        let mut values: Vec<Option<Value>> = self.0.into_iter().map(Some).collect();
        let given = values.len();
        let mut next = |at: &usize| values.get_mut(*at).and_then(Option::take);
        let found: Option<Vec<Value>> = order.iter().map(&mut next).collect();
        found.ok_or(rusqlite::Error::InvalidParameterCount(given, order.len()))
    }
}

impl tokio_postgres::types::ToSql for Bound {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match (&self.0, ty) {
            (Value::Null, _) => return Ok(IsNull::Yes),
            (Value::Integer(number), &Type::INT8) => out.put_i64(*number),
            (Value::Integer(number), &Type::INT4) => out.put_i32(i32::try_from(*number)?),
            (Value::Integer(number), &Type::BOOL) => out.put_u8(u8::from(*number != 0)),
            (Value::Blob(bytes), &Type::BYTEA) => out.put_slice(bytes),
            (Value::Text(list), &Type::TEXT_ARRAY) => {
                let list: Vec<String> = serde_json::from_str(list)?;
                let list: Vec<Cow<'_, str>> = list.iter().map(|text| escaped(text)).collect();
                return list.to_sql(ty, out);
            }
            (Value::Text(text), &Type::TEXT | &Type::VARCHAR) => {
                out.put_slice(escaped(text).as_bytes());
            }
            (value, ty) => return Err(format!("{:?} as {ty}", value.data_type()).into()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_ty: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A column as the server sent it.
struct Column<'r>(ValueRef<'r>);

impl<'r> FromSql<'r> for Column<'r> {
    fn from_sql(ty: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(match *ty {
            Type::INT8 => ValueRef::Integer(i64::from_be_bytes(raw.try_into()?)),
            Type::INT4 => ValueRef::Integer(i32::from_be_bytes(raw.try_into()?).into()),
            Type::BOOL => ValueRef::Integer(i64::from(raw != [0])),
            Type::TEXT | Type::VARCHAR | Type::NAME | Type::UNKNOWN => ValueRef::Text(raw),
            Type::BYTEA => ValueRef::Blob(raw),
            ref other => return Err(format!("a column of type {other} is not read").into()),
        }))
    }

    fn from_sql_null(_ty: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(ValueRef::Null))
    }

    fn accepts(_ty: &Type) -> bool {
        true
    }
}

/// A row that the server sent.
#[derive(Debug)]
pub(crate) struct SessionRow {
    row: tokio_postgres::Row,
    /// Texts that were stored in another form: hardly ever any.
    unescaped: Vec<(usize, String)>,
}

impl SessionRow {
    pub(super) fn new(row: tokio_postgres::Row) -> Self {
        let mut found = Self {
            row,
            unescaped: Vec::new(),
        };
        for at in 0..found.row.len() {
            let Ok(ValueRef::Text(stored)) = found.stored(at) else {
                continue;
            };
            if let Some(text) = std::str::from_utf8(stored).ok().and_then(unescaped) {
                found.unescaped.push((at, text));
            }
        }
        found
    }

    /// How many columns it has.
    pub(super) fn columns(&self) -> usize {
        self.row.len()
    }

    /// The column at this place.
    pub(crate) fn value(&self, at: usize) -> Result<ValueRef<'_>, rusqlite::Error> {
        let text = self.unescaped.iter().find(|(column, _)| *column == at);
        match text {
            Some((_, text)) => Ok(ValueRef::Text(text.as_bytes())),
            None => self.stored(at),
        }
    }

    fn stored(&self, at: usize) -> Result<ValueRef<'_>, rusqlite::Error> {
        let column: Result<Column<'_>, _> = self.row.try_get(at);
        column
            .map(|column| column.0)
            .map_err(|error| unfit(at, error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_is_stored_and_comes_back() {
        let texts = [
            "",
            "plain",
            "\0",
            "\u{1}",
            "a\0b\u{1}\u{2}c",
            "\u{1}\u{1}\0",
        ];
        for text in texts {
            let stored = escaped(text);
            assert!(!stored.contains('\0'), "{text:?}");
            let back = unescaped(&stored).unwrap_or_else(|| stored.to_string());
            assert_eq!(back, text);
        }
    }

    #[test]
    fn escaping_keeps_the_order() {
        let mut texts = [
            "", "\0", "\0a", "\u{1}", "\u{1}\0", "\u{1}a", "\u{2}", "a", "a\0", "b",
        ];
        texts.sort_unstable();
        let stored: Vec<_> = texts.iter().map(|text| escaped(text)).collect();
        assert!(stored.is_sorted(), "{stored:?}");
    }
}
