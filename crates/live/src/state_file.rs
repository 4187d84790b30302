//! Small files that a daemon keeps between its runs: read with care, written whole.
//!
//! A file is written beside the old one, brought to the disk, and renamed, so that it is never half a file.

use rustix::fs::OFlags;
use rustix::process::geteuid;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// What is in `file`; `None` where there is no file.
///
/// # Errors
/// Nor is it read if it is another user's.
pub(crate) fn read(file: &Path) -> io::Result<Option<String>> {
    // Others may have put something in its place, should they be able to write in the folder: a link, a pipe, a file.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut opened = match OpenOptions::new().read(true).custom_flags(flags).open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if ![0, geteuid().as_raw()].contains(&opened.metadata()?.uid()) {
        return Err(foreign("this is another user's"));
    }
    let mut text = String::new();
    opened.read_to_string(&mut text)?;
    Ok(Some(text))
}

/// What says that a file is not what this daemon wrote.
pub(crate) fn foreign(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Puts `text` into `file` in place of what was there.
pub(crate) fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    let new = Path::new(&name);
    match fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()?;
    fs::rename(new, file)?;
    File::open(file.parent().unwrap_or(Path::new("/")))?.sync_all()
}
