//! What accounts of flows tell: a part of the status.

use crate::status::{FlowStatus, SharingStatus, WaitStatus};
use fairspan_core::flow::accounts::{Accounts, Quantiles};
use fairspan_core::units::{Span, Time};

/// So many flows are told of.
const FLOWS: usize = 20;

/// What `accounts` tell at `now`.
pub(super) fn sharing(accounts: &Accounts, now: Time) -> SharingStatus {
    let summary = accounts.summary(now);
    let flows = accounts.heaviest(now, FLOWS).into_iter().map(|flow| FlowStatus {
        flow: flow.label.to_string(),
        mbit: flow.last_second as f64 * 8.0 / 1e6,
        packets: flow.packets,
        bytes: flow.bytes,
        dropped: flow.dropped,
        marked: flow.marked,
        waiting: flow.waiting,
    });
    SharingStatus {
        delay: wait(summary.all),
        sparse_delay: wait(summary.sparse),
        active_flows: summary.active,
        jain: summary.jain,
        backlogged_flows: summary.backlogged,
        backlogged_jain: summary.backlogged_jain,
        flows: flows.collect(),
    }
}

fn wait(quantiles: Quantiles) -> WaitStatus {
    let ms = |span: Option<Span>| span.map(|span| span.as_secs_f64() * 1e3);
    WaitStatus { packets: quantiles.packets, median_ms: ms(quantiles.median), p99_ms: ms(quantiles.p99) }
}
