//! What `--json` prints.

use super::answer::{About, Answered};
use fairspan_core::select::Policy;
use fairspan_core::set::LinkSet;
use fairspan_trace::select::Report;
use serde::{Serialize, Serializer};
use std::io::{BufWriter, Write};

#[derive(Serialize)]
struct Document<'a> {
    policies: Vec<Answer<'a>>,
    files: &'a [String],
    packets: usize,
    flows: usize,
    duration_s: f64,
    links: Vec<Link<'a>>,
    left_out: Vec<LeftOut>,
    problem: Option<String>,
}

#[derive(Serialize)]
struct Link<'a> {
    name: &'a str,
    rate: u64,
    delay: f64,
}

#[derive(Serialize)]
struct LeftOut {
    what: String,
    packets: Option<u64>,
    reason: String,
}

#[derive(Serialize)]
struct Answer<'a> {
    policy: &'a str,
    settings: String,
    links: Vec<Load>,
    load_difference: f64,
    byte_difference: f64,
    reordered: f64,
    reordered_packets: u64,
    forwarded: u64,
    held: u64,
    flows: u64,
    split: u64,
    bursts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    assignments: Option<Assignments<'a>>,
}

#[derive(Serialize)]
struct Load {
    packets: u64,
    bytes: u64,
    busy_s: f64,
    wait_max_s: f64,
}

/// A link's number, a list where there may be several, null where there is none.
struct Assignments<'a> {
    sets: &'a [LinkSet],
    copies: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Assignment {
    None(()),
    One(u8),
    Several(Vec<u8>),
}

impl Serialize for Assignments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.sets.iter().map(|set| match set.first() {
            None => Assignment::None(()),
            Some(link) if set.len() == 1 && !self.copies => Assignment::One(link.0),
            Some(_) => Assignment::Several(set.iter().map(|link| link.0).collect()),
        }))
    }
}

/// Prints the document on standard output.
pub(super) fn print(about: &About<'_>, answered: &[Answered<'_>]) -> anyhow::Result<()> {
    let links = about.links.as_slice().iter().map(|link| Link {
        name: &link.name,
        rate: link.rate.as_bits_per_sec(),
        delay: link.delay.as_secs_f64(),
    });
    let packets = about.traffic.left_out().iter().map(|(reason, &packets)| LeftOut {
        what: "packets".into(),
        packets: Some(packets),
        reason: reason.to_string(),
    });
    let policies = answered.iter().filter_map(|answered| {
        let reason = answered.outcome.as_ref().err()?;
        Some(LeftOut { what: answered.asked.text.clone(), packets: None, reason: reason.clone() })
    });
    let document = Document {
        policies: answered.iter().filter_map(answer).collect(),
        files: about.files,
        packets: about.traffic.places(),
        flows: about.traffic.flows(),
        duration_s: about.traffic.duration().as_secs_f64(),
        links: links.collect(),
        left_out: packets.chain(policies).collect(),
        problem: (!about.problems.is_empty()).then(|| about.problems.join("; ")),
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    serde_json::to_writer(&mut out, &document)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

fn answer<'a>(answered: &'a Answered<'a>) -> Option<Answer<'a>> {
    let report: &Report = answered.outcome.as_ref().ok()?;
    let load = |link: &fairspan_trace::select::LinkReport| Load {
        packets: link.packets,
        bytes: link.bytes,
        busy_s: link.busy.as_secs_f64(),
        wait_max_s: link.wait_max.as_secs_f64(),
    };
    let copies = matches!(answered.asked.settings.policy, Policy::Broadcast(_));
    Some(Answer {
        policy: &answered.asked.text,
        settings: answered.asked.settings.to_string(),
        links: report.links.iter().map(load).collect(),
        load_difference: report.load_difference(),
        byte_difference: report.byte_difference(),
        reordered: report.reordered_share(),
        reordered_packets: report.reordered,
        forwarded: report.forwarded,
        held: report.held,
        flows: report.flows,
        split: report.split,
        bursts: report.bursts,
        assignments: report.assignments.as_deref().map(|sets| Assignments { sets, copies }),
    })
}
