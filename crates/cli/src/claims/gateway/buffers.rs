//! The hybrid-gateways paper's chapter 3 (3.4 and 3.5), answered by the scenarios in scenarios/gateway/.
//!
//! The paper's figures are curves without a table, so what it says in words is held to ours. Two policies are compared seed
//! by seed, and one leads where the mean of the differences is beyond a margin that stands here and beyond what 95 % of such
//! samples would give by chance.

use super::points::{BUFFER, JAIN, LQD, MBIT, OTHERS, PFD, QUASI, QUEUE, RED, RND, ROOM, both, goodput, jain, values};
use super::{free, today};
use crate::claims::bench::FigureRun;
use crate::claims::evidence::Evidence;
use crate::claims::finding::{Curve, Finding, least, most};
use crate::claims::{Answer, Bench};
use crate::report::Sample;
use fairspan_core::quantity::parse_span;
use fairspan_sim::results::Results;

const BUFFERS: [&str; 6] = ["12ms", "25ms", "50ms", "100ms", "200ms", "500ms"];
/// The least buffer holds about a packet for two connections ([`packets`]); how far down the paper's range goes, it does not tell.
const LEAST: &str = BUFFERS[0];
const USUAL: [&str; 5] = ["25ms", "50ms", "100ms", "200ms", "500ms"];
const ALL: [&str; 7] = ["drop-tail", "drop-front", RED, LQD, RND, PFD, "pfd-adaptive"];
/// A difference of goodput that counts, as a share, and one of Jain's index.
const MARGIN: f64 = 0.005;

/// What the scenarios have: bits a second of the bottleneck, connections, bytes of a packet, and of its payload.
const BOTTLENECK: f64 = 2e6;
const CONNECTIONS: u32 = 10;
const PACKET: f64 = 576.0;
const PAYLOAD: f64 = 536.0;

/// How many packets a buffer of so long holds.
fn packets(buffer: &str) -> anyhow::Result<f64> {
    Ok(parse_span(buffer)?.as_secs_f64() * BOTTLENECK / 8.0 / PACKET)
}

/// How far the first is ahead of the second, and whether that is more than `margin` and more than chance. Where either was
/// not run it is not a number, which leads nobody.
fn ahead(run: &FigureRun, [one, other]: [&[(&str, &str)]; 2], value: fn(&Results) -> f64, margin: f64) -> (f64, bool) {
    let (one, other) = (values(run, one, value), values(run, other, value));
    if one.is_empty() || one.len() != other.len() {
        return (f64::NAN, false);
    }
    let difference = Sample::of(one.iter().zip(&other).map(|(one, other)| one - other));
    (difference.mean, leads(&difference, margin))
}

/// Whether differences are on average beyond `margin`, and beyond what 95 % of such samples would give by chance.
fn leads(difference: &Sample, margin: f64) -> bool {
    difference.mean > margin.max(difference.half_width().unwrap_or(0.0))
}

/// Two policies at one buffer.
fn policies(
    run: &FigureRun,
    queue: &str,
    [one, other]: [&str; 2],
    value: fn(&Results) -> f64,
    margin: f64,
) -> (f64, bool) {
    ahead(run, [&[(QUEUE, queue), (BUFFER, one)], &[(QUEUE, queue), (BUFFER, other)]], value, margin)
}

/// `1.234, 1.345`: a policy over all buffers.
fn row(curve: &Curve<'_>, name: &str, value: &str, factor: f64) -> String {
    let cells = BUFFERS.map(|queue| format!("{:.3}", factor * curve.one(&[(QUEUE, queue), (name, value)])));
    cells.join(", ")
}

/// A quantity by buffer, a column for each value of another parameter.
fn table(
    run: &FigureRun,
    (what, metric, factor): (&str, &str, f64),
    name: &str,
    values: &[&str],
) -> anyhow::Result<Evidence> {
    let curve = Curve::of(run, metric)?;
    let of = format!("{}: {what} by buffer, mean of {} seeds over 500 s", run.file.title(), run.file.seeds().len());
    let mut table = Evidence::new(of, values);
    for queue in BUFFERS {
        let cells = values.iter().map(|value| curve.cell(&[(QUEUE, queue), (name, value)], factor)).collect();
        table.line(queue, true, cells);
    }
    Ok(table)
}

/// Goodput and Jain's index by buffer.
fn both_tables(run: &FigureRun, name: &str, values: &[&str]) -> anyhow::Result<Vec<Evidence>> {
    let quantities = [("goodput, Mbit/s", "goodput", MBIT), (JAIN, "jain", 1.0)];
    quantities.into_iter().map(|quantity| table(run, quantity, name, values)).collect()
}

/// What two policies are compared by.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Of {
    Goodput,
    Jain,
    Both,
}

impl Of {
    fn measure(self) -> fn(&Results) -> f64 {
        match self {
            Of::Goodput => goodput,
            Of::Jain => jain,
            Of::Both => both,
        }
    }
}

/// How far one of two is ahead of the other with a buffer, and whether that is more than a margin and more than chance.
type Leads<'a> = &'a dyn Fn(&str, [&str; 2], Of, f64) -> (f64, bool);

/// What the paper says of Figure 3.6; `jain`: the least of the four policies' indices with a buffer.
fn short(finding: &mut Finding, leads: Leads<'_>, jain: &dyn Fn(&str) -> f64) {
    for queue in USUAL {
        for other in OTHERS {
            let (lead, is) = leads(queue, [other, PFD], Of::Goodput, MARGIN * 2.0);
            finding.check(!is, || format!("with {queue} {other} carries {lead:.3} Mbit/s more"));
        }
        let least = jain(queue);
        finding.check(least > 0.98, || format!("with {queue} Jain's index is {least:.3}"));
    }
    // Where the policies differ at all: Figure 3.6's right half, and Figure 3.5 with 100 ms.
    for queue in ["100ms", "200ms"] {
        for other in OTHERS {
            let lead = leads(queue, [PFD, other], Of::Goodput, 0.0);
            finding.check(lead.1, || format!("with {queue} PFD carries {:.4} Mbit/s more than {other}", lead.0));
        }
    }
}

/// Figures 3.5 and 3.6: ten connections of 20 ms.
pub(crate) fn pfd_short_rtt(bench: &mut Bench) -> anyhow::Result<Answer> {
    let (run, time) = (bench.figure("gateway.fig3-06")?, bench.figure("gateway.fig3-05")?);
    let (carried, fair) = (Curve::of(&run, "goodput")?, Curve::of(&run, "jain")?);
    let mut finding = Finding::default();
    let all = |queue: &str| least(&[RED, LQD, RND, PFD].map(|policy| fair.one(&[(QUEUE, queue), (BUFFER, policy)])));
    short(&mut finding, &|queue, pair, of, margin| policies(&run, queue, pair, of.measure(), margin), &all);
    // No reduced run lasts so long.
    for other in if bench.is_reduced() { &[][..] } else { &OTHERS } {
        let at = |policy| [("duration", "500s"), (BUFFER, policy)];
        let (lead, is) = ahead(&time, [&at(PFD), &at(other)], goodput, 0.0);
        finding.check(is, || format!("after 500 s PFD has carried {lead:.4} Mbit/s more than {other}"));
    }
    let told = [PFD, RED, LQD, RND].map(|policy| format!("{policy} {}", row(&carried, BUFFER, policy, MBIT)));
    let answer = finding.answer(format!(
        "gateway.fig3-06, {} seeds, goodput in Mbit/s with 12, 25, 50, 100, 200, 500 ms of buffer: {}; the best there can be is {:.3}. \
         Jain's index from 25 ms on {:.3} at least",
        run.file.seeds().len(),
        told.join("; "),
        MBIT * BOTTLENECK * PAYLOAD / PACKET,
        least(&USUAL.map(|queue| least(&[RED, LQD, RND, PFD].map(|p| fair.one(&[(QUEUE, queue), (BUFFER, p)])))))
    ));
    let measured = both_tables(&run, BUFFER, &ALL)?;
    Ok(Answer { measured, sensitivity: free::short(bench)?, ..answer })
}

/// What the paper says of Figure 3.7.
fn mixed(finding: &mut Finding, leads: Leads<'_>) {
    for queue in BUFFERS {
        for other in [LQD, RND, PFD] {
            let (lead, is) = leads(queue, [RED, other], Of::Goodput, MARGIN * 2.0);
            finding.check(!is, || format!("with {queue} RED carries {lead:.3} Mbit/s more than {other}"));
        }
        let (lead, is) = leads(queue, [RND, LQD], Of::Jain, MARGIN);
        finding.check(!is, || format!("with {queue} RND is fairer than LQD by {lead:.3}"));
    }
    for queue in ["12ms", "25ms", "50ms"] {
        let (lead, is) = leads(queue, [PFD, RED], Of::Jain, MARGIN);
        finding.check(is, || format!("with {queue} PFD is fairer than RED by {lead:.3} only"));
    }
    let small = leads("25ms", [RND, PFD], Of::Goodput, 0.0);
    finding.check(small.1, || format!("with 25 ms RND does not carry more than PFD ({:.4} Mbit/s)", small.0));
    for queue in BUFFERS {
        let (lead, is) = leads(queue, [RND, PFD], Of::Jain, MARGIN);
        finding.check(!is, || format!("with {queue} RND is fairer than PFD, by {lead:.3}"));
        for other in OTHERS {
            let (lead, is) = leads(queue, [other, PFD], Of::Both, MARGIN * 2.0);
            finding.check(!is, || format!("with {queue} {other} is {lead:.3} ahead of PFD in goodput times fairness"));
        }
    }
}

/// Figure 3.7: round trips of 20 to 200 ms.
pub(crate) fn pfd_mixed_rtt(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("gateway.fig3-07")?;
    let (carried, fair) = (Curve::of(&run, "goodput")?, Curve::of(&run, "jain")?);
    let mut finding = Finding::default();
    mixed(&mut finding, &|queue, pair, of, margin| policies(&run, queue, pair, of.measure(), margin));
    let told = [PFD, RED, LQD, RND].map(|policy| {
        format!("{policy} {} and {}", row(&carried, BUFFER, policy, MBIT), row(&fair, BUFFER, policy, 1.0))
    });
    let answer = finding.answer(format!(
        "gateway.fig3-07, {} seeds, goodput in Mbit/s and Jain's index with 12, 25, 50, 100, 200, 500 ms of buffer: {}",
        run.file.seeds().len(),
        told.join("; ")
    ));
    let mut measured = both_tables(&run, BUFFER, &ALL)?;
    measured.extend(today::tables(bench)?);
    Ok(Answer { measured, sensitivity: free::mixed(bench)?, ..answer })
}

/// What the paper says of Figure 3.8; Jain's index with the smallest and the largest buffer.
fn rooms(finding: &mut Finding, leads: Leads<'_>, [small, large]: [f64; 2]) {
    for queue in BUFFERS {
        let (gain, is) = leads(queue, ["round-trip", "1"], Of::Jain, 0.0);
        finding.check(is, || format!("with {queue} rooms by round trip change fairness by {gain:.3}"));
        let (gain, is) = leads(queue, ["round-trip", "1"], Of::Goodput, MARGIN * 2.0);
        finding.check(!is, || format!("with {queue} they carry {gain:.3} Mbit/s more"));
    }
    finding.check(large < small, || format!("fairness does not fall: {small:.3} with 12 ms, {large:.3} with 500 ms"));
}

/// By how much the index falls at most from a buffer to any larger one.
fn fall(indices: &[f64]) -> f64 {
    let falls = indices.iter().enumerate().map(|(n, index)| index - least(&indices[n..]));
    most(&falls.collect::<Vec<_>>())
}

/// Figure 3.8: room by round trip.
pub(crate) fn buffer_dimensioning(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("gateway.fig3-08")?;
    let (carried, fair) = (Curve::of(&run, "goodput")?, Curve::of(&run, "jain")?);
    let mut finding = Finding::default();
    let leads = |queue: &str, [one, other]: [&str; 2], of: Of, margin| {
        ahead(&run, [&[(QUEUE, queue), (ROOM, one)], &[(QUEUE, queue), (ROOM, other)]], of.measure(), margin)
    };
    rooms(&mut finding, &leads, ["12ms", "500ms"].map(|queue| fair.one(&[(QUEUE, queue), (ROOM, "round-trip")])));
    let told = ["1", "round-trip", "round-trip+100ms"]
        .map(|room| format!("{room}: {} and {}", row(&carried, ROOM, room, MBIT), row(&fair, ROOM, room, 1.0)));
    let [equal, alone, waiting] = ["1", "round-trip", "round-trip+100ms"]
        .map(|room| fall(&BUFFERS.map(|queue| fair.one(&[(QUEUE, queue), (ROOM, room)]))));
    let answer = finding.answer(format!(
        "a fair queue already shares fairly what PFD with equal rooms keeps busy, and then rooms by propagation alone take from the \
         near connections what the far ones do not need: from a buffer to a larger one Jain's index falls by {alone:.3} at most with rooms by \
         propagation alone, by {waiting:.3} where 100 ms of waiting count besides, and by {equal:.3} with equal rooms. \
         gateway.fig3-08, {} seeds, goodput in Mbit/s and Jain's index with 12, 25, 50, 100, 200, 500 ms of buffer, by room: {}",
        run.file.seeds().len(),
        told.join("; ")
    ));
    let measured = both_tables(&run, ROOM, &["1", "round-trip", "round-trip+100ms"])?;
    Ok(Answer { measured, sensitivity: free::rooms(bench)?, ..answer })
}

/// What the paper says of Figure 3.9: how far goodputs are apart at most, and Jain's index at least.
fn quasi(finding: &mut Finding, apart: f64, jain: f64) {
    finding.check(apart < 0.02, || format!("goodput is {:.1} % apart", 100.0 * apart));
    finding.check(jain >= 0.92, || format!("Jain's index is {jain:.3}"));
}

/// Figure 3.9: the longest queue that was seen.
pub(crate) fn quasi_pushout(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("gateway.fig3-09")?;
    let (carried, fair) = (Curve::of(&run, "goodput")?, Curve::of(&run, "jain")?);
    let of = |curve: &Curve<'_>, queue: &str, policy: &str| curve.one(&[(QUEUE, queue), (BUFFER, policy)]);
    let mut finding = Finding::default();
    let apart = BUFFERS.map(|queue| (of(&carried, queue, QUASI) / of(&carried, queue, PFD) - 1.0).abs());
    quasi(&mut finding, most(&apart), least(&USUAL.map(|queue| of(&fair, queue, QUASI))));
    let answer = finding.answer(format!(
        "gateway.fig3-09, {} seeds: goodput at most {:.1} % apart; Jain's index with 12, 25, 50, 100, 200, 500 ms of buffer {} by \
         quasi-pushout, {} exact. The paper's range of buffers is not told: {LEAST}, {:.1} packets for \
         {CONNECTIONS} connections, are not judged; exact PFD has {:.3} there",
        run.file.seeds().len(),
        100.0 * most(&apart),
        row(&fair, BUFFER, QUASI, 1.0),
        row(&fair, BUFFER, PFD, 1.0),
        packets(LEAST)?,
        of(&fair, LEAST, PFD)
    ));
    let measured = both_tables(&run, BUFFER, &[PFD, QUASI])?;
    Ok(Answer { measured, sensitivity: free::quasi(bench)?, ..answer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::finding::faults;

    /// Faults where the first of a pair is ahead by so much with one buffer and by one quantity, and all others are as `rest` says.
    fn judged(
        judge: impl Fn(&mut Finding, Leads<'_>),
        (queue, pair, of, lead): (&str, [&str; 2], Of, f64),
        rest: fn([&str; 2], Of) -> f64,
    ) -> usize {
        let leads = |at: &str, names: [&str; 2], by: Of, margin: f64| {
            let here = (at, names, by) == (queue, pair, of);
            let lead = if here { lead } else { rest(names, by) };
            (lead, lead > margin)
        };
        faults(|finding| judge(finding, &leads))
    }

    #[test]
    fn nobody_carries_a_hundredth_more_than_pfd_and_with_100_and_200_ms_pfd_carries_more_than_all() {
        // PFD is ahead of all by next to nothing.
        let rest = |pair: [&str; 2], _: Of| if pair[0] == PFD { 1e-6 } else { -1e-6 };
        let at = |lead| judged(|finding, leads| short(finding, leads, &|_| 0.980_1), lead, rest);
        for other in OTHERS {
            for queue in ["25ms", "50ms", "100ms", "200ms", "500ms"] {
                let lead = |by| (queue, [other, PFD], Of::Goodput, by);
                assert_eq!([at(lead(0.009_9)), at(lead(0.010_1))], [0, 1], "{other} {queue}");
            }
            for queue in ["100ms", "200ms"] {
                assert_eq!(at((queue, [PFD, other], Of::Goodput, 0.0)), 1, "{other} {queue}");
            }
            assert_eq!(at(("12ms", [other, PFD], Of::Goodput, 1.0)), 0, "five packets for ten connections");
        }
        let fair =
            |jain: f64| judged(|finding, leads| short(finding, leads, &|_| jain), ("", ["", ""], Of::Both, 0.0), rest);
        assert_eq!([fair(0.980_1), fair(0.979_9)], [0, 5]);
    }

    #[test]
    fn with_unlike_round_trips_each_pair_is_held_to_its_margin() {
        let rest = |pair: [&str; 2], of: Of| match (pair, of) {
            ([PFD, RED], Of::Jain) => 0.005_1,
            ([RND, PFD], Of::Goodput) => 1e-6,
            _ => 0.0,
        };
        let at = |lead| judged(mixed, lead, rest);
        for queue in BUFFERS {
            for (pair, of, margin) in [
                ([RED, LQD], Of::Goodput, 0.01),
                ([RED, RND], Of::Goodput, 0.01),
                ([RED, PFD], Of::Goodput, 0.01),
                ([RND, LQD], Of::Jain, 0.005),
                ([RND, PFD], Of::Jain, 0.005),
                ([RED, PFD], Of::Both, 0.01),
                ([LQD, PFD], Of::Both, 0.01),
                ([RND, PFD], Of::Both, 0.01),
            ] {
                let with = |by: f64| at((queue, pair, of, by));
                assert_eq!([with(margin - 1e-4), with(margin + 1e-4)], [0, 1], "{queue} {pair:?} {of:?}");
            }
            let small = usize::from(["12ms", "25ms", "50ms"].contains(&queue));
            assert_eq!(at((queue, [PFD, RED], Of::Jain, 0.004_9)), small, "{queue}");
            assert_eq!(at((queue, [RND, PFD], Of::Goodput, 0.0)), usize::from(queue == "25ms"), "{queue}");
        }
    }

    #[test]
    fn rooms_by_round_trip_are_fairer_with_each_buffer_and_carry_no_hundredth_more() {
        let rest = |_: [&str; 2], of: Of| if of == Of::Jain { 1e-6 } else { 0.0 };
        let pair = ["round-trip", "1"];
        let at = |queue, of, lead| judged(|it, leads| rooms(it, leads, [0.9, 0.899]), (queue, pair, of, lead), rest);
        for queue in BUFFERS {
            assert_eq!([at(queue, Of::Jain, 1e-6), at(queue, Of::Jain, 0.0)], [0, 1], "{queue}");
            assert_eq!([at(queue, Of::Goodput, 0.009_9), at(queue, Of::Goodput, 0.010_1)], [0, 1], "{queue}");
        }
        let falls = |ends| judged(|it, leads| rooms(it, leads, ends), ("", pair, Of::Both, 0.0), rest);
        assert_eq!([falls([0.9, 0.899]), falls([0.9, 0.9]), falls([f64::NAN, 0.9])], [0, 1, 1]);
    }

    #[test]
    fn the_fall_of_fairness_is_the_largest_from_a_buffer_to_any_larger_one() {
        let close = |indices: &[f64], wanted: f64| assert!((fall(indices) - wanted).abs() < 1e-12, "{indices:?}");
        close(&[0.5, 0.8, 0.9], 0.0);
        // It rises in between, and the fall before that is smaller.
        close(&[0.9, 0.8, 0.95, 0.85, 0.7, 0.99], 0.25);
    }

    #[test]
    fn a_buffer_of_12_ms_holds_five_packets() {
        // 3000 bytes.
        assert!((packets("12ms").expect("a time") - 3000.0 / 576.0).abs() < 1e-9);
        assert!(packets("12").is_err());
    }

    #[test]
    fn quasi_pushout_is_within_a_fiftieth_of_the_exact_one_and_fair() {
        let count = |apart, jain| faults(|finding| quasi(finding, apart, jain));
        assert_eq!([count(0.019_9, 0.92), count(0.020_1, 0.92), count(0.019_9, 0.919_9)], [0, 1, 1]);
        assert_eq!(count(f64::NAN, f64::NAN), 2);
    }

    #[test]
    fn one_leads_by_more_than_the_margin_and_by_more_than_chance() {
        let of = |values: &[f64]| Sample::of(values.iter().copied());
        // No chance in it: the margin decides.
        assert!(leads(&of(&[0.0101; 5]), 0.01) && !leads(&of(&[0.0099; 5]), 0.01));
        // 0.02 to 0.04 around 0.03: half of the interval is 0.0248 with three values.
        let three = of(&[0.02, 0.03, 0.04]);
        assert!((three.half_width().expect("three values") - 0.024_84).abs() < 1e-4);
        assert!(leads(&three, 0.0) && leads(&three, 0.029) && !leads(&three, 0.031));
        // The same spread around less than that is chance.
        assert!(leads(&of(&[0.015, 0.025, 0.035]), 0.0) && !leads(&of(&[0.0145, 0.0245, 0.0345]), 0.0));
        assert!(!leads(&of(&[]), 0.0) && !leads(&of(&[f64::NAN]), 0.0));
    }
}
