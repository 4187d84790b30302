//! Interarrival jitter.
//!
//! Source: RFC 3550, section 6.4.1 and appendix A.8. With transit the arrival less the sending of a packet, D is the
//! difference of two packets' transits, in order of arrival, and J moves a sixteenth of the way to |D| with each packet.
//!
//! | symbol | field |
//! |---|---|
//! | transit of the last packet | `transit` |
//! | J, times 16 | `scaled` |
//!
//! One J for each flow, over all its packets in whatever order they arrive (as in the RFC); in nanoseconds, scaled as in
//! appendix A.8. J is a moving average with a memory of 16 packets: what it says at the end of a run depends on the last
//! few packets. So the distribution of |D| is kept beside it, whose weighted mean J is.
//!
//! Warm-up: |D| counts between packets that both arrived after it; J runs on from the start.

use super::spread::Spread;
use crate::results::Distribution;

/// The jitter of one flow.
#[derive(Clone, Debug)]
pub struct Jitter {
    transit: Option<u64>,
    scaled: u64,
    differences: Spread,
    /// The last packet arrived before the measurement.
    before: bool,
}

impl Jitter {
    /// Before the first packet.
    pub fn new() -> Jitter {
        Jitter { transit: None, scaled: 0, differences: Spread::new(true), before: false }
    }

    /// A packet arrived that was on its way for `transit` nanoseconds.
    pub fn handle_packet(&mut self, transit: u64) {
        if let Some(last) = self.transit.replace(transit) {
            let difference = transit.abs_diff(last);
            self.scaled = (self.scaled + difference).saturating_sub((self.scaled + 8) >> 4);
            if !self.before {
                self.differences.add(difference);
            }
        }
        self.before = false;
    }

    /// The measurement begins.
    pub fn begin(&mut self) {
        self.differences.clear();
        self.before = true;
    }

    /// J in seconds.
    pub fn estimate(&self) -> f64 {
        self.scaled as f64 / 16.0 / 1e9
    }

    /// The distribution of |D| in seconds.
    pub fn distribution(&self) -> Distribution {
        self.differences.summary(1e9)
    }
}

impl Default for Jitter {
    fn default() -> Jitter {
        Jitter::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_transit_has_no_jitter() {
        let mut jitter = Jitter::new();
        (0..100).for_each(|_| jitter.handle_packet(5_000_000));
        assert_eq!((jitter.estimate(), jitter.distribution().max), (0.0, 0.0));
    }

    #[test]
    fn the_estimate_follows_the_formula_of_the_rfc() {
        let transits: [u64; 7] = [10_000_000, 12_000_000, 9_000_000, 30_000_000, 30_000_000, 10_500_000, 11_000_000];
        let mut jitter = Jitter::new();
        let mut expected = 0.0;
        for (index, &transit) in transits.iter().enumerate() {
            jitter.handle_packet(transit);
            if index > 0 {
                let difference = transit.abs_diff(transits[index - 1]) as f64 / 1e9;
                expected += (difference - expected) / 16.0;
            }
        }
        // Appendix A.8 rounds to a nanosecond a step.
        assert!((jitter.estimate() - expected).abs() < 7e-9, "{} {expected}", jitter.estimate());
        assert_eq!(jitter.distribution().count, 6);
        assert_eq!(jitter.distribution().max, 0.021);
    }

    #[test]
    fn a_difference_to_a_packet_of_the_warm_up_does_not_count() {
        let mut jitter = Jitter::new();
        jitter.handle_packet(1);
        jitter.begin();
        jitter.handle_packet(1_000_000);
        assert_eq!(jitter.distribution().count, 0);
        jitter.handle_packet(1_500_000);
        assert_eq!((jitter.distribution().count, jitter.distribution().mean), (1, 0.0005));
    }
}
