//! The constants of the rings paper's experiments that it does not tell, and what becomes of its claims with others.

use super::rpr::AtATrickle;
use super::simulated::{FAIR, LINK, PARKING, REUSE, off, spatial_reuse};
use super::unbalanced::worst;
use crate::claims::Bench;
use crate::claims::bench::FigureRun;
use crate::claims::evidence::{Cell, Evidence, exact};
use crate::claims::finding::{Curve, faults, most};
use crate::claims::variation::{Constant, NOT_SO, Variation};

const ALGORITHM: &str = "ring.ring.algorithm";
const WAITS: Constant = Constant {
    what: "bytes in transit from which on a node's own packets wait; the paper does not tell",
    settings: &["ring.ring.threshold"],
    values: &["50kB", "25kB", "100kB"],
    names: &[],
};
const CLOCKS: Constant = Constant {
    what: "how far sources' clocks are off; the paper does not tell",
    settings: &["drift"],
    values: &["1000ppm", "off", "100ppm"],
    names: &[],
};
const DVSR: Constant = Constant {
    what: "DVSR's settings: size of a rate in a message, intervals over which a steady rate is measured, share that is not given away; the paper does not tell them",
    settings: &[ALGORITHM],
    values: &["dvsr", "dvsr:bits=8", "dvsr:window=1", "dvsr:window=32", "dvsr:spare=0", "dvsr:spare=0.001"],
    names: &[],
};
const AM: Constant = Constant {
    what: "settings of RPR's aggressive mode; the paper does not tell rampcoef, LPCOEF and AGECOEF, 802.17's defaults are used",
    settings: &[ALGORITHM],
    values: &[
        "rpr-am",
        "rpr-am:ramp_up_coef=16",
        "rpr-am:ramp_up_coef=512",
        "rpr-am:lp_coef=16",
        "rpr-am:lp_coef=512",
        "rpr-am:age_coef=1",
    ],
    names: &[],
};
const CM: Constant = Constant {
    what: "settings of RPR's conservative mode; the paper does not tell rampcoef, LPCOEF and AGECOEF, 802.17's defaults are used",
    settings: &[ALGORITHM],
    values: &[
        "rpr-cm",
        "rpr-cm:ramp_up_coef=16",
        "rpr-cm:ramp_up_coef=512",
        "rpr-cm:lp_coef=16",
        "rpr-cm:lp_coef=512",
        "rpr-cm:age_coef=1",
    ],
    names: &[],
};

/// One seed and two seconds of a figure, of one algorithm.
macro_rules! short {
    ($figure:literal, $algorithm:literal, $constant:ident) => {
        Variation {
            figure: $figure,
            at: &[("seeds", "[1]"), ("duration", "2.5s"), (ALGORITHM, $algorithm)],
            constants: &[$constant],
        }
    };
}
/// Of a figure: all algorithms, then each by its settings.
const PARKING_LOT: [Variation; 4] = [
    Variation { figure: "rings.fig16", at: &[("seeds", "[1]"), ("duration", "2.5s")], constants: &[WAITS, CLOCKS] },
    short!("rings.fig16", "dvsr", DVSR),
    short!("rings.fig16", "rpr-am", AM),
    short!("rings.fig16", "rpr-cm", CM),
];
const PARALLEL: [Variation; 4] = [
    Variation { figure: "rings.fig19", at: &[("seeds", "[1]"), ("duration", "2.5s")], constants: &[WAITS, CLOCKS] },
    short!("rings.fig19", "dvsr", DVSR),
    short!("rings.fig19", "rpr-am", AM),
    short!("rings.fig19", "rpr-cm", CM),
];
/// One seed of Figure 10 where 5 Mbit/s are sent downstream, as in Figure 9(a).
const SWINGS: Variation = Variation {
    figure: "rings.fig10",
    at: &[("seeds", "[1]"), ("sweep.0.values", r#"["rpr-am"]"#), ("sweep.1.values", r#"["5Mbit"]"#)],
    constants: &[
        Constant {
            what: "settings of RPR's aggressive mode; the paper does not tell rampcoef, LPCOEF and AGECOEF, 802.17's defaults and Figure 10's rampcoef of 512 are used; the model knows rampcoef alone",
            settings: &["sweep.0.values"],
            values: &[
                r#"["rpr-am"]"#,
                r#"["rpr-am:ramp_up_coef=16"]"#,
                r#"["rpr-am:ramp_up_coef=256"]"#,
                r#"["rpr-am:ramp_up_coef=512"]"#,
                r#"["rpr-am:lp_coef=16"]"#,
                r#"["rpr-am:lp_coef=512"]"#,
                r#"["rpr-am:age_coef=1"]"#,
            ],
            names: &[
                "rpr-am",
                "rpr-am:ramp_up_coef=16",
                "rpr-am:ramp_up_coef=256",
                "rpr-am:ramp_up_coef=512",
                "rpr-am:lp_coef=16",
                "rpr-am:lp_coef=512",
                "rpr-am:age_coef=1",
            ],
        },
        WAITS,
        Constant { values: &["off", "100ppm", "1000ppm"], ..CLOCKS },
    ],
};
const UNLIKE: Variation = Variation {
    figure: "rings.unbalanced-sweep",
    at: &[("sweep.0.values", r#"[["622Mbit", "100Mbit"], ["622Mbit", "308Mbit"]]"#)],
    constants: &[
        Constant {
            what: "time between control messages; the paper has the ring's own delay, 1 ms here",
            settings: &["ring.ring.interval"],
            values: &["1ms", "500us", "2ms", "4ms"],
            names: &[],
        },
        DVSR,
        WAITS,
    ],
};

/// All of them.
#[cfg(test)]
pub(crate) const VARIATIONS: &[Variation] = &[
    PARKING_LOT[0],
    PARKING_LOT[1],
    PARKING_LOT[2],
    PARKING_LOT[3],
    PARALLEL[0],
    PARALLEL[1],
    PARALLEL[2],
    PARALLEL[3],
    SWINGS,
    UNLIKE,
];

/// Shares of the flows under an algorithm, or under the only one that ran.
fn shares(run: &FigureRun, flows: &[&str], algorithm: Option<&str>) -> anyhow::Result<Vec<f64>> {
    let at: Vec<(&str, &str)> = algorithm.map(|name| (ALGORITHM, name)).into_iter().collect();
    flows.iter().map(|flow| Ok(Curve::of(run, &format!("flow.{flow}.throughput"))?.one(&at) / LINK)).collect()
}

/// The largest distance from the paper's shares.
fn apart(shares: &[f64], paper: &[f64]) -> f64 {
    most(&shares.iter().zip(paper).map(|(share, paper)| (share / paper - 1.0).abs()).collect::<Vec<_>>())
}

/// Whether a distance is within the claims' 1 %; what is no number is not.
fn is_within(apart: f64) -> bool {
    apart <= 0.01
}

/// Of the conservative mode as parts of what it uses of the link.
fn of_used(shares: &[f64]) -> Vec<f64> {
    let used: f64 = shares.iter().sum();
    shares.iter().map(|share| share / used).collect()
}

/// Of Figure 16, whose claim is held to 1 %. A reduced answer goes without, which would take most of its time.
pub(crate) fn parking_lot(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    if bench.is_reduced() {
        return Ok(Vec::new());
    }
    let [all, modes @ ..] = &PARKING_LOT;
    let gige = [0.125, 0.125, 0.25, 0.5];
    let columns = ["DVSR off by, %", "RPR-AM off by, %", "RPR-CM off by, %", "GigE off by, %", NOT_SO];
    let mut found = all.tables(bench, &columns, |run| {
        let of = |algorithm| shares(run, &PARKING, Some(algorithm));
        let apart = [
            off(&of("dvsr")?, 0.25),
            off(&of("rpr-am")?, 0.25),
            off(&of_used(&of("rpr-cm")?), 0.25),
            apart(&of("fifo")?, &gige),
        ];
        let beyond = apart.iter().filter(|apart| !is_within(**apart)).count();
        let mut cells = exact(&apart.map(|apart| 100.0 * apart));
        cells.push(Cell::exact(beyond as f64));
        Ok(cells)
    })?;
    for mode in modes {
        found.extend(mode.tables(bench, &["shares off by, %", "of the link used, %", NOT_SO], |run| {
            let shares = shares(run, &PARKING, None)?;
            let used: f64 = shares.iter().sum();
            let conservative = mode.constants[0].values[0] == "rpr-cm";
            let apart = off(&if conservative { of_used(&shares) } else { shares }, 0.25);
            Ok(exact(&[100.0 * apart, 100.0 * used, f64::from(u8::from(!is_within(apart)))]))
        })?);
    }
    Ok(found)
}

/// Of Figure 19, whose claim is held to 1 %. A reduced answer goes without, as that of Figure 16 does.
pub(crate) fn parallel_parking_lot(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    if bench.is_reduced() {
        return Ok(Vec::new());
    }
    let [all, modes @ ..] = &PARALLEL;
    let columns = ["DVSR off by, %", "RPR-AM off by, %", "RPR-CM off by, %", "GigE: (2,5)", "GigE: (4,5)", NOT_SO];
    let mut found = all.tables(bench, &columns, |run| {
        let of = |algorithm| shares(run, &REUSE, Some(algorithm));
        let (dvsr, am, cm, gige) = (of("dvsr")?, of("rpr-am")?, of("rpr-cm")?, of("fifo")?);
        let apart = [&dvsr, &am, &cm].map(|shares| apart(shares, &FAIR));
        let count = faults(|finding| {
            finding.check(apart[0] <= 0.01, || "DVSR".to_owned());
            spatial_reuse(finding, &am, &cm, &gige);
        });
        Ok(exact(&[100.0 * apart[0], 100.0 * apart[1], 100.0 * apart[2], gige[2], gige[4], count as f64]))
    })?;
    for mode in modes {
        found.extend(mode.tables(bench, &["rates off by, %", "of the fourth link used, %", NOT_SO], |run| {
            let shares = shares(run, &REUSE, None)?;
            let apart = apart(&shares, &FAIR);
            let used: f64 = shares[1..].iter().sum();
            Ok(exact(&[100.0 * apart, 100.0 * used, f64::from(u8::from(!is_within(apart)))]))
        })?);
    }
    Ok(found)
}

/// Of Figure 9(a): the cycle beside 5 Mbit/s downstream.
pub(crate) fn am_oscillation(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let columns = [
        "lowest rate, Mbit/s",
        "mean rate, Mbit/s",
        "mean rate by the model, Mbit/s",
        "highest rate, Mbit/s",
        "period, ms",
        "period by the model, ms",
        NOT_SO,
    ];
    SWINGS.tables(bench, &columns, |run| {
        let found = AtATrickle::of(run)?;
        let (mean, period) = found.model;
        Ok(exact(&[found.least, found.mean, mean, found.most, found.period, period, found.faults as f64]))
    })
}

/// Of the unbalanced cases: two of the rates.
pub(crate) fn unbalanced(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let columns = [
        "limiter off by, %",
        "received rates off by, %",
        "limiter off what control messages leave, %",
        "control messages, % of the link",
        NOT_SO,
    ];
    UNLIKE.tables(bench, &columns, |run| Ok(exact(&worst(run)?)))
}
