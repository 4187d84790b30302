//! Two queues for two kinds of congestion control: the low-latency queue of L4S, and the Classic one.
//!
//! What it is: a packet that says that its sender answers each mark in proportion ([`Parcel::is_scalable`]: ECT(1) or CE) waits in the
//! low-latency queue, any other one in the Classic queue. Both are first in, first out. The low-latency queue goes first, within bounds.
//! With the policy [`pi2`](crate::buffer::Pi2), which comes with it where none is named, it is DualPI2.
//!
//! Source: RFC 9332 (De Schepper, Briscoe, White), sections 2.3, 2.4 and 4, and appendix A.1; the time-shifted scheduler: Menth and Schmid,
//! "MEDF", INFOCOM 2003, as section 4.1.1 of an earlier draft and appendix A.1 name it.
//!
//! | RFC 9332 | here |
//! |---|---|
//! | lq, cq | `queues[LOW]`, `queues[CLASSIC]` |
//! | `ecn(pkt) modulo 2 == 1` | [`Parcel::is_scalable`] |
//! | scheduler() | [`DualConfig::scheduler`] |
//! | the Classic queue's weight | [`DualConfig::classic`] |
//! | the time shift | [`DualConfig::shift`] |
//!
//! | scheduler | which queue, while both wait |
//! |---|---|
//! | `weighted` | the low-latency one, until the Classic queue has saved up for its first packet: `classic` bytes of each byte that went |
//! | `shifted` | the one whose first packet came earlier, where packets of the low-latency queue count as if they had come `shift` earlier |
//!
//! Departures: where one queue is empty, what the other had saved is forgotten, so that a low-latency queue which is mostly empty never
//! waits. Worked example, `weighted` with a Classic share of 0.1 and packets of one size: nine of the low-latency queue, one Classic, and so on.
//! Cost: O(1), but for victims that are drawn, as [`Fifo`] has it. Invariants: each queue keeps its order; while both wait, the
//! Classic queue has its share of the bytes less one packet.

use super::discipline::{Discipline, Entry, Index, Taken, Unit};
use super::fifo::Fifo;
use super::parcel::Parcel;
use crate::buffer::Victim;
use crate::options::{Field, Fields, Kind, OptionSpec, Share, Words, words};
use crate::units::{Span, Time};
use alloc::vec;

/// Where the queues lie.
const CLASSIC: usize = 0;
const LOW: usize = 1;

/// Which queue goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// By shares of the bytes.
    #[default]
    Weighted,
    /// By age, with a start for the low-latency queue.
    Shifted,
}

words!(Scheduler { Weighted = "weighted", Shifted = "shifted" });

/// Settings of [`Dual`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DualConfig {
    /// As text by default `weighted`.
    pub scheduler: Scheduler,
    /// `weighted`: share of the bytes that the Classic queue has while both wait. As text by default 0.1.
    pub classic: Share,
    /// `shifted`: how much longer Classic packets may wait than others. As text by default 50 ms.
    pub shift: Span,
}

static SCHEDULER: OptionSpec =
    OptionSpec::new("scheduler", Kind::Choice(Scheduler::WORDS), "which queue goes first while both wait");
static CLASSIC_SHARE: OptionSpec = OptionSpec::new(
    "classic",
    Kind::Share(Share::from_millionths(1), Share::from_millionths(999_999)),
    "weighted: share of the bytes that is the Classic queue's",
);
static SHIFT: OptionSpec = OptionSpec::new(
    "shift",
    Kind::Span(Span::from_micros(1), Span::from_secs(10), None),
    "shifted: how much longer Classic packets may wait than others",
);

impl DualConfig {
    /// The defaults.
    pub const PLAIN: DualConfig = DualConfig {
        scheduler: Scheduler::Weighted,
        classic: Share::from_millionths(100_000),
        shift: Span::from_millis(50),
    };

    pub(super) fn fields(&self) -> Fields<'_> {
        vec![(&SCHEDULER, &self.scheduler as &dyn Field), (&CLASSIC_SHARE, &self.classic), (&SHIFT, &self.shift)]
    }

    pub(super) fn field_mut(&mut self, option: &str) -> Option<&mut dyn Field> {
        match option {
            "scheduler" => Some(&mut self.scheduler),
            "classic" => Some(&mut self.classic),
            "shift" => Some(&mut self.shift),
            _ => None,
        }
    }
}

/// A low-latency and a Classic queue.
#[derive(Clone, Debug)]
pub struct Dual<P> {
    config: DualConfig,
    queues: [Fifo<P>; 2],
    /// In what lengths are, where a victim is looked for.
    unit: Unit,
    /// `weighted`: what the Classic queue has saved, in millionths of a byte.
    saved: i64,
}

impl<P> Dual<P> {
    /// Two empty queues.
    pub fn new(config: DualConfig, index: Index) -> Dual<P> {
        let unit = match index {
            Index::Longest(unit) | Index::Suspect(unit) => unit,
            Index::None | Index::Age | Index::Finish => Unit::Bytes,
        };
        Dual { config, queues: [Fifo::default(), Fifo::default()], unit, saved: 0 }
    }

    /// What a packet of the Classic queue takes of what it has saved.
    fn price(&self, size: u32) -> i64 {
        i64::from(size) * (1_000_000 - i64::from(self.config.classic.millionths()))
    }

    /// The queue that goes next.
    fn next(&self) -> Option<usize> {
        let [classic, low] = [CLASSIC, LOW].map(|queue| self.queues[queue].first());
        let (Some(classic), Some(low)) = (classic, low) else {
            return if low.is_some() { Some(LOW) } else { classic.map(|_| CLASSIC) };
        };
        let is_classic = match self.config.scheduler {
            Scheduler::Weighted => self.saved >= self.price(classic.size),
            Scheduler::Shifted => classic.since + self.config.shift < low.since,
        };
        Some(if is_classic { CLASSIC } else { LOW })
    }

    /// A packet of `size` leaves `queue`, which is about to happen.
    fn charge(&mut self, queue: usize, size: u32) {
        let both = self.queues.iter().all(|queue| queue.packets() > 0);
        self.saved = match (both, queue) {
            (false, _) => 0,
            (true, CLASSIC) => self.saved - self.price(size),
            // A Classic packet larger than what it saved up for may be before it: a bound of two largest packets.
            (true, _) => {
                (self.saved + i64::from(size) * i64::from(self.config.classic.millionths())).min(131_070 * 1_000_000)
            }
        };
    }

    /// The queue of a victim.
    fn payer(&self, victim: Victim) -> usize {
        let [classic, low] = [CLASSIC, LOW].map(|queue| &self.queues[queue]);
        let is_low = match victim {
            Victim::Oldest => match (classic.first(), low.first()) {
                (Some(classic), Some(low)) => low.since < classic.since,
                (classic, _) => classic.is_none(),
            },
            Victim::Any(draw) => {
                let all = (classic.packets() + low.packets()) as u128;
                (u128::from(draw) * all) >> 64 >= classic.packets() as u128
            }
            Victim::Longest | Victim::LongestHead | Victim::Suspect | Victim::LargestFinish | Victim::AboveShare(_) => {
                match self.unit {
                    Unit::Packets => low.packets() > classic.packets(),
                    Unit::Bytes => low.bytes() > classic.bytes(),
                }
            }
        };
        if is_low { LOW } else { CLASSIC }
    }
}

impl<P: Parcel> Discipline<P> for Dual<P> {
    fn enqueue(&mut self, entry: Entry<P>) {
        let queue = if entry.packet.is_scalable() { LOW } else { CLASSIC };
        self.queues[queue].enqueue(entry);
    }

    fn dequeue(&mut self, now: Time) -> Option<Taken<P>> {
        let queue = self.next()?;
        let size = self.queues[queue].first()?.size;
        self.charge(queue, size);
        let Taken { entry, behind, .. } = self.queues[queue].dequeue(now)?;
        Some(Taken { entry, queue: queue as u32, key: queue as u32, behind })
    }

    fn peek(&self) -> Option<&Entry<P>> {
        self.queues[self.next()?].first()
    }

    fn evict(&mut self, victim: Victim) -> Option<Entry<P>> {
        let queue = self.payer(victim);
        self.queues[queue].evict(victim)
    }

    fn find(&mut self, victim: Victim) -> Option<&mut Entry<P>> {
        let queue = self.payer(victim);
        self.queues[queue].find(victim)
    }

    fn expire(&mut self, oldest: Time) -> Option<Entry<P>> {
        self.queues.iter_mut().find_map(|queue| queue.expire(oldest))
    }

    fn active_flows(&self) -> usize {
        self.queues.iter().filter(|queue| queue.packets() > 0).count()
    }

    fn by_flow(&self) -> bool {
        false
    }

    fn heads(&self) -> [Option<Time>; 2] {
        [CLASSIC, LOW].map(|queue| self.queues[queue].first().map(|entry| entry.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::FlowNumber;
    use alloc::vec::Vec;

    /// Whether it is of the low-latency queue, and its bytes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Packet(bool, u32);

    impl Parcel for Packet {
        fn size(&self) -> u32 {
            self.1
        }

        fn is_scalable(&self) -> bool {
            self.0
        }
    }

    fn dual(config: DualConfig) -> Dual<Packet> {
        Dual::new(config, Index::None)
    }

    fn put(dual: &mut Dual<Packet>, ms: u64, packet: Packet) {
        let entry = Entry { packet, flow: FlowNumber(0), size: packet.1, since: Time::from_millis(ms) };
        dual.enqueue(entry);
    }

    fn order(dual: &mut Dual<Packet>, count: usize) -> Vec<bool> {
        (0..count).map_while(|_| dual.dequeue(Time::ZERO)).map(|taken| taken.entry.packet.0).collect()
    }

    // The card's worked example.
    #[test]
    fn of_ten_packets_of_one_size_the_classic_queue_sends_the_tenth() {
        let mut dual = dual(DualConfig::PLAIN);
        for _ in 0..30 {
            put(&mut dual, 0, Packet(true, 1500));
            put(&mut dual, 0, Packet(false, 1500));
        }
        let went = order(&mut dual, 30);
        let classic: Vec<usize> = (0..30).filter(|n| !went[*n]).collect();
        assert_eq!(classic, [9, 19, 29]);
    }

    #[test]
    fn while_both_wait_the_classic_queue_has_its_share_of_the_bytes_less_a_packet() {
        for (millionths, sizes) in [(100_000, [300, 1500]), (250_000, [1500, 40]), (500_000, [1000, 9000])] {
            let config = DualConfig { classic: Share::from_millionths(millionths), ..DualConfig::PLAIN };
            let mut dual = dual(config);
            let (mut all, mut classic) = (0.0, 0.0);
            for _ in 0..5000 {
                for (is_low, size) in [(true, sizes[0]), (false, sizes[1])] {
                    if dual.queues[usize::from(is_low)].packets() < 2 {
                        put(&mut dual, 0, Packet(is_low, size));
                    }
                }
                let taken = dual.dequeue(Time::ZERO).expect("both wait");
                let bytes = f64::from(taken.entry.size);
                all += bytes;
                classic += if taken.entry.packet.0 { 0.0 } else { bytes };
                let share = f64::from(millionths) / 1e6 * all;
                let packet = f64::from(sizes[0] + sizes[1]);
                assert!((classic - share).abs() <= packet, "{millionths} {sizes:?}: {classic} of {all}");
            }
        }
    }

    #[test]
    fn a_low_latency_queue_that_is_mostly_empty_never_waits_for_a_classic_packet() {
        let mut dual = dual(DualConfig::PLAIN);
        for n in 0..200 {
            put(&mut dual, n, Packet(false, 1500));
            put(&mut dual, n, Packet(false, 1500));
            put(&mut dual, n, Packet(true, 1500));
            assert_eq!(order(&mut dual, 2), [true, false], "{n}");
        }
    }

    // MEDF: the earlier one goes, with a start of 50 ms.
    #[test]
    fn with_a_time_shift_a_classic_packet_goes_first_when_it_came_so_much_earlier() {
        let mut dual = dual(DualConfig { scheduler: Scheduler::Shifted, ..DualConfig::PLAIN });
        for (ms, is_low) in [(0, false), (49, true), (50, true), (51, true), (10, false), (200, true)] {
            put(&mut dual, ms, Packet(is_low, 100));
        }
        let went: Vec<u64> =
            (0..6).map_while(|_| dual.dequeue(Time::ZERO)).map(|t| t.entry.since.as_nanos() / 1_000_000).collect();
        assert_eq!(went, [49, 50, 0, 51, 10, 200]);
    }

    #[test]
    fn the_first_packet_of_either_queue_is_told_and_what_pays_is_of_the_longer_one() {
        let mut dual: Dual<Packet> = Dual::new(DualConfig::PLAIN, Index::Longest(Unit::Packets));
        assert_eq!(dual.heads(), [None, None]);
        for (ms, is_low, size) in [(3, true, 100), (4, false, 1500), (5, true, 100)] {
            put(&mut dual, ms, Packet(is_low, size));
        }
        assert_eq!(dual.heads(), [Some(Time::from_millis(4)), Some(Time::from_millis(3))]);
        assert_eq!(dual.find(Victim::Longest).map(|entry| entry.since), Some(Time::from_millis(5)));
        assert_eq!(dual.evict(Victim::LongestHead).map(|entry| entry.since), Some(Time::from_millis(3)));
        assert_eq!(dual.evict(Victim::Oldest).map(|entry| entry.since), Some(Time::from_millis(4)));
        assert_eq!(dual.expire(Time::from_millis(6)).map(|entry| entry.since), Some(Time::from_millis(5)));
        assert_eq!((dual.active_flows(), dual.dequeue(Time::ZERO).is_none()), (0, true));
    }

    #[test]
    fn what_one_queue_saved_or_spent_while_the_other_was_empty_is_forgotten() {
        for is_low in [true, false] {
            let mut dual = dual(DualConfig::PLAIN);
            for _ in 0..20 {
                put(&mut dual, 0, Packet(is_low, 1500));
            }
            assert_eq!(order(&mut dual, 20), [is_low; 20]);
            for packet in [Packet(true, 1500), Packet(false, 1500)].repeat(10) {
                put(&mut dual, 0, packet);
            }
            assert_eq!(dual.peek().map(|entry| entry.packet.0), Some(true));
            let went = order(&mut dual, 10);
            assert_eq!(went.iter().position(|is_low| !is_low), Some(9), "after packets of one queue: {is_low}");
        }
    }

    #[test]
    fn the_oldest_packet_is_that_of_the_queue_whose_first_one_came_earlier_and_the_classic_one_of_two() {
        for (classic, low, expected) in [(4, 3, true), (3, 4, false), (4, 4, false)] {
            let mut dual = dual(DualConfig::PLAIN);
            put(&mut dual, classic, Packet(false, 100));
            put(&mut dual, low, Packet(true, 100));
            assert_eq!(dual.find(Victim::Oldest).map(|entry| entry.packet.0), Some(expected), "{classic} {low}");
        }
    }

    #[test]
    fn a_packet_that_is_drawn_is_of_a_queue_as_often_as_that_has_packets() {
        let mut dual = dual(DualConfig::PLAIN);
        for is_low in [false, false, false, true] {
            put(&mut dual, 0, Packet(is_low, 100));
        }
        // The last quarter of all draws.
        let first = 3 << 62;
        for (draw, is_low) in [(0, false), (first - 1, false), (first, true), (u64::MAX, true)] {
            assert_eq!(dual.find(Victim::Any(draw)).map(|entry| entry.packet.0), Some(is_low), "{draw}");
        }
    }

    #[test]
    fn the_longer_queue_pays_by_packets_or_by_bytes_and_the_classic_one_of_two() {
        for (unit, sizes, expected) in [
            (Unit::Packets, [&[100, 100][..], &[1500]], false),
            (Unit::Packets, [&[1500], &[100, 100]], true),
            (Unit::Packets, [&[100], &[1500]], false),
            (Unit::Bytes, [&[100, 100], &[1500]], true),
            (Unit::Bytes, [&[1500], &[100, 100]], false),
            (Unit::Bytes, [&[200], &[100, 100]], false),
        ] {
            let mut dual = Dual::new(DualConfig::PLAIN, Index::Longest(unit));
            for (is_low, sizes) in [(false, sizes[0]), (true, sizes[1])] {
                sizes.iter().for_each(|size| put(&mut dual, 0, Packet(is_low, *size)));
            }
            let payer = dual.find(Victim::Longest).map(|entry| entry.packet.0);
            assert_eq!(payer, Some(expected), "{unit:?} {sizes:?}");
            assert_eq!((dual.active_flows(), dual.by_flow()), (2, false));
        }
    }
}
