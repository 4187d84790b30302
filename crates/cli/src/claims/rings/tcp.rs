//! Figures 17 and 18: nodes that send TCP. One set of constants for both: ns-2's Reno of the time without its bound of 20 packets. What
//! other sets give stands beside the answers (rings.fig17-constants, rings.fig18-constants).

use super::simulated::{LINK, PARKING, map, off, rounded, spoken};
use crate::claims::bench::FigureRun;
use crate::claims::evidence::{Cell, Evidence};
use crate::claims::finding::{Curve, Finding};
use crate::claims::{Answer, Bench};
use fairspan_core::quantity::parse_bytes;
use fairspan_core::ring::problem::Problem;
use fairspan_core::ring::rias;
use serde_json::json;

const ALGORITHM: &str = "ring.ring.algorithm";
const PRESET: &str = "defaults.tcp.preset";
const LIMIT: &str = "defaults.tcp.window_limit";
/// Sets of TCP's constants: preset, bound of the window in packets, what it is.
const SETS: [(&str, &str, &str); 5] = [
    ("ns2-1999", "0", "ns-2's Reno, no bound on the window"),
    ("ns2-1999", "20", "ns-2's Reno, at most 20 packets"),
    ("ns2-1999", "100", "ns-2's Reno, at most 100 packets"),
    ("rfc", "0", "the RFCs' Reno with SACK and delayed ACKs"),
    ("linux", "0", "CUBIC, SACK, RACK; 0.2 s at least before a timeout"),
];
/// Rooms of the node's own queue, and the one that the paper's figure has.
const ROOMS: [&str; 6] = ["10kB", "20kB", "30kB", "40kB", "50kB", "200kB"];
const ROOM: &str = "200kB";
/// Four links of 0.1 ms and back, without any wait.
const ROUND_TRIP: f64 = 8.0 * 100e-6;

/// In how many round trips a share of the link carries what a queue has room for.
fn round_trips(room: &str, share: f64) -> anyhow::Result<f64> {
    Ok(8.0 * parse_bytes(room)?.as_u64() as f64 / (share * LINK * ROUND_TRIP))
}

/// What a node with so much to send has where three others offer 0.3 each: the fair share.
fn ideal() -> anyhow::Result<f64> {
    let mut problem = Problem::line(5, 1.0)?;
    let to = problem.node(5)?;
    for number in 1..=4 {
        let from = problem.node(number)?;
        problem.add(from, to, None, (number > 1).then_some(0.3))?;
    }
    Ok(rias::allocate(&problem)?.rates[0])
}

/// Figure 17: one node's TCP beside UDP.
pub(crate) fn isolation(bench: &mut Bench) -> anyhow::Result<Answer> {
    const COUNT: &str = "flow.tcp#.count";
    const TCP: &str = "sum(flow.tcp*.throughput)";
    let run = bench.figure("rings.fig17")?;
    let tcp = Curve::of(&run, TCP)?;
    let cell = |algorithm: &str, count: &str| tcp.cell(&[(ALGORITHM, algorithm), (COUNT, count)], 1.0 / LINK);
    let fair = ideal()?;
    let values = [
        ("dvsr_5_tcp", cell("dvsr", "5")),
        ("dvsr_20_tcp", cell("dvsr", "20")),
        ("gige_20_tcp", cell("fifo", "20")),
        ("ideal", Cell::exact(fair)),
    ];
    let ours = json!(
        values
            .map(|(key, cell)| (key.to_owned(), rounded(cell.mean())))
            .into_iter()
            .collect::<std::collections::BTreeMap<_, _>>()
    );
    let noise = values.iter().filter_map(|(key, cell)| Some(((*key).to_owned(), json!(cell.1?)))).collect();
    let mut measured = Evidence::new(
        format!(
            "rings.fig17: share of the node with so many connections, {} seeds, 5 s after three",
            run.file.seeds().len()
        ),
        &["DVSR", "GigE"],
    );
    for count in ["1", "2", "5", "10", "20", "30"] {
        measured.line(count, true, ["dvsr", "fifo"].map(|algorithm| cell(algorithm, count)).to_vec());
    }
    let rooms = bench.figure("rings.fig17-queue")?;
    let by_room = Curve::of(&rooms, TCP)?;
    let mut room = Evidence::new(
        "room of the node's own queue (rings.fig17-queue), DVSR; the paper has 200 kB queues",
        &["5 connections", "20 connections"],
    );
    for size in ROOMS {
        let at = |count| by_room.cell(&[("ring.ring.station_buffer", size), (COUNT, count)], 1.0 / LINK);
        room.line(size, size == ROOM, vec![at("5"), at("20")]);
    }
    let other = bench.figure("rings.fig17-constants")?;
    let curve = Curve::of(&other, TCP)?;
    let columns = ["DVSR, 5 connections", "DVSR, 20", "GigE, 20"];
    let constants = sets(&other, &columns, |at| {
        let of = |algorithm, count| curve.cell(&[at, &[(ALGORITHM, algorithm), (COUNT, count)]].concat(), 1.0 / LINK);
        vec![of("dvsr", "5"), of("dvsr", "20"), of("fifo", "20")]
    });
    let few = room.lines[0].cells[0].mean();
    let reason = format!(
        "rings.fig17, {} seeds, ns-2's Reno: DVSR gives five connections {:.4} and twenty {:.4}, GigE twenty {:.4}. The figure's rise with the number of \
         connections comes where the node's own queue is short: with {} there, {:.1} round trips of the fair share, five have {few:.3}; with {ROOM}, {:.1} \
         round trips, one has {:.4}. What TCP's constants make of it stands in the table",
        run.file.seeds().len(),
        values[0].1.mean(),
        values[1].1.mean(),
        values[2].1.mean(),
        ROOMS[0],
        round_trips(ROOMS[0], fair)?,
        round_trips(ROOM, fair)?,
        cell("dvsr", "1").mean(),
    );
    let answer = Answer::statement(true, reason).with(map(ours));
    Ok(Answer { noise, measured: vec![measured], sensitivity: vec![room, constants], ..answer })
}

/// A line for each set of TCP's constants.
fn sets(run: &FigureRun, columns: &[&str], cells: impl Fn(&[(&str, &str)]) -> Vec<Cell>) -> Evidence {
    let of = format!("TCP's constants ({}, {} seeds)", run.file.title(), run.file.seeds().len());
    let mut table = Evidence::new(of, columns);
    for (n, (preset, limit, what)) in SETS.into_iter().enumerate() {
        table.line(what, n == 0, cells(&[(PRESET, preset), (LIMIT, limit)]));
    }
    table
}

/// Shares of the four nodes at a point.
fn nodes(run: &FigureRun, at: &[(&str, &str)]) -> anyhow::Result<Vec<f64>> {
    let flows = ["one", "two", "three", "four"];
    let share = |flow: &&str| Ok(Curve::of(run, &format!("sum(flow.{flow}*.throughput)"))?.one(at) / LINK);
    flows.iter().map(share).collect()
}

/// Figure 18: all nodes send TCP.
pub(crate) fn microflows(bench: &mut Bench) -> anyhow::Result<Answer> {
    const COUNT: &str = "flow.one#.count";
    let run = bench.figure("rings.fig18")?;
    let of = |algorithm: &str, count: &str| nodes(&run, &[(ALGORITHM, algorithm), (COUNT, count)]);
    let (one, ten) = (of("dvsr", "1")?, of("dvsr", "10")?);
    let (gige_one, gige_ten) = (of("fifo", "1")?, of("fifo", "10")?);
    let mut finding = Finding::default();
    finding.check(favours_few_hops(&gige_one) && favours_few_hops(&gige_ten), || {
        "GigE does not favour the node with the fewest hops".to_owned()
    });
    let fair = 1.0 / PARKING.len() as f64;
    let mut measured = Evidence::new(
        format!("rings.fig18: shares, {} seeds, 5 s after three", run.file.seeds().len()),
        &["node 1", "node 2", "node 3", "node 4"],
    );
    for (name, shares) in
        [("DVSR, one connection", &one), ("DVSR, ten", &ten), ("GigE, one", &gige_one), ("GigE, ten", &gige_ten)]
    {
        measured.line(name, true, shares.iter().map(|share| Cell::exact(*share)).collect());
    }
    let other = bench.figure("rings.fig18-constants")?;
    let mut wrong = None;
    let columns = ["DVSR, one connection, largest deviation", "DVSR, ten", "GigE, ten: node 4 over node 1"];
    let constants = sets(&other, &columns, |at| {
        let shares = |algorithm, count| nodes(&other, &[at, &[(ALGORITHM, algorithm), (COUNT, count)]].concat());
        let deviation = |count| shares("dvsr", count).map_or(f64::NAN, |shares| off(&shares, fair));
        let favoured = shares("fifo", "10").map_or(f64::NAN, |shares| shares[3] / shares[0]);
        vec![Cell::exact(deviation("1")), Cell::exact(deviation("10")), Cell::exact(favoured)]
    });
    if constants.lines.iter().any(|line| line.cells.iter().any(|cell| cell.0.is_none())) {
        wrong = Some("a set of constants was not run");
    }
    finding.check(wrong.is_none(), || wrong.unwrap_or_default().to_owned());
    let ours = json!({
        "dvsr_largest_deviation_one_tcp": rounded(off(&one, fair)),
        "dvsr_largest_deviation_ten_tcp": rounded(off(&ten, fair)),
    });
    let told = format!(
        "rings.fig18, {} seeds, nodes 1 to 4: DVSR with one connection a node {}, with ten {}; GigE {}, and {}. In the GigE ring a station's \
         bursts meet a full queue, to which transit comes packet by packet; what other constants of TCP make of it stands in the table",
        run.file.seeds().len(),
        spoken(&one),
        spoken(&ten),
        spoken(&gige_one),
        spoken(&gige_ten)
    );
    let answer = finding.answer(told).with(map(ours));
    Ok(Answer { measured: vec![measured], sensitivity: vec![constants], ..answer })
}

/// Whether the last node has more than the first.
fn favours_few_hops(shares: &[f64]) -> bool {
    shares.last() > shares.first()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fair_share_beside_three_flows_of_0_3_is_a_quarter() {
        assert!((ideal().expect("a problem") - 0.25).abs() < 1e-12);
    }

    #[test]
    fn a_tenth_of_the_link_carries_so_many_bytes_in_a_round_trip() {
        // 62.2 Mbit/s for 0.8 ms are 6220 bytes.
        assert!((round_trips("12440B", 0.1).expect("a size") - 2.0).abs() < 1e-9);
        assert!((round_trips("10kB", 0.1).expect("a size") - 10.0 / 6.22).abs() < 1e-9);
        assert!(round_trips("much", 0.1).is_err());
    }

    #[test]
    fn few_hops_are_favoured_where_the_last_node_has_more() {
        assert!(favours_few_hops(&[0.2, 0.3, 0.3, 0.200_1]) && !favours_few_hops(&[0.2, 0.3, 0.3, 0.2]));
    }
}
