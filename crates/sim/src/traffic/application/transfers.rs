//! Transfers that begin at times of their own, each on a connection of its own: an open loop.
//!
//! The flow's sender opens a connection, writes all bytes of the transfer and closes; the transfer is complete when its last
//! byte has reached the application at the flow's receiver. Its duration, the flow completion time, begins when the connection is
//! opened, so the handshake counts. Whether those before are complete makes no difference to when the next one begins. So a network that cannot
//! carry what is offered has more and more of them under way, up to a bound; who comes then is refused and counts as failed.
//!
//! The first one begins one gap after the flow's start: flows with constant gaps differ by their starts, others by what they draw.

use super::{Application, End, Pair, Pairs, Transfers};
use crate::traffic::error::ConfigError;
use crate::traffic::pareto::{Pareto, exponential};
use crate::traffic::sizes::Sampler;
use crate::traffic::workload;
use fairspan_core::rng::Rng;
use fairspan_core::units::{Span, Time};

/// A sender of such transfers.
#[derive(Clone, Debug)]
pub struct OpenLoop {
    gaps: Gaps,
    sizes: Sampler,
    left: u64,
    parallel: u64,
    rng: Rng,
    /// When the next one begins.
    next: Option<Time>,
    transfers: Transfers,
}

#[derive(Clone, Copy, Debug)]
enum Gaps {
    Exponential(f64),
    Constant(Span),
    Pareto(Pareto),
}

/// A transfer is complete.
const DONE: u64 = u64::MAX;

impl OpenLoop {
    /// The sender; what it measures goes to `transfers`.
    pub fn new(config: &workload::Transfers, transfers: Transfers, rng: Rng) -> Result<OpenLoop, ConfigError> {
        Ok(OpenLoop {
            gaps: match config.arrivals {
                workload::Arrivals::Poisson => Gaps::Exponential(config.every.as_nanos() as f64),
                workload::Arrivals::Constant => Gaps::Constant(config.every),
                workload::Arrivals::Pareto(shape) => Gaps::Pareto(Pareto::new(config.every, shape)),
            },
            sizes: Sampler::new(&config.sizes)?,
            left: config.count.unwrap_or(u64::MAX),
            parallel: u64::from(config.parallel),
            rng,
            next: None,
            transfers,
        })
    }

    fn gap(&mut self) -> Span {
        match self.gaps {
            Gaps::Constant(gap) => gap,
            Gaps::Exponential(mean) => Span::from_nanos(exponential(mean, &mut self.rng) as u64),
            Gaps::Pareto(pareto) => Span::from_nanos(pareto.draw(&mut self.rng) as u64),
        }
    }

    fn begin_one(&mut self, now: Time, pairs: &mut Pairs) {
        let size = u64::from(self.sizes.next(&mut self.rng));
        self.left -= u64::from(self.left != u64::MAX);
        if self.transfers.under_way() >= self.parallel {
            self.transfers.handle_refused();
            return;
        }
        self.transfers.handle_begun(size);
        let pair = pairs.open(now, End::Sender);
        pair.mark = size;
        pair.write(now, End::Sender, size);
        pair.close(now, End::Sender);
    }
}

impl Application for OpenLoop {
    fn start(&mut self, now: Time, _: &mut Pairs) {
        self.next = Some(now + self.gap());
    }

    fn stop(&mut self, _: Time, _: &mut Pairs) {
        self.next = None;
    }

    fn serve(&mut self, now: Time, pair: &mut Pair) {
        let size = pair.mark;
        if size != DONE && pair.received(End::Receiver) >= size {
            pair.mark = DONE;
            self.transfers.handle_completed(now, pair.opened, size);
        }
        if pair.end(End::Receiver).at_end_of_stream() {
            pair.close(now, End::Receiver);
        }
    }

    fn over(&mut self, _: Time, pair: &Pair) {
        if pair.mark != DONE {
            self.transfers.handle_failed(pair.mark);
        }
    }

    fn handle_timeout(&mut self, now: Time, pairs: &mut Pairs) {
        while let Some(next) = self.next.filter(|next| *next <= now) {
            self.begin_one(now, pairs);
            // Of those that begin at one instant the order is that of their drawing.
            self.next = (self.left > 0).then(|| next + self.gap());
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.next
    }

    fn transfers(&self) -> Option<&Transfers> {
        Some(&self.transfers)
    }

    fn begin(&mut self, _: Time) {
        self.transfers.begin();
    }
}
