//! How flows share a queue, for people.

use super::table::table;
use fairspan_live::status::{QueueStatus, SharingStatus, WaitStatus};

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
    let mut flows = table(["flow", "Mbit/s", "packets", "MB", "dropped", "marked", "waiting"]);
    for flow in sharing.flows.iter().take(most) {
        flows.add_row([
            flow.flow.clone(),
            format!("{:.3}", flow.mbit),
            flow.packets.to_string(),
            format!("{:.3}", flow.bytes as f64 / 1e6),
            flow.dropped.to_string(),
            flow.marked.to_string(),
            flow.waiting.to_string(),
        ]);
    }
    println!("{flows}");
}

fn wait(wait: &WaitStatus) -> String {
    match (wait.median_ms, wait.p99_ms) {
        (Some(median), Some(p99)) => format!("median {median:.2} ms, 99 % {p99:.2} ms"),
        _ => "-".to_owned(),
    }
}
