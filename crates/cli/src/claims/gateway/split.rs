//! The hybrid-gateways paper's chapter 4, answered by the scenarios fig4-05 to fig4-11 in scenarios/gateway/.
//!
//! The paper's figures are curves over time, so most of what is compared here is read from series: one value a second.

use crate::claims::answer::relative;
use crate::claims::bench::FigureRun;
use crate::claims::finding::{Curve, Finding};
use crate::claims::{Answer, Bench};
use anyhow::Context;
use fairspan_sim::results::Results;
use serde_json::{Map, Value};

pub(super) const MBIT: f64 = 1e-6;
pub(super) const MB: f64 = 1e-6;
pub(super) const RATE: &str = "split.gateway1.matching";
pub(super) const MODE: &str = "split.gateway1.mode";
pub(super) const OFFERED: &str = "split.gateway2.long_tcp.receive_buffer";
pub(super) const BUFFER: &str = "flow.tcp.tcp.receive_buffer";
/// What a rate may lie below plain splitting and count as the same: the paper has "comparable throughput curves".
const COMPARABLE: f64 = 0.95;

/// The results of the first run in which a parameter has this value.
pub(super) fn at<'a>(run: &'a FigureRun, name: &str, value: &str) -> anyhow::Result<&'a Results> {
    let is = |(known, found): &(String, String)| known == name && found.trim_matches('"') == value;
    let found = run.batch.finished.iter().find(|run| run.parameters.iter().any(is));
    found.map(|run| &run.results).with_context(|| format!("no run with {name} = {value}"))
}

pub(super) fn series<'a>(results: &'a Results, name: &str) -> anyhow::Result<&'a [f64]> {
    let found = results.series.iter().find(|series| series.name == name);
    found.map(|series| series.values.as_slice()).with_context(|| format!("no series `{name}`"))
}

/// The mean of the last tenth.
fn last_tenth(values: &[f64]) -> f64 {
    let tail = &values[values.len() - values.len().div_ceil(10)..];
    tail.iter().sum::<f64>() / tail.len().max(1) as f64
}

/// What was never sent of the first gateway's send buffers, with what waits before its TCP, and what the connection carried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// At the end, bytes.
    pub(super) last: f64,
    /// On average, bytes.
    mean: f64,
    /// In bit/s.
    pub(super) carried: f64,
}

impl Waiting {
    pub(super) fn of(results: &Results) -> anyhow::Result<Waiting> {
        let gateway = results.splits.first().context("no splitting gateway")?;
        let carried = results.flows.first().map_or(0.0, |flow| flow.throughput);
        Ok(Waiting { last: gateway.total.last as f64, mean: gateway.total.mean, carried })
    }

    /// What Figures 4.7 and 4.8 say of a rate beside plain splitting.
    pub(super) fn judge(&self, finding: &mut Finding, rate: &str, plain: &Waiting) {
        let share = self.carried / plain.carried;
        waits_less(finding, rate, share, [self.mean, plain.mean], [self.last, plain.last]);
    }
}

/// What Figure 4.5 says of the rate and of what is unsent, second by second: when the link is full, and the rate at the end.
pub(super) fn opens(finding: &mut Finding, carried: &[f64], unsent: &[f64], link: f64) -> (Option<usize>, f64) {
    let full = carried.iter().position(|rate| *rate >= 0.99 * link);
    finding.check(carried[1] < 0.2 * link && full.is_some_and(|at| at > 2), || {
        format!("the window does not limit the beginning: {:.3} Mbit/s in the second second", carried[1] * MBIT)
    });
    let settled = last_tenth(carried);
    finding.check(settled >= 0.99 * link, || format!("{:.3} Mbit/s at the end", settled * MBIT));
    let growing = unsent.windows(50).step_by(10).all(|part| part[49] > part[0]);
    finding.check(growing, || "the send buffer does not keep growing".to_owned());
    (full, settled)
}

/// Figure 4.5: a T1 link.
pub(crate) fn spoof_t1(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("gateway.fig4-05")?;
    let results = &run.batch.finished.first().context("no run")?.results;
    let (carried, unsent) = (series(results, "flow f throughput")?, series(results, "split gateway1 unsent")?);
    let window = series(results, "split gateway1 window")?;
    let link = 1.544e6;
    let mut finding = Finding::default();
    let (full, settled) = opens(&mut finding, carried, unsent, link);
    let answer = finding.answer(format!(
        "gateway.fig4-05: the window grows from {:.1} to {:.0} kB; {:.3} Mbit/s in the second second, the link's rate from {} s on, {:.3} Mbit/s \
         at the end, when {:.0} MB wait in the send buffer",
        window[1] / 1e3,
        last_tenth(window) / 1e3,
        carried[1] * MBIT,
        full.map_or_else(|| "never".to_owned(), |at| at.to_string()),
        settled * MBIT,
        unsent.last().copied().unwrap_or(0.0) * MB
    ));
    Ok(answer)
}

/// Whether twice the window carries twice as much.
pub(super) fn doubles(finding: &mut Finding, pair: [&str; 2], ratio: f64) {
    finding
        .check((1.8..2.2).contains(&ratio), || format!("{} carries {ratio:.2} times what {} does", pair[1], pair[0]));
}

/// Figure 4.6: a T3 link.
pub(crate) fn spoof_t3(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("gateway.fig4-06")?;
    let ours = run.values("gateway.spoof-t3", MBIT);
    let curve = Curve::of(&run, "flow.f.throughput")?;
    let split = |offered| curve.one(&[(MODE, "vanilla"), (OFFERED, offered)]) * MBIT;
    let unsplit = |offered| curve.one(&[(MODE, "off"), ("flow.f.tcp.receive_buffer", offered)]) * MBIT;
    let mut finding = Finding::default();
    for pair in [["50kB", "100kB"], ["100kB", "200kB"], ["200kB", "400kB"]] {
        doubles(&mut finding, pair, split(pair[1]) / split(pair[0]));
    }
    let answer = finding.answer(format!(
        "assumed: half of gateway 2's receive buffer waits for its periodic flush, so that 100 kB are offered of 200 kB; offered whole, 200 and \
         400 kB would carry {:.2} and {:.2} Mbit/s. gateway.fig4-06, throughput at the end with 50, 100, 200, 400 kB offered: {:.3}, {:.3}, {:.3}, \
         {:.3} Mbit/s; not split, with 100, 200, 400 kB offered by the client: {:.3}, {:.3}, {:.3}, and with its 64 kB {:.3}",
        split("200kB"),
        split("400kB"),
        split("50kB"),
        split("100kB"),
        split("200kB"),
        split("400kB"),
        unsplit("100kB"),
        unsplit("200kB"),
        unsplit("400kB"),
        unsplit("65535B"),
    ));
    Ok(Answer { ours, ..answer })
}

/// What Figures 4.7 and 4.8 say of a rate: comparable throughput, and a tenth at most of what plain splitting has waiting, on average
/// and at the end.
fn waits_less(finding: &mut Finding, rate: &str, share: f64, mean: [f64; 2], last: [f64; 2]) {
    finding.check(share >= COMPARABLE, || format!("with {rate} it carries {:.1} %", 100.0 * share));
    finding.check(mean[0] < mean[1] / 10.0 && last[0] < last[1] / 10.0, || {
        format!("with {rate} {:.2} MB wait on average, {:.2} MB at the end", mean[0] * MB, last[0] * MB)
    });
}

/// Figures 4.7 and 4.8: the two-server queue beside plain splitting.
pub(crate) fn two_server(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("gateway.fig4-07")?;
    let plain = Waiting::of(at(&run, MODE, "vanilla")?)?;
    let mut finding = Finding::default();
    let mut told = Vec::new();
    for rate in ["500 packets/s", "auto"] {
        let found = Waiting::of(at(&run, RATE, rate)?)?;
        found.judge(&mut finding, rate, &plain);
        told.push(format!(
            "{rate}: {:.1} % of its throughput, {:.2} MB on average and {:.3} MB at the end",
            100.0 * found.carried / plain.carried,
            found.mean * MB,
            found.last * MB
        ));
    }
    let answer = finding.answer(format!(
        "gateway.fig4-07, TCP and IP together over 500 s: plain splitting {:.3} Mbit/s, {:.0} MB on average and {:.0} MB at the end; {}",
        plain.carried * MBIT,
        plain.mean * MB,
        plain.last * MB,
        told.join("; ")
    ));
    Ok(answer)
}

/// The second from which on nothing waits unsent, once something has; `None`: never.
fn starved_at(results: &Results) -> anyhow::Result<Option<usize>> {
    Ok(runs_dry(series(results, "split gateway1 unsent")?))
}

/// The first second without anything unsent after one with more than 100 kB.
fn runs_dry(unsent: &[f64]) -> Option<usize> {
    let begun = unsent.iter().position(|bytes| *bytes > 100_000.0).unwrap_or(unsent.len());
    unsent[begun..].iter().position(|bytes| *bytes == 0.0).map(|at| begun + at)
}

/// Whether a rate starves for more than half of the run.
fn is_early(starved: Option<usize>, seconds: f64) -> bool {
    starved.is_some_and(|at| (at as f64) < seconds / 2.0)
}

/// What the rate that finds itself is held to: the best fixed one's throughput, and what waits at the end beside the best fixed one and
/// beside plain splitting.
fn finds_itself(finding: &mut Finding, share: f64, last: f64, best_last: f64, plain_last: f64) {
    finding.check(share >= 0.99, || {
        format!("the rate that finds itself carries {:.1} % of the best fixed one's", 100.0 * share)
    });
    finding.check(last <= 1.2 * best_last && last <= plain_last / 10.0, || {
        format!(
            "with the rate that finds itself {:.3} MB wait at the end, with the best fixed one {:.3}",
            last * MB,
            best_last * MB
        )
    });
}

/// What Figure 4.9's rates come to.
pub(super) struct Optimum {
    seconds: f64,
    /// The lowest rate that never starves, packets a second.
    pub(super) best: Option<u32>,
    /// Of the paper's own rates those that starve for more than half of the run.
    starving: Vec<u32>,
    /// The second from which on 500 packets a second starve.
    pub(super) late: Option<usize>,
    /// What the rate that finds itself carries, of the best fixed one.
    pub(super) share: f64,
    /// With the rate that finds itself, with the lowest that never starves, and without matching.
    auto: Waiting,
    with_best: Option<Waiting>,
    plain: Waiting,
    /// Bits of a mean packet with the best rate.
    packet: f64,
}

impl Optimum {
    pub(super) fn of(run: &FigureRun) -> anyhow::Result<Optimum> {
        let mut rates = Vec::new();
        for finished in &run.batch.finished {
            let found = finished.parameters.iter().find(|(name, _)| name == RATE);
            let text = found.map_or("", |(_, value)| value.trim_matches('"'));
            if let Some(rate) = text.strip_suffix(" packets/s").and_then(|number| number.parse::<u32>().ok()) {
                rates.push((rate, &finished.results, starved_at(&finished.results)?));
            }
        }
        let seconds = run.batch.finished.first().context("no run")?.results.measured_s;
        let paper = [400, 450, 500, 540, 550];
        let early = rates.iter().filter(|(rate, _, at)| paper.contains(rate) && is_early(*at, seconds));
        let best = rates.iter().find(|(.., starved)| starved.is_none());
        let carried = |results: &Results| results.flows.first().map_or(0.0, |flow| flow.throughput);
        let most = rates.iter().map(|(_, results, _)| carried(results)).fold(0.0, f64::max);
        let auto = Waiting::of(at(run, RATE, "auto")?)?;
        Ok(Optimum {
            seconds,
            best: best.map(|best| best.0),
            starving: early.map(|rate| rate.0).collect(),
            late: rates.iter().find(|rate| rate.0 == 500).and_then(|rate| rate.2),
            share: auto.carried / most,
            auto,
            with_best: best.map(|best| Waiting::of(best.1)).transpose()?,
            plain: Waiting::of(at(run, RATE, "unlimited")?)?,
            packet: best.map_or(f64::NAN, |best| mean_packet(best.1)),
        })
    }

    /// What of the paper's values and of what the rate that finds itself is held to is not so.
    pub(super) fn judge(&self, finding: &mut Finding) {
        let values = [(540.0, self.best.map(f64::from)), (300.0, self.late.map(|at| at as f64))];
        for (paper, ours) in values {
            finding.check(ours.is_some_and(|ours| relative(paper, ours) <= 0.1), || format!("{ours:?}, not {paper}"));
        }
        finding.check(self.starving == [400, 450], || format!("{:?} starve", self.starving));
        self.finds_itself(finding);
    }

    fn finds_itself(&self, finding: &mut Finding) {
        let best = self.with_best.map_or(f64::NAN, |best| best.last);
        finds_itself(finding, self.share, self.auto.last, best, self.plain.last);
    }
}

/// The bits of a mean packet that passes gateway 1.
fn mean_packet(results: &Results) -> f64 {
    let at = |name: &str| {
        results.links.iter().find(|link| link.name == name).map_or((0, 0), |link| (link.bytes, link.packets))
    };
    let (there, back) = (at("left"), at("satellite/back"));
    8.0 * (there.0 + back.0) as f64 / (there.1 + back.1).max(1) as f64
}

/// Figure 4.9: which rate is best, and the one that finds itself.
pub(crate) fn optimal_rate(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("gateway.fig4-09")?;
    let found = Optimum::of(&run)?;
    let with_best = found.with_best.context("every rate starves")?;
    let mut ours = Map::new();
    ours.insert("optimal_packets_per_s".into(), found.best.map_or(Value::Null, Value::from));
    ours.insert("starving".into(), found.starving.clone().into());
    ours.insert("late_drop_at_500_s".into(), found.late.map_or(Value::Null, |at| (at as f64).into()));
    let mut finding = Finding::default();
    found.finds_itself(&mut finding);
    let answer = finding.answer(format!(
        "gateway.fig4-09, rates in steps of 10: the lowest that never starves in {} s carries {:.3} Mbit/s, with {:.0} bits in a mean packet; \
         slow start's end, 48 kB, is calibrated by the time at which 500 packets a second starve. The rate that finds itself carries {:.3} Mbit/s, \
         {:.2} % of the best fixed one, and at the end {:.3} MB wait, where {:.2} MB do with the optimal one and {:.0} MB without matching",
        found.seconds,
        with_best.carried * MBIT,
        found.packet,
        found.auto.carried * MBIT,
        100.0 * found.share,
        found.auto.last * MB,
        with_best.last * MB,
        found.plain.last * MB
    ));
    Ok(answer.with(ours))
}

/// What Figure 4.10 says: TCP has next to nothing of what UDP has.
pub(super) fn is_shut_out(finding: &mut Finding, share: f64) {
    finding.check(share < 0.01, || format!("in a FIFO TCP has {share:.3} of what UDP has"));
}

/// What Figure 4.11 says of TCP with 50 and with 100 kB, in Mbit/s: half of 3 Mbit/s is fair; 50 kB a round trip of 500 ms are 0.86
/// Mbit/s with headers.
pub(super) fn is_served(finding: &mut Finding, rate: &str, small: f64, large: f64) {
    finding.check((0.8..0.9).contains(&small), || format!("with {rate} and 50 kB TCP has {small:.3} Mbit/s"));
    finding.check((1.4..1.6).contains(&large), || format!("with {rate} and 100 kB TCP has {large:.3} Mbit/s"));
}

/// The second in which TCP's window has opened to what it may have, which takes some round trips.
pub(super) fn has_opened(finding: &mut Finding, rates: &[f64]) -> Option<usize> {
    let reached = rates.iter().position(|rate| *rate >= 0.8e6);
    finding.check(reached.is_some_and(|at| (2..30).contains(&at)), || {
        format!("its window has opened after {reached:?} s")
    });
    reached
}

/// Figures 4.10 and 4.11: a connection beside datagrams that do not adapt.
pub(crate) fn tcp_vs_udp(bench: &mut Bench) -> anyhow::Result<Answer> {
    let (fifo, fair) = (bench.figure("gateway.fig4-10")?, bench.figure("gateway.fig4-11")?);
    let in_fifo = &fifo.batch.finished.first().context("no run")?.results;
    let of = |results: &Results, name: &str| {
        results.flows.iter().find(|flow| flow.name == name).map_or(0.0, |flow| flow.throughput)
    };
    let mut finding = Finding::default();
    let shut_out = of(in_fifo, "tcp") / of(in_fifo, "udp");
    is_shut_out(&mut finding, shut_out);
    let (tcp, udp) = (Curve::of(&fair, "flow.tcp.throughput")?, Curve::of(&fair, "flow.udp.throughput")?);
    let mut told = Vec::new();
    for rate in ["3Mbit", "auto"] {
        let here = |curve: &Curve<'_>, buffer| curve.one(&[("split.gateway.matching", rate), (BUFFER, buffer)]) * MBIT;
        let (small, large) = (here(&tcp, "50kB"), here(&tcp, "100kB"));
        is_served(&mut finding, rate, small, large);
        told.push(format!(
            "{rate}: TCP {small:.3} with 50 kB, {large:.3} with 100 kB, UDP {:.3} and {:.3}",
            here(&udp, "50kB"),
            here(&udp, "100kB")
        ));
    }
    let narrow = |buffer: &str| {
        let is = |(name, value): &(String, String)| name == BUFFER && value.trim_matches('"') == buffer;
        fair.batch.finished.iter().find(|run| run.parameters.iter().any(is)).map(|run| &run.results)
    };
    let opening = narrow("50kB").and_then(|results| series(results, "flow tcp throughput").ok());
    let reached = has_opened(&mut finding, opening.unwrap_or_default());
    let answer = finding.answer(format!(
        "gateway.fig4-10: in a FIFO TCP has {:.5} of what UDP has. gateway.fig4-11, SFQ and PFD, 3 Mbit/s, Mbit/s over the last 200 of 600 s: {}; with \
         50 kB TCP reaches its rate after {} s",
        shut_out,
        told.join("; "),
        reached.map_or_else(|| "never".to_owned(), |at| at.to_string())
    ));
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::finding::faults;

    #[test]
    fn a_window_opens_late_fills_the_link_and_goes_on_growing() {
        let rates = |second: f64, full: usize, rest: f64| {
            let mut rates = vec![1.0; 100];
            (rates[1], rates[2]) = (second, 0.5);
            rates[..full].iter_mut().for_each(|rate| *rate = rate.min(0.989));
            rates[90..].fill(rest);
            rates
        };
        let growing: Vec<f64> = (0..100).map(f64::from).collect();
        let count = |carried: &[f64], unsent: &[f64]| faults(|finding| _ = opens(finding, carried, unsent, 1.0));
        assert_eq!(count(&rates(0.199, 3, 0.990_1), &growing), 0);
        assert_eq!(opens(&mut Finding::default(), &rates(0.199, 3, 1.0), &growing, 1.0), (Some(3), 1.0));
        assert_eq!(count(&rates(0.201, 3, 1.0), &growing), 1);
        assert_eq!(count(&rates(0.199, 3, 0.989), &growing), 1, "the last tenth");
        let mut early = rates(0.199, 3, 1.0);
        early[2] = 0.991;
        assert_eq!(count(&early, &growing), 1, "the link is full in the third second");
        assert_eq!(count(&[0.1; 100], &growing), 2, "it never is");
        // One stretch of 50 seconds in which nothing more waits at the end than at the beginning.
        let mut still = growing.clone();
        still[50..=69].fill(20.0);
        assert_eq!(count(&rates(0.199, 3, 1.0), &still), 1);
        still[69] = 20.001;
        assert_eq!(count(&rates(0.199, 3, 1.0), &still), 0, "a little more is growth");
    }

    #[test]
    fn twice_the_window_carries_twice_within_a_tenth() {
        let count = |ratio| faults(|finding| doubles(finding, ["50kB", "100kB"], ratio));
        assert_eq!([1.801, 2.199].map(count), [0, 0]);
        assert_eq!([1.799, 2.201, f64::NAN].map(count), [1, 1, 1]);
    }

    #[test]
    fn a_rate_carries_as_much_and_has_a_tenth_waiting_on_average_and_at_the_end() {
        let count =
            |share, mean, last| faults(|finding| waits_less(finding, "auto", share, [mean, 10.0], [last, 20.0]));
        assert_eq!(count(0.951, 0.999, 1.999), 0);
        assert_eq!([count(0.949, 0.999, 1.999), count(0.951, 1.001, 1.999), count(0.951, 0.999, 2.001)], [1; 3]);
    }

    #[test]
    fn a_buffer_runs_dry_once_it_has_held_more_than_100_kb() {
        assert_eq!(runs_dry(&[0.0, 99_999.0, 0.0, 100_001.0, 1.0, 0.0]), Some(5));
        assert_eq!((runs_dry(&[0.0, 100_000.0, 0.0]), runs_dry(&[100_001.0, 1.0])), (None, None));
        assert!(is_early(Some(299), 600.0) && !is_early(Some(300), 600.0) && !is_early(None, 600.0));
    }

    #[test]
    fn the_rate_that_finds_itself_is_held_to_the_best_fixed_one_and_to_plain_splitting() {
        let count = |share, last, plain| faults(|finding| finds_itself(finding, share, last, 1.0, plain));
        assert_eq!(count(0.990_1, 1.199, 12.0), 0);
        assert_eq!([count(0.989_9, 1.199, 12.0), count(0.990_1, 1.201, 100.0), count(0.990_1, 1.199, 11.9)], [1; 3]);
    }

    #[test]
    fn tcp_beside_datagrams_is_judged_by_each_of_its_margins() {
        let shut = |share| faults(|finding| is_shut_out(finding, share));
        assert_eq!([0.009_9, 0.010_1, f64::NAN].map(shut), [0, 1, 1]);
        let served = |small, large| faults(|finding| is_served(finding, "auto", small, large));
        assert_eq!([served(0.801, 1.401), served(0.899, 1.599)], [0, 0]);
        assert_eq!([served(0.799, 1.5), served(0.901, 1.5), served(0.85, 1.399), served(0.85, 1.601)], [1; 4]);
        let opened = |at: usize, rate| {
            let rates: Vec<f64> = (0..40).map(|second| if second < at { 0.799e6 } else { rate }).collect();
            faults(|finding| _ = has_opened(finding, &rates))
        };
        assert_eq!([opened(2, 0.8e6), opened(29, 0.8e6)], [0, 0]);
        assert_eq!([opened(1, 0.8e6), opened(30, 0.8e6), opened(2, 0.799e6)], [1; 3]);
    }
}
