//! Which connections are not split, and why.
//!
//! Splitting pays where a round trip is long. Where the longer of a connection's two sides turns out to be short, the network of its
//! destination is noted, and for [`REMEMBERED`] its connections pass as they are. That holds for the side from which they come.

use super::headers::{Segment, Way};
use crate::config::Gateway;
use fairspan_core::units::{Span, Time};
use ipnet::IpNet;
use std::collections::HashMap;
use std::net::IpAddr;

const REMEMBERED: Span = Span::from_secs(600);
/// Most networks that are noted.
const MOST: usize = 4096;

/// Why a connection is not split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// By `except` or `except_ports`.
    Excepted,
    /// Its segments are signed (TCP-AO, or MD5).
    Signed,
    /// Too short a round trip.
    Near,
    /// All memory is given out.
    Memory,
    /// As many connections as may be are being set up.
    HalfOpen,
    /// The far end could not be called from here.
    Call,
}

impl Why {
    pub(super) const ALL: [Why; 6] = [Why::Excepted, Why::Signed, Why::Near, Why::Memory, Why::HalfOpen, Why::Call];

    pub(super) fn name(self) -> &'static str {
        match self {
            Why::Excepted => "excepted",
            Why::Signed => "signed",
            Why::Near => "near",
            Why::Memory => "memory",
            Why::HalfOpen => "half_open",
            Why::Call => "call_failed",
        }
    }

    /// In a sentence's end.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Why::Excepted => "except or except_ports name them",
            Why::Signed => "their segments are signed (TCP-AO or MD5), which nobody else can continue",
            Why::Near => "their round trips are too short for splitting to pay",
            Why::Memory => "all memory was given out",
            Why::HalfOpen => "too many others were being set up",
            Why::Call => "the far end could not be called from here in the caller's name",
        }
    }

    /// What can be done about it.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Why::Excepted | Why::Signed => "nothing, if that is meant",
            Why::Near => "`bypass_below` in [gateway] says what is too short; \"0ms\" splits all",
            Why::Memory => "more `memory` in [gateway]",
            Why::HalfOpen => "more `half_open` in [gateway], if these were no attack",
            Why::Call => {
                "`fairspan up` with FAIRSPAN_LOG=debug logs why: an address in use, no route, or a firewall of this host"
            }
        }
    }
}

/// A network, a /24 or a /48, and from which side it is looked for.
type Near = (u64, bool);

/// What decides.
#[derive(Debug)]
pub(super) struct Bypass {
    except: Vec<IpNet>,
    ports: Vec<u16>,
    below: Span,
    near: HashMap<Near, Time>,
}

impl Bypass {
    pub(super) fn new(config: &Gateway) -> Bypass {
        let (except, ports) = (config.except.clone(), config.except_ports.clone());
        Bypass { except, ports, below: config.bypass_below, near: HashMap::new() }
    }

    /// Why the connection that a SYN asks for is not to be split, if so.
    pub(super) fn why(&mut self, now: Time, syn: &Segment, from_long: bool) -> Option<Why> {
        let Way { source, destination } = syn.way;
        let is_excepted = |address: IpAddr| self.except.iter().any(|net| net.contains(&address));
        if self.ports.contains(&destination.port()) || is_excepted(source.ip()) || is_excepted(destination.ip()) {
            return Some(Why::Excepted);
        }
        if syn.is_signed {
            return Some(Why::Signed);
        }
        let near = (network(destination.ip()), from_long);
        let until = *self.near.get(&near)?;
        if now >= until {
            self.near.remove(&near);
            return None;
        }
        Some(Why::Near)
    }

    /// A connection has these round trips on its two sides.
    pub(super) fn learn(&mut self, now: Time, way: Way, from_long: bool, longer: Span) {
        if self.below == Span::ZERO || longer == Span::ZERO || longer >= self.below {
            return;
        }
        if self.near.len() >= MOST {
            self.near.retain(|_, until| now < *until);
        }
        if self.near.len() < MOST {
            self.near.insert((network(way.destination.ip()), from_long), now + REMEMBERED);
        }
    }

    /// Networks that are noted.
    pub(super) fn near(&self) -> usize {
        self.near.len()
    }
}

fn network(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => u64::from(u32::from(address) >> 8),
        // The highest bit is no IPv4 network's.
        IpAddr::V6(address) => 1 << 63 | (u128::from(address) >> 80) as u64,
    }
}
