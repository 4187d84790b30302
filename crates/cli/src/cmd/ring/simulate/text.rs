//! A simulation for people: what each flow received beside what is fair, and how the limiters got there.

use super::outcome::Outcome;
use super::setup::Setup;
use crate::report::short;
use crate::report::text::{row, table};
use fairspan_core::ring::algorithm::Algorithm;
use std::fmt::Write as _;

/// Flows that are shown one by one.
const MOST_FLOWS: usize = 40;

/// All of it.
pub(super) fn summary(setup: &Setup, algorithm: &Algorithm, outcome: &Outcome) -> String {
    let unit = setup.unit.name;
    let mut text = format!(
        "{algorithm} on {} nodes, {} s; rates in {unit}, over the second half of the time after the last start or stop\n\n",
        setup.problem.nodes(),
        short(setup.duration_ns as f64 / 1e9)
    );
    let head = ["flow", "offered", "limit", "received", "RIAS", "off"].map(str::to_owned);
    let mut flows = table(&head);
    for (index, flow) in setup.problem.flows().iter().enumerate().take(MOST_FLOWS) {
        let offered = &setup.flows[index];
        let fair = setup.fair.as_ref().map(|fair| fair[index]);
        let cells = [
            format!("{} to {}", flow.from, flow.to),
            if offered.tcp { "TCP".to_owned() } else { short(offered.rate as f64 / setup.unit.bits) },
            outcome.limits[index].map_or("none".to_owned(), short),
            short(outcome.rates[index]),
            fair.map_or("-".to_owned(), short),
            fair.map_or("-".to_owned(), |fair| off(outcome.rates[index], fair)),
        ];
        flows.add_row(row(&cells));
    }
    let _ = writeln!(text, "{flows}");
    if setup.flows.len() > MOST_FLOWS {
        let _ = writeln!(text, "and {} flows more", setup.flows.len() - MOST_FLOWS);
    }
    let mut links = table(&["link", "ringlet 0", "ringlet 1"].map(str::to_owned));
    for (link, loads) in &outcome.utilisation {
        if loads.iter().any(|load| *load > 0.0) {
            links.add_row(row(&[link.to_string(), percent(loads[0]), percent(loads[1])]));
        }
    }
    let _ = writeln!(text, "\nLinks used\n{links}\n");
    let converged = match (outcome.converged_ms, outcome.oscillation) {
        (_, None) => "There are no limiters.".to_owned(),
        (Some(ms), _) => format!("All limiters stay within 1 % of their means after {} ms.", short(ms)),
        (None, _) => "The limiters have not settled within 1 % of their means.".to_owned(),
    };
    let swing = outcome.oscillation.map_or(String::new(), |swing| {
        format!(" The widest swing of a limiter is {} % of the capacity.", short(100.0 * swing))
    });
    let _ = writeln!(text, "{converged}{swing} {} control messages.", outcome.control_messages);
    text
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// How far a rate is from the fair one, of that.
fn off(rate: f64, fair: f64) -> String {
    if fair == 0.0 { "-".to_owned() } else { format!("{:+.2} %", 100.0 * (rate / fair - 1.0)) }
}
