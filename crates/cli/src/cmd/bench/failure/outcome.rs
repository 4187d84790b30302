//! What an application saw of one run, from when everything arrived.

use crate::measure::call::{self, Recording};
use crate::measure::tcp::Read;
use std::time::{Duration, Instant};

/// Before it happens: what counts as the usual rate.
const BEFORE: Duration = Duration::from_secs(2);
/// After the end: what does not count yet.
const SETTLES: Duration = Duration::from_secs(1);
/// A packet of a call that took longer is of no use (ITU-T G.114).
pub(super) const LATE: Duration = Duration::from_millis(150);
/// A link is in use in such a time where it brings half of what it brought before.
const IN_USE: Duration = Duration::from_millis(100);

/// What was recorded of a run.
pub(super) struct Record {
    pub(super) reads: Vec<Read>,
    pub(super) call: Option<Recording>,
    /// Bytes that the link in question had brought, from time to time.
    pub(super) carried: Vec<(Instant, u64)>,
    /// When it happened, when all was well again, and until when there was load.
    pub(super) happened: Instant,
    pub(super) ended: Instant,
    pub(super) over: Instant,
    /// The part of the processors' time that was in use.
    pub(super) processors: f64,
}

/// What became of a run. Times in milliseconds, rates in Mbit/s of application data.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) tcp_gap_ms: f64,
    pub(super) before_mbit: f64,
    /// `None` where it lasts no time.
    pub(super) during_mbit: Option<f64>,
    pub(super) after_mbit: f64,
    pub(super) call: Option<CallSeen>,
    /// From the end until the link was in use again, if it was.
    pub(super) in_use_ms: Option<f64>,
    pub(super) processors: f64,
}

/// What became of the call from the moment on in which it happened.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CallSeen {
    pub(super) packets: usize,
    pub(super) lost: usize,
    pub(super) late: usize,
    pub(super) gap_ms: f64,
}

impl Record {
    /// Works out what was seen.
    pub(super) fn seen(&self) -> Seen {
        let rate = |from: Instant, until: Instant| {
            let bytes: usize = self.reads.iter().filter(|r| (from..until).contains(&r.at)).map(|r| r.bytes).sum();
            bytes as f64 * 8e-6 / (until - from).as_secs_f64()
        };
        let arrivals = self.reads.iter().map(|read| read.at);
        Seen {
            tcp_gap_ms: self.gap(arrivals),
            before_mbit: rate(self.happened - BEFORE, self.happened),
            during_mbit: (self.ended > self.happened).then(|| rate(self.happened, self.ended)),
            after_mbit: rate(self.ended + SETTLES, self.over),
            call: self.call.as_ref().map(|call| self.call(call)),
            in_use_ms: self.in_use_again(),
            processors: self.processors,
        }
    }

    /// The longest time between two arrivals, from the last before it happened until the load was over, in milliseconds.
    fn gap(&self, arrivals: impl Iterator<Item = Instant>) -> f64 {
        let mut last = None;
        let mut longest = Duration::ZERO;
        for at in arrivals.filter(|at| *at < self.over) {
            if at >= self.happened {
                longest = longest.max(at - last.unwrap_or(self.happened));
            }
            last = Some(at);
        }
        longest = longest.max(self.over - last.map_or(self.happened, |last: Instant| last.min(self.over)));
        millis(longest)
    }

    fn call(&self, call: &Recording) -> CallSeen {
        let sent = |number: usize| call.start + call::EVERY * u32::try_from(number).unwrap_or(u32::MAX);
        let counted: Vec<_> = (0..call.packets.len())
            .filter(|&number| (self.happened..self.over).contains(&sent(number)))
            .map(|number| call.packets[number])
            .collect();
        let late = counted.iter().flatten().filter(|packet| packet.took > LATE).count();
        let mut arrivals: Vec<Instant> =
            call.packets.iter().flatten().map(|packet| call.start + packet.left + packet.took).collect();
        arrivals.sort_unstable();
        let lost = counted.iter().filter(|packet| packet.is_none()).count();
        CallSeen { packets: counted.len(), lost, late, gap_ms: self.gap(arrivals.into_iter()) }
    }

    /// From the end until the link has brought half of what it brought before, for a tenth of a second.
    fn in_use_again(&self) -> Option<f64> {
        let by = |at: Instant| self.carried.iter().rev().find(|(sample, _)| *sample <= at).map(|(_, bytes)| *bytes);
        let usual = by(self.happened)?.saturating_sub(by(self.happened - BEFORE)?) as f64 / BEFORE.as_secs_f64();
        let enough = usual * IN_USE.as_secs_f64() / 2.0;
        let later = self.carried.iter().filter(|(at, _)| *at >= self.ended + IN_USE && *at < self.over);
        let used = |(at, bytes): &&(Instant, u64)| {
            by(*at - IN_USE).is_some_and(|before| bytes.saturating_sub(before) as f64 >= enough && enough > 0.0)
        };
        later.into_iter().find(used).map(|(at, _)| millis(*at - self.ended))
    }
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::call::Packet;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// It happens after 5 s and lasts 2 s; the load is over after 10 s. A read of 1250 bytes every 10 ms, so 1 Mbit/s, but for these
    /// times; the link brings as much, but for those.
    fn record(unread: std::ops::Range<u64>, uncarried: std::ops::Range<u64>) -> Record {
        let start = Instant::now();
        let at = |ms: u64| start + MS(ms);
        let mut bytes = 0;
        let carried = (0..1000).map(|n| {
            bytes += if uncarried.contains(&(n * 10)) { 0 } else { 1250 };
            (at(n * 10), bytes)
        });
        let reads =
            (0..1000).map(|n| n * 10).filter(|ms| !unread.contains(ms)).map(|ms| Read { at: at(ms), bytes: 1250 });
        let packet = |n: u64| match n {
            260..300 => None,
            n => Some(Packet { left: MS(20 * n), took: MS(if n == 310 { 200 } else { 30 }) }),
        };
        let call = Recording { start, packets: (0..500).map(packet).collect() };
        Record {
            carried: carried.collect(),
            reads: reads.collect(),
            call: Some(call),
            happened: at(5000),
            ended: at(7000),
            over: at(10_000),
            processors: 0.5,
        }
    }

    #[test]
    fn gaps_rates_losses_and_the_return_are_those_of_what_arrived() {
        let seen = record(5500..6500, 5000..7400).seen();
        assert_eq!(
            (seen.tcp_gap_ms, seen.before_mbit, seen.during_mbit, seen.after_mbit),
            (1010.0, 1.0, Some(0.5), 1.0)
        );
        let call = seen.call.unwrap();
        // 260 to 299 are lost; 310 comes 200 ms after it left.
        assert_eq!((call.packets, call.lost, call.late, call.gap_ms), (250, 40, 1, 820.0));
        // Half of a tenth of a second's worth is there after 50 ms.
        assert_eq!(seen.in_use_ms, Some(440.0));
    }

    #[test]
    fn what_never_comes_again_is_a_gap_to_the_end_and_no_return() {
        let mut record = record(6000..10_000, 5000..10_000);
        record.ended = record.happened;
        let seen = record.seen();
        assert_eq!((seen.tcp_gap_ms, seen.during_mbit, seen.in_use_ms), (4010.0, None, None));
    }
}
