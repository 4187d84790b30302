//! Which connections are not split, and why.
//!
//! Splitting pays where a round trip is long. Where the longer of a connection's two sides turns out to be short, the network of its
//! destination is noted, and for [`REMEMBERED`] its connections pass as they are. That holds for the side from which they come.
//!
//! A gateway needs both directions of a connection. Where the far end's answers reach the caller by another way, the caller gets one to
//! the gateway's SYN, of which it knows nothing, and resets it. Then the networks of both are noted in the same way. A caller whom
//! a packet filter keeps from resetting asks again and again. So what gives no answer to the gateway is noted too, but as that one address and
//! port: it may as well be that nobody is there.
//!
//! A packet filter of this host may keep callers from the gateway's own sockets. So one who asks again although the far end has answered is
//! noted in that way too.

use super::headers::{Segment, Way};
use crate::config::Gateway;
use fairspan_core::units::{Span, Time};
use ipnet::IpNet;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};

const REMEMBERED: Span = Span::from_secs(600);
/// Most that are noted of a kind: the oldest make room.
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
    /// The far end's answers do not pass here.
    OneWay,
    /// No answer of the far end came here, in time for a caller who asked again.
    Unanswered,
    /// The far end answered, and the caller's SYN did not come to a socket of this host.
    Filtered,
    /// All memory is given out.
    Memory,
    /// As many connections as may be are being set up.
    HalfOpen,
    /// The far end could not be called from here.
    Call,
}

impl Why {
    pub(super) const ALL: [Why; 9] = [
        Why::Excepted,
        Why::Signed,
        Why::Near,
        Why::OneWay,
        Why::Unanswered,
        Why::Filtered,
        Why::Memory,
        Why::HalfOpen,
        Why::Call,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Why::Excepted => "excepted",
            Why::Signed => "signed",
            Why::Near => "near",
            Why::OneWay => "one_way",
            Why::Unanswered => "unanswered",
            Why::Filtered => "filtered",
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
            Why::OneWay => "the far end's answers reach the caller by another way, and not through this host",
            Why::Unanswered => "their far ends gave this host no answer: nobody is there, or it goes another way",
            Why::Filtered => {
                "a packet filter of this host keeps callers from its own sockets, where what is split ends"
            }
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
            Why::OneWay => {
                "lead both directions through this host: the routes back to the callers, at the far end of the long link; or name these \
                 networks in `except`, so that nobody has to try"
            }
            Why::Unanswered => {
                "nothing, if nobody is there; else see that the routes back to the callers lead through this host"
            }
            Why::Filtered => {
                "let them in: in the filter's chain `input`, accept what comes by the callers' devices with the firewall mark `fwmark` + 256 (as \
                 `iifname lan0 meta mark 52156 accept`, where `fwmark` is not set)"
            }
            Why::Memory => "more `memory` in [gateway]",
            Why::HalfOpen => "more `half_open` in [gateway], if these were no attack",
            Why::Call => {
                "`fairspan up` with FAIRSPAN_LOG=debug logs why: an address in use, no route, or a firewall of this host"
            }
        }
    }
}

/// What holds for [`REMEMBERED`] from when it was noted; of at most [`MOST`].
#[derive(Debug)]
struct Noted<K> {
    known: HashMap<K, Time>,
    /// In the order in which they were noted, each once.
    order: VecDeque<(K, Time)>,
}

impl<K: Copy + Eq + Hash> Noted<K> {
    fn new() -> Noted<K> {
        Noted { known: HashMap::new(), order: VecDeque::new() }
    }

    fn note(&mut self, now: Time, key: K) {
        self.forget_old(now);
        if self.known.contains_key(&key) {
            return;
        }
        if self.order.len() >= MOST {
            self.forget_oldest();
        }
        let until = now + REMEMBERED;
        self.known.insert(key, until);
        self.order.push_back((key, until));
    }

    fn holds(&self, now: Time, key: &K) -> bool {
        self.known.get(key).is_some_and(|until| now < *until)
    }

    fn forget_old(&mut self, now: Time) {
        while self.order.front().is_some_and(|(_, until)| now >= *until) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((key, _)) = self.order.pop_front() {
            self.known.remove(&key);
        }
    }
}

/// A network, a /24 or a /48, and from which side it is looked for.
type Near = (u64, bool);
/// The networks of the caller and of the called.
type Pair = (u64, u64);
/// The caller's network, and whom it called.
type Called = (u64, SocketAddr);

/// What decides.
#[derive(Debug)]
pub(super) struct Bypass {
    except: Vec<IpNet>,
    ports: Vec<u16>,
    below: Span,
    near: Noted<Near>,
    one_way: Noted<Pair>,
    unanswered: Noted<Called>,
    filtered: Noted<Called>,
}

impl Bypass {
    pub(super) fn new(config: &Gateway) -> Bypass {
        let (except, ports) = (config.except.clone(), config.except_ports.clone());
        let below = config.bypass_below;
        let (near, one_way, unanswered, filtered) = (Noted::new(), Noted::new(), Noted::new(), Noted::new());
        Bypass { except, ports, below, near, one_way, unanswered, filtered }
    }

    /// Other settings. What is near may be so no more; ways stay as they are.
    pub(super) fn change(&mut self, config: &Gateway) {
        let Bypass { one_way, unanswered, filtered, .. } = std::mem::replace(self, Bypass::new(config));
        (self.one_way, self.unanswered, self.filtered) = (one_way, unanswered, filtered);
    }

    /// Why the connection that a SYN asks for is not to be split, if so.
    pub(super) fn why(&self, now: Time, syn: &Segment, from_long: bool) -> Option<Why> {
        let Way { source, destination } = syn.way;
        let is_excepted = |address: IpAddr| self.except.iter().any(|net| net.contains(&address));
        if self.ports.contains(&destination.port()) || is_excepted(source.ip()) || is_excepted(destination.ip()) {
            return Some(Why::Excepted);
        }
        if syn.is_signed {
            return Some(Why::Signed);
        }
        let pair = pair(syn.way);
        if self.one_way.holds(now, &pair) {
            return Some(Why::OneWay);
        }
        if self.unanswered.holds(now, &(pair.0, destination)) {
            return Some(Why::Unanswered);
        }
        if self.filtered.holds(now, &(pair.0, destination)) {
            return Some(Why::Filtered);
        }
        self.near.holds(now, &(pair.1, from_long)).then_some(Why::Near)
    }

    /// A connection has these round trips on its two sides.
    pub(super) fn learn(&mut self, now: Time, way: Way, from_long: bool, longer: Span) {
        if self.below == Span::ZERO || longer == Span::ZERO || longer >= self.below {
            return;
        }
        self.near.note(now, (network(way.destination.ip()), from_long));
    }

    /// Answers to this caller come by another way.
    pub(super) fn note_one_way(&mut self, now: Time, way: Way) {
        self.one_way.note(now, pair(way));
    }

    /// None has come to the gateway.
    pub(super) fn note_unanswered(&mut self, now: Time, way: Way) {
        self.unanswered.note(now, (network(way.source.ip()), way.destination));
    }

    /// The far end has answered, and this caller did not come to the gateway's socket. Whether it is the first of all.
    pub(super) fn note_filtered(&mut self, now: Time, way: Way) -> bool {
        let is_first = self.filtered.known.is_empty();
        self.filtered.note(now, (network(way.source.ip()), way.destination));
        is_first
    }

    /// What was noted long ago holds no more.
    pub(super) fn forget_old(&mut self, now: Time) {
        self.near.forget_old(now);
        self.one_way.forget_old(now);
        self.unanswered.forget_old(now);
        self.filtered.forget_old(now);
    }

    /// Networks that are near.
    pub(super) fn near(&self) -> usize {
        self.near.known.len()
    }

    /// Pairs of networks, of callers and called, between which answers come by another way.
    pub(super) fn one_way(&self) -> usize {
        self.one_way.known.len()
    }
}

fn pair(way: Way) -> Pair {
    (network(way.source.ip()), network(way.destination.ip()))
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
            near: Noted::new(),
            one_way: Noted::new(),
            unanswered: Noted::new(),
            filtered: Noted::new(),
        }
    }

    #[test]
    fn what_is_excepted_at_either_end_and_what_is_signed_passes() {
        let bypass = bypass();
        let why = |from, to| bypass.why(Time::ZERO, &syn(from, to), false);
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
        bypass.forget_old(Time::from_millis(600_000));
        assert_eq!(bypass.near(), 0);
    }

    #[test]
    fn one_way_are_networks_for_callers_of_one_network_and_without_an_answer_is_one_address_and_port() {
        let mut bypass = bypass();
        bypass.note_one_way(Time::ZERO, syn("10.1.0.2:1000", "192.0.2.1:80").way);
        bypass.note_unanswered(Time::ZERO, syn("10.1.0.2:1000", "198.51.100.1:80").way);
        let why = |bypass: &Bypass, from, to| bypass.why(Time::from_millis(599_999), &syn(from, to), false);
        assert_eq!(why(&bypass, "10.1.0.9:7", "192.0.2.200:443"), Some(Why::OneWay));
        assert_eq!(why(&bypass, "10.2.0.2:1000", "192.0.2.1:80"), None, "another network's callers");
        assert_eq!(why(&bypass, "10.1.0.9:7", "198.51.100.1:80"), Some(Why::Unanswered));
        assert_eq!(why(&bypass, "10.1.0.2:1000", "198.51.100.1:81"), None, "another port");
        // Other settings make no other ways.
        let text = "[interface]\nname = \"gw0\"\n[gateway]\nlong = \"sat0\"\n";
        let config = crate::config::Config::parse(std::path::Path::new("x.toml"), text).expect("good");
        bypass.change(config.gateway.as_ref().expect("a gateway"));
        assert_eq!(why(&bypass, "10.1.0.9:7", "192.0.2.200:443"), Some(Why::OneWay));
        assert_eq!(why(&bypass, "10.1.0.2:1000", "192.0.2.1:22"), Some(Why::OneWay), "no port is excepted any more");
        assert_eq!(bypass.one_way(), 1);
        bypass.forget_old(Time::from_millis(600_000));
        assert_eq!(bypass.one_way(), 0);
        assert_eq!(bypass.why(Time::from_millis(600_000), &syn("10.1.0.2:1", "198.51.100.1:80"), false), None);
    }

    #[test]
    fn of_too_many_the_oldest_are_forgotten() {
        let mut noted = Noted::new();
        for n in 0..=MOST {
            noted.note(Time::from_millis(n as u64), n);
            noted.note(Time::from_millis(n as u64), n);
        }
        let now = Time::from_millis(MOST as u64);
        assert!(!noted.holds(now, &0) && noted.holds(now, &1) && noted.holds(now, &MOST));
        assert_eq!((noted.known.len(), noted.order.len()), (MOST, MOST));
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
