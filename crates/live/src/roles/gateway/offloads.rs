//! What a device does with packets before the gateway sees them, as far as that matters to it.
//!
//! | feature of the kernel | what it does | what it means to a gateway |
//! |---|---|---|
//! | `rx-lro` | joins segments, and forgets how they were | the kernel does not forward them |
//! | `rx-gro-list` | chains packets with all their headers | a mark of congestion reaches the first of a chain only |
//! | `rx-gro` | joins segments so that they can be taken apart | without it each segment costs a verdict |
//! | `rx-gro-hw`, `rx-udp-gro-forwarding` | the same, by hardware; of UDP | nothing |

use crate::sys::packet;
use rustix::fd::{AsFd, BorrowedFd};
use socket2::{Domain, Socket, Type};
use std::ffi::{CStr, CString};
use std::io;

/// Something about a device that should be otherwise: what is found, and what helps. The first is whether nothing works so.
pub(super) type Problem = (bool, String, String);

/// The features that are active at a device, by the kernel's names.
///
/// # Errors
/// What the kernel says: a device that is not there, or one that tells of none.
pub(crate) fn active(device: &str) -> io::Result<Vec<String>> {
    named(device, packet::features)
}

/// The features that can be switched on or off at a device, by the kernel's names.
///
/// # Errors
/// As of those that are active.
pub(crate) fn changeable(device: &str) -> io::Result<Vec<String>> {
    named(device, packet::changeable_features)
}

/// Names the features of which `ask` gives the bits.
fn named(
    device: &str,
    ask: impl FnOnce(BorrowedFd<'_>, &CStr, usize) -> io::Result<Vec<u32>>,
) -> io::Result<Vec<String>> {
    let socket = Socket::new(Domain::UNIX, Type::DGRAM, None)?;
    let device = CString::new(device)?;
    let names = packet::feature_names(socket.as_fd(), &device)?;
    let blocks = ask(socket.as_fd(), &device, names.len())?;
    let is_active = |bit: usize| blocks.get(bit / 32).is_some_and(|block| block >> (bit % 32) & 1 == 1);
    Ok(names.into_iter().enumerate().filter(|(bit, _)| is_active(*bit)).map(|(_, name)| name).collect())
}

/// What of that should be otherwise; `whole`: the gateway takes units of joined segments as they are.
pub(super) fn problems(device: &str, active: &[String], whole: bool) -> Vec<Problem> {
    let has = |name: &str| active.iter().any(|other| other == name);
    let mut problems = Vec::new();
    if has("rx-lro") {
        let found = format!(
            "{device} joins segments so that nobody can take them apart again (LRO): the kernel does not forward them"
        );
        problems.push((true, found, format!("`ethtool -K {device} lro off`")));
    }
    if has("rx-gro-list") {
        let found = format!(
            "{device} chains packets (rx-gro-list): a mark of congestion would reach the first of a chain only"
        );
        problems.push((false, found, format!("`ethtool -K {device} rx-gro-list off`")));
    }
    if whole && !has("rx-gro") {
        let found = format!("{device} joins no segments (GRO): each costs as much as 64 kB at once would");
        problems.push((false, found, format!("`ethtool -K {device} gro on`, where the rate is high")));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_be_taken_apart_is_wrong_and_nothing_is_said_of_what_does_no_harm() {
        let told = |active: &[&str], whole| {
            let active: Vec<String> = active.iter().map(|&name| name.to_owned()).collect();
            let problems = problems("lan0", &active, whole);
            problems.into_iter().map(|(wrong, _, remedy)| (wrong, remedy)).collect::<Vec<_>>()
        };
        assert_eq!(told(&["rx-gro", "rx-gro-hw", "rx-udp-gro-forwarding", "tx-lro"], true), []);
        assert_eq!(told(&[], false), [], "the kernel takes units apart before");
        let wrong = |wrong, option: &str| (wrong, format!("`ethtool -K lan0 {option}`"));
        assert_eq!(told(&["rx-lro", "rx-gro-list"], false), [wrong(true, "lro off"), wrong(false, "rx-gro-list off")]);
        assert!(told(&[], true)[0].1.contains("gro on"));
    }

    #[test]
    fn features_of_a_device_are_the_kernel_s_own_and_one_that_is_not_there_has_none() {
        let active = active("lo").expect("the loopback device");
        assert!(active.iter().any(|name| name == "rx-gro" || name == "loopback"), "{active:?}");
        assert!(
            changeable("lo").expect("the loopback device").iter().any(|name| name == "rx-gro"),
            "GRO of each can be"
        );
        assert!(super::active("no-such-device").is_err());
    }
}
