//! What is told of a daemon's restraints, and why there may be none.

use crate::privilege::lacking;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

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
    pub(super) fn new(holds: Holds, detail: impl Into<String>) -> Held {
        Held { holds, detail: detail.into() }
    }

    pub(super) fn unwanted() -> Held {
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
pub(super) fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
