//! A ring's node, for people.

use super::table::{show_counters, table};
use fairspan_live::status::{RingLinkStatus, RingStatus};

/// Its links, the whole ring, and its limits.
pub(super) fn show(ring: &RingStatus) {
    let whole = if ring.whole { "whole" } else { "broken" };
    println!(
        "\n  node {} of {} ({}, a control message every {} ms, {}): the ring is {whole}",
        ring.node, ring.nodes, ring.algorithm, ring.interval_ms, ring.protection
    );
    let mut links = table(["link", "node", "state", "remote", "rate Mbit/s", "sent MB", "received MB", "control sent"]);
    for link in &ring.links {
        links.add_row(link_row(link));
    }
    println!("{links}");
    for link in &ring.links {
        if let Some(reason) = &link.reason {
            println!("  {}: {reason}", link.side);
        }
    }
    let mut stations = table(["node", "east", "west", "weight", "networks"]);
    for station in &ring.stations {
        let way = |up, mbit: f64| if up { format!("{mbit:.1}") } else { "down".to_owned() };
        let mark = match station.number {
            n if n == ring.node => " (here)",
            _ if station.reachable => "",
            _ => " (cut off)",
        };
        let networks =
            station.networks.iter().map(|n| format!("{}{}", n.network, if n.learnt { " learnt" } else { "" }));
        let refused = station.refused.iter().map(|network| format!("{network} refused"));
        stations.add_row([
            format!("{}{mark}", station.number),
            way(station.east_up, station.east_mbit),
            way(station.west_up, station.west_mbit),
            station.weight.to_string(),
            networks.chain(refused).collect::<Vec<_>>().join(", "),
        ]);
    }
    println!("{stations}");
    for ringlet in &ring.ringlets {
        let mut rates = table(["to", "limit Mbit/s", "waiting kB"]);
        for limit in &ringlet.limits {
            rates.add_row([
                limit.to.to_string(),
                limit.rate_mbit.map_or_else(|| "none".to_owned(), |rate| format!("{rate:.2}")),
                format!("{:.1}", limit.backlog_bytes as f64 / 1e3),
            ]);
        }
        println!("\n  ringlet {}", ringlet.ringlet);
        println!("{rates}");
        let fair = ringlet.fair.iter().map(|fair| format!("{} {:.2} (0x{:02X})", fair.node, fair.rate_mbit, fair.byte));
        let fair: Vec<String> = fair.collect();
        if !fair.is_empty() {
            println!("  fair rates by node, Mbit/s: {}", fair.join(", "));
        }
    }
    show_counters("\n  drops and events", &ring.counters);
}

fn link_row(link: &RingLinkStatus) -> Vec<String> {
    let count = |name| link.counters.get(name).copied().unwrap_or(0);
    let megabytes = |name| format!("{:.3}", count(name) as f64 / 1e6);
    vec![
        link.side.clone(),
        link.neighbour.to_string(),
        link.state.to_string(),
        link.remote.clone().unwrap_or_else(|| "-".into()),
        format!("{:.1}", link.rate_mbit),
        megabytes("data_sent_bytes"),
        megabytes("data_received_bytes"),
        count("control_sent").to_string(),
    ]
}
