//! Transfers by classes of sizes, pooled over all flows with the same classes and over all seeds of a point; and their records.

use super::sheet::{Sheet, head, number, which};
use super::text::{Rows, columns};
use crate::simulation::Finished;
use fairspan_sim::metrics::spread::percentile;
use fairspan_sim::results::{Distribution, SizeClass};
use fairspan_sim::scenario::File;

/// How many samples there are of which value.
type Pool = Vec<(f64, u64)>;

/// A class at a point.
#[derive(Debug, Default)]
struct Class {
    point: usize,
    /// Swept parameters and their values.
    at: Vec<(String, String)>,
    /// Bounds of its flows' classes; flows with others are other classes.
    bounds: Vec<u64>,
    /// The largest size of this one; `None`: it has no bound.
    up_to: Option<u64>,
    durations: Pool,
    slowdowns: Pool,
    /// Exact, as the samples are not.
    sums: [(u64, f64); 2],
}

/// Which percentiles are told.
const SHARES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

impl Class {
    fn add(&mut self, class: &SizeClass) {
        let add = |pool: &mut Pool, sum: &mut (u64, f64), distribution: &Distribution| {
            pool.extend(&distribution.samples);
            sum.0 += distribution.count;
            sum.1 += distribution.mean * distribution.count as f64;
        };
        add(&mut self.durations, &mut self.sums[0], &class.duration);
        add(&mut self.slowdowns, &mut self.sums[1], &class.slowdown);
    }

    /// Mean and [`SHARES`] of durations (0) or slowdowns (1), where there are any.
    fn told(&mut self, which: usize) -> [Option<f64>; 5] {
        let (count, sum) = self.sums[which];
        let pool = if which == 0 { &mut self.durations } else { &mut self.slowdowns };
        let mut told = [None; 5];
        if count > 0 {
            told[0] = Some(sum / count as f64);
            for (told, share) in told[1..].iter_mut().zip(SHARES) {
                *told = percentile(pool, share);
            }
        }
        told
    }

    fn name(&self) -> String {
        let below = self.bounds.iter().copied().rfind(|bound| self.up_to.is_none_or(|up_to| *bound < up_to));
        match (below, self.up_to) {
            (None, Some(up_to)) => format!("up to {}", size(up_to)),
            (Some(below), Some(up_to)) => format!("{} to {}", size(below), size(up_to)),
            (Some(below), None) => format!("above {}", size(below)),
            (None, None) => "all".to_owned(),
        }
    }
}

fn size(bytes: u64) -> String {
    super::text::quantity(bytes as f64, "bytes")
}

/// All classes of all points.
fn classes(finished: &[Finished]) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for runs in finished.chunk_by(|a, b| a.point == b.point) {
        let first = classes.len();
        for run in runs {
            for flow in &run.results.flows {
                let own = flow.transfers.as_ref().map_or(&[][..], |transfers| &transfers.classes);
                let bounds: Vec<u64> = own.iter().filter_map(|class| class.up_to).collect();
                for class in own {
                    let same = |known: &Class| known.bounds == bounds && known.up_to == class.up_to;
                    let place = match classes[first..].iter().position(same) {
                        Some(place) => first + place,
                        None => {
                            let (at, bounds) = (run.parameters.clone(), bounds.clone());
                            classes.push(Class {
                                point: run.point,
                                at,
                                bounds,
                                up_to: class.up_to,
                                ..Class::default()
                            });
                            classes.len() - 1
                        }
                    };
                    classes[place].add(class);
                }
            }
        }
    }
    classes
}

/// Classes of sizes that had transfers, of all points: for people.
pub(crate) fn rows(file: &File, finished: &[Finished], most: usize) -> Rows {
    let mut all: Vec<Class> = classes(finished).into_iter().filter(|class| class.sums[0].0 > 0).collect();
    let more = all.len().saturating_sub(most);
    all.truncate(most);
    let leading: Vec<&str> = file.leading_parameters().collect();
    let several = all.iter().any(|class| class.point != all[0].point);
    let name = |class: &Class| {
        let at = class.at.iter().filter(|(key, _)| several && leading.contains(&key.as_str()));
        let at: Vec<String> = at.map(|(key, value)| format!("{key} = {value}")).collect();
        [at, vec![class.name()]].concat().join(", ")
    };
    let names = all.iter().map(name).collect();
    let counts = all.iter().map(|class| Some(class.sums[0].0 as f64)).collect();
    let durations: Vec<[Option<f64>; 5]> = all.iter_mut().map(|class| class.told(0)).collect();
    let slowdowns: Vec<[Option<f64>; 5]> = all.iter_mut().map(|class| class.told(1)).collect();
    let column = |told: &[[Option<f64>; 5]], which: usize| told.iter().map(|told| told[which]).collect();
    columns(
        "transfers of",
        names,
        more,
        vec![
            ("complete", "", counts),
            ("duration mean", "s", column(&durations, 0)),
            ("median", "s", column(&durations, 1)),
            ("99 %", "s", column(&durations, 3)),
            ("slowdown mean", "", column(&slowdowns, 0)),
            ("slowdown median", "", column(&slowdowns, 1)),
            ("slowdown 99 %", "", column(&slowdowns, 3)),
        ],
    )
}

/// The sheets by the names of their files; those of which there is nothing are left out.
pub(super) fn sheets(file: &File, finished: &[Finished]) -> Vec<(&'static str, String)> {
    let sheets = [("classes.csv", sheet(file, finished)), ("transfers.csv", records(file, finished))];
    sheets.into_iter().filter(|(_, text)| text.lines().count() > 1).collect()
}

/// All classes of all points.
fn sheet(file: &File, finished: &[Finished]) -> String {
    let mut head = vec!["point".to_owned()];
    head.extend(file.parameters().map(str::to_owned));
    head.extend(["above", "up_to", "transfers"].map(str::to_owned));
    for what in ["duration", "slowdown"] {
        head.extend(["mean", "p50", "p90", "p99", "p99.9"].map(|name| format!("{what}_{name}")));
    }
    let mut sheet = Sheet::new(&head);
    for mut class in classes(finished) {
        let mut cells = vec![class.point.to_string()];
        cells.extend(class.at.iter().map(|(_, value)| value.trim_matches('"').to_owned()));
        let above = class.bounds.iter().copied().rfind(|bound| class.up_to.is_none_or(|up_to| *bound < up_to));
        cells.push(above.unwrap_or(0).to_string());
        cells.push(class.up_to.map_or(String::new(), |up_to| up_to.to_string()));
        cells.push(class.sums[0].0.to_string());
        for which in [0, 1] {
            cells.extend(class.told(which).map(|value| value.map_or(String::new(), number)));
        }
        sheet.line(&cells);
    }
    sheet.finish()
}

/// A line for each recorded transfer.
fn records(file: &File, finished: &[Finished]) -> String {
    let mut sheet = Sheet::new(&head(file, &["flow", "start", "bytes", "duration", "slowdown"]));
    for run in finished {
        let own = which(run);
        for flow in &run.results.flows {
            for record in flow.transfers.iter().flat_map(|transfers| &transfers.records) {
                let mut cells = own.clone();
                cells.extend([flow.name.clone(), number(record.start_s), record.bytes.to_string()]);
                cells.extend([number(record.duration_s), record.slowdown.map_or(String::new(), number)]);
                sheet.line(&cells);
            }
        }
    }
    sheet.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_sim::results::{FlowResult, Results, Transfers};

    fn class(up_to: Option<u64>, samples: &[(f64, u64)]) -> SizeClass {
        let count = samples.iter().map(|sample| sample.1).sum::<u64>();
        let sum: f64 = samples.iter().map(|&(value, count)| value * count as f64).sum();
        let of = Distribution { count, mean: sum / count as f64, samples: samples.to_vec(), ..Distribution::default() };
        SizeClass { up_to, duration: of.clone(), slowdown: of }
    }

    #[test]
    fn classes_are_pooled_over_flows_and_seeds_and_not_over_points_or_other_bounds() {
        let flow = |classes: Vec<SizeClass>| {
            let transfers = Some(Box::new(Transfers { classes, ..Transfers::default() }));
            FlowResult { transfers, ..FlowResult::default() }
        };
        let run = |number, point, flows| {
            let results = Results { flows, ..Results::default() };
            Finished { number, point, parameters: vec![], results }
        };
        let small = |samples: &[(f64, u64)]| vec![class(Some(10), samples), class(None, &[(9.0, 1)])];
        let finished = [
            run(0, 0, vec![flow(small(&[(1.0, 98)])), flow(small(&[(5.0, 1)]))]),
            run(
                1,
                0,
                vec![flow(small(&[(3.0, 1)])), flow(vec![class(Some(7), &[(2.0, 1)]), class(None, &[(2.0, 1)])])],
            ),
            run(2, 1, vec![flow(small(&[(4.0, 1)]))]),
        ];
        let mut found = classes(&finished);
        assert_eq!(found.len(), 2 + 2 + 2);
        assert_eq!(found.iter().map(Class::name).take(2).collect::<Vec<_>>(), ["up to 10 bytes", "above 10 bytes"]);
        let told = found[0].told(1);
        assert_eq!((found[0].sums[0].0, told[0], told[1]), (100, Some(1.06), Some(1.0)));
        assert_eq!((told[3], told[4]), (Some(3.0), Some(5.0)), "the 99th and the last of a hundred");
        assert_eq!((found[1].sums[0].0, found[4].point, found[4].told(0)[0]), (3, 1, Some(4.0)));
    }
}
