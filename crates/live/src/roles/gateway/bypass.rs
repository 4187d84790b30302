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

#[cfg(test)]
mod tests {
    use super::*;

    fn syn(from: &str, to: &str) -> Segment {
        Segment::opening(Way {
            source: from.parse().expect("an address"),
            destination: to.parse().expect("an address"),
        })
    }

    fn bypass() -> Bypass {
        Bypass {
            except: vec!["10.9.0.0/16".parse().expect("a network"), "fd09::/32".parse().expect("a network")],
            ports: vec![22],
            below: Span::from_millis(10),
            near: HashMap::new(),
        }
    }

    #[test]
    fn what_is_excepted_at_either_end_and_what_is_signed_passes() {
        let mut bypass = bypass();
        let mut why = |from, to| bypass.why(Time::ZERO, &syn(from, to), false);
        assert_eq!(why("10.1.0.2:1000", "192.0.2.1:80"), None);
        assert_eq!(why("10.1.0.2:1000", "192.0.2.1:22"), Some(Why::Excepted));
        assert_eq!(why("10.1.0.2:22", "192.0.2.1:80"), None, "the port is the destination's");
        assert_eq!(why("10.9.1.1:1000", "192.0.2.1:80"), Some(Why::Excepted));
        assert_eq!(why("[fd01::1]:1000", "[fd09::1]:80"), Some(Why::Excepted));
        let mut signed = syn("10.1.0.2:1000", "192.0.2.1:80");
        signed.is_signed = true;
        assert_eq!(bypass.why(Time::ZERO, &signed, false), Some(Why::Signed));
    }

    #[test]
    fn a_network_that_is_near_is_not_split_for_a_while_as_seen_from_that_side() {
        let mut bypass = bypass();
        let syn = syn("10.1.0.2:1000", "192.0.2.1:80");
        bypass.learn(Time::ZERO, syn.way, false, Span::from_millis(10));
        bypass.learn(Time::ZERO, syn.way, false, Span::ZERO);
        assert_eq!(bypass.why(Time::ZERO, &syn, false), None, "long enough, or not known");
        bypass.learn(Time::ZERO, syn.way, false, Span::from_millis(9));
        let later = Time::from_millis(599_999);
        let neighbour = self::syn("10.1.0.2:1000", "192.0.2.200:443");
        assert_eq!(bypass.why(later, &neighbour, false), Some(Why::Near));
        assert_eq!(bypass.why(later, &syn, true), None, "from the other side it is far");
        assert_eq!(bypass.why(Time::from_millis(600_000), &syn, false), None);
        assert_eq!(bypass.near(), 0);
    }

    #[test]
    fn no_more_networks_are_noted_than_there_is_room_for() {
        let mut bypass = bypass();
        for number in 0..2 * MOST {
            let [_, _, high, low] = (number as u32).to_be_bytes();
            let way = syn("10.1.0.2:1000", &format!("100.{high}.{low}.1:80")).way;
            bypass.learn(Time::ZERO, way, false, Span::from_millis(1));
        }
        assert_eq!(bypass.near(), MOST);
        let way = syn("10.1.0.2:1000", "192.0.2.1:80").way;
        bypass.learn(Time::ZERO + REMEMBERED, way, false, Span::from_millis(1));
        assert_eq!(bypass.near(), 1, "those whose time is over make room");
    }
}
