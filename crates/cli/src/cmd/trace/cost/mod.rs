//! `fairspan trace cost`: what serving the flows of captures fairly costs for each packet.

mod asked;
mod costs;
mod meter;
mod report;

pub(crate) use asked::Args;

use super::input::{Sink, Tell};
use crate::exit::{BadInput, Outcome};
use crate::testbed::Interrupt;
use anyhow::Result;
use asked::{Load, asked};
use costs::Costs;
use fairspan_core::buffer::Limit;
use fairspan_core::queue;
use fairspan_trace::capture::{CaptureError, Captured};
use fairspan_trace::cost::active::Active;
use fairspan_trace::cost::advice::{self, Budget};
use fairspan_trace::cost::measured::{self, Course};
use fairspan_trace::cost::{self, Sequence};
use indicatif::{ProgressBar, ProgressStyle};
use meter::Machine;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::IsTerminal;

/// What is kept of the captures.
struct Gathering {
    sequence: Sequence,
    machine: Machine,
}

impl Sink for Gathering {
    fn packet(&mut self, packet: &Captured<'_>) {
        self.sequence.packet(packet, &mut self.machine);
    }

    fn unreadable(&mut self, error: &CaptureError) {
        self.sequence.unreadable(error);
    }
}

pub(super) fn run(args: &Args) -> Result<Outcome> {
    if args.link.as_bits_per_sec() == 0 {
        return Err(BadInput("--link: a rate above zero is needed".into()).into());
    }
    let asked = asked(args)?;
    if let Some(folder) = &args.out {
        crate::report::folder(folder)?;
    }
    let config = cost::Config {
        definition: args.definition,
        reading: args.headers.into(),
        table_size: args.table_size,
        most: args.most_packets as usize,
        secret: RandomState::new().hash_one(std::process::id()),
        seed: args.seed,
    };
    let mut gathering = Gathering { sequence: Sequence::new(config), machine: Machine::new() };
    let ended = args.files.read(&mut gathering, Tell::User)?;
    let Gathering { mut sequence, mut machine } = gathering;
    if sequence.packets().is_empty() {
        let problem = ended.outcome().err().map_or_else(String::new, |error| format!(": {error}"));
        return Err(BadInput(format!("no packet could be classified{problem}")).into());
    }
    let faster = match args.load {
        Load::Share(load) => sequence.pace(args.link, load),
        Load::Captured => 1.0,
    };
    let interrupt = Interrupt::install()?;
    let wrong = |error: queue::ConfigError| BadInput(error.to_string());
    let active = Active::of(&sequence, args.link, args.limit, args.table_size).map_err(wrong)?;
    let clock = measured::clock(&mut machine);
    let classification = sequence.classification(clock);
    let budget = Budget { link: args.link, processor: args.processor, mean_length: sequence.mean_length() };
    let mut costs = Costs {
        args,
        sequence: &sequence,
        active: &active,
        faster,
        clock,
        classification,
        budget,
        uncounted: machine.uncounted.take(),
        rows: Vec::new(),
        recommended: None,
    };
    let course = Course::new(sequence.packets(), args.link);
    let bar = progress(asked.len());
    for (discipline, policy) in &asked {
        if interrupt.check().is_err() {
            break;
        }
        bar.set_message(format!("{discipline}, {policy}"));
        let mut config = queue::Config::default();
        (config.discipline, config.buffer, config.limit) = (*discipline, *policy, Limit::Packets(args.limit));
        let measured = course.measure(&config, args.rounds, clock, active.most(), &mut machine).map_err(wrong)?;
        costs.add(*discipline, *policy, measured);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let afforded: Vec<_> = costs.rows.iter().map(|row| (row.discipline, row.affords)).collect();
    costs.recommended = advice::recommended(&afforded);
    costs.print()?;
    if interrupt.check().is_err() {
        eprintln!("fairspan: interrupted; this is the result so far");
        return Ok(Outcome::Interrupted);
    }
    ended.outcome()
}

/// How many are measured, on standard error where that is a terminal.
fn progress(count: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("measuring [{bar:24}] {pos} of {len}: {msg}");
    let bar = ProgressBar::new(count as u64);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    bar
}
