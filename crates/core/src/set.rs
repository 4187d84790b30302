//! A set of links, which a bond calls its channels.
//!
//! One word of 64 bits, so that it is copied as freely as a number: bit `n` stands for link `n`. Links are numbered from
//! 0 and a bond has at most [`ChannelId::LIMIT`] of them; a higher number is in no set and leaves a set as it is.
//! Iteration goes by number, lowest first. On the wire a set is its bits.

use crate::units::ChannelId;
use core::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, Not, Sub, SubAssign};

/// A set of links: `|` unites, `&` intersects, `-` takes away, `!` is all others of the 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LinkSet(u64);

impl LinkSet {
    /// No link.
    pub const EMPTY: LinkSet = LinkSet(0);
    /// All that can be.
    pub const ALL: LinkSet = LinkSet(u64::MAX);

    /// The one link.
    #[inline]
    pub const fn only(link: ChannelId) -> LinkSet {
        LinkSet(match 1_u64.checked_shl(link.0 as u32) {
            Some(bit) => bit,
            None => 0,
        })
    }

    /// That link alone, or none.
    #[inline]
    pub fn of(link: Option<ChannelId>) -> LinkSet {
        link.map_or(LinkSet::EMPTY, LinkSet::only)
    }

    /// The links of lower numbers than `n`.
    #[inline]
    pub const fn below(n: usize) -> LinkSet {
        LinkSet(if n < ChannelId::LIMIT { (1 << n) - 1 } else { u64::MAX })
    }

    /// The set whose bit `n` stands for link `n`.
    #[inline]
    pub const fn from_bits(bits: u64) -> LinkSet {
        LinkSet(bits)
    }

    /// Bit `n` stands for link `n`.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether `link` is in it.
    #[inline]
    pub const fn contains(self, link: ChannelId) -> bool {
        self.0 & LinkSet::only(link).0 != 0
    }

    /// How many there are.
    #[inline]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// One more than the highest number in it: how many places a table of its links needs.
    #[inline]
    pub const fn end(self) -> usize {
        (u64::BITS - self.0.leading_zeros()) as usize
    }

    /// The link of the lowest number.
    #[inline]
    pub fn first(self) -> Option<ChannelId> {
        (self.0 != 0).then(|| ChannelId(self.0.trailing_zeros() as u8))
    }

    /// The `n`-th link in the order of their numbers, from 0.
    #[inline]
    pub fn nth(self, n: usize) -> Option<ChannelId> {
        let mut bits = self.0;
        for _ in 0..n.min(ChannelId::LIMIT) {
            bits &= bits.wrapping_sub(1);
        }
        LinkSet(bits).first()
    }

    /// The link of the lowest number above `link`, or else the lowest of all: who is next where they take turns.
    #[inline]
    pub fn after(self, link: ChannelId) -> Option<ChannelId> {
        (self - LinkSet::below(link.index() + 1)).first().or_else(|| self.first())
    }

    /// Its links, lowest number first.
    #[inline]
    pub const fn iter(self) -> Iter {
        Iter(self.0)
    }

    /// Puts `link` in.
    #[inline]
    pub const fn insert(&mut self, link: ChannelId) {
        *self = self.with(link);
    }

    /// Takes `link` out.
    #[inline]
    pub const fn remove(&mut self, link: ChannelId) {
        *self = self.without(link);
    }

    /// With `link` in it.
    #[inline]
    #[must_use]
    pub const fn with(self, link: ChannelId) -> LinkSet {
        LinkSet(self.0 | LinkSet::only(link).0)
    }

    /// With `link` not in it.
    #[inline]
    #[must_use]
    pub const fn without(self, link: ChannelId) -> LinkSet {
        LinkSet(self.0 & !LinkSet::only(link).0)
    }
}

/// The links of a set, lowest number first.
#[derive(Clone, Debug)]
pub struct Iter(u64);

impl Iterator for Iter {
    type Item = ChannelId;

    #[inline]
    fn next(&mut self) -> Option<ChannelId> {
        let n = self.0.trailing_zeros();
        self.0 &= self.0.checked_sub(1)?;
        Some(ChannelId(n as u8))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.0.count_ones() as usize;
        (n, Some(n))
    }
}

impl ExactSizeIterator for Iter {}

impl IntoIterator for LinkSet {
    type Item = ChannelId;
    type IntoIter = Iter;

    #[inline]
    fn into_iter(self) -> Iter {
        self.iter()
    }
}

impl FromIterator<ChannelId> for LinkSet {
    #[inline]
    fn from_iter<I: IntoIterator<Item = ChannelId>>(links: I) -> LinkSet {
        links.into_iter().fold(LinkSet::EMPTY, LinkSet::with)
    }
}

impl BitOr for LinkSet {
    type Output = LinkSet;
    #[inline]
    fn bitor(self, other: LinkSet) -> LinkSet {
        LinkSet(self.0 | other.0)
    }
}

impl BitAnd for LinkSet {
    type Output = LinkSet;
    #[inline]
    fn bitand(self, other: LinkSet) -> LinkSet {
        LinkSet(self.0 & other.0)
    }
}

impl Sub for LinkSet {
    type Output = LinkSet;
    #[inline]
    fn sub(self, other: LinkSet) -> LinkSet {
        LinkSet(self.0 & !other.0)
    }
}

impl Not for LinkSet {
    type Output = LinkSet;
    #[inline]
    fn not(self) -> LinkSet {
        LinkSet(!self.0)
    }
}

impl BitOrAssign for LinkSet {
    #[inline]
    fn bitor_assign(&mut self, other: LinkSet) {
        *self = *self | other;
    }
}

impl BitAndAssign for LinkSet {
    #[inline]
    fn bitand_assign(&mut self, other: LinkSet) {
        *self = *self & other;
    }
}

impl SubAssign for LinkSet {
    #[inline]
    fn sub_assign(&mut self, other: LinkSet) {
        *self = *self - other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    #[test]
    fn link_63_is_a_link_like_others_and_64_is_none() {
        let set = LinkSet::EMPTY.with(ChannelId(63)).with(ChannelId(0)).with(ChannelId(64)).with(ChannelId(255));
        assert_eq!(set.iter().collect::<Vec<_>>(), [ChannelId(0), ChannelId(63)]);
        assert!(!LinkSet::ALL.contains(ChannelId(64)));
        assert_eq!(set.without(ChannelId(64)), set);
        assert_eq!((LinkSet::below(63), LinkSet::below(65)), (!LinkSet::only(ChannelId(63)), LinkSet::ALL));
    }

    #[test]
    fn the_next_link_is_found_in_cyclic_order() {
        let set: LinkSet = [0, 5, 63].map(ChannelId).into_iter().collect();
        let after = |n| set.after(ChannelId(n)).unwrap().0;
        assert_eq!([after(0), after(4), after(5), after(63), after(255)], [5, 5, 63, 0, 0]);
        assert_eq!(LinkSet::only(ChannelId(63)).after(ChannelId(63)), Some(ChannelId(63)));
        assert_eq!(LinkSet::EMPTY.after(ChannelId(3)), None);
    }

    proptest! {
        #[test]
        fn it_is_a_set(a in any::<u64>(), b in any::<u64>(), link in 0_u8..70, n in 0_usize..70) {
            let model = |bits: u64| (0..64).filter(|n| bits >> n & 1 == 1).map(ChannelId).collect::<BTreeSet<_>>();
            let list = |set: LinkSet| set.iter().collect::<Vec<_>>();
            let (one, two) = (LinkSet::from_bits(a), LinkSet::from_bits(b));
            let (first, second) = (model(a), model(b));
            prop_assert_eq!(list(one), first.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(list(one | two), first.union(&second).copied().collect::<Vec<_>>());
            prop_assert_eq!(list(one & two), first.intersection(&second).copied().collect::<Vec<_>>());
            prop_assert_eq!(list(one - two), first.difference(&second).copied().collect::<Vec<_>>());
            prop_assert_eq!(!one, LinkSet::ALL - one);
            prop_assert_eq!(one.len(), first.len());
            prop_assert_eq!(one.iter().len(), first.len());
            prop_assert_eq!(one.end(), first.last().map_or(0, |last| last.index() + 1));
            prop_assert_eq!(one.nth(n), first.iter().nth(n).copied());
            prop_assert_eq!(one.contains(ChannelId(link)), first.contains(&ChannelId(link)));
            let mut other = one;
            other.remove(ChannelId(link));
            prop_assert_eq!(other, one - LinkSet::only(ChannelId(link)));
            other.insert(ChannelId(link));
            prop_assert_eq!(other, one | LinkSet::of(Some(ChannelId(link))));
        }
    }
}
