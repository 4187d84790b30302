//! What is told of a daemon's restraints, and why there may be none.

use crate::privilege::lacking;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::PathBuf;
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
    /// With the system calls that were refused until now.
    pub(crate) fn now(&self) -> Confinement {
        let mut now = self.clone();
        let refused = super::refused::names();
        if !refused.is_empty() {
            now.seccomp.detail += &format!("; refused: {}", refused.join(", "));
        }
        now
    }

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
    /// A folder cannot be made, or given to the user.
    #[error("interface.user: {}: {source}{}", .path.display(), lacking(source, "CAP_CHOWN"))]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The user may not write in a folder that it needs, and that is not the daemon's to give away.
    #[error(
        "interface.user: `{user}` cannot write in `{}`: {reason}; {setting} must be in a folder of its own: name one, which is \
         made where there is none, or give it this one (`chown {user}`)",
        .path.display()
    )]
    NotTheirs {
        /// The user.
        user: String,
        /// The setting that names the folder.
        setting: &'static str,
        /// The folder.
        path: PathBuf,
        /// The system's.
        reason: io::Error,
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
            ConfinementError::NoUser(_) | ConfinementError::NotTheirs { .. } | ConfinementError::Refused { .. } => {
                false
            }
        }
    }
}
