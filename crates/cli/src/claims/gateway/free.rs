//! The constants of chapter 3's figures that the paper does not tell, and what becomes of its claims with others
//! (scenarios/gateway/sensitivity.toml with equal round trips, sensitivity-mixed.toml with unlike ones, sensitivity-red.toml for RED's own).

use super::points::{BUFFER, JAIN, LQD, OTHERS, PFD, QUASI, QUEUE, RED, RND, ROOM, both, goodput, jain, values};
use crate::claims::Bench;
use crate::claims::bench::FigureRun;
use crate::claims::evidence::{Cell, Evidence};
use crate::claims::variation::{Free, tables};
use fairspan_sim::results::Results;

const CONSTANTS: [Free; 9] = [
    Free { parameter: "flow.f#.tcp.mss", usual: "536", what: "segment, bytes; RFC 1122 for a far end" },
    Free { parameter: "flow.f#.tcp.ack_every", usual: "2", what: "segments for an ACK; RFC 1122" },
    Free { parameter: "flow.f#.tcp.initial_window", usual: "rfc3390", what: "first window, segments; RFC 3390" },
    Free { parameter: "flow.f#.tcp.rto_minimum", usual: "1s", what: "least time before a timeout; RFC 6298" },
    Free { parameter: "flow.f#.tcp.loss", usual: "reno", what: "recovery; the paper says Reno, and not which" },
    Free { parameter: "flow.f#.tcp.timestamps", usual: "false", what: "timestamps; none in ns-2 of the time" },
    Free { parameter: "link.out#.rate", usual: "10Mbit", what: "rate of the links behind the bottleneck" },
    Free { parameter: "flow.f#.spread", usual: "1s", what: "time within which the connections begin" },
    Free { parameter: "processing", usual: "off", what: "time that a host takes for a packet, drawn up to" },
];
const REDS: [&str; 6] =
    ["red", "red:gentle=off", "red:adaptive=on", "red:least=0.1,most=0.3", "red:probability=0.02", "red:weight=0.02"];
/// A small and a middle buffer.
const AT: [&str; 2] = ["25ms", "100ms"];

fn with<'a>(wanted: &[(&'a str, &'a str)], more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    wanted.iter().chain(more).copied().collect()
}

/// How far one is ahead of the other, seed by seed.
fn lead(run: &FigureRun, one: &[(&str, &str)], other: &[(&str, &str)], value: fn(&Results) -> f64) -> Cell {
    Cell::of(values(run, one, value).iter().zip(values(run, other, value)).map(|(one, other)| one - other))
}

/// RED's own constants, where the last connection has this delay (the first has 8 ms): what it carries, and how far PFD is ahead.
fn reds(bench: &mut Bench, last: &str) -> anyhow::Result<Evidence> {
    let run = bench.figure("gateway.sensitivity-red")?;
    let columns = ["25 ms: RED, Mbit/s", "PFD ahead, Mbit/s", "100 ms: RED, Mbit/s", "PFD ahead, Mbit/s "];
    let of = "RED's thresholds as shares of the buffer, its probability and weight; Floyd and Jacobson 1993, gentle";
    let mut table = Evidence::new(of, &columns);
    for red in REDS {
        let mut cells = Vec::new();
        for queue in AT {
            let at = |policy| [("link.in9.delay", last), (QUEUE, queue), (BUFFER, policy)];
            cells.push(Cell::of(values(&run, &at(red), goodput)));
            cells.push(lead(&run, &at(PFD), &at(red), goodput));
        }
        table.line(red, red == RED, cells);
    }
    Ok(table)
}

/// Of Figures 3.5 and 3.6: PFD's lead in goodput over each other policy, and the least of Jain's indices.
pub(super) fn short(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let run = bench.figure("gateway.sensitivity")?;
    let columns = [
        "25 ms: PFD ahead of RED, Mbit/s",
        "of LQD",
        "of RND",
        "least Jain's index",
        "100 ms: PFD ahead of RED, Mbit/s",
        "of LQD ",
        "of RND ",
        "least Jain's index ",
    ];
    let mut found = tables(&run, &CONSTANTS, &columns, |wanted| {
        let mut cells = Vec::new();
        for queue in AT {
            let at = |policy| with(wanted, &[(QUEUE, queue), (BUFFER, policy)]);
            cells.extend(OTHERS.map(|other| lead(&run, &at(PFD), &at(other), goodput)));
            let of = |policy| values(&run, &at(policy), jain);
            let all = [of(RED), of(LQD), of(RND), of(PFD)];
            let seeds = 0..all[0].len();
            cells.push(Cell::of(seeds.map(|n| all.iter().filter_map(|of| of.get(n)).copied().fold(1.0, f64::min))));
        }
        Ok(cells)
    })?;
    found.push(reds(bench, "8ms")?);
    Ok(found)
}

/// Of Figure 3.7: PFD's lead in goodput times Jain's index, RND's in fairness over LQD, and RED's in goodput over the least other.
pub(super) fn mixed(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let run = bench.figure("gateway.sensitivity-mixed")?;
    let columns = [
        "25 ms: PFD ahead of RED in both, Mbit/s",
        "of LQD",
        "of RND",
        "RND fairer than LQD",
        "RND carries more than PFD, Mbit/s",
        "100 ms: PFD ahead of RED in both, Mbit/s",
        "of LQD ",
        "of RND ",
        "RND fairer than LQD ",
        "RND carries more than PFD, Mbit/s ",
    ];
    let mut found = tables(&run, &CONSTANTS, &columns, |wanted| {
        let mut cells = Vec::new();
        for queue in AT {
            let at = |policy| with(wanted, &[(QUEUE, queue), (BUFFER, policy), (ROOM, "1")]);
            cells.extend(OTHERS.map(|other| lead(&run, &at(PFD), &at(other), both)));
            cells.push(lead(&run, &at(RND), &at(LQD), jain));
            cells.push(lead(&run, &at(RND), &at(PFD), goodput));
        }
        Ok(cells)
    })?;
    found.push(reds(bench, "98ms")?);
    Ok(found)
}

/// Of Figure 3.8: what rooms by round trip change.
pub(super) fn rooms(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let run = bench.figure("gateway.sensitivity-mixed")?;
    let columns = [
        "25 ms: fairer by",
        "more goodput, Mbit/s",
        "100 ms: fairer by",
        "more goodput, Mbit/s ",
        "less fair with 100 ms than with 25",
    ];
    tables(&run, &CONSTANTS, &columns, |wanted| {
        let mut cells = Vec::new();
        let at = |queue, room| with(wanted, &[(QUEUE, queue), (BUFFER, PFD), (ROOM, room)]);
        for queue in AT {
            for value in [jain, goodput] {
                cells.push(lead(&run, &at(queue, "round-trip"), &at(queue, "1"), value));
            }
        }
        cells.push(lead(&run, &at(AT[0], "round-trip"), &at(AT[1], "round-trip"), jain));
        Ok(cells)
    })
}

/// Of Figure 3.9: quasi-pushout beside exact PFD.
pub(super) fn quasi(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let run = bench.figure("gateway.sensitivity-mixed")?;
    let columns = [
        "25 ms: quasi-pushout carries more, Mbit/s",
        JAIN,
        "100 ms: quasi-pushout carries more, Mbit/s",
        "Jain's index ",
    ];
    tables(&run, &CONSTANTS, &columns, |wanted| {
        let mut cells = Vec::new();
        for queue in AT {
            let at = |policy| with(wanted, &[(QUEUE, queue), (BUFFER, policy), (ROOM, "1")]);
            cells.push(lead(&run, &at(QUASI), &at(PFD), goodput));
            cells.push(Cell::of(values(&run, &at(QUASI), jain)));
        }
        Ok(cells)
    })
}
