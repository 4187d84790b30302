//! The settings of one direction of a link.

use super::capacity::Capacity;
use crate::buffer::{ConfigError, Limit, PolicyConfig};
use crate::queue::{self, DisciplineConfig};
use crate::units::{Span, Time};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// One direction of an emulated link. A frame passes, in this order, the loss process, the queue, the link that
/// serialises it at its capacity, and the delay line.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// What the link carries. Default: unlimited.
    pub capacity: Capacity,
    /// One-way delay behind the serialisation. Default: zero.
    pub delay: Span,
    /// Standard deviation of the normal distribution around `delay`, drawn per frame and cut at zero delay.
    /// Default: zero.
    pub jitter: Span,
    /// Lets jitter put frames out of order; otherwise a frame waits for the one before it. Default: false.
    pub reorder: bool,
    /// Frames lost by chance. As netem does, the draw comes before the queue: a lost frame takes no capacity.
    pub loss: Loss,
    /// How much may wait for the link; the frame in transmission and those in the delay line do not count.
    /// Default: 1000 frames.
    pub queue: Limit,
    /// Which of the frames that wait goes next. Default: first in, first out.
    pub discipline: DisciplineConfig,
    /// Which frames are let in, marked, dropped. Default: drop-tail.
    pub buffer: PolicyConfig,
    /// Times without service.
    pub outages: Vec<Outage>,
    /// What happens to frames during an outage.
    pub during_outage: DuringOutage,
    /// Times in which the link loses more than usual, or takes longer.
    pub spells: Vec<Spell>,
    /// Added to the length of each Ethernet frame (headers included, no preamble, no check sequence) to give the
    /// bytes that count against capacity and a queue limit in bytes. Default `None`: 0, and -14 on a
    /// [trace](Capacity::Trace), so that one opportunity carries one 1500-byte packet.
    pub overhead: Option<i32>,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile {
            capacity: Capacity::Unlimited,
            delay: Span::ZERO,
            jitter: Span::ZERO,
            reorder: false,
            loss: Loss::None,
            queue: Limit::Packets(1000),
            discipline: DisciplineConfig::default(),
            buffer: PolicyConfig::default(),
            outages: Vec::new(),
            during_outage: DuringOutage::Lose,
            spells: Vec::new(),
            overhead: None,
        }
    }
}

impl Profile {
    /// A constant rate and a delay, everything else at its default.
    pub fn new(rate: crate::units::Rate, delay: Span) -> Profile {
        Profile { capacity: Capacity::Constant(rate), delay, ..Profile::default() }
    }

    /// Checks the settings against each other.
    ///
    /// # Errors
    /// Names the first setting that cannot work, and what would.
    pub fn check(&self) -> Result<(), ProfileError> {
        let wrong =
            |setting, found: String, expected: &str| Err(ProfileError { setting, found, expected: expected.into() });
        if matches!(self.capacity, Capacity::Constant(rate) if rate.as_bits_per_sec() == 0) {
            return wrong("rate", "0".into(), "more than zero; leave it out for an unlimited rate");
        }
        for (setting, value) in [("delay", self.delay), ("jitter", self.jitter)] {
            if value > Span::from_secs(60) {
                return wrong(setting, alloc::format!("{} s", value.as_secs_f64()), "at most 60 s");
            }
        }
        let probabilities: &[(&'static str, f64)] = match &self.loss {
            Loss::None => &[],
            Loss::Independent(p) => &[("loss", *p)],
            Loss::Gilbert { p, r, bad, good } => {
                if *p > 0.0 && *r == 0.0 && *bad >= 1.0 {
                    return wrong("gilbert", "r = 0".into(), "r above 0: once bad, the link would lose everything");
                }
                &[("gilbert p", *p), ("gilbert r", *r), ("gilbert 1-h", *bad), ("gilbert 1-k", *good)]
            }
        };
        for (setting, p) in probabilities {
            if !(0.0..=1.0).contains(p) {
                return wrong(setting, p.to_string(), "a probability from 0 to 1");
            }
        }
        for spell in &self.spells {
            if !(0.0..=1.0).contains(&spell.loss) {
                return wrong("spell", spell.loss.to_string(), "a loss from 0 to 1");
            }
            if spell.delay > Span::from_secs(60) {
                return wrong("spell", alloc::format!("{} s", spell.delay.as_secs_f64()), "a delay of at most 60 s");
            }
        }
        if matches!(self.queue, Limit::Packets(0) | Limit::Bytes(0)) {
            return wrong("queue", "0".into(), "at least one frame, or at least the bytes of one frame");
        }
        let queue = self.queue_config();
        if !queue.is_plain() {
            queue.check()?;
        }
        for outage in &self.outages {
            if outage.length == Span::ZERO {
                return wrong("outage", "a length of 0".into(), "a length above zero");
            }
            if outage.every.is_some_and(|every| every <= outage.length) {
                return wrong("outage", "a period not above its length".into(), "a period longer than the outage");
            }
        }
        Ok(())
    }

    /// What waits for the link.
    pub fn queue_config(&self) -> queue::Config {
        let mut config = queue::Config::default();
        (config.discipline, config.buffer, config.limit) = (self.discipline, self.buffer, self.queue);
        config
    }

    pub(super) fn overhead(&self) -> i32 {
        let default = if matches!(self.capacity, Capacity::Trace(_)) { -14 } else { 0 };
        self.overhead.unwrap_or(default)
    }
}

/// A setting that cannot work.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{setting}: found {found}, expected {expected}")]
pub struct ProfileError {
    /// The setting.
    pub setting: &'static str,
    /// What it says.
    pub found: String,
    /// What would be right.
    pub expected: String,
}

impl From<ConfigError> for ProfileError {
    fn from(error: ConfigError) -> ProfileError {
        match error {
            ConfigError::Range { setting, value, least, most } => {
                let expected = alloc::format!("from {least} to {most}");
                ProfileError { setting, found: value.to_string(), expected }
            }
            ConfigError::Order { setting, value, other, bound } => {
                let expected = alloc::format!("more than {other}, which is {bound}");
                ProfileError { setting, found: value.to_string(), expected }
            }
        }
    }
}

/// Frames lost by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each frame with this probability.
    Independent(f64),
    /// The Gilbert-Elliott model with netem's parameters (`loss gemodel p r 1-h 1-k`): a frame is lost with the
    /// probability of the state it finds; then the state may change.
    Gilbert {
        /// From the good to the bad state, per frame.
        p: f64,
        /// From the bad to the good state, per frame.
        r: f64,
        /// `1-h`: loss in the bad state.
        bad: f64,
        /// `1-k`: loss in the good state.
        good: f64,
    },
}

/// A time without service, counted from the start of the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When it begins.
    pub start: Span,
    /// How long it lasts.
    pub length: Span,
    /// When set, it comes again with this period, for ever.
    pub every: Option<Span>,
}

/// A time in which a link is worse than usual, counted from the start of the emulator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spell {
    /// When it begins.
    pub start: Span,
    /// How long it lasts.
    pub length: Span,
    /// Of what the link's usual [loss](Profile::loss) leaves, so much is lost: a probability.
    pub loss: f64,
    /// Added to the one-way delay. Where frames keep their order, those behind the end wait for those before it.
    pub delay: Span,
}

impl Spell {
    /// The spells of `all` that `now` lies in.
    pub(super) fn at(all: &[Spell], now: Time) -> impl Iterator<Item = &Spell> {
        all.iter().filter(move |spell| {
            let begin = Time::ZERO + spell.start;
            (begin..begin + spell.length).contains(&now)
        })
    }
}

/// What happens to frames during an outage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DuringOutage {
    /// A pulled cable: a frame whose transmission meets the outage is lost.
    #[default]
    Lose,
    /// A radio shadow: the link stands still and the queue holds what it has room for.
    Hold,
}

/// Whether `now` lies in an outage, and until when that stays so.
pub(super) fn outage_at(outages: &[Outage], now: Time) -> (bool, Time) {
    let mut down_until = None;
    let mut next_start = Time::MAX;
    for outage in outages {
        let first = Time::ZERO + outage.start;
        if now < first {
            next_start = next_start.min(first);
            continue;
        }
        let begin = match outage.every {
            Some(every) => {
                let cycles = now.since(first).as_nanos() / every.as_nanos();
                let begin = first + every.times(cycles);
                next_start = next_start.min(begin + every);
                begin
            }
            None => first,
        };
        let end = begin + outage.length;
        if now < end {
            down_until = down_until.max(Some(end));
        }
    }
    match down_until {
        Some(end) => (true, end),
        None => (false, next_start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rate;
    use alloc::vec;

    #[test]
    fn outages_come_at_their_times_and_repeat() {
        let ms = Span::from_millis;
        let outages = [
            Outage { start: ms(10), length: ms(5), every: None },
            Outage { start: ms(100), length: ms(10), every: Some(ms(50)) },
        ];
        let at = |now| {
            let (down, until) = outage_at(&outages, Time::from_millis(now));
            (down, until.as_nanos() / 1_000_000)
        };
        assert_eq!(at(0), (false, 10));
        assert_eq!(at(10), (true, 15));
        assert_eq!(at(15), (false, 100));
        assert_eq!(at(109), (true, 110));
        assert_eq!(at(110), (false, 150));
        assert_eq!(at(159), (true, 160));
        assert_eq!(outage_at(&[], Time::ZERO), (false, Time::MAX));
    }

    #[test]
    fn settings_that_cannot_work_are_named() {
        let named = |profile: Profile| profile.check().expect_err("must be refused").setting;
        assert_eq!(named(Profile::new(Rate::default(), Span::ZERO)), "rate");
        assert_eq!(named(Profile { loss: Loss::Independent(1.5), ..Profile::default() }), "loss");
        assert_eq!(named(Profile { loss: Loss::Independent(f64::NAN), ..Profile::default() }), "loss");
        assert_eq!(named(Profile { queue: Limit::Packets(0), ..Profile::default() }), "queue");
        assert_eq!(named(Profile { delay: Span::MAX, ..Profile::default() }), "delay");
        for spell in [Spell { loss: 1.1, ..Spell::default() }, Spell { delay: Span::MAX, ..Spell::default() }] {
            assert_eq!(named(Profile { spells: vec![spell], ..Profile::default() }), "spell");
        }
        let outage = Outage { start: Span::ZERO, length: Span::from_secs(2), every: Some(Span::from_secs(1)) };
        assert_eq!(named(Profile { outages: vec![outage], ..Profile::default() }), "outage");
        assert!(Profile::default().check().is_ok());
    }
}
