//! What captures hold: packets, bytes, protocols, sizes, time, rates of arrival.
//!
//! Bytes are those on the wire. Sizes are exact up to 4095 bytes, and above that a percentile is told within 1 in 64. Rates are those
//! of seconds, counted from the first packet on. Memory is fixed, however long the capture.

use crate::capture::{CaptureError, Captured, LinkType};
use crate::link_type::network;
use crate::skipped::{Reason, Tally};
use fairspan_core::flow::Key;
use fairspan_core::ip;
use std::collections::BTreeMap;

const EXACT: usize = 4096;
/// Places for each doubling above.
const PARTS: usize = 64;
const SECOND: i64 = 1_000_000_000;

/// Packets, and their bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Volume {
    fn add(&mut self, length: u32) {
        self.packets += 1;
        self.bytes += u64::from(length);
    }
}

/// What was seen so far.
#[derive(Clone, Debug)]
pub struct Info {
    tally: Tally,
    all: Volume,
    v4: Volume,
    v6: Volume,
    fragments: u64,
    snapped: u64,
    protocols: Box<[Volume; 256]>,
    link_types: BTreeMap<LinkType, Volume>,
    first: Option<i64>,
    last: i64,
    sizes: Vec<u64>,
    smallest: u32,
    largest: u32,
    second: i64,
    this: Volume,
    busiest: Volume,
}

impl Default for Info {
    fn default() -> Info {
        Info {
            tally: Tally::default(),
            all: Volume::default(),
            v4: Volume::default(),
            v6: Volume::default(),
            fragments: 0,
            snapped: 0,
            protocols: Box::new([Volume::default(); 256]),
            link_types: BTreeMap::new(),
            first: None,
            last: 0,
            sizes: vec![0; EXACT + 20 * PARTS],
            smallest: u32::MAX,
            largest: 0,
            second: 0,
            this: Volume::default(),
            busiest: Volume::default(),
        }
    }
}

/// The place of a size.
fn place(size: u32) -> usize {
    let size = size as usize;
    if size < EXACT {
        return size;
    }
    let doublings = (size / EXACT).ilog2() as usize;
    EXACT + doublings * PARTS + ((size >> (EXACT.ilog2() as usize + doublings - PARTS.ilog2() as usize)) & (PARTS - 1))
}

/// The least size of a place.
fn size_of(place: usize) -> u32 {
    if place < EXACT {
        return place as u32;
    }
    let (doublings, part) = ((place - EXACT) / PARTS, (place - EXACT) % PARTS);
    ((PARTS + part) << (EXACT.ilog2() as usize + doublings - PARTS.ilog2() as usize)) as u32
}

impl Info {
    /// Takes a packet, whose time is not before the last one's.
    pub fn packet(&mut self, packet: &Captured<'_>) {
        let &Captured { time, length, bytes, link_type } = packet;
        self.all.add(length);
        self.link_types.entry(link_type).or_default().add(length);
        self.snapped += u64::from((bytes.len() as u64) < u64::from(length));
        self.sizes[place(length)] += 1;
        (self.smallest, self.largest) = (self.smallest.min(length), self.largest.max(length));
        let first = *self.first.get_or_insert(time);
        self.last = time;
        let second = time.saturating_sub(first) / SECOND;
        if second != self.second {
            (self.second, self.this) = (second, Volume::default());
        }
        self.this.add(length);
        self.busiest.packets = self.busiest.packets.max(self.this.packets);
        self.busiest.bytes = self.busiest.bytes.max(self.this.bytes);
        let ip = match network(link_type, bytes) {
            Ok(start) => &bytes[start..],
            Err(why) => return self.tally.skip(why.into()),
        };
        // A header that is shorter than it can be tells its protocol all the same.
        let Some(key) = Key::read(ip).or_else(|| Key::plain(ip)) else {
            return self.tally.skip(Reason::of_header(ip));
        };
        self.tally.classify();
        match key.version {
            ip::Version::V4 => self.v4.add(length),
            ip::Version::V6 => self.v6.add(length),
        }
        self.fragments += u64::from(key.piece != ip::Piece::Whole);
        self.protocols[usize::from(key.protocol)].add(length);
    }

    /// Counts what cannot be read.
    pub fn unreadable(&mut self, error: &CaptureError) {
        if let Some(reason) = Reason::of(error) {
            self.tally.skip(reason);
        }
    }

    /// How many packets there were.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// All packets that could be read.
    pub fn all(&self) -> Volume {
        self.all
    }

    /// Packets of IPv4 and of IPv6.
    pub fn versions(&self) -> [Volume; 2] {
        [self.v4, self.v6]
    }

    /// Packets that are fragments.
    pub fn fragments(&self) -> u64 {
        self.fragments
    }

    /// Packets of which not all was captured.
    pub fn snapped(&self) -> u64 {
        self.snapped
    }

    /// The protocols behind IP that were met, by number.
    pub fn protocols(&self) -> impl Iterator<Item = (u8, Volume)> + '_ {
        (0..=255).zip(self.protocols.iter().copied()).filter(|(_, volume)| volume.packets > 0)
    }

    /// The link types that were met.
    pub fn link_types(&self) -> impl Iterator<Item = (LinkType, Volume)> + '_ {
        self.link_types.iter().map(|(link_type, volume)| (*link_type, *volume))
    }

    /// Times of the first packet and the last one, in nanoseconds since the captures' origin.
    pub fn times(&self) -> Option<(i64, i64)> {
        self.first.map(|first| (first, self.last))
    }

    /// The sizes of the smallest and the largest packet, in bytes.
    pub fn extremes(&self) -> Option<(u32, u32)> {
        (self.all.packets > 0).then_some((self.smallest, self.largest))
    }

    /// The size below or at which such a share of all packets is.
    pub fn percentile(&self, share: f64) -> Option<u32> {
        let wanted = ((self.all.packets as f64 * share).ceil() as u64).max(1);
        let mut so_far = 0;
        let place = self.sizes.iter().position(|packets| {
            so_far += packets;
            so_far >= wanted
        })?;
        Some(size_of(place).clamp(self.smallest, self.largest))
    }

    /// The most packets, and the most bytes, of one second.
    pub fn busiest(&self) -> Volume {
        self.busiest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_a_place_whose_least_size_is_within_a_64th() {
        for size in (0..20_000).chain((15..32).flat_map(|power| [(1_u32 << power) - 1, 1 << power, (1 << power) + 77]))
        {
            let least = size_of(place(size));
            assert!(least <= size && size - least <= size / 64, "{size}: {least}");
        }
        assert!(place(u32::MAX) < EXACT + 20 * PARTS);
    }
}
