//! Queue disciplines: which of the packets that wait goes next.
//!
//! A [`Discipline`] orders; a [buffer policy](crate::buffer) lets in, marks and evicts; a [`Queue`] is one of each, any with
//! any, chosen by a [`Config`]. A [`Server`](crate::link::Server) joins a queue with a link's rate. Packets are whatever the
//! driver says ([`Parcel`]).
//!
//! | discipline | file |
//! |---|---|
//! | first in, first out | `fifo.rs` |
//! | deficit round robin, round robin by packets, weighted round robin by their mean length | `drr.rs` |
//! | deficit round robin with new flows first | `flow_queue.rs` |
//! | surplus round robin | `srr.rs` |
//! | randomised fair queueing | `rfq.rs` |
//! | start-time fair queueing | `sfq.rs`, on `tagged.rs` |
//! | self-clocked fair queueing | `scfq.rs`, on `tagged.rs` |
//! | weighted fair queueing | `wfq.rs`, on `tagged.rs` |
//! | VirtualClock | `virtual_clock.rs`, on `tagged.rs` |
//! | delay earliest due date | `delay_edd.rs`, on `tagged.rs` |
//! | quick fair queueing | `qfq.rs` |
//! | stochastic fair queueing | `stochastic.rs` |
//! | hosts, classes or levels of priority, and then flows | `hierarchy.rs` |
//! | a low-latency and a Classic queue (L4S) | `dual.rs` |
//!
//! Another discipline is its own file and its lines in this one, and is then a setting of bonds, stations of rings, links of
//! the emulator and links of the simulator. One from a crate outside goes into [`DisciplineConfig::Own`].
//!
//! ```
//! use fairspan_core::buffer::{Limit, PolicyConfig};
//! use fairspan_core::queue::{Admit, Config, Queue, Opaque};
//! use fairspan_core::units::{FlowNumber, Time};
//!
//! let mut config = Config::default();
//! config.discipline = "drr:quantum=1500B".parse()?;
//! config.buffer = PolicyConfig::LongestQueue;
//! config.limit = Limit::Packets(3);
//! let mut queue = Queue::new(&config, 1)?;
//! let now = Time::ZERO;
//! for (flow, packet) in [(7, "a"), (7, "b"), (7, "c"), (9, "d")] {
//!     assert_eq!(queue.enqueue(now, FlowNumber(flow), Opaque { packet, size: 1000 }), Admit::Queued);
//!     while let Some(dropped) = queue.poll_dropped() {
//!         assert_eq!(dropped.packet.packet, "c"); // the newest of the longest queue
//!     }
//! }
//! let order: Vec<&str> = std::iter::from_fn(|| queue.dequeue(now)).map(|entry| entry.packet.packet).collect();
//! assert_eq!(order, ["a", "d", "b"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backlogs;
mod delay_edd;
mod discipline;
mod drr;
mod dual;
mod fifo;
mod finishes;
mod flow_queue;
mod heap;
mod hierarchy;
mod lengths;
mod means;
mod order;
mod parcel;
mod qfq;
mod rfq;
mod round;
mod scfq;
mod sfq;
mod srr;
mod stamp;
mod stochastic;
mod store;
mod tagged;
mod tournament;
mod virtual_clock;
mod waiting;
mod weights;
mod wfq;

pub use crate::buffer::ConfigError;
pub use delay_edd::{Deadlines, DelayEdd, MOST_DELAY};
pub use discipline::{Discipline, Entry, Index, MOST_ROOM, MOST_WEIGHT, Taken, Unit};
pub use drr::Drr;
pub use dual::{Dual, DualConfig, Scheduler};
pub use fifo::Fifo;
pub use flow_queue::FlowQueue;
pub use hierarchy::{Grouping, Hierarchy};
pub use order::{Order, OrderMaker, Ordered, OwnOrder, Ticket};
pub use parcel::{
    End, Opaque, Parcel, class_of, class_of_frame, host_of, host_of_frame, is_scalable, is_scalable_frame,
};
pub use qfq::{MOST_LARGEST, Qfq};
pub use rfq::Rfq;
pub use scfq::Scfq;
pub use sfq::Sfq;
pub use srr::Srr;
pub use stamp::Stamp;
pub use stochastic::Stochastic;
pub use tagged::{Clock, Tagged};
pub use virtual_clock::VirtualClock;
pub use waiting::{Admit, Config, Dropped, Queue};
pub use weights::{CLASSES, Weights};
pub use wfq::Wfq;

use crate::buffer::{Pi2Config, PolicyConfig, Victim};
use crate::options::{self, Dialect, Family, Field, Fields, Kind, Member, OptionError, OptionSpec, Value, Words};
use crate::units::{Bytes, FlowNumber, Rate, Span, Time};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// The largest quantum in bytes.
pub const MOST_QUANTUM: u64 = 1 << 30;
/// Most buckets of a stochastic discipline.
pub const MOST_BUCKETS: u32 = 1 << 20;

/// The rates that a flow or a link may have.
const RATES: (Rate, Rate) = (Rate::from_bits_per_sec(1000), Rate::from_bits_per_sec(1_000_000_000_000));

const QUANTUM: Bytes = Bytes::new(1500);
static QUANTUM_SPEC: OptionSpec =
    OptionSpec::new("quantum", Kind::Bytes(1, MOST_QUANTUM, None), "bytes of a flow's turn");
static BUCKETS_SPEC: OptionSpec =
    OptionSpec::new("buckets", Kind::Count(1, MOST_BUCKETS as u64, None), "buckets that flows are hashed to");
static LARGEST_SPEC: OptionSpec =
    OptionSpec::new("largest", Kind::Bytes(1, MOST_LARGEST, None), "bytes of the largest packet that is expected");
static DELAY_SPEC: OptionSpec = OptionSpec::new(
    "delay",
    Kind::Span(Span::from_micros(1), MOST_DELAY, None),
    "how long a packet of a flow within its rate may take",
);
static BY_SPEC: OptionSpec = OptionSpec::new("by", Kind::Choice(End::WORDS), "the end of a flow whose host counts");
static WEIGHTS_SPEC: OptionSpec = OptionSpec::new(
    "weights",
    Kind::Text(|text| text.parse::<Weights>().map(drop)),
    "the weights of classes 0 to 7, with strokes between",
);

static FLOW_RATE_SPEC: OptionSpec =
    OptionSpec::new("rate", Kind::Rate(RATES.0, RATES.1, None), "what a flow is to have");
static LINK_RATE_SPEC: OptionSpec =
    OptionSpec::new("rate", Kind::Rate(RATES.0, RATES.1, Some("measured")), "what the link carries");

/// Which discipline, with its settings. As text: its name, then options, such as `drr:quantum=3000B`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DisciplineConfig {
    /// `fifo`: first in, first out.
    #[default]
    Fifo,
    /// `round-robin`: one packet of each flow in turn, whatever its length.
    RoundRobin,
    /// `drr`: deficit round robin (Shreedhar and Varghese 1995), a queue for each flow.
    Drr {
        /// Bytes a visit. As text by default 1500 B, as everywhere here.
        quantum: Bytes,
    },
    /// `wrr`: weighted round robin, by packets, with shares by their estimated mean length, a queue for each flow.
    Wrr {
        /// Bytes a visit.
        quantum: Bytes,
    },
    /// `flow-queue`: deficit round robin with new flows first (RFC 8290), a queue for each flow.
    FlowQueue {
        /// Bytes a visit.
        quantum: Bytes,
    },
    /// `srr`: surplus round robin (Adiseshu, Parulkar and Varghese), a queue for each flow.
    Srr {
        /// Bytes a turn.
        quantum: Bytes,
    },
    /// `rfq`: randomised fair queueing (Adiseshu, Varghese and Parulkar), weighted by packet sizes, a queue for each flow.
    Rfq,
    /// `sfq`: start-time fair queueing (Goyal, Vin, Cheng 1996), a queue for each flow.
    Sfq,
    /// `scfq`: self-clocked fair queueing (Golestani 1994), a queue for each flow.
    Scfq,
    /// `wfq`: weighted fair queueing with exact virtual time (Demers, Keshav, Shenker 1989), a queue for each flow.
    Wfq {
        /// What the link carries. `None`, the default: it is measured.
        rate: Option<Rate>,
    },
    /// `virtual-clock`: VirtualClock (Zhang 1990), a queue for each flow.
    VirtualClock {
        /// What each flow is to have. As text by default 1 Mbit/s.
        rate: Rate,
    },
    /// `delay-edd`: Delay-EDD (Ferrari and Verma 1990), a queue for each flow.
    DelayEdd {
        /// What each flow is to have. As text by default 1 Mbit/s.
        rate: Rate,
        /// How long a packet of a flow within its rate may take. As text by default 20 ms.
        delay: Span,
    },
    /// `qfq`: quick fair queueing (Checconi, Rizzo, Valente 2013), a queue for each flow.
    Qfq {
        /// The largest packet that is expected. As text by default 1500 B.
        largest: Bytes,
    },
    /// `stochastic`: stochastic fair queueing (McKenney 1990): DRR over this many hash buckets, with a keyed hash.
    Stochastic {
        /// Buckets. As text by default 1024.
        buckets: u32,
        /// Bytes a visit.
        quantum: Bytes,
    },
    /// `hosts`: hosts have equal shares, and then the flows of each by deficit round robin.
    Hosts {
        /// Whose hosts. As text by default `source`.
        by: End,
        /// Bytes a visit, of hosts and of flows.
        quantum: Bytes,
    },
    /// `classes`: classes share by weights, and then the flows of each by deficit round robin.
    Classes {
        /// As text by default 1 each.
        weights: Weights,
        /// Bytes a visit, of classes with weight 1 and of flows.
        quantum: Bytes,
    },
    /// `priority`: the highest class that has packets goes first, and its flows share by deficit round robin.
    Priority {
        /// Bytes a visit of a flow.
        quantum: Bytes,
    },
    /// `dual`: a low-latency and a Classic queue (RFC 9332), by the ECN field.
    Dual(DualConfig),
    /// An order of one's own. It has no name in texts.
    Own(OrderMaker),
}

impl DisciplineConfig {
    /// The policy that goes with it where none is named. Fair queues come with longest-queue drop (McKenney 1990; DRR's own
    /// paper; ns-2): with drop-tail, who sends most gets the buffer, and the discipline decides over what is left.
    pub fn usual_buffer(&self) -> PolicyConfig {
        match self {
            DisciplineConfig::Fifo => PolicyConfig::DropTail,
            DisciplineConfig::Dual(_) => PolicyConfig::Pi2(Pi2Config::PLAIN),
            _ => PolicyConfig::LongestQueue,
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// Names the first setting that cannot work, and its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let range = |setting, value, most| {
            if (1..=most).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::Range { setting, value, least: 1, most })
            }
        };
        match *self {
            DisciplineConfig::Fifo
            | DisciplineConfig::RoundRobin
            | DisciplineConfig::Rfq
            | DisciplineConfig::Sfq
            | DisciplineConfig::Scfq
            | DisciplineConfig::Wfq { rate: None }
            | DisciplineConfig::Dual(_)
            | DisciplineConfig::Own(_) => Ok(()),
            DisciplineConfig::Drr { quantum }
            | DisciplineConfig::Wrr { quantum }
            | DisciplineConfig::FlowQueue { quantum }
            | DisciplineConfig::Srr { quantum }
            | DisciplineConfig::Hosts { quantum, .. }
            | DisciplineConfig::Classes { quantum, .. }
            | DisciplineConfig::Priority { quantum } => range("quantum", quantum.as_u64(), MOST_QUANTUM),
            DisciplineConfig::Wfq { rate: Some(rate) } | DisciplineConfig::VirtualClock { rate } => {
                range("rate", rate.as_bits_per_sec(), RATES.1.as_bits_per_sec())
            }
            DisciplineConfig::DelayEdd { rate, delay } => {
                range("rate", rate.as_bits_per_sec(), RATES.1.as_bits_per_sec())?;
                range("delay", delay.as_nanos(), MOST_DELAY.as_nanos())
            }
            DisciplineConfig::Qfq { largest } => range("largest", largest.as_u64(), MOST_LARGEST),
            DisciplineConfig::Stochastic { buckets, quantum } => {
                range("buckets", u64::from(buckets), u64::from(MOST_BUCKETS))?;
                range("quantum", quantum.as_u64(), MOST_QUANTUM)
            }
        }
    }
}

const fn member(name: &'static str, help: &'static str, plain: fn() -> DisciplineConfig) -> Member<DisciplineConfig> {
    Member { name, mode: None, main: None, help, plain }
}

impl Family for DisciplineConfig {
    const WHAT: &'static str = "queue discipline";
    const DIALECT: Dialect = Dialect::Plain;
    const MEMBERS: &'static [Member<DisciplineConfig>] = &[
        member("fifo", "first in, first out", || DisciplineConfig::Fifo),
        member("round-robin", "one packet of each flow in turn, whatever its length", || DisciplineConfig::RoundRobin),
        member(
            "drr",
            "deficit round robin: flows have equal shares by bytes; a flow saves up for a packet that its turn does not hold",
            || DisciplineConfig::Drr { quantum: QUANTUM },
        ),
        member(
            "srr",
            "surplus round robin: the same shares; a flow may overdraw its turn by a packet, and has less in the next",
            || DisciplineConfig::Srr { quantum: QUANTUM },
        ),
        member(
            "wrr",
            "weighted round robin: flows have equal shares by packets of their mean length, which is estimated",
            || DisciplineConfig::Wrr { quantum: QUANTUM },
        ),
        member(
            "flow-queue",
            "as drr, but flows that begin go first, and may overdraw their turn by a packet (RFC 8290)",
            || DisciplineConfig::FlowQueue { quantum: QUANTUM },
        ),
        member(
            "rfq",
            "randomised fair queueing: the next flow is drawn, more rarely the longer its packets are on average, so that shares are equal by bytes in the long run",
            || DisciplineConfig::Rfq,
        ),
        member(
            "sfq",
            "start-time fair queueing: the packet goes that would begin first if all flows were served at once",
            || DisciplineConfig::Sfq,
        ),
        member(
            "scfq",
            "self-clocked fair queueing: the packet goes that would end first, by the clock of what was sent",
            || DisciplineConfig::Scfq,
        ),
        member(
            "wfq",
            "weighted fair queueing: the packet goes that would end first if all flows were served at once; exact at any \
             moment on a link of constant rate",
            || DisciplineConfig::Wfq { rate: None },
        ),
        member(
            "virtual-clock",
            "VirtualClock: the packet goes that would end first if its flow had its rate for itself; who had more than that \
             before waits for the others",
            || DisciplineConfig::VirtualClock { rate: Rate::from_mbit(1) },
        ),
        member(
            "delay-edd",
            "Delay-EDD: the packet goes whose deadline comes first, which is the flow's delay after the packet was to be expected at the \
             flow's rate",
            || DisciplineConfig::DelayEdd { rate: Rate::from_mbit(1), delay: Span::from_millis(20) },
        ),
        member(
            "qfq",
            "quick fair queueing: nearly as wfq, and a flow is never far ahead of its share, at a cost that does not grow with the \
             flows; larger packets than the largest loosen its bounds",
            || DisciplineConfig::Qfq { largest: QUANTUM },
        ),
        member("stochastic", "deficit round robin over buckets that flows are hashed to", || {
            DisciplineConfig::Stochastic { buckets: 1024, quantum: QUANTUM }
        }),
        member(
            "hosts",
            "hosts have equal shares by bytes, however many flows they have; then the flows of each, by deficit round robin",
            || DisciplineConfig::Hosts { by: End::Source, quantum: QUANTUM },
        ),
        member(
            "classes",
            "classes, which are the upper three bits of the DSCP, share by weights; then the flows of each, by deficit round robin",
            || DisciplineConfig::Classes { weights: Weights::EQUAL, quantum: QUANTUM },
        ),
        member(
            "priority",
            "the highest class, which is the upper three bits of the DSCP, goes before all others; its flows share by deficit \
             round robin",
            || DisciplineConfig::Priority { quantum: QUANTUM },
        ),
        member(
            "dual",
            "two queues (RFC 9332): what says ECT(1) or CE (L4S) waits apart, and goes before all else within bounds",
            || DisciplineConfig::Dual(DualConfig::PLAIN),
        ),
    ];

    fn same(&self, other: &DisciplineConfig) -> bool {
        core::mem::discriminant(self) == core::mem::discriminant(other)
    }

    fn fields(&self) -> Fields<'_> {
        match self {
            DisciplineConfig::Drr { quantum }
            | DisciplineConfig::Wrr { quantum }
            | DisciplineConfig::FlowQueue { quantum }
            | DisciplineConfig::Srr { quantum }
            | DisciplineConfig::Priority { quantum } => vec![(&QUANTUM_SPEC, quantum as &dyn Field)],
            DisciplineConfig::Hosts { by, quantum } => vec![(&BY_SPEC, by as &dyn Field), (&QUANTUM_SPEC, quantum)],
            DisciplineConfig::Classes { weights, quantum } => {
                vec![(&WEIGHTS_SPEC, weights as &dyn Field), (&QUANTUM_SPEC, quantum)]
            }
            DisciplineConfig::Wfq { rate } => vec![(&LINK_RATE_SPEC, rate as &dyn Field)],
            DisciplineConfig::DelayEdd { rate, delay } => {
                vec![(&FLOW_RATE_SPEC, rate as &dyn Field), (&DELAY_SPEC, delay)]
            }
            DisciplineConfig::Qfq { largest } => vec![(&LARGEST_SPEC, largest as &dyn Field)],
            DisciplineConfig::VirtualClock { rate } => vec![(&FLOW_RATE_SPEC, rate as &dyn Field)],
            DisciplineConfig::Stochastic { buckets, quantum } => {
                vec![(&BUCKETS_SPEC, buckets as &dyn Field), (&QUANTUM_SPEC, quantum)]
            }
            DisciplineConfig::Dual(dual) => dual.fields(),
            _ => Vec::new(),
        }
    }

    fn field_mut(&mut self, option: &str) -> Option<&mut dyn Field> {
        match (self, option) {
            (
                DisciplineConfig::Drr { quantum }
                | DisciplineConfig::Wrr { quantum }
                | DisciplineConfig::FlowQueue { quantum }
                | DisciplineConfig::Srr { quantum }
                | DisciplineConfig::Stochastic { quantum, .. }
                | DisciplineConfig::Hosts { quantum, .. }
                | DisciplineConfig::Classes { quantum, .. }
                | DisciplineConfig::Priority { quantum },
                "quantum",
            ) => Some(quantum),
            (DisciplineConfig::Wfq { rate }, "rate") => Some(rate),
            (DisciplineConfig::VirtualClock { rate } | DisciplineConfig::DelayEdd { rate, .. }, "rate") => Some(rate),
            (DisciplineConfig::DelayEdd { delay, .. }, "delay") => Some(delay),
            (DisciplineConfig::Qfq { largest }, "largest") => Some(largest),
            (DisciplineConfig::Stochastic { buckets, .. }, "buckets") => Some(buckets),
            (DisciplineConfig::Hosts { by, .. }, "by") => Some(by),
            (DisciplineConfig::Classes { weights, .. }, "weights") => Some(weights),
            (DisciplineConfig::Dual(dual), option) => dual.field_mut(option),
            _ => None,
        }
    }
}

impl Field for DisciplineConfig {
    fn value(&self) -> Value {
        Value::Text(self.to_string())
    }

    fn take(&mut self, value: Value) {
        if let Value::Text(text) = value
            && let Ok(config) = text.parse()
        {
            *self = config;
        }
    }
}

impl FromStr for DisciplineConfig {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<DisciplineConfig, OptionError> {
        options::parse(text)
    }
}

impl fmt::Display for DisciplineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        options::write(self, f)
    }
}

/// A discipline chosen by [`DisciplineConfig`]. Those with queues for each flow lie apart: most queues are FIFO, and their way
/// is short.
#[derive(Clone, Debug)]
pub enum AnyDiscipline<P> {
    /// [`Fifo`].
    Fifo(Fifo<P>),
    /// One with a queue for each flow or bucket.
    Fair(Box<Fair<P>>),
}

/// A discipline with queues for each flow or bucket.
#[derive(Clone, Debug)]
pub enum Fair<P> {
    /// [`Drr`], round robin by packets, and weighted round robin.
    Drr(Drr<P>),
    /// [`FlowQueue`].
    FlowQueue(FlowQueue<P>),
    /// [`Srr`].
    Srr(Srr<P>),
    /// [`Rfq`].
    Rfq(Rfq<P>),
    /// [`Sfq`].
    Sfq(Sfq<P>),
    /// [`Scfq`].
    Scfq(Scfq<P>),
    /// [`Wfq`].
    Wfq(Wfq<P>),
    /// [`VirtualClock`].
    VirtualClock(VirtualClock<P>),
    /// [`DelayEdd`].
    DelayEdd(DelayEdd<P>),
    /// [`Qfq`].
    Qfq(Qfq<P>),
    /// [`Stochastic`].
    Stochastic(Stochastic<P>),
    /// [`Hierarchy`].
    Hierarchy(Hierarchy<P>),
    /// [`Dual`].
    Dual(Dual<P>),
    /// [`Ordered`].
    Ordered(Ordered<P>),
}

impl<P> AnyDiscipline<P> {
    /// The discipline that `config` names, which was [checked](DisciplineConfig::check). It finds victims by `index`;
    /// `seed` keys the hash of a stochastic one, and that of hosts, and is what a randomised one draws by.
    pub fn new(config: DisciplineConfig, index: Index, seed: u64) -> AnyDiscipline<P> {
        AnyDiscipline::Fair(Box::new(match config {
            DisciplineConfig::Fifo => return AnyDiscipline::Fifo(Fifo::default()),
            DisciplineConfig::RoundRobin => Fair::Drr(Drr::by_packets(index)),
            DisciplineConfig::Drr { quantum } => Fair::Drr(Drr::new(quantum, index)),
            DisciplineConfig::Srr { quantum } => Fair::Srr(Srr::new(quantum, index)),
            DisciplineConfig::Wrr { quantum } => Fair::Drr(Drr::by_mean(quantum, index)),
            DisciplineConfig::FlowQueue { quantum } => Fair::FlowQueue(FlowQueue::new(quantum, index)),
            DisciplineConfig::Rfq => Fair::Rfq(Rfq::new(index, seed)),
            DisciplineConfig::Sfq => Fair::Sfq(Sfq::new(index)),
            DisciplineConfig::Scfq => Fair::Scfq(Scfq::new(index)),
            DisciplineConfig::Wfq { rate } => Fair::Wfq(Wfq::new(rate, index)),
            DisciplineConfig::VirtualClock { rate } => Fair::VirtualClock(VirtualClock::new(rate, index)),
            DisciplineConfig::DelayEdd { rate, delay } => Fair::DelayEdd(DelayEdd::new(rate, delay, index)),
            DisciplineConfig::Qfq { largest } => Fair::Qfq(Qfq::new(largest, index)),
            DisciplineConfig::Stochastic { buckets, quantum } => {
                Fair::Stochastic(Stochastic::new(buckets, quantum, index, seed))
            }
            DisciplineConfig::Hosts { by, quantum } => {
                Fair::Hierarchy(Hierarchy::new(Grouping::Hosts(by), quantum, index, seed))
            }
            DisciplineConfig::Classes { weights, quantum } => {
                Fair::Hierarchy(Hierarchy::new(Grouping::Classes(weights), quantum, index, seed))
            }
            DisciplineConfig::Priority { quantum } => {
                Fair::Hierarchy(Hierarchy::new(Grouping::Priority, quantum, index, seed))
            }
            DisciplineConfig::Dual(config) => Fair::Dual(Dual::new(config, index)),
            DisciplineConfig::Own(maker) => Fair::Ordered(Ordered::new(maker)),
        }))
    }
}

macro_rules! each {
    ($self:ident, $discipline:ident => $call:expr) => {
        match $self {
            AnyDiscipline::Fifo($discipline) => $call,
            AnyDiscipline::Fair($discipline) => $call,
        }
    };
}

impl<P: Parcel> Discipline<P> for AnyDiscipline<P> {
    #[inline]
    fn enqueue(&mut self, entry: Entry<P>) {
        each!(self, d => d.enqueue(entry));
    }

    #[inline]
    fn dequeue(&mut self, now: Time) -> Option<Taken<P>> {
        each!(self, d => d.dequeue(now))
    }

    #[inline]
    fn peek(&self) -> Option<&Entry<P>> {
        each!(self, d => d.peek())
    }

    fn evict(&mut self, victim: Victim) -> Option<Entry<P>> {
        each!(self, d => d.evict(victim))
    }

    fn find(&mut self, victim: Victim) -> Option<&mut Entry<P>> {
        each!(self, d => d.find(victim))
    }

    fn expire(&mut self, oldest: Time) -> Option<Entry<P>> {
        each!(self, d => d.expire(oldest))
    }

    fn set_weight(&mut self, flow: FlowNumber, weight: u32) {
        each!(self, d => d.set_weight(flow, weight));
    }

    fn set_room(&mut self, flow: FlowNumber, room: u32) {
        each!(self, d => d.set_room(flow, room));
    }

    fn set_delay(&mut self, flow: FlowNumber, delay: Span) {
        each!(self, d => d.set_delay(flow, delay));
    }

    fn active_flows(&self) -> usize {
        each!(self, d => d.active_flows())
    }

    fn by_flow(&self) -> bool {
        each!(self, d => d.by_flow())
    }

    fn heads(&self) -> [Option<Time>; 2] {
        each!(self, d => d.heads())
    }

    fn forgets(&self) -> bool {
        each!(self, d => d.forgets())
    }

    fn next_ready(&self) -> Option<Time> {
        each!(self, d => d.next_ready())
    }
}

macro_rules! each_fair {
    ($self:ident, $discipline:ident => $call:expr) => {
        match $self {
            Fair::Drr($discipline) => $call,
            Fair::Srr($discipline) => $call,
            Fair::FlowQueue($discipline) => $call,
            Fair::Rfq($discipline) => $call,
            Fair::Sfq($discipline) => $call,
            Fair::Scfq($discipline) => $call,
            Fair::Wfq($discipline) => $call,
            Fair::VirtualClock($discipline) => $call,
            Fair::DelayEdd($discipline) => $call,
            Fair::Qfq($discipline) => $call,
            Fair::Stochastic($discipline) => $call,
            Fair::Hierarchy($discipline) => $call,
            Fair::Dual($discipline) => $call,
            Fair::Ordered($discipline) => $call,
        }
    };
}

impl<P: Parcel> Discipline<P> for Fair<P> {
    #[inline(never)]
    fn enqueue(&mut self, entry: Entry<P>) {
        each_fair!(self, d => d.enqueue(entry));
    }

    #[inline(never)]
    fn dequeue(&mut self, now: Time) -> Option<Taken<P>> {
        each_fair!(self, d => d.dequeue(now))
    }

    #[inline(never)]
    fn peek(&self) -> Option<&Entry<P>> {
        each_fair!(self, d => d.peek())
    }

    fn evict(&mut self, victim: Victim) -> Option<Entry<P>> {
        each_fair!(self, d => d.evict(victim))
    }

    fn find(&mut self, victim: Victim) -> Option<&mut Entry<P>> {
        each_fair!(self, d => d.find(victim))
    }

    fn expire(&mut self, oldest: Time) -> Option<Entry<P>> {
        each_fair!(self, d => d.expire(oldest))
    }

    fn set_weight(&mut self, flow: FlowNumber, weight: u32) {
        each_fair!(self, d => d.set_weight(flow, weight));
    }

    fn set_room(&mut self, flow: FlowNumber, room: u32) {
        each_fair!(self, d => d.set_room(flow, room));
    }

    fn set_delay(&mut self, flow: FlowNumber, delay: Span) {
        each_fair!(self, d => d.set_delay(flow, delay));
    }

    fn active_flows(&self) -> usize {
        each_fair!(self, d => d.active_flows())
    }

    fn by_flow(&self) -> bool {
        each_fair!(self, d => d.by_flow())
    }

    fn heads(&self) -> [Option<Time>; 2] {
        each_fair!(self, d => d.heads())
    }

    fn forgets(&self) -> bool {
        each_fair!(self, d => d.forgets())
    }

    fn next_ready(&self) -> Option<Time> {
        each_fair!(self, d => d.next_ready())
    }
}
