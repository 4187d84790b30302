//! pcapng: blocks, each between two copies of its length; sections, interfaces, and packets of them.
//!
//! Source: draft-ietf-opsawg-pcapng: section header, interface description, enhanced and simple packet blocks, and the obsolete
//! packet block; all others are passed over. Times follow the resolution of their interface, decimal or binary, and its
//! offset.
//!
//! A simple packet has no time. It gets that of the packet before it, and where there is none, that of the first one behind it
//! that has a time, as far as [`AHEAD`] bytes.
//!
//! A block whose two lengths differ, or whose length cannot be, is broken. Then the next place is looked for at which a block of a known kind
//! stands between two copies of one possible length, and a packet's of an interface that was described.

use super::captured::{CaptureError, LinkType};
use super::record::{LONGEST, Order, Record, Step, wait};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Most interfaces of a section.
const INTERFACES: usize = 1 << 20;

/// Most bytes of a block that is taken for one behind a broken one: tcpdump's largest snapshot, and options.
const LIKELY: usize = 262_144 + 4096;
/// Bytes of the smallest block, and of what is passed over of a broken one.
const LEAST: usize = 12;

/// How far the first time is looked for.
const AHEAD: usize = 1 << 20;

/// No packet's time. With it, the simple packets ahead do not look in their turn.
const NO_TIME: i64 = i64::MIN;

/// Whether a file begins with a section.
pub(super) fn is_one(data: &[u8]) -> bool {
    data.get(..4) == Some(&[0x0a, 0x0d, 0x0d, 0x0a])
}

/// Takes blocks apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Pcapng {
    order: Order,
    interfaces: Vec<Interface>,
    /// The time of the packet before; `None`: no packet with a time yet.
    last: Option<i64>,
    /// The next block is looked for.
    lost: bool,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: LinkType,
    /// `None`: no such unit.
    resolution: Option<Resolution>,
    /// Seconds.
    offset: i64,
    /// Most bytes captured; 0: no bound.
    snap: u32,
}

/// Units a second as a power.
#[derive(Clone, Copy, Debug)]
enum Resolution {
    Decimal(u32),
    Binary(u32),
}

impl Resolution {
    #[inline]
    fn nanoseconds(self, units: u64) -> Option<i64> {
        let ns = match self {
            Resolution::Decimal(6) if units < 1 << 53 => return Some(units as i64 * 1000),
            Resolution::Decimal(power @ 0..=9) => u128::from(units) * 10_u128.pow(9 - power),
            Resolution::Decimal(power) => u128::from(units) / 10_u128.pow(power - 9),
            Resolution::Binary(power) => (u128::from(units) * 1_000_000_000) >> power,
        };
        i64::try_from(ns).ok()
    }
}

impl Pcapng {
    #[inline]
    pub(super) fn step(&mut self, data: &[u8], offset: u64, last: bool) -> Step {
        if self.lost {
            return self.find(data, last);
        }
        let Some(head) = data.get(..LEAST) else { return wait(data.len(), LEAST, offset, last, false) };
        let kind = self.order.word(head, 0);
        if kind == SECTION {
            // It tells its byte order by itself.
            match self.order.word(head, 8) {
                0x1a2b_3c4d => {}
                0x4d3c_2b1a => self.order.big = !self.order.big,
                _ => return self.lose(offset),
            }
        }
        let packet = matches!(kind, ENHANCED_PACKET | SIMPLE_PACKET | PACKET);
        let length = self.order.word(head, 4) as usize;
        if length < least(kind) || !length.is_multiple_of(4) {
            return self.lose(offset);
        }
        if !packet && !matches!(kind, SECTION | INTERFACE) {
            return Step::Pass(length as u64);
        }
        if length > LONGEST {
            return self.lose(offset);
        }
        let Some(block) = data.get(..length) else { return wait(data.len(), length, offset, last, packet) };
        if self.order.word(block, length - 4) as usize != length {
            return self.lose(offset);
        }
        match kind {
            SECTION => self.interfaces.clear(),
            INTERFACE if self.interfaces.len() == INTERFACES => return self.lose(offset),
            INTERFACE => self.interfaces.push(Interface::new(&block[8..length - 4], self.order)),
            SIMPLE_PACKET => return self.simple(data, length, offset, last),
            ENHANCED_PACKET => return self.packet(block, self.order.word(block, 8), offset),
            _ => return self.packet(block, u32::from(self.order.short(block, 8)), offset),
        }
        Step::Pass(length as u64)
    }

    /// The block at `offset` is broken.
    #[cold]
    fn lose(&mut self, offset: u64) -> Step {
        self.lost = true;
        Step::Error(LEAST, CaptureError::Lost { offset })
    }

    /// Looks for a block, behind one that was broken.
    #[cold]
    fn find(&mut self, data: &[u8], last: bool) -> Step {
        for place in 0..data.len().saturating_sub(LEAST - 1) {
            let (order, Some(length)) = self.likely(&data[place..]) else { continue };
            match data.get(place..place + length) {
                Some(block) if order.word(block, length - 4) as usize == length => {
                    self.lost = false;
                    return Step::Pass(place as u64);
                }
                Some(_) => {}
                None if last => {}
                None if place > 0 => return Step::Pass(place as u64),
                None => return Step::More(length),
            }
        }
        if last {
            return Step::Pass(data.len() as u64);
        }
        match data.len().saturating_sub(LEAST - 1) {
            0 => Step::More(LEAST),
            passed => Step::Pass(passed as u64),
        }
    }

    /// The byte order and the length of the block with which `data` begins, if that could be one.
    fn likely(&self, data: &[u8]) -> (Order, Option<usize>) {
        let kind = self.order.word(data, 0);
        // A section tells its byte order by itself.
        let other = kind == SECTION && self.order.word(data, 8) == 0x4d3c_2b1a;
        let order = if other { Order { big: !self.order.big } } else { self.order };
        let known = match kind {
            SECTION => order.word(data, 8) == 0x1a2b_3c4d,
            ENHANCED_PACKET => (order.word(data, 8) as usize) < self.interfaces.len(),
            PACKET => usize::from(order.short(data, 8)) < self.interfaces.len(),
            SIMPLE_PACKET => !self.interfaces.is_empty(),
            // Interfaces, names, statistics, journal entries, secrets.
            _ => matches!(kind, INTERFACE | 4 | 5 | 9 | 10),
        };
        let length = order.word(data, 4) as usize;
        let fits = known && length.is_multiple_of(4) && (least(kind)..=LIKELY).contains(&length);
        (order, fits.then_some(length))
    }

    /// A packet with a time.
    #[inline]
    fn packet(&mut self, block: &[u8], number: u32, offset: u64) -> Step {
        let order = self.order;
        let Some(interface) = self.interfaces.get(number as usize) else {
            return Step::Error(block.len(), CaptureError::Interface { offset, interface: number });
        };
        let units = u64::from(order.word(block, 12)) << 32 | u64::from(order.word(block, 16));
        let Some(time) = interface.time(units) else {
            return Step::Error(block.len(), CaptureError::Time { offset });
        };
        let captured = order.word(block, 20);
        if captured as usize > block.len() - 32 {
            return Step::Error(block.len(), CaptureError::Length { offset });
        }
        self.last = Some(time);
        let length = order.word(block, 24).max(captured);
        let (from, to) = (28, 28 + captured as usize);
        Step::Packet(block.len(), Record { time, length, from, to, link_type: interface.link_type })
    }

    /// A packet without a time, in a block of `size` bytes.
    fn simple(&mut self, data: &[u8], size: usize, offset: u64, last: bool) -> Step {
        let Some(&interface) = self.interfaces.first() else {
            return Step::Error(size, CaptureError::Interface { offset, interface: 0 });
        };
        let time = match self.last {
            Some(time) => time,
            None => match self.first_time(&data[size..], last) {
                Ok(time) => time,
                Err(more) => return Step::More(size + more),
            },
        };
        self.last = Some(time);
        let length = self.order.word(data, 8);
        let most = if interface.snap == 0 { u32::MAX } else { interface.snap };
        let captured = (length.min(most) as usize).min(size - 16);
        Step::Packet(size, Record { time, length, from: 12, to: 12 + captured, link_type: interface.link_type })
    }

    /// The time of the first packet in `data` that has one; zero if none has. `Err`: so many bytes are needed to know.
    fn first_time(&self, mut data: &[u8], last: bool) -> Result<i64, usize> {
        let whole = data.len();
        let mut ahead = Pcapng { last: Some(NO_TIME), ..self.clone() };
        while !data.is_empty() && whole - data.len() < AHEAD {
            let used = match ahead.step(data, 0, last) {
                Step::Packet(_, Record { time, .. }) if time != NO_TIME => return Ok(time),
                Step::Packet(used, _) => used,
                Step::Error(used, error) if !error.is_last() => used,
                Step::Pass(used) if used <= data.len() as u64 => used as usize,
                // What is passed over need not be at hand, but what is behind it.
                Step::Pass(used) if !last && used <= AHEAD as u64 => return Err(whole - data.len() + used as usize),
                Step::More(more) if more <= AHEAD => return Err(whole - data.len() + more),
                _ => return Ok(0),
            };
            data = &data[used..];
        }
        if last || whole >= AHEAD { Ok(0) } else { Err(whole + 1) }
    }
}

/// The least length of a block of this kind.
fn least(kind: u32) -> usize {
    match kind {
        SECTION => 28,
        INTERFACE => 20,
        ENHANCED_PACKET | PACKET => 32,
        SIMPLE_PACKET => 16,
        _ => LEAST,
    }
}

impl Interface {
    fn new(block: &[u8], order: Order) -> Interface {
        let mut interface = Interface {
            link_type: LinkType::from(order.short(block, 0)),
            resolution: Some(Resolution::Decimal(6)),
            offset: 0,
            snap: order.word(block, 4),
        };
        let mut options = &block[8..];
        while let Some(head) = options.get(..4) {
            let (code, length) = (order.short(head, 0), usize::from(order.short(head, 2)));
            let Some(value) = options.get(4..4 + length) else { break };
            match (code, value) {
                (0, _) => break,
                (9, [power, ..]) => {
                    interface.resolution = match *power {
                        power @ 0..=37 => Some(Resolution::Decimal(u32::from(power))),
                        power @ 0x80..=0xdf => Some(Resolution::Binary(u32::from(power & 0x7f))),
                        _ => None,
                    };
                }
                (14, [_, _, _, _, _, _, _, _, ..]) => interface.offset = order.long(value, 0) as i64,
                _ => {}
            }
            options = options.get(4 + length.next_multiple_of(4)..).unwrap_or(&[]);
        }
        interface
    }

    #[inline]
    fn time(&self, units: u64) -> Option<i64> {
        let offset = self.offset.checked_mul(1_000_000_000)?;
        self.resolution?.nanoseconds(units)?.checked_add(offset)
    }
}
