//! The folders of a daemon: how they are made, and where others may write in them.

use rustix::io::Errno;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Where what is kept between runs is, unless the configuration says otherwise: what systemd's `StateDirectory=` gives, or
/// `/var/lib/fairspan`.
pub(crate) fn state() -> PathBuf {
    let given = std::env::var_os("STATE_DIRECTORY").filter(|given| !given.is_empty());
    given.and_then(|given| std::env::split_paths(&given).next()).unwrap_or_else(|| "/var/lib/fairspan".into())
}

/// The folder that a file is in; that of a bare name is the present one.
pub(crate) fn of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a folder where there is none, with `mode`, and those above it, which all may pass; tells whether it made it.
pub(crate) fn make(folder: &Path, mode: u32) -> io::Result<bool> {
    DirBuilder::new().recursive(true).mode(0o755).create(of(folder)).map_err(|error| match error.kind() {
        // It exists as something else.
        io::ErrorKind::AlreadyExists => Errno::NOTDIR.into(),
        _ => error,
    })?;
    match DirBuilder::new().mode(mode).create(folder) {
        Ok(()) => Ok(true),
        Err(_) if folder.is_dir() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Where others may put files into a folder, or another in its place; and what would be right.
pub(crate) fn exposure(folder: &Path) -> Option<String> {
    let full = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let mode = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.mode() & 0o7777);
    let writable = |path: &&Path| mode(path) & 0o022 != 0;
    let is_there = full.exists();
    // Where the sticky bit is set, others may not replace what is there.
    let exposes = |path: &&Path| writable(path) && !(is_there && mode(path) & 0o1000 != 0);
    let around = full.ancestors().skip(1).find(|path| path.exists()).filter(exposes);
    let path = Some(full.as_path()).filter(writable).or(around)?;
    Some(format!(
        "others may write in `{}` (mode {:04o}): `chmod go-w` it, or name another",
        path.display(),
        mode(path)
    ))
}
