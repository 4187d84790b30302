//! A law that measures the path: its rate and its queue, and probes for more in turn.
//!
//! What it is: a sender that goes at the rate at which the path delivers, looks for more of it every few round trips, and gives
//! way when a queue stands. A loss says nothing, but where a queue overflows. It is for paths of which nothing is known
//! beforehand, such as a bond's channel over LTE, and for senders that carry the traffic of others, whose losses are not
//! for them to answer.
//! Source: ours. It owes the model (the largest rate of delivery, the phases, the gain of the start) to BBR (Cardwell et al.
//! 2016; draft-ietf-ccwg-bbr), and probing in steps that double while they succeed to TIMELY (Mittal et al. 2015, algorithm 1).
//!
//! | symbol | meaning | here |
//! |---|---|---|
//! | C | the largest rate of delivery of the last 8 to 16 rounds that had enough to send, in bytes a second | `rate` |
//! | q | how long a packet waits on its way: told by the peer's clock, otherwise round trip less its least of 10 to 20 s | `handle_delay` |
//! | Q | the least q of a round: what stands, whatever the path jitters | `Round::least` |
//! | b, r | least round trip, smoothed round trip | `base`, `trip` |
//! | d | mean deviation of q | `deviation` |
//! | F | what waits for others, found at the end of a drain, at most max(b/2, 15 ms) + 4 d; in the start, the longest q of rounds in which less than an eighth of C arrived, which is jitter | `floor` |
//! | T = max(b/8, 5 ms) + d | the queue beyond F that is taken for none | `Probe::target` |
//! | e | by how much a probe goes faster: (10 ms + 4 d)/b at first, of 1/32 to 1/4 | `Phase::Up` |
//! | s | 0.7 times the mean step of q from one sample to the next, at most d: what d is without queues of one's own, which come and go | `roughness` |
//! | a = 12 packets, where r > 100 ms as many more as r is longer | by how much more than C r is under way in a small probe | `small_probe` |
//! | J = 24 s or 12 d, whichever is more, at most 1 s | least time of a round in which a rate is measured (cruise, look) | `JITTERS` |
//!
//! A round lasts until what was sent before it is acknowledged. Its rate is what was delivered from its first report to its last (from the
//! last of the round before, if that had enough to send), over the time between, and at most the largest sample of the delivery rate,
//! which is no more than was sent. It had enough to send if no sample of it was limited by the application, and if what arrived and what
//! was lost come to more than C/2, or Q > F + 2 max(b, 25 ms). In a phase packets go at 0.99 g C, less a share of d/2r, 5 % at most; and
//! not slower than four packets in r, in the start the initial window:
//!
//! | phase | g | until | then |
//! |---|---|---|---|
//! | start | 2.77 | C grew by less than a quarter in three rounds with enough to send, or in one before a round with Q > F + T; there rounds without enough to send, but with Q > F + T, count too | drain |
//! | drain | 1/2 after the start and to show b, else 3/4 | Q <= T/2, or Q falls by less than a quarter of what this takes away in a round, or some rounds | F is set; cruise |
//! | cruise | 1 | six rounds, fewer where J > r but two, and there is enough to send | drain, cruise or up, as below |
//! | up | 1 + e | a round | look; cruise if there was not enough to send |
//! | look | 1; 1 + e until J after up began | a round: what the probe brought | up with 2 e, at most 1, if its rate is above (1 + e/2) C and Q <= F + T; drain if Q > F + T/2; else cruise |
//!
//! | at the end of a cruise | then |
//! |---|---|
//! | no round had Q < T/4 for 5 s; where draining did not help, for 10, 20 … 60 s | drain with g = 1/2, which shows the true b to all who share the path |
//! | Q > F + T in all its rounds, and the last cruise did not end so | drain |
//! | Q > max(b, 30 ms) + 4 d: others fill the path's queue; or it overflowed in the last 6 s | up with e = a/(C r), at most 1/4; where the queue is full even after that, cruise |
//! | otherwise | up |
//!
//! The path became slower where every packet waits max(b/2, 25 ms) more than what stood at the end of the last drain, for b and 24 d of before that
//! (at most 1 s, and four times max(b, 24 s)), and less than 0.45 g C arrives in that time: C is what arrived, and a drain with g = b/(b + q), of 1/4 to 3/4,
//! follows at once. So it did where Q is 2 max(b, 25 ms) above what stood at the end of the last drain in a round of a cruise, and where less
//! than 0.6 g C arrives in a drain: C is what the last two rounds had, and a drain follows.
//! What comes in bursts, as from a TCP connection that waits for another path, has not enough to send all that time. The path is busy even so where every
//! packet waits 6 s more than the above, for b and 24 s, and less than 0.6 g C arrives: C is what arrived, but falls to its half at most. None of this
//! is looked at before the 64th sample of q since the law began, or was idle for 5 s, because d and s are not known before; nor of what was sent in a
//! drain, since less arrives of it by itself.
//! Such a Q counts also where there was not enough to send, because the path was busy; C falls to its half at most then.
//! So a probe leaves a queue of some 10 ms, and a rate that is four times what it was is found in three probes.
//!
//! The window is max(g, 1) C (r + max(b/2, 10 ms + 4 d)) and three packets: it holds what the pace does not, when the path stops.
//!
//! | event | what |
//! |---|---|
//! | a rate measured by other means, in the start | is C; cruise, but where the path may carry more, the start goes on |
//! | the same later, of more than 2 C | is C |
//! | a round without enough to send | counts where its rate is above C |
//! | a mark (ECN), once an episode | C *= 0.85 (RFC 8511) |
//! | a second timeout in a row | C /= 2, and a new start |
//! | a loss | nothing, but that it was sent, and a queue may overflow: |
//! | a round with s <= 1 ms and Q > T, where more was lost since a queue stands than without one (`overflow.rs`) | C is 0.9 of what arrived, or of itself where there was not enough to send; small probes for 6 s, or until one with e >= 1/8 succeeds |
//! | idle time | nothing; more than 5 s: d and s are to be found anew |
//!
//! Beside TCP connections that fill the queue this is their game: small probes add what they add, and what overflows takes a tenth. So
//! senders of this law that share a path do not keep its queue full either, whatever room it has.
//!
//! Departures from BBR: the queue is seen and not inferred, so there is no bound on what is under way that losses move, and no
//! regular pause; probes begin small on long paths; rates are of rounds and not of single samples. It is for senders that pace. Cost:
//! some ten operations on floats an acknowledgment; only the four that IEEE 754 rounds exactly. Invariants: the window is at least a
//! packet; C is at most the largest sample, so that no peer moves it beyond what was sent.

use super::law::{Acked, Congested, Law, PathRate, Sent};
use super::least::Least;
use super::overflow::Overflow;
use super::window;
use crate::loss::delivery_rate::Sample;
use crate::units::{Bytes, Rate, Span, Time};

/// How fast the start is: 4 ln 2.
const START: f64 = 2.77;
/// Growth in a round that says that there is more.
const GROWTH: f64 = 1.25;
/// Rounds without it that end the start.
const FLAT: u8 = 3;
/// Of what the path is known to carry: who sends less makes no queue.
const SPARSE: f64 = 1.0 / 8.0;
/// Rounds of a cruise.
const CRUISE: u8 = 6;
/// Rounds that a rate is remembered at least.
const MEMORY: u8 = 8;
/// What a first probe may leave waiting, in nanoseconds.
const PROBE: f64 = 10e6;
/// The least queue that counts as one, in nanoseconds.
const QUEUE: f64 = 5e6;
/// What is left of the rate after a mark.
const MARKED: f64 = 0.85;
/// Of the rate that was measured, since the largest of many samples is a little too large.
const MARGIN: f64 = 0.99;
/// Of what is sent: where less arrives, the path became slower.
const SLOWER: f64 = 0.6;
/// The same, where that is seen in less than a round: others that begin take less.
const AT_ONCE: f64 = 0.45;
/// How long a queue may hide the least round trip.
const HIDDEN: Span = Span::from_secs(5);
/// The same where pauses did not shorten it.
const MOST_HIDDEN: Span = Span::from_secs(60);
/// How many times s a round takes at least; half as many times d.
const JITTERS: f64 = 24.0;
/// But no longer than this for that reason: when a long queue goes, d is as large as it for a moment.
const LONG: Span = Span::from_secs(1);
/// Where there is enough to send, a path that may have become slower is looked at for at most this many times as long as where there is not.
const PATIENT: u64 = 4;
/// What is beyond this many times s is no jitter.
const ROUGH: f64 = 6.0;
/// Samples of q after which d and s are known: trains and what went alone say little of a path that jitters.
const KNOWN: u32 = 64;
/// Idle time after which they are not.
const FORGOTTEN: Span = Span::from_secs(5);
/// What the mean step from one sample to the next is as a mean deviation, where samples do not depend on each other: 1/√2.
const STEP: f64 = 0.7;

/// The largest s, in nanoseconds, of a path on which what seems lost is.
const SMOOTH: f64 = 1e6;
/// What is left of what arrived, where a queue overflowed.
const OVERFLOWED: f64 = 0.9;
/// How long probes are small after that.
const SMALL: Span = Span::from_secs(6);
/// Packets of a small probe.
const FEW: f64 = 12.0;
/// The round trip, in nanoseconds, from which on they are more.
const FAR: f64 = 100e6;

/// What the sender does at the moment.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// `before`: the rate that is to be exceeded.
    Start { before: f64, flat: u8 },
    /// At `gain` for so many rounds more at most; packets waited `before` in the last one. `slower`: since the path became that at once.
    Drain { gain: f64, left: u8, before: f64, slower: bool },
    /// `queued`: in all rounds of it so far.
    Cruise { left: u8, queued: bool },
    /// Faster by `excess` than C.
    Up { excess: f64 },
    /// What that brought, where `before` was delivered.
    Look { excess: f64, before: f64, fast_until: Time },
}

/// What was seen in the round that goes on.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// It ends when this position is acknowledged.
    end: u64,
    /// But not before this, so that jitter at both ends of it matters little.
    until: Time,
    /// The least wait and the longest, in nanoseconds.
    least: f64,
    most: f64,
    /// Bytes that had been delivered at its first report and at its last, and when.
    first: Option<(u64, Time)>,
    last: (u64, Time),
    /// The largest rate of a sample, in bytes a second: no more than was sent.
    sample: f64,
    /// Bytes that were lost.
    lost: f64,
    /// Whether there was enough to send all the time.
    enough: bool,
}

impl Round {
    fn new(end: u64, until: Time) -> Round {
        Round {
            end,
            until,
            least: f64::INFINITY,
            most: 0.0,
            first: None,
            last: (0, Time::ZERO),
            sample: 0.0,
            lost: 0.0,
            enough: true,
        }
    }

    fn add(&mut self, sample: &Sample) {
        let delivered = (sample.prior_delivered + sample.delivered).as_u64();
        self.first.get_or_insert((delivered, sample.delivered_at));
        self.last = (delivered, sample.delivered_at);
        self.sample = self.sample.max(sample.rate().as_bits_per_sec() as f64 / 8.0);
        self.enough &= !sample.app_limited;
    }

    /// Bytes a second that were delivered, from the first report to the last, and that were sent; of a single report what it says
    /// itself.
    fn rates(&self) -> (f64, f64) {
        let Some((delivered, at)) = self.first else { return (0.0, 0.0) };
        match self.last.1.since(at).as_nanos() {
            0 => (self.sample, self.sample),
            took => {
                let bytes = self.last.0.saturating_sub(delivered) as f64;
                let rate = |bytes: f64| bytes * 1e9 / took as f64;
                (rate(bytes).min(self.sample), rate(bytes + self.lost))
            }
        }
    }
}

/// The largest rates of the last one or two spans of [`MEMORY`] rounds, in bytes a second.
#[derive(Clone, Copy, Debug, Default)]
struct Largest {
    of: [f64; 2],
    rounds: u8,
    /// Of the last two rounds.
    last: [f64; 2],
}

impl Largest {
    fn value(&self) -> f64 {
        self.of[0].max(self.of[1])
    }

    fn add(&mut self, rate: f64) {
        self.of[0] = self.of[0].max(rate);
    }

    /// A round of this rate is over, in which there was enough to send or not.
    fn end_round(&mut self, rate: f64, enough: bool) {
        self.last = [if enough { rate } else { 0.0 }, self.last[0]];
        if enough || rate > self.value() {
            self.add(rate);
        }
        if !enough {
            return;
        }
        self.rounds += 1;
        if self.rounds >= MEMORY {
            self.rounds = 0;
            self.of = [0.0, self.of[0]];
        }
    }

    /// Whether there was enough to send in the last two rounds.
    fn is_fresh(&self) -> bool {
        self.last[0].min(self.last[1]) > 0.0
    }

    /// Only the last round counts, or the last two.
    fn forget(&mut self, rounds: usize) {
        self.of = [self.last[..rounds].iter().fold(0.0, |most: f64, rate| most.max(*rate)), 0.0];
        self.rounds = 0;
    }

    fn scale(&mut self, share: f64) {
        self.of = self.of.map(|rate| rate * share);
    }
}

/// The state of one sender.
#[derive(Clone, Debug)]
pub struct Probe {
    segment: f64,
    initial: f64,
    rate: Largest,
    least: Least,
    /// In nanoseconds; zero before the first sample.
    base: f64,
    trip: f64,
    deviation: f64,
    waited: f64,
    /// The last sample of q, and the mean step from one to the next.
    last_wait: f64,
    step: f64,
    /// What packets wait although this sender has just given way: as much of it as is taken for the path's own, and all of it.
    floor: f64,
    standing: f64,
    phase: Phase,
    round: Round,
    /// What was seen since every packet waits so long that the path may have become slower, and until when it is looked at
    /// where there is enough to send.
    watch: Option<(Round, Time)>,
    /// d and s before that.
    usual: f64,
    smooth: f64,
    /// Samples of q since the law began, or since there was nothing to send for long.
    seen: u32,
    /// What is lost where a queue stands, and until when probes are small.
    overflow: Overflow,
    small_until: Time,
    /// What was sent before this went more slowly, in a drain.
    lull: u64,
    /// The last cruise ended in a drain.
    drained: bool,
    /// When a round had hardly any queue, and for how long it may have none.
    clear: Time,
    hidden: Span,
    /// When the last acknowledgment came, and when the round began.
    now: Time,
    began: Time,
    /// A queue stood in the last round.
    queued: bool,
    /// A timeout came, and nothing was acknowledged since.
    silent: bool,
}

impl Probe {
    /// A fresh sender's.
    pub fn new(config: &window::Config) -> Probe {
        let segment = f64::from(config.segment.max(1));
        Probe {
            segment,
            initial: (config.initial_window as f64).max(segment),
            rate: Largest::default(),
            least: Least::default(),
            base: 0.0,
            trip: 0.0,
            deviation: 0.0,
            waited: 0.0,
            last_wait: 0.0,
            step: 0.0,
            floor: 0.0,
            standing: 0.0,
            phase: Phase::Start { before: 0.0, flat: 0 },
            round: Round::new(0, Time::ZERO),
            watch: None,
            usual: 0.0,
            smooth: 0.0,
            seen: 0,
            overflow: Overflow::default(),
            small_until: Time::ZERO,
            lull: 0,
            drained: false,
            clear: Time::ZERO,
            hidden: HIDDEN,
            now: Time::ZERO,
            began: Time::ZERO,
            queued: false,
            silent: false,
        }
    }

    /// T, in nanoseconds.
    fn target(&self) -> f64 {
        (self.base / 8.0).max(QUEUE) + self.deviation
    }

    /// By how much the largest of many samples is too large, as jitter moves both ends of what they measure.
    fn margin(&self) -> f64 {
        MARGIN - (self.deviation / (2.0 * self.trip.max(1.0))).min(0.05)
    }

    /// The queue of a path that became slower.
    fn long(&self) -> f64 {
        2.0 * self.base.max(25e6)
    }

    /// The queue of a path that may have become slower.
    fn grown(&self) -> f64 {
        (self.base / 2.0).max(25e6)
    }

    fn gain(&self) -> f64 {
        match self.phase {
            Phase::Start { .. } => START,
            Phase::Drain { gain, .. } => gain,
            Phase::Look { excess, fast_until, .. } if self.now < fast_until => 1.0 + excess,
            Phase::Cruise { .. } | Phase::Look { .. } => 1.0,
            Phase::Up { excess } => 1.0 + excess,
        }
    }

    fn handle_delay(&mut self, now: Time, trip: Option<Span>, waited: Option<Span>) {
        let mut waited = waited.map(|span| span.as_nanos() as f64);
        if let Some(trip) = trip {
            let trip = trip.as_nanos().max(1);
            self.base = self.least.add(now, trip) as f64;
            let trip = trip as f64;
            self.trip = if self.trip == 0.0 { trip } else { self.trip + (trip - self.trip) / 8.0 };
            waited = waited.or(Some(trip - self.base));
        }
        let Some(waited) = waited else { return };
        self.waited += (waited - self.waited) / 8.0;
        let off = if waited > self.waited { waited - self.waited } else { self.waited - waited };
        self.deviation += (off - self.deviation) / 8.0;
        let step = if waited > self.last_wait { waited - self.last_wait } else { self.last_wait - waited };
        self.step += (step - self.step) / 8.0;
        self.last_wait = waited;
        self.seen = self.seen.saturating_add(1);
        self.round.least = self.round.least.min(waited);
        self.round.most = self.round.most.max(waited);
        if waited <= self.standing + self.grown() {
            (self.watch, self.usual, self.smooth) = (None, self.deviation, self.roughness());
            return;
        }
        let span = |jitter: f64| Span::from_nanos(self.base.max(JITTERS * jitter) as u64);
        let soon = span(self.smooth);
        let late = span(self.usual).min(soon.times(PATIENT)).min(LONG);
        let (watch, _) = self.watch.get_or_insert_with(|| (Round::new(0, now + soon), now + late));
        watch.least = watch.least.min(waited);
    }

    /// s, in nanoseconds.
    fn roughness(&self) -> f64 {
        (STEP * self.step).min(self.deviation)
    }

    /// Goes slower until what waits does not fall any more.
    fn drain(&self, gain: f64, left: u8) -> Phase {
        Phase::Drain { gain, left, before: f64::INFINITY, slower: false }
    }

    /// What waits now is not this sender's. What was sent before `next` went more slowly.
    fn settle(&mut self, next: u64, least: f64, cruise: Phase) -> Phase {
        self.lull = next;
        let most = (self.base / 2.0).max(15e6) + 4.0 * self.deviation;
        self.standing = if least.is_finite() { least } else { 0.0 };
        self.floor = self.standing.min(most);
        cruise
    }

    /// Whether far less arrived than was sent in a time in which every packet waited long.
    fn is_slower(&self, watch: &Round) -> bool {
        let looks = watch.first.is_some()
            && self.seen >= KNOWN
            && !matches!(self.phase, Phase::Start { .. } | Phase::Drain { slower: true, .. });
        let share = if watch.enough { AT_ONCE } else { SLOWER };
        let is_queue =
            watch.enough || watch.least > self.standing + self.grown() + ROUGH * self.smooth.max(self.roughness());
        looks && is_queue && watch.rates().0 < share * self.gain().min(1.0) * self.rate.value()
    }

    /// The path became slower: what arrived is its rate, and what waits by now is to go within about a round trip.
    fn slow_down(&mut self, now: Time, next: u64, watch: &Round) {
        let least = if watch.enough { 0.0 } else { self.rate.value() / 2.0 };
        self.rate.end_round(watch.rates().0.max(least), true);
        self.rate.forget(1);
        let gain = (self.base / (self.base + self.waited)).clamp(0.25, 0.75);
        self.phase = Phase::Drain { gain, left: 6, before: f64::INFINITY, slower: true };
        (self.round, self.began) = (Round { first: Some(watch.last), ..Round::new(next, now) }, now);
    }

    /// Goes slower where the queue overflows; `arrived` bytes did in the round that is over, which had enough to send or not.
    fn look_for_overflow(&mut self, now: Time, round: &Round, arrived: u64, enough: bool) {
        if self.roughness() > SMOOTH {
            self.overflow.forget();
            return;
        }
        let queued = round.least.is_finite() && round.least > self.target();
        let packets = |bytes: f64| bytes / self.segment;
        let overflows = self.overflow.add(packets(arrived as f64 + round.lost), packets(round.lost), queued);
        if !overflows || matches!(self.phase, Phase::Start { .. }) {
            return;
        }
        if enough {
            self.rate.forget(1);
        }
        self.rate.scale(OVERFLOWED);
        self.small_until = now + SMALL;
    }

    /// What waited nearly alone in the start, when `arrived` bytes did, met no queue of this sender's. A path that keeps order lets packets that follow
    /// closely all wait as long, each for the slowest before it.
    fn look_for_jitter(&mut self, round: &Round, arrived: u64) {
        let starts = matches!(self.phase, Phase::Start { .. });
        if starts && (arrived as f64) < SPARSE * self.rate.value() * self.trip / 1e9 {
            self.floor = self.floor.max(round.most);
        }
    }

    /// A probe where others want more too.
    fn small_probe(&self) -> Phase {
        let bytes = FEW * self.segment * (self.trip / FAR).max(1.0);
        let under_way = (self.rate.value() * self.trip / 1e9).max(self.segment);
        Phase::Up { excess: (bytes / under_way).min(0.25) }
    }

    /// A round is over.
    fn end_round(&mut self, now: Time, next: u64) {
        let round = core::mem::replace(&mut self.round, Round::new(next, now));
        let long = Span::from_nanos((JITTERS * self.roughness().max(self.deviation / 2.0)) as u64).min(LONG);
        if round.enough {
            self.round.first = round.first.map(|_| round.last);
        }
        let (measured, sent) = round.rates();
        // The sender is limited by the path only where it comes near what the path had, or finds a queue.
        let enough = round.enough
            && (sent > self.rate.value() / 2.0 || round.least.is_finite() && round.least > self.floor + self.long());
        // Where all waited all the time the path was busy, whatever there was to send.
        let busy = round.least.is_finite() && round.least > self.standing + self.long();
        let starved = busy && !enough && !matches!(self.phase, Phase::Start { .. });
        let (before, enough) = (self.rate.value(), enough || starved);
        self.rate.end_round(measured, enough);
        // Nothing where no report of the round told of deliveries.
        let arrived = round.first.map_or(0, |(first, _)| round.last.0.saturating_sub(first));
        self.look_for_overflow(now, &round, arrived, enough);
        let rate = self.rate.value();
        self.look_for_jitter(&round, arrived);
        let target = self.floor + self.target();
        if round.least < self.target() / 4.0 {
            (self.clear, self.hidden) = (now, HIDDEN);
        }
        let queued = round.least.is_finite() && round.least > target;
        self.queued = queued;
        // A queue tells a sender that has little to send that there is no more.
        let told = enough || queued && !round.enough;
        let slower = busy && self.rate.is_fresh();
        let full = round.least.is_finite() && round.least > self.base.max(30e6) + 4.0 * self.deviation;
        let rounds = f64::from(CRUISE) * (self.trip / long.as_nanos().max(1) as f64).min(1.0);
        let cruise = Phase::Cruise { left: (rounds as u8).max(2), queued: true };
        self.phase = match self.phase {
            Phase::Start { flat, .. } if told && flat > 0 && queued => self.drain(0.5, 6),
            Phase::Start { before, .. } if rate >= GROWTH * before => Phase::Start { before: rate, flat: 0 },
            Phase::Start { before, flat } if told && flat + 1 < FLAT => Phase::Start { before, flat: flat + 1 },
            Phase::Start { .. } if enough => self.drain(0.5, 6),
            start @ Phase::Start { .. } => start,
            // What a round at this pace takes away is seen one round later.
            Phase::Drain { gain, left, before, slower: at_once } if left > 0 && round.least > self.target() / 2.0 => {
                let falls = round.least < before - (1.0 - gain) * self.trip / 4.0;
                // Less arrives than is sent even so: the path became slower.
                let slower = self.rate.is_fresh() && measured < SLOWER * gain * rate;
                if slower {
                    self.rate.forget(2);
                }
                if falls || slower {
                    Phase::Drain { gain, left: left - 1, before: round.least, slower: at_once }
                } else {
                    self.settle(next, round.least, cruise)
                }
            }
            Phase::Drain { .. } => self.settle(next, round.least, cruise),
            Phase::Cruise { .. } if slower => {
                self.rate.forget(2);
                if starved {
                    self.rate.add(before / 2.0);
                }
                self.drain(0.75, 6)
            }
            Phase::Cruise { left, queued: before } if left > 1 => {
                Phase::Cruise { left: left - 1, queued: before && queued }
            }
            Phase::Cruise { .. } if !enough && !queued => Phase::Cruise { left: 1, queued },
            Phase::Cruise { .. } if now.since(self.clear) > self.hidden => {
                // Where that shows no shorter queue, it is not worth it so soon again.
                (self.clear, self.hidden) = (now, self.hidden.times(2).min(MOST_HIDDEN));
                self.drain(0.5, 4)
            }
            Phase::Cruise { queued: before, .. } if before && queued && !self.drained => {
                self.drained = true;
                self.drain(0.75, 6)
            }
            // Others have filled the queue: what is delivered is this sender's share of the path, and they look for more.
            Phase::Cruise { .. } if full || now < self.small_until => {
                self.drained = false;
                self.small_probe()
            }
            Phase::Cruise { .. } => {
                self.drained = false;
                let excess = ((PROBE + 4.0 * self.deviation) / self.base.max(1.0)).clamp(1.0 / 32.0, 0.25);
                Phase::Up { excess }
            }
            // What went faster is not told of yet: this is what there was before.
            Phase::Up { excess, .. } if enough => Phase::Look { excess, before: rate, fast_until: self.began + long },
            Phase::Up { .. } => cruise,
            Phase::Look { excess, before, .. } if measured >= before * (1.0 + excess / 2.0) && !queued => {
                if excess >= 1.0 / 8.0 {
                    self.small_until = now;
                }
                Phase::Up { excess: (2.0 * excess).min(1.0) }
            }
            Phase::Look { .. } if !full && round.least > self.floor + self.target() / 2.0 => self.drain(0.75, 6),
            Phase::Look { .. } => cruise,
        };
        self.began = now;
        if matches!(self.phase, Phase::Cruise { .. } | Phase::Look { .. }) {
            self.round.until = now + long;
        }
    }
}

impl Law for Probe {
    fn on_sent(&mut self, _: &Sent) {}

    fn on_acked(&mut self, acked: &Acked) {
        self.silent = false;
        self.now = acked.now;
        self.handle_delay(acked.now, acked.rtt, acked.waited);
        if let Some(sample) = &acked.delivery {
            self.round.add(sample);
            self.watch.iter_mut().for_each(|(watch, _)| watch.add(sample));
        }
        if acked.up_to < self.lull {
            self.watch = None;
        }
        let over = |(watch, late): &mut (Round, Time)| if watch.enough { *late } else { watch.until } <= acked.now;
        if let Some((watch, _)) = self.watch.take_if(over)
            && self.is_slower(&watch)
        {
            self.slow_down(acked.now, acked.next, &watch);
        } else if acked.up_to >= self.round.end && acked.now >= self.round.until {
            self.end_round(acked.now, acked.next);
        }
    }

    fn on_lost(&mut self, lost: &Congested) {
        let bytes = lost.bytes.as_u64() as f64;
        self.round.lost += bytes;
        self.watch.iter_mut().for_each(|(watch, _)| watch.lost += bytes);
    }

    fn on_ecn(&mut self, marked: &Congested) {
        if marked.begins {
            self.rate.scale(MARKED);
        }
    }

    fn on_timeout(&mut self, _: &Congested) {
        if core::mem::replace(&mut self.silent, true) {
            self.rate.scale(0.5);
            self.phase = Phase::Start { before: self.rate.value(), flat: 0 };
        }
    }

    fn on_idle(&mut self, idle: Span) {
        if idle > FORGOTTEN {
            self.seen = 0;
        }
    }

    fn on_recovery(&mut self, _: Bytes) {}

    fn on_undo(&mut self) {}

    fn on_path_rate(&mut self, path: PathRate) {
        let rate = path.rate().as_bits_per_sec() as f64 / 8.0;
        let starts = matches!(self.phase, Phase::Start { .. });
        if starts || rate > 2.0 * self.rate.value() {
            self.rate.add(rate);
        }
        if starts {
            self.phase = match path {
                PathRate::About(_) => Phase::Cruise { left: CRUISE, queued: true },
                PathRate::AtLeast(_) => Phase::Start { before: rate, flat: 0 },
            };
        }
    }

    fn window(&self) -> Bytes {
        let rate = self.rate.value() / 1e9;
        if rate == 0.0 {
            return Bytes::new(self.initial as u64);
        }
        let margin = (self.base / 2.0).max(PROBE + 4.0 * self.deviation);
        let window = self.gain().max(1.0) * rate * (self.trip + margin) + 3.0 * self.segment;
        let least = if matches!(self.phase, Phase::Start { .. }) { self.initial } else { self.segment };
        Bytes::new(window.max(least) as u64)
    }

    /// Losses bring the window down to where it is.
    fn threshold(&self) -> Bytes {
        self.window()
    }

    fn wants_delivery_rate(&self) -> bool {
        true
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let rate = self.rate.value();
        // As much as a sender that knows nothing.
        let packets = if matches!(self.phase, Phase::Start { .. }) { self.initial } else { 4.0 * self.segment };
        let least = if self.trip > 0.0 { packets * 1e9 / self.trip } else { 0.0 };
        let pace = (self.margin() * self.gain() * rate).max(least);
        (rate > 0.0).then(|| Rate::from_bits_per_sec((8.0 * pace) as u64))
    }

    fn path_rate(&self) -> Option<Rate> {
        let rate = self.rate.value();
        (rate > 0.0).then(|| Rate::from_bits_per_sec((8.0 * rate) as u64))
    }

    fn has_queue(&self) -> bool {
        self.queued
    }

    fn is_starting(&self) -> bool {
        matches!(self.phase, Phase::Start { .. })
    }
}

#[cfg(test)]
mod tests;
