//! BBR, version 3: a model of the path, and probing that losses and marks bound.
//!
//! What it is: a sender that goes at the rate at which the path delivers, and keeps as much under way as that rate and the least round
//! trip want. It probes for more rate every two or three seconds, and shows itself the true round trip every five. Unlike version 1 it learns from losses
//! how much the path holds. Source: draft-ietf-ccwg-bbr, sections 5.2 to 5.6. What marks (ECN) do is no part of the draft; it
//! follows the authors' version 3 for Linux, see below.
//!
//! | draft | here |
//! |---|---|
//! | `BBR.max_bw` of two cycles; `BBR.bw_shortterm`; `BBR.bw` | `most`; `bw_short`; `Bbr::rate` |
//! | `BBR.min_rtt`; `probe_rtt_min_delay` | `trip`; `recent` |
//! | `BBR.inflight_longterm`, `inflight_shortterm` | `long`, `short` |
//! | `BBR.bw_latest`, `inflight_latest`, `loss_round_delivered`, `loss_in_round` | `latest`, `signals` |
//! | `BBR.full_bw`, `full_bw_count`, `full_bw_reached` | `full` |
//! | `BBR.extra_acked` over ten rounds | `extra` |
//! | `bw_probe_up_cnt`, `bw_probe_up_acks`, `bw_probe_up_rounds` | `climb` |
//! | `ack_phase` | `feedback` |
//! | C.inflight, `P.tx_in_flight`, P.lost | `in_flight`, `Sendings` |
//! | `ecn_alpha`; 1/16, 1/3, 1/2 (Linux) | `alpha`; `ALPHA_GAIN`, `ECN_FACTOR`, `ECN_THRESHOLD` |
//!
//! Departures: what was under way, and lost, when a packet was sent is known by how much had been delivered then, and not packet by packet; a
//! lost packet is taken for one that was sent with the newest one delivered. Random waits are drawn from a hash of the time and of what was delivered. A recovery does not
//! conserve packets. After a timeout the window comes back when what was sent from then on has come round. After idle time the pace stays what it
//! was. Of Linux's reaction to marks, one round with many of them and not two ends Startup, and where packets were lost as well only that counts. It is meant for marks that come
//! one by one (`ecn` is `dctcp` or `accurate`); the echo of RFC 3168 repeats one for a round trip, and says too much. There is no send quantum: senders here pace packet by packet, and three packets stand for it. The time of ProbeRTT does not count as
//! limited by the application. Cost: some fifty operations on floats an acknowledgment, only the four that IEEE 754 rounds exactly. Memory: at
//! most 4096 notes. Invariants: the window is at least four packets, but for one after a timeout; the rate is at most the largest sample.

mod parts;

use super::law::{Acked, Congested, Law, Sent};
use super::window;
use crate::loss::delivery_rate::Sample;
use crate::rng::Rng;
use crate::units::{Bytes, Rate, Span, Time};
use parts::{Climb, Extra, Feedback, Full, Sending, Sendings, Signals, State};

/// `BBRStartupPacingGain`: 4 ln 2.
const STARTUP: f64 = 2.77;
/// `BBRDrainPacingGain`.
const DRAIN: f64 = 0.5;
/// `BBRDefaultCwndGain`.
const WINDOW: f64 = 2.0;
/// `BBRLossThresh`.
const LOSS_THRESHOLD: f64 = 0.02;
/// `BBRBeta`.
const BETA: f64 = 0.7;
/// `BBRHeadroom`.
const HEADROOM: f64 = 0.15;
/// `BBRPacingMarginPercent`: one per cent.
const MARGIN: f64 = 0.99;
/// Growth in a round that says that there is more, and rounds without it that say that there is not.
const GROWTH: f64 = 1.25;
const FLAT: u8 = 3;
/// `BBRStartupFullLossCnt`.
const STARTUP_LOSSES: u32 = 6;
/// `BBRMinPipeCwnd`, in packets.
const LEAST: f64 = 4.0;
/// `BBRMinRTTFilterLen`, `BBRProbeRTTInterval`, `BBRProbeRTTDuration`.
const TRIP_MEMORY: Span = Span::from_secs(10);
const TRIP_INTERVAL: Span = Span::from_secs(5);
const TRIP_PROBE: Span = Span::from_millis(200);
/// Rounds over which the largest aggregation of acknowledgments counts.
const EXTRA_ROUNDS: u64 = 10;
/// Rounds at most between two probes.
const RENO_ROUNDS: f64 = 63.0;
/// What a round's share of marks adds to its smoothed share, what of that a window shrinks by, and the share that is too much.
const ALPHA_GAIN: f64 = 1.0 / 16.0;
const ECN_FACTOR: f64 = 1.0 / 3.0;
const ECN_THRESHOLD: f64 = 0.5;

/// The state of one sender.
#[derive(Clone, Debug)]
pub struct Bbr {
    segment: f64,
    initial: f64,
    window: f64,
    /// What the window was before a timeout, or before the round trip was probed.
    before: f64,
    state: State,
    /// Of rates in bytes a second: the largest of this cycle and of the last one, the bound, and what is paced by.
    most: [f64; 2],
    bw_short: f64,
    pace: f64,
    /// In nanoseconds; zero before the first sample.
    trip: f64,
    trip_at: Time,
    recent: f64,
    recent_at: Time,
    long: f64,
    short: f64,
    /// The largest rate, and volume, delivered since the last round of signals.
    latest: [f64; 2],
    signals: Signals,
    alpha: f64,
    full: Full,
    extra: Extra,
    climb: Climb,
    feedback: Feedback,
    /// Whether what is acknowledged was sent in a probe, so that losses tell of its volume.
    probing: bool,
    /// Rounds, and where this one ends.
    rounds: u64,
    round_end: u64,
    /// Rounds since the last probe; when this phase began, and how long to wait for the next probe.
    waited: f64,
    phase_at: Time,
    wait: Span,
    in_flight: f64,
    delivered: u64,
    lost: u64,
    sendings: Sendings,
    idle: bool,
    /// Whether the newest sample was limited by the application.
    app_limited: bool,
    /// After a timeout, the round in which the window comes back.
    restored: u64,
    /// Window and bounds before the last sign of congestion, for taking it back.
    saved: Option<[f64; 4]>,
    now: Time,
}

impl Bbr {
    /// A fresh sender's.
    pub fn new(config: &window::Config) -> Bbr {
        let segment = f64::from(config.segment.max(1));
        let initial = (config.initial_window as f64).max(segment);
        Bbr {
            segment,
            initial,
            window: initial,
            before: 0.0,
            state: State::Startup,
            most: [0.0; 2],
            bw_short: f64::INFINITY,
            pace: 0.0,
            trip: 0.0,
            trip_at: Time::ZERO,
            recent: f64::INFINITY,
            recent_at: Time::ZERO,
            long: f64::INFINITY,
            short: f64::INFINITY,
            latest: [0.0; 2],
            signals: Signals::default(),
            alpha: 1.0,
            full: Full::default(),
            extra: Extra::default(),
            climb: Climb { rounds: 0, per_packet: f64::INFINITY, acked: 0.0 },
            feedback: Feedback::Starting,
            probing: false,
            rounds: 0,
            round_end: 0,
            waited: 0.0,
            phase_at: Time::ZERO,
            wait: Span::ZERO,
            in_flight: 0.0,
            delivered: 0,
            lost: 0,
            sendings: Sendings::default(),
            idle: false,
            app_limited: false,
            restored: 0,
            saved: None,
            now: Time::ZERO,
        }
    }

    /// `BBR.bw`, in bytes a second.
    fn rate(&self) -> f64 {
        self.largest().min(self.bw_short)
    }

    fn largest(&self) -> f64 {
        self.most[0].max(self.most[1])
    }

    fn least(&self) -> f64 {
        LEAST * self.segment
    }

    fn probes_rate(&self) -> bool {
        matches!(self.state, State::Down | State::Cruise | State::Refill | State::Up)
    }

    /// What a rate fills of the path, and what three packets more are for.
    fn volume(&self, rate: f64, gain: f64) -> f64 {
        if self.trip == 0.0 {
            return self.initial;
        }
        let volume = (gain * rate * self.trip / 1e9).max(3.0 * self.segment).max(self.least());
        if self.state == State::Up { volume + 2.0 * self.segment } else { volume }
    }

    /// `BBRTargetInflight`.
    fn target(&self) -> f64 {
        (self.rate() * self.trip / 1e9).min(self.window)
    }

    /// `BBRInflightWithHeadroom`.
    fn with_headroom(&self) -> f64 {
        if self.long.is_infinite() {
            return self.long;
        }
        (self.long - (HEADROOM * self.long).max(self.segment)).max(self.least())
    }

    fn start_round(&mut self) {
        self.round_end = self.delivered;
    }

    fn start_down(&mut self, now: Time) {
        self.reset_signals();
        self.climb.per_packet = f64::INFINITY;
        // 5.3.3.5.3: between two and three seconds, and a round more or less.
        let seed = now.since(Time::ZERO).as_nanos() ^ self.delivered.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut rng = Rng::new(seed);
        self.waited = rng.below(2) as f64;
        self.wait = Span::from_millis(2000) + Span::from_nanos(rng.below(1_000_000_000));
        self.phase_at = now;
        self.feedback = Feedback::Stopping;
        self.start_round();
        self.state = State::Down;
    }

    fn start_refill(&mut self) {
        self.bw_short = f64::INFINITY;
        self.short = f64::INFINITY;
        (self.climb.rounds, self.climb.acked) = (0, 0.0);
        self.feedback = Feedback::Refilling;
        self.start_round();
        self.state = State::Refill;
    }

    fn start_up(&mut self, rate: f64) {
        self.feedback = Feedback::Starting;
        self.start_round();
        self.full.reset(rate);
        self.probing = true;
        self.state = State::Up;
        self.steepen();
    }

    /// `BBRRaiseInflightLongtermSlope`: twice as fast each round.
    fn steepen(&mut self) {
        let growth = (1_u64 << self.climb.rounds.min(30)) as f64;
        self.climb.rounds = (self.climb.rounds + 1).min(30);
        self.climb.per_packet = (self.window / growth).max(self.segment);
    }

    fn reset_signals(&mut self) {
        (self.latest, self.signals.losses, self.signals.marked) = ([0.0; 2], 0, 0.0);
    }

    /// `BBRUpdateMaxBw`, `BBRUpdateCongestionSignals`. Whether a round has begun.
    fn update_model(&mut self, sample: &Sample, rate: f64) -> bool {
        let begins = sample.prior_delivered.as_u64() >= self.round_end;
        if begins {
            self.start_round();
            self.rounds += 1;
            self.waited += 1.0;
        }
        if rate >= self.largest() || !sample.app_limited {
            self.most[0] = self.most[0].max(rate);
        }
        let delivered = sample.delivered.as_u64() as f64;
        self.latest = [self.latest[0].max(rate), self.latest[1].max(delivered)];
        if sample.prior_delivered.as_u64() < self.signals.end {
            return begins;
        }
        self.close_signals();
        self.latest = [rate, delivered];
        begins
    }

    /// A round of signals is over: `BBRAdaptLowerBoundsFromCongestion`, and what marks do.
    fn close_signals(&mut self) {
        let signals = self.signals;
        let delivered = (self.delivered - signals.delivered) as f64;
        let share = if delivered > 0.0 { (signals.marked / delivered).min(1.0) } else { 0.0 };
        self.alpha += (share - self.alpha) * ALPHA_GAIN;
        let (lossy, marked) = (signals.losses > 0, signals.marked > 0.0);
        let probes = matches!(self.state, State::Startup | State::Refill | State::Up);
        if self.state == State::Startup {
            let lost = (self.lost - signals.lost) as f64;
            let too_many = signals.losses >= STARTUP_LOSSES && lost > LOSS_THRESHOLD * (delivered + lost);
            if too_many || signals.marked > ECN_THRESHOLD * delivered && marked {
                self.full.reached = true;
                self.long = self.volume(self.largest(), 1.0).max(self.latest[1]);
            }
        } else if self.state == State::Up && marked && signals.marked > ECN_THRESHOLD * delivered {
            self.handle_too_high(self.sendings.newest.in_flight, self.now);
        }
        if !probes && (lossy || marked) {
            if self.bw_short.is_infinite() {
                self.bw_short = self.largest();
            }
            if self.short.is_infinite() {
                self.short = self.window;
            }
            if lossy {
                self.bw_short = self.latest[0].max(BETA * self.bw_short);
                self.short = self.latest[1].max(BETA * self.short);
            } else {
                self.short = (self.short * (1.0 - self.alpha * ECN_FACTOR)).max(self.least());
            }
        }
        let (end, delivered, lost) = (self.delivered, self.delivered, self.lost);
        self.signals = Signals { end, delivered, lost, losses: 0, marked: 0.0 };
    }

    /// `BBRUpdateACKAggregation`.
    fn update_extra(&mut self, now: Time, newly: f64) {
        let mut expected = self.rate() * now.since(self.extra.since).as_secs_f64();
        if self.extra.delivered <= expected {
            (self.extra.delivered, self.extra.since, expected) = (0.0, now, 0.0);
        }
        self.extra.delivered += newly;
        let extra = (self.extra.delivered - expected).min(self.window);
        let memory = if self.full.reached { EXTRA_ROUNDS } else { 1 };
        if self.rounds >= self.extra.turn + memory {
            (self.extra.turn, self.extra.most) = (self.rounds, [0.0, self.extra.most[0]]);
        }
        self.extra.most[0] = self.extra.most[0].max(extra);
    }

    /// `BBRCheckFullBWReached`.
    fn check_full(&mut self, sample: &Sample, rate: f64, begins: bool) {
        let looks = matches!(self.state, State::ProbeTrip { .. });
        if self.full.now || !begins || sample.app_limited || looks {
            return;
        }
        if rate >= GROWTH * self.full.rate {
            self.full.reset(rate);
            return;
        }
        self.full.rounds += 1;
        self.full.now = self.full.rounds >= FLAT;
        self.full.reached |= self.full.now;
    }

    /// `BBRAdaptLongTermModel`.
    fn adapt_long(&mut self, sample: &Sample, begins: bool, newly: f64, limited: bool) {
        if begins {
            match self.feedback {
                Feedback::Starting => self.feedback = Feedback::Probing,
                Feedback::Stopping => {
                    self.probing = false;
                    self.feedback = Feedback::Refilling;
                    if self.probes_rate() && !sample.app_limited {
                        self.most = [0.0, self.most[0]];
                    }
                }
                Feedback::Probing | Feedback::Refilling => {}
            }
        }
        if self.long.is_infinite() || self.is_too_high() {
            return;
        }
        self.long = self.long.max(self.sendings.newest.in_flight);
        if self.state == State::Up && limited && self.window >= self.long {
            self.climb.acked += newly;
            let packets = self.climb.acked / self.climb.per_packet;
            let whole = packets as u64 as f64;
            self.climb.acked -= whole * self.climb.per_packet;
            self.long += whole * self.segment;
        }
        if self.state == State::Up && begins {
            self.steepen();
        }
    }

    /// `IsInflightTooHigh`.
    fn is_too_high(&self) -> bool {
        let newest = self.sendings.newest;
        self.lost.saturating_sub(newest.lost) as f64 > LOSS_THRESHOLD * newest.in_flight
    }

    /// `BBRHandleInflightTooHigh`.
    fn handle_too_high(&mut self, in_flight: f64, now: Time) {
        self.probing = false;
        if !self.app_limited {
            self.long = in_flight.max(BETA * self.target()).max(self.least());
        }
        if self.state == State::Up {
            self.start_down(now);
        }
    }

    /// `BBRUpdateProbeBWCyclePhase`.
    fn update_phase(&mut self, now: Time, rate: f64, begins: bool, limited: bool) {
        let elapsed = now.since(self.phase_at) > self.wait;
        // 5.3.3.5.1: as often as Reno's window would be full again.
        let reno = self.waited >= (self.target() / self.segment).min(RENO_ROUNDS);
        match self.state {
            State::Down | State::Cruise if elapsed || reno => self.start_refill(),
            State::Down => {
                let cruises =
                    self.in_flight <= self.with_headroom() && self.in_flight <= self.volume(self.largest(), 1.0);
                if cruises {
                    self.state = State::Cruise;
                }
            }
            State::Refill if begins => self.start_up(rate),
            State::Up if limited && self.window >= self.long => self.full.reset(rate),
            State::Up if self.full.now => self.start_down(now),
            _ => {}
        }
    }

    /// `BBRUpdateMinRTT`, `BBRCheckProbeRTT`.
    fn update_trip(&mut self, now: Time, rtt: Option<Span>, begins: bool) {
        let first = self.trip == 0.0;
        let expired = !first && now.since(self.recent_at) > TRIP_INTERVAL;
        if let Some(rtt) = rtt {
            let rtt = rtt.as_nanos().max(1) as f64;
            if rtt < self.recent || expired || first {
                (self.recent, self.recent_at) = (rtt, now);
            }
        }
        if self.recent.is_finite() && (first || self.recent < self.trip || now.since(self.trip_at) > TRIP_MEMORY) {
            (self.trip, self.trip_at) = (self.recent, self.recent_at);
        }
        let probes = matches!(self.state, State::ProbeTrip { .. });
        if !probes && expired && !self.idle {
            self.before = self.before.max(self.window);
            self.state = State::ProbeTrip { done: None, round: false };
            self.feedback = Feedback::Stopping;
            self.start_round();
        } else if let State::ProbeTrip { done, round } = self.state {
            self.probe_trip(now, done, round || (done.is_some() && begins));
        }
        self.idle = false;
    }

    /// `BBRHandleProbeRTT`.
    fn probe_trip(&mut self, now: Time, done: Option<Time>, round: bool) {
        match done {
            None if self.in_flight <= self.probe_window() => {
                self.state = State::ProbeTrip { done: Some(now + TRIP_PROBE), round: false };
                self.start_round();
            }
            Some(time) if round && now > time => {
                self.recent_at = now;
                self.window = self.window.max(self.before);
                self.before = 0.0;
                (self.bw_short, self.short) = (f64::INFINITY, f64::INFINITY);
                if self.full.reached {
                    self.start_down(now);
                    self.state = State::Cruise;
                } else {
                    self.state = State::Startup;
                }
            }
            _ => self.state = State::ProbeTrip { done, round },
        }
    }

    /// `BBRProbeRTTCwnd`.
    fn probe_window(&self) -> f64 {
        (0.5 * self.rate() * self.trip / 1e9).max(self.least())
    }

    fn gains(&self) -> [f64; 2] {
        match self.state {
            State::Startup => [STARTUP, WINDOW],
            State::Drain => [DRAIN, WINDOW],
            State::Down => [0.9, WINDOW],
            State::Cruise | State::Refill => [1.0, WINDOW],
            State::Up => [1.25, 2.25],
            State::ProbeTrip { .. } => [1.0, 0.5],
        }
    }

    /// A sign of congestion begins.
    fn save(&mut self) {
        self.saved = Some([self.window, self.bw_short, self.short, self.long]);
    }

    /// `BBRSetPacingRate`, `BBRSetCwnd`.
    fn control(&mut self, newly: f64, recovering: bool) {
        let [pacing, gain] = self.gains();
        let pace = pacing * self.rate() * MARGIN;
        if self.full.reached || pace > self.pace {
            self.pace = pace;
        }
        let most = self.volume(self.rate(), gain) + self.extra.most[0].max(self.extra.most[1]);
        if self.before > 0.0
            && !recovering
            && self.rounds >= self.restored
            && !matches!(self.state, State::ProbeTrip { .. })
        {
            // A timeout's recovery is over.
            self.window = self.window.max(self.before);
            self.before = 0.0;
        }
        if self.full.reached {
            self.window = (self.window + newly).min(most);
        } else if self.window < most || (self.delivered as f64) < self.initial {
            self.window += newly;
        }
        let bound = match self.state {
            State::ProbeTrip { .. } => self.probe_window().min(self.with_headroom()),
            State::Cruise => self.with_headroom(),
            State::Down | State::Refill | State::Up => self.long,
            State::Startup | State::Drain => f64::INFINITY,
        };
        self.window = self.window.max(self.least()).min(bound.min(self.short).max(self.least()));
    }
}

/// The rate of the path, from bytes a second; none before a sample.
pub(super) fn found(rate: f64) -> Option<Rate> {
    (rate > 0.0).then(|| Rate::from_bits_per_sec((rate * 8.0) as u64))
}

/// How fast a sender goes, from bytes a second. Before the first sample: `first` bytes in a round trip of so many nanoseconds, if one was measured.
pub(super) fn paced(pace: f64, first: f64, trip: f64) -> Option<Rate> {
    let begins = || (trip > 0.0).then(|| first * 1e9 / trip);
    let rate = if pace > 0.0 { Some(pace) } else { begins() };
    rate.map(|rate| Rate::from_bits_per_sec(((rate * 8.0) as u64).max(1)))
}

impl Law for Bbr {
    fn on_sent(&mut self, sent: &Sent) {
        self.in_flight = (sent.in_flight + sent.bytes).as_u64() as f64;
        self.sendings.note(Sending { delivered: self.delivered, in_flight: self.in_flight, lost: self.lost });
    }

    fn on_acked(&mut self, acked: &Acked) {
        self.now = acked.now;
        let Some(sample) = acked.delivery else {
            self.update_trip(acked.now, acked.rtt, false);
            return;
        };
        let delivered = sample.prior_delivered.as_u64().saturating_add(sample.delivered.as_u64());
        let newly = delivered.saturating_sub(self.delivered) as f64;
        self.delivered = self.delivered.max(delivered);
        self.app_limited = sample.app_limited;
        self.in_flight = (self.in_flight - newly).max(0.0);
        self.sendings.find(sample.prior_delivered.as_u64());
        let rate = sample.delivered.as_u64() as f64 * 1e9 / sample.interval.as_nanos().max(1) as f64;
        let begins = self.update_model(&sample, rate);
        self.update_extra(acked.now, newly);
        self.check_full(&sample, rate, begins);
        if self.state == State::Startup && self.full.reached {
            self.state = State::Drain;
        }
        if self.state == State::Drain && self.in_flight <= self.volume(self.rate(), 1.0) {
            self.start_down(acked.now);
        }
        if self.full.reached {
            self.adapt_long(&sample, begins, newly, acked.limited);
            self.update_phase(acked.now, rate, begins, acked.limited);
        }
        self.update_trip(acked.now, acked.rtt, begins);
        self.control(newly, acked.recovering);
    }

    fn on_lost(&mut self, lost: &Congested) {
        self.now = lost.now;
        let bytes = lost.bytes.as_u64();
        if bytes == 0 {
            return;
        }
        if lost.begins {
            self.save();
        }
        self.lost += bytes;
        self.signals.losses += 1;
        self.in_flight = (self.in_flight - bytes as f64).max(0.0);
        // BBRHandleLostPacket.
        if self.probing && self.is_too_high() {
            let newest = self.sendings.newest;
            let (size, all) = (self.segment, (self.lost - newest.lost) as f64);
            let (under_way, before) = ((newest.in_flight - size).max(0.0), (all - size).max(0.0));
            let prefix = ((LOSS_THRESHOLD * under_way - before) / (1.0 - LOSS_THRESHOLD)).max(0.0);
            self.handle_too_high(under_way + prefix, lost.now);
        }
    }

    fn on_ecn(&mut self, marked: &Congested) {
        self.signals.marked += marked.bytes.as_u64() as f64;
    }

    fn on_timeout(&mut self, timeout: &Congested) {
        self.lost += timeout.bytes.as_u64();
        self.signals.losses += 1;
        if timeout.begins {
            self.save();
        }
        self.before = self.before.max(self.window);
        self.in_flight = 0.0;
        self.window = self.segment;
        // What is sent from now on has come round.
        self.start_round();
        self.restored = self.rounds + 1;
    }

    fn on_idle(&mut self, _: Span) {
        self.idle = true;
    }

    fn on_recovery(&mut self, _: Bytes) {}

    fn on_undo(&mut self) {
        let Some([window, rate, short, long]) = self.saved.take() else { return };
        self.window = self.window.max(window);
        (self.bw_short, self.short, self.long) = (self.bw_short.max(rate), self.short.max(short), self.long.max(long));
        (self.before, self.signals.losses) = (0.0, 0);
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
        paced(self.pace, STARTUP * self.initial, self.trip)
    }
}

#[cfg(test)]
mod tests;
