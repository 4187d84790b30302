//! A shaper, for people.

use super::table::{show_counters, table};
use fairspan_live::status::{ShapeDelayStatus, ShapeDirectionStatus, ShapeStatus};

/// Both directions: what waits, for how long, who sends how much, and what was dropped and why.
pub(in crate::cmd) fn show(shape: &ShapeStatus) {
    println!("\n  shaper: {}", if shape.up { "up" } else { "down" });
    let mut directions = table([
        "from",
        "to",
        "state",
        "rate Mbit/s",
        "discipline",
        "buffer",
        "sent packets",
        "sent MB",
        "dropped",
        "marked",
        "waiting kB",
    ]);
    for direction in &shape.directions {
        let count = |name| direction.counters.get(name).copied().unwrap_or(0);
        let dropped = direction.counters.iter().filter(|(name, _)| name.starts_with("dropped_"));
        directions.add_row([
            direction.from.clone(),
            direction.to.clone(),
            direction.state.to_string(),
            format!("{:.3}", direction.rate_mbit),
            direction.discipline.clone(),
            direction.buffer.clone(),
            count("sent").to_string(),
            format!("{:.3}", count("sent_bytes") as f64 / 1e6),
            dropped.map(|(_, n)| n).sum::<u64>().to_string(),
            count("marked").to_string(),
            format!("{:.1}", direction.waiting_bytes as f64 / 1e3),
        ]);
    }
    println!("{directions}");
    for direction in &shape.directions {
        show_direction(direction);
    }
}

fn show_direction(direction: &ShapeDirectionStatus) {
    let index = |index: Option<f64>| index.map_or_else(|| "-".to_owned(), |index| format!("{index:.3}"));
    println!(
        "\n  {} > {}: {} active flows (Jain's index {}), {} of them backlogged ({})",
        direction.from,
        direction.to,
        direction.active_flows,
        index(direction.jain),
        direction.backlogged_flows,
        index(direction.backlogged_jain),
    );
    println!("  waits: {}; of sparse packets: {}", delay(&direction.delay), delay(&direction.sparse_delay));
    if !direction.flows.is_empty() {
        let mut flows = table(["flow", "Mbit/s", "packets", "MB", "dropped", "marked", "waiting"]);
        for flow in &direction.flows {
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
    show_counters("  drops and events", &direction.counters);
}

fn delay(delay: &ShapeDelayStatus) -> String {
    match (delay.median_ms, delay.p99_ms) {
        (Some(median), Some(p99)) => format!("median {median:.2} ms, 99 % {p99:.2} ms"),
        _ => "-".to_owned(),
    }
}
