//! Watches one TCP flow where an interface hands packets to the host.
//!
//! A packet socket in the namespace sees every IPv4 packet as it enters the stack, before IP does. A filter in the
//! kernel (classic BPF) passes only the flow's packets, and only their headers, so that traffic is not slowed: the
//! outer datagrams of the tunnel are refused there, and what is left came out of the TUN.

use super::sequence::{Reordering, SequenceWatch};
use crate::testbed::Namespace;
use anyhow::{Context, Result};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// ETH_P_IP in network byte order, as packet sockets want it.
const IPV4: i32 = 0x0800_u16.to_be() as i32;
/// Bytes of each packet that are copied: an IPv4 and a TCP header with all options.
const SNAP: u32 = 120;

/// A running watch over the flow to one TCP port.
#[derive(Debug)]
pub(crate) struct Watch {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Reordering>>,
}

impl Watch {
    /// Starts to watch TCP over IPv4 to `port` in `namespace`.
    pub(crate) fn start(namespace: &Namespace, port: u16) -> Result<Watch> {
        let socket = namespace
            .enter(|| Ok(Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(IPV4)))?))
            .context("cannot make a packet socket")?;
        socket.attach_filter(&filter(port)).context("cannot attach the packet filter")?;
        // More than the default limit may be refused silently; the byte count tells if packets were missed.
        socket.set_recv_buffer_size(8 << 20)?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let thread = std::thread::spawn(move || watch(socket, &stop));
        Ok(Watch { over, thread: Some(thread) })
    }

    /// Stops and says what was seen.
    pub(crate) fn stop(mut self) -> Reordering {
        self.over.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(seen)) => seen,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Reordering::default(),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Passes unfragmented IPv4 TCP packets to `port`, cut to [`SNAP`] bytes.
fn filter(port: u16) -> [SockFilter; 9] {
    let (load_byte, load_half, load_half_indexed, load_header_length) = (0x30, 0x28, 0x48, 0xb1);
    let (jump_if_equal, jump_if_any_bit, give) = (0x15, 0x45, 0x06);
    [
        SockFilter::new(load_byte, 0, 0, 9),
        SockFilter::new(jump_if_equal, 0, 6, 6),
        SockFilter::new(load_half, 0, 0, 6),
        SockFilter::new(jump_if_any_bit, 4, 0, 0x1fff),
        SockFilter::new(load_header_length, 0, 0, 0),
        SockFilter::new(load_half_indexed, 0, 0, 2),
        SockFilter::new(jump_if_equal, 0, 1, u32::from(port)),
        SockFilter::new(give, 0, 0, SNAP),
        SockFilter::new(give, 0, 0, 0),
    ]
}

fn watch(mut socket: Socket, over: &AtomicBool) -> Reordering {
    let mut state = SequenceWatch::default();
    let mut buffer = [0; SNAP as usize];
    loop {
        match socket.read(&mut buffer) {
            Ok(count) => {
                if let Some(segment) = buffer.get(..count).and_then(Segment::read) {
                    if segment.syn {
                        state.handle_syn(segment.sequence);
                    }
                    state.handle_data(segment.sequence, segment.length, segment.stamp);
                }
            }
            // Nothing left to read: only then may the watch end.
            Err(_) if over.load(Ordering::Relaxed) => return state.seen(),
            Err(_) => {}
        }
    }
}

/// What the count needs of a TCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    syn: bool,
    sequence: u32,
    length: u32,
    stamp: u32,
}

impl Segment {
    /// Reads the headers of an IPv4 packet that may be cut after them. `None` if they are not complete.
    fn read(packet: &[u8]) -> Option<Segment> {
        let half = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
        let word = |at: usize| Some((u32::from(half(at)?) << 16) | u32::from(half(at + 2)?));
        let ip_header = usize::from(packet.first()? & 0x0f) * 4;
        let tcp_header = usize::from(packet.get(ip_header + 12)? >> 4) * 4;
        let total = usize::from(half(2)?);
        let syn = packet.get(ip_header + 13)? & 0x02 != 0;
        let mut at = ip_header + 20;
        let end = ip_header + tcp_header;
        let mut stamp = 0;
        while at < end {
            match packet.get(at)? {
                0 => break,
                1 => at += 1,
                8 => {
                    stamp = word(at + 2)?;
                    break;
                }
                _ => at += usize::from(*packet.get(at + 1)?).max(2),
            }
        }
        let length = u32::try_from(total.checked_sub(end)?).ok()?;
        Some(Segment { syn, sequence: word(ip_header + 4)?, length, stamp })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet with 100 bytes of data, of which only the headers are there.
    fn packet() -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 152, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend_from_slice(&[0x10, 0, 0x13, 0x89, 1, 2, 3, 4, 0, 0, 0, 0, 0x80, 0x10, 0, 0, 0, 0, 0, 0]);
        packet.extend_from_slice(&[1, 1, 8, 10, 0, 0, 0, 77, 0, 0, 0, 0]);
        packet
    }

    #[test]
    fn sequence_length_and_timestamp_are_read() {
        let segment = Segment::read(&packet());
        assert_eq!(segment, Some(Segment { syn: false, sequence: 0x0102_0304, length: 100, stamp: 77 }));
    }

    #[test]
    fn cut_or_lying_headers_are_refused_and_never_panic() {
        let whole = packet();
        for end in 0..whole.len() - 4 {
            assert_eq!(Segment::read(&whole[..end]), None, "{end}");
        }
        for byte in 0..whole.len() {
            for value in 0..=255 {
                let mut broken = whole.clone();
                broken[byte] = value;
                let _ = Segment::read(&broken);
            }
        }
    }
}
