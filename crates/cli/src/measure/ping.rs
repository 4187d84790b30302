//! Round trips of ICMP echoes, answered by the far kernel.

use crate::testbed::{Interrupt, Namespace};
use anyhow::{Context, Result};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

/// Echo requests to one address.
pub(crate) struct Ping {
    socket: Socket,
    target: Ipv4Addr,
    identifier: u16,
    sequence: u16,
}

impl Ping {
    /// Prepares to ping `target` from `namespace`.
    pub(crate) fn new(namespace: &Namespace, target: Ipv4Addr) -> Result<Ping> {
        let socket = namespace
            .enter(|| Ok(Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?))
            .context("cannot make an ICMP socket")?;
        Ok(Ping { socket, target, identifier: std::process::id() as u16, sequence: 0 })
    }

    /// One round trip, or `None` if no answer came within `patience` or the way was refused.
    pub(crate) fn once(&mut self, patience: Duration) -> Result<Option<Duration>> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = echo_request(self.identifier, self.sequence);
        let start = Instant::now();
        // Without a route yet, or with the interface still down: no answer, and the caller tries again.
        if self.socket.send_to(&request, &SocketAddrV4::new(self.target, 0).into()).is_err() {
            return Ok(None);
        }
        let mut buffer = [0; 256];
        loop {
            let left = patience.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_read_timeout(Some(left))?;
            match self.socket.read(&mut buffer) {
                Ok(count) => {
                    let datagram = buffer.get(..count).unwrap_or_default();
                    if echo_reply(datagram) == Some((self.identifier, self.sequence)) {
                        return Ok(Some(start.elapsed()));
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Ok(None),
            }
        }
    }

    /// The round trips in microseconds of `count` echoes, `gap` apart; lost ones are left out.
    pub(crate) fn series(&mut self, interrupt: &Interrupt, count: usize, gap: Duration) -> Result<Vec<f64>> {
        let mut trips = Vec::with_capacity(count);
        for _ in 0..count {
            if let Some(trip) = self.once(Duration::from_secs(1))? {
                trips.push(trip.as_secs_f64() * 1e6);
            }
            interrupt.sleep(gap)?;
        }
        Ok(trips)
    }
}

/// An ICMP echo request (RFC 792) with 48 bytes of zeros.
fn echo_request(identifier: u16, sequence: u16) -> [u8; 56] {
    let mut message = [0; 56];
    message[0] = 8;
    message[4..6].copy_from_slice(&identifier.to_be_bytes());
    message[6..8].copy_from_slice(&sequence.to_be_bytes());
    let mut sum: u32 = message.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    message[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    message
}

/// Identifier and sequence number, if the IPv4 datagram is an echo reply.
fn echo_reply(datagram: &[u8]) -> Option<(u16, u16)> {
    let header = usize::from(datagram.first()? & 0x0f) * 4;
    let message = datagram.get(header..)?;
    if message.first() != Some(&0) {
        return None;
    }
    let field = |at: usize| Some(u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]));
    Some((field(4)?, field(6)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_recognised_by_identifier_and_sequence() {
        let mut datagram = vec![0x45; 1];
        datagram.resize(20, 0);
        let mut message = echo_request(7, 9);
        message[0] = 0;
        datagram.extend_from_slice(&message);
        assert_eq!(echo_reply(&datagram), Some((7, 9)));
        datagram[20] = 8;
        assert_eq!(echo_reply(&datagram), None);
        for end in 0..28 {
            assert_eq!(echo_reply(&datagram[..end]), None);
        }
    }

    #[test]
    fn the_checksum_of_a_request_verifies() {
        let message = echo_request(0xfedc, 0x8001);
        let sum: u32 = message.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }
}
