//! What a daemon gives up before it opens anything: rights over the host, system calls, files.
//!
//! All of it holds for the whole process, as it is done while there is one thread, and for what the daemon does to the host's
//! network until its end. `[interface] confine` says which of it is wanted, and status what of it holds.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | the order of things, and what is told of them |
//! | `capabilities` | the user, and the capabilities that stay |
//! | `needs` | what a daemon has to be able to do |
//! | `calls` | the system calls that stay (seccomp) |
//! | `refused` | which calls were refused |
//! | `held` | what is told of them |
//! | `files` | the files that stay (Landlock) |
//! | `own` | the folders of a daemon |

#[cfg(target_pointer_width = "64")]
mod calls;
mod capabilities;
mod files;
mod held;
mod needs;
mod own;
mod refused;

pub use held::{Confinement, ConfinementError, Held, Holds};
pub(crate) use needs::Needs;
pub(crate) use own::folders_of;
pub use refused::tell_refused;

use crate::config::Config;
use crate::system::system;

/// A processor of 32 bits has other calls, and none that `seccompiler` knows.
#[cfg(not(target_pointer_width = "64"))]
mod calls {
    use super::{Config, ConfinementError, Held, Holds};
    use std::env::consts::ARCH;

    pub(super) fn restrict(_: &Config) -> Result<Held, ConfinementError> {
        Ok(Held::new(Holds::Off, format!("no filter is known for {ARCH}")))
    }
}

/// Gives up what a daemon with this configuration does not need. To be called before there is a second thread.
///
/// # Errors
/// [`ConfinementError`]. A kernel that lacks a restraint is no error: what is returned says so.
pub fn enter(config: &Config) -> Result<Confinement, ConfinementError> {
    let wanted = config.interface.confine;
    // Where clocks are read without a system call is looked up once, and after this it could not be.
    system().monotonic();
    let (user, capabilities) = capabilities::reduce(config)?;
    // Landlock before seccomp, which leaves none of its calls.
    let landlock = if wanted.landlock { files::restrict(config)? } else { Held::unwanted() };
    let seccomp = if wanted.seccomp { calls::restrict(config)? } else { Held::unwanted() };
    Ok(Confinement { user, capabilities, seccomp, landlock })
}
