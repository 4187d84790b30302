//! Choices: types whose values have a word for people and a number for recordings and messages.

/// A type whose values have words and numbers. Both stay for ever: new values go to the end.
pub trait Words: Copy + PartialEq + 'static {
    /// All values, by their numbers.
    const ALL: &'static [Self];
    /// Their words, in the same order: for [`Kind::Choice`](super::Kind::Choice).
    const WORDS: &'static [&'static str];

    /// The value's number.
    fn number(self) -> u8 {
        Self::ALL.iter().position(|one| *one == self).unwrap_or(0) as u8
    }

    /// The value's word.
    fn word(self) -> &'static str {
        Self::WORDS[usize::from(self.number())]
    }

    /// The value of a number; `None`: there is none yet.
    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The value of a word.
    fn from_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().position(|one| *one == word).map(|n| Self::ALL[n])
    }
}

/// Gives an enum its words, in the order of their numbers, and makes its fields fields of options.
#[macro_export]
#[doc(hidden)]
macro_rules! option_words {
    ($type:ty { $($value:ident = $word:literal),+ $(,)? }) => {
        impl $crate::options::Words for $type {
            const ALL: &'static [Self] = &[$(<$type>::$value),+];
            const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl core::fmt::Display for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str($crate::options::Words::word(*self))
            }
        }

        impl $crate::options::Field for $type {
            fn value(&self) -> $crate::options::Value {
                $crate::options::Value::Choice($crate::options::Words::number(*self).into())
            }

            fn take(&mut self, value: $crate::options::Value) {
                if let $crate::options::Value::Choice(n) = value
                    && let Some(one) = <$type as $crate::options::Words>::ALL.get(n)
                {
                    *self = *one;
                }
            }
        }
    };
}

pub use crate::option_words as words;
