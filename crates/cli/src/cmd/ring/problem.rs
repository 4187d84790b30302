//! A ring, its flows and how to simulate them, as JSON.

use crate::exit::BadInput;
use fairspan_core::ring::Ringlet;
use fairspan_core::ring::problem::{Problem, ProblemError};
use serde::de::{DeserializeOwned, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::marker::PhantomData;
use std::path::Path;

/// A file of `fairspan ring`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) nodes: u64,
    #[serde(default = "one")]
    pub(super) capacity: f64,
    /// By the link's number.
    #[serde(default)]
    pub(super) links: Numbered<LinkCapacity>,
    #[serde(default)]
    pub(super) topology: Shape,
    /// By the node's number.
    #[serde(default)]
    pub(super) weights: Numbered<f64>,
    pub(super) flows: Vec<FlowEntry>,
    /// Of one link, in one direction. Only for simulations, as all below.
    pub(super) delay_us: Option<f64>,
    pub(super) buffer_bytes: Option<u64>,
    pub(super) packet_bytes: Option<u64>,
    pub(super) interval_us: Option<f64>,
    /// Of the rates.
    pub(super) unit: Option<String>,
}

fn one() -> f64 {
    1.0
}

/// Whether the last node is joined to the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Shape {
    #[default]
    Ring,
    Line,
}

/// A flow. Its index is its place in the file, from 0.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowEntry {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) demand: Option<f64>,
    pub(super) ringlet: Option<GivenRinglet>,
    /// Only for simulations, as all below.
    pub(super) start_ms: Option<f64>,
    pub(super) stop_ms: Option<f64>,
    pub(super) packet_bytes: Option<u64>,
    pub(super) class: Option<String>,
    pub(super) kind: Option<String>,
}

/// A link's capacity in each direction: one number, or those of ringlets 0 and 1.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged, expecting = "a link's capacity is a number, or two: [of ringlet 0, of ringlet 1]")]
pub(super) enum LinkCapacity {
    Both(f64),
    Each([f64; 2]),
}

impl LinkCapacity {
    /// By ringlet.
    pub(super) fn each(self) -> [f64; 2] {
        match self {
            LinkCapacity::Both(capacity) => [capacity; 2],
            LinkCapacity::Each(each) => each,
        }
    }
}

/// An object whose keys are numbers, each once.
#[derive(Clone, Debug)]
pub(super) struct Numbered<T>(pub(super) BTreeMap<u64, T>);

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered(BTreeMap::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Numbered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Each<T> {
            type Value = Numbered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with numbers as keys, such as {\"1\": 0.5}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Numbered<T>, A::Error> {
                let mut all = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    let number: u64 = key
                        .parse()
                        .map_err(|_| A::Error::custom(format!("key \"{key}\": write a number such as \"1\"")))?;
                    if all.insert(number, map.next_value()?).is_some() {
                        return Err(A::Error::custom(format!("key \"{key}\" stands twice: leave one")));
                    }
                }
                Ok(Numbered(all))
            }
        }
        deserializer.deserialize_map(Each(PhantomData))
    }
}

impl Document {
    /// Reads a file, or standard input where it is called `-`.
    ///
    /// # Errors
    /// What is wrong, where, and what would be right.
    pub(super) fn read(file: &Path) -> Result<Document, BadInput> {
        read(file)
    }

    /// What is to be shared.
    ///
    /// # Errors
    /// What is wrong, and what would be right; `file` is named.
    pub(super) fn problem(&self, file: &Path) -> Result<Problem, BadInput> {
        let wrong = |place: &str, error: ProblemError| BadInput(format!("{}: {place}{error}", name(file)));
        let made = match self.topology {
            Shape::Ring => Problem::ring(self.nodes, self.capacity),
            Shape::Line => Problem::line(self.nodes, self.capacity),
        };
        let mut problem = made.map_err(|error| wrong("", error))?;
        for (&number, capacity) in &self.links.0 {
            for (ringlet, capacity) in Ringlet::BOTH.into_iter().zip(capacity.each()) {
                let set = problem.set_link(number, ringlet, capacity);
                set.map_err(|error| wrong(&format!("links.{number}: "), error))?;
            }
        }
        for (&number, &weight) in &self.weights.0 {
            let set = problem.node(number).and_then(|node| problem.set_weight(node, weight));
            set.map_err(|error| wrong(&format!("weights.{number}: "), error))?;
        }
        self.check_simulation().map_err(|problem| BadInput(format!("{}: {problem}", name(file))))?;
        for (index, flow) in self.flows.iter().enumerate() {
            flow.add(&mut problem).map_err(|error| wrong(&format!("flows[{index}]: "), error))?;
        }
        Ok(problem)
    }

    /// What is wrong with the keys that only simulations use.
    fn check_simulation(&self) -> Result<(), String> {
        let at_least_0 = |key: &str, value: Option<f64>| match value {
            Some(value) if value < 0.0 => Err(format!("{key} {value}: write a number, at least 0")),
            _ => Ok(()),
        };
        at_least_0("delay_us", self.delay_us)?;
        for (key, bad) in [
            ("interval_us", self.interval_us.is_some_and(|interval| interval <= 0.0)),
            ("buffer_bytes", self.buffer_bytes == Some(0)),
            ("packet_bytes", self.packet_bytes == Some(0)),
        ] {
            if bad {
                return Err(format!("{key}: write a number above 0"));
            }
        }
        for (index, flow) in self.flows.iter().enumerate() {
            at_least_0(&format!("flows[{index}].start_ms"), flow.start_ms)?;
            if flow.stop_ms.is_some_and(|stop| stop <= flow.start_ms.unwrap_or(0.0)) {
                return Err(format!("flows[{index}].stop_ms: write a time after the flow's start"));
            }
            if let Some(class) = flow.class.as_deref().filter(|class| !["A", "B", "C"].contains(class)) {
                return Err(format!("flows[{index}].class \"{class}\": write \"A\", \"B\" or \"C\""));
            }
        }
        Ok(())
    }
}

impl FlowEntry {
    fn add(&self, problem: &mut Problem) -> Result<usize, ProblemError> {
        let (from, to) = (problem.node(self.from)?, problem.node(self.to)?);
        problem.add(from, to, self.ringlet.map(|GivenRinglet(ringlet)| ringlet), self.demand)
    }
}

/// A ringlet by its number.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct GivenRinglet(pub(super) Ringlet);

impl TryFrom<u64> for GivenRinglet {
    type Error = String;

    fn try_from(number: u64) -> Result<GivenRinglet, String> {
        match number {
            0 => Ok(GivenRinglet(Ringlet::Zero)),
            1 => Ok(GivenRinglet(Ringlet::One)),
            other => Err(format!("ringlet {other}: write 0 or 1")),
        }
    }
}

/// A file as messages name it.
pub(super) fn name(file: &Path) -> String {
    if file.as_os_str() == "-" { "standard input".to_owned() } else { file.display().to_string() }
}

/// Reads one JSON document from a file, or standard input where it is called `-`.
///
/// # Errors
/// What is wrong, with file, line and column.
pub(super) fn read<T: DeserializeOwned>(file: &Path) -> Result<T, BadInput> {
    let name = name(file);
    let text = if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| BadInput(format!("{name}: {error}")))?;
    serde_json::from_str(&text).map_err(|error| BadInput(format!("{name}: {error}")))
}
