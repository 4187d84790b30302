//! Byte counters of interfaces.

use crate::testbed::Namespace;
use anyhow::{Context, Result};
use std::fs;

/// Bytes received so far by each of `devices` in `namespace`; 0 for one that is not there.
pub(crate) fn received(namespace: &Namespace, devices: &[&str]) -> Result<Vec<u64>> {
    let text = namespace.enter(|| fs::read_to_string("/proc/thread-self/net/dev").context("cannot read net/dev"))?;
    Ok(devices.iter().map(|device| received_by(&text, device).unwrap_or(0)).collect())
}

fn received_by(net_dev: &str, device: &str) -> Option<u64> {
    net_dev.lines().find_map(|line| {
        let (name, counters) = line.split_once(':')?;
        if name.trim() == device { counters.split_whitespace().next()?.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::received_by;

    #[test]
    fn the_first_counter_of_the_named_interface_is_read() {
        let text = "Inter-|   Receive\n face |bytes    packets\n    lo:  10 1 0\n  eth1: 12345 6 0\neth10:7 1 0\n";
        assert_eq!(received_by(text, "eth1"), Some(12345));
        assert_eq!(received_by(text, "eth10"), Some(7));
        assert_eq!(received_by(text, "eth"), None);
    }
}
