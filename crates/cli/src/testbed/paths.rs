//! Two hosts and the emulated paths between them.
//!
//! ```text
//!  fs-<pid>-near                 fs-<pid>-middle                     fs-<pid>-far
//!   fibre 10.99.0.1 ---- fibre-a [ 100 Mbit/s 10 ms ] fibre-b ---- fibre 10.99.0.2
//!   dsl   10.99.1.1 ---- dsl-a   [  40 Mbit/s 25 ms ] dsl-b   ---- dsl   10.99.1.2
//! ```

use super::emulator::{self, Line};
use super::{End, Namespace, cable, offloads_off};
use anyhow::{Context, Result};
use fairspan_live::emulate::{Emulator, Profile};
use std::fs;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Three namespaces, two cables for each path, and an emulator between them.
#[derive(Debug)]
pub(crate) struct Paths {
    // The emulator goes first: it holds the middle's interfaces.
    emulator: Emulator,
    /// Where the sender and the connecting daemon stand.
    pub(crate) near: Namespace,
    /// Where the receiver and the listening daemon stand.
    pub(crate) far: Namespace,
    _middle: Namespace,
}

/// The addresses of path `index`: near, far.
pub(crate) fn addresses(index: usize) -> (Ipv4Addr, Ipv4Addr) {
    let net = index as u8;
    (Ipv4Addr::new(10, 99, net, 1), Ipv4Addr::new(10, 99, net, 2))
}

impl Paths {
    /// Builds it. Each path has a name, which its interfaces at both hosts also have, and is the same in both directions.
    pub(crate) fn new(paths: &[(&str, Profile)]) -> Result<Paths> {
        let both: Vec<_> = paths.iter().map(|(name, profile)| (*name, [profile.clone(), profile.clone()])).collect();
        Paths::each_way(&both)
    }

    /// The same for paths that differ by direction: from near to far, and back.
    pub(crate) fn each_way(paths: &[(&str, [Profile; 2])]) -> Result<Paths> {
        let (near, far, middle) = (Namespace::new("near")?, Namespace::new("far")?, Namespace::new("middle")?);
        let mut ports = Vec::new();
        for (index, (name, _)) in paths.iter().enumerate() {
            let (near_address, far_address) = addresses(index);
            let [left, right] = ["a", "b"].map(|side| format!("{name}-{side}"));
            for (namespace, address, port) in [(&near, near_address, &left), (&far, far_address, &right)] {
                let address = format!("{address}/24");
                cable(
                    End { namespace, device: name, address: Some(&address) },
                    End { namespace: &middle, device: port, address: None },
                )?;
                // A wire carries packets, not 64 kB units.
                offloads_off(namespace, name)?;
            }
            ports.push([left, right]);
        }
        let lines = paths.iter().zip(&ports).map(|((name, profiles), [left, right])| Line {
            name,
            ends: [left, right],
            profiles: profiles.clone(),
        });
        let emulator = emulator::start(&middle, lines)?;
        Ok(Paths { emulator, near, far, _middle: middle })
    }

    /// How long the emulator runs: the time by which outages and spells of the profiles come.
    pub(crate) fn age(&self) -> Duration {
        Duration::from_secs_f64(self.emulator.stats().seconds)
    }

    /// Bytes that each path has brought to the far host.
    pub(crate) fn carried(&self) -> Vec<u64> {
        self.emulator.stats().links.iter().map(|link| link.forward.sent_bytes).collect()
    }

    /// Lets an MPTCP connection over another path use these as well, of which the first has the number `first`: the far end announces its
    /// addresses there.
    pub(crate) fn announce_mptcp(&self, names: &[&str], first: usize) -> Result<()> {
        for namespace in [&self.near, &self.far] {
            namespace.ip(&["mptcp", "limits", "set", "subflows", "8", "add_addr_accepted", "8"])?;
        }
        for (index, name) in (first..).zip(names) {
            let (_, far) = addresses(index);
            self.far.ip(&["mptcp", "endpoint", "add", &far.to_string(), "dev", name, "signal"])?;
        }
        Ok(())
    }

    /// At both hosts TCP's sockets buffer up to `bytes`, and remember nothing of former connections: what one run learnt of a path is nothing
    /// to the next.
    pub(crate) fn set_buffers(&self, bytes: u64) -> Result<()> {
        for namespace in [&self.near, &self.far] {
            namespace.enter(|| {
                for name in ["tcp_rmem", "tcp_wmem"] {
                    let sizes = format!("4096 131072 {bytes}");
                    fs::write(format!("/proc/sys/net/ipv4/{name}"), sizes).with_context(|| name.to_owned())?;
                }
                fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1").context("tcp_no_metrics_save")
            })?;
        }
        Ok(())
    }
}
