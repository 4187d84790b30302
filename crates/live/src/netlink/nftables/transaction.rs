//! Changes of one table that the kernel makes all at once.

use super::rule::{PacketRule, Queueing};
use crate::netlink::encode::{attribute, attributes, field, message, nested, number, text};
use crate::netlink::netfilter::Netfilter;
use crate::netlink::request::NetlinkError;
use netlink_packet_core::{NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, NLM_F_DUMP, NLM_F_MULTIPART, NLM_F_REQUEST};
use std::ops::RangeInclusive;

/// The subsystem of nf_tables, in the upper byte of a message's type.
const NFTABLES: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = NFTABLES << 8;
const GET_TABLE: u16 = NFTABLES << 8 | 1;
const DELETE_TABLE: u16 = NFTABLES << 8 | 2;
const NEW_CHAIN: u16 = NFTABLES << 8 | 3;
const NEW_RULE: u16 = NFTABLES << 8 | 6;
const NEW_SET: u16 = NFTABLES << 8 | 9;
const NEW_ELEMENTS: u16 = NFTABLES << 8 | 12;
/// IPv4 and IPv6 in one table.
const FAMILY_INET: u8 = 1;
/// The table goes with the socket that made it (NFT_TABLE_F_OWNER).
const OWNED: u32 = 2;

/// A set that is not changed, of ranges (NFT_SET_CONSTANT, NFT_SET_INTERVAL).
const CONSTANT_RANGES: u32 = 2 | 4;
/// An element that is behind the last one of a range (NFT_SET_ELEM_INTERVAL_END).
const BEHIND: u32 = 1;
/// Ranges in one message, whose list is at most 64 kB.
const RANGES_AT_ONCE: usize = 512;

/// Where a chain sees packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Whatever arrives, before its route is looked up.
    Prerouting = 0,
    /// What is for this host.
    Input = 1,
    /// What this host forwards.
    Forward = 2,
    /// What this host makes, when its route was looked up first.
    Output = 3,
    /// Whatever leaves, when it is settled by which device.
    Postrouting = 4,
}

/// What a chain is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whether packets pass.
    Filter,
    /// Where connections lead, and where from. Only a connection's first packet is seen.
    Nat,
}

/// Changes of one table that the kernel makes all at once, or none of.
#[derive(Debug)]
pub struct Transaction {
    table: String,
    bytes: Vec<u8>,
    sequence: u32,
    queueing: Queueing,
    /// How many sets there are by now.
    sets: u32,
}

impl Transaction {
    /// No changes yet.
    pub fn of(table: &str) -> Transaction {
        Transaction::queueing_by(table, Queueing::default())
    }

    /// The same, for a kernel that queues packets in this way.
    pub(super) fn queueing_by(table: &str, queueing: Queueing) -> Transaction {
        let mut transaction =
            Transaction { table: table.to_owned(), bytes: Vec::new(), sequence: 0, queueing, sets: 0 };
        transaction.edge(BATCH_BEGIN);
        transaction
    }

    /// The table is there.
    pub fn create(&mut self) {
        self.push(NEW_TABLE, NLM_F_CREATE, |_| {});
    }

    /// The table is there until the socket closes that this transaction is committed by.
    pub(super) fn create_owned(&mut self) {
        self.push(NEW_TABLE, NLM_F_CREATE, |table| number(table, 2, OWNED));
    }

    /// The table goes, with all in it; it has to be there.
    pub fn delete(&mut self) {
        self.push(DELETE_TABLE, 0, |_| {});
    }

    /// A chain that other chains jump to.
    pub fn chain(&mut self, name: &str) {
        self.push(NEW_CHAIN, NLM_F_CREATE, |chain| text(chain, 3, name));
    }

    /// A chain that sees packets; those that no rule settles pass.
    pub fn base_chain(&mut self, name: &str, kind: Kind, hook: Hook, priority: i32) {
        self.push(NEW_CHAIN, NLM_F_CREATE, |chain| {
            text(chain, 3, name);
            nested(chain, 4, |at| {
                number(at, 1, hook as u32);
                attribute(at, 2, &priority.to_be_bytes());
            });
            text(chain, 7, if kind == Kind::Nat { "nat" } else { "filter" });
        });
    }

    /// A set of addresses that rules can ask for, by its name: all that are in one of these ranges, from the first to the last. The ranges
    /// rise, and leave something between each other. The kernel finds an address among n ranges in O(log n).
    pub fn addresses(&mut self, name: &str, is_v6: bool, ranges: &[RangeInclusive<u128>]) {
        let length = if is_v6 { 16 } else { 4 };
        self.sets += 1;
        let id = self.sets;
        self.push(NEW_SET, NLM_F_CREATE, |set| {
            text(set, 2, name);
            // The fourth is for programs that show the set: addresses of IPv4, or of IPv6.
            for (kind, value) in [(3, CONSTANT_RANGES), (4, if is_v6 { 8 } else { 7 }), (5, length), (10, id)] {
                number(set, kind, value);
            }
        });
        for some in ranges.chunks(RANGES_AT_ONCE) {
            self.push(NEW_ELEMENTS, NLM_F_CREATE, |message| {
                text(message, 2, name);
                number(message, 4, id);
                nested(message, 3, |list| some.iter().for_each(|range| write_range(list, range, length)));
            });
        }
    }

    /// A rule behind those that its chain has.
    pub fn rule(&mut self, chain: &str, rule: &PacketRule) {
        let expressions = rule.expressions(self.queueing);
        self.push(NEW_RULE, NLM_F_CREATE | NLM_F_APPEND, |message| {
            text(message, 2, chain);
            nested(message, 4, |list| list.extend(&expressions));
        });
    }

    /// Makes the changes.
    ///
    /// # Errors
    /// What the kernel says of the first that it refuses; then it made none.
    pub fn commit(self, action: &str) -> Result<(), NetlinkError> {
        self.commit_by(&mut Netfilter::open(action)?, action)
    }

    /// Has the kernel look whether it could make the changes, and make none: it takes back what does not come to its end.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn attempt(self, action: &str) -> Result<(), NetlinkError> {
        self.attempt_by(&mut Netfilter::open(action)?, action)
    }

    /// As [`attempt`](Self::attempt), by a connection that would own the table.
    pub(super) fn attempt_by(self, netfilter: &mut Netfilter, action: &str) -> Result<(), NetlinkError> {
        netfilter.ask(&self.bytes, self.sequence, action, |_, _| false)
    }

    /// As [`commit`](Self::commit), by a connection that may own the table.
    pub(super) fn commit_by(mut self, netfilter: &mut Netfilter, action: &str) -> Result<(), NetlinkError> {
        let last = self.sequence;
        self.edge(BATCH_END);
        netfilter.ask(&self.bytes, last, action, |_, _| false)
    }

    fn push(&mut self, kind: u16, flags: u16, fill: impl FnOnce(&mut Vec<u8>)) {
        self.sequence += 1;
        message(&mut self.bytes, kind, NLM_F_REQUEST | NLM_F_ACK | flags, self.sequence, |body| {
            body.extend([FAMILY_INET, 0, 0, 0]);
            text(body, 1, &self.table);
            fill(body);
        });
    }

    fn edge(&mut self, kind: u16) {
        message(&mut self.bytes, kind, NLM_F_REQUEST, 0, |body| body.extend([0, 0, 0, NFTABLES as u8]));
    }
}

/// The two elements that make a range of addresses of `length` bytes; one alone where nothing is behind it.
fn write_range(list: &mut Vec<u8>, range: &RangeInclusive<u128>, length: u32) {
    let bytes = |address: u128| address.to_be_bytes()[16 - length as usize..].to_vec();
    let mut element = |address: u128, flags: u32| {
        nested(list, 1, |element| {
            nested(element, 1, |key| attribute(key, 1, &bytes(address)));
            if flags != 0 {
                number(element, 3, flags);
            }
        });
    };
    element(*range.start(), 0);
    let most = u128::MAX >> (128 - 8 * length);
    if let Some(behind) = range.end().checked_add(1).filter(|behind| *behind <= most) {
        element(behind, BEHIND);
    }
}

/// The tables of both IP versions, or the one of this name alone if it is there.
///
/// # Errors
/// What the kernel says; one without nf_tables refuses.
pub fn tables(name: Option<&str>) -> Result<Vec<String>, NetlinkError> {
    const SEQUENCE: u32 = 1;
    const ACTION: &str = "look for tables of packet rules";
    let mut bytes = Vec::new();
    let flags = NLM_F_REQUEST | if name.is_some() { 0 } else { NLM_F_DUMP };
    message(&mut bytes, GET_TABLE, flags, SEQUENCE, |body| {
        body.extend([FAMILY_INET, 0, 0, 0]);
        if let Some(name) = name {
            text(body, 1, name);
        }
    });
    let mut names = Vec::new();
    let asked = Netfilter::open(ACTION)?.ask(&bytes, SEQUENCE, ACTION, |kind, bytes| {
        if kind != NEW_TABLE {
            return false;
        }
        names.extend(table_name(bytes));
        // One that was asked for by its name comes alone.
        field(bytes, 6).map_or(0, u16::from_ne_bytes) & NLM_F_MULTIPART == 0
    });
    match asked {
        Err(error) if name.is_some() && error.errno() == Some(libc::ENOENT) => Ok(Vec::new()),
        other => other.map(|()| names),
    }
}

/// The name in a table's message: its attribute 1, behind the two headers.
fn table_name(message: &[u8]) -> Option<String> {
    let (_, name) = attributes(message.get(20..)?).find(|(kind, _)| *kind == 1)?;
    Some(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned())
}
