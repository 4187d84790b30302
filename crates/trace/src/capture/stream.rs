//! A capture of any format, packed or not, from whatever can be read, in bounded memory.
//!
//! What it is: a window on the source, from whose front a format's decoder takes records. The window grows up to the longest
//! record that there may be. Cost: bytes are copied once from the source, and what is left of a window once when it is
//! refilled; nothing is allocated for a packet.

use super::captured::{CaptureError, Captured};
use super::erf::{self, Erf};
use super::pcap::{self, Pcap};
use super::pcapng::{self, Pcapng};
use super::record::{Record, Step};
use super::unpack::{self, unpacked};
use super::{ita, tsh};
use fairspan_core::ip;
use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

/// What a window has room for at first.
const WINDOW: usize = 1 << 18;
/// What is looked at to tell the format.
const HEAD: usize = 1 << 12;

/// A format of captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcap.
    Pcap,
    /// pcapng.
    Pcapng,
    /// Endace's.
    Erf,
    /// NLANR's time sequenced headers.
    Tsh,
    /// The Internet Traffic Archive's lines of text.
    Ita,
}

/// No format of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no format of captures; there are pcap, pcapng, erf, tsh and ita")]
pub struct NoFormat;

impl FromStr for Format {
    type Err = NoFormat;

    fn from_str(text: &str) -> Result<Format, NoFormat> {
        Ok(match text {
            "pcap" => Format::Pcap,
            "pcapng" => Format::Pcapng,
            "erf" => Format::Erf,
            "tsh" => Format::Tsh,
            "ita" => Format::Ita,
            _ => return Err(NoFormat),
        })
    }
}

enum Decoder {
    Pcap(Pcap),
    Pcapng(Pcapng),
    Erf(Erf),
    Tsh,
    Ita(ita::Ita),
}

/// A capture that is being read.
pub struct Stream<'a> {
    source: Box<dyn Read + 'a>,
    decoder: Decoder,
    window: Vec<u8>,
    /// What is at hand in the window.
    from: usize,
    to: usize,
    /// Where in the capture the window's `from` is.
    offset: u64,
    /// Nothing more comes.
    ended: bool,
    /// Why not, if that is not the end of the file.
    trouble: Option<String>,
    over: bool,
    /// There was a packet, or something that stands for one.
    any: bool,
    /// The packet at hand, in the window from `start` on.
    record: Record,
    start: usize,
}

impl fmt::Debug for Stream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("offset", &self.offset).field("record", &self.record).finish_non_exhaustive()
    }
}

impl<'a> Stream<'a> {
    /// Begins to read `source`. Its format is found out where it is not given, by how it begins, and by its `name`, which may
    /// be empty. It may be packed.
    ///
    /// # Errors
    /// It cannot be read, or it is no capture.
    pub fn open(mut source: impl Read + 'a, name: &str, format: Option<Format>) -> Result<Stream<'a>, CaptureError> {
        let unreadable = |error: io::Error| CaptureError::Unreadable { offset: 0, reason: error.to_string() };
        let mut mark = vec![0; unpack::MARK];
        let there = fill(&mut source, &mut mark).map_err(|(_, error)| unreadable(error))?;
        mark.truncate(there);
        let source = unpacked(&mark, io::Cursor::new(mark.clone()).chain(source)).map_err(unreadable)?;
        let mut stream = Stream {
            source,
            decoder: Decoder::Tsh,
            window: vec![0; WINDOW],
            from: 0,
            to: 0,
            offset: 0,
            ended: false,
            trouble: None,
            over: false,
            any: false,
            record: Record { time: 0, length: 0, from: 0, to: 0, link_type: 0 },
            start: 0,
        };
        stream.want(pcap::HEADER);
        let data = stream.at_hand();
        let told = if pcapng::is_one(data) { Some(Format::Pcapng) } else { Pcap::new(data).map(|_| Format::Pcap) };
        let format = match format.or(told) {
            Some(format) => format,
            None => {
                stream.want(HEAD);
                guess(stream.at_hand(), name).ok_or_else(|| match stream.trouble.take() {
                    Some(reason) => CaptureError::Unreadable { offset: stream.to as u64, reason },
                    None => none(stream.at_hand()),
                })?
            }
        };
        stream.decoder = match format {
            Format::Pcap => {
                let pcap = Pcap::new(stream.at_hand()).ok_or_else(|| none(stream.at_hand()))?;
                stream.take(pcap::HEADER);
                Decoder::Pcap(pcap)
            }
            Format::Pcapng => Decoder::Pcapng(Pcapng::default()),
            Format::Erf => Decoder::Erf(Erf::default()),
            Format::Tsh => Decoder::Tsh,
            Format::Ita => Decoder::Ita(ita::Ita::new(if plain(name).ends_with(".udp") { ip::UDP } else { ip::TCP })),
        };
        Ok(stream)
    }

    /// Goes on to the next packet, which [`packet`](Stream::packet) then gives; false: there is none.
    ///
    /// # Errors
    /// What cannot be read. Reading goes on behind it, until there is no packet any more.
    #[inline]
    pub fn advance(&mut self) -> Result<bool, CaptureError> {
        while !self.over {
            let data = &self.window[self.from..self.to];
            if data.is_empty() {
                if self.ended {
                    break;
                }
                self.want(1);
                continue;
            }
            let (offset, last) = (self.offset, self.ended);
            let step = match &mut self.decoder {
                Decoder::Pcap(pcap) => pcap.step(data, offset, last),
                Decoder::Pcapng(pcapng) => pcapng.step(data, offset, last),
                Decoder::Erf(erf) => erf.step(data, offset, last),
                Decoder::Tsh => tsh::step(data, offset, last),
                Decoder::Ita(ita) => ita.step(data, offset, last),
            };
            match step {
                Step::Packet(used, record) => {
                    (self.record, self.start) = (record, self.from);
                    self.take(used);
                    self.any = true;
                    return Ok(true);
                }
                Step::Pass(used) => self.pass(used)?,
                Step::More(length) => self.want(length),
                Step::Error(used, error) => {
                    self.take(used);
                    self.any = true;
                    // What cannot be unpacked is told next.
                    self.over = error.is_last() && self.trouble.is_none();
                    return Err(error);
                }
            }
        }
        self.over = true;
        match self.trouble.take() {
            Some(reason) => Err(CaptureError::Unreadable { offset: self.offset, reason }),
            None => Ok(false),
        }
    }

    /// The packet that was last advanced to.
    #[inline]
    pub fn packet(&self) -> Captured<'_> {
        let Record { time, length, from, to, link_type } = self.record;
        let bytes = match &self.decoder {
            Decoder::Ita(ita) => &ita.packet[from..to],
            _ => &self.window[self.start + from..self.start + to],
        };
        Captured { time, length, bytes, link_type }
    }

    /// Whether nothing of it was a packet, or part of one.
    pub fn is_without_packets(&self) -> bool {
        !self.any
    }

    /// Its time.
    #[inline]
    pub fn time(&self) -> i64 {
        self.record.time
    }

    fn at_hand(&self) -> &[u8] {
        &self.window[self.from..self.to]
    }

    fn take(&mut self, used: usize) {
        self.from += used;
        self.offset += used as u64;
    }

    /// Passes over so many bytes, which need not be at hand.
    fn pass(&mut self, used: u64) -> Result<(), CaptureError> {
        let offset = self.offset;
        let mut left = used;
        loop {
            let now = left.min((self.to - self.from) as u64) as usize;
            self.take(now);
            left -= now as u64;
            if left == 0 {
                return Ok(());
            }
            if self.ended {
                self.over = self.trouble.is_none();
                return if self.over { Err(CaptureError::Cut { offset, packet: false }) } else { Ok(()) };
            }
            self.want(1);
        }
    }

    /// Reads until so many bytes are at hand, or nothing more comes.
    #[cold]
    fn want(&mut self, length: usize) {
        self.window.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        if length > self.window.len() {
            self.window.resize(length.next_power_of_two(), 0);
        }
        while self.to < length && !self.ended {
            match self.source.read(&mut self.window[self.to..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.to += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => (self.ended, self.trouble) = (true, Some(error.to_string())),
            }
        }
    }
}

/// Why this, which is all of a file or more than enough, is no capture.
fn none(data: &[u8]) -> CaptureError {
    match data {
        [] => CaptureError::Empty,
        _ if pcap::is_cut(data) => CaptureError::CutHeader,
        _ => CaptureError::NoFormat,
    }
}

/// Reads until `buffer` is full or nothing more comes.
fn fill(source: &mut impl Read, buffer: &mut [u8]) -> Result<usize, (usize, io::Error)> {
    let mut there = 0;
    while there < buffer.len() {
        match source.read(&mut buffer[there..]) {
            Ok(0) => break,
            Ok(read) => there += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((there, error)),
        }
    }
    Ok(there)
}

/// A file's name without what says that it is packed.
fn plain(name: &str) -> &str {
    [".gz", ".xz", ".zst"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// What has no mark of its own.
fn guess(data: &[u8], name: &str) -> Option<Format> {
    let ending = Path::new(plain(name)).extension().and_then(|ending| ending.to_str());
    match ending {
        Some("erf") if data.len() >= 16 => Some(Format::Erf),
        Some("tsh") if data.len() >= 8 => Some(Format::Tsh),
        _ if ita::is_likely(data) => Some(Format::Ita),
        _ if tsh::is_likely(data) => Some(Format::Tsh),
        _ if erf::is_likely(data) => Some(Format::Erf),
        _ => None,
    }
}
