//! What a statement meets on either engine: a connection, the values that it binds and the rows that it gives.
//!
//! Values are SQLite's five kinds, in rusqlite's words: what binds and reads there needs no step in between, and
//! PostgreSQL's side turns its own values into them.

use crate::postgres::{Session, SessionRow};
use rusqlite::types::{FromSql, ToSql, Type, ValueRef};
use rusqlite::{CachedStatement, Connection, Error};

/// A connection of one of the engines.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Conn<'c> {
    Sqlite(&'c Connection),
    Postgres(&'c Session),
}

impl<'c> From<&'c Connection> for Conn<'c> {
    fn from(conn: &'c Connection) -> Self {
        Self::Sqlite(conn)
    }
}

impl<'c> From<&'c Session> for Conn<'c> {
    fn from(session: &'c Session) -> Self {
        Self::Postgres(session)
    }
}

/// A row that a statement gave.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Row<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r SessionRow),
}

impl<'r> Row<'r> {
    /// The column at this place as the type that the caller expects.
    #[inline]
    pub(crate) fn get<T: FromSql>(self, at: usize) -> Result<T, Error> {
        match self {
            Self::Sqlite(row) => row.get(at),
            Self::Postgres(row) => from_server(row, at),
        }
    }

    /// The column at this place, as it is.
    #[inline]
    pub(crate) fn get_ref(self, at: usize) -> Result<ValueRef<'r>, Error> {
        match self {
            Self::Sqlite(row) => row.get_ref(at),
            Self::Postgres(row) => row.value(at),
        }
    }
}

/// Apart from SQLite's way, which is short enough to be a part of its caller.
#[inline(never)]
fn from_server<T: FromSql>(row: &SessionRow, at: usize) -> Result<T, Error> {
    let value = row.value(at)?;
    T::column_result(value)
        .map_err(|error| Error::FromSqlConversionFailure(at, value.data_type(), Box::new(error)))
}

/// The column at this place is not what it can be.
pub(crate) fn unfit(at: usize, why: String) -> Error {
    Error::FromSqlConversionFailure(at, Type::Null, why.into())
}

/// Takes values one after the other.
pub(crate) trait Binder {
    fn bind(&mut self, value: &(impl ToSql + ?Sized)) -> Result<(), Error>;
}

/// Binds to the parameters of a statement of SQLite, from the first on.
pub(crate) struct StatementBinder<'b, 'c> {
    pub(crate) statement: &'b mut CachedStatement<'c>,
    pub(crate) bound: usize,
}

impl Binder for StatementBinder<'_, '_> {
    fn bind(&mut self, value: &(impl ToSql + ?Sized)) -> Result<(), Error> {
        self.bound += 1;
        self.statement.raw_bind_parameter(self.bound, value)
    }
}

/// The values of a statement: an array, a tuple, or what [`rusqlite::params`] makes.
pub(crate) trait Params {
    /// Hands them over in their order.
    fn bind_all(&self, binder: &mut impl Binder) -> Result<(), Error>;
}

impl Params for [&dyn ToSql; 0] {
    fn bind_all(&self, _binder: &mut impl Binder) -> Result<(), Error> {
        Ok(())
    }
}

impl<T: ToSql> Params for [T; 1] {
    fn bind_all(&self, binder: &mut impl Binder) -> Result<(), Error> {
        let [value] = self;
        binder.bind(value)
    }
}

impl<T: ToSql> Params for [T; 2] {
    fn bind_all(&self, binder: &mut impl Binder) -> Result<(), Error> {
        self.iter().try_for_each(|value| binder.bind(value))
    }
}

impl Params for &[&dyn ToSql] {
    fn bind_all(&self, binder: &mut impl Binder) -> Result<(), Error> {
        self.iter().try_for_each(|value| binder.bind(*value))
    }
}

macro_rules! params_of_tuples {
    ($(($($value:ident)+))+) => {$(
        impl<$($value: ToSql),+> Params for ($($value,)+) {
            fn bind_all(&self, binder: &mut impl Binder) -> Result<(), Error> {
                #[allow(non_snake_case, reason = "the types' own names are the values' too")]
                let ($($value,)+) = self;
                $(binder.bind($value)?;)+
                Ok(())
            }
        }
    )+};
}

params_of_tuples! {
    (A B)
    (A B C)
    (A B C D)
    (A B C D E)
    (A B C D E F)
}
