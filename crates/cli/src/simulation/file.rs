//! Scenario files, and what they name beside them.

use crate::exit::BadInput;
use fairspan_sim::scenario::{File, ReadError};
use fairspan_trace::capture::Capture;
use fairspan_trace::replay::Replay;
use std::path::Path;

/// Reads the scenario `text`, which stands in `path`; files that it names are looked for beside it. `settings` are
/// keys set from outside.
///
/// # Errors
/// [`BadInput`] with everything that is wrong, one a line.
pub(crate) fn read(path: &Path, text: &str, settings: &[(String, String)]) -> anyhow::Result<File> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let mut files = |name: &str| {
        let content = std::fs::read(folder.join(name)).map_err(|error| error.to_string())?;
        if Capture::is_one(&content) { replayed(name, &content) } else { Ok(content) }
    };
    Ok(File::parse_with(&path.display().to_string(), text, &settings, &mut files).map_err(bad_input)?)
}

/// A capture as the lines that a replay takes: the times and lengths of its IP packets.
fn replayed(name: &str, content: &[u8]) -> Result<Vec<u8>, String> {
    let replay = Replay::read(content).map_err(|error| format!("{name}: {error}"))?;
    match replay.error {
        Some(error) => Err(format!("{name}: {error}")),
        None => Ok(replay.to_lines().into_bytes()),
    }
}

/// Everything that is wrong, one a line.
pub(crate) fn bad_input(errors: Vec<ReadError>) -> BadInput {
    BadInput(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\nfairspan: "))
}
