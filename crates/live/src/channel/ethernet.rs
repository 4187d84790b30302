//! The Ethernet channel: frames of own EtherTypes on a named device, to peers told apart by their MAC addresses.
//!
//! A frame of the data type carries the original IP packet and not one byte more (the paper's 6.1); a frame of the
//! envelope type starts with an envelope. Nothing is encrypted here, as with the kernel's bonding: whoever is on
//! the LAN can read and forge. Envelopes that are sealed before they come here (`secure = true`) close that.
//!
//! One socket receives both types, so markers stay in FIFO place among the data. It is an `ETH_P_ALL` socket with a
//! filter, since a socket is bound to one type or to all.

use crate::sys::packet::{self, Device, PacketSocket, SEND_BATCH};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// IEEE 802 local experimental EtherType 1: striped data.
pub const DATA: u16 = 0x88b5;
/// IEEE 802 local experimental EtherType 2: envelopes.
pub const ENVELOPE: u16 = 0x88b6;

const HEADER: usize = 14;

pub use fairspan_core::bond::Codepoint;
pub use fairspan_core::wire::mac::{Mac, MacError};

/// How an Ethernet channel's socket is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EthernetConfig {
    /// The device.
    pub device: String,
    /// EtherType of data frames. Default [`DATA`].
    pub data: u16,
    /// EtherType of envelopes. Default [`ENVELOPE`].
    pub envelope: u16,
    /// Slots of the receive ring (2 kB each at an MTU of 1500); what arrives when all are taken is lost and counted.
    /// Default 2048.
    pub ring_slots: usize,
    /// Send buffer, bytes. Default 4 MB.
    pub send_buffer: usize,
}

impl EthernetConfig {
    /// The defaults on `device`.
    pub fn new(device: impl Into<String>) -> EthernetConfig {
        EthernetConfig {
            device: device.into(),
            data: DATA,
            envelope: ENVELOPE,
            ring_slots: 2048,
            send_buffer: 4_000_000,
        }
    }
}

/// Why a socket cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EthernetError {
    /// An EtherType is below 0x0600 (a length), or both are the same.
    #[error("ethertypes {data:#06x} and {envelope:#06x}: they must differ and be 0x0600 or more")]
    EtherTypes {
        /// That of data frames.
        data: u16,
        /// That of envelopes.
        envelope: u16,
    },
    /// The name cannot be one of a device.
    #[error("`{device}` cannot be the name of a device: write 1 to 15 characters")]
    Name {
        /// What was given.
        device: String,
    },
    /// There is no such device.
    #[error("{device}: no such device; `ip link` lists those that exist")]
    NoDevice {
        /// The device.
        device: String,
    },
    /// CAP_NET_RAW is missing.
    #[error("{device}: not permitted; run as root or with CAP_NET_RAW")]
    Privileges {
        /// The device.
        device: String,
    },
    /// The system refused something else.
    #[error("{device}: {error}")]
    System {
        /// The device.
        device: String,
        /// What the system said.
        error: io::Error,
    },
}

/// A frame to send: to `peer`, `head` and then `packet` behind the Ethernet header.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Where to.
    pub peer: Mac,
    /// Which EtherType.
    pub codepoint: Codepoint,
    /// The envelope; empty on [`Codepoint::Raw`].
    pub head: &'a [u8],
    /// What follows it.
    pub packet: &'a [u8],
}

/// A frame received.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// Who sent it, as the frame says: a claim like any other on a LAN.
    pub source: Mac,
    /// It was sent to all stations.
    pub broadcast: bool,
    /// Which EtherType.
    pub codepoint: Codepoint,
    /// Arrival by the kernel's clock, nanoseconds of `CLOCK_REALTIME`.
    pub arrival_realtime: u64,
    /// What follows the Ethernet header. On [`Codepoint::Raw`] padding behind the IP packet is cut off.
    pub bytes: &'a [u8],
}

/// What became of frames given to [`EthernetSocket::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// All were sent or, where the socket counts a reason, dropped.
    Done,
    /// The socket's buffer is full after this many: send the others once the socket is writable.
    Blocked(usize),
    /// The device's queue is full (`ENOBUFS`) after this many: send the others in about 1 ms, no poll tells when.
    Congested(usize),
    /// The device is down or gone after this many; the others were dropped.
    Down(usize),
}

/// Whether the device is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Up, with carrier.
    Present,
    /// Another device of the same name came: the socket was opened anew and has another descriptor.
    Reopened,
    /// It is there, but down or without carrier.
    Down,
    /// There is no such device.
    Absent,
}

/// The counters of one socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EthernetStats {
    /// Frames sent.
    pub sent: u64,
    /// Their bytes behind the Ethernet header.
    pub sent_bytes: u64,
    /// System calls that sent them.
    pub send_calls: u64,
    /// Frames received and handed on.
    pub received: u64,
    /// Their bytes behind the Ethernet header, padding not counted.
    pub received_bytes: u64,
    /// Times the send buffer was full.
    pub blocked: u64,
    /// Times the device's queue was full.
    pub congested: u64,
    /// Frames above the device's MTU, dropped.
    pub too_big: u64,
    /// Frames dropped because the device was down or gone.
    pub down: u64,
    /// Frames that the driver refused for another reason.
    pub refused: u64,
    /// Received frames for which the ring had no room.
    pub ring_full: u64,
    /// Received frames that were cut short (longer than the MTU at opening), come from no single station or from
    /// our own address, have a VLAN tag, or a data frame without an IP packet in it.
    pub malformed: u64,
    /// Times the socket was opened anew.
    pub reopened: u64,
}

/// A socket for Ethernet channels on one device: one socket serves all peers on its LAN.
#[derive(Debug)]
pub struct EthernetSocket {
    config: EthernetConfig,
    name: CString,
    socket: PacketSocket,
    device: Device,
    /// The device vanished; the socket is dead until it comes back.
    gone: bool,
    stats: EthernetStats,
}

impl EthernetSocket {
    /// Opens a socket in this thread's network namespace.
    ///
    /// # Errors
    /// [`EthernetError`] when there is no such device, a privilege is missing, or a setting cannot work.
    pub fn open(config: EthernetConfig) -> Result<EthernetSocket, EthernetError> {
        let (data, envelope) = (config.data, config.envelope);
        if data == envelope || data < 0x0600 || envelope < 0x0600 {
            return Err(EthernetError::EtherTypes { data, envelope });
        }
        let name = CString::new(config.device.as_str()).ok().filter(|name| (1..16).contains(&name.as_bytes().len()));
        let name = name.ok_or_else(|| EthernetError::Name { device: config.device.clone() })?;
        let (socket, device) = open(&config, &name)?;
        Ok(EthernetSocket { config, name, socket, device, gone: false, stats: EthernetStats::default() })
    }

    /// The device's own address.
    pub fn mac(&self) -> Mac {
        Mac(self.device.mac)
    }

    /// Largest head and packet together, bytes, as of the last [`open`](Self::open) or [`check`](Self::check).
    pub fn mtu(&self) -> usize {
        self.device.mtu
    }

    /// Index of the device.
    pub fn index(&self) -> u32 {
        self.socket.index()
    }

    /// The counters.
    pub fn stats(&self) -> &EthernetStats {
        &self.stats
    }

    /// Sends frames in order, batched. Frames that the device cannot carry are counted and skipped.
    pub fn send(&mut self, frames: &[Outgoing<'_>]) -> Sent {
        let mut done = 0;
        while let Some(rest) = frames.get(done..).filter(|rest| !rest.is_empty()) {
            let mut headers = [[0u8; HEADER]; SEND_BATCH];
            for (header, frame) in headers.iter_mut().zip(rest) {
                let ether_type = match frame.codepoint {
                    Codepoint::Raw => self.config.data,
                    Codepoint::Envelope => self.config.envelope,
                };
                header[..6].copy_from_slice(&frame.peer.0);
                header[6..12].copy_from_slice(&self.device.mac);
                header[12..].copy_from_slice(&ether_type.to_be_bytes());
            }
            self.stats.send_calls += 1;
            let parts = headers.iter().zip(rest).map(|(header, frame)| [header.as_slice(), frame.head, frame.packet]);
            match self.socket.send(parts) {
                Ok(sent) => {
                    let bytes = rest.iter().take(sent).map(|frame| (frame.head.len() + frame.packet.len()) as u64);
                    self.stats.sent += sent as u64;
                    self.stats.sent_bytes += bytes.sum::<u64>();
                    done += sent;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN) => {
                        self.stats.blocked += 1;
                        return Sent::Blocked(done);
                    }
                    Some(libc::ENOBUFS) => {
                        self.stats.congested += 1;
                        return Sent::Congested(done);
                    }
                    Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                        self.stats.down += rest.len() as u64;
                        return Sent::Down(done);
                    }
                    Some(libc::EMSGSIZE) => {
                        self.stats.too_big += 1;
                        done += 1;
                    }
                    _ => {
                        self.stats.refused += 1;
                        done += 1;
                    }
                },
            }
        }
        Sent::Done
    }

    /// Hands up to `limit` received frames to `sink`, straight from the receive ring; how many it took. Fewer than
    /// `limit` means that none is left.
    pub fn receive(&mut self, limit: usize, mut sink: impl FnMut(Incoming<'_>)) -> usize {
        let (own, data) = (Mac(self.device.mac), self.config.data);
        let stats = &mut self.stats;
        let mut taken = 0;
        while taken < limit {
            let received = self.socket.recv(|frame| {
                if frame.other_host {
                    return;
                }
                let incoming = parse(frame.data, own, data).filter(|_| {
                    // A tag means another LAN; a short copy, a frame that the MTU did not foresee.
                    frame.vlan.is_none() && frame.wire_len == frame.data.len()
                });
                let Some(incoming) = incoming else {
                    stats.malformed += 1;
                    return;
                };
                stats.received += 1;
                stats.received_bytes += incoming.bytes.len() as u64;
                sink(Incoming { arrival_realtime: frame.arrival_realtime, ..incoming });
            });
            if received.is_none() {
                stats.ring_full += self.socket.ring_drops();
                break;
            }
            taken += 1;
        }
        taken
    }

    /// Looks whether the device is there and up, renews MTU and address, and opens the socket anew if another device
    /// has taken the name. For a [`Sent::Down`], an error or hang-up reported by poll, and news of interfaces.
    ///
    /// # Errors
    /// [`EthernetError`] when the socket cannot be opened on the new device.
    pub fn check(&mut self) -> Result<Presence, EthernetError> {
        // The pending error (ENETDOWN) would make poll report the socket for ever.
        let _ = self.socket.take_error();
        self.gone |= !self.socket.device_exists();
        if !self.gone {
            return match packet::device(self.socket.as_fd(), &self.name) {
                Ok(device) => {
                    // A larger MTU needs larger slots.
                    let grown = device.mtu > self.device.mtu;
                    self.device = device;
                    if grown {
                        return self.reopen();
                    }
                    Ok(if device.running { Presence::Present } else { Presence::Down })
                }
                // Renamed: the name is what the configuration means.
                Err(_) => {
                    self.gone = true;
                    Ok(Presence::Absent)
                }
            };
        }
        match self.reopen() {
            Err(EthernetError::NoDevice { .. }) => Ok(Presence::Absent),
            other => other,
        }
    }

    fn reopen(&mut self) -> Result<Presence, EthernetError> {
        let (socket, device) = open(&self.config, &self.name)?;
        (self.socket, self.device, self.gone) = (socket, device, false);
        self.stats.reopened += 1;
        Ok(Presence::Reopened)
    }
}

impl AsFd for EthernetSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn open(config: &EthernetConfig, name: &CString) -> Result<(PacketSocket, Device), EthernetError> {
    let failed = |error: io::Error| {
        let device = config.device.clone();
        match error.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => EthernetError::NoDevice { device },
            Some(libc::EPERM | libc::EACCES) => EthernetError::Privileges { device },
            _ => EthernetError::System { device, error },
        }
    };
    let probe = rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::DGRAM, None)
        .map_err(|error| failed(error.into()))?;
    let device = packet::device(probe.as_fd(), name).map_err(failed)?;
    let options = packet::Options {
        promiscuous: false,
        vnet_header: false,
        ether_types: &[config.data, config.envelope],
        slots: config.ring_slots,
        frame: device.mtu + HEADER,
        buffer: config.send_buffer,
    };
    Ok((PacketSocket::open(name, &options).map_err(failed)?, device))
}

/// Takes a received frame apart. The filter lets only the two EtherTypes pass, but what is decoded here comes from
/// the LAN all the same.
fn parse(frame: &[u8], own: Mac, data: u16) -> Option<Incoming<'_>> {
    let (header, payload) = frame.split_first_chunk::<HEADER>()?;
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *header;
    let destination = Mac([d0, d1, d2, d3, d4, d5]);
    let source = Mac([s0, s1, s2, s3, s4, s5]);
    if !source.is_unicast() || source == own || !(destination == own || destination == Mac::BROADCAST) {
        return None;
    }
    let codepoint = if u16::from_be_bytes([t0, t1]) == data { Codepoint::Raw } else { Codepoint::Envelope };
    let bytes = match codepoint {
        Codepoint::Raw => payload.get(..ip_length(payload)?)?,
        Codepoint::Envelope => payload,
    };
    Some(Incoming { source, broadcast: destination == Mac::BROADCAST, codepoint, arrival_realtime: 0, bytes })
}

/// Length of the IP packet at the start of `bytes`, by its own header; `None` if it is none or is longer.
fn ip_length(bytes: &[u8]) -> Option<usize> {
    let word = |at: usize| Some(usize::from(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?])));
    let length = match bytes.first()? >> 4 {
        4 => word(2).filter(|length| *length >= 20)?,
        6 => 40 + word(4)?,
        _ => return None,
    };
    (length <= bytes.len()).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const PEER: Mac = Mac([2, 0, 0, 0, 0, 2]);

    fn frame(destination: Mac, source: Mac, ether_type: u16, payload: &[u8]) -> Vec<u8> {
        [&destination.0[..], &source.0, &ether_type.to_be_bytes(), payload].concat()
    }

    #[test]
    fn a_padded_short_frame_is_cut_to_the_ip_length() {
        let mut v4 = vec![0u8; 46];
        (v4[0], v4[3]) = (0x45, 28);
        let bytes = frame(OWN, PEER, DATA, &v4);
        assert_eq!(parse(&bytes, OWN, DATA).expect("valid").bytes, &v4[..28]);
        let mut v6 = vec![0u8; 46];
        (v6[0], v6[5]) = (0x60, 1);
        let bytes = frame(OWN, PEER, DATA, &v6);
        assert_eq!(parse(&bytes, OWN, DATA).expect("valid").bytes, &v6[..41]);
        let bytes = frame(OWN, PEER, ENVELOPE, &v4);
        let envelope = parse(&bytes, OWN, DATA).expect("valid");
        assert_eq!((envelope.codepoint, envelope.bytes.len()), (Codepoint::Envelope, 46));
    }

    #[test]
    fn frames_that_are_not_for_us_or_from_nobody_are_refused() {
        let mut v4 = vec![0u8; 20];
        (v4[0], v4[3]) = (0x45, 20);
        for (destination, source) in [(PEER, PEER), (OWN, OWN), (OWN, Mac::BROADCAST), (OWN, Mac([0; 6]))] {
            assert!(parse(&frame(destination, source, DATA, &v4), OWN, DATA).is_none(), "{destination} {source}");
        }
        assert!(parse(&frame(Mac::BROADCAST, PEER, DATA, &v4), OWN, DATA).expect("valid").broadcast);
        for bad in [&[][..], &[0x45], &[0x25; 30], &v4[..19], &[0x60; 39]] {
            assert!(parse(&frame(OWN, PEER, DATA, bad), OWN, DATA).is_none(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_frame_makes_the_decoder_panic_or_invent_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(incoming) = parse(&bytes, OWN, DATA) {
                prop_assert!(incoming.bytes.len() + HEADER <= bytes.len());
            }
            let addressed = frame(OWN, PEER, DATA, &bytes);
            if let Some(incoming) = parse(&addressed, OWN, DATA) {
                prop_assert_eq!(incoming.bytes, &bytes[..incoming.bytes.len()]);
            }
        }
    }
}
