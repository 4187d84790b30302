//! What people read on a terminal.

use super::answer::{About, Answered};
use crate::report::short;
use crate::report::text::{Rows, quantity};
use fairspan_core::quantity::show_rate;
use fairspan_core::set::LinkSet;
use fairspan_core::units::Span;
use fairspan_trace::select::{LinkReport, Report};
use std::io::{BufWriter, Write};

/// More links than this get a table of their own.
const BESIDE: usize = 6;

/// Prints the links of each packet, where they were asked for, and the tables.
pub(super) fn print(about: &About<'_>, answered: &mut [Answered<'_>]) -> std::io::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let traces: Vec<(String, Vec<LinkSet>)> = answered
        .iter_mut()
        .filter_map(|answered| {
            let sets = answered.outcome.as_mut().ok()?.assignments.take()?;
            Some((answered.asked.text.clone(), sets))
        })
        .collect();
    if !traces.is_empty() {
        trace(&mut out, about, &traces)?;
    }
    let reports: Vec<(&str, &Report)> =
        answered.iter().filter_map(|a| Some((a.asked.text.as_str(), a.outcome.as_ref().ok()?))).collect();
    writeln!(out, "{}", head(about))?;
    if about.links.as_slice().len() > BESIDE {
        write!(out, "{}", loads(about, &reports).text())?;
    }
    write!(out, "{}", summary(about, &reports).text())?;
    writeln!(out, "load difference: largest less smallest share of the packets; reordered: share of the packets that")?;
    writeln!(out, "arrive after a later one of their flow; a burst is packets of a flow in a row on one link")?;
    out.flush()
}

/// A line for each packet: its place, its time, its length, and its link by each policy.
fn trace(out: &mut impl Write, about: &About<'_>, traces: &[(String, Vec<LinkSet>)]) -> std::io::Result<()> {
    let names: Vec<&str> = traces.iter().map(|(name, _)| name.as_str()).collect();
    writeln!(out, "# packet time_s bytes {}", names.join(" "))?;
    for packet in about.traffic.packets() {
        write!(out, "{} {:.9} {}", packet.place(), packet.time().as_secs_f64(), packet.frame().len)?;
        for (_, sets) in traces {
            let mut links = sets[packet.place()].iter().map(|link| link.0.to_string());
            let first = links.next().unwrap_or_else(|| "-".to_owned());
            write!(out, " {}", links.fold(first, |all, link| all + "," + &link))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn head(about: &About<'_>) -> String {
    let traffic = about.traffic;
    let link = |link: &fairspan_trace::select::LinkSpec| {
        let delay = if link.delay == Span::ZERO { String::new() } else { format!(", {}", seconds(link.delay)) };
        format!("{} ({}{delay})", link.name, show_rate(link.rate))
    };
    let links = about.links.as_slice();
    let equal = links.iter().all(|other| (other.rate, other.delay) == (links[0].rate, links[0].delay));
    let shown = match links {
        [first, _, ..] if equal => {
            let delay = if first.delay == Span::ZERO { String::new() } else { format!(", {}", seconds(first.delay)) };
            format!("{} links, each {}{delay}", links.len(), show_rate(first.rate))
        }
        _ => links.iter().map(link).collect::<Vec<_>>().join(", "),
    };
    format!(
        "{}: {} packets of {} flows in {}, over {shown}",
        about.files.join(", "),
        traffic.packets().len(),
        traffic.flows(),
        seconds(traffic.duration()),
    )
}

fn seconds(span: Span) -> String {
    quantity(span.as_secs_f64(), "s")
}

fn percent(share: f64) -> String {
    format!("{} %", short(100.0 * share))
}

/// One row for each policy.
fn summary(about: &About<'_>, reports: &[(&str, &Report)]) -> Rows {
    let links = about.links.as_slice();
    let mut head = vec!["policy".to_owned()];
    if links.len() <= BESIDE {
        head.extend(links.iter().map(|link| format!("link {}\npackets\nbytes", link.name)));
    }
    head.extend(["load\ndifference", "flows\nsplit", "bursts", "reordered\npackets\nshare"].map(str::to_owned));
    let row = |(name, report): &(&str, &Report)| {
        let mut row = vec![(*name).to_owned()];
        if links.len() <= BESIDE {
            row.extend(report.links.iter().map(|l| format!("{}\n{}", l.packets, quantity(l.bytes as f64, "bytes"))));
        }
        row.push(percent(report.load_difference()));
        row.push(report.split.to_string());
        row.push(report.bursts.to_string());
        row.push(format!("{}\n{}", report.reordered, percent(report.reordered_share())));
        row
    };
    Rows { head, rows: reports.iter().map(row).collect(), more: 0 }
}

/// One row for each policy and link.
fn loads(about: &About<'_>, reports: &[(&str, &Report)]) -> Rows {
    let head = ["policy", "link", "packets", "share", "bytes", "busy", "longest\nwait"].map(str::to_owned).to_vec();
    let mut rows = Vec::new();
    for (name, report) in reports {
        let all: u64 = report.links.iter().map(|link| link.packets).sum();
        for (link, LinkReport { packets, bytes, busy, wait_max }) in about.links.as_slice().iter().zip(&report.links) {
            rows.push(vec![
                (*name).to_owned(),
                link.name.clone(),
                packets.to_string(),
                percent(*packets as f64 / all.max(1) as f64),
                quantity(*bytes as f64, "bytes"),
                seconds(*busy),
                seconds(*wait_max),
            ]);
        }
    }
    Rows { head, rows, more: 0 }
}
