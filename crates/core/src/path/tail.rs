//! When the end of what was sent on a path is to be asked after, where frames that are lost are sent again.
//!
//! What it is: the next frames show a loss, but the last ones have no next, and a path that is dead shows nothing at all. So where
//! the peer tells nothing for a timeout although something is under way, a probe goes; and where the probe is not told of either, for
//! half of that again or 50 ms, the path is mute: what is under way there is lost. While a train that measures the path is seen it is not:
//! data and reports wait behind that.
//!
//! Source: RFC 9002 section 6.2 (the probe timeout), RFC 6298 (its estimator), RFC 8985 section 7 (tail loss probe). Departure: no
//! back-off, since a mute path is left at the second timeout.
//!
//! Cost: O(1). Invariant: a probe goes at most once until something is told.

use super::receipts::REPORT_WITHIN;
use crate::loss::rtt::{self, Rtt};
use crate::units::{Span, Time};

/// Least time until a probe.
const LEAST: Span = Span::from_millis(10);
/// The time before anything is known of the path: RFC 6298's. A satellite in a geostationary orbit answers after 0.6 s.
const FIRST: Span = Span::from_secs(1);
/// How long the probe may take to be told of, in addition: half of that time again, or this.
const PATIENCE: Span = Span::from_millis(50);
/// Most time, however slow the path.
const MOST: Span = Span::from_secs(3);

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing.
    Nothing,
    /// A frame is to show what arrived.
    Probe,
    /// All that is under way is lost, unless nothing arrived anywhere since the probe went.
    Mute(Time),
}

/// The state of one path.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    rtt: Rtt,
    /// When the peer last told something new.
    told: Time,
    /// When the probe went.
    probed: Option<Time>,
    /// How long it may take, at most.
    patience: Span,
    /// When a train that measures the path was last seen.
    train: Option<Time>,
}

impl Tail {
    /// A path of which nothing is known; `prompt`: nor is the probe waited for long.
    pub(crate) fn new(prompt: bool) -> Tail {
        let config = rtt::Config { initial: FIRST, minimum: LEAST, maximum: MOST, ..rtt::Config::default() };
        let patience = if prompt { PATIENCE } else { Span::MAX };
        Tail { rtt: Rtt::new(&config), told: Time::ZERO, probed: None, patience, train: None }
    }

    /// A round trip was measured.
    #[inline]
    pub(crate) fn on_rtt(&mut self, rtt: Span) {
        self.rtt.on_sample(rtt);
    }

    /// The peer told of frames.
    #[inline]
    pub(crate) fn on_told(&mut self, now: Time) {
        (self.told, self.probed) = (now, None);
    }

    /// A frame of a train that measures the path arrived, or is answered.
    pub(crate) fn on_train_frame(&mut self, now: Time) {
        self.train = Some(now);
    }

    /// How old a number has to be that others overtook, to be lost: RFC 9002 section 6.1.2.
    #[inline]
    pub(crate) fn overdue(&self) -> Span {
        let rtt = self.rtt.smoothed();
        self.rtt.timeout().max(rtt + Span::from_nanos(rtt.as_nanos() / 8)) + REPORT_WITHIN
    }

    /// The round trip, with how much it varies.
    pub(crate) fn round_trip(&self) -> Span {
        self.rtt.timeout()
    }

    /// When something is due; `oldest`: when the oldest frame went that is under way.
    #[inline]
    pub(crate) fn timeout(&self, oldest: Time) -> Time {
        let wait = self.rtt.timeout() + REPORT_WITHIN;
        match self.probed {
            None => oldest.max(self.told) + wait,
            Some(probed) => probed + Span::from_nanos(wait.as_nanos() / 2).min(self.patience),
        }
    }

    /// This process did not run for a while: the silence begins anew.
    pub(crate) fn on_late(&mut self, now: Time) {
        (self.told, self.probed) = (now, None);
    }

    /// What is due at `now`.
    pub(crate) fn poll(&mut self, now: Time, oldest: Time) -> Due {
        if self.timeout(oldest) > now {
            return Due::Nothing;
        }
        match self.probed.take() {
            None => {
                self.probed = Some(now);
                Due::Probe
            }
            Some(probed) => {
                self.told = now;
                let waits = self.train.is_some_and(|seen| now.since(seen) < self.rtt.timeout() + REPORT_WITHIN);
                if waits { Due::Nothing } else { Due::Mute(probed) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;

    #[test]
    fn silence_asks_once_and_then_the_path_is_mute() {
        let mut tail = Tail::new(true);
        for _ in 0..50 {
            tail.on_rtt(Span::from_millis(40));
        }
        tail.on_told(MS(1000));
        // The round trip, a granule of the clock, and the time that a report may take.
        assert_eq!(tail.timeout(MS(990)), MS(1046));
        assert_eq!((tail.poll(MS(1045), MS(990)), tail.poll(MS(1046), MS(990))), (Due::Nothing, Due::Probe));
        assert_eq!((tail.poll(MS(1068), MS(990)), tail.poll(MS(1069), MS(990))), (Due::Nothing, Due::Mute(MS(1046))));
        assert_eq!(tail.poll(MS(1070), MS(990)), Due::Nothing);
    }

    #[test]
    fn behind_a_train_the_path_is_not_mute_and_soon_after_it_may_be() {
        let mut tail = Tail::new(true);
        tail.on_rtt(Span::from_millis(40));
        let mut at = MS(0);
        let mut mute = |tail: &mut Tail| {
            let due = [(); 2].map(|()| {
                at = tail.timeout(MS(0));
                tail.poll(at, MS(0))
            });
            (matches!(due, [Due::Probe, Due::Mute(_)]), at)
        };
        let (is_mute, now) = mute(&mut tail);
        assert!(is_mute);
        tail.on_train_frame(now + Span::from_millis(100));
        assert!(!mute(&mut tail).0);
        assert!(mute(&mut tail).0, "no more of it is seen");
    }

    #[test]
    fn what_is_told_takes_the_probe_back() {
        let mut tail = Tail::new(true);
        tail.on_rtt(Span::from_millis(40));
        let due = tail.timeout(MS(0));
        assert_eq!(tail.poll(due, MS(0)), Due::Probe);
        tail.on_told(due);
        assert_eq!(tail.poll(due + Span::from_millis(30), MS(0)), Due::Nothing);
    }
}
