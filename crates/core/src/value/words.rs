//! The words that enums are stored and shown as.

/// A text that is none of the words of a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown word")]
pub struct UnknownWord;

/// Gives an enum without data its words: `ALL` in this order, `as_str` and `FromStr`.
macro_rules! words {
    ($name:ident { $($variant:ident => $word:literal),+ $(,)? }) => {
        impl $name {
            /// All of them, in order.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word in storage, configuration and display.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl core::str::FromStr for $name {
            type Err = $crate::value::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::value::UnknownWord),
                }
            }
        }
    };
}

pub(crate) use words;

/// Makes the enum of a state's variants without their data, with its words, and the state's `name`.
macro_rules! state_names {
    ($(#[$meta:meta])* $names:ident of $state:ident { $($variant:ident => $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $names {
            $($variant),+
        }

        words!($names { $($variant => $word),+ });

        impl $state {
            /// The state without its data.
            #[must_use]
            pub fn name(&self) -> $names {
                match self {
                    $(Self::$variant { .. } => $names::$variant),+
                }
            }
        }
    };
}
