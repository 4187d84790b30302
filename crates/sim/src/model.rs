//! The scenario as the world takes it: names resolved to numbers, quantities as types, checked.

pub use crate::metrics::Metrics;
pub use crate::traffic::Transport;

use crate::tcp;
use crate::traffic;
use fairspan_core::arq;
use fairspan_core::bond;
use fairspan_core::buffer::{Limit, PolicyConfig};
use fairspan_core::link::{Outage, Profile};
use fairspan_core::options::words;
use fairspan_core::queue::DisciplineConfig;
use fairspan_core::ring::algorithm::Algorithm;
use fairspan_core::ring::topology::UNIT_WEIGHT;
use fairspan_core::ring::{Class, Ringlet};
use fairspan_core::select::Settings;
use fairspan_core::shared::Shared;
use fairspan_core::split;
use fairspan_core::units::{Bytes, Rate, Span, Time};
use std::sync::Arc;

/// One run: everything that its outcome depends on.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// For people.
    pub title: String,
    /// Simulated time.
    pub duration: Span,
    /// Metrics count from here on.
    pub warm_up: Span,
    /// Everything random comes from it.
    pub seed: u64,
    /// Each source's clock is off by a constant drawn uniformly from minus this to plus this, in parts per million.
    /// Default 1000; zero switches it off.
    pub drift_ppm: u32,
    /// Each packet that an end of a TCP flow (or of an exchange) sends leaves up to this much later, drawn uniformly, in
    /// order: what real hosts do, and what keeps equal connections from falling into step. Zero switches it off.
    pub processing: Span,
    /// Into how many parts the world is divided, which run beside one another; the parts decide a little otherwise than the whole, so it belongs
    /// to the scenario. Default 1.
    pub partitions: u32,
    /// Nodes, numbered in this order.
    pub nodes: Vec<Node>,
    /// Links, one direction each, numbered in this order.
    pub links: Vec<Link>,
    /// Media that links share, numbered in this order.
    pub media: Vec<Medium>,
    /// Bonds, numbered in this order.
    pub bonds: Vec<Bond>,
    /// Rings, numbered in this order.
    pub rings: Vec<Ring>,
    /// Gateways that split connections, numbered in this order.
    pub splits: Vec<Split>,
    /// Reliable flows over several paths, numbered in this order.
    pub reliable: Vec<Reliable>,
    /// Flows, numbered in this order.
    pub flows: Vec<Flow>,
    /// What is measured beyond the summary.
    pub metrics: Metrics,
}

/// Most parts that a world may be divided into.
pub const MOST_PARTITIONS: u32 = 64;

/// The nodes between which each flow of a scenario goes; one list for all links.
pub(crate) type Ends = Arc<[[u32; 2]]>;

impl Scenario {
    /// Between which nodes its flows go.
    pub(crate) fn ends(&self) -> Ends {
        self.flows.iter().map(|flow| [flow.from, flow.to]).collect()
    }

    /// When the first outage of a link, or of anything of a ring, begins that begins in the measured time.
    pub fn first_outage(&self) -> Option<Time> {
        let links = self.links.iter().flat_map(|link| &link.profile.outages);
        let of_rings = |ring: &'_ Ring| {
            let links = ring.links.iter().flat_map(|link| link.outages.clone());
            links.chain(ring.node_outages.iter().flat_map(|node| node.outages.clone())).collect::<Vec<Outage>>()
        };
        let all = links.copied().chain(self.rings.iter().flat_map(of_rings));
        let first = |outage: Outage| match outage.every {
            // The first one that is not in the warm-up.
            Some(period) if outage.start < self.warm_up && period > Span::ZERO => {
                let missed = (self.warm_up - outage.start).as_nanos().div_ceil(period.as_nanos());
                outage.start + period.times(missed)
            }
            _ => outage.start,
        };
        let measured = |start: &Span| (self.warm_up..self.duration).contains(start);
        all.map(first).filter(measured).min().map(|start| Time::ZERO + start)
    }

    /// The number by which [`Metrics::capture`] knows a link of this name: that of a link, or, behind all links, of a ring's: `RING.2` is
    /// what ringlet 0 carries over its second link, `RING.2/1` what ringlet 1 does.
    pub fn captured(&self, name: &str) -> Option<u32> {
        let link = self.links.iter().position(|link| link.name == name);
        link.map(|link| link as u32).or_else(|| captured_way(&self.rings, self.links.len(), name))
    }

    /// All such names.
    pub fn capturable(&self) -> impl Iterator<Item = String> + '_ {
        let ways = self.rings.iter().flat_map(|ring| {
            let there = (1..).zip(&ring.links).filter(|(_, link)| link.present);
            there.flat_map(|(n, _)| [format!("{}.{n}", ring.name), format!("{}.{n}/1", ring.name)])
        });
        self.links.iter().map(|link| link.name.clone()).chain(ways)
    }

    /// The number of the first way of ring `ring` in captures.
    pub(crate) fn first_captured_way(&self, ring: usize) -> u32 {
        first_captured_way(&self.rings, self.links.len(), ring)
    }
}

fn first_captured_way(rings: &[Ring], links: usize, ring: usize) -> u32 {
    (links + 2 * rings[..ring].iter().map(|ring| ring.links.len()).sum::<usize>()) as u32
}

/// The number of a ring's way by its name in captures, in a scenario of so many links.
pub(crate) fn captured_way(rings: &[Ring], links: usize, name: &str) -> Option<u32> {
    let (ring, way) = name.rsplit_once('.')?;
    let (link, back) = way.strip_suffix("/1").map_or((way, false), |link| (link, true));
    let link = link.parse::<usize>().ok()?.checked_sub(1)?;
    let number = rings.iter().position(|known| known.name == ring)?;
    let ring = &rings[number].links;
    ring.get(link).filter(|link| link.present)?;
    // By twice the place of the node where it begins, and the ringlet.
    let way = if back { 2 * ((link + 1) % ring.len()) + 1 } else { 2 * link };
    Some(first_captured_way(rings, links, number) + way as u32)
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// For people.
    pub name: String,
    /// What it costs to handle packets here. Routers and switches usually have none.
    pub cost: HostCost,
}

/// What a host's one processor spends on packets; it serves them one after the other. All zero: no limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostCost {
    /// For each packet received.
    pub receive: Span,
    /// For each packet sent.
    pub send: Span,
    /// For each byte received or sent, in picoseconds.
    pub per_byte_ps: u64,
    /// For each interrupt: a packet that arrives on an interface while none of that interface is waiting or in service.
    pub interrupt: Span,
    /// For a packet that the host's transport finds out of order.
    pub out_of_order: Span,
    /// Each cost is drawn uniformly from itself times one minus to one plus this.
    pub jitter: f64,
    /// Packets that may wait for the processor for each interface; what comes then is dropped. Zero: no bound.
    pub queue: u32,
}

impl HostCost {
    /// Whether handling packets costs anything.
    pub(crate) fn any(&self) -> bool {
        let spans = [self.receive, self.send, self.interrupt, self.out_of_order];
        self.per_byte_ps > 0 || spans.iter().any(|span| *span > Span::ZERO)
    }
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Link {
    /// For people.
    pub name: String,
    /// Where it begins.
    pub from: u32,
    /// Where it ends.
    pub to: u32,
    /// Rate, delay, jitter, loss, outages, capacity over time: core's link, which the live emulator runs too.
    pub profile: Shared<Profile>,
    /// Bytes that each packet has on this link beyond its IP length.
    pub framing: Framing,
    /// What its ends' processors spend on each of its packets beyond their own cost; nodes without one spend nothing.
    pub card: Card,
    /// The medium that it shares with other links: its packets go while it has that.
    pub medium: Option<u32>,
}

/// A medium that one direction of one link has at a time.
#[derive(Clone, Debug)]
pub struct Medium {
    /// For people.
    pub name: String,
    /// Who is next.
    pub access: Access,
    /// How long it takes to change the sender, or to ask one.
    pub turnaround: Span,
    /// Silence before each packet.
    pub gap: Span,
    /// What a sender may send until others are asked: at least one packet.
    pub turn: Limit,
}

/// Who is next on a medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Who has waited longest.
    #[default]
    FirstCome,
    /// All are asked in turn.
    Poll,
}

/// What a network card asks of its host's processor beyond what every packet costs: one that the processor fills and
/// empties itself costs much for each byte, one with direct memory access nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Card {
    /// For each packet sent or received.
    pub packet: Span,
    /// For each byte of one, in picoseconds.
    pub per_byte_ps: u64,
}

/// What a link layer adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Nothing.
    #[default]
    None,
    /// This many bytes.
    Bytes(u32),
    /// Ethernet: 14 header, 4 check, padded to 64, 8 preamble, 12 gap.
    Ethernet,
    /// ATM: LLC/SNAP 8 and AAL5 trailer 8, padded to cells of 48, each 53 bytes.
    AtmAal5,
}

impl Framing {
    /// Bytes on this link of an IP packet of `size`.
    #[inline]
    pub fn length(self, size: u32) -> u32 {
        match self {
            Framing::None => size,
            Framing::Bytes(extra) => size.saturating_add(extra),
            // IEEE 802.3: 14 header, 4 check, together at least 64; 8 preamble, 12 gap.
            Framing::Ethernet => size.saturating_add(18).max(64).saturating_add(20),
            // RFC 2684 (LLC/SNAP) and I.363.5: 8 + payload + 8, padded to cells of 48, each of 53 bytes.
            Framing::AtmAal5 => size.saturating_add(16).div_ceil(48).saturating_mul(53),
        }
    }
}

/// A bond between two nodes: core's own, at both ends.
#[derive(Clone, Debug)]
pub struct Bond {
    /// For people.
    pub name: String,
    /// Its two ends.
    pub ends: [u32; 2],
    /// For each channel the path from end 0 to end 1 and back: links in order.
    pub channels: Vec<[Vec<u32>; 2]>,
    /// Settings of both ends, one channel entry for each of `channels`.
    pub config: bond::Config,
    /// Mode `flow`: the policy of end 1, where it is another one.
    pub policy_back: Option<Settings>,
}

impl Bond {
    /// The settings of its end 0 or 1.
    pub fn config_of(&self, end: usize) -> bond::Config {
        let mut config = self.config.clone();
        if let Some(policy) = self.policy_back.as_ref().filter(|_| end == 1) {
            config.policy = policy.clone();
        }
        config
    }
}

/// A gateway that splits TCP connections, at a node where flows pass.
#[derive(Clone, Debug)]
pub struct Split {
    /// For people.
    pub name: String,
    /// Where it is.
    pub node: u32,
    /// Core's gateway.
    pub config: split::Config,
    /// Its own TCP.
    pub tcp: tcp::Config,
    /// Links and bonds that are long, by number, links in both directions.
    pub long: [Vec<u32>; 2],
    /// Its TCP towards them.
    pub long_tcp: tcp::Config,
}

impl Split {
    /// Whether a hop away from it is long.
    pub(crate) fn is_long(&self, hop: Hop) -> bool {
        match hop {
            Hop::Link(number) => self.long[0].contains(&number),
            Hop::Bond(number, _) => self.long[1].contains(&number),
            Hop::Ring(..) => false,
        }
    }
}

/// A reliable flow over several paths.
#[derive(Clone, Debug)]
pub struct Reliable {
    /// For people.
    pub name: String,
    /// Sender's and receiver's node.
    pub ends: [u32; 2],
    /// For each path the links from the sender to the receiver and back.
    pub paths: Vec<[Vec<u32>; 2]>,
    /// What it is made of.
    pub scheme: Scheme,
    /// Settings of both ends.
    pub config: arq::Config,
    /// Size of an acknowledgment on the wire.
    pub ack_size: Bytes,
    /// First packet not before.
    pub start: Time,
    /// No new packet after.
    pub stop: Time,
}

/// A scheme of the paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// One stage of numbers, one retransmission buffer, a reorder buffer for each path.
    #[default]
    EflMp,
    /// One path.
    Lah,
    /// All paths in turns, without reorder buffers.
    Larr,
    /// Two stages of numbers.
    Mtcp,
    /// The sum of the paths' rates, the delay of the shortest.
    Ideal,
    /// The same, less what reorder buffers of this size cost after each loss, however it is mended.
    Bound,
}

words!(Scheme { EflMp = "efl-mp", Lah = "lah", Larr = "larr", Mtcp = "mtcp", Ideal = "ideal", Bound = "bound" });

/// A packet ring between nodes: core's own node at each of them, and the links between neighbours.
#[derive(Clone, Debug, PartialEq)]
pub struct Ring {
    /// For people.
    pub name: String,
    /// The scenario's node at each of its places; at place 0 is the ring's node 1. 2 to 255.
    pub nodes: Vec<u32>,
    /// The links, as many as nodes: at place 0 link 1, which joins nodes 1 and 2; the last joins the last node and node 1.
    pub links: Vec<RingLink>,
    /// How its links are shared.
    pub algorithm: Algorithm,
    /// Time between control messages.
    pub interval: Span,
    /// Room of each transit queue.
    pub transit: Bytes,
    /// Bytes in the transit queue from which on no packet of the station goes before it, or enters it.
    pub threshold: Bytes,
    /// Room of the station's queue to each egress.
    pub station: Bytes,
    /// Which packet in it goes next.
    pub station_discipline: DisciplineConfig,
    /// Which packets it lets in, and which it drops.
    pub station_policy: PolicyConfig,
    /// What happens to packets where a link is down.
    pub protection: Protection,
    /// Whether nodes learn the topology from messages. If not, they know it from the beginning and it stays.
    pub discovery: bool,
    /// Whether nodes see at once that a link carries nothing: loss of light. If not, they find out by silence.
    pub carrier: bool,
    /// Bytes that the wire carries for each frame beyond the packet's own, the ring's head of 6 bytes among them; control
    /// frames are without that head. At zero rates on the wire are those of packets.
    pub overhead: u32,
    /// Each node's weight, in thousandths.
    pub weights: Vec<u32>,
    /// Rates set aside.
    pub reservations: Vec<Reservation>,
    /// When nodes fail: they lose their state, and begin anew when they come back.
    pub node_outages: Vec<NodeOutage>,
}

impl Ring {
    /// A whole ring between `nodes` with equal links and weights, and everything else as `[[ring]]` has it by default.
    pub fn new(name: &str, nodes: Vec<u32>, rate: Rate, delay: Span) -> Ring {
        let link = RingLink { present: true, rate: [rate; 2], delay, outages: Vec::new(), faults: Faults::default() };
        let count = nodes.len();
        let around = delay.times(count as u64);
        Ring {
            name: name.to_owned(),
            nodes,
            links: vec![link; count],
            algorithm: Algorithm::default(),
            interval: if around > Span::ZERO { around } else { Ring::SHORTEST.times(count as u64) },
            transit: Ring::BUFFER,
            threshold: Bytes::new(Ring::BUFFER.as_u64() / 4),
            station: Ring::BUFFER,
            station_discipline: DisciplineConfig::default(),
            station_policy: PolicyConfig::default(),
            protection: Protection::default(),
            discovery: false,
            carrier: false,
            overhead: 0,
            weights: vec![UNIT_WEIGHT; count],
            reservations: Vec::new(),
            node_outages: Vec::new(),
        }
    }

    /// Room of a queue (rings §VII).
    pub const BUFFER: Bytes = Bytes::new(200_000);
    /// What stands for the propagation of a link where nothing has a delay, when control messages are timed.
    pub const SHORTEST: Span = Span::from_micros(100);
}

/// A link of a ring, both ways.
#[derive(Clone, Debug, PartialEq)]
pub struct RingLink {
    /// Whether it is there at all: a line is a ring without its last link.
    pub present: bool,
    /// What it carries, by ringlet.
    pub rate: [Rate; 2],
    /// Propagation, each way.
    pub delay: Span,
    /// When it is cut, both ways; what is under way is lost.
    pub outages: Vec<Outage>,
    /// What becomes of control frames.
    pub faults: Faults,
}

/// What becomes of control frames on a link: the probability of each, frame by frame.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// It is lost.
    pub loss: f64,
    /// It comes twice.
    pub duplicate: f64,
    /// One of its bits is another.
    pub corrupt: f64,
}

/// What happens to packets where a link of a ring is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// Their source sends them the other way round.
    #[default]
    Steer,
    /// The node before the break turns them back.
    Wrap,
    /// They are lost.
    None,
}

/// A rate that a ring sets aside on the way from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Place of the node where the traffic enters.
    pub from: u8,
    /// Place of the node where it leaves.
    pub to: u8,
    /// Of class A nobody else uses what it leaves; of class B others do.
    pub class: Class,
    /// How much.
    pub rate: Rate,
}

/// Times at which a node of a ring is dead.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeOutage {
    /// Its place.
    pub node: u8,
    /// When.
    pub outages: Vec<Outage>,
}

/// A flow's way through a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// Place of the node where it enters.
    pub from: u8,
    /// Place of the node where it leaves.
    pub to: u8,
    /// The way round; `None`: the shorter, or what is whole.
    pub ringlet: Option<Ringlet>,
    /// How its packets are served.
    pub class: Class,
}

/// One hop of a flow's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// Over a link.
    Link(u32),
    /// Through a bond, from its end 0 or 1.
    Bond(u32, u8),
    /// Through a ring.
    Ring(u32, Crossing),
}

/// Traffic from one node to another.
#[derive(Clone, Debug)]
pub struct Flow {
    /// For people.
    pub name: String,
    /// Sender's node.
    pub from: u32,
    /// Receiver's node.
    pub to: u32,
    /// From sender to receiver.
    pub path: Vec<Hop>,
    /// And back; may be empty where nothing flows back.
    pub back: Vec<Hop>,
    /// Further paths there and back, among which and these two its connections are spread by their numbers; the first connection takes these
    /// two. With gateways that split in the scenario, all take these two.
    pub others: Vec<[Vec<Hop>; 2]>,
    /// First packet not before.
    pub start: Time,
    /// Last packet not after.
    pub stop: Time,
    /// What is sent.
    pub traffic: traffic::Config,
    /// How.
    pub transport: Transport,
    /// Drift of this source's clock in parts per million; `None` draws it (see [`Scenario::drift_ppm`]).
    pub drift_ppm: Option<f64>,
    /// The class of service of its packets both ways (RFC 2474), 0 to 63.
    pub dscp: u8,
    /// Its weight in the disciplines of the links that it passes, both ways: 1 to [`fairspan_core::queue::MOST_WEIGHT`].
    pub weight: u32,
    /// Its room in their buffers, where a policy looks for the longest queue: 1 to [`fairspan_core::queue::MOST_ROOM`].
    pub room: Room,
    /// Its bound of delay at each link that bounds delays flow by flow; `None`: that of the link.
    pub deadline: Option<Span>,
}

/// How much of a buffer is a flow's, in proportion to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// So much.
    Parts(u32),
    /// By its round trip, as hybrid-gateways 3.4.3 has it: milliseconds of propagation over the links of its way there and
    /// back, and so much for waiting, rounded, and at least 1.
    RoundTrip(Span),
}

impl Default for Room {
    fn default() -> Room {
        Room::Parts(1)
    }
}
