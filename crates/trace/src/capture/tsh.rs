//! TSH: NLANR's time sequenced headers.
//!
//! Source: NLANR's description of its TSH files. Each record has 44 bytes, all big endian: seconds, the interface in one byte
//! and microseconds in three, an IPv4 header without options, and the first 16 bytes behind it. The length is that of the
//! IPv4 header.

use super::captured::CaptureError;
use super::record::{Order, Record, Step, wait};

const SIZE: usize = 44;
const IP: usize = 8;

const BIG: Order = Order { big: true };

fn microseconds(record: &[u8]) -> u32 {
    BIG.word(record, 4) & 0x00ff_ffff
}

/// Whether `data` begins with records of this format: times within a second, and IPv4 headers.
pub(super) fn is_likely(data: &[u8]) -> bool {
    let mut records = data.chunks_exact(SIZE).take(8);
    data.len() >= SIZE
        && records.all(|record| microseconds(record) < 1_000_000 && record[IP] >> 4 == 4 && record[IP] & 15 >= 5)
}

/// Takes the record at the front apart.
pub(super) fn step(data: &[u8], offset: u64, last: bool) -> Step {
    let Some(record) = data.get(..SIZE) else { return wait(data.len(), SIZE, offset, last, true) };
    let part = microseconds(record);
    if part >= 1_000_000 {
        return Step::Error(SIZE, CaptureError::Time { offset });
    }
    let time = i64::from(BIG.word(record, 0)) * 1_000_000_000 + i64::from(part) * 1000;
    let length = u32::from(BIG.short(record, IP + 2));
    Step::Packet(SIZE, Record { time, length, from: IP, to: SIZE, link_type: 101 })
}
