//! The folder in which a host keeps what outlives a process.
//!
//! Files are the kernel's, and what a process still writes while it is torn down after it was killed must not count.

use std::fs;
use std::path::{Path, PathBuf};

/// A folder, and what was in it before something that may be killed began.
pub(super) struct Kept {
    folder: PathBuf,
    before: Vec<(PathBuf, Vec<u8>)>,
}

impl Kept {
    pub(super) fn new(folder: PathBuf) -> Kept {
        Kept { folder, before: Vec::new() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Remembers what is in it.
    pub(super) fn remember(&mut self) {
        self.before.clear();
        // There is no folder before the first start.
        for entry in fs::read_dir(&self.folder).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            let bytes = fs::read(&path).expect("a file that can be read");
            self.before.push((path, bytes));
        }
    }

    /// Makes it what it was.
    pub(super) fn restore(&mut self) {
        self.lose();
        if !self.before.is_empty() {
            fs::create_dir_all(&self.folder).expect("a folder");
        }
        for (path, bytes) in self.before.drain(..) {
            fs::write(path, bytes).expect("written");
        }
    }

    /// Empties it.
    pub(super) fn lose(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
