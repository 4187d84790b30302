//! Which system calls were refused.

use crate::sys::refused::{Calls, REFUSED};
use syscalls::Sysno;

/// What the log has told.
static TOLD: Calls = Calls::new();

/// Tells each system call that was refused in the log, once.
pub fn tell_refused() {
    for call in REFUSED.iter().filter(|call| TOLD.insert(*call)) {
        tracing::warn!(
            call = name(call),
            "a system call was refused, as no daemon with such a configuration makes it: please report this; with a list \
             without \"seccomp\" in interface.confine every call is made"
        );
    }
}

/// The names of those that were, in order of their numbers.
pub(super) fn names() -> Vec<String> {
    REFUSED.iter().map(name).collect()
}

fn name(call: u64) -> String {
    Sysno::new(call as usize).map_or_else(|| format!("number {call} or more"), |known| known.name().to_owned())
}
