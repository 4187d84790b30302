//! The kept answers: `scenarios/claims.json` those of the whole figures, `scenarios/claims-reduced.json` those of reduced ones, one
//! claim a line.

use super::answer::Row;
use super::bench::Extent;
use crate::exit::BadInput;
use anyhow::Context;
use std::path::Path;

/// What the program carries with it.
const KEPT: &str = include_str!("../../../../scenarios/claims.json");
const REDUCED: &str = include_str!("../../../../scenarios/claims-reduced.json");

/// The name of the file below `scenarios` that answers of this extent are kept in.
pub(crate) fn name(extent: Extent) -> &'static str {
    match extent {
        Extent::Whole => "claims.json",
        Extent::Reduced => "claims-reduced.json",
    }
}

/// The answers that the program was built with.
pub(crate) fn embedded(extent: Extent) -> Vec<Row> {
    let text = match extent {
        Extent::Whole => KEPT,
        Extent::Reduced => REDUCED,
    };
    serde_json::from_str(text).unwrap_or_else(|error| panic!("scenarios/{}: {error}", name(extent)))
}

/// The answers in `path`.
///
/// # Errors
/// [`BadInput`] when it cannot be read or is not such a list.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Row>> {
    let text = std::fs::read_to_string(path).map_err(|e| BadInput(format!("{}: {e}", path.display())))?;
    Ok(serde_json::from_str(&text).map_err(|e| BadInput(format!("{}: {e}", path.display())))?)
}

/// Writes the answers to `path`, whole or not at all.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write(path: &Path, rows: &[Row]) -> anyhow::Result<()> {
    let lines = rows.iter().map(serde_json::to_string).collect::<Result<Vec<String>, _>>()?;
    let text = format!("[\n{}\n]\n", lines.join(",\n"));
    let new = path.with_extension("json.new");
    std::fs::write(&new, text)
        .and_then(|()| std::fs::rename(&new, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
