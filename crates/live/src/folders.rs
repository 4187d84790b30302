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

/// Of a path, or what it is in, the link that leads to nothing.
pub(crate) fn dangling(path: &Path) -> Option<&Path> {
    path.ancestors().find(|above| !above.exists() && above.is_symlink())
}

/// A user without privileges over files, and without further groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl User {
    /// Why it cannot make files in `folder`, or that folder where there is none: as far as the modes say, which is all but lists of
    /// access.
    pub(crate) fn cannot_write(&self, folder: &Path) -> Option<String> {
        const WRITE: u32 = 0o3;
        const PASS: u32 = 0o1;
        let full = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let mut there = full.ancestors().skip_while(|path| !path.exists());
        let first = there.next()?;
        let name = &self.name;
        if !self.may_use(first, WRITE) {
            return Some(format!("`{name}` cannot write in `{}`", first.display()));
        }
        let closed = there.find(|above| !self.may_use(above, PASS))?;
        Some(format!("`{name}` cannot pass through `{}` (`chmod +x` it)", closed.display()))
    }

    /// Whether it may do with a file all that the three bits of `wanted` say: 4 is to read it, 2 to write it, 1 to pass through it.
    pub(crate) fn may_use(&self, path: &Path, wanted: u32) -> bool {
        let Ok(found) = std::fs::metadata(path) else { return true };
        let shift = match (found.uid() == self.uid, found.gid() == self.gid) {
            (true, _) => 6,
            (_, true) => 3,
            _ => 0,
        };
        found.mode() >> shift & wanted == wanted
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_user_may_write_where_the_bits_of_its_class_say_so_and_the_way_is_open() {
        let around = tempfile::tempdir().expect("a folder");
        let folder = around.path().join("folder");
        create_dir(&folder).expect("made");
        let own = std::fs::metadata(&folder).expect("there");
        let of = |uid, gid| User { name: "somebody".to_owned(), uid, gid };
        let [owner, group, other] = [(0, 1), (1, 0), (1, 1)].map(|(u, g)| of(own.uid() + u, own.gid() + g));
        let mode = |path: &Path, mode| set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
        mode(around.path(), 0o755);
        for (bits, may) in [
            (0o700, [true, false, false]),
            (0o070, [false, true, false]),
            (0o007, [false, false, true]),
            (0o775, [true, true, false]),
            (0o666, [false; 3]),
        ] {
            mode(&folder, bits);
            let can = [&owner, &group, &other].map(|user| user.cannot_write(&folder).is_none());
            assert_eq!(can, may, "{bits:o}");
        }
        mode(&folder, 0o777);
        assert_eq!(other.cannot_write(&folder), None);
        assert!(other.cannot_write(&folder.join("new/folders")).is_none(), "it is made in what is there");
        mode(around.path(), 0o700);
        assert!(other.cannot_write(&folder).is_some_and(|why| why.contains("cannot pass through")));
        mode(&folder, 0o755);
        assert!(other.cannot_write(&folder.join("new")).is_some_and(|why| why.contains("cannot write in")));
    }

    #[test]
    fn a_link_that_leads_to_nothing_is_found_on_the_way() {
        let around = tempfile::tempdir().expect("a folder");
        let link = around.path().join("link");
        std::os::unix::fs::symlink(around.path().join("nothing"), &link).expect("a link");
        assert_eq!(dangling(&link.join("folder")), Some(link.as_path()));
        create_dir(around.path().join("nothing")).expect("made");
        assert_eq!(dangling(&link.join("folder")), None);
    }
}
