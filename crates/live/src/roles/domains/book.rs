//! Which addresses go by which side of the bond, for how long, and because of which name.

use crate::config::{Domains, Side};
use fairspan_core::units::{Span, Time};
use std::collections::HashMap;
use std::net::IpAddr;

/// Addresses that are kept, at most.
pub(super) const MOST: usize = 2048;
/// The longest time to live that is believed.
const BELIEVED: u32 = 24 * 3600;

/// The names of a configuration, and what is wanted for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    sections: Vec<Domains>,
    by_name: HashMap<String, usize>,
}

impl Wanted {
    pub(super) fn of(sections: &[Domains]) -> Wanted {
        let names =
            |(at, section): (usize, &Domains)| section.names.iter().map(move |name| (name.clone(), at)).collect();
        let by_name = sections.iter().enumerate().flat_map(|one| -> Vec<_> { names(one) }).collect();
        Wanted { sections: sections.to_vec(), by_name }
    }

    /// What is wanted for a name: what is said of it, or else of the nearest one above it.
    fn section(&self, name: &str) -> Option<(&str, &Domains)> {
        let ends = std::iter::once(0).chain(name.match_indices('.').map(|(at, _)| at + 1));
        let (above, at) = ends.filter_map(|at| self.by_name.get_key_value(&name[at..])).next()?;
        Some((above, self.sections.get(*at)?))
    }

    /// Its names with their sides, in the order of the file.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, Side)> {
        self.sections.iter().flat_map(|section| section.names.iter().map(|name| (name.as_str(), section.side)))
    }

    /// The first of these names for which anything is wanted.
    pub(super) fn find<'a>(&self, names: &'a [String]) -> Option<(&'a str, Side)> {
        names.iter().find_map(|name| Some((name.as_str(), self.section(name)?.1.side)))
    }
}

/// An address that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) side: Side,
    /// The name that was asked for, the last of several.
    pub(super) name: String,
    pub(super) until: Time,
    heard: Time,
}

/// What is to become of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It goes by this side.
    Add(IpAddr, Side),
    /// It went by this side, and is nothing special any more.
    Remove(IpAddr, Side),
}

/// What came of an address in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    /// It is new. Another one had to go for it, perhaps.
    New(Vec<Change>),
    /// It was known, and stays for longer.
    Known,
    /// It goes by the other side, because of another name.
    Contested,
    /// Nothing is wanted for its name.
    Unwanted,
}

/// The addresses that are known.
#[derive(Debug, Default)]
pub(super) struct Book {
    wanted: Wanted,
    entries: HashMap<IpAddr, Entry>,
    /// Addresses that went because there were too many.
    pub(super) evicted: u64,
}

impl Book {
    pub(super) fn new(wanted: Wanted) -> Book {
        Book { wanted, ..Book::default() }
    }

    pub(super) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Whether an address goes by a side already.
    pub(super) fn has(&self, address: IpAddr, side: Side) -> bool {
        self.entries.get(&address).is_some_and(|entry| entry.side == side)
    }

    /// A name has an address for so many seconds, as somebody was just told.
    pub(super) fn note(&mut self, now: Time, name: &str, address: IpAddr, ttl: u32) -> Noted {
        let Some((_, section)) = self.wanted.section(name) else { return Noted::Unwanted };
        let (side, until) = (section.side, now + section.keep.max(Span::from_secs(ttl.min(BELIEVED).into())));
        if let Some(entry) = self.entries.get_mut(&address) {
            if entry.side != side {
                return Noted::Contested;
            }
            (entry.until, entry.heard) = (entry.until.max(until), now);
            if entry.name != name {
                name.clone_into(&mut entry.name);
            }
            return Noted::Known;
        }
        let mut changes = Vec::new();
        if self.entries.len() >= MOST
            && let Some(oldest) = self.entries.iter().min_by_key(|(_, entry)| entry.heard).map(|(ip, _)| *ip)
        {
            self.evicted += 1;
            changes.extend(self.forget(oldest));
        }
        self.entries.insert(address, Entry { side, name: name.to_owned(), until, heard: now });
        changes.push(Change::Add(address, side));
        Noted::New(changes)
    }

    /// It is known no more.
    pub(super) fn forget(&mut self, address: IpAddr) -> Option<Change> {
        self.entries.remove(&address).map(|entry| Change::Remove(address, entry.side))
    }

    /// What is too old goes.
    pub(super) fn expire(&mut self, now: Time) -> Vec<Change> {
        self.retain(|_, entry| entry.until > now)
    }

    /// Other names are wanted, or the same by another side. (That another peer has them changes no route.)
    pub(super) fn follow(&mut self, wanted: Wanted) -> Vec<Change> {
        self.wanted = wanted;
        let wanted = self.wanted.clone();
        let side_of = |entry: &Entry| wanted.section(&entry.name).map(|(_, section)| section.side);
        let mut changes = self.retain(|_, entry| side_of(entry).is_some());
        for (address, entry) in &mut self.entries {
            let Some(side) = side_of(entry) else { continue };
            let before = std::mem::replace(&mut entry.side, side);
            if (before == Side::Past) != (side == Side::Past) {
                changes.extend([Change::Remove(*address, before), Change::Add(*address, side)]);
            }
        }
        changes
    }

    /// Those that may not be known any more go.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(IpAddr, &Entry) -> bool) -> Vec<Change> {
        let mut changes = Vec::new();
        self.entries.retain(|address, entry| {
            let stays = stays(*address, entry);
            if !stays {
                changes.push(Change::Remove(*address, entry.side));
            }
            stays
        });
        changes
    }

    /// All of them.
    pub(super) fn entries(&self) -> impl Iterator<Item = (IpAddr, &Entry)> {
        self.entries.iter().map(|(address, entry)| (*address, entry))
    }

    /// The name of the configuration that an entry belongs to.
    pub(super) fn above(&self, entry: &Entry) -> Option<&str> {
        self.wanted.section(&entry.name).map(|(above, _)| above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const THROUGH: Side = Side::Through(0);

    fn section(names: &[&str], side: Side, seconds: u64) -> Domains {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Domains { names, side, keep: Span::from_secs(seconds) }
    }

    fn at(seconds: u64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    fn ip(n: u32) -> IpAddr {
        std::net::Ipv4Addr::from(0xc000_0200 + n).into()
    }

    #[test]
    fn a_name_stands_for_all_below_it_and_the_nearest_one_above_decides() {
        let sections =
            [section(&["example.com", "de"], THROUGH, 1), section(&["past.example.com", "a.b.de"], Side::Past, 1)];
        let wanted = Wanted::of(&sections);
        for (name, side) in [
            ("example.com", Some(THROUGH)),
            ("www.example.com", Some(THROUGH)),
            ("notexample.com", None),
            ("com", None),
            ("", None),
            ("example.com.evil", None),
            ("past.example.com", Some(Side::Past)),
            ("x.y.past.example.com", Some(Side::Past)),
            ("anything.de", Some(THROUGH)),
            ("c.a.b.de", Some(Side::Past)),
            ("b.de", Some(THROUGH)),
        ] {
            assert_eq!(wanted.find(&[name.to_owned()]).map(|(_, side)| side), side, "{name}");
        }
        // Of names that lead on to others, the first for which anything is wanted.
        let names = ["cdn.example", "www.past.example.com", "example.com"].map(str::to_owned);
        assert_eq!(wanted.find(&names), Some(("www.past.example.com", Side::Past)));
    }

    #[test]
    fn an_address_stays_as_long_as_its_time_to_live_or_as_the_file_says_and_is_kept_by_each_answer() {
        let mut book = Book::new(Wanted::of(&[section(&["a.example"], THROUGH, 10)]));
        let new = |n| Noted::New(vec![Change::Add(ip(n), THROUGH)]);
        assert_eq!(book.note(at(0), "a.example", ip(1), 0), new(1));
        assert_eq!(book.note(at(0), "a.example", ip(2), 60), new(2));
        assert_eq!(book.note(at(0), "a.example", ip(3), 1_000_000_000), new(3));
        assert_eq!(book.note(at(0), "b.example", ip(4), 60), Noted::Unwanted);
        assert_eq!(book.expire(at(9)), []);
        assert_eq!(book.note(at(9), "a.example", ip(1), 0), Noted::Known);
        assert_eq!(book.expire(at(18)), []);
        assert_eq!(book.expire(at(19)), [Change::Remove(ip(1), THROUGH)]);
        assert_eq!(book.expire(at(60)), [Change::Remove(ip(2), THROUGH)]);
        // A shorter time later takes nothing from what was said before.
        assert_eq!(book.note(at(61), "a.example", ip(3), 1), Noted::Known);
        assert_eq!(book.expire(at(86_399)), []);
        assert_eq!(book.expire(at(86_400)), [Change::Remove(ip(3), THROUGH)]);
    }

    #[test]
    fn of_two_names_with_one_address_the_first_decides_until_its_time_is_over() {
        let sections = [section(&["a.example"], THROUGH, 10), section(&["b.example"], Side::Past, 10)];
        let mut book = Book::new(Wanted::of(&sections));
        book.note(at(0), "a.example", ip(1), 0);
        assert_eq!(book.note(at(1), "b.example", ip(1), 0), Noted::Contested);
        assert!(book.has(ip(1), THROUGH) && !book.has(ip(1), Side::Past));
        book.expire(at(10));
        assert_eq!(book.note(at(11), "b.example", ip(1), 0), Noted::New(vec![Change::Add(ip(1), Side::Past)]));
    }

    #[test]
    fn ten_thousand_addresses_leave_room_for_so_many_and_the_oldest_go() {
        let mut book = Book::new(Wanted::of(&[section(&["example"], THROUGH, 3600)]));
        let mut there = BTreeSet::new();
        for n in 0..10_000 {
            let Noted::New(changes) = book.note(at(n.into()), &format!("n{n}.example"), ip(n), 60) else {
                panic!("{n}")
            };
            for change in changes {
                match change {
                    Change::Add(ip, _) => assert!(there.insert(ip)),
                    Change::Remove(ip, _) => assert!(there.remove(&ip)),
                }
            }
        }
        let newest: BTreeSet<IpAddr> = (10_000 - MOST as u32..10_000).map(ip).collect();
        assert_eq!((there == newest, book.entries.len(), book.evicted), (true, MOST, 10_000 - MOST as u64));
    }

    #[test]
    fn other_names_take_addresses_away_lead_them_otherwise_and_touch_no_others() {
        let mut book = Book::new(Wanted::of(&[section(&["a.example", "b.example", "c.example"], THROUGH, 10)]));
        for (n, name) in ["a.example", "b.example", "c.example"].iter().enumerate() {
            book.note(at(0), name, ip(n as u32), 0);
        }
        let after = [section(&["a.example"], THROUGH, 10), section(&["b.example"], Side::Past, 10)];
        let changes = book.follow(Wanted::of(&after));
        let expected = [Change::Remove(ip(2), THROUGH), Change::Remove(ip(1), THROUGH), Change::Add(ip(1), Side::Past)];
        assert_eq!(changes, expected);
        assert_eq!(book.entries().count(), 2);
        // Another number for the peer.
        let after = [section(&["a.example"], Side::Through(1), 10), section(&["b.example"], Side::Past, 10)];
        assert_eq!(book.follow(Wanted::of(&after)), []);
        assert!(book.has(ip(0), Side::Through(1)));
    }
}
