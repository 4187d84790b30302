//! A figure in which one constant at a time is another: the points that differ from the usual ones in one of them only.

use super::bench::FigureRun;
use super::evidence::{Cell, Evidence};
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
