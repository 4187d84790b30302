//! Chapter 3's question with the senders and the policies of today: CUBIC and SACK, sources that do not adapt (RFC 7928, 5.4), 2 to
//! 1000 connections; PFD beside CoDel, PIE and fq_codel. The paper claims nothing of them, so nothing is judged.

use super::points::{BUFFER, JAIN, MBIT, QUEUE};
use crate::claims::Bench;
use crate::claims::bench::FigureRun;
use crate::claims::evidence::{Cell, Evidence};
use crate::claims::finding::Curve;

const DISCIPLINE: &str = "link.bottleneck.discipline";
/// A queue discipline, a buffer policy, and what both are called together.
const RIVALS: [(&str, &str, &str); 7] = [
    ("fifo", "drop-tail", "FIFO, drop-tail"),
    ("fifo", "codel", "FIFO, CoDel"),
    ("fifo", "pie", "FIFO, PIE"),
    ("flow-queue", "codel", "fq_codel"),
    ("sfq", "longest-queue-front", "SFQ, LQD"),
    ("sfq", "pfd", "SFQ, PFD"),
    ("sfq", "pfd-adaptive", "SFQ, adaptive PFD"),
];

/// A line for each rival at each value of `by`: the metrics with their factors.
fn table(
    run: &FigureRun,
    of: &str,
    (by, values): (&str, &[(&str, &str)]),
    metrics: &[(&str, &str, f64)],
) -> anyhow::Result<Evidence> {
    let columns = metrics.iter().map(|(name, ..)| *name).collect::<Vec<_>>();
    let mut table = Evidence::new(format!("{of}, {} seeds", run.file.seeds().len()), &columns);
    let curves = metrics.iter().map(|(_, metric, _)| Curve::of(run, metric)).collect::<anyhow::Result<Vec<_>>>()?;
    for (value, name) in values {
        for (discipline, policy, rival) in RIVALS {
            let at = [(by, *value), (DISCIPLINE, discipline), (BUFFER, policy)];
            let cells = curves.iter().zip(metrics).map(|(curve, (.., factor))| curve.cell(&at, *factor));
            table.line(format!("{name}: {rival}"), false, cells.collect::<Vec<Cell>>());
        }
    }
    Ok(table)
}

/// The tables of all four scenarios.
pub(super) fn tables(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let ten = "ten connections of 20 to 200 ms with CUBIC and SACK over 2 Mbit/s, 500 s";
    let carried = ("goodput, Mbit/s", "goodput", MBIT);
    let jain = (JAIN, "jain", 1.0);
    // Bytes at so many bits a second, in ms.
    let waits = |rate: f64| ("mean queue, ms", "link.bottleneck.queue_mean", 8e3 / rate);
    let buffers = ["25ms", "50ms", "100ms", "200ms", "500ms"].map(|buffer| (buffer, buffer));
    let cubic = bench.figure("gateway.cubic")?;
    let mut found =
        vec![table(&cubic, &format!("gateway.cubic: {ten}"), (QUEUE, &buffers), &[carried, jain, waits(2e6)])?];

    let beside = bench.figure("gateway.unresponsive")?;
    let rates = [("250kbit", "a quarter of the link"), ("1Mbit", "all of the link")];
    let metrics = [
        ("goodput of the ten, Mbit/s", "sum(flow.f*.goodput)", MBIT),
        ("Jain's index of all twelve", "jain", 1.0),
        ("of the datagrams arrive, Mbit/s", "sum(flow.udp*.throughput)", MBIT),
        waits(2e6),
    ];
    let of =
        format!("gateway.unresponsive: {ten}, 100 ms of buffer, beside two sources of datagrams that offer together");
    found.push(table(&beside, &of, ("flow.udp#.rate", &rates), &metrics)?);

    let near = "flow.near#.count";
    let counts = [("1", "2"), ("5", "10"), ("25", "50"), ("100", "200"), ("500", "1000")];
    let hundred = "connections, half of 20 and half of 200 ms, with CUBIC and SACK over 100 Mbit/s, 60 s after 20";
    let many = bench.figure("gateway.many")?;
    found.push(table(&many, &format!("gateway.many: {hundred}"), (near, &counts), &[carried, jain, waits(1e8)])?);

    let many = bench.figure("gateway.many-unresponsive")?;
    let metrics = [
        ("goodput of TCP, Mbit/s", "sum(flow.near*.goodput) + sum(flow.far*.goodput)", MBIT),
        ("Jain's index of all flows", "jain", 1.0),
        ("of the datagrams arrive, Mbit/s", "sum(flow.udp*.throughput)", MBIT),
        waits(1e8),
    ];
    let of =
        format!("gateway.many-unresponsive: {hundred}, beside ten sources of datagrams that offer 25 Mbit/s together");
    found.push(table(&many, &of, (near, &counts), &metrics)?);
    Ok(found)
}
