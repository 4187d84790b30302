//! When a link counts as up or down.
//!
//! What it is: Linux's `updelay` and `downdelay` between what a link is and what it is taken for. A link that fails is
//! used for `downdelay` more, and a failure that is over before that is none. A link that is well again is used after
//! `updelay`, unless no link is used at all: then the first one that is well is, at once.
//!
//! Source: the Linux bonding documentation (`miimon`, `updelay`, `downdelay`, `arp_interval`, `arp_missed_max`, `arp_all_targets`), and
//! what a bond of Linux 6.1 does. Departures: delays are exact, not rounded down to multiples of `miimon`, because changes
//! are reported when they happen.
//!
//! | Linux | a bond towards a peer |
//! |---|---|
//! | `miimon`: the carrier is looked at | the operating system reports changes of the carrier; no time to choose |
//! | `arp_interval`: probes by ARP | the bond's heartbeats, at this interval, whether traffic flows or not |
//! | `arp_missed_max` | `missed_max`: a link is silent after `arp_interval` times this, and half an interval |
//!
//! Invariants: a link is used only as long as it is well, or for `downdelay`; while a link is well, some link is used.

use crate::options::{Kind, Table, Words, option, words};
use crate::set::LinkSet;
use crate::units::{ChannelId, Span, Time};
use alloc::vec::Vec;

/// What an Ethernet bond takes for a sign that a link works, where links are probed (`arp_interval`). An *answer* is one of a
/// target to a probe of that link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArpValidate {
    /// Any frame.
    None,
    /// Of the link in use an answer, of the others any frame.
    Active,
    /// Of the link in use any frame, of the others an answer.
    Backup,
    /// An answer.
    #[default]
    All,
    /// Any ARP packet.
    Filter,
    /// Of the link in use an answer, of the others any ARP packet.
    FilterActive,
    /// Of the link in use any ARP packet, of the others an answer.
    FilterBackup,
}

words!(ArpValidate {
    None = "none",
    Active = "active",
    Backup = "backup",
    All = "all",
    Filter = "filter",
    FilterActive = "filter_active",
    FilterBackup = "filter_backup",
});

impl ArpValidate {
    /// Whether a frame that is no answer is a sign: `is_arp`, an ARP packet; `active`, of the link in use.
    pub fn takes(self, is_arp: bool, active: bool) -> bool {
        let (validated, filtered) = match self {
            ArpValidate::None => (false, false),
            ArpValidate::Active => (active, false),
            ArpValidate::Backup => (!active, false),
            ArpValidate::All => (true, false),
            ArpValidate::Filter => (false, true),
            ArpValidate::FilterActive => (active, true),
            ArpValidate::FilterBackup => (!active, true),
        };
        !validated && (is_arp || !filtered)
    }
}

/// Of how many targets an Ethernet bond asks for answers, where it asks for such.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArpAllTargets {
    /// Of one.
    #[default]
    Any,
    /// Of each.
    All,
}

words!(ArpAllTargets { Any = "any", All = "all" });

/// How links are supervised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Zero: a link without carrier is used all the same. Any other time (default 100 ms): it is not, as soon as the system
    /// says so.
    pub miimon: Span,
    /// How long a link must be well before it is used again. Default zero.
    pub updelay: Span,
    /// How long a link that failed is still used. Default zero.
    pub downdelay: Span,
    /// How often links are probed; zero (the default): the bond's own defaults.
    pub arp_interval: Span,
    /// Probes without an answer until a link counts as down. Default 2.
    pub missed_max: u16,
    /// What an Ethernet bond takes for a sign that a probed link works. Default all.
    pub arp_validate: ArpValidate,
    /// Of how many of an Ethernet bond's targets. Default any.
    pub arp_all_targets: ArpAllTargets,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            miimon: Span::from_millis(100),
            updelay: Span::ZERO,
            downdelay: Span::ZERO,
            arp_interval: Span::ZERO,
            missed_max: 2,
            arp_validate: ArpValidate::All,
            arp_all_targets: ArpAllTargets::Any,
        }
    }
}

/// The options, of every policy.
pub const OPTIONS: Table<Config> = Table(&[
    option!(miimon: Kind::Span(Span::ZERO, Span::from_secs(60), None), "of an Ethernet bond, 0: a link without carrier is used all the same; else it is not, from the moment that the system says so, whatever time this is"),
    option!(updelay: Kind::Span(Span::ZERO, Span::from_secs(600), None), "how long a link must be well before it is used again"),
    option!(downdelay: Kind::Span(Span::ZERO, Span::from_secs(600), None), "how long a link that failed is still used"),
    option!(arp_interval: Kind::Span(Span::ZERO, Span::from_secs(60), None), "how often links are probed: by the bond's own probes towards a peer, by ARP from an Ethernet bond; 0: the bond's defaults"),
    option!(missed_max: Kind::Count(1, 255, None), "probes without an answer until a link counts as down"),
    option!(arp_validate: Kind::Choice(ArpValidate::WORDS), "what an Ethernet bond takes for a sign that a probed link works: an answer to that link's own probe (all), any ARP packet (filter) or any frame (none) that it receives; active, backup and what begins with filter_ ask for answers of the link in use, or of the others"),
    option!(arp_all_targets: Kind::Choice(ArpAllTargets::WORDS), "where an Ethernet bond asks for answers to probes: whether any one of its targets has to answer on a link, or all of them"),
]);

impl Config {
    /// After how much silence a link counts as down, where links are probed: Linux gives the last probe half an
    /// interval more.
    pub fn silence(&self) -> Option<Span> {
        let interval = self.arp_interval;
        let half = Span::from_nanos(interval.as_nanos() / 2);
        (interval > Span::ZERO).then(|| interval.times(u64::from(self.missed_max)) + half)
    }
}

/// Decides which links are used, from which are well.
#[derive(Clone, Debug)]
pub struct Supervisor {
    config: Config,
    usable: LinkSet,
    /// Of each link since when it is otherwise than it is taken for.
    since: Vec<Option<Time>>,
}

impl Supervisor {
    /// With these settings; no link is used yet.
    pub fn new(config: Config) -> Supervisor {
        Supervisor { config, usable: LinkSet::EMPTY, since: Vec::new() }
    }

    /// The links that are used.
    pub fn usable(&self) -> LinkSet {
        self.usable
    }

    /// At `now` the bond's links are `members`, of which `well` are well. Returns the links that are used. To be called
    /// when something has changed, and at [`Supervisor::poll_timeout`].
    pub fn observe(&mut self, now: Time, members: LinkSet, well: LinkSet) -> LinkSet {
        let well = well & members;
        self.usable &= members;
        self.since.resize(self.since.len().max(members.end()), None);
        for (n, since) in self.since.iter_mut().enumerate() {
            let link = ChannelId(n as u8);
            let (is_well, is_used) = (well.contains(link), self.usable.contains(link));
            if is_well == is_used || !members.contains(link) {
                *since = None;
                continue;
            }
            let delay = if is_well { self.config.updelay } else { self.config.downdelay };
            if now.since(*since.get_or_insert(now)) >= delay {
                *since = None;
                self.usable = if is_well { self.usable.with(link) } else { self.usable.without(link) };
            }
        }
        if self.usable.is_empty()
            && let Some(first) = well.first()
        {
            self.usable = LinkSet::only(first);
            self.since[first.index()] = None;
        }
        self.usable
    }

    /// When [`Supervisor::observe`] may have another answer although nothing has changed.
    pub fn poll_timeout(&self) -> Option<Time> {
        let due = self.since.iter().enumerate().filter_map(|(n, since)| {
            let used = self.usable.contains(ChannelId(n as u8));
            Some((*since)? + if used { self.config.downdelay } else { self.config.updelay })
        });
        due.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(mask: u64) -> LinkSet {
        (0..8).filter(|n| mask >> n & 1 == 1).map(ChannelId).collect()
    }

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn a_link_is_used_and_left_after_its_delays_and_the_first_that_is_well_at_once() {
        let config = Config { updelay: Span::from_millis(30), downdelay: Span::from_millis(20), ..Config::default() };
        let mut supervisor = Supervisor::new(config);
        // One has to carry what there is; the other waits.
        assert_eq!(supervisor.observe(at(0), links(0b11), links(0b11)), links(0b01));
        assert_eq!((supervisor.usable(), supervisor.poll_timeout()), (links(0b01), Some(at(30))));
        assert_eq!(supervisor.observe(at(29), links(0b11), links(0b11)), links(0b01));
        assert_eq!(supervisor.observe(at(30), links(0b11), links(0b11)), links(0b11));
        assert_eq!(supervisor.poll_timeout(), None);
        // It is used still, though not well; well again in time, it counts from the next failure.
        assert_eq!(supervisor.observe(at(100), links(0b11), links(0b01)), links(0b11));
        assert_eq!(supervisor.poll_timeout(), Some(at(120)));
        assert_eq!(supervisor.observe(at(119), links(0b11), links(0b11)), links(0b11));
        assert_eq!(supervisor.observe(at(130), links(0b11), links(0b01)), links(0b11));
        assert_eq!(supervisor.observe(at(149), links(0b11), links(0b01)), links(0b11));
        assert_eq!(supervisor.observe(at(150), links(0b11), links(0b01)), links(0b01));
        // No member, it is not used, whoever says that it is well; and where none is left, another takes over at once.
        assert_eq!(supervisor.observe(at(160), links(0b10), links(0b11)), links(0b10));
        assert_eq!(supervisor.observe(at(200), links(0b10), links(0b01)), links(0b10));
        assert_eq!(supervisor.observe(at(220), links(0b10), links(0b01)), links(0));
    }

    #[test]
    fn silence_is_half_an_interval_longer_than_the_probes_that_may_go_unanswered() {
        let of =
            |ms, missed_max| Config { arp_interval: Span::from_millis(ms), missed_max, ..Config::default() }.silence();
        assert_eq!((of(100, 2), of(100, 1)), (Some(Span::from_millis(250)), Some(Span::from_millis(150))));
        assert_eq!(of(0, 2), None);
    }

    #[test]
    fn what_is_taken_for_a_sign_besides_answers_is_by_the_word() {
        // Of the link in use: any frame, ARP alone; of another one the same.
        for (word, expected) in [
            (ArpValidate::None, [true, true, true, true]),
            (ArpValidate::Active, [false, false, true, true]),
            (ArpValidate::Backup, [true, true, false, false]),
            (ArpValidate::All, [false, false, false, false]),
            (ArpValidate::Filter, [false, true, false, true]),
            (ArpValidate::FilterActive, [false, false, false, true]),
            (ArpValidate::FilterBackup, [false, true, false, false]),
        ] {
            let takes = [(false, true), (true, true), (false, false), (true, false)];
            assert_eq!(takes.map(|(is_arp, active)| word.takes(is_arp, active)), expected, "{word:?}");
        }
    }
}
