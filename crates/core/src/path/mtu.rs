//! Path MTU discovery by probing, per channel.
//!
//! What it is: packetization layer path MTU discovery for datagrams (RFC 8899): padded probes that the peer answers,
//! so that no ICMP is needed. Departure: it starts from the link's MTU instead of the base of 1200 bytes, and confirms
//! that first, so that a path that carries its link's MTU, as most do, never shrinks the interface's MTU; a path that
//! does not is found out after three lost probes and searched from below.
//!
//! | RFC 8899 section 5 | here |
//! |---|---|
//! | PLPMTU | `current` |
//! | MIN_PLPMTU / BASE_PLPMTU | `least` |
//! | MAX_PLPMTU | `most` |
//! | PROBE_COUNT, MAX_PROBES | `lost`, [`TRIES`] |
//! | PROBE_TIMER, PMTU_RAISE_TIMER, CONFIRMATION_TIMER | [`ANSWER_WITHIN`], [`RAISE_AFTER`], [`CONFIRM_AFTER`] |
//! | SEARCH_COMPLETE, black hole | `low == high`, three lost confirmations, [`DOUBTS`] rounds |
//!
//! **Rounds** find a black hole at once (section 4.3; the setting `confirm_mtu`). While frames above `least` go, the size in use
//! and `least` are probed together. A round in which the smaller one passes and the larger one does not is a doubt, and is
//! followed by another round. Congestion loses both alike, so rounds in which nothing or the larger one passes tell of none. A
//! round is paid for with [`ROUND`] large frames. Where these come fast, rounds follow each other in the set time; what
//! remains is kept for the moment when they stop to come, as those of a transport do that has fallen into the hole. Where the
//! peer tells which frames arrived, a frame as long as any since the last round, or since the last such frame, says what a round would:
//! the next one comes the set time after it. So rounds begin when such frames do not arrive any more.
//!
//! Probes of the size in use that are lost while nothing at all arrives tell of an outage, or of a peer that is not there yet, and
//! of no size.
//!
//! What ICMP says is not asked for: anyone can forge it, and a round says the same as soon.
//!
//! Cost: one probe a minute when nothing changes, and where large frames go at most two probes each [`ROUND`] of them. Invariants:
//! `least <= current <= most`; a search ends after at most 3 x log2((most - least) / 4) probes; all sizes are of the outer
//! IP packet.

use crate::units::{Span, Time};

/// Probes of one size that must be lost before it counts as too big.
pub(crate) const TRIES: u8 = 3;
/// How long the answer to a probe is waited for.
pub(crate) const ANSWER_WITHIN: Span = Span::from_secs(1);
/// How often the size in use is confirmed.
pub(crate) const CONFIRM_AFTER: Span = Span::from_secs(60);
/// How long after a search the link's MTU is tried again.
pub(crate) const RAISE_AFTER: Span = Span::from_secs(600);
/// The smallest path MTU that is searched for: IPv6 guarantees it, and the IPv4 Internet carries it.
pub(crate) const LEAST: usize = 1280;

/// Rounds in a row that must doubt the size in use before it counts as too big: at a loss of 10 % beside the MTU, one in
/// 15,000 of the rounds that begin finds a black hole where there is none.
pub(crate) const DOUBTS: u8 = 4;
/// Large frames that a round costs.
pub(crate) const ROUND: u32 = 64;
/// How much later than the smaller probe's answer the larger one's may come: this or a quarter of the round trip.
const OVERTAKEN: Span = Span::from_millis(20);

/// Two probes that are on their way together.
#[derive(Clone, Copy, Debug)]
struct Round {
    token: u32,
    /// Of the larger one.
    size: usize,
    sent: Time,
    /// When the smaller one was answered.
    small: Option<Time>,
}

impl Round {
    /// From when on the larger one counts as lost, or the round as one that tells nothing.
    fn ends(&self) -> Time {
        match self.small {
            Some(at) => at + OVERTAKEN.max(Span::from_nanos(at.since(self.sent).as_nanos() / 4)),
            None => self.sent + ANSWER_WITHIN,
        }
    }

    /// The token of the smaller one.
    fn small_token(&self) -> u32 {
        !self.token
    }
}

/// What a path is known to carry, and what is being tried.
#[derive(Clone, Debug)]
pub(crate) struct Pmtu {
    least: usize,
    most: usize,
    current: usize,
    /// Known to pass, and not known to fail: the search is between them.
    low: usize,
    high: usize,
    /// The probe that is on its way: token and size.
    waiting: Option<(u32, usize)>,
    /// Probes of its size that were lost since the first of them went.
    lost: u8,
    first: Time,
    confirmed: bool,
    next: Time,
    raise: Time,
    round: Option<Round>,
    /// Rounds in a row that doubt the size in use.
    doubts: u8,
    /// When the last round began.
    last_round: Time,
    /// Large frames that no round was made for yet, up to two rounds' worth, and when the newest of them went.
    large: u32,
    newest: Option<Time>,
    /// The longest frame that went since the last round, or since one as long arrived.
    longest: usize,
}

impl Pmtu {
    /// Starts at the link's MTU `most`; the first probe goes at `now`.
    pub(crate) fn new(now: Time, most: usize) -> Pmtu {
        let least = LEAST.min(most);
        Pmtu {
            least,
            most,
            current: most,
            low: most,
            high: most,
            waiting: None,
            lost: 0,
            first: now,
            confirmed: false,
            next: now,
            raise: now + RAISE_AFTER,
            round: None,
            doubts: 0,
            last_round: now,
            large: 0,
            newest: None,
            longest: 0,
        }
    }

    /// The largest outer packet that the path is taken to carry.
    pub(crate) fn current(&self) -> usize {
        self.current
    }

    /// Whether a probe has shown that it does.
    pub(crate) fn confirmed(&self) -> bool {
        self.confirmed
    }

    /// When [`Pmtu::poll`] or [`Pmtu::poll_round`] has something to do, with rounds `every` so often.
    pub(crate) fn timeout(&self, every: Span) -> Time {
        self.round_due(every).map_or(self.next, |due| due.min(self.next))
    }

    /// A data frame of `size` bytes, outer IP header included, goes out.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Time, size: usize) {
        if size > self.least {
            self.large = (self.large + 1).min(2 * ROUND);
            self.newest = Some(now);
            if size <= self.current {
                self.longest = self.longest.max(size);
            }
        }
    }

    /// The peer told that a data frame of `size` bytes, outer IP header included, arrived.
    #[inline]
    pub(crate) fn on_arrived(&mut self, now: Time, size: usize) {
        if size > self.least && size >= self.longest && self.doubts == 0 && self.round.is_none() {
            (self.last_round, self.longest) = (now, 0);
        }
    }

    /// When the round that is on ends, or the next one begins.
    fn round_due(&self, every: Span) -> Option<Time> {
        if self.current <= self.least {
            return None;
        }
        if let Some(round) = &self.round {
            return Some(round.ends());
        }
        if self.doubts > 0 {
            return Some(self.last_round);
        }
        if every == Span::ZERO {
            return None;
        }
        let newest = self.newest.filter(|_| self.large >= ROUND)?;
        let from = if self.large < 2 * ROUND { newest.max(self.last_round) } else { self.last_round };
        Some(from + every)
    }

    /// Ends the round that is on, and begins the next one where one is due, with the probes' tokens and sizes. `token` is new.
    pub(crate) fn poll_round(&mut self, now: Time, token: u32, every: Span) -> Option<[(u32, usize); 2]> {
        if self.round_due(every)? > now {
            return None;
        }
        if let Some(round) = self.round.take()
            && round.small.is_some()
            && round.size == self.current
        {
            self.doubts += 1;
            if self.doubts == DOUBTS {
                self.on_black_hole(now, round.size);
                return None;
            }
        }
        if self.doubts == 0 {
            self.large = self.large.saturating_sub(ROUND);
            self.newest = None;
        }
        (self.last_round, self.longest) = (now, 0);
        let round = Round { token, size: self.current, sent: now, small: None };
        self.round = Some(round);
        Some([(token, round.size), (round.small_token(), self.least)])
    }

    /// Nothing is told of data that went: whether frames of this size still pass is looked at at once, and until it is known.
    pub(crate) fn doubt(&mut self, now: Time) {
        if self.doubts == 0 {
            (self.doubts, self.last_round) = (1, now);
        }
    }

    /// What the operating system learnt from ICMP or from its own interface. Believed when it lowers the size
    /// (RFC 8899 section 4.6.2), and confirmed by a probe.
    pub(crate) fn report(&mut self, now: Time, mtu: usize) {
        if mtu < self.current && mtu >= self.least.min(576) {
            (self.current, self.low, self.high) = (mtu, mtu, mtu);
            self.least = self.least.min(mtu);
            (self.waiting, self.lost, self.confirmed) = (None, 0, false);
            (self.round, self.doubts) = (None, 0);
            self.next = now;
            self.raise = now + RAISE_AFTER;
        }
    }

    /// The peer is another one: what was lost before was lost to nobody.
    pub(crate) fn forget_peer(&mut self) {
        self.lost = 0;
    }

    /// The size of the probe to send now, if one is due. `token` is to be in it; `heard` is when something last arrived.
    pub(crate) fn poll(&mut self, now: Time, token: u32, heard: Time) -> Option<usize> {
        if now < self.next {
            return None;
        }
        if let Some((_, size)) = self.waiting.take() {
            self.on_lost(now, size, heard);
        }
        let size = self.candidate(now);
        if self.lost == 0 {
            self.first = now;
        }
        self.waiting = Some((token, size));
        self.next = now + ANSWER_WITHIN;
        Some(size)
    }

    /// The peer answered the probe `token` of `size` bytes.
    pub(crate) fn on_answer(&mut self, now: Time, token: u32, size: usize) {
        if let Some(round) = &mut self.round {
            if (token, size) == (round.token, round.size) {
                (self.round, self.doubts) = (None, 0);
                self.confirmed |= size == self.current;
                return;
            }
            if (token, size) == (round.small_token(), self.least) {
                round.small.get_or_insert(now);
                return;
            }
        }
        if self.waiting != Some((token, size)) {
            return;
        }
        (self.waiting, self.lost) = (None, 0);
        if size >= self.current {
            (self.current, self.confirmed) = (size, true);
        }
        self.low = self.low.max(size);
        self.high = self.high.max(self.low);
        self.next = if self.searching() { now } else { now + CONFIRM_AFTER };
    }

    fn on_lost(&mut self, now: Time, size: usize, heard: Time) {
        self.lost += 1;
        if self.lost < TRIES {
            return;
        }
        self.lost = 0;
        if size <= self.current {
            if heard <= self.first {
                return;
            }
            self.on_black_hole(now, size);
        } else {
            self.high = (size - 1).max(self.low);
        }
        self.raise = now + RAISE_AFTER;
    }

    /// What was in use does not pass (any more): back to the least, and a search up from there.
    fn on_black_hole(&mut self, now: Time, size: usize) {
        (self.current, self.confirmed) = (self.least, false);
        self.low = self.least;
        self.high = size.saturating_sub(1).max(self.least);
        (self.waiting, self.lost, self.next) = (None, 0, now);
        (self.round, self.doubts, self.large) = (None, 0, 0);
        self.raise = now + RAISE_AFTER;
    }

    /// A search ends within four bytes.
    fn searching(&self) -> bool {
        self.high - self.low >= 4
    }

    fn candidate(&mut self, now: Time) -> usize {
        if !self.searching() && now >= self.raise && self.current < self.most {
            self.high = self.most;
            self.raise = now + RAISE_AFTER;
            return self.most; // often the whole of it passes again
        }
        if self.searching() { self.low + (self.high - self.low).div_ceil(2) } else { self.current }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs the machine against a path that carries `path` bytes and loses probe n where `lossy(n)`.
    fn run(pmtu: &mut Pmtu, from: Time, span: Span, path: impl Fn(Time) -> usize, lossy: impl Fn(u32) -> bool) -> u32 {
        let (mut now, mut token) = (from, 0);
        while now.since(from) < span {
            if let Some(size) = pmtu.poll(now, token, now) {
                assert!(size <= pmtu.most);
                if size <= path(now) && !lossy(token) {
                    pmtu.on_answer(now + Span::from_millis(30), token, size);
                }
                token += 1;
            }
            now = now.max(pmtu.timeout(Span::ZERO)) + Span::from_millis(1);
        }
        token
    }

    proptest! {
        #[test]
        fn finds_what_the_path_carries_within_four_bytes(path in LEAST..9000usize, most in LEAST..9000usize) {
            let mut pmtu = Pmtu::new(Time::ZERO, most);
            let probes = run(&mut pmtu, Time::ZERO, Span::from_secs(60), |_| path, |_| false);
            let best = path.min(most);
            prop_assert!(pmtu.current() <= best && best - pmtu.current() < 4, "found {} of {best}", pmtu.current());
            prop_assert!(pmtu.confirmed() && probes < 50);
        }
    }

    #[test]
    fn a_path_that_carries_its_links_mtu_never_shrinks() {
        let mut pmtu = Pmtu::new(Time::ZERO, 1500);
        // Two probes of any three are lost.
        let probes = run(&mut pmtu, Time::ZERO, Span::from_secs(600), |_| 1500, |n| n % 3 != 2);
        assert_eq!(pmtu.current(), 1500);
        assert!(probes < 40, "{probes}");
    }

    #[test]
    fn probes_that_nobody_was_there_to_answer_tell_of_no_size() {
        for appears in 1..=40_u64 {
            let appears = Time::from_millis(appears * 250);
            let mut pmtu = Pmtu::new(Time::ZERO, 1500);
            let mut met = false;
            for ms in 0..60_000 {
                let now = Time::from_millis(ms);
                if !met && now >= appears {
                    pmtu.forget_peer();
                    met = true;
                }
                let heard = if met { now } else { Time::ZERO };
                if let Some(size) = pmtu.poll(now, ms as u32, heard)
                    && met
                {
                    pmtu.on_answer(now, ms as u32, size);
                }
                assert_eq!(pmtu.current(), 1500, "after {ms} ms, with a peer after {appears:?}");
            }
            assert!(pmtu.confirmed());
        }
        // A peer from which something arrives and that answers none has a path that does not carry them.
        let mut pmtu = Pmtu::new(Time::ZERO, 1500);
        let heard = |ms: u64| Time::from_millis(ms - ms % 5_000);
        let fell = (0..60_000).find(|&ms| {
            let _ = pmtu.poll(Time::from_millis(ms), ms as u32, heard(ms));
            pmtu.current() < 1500
        });
        assert_eq!(fell, Some(6_000));
    }

    #[test]
    fn a_black_hole_is_found_and_left_again() {
        let mut pmtu = Pmtu::new(Time::ZERO, 1500);
        let hole = |now: Time| if (100_000..700_000).contains(&(now.as_nanos() / 1_000_000)) { 1400 } else { 1500 };
        run(&mut pmtu, Time::ZERO, Span::from_secs(200), hole, |_| false);
        assert!((1397..=1400).contains(&pmtu.current()), "{}", pmtu.current());
        run(&mut pmtu, Time::from_millis(200_000), Span::from_secs(1300), hole, |_| false);
        assert_eq!(pmtu.current(), 1500);
    }

    #[test]
    fn a_report_lowers_and_never_raises() {
        let mut pmtu = Pmtu::new(Time::ZERO, 1500);
        pmtu.report(Time::ZERO, 9000);
        assert_eq!(pmtu.current(), 1500);
        pmtu.report(Time::ZERO, 1300);
        assert_eq!(pmtu.current(), 1300);
        pmtu.report(Time::ZERO, 60);
        assert_eq!(
            pmtu.current(),
            1300,
            "no path is that narrow: RFC 791 lets a forged report go no lower than 576 here"
        );
    }

    /// A path with a round trip of `rtt` that carries `path` bytes from `narrows` on and loses what `lossy` says (the time,
    /// whether the probe is the smaller one); a large frame goes each `gap` until `stops`. When the size in use first changed.
    fn first_fall(
        rtt: Span,
        narrows: Time,
        gap: Span,
        stops: Time,
        until: Time,
        mut lossy: impl FnMut(Time, bool) -> bool,
    ) -> Option<Time> {
        let every = Span::from_millis(100);
        let mut pmtu = Pmtu::new(Time::ZERO, 1500);
        let (mut now, mut token, mut answers) = (Time::ZERO, 0, alloc::collections::BTreeMap::new());
        let mut frame = now;
        loop {
            let timer = pmtu.timeout(every).max(now);
            let frame_at = if frame < stops { frame } else { Time::MAX };
            let answer = answers.keys().next().map_or(Time::MAX, |(at, _)| *at);
            now = timer.min(frame_at).min(answer);
            if now >= until {
                return None;
            }
            if now == answer {
                let ((_, token), size) = answers.pop_first().unwrap();
                pmtu.on_answer(now, token, size);
            } else if now == frame_at {
                pmtu.on_sent(now, 1500);
                frame += gap;
            } else {
                token += 1;
                let alone = pmtu.poll(now, token, now).map(|size| (token, size));
                token += 1;
                let round = pmtu.poll_round(now, token, every);
                for (token, size) in alone.into_iter().chain(round.into_iter().flatten()) {
                    let fits = size <= if now >= narrows { 1400 } else { 1500 };
                    if fits && !lossy(now, size == LEAST) {
                        answers.insert((now + rtt, token), size);
                    }
                }
                if pmtu.current() < 1500 {
                    return Some(now);
                }
            }
        }
    }

    #[test]
    fn a_black_hole_under_bulk_data_is_found_within_half_a_second_or_six_round_trips() {
        for rtt_ms in [1, 10, 40, 100, 200] {
            for (gap_us, phase) in (0..40).flat_map(|phase| [(300, phase), (2_000, phase), (12_000, phase)]) {
                let rtt = Span::from_millis(rtt_ms);
                let narrows = Time::from_millis(5_000 + 7 * phase);
                // A transport's flight goes on for a round trip, and is some frames; then it waits.
                let gap = Span::from_micros(gap_us);
                let stops = narrows + rtt.max(gap.times(2));
                let fell = first_fall(rtt, narrows, gap, stops, Time::from_millis(9_000), |_, _| false);
                let took = fell.expect("it is found").since(narrows);
                let most = Span::from_millis(310).max(Span::from_millis(210) + rtt.times(6));
                assert!(took <= most, "{took:?} at a round trip of {rtt:?}, a frame each {gap_us} us");
            }
        }
    }

    #[test]
    fn congestion_that_loses_large_and_small_alike_is_no_black_hole() {
        let mut rng = crate::rng::Rng::new(5);
        for percent in [1, 3, 10] {
            let lossy = |_: Time, _: bool| rng.next_u64() % 100 < percent;
            let (never, hour) = (Time::MAX, Time::from_millis(600_000));
            let fell = first_fall(Span::from_millis(20), never, Span::from_micros(500), never, hour, lossy);
            assert_eq!(fell, None, "{percent} % of probes are lost");
        }
        let outage = |now: Time, _: bool| (5_000..8_000).contains(&(now.as_nanos() / 1_000_000));
        let fell = first_fall(
            Span::from_millis(20),
            Time::MAX,
            Span::from_micros(500),
            Time::MAX,
            Time::from_millis(60_000),
            outage,
        );
        assert_eq!(fell, None, "nothing passes for three seconds");
    }

    #[test]
    fn rounds_cost_two_probes_each_64_large_frames_at_most_and_none_without() {
        let every = Span::from_millis(100);
        for (gap_ms, most) in [(1, 601), (20, 50), (1000, 3)] {
            let mut pmtu = Pmtu::new(Time::ZERO, 1500);
            let mut rounds = 0;
            for ms in 0..60_000 {
                let now = Time::from_millis(ms);
                if ms % gap_ms == 0 {
                    pmtu.on_sent(now, 1500);
                }
                pmtu.on_sent(now, LEAST);
                if let Some([large, small]) = pmtu.poll_round(now, ms as u32, every) {
                    rounds += 1;
                    [large, small].into_iter().for_each(|(token, size)| pmtu.on_answer(now, token, size));
                }
            }
            assert!((1..=most).contains(&rounds) || gap_ms == 1000, "{rounds} rounds with a frame each {gap_ms} ms");
        }
        let mut idle = Pmtu::new(Time::ZERO, 1500);
        (0..1000).for_each(|ms| idle.on_sent(Time::from_millis(ms), LEAST));
        assert_eq!(idle.poll_round(Time::from_millis(99_000), 1, every), None);
    }

    /// Frames of two lengths, one a millisecond, of which the peer tells 20 ms later; from the second second on the longer ones are lost.
    #[test]
    fn while_frames_as_long_as_any_arrive_no_round_is_needed_and_when_they_do_not_one_follows_at_once() {
        let every = Span::from_millis(100);
        let mut pmtu = Pmtu::new(Time::ZERO, 1500);
        let length = |ms: u64| if ms.is_multiple_of(4) { 1460 } else { 1440 };
        let mut fell = None;
        for ms in 0..3_000u64 {
            let now = Time::from_millis(ms);
            pmtu.on_sent(now, length(ms));
            if ms >= 20 && (length(ms - 20) == 1440 || ms - 20 < 1_000) {
                pmtu.on_arrived(now, length(ms - 20));
            }
            // The smaller probe of a round passes.
            if let Some([_, (token, size)]) = pmtu.poll_round(now, ms as u32, every) {
                assert!(ms > 1_000, "a round after {ms} ms");
                pmtu.on_answer(now, token, size);
            }
            if pmtu.current() < 1500 {
                fell.get_or_insert(ms);
            }
        }
        // The last one that arrives is told of after 1016 ms; four rounds.
        assert!(fell.is_some_and(|ms| (1_116..1_300).contains(&ms)), "{fell:?}");
    }

    #[test]
    fn answers_that_nobody_asked_for_change_nothing() {
        let mut pmtu = Pmtu::new(Time::ZERO, 1500);
        pmtu.on_answer(Time::ZERO, 0, 9000);
        assert_eq!((pmtu.current(), pmtu.confirmed()), (1500, false));
        let size = pmtu.poll(Time::ZERO, 5, Time::ZERO).unwrap();
        pmtu.on_answer(Time::ZERO, 5, size + 1);
        pmtu.on_answer(Time::ZERO, 4, size);
        assert!(!pmtu.confirmed());
    }
}
