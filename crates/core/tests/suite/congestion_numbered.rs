//! Congestion control and loss detection without TCP: a sender of numbered packets over a model of a bottleneck, as a bond's
//! channel or a reliable sender is one.

use fairspan_core::congestion::window::SlowStart;
use fairspan_core::congestion::{Acked, Algorithm, AnyLaw, Config, Congested, Law, Sent};
use fairspan_core::loss::delivery_rate::{DeliveryRate, Stamp};
use fairspan_core::loss::episode::Episode;
use fairspan_core::loss::rack::{Progress, Rack};
use fairspan_core::loss::rtt::{self, Rtt};
use fairspan_core::loss::scoreboard::{EVER, Scoreboard};
use fairspan_core::options::Words;
use fairspan_core::units::{Bytes, Rate, Span, Time};
use std::collections::VecDeque;

const PACKET: u32 = 1200;
const TICK: Span = Span::from_micros(100);

/// What is told of an arriving packet: its number, and whether it came with a mark of congestion.
#[derive(Clone, Copy)]
struct Feedback {
    at: Time,
    number: u64,
    marked: bool,
}

/// A link of a rate with a queue of so many packets, that marks above so many, and a delay both ways together.
struct Bottleneck {
    rate: Rate,
    delay: Span,
    queue: u64,
    mark_above: u64,
    free: Time,
    /// Every so many packets one is lost on the way.
    loses: u64,
    seen: u64,
    feedback: VecDeque<Feedback>,
}

impl Bottleneck {
    fn send(&mut self, now: Time, number: u64) {
        self.seen += 1;
        let one = self.rate.transmit_time(Bytes::new(u64::from(PACKET)));
        let waiting = self.free.since(now).as_nanos() / one.as_nanos();
        if waiting >= self.queue || (self.loses > 0 && self.seen.is_multiple_of(self.loses)) {
            return;
        }
        self.free = self.free.max(now) + one;
        self.feedback.push_back(Feedback { at: self.free + self.delay, number, marked: waiting > self.mark_above });
    }
}

/// A sender that numbers its packets, sends new ones only, and may pace.
struct Sender {
    law: AnyLaw,
    board: Scoreboard<Stamp>,
    rack: Rack,
    rtt: Rtt,
    rate: DeliveryRate,
    episode: Episode,
    next: u64,
    acked_to: u64,
    paces: bool,
    /// What was due since the tick before goes late and takes nothing from the pace.
    catches_up: bool,
    free: Time,
    delivered: u64,
    lost: u64,
    marked: u64,
    episodes: u64,
    /// The highest rate that a sample had.
    best: Rate,
    /// Most packets that went out in one tick.
    burst: u64,
}

impl Sender {
    fn new(algorithm: Algorithm, paces: bool) -> Sender {
        let mut config = Config::new(algorithm, PACKET);
        config.window.slow_start = SlowStart::HyStartPlusPlus;
        config.window.grow_only_when_limited = true;
        Sender {
            law: AnyLaw::new(&config),
            board: Scoreboard::default(),
            rack: Rack::new(),
            rtt: Rtt::new(&rtt::Config::default()),
            rate: DeliveryRate::default(),
            episode: Episode::default(),
            next: 0,
            acked_to: 0,
            paces,
            catches_up: false,
            free: Time::ZERO,
            delivered: 0,
            lost: 0,
            marked: 0,
            episodes: 0,
            best: Rate::default(),
            burst: 0,
        }
    }

    fn send(&mut self, now: Time, link: &mut Bottleneck) {
        let mut burst = 0;
        loop {
            let in_flight = self.board.in_flight();
            let pace = self.law.pacing_rate().filter(|_| self.paces);
            if in_flight + u64::from(PACKET) > self.law.window().as_u64() || (pace.is_some() && self.free > now) {
                break;
            }
            let bytes = Bytes::new(u64::from(PACKET));
            if let Some(rate) = pace {
                let due = if self.catches_up { self.free } else { self.free.max(now) };
                self.free = due.max(Time::ZERO + (now.since(Time::ZERO) - TICK)) + rate.transmit_time(bytes);
            }
            let stamp = self.rate.on_sent(now, self.board.is_empty());
            let number = self.next;
            self.next += 1;
            self.board.push(now, self.next, 1, PACKET, stamp);
            self.law.on_sent(&Sent { now, bytes, in_flight: Bytes::new(in_flight), end: self.next });
            link.send(now, number);
            burst += 1;
        }
        self.burst = self.burst.max(burst);
    }

    fn congested(&mut self, now: Time, bytes: u64, position: u64) -> Congested {
        let begins = self.episode.begins(position, self.next);
        self.episodes += u64::from(begins);
        let in_flight = Bytes::new(self.board.in_flight());
        Congested { now, bytes: Bytes::new(bytes), in_flight, limit: Bytes::new(u64::MAX), begins, exact: true }
    }

    fn on_feedback(&mut self, feedback: Feedback) {
        let Feedback { at: now, number, marked } = feedback;
        let in_flight = self.board.in_flight();
        let mut rtt = None;
        let (rack, rate) = (&mut self.rack, &mut self.rate);
        let bytes = self.board.sack(number, number + 1, |sent| {
            assert!(!sent.is(EVER), "nothing is sent twice");
            rtt = Some(now.since(sent.sent_at));
            rack.on_rtt(now.since(sent.sent_at));
            rack.on_delivered(now, sent.transmission(), None);
            rate.on_delivered(now, u64::from(sent.bytes), sent.sent_at, false, &sent.stamp);
        });
        if let Some(rtt) = rtt {
            self.rtt.on_sample(rtt);
        }
        self.acked_to = self.acked_to.max(number + 1);
        self.delivered += bytes;
        let delivery = self.rate.sample();
        self.best = self.best.max(delivery.map_or(Rate::default(), |sample| sample.rate()));
        let recovering = self.episode.goes_on(self.acked_to);
        self.law.on_acked(&Acked {
            now,
            bytes: Bytes::new(bytes),
            in_flight: Bytes::new(in_flight),
            rtt,
            waited: None,
            smoothed_rtt: self.rtt.smoothed(),
            up_to: self.acked_to,
            next: self.next,
            limited: true,
            recovering,
            delivery,
        });
        self.rack.on_ack(&Progress {
            una: self.board.front().map_or(self.next, |sent| sent.start()),
            next: self.next,
            duplicate: false,
            recovering,
            recovered: false,
            sacked: self.board.sacked_segments(),
            smoothed_rtt: self.rtt.smoothed(),
        });
        if marked {
            self.marked += 1;
            let congested = self.congested(now, bytes, number);
            self.law.on_ecn(&congested);
        }
        self.find_losses(now);
    }

    fn find_losses(&mut self, now: Time) {
        self.rack.detect(now, &mut self.board);
        let lost = self.board.take_lost();
        if lost.bytes > 0 {
            self.lost += lost.bytes;
            let congested = self.congested(now, lost.bytes, lost.end - 1);
            self.law.on_lost(&congested);
        }
        // Nothing is sent again: what is settled at the front is forgotten.
        let settled = |board: &Scoreboard<Stamp>| board.front().filter(|sent| sent.flags != 0).map(|sent| sent.end);
        while let Some(end) = settled(&self.board) {
            self.board.acknowledge(end, |_| ());
        }
    }
}

fn run(sender: &mut Sender, link: &mut Bottleneck, from: Time, span: Span) {
    let mut now = from;
    let end = from + span;
    while now < end {
        while let Some(feedback) = link.feedback.front().copied().filter(|feedback| feedback.at <= now) {
            link.feedback.pop_front();
            sender.on_feedback(feedback);
            sender.send(now, link);
        }
        sender.send(now, link);
        now += TICK;
    }
}

/// 20 Mbit/s, 40 ms, a queue of as much: 83 packets under way fill the path.
fn bottleneck(mark_above: u64, loses: u64) -> Bottleneck {
    Bottleneck {
        rate: Rate::from_mbit(20),
        delay: Span::from_millis(40),
        queue: 80,
        mark_above,
        free: Time::ZERO,
        loses,
        seen: 0,
        feedback: VecDeque::with_capacity(4096),
    }
}

fn utilisation(sender: &Sender, span: Span) -> f64 {
    sender.delivered as f64 / Rate::from_mbit(20).bytes_in(span).as_u64() as f64
}

#[test]
fn every_law_fills_a_bottleneck_by_packet_numbers_alone() {
    for &algorithm in Algorithm::ALL {
        // A model of the path is nothing without its pace.
        let least = usize::from(algorithm == Algorithm::Probe);
        for &paces in &[false, true][least..] {
            let (mut sender, mut link) = (Sender::new(algorithm, paces), bottleneck(u64::MAX, 0));
            // A pace that begins anew with each tick is slower than it should be, and BBR takes that for the path's rate.
            sender.catches_up = algorithm == Algorithm::Bbr;
            let span = Span::from_secs(20);
            run(&mut sender, &mut link, Time::ZERO, span);
            let share = utilisation(&sender, span);
            // A queue of one product of rate and delay keeps the link busy through every reduction; the rest is the start.
            // LEDBAT++ lets the queue drain in a tenth of its time.
            let least = if algorithm == Algorithm::LedbatPlusPlus { 0.9 } else { 0.95 };
            assert!((least..=1.0).contains(&share), "{} {paces}: {share}", algorithm.word());
            if algorithm == Algorithm::Delay {
                assert_eq!(sender.lost, 0, "a law of delay stops before the queue overflows");
                continue;
            }
            // The first slow start of Vegas sees the queue a round late.
            if matches!(algorithm, Algorithm::Probe | Algorithm::Vegas) {
                let lost = sender.lost;
                run(&mut sender, &mut link, Time::ZERO + span, Span::from_secs(20));
                assert_eq!(sender.lost, lost, "once it knows the rate the queue does not overflow");
                continue;
            }
            assert!(
                sender.episodes >= 1 && sender.lost >= u64::from(PACKET),
                "{}: the queue overflows at last",
                algorithm.word()
            );
            let most = sender.episodes * 83 * u64::from(PACKET);
            assert!(most > sender.lost, "{}: reductions are one a window", algorithm.word());
        }
    }
}

#[test]
fn samples_of_the_delivery_rate_find_the_bottlenecks_rate_and_never_more() {
    let (mut sender, mut link) = (Sender::new(Algorithm::Cubic, false), bottleneck(u64::MAX, 0));
    run(&mut sender, &mut link, Time::ZERO, Span::from_secs(5));
    // Feedback counts when its tick begins, so that a sample may be a tick of 40 ms short.
    let best = sender.best.as_bits_per_sec() as f64 / 20e6;
    assert!((0.98..=1.01).contains(&best), "{best}");
}

#[test]
fn marks_keep_the_queue_short_so_that_nothing_is_lost_after_slow_start() {
    for &algorithm in Algorithm::ALL {
        let (mut sender, mut link) = (Sender::new(algorithm, true), bottleneck(20, 0));
        // Slow start doubles once more before its first mark is back.
        run(&mut sender, &mut link, Time::ZERO, Span::from_secs(2));
        let (lost, episodes) = (sender.lost, sender.episodes);
        let span = Span::from_secs(18);
        sender.delivered = 0;
        run(&mut sender, &mut link, Time::from_millis(2000), span);
        // Laws that see the queue keep it below the marks.
        let by_marks = !matches!(algorithm, Algorithm::Delay | Algorithm::Probe | Algorithm::Vegas);
        assert!(sender.marked > 0 && (sender.episodes > episodes) == by_marks, "{}", algorithm.word());
        assert_eq!(sender.lost, lost, "{}", algorithm.word());
        // A queue of a quarter of the path's product does not keep the link busy through every reduction.
        assert!(
            (0.8..=1.0).contains(&utilisation(&sender, span)),
            "{}: {}",
            algorithm.word(),
            utilisation(&sender, span)
        );
    }
}

#[test]
fn a_sender_that_paces_has_no_bursts() {
    let mut bursts = [0; 2];
    for (paces, burst) in [false, true].into_iter().zip(&mut bursts) {
        let (mut sender, mut link) = (Sender::new(Algorithm::Reno, paces), bottleneck(u64::MAX, 0));
        run(&mut sender, &mut link, Time::ZERO, Span::from_secs(1));
        // From here on the first window, which no round trip was measured for, does not count.
        sender.burst = 0;
        run(&mut sender, &mut link, Time::from_millis(1000), Span::from_secs(4));
        *burst = sender.burst;
    }
    assert_eq!(bursts[1], 1, "one packet at a time");
    assert!(bursts[0] >= bursts[1]);
}

#[test]
fn no_event_allocates_once_the_window_was_filled() {
    for &algorithm in Algorithm::ALL {
        // These keep fewer packets waiting than the others are marked for.
        let short = matches!(algorithm, Algorithm::Vegas | Algorithm::LedbatPlusPlus);
        let mark_above = if short { 0 } else { 40 };
        let (mut sender, mut link) = (Sender::new(algorithm, true), bottleneck(mark_above, 300));
        run(&mut sender, &mut link, Time::ZERO, Span::from_secs(5));
        let counted = allocation_counter::measure(|| {
            run(&mut sender, &mut link, Time::from_millis(5000), Span::from_secs(10));
        });
        assert!(sender.lost > 0 && sender.marked > 0, "{}", algorithm.word());
        assert_eq!(counted.count_total, 0, "{}", algorithm.word());
    }
}
