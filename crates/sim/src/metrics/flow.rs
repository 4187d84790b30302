//! One flow's numbers: packets and bytes, delay, and what else was asked for.
//!
//! Only packets from the flow's sender to its receiver count. Without details a packet costs a few additions.

use super::Metrics;
use super::jitter::Jitter;
use super::reordering::Reordering;
use super::spread::Spread;
use crate::results::FlowResult;
use crate::tcp::segment::Segment;
use fairspan_core::units::{Span, Time};

/// Accumulates one flow's metrics. What was sent its sender knows, which numbers packets.
#[derive(Clone, Debug)]
pub struct FlowMeter {
    dropped: u64,
    received: u64,
    /// IP bytes that arrived.
    bytes: u64,
    /// Payload bytes that the application got.
    goodput: u64,
    /// When it got the last of it, and the longest time between two deliveries, in microseconds: both fit the meter's two lines of the cache.
    /// The first counts modulo 71 minutes; zero: it got nothing yet.
    got: u32,
    gap: u32,
    details: Option<Box<Details>>,
    delay: Spread,
}

#[derive(Clone, Debug)]
struct Details {
    jitter: Option<Jitter>,
    reordering: Option<Reordering>,
    failover: Option<Failover>,
}

/// How long deliveries stop once something has failed.
#[derive(Clone, Copy, Debug)]
struct Failover {
    /// When the first outage begins.
    first: Time,
    /// The last delivery.
    last: Option<Time>,
    worst: Option<Span>,
}

impl Failover {
    #[inline]
    fn handle_delivery(&mut self, now: Time) {
        self.handle_end(now);
        self.last = Some(now);
    }

    /// Nothing came since the last delivery: what was under way when the outage began counts from there.
    fn handle_end(&mut self, now: Time) {
        if let Some(last) = self.last.filter(|_| now > self.first) {
            let gap = now.since(last.max(self.first));
            self.worst = Some(self.worst.map_or(gap, |worst| worst.max(gap)));
        }
    }
}

impl FlowMeter {
    /// Measures what `metrics` asks for, and how long deliveries stop where the scenario's first outage begins at `outage`.
    pub fn new(metrics: &Metrics, outage: Option<Time>) -> FlowMeter {
        let details = Details {
            jitter: metrics.delay.then(Jitter::new),
            reordering: metrics.reordering.then(Reordering::new),
            failover: outage.map(|first| Failover { first, last: None, worst: None }),
        };
        FlowMeter {
            received: 0,
            dropped: 0,
            bytes: 0,
            goodput: 0,
            got: 0,
            gap: 0,
            delay: Spread::new(metrics.delay),
            details: (metrics.delay || metrics.reordering || outage.is_some()).then(|| Box::new(details)),
        }
    }

    /// The warm-up is over.
    pub fn begin(&mut self) {
        (self.received, self.dropped, self.bytes, self.goodput) = (0, 0, 0, 0);
        (self.got, self.gap) = (0, 0);
        self.delay.clear();
        if let Some(details) = &mut self.details {
            details.jitter.as_mut().map(Jitter::begin);
            details.reordering.as_mut().map(Reordering::begin);
        }
    }

    /// What was dropped in another part of the world.
    pub fn absorb_drops(&mut self, other: &FlowMeter) {
        self.dropped += other.dropped;
    }

    /// A packet was dropped.
    #[inline]
    pub fn handle_dropped(&mut self) {
        self.dropped += 1;
    }

    /// The application got `bytes` of payload.
    #[inline]
    pub fn handle_goodput(&mut self, now: Time, bytes: u64) {
        self.goodput += bytes;
        if let Some(failover) = self.details.as_mut().and_then(|details| details.failover.as_mut()) {
            failover.handle_delivery(now);
        }
        let now = ((now.as_nanos() / 1000) as u32).max(1);
        let before = core::mem::replace(&mut self.got, now);
        if before != 0 {
            self.gap = self.gap.max(now.wrapping_sub(before));
        }
    }

    /// The flow had more to deliver until `end`, when it was over or the run was.
    pub fn handle_end(&mut self, end: Time) {
        if let Some(failover) = self.details.as_mut().and_then(|details| details.failover.as_mut()) {
            failover.handle_end(end);
        }
    }

    /// A datagram of `size` IP bytes arrived, the flow's `number`-th (from 0), sent at `created`. Its payload counts
    /// separately ([`FlowMeter::handle_goodput`]).
    #[inline(always)]
    pub fn handle_datagram(&mut self, now: Time, created: Time, number: u64, size: u32) {
        self.handle_arrival(now, created, size);
        if let Some(details) = &mut self.details {
            details.handle_transit(now, created);
            if let Some(reordering) = &mut details.reordering {
                reordering.handle_datagram(now, number, size);
            }
        }
    }

    /// As [`FlowMeter::handle_datagram`], for a segment of the flow's connection with this number.
    #[inline]
    pub fn handle_segment(
        &mut self,
        now: Time,
        created: Time,
        number: u64,
        size: u32,
        connection: u32,
        segment: &Segment,
    ) {
        self.handle_arrival(now, created, size);
        if let Some(details) = &mut self.details {
            details.handle_transit(now, created);
            if let Some(reordering) = &mut details.reordering {
                reordering.handle_segment(now, number, size, connection, segment);
            }
        }
    }

    #[inline]
    fn handle_arrival(&mut self, now: Time, created: Time, size: u32) {
        self.received += 1;
        self.bytes += u64::from(size);
        self.delay.add(now.since(created).as_nanos());
    }

    /// IP bytes that arrived so far: what a series of throughput is made of.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether percentiles of the delay were asked for.
    pub fn wants_percentiles(&self) -> bool {
        self.delay.has_percentiles()
    }

    /// Payload bytes so far.
    pub fn goodput_bytes(&self) -> u64 {
        self.goodput
    }

    /// The result of a measurement of this length, in which the sender sent `sent` packets. TCP and transfers are the
    /// caller's to add.
    pub fn result(&self, name: &str, measured: Span, sent: u64) -> FlowResult {
        let seconds = measured.as_secs_f64();
        let rate = |bytes: u64| if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        let jitter = self.details.as_ref().and_then(|details| details.jitter.as_ref());
        let reordering = self.details.as_ref().and_then(|details| details.reordering.as_ref());
        FlowResult {
            name: name.to_owned(),
            sent,
            received: self.received,
            dropped: self.dropped,
            throughput: rate(self.bytes),
            goodput: rate(self.goodput),
            gap: f64::from(self.gap) / 1e6,
            delay: self.delay.summary(1e9),
            jitter: jitter.map(Jitter::distribution).unwrap_or_default(),
            jitter_estimate: jitter.map(Jitter::estimate),
            reordering: reordering.map(Reordering::result).map(Box::new),
            tcp: None,
            transfers: None,
            video: None,
            call: None,
            game: None,
            failover: self.details.as_ref().and_then(|details| details.failover?.worst).map(Span::as_secs_f64),
        }
    }
}

impl Details {
    fn handle_transit(&mut self, now: Time, created: Time) {
        if let Some(jitter) = &mut self.jitter {
            jitter.handle_packet(now.since(created).as_nanos());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(metrics: Metrics) -> FlowMeter {
        let mut meter = FlowMeter::new(&metrics, None);
        for number in 0..10 {
            if number % 3 == 2 {
                meter.handle_dropped();
            } else {
                let (created, now) = (Time::from_millis(10 * number), Time::from_millis(10 * number + 5 + number));
                meter.handle_datagram(now, created, number, 1000);
                meter.handle_goodput(now, 972);
            }
        }
        meter
    }

    #[test]
    fn rates_are_bits_over_the_measured_time_and_delays_are_in_seconds() {
        let result = meter(Metrics::default()).result("f", Span::from_millis(500), 10);
        assert_eq!((result.sent, result.received, result.dropped), (10, 7, 3));
        assert_eq!((result.throughput, result.goodput), (112_000.0, 108_864.0));
        assert!((result.gap - 0.022).abs() < 1e-12, "one was lost between: {}", result.gap);
        assert_eq!((result.delay.min, result.delay.max), (0.005, 0.014));
        assert!((result.delay.mean - (0.005 + 30.0 / 7.0 / 1000.0)).abs() < 1e-15, "{}", result.delay.mean);
        assert_eq!((result.delay.percentiles, result.reordering, result.jitter_estimate), (None, None, None));
    }

    #[test]
    fn details_are_there_when_they_were_asked_for() {
        let result = meter(Metrics { delay: true, reordering: true, ..Metrics::default() }).result("f", Span::ZERO, 10);
        let percentiles = result.delay.percentiles.expect("asked for");
        assert!((percentiles.p50 / 0.009 - 1.0).abs() < 0.01 && (percentiles.p999 / 0.014 - 1.0).abs() < 0.01);
        assert_eq!(result.jitter.count, 6);
        assert!(result.jitter_estimate.is_some());
        // Losses are no reordering.
        assert_eq!(result.reordering.map(|r| (r.ratio, r.below_highest, r.density)), Some((0.0, 0.0, vec![(0, 1.0)])));
        assert_eq!(result.throughput, 0.0);
    }

    #[test]
    fn begin_forgets_what_was_counted() {
        let mut meter = meter(Metrics { delay: true, reordering: true, ..Metrics::default() });
        meter.begin();
        assert_eq!((meter.bytes(), meter.goodput_bytes()), (0, 0));
        let result = meter.result("f", Span::from_secs(1), 0);
        let expected = FlowMeter::new(&Metrics { delay: true, reordering: true, ..Metrics::default() }, None);
        let expected = expected.result("f", Span::from_secs(1), 0);
        assert_eq!(
            (result.delay, result.jitter, result.reordering),
            (expected.delay, expected.jitter, expected.reordering)
        );
        assert_eq!((result.throughput, result.goodput, result.gap), (0.0, 0.0, 0.0));
    }

    #[test]
    fn a_failover_lasts_from_the_outage_or_the_last_delivery_after_it_to_the_next_one() {
        let of = |deliveries: &[u64], end: Option<u64>| {
            let mut meter = FlowMeter::new(&Metrics::default(), Some(Time::from_millis(100)));
            deliveries.iter().for_each(|&ms| meter.handle_goodput(Time::from_millis(ms), 1));
            end.into_iter().for_each(|ms| meter.handle_end(Time::from_millis(ms)));
            meter.result("f", Span::from_secs(1), 0).failover
        };
        assert_eq!(of(&[10, 80, 130, 131], None), Some(0.03), "from the outage on");
        assert_eq!(of(&[10, 99, 104, 164, 170], None), Some(0.06), "what was under way still came");
        assert_eq!(of(&[10, 70, 90], None), None, "before the outage nothing counts");
        assert_eq!(of(&[10, 90], Some(400)), Some(0.3), "it never came back");
        assert_eq!(of(&[150, 160], None), Some(0.01), "who begins later was not hit");
        assert_eq!(of(&[], Some(400)), None);
    }
}
