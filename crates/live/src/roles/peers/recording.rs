//! The file that a bond's recording goes to (`interface.record`); `fairspan replay` reads it.

use fairspan_core::record::Sink;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A recording in progress.
#[derive(Debug)]
pub(super) struct Recording {
    path: PathBuf,
    /// `None` after a failed write: the daemon goes on without.
    file: Option<BufWriter<File>>,
}

impl Recording {
    /// Begins a recording. It holds the host's packets in the clear, so only its owner may read it (mode 0600).
    pub(super) fn create(path: &Path) -> io::Result<Recording> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        Ok(Recording { path: path.into(), file: Some(BufWriter::with_capacity(1 << 20, file)) })
    }

    /// Writes what is still in memory.
    pub(super) fn finish(mut self) {
        if let Some(mut file) = self.file.take()
            && let Err(error) = file.flush()
        {
            tracing::error!(file = %self.path.display(), %error, "the recording is not complete");
        }
    }
}

impl Sink for Recording {
    fn write(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        if let Err(error) = file.write_all(bytes) {
            tracing::error!(file = %self.path.display(), %error, "the recording ends here");
            self.file = None;
        }
    }
}
