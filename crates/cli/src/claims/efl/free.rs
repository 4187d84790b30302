//! The constants of the EFL-MP paper's experiments that it does not tell, and what becomes of its claims with others.

use super::background::{Settling, takes_what_is_left};
use super::{
    CONVENTIONAL, DELAY, GBIT, GOODPUT, IDEAL, LAH, LARR, LOSS, MICRO, MTCP, PROPOSED, RATE, at, gap, in_order,
    no_later, suffers,
};
use crate::claims::Bench;
use crate::claims::answer::relative;
use crate::claims::bench::FigureRun;
use crate::claims::evidence::{Cell, Evidence, exact};
use crate::claims::finding::{Curve, Finding, faults, least, most};
use crate::claims::variation::{Constant, NOT_SO, Variation};

const LAW: Constant = Constant {
    what: "law of congestion control; the paper does not tell its own",
    settings: &["reliable.flow.congestion"],
    values: &["delay", "cubic", "reno"],
    names: &[],
};
const ACK_PACKETS: Constant = Constant {
    what: "packets for an acknowledgment; the paper does not tell",
    settings: &["reliable.flow.ack_packets"],
    values: &["8", "2", "32"],
    names: &[],
};
const ACK_DELAY: Constant = Constant {
    what: "how long an acknowledgment waits; the paper does not tell",
    settings: &["reliable.flow.ack_delay"],
    values: &["20us", "5us", "50us"],
    names: &[],
};
const ACK_SIZE: Constant = Constant {
    what: "size of an acknowledgment; the paper does not tell",
    settings: &["reliable.flow.ack_size"],
    values: &["64B", "192B"],
    names: &[],
};
const TIMEOUT: Constant = Constant {
    what: "least time before a timeout; the paper does not tell",
    settings: &["reliable.flow.timeout_min"],
    values: &["1ms", "200us", "5ms"],
    names: &[],
};
const SCHEMES: &str = r#"[["ideal", "published", 40], ["mtcp", "published", 400], ["efl-mp", "published", 40], ["lah", "published", 40], ["larr", "published", 40]]"#;
/// The same with other reorder buffers of MTCP.
const SCHEMES_40: &str = r#"[["ideal", "published", 40], ["mtcp", "published", 40], ["efl-mp", "published", 40], ["lah", "published", 40], ["larr", "published", 40]]"#;
const SCHEMES_100: &str = r#"[["ideal", "published", 40], ["mtcp", "published", 100], ["efl-mp", "published", 40], ["lah", "published", 40], ["larr", "published", 40]]"#;
const SCHEMES_1000: &str = r#"[["ideal", "published", 40], ["mtcp", "published", 1000], ["efl-mp", "published", 40], ["lah", "published", 40], ["larr", "published", 40]]"#;

const MTCP_BUFFERS: Constant = Constant {
    what: "packets in each reorder buffer of MTCP; the paper has 40 for EFL-MP, and for MTCP does not tell",
    settings: &["sweep.0.values"],
    values: &[SCHEMES, SCHEMES_40, SCHEMES_100, SCHEMES_1000],
    names: &["400", "40", "100", "1000"],
};
const BANDWIDTH: Variation = Variation {
    figure: "efl.fig10",
    at: &[("sweep.0.values", SCHEMES), ("link.middle3.rate", "8Gbit"), ("duration", "20ms")],
    constants: &[LAW, ACK_PACKETS, ACK_DELAY, ACK_SIZE, MTCP_BUFFERS],
};
const DELAYED: Variation = Variation {
    figure: "efl.fig11",
    at: &[("sweep.0.values", SCHEMES), ("link.middle3.delay", "8us"), ("duration", "20ms")],
    constants: &[LAW, ACK_PACKETS, ACK_DELAY, ACK_SIZE, MTCP_BUFFERS],
};
/// The schemes of Figure 12, with MTCP's reorder buffers.
const LOSSY_SCHEMES: &str =
    r#"[["mtcp", "published", 400], ["efl-mp", "published", 40], ["efl-mp", "timer", 40], ["larr", "published", 40]]"#;
const LOSSY_SCHEMES_40: &str =
    r#"[["mtcp", "published", 40], ["efl-mp", "published", 40], ["efl-mp", "timer", 40], ["larr", "published", 40]]"#;
const LOSSY_SCHEMES_100: &str =
    r#"[["mtcp", "published", 100], ["efl-mp", "published", 40], ["efl-mp", "timer", 40], ["larr", "published", 40]]"#;
/// Losses from which on the claims have values.
const LOSSES: [&str; 3] = ["0.0001", "0.001", "0.01"];
const LOSSY: Variation = Variation {
    figure: "efl.fig12",
    at: &[("sweep.1.values", "[0.0001, 0.001, 0.01]"), ("seeds", "[1]")],
    constants: &[
        TIMEOUT,
        LAW,
        ACK_PACKETS,
        ACK_DELAY,
        Constant {
            values: &[LOSSY_SCHEMES, LOSSY_SCHEMES_40, LOSSY_SCHEMES_100],
            names: &["400", "40", "100"],
            ..MTCP_BUFFERS
        },
    ],
};
const LINK_DELAY: Constant = Constant {
    what: "delay of each link; the paper does not tell, and has 5 us in its other experiments",
    settings: &["defaults.link.delay"],
    values: &["5us", "1us", "20us"],
    names: &[],
};
const SWITCH: Constant = Constant {
    what: "buffers of the switches; the paper does not tell",
    settings: &["defaults.link.queue"],
    values: &["1MB", "100kB"],
    names: &[],
};
const REORDER: Constant = Constant {
    what: "packets that each reorder buffer holds; the paper has 40 in its other experiments",
    settings: &["reliable.flow.reorder_packets"],
    values: &["40", "20", "400"],
    names: &[],
};
const BACKGROUND: Variation =
    Variation { figure: "efl.fig18", at: &[], constants: &[LAW, LINK_DELAY, SWITCH, REORDER, ACK_PACKETS, ACK_DELAY] };
const STEPS: Variation =
    Variation { figure: "efl.fig19", at: &[], constants: &[LAW, LINK_DELAY, SWITCH, REORDER, ACK_PACKETS, ACK_DELAY] };

/// All of them.
#[cfg(test)]
pub(crate) const VARIATIONS: &[Variation] = &[BANDWIDTH, DELAYED, LOSSY, BACKGROUND, STEPS];

/// Whether a value is the paper's within a claim's share of it.
fn near(finding: &mut Finding, ours: f64, paper: f64, within: f64) {
    finding.check(relative(paper, ours) <= within, || format!("{ours} and {paper}"));
}

/// Of Figure 10 where the narrower path has 8 Gbit/s.
pub(crate) fn bandwidth(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let columns = ["EFL-MP, Gbit/s", "MTCP, of the sum", "LAH, Gbit/s", "LARR, Gbit/s", NOT_SO];
    BANDWIDTH.tables(bench, &columns, |run| {
        let curve = Curve::of(run, GOODPUT)?;
        let of = |scheme: &[(&str, &str)]| curve.one(&at(scheme, RATE, "8Gbit")) * GBIT;
        let (proposed, sum, lah, larr) = (of(&PROPOSED), of(&MTCP) / of(&IDEAL), of(&LAH), of(&LARR));
        let faults = faults(|finding| {
            gap(finding, &[proposed / 32.0], &[sum], &[lah], &[larr]);
            near(finding, proposed, 32.0, 0.1);
            near(finding, lah, 10.0, 0.1);
        });
        Ok(exact(&[proposed, sum, lah, larr, faults as f64]))
    })
}

/// Of Figure 11 where the longer path has 8 us.
pub(crate) fn delays(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let columns = ["EFL-MP, Gbit/s", "MTCP, Gbit/s", "LAH, Gbit/s", "LARR, Gbit/s", NOT_SO];
    DELAYED.tables(bench, &columns, |run| {
        let curve = Curve::of(run, GOODPUT)?;
        let [proposed, mtcp, lah, larr] = [&PROPOSED[..], &MTCP, &LAH, &LARR].map(|scheme| curve.one(scheme) * GBIT);
        let faults = faults(|finding| {
            suffers(finding, larr);
            near(finding, proposed, 40.0, 0.05);
            near(finding, mtcp, 40.0, 0.05);
            near(finding, lah, 10.0, 0.05);
        });
        Ok(exact(&[proposed, mtcp, lah, larr, faults as f64]))
    })
}

/// Of Figure 12 at the losses from 0.01 % on.
pub(crate) fn loss_throughput(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let columns = [
        "0.1 %: proposed over conventional",
        "0.01 %: proposed, Gbit/s",
        "1 %: LARR, Gbit/s",
        "MTCP, Gbit/s",
        "proposed, Gbit/s",
        "conventional, Gbit/s",
        NOT_SO,
    ];
    LOSSY.tables(bench, &columns, |run| {
        let curve = Curve::of(run, GOODPUT)?;
        let of = |scheme: &[(&str, &str)], loss: &str| curve.one(&at(scheme, LOSS, loss)) * GBIT;
        let all = |loss| [of(&LARR, loss), of(&MTCP, loss), of(&PROPOSED, loss), of(&CONVENTIONAL, loss)];
        let (ratio, proposed) = (of(&PROPOSED, "0.001") / of(&CONVENTIONAL, "0.001"), of(&PROPOSED, "0.0001"));
        let faults = faults(|finding| {
            for loss in LOSSES {
                finding.check(in_order(all(loss)), || loss.to_owned());
            }
            near(finding, ratio, 8.0, 0.3);
            near(finding, proposed, 24.0, 0.3);
        });
        let [larr, mtcp, ours, timer] = all("0.01");
        Ok(exact(&[ratio, proposed, larr, mtcp, ours, timer, faults as f64]))
    })
}

/// Of Figure 13 at the losses from 0.01 % on.
pub(crate) fn loss_latency(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let columns = [
        "1 %: proposed, us",
        "conventional, us",
        "conventional over proposed, least from 0.01 % on",
        "greatest",
        NOT_SO,
    ];
    LOSSY.tables(bench, &columns, |run| {
        let curve = Curve::of(run, DELAY)?;
        let of = |scheme: &[(&str, &str)], loss: &str| curve.one(&at(scheme, LOSS, loss)) * MICRO;
        let ratios = LOSSES.map(|loss| of(&CONVENTIONAL, loss) / of(&PROPOSED, loss));
        let (proposed, timer) = (of(&PROPOSED, "0.01"), of(&CONVENTIONAL, "0.01"));
        let faults = faults(|finding| {
            for loss in LOSSES {
                finding.check(no_later(of(&PROPOSED, loss), of(&CONVENTIONAL, loss)), || loss.to_owned());
            }
            near(finding, proposed, 200.0, 0.5);
            near(finding, least(&ratios), 100.0, 0.5);
        });
        Ok(exact(&[proposed, timer, least(&ratios), most(&ratios), faults as f64]))
    })
}

/// Of Figure 18.
pub(crate) fn background(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let columns = ["least share of what is left", "greatest share", "greatest mean latency, us", NOT_SO];
    BACKGROUND.tables(bench, &columns, |run| {
        let (shares, delays) = super::background::shares(run)?;
        let worst = most(&delays);
        let faults = faults(|finding| takes_what_is_left(finding, &shares, worst));
        Ok(exact(&[least(&shares), most(&shares), worst, faults as f64]))
    })
}

/// Of Figure 19, and what the answer's own criterion does to it.
pub(crate) fn steps(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let columns = ["longest until it gives way, ms", "longest until it takes what is free, ms", NOT_SO];
    let cells = |run: &FigureRun, settling: Settling| -> anyhow::Result<Vec<Cell>> {
        let [gives_way, takes_up] = settling.times(run)?;
        let faults = faults(|finding| super::background::settles(finding, &gives_way, &takes_up));
        Ok(exact(&[most(&gives_way), most(&takes_up), faults as f64]))
    };
    let mut found = STEPS.tables(bench, &columns, |run| cells(run, Settling::USUAL))?;
    let run = bench.figure("efl.fig19")?;
    let usual = Settling::USUAL;
    let mut near =
        Evidence::new("how near to its end a rate counts as settled, Mbit/s; the paper does not tell", &columns);
    for mbit in [50.0, 25.0, 100.0] {
        near.line(mbit.to_string(), mbit * 1e6 == usual.near, cells(&run, Settling { near: mbit * 1e6, ..usual })?);
    }
    let mut calm = Evidence::new("for how long it has to stay there, ms; the paper does not tell", &columns);
    for span in [1.0, 0.5, 2.0] {
        calm.line(span.to_string(), span == usual.calm, cells(&run, Settling { calm: span, ..usual })?);
    }
    found.extend([near, calm]);
    Ok(found)
}
