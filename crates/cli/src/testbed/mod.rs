//! The test-bed: network namespaces, the cables between them and the processes in them, all gone again at the end.
//!
//! `demo`, `bench tunnel` and the namespace tests build their networks from these parts. Everything made here is owned
//! by a value whose `Drop` takes it away, so an error, a panic and a Ctrl-C (see [`Interrupt`]) leave nothing behind.
//! What a `kill -9` leaves is removed by the next run: names carry the process number of their maker.
//!
//! The kernel is driven through `ip` (iproute2) and `ethtool`; a test-bed that a person can repeat by hand with the
//! same commands is worth more than a fast one.

pub(crate) mod emulator;
mod interrupt;
mod namespace;
mod privilege;
mod process;
pub(crate) mod tunnel;
mod veth;

pub(crate) use interrupt::{Interrupt, Interrupted};
pub(crate) use namespace::Namespace;
pub(crate) use privilege::{enter_user_namespace_if_needed, require};
pub(crate) use process::Process;
pub(crate) use veth::{End, cable, offloads_off};

use anyhow::{Context, Result, bail};
use std::process::{Command, Stdio};

/// Runs `program` with `args`; its error output becomes the error.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<String> {
    let output =
        Command::new(program).args(args).stdin(Stdio::null()).output().with_context(|| {
            format!("cannot run `{program}`: is it installed? (`make setup` installs what is missing)")
        })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{program} {}` failed: {}", args.join(" "), said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether `program` is found on the search path.
pub(crate) fn installed(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join(program).is_file()))
}
