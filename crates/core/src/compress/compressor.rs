//! What the sender remembers: its flows, and the references that the peer has.
//!
//! A flow is known by its flow bucket, two flows a bucket. From its second packet on it may found a reference: that packet goes with
//! its headers whole, and says that it is one. While nobody knows whether it arrived, the flow's packets go whole. Then they are coded against it, and
//! every now and then one of them renews it: it becomes the flow's next reference, once it is known to have arrived. So differences
//! stay small, and fields that a packet once needed are not sent for ever. A reference that may be lost is given up, and costs
//! nothing but that the flow goes on as before.
//!
//! | symbol | meaning |
//! |---|---|
//! | place | one of [`PLACES`] where both ends keep a reference |
//! | turn | how often a place was used; place and turn make the number of a reference |
//! | confirmed, awaited | the flow's reference that the peer has, and the one of which nothing was told yet |
//! | least | the fields that packets have in any case until the next reference ([`code`]) |
//!
//! Cost: O(1) a packet. Memory: 1024 references, and two flows for each of 1024 buckets. Invariants: a packet is coded only against a
//! reference whose own frame arrived; a number comes again after 64 times [`REST`] at the earliest.

use super::code::{self, Coded};
use super::form::{Form, Standing};
use super::headers::{Headers, Reference};
use super::number::{PLACES, TURNS, number_of, place_of, turn_of};
use crate::units::{ChannelId, Span, Time};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// How long a place rests when its reference was given up: what was coded against it may be under way for as long.
const REST: Span = Span::from_secs(2);
/// Flow buckets that are told apart, and flows in each.
const BUCKETS: usize = 1024;
const WAYS: usize = 2;
/// A flow that is quiet for so long makes room for another of its bucket, or for another's reference.
const QUIET: Span = Span::from_secs(1);
/// How long the word on a frame is awaited. Later than this a packet is not sent again either, in most cases.
const AWAITED_FOR: Span = Span::from_secs(3);
/// So many numbers of a channel have places of their own among those that are awaited.
const AWAITED: usize = 512;
/// How old a reference is when it is renewed, in time and packets.
const RENEW_AFTER: Span = Span::from_millis(100);
const RENEW_PACKETS: u32 = 16;
/// The same where packets have become longer than they were.
const SOON_AFTER: Span = Span::from_millis(20);
/// Of so many places at least those who have a reference leave the rest to others.
const SPARED: usize = PLACES / 4;
/// How many places are looked at for one that is no longer used.
const LOOKED_AT: usize = 8;

/// No place.
const NONE: u16 = u16::MAX;

/// How a packet is to go.
#[derive(Clone, Copy, Debug)]
pub enum Coding {
    /// As it is.
    Whole,
    /// Compressed. `awaits`: the place of a reference that the packet is to become; its frame is to be told of by [`Compressor::sent`].
    Coded {
        /// What stands in place of the packet's first bytes.
        coded: Coded,
        /// The new reference's place.
        awaits: Option<u16>,
    },
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    /// Of addresses and ports; zero: there is none.
    mark: u32,
    last: Time,
    confirmed: u16,
    awaited: u16,
    /// When the newest reference went.
    since: Time,
    /// Packets since.
    packets: u32,
    least: u16,
    /// Bytes of the fields that the first packet of the confirmed reference had; `u32::MAX`: there was none yet.
    width: u32,
}

const NO_FLOW: Flow = Flow {
    mark: 0,
    last: Time::ZERO,
    confirmed: NONE,
    awaited: NONE,
    since: Time::ZERO,
    packets: 0,
    least: code::LEAST,
    width: u32::MAX,
};

#[derive(Clone, Debug)]
struct Place {
    turn: u16,
    /// Whose reference it is; `u32::MAX`: nobody's.
    flow: u32,
    reference: Option<Reference>,
}

/// A frame whose arrival confirms the reference at a place.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    number: u64,
    place: u16,
    turn: u16,
}

/// The sender's end.
#[derive(Clone, Debug)]
pub struct Compressor {
    /// Which turn is the first of each place.
    turn: u16,
    flows: Vec<Flow>,
    places: Vec<Place>,
    /// Places that rest, with when they may be used again, the first first.
    resting: VecDeque<(Time, u16)>,
    /// By channel and number; a channel has its own from its first one on.
    awaited: Vec<Vec<Option<Awaited>>>,
    /// The place that is looked at next.
    hand: usize,
    /// When a packet was coded last: what was coded against a reference went then at the latest.
    now: Time,
}

impl Compressor {
    /// Of a process whose first references are the `turn`th at their places, modulo 64: to be drawn at random, so that numbers of a process
    /// before are not those of this one.
    pub fn new(turn: u16) -> Compressor {
        Compressor {
            turn: turn % TURNS,
            flows: vec![NO_FLOW; BUCKETS * WAYS],
            places: Vec::new(),
            resting: VecDeque::new(),
            awaited: Vec::new(),
            hand: 0,
            now: Time::ZERO,
        }
    }

    /// How the packet that is `size` bytes long goes, of which at least the headers are there.
    pub fn code(&mut self, now: Time, packet: &[u8], size: usize, standing: Standing) -> Coding {
        self.now = now;
        let Some(headers) = Headers::read(packet, size) else { return Coding::Whole };
        let Some(at) = self.flow(now, mark(&headers), standing.bucket) else { return Coding::Whole };
        let Flow { confirmed, awaited, since, .. } = self.flows[at];
        if awaited != NONE && now.since(since) >= AWAITED_FOR {
            self.release(awaited);
            self.flows[at].awaited = NONE;
        }
        let Flow { awaited, packets, least, .. } = self.flows[at];
        if self.is_due(now, at)
            && headers.tail == 0
            && let Some(coding) = self.renew(now, at, &headers, packet, standing)
        {
            return coding;
        }
        if let Some(Place { turn, reference: Some(reference), .. }) = self.places.get(usize::from(confirmed)) {
            let mut coded = Coded::new(Form::Coded, number_of(confirmed, *turn));
            if let Some(least) = code::encode(&mut coded, &headers, packet, reference, standing, least) {
                let flow = &mut self.flows[at];
                flow.least = least;
                flow.width = flow.width.min(code::width(least));
                return Coding::Coded { coded, awaits: None };
            }
        }
        if awaited != NONE || packets < 2 || headers.tail > 0 {
            return Coding::Whole;
        }
        let Some(place) = self.found(now, at, &headers, standing) else { return Coding::Whole };
        let shape = headers.shape;
        let number = number_of(place, self.places[usize::from(place)].turn);
        let mut coded = Coded::new(Form::Founds { v6: shape.v6, udp: shape.udp }, number);
        coded.push(standing.bucket.to_be_bytes());
        coded.push_ip(&headers);
        coded.skip = shape.ip();
        Coding::Coded { coded, awaits: Some(place) }
    }

    /// Whether the flow's reference is to be renewed, and there are places for one who has a reference already.
    #[inline]
    fn is_due(&self, now: Time, at: usize) -> bool {
        let Flow { confirmed, awaited, since, packets, least, width, .. } = self.flows[at];
        if confirmed == NONE || awaited != NONE || packets < RENEW_PACKETS {
            return false;
        }
        let age = now.since(since);
        let longer = code::width(least) > width.saturating_add(1);
        let spares = self.places.len() + SPARED <= PLACES || self.resting.len() >= SPARED;
        spares && (age >= RENEW_AFTER || longer && age >= SOON_AFTER)
    }

    /// A packet that is coded against the flow's reference and becomes the next one; `None`: it cannot, or there is no place for it.
    fn renew(&mut self, now: Time, at: usize, headers: &Headers, packet: &[u8], standing: Standing) -> Option<Coding> {
        let Flow { confirmed, least, .. } = self.flows[at];
        let Place { turn, reference, .. } = self.places.get(usize::from(confirmed))?;
        let mut coded = Coded::new(Form::Renews, number_of(confirmed, *turn));
        // The new reference's number comes first.
        coded.push([0; 2]);
        let least = code::encode(&mut coded, headers, packet, reference.as_ref()?, standing, least)?;
        let place = self.found(now, at, headers, standing)?;
        coded.put_number(number_of(place, self.places[usize::from(place)].turn));
        self.flows[at].least = least;
        Some(Coding::Coded { coded, awaits: Some(place) })
    }

    /// The packet that is to become the reference at `place` went as the frame `number` of `channel`.
    pub fn sent(&mut self, channel: ChannelId, number: u64, place: u16) {
        let Some(&Place { turn, .. }) = self.places.get(usize::from(place)) else { return };
        if self.awaited.len() <= channel.index() {
            self.awaited.resize(channel.index() + 1, Vec::new());
        }
        let entries = &mut self.awaited[channel.index()];
        if entries.is_empty() {
            *entries = vec![None; AWAITED];
        }
        // Of two that are that far apart the older one's word was lost, or comes too late.
        let older = entries[number as usize % AWAITED].replace(Awaited { number, place, turn });
        if let Some(older) = older {
            self.on_word(older, false);
        }
    }

    /// The peer told of the frame `number` of `channel`; `delivered`: it arrived.
    #[inline]
    pub fn settle(&mut self, channel: ChannelId, number: u64, delivered: bool) {
        let Some(entries) = self.awaited.get_mut(channel.index()) else { return };
        if let Some(entry) = entries.get_mut(number as usize % AWAITED)
            && let Some(awaited) = *entry
            && awaited.number == number
        {
            *entry = None;
            self.on_word(awaited, delivered);
        }
    }

    fn on_word(&mut self, awaited: Awaited, delivered: bool) {
        let Awaited { place, turn, .. } = awaited;
        let Some(owner) = self.places.get(usize::from(place)).filter(|held| held.turn == turn).map(|held| held.flow)
        else {
            return;
        };
        let Some(flow) = self.flows.get_mut(owner as usize).filter(|flow| flow.awaited == place) else { return };
        flow.awaited = NONE;
        if !delivered {
            return self.release(place);
        }
        let before = core::mem::replace(&mut flow.confirmed, place);
        (flow.least, flow.width) = (code::LEAST, u32::MAX);
        self.release(before);
    }

    /// The peer does not have the reference of this number, whatever it said.
    pub fn forget(&mut self, number: u16) {
        let place = place_of(number) as u16;
        let Some(held) = self.places.get(usize::from(place)).filter(|held| held.turn == turn_of(number)) else {
            return;
        };
        if let Some(flow) = self.flows.get_mut(held.flow as usize)
            && flow.confirmed == place
        {
            (flow.confirmed, flow.packets) = (NONE, 0);
            self.release(place);
        }
    }

    /// The peer is another one, which has none of the references. Numbers go on, since frames from before may be under way.
    pub fn forget_all(&mut self) {
        self.flows.fill(NO_FLOW);
        self.awaited.clear();
        for place in 0..self.places.len() as u16 {
            self.release(place);
        }
    }

    /// How many references are in use.
    pub fn references(&self) -> usize {
        self.places.iter().filter(|place| place.reference.is_some()).count()
    }

    /// The flow of that mark in `bucket`, which has a packet more now; `None`: its bucket is full of others.
    #[inline]
    fn flow(&mut self, now: Time, mark: u32, bucket: u16) -> Option<usize> {
        let first = usize::from(bucket) % BUCKETS * WAYS;
        let ways = &self.flows[first..first + WAYS];
        let found = ways.iter().position(|flow| flow.mark == mark);
        let at =
            first + found.or_else(|| ways.iter().position(|flow| flow.mark == 0 || now.since(flow.last) >= QUIET))?;
        if found.is_none() {
            let Flow { confirmed, awaited, .. } = core::mem::replace(&mut self.flows[at], Flow { mark, ..NO_FLOW });
            self.release(confirmed);
            self.release(awaited);
        }
        let flow = &mut self.flows[at];
        flow.last = now;
        flow.packets = flow.packets.saturating_add(1);
        Some(at)
    }

    /// A place for the reference that a packet of the flow becomes; `None`: there is none.
    fn found(&mut self, now: Time, at: usize, headers: &Headers, standing: Standing) -> Option<u16> {
        let reference = Reference::of(headers, standing)?;
        let place = self.free(now)?;
        let held = &mut self.places[usize::from(place)];
        (held.flow, held.reference) = (at as u32, Some(reference));
        let flow = &mut self.flows[at];
        (flow.awaited, flow.since, flow.packets) = (place, now, 0);
        Some(place)
    }

    /// A place that nobody uses.
    fn free(&mut self, now: Time) -> Option<u16> {
        if let Some((_, place)) = self.resting.front().filter(|(until, _)| *until <= now).copied() {
            self.resting.pop_front();
            return Some(place);
        }
        if self.places.len() < PLACES {
            self.places.push(Place { turn: self.turn, flow: u32::MAX, reference: None });
            return Some(self.places.len() as u16 - 1);
        }
        // None now: perhaps later, of a flow that is quiet.
        for _ in 0..LOOKED_AT {
            let place = self.hand as u16;
            self.hand = (self.hand + 1) % PLACES;
            let owner = self.places[usize::from(place)].flow;
            if let Some(flow) = self.flows.get_mut(owner as usize)
                && now.since(flow.last) >= QUIET
                && flow.confirmed == place
            {
                flow.confirmed = NONE;
                self.release(place);
            }
        }
        None
    }

    /// Nobody uses the place any more.
    fn release(&mut self, place: u16) {
        if let Some(held) = self.places.get_mut(usize::from(place))
            && held.reference.take().is_some()
        {
            held.turn = (held.turn + 1) % TURNS;
            held.flow = u32::MAX;
            self.resting.push_back((self.now + REST, place));
        }
    }
}

/// What tells the flows of a bucket apart; never zero.
#[inline]
fn mark(headers: &Headers) -> u32 {
    let ip = headers.shape.ip();
    let ends = if headers.shape.v6 { [20, 36] } else { [12, 16] };
    let mixed = (headers.long(ip) ^ headers.long(ends[0]).rotate_left(7)).wrapping_mul(0x9e37_79b1);
    (mixed ^ headers.long(ends[1])).wrapping_mul(0x85eb_ca6b) | 1
}
