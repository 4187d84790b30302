//! Ethernet frames that tell who sent them, which they are and when, and whose every byte is checked where they arrive.
//!
//! Behind the Ethernet header:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | kind: 0 a read's request, 1 a write, 2 a read's completion, 3 one of a flood, 4 a mark |
//! | 1 | which part of an answer |
//! | 2..4 | tag of the read |
//! | 4..8 | the run; frames of another run are nobody's |
//! | 8..16 | number, from 0, in this direction; of a mark, how many were sent before it |
//! | 16..24 | time of sending, or of the request that is answered, in nanoseconds since the run began |
//! | 24.. | bytes that follow from those before, so that damage anywhere is seen |
//!
//! A frame that is late is told from one that is lost by a mark, which goes behind it: what has not arrived by then will not, as
//! the way keeps order. How long the way stood still, as on a machine that is busy with something else, does not matter.

use anyhow::{Context, Result, bail};
use fairspan_live::channel::ethernet::{Codepoint, EthernetConfig, EthernetSocket, Mac, Outgoing, Sent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::Duration;

/// Bytes before the content.
pub(crate) const HEAD: usize = 24;
/// Most content of a frame.
pub(crate) const MOST: usize = 128;
/// What an Ethernet frame has at least behind its header: with the header and the checksum 64 bytes.
pub(crate) const LEAST: usize = 46;
/// A number that is further ahead than this of all before it was damaged with its content.
const AHEAD: u64 = 1 << 24;
/// When nothing has arrived for so long, a mark is sent behind what is under way.
pub(crate) const STILL: Duration = Duration::from_millis(20);
/// When neither a frame nor a mark has arrived for so long, none is waited for any more.
pub(crate) const DEAD: Duration = Duration::from_secs(10);
/// Slots of a socket's ring.
const RING_SLOTS: usize = 8192;
/// Frames that go to the kernel in one call.
const BATCH: usize = 64;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Write,
    Completion,
    Flood,
    Mark,
}

/// All kinds, each at its number.
const KINDS: [Kind; 5] = [Kind::Request, Kind::Write, Kind::Completion, Kind::Flood, Kind::Mark];

/// What a frame begins with, but for run and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) part: u8,
    pub(crate) tag: u16,
    pub(crate) at: u64,
}

fn head_bytes(head: Head, run: u32, number: u64) -> [u8; HEAD] {
    let mut bytes = [0; HEAD];
    bytes[0] = head.kind as u8;
    bytes[1] = head.part;
    bytes[2..4].copy_from_slice(&head.tag.to_be_bytes());
    bytes[4..8].copy_from_slice(&run.to_be_bytes());
    bytes[8..16].copy_from_slice(&number.to_be_bytes());
    bytes[16..24].copy_from_slice(&head.at.to_be_bytes());
    bytes
}

fn word<const N: usize>(bytes: &[u8; HEAD], at: usize) -> [u8; N] {
    let mut word = [0; N];
    word.copy_from_slice(&bytes[at..at + N]);
    word
}

/// Fills `content` with what belongs behind `head` (SplitMix64).
fn fill(head: &[u8; HEAD], content: &mut [u8]) {
    let mut state = 0u64;
    for at in [0, 8, 16] {
        state = mixed(state ^ u64::from_be_bytes(word(head, at)));
    }
    for piece in content.chunks_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bytes = mixed(state).to_be_bytes();
        piece.copy_from_slice(&bytes[..piece.len()]);
    }
}

fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// What became of the frames of one direction, as their receiver sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    run: u32,
    seen: Vec<u64>,
    /// The highest number that arrived, and one more.
    next: u64,
    /// Frames that arrived, each counted once.
    pub(crate) received: u64,
    /// Copies of frames that had arrived before.
    pub(crate) twice: u64,
    /// Frames behind one with a higher number.
    pub(crate) out_of_order: u64,
    /// Frames in which something is not as it was sent.
    pub(crate) damaged: u64,
    /// Marks that arrived.
    pub(crate) marks: u64,
    /// Frames sent before the last of them that had not arrived.
    pub(crate) lost: u64,
}

impl Tally {
    /// Of the run of that number.
    pub(crate) fn new(run: u32) -> Tally {
        Tally { run, ..Tally::default() }
    }

    /// Counts a frame (what follows its Ethernet header); gives its head if it is whole, of this run and new.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Option<Head> {
        let Some((head, content)) = bytes.split_first_chunk::<HEAD>() else {
            self.damaged += 1;
            return None;
        };
        let mut expected = [0; MOST];
        let kind = KINDS.get(usize::from(head[0]));
        let (Some(expected), Some(&kind)) = (expected.get_mut(..content.len()), kind) else {
            self.damaged += 1;
            return None;
        };
        fill(head, expected);
        let number = u64::from_be_bytes(word(head, 8));
        if expected != content {
            self.damaged += 1;
            return None;
        }
        if u32::from_be_bytes(word(head, 4)) != self.run {
            return None;
        }
        if number >= self.next + AHEAD {
            self.damaged += 1;
            return None;
        }
        if kind == Kind::Mark {
            self.marks += 1;
            self.lost = number.saturating_sub(self.received);
            return None;
        }
        let (place, bit) = ((number / 64) as usize, 1 << (number % 64));
        if self.seen.len() <= place {
            self.seen.resize((place + 1).next_power_of_two(), 0);
        }
        if self.seen[place] & bit != 0 {
            self.twice += 1;
            return None;
        }
        self.seen[place] |= bit;
        self.received += 1;
        self.out_of_order += u64::from(number < self.next);
        self.next = self.next.max(number + 1);
        let at = u64::from_be_bytes(word(head, 16));
        Some(Head { kind, part: head[1], tag: u16::from_be_bytes(word(head, 2)), at })
    }
}

/// One end of a direction: a socket, and the frames that wait for it.
pub(crate) struct Station {
    socket: EthernetSocket,
    peer: Option<Mac>,
    run: u32,
    waiting: VecDeque<([u8; HEAD + MOST], usize)>,
    /// Frames numbered so far: those sent, and those that wait.
    pub(crate) numbered: u64,
}

impl Station {
    /// Opens `device` in this thread's network namespace.
    pub(crate) fn open(device: &str) -> Result<Station> {
        let mut config = EthernetConfig::new(device);
        config.ring_slots = RING_SLOTS;
        let socket = EthernetSocket::open(config).with_context(|| format!("cannot open {device}"))?;
        Ok(Station { socket, peer: None, run: 0, waiting: VecDeque::new(), numbered: 0 })
    }

    /// Its device's address.
    pub(crate) fn mac(&self) -> Mac {
        self.socket.mac()
    }

    /// Begins a run towards `peer`: numbers begin again, and what has arrived so far is forgotten.
    pub(crate) fn begin(&mut self, run: u32, peer: Mac) {
        (self.run, self.peer, self.numbered) = (run, Some(peer), 0);
        self.waiting.clear();
        while self.socket.receive(BATCH, |_| ()) > 0 {}
    }

    /// Numbers a frame with `content` bytes behind its head; [`flush`](Self::flush) sends it.
    pub(crate) fn push(&mut self, head: Head, content: usize) {
        self.wait_with(head, content);
        self.numbered += 1;
    }

    /// Marks what was sent so far, unless some of it still waits; whether it did.
    pub(crate) fn mark(&mut self) -> bool {
        let idle = self.waiting.is_empty();
        if idle {
            self.wait_with(Head { kind: Kind::Mark, part: 0, tag: 0, at: 0 }, LEAST - HEAD);
        }
        idle
    }

    fn wait_with(&mut self, head: Head, content: usize) {
        let mut frame = [0; HEAD + MOST];
        let bytes = head_bytes(head, self.run, self.numbered);
        frame[..HEAD].copy_from_slice(&bytes);
        let len = HEAD + content.min(MOST);
        fill(&bytes, &mut frame[HEAD..len]);
        self.waiting.push_back((frame, len));
    }

    /// Sends what waits, as far as the device takes it.
    ///
    /// # Errors
    /// The device is down or gone.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let Some(peer) = self.peer else { return Ok(()) };
        while !self.waiting.is_empty() {
            let mut frames = [Outgoing { peer, codepoint: Codepoint::Envelope, head: &[], packet: &[] }; BATCH];
            let mut count = 0;
            for ((bytes, len), frame) in self.waiting.iter().zip(&mut frames) {
                frame.packet = &bytes[..*len];
                count += 1;
            }
            let sent = match self.socket.send(&frames[..count]) {
                Sent::Done => count,
                Sent::Blocked(sent) | Sent::Congested(sent) => sent,
                Sent::Down(_) => bail!("the device of the generator is down"),
            };
            self.waiting.drain(..sent);
            if sent < count {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Hands received frames to `sink`, up to a few hundred at a time; how many there were.
    pub(crate) fn receive(&mut self, mut sink: impl FnMut(&[u8])) -> usize {
        self.socket.receive(8 * BATCH, |frame| sink(frame.bytes))
    }

    /// Waits until a frame is there, or room for those that wait, for a few milliseconds at most.
    pub(crate) fn wait(&self) -> Result<()> {
        let flags = if self.waiting.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
        let time = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
        match poll(&mut [PollFd::from_borrowed_fd(self.socket.as_fd(), flags)], Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD_OF_ONE: Head = Head { kind: Kind::Completion, part: 3, tag: 700, at: 123_456_789 };

    fn frame(run: u32, number: u64, content: usize) -> Vec<u8> {
        let head = head_bytes(HEAD_OF_ONE, run, number);
        let mut frame = [&head[..], &vec![0; content]].concat();
        fill(&head, &mut frame[HEAD..]);
        frame
    }

    #[test]
    fn a_frame_is_read_as_it_was_written_and_counted_once() {
        let mut tally = Tally::new(5);
        assert_eq!(tally.take(&frame(5, 0, 128)), Some(HEAD_OF_ONE));
        assert_eq!(tally.take(&frame(5, 0, 128)), None);
        assert_eq!(tally.take(&frame(4, 1, 128)), None);
        assert_eq!((tally.received, tally.twice, tally.out_of_order, tally.damaged), (1, 1, 0, 0));
    }

    #[test]
    fn what_comes_behind_a_later_one_is_out_of_order_and_what_never_comes_is_missing() {
        let mut tally = Tally::new(1);
        for number in [0, 2, 1, 5, 3, 6, 5] {
            tally.take(&frame(1, number, 22));
        }
        assert_eq!((tally.received, tally.twice, tally.out_of_order), (6, 1, 2));
    }

    #[test]
    fn a_mark_tells_what_of_those_before_it_is_missing_and_is_none_of_them() {
        let mark = |number: u64| {
            let head = head_bytes(Head { kind: Kind::Mark, part: 0, tag: 0, at: 0 }, 1, number);
            let mut frame = [&head[..], &[0; 22]].concat();
            fill(&head, &mut frame[HEAD..]);
            frame
        };
        let mut tally = Tally::new(1);
        for number in [0, 1, 4] {
            tally.take(&frame(1, number, 22));
        }
        assert_eq!(tally.take(&mark(7)), None);
        assert_eq!((tally.marks, tally.lost, tally.received), (1, 4, 3));
        tally.take(&frame(1, 2, 22));
        tally.take(&mark(7));
        assert_eq!((tally.marks, tally.lost, tally.received, tally.twice), (2, 3, 4, 0));
    }

    #[test]
    fn damage_of_any_byte_is_seen() {
        let whole = frame(1, 7, 30);
        for at in 0..whole.len() {
            let mut tally = Tally::new(1);
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            assert_eq!(tally.take(&bytes), None, "byte {at}");
            assert_eq!((tally.received, tally.damaged), (0, 1), "byte {at}");
        }
        let mut tally = Tally::new(1);
        for (n, bytes) in [&whole[..HEAD - 1], &[], &frame(1, u64::MAX / 2, 30), &vec![0; 2000]].into_iter().enumerate()
        {
            assert_eq!(tally.take(bytes), None);
            assert_eq!(tally.damaged, n as u64 + 1);
        }
    }
}
