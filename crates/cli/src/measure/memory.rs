//! What a process has in memory, and what a namespace has in sockets.

use crate::testbed::Namespace;
use anyhow::{Context, Result};
use std::fs;

/// Bytes of a process that are resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resident {
    pub(crate) now: u64,
    /// The most there ever were.
    pub(crate) peak: u64,
}

/// Reads `VmRSS` and `VmHWM` of /proc/PID/status.
pub(crate) fn resident(pid: u32) -> Result<Resident> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).context("the process is gone")?;
    let of = |name: &str| field(&text, name).with_context(|| format!("no {name} of process {pid}"));
    Ok(Resident { now: of("VmRSS:")?, peak: of("VmHWM:")? })
}

/// In bytes; the kernel writes kB and means 1024 of them.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// The TCP sockets in a namespace that are connected, connecting, listening or closing. One in TIME-WAIT is none: it is a
/// memory of the kernel's, without buffers, and ends by itself.
pub(crate) fn tcp_sockets(namespace: &Namespace) -> Result<usize> {
    namespace.enter(|| {
        let read = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}")).context(name.to_owned());
        Ok(alive(&read("tcp")?) + alive(&read("tcp6")?))
    })
}

/// Whether somebody listens at this TCP port in a namespace. Sockets of who did before count for nothing.
pub(crate) fn listens(namespace: &Namespace, port: u16) -> Result<bool> {
    namespace.enter(|| {
        let read = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}")).context(name.to_owned());
        Ok(is_listened_at(&read("tcp")?, port) || is_listened_at(&read("tcp6")?, port))
    })
}

/// The second column is the local address and port; state 0A is LISTEN.
fn is_listened_at(table: &str, port: u16) -> bool {
    table.lines().skip(1).any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let (local, state) = (columns.next().unwrap_or_default(), columns.nth(1));
        state == Some("0A") && local.ends_with(&format!(":{port:04X}"))
    })
}

/// The fourth column is the state; 06 is TIME-WAIT (net/tcp_states.h).
fn alive(table: &str) -> usize {
    table.lines().skip(1).filter(|line| line.split_whitespace().nth(3).is_some_and(|state| state != "06")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_bytes_and_sockets_in_time_wait_are_none() {
        assert_eq!(field("VmHWM:\t   12 kB\nVmRSS:\t    7 kB\n", "VmRSS:"), Some(7168));
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n\
                     0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n\
                     1: 0100007F:1F90 0100007F:8DE2 06 00000000:00000000\n\
                     2: 0100007F:1F90 0100007F:8DE4 01 00000000:00000000\n";
        assert_eq!(alive(table), 2);
        assert!(is_listened_at(table, 0x1f90) && !is_listened_at(table, 0x1f9) && !is_listened_at(table, 0x8de4));
        let (head, rest) = table.split_at(table.find("1: 0100").expect("a second row"));
        let left = [head.lines().next().unwrap_or_default(), "\n", rest].concat();
        assert!(!is_listened_at(&left, 0x1f90), "connections that are left over listen to nobody");
        assert!(resident(std::process::id()).is_ok_and(|own| own.now > 0 && own.now <= own.peak));
    }
}
