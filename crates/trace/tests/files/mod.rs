//! Captures made byte by byte, and where others are.

#![allow(dead_code, reason = "each test program uses its own part")]

use std::path::{Path, PathBuf};

/// Writes captures in one byte order.
#[derive(Clone, Copy)]
pub(crate) struct Order {
    pub(crate) big: bool,
}

impl Order {
    pub(crate) fn short(self, value: u16) -> [u8; 2] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }
    pub(crate) fn word(self, value: u32) -> [u8; 4] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    pub(crate) fn pcap(self, magic: u32, link_type: u32, frames: &[(u32, u32, u32, &[u8])]) -> Vec<u8> {
        let mut file = Vec::new();
        file.extend(self.word(magic));
        file.extend([self.short(2), self.short(4)].concat());
        [0, 0, 65_535, link_type].iter().for_each(|&word| file.extend(self.word(word)));
        for &(seconds, part, length, bytes) in frames {
            [seconds, part, bytes.len() as u32, length].iter().for_each(|&word| file.extend(self.word(word)));
            file.extend(bytes);
        }
        file
    }

    pub(crate) fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let padded = body.len().next_multiple_of(4);
        let length = self.word(padded as u32 + 12);
        let mut block = [self.word(kind), length].concat();
        block.extend(body);
        block.resize(8 + padded, 0);
        block.extend(length);
        block
    }

    pub(crate) fn section(self) -> Vec<u8> {
        let mut body = self.word(0x1a2b_3c4d).to_vec();
        body.extend([self.short(1), self.short(0)].concat());
        body.extend([0xff; 8]);
        self.block(0x0a0d_0d0a, &body)
    }

    pub(crate) fn interface(self, link_type: u16, snap: u32, resolution: Option<u8>, offset: i64) -> Vec<u8> {
        let mut body = [self.short(link_type), self.short(0)].concat();
        body.extend(self.word(snap));
        if let Some(resolution) = resolution {
            body.extend([self.short(9), self.short(1)].concat());
            body.extend([resolution, 0, 0, 0]);
        }
        body.extend([self.short(14), self.short(8)].concat());
        body.extend(if self.big { offset.to_be_bytes() } else { offset.to_le_bytes() });
        body.extend([0; 4]);
        self.block(1, &body)
    }

    pub(crate) fn packet(self, interface: u32, units: u64, length: u32, bytes: &[u8]) -> Vec<u8> {
        let words = [interface, (units >> 32) as u32, units as u32, bytes.len() as u32, length];
        let mut body: Vec<u8> = words.iter().flat_map(|&word| self.word(word)).collect();
        body.extend(bytes);
        self.block(6, &body)
    }
}

pub(crate) const ORDERS: [Order; 2] = [Order { big: false }, Order { big: true }];

/// A record of ERF: Ethernet, with or without extension headers.
pub(crate) fn erf(seconds: u32, extensions: usize, length: u16, frame: &[u8]) -> Vec<u8> {
    let size = 16 + 8 * extensions + 2 + frame.len();
    let mut record = (u64::from(seconds) << 32 | 1 << 31).to_le_bytes().to_vec();
    record.extend([if extensions > 0 { 0x82 } else { 2 }, 4]);
    record.extend((size as u16).to_be_bytes());
    record.extend([0, 0]);
    record.extend(length.to_be_bytes());
    for left in (0..extensions).rev() {
        record.extend([if left > 0 { 0x83 } else { 3 }, 0, 0, 0, 0, 0, 0, 0]);
    }
    record.extend([0, 0]);
    record.extend(frame);
    record
}

/// A record of TSH.
pub(crate) fn tsh(seconds: u32, microseconds: u32, packet: &[u8; 36]) -> Vec<u8> {
    let mut record = seconds.to_be_bytes().to_vec();
    record.extend((microseconds | 1 << 24).to_be_bytes());
    record.extend(packet);
    record
}

/// The first 36 bytes of an IPv4 packet with TCP.
pub(crate) fn ip(source: u8, destination: u8, ports: [u16; 2], length: u16) -> [u8; 36] {
    let mut packet = [0; 36];
    (packet[0], packet[9]) = (0x45, 6);
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    (packet[12], packet[15], packet[16], packet[19]) = (10, source, 10, destination);
    packet[20..22].copy_from_slice(&ports[0].to_be_bytes());
    packet[22..24].copy_from_slice(&ports[1].to_be_bytes());
    packet
}

/// The captures outside the project, where they are.
pub(crate) fn test_data() -> Option<PathBuf> {
    let root = std::env::var_os("FAIRSPAN_TESTDATA").map(PathBuf::from);
    let root = root.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    let traces = root.join("traces");
    if !traces.is_dir() {
        println!("skipped: no test data");
        return None;
    }
    Some(traces)
}
