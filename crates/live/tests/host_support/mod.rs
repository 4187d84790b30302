//! Namespaces of the tests' own: a thread enters a fresh network namespace, which ends with it.
#![allow(dead_code, missing_docs, unreachable_pub)]

#[path = "../privilege/mod.rs"]
mod privilege;

pub use privilege::{may_make_namespaces, may_write};

use fairspan_live::enter_new_network_namespace;
use std::thread::{self, JoinHandle};

/// Runs `body` in a thread in a network namespace of its own.
pub fn in_namespace<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::spawn(move || {
        enter_new_network_namespace().expect("a namespace");
        body()
    })
}

/// The counter `name` of protocol `protocol` in this thread's namespace (`/proc/net/snmp`).
pub fn snmp(protocol: &str, name: &str) -> u64 {
    counter("/proc/thread-self/net/snmp", protocol, name)
}

/// The same of `/proc/net/netstat`.
pub fn netstat(protocol: &str, name: &str) -> u64 {
    counter("/proc/thread-self/net/netstat", protocol, name)
}

fn counter(file: &str, protocol: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).expect("counters");
    let prefix = format!("{protocol}:");
    let mut lines = text.lines().filter(|line| line.starts_with(&prefix));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let column = names.split_whitespace().position(|n| n == name).expect("the counter");
    values.split_whitespace().nth(column).expect("its value").parse().expect("a number")
}

/// The counter `name` in `/proc/net/snmp6` of this thread's namespace.
pub fn snmp6(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp6").expect("snmp6");
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name)).expect("the counter");
    line.split_whitespace().nth(1).expect("its value").parse().expect("a number")
}
