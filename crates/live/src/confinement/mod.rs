//! What a daemon gives up before it opens anything: rights over the host, system calls, files.
//!
//! All of it holds for the whole process, as it is done while there is one thread, and for what the daemon does to the host's
//! network until its end. `[interface] confine` says which of it is wanted, and status what of it holds.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | the order of things, and what is told of them |
//! | `capabilities` | the user, and the capabilities that stay |
//! | `calls` | the system calls that stay (seccomp) |
//! | `files` | the files that stay (Landlock) |

mod calls;
mod capabilities;
mod files;

pub(crate) use capabilities::lacking;

use crate::config::Config;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// `confine`: what a daemon does without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// All capabilities but two.
    pub capabilities: bool,
    /// System calls that no daemon makes.
    pub seccomp: bool,
    /// Files that it has nothing to do with.
    pub landlock: bool,
}

impl Wanted {
    /// The words of the setting, each with its place.
    pub(crate) const WORDS: [&str; 3] = ["capabilities", "seccomp", "landlock"];

    /// What a list of words asks for, or the word that is none of them.
    pub(crate) fn of<'a>(words: impl Iterator<Item = &'a str>) -> Result<Wanted, &'a str> {
        let mut wanted = Wanted { capabilities: false, seccomp: false, landlock: false };
        for word in words {
            match word {
                "capabilities" => wanted.capabilities = true,
                "seccomp" => wanted.seccomp = true,
                "landlock" => wanted.landlock = true,
                other => return Err(other),
            }
        }
        Ok(wanted)
    }
}

/// How far a restraint holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// As it is meant.
    On,
    /// In part.
    Partial,
    /// Not at all.
    Off,
}

impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Holds::On => "on",
            Holds::Partial => "partial",
            Holds::Off => "off",
        })
    }
}

/// A restraint, and what there is to say of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// How far it holds.
    pub holds: Holds,
    /// What stays, or why it does not hold.
    pub detail: String,
}

impl Held {
    fn new(holds: Holds, detail: impl Into<String>) -> Held {
        Held { holds, detail: detail.into() }
    }

    fn unwanted() -> Held {
        Held::new(Holds::Off, "interface.confine leaves it out")
    }
}

/// What holds of a daemon's restraints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// A user of its own.
    pub user: Held,
    /// Which capabilities stay.
    pub capabilities: Held,
    /// Whether system calls are limited.
    pub seccomp: Held,
    /// Whether files are limited.
    pub landlock: Held,
}

impl Confinement {
    /// Each with its name.
    pub fn each(&self) -> [(&'static str, &Held); 4] {
        [
            ("user", &self.user),
            ("capabilities", &self.capabilities),
            ("seccomp", &self.seccomp),
            ("landlock", &self.landlock),
        ]
    }
}

/// Why a daemon cannot be confined as its configuration says.
#[derive(Debug, Error)]
pub enum ConfinementError {
    /// `user` names nobody.
    #[error("interface.user: there is no user `{0}` in /etc/passwd; make one, as by `useradd --system {0}`")]
    NoUser(String),
    /// The user cannot be changed to.
    #[error("interface.user: cannot become `{user}`: {source}{}", lacking(source, "CAP_SETUID and CAP_SETGID"))]
    User {
        /// The user.
        user: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A folder of the user's cannot be made or given to it.
    #[error("interface.user: {}: {source}{}", .path.display(), lacking(source, "CAP_CHOWN"))]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A restraint that is wanted, and that the kernel knows, fails.
    #[error("interface.confine: {what}: {problem}; leave it out of the list if this system cannot have it")]
    Refused {
        /// Which.
        what: &'static str,
        /// Why.
        problem: String,
    },
}

impl ConfinementError {
    /// Whether a privilege is missing.
    pub fn is_permission(&self) -> bool {
        match self {
            ConfinementError::User { source, .. } | ConfinementError::Folder { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
            ConfinementError::NoUser(_) | ConfinementError::Refused { .. } => false,
        }
    }
}

/// The folder that a file is in; that of a bare name is the present one.
fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Gives up what a daemon with this configuration does not need. To be called before there is a second thread.
///
/// # Errors
/// [`ConfinementError`]. A kernel that lacks a restraint is no error: what is returned says so.
pub fn enter(config: &Config) -> Result<Confinement, ConfinementError> {
    let wanted = config.interface.confine;
    let (user, capabilities) = capabilities::reduce(config)?;
    // Landlock before seccomp, which leaves none of its calls.
    let landlock = if wanted.landlock { files::restrict(config)? } else { Held::unwanted() };
    let seccomp = if wanted.seccomp { calls::restrict()? } else { Held::unwanted() };
    Ok(Confinement { user, capabilities, seccomp, landlock })
}
