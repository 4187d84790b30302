//! What is wrong with a recording.

use crate::bond::ConfigError;
use crate::options::OptionError;
use alloc::string::String;

/// Why a recording could not be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// Not a recording.
    #[error("not a fairspan recording")]
    Magic,
    /// Of another version.
    #[error(
        "a recording of another version: its frames have another wire format. Replay it with the release that made it"
    )]
    Version,
    /// It ends in the middle of an entry.
    #[error("the recording is cut short at byte {at}")]
    Truncated {
        /// Where the entry was cut.
        at: usize,
    },
    /// An entry that has no meaning.
    #[error("the recording is damaged at byte {at}")]
    Damaged {
        /// Where the entry started or the field stood.
        at: usize,
    },
    /// A setting that this version does not know.
    #[error("the recording has the setting `{name}`: a later version made it, replay it with that")]
    Unknown {
        /// Its name.
        name: String,
    },
    /// A setting with a value that it does not take.
    #[error("a recorded setting does not work: {0}")]
    Option(OptionError),
    /// Settings that do not work.
    #[error("the recorded settings do not work: {0}")]
    Config(#[from] ConfigError),
    /// The outputs, or the inputs themselves, are not the recorded ones.
    #[error("inputs or outputs differ from the recorded ones before byte {at}, entry {entry}")]
    Diverged {
        /// Where the digest stands that does not agree.
        at: usize,
        /// Its number among the entries.
        entry: u64,
    },
}
