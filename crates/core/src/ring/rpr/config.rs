//! The settings of RPR's fairness algorithm, with the defaults of IEEE 802.17.
//!
//! Where a default is from: the standard's management information base (IEEE-802DOT17-RPR-MIB, whose entries name the
//! clauses of the standard), or section II of the rings paper, which describes draft 1.0 of August 2002. Where the two
//! differ the paper's is the default, since its figures are what we hold ours against.
//!
//! | setting | default | from |
//! |---|---|---|
//! | `queue` | dual in aggressive mode, single in conservative mode | paper, II-B |
//! | `destination_queues` | on | paper, II-A; the standard leaves it to the station |
//! | `lp_coef` | 64 | 802.17, 10.2.2 lpCoef; paper's LPCOEF, no value given |
//! | `age_coef` | 4 | 802.17, 10.2.2 ageCoef; the paper does not mention it: 1 is its byte count over one interval |
//! | `ramp_up_coef` | 64 | 802.17, 10.2.2 rampUpCoef; paper's rampcoef, no value given |
//! | `ramp_down_coef` | 64 | 802.17, rampDnCoef, as rampUpCoef |
//! | `aging_interval` | 100 us from 622 Mbit/s on, else 400 us | 802.17, agingInterval; paper, VII-B: 0.1 ms |
//! | `advertisement_interval` | the aging interval | paper, VII-B: 0.1 ms; 802.17 advertisementRatio 0.00125 makes it 165 us for 16 bytes at 622 Mbit/s |
//! | `queue_threshold` | 1/8 of the transit queue | paper, II-C; 802.17, 10.2.2 stqLowThreshold |
//! | `low_threshold` | 0.8 | paper, II-D; 802.17, 10.2.2 rateLowThreshold: 0.9 of the high one, 0.855 |
//! | `high_threshold` | 0.95 | paper, II-D; 802.17, 10.2.2 rateHighThreshold |
//! | `round_trip` | an advertisement interval for each node | 802.17, FRTT, which its nodes measure; paper: "periodically" |
//! | `access_timer` | 1 ms | ours: the paper names it (II-D, conservative mode) and gives no value |
//! | `active_window` | 1 | paper, II-D: a packet in the last aging interval |
//!
//! The node's own threshold, from which on a transit queue stops the station, must lie beyond `queue_threshold`: 802.17's
//! stqHighThreshold is a quarter of the queue, twice stqLowThreshold.

use crate::options::{Entry, Kind, Share, Table, Words, option, words};
use crate::units::{Rate, Span};

/// Transit queues of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// One, which goes before the station.
    Single,
    /// A primary and a secondary one; the secondary one in turn with the station.
    Dual,
}

words!(Queue { Single = "single", Dual = "dual" });

/// How congestion is found and what is advertised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The congested node's own rate.
    Aggressive,
    /// The link divided among active nodes.
    Conservative,
}

/// Settings of either mode.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Transit queues; the node's scheduler keeps to it.
    pub queue: Queue,
    /// Whether each egress has a limiter of its own; otherwise one rate holds for all of a node's packets.
    pub destination_queues: bool,
    /// Rates are filtered with 1/lp_coef for the last interval; 1: not at all.
    pub lp_coef: u32,
    /// Byte counts keep 1 - 1/age_coef of what they were from interval to interval; 1: nothing.
    pub age_coef: u32,
    /// Each interval a rate that may grow makes up 1/ramp_up_coef of what it lacks of the link's capacity.
    pub ramp_up_coef: u32,
    /// Each interval a fair rate that must shrink loses 1/ramp_down_coef of itself (conservative mode).
    pub ramp_down_coef: u32,
    /// Between two computations; `None`: by the ring's rate.
    pub aging_interval: Option<Span>,
    /// Between two messages; `None`: as `aging_interval`.
    pub advertisement_interval: Option<Span>,
    /// Share of the transit queue beyond which a node is congested (aggressive mode).
    pub queue_threshold: Share,
    /// Share of the link beyond which a node is congested (conservative mode).
    pub low_threshold: Share,
    /// Share of the link beyond which the fair rate of a congested node shrinks (conservative mode).
    pub high_threshold: Share,
    /// Between two changes of a fair rate while a node is congested (conservative mode); `None`: an advertisement interval
    /// for each node of the ring.
    pub round_trip: Option<Span>,
    /// How long transit may keep the station from sending before the node is congested.
    pub access_timer: Span,
    /// Aging intervals for which a node counts as active after a packet of it.
    pub active_window: u32,
}

impl Config {
    /// The defaults of aggressive mode.
    pub fn aggressive() -> Config {
        Config {
            queue: Queue::Dual,
            destination_queues: true,
            lp_coef: 64,
            age_coef: 4,
            ramp_up_coef: 64,
            ramp_down_coef: 64,
            aging_interval: None,
            advertisement_interval: None,
            queue_threshold: Share::from_millionths(125_000),
            low_threshold: Share::from_millionths(800_000),
            high_threshold: Share::from_millionths(950_000),
            round_trip: None,
            access_timer: Span::from_millis(1),
            active_window: 1,
        }
    }

    /// The defaults of conservative mode.
    pub fn conservative() -> Config {
        Config { queue: Queue::Single, ..Config::aggressive() }
    }

    /// The aging interval on a ring of this rate.
    pub fn aging(&self, nominal: Rate) -> Span {
        let usual = if nominal >= Rate::from_mbit(622) { 100 } else { 400 };
        self.aging_interval.unwrap_or(Span::from_micros(usual)).max(LEAST_INTERVAL)
    }

    /// The advertisement interval on a ring of this rate.
    pub fn advertisement(&self, nominal: Rate) -> Span {
        self.advertisement_interval.unwrap_or(self.aging(nominal)).max(LEAST_INTERVAL)
    }

    /// The least time between two changes of a fair rate on a ring of this rate and so many nodes.
    pub fn round_trip(&self, nominal: Rate, nodes: usize) -> Span {
        self.round_trip.unwrap_or(self.advertisement(nominal).times(nodes as u64))
    }
}

/// Shortest interval that is accepted.
pub const LEAST_INTERVAL: Span = Span::from_micros(10);
/// Longest interval that is accepted.
pub const LONGEST_INTERVAL: Span = Span::from_secs(1);

const ALL: Share = Share::ONE;
const NOTHING: Share = Share::from_millionths(0);
/// What an interval may be; some may be left to the ring.
const fn interval(word: Option<&'static str>) -> Kind {
    Kind::Span(LEAST_INTERVAL, LONGEST_INTERVAL, word)
}

#[rustfmt::skip]
mod entries {
    use crate::ring::rpr::config::{ALL, Config, Entry, Kind, NOTHING, Queue, Words, interval, option};

    pub(super) const QUEUE: Entry<Config> = option!(queue: Kind::Choice(Queue::WORDS), "transit queues: one, which goes before the station; or two, the second in turn with the station");
    pub(super) const DESTINATION_QUEUES: Entry<Config> = option!(destination_queues: Kind::Flag, "a limiter for each egress (802.17 leaves it to the station); off: one for all");
    pub(super) const LP_COEF: Entry<Config> = option!(lp_coef: Kind::Count(1, 512, None), "rates are low-pass filtered with 1/lp_coef for the last interval (802.17, 10.2.2); 1: not filtered");
    pub(super) const AGE_COEF: Entry<Config> = option!(age_coef: Kind::Count(1, 16, None), "byte counts keep 1 - 1/age_coef from interval to interval (802.17, 10.2.2); 1: nothing");
    pub(super) const RAMP_UP_COEF: Entry<Config> = option!(ramp_up_coef: Kind::Count(2, 512, None), "each interval a rate that may grow makes up 1/ramp_up_coef of what it lacks of the capacity (802.17, 10.2.2)");
    pub(super) const RAMP_DOWN_COEF: Entry<Config> = option!(ramp_down_coef: Kind::Count(2, 512, None), "each interval beyond high_threshold the fair rate loses 1/ramp_down_coef (802.17, rampDnCoef)");
    pub(super) const AGING_INTERVAL: Entry<Config> = option!(aging_interval: interval(Some("auto")), "time between computations; auto: 100 us from 622 Mbit/s on, else 400 us (802.17, agingInterval)");
    pub(super) const ADVERTISEMENT_INTERVAL: Entry<Config> = option!(advertisement_interval: interval(Some("auto")), "time between control messages; auto: the aging interval");
    pub(super) const QUEUE_THRESHOLD: Entry<Config> = option!(queue_threshold: Kind::Share(NOTHING, ALL), "a node is congested while more than this share of its transit queue is full (802.17, 10.2.2 stqLowThreshold)");
    pub(super) const LOW_THRESHOLD: Entry<Config> = option!(low_threshold: Kind::Share(NOTHING, ALL), "a node is congested while its link carries more than this share (the paper's; 802.17 has 0.855)");
    pub(super) const HIGH_THRESHOLD: Entry<Config> = option!(high_threshold: Kind::Share(NOTHING, ALL), "the fair rate of a congested node shrinks while its link carries more than this share (802.17, 10.2.2 rateHighThreshold)");
    pub(super) const ROUND_TRIP: Entry<Config> = option!(round_trip: interval(Some("auto")), "least time between two changes of a congested node's fair rate (802.17, FRTT); auto: an advertisement interval for each node");
    pub(super) const ACCESS_TIMER: Entry<Config> = option!(access_timer: interval(None), "a node is congested when transit has kept its station from sending for so long");
    pub(super) const ACTIVE_WINDOW: Entry<Config> = option!(active_window: Kind::Count(1, 512, None), "aging intervals for which a node counts as active after a packet of it");
}

use entries::{
    ACCESS_TIMER, ACTIVE_WINDOW, ADVERTISEMENT_INTERVAL, AGE_COEF, AGING_INTERVAL, DESTINATION_QUEUES, HIGH_THRESHOLD,
    LOW_THRESHOLD, LP_COEF, QUEUE, QUEUE_THRESHOLD, RAMP_DOWN_COEF, RAMP_UP_COEF, ROUND_TRIP,
};

/// The options of aggressive mode.
pub const AGGRESSIVE_OPTIONS: Table<Config> = Table(&[
    QUEUE,
    DESTINATION_QUEUES,
    LP_COEF,
    AGE_COEF,
    RAMP_UP_COEF,
    AGING_INTERVAL,
    ADVERTISEMENT_INTERVAL,
    QUEUE_THRESHOLD,
    ACCESS_TIMER,
    ACTIVE_WINDOW,
]);

/// The options of conservative mode.
pub const CONSERVATIVE_OPTIONS: Table<Config> = Table(&[
    QUEUE,
    DESTINATION_QUEUES,
    LP_COEF,
    AGE_COEF,
    RAMP_UP_COEF,
    RAMP_DOWN_COEF,
    AGING_INTERVAL,
    ADVERTISEMENT_INTERVAL,
    LOW_THRESHOLD,
    HIGH_THRESHOLD,
    ROUND_TRIP,
    ACCESS_TIMER,
    ACTIVE_WINDOW,
]);
