//! Chapter 2, on captures: how many flows there are, of what, and what serving them costs.
//!
//! The paper's traces are not to be had. In their place stand the two halves of a mix of captures, which is no trace of any one place: by
//! packets, the first half where the paper has the corporate gateway (dec-pkt-1), the second where it has the backbone (FIXWEST). So only
//! orders can be the same, not values.

use super::super::evidence::{Cell, Evidence};
use super::super::finding::{Finding, faults};
use super::super::variation::{NOT_SO, hangs_on};
use super::super::{Answer, Bench, NoTestData};
use anyhow::Context;
use fairspan_core::flow::{Definition, Reading};
use fairspan_core::ip;
use fairspan_core::units::{Rate, Span};
use fairspan_trace::capture::Captured;
use fairspan_trace::capture::stream::Stream;
use fairspan_trace::cost::active::Active;
use fairspan_trace::cost::meter::Meter;
use fairspan_trace::cost::operations::Operations;
use fairspan_trace::cost::{self, Sequence};
use fairspan_trace::flows::gateway::{self, Stable};
use fairspan_trace::flows::{Config, Flows, Row};
use fairspan_trace::info::Info;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::path::PathBuf;

const MIX: &str = "gwmix-96.pcap.xz";
/// Packets of the mix, and of its first half.
const PACKETS: usize = 517_608;
const HALF: usize = PACKETS / 2;
const HALVES: [&str; 2] = ["dec", "fixwest"];

/// All packets of the mix with the half that they belong to.
fn read(bench: &Bench, mut each: impl FnMut(usize, &Captured<'_>)) -> anyhow::Result<()> {
    let root = std::env::var_os("FAIRSPAN_TESTDATA").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
    let path = root.join("traces").join(MIX);
    let file = File::open(&path).map_err(|_| NoTestData(path.clone()))?;
    let mut stream = Stream::open(file, MIX, None).with_context(|| path.display().to_string())?;
    let mut packets = 0;
    while stream.advance().with_context(|| path.display().to_string())? {
        each((packets / HALF).min(1), &stream.packet());
        packets += 1;
        if packets % 4096 == 0 {
            bench.check()?;
        }
    }
    anyhow::ensure!(packets == PACKETS, "{}: {packets} packets, not {PACKETS}", path.display());
    Ok(())
}

/// What of counting flows the paper does not tell.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counting {
    /// Chains of the hash.
    chains: u32,
    /// By which flows belong to chains.
    key: u64,
    /// How long a packet may wait to be processed, from which the gateway's lowest stable rate follows.
    wait: Span,
}

impl Counting {
    /// With the gateway's default.
    fn of(chains: u32, key: u64) -> Counting {
        Counting { chains, key, wait: gateway::Config::default().wait }
    }
}

/// Flows of both halves, by these definitions under these timeouts, 0 at the gateway's lowest stable rate.
fn flows(bench: &Bench, definitions: &[&str], timeouts: &[u64], counting: Counting) -> anyhow::Result<[Vec<Row>; 2]> {
    let gateway = gateway::Config { wait: counting.wait, ..gateway::Config::default() };
    let mut stable = [Stable::new(gateway.wait), Stable::new(gateway.wait)];
    read(bench, |half, packet| stable[half].packet(packet.time))?;
    let definitions = definitions.iter().map(|name| name.parse()).collect::<Result<Vec<Definition>, _>>()?;
    let count = |stable: &Stable| {
        let config = Config {
            definitions: definitions.clone(),
            timeouts: timeouts.iter().map(|timeout| Some(Span::from_secs(*timeout))).collect(),
            gateway: (gateway.clone(), stable.processing()),
            table_size: counting.chains,
            seed: counting.key,
            ..Config::default()
        };
        Flows::new(&config)
    };
    let mut counted = [count(&stable[0])?, count(&stable[1])?];
    read(bench, |half, packet| counted[half].packet(packet, &mut |_, _| {}))?;
    Ok(counted.map(|mut flows| {
        flows.finish(&mut |_, _| {});
        flows.rows().collect()
    }))
}

fn most(rows: &[Row]) -> Vec<u64> {
    rows.iter().map(|row| u64::from(row.counts.most)).collect()
}

fn list(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<String>>().join(", ")
}

fn with(answer: Answer, ours: Map<String, Value>) -> Answer {
    Answer { ours, ..answer }
}

/// What stands where the paper's traces do.
const INSTEAD: &str = "The values are of other traffic than the paper's: the first and the second 258,804 packets of a mix of captures stand for its two traces";

/// What Table 2.2 says of timeouts that get shorter: fewer flows at once, more flow operations, fewer collisions.
fn shorter(finding: &mut Finding, name: &str, most: &[u64], halved: &[u64], collisions: &[u64]) {
    let falls = |numbers: &[u64]| numbers.windows(2).all(|pair| pair[0] > pair[1]);
    finding.check(falls(most), || format!("{name}: at most {} flows", list(most)));
    finding.check(halved.windows(2).all(|pair| pair[0] < pair[1]), || format!("{name}: {} operations", list(halved)));
    finding.check(falls(collisions), || format!("{name}: {} collisions", list(collisions)));
}

/// Table 2.2 of both halves, by timeout: the most flows, operations halved, collisions.
type Timeouts = [[Vec<u64>; 3]; 2];

fn by_timeout(bench: &Bench, counting: Counting) -> anyhow::Result<Timeouts> {
    let halves = flows(bench, &["pair"], &[10, 5, 1, 0], counting)?;
    Ok(halves.map(|rows| {
        let halved = rows.iter().map(|row| (row.counts.created + row.counts.expired) / 2).collect();
        [most(&rows), halved, rows.iter().map(|row| row.counts.collisions).collect()]
    }))
}

/// Chains of the hash where the paper does not tell them.
const TABLE: u32 = 65_536;
const WHAT: [&str; 3] = [
    "chains of the hash; the paper does not tell",
    "key of the hash",
    "how long a packet may wait at the gateway, ms, from which the time follows for which a flow without a timeout is known; the paper does not tell",
];

/// A line for each value of the three constants of counting, the first of each as it is used; of a reduced answer two values.
fn counted(
    bench: &Bench,
    [chains, keys, waits]: [&[u64]; 3],
    columns: &[&str],
    mut measure: impl FnMut(Counting) -> anyhow::Result<Vec<Cell>>,
) -> anyhow::Result<Vec<Evidence>> {
    let usual = Counting::of(chains[0] as u32, keys[0]);
    anyhow::ensure!(usual.wait == Span::from_millis(waits[0]), "the gateway's default is {:?}", usual.wait);
    let used = measure(usual)?;
    let mut tables = Vec::new();
    let with = |which: usize, value: u64| match which {
        0 => Counting { chains: value as u32, ..usual },
        1 => Counting { key: value, ..usual },
        _ => Counting { wait: Span::from_millis(value), ..usual },
    };
    for (which, values) in [chains, keys, waits].into_iter().enumerate() {
        let mut table = Evidence::new(WHAT[which], columns);
        let most = if bench.is_reduced() { 2 } else { values.len() };
        for (n, value) in values.iter().enumerate().take(most) {
            let cells = if n == 0 { used.clone() } else { measure(with(which, *value))? };
            table.line(value.to_string(), n == 0, cells);
        }
        tables.push(table);
    }
    Ok(tables)
}

/// Table 2.2, Figure 2.3.
pub(crate) fn timeouts(bench: &mut Bench) -> anyhow::Result<Answer> {
    let (mut finding, mut ours, mut told) = (Finding::default(), Map::new(), Vec::new());
    let usual = by_timeout(bench, Counting::of(TABLE, 1))?;
    for (name, [most, halved, collisions]) in HALVES.iter().zip(&usual) {
        shorter(&mut finding, name, most, halved, collisions);
        told.push(list(collisions));
        ours.insert(format!("{name}_timeout_10_5_1_0_max_flows"), json!(most));
        ours.insert(format!("{name}_flow_operations_halved"), json!(halved));
    }
    let columns = [
        "dec: collisions, 10 s",
        "0 s",
        "most flows, 0 s",
        "fixwest: collisions, 10 s",
        "0 s ",
        "most flows, 0 s ",
        NOT_SO,
    ];
    let sensitivity =
        counted(bench, [&[u64::from(TABLE), 1024, 8192], &[1, 2, 3], &[100, 50, 200]], &columns, |counting| {
            let found = if counting == Counting::of(TABLE, 1) { usual.clone() } else { by_timeout(bench, counting)? };
            let (mut cells, mut count) = (Vec::new(), 0);
            for (name, [most, halved, collisions]) in HALVES.iter().zip(&found) {
                count += faults(|finding| shorter(finding, name, most, halved, collisions));
                cells.extend([collisions[0], collisions[3], most[3]].map(|number| Cell::exact(number as f64)));
            }
            cells.push(Cell::exact(count as f64));
            Ok(cells)
        })?;
    let told = format!("{INSTEAD}. Collisions in 65,536 chains, 10, 5, 1 and 0 s: {}", told.join(" and "));
    let calibrated = hangs_on(&sensitivity);
    Ok(with(Answer { sensitivity, calibrated, ..finding.answer(told) }, ours))
}

/// Keys of the hash over which collisions are averaged, and chains: with the 65,536 of the other claims there are so few that chance decides.
const KEYS: u64 = 8;
const CHAINS: u32 = 1024;

/// Whether finer definitions have more. Sources and destinations are parts of pairs, but neither is part of the other.
fn is_finer([source, destination, pair, five]: [u64; 4]) -> bool {
    let least = source.max(destination);
    least <= pair && pair <= five && least < five
}

/// Table 2.3 of both halves, by definition: the most flows, and the mean collisions over so many keys from one on.
fn by_definition(bench: &Bench, counting: Counting, keys: u64) -> anyhow::Result<[[Vec<u64>; 2]; 2]> {
    let mut found = [const { [Vec::new(), Vec::new()] }; 2];
    for key in counting.key..counting.key + keys {
        let definitions = ["source", "destination", "pair", "five-tuple"];
        let halves = flows(bench, &definitions, &[0], Counting { key, ..counting })?;
        for (half, rows) in halves.iter().enumerate() {
            let [most_of, collisions] = &mut found[half];
            *most_of = most(rows);
            collisions.resize(rows.len(), 0);
            collisions.iter_mut().zip(rows).for_each(|(sum, row)| *sum += row.counts.collisions);
        }
    }
    Ok(found.map(|[most, collisions]| [most, collisions.into_iter().map(|sum| sum / keys).collect()]))
}

/// What Table 2.3 says of a half.
fn coarser(finding: &mut Finding, name: &str, found: &[Vec<u64>; 2]) -> anyhow::Result<()> {
    for (what, numbers) in ["flows", "collisions"].into_iter().zip(found) {
        let &[source, destination, pair, five] = &numbers[..] else { anyhow::bail!("four definitions") };
        finding.check(is_finer([source, destination, pair, five]), || format!("{name}: {what} {}", list(numbers)));
    }
    Ok(())
}

/// Table 2.3, Figure 2.4.
pub(crate) fn aggregation(bench: &mut Bench) -> anyhow::Result<Answer> {
    let (mut finding, mut ours, mut told) = (Finding::default(), Map::new(), Vec::new());
    for (name, found) in HALVES.iter().zip(&by_definition(bench, Counting::of(CHAINS, 1), KEYS)?) {
        coarser(&mut finding, name, found)?;
        told.push(list(&found[1]));
        ours.insert(format!("{name}_max_flows_f3_f2_f1_f0"), json!(found[0]));
    }
    let told = format!(
        "{INSTEAD}. Collisions in {CHAINS} chains, the mean of {KEYS} keys of the hash: {}",
        told.join(" and ")
    );
    let columns = [
        "dec: collisions by source",
        "by destination",
        "by pair",
        "by five-tuple",
        "fixwest: by source",
        "by destination ",
        "by pair ",
        "by five-tuple ",
        NOT_SO,
    ];
    // With fewer keys, of which each line takes the next two.
    let values: [&[u64]; 3] = [&[u64::from(CHAINS), 256, u64::from(TABLE)], &[1, 3, 5], &[100, 50, 200]];
    let sensitivity = counted(bench, values, &columns, |counting| {
        let (mut cells, mut finding) = (Vec::new(), 0);
        for (name, found) in HALVES.iter().zip(&by_definition(bench, counting, 2)?) {
            let mut outcome = Ok(());
            finding += faults(|finding| outcome = coarser(finding, name, found));
            outcome?;
            cells.extend(found[1].iter().map(|number| Cell::exact(*number as f64)));
        }
        cells.push(Cell::exact(finding as f64));
        Ok(cells)
    })?;
    let calibrated = hangs_on(&sensitivity);
    Ok(with(Answer { sensitivity, calibrated, ..finding.answer(told) }, ours))
}

/// Whether shares of TCP, UDP and others are in the order of the paper's trace of that name.
fn is_mixed_alike(name: &str, [tcp, udp, other]: [f64; 3]) -> bool {
    if name == "dec" { tcp > udp && udp > other } else { udp > other && other > tcp }
}

/// Table 2.4.
pub(crate) fn mix(bench: &mut Bench) -> anyhow::Result<Answer> {
    let mut infos = [Info::default(), Info::default()];
    read(bench, |half, packet| infos[half].packet(packet))?;
    let (mut finding, mut ours) = (Finding::default(), Map::new());
    for (name, info) in HALVES.iter().zip(&infos) {
        let of = |wanted: u8| {
            let volume = info.protocols().find(|(number, _)| *number == wanted);
            volume.map_or(0.0, |(_, volume)| volume.packets as f64)
        };
        let all = info.tally().classified.max(1) as f64;
        let shares = [of(ip::TCP) / all, of(ip::UDP) / all, 1.0 - (of(ip::TCP) + of(ip::UDP)) / all];
        let [tcp, udp, other] = shares;
        finding.check(is_mixed_alike(name, shares), || {
            format!(
                "{name}: TCP {:.1} %, UDP {:.1} %, others {:.1} %: another order",
                100.0 * tcp,
                100.0 * udp,
                100.0 * other
            )
        });
        ours.insert(format!("{name}_tcp_udp_other"), json!(shares));
    }
    let told = format!(
        "{INSTEAD}. A fifth and more of the packets are not TCP's in either; the paper calls FIXWEST's shares not representative"
    );
    Ok(with(finding.answer(told), ours))
}

/// Nothing is measured: only formulas are asked for.
pub(super) struct Unmeasured;

impl Meter for Unmeasured {
    fn now(&mut self) -> u64 {
        0
    }

    fn processor(&mut self) -> u64 {
        0
    }

    fn instructions(&mut self) -> Option<u64> {
        None
    }

    fn heap(&mut self) -> (i64, i64) {
        (0, 0)
    }
}

/// What Figures 2.5 and 2.6 say of mean operations: WFQ far above SFQ, SFQ somewhat above DRR, stochastic queueing just below it.
fn costs(finding: &mut Finding, told: impl Fn() -> String, [wfq, sfq, drr, stochastic]: [f64; 4]) {
    let little = drr - stochastic;
    finding.check(wfq > 1.5 * sfq && sfq > drr && sfq < 1.5 * drr, &told);
    finding.check(little > 0.0 && little < 0.05 * drr, &told);
}

/// Figures 2.5 and 2.6.
pub(crate) fn cost(bench: &mut Bench) -> anyhow::Result<Answer> {
    let config = cost::Config {
        definition: Definition::FiveTuple,
        reading: Reading::Plain,
        table_size: 65_536,
        most: PACKETS,
        secret: 0,
        seed: 1,
    };
    let mut halves = [Sequence::new(config), Sequence::new(config)];
    read(bench, |half, packet| halves[half].packet(packet, &mut Unmeasured))?;
    let (mut finding, mut told) = (Finding::default(), Vec::new());
    let link = Rate::from_mbit(1000);
    for (name, sequence) in HALVES.iter().zip(&mut halves) {
        sequence.pace(link, 0.9);
        let active = Active::of(sequence, link, 1000, config.table_size)?;
        let mean = |name: &str| -> anyhow::Result<f64> {
            let operations = Operations::of(&name.parse()?).context("a formula")?;
            Ok(active.operations(operations).mean)
        };
        let [wfq, sfq, drr, stochastic] = [mean("wfq")?, mean("sfq")?, mean("drr")?, mean("stochastic")?];
        let line = format!("WFQ {wfq:.2}, SFQ {sfq:.2}, DRR {drr:.2}, stochastic {stochastic:.4} (DRR {drr:.4})");
        costs(&mut finding, || format!("{name}: {line}"), [wfq, sfq, drr, stochastic]);
        told.push(format!("{line} with up to {} active flows", active.most()));
    }
    Ok(finding.answer(format!(
        "Operations for each packet, on average, of five-tuples in the two halves of a mix of captures that loads 1 Gbit/s to 90 %: {}",
        told.join("; ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::finding::faults;

    #[test]
    fn shorter_timeouts_have_to_change_each_number_at_each_step() {
        let count = |most: [u64; 4], halved: [u64; 4], collisions: [u64; 4]| {
            faults(|finding| shorter(finding, "dec", &most, &halved, &collisions))
        };
        let (falls, rises) = ([9, 8, 7, 6], [6, 7, 8, 9]);
        assert_eq!(count(falls, rises, falls), 0);
        for at in 0..3 {
            let (mut flat, mut level) = (falls, rises);
            flat[at + 1] = flat[at];
            level[at + 1] = level[at];
            // Where one is level the next step is steeper, so only this one is at fault.
            assert_eq!(
                [count(flat, rises, falls), count(falls, level, falls), count(falls, rises, flat)],
                [1; 3],
                "{at}"
            );
        }
    }

    #[test]
    fn finer_definitions_have_no_less_and_the_finest_has_more() {
        assert!(is_finer([5, 4, 5, 6]) && is_finer([4, 5, 6, 6]));
        assert!(![[5, 4, 4, 6], [4, 5, 4, 6], [4, 4, 6, 5], [5, 4, 5, 5], [4, 5, 5, 5]].into_iter().any(is_finer));
    }

    #[test]
    fn the_order_of_protocols_is_the_traces_own() {
        assert!(is_mixed_alike("dec", [0.5, 0.3, 0.2]) && is_mixed_alike("fixwest", [0.2, 0.5, 0.3]));
        for shares in [[0.4, 0.4, 0.2], [0.6, 0.2, 0.2], [f64::NAN, 0.3, 0.2]] {
            assert!(!is_mixed_alike("dec", shares), "{shares:?}");
        }
        for shares in [[0.2, 0.4, 0.4], [0.25, 0.5, 0.25], [f64::NAN, 0.5, 0.3]] {
            assert!(!is_mixed_alike("fixwest", shares), "{shares:?}");
        }
    }

    #[test]
    fn operations_are_held_to_each_of_their_ratios() {
        let count = |values| faults(|finding| costs(finding, String::new, values));
        assert_eq!(count([22.6, 15.0, 10.01, 10.0]), 0);
        assert_eq!(count([22.51, 14.99, 10.0, 9.51]), 0);
        for outside in [
            [22.4, 14.99, 10.0, 9.9],
            [30.0, 10.0, 10.0, 9.9],
            [30.0, 15.01, 10.0, 9.9],
            [22.6, 14.99, 10.0, 10.0],
            [22.6, 14.99, 10.0, 9.49],
            [f64::NAN, 14.99, 10.0, 9.9],
        ] {
            assert_eq!(count(outside), 1, "{outside:?}");
        }
    }
}
