//! How long a channel takes, as its receiver sees it: at least, and usually.
//!
//! What it is: transits (RFC 3550 section 6.4.1: the arrival by this clock less the departure by the peer's), of which the clocks'
//! unknown offset is a part. The least of the last 10 to 20 s has no queue in it. What is usual is the mean and [`MANY`] times the mean
//! deviation less [`HARMLESS`], but no less than [`ENOUGH`] times, smoothed over [`SAMPLES`] each as RFC 6298 smooths round trips, and of that the most in the last 2 to 4 s: on a link
//! that keeps order, packets that follow each other closely all take about as long as the slowest of them, which looks like a queue, while those
//! that go alone, such as echo requests, are spread. So these are counted apart, and tell the most. Those that
//! follow closely are traffic from the [`ROW`]th on. Where that is less than [`STEADY`] above the least, the channel does not vary.
//!
//! **A queue is no jitter.** Where a link becomes slower, what is sent waits there, and nobody should make all other packets wait as long.
//! A queue grows by a second in a second at most: while more comes than goes, each packet arrives later behind the one before than it
//! left, and by no more than the time between the arrivals. Jitter jumps. So the line that follows the transits, falls with them at
//! once and rises by the time that passes, is taken for a queue, and what packets take beyond it is jitter. Packets that go alone have no queue
//! of their own before them, but where traffic has just gone what it left behind may still stand there. So what goes alone then and may stand in a
//! queue of [`STEADY`] is no sample: with the queue taken off, nothing would be left of its jitter, and samples with and without it would seem to vary more
//! than each.
//!
//! **A queue that stands hides the jitter behind it.** On a link that keeps order the packets behind a queue take about as long as each other. So while no sample of a window met the
//! path without one, what was usual before stays, for 30 s at most. What goes alone, with no traffic beside it, has none before it.
//!
//! **A link that stands still is no jitter.** What goes alone then takes far longer, and its mean deviation stays large for as long as 64
//! samples take, of which there are few. So while traffic follows closely, what goes alone counts only as long as it tells of no more than [`FAR`].
//!
//! **A path that is used again** after it was not, and has become shorter meanwhile, is seen by [`FEW`] samples in a row that are less than the mean and differ by less
//! than a quarter of the deviation. What was usual before is forgotten then, once: the deviation would otherwise be as large as the step for as long
//! as 64 samples take, and echo requests go once a second.
//!
//! Windows of the least turn on all channels together. Cost: O(1) a packet; a sample is taken once in [`PAUSE`] at most.

use crate::units::{Span, Time};

/// Variation that nobody minds: TCP's HyStart does not take a change of less than 4 ms for a queue.
const STEADY: i64 = 4_000_000;
/// How long a window of what is usual is.
const MEMORY: Span = Span::from_secs(2);
/// Windows for which what was usual stays while queues hide what is.
const HIDDEN: u8 = 15;
/// Between two samples of what is usual.
const PAUSE: Span = Span::from_millis(5);
/// A packet that left so long after the one before goes alone.
const ALONE: i64 = 15_000_000;
/// So many packets in a row that each left so close behind the one before are traffic.
const ROW: u32 = 4;
/// So long after packets that followed each other one that goes alone is beside traffic.
const BESIDE: Span = Span::from_secs(1);
/// What goes alone beside traffic and usually takes so much longer than the least tells of a link that stood still.
const FAR: i64 = 250_000_000;
/// Samples that are averaged, about; and how many there are to be before their deviation counts.
const SAMPLES: i64 = 64;
const FEW: i64 = 8;
/// So many mean deviations above the mean nearly no packet takes longer.
const MANY: i64 = 5;
/// So many mean deviations above the mean is what a packet usually takes on a link that keeps order, if others go closely before and behind it.
const ENOUGH: i64 = 3;
/// By so much what a packet takes may vary beyond what is waited for: HyStart bears an eighth of the round trip, and 16 ms at most.
const HARMLESS: i64 = 12_000_000;

/// Mean and mean deviation.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    mean: i64,
    deviation: i64,
    samples: i64,
    /// The last samples that are alike: how many, the least and the most of them.
    alike: (i64, i64, i64),
}

impl Spread {
    /// The value is of another time than the deviation, if so many before it are like it. Then nothing counts but what comes from it on.
    fn is_anew(&mut self, value: i64) -> bool {
        let (count, least, most) = self.alike;
        let (least, most) = (least.min(value), most.max(value));
        let alike = count > 0 && most.saturating_sub(least) < self.deviation / 4;
        self.alike = if alike { (count + 1, least, most) } else { (1, value, value) };
        let anew = self.alike.0 >= FEW && value < self.mean;
        if anew {
            let (_, least, most) = self.alike;
            (self.mean, self.deviation, self.samples) = (value, most.saturating_sub(least), SAMPLES);
        }
        anew
    }

    /// One more; what is usual, or the value itself as long as there are few.
    fn add(&mut self, value: i64) -> i64 {
        self.samples = (self.samples + 1).min(SAMPLES);
        if self.samples == 1 {
            self.mean = value;
        }
        let off = value.saturating_sub(self.mean);
        self.mean = self.mean.saturating_add(off / self.samples);
        self.deviation += (off.saturating_abs() - self.deviation) / self.samples;
        if self.samples < FEW {
            return value;
        }
        let times = |n| self.deviation.saturating_mul(n);
        self.mean.saturating_add((times(MANY) - HARMLESS).max(times(ENOUGH)))
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
    /// Packets in a row, each of which left close behind the one before.
    row: u32,
    /// When one that followed another closely was a sample.
    followed: Option<Time>,
    /// When the window of `most` began, and whether a sample of it met no queue.
    began: Time,
    clear: bool,
    /// Windows in a row of which none did.
    hidden: u8,
    /// What was usual may be no more.
    doubted: bool,
    /// The transit of which a queue is the reason at most, and when the last packet came.
    queued: i64,
    came: Time,
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
        let after = left.saturating_sub(core::mem::replace(&mut self.left, left));
        self.row = if after < ALONE { self.row.saturating_add(1) } else { 0 };
        let close = self.row >= ROW;
        let since = now.since(core::mem::replace(&mut self.came, now)).as_nanos() as i64;
        self.queued = if self.least().is_none() { transit } else { transit.min(self.queued.saturating_add(since)) };
        let sample = self.least().is_none() || now.since(self.sampled) >= PAUSE;
        self.least[1] = Some(self.least[1].map_or(transit, |least| least.min(transit)));
        if sample {
            self.sample(now, transit, close);
        }
        sample
    }

    /// Whether packets followed each other closely lately.
    fn is_beside_traffic(&self, now: Time) -> bool {
        self.followed.is_some_and(|followed| now.since(followed) < BESIDE)
    }

    fn sample(&mut self, now: Time, mut transit: i64, close: bool) {
        self.sampled = now;
        if now.since(self.began) >= MEMORY {
            let [before, most] = self.most;
            self.hidden = if self.clear { 0 } else { self.hidden.saturating_add(1) };
            self.most = [if (1..HIDDEN).contains(&self.hidden) { most.max(before) } else { most.or(before) }, None];
            (self.began, self.clear) = (now, false);
        }
        let beside = !close && self.is_beside_traffic(now);
        let queue = self.queued.saturating_sub(self.least().unwrap_or(self.queued)).max(0);
        self.clear |= queue < STEADY || !close && !beside;
        if beside && queue >= STEADY {
            // What it would have taken without traffic is not known.
            return;
        }
        if close || beside {
            transit = transit.saturating_sub(queue);
        }
        if close {
            self.followed = Some(now);
        }
        let least = self.least().unwrap_or(transit);
        let spread = &mut self.spread[usize::from(close)];
        if self.doubted && spread.is_anew(transit) {
            (self.most, self.doubted) = ([None; 2], false);
        }
        let usual = spread.add(transit);
        if beside && usual.max(transit).saturating_sub(least) > FAR {
            return;
        }
        // Of packets that come close together this one shows what they take, while their mean may just be moving.
        let usual = if close { usual.min(transit) } else { usual };
        self.most[1] = Some(self.most[1].map_or(usual, |most| most.max(usual)));
    }

    /// The channel is used again after it was not: what was usual of it may be no more.
    pub(crate) fn doubt(&mut self) {
        self.doubted = true;
    }

    /// A new window begins.
    pub(crate) fn turn(&mut self) {
        self.least = [self.least[1].or(self.least[0]), None];
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
    fn three_deviations_are_waited_for_and_of_a_fourth_and_a_fifth_what_is_more_than_hystart_bears() {
        // Two values in turn, so that the mean deviation is half of what they differ by; in ms above the least one.
        let usual = |differ: u64| {
            let mut transit = Transit::default();
            for n in 0..1000 {
                let took = 50 + differ * (n % 2);
                transit.add(Time::from_millis(100 * n + took), (took * 1_000_000) as i64);
            }
            transit.usual().unwrap() as f64 / 1e6 - 50.0
        };
        // 2, 6 and 20 ms of deviation around the mean, which a sample moves a little.
        for (differ, expected) in [(4, 8.0), (12, 24.0), (40, 108.0)] {
            let usual = usual(differ);
            assert!((usual - expected).abs() < 1.5, "{usual} ms in place of {expected}");
        }
    }

    #[test]
    fn what_a_path_took_while_it_was_longer_is_forgotten_after_eight_samples_once_it_is_used_again() {
        let mut transit = Transit::default();
        let usual = |transit: &mut Transit, from: u64, until: u64, took: u64| {
            for at in (from..until).step_by(100) {
                transit.add(Time::from_millis(at), (took * 1_000_000) as i64);
            }
            transit.usual().unwrap() / 1_000_000
        };
        assert_eq!(usual(&mut transit, 0, 10_000, 20), 20);
        assert!((1020..3000).contains(&usual(&mut transit, 10_000, 20_000, 1020)));
        let mut known = transit;
        transit.doubt();
        assert!(usual(&mut transit, 20_000, 20_700, 20) > 1000, "seven samples");
        assert_eq!(usual(&mut transit, 20_700, 20_800, 20), 20);
        assert_eq!(usual(&mut transit, 20_800, 40_000, 20), 20);
        assert!(usual(&mut known, 20_000, 25_000, 20) > 500, "that of a path that nobody doubts");
    }

    #[test]
    fn a_queue_that_grows_and_goes_is_no_jitter() {
        // A packet each 2 ms, over a link that stands still for a second or carries a third for two, and then what waits twice as fast.
        for slow in [0.0, 1.0 / 3.0] {
            let (mut transit, mut free, mut most) = (Transit::default(), 0.0f64, 0);
            for n in 0..5000 {
                let left = f64::from(n) * 2.0;
                let begins: f64 = free.max(left);
                let takes = match begins {
                    3000.0..4000.0 if slow == 0.0 => 4000.0 - begins,
                    3000.0..5000.0 if slow > 0.0 => 2.0 / slow,
                    _ => 1.0,
                };
                free = begins + takes;
                let took = free + 50.0 - left;
                transit.add(Time::from_nanos(((free + 50.0) * 1e6) as u64), (took * 1e6) as i64);
                most = most.max((took * 1e6) as i64);
                let usual = transit.usual().unwrap() - transit.least().unwrap();
                assert!(usual < 20_000_000, "{usual} ns at {left} ms, where packets waited {most}");
            }
            assert!(most > 700_000_000, "the check sees a queue: {most}");
        }
    }

    #[test]
    fn what_goes_alone_beside_traffic_and_meets_a_link_that_stands_still_is_no_jitter() {
        // Over 50 ms, each second one packet alone that takes so long, behind half a second of traffic or none.
        let usual = |took: u64, traffic: u64| {
            let (mut transit, mut most) = (Transit::default(), 0);
            for second in 0..60 {
                for n in 0..traffic {
                    transit.add(Time::from_millis(1000 * second + 2 * n + 50), 50_000_000);
                }
                transit.add(Time::from_millis(1000 * second + 600 + took), took as i64 * 1_000_000);
                most = most.max(transit.usual().unwrap() / 1_000_000);
            }
            most
        };
        assert_eq!([usual(50, 250), usual(380, 250), usual(50, 0)], [50; 3]);
        let varied = |transit: &mut Transit, from: u64| {
            for n in from..from + 100 {
                transit.add(Time::from_millis(1000 * n), [50, 90][n as usize % 2] * 1_000_000);
            }
            transit.usual().unwrap() / 1_000_000
        };
        assert!(varied(&mut Transit::default(), 0) > 90, "without traffic that is jitter");
    }

    #[test]
    fn a_queue_that_traffic_left_behind_is_no_jitter_of_what_goes_alone_in_its_pauses() {
        // Over 50 ms, traffic for a second, and in a pause behind it three packets, which in each second time stand in what is left of its queue.
        let usual = |queue: u64| {
            let (mut transit, mut most) = (Transit::default(), 0);
            for second in 0..60 {
                let queue = if second % 2 == 0 { 0 } else { queue };
                for n in 0..400 {
                    let waits = (queue * n).div_ceil(300).min(queue);
                    transit.add(Time::from_millis(1000 * second + 2 * n + 50 + waits), (50 + waits as i64) * 1_000_000);
                }
                for n in 1..4 {
                    let waits = queue.saturating_sub(4 * n);
                    let came = Time::from_millis(1000 * second + 800 + 20 * n + 50 + waits);
                    transit.add(came, (50 + waits as i64) * 1_000_000);
                }
                most = most.max(transit.usual().unwrap() / 1_000_000);
            }
            most
        };
        assert_eq!([0, 15, 25, 40].map(usual), [50; 4]);
    }

    #[test]
    fn packets_that_go_alone_show_jitter_whole_and_those_close_together_no_more() {
        for seed in 0..5 {
            let (alone, close) = (usual(20.0, 100.0, seed), usual(20.0, 0.2, seed));
            assert!((100.0..150.0).contains(&alone) && close <= alone, "{alone:.0} and {close:.0} ms");
        }
        assert_eq!([usual(0.0, 10.0, 1), usual(0.0, 0.2, 1)].map(f64::round), [50.0; 2]);
        assert!(usual(0.5, 100.0, 1) < 50.0, "what varies by less than HyStart sees is not waited for");
    }

    /// What is usual in ms, at most and at least from the tenth second on, of a link of 100 ms that keeps order, where a packet's own delay is spread
    /// by 15 ms: one goes each `gap` ms, and each `every` seconds `close` more, 6 ms apart.
    fn beside(gap: u32, close: u32, every: u32, seed: u64) -> [i64; 2] {
        let (mut transit, mut rng, mut last) = (Transit::default(), Rng::new(seed), 0.0f64);
        let mut send = |transit: &mut Transit, at: f64| {
            let normal: f64 = (0..12).map(|_| rng.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0;
            last = (at + 100.0 + 15.0 * normal).max(last);
            transit.add(Time::from_nanos((last * 1e6) as u64), ((last - at) * 1e6) as i64);
        };
        let mut seen = [i64::MIN, i64::MAX];
        for at in (0..60_000).step_by(gap as usize) {
            send(&mut transit, f64::from(at));
            if at % (1000 * every) == 0 {
                (1..=close).for_each(|n| send(&mut transit, f64::from(at + 6 * n)));
            }
            if at > 10_000 {
                let usual = transit.usual().unwrap() / 1_000_000;
                seen = [seen[0].max(usual), seen[1].min(usual)];
            }
        }
        seen
    }

    #[test]
    fn a_few_packets_close_together_are_no_traffic_and_show_jitter_as_those_that_go_alone_do() {
        for seed in 0..10 {
            let ([most, least], [_, alone]) = (beside(20, 2, 1, seed), beside(20, 0, 1, seed));
            assert!(least >= alone - 8 && most <= alone + 16, "{least} to {most} ms, {alone} alone");
        }
    }

    #[test]
    fn jitter_of_what_goes_alone_beside_traffic_is_not_made_longer_by_taking_it_for_a_queue() {
        for seed in 0..10 {
            let ([most, least], [alone, _]) = (beside(100, 12, 2, seed), beside(100, 0, 1, seed));
            assert!(most <= alone + 14, "{least} to {most} ms, {alone} alone");
        }
    }

    #[test]
    fn what_was_usual_is_forgotten_and_moves_with_the_clocks() {
        let mut transit = Transit::default();
        let mut at = Time::ZERO;
        let mut feed = |transit: &mut Transit, samples: usize, values: [i64; 2]| {
            for n in 0..samples {
                at += PAUSE.times(20);
                transit.add(at, values[n % 2] * 1_000_000);
            }
        };
        feed(&mut transit, 1000, [10, 50]);
        let varied = transit.usual().unwrap() / 1_000_000;
        assert!((90..140).contains(&varied), "{varied}");
        transit.shift(7_000_000);
        assert_eq!((transit.least(), transit.usual().unwrap() / 1_000_000), (Some(17_000_000), varied + 7));
        for (samples, forgotten) in [(10, false), (990, true)] {
            feed(&mut transit, samples, [17, 17]);
            assert_eq!(transit.usual() == Some(17_000_000), forgotten, "after {samples} more");
        }
        transit.turn();
        assert_eq!(transit.least(), Some(17_000_000));
    }

    #[test]
    fn what_was_usual_before_a_queue_stood_is_kept_for_as_long_as_it_stands() {
        let (mut transit, mut rng) = (Transit::default(), Rng::new(3));
        // A link of 50 ms with jitter up to 40 ms, one packet each 20 ms; then 500 a second behind a queue of 300 ms, which hides all of that.
        let mut last = 0.0f64;
        let mut send = |transit: &mut Transit, at: f64, queue: f64| {
            let jitter = 40.0 * rng.next_u64() as f64 / u64::MAX as f64;
            last = (at + 50.0 + queue + jitter).max(last);
            transit.add(Time::from_nanos((last * 1e6) as u64), ((last - at) * 1e6) as i64);
        };
        (0..500).for_each(|n| send(&mut transit, f64::from(n) * 20.0, 0.0));
        let before = transit.usual().unwrap_or_default();
        assert!(before > 80_000_000, "{before}");
        (0..5_000).for_each(|n| send(&mut transit, 10_000.0 + f64::from(n) * 2.0, (f64::from(n) * 2.0).min(300.0)));
        assert!(transit.usual() >= Some(before / 10 * 9), "{:?} after {before}", transit.usual());
        // Without the queue what is seen counts again: nothing varies any more.
        let mut free = transit;
        (0..500).for_each(|n| {
            let at = 21_000.0 + f64::from(n) * 20.0;
            free.add(Time::from_nanos(((at + 50.0) * 1e6) as u64), 50_000_000);
        });
        let after = free.usual().unwrap_or_default();
        assert!(after < before - 20_000_000, "{after} after {before}");
        // And a queue that stands for longer than half a minute is believed at last.
        (0..15_000).for_each(|n| send(&mut transit, 20_000.0 + f64::from(n) * 2.0, 300.0));
        let after = transit.usual().unwrap_or_default();
        assert!(after < before - 20_000_000, "{after} after {before}");
    }

    #[test]
    fn what_goes_alone_has_no_queue_before_it_so_that_what_it_took_once_is_forgotten() {
        let mut transit = Transit::default();
        // One each second: 50 ms at least, then 80 for ten seconds, and then never less than 60.
        let mut send = |n: u64, took: u64| {
            transit.add(Time::from_millis(1000 * n + took), took as i64 * 1_000_000);
            transit.usual().unwrap_or_default()
        };
        (0..10).for_each(|n| _ = send(n, 50));
        let late = (10..20).map(|n| send(n, 80)).max();
        assert!(late >= Some(80_000_000), "{late:?}");
        let after = (20..200).map(|n| send(n, 60)).last();
        assert!(after < Some(70_000_000), "{after:?}");
    }
}
