//! What the links would let a reliable flow have: no packet is sent for it.
//!
//! What it is: IDEAL (efl-mp 4) is the sum of the paths' rates and the delay of the shortest. The bound is the same, less what
//! reorder buffers cost. After a loss nothing is delivered before a repeat has come, and that takes a round trip of the shortest path
//! at least, as the loss must be told and the repeat must travel. Of what comes until then each path's buffer keeps B packets, and
//! the rest is dropped, whoever mends the loss and how.
//!
//! | symbol | meaning |
//! |---|---|
//! | N, B, S | paths, packets that each path's buffer holds, bytes of a packet |
//! | C | sum of the paths' rates, in bytes a second |
//! | T | mean time between losses: S / sum of (rate x loss) |
//! | R | least round trip: delays and transmissions both ways |
//! | H = min(R, N B S / C) | what the buffers keep during R, as time at the full rate |
//!
//! A round that begins with a whole stream lasts T until the next loss and R until that is mended, and delivers what T + H hold. So no
//! scheme has more than C (T + H)/(T + R). Go-back-N keeps nothing: H = 0. With H = R a loss costs nothing. Bursts (Gilbert) are
//! not reckoned, so that the bound is the sum there.

use crate::model::{Link, Reliable, Scenario, Scheme};
use fairspan_core::link::{Capacity, Loss};
use fairspan_core::units::{Bytes, Rate, Span};

/// What a flow would have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reckoned {
    /// Bits per second.
    pub(super) rate: f64,
    pub(super) delay: Span,
}

impl Reckoned {
    /// Where the flow's scheme is one that is reckoned.
    pub(super) fn of(scenario: &Scenario, model: &Reliable) -> Option<Reckoned> {
        let size = Bytes::new(model.config.segment.as_u64());
        let links = |list: &[u32]| -> Vec<&Link> {
            list.iter().filter_map(|link| scenario.links.get(*link as usize)).collect()
        };
        let paths: Vec<(Vec<&Link>, Vec<&Link>)> =
            model.paths.iter().map(|[there, back]| (links(there), links(back))).collect();
        let sum: f64 = paths.iter().map(|(there, _)| narrowest(there)).sum();
        let delay = paths.iter().map(|(there, _)| takes(there, size)).min().unwrap_or_default();
        match model.scheme {
            Scheme::Ideal => Some(Reckoned { rate: sum, delay }),
            Scheme::Bound => {
                let bits = size.as_u64() as f64 * 8.0;
                let losses: f64 = paths.iter().map(|(there, _)| narrowest(there) * loses(there) / bits).sum();
                let trips = paths.iter().map(|(there, back)| takes(there, size) + takes(back, model.ack_size));
                let trip = trips.min().unwrap_or_default().as_secs_f64();
                let held = (model.config.reorder_packets * paths.len()) as f64 * bits / sum;
                let share = if losses > 0.0 { (1.0 + losses * held.min(trip)) / (1.0 + losses * trip) } else { 1.0 };
                Some(Reckoned { rate: sum * share, delay })
            }
            Scheme::EflMp | Scheme::Lah | Scheme::Larr | Scheme::Mtcp => None,
        }
    }
}

fn rate(link: &Link) -> Option<Rate> {
    match &link.profile.capacity {
        Capacity::Constant(rate) => Some(*rate),
        _ => None,
    }
}

/// Bits per second of a path's narrowest link.
fn narrowest(path: &[&Link]) -> f64 {
    path.iter().filter_map(|link| rate(link)).min().map_or(0.0, |rate| rate.as_bits_per_sec() as f64)
}

/// How long a packet takes by a path whose queues are empty.
fn takes(path: &[&Link], size: Bytes) -> Span {
    let one = |link: &&Link| link.profile.delay + rate(link).map_or(Span::ZERO, |rate| rate.transmit_time(size));
    path.iter().map(one).fold(Span::ZERO, |sum, span| sum + span)
}

/// The share of packets that a path loses.
fn loses(path: &[&Link]) -> f64 {
    let arrives = |link: &&Link| match link.profile.loss {
        Loss::Independent(share) => 1.0 - share,
        _ => 1.0,
    };
    1.0 - path.iter().map(arrives).product::<f64>()
}
