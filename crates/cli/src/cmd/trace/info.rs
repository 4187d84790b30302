//! `fairspan trace info`: what captures hold.

use super::flows::{packets, skipped};
use super::input::{Files, Sink, Tell};
use crate::exit::Outcome;
use crate::report::text::{quantity, row, table};
use anyhow::Result;
use fairspan_trace::capture::{CaptureError, Captured};
use fairspan_trace::info::{Info, Volume};
use serde_json::{Map, Value, json};
use std::io::{BufWriter, Write};

/// Say what captures hold: packets, bytes, protocols, sizes, time, rates of arrival
///
/// Bytes are those on the wire, also where only the beginning of each packet was captured.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: Files,
    /// Print one JSON document, on one line, on standard output
    #[arg(long)]
    json: bool,
}

impl Sink for Info {
    fn packet(&mut self, packet: &Captured<'_>) {
        Info::packet(self, packet);
    }

    fn unreadable(&mut self, error: &CaptureError) {
        Info::unreadable(self, error);
    }
}

pub(super) fn run(args: &Args) -> Result<Outcome> {
    let mut info = Info::default();
    let ended = args.files.read(&mut info, Tell::User)?;
    if args.json {
        println!("{}", document(&info));
    } else {
        print(&info)?;
    }
    ended.outcome()
}

/// A protocol's name, where it is often met.
fn protocol(number: u8) -> String {
    let name = match number {
        0 => "hop-by-hop",
        1 => "icmp",
        2 => "igmp",
        4 => "ip-in-ip",
        6 => "tcp",
        17 => "udp",
        33 => "dccp",
        41 => "ipv6-in-ip",
        44 => "fragment",
        47 => "gre",
        50 => "esp",
        51 => "ah",
        58 => "icmpv6",
        89 => "ospf",
        103 => "pim",
        112 => "vrrp",
        132 => "sctp",
        136 => "udp-lite",
        _ => return number.to_string(),
    };
    name.to_owned()
}

/// Seconds between the first packet and the last one.
fn span(info: &Info) -> f64 {
    info.times().map_or(0.0, |(first, last)| last.saturating_sub(first) as f64 / 1e9)
}

const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];

fn document(info: &Info) -> Value {
    let volume = |volume: Volume| json!({"packets": volume.packets, "bytes": volume.bytes});
    let all = info.all();
    let [v4, v6] = info.versions();
    let protocols: Map<String, Value> = info.protocols().map(|(n, one)| (protocol(n), volume(one))).collect();
    let link_types: Map<String, Value> = info.link_types().map(|(n, one)| (n.to_string(), volume(one))).collect();
    let (min, max) = info.extremes().unzip();
    let mut sizes = Map::from_iter([("min".to_owned(), json!(min)), ("max".to_owned(), json!(max))]);
    sizes.insert("mean".into(), json!((all.packets > 0).then(|| all.bytes as f64 / all.packets as f64)));
    sizes.extend(PERCENTILES.map(|(name, share)| (name.to_owned(), json!(info.percentile(share)))));
    let second = |nanoseconds: i64| nanoseconds as f64 / 1e9;
    let rate = |amount: u64| (span(info) > 0.0).then(|| amount as f64 / span(info));
    json!({
        "packets": info.tally().packets,
        "classified": info.tally().classified,
        "skipped": skipped(info.tally()),
        "bytes": all.bytes,
        "snapped": info.snapped(),
        "first_s": info.times().map(|(first, _)| second(first)),
        "last_s": info.times().map(|(_, last)| second(last)),
        "span_s": span(info),
        "ipv4": volume(v4),
        "ipv6": volume(v6),
        "fragments": info.fragments(),
        "protocols": protocols,
        "link_types": link_types,
        "sizes": sizes,
        "rates": {
            "mean_packets_s": rate(all.packets),
            "mean_bit_s": rate(8 * all.bytes),
            "busiest_second_packets": info.busiest().packets,
            "busiest_second_bytes": info.busiest().bytes,
        },
    })
}

fn print(info: &Info) -> std::io::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let all = info.all();
    writeln!(out, "{}", packets(info.tally()))?;
    writeln!(out, "{} bytes on the wire; of {} packets only the beginning was captured", all.bytes, info.snapped())?;
    if let (Some((first, last)), Some((least, most))) = (info.times(), info.extremes()) {
        writeln!(
            out,
            "time: {:.6} s, from {:.6} to {:.6} s since 1970",
            span(info),
            first as f64 / 1e9,
            last as f64 / 1e9
        )?;
        let percentiles: Vec<String> = PERCENTILES
            .iter()
            .filter_map(|(name, share)| Some(format!("{name} {}", info.percentile(*share)?)))
            .collect();
        let mean = all.bytes as f64 / all.packets.max(1) as f64;
        writeln!(out, "sizes: {least} to {most} bytes, mean {mean:.1}, {}", percentiles.join(", "))?;
        let busiest = info.busiest();
        writeln!(
            out,
            "rates: busiest second {} packets, {}; mean {:.1} packets/s, {}",
            busiest.packets,
            quantity(8.0 * busiest.bytes as f64, "bit/s"),
            all.packets as f64 / span(info).max(1e-9),
            quantity(8.0 * all.bytes as f64 / span(info).max(1e-9), "bit/s")
        )?;
    }
    let mut lines = table(&["what", "packets", "share", "bytes"].map(str::to_owned));
    let mut add = |what: String, volume: Volume| {
        let share = 100.0 * volume.packets as f64 / all.packets.max(1) as f64;
        lines.add_row(row(&[what, volume.packets.to_string(), format!("{share:.2} %"), volume.bytes.to_string()]));
    };
    let [v4, v6] = info.versions();
    add("IPv4".into(), v4);
    add("IPv6".into(), v6);
    info.protocols().for_each(|(number, volume)| add(protocol(number), volume));
    info.link_types().for_each(|(number, volume)| add(format!("link type {number}"), volume));
    writeln!(out, "{lines}")?;
    writeln!(out, "fragments: {} packets", info.fragments())?;
    out.flush()
}
