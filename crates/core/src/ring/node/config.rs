//! Settings of a node, and what is wrong with them.

use crate::buffer::{ConfigError as QueueError, PolicyConfig};
use crate::queue::DisciplineConfig;
use crate::ring::algorithm::Algorithm;
use crate::ring::control::{MOST_ANNOUNCED, MOST_RESERVATIONS, Reservation};
use crate::ring::discovery;
use crate::ring::multiplexer::Scheduling;
use crate::ring::protection::Protection;
use crate::ring::rpr::Queue;
use crate::ring::station::Waiting;
use crate::ring::topology::{Topology, UNIT_WEIGHT};
use crate::ring::{Class, MOST_NODES, NodeId, Ringlet, Side};
use crate::units::{Bytes, Rate, Span};
use alloc::vec::Vec;
use thiserror::Error;

/// Settings of a node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// This node.
    pub node: NodeId,
    /// How many nodes the ring has.
    pub nodes: usize,
    /// The rate that shares refer to: that of the ring's fastest link. The same at all nodes.
    pub nominal: Rate,
    /// How links are shared. The same at all nodes. Default: `dvsr`.
    pub algorithm: Algorithm,
    /// What happens to packets whose way is cut. Default: they are steered.
    pub protection: Protection,
    /// Keepalives and reports, by which nodes learn of one another. Its fields that stand here as well are taken from here.
    /// `None` (the default): all links are up from the start but those that [`set_link`](super::Node::set_link) and
    /// [`set_topology`](super::Node::set_topology) say are not, and what other nodes reserve is not known.
    pub discovery: Option<discovery::Config>,
    /// What the links east and west carry towards the neighbour, with all that is added to a packet. Default: the nominal
    /// rate.
    pub capacity: [Rate; 2],
    /// Bytes that the links east and west carry for each frame beyond the packet's own: head, encapsulation. Default: the
    /// head.
    pub overhead: [usize; 2],
    /// How far a link's sender and a limiter may be ahead of their rates: 0 (the default) in simulations, a few packets
    /// where sending is in batches.
    pub burst: Bytes,
    /// Room of each transit queue, in bytes of the wire. Default: 256 kB.
    pub transit_limit: Bytes,
    /// Bytes in the transit queue from which on no packet of the station goes before it, or enters it. Default: 64 kB. What
    /// is between this and `transit_limit` is for what is under way while other nodes do not know yet.
    pub station_threshold: Bytes,
    /// Room of the station's queue to each egress, on each ringlet; a packet counts the memory that it takes, if that is more
    /// than its bytes on the wire. Classes with a reservation have queues of their own. Default: 256 kB.
    pub station_limit: Bytes,
    /// Which of the station's packets to an egress goes next, of those without a reservation. Default: first in, first out.
    /// With `fifo` as the algorithm the station has no queues of its own, and no other discipline or policy.
    pub station_discipline: DisciplineConfig,
    /// Which of them are let in, marked, dropped. Default: drop-tail.
    pub station_policy: PolicyConfig,
    /// Time between control messages. Default: 1 ms.
    pub interval: Span,
    /// The node's weight in thousandths. Default: 1000.
    pub weight: u32,
    /// What the node reserves for its own packets of class A and commits for those of class B, in bits on the wire. Where no
    /// reservation fits the egress, class A is carried as class C, and class B shares fairly as class C does.
    ///
    /// Class A that comes faster than its rate waits, and what does not fit `station_limit` is dropped.
    pub reservations: Vec<Reservation>,
    /// What other nodes are told of this one's station, such as its addresses; at most 512 bytes.
    pub announcement: Vec<u8>,
}

impl Config {
    /// The defaults.
    pub fn new(node: NodeId, nodes: usize, nominal: Rate) -> Config {
        Config {
            node,
            nodes,
            nominal,
            algorithm: Algorithm::default(),
            protection: Protection::default(),
            discovery: None,
            capacity: [nominal; 2],
            overhead: [super::HEAD; 2],
            burst: Bytes::ZERO,
            transit_limit: Bytes::new(256_000),
            station_threshold: Bytes::new(64_000),
            station_limit: Bytes::new(256_000),
            station_discipline: DisciplineConfig::default(),
            station_policy: PolicyConfig::default(),
            interval: Span::from_millis(1),
            weight: UNIT_WEIGHT,
            reservations: Vec::new(),
            announcement: Vec::new(),
        }
    }

    /// What goes first at a link.
    pub(super) fn scheduling(&self) -> Scheduling {
        match &self.algorithm {
            Algorithm::Fifo => Scheduling::Fifo,
            Algorithm::RprAm(rpr) | Algorithm::RprCm(rpr) => match rpr.queue {
                Queue::Single => Scheduling::Single,
                Queue::Dual => Scheduling::Dual,
            },
            _ => Scheduling::Admitted,
        }
    }

    /// What the station's packets wait in; `seed` is the node's.
    pub(super) fn waiting(&self, seed: u64) -> Waiting {
        let Config { station_discipline: discipline, station_policy: policy, station_limit: room, .. } = *self;
        Waiting { discipline, policy, room, seed }
    }

    /// What the node may send of its reservations of `class` on the way out of `ringlet`, in the whole ring.
    pub(super) fn reserved(&self, topology: &Topology, ringlet: Ringlet, class: Class) -> Rate {
        let by = |to: NodeId| topology.route(self.node, to).is_some_and(|route| route.ringlet == ringlet);
        let mine = self.reservations.iter().filter(|one| one.class == class && one.to.is_none_or(by));
        let sum = mine.fold(0u64, |sum, one| sum.saturating_add(one.rate.as_bits_per_sec()));
        Rate::from_bits_per_sec(sum)
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if !(2..=MOST_NODES).contains(&self.nodes) {
            return Err(ConfigError::Nodes { found: self.nodes });
        }
        if self.node.index() >= self.nodes {
            return Err(ConfigError::Node { node: self.node, nodes: self.nodes });
        }
        let plain = self.station_discipline == DisciplineConfig::Fifo && self.station_policy == PolicyConfig::DropTail;
        let settings: [(bool, &'static str, &'static str); 10] = [
            (self.nominal.as_bits_per_sec() > 0, "nominal", "a rate above zero"),
            (self.capacity.iter().all(|rate| rate.as_bits_per_sec() > 0), "capacity", "a rate above zero"),
            (self.transit_limit.as_u64() > 0, "transit_limit", "a size above zero"),
            (self.station_limit.as_u64() > 0, "station_limit", "a size above zero"),
            (self.station_threshold.as_u64() > 0, "station_threshold", "a size above zero"),
            (
                self.station_threshold.as_u64() <= self.transit_limit.as_u64(),
                "station_threshold",
                "transit_limit or less",
            ),
            (self.interval.as_nanos() > 0, "interval", "a time above zero"),
            (self.weight > 0, "weight", "1 or more, in thousandths"),
            (
                plain || self.scheduling() != Scheduling::Fifo,
                "station_discipline",
                "fifo, and the policy drop-tail, where the algorithm is fifo: it has one queue for all; take another algorithm",
            ),
            (self.announcement.len() <= MOST_ANNOUNCED, "announcement", "512 bytes or less"),
        ];
        if let Some(&(_, setting, right)) = settings.iter().find(|(fits, ..)| !fits) {
            return Err(ConfigError::Setting { setting, right });
        }
        self.check_reservations()
    }

    fn check_reservations(&self) -> Result<(), ConfigError> {
        if self.reservations.len() > MOST_RESERVATIONS {
            return Err(ConfigError::Setting { setting: "reservations", right: "64 or less" });
        }
        for one in &self.reservations {
            let (setting, right) = match one.to {
                Some(to) if to.index() >= self.nodes || to == self.node => {
                    ("reservations", "for other nodes of the ring")
                }
                _ if one.class == Class::C => ("reservations", "of class A or B: best effort reserves nothing"),
                _ if one.rate.as_bits_per_sec() == 0 => ("reservations", "of rates above zero"),
                _ => continue,
            };
            return Err(ConfigError::Setting { setting, right });
        }
        let whole = Topology::ring(self.nodes, self.nominal);
        for side in Side::BOTH {
            let of = |class| self.reserved(&whole, side.ringlet(), class).as_bits_per_sec();
            let reserved = Rate::from_bits_per_sec(of(Class::A).saturating_add(of(Class::B)));
            let capacity = self.capacity[side.index()];
            if reserved > capacity {
                return Err(ConfigError::Reserved { side, reserved, capacity });
            }
        }
        Ok(())
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Less than 2 nodes, or more than 255.
    #[error("a ring has 2 to 255 nodes, not {found}")]
    Nodes {
        /// How many.
        found: usize,
    },
    /// A number beyond the ring's.
    #[error("node {node} in a ring of {nodes} nodes")]
    Node {
        /// The number.
        node: NodeId,
        /// How many there are.
        nodes: usize,
    },
    /// A setting out of its range.
    #[error("{setting} must be {right}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// What it may be.
        right: &'static str,
    },
    /// More is reserved than the link carries.
    #[error(
        "reservations of {} bit/s on the link {}, which carries {} bit/s; reserve less, or for fewer nodes",
        reserved.as_bits_per_sec(), match side { Side::East => "east", Side::West => "west" }, capacity.as_bits_per_sec()
    )]
    Reserved {
        /// Of which link.
        side: Side,
        /// How much.
        reserved: Rate,
        /// What there is.
        capacity: Rate,
    },
    /// A discipline or policy that cannot work.
    #[error("station's queue: {0}")]
    Queue(#[from] QueueError),
    /// A setting of discovery.
    #[error(transparent)]
    Discovery(#[from] discovery::ConfigError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn node(n: u8) -> NodeId {
        NodeId::new(n).unwrap()
    }

    #[test]
    fn what_is_wrong_with_settings_is_named_with_what_would_be_right() {
        let right = Config::new(node(1), 8, Rate::from_mbit(100));
        assert_eq!(right.check(), Ok(()));
        type Spoil = fn(&mut Config);
        let cases: &[(Spoil, &str)] = &[
            (|c| c.nodes = 1, "a ring has 2 to 255 nodes, not 1"),
            (|c| c.nodes = 256, "a ring has 2 to 255 nodes, not 256"),
            (|c| c.node = node(9), "node 9 in a ring of 8 nodes"),
            (|c| c.capacity[1] = Rate::default(), "capacity must be a rate above zero"),
            (|c| c.station_threshold = Bytes::new(300_000), "station_threshold must be transit_limit or less"),
            (|c| c.interval = Span::ZERO, "interval must be a time above zero"),
            (|c| c.nominal = Rate::default(), "nominal must be a rate above zero"),
            (|c| c.transit_limit = Bytes::ZERO, "transit_limit must be a size above zero"),
            (|c| c.station_limit = Bytes::ZERO, "station_limit must be a size above zero"),
            (|c| c.station_threshold = Bytes::ZERO, "station_threshold must be a size above zero"),
            (|c| c.weight = 0, "weight must be 1 or more, in thousandths"),
            (|c| (0..65).for_each(|_| reserve(c, 2, Class::A, 1)), "reservations must be 64 or less"),
            (|c| reserve(c, 2, Class::A, 0), "reservations must be of rates above zero"),
            (
                |c| {
                    c.algorithm = Algorithm::Fifo;
                    c.station_discipline = DisciplineConfig::Sfq;
                },
                "station_discipline must be fifo, and the policy drop-tail, where the algorithm is fifo: it has one queue for \
                 all; take another algorithm",
            ),
            (|c| c.announcement = alloc::vec![0; 513], "announcement must be 512 bytes or less"),
            (|c| reserve(c, 9, Class::A, 1), "reservations must be for other nodes of the ring"),
            (|c| reserve(c, 1, Class::A, 1), "reservations must be for other nodes of the ring"),
            (|c| reserve(c, 2, Class::C, 1), "reservations must be of class A or B: best effort reserves nothing"),
            (
                |c| {
                    reserve(c, 2, Class::A, 60);
                    reserve(c, 3, Class::B, 41);
                },
                "reservations of 101000000 bit/s on the link east, which carries 100000000 bit/s; reserve less, or for fewer nodes",
            ),
        ];
        for (spoil, message) in cases {
            let mut config = right.clone();
            spoil(&mut config);
            assert_eq!(config.check().unwrap_err().to_string(), *message);
        }
        let mut both = right.clone();
        reserve(&mut both, 2, Class::A, 60);
        reserve(&mut both, 8, Class::A, 60);
        assert_eq!(both.check(), Ok(()), "each has a link of its own");
        let mut many = right;
        (0..64).for_each(|_| reserve(&mut many, 2, Class::A, 1));
        assert_eq!(many.check(), Ok(()), "as many as there may be");
    }

    #[test]
    fn what_is_reserved_is_summed_up_by_class_and_way() {
        let mut config = Config::new(node(1), 8, Rate::from_mbit(100));
        for (to, class, mbit) in [(2, Class::A, 10), (4, Class::A, 1), (3, Class::B, 20), (8, Class::A, 30)] {
            reserve(&mut config, to, class, mbit);
        }
        let ring = Topology::ring(8, config.nominal);
        for (ringlet, class, mbit) in [
            (Ringlet::Zero, Class::A, 11),
            (Ringlet::Zero, Class::B, 20),
            (Ringlet::One, Class::A, 30),
            (Ringlet::One, Class::B, 0),
        ] {
            assert_eq!(config.reserved(&ring, ringlet, class), Rate::from_mbit(mbit));
        }
    }

    #[test]
    fn what_goes_first_follows_from_the_algorithm() {
        for (algorithm, scheduling) in [
            ("dvsr", Scheduling::Admitted),
            ("dba", Scheduling::Admitted),
            ("fifo", Scheduling::Fifo),
            ("rpr-am:queue=single", Scheduling::Single),
            ("rpr-am:queue=dual", Scheduling::Dual),
            ("rpr-cm:queue=single", Scheduling::Single),
            ("rpr-cm:queue=dual", Scheduling::Dual),
        ] {
            let mut config = Config::new(node(1), 8, Rate::from_mbit(100));
            config.algorithm = algorithm.parse().unwrap();
            assert_eq!(config.scheduling(), scheduling, "{algorithm}");
        }
    }

    fn reserve(config: &mut Config, to: u8, class: Class, mbit: u64) {
        config.reservations.push(Reservation { to: NodeId::new(to), class, rate: Rate::from_mbit(mbit) });
    }
}
