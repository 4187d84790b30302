//! Differential delay compensation: arrivals of the faster channels wait until the slowest would have brought them.
//!
//! What it is: a delay line for each channel before the ordered receiver, so that the bond looks like one link with
//! one delay. Order within a flow makes bulk transfers wait for the slowest channel anyway; without compensation a TCP
//! connection begins at the fastest channel's round trip and sees it grow as its window spreads over the others, which
//! HyStart (RFC 9406) takes for a queue: it leaves slow start with a fiftieth of the window and needs seconds to fill
//! the links. With it, the round trip is the same from the first packet on.
//!
//! Source: inverse multiplexers compensate differential delay the same way (ATM Forum IMA 1.1; ITU-T G.998.1). What
//! is compared is the transit of RFC 3550 section 6.4.1: the arrival by this clock less the departure by the peer's.
//! The clocks' unknown offset is the same in every channel's transit, so differences of transits are differences of
//! one-way delays, and no queue of the other direction is in them, as it would be in half a round trip.
//!
//! | symbol | field |
//! |---|---|
//! | transit of channel c, less a constant | [`Transit`]: the smallest of the last 10 to 20 s, so that queues do not count |
//! | differential delay of c | [`Line::delay`] = slowest transit - transit of c |
//! | the transit of all stamped packets | `target` |
//!
//! Packets of mode `reliable` carry a stamp of when they left, so each is given the same transit, however long its own was: what the
//! slowest channel *usually* takes ([`Transit`]), jitter included, where its sender keeps to a rate. Where it knows none its packets fill the
//! path's queue, which is no jitter: there the least counts. HyStart takes the jitter of a link that keeps order for a queue as
//! well, since it grows with the rate. Stamped packets need no order among themselves: one that is due before others of its line
//! stands aside, and markers stay behind it.
//!
//! Channels slower than the fastest by more than `limit` are not waited for: a satellite link does not make the rest
//! of the bond as slow as itself. The windows of all channels turn together, so that clocks that drift apart, or a step
//! of one, shift all transits alike; after a pause only their differences are kept. Cost: O(1) per packet, O(log n) for one of n that
//! stand aside, O(channels) per release and per measurement; releases come on a grid of [`GRID`]. Invariants: what arrives on a channel leaves
//! in the order of arrival; markers stay in their place among the packets; memory is at most what the caller's bound
//! leaves, and beyond it packets pass early; whatever clock the peer claims to have, nothing waits longer than `limit`
//! and a grid step.

use super::aside::Aside;
use super::channel::{bit, each};
use crate::packet::Packet;
use crate::path::transit::Transit;
use crate::units::{ChannelId, Span, Time};
use crate::wire::stamp::Stamp;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;

/// Releases are due at multiples of this, so that a driver is not woken for every packet.
const GRID: Span = Span::from_micros(250);
/// Differences below this are left alone.
const LEAST: Span = Span::from_millis(1);
/// By how much a packet may take less than all before it, in nanoseconds.
const EARLIER: i64 = 50_000_000;
/// How long a smallest transit counts at least; twice this at most.
const WINDOW: Span = Span::from_secs(10);
/// What the place of something that waits is taken to cost. The same for every type of packet and every processor, so that a recording
/// replays and a simulation ends alike.
const PLACE_COST: usize = 64;

/// What waits in a line.
#[derive(Debug)]
pub(super) enum Arrival<P> {
    /// A packet of an ordered flow.
    Packet { bucket: u16, number: u32, bond: u32, packet: P },
    /// The same of a sender that sends again what is lost: it tells nothing of what went before on its channel.
    Kept { bucket: u16, number: u32, bond: u32, packet: P },
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
    pub(super) limit: Span,
    /// By channel, as far as one was measured.
    transits: Vec<Transit>,
    /// The channels that bring data, and the transit that stamped packets are held to.
    bringing: u64,
    target: Option<i64>,
    /// The channels on which the peer keeps to a rate.
    paced: u64,
    /// Packets have stamps.
    stamped: bool,
    /// What is subtracted from every transit, so that they are small numbers: the first one measured.
    reference: Option<u64>,
    /// When the present window began, and when the last measurement was.
    window: Time,
    last: Time,
    lines: Vec<Line<P>>,
    /// Packets that were sent again, or are due before others of their channel.
    aside: BinaryHeap<Aside<Arrival<P>>>,
    /// How many of them there ever were, and when the last of those that wait is due.
    set_aside: u64,
    last_aside: Time,
    /// Lines in which something waits.
    busy: u64,
    /// Memory of what waits.
    used: usize,
}

impl<P: Packet> Equalizer<P> {
    /// No delays yet. Channels slower than the fastest by more than `limit` are not waited for; zero switches off.
    pub(super) fn new(limit: Span) -> Equalizer<P> {
        Equalizer {
            limit,
            transits: Vec::new(),
            bringing: 0,
            target: None,
            paced: 0,
            stamped: false,
            reference: None,
            window: Time::ZERO,
            last: Time::ZERO,
            lines: Vec::new(),
            aside: BinaryHeap::new(),
            set_aside: 0,
            last_aside: Time::ZERO,
            busy: 0,
            used: 0,
        }
    }

    /// Memory that what waits takes, in bytes.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The channels of which something waits.
    pub(super) fn busy(&self) -> u64 {
        self.busy
    }

    /// A message arrived on `channel` that left when the peer's clock showed `clock`, in nanoseconds. It may show
    /// anything.
    pub(super) fn measured(&mut self, now: Time, channel: ChannelId, clock: u64) {
        let raw = now.as_nanos().wrapping_sub(clock);
        let transit = raw.wrapping_sub(*self.reference.get_or_insert(raw)) as i64;
        while self.transits.len() <= channel.index() {
            self.transits.push(Transit::default());
        }
        let known = self.transits[channel.index()].least();
        if now.since(self.last) >= WINDOW
            && let Some(known) = known
        {
            // A pause: the clocks have drifted apart by no one knows how much.
            let drift = transit.saturating_sub(known);
            self.transits.iter_mut().for_each(|t| t.shift(drift));
            self.window = now;
        } else if now.since(self.window) >= WINDOW {
            self.transits.iter_mut().for_each(Transit::turn);
            self.window = now;
        }
        self.last = now;
        self.transits[channel.index()].add(now, transit);
    }

    /// Another path, or another link: what was measured on `channel` counts no more.
    pub(super) fn forget(&mut self, channel: ChannelId) {
        if let Some(transit) = self.transits.get_mut(channel.index()) {
            *transit = Transit::default();
        }
    }

    /// The peer that was measured is gone, and its clock. What still waits leaves by [`Equalizer::release`] as it
    /// would have.
    pub(super) fn forget_all(&mut self) {
        self.transits.clear();
        self.reference = None;
        self.target = None;
        self.paced = 0;
        self.stamped = false;
    }

    /// Works out the delays of `channels`, those that bring data; one whose transit is not known is not delayed.
    pub(super) fn set(&mut self, channels: u64) {
        for channel in each(channels & !core::mem::replace(&mut self.bringing, channels)) {
            self.transits.get_mut(channel.index()).into_iter().for_each(Transit::doubt);
        }
        self.aim();
        for line in &mut self.lines {
            line.delay = Span::ZERO;
        }
        let limit = self.limit.as_nanos() as i64;
        let Some(fastest) = each(channels).filter_map(|c| self.least(c)).min() else { return };
        let within = |t: &i64| t.saturating_sub(fastest) <= limit;
        let slowest = each(channels).filter_map(|c| self.least(c)).filter(within).max().unwrap_or(fastest);
        for channel in each(channels) {
            let Some(transit) = self.least(channel) else { continue };
            let delay = Span::from_nanos(slowest.saturating_sub(transit).max(0) as u64);
            if delay >= LEAST {
                self.line(channel).delay = delay;
            }
        }
    }

    /// Whether the peer keeps to a rate on `channel`, so that no packet of its waits on the way.
    #[inline]
    pub(super) fn set_paced(&mut self, channel: ChannelId, paced: bool) {
        if paced != (self.paced & bit(channel) != 0) {
            self.paced ^= bit(channel);
            self.aim();
        }
    }

    /// How long packets of `channel` take that have a stamp.
    #[inline]
    fn usual(&self, channel: ChannelId) -> Option<i64> {
        let transit = self.transits.get(channel.index())?;
        if self.paced & bit(channel) == 0 { transit.least() } else { transit.usual() }
    }

    fn least(&self, channel: ChannelId) -> Option<i64> {
        self.transits.get(channel.index())?.least()
    }

    /// The line of `channel`, which comes into being.
    #[inline]
    fn line(&mut self, channel: ChannelId) -> &mut Line<P> {
        while self.lines.len() <= channel.index() {
            self.lines.push(Line { delay: Span::ZERO, waiting: VecDeque::new() });
        }
        &mut self.lines[channel.index()]
    }

    /// Works out the transit that all packets with a stamp are given: what the slowest of the channels that bring data usually has.
    fn aim(&mut self) {
        let Some(fastest) = each(self.bringing).filter_map(|c| self.least(c)).min() else { return self.target = None };
        let limit = self.limit.as_nanos() as i64;
        let within = |c: &ChannelId| self.least(*c).is_some_and(|least| least.saturating_sub(fastest) <= limit);
        let usual = each(self.bringing).filter(within).filter_map(|c| self.usual(c)).max();
        self.target = usual.map(|usual| usual.min(fastest.saturating_add(limit)));
    }

    /// How long a packet with this stamp is to wait that came on `channel`. One that was sent `again` tells nothing of the channel.
    #[inline]
    pub(super) fn delay_of(&mut self, now: Time, channel: ChannelId, stamp: Stamp, again: bool) -> Span {
        let (Some(reference), Some(transits)) = (self.reference, self.transits.get_mut(channel.index())) else {
            return Span::ZERO;
        };
        let Some(least) = transits.least() else { return Span::ZERO };
        self.stamped = true;
        let transit = stamp.until(now.as_nanos().wrapping_sub(reference), least);
        // One that seems to come long before its time comes seconds late: what it says is modulo some seconds.
        let known = transit >= least.saturating_sub(EARLIER);
        if !again && known && transits.add(now, transit) {
            self.aim();
        }
        let target = if stamp.is_alone() { self.usual(channel) } else { self.target };
        let delay = target.map_or(0, |target| target.saturating_sub(transit));
        Span::from_nanos(delay.max(0) as u64).min(self.limit)
    }

    /// How long what has no stamp waits on `channel`. Among packets with stamps it keeps its place, and no more.
    #[inline]
    pub(super) fn line_of(&self, channel: ChannelId) -> Span {
        if self.stamped {
            return Span::ZERO;
        }
        self.lines.get(channel.index()).map_or(Span::ZERO, |line| line.delay)
    }

    /// Takes an arrival that has to wait for `delay`; gives back one that need not. `room` is the memory that may be taken in all.
    #[inline]
    pub(super) fn hold(
        &mut self,
        now: Time,
        channel: ChannelId,
        delay: Span,
        arrival: Arrival<P>,
        room: usize,
    ) -> Option<Arrival<P>> {
        // A marker may tell that nothing of what waits there comes again.
        let behind_aside = matches!(arrival, Arrival::Marker { .. }) && !self.aside.is_empty();
        let aside = behind_aside.then_some(self.last_aside);
        let empty = self.busy & 1 << channel.index() == 0 && aside.is_none();
        if empty && (delay < LEAST || self.used + cost(&arrival) > room) {
            return Some(arrival);
        }
        let due = on_grid(now + delay);
        let last = self.lines.get(channel.index()).and_then(|line| Some(line.waiting.back()?.0)).max(aside);
        if last > Some(due) && matches!(arrival, Arrival::Kept { .. }) {
            return self.hold_aside(now, channel, delay, arrival, room);
        }
        self.used += cost(&arrival);
        self.busy |= 1 << channel.index();
        self.line(channel).waiting.push_back((due.max(last.unwrap_or(due)), arrival));
        None
    }

    /// As [`Equalizer::hold`], of a packet that those behind it on its channel do not wait for: it was sent again, or is due before others.
    pub(super) fn hold_aside(
        &mut self,
        now: Time,
        channel: ChannelId,
        delay: Span,
        arrival: Arrival<P>,
        room: usize,
    ) -> Option<Arrival<P>> {
        let cost = cost(&arrival);
        if delay < LEAST || self.used + cost > room {
            return Some(arrival);
        }
        let due = on_grid(now + delay);
        // They leave by when they are due, so the last one is among them for as long as any is.
        self.last_aside = if self.aside.is_empty() { due } else { self.last_aside.max(due) };
        self.aside.push(Aside { due, order: self.set_aside, channel, arrival });
        self.set_aside += 1;
        self.used += cost;
        None
    }

    /// The arrival that is due first, if it is due at `now`, or if more is held than `room`.
    pub(super) fn release(&mut self, now: Time, room: usize) -> Option<(ChannelId, Arrival<P>)> {
        let (due, channel) = self.first()?;
        if due > now && self.used <= room {
            return None;
        }
        if self.aside.peek().is_some_and(|first| first.due <= due) {
            let Aside { channel, arrival, .. } = self.aside.pop()?;
            self.used -= cost(&arrival);
            return Some((channel, arrival));
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

    fn first(&self) -> Option<(Time, ChannelId)> {
        let lines = each(self.busy).filter_map(|c| Some((self.lines[c.index()].waiting.front()?.0, c)));
        lines.chain(self.aside.peek().map(|first| (first.due, first.channel))).min()
    }
}

/// The next multiple of [`GRID`].
#[inline]
fn on_grid(at: Time) -> Time {
    let grid = GRID.as_nanos();
    Time::from_nanos(at.as_nanos().div_ceil(grid).saturating_mul(grid))
}

fn cost<P: Packet>(arrival: &Arrival<P>) -> usize {
    const { assert!(size_of::<(Time, Arrival<P>)>() <= PLACE_COST, "the packet type is too large: box it") };
    match arrival {
        Arrival::Packet { packet, .. } | Arrival::Kept { packet, .. } => PLACE_COST + packet.footprint(),
        Arrival::Marker { .. } => PLACE_COST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    const MS: fn(u64) -> Span = Span::from_millis;

    #[test]
    fn what_waits_costs_the_same_whatever_its_packets_are_made_of() {
        let [one, other] = [cost(&Arrival::<u32>::Marker { high: 1 }), cost(&Arrival::<Vec<u8>>::Marker { high: 1 })];
        assert_eq!(one, other);
        let packet = vec![0; 1000];
        let footprint = packet.footprint();
        assert_eq!(cost(&Arrival::Packet { bucket: 0, number: 0, bond: 0, packet }), other + footprint);
    }

    /// Holds what has no stamp.
    fn hold(
        equalizer: &mut Equalizer<Vec<u8>>,
        now: Time,
        channel: ChannelId,
        arrival: Arrival<Vec<u8>>,
        room: usize,
    ) -> Option<Arrival<Vec<u8>>> {
        let delay = equalizer.line_of(channel);
        equalizer.hold(now, channel, delay, arrival, room)
    }

    /// An equalizer whose channels have these transits, in milliseconds.
    fn with(limit: u64, ms: &[Option<u64>]) -> Equalizer<Vec<u8>> {
        let mut equalizer = Equalizer::new(MS(limit));
        transits(&mut equalizer, Time::from_millis(1000), ms);
        equalizer
    }

    fn transits(equalizer: &mut Equalizer<Vec<u8>>, now: Time, ms: &[Option<u64>]) {
        for (n, ms) in ms.iter().enumerate() {
            if let Some(ms) = ms {
                // The peer's clock is far ahead of ours and wraps around.
                let clock = now.as_nanos().wrapping_sub(ms * 1_000_000).wrapping_sub(u64::MAX / 2);
                equalizer.measured(now, ChannelId(n as u8), clock);
            }
        }
        equalizer.set((1 << ms.len()) - 1);
    }

    fn delays_of(equalizer: &Equalizer<Vec<u8>>, count: usize) -> Vec<u64> {
        let of = |n| equalizer.lines.get(n).map_or(0, |l: &Line<_>| l.delay.as_nanos() / 1_000_000);
        (0..count).map(of).collect()
    }

    fn delays(limit: u64, ms: &[Option<u64>]) -> Vec<u64> {
        delays_of(&with(limit, ms), ms.len())
    }

    #[test]
    fn delays_fill_up_to_the_slowest_within_the_limit() {
        assert_eq!(delays(100, &[Some(10), Some(25), Some(40)]), [30, 15, 0]);
        assert_eq!(delays(100, &[Some(10), Some(40), Some(300)]), [30, 0, 0], "a satellite link is not waited for");
        assert_eq!(delays(10, &[Some(10), Some(25)]), [0, 0]);
        assert_eq!(delays(0, &[Some(10), Some(25)]), [0, 0], "switched off");
        assert_eq!(delays(100, &[Some(10), None, Some(20)]), [10, 0, 0]);
        assert_eq!(delays(100, &[Some(1000), Some(1000)]), [0, 0]);
        assert_eq!(delays(100, &[]), [0; 0]);
        let mut equalizer = with(100, &[Some(10), Some(25), Some(40)]);
        equalizer.set(0b011);
        assert_eq!(delays_of(&equalizer, 3), [15, 0, 0], "only channels that bring data count");
        equalizer.forget(ChannelId(0));
        equalizer.set(0b111);
        assert_eq!(delays_of(&equalizer, 3), [0, 15, 0]);
    }

    #[test]
    fn differences_below_a_millisecond_are_left_alone() {
        let mut equalizer = Equalizer::<Vec<u8>>::new(MS(100));
        for (n, us) in [10_000u64, 10_999, 11_000].into_iter().enumerate() {
            equalizer.measured(Time::from_millis(50), ChannelId(n as u8), 50_000_000 - us * 1000);
        }
        equalizer.set(0b011);
        assert_eq!(equalizer.lines.len(), 0);
        equalizer.set(0b101);
        assert_eq!(equalizer.lines[0].delay, MS(1));
    }

    #[test]
    fn a_transit_is_the_smallest_of_the_last_windows_and_a_longer_one_is_believed_in_time() {
        let mut equalizer = with(100, &[Some(10), Some(40)]);
        for s in 2..40 {
            // Channel 1 has a queue at first, and another path from second 10 on.
            let second = if s < 10 { 40 + s * 3 } else { 60 };
            transits(&mut equalizer, Time::ZERO + Span::from_secs(s), &[Some(10 + s % 3), Some(second)]);
            let delay = delays_of(&equalizer, 2)[0];
            if s < 19 {
                assert_eq!(delay, 30, "at {s} s");
            } else if s > 31 {
                assert_eq!(delay, 50, "at {s} s");
            }
        }
    }

    #[test]
    fn clocks_that_drift_or_step_move_all_transits_alike() {
        // 200 ppm either way, each channel measured once a second, half a second apart.
        for ppm in [200i64, -200] {
            let mut equalizer = Equalizer::<Vec<u8>>::new(MS(100));
            for half in 4..200u64 {
                let now = Time::from_millis(half * 500);
                let drift = now.as_nanos() as i64 / 1_000_000 * ppm;
                let channel = ChannelId((half % 2) as u8);
                let delay = if half % 2 == 0 { 10_000_000 } else { 40_000_000 };
                equalizer.measured(now, channel, now.as_nanos().wrapping_sub(delay).wrapping_add_signed(drift));
                equalizer.set(0b11);
                if half > 8 {
                    let delay = equalizer.lines[0].delay;
                    assert!(delay >= MS(26) && delay <= MS(34), "{delay:?} at {now:?}, a window of drift is 2 to 4 ms");
                }
            }
        }
        let mut equalizer = with(100, &[Some(10), Some(40)]);
        let hours = Time::ZERO + Span::from_secs(20_000);
        equalizer.measured(hours, ChannelId(0), 77);
        equalizer.set(0b11);
        assert_eq!(delays_of(&equalizer, 2), [30, 0], "after a pause the differences stand, whatever the clock shows");
    }

    #[test]
    fn no_clock_makes_anything_wait_longer_than_the_limit() {
        for clocks in [[0, u64::MAX], [u64::MAX / 2, 0], [1 << 63, (1 << 63) - 1], [0, 1 << 62]] {
            let mut equalizer = Equalizer::<Vec<u8>>::new(MS(100));
            for round in 0..3 {
                for (n, clock) in clocks.into_iter().enumerate() {
                    let now = Time::ZERO + Span::from_secs(9 * round + 1);
                    equalizer.measured(now, ChannelId(n as u8), clock);
                    equalizer.set(0b11);
                    assert!(equalizer.lines.iter().all(|l| l.delay <= MS(100)));
                }
            }
        }
    }

    #[test]
    fn markers_keep_their_place_and_memory_is_bounded_by_passing_early() {
        let mut equalizer = with(100, &[Some(10), Some(30)]);
        let packet = |n: u32| Arrival::Packet { bucket: 0, number: n, bond: n, packet: vec![0; 1000] };
        let now = Time::from_millis(5);
        assert!(hold(&mut equalizer, now, ChannelId(1), packet(0), 10_000).is_some(), "the slowest does not wait");
        for n in 1..=4 {
            assert!(hold(&mut equalizer, now, ChannelId(0), packet(n), 10_000).is_none());
        }
        assert!(hold(&mut equalizer, now, ChannelId(0), Arrival::Marker { high: 4 }, 10_000).is_none());
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

    /// A packet that left at `left` and comes `after` milliseconds later by `channel`: how long it waits.
    fn waits(equalizer: &mut Equalizer<Vec<u8>>, channel: u8, left: Time, after: u64, alone: bool) -> u64 {
        let stamp = if alone { Stamp::alone(left) } else { Stamp::of(left) };
        let wait = equalizer.delay_of(left + MS(after), ChannelId(channel), stamp, false);
        (wait.as_nanos() + 500_000) / 1_000_000
    }

    #[test]
    fn packets_with_stamps_all_take_as_long_as_the_slowest_channel_whatever_each_took() {
        let made = || {
            let mut equalizer = Equalizer::<Vec<u8>>::new(MS(100));
            for (channel, transit) in [(0, 10), (1, 40), (2, 300)] {
                let left = Time::from_millis(1000);
                equalizer.measured(left + MS(transit), ChannelId(channel), left.as_nanos());
            }
            equalizer.set(0b11);
            equalizer
        };
        let left = Time::from_millis(1100);
        assert_eq!([10, 25, 40, 90].map(|after| waits(&mut made(), 0, left, after, false)), [30, 15, 0, 0]);
        let mut equalizer = made();
        equalizer.set(0b101);
        assert_eq!(
            waits(&mut equalizer, 0, Time::from_millis(1300), 10, false),
            0,
            "what is slower by more is not waited for"
        );
        assert_eq!(waits(&mut equalizer, 3, left, 10, false), 0, "nothing is known of the channel");
    }

    #[test]
    fn a_channel_whose_delay_varies_is_waited_for_until_most_of_its_packets_have_come() {
        let mut equalizer = with(200, &[Some(10), Some(40)]);
        equalizer.set_paced(ChannelId(1), true);
        for n in 0..245 {
            // Each by itself takes 40 to 80 ms.
            let left = Time::from_millis(1100 + n * 20);
            waits(&mut equalizer, 1, left, 40 + n * 7 % 41, false);
        }
        let left = Time::from_millis(6000);
        let fast = waits(&mut equalizer, 0, left, 10, false);
        assert!((65..110).contains(&fast), "{fast} ms more than 10");
        assert_eq!(waits(&mut equalizer, 1, left, 60, false) + 50, fast, "the same instant by either channel");
        assert_eq!(waits(&mut equalizer, 0, left, 10, true), 0, "its own channel does not vary");
        equalizer.set_paced(ChannelId(1), false);
        let left = Time::from_millis(6100);
        assert_eq!(waits(&mut equalizer, 0, left, 10, false), 30, "what waits on the way there is no jitter");
    }

    #[test]
    fn what_is_sent_again_waits_without_holding_up_others_and_markers_stay_behind_it() {
        let mut equalizer = with(100, &[Some(10), Some(40)]);
        let kept = |n: u32| Arrival::Kept { bucket: 0, number: n, bond: n, packet: vec![0; 100] };
        let now = Time::from_millis(1100);
        waits(&mut equalizer, 0, Time::from_millis(1090), 10, false);
        assert!(equalizer.hold(now, ChannelId(0), MS(30), kept(1), 10_000).is_none());
        assert!(
            equalizer.hold(now, ChannelId(0), MS(10), kept(2), 10_000).is_none(),
            "due before the one in front of it"
        );
        assert!(equalizer.hold_aside(now, ChannelId(1), MS(20), kept(3), 10_000).is_none());
        assert!(equalizer.hold_aside(now, ChannelId(1), MS(40), kept(4), 10_000).is_none());
        assert!(equalizer.hold_aside(now, ChannelId(1), MS(0), kept(5), 10_000).is_some());
        assert!(hold(&mut equalizer, now, ChannelId(1), Arrival::Marker { high: 4 }, 10_000).is_none());
        let mut order = vec![];
        while let Some(due) = equalizer.timeout() {
            let (_, arrival) = equalizer.release(due, 10_000).unwrap();
            order.push((
                due.since(now).as_nanos() / 1_000_000,
                match arrival {
                    Arrival::Kept { number, .. } => number,
                    _ => 0,
                },
            ));
        }
        assert_eq!(order, [(10, 2), (20, 3), (30, 1), (40, 4), (40, 0)]);
        assert_eq!((equalizer.used(), equalizer.busy()), (0, 0));
    }

    #[test]
    fn no_stamp_makes_anything_wait_longer_than_the_limit() {
        let mut equalizer = with(100, &[Some(10), Some(40)]);
        for stamp in 0..=u16::MAX {
            let wait =
                equalizer.delay_of(Time::from_millis(1200 + u64::from(stamp)), ChannelId(0), Stamp(stamp), false);
            assert!(wait <= MS(100));
        }
    }

    proptest! {
        /// Against a sorted list, and a marker stays behind the last of them.
        #[test]
        fn what_stands_aside_leaves_by_when_it_is_due_and_then_as_it_came(delays in prop::collection::vec(1u64..60, 1..200)) {
            let mut equalizer = with(100, &[Some(10), Some(40)]);
            let now = Time::from_millis(1100);
            let mut model = vec![];
            for (n, ms) in (0..).zip(&delays) {
                let kept = Arrival::Kept { bucket: 0, number: n, bond: n, packet: vec![0; 100] };
                prop_assert!(equalizer.hold_aside(now, ChannelId(0), MS(*ms), kept, usize::MAX).is_none());
                model.push((now + MS(*ms), n));
            }
            model.sort_unstable();
            let marker = u32::MAX;
            let passed = hold(&mut equalizer, now, ChannelId(0), Arrival::Marker { high: marker }, usize::MAX);
            prop_assert!(passed.is_none());
            model.push((model.last().map_or(now, |(due, _)| *due).max(now + MS(30)), marker));
            let mut got = vec![];
            while let Some(due) = equalizer.timeout() {
                match equalizer.release(due, usize::MAX) {
                    Some((_, Arrival::Kept { number, .. } | Arrival::Marker { high: number })) => got.push((due, number)),
                    other => panic!("{other:?}"),
                }
            }
            prop_assert_eq!(got, model);
            prop_assert_eq!((equalizer.used(), equalizer.busy()), (0, 0));
        }

        /// Against a model: with changing delays each channel's arrivals leave in order, none early, none more than the
        /// largest delay and one grid step late, none lost.
        #[test]
        fn every_line_is_fifo_and_on_time(
            steps in prop::collection::vec((0u64..3_000, 0u8..4, 0u64..200), 1..300),
        ) {
            let mut equalizer = Equalizer::<Vec<u8>>::new(MS(100));
            let mut now = Time::from_millis(1000);
            let (mut model, mut got) = (vec![vec![]; 4], vec![vec![]; 4]);
            for (n, (us, channel, transit)) in steps.iter().enumerate() {
                now += Span::from_micros(*us);
                while let Some((c, Arrival::Marker { high })) = equalizer.release(now, usize::MAX) {
                    got[c.index()].push((high, now));
                }
                if n % 10 == 0 {
                    equalizer.forget_all();
                    transits(&mut equalizer, now, &[Some(20), Some(*transit), Some(40), None]);
                }
                model[usize::from(*channel)].push((n as u32, now));
                if let Some(Arrival::Marker { high }) =
                    hold(&mut equalizer, now, ChannelId(*channel), Arrival::Marker { high: n as u32 }, usize::MAX)
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
