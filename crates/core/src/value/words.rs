//! The words that enums are stored and shown as.

/// Gives an enum without data its words: `ALL` in this order, `as_str` and `from_word`.
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

            /// Reads the word.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

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
