//! Differential delay compensation: arrivals of the faster channels wait until the slowest would have brought them.
//!
//! What it is: a delay line for each channel before the ordered receiver, so that the bond looks like one link with
//! one delay. Order within a flow makes bulk transfers wait for the slowest channel anyway; without compensation a TCP
//! connection begins at the fastest channel's round trip and sees it grow as its window spreads over the others, which
//! HyStart (RFC 9406) takes for a queue: it leaves slow start with a fiftieth of the window and needs seconds to fill
//! the links. With it, the round trip is the same from the first packet on.
//!
//! Source: inverse multiplexers compensate differential delay the same way (ATM Forum IMA 1.1; ITU-T G.998.1); delays
//! are estimated here as half the differences of the base round trips, for want of synchronised clocks.
//!
//! | symbol | field |
//! |---|---|
//! | base round trip of channel c | [`Base`]: the smallest of the last 10 to 20 s, so that queues do not count |
//! | differential delay of c | [`Line::delay`] = (slowest base - base of c) / 2 |
//!
//! Channels slower than the fastest by more than `limit` are not waited for: a satellite link does not make the rest
//! of the bond as slow as itself. Cost: O(1) per packet, O(channels) per release; releases come on a grid of
//! [`GRID`]. Invariants: what arrives on a channel leaves in the order of arrival; markers stay in their place among
//! the packets; memory is at most what the caller's bound leaves, and beyond it packets pass early.

use super::channel::each;
use crate::packet::Packet;
use crate::units::{ChannelId, Span, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Releases are due at multiples of this, so that a driver is not woken for every packet.
const GRID: Span = Span::from_micros(250);
/// Differences below this are left alone.
const LEAST: Span = Span::from_millis(1);
/// How long a smallest round trip counts at least; twice this at most.
const WINDOW: Span = Span::from_secs(10);

/// The smallest of the round trips measured lately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Base {
    /// Of the window that ended, and of the one that runs since `begun`.
    before: Option<Span>,
    current: Option<Span>,
    begun: Time,
}

impl Base {
    pub(super) fn measured(&mut self, now: Time, rtt: Span) {
        if now.since(self.begun) >= WINDOW {
            self.before = self.current.take();
            self.begun = now;
        }
        self.current = Some(self.current.map_or(rtt, |least| least.min(rtt)));
    }

    pub(super) fn value(&self) -> Option<Span> {
        self.current.into_iter().chain(self.before).min()
    }
}

/// What waits in a line.
#[derive(Debug)]
pub(super) enum Arrival<P> {
    /// A packet of an ordered flow.
    Packet { bucket: u16, number: u32, bond: u32, packet: P },
    /// A marker: its channel has passed this number.
    Marker { high: u32 },
}

#[derive(Debug)]
struct Line<P> {
    delay: Span,
    waiting: VecDeque<(Time, Arrival<P>)>,
}

/// The delay lines of a bond.
#[derive(Debug)]
pub(super) struct Equalizer<P> {
    limit: Span,
    lines: Vec<Line<P>>,
    /// Lines in which something waits.
    busy: u64,
    /// Memory of what waits.
    used: usize,
}

impl<P: Packet> Equalizer<P> {
    /// No delays yet. Channels slower than the fastest by more than `limit` are not waited for; zero switches off.
    pub(super) fn new(limit: Span) -> Equalizer<P> {
        Equalizer { limit, lines: Vec::new(), busy: 0, used: 0 }
    }

    /// Memory that what waits takes, in bytes.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Works out the delays from the base round trips of the channels in use; one that is not known is not delayed.
    pub(super) fn set(&mut self, bases: impl Iterator<Item = (ChannelId, Option<Span>)> + Clone) {
        let known = bases.clone().filter_map(|(_, base)| base);
        let fastest = known.clone().min().unwrap_or(Span::ZERO);
        let reach = fastest + self.limit.times(2);
        let slowest = known.filter(|base| *base <= reach).max().unwrap_or(Span::ZERO);
        for line in &mut self.lines {
            line.delay = Span::ZERO;
        }
        for (channel, base) in bases {
            let Some(base) = base else { continue };
            let delay = Span::from_nanos((slowest - base).as_nanos() / 2);
            if delay >= LEAST {
                while self.lines.len() <= channel.index() {
                    self.lines.push(Line { delay: Span::ZERO, waiting: VecDeque::new() });
                }
                self.lines[channel.index()].delay = delay;
            }
        }
    }

    /// Takes an arrival that has to wait; gives back one that need not. `room` is the memory that may be taken in all.
    #[inline]
    pub(super) fn hold(
        &mut self,
        now: Time,
        channel: ChannelId,
        arrival: Arrival<P>,
        room: usize,
    ) -> Option<Arrival<P>> {
        let Some(line) = self.lines.get_mut(channel.index()) else { return Some(arrival) };
        if line.waiting.is_empty() && (line.delay == Span::ZERO || self.used + cost(&arrival) > room) {
            return Some(arrival);
        }
        let grid = GRID.as_nanos();
        let due = Time::from_nanos((now + line.delay).as_nanos().div_ceil(grid).saturating_mul(grid));
        let due = line.waiting.back().map_or(due, |(last, _)| due.max(*last));
        self.used += cost(&arrival);
        line.waiting.push_back((due, arrival));
        self.busy |= 1 << channel.index();
        None
    }

    /// The arrival that is due first, if it is due at `now`, or if more is held than `room`.
    pub(super) fn release(&mut self, now: Time, room: usize) -> Option<(ChannelId, Arrival<P>)> {
        let (due, channel) = self.first()?;
        if due > now && self.used <= room {
            return None;
        }
        let line = &mut self.lines[channel.index()];
        let (_, arrival) = line.waiting.pop_front()?;
        if line.waiting.is_empty() {
            self.busy &= !(1 << channel.index());
        }
        self.used -= cost(&arrival);
        Some((channel, arrival))
    }

    /// When something is due.
    pub(super) fn timeout(&self) -> Option<Time> {
        self.first().map(|(due, _)| due)
    }

    /// Forgets what waits: the peer that sent it is gone.
    pub(super) fn clear(&mut self) {
        for line in &mut self.lines {
            line.waiting.clear();
        }
        (self.busy, self.used) = (0, 0);
    }

    fn first(&self) -> Option<(Time, ChannelId)> {
        each(self.busy).filter_map(|c| Some((self.lines[c.index()].waiting.front()?.0, c))).min()
    }
}

fn cost<P: Packet>(arrival: &Arrival<P>) -> usize {
    let own = size_of::<(Time, Arrival<P>)>();
    match arrival {
        Arrival::Packet { packet, .. } => own + packet.footprint(),
        Arrival::Marker { .. } => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    const MS: fn(u64) -> Span = Span::from_millis;

    fn bases(ms: &[Option<u64>]) -> impl Iterator<Item = (ChannelId, Option<Span>)> + Clone {
        ms.iter().enumerate().map(|(n, ms)| (ChannelId(n as u8), ms.map(MS)))
    }

    fn delays(limit: u64, ms: &[Option<u64>]) -> Vec<u64> {
        let mut equalizer = Equalizer::<Vec<u8>>::new(MS(limit));
        equalizer.set(bases(ms));
        let of = |n| equalizer.lines.get(n).map_or(0, |l: &Line<_>| l.delay.as_nanos() / 1_000_000);
        (0..ms.len()).map(of).collect()
    }

    #[test]
    fn delays_fill_up_to_the_slowest_within_the_limit() {
        assert_eq!(delays(100, &[Some(20), Some(50), Some(80)]), [30, 15, 0]);
        assert_eq!(delays(100, &[Some(20), Some(80), Some(600)]), [30, 0, 0], "a satellite link is not waited for");
        assert_eq!(delays(10, &[Some(20), Some(50)]), [0, 0]);
        assert_eq!(delays(0, &[Some(20), Some(50)]), [0, 0], "switched off");
        assert_eq!(delays(100, &[Some(20), None, Some(40)]), [10, 0, 0]);
        assert_eq!(delays(100, &[Some(20), Some(21)]), [0, 0], "too little to matter");
        assert_eq!(delays(100, &[]), [0; 0]);
    }

    #[test]
    fn a_base_is_the_smallest_of_the_last_windows_and_forgets() {
        let mut base = Base::default();
        assert_eq!(base.value(), None);
        for (s, rtt, least) in
            [(0, 50, 50), (1, 20, 20), (5, 90, 20), (11, 70, 20), (15, 60, 20), (22, 80, 60), (33, 80, 80)]
        {
            base.measured(Time::ZERO + Span::from_secs(s), MS(rtt));
            assert_eq!(base.value(), Some(MS(least)), "at {s} s");
        }
    }

    #[test]
    fn markers_keep_their_place_and_memory_is_bounded_by_passing_early() {
        let mut equalizer = Equalizer::<Vec<u8>>::new(MS(100));
        equalizer.set(bases(&[Some(20), Some(60)]));
        let packet = |n: u32| Arrival::Packet { bucket: 0, number: n, bond: n, packet: vec![0; 1000] };
        let now = Time::from_millis(5);
        assert!(equalizer.hold(now, ChannelId(1), packet(0), 10_000).is_some(), "the slowest does not wait");
        for n in 1..=4 {
            assert!(equalizer.hold(now, ChannelId(0), packet(n), 10_000).is_none());
        }
        assert!(equalizer.hold(now, ChannelId(0), Arrival::Marker { high: 4 }, 10_000).is_none());
        assert_eq!(equalizer.timeout(), Some(Time::from_millis(25)));
        assert!(equalizer.release(Time::from_millis(24), 10_000).is_none());
        assert!(matches!(
            equalizer.release(Time::from_millis(6), 4_000),
            Some((ChannelId(0), Arrival::Packet { number: 1, .. }))
        ));
        assert!(equalizer.release(Time::from_millis(6), 4_000).is_none(), "within the room again");
        for n in 2..=4 {
            let released = equalizer.release(Time::from_millis(25), 10_000);
            assert!(matches!(released, Some((_, Arrival::Packet { number, .. })) if number == n));
        }
        assert!(matches!(equalizer.release(Time::from_millis(25), 10_000), Some((_, Arrival::Marker { high: 4 }))));
        assert_eq!((equalizer.used(), equalizer.timeout()), (0, None));
    }

    proptest! {
        /// Against a model: with changing delays each channel's arrivals leave in order, none early, none more than the
        /// largest delay and one grid step late, none lost.
        #[test]
        fn every_line_is_fifo_and_on_time(
            steps in prop::collection::vec((0u64..3_000, 0u8..4, 0u64..200), 1..300),
        ) {
            let mut equalizer = Equalizer::<Vec<u8>>::new(MS(100));
            let mut now = Time::ZERO;
            let (mut model, mut got) = (vec![vec![]; 4], vec![vec![]; 4]);
            for (n, (us, channel, rtt)) in steps.iter().enumerate() {
                now += Span::from_micros(*us);
                while let Some((c, Arrival::Marker { high })) = equalizer.release(now, usize::MAX) {
                    got[c.index()].push((high, now));
                }
                if n % 10 == 0 {
                    equalizer.set(bases(&[Some(20), Some(*rtt), Some(40), None]));
                }
                model[usize::from(*channel)].push((n as u32, now));
                if let Some(Arrival::Marker { high }) =
                    equalizer.hold(now, ChannelId(*channel), Arrival::Marker { high: n as u32 }, usize::MAX)
                {
                    got[usize::from(*channel)].push((high, now));
                }
            }
            while let Some(due) = equalizer.timeout() {
                while let Some((c, Arrival::Marker { high })) = equalizer.release(due, usize::MAX) {
                    got[c.index()].push((high, due));
                }
            }
            for (sent, left) in model.iter().zip(&got) {
                prop_assert_eq!(sent.len(), left.len());
                for ((n, at), (m, out)) in sent.iter().zip(left) {
                    prop_assert_eq!(n, m);
                    prop_assert!(out >= at);
                    // Between steps nobody looks, for up to 3 ms here.
                    prop_assert!(out.since(*at) <= MS(100) + GRID + MS(3), "{:?}", out.since(*at));
                }
            }
        }
    }
}
