//! What an event costs with more and more flows: a cost that grows would make large networks slower than their traffic.
//!
//! The traffic is the same in all, shared out among the flows, so that the number of events is about the same too. Each
//! point is a run of one simulated second and a run of two: the difference in processor time is what the second second's
//! events cost, and the rest of the first is what it takes to read the scenario, build the network and report it.

use super::own::Own;
use crate::measure::median;
use crate::testbed::Interrupt;
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;

/// Flows of each point.
const FLOWS: [u32; 5] = [10, 100, 1_000, 10_000, 100_000];
/// All flows' rate together, in kbit/s.
const TOTAL_KBIT: u32 = 4_000_000;
/// Runs of each point.
const RUNS: usize = 3;

/// One point of the curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Point {
    /// `constant` (datagrams at a constant rate) or `tcp`.
    traffic: &'static str,
    flows: u32,
    /// Of the second that counts.
    events: u64,
    /// Processor time for each of them.
    ns_per_event: f64,
    /// Processor time that is not for events.
    setup_s: f64,
    /// Of the longer run.
    peak_mb: f64,
}

impl Point {
    /// The row of the table.
    pub(crate) fn cells(&self) -> [String; 6] {
        [
            self.traffic.to_owned(),
            self.flows.to_string(),
            self.events.to_string(),
            format!("{:.0}", self.ns_per_event),
            format!("{:.3}", self.setup_s),
            format!("{:.1}", self.peak_mb),
        ]
    }
}

/// Measures the curve.
pub(crate) fn measure(own: &Own, directory: &Path, interrupt: &Interrupt) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    for traffic in ["constant", "tcp"] {
        for flows in FLOWS {
            let [short, long] = [1, 2].map(|seconds| {
                let file = directory.join(format!("{traffic}-{flows}-{seconds}.toml"));
                std::fs::write(&file, scenario(traffic, flows, seconds)).map(|()| file)
            });
            let (short, long) = (short?, long?);
            let (mut costs, mut rests, mut peaks, mut events) = (Vec::new(), Vec::new(), Vec::new(), 0);
            for _ in 0..RUNS {
                interrupt.check()?;
                let (short, long) = (own.run(&short)?, own.run(&long)?);
                let first = told_events(&short.output)?;
                events = told_events(&long.output)?.checked_sub(first).filter(|&n| n > 0).context("no more events")?;
                let cost = (long.cpu_s - short.cpu_s) / events as f64;
                costs.push(cost);
                rests.push((short.cpu_s - cost * first as f64).max(0.0));
                peaks.push(long.peak_mb);
            }
            let median_of = |values: &[f64]| median(values).context("no sample");
            let (setup_s, peak_mb) = (median_of(&rests)?, median_of(&peaks)?);
            let ns_per_event = median_of(&costs)? * 1e9;
            eprintln!("{flows:>7} flows, {traffic:<8} {ns_per_event:6.0} ns an event, {events} events");
            let rounded = |value: f64, digits: f64| (value * digits).round() / digits;
            points.push(Point {
                traffic,
                flows,
                events,
                ns_per_event: rounded(ns_per_event, 10.0),
                setup_s: rounded(setup_s, 1e4),
                peak_mb: rounded(peak_mb, 100.0),
            });
        }
    }
    Ok(points)
}

/// The events that a summary tells of. The JSON document of 100,000 flows would make this process large, and every child
/// of it look large with it.
fn told_events(summary: &str) -> Result<u64> {
    let mut words = summary.lines().rev().flat_map(|line| line.split_whitespace().rev());
    words.find(|&word| word == "events").context("a summary without events")?;
    words.next().and_then(|number| number.parse().ok()).context("a summary without a number of events")
}

/// Senders, each with a link of its own to a router, and one link from there to the receiver.
fn scenario(traffic: &str, flows: u32, seconds: u32) -> String {
    let flow = match traffic {
        "tcp" => "kind = \"ftp\"\ntcp = { preset = \"rfc\", mss = 1460 }".to_owned(),
        _ => format!("kind = \"constant\"\nsize = \"1000B\"\nrate = \"{}kbit\"", TOTAL_KBIT / flows),
    };
    // Connections begin one after the other, in the second that does not count.
    let spread = if traffic == "tcp" { "spread = \"500ms\"\n" } else { "" };
    format!(
        "title = \"{flows} flows\"\nduration = \"{seconds}s\"\n\n\
         [[node]]\nname = \"s#\"\ncount = {flows}\n\n\
         [[node]]\nname = \"router\"\nkind = \"router\"\n\n\
         [[node]]\nname = \"receiver\"\n\n\
         [[link]]\nname = \"access#\"\nfrom = \"s#\"\nto = \"router\"\ncount = {flows}\nrate = \"1Gbit\"\ndelay = \"2ms\"\n\n\
         [[link]]\nname = \"core\"\nfrom = \"router\"\nto = \"receiver\"\nrate = \"{TOTAL_KBIT}kbit\"\ndelay = \"8ms\"\n\
         queue = \"5MB\"\n\n\
         [[flow]]\nname = \"f#\"\nfrom = \"s#\"\nto = \"receiver\"\ncount = {flows}\n{flow}\n{spread}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_events_is_read_off_the_summary() {
        let summary =
            "goodput 1 Mbit/s\n7 packets sent\nseed 1, log hash c8780cab663d723c, 460924 events\n| value | ours |\n";
        assert_eq!(told_events(summary).unwrap(), 460_924);
        assert!(told_events("nothing of the kind").is_err());
        assert!(told_events("many events").is_err());
    }
}
