//! Datagrams in a stream of bytes: two bytes of length, big-endian, then the datagram, as RFC 4571 and RFC 8229 have it.
//!
//! The length is not authenticated, as in a sealed frame on Ethernet; what is cut wrong does not open. A length below
//! [`FRAME_MIN`] or above [`FRAME_MAX`] tells that this is no such stream.
//!
//! Cost: what arrived whole is not copied. Of a datagram that arrived in part at most [`FRAME_MAX`] bytes are kept.

use crate::secure::OVERHEAD;
use thiserror::Error;

/// Bytes of the length before a datagram.
pub(crate) const LENGTH: usize = 2;
/// The shortest datagram: data of no bytes. All of a handshake is longer.
pub(crate) const FRAME_MIN: usize = OVERHEAD;
/// The longest datagram: a packet of 9000 bytes and what is put before it have room.
pub(crate) const FRAME_MAX: usize = 10_240;

/// A length that no datagram has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a datagram of {0} bytes: {FRAME_MIN} to {FRAME_MAX} are possible")]
pub(crate) struct BadLength(usize);

/// What has arrived of a datagram that is not whole yet.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// The length and the datagram, as far as they have arrived.
    part: Vec<u8>,
    /// What `part` holds was given out.
    given: bool,
}

impl Frames {
    /// The next datagram of what arrived, which is taken out of `input`; `None` once the rest is no whole one, and kept.
    ///
    /// # Errors
    /// The stream makes no sense from here on.
    pub(crate) fn next<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Result<Option<&'a [u8]>, BadLength> {
        if std::mem::take(&mut self.given) {
            self.part.clear();
        }
        if self.part.is_empty() {
            if let Some((length, rest)) = input.split_first_chunk::<LENGTH>() {
                let length = checked(*length)?;
                if let Some((datagram, rest)) = rest.split_at_checked(length) {
                    *input = rest;
                    return Ok(Some(datagram));
                }
            }
            if input.is_empty() {
                return Ok(None);
            }
        }
        self.fill(LENGTH, input);
        let Some(length) = self.part.first_chunk::<LENGTH>() else { return Ok(None) };
        let whole = LENGTH + checked(*length)?;
        self.fill(whole, input);
        if self.part.len() < whole {
            return Ok(None);
        }
        self.given = true;
        Ok(self.part.get(LENGTH..whole))
    }

    /// Takes from `input` until there are `len` bytes, if it has so many.
    fn fill(&mut self, len: usize, input: &mut &[u8]) {
        let missing = len.saturating_sub(self.part.len()).min(input.len());
        let (taken, rest) = input.split_at(missing);
        self.part.extend_from_slice(taken);
        *input = rest;
    }
}

fn checked(length: [u8; LENGTH]) -> Result<usize, BadLength> {
    let length = usize::from(u16::from_be_bytes(length));
    if (FRAME_MIN..=FRAME_MAX).contains(&length) { Ok(length) } else { Err(BadLength(length)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(datagrams: &[Vec<u8>]) -> Vec<u8> {
        datagrams.iter().flat_map(|d| [&(d.len() as u16).to_be_bytes()[..], d].concat()).collect()
    }

    /// What comes of a stream that arrives in these pieces.
    fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, Option<BadLength>) {
        let (mut frames, mut read) = (Frames::default(), Vec::new());
        for mut piece in pieces {
            loop {
                match frames.next(&mut piece) {
                    Ok(Some(datagram)) => read.push(datagram.to_vec()),
                    Ok(None) => break,
                    Err(error) => return (read, Some(error)),
                }
            }
            assert!(piece.is_empty(), "all of it was taken");
            assert!(frames.part.capacity() <= 2 * (LENGTH + FRAME_MAX), "{} bytes kept", frames.part.capacity());
        }
        (read, None)
    }

    /// A stream cut at these places.
    fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
    }

    proptest! {
        #[test]
        fn however_a_stream_is_cut_it_gives_the_same_datagrams(
            datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), FRAME_MIN..600), 0..20),
            cuts in prop::collection::vec(any::<usize>(), 0..40),
        ) {
            let bytes = stream(&datagrams);
            prop_assert_eq!(read(cut(&bytes, &cuts).into_iter()), (datagrams.clone(), None));
            prop_assert_eq!(read(bytes.chunks(1)), (datagrams, None));
        }

        #[test]
        fn any_bytes_give_datagrams_within_bounds_or_end_the_stream_and_cuts_change_neither(
            bytes in prop::collection::vec(any::<u8>(), 0..40_000),
            cuts in prop::collection::vec(any::<usize>(), 0..40),
        ) {
            let whole = read(std::iter::once(&bytes[..]));
            prop_assert!(whole.0.iter().all(|datagram| (FRAME_MIN..=FRAME_MAX).contains(&datagram.len())));
            prop_assert_eq!(read(cut(&bytes, &cuts).into_iter()), whole);
        }
    }

    #[test]
    fn the_longest_and_the_shortest_datagram_pass_and_lengths_beyond_them_do_not() {
        let longest = vec![vec![7; FRAME_MAX]];
        assert_eq!(read(stream(&longest).chunks(1000)), (longest, None));
        let shortest = vec![vec![7; FRAME_MIN]];
        assert_eq!(read(stream(&shortest).chunks(1)), (shortest, None));
        for length in [0, FRAME_MIN - 1, FRAME_MAX + 1, 0xffff] {
            let bytes = (length as u16).to_be_bytes();
            assert_eq!(read(std::iter::once(&bytes[..])).1, Some(BadLength(length)));
            assert_eq!(read(bytes.chunks(1)).1, Some(BadLength(length)));
        }
    }
}
