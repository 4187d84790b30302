//! Why a study came to nothing.

use fairspan_sim::world::WorldError;
use std::io;
use std::path::{Path, PathBuf};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input is wrong: everything that is, one a line, with what would be right.
    #[error("{0}")]
    Input(String),
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A run is wrong in itself, which is our error and not the scenario's.
    #[error("run {number}")]
    Run {
        /// Which.
        number: usize,
        /// What is wrong.
        source: WorldError,
    },
}

impl Error {
    /// `path` cannot be written.
    pub(crate) fn write(path: &Path, source: io::Error) -> Error {
        Error::Write { path: path.to_owned(), source }
    }

    /// Whether whoever gave the input can mend it.
    pub fn is_input(&self) -> bool {
        matches!(self, Error::Input(_))
    }
}
