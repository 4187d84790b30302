//! The papers' claims: the table, what we answer, and how we find out.
//!
//! To answer one more claim, write a function `fn(&mut Bench) -> Result<Answer>` and add it to [`RUNNERS`]. It may run
//! scenarios ([`Bench::figure`]) or drive the core itself; what it says must be able to come out false.

mod answer;
mod bench;
mod brr;
mod change;
mod efl;
mod evidence;
mod finding;
mod gateway;
mod kept;
mod rings;
mod striping;
mod table;
mod variation;

pub(crate) use answer::{Answer, Row, Verdict};
pub(crate) use bench::{Bench, Extent, NoTestData};
pub(crate) use change::changes;
pub(crate) use evidence::{Calibration, Evidence, Line};
pub(crate) use kept::{embedded, name as kept_in, read, write};
pub(crate) use table::{Claim, table};

/// How a claim is answered.
pub(crate) struct Runner {
    /// The claim's id.
    pub(crate) id: &'static str,
    /// Runs whatever it needs. An error is not an answer: it means that the runner could not run.
    pub(crate) run: fn(&mut Bench) -> anyhow::Result<Answer>,
}

/// Every claim that is answered, in the table's order.
pub(crate) const RUNNERS: &[Runner] = &[
    Runner { id: "striping.fig5-trace", run: striping::discipline::figure_5 },
    Runner { id: "striping.theorem-3.1", run: striping::discipline::reversal },
    Runner { id: "striping.srr-fairness", run: striping::discipline::fairness },
    Runner { id: "striping.fifo", run: striping::order::fifo },
    Runner { id: "striping.marker-recovery", run: striping::order::recovery },
    Runner { id: "striping.80-percent-loss", run: striping::figures::loss },
    Runner { id: "striping.table1", run: striping::figures::table_1 },
    Runner { id: "striping.fig15", run: striping::figures::figure_15 },
    Runner { id: "striping.grr-worst-case", run: striping::figures::worst_case },
    Runner { id: "striping.rated-vs-actual", run: striping::rates::rated_vs_actual },
    Runner { id: "striping.skew-buffer", run: striping::skew::buffer },
    Runner { id: "striping.credits", run: striping::figures::credits },
    Runner { id: "striping.quantum-from-delay", run: striping::fragments::quantum_from_delay },
    Runner { id: "rings.rias-examples", run: rings::reference::examples },
    Runner { id: "rings.proposition-1", run: rings::reference::proposition_1 },
    Runner { id: "rings.am-oscillation", run: rings::rpr::am_oscillation },
    Runner { id: "rings.am-loss", run: rings::rpr::am_loss },
    Runner { id: "rings.cm-oscillation", run: rings::rpr::cm_oscillation },
    Runner { id: "rings.cm-loss", run: rings::rpr::cm_loss },
    Runner { id: "rings.parking-lot", run: rings::simulated::parking_lot },
    Runner { id: "rings.parallel-parking-lot", run: rings::simulated::parallel_parking_lot },
    Runner { id: "rings.tcp-isolation", run: rings::tcp::isolation },
    Runner { id: "rings.tcp-microflows", run: rings::tcp::microflows },
    Runner { id: "rings.convergence", run: rings::convergence::convergence },
    Runner { id: "rings.dvsr-unbalanced", run: rings::unbalanced::unbalanced },
    Runner { id: "rings.fairness-bound", run: rings::bound::fairness },
    Runner { id: "rings.testbed", run: rings::simulated::testbed },
    Runner { id: "brr.threshold", run: brr::threshold },
    Runner { id: "brr.modes-throughput", run: brr::modes_throughput },
    Runner { id: "brr.load", run: brr::load },
    Runner { id: "brr.reordering", run: brr::reordering },
    Runner { id: "brr.delay", run: brr::delay },
    Runner { id: "gateway.complexity", run: gateway::orders::complexity },
    Runner { id: "gateway.timeouts", run: gateway::captures::timeouts },
    Runner { id: "gateway.aggregation", run: gateway::captures::aggregation },
    Runner { id: "gateway.mix", run: gateway::captures::mix },
    Runner { id: "gateway.cost", run: gateway::captures::cost },
    Runner { id: "gateway.pfd-short-rtt", run: gateway::buffers::pfd_short_rtt },
    Runner { id: "gateway.pfd-mixed-rtt", run: gateway::buffers::pfd_mixed_rtt },
    Runner { id: "gateway.buffer-dimensioning", run: gateway::buffers::buffer_dimensioning },
    Runner { id: "gateway.quasi-pushout", run: gateway::buffers::quasi_pushout },
    Runner { id: "gateway.spoof-t1", run: gateway::split::spoof_t1 },
    Runner { id: "gateway.spoof-t3", run: gateway::split::spoof_t3 },
    Runner { id: "gateway.two-server", run: gateway::split::two_server },
    Runner { id: "gateway.optimal-rate", run: gateway::split::optimal_rate },
    Runner { id: "gateway.tcp-vs-udp", run: gateway::split::tcp_vs_udp },
    Runner { id: "efl.complexity", run: efl::complexity_of_state },
    Runner { id: "efl.reduces-to-tcp", run: efl::reduces_to_tcp },
    Runner { id: "efl.bandwidth-gap", run: efl::bandwidth_gap },
    Runner { id: "efl.delay-gap", run: efl::delay_gap },
    Runner { id: "efl.loss-throughput", run: efl::loss_throughput },
    Runner { id: "efl.loss-latency", run: efl::loss_latency },
    Runner { id: "efl.residual", run: efl::residual },
    Runner { id: "efl.stability", run: efl::stability },
];

/// Makes the tables of what becomes of a claim with other constants; on which of them its verdict hangs follows from these.
type Tables = fn(&mut Bench) -> anyhow::Result<Vec<Evidence>>;

/// Claims whose tables are made apart from the answer.
const TABLES: &[(&str, Tables)] = &[
    ("rings.am-oscillation", rings::free::am_oscillation),
    ("rings.parking-lot", rings::free::parking_lot),
    ("rings.parallel-parking-lot", rings::free::parallel_parking_lot),
    ("rings.dvsr-unbalanced", rings::free::unbalanced),
    ("brr.modes-throughput", brr::free::modes),
    ("gateway.timeouts", gateway::captures_free::timeouts),
    ("gateway.aggregation", gateway::captures_free::aggregation),
    ("gateway.spoof-t1", gateway::split_free::spoof_t1),
    ("gateway.spoof-t3", gateway::split_free::spoof_t3),
    ("gateway.two-server", gateway::split_free::two_server),
    ("gateway.optimal-rate", gateway::split_free::optimal_rate),
    ("gateway.tcp-vs-udp", gateway::split_free::tcp_vs_udp),
    ("efl.bandwidth-gap", efl::free::bandwidth),
    ("efl.delay-gap", efl::free::delays),
    ("efl.loss-throughput", efl::free::loss_throughput),
    ("efl.loss-latency", efl::free::loss_latency),
    ("efl.residual", efl::free::background),
    ("efl.stability", efl::free::steps),
];

/// Answers `claim` now, or says that nothing answers it yet.
///
/// # Errors
/// When the runner could not run, or was interrupted.
pub(crate) fn answer(claim: &Claim, bench: &mut Bench) -> anyhow::Result<Row> {
    let Some(runner) = RUNNERS.iter().find(|runner| runner.id == claim.id) else { return Ok(Row::new(claim, None)) };
    let answer = (runner.run)(bench).and_then(|answer| {
        let Some((_, tables)) = TABLES.iter().find(|(id, _)| *id == claim.id) else { return Ok(answer) };
        let sensitivity = tables(bench)?;
        let calibrated = variation::hangs_on(&sensitivity);
        Ok(Answer { sensitivity, calibrated, ..answer })
    });
    bench.check()?;
    Ok(Row::new(claim, Some(answer?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runner_answers_a_claim_of_the_table_and_none_has_two() {
        let table = table();
        for (i, runner) in RUNNERS.iter().enumerate() {
            assert!(table.iter().any(|claim| claim.id == runner.id), "{} is no claim", runner.id);
            assert!(RUNNERS[..i].iter().all(|other| other.id != runner.id), "{} has two runners", runner.id);
        }
    }

    #[test]
    fn the_kept_answers_are_those_of_the_table_and_their_verdicts_follow_from_their_values() {
        let (table, kept) = (table(), embedded(Extent::Whole));
        assert_eq!(
            kept.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(),
            table.iter().map(|claim| claim.id.as_str()).collect::<Vec<_>>(),
            "`fairspan claims --run` renews the kept answers"
        );
        for (claim, row) in table.iter().zip(&kept) {
            let runs = RUNNERS.iter().any(|runner| runner.id == claim.id);
            assert_eq!(row.verdict != Verdict::NotYet, runs, "{}: `fairspan claims --run` renews it", row.id);
            row.check(claim).unwrap_or_else(|problem| panic!("{}: {problem}", row.id));
        }
    }

    #[test]
    fn what_needs_no_simulator_holds_now() {
        let mut bench = Bench::new(1).with_effort(0.02);
        for claim in table().iter().filter(|claim| claim.id.starts_with("striping.")) {
            let checked = RUNNERS.iter().any(|runner| runner.id == claim.id) && claim.values.is_none();
            if checked && claim.kind == table::Kind::Exact {
                let row = answer(claim, &mut bench).expect("it runs");
                assert_eq!(row.verdict, Verdict::Holds, "{}: {}", row.id, row.reason);
            }
        }
    }
}
