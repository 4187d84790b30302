//! Table 2.1: how the work for a packet grows with the flows.
//!
//! Generated packets pass what `trace cost` has captures pass: 16 to 16,384 flows, each with three packets that all come at once, so that
//! from the second round on each packet finds all flows active. The entries that are searched are counted in our own hash table, the flows
//! that are held as state in our own table of them. Tags and service are the paper's cost functions over that; what our own disciplines take
//! is measured by `trace cost` in instructions and nanoseconds, which are a machine's and no answer.

use super::super::finding::Finding;
use super::super::{Answer, Bench};
use super::captures::Unmeasured;
use anyhow::Context;
use fairspan_core::flow::{Definition, Reading};
use fairspan_core::units::Rate;
use fairspan_trace::capture::{Captured, LinkType};
use fairspan_trace::cost::active::Active;
use fairspan_trace::cost::operations::Operations;
use fairspan_trace::cost::{self, Sequence};

/// Flows, fourfold from each to the next.
const FLOWS: [u32; 6] = [16, 64, 256, 1024, 4096, 16_384];
const ROUNDS: u32 = 3;
/// Chains of a hash table that has enough of them, and of one that has not.
const CHAINS: [u32; 2] = [65_536, 16];
/// Frames of raw IP (DLT_RAW).
const RAW_IP: LinkType = 101;

/// Work for a packet that finds `n` flows active.
#[derive(Clone, Copy, Debug)]
struct Work {
    n: f64,
    /// Entries searched, on average, with many chains and with few.
    entries: [f64; 2],
    wfq: f64,
    sfq: f64,
    drr: f64,
    stochastic: f64,
    /// Flows that are held.
    held: u32,
}

/// A datagram of flow `number`: IPv4 and UDP without data.
fn datagram(number: u32) -> [u8; 28] {
    let mut bytes = [0; 28];
    bytes[..12].copy_from_slice(&[0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    bytes[12..16].copy_from_slice(&(0x0a00_0000 | number).to_be_bytes());
    bytes[16..20].copy_from_slice(&[192, 0, 2, 1]);
    bytes[20..28].copy_from_slice(&[0x13, 0x88, 0, 53, 0, 8, 0, 0]);
    bytes
}

fn sequence(flows: u32) -> Sequence {
    let mut sequence = Sequence::new(cost::Config {
        definition: Definition::FiveTuple,
        reading: Reading::Plain,
        table_size: CHAINS[0],
        most: (flows * ROUNDS) as usize,
        secret: 0,
        seed: 1,
    });
    for number in (0..ROUNDS).flat_map(|_| 0..flows) {
        let bytes = datagram(number);
        let packet = Captured { time: 0, length: 1000, bytes: &bytes, link_type: RAW_IP };
        sequence.packet(&packet, &mut Unmeasured);
    }
    sequence
}

fn work(flows: u32) -> anyhow::Result<Work> {
    let sequence = sequence(flows);
    let of = |chains| Active::of(&sequence, Rate::from_mbit(1000), flows * ROUNDS, chains);
    let [many, few] = [of(CHAINS[0])?, of(CHAINS[1])?];
    let worst = |name: &str| -> anyhow::Result<f64> {
        let operations = Operations::of(&name.parse()?).context("a formula")?;
        Ok(many.operations(operations).worst)
    };
    Ok(Work {
        n: f64::from(flows),
        entries: [many.entries(), few.entries()],
        wfq: worst("wfq")?,
        sfq: worst("sfq")?,
        drr: worst("drr")?,
        stochastic: worst("stochastic")?,
        held: many.most(),
    })
}

/// What Table 2.1 says of the work as flows get more, four times as many at each step.
fn scales(finding: &mut Finding, all: &[Work]) {
    for work in all {
        let Work { n, entries: [search, _], wfq, sfq, drr, stochastic, held } = *work;
        let same = |one: f64, other: f64| (one - other).abs() < 1e-6;
        let told = || format!("{n} flows: WFQ {wfq}, SFQ {sfq}, DRR {drr}, stochastic {stochastic}, searched {search}");
        finding.check(f64::from(held) == n, told);
        // What WFQ has beyond SFQ is its tag, and what SFQ has beyond DRR its own and its service.
        finding.check(same(wfq - sfq, n - 1.0) && same(sfq - drr, 1.0 + (2.0 * n).log2()), told);
        // What is left beside the state and the search.
        finding.check(same(drr - n - search, 0.0) && same(stochastic - n, 1.0), told);
        finding.check(search < 1.5, told);
    }
    for pair in all.windows(2) {
        let ([before, few_before], [after, few_after]) = (pair[0].entries, pair[1].entries);
        let told = || format!("{} flows search {after} and {few_after} entries", pair[1].n);
        // Four times as many flows: four times as long chains, less the one that each search finds at least.
        let grows = (few_after - 1.0) / (few_before - 1.0).max(0.1);
        finding.check(after < 1.3 * before && few_after > few_before, told);
        finding.check(pair[0].n < 256.0 || (3.0..5.0).contains(&grows), told);
    }
}

/// Table 2.1.
pub(crate) fn complexity(bench: &mut Bench) -> anyhow::Result<Answer> {
    let (mut finding, mut all) = (Finding::default(), Vec::new());
    for flows in FLOWS {
        bench.check()?;
        all.push(work(flows)?);
    }
    scales(&mut finding, &all);
    let list =
        |each: fn(&Work) -> f64| all.iter().map(|work| format!("{:.2}", each(work))).collect::<Vec<_>>().join(", ");
    Ok(finding.answer(format!(
        "generated packets of {} flows that all wait, by the paper's cost functions over what our own tables count: WFQ {}, SFQ {}, DRR {}, \
         stochastic {} operations for each packet, state counted as N; entries searched {} with {} chains, {} with {}. Our own WFQ finds its tags in \
         O(log N), up to N flows leaving its fluid system at once",
        FLOWS.map(|flows| flows.to_string()).join(", "),
        list(|work| work.wfq),
        list(|work| work.sfq),
        list(|work| work.drr),
        list(|work| work.stochastic),
        list(|work| work.entries[0]),
        CHAINS[0],
        list(|work| work.entries[1]),
        CHAINS[1],
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::finding::faults;

    /// As Table 2.1 has it, with so many entries searched.
    fn exact(n: f64, search: f64, few: f64) -> Work {
        let (drr, stochastic) = (n + search, n + 1.0);
        let sfq = drr + 1.0 + (2.0 * n).log2();
        Work { n, entries: [search, few], wfq: sfq + n - 1.0, sfq, drr, stochastic, held: n as u32 }
    }

    #[test]
    fn each_number_of_operations_is_the_formulas_own_and_searches_hardly_grow_with_many_chains() {
        let base = exact(1024.0, 1.1, 17.0);
        let count = |work: Work| faults(|finding| scales(finding, &[work]));
        assert_eq!([count(base), count(exact(1024.0, 1.499, 17.0))], [0, 0]);
        for outside in [
            Work { held: 1023, ..base },
            Work { wfq: base.wfq + 1e-5, ..base },
            Work { stochastic: base.stochastic - 1e-5, ..base },
            exact(1024.0, 1.501, 17.0),
        ] {
            assert_eq!(count(outside), 1, "{outside:?}");
        }
        // Two differences hang on each of these.
        for outside in [Work { drr: base.drr + 1e-5, ..base }, Work { drr: base.drr - 1e-5, ..base }] {
            assert_eq!(count(outside), 2, "{outside:?}");
        }
        assert_eq!(count(Work { sfq: base.sfq + 1e-5, ..base }), 1, "both differences are in one check");
    }

    #[test]
    fn four_times_as_many_flows_search_chains_four_times_as_long_where_chains_are_few() {
        let count = |before: [f64; 2], after: [f64; 2], n: f64| {
            let all = [exact(n, before[0], before[1]), exact(4.0 * n, after[0], after[1])];
            faults(|finding| scales(finding, &all))
        };
        assert_eq!([count([1.0, 2.0], [1.299, 4.0], 256.0), count([1.0, 2.0], [1.0, 5.99], 256.0)], [0, 0]);
        for (after, n) in [([1.301, 4.0], 256.0), ([1.0, 3.99], 256.0), ([1.0, 6.01], 256.0), ([1.0, 2.0], 64.0)] {
            assert_eq!(count([1.0, 2.0], after, n), 1, "{after:?} {n}");
        }
        // With fewer flows than that chance decides by how much.
        assert_eq!(count([1.0, 2.0], [1.0, 2.1], 64.0), 0);
    }

    #[test]
    fn all_flows_are_active_for_packets_from_the_second_round_on_and_searches_are_counted_in_the_chains() {
        let work = work(1024).expect("it runs");
        assert_eq!(work.held, 1024);
        assert!(work.entries[0] < 1.05, "{:?}", work.entries);
        // 64 flows a chain on average, of which a packet's own is anywhere.
        assert!((16.0..80.0).contains(&work.entries[1]), "{:?}", work.entries);
        let answer = complexity(&mut Bench::new(1)).expect("it runs");
        assert!(answer.holds, "{}", answer.reason);
    }
}
