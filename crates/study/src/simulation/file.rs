//! Scenario files, and what they name beside them.

use crate::{Error, embedded};
use fairspan_sim::scenario::{File, ReadError};
use fairspan_trace::capture::Capture;
use fairspan_trace::replay::Replay;
use std::collections::BTreeSet;
use std::path::Path;

/// Reads the scenario `text`, which stands in `path`; files that it names are looked for beside it. `settings` are
/// keys set from outside.
///
/// # Errors
/// [`Error::Scenario`] with everything that is wrong.
pub fn read(path: &Path, text: &str, settings: &[(String, String)]) -> Result<File, Error> {
    parse(path, text, settings, &mut |name| beside(path, name)).map_err(bad_input)
}

/// Like [`read`]; `files` gives what is in a file that the scenario names.
///
/// # Errors
/// Everything that is wrong.
pub fn parse(
    path: &Path,
    text: &str,
    settings: &[(String, String)],
    files: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
) -> Result<File, Vec<ReadError>> {
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let mut files = |name: &str| {
        let content = files(name)?;
        if Capture::is_one(&content) { replayed(name, &content) } else { Ok(content) }
    };
    File::parse_with(&path.display().to_string(), text, &settings, &mut files)
}

/// What is in the file `name` beside the scenario `path`, also where that is one of the program's own.
///
/// # Errors
/// Why it cannot be read.
pub fn beside(path: &Path, name: &str) -> Result<Vec<u8>, String> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let file = folder.join(name);
    let own = |error: std::io::Error| {
        let text = if path.exists() { None } else { embedded::at(&file) };
        text.map(|text| text.as_bytes().to_vec()).ok_or_else(|| error.to_string())
    };
    std::fs::read(&file).or_else(own)
}

/// A capture as the lines that a replay takes: the times and lengths of its IP packets.
fn replayed(name: &str, content: &[u8]) -> Result<Vec<u8>, String> {
    let replay = Replay::read(content).map_err(|error| format!("{name}: {error}"))?;
    match replay.error {
        Some(error) => Err(format!("{name}: {error}")),
        None => Ok(replay.to_lines().into_bytes()),
    }
}

/// Seeds in place of the file's.
///
/// # Errors
/// [`Error::Input`] where one is there twice. `name` is what the seeds are called where they were given.
pub fn set_seeds(file: &mut File, seeds: Vec<u64>, name: &str) -> Result<(), Error> {
    let mut known = BTreeSet::new();
    if let Some(seed) = seeds.iter().find(|seed| !known.insert(**seed)) {
        return Err(Error::Input(format!("{name} {seed} is there twice: the same seed gives the same run")));
    }
    file.set_seeds(seeds);
    Ok(())
}

/// Everything that is wrong, one a line.
pub fn bad_input(errors: Vec<ReadError>) -> Error {
    Error::Scenario(errors)
}
