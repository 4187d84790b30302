//! `traffic_meter`: the link with the lowest traffic meter.
//!
//! Source: burst round robin §2.4, SuperPipe (Mathur, its reference 5): the packet distributor sends each packet over the channel
//! with the lowest traffic meter reading, with a sequence number, and the packet aggregator at the other end puts packets
//! in order from one queue a channel. The paper does not say how a meter reads; here it is a moving average.
//!
//! | paper | here |
//! |---|---|
//! | traffic meter reading | bytes sent, each weighing e^(-age / window), over the link's speed |
//! | window | [`Config::window`]: the time constant; a steady stream reads rate x window |
//! | packet distributor | this selector; the bond numbers the packets |
//! | packet aggregator | the bond's receiver, in `mode = "flow"` with this policy: as mode `ordered` |
//!
//! For unlike links the reading is divided by the link's speed: its rate where all usable links' rates are known, else its
//! weight. So the same share of each link's capacity is used. Compared is the reading with half of what the packet would
//! add to it: on like links that changes nothing; on unlike ones it takes away that a slow link, whose meter moves in
//! larger steps, would get more than its share. Of equal ones the fastest link, then the lowest number.
//!
//! **How a meter is kept.** All meters fade alike, so that only what is added matters for which is lowest: a packet adds
//! length x e^(age of the origin / window), and when that factor has grown by 2^16 all meters are divided by it and the
//! origin moves on. A meter is a whole number; the factor is 2^x from a table of 64 steps with straight lines between
//! them, off by less than 0.002 %.
//!
//! Departures: the paper's sixteen channels are alike. A link that joins or comes back reads as the lowest of the others
//! and not zero, since it would else get every packet for about a window, more than it carries; what it had before it
//! went counts if that is more.
//!
//! Cost: O(n) a packet, one comparison for each link. Invariant: without fading (window long against the traffic) bytes
//! over speed differ between links by at most one packet.

use super::PolicyConfig;
use super::speeds::Speeds;
use super::{Frame, Links, Select};
use crate::options::{Kind, Table, option};
use crate::set::LinkSet;
use crate::units::{ChannelId, Span, Time};
use alloc::vec::Vec;

/// The settings of `traffic_meter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The time constant of the meters. Default 10 ms.
    pub window: Span,
}

impl Default for Config {
    fn default() -> Config {
        Config { window: Span::from_millis(10) }
    }
}

impl PolicyConfig for Config {
    const NAME: &'static str = "traffic_meter";
    const MAIN: Option<&'static str> = Some("window");
    const HELP: &'static str = "the link with the lowest traffic meter (SuperPipe); the receiver puts packets in order";
    const OPTIONS: Table<Config> = Table(&[
        option!(window: Kind::Span(Span::from_micros(10), Span::from_secs(10), None), "the time constant of the traffic meters"),
    ]);
    type Selector = TrafficMeter;

    fn selector(&self, _seed: u64) -> TrafficMeter {
        TrafficMeter::new(*self)
    }
}

/// The selector.
#[derive(Clone, Debug)]
pub struct TrafficMeter {
    /// In which a meter halves: window x ln 2.
    half: u64,
    origin: Time,
    speeds: Speeds,
    /// By the links' numbers.
    meters: Vec<Meter>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    /// What a byte adds: the fastest link's speed over this one's, times 2^16; zero before the link was ever used.
    cost: u64,
    reading: u128,
}

/// The factor's 1.
const ONE: u32 = 16;
/// The meters are divided when the factor is above 2 to this.
const GROWN: u64 = 16;

impl TrafficMeter {
    /// With these settings.
    pub fn new(config: Config) -> TrafficMeter {
        let half = (u128::from(config.window.as_nanos()) * 693_147_181 / 1_000_000_000).clamp(1, 1 << 60) as u64;
        let meters = alloc::vec![Meter::default(); ChannelId::LIMIT];
        TrafficMeter { half, origin: Time::ZERO, speeds: Speeds::new(), meters }
    }

    /// The factor at `now`, after moving the origin where it has grown too much.
    #[inline]
    fn factor(&mut self, now: Time) -> u64 {
        let mut age = now.since(self.origin).as_nanos();
        if age / self.half >= GROWN {
            let halvings = age / self.half;
            self.origin += Span::from_nanos(halvings * self.half);
            age %= self.half;
            for meter in &mut self.meters {
                meter.reading = meter.reading.checked_shr(halvings.min(128) as u32).unwrap_or(0);
            }
        }
        // Below 2^60 x 2^16, so that nothing is cut.
        let sixteenths = (u128::from(age) << 22) / u128::from(self.half);
        power_of_two(sixteenths as u64)
    }
}

/// 2^(x / 2^22) times 2^16, for x below 17 x 2^22.
fn power_of_two(x: u64) -> u64 {
    let (whole, step, between) = (x >> 22, (x >> 16) & 63, x & 0xffff);
    let (low, high) = (STEPS[step as usize], STEPS[step as usize + 1]);
    let fraction = low + (((high - low) * between) >> 16);
    (fraction << whole) >> (32 - ONE)
}

/// 2^(n / 64) times 2^32, for n from 0 to 64: the square root of 2, of that, and so on, multiplied as n's bits say.
const STEPS: [u64; 65] = {
    let mut roots = [0u128; 6];
    let mut square = 2u128 << 32;
    let mut bit = 6;
    while bit > 0 {
        bit -= 1;
        square = root(square << 32);
        roots[bit] = square;
    }
    let mut steps = [0u64; 65];
    let mut n = 0;
    while n < 64 {
        let (mut product, mut bit) = (1u128 << 32, 0);
        while bit < 6 {
            if n >> bit & 1 == 1 {
                product = (product * roots[bit]) >> 32;
            }
            bit += 1;
        }
        steps[n] = product as u64;
        n += 1;
    }
    steps[64] = 2 << 32;
    steps
};

/// The largest whole number whose square is at most `n`.
const fn root(n: u128) -> u128 {
    let (mut low, mut high) = (0u128, 1u128 << 64);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if middle * middle <= n { low = middle } else { high = middle }
    }
    low
}

impl Select for TrafficMeter {
    #[inline]
    fn select(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
        if self.speeds.stale(links) {
            self.on_links(now, links);
        }
        // Longer than any packet is; keeps the products below 2^128.
        let bytes = (frame.len.min(1 << 30) as u64) * self.factor(now);
        let reading = |link: ChannelId| {
            let half = |meter: &Meter| (u128::from(bytes) * u128::from(meter.cost)) / 2;
            self.meters.get(link.index()).map_or(0, |meter| meter.reading.saturating_add(half(meter)))
        };
        // The first of equals is kept, and the fastest comes first.
        let lowest = self.speeds.fastest_first().iter().map(|one| one.link).min_by_key(|link| reading(*link));
        let Some(link) = lowest else { return LinkSet::EMPTY };
        if let Some(meter) = self.meters.get_mut(link.index()) {
            meter.reading = meter.reading.saturating_add(u128::from(bytes) * u128::from(meter.cost));
        }
        LinkSet::only(link)
    }

    fn on_links(&mut self, _now: Time, links: &Links) {
        let before = self.speeds.usable();
        if !self.speeds.renew(links) {
            return;
        }
        let top = self.speeds.fastest_first().first().map_or(1, |one| u128::from(one.speed));
        for one in self.speeds.each() {
            let meter = &mut self.meters[one.link.index()];
            let cost = ((top << 16) / u128::from(one.speed)).min(1 << 48) as u64;
            meter.reading =
                meter.reading.checked_div(u128::from(meter.cost)).unwrap_or(0).saturating_mul(u128::from(cost));
            meter.cost = cost;
        }
        let stayed = self.speeds.each().iter().filter(|one| before.contains(one.link));
        let lowest = stayed.map(|one| self.meters[one.link.index()].reading).min().unwrap_or(0);
        for one in self.speeds.each().iter().filter(|one| !before.contains(one.link)) {
            let meter = &mut self.meters[one.link.index()];
            meter.reading = meter.reading.max(lowest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::speeds::tests::{packet, put, rated, weighted};
    use super::*;
    use crate::rng::Rng;

    fn meter(window: Span) -> TrafficMeter {
        TrafficMeter::new(Config { window })
    }

    fn next(selector: &mut TrafficMeter, now: Time, links: &Links, len: usize) -> usize {
        selector.select(now, &packet(len), links).first().unwrap().index()
    }

    #[test]
    fn the_factor_is_a_power_of_two_to_within_two_in_a_hundred_thousand() {
        for x in (0..17 << 22).step_by(9_973) {
            let exact = libm::exp2(f64::from(x) / f64::from(1 << 22)) * 65_536.0;
            let off = (power_of_two(x as u64) as f64 - exact).abs();
            // The straight line between two steps is off by (ln 2 / 64)^2 / 8; a whole number by one.
            assert!(off <= exact * 2e-5 + 1.0, "2^{} is off by {off} of {exact}", f64::from(x) / f64::from(1 << 22));
        }
    }

    #[test]
    fn equal_links_carry_equal_bytes_whatever_the_sizes() {
        let (links, mut rng) = (rated(&[10; 4]), Rng::new(1));
        let mut selector = meter(Span::from_secs(10));
        let mut bytes = [0u64; 4];
        for _ in 0..10_000 {
            let len = 40 + rng.below(1460);
            bytes[next(&mut selector, Time::ZERO, &links, len as usize)] += len;
        }
        // Nothing fades: no two links differ by more than the largest packet.
        assert!(bytes.iter().max().unwrap() - bytes.iter().min().unwrap() <= 1500, "{bytes:?}");
    }

    #[test]
    fn unlike_links_carry_bytes_as_their_rates_or_weights_say() {
        for links in [rated(&[10, 100, 40]), weighted(&[10, 100, 40])] {
            let mut selector = meter(Span::from_millis(10));
            let (mut rng, mut bytes) = (Rng::new(2), [0u64; 3]);
            // 15,000 packets over 1.5 s: the meters fade and are divided many times.
            for n in 0..15_000u64 {
                let len = 40 + rng.below(1460);
                bytes[next(&mut selector, Time::from_nanos(n * 100_000), &links, len as usize)] += len;
            }
            let total: u64 = bytes.iter().sum();
            for (link, share) in [10, 100, 40].iter().enumerate() {
                let off = (bytes[link] * 150).abs_diff(total * share);
                // Seven packets stand in the slow link's window at a time; whole packets move its share by this much.
                assert!(off * 100 <= total * share * 3, "link {link}: {bytes:?}");
            }
        }
    }

    /// The definition: every packet's bytes, each fading from the moment when it was sent.
    struct Sent {
        window: f64,
        packets: Vec<(f64, f64)>,
    }

    impl Sent {
        fn reading(&self, now: f64) -> f64 {
            self.packets.iter().map(|(at, bytes)| bytes * libm::exp((at - now) / self.window)).sum()
        }
    }

    #[test]
    fn the_lowest_meter_by_its_definition_is_chosen() {
        let mut rng = Rng::new(5);
        for round in 0..20 {
            let weights: Vec<u32> = (0..1 + rng.below(8)).map(|_| 1 + rng.below(9) as u32).collect();
            let links = weighted(&weights);
            let window = Span::from_micros(50 + rng.below(20_000));
            let mut selector = meter(window);
            let new = || Sent { window: window.as_nanos() as f64, packets: Vec::new() };
            let mut sent: Vec<Sent> = weights.iter().map(|_| new()).collect();
            let mut now = Time::from_millis(rng.below(100_000));
            for _ in 0..400 {
                now += Span::from_nanos(rng.below(window.as_nanos() / 2));
                let len = rng.below(1500);
                let link = next(&mut selector, now, &links, len as usize);
                let at = now.as_nanos() as f64;
                let reading = |n: usize| (sent[n].reading(at) + len as f64 / 2.0) / f64::from(weights[n]);
                let lowest = (0..weights.len()).map(reading).fold(f64::INFINITY, f64::min);
                // The factor's 0.002 %, the costs' 2^-16, and a thousandth of a byte where all is nearly nothing.
                assert!(reading(link) <= lowest * 1.0002 + 1e-3, "round {round}: {} above {lowest}", reading(link));
                sent[link].packets.push((at, len as f64));
            }
        }
    }

    #[test]
    fn a_link_that_comes_back_is_not_flooded() {
        let mut links = rated(&[10, 10, 10]);
        let mut selector = meter(Span::from_secs(1));
        put(&mut links, 2, false);
        (0..1000).for_each(|_| assert_ne!(next(&mut selector, Time::ZERO, &links, 1500), 2));
        put(&mut links, 2, true);
        let after: Vec<_> = (0..30).map(|_| next(&mut selector, Time::ZERO, &links, 1500)).collect();
        assert_eq!(after.iter().filter(|link| **link == 2).count(), 10, "{after:?}");
        for link in 0..3 {
            put(&mut links, link, false);
        }
        assert!(selector.select(Time::ZERO, &packet(60), &links).is_empty());
    }

    #[test]
    fn a_changed_rate_changes_the_shares_from_then_on() {
        let mut links = rated(&[10, 10]);
        let mut selector = meter(Span::from_secs(10));
        assert_eq!((0..100).map(|_| next(&mut selector, Time::ZERO, &links, 1000)).sum::<usize>(), 50);
        links.set(ChannelId(1), *rated(&[30]).get(ChannelId(0)).unwrap());
        selector.on_links(Time::ZERO, &links);
        let mut bytes = [50, 50];
        (0..300).for_each(|_| bytes[next(&mut selector, Time::ZERO, &links, 1000)] += 1);
        assert_eq!(bytes, [100, 300]);
    }

    #[test]
    fn absurd_sizes_windows_and_times_are_borne() {
        for window in [Span::ZERO, Span::from_nanos(1), Span::MAX] {
            let links = rated(&[1, 1_000_000_000]);
            let mut selector = meter(window);
            for now in [Time::ZERO, Time::from_nanos(u64::MAX / 2), Time::MAX, Time::ZERO] {
                for len in [0, 1, usize::MAX, usize::MAX] {
                    assert!(next(&mut selector, now, &links, len) < 2);
                }
            }
        }
    }
    #[test]
    fn a_root_is_the_largest_whole_number_whose_square_is_at_most_that() {
        let whole = |n: u128| root(n);
        assert_eq!(
            [0, 1, 2, 3, 4, 8, 9, 10, 1 << 66, (1 << 66) - 1].map(whole),
            [0, 1, 1, 1, 2, 2, 3, 3, 1 << 33, (1 << 33) - 1]
        );
    }
}
