//! What is measured, while a run goes on.
//!
//! The world calls these accumulators; each is one struct of plain numbers, and what was not asked for is not there. At the
//! end of the warm-up the world calls `begin` on each, which forgets counts and keeps state (highest numbers, levels), so
//! that no packet pays for asking whether it counts. So:
//!
//! | metric | counts |
//! |---|---|
//! | sent | packets that left their source after the warm-up |
//! | received, throughput, delay | packets that arrived after it, whenever they were sent |
//! | dropped | packets dropped after it |
//! | goodput | bytes that the application got after it |
//! | jitter | pairs of neighbours that both arrived after it |
//! | reordering | packets that arrived after it, against everything that arrived before |
//! | queues | the time after it |
//! | transfers | those that were completed after it, whole |
//! | series | the whole run, from 0 |

pub mod density;
pub mod flow;
pub mod jitter;
pub mod occupancy;
pub mod reordering;
pub mod series;
pub mod spread;

pub use flow::FlowMeter;
pub use occupancy::Occupancy;
pub use series::Recorder;

use fairspan_core::units::Span;

/// What is measured beyond the summary (throughput, goodput, drops, Jain's index, delay's mean and extremes).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Distributions of one-way delay and jitter.
    pub delay: bool,
    /// A record of every transfer.
    pub transfers: bool,
    /// RFC 4737, RFC 5236 and the burst round robin paper's count.
    pub reordering: bool,
    /// Throughput, windows, queues and buffers over time, a point every so often. Zero: none.
    pub series: Span,
    /// Links whose packets are recorded, those of rings too, as [`Scenario::captured`](crate::model::Scenario::captured) numbers them.
    pub capture: Vec<u32>,
}

pub use fairspan_core::flow::accounts::jain;

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn jains_index_is_one_for_equals_and_the_share_of_users_for_extremes() {
        assert_eq!(jain([5.0; 7]), 1.0);
        assert_eq!(jain([3.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain([1.0, 2.0, 3.0]), 36.0 / 42.0);
        assert_eq!((jain([]), jain([0.0])), (1.0, 1.0));
    }
}
