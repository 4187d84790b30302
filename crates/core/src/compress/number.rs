//! Numbers of references: a place, and how often it was used.

/// How many references there may be at a time.
pub const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 10;
/// How often a place is used before its number comes again.
pub(super) const TURNS: u16 = 1 << (16 - PLACE_BITS);

/// The place of the reference of this number.
#[inline]
pub(super) const fn place_of(number: u16) -> usize {
    number as usize & (PLACES - 1)
}

/// Which use of its place a reference of this number is.
#[inline]
pub(super) const fn turn_of(number: u16) -> u16 {
    number >> PLACE_BITS
}

/// The number of the reference that is the `turn`th at `place`.
#[inline]
pub(super) const fn number_of(place: u16, turn: u16) -> u16 {
    turn << PLACE_BITS | place
}
