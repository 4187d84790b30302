//! The constants of chapter 4's experiments that the paper does not tell, and what becomes of its claims with others.

use super::split::{
    BUFFER, MB, MBIT, MODE, OFFERED, Optimum, RATE, Waiting, doubles, has_opened, is_served, is_shut_out, opens, series,
};
use crate::claims::Bench;
use crate::claims::answer::relative;
use crate::claims::bench::FigureRun;
use crate::claims::evidence::{Cell, Evidence, exact};
use crate::claims::finding::{Curve, faults};
use crate::claims::variation::{Constant, NOT_SO, Variation};
use anyhow::Context;

const SEGMENT: Constant = Constant {
    what: "segment, bytes; RFC 1122 for a far end",
    settings: &["defaults.tcp.mss"],
    values: &["536", "512", "1460"],
    names: &[],
};
const THRESHOLD: Constant = Constant {
    what: "where slow start ends; the paper does not tell",
    settings: &["defaults.tcp.initial_threshold"],
    values: &["48kB", "24kB", "64kB"],
    names: &[],
};
const ACKS: Constant = Constant {
    what: "segments for an ACK; RFC 1122",
    settings: &["defaults.tcp.ack_every"],
    values: &["2", "1"],
    names: &[],
};
const FIRST: Constant = Constant {
    what: "first window, segments; RFC 2001",
    settings: &["defaults.tcp.initial_window"],
    values: &["1", "4"],
    names: &[],
};
const WINDOW: Constant = Constant {
    what: "window that the ends offer; the most without scaling",
    settings: &["defaults.tcp.receive_buffer"],
    values: &["65535B", "32768B"],
    names: &[],
};
const T1: Variation =
    Variation { figure: "gateway.fig4-05", at: &[], constants: &[SEGMENT, THRESHOLD, ACKS, FIRST, WINDOW] };
const T3: Variation = Variation {
    figure: "gateway.fig4-06",
    at: &[("sweep.0.values", T3_POINTS)],
    constants: &[SEGMENT, THRESHOLD, ACKS, FIRST],
};
/// What stands for receive buffers of 200 and of 400 kB.
const T3_POINTS: &str = r#"[["vanilla", "vanilla", "100kB", "65535B"], ["vanilla", "vanilla", "200kB", "65535B"]]"#;
const TWO_SERVER: Variation =
    Variation { figure: "gateway.fig4-07", at: &[], constants: &[SEGMENT, THRESHOLD, ACKS, FIRST, WINDOW] };
const OPTIMAL: Variation = Variation { figure: "gateway.fig4-09", at: &[], constants: &[THRESHOLD, SEGMENT, ACKS] };
const OFFERS: Constant = Constant {
    what: "what the datagrams' source offers; the paper does not tell",
    settings: &["flow.udp.rate"],
    values: &["4Mbit", "3.3Mbit", "8Mbit"],
    names: &[],
};
const DATAGRAM: Constant = Constant {
    what: "size of a datagram; the paper does not tell",
    settings: &["flow.udp.size"],
    values: &["576B", "288B", "1500B"],
    names: &[],
};
const ROOM: Constant = Constant {
    what: "room for packets at the gateway; the paper does not tell",
    settings: &["split.gateway.queue"],
    values: &["100 packets", "50 packets", "400 packets"],
    names: &[],
};
const STARVED: Variation =
    Variation { figure: "gateway.fig4-10", at: &[], constants: &[OFFERS, DATAGRAM, ROOM, SEGMENT] };
const SERVED: Variation =
    Variation { figure: "gateway.fig4-11", at: &[], constants: &[OFFERS, DATAGRAM, ROOM, SEGMENT, THRESHOLD] };

/// All of them.
#[cfg(test)]
pub(crate) const VARIATIONS: &[Variation] = &[T1, T3, TWO_SERVER, OPTIMAL, STARVED, SERVED];

/// Of Figure 4.5.
pub(crate) fn spoof_t1(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let columns =
        ["second second, Mbit/s", "link full after, s", "at the end, Mbit/s", "waiting at the end, MB", NOT_SO];
    T1.tables(bench, &columns, |run| {
        let results = &run.batch.finished.first().context("no run")?.results;
        let (carried, unsent) = (series(results, "flow f throughput")?, series(results, "split gateway1 unsent")?);
        let mut found = (None, f64::NAN);
        let faults = faults(|finding| found = opens(finding, carried, unsent, 1.544e6));
        let full = found.0.map_or(f64::NAN, |at| at as f64);
        let waiting = unsent.last().copied().unwrap_or(f64::NAN) * MB;
        Ok(exact(&[carried[1] * MBIT, full, found.1 * MBIT, waiting, faults as f64]))
    })
}

/// What 200 and 400 kB carry, and what of the paper's values and words is not so.
fn of_buffers(small: f64, large: f64) -> Vec<Cell> {
    let faults = faults(|finding| {
        doubles(finding, ["200 kB", "400 kB"], large / small);
        for (ours, paper) in [(small, 1.6), (large, 3.4)] {
            finding.check(relative(paper, ours) <= 0.15, || format!("{ours} Mbit/s"));
        }
    });
    exact(&[small, large, faults as f64])
}

/// Of Figure 4.6.
pub(crate) fn spoof_t3(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let columns = ["200 kB: Mbit/s", "400 kB: Mbit/s", NOT_SO];
    let of = |run: &FigureRun, offered: &str| -> anyhow::Result<f64> {
        Ok(Curve::of(run, "flow.f.throughput")?.one(&[(MODE, "vanilla"), (OFFERED, offered)]) * MBIT)
    };
    let mut found = T3.tables(bench, &columns, |run| Ok(of_buffers(of(run, "100kB")?, of(run, "200kB")?)))?;
    let run = bench.figure("gateway.fig4-06")?;
    let what = "share of gateway 2's receive buffer that is offered, since the rest waits to be flushed; the paper does not tell";
    let mut share = Evidence::new(what, &columns);
    for (name, small, large) in
        [("a half", "100kB", "200kB"), ("a quarter", "50kB", "100kB"), ("all", "200kB", "400kB")]
    {
        share.line(name, name == "a half", of_buffers(of(&run, small)?, of(&run, large)?));
    }
    found.push(share);
    Ok(found)
}

/// Of Figures 4.7 and 4.8.
pub(crate) fn two_server(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let columns = [
        "plain splitting, Mbit/s",
        "waiting with it at the end, MB",
        "500 packets/s: share of its throughput",
        "waiting at the end, MB",
        "auto: share of its throughput",
        "waiting at the end, MB ",
        NOT_SO,
    ];
    TWO_SERVER.tables(bench, &columns, |run| {
        let plain = Waiting::of(super::split::at(run, MODE, "vanilla")?)?;
        let (mut values, mut count) = (vec![plain.carried * MBIT, plain.last * MB], 0);
        for rate in ["500 packets/s", "auto"] {
            let found = Waiting::of(super::split::at(run, RATE, rate)?)?;
            count += faults(|finding| found.judge(finding, rate, &plain));
            values.extend([found.carried / plain.carried, found.last * MB]);
        }
        values.push(count as f64);
        Ok(exact(&values))
    })
}

/// Of Figure 4.9.
pub(crate) fn optimal_rate(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let columns = [
        "lowest rate that never starves, packets/s",
        "500 packets/s starve after, s",
        "auto: share of the most",
        NOT_SO,
    ];
    OPTIMAL.tables(bench, &columns, |run| {
        let found = Optimum::of(run)?;
        let late = found.late.map_or(f64::NAN, |at| at as f64);
        let best = found.best.map_or(f64::NAN, f64::from);
        let faults = faults(|finding| found.judge(finding));
        Ok(exact(&[best, late, found.share, faults as f64]))
    })
}

/// Of Figures 4.10 and 4.11.
pub(crate) fn tcp_vs_udp(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let mut found = STARVED.tables(bench, &["FIFO: TCP over datagrams", NOT_SO], |run| {
        let of = |name: &str| Ok::<f64, anyhow::Error>(Curve::of(run, &format!("flow.{name}.throughput"))?.one(&[]));
        let share = of("tcp")? / of("udp")?;
        Ok(exact(&[share, faults(|finding| is_shut_out(finding, share)) as f64]))
    })?;
    let columns = [
        "3 Mbit/s, 50 kB: TCP, Mbit/s",
        "100 kB: TCP, Mbit/s",
        "auto, 50 kB: TCP, Mbit/s",
        "100 kB: TCP, Mbit/s ",
        NOT_SO,
    ];
    found.extend(SERVED.tables(bench, &columns, |run| {
        let tcp = Curve::of(run, "flow.tcp.throughput")?;
        let of = |rate, buffer| tcp.one(&[("split.gateway.matching", rate), (BUFFER, buffer)]) * MBIT;
        let mut values = Vec::new();
        let mut count = 0;
        for rate in ["3Mbit", "auto"] {
            let pair = [of(rate, "50kB"), of(rate, "100kB")];
            count += faults(|finding| is_served(finding, rate, pair[0], pair[1]));
            values.extend(pair);
        }
        let opening = series(super::split::at(run, BUFFER, "50kB")?, "flow tcp throughput")?;
        count += faults(|finding| _ = has_opened(finding, opening));
        values.push(count as f64);
        Ok(exact(&values))
    })?);
    Ok(found)
}
