//! A gateway that splits TCP connections, for people.

use super::sharing::show_queue;
use super::table::{show_counters, table};
use fairspan_live::status::{ConnectionSideStatus, GatewayStatus};

/// So many connections are shown; `--json` has more.
const CONNECTIONS: usize = 20;

/// What is split, what is not and why, what waits, and the busiest connections; `what` names the gateway.
pub(super) fn show(what: &str, gateway: &GatewayStatus) {
    let rate = gateway.rate_mbit.map_or_else(String::new, |rate| format!(" ({rate} Mbit/s)"));
    println!("\n  {what}: {}, long link {}{rate} {}", up(gateway.up), gateway.long, gateway.state);
    if let Some(problem) = &gateway.problem {
        println!("  it is tried again, as it is not what its file says: {problem}");
    }
    if let Some(proxy) = &gateway.proxy {
        println!("  proxy at {proxy}");
    }
    println!(
        "  connections: {} of at most {}, {} so far; being set up: {} of {}; refused by the far end: {}",
        gateway.open, gateway.most_open, gateway.opened, gateway.half_open, gateway.most_half_open, gateway.refused
    );
    println!(
        "  buffers may hold {:.1} MB of {:.1} MB",
        gateway.memory_bytes as f64 / 1e6,
        gateway.most_memory_bytes as f64 / 1e6
    );
    show_counters("  passed unsplit", &gateway.bypassed);
    gateway.queue.iter().for_each(show_queue);
    if !gateway.connections.is_empty() {
        println!("{}", connections(gateway));
    }
    show_counters("  drops and events", &gateway.counters);
}

fn up(up: bool) -> &'static str {
    if up { "up" } else { "down, all passes unsplit" }
}

fn connections(gateway: &GatewayStatus) -> impl std::fmt::Display {
    let mut table = table([
        "caller",
        "called",
        "by",
        "age s",
        "side",
        "Mbit/s to it",
        "rtt ms",
        "unsent kB",
        "congestion",
        "limited by",
    ]);
    for connection in gateway.connections.iter().take(CONNECTIONS) {
        let names = [connection.caller.clone(), connection.called.clone(), connection.by.clone()];
        let age = format!("{:.1}", connection.age_s);
        table.add_row(row([&names[0], &names[1], &names[2], &age], "caller", &connection.caller_side));
        table.add_row(row(["", "", "", ""], "called", &connection.called_side));
    }
    table
}

fn row(names: [&str; 4], which: &str, side: &ConnectionSideStatus) -> Vec<String> {
    let mut cells: Vec<String> = names.map(str::to_owned).to_vec();
    cells.extend([
        which.to_owned(),
        format!("{:.3}", side.rate_mbit),
        side.rtt_ms.map_or_else(|| "-".to_owned(), |rtt| format!("{rtt:.1}")),
        format!("{:.1}", side.unsent_bytes as f64 / 1e3),
        side.congestion.clone(),
        side.limited_by.map_or_else(|| "-".to_owned(), |limit| limit.to_string()),
    ]);
    cells
}
