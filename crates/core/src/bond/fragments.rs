//! Long packets in fragments, urgent ones ahead of them.
//!
//! What it is: mode `stripe` with `fragment_delay`. Each channel's quantum is what it carries in that time, no fragment is longer on the
//! wire than the smallest quantum, and what a channel has under way is kept within its quantum. So an urgent packet
//! ([`is_urgent`](super::express::is_urgent)) waits for no more than that time before its first bit leaves, however long the packets are that wait with it. It
//! goes whole, without a number, by the channel that brings it first, and is delivered as it comes. All others are numbered, cut,
//! shared out by surplus round robin, and put in order by their numbers at the other end.
//!
//! Source: striping §7.2, §6.3.4. The rules of loss, the cutting and the putting together are [`crate::stripe::fragment`]'s.
//!
//! | paper | here |
//! |---|---|
//! | fragment delay | `Config::fragment_delay` |
//! | quantum of a link | [`share::quanta`](super::share::quanta) of the largest fragment, which is what the slowest channel carries in that time |
//! | queue of a link within the quantum | the pacer's burst: the quantum less one fragment |
//! | the queue of real-time packets; PPP encapsulation | [`Prompt`](super::express::Prompt); `Message::Plain` |
//! | Multilink PPP's sequence numbers | `Extended::Fragment` |
//!
//! Departures: no logical reception, so no markers. A channel that falls idle tells by a null fragment what it has passed, and what waits
//! is given up at the deadline. Fragments go only to a peer whose heartbeats say that it puts them together; until then packets go
//! whole, without numbers. Where a channel has no rate, nothing is cut.
//!
//! Cost: O(1) a fragment and O(channels) for the rule of loss; a copy of all but the last fragment of a packet.

use super::channel::{bit, each};
use super::config::{Config, LEAST_FRAGMENT};
use super::distribute::Ready;
use super::event::FragmentCounts;
use super::number::Numbers;
use super::share::Member;
use super::{Bond, Codepoint, Handling, Transmit};
use crate::flow::accounts::AccountId;
use crate::ip::{Header as IpHeader, ecn};
use crate::packet::Packet;
use crate::stripe::fragment::{self, Class, FragmentStats, Fragmenter, Piece, Reassembler, ReassemblerConfig};
use crate::units::{Bytes, ChannelId, Span, Time};
use crate::wire::envelope::{Extended, FRAGMENT_LEN, Fragment, Head, Message};
use alloc::boxed::Box;

/// Most fragments between the oldest that is missing and the newest.
const WINDOW: usize = 1 << 14;
/// What a place for one of them is taken to cost, the same for every type of packet, so that a recording replays.
const PLACE_COST: usize = 192;

/// Both ends of the fragments.
#[derive(Debug)]
pub(super) struct Fragments<P> {
    cutter: Option<Box<Cutter<P>>>,
    joiner: Option<Box<Reassembler<P>>>,
    /// What the joiner had counted when it was last asked.
    counted: FragmentStats,
    counts: FragmentCounts,
    /// The channels that bring something.
    bringing: u64,
    /// The peer's process has begun since we know of it, so that all of its fragments are for us.
    restarted: bool,
}

/// The sender's end.
#[derive(Debug)]
struct Cutter<P> {
    delay: Span,
    /// What a fragment may have of its packet by the channels' rates.
    most: usize,
    fragmenter: Fragmenter<P>,
    /// The type of service of the packet that is being cut.
    tos: u8,
    /// Its flow's account.
    account: AccountId,
    /// By which channel the last fragment went, if no null fragments followed.
    last: Option<ChannelId>,
    /// The channels on which a null fragment is to go.
    nulls: u64,
}

impl<P: Packet> Fragments<P> {
    pub(super) fn new(config: &Config) -> Fragments<P> {
        let cutter = config.cuts().then(|| {
            Box::new(Cutter {
                delay: config.fragment_delay.unwrap_or(Span::ZERO),
                most: usize::MAX,
                fragmenter: Fragmenter::new(Bytes::new(u64::MAX), Bytes::new(u64::MAX)),
                tos: 0,
                account: AccountId::default(),
                last: None,
                nulls: 0,
            })
        });
        Fragments {
            cutter,
            joiner: None,
            counted: FragmentStats::default(),
            counts: FragmentCounts::default(),
            bringing: 0,
            restarted: false,
        }
    }

    /// Whether this end cuts packets.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.cutter.is_some()
    }

    /// Whether nothing is left of a packet that was begun.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.cutter.as_ref().is_none_or(|cutter| cutter.fragmenter.waiting() == Bytes::ZERO)
    }

    /// So many bytes of a packet fit all channels from now on.
    pub(super) fn fit(&mut self, mtu: usize) {
        if let Some(cutter) = &mut self.cutter {
            cutter.fragmenter.set_payload(cutter.most.min(mtu));
        }
    }

    /// Memory that what waits at the receiver takes.
    pub(super) fn used(&self) -> usize {
        self.joiner.as_ref().map_or(0, |joiner| joiner.buffered().as_u64() as usize + joiner.places() * PLACE_COST)
    }

    /// When something has waited for long enough.
    pub(super) fn timeout(&self, deadline: Span) -> Option<Time> {
        Some(self.joiner.as_ref()?.waits_since()? + deadline)
    }

    /// The channels that bring something are `bringing` now.
    pub(super) fn set_bringing(&mut self, bringing: u64) {
        self.bringing = bringing;
        if let Some(joiner) = &mut self.joiner {
            joiner.set_links(bringing);
        }
    }

    /// The peer is another one, which has `restarted` or is met for the first time.
    pub(super) fn forget_peer(&mut self, restarted: bool) {
        (self.joiner, self.restarted) = (None, restarted);
        self.counted = FragmentStats::default();
    }
}

impl Config {
    /// Whether packets go in fragments.
    pub(super) fn cuts(&self) -> bool {
        self.mode == super::Mode::Stripe && self.fragment_delay.is_some()
    }

    /// Most memory for frames that wait for their order, but fragments, which have the rest.
    pub(super) fn order_bytes(&self) -> usize {
        if self.cuts() { self.hold_bytes / 2 } else { self.hold_bytes }
    }
}

impl<P: Packet> Bond<P> {
    /// Counters of fragments, where packets go in such.
    pub fn fragment_counts(&self) -> Option<FragmentCounts> {
        self.fragments.is_on().then_some(self.fragments.counts)
    }

    /// Whether the peer puts fragments together, as its newest heartbeat says; `None` before the first of its process.
    pub fn peer_joins(&self) -> Option<bool> {
        self.peer.high().map(|_| self.peer.joins)
    }

    /// Wire bytes of the largest fragment, which the smallest quantum is; `None` where nothing is cut.
    pub(super) fn largest_fragment(&self, members: &[Member]) -> Option<usize> {
        let cutter = self.fragments.cutter.as_ref()?;
        let carries = |member: &Member| member.rate.map(|rate| rate.bytes_in(cutter.delay).as_u64() as usize);
        let rates: Option<alloc::vec::Vec<usize>> = members.iter().map(carries).collect();
        let smallest = rates?.into_iter().min()?;
        Some(smallest.max(self.around_fragment() + LEAST_FRAGMENT))
    }

    /// Wire bytes of a fragment beside what it has of its packet, at most.
    fn around_fragment(&self) -> usize {
        let around = |c: ChannelId| self.channels[c].wire(self.number.head_len(false));
        each(self.channels.joined).map(around).max().unwrap_or(FRAGMENT_LEN)
    }

    /// The rates have changed: fragments are as long as they allow, and channels hold no more than their quanta.
    pub(super) fn refresh_fragments(&mut self, quanta: &[(ChannelId, Bytes)], largest: usize) {
        if !self.fragments.is_on() {
            return;
        }
        let around = self.around_fragment();
        if let Some(cutter) = &mut self.fragments.cutter {
            cutter.most = largest.saturating_sub(around).max(LEAST_FRAGMENT);
        }
        self.fragments.fit(self.ingress.mtu);
        for (channel, quantum) in quanta {
            self.channels[*channel].hold_within(quantum.as_u64() as usize, largest);
        }
    }

    /// The next fragment, on the channel that is next.
    #[inline(never)]
    pub(super) fn next_fragment(&mut self, now: Time) -> Option<Transmit<P>> {
        if !self.peer.joins && self.fragments.is_empty() {
            return if self.ingress.queue.is_empty() { None } else { self.next_queued(now) };
        }
        if self.ingress.queue.is_empty() && self.fragments.is_empty() {
            return self.next_null(now);
        }
        loop {
            let Ready { first, .. } = self.distribute.ready(now, &self.channels, 1)?;
            if self.fragments.is_empty() {
                let mut queued = self.ingress.queue.pop(now, &mut self.stats, &mut self.ingress.ledger)?;
                queued.on_sent(now, &mut self.ingress.ledger);
                // Where it is cut, only all of it could have one that is finished on the way.
                queued.packet.complete_checksum();
                let cutter = self.fragments.cutter.as_mut()?;
                (cutter.tos, cutter.account) = (queued.tos, queued.account);
                if cutter.fragmenter.push(Class::Bulk, queued.packet).is_err() {
                    continue;
                }
            }
            let cutter = self.fragments.cutter.as_mut()?;
            let (tos, account) = (cutter.tos, cutter.account);
            let Some(Piece { header, packet, skip }) = cutter.fragmenter.poll_piece() else {
                self.stats.memory_refused += 1;
                continue;
            };
            (cutter.last, cutter.nulls) = (Some(first), 0);
            self.fragments.counts.sent += 1;
            let idle = self.ingress.queue.is_empty() && self.fragments.is_empty();
            if idle {
                self.outbox.idle_marker = Some(now + self.config.idle_marker);
            }
            let numbers = Numbers::of_fragment(header.begin, header.end, header.sequence);
            let head = self.part_head(now, first, packet.size().as_u64() as usize - skip, numbers, idle);
            let tos = ecn::entry(tos, self.config.copy_dscp);
            let codepoint = Codepoint::Envelope;
            let mut frame = Transmit {
                channel: first,
                codepoint,
                head,
                packet: Some(packet),
                skip,
                tos,
                handling: Handling::Usual,
            };
            frame.handling = self.channels[first].on_data_sent(now, frame.size());
            self.distribute.on_sent(self.channels[first].wire(frame.size()));
            self.ingress.ledger.on_frame(now, account, first, frame.body().len());
            return Some(frame);
        }
    }

    /// What stands before `bytes` of a packet on `channel`, with a number on it where frames are counted.
    fn part_head(&mut self, now: Time, channel: ChannelId, bytes: usize, numbers: Numbers, idle: bool) -> Head {
        let c = &mut self.channels[channel];
        if c.path.flight.is_none() {
            return self.number.head(0, numbers, false);
        }
        let wire = c.wire(self.number.head_len(false) + bytes);
        let number = c.path.on_counted(now, wire, idle);
        self.number.counted_head(0, numbers, number, None)
    }

    /// The channels that the peer cannot know to have passed the last fragment are to tell it.
    pub(super) fn mark_fragments(&mut self, now: Time) {
        let using = self.using(now);
        if let Some(cutter) = &mut self.fragments.cutter
            && let Some(last) = cutter.last.take()
        {
            cutter.nulls = using & !bit(last);
        }
    }

    /// The next null fragment.
    fn next_null(&mut self, now: Time) -> Option<Transmit<P>> {
        let cutter = self.fragments.cutter.as_mut()?;
        let due = core::mem::take(&mut cutter.nulls);
        let open = |c: &ChannelId| self.channels.get(*c).is_some_and(|c| c.is_up() && c.path.signs.blocked.is_none());
        let channel = each(due).find(open)?;
        cutter.nulls = due & !bit(channel);
        let fragment::Header { begin, end, sequence, .. } = cutter.fragmenter.null_header(Class::Bulk)?;
        let null = Fragment { begin, end, null: true, sequence };
        Some(self.message(now, channel, Message::Extended(Extended::Fragment(null))))
    }

    /// A fragment of the peer's, behind its envelope.
    pub(super) fn on_fragment(
        &mut self,
        now: Time,
        channel: ChannelId,
        (tag, part): (u8, Fragment),
        mut frame: P,
        tos: u8,
    ) {
        let Fragment { begin, end, null, sequence } = part;
        if !self.fragments.is_on() {
            // Our heartbeats do not ask for any.
            self.stats.unexpected_stripe += 1;
            return;
        }
        let size = frame.size().as_u64();
        frame.strip(FRAGMENT_LEN);
        if null {
            // A card may have filled the frame up.
            frame.truncate(0);
        }
        if !self.peer.is_current(tag) && !self.on_other_tag(now, tag, None) {
            self.stats.stale_epoch += 1;
            return;
        }
        let c = &mut self.channels[channel];
        if frame.bytes().is_empty() {
            c.stats.received_control += 1;
        } else {
            c.stats.received_packets += 1;
            c.stats.received_bytes += size;
            self.on_traffic(now);
        }
        self.on_heard(now, channel);
        let Fragments { joiner, bringing, restarted, .. } = &mut self.fragments;
        let joiner = joiner.get_or_insert_with(|| {
            // Half of what is not left to other frames for the bytes, half for their places.
            let room = (self.config.hold_bytes - self.config.order_bytes()) / 2;
            let window = (room / PLACE_COST).min(WINDOW) as u32;
            let config = ReassemblerConfig { window, buffer: Bytes::from(room), ..ReassemblerConfig::default() };
            let mut joiner = Reassembler::new(config, *bringing);
            joiner.meet(Class::Bulk, sequence, *restarted);
            Box::new(joiner)
        });
        joiner.handle_fragment(now, channel, fragment::Header { begin, end, class: Class::Bulk, sequence }, frame, tos);
        self.collect_fragments();
    }

    /// Gives up what has waited for too long.
    pub(super) fn on_fragments_timeout(&mut self, now: Time) {
        if self.fragments.timeout(self.config.deadline()).is_none_or(|at| at > now) {
            return;
        }
        let oldest = Time::from_nanos(now.as_nanos().saturating_sub(self.config.deadline().as_nanos()));
        if let Some(joiner) = &mut self.fragments.joiner {
            joiner.handle_timeout(oldest);
        }
        self.collect_fragments();
    }

    /// Takes the packets that are whole.
    pub(super) fn collect_fragments(&mut self) {
        while let Some((packet, tos)) = self.fragments.joiner.as_mut().and_then(|joiner| joiner.poll_marked()) {
            self.take_whole(packet, tos);
        }
        let Some(joiner) = &self.fragments.joiner else { return };
        let (now, before) = (*joiner.stats(), core::mem::replace(&mut self.fragments.counted, *joiner.stats()));
        let counts = &mut self.fragments.counts;
        counts.joined += now.packets - before.packets;
        counts.lost += now.lost - before.lost;
        counts.discarded += now.discarded + now.late - before.discarded - before.late;
        self.stats.memory_refused += now.no_memory - before.no_memory;
    }

    /// A packet that was put together.
    fn take_whole(&mut self, mut packet: P, tos: u8) {
        let size = packet.size().as_u64() as usize;
        let header = match IpHeader::parse(packet.bytes(), size) {
            Ok(header) if header.total <= size => header,
            _ => {
                self.stats.bad_packet += 1;
                return;
            }
        };
        if header.total < packet.bytes().len() {
            packet.truncate(header.total);
        }
        if let Some(packet) = self.finish_packet(&header, packet, tos) {
            self.resequence.push(packet.0);
        }
    }
}
