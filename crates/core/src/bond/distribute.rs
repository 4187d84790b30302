//! Which channel carries the next packet.
//!
//! A causal discipline and the best channels choose when a packet leaves: it waits in the host queue until the channel
//! that is next may send, and no other is taken in its place. By their paces the channels choose without such waits. A policy
//! chooses when a packet comes ([`Policed`]). The stripe chooses by a discipline that it shares with the peer (`striped.rs`).

use super::channel::{Channel, Channels, bit, each};
use super::class::{ClassConfig, ClassMode};
use super::config::{Config, ConfigError, Mode, Scheduler};
use super::policy::Policed;
use super::preset::{Distribution, Preset};
use super::share::{self, Member, Share};
use crate::packet::Packet;
use crate::rng::Rng;
use crate::units::{ChannelId, Rate, Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What chooses the channel. Its tag is a byte of its own, since it is read several times a packet.
#[derive(Debug)]
#[repr(u8)]
pub(super) enum Distribute<P> {
    /// A discipline over the usable channels; `None` without any.
    Discipline(Option<Share>),
    /// The channels' paces, where a law finds their rates or all are given ([`Config::by_pace`]): of those that may send, the one that has sent a packet
    /// first, and a wait on the way counts.
    Pace,
    /// The usable channels, the best priority first.
    Best(Vec<ChannelId>),
    /// The stripe.
    Agreed,
    /// A policy, and its queues.
    Policy(Box<Policed<P>>),
}

/// The channels that are to carry a packet and may send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    /// The one for the packet itself.
    pub(super) first: ChannelId,
    /// Those for copies.
    pub(super) others: u64,
    /// How many were to have a copy, and may not send.
    pub(super) skipped: u64,
}

impl<P: Packet> Distribute<P> {
    /// Before any channel is usable.
    ///
    /// # Errors
    /// A policy that names what is not there.
    pub(super) fn new(preset: Preset, config: &Config, rng: &mut Rng) -> Result<Distribute<P>, ConfigError> {
        Ok(match preset.distribute {
            Distribution::Discipline => Distribute::Discipline(None),
            Distribution::Best => Distribute::Best(Vec::new()),
            Distribution::Agreed => Distribute::Agreed,
            Distribution::Policy => Distribute::Policy(Box::new(Policed::new(config, rng.next_u64())?)),
        })
    }

    /// The policy and its queues, where one chooses.
    #[inline]
    pub(super) fn policy(&self) -> Option<&Policed<P>> {
        if let Distribute::Policy(policed) = self { Some(policed) } else { None }
    }

    /// As [`Distribute::policy`].
    #[inline]
    pub(super) fn policy_mut(&mut self) -> Option<&mut Policed<P>> {
        if let Distribute::Policy(policed) = self { Some(policed) } else { None }
    }

    /// The usable channels are `members` now, or have other rates; the largest frame has `largest` bytes.
    pub(super) fn refresh(
        &mut self,
        config: &Config,
        channels: &Channels,
        members: &[Member],
        largest: usize,
        rng: &mut Rng,
    ) {
        if matches!(self, Distribute::Discipline(_) | Distribute::Pace) {
            let by_pace = share::by_pace(members) || Self::lets_pace(config) && share::have_paces(members);
            match self {
                Distribute::Discipline(_) if by_pace => *self = Distribute::Pace,
                Distribute::Pace if !by_pace => *self = Distribute::Discipline(None),
                _ => {}
            }
        }
        match self {
            Distribute::Discipline(share) => {
                let seed = rng.next_u64();
                if !share.as_mut().is_some_and(|share| share.change(members, largest)) {
                    *share = Share::new(config.scheduler, members, largest, seed);
                }
            }
            Distribute::Best(order) => {
                order.clear();
                order.extend(members.iter().map(|m| m.channel));
                order.sort_by_key(|c| (channels[*c].config.priority, *c));
            }
            // Drawn for nothing: what is drawn later is in recordings.
            Distribute::Agreed | Distribute::Pace => _ = rng.next_u64(),
            Distribute::Policy(_) => {}
        }
    }

    /// Whether channels whose rates are all known go by their paces, rather than by a discipline that waits for one of them.
    fn lets_pace(config: &Config) -> bool {
        config.scheduler == Scheduler::Srr
            && (config.by_pace && config.mode == Mode::Reliable || Self::has_confined(config))
    }

    /// Whether classes take some of what channels carry, as those of one channel at a time and of copies do too: a discipline that waits for one of them would leave the others idle.
    fn has_confined(config: &Config) -> bool {
        let confines =
            |class: &ClassConfig| class.chooses() || matches!(class.mode, ClassMode::Backup | ClassMode::Duplicate);
        config.classes.0.iter().any(confines)
    }

    /// The channels for the next packet, at most `copies` of them; `None` where it has to wait.
    #[inline]
    pub(super) fn ready(&self, now: Time, channels: &Channels, copies: usize) -> Option<Ready> {
        let is_open = |c: &ChannelId| channels.get(*c).and_then(Channel::ready_at).is_some_and(|at| at <= now);
        match self {
            Distribute::Discipline(share) => {
                let first = share.as_ref()?.select();
                is_open(&first).then_some(Ready { first, others: 0, skipped: 0 })
            }
            Distribute::Pace => {
                let (.., first) = each(channels.in_use())
                    .filter(is_open)
                    .map(|c| (channels[c].sent_at(now) + channels[c].path.waits(now), channels[c].data, c))
                    .min()?;
                Some(Ready { first, others: 0, skipped: 0 })
            }
            Distribute::Best(order) => {
                let wanted = &order[..order.len().min(copies)];
                let first = *wanted.iter().find(|c| is_open(c))?;
                let open = wanted.iter().filter(|c| is_open(c)).fold(0u64, |set, c| set | bit(*c));
                let skipped = wanted.len() as u64 - u64::from(open.count_ones());
                Some(Ready { first, others: open & !bit(first), skipped })
            }
            Distribute::Agreed | Distribute::Policy(_) => None,
        }
    }

    /// When [`Distribute::ready`] may have an answer.
    pub(super) fn ready_at(&self, channels: &Channels, copies: usize) -> Option<Time> {
        match self {
            Distribute::Discipline(share) => channels.get(share.as_ref()?.select())?.ready_at(),
            Distribute::Pace => each(channels.in_use()).filter_map(|c| channels[c].ready_at()).min(),
            Distribute::Best(order) => {
                let wanted = &order[..order.len().min(copies)];
                wanted.iter().filter_map(|c| channels.get(*c)?.ready_at()).min()
            }
            Distribute::Agreed | Distribute::Policy(_) => None,
        }
    }

    /// A data frame of `wire` bytes went by the channel that was chosen.
    #[inline]
    pub(super) fn on_sent(&mut self, wire: usize) {
        if let Distribute::Discipline(Some(share)) = self {
            share.update(wire);
        }
    }

    /// The rate at which the host queue drains, if that of every channel that drains it is `known`.
    pub(super) fn rate(&self, members: &[Member], known: impl Fn(ChannelId) -> Option<Rate>) -> Option<Rate> {
        let sum: Option<Rate> = match self {
            Distribute::Best(order) => known(*order.first()?),
            _ => members.iter().map(|m| known(m.channel)).sum(),
        };
        sum.filter(|_| !members.is_empty())
    }

    /// The channels that carry data. Where the best one does `alone`, without copies, also the one before while its packets may be on
    /// their way, for `recent`: a switch to a faster channel must not overtake them. So it is with each that is to leave.
    pub(super) fn using(&self, now: Time, channels: &Channels, alone: bool, recent: Span) -> u64 {
        let carried = |set| {
            let recently = |c: &ChannelId| channels[*c].data.is_some_and(|at| now.since(at) < recent);
            each(set).filter(recently).fold(0, |set, c| set | bit(c))
        };
        let using = match self {
            Distribute::Best(order) if alone => order.first().map_or(0, |best| bit(*best) | carried(channels.usable)),
            _ => channels.in_use(),
        };
        // Of one that is to leave, what is under way is waited for too.
        using | carried(channels.where_each(|c| c.path.signs.leaving && c.path.signs.may_bring()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::{ChannelConfig, Mode};
    use super::*;
    use crate::path::Counting;

    /// Three channels that are up, with these priorities.
    fn made(mode: Mode, priorities: [u32; 3]) -> (Distribute<Vec<u8>>, Channels, Vec<Member>) {
        let config = Config { mode, ..Config::default() };
        let mut rng = Rng::new(1);
        let mut distribute = Distribute::new(Preset::of(&config), &config, &mut rng).unwrap();
        let mut channels = Channels::new(Counting::default());
        for (n, priority) in priorities.into_iter().enumerate() {
            let id = ChannelId(n as u8);
            channels.join(Time::ZERO, id, ChannelConfig { priority, ..ChannelConfig::default() });
            channels[id].path.signs.up = true;
            channels.usable |= bit(id);
        }
        let members: Vec<Member> = (0..3u8)
            .map(|n| Member {
                channel: ChannelId(n),
                rate: Some(Rate::from_mbit(10 + u64::from(n))),
                weight: 1,
                paced: false,
            })
            .collect();
        distribute.refresh(&config, &channels, &members, 1500, &mut rng);
        (distribute, channels, members)
    }

    #[test]
    fn the_best_channel_is_the_lowest_priority_then_the_lowest_number() {
        let (distribute, mut channels, members) = made(Mode::Backup, [7, 3, 3]);
        let ready = |channels: &Channels| distribute.ready(Time::ZERO, channels, 1);
        assert_eq!(ready(&channels), Some(Ready { first: ChannelId(1), others: 0, skipped: 0 }));
        channels[ChannelId(1)].path.signs.blocked = Some(Time::ZERO);
        assert_eq!(ready(&channels), None, "no other is taken in its place");
        let known = |channel: ChannelId| members[channel.index()].rate;
        assert_eq!(distribute.rate(&members, known), Some(Rate::from_mbit(11)), "the one that drains the queue");
    }

    #[test]
    fn a_wait_on_the_way_counts_where_paces_choose_until_it_is_over() {
        let (_, mut channels, _) = made(Mode::Reliable, [1, 1, 1]);
        let distribute = Distribute::<Vec<u8>>::Pace;
        let at = |ms: u64| Time::from_millis(1000 + ms);
        let first = |channels: &Channels, ms: u64| distribute.ready(at(ms), channels, 1).map(|ready| ready.first.0);
        assert_eq!(first(&channels, 0), Some(0));
        channels[ChannelId(0)].path.waited = Some((at(0), Span::from_millis(210)));
        assert_eq!([0, 199, 200].map(|ms| first(&channels, ms)), [Some(1), Some(1), Some(0)]);
        channels[ChannelId(1)].path.waited = Some((at(0), Span::from_millis(300)));
        channels[ChannelId(2)].path.waited = Some((at(0), Span::from_millis(300)));
        assert_eq!(first(&channels, 0), Some(0), "the one that waits least, where all do");
    }

    #[test]
    fn copies_go_by_the_best_channels_and_what_is_full_is_skipped() {
        let (distribute, mut channels, _) = made(Mode::Duplicate, [1, 2, 3]);
        let all = Ready { first: ChannelId(0), others: 0b110, skipped: 0 };
        assert_eq!(distribute.ready(Time::ZERO, &channels, 64), Some(all));
        channels[ChannelId(0)].path.signs.blocked = Some(Time::ZERO);
        let two = Ready { first: ChannelId(1), others: 0, skipped: 1 };
        assert_eq!(distribute.ready(Time::ZERO, &channels, 2), Some(two));
        channels[ChannelId(1)].path.signs.blocked = Some(Time::ZERO);
        assert_eq!(distribute.ready(Time::ZERO, &channels, 2), None);
        assert_eq!(distribute.ready_at(&channels, 2), None, "the third is not one of the best two");
    }

    #[test]
    fn a_channel_left_for_a_better_one_counts_as_used_while_its_packets_may_be_under_way() {
        let (distribute, mut channels, _) = made(Mode::Backup, [1, 2, 3]);
        let (now, recent) = (Time::from_millis(1000), Span::from_millis(500));
        channels[ChannelId(2)].data = Some(Time::from_millis(501));
        assert_eq!(distribute.using(now, &channels, true, recent), 0b101);
        channels[ChannelId(2)].data = Some(Time::from_millis(500));
        assert_eq!(distribute.using(now, &channels, true, recent), 0b001);
        let (shared, channels, _) = made(Mode::Ordered, [1, 2, 3]);
        assert_eq!(shared.using(now, &channels, true, recent), 0b111);
    }

    #[test]
    fn nothing_is_chosen_without_a_usable_channel() {
        for mode in [Mode::Ordered, Mode::Backup, Mode::Duplicate, Mode::Stripe, Mode::Flow] {
            let config = Config { mode, ..Config::default() };
            let mut rng = Rng::new(1);
            let mut distribute = Distribute::<Vec<u8>>::new(Preset::of(&config), &config, &mut rng).unwrap();
            let channels = Channels::new(Counting::default());
            distribute.refresh(&config, &channels, &[], 1500, &mut rng);
            assert_eq!(distribute.ready(Time::ZERO, &channels, 1), None);
            assert_eq!(
                (distribute.rate(&[], |_| None), distribute.using(Time::ZERO, &channels, true, Span::ZERO)),
                (None, 0)
            );
        }
    }
}
