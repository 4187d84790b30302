//! Chapter 2, on captures: how many flows there are, of what, and what serving them costs.
//!
//! The paper's traces are not to be had. In their place stand the two halves of a mix of captures, which is no trace of any one place: by
//! packets, the first half where the paper has the corporate gateway (dec-pkt-1), the second where it has the backbone (FIXWEST). So only
//! orders can be the same, not values.

use super::super::finding::Finding;
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
pub(super) const HALVES: [&str; 2] = ["dec", "fixwest"];

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
#[derive(Clone, Copy, Debug)]
pub(super) struct Counting {
    /// Chains of the hash.
    pub(super) chains: u32,
    /// By which flows belong to chains.
    pub(super) key: u64,
    /// How long a packet may wait to be processed, from which the gateway's lowest stable rate follows.
    pub(super) wait: Span,
}

impl Counting {
    /// With what the gateway has by default.
    pub(super) fn of(chains: u32, key: u64) -> Counting {
        Counting { chains, key, wait: gateway::Config::default().wait }
    }
}

/// Flows of both halves, by these definitions under these timeouts, 0 at the gateway's lowest stable rate; once for each of so many keys, from
/// that of `counting` on.
fn flows(
    bench: &Bench,
    definitions: &[&str],
    timeouts: &[u64],
    counting: Counting,
    keys: u64,
) -> anyhow::Result<Vec<[Vec<Row>; 2]>> {
    let gateway = gateway::Config { wait: counting.wait, ..gateway::Config::default() };
    let mut stable = [Stable::new(gateway.wait), Stable::new(gateway.wait)];
    read(bench, |half, packet| stable[half].packet(packet.time))?;
    let definitions = definitions.iter().map(|name| name.parse()).collect::<Result<Vec<Definition>, _>>()?;
    let count = |stable: &Stable, key: u64| {
        let config = Config {
            definitions: definitions.clone(),
            timeouts: timeouts.iter().map(|timeout| Some(Span::from_secs(*timeout))).collect(),
            gateway: (gateway.clone(), stable.processing()),
            table_size: counting.chains,
            seed: key,
            ..Config::default()
        };
        Flows::new(&config)
    };
    let mut counted = Vec::new();
    for key in counting.key..counting.key + keys {
        counted.push([count(&stable[0], key)?, count(&stable[1], key)?]);
    }
    read(bench, |half, packet| counted.iter_mut().for_each(|counted| counted[half].packet(packet, &mut |_, _| {})))?;
    let finished = counted.into_iter().map(|halves| {
        halves.map(|mut flows| {
            flows.finish(&mut |_, _| {});
            flows.rows().collect()
        })
    });
    Ok(finished.collect())
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
pub(super) fn shorter(finding: &mut Finding, name: &str, most: &[u64], halved: &[u64], collisions: &[u64]) {
    let falls = |numbers: &[u64]| numbers.windows(2).all(|pair| pair[0] > pair[1]);
    finding.check(falls(most), || format!("{name}: at most {} flows", list(most)));
    finding.check(halved.windows(2).all(|pair| pair[0] < pair[1]), || format!("{name}: {} operations", list(halved)));
    finding.check(falls(collisions), || format!("{name}: {} collisions", list(collisions)));
}

/// Chains of the hash where the paper does not tell them.
pub(super) const TABLE: u32 = 65_536;

/// Table 2.2 of a half, by timeout.
pub(super) struct ByTimeout {
    pub(super) most: Vec<u64>,
    /// Flow operations, halved.
    pub(super) halved: Vec<u64>,
    pub(super) collisions: Vec<u64>,
}

/// Table 2.2 of both halves.
pub(super) fn by_timeout(bench: &Bench, counting: Counting) -> anyhow::Result<[ByTimeout; 2]> {
    let halves = flows(bench, &["pair"], &[10, 5, 1, 0], counting, 1)?.pop().context("no key")?;
    Ok(halves.map(|rows| ByTimeout {
        most: most(&rows),
        halved: rows.iter().map(|row| (row.counts.created + row.counts.expired) / 2).collect(),
        collisions: rows.iter().map(|row| row.counts.collisions).collect(),
    }))
}

/// Table 2.2, Figure 2.3.
pub(crate) fn timeouts(bench: &mut Bench) -> anyhow::Result<Answer> {
    let (mut finding, mut ours, mut told) = (Finding::default(), Map::new(), Vec::new());
    for (name, found) in HALVES.iter().zip(&by_timeout(bench, Counting::of(TABLE, 1))?) {
        shorter(&mut finding, name, &found.most, &found.halved, &found.collisions);
        told.push(list(&found.collisions));
        ours.insert(format!("{name}_timeout_10_5_1_0_max_flows"), json!(found.most));
        ours.insert(format!("{name}_flow_operations_halved"), json!(found.halved));
    }
    let told = format!("{INSTEAD}. Collisions in 65,536 chains, 10, 5, 1 and 0 s: {}", told.join(" and "));
    Ok(with(finding.answer(told), ours))
}

/// Keys of the hash over which collisions are averaged, and chains: with the 65,536 of the other claims there are so few that chance decides.
pub(super) const KEYS: u64 = 8;
pub(super) const CHAINS: u32 = 1024;

/// Whether finer definitions have more. Sources and destinations are parts of pairs, but neither is part of the other.
fn is_finer([source, destination, pair, five]: [u64; 4]) -> bool {
    let least = source.max(destination);
    least <= pair && pair <= five && least < five
}

/// Table 2.3 of a half, by definition: source, destination, pair, five-tuple.
#[derive(Clone, Copy, Default)]
pub(super) struct ByDefinition {
    pub(super) most: [u64; 4],
    /// Their mean over keys of the hash.
    pub(super) collisions: [u64; 4],
}

/// Table 2.3 of both halves, collisions over so many keys from one on.
pub(super) fn by_definition(bench: &Bench, counting: Counting, keys: u64) -> anyhow::Result<[ByDefinition; 2]> {
    let definitions = ["source", "destination", "pair", "five-tuple"];
    let mut found = [ByDefinition::default(); 2];
    for halves in &flows(bench, &definitions, &[0], counting, keys)? {
        for (found, rows) in found.iter_mut().zip(halves) {
            found.most = <[u64; 4]>::try_from(most(rows)).ok().context("four definitions")?;
            found.collisions.iter_mut().zip(rows).for_each(|(sum, row)| *sum += row.counts.collisions);
        }
    }
    Ok(found.map(|found| ByDefinition { collisions: found.collisions.map(|sum| sum / keys), ..found }))
}

/// What Table 2.3 says of a half.
pub(super) fn coarser(finding: &mut Finding, name: &str, found: &ByDefinition) {
    for (what, numbers) in [("flows", found.most), ("collisions", found.collisions)] {
        finding.check(is_finer(numbers), || format!("{name}: {what} {}", list(&numbers)));
    }
}

/// Table 2.3, Figure 2.4.
pub(crate) fn aggregation(bench: &mut Bench) -> anyhow::Result<Answer> {
    let (mut finding, mut ours, mut told) = (Finding::default(), Map::new(), Vec::new());
    for (name, found) in HALVES.iter().zip(&by_definition(bench, Counting::of(CHAINS, 1), KEYS)?) {
        coarser(&mut finding, name, found);
        told.push(list(&found.collisions));
        ours.insert(format!("{name}_max_flows_f3_f2_f1_f0"), json!(found.most));
    }
    let told = format!(
        "{INSTEAD}. Collisions in {CHAINS} chains, the mean of {KEYS} keys of the hash: {}",
        told.join(" and ")
    );
    Ok(with(finding.answer(told), ours))
}

/// Whether shares of TCP, UDP and others are in the order of the paper's trace of that name.
fn is_mixed_alike(name: &str, [tcp, udp, other]: [f64; 3]) -> bool {
    if name == "dec" { tcp > udp && udp > other } else { udp > other && other > tcp }
}

/// Table 2.4.
pub(crate) fn mix(bench: &mut Bench) -> anyhow::Result<Answer> {
    let mut infos = [Info::default(), Info::default()];
    read(bench, |half, packet| infos[half].packet(packet))?;
    let (mut finding, mut ours, mut others) = (Finding::default(), Map::new(), Vec::new());
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
        others.push(format!("{:.1}", 100.0 * (1.0 - tcp)));
        ours.insert(format!("{name}_tcp_udp_other"), json!(shares));
    }
    let told = format!(
        "{INSTEAD}. {} % of the packets are not TCP's; the paper calls FIXWEST's shares not representative",
        others.join(" and ")
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
    fn flows_and_collisions_of_a_half_are_judged_each() {
        let count = |most, collisions| faults(|finding| coarser(finding, "dec", &ByDefinition { most, collisions }));
        let (finer, level) = ([5, 4, 5, 6], [5, 4, 5, 5]);
        assert_eq!([count(finer, finer), count(level, finer), count(finer, level), count(level, level)], [0, 1, 1, 2]);
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
