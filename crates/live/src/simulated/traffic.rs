//! What the hosts send each other through their daemons, and the judge of what arrives.
//!
//! Every byte of a packet follows from its flow and its number, so that the judge knows it without having kept it.

use super::host::Unit;
use crate::offload::{VnetHeader, split};
use crate::pool::PacketBuf;
use fairspan_core::rng::Rng;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// What must never be, and was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) what: What,
    pub(super) host: usize,
    /// In nanoseconds of virtual time.
    pub(super) at: u64,
    pub(super) detail: String,
}

/// Which promise was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A byte was delivered that was not sent.
    NeverSent,
    /// A packet was delivered twice.
    Twice,
    /// A packet was delivered behind a later one of its flow, where the mode keeps order.
    Order,
    /// A packet was in the bonds for longer than their settings allow.
    Stale,
    /// After the last fault, packets did not pass again in the time that the settings allow.
    Stuck,
    /// A daemon took more memory than its bounds.
    Memory,
    /// What a process left behind keeps the next one from starting.
    Blocked,
    /// A process that stopped in order left something behind.
    Leftover,
    /// A daemon panicked, or ended for no reason of the host's.
    Ended,
    /// A daemon works without end at one moment.
    Spins,
}

/// What packets of one direction between two hosts have in common.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) from: usize,
    pub(super) to: usize,
    number: u16,
    six: bool,
    /// The mode keeps it in order.
    ordered: bool,
    /// By number: length, when the daemon read it, whether it arrived.
    packets: Vec<Packet>,
    newest: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    len: u16,
    read: Option<u64>,
    arrived: bool,
}

/// The address of a host inside.
pub(super) fn inner(host: usize, six: bool) -> IpAddr {
    if six {
        Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1 + host as u16).into()
    } else {
        Ipv4Addr::new(10, 77, 0, 1 + host as u8).into()
    }
}

const UDP: u8 = 17;
const FIRST_PORT: u16 = 40_000;
/// The least packet that holds its flow and number behind its headers.
const LEAST: usize = 48 + 16;

impl Flow {
    pub(super) fn new(from: usize, to: usize, number: u16, six: bool, ordered: bool) -> Flow {
        Flow { from, to, number, six, ordered, packets: Vec::new(), newest: None }
    }

    /// Whether it is to be in order from now on.
    pub(super) fn set_ordered(&mut self, ordered: bool) {
        self.ordered = ordered;
    }

    pub(super) fn is_six(&self) -> bool {
        self.six
    }

    pub(super) fn count(&self) -> u64 {
        self.packets.len() as u64
    }

    /// The highest number that arrived.
    pub(super) fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// How many of these arrived.
    pub(super) fn arrived(&self, numbers: Range<u64>) -> u64 {
        let range = numbers.start as usize..(numbers.end as usize).min(self.packets.len());
        self.packets[range].iter().filter(|packet| packet.arrived).count() as u64
    }

    pub(super) fn on_read(&mut self, now: u64, numbers: Range<u64>) {
        for number in numbers {
            self.packets[number as usize].read = Some(now);
        }
    }

    /// A packet of the flow's form that nobody sent.
    pub(super) fn forged(&self) -> Vec<u8> {
        let packets = vec![Packet { len: 200, read: None, arrived: false }; self.packets.len() + 1];
        let other = Flow { packets, newest: None, ..*self };
        other.packet(self.count())
    }

    fn headers(&self) -> usize {
        if self.six { 48 } else { 28 }
    }

    /// The packet of that number.
    fn packet(&self, number: u64) -> Vec<u8> {
        let len = usize::from(self.packets[number as usize].len);
        let mut packet = vec![0; len];
        let headers = self.headers();
        let (source, destination) = (inner(self.from, self.six), inner(self.to, self.six));
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                packet[0] = 0x45;
                packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
                packet[4..6].copy_from_slice(&(number as u16).to_be_bytes());
                packet[6] = 0x40;
                (packet[8], packet[9]) = (64, UDP);
                packet[12..16].copy_from_slice(&source.octets());
                packet[16..20].copy_from_slice(&destination.octets());
                let sum = !fold(sum(&packet[..20]));
                packet[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                packet[0] = 0x60;
                packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
                (packet[6], packet[7]) = (UDP, 64);
                packet[8..24].copy_from_slice(&source.octets());
                packet[24..40].copy_from_slice(&destination.octets());
            }
            _ => unreachable!("both are of the flow's family"),
        }
        let udp = &mut packet[headers - 8..];
        let udp_len = udp.len();
        let port = (FIRST_PORT + self.number).to_be_bytes();
        udp[..2].copy_from_slice(&port);
        udp[2..4].copy_from_slice(&port);
        udp[4..6].copy_from_slice(&(udp_len as u16).to_be_bytes());
        udp[8..16].copy_from_slice(&number.to_be_bytes());
        let mut filler =
            Rng::new(number << 20 ^ (self.from as u64) << 12 ^ (self.to as u64) << 4 ^ u64::from(self.number));
        let first = filler.next_u64();
        let mut word = first;
        for chunk in udp[16..].as_chunks_mut::<8>().0 {
            word = word.rotate_left(1).wrapping_add(first);
            *chunk = word.to_be_bytes();
        }
        let pseudo = self.pseudo(udp_len);
        let udp = &mut packet[headers - 8..];
        let checksum = match !fold(sum(udp) + pseudo) {
            0 => 0xffff,
            other => other,
        };
        udp[6..8].copy_from_slice(&checksum.to_be_bytes());
        packet
    }

    /// The sum over the pseudo header.
    fn pseudo(&self, udp_len: usize) -> u64 {
        let addresses = [inner(self.from, self.six), inner(self.to, self.six)];
        let of = |address: IpAddr| match address {
            IpAddr::V4(a) => sum(&a.octets()),
            IpAddr::V6(a) => sum(&a.octets()),
        };
        addresses.into_iter().map(of).sum::<u64>() + u64::from(UDP) + udp_len as u64
    }

    /// The next `count` packets of `len` bytes, as the host hands them to its interface: in one unit where that takes such.
    pub(super) fn send(&mut self, flow: usize, len: usize, count: usize, segments: bool, partial: bool) -> Vec<Unit> {
        let first = self.count();
        let len = len.clamp(LEAST, usize::from(u16::MAX));
        let packet = Packet { len: len as u16, read: None, arrived: false };
        let most = ((65_000 - self.headers()) / (len - self.headers())).min(64);
        let count = if segments { count.min(most) } else { count };
        self.packets.extend(std::iter::repeat_n(packet, count));
        let numbers = first..first + count as u64;
        if segments && count > 1 {
            return vec![self.unit(flow, numbers, len - self.headers())];
        }
        numbers.map(|number| self.single(flow, number, partial)).collect()
    }

    fn single(&self, flow: usize, number: u64, partial: bool) -> Unit {
        let mut bytes = self.packet(number);
        let header = if partial { self.make_partial(&mut bytes) } else { VnetHeader::default() };
        Unit { header, bytes, flow, numbers: number..number + 1 }
    }

    /// Leaves the checksum to the device.
    fn make_partial(&self, bytes: &mut [u8]) -> VnetHeader {
        let udp = self.headers() - 8;
        let pseudo = fold(self.pseudo(bytes.len() - udp));
        bytes[udp + 6..udp + 8].copy_from_slice(&pseudo.to_be_bytes());
        VnetHeader {
            flags: VnetHeader::NEEDS_CSUM,
            gso_type: VnetHeader::GSO_NONE,
            hdr_len: self.headers() as u16,
            gso_size: 0,
            csum_start: udp as u16,
            csum_offset: 6,
        }
    }

    /// Packets of one size as one unit, which the device splits.
    fn unit(&self, flow: usize, numbers: Range<u64>, payload: usize) -> Unit {
        let mut bytes = self.packet(numbers.start);
        for number in numbers.start + 1..numbers.end {
            bytes.extend_from_slice(&self.packet(number)[self.headers()..]);
        }
        let len = bytes.len();
        if self.six {
            bytes[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        } else {
            bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            bytes[10..12].fill(0);
            let sum = !fold(sum(&bytes[..20]));
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        let udp = self.headers() - 8;
        let udp_len = ((len - udp) as u16).to_be_bytes();
        bytes[udp + 4..udp + 6].copy_from_slice(&udp_len);
        let mut header = self.make_partial(&mut bytes);
        (header.gso_type, header.gso_size) = (VnetHeader::GSO_UDP_L4, payload as u16);
        Unit { header, bytes, flow, numbers }
    }
}

fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum = 0;
    for word in words {
        sum += u64::from(u32::from_be_bytes(*word));
    }
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum + u64::from(u32::from_be_bytes(last))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The packets of a unit that a daemon wrote, their checksums finished.
pub(super) fn packets_of(header: &VnetHeader, unit: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut sink = |packet: PacketBuf| packets.push(packet.as_slice().to_vec());
    match split(header, unit, false, &mut sink) {
        Ok(_) => packets,
        // The judge says what it thinks of that.
        Err(_) => vec![unit.to_vec()],
    }
}

/// What came of a packet that was delivered.
pub(super) enum Judged {
    /// The packet of that flow, number and age.
    Fine(usize, u64, u64),
    /// The daemon's own word to its host: a packet was too big.
    Own,
    Broken(What, String),
}

/// Judges a packet that `host` got at `now`; it may have been under way for `age` since its daemon read it.
pub(super) fn judge(flows: &mut [Flow], host: usize, now: u64, age: u64, packet: &[u8]) -> Judged {
    if is_too_big(packet, host) {
        return Judged::Own;
    }
    let unknown = |why: &str| {
        let shown = &packet[..packet.len().min(64)];
        Judged::Broken(What::NeverSent, format!("{why}: {} bytes, {shown:02x?}", packet.len()))
    };
    let six = packet.first().is_some_and(|first| first >> 4 == 6);
    let headers = if six { 48 } else { 28 };
    let Some(body) = packet.get(headers..) else { return unknown("no packet of a flow") };
    let (Some(number), port) = (body.first_chunk(), [packet[headers - 6], packet[headers - 5]]) else {
        return unknown("no number");
    };
    let (number, port) = (u64::from_be_bytes(*number), u16::from_be_bytes(port));
    let place = flows.iter().position(|flow| {
        let is_from = if six {
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&packet[8..24]).expect("16 bytes")))
        } else {
            IpAddr::V4(Ipv4Addr::new(packet[12], packet[13], packet[14], packet[15]))
        };
        flow.six == six
            && flow.to == host
            && Some(flow.number) == port.checked_sub(FIRST_PORT)
            && inner(flow.from, six) == is_from
    });
    let Some(place) = place else { return unknown("no such flow to this host") };
    let flow = &mut flows[place];
    if number >= flow.count() {
        return unknown("a number that was not sent yet");
    }
    let sent = flow.packet(number);
    if sent != packet {
        let differs = sent.iter().zip(packet).position(|(a, b)| a != b);
        return unknown(&format!("number {number} differs at {differs:?} of {}", sent.len()));
    }
    let record = &mut flow.packets[number as usize];
    let said =
        |what, why: String| Judged::Broken(what, format!("flow {place} from {}, number {number}: {why}", flow.from));
    let Some(read) = record.read else {
        return said(What::NeverSent, "its daemon never read it".to_owned());
    };
    if std::mem::replace(&mut record.arrived, true) {
        return said(What::Twice, format!("read at {read}"));
    }
    if let Some(newest) = flow.newest.filter(|newest| flow.ordered && *newest > number) {
        return said(What::Order, format!("behind {newest}"));
    }
    if now - read > age {
        return said(What::Stale, format!("{} ms old, at most {} ms", (now - read) / 1_000_000, age / 1_000_000));
    }
    flow.newest = flow.newest.max(Some(number));
    Judged::Fine(place, number, now - read)
}

/// Whether it is the ICMP error with which a daemon refuses a packet of its host.
fn is_too_big(packet: &[u8], host: usize) -> bool {
    let quoted = match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() > 48 && packet[9] == 1 && packet[20..22] == [3, 4] => &packet[28..],
        Some(6) if packet.len() > 88 && packet[6] == 58 && packet[40..42] == [2, 0] => &packet[48..],
        _ => return false,
    };
    match inner(host, quoted[0] >> 4 == 6) {
        IpAddr::V4(a) => quoted[12..16] == a.octets(),
        IpAddr::V6(a) => quoted[8..24] == a.octets(),
    }
}
