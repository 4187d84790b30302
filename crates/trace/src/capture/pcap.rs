//! pcap: a file header, then each packet behind a header with its time and lengths.
//!
//! Source: draft-ietf-opsawg-pcap; Alexey Kuznetsov's modified format has eight bytes more in each packet's header. Some writers
//! leave the original length out; then the captured one counts.
//!
//! A record that claims more bytes than any can have is broken, and where it ends is not known. Then the next place is looked for at which two
//! packets' headers stand one behind the other (or one, and the file ends with it) that could be true: parts of a second
//! that are less than one, at most 262,144 bytes captured and no more than there were, and a time within a week of the last packet's.
//! Both of a wrong pair would have to look so by chance.
//!
//! Files that were written one behind the other (`cat`) are read as one. The second one's header could else be taken for a packet of no
//! bytes in 2055, whose time all that follow would get.

use super::captured::{CaptureError, LinkType};
use super::record::{LONGEST, Order, Record, Step, wait};

/// Bytes before the first packet.
pub(super) const HEADER: usize = 24;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;

/// Most bytes of a packet that is taken for one behind a broken record: tcpdump's largest snapshot.
const LIKELY: u32 = 262_144;
/// How far its time may be from the last packet's, in seconds.
const NEAR: u32 = 7 * 86_400;

/// Takes packets apart.
#[derive(Clone, Debug)]
pub(super) struct Pcap {
    order: Order,
    /// How the file begins.
    magic: u32,
    version: u32,
    /// Bytes before a packet's own.
    head: usize,
    /// Nanoseconds in a unit of the parts of a second.
    unit: i64,
    link_type: LinkType,
    /// Seconds of the last packet's time.
    last: Option<u32>,
    /// The same of the first packet, and of the last one that was near the packet before it: a wrong length that is possible makes
    /// packets of what is none before it is found out.
    seconds: Option<u32>,
    /// The next record is looked for.
    lost: bool,
}

/// The byte order of a file that begins so, if that is how pcap files begin.
fn order_of(data: &[u8]) -> Option<Order> {
    let magic = data.get(..4)?;
    let known = |order: &Order| matches!(order.word(magic, 0), MICROSECONDS | NANOSECONDS | MODIFIED);
    [Order { big: false }, Order { big: true }].into_iter().find(known)
}

/// Whether all of a file is the beginning of a file header.
pub(super) fn is_cut(data: &[u8]) -> bool {
    data.len() < HEADER && order_of(data).is_some()
}

impl Pcap {
    /// By a whole file header. `None`: it is none.
    pub(super) fn new(data: &[u8]) -> Option<Pcap> {
        let header = data.get(..HEADER)?;
        let order = order_of(header)?;
        let magic = order.word(header, 0);
        // The upper bits tell of the check sequence, or are reserved.
        let link_type = (order.word(header, 20) & 0xffff) as LinkType;
        let unit = if magic == NANOSECONDS { 1 } else { 1000 };
        let head = if magic == MODIFIED { 24 } else { 16 };
        let version = order.word(header, 4);
        Some(Pcap { order, magic, version, head, unit, link_type, last: None, seconds: None, lost: false })
    }

    #[inline]
    pub(super) fn step(&mut self, data: &[u8], offset: u64, last: bool) -> Step {
        if self.lost {
            return self.find(data, last);
        }
        let (order, from) = (self.order, self.head);
        let Some(head) = data.get(..from) else { return wait(data.len(), from, offset, last, true) };
        if order.word(head, 0) == self.magic && order.word(head, 4) == self.version {
            return self.begin_again(data, offset, last);
        }
        let captured = order.word(head, 8);
        let to = from + captured as usize;
        if captured as usize > LONGEST {
            self.lost = true;
            // Its header is no place to go on.
            return Step::Error(from, CaptureError::Lost { offset });
        }
        if to > data.len() {
            return wait(data.len(), to, offset, last, true);
        }
        let seconds = order.word(head, 0);
        if self.last.replace(seconds).is_none_or(|last| last.abs_diff(seconds) <= NEAR) {
            self.seconds = Some(seconds);
        }
        let time = i64::from(seconds) * 1_000_000_000 + i64::from(order.word(head, 4)) * self.unit;
        let length = order.word(head, 12).max(captured);
        Step::Packet(to, Record { time, length, from, to, link_type: self.link_type })
    }

    /// Another file of the kind stands behind the first.
    #[cold]
    fn begin_again(&mut self, data: &[u8], offset: u64, last: bool) -> Step {
        let Some(next) = Pcap::new(data) else { return wait(data.len(), HEADER, offset, last, false) };
        *self = next;
        Step::Pass(HEADER as u64)
    }

    /// Looks for a record, behind one that was broken.
    #[cold]
    fn find(&mut self, data: &[u8], last: bool) -> Step {
        for place in 0..data.len().saturating_sub(self.head - 1) {
            let Some(length) = self.likely(&data[place..]) else { continue };
            let next = place + length;
            let is_record = match data.get(next..next + self.head) {
                Some(_) => self.likely(&data[next..]).is_some(),
                // The file ends with it, as far as it goes.
                None if last => next == data.len(),
                None if place > 0 => return Step::Pass(place as u64),
                None => return Step::More(next + self.head),
            };
            if is_record {
                self.lost = false;
                return Step::Pass(place as u64);
            }
        }
        if last {
            return Step::Pass(data.len() as u64);
        }
        match data.len().saturating_sub(self.head - 1) {
            0 => Step::More(self.head),
            passed => Step::Pass(passed as u64),
        }
    }

    /// The length of the record with which `data` begins, its header with it, if that could be one.
    fn likely(&self, data: &[u8]) -> Option<usize> {
        let head = data.get(..self.head)?;
        let [seconds, parts, captured, length] = [0, 4, 8, 12].map(|place| self.order.word(head, place));
        let near = self.seconds.is_none_or(|last| last.abs_diff(seconds) <= NEAR);
        let fits = i64::from(parts) * self.unit < 1_000_000_000 && (1..=LIKELY).contains(&captured);
        (near && fits && captured <= length && length as usize <= LONGEST).then_some(self.head + captured as usize)
    }
}
