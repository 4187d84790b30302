//! Configurations that the program writes itself: the hub's, when it invites, and that of a site which joins.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | files that are written whole, with keys in files of their own |
//! | `hub` | a hub invites a site: its entry, its address, the invitation |
//! | `site` | a site that has joined |
//! | `addresses` | where a hub can be called, and which network is free inside |
//!
//! What is written is read by [`Config::load`](crate::config::Config::load) before anybody uses it, and taken back where that refuses it.

mod addresses;
mod hub;
mod site;

pub use addresses::places_of_this_host;
pub use hub::{Invited, Wish, invite};
pub use site::{Channel, Site, key_file_of, networks, overlap};

use crate::folders;
use crate::secure::{OsEntropy, PrivateKey};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use thiserror::Error;
use zeroize::Zeroizing;

/// Longest key file that is read.
const KEY_FILE_MAX: u64 = 4096;

/// Why nothing was set up. Nothing of what was written by then is left.
#[derive(Debug, Error)]
pub enum SetupError {
    /// A file cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something is not as it has to be; what, and what would be right.
    #[error("{0}")]
    Wrong(String),
}

impl SetupError {
    /// Whether a privilege is missing.
    pub fn is_permission(&self) -> bool {
        matches!(self, SetupError::File { source, .. } if source.kind() == ErrorKind::PermissionDenied)
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> SetupError {
    let path = path.to_owned();
    move |source| SetupError::File { path, source }
}

/// Holds off all others that set something up in a folder, until it is dropped. The folder is made where there is none.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "the lock ends with the descriptor")] File);

impl Turn {
    /// Waits for its turn.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(file: &Path) -> Result<Turn, SetupError> {
        let folder = folders::of(file);
        folders::make(folder, 0o700).map_err(failed(folder))?;
        let opened = File::open(folder).map_err(failed(folder))?;
        flock(&opened, FlockOperation::LockExclusive).map_err(|error| failed(folder)(error.into()))?;
        Ok(Turn(opened))
    }
}

/// Files that were made, and are removed again unless they are [kept](Made::keep).
#[derive(Debug, Default)]
struct Made(Vec<PathBuf>);

impl Made {
    /// Writes a new file that only its owner may read.
    fn write(&mut self, path: &Path, text: &str) -> Result<(), SetupError> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed(path))?;
        self.0.push(path.to_owned());
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed(path))
    }

    /// The private key in a file; a new one where there is no file.
    fn key(&mut self, path: &Path) -> Result<PrivateKey, SetupError> {
        if let Some(key) = read_key(path)? {
            return Ok(key);
        }
        let key = PrivateKey::generate(&mut OsEntropy::new());
        self.write_key(path, &key)?;
        Ok(key)
    }

    fn write_key(&mut self, path: &Path, key: &PrivateKey) -> Result<(), SetupError> {
        self.write(path, &Zeroizing::new(format!("{}\n", key.to_base64().as_str())))
    }

    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            let _ = fs::remove_file(path);
        }
    }
}

/// The private key in a file, if there is one.
fn read_key(path: &Path) -> Result<Option<PrivateKey>, SetupError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed(path))?,
    };
    let mut text = Zeroizing::new(String::new());
    file.take(KEY_FILE_MAX).read_to_string(&mut text).map_err(failed(path))?;
    let wrong = |error| SetupError::Wrong(format!("{}: {error}", path.display()));
    text.trim().parse().map(Some).map_err(wrong)
}

/// Puts `text` into a file in place of what is there, with the same owner and mode; what a link leads to, not the link.
fn replace(path: &Path, text: &str) -> Result<(), SetupError> {
    let real = fs::canonicalize(path).map_err(failed(path))?;
    let before = fs::metadata(&real).map_err(failed(&real))?;
    let mut name = real.clone().into_os_string();
    name.push(".new");
    let mut made = Made::default();
    let new = PathBuf::from(name);
    // What somebody left who was killed here.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(&new)(error)),
        _ => {}
    }
    made.write(&new, text)?;
    let file = File::open(&new).map_err(failed(&new))?;
    // Whoever is not root owns it already.
    let _ = fchown(&file, Some(before.uid()), Some(before.gid()));
    file.set_permissions(before.permissions()).map_err(failed(&new))?;
    fs::rename(&new, &real).map_err(failed(&real))?;
    made.keep();
    File::open(folders::of(&real)).and_then(|folder| folder.sync_all()).map_err(failed(&real))
}

/// The name of a file without its folder and its ending, as files beside it are called.
fn stem(file: &Path) -> String {
    file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The name of the interface that a file is for: that of the file, if an interface can be called so.
fn interface_of(file: &Path) -> String {
    let stem = stem(file);
    let is_name = (1..=15).contains(&stem.len())
        && stem.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_'))
        && !["lo", "all", "default"].contains(&stem.as_str());
    if is_name { stem } else { "fs0".to_owned() }
}

/// A text between quotation marks, as TOML has it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_is_made_is_gone_again_unless_it_is_kept_and_a_key_that_is_there_is_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fs0.key");
        let mut made = Made::default();
        let key = made.key(&path).expect("made");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        drop(made);
        assert!(!path.exists());
        let mut made = Made::default();
        let other = made.key(&path).expect("made");
        assert_ne!(key.public_key(), other.public_key());
        made.keep();
        let mut made = Made::default();
        assert_eq!(made.key(&path).expect("read").public_key(), other.public_key());
        drop(made);
        assert!(path.exists(), "it was there before");
        fs::write(&path, "nonsense").expect("written");
        let error = Made::default().key(&path).expect_err("no key").to_string();
        assert!(error.contains("fs0.key") && !error.contains("nonsense"), "{error}");
    }

    #[test]
    fn a_file_is_replaced_whole_with_its_mode_and_through_a_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "one").expect("written");
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("a mode");
        std::os::unix::fs::symlink(&real, &link).expect("a link");
        fs::write(folder.path().join("real.new"), "left by one who was killed").expect("written");
        replace(&link, "two").expect("replaced");
        assert_eq!(fs::read_to_string(&real).expect("read"), "two");
        assert_eq!(fs::metadata(&real).expect("there").permissions().mode() & 0o777, 0o640);
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }

    #[test]
    fn an_interface_is_called_as_its_file_where_that_can_be() {
        for (file, name) in [
            ("/etc/fairspan/fs0.toml", "fs0"),
            ("home.toml", "home"),
            ("a-name-that-is-too-long.toml", "fs0"),
            ("a b.toml", "fs0"),
            ("lo.toml", "fs0"),
        ] {
            assert_eq!(interface_of(Path::new(file)), name);
        }
    }
}
