//! Quanta: how many bytes a round each channel gets.
//!
//! Source: striping §3.6 and §6.3.2 (bytes proportional to bandwidth: the aggregate is
//! `min_j(actual_j / rated_j) * sum(rated)`, so a quantum that is off costs throughput on every channel), and §7.2
//! (quantum = bandwidth x fragment delay; fragments no larger than the smallest quantum).
//!
//! Cost: O(channels). Both functions are pure; when to call them is the owner's affair.

use crate::causal::{ChannelSet, SetError};
use crate::units::{Bytes, ChannelId, Rate, Span};
use alloc::vec::Vec;
use thiserror::Error;

/// Why no quanta can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QuantaError {
    /// The channels or a quantum.
    #[error(transparent)]
    Set(#[from] SetError),
    /// A channel without bandwidth.
    #[error("channel {channel} has rate 0; leave it out of the set")]
    NoRate {
        /// The channel.
        channel: ChannelId,
    },
    /// Bandwidths too far apart for the bound on the largest quantum.
    #[error(
        "channels {slow} and {fast} differ so much that the fast one's quantum would be {needs} bytes, above the bound of {bound}: raise the bound or leave channel {slow} out"
    )]
    TooUnequal {
        /// The slowest channel.
        slow: ChannelId,
        /// The fastest channel.
        fast: ChannelId,
        /// The quantum that the fastest would need, in bytes.
        needs: u64,
        /// The bound, in bytes.
        bound: u64,
    },
    /// A fragment delay so short that no useful fragment fits.
    #[error(
        "in the fragment delay channel {channel} carries {quantum} bytes; at least {least} are needed: raise the delay"
    )]
    DelayTooShort {
        /// The slowest channel.
        channel: ChannelId,
        /// Its quantum in bytes.
        quantum: u64,
        /// The least quantum, in bytes.
        least: u64,
    },
}

/// Quanta in proportion to the rates: the slowest channel's is the largest packet, `max_packet`, so a round is as
/// short as the paper's condition (quantum >= largest packet) allows. `largest` bounds every quantum.
///
/// # Errors
/// [`QuantaError`] names the channels and says what to change.
pub fn from_rates(rates: &[(ChannelId, Rate)], max_packet: Bytes, largest: Bytes) -> Result<ChannelSet, QuantaError> {
    let (slow, fast) = extremes(rates)?;
    let scale = |rate: Rate| {
        // max_packet * rate / slowest, rounded to the nearest byte.
        let (p, r, s) =
            (u128::from(max_packet.as_u64()), u128::from(rate.as_bits_per_sec()), u128::from(slow.1.as_bits_per_sec()));
        u64::try_from((2 * p * r + s) / (2 * s)).unwrap_or(u64::MAX)
    };
    let (needs, bound) = (scale(fast.1), largest.as_u64().min(u64::from(ChannelSet::MAX_QUANTUM)));
    if needs > bound {
        return Err(QuantaError::TooUnequal { slow: slow.0, fast: fast.0, needs, bound });
    }
    let quanta: Vec<_> = rates.iter().map(|&(channel, rate)| (channel, Bytes::new(scale(rate)))).collect();
    Ok(ChannelSet::new(&quanta, max_packet)?)
}

/// Quanta for a fragment delay: what each channel carries in that time (rounded down), and the largest fragment,
/// header included: the smallest quantum. The paper's vendor prints 30 microseconds as its default; 30 ms is meant.
///
/// While each channel's queue is kept within its quantum, a real-time packet that goes ahead of the fragments waits at
/// most `delay`.
///
/// # Errors
/// [`QuantaError`] names the channel and says what to change.
pub fn from_fragment_delay(
    rates: &[(ChannelId, Rate)],
    delay: Span,
    least_fragment: Bytes,
) -> Result<(ChannelSet, Bytes), QuantaError> {
    let (slow, _) = extremes(rates)?;
    let smallest = slow.1.bytes_in(delay);
    let least = least_fragment.as_u64().max(1);
    if smallest.as_u64() < least {
        return Err(QuantaError::DelayTooShort { channel: slow.0, quantum: smallest.as_u64(), least });
    }
    let quanta: Vec<_> = rates.iter().map(|&(channel, rate)| (channel, rate.bytes_in(delay))).collect();
    Ok((ChannelSet::new(&quanta, smallest)?, smallest))
}

type Rated = (ChannelId, Rate);

/// The slowest and the fastest channel.
fn extremes(rates: &[Rated]) -> Result<(Rated, Rated), QuantaError> {
    if let Some(&(channel, _)) = rates.iter().find(|(_, rate)| rate.as_bits_per_sec() == 0) {
        return Err(QuantaError::NoRate { channel });
    }
    let slow = rates.iter().copied().min_by_key(|&(_, rate)| rate);
    let fast = rates.iter().copied().max_by_key(|&(_, rate)| rate);
    slow.zip(fast).ok_or(QuantaError::Set(SetError::Empty))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mbit(rates: &[u64]) -> Vec<Rated> {
        rates.iter().enumerate().map(|(i, &r)| (ChannelId(i as u8), Rate::from_mbit(r))).collect()
    }

    #[test]
    fn quanta_follow_the_rates_from_the_largest_packet_up() {
        let set = from_rates(&mbit(&[100, 40, 10]), Bytes::new(1500), Bytes::new(1 << 20)).unwrap();
        assert_eq!((0..3).map(|i| set.quantum(ChannelId(i))).collect::<Vec<_>>(), [15_000, 6000, 1500]);
    }

    #[test]
    fn rates_too_far_apart_are_refused_by_name() {
        assert_eq!(
            from_rates(&mbit(&[1, 1000]), Bytes::new(1500), Bytes::new(1_000_000)),
            Err(QuantaError::TooUnequal { slow: ChannelId(0), fast: ChannelId(1), needs: 1_500_000, bound: 1_000_000 })
        );
        assert_eq!(
            from_rates(&mbit(&[1, 0]), Bytes::new(1500), Bytes::new(1_000_000)),
            Err(QuantaError::NoRate { channel: ChannelId(1) })
        );
        assert_eq!(from_rates(&[], Bytes::new(1500), Bytes::new(1)), Err(QuantaError::Set(SetError::Empty)));
    }

    #[test]
    fn thirty_milliseconds_on_two_t1_and_a_56k_line() {
        let rate = |bits| Rate::from_bits_per_sec(bits);
        let rates = [(ChannelId(0), rate(1_544_000)), (ChannelId(1), rate(1_544_000)), (ChannelId(2), rate(56_000))];
        let (set, fragment) = from_fragment_delay(&rates, Span::from_millis(30), Bytes::new(64)).unwrap();
        assert_eq!((set.quantum(ChannelId(0)), set.quantum(ChannelId(2)), fragment.as_u64()), (5790, 210, 210));
        // As printed, 30 microseconds, a T1 would carry 5 bytes.
        assert_eq!(
            from_fragment_delay(&rates[..1], Span::from_micros(30), Bytes::new(64)),
            Err(QuantaError::DelayTooShort { channel: ChannelId(0), quantum: 5, least: 64 })
        );
    }

    proptest! {
        #[test]
        fn a_quantum_takes_no_longer_than_the_fragment_delay_and_a_byte_more_would(
            rates in proptest::collection::vec(100_000u64..10_000_000_000, 1..64), delay_us in 10_000u64..100_000
        ) {
            let rates: Vec<_> = rates.iter().enumerate()
                .map(|(i, &r)| (ChannelId(i as u8), Rate::from_bits_per_sec(r))).collect();
            let delay = Span::from_micros(delay_us);
            let (set, fragment) = from_fragment_delay(&rates, delay, Bytes::new(64)).unwrap();
            for (channel, rate) in rates {
                let quantum = Bytes::new(u64::from(set.quantum(channel)));
                prop_assert!(fragment <= quantum);
                prop_assert!(rate.transmit_time(quantum) <= delay);
                prop_assert!(rate.transmit_time(quantum + Bytes::new(1)) > delay);
            }
        }
    }
}
