//! Capture files for Wireshark and tshark: pcapng with nanoseconds.
//!
//! Source: draft-ietf-opsawg-pcapng: section header, one interface description a link (raw IP, `if_tsresol` 9), an
//! enhanced packet block a packet. Little-endian, as the magic number tells.

use std::io::{self, Write};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const MAGIC: u32 = 0x1a2b_3c4d;
/// LINKTYPE_RAW: the packet begins with its IP header.
const RAW_IP: u16 = 101;

/// Writes one capture.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a capture of these links; `comment` says what it is of.
    pub fn new(to: W, comment: &str, links: &[&str]) -> io::Result<Writer<W>> {
        let mut writer = Writer { to, block: Vec::with_capacity(2048) };
        writer.begin();
        writer.block.extend(MAGIC.to_le_bytes());
        writer.block.extend([1, 0, 0, 0]); // version 1.0
        writer.block.extend([0xff; 8]); // length of the section: not said
        writer.option(1, comment.as_bytes());
        writer.option(4, concat!("fairspan ", env!("CARGO_PKG_VERSION")).as_bytes());
        writer.option(0, &[]);
        writer.end(SECTION)?;
        for link in links {
            writer.begin();
            writer.block.extend(RAW_IP.to_le_bytes());
            writer.block.extend([0; 6]); // reserved; no limit on a packet's length
            writer.option(2, link.as_bytes());
            writer.option(9, &[9]);
            writer.option(0, &[]);
            writer.end(INTERFACE)?;
        }
        Ok(writer)
    }

    /// One packet that crossed link `interface` at `nanos` since the start, `length` bytes long, of which `bytes` are
    /// recorded.
    pub fn packet(&mut self, interface: u32, nanos: u64, bytes: &[u8], length: u32) -> io::Result<()> {
        self.begin();
        self.block.extend(interface.to_le_bytes());
        self.block.extend(((nanos >> 32) as u32).to_le_bytes());
        self.block.extend((nanos as u32).to_le_bytes());
        self.block.extend((bytes.len() as u32).to_le_bytes());
        self.block.extend(length.to_le_bytes());
        self.block.extend(bytes);
        self.pad();
        self.end(PACKET)
    }

    /// Everything is written.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }

    /// The block's type and length come when the length is known.
    fn begin(&mut self) {
        self.block.clear();
        self.block.extend([0; 8]);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.block.extend(code.to_le_bytes());
        self.block.extend((value.len() as u16).to_le_bytes());
        self.block.extend(value);
        self.pad();
    }

    fn pad(&mut self) {
        while !self.block.len().is_multiple_of(4) {
            self.block.push(0);
        }
    }

    fn end(&mut self, kind: u32) -> io::Result<()> {
        let length = (self.block.len() as u32 + 4).to_le_bytes();
        self.block[..4].copy_from_slice(&kind.to_le_bytes());
        self.block[4..8].copy_from_slice(&length);
        self.block.extend(length);
        self.to.write_all(&self.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (type, body) of each block; the length stands at both ends.
    fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |at: &[u8]| u32::from_le_bytes(at[..4].try_into().unwrap());
        let mut found = Vec::new();
        while !file.is_empty() {
            let (kind, length) = (word(file), word(&file[4..]) as usize);
            assert!(length.is_multiple_of(4) && word(&file[length - 4..]) as usize == length);
            found.push((kind, file[8..length - 4].to_vec()));
            file = &file[length..];
        }
        found
    }

    #[test]
    fn a_capture_has_a_section_its_links_and_its_packets_padded_to_words() {
        let mut writer = Writer::new(Vec::new(), "a test", &["up", "down"]).unwrap();
        writer.packet(1, 0x1_0000_0005, &[0x45, 1, 2], 1500).unwrap();
        let blocks = blocks(&writer.finish().unwrap());
        assert_eq!(blocks.iter().map(|block| block.0).collect::<Vec<_>>(), [SECTION, INTERFACE, INTERFACE, PACKET]);
        assert_eq!(&blocks[1].1[..2], &101_u16.to_le_bytes());
        assert!(blocks[2].1.windows(4).any(|bytes| bytes == b"down"));
        assert!(blocks[2].1.windows(5).any(|bytes| bytes == [9, 0, 1, 0, 9]), "nanoseconds");
        let packet = &blocks[3].1;
        assert_eq!(packet[..20], [1, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 0xdc, 5, 0, 0]);
        assert_eq!(packet[20..], [0x45, 1, 2, 0]);
    }
}
