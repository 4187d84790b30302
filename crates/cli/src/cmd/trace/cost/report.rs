//! What `fairspan trace cost` tells: table and recommendation, JSON, CSV, and a page with plots.

use super::asked::Load;
use super::costs::{Costs, Row};
use crate::cmd::trace::flows::{packets, skipped};
use crate::report::html::Page;
use crate::report::plot::{Axis, Bar, Bars, Line, Plot};
use crate::report::short;
use crate::report::text::{Rows, quantity};
use anyhow::{Context, Result};
use fairspan_core::quantity::show_rate;
use fairspan_core::queue::DisciplineConfig;
use fairspan_trace::cost::advice::{self, Affords};
use fairspan_trace::cost::meter::Spread;
use fairspan_trace::cost::operations::Operations;
use serde_json::{Value, json};
use std::io::{BufWriter, Write};

/// The disciplines of Figures 2.5 and 2.6.
const FIGURE: [&str; 4] = ["wfq", "sfq", "drr", "stochastic"];

impl Costs<'_> {
    /// Prints what was asked for, and writes the folder.
    pub(super) fn print(&self) -> Result<()> {
        let document = serde_json::to_string(&self.document())?;
        if let Some(folder) = &self.args.out {
            let put = |name: &str, text: &str| {
                let path = folder.join(name);
                std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
            };
            put("summary.json", &format!("{document}\n"))?;
            put("results.csv", &self.csv())?;
            put("report.html", &self.page())?;
        }
        let mut out = BufWriter::new(std::io::stdout().lock());
        if self.args.json {
            writeln!(out, "{document}")?;
        } else if self.args.csv {
            write!(out, "{}", self.csv())?;
        } else {
            write!(out, "{}", self.rows().text())?;
            self.about().iter().try_for_each(|line| writeln!(out, "{line}"))?;
            writeln!(out, "\nRecommended: {}", self.advice())?;
        }
        Ok(out.flush()?)
    }

    fn document(&self) -> Value {
        let tally = self.sequence.tally();
        let load = match self.args.load {
            Load::Share(load) => json!(load),
            Load::Captured => Value::Null,
        };
        let recommended = self.recommended.and_then(|place| self.rows.get(place));
        json!({
            "packets": tally.packets,
            "classified": tally.classified,
            "skipped": skipped(tally),
            "definition": self.args.definition.to_string(),
            "table_size": self.args.table_size,
            "measured_packets": self.sequence.packets().len(),
            "link_bit_s": self.args.link.as_bits_per_sec(),
            "load": load,
            "faster": self.faster,
            "limit": self.args.limit,
            "active_flows": { "mean": self.active.mean(), "most": self.active.most() },
            "chain_entries": self.active.entries(),
            "hash_efficiency": self.active.hash_efficiency(),
            "rounds": self.args.rounds,
            "clock_ns": self.clock,
            "instructions_not_counted": self.uncounted,
            "classification_ns": spread(&self.classification),
            "budget": {
                "processor": self.budget.processor, "packets_s": self.budget.packets_s(), "ns_per_packet": self.budget.ns(),
            },
            "results": self.rows.iter().map(|row| self.entry(row)).collect::<Vec<Value>>(),
            "recommended": recommended.map(|row| json!({
                "discipline": row.discipline.to_string(), "policy": row.policy.to_string(), "affordable": row.affords.name(),
            })),
            "advice": self.advice(),
        })
    }

    fn entry(&self, row: &Row) -> Value {
        let measured = &row.measured;
        json!({
            "discipline": row.discipline.to_string(),
            "policy": row.policy.to_string(),
            "operations": row.operations.as_ref().map(spread),
            "queue_ns": spread(&measured.ns),
            "ns": spread(&row.ns),
            "instructions": measured.instructions,
            "state_bytes_per_flow": measured.state,
            "heap_bytes": measured.heap,
            "dropped": measured.dropped,
            "most_waiting": measured.most_waiting,
            "carries_bit_s": self.budget.carries(row.ns.mean),
            "affordable": row.affords.name(),
        })
    }

    fn csv(&self) -> String {
        let mut text = "discipline,policy,operations_mean,operations_median,operations_p99,operations_worst,ns_mean,ns_median,ns_p99,\
                        ns_worst,instructions,state_bytes_per_flow,heap_bytes,dropped,carries_bit_s,affordable\n"
            .to_owned();
        for row in &self.rows {
            let quoted = |text: String| if text.contains(',') { format!("\"{text}\"") } else { text };
            let numbers = |of: &Spread| [of.mean, of.median, of.p99, of.worst].map(|number| number.to_string());
            let measured = &row.measured;
            let mut cells = vec![quoted(row.discipline.to_string()), quoted(row.policy.to_string())];
            cells.extend(row.operations.as_ref().map(numbers).unwrap_or_default());
            cells.extend(numbers(&row.ns));
            cells.push(measured.instructions.map_or_else(String::new, |count| count.to_string()));
            cells.push(measured.state.to_string());
            cells.extend([measured.heap, measured.dropped].map(|number| number.to_string()));
            cells.extend([self.budget.carries(row.ns.mean).to_string(), row.affords.name().to_owned()]);
            text += &(cells.join(",") + "\n");
        }
        text
    }

    fn rows(&self) -> Rows {
        let counted = self.uncounted.is_none();
        let mut head = vec![
            "discipline",
            "policy",
            "operations\nmean",
            "99 %",
            "worst",
            "ns\nmean",
            "median",
            "99 %",
            "worst",
            "bytes\na flow",
            "dropped",
            "carries",
            "affordable",
        ];
        if counted {
            head.insert(9, "instructions");
        }
        let cells = |row: &Row| {
            let measured = &row.measured;
            let dash = || ["-", "-", "-"].map(str::to_owned);
            let operations = row.operations.as_ref();
            let operations = operations.map_or_else(dash, |of| [of.mean, of.p99, of.worst].map(short));
            let ns = [row.ns.mean, row.ns.median, row.ns.p99, row.ns.worst].map(|ns| format!("{ns:.0}"));
            let mut cells = vec![row.discipline.to_string(), row.policy.to_string()];
            cells.extend(operations);
            cells.extend(ns);
            if counted {
                cells.push(measured.instructions.map_or_else(|| "-".to_owned(), |count| format!("{count:.0}")));
            }
            cells.push(format!("{:.0}", measured.state));
            cells.push(measured.dropped.to_string());
            cells.push(quantity(self.budget.carries(row.ns.mean), "bit/s"));
            cells.push(row.affords.name().to_owned());
            cells
        };
        Rows {
            head: head.into_iter().map(str::to_owned).collect(),
            rows: self.rows.iter().map(cells).collect(),
            more: 0,
        }
    }

    /// What the figures are of.
    fn about(&self) -> Vec<String> {
        let kept = self.sequence.packets().len();
        let first = match kept as u64 == self.sequence.tally().classified {
            true => String::new(),
            false => format!(" Measured are the first {kept} of them (--most-packets)."),
        };
        let played = match self.args.load {
            Load::Captured => "as they were captured".to_owned(),
            Load::Share(load) => {
                let (word, factor) =
                    if self.faster >= 1.0 { ("faster", self.faster) } else { ("slower", 1.0 / self.faster) };
                format!("{} times {word} than captured, so that they load it to {:.0} %", short(factor), 100.0 * load)
            }
        };
        let uncounted = match &self.uncounted {
            Some(why) => format!("; this machine does not count instructions ({why})"),
            None => String::new(),
        };
        vec![
            format!(
                "{}.{first} Played over {} {played}; at most {} wait.",
                packets(self.sequence.tally()),
                show_rate(self.args.link),
                self.args.limit
            ),
            format!(
                "Flows ({}) active at once: {} on average, {} at most; {} entries searched in a hash table of {} chains, efficiency {:.6}.",
                self.args.definition,
                short(self.active.mean()),
                self.active.most(),
                short(self.active.entries()),
                self.args.table_size,
                self.active.hash_efficiency()
            ),
            format!(
                "Operations: the paper's formulas (Table 2.1). ns: reading a packet's flow (mean {1:.0}, 99 % {2:.0}; not for fifo) and its way \
                 through our queue, with warm caches. Means are of processor time (median of {0} runs), all others of each packet's least time \
                 in {0} runs{uncounted}.",
                self.args.rounds, self.classification.mean, self.classification.p99
            ),
            format!(
                "Affordable: {} of {:.1} bytes are {} packets/s, so with {:.0} % of a processor a packet may take {:.0} ns. Carries: the link \
                 for which the mean would do.",
                show_rate(self.args.link),
                self.budget.mean_length,
                short(self.budget.packets_s()),
                100.0 * self.budget.processor,
                self.budget.ns()
            ),
        ]
    }

    /// What chapter 2 is about, in words.
    fn advice(&self) -> String {
        let Some(row) = self.recommended.and_then(|place| self.rows.get(place)) else {
            let mean = |row: &&Row| row.ns.mean;
            let Some(cheapest) = self.rows.iter().min_by(|a, b| mean(a).total_cmp(&mean(b))) else {
                return "nothing, because nothing was measured.".to_owned();
            };
            return format!(
                "none of these. The cheapest, {} with {}, takes {:.0} ns where {:.0} may be taken: that is enough for {}.",
                cheapest.discipline,
                cheapest.policy,
                cheapest.ns.mean,
                self.budget.ns(),
                quantity(self.budget.carries(cheapest.ns.mean), "bit/s")
            );
        };
        let why = advice::preference(&row.discipline).map_or("", |(_, why)| why);
        let state = row.measured.state * f64::from(self.active.most());
        let only = if row.affords == Affords::OnAverage { ", on average only" } else { "" };
        let mut text = format!(
            "{} with {}: {why}. It takes {:.0} ns of {:.0}{only}, {:.0} at 99 %, carries {} and holds {} of state for {} flows at once.",
            row.discipline,
            row.policy,
            row.ns.mean,
            self.budget.ns(),
            row.ns.p99,
            quantity(self.budget.carries(row.ns.mean), "bit/s"),
            quantity(state, "bytes"),
            self.active.most()
        );
        let fifo = self.rows.iter().find(|row| row.discipline == DisciplineConfig::Fifo);
        if let Some(fifo) = fifo.filter(|_| row.discipline != DisciplineConfig::Fifo) {
            text += &format!(" FIFO, which tells no flows apart, takes {:.0} ns.", fifo.ns.mean);
        }
        let dear: Vec<String> =
            self.rows.iter().filter(|row| row.affords == Affords::No).map(|row| row.discipline.to_string()).collect();
        if !dear.is_empty() {
            text += &format!(" Too dear: {}.", dear.join(", "));
        }
        text
    }

    fn page(&self) -> String {
        let mut page = Page::new("What fair queueing costs on this traffic");
        page.paragraph(&format!("Recommended: {}", self.advice()));
        self.about().iter().for_each(|line| page.note(line));
        page.heading("Costs for each packet");
        page.table(&self.rows());
        page.plot(&self.bars());
        page.heading("Operations over time, by the paper's formulas");
        page.plot(&self.over_time("WFQ, SFQ and DRR (as Figure 2.5)", &FIGURE[..3]));
        page.plot(&self.over_time("DRR and stochastic fair queueing (as Figure 2.6)", &FIGURE[2..]));
        page.note("Where one line hides another they are alike: a hash table with few collisions is searched in one operation.");
        page.finish()
    }

    fn bars(&self) -> String {
        let group = |row: &Row| {
            let name = format!("{}, {}", row.discipline, row.policy);
            (name, vec![Bar::of(Some(row.ns.mean)), Bar::of(Some(row.ns.p99))])
        };
        let bars = Bars {
            title: format!("Time for each packet, of {:.0} ns that there are", self.budget.ns()),
            label: "ns".to_owned(),
            series: ["mean", "99 % of packets"].map(str::to_owned).to_vec(),
            groups: self.rows.iter().map(group).collect(),
        };
        bars.svg()
    }

    fn over_time(&self, title: &str, names: &[&str]) -> String {
        let entries = self.active.entries();
        let line = |name: &&str| {
            let operations = name.parse().ok().and_then(|discipline| Operations::of(&discipline))?;
            let points = self.active.samples.iter();
            let points = points.map(|(time, active)| (time * self.faster, operations.count(*active, entries)));
            Some(Line { name: (*name).to_owned(), points: points.collect(), errors: Vec::new(), paper: false })
        };
        let plot = Plot {
            title: title.to_owned(),
            x: Axis { label: "time in the captures (s)".to_owned(), log: false },
            y: Axis { label: "operations for each packet".to_owned(), log: true },
            lines: names.iter().filter_map(line).collect(),
        };
        plot.svg()
    }
}

fn spread(of: &Spread) -> Value {
    json!({ "mean": of.mean, "median": of.median, "p99": of.p99, "worst": of.worst })
}
