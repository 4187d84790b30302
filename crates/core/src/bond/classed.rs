//! What the traffic classes of a bond hold: the packets that wait, the channels that may carry them, and counters.
//!
//! What it is: the table of classes ([`class`](super::class)) at work. A class that takes what the bond does by itself (mode `reliable`, no choice of
//! channels) has no queue here. Each other one has its own, so that what waits for a channel delays no other class. Flow buckets of
//! a class are its own too, behind those of what matches none, so that no call waits for a download with which it shares a bucket.
//!
//! Classes whose packets are not urgent, and what matches none, take turns where more than one of them could go: the one goes next that has sent the
//! fewest bytes. It counts as having sent at most [`LAG`] less than the one that has sent most, so that nobody saves up, and equal ones go in turn.
//! A class that is confined to one channel so has that channel before those that have others, up to an equal share of all.
//!
//! Cost: O(classes) a packet to find its class, and to find who goes next; nothing without classes. No allocation once queues have grown. Memory:
//! [`URGENT`] bytes of packets that are urgent, of others as much as
//! their channels carry in the host queue's time; of all together what the host queue leaves of its memory. Invariant: `urgent` and `bulk` have a bit for each class
//! of which packets wait.

use super::channel::bit;
use super::class::{ClassConfig, ClassMode, SPREAD};
use super::config::{Config, ConfigError};
use super::event::ClassStats;
use super::ledger::Ledger;
use super::queue::{HostQueue, Queued};
use crate::buffer::PolicyConfig;
use crate::flow::matching::Matcher;
use crate::ip::Header;
use crate::packet::Packet;
use crate::path::flight::Note;
use crate::queue::DisciplineConfig;
use crate::set::LinkSet;
use crate::units::{ChannelId, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Bytes of urgent packets of a class that may wait.
const URGENT: usize = 64 * 1024;
/// By how much who has sent least may be behind who has sent most.
const LAG: u64 = 64 * 1024;
/// Second and further frames that may wait for one channel.
const COPIES: usize = 1024;

/// What a class did and does.
#[derive(Clone, Copy, Debug)]
pub struct ClassReport<'a> {
    /// Its settings.
    pub config: &'a ClassConfig,
    /// Its counters.
    pub stats: ClassStats,
    /// The channels that carry it now.
    pub channels: LinkSet,
    /// How many of its frames went by each channel, by the channel's number.
    pub frames: &'a [u64],
}

/// When one of those goes that take turns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// Bytes that it has sent.
    sent: u64,
    /// When it went last, counted in turns.
    last: u64,
}

/// One class.
#[derive(Debug)]
pub(super) struct Class<P> {
    pub(super) config: ClassConfig,
    /// The channels that may carry it now.
    pub(super) carriers: u64,
    /// Since when none of the only channels works that may carry it.
    pub(super) down: Option<Time>,
    pub(super) queue: HostQueue<P>,
    /// The channel by which the last packet went.
    pub(super) by: Option<ChannelId>,
    /// When the first that waits may go, if it may not yet.
    pub(super) at: Option<Time>,
    turn: Turn,
    pub(super) stats: ClassStats,
    frames: Vec<u64>,
}

impl<P> Class<P> {
    /// Whether its packets go before others.
    pub(super) fn is_urgent(&self) -> bool {
        matches!(self.config.mode, ClassMode::Prompt | ClassMode::Duplicate)
    }

    /// Whether its packets wait here, and not with those that match no class.
    pub(super) fn has_queue(&self) -> bool {
        self.config.mode != ClassMode::Reliable || self.config.chooses()
    }
}

/// A packet that is to go by one more channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Another {
    pub(super) since: Time,
    pub(super) note: Note,
}

/// All classes.
#[derive(Debug)]
pub(super) struct Classed<P> {
    pub(super) all: Vec<Class<P>>,
    /// Which packets are of each: side by side, because every packet is looked at.
    matchers: Vec<Matcher>,
    /// The first flow bucket of the first class; above any where there is none.
    base: u32,
    /// The classes of which something waits: urgent packets, and others.
    pub(super) urgent: u64,
    pub(super) bulk: u64,
    /// Of what matches no class.
    rest: Turn,
    /// The most that any has sent, and how many turns there were.
    most: u64,
    turns: u64,
    /// By channel, what is to go there once more; and the channels for which there is something.
    copies: Vec<VecDeque<Another>>,
    pub(super) copying: u64,
    /// When one of those may go, if none may yet.
    pub(super) copies_at: Option<Time>,
}

impl<P: Packet> Classed<P> {
    /// The classes of `config`; `seed` keys the hash of a stochastic discipline.
    pub(super) fn new(config: &Config, seed: u64) -> Result<Classed<P>, ConfigError> {
        let class = |class: &ClassConfig| {
            let urgent = matches!(class.mode, ClassMode::Prompt | ClassMode::Duplicate);
            let mut queue = if urgent {
                HostQueue::new(DisciplineConfig::default(), PolicyConfig::default(), seed)
            } else {
                HostQueue::new(config.discipline, config.buffer, seed)
            }
            .map_err(ConfigError::Queue)?;
            queue.set_bounds(Some(URGENT), config.queue_bytes);
            Ok::<_, ConfigError>(Class {
                config: class.clone(),
                carriers: 0,
                down: class.only.then_some(Time::ZERO),
                queue,
                by: None,
                at: None,
                turn: Turn::default(),
                stats: ClassStats::default(),
                frames: Vec::new(),
            })
        };
        let all = config.classes.0.iter().map(class).collect::<Result<Vec<_>, _>>()?;
        Ok(Classed {
            base: if all.is_empty() { u32::MAX } else { config.buckets as u32 },
            all,
            matchers: config.classes.0.iter().map(ClassConfig::matcher).collect(),
            urgent: 0,
            bulk: 0,
            rest: Turn::default(),
            most: 0,
            turns: 0,
            copies: Vec::new(),
            copying: 0,
            copies_at: None,
        })
    }

    /// The class of a packet; `None`: it matches none.
    #[inline]
    pub(super) fn of(&self, header: &Header, bytes: &[u8]) -> Option<usize> {
        self.matchers.iter().position(|matcher| matcher.matches(header, bytes))
    }

    /// The flow bucket of a packet of `class` whose flow has the bucket `of_all` among all.
    pub(super) fn bucket(&self, class: usize, of_all: u16) -> u16 {
        // Settings are checked: there is room for the buckets of all classes.
        (self.base as usize + class * SPREAD + usize::from(of_all) % SPREAD) as u16
    }

    /// Whether a packet of `bucket` goes by several channels anyway.
    pub(super) fn is_copied(&self, bucket: u16) -> bool {
        let several = |class: &Class<P>| class.config.mode == ClassMode::Duplicate && class.carriers.count_ones() > 1;
        self.of_bucket(bucket).is_some_and(several)
    }

    /// The place of the class that a flow bucket is of.
    #[inline]
    pub(super) fn place_of(&self, bucket: u16) -> Option<usize> {
        Some(u32::from(bucket).checked_sub(self.base)? as usize / SPREAD)
    }

    /// The class that a flow bucket is of.
    #[inline]
    pub(super) fn of_bucket(&self, bucket: u16) -> Option<&Class<P>> {
        let place = u32::from(bucket).checked_sub(self.base)?;
        self.all.get(place as usize / SPREAD)
    }

    /// As [`Classed::of_bucket`].
    pub(super) fn of_bucket_mut(&mut self, bucket: u16) -> Option<&mut Class<P>> {
        let place = u32::from(bucket).checked_sub(self.base)?;
        self.all.get_mut(place as usize / SPREAD)
    }

    /// A frame with `size` bytes of a packet of `bucket` goes by `channel`; `again`: the packet went before.
    #[inline]
    pub(super) fn on_sent(&mut self, bucket: u16, channel: ChannelId, size: usize, again: bool) {
        if let Some(class) = self.of_bucket_mut(bucket) {
            if !again {
                class.stats.packets += 1;
                class.stats.bytes += size as u64;
            }
            if let Some(frames) = class.frames.get_mut(channel.index()) {
                *frames += 1;
            }
        }
    }

    /// There are so many channels.
    pub(super) fn extend(&mut self, channels: usize) {
        if !self.all.is_empty() {
            self.copies.resize_with(channels, VecDeque::new);
            self.all.iter_mut().for_each(|class| class.frames.resize(channels, 0));
        }
    }

    /// A packet of `class`, which has a queue; how many packets it cost.
    pub(super) fn offer(&mut self, class: usize, queued: Queued<P>, ledger: &mut Ledger) -> u64 {
        let Some(c) = self.all.get_mut(class) else { return 0 };
        let dropped = c.queue.offer(queued, ledger);
        c.stats.dropped += dropped;
        self.note(class);
        dropped
    }

    /// Something was put into the queue of `class`, or taken out of it.
    pub(super) fn note(&mut self, class: usize) {
        let c = &self.all[class];
        let set = if c.is_urgent() { &mut self.urgent } else { &mut self.bulk };
        let one = 1u64 << (class & 63);
        *set = if c.queue.is_empty() { *set & !one } else { *set | one };
    }

    /// Whether packets that are not urgent wait for `channel`.
    #[inline]
    pub(super) fn wait_for(&self, channel: ChannelId) -> bool {
        self.bulk != 0 && places(self.bulk).any(|n| self.all[n].carriers & bit(channel) != 0)
    }

    /// Bytes of packets that are not urgent, of classes that name no channels: whatever channel is in use may carry them.
    pub(super) fn bulk_for_any(&self) -> usize {
        let any = places(self.bulk).filter(|n| self.all[*n].config.channels.0.is_empty());
        any.map(|n| self.all[n].queue.bytes()).sum()
    }

    /// Which goes next of the classes `left` and of what matches none, if `rest`; `None`: none is left.
    pub(super) fn next(&self, left: u64, rest: bool) -> Option<Option<usize>> {
        let floor = self.most.saturating_sub(LAG);
        let key = |turn: Turn| (turn.sent.max(floor), turn.last);
        let classes = places(left).map(|n| (key(self.all[n].turn), Some(n)));
        let rest = rest.then_some((key(self.rest), None));
        classes.chain(rest).min().map(|(_, who)| who)
    }

    /// Who went next, with so many bytes.
    pub(super) fn on_turn(&mut self, who: Option<usize>, bytes: usize) {
        self.turns += 1;
        let floor = self.most.saturating_sub(LAG);
        let turn = match who {
            Some(class) => &mut self.all[class].turn,
            None => &mut self.rest,
        };
        *turn = Turn { sent: turn.sent.max(floor) + bytes as u64, last: self.turns };
        self.most = self.most.max(turn.sent);
    }

    /// A packet is to go by each of `channels` as well; how many have no room for that.
    pub(super) fn copy(&mut self, now: Time, note: Note, channels: u64) -> u64 {
        let mut skipped = 0;
        for n in places(channels) {
            match self.copies.get_mut(n).filter(|waiting| waiting.len() < COPIES) {
                Some(waiting) => {
                    waiting.push_back(Another { since: now, note });
                    self.copying |= 1 << n;
                }
                None => skipped += 1,
            }
        }
        skipped
    }

    /// The next that is to go by `channel` too.
    pub(super) fn next_copy(&mut self, channel: ChannelId) -> Option<Another> {
        let waiting = self.copies.get_mut(channel.index())?;
        let another = waiting.pop_front();
        if waiting.is_empty() {
            self.copying &= !bit(channel);
        }
        another
    }

    /// Only `usable` channels are sent on: how many copies that were for others are dropped.
    pub(super) fn forget_copies(&mut self, usable: u64) -> u64 {
        let mut dropped = 0;
        for n in places(self.copying & !usable) {
            dropped += self.copies[n].len() as u64;
            self.copies[n].clear();
        }
        self.copying &= usable;
        dropped
    }

    /// Memory that packets take.
    pub(super) fn memory(&self) -> usize {
        self.all.iter().map(|class| class.queue.memory()).sum()
    }

    /// When something of what waits may go.
    pub(super) fn ready_at(&self) -> Option<Time> {
        let classes = places(self.urgent | self.bulk).filter_map(|n| self.all[n].at);
        classes.chain(self.copies_at.filter(|_| self.copying != 0)).min()
    }

    /// What there is to tell of each.
    pub(super) fn reports(&self) -> impl Iterator<Item = ClassReport<'_>> {
        self.all.iter().map(|class| ClassReport {
            config: &class.config,
            stats: class.stats,
            channels: LinkSet::from_bits(class.carriers),
            frames: &class.frames,
        })
    }
}

/// The numbers of a set's bits, lowest first.
pub(super) fn places(set: u64) -> impl Iterator<Item = usize> + Clone {
    super::channel::each(set).map(ChannelId::index)
}

#[cfg(test)]
mod tests {
    use super::super::config::Mode;
    use super::*;
    use crate::flow::accounts::AccountId;
    use alloc::format;
    use alloc::vec;

    fn made(classes: usize) -> Classed<Vec<u8>> {
        let text: Vec<_> = (0..classes).map(|n| format!("name=c{n}\tport={}\tmode=backup", n + 1)).collect();
        let classes = text.join("\n").parse().unwrap();
        let mut made = Classed::new(&Config { mode: Mode::Reliable, classes, ..Config::default() }, 1).unwrap();
        made.extend(4);
        made
    }

    fn queued(size: usize) -> Queued<Vec<u8>> {
        Queued::new(Time::ZERO, vec![0; size], 0, 0, AccountId::default())
    }

    /// Who goes in `turns` turns, of packets of these sizes, by class and then the rest; `may`: who may go in each turn.
    fn turns(sizes: &[usize], turns: usize, may: impl Fn(usize, Option<usize>) -> bool) -> Vec<usize> {
        let mut classed = made(sizes.len() - 1);
        let mut sent = vec![0; sizes.len()];
        for turn in 0..turns {
            let (mut left, mut rest) = ((1u64 << (sizes.len() - 1)) - 1, true);
            while let Some(who) = classed.next(left, rest) {
                if may(turn, who) {
                    let place = who.unwrap_or(sizes.len() - 1);
                    classed.on_turn(who, sizes[place]);
                    sent[place] += sizes[place];
                    break;
                }
                match who {
                    Some(class) => left &= !(1 << class),
                    None => rest = false,
                }
            }
        }
        sent
    }

    #[test]
    fn who_could_always_go_has_an_equal_share_of_bytes_and_nobody_saves_up() {
        let sent = turns(&[100, 1500, 700], 30_000, |_, _| true);
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        assert!(most - least <= 2 * 1500, "{sent:?}");
        // The first class comes late: it has what may be behind at once, and an equal share from then on.
        let late = turns(&[1500, 1500], 2_000, |turn, who| turn >= 1_000 || who.is_none());
        let expected = 500 * 1500 + LAG as usize / 2;
        assert!(late[0].abs_diff(expected) <= 3 * 1500, "{late:?}");
    }

    #[test]
    fn two_that_may_go_only_now_and_then_go_in_turn_before_one_that_always_may() {
        let sent = turns(&[1500, 1500, 1500], 10_000, |turn, who| who.is_none() || turn % 10 == 0);
        // All begin alike: what always may go is first once.
        assert!(sent[0].abs_diff(sent[1]) <= 1500 && sent[0] + sent[1] >= 998 * 1500, "{sent:?}");
    }

    #[test]
    fn buckets_tell_the_class_and_stand_behind_all_others() {
        let classed = made(3);
        for class in 0..3 {
            for of_all in [0, 63, 64, 1023] {
                let bucket = classed.bucket(class, of_all);
                assert_eq!(classed.of_bucket(bucket).unwrap().config.name, format!("c{class}"));
                assert!(usize::from(bucket) >= 1024 && usize::from(bucket) < 1024 + 3 * SPREAD);
            }
        }
        assert!(classed.of_bucket(1023).is_none() && classed.of_bucket(u16::MAX).is_none());
        assert!(made(0).of_bucket(u16::MAX).is_none());
    }

    #[test]
    fn what_waits_is_known_by_class_and_by_channel() {
        let mut classed = made(2);
        (classed.all[0].carriers, classed.all[1].carriers) = (0b01, 0b10);
        assert_eq!(classed.offer(1, queued(100), &mut Ledger::new(&Config::default())), 0);
        assert_eq!((classed.bulk, classed.urgent, classed.memory() > 100), (0b10, 0, true));
        assert!(classed.wait_for(ChannelId(1)) && !classed.wait_for(ChannelId(0)));
        classed.all[1].queue.take(Time::ZERO);
        classed.note(1);
        assert_eq!((classed.bulk, classed.wait_for(ChannelId(1))), (0, false));
    }

    #[test]
    fn copies_are_bounded_and_forgotten_with_their_channel() {
        let mut classed = made(1);
        let note = Note { slot: 1, generation: 1 };
        let skipped: u64 = (0..COPIES + 5).map(|_| classed.copy(Time::ZERO, note, 0b110)).sum();
        assert_eq!((skipped, classed.copying), (10, 0b110));
        assert_eq!((classed.forget_copies(0b011), classed.copying), (COPIES as u64, 0b010));
        let count = core::iter::from_fn(|| classed.next_copy(ChannelId(1))).count();
        assert_eq!((count, classed.copying), (COPIES, 0));
        assert_eq!(classed.copy(Time::ZERO, note, 1 << 9), 1, "of a channel that there is not");
    }
}
