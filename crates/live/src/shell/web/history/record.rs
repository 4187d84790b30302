//! A record of the history: what one link did in one slot of time, as it lies in memory and in the file.
//!
//! Each record says which slot of time it is of. So what a ring held a turn before, and what was never written, is told from what
//! is meant, and nothing has to be wiped while no daemon runs or where a clock is set.

/// Bytes of a record.
pub(super) const RECORD: usize = 20;
/// A delay, a loss or a queue that is not known.
const UNKNOWN: u16 = u16::MAX;
/// The parts into which shares of a slot's time are cut.
const PARTS: f32 = 200.0;

/// Means over a slot of time. Rates are in Mbit/s, times in ms, and shares from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Means {
    pub(super) sent: f32,
    pub(super) received: f32,
    pub(super) delay: Option<f32>,
    pub(super) loss: Option<f32>,
    pub(super) queue: Option<f32>,
    /// The share of the time for which the link was up.
    pub(super) up: f32,
}

impl Means {
    /// The means over `weight` of these and `other_weight` of others.
    pub(super) fn mixed(&self, weight: f32, other: &Means, other_weight: f32) -> Means {
        let share = other_weight / (weight + other_weight).max(f32::MIN_POSITIVE);
        let mean = |a: f32, b: f32| a + (b - a) * share;
        let known = |a: Option<f32>, b: Option<f32>| match (a, b) {
            (Some(a), Some(b)) => Some(mean(a, b)),
            (one, other) => one.or(other),
        };
        Means {
            sent: mean(self.sent, other.sent),
            received: mean(self.received, other.received),
            delay: known(self.delay, other.delay),
            loss: known(self.loss, other.loss),
            queue: known(self.queue, other.queue),
            up: mean(self.up, other.up),
        }
    }

    /// As a record of slot `stamp`; `seen`: for which share of it the link was looked at.
    pub(super) fn encode(&self, stamp: u32, seen: f32) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..4].copy_from_slice(&stamp.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.sent.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.received.to_le_bytes());
        let scaled = |value: Option<f32>, scale: f32| {
            value.map_or(UNKNOWN, |value| (value * scale).round().clamp(0.0, f32::from(UNKNOWN - 1)) as u16)
        };
        for (place, value) in
            [(12, scaled(self.delay, 10.0)), (14, scaled(self.loss, 65_000.0)), (16, scaled(self.queue, 10.0))]
        {
            bytes[place..place + 2].copy_from_slice(&value.to_le_bytes());
        }
        let share = |value: f32| (value.clamp(0.0, 1.0) * PARTS).round() as u8;
        // What was seen at all is not nothing.
        [bytes[18], bytes[19]] = [share(self.up), share(seen).max(1)];
        bytes
    }

    /// What the record says of slot `stamp`, and for which share of it the link was looked at. `None`: it is of another slot, or
    /// no record.
    pub(super) fn decode(bytes: &[u8; RECORD], stamp: u32) -> Option<(Means, f32)> {
        let four = |place: usize| [bytes[place], bytes[place + 1], bytes[place + 2], bytes[place + 3]];
        let two = |place: usize| u16::from_le_bytes([bytes[place], bytes[place + 1]]);
        let [sent, received] = [4, 8].map(|place| f32::from_le_bytes(four(place)));
        let is_rate = |rate: f32| rate.is_finite() && rate >= 0.0;
        if u32::from_le_bytes(four(0)) != stamp || stamp == 0 || bytes[19] == 0 || !is_rate(sent) || !is_rate(received)
        {
            return None;
        }
        let scaled = |value: u16, scale: f32| (value != UNKNOWN).then(|| f32::from(value) / scale);
        let share = |part: u8| (f32::from(part) / PARTS).min(1.0);
        let means = Means {
            sent,
            received,
            delay: scaled(two(12), 10.0),
            loss: scaled(two(14), 65_000.0),
            queue: scaled(two(16), 10.0),
            up: share(bytes[18]),
        };
        Some((means, share(bytes[19])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_says_what_it_was_made_of_and_nothing_of_other_slots(
            stamp in 1..u32::MAX, sent in 0f32..1e6, received in 0f32..1e6, delay in prop::option::of(0f32..6000.0),
            loss in prop::option::of(0f32..1.0), up in 0f32..1.0, seen in 0.01f32..1.0,
        ) {
            let means = Means { sent, received, delay, loss, queue: None, up };
            let bytes = means.encode(stamp, seen);
            let (read, read_seen) = Means::decode(&bytes, stamp).expect("it is of this slot");
            prop_assert_eq!((read.sent, read.received, read.queue), (sent, received, None));
            let near = |a: Option<f32>, b: Option<f32>, by: f32| match (a, b) {
                (Some(a), Some(b)) => (a - b).abs() <= by,
                (a, b) => a == b,
            };
            prop_assert!(near(read.delay, delay, 0.051) && near(read.loss, loss, 1e-5), "{:?}", read);
            prop_assert!(near(Some(read.up), Some(up), 0.003) && near(Some(read_seen), Some(seen), 0.005));
            prop_assert_eq!(Means::decode(&bytes, stamp - 1), None);
        }

        #[test]
        fn bytes_that_are_no_record_are_read_as_nothing_or_as_finite_numbers(bytes: [u8; RECORD]) {
            let stamp = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            if let Some((means, seen)) = Means::decode(&bytes, stamp) {
                prop_assert!(means.sent.is_finite() && means.received >= 0.0 && means.up <= 1.0 && seen > 0.0);
            }
        }
    }

    #[test]
    fn means_of_two_parts_weigh_them_by_their_time_and_take_what_one_alone_knows() {
        let a = Means { sent: 10.0, delay: Some(20.0), up: 1.0, ..Means::default() };
        let b = Means { sent: 30.0, loss: Some(0.5), up: 0.0, ..Means::default() };
        let mixed = a.mixed(3.0, &b, 1.0);
        assert_eq!((mixed.sent, mixed.up), (15.0, 0.75));
        assert_eq!((mixed.delay, mixed.loss, mixed.queue), (Some(20.0), Some(0.5), None));
    }
}
