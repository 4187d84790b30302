//! Parity ahead of need: a block of packets and a few rows more, of which any as many as there are packets give all packets.
//!
//! Source: a systematic Reed-Solomon code from a Cauchy matrix over GF(256) (Blömer et al. 1995, "An XOR-based erasure-resilient
//! coding scheme"; RFC 5510 has the field, RFC 5109 and RFC 8627 the lengths under the code). Packets go as they are. Row i of a
//! block is the sum over its packets j of factor(i, j) times the packet, with its length in two octets before it and zeros behind it up
//! to the longest, so that packets of unlike lengths have rows and come back with theirs.
//!
//! | symbol | here |
//! |---|---|
//! | k, packets in a block | `count`, at most [`MOST_PACKETS`] |
//! | m, rows | at most [`MOST_ROWS`] |
//! | x(i), y(j) of Cauchy's 1 / (x(i) + y(j)) | i, [`MOST_ROWS`] + j |
//! | factor(i, j) | (x(0) + y(j)) / (x(i) + y(j)) |
//!
//! The numerator scales columns, which leaves every square part of the matrix regular, and makes row 0 the XOR of the packets: one row
//! costs no multiplication. A factor does not depend on k or m. So a block may end early, and rows are summed while packets go.
//!
//! Why no crate: the maintainer of reed-solomon-erasure has left, and it fixes k and m beforehand; reed-solomon-simd builds tables of 8 MiB
//! for blocks of thousands, and wants a whole block of packets of one length at once.
//!
//! Cost: m multiplications and additions an octet to encode; x squared for x missing packets of a block, and nothing for blocks that came
//! whole. Memory is the caller's bound times the rows. Invariant: what [`mend`] gives is what was encoded, if rows and packets are.

pub mod demand;
mod field;

use alloc::vec::Vec;
use thiserror::Error;

/// Most packets in a block.
pub const MOST_PACKETS: usize = 64;
/// Most rows of a block.
pub const MOST_ROWS: usize = 16;
/// Octets of a packet's length, under the code.
pub const LENGTH: usize = 2;

/// What packet `packet` is multiplied with in row `row`.
#[inline]
fn factor(row: usize, packet: usize) -> u8 {
    let y = (MOST_ROWS + packet) as u8;
    field::quotient(y, row as u8 ^ y)
}

/// Adds a packet, with its length before it, to a row; the row is as long as that at least.
fn add(row: &mut [u8], octets: &[u8], factor: u8) {
    let (length, rest) = row.split_at_mut(LENGTH);
    field::add_product(length, &(octets.len() as u16).to_be_bytes(), factor);
    field::add_product(rest, octets, factor);
}

/// The rows of the block that is being sent.
#[derive(Debug, Default)]
pub struct Encoder {
    rows: Vec<Vec<u8>>,
    wanted: usize,
    count: usize,
}

impl Encoder {
    /// A new block begins, of so many rows, at most [`MOST_ROWS`].
    pub fn begin(&mut self, rows: usize) {
        self.wanted = rows.min(MOST_ROWS);
        self.count = 0;
        if self.rows.len() < self.wanted {
            self.rows.resize_with(self.wanted, Vec::new);
        }
        self.rows.iter_mut().for_each(Vec::clear);
    }

    /// The block's next packet. Those beyond [`MOST_PACKETS`], and what two octets cannot tell the length of, are not covered: false.
    pub fn add(&mut self, octets: &[u8]) -> bool {
        if self.count == MOST_PACKETS || octets.len() > usize::from(u16::MAX) {
            return false;
        }
        for (number, row) in self.rows.iter_mut().take(self.wanted).enumerate() {
            row.resize(row.len().max(LENGTH + octets.len()), 0);
            add(row, octets, factor(number, self.count));
        }
        self.count += 1;
        true
    }

    /// A row of the packets so far.
    pub fn row(&self, number: usize) -> Option<&[u8]> {
        self.rows.get(..self.wanted)?.get(number).map(Vec::as_slice)
    }
}

/// A row that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Which of its block's.
    pub number: u8,
    /// What it is.
    pub octets: Vec<u8>,
}

/// Why a block cannot be mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unmendable {
    /// More packets are missing than there are rows.
    #[error("{missing} packets of a block are missing and {rows} rows are there")]
    TooFew {
        /// Packets that are missing.
        missing: usize,
        /// Rows that are there.
        rows: usize,
    },
    /// Rows and packets are not of one block.
    #[error("the rows are not those of the packets")]
    Unlike,
}

/// Rebuilds what is missing of a block of `count` packets: gives the place and the octets of each.
///
/// # Errors
/// [`Unmendable`]. Only [`Unmendable::TooFew`] leaves the rows as they were.
pub fn mend<'a, 'r>(
    count: usize,
    packet: impl Fn(usize) -> Option<&'a [u8]>,
    rows: &'r mut [Row],
) -> Result<Vec<(usize, &'r [u8])>, Unmendable> {
    let missing: Vec<usize> = (0..count).filter(|place| packet(*place).is_none()).collect();
    if missing.len() > rows.len() {
        return Err(Unmendable::TooFew { missing: missing.len(), rows: rows.len() });
    }
    let valid = |row: &Row| usize::from(row.number) < MOST_ROWS;
    if count > MOST_PACKETS || !rows.iter().all(valid) {
        return Err(Unmendable::Unlike);
    }
    let rows = &mut rows[..missing.len()];
    let longest = rows.iter().map(|row| row.octets.len()).max().unwrap_or(0);
    for row in rows.iter_mut() {
        row.octets.resize(longest, 0);
        for (place, octets) in (0..count).filter_map(|place| Some((place, packet(place)?))) {
            if LENGTH + octets.len() > longest {
                return Err(Unmendable::Unlike);
            }
            add(&mut row.octets, octets, factor(row.number.into(), place));
        }
    }
    solve(rows, &missing)?;
    let whole = |row: &'r Row| {
        let (length, rest) = row.octets.split_first_chunk::<LENGTH>()?;
        let (octets, zeros) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        zeros.iter().all(|zero| *zero == 0).then_some(octets)
    };
    let rows: &'r [Row] = rows;
    missing
        .into_iter()
        .zip(rows)
        .map(|(place, row)| Some((place, whole(row)?)))
        .collect::<Option<_>>()
        .ok_or(Unmendable::Unlike)
}

/// Gauss and Jordan: row r becomes the packet `missing[r]`. Every square part of a Cauchy matrix is regular, so the first place is
/// zero only if a row is there twice.
fn solve(rows: &mut [Row], missing: &[usize]) -> Result<(), Unmendable> {
    let mut matrix: Vec<Vec<u8>> =
        rows.iter().map(|row| missing.iter().map(|place| factor(row.number.into(), *place)).collect()).collect();
    for column in 0..missing.len() {
        let scale = field::quotient(1, matrix[column][column]);
        if scale == 0 {
            return Err(Unmendable::Unlike);
        }
        field::scale(&mut matrix[column], scale);
        field::scale(&mut rows[column].octets, scale);
        for other in (0..missing.len()).filter(|other| *other != column) {
            let share = matrix[other][column];
            if let Ok([from, to]) = matrix.get_disjoint_mut([column, other]) {
                field::add_product(to, from, share);
            }
            if let Ok([from, to]) = rows.get_disjoint_mut([column, other]) {
                field::add_product(&mut to.octets, &from.octets, share);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::vec;
    use proptest::prelude::*;

    fn encode(packets: &[Vec<u8>], rows: usize) -> Vec<Row> {
        let mut encoder = Encoder::default();
        encoder.begin(rows);
        assert!(packets.iter().all(|packet| encoder.add(packet)));
        let row = |number| Row { number: number as u8, octets: encoder.row(number).expect("a row").to_vec() };
        (0..rows).map(row).collect()
    }

    #[test]
    fn the_first_row_is_the_exclusive_or_of_lengths_and_packets() {
        let rows = encode(&[vec![1, 2, 3], vec![], vec![0x81, 2]], 2);
        assert_eq!(rows[0].octets, [0, 3 ^ 2, 0x80, 0, 3]);
        assert_eq!(encode(&[vec![7; 5]], 1)[0].octets, [0, 5, 7, 7, 7, 7, 7], "one packet's row is the packet");
    }

    /// They went over the wire: another way of reckoning must give them as well.
    #[test]
    fn the_vectors_stay() {
        let rows = encode(&[vec![1, 0, 0xff], vec![2]], 3);
        let octets: Vec<&[u8]> = rows.iter().map(|row| row.octets.as_slice()).collect();
        assert_eq!(octets, [[0, 2, 3, 0, 0xff], [0, 0x4c, 0xdc, 0, 0xf0], [0, 8, 0xe3, 0, 0x59]]);
    }

    #[test]
    fn what_is_no_block_is_told() {
        let packets = [vec![1, 2, 3], vec![4, 5], vec![6]];
        let rows = encode(&packets, 2);
        let known = |place: usize| (place == 2).then_some(packets[2].as_slice());
        let mut twice = vec![rows[1].clone(), rows[1].clone()];
        assert_eq!(mend(3, known, &mut twice), Err(Unmendable::Unlike), "a row twice");
        let mut short = vec![Row { number: 0, octets: vec![0] }, rows[1].clone()];
        assert_eq!(mend(3, known, &mut short), Err(Unmendable::Unlike), "a row that ends in its length");
        let mut beyond = vec![Row { number: 16, ..rows[0].clone() }, rows[1].clone()];
        assert_eq!(mend(3, known, &mut beyond), Err(Unmendable::Unlike), "row 16");
        assert_eq!(mend(65, known, &mut vec![rows[0].clone(); 64]), Err(Unmendable::Unlike), "65 packets");
        let long = [9; 9];
        let other = |place: usize| (place > 0).then_some(long.as_slice());
        assert_eq!(mend(3, other, &mut rows.clone()), Err(Unmendable::Unlike), "a packet longer than its row");
        let mut empty = [Row { number: 0, octets: vec![] }];
        assert_eq!(mend(1, |_| None, &mut empty), Err(Unmendable::Unlike), "a row of nothing");
    }

    proptest! {
        #[test]
        fn any_losses_up_to_the_number_of_rows_are_rebuilt_and_one_more_is_not(
            lengths in proptest::collection::vec(0_usize..80, 1..=MOST_PACKETS), rows in 1..=MOST_ROWS, seed in any::<u64>(),
        ) {
            let mut rng = Rng::new(seed);
            let packets: Vec<Vec<u8>> =
                lengths.iter().map(|length| (0..*length).map(|_| rng.below(256) as u8).collect()).collect();
            let all = encode(&packets, rows);
            // As many as there are rows, or one more, are lost of packets and rows together.
            let lost = rows + rng.below(2) as usize;
            let mut order: Vec<usize> = (0..packets.len() + rows).collect();
            (1..order.len()).rev().for_each(|last| order.swap(last, rng.below(last as u64 + 1) as usize));
            let gone = &order[..lost.min(order.len())];
            let mut left: Vec<Row> =
                all.into_iter().filter(|row| !gone.contains(&(packets.len() + usize::from(row.number)))).collect();
            let count = left.len();
            let known = |place: usize| (!gone.contains(&place)).then(|| packets[place].as_slice());
            let missing = (0..packets.len()).filter(|place| gone.contains(place)).count();
            match mend(packets.len(), known, &mut left) {
                Ok(rebuilt) => {
                    prop_assert!(missing <= count);
                    prop_assert_eq!(rebuilt.len(), missing);
                    for (place, octets) in rebuilt {
                        prop_assert!(gone.contains(&place));
                        prop_assert_eq!(octets, packets[place].as_slice());
                    }
                }
                Err(error) => {
                    prop_assert_eq!(error, Unmendable::TooFew { missing, rows: count });
                    prop_assert!(missing > count && lost > rows);
                }
            }
        }

        #[test]
        fn nothing_makes_it_fail(
            count in 0_usize..70, known in any::<u64>(), octets in proptest::collection::vec(any::<u8>(), 0..40),
            rows in proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..20),
        ) {
            let mut rows: Vec<Row> = rows.into_iter().map(|(number, octets)| Row { number: number % 20, octets }).collect();
            let packet = |place: usize| (known >> (place % 64) & 1 == 1).then_some(octets.as_slice());
            if let Ok(rebuilt) = mend(count, packet, &mut rows) {
                prop_assert!(rebuilt.iter().all(|(place, _)| packet(*place).is_none()));
            }
        }
    }
}
