//! What docs/cross-check.md says of our own side of a comparison is what the kept scenario gives now; `UPDATE_DOCS=1` writes it. What
//! was measured once stands in a table, and what is said of it is what the table has.

use fairspan_sim::results::Results;
use fairspan_sim::scenario::{File, Metric};
use fairspan_sim::world::World;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document() -> String {
    fs::read_to_string(root().join("docs/cross-check.md")).expect("a document")
}

/// Holds the document to what `written` makes of it; with `UPDATE_DOCS=1` that is written.
fn hold(written: impl FnOnce(&str) -> String) {
    // Tests of one program run side by side, and each writes the whole document.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let before = document();
    let text = written(&before);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(root().join("docs/cross-check.md"), &text).expect("written");
        return;
    }
    let unlike = before.lines().zip(text.lines()).filter(|(before, now)| before != now);
    let unlike: Vec<_> = unlike.map(|(before, now)| format!("{before}\nis now\n{now}")).collect();
    assert!(before == text, "docs/cross-check.md; UPDATE_DOCS=1 renews it:\n{}", unlike.join("\n"));
}

/// A kept scenario of the cross-checks with such a change of its text.
fn kept(name: &str, change: impl Fn(&str) -> String) -> File {
    let text = fs::read_to_string(root().join("scenarios/cross-check").join(name)).expect("a kept scenario");
    let mut none = |file: &str| Err(format!("no file is needed, and this is {file}"));
    File::parse(name, &change(&text), &mut none).unwrap_or_else(|errors| panic!("{name}: {errors:?}"))
}

/// As it is kept.
fn as_kept(text: &str) -> String {
    text.to_owned()
}

/// Runs of a scenario at the points that `wanted` takes by their swept values: these, and what came out.
fn runs(file: &File, wanted: impl Fn(&[&str]) -> bool) -> Vec<(Vec<String>, Results)> {
    let mut all = Vec::new();
    for built in file.runs() {
        let built = built.unwrap_or_else(|errors| panic!("{errors:?}"));
        let values: Vec<&str> = built.parameters.iter().map(|(_, value)| value.trim_matches('"')).collect();
        if wanted(&values) {
            let results = World::new(&built.scenario).and_then(World::finish).unwrap_or_else(|error| panic!("{error}"));
            all.push((values.into_iter().map(str::to_owned).collect(), results));
        }
    }
    assert!(!all.is_empty(), "no such point");
    all
}

fn value(results: &Results, metric: &str) -> f64 {
    let metric = Metric::parse(metric).unwrap_or_else(|error| panic!("{metric}: {error}"));
    metric.value(results).unwrap_or_else(|error| panic!("{error}"))
}

/// Of each run of the scenario with such a change of its text: each flow's part of what all receive, in %.
fn shares(name: &str, change: impl Fn(&str) -> String) -> Vec<Vec<f64>> {
    let of = |results: &Results| {
        let sum: f64 = results.flows.iter().map(|flow| flow.throughput).sum();
        results.flows.iter().map(|flow| 100.0 * flow.throughput / sum).collect()
    };
    runs(&kept(name, change), |_| true).iter().map(|(_, results)| of(results)).collect()
}

/// From the least to the greatest of each flow, or the one number.
fn ranges(runs: &[Vec<f64>]) -> String {
    let of = |flow: usize| {
        let values = || runs.iter().map(|run| run[flow]);
        let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        if runs.len() == 1 { format!("{least:.1}") } else { format!("{least:.1} to {most:.1}") }
    };
    (0..runs[0].len()).map(of).collect::<Vec<_>>().join(", ")
}

/// `text` with these in the cells from the one so many behind the beginning of the row that begins so; other cells stay.
fn with_cells_from(text: &str, begins: &str, first: usize, cells: &[String]) -> String {
    let start = text.find(begins).unwrap_or_else(|| panic!("docs/cross-check.md has no row {begins}")) + begins.len();
    let end = start + text[start..].find(" |\n").expect("the row's end");
    let mut row: Vec<&str> = text[start..end].split(" | ").collect();
    assert!(row.len() >= first + cells.len(), "{begins}");
    row[first..first + cells.len()].iter_mut().zip(cells).for_each(|(old, new)| *old = new);
    format!("{}{}{}", &text[..start], row.join(" | "), &text[end..])
}

/// `text` with these in the cells behind the beginning of the row that begins so; further cells stay.
fn with_cells(text: &str, begins: &str, cells: &[String]) -> String {
    with_cells_from(text, begins, 0, cells)
}

/// `text` with these words between two others.
fn with_words(text: &str, before: &str, words: &str, after: &str) -> String {
    let start = text.find(before).unwrap_or_else(|| panic!("docs/cross-check.md does not say {before}")) + before.len();
    let end = start + text[start..].find(after).unwrap_or_else(|| panic!("docs/cross-check.md does not say {after}"));
    format!("{}{words}{}", &text[..start], &text[end..])
}

/// From the least to the greatest with so many digits, or the one number where they look alike.
fn range(values: &[f64], digits: usize) -> String {
    let least = format!("{:.digits$}", values.iter().copied().fold(f64::INFINITY, f64::min));
    let most = format!("{:.digits$}", values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    if least == most { least } else { format!("{least} to {most}") }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

#[test]
fn shares_of_constant_rates_down_a_line_are_those_that_the_document_gives() {
    let drifting = shares("cbr-line.toml", |text| format!("seeds = \"1..3\"\n{text}"));
    assert_eq!(drifting.len(), 3, "three seeds");
    let steady = shares("cbr-line.toml", |text| {
        // What the file expects is with drift.
        let text = text.split("\n[[expect]]").next().expect("a beginning");
        format!("drift = \"off\"\n{text}")
    });
    hold(|text| {
        let text = with_cells(text, "| ours, drift of +-1000 ppm, three seeds | ", &[ranges(&drifting)]);
        with_cells(&text, "| ours, `drift = \"off\"` | ", &[ranges(&steady)])
    });
}

/// Rows of the ten senders that are points of dumbbell-types.toml: recovery, law, and what an ACK counts for.
const SENDERS: [(&str, [&str; 3]); 5] = [
    ("| ours, `rfc`, `byte_counting_limit = 0` | ", ["sack", "reno", "0"]),
    ("| ours, `rfc` (SACK, by bytes) | ", ["sack", "reno", "2"]),
    ("| ours, `rfc`, `congestion = \"cubic\"` | ", ["sack", "cubic", "2"]),
    ("| ours, `loss = \"newreno\"` | ", ["newreno", "reno", "2"]),
    ("| ours, `loss = \"reno\"` | ", ["reno", "reno", "2"]),
];

/// Goodput, Jain's index, timeouts and recoveries of all senders, each from the least to the greatest of five seeds.
fn of_senders(runs: &[&Results]) -> Vec<String> {
    assert_eq!(runs.len(), 5, "five seeds");
    let of = |metric: &str, factor: f64, digits| {
        let values: Vec<f64> = runs.iter().map(|results| factor * value(results, metric)).collect();
        range(&values, digits)
    };
    vec![
        of("goodput", 1e-3, 0),
        of("jain", 1.0, 4),
        of("sum(flow.f*.tcp.timeouts)", 1.0, 0),
        of("sum(flow.f*.tcp.recoveries)", 1.0, 0),
    ]
}

#[test]
fn what_ten_senders_get_and_recover_from_is_what_the_document_gives() {
    let found = runs(&kept("dumbbell-types.toml", as_kept), |values| SENDERS.iter().any(|(_, at)| values == at));
    let linux = kept("dumbbell.toml", |text| {
        format!(
            "seeds = \"1..5\"\n{}",
            text.replace(r#"preset = "rfc", mss = 1460, byte_counting_limit = 0"#, r#"preset = "linux""#)
        )
    });
    let linux = runs(&linux, |_| true);
    hold(|text| {
        let mut text = text.to_owned();
        for (row, at) in SENDERS {
            let here: Vec<_> = found.iter().filter(|(values, _)| *values == at).map(|(_, results)| results).collect();
            text = with_cells(&text, row, &of_senders(&here));
        }
        let here: Vec<_> = linux.iter().map(|(_, results)| results).collect();
        with_cells(&text, "| ours, `linux` | ", &of_senders(&here))
    });
}

#[test]
fn ten_senders_before_fair_queues_get_what_the_document_gives() {
    let longest = runs(&kept("dumbbell-fair.toml", as_kept), |_| true);
    let tail = kept("dumbbell-fair.toml", |text| {
        text.replace("discipline = \"drr\"\n", "discipline = \"drr\"\nbuffer = \"drop-tail\"\n")
    });
    let tail = runs(&tail, |_| true);
    hold(|text| {
        let mut text = text.to_owned();
        for (name, found) in [("the longest queue is cut", &longest), ("drop-tail", &tail)] {
            for discipline in ["drr", "sfq"] {
                let here = found.iter().filter(|(values, _)| values[0] == discipline).map(|(_, results)| results);
                let (goodput, jain): (Vec<f64>, Vec<f64>) =
                    here.map(|results| (value(results, "goodput") / 1e3, value(results, "jain"))).unzip();
                assert_eq!(jain.len(), 3, "three seeds");
                let row = format!("| ours, {}, {name} | ", discipline.to_uppercase());
                text = with_cells(&text, &row, &[range(&goodput, 0), range(&jain, 4)]);
            }
        }
        text
    });
}

/// From the least to the greatest goodput of the runs at such a point, in kbit/s.
fn goodput_at(found: &[(Vec<String>, Results)], at: &[&str]) -> String {
    let here: Vec<f64> =
        found.iter().filter(|(values, _)| values == at).map(|(_, results)| value(results, "goodput") / 1e3).collect();
    assert_eq!(here.len(), 3, "three seeds: {at:?}");
    range(&here, 0)
}

#[test]
fn set_ups_that_are_far_from_ns_2_get_what_the_document_gives() {
    let one = runs(&kept("one-sender.toml", as_kept), |_| true);
    let ten = runs(&kept("limited-transmit.toml", as_kept), |_| true);
    hold(|text| {
        let mut text = text.to_owned();
        for (row, at) in [
            ("| Reno, 1 sender, 17 packets, 200 ms, no delayed ACKs | ", ["16 packets", "0s"]),
            ("| the same, 5 packets | ", ["4 packets", "0s"]),
            ("| the same, 17 packets, delayed ACKs | ", ["16 packets", "100ms"]),
        ] {
            text = with_cells_from(&text, row, 1, &[goodput_at(&one, &at)]);
        }
        for (name, loss) in [("NewReno", "newreno"), ("Reno", "reno"), ("SACK", "sack")] {
            for (row, limited) in [("with limited transmit", "true"), ("without", "false")] {
                let row = format!("\n| {name}, {row} | ");
                text = with_cells_from(&text, &row, 1, &[goodput_at(&ten, &[loss, limited])]);
            }
        }
        let both = ["reno", "newreno"].map(|loss| goodput_at(&ten, &[loss, "false"])).join(", ");
        with_cells_from(&text, "| 10 senders, 17 packets, 20 ms, no delayed ACKs (Reno, NewReno) | ", 1, &[both])
    });
}

#[test]
fn random_loss_leaves_one_sender_what_the_document_gives() {
    let found = runs(&kept("random-loss.toml", as_kept), |_| true);
    let at = |loss: &str, ack: &str, limited: &str| {
        let here = found.iter().filter(|(values, _)| *values == [loss, ack, limited]).collect::<Vec<_>>();
        assert_eq!(here.len(), 3, "three seeds: {loss} {ack}");
        format!("{:.0}", mean(here.iter().map(|(_, results)| value(results, "goodput") / 1e3)))
    };
    hold(|text| {
        let mut text = text.to_owned();
        for (ack, segments, losses) in
            [("0s", "1", &["0.001", "0.003", "0.01", "0.03", "0.05"][..]), ("100ms", "2", &["0.001", "0.01", "0.05"])]
        {
            for loss in losses {
                let percent = 100.0 * loss.parse::<f64>().expect("a share");
                let row = format!("\n| {} % | {segments} | ", (percent * 10.0).round() / 10.0);
                text = with_cells(&text, &row, &[at(loss, ack, "false")]);
            }
        }
        let limited = format!("{} and {}", at("0.05", "0s", "true"), at("0.05", "100ms", "true"));
        with_words(&text, "with it, ours are ", &limited, " at 5 %")
    });
}

#[test]
fn one_sender_without_sack_gets_what_the_document_gives() {
    let found = runs(&kept("no-sack.toml", as_kept), |_| true);
    let at = |law: &str, limit: &str| {
        let here = found.iter().filter(|(values, _)| values[..2] == [law, limit]);
        let rates: Vec<f64> = here.map(|(_, results)| value(results, "goodput") / 1e6).collect();
        assert_eq!(rates.len(), 15, "fifteen paths");
        range(&rates, 1)
    };
    hold(|text| {
        let text = with_words(text, "one sender gets ", &at("reno", "2"), " Mbit/s, and with CUBIC");
        let text = with_words(&text, "and with CUBIC\n  ", &at("cubic", "2"), " (`no-sack.toml`)");
        with_words(&text, "(`no-sack.toml`). It gets ", &at("reno", "0"), " with `byte_counting_limit = 0`")
    });
}

#[test]
fn one_sender_of_linux_gets_what_the_document_gives_and_linux_within_a_twentieth() {
    let found = runs(&kept("linux.toml", as_kept), |_| true);
    assert_eq!(found.len(), 15, "five paths and three laws");
    let ours = |rate: &str| {
        let of = found.iter().filter(|(values, _)| values[0] == rate);
        of.map(|(_, results)| value(results, "goodput") / 1e6).collect::<Vec<_>>()
    };
    for rate in ["5", "20", "50", "100", "10"] {
        let ours = ours(&format!("{rate}Mbit"));
        hold(|text| {
            let row = text.lines().find(|line| line.starts_with(&format!("| {rate} Mbit/s, "))).expect("its row");
            let mut cells: Vec<String> = row.split('|').map(|cell| cell.trim().to_owned()).collect();
            for (law, mbit) in ours.iter().enumerate() {
                let linux: f64 = cells[2 + 2 * law].parse().expect("what Linux has");
                assert!((mbit / linux - 1.0).abs() < 0.05, "{rate} Mbit/s, law {law}: Linux {linux}, ours {mbit}");
                cells[3 + 2 * law] = format!("{mbit:.2}");
            }
            text.replace(row, cells.join(" | ").trim())
        });
    }
}

#[test]
fn packets_in_turn_get_what_the_document_gives_second_by_second() {
    let found = runs(&kept("packets-in-turn.toml", as_kept), |_| true);
    assert_eq!(found.len(), 5, "five seeds");
    let from_the_start = |text: &str| {
        let text = text.replace("warm_up = \"3s\"", "warm_up = \"0s\"").replace("seeds = \"1..5\"", "seeds = [1]");
        format!("{}\n[metrics]\nseries = \"1s\"\n", text.split("\n[[expect]]").next().expect("a beginning"))
    };
    let whole = runs(&kept("packets-in-turn.toml", from_the_start), |_| true);
    let series = |results: &Results| {
        let found = results.series.iter().find(|series| series.name == "flow tcp throughput").expect("a series");
        found.values.iter().take(7).map(|rate| format!("{:.1}", rate / 1e6)).collect::<Vec<_>>()
    };
    let goodput = mean(found.iter().map(|(_, results)| value(results, "goodput") / 1e6));
    let again: Vec<f64> = found.iter().map(|(_, results)| value(results, "flow.tcp.tcp.retransmitted")).collect();
    hold(|text| {
        let cells = series(&whole[0].1).into_iter().chain([format!("{goodput:.1}")]).collect::<Vec<_>>();
        with_cells(text, "\n| simulated | ", &cells)
    });
    let text = document().split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in [
        format!("and the simulated one {:.1} % of 150 Mbit/s.", goodput / 1.5),
        format!("The real one sent 17 segments again, and the simulated one {}.", range(&again, 0)),
    ] {
        assert!(text.contains(&sentence), "docs/cross-check.md should say: {sentence}");
    }
}

/// The middle one of several.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The largest share of packets less the smallest among the four links from the server.
fn load_difference(results: &Results) -> f64 {
    let of = |name: &str| value(results, &format!("link.{name}.packets"));
    let all = ["eth0", "eth1", "eth2", "eth3"].map(of);
    let (least, most) = (all.into_iter().fold(f64::INFINITY, f64::min), all.into_iter().fold(0.0, f64::max));
    (most - least) / all.iter().sum::<f64>()
}

/// How far a simulated throughput is from a real one of which the table has one decimal: what the cell says already, if it may be so.
fn off(cell: &str, real: f64, simulated: f64) -> String {
    let said = 1.0 + number(cell) / 100.0;
    if said >= simulated / (real + 0.05) - 0.0005 && said <= simulated / (real - 0.05) + 0.0005 {
        return cell.to_owned();
    }
    format!("{:+.1}%", 100.0 * (simulated / real - 1.0))
}

#[test]
fn burst_round_robin_gets_in_the_simulator_what_the_document_gives_beside_real_programs() {
    // The points with a row; those of brr:adaptive have none.
    let found = runs(&kept("burst-round-robin.toml", as_kept), |values| values[0] != "brr:adaptive");
    let points: Vec<_> = found.chunk_by(|a, b| a.0 == b.0).collect();
    hold(|text| {
        let mut text = text.to_owned();
        for point in &points {
            assert_eq!(point.len(), 5, "five seeds");
            let values = &point[0].0;
            let delay = values[6].replace("5us", "0");
            let row = format!("| {} | {} | {} | {delay} | ", values[0], values[1], values[3]);
            let of = |metric: &str| median(point.iter().map(|(_, results)| value(results, metric)).collect());
            let rate = of("flow.web.transfers.throughput") / 1e6;
            let load = median(point.iter().map(|(_, results)| load_difference(results)).collect());
            let order = of("flow.web.reordering.below_highest");
            let start = text.find(&row).unwrap_or_else(|| panic!("no row {row}")) + row.len();
            let cells: Vec<&str> = text[start..].lines().next().expect("a row").split(" | ").collect();
            let off = off(cells[2], number(cells[0]), rate);
            text = with_cells_from(&text, &row, 1, &[format!("{rate:.1}"), off]);
            text = with_cells_from(&text, &row, 4, &[format!("{:.1}%", 100.0 * load)]);
            text = with_cells_from(&text, &row, 6, &[format!("{:.1}%", 100.0 * order)]);
        }
        text
    });
}

/// The fractions of a table cell such as `37.5 (36.4 to 37.5)` or `+0.4%`: its first number.
fn number(cell: &str) -> f64 {
    let text = cell.trim().split(' ').next().unwrap_or_default();
    text.trim_end_matches('%').parse().unwrap_or_else(|_| panic!("no number: {cell}"))
}

#[test]
fn what_is_said_of_real_programs_beside_simulated_ones_is_what_their_table_has() {
    let text = fs::read_to_string(root().join("docs/cross-check.md")).expect("a document");
    let (_, part) = text.split_once("## Burst round robin with real programs").expect("the part");
    let (part, _) = part.split_once("\n## ").expect("the next part");
    let is_row = |line: &&str| line.starts_with("| b") || line.starts_with("| active-backup");
    let rows: Vec<Vec<&str>> = part.lines().filter(is_row).map(|line| line.split('|').collect()).collect();
    let (mut within, mut near, mut apart) = (0, 0, 0.0_f64);
    for row in &rows {
        let [real, simulated, off] = [5, 6, 7].map(|n| number(row[n]));
        // Both are rounded to a tenth, and so is what their quotient is said to be.
        let (least, most) = ((simulated - 0.05) / (real + 0.05), (simulated + 0.05) / (real - 0.05));
        let said = 1.0 + off / 100.0;
        assert!(said > least - 0.0005 && said < most + 0.0005, "{row:?}");
        (within, near) = (within + usize::from(off.abs() <= 15.0), near + usize::from(off.abs() <= 3.0));
        apart = apart.max((number(row[8]) - number(row[9])).abs());
    }
    // In words, as the text has it.
    assert!(apart <= 2.0, "loads are {apart} points apart");
    assert_eq!(within - near, 1, "all but one of those within 15 % are within 3 %");
    let sentence =
        format!("Of the {} throughputs {within} are within 15 %, and all but one of these within 3 %.", rows.len());
    assert!(part.contains(&sentence), "it should say: {sentence}");
}
