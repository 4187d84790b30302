//! What a gateway tells: its part of the status, and what a reload changed.

use super::SplitGateway;
use super::bypass::Why;
use crate::config::Gateway;
use crate::status::Counters;
use fairspan_core::units::Time;

impl SplitGateway {
    pub(super) fn count(&self, _now: Time, counters: &mut Counters) {
        let (taken, passed) = (&self.connections.counts, &self.intake.counts);
        let own = [
            ("split_opened", taken.opened),
            ("split_finished", taken.finished),
            ("split_refused", taken.refused),
            ("split_abandoned", taken.abandoned),
            ("split_strangers", taken.strangers),
            ("split_no_descriptors", taken.no_descriptors),
            ("split_moved_bytes", taken.moved),
            ("queue_passed", passed.passed),
            ("queue_marked", passed.marked),
        ];
        counters.extend(own.map(|(name, n)| (name.to_owned(), n)));
        counters.extend(passed.dropped.iter().map(|(reason, n)| (format!("queue_dropped_{reason}"), *n)));
        for why in Why::ALL {
            let n = self.bypassed.get(&why).copied().unwrap_or(0);
            counters.insert(format!("bypassed_{}", why.name()), n);
        }
    }
}

/// What differs, in words.
pub(super) fn changed(before: &Gateway, after: &Gateway) -> Vec<String> {
    let mut changed = Vec::new();
    let mut tell = |differs: bool, setting: &str, value: String| {
        if differs {
            changed.push(format!("gateway.{setting} is now {value}"));
        }
    };
    let (was, is) = (&before.split, &after.split);
    tell(was.discipline != is.discipline, "discipline", is.discipline.to_string());
    tell(was.buffer != is.buffer, "buffer", is.buffer.to_string());
    tell(was.matching != is.matching, "matching", is.matching.to_string());
    tell(was.queue != is.queue, "queue", format!("{:?}", is.queue));
    tell(before.half_open != after.half_open, "half_open", after.half_open.to_string());
    changed
}
