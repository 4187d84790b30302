//! What is under way on a path, as the peer's feedback tells: delivered, lost, how fast and how late.
//!
//! What it is: every data frame has a number on its path and leaves a record: when it went, how many bytes. The peer's reports
//! ([`receipts`](super::receipts)) settle the records. A number is lost when three later ones arrived (the threshold of RFC 9002
//! section 6.1.1; a path may be a few frames out of order). One that arrives nevertheless was overtaken and not lost: from then on as many later
//! ones have to arrive as did before it (as that section allows, and as Linux's TCP does). Numbers that fell out of a report's window, because reports were
//! lost, are settled by its count: so many of them arrived, the oldest first, and the rest did not.
//!
//! A record may have a [`Note`] of what its frame carried. Then what becomes of it is told ([`Settled`]), so that what is lost
//! can be sent again. There no guess will do: numbers that no report told one by one count neither as arrived nor as lost, until they
//! are overdue ([`Flight::lose_overdue`]; RFC 9002 section 6.1.2). A report that took a faster way than those before it may have
//! overtaken them.
//!
//! | quantity | from |
//! |---|---|
//! | delivery rate | [`DeliveryRate`], a sample for each report; the largest of the last 10 to 20 s is not kept: a law has its own filters |
//! | round trip | the report's arrival less the frame's departure less what the peer held it |
//! | transit | the peer's clock at the arrival of the highest less ours at its departure: the clocks' offset is the same on all paths |
//! | queue | transit less the smallest of the last 10 to 20 s, smoothed by a quarter |
//! | loss | see [`losses`](super::losses) |
//!
//! Cost: O(1) a frame, amortised. Memory: at most [`MOST`] records, 56 bytes each; the oldest is taken for lost at the bound.
//! Invariants: each record is settled once; `in_flight` is the sum of the open ones; whatever the peer says, no round trip is
//! longer than the time since the frame left, and nothing is settled that was not sent.

use super::delay::Smallest;
use super::losses::Losses;
use crate::loss::delivery_rate::{DeliveryRate, Sample, Stamp};
use crate::units::{Bytes, Rate, Span, Time};
use crate::wire::envelope::Feedback;
use crate::wire::short::ahead;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Most records that are kept: 300 ms at 1 Gbit/s in full packets.
pub(crate) const MOST: usize = 32_768;
/// Later numbers that must have arrived before one is lost, on a path that is not known to put more of them before one.
const THRESHOLD: u64 = 3;
/// Numbers that a report tells one by one, the highest included.
const TOLD: u64 = 65;
/// Before so many arrived nobody knows.
const UNKNOWN: u64 = 1_000;

/// What a frame carried, for whoever keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) slot: u32,
    /// Tells uses of one slot apart.
    pub(crate) generation: u32,
}

impl Note {
    /// Nobody keeps it.
    pub(crate) const NONE: Note = Note { slot: u32::MAX, generation: 0 };
}

/// What became of a frame that had a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) note: Note,
    pub(crate) number: u64,
    /// Otherwise it is lost, or nothing is known of it.
    pub(crate) delivered: bool,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    sent: Time,
    bytes: u32,
    open: bool,
    note: Note,
    stamp: Stamp,
}

const _: () = assert!(size_of::<Record>() == 56, "the card says so");

/// What a report said that was not known before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Report {
    /// Bytes under way before it.
    pub(crate) in_flight: Bytes,
    /// Bytes that arrived.
    pub(crate) delivered: Bytes,
    /// The longest frame of those that the peer named.
    pub(crate) longest: u64,
    /// Bytes that are lost, and the highest number of them.
    pub(crate) lost: Bytes,
    pub(crate) lost_up_to: Option<u64>,
    /// Frames that arrived, as the peer counts them, and of those the ones with the mark of congestion.
    pub(crate) packets: u32,
    pub(crate) marked: u32,
    /// The round trip that it measured.
    pub(crate) rtt: Option<Span>,
    /// How long the highest frame waited on its way.
    pub(crate) waited: Option<Span>,
    /// The rate of delivery.
    pub(crate) sample: Option<Sample>,
    /// The highest number that arrived.
    pub(crate) highest: u64,
}

/// The frames of one path that are under way.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    /// The number that the next frame gets; the first is 1.
    next: u64,
    /// Of the numbers from `next - records.len()` on.
    records: VecDeque<Record>,
    in_flight: u64,
    /// The highest number that arrived, and the counts of the newest report.
    highest: u64,
    counted: Option<(u32, u32)>,
    rate: DeliveryRate,
    last: Option<Rate>,
    /// The first round trip, from which arrivals are reckoned: reports come by several ways.
    trip: Option<Span>,
    /// The latest arrival, so reckoned.
    reckoned: Option<Time>,
    transits: Smallest<i64>,
    latest: Option<Transit>,
    queue: Span,
    pub(crate) losses: Losses,
    pub(crate) delivered_packets: u64,
    pub(crate) lost_packets: u64,
    settled: VecDeque<Settled>,
    /// Later numbers that must have arrived before one is lost.
    threshold: u64,
    /// Numbers that were taken for lost, and of which reports may still tell that they arrived.
    overtaken: Vec<u64>,
}

/// How long a frame was under way, and when it came there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transit {
    /// In nanoseconds, with the difference of two clocks.
    pub(crate) took: i64,
    /// By the peer's clock, in nanoseconds.
    pub(crate) arrived: u64,
}

impl Default for Flight {
    fn default() -> Flight {
        Flight {
            next: 1,
            records: VecDeque::new(),
            in_flight: 0,
            highest: 0,
            counted: None,
            rate: DeliveryRate::numbered(),
            last: None,
            trip: None,
            reckoned: None,
            transits: Smallest::default(),
            latest: None,
            queue: Span::ZERO,
            losses: Losses::default(),
            delivered_packets: 0,
            lost_packets: 0,
            settled: VecDeque::new(),
            threshold: THRESHOLD,
            overtaken: Vec::with_capacity(TOLD as usize),
        }
    }
}

impl Flight {
    /// A frame of `bytes` goes out: its number.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Time, bytes: usize) -> u32 {
        if self.records.len() >= MOST {
            self.forget_first();
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let stamp = self.rate.on_sent(now, self.in_flight == 0);
        self.records.push_back(Record { sent: now, bytes, open: true, note: Note::NONE, stamp });
        self.in_flight += u64::from(bytes);
        let number = self.next;
        self.next += 1;
        number as u32
    }

    /// The frame that went last carried what `note` says; its number.
    pub(crate) fn note_last(&mut self, note: Note) -> u64 {
        if let Some(record) = self.records.back_mut() {
            record.note = note;
        }
        self.next - 1
    }

    /// What became of a frame with a note.
    #[inline]
    pub(crate) fn poll_settled(&mut self) -> Option<Settled> {
        self.settled.pop_front()
    }

    #[inline]
    fn tell(&mut self, note: Note, number: u64, delivered: bool) {
        if note != Note::NONE {
            self.settled.push_back(Settled { note, number, delivered });
        }
    }

    /// The lowest number of which nothing was told, and when it went.
    pub(crate) fn first_open(&self) -> Option<(u64, Time)> {
        let first = self.next - self.records.len() as u64;
        self.records.iter().position(|r| r.open).map(|at| (first + at as u64, self.records[at].sent))
    }

    /// Whether a later number than `number` arrived.
    pub(crate) fn is_overtaken(&self, number: u64) -> bool {
        number < self.highest
    }

    /// The notes of frames of which nothing was told.
    pub(crate) fn open_notes(&self) -> impl DoubleEndedIterator<Item = Note> + '_ {
        self.records.iter().filter(|r| r.open && r.note != Note::NONE).map(|r| r.note)
    }

    /// What is under way behind the first `stays` bytes is told as if it were lost. What becomes of it is told in its time nevertheless.
    pub(crate) fn doubt(&mut self, stays: Bytes) {
        let first = self.next - self.records.len() as u64;
        let mut ahead = 0;
        for place in 0..self.records.len() {
            let record = self.records[place];
            if record.open {
                ahead += u64::from(record.bytes);
                if ahead > stays.as_u64() {
                    self.tell(record.note, first + place as u64, false);
                }
            }
        }
    }

    /// Numbers that others overtook, and that went before `before`, are lost.
    pub(crate) fn lose_overdue(&mut self, before: Time) -> Report {
        let in_flight = Bytes::new(self.in_flight);
        let mut report = Report { in_flight, highest: self.highest, ..Report::default() };
        while let Some(&Record { sent, bytes, open, note, .. }) = self.records.front() {
            let number = self.next - self.records.len() as u64;
            if open {
                if sent > before || !self.is_overtaken(number) {
                    break;
                }
                self.in_flight -= u64::from(bytes);
                self.on_loss();
                self.tell(note, number, false);
                report.lost += Bytes::new(u64::from(bytes));
                report.lost_up_to = Some(number);
            }
            self.records.pop_front();
        }
        report
    }

    #[cold]
    fn forget_first(&mut self) {
        if let Some(record) = self.records.pop_front()
            && record.open
        {
            self.in_flight -= u64::from(record.bytes);
            self.on_loss();
        }
    }

    /// There is nothing to send although more might be under way.
    pub(crate) fn on_idle(&mut self) {
        self.rate.on_app_limited(self.in_flight);
    }

    /// The peer's report; `None` where it tells of what was never sent.
    pub(crate) fn on_feedback(&mut self, now: Time, feedback: &Feedback) -> Option<Report> {
        // Of the highest the peer knows no more than the low 24 bits.
        let behind = u64::try_from(ahead((self.next - 1) as u32, feedback.highest)).ok()?;
        let highest = self.next.checked_sub(1 + behind).filter(|n| *n > 0)?;
        let mut report = Report { in_flight: Bytes::new(self.in_flight), highest, ..Report::default() };
        let (packets, marked) = self.counted.unwrap_or((0, 0));
        let newer = self.counted.is_none() || (feedback.packets.wrapping_sub(packets) as i32) > 0;
        let at = self.measure(now, feedback, highest, &mut report);
        let mut told = 0;
        for n in 0..TOLD.min(highest) {
            if n == 0 || feedback.set >> (n - 1) & 1 == 1 {
                let number = highest - n;
                told += u32::from(self.deliver(at, number, &mut report) || self.was_overtaken(number, n));
            } else if n >= self.threshold {
                self.lose_noted(highest - n, &mut report);
            }
        }
        self.overtaken.retain(|number| number + TOLD > highest);
        if newer {
            report.packets = feedback.packets.wrapping_sub(packets);
            report.marked = feedback.marked.wrapping_sub(marked).min(report.packets);
            // What the count has more than the window arrived before it.
            let untold = report.packets.saturating_sub(told);
            // Which of them did is a guess, so it says nothing of their lengths.
            let longest = report.longest;
            self.counted = Some((feedback.packets, feedback.marked));
            self.highest = self.highest.max(highest);
            self.settle(at, untold, &mut report);
            report.longest = longest;
        }
        report.sample = self.rate.sample();
        self.last = report.sample.map(|sample| sample.rate()).or(self.last);
        Some(report)
    }

    /// Whether `number`, which arrived behind `later` others, had been taken for lost.
    fn was_overtaken(&mut self, number: u64, later: u64) -> bool {
        let Some(place) = self.overtaken.iter().position(|lost| *lost == number) else { return false };
        self.overtaken.swap_remove(place);
        self.threshold = self.threshold.max(later + 1);
        self.lost_packets -= 1;
        self.delivered_packets += 1;
        self.losses.on_overtaken();
        true
    }

    /// The place of `number` among the records, if it has one.
    fn place(&self, number: u64) -> Option<usize> {
        let first = self.next - self.records.len() as u64;
        number.checked_sub(first).map(|place| place as usize).filter(|place| *place < self.records.len())
    }

    /// What the arrival of the highest says. Returns when an answer would have been here that neither the peer nor the way back held up.
    fn measure(&mut self, now: Time, feedback: &Feedback, highest: u64, report: &mut Report) -> Time {
        let Some(record) = self.place(highest).and_then(|place| self.records.get(place)).filter(|r| r.open) else {
            return self.reckoned.unwrap_or(now);
        };
        let since = now.since(record.sent);
        let held = Span::from_micros(u64::from(feedback.held));
        // A peer that claims to have held it longer than it was away lies.
        if held > since {
            return self.reckoned.unwrap_or(now);
        }
        let trip = *self.trip.get_or_insert(since - held);
        report.rtt = Some(since - held);
        let transit = feedback.arrived.wrapping_sub(record.sent.as_nanos()) as i64;
        self.transits.add(now, transit);
        self.latest = Some(Transit { took: transit, arrived: feedback.arrived });
        let least = self.transits.value().unwrap_or(transit);
        let queue = Span::from_nanos(transit.saturating_sub(least) as u64).min(since);
        report.waited = Some(queue);
        let smooth = self.queue.as_nanos();
        self.queue = Span::from_nanos(smooth - smooth / 4 + queue.as_nanos() / 4);
        let at = record.sent + trip + queue;
        *self.reckoned.insert(self.reckoned.map_or(at, |before| before.max(at)))
    }

    /// `number` arrived; whether that was not known.
    fn deliver(&mut self, now: Time, number: u64, report: &mut Report) -> bool {
        let Some(place) = self.place(number) else { return false };
        let record = &mut self.records[place];
        if !core::mem::take(&mut record.open) {
            return false;
        }
        let (bytes, note) = (u64::from(record.bytes), core::mem::replace(&mut record.note, Note::NONE));
        self.rate.on_delivered(now, bytes, record.sent, false, &record.stamp);
        self.tell(note, number, true);
        self.in_flight -= bytes;
        self.delivered_packets += 1;
        self.losses.on_delivered(self.queue);
        report.delivered += Bytes::new(bytes);
        report.longest = report.longest.max(bytes);
        true
    }

    /// `number` is missing in a report, if its record has a note.
    fn lose_noted(&mut self, number: u64, report: &mut Report) {
        let Some(place) = self.place(number) else { return };
        let record = &mut self.records[place];
        if !record.open || record.note == Note::NONE {
            return;
        }
        record.open = false;
        let (bytes, note) = (u64::from(record.bytes), record.note);
        self.in_flight -= bytes;
        self.on_loss();
        self.overtaken.push(number);
        self.tell(note, number, false);
        report.lost += Bytes::new(bytes);
        report.lost_up_to = report.lost_up_to.max(Some(number));
    }

    fn on_loss(&mut self) {
        self.lost_packets += 1;
        self.losses.on_lost(self.queue);
    }

    /// Settles what is behind: `untold` frames arrived of those that the report does not tell one by one.
    fn settle(&mut self, now: Time, mut untold: u32, report: &mut Report) {
        loop {
            let number = self.next - self.records.len() as u64;
            let Some(record) = self.records.front_mut() else { break };
            if !record.open {
                self.records.pop_front();
                continue;
            }
            if number + self.threshold > self.highest {
                break;
            }
            if record.note != Note::NONE {
                break;
            }
            let bytes = u64::from(record.bytes);
            if untold > 0 && number + TOLD <= self.highest {
                untold -= 1;
                self.deliver(now, number, report);
                continue;
            }
            self.in_flight -= bytes;
            self.records.pop_front();
            self.on_loss();
            if number + TOLD > self.highest {
                self.overtaken.push(number);
            }
            report.lost += Bytes::new(bytes);
            report.lost_up_to = Some(number);
        }
    }

    /// Nothing that is under way will be told of any more: the peer is another one, or was silent for too long. Returns the
    /// bytes.
    pub(crate) fn abandon(&mut self) -> Bytes {
        let bytes = Bytes::new(self.in_flight);
        while let Some(record) = self.records.pop_front() {
            if record.open {
                self.tell(record.note, self.next - self.records.len() as u64 - 1, false);
            }
        }
        self.in_flight = 0;
        bytes
    }

    /// The peer is another one, with another clock and other counts.
    pub(crate) fn forget_peer(&mut self) {
        self.abandon();
        self.overtaken.clear();
        self.counted = None;
        (self.trip, self.reckoned) = (None, None);
        self.transits.clear();
        self.latest = None;
        self.queue = Span::ZERO;
    }

    /// For a channel that joins anew: nothing is known of its frames, and the next one's number is the next. The peer, for
    /// whom the channel may never have left, takes no number for new that it has seen, and counts on.
    pub(crate) fn begin_anew(&mut self) {
        let Flight { next, highest, counted, .. } = *self;
        *self = Flight { next, highest, counted, ..Flight::default() };
    }

    /// Bytes under way.
    #[inline]
    pub(crate) fn in_flight(&self) -> Bytes {
        Bytes::new(self.in_flight)
    }

    /// The position of the next frame.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// When the oldest frame left that is still under way.
    pub(crate) fn oldest(&self) -> Option<Time> {
        self.records.iter().find(|r| r.open).map(|r| r.sent)
    }

    /// The rate of delivery that was measured last.
    pub(crate) fn delivery_rate(&self) -> Option<Rate> {
        self.last
    }

    /// The smallest transit lately, in nanoseconds of two clocks' difference.
    pub(crate) fn transit(&self) -> Option<i64> {
        self.transits.value()
    }

    /// The newest transit.
    pub(crate) fn latest(&self) -> Option<Transit> {
        self.latest
    }

    /// What frames wait on the way beyond the smallest transit.
    pub(crate) fn queue(&self) -> Span {
        self.queue
    }

    /// Whether frames are lost now and then: more than one in a thousand, or so few went that nobody knows.
    #[inline]
    pub(crate) fn may_lose(&self) -> bool {
        self.delivered_packets < UNKNOWN || self.losses.loses()
    }
}

#[cfg(test)]
mod tests {
    use super::super::receipts::Receipts;
    use super::*;
    use crate::units::ChannelId;
    use proptest::prelude::*;

    const US: fn(u64) -> Time = |us| Time::from_nanos(us * 1000);

    /// A link of 8 Mbit/s, 1000 bytes in 1 ms, and 20 ms each way; `lost` says which numbers, `dropped` which reports.
    fn run(frames: u32, gap_us: u64, lost: impl Fn(u32) -> bool, dropped: impl Fn(usize) -> bool) -> Flight {
        let (mut flight, mut receipts) = (Flight::default(), Receipts::default());
        let (mut arrivals, mut reports, mut got) = (VecDeque::new(), VecDeque::new(), 0);
        let (mut free, mut sent) = (0, 0);
        for us in 0..(u64::from(frames) * gap_us.max(1000) + 100_000) {
            let now = US(us);
            if sent < frames && us == u64::from(sent) * gap_us {
                let number = flight.on_sent(now, 1000);
                sent += 1;
                assert_eq!(number, sent);
                free = us.max(free) + 1000;
                if !lost(number) {
                    arrivals.push_back((free + 20_000, number));
                }
            }
            while arrivals.front().is_some_and(|(at, _)| *at == us) {
                let Some((_, number)) = arrivals.pop_front() else { break };
                // The peer's clock is an hour ahead.
                receipts.on_arrival(now + Span::from_secs(3600), number, 1000, false);
            }
            if let Some(report) = receipts.poll(now + Span::from_secs(3600), ChannelId(0), 0) {
                reports.push_back((us + 20_000, report));
            }
            while reports.front().is_some_and(|(at, _)| *at == us) {
                let Some((_, report)) = reports.pop_front() else { break };
                got += 1;
                if !dropped(got) {
                    assert!(flight.on_feedback(now, &report).is_some());
                }
            }
        }
        flight
    }

    #[test]
    fn a_saturated_link_shows_its_rate_and_its_queue() {
        let steady = run(400, 1000, |_| false, |_| false);
        let rate = steady.delivery_rate().unwrap().as_bits_per_sec();
        // The last report may come 5 ms late, a tenth of the round trip.
        assert!((7_200_000..=8_100_000).contains(&rate), "{rate}");
        assert!(steady.queue() < Span::from_micros(100), "{:?}", steady.queue());
        let full = run(400, 750, |_| false, |_| false);
        let rate = full.delivery_rate().unwrap().as_bits_per_sec();
        assert!((7_600_000..=8_100_000).contains(&rate), "{rate}");
        assert!(full.queue() > Span::from_millis(80), "400 frames, 250 us each: {:?}", full.queue());
        assert_eq!((full.delivered_packets, full.lost_packets, full.in_flight()), (400, 0, Bytes::ZERO));
    }

    #[test]
    fn losses_are_counted_one_by_one() {
        let flight = run(1000, 1000, |n| n % 50 == 7, |_| false);
        assert_eq!((flight.delivered_packets, flight.lost_packets), (980, 20));
        let ppm = flight.losses.ppm();
        assert!((8_000..32_000).contains(&ppm), "2 % over the last 256 or so: {ppm}");
    }

    #[test]
    fn lost_reports_cost_no_knowledge_of_what_arrived() {
        let flight = run(1000, 250, |_| false, |n| n % 7 < 5);
        assert_eq!((flight.delivered_packets, flight.lost_packets), (1000, 0));
    }

    fn feedback(highest: u32, packets: u32, set: u64) -> Feedback {
        Feedback { highest, packets, set, ..Feedback::default() }
    }

    #[test]
    fn a_number_is_lost_when_three_later_ones_arrived() {
        let mut flight = Flight::default();
        for n in 0..5 {
            flight.on_sent(US(n), 100);
        }
        let report = flight.on_feedback(US(100), &feedback(3, 2, 0b10)).unwrap();
        assert_eq!((report.delivered, report.lost), (Bytes::new(200), Bytes::ZERO));
        let report = flight.on_feedback(US(101), &feedback(5, 4, 0b1011)).unwrap();
        assert_eq!((report.delivered, report.lost, report.lost_up_to), (Bytes::new(200), Bytes::new(100), Some(2)));
        assert_eq!(flight.in_flight(), Bytes::ZERO);
    }

    #[test]
    fn one_that_arrives_after_all_was_overtaken_and_from_then_on_more_later_ones_are_waited_for() {
        for noted in [false, true] {
            let mut flight = Flight::default();
            for n in 0..16 {
                flight.on_sent(US(n), 100);
                if noted {
                    flight.note_last(Note { slot: n as u32, generation: 0 });
                }
            }
            let mut told =
                |highest, packets, set| flight.on_feedback(US(100), &feedback(highest, packets, set)).unwrap();
            assert_eq!(told(5, 4, 0b1011).lost, Bytes::new(100), "number 2");
            let report = told(8, 8, 0b111_1111);
            assert_eq!(
                (report.delivered, report.lost),
                (Bytes::new(300), Bytes::ZERO),
                "number 2 came behind six others"
            );
            assert_eq!(told(13, 12, 0b1111_1111_0111).lost, Bytes::ZERO, "number 9 may come yet");
            assert_eq!(told(16, 15, 0b111_1111_1011_1111).lost_up_to, Some(9), "it does not");
            assert_eq!((flight.delivered_packets, flight.lost_packets, flight.in_flight()), (15, 1, Bytes::ZERO));
        }
    }

    #[test]
    fn what_is_doubted_is_told_as_lost_and_what_becomes_of_it_in_its_time() {
        let mut flight = Flight::default();
        for n in 0..5 {
            flight.on_sent(US(n), 100);
            flight.note_last(Note { slot: n as u32, generation: 0 });
        }
        let told = |flight: &mut Flight| -> alloc::vec::Vec<(u32, u64, bool)> {
            std::iter::from_fn(|| flight.poll_settled()).map(|s| (s.note.slot, s.number, s.delivered)).collect()
        };
        flight.on_feedback(US(100), &feedback(2, 2, 0b11)).unwrap();
        assert_eq!(told(&mut flight), [(1, 2, true), (0, 1, true)]);
        flight.doubt(Bytes::new(100));
        assert_eq!(told(&mut flight), [(3, 4, false), (4, 5, false)], "one of the three under way stays");
        assert_eq!((flight.in_flight(), flight.lost_packets), (Bytes::new(300), 0));
        flight.on_feedback(US(200), &feedback(5, 5, u64::MAX)).unwrap();
        assert_eq!(told(&mut flight), [(4, 5, true), (3, 4, true), (2, 3, true)]);
    }

    /// The peer names the newest 64 and counts all: which of those before arrived is a guess.
    #[test]
    fn the_longest_is_one_that_the_peer_named() {
        let mut flight = Flight::default();
        for n in 0..100 {
            flight.on_sent(US(n), if n < 30 { 1400 } else { 100 });
        }
        let report = flight.on_feedback(US(200), &feedback(100, 100, u64::MAX)).unwrap();
        assert!(report.delivered > Bytes::new(100 * 100) && report.longest == 100, "{report:?}");
    }

    #[test]
    fn what_was_never_sent_is_refused() {
        let mut flight = Flight::default();
        assert_eq!(flight.on_feedback(US(1), &feedback(0, 1, 0)), None);
        assert_eq!(flight.on_feedback(US(1), &feedback(1, 1, 0)), None);
        flight.on_sent(US(1), 100);
        assert_eq!(flight.on_feedback(US(2), &feedback(2, 1, 0)), None);
        assert_eq!(flight.on_feedback(US(2), &feedback(u32::MAX, 1, u64::MAX)), None);
        assert!(flight.on_feedback(US(2), &feedback(1, 1, u64::MAX)).is_some());
    }

    #[test]
    fn records_are_bounded_where_the_peer_tells_nothing() {
        let mut flight = Flight::default();
        for n in 0..2 * MOST as u64 {
            flight.on_sent(US(n), 100);
        }
        assert_eq!((flight.records.len(), flight.in_flight()), (MOST, Bytes::new(100 * MOST as u64)));
        assert_eq!(flight.lost_packets, MOST as u64);
        flight.forget_peer();
        assert_eq!((flight.in_flight(), flight.oldest()), (Bytes::ZERO, None));
    }

    proptest! {
        /// Whatever the peer reports: each frame is settled once, and the books balance.
        #[test]
        fn any_reports_keep_the_books(
            steps in prop::collection::vec((0u64..20, any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>(), any::<u32>()), 1..200),
        ) {
            let mut flight = Flight::default();
            let mut now = 0;
            for (n, highest, packets, set, arrived, held) in steps {
                for _ in 0..n {
                    flight.on_sent(US(now), 100);
                }
                now += 50;
                let sent = flight.next - 1;
                let highest = if highest % 3 == 0 { highest } else { highest % (sent as u32 + 2) };
                let report = Feedback { highest, packets, set, arrived, held, ..Feedback::default() };
                if let Some(report) = flight.on_feedback(US(now), &report) {
                    prop_assert!(report.rtt.is_none_or(|rtt| rtt <= Span::from_micros(now)));
                    prop_assert!(report.marked == 0 && report.lost + report.delivered <= report.in_flight);
                }
                let open = flight.records.iter().filter(|r| r.open).count() as u64;
                prop_assert_eq!(flight.in_flight().as_u64(), open * 100);
                prop_assert_eq!(flight.delivered_packets + flight.lost_packets + open, sent);
                prop_assert!(flight.queue() <= Span::from_micros(now) && flight.losses.ppm() <= 1_000_000);
            }
        }
    }
}
