//! Handshakes that wait to be computed: in turns between networks, and first those of peers that have a session.
//!
//! Each network (an IPv4 /24, an IPv6 /48) has a short queue of its own, and the networks are served round robin. So a flood
//! from one network, whose senders have proved their addresses, costs the others nothing, and a flood from many costs each
//! its share. An initiation from where an established peer is goes before others, as its keys grow old meanwhile; but one in
//! four turns is the others', so that no peer keeps newcomers out.
//!
//! Who waits for long calls again, and has given up the older calls when their turn comes. So a turn goes to the newest of what one
//! caller has waiting, and the older ones are dropped.
//!
//! Cost: one look-up a handshake. Everything is bounded; what finds no room is refused.

use super::Endpoint;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Most that wait, of each kind.
pub(super) const WAITING_MAX: usize = 256;
/// Most of one network that wait, of each kind.
pub(super) const NETWORK_MAX: usize = 8;
/// So many of a kind wait where it is crowded: newcomers of that kind have to prove their addresses then, however few they are a second.
/// It is what a slow processor computes of others in less than the time in which a caller calls again.
const CROWD: usize = 32;
/// Turns of established peers for each turn of others.
const FIRST: u32 = 3;

/// A network that has one share.
type Network = IpAddr;

fn network(address: SocketAddr) -> Network {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            Ipv4Addr::new(a, b, c, 0).into()
        }
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            // A station on Ethernet is written as a multicast address, its own within the first 64 bits.
            Ipv6Addr::new(a, b, c, if v6.is_multicast() { d } else { 0 }, 0, 0, 0, 0).into()
        }
    }
}

/// Who calls, and which address of ours. `None`: this is no call.
pub(super) type Caller = Option<(Endpoint, Option<IpAddr>)>;

/// The queues of one kind.
struct Fair<T> {
    queues: HashMap<Network, VecDeque<(Caller, T)>>,
    /// The networks in the order of their turns; those of `queues`.
    turns: VecDeque<Network>,
    len: usize,
}

impl<T> Fair<T> {
    fn new() -> Fair<T> {
        Fair { queues: HashMap::new(), turns: VecDeque::new(), len: 0 }
    }

    /// Whether one more of `network` would be taken.
    fn has_room(&self, network: Network) -> bool {
        let waiting = self.queues.get(&network).map_or(0, VecDeque::len);
        let longest = || self.queues.values().map(VecDeque::len).max().unwrap_or(0);
        waiting < NETWORK_MAX && (self.len < WAITING_MAX || longest() > waiting + 1)
    }

    fn push(&mut self, network: Network, caller: Caller, item: T) -> bool {
        let waiting = self.queues.get(&network).map_or(0, VecDeque::len);
        if waiting >= NETWORK_MAX || (self.len >= WAITING_MAX && !self.make_room(waiting)) {
            return false;
        }
        if waiting == 0 {
            self.turns.push_back(network);
        }
        self.queues.entry(network).or_default().push_back((caller, item));
        self.len += 1;
        true
    }

    /// Drops the newest of a network that has more waiting than a newcomer's would have.
    fn make_room(&mut self, waiting: usize) -> bool {
        let longest = self.queues.values_mut().max_by_key(|queue| queue.len());
        let Some(longest) = longest.filter(|queue| queue.len() > waiting + 1) else { return false };
        longest.pop_back();
        self.len -= 1;
        true
    }

    fn pop(&mut self) -> Option<T> {
        let network = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&network)?;
        let before = queue.len();
        let (caller, mut item) = queue.pop_front()?;
        if caller.is_some() {
            while let Some(place) = queue.iter().position(|(other, _)| *other == caller) {
                (_, item) = queue.remove(place)?;
            }
        }
        self.len -= before - queue.len();
        if queue.is_empty() {
            self.queues.remove(&network);
        } else {
            self.turns.push_back(network);
        }
        Some(item)
    }
}

/// What waits.
pub(super) struct Waiting<T> {
    established: Fair<T>,
    others: Fair<T>,
    turn: u32,
}

impl<T> Waiting<T> {
    pub(super) fn new() -> Waiting<T> {
        Waiting { established: Fair::new(), others: Fair::new(), turn: 0 }
    }

    /// Whether there is room for what came from `address`, where an established peer is or not.
    pub(super) fn has_room(&self, address: SocketAddr, established: bool) -> bool {
        let kind = if established { &self.established } else { &self.others };
        kind.has_room(network(address))
    }

    /// Whether so many wait that newcomers, established peers or not, have to prove their addresses.
    pub(super) fn is_crowded(&self, established: bool) -> bool {
        let kind = if established { &self.established } else { &self.others };
        kind.len >= CROWD
    }

    /// Takes what came from `address`, where an established peer is or not; false when there is no room for it.
    pub(super) fn push(&mut self, address: SocketAddr, established: bool, caller: Caller, item: T) -> bool {
        let kind = if established { &mut self.established } else { &mut self.others };
        kind.push(network(address), caller, item)
    }

    /// The next of one kind alone.
    pub(super) fn pop_of(&mut self, established: bool) -> Option<T> {
        if established { self.established.pop() } else { self.others.pop() }
    }

    /// Whose turn it is, of both kinds.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.turn = (self.turn + 1) % (FIRST + 1);
        if self.turn == 0 {
            self.others.pop().or_else(|| self.established.pop())
        } else {
            self.established.pop().or_else(|| self.others.pop())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::SocketId;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_is_a_slash_24_or_a_slash_48_and_a_station_is_itself() {
        for (a, b, same) in [
            ("192.0.2.1:1", "192.0.2.200:9", true),
            ("192.0.2.1:1", "192.0.3.1:1", false),
            ("[::ffff:192.0.2.1]:1", "192.0.2.7:1", true),
            ("[2001:db8:1:2::1]:1", "[2001:db8:1:3::1]:1", true),
            ("[2001:db8:1::1]:1", "[2001:db8:2::1]:1", false),
            ("[ff01:200:5e10:1::]:0", "[ff01:200:5e10:2::]:0", false),
        ] {
            assert_eq!(network(address(a)) == network(address(b)), same, "{a} {b}");
        }
    }

    #[test]
    fn a_network_that_floods_keeps_nobody_out_and_delays_others_by_one_turn() {
        let mut waiting = Waiting::new();
        let mut taken = 0;
        for host in 0..1000 {
            taken +=
                usize::from(waiting.push(address(&format!("203.0.113.{}:{host}", host % 250)), false, None, "flood"));
        }
        assert_eq!(taken, NETWORK_MAX);
        assert!(waiting.push(address("192.0.2.1:5"), false, None, "peer"));
        assert_eq!([waiting.pop(), waiting.pop()], [Some("flood"), Some("peer")]);
    }

    #[test]
    fn a_flood_from_all_networks_takes_no_more_than_its_room_and_established_peers_go_first() {
        let mut waiting = Waiting::new();
        let mut taken = 0;
        for host in 0..60_000_u32 {
            let from = address(&format!("10.{}.{}.1:5", host % 200 / 10, host % 10));
            taken += usize::from(waiting.push(from, false, None, "flood"));
        }
        assert!(taken >= WAITING_MAX && waiting.others.len == WAITING_MAX);
        // Of 200 networks some have two waiting: one of those makes room for a network that has none.
        assert!(waiting.push(address("192.0.2.1:5"), false, None, "newcomer"));
        assert!(waiting.push(address("198.51.100.1:5"), true, None, "peer"));
        assert_eq!(waiting.pop(), Some("peer"));
        let order: Vec<_> = std::iter::from_fn(|| waiting.pop()).collect();
        assert_eq!(order.len(), WAITING_MAX);
        assert_eq!(order.iter().position(|item| *item == "newcomer"), Some(200), "after one turn of each network");
        assert!(waiting.others.queues.is_empty() && waiting.others.turns.is_empty() && waiting.others.len == 0);
    }

    #[test]
    fn a_peer_that_floods_leaves_others_one_turn_in_four() {
        let mut waiting = Waiting::new();
        let mut served = 0;
        for _ in 0..1000 {
            waiting.push(address("198.51.100.1:5"), true, None, true);
            waiting.push(address("192.0.2.1:5"), false, None, false);
            served += usize::from(waiting.pop() == Some(false));
        }
        assert_eq!(served, 250);
    }

    fn call(from: &str) -> Caller {
        Some((Endpoint { socket: SocketId(0), address: address(from) }, None))
    }

    #[test]
    fn a_turn_goes_to_the_newest_call_of_a_caller_and_the_older_ones_are_dropped() {
        let mut waiting = Waiting::new();
        let (one, other) = ("192.0.2.1:5", "192.0.2.1:6");
        for (from, item) in [(one, 1), (other, 2), (one, 3), (one, 4), (other, 5)] {
            assert!(waiting.push(address(from), false, call(from), item));
        }
        // An answer is no call, and two of them may be two channels'.
        assert!(waiting.push(address(one), false, None, 6) && waiting.push(address(one), false, None, 7));
        assert_eq!(std::iter::from_fn(|| waiting.pop()).collect::<Vec<_>>(), [4, 5, 6, 7]);
        assert!(waiting.others.len == 0 && waiting.others.queues.is_empty() && waiting.others.turns.is_empty());
    }

    #[test]
    fn each_kind_is_crowded_for_itself() {
        let mut waiting = Waiting::new();
        for network in 0..CROWD {
            assert!(!waiting.is_crowded(false));
            waiting.push(address(&format!("192.0.{network}.1:5")), false, None, ());
        }
        assert!(waiting.is_crowded(false) && !waiting.is_crowded(true));
        waiting.pop();
        assert!(!waiting.is_crowded(false));
    }
}
