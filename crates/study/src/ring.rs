//! A ring, its flows and how to simulate them, as JSON.

use crate::Error as StudyError;
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
pub struct Document {
    /// From 2 to 255.
    pub nodes: u64,
    /// Of each link without its own, in the unit of all rates.
    #[serde(default = "one")]
    pub capacity: f64,
    /// By the link's number.
    #[serde(default)]
    pub links: Numbered<LinkCapacity>,
    /// Whether it is closed.
    #[serde(default)]
    pub topology: Shape,
    /// By the node's number.
    #[serde(default)]
    pub weights: Numbered<f64>,
    /// Who sends to whom.
    pub flows: Vec<FlowEntry>,
    /// Of one link, in one direction. Only for simulations, as all below.
    pub delay_us: Option<f64>,
    /// Of a node.
    pub buffer_bytes: Option<u64>,
    /// Of a packet.
    pub packet_bytes: Option<u64>,
    /// Between control messages.
    pub interval_us: Option<f64>,
    /// Of the rates.
    pub unit: Option<String>,
}

fn one() -> f64 {
    1.0
}

/// Whether the last node is joined to the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// It is.
    #[default]
    Ring,
    /// It is not.
    Line,
}

/// A flow. Its index is its place in the file, from 0.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowEntry {
    /// Where it enters, from 1.
    pub from: u64,
    /// Where it leaves.
    pub to: u64,
    /// The most that it sends; without one, all that it may.
    pub demand: Option<f64>,
    /// Which way round, where it is not the shorter one.
    pub ringlet: Option<GivenRinglet>,
    /// Only for simulations, as all below.
    pub start_ms: Option<f64>,
    /// When it ends.
    pub stop_ms: Option<f64>,
    /// Of a packet.
    pub packet_bytes: Option<u64>,
    /// A, B or C.
    pub class: Option<String>,
    /// Of traffic.
    pub kind: Option<String>,
}

/// A link's capacity in each direction: one number, or those of ringlets 0 and 1.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged, expecting = "a link's capacity is a number, or two: [of ringlet 0, of ringlet 1]")]
pub enum LinkCapacity {
    /// In both.
    Both(f64),
    /// By ringlet.
    Each([f64; 2]),
}

impl LinkCapacity {
    /// By ringlet.
    pub fn each(self) -> [f64; 2] {
        match self {
            LinkCapacity::Both(capacity) => [capacity; 2],
            LinkCapacity::Each(each) => each,
        }
    }
}

/// An object whose keys are numbers, each once.
#[derive(Clone, Debug)]
pub struct Numbered<T>(pub BTreeMap<u64, T>);

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
    pub fn read(file: &Path) -> Result<Document, StudyError> {
        read(file)
    }

    /// Reads a text; `file` is what it is called.
    ///
    /// # Errors
    /// What is wrong, where, and what would be right.
    pub fn parse(file: &Path, text: &str) -> Result<Document, StudyError> {
        serde_json::from_str(text).map_err(|error| StudyError::Input(format!("{}: {error}", name(file))))
    }

    /// What is to be shared.
    ///
    /// # Errors
    /// What is wrong, and what would be right; `file` is named.
    pub fn problem(&self, file: &Path) -> Result<Problem, StudyError> {
        let wrong = |place: &str, error: ProblemError| StudyError::Input(format!("{}: {place}{error}", name(file)));
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
        self.check_simulation().map_err(|problem| StudyError::Input(format!("{}: {problem}", name(file))))?;
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
pub struct GivenRinglet(pub Ringlet);

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
pub fn name(file: &Path) -> String {
    if file.as_os_str() == "-" { "standard input".to_owned() } else { file.display().to_string() }
}

/// Reads one JSON document from a file, or standard input where it is called `-`.
///
/// # Errors
/// What is wrong, with file, line and column.
pub fn read<T: DeserializeOwned>(file: &Path) -> Result<T, StudyError> {
    let name = name(file);
    let text = if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| StudyError::Input(format!("{name}: {error}")))?;
    serde_json::from_str(&text).map_err(|error| StudyError::Input(format!("{name}: {error}")))
}
