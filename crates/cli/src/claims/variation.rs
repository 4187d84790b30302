//! A figure in which one constant at a time is another: the points that differ from the usual ones in one of them only, in a figure
//! that sweeps them ([`tables`]) or in runs of the claim's own figure ([`Variation`]).

use super::bench::{Bench, FigureRun};
use super::evidence::{Calibration, Cell, Evidence, Line};
use crate::exit::BadInput;

/// A constant that the paper does not tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Free {
    /// The swept parameter.
    pub(crate) parameter: &'static str,
    /// Its value in the figures, as the sweep writes it.
    pub(crate) usual: &'static str,
    /// What it is and why it has that value, for people.
    pub(crate) what: &'static str,
}

/// Whether `parameter` has `value` at a point; quotes do not matter.
pub(crate) fn is(at: &[(String, String)], parameter: &str, value: &str) -> bool {
    at.iter().any(|(known, found)| known == parameter && found.trim_matches('"') == value)
}

/// The values of `free`'s constant in the file's order at the points where all other constants are as usual.
fn values<'a>(run: &'a FigureRun, all: &[Free], free: &Free) -> Vec<&'a str> {
    let mut values: Vec<&str> = Vec::new();
    for finished in &run.batch.finished {
        let mut others = all.iter().filter(|other| other.parameter != free.parameter);
        let usual = others.all(|other| is(&finished.parameters, other.parameter, other.usual));
        let found = finished.parameters.iter().find(|(name, _)| name == free.parameter);
        if let Some((_, value)) = found.filter(|_| usual)
            && !values.contains(&value.trim_matches('"'))
        {
            values.push(value.trim_matches('"'));
        }
    }
    values
}

/// A table for each constant: a line for each of its values, of which `measure` gives the columns. `measure` is given what is so
/// at the line's points.
///
/// # Errors
/// [`BadInput`] when the figure does not vary a constant, or never has its usual value; what `measure` gives.
pub(crate) fn tables(
    run: &FigureRun,
    all: &[Free],
    columns: &[&str],
    mut measure: impl FnMut(&[(&str, &str)]) -> anyhow::Result<Vec<Cell>>,
) -> anyhow::Result<Vec<Evidence>> {
    let mut tables = Vec::new();
    for free in all {
        let values = values(run, all, free);
        if values.len() < 2 || !values.contains(&free.usual) {
            let name = run.file.name();
            return Err(BadInput(format!("{name}: {} has only the values {values:?}", free.parameter)).into());
        }
        let mut table = Evidence::new(free.what, columns);
        for value in values {
            let at =
                |other: &Free| (other.parameter, if other.parameter == free.parameter { value } else { other.usual });
            let wanted = all.iter().map(at).collect::<Vec<_>>();
            table.line(value, value == free.usual, measure(&wanted)?);
        }
        tables.push(table);
    }
    Ok(tables)
}

/// A constant that the paper does not tell, where it stands in a figure's scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constant {
    /// What it is and why it has that value, for people.
    pub(crate) what: &'static str,
    /// The settings that have this value, by their paths.
    pub(crate) settings: &'static [&'static str],
    /// Its values, as a setting from outside has them; the first is the figure's.
    pub(crate) values: &'static [&'static str],
    /// What the values are called; where empty, as they are written.
    pub(crate) names: &'static [&'static str],
}

/// A claim's own figure, or some of its points, with one constant at a time another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variation {
    /// The figure's key.
    pub(crate) figure: &'static str,
    /// What is set whatever the constant is: fewer points or seeds, or a shorter run.
    pub(crate) at: &'static [(&'static str, &'static str)],
    /// The constants.
    pub(crate) constants: &'static [Constant],
}

impl Variation {
    /// A table for each constant: a line for each of its values, or of a reduced answer for the first two, of which `measure` gives
    /// the columns. What a figure expects is meant for its own constants, and is not judged.
    ///
    /// # Errors
    /// As for [`Bench::figure_with`]; what `measure` gives.
    pub(crate) fn tables(
        &self,
        bench: &mut Bench,
        columns: &[&str],
        mut measure: impl FnMut(&FigureRun) -> anyhow::Result<Vec<Cell>>,
    ) -> anyhow::Result<Vec<Evidence>> {
        let mut tables = Vec::new();
        for constant in self.constants {
            let mut table = Evidence::new(constant.what, columns);
            let most = if bench.is_reduced() { 2 } else { constant.values.len() };
            for (n, value) in constant.values.iter().enumerate().take(most) {
                let run = bench.figure_with(self.figure, &self.settings(constant, n))?;
                table.line(*constant.names.get(n).unwrap_or(value), n == 0, measure(&run)?);
            }
            tables.push(table);
        }
        Ok(tables)
    }

    /// What is set for the value at a place; the figure's own is left as it stands there, so that it is run once for all constants.
    fn settings(&self, constant: &Constant, place: usize) -> Vec<(&'static str, &'static str)> {
        let mut settings = vec![("expect", "[]"), ("plot", "[]")];
        settings.extend(self.at);
        if place > 0 {
            settings.extend(constant.settings.iter().map(|path| (*path, constant.values[place])));
        }
        settings
    }
}

/// The last column of a table by which it is decided whether a verdict hangs on a constant.
pub(crate) const NOT_SO: &str = "of what the claim says not so";

/// The constants on which a verdict hangs, as what was fitted: what the claim says is so with the value that is used, and not with
/// some other one. The last column of each table is [`NOT_SO`].
pub(crate) fn hangs_on(tables: &[Evidence]) -> Vec<Calibration> {
    let mut fitted = Vec::new();
    for table in tables.iter().filter(|table| table.columns.last().is_some_and(|name| name == NOT_SO)) {
        let is_so = |line: &&Line| line.cells.last().is_some_and(|cell| cell.mean() == 0.0);
        let Some(used) = table.lines.iter().find(|line| line.used).filter(is_so) else { continue };
        let others: Vec<&str> = table.lines.iter().filter(|line| !is_so(line)).map(|line| line.at.as_str()).collect();
        if !others.is_empty() {
            let constant = format!("{} ({})", used.at, table.of);
            let to = format!("what the claim says, which is not so with {}", others.join(" or "));
            fitted.push(Calibration::new(constant, to, table));
        }
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{brr, efl, gateway, rings};
    use crate::{scenarios, simulation};

    /// All runs of a figure with these settings, as they are built.
    fn built(figure: &str, settings: &[(&str, &str)]) -> Vec<String> {
        let figures = scenarios::figures();
        let found = figures.iter().find(|known| known.key == figure).unwrap_or_else(|| panic!("no {figure}"));
        let settings: Vec<(String, String)> =
            settings.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
        let file = simulation::read(&found.path, &found.text, &settings).unwrap_or_else(|e| panic!("{figure}: {e:#}"));
        file.runs().map(|run| format!("{:?}", run.expect("it is built").scenario)).collect()
    }

    #[test]
    fn the_first_value_of_a_constant_is_the_figures_own_and_the_others_are_not() {
        let all =
            [brr::free::VARIATIONS, efl::free::VARIATIONS, gateway::split_free::VARIATIONS, rings::free::VARIATIONS];
        for variation in all.concat() {
            let usual = built(variation.figure, &variation.settings(&variation.constants[0], 0));
            for constant in variation.constants {
                assert!(constant.values.len() > 1 && !constant.settings.is_empty(), "{}", constant.what);
                assert!(
                    constant.names.is_empty() || constant.names.len() == constant.values.len(),
                    "{}",
                    constant.what
                );
                let mut seen = vec![usual.clone()];
                for (n, value) in constant.values.iter().enumerate() {
                    let mut settings = variation.settings(constant, 0);
                    settings.extend(constant.settings.iter().map(|path| (*path, *value)));
                    let runs = built(variation.figure, &settings);
                    let name = format!("{}, {}: {value}", variation.figure, constant.what);
                    assert_eq!(seen.contains(&runs), n == 0, "{name}");
                    seen.push(runs);
                }
            }
        }
    }

    #[test]
    fn a_verdict_hangs_on_a_constant_with_another_value_of_which_the_claim_is_not_so() {
        let table = |faults: [f64; 3], last: &str| {
            let mut table = Evidence::new("segment", &["Mbit/s", last]);
            for (at, faults) in ["536", "1024", "1460"].into_iter().zip(faults) {
                table.line(at, at == "536", vec![Cell::exact(1.5), Cell::exact(faults)]);
            }
            table
        };
        let found = hangs_on(&[table([0.0, 0.0, 1.0], NOT_SO), table([0.0; 3], NOT_SO)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].constant, "536 (segment)");
        assert!(found[0].fitted_to.ends_with("not so with 1460"), "{}", found[0].fitted_to);
        assert_eq!(hangs_on(&[table([0.0, f64::NAN, 0.0], NOT_SO)]).len(), 1, "what is no number is not so");
        // Where it is not so with the value that is used, nothing was fitted; and other tables say nothing of it.
        assert!(hangs_on(&[table([1.0, 0.0, 0.0], NOT_SO), table([0.0, 0.0, 1.0], "Jain's index")]).is_empty());
    }
}
