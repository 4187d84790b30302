//! ERF: the extensible record format of Endace's cards.
//!
//! Source: Endace, ERF types reference guide. A record has a time in 2^-32 s (little endian), a type, its own length and that
//! on the wire (big endian), then extension headers, then the frame; Ethernet frames stand behind two bytes of padding. A length on the
//! wire is the card's, who counts the check sequence of Ethernet. Records that hold no frame (padding, metadata) are passed over.

use super::captured::{CaptureError, LinkType};
use super::record::{Order, Record, Step, wait};

const HEADER: usize = 16;
/// A record's link type where it has none of its own: `LINKTYPE_ERF`.
const UNREAD: LinkType = 197;

/// Whether `data` begins with records of this format: their types and lengths are such, and they follow each other in time.
pub(super) fn is_likely(data: &[u8]) -> bool {
    let (mut rest, mut before, mut records) = (data, 0, 0);
    while records < 8 && rest.len() >= HEADER {
        let (kind, length) = (rest[8] & 0x7f, usize::from(Order { big: true }.short(rest, 10)));
        let time = Order { big: false }.long(rest, 0) >> 32;
        // Times of one capture lie within a day or so of each other.
        let near = records == 0 || time.abs_diff(before) < 100_000;
        if !(1..=28).contains(&kind) && kind != 48 || length < HEADER || !near || time == 0 {
            return false;
        }
        (before, records) = (time, records + 1);
        rest = rest.get(length..).unwrap_or(&[]);
    }
    records > 0
}

/// Takes the record at the front apart.
pub(super) fn step(data: &[u8], offset: u64, last: bool) -> Step {
    let Some(head) = data.get(..HEADER) else { return wait(data.len(), HEADER, offset, last, true) };
    let (little, big) = (Order { big: false }, Order { big: true });
    let kind = head[8] & 0x7f;
    let size = usize::from(big.short(head, 10));
    let packet = !matches!(kind, 27 | 48);
    if size < HEADER {
        return Step::Error(data.len(), CaptureError::Broken { offset, packet });
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
