//! Files of text that a person names, who may be mistaken: a device without an end, or a disk's image.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Longest file of settings, in bytes: far more than a hub with thousands of peers has.
pub const SETTINGS: u64 = 64 << 20;
/// Longest file of data, such as a scenario with each link in it, or a trace of a link's capacity.
pub const DATA: u64 = 1 << 30;

/// What is in a file of text that has `most` bytes at most.
///
/// # Errors
/// It cannot be read, it is longer, or it is not text in UTF-8 ([`io::ErrorKind::InvalidData`]).
pub fn read(path: &Path, most: u64) -> io::Result<String> {
    let file = File::open(path)?;
    // Room for all of it, so that no part of a key stays behind in memory where it had less.
    let length = file.metadata()?.len().min(most);
    let mut text = String::with_capacity(length as usize + 1);
    let mut bytes = file.take(most + 1);
    let read = bytes.read_to_string(&mut text);
    if bytes.limit() == 0 {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {} MB", most >> 20)));
    }
    read?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound_and_a_device_without_an_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("text");
        std::fs::write(&file, "é".repeat(8)).unwrap();
        assert_eq!(read(&file, 16).unwrap(), "é".repeat(8));
        for (path, most) in [(&*file, 15), (Path::new("/dev/zero"), 1 << 20)] {
            assert_eq!(read(path, most).unwrap_err().kind(), io::ErrorKind::FileTooLarge, "{}", path.display());
        }
        std::fs::write(&file, [0xff]).unwrap();
        assert_eq!(read(&file, 16).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read(&folder.path().join("none"), 16).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
