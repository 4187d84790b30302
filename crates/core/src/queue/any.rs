//! Whatever discipline the settings name.

use super::{Admit, Config, ConfigError, Discipline, Dropped, Drr, Fifo, FlowId, QueueDiscipline, Sfq, Stochastic};
use crate::units::Time;

/// A discipline chosen by [`Config`].
#[derive(Clone, Debug)]
pub enum AnyDiscipline<P> {
    /// [`Fifo`].
    Fifo(Fifo<P>),
    /// [`Drr`], and round robin by packets.
    Drr(Drr<P>),
    /// [`Sfq`].
    Sfq(Sfq<P>),
    /// [`Stochastic`].
    Stochastic(Stochastic<P>),
}

impl<P> AnyDiscipline<P> {
    /// The discipline that `config` names; `seed` keys the hash of a stochastic one.
    ///
    /// # Errors
    /// Names the first setting that cannot work.
    pub fn new(config: &Config, seed: u64) -> Result<AnyDiscipline<P>, ConfigError> {
        config.check()?;
        let (limit, buffer) = (config.limit, &config.buffer);
        Ok(match config.discipline {
            Discipline::Fifo => AnyDiscipline::Fifo(Fifo::new(limit, buffer)),
            Discipline::RoundRobin => AnyDiscipline::Drr(Drr::by_packets(limit, buffer)),
            Discipline::Drr { quantum } => AnyDiscipline::Drr(Drr::new(quantum, limit, buffer)),
            Discipline::Sfq => AnyDiscipline::Sfq(Sfq::new(limit, buffer)),
            Discipline::Stochastic { buckets, quantum } => {
                AnyDiscipline::Stochastic(Stochastic::new(buckets, quantum, limit, buffer, seed))
            }
        })
    }
}

macro_rules! each {
    ($self:ident, $q:ident => $call:expr) => {
        match $self {
            AnyDiscipline::Fifo($q) => $call,
            AnyDiscipline::Drr($q) => $call,
            AnyDiscipline::Sfq($q) => $call,
            AnyDiscipline::Stochastic($q) => $call,
        }
    };
}

impl<P> QueueDiscipline<P> for AnyDiscipline<P> {
    #[inline]
    fn enqueue(&mut self, now: Time, flow: FlowId, packet: P, size: u32) -> Admit<P> {
        each!(self, q => q.enqueue(now, flow, packet, size))
    }

    #[inline]
    fn dequeue(&mut self, now: Time) -> Option<(FlowId, P)> {
        each!(self, q => q.dequeue(now))
    }

    #[inline]
    fn poll_dropped(&mut self, now: Time) -> Option<Dropped<P>> {
        each!(self, q => q.poll_dropped(now))
    }

    fn next_ready(&self) -> Option<Time> {
        each!(self, q => q.next_ready())
    }

    fn packets(&self) -> usize {
        each!(self, q => q.packets())
    }

    fn bytes(&self) -> u64 {
        each!(self, q => q.bytes())
    }

    fn active_flows(&self) -> usize {
        each!(self, q => q.active_flows())
    }
}
