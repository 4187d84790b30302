//! Moments of a discipline's clock and spans between them, to a small part of a tag.
//!
//! A tag is what heads are compared by: the 256th part of a byte of a flow with weight one, or a nanosecond. A cost that was cut
//! to whole tags would be short by up to one for each packet, which a flow of many small packets and a large weight gains for ever.
//! With [`PLACES`] it is short by less than 2^-32 of a tag, so by one after 2^32 packets without a pause.

use super::heap::Key;

/// Binary places in a tag.
pub(super) const PLACES: u32 = 32;

/// A moment or a span: below 2^64 tags, with 32 binary places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u128);

impl Stamp {
    const MOST: Stamp = Stamp((1 << (64 + PLACES)) - 1);

    /// So many tags.
    #[inline]
    pub(super) const fn of(tags: u64) -> Stamp {
        Stamp((tags as u128) << PLACES)
    }

    /// So many 2^-32ths of a tag, or the most that there may be.
    #[inline]
    pub(super) fn of_parts(parts: u128) -> Stamp {
        Stamp(parts).min(Stamp::MOST)
    }

    /// So many tags over a weight, at least 1.
    #[inline]
    pub(super) fn over(tags: u64, weight: u32) -> Stamp {
        // Most have this one, and a division takes as long as all the rest.
        if weight == 1 {
            return Stamp::of(tags);
        }
        let weight = u64::from(weight);
        // Two short divisions take less time than a long one.
        let (whole, rest) = (tags / weight, tags % weight);
        Stamp::of_key((whole, ((rest << PLACES) / weight) as u32))
    }

    /// Tags and 2^-32ths of one.
    #[inline]
    pub(super) const fn key(self) -> Key {
        (self.tags(), self.0 as u32)
    }

    /// See [`key`](Stamp::key).
    #[inline]
    pub(super) const fn of_key((tags, parts): Key) -> Stamp {
        Stamp((tags as u128) << PLACES | parts as u128)
    }

    /// Whole tags.
    #[inline]
    pub(super) const fn tags(self) -> u64 {
        (self.0 >> PLACES) as u64
    }

    /// In 2^-32ths of a tag.
    #[inline]
    pub(super) const fn parts(self) -> u128 {
        self.0
    }

    /// The tag that it lies in, from its beginning.
    #[inline]
    pub(super) const fn floor(self) -> Stamp {
        Stamp::of(self.tags())
    }

    /// Later by `span`, at most the last moment.
    #[inline]
    pub(super) fn saturating_add(self, span: Stamp) -> Stamp {
        Stamp::of_parts(self.0 + span.0)
    }

    /// Earlier by `span`, at least the first moment.
    #[inline]
    pub(super) const fn saturating_sub(self, span: Stamp) -> Stamp {
        Stamp(self.0.saturating_sub(span.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stamp_stays_between_the_first_and_the_last_moment() {
        let last = Stamp::of_key((u64::MAX, u32::MAX));
        assert_eq!(Stamp::of_parts(u128::MAX), last);
        assert_eq!(Stamp::of(u64::MAX).saturating_add(Stamp::of(1)), last);
        assert_eq!(Stamp::of(1).saturating_sub(Stamp::of(2)), Stamp::of(0));
        assert_eq!(last.floor(), Stamp::of(u64::MAX));
    }

    proptest! {
        #[test]
        fn a_quotient_is_short_by_less_than_a_part(tags in 0u64..1 << 40, weight in 1u32..=1024) {
            let (cost, exact) = (Stamp::over(tags, weight), u128::from(tags) << PLACES);
            prop_assert!((0..u128::from(weight)).contains(&(exact - cost.parts() * u128::from(weight))));
            prop_assert_eq!(Stamp::of_key(cost.key()), cost);
        }
    }
}
