//! How many wrong passwords somebody may still try: each address for itself.
//!
//! An address of IPv6 counts with all others of its /64, which one host may have, and with those of its /48, which one site may have. The table is bounded: where it is full of addresses that owe something,
//! all further ones share one count, so that many addresses together gain no more than what the table holds.

use fairspan_core::units::{Span, Time};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// Wrong passwords at once; after them one in `EVERY`.
pub(super) const GUESSES: u32 = 10;
/// As many for a whole /48 of IPv6, and then as often.
const SITE: u32 = 40;
/// See above.
pub(super) const EVERY: Span = Span::from_secs(2);
/// Addresses with a count of their own.
const ADDRESSES: usize = 1024;

/// What one address, or those that share a count, may try.
#[derive(Clone, Copy, Debug)]
struct Count {
    most: u32,
    left: u32,
    regained: Time,
}

impl Count {
    fn new(now: Time, most: u32) -> Count {
        Count { most, left: most, regained: now }
    }

    /// Gives back what time gives back.
    fn regain(&mut self, now: Time) {
        let whole = now.since(self.regained).as_nanos() / EVERY.as_nanos();
        self.left = self.most.min(self.left.saturating_add(u32::try_from(whole).unwrap_or(self.most)));
        if self.left == self.most {
            self.regained = now;
        } else {
            self.regained += EVERY.times(whole);
        }
    }
}

/// Those who share a count, and how many guesses that has at most.
type Counted = (IpAddr, u32);

/// The counts of all.
#[derive(Debug)]
pub(super) struct Guesses {
    of: BTreeMap<Counted, Count>,
    /// Of those that the table has no room for.
    others: Count,
}

impl Guesses {
    pub(super) fn new() -> Guesses {
        Guesses { of: BTreeMap::new(), others: Count::new(Time::ZERO, GUESSES) }
    }

    /// Whether `from` may try a password.
    pub(super) fn may(&mut self, now: Time, from: IpAddr) -> bool {
        counted_as(from).into_iter().flatten().all(|counted| {
            if !self.of.contains_key(&counted) && self.has_room(now) {
                return true;
            }
            let count = self.of.get_mut(&counted).unwrap_or(&mut self.others);
            count.regain(now);
            count.left > 0
        })
    }

    /// `from` tried a wrong one.
    pub(super) fn wrong(&mut self, now: Time, from: IpAddr) {
        for counted in counted_as(from).into_iter().flatten() {
            let has_room = self.has_room(now);
            let count = match self.of.contains_key(&counted) || has_room {
                true => self.of.entry(counted).or_insert_with(|| Count::new(now, counted.1)),
                false => &mut self.others,
            };
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

/// One host may have many addresses, and one site many networks.
fn counted_as(from: IpAddr) -> [Option<Counted>; 2] {
    match from.to_canonical() {
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
    use std::net::Ipv4Addr;

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
    fn more_addresses_than_there_is_room_for_share_one_count_until_others_owe_nothing() {
        let mut guesses = Guesses::new();
        for n in 0..5000 {
            guesses.wrong(Time::ZERO, four(n));
        }
        assert_eq!(guesses.of.len(), ADDRESSES);
        assert_eq!(spend(&mut guesses, Time::ZERO, four(100_000)), 0, "those that had no room have spent it");
        assert_eq!(spend(&mut guesses, Time::ZERO, four(1)), GUESSES - 1, "who has a count of its own keeps it");
        assert_eq!(spend(&mut guesses, Time::ZERO + EVERY, four(100_000)), GUESSES, "the others have paid");
    }
}
