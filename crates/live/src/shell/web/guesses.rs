//! How many wrong passwords somebody may still try: each address for itself, and all together.
//!
//! An address of IPv6 counts with all others of its /64, which one host may have, and with those of its /48, which one site may have. Whose
//! address has logged in before is no part of what all have together: who guesses from everywhere keeps those out who come for the first time, and
//! nobody else. Nor is this host itself: who has a shell here comes in by loopback, also after a restart, when nobody has logged in yet. All addresses of
//! loopback have one count, so who guesses by them has no more than one address has. The table is bounded: what all have together keeps far fewer addresses than it holds in debt.

use fairspan_core::units::{Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Wrong passwords at once; after them one in `EVERY`.
pub(super) const GUESSES: u32 = 10;
/// As many for a whole /48 of IPv6, and then as often.
const SITE: u32 = 40;
/// See above.
pub(super) const EVERY: Span = Span::from_secs(2);
/// As many for all together; after them one in `ALL_EVERY`.
const ALL: u32 = 200;
const ALL_EVERY: Span = Span::from_millis(100);
/// Addresses of those who logged in; the one that did so longest ago gives way.
const KNOWN: usize = 64;
/// Addresses with a count of their own.
const ADDRESSES: usize = 1024;

/// What one address, or those that share a count, may try.
#[derive(Clone, Copy, Debug)]
struct Count {
    most: u32,
    every: Span,
    left: u32,
    regained: Time,
}

impl Count {
    fn new(now: Time, most: u32, every: Span) -> Count {
        Count { most, every, left: most, regained: now }
    }

    /// Gives back what time gives back.
    fn regain(&mut self, now: Time) {
        let whole = now.since(self.regained).as_nanos() / self.every.as_nanos();
        self.left = self.most.min(self.left.saturating_add(u32::try_from(whole).unwrap_or(self.most)));
        if self.left == self.most {
            self.regained = now;
        } else {
            self.regained += self.every.times(whole);
        }
    }
}

/// Those who share a count, and how many guesses that has at most.
type Counted = (IpAddr, u32);

/// The counts of all.
#[derive(Debug)]
pub(super) struct Guesses {
    of: BTreeMap<Counted, Count>,
    /// Of all whose address has not logged in.
    all: Count,
    /// Addresses that have, the one that did so longest ago first, each with a count of its own.
    known: VecDeque<(Counted, Count)>,
}

impl Guesses {
    pub(super) fn new() -> Guesses {
        let all = Count::new(Time::ZERO, ALL, ALL_EVERY);
        Guesses { of: BTreeMap::new(), all, known: VecDeque::new() }
    }

    /// The count of `from`, if it has logged in.
    fn known(&mut self, now: Time, from: IpAddr) -> Option<&mut Count> {
        let counted = counted_as(from)[0];
        let (_, count) = self.known.iter_mut().find(|(known, _)| Some(*known) == counted)?;
        count.regain(now);
        Some(count)
    }

    /// `from` tried the right one.
    pub(super) fn right(&mut self, now: Time, from: IpAddr) {
        let counted = counted_as(from)[0];
        let before = self.known.iter().position(|(known, _)| Some(*known) == counted);
        let count = match before.and_then(|number| self.known.remove(number)) {
            Some((_, count)) => count,
            None => Count::new(now, GUESSES, EVERY),
        };
        if self.known.len() == KNOWN {
            self.known.pop_front();
        }
        self.known.extend(counted.map(|counted| (counted, count)));
    }

    /// Whether `from` may try a password.
    pub(super) fn may(&mut self, now: Time, from: IpAddr) -> bool {
        if let Some(count) = self.known(now, from) {
            return count.left > 0;
        }
        self.all.regain(now);
        let by_address = counted_as(from).into_iter().flatten().all(|counted| {
            self.of.get_mut(&counted).is_none_or(|count| {
                count.regain(now);
                count.left > 0
            })
        });
        (self.all.left > 0 || is_this_host(from)) && by_address
    }

    /// `from` tried a wrong one.
    pub(super) fn wrong(&mut self, now: Time, from: IpAddr) {
        if let Some(count) = self.known(now, from) {
            count.left = count.left.saturating_sub(1);
            return;
        }
        if !is_this_host(from) {
            self.all.regain(now);
            self.all.left = self.all.left.saturating_sub(1);
        }
        for counted in counted_as(from).into_iter().flatten() {
            if !self.of.contains_key(&counted) && !self.has_room(now) {
                continue;
            }
            let count = self.of.entry(counted).or_insert_with(|| Count::new(now, counted.1, EVERY));
            count.regain(now);
            count.left = count.left.saturating_sub(1);
        }
    }

    /// Whether one more address gets a count; those that owe nothing any more give way.
    fn has_room(&mut self, now: Time) -> bool {
        if self.of.len() >= ADDRESSES {
            self.of.retain(|_, count| {
                count.regain(now);
                count.left < count.most
            });
        }
        self.of.len() < ADDRESSES
    }
}

/// Whether a connection comes by loopback.
fn is_this_host(from: IpAddr) -> bool {
    from.to_canonical().is_loopback()
}

/// One host may have many addresses, and one site many networks.
fn counted_as(from: IpAddr) -> [Option<Counted>; 2] {
    match from.to_canonical() {
        this if this.is_loopback() => [Some((Ipv4Addr::LOCALHOST.into(), GUESSES)), None],
        IpAddr::V6(six) => {
            let net = |host: u32| IpAddr::from(Ipv6Addr::from_bits(six.to_bits() >> host << host));
            [Some((net(64), GUESSES)), Some((net(80), SITE))]
        }
        four => [Some((four, GUESSES)), None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + n).into()
    }

    fn spend(guesses: &mut Guesses, now: Time, from: IpAddr) -> u32 {
        let mut tried = 0;
        while guesses.may(now, from) {
            guesses.wrong(now, from);
            tried += 1;
        }
        tried
    }

    #[test]
    fn who_guesses_keeps_nobody_else_from_trying() {
        let mut guesses = Guesses::new();
        let now = Time::from_millis(5000);
        assert_eq!(spend(&mut guesses, now, four(1)), GUESSES);
        assert!(!guesses.may(now, four(1)) && guesses.may(now, four(2)));
        // The same address, as a socket of IPv6 tells of it.
        assert!(!guesses.may(now, "::ffff:10.0.0.1".parse().expect("an address")));
        assert_eq!(spend(&mut guesses, now + EVERY.times(3), four(1)), 3);
        assert_eq!(spend(&mut guesses, now + EVERY.times(1000), four(1)), GUESSES, "and never more than at first");
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_count_as_one() {
        let mut guesses = Guesses::new();
        let one = |text: &str| text.parse::<IpAddr>().expect("an address");
        let tried: u32 = (0..20).map(|n| spend(&mut guesses, Time::ZERO, one(&format!("2001:db8::{n:x}:1")))).sum();
        assert_eq!(tried, GUESSES);
        assert!(guesses.may(Time::ZERO, one("2001:db8:0:1::1")));
        let more: u32 = (1..100).map(|n| spend(&mut guesses, Time::ZERO, one(&format!("2001:db8:0:{n:x}::1")))).sum();
        assert_eq!(tried + more, SITE, "and one site gains little by its many networks");
        assert!(guesses.may(Time::ZERO, one("2001:db8:1::1")));
    }

    #[test]
    fn who_guesses_from_everywhere_gains_little_and_keeps_nobody_out_who_was_in_before() {
        let mut guesses = Guesses::new();
        let at = |ms| Time::from_millis(ms);
        for n in 0..=KNOWN as u32 {
            guesses.right(at(0), four(n));
        }
        let tried: u32 = (1000..2000).map(|n| spend(&mut guesses, at(0), four(n))).sum();
        assert_eq!(tried, ALL);
        assert!(!guesses.may(at(0), four(2000)), "somebody new");
        assert!(!guesses.may(at(0), four(0)), "who was in before all the others");
        assert!((1..=KNOWN as u32).all(|n| guesses.may(at(0), four(n))));
        let minute: u32 = (0..60_000).step_by(50).map(|ms| spend(&mut guesses, at(ms), four(3000 + ms as u32))).sum();
        assert_eq!(minute, 599, "one in a tenth of a second, from an address of its own each");
        // Whoever was in may do no more than others.
        assert_eq!(spend(&mut guesses, at(60_000), four(1)), GUESSES);
        guesses.right(at(60_000), four(1));
        assert_eq!(spend(&mut guesses, at(60_000) + EVERY, four(1)), 1, "and a login pays for nothing");
    }

    #[test]
    fn who_comes_by_loopback_may_try_whoever_else_guesses_and_no_more_often_than_one_address() {
        let mut guesses = Guesses::new();
        let tried: u32 = (1000..2000).map(|n| spend(&mut guesses, Time::ZERO, four(n))).sum();
        assert!(tried == ALL && !guesses.may(Time::ZERO, four(1)), "nobody new may try");
        let here = |n: u32| [IpAddr::from(Ipv4Addr::from_bits(0x7f00_0000 + n)), Ipv6Addr::LOCALHOST.into()];
        let tried: u32 = (1..100).flat_map(here).map(|address| spend(&mut guesses, Time::ZERO, address)).sum();
        assert_eq!(tried, GUESSES);
        assert!(!guesses.may(Time::ZERO, "::ffff:127.0.0.5".parse().expect("an address")));
        assert_eq!(spend(&mut guesses, Time::ZERO + EVERY, here(1)[1]), 1);
        // Nor do those of this host keep others out.
        let mut guesses = Guesses::new();
        spend(&mut guesses, Time::ZERO, here(1)[0]);
        assert_eq!((1000..2000).map(|n| spend(&mut guesses, Time::ZERO, four(n))).sum::<u32>(), ALL);
    }

    #[test]
    fn the_table_has_room_for_all_that_can_be_guessed() {
        let mut guesses = Guesses::new();
        let mut most = 0;
        for ms in (0..60_000).step_by(10) {
            for n in 0..10 {
                // Each time another site, which counts as two addresses.
                let site = IpAddr::from(Ipv6Addr::from_bits((0x2001_0000 + ms as u128 * 10 + n) << 80));
                if guesses.may(Time::from_millis(ms), site) {
                    guesses.wrong(Time::from_millis(ms), site);
                }
            }
            let mut owing = 0;
            for count in guesses.of.values_mut() {
                count.regain(Time::from_millis(ms));
                owing += usize::from(count.left < count.most);
            }
            most = most.max(owing);
            assert!(guesses.of.len() <= ADDRESSES);
        }
        assert!(2 * most < ADDRESSES, "{most} owe something at once");
    }
}
