//! The connections of a flow, and what an application over them is.
//!
//! Of many connections only those are polled to which something happened, and the next timer is found without asking all.

use super::Transfers;
use super::pair::{End, Pair};
use crate::endpoint::Outgoing;
use crate::packet::Body;
use crate::results::VideoResult;
use crate::tcp::{Config, Connection};
use fairspan_core::rng::Rng;
use fairspan_core::shared::Shared;
use fairspan_core::units::Time;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

/// An application that works with connections.
pub trait Application: std::fmt::Debug + Send {
    /// The flow begins.
    fn start(&mut self, now: Time, pairs: &mut Pairs);

    /// Nothing new is to be begun. What has no end of its own is cut off.
    fn stop(&mut self, now: Time, pairs: &mut Pairs);

    /// An end of a connection got bytes, or sent some, or changed its state. What it wrote is already on its way.
    fn serve(&mut self, now: Time, pair: &mut Pair);

    /// A connection is over, in order or not.
    fn over(&mut self, now: Time, pair: &Pair) {
        let _ = (now, pair);
    }

    /// The instant of `poll_timeout` has come.
    fn handle_timeout(&mut self, now: Time, pairs: &mut Pairs) {
        let _ = (now, pairs);
    }

    /// When a pause ends.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Its transfers, if it has any that end.
    fn transfers(&self) -> Option<&Transfers> {
        None
    }

    /// What the viewer of a video saw until now.
    fn video(&self, now: Time) -> Option<VideoResult> {
        let _ = now;
        None
    }

    /// The measurement begins.
    fn begin(&mut self, now: Time) {
        let _ = now;
    }
}

/// The connections of a flow.
#[derive(Debug)]
pub struct Pairs {
    settings: Shared<Config>,
    /// Initial sequence numbers come from here.
    rng: Rng,
    /// Number of the first of `slots`.
    first: u32,
    slots: VecDeque<Slot>,
    /// Numbers of connections to be polled, in the order in which something happened to them.
    touched: VecDeque<u32>,
    timers: Timers,
    /// The ends that are here.
    ends: &'static [End],
    /// What connections that are over counted.
    gone: Counters,
    /// What was counted in the warm-up.
    pub(super) before: Counters,
    /// The sender's window in bytes and smoothed round trip when the last connection was over.
    pub(super) last: (u64, f64),
}

#[derive(Debug)]
struct Slot {
    pair: Option<Box<Pair>>,
    touched: bool,
    due: Time,
    /// When the entry comes that the timers have for it, at `due` or before; others are stale.
    queued: Time,
}

/// When which connection's timer runs out: of many connections, the next one is found without asking all.
#[derive(Debug, Default)]
struct Timers {
    heap: BinaryHeap<Reverse<(Time, u32)>>,
    /// Numbers of those that have run out; empty but for a moment.
    expired: Vec<u32>,
}

impl Timers {
    /// A connection's timer was set.
    #[inline]
    fn set(&mut self, number: u32, slot: &mut Slot) {
        if slot.due < slot.queued {
            slot.queued = slot.due;
            self.heap.push(Reverse((slot.due, number)));
        }
    }

    /// Brings the first entry up to date.
    #[inline]
    fn settle(&mut self, first: u32, slots: &mut VecDeque<Slot>) {
        while let Some(mut entry) = self.heap.peek_mut() {
            let (time, number) = entry.0;
            let slot = slots.get_mut(number.wrapping_sub(first) as usize).filter(|slot| slot.queued == time);
            match slot {
                Some(slot) if slot.due == time => return,
                Some(slot) => {
                    slot.queued = slot.due;
                    if slot.due < Time::MAX {
                        *entry = Reverse((slot.due, number));
                        continue;
                    }
                }
                None => {}
            }
            PeekMut::pop(entry);
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) retransmitted: u64,
    pub(super) timeouts: u64,
    pub(super) recoveries: u64,
}

impl Counters {
    fn add(&mut self, pair: &Pair) {
        for end in End::BOTH {
            let stats = pair.end(end).stats();
            self.retransmitted += stats.retransmitted;
            self.timeouts += stats.timeouts;
            self.recoveries += stats.recoveries;
        }
    }
}

impl Pairs {
    /// None yet.
    pub fn new(settings: Shared<Config>, rng: Rng) -> Pairs {
        Pairs {
            settings,
            rng,
            first: 0,
            slots: VecDeque::new(),
            touched: VecDeque::new(),
            timers: Timers::default(),
            ends: &End::BOTH,
            gone: Counters::default(),
            before: Counters::default(),
            last: (0, 0.0),
        }
    }

    /// One end is elsewhere.
    pub(super) fn silence(&mut self, end: End) {
        self.ends = if end == End::Sender { &[End::Receiver] } else { &[End::Sender] };
    }

    /// The ends that are here.
    pub(super) fn ends(&self) -> &'static [End] {
        self.ends
    }

    /// Opens the next connection, from `opener`; the other end waits for it.
    pub fn open(&mut self, now: Time, opener: End) -> &mut Pair {
        let number = self.first.wrapping_add(self.slots.len() as u32);
        let mut ends = [(); 2].map(|()| Connection::shared(self.settings.clone(), now, self.rng.next_u64() as u32));
        ends[1 - opener as usize].listen(now);
        ends[opener as usize].open(now);
        self.slots.push_back(Slot { pair: None, touched: true, due: Time::MAX, queued: Time::MAX });
        self.touched.push_back(number);
        let slot = self.slots.len() - 1;
        self.slots[slot].pair.insert(Box::new(Pair::new(number, now, ends)))
    }

    /// The connection with this number, unless it is over. It is polled after this.
    pub fn get(&mut self, number: u32) -> Option<&mut Pair> {
        let slot = self.slots.get_mut(number.wrapping_sub(self.first) as usize)?;
        let pair = slot.pair.as_mut()?;
        if !std::mem::replace(&mut slot.touched, true) {
            self.touched.push_back(number);
        }
        Some(pair)
    }

    /// Resets all connections from `end`.
    pub fn abort_all(&mut self, now: Time, end: End) {
        for offset in 0..self.slots.len() as u32 {
            if let Some(pair) = self.get(self.first.wrapping_add(offset)) {
                pair.end_mut(end).abort(now);
            }
        }
    }

    pub(super) fn open_pairs(&self) -> impl Iterator<Item = &Pair> {
        self.slots.iter().filter_map(|slot| slot.pair.as_deref())
    }

    pub(super) fn counters(&self) -> Counters {
        let mut sum = self.gone;
        self.open_pairs().for_each(|pair| sum.add(pair));
        sum
    }

    /// The next segment of the first of the touched connections that has one.
    pub(super) fn poll_transmit(&mut self, now: Time, application: &mut dyn Application) -> Option<Outgoing> {
        let ends = self.ends();
        while let Some(&number) = self.touched.front() {
            let Some(slot) = self.slots.get_mut(number.wrapping_sub(self.first) as usize) else {
                self.touched.pop_front();
                continue;
            };
            let Some(pair) = slot.pair.as_mut() else {
                self.touched.pop_front();
                continue;
            };
            loop {
                for &end in ends {
                    let connection = pair.end_mut(end);
                    if let Some(segment) = connection.poll_transmit(now) {
                        return Some(Outgoing {
                            reverse: end == End::Receiver,
                            connection: number,
                            size: connection.header_length(&segment) + segment.length,
                            body: Body::Segment(segment),
                        });
                    }
                }
                application.serve(now, pair);
                End::BOTH.into_iter().for_each(|end| pair.flush(now, end));
                if !pair.take_moved() {
                    break;
                }
            }
            slot.touched = false;
            slot.due = pair.poll_timeout(ends);
            self.touched.pop_front();
            if pair.is_over(ends) {
                self.gone.add(pair);
                let sender = pair.end(End::Sender);
                self.last = (sender.window(), sender.smoothed_rtt().as_secs_f64());
                application.over(now, pair);
                slot.pair = None;
                slot.due = Time::MAX;
                while self.slots.front().is_some_and(|slot| slot.pair.is_none()) {
                    self.slots.pop_front();
                    self.first = self.first.wrapping_add(1);
                }
            } else {
                self.timers.set(number, slot);
            }
        }
        self.timers.settle(self.first, &mut self.slots);
        None
    }

    /// The numbers of the connections whose timers have run out, in their order.
    pub(super) fn expired(&mut self, now: Time) -> Vec<u32> {
        let mut expired = std::mem::take(&mut self.timers.expired);
        loop {
            self.timers.settle(self.first, &mut self.slots);
            let Some(&Reverse((_, number))) = self.timers.heap.peek().filter(|entry| entry.0.0 <= now) else { break };
            self.timers.heap.pop();
            self.slots[number.wrapping_sub(self.first) as usize].queued = Time::MAX;
            expired.push(number);
        }
        expired.sort_unstable_by_key(|number| number.wrapping_sub(self.first));
        expired
    }

    /// Gives the list of [`Pairs::expired`] back, for the next time.
    pub(super) fn give_back(&mut self, expired: Vec<u32>) {
        self.timers.expired = expired;
    }

    /// When the first of their timers runs out; [`Time::MAX`] where none is set.
    pub(super) fn poll_timeout(&self) -> Time {
        self.timers.heap.peek().map_or(Time::MAX, |entry| entry.0.0)
    }
}
