//! The threshold that adapts: a flow moves where its packets keep their order, as the links' rates, queues and delays say.
//!
//! What it is: for each packet and link the earliest and the latest instant of arrival. A flow may take another link when the
//! packet cannot arrive there before the flow's last packet has:
//!
//! ```text
//! latest(last)   = leaves(a) + delay(a) + jitter(a)             noted when the last packet was queued on a
//! earliest(b)    = max(now, free(b)) + length/rate(b) + delay(b)
//! may move to b  = earliest(b) >= latest(last)
//! ```
//!
//! Source: burst-round-robin paper, 4.1: order holds where T > BSZ rho / B, the gap against the time that the queue ahead
//! takes to drain. Here the queue is the one there is, not its largest, and the links' delays count as well (section 8
//! asks for a threshold that adjusts itself).
//!
//! | paper | here |
//! |---|---|
//! | T_i | `now` less the last packet's instant |
//! | BSZ rho / B | [`LinkState::free`] when the last packet was queued, less that instant |
//! | (no skew) | delay and jitter of both links |
//!
//! What is chosen among the links that are allowed:
//! - **within a burst** the link where the packet arrives first. On like links that is striping packet by packet, in order:
//!   each packet arrives with or after the one before it. On unlike ones a flow spreads to a slower link when its queue on
//!   the faster ones has grown to the difference in delay. Where nothing is gained it stays.
//! - **a new flow, or a new burst** (one that could take every link even if its last packet had gone by the slowest: the links
//!   that it may choose do not depend on the one it was on) takes the link of the least arrival plus load. The load of
//!   a link is what it carried lately by its weight, relative to all links' mean, times [`BALANCE`]: that long may a
//!   packet be late for each mean load that a link is ahead.
//!
//! **Waiting.** Two idle links of unlike delay, or any with jitter, give no way to stripe: what goes by the other link would arrive too
//! early. Where the caller can let a packet wait for its instant ([`super::Select::select_held`]) it does so once, and the
//! links then keep their distance by the packets queued on them. That is done only for a flow whose link is busy, for at most
//! [`HOLD`], and only where all links' jitter together is shorter than the packet: else links would stand idle for it again and again.
//!
//! **What is not known.** A link without a rate hides its queue, one without a delay its skew: a packet on it counts as
//! arrived [`UNKNOWN`] later, and a packet for it as arriving at once. So a flow rests that long before it moves from or to it.
//!
//! Cost: O(links) for each packet, twice. Invariants: no packet overtakes another one of its flow where each packet leaves
//! and arrives as [`LinkState`] tells; a link that goes down releases its flows at once.

use super::fading::Fading;
use super::idle::Weights;
use super::{LinkState, Links};
use crate::units::{Bytes, ChannelId, Span, Time};

/// How much longer a packet may take on a link of which the rate or the delay is not known.
pub const UNKNOWN: Span = Span::from_millis(100);
/// How much later than elsewhere a packet may arrive for each mean load that a link is behind the others.
pub const BALANCE: Span = Span::from_secs(1);
/// The longest that a packet waits for its instant.
pub const HOLD: Span = Span::from_millis(50);
/// Where packets wait for their instant, so much of others' may come between: a bond's own heartbeats and echoes, which wait
/// for nothing.
pub const ASIDE: Bytes = Bytes::new(128);

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) link: ChannelId,
    /// When it arrives at the latest.
    pub(super) arrives: Time,
    /// When it may begin to leave.
    pub(super) start: Time,
    /// It begins a burst.
    pub(super) burst: bool,
}

/// Chooses links by arrival.
#[derive(Clone, Debug)]
pub(super) struct Adaptive {
    loads: [Fading; ChannelId::LIMIT],
    /// What a byte counts on each link: inverse to its weight.
    scale: [u64; ChannelId::LIMIT],
}

/// When a packet queued now arrives at the earliest.
fn earliest(now: Time, len: Bytes, state: &LinkState) -> Time {
    now.max(state.free) + transmission(len, state) + state.delay.unwrap_or(Span::ZERO)
}

fn transmission(len: Bytes, state: &LinkState) -> Span {
    state.rate.filter(|rate| rate.as_bits_per_sec() > 0).map_or(Span::ZERO, |rate| rate.transmit_time(len))
}

/// By how much a packet may be later than the earliest.
fn spread(state: &LinkState) -> Span {
    let known = state.delay.is_some() && state.rate.is_some_and(|rate| rate.as_bits_per_sec() > 0);
    if known { state.jitter } else { state.jitter + UNKNOWN }
}

impl Adaptive {
    pub(super) fn new() -> Adaptive {
        Adaptive { loads: [Fading::default(); ChannelId::LIMIT], scale: [1 << 16; ChannelId::LIMIT] }
    }

    /// Loads are counted by these weights from now on.
    pub(super) fn on_links(&mut self, links: &Links, weights: &Weights) {
        let most = links.usable().iter().map(|link| weights.get(link)).max().unwrap_or(1);
        for link in links.usable().iter() {
            let scale = (u128::from(most) << 16) / u128::from(weights.get(link).max(1));
            self.scale[link.index()] = scale.min(1 << 32) as u64;
        }
    }

    /// The link for a packet of `len` bytes; `last`: the flow's link, which is usable, and when its last packet arrives at
    /// the latest; `holds`: whether a packet can wait for its instant. `None`: no link is usable.
    #[inline]
    pub(super) fn choose(
        &mut self,
        now: Time,
        len: usize,
        links: &Links,
        last: Option<(ChannelId, Time)>,
        holds: bool,
    ) -> Option<Chosen> {
        let len = Bytes::from(len);
        let within = last.filter(|(link, until)| !at_rest(now, len, links, *link, *until));
        let (link, wait) = match within {
            Some((link, until)) => soonest(now, len, links, link, until, holds),
            None => (self.balanced(now, len, links)?, Span::ZERO),
        };
        let state = links.get(link)?;
        self.charge(now, link, len);
        let arrives = latest(now, len, state) + wait + if holds { transmission(ASIDE, state) } else { Span::ZERO };
        // A packet behind another one on its link arrives behind it, whatever became of the estimates since.
        let arrives = last.filter(|(before, _)| *before == link).map_or(arrives, |(_, until)| arrives.max(until));
        let start = if wait == Span::ZERO { Time::ZERO } else { now.max(state.free) + wait };
        Some(Chosen { link, arrives, start, burst: within.is_none() })
    }

    /// The link of the least arrival and load.
    fn balanced(&self, now: Time, len: Bytes, links: &Links) -> Option<ChannelId> {
        let load = |link: ChannelId| self.loads[link.index() % ChannelId::LIMIT].at(now);
        let sum = links.usable().iter().fold(0u64, |sum, link| sum.saturating_add(load(link)));
        let mean = (sum / links.usable().len().max(1) as u64).max(1);
        let cost = |(link, state): &(ChannelId, &LinkState)| {
            let load = u128::from(load(*link)) * u128::from(BALANCE.as_nanos()) / u128::from(mean);
            u128::from(earliest(now, len, state).as_nanos()) + load
        };
        links.each_usable().min_by_key(cost).map(|(link, _)| link)
    }

    fn charge(&mut self, now: Time, link: ChannelId, len: Bytes) {
        let n = link.index() % ChannelId::LIMIT;
        self.loads[n].add(now, len.as_u64().saturating_mul(self.scale[n]));
    }
}

/// When a packet that is queued on a link now arrives at the latest.
pub(super) fn latest(now: Time, len: Bytes, state: &LinkState) -> Time {
    earliest(now, len, state) + spread(state)
}

/// Whether a packet that takes `link` now cannot arrive before one of which that is the latest instant.
pub(super) fn may_move(now: Time, len: Bytes, links: &Links, link: ChannelId, latest: Time) -> bool {
    links.get(link).is_some_and(|state| earliest(now, len, state) >= latest)
}

/// Whether a flow's next packet keeps its order on every link, even if the last one had gone by the slowest. That one went
/// by `own`, to arrive at `latest`.
pub(super) fn at_rest(now: Time, len: Bytes, links: &Links, own: ChannelId, until: Time) -> bool {
    let (mut first, mut slowest) = (Time::MAX, Span::ZERO);
    for (_, state) in links.each_usable() {
        first = first.min(earliest(now, len, state));
        slowest = slowest.max(state.delay.unwrap_or(Span::ZERO) + spread(state));
    }
    let own = links.get(own).map_or(Span::ZERO, |state| state.delay.unwrap_or(Span::ZERO) + spread(state));
    first >= until + (slowest - own)
}

/// The link where the flow's next packet arrives first and in order, and how long it must wait for that there; its own unless
/// another one is better.
fn soonest(now: Time, len: Bytes, links: &Links, own: ChannelId, until: Time, holds: bool) -> (ChannelId, Span) {
    let Some(state) = links.get(own) else { return (own, Span::ZERO) };
    // Packet by packet, each link adds its spread; it must be made up for while the others transmit.
    let holds = holds
        && state.free > now
        && (spread(state) + transmission(ASIDE, state)).times(links.usable().len() as u64) <= transmission(len, state)
        && state.delay.is_some();
    let mut best = (earliest(now, len, state).max(until), Span::ZERO, own);
    for (link, state) in links.each_usable().filter(|(link, _)| *link != own) {
        let arrives = earliest(now, len, state);
        let wait = until.since(arrives);
        if wait == Span::ZERO || (holds && wait <= HOLD) {
            let found = (arrives.max(until), wait, link);
            if (found.0, found.1) < (best.0, best.1) {
                best = found;
            }
        }
    }
    (best.2, best.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::units::Rate;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn link(mbit: u64, delay_us: u64, jitter_us: u64) -> LinkState {
        LinkState {
            rate: Some(Rate::from_mbit(mbit)),
            delay: Some(Span::from_micros(delay_us)),
            jitter: Span::from_micros(jitter_us),
            ..LinkState::default()
        }
    }

    /// FIFO links: what is queued leaves at the rate and arrives after the delay and up to the jitter.
    struct Network {
        links: Links,
        adaptive: Adaptive,
        rng: Rng,
        last: Vec<Time>,
        packets: Vec<u64>,
    }

    impl Network {
        fn new(states: &[LinkState], seed: u64) -> Network {
            let links = Links::new(states.iter().copied());
            let mut adaptive = Adaptive::new();
            adaptive.on_links(&links, &Weights::of(&links));
            let (last, packets) = (vec![Time::ZERO; states.len()], vec![0; states.len()]);
            Network { links, adaptive, rng: Rng::new(seed), last, packets }
        }

        /// Sends a packet of a flow; when it arrives, and what the flow remembers.
        fn send(
            &mut self,
            now: Time,
            len: usize,
            flow: Option<(ChannelId, Time)>,
            holds: bool,
        ) -> (Time, (ChannelId, Time)) {
            let chosen = self.adaptive.choose(now, len, &self.links, flow, holds).unwrap();
            let (n, state) = (chosen.link.index(), *self.links.get(chosen.link).unwrap());
            assert!(holds || chosen.start == Time::ZERO);
            assert!(chosen.start.since(now.max(state.free)) <= HOLD);
            let begin = now.max(state.free).max(chosen.start);
            let leaves = begin + state.rate.unwrap().transmit_time(Bytes::from(len));
            self.links.set_backlog(chosen.link, Bytes::ZERO, leaves);
            let jitter = Span::from_nanos(self.rng.below(state.jitter.as_nanos() + 1));
            let arrives = (leaves + state.delay.unwrap() + jitter).max(self.last[n]);
            self.last[n] = arrives;
            self.packets[n] += 1;
            (arrives, (chosen.link, chosen.arrives))
        }
    }

    /// A flow that always has packets queued for 20 ms at the sum of the rates: what it carries, in bits a second.
    fn one_flow(states: &[LinkState], holds: bool, len: impl Fn(u64) -> usize) -> (f64, Vec<u64>) {
        let mut network = Network::new(states, 1);
        let (mut flow, mut last, mut bits, mut now) = (None, Time::ZERO, 0, Time::ZERO);
        for n in 0..20_000 {
            let len = len(n);
            let (arrives, state) = network.send(now, len, flow, holds);
            assert!(arrives >= last, "packet {n} overtook the one before it");
            (flow, last, bits) = (Some(state), arrives, bits + 8 * len);
            // Window-limited: at most 60 ms between sending and arriving.
            now = now.max(Time::from_nanos(arrives.as_nanos().saturating_sub(60_000_000)));
        }
        (bits as f64 / last.as_secs_f64(), network.packets)
    }

    #[test]
    fn one_flow_fills_like_links_packet_by_packet_and_in_order() {
        let (rate, packets) = one_flow(&[link(10, 500, 0); 4], false, |_| 1500);
        assert!((39.5e6..=40.0e6).contains(&rate), "{rate}");
        assert_eq!(packets, [5000; 4]);
    }

    #[test]
    fn where_packets_can_wait_unlike_delays_sizes_and_jitter_leave_it_the_rate() {
        let skewed = [link(10, 100, 20), link(10, 7_000, 20), link(10, 13_000, 20), link(10, 20_000, 20)];
        let (rate, _) = one_flow(&skewed, true, |n| if n % 10 == 9 { 700 } else { 1500 });
        // Without waiting the flow stays on the slowest link that it ever took.
        let (held_back, _) = one_flow(&skewed, false, |n| if n % 10 == 9 { 700 } else { 1500 });
        // Of 40 Mbit/s; jitter and short packets cost some waiting.
        assert!((37.0e6..=40.0e6).contains(&rate), "{rate}");
        assert!(held_back < 0.7 * rate, "{held_back} without waiting, {rate} with it");
    }

    #[test]
    fn jitter_beyond_the_packets_length_is_not_waited_for() {
        let (rate, _) = one_flow(&[link(10, 500, 5_000); 4], true, |_| 1500);
        assert!((9.9e6..=12.0e6).contains(&rate), "{rate}: one link's rate");
    }

    #[test]
    fn bursts_of_many_flows_share_links_as_their_rates() {
        let states = [link(10, 1_000, 0), link(20, 30_000, 0), link(70, 5_000, 500)];
        let mut network = Network::new(&states, 3);
        for n in 0..20_000u64 {
            network.send(Time::from_nanos(n * 400_000), 1000, None, false);
        }
        // 20 Mbit/s offered to 100: nothing but the loads tells the links apart, and 30 ms of delay are 3 % of BALANCE.
        for (packets, share) in network.packets.iter().zip([2_000u64, 4_000, 14_000]) {
            assert!(packets.abs_diff(share) <= share / 20, "{:?}", network.packets);
        }
    }

    #[test]
    fn where_rate_or_delay_is_not_known_a_flow_rests_before_it_moves() {
        for state in [LinkState { rate: None, ..link(10, 1, 0) }, LinkState { delay: None, ..link(10, 1, 0) }] {
            let links = Links::new([state; 2]);
            let mut adaptive = Adaptive::new();
            let first = adaptive.choose(Time::ZERO, 1000, &links, None, true).unwrap();
            let flow = Some((first.link, first.arrives));
            let within = adaptive.choose(Time::from_millis(99), 1000, &links, flow, true).unwrap();
            assert_eq!((within.link, within.burst, within.start), (first.link, false, Time::ZERO));
            let rested = adaptive.choose(Time::from_millis(102), 1000, &links, flow, true).unwrap();
            assert_eq!((rested.burst, rested.link == first.link), (true, false));
        }
    }

    proptest! {
        /// The paper's condition made exact: nothing overtakes, whatever the links, sizes, gaps and other flows.
        #[test]
        fn no_packet_overtakes_one_of_its_flow_where_delays_are_as_told(
            states in proptest::collection::vec((1u64..1000, 0u64..100_000, 0u64..5_000), 1..6),
            packets in proptest::collection::vec((0usize..5, 40usize..9000, 0u64..3_000_000), 1..300),
            holds: bool, seed: u64,
        ) {
            let states: Vec<_> = states.into_iter().map(|(mbit, delay, jitter)| link(mbit, delay, jitter)).collect();
            let mut network = Network::new(&states, seed);
            let (mut flows, mut last, mut now) = ([None; 5], [Time::ZERO; 5], Time::ZERO);
            for (flow, len, gap) in packets {
                now += Span::from_nanos(gap);
                let (arrives, state) = network.send(now, len, flows[flow], holds);
                prop_assert!(arrives >= last[flow]);
                (flows[flow], last[flow]) = (Some(state), arrives);
            }
        }

        #[test]
        fn absurd_states_do_no_harm(
            states in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>()), 1..5),
            packets in proptest::collection::vec((any::<u64>(), any::<usize>()), 1..40),
        ) {
            let links = Links::new(states.iter().map(|(rate, delay, jitter, free, weight)| LinkState {
                rate: Some(Rate::from_bits_per_sec(*rate)),
                delay: Some(Span::from_nanos(*delay)),
                jitter: Span::from_nanos(*jitter),
                free: Time::from_nanos(*free),
                weight: *weight,
                ..LinkState::default()
            }));
            let mut adaptive = Adaptive::new();
            adaptive.on_links(&links, &Weights::of(&links));
            let mut flow = None;
            for (now, len) in packets {
                let chosen = adaptive.choose(Time::from_nanos(now), len, &links, flow, true).unwrap();
                prop_assert!(links.usable().contains(chosen.link));
                flow = Some((chosen.link, chosen.arrives));
            }
        }
    }
    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    const LEN: Bytes = Bytes::new(1500);

    // At 10 Mbit/s 1500 bytes take 1.2 ms, and 128 take 0.1024 ms.
    #[test]
    fn a_burst_goes_where_it_arrives_first_and_where_less_went_lately() {
        let mut network = Network::new(&[link(10, 300_000, 0), link(10, 1_000, 0)], 1);
        assert_eq!(network.adaptive.choose(ms(0), 1500, &network.links, None, false).unwrap().link, ChannelId(1));
        // Three times as much as on the other one counts a second more, each half of it above or below the mean.
        for (delay, expected) in [(900, 1), (1100, 0)] {
            let mut adaptive = Adaptive::new();
            adaptive.charge(ms(0), ChannelId(0), Bytes::new(3000));
            adaptive.charge(ms(0), ChannelId(1), Bytes::new(1000));
            let links = Links::new([link(10, 0, 0), link(10, delay * 1000, 0)]);
            assert_eq!(adaptive.balanced(ms(0), LEN, &links), Some(ChannelId(expected)), "{delay}");
        }
    }

    #[test]
    fn a_rate_of_nothing_is_one_that_is_not_known() {
        let state = LinkState { rate: Some(Rate::from_bits_per_sec(0)), ..link(10, 0, 30) };
        assert_eq!((transmission(LEN, &state), spread(&state)), (Span::ZERO, Span::from_micros(30) + UNKNOWN));
        assert_eq!(spread(&link(10, 0, 30)), Span::from_micros(30));
    }

    #[test]
    fn a_flow_rests_until_the_link_that_may_be_latest_keeps_its_order() {
        let links = Links::new([link(10, 1_000, 0), link(10, 1_000, 10_000)]);
        // The next packet arrives 2.2 ms from now at the earliest; the last one by 10 ms later than until.
        for (now, rests) in [(7_800, true), (7_799, false)] {
            assert_eq!(at_rest(Time::from_nanos(now * 1000), LEN, &links, ChannelId(0), Time::ZERO), rests, "{now}");
        }
    }

    #[test]
    fn a_packet_moves_within_a_burst_only_where_it_cannot_arrive_before_the_one_before() {
        let links = Links::new([link(10, 1_000, 0)]);
        let may = |n, ns| may_move(ms(0), LEN, &links, ChannelId(n), Time::from_nanos(ns));
        assert_eq!((may(0, 2_200_000), may(0, 2_200_001), may(1, 0)), (true, false, false));
    }

    #[test]
    fn a_packet_is_held_for_another_link_only_while_its_own_is_busy_and_the_spread_is_made_up_for() {
        // On its own link it would arrive after 16.2 ms, on the other one after 2.2 ms, and the one before arrives after 8 ms.
        let other = |jitter, free_us: u64| {
            let own = LinkState { free: Time::from_nanos(free_us * 1000), ..link(10, 15_000 - free_us, jitter) };
            soonest(ms(0), LEN, &Links::new([own, link(10, 1_000, 0)]), ChannelId(0), ms(8), true)
        };
        let (held, stays) = ((ChannelId(1), Span::from_micros(5_800)), (ChannelId(0), Span::ZERO));
        assert_eq!((other(0, 10_000), other(0, 1), other(0, 0)), (held, held, stays));
        // Twice 497.6 us and 102.4 us are 1.2 ms.
        assert_eq!((other(497, 10_000), other(498, 10_000)), (held, stays));
        // Where it is as soon elsewhere, it stays.
        let like = Links::new([link(10, 1_000, 0); 2]);
        assert_eq!(soonest(ms(0), LEN, &like, ChannelId(0), ms(1), true), stays);
    }

    #[test]
    fn behind_another_packet_on_its_link_one_arrives_behind_it() {
        let mut network = Network::new(&[link(10, 1_000, 0)], 1);
        let last = Some((ChannelId(0), ms(50)));
        let chosen = network.adaptive.choose(ms(0), 1500, &network.links, last, false).unwrap();
        assert_eq!((chosen.arrives, chosen.burst), (ms(50), false));
        // On another link it need not.
        let mut network = Network::new(&[LinkState { free: ms(90), ..link(10, 1_000, 0) }, link(10, 60_000, 0)], 1);
        let chosen = network.adaptive.choose(ms(0), 1500, &network.links, last, false).unwrap();
        assert_eq!((chosen.link, chosen.arrives), (ChannelId(1), Time::from_nanos(61_200_000)));
    }
}
