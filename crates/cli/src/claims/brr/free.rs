//! The constants of section 6.4's experiments that the paper does not tell, two of them fitted to its values, and what becomes of its
//! claims with others (scenarios/brr/sensitivity.toml and sensitivity-delay.toml).

use super::metrics::{BELOW, DIFFERENCE, MBYTE, POLICY, THROUGHPUT};
use super::modes::Modes;
use crate::claims::Bench;
use crate::claims::evidence::{Calibration, Cell, Evidence};
use crate::claims::finding::{Curve, faults, least, most};
use crate::claims::variation::{Constant, Free, NOT_SO, Variation, tables};

const FILES: &str = "[3MB, 3.2MB, 2.8MB, 3.1MB, 2.9MB, 3.3MB, 2.7MB]";
const WEB: [Free; 5] = [
    Free {
        parameter: "flow.web.fetches",
        usual: "24",
        what: "fetches in all by twelve workers; the paper does not tell",
    },
    Free { parameter: "flow.web.files", usual: FILES, what: "sizes of the files; the paper does not tell" },
    Free { parameter: "defaults.tcp.receive_buffer", usual: "32120B", what: "window offered: 12, 22 or 45 segments" },
    Free { parameter: "processing", usual: "50us", what: "how much hosts shift a packet, drawn up to" },
    Free {
        parameter: "defaults.tcp.rto_minimum",
        usual: "200ms",
        what: "least time before a timeout; Linux has 200 ms",
    },
];
/// Columns of what [`order_and_load`] gives: out of order by turns, and by bursts of 12 ms.
pub(super) const TURNS: usize = 0;
pub(super) const BURSTS: usize = 1;
const LOAD: [Free; 2] = [
    Free { parameter: "defaults.tcp.receive_buffer", usual: "32120B", what: "window offered: 12, 22 or 45 segments" },
    Free { parameter: "flow.web.fetches", usual: "8", what: "fetches in all by four workers; the paper does not tell" },
];
/// Column of what [`delayed`] gives: the claim's ratio.
pub(super) const RATIO: usize = 2;

/// Workers and their fetches in all.
const FETCHES: &str = "[[1, 2], [2, 4], [4, 8], [12, 24]]";
const MODES: Variation = Variation {
    figure: "brr.fig05",
    // With five fetches each a mode of one link takes more than the figure's 150 s.
    at: &[("sweep.0.values", FETCHES), ("seeds", "[1, 2, 3]"), ("duration", "300s")],
    constants: &[
        Constant {
            what: "fetches of each worker, of 1, 2, 4 and 12; the paper does not tell",
            settings: &["sweep.0.values"],
            values: &[FETCHES, "[[1, 5], [2, 10], [4, 20], [12, 60]]"],
            names: &["two", "five"],
        },
        Constant {
            what: "sizes of the files; the paper does not tell",
            settings: &["flow.web.files"],
            values: &[
                r#"["3MB", "3.2MB", "2.8MB", "3.1MB", "2.9MB", "3.3MB", "2.7MB"]"#,
                r#"["3MB"]"#,
                r#"["100kB", "6MB", "300kB", "1MB", "3MB", "8MB"]"#,
            ],
            names: &["2.7 to 3.3 MB", "3 MB", "100 kB to 8 MB"],
        },
        Constant {
            what: "window offered: 22, 12 or 45 segments",
            settings: &["defaults.tcp.receive_buffer", "defaults.tcp.receive_buffer_maximum"],
            values: &["32120B", "17520B", "65535B"],
            names: &[],
        },
        Constant {
            what: "how much hosts shift a packet, drawn up to",
            settings: &["processing"],
            values: &["50us", "10us", "200us"],
            names: &[],
        },
        Constant {
            what: "least time before a timeout; Linux has 200 ms",
            settings: &["defaults.tcp.rto_minimum"],
            values: &["200ms", "1s"],
            names: &[],
        },
    ],
};

/// Those that are not figures of their own.
#[cfg(test)]
pub(crate) const VARIATIONS: &[Variation] = &[MODES];

/// Of Figure 5, with one, two, four and twelve fetches at once.
pub(crate) fn modes(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let columns = [
        "one fetch: turns over the others",
        "bursts with four fetches, MB/s",
        "bursts over turns, least from four on",
        "greatest",
        "modes of one link, least MB/s",
        "greatest, MB/s",
        NOT_SO,
    ];
    MODES.tables(bench, &columns, |run| {
        let found = Modes::of(run)?;
        let low = least(&found.one_link.iter().map(|(_, low, _)| *low).collect::<Vec<_>>());
        let high = most(&found.one_link.iter().map(|(.., high)| *high).collect::<Vec<_>>());
        let count = faults(|finding| found.judge(finding)) as f64;
        let cells = [found.gain, found.rise[2], found.of_turns.0, found.of_turns.1, low, high, count];
        Ok(cells.map(Cell::exact).to_vec())
    })
}

/// Order and load of twelve workers.
pub(super) fn order_and_load(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let run = bench.figure("brr.sensitivity")?;
    let (order, load, speed) = (Curve::of(&run, BELOW)?, Curve::of(&run, DIFFERENCE)?, Curve::of(&run, THROUGHPUT)?);
    let columns = [
        "out of order: turns",
        "12 ms",
        "12 ms, clock of 4 ms ticks",
        "4 ms",
        "largest less smallest share of load: 12 ms",
        "12 ms, clock of 4 ms ticks ",
        "MB/s: turns",
        "12 ms ",
    ];
    tables(&run, &WEB, &columns, |wanted| {
        let of = |curve: &Curve<'_>, policy, factor| curve.cell(&[wanted, &[(POLICY, policy)]].concat(), factor);
        Ok(vec![
            of(&order, "balance-rr", 1.0),
            of(&order, "brr:12ms", 1.0),
            of(&order, "brr:12ms,tick=4ms", 1.0),
            of(&order, "brr:4ms", 1.0),
            of(&load, "brr:12ms", 1.0),
            of(&load, "brr:12ms,tick=4ms", 1.0),
            of(&speed, "balance-rr", MBYTE),
            of(&speed, "brr:12ms", MBYTE),
        ])
    })
}

/// Throughput over links of 100 ms.
pub(super) fn delayed(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let run = bench.figure("brr.sensitivity-delay")?;
    let speed = Curve::of(&run, THROUGHPUT)?;
    let columns = ["100 ms: turns, MB/s", "12 ms", "12 ms over turns", "no delay: turns, MB/s", "12 ms "];
    let cells = |wanted: &[(&str, &str)], delays: [(&str, &str); 2]| -> Vec<Cell> {
        let here = |policy| [wanted, &delays, &[(POLICY, policy)]].concat();
        let none = |policy| [wanted, &[("link.eth0.delay", "0ms"), (POLICY, policy)]].concat();
        let ratio =
            speed.seeds(&here("brr:12ms")).iter().zip(speed.seeds(&here("balance-rr"))).map(|(brr, rr)| brr / rr);
        vec![
            speed.cell(&here("balance-rr"), MBYTE),
            speed.cell(&here("brr:12ms"), MBYTE),
            Cell::of(ratio),
            speed.cell(&none("balance-rr"), MBYTE),
            speed.cell(&none("brr:12ms"), MBYTE),
        ]
    };
    let usual = [("link.eth0.delay", "100ms"), ("link.eth1.delay", "80ms")];
    let mut found = tables(&run, &LOAD, &columns, |wanted| Ok(cells(wanted, usual)))?;
    let mut spread =
        Evidence::new("how far the links' delays are apart, times the nominal one; the paper does not tell", &columns);
    let wanted = LOAD.map(|free| (free.parameter, free.usual));
    for (second, name) in [("80ms", "0.8 to 1.2"), ("90ms", "0.9 to 1.1"), ("60ms", "0.6 to 1.4")] {
        let delays = [("link.eth0.delay", "100ms"), ("link.eth1.delay", second)];
        spread.line(name, second == "80ms", cells(&wanted, delays));
    }
    found.push(spread);
    Ok(found)
}

/// The number of fetches, which Figure 9 was met with.
pub(super) fn fitted_fetches(tables: &[Evidence]) -> Vec<Calibration> {
    let fitted = "24 fetches of about 3 MB by twelve workers";
    tables.first().map(|table| Calibration::new(fitted, "2.4 % out of order in Figure 9", table)).into_iter().collect()
}

/// The window, which Figure 11 was met with.
pub(super) fn fitted_window(tables: &[Evidence]) -> Vec<Calibration> {
    let fitted = "a window of 22 segments";
    let to = "1 MB/s of burst round robin at 100 ms in Figure 11";
    tables.first().map(|table| Calibration::new(fitted, to, table)).into_iter().collect()
}
