//! How long a channel takes, as its receiver sees it: at least, and usually.
//!
//! What it is: transits (RFC 3550 section 6.4.1: the arrival by this clock less the departure by the peer's), of which the clocks'
//! unknown offset is a part. The least of the last 10 to 20 s has no queue in it. What is usual is the mean and five times the mean
//! deviation, smoothed by a sixteenth each as RFC 6298 smooths round trips, and of that the most in the last 10 to 20 s: on a link
//! that keeps order, packets that follow each other closely all take about as long as the slowest of them, while those that go alone
//! are spread, and both give about the same. Where that is less than [`STEADY`] above the least, the channel does not vary.
//!
//! Windows turn on all channels together. Cost: O(1) a sample; there is one in [`PAUSE`] at most.

use crate::units::{Span, Time};

/// Variation that nobody minds: TCP's HyStart does not take a change of less than 4 ms for a queue.
const STEADY: i64 = 4_000_000;
/// Between two samples of what is usual.
const PAUSE: Span = Span::from_millis(5);
/// A packet that left so long after the one before goes alone.
const ALONE: i64 = 15_000_000;
/// Samples that are averaged, about; and how many there are to be before their deviation counts.
const SAMPLES: i64 = 64;
const FEW: i64 = 8;

/// Mean and mean deviation.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    mean: i64,
    deviation: i64,
    samples: i64,
}

impl Spread {
    /// One more; the mean and five times the deviation, or the value itself as long as there are few.
    fn add(&mut self, value: i64) -> i64 {
        self.samples = (self.samples + 1).min(SAMPLES);
        if self.samples == 1 {
            self.mean = value;
        }
        let off = value.saturating_sub(self.mean);
        self.mean = self.mean.saturating_add(off / self.samples);
        self.deviation += (off.saturating_abs() - self.deviation) / self.samples;
        if self.samples < FEW { value } else { self.mean.saturating_add(self.deviation.saturating_mul(5)) }
    }
}

/// The transits of a channel, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Transit {
    /// The least of the window that ended, and of the one that runs.
    least: [Option<i64>; 2],
    /// The most that was usual in them.
    most: [Option<i64>; 2],
    /// Of packets that go alone, and of those that follow each other closely.
    spread: [Spread; 2],
    /// When the packet before left, less a constant, and when one was a sample.
    left: i64,
    sampled: Time,
}

impl Transit {
    /// The least of the last windows.
    pub(crate) fn least(&self) -> Option<i64> {
        self.least.into_iter().flatten().min()
    }

    /// What packets usually take at most.
    pub(crate) fn usual(&self) -> Option<i64> {
        let least = self.least()?;
        let most = self.most.into_iter().flatten().max().unwrap_or(least);
        Some(if most.saturating_sub(least) < STEADY { least } else { most })
    }

    /// A packet came that took `transit`. Whether it is a sample, which may change all that is known.
    #[inline]
    pub(crate) fn add(&mut self, now: Time, transit: i64) -> bool {
        let left = (now.as_nanos() as i64).wrapping_sub(transit);
        let close = left.saturating_sub(core::mem::replace(&mut self.left, left)) < ALONE;
        let sample = self.least().is_none() || now.since(self.sampled) >= PAUSE;
        self.least[1] = Some(self.least[1].map_or(transit, |least| least.min(transit)));
        if sample {
            self.sample(now, transit, close);
        }
        sample
    }

    fn sample(&mut self, now: Time, transit: i64, close: bool) {
        self.sampled = now;
        let usual = self.spread[usize::from(close)].add(transit);
        // Of packets that come close together this one shows what they take, while their mean may just be moving.
        let usual = if close { usual.min(transit) } else { usual };
        self.most[1] = Some(self.most[1].map_or(usual, |most| most.max(usual)));
    }

    /// A new window begins.
    pub(crate) fn turn(&mut self) {
        for of in [&mut self.least, &mut self.most] {
            *of = [of[1].or(of[0]), None];
        }
    }

    /// The clocks are `by` further apart than they were, and what was before is of the window before.
    pub(crate) fn shift(&mut self, by: i64) {
        for spread in &mut self.spread {
            spread.mean = spread.mean.saturating_add(by);
        }
        let moved = |value: Option<i64>| value.map(|value| value.saturating_add(by));
        self.least = [moved(self.least()), None];
        self.most = [moved(self.most.into_iter().flatten().max()), None];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// What is usual of a link of 50 ms that keeps order, where a packet's own delay is spread by `spread` ms and one goes each
    /// `every` ms.
    fn usual(spread: f64, every: f64, seed: u64) -> f64 {
        let (mut transit, mut rng, mut last, mut now) = (Transit::default(), Rng::new(seed), 0.0f64, 0.0f64);
        while now < 20_000.0 {
            now += every;
            let normal: f64 = (0..12).map(|_| rng.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0;
            last = (now + (50.0 + spread * normal).max(0.0)).max(last);
            let at = Time::from_nanos((last * 1e6) as u64);
            transit.add(at, ((last - now) * 1e6) as i64);
        }
        transit.usual().unwrap() as f64 / 1e6
    }

    #[test]
    fn what_is_usual_is_about_the_same_for_packets_that_go_alone_and_close_together() {
        for seed in 0..5 {
            let (alone, close) = (usual(20.0, 100.0, seed), usual(20.0, 0.2, seed));
            assert!((110.0..160.0).contains(&alone) && (110.0..160.0).contains(&close), "{alone:.0} and {close:.0} ms");
        }
        assert_eq!([usual(0.0, 10.0, 1), usual(0.0, 0.2, 1)].map(f64::round), [50.0; 2]);
        assert!(usual(0.5, 100.0, 1) < 50.0, "what varies by less than HyStart sees is not waited for");
    }

    #[test]
    fn what_was_usual_is_forgotten_after_two_windows_and_moves_with_the_clocks() {
        let mut transit = Transit::default();
        let mut at = Time::ZERO;
        let mut feed = |transit: &mut Transit, values: [i64; 2]| {
            for n in 0..1000 {
                at += PAUSE.times(20);
                transit.add(at, values[n % 2] * 1_000_000);
            }
        };
        feed(&mut transit, [10, 50]);
        let varied = transit.usual().unwrap() / 1_000_000;
        assert!((90..140).contains(&varied), "{varied}");
        transit.shift(7_000_000);
        assert_eq!((transit.least(), transit.usual().unwrap() / 1_000_000), (Some(17_000_000), varied + 7));
        for turn in 0..3 {
            feed(&mut transit, [17, 17]);
            assert_eq!(transit.usual() == Some(17_000_000), turn == 2, "after {turn} turns");
            transit.turn();
        }
    }
}
