//! How much a channel may carry in a month, and how much it has carried.
//!
//! What it is: of each channel with a `quota` the bytes are counted that go and come, as its link has them (from the outer IP header on; handshakes
//! are not counted). Once they are as many as the quota, the channel is metered for the rest of the month, and both ends leave it to what has no other. A month begins
//! on the day `quota_day`, at midnight UTC.
//!
//! What was counted is kept between runs, in a file for each private key, once a minute and at the end. A process that is killed forgets a minute at most. A clock
//! that steps back to a former month begins none.
//!
//! | line | meaning |
//! |---|---|
//! | `fairspan usage 1` | what the file is |
//! | `used BYTES SINCE KEY NAME` | so many bytes went by the channel of this name to the peer with this key since that day |

use crate::config::{Interface, Quota};
use crate::day::Day;
use crate::secure::PublicKey;
use crate::state_file;
use crate::system::system;
use fairspan_core::units::{Span, Time};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const TITLE: &str = "fairspan usage 1";
/// How often what was counted is kept.
const KEEP_EVERY: Span = Span::from_secs(60);

/// What a channel has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) bytes: u64,
    /// Since the beginning of this day.
    pub(super) since: Day,
}

/// Of a peer with this key, the channel of this name.
pub(super) type Key = (PublicKey, String);

/// What all channels with a quota have carried.
#[derive(Default)]
pub(super) struct Quotas {
    used: BTreeMap<Key, Used>,
    /// Whether some was counted that is not kept yet, and when it was kept last.
    changed: bool,
    kept: Time,
    keeper: Option<Keeper>,
}

/// Where it is kept, and the thread that writes, since a slow disk must not hold up packets.
struct Keeper {
    file: PathBuf,
    writer: Option<(SyncSender<String>, JoinHandle<()>)>,
}

impl Quotas {
    /// Finds what former processes with the key of this interface have counted.
    pub(super) fn open(interface: &Interface, now: Time) -> Quotas {
        let Some(key) = &interface.private_key else { return Quotas::default() };
        let key: String = key.public_key().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let file = interface.state_dir.join(format!("{key}.usage"));
        let found = state_file::read(&file).and_then(|text| match text {
            Some(text) => parse(&text).ok_or_else(|| state_file::foreign("this is no usage")),
            None => Ok(BTreeMap::new()),
        });
        let used = found.unwrap_or_else(|error| {
            tracing::warn!(file = %file.display(), %error, "what channels have carried this month is lost");
            BTreeMap::new()
        });
        let writer = system().has_threads().then(|| start(file.clone())).flatten();
        Quotas { used, changed: false, kept: now, keeper: Some(Keeper { file, writer }) }
    }

    /// The channel of this name to the peer with this key carried `bytes` more; what it has carried this month.
    pub(super) fn add(&mut self, key: Key, quota: Quota, wall: Duration, bytes: u64) -> Used {
        let since = Day::of(wall).month_from(quota.day);
        let used = self.used.entry(key).or_default();
        if since > used.since {
            *used = Used { bytes: 0, since };
            self.changed = true;
        }
        used.bytes = used.bytes.saturating_add(bytes);
        self.changed |= bytes > 0;
        *used
    }

    /// What the channel of this name to the peer with this key has carried this month.
    pub(super) fn used(&self, key: PublicKey, name: &str) -> Option<Used> {
        self.used.get(&(key, name.to_owned())).copied()
    }

    /// Keeps what was counted, if that is due.
    pub(super) fn keep(&mut self, now: Time) {
        if !self.changed || now.since(self.kept) < KEEP_EVERY {
            return;
        }
        (self.changed, self.kept) = (false, now);
        let text = self.text();
        match &self.keeper {
            // While the last one is still being written, its turn comes again.
            Some(Keeper { writer: Some((writer, _)), .. }) => self.changed = writer.try_send(text).is_err(),
            Some(Keeper { file, .. }) => write(file, &text),
            None => {}
        }
    }

    fn text(&self) -> String {
        let line = |((key, name), used): (&Key, &Used)| format!("used {} {} {key} {name}\n", used.bytes, used.since);
        std::iter::once(format!("{TITLE}\n")).chain(self.used.iter().map(line)).collect()
    }
}

impl Drop for Quotas {
    fn drop(&mut self) {
        let text = self.text();
        let Some(Keeper { file, writer }) = self.keeper.take() else { return };
        if let Some((todo, thread)) = writer {
            drop(todo);
            let _ = thread.join();
        }
        if !self.used.is_empty() {
            write(&file, &text);
        }
    }
}

fn start(file: PathBuf) -> Option<(SyncSender<String>, JoinHandle<()>)> {
    let (todo, work) = sync_channel::<String>(1);
    let write_all = move || work.iter().for_each(|text| write(&file, &text));
    let thread = thread::Builder::new().name("usage".into()).spawn(write_all).ok()?;
    Some((todo, thread))
}

fn write(file: &Path, text: &str) {
    if let Err(error) = state_file::replace(file, text) {
        tracing::warn!(file = %file.display(), %error, "what channels carry is not kept");
    }
}

fn parse(text: &str) -> Option<BTreeMap<Key, Used>> {
    let mut lines = text.strip_suffix('\n')?.lines();
    if lines.next()? != TITLE {
        return None;
    }
    let entry = |line: &str| {
        let mut parts = line.strip_prefix("used ")?.splitn(4, ' ');
        let (bytes, since) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let key = parts.next()?.parse().ok()?;
        Some(((key, parts.next()?.to_owned()), Used { bytes, since }))
    };
    lines.map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::PrivateKey;
    use fairspan_core::units::Bytes;

    fn wall(days: u64) -> Duration {
        Duration::from_secs(days * 86_400 + 7)
    }

    fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (days, text) in [
            (0, "1970-01-01"),
            (31, "1970-02-01"),
            (789, "1972-02-29"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!((Day::of(wall(days)), Day::of(wall(days)).to_string()), (day(text), text.to_owned()));
        }
        for wrong in ["", "2026", "2026-13-01", "2026-00-01", "2026-01-00", "2026-01-32", "x-1-1"] {
            assert_eq!(wrong.parse::<Day>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn a_month_begins_on_the_day_that_the_contract_says() {
        for (today, first, since) in [
            ("2026-11-23", 1, "2026-11-01"),
            ("2026-11-01", 1, "2026-11-01"),
            ("2026-11-14", 15, "2026-10-15"),
            ("2026-11-15", 15, "2026-11-15"),
            ("2026-01-27", 28, "2025-12-28"),
            ("2024-03-01", 28, "2024-02-28"),
        ] {
            assert_eq!(day(today).month_from(first), day(since), "{today}, from the {first}.");
        }
    }

    #[test]
    fn what_was_carried_counts_over_restarts_until_the_month_ends_and_a_clock_that_steps_back_ends_none() {
        let folder = tempfile::tempdir().unwrap();
        let (private, peer) = (PrivateKey::from_bytes([1; 32]), PrivateKey::from_bytes([2; 32]).public_key());
        let file = folder.path().join("usage");
        let opened = || {
            let used = state_file::read(&file).unwrap().map(|text| parse(&text).unwrap()).unwrap_or_default();
            Quotas { used, keeper: Some(Keeper { file: file.clone(), writer: None }), ..Quotas::default() }
        };
        let quota = Quota { bytes: Bytes::new(1_000), day: 5 };
        let key = (peer, "an lte".to_owned());
        let mut quotas = opened();
        // 1972-02-29 and 03-04 are in the same month, 03-05 is not.
        assert_eq!(quotas.add(key.clone(), quota, wall(789), 300), Used { bytes: 300, since: day("1972-02-05") });
        quotas.add((private.public_key(), "other".into()), quota, wall(789), 1);
        drop(quotas);
        let mut quotas = opened();
        assert_eq!(quotas.used(peer, "an lte").map(|used| used.bytes), Some(300));
        assert_eq!(quotas.add(key.clone(), quota, wall(793), 800).bytes, 1_100);
        assert_eq!(quotas.add(key.clone(), quota, wall(794), 50), Used { bytes: 50, since: day("1972-03-05") });
        assert_eq!(quotas.add(key, quota, wall(100), 7), Used { bytes: 57, since: day("1972-03-05") });
        for wrong in ["", "x\n", "fairspan usage 1\nused 5\n", "fairspan usage 1\nused x 1972-02-29 k n\n"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
