//! A shaper, for people.

use super::sharing::{shares, show_flows};
use super::table::{show_counters, table};
use fairspan_live::status::{ShapeDirectionStatus, ShapeStatus};

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
    println!("\n  {} > {}: {}", direction.from, direction.to, shares(&direction.sharing));
    show_flows(&direction.sharing, usize::MAX);
    show_counters("  drops and events", &direction.counters);
}
