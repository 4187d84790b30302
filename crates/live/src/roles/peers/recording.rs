//! The file that a bond's recording goes to (`interface.record`); `fairspan replay` reads it.

use crate::recorded;
use fairspan_core::record::Sink;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
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
    /// Begins a recording in a new file, instead of an older one of that name. It holds the host's packets in the clear, so
    /// only its owner may read it (mode 0600), and it goes where no link leads: others may write in the folder.
    ///
    /// # Errors
    /// What the system says; something of that name that is no recording.
    pub(super) fn create(path: &Path) -> io::Result<Recording> {
        if let Some(what) = recorded::obstacle(path) {
            return Err(io::Error::other(format!("is there already and is {what}; choose another interface.record")));
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::record::MAGIC;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_recording_is_a_new_file_of_its_owner_and_follows_no_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, victim) = (folder.path().join("fs0.record"), folder.path().join("victim"));
        fs::write(&victim, "precious").expect("written");
        symlink(&victim, &path).expect("a link");
        let refused = Recording::create(&path).expect_err("a link is refused").to_string();
        assert!(refused.contains("symbolic link") && refused.contains("interface.record"), "{refused}");
        assert_eq!(fs::read_to_string(&victim).expect("read"), "precious");

        // A file that somebody named by mistake stays.
        let refused = Recording::create(&victim).expect_err("no recording").to_string();
        assert!(refused.contains("no recording") && refused.contains("interface.record"), "{refused}");
        assert_eq!(fs::read_to_string(&victim).expect("read"), "precious");

        // An older recording that everybody may read, held open by who made it: what is recorded does not get there.
        fs::remove_file(&path).expect("removed");
        fs::write(&path, MAGIC).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("a mode");
        let held = File::open(&path).expect("opened");
        let mut recording = Recording::create(&path).expect("created");
        recording.write(b"packets");
        recording.finish();
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&path).expect("read"), "packets");
        assert_eq!(io::read_to_string(held).expect("read").as_bytes(), MAGIC);
        assert!(Recording::create(folder.path()).is_err(), "a folder stays");
    }
}
