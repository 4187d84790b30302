//! The scenarios that the program was built with, and the files that they name.

use std::path::Path;

/// (path below scenarios/, text)
pub(crate) const EMBEDDED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// What is in a file of the program's own, such as `scenarios/workloads/abilene.graphml`.
pub(crate) fn at(path: &Path) -> Option<&'static str> {
    let path = path.strip_prefix("scenarios").ok()?;
    EMBEDDED.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| *text)
}
