//! TCP acknowledgements without data, and which of two makes the other one unnecessary.
//!
//! What it is: an acknowledgement is cumulative (RFC 9293, section 3.4). One that has not left yet tells nothing that a later one of its
//! connection does not tell as well, unless it carries what the later one leaves out. It is kept then:
//!
//! | it carries | it is unnecessary if the later one |
//! |---|---|
//! | its number | has a higher one, or the same and another window, or the same and blocks of SACK; the same number alone counts as a duplicate (RFC 5681) |
//! | ECE, CWR, the bits of accurate ECN, DSCP and ECN of its IP header | has the same |
//! | a timestamp (RFC 7323) | has one that is not older |
//! | blocks of SACK (RFC 2018) | acknowledges or names all of them; what RFC 2883 calls D-SACK is told once and is kept |
//! | any other option | never |
//!
//! Source: ours; the idea is RFC 3449's (section 5.2.1, "ACK filtering"), and `sch_cake` has the setting `ack-filter`. Cost: O(1). Invariant: what is no
//! acknowledgement alone, is a fragment, or is malformed makes nothing unnecessary, and nothing makes it so.

use super::{Header, Piece, TCP, Version};

/// TCP's flag of an acknowledgement; the others but ECE and CWR are none of it.
const ACK: u8 = 0x10;
const OTHERS: u8 = 0x2f;
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_SACK: u8 = 5;
const OPTION_TIMESTAMP: u8 = 8;

/// Whether a packet is a TCP acknowledgement and nothing else.
#[inline]
pub fn is_alone(header: &Header, bytes: &[u8]) -> bool {
    if header.protocol != TCP || header.piece != Piece::Whole {
        return false;
    }
    let Some([offset, flags]) = bytes.get(header.payload + 12..header.payload + 14) else { return false };
    flags & (ACK | OTHERS) == ACK && header.payload + usize::from(offset >> 4) * 4 == header.total
}

/// Whether `older` need not be sent any more, because `later`, which has this header, goes in its place.
pub fn supersedes(header: &Header, later: &[u8], older: &[u8]) -> bool {
    let Ok(before) = Header::parse(older, older.len()) else { return false };
    if (before.version, before.tos, before.payload) != (header.version, header.tos, header.payload)
        || addresses(header, later) != addresses(&before, older)
        || !is_alone(header, later)
        || !is_alone(&before, older)
    {
        return false;
    }
    match (Ack::read(header, later), Ack::read(&before, older)) {
        (Some(later), Some(older)) => later.covers(&older),
        _ => false,
    }
}

/// Both addresses.
fn addresses<'a>(header: &Header, bytes: &'a [u8]) -> Option<&'a [u8]> {
    match header.version {
        Version::V4 => bytes.get(12..20),
        Version::V6 => bytes.get(8..40),
    }
}

/// What an acknowledgement tells.
#[derive(Debug)]
struct Ack {
    ports: [u8; 4],
    number: u32,
    window: u16,
    /// Flags, and the bits before them that accurate ECN uses.
    flags: [u8; 2],
    timestamp: Option<u32>,
    blocks: [(u32, u32); 4],
    count: usize,
}

impl Ack {
    /// Reads one; `None` where it has an option that is not understood, or is malformed.
    fn read(header: &Header, bytes: &[u8]) -> Option<Ack> {
        let tcp = bytes.get(header.payload..header.total)?;
        let (fixed, mut rest) = tcp.split_at_checked(20)?;
        let word = |at: usize| Some(u32::from_be_bytes(*fixed.get(at..)?.first_chunk()?));
        let mut ack = Ack {
            ports: *fixed.first_chunk()?,
            number: word(8)?,
            window: u16::from_be_bytes([fixed[14], fixed[15]]),
            flags: [fixed[12] & 15, fixed[13]],
            timestamp: None,
            blocks: [(0, 0); 4],
            count: 0,
        };
        while let Some((&kind, behind)) = rest.split_first() {
            rest = match kind {
                OPTION_END => break,
                OPTION_NOP => behind,
                _ => {
                    let length = usize::from(*behind.first()?);
                    let (option, behind) = rest.split_at_checked(length)?;
                    ack.option(kind, option.get(2..)?)?;
                    behind
                }
            };
        }
        Some(ack)
    }

    /// Notes an option with these contents; `None` where it is not understood.
    fn option(&mut self, kind: u8, contents: &[u8]) -> Option<()> {
        let word = |at: &[u8]| Some(u32::from_be_bytes(*at.first_chunk()?));
        match kind {
            OPTION_TIMESTAMP if contents.len() == 8 => self.timestamp = Some(word(contents)?),
            OPTION_SACK if contents.len().is_multiple_of(8) => {
                for block in contents.chunks_exact(8) {
                    *self.blocks.get_mut(self.count)? = (word(block)?, word(&block[4..])?);
                    self.count += 1;
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn blocks(&self) -> &[(u32, u32)] {
        &self.blocks[..self.count]
    }

    /// Whether its first block tells of something that came twice (RFC 2883, section 4).
    fn tells_twice(&self) -> bool {
        let [first, rest @ ..] = self.blocks() else { return false };
        !follows(first.1, self.number) || rest.first().is_some_and(|next| within(*first, *next))
    }

    /// Whether it tells all that `older` does.
    fn covers(&self, older: &Ack) -> bool {
        let same = self.number == older.number;
        self.ports == older.ports
            && self.flags == older.flags
            && (same || follows(self.number, older.number))
            // The same once more is a duplicate, which its sender may count.
            && (!same || self.count > 0 || self.window != older.window)
            && match (self.timestamp, older.timestamp) {
                (Some(later), Some(older)) => !follows(older, later),
                (None, None) => true,
                _ => false,
            }
            && !older.tells_twice()
            && older.blocks().iter().all(|block| {
                !follows(block.1, self.number) || self.blocks().iter().any(|other| within(*block, *other))
            })
    }
}

/// Whether `a` comes after `b` (RFC 1982).
fn follows(a: u32, b: u32) -> bool {
    a != b && a.wrapping_sub(b) < 1 << 31
}

/// Whether the block `a` lies within `b`.
fn within(a: (u32, u32), b: (u32, u32)) -> bool {
    !follows(b.0, a.0) && !follows(a.1, b.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing::{self, ack};
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn takes(later: &[u8], older: &[u8]) -> bool {
        supersedes(&Header::parse(later, later.len()).unwrap(), later, older)
    }

    /// A timestamp, and blocks of SACK.
    fn options(stamp: u32, blocks: &[(u32, u32)]) -> Vec<u8> {
        let mut options = vec![OPTION_NOP, OPTION_NOP, OPTION_TIMESTAMP, 10];
        options.extend_from_slice(&stamp.to_be_bytes());
        options.extend_from_slice(&[0; 4]);
        if !blocks.is_empty() {
            options.extend_from_slice(&[OPTION_NOP, OPTION_NOP, OPTION_SACK, 2 + 8 * blocks.len() as u8]);
        }
        for (from, to) in blocks {
            options.extend_from_slice(&from.to_be_bytes());
            options.extend_from_slice(&to.to_be_bytes());
        }
        options
    }

    /// One at byte `at` of its TCP header is this.
    fn with(mut packet: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
        packet[20 + at] = byte;
        packet
    }

    #[test]
    fn an_acknowledgement_is_a_segment_with_nothing_but_one() {
        let is = |bytes: &[u8]| is_alone(&Header::parse(bytes, bytes.len()).unwrap(), bytes);
        assert!(is(&ack(false, 1, &[])) && is(&ack(true, 1, &options(1, &[(5, 9)]))));
        assert!(is(&with(ack(false, 1, &[]), 13, ACK | 0xc0)), "with ECN's flags");
        for flags in [0x02, 0x12, 0x11, 0x14, 0x18, 0x30, 0] {
            assert!(!is(&with(ack(false, 1, &[]), 13, flags)), "{flags:#x}");
        }
        let mut data = ack(false, 1, &[]);
        data.push(0);
        data[3] += 1;
        let mut fragment = ack(false, 1, &[]);
        fragment[6] = 0x20;
        assert!(!is(&data) && !is(&fragment) && !is(&testing::udp4(1, 2, 3, 4, &[0; 14])));
    }

    #[test]
    fn a_higher_number_takes_the_place_of_a_lower_one_and_never_the_other_way() {
        for six in [false, true] {
            assert!(takes(&ack(six, 3000, &[]), &ack(six, 1000, &[])));
            assert!(takes(&ack(six, 1000, &[]), &ack(six, u32::MAX - 1000, &[])), "across zero");
            assert!(!takes(&ack(six, 1000, &[]), &ack(six, 3000, &[])));
        }
        assert!(!takes(&ack(true, 3000, &[]), &ack(false, 1000, &[])));
        let (later, older) = (ack(false, 3000, &[]), ack(false, 1000, &[]));
        let mut elsewhere = later.clone();
        elsewhere[19] = 3;
        assert!(!takes(&elsewhere, &older), "another host");
        assert!(!takes(&with(later.clone(), 1, 81), &older), "another connection");
        let mut marked = later.clone();
        marked[1] = 3;
        assert!(!takes(&marked, &older), "other marks in the IP header");
        for (at, byte) in [(13, ACK | 0x40), (13, ACK | 0x80), (12, 0x51), (13, ACK | 8)] {
            assert!(!takes(&later, &with(older.clone(), at, byte)), "flags {byte:#x}");
            assert!(!takes(&with(later.clone(), at, byte), &older), "flags {byte:#x}");
        }
    }

    #[test]
    fn duplicates_are_kept_and_a_change_of_the_window_is_none() {
        let one = ack(false, 1000, &[]);
        assert!(!takes(&one, &one), "three of them mean a loss to their sender");
        assert!(takes(&with(one.clone(), 14, 9), &one), "a window that opened");
    }

    #[test]
    fn what_timestamps_and_blocks_tell_is_not_lost() {
        let of = |number, stamp, blocks: &[(u32, u32)]| ack(false, number, &options(stamp, blocks));
        assert!(takes(&of(3, 8, &[]), &of(2, 7, &[])) && takes(&of(3, 7, &[]), &of(2, 7, &[])));
        assert!(!takes(&of(3, 6, &[]), &of(2, 7, &[])), "an older timestamp");
        assert!(!takes(&ack(false, 3, &[]), &of(2, 7, &[])), "none");
        let older = of(10, 7, &[(50, 60), (20, 30)]);
        assert!(takes(&of(10, 8, &[(50, 70), (20, 30)]), &older), "a block has grown");
        assert!(takes(&of(30, 8, &[(50, 60)]), &older), "one is acknowledged");
        assert!(takes(&of(60, 8, &[]), &older), "all are");
        assert!(!takes(&of(10, 8, &[(80, 90), (50, 60)]), &older), "one is no longer named");
        assert!(!takes(&of(25, 8, &[(50, 60)]), &older), "one is acknowledged in part");
        assert!(!takes(&of(10, 8, &[]), &older), "the same number without what it said");
        assert!(takes(&of(10, 8, &[(50, 60)]), &of(10, 7, &[])), "what a block tells first");
        // RFC 2883: below the number, and within the second block.
        assert!(!takes(&of(70, 8, &[]), &of(10, 7, &[(5, 9), (20, 30)])));
        assert!(!takes(&of(70, 8, &[]), &of(10, 7, &[(22, 25), (20, 30)])));
    }

    #[test]
    fn an_option_that_is_not_understood_or_malformed_keeps_its_packet() {
        // Multipath TCP (RFC 8684), accurate ECN, an option longer than its header, one of no length, too many blocks.
        let many: Vec<u8> = [OPTION_SACK, 42].into_iter().chain([0; 38]).collect();
        let odd: [&[u8]; 6] =
            [&[30, 4, 0x20, 0], &[172, 3, 0], &[OPTION_SACK, 9, 1, 2], &[OPTION_SACK, 0], &[OPTION_TIMESTAMP], &many];
        for options in odd {
            assert!(!takes(&ack(false, 9, options), &ack(false, 1, &[])), "{options:?}");
            assert!(!takes(&ack(false, 9, &[]), &ack(false, 1, options)), "{options:?}");
        }
        assert!(takes(&ack(false, 9, &[OPTION_END, 9, 9, 9]), &ack(false, 1, &[])));
    }

    proptest! {
        /// Whoever hears the later one alone knows what whoever hears both knows.
        #[test]
        fn nothing_is_lost(
            numbers in (0u32..40, 0u32..40),
            stamps in (0u32..3, 0u32..3),
            blocks in (proptest::collection::vec((0u32..40, 1u32..20), 0..4), proptest::collection::vec((0u32..40, 1u32..20), 0..4)),
        ) {
            let of = |number: u32, stamp, blocks: &[(u32, u32)]| {
                let blocks: Vec<(u32, u32)> = blocks.iter().map(|(from, length)| (number + from, number + from + length)).collect();
                let known = |at: u32| at < number || blocks.iter().any(|(from, to)| (*from..*to).contains(&at));
                ((0..120).filter(|at| known(*at)).collect::<Vec<u32>>(), ack(false, number, &options(stamp, &blocks)))
            };
            let (older, first) = of(numbers.0, stamps.0, &blocks.0);
            let (later, second) = of(numbers.1, stamps.1, &blocks.1);
            if takes(&second, &first) {
                prop_assert!(older.iter().all(|at| later.contains(at)), "{older:?} {later:?}");
                prop_assert!(numbers.1 >= numbers.0 && stamps.1 >= stamps.0);
            }
        }

        #[test]
        fn no_bytes_do_harm(later in proptest::collection::vec(any::<u8>(), 0..120), older in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Ok(header) = Header::parse(&later, later.len()) {
                supersedes(&header, &later, &older);
            }
        }
    }
}
