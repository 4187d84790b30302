//! The history of links: 1 s for an hour, 10 s for a day, 5 min for a year, kept across restarts in a file of bounded size.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | links and their rings, when they are stored, what is told of them |
//! | `record` | one link in one slot of time |
//! | `ring` | the slots of one length |
//! | `file` | where they lie between runs |
//!
//! What is not stored yet is in memory, and goes to the file once a minute. So a daemon that is killed leaves a gap of a minute at
//! most. Where the disk is full, read-only or broken, the history goes on in memory, says so, and tries again each minute.

mod file;
mod record;
mod ring;

use crate::folders;
use crate::links::LinkReading;
use file::{REGIONS, Region, Store, Stored};
use record::Means;
use ring::{LEVELS, Ring};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Seconds between two times at which what is new goes to the file.
const STORE_EVERY: u64 = 60;
/// Longest gap between two looks that counts as seen, in seconds: one may be late, and lies between two whole seconds.
const BRIDGED: u64 = 3;

/// The history of a daemon's links.
#[derive(Debug)]
pub(super) struct History {
    path: PathBuf,
    store: Option<Store>,
    /// Why nothing is stored, and since when.
    problem: Option<(String, u64)>,
    links: Vec<Link>,
    /// Links beyond the bound, of which nothing is kept.
    without: usize,
    last: u64,
    stored: u64,
}

#[derive(Debug)]
struct Link {
    region: Region,
    /// The file has a region for it, in its place.
    is_stored: bool,
    rings: [Ring; LEVELS.len()],
}

/// What is told of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Kept {
    /// The file.
    file: String,
    /// Why it is not kept there, if so.
    problem: Option<String>,
    /// Since when.
    since: Option<u64>,
    /// Links that have no history, as there are too many.
    without: usize,
}

impl Link {
    fn new(region: Region, is_stored: bool) -> Link {
        Link { region, is_stored, rings: LEVELS.map(Ring::new) }
    }
}

/// The link as the history knows it.
fn name(link: &LinkReading) -> String {
    format!("{}\n{}", link.of, link.name)
}

/// Whose a link with this name is.
fn owner(name: &str) -> &str {
    name.split_once('\n').map_or(name, |(of, _)| of)
}

fn means(link: &LinkReading) -> Means {
    Means {
        sent: link.sent_mbit.unwrap_or(0.0) as f32,
        received: link.received_mbit.unwrap_or(0.0) as f32,
        delay: link.delay_ms.map(|ms| ms as f32),
        loss: link.loss.map(|share| share as f32),
        queue: link.queue_ms.map(|ms| ms as f32),
        up: f32::from(u8::from(link.up)),
    }
}

impl History {
    /// Begins with what is in the file; `now` in seconds since 1970.
    pub(super) fn open(path: &Path, now: u64) -> History {
        let mut history = History {
            path: path.to_owned(),
            store: None,
            problem: None,
            links: Vec::new(),
            without: 0,
            last: 0,
            // A disk without room is told of at once.
            stored: 0,
        };
        history.reopen(now);
        history
    }

    /// Opens the file, unless it is open; what is in it comes before the links that are known already.
    fn reopen(&mut self, now: u64) {
        if self.store.is_some() {
            return;
        }
        let _ = folders::make(folders::of(&self.path), 0o700);
        match Store::open(&self.path) {
            Ok((store, regions)) => {
                let new = std::mem::take(&mut self.links);
                self.links = regions.into_iter().map(|region| Link::new(region, true)).collect();
                for (number, link) in self.links.iter_mut().enumerate() {
                    for (level, ring) in link.rings.iter_mut().enumerate() {
                        ring.load(&Stored { store: Some(&store), region: number, level });
                    }
                }
                // What was seen before the file could be opened is not in it.
                for link in new {
                    let same = self.links.iter().position(|known| known.region.link == link.region.link);
                    let Some(region) = same else {
                        self.links.push(Link { is_stored: false, ..link });
                        continue;
                    };
                    for (level, (own, theirs)) in self.links[region].rings.iter_mut().zip(link.rings).enumerate() {
                        own.absorb(theirs, &Stored { store: Some(&store), region, level });
                    }
                }
                self.links.truncate(REGIONS);
                self.store = Some(store);
                if self.problem.take().is_some() {
                    tracing::info!(file = %self.path.display(), "the history of links is kept on the disk");
                }
            }
            Err(error) => self.trouble(now, &error.to_string()),
        }
    }

    fn trouble(&mut self, now: u64, problem: &str) {
        match &self.problem {
            Some((before, _)) if before == problem => {}
            _ => {
                tracing::warn!(file = %self.path.display(), problem, "the history of links is not kept on the disk");
                self.problem = Some((problem.to_owned(), now));
            }
        }
    }

    /// The place of a link, where it has one.
    fn known(&self, name: &str) -> Option<usize> {
        self.links.iter().position(|link| link.region.link == name)
    }

    /// A place for a link that has none. Where all are taken, what is not there any more gives way, the oldest first; and else a link of the
    /// peer that has the most places, if its own has fewer, so that no peer takes all of them.
    fn place(&mut self, name: &str, now: u64) -> Option<usize> {
        let region = Region { link: name.to_owned(), seen: now };
        let unused = self.links.iter().position(|link| link.region.link.is_empty());
        if unused.is_none() && self.links.len() < REGIONS {
            self.links.push(Link::new(region, false));
            return Some(self.links.len() - 1);
        }
        // A clock may have been set back since.
        let gone = |link: &Link| link.region.seen.abs_diff(now) > STORE_EVERY;
        let oldest = (0..self.links.len()).filter(|place| gone(&self.links[*place]));
        let oldest = oldest.min_by_key(|place| self.links[*place].region.seen);
        let place = unused.or(oldest).or_else(|| self.of_the_greediest(owner(name)))?;
        self.links[place] = Link::new(region, false);
        Some(place)
    }

    /// The last place of who has the most, where that is at least two more than `who` has.
    fn of_the_greediest(&self, who: &str) -> Option<usize> {
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        self.links.iter().for_each(|link| *places.entry(owner(&link.region.link)).or_default() += 1);
        let of = |who: &str| places.get(who).copied().unwrap_or_default();
        // The last of equals.
        let place = (0..self.links.len()).max_by_key(|place| of(owner(&self.links[*place].region.link)))?;
        (of(owner(&self.links[place].region.link)) > of(who) + 1).then_some(place)
    }

    /// Adds what was seen at `now`; gives the places at which the links are asked for.
    pub(super) fn add(&mut self, now: u64, seen: &[LinkReading]) -> Vec<Option<usize>> {
        let first = if self.last < now && now - self.last <= BRIDGED { self.last + 1 } else { now };
        self.without = 0;
        // Those that are there give way to no other.
        let known: Vec<Option<usize>> = seen.iter().map(|link| self.known(&name(link))).collect();
        known.iter().flatten().for_each(|place| self.links[*place].region.seen = now);
        for link in seen.iter().zip(&known).filter_map(|(link, known)| known.is_none().then_some(link)) {
            self.place(&name(link), now);
        }
        let mut places = Vec::with_capacity(seen.len());
        for link in seen {
            let place = self.known(&name(link));
            places.push(place);
            let Some(place) = place else {
                self.without += 1;
                continue;
            };
            let History { links, store, last, .. } = self;
            let known = &mut links[place];
            known.region.seen = now;
            let store = store.as_ref().filter(|_| known.is_stored);
            let means = means(link);
            // A second look within one second adds nothing, nor does the first one at a link, of which no rate is known.
            let is_known = link.sent_mbit.is_some() || link.received_mbit.is_some() || !link.up;
            for second in (first..=now).filter(|second| is_known && second != last) {
                for (level, ring) in known.rings.iter_mut().enumerate() {
                    ring.add(second, &means, &Stored { store, region: place, level });
                }
            }
        }
        self.last = now;
        if now.abs_diff(self.stored) >= STORE_EVERY {
            self.store(now);
        }
        places
    }

    /// Brings to the file what is not in it yet.
    pub(super) fn store(&mut self, now: u64) {
        self.stored = now;
        self.reopen(now);
        let History { links, store: Some(store), .. } = self else { return };
        let written = links.iter_mut().enumerate().try_for_each(|(place, link)| {
            if link.is_stored {
                store.name(place, &link.region)?;
            } else {
                store.take(place, &link.region)?;
                link.is_stored = true;
            }
            link.rings
                .iter_mut()
                .enumerate()
                .try_for_each(|(level, ring)| ring.store(|page, bytes| store.write_level(place, level, page, bytes)))
        });
        match written {
            Ok(()) => {
                if self.problem.take().is_some() {
                    tracing::info!(file = %self.path.display(), "the history of links is kept on the disk again");
                }
            }
            Err(error) => self.trouble(now, &error.to_string()),
        }
    }

    /// What there is to tell of it.
    pub(super) fn kept(&self) -> Kept {
        Kept {
            file: self.path.display().to_string(),
            problem: self.problem.as_ref().map(|(problem, _)| problem.clone()),
            since: self.problem.as_ref().map(|(_, since)| *since),
            without: self.without,
        }
    }

    /// The history of the link at `place`, in at most `points` steps of equal length until `now`: a document of JSON. `None` where
    /// there is no such link, or no such span.
    pub(super) fn document(&self, place: usize, span: &str, points: u64, now: u64) -> Option<String> {
        let link = self.links.get(place)?;
        let number = LEVELS.iter().position(|level| level.name == span)?;
        let ring = &link.rings[number];
        let (level, window) = (ring.level(), ring.window(now));
        let joined = level.slots.div_ceil(points.max(1));
        // Steps begin at multiples of their length, so that they stay the same while time goes on.
        let first = window.start.next_multiple_of(joined);
        let stored = Stored { store: self.store.as_ref().filter(|_| link.is_stored), region: place, level: number };
        let mut steps: Vec<Option<(Means, f32)>> = Vec::new();
        let mut count = 0;
        ring.each(first..window.end, &stored, |known| {
            if count % joined == 0 {
                steps.push(None);
            }
            count += 1;
            let (Some((means, share)), Some(step)) = (known, steps.last_mut()) else { return };
            *step = Some(match step {
                Some((before, weight)) => (before.mixed(*weight, &means, share), *weight + share),
                None => (means, share),
            });
        });
        Some(columns(&steps, first * level.step, joined * level.step))
    }
}

/// Steps as columns of JSON.
fn columns(steps: &[Option<(Means, f32)>], from: u64, step: u64) -> String {
    type Column = fn(&Means) -> Option<f32>;
    let all: [(&str, Column); 6] = [
        ("sent", |means| Some(means.sent)),
        ("received", |means| Some(means.received)),
        ("delay", |means| means.delay),
        ("loss", |means| means.loss),
        ("queue", |means| means.queue),
        ("up", |means| Some(means.up)),
    ];
    let mut text = format!("{{\"from\":{from},\"step\":{step}");
    for (name, column) in all {
        let _ = write!(text, ",\"{name}\":[");
        for (number, known) in steps.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let value = known.as_ref().and_then(|(means, _)| column(means));
            let _ = match value {
                Some(value) => write!(text, "{comma}{}", rounded(value)),
                None => write!(text, "{comma}null"),
            };
        }
        text.push(']');
    }
    text.push('}');
    text
}

/// With four digits.
fn rounded(value: f32) -> f32 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f32.powi(3 - value.abs().log10().floor() as i32);
    if scale.is_finite() && scale > 0.0 { (value * scale).round() / scale } else { value }
}

#[cfg(test)]
mod tests;
