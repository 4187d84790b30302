//! Ten senders over one bottleneck, against what known simulators give for it.
//!
//! Access 10 Mbit/s and 1 ms, bottleneck 2 Mbit/s and 8 ms with a drop-tail buffer of 25,000 bytes, round trip 20 ms,
//! backlogged senders. ns-2 and ns-3 (Reno) give 1,901 to 1,928 kbit/s of payload in total over 500 s with segments of
//! 1,448 bytes in packets of 1,500, ns-3.48's own default 1,922 to 1,927, Jain's index at least 0.998.

use fairspan_core::rng::Rng;
use fairspan_core::units::{Span, Time};
use fairspan_sim::tcp::segment::Segment;
use fairspan_sim::tcp::{Config, Connection};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const SENDERS: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet of this sender is at the bottleneck.
    Offer,
    ToReceiver,
    ToSender,
    Timer,
}

/// When, in which order, what, whose, and which segment.
type Scheduled = (Time, u64, Event, usize, usize);

/// Preset, changes to it, and the most that payload can be.
type Case = (&'static str, &'static [(&'static str, &'static str)], f64);

struct Dumbbell {
    now: Time,
    ends: Vec<[Connection; 2]>,
    access_free: Vec<Time>,
    /// The earliest timer event pending.
    armed: Vec<Option<Time>>,
    bottleneck_free: Time,
    events: BinaryHeap<Reverse<Scheduled>>,
    segments: Vec<Segment>,
    order: u64,
}

impl Dumbbell {
    fn new(config: &Config, seed: u64) -> Dumbbell {
        let mut rng = Rng::new(seed);
        let mut dumbbell = Dumbbell {
            now: Time::ZERO,
            ends: vec![],
            access_free: vec![Time::ZERO; SENDERS],
            armed: vec![None; SENDERS],
            bottleneck_free: Time::ZERO,
            events: BinaryHeap::new(),
            segments: vec![],
            order: 0,
        };
        for n in 0..SENDERS {
            dumbbell.ends.push([0, 1].map(|_| Connection::new(config, Time::ZERO, rng.next_u64() as u32)));
            let start = Time::from_nanos(rng.below(1_000_000_000));
            dumbbell.schedule(start, Event::Timer, n, 0);
        }
        dumbbell
    }

    fn schedule(&mut self, at: Time, event: Event, sender: usize, what: usize) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event, sender, what)));
    }

    fn keep(&mut self, segment: Segment) -> usize {
        self.segments.push(segment);
        self.segments.len() - 1
    }

    fn flush(&mut self, n: usize) {
        while let Some(segment) = self.ends[n][0].poll_transmit(self.now) {
            let size = u64::from(self.ends[n][0].header_length(&segment) + segment.length);
            let free = self.access_free[n].max(self.now) + Span::from_nanos(size * 800);
            self.access_free[n] = free;
            let what = self.keep(segment);
            self.schedule(free + Span::from_millis(1), Event::Offer, n, what);
        }
        while let Some(segment) = self.ends[n][1].poll_transmit(self.now) {
            let what = self.keep(segment);
            self.schedule(self.now + Span::from_millis(10), Event::ToSender, n, what);
        }
        let timer = self.ends[n].iter().filter_map(Connection::poll_timeout).min();
        if let Some(at) = timer
            && self.armed[n].is_none_or(|armed| at < armed || armed <= self.now)
        {
            self.armed[n] = Some(at);
            self.schedule(at, Event::Timer, n, 0);
        }
    }

    fn run(&mut self, until: Time) {
        while let Some(Reverse((at, _, event, n, what))) = self.events.pop().filter(|Reverse((at, ..))| *at <= until) {
            self.now = at;
            match event {
                Event::Offer => {
                    let segment = self.segments[what];
                    let size = u64::from(self.ends[n][0].header_length(&segment) + segment.length);
                    let start = self.bottleneck_free.max(at);
                    if start.since(at).as_nanos() / 4000 + size <= 25_000 {
                        self.bottleneck_free = start + Span::from_nanos(size * 4000);
                        self.schedule(self.bottleneck_free + Span::from_millis(9), Event::ToReceiver, n, what);
                    }
                    continue;
                }
                Event::ToReceiver => {
                    let segment = self.segments[what];
                    self.ends[n][1].handle_segment(at, &segment);
                    self.ends[n][1].read(at, u64::MAX);
                }
                Event::ToSender => {
                    let segment = self.segments[what];
                    self.ends[n][0].handle_segment(at, &segment);
                }
                Event::Timer => {
                    if self.armed[n].is_some_and(|armed| armed > at) {
                        continue;
                    }
                    self.armed[n] = None;
                    self.ends[n].iter_mut().for_each(|end| end.handle_timeout(at));
                    if self.ends[n][0].stats().segments_sent == 0 {
                        self.ends[n][1].listen(at);
                        self.ends[n][0].open(at);
                        self.ends[n][0].write(at, u64::MAX);
                    }
                }
            }
            self.flush(n);
        }
    }
}

/// Payload kbit/s in total, and Jain's index.
fn outcome(config: &Config, seed: u64) -> (f64, f64) {
    let mut dumbbell = Dumbbell::new(config, seed);
    dumbbell.run(Time::from_millis(500_000));
    let rates: Vec<f64> = dumbbell.ends.iter().map(|ends| ends[1].delivered() as f64 * 8.0 / 500.0 / 1000.0).collect();
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    (sum, sum * sum / (SENDERS as f64 * squares))
}

#[test]
fn ten_senders_fill_and_share_a_bottleneck_as_in_known_simulators() {
    // Payload is at most 1448/1500 of 2 Mbit/s with timestamps (1931 kbit/s), 1448/1488 without (1946). Below, the known
    // simulators' least figure, 1901. One seed scatters by some thousandths in Jain's index where timeouts count.
    let cases: [Case; 4] = [
        ("rfc", &[("loss", "newreno")], 1931.0),
        ("rfc", &[], 1931.0),
        ("linux", &[], 1931.0),
        ("ns2-1999", &[("mss", "1448"), ("loss", "newreno"), ("rtt_tick", "10ms"), ("rto_minimum", "200ms")], 1946.5),
    ];
    for (preset, changes, most) in cases {
        let mut config = Config::preset(preset).unwrap();
        changes.iter().for_each(|(name, value)| config.set(name, value).unwrap());
        let (total, jain) = outcome(&config, 1);
        assert!(total > 1901.0 && total <= most, "{preset} {changes:?}: {total:.0} kbit/s");
        assert!(jain > 0.995, "{preset} {changes:?}: Jain {jain:.4}");
    }
}
