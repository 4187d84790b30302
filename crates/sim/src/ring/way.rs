//! One direction of a link of a ring: what is sent leaves in order, at the link's rate, and arrives a propagation later.
//!
//! Frames under way lie in the way's own queue, and only its head is in the world's calendar. A cut takes away what is
//! under way; the head's event is then stale and does nothing.
//!
//! With `wander` the time on the way grows and shrinks by up to the frame's own transmission time, slowly, and nobody
//! overtakes. A saturated link would otherwise clock the packets to the next node, where they would find the same place in
//! the same phase for ever: a drop-tail queue shared with another stream would give all its room to one of them.

use super::ticket::Ticket;
use crate::engine::event::Event;
use crate::model::Faults;
use fairspan_core::ring::node::HEAD;
use fairspan_core::rng::Rng;
use fairspan_core::units::{Rate, Span, Time};
use std::collections::VecDeque;

/// What is under way.
#[derive(Debug)]
pub(crate) enum Load {
    /// A packet with what the node put in front.
    Data([u8; HEAD], Ticket),
    /// A control frame, and whether a bit of it is wrong.
    Control(Vec<u8>, bool),
}

/// A frame under way.
#[derive(Debug)]
struct Flight {
    /// When it arrives; the place is not set.
    due: Event,
    load: Load,
}

/// What it counts over the measured time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Nanoseconds of transmission of packets, and of control frames.
    pub(crate) busy: u64,
    pub(crate) control_busy: u64,
    pub(crate) control: u64,
    /// Longest that a packet waited for the end of what was sent before.
    pub(crate) ahead: Span,
}

/// What becomes of a control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes on its way.
    Sent,
    /// It goes on its way, and a copy behind it.
    Twice,
    /// It is lost by chance.
    Lost,
    /// The link is cut.
    Unheard,
}

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Way {
    rate: u64,
    delay: Span,
    overhead: u32,
    /// Cuts that hold at present, and whether the link is there at all.
    cuts: u32,
    present: bool,
    /// When what was sent so far is transmitted, and the rest of a nanosecond, in bits times 10^9.
    free: Time,
    rest: u64,
    flights: VecDeque<Flight>,
    faults: Faults,
    rng: Rng,
    wander: Option<Wander>,
    last: Time,
    pub(crate) meter: Meter,
    /// Bytes of packets sent since the beginning.
    pub(crate) carried: u64,
    /// Packets that cuts took.
    pub(crate) lost: u64,
}

impl Way {
    /// A way of these qualities; `wander`: see above.
    pub(crate) fn new(
        rate: Rate,
        delay: Span,
        overhead: u32,
        present: bool,
        faults: Faults,
        mut rng: Rng,
        wander: bool,
    ) -> Way {
        let wander = wander.then(|| Wander::new(&mut rng));
        Way {
            rate: rate.as_bits_per_sec().max(1),
            delay,
            overhead,
            cuts: 0,
            present,
            free: Time::ZERO,
            rest: 0,
            flights: VecDeque::new(),
            faults,
            rng,
            wander,
            last: Time::ZERO,
            meter: Meter::default(),
            carried: 0,
            lost: 0,
        }
    }

    /// Whether it carries anything now.
    pub(crate) fn is_up(&self) -> bool {
        self.present && self.cuts == 0
    }

    /// Whether it is there at all.
    pub(crate) fn is_present(&self) -> bool {
        self.present
    }

    /// What it carries.
    pub(crate) fn rate(&self) -> Rate {
        Rate::from_bits_per_sec(self.rate)
    }

    /// A packet is sent. If it is the first under way, its event; if the way is cut, the packet comes back.
    pub(crate) fn send(
        &mut self,
        now: Time,
        head: [u8; HEAD],
        ticket: Ticket,
        counts: bool,
        order: &mut u64,
    ) -> Result<Option<Event>, Ticket> {
        let bytes = ticket.length() + self.overhead;
        let ahead = self.free.since(now);
        let span = self.transmit(now, bytes);
        if counts {
            self.meter.packets += 1;
            self.meter.bytes += u64::from(bytes);
            self.meter.busy += span.as_nanos();
            self.meter.ahead = self.meter.ahead.max(ahead);
        }
        self.carried += u64::from(bytes);
        if !self.is_up() {
            return Err(ticket);
        }
        Ok(self.fly(span, Load::Data(head, ticket), order))
    }

    /// A control frame is sent, in a buffer of `buffers` if there is one.
    pub(crate) fn send_control(
        &mut self,
        now: Time,
        frame: &[u8],
        counts: bool,
        buffers: &mut Vec<Vec<u8>>,
        order: &mut u64,
    ) -> (Fate, Option<Event>) {
        // A packet's head is part of the overhead; a control frame has none.
        let span = self.transmit(now, frame.len() as u32 + self.overhead.saturating_sub(HEAD as u32));
        if counts {
            self.meter.control += 1;
            self.meter.control_busy += span.as_nanos();
        }
        if !self.is_up() {
            return (Fate::Unheard, None);
        }
        // A link without faults draws nothing.
        let mut meets = |share: f64| share > 0.0 && self.rng.unit() < share;
        if meets(self.faults.loss) {
            return (Fate::Lost, None);
        }
        let (twice, corrupt) = (meets(self.faults.duplicate), meets(self.faults.corrupt));
        let mut buffer = || {
            let mut buffer = buffers.pop().unwrap_or_default();
            buffer.clear();
            buffer.extend_from_slice(frame);
            buffer
        };
        let mut first = buffer();
        let copy = twice.then(buffer);
        let corrupt = corrupt && !frame.is_empty();
        if corrupt {
            let bit = self.rng.below(8 * frame.len() as u64);
            first[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        let arm = self.fly(span, Load::Control(first, corrupt), order);
        let Some(copy) = copy else { return (Fate::Sent, arm) };
        let behind = self.fly(Span::ZERO, Load::Control(copy, false), order);
        (Fate::Twice, arm.or(behind))
    }

    /// Takes the time that so many bytes need: how long.
    fn transmit(&mut self, now: Time, bytes: u32) -> Span {
        if now > self.free {
            (self.free, self.rest) = (now, 0);
        }
        let total = self.rest + u64::from(bytes) * 8_000_000_000;
        let span = Span::from_nanos(total / self.rate);
        self.rest = total % self.rate;
        self.free += span;
        span
    }

    /// What was just transmitted, in `span`, is under way.
    fn fly(&mut self, span: Span, load: Load, order: &mut u64) -> Option<Event> {
        let mut time = self.free + self.delay;
        if let Some(wander) = &mut self.wander {
            time += wander.next(span);
        }
        self.last = self.last.max(time).min(Event::LAST);
        *order += 1;
        let due = Event::new(self.last, *order, 0);
        self.flights.push_back(Flight { due, load });
        (self.flights.len() == 1).then_some(due)
    }

    /// An event has come: what arrives, and the next one's event. `None`: the event is stale.
    pub(crate) fn arrive(&mut self, event: Event) -> Option<(Load, Option<Event>)> {
        if self.flights.front()?.due != event.for_place(0) {
            return None;
        }
        let flight = self.flights.pop_front()?;
        Some((flight.load, self.flights.front().map(|next| next.due)))
    }

    /// The link is cut, once more. What was under way is in the way's queue still: [`Way::poll_lost`].
    pub(crate) fn cut(&mut self) {
        self.cuts += 1;
    }

    /// One of its cuts is mended.
    pub(crate) fn mend(&mut self) {
        self.cuts = self.cuts.saturating_sub(1);
    }

    /// While it is cut, what a cut has taken from it.
    pub(crate) fn poll_lost(&mut self) -> Option<Load> {
        if self.is_up() {
            return None;
        }
        self.flights.pop_front().map(|flight| flight.load)
    }

    /// Packets and control frames under way.
    pub(crate) fn in_flight(&self) -> (u64, u64) {
        let packets = self.flights.iter().filter(|flight| matches!(flight.load, Load::Data(..))).count() as u64;
        (packets, self.flights.len() as u64 - packets)
    }
}

/// To and fro between nothing and one transmission, 96 to 160 frames a turn.
#[derive(Debug)]
struct Wander {
    /// Where in the turn, and how far a frame moves on, as fractions of 2^64.
    phase: u64,
    step: u64,
}

impl Wander {
    fn new(rng: &mut Rng) -> Wander {
        Wander { phase: rng.next_u64(), step: u64::MAX / 160 + rng.below(u64::MAX / 96 - u64::MAX / 160) }
    }

    fn next(&mut self, transmission: Span) -> Span {
        // A triangle: up in the first half of the turn, down in the second.
        let part = if self.phase >> 63 == 0 { self.phase << 1 } else { !(self.phase << 1) };
        self.phase = self.phase.wrapping_add(self.step);
        Span::from_nanos(((u128::from(transmission.as_nanos()) * u128::from(part)) >> 64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::pool::Handle;
    use crate::ring::ticket::Ledger;
    use std::sync::Arc;

    fn way(faults: Faults, wander: bool) -> Way {
        let (rate, delay) = (Rate::from_mbit(8), Span::from_micros(50));
        Way::new(rate, delay, 6, true, faults, Rng::new(3), wander)
    }

    #[test]
    fn frames_leave_one_after_the_other_at_the_link_s_rate() {
        let ledger = Arc::new(Ledger::default());
        let (mut way, mut order) = (way(Faults::default(), false), 0);
        let mut send = |way: &mut Way, now: u64| {
            let ticket = Ticket::new(Handle(0), 994, &ledger);
            way.send(Time::from_nanos(now), [0; HEAD], ticket, true, &mut order).expect("the way is up")
        };
        let first = send(&mut way, 0).expect("the head's event");
        assert_eq!(first.nanos(), 1_050_000, "1000 bytes at 8 Mbit/s and 50 us");
        assert!(send(&mut way, 10).is_none(), "behind the first");
        let (_, next) = way.arrive(first).expect("not stale");
        assert_eq!(next.map(Event::nanos), Some(2_050_000));
        assert!(way.arrive(first).is_none(), "stale");
        assert_eq!(way.meter.ahead, Span::from_nanos(999_990));
        assert_eq!((way.meter.packets, way.meter.bytes, way.meter.busy), (2, 2000, 2_000_000));
    }

    #[test]
    fn a_rate_that_does_not_divide_loses_no_time_over_many_frames() {
        let ledger = Arc::new(Ledger::default());
        let mut way = Way::new(Rate::from_mbit(622), Span::ZERO, 0, true, Faults::default(), Rng::new(1), false);
        let mut order = 0;
        for _ in 0..77_750 {
            let ticket = Ticket::new(Handle(0), 1000, &ledger);
            drop(way.send(Time::ZERO, [0; HEAD], ticket, true, &mut order));
        }
        assert_eq!(way.free, Time::from_millis(1000), "77,750 kB at 622 Mbit/s");
    }

    #[test]
    fn a_cut_takes_what_is_under_way_and_what_is_sent_until_it_is_mended() {
        let ledger = Arc::new(Ledger::default());
        let (mut way, mut order, mut buffers) = (way(Faults::default(), false), 0, Vec::new());
        let ticket = || Ticket::new(Handle(5), 994, &ledger);
        let event = way.send(Time::ZERO, [0; HEAD], ticket(), true, &mut order).expect("up").expect("the head");
        way.cut();
        way.cut();
        assert!(matches!(way.poll_lost(), Some(Load::Data(_, lost)) if lost.handle() == Some(Handle(5))));
        assert!(way.poll_lost().is_none());
        assert!(way.send(Time::ZERO, [0; HEAD], ticket(), true, &mut order).is_err());
        let (fate, _) = way.send_control(Time::ZERO, b"hello", true, &mut buffers, &mut order);
        assert_eq!(fate, Fate::Unheard);
        way.mend();
        assert!(!way.is_up(), "one of two");
        way.mend();
        assert!(way.is_up());
        assert!(way.send(Time::ZERO, [0; HEAD], ticket(), true, &mut order).expect("up").is_some());
        assert!(way.arrive(event).is_none(), "the event of what the cut took");
    }

    #[test]
    fn control_frames_are_lost_doubled_and_changed_in_one_bit_as_often_as_told() {
        let faults = Faults { loss: 0.2, duplicate: 0.3, corrupt: 0.1 };
        let (mut way, mut order, mut buffers) = (way(faults, false), 0, Vec::new());
        let (mut lost, mut twice, mut wrong) = (0, 0, 0);
        for n in 0..10_000_u64 {
            let (fate, arm) = way.send_control(Time::from_millis(n), &[0x55; 20], true, &mut buffers, &mut order);
            lost += u32::from(fate == Fate::Lost);
            twice += u32::from(fate == Fate::Twice);
            let mut next = arm;
            while let Some((Load::Control(bytes, corrupt), then)) = next.and_then(|event| way.arrive(event)) {
                let bits: u32 = bytes.iter().map(|byte| (byte ^ 0x55).count_ones()).sum();
                assert_eq!(bits, u32::from(corrupt), "one bit or none");
                wrong += bits;
                next = then;
            }
        }
        // Three standard deviations of a share of 10,000.
        assert!((1880..2120).contains(&lost), "{lost}");
        assert!((2270..2530).contains(&twice), "{twice} of 8000 with 30 %");
        assert!((720..880).contains(&wrong), "{wrong} of 8000 with 10 %");
    }

    #[test]
    fn frames_that_wander_keep_their_order_and_come_at_most_one_transmission_late() {
        let ledger = Arc::new(Ledger::default());
        let (mut way, mut order) = (way(Faults::default(), true), 0);
        let mut late = Vec::new();
        for n in 1..=1000_u64 {
            let ticket = Ticket::new(Handle(0), 994, &ledger);
            let now = Time::from_nanos((n - 1) * 1_000_000);
            let event = way.send(now, [0; HEAD], ticket, true, &mut order).expect("up");
            late.push(event.map(|event| event.nanos() - (n * 1_000_000 + 50_000)));
            if let Some(event) = event {
                way.arrive(event);
            }
        }
        let late: Vec<u64> = late.into_iter().flatten().collect();
        assert!(late.iter().all(|late| *late <= 1_000_000));
        assert!(late.iter().any(|late| *late < 50_000) && late.iter().any(|late| *late > 950_000));
    }
}
