//! Datagrams with their lengths before them, back to back, that leave by one write.

use super::frames::{FRAME_MAX, LENGTH};

/// Bytes of one run.
const RUN_BYTES: usize = 65_536;

/// What is written to a stream at once.
#[derive(Debug)]
pub(crate) struct Run {
    buffer: Box<[u8]>,
    len: usize,
    /// How much of it was written.
    written: usize,
    /// Where the first datagram begins of which nothing was written.
    whole: usize,
    datagrams: usize,
}

impl Default for Run {
    fn default() -> Run {
        Run { buffer: vec![0; RUN_BYTES].into(), len: 0, written: 0, whole: 0, datagrams: 0 }
    }
}

impl Run {
    /// Room for one more datagram of `len` bytes, to be filled and then [committed](Self::commit); `None`: write the run first
    /// (always `None` for what is no datagram of a stream).
    pub(crate) fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        if !(1..=FRAME_MAX).contains(&len) {
            return None;
        }
        self.buffer.get_mut(self.len + LENGTH..self.len + LENGTH + len)
    }

    /// Takes the first `len` bytes of the last [`room`](Self::room) into the run.
    pub(crate) fn commit(&mut self, len: usize) {
        let end = self.len + LENGTH + len;
        if !(1..=FRAME_MAX).contains(&len) || end > self.buffer.len() {
            return;
        }
        self.buffer[self.len..self.len + LENGTH].copy_from_slice(&(len as u16).to_be_bytes());
        self.len = end;
        self.datagrams += 1;
    }

    /// Datagrams of which nothing was written.
    pub(crate) fn datagrams(&self) -> usize {
        self.datagrams
    }

    /// What is still to be written.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.buffer[self.written..self.len]
    }

    /// So much of the [rest](Self::rest) was written: how many datagrams began in it.
    pub(crate) fn advance(&mut self, written: usize) -> usize {
        self.written = (self.written + written).min(self.len);
        let before = self.datagrams;
        while self.whole < self.written {
            let length = [self.buffer[self.whole], self.buffer[self.whole + 1]];
            self.whole += LENGTH + usize::from(u16::from_be_bytes(length));
            self.datagrams -= 1;
        }
        before - self.datagrams
    }

    /// Takes what is left of a datagram that was written in part: nothing else may be written before it.
    pub(crate) fn take_part(&mut self) -> &[u8] {
        let part = self.written..self.whole.max(self.written);
        self.written = part.end;
        &self.buffer[part]
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) {
        (self.len, self.written, self.whole, self.datagrams) = (0, 0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::tcp::frames::{FRAME_MIN, Frames};
    use proptest::prelude::*;

    proptest! {
        /// As a socket takes it: some of the rest, then the part of a datagram before anything else.
        #[test]
        fn however_a_run_is_written_the_stream_has_its_datagrams_whole_and_in_order(
            datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), FRAME_MIN..600), 1..100),
            takes in prop::collection::vec(0usize..2000, 1..200),
        ) {
            let mut run = Run::default();
            for datagram in &datagrams {
                run.room(datagram.len()).expect("room").copy_from_slice(datagram);
                run.commit(datagram.len());
            }
            let (mut stream, mut begun) = (Vec::new(), 0);
            for take in takes.into_iter().chain([usize::MAX]) {
                let rest = run.rest();
                let take = take.min(rest.len());
                stream.extend_from_slice(&rest[..take]);
                begun += run.advance(take);
                stream.extend_from_slice(run.take_part());
                prop_assert_eq!(begun + run.datagrams(), datagrams.len());
            }
            let (mut frames, mut input, mut read) = (Frames::default(), &stream[..], Vec::new());
            while let Ok(Some(datagram)) = frames.next(&mut input) {
                read.push(datagram.to_vec());
            }
            prop_assert_eq!(read, datagrams);
        }
    }

    #[test]
    fn a_run_holds_what_its_buffer_has_room_for_and_nothing_that_is_no_datagram() {
        let mut run = Run::default();
        assert!(run.room(0).is_none() && run.room(FRAME_MAX + 1).is_none());
        let mut count = 0;
        while run.room(1000).is_some() {
            run.commit(1000);
            count += 1;
        }
        assert_eq!((count, run.datagrams()), (RUN_BYTES / 1002, RUN_BYTES / 1002));
        assert_eq!(run.rest().len(), count * 1002);
        run.clear();
        assert!(run.rest().is_empty() && run.room(FRAME_MAX).is_some());
    }
}
