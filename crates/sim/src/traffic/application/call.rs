//! One direction of a call: frames of speech at a fixed distance, a playout buffer, and what a listener would say of it.
//!
//! Source: ITU-T G.107 (the E-model), with everything at its default but the delay and the loss: no echo, no noise beyond the default, no
//! advantage factor. Ie and Bpl of codecs are from ITU-T G.113, appendix I.
//!
//! | symbol | here |
//! |---|---|
//! | Ro - Is, with all defaults | `BEST` |
//! | Ta, the delay from mouth to ear in ms | frame + look-ahead + the first frame's way + `playout` |
//! | Idd | `delayed` |
//! | Ie, Bpl | `codec.impairment`, `codec.robustness` |
//! | Ppl, in per cent | frames that were not there when they were to be played |
//! | `BurstR` | [`results::CallResult::burst_ratio`](crate::results::CallResult::burst_ratio) |
//!
//! R = 93.2 - Idd - (Ie + (95 - Ie) Ppl / (Ppl / BurstR + Bpl)); MOS by G.107, annex B.
//!
//! The flow's sender speaks without pause. The first frame that arrives sets the clock: it is played `playout` after it came, and every
//! other one at the same distance from when it was spoken. A frame that comes later is of no use. So `playout` is what a frame may take longer
//! than that first one, as a fixed jitter buffer has it. Frames whose time comes after the end of the run are not counted.
//!
//! Cost: a few operations a frame. Memory: a bit for each frame that waits to be played.

use crate::endpoint::{Endpoint, Handled, Outgoing};
use crate::packet::{Body, Packet};
use crate::results::CallResult;
use crate::traffic::workload;
use fairspan_core::units::{Span, Time};
use std::collections::VecDeque;

/// R with no delay and no loss: Ro - Is of all defaults (G.107, 2015, table 3 and its text).
const BEST: f64 = 93.2;
/// More frames than this do not wait to be played.
const MOST_WAITING: usize = 1 << 20;

/// Both ends of one direction.
#[derive(Clone, Debug)]
pub struct Call {
    config: workload::Call,
    /// When the next frame leaves, and its number.
    next: Option<Time>,
    spoken: u64,
    /// Of these, before the measured time.
    spoken_before: u64,
    /// When frame 0 is played: known from the first frame that arrived, with what that took.
    clock: Option<(Time, Span)>,
    /// The frame that is played next, and which of it and those after it are there.
    turn: u64,
    there: VecDeque<bool>,
    /// When the last frame of all was sent; those after it will never come.
    heard: Heard,
    delivered: u64,
}

/// What is measured.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    frames: u64,
    missing: u64,
    late: u64,
    /// Bursts of missing frames.
    bursts: u64,
    /// The frame before was missing.
    in_burst: bool,
}

impl Call {
    /// A call that has not begun.
    pub fn new(config: workload::Call) -> Call {
        Call {
            config,
            next: None,
            spoken: 0,
            spoken_before: 0,
            clock: None,
            turn: 0,
            there: VecDeque::new(),
            heard: Heard::default(),
            delivered: 0,
        }
    }

    /// When a frame is played.
    fn due(&self, frame: u64) -> Option<Time> {
        self.clock.map(|(first, _)| first + self.config.codec.frame.times(frame))
    }

    /// Plays all that was due before: what comes at the very moment is in time.
    fn advance(&mut self, now: Time) {
        while self.turn < self.spoken && self.due(self.turn).is_some_and(|due| due < now) {
            let there = self.there.pop_front().unwrap_or(false);
            self.turn += 1;
            self.heard.frames += 1;
            self.heard.missing += u64::from(!there);
            self.heard.bursts += u64::from(!there && !self.heard.in_burst);
            self.heard.in_burst = !there;
        }
    }

    /// What the listener heard until now.
    pub fn result(&self, now: Time) -> CallResult {
        let unheard = self.spoken - self.spoken_before;
        if self.clock.is_none() && unheard > 0 {
            // Nothing came at all, and there is no clock to say what was due: as bad as it can be.
            let (frames, rating) = (unheard, Some(0.0));
            return CallResult {
                frames,
                lost: frames,
                burst_ratio: 1.0,
                rating,
                mos: Some(1.0),
                ..CallResult::default()
            };
        }
        let mut until = self.clone();
        until.advance(now);
        let heard = until.heard;
        let share = if heard.frames == 0 { 0.0 } else { heard.missing as f64 / heard.frames as f64 };
        // Of losses by chance a burst has 1 / (1 - p) frames on average. Where nothing came through there is no burst that ended.
        let burst_ratio = if heard.bursts == 0 || share >= 1.0 {
            1.0
        } else {
            (heard.missing as f64 / heard.bursts as f64 * (1.0 - share)).max(1.0)
        };
        let codec = &self.config.codec;
        let delay = self.clock.map(|(_, way)| codec.frame + codec.ahead + way + self.config.playout);
        let rating = (heard.frames > 0).then(|| {
            let delay = delay.unwrap_or_default().as_secs_f64() * 1000.0;
            rating(delay, 100.0 * share, burst_ratio, codec.impairment, codec.robustness)
        });
        CallResult {
            frames: heard.frames,
            lost: heard.missing - heard.late.min(heard.missing),
            late: heard.late,
            delay_s: delay.map(Span::as_secs_f64),
            burst_ratio,
            rating,
            mos: rating.map(opinion),
        }
    }
}

impl Endpoint for Call {
    fn start(&mut self, now: Time) {
        self.next = Some(now);
    }

    fn stop(&mut self, _: Time) {
        self.next = None;
    }

    fn handle_packet(&mut self, now: Time, packet: &Packet) -> Handled {
        let frame = u64::from(packet.connection);
        self.delivered += u64::from(self.config.codec.payload);
        if self.clock.is_none() {
            let first = now + self.config.playout;
            let before = self.config.codec.frame.times(frame);
            // Frame 0 would have been played so much earlier; a clock cannot begin before the run does.
            let first = Time::ZERO + (first.since(Time::ZERO) - before);
            self.clock = Some((first, now.since(packet.created)));
        }
        self.advance(now);
        let Some(place) = frame.checked_sub(self.turn) else {
            self.heard.late += 1;
            return Handled::default();
        };
        let place = place as usize;
        if place < MOST_WAITING {
            if self.there.len() <= place {
                self.there.resize(place + 1, false);
            }
            self.there[place] = true;
        }
        Handled::default()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.advance(now);
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Outgoing> {
        let due = self.next.filter(|due| *due <= now)?;
        self.next = Some(due + self.config.codec.frame);
        let number = self.spoken as u32;
        self.spoken += 1;
        let size = self.config.codec.payload + self.config.header;
        Some(Outgoing { reverse: false, connection: number, size, body: Body::Datagram })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.next
    }

    fn poll_delivered(&mut self) -> u64 {
        std::mem::take(&mut self.delivered)
    }

    fn call(&self, now: Time) -> Option<CallResult> {
        Some(self.result(now))
    }

    fn begin(&mut self, now: Time) {
        self.advance(now);
        self.spoken_before = self.spoken;
        self.heard = Heard { in_burst: self.heard.in_burst, ..Heard::default() };
    }
}

/// R of the E-model, for a delay in ms and a loss in per cent.
fn rating(delay: f64, loss: f64, burst_ratio: f64, impairment: f64, robustness: f64) -> f64 {
    // G.107, (7-29)
    let effective = impairment + (95.0 - impairment) * loss / (loss / burst_ratio + robustness);
    BEST - delayed(delay) - effective
}

/// Idd, the impairment by an absolute delay in ms that is too long (G.107, 7-27 and 7-28).
fn delayed(delay: f64) -> f64 {
    if delay <= 100.0 {
        return 0.0;
    }
    let x = libm::log2(delay / 100.0);
    let root = |value: f64| libm::pow(1.0 + libm::pow(value, 6.0), 1.0 / 6.0);
    25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
}

/// The mean opinion score of a rating (G.107, annex B).
fn opinion(rating: f64) -> f64 {
    match rating {
        r if r <= 0.0 => 1.0,
        r if r >= 100.0 => 4.5,
        // The cubic dips below 1 near zero.
        r => (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64, within: f64) {
        assert!((found - expected).abs() <= within, "{found} instead of {expected}");
    }

    #[test]
    fn ratings_are_those_of_the_e_model() {
        // No delay, no loss: the best there is, 4.41 (G.107, annex B).
        near(rating(0.0, 0.0, 1.0, 0.0, 4.3), 93.2, 1e-9);
        near(opinion(93.2), 4.41, 0.005);
        // R and MOS of G.109's classes of quality.
        for (r, mos) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
            near(opinion(r), mos, 0.01);
        }
        assert_eq!((opinion(-5.0), opinion(0.0), opinion(3.0), opinion(120.0)), (1.0, 1.0, 1.0, 4.5));
        // Idd at 200 ms, where x = 1: 25 (2^(1/6) - 3 (1 + 3^-6)^(1/6) + 2) = 3.04; nothing up to 100 ms.
        assert_eq!((delayed(0.0), delayed(100.0)), (0.0, 0.0));
        near(delayed(200.0), 3.044, 0.002);
        // 150 ms, the bound of G.114, costs hardly anything; 400 ms, x = 2, much.
        near(delayed(150.0), 0.16, 0.03);
        near(delayed(400.0), 24.05, 0.3);
        // G.711 with 2 % lost by chance: 95 * 2 / (2 + 25.1) with concealment, 95 * 2 / (2 + 4.3) without.
        near(rating(0.0, 2.0, 1.0, 0.0, 25.1), 93.2 - 7.011, 1e-3);
        near(rating(0.0, 2.0, 1.0, 0.0, 4.3), 93.2 - 30.159, 1e-3);
        // Bursts are worse than as many losses by chance.
        assert!(rating(0.0, 2.0, 3.0, 0.0, 4.3) < rating(0.0, 2.0, 1.0, 0.0, 4.3) - 5.0);
    }

    fn call(playout: u64) -> Call {
        let config = workload::Call { codec: workload::Codec::G711, playout: Span::from_millis(playout), header: 40 };
        let mut call = Call::new(config);
        call.start(Time::ZERO);
        call
    }

    /// Sends frames every 20 ms; each arrives after so many milliseconds, or never.
    fn run(call: &mut Call, ways: &[Option<u64>]) {
        let mut arrivals = Vec::new();
        for (frame, way) in ways.iter().enumerate() {
            let sent = 20 * frame as u64;
            arrivals.extend(way.map(|way| (sent + way, frame as u32)));
        }
        arrivals.sort_unstable();
        for now in 0..20 * ways.len() as u64 + 300 {
            let time = Time::from_millis(now);
            if now == 20 * ways.len() as u64 {
                call.stop(time);
            }
            if call.poll_timeout().is_some_and(|due| due <= time) {
                call.handle_timeout(time);
                let out = call.poll_transmit(time).expect("a frame");
                assert_eq!((out.size, u64::from(out.connection)), (200, now / 20));
            }
            for &(_, frame) in arrivals.iter().filter(|arrival| arrival.0 == now) {
                let packet = Packet {
                    flow: 0,
                    reverse: false,
                    number: u64::from(frame),
                    size: 200,
                    created: Time::from_millis(20 * u64::from(frame)),
                    connection: frame,
                    step: 0,
                    dscp: 0,
                    body: Body::Datagram,
                };
                call.handle_packet(time, &packet);
            }
        }
    }

    #[test]
    fn a_frame_that_takes_longer_than_the_first_and_the_playout_time_is_late() {
        let mut call = call(30);
        let mut ways = vec![Some(50); 100];
        (ways[10], ways[11], ways[12]) = (Some(80), Some(81), Some(200));
        (ways[20], ways[30], ways[31]) = (None, None, None);
        run(&mut call, &ways);
        let heard = call.result(Time::from_millis(10000));
        // Frame 10 comes at the very moment when it is played.
        assert_eq!((heard.frames, heard.late, heard.lost), (100, 2, 3));
        // 20 of frame, 50 of the first one's way, 30 of playout.
        near(heard.delay_s.expect("frames came"), 0.1, 1e-12);
        // Bursts of 2, 1 and 2 frames.
        near(heard.burst_ratio, 5.0 / 3.0 * 0.95, 1e-9);
        near(heard.rating.expect("frames were due"), rating(100.0, 5.0, 5.0 / 3.0 * 0.95, 0.0, 25.1), 1e-9);
    }

    #[test]
    fn a_first_frame_that_is_lost_is_missed_and_sets_no_clock() {
        let mut call = call(30);
        run(&mut call, &[None, Some(50), Some(50), Some(50)]);
        let heard = call.result(Time::from_millis(1000));
        assert_eq!((heard.frames, heard.late, heard.lost), (4, 0, 1));
        near(heard.delay_s.expect("frames came"), 0.1, 1e-12);
        assert_eq!(Call::new(call.config).result(Time::from_millis(1000)).mos, None, "nothing was to be heard");
        let mut silent = self::call(30);
        run(&mut silent, &[None; 5]);
        let heard = silent.result(Time::from_millis(1000));
        assert_eq!(
            (heard.frames, heard.lost, heard.rating, heard.mos),
            (5, 5, Some(0.0), Some(1.0)),
            "nothing was heard"
        );
    }

    #[test]
    fn frames_that_are_played_after_the_end_do_not_count() {
        let mut call = call(100);
        run(&mut call, &[Some(50); 30]);
        // It ran for 900 ms; frame n is played at 150 + 20 n ms, and 30 frames were spoken.
        assert_eq!(call.result(Time::from_millis(900)).frames, 30);
        let mut call = self::call(100);
        run(&mut call, &[Some(250); 20]);
        // Played from 350 ms on; the run ended at 700.
        assert_eq!(call.result(Time::from_millis(701)).frames, 18);
        call.begin(Time::from_millis(701));
        assert_eq!(call.result(Time::from_millis(740)).frames, 2, "what was before is forgotten");
    }
}
