//! What a gateway asks of the kernel: which packets are handed over, and which go to sockets of its own.
//!
//! A table of packet rules that the kernel removes with the process, and a routing rule by which packets with a mark are this
//! host's. Where the process is gone, nobody sets the mark any more, and packets pass as if there had never been a gateway: what
//! is handed over passes where nobody takes it, and what is led to a socket passes where none listens.
//!
//! | mark | set by | what follows |
//! |---|---|---|
//! | split | the gateway, on a SYN | the listening socket gets it, or it passes where there is none |
//! | refused | the gateway, on a SYN | the kernel answers with a reset |
//! | congested | the gateway | the kernel marks it, "congestion experienced" |
//! | local | these rules | the packet is this host's, wherever it goes to |
//! | own, near | the gateway's sockets that call, and those of callers | a routing table with a larger initial window, where one is wanted |
//!
//! **Connection tracking follows the far half alone.** Both halves of a split connection have the same addresses and ports, and other sequence
//! numbers. So it would take them for one: it would drop the SYN of the second one, call most segments invalid, and translate those of a caller
//! as those of the gateway. What comes from callers is looked at before it (and what of it is not split, it sees behind that), and what belongs
//! to their sockets, both ways, it does not see. The far half is translated and filtered as the connection itself would be.

use super::ranges;
use crate::config::{Config, Gateway};
use crate::netlink::nftables::{Hook, Kind, OwnedTable, PacketRule, Transaction};
use crate::netlink::{Guard, Home, NetlinkError, Windows};
use fairspan_core::ip::TCP;

/// Fragments are put together (-400), and connection tracking has not looked at packets (-200).
const ARRIVES: i32 = -310;
/// Behind it, and before connection tracking.
const UNTRACKS: i32 = -305;
/// Connection tracking has looked at packets, and no address was changed (-100).
const DIVERTS: i32 = -150;
/// The routing rules' places, before the main table's.
pub(super) const PRIORITY: u32 = 5190;
/// A segment of IPv4 without data, with timestamps and three blocks of SACK, is not longer.
const ACKNOWLEDGMENT: u32 = 80;
/// Bytes of data in a segment, for windows: what an MTU of 1500 leaves.
const SEGMENT: u64 = 1440;
/// Marks, tables and the kernel's queue have these numbers and those behind them; a bond with the same `fwmark` uses others.
const OFFSET: u32 = 256;
/// So far the first numbers of two gateways of one daemon are apart.
pub(super) const NUMBERS: u32 = 8;

/// The marks, each the first plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks(u32);

impl Marks {
    pub(super) fn of(config: &Config) -> Marks {
        let slot = config.gateway.as_ref().and_then(|gateway| gateway.of_peer.as_ref()).map_or(0, |peer| peer.slot);
        Marks(config.interface.fwmark.wrapping_add(OFFSET).wrapping_add(slot.wrapping_mul(NUMBERS)))
    }

    /// Those of a gateway with this first number.
    pub(super) fn from_first(first: u32) -> Marks {
        Marks(first)
    }

    pub(super) fn first(self) -> u32 {
        self.0
    }

    pub(super) fn local(self) -> u32 {
        self.0
    }

    pub(super) fn own(self) -> u32 {
        self.0.wrapping_add(1)
    }

    pub(super) fn split(self) -> u32 {
        self.0.wrapping_add(2)
    }

    pub(super) fn refused(self) -> u32 {
        self.0.wrapping_add(3)
    }

    pub(super) fn congested(self) -> u32 {
        self.0.wrapping_add(4)
    }

    pub(super) fn near(self) -> u32 {
        self.0.wrapping_add(5)
    }

    /// The number of the kernel's queue.
    pub(super) fn queue(self) -> u16 {
        (self.0 & 0xffff) as u16
    }
}

/// The table's name.
pub(super) fn table_of(config: &Config) -> String {
    let name = &config.interface.name;
    match config.gateway.as_ref().and_then(|gateway| gateway.of_peer.as_ref()) {
        Some(peer) => format!("fairspan-split-{name}-{}", peer.slot),
        None => format!("fairspan-gw-{name}"),
    }
}

/// Sets the rules: packets of the long link's and the inside devices' to the queue, and split connections to `port`.
///
/// # Errors
/// What the kernel refuses.
pub(super) fn set(config: &Config, marks: Marks, port: Option<u16>) -> Result<OwnedTable, NetlinkError> {
    OwnedTable::set(&table_of(config), |transaction| write(config, marks, port, transaction))
}

/// Has the rules follow another configuration, in one step.
///
/// # Errors
/// What the kernel refuses; then they are as before.
pub(super) fn change(
    table: &mut OwnedTable,
    config: &Config,
    marks: Marks,
    port: Option<u16>,
) -> Result<(), NetlinkError> {
    table.replace(|transaction| write(config, marks, port, transaction))
}

/// Whether the kernel could set them, with a port of a gateway that splits what nobody addressed to it, and nothing is changed. Gives
/// whether they would go with the process.
///
/// # Errors
/// What the kernel refuses.
pub(super) fn attempt(config: &Config, marks: Marks) -> Result<bool, NetlinkError> {
    let port = config.gateway.as_ref().is_some_and(|gateway| gateway.transparent).then_some(1);
    OwnedTable::attempt(&table_of(config), |transaction| write(config, marks, port, transaction))
}

/// Packets marked so are this host's, in both IP versions.
///
/// # Errors
/// What the kernel refuses.
pub(super) fn lead_home(guard: &mut Guard, marks: Marks) -> Result<(), NetlinkError> {
    guard.lead_home([false, true].map(|is_v6| home_of(marks, is_v6)))
}

/// The table by which the gateway's sockets have their initial window on the long side, where one is wanted.
pub(super) fn windows(config: &Config, marks: Marks) -> Option<Windows> {
    let gateway = config.gateway.as_ref()?;
    let segments = u32::try_from(gateway.initial_window?.as_u64().div_ceil(SEGMENT)).unwrap_or(u32::MAX);
    Some(windows_of(marks, &gateway.long, segments))
}

/// That of a gateway with these numbers.
pub(super) fn windows_of(marks: Marks, device: &str, segments: u32) -> Windows {
    let table = marks.own();
    Windows { marks: [marks.own(), marks.near()], table, priority: PRIORITY + 1, device: device.to_owned(), segments }
}

/// What leads home the packets of a gateway with these numbers.
pub(super) fn home_of(marks: Marks, is_v6: bool) -> Home {
    Home { is_v6, mark: marks.local(), table: marks.local(), priority: PRIORITY }
}

fn write(config: &Config, marks: Marks, port: Option<u16>, to: &mut Transaction) {
    let Some(gateway) = &config.gateway else { return };
    let rule = PacketRule::new;
    to.base_chain("arrives", Kind::Filter, Hook::Prerouting, ARRIVES);
    to.base_chain("diverts", Kind::Filter, Hook::Prerouting, DIVERTS);
    if port.is_some() {
        // What a caller acknowledges to the gateway's own socket takes nothing of the long link.
        for (is_v6, longest) in [(false, ACKNOWLEDGMENT), (true, ACKNOWLEDGMENT + 20)] {
            let rule = rule().not_arriving_by(&gateway.long).version(is_v6).tcp_ack().not_longer_than(longest);
            to.rule("arrives", &rule.has_transparent_socket().accept());
        }
    }
    let behind = Behind::write(gateway, to);
    let inside: Vec<PacketRule> = match gateway.inside.as_slice() {
        [] => vec![rule().not_arriving_by(&gateway.long).not_arriving_by("lo")],
        devices => devices.iter().map(|device| rule().arrives_by(device)).collect(),
    };
    let inside = inside.into_iter().flat_map(|from| if gateway.fair_queueing { vec![from] } else { handshakes(&from) });
    for from in inside.flat_map(|from| behind.towards(&from)) {
        to.rule("arrives", &from.to_this_host(false).routed_by(&gateway.long).queue(marks.queue()));
    }
    if let Some(port) = port {
        let by_long = handshakes(&rule().arrives_by(&gateway.long));
        for from in by_long.iter().flat_map(|from| behind.from(from)) {
            to.rule("arrives", &from.to_this_host(false).queue(marks.queue()));
        }
        let is_split = || rule().marked(marks.split()).protocol(TCP);
        untrack(marks, to);
        for is_v6 in [false, true] {
            to.rule("diverts", &is_split().to_proxy(is_v6, port).set_mark(marks.local()).accept());
        }
        to.rule("diverts", &is_split().set_mark(0));
        to.rule("diverts", &rule().marked(marks.refused()).protocol(TCP).reset());
        to.rule("diverts", &rule().protocol(TCP).has_transparent_socket().set_mark(marks.local()).accept());
        for is_v6 in [false, true] {
            // They go to the address that the socket borrowed; whose it is knows nothing of the packet. One tells how much fits the path.
            to.rule("diverts", &rule().tells_of_transparent_socket(is_v6).set_mark(marks.local()).accept());
        }
    }
    for is_v6 in [false, true] {
        to.rule("diverts", &rule().marked(marks.congested()).version(is_v6).set_ce(is_v6).set_mark(0));
    }
}

/// Keeps what belongs to callers' sockets from connection tracking.
fn untrack(marks: Marks, to: &mut Transaction) {
    let rule = PacketRule::new;
    to.chain("sockets");
    to.rule("sockets", &rule().socket_is_marked(marks.near()).untracked());
    // Far halves, and what belongs to other gateways. What is left is being set up by a caller, or is over.
    to.rule("sockets", &rule().socket_tells_mark().accept());
    to.rule("sockets", &rule().untracked());
    to.base_chain("untracks", Kind::Filter, Hook::Prerouting, UNTRACKS);
    to.rule("untracks", &rule().marked(marks.split()).protocol(TCP).untracked());
    to.rule("untracks", &rule().has_transparent_socket().jump("sockets"));
    for is_v6 in [false, true] {
        to.rule("untracks", &rule().tells_of_transparent_socket(is_v6).jump("sockets"));
    }
    to.base_chain("answers", Kind::Filter, Hook::Output, UNTRACKS);
    to.rule("answers", &rule().marked(marks.near()).protocol(TCP).untracked());
}

/// What lies behind the gateway's peer. It is asked before the routing tables are, and costs the same for many networks as for one, so that each
/// packet asks them once at most.
enum Behind {
    /// All: it is no peer's gateway.
    All,
    /// The addresses of these sets, of the IP versions of which there are any.
    Sets(Vec<bool>),
}

impl Behind {
    fn write(gateway: &Gateway, to: &mut Transaction) -> Behind {
        let Some(peer) = &gateway.of_peer else { return Behind::All };
        let mut versions = Vec::new();
        for is_v6 in [false, true] {
            let ranges = ranges::own(&peer.networks, is_v6);
            if !ranges.is_empty() {
                to.addresses(set_of(is_v6), is_v6, &ranges);
                versions.push(is_v6);
            }
        }
        Behind::Sets(versions)
    }

    fn towards(&self, these: &PacketRule) -> Vec<PacketRule> {
        self.each(these, PacketRule::towards_one_of)
    }

    fn from(&self, these: &PacketRule) -> Vec<PacketRule> {
        self.each(these, PacketRule::from_one_of)
    }

    fn each(&self, these: &PacketRule, with: fn(PacketRule, &str, bool) -> PacketRule) -> Vec<PacketRule> {
        match self {
            Behind::All => vec![these.clone()],
            Behind::Sets(versions) => versions.iter().map(|v6| with(these.clone(), set_of(*v6), *v6)).collect(),
        }
    }
}

fn set_of(is_v6: bool) -> &'static str {
    if is_v6 { "behind6" } else { "behind4" }
}

/// Of these packets, those by which connections begin, are answered (which tells the answer's DSCP), and are refused by who did not begin them.
fn handshakes(these: &PacketRule) -> Vec<PacketRule> {
    vec![these.clone().tcp_syn(), these.clone().tcp_answer(), these.clone().tcp_refusal()]
}
