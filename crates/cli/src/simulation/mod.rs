//! Scenarios run: files read, points and seeds spread over the cores, captures written on the way.

mod capture;
mod expected;
mod progress;
mod runner;

pub(crate) use capture::Captures;
pub(crate) use expected::{Expected, expected};
pub(crate) use runner::{Batch, Finished, Options, run};

use crate::exit::BadInput;
use fairspan_sim::scenario::{File, ReadError};
use std::path::Path;

/// Reads the scenario `text`, which stands in `path`; files that it names are looked for beside it. `settings` are
/// keys set from outside.
///
/// # Errors
/// [`BadInput`] with everything that is wrong, one a line.
pub(crate) fn read(path: &Path, text: &str, settings: &[(String, String)]) -> anyhow::Result<File> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let mut files = |name: &str| std::fs::read(folder.join(name)).map_err(|error| error.to_string());
    Ok(File::parse_with(&path.display().to_string(), text, &settings, &mut files).map_err(bad_input)?)
}

/// Everything that is wrong, one a line.
fn bad_input(errors: Vec<ReadError>) -> BadInput {
    BadInput(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\nfairspan: "))
}
