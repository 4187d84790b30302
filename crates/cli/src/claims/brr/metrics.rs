//! What section 6.4's figures vary and measure.

pub(super) const THROUGHPUT: &str = "flow.web.transfers.throughput";
pub(super) const BELOW: &str = "flow.web.reordering.below_highest";
pub(super) const DIFFERENCE: &str = "(max(link.eth*.packets) - min(link.eth*.packets)) / sum(link.eth*.packets)";
pub(super) const POLICY: &str = "bond.bond0.policy";
pub(super) const PARALLEL: &str = "flow.web.parallel";
/// From bit/s to the paper's MB/s.
pub(super) const MBYTE: f64 = 1.0 / 8e6;
