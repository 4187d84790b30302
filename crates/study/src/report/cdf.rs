//! Distributions: the share of samples that are not above a value, pooled over seeds and over all that a `*` stands for.

use super::axis::{quantity, scaled, spread_out};
use super::lines::{MOST_LINES, chosen, name, others, title, told};
use super::plot::{Axis, Line, Plot};
use crate::simulation::Finished;
use fairspan_sim::scenario::{File, Plot as Asked, Sampled};

/// How many samples there are of which value.
type Pool = Vec<(f64, u64)>;

/// A plot that a file asks for; `None` where the runs have no such samples.
pub(super) fn plot(asked: &Asked, lines: &[(String, Sampled)], file: &File, runs: &[&Finished]) -> Option<String> {
    let others = others(file, runs, None, asked.by.as_deref());
    let mut pools: Vec<((usize, String), Pool)> = Vec::new();
    for (number, (_, sampled)) in lines.iter().enumerate() {
        for run in runs {
            let Ok(samples) = sampled.samples(&run.results) else { continue };
            let key = (number, told(&others, &run.parameters));
            match pools.iter_mut().find(|(known, _)| *known == key) {
                Some((_, pool)) => pool.extend(samples),
                None => pools.push((key, samples)),
            }
        }
    }
    pools.retain(|(_, pool)| !pool.is_empty());
    let count = pools.len();
    let mean = |(_, pool): &(_, Pool)| {
        let (sum, all) = pool.iter().fold((0.0, 0.0), |(sum, all), (v, n)| (sum + v * *n as f64, all + *n as f64));
        sum / all
    };
    let shown = spread_out(&pools.iter().map(mean).collect::<Vec<f64>>(), MOST_LINES);
    let mut pools: Vec<_> = pools.into_iter().map(Some).collect();
    let pools: Vec<((usize, String), Pool)> = shown.into_iter().filter_map(|place| pools[place].take()).collect();
    let mut units = pools.iter().map(|((number, _), _)| lines[*number].1.unit().to_string());
    let unit = units.next()?;
    // Quantities of unlike units share the axis, which then names none.
    let unit = if units.all(|other| other == unit) { unit } else { String::new() };
    let most = pools.iter().flat_map(|(_, pool)| pool).fold(0.0_f64, |most, sample| most.max(sample.0.abs()));
    let x = scaled(&asked.x_label, &quantity(lines.iter().map(|(_, sampled)| sampled.text())), &unit, most);
    let drawn = pools.into_iter().map(|((number, at), pool)| Line {
        name: name(&lines[number].0, lines.len(), &at),
        points: steps(pool).into_iter().map(|(value, share)| (value / x.factor, share)).collect(),
        errors: vec![],
        paper: false,
    });
    let lines = drawn.collect();
    let y_label = if asked.y_label.is_empty() { "share of samples not above" } else { &asked.y_label };
    let (x, y) = (Axis { label: x.label, log: asked.log_x }, Axis { label: y_label.to_owned(), log: asked.log_y });
    Some(Plot { title: title(asked, file, &[chosen(count, MOST_LINES)]), x, y, lines }.svg())
}

/// The corners of the stairs that the share climbs.
fn steps(mut pool: Pool) -> Vec<(f64, f64)> {
    pool.sort_by(|a, b| a.0.total_cmp(&b.0));
    pool.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        earlier.1 += if same { later.1 } else { 0 };
        same
    });
    let all: u64 = pool.iter().map(|sample| sample.1).sum();
    let mut below = 0;
    let mut corners = Vec::with_capacity(2 * pool.len());
    for (value, count) in pool {
        corners.push((value, below as f64 / all as f64));
        below += count;
        corners.push((value, below as f64 / all as f64));
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_climbs_at_each_value_by_how_many_samples_there_are_of_it() {
        let stairs = steps(vec![(3.0, 1), (1.0, 2), (3.0, 4), (2.0, 1)]);
        assert_eq!(stairs, [(1.0, 0.0), (1.0, 0.25), (2.0, 0.25), (2.0, 0.375), (3.0, 0.375), (3.0, 1.0)]);
    }
}
