//! The smoothed round trip, and the retransmission timeout.
//!
//! Source: RFC 6298. Symbols: SRTT `smoothed`, RTTVAR `variance`, G `granularity`, K = 4, alpha = 1/8, beta = 1/4.
//! Departures: `tick` rounds samples as old clocks did (ns-2's `tcpTick_`), and the timeout is then at least two ticks.
//! Cost: O(1). Invariant: minimum <= timeout <= maximum.

use crate::units::Span;

/// The estimator's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The timeout before any sample (RFC 6298, 2.1).
    pub initial: Span,
    /// Least timeout (RFC 6298, 2.4).
    pub minimum: Span,
    /// Most (RFC 6298, 2.5).
    pub maximum: Span,
    /// Clock granularity G (RFC 6298, 2.2): least that is added to the smoothed round trip.
    pub granularity: Span,
    /// Samples are rounded to multiples of this, at least one; zero: not at all.
    pub tick: Span,
}

impl Default for Config {
    /// RFC 6298's recommendations, and a clock of milliseconds.
    fn default() -> Config {
        Config {
            initial: Span::from_secs(1),
            minimum: Span::from_secs(1),
            maximum: Span::from_secs(60),
            granularity: Span::from_millis(1),
            tick: Span::ZERO,
        }
    }
}

/// The estimator.
#[derive(Clone, Debug)]
pub struct Rtt {
    smoothed: Span,
    variance: Span,
    timeout: Span,
    minimum: Span,
    maximum: Span,
    granularity: Span,
    tick: Span,
}

impl Rtt {
    /// Before any sample.
    pub fn new(config: &Config) -> Rtt {
        Rtt {
            smoothed: Span::ZERO,
            variance: Span::ZERO,
            // RFC 6298 (2.1)
            timeout: config.initial,
            minimum: config.minimum.max(config.tick.times(2)),
            maximum: config.maximum,
            granularity: config.granularity,
            tick: config.tick,
        }
    }

    /// The smoothed round trip; zero before the first sample.
    #[inline]
    pub fn smoothed(&self) -> Span {
        self.smoothed
    }

    /// The timeout, with its backoff.
    #[inline]
    pub fn timeout(&self) -> Span {
        self.timeout
    }

    /// Most that the timeout may be.
    pub fn maximum(&self) -> Span {
        self.maximum
    }

    /// The timeout as samples make it, without backoff.
    pub fn fresh_timeout(&self) -> Span {
        if self.smoothed == Span::ZERO { self.timeout } else { self.computed() }
    }

    #[inline]
    fn computed(&self) -> Span {
        // RFC 6298 (2.2), (2.3): SRTT + max (G, K*RTTVAR); (2.4), (2.5)
        let timeout = self.smoothed + self.granularity.max(self.variance.times(4));
        timeout.max(self.minimum).min(self.maximum)
    }

    /// The timeout where only the SYN was lost (RFC 6298, 5.7).
    pub fn set_timeout(&mut self, timeout: Span) {
        self.timeout = timeout.min(self.maximum);
    }

    /// A round trip was measured. Undoes the backoff (RFC 6298, section 5, last paragraph).
    #[inline]
    pub fn on_sample(&mut self, sample: Span) {
        let mut sample = sample.as_nanos().max(1);
        let tick = self.tick.as_nanos();
        if let Some(ticks) = (sample + tick / 2).checked_div(tick) {
            sample = ticks.max(1) * tick;
        }
        if self.smoothed == Span::ZERO {
            // RFC 6298 (2.2)
            self.smoothed = Span::from_nanos(sample);
            self.variance = Span::from_nanos(sample / 2);
        } else {
            // RFC 6298 (2.3); the variance first
            let smoothed = self.smoothed.as_nanos();
            self.variance = Span::from_nanos((3 * self.variance.as_nanos() + smoothed.abs_diff(sample)) / 4);
            self.smoothed = Span::from_nanos((7 * smoothed + sample) / 8);
        }
        self.timeout = self.computed();
    }

    /// The timer expired: RFC 6298 (5.5).
    pub fn back_off(&mut self) {
        self.timeout = self.timeout.times(2).min(self.maximum);
    }

    /// An expiry turned out to be spurious, or the peer is alive: the backoff goes.
    pub fn reset_backoff(&mut self) {
        if self.smoothed != Span::ZERO {
            self.timeout = self.computed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn rtt(change: impl FnOnce(&mut Config)) -> Rtt {
        let mut config = Config { minimum: Span::from_millis(1), ..Config::default() };
        change(&mut config);
        Rtt::new(&config)
    }

    #[test]
    fn the_first_sample_r_gives_r_plus_four_halves_of_r() {
        let mut rtt = rtt(|_| ());
        assert_eq!(rtt.timeout(), Span::from_secs(1));
        rtt.on_sample(Span::from_millis(100));
        assert_eq!(rtt.smoothed(), Span::from_millis(100));
        assert_eq!(rtt.timeout(), Span::from_millis(300));
    }

    #[test]
    fn later_samples_move_variance_by_a_quarter_and_mean_by_an_eighth() {
        let mut rtt = rtt(|_| ());
        rtt.on_sample(Span::from_millis(100));
        rtt.on_sample(Span::from_millis(180));
        // RTTVAR = 3/4 * 50 + 1/4 * 80 = 57.5; SRTT = 7/8 * 100 + 1/8 * 180 = 110
        assert_eq!(rtt.smoothed(), Span::from_millis(110));
        assert_eq!(rtt.timeout(), Span::from_millis(110 + 230));
    }

    #[test]
    fn the_timeout_stays_between_its_bounds_and_doubles() {
        let mut rtt = rtt(|c| c.minimum = Span::from_secs(1));
        rtt.on_sample(Span::from_millis(10));
        assert_eq!(rtt.timeout(), Span::from_secs(1));
        let timeouts: Vec<u64> = (0..8)
            .map(|_| {
                rtt.back_off();
                rtt.timeout().as_nanos() / 1_000_000_000
            })
            .collect();
        assert_eq!(timeouts, [2, 4, 8, 16, 32, 60, 60, 60]);
        rtt.on_sample(Span::from_millis(10));
        assert_eq!(rtt.timeout(), Span::from_secs(1));
    }

    #[test]
    fn a_coarse_clock_measures_whole_ticks_and_at_least_one() {
        let mut rtt = rtt(|c| c.tick = Span::from_millis(100));
        rtt.on_sample(Span::from_millis(20));
        assert_eq!(rtt.smoothed(), Span::from_millis(100));
        let mut coarse = self::rtt(|c| c.tick = Span::from_millis(100));
        coarse.on_sample(Span::from_millis(260));
        assert_eq!(coarse.smoothed(), Span::from_millis(300));
    }

    #[test]
    fn steady_samples_leave_the_granularity_above_the_mean() {
        let mut rtt = rtt(|c| c.granularity = Span::from_millis(200));
        for _ in 0..200 {
            rtt.on_sample(Span::from_millis(40));
        }
        assert_eq!(rtt.timeout(), Span::from_millis(240));
    }
}
