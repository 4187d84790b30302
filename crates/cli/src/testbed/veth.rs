//! Cables between namespaces: veth pairs, their addresses and their offloads.

use super::{Namespace, run};
use anyhow::{Context, Result};

/// One end of a cable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End<'a> {
    /// The namespace it stands in.
    pub(crate) namespace: &'a Namespace,
    /// What the interface is called there; at most 15 bytes.
    pub(crate) device: &'a str,
    /// Its address with prefix length, if it has one.
    pub(crate) address: Option<&'a str>,
}

/// Joins two namespaces by a veth pair, both ends up. It goes with either namespace.
pub(crate) fn cable(left: End<'_>, right: End<'_>) -> Result<()> {
    run(
        "ip",
        &[
            "link",
            "add",
            left.device,
            "netns",
            left.namespace.name(),
            "type",
            "veth",
            "peer",
            "name",
            right.device,
            "netns",
            right.namespace.name(),
        ],
    )?;
    for end in [left, right] {
        // No link-local addresses: an idle cable stays silent.
        end.namespace.ip(&["link", "set", end.device, "addrgenmode", "none"])?;
        if let Some(address) = end.address {
            end.namespace.ip(&["address", "add", address, "dev", end.device])?;
        }
        end.namespace.ip(&["link", "set", end.device, "up"])?;
    }
    Ok(())
}

/// Switches segmentation and coalescing of `device` off, so that every packet crosses as a packet of its own, as on a
/// wire. (As the kernel sets it up, a veth passes 64 kB units whole.)
pub(crate) fn offloads_off(namespace: &Namespace, device: &str) -> Result<()> {
    let args = ["-K", device, "tso", "off", "gso", "off", "gro", "off", "tx-udp-segmentation", "off"];
    namespace
        .enter(|| run("ethtool", &args))
        .with_context(|| format!("cannot switch the offloads of {device} off"))
        .map(drop)
}
