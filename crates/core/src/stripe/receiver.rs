//! The stripe's receiver: logical reception.
//!
//! Source: striping §4, §5, appendix A (`Receive_i`, `Receive`, `ProcessMarker`, `Skipline`), and its errata. Packets
//! wait in a buffer per channel and leave in the order in which the sender's discipline sent them; no data frame
//! carries a number. Markers, in FIFO place, tell what the next packet of their channel would be numbered.
//!
//! | paper | here |
//! |---|---|
//! | rp, R_i^r, DC_i^r | `srr`: the sender's discipline, simulated |
//! | R_i^save | `Channel::saved` |
//! | condition C1 | a channel whose saved round is ahead is skipped, its buffer empty or not |
//! | condition C2 | both ends visit channels by number; a message that names another channel is refused |
//! | snapshot | every marker is one: see below |
//!
//! What the paper leaves open:
//!
//! - **Buffers** are bounded in bytes and packets per channel; what overflows counts as lost on the way.
//! - **Self-stabilisation.** Loss only ever makes this side lag behind the sender. So bytes numbered here beyond a
//!   marker's (round, deficit) prove corrupted state or a restart: this side asks for a new epoch. The check is made
//!   when the marker arrives, with everything buffered before it counted in, and again when its turn comes. Two plans of
//!   one generation with different channels prove the same, and so do markers of older generations for long with none of
//!   this side's own between: somebody else announced the generation that this side follows.
//! - **Epochs.** An unknown epoch's first plan resets this side; what is buffered is delivered first, in the best order
//!   known. Data on a channel where the plan has not come by is of an older epoch: dropped.
//! - **Changes.** At the first round of an announced generation this side waits for a marker that says which generation
//!   is in force there. A removed channel's leftovers are delivered at once. A dead channel is drained, never waited for; what
//!   comes by it afterwards is dropped, since its place in the order has passed.
//!
//! Cost: O(1) a packet; skipping any number of rounds is O(channels). No allocation once the buffers have grown.
//! Memory: the buffers, and at most as many markers as packets.

mod answers;

use super::config::ReceiverConfig;
use super::credit::Arrivals;
use super::event::ReceiverStats;
use super::serial::{newer, serial};
use crate::causal::{Causal, ChannelSet, Srr, Unit, set};
use crate::packet::Packet;
use crate::units::{Bytes, ChannelId, Span, Time};
use crate::wire::marker::{Marker, Plan};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

#[derive(Clone, Debug)]
enum Item<P> {
    Data(P),
    Mark(Mark),
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    round: u32,
    deficit: i32,
    quantum: u32,
    generation: u16,
}

#[derive(Clone, Debug)]
struct Channel<P> {
    queue: VecDeque<Item<P>>,
    bytes: u32,
    packets: u32,
    /// R_i^save
    saved: u32,
    arrivals: Arrivals,
    /// Markers in a row that found this side ahead.
    strikes: u8,
}

/// The receiving side of one stripe; sans-IO.
///
/// After every input drain [`poll_deliver`](Receiver::poll_deliver) and [`poll_reply`](Receiver::poll_reply).
#[derive(Clone, Debug)]
pub struct Receiver<P> {
    limit: (u32, u32),
    config: ReceiverConfig,
    srr: Srr,
    channel: Box<[Channel<P>]>,
    /// Whether a change waits for its round.
    changing: bool,
    /// Channels that are drained but not waited for.
    dead: u64,
    /// Channels whose data belongs to this epoch and membership.
    open: u64,
    epoch: Option<u32>,
    recent: VecDeque<u32>,
    set: ChannelSet,
    generation: u16,
    /// Generations announced upon each other; the newest last.
    pending: VecDeque<Plan>,
    /// The newest generation known to be, or have been, in force at the sender.
    committed: u16,
    seen: u64,
    reply: u64,
    /// The epoch that is asked to be given up.
    asking: Option<u32>,
    heard: u64,
    strays: u8,
    /// Since when all markers are of older generations than this side's.
    older_since: Option<Time>,
    ask_at: Time,
    ask_span: Span,
    /// Packets of a finished epoch or membership, delivered before all else.
    out: VecDeque<P>,
    stats: ReceiverStats,
}

fn limits(bytes: Bytes, packets: u32) -> (u32, u32) {
    let most = 1u32 << 30;
    (bytes.as_u64().min(u64::from(most)) as u32, packets.min(most))
}

const RECENT_EPOCHS: usize = 8;
const MAX_PENDING: usize = 8;
const STRIKES: u8 = 3;
/// After so many markers of an epoch that is over, and none of the one that is believed in, the belief is wrong.
const STRAYS: u8 = 8;
/// How long markers of older generations, and none of this side's own, may come, in `request_interval`s: longer than any
/// channel is slower than another.
const OLDER_INTERVALS: u64 = 32;

impl<P: Packet> Receiver<P> {
    /// A receiver that knows no epoch yet. Limits beyond 2^30 count as 2^30.
    pub fn new(config: ReceiverConfig) -> Receiver<P> {
        let limit = limits(config.buffer_bytes, config.buffer_packets);
        let channel = (0..ChannelId::LIMIT)
            .map(|_| Channel {
                queue: VecDeque::new(),
                bytes: 0,
                packets: 0,
                saved: 1,
                arrivals: Arrivals::default(),
                strikes: 0,
            })
            .collect();
        Receiver {
            limit,
            ask_span: config.request_interval,
            config,
            srr: Srr::idle(),
            channel,
            changing: false,
            dead: 0,
            open: 0,
            epoch: None,
            recent: VecDeque::with_capacity(RECENT_EPOCHS),
            set: ChannelSet::empty(),
            generation: 0,
            pending: VecDeque::new(),
            committed: 0,
            seen: 0,
            reply: 0,
            asking: None,
            heard: 0,
            strays: 0,
            older_since: None,
            ask_at: Time::MAX,
            out: VecDeque::new(),
            stats: ReceiverStats::default(),
        }
    }

    /// Bounds what is buffered on each channel from now on; see [`ReceiverConfig`]. What is there already stays.
    pub fn set_limits(&mut self, bytes: Bytes, packets: u32) {
        self.limit = limits(bytes, packets);
    }

    /// Makes room for `packets` on each channel that is open, so that the first of them allocate nothing.
    pub fn reserve(&mut self, packets: usize) {
        for id in set::bits(self.open) {
            self.channel[id.index()].queue.reserve(packets);
        }
    }

    // ---------------------------------------------------------------- physical reception

    /// `Receive_i`: a data packet arrived on `channel`.
    #[inline]
    pub fn handle_data(&mut self, now: Time, channel: ChannelId, packet: P) {
        let bit = set::bit(channel);
        if self.open & bit == 0 {
            return self.on_stale(now, bit);
        }
        let c = &mut self.channel[channel.index() & (ChannelId::LIMIT - 1)];
        let len = packet.size().as_u64() as u32;
        c.arrivals.on_arrival(len);
        if len > self.limit.0.saturating_sub(c.bytes) || c.packets >= self.limit.1 {
            self.stats.overflow += 1;
            return;
        }
        c.bytes += len;
        c.packets += 1;
        c.queue.push_back(Item::Data(packet));
    }

    #[cold]
    fn on_stale(&mut self, now: Time, bit: u64) {
        self.stats.stale += 1;
        self.on_heard(now, bit);
        if self.epoch.is_none() {
            self.ask(now, 0, bit);
        }
    }

    /// A marker arrived on `channel`; it takes its place behind the data that came before it.
    pub fn handle_marker(&mut self, now: Time, channel: ChannelId, marker: &Marker) {
        let bit = set::bit(channel);
        if !self.accept(now, channel, marker.channel, marker.epoch) {
            return;
        }
        self.on_age(now, bit, marker);
        self.on_evidence(bit, marker);
        if self.open & bit == 0 {
            if self.set.contains(channel) && self.dead & bit == 0 {
                // The sender believes that the epoch's plan was seen here: one side has lost its memory.
                self.stats.unknown += 1;
                self.ask(now, marker.epoch, bit);
            }
            return;
        }
        self.on_alive();
        let Some(c) = self.channel.get_mut(channel.index()) else { return };
        self.stats.markers += 1;
        self.stats.lost += u64::from(c.arrivals.on_marker(marker.sent_bytes, marker.sent_packets));
        if marker.ask {
            self.reply |= bit;
        }
        let mark = Mark {
            round: marker.round,
            deficit: marker.deficit,
            quantum: marker.quantum,
            generation: marker.generation,
        };
        match c.queue.back_mut() {
            // Nothing came between the two: the later one says it all.
            Some(Item::Mark(last)) => *last = mark,
            _ => c.queue.push_back(Item::Mark(mark)),
        }
        self.check_snapshot(now, channel, mark);
    }

    /// Conservation of bytes, or of packets where those are counted (appendix B): `R q - DC` at the marker is at least `R q - DC` here plus what is buffered
    /// before the marker; equal without loss.
    fn check_snapshot(&mut self, now: Time, channel: ChannelId, mark: Mark) {
        if mark.generation != self.generation || self.changing || !self.set.contains(channel) {
            return;
        }
        let by_packets = self.srr.unit() == Unit::Packets;
        let quantum = i64::from(self.srr.quantum(channel));
        let here = self.srr.round_of(channel);
        let c = &mut self.channel[channel.index()];
        let here = if serial(c.saved, here) > 0 { c.saved } else { here };
        let ahead = i64::from(serial(here, mark.round)) * quantum - self.srr.deficit(channel)
            + i64::from(mark.deficit)
            + i64::from(if by_packets { c.packets } else { c.bytes });
        if ahead <= 0 {
            c.strikes = 0;
            return;
        }
        c.strikes += 1;
        if c.strikes >= STRIKES || ahead > 2 * quantum || quantum != i64::from(mark.quantum) {
            c.strikes = 0;
            self.stats.ahead += 1;
            self.ask_again(now);
        }
    }

    /// Slower channels still bring markers of the generation before; the sender itself has one of this side's own on each.
    fn on_age(&mut self, now: Time, bit: u64, marker: &Marker) {
        if !newer(self.generation, marker.generation) {
            self.older_since = None;
            return;
        }
        let since = *self.older_since.get_or_insert(now);
        if now.since(since) >= self.config.request_interval.times(OLDER_INTERVALS) {
            self.stats.unknown += 1;
            self.ask(now, marker.epoch, bit);
        }
    }

    /// What a marker proves of the announced generations.
    fn on_evidence(&mut self, bit: u64, marker: &Marker) {
        let known = self.pending.back().map_or(self.generation, |p| p.generation);
        if newer(marker.generation, known) {
            // A plan that has not come by: the answer names what is known, and brings the plan again.
            self.reply |= bit;
            return;
        }
        if newer(marker.generation, self.committed) {
            self.committed = marker.generation;
        }
        while self.pending.back().is_some_and(|p| {
            newer(p.generation, marker.generation)
                && newer(p.generation, self.committed)
                && serial(marker.sender_round(), p.start) >= 0
        }) {
            // Its round came at the sender, and the change did not: it was put off.
            self.pending.pop_back();
            self.dead = self.announced_dead();
        }
        // A death is announced for the very next round: behind its plan no marker on that channel can be older.
        let absurd = |p: &Plan| p.dead != 0 && serial(p.start, marker.sender_round()) > 1;
        if self.seen & bit != 0 && self.pending.back().is_some_and(absurd) {
            self.pending.clear();
            self.dead = 0;
            self.stats.unknown += 1;
            self.ask_soon();
        }
        self.changing = !self.pending.is_empty();
    }

    /// A plan arrived on `channel`: acted on at once.
    pub fn handle_plan(&mut self, now: Time, channel: ChannelId, plan: &Plan) {
        let bit = set::bit(channel);
        if plan.channel != channel || bit == 0 {
            self.stats.miswired += 1;
            return;
        }
        self.on_heard(now, bit);
        if self.epoch != Some(plan.epoch) {
            if self.recent.contains(&plan.epoch) {
                self.stats.old_epoch += 1;
                return;
            }
            if plan.generation != plan.base {
                // In the middle of an epoch that this side knows nothing of.
                self.stats.unknown += 1;
                return self.ask(now, plan.epoch, bit);
            }
            self.begin(plan);
        }
        self.on_alive();
        let known = self.pending.back().map_or(self.generation, |p| p.generation);
        if newer(plan.generation, known) {
            self.on_change(now, plan);
            self.seen = 0;
        }
        let (known, set) = self.pending.back().map_or((self.generation, &self.set), |p| (p.generation, &p.set));
        if plan.generation == known {
            if plan.set != *set {
                self.stats.unknown += 1;
                return self.ask(now, plan.epoch, bit);
            }
            self.seen |= bit;
            if plan.set.contains(channel) {
                self.open |= bit;
            }
        }
        self.reply |= bit;
    }

    fn on_change(&mut self, now: Time, plan: &Plan) {
        if let Some(i) = self.pending.iter().position(|p| p.generation == plan.base) {
            self.pending.truncate(i + 1);
            self.committed = plan.base;
        } else {
            self.pending.clear();
        }
        // What is buffered of a dead channel still has its place; what comes later has lost it.
        self.open &= !plan.dead;
        self.pending.push_back(plan.clone());
        self.dead = self.announced_dead();
        self.changing = true;
        if self.pending.len() > MAX_PENDING {
            self.stats.unknown += 1;
            self.ask_again(now);
        }
    }

    /// Resets to a new epoch; what is buffered is delivered first.
    fn begin(&mut self, plan: &Plan) {
        let Ok(srr) = Srr::starting_at(&plan.set, plan.start) else { return };
        self.changing = false;
        self.dead = u64::MAX;
        while let Some(packet) = self.next_packet() {
            self.out.push_back(packet);
        }
        for id in set::bits(u64::MAX) {
            self.flush(id);
            let c = &mut self.channel[id.index()];
            c.saved = plan.start;
            c.arrivals = Arrivals::default();
            c.strikes = 0;
        }
        if let Some(old) = self.epoch {
            if self.recent.len() == RECENT_EPOCHS {
                self.recent.pop_front();
            }
            self.recent.push_back(old);
        }
        self.epoch = Some(plan.epoch);
        self.srr = srr;
        self.set = plan.set.clone();
        self.generation = plan.generation;
        self.committed = plan.generation;
        self.pending.clear();
        self.dead = 0;
        self.open = 0;
        self.seen = 0;
        self.older_since = None;
        self.asking = None;
        self.ask_at = Time::MAX;
        self.ask_span = self.config.request_interval;
        self.stats.epochs += 1;
    }

    /// Delivers whatever `id` still holds.
    fn flush(&mut self, id: ChannelId) {
        let c = &mut self.channel[id.index()];
        for item in c.queue.drain(..) {
            if let Item::Data(packet) = item {
                self.stats.delivered += 1;
                self.stats.delivered_bytes += packet.size().as_u64();
                self.out.push_back(packet);
            }
        }
        (c.bytes, c.packets) = (0, 0);
    }

    /// Whether a message of `epoch` that names channel `named` is for this epoch; asks for a reset where it should be.
    fn accept(&mut self, now: Time, channel: ChannelId, named: ChannelId, epoch: u32) -> bool {
        if named != channel || set::bit(channel) == 0 {
            self.stats.miswired += 1;
            return false;
        }
        self.on_heard(now, set::bit(channel));
        if self.epoch == Some(epoch) {
            self.strays = 0;
            return true;
        }
        self.strays = self.strays.saturating_add(1);
        if self.recent.contains(&epoch) && self.strays < STRAYS {
            self.stats.old_epoch += 1;
        } else {
            self.stats.unknown += 1;
            self.ask(now, epoch, set::bit(channel));
        }
        false
    }

    // ---------------------------------------------------------------- logical reception

    /// The next packet in the sender's order, if it is here.
    #[inline]
    pub fn poll_deliver(&mut self) -> Option<P> {
        if !self.out.is_empty() {
            return self.out.pop_front();
        }
        self.next_packet()
    }

    #[inline]
    fn next_packet(&mut self) -> Option<P> {
        let mut skipped = 0;
        let from = self.srr.round();
        loop {
            if self.changing {
                let known = self.enter_round();
                // What members that left still held is older than what this round brings.
                if !self.out.is_empty() {
                    return self.out.pop_front();
                }
                if !known {
                    return None;
                }
            }
            let id = self.srr.select();
            let c = &mut self.channel[id.index() & (ChannelId::LIMIT - 1)];
            if serial(c.saved, self.srr.round()) <= 0 {
                match c.queue.pop_front() {
                    Some(Item::Data(packet)) => {
                        let len = packet.size();
                        c.bytes = c.bytes.wrapping_sub(len.as_u64() as u32);
                        c.packets = c.packets.wrapping_sub(1);
                        self.srr.update(len);
                        self.stats.delivered += 1;
                        self.stats.delivered_bytes += len.as_u64();
                        if self.config.credits {
                            self.on_room(id);
                        }
                        return Some(packet);
                    }
                    Some(Item::Mark(mark)) => {
                        self.process_marker(id, mark);
                        skipped = 0;
                        continue;
                    }
                    None if self.dead & set::bit(id) == 0 => return None,
                    None => {}
                }
            }
            // Striping §5, condition C1 (Skipline).
            self.stats.skips += 1;
            self.srr.advance();
            skipped += 1;
            if skipped > ChannelId::LIMIT {
                if !self.jump(from) {
                    return None;
                }
                skipped = 0;
            }
        }
    }

    /// `ProcessMarker`: its turn has come on channel `id`.
    #[cold]
    fn process_marker(&mut self, id: ChannelId, mark: Mark) {
        let here = self.srr.round();
        let behind = serial(mark.round, here);
        if behind < 0 {
            // One round may be a frame that overtook its marker, on a channel that is not quite FIFO; it passes.
            let c = &mut self.channel[id.index()];
            c.strikes += 1;
            if behind < -1 || c.strikes >= STRIKES {
                c.strikes = 0;
                self.stats.ahead += 1;
                self.ask_soon();
            }
            return;
        }
        // The counter in terms of this side's quantum: it moves with the quantum when the generation changes.
        let deficit = i64::from(mark.deficit) - i64::from(mark.quantum) + i64::from(self.srr.quantum(id));
        let changed_unnoticed = mark.round == here && self.pending.iter().any(|p| p.generation == mark.generation);
        if changed_unnoticed || (mark.generation == self.generation && i64::from(mark.deficit) != deficit) {
            self.stats.unknown += 1;
            self.ask_soon();
        }
        // Out of range it can be only until the change that the marker belongs to has come.
        let deficit =
            if mark.round == here { deficit.clamp(1, i64::from(self.srr.quantum(id)).max(1)) } else { deficit };
        self.srr.set_deficit(id, deficit);
        self.channel[id.index()].saved = mark.round;
    }

    /// All channels were skipped: goes on to the first round in which one is served. False when there is none, or none
    /// after `from`: rounds that lie all around the circle of serial numbers would lead on for ever.
    #[cold]
    fn jump(&mut self, from: u32) -> bool {
        let here = self.srr.round();
        let mut first: Option<i32> = None;
        for id in set::bits(self.srr.mask()) {
            let c = &self.channel[id.index()];
            let ahead = serial(c.saved, here);
            if !c.queue.is_empty() || self.dead & set::bit(id) == 0 {
                first = Some(first.map_or(ahead, |f| f.min(ahead)));
            }
        }
        let start = self.pending.front().map(|p| serial(p.start, here)).filter(|&s| s >= 0);
        let Some(ahead) = first.into_iter().chain(start).min() else { return false };
        if ahead > 0 {
            let round = here.wrapping_add(ahead as u32);
            if serial(round, from) <= 0 {
                return false;
            }
            self.srr.jump(round);
        }
        true
    }

    /// Applies announced changes whose round has come. False while it is not known whether one is in force.
    #[cold]
    fn enter_round(&mut self) -> bool {
        while let Some(plan) = self.pending.front() {
            if serial(self.srr.round(), plan.start) < 0 {
                return true;
            }
            if newer(plan.generation, self.committed) {
                return false;
            }
            let Some(plan) = self.pending.pop_front() else { break };
            self.apply(&plan);
        }
        self.changing = false;
        true
    }

    fn apply(&mut self, plan: &Plan) {
        let removed = self.set.mask() & !plan.set.mask();
        for id in set::bits(removed) {
            self.flush(id);
        }
        for id in set::bits(plan.set.mask() & !self.set.mask()) {
            self.channel[id.index()].saved = self.srr.round();
        }
        // Never empty: the decoder admits no empty plan.
        let _ = self.srr.adopt(&plan.set);
        self.set = plan.set.clone();
        self.generation = plan.generation;
        self.open &= self.set.mask() | self.pending.iter().fold(0, |m, p| m | p.set.mask());
        self.dead = self.announced_dead();
        self.reply |= self.open & self.set.mask();
        self.stats.changes += 1;
    }

    fn announced_dead(&self) -> u64 {
        self.pending.iter().fold(0, |m, p| m | p.dead) & self.set.mask()
    }

    fn on_room(&mut self, id: ChannelId) {
        let c = &self.channel[id.index()];
        let (bytes, _) = c.arrivals.grant((c.bytes, c.packets), self.limit);
        if c.arrivals.untold(bytes) >= self.limit.0 / 2 {
            self.reply |= set::bit(id);
        }
    }

    // ---------------------------------------------------------------- what it knows

    /// The sender's epoch, once known.
    pub fn epoch(&self) -> Option<u32> {
        self.epoch
    }

    /// The generation of the channel set that this side has come to.
    pub fn generation(&self) -> u16 {
        self.generation
    }

    /// Packets and bytes that wait on `channel`.
    pub fn buffered(&self, channel: ChannelId) -> (u32, Bytes) {
        self.channel.get(channel.index()).map_or((0, Bytes::ZERO), |c| (c.packets, Bytes::new(u64::from(c.bytes))))
    }

    /// Packets that wait on all channels.
    pub fn buffered_packets(&self) -> u64 {
        self.channel.iter().map(|c| u64::from(c.packets)).sum::<u64>() + self.out.len() as u64
    }

    /// The discipline's state.
    pub fn discipline(&self) -> &Srr {
        &self.srr
    }

    /// The discipline's state, to corrupt it in a test of self-stabilisation.
    #[doc(hidden)]
    pub fn discipline_mut(&mut self) -> &mut Srr {
        &mut self.srr
    }

    /// Counters.
    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }
}
