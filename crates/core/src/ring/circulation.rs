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
//! Messages of a node that should not make any are refused. Sequences: newer by serial number arithmetic, by 64 at most. A
//! node that restarts begins again at 1, which the others take for old; so an old one is taken when nothing newer came for an interval and a half, and when it follows an old one that was
//! refused just before. Forged or replayed messages do harm for as long, and no longer.

use super::control;
use super::fairness::{Refused, View};
use super::message::{self, Bits, Head, Kind};
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

impl Ringlet {
    /// The index of the node behind that of `index`, of `nodes`.
    pub(super) fn onward(self, index: usize, nodes: usize) -> usize {
        match self {
            Ringlet::Zero if index + 1 < nodes => index + 1,
            Ringlet::Zero => 0,
            Ringlet::One => index.checked_sub(1).unwrap_or(nodes - 1),
        }
    }
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

    /// The link of `node` came up: this is its rate until it is heard.
    pub(super) fn begin(&mut self, node: NodeId, share: f64) {
        self.codes[node.index()] = self.bits.encode(share);
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
        codes.copy_to(&mut self.codes);
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
        let scale = view.nominal.as_bits_per_sec() as f64 / f64::from(self.bits.whole());
        let (mut least, mut at) = (u16::MAX, self.node.index());
        for _ in 1..limits.len() {
            least = least.min(self.codes[at]);
            at = self.ringlet.onward(at, limits.len());
            limits[at] = Some(Rate::from_bits_per_sec((f64::from(least) * scale) as u64));
        }
    }

    /// What is to be sent.
    pub(super) fn poll(&mut self) -> Option<&[u8]> {
        core::mem::take(&mut self.pending).then_some(&self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::topology::Way;

    const T: Span = Span::from_millis(1);

    fn at(node: u8) -> Circulation {
        let mut circulation =
            Circulation::new(Kind::Dvsr, Bits::Sixteen, node_of(node), Ringlet::Zero, 4, T, Time::ZERO);
        circulation.handle_change(Time::ZERO, &ring());
        circulation
    }

    fn node_of(n: u8) -> NodeId {
        NodeId::new(n).unwrap()
    }

    fn ring() -> Topology {
        Topology::ring(4, Rate::from_mbit(100))
    }

    /// A ring without link `n`.
    fn without(n: u8) -> Topology {
        let mut topology = ring();
        let next = topology.next(node_of(n), Ringlet::Zero);
        for (from, ringlet) in [(node_of(n), Ringlet::Zero), (next, Ringlet::One)] {
            let way = topology.way(from, ringlet);
            topology.set_way(from, ringlet, Way { up: false, ..way });
        }
        topology
    }

    fn from(originator: u8, sequence: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let head = Head { kind: Kind::Dvsr, bits: Bits::Sixteen, originator: node_of(originator), sequence };
        message::encode(head, &[100, 200, 300, 400], &mut out);
        out
    }

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    #[test]
    fn the_first_node_of_a_ring_makes_the_messages_and_at_a_cut_the_node_before_it() {
        let makers = |topology: &Topology| {
            let makes = |n: &u8| {
                let mut circulation = at(*n);
                circulation.handle_change(Time::ZERO, topology);
                circulation.due().is_some()
            };
            (1..=4).filter(makes).collect::<Vec<u8>>()
        };
        assert_eq!(makers(&ring()), [1]);
        assert_eq!(makers(&without(2)), [2], "data of ringlet 0 ends at node 2, and goes 3, 4, 1, 2");
        assert_eq!(makers(&without(4)), [4]);
        let mut two = without(2);
        let other = without(4);
        for node in [node_of(4), node_of(1)] {
            let ringlet = if node == node_of(4) { Ringlet::Zero } else { Ringlet::One };
            two.set_way(node, ringlet, other.way(node, ringlet));
        }
        assert_eq!(makers(&two), [2, 4], "each part has one");
    }

    #[test]
    fn a_message_goes_on_with_the_nodes_own_rate_and_ends_at_its_maker_or_at_a_cut() {
        let mut three = at(3);
        three.set_share(0.5);
        assert_eq!(three.receive(ms(1), &ring(), &from(1, 1)), Ok(true));
        three.answer(ms(1), true);
        let passed = three.poll().unwrap().to_vec();
        let (head, codes) = message::decode(Kind::Dvsr, Bits::Sixteen, 4, &passed).unwrap();
        assert_eq!((head.originator, head.sequence), (node_of(1), 1));
        assert_eq!(codes.iter().collect::<Vec<_>>(), [100, 200, 0x7FFF, 400]);
        assert_eq!(three.poll(), None);

        let mut one = at(1);
        assert!(one.handle_timeout(ms(1), &ring()));
        one.answer(ms(1), false);
        let made = one.poll().unwrap().to_vec();
        assert_eq!(one.receive(ms(2), &ring(), &made), Ok(false), "it has been round");
        assert_eq!(one.receive(ms(2), &ring(), &made), Err(Refused::Stale), "and comes once");
        let mut end = at(3);
        end.handle_change(ms(0), &without(2));
        assert_eq!(end.receive(ms(1), &without(2), &from(2, 1)), Ok(false), "nobody is behind node 3");
    }

    #[test]
    fn on_a_broken_ring_messages_are_taken_from_the_node_at_its_end_alone() {
        let ring = without(2);
        let take = |node: u8, originator: u8| {
            let mut circulation = at(node);
            circulation.handle_change(ms(0), &ring);
            circulation.receive(ms(1), &ring, &from(originator, 1))
        };
        assert_eq!(take(4, 2), Ok(true));
        for (node, originator) in [(4, 1), (4, 3), (4, 4), (2, 2), (2, 1)] {
            assert_eq!(take(node, originator), Err(Refused::Sender), "node {originator}'s, at node {node}");
        }
    }

    #[test]
    fn a_message_that_came_back_in_time_lets_the_next_one_be_waited_for_a_quarter_of_an_interval() {
        let us = |n: u64| Time::ZERO + Span::from_micros(n);
        let mut one = at(1);
        let make = |one: &mut Circulation, now: Time| {
            one.answer(now, false);
            one.poll().map(<[u8]>::to_vec)
        };
        let first = make(&mut one, us(0)).expect("it begins at once");
        assert_eq!(one.receive(us(500), &ring(), &first), Ok(false));
        assert_eq!((make(&mut one, us(500)), one.poll_timeout()), (None, us(1000)));
        let second = make(&mut one, us(1000)).expect("an interval is over");
        assert_eq!(one.poll_timeout(), us(2250), "the second is waited for");
        assert_eq!(one.receive(us(2200), &ring(), &second), Ok(false));
        assert!(make(&mut one, us(2200)).is_some(), "what is overdue follows at once");
        // That one is lost.
        assert_eq!(one.poll_timeout(), us(3450));
        assert!(make(&mut one, us(3450)).is_some());
        assert_eq!(one.poll_timeout(), us(4450), "nor is the next one waited for");
    }

    #[test]
    fn on_a_ring_that_breaks_nothing_is_waited_for_since_nothing_comes_back() {
        let mut one = at(1);
        one.answer(ms(0), false);
        let first = one.poll().unwrap().to_vec();
        assert_eq!(one.receive(ms(0), &ring(), &first), Ok(false));
        one.answer(ms(1), false);
        one.handle_change(ms(1), &without(1));
        assert_eq!(one.poll_timeout(), ms(2));
    }

    #[test]
    fn who_was_not_told_of_the_ring_looks_at_it_before_he_makes_a_message() {
        for (node, makes) in [(1, true), (3, false)] {
            let mut circulation =
                Circulation::new(Kind::Dvsr, Bits::Sixteen, node_of(node), Ringlet::Zero, 4, T, Time::ZERO);
            assert_eq!(circulation.poll_timeout(), Time::ZERO);
            assert_eq!(circulation.handle_timeout(Time::ZERO, &ring()), makes);
        }
    }

    #[test]
    fn the_length_of_a_frame_is_that_of_head_ringlet_and_message() {
        assert_eq!(at(1).frame_length(), 8 + 1 + from(1, 1).len());
    }

    #[test]
    fn doubled_late_and_foreign_messages_are_refused_and_change_nothing() {
        let mut three = at(3);
        three.receive(ms(1), &ring(), &from(1, 10)).unwrap();
        let known = three.codes.clone();
        for (message, reason) in [
            (from(1, 10), Refused::Stale),
            (from(1, 8), Refused::Stale),
            (from(2, 11), Refused::Sender),
            (from(3, 1), Refused::Sender),
            (from(4, 11), Refused::Sender),
            (from(1, 11)[..9].to_vec(), Refused::Malformed),
            (Vec::new(), Refused::Malformed),
        ] {
            assert_eq!(three.receive(ms(2), &ring(), &message), Err(reason), "{message:?}");
            assert_eq!(three.codes, known);
        }
        assert_eq!(three.receive(ms(2), &ring(), &from(1, 11)), Ok(true));
    }

    #[test]
    fn a_maker_that_restarts_is_heard_again_within_two_rounds() {
        // Its first message comes at any time after the last one of its former life.
        for after in [100, 400, 900, 1400, 1600, 5000] {
            let mut three = at(3);
            three.receive(ms(100), &ring(), &from(1, 1_000_000)).unwrap();
            let first = ms(100) + Span::from_micros(after);
            let mut heard = None;
            for round in 0..4 {
                let now = first + T.times(round);
                if three.receive(now, &ring(), &from(1, 1 + round as u32)).is_ok() {
                    heard = heard.or(Some(now));
                }
            }
            let heard = heard.expect("it is heard");
            assert!(heard.since(first) <= T.times(2), "{after} us: heard at {heard:?}");
        }
    }

    #[test]
    fn who_hears_nothing_acts_by_himself_every_interval() {
        let mut three = at(3);
        let mut acts = Vec::new();
        for _ in 0..3 {
            let due = three.poll_timeout();
            assert!(three.handle_timeout(due, &ring()));
            three.answer(due, false);
            acts.push(due);
        }
        assert_eq!(acts, [ms(3), ms(4), ms(5)]);
        assert_eq!(three.poll(), None, "and makes no messages");
    }
}
