//! Why a study came to nothing.

use fairspan_sim::scenario::ReadError;
use fairspan_sim::world::WorldError;
use std::io;
use std::path::{Path, PathBuf};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input is wrong: everything that is, one a line, with what would be right.
    #[error("{0}")]
    Input(String),
    /// A run cannot be built: everything that is wrong.
    #[error("{}", told(.0))]
    Scenario(Vec<ReadError>),
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A run is wrong in itself, which is our error and not the scenario's.
    #[error("run {number}, seed {seed}")]
    Run {
        /// Which.
        number: usize,
        /// What replays it.
        seed: u64,
        /// What is wrong.
        source: WorldError,
    },
    /// A run panicked, which is our error too.
    #[error("this is a mistake in fairspan, please report it: run {number}, seed {seed}: {told}")]
    Panic {
        /// Which.
        number: usize,
        /// What replays it.
        seed: u64,
        /// What it said.
        told: String,
    },
}

impl Error {
    /// `path` cannot be written.
    pub(crate) fn write(path: &Path, source: io::Error) -> Error {
        Error::Write { path: path.to_owned(), source }
    }

    /// Whether whoever gave the input can mend it.
    pub fn is_input(&self) -> bool {
        matches!(self, Error::Input(_) | Error::Scenario(_))
    }
}

/// Errors, one a line as the program prints them.
fn told(errors: &[ReadError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\nfairspan: ")
}
