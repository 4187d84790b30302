//! How control messages circle against the data: who makes them, who passes them on, which are refused.
//!
//! Source: rings paper, V-B3, and what it leaves out. For each ringlet one node makes a message every interval: on a
//! whole ring the lowest-numbered one, on a broken one the node at the downstream end of its part. Each node takes the
//! rates of the others from it, puts in its own, and passes it on. The originator takes it off when it has been round;
//! the upstream end of a part takes it off there. A lost one is replaced by the next.
//!
//! On a whole ring the originator waits up to a quarter of an interval for its last message, if the last one came back
//! within that time: so the rates that nodes behind it put in are not one round older than need be, and where the interval is
//! the ring's delay, one message circles without end.
//!
//! Messages of a node that should not make any are refused. Sequences: newer by serial number arithmetic, by 64 at most. A node that restarts begins again at 1, which the others take for old;
//! so an old one is taken when nothing newer came for an interval and a half, and when it follows an old one that was
//! refused just before. Forged or replayed messages do harm for as long, and no longer.

use super::control;
use super::dvsr::Bits;
use super::fairness::{Refused, View};
use super::message::{self, Head, Kind};
use super::topology::Topology;
use super::{NodeId, Ringlet};
use crate::units::{Rate, Span, Time};
use alloc::vec::Vec;

/// How far ahead of the last that was taken a sequence may be.
const AHEAD: u32 = 64;

/// What was last taken from an originator.
#[derive(Clone, Copy, Debug)]
struct Taken {
    sequence: u32,
    at: Time,
    /// The sequence of the last that was refused as old since then.
    refused: Option<u32>,
}

/// One node's part in the circulation of one ringlet's messages.
#[derive(Clone, Debug)]
pub(super) struct Circulation {
    kind: Kind,
    bits: Bits,
    node: NodeId,
    ringlet: Ringlet,
    interval: Span,
    /// The rates of all nodes, as last heard; its own as last put in.
    codes: Vec<u16>,
    taken: Vec<Option<Taken>>,
    /// How many nodes downstream can be heard; all others on a whole ring, and then itself too.
    hears: usize,
    passes_on: bool,
    /// Of the last message that this node made.
    sequence: u32,
    made_at: Time,
    /// Of the last that came back.
    returned: u32,
    /// Whether the last but one came back soon enough for the last one to be waited for.
    waits: bool,
    /// When the next one is made; `None`: others make them.
    originate_at: Option<Time>,
    /// When the node acts without a message.
    silent_at: Time,
    /// Whether it was told of the topology.
    looked: bool,
    out: Vec<u8>,
    pending: bool,
}

/// Whether `node` hears control messages from the next node of `ringlet`.
fn hears(topology: &Topology, node: NodeId, ringlet: Ringlet) -> bool {
    topology.way(node, ringlet).up && topology.way(topology.next(node, ringlet), ringlet.other()).up
}

impl Circulation {
    /// For the messages about the data of `ringlet`, at `node` of a ring of `nodes`; a message every `interval`.
    pub(super) fn new(
        kind: Kind,
        bits: Bits,
        node: NodeId,
        ringlet: Ringlet,
        nodes: usize,
        interval: Span,
        now: Time,
    ) -> Circulation {
        Circulation {
            kind,
            bits,
            node,
            ringlet,
            interval: interval.max(Span::from_micros(1)),
            codes: alloc::vec![bits.whole(); nodes],
            taken: alloc::vec![None; nodes],
            hears: 0,
            passes_on: false,
            sequence: 0,
            made_at: now,
            returned: 0,
            waits: false,
            // The first timeout tells it of the topology.
            originate_at: Some(now),
            silent_at: now + interval.times(3),
            looked: false,
            out: Vec::with_capacity(message::LONGEST),
            pending: false,
        }
    }

    /// Time between messages.
    pub(super) fn interval(&self) -> Span {
        self.interval
    }

    /// Bytes of a control frame that carries a message.
    pub(super) fn frame_length(&self) -> usize {
        // What the frame says first, and of which ringlet it is.
        control::HEAD_LEN + 1 + message::length(self.bits, self.codes.len())
    }

    /// The share of the nominal rate that the link of `node` gives the lightest ingress, as last heard.
    pub(super) fn share(&self, node: NodeId) -> f64 {
        self.bits.decode(self.codes[node.index()])
    }

    /// That as it stands in messages.
    pub(super) fn code(&self, node: NodeId) -> u16 {
        self.codes[node.index()]
    }

    /// Puts in this node's own.
    pub(super) fn set_share(&mut self, share: f64) {
        self.codes[self.node.index()] = self.bits.encode(share);
    }

    /// Looks at the topology: who can be heard, and whether this node makes the messages.
    pub(super) fn handle_change(&mut self, now: Time, topology: &Topology) {
        self.looked = true;
        let (nodes, ringlet) = (topology.nodes(), self.ringlet);
        let heard = |hops: &usize| hears(topology, topology.after(self.node, ringlet, *hops), ringlet);
        self.hears = (0..nodes).take_while(heard).count();
        self.passes_on = hears(topology, topology.next(self.node, ringlet.other()), ringlet);
        let whole = self.hears == nodes;
        let here = if whole { self.node == NodeId::at(0) } else { self.hears == 0 && self.passes_on };
        self.originate_at = here.then(|| self.originate_at.unwrap_or(now));
        self.waits &= whole && here;
    }

    /// A message came: its rates are taken. `true`: it goes on, with [`Circulation::answer`].
    ///
    /// # Errors
    /// Why it is refused; nothing changes but what is remembered of refused sequences.
    pub(super) fn receive(&mut self, now: Time, topology: &Topology, bytes: &[u8]) -> Result<bool, Refused> {
        let (head, codes) = message::decode(self.kind, self.bits, self.codes.len(), bytes)?;
        if !self.looked {
            self.handle_change(now, topology);
        }
        let own = head.originator == self.node;
        let makes_them = if self.hears == topology.nodes() {
            head.originator == NodeId::at(0)
        } else {
            !own && topology.distance(self.node, head.originator, self.ringlet) == self.hears
        };
        if !makes_them {
            return Err(Refused::Sender);
        }
        if own {
            let (back, made) = (head.sequence.wrapping_sub(self.returned), self.sequence.wrapping_sub(self.returned));
            if back == 0 || back > made {
                return Err(Refused::Stale);
            }
            self.returned = head.sequence;
            self.waits = back == made && now.since(self.made_at) <= self.patience();
        } else {
            self.check_sequence(now, head)?;
        }
        let index = self.node.index();
        let kept = self.codes[index];
        for (known, code) in self.codes.iter_mut().zip(codes.iter()) {
            *known = code;
        }
        self.codes[index] = kept;
        self.silent_at = now + self.interval.times(3);
        let goes_on = !own && self.passes_on;
        if goes_on {
            self.out.clear();
            self.out.extend_from_slice(bytes);
        }
        Ok(goes_on)
    }

    fn check_sequence(&mut self, now: Time, head: Head) -> Result<(), Refused> {
        let last = &mut self.taken[head.originator.index()];
        if let Some(last) = last {
            let newer = (1..=AHEAD).contains(&head.sequence.wrapping_sub(last.sequence));
            let silent = now.since(last.at) >= self.interval + Span::from_nanos(self.interval.as_nanos() / 2);
            let follows = last.refused.is_some_and(|refused| head.sequence == refused.wrapping_add(1));
            if !(newer || silent || follows && head.sequence != last.sequence) {
                last.refused = Some(head.sequence);
                return Err(Refused::Stale);
            }
        }
        *last = Some(Taken { sequence: head.sequence, at: now, refused: None });
        Ok(())
    }

    /// How long after a message the next one is made at latest.
    fn patience(&self) -> Span {
        self.interval + Span::from_nanos(self.interval.as_nanos() / 4)
    }

    /// When this node makes the next message, if it makes them.
    fn due(&self) -> Option<Time> {
        let due = self.originate_at?;
        let waiting = self.waits && self.returned != self.sequence;
        Some(if waiting { self.made_at + self.patience() } else { due })
    }

    /// Makes a message with all rates and this node's own, and has it sent.
    fn originate(&mut self, now: Time) {
        // One that was lost is not waited for again and again.
        self.waits &= self.returned == self.sequence;
        self.sequence = self.sequence.wrapping_add(1);
        self.made_at = now;
        self.silent_at = now + self.interval.times(3);
        self.originate_at = Some(now + self.interval);
        let head = Head { kind: self.kind, bits: self.bits, originator: self.node, sequence: self.sequence };
        message::encode(head, &self.codes, &mut self.out);
        self.pending = true;
    }

    /// Sends the message that was received on, with this node's own rate as it is now.
    fn pass_on(&mut self) {
        let (width, code) = (self.bits.width(), self.codes[self.node.index()]);
        let at = self.out.len() - (self.codes.len() - self.node.index()) * width;
        match self.bits {
            Bits::Eight => self.out[at] = code as u8,
            Bits::Sixteen => self.out[at..at + 2].copy_from_slice(&code.to_be_bytes()),
        }
        self.pending = true;
    }

    /// Sends what follows a message that was taken or a timeout: that message on, or a new one that is due.
    pub(super) fn answer(&mut self, now: Time, goes_on: bool) {
        if goes_on {
            self.pass_on();
        } else if self.due().is_some_and(|due| due <= now) {
            self.originate(now);
        }
    }

    /// Time has come. `true`: the node is to compute and act, then [`Circulation::answer`].
    pub(super) fn handle_timeout(&mut self, now: Time, topology: &Topology) -> bool {
        if !self.looked {
            self.handle_change(now, topology);
        }
        let silent = self.silent_at <= now;
        if silent {
            self.silent_at = now + self.interval;
        }
        silent || self.due().is_some_and(|due| due <= now)
    }

    /// When there is something to do without a message. After three intervals of silence the node acts by itself, every interval.
    pub(super) fn poll_timeout(&self) -> Time {
        self.due().map_or(self.silent_at, |due| due.min(self.silent_at))
    }

    /// The node's own load for a rival: what it sent, and its fair rate if the multiplexer or a limiter keeps packets waiting.
    pub(super) fn own_load(&self, view: &View<'_>, sent: f64, fair: f64) -> f64 {
        let backlog = view.station.iter().any(|station| station.waiting > 3000);
        if backlog { sent.max(fair) } else { sent }
    }

    /// Limits each flow to the least rate on its path.
    pub(super) fn limit_by_path(&self, view: &View<'_>, limits: &mut [Option<Rate>]) {
        let nominal = view.nominal.as_bits_per_sec() as f64;
        let mut least = f64::INFINITY;
        for hops in 1..limits.len() {
            let crossed = view.topology.after(self.node, self.ringlet, hops - 1);
            least = least.min(self.share(crossed) * nominal);
            let egress = view.topology.next(crossed, self.ringlet);
            limits[egress.index()] = Some(Rate::from_bits_per_sec(least as u64));
        }
    }

    /// What is to be sent.
    pub(super) fn poll(&mut self) -> Option<&[u8]> {
        core::mem::take(&mut self.pending).then_some(&self.out)
    }
}
