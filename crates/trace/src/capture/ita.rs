//! ITA text: a packet a line, `time source destination sport dport bytes`.
//!
//! Source: the Internet Traffic Archive's sanitised traces, such as DEC-PKT and LBL-PKT. The time is in seconds with a fraction;
//! addresses are numbers in place of the true ones, or in the usual form; further columns are not looked at. Lines
//! that are empty or begin with `#` are passed over. Which protocol it is stands in the file's name alone: UDP where it
//! ends in `.udp`, else TCP. The number of bytes is taken as the packet's length as it stands, though the archive counts what
//! the packet carried.
//!
//! A packet is given as the beginning of an IPv4 packet: addresses, protocol, ports.

use super::captured::CaptureError;
use super::record::{Record, Step, wait};
use std::net::Ipv4Addr;

/// Longest line.
const LONGEST: usize = 4096;
const PACKET: usize = 24;

/// Takes lines apart.
#[derive(Clone, Debug)]
pub(super) struct Ita {
    /// What the line at hand says, as a packet.
    pub(super) packet: [u8; PACKET],
}

/// What a line says.
struct Line {
    time: i64,
    length: u32,
    addresses: [u32; 2],
    ports: [u16; 2],
}

/// Whether `data` begins with a line of this format.
pub(super) fn is_likely(data: &[u8]) -> bool {
    let mut lines = data.split(|byte| *byte == b'\n');
    lines.find(|line| !is_comment(line)).is_some_and(|line| read(line).is_some())
}

fn is_comment(line: &[u8]) -> bool {
    matches!(line.trim_ascii(), [] | [b'#', ..])
}

impl Ita {
    pub(super) fn new(protocol: u8) -> Ita {
        let mut packet = [0; PACKET];
        (packet[0], packet[8], packet[9]) = (0x45, 64, protocol);
        Ita { packet }
    }

    /// A packet's place is in [`Ita::packet`].
    pub(super) fn step(&mut self, data: &[u8], offset: u64, last: bool) -> Step {
        let end = data.iter().take(LONGEST).position(|byte| *byte == b'\n');
        let (line, used) = match end {
            Some(end) => (&data[..end], end + 1),
            None if data.len() >= LONGEST => return Step::Error(LONGEST, CaptureError::Line { offset }),
            None if last => (data, data.len()),
            None => return wait(data.len(), data.len() + 1, offset, last, true),
        };
        if is_comment(line) {
            return Step::Pass(used as u64);
        }
        let Some(line) = read(line) else { return Step::Error(used, CaptureError::Line { offset }) };
        let [source, destination] = line.addresses.map(u32::to_be_bytes);
        let [from, to] = line.ports.map(u16::to_be_bytes);
        for (place, part) in [(12, &source[..]), (16, &destination), (20, &from), (22, &to)] {
            self.packet[place..place + part.len()].copy_from_slice(part);
        }
        let (time, length) = (line.time, line.length);
        Step::Packet(used, Record { time, length, from: 0, to: PACKET, link_type: 101 })
    }
}

fn read(line: &[u8]) -> Option<Line> {
    let mut fields = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let (seconds, part) = fields.next().map(|time| time.split_once('.').unwrap_or((time, "")))?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty() || !digits(seconds) || !digits(part) {
        return None;
    }
    let seconds = seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?;
    let part =
        part.bytes().chain(std::iter::repeat(b'0')).take(9).fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    let mut address = || {
        let field = fields.next()?;
        field.parse().ok().or_else(|| field.parse::<Ipv4Addr>().ok().map(u32::from))
    };
    let addresses = [address()?, address()?];
    let ports = [fields.next()?.parse().ok()?, fields.next()?.parse().ok()?];
    Some(Line { time: seconds.checked_add(part)?, length: fields.next()?.parse().ok()?, addresses, ports })
}
