//! What happened, from one status to the next.
//!
//! A link, and all links of a peer together, are told of when they change, and not at first: where a daemon begins, all is down. What is down
//! [`GRACE`] after it was seen first is told of then.

use crate::links::links;
use crate::status::Status;
use serde::Serialize;
use std::collections::BTreeMap;

/// How long something may be down at first.
const GRACE: f64 = 30.0;
/// How long a bond must be slower, or as fast as before, until that counts.
const LASTS: f64 = 10.0;
/// What a bond was used to is half of that so many seconds later.
const FORGOTTEN: f64 = 6.0 * 3600.0;
/// Percents of a quota that are told of.
const LEVELS: [u64; 2] = [80, 100];
/// Most links that are watched.
const LINKS: usize = 1024;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Alarm {
    /// What, in a word that programs know.
    pub(super) event: &'static str,
    /// Whose: a peer's name, or what the daemon is.
    pub(super) of: Option<String>,
    /// The link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) link: Option<String>,
    /// The same for people.
    pub(super) text: String,
}

/// Whether something is up, as it was told.
#[derive(Debug)]
struct Told {
    first: f64,
    up: Option<bool>,
    seen: u64,
}

impl Told {
    /// Whether a change is to be told of.
    fn follow(&mut self, now: f64, up: bool) -> bool {
        match self.up {
            None if up => self.up = Some(true),
            None if now - self.first >= GRACE => {
                self.up = Some(false);
                return true;
            }
            None => {}
            Some(told) if told != up => {
                self.up = Some(up);
                return true;
            }
            Some(_) => {}
        }
        false
    }
}

/// What a bond carries.
#[derive(Debug)]
struct Speed {
    usual: f64,
    at: f64,
    /// Since when it is otherwise than it was told.
    since: Option<f64>,
    is_slow: bool,
}

impl Speed {
    /// `Some(true)`: it is slower, from now on; `Some(false)`: it is no more.
    fn follow(&mut self, now: f64, mbit: f64) -> Option<bool> {
        let passed = now - self.at;
        self.at = now;
        let other = match self.is_slow {
            // While it is slow, what it was used to stays.
            true => mbit >= 0.75 * self.usual,
            false => {
                self.usual = mbit.max(self.usual * 0.5_f64.powf(passed / FORGOTTEN));
                mbit < 0.5 * self.usual
            }
        };
        if !other {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(now);
        if now - since < LASTS {
            return None;
        }
        (self.since, self.is_slow) = (None, !self.is_slow);
        Some(self.is_slow)
    }
}

type Link = (String, String);

/// What was told.
#[derive(Debug, Default)]
pub(super) struct Watch {
    looks: u64,
    links: BTreeMap<Link, Told>,
    wholes: BTreeMap<String, Told>,
    speeds: BTreeMap<String, Speed>,
    quotas: BTreeMap<Link, u64>,
}

impl Watch {
    /// What happened since the last look; `now` is in seconds, from any beginning.
    pub(super) fn look(&mut self, now: f64, status: &Status) -> Vec<Alarm> {
        self.looks += 1;
        let mut alarms = Vec::new();
        let name = &status.interface;
        let rows = links(status);
        for row in rows.iter().take(LINKS).filter(|row| row.taken_out != Some(true)) {
            let told =
                self.links.entry((row.of.clone(), row.name.clone())).or_insert(Told { first: now, up: None, seen: 0 });
            told.seen = self.looks;
            if told.follow(now, row.up) {
                let why = row.note.as_ref().filter(|_| !row.up).map(|note| format!(": {note}")).unwrap_or_default();
                let (event, word) = if row.up { ("link_up", "up again") } else { ("link_down", "down") };
                let text = format!("{name}: link {} of {} is {word}{why}", row.name, row.of);
                alarms.push(Alarm { event, of: Some(row.of.clone()), link: Some(row.name.clone()), text });
            }
        }
        // Whether anything gets through; of a peer the bond says so, as channels of those who call come and go.
        let mut wholes: BTreeMap<&str, bool> = BTreeMap::new();
        for row in &rows {
            *wholes.entry(&row.of).or_default() |= row.up;
        }
        wholes.extend(status.peers.iter().map(|peer| (peer.name.as_str(), peer.up)));
        for (of, up) in wholes.into_iter().take(LINKS) {
            let told = self.wholes.entry(of.to_owned()).or_insert(Told { first: now, up: None, seen: 0 });
            told.seen = self.looks;
            if told.follow(now, up) {
                let (event, word) = match up {
                    true => ("links_back", "a link works again: all were down"),
                    false => ("all_links_down", "all links are down"),
                };
                alarms.push(Alarm {
                    event,
                    of: Some(of.to_owned()),
                    link: None,
                    text: format!("{name}: {of}: {word}"),
                });
            }
        }
        self.look_at_peers(now, status, &mut alarms);
        let looks = self.looks;
        self.links.retain(|_, told| told.seen == looks);
        self.wholes.retain(|_, told| told.seen == looks);
        alarms
    }

    /// What bonds carry, and quotas.
    fn look_at_peers(&mut self, now: f64, status: &Status, alarms: &mut Vec<Alarm>) {
        let name = &status.interface;
        let rows = links(status);
        self.speeds.retain(|of, _| status.peers.iter().any(|peer| peer.name == *of));
        for peer in status.peers.iter().take(LINKS) {
            let of = &peer.name;
            let up = rows.iter().filter(|row| row.of == *of && row.up);
            // Where one is not known, the sum is not.
            let sum: Option<f64> = up.map(|row| row.capacity_mbit).sum();
            if let Some(mbit) = sum.filter(|mbit| *mbit > 0.0 && peer.up) {
                let new = Speed { usual: mbit, at: now, since: None, is_slow: false };
                let speed = self.speeds.entry(of.clone()).or_insert(new);
                let usual = speed.usual;
                if let Some(is_slow) = speed.follow(now, mbit) {
                    let event = if is_slow { "bond_slower" } else { "bond_recovered" };
                    let word = if is_slow { "carries less than half" } else { "carries again what it did" };
                    let text = format!("{name}: the bond to {of} {word}: {mbit:.1} Mbit/s, usually {usual:.1}");
                    alarms.push(Alarm { event, of: Some(of.clone()), link: None, text });
                }
            }
            for channel in &peer.channels {
                let Some(quota) = channel.quota.as_ref().filter(|quota| quota.quota_bytes > 0) else { continue };
                let percent = quota.used_bytes.saturating_mul(100) / quota.quota_bytes;
                let level = LEVELS.into_iter().rev().find(|level| percent >= *level).unwrap_or(0);
                let link = (of.clone(), channel.name.clone());
                let before = self.quotas.insert(link, level);
                if before.is_some_and(|before| level > before) {
                    let text = format!("{name}: link {} of {of} has used {percent} % of its quota", channel.name);
                    let link = Some(channel.name.clone());
                    alarms.push(Alarm { event: "quota", of: Some(of.clone()), link, text });
                }
            }
        }
        let is_there = |(of, name): &Link| {
            status
                .peers
                .iter()
                .any(|peer| peer.name == *of && peer.channels.iter().any(|channel| channel.name == *name))
        };
        self.quotas.retain(|link, _| is_there(link));
    }
}

#[cfg(test)]
mod tests;
