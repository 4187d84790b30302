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
//! | SEARCH_COMPLETE, black hole | `low == high`, three lost confirmations |
//!
//! Cost: one probe a minute when nothing changes. Invariants: `least <= current <= most`; a search ends after at most
//! 3 x log2((most - least) / 4) probes; all sizes are of the outer IP packet.

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
    lost: u8,
    confirmed: bool,
    next: Time,
    raise: Time,
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
            confirmed: false,
            next: now,
            raise: now + RAISE_AFTER,
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

    /// When [`Pmtu::poll`] has something to do.
    pub(crate) fn timeout(&self) -> Time {
        self.next
    }

    /// What the operating system learnt from ICMP or from its own interface. Believed when it lowers the size
    /// (RFC 8899 section 4.6.2), and confirmed by a probe.
    pub(crate) fn report(&mut self, now: Time, mtu: usize) {
        if mtu < self.current && mtu >= self.least.min(576) {
            (self.current, self.low, self.high) = (mtu, mtu, mtu);
            self.least = self.least.min(mtu);
            (self.waiting, self.lost, self.confirmed) = (None, 0, false);
            self.next = now;
            self.raise = now + RAISE_AFTER;
        }
    }

    /// The size of the probe to send now, if one is due. `token` is to be in it.
    pub(crate) fn poll(&mut self, now: Time, token: u32) -> Option<usize> {
        if now < self.next {
            return None;
        }
        if let Some((_, size)) = self.waiting.take() {
            self.on_lost(now, size);
        }
        let size = self.candidate(now);
        self.waiting = Some((token, size));
        self.next = now + ANSWER_WITHIN;
        Some(size)
    }

    /// The peer answered the probe `token` of `size` bytes.
    pub(crate) fn on_answer(&mut self, now: Time, token: u32, size: usize) {
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

    fn on_lost(&mut self, now: Time, size: usize) {
        self.lost += 1;
        if self.lost < TRIES {
            return;
        }
        self.lost = 0;
        if size <= self.current {
            // What was in use does not pass (any more): a black hole. Back to the least, and search up from there.
            (self.current, self.confirmed) = (self.least, false);
            self.low = self.least;
            self.high = size.saturating_sub(1).max(self.least);
        } else {
            self.high = (size - 1).max(self.low);
        }
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
            if let Some(size) = pmtu.poll(now, token) {
                assert!(size <= pmtu.most);
                if size <= path(now) && !lossy(token) {
                    pmtu.on_answer(now + Span::from_millis(30), token, size);
                }
                token += 1;
            }
            now = now.max(pmtu.timeout()) + Span::from_millis(1);
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

    #[test]
    fn answers_that_nobody_asked_for_change_nothing() {
        let mut pmtu = Pmtu::new(Time::ZERO, 1500);
        pmtu.on_answer(Time::ZERO, 0, 9000);
        assert_eq!((pmtu.current(), pmtu.confirmed()), (1500, false));
        let size = pmtu.poll(Time::ZERO, 5).unwrap();
        pmtu.on_answer(Time::ZERO, 5, size + 1);
        pmtu.on_answer(Time::ZERO, 4, size);
        assert!(!pmtu.confirmed());
    }
}
