//! Several captures as one sequence, by their times.
//!
//! Parts of one capture follow one another, captures of the same hour are merged. Packets of equal times keep the order of the
//! captures. A packet whose time is before its predecessor's in the same capture gets that one's time, and is counted.
//!
//! Cost: one comparison for each capture and packet. Memory: one packet's window for each.

use crate::capture::stream::Stream;
use crate::capture::{CaptureError, Captured};

/// One of the captures.
#[derive(Debug)]
struct Part<'a> {
    stream: Stream<'a>,
    number: usize,
    /// The time of the packet at hand.
    time: i64,
}

/// What comes next.
#[derive(Debug)]
pub enum Next<'a> {
    /// A packet, its time being no earlier than those before.
    Packet(Captured<'a>),
    /// Something of capture number so-and-so that cannot be read; what is behind it comes later, if anything.
    Error(usize, CaptureError),
}

/// The captures, of which some are over.
#[derive(Debug, Default)]
pub struct Merged<'a> {
    parts: Vec<Part<'a>>,
    /// Which of them has its next packet still to be found.
    due: Option<usize>,
    /// Those that were added and have not been looked at.
    fresh: Vec<Part<'a>>,
    backwards: u64,
    without_packets: Vec<usize>,
}

impl<'a> Merged<'a> {
    /// Adds a capture, which is to be called by this number.
    pub fn add(&mut self, number: usize, stream: Stream<'a>) {
        self.fresh.push(Part { stream, number, time: i64::MIN });
    }

    /// How many packets had a time before their predecessor's.
    pub fn backwards(&self) -> u64 {
        self.backwards
    }

    /// The captures that are over and had no packet, by their numbers.
    pub fn without_packets(&self) -> &[usize] {
        &self.without_packets
    }

    /// The next packet, or what cannot be read. `None`: everything is over.
    #[inline]
    pub fn poll(&mut self) -> Option<Next<'_>> {
        if let Some(due) = self.due.take() {
            match Merged::go_on(&mut self.parts[due], &mut self.backwards) {
                Ok(true) => {}
                Ok(false) => drop(self.parts.remove(due)),
                Err(error) => {
                    self.due = Some(due);
                    return Some(Next::Error(self.parts[due].number, error));
                }
            }
        }
        while let Some(part) = self.fresh.first_mut() {
            match Merged::go_on(part, &mut self.backwards) {
                Ok(true) => self.parts.push(self.fresh.remove(0)),
                Ok(false) => {
                    let over = self.fresh.remove(0);
                    self.without_packets.extend(over.stream.is_without_packets().then_some(over.number));
                }
                Err(error) => return Some(Next::Error(part.number, error)),
            }
        }
        let earliest = match &self.parts[..] {
            [] => return None,
            [_] => 0,
            parts => (0..parts.len()).min_by_key(|number| parts[*number].time)?,
        };
        self.due = Some(earliest);
        let part = &self.parts[earliest];
        Some(Next::Packet(Captured { time: part.time, ..part.stream.packet() }))
    }

    #[inline]
    fn go_on(part: &mut Part<'_>, backwards: &mut u64) -> Result<bool, CaptureError> {
        let more = part.stream.advance()?;
        if more {
            let time = part.stream.time();
            *backwards += u64::from(time < part.time);
            part.time = part.time.max(time);
        }
        Ok(more)
    }
}
