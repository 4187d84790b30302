//! How fast a path is, before any traffic says so: a train of full frames, and how far apart they arrive.
//!
//! What it is: frames that leave at once arrive as far apart as the narrowest link takes for each of them (packet-pair dispersion;
//! Dovrolis, Ramanathan and Moore, "Packet-dispersion techniques and a capacity-estimation methodology", 2004). They are
//! padded echo requests, whose answers say when each arrived, by the peer's clock. So the way back does not matter. A train is
//! four times as long as the one before until it takes long enough at the peer's end: clocks are read once for several frames there, and
//! the path's own jitter moves single frames.
//!
//! Jitter only delays. So the frames that were delayed least lie on a line whose slope is the time that a frame takes: it is the edge, in the
//! middle of the train, of the lower convex hull of arrivals over places. Where even the longest train is too short, three
//! of them are added up, each to its last frame from the one at a sixteenth: on a link that keeps order a frame is as late as the latest before it, so the first frames come
//! early, and all behind them late. That is rather too slow a rate than too fast a one. Where two fifths of the trains'
//! time or more is what their latest frames were late, it is told as the least that the path carries, and the law looks for more at once.
//!
//! | constant | value |
//! |---|---|
//! | frames of the first train, of the longest | 16, 256 |
//! | a train is long enough | 10 ms, and six times what its latest frame lies above the hull; and its middle is at most four times as fast as the whole: else its first frame was late |
//! | it is over | its last frame came, or none for 300 ms; the first answer is waited for for 3 s |
//! | after three trains without two answers | no more |
//!
//! Where the rate is limited by a bucket of tokens, a train may be faster than what follows. It is the beginning of an estimate, and no
//! more. Cost: 24 kB to 1.3 MB once for a channel that joins others, while nothing is under way there; O(frames x hull) at a train's end. Memory: 16
//! bytes a frame while a train is away. Invariant: a rate comes from at least two arrivals in order, and is at most that of a frame in a microsecond.

use crate::congestion::PathRate;
use crate::units::{Rate, Span, Time};
use alloc::vec::Vec;

/// Frames of the first train, and of the longest.
const FIRST: u16 = 16;
const MOST: u16 = 256;
/// Shortest that counts, in nanoseconds.
const LONG_ENOUGH: u64 = 10_000_000;
/// How many times as long as its latest frame was late.
const JITTERS: u64 = 6;
/// Where the latest frames were late by this share of what their trains took or more, the rate may be far too low.
const JITTER: (u64, u64) = (2, 5);
/// Where a train is too short, one part in so many of its frames does not count.
const LATER: usize = 16;
/// How many times as fast as the whole train its middle may be.
const FLAT: u64 = 4;
/// Least time of a frame that is believed, in nanoseconds.
const SHORTEST: u64 = 1_000;
/// How long the next answer is waited for, and the first one.
const NEXT_WITHIN: Span = Span::from_millis(300);
const FIRST_WITHIN: Span = Span::from_secs(3);
/// Trains that are added up where each is too short.
const SHORT: u8 = 3;
/// Trains that may be lost.
const TRIES: u8 = 3;

/// The trains of one path.
#[derive(Clone, Debug)]
pub struct Train {
    /// Frames of the next one.
    frames: u16,
    failures: u8,
    /// Trains that are too short although they are the longest.
    short: Short,
    away: Option<Away>,
    done: bool,
}

/// Trains that are too short, all of them together.
#[derive(Clone, Copy, Debug, Default)]
struct Short {
    trains: u8,
    /// Behind their first frames: places, and how long they took, in nanoseconds.
    places: u64,
    took: u64,
    /// How long all of them took, and by how much their latest frames were late.
    whole: u64,
    late: u64,
}

/// One that is under way.
#[derive(Clone, Debug)]
struct Away {
    token: u32,
    frames: u16,
    /// Wire bytes of each.
    bytes: usize,
    /// The places of those that arrived, and when: by the peer's clock, in nanoseconds from the first.
    arrivals: Vec<(u16, u64)>,
    /// When the first arrived, by the peer's clock.
    first: u64,
    /// When it left.
    left: Time,
    /// When no more answers are waited for.
    until: Time,
}

impl Default for Train {
    fn default() -> Train {
        Train { frames: FIRST, failures: 0, short: Short::default(), away: None, done: false }
    }
}

impl Train {
    /// Whether another train should go.
    pub fn wants_to_go(&self) -> bool {
        !self.done && self.away.is_none()
    }

    /// Whether no more trains go.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// A train leaves, of frames of `bytes` with this token: how many frames it has.
    pub fn leave(&mut self, now: Time, token: u32, bytes: usize) -> u16 {
        let frames = self.frames;
        let until = now + FIRST_WITHIN;
        self.away = Some(Away { token, frames, bytes, arrivals: Vec::new(), first: 0, left: now, until });
        frames
    }

    /// The frame at `place` of the train with this token arrived when the peer's clock was `arrived`. The rate of the path, if that is
    /// known now.
    pub fn on_answer(&mut self, now: Time, (token, place): (u32, u64), arrived: u64) -> Option<PathRate> {
        let away = self.away.as_mut().filter(|away| away.token == token)?;
        let place = u16::try_from(place).ok().filter(|place| *place < away.frames)?;
        match away.arrivals.last() {
            None => {
                away.first = arrived;
                away.arrivals.push((place, 0));
            }
            Some(&(before, at)) => {
                let since = arrived.wrapping_sub(away.first);
                // What is not in order, in the train or by the peer's clock, tells nothing, nor what took longer than the train is away.
                if place <= before || since < at || since > now.since(away.left).as_nanos() {
                    return None;
                }
                away.arrivals.push((place, since));
            }
        }
        away.until = now + NEXT_WITHIN;
        if place + 1 == away.frames { self.end() } else { None }
    }

    /// When [`Train::handle_timeout`] is due.
    pub fn timeout(&self) -> Option<Time> {
        self.away.as_ref().map(|away| away.until)
    }

    /// No more answers come.
    pub fn handle_timeout(&mut self, now: Time) -> Option<PathRate> {
        if self.timeout().is_none_or(|at| at > now) {
            return None;
        }
        self.end()
    }

    fn end(&mut self) -> Option<PathRate> {
        let Away { frames, bytes, arrivals, .. } = self.away.take()?;
        let (_, took) = *arrivals.last().filter(|_| arrivals.len() > 1).or_else(|| {
            self.failures += 1;
            self.done = self.failures >= TRIES;
            None
        })?;
        let hull = lower_hull(&arrivals);
        let whole = (u64::from(arrivals[arrivals.len() - 1].0 - arrivals[0].0), took);
        let late = late(&arrivals, &hull);
        let is_short = took < LONG_ENOUGH.max(late * JITTERS) || is_flat(middle(&hull), whole);
        if is_short && frames < MOST {
            self.frames = frames * 4;
            return None;
        }
        let (places, took) = if is_short {
            // One late frame may hold up the rest of the train, so no part of it tells anything, and a single train little.
            let (short, from, to) = (&mut self.short, arrivals[arrivals.len() / LATER], arrivals[arrivals.len() - 1]);
            *short = Short {
                trains: short.trains + 1,
                places: short.places + u64::from(to.0 - from.0),
                took: short.took + (to.1 - from.1),
                whole: short.whole + took,
                late: short.late + late,
            };
            if short.trains < SHORT {
                return None;
            }
            (short.places, short.took)
        } else {
            middle(&hull)
        };
        self.done = true;
        let bits = u128::from(places) * bytes as u128 * 8_000_000_000;
        let rate = bits / u128::from(took.max(places * SHORTEST));
        let rate = Rate::from_bits_per_sec(u64::try_from(rate).unwrap_or(u64::MAX));
        // It is mostly the path's jitter that was measured.
        let is_jitter = is_short && self.short.late * JITTER.1 >= self.short.whole * JITTER.0;
        Some(if is_jitter { PathRate::AtLeast(rate) } else { PathRate::About(rate) })
    }
}

/// The lower convex hull of at least two points.
fn lower_hull(points: &[(u16, u64)]) -> Vec<(u16, u64)> {
    let mut hull: Vec<(u16, u64)> = Vec::with_capacity(points.len());
    for &point in points {
        while let [.., a, b] = hull[..]
            && is_above(a, b, point)
        {
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

/// The edge over the middle of the train: how many places it goes, and how long that takes.
fn middle(hull: &[(u16, u64)]) -> (u64, u64) {
    let middle = (hull[0].0 + hull[hull.len() - 1].0) / 2;
    let edge = hull.windows(2).find(|edge| edge[1].0 > middle).unwrap_or(&hull[hull.len() - 2..]);
    (u64::from(edge[1].0 - edge[0].0), edge[1].1 - edge[0].1)
}

/// Whether a part of a train went so many times as fast as the whole that its first frame was late, and all behind it came at once.
fn is_flat((places, took): (u64, u64), whole: (u64, u64)) -> bool {
    u128::from(FLAT * took) * u128::from(whole.0) < u128::from(whole.1) * u128::from(places)
}

/// By how much the latest of the points lies above their hull.
fn late(points: &[(u16, u64)], hull: &[(u16, u64)]) -> u64 {
    let above = |&(place, at): &(u16, u64)| {
        let edge = hull.windows(2).find(|edge| edge[1].0 >= place)?;
        let part = u128::from(place - edge[0].0) * u128::from(edge[1].1 - edge[0].1);
        Some(at.saturating_sub(edge[0].1 + (part / u128::from(edge[1].0 - edge[0].0)) as u64))
    };
    points.iter().filter_map(above).max().unwrap_or(0)
}

/// Whether `b` is on the line from `a` to `c` or above it.
fn is_above(a: (u16, u64), b: (u16, u64), c: (u16, u64)) -> bool {
    let part = u128::from(b.0 - a.0) * u128::from(c.1 - a.1);
    u128::from(b.1 - a.1) * u128::from(c.0 - a.0) >= part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const MS: fn(u64) -> Time = Time::from_millis;

    /// Sends a train at `now` whose frames of 1500 bytes arrive when `at` says, in nanoseconds; the peer's clock wraps around.
    fn ride(train: &mut Train, at: impl Fn(u64) -> u64) -> (u16, Option<PathRate>) {
        let frames = train.leave(MS(0), 7, 1500);
        let mut rate = None;
        for n in 0..u64::from(frames) {
            let arrived = (u64::MAX - 5).wrapping_add(at(n));
            rate = rate.or(train.on_answer(MS(1000), (7, n), arrived));
        }
        (frames, rate)
    }

    #[test]
    fn the_distance_of_arrivals_is_the_narrowest_links_rate() {
        let mut train = Train::default();
        // 10 Mbit/s: 1.2 ms each.
        assert_eq!(ride(&mut train, |n| n * 1_200_000), (FIRST, Some(PathRate::About(Rate::from_mbit(10)))));
        assert!(!train.wants_to_go());
    }

    #[test]
    fn a_train_that_is_too_short_for_clocks_or_jitter_is_followed_by_a_longer_one() {
        let mut train = Train::default();
        // 100 Mbit/s: 0.12 ms each, so 16 take 1.8 ms and 64 take 7.6 ms.
        assert_eq!(ride(&mut train, |n| n * 120_000), (16, None));
        assert_eq!(ride(&mut train, |n| n * 120_000), (64, None));
        assert_eq!(ride(&mut train, |n| n * 120_000), (256, Some(PathRate::About(Rate::from_mbit(100)))));
        let mut train = Train::default();
        // Every fifth frame is 4 ms late, and so are those behind it.
        let late = |n: u64| n.max(n / 5 * 5 + 4) * 1_200_000;
        assert_eq!(ride(&mut train, late), (16, None), "18 ms");
        assert_eq!(ride(&mut train, late), (64, Some(PathRate::About(Rate::from_mbit(10)))));
    }

    #[test]
    fn a_bucket_of_tokens_that_the_first_frames_empty_is_not_the_rate() {
        let mut train = Train { frames: MOST, ..Train::default() };
        let (_, rate) = ride(&mut train, |n| n * 12_000 + n.saturating_sub(60) * 588_000);
        assert_eq!(rate, Some(PathRate::About(Rate::from_mbit(20))));
    }

    #[test]
    fn jitter_on_a_link_that_keeps_order_hardly_changes_the_rate() {
        for seed in 0..50 {
            let mut train = Train { frames: MOST, ..Train::default() };
            // Each frame up to 20 ms late, and none before the one in front of it; 30 Mbit/s.
            let mut rng = Rng::new(seed);
            let mut last = 0;
            let at: Vec<u64> = (0..256)
                .map(|n: u64| {
                    last = last.max(n * 400_000 + rng.below(20_000_000));
                    last
                })
                .collect();
            let (_, rate) = ride(&mut train, |n| at[n as usize]);
            let mbit = rate.unwrap().rate().as_bits_per_sec() as f64 / 1e6;
            assert!((20.0..45.0).contains(&mbit), "seed {seed}: {mbit} Mbit/s");
        }
    }

    /// What 200 seeds tell of a link of so many Mbit/s that keeps order, and whose delay of 20 ms has this standard deviation in microseconds: as Mbit/s, the least first.
    fn told_of(mbit: u64, deviation: u64) -> Vec<f64> {
        let mut rates: Vec<f64> = Vec::new();
        for seed in 0..200 {
            let (mut train, mut rng) = (Train::default(), Rng::new(seed));
            let rate = loop {
                let (mut last, frames) = (0, u64::from(train.frames));
                let at: Vec<u64> = (0..frames)
                    .map(|n: u64| {
                        // Twelve even numbers are nearly normal.
                        let sum: u64 = (0..12).map(|_| rng.below(deviation * 1000)).sum();
                        let delay = (20_000_000 + sum).saturating_sub(deviation * 6000);
                        last = last.max(n * 12_000_000 / mbit + delay);
                        last
                    })
                    .collect();
                if let (_, Some(rate)) = ride(&mut train, |n| at[n as usize] - at[0]) {
                    break rate;
                }
            };
            rates.push(rate.rate().as_bits_per_sec() as f64 / 1e6);
        }
        rates.sort_by(f64::total_cmp);
        rates
    }

    #[test]
    fn a_train_whose_first_frames_are_late_is_not_taken_for_a_fast_path() {
        // The longest train takes 61 ms.
        let rates = told_of(50, 20_000);
        assert!(rates[0] > 20.0 && rates[199] < 200.0, "{rates:?}");
    }

    #[test]
    fn a_link_on_which_all_frames_become_as_late_as_the_latest_is_not_taken_for_a_slow_one() {
        // Some trains are told of at once; others are too short, the longest ones by far, and added up.
        for (mbit, deviation) in [(50, 5_000), (100, 5_000), (150, 3_000), (150, 5_000), (300, 1_500)] {
            let rates = told_of(mbit, deviation);
            let [least, median, most] = [10, 100, 189].map(|n| rates[n] / mbit as f64);
            assert!(
                least > 0.75 && median > 0.9 && median < 1.03 && most < 1.15,
                "{mbit}, {deviation}: {least} {median} {most}"
            );
        }
    }

    #[test]
    fn what_all_arrives_at_one_instant_is_as_fast_as_can_be_told() {
        let mut train = Train::default();
        for (frames, told) in [(16, false), (64, false), (256, false), (256, false), (256, true)] {
            let rate = ride(&mut train, |_| 0);
            assert_eq!((rate.0, rate.1.is_some()), (frames, told));
            let right = |rate| matches!(rate, PathRate::AtLeast(rate) if rate <= Rate::from_mbit(12_000));
            assert!(rate.1.is_none_or(right), "{rate:?}");
        }
    }

    #[test]
    fn lost_frames_and_lost_trains_are_not_waited_for() {
        let mut train = Train::default();
        train.leave(MS(0), 7, 1500);
        for n in [0, 3, 4, 12] {
            assert_eq!(train.on_answer(MS(50 + n), (7, n), n * 1_200_000), None);
        }
        for (what, token, place) in [("no train", 8, 13), ("too far", 7, 16), ("not in order", 7, 11)] {
            assert_eq!(train.on_answer(MS(70), (token, place), 20_000_000), None, "{what}");
        }
        assert_eq!(train.on_answer(MS(70), (7, 13), 0), None, "the clock went back");
        assert_eq!(train.on_answer(MS(70), (7, 13), 80_000_000), None, "longer than it is away");
        assert_eq!(train.timeout(), Some(MS(362)));
        assert_eq!(train.handle_timeout(MS(362)), Some(PathRate::About(Rate::from_mbit(10))));
        let mut train = Train::default();
        for n in 0..u64::from(TRIES) {
            assert!(train.wants_to_go());
            train.leave(MS(4000 * n), 7, 1500);
            assert_eq!(train.handle_timeout(MS(4000 * n + 3000)), None);
        }
        assert!(!train.wants_to_go());
    }
}
