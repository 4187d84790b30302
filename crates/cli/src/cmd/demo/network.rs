//! The demo's network.
//!
//! ```text
//!  fs-<pid>-near                 fs-<pid>-middle                     fs-<pid>-far
//!   fibre 10.99.0.1 ---- fibre-a [ 100 Mbit/s 10 ms ] fibre-b ---- fibre 10.99.0.2
//!   dsl   10.99.1.1 ---- dsl-a   [  40 Mbit/s 25 ms ] dsl-b   ---- dsl   10.99.1.2
//!   lte   10.99.2.1 ---- lte-a   [  10 Mbit/s 40 ms ] lte-b   ---- lte   10.99.2.2
//! ```

use crate::testbed::emulator::{self, Line};
use crate::testbed::{End, Namespace, cable, offloads_off};
use anyhow::Result;
use fairspan_core::units::{Rate, Span};
use fairspan_live::emulate::Emulator;
use std::net::Ipv4Addr;

/// A link of the demo, the same in both directions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// Its name, and that of the interfaces at its ends.
    pub(crate) name: &'static str,
    /// Mbit/s, Ethernet headers included.
    pub(crate) rate_mbit: u32,
    /// One way.
    pub(crate) delay_ms: u32,
}

/// The three links. No loss; a queue of 100 ms before each.
pub(crate) const LINKS: [Link; 3] = [
    Link { name: "fibre", rate_mbit: 100, delay_ms: 10 },
    Link { name: "dsl", rate_mbit: 40, delay_ms: 25 },
    Link { name: "lte", rate_mbit: 10, delay_ms: 40 },
];

/// What a link's queue holds: what it sends in this time.
const QUEUE_MS: u32 = 100;

/// Three namespaces, six cables and an emulator between them.
#[derive(Debug)]
pub(crate) struct Network {
    // The emulator goes first: it holds the middle's interfaces.
    _emulator: Emulator,
    /// Where the sender and the connecting daemon stand.
    pub(crate) near: Namespace,
    /// Where the receiver and the listening daemon stand.
    pub(crate) far: Namespace,
    _middle: Namespace,
}

/// The addresses of link `index`: near, far.
pub(crate) fn addresses(index: usize) -> (Ipv4Addr, Ipv4Addr) {
    let net = index as u8;
    (Ipv4Addr::new(10, 99, net, 1), Ipv4Addr::new(10, 99, net, 2))
}

impl Network {
    /// Builds it.
    pub(crate) fn new() -> Result<Network> {
        let (near, far, middle) = (Namespace::new("near")?, Namespace::new("far")?, Namespace::new("middle")?);
        let mut ports = Vec::new();
        for (index, link) in LINKS.iter().enumerate() {
            let (near_address, far_address) = addresses(index);
            let [left, right] = ["a", "b"].map(|side| format!("{}-{side}", link.name));
            for (namespace, address, port) in [(&near, near_address, &left), (&far, far_address, &right)] {
                let address = format!("{address}/24");
                cable(
                    End { namespace, device: link.name, address: Some(&address) },
                    End { namespace: &middle, device: port, address: None },
                )?;
                // A wire carries packets, not 64 kB units.
                offloads_off(namespace, link.name)?;
            }
            ports.push([left, right]);
        }
        let lines: Vec<Line<'_>> = LINKS
            .iter()
            .zip(&ports)
            .map(|(link, [left, right])| Line {
                name: link.name,
                ends: [left, right],
                rate: Rate::from_mbit(u64::from(link.rate_mbit)),
                delay: Span::from_millis(u64::from(link.delay_ms)),
                queue: u64::from(link.rate_mbit) * 1_000_000 / 8 * u64::from(QUEUE_MS) / 1000,
            })
            .collect();
        let emulator = emulator::start(&middle, &lines)?;
        Ok(Network { _emulator: emulator, near, far, _middle: middle })
    }

    /// Lets an MPTCP connection over the first link use the others as well: the far end announces its addresses there.
    pub(crate) fn announce_mptcp(&self) -> Result<()> {
        for namespace in [&self.near, &self.far] {
            namespace.ip(&["mptcp", "limits", "set", "subflows", "8", "add_addr_accepted", "8"])?;
        }
        for (index, link) in LINKS.iter().enumerate().skip(1) {
            let (_, far) = addresses(index);
            self.far.ip(&["mptcp", "endpoint", "add", &far.to_string(), "dev", link.name, "signal"])?;
        }
        Ok(())
    }
}
