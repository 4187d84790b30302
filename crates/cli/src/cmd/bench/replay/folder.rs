//! The folder of recordings: what each file has, and the part of it that is replayed.

use crate::exit::BadInput;
use crate::measure::median;
use anyhow::Result;
use fairspan_core::link::{Blank, Capacity, CapacityError, Profile, Series};
use fairspan_core::units::{Rate, Span};
use std::fs;
use std::path::{Path, PathBuf};

/// How long each link carries its mean rate before the series begin, and when in that time the connection begins.
pub(super) const LEAD: Span = Span::from_secs(15);
pub(super) const CONNECTS: Span = Span::from_secs(10);
/// Most bytes that TCP's sockets buffer.
pub(super) const BUFFER: u64 = 32 << 20;
/// What a full Ethernet frame carries of plain TCP's data: 1500 bytes less IPv4's and TCP's headers with timestamps.
pub(super) const PLAIN_SHARE: f64 = (1500.0 - 52.0) / 1514.0;
/// The delay of a link of which no round trips were recorded, one way, and by how much each further one is longer.
const DELAY: Span = Span::from_millis(20);
const FURTHER: Span = Span::from_millis(10);
/// How far round trips may be from capacities in time, in seconds.
const NEAR: i64 = 3600;
/// Most links.
const MOST: usize = 32;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// Only files of these names, if there are any.
    pub(super) only: &'a [String],
    pub(super) from: Span,
    pub(super) length: Span,
    /// What capacities are multiplied by.
    pub(super) scale: f64,
}

/// What a folder has.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) recordings: Vec<Recording>,
    /// What was left out, and why.
    pub(super) notes: Vec<String>,
}

/// Capacities of several networks at the same time.
#[derive(Clone, Debug)]
pub(super) struct Recording {
    /// The file's, without its ending.
    pub(super) name: String,
    pub(super) links: Vec<Track>,
    /// How long the part is that is replayed.
    pub(super) length: Span,
}

/// One of the networks.
#[derive(Clone, Debug)]
pub(super) struct Track {
    /// The column's heading without its unit.
    pub(super) name: String,
    /// The part that is replayed.
    pub(super) series: Series,
    /// One way.
    pub(super) delay: Span,
}

impl Recording {
    /// What all carry together of application data, of which a full frame carries `share`, in Mbit/s.
    pub(super) fn capacity(&self, share: f64) -> f64 {
        self.links.iter().map(Track::mbit).sum::<f64>() * share
    }

    /// The link that carries most over the whole time, and what it carries of plain TCP's data, in Mbit/s.
    pub(super) fn best(&self) -> (&str, f64) {
        let best = self.links.iter().max_by(|a, b| a.mbit().total_cmp(&b.mbit()));
        best.map_or(("", 0.0), |best| (&best.name, best.mbit() * PLAIN_SHARE))
    }
}

impl Track {
    /// Its mean rate.
    fn mbit(&self) -> f64 {
        self.series.mean().as_bits_per_sec() as f64 / 1e6
    }

    /// For emulator and simulator: its mean rate for a time of `lead`, and then the part.
    pub(super) fn profile(&self, lead: Span) -> Profile {
        let capacity = Capacity::Series(self.series.after(self.series.mean(), lead));
        Profile { capacity, delay: self.delay, ..Profile::default() }
    }
}

/// A file of round trips: its name, and of each network the median, in milliseconds.
type Trips = (String, Vec<(String, f64)>);

/// Reads the folder.
///
/// # Errors
/// What is wrong, with file and line, and what would be right.
pub(super) fn read(folder: &Path, wanted: &Wanted<'_>) -> Result<Folder> {
    let (mut texts, mut trips, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for path in files(folder)? {
        let file = path.display().to_string();
        let text = fs::read_to_string(&path).map_err(|error| BadInput(format!("{file}: {error}")))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match unit(&file, &text)? {
            Unit::Mbit => texts.push((file, name, text)),
            Unit::Millis => trips.push((name, medians(&file, &text)?)),
        }
    }
    let known: Vec<&str> = texts.iter().map(|(_, name, _)| name.as_str()).collect();
    if let Some(unknown) = wanted.only.iter().find(|name| !known.contains(&name.as_str())) {
        let trip =
            if trips.iter().any(|(name, _)| name == unknown) { "; it has round trips and no capacities" } else { "" };
        let all = known.join(", ");
        return Err(BadInput(format!(
            "--only {unknown}: {} has no such capacities{trip}; it has {all}",
            folder.display()
        ))
        .into());
    }
    if texts.is_empty() {
        let problem = "no CSV file in it has capacities: seconds, then columns NAME_mbps";
        return Err(BadInput(format!("{}: {problem}", folder.display())).into());
    }
    if !trips.is_empty() {
        notes.push(format!(
            "{} file(s) of round trips: no capacities; they give the delays of capacities of the same set within an hour",
            trips.len()
        ));
    }
    let mut recordings = Vec::new();
    for (file, name, text) in texts {
        if wanted.only.is_empty() || wanted.only.contains(&name) {
            let near = nearest(&name, &trips);
            recordings.extend(recording(&file, name, &text, near, wanted, &mut notes)?);
        }
    }
    if recordings.is_empty() {
        return Err(BadInput(format!("nothing to replay: {}", notes.join("; "))).into());
    }
    Ok(Folder { recordings, notes })
}

/// The CSV files in `folder`, by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>, BadInput> {
    let wrong = |problem: &str| BadInput(format!("{}: {problem}; name a folder of CSV files", folder.display()));
    let entries = fs::read_dir(folder).map_err(|error| wrong(&error.to_string()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| wrong(&error.to_string()))?.path();
        if path.extension().is_some_and(|ending| ending == "csv") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() { Err(wrong("no file in it ends in .csv")) } else { Ok(files) }
}

/// What the columns of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Mbit,
    Millis,
}

fn unit(file: &str, text: &str) -> Result<Unit, BadInput> {
    let wrong = |problem: String| {
        BadInput(format!(
            "{file}:1: {problem}; the first line names the time and then each network, as t_s,one_mbps,two_mbps"
        ))
    };
    let units: Vec<Option<Unit>> = Series::columns(text)
        .map(|heading| match heading.rsplit_once('_').map_or(heading, |(_, unit)| unit) {
            "mbps" | "mbit" => Some(Unit::Mbit),
            "ms" => Some(Unit::Millis),
            _ => None,
        })
        .collect();
    if units.len() > MOST {
        return Err(wrong(format!("{} columns; at most {MOST} are replayed", units.len())));
    }
    if let Some((heading, _)) = Series::columns(text).zip(&units).find(|(_, unit)| unit.is_none()) {
        return Err(wrong(format!("column `{heading}` is not in Mbit/s (NAME_mbps)")));
    }
    match units.first() {
        Some(&Some(first)) if units.iter().all(|unit| *unit == Some(first)) => Ok(first),
        Some(_) => Err(wrong("some columns are in Mbit/s and some in milliseconds".into())),
        None => Err(wrong("no column beside the time".into())),
    }
}

/// A heading without its unit.
fn network(heading: &str) -> &str {
    let heading = heading.rsplit_once('_').map_or(heading, |(name, _)| name);
    heading.strip_suffix("_rtt").unwrap_or(heading)
}

/// The median of each column of a file of round trips, in milliseconds.
fn medians(file: &str, text: &str) -> Result<Vec<(String, f64)>, BadInput> {
    let mut columns: Vec<(String, Vec<f64>)> =
        Series::columns(text).map(|heading| (network(heading).to_owned(), Vec::new())).collect();
    for (number, line) in text.lines().enumerate().skip(1) {
        for (field, (_, trips)) in line.split(',').map(str::trim).skip(1).zip(&mut columns) {
            match field.parse::<f64>() {
                Ok(ms) if (0.0..=1e6).contains(&ms) => trips.push(ms),
                _ if field.is_empty() => {}
                _ => {
                    let expected = "a round trip in milliseconds, or nothing";
                    return Err(BadInput(format!("{file}:{}: found `{field}`, expected {expected}", number + 1)));
                }
            }
        }
    }
    Ok(columns.into_iter().filter_map(|(name, trips)| Some((name, median(&trips)?))).collect())
}

/// The part of one file that is wanted; `None`, and a note, where there is none.
fn recording(
    file: &str,
    name: String,
    text: &str,
    trips: Option<&Trips>,
    wanted: &Wanted<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<Recording>> {
    let mut recording = Recording { name, links: Vec::new(), length: Span::ZERO };
    for (place, heading) in Series::columns(text).enumerate() {
        // By its place: headings may be there twice.
        let column = (place + 1).to_string();
        let whole = match Series::parse_csv(file, text, &column, Blank::Dead) {
            Ok(whole) => whole,
            Err(CapacityError::Nothing { .. }) => {
                notes.push(format!("{file}: nothing ever passed on {heading}, which is left out"));
                continue;
            }
            Err(error) => return Err(BadInput(error.to_string()).into()),
        };
        if whole.period() <= wanted.from {
            notes.push(format!("{file} is over before --from {}: left out", wanted.from.as_secs_f64()));
            return Ok(None);
        }
        recording.length = wanted.length.min(whole.period() - wanted.from);
        let Some(series) = whole.part(wanted.from, wanted.length).and_then(|part| scaled(&part, wanted.scale)) else {
            notes.push(format!("{file}: nothing passes on {heading} in this time, and it is left out"));
            continue;
        };
        let network = network(heading);
        let trip = trips.and_then(|(_, medians)| medians.iter().find(|(name, _)| name == network));
        let delay = trip.map_or(DELAY + FURTHER.times(place as u64), |(_, ms)| Span::from_nanos((ms * 5e5) as u64));
        recording.links.push(Track { name: network.to_owned(), series, delay });
    }
    if recording.links.is_empty() {
        return Ok(None);
    }
    Ok(Some(recording))
}

fn scaled(series: &Series, factor: f64) -> Option<Series> {
    let scaled = |rate: Rate| Rate::from_bits_per_sec((rate.as_bits_per_sec() as f64 * factor).round() as u64);
    let steps = series.steps().iter().map(|(start, rate)| (*start, scaled(*rate))).collect();
    Series::new(steps, series.period()).ok()
}

/// The round trips of the same set that are nearest in time, if any are near.
fn nearest<'a>(name: &str, trips: &'a [Trips]) -> Option<&'a Trips> {
    let set = |name: &str| name.split('-').next().unwrap_or_default().to_owned();
    let now = moment(name)?;
    let away = |trips: &&Trips| moment(&trips.0).map(|at| (at - now).abs());
    trips
        .iter()
        .filter(|trips| set(&trips.0) == set(name) && away(trips).is_some_and(|away| away <= NEAR))
        .min_by_key(away)
}

/// The time in a file's name, as 20240527T154008, in seconds from any one moment on.
fn moment(name: &str) -> Option<i64> {
    let at = name.match_indices('T').map(|(at, _)| at).find(|at| {
        let digits = |range: std::ops::Range<usize>| {
            name.get(range).is_some_and(|part| part.len() >= 6 && part.bytes().all(|byte| byte.is_ascii_digit()))
        };
        *at >= 8 && digits(at - 8..*at) && digits(at + 1..at + 7)
    })?;
    let number = |range: std::ops::Range<usize>| name.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(at - 8..at - 4)?, number(at - 4..at - 2)?, number(at - 2..at)?);
    let (hour, minute, second) = (number(at + 1..at + 3)?, number(at + 3..at + 5)?, number(at + 5..at + 7)?);
    // Years begin in March, so that a leap day is their last (as in Fliegel and Van Flandern, 1968).
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Wanted<'static> = Wanted { only: &[], from: Span::ZERO, length: Span::from_secs(60), scale: 1.0 };

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    fn problem(files: &[(&str, &str)], wanted: &Wanted<'_>) -> String {
        let error = read(folder(files).path(), wanted).unwrap_err();
        assert!(error.is::<BadInput>(), "{error}");
        error.to_string()
    }

    #[test]
    fn a_blank_is_a_dead_link_and_the_part_that_is_wanted_is_what_counts() {
        let text = "t_s,one_mbps,two_mbit,three_mbps\n0,100,10,\n1,8,,\n2,4,4,\n";
        let folder = folder(&[("a.csv", text), ("notes.txt", "x"), ("b.csv", "t_s,one_mbps\n0,1\n")]);
        let found = read(folder.path(), &Wanted { from: Span::from_secs(1), scale: 0.5, ..ALL }).unwrap();
        assert_eq!(found.recordings.len(), 1);
        let a = &found.recordings[0];
        assert_eq!((a.name.as_str(), a.length, a.links.len()), ("a", Span::from_secs(2), 2));
        let capacity = (4.0 + 2.0) / 2.0 + (0.0 + 2.0) / 2.0;
        assert_eq!((a.capacity(1.0), a.capacity(0.5)), (capacity, capacity / 2.0));
        assert_eq!(a.best(), ("one", 3.0 * PLAIN_SHARE));
        assert_eq!(a.links.iter().map(|link| link.delay.as_nanos()).collect::<Vec<_>>(), [20_000_000, 30_000_000]);
        let Capacity::Series(series) = a.links[1].profile(Span::from_secs(5)).capacity else { panic!("a series") };
        let mbit: Vec<_> = series.steps().iter().map(|(at, rate)| (at.as_nanos() / 1_000_000_000, *rate)).collect();
        assert_eq!(mbit, [(0, Rate::from_mbit(1)), (5, Rate::from_mbit(0)), (6, Rate::from_mbit(2))]);
        assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
        assert!(found.notes[0].contains("three_mbps") && found.notes[1].contains("--from"), "{:?}", found.notes);
    }

    #[test]
    fn round_trips_of_the_same_set_and_hour_are_the_delays() {
        let capacities = "t_s,one_mbps,two_mbps\n0,5,5\n";
        let files = [
            ("x-20240229T235000Z_udp.csv", capacities),
            ("x-20240301T120000Z_udp.csv", capacities),
            ("x-20240301T000500Z_ping.csv", "t_s,one_rtt_ms\n0,30\n0.2,\n0.4,50\n0.6,70\n"),
            ("x-20240229T230000Z_ping.csv", "t_s,one_rtt_ms\n0,900\n"),
            ("y-20240229T235000Z_ping.csv", "t_s,one_rtt_ms\n0,900\n"),
        ];
        let found = read(folder(&files).path(), &ALL).unwrap();
        let delays: Vec<Vec<f64>> = found
            .recordings
            .iter()
            .map(|recording| recording.links.iter().map(|link| link.delay.as_secs_f64() * 1e3).collect())
            .collect();
        assert_eq!(delays, [[25.0, 30.0], [20.0, 30.0]]);
        assert!(found.notes[0].contains("3 file(s) of round trips"), "{:?}", found.notes);
        let only = ["x-20240229T230000Z_ping".to_owned()];
        assert!(problem(&files, &Wanted { only: &only, ..ALL }).contains("it has round trips"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_what_would_be_right() {
        let good = "t_s,one_mbps\n0,1\n1,2\n";
        let only = ["c".to_owned()];
        for (files, wanted, parts) in [
            (&[][..], &ALL, &["no file in it ends in .csv", "name a folder"][..]),
            (&[("a.csv", "")], &ALL, &["a.csv:1: no column beside the time", "t_s,one_mbps"]),
            (&[("a.csv", "t_s,one_kbps\n0,1\n")], &ALL, &["a.csv:1: column `one_kbps` is not in Mbit/s"]),
            (&[("a.csv", "t_s,one\n0,1\n")], &ALL, &["a.csv:1: column `one` is not in Mbit/s"]),
            (&[("a.csv", "t_s,a_mbps,a_rtt_ms\n0,1,1\n")], &ALL, &["a.csv:1: some columns"]),
            (&[("a.csv", "t_s,one_mbps\n0,1\n1,-2\n")], &ALL, &["a.csv:3", "-2", "zero or more"]),
            (&[("a.csv", "t_s,one_mbps\n0,NaN\n")], &ALL, &["a.csv:2", "NaN"]),
            (&[("a.csv", "t_s,one_mbps\n0,inf\n")], &ALL, &["a.csv:2", "inf"]),
            (&[("a.csv", "t_s,one_mbps\n0,1\nsoon,2\n")], &ALL, &["a.csv:3", "seconds in the first column"]),
            (&[("a.csv", "t_s,one_mbps\n1,1\n1,2\n")], &ALL, &["a.csv:3", "after that of the line before"]),
            (&[("a.csv", "t_s,one_mbps\n0,\n")], &ALL, &["nothing to replay", "one_mbps"]),
            (&[("a.csv", good), ("b.csv", "t_s,x_rtt_ms\n0,-1\n")], &ALL, &["b.csv:2", "-1", "milliseconds"]),
            (&[("b.csv", "t_s,x_rtt_ms\n0,1\n")], &ALL, &["no CSV file in it has capacities"]),
            (&[("a.csv", good)], &Wanted { only: &only, ..ALL }, &["--only c", "it has a"]),
            (&[("a.csv", good)], &Wanted { from: Span::from_secs(2), ..ALL }, &["nothing to replay", "--from 2"]),
        ] {
            let said = problem(files, wanted);
            assert!(parts.iter().all(|part| said.contains(part)), "{files:?}: {said}");
        }
        let missing = read(Path::new("/nonexistent"), &ALL).unwrap_err().to_string();
        assert!(missing.starts_with("/nonexistent: ") && missing.contains("name a folder"), "{missing}");
    }
}
