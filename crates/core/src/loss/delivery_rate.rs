//! The rate of delivery: how fast the network takes what is sent.
//!
//! What it is: an estimate for each acknowledgment of the rate at which data was delivered over about the last round trip. The
//! bytes delivered between the sending of a packet and its acknowledgment are divided by the longer of two times: how long
//! their sending took, and how long their acknowledging took. So neither a burst of sending nor a burst of ACKs makes the rate look higher
//! than it was. Source: draft-cheng-iccrg-delivery-rate-estimation-02, sections 2 and 3; Linux's `tcp_rate.c` is the same.
//!
//! | draft | here |
//! |---|---|
//! | C.delivered, C.delivered_time, C.first_sent_time | `delivered`, `delivered_at`, `first_sent_at` |
//! | C.app_limited | `limited_to` |
//! | P.delivered, P.delivered_time, P.first_sent_time, P.is_app_limited | [`Stamp`] |
//! | P.sent_time, P.data_length | arguments of [`DeliveryRate::on_delivered`] |
//! | rs.delivered, rs.interval, rs.prior_delivered, rs.is_app_limited | [`Sample`] |
//! | MinRTT(tp) | `least` |
//!
//! Departures: the smallest round trip is measured here, of packets that were sent once, and not taken from elsewhere. The
//! caller sees to it that a packet is delivered once (the draft clears P.delivered_time for that). Cost: a few comparisons for each
//! packet sent and each delivered; 32 bytes with each packet under way. Invariant: a sample's rate is at most what was
//! delivered in its interval, by the slower of both ends.

use crate::units::{Bytes, Rate, Span, Time};

/// What a packet remembers of its sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    app_limited: bool,
}

/// What an acknowledgment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Bytes delivered in `interval`.
    pub delivered: Bytes,
    /// The longer of the times that their sending and their acknowledging took.
    pub interval: Span,
    /// All bytes that had been delivered when the newest of the packets was sent: a round is over when this passes what had been
    /// delivered at its beginning.
    pub prior_delivered: Bytes,
    /// When the newest of them was delivered.
    pub delivered_at: Time,
    /// Whether there was too little to send, so that the path may be able to do more.
    pub app_limited: bool,
}

impl Sample {
    /// Bytes over time.
    pub fn rate(&self) -> Rate {
        let bits = u128::from(self.delivered.as_u64()) * 8_000_000_000;
        let rate = bits / u128::from(self.interval.as_nanos().max(1));
        Rate::from_bits_per_sec(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

/// The newest packet of those that an acknowledgment delivers.
#[derive(Clone, Copy, Debug)]
struct Newest {
    stamp: Stamp,
    sent_at: Time,
}

/// The estimator of one sender.
#[derive(Clone, Debug)]
pub struct DeliveryRate {
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// The sender was limited by its application until this much is delivered; zero: it is not.
    limited_to: u64,
    least: Span,
    newest: Option<Newest>,
}

impl Default for DeliveryRate {
    fn default() -> DeliveryRate {
        DeliveryRate {
            delivered: 0,
            delivered_at: Time::ZERO,
            first_sent_at: Time::ZERO,
            limited_to: 0,
            least: Span::MAX,
            newest: None,
        }
    }
}

impl DeliveryRate {
    /// For packets whose numbers never go twice: an acknowledgment is never another transmission's, however soon it comes.
    pub fn numbered() -> DeliveryRate {
        DeliveryRate { least: Span::ZERO, ..DeliveryRate::default() }
    }

    /// A packet goes out, first or again; `idle`: nothing was under way before it. Gives what it must remember.
    #[inline]
    pub fn on_sent(&mut self, now: Time, idle: bool) -> Stamp {
        if idle {
            // 3.2: the intervals begin anew.
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        Stamp {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.limited_to > 0,
        }
    }

    /// 3.3, UpdateRateSample: a packet of `bytes`, last sent at `sent_at` (`again`: not for the first time), is acknowledged
    /// for the first time, in order or not.
    #[inline]
    pub fn on_delivered(&mut self, now: Time, bytes: u64, sent_at: Time, again: bool, stamp: &Stamp) {
        self.delivered += bytes;
        self.delivered_at = now;
        if !again {
            self.least = self.least.min(now.since(sent_at));
        }
        // The newest packet tells how long the sending took.
        if self.newest.is_none_or(|newest| (stamp.delivered, sent_at) >= (newest.stamp.delivered, newest.sent_at)) {
            self.newest = Some(Newest { stamp: *stamp, sent_at });
            self.first_sent_at = sent_at;
        }
    }

    /// 3.3, GenerateRateSample: all that an acknowledgment delivers was told. `None` where it delivered nothing, or what it
    /// says is nothing to go by.
    #[inline]
    pub fn sample(&mut self) -> Option<Sample> {
        if self.limited_to > 0 && self.delivered > self.limited_to {
            self.limited_to = 0;
        }
        let Newest { stamp, sent_at } = self.newest.take()?;
        let interval = sent_at.since(stamp.first_sent_at).max(self.delivered_at.since(stamp.delivered_at));
        // Less than a round trip: the acknowledgment of a retransmission was the first transmission's.
        if interval == Span::ZERO || interval < self.least {
            return None;
        }
        Some(Sample {
            delivered: Bytes::new(self.delivered - stamp.delivered),
            interval,
            prior_delivered: Bytes::new(stamp.delivered),
            delivered_at: self.delivered_at,
            app_limited: stamp.app_limited,
        })
    }

    /// 3.4: there is nothing to send although window and losses would let it, with `in_flight` bytes under way.
    #[inline]
    pub fn on_app_limited(&mut self, in_flight: u64) {
        self.limited_to = (self.delivered + in_flight).max(1);
    }

    /// All bytes delivered.
    pub fn delivered(&self) -> Bytes {
        Bytes::new(self.delivered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// 1000 bytes each.
    fn deliver(rate: &mut DeliveryRate, now: u64, sent_at: u64, stamp: &Stamp) {
        rate.on_delivered(ms(now), 1000, ms(sent_at), false, stamp);
    }

    // 2.1.1: ten packets sent at once, one delivered every 10 ms: the first sample has one packet in a round trip of 110 ms;
    // in the steady state 10 packets in 100 ms are 800 kbit/s.
    #[test]
    fn a_window_that_fills_the_path_measures_the_bottleneck() {
        let mut rate = DeliveryRate::default();
        let mut sent: Vec<(u64, Stamp)> = (0..10).map(|n| (0, rate.on_sent(ms(0), n == 0))).collect();
        let mut last = None;
        for n in 0..40 {
            let now = 100 + 10 * n;
            let (sent_at, stamp) = sent.remove(0);
            deliver(&mut rate, now, sent_at, &stamp);
            last = rate.sample();
            if n == 0 {
                assert_eq!(last.unwrap().rate(), Rate::from_bits_per_sec(80_000), "1000 bytes in 100 ms");
            }
            sent.push((now, rate.on_sent(ms(now), false)));
        }
        let last = last.unwrap();
        assert_eq!((last.delivered, last.interval), (Bytes::new(10_000), Span::from_millis(100)));
        assert_eq!(last.rate(), Rate::from_bits_per_sec(800_000));
        assert!(!last.app_limited);
        assert_eq!(rate.delivered(), Bytes::new(40_000));
    }

    // 2.1.2: ACKs that were held up come in a burst; the time of sending bounds the rate.
    #[test]
    fn compressed_acks_do_not_raise_the_rate_above_that_of_sending() {
        let mut rate = DeliveryRate::default();
        let stamps: Vec<Stamp> = (0..10).map(|n| rate.on_sent(ms(10 * n), n == 0)).collect();
        deliver(&mut rate, 100, 0, &stamps[0]);
        rate.sample();
        let next = rate.on_sent(ms(110), false);
        for (n, stamp) in stamps.iter().enumerate().skip(1) {
            deliver(&mut rate, 210, 10 * n as u64, stamp);
        }
        deliver(&mut rate, 210, 110, &next);
        let sample = rate.sample().unwrap();
        assert_eq!(
            sample.interval,
            Span::from_millis(110),
            "by the ACKs' time since the first delivery: longer than sending"
        );
        assert_eq!(sample.delivered, Bytes::new(10_000));
    }

    // 3.4: marked until all that was under way when the application had nothing is delivered.
    #[test]
    fn samples_of_what_was_sent_while_there_was_too_little_to_send_say_so() {
        let mut rate = DeliveryRate::default();
        let first = rate.on_sent(ms(0), true);
        rate.on_app_limited(1000);
        let second = rate.on_sent(ms(50), false);
        deliver(&mut rate, 100, 0, &first);
        assert!(!rate.sample().unwrap().app_limited, "sent before");
        deliver(&mut rate, 150, 50, &second);
        assert!(rate.sample().unwrap().app_limited);
        let third = rate.on_sent(ms(150), true);
        deliver(&mut rate, 250, 150, &third);
        assert!(!rate.sample().unwrap().app_limited, "the bubble has passed");
    }

    // 3.3: the interval of a retransmission that was acknowledged too soon is shorter than any round trip.
    #[test]
    fn an_acknowledgment_faster_than_a_round_trip_gives_no_sample() {
        let mut rate = DeliveryRate::default();
        let first = rate.on_sent(ms(0), true);
        deliver(&mut rate, 100, 0, &first);
        assert!(rate.sample().is_some());
        assert_eq!(rate.sample(), None, "nothing more was delivered");
        let again = rate.on_sent(ms(300), true);
        rate.on_delivered(ms(340), 1000, ms(300), true, &again);
        assert_eq!(rate.sample(), None);
    }

    /// When it was sent, its bytes and stamp, and the model's view: delivered before it, when, and the first sending.
    type Flying = (u64, u64, Stamp, (u64, u64, u64));

    proptest! {
        /// The obvious model keeps every event, and computes each sample from the whole history: what was delivered from the
        /// newest packet's sending on, by the longer of the two times since the last delivery before that sending.
        #[test]
        fn it_says_what_the_whole_history_says(events in proptest::collection::vec((0u8..4, 1u64..20, 1u64..1500), 1..200)) {
            let mut rate = DeliveryRate::default();
            let mut now = 1;
            let mut flying: Vec<Flying> = Vec::new();
            let mut total = 0_u64;
            let (mut delivered_at, mut first_sent) = (0, 0);
            let mut least = u64::MAX;
            for (kind, wait, bytes) in events {
                now += wait;
                if kind < 2 {
                    let idle = flying.is_empty();
                    if idle {
                        (delivered_at, first_sent) = (now, now);
                    }
                    flying.push((now, bytes, rate.on_sent(ms(now), idle), (total, delivered_at, first_sent)));
                    continue;
                }
                // An ACK of some of the oldest.
                let count = (wait as usize).min(flying.len());
                let mut newest = None;
                for (sent_at, bytes, stamp, view) in flying.drain(..count) {
                    rate.on_delivered(ms(now), bytes, ms(sent_at), false, &stamp);
                    total += bytes;
                    delivered_at = now;
                    least = least.min(now - sent_at);
                    newest = Some((sent_at, view));
                }
                let expected = newest.and_then(|(sent_at, (before, at, first))| {
                    first_sent = sent_at;
                    let interval = (sent_at - first).max(now - at);
                    (interval >= least && interval > 0).then_some((total - before, interval, before))
                });
                let sample = rate.sample().map(|sample| {
                    (sample.delivered.as_u64(), sample.interval.as_nanos() / 1_000_000, sample.prior_delivered.as_u64())
                });
                prop_assert_eq!(sample, expected);
            }
        }
    }
}
