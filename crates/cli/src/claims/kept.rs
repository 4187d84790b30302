//! The kept answers: `scenarios/claims.json`, one claim a line.

use super::answer::Row;
use crate::exit::BadInput;
use anyhow::Context;
use std::path::Path;

/// What the program carries with it.
const KEPT: &str = include_str!("../../../../scenarios/claims.json");

/// The answers that the program was built with.
pub(crate) fn embedded() -> Vec<Row> {
    serde_json::from_str(KEPT).unwrap_or_else(|error| panic!("scenarios/claims.json: {error}"))
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
