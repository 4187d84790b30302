//! A name with options, as people write a discipline or a policy: `codel:target=5ms,interval=100ms`.

use crate::quantity::QuantityError;
use alloc::string::String;
use thiserror::Error;

/// Why a text names no discipline or policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TextError {
    /// No such name.
    #[error("there is no {what} `{found}`; there are {}", .known.join(", "))]
    Name {
        /// `discipline` or `buffer policy`.
        what: &'static str,
        /// What was given.
        found: String,
        /// What there is.
        known: &'static [&'static str],
    },
    /// No such option, or one without a value.
    #[error("{of} has no option `{found}`; it takes {known}")]
    Option {
        /// The name before the colon.
        of: String,
        /// What was given.
        found: String,
        /// What there is.
        known: &'static str,
    },
    /// A value that is no quantity.
    #[error("{option}: {error}")]
    Quantity {
        /// The option.
        option: &'static str,
        /// What is wrong.
        error: QuantityError,
    },
    /// A value that is no whole number.
    #[error("{option}: `{found}` is not a whole number")]
    Number {
        /// The option.
        option: &'static str,
        /// What was given.
        found: String,
    },
    /// Values that cannot work.
    #[error("{0}")]
    Config(#[from] super::policy::ConfigError),
}

/// The name, and what stands behind its colon.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_once(':').map_or((text, ""), |(name, options)| (name.trim_end(), options))
}

/// Gives each `key=value` of `options` to `set`, which says whether it knows the key.
pub(crate) fn each(
    of: &str,
    options: &str,
    known: &'static str,
    mut set: impl FnMut(&str, &str) -> Result<bool, TextError>,
) -> Result<(), TextError> {
    for option in options.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        if !set(key.trim(), value.trim())? {
            return Err(TextError::Option { of: of.into(), found: key.into(), known });
        }
    }
    Ok(())
}

/// A quantity, its error named by the option.
pub(crate) fn quantity<T>(
    option: &'static str,
    value: &str,
    parse: impl Fn(&str) -> Result<T, QuantityError>,
) -> Result<T, TextError> {
    parse(value).map_err(|error| TextError::Quantity { option, error })
}
