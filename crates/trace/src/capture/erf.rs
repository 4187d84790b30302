//! ERF: the extensible record format of Endace's cards.
//!
//! Source: Endace, ERF types reference guide. A record has a time in 2^-32 s (little endian), a type, its own length and that
//! on the wire (big endian), then extension headers, then the frame; Ethernet frames stand behind two bytes of padding. A length on the
//! wire is the card's, who counts the check sequence of Ethernet. Records that hold no frame (padding, metadata) are passed over.
//!
//! A record that is shorter than its header is broken. Then the next place is looked for at which three records stand one behind the other (or
//! fewer, and the file ends with them) whose types are known and whose times lie within a day or so of each other and of the last packet's. A
//! wrong length that is possible makes packets of what is none before it is found out. So what counts is the first time, and then the last one that
//! was near the time before it.

use super::captured::{CaptureError, LinkType};
use super::record::{Order, Record, Step, wait};

const HEADER: usize = 16;
/// A record's link type where it has none of its own: `LINKTYPE_ERF`.
const UNREAD: LinkType = 197;

/// So many records that look like such are some.
const ENOUGH: usize = 3;
/// How far times of one capture lie from each other, in seconds: a day or so.
const NEAR: u64 = 100_000;

/// Whether `data` begins with records of this format: their types and lengths are such, and they follow each other in time.
pub(super) fn is_likely(data: &[u8]) -> bool {
    matches!(chain(data, 8, None), Chain::Holds(records) | Chain::Cut(records, _) if records > 0)
}

/// How many records stand one behind the other.
enum Chain {
    /// So many, as many as were asked for or until the bytes end.
    Holds(usize),
    /// So many, and the bytes end within the next; so many are needed at hand to know it.
    Cut(usize, usize),
    /// What stands there, or behind one of them, is no record.
    Breaks,
}

/// Looks at no more than `most` records; their times follow `before`, in seconds.
fn chain(data: &[u8], most: usize, mut before: Option<u64>) -> Chain {
    let mut at = 0;
    for records in 0..most {
        let rest = data.get(at..).unwrap_or_default();
        if rest.len() < HEADER {
            return if at == data.len() { Chain::Holds(records) } else { Chain::Cut(records, at + HEADER) };
        }
        let (kind, length) = (rest[8] & 0x7f, usize::from(Order { big: true }.short(rest, 10)));
        let time = Order { big: false }.long(rest, 0) >> 32;
        let near = before.is_none_or(|before| time.abs_diff(before) < NEAR);
        if !(1..=28).contains(&kind) && kind != 48 || length < HEADER || !near || time == 0 {
            return Chain::Breaks;
        }
        before = Some(time);
        at += length;
    }
    Chain::Holds(most)
}

/// Takes records apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Erf {
    /// Seconds of the last packet's time.
    last: Option<u64>,
    /// The same of the first packet, and of the last one that was near the packet before it.
    seconds: Option<u64>,
    /// The next record is looked for.
    lost: bool,
}

impl Erf {
    #[inline]
    pub(super) fn step(&mut self, data: &[u8], offset: u64, last: bool) -> Step {
        if self.lost {
            return self.find(data, last);
        }
        let step = record(data, offset, last);
        match &step {
            Step::Error(_, CaptureError::Lost { .. }) => self.lost = true,
            Step::Packet(_, record) => {
                let seconds = (record.time / 1_000_000_000) as u64;
                if self.last.replace(seconds).is_none_or(|last| last.abs_diff(seconds) < NEAR) {
                    self.seconds = Some(seconds);
                }
            }
            _ => {}
        }
        step
    }

    /// Looks for a record, behind one that was broken.
    #[cold]
    fn find(&mut self, data: &[u8], last: bool) -> Step {
        for place in 0..data.len().saturating_sub(HEADER - 1) {
            match chain(&data[place..], ENOUGH, self.seconds) {
                Chain::Cut(_, more) if !last => {
                    return if place > 0 { Step::Pass(place as u64) } else { Step::More(more) };
                }
                Chain::Holds(records) if records == ENOUGH || last => {
                    self.lost = false;
                    return Step::Pass(place as u64);
                }
                // The bytes at hand end with a record.
                Chain::Holds(_) => {
                    return if place > 0 { Step::Pass(place as u64) } else { Step::More(data.len() + HEADER) };
                }
                _ => {}
            }
        }
        if last {
            return Step::Pass(data.len() as u64);
        }
        match data.len().saturating_sub(HEADER - 1) {
            0 => Step::More(HEADER),
            passed => Step::Pass(passed as u64),
        }
    }
}

/// Takes the record at the front apart.
fn record(data: &[u8], offset: u64, last: bool) -> Step {
    let Some(head) = data.get(..HEADER) else { return wait(data.len(), HEADER, offset, last, true) };
    let (little, big) = (Order { big: false }, Order { big: true });
    let kind = head[8] & 0x7f;
    let size = usize::from(big.short(head, 10));
    let packet = !matches!(kind, 27 | 48);
    if size < HEADER {
        return Step::Error(HEADER, CaptureError::Lost { offset });
    }
    let Some(record) = data.get(..size) else { return wait(data.len(), size, offset, last, packet) };
    if !packet {
        return Step::Pass(size as u64);
    }
    let mut from = HEADER;
    let mut extended = head[8] & 0x80 != 0;
    while extended {
        extended = record.get(from).is_some_and(|first| first & 0x80 != 0);
        from += 8;
    }
    let link_type = match kind {
        2 | 11 | 16 | 20 => {
            from += 2;
            1
        }
        1 | 10 | 15 | 17 | 19 => 50,
        5 => {
            from += 4;
            50
        }
        22 | 23 => 101,
        _ => UNREAD,
    };
    if from > size {
        return Step::Error(size, CaptureError::Length { offset });
    }
    let units = little.long(head, 0);
    let time = ((units >> 32) * 1_000_000_000 + (((units & 0xffff_ffff) * 1_000_000_000) >> 32)) as i64;
    let length = u32::from(big.short(head, 14));
    let captured = (size - from).min(length as usize);
    Step::Packet(size, Record { time, length, from, to: from + captured, link_type })
}
