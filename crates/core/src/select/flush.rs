//! Flows that move only when what they have on the old link is known to have arrived.
//!
//! What it is: the conversation move of IEEE 802.1AX between any policy that chooses one link and the links' queues. A
//! flow that the policy wants elsewhere goes there at once if the last packet that it has on its link is confirmed. Else
//! a marker is sent behind that packet, and the flow's packets are held until the marker's answer is there: what was sent
//! before it has arrived then, or never will. Held no longer than [`Config::wait`]: then the flow stays, and nothing is
//! reordered either; only from a link that is down it goes then all the same.
//!
//! Source: IEEE 802.1AX-2014 section 6.5 (Marker protocol) and 6.2.4 (conversations keep their order). In a bond towards a
//! peer the marker is an echo request in its FIFO place, its answer the reply; in a bond of Ethernet links they are Marker
//! and Marker Response PDUs. Departures: flows are buckets of a keyed hash; markers are also sent unasked, one round trip
//! after the last, so that a flow that paused is found confirmed and moves without being held; a marker tells of all
//! packets of its link before it, not of one conversation.
//!
//! | symbol | field |
//! |---|---|
//! | the number on its link of a flow's last packet | `Flow::last` |
//! | packets of a link: queued, out of its queue, known to have arrived or be lost | `queued`, `left`, `confirmed` |
//! | the first and the last number that a held flow waits for | `want` |
//!
//! Cost: O(1) a packet, O(flows on the move) an answer; 16 bytes a bucket, [`BUCKETS`] buckets. Invariants: on links that
//! keep their order no flow is ever reordered while its link is up, whatever is lost and however late; nor when its link
//! goes down, if that brings nothing later than [`Config::wait`] after; held bytes are at most the bound; no more than
//! `UNDER_WAY` markers of a link are under way.

use crate::options::{Field, Kind, OptionSpec, Table, Value, option};
use crate::set::LinkSet;
use crate::units::{ChannelId, Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Buckets of flows; those that share one move together.
pub const BUCKETS: usize = 1 << 14;
/// Most flows that are held at a time.
const MOVES: usize = 1024;
/// Most markers of a link that wait for their answers.
const UNDER_WAY: usize = 8;
/// Unasked markers of a link have at least this distance.
const SPACING: Span = Span::from_millis(10);
/// How long an answer is waited for where none has come yet.
const FIRST_ANSWER: Span = Span::from_millis(50);
/// Longest pause between markers that nobody answers.
const LONGEST_PAUSE: Span = Span::from_secs(1);
/// A link from which a flow could not be moved in time is left alone for so many times [`Config::wait`].
const PATIENCE: u64 = 8;

const NONE: u16 = u16::MAX;
const NIL: u32 = u32::MAX;
const NO_LINK: u8 = u8::MAX;

/// The settings of marker flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Longest that a flow's packets are held; then the flow stays where it is. Zero: they are never held, and the flow
    /// moves only if nothing of it is under way. Default 50 ms.
    pub wait: Span,
}

impl Default for Config {
    fn default() -> Config {
        Config { wait: Span::from_millis(50) }
    }
}

/// The options, of every policy with `flush`.
pub const OPTIONS: Table<Config> = Table(&[option!(
    OptionSpec::new(
        "flush_wait",
        Kind::Span(Span::ZERO, Span::from_secs(10), None),
        "longest that a flow's packets are held for that; then the flow stays where it is"
    ) => wait
)]);

/// Whether there is a flush.
impl Field for Option<Config> {
    fn value(&self) -> Value {
        Value::Flag(self.is_some())
    }

    fn take(&mut self, value: Value) {
        *self = (value == Value::Flag(true)).then(|| self.unwrap_or_default());
    }
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<T> {
    /// Into the queue of this link.
    Queue(ChannelId, T),
    /// It is held, or waits for [`Flush::poll_release`].
    Held,
    /// There is no room to hold it, and its flow's link is down: it is to be dropped.
    Refused(T),
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Flows that moved.
    pub moved: u64,
    /// Flows that were held and stayed: no answer in time, or no room.
    pub stayed: u64,
    /// Packets that were held.
    pub held: u64,
    /// Markers sent.
    pub markers: u64,
}

/// A bucket of flows.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// The number of its last packet on its link.
    last: u64,
    link: u8,
    /// Its place among the moves; [`NONE`]: it does not move.
    moving: u16,
}

/// A flow whose packets are held.
#[derive(Clone, Copy, Debug)]
struct Move {
    flow: u16,
    target: ChannelId,
    since: Time,
    /// Its packets.
    first: u32,
    last: u32,
    /// Its neighbours by `since`; `newer` also links free places.
    older: u16,
    newer: u16,
}

#[derive(Debug)]
struct Held<T> {
    item: Option<T>,
    cost: usize,
    /// The next packet of the flow, or the next free place.
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Marker {
    token: u32,
    number: u64,
    sent: Time,
}

#[derive(Clone, Debug)]
struct Link {
    queued: u64,
    left: u64,
    confirmed: u64,
    want: Option<(u64, u64)>,
    under_way: VecDeque<Marker>,
    /// From a marker to its answer, smoothed.
    takes: Option<Span>,
    /// How long the present answer is waited for.
    resend: Span,
    last_marker: Time,
    down_since: Time,
    /// No flow is held before this.
    left_alone: Time,
}

impl Link {
    fn new() -> Link {
        Link {
            queued: 0,
            left: 0,
            confirmed: 0,
            want: None,
            under_way: VecDeque::with_capacity(UNDER_WAY),
            takes: None,
            resend: FIRST_ANSWER,
            last_marker: Time::ZERO,
            down_since: Time::ZERO,
            left_alone: Time::ZERO,
        }
    }

    /// When an unasked marker, or one in the place of those that were not answered, is to go.
    fn next_marker(&self) -> Option<Time> {
        let pause =
            if self.under_way.is_empty() { self.takes.map_or(SPACING, |t| t.max(SPACING)) } else { self.resend };
        (self.left > self.confirmed).then(|| self.last_marker + pause)
    }

    /// Whether a marker is to go now.
    fn is_due(&self, now: Time) -> bool {
        let asked = self.want.is_some_and(|(first, _)| self.left >= first) && self.under_way.len() < UNDER_WAY;
        asked || self.next_marker().is_some_and(|at| at <= now)
    }

    /// Asks for a marker behind packet `number`.
    fn ask(&mut self, number: u64) {
        if self.under_way.back().is_none_or(|marker| marker.number < number) {
            let (first, last) = self.want.unwrap_or((number, number));
            self.want = Some((first.min(number), last.max(number)));
        }
    }
}

/// Holds flows until they may move. `T`: what a packet is.
#[derive(Debug)]
pub struct Flush<T> {
    config: Config,
    /// Bytes that may be held.
    limit: usize,
    bytes: usize,
    flows: Box<[Flow]>,
    moves: Vec<Move>,
    free_move: u16,
    oldest: u16,
    newest: u16,
    held: Vec<Held<T>>,
    free: u32,
    released: VecDeque<(ChannelId, u16, T)>,
    /// Packets of flows whose link went down while they were held: the policy is to be asked again.
    again: VecDeque<T>,
    links: Vec<Link>,
    usable: LinkSet,
    token: u32,
    counters: Counters,
}

impl<T> Flush<T> {
    /// With these settings; at most `limit` bytes are held. Markers are numbered from `token` on.
    pub fn new(config: Config, limit: usize, token: u32) -> Flush<T> {
        Flush {
            config,
            limit,
            bytes: 0,
            flows: vec![Flow { last: 0, link: NO_LINK, moving: NONE }; BUCKETS].into_boxed_slice(),
            moves: Vec::new(),
            free_move: NONE,
            oldest: NONE,
            newest: NONE,
            held: Vec::new(),
            free: NIL,
            released: VecDeque::new(),
            again: VecDeque::new(),
            links: Vec::new(),
            usable: LinkSet::EMPTY,
            token,
            counters: Counters::default(),
        }
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The bytes that are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The links that can be used. A link that went down has its packets' queue emptied: tell that by
    /// [`Flush::on_left`], put those packets, of all such links,
    /// through [`Flush::place`] again, and only then what [`Flush::poll_again`] gives.
    pub fn on_links(&mut self, now: Time, usable: LinkSet) {
        while self.links.len() < usable.end() {
            self.links.push(Link::new());
        }
        let went = self.usable - usable;
        self.usable = usable;
        for link in went {
            let state = &mut self.links[link.index()];
            state.down_since = now;
            (state.want, state.resend) = (None, FIRST_ANSWER);
            state.under_way.clear();
        }
        let mut next = self.oldest;
        while let Some(step) = self.moves.get(usize::from(next)) {
            let (at, link) = (next, self.flows[usize::from(step.flow)].link);
            next = step.newer;
            if link != NO_LINK && went.contains(ChannelId(link)) {
                let mut packet = self.end(at);
                while let Some((item, after)) = self.take_held(packet) {
                    self.again.push_back(item);
                    packet = after;
                }
            }
        }
    }

    /// A packet whose flow was held when its link went down.
    pub fn poll_again(&mut self) -> Option<T> {
        self.again.pop_front()
    }

    /// Where a packet of bucket `flow` goes for which the policy chose `wanted`, a usable link. `cost`: the bytes that
    /// holding it takes. If it is queued, [`Flush::on_queued`] is to be told.
    #[inline]
    pub fn place(&mut self, now: Time, flow: u16, wanted: ChannelId, cost: usize, item: T) -> Place<T> {
        let f = self.flows[usize::from(flow) % BUCKETS];
        if f.moving == NONE && (f.link == wanted.0 || f.link == NO_LINK) {
            return Place::Queue(wanted, item);
        }
        self.place_elsewhere(now, flow % BUCKETS as u16, wanted, cost, item)
    }

    fn place_elsewhere(&mut self, now: Time, flow: u16, wanted: ChannelId, cost: usize, item: T) -> Place<T> {
        let f = self.flows[usize::from(flow)];
        let (link, is_up) = (ChannelId(f.link), self.usable.contains(ChannelId(f.link)));
        let room = self.bytes + cost <= self.limit;
        if let Some(step) = self.moves.get_mut(usize::from(f.moving)) {
            step.target = wanted;
            if is_up && (wanted == link || !room) {
                self.counters.stayed += u64::from(wanted != link);
                self.release(f.moving, link);
                self.released.push_back((link, flow, item));
                return Place::Held;
            }
            if !room {
                return Place::Refused(item);
            }
            self.hold(f.moving, cost, item);
            return Place::Held;
        }
        let Some(state) = self.links.get_mut(link.index()) else { return Place::Queue(wanted, item) };
        let is_over = !is_up && now.since(state.down_since) >= self.config.wait;
        if state.confirmed >= f.last || is_over {
            self.counters.moved += 1;
            return Place::Queue(wanted, item);
        }
        let in_time = state.takes.is_none_or(|takes| takes <= self.config.wait) && now >= state.left_alone;
        let held = if is_up { self.config.wait > Span::ZERO && in_time && room } else { room };
        if held && let Some(at) = self.begin(now, flow, wanted) {
            if let Some(state) = self.links.get_mut(link.index()).filter(|_| is_up) {
                state.ask(f.last);
            }
            self.hold(at, cost, item);
            return Place::Held;
        }
        if is_up { Place::Queue(link, item) } else { Place::Refused(item) }
    }

    /// A packet of `flow` went into the queue of `link`.
    #[inline]
    pub fn on_queued(&mut self, flow: u16, link: ChannelId) {
        let Some(state) = self.links.get_mut(link.index()) else { return };
        state.queued += 1;
        let f = &mut self.flows[usize::from(flow) % BUCKETS];
        (f.link, f.last) = (link.0, state.queued);
    }

    /// The first `packets` of the queue of `link` left it: sent, or dropped.
    #[inline]
    pub fn on_left(&mut self, link: ChannelId, packets: u64) {
        if let Some(state) = self.links.get_mut(link.index()) {
            state.left = (state.left + packets).min(state.queued);
        }
    }

    /// The links on which a marker is to go now, in front of what waits.
    pub fn due(&self, now: Time) -> LinkSet {
        let due = self.usable.iter().filter(|link| self.links.get(link.index()).is_some_and(|l| l.is_due(now)));
        due.fold(LinkSet::EMPTY, LinkSet::with)
    }

    /// A marker goes on `link` now: its token.
    pub fn mark(&mut self, now: Time, link: ChannelId) -> Option<u32> {
        let state = self.links.get_mut(link.index())?;
        let again = state.under_way.back().is_some_and(|_| now >= state.last_marker + state.resend);
        if again {
            state.resend = state.resend.times(2).min(LONGEST_PAUSE);
        }
        if state.under_way.len() >= UNDER_WAY {
            state.under_way.pop_front();
        }
        self.token = self.token.wrapping_add(1);
        state.under_way.push_back(Marker { token: self.token, number: state.left, sent: now });
        state.last_marker = now;
        state.want = state.want.filter(|(_, last)| *last > state.left).map(|(_, last)| (last, last));
        self.counters.markers += 1;
        Some(self.token)
    }

    /// A marker was answered: all packets of its link before it have arrived, or are lost. `false`: no such marker is
    /// under way.
    pub fn on_answer(&mut self, now: Time, token: u32) -> bool {
        let found = self
            .links
            .iter()
            .enumerate()
            .find_map(|(n, link)| Some((n, link.under_way.iter().position(|marker| marker.token == token)?)));
        let Some((n, at)) = found else { return false };
        let link = &mut self.links[n];
        let marker = link.under_way[at];
        drop(link.under_way.drain(..=at));
        link.confirmed = link.confirmed.max(marker.number);
        let took = now.since(marker.sent).as_nanos();
        let smooth = link.takes.map_or(took, |old| old.as_nanos() - old.as_nanos() / 8 + took / 8);
        link.takes = Some(Span::from_nanos(smooth));
        link.resend = (Span::from_nanos(smooth).times(2) + SPACING.times(2)).min(LONGEST_PAUSE);
        let mut next = self.oldest;
        while let Some(step) = self.moves.get(usize::from(next)) {
            let (at, target, flow) = (next, step.target, self.flows[usize::from(step.flow)]);
            next = step.newer;
            if usize::from(flow.link) == n && self.links[n].confirmed >= flow.last {
                let target = if self.usable.contains(target) { target } else { ChannelId(flow.link) };
                self.counters.moved += u64::from(target.0 != flow.link);
                self.release(at, target);
            }
        }
        true
    }

    /// A packet that is held no longer, its link, which is usable, and its bucket. If it is queued, [`Flush::on_queued`]
    /// is to be told. To be asked until there is none, after every other call.
    pub fn poll_release(&mut self) -> Option<(ChannelId, u16, T)> {
        self.released.pop_front()
    }

    /// When [`Flush::handle_timeout`] is to be called, or a marker becomes due on a link of `open`: those that take
    /// frames now.
    pub fn poll_timeout(&self, open: LinkSet) -> Option<Time> {
        let oldest = self.moves.get(usize::from(self.oldest)).filter(|_| !self.usable.is_empty());
        let held = oldest.map(|step| step.since + self.config.wait);
        let open = self.usable & open;
        let markers = open.iter().filter_map(|link| self.links.get(link.index())?.next_marker());
        held.into_iter().chain(markers).min()
    }

    /// Releases the flows that were held long enough.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(step) = self.moves.get(usize::from(self.oldest)).copied() {
            if step.since + self.config.wait > now {
                break;
            }
            let link = ChannelId(self.flows[usize::from(step.flow)].link);
            let Some(other) = self.usable.first() else { break };
            if self.usable.contains(link) {
                self.counters.stayed += 1;
                if let Some(state) = self.links.get_mut(link.index()) {
                    state.left_alone = now + self.config.wait.times(PATIENCE);
                }
                self.release(self.oldest, link);
            } else {
                self.counters.moved += 1;
                let target = if self.usable.contains(step.target) { step.target } else { other };
                self.release(self.oldest, target);
            }
        }
    }

    /// A new move of `flow`, if there is room for one.
    fn begin(&mut self, now: Time, flow: u16, target: ChannelId) -> Option<u16> {
        let step = Move { flow, target, since: now, first: NIL, last: NIL, older: self.newest, newer: NONE };
        let at = if let Some(free) = self.moves.get_mut(usize::from(self.free_move)) {
            let at = self.free_move;
            self.free_move = free.newer;
            *free = step;
            at
        } else if self.moves.len() < MOVES {
            self.moves.push(step);
            self.moves.len() as u16 - 1
        } else {
            return None;
        };
        match self.moves.get_mut(usize::from(self.newest)) {
            Some(newest) => newest.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
        self.flows[usize::from(flow)].moving = at;
        Some(at)
    }

    /// Ends the move `at`; returns its first packet.
    fn end(&mut self, at: u16) -> u32 {
        let Move { flow, first, older, newer, .. } = self.moves[usize::from(at)];
        match self.moves.get_mut(usize::from(older)) {
            Some(step) => step.newer = newer,
            None => self.oldest = newer,
        }
        match self.moves.get_mut(usize::from(newer)) {
            Some(step) => step.older = older,
            None => self.newest = older,
        }
        self.moves[usize::from(at)].newer = self.free_move;
        self.free_move = at;
        self.flows[usize::from(flow)].moving = NONE;
        first
    }

    fn hold(&mut self, at: u16, cost: usize, item: T) {
        let held = Held { item: Some(item), cost, next: NIL };
        let place = if let Some(free) = self.held.get_mut(self.free as usize) {
            let place = self.free;
            self.free = free.next;
            *free = held;
            place
        } else {
            self.held.push(held);
            self.held.len() as u32 - 1
        };
        self.bytes += cost;
        self.counters.held += 1;
        let step = &mut self.moves[usize::from(at)];
        let last = core::mem::replace(&mut step.last, place);
        match self.held.get_mut(last as usize) {
            Some(before) => before.next = place,
            None => step.first = place,
        }
    }

    /// Takes the held packet `at` out, and says which is next.
    fn take_held(&mut self, at: u32) -> Option<(T, u32)> {
        let held = self.held.get_mut(at as usize)?;
        let item = held.item.take()?;
        self.bytes -= held.cost;
        let next = core::mem::replace(&mut held.next, self.free);
        self.free = at;
        Some((item, next))
    }

    /// Ends the move `at`: its packets go to `link`.
    fn release(&mut self, at: u16, link: ChannelId) {
        let flow = self.moves[usize::from(at)].flow;
        let mut packet = self.end(at);
        while let Some((item, after)) = self.take_held(packet) {
            self.released.push_back((link, flow, item));
            packet = after;
        }
    }
}

#[cfg(test)]
mod tests;
