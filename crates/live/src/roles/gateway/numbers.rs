//! The numbers of gateways in one network namespace: marks, routing tables, queues.
//!
//! A gateway that lives has its queue, which no other can take. So a routing rule of a gateway whose queue is free was left by one that was
//! killed: the kernel takes packet rules away with their process, and routing rules it does not.

use super::rules::{Marks, NUMBERS, PRIORITY, home_of, windows_of};
use crate::netlink::queue::PacketQueue;
use crate::netlink::{Netlink, NetlinkError, Rule};
use crate::shell::error::DaemonError;
use std::collections::BTreeMap;

/// What to do where another process has a gateway's queue.
pub(super) const TAKEN: &str = "mostly that is another gateway in this network namespace; end it, or write an `fwmark` in [interface] that is at least \
                                8 away from its own, for each gateway of the lower one";

/// Takes away what killed gateways left, for one that has its queue by now, and nothing else.
///
/// # Errors
/// Another gateway lives whose numbers are among those of `marks`, or the other way round.
pub(super) fn clear(netlink: &mut Netlink, name: &str, marks: Marks) -> Result<(), DaemonError> {
    for (first, rules) in all(netlink)? {
        let other = Marks::from_first(first);
        if other == marks || !lives(other) {
            remove(netlink, other, rules);
        } else if first.abs_diff(marks.first()) < NUMBERS {
            return Err(DaemonError::setting(name, overlap(marks, other)));
        }
    }
    Ok(())
}

/// Takes away what killed gateways left, for a daemon that has none.
pub(super) fn clear_killed() {
    let cleared = Netlink::open().and_then(|mut netlink| {
        for (first, rules) in all(&mut netlink)? {
            let marks = Marks::from_first(first);
            if !lives(marks) {
                remove(&mut netlink, marks, rules);
            }
        }
        Ok(())
    });
    if let Err(error) = cleared {
        tracing::debug!(%error, "whether a killed gateway left routing rules is not known");
    }
}

/// The routing rules of all gateways in this network namespace, by their first numbers.
fn all(netlink: &mut Netlink) -> Result<BTreeMap<u32, Vec<Rule>>, NetlinkError> {
    let mut all: BTreeMap<u32, Vec<Rule>> = BTreeMap::new();
    for rule in netlink.own_rules()? {
        // What it leads home, and what has larger windows.
        let place = rule.priority.checked_sub(PRIORITY).filter(|place| *place < 2);
        if let (Some(place), Some(mark), false) = (place, rule.fwmark, rule.invert) {
            let first = rule.table.wrapping_sub(place);
            let is_near = place == 1 && mark == Marks::from_first(first).near();
            if mark == rule.table || is_near {
                all.entry(first).or_default().push(rule);
            }
        }
    }
    Ok(all)
}

/// Whether a process has the queue of a gateway with these numbers, or may have it: only who gets it knows.
fn lives(marks: Marks) -> bool {
    PacketQueue::open(marks.queue(), 1, 1, false).is_err()
}

fn remove(netlink: &mut Netlink, marks: Marks, rules: Vec<Rule>) {
    let refused: Vec<NetlinkError> = rules.iter().filter_map(|rule| netlink.remove_rule(rule).err()).collect();
    // Their routes, where it had such.
    for is_v6 in [false, true] {
        let _ = netlink.remove_home(&home_of(marks, is_v6));
    }
    let _ = netlink.remove_windows(&windows_of(marks, "", 0));
    match refused.first() {
        None => tracing::info!(mark = marks.first(), "removed routing rules that a killed gateway left"),
        Some(error) => tracing::debug!(%error, "routing rules that a killed gateway left stay"),
    }
}

fn overlap(marks: Marks, other: Marks) -> String {
    let last = |marks: Marks| marks.first().wrapping_add(NUMBERS - 1);
    format!(
        "its gateway would have the marks {} to {}, and another one in this network namespace has {} to {}: write an `fwmark` in \
         [interface] that is at least {NUMBERS} away from the other daemon's for each gateway of the lower one",
        marks.first(),
        last(marks),
        other.first(),
        last(other)
    )
}
