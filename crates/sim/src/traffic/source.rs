//! Sources of datagrams: the instant and the size of each packet.
//!
//! One source is a small state machine without events of its own: whoever runs it asks for the next packet when the last
//! one has been sent, and keeps one entry for it among what is to come.
//!
//! | traffic | first packet | gap after a packet of s bytes |
//! |---|---|---|
//! | constant | at the start | 8 s / rate |
//! | Poisson | after one gap | exponential, mean 8 E(s) / rate: arrivals are a Poisson process, sizes independent of them |
//! | Pareto on-off | see below | 8 s / rate of on time |
//! | replay | as recorded | as recorded |
//! | one's own | as it says | as it says |
//!
//! The on-off source's packets are a constant-rate source whose clock stands still in off periods: what an on period
//! leaves of a gap goes on in the next. So the mean rate is rate · on / (on + off) exactly, where the usual rule (every on
//! period begins with a packet) sends half a packet more an on period. It begins on with probability on / (on + off), each
//! period drawn whole.
//!
//! All gaps are by the source's own clock ([`Drift`]); nothing is sent after `stop`. Cost: a constant-rate packet a
//! 128-bit addition; a Poisson packet a logarithm.

use super::clock::{Drift, FineSpan, FineTime};
use super::pareto::{Pareto, exponential};
use super::{Config, ConfigError, OwnWorkload, Sampler};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Span, Time};
use std::sync::Arc;

/// The largest IP packet.
const LARGEST: u32 = 65_535;

/// A source of datagrams.
#[derive(Clone, Debug)]
pub struct Source {
    now: FineTime,
    stop: Time,
    rng: Rng,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// The fast path: one size, one gap.
    Metronome(Metronome),
    Constant {
        byte_time: FineSpan,
        sizes: Sampler,
    },
    Poisson {
        drift: Drift,
        mean_gap: f64,
        sizes: Sampler,
    },
    OnOff(Box<OnOff>),
    Replay {
        packets: Arc<[(Span, u32)]>,
        next: usize,
        begin: FineTime,
        period: Option<Span>,
        drift: Drift,
    },
    /// One's own, with the size of the packet that leaves next.
    Own {
        workload: Box<dyn OwnWorkload>,
        size: Option<u32>,
        drift: Drift,
    },
}

/// A source whose packets all have one size and one distance: what many flows of a large scenario are, so that it is
/// small.
#[derive(Clone, Debug)]
pub struct Metronome {
    now: FineTime,
    gap: FineSpan,
    size: u32,
}

impl Metronome {
    /// As [`Source::next`]. Nothing is sent after `stop`.
    #[inline]
    pub fn next(&mut self, stop: Time) -> Option<(Time, u32)> {
        let at = self.now.time();
        self.now.advance(self.gap);
        (at <= stop).then_some((at, self.size))
    }
}

#[derive(Clone, Debug)]
struct OnOff {
    drift: Drift,
    byte_time: FineSpan,
    sizes: Sampler,
    on: Pareto,
    off: Pareto,
    /// What is left of the on period.
    left: FineSpan,
    /// What is left of the gap, in on time.
    gap: FineSpan,
}

impl Source {
    /// The source of `traffic`, with a clock that drifts and the randomness of `rng`, between `start` and `stop`; `None`
    /// if the traffic is an application's, which answers what it gets.
    pub fn new(
        traffic: &Config,
        drift: Drift,
        start: Time,
        stop: Time,
        mut rng: Rng,
    ) -> Result<Option<Source>, ConfigError> {
        traffic.check()?;
        let mut now = FineTime::new(start);
        let kind = match traffic {
            Config::Constant { rate, size } => {
                let (byte_time, sizes) = (drift.byte_time(*rate), Sampler::new(size)?);
                match sizes.constant() {
                    Some(size) => Kind::Metronome(Metronome { now, gap: byte_time.times(size), size }),
                    None => Kind::Constant { byte_time, sizes },
                }
            }
            Config::Poisson { rate, size } => {
                let mean_gap = size.mean() * 8e9 / rate.as_bits_per_sec() as f64;
                now.advance(drift.stretch(FineSpan::from_nanos_f64(exponential(mean_gap, &mut rng))));
                Kind::Poisson { drift, mean_gap, sizes: Sampler::new(size)? }
            }
            Config::ParetoOnOff { rate, size, on, off, shape } => {
                let mut source = OnOff {
                    drift,
                    byte_time: Drift::NONE.byte_time(*rate),
                    sizes: Sampler::new(size)?,
                    on: Pareto::new(*on, *shape),
                    off: Pareto::new(*off, *shape),
                    left: FineSpan::default(),
                    gap: FineSpan::default(),
                };
                if rng.unit() * (on.as_nanos() as f64 + off.as_nanos() as f64) < on.as_nanos() as f64 {
                    source.left = FineSpan::from_nanos_f64(source.on.draw(&mut rng));
                }
                now.advance(source.wait(&mut rng));
                Kind::OnOff(Box::new(source))
            }
            Config::Replay { packets, period } => {
                Kind::Replay { packets: Arc::clone(packets), next: 0, begin: now, period: *period, drift }
            }
            Config::Own(maker) => {
                let mut workload = (maker.0)();
                let first = workload.next(&mut rng);
                if let Some((gap, _)) = first {
                    now.advance(drift.stretch(gap.into()));
                }
                Kind::Own { workload, size: first.map(|packet| packet.1), drift }
            }
            Config::Ftp { .. } | Config::Http { .. } | Config::RequestResponse { .. } => return Ok(None),
            Config::Transfers(_) | Config::Web(_) | Config::Video(_) | Config::Call(_) | Config::Game(_) => {
                return Ok(None);
            }
        };
        Ok(Some(Source { now, stop, rng, kind }))
    }

    /// When the next packet leaves, and how large it is as an IP packet; `None` when there are no more.
    #[allow(clippy::should_implement_trait, reason = "an iterator's adapters have no use here; the name is the word")]
    #[inline]
    pub fn next(&mut self) -> Option<(Time, u32)> {
        match &mut self.kind {
            Kind::Metronome(metronome) => metronome.next(self.stop),
            _ => self.next_general(),
        }
    }

    /// The source, where it is no more than a metronome.
    pub fn metronome(&self) -> Option<&Metronome> {
        match &self.kind {
            Kind::Metronome(metronome) => Some(metronome),
            _ => None,
        }
    }

    #[inline(never)]
    fn next_general(&mut self) -> Option<(Time, u32)> {
        let at = self.now.time();
        if at > self.stop {
            return None;
        }
        match &mut self.kind {
            Kind::Metronome(metronome) => metronome.next(self.stop),
            Kind::Constant { byte_time, sizes } => {
                let size = sizes.next(&mut self.rng);
                self.now.advance(byte_time.times(size));
                Some((at, size))
            }
            Kind::Poisson { drift, mean_gap, sizes } => {
                let size = sizes.next(&mut self.rng);
                self.now.advance(drift.stretch(FineSpan::from_nanos_f64(exponential(*mean_gap, &mut self.rng))));
                Some((at, size))
            }
            Kind::OnOff(source) => {
                let size = source.sizes.next(&mut self.rng);
                source.gap = source.byte_time.times(size);
                let wait = source.wait(&mut self.rng);
                self.now.advance(wait);
                Some((at, size))
            }
            Kind::Own { workload, size, drift } => {
                let this = (*size)?;
                let next = workload.next(&mut self.rng);
                if let Some((gap, _)) = next {
                    self.now.advance(drift.stretch(gap.into()));
                }
                *size = next.map(|packet| packet.1);
                Some((at, this.clamp(1, LARGEST)))
            }
            Kind::Replay { packets, next, begin, period, drift } => {
                if *next == packets.len() {
                    let period = (*period)?;
                    begin.advance(drift.stretch(period.into()));
                    *next = 0;
                }
                let &(offset, size) = packets.get(*next)?;
                let mut at = *begin;
                at.advance(drift.stretch(offset.into()));
                *next += 1;
                (at.time() <= self.stop).then_some((at.time(), size))
            }
        }
    }
}

impl OnOff {
    /// Real time until `gap` of on time has passed; what is left of the on period is kept.
    fn wait(&mut self, rng: &mut Rng) -> FineSpan {
        let mut real = FineSpan::default();
        while self.gap >= self.left {
            let off = FineSpan::from_nanos_f64(self.off.draw(rng));
            real = real.and(self.left).and(off);
            self.gap = self.gap.less(self.left);
            self.left = FineSpan::from_nanos_f64(self.on.draw(rng));
        }
        self.left = self.left.less(self.gap);
        let real = real.and(self.gap);
        self.gap = FineSpan::default();
        self.drift.stretch(real)
    }
}
