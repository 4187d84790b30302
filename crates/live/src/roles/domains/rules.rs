//! What is asked of the kernel: that it shows questions and answers of DNS before they go on, and looks into the table of addresses.
//!
//! A table of packet rules that the kernel removes with the process. Packets that nobody takes pass. Questions are seen before anything
//! changes their addresses, and answers when all of it is undone, so that both have the ends that the asker knows.

use super::watcher::PORT;
use crate::config::Interface;
use crate::netlink::Rule;
use crate::netlink::nftables::{Hook, Kind, PacketRule, Transaction};
use crate::roles::network::RULE_PRIORITY;
use fairspan_core::ip::{TCP, UDP};

/// Before addresses are changed, and behind it.
const BEFORE: i32 = -150;
const BEHIND: i32 = 150;

/// The table's name.
pub(super) fn table_of(interface: &Interface) -> String {
    format!("fairspan-dns-{}", interface.name)
}

/// The number of the kernel's queue. Those of gateways begin behind it.
pub(super) fn queue_of(interface: &Interface) -> u16 {
    (interface.fwmark & 0xffff) as u16
}

/// The rules by which all packets but the daemon's own look into its table first, and overlook a default route in it.
pub(super) fn looks(interface: &Interface) -> [Rule; 2] {
    [false, true].map(|is_v6| Rule {
        is_v6,
        priority: RULE_PRIORITY - 1,
        fwmark: Some(interface.fwmark),
        invert: true,
        table: interface.fwmark,
        suppress_prefix_length: Some(0),
    })
}

pub(super) fn write(queue: u16, to: &mut Transaction) {
    let rule = PacketRule::new;
    for (chain, hook) in [("asks", Hook::Prerouting), ("asks-itself", Hook::Output)] {
        to.base_chain(chain, Kind::Filter, hook, BEFORE);
        if hook == Hook::Prerouting {
            // Seen already when it was made.
            to.rule(chain, &rule().arrives_by("lo").accept());
        }
        to.rule(chain, &rule().protocol(UDP).towards_port(PORT).queue(queue));
        // Of a connection only its begin tells anything.
        to.rule(chain, &rule().tcp_syn().towards_port(PORT).queue(queue));
    }
    for (chain, hook) in [("hears", Hook::Input), ("passes-on", Hook::Postrouting)] {
        to.base_chain(chain, Kind::Filter, hook, BEHIND);
        if hook == Hook::Postrouting {
            // Seen when it arrives.
            to.rule(chain, &rule().leaves_by("lo").accept());
        }
        for protocol in [UDP, TCP] {
            to.rule(chain, &rule().protocol(protocol).from_port(PORT).queue(queue));
        }
    }
}
