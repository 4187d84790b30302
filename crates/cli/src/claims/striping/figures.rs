//! The striping paper's measurements (sections 6.2, 6.3.1 and 8), answered by the scenarios in scenarios/striping/.

use super::order;
use crate::claims::bench::FigureRun;
use crate::claims::evidence::{Calibration, Cell, Evidence};
use crate::claims::finding::{Curve, Finding, least, most};
use crate::claims::variation::{Free, tables};
use crate::claims::{Answer, Bench};
use fairspan_core::stripe::MarkerPlace;
use serde_json::Value;

const MBIT: f64 = 1e-6;

/// What the hosts of section 6.2 cost, which the paper does not tell.
const COSTS: [Free; 4] = [
    Free { parameter: "node.0.cost.receive", usual: "118us", what: "a host's cost of a received packet; fitted" },
    Free { parameter: "node.0.cost.send", usual: "68us", what: "a host's cost of a sent packet; fitted" },
    Free {
        parameter: "node.0.cost.per_byte",
        usual: "40ns",
        what: "a host's cost of a byte; 57 ns is what 140 Mbit/s allow",
    },
    Free {
        parameter: "link.cable#.rate",
        usual: "7.2Mbit",
        what: "what the Ethernet carries in both directions; fitted",
    },
];

/// Table I with other costs.
fn costs(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let run = bench.figure("striping.table1-costs")?;
    let flows = ["srr-in-order", "srr-as-it-comes", "grr-in-order", "grr-as-it-comes", "rr-in-order", "rr-as-it-comes"];
    let curves = flows.map(|flow| Curve::of(&run, &format!("flow.{flow}.goodput")));
    let curves = curves.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let columns = flows.map(|flow| format!("{flow}, Mbit/s"));
    let columns = columns.iter().map(String::as_str).collect::<Vec<_>>();
    tables(&run, &COSTS, &columns, |wanted| Ok(curves.iter().map(|curve| curve.cell(wanted, MBIT)).collect()))
}

/// What of the hosts was fitted.
fn fitted_costs(tables: &[Evidence]) -> Vec<Calibration> {
    let packet =
        ("118 us for a received packet and 68 us for a sent one", "18.3 Mbit/s over both cards at once in Table I");
    let wire =
        ("an Ethernet of 7.2 Mbit/s whose card costs 350 ns a byte", "the 6 Mbit/s that the Ethernet alone gives");
    let of = |(constant, to), table: Option<&Evidence>| table.map(|table| Calibration::new(constant, to, table));
    of(packet, tables.first()).into_iter().chain(of(wire, tables.last())).collect()
}

/// Two hosts, a circuit, an Ethernet, eight ways to use both.
pub(crate) fn table_1(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("striping.table1")?;
    let ours = run.values("striping.table1", MBIT);
    let jointly = ours.get("both_measured_jointly").and_then(Value::as_f64).unwrap_or(0.0);
    let reason = format!(
        "striping.table1, {} seeds, hosts as its head derives them: {jointly:.1} Mbit/s is what one processor bears; \
         without resequencing every packet out of order brings an ACK of its own, which costs ours more than the \
         paper's hosts",
        run.file.seeds().len()
    );
    let noise = run.noise("striping.table1", MBIT)?;
    let sensitivity = costs(bench)?;
    let calibrated = fitted_costs(&sensitivity);
    Ok(Answer { noise, sensitivity, calibrated, ..Answer::statement(true, reason).with(ours) })
}

/// Alternating long and short packets.
pub(crate) fn worst_case(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("striping.grr-worst-case")?;
    let ours = run.values("striping.grr-worst-case", MBIT);
    let bare = mean(&run, "flow.grr-as-it-comes.goodput")? * MBIT;
    let grr = ours.get("grr").and_then(Value::as_f64).unwrap_or(f64::NAN);
    // Packets of 1000 and 200 bytes in turn: the long ones are five sixths.
    let long = grr / 1.2;
    let reason = format!(
        "GRR puts nearly all long packets on one link, which carries {long:.1} Mbit/s of them, so {grr:.1} with the short ones; the paper's 6.8 is below \
         even 1.2 times its own 6 Mbit/s ({:.1}). (Without resequencing ours is {bare:.1}.)",
        1.2 * 6.0
    );
    let noise = run.noise("striping.grr-worst-case", MBIT)?;
    let answer = Answer::statement(true, reason).with(ours);
    Ok(Answer { noise, sensitivity: costs(bench)?, ..answer })
}

fn mean(run: &FigureRun, metric: &str) -> anyhow::Result<f64> {
    let curve = run.curve(metric)?;
    Ok(curve.iter().map(|point| point.1).sum::<f64>() / curve.len().max(1) as f64)
}

/// How much below a variant SRR may be and still lead: what packets' granularity and seeds leave open.
const LEAD: f64 = 0.98;

/// Whether SRR over a variant says that the variant does not lead.
fn keeps_the_lead(ratio: f64) -> bool {
    ratio >= LEAD
}

/// Whether SRR's distance from what both links carry jointly is a tenth at most.
fn is_the_sum(furthest: f64) -> bool {
    furthest <= 0.1
}

/// Whether GRR has not much less than SRR.
fn keeps_up(least: f64) -> bool {
    least >= 0.94
}

/// Whether RR over twice the slower link is one, but for what ends of a run blur.
fn is_twice(ratio: f64) -> bool {
    (ratio - 1.0).abs() <= 0.05
}

/// Who leads over the whole sweep.
pub(crate) fn figure_15(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("striping.fig15")?;
    let mut faults = Vec::new();
    let mut worst = (f64::INFINITY, String::new());
    for other in ["srr-as-it-comes", "grr-in-order", "grr-as-it-comes", "rr-in-order", "rr-as-it-comes"] {
        for (at, ratio) in run.curve(&format!("flow.srr-in-order.goodput / flow.{other}.goodput"))? {
            if ratio < worst.0 {
                worst = (ratio, format!("{other} at {}", rate(at)));
            }
            if !keeps_the_lead(ratio) {
                faults.push(format!("{other} leads SRR by {:.1} % at {}", 100.0 * (1.0 / ratio - 1.0), rate(at)));
            }
        }
    }
    let joint = "flow.srr-in-order.goodput / (flow.pvc-jointly.goodput + flow.ethernet-jointly.goodput)";
    let joint = run.curve(joint)?;
    let furthest = joint.iter().map(|point| (point.1 - 1.0).abs()).fold(0.0, f64::max);
    if !is_the_sum(furthest) {
        faults.push(format!("SRR is {:.1} % off the joint throughput", 100.0 * furthest));
    }
    let grr = run.curve("flow.grr-in-order.goodput / flow.srr-in-order.goodput")?;
    let least = grr.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    if !keeps_up(least) {
        faults.push(format!("GRR falls to {:.1} % of SRR", 100.0 * least));
    }
    // RR against twice the slower link alone, at every point.
    let twice = "flow.rr-in-order.goodput / (2 * min(flow.pvc-alone.goodput, flow.ethernet-alone.goodput))";
    for (at, ratio) in run.curve(twice)? {
        if !is_twice(ratio) {
            faults.push(format!("RR has {:.1} % of twice the slower link at {}", 100.0 * ratio, rate(at)));
        }
    }
    if !faults.is_empty() {
        return Ok(Answer::statement(false, faults.join("; ")));
    }
    let told = format!(
        "{} rates, {} seeds: nobody leads SRR with logical reception by more than {:.0} % (nearest: {}, ratio {:.3}; where \
         GRR's rounding spares the Ethernet, whose card costs the processor most); SRR within {:.1} % of the joint \
         throughput, GRR at least {:.1} % of it, RR twice the slower link",
        joint.len(),
        run.file.seeds().len(),
        100.0 * (1.0 - LEAD),
        worst.1,
        worst.0,
        100.0 * furthest,
        100.0 * least
    );
    let sensitivity = costs(bench)?;
    let calibrated = fitted_costs(&sensitivity);
    Ok(Answer { sensitivity, calibrated, ..Answer::statement(true, told) })
}

fn rate(at: &[(String, String)]) -> &str {
    at.iter().find(|(name, _)| name.ends_with(".rate")).map_or("?", |(_, value)| value)
}

/// Small buffers: overflow without credits, none with them, whatever becomes of the messages on any channel.
pub(crate) fn credits(bench: &mut Bench) -> anyhow::Result<Answer> {
    const CREDITS: &str = "bond.stripe.credits";
    const LOST: &str = "link.channel#.reverse.loss";
    let run = bench.figure("striping.credits")?;
    let (overflow, through) =
        (Curve::of(&run, "bond.stripe/1.stripe.overflow / flow.data.sent")?, Curve::of(&run, "flow.data.throughput")?);
    let columns = ["without credits: find the buffer full", "Mbit/s", "with credits: find the buffer full", "Mbit/s "];
    let of = format!(
        "striping.credits, {} seeds: by the share of messages that every channel loses on the way back",
        run.file.seeds().len()
    );
    let mut measured = Evidence::new(of, &columns);
    for lost in ["0%", "10%", "30%", "50%"] {
        let cells = ["false", "true"].map(|on| {
            let at = [(CREDITS, on), (LOST, lost)];
            [overflow.cell(&at, 1.0), through.cell(&at, MBIT)]
        });
        measured.line(lost, true, cells.concat());
    }
    let column = |n: usize| measured.lines.iter().map(|line| line.cells[n].mean()).collect::<Vec<f64>>();
    let (without, with, rates) = (column(0), column(2), column(3));
    let mut finding = Finding::default();
    helps(&mut finding, &without, &with, &rates);
    let answer = finding.answer(format!(
        "a small buffer for each channel, where one is 40 ms slower: without credits {:.0} % of the packets find the buffer full, with them {:.0}; \
         what a buffer carries in a round trip then is {:.1} Mbit/s, and {:.1} with every second message lost on all channels",
        100.0 * least(&without),
        100.0 * most(&with),
        rates[0],
        least(&rates)
    ));
    let sensitivity = vec![by_buffer(bench)?];
    Ok(Answer { measured: vec![measured], sensitivity, ..answer })
}

/// What becomes of it with other buffers.
fn by_buffer(bench: &mut Bench) -> anyhow::Result<Evidence> {
    const USED: &str = "20kB";
    let columns = [
        "without credits: find the buffer full",
        "with credits: find the buffer full",
        "with credits: Mbit/s",
        "and with every second message lost: Mbit/s",
    ];
    let mut table = Evidence::new("a channel's buffer at the receiver; the paper names none", &columns);
    for buffer in ["10kB", USED, "40kB", "80kB"] {
        let run = bench.figure_with("striping.credits", &[("bond.stripe.stripe_buffer", buffer)])?;
        let overflow = Curve::of(&run, "bond.stripe/1.stripe.overflow / flow.data.sent")?;
        let through = Curve::of(&run, "flow.data.throughput")?;
        let at = |on, lost| [("bond.stripe.credits", on), ("link.channel#.reverse.loss", lost)];
        let cells = vec![
            overflow.cell(&at("false", "0%"), 1.0),
            overflow.cell(&at("true", "0%"), 1.0),
            through.cell(&at("true", "0%"), MBIT),
            through.cell(&at("true", "50%"), MBIT),
        ];
        table.line(buffer, buffer == USED, cells);
    }
    Ok(table)
}

/// What the paper says of credits: the shares of packets that find the buffer full without and with them, and Mbit/s with them, by the
/// share of messages that are lost.
fn helps(finding: &mut Finding, without: &[f64], with: &[f64], rates: &[f64]) {
    finding.check(least(without) > 0.0, || "without credits nothing finds the buffer full".to_owned());
    finding.check(with.iter().all(|share| *share == 0.0), || {
        format!("with credits {:.2} % of the packets find the buffer full", 100.0 * most(with))
    });
    finding.check(survives(rates), || {
        format!("with every second message lost {:.1} of {:.1} Mbit/s are left", least(rates), rates[0])
    });
}

/// Whether messages that are lost leave more than half of what goes without loss.
fn survives(rates: &[f64]) -> bool {
    least(rates) > 0.5 * rates.first().copied().unwrap_or(f64::NAN)
}

/// Of what crosses the channels so much has to come out: then the receiver works.
const DELIVERED: f64 = 0.95;
/// And no more than this may be out of order for the order to count as kept.
const KEPT: f64 = 0.1;
const LOSSES: [f64; 8] = [0.0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8];
const ROUNDS: [u32; 3] = [1, 4, 16];
const PLACES: [(&str, MarkerPlace); 3] =
    [("start", MarkerPlace::Start), ("middle", MarkerPlace::Middle), ("end", MarkerPlace::End)];

/// Milliseconds after the end of losses of 10 to 80 % until the last packet out of order, on average, by place.
fn recoveries(bench: &Bench, finding: &mut Finding) -> Vec<f64> {
    let mut times = Vec::new();
    for (name, place) in PLACES {
        let mut sum = 0.0;
        let mut each = |number: u32, rng: &mut _| {
            let rounds = [1, 4, 16][number as usize % 3];
            let loss = [0.1, 0.2, 0.4, 0.6, 0.8][number as usize / 3 % 5];
            sum += order::resynchronise(rng, loss, rounds, place)?;
            Ok(())
        };
        match bench.cases(300, &mut each) {
            Ok(cases) => times.push(1e3 * sum / f64::from(cases.max(1))),
            Err(fault) => finding.check(false, || format!("markers at the {name}: {fault}")),
        }
    }
    times
}

/// Under lasting loss, by its rate: what comes out of what crosses the channels, and what of that is out of order by place and rounds.
fn lasting(bench: &Bench, finding: &mut Finding) -> Evidence {
    let mut columns = vec!["least share of what crosses that comes out".to_owned()];
    for rounds in ROUNDS {
        columns.extend(PLACES.map(|(name, _)| format!("out of order: every {rounds}, {name}")));
    }
    let names = columns.iter().map(String::as_str).collect::<Vec<_>>();
    let of =
        "share of data and markers that each of four channels loses, lasting; markers every so many rounds, by place";
    let mut table = Evidence::new(of, &names);
    for loss in LOSSES {
        let (mut cells, mut out) = (Vec::new(), f64::INFINITY);
        for rounds in ROUNDS {
            for (name, place) in PLACES {
                let mut wrong = Vec::new();
                let tried = bench.cases(20, |_, rng| {
                    let found = order::lasting(rng, loss, rounds, place)?;
                    // One that none crosses is not a number, and is not enough either.
                    let share = found.delivered as f64 / found.crossed as f64;
                    out = if share >= out { out } else { share };
                    wrong.push(found.wrong as f64 / found.delivered.max(1) as f64);
                    Ok(())
                });
                if let Err(fault) = tried {
                    finding.check(false, || format!("a loss of {loss}, markers every {rounds} at the {name}: {fault}"));
                }
                cells.push(Cell::of(wrong));
            }
        }
        finding.check(works(out), || {
            format!(
                "at a loss of {:.0} % only {:.1} % of what crosses the channels comes out",
                100.0 * loss,
                100.0 * out
            )
        });
        cells.insert(0, Cell::exact(out));
        table.line(format!("{:.0} %", 100.0 * loss), true, cells);
    }
    table
}

/// Whether a receiver works out of whose channels such a share comes out.
fn works(share: f64) -> bool {
    share >= DELIVERED
}

/// Whether such a share out of order counts as order kept.
fn is_kept(wrong: f64) -> bool {
    wrong <= KEPT
}

/// Up to which loss order is kept under other shares that count as that, with markers at the end of every 1, 4, 16 rounds.
fn by_criterion(lasting: &Evidence) -> Evidence {
    let columns = ROUNDS.map(|rounds| format!("order is kept up to a loss of, %: every {rounds}"));
    let of = "share of packets out of order that counts as order kept; the paper gives no figure";
    let mut table = Evidence::new(of, &columns.each_ref().map(String::as_str));
    for share in [0.01, 0.05, KEPT, 0.2, 0.3, 0.5] {
        let cells = [3, 6, 9].map(|column| {
            let good = lasting.lines.iter().take_while(|line| line.cells[column].mean() <= share).count();
            Cell::exact(good.checked_sub(1).map_or(f64::NAN, |last| 100.0 * LOSSES[last]))
        });
        table.line(format!("{:.0} %", 100.0 * share), share == KEPT, cells.to_vec());
    }
    table
}

/// Whether markers at the end bring order back no later than those at the start and in the middle.
fn is_no_later([start, middle, end]: [f64; 3]) -> bool {
    end <= start && end <= middle
}

/// Whether markers at the end leave less out of order than those at the start and in the middle.
fn is_best([start, middle, end]: [f64; 3]) -> bool {
    end < start && end < middle
}

/// Loss up to 80 %: back in step after it, from markers at each place; and what order is left while it lasts.
pub(crate) fn loss(bench: &mut Bench) -> anyhow::Result<Answer> {
    let mut finding = Finding::default();
    let times = recoveries(bench, &mut finding);
    if let [start, middle, end] = times[..] {
        finding.check(is_no_later([start, middle, end]), || {
            format!(
                "after losses stop the last packet out of order comes {start:.2}, {middle:.2} and {end:.2} ms later by place: the end is not the best"
            )
        });
    }
    let table = lasting(bench, &mut finding);
    let mean = |columns: std::ops::Range<usize>, place: usize| {
        let cells = table
            .lines
            .iter()
            .flat_map(|line| columns.clone().filter(|n| (n - 1) % 3 == place).map(|n| line.cells[n].mean()));
        let values = cells.collect::<Vec<f64>>();
        100.0 * values.iter().sum::<f64>() / values.len().max(1) as f64
    };
    let (every, all) = ([0, 1, 2].map(|place| mean(1..4, place)), [0, 1, 2].map(|place| mean(1..10, place)));
    finding.check(is_best(all), || format!("out of order by place: {all:.2?} %: the end is not the best"));
    // Up to which loss order is kept, with markers at the end of every 1, 4, 16 rounds.
    let kept = [3, 6, 9].map(|column| {
        let last = table.lines.iter().take_while(|line| is_kept(line.cells[column].mean())).last();
        last.map_or_else(|| "none".to_owned(), |line| line.at.clone())
    });
    // From which loss on it is kept with none of them.
    let disordered = table.lines.iter().find(|line| [3, 6, 9].iter().all(|n| !is_kept(line.cells[*n].mean())));
    let answer = finding.answer(format!(
        "losses of 10 to 80 % that stop, markers every 1, 4 or 16 rounds at the start, in the middle or at the end: all back in order, on \
         average {times:.2?} ms after. Losses of 0 to 80 % that last, 20 runs of a thousand packets each: at least {:.0} % of what crosses the channels comes out, which is \
         what counts as working here ({:.0} %); {every:.1?} % of it are out of order with markers every round, {all:.1?} % over all periods. Order is kept, \
         at most a tenth out of order, up to a loss of {}, {} and {} with markers at the end of every 1, 4 and 16 rounds; from {} on with none of them",
        100.0 * table.lines.iter().map(|line| line.cells[0].mean()).fold(f64::INFINITY, f64::min),
        100.0 * DELIVERED,
        kept[0],
        kept[1],
        kept[2],
        disordered.map_or("no loss", |line| &line.at)
    ));
    let sensitivity = vec![by_criterion(&table)];
    Ok(Answer { measured: vec![table], sensitivity, ..answer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::finding::faults;

    #[test]
    fn each_comparison_of_figure_15_has_its_margin() {
        assert!(keeps_the_lead(0.980_1) && !keeps_the_lead(0.979_9) && !keeps_the_lead(f64::NAN));
        assert!(is_the_sum(0.099_9) && !is_the_sum(0.100_1) && !is_the_sum(f64::NAN));
        assert!(keeps_up(0.940_1) && !keeps_up(0.939_9) && !keeps_up(f64::NAN));
        assert!(is_twice(1.049_9) && is_twice(0.950_1));
        assert!(!is_twice(1.050_1) && !is_twice(0.949_9) && !is_twice(f64::NAN));
    }

    #[test]
    fn credits_remove_all_overflow_where_there_was_some_at_every_loss() {
        let count = |without: [f64; 2], with: [f64; 2], rates: [f64; 2]| {
            faults(|finding| helps(finding, &without, &with, &rates))
        };
        assert_eq!(count([0.1, 1e-6], [0.0, 0.0], [4.0, 2.001]), 0);
        assert_eq!(count([0.1, 0.0], [0.0, 0.0], [4.0, 2.001]), 1);
        assert_eq!(count([0.1, 1e-6], [0.0, 1e-6], [4.0, 2.001]), 1);
        assert_eq!(count([0.1, 1e-6], [0.0, 0.0], [4.0, 1.999]), 1);
    }

    #[test]
    fn under_loss_a_receiver_works_order_is_kept_and_the_end_is_the_best_place_by_their_own_margins() {
        assert!(works(0.950_1) && !works(0.949_9) && !works(f64::NAN));
        assert!(is_kept(0.099_9) && !is_kept(0.100_1) && !is_kept(f64::NAN));
        assert!(is_no_later([1.0, 1.0, 1.0]) && !is_no_later([1.0, 2.0, 1.001]) && !is_no_later([2.0, 1.0, 1.001]));
        assert!(is_best([1.0, 1.0, 0.999]) && !is_best([1.0, 2.0, 1.0]) && !is_best([2.0, 1.0, 1.0]));
    }

    #[test]
    fn a_stricter_criterion_keeps_order_up_to_less_loss_or_to_none() {
        let mut lasting = Evidence::new("loss", &[]);
        // Ever more out of order, from 2 % on, in the three columns of the end; half in all others.
        for n in 1..=LOSSES.len() {
            let cells = (0..10).map(|column| if [3, 6, 9].contains(&column) { 0.02 * n as f64 } else { 0.5 });
            lasting.line("", true, cells.map(Cell::exact).collect());
        }
        let table = by_criterion(&lasting);
        let first = table.lines.iter().map(|line| line.cells[0].0).collect::<Vec<_>>();
        assert_eq!(first, [None, Some(1.0), Some(20.0), Some(80.0), Some(80.0), Some(80.0)]);
        assert_eq!(table.lines.iter().filter(|line| line.used).count(), 1);
    }

    #[test]
    fn more_than_half_of_the_throughput_survives_lost_credits_or_they_did_harm() {
        assert!(survives(&[4.0, 3.0, 2.001]) && !survives(&[4.0, 3.0, 2.0]) && !survives(&[]));
    }
}
