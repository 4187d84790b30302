//! BBR, version 1: the largest rate of ten rounds and the least round trip of ten seconds, and twice what that fills.
//!
//! What it is: what Linux calls `bbr` to this day, and most servers that say BBR run. It goes at the rate at which the path delivers, tries a quarter more in one of
//! eight round trips, and cuts what is under way to four packets for 200 ms where ten seconds have shown no shorter round trip. Losses are no sign of congestion.
//! Source: draft-cardwell-iccrg-bbr-congestion-control-00, sections 4.1 to 4.3; Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016.
//!
//! | draft | here |
//! |---|---|
//! | `BBR.BtlBw`, the largest of `BtlBwFilterLen` = 10 rounds | `rates`, `Bbr1::rate` |
//! | `BBR.RTprop`, of `RTpropFilterLen` = 10 s; `rtprop_stamp` | `trip`; `trip_at` |
//! | `BBR.full_bw`, `full_bw_count`, `filled_pipe` | `full` |
//! | `BBR.cycle_index`, `cycle_stamp` | `Phase::Cruise`, `cycle_at` |
//! | `BBR.probe_rtt_done_stamp`, `probe_rtt_round_done` | `Phase::ProbeTrip` |
//! | `BBR.prior_cwnd`, `packet_conservation` | `before`, `conserves` |
//! | in ProbeRTT, `C.app_limited` | `looked`: by what was delivered when a packet went out, so that no sender has to know of it |
//!
//! Departures: the extra room for acknowledgments that come together is that of Linux (the most beyond the rate in five to ten rounds, of at most 100 ms), which the draft has not.
//! Linux's detection of token-bucket policers is left out. There is no send quantum: senders here pace packet by packet, and three packets stand for it. The
//! first phase of a cycle is drawn from a hash of the time and of what was delivered.
//! Cost: some thirty operations on floats an acknowledgment, only the four that IEEE 754 rounds exactly. Invariants: the window is at least four packets, but for one after a timeout;
//! the rate is at most the largest sample of ten rounds.

use super::bbr::{found, paced};
use super::law::{Acked, Congested, Law, Sent};
use super::window;
use crate::loss::delivery_rate::Sample;
use crate::rng::Rng;
use crate::units::{Bytes, Rate, Span, Time};

/// `BBRHighGain`: 2 / ln 2.
const HIGH: f64 = 2.885;
/// `BBRGainCycle`: of the pace, one round trip each.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// `cwnd_gain` in ProbeBW.
const WINDOW: f64 = 2.0;
/// Linux paces one per cent below.
const MARGIN: f64 = 0.99;
/// `BtlBwFilterLen`, in rounds.
const RATE_ROUNDS: u64 = 10;
/// `RTpropFilterLen`, `ProbeRTTDuration`.
const TRIP_MEMORY: Span = Span::from_secs(10);
const TRIP_PROBE: Span = Span::from_millis(200);
/// `BBRMinPipeCwnd`, in packets.
const LEAST: f64 = 4.0;
/// Growth in a round that says that there is more, and rounds without it that say that there is not.
const GROWTH: f64 = 1.25;
const FLAT: u8 = 3;
/// Rounds after which the older half of what came together is forgotten, and for how long at most it is made up for.
const EXTRA_ROUNDS: u64 = 5;
const EXTRA_TIME: f64 = 0.1;

/// What the sender does at the moment.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Startup,
    Drain,
    /// ProbeBW, in this place of the cycle.
    Cruise(usize),
    /// ProbeRTT: until `done`, once little enough is under way, and a round.
    ProbeTrip {
        done: Option<Time>,
        round: bool,
    },
}

/// The state of one sender.
#[derive(Clone, Debug)]
pub struct Bbr1 {
    segment: f64,
    initial: f64,
    window: f64,
    /// What the window was before a recovery, a timeout, or before the round trip was probed.
    before: f64,
    phase: Phase,
    /// The largest rates of rounds in bytes a second, each with its round, falling: the first is that of ten rounds.
    rates: [(u64, f64); 3],
    pace: f64,
    /// In nanoseconds; zero before the first sample.
    trip: f64,
    trip_at: Time,
    cycle_at: Time,
    /// The largest rate that grew enough, rounds since, and whether the path was found full.
    full: (f64, u8, bool),
    /// Since when more came than the rate says, how much, and the most of these rounds and of those before.
    extra: (Time, f64),
    most_extra: [f64; 2],
    extra_turn: u64,
    rounds: u64,
    round_end: u64,
    in_flight: f64,
    delivered: u64,
    /// Bytes found lost since the last acknowledgment.
    lost: f64,
    recovering: bool,
    /// Until this much is delivered no more goes out than comes in.
    conserves: Option<u64>,
    /// Of what went out after so much was delivered, and before so much was, no more went than the last look at the round trip lets.
    looked: [u64; 2],
    idle: bool,
}

impl Bbr1 {
    /// A fresh sender's.
    pub fn new(config: &window::Config) -> Bbr1 {
        let segment = f64::from(config.segment.max(1));
        let initial = (config.initial_window as f64).max(segment);
        Bbr1 {
            segment,
            initial,
            window: initial,
            before: 0.0,
            phase: Phase::Startup,
            rates: [(0, 0.0); 3],
            pace: 0.0,
            trip: 0.0,
            trip_at: Time::ZERO,
            cycle_at: Time::ZERO,
            full: (0.0, 0, false),
            extra: (Time::ZERO, 0.0),
            most_extra: [0.0; 2],
            extra_turn: 0,
            rounds: 0,
            round_end: 0,
            in_flight: 0.0,
            delivered: 0,
            lost: 0.0,
            recovering: false,
            conserves: None,
            looked: [u64::MAX, 0],
            idle: false,
        }
    }

    fn rate(&self) -> f64 {
        self.rates[0].1
    }

    fn least(&self) -> f64 {
        LEAST * self.segment
    }

    /// `BBRInflight`.
    fn volume(&self, gain: f64) -> f64 {
        if self.trip == 0.0 {
            return self.initial;
        }
        gain * self.rate() * self.trip / 1e9 + 3.0 * self.segment
    }

    fn gains(&self) -> [f64; 2] {
        match self.phase {
            Phase::Startup => [HIGH, HIGH],
            Phase::Drain => [1.0 / HIGH, HIGH],
            Phase::Cruise(place) => [CYCLE[place], WINDOW],
            Phase::ProbeTrip { .. } => [1.0, 1.0],
        }
    }

    /// The largest rate of ten rounds, by the three that matter (Nichols' filter, as Linux has it).
    fn filter(&mut self, rate: f64) {
        let now = (self.rounds, rate);
        let r = &mut self.rates;
        if rate >= r[0].1 || now.0 - r[2].0 > RATE_ROUNDS {
            *r = [now; 3];
            return;
        }
        if rate >= r[1].1 {
            (r[1], r[2]) = (now, now);
        } else if rate >= r[2].1 {
            r[2] = now;
        }
        let age = now.0 - r[0].0;
        if age > RATE_ROUNDS {
            *r = [r[1], r[2], now];
            if now.0 - r[0].0 > RATE_ROUNDS {
                *r = [r[1], r[2], now];
            }
        } else if r[1].0 == r[0].0 && age > RATE_ROUNDS / 4 {
            (r[1], r[2]) = (now, now);
        } else if r[2].0 == r[1].0 && age > RATE_ROUNDS / 2 {
            r[2] = now;
        }
    }

    /// `BBRUpdateBtlBw`, `BBRUpdateRound`. Whether a round has begun.
    fn update_rate(&mut self, sample: &Sample) -> bool {
        let begins = sample.prior_delivered.as_u64() >= self.round_end;
        if begins {
            self.round_end = self.delivered;
            self.rounds += 1;
        }
        let rate = sample.delivered.as_u64() as f64 * 1e9 / sample.interval.as_nanos().max(1) as f64;
        if rate >= self.rate() || !self.is_limited(sample) {
            self.filter(rate);
        }
        begins
    }

    /// Whether a low rate tells nothing of the path, as the sender sent less. A look at the round trip of 200 ms has more than ten rounds where a round trip takes
    /// less than 20 ms: all rates from before it would be forgotten.
    fn is_limited(&self, sample: &Sample) -> bool {
        let [after, before] = self.looked;
        sample.app_limited || (after..=before).contains(&sample.prior_delivered.as_u64())
    }

    /// Acknowledgments that come together tell of more than the rate brings: so much more may be under way.
    fn update_extra(&mut self, now: Time, newly: f64) {
        let (since, so_far) = self.extra;
        let expected = self.rate() * now.since(since).as_secs_f64();
        let (since, so_far, expected) = if so_far <= expected { (now, 0.0, 0.0) } else { (since, so_far, expected) };
        self.extra = (since, so_far + newly);
        if self.rounds >= self.extra_turn + EXTRA_ROUNDS {
            (self.extra_turn, self.most_extra) = (self.rounds, [0.0, self.most_extra[0]]);
        }
        let extra = (self.extra.1 - expected).min(self.window);
        self.most_extra[0] = self.most_extra[0].max(extra);
    }

    fn most_extra(&self) -> f64 {
        let extra = self.most_extra[0].max(self.most_extra[1]);
        if self.full.2 { extra.min(self.rate() * EXTRA_TIME) } else { 0.0 }
    }

    /// `BBRCheckFullPipe`.
    fn check_full(&mut self, begins: bool, app_limited: bool) {
        if self.full.2 || !begins || app_limited {
            return;
        }
        if self.rate() >= GROWTH * self.full.0 {
            self.full = (self.rate(), 0, false);
            return;
        }
        self.full.1 += 1;
        self.full.2 = self.full.1 >= FLAT;
    }

    /// `BBREnterProbeBW`: at any place of the cycle but where it gives way.
    fn cruise(&mut self, now: Time) {
        let seed = now.since(Time::ZERO).as_nanos() ^ self.delivered.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (CYCLE.len() - Rng::new(seed).below(CYCLE.len() as u64 - 1) as usize) % CYCLE.len();
        (self.phase, self.cycle_at) = (Phase::Cruise(place), now);
    }

    /// `BBRCheckCyclePhase`, `BBRCheckDrain`.
    fn update_phase(&mut self, now: Time, before: f64) {
        match self.phase {
            Phase::Startup if self.full.2 => self.phase = Phase::Drain,
            Phase::Cruise(place) => {
                let is_full = now.since(self.cycle_at).as_nanos() as f64 > self.trip;
                let over = match CYCLE[place] {
                    gain if gain > 1.0 => is_full && (self.lost > 0.0 || before >= self.volume(gain)),
                    gain if gain < 1.0 => is_full || before <= self.volume(1.0),
                    _ => is_full,
                };
                if over {
                    (self.phase, self.cycle_at) = (Phase::Cruise((place + 1) % CYCLE.len()), now);
                }
            }
            _ => {}
        }
        if self.phase == Phase::Drain && self.in_flight <= self.volume(1.0) {
            self.cruise(now);
        }
    }

    /// `BBRUpdateRTprop`, `BBRCheckProbeRTT`.
    fn update_trip(&mut self, now: Time, rtt: Option<Span>, begins: bool) {
        let expired = self.trip > 0.0 && now.since(self.trip_at) > TRIP_MEMORY;
        if let Some(rtt) = rtt.map(|rtt| rtt.as_nanos().max(1) as f64)
            && (rtt <= self.trip || expired || self.trip == 0.0)
        {
            (self.trip, self.trip_at) = (rtt, now);
        }
        match self.phase {
            Phase::ProbeTrip { done: None, .. } if self.in_flight <= self.least() => {
                self.round_end = self.delivered;
                self.phase = Phase::ProbeTrip { done: Some(now + TRIP_PROBE), round: false };
            }
            Phase::ProbeTrip { done: Some(done), round } => {
                let round = round || begins;
                self.phase = Phase::ProbeTrip { done: Some(done), round };
                if round && now >= done {
                    self.trip_at = now;
                    self.restore();
                    if self.full.2 { self.cruise(now) } else { self.phase = Phase::Startup }
                }
            }
            Phase::ProbeTrip { .. } => {}
            _ if expired && !self.idle => {
                self.save();
                self.looked = [self.delivered, self.delivered];
                self.phase = Phase::ProbeTrip { done: None, round: false };
            }
            _ => {}
        }
        self.idle = false;
    }

    /// `BBRSaveCwnd`: what is remembered in the midst of something is the most before it.
    fn save(&mut self) {
        let is_whole = !self.recovering && !matches!(self.phase, Phase::ProbeTrip { .. });
        self.before = if is_whole { self.window } else { self.before.max(self.window) };
    }

    fn restore(&mut self) {
        self.window = self.window.max(self.before);
    }

    /// `BBRModulateCwndForRecovery`.
    fn recover(&mut self, newly: f64, recovering: bool) {
        self.window = (self.window - core::mem::take(&mut self.lost)).max(self.segment);
        if recovering && !self.recovering {
            self.conserves = Some(self.delivered);
            self.round_end = self.delivered;
            self.window = self.in_flight + newly;
        } else if !recovering && self.recovering {
            self.conserves = None;
            self.restore();
        }
        self.recovering = recovering;
        if self.conserves.is_some() {
            self.window = self.window.max(self.in_flight + newly);
        }
    }

    /// `BBRSetPacingRate`, `BBRSetCwnd`.
    fn control(&mut self, newly: f64, begins: bool, recovering: bool) {
        let [pacing, gain] = self.gains();
        let pace = pacing * self.rate() * MARGIN;
        if self.full.2 || pace > self.pace {
            self.pace = pace;
        }
        if begins && self.recovering {
            self.conserves = None;
        }
        self.recover(newly, recovering);
        let most = self.volume(gain) + self.most_extra();
        if self.conserves.is_some() {
            // No more goes out than came in.
        } else if self.full.2 {
            self.window = (self.window + newly).min(most);
        } else if self.window < most || (self.delivered as f64) < self.initial {
            self.window += newly;
        }
        self.window = self.window.max(self.least());
        if matches!(self.phase, Phase::ProbeTrip { .. }) {
            self.window = self.window.min(self.least());
        }
    }
}

impl Law for Bbr1 {
    fn on_sent(&mut self, sent: &Sent) {
        self.in_flight = (sent.in_flight + sent.bytes).as_u64() as f64;
    }

    fn on_acked(&mut self, acked: &Acked) {
        let Some(sample) = acked.delivery else {
            self.update_trip(acked.now, acked.rtt, false);
            return;
        };
        let delivered = sample.prior_delivered.as_u64().saturating_add(sample.delivered.as_u64());
        let newly = delivered.saturating_sub(self.delivered) as f64;
        self.delivered = self.delivered.max(delivered);
        let before = self.in_flight;
        self.in_flight = (self.in_flight - newly).max(0.0);
        let begins = self.update_rate(&sample);
        self.update_extra(acked.now, newly);
        let limited = self.is_limited(&sample);
        self.check_full(begins, limited);
        self.update_phase(acked.now, before);
        self.update_trip(acked.now, acked.rtt, begins);
        if matches!(self.phase, Phase::ProbeTrip { .. }) {
            self.looked[1] = self.delivered + self.in_flight as u64;
        }
        self.control(newly, begins, acked.recovering);
    }

    fn on_lost(&mut self, lost: &Congested) {
        let bytes = lost.bytes.as_u64() as f64;
        if lost.begins {
            self.save();
        }
        self.lost += bytes;
        self.in_flight = (self.in_flight - bytes).max(0.0);
    }

    fn on_ecn(&mut self, _: &Congested) {}

    fn on_timeout(&mut self, _: &Congested) {
        self.save();
        (self.in_flight, self.lost) = (0.0, 0.0);
        self.window = self.segment;
        // What grew before says nothing of what is left.
        self.full.0 = 0.0;
        self.round_end = self.delivered;
        // It ends as a recovery does, and then the window comes back.
        (self.recovering, self.conserves) = (true, None);
    }

    fn on_idle(&mut self, _: Span) {
        self.idle = true;
    }

    fn on_recovery(&mut self, _: Bytes) {}

    fn on_undo(&mut self) {
        self.restore();
        self.full.0 = 0.0;
        self.full.1 = 0;
    }

    fn window(&self) -> Bytes {
        Bytes::new(self.window as u64)
    }

    /// Losses bring the window down to where it is.
    fn threshold(&self) -> Bytes {
        self.window()
    }

    fn wants_delivery_rate(&self) -> bool {
        true
    }

    fn path_rate(&self) -> Option<Rate> {
        found(self.rate())
    }

    fn pacing_rate(&self) -> Option<Rate> {
        paced(self.pace, HIGH * self.initial, self.trip)
    }
}
