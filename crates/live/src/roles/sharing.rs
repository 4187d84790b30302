//! What accounts of flows tell: a part of the status.

use crate::status::{FlowStatus, SharingStatus, WaitStatus, WayStatus};
use fairspan_core::flow::accounts::{Accounts, FlowReport, Quantiles};
use fairspan_core::flow::ways::WayReport;
use fairspan_core::units::{Span, Time};

/// So many flows are told of.
const FLOWS: usize = 20;

/// What `accounts` tell at `now`.
pub(super) fn sharing(accounts: &Accounts, now: Time) -> SharingStatus {
    sharing_of(accounts, now, |_, _| ())
}

/// The same, where `complete` adds to what is told of each flow.
pub(super) fn sharing_of(
    accounts: &Accounts,
    now: Time,
    complete: impl Fn(&FlowReport, &mut FlowStatus),
) -> SharingStatus {
    let summary = accounts.summary(now);
    let flows = accounts.heaviest(now, FLOWS).into_iter().map(|flow| {
        let mut status = FlowStatus {
            flow: flow.label.to_string(),
            mbit: mbit(flow.last_second),
            packets: flow.packets,
            bytes: flow.bytes,
            dropped: flow.dropped,
            marked: flow.marked,
            waiting: flow.waiting,
            class: None,
            because: None,
            ways: Vec::new(),
        };
        complete(&flow, &mut status);
        status
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

/// The ways of a flow, the one with most first; `name` gives the name of a channel's number.
pub(super) fn ways(ways: &[WayReport], name: impl Fn(usize) -> String) -> Vec<WayStatus> {
    let lately: u64 = ways.iter().map(|way| way.last_second).sum();
    let all: u64 = ways.iter().map(|way| way.bytes).sum();
    let share = |way: &WayReport| match (lately, all) {
        (0, 0) => 0.0,
        (0, all) => way.bytes as f64 / all as f64,
        (lately, _) => way.last_second as f64 / lately as f64,
    };
    let mut told: Vec<WayStatus> = ways
        .iter()
        .map(|way| WayStatus {
            channel: name(way.way),
            mbit: mbit(way.last_second),
            bytes: way.bytes,
            share: share(way),
        })
        .collect();
    told.sort_by(|a, b| b.share.total_cmp(&a.share));
    told
}

fn mbit(bytes_in_a_second: u64) -> f64 {
    bytes_in_a_second as f64 * 8.0 / 1e6
}

fn wait(quantiles: Quantiles) -> WaitStatus {
    let ms = |span: Option<Span>| span.map(|span| span.as_secs_f64() * 1e3);
    WaitStatus { packets: quantiles.packets, median_ms: ms(quantiles.median), p99_ms: ms(quantiles.p99) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_last_second_and_of_all_where_nothing_was_sent_in_it() {
        let told = |reports: &[(usize, u64, u64)]| {
            let reports: Vec<WayReport> =
                reports.iter().map(|&(way, bytes, last_second)| WayReport { way, bytes, last_second }).collect();
            let told = ways(&reports, |way| format!("c{way}"));
            told.into_iter().map(|way| (way.channel, way.mbit, way.bytes, way.share)).collect::<Vec<_>>()
        };
        let [few, many] = [("c0".to_owned(), 2.0, 1_000_000, 0.25), ("c3".to_owned(), 6.0, 750_000, 0.75)];
        assert_eq!(told(&[(0, 1_000_000, 250_000), (3, 750_000, 750_000)]), [many, few], "the one with most first");
        let quiet = told(&[(1, 300, 0), (2, 100, 0)]);
        assert_eq!(quiet, [("c1".to_owned(), 0.0, 300, 0.75), ("c2".to_owned(), 0.0, 100, 0.25)]);
        assert_eq!(told(&[]), []);
    }
}
