//! What is wrong with a text that gives options.

use alloc::string::String;

/// Why options are not accepted, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// No member of that name.
    #[error("`{name}` is no {what}; known are {known}")]
    Unknown {
        /// Of what there is none: `policy`, `fairness algorithm`.
        what: &'static str,
        /// What was given.
        name: String,
        /// All names.
        known: String,
    },
    /// An option that it does not have.
    #[error("{of} has no option `{option}`; it has {known}")]
    Option {
        /// What does not have it.
        of: &'static str,
        /// What was given.
        option: String,
        /// The options that it has.
        known: String,
    },
    /// A value without the option's name, where there is no option that goes without.
    #[error("{of} takes no value `{value}`; write OPTION=VALUE, with one of {known}")]
    Bare {
        /// What takes none.
        of: &'static str,
        /// What was given.
        value: String,
        /// The options that it has.
        known: String,
    },
    /// A value that the option does not take.
    #[error("{option} is `{value}`; {expected}")]
    Value {
        /// The option.
        option: &'static str,
        /// What was given.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// An option given twice.
    #[error("{option} is given twice; keep one")]
    Twice {
        /// The option.
        option: &'static str,
    },
    /// A link that does not exist.
    #[error("{option} names link `{link}`; the links are {known}")]
    Link {
        /// The option.
        option: &'static str,
        /// What was given.
        link: String,
        /// The links.
        known: String,
    },
    /// Settings that cannot work together, or with these links.
    #[error("{setting} does not work with {with}; {instead}")]
    Conflict {
        /// The setting.
        setting: String,
        /// What it does not work with.
        with: String,
        /// What would work.
        instead: String,
    },
}

impl OptionError {
    /// The option that is wrong, where it is one; so that a reader of files can tell the line.
    pub fn option(&self) -> Option<&str> {
        match self {
            OptionError::Option { option, .. } => Some(option),
            OptionError::Value { option, .. } | OptionError::Twice { option } | OptionError::Link { option, .. } => {
                Some(option)
            }
            OptionError::Conflict { setting, .. } => setting.split('=').next(),
            OptionError::Unknown { .. } | OptionError::Bare { .. } => None,
        }
    }
}
