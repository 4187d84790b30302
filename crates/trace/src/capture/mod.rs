//! Captures: files of packets, as a sequence of packets.
//!
//! | format | source | module |
//! |---|---|---|
//! | pcap, in microseconds and nanoseconds, both byte orders, and Alexey Kuznetsov's modified format | draft-ietf-opsawg-pcap | `pcap.rs` |
//! | pcapng | draft-ietf-opsawg-pcapng | `pcapng.rs` |
//! | ERF | Endace, ERF types reference guide | `erf.rs` |
//! | TSH | NLANR's time sequenced headers | `tsh.rs` |
//! | ITA text | Internet Traffic Archive, sanitised headers | `ita.rs` |
//!
//! A format's decoder takes records from the front of the bytes that are there, and says when it needs more. [`Capture`] drives one
//! over a file that is in memory, [`stream::Stream`] over anything that can be read, in bounded memory.
//!
//! - Times are nanoseconds since the capture's own origin (1970, where its clock was right).
//! - A packet's length is the original one; what was captured of it may be less.
//! - A record that is wrong in itself, but whose end is known, is one error, and reading goes on. In pcap it also goes on behind a record
//!   whose end is not known, where the next one is found. A file that ends within a record, and in other formats a record whose end
//!   cannot be known, are errors that end the sequence: nothing behind them can be trusted.
//!
//! The decoders are our own: they allocate nothing for a packet, and options that are wrong cost no packet.

mod captured;
mod erf;
mod ita;
mod pcap;
mod pcapng;
mod record;
pub mod stream;
mod tsh;
mod unpack;

pub use captured::{CaptureError, Captured, LinkType};
use pcap::Pcap;
use pcapng::Pcapng;
use record::{Record, Step};
use std::io::{self, Read};

/// What is packed in `data` with gzip, xz or zstd; `data` itself where nothing is. With it, the reason why the rest could not be unpacked.
pub fn unpacked(data: Vec<u8>) -> (Vec<u8>, Option<io::Error>) {
    let mark = &data[..data.len().min(unpack::MARK)];
    if !unpack::is_packed(mark) {
        return (data, None);
    }
    let mut content = Vec::new();
    let read = unpack::unpacked(mark, &data[..]).and_then(|mut source| source.read_to_end(&mut content));
    (content, read.err())
}

/// Reads a pcap or pcapng capture that is in memory.
#[derive(Clone, Debug)]
pub struct Capture<'a> {
    data: &'a [u8],
    offset: usize,
    decoder: Decoder,
    over: bool,
}

/// The formats that tell what they are.
#[derive(Clone, Debug)]
enum Decoder {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

impl<'a> Capture<'a> {
    /// Whether `data` begins as a capture does.
    pub fn is_one(data: &[u8]) -> bool {
        Capture::new(data).is_ok()
    }

    /// The capture in `data`, which is a whole file.
    ///
    /// # Errors
    /// It is none.
    pub fn new(data: &'a [u8]) -> Result<Capture<'a>, CaptureError> {
        let none = || if pcap::is_cut(data) { CaptureError::CutHeader } else { CaptureError::Format };
        let (offset, decoder) = if pcapng::is_one(data) {
            (0, Decoder::Pcapng(Pcapng::default()))
        } else {
            (pcap::HEADER, Decoder::Pcap(Pcap::new(data).ok_or_else(none)?))
        };
        Ok(Capture { data, offset, decoder, over: false })
    }
}

impl<'a> Iterator for Capture<'a> {
    type Item = Result<Captured<'a>, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.over && self.offset < self.data.len() {
            let (offset, rest) = (self.offset as u64, &self.data[self.offset..]);
            let step = match &mut self.decoder {
                Decoder::Pcap(pcap) => pcap.step(rest, offset, true),
                Decoder::Pcapng(pcapng) => pcapng.step(rest, offset, true),
            };
            match step {
                Step::Packet(used, Record { time, length, from, to, link_type }) => {
                    self.offset += used;
                    return Some(Ok(Captured { time, length, bytes: &rest[from..to], link_type }));
                }
                Step::Error(used, error) => {
                    self.offset += used;
                    self.over = error.is_last();
                    return Some(Err(error));
                }
                Step::Pass(used) if used <= rest.len() as u64 => self.offset += used as usize,
                // All of the file is there.
                Step::Pass(_) | Step::More(_) => {
                    self.over = true;
                    return Some(Err(CaptureError::Cut { offset, packet: false }));
                }
            }
        }
        None
    }
}
