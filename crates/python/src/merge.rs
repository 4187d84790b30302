//! Documents of parts of a study joined to that of the whole, byte for byte as if all had been run at once.
//!
//! That works where each part has whole points: means, warnings and expectations are of points.

use crate::failure::Error;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A document, in the order of `fairspan-study`'s. What is not looked at stays as it was written.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: Box<RawValue>,
    scenario: Box<RawValue>,
    planned: usize,
    interrupted: bool,
    runs: Vec<Box<RawValue>>,
    estimates: Vec<Box<RawValue>>,
    seeds_alike: Vec<Box<RawValue>>,
    expectations: Vec<Box<RawValue>>,
    holds: Option<bool>,
}

/// The document of a study from those of its parts, in the order of their points.
pub(crate) fn join(parts: &[String]) -> PyResult<String> {
    let read = |text: &String| {
        serde_json::from_str::<Document>(text)
            .map_err(|error| Error::new_err(format!("no results of a study: {error}")))
    };
    let mut parts = parts.iter().map(read);
    let mut whole = parts.next().unwrap_or_else(|| Err(Error::new_err("there are no parts to join")))?;
    for part in parts {
        let part = part?;
        if (part.version.get(), part.scenario.get()) != (whole.version.get(), whole.scenario.get()) {
            return Err(Error::new_err(
                "these are results of different scenarios, or of different versions of fairspan",
            ));
        }
        whole.planned += part.planned;
        whole.interrupted |= part.interrupted;
        whole.runs.extend(part.runs);
        whole.estimates.extend(part.estimates);
        whole.seeds_alike.extend(part.seeds_alike);
        whole.expectations.extend(part.expectations);
        whole.holds = match (whole.holds, part.holds) {
            (Some(a), Some(b)) => Some(a && b),
            (a, b) => a.or(b),
        };
    }
    serde_json::to_string(&whole).map_err(|error| Error::new_err(error.to_string()))
}
