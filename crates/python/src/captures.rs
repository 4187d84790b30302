//! The flows of captures.

use crate::document::Node;
use crate::failure::{detached, input};
use crate::table::{Rows, Table};
use crate::watch::{Failure, fail};
use fairspan_core::flow::{Definition, Reading};
use fairspan_core::quantity::parse_span;
use fairspan_core::units::Span;
use fairspan_trace::capture::stream::{Format, Stream};
use fairspan_trace::flows::{Config, Flows};
use fairspan_trace::merged::{Merged, Next};
use pyo3::prelude::*;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Errors of one file that are told one by one.
const TOLD: usize = 3;
/// Packets between two looks at the clock.
const LOOK: u64 = 4096;

/// What was counted: packets, those that were classified, those that were skipped by reason, the table, and what could not be read.
type Counted = (u64, u64, Vec<(String, u64)>, Table, Vec<String>);

/// A file that a signal ends.
struct Watched<'a> {
    file: std::fs::File,
    failure: &'a Failure,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if signalled(self.failure) {
                        return Err(io::Error::other("interrupted"));
                    }
                }
                other => return other,
            }
        }
    }
}

/// Whether a signal's handler raised an exception.
fn signalled(failure: &Failure) -> bool {
    if let Err(error) = Python::attach(|py| py.check_signals()) {
        fail(failure, error);
    }
    failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// When a flow ends, as the command line takes it; `None`: never.
fn timeout(text: &str) -> PyResult<Option<Span>> {
    let span = match text {
        "none" => return Ok(None),
        number if number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => format!("{number}s"),
        other => other.to_owned(),
    };
    match parse_span(&span) {
        Ok(Span::ZERO) => Err(input(
            "timeout 0: flows then end when they have no packet inside a gateway; `fairspan trace flows` on the command line \
             simulates one",
        )),
        Ok(span) => Ok(Some(span)),
        Err(error) => Err(input(format!("timeout {text}: {error}, or `none`"))),
    }
}

/// What is to be counted, and how: a dictionary, with the names and the values of `fairspan trace flows`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Wanted {
    paths: Vec<PathBuf>,
    definitions: Vec<String>,
    timeouts: Vec<String>,
    headers: String,
    table_size: u32,
    most_flows: u32,
    seed: u64,
    format: Option<String>,
}

/// Counts the flows of captures.
#[pyfunction]
pub(crate) fn flows(py: Python<'_>, wanted: Wanted) -> PyResult<Counted> {
    let Wanted { paths, definitions, timeouts, headers, table_size, most_flows, seed, format } = wanted;
    let definition =
        |text: &String| text.parse::<Definition>().map_err(|error| input(format!("definition {text}: {error}")));
    let reading = match headers.as_str() {
        "plain" => Reading::Plain,
        "outer" => Reading::Outer,
        "inner" => Reading::Inner,
        other => return Err(input(format!("headers {other}: write plain, outer or inner"))),
    };
    for (name, value, most) in [("table_size", table_size, 1 << 26), ("most_flows", most_flows, 1 << 30)] {
        if !(1..=most).contains(&value) {
            return Err(input(format!("{name} {value}: write a number from 1 to {most}")));
        }
    }
    let format = format.map(|text| text.parse::<Format>().map_err(|error| input(format!("format {text}: {error}"))));
    let config = Config {
        definitions: definitions.iter().map(definition).collect::<PyResult<_>>()?,
        timeouts: timeouts.iter().map(|text| timeout(text)).collect::<PyResult<_>>()?,
        table_size,
        limit: most_flows as usize,
        reading,
        secret: RandomState::new().hash_one(std::process::id()),
        seed,
        ..Config::default()
    };
    let format = format.transpose()?;
    let failure = Failure::new(None);
    let counted = detached(py, || count(&paths, format, &config, &failure))?;
    if let Some(error) = failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    let (flows, problems) = counted.map_err(input)?;
    let tally = flows.tally();
    let skipped = tally.skipped().map(|(reason, packets)| (reason.name().to_owned(), packets)).collect();
    Ok((tally.packets, tally.classified, skipped, table(&flows)?, problems))
}

fn table(flows: &Flows) -> PyResult<Table> {
    let packets = flows.tally().packets;
    let mut rows = Rows::default();
    for row in flows.rows() {
        let counts = &row.counts;
        let whole = |value: u64| Node::Whole(value.into());
        rows.add(vec![
            ("definition".to_owned(), Node::Text(row.definition.to_string())),
            ("timeout_s".to_owned(), row.timeout.map_or(Node::Null, |span| Node::Real(span.as_secs_f64()))),
            ("flows".to_owned(), whole(counts.created)),
            ("max_active".to_owned(), whole(counts.most.into())),
            ("operations".to_owned(), whole(counts.created + counts.expired)),
            ("collisions".to_owned(), whole(counts.collisions)),
            ("hash_efficiency".to_owned(), Node::Real(row.hash_efficiency(packets))),
        ]);
    }
    rows.finish()
}

/// A capture that is open.
fn open<'a>(path: &Path, format: Option<Format>, failure: &'a Failure) -> Result<Stream<'a>, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    if file.metadata().is_ok_and(|about| about.is_dir()) {
        return Err("is a directory".to_owned());
    }
    Stream::open(Watched { file, failure }, &path.display().to_string(), format).map_err(|error| error.to_string())
}

fn count(
    paths: &[PathBuf],
    format: Option<Format>,
    config: &Config,
    failure: &Failure,
) -> Result<(Flows, Vec<String>), String> {
    let mut flows = Flows::new(config).map_err(|error| error.to_string())?;
    let mut merged = Merged::default();
    let mut problems = Vec::new();
    let mut captures = 0;
    for (number, path) in paths.iter().enumerate() {
        match open(path, format, failure) {
            Ok(stream) => {
                merged.add(number, stream);
                captures += 1;
            }
            Err(error) => problems.push(format!("{}: {error}", path.display())),
        }
    }
    if captures == 0 {
        return Err(problems.join("\n"));
    }
    let mut told = vec![0; paths.len()];
    let (mut packets, mut looked) = (0_u64, Instant::now());
    while let Some(next) = merged.poll() {
        match next {
            Next::Packet(packet) => flows.packet(&packet, &mut |_, _| {}),
            Next::Error(number, error) => {
                flows.unreadable(&error);
                told[number] += 1;
                if error.is_last() || (told[number] <= TOLD && error.loses_packets()) {
                    problems.push(format!("{}: {error}", paths[number].display()));
                }
            }
        }
        packets += 1;
        if packets.is_multiple_of(LOOK) && looked.elapsed() > Duration::from_millis(50) {
            looked = Instant::now();
            if signalled(failure) {
                break;
            }
        }
    }
    flows.finish(&mut |_, _| {});
    if flows.forgotten() > 0 {
        problems.push(format!(
            "{} flows ended early, because more than {} were active; with a larger most_flows all is exact",
            flows.forgotten(),
            config.limit
        ));
    }
    if merged.backwards() > 0 {
        problems.push(format!(
            "the clock steps back before {} packets; taken are the times before them",
            merged.backwards()
        ));
    }
    Ok((flows, problems))
}
