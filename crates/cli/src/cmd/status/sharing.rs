//! How flows share a queue, for people.

use super::table::table;
use fairspan_live::status::{FlowStatus, QueueStatus, SharingStatus, WaitStatus, WayStatus};

/// So many flows of a peer are shown; `--json` has more.
const FLOWS: usize = 5;

/// What waits for the channels of a peer, and whose it is.
pub(super) fn show_queue(queue: &QueueStatus) {
    let QueueStatus { discipline, buffer, waiting_packets, waiting_bytes, sharing } = queue;
    println!("  queue ({discipline}, {buffer}): {waiting_packets} packets wait, {:.1} kB", *waiting_bytes as f64 / 1e3);
    if let Some(sharing) = sharing.as_ref().filter(|sharing| !sharing.flows.is_empty()) {
        println!("  {}", shares(sharing));
        show_flows(sharing, FLOWS);
    }
}

/// In words.
pub(super) fn shares(sharing: &SharingStatus) -> String {
    let index = |index: Option<f64>| index.map_or_else(|| "-".to_owned(), |index| format!("{index:.3}"));
    format!(
        "active flows: {} (Jain's index {}), backlogged: {} ({})\n  waits: {}; of sparse packets: {}",
        sharing.active_flows,
        index(sharing.jain),
        sharing.backlogged_flows,
        index(sharing.backlogged_jain),
        wait(&sharing.delay),
        wait(&sharing.sparse_delay),
    )
}

/// At most so many flows.
pub(super) fn show_flows(sharing: &SharingStatus, most: usize) {
    if sharing.flows.is_empty() {
        return;
    }
    let shown = &sharing.flows[..most.min(sharing.flows.len())];
    let has_ways = shown.iter().any(|flow| flow.class.is_some());
    let mut flows = match has_ways {
        true => table(["flow", "Mbit/s", "packets", "MB", "dropped", "marked", "waiting", "class", "goes by"]),
        false => table(["flow", "Mbit/s", "packets", "MB", "dropped", "marked", "waiting"]),
    };
    for flow in shown {
        let numbers = [
            flow.flow.clone(),
            format!("{:.3}", flow.mbit),
            flow.packets.to_string(),
            format!("{:.3}", flow.bytes as f64 / 1e6),
            flow.dropped.to_string(),
            flow.marked.to_string(),
            flow.waiting.to_string(),
        ];
        flows.add_row(numbers.into_iter().chain(has_ways.then(|| way(flow)).into_iter().flatten()));
    }
    println!("{flows}");
}

fn way(flow: &FlowStatus) -> [String; 2] {
    [flow.class.clone().unwrap_or_else(|| "-".to_owned()), ways(&flow.ways)]
}

/// The channels of a flow with their shares; of less than half a per cent none.
pub(crate) fn ways(ways: &[WayStatus]) -> String {
    let told = ways.iter().filter(|way| way.share >= 0.005);
    told.map(|way| format!("{} {:.0} %", way.channel, way.share * 100.0)).collect::<Vec<_>>().join(", ")
}

fn wait(wait: &WaitStatus) -> String {
    match (wait.median_ms, wait.p99_ms) {
        (Some(median), Some(p99)) => format!("median {median:.2} ms, 99 % {p99:.2} ms"),
        _ => "-".to_owned(),
    }
}
