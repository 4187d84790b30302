//! A device whose frames are the daemon's, a link of an Ethernet bond or a port: every frame it receives, and frames to send
//! as they are.
//!
//! The socket sees all frames (promiscuous mode, which ends with it, also when the daemon is killed), but none that this host
//! sends. Frames come with the kernel's note of what is left to do on them: a device's receive offload may have joined
//! segments, and a virtual device may have left a checksum. Received frames are read in place in a ring. Nothing is left to do on
//! frames to send, so they leave by a socket without such notes, up to 64 in one call.

use crate::netlink::Guard;
use crate::pool::PacketBuf;
use crate::shell::error::DaemonError;
use crate::shell::poller::{Interest, Poller, Token, Turn};
use crate::sys::packet::{self, Options, PacketSocket, SEND_BATCH, VNET_HEADER};
use crate::sys::sender::PacketSender;
use fairspan_core::lan::{Condition, frame};
use fairspan_core::units::Rate;
use fairspan_core::wire::mac::Mac;
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Uid, geteuid};
use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Slots of the receive ring (2 kB each at an MTU of 1500); what arrives when all are taken is lost and counted.
const RING_SLOTS: usize = 4096;
/// What waits in the device's queue, bytes: beyond it frames are dropped, as a full queue of the kernel would.
const SEND_BUFFER: usize = 1_000_000;
/// Bytes of an Ethernet header, with a tag for good measure.
const HEADER: usize = 18;
/// Bytes of the two addresses that a frame begins with.
const ADDRESSES: usize = 12;
/// Which of the addresses derived from a device's own it has while that is the bond's.
const VARIANT: u8 = 0x08;

/// What became of frames on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stats {
    /// Not sent: the device's queue was full.
    pub(super) send_full: u64,
    /// Not sent: longer than the device's MTU allows.
    pub(super) send_too_big: u64,
    /// Not sent: the device was down or gone.
    pub(super) send_down: u64,
    /// Not sent: the device refused for another reason.
    pub(super) send_refused: u64,
    /// Received frames for which the ring had no room.
    pub(super) ring_full: u64,
    /// Received frames that could not be read whole.
    pub(super) receive_cut: u64,
    /// Times that another device of the name came.
    pub(super) reopened: u64,
}

impl Stats {
    pub(super) fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("send_full", self.send_full),
            ("send_too_big", self.send_too_big),
            ("send_down", self.send_down),
            ("send_refused", self.send_refused),
            ("ring_full", self.ring_full),
            ("receive_cut", self.receive_cut),
            ("reopened", self.reopened),
        ]
        .into_iter()
    }
}

/// A frame that was received, in three parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    /// What is left to do on it.
    pub(super) vnet: [u8; VNET_HEADER],
    /// The frame; without its tag, where `tag` is one.
    pub(super) frame: &'a [u8],
    /// The tag, to stand behind the addresses.
    pub(super) tag: Option<[u8; 4]>,
}

/// Claims a device for this daemon, by a name that one process of the network namespace can have. Any user could have it, so
/// another's claim counts only if it is root's or of the user of this daemon.
fn claim(device: &str) -> io::Result<Option<UnixListener>> {
    let name = claim_of(device);
    let error = match SocketAddr::from_abstract_name(&name).and_then(|name| UnixListener::bind_addr(&name)) {
        Ok(claim) => return Ok(Some(claim)),
        Err(error) if error.kind() != ErrorKind::AddrInUse => return Err(error),
        Err(error) => error,
    };
    let owner = owner(&name)?;
    if owner.is_some_and(counts) {
        let problem = "another daemon has this device: end that one, or name another device";
        return Err(io::Error::new(error.kind(), problem));
    }
    let who = owner.map_or("a process of an unknown user".to_owned(), |owner| format!("a process of user {owner}"));
    tracing::warn!(
        device,
        "{who} has the name by which daemons claim this device, `@{name}`, and is none of this daemon's user: that is \
         ignored, and so would be a second daemon with this device"
    );
    Ok(None)
}

/// Whether a daemon of root's, or of this process's user, has claimed a device.
pub(crate) fn is_claimed(device: &str) -> bool {
    owner(&claim_of(device)).is_ok_and(|owner| owner.is_some_and(counts))
}

/// The name by which a daemon says that a device is its own.
fn claim_of(device: &str) -> String {
    format!("fairspan bond {device}")
}

/// Whether the claim of this user's keeps another daemon out.
fn counts(owner: Uid) -> bool {
    owner.is_root() || owner == geteuid()
}

/// Whose an abstract name is; `None` where it cannot be told, as of one who lets nobody connect.
fn owner(name: &str) -> io::Result<Option<Uid>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    let connected = connect(&socket, &name).is_ok();
    Ok(connected.then(|| socket_peercred(&socket)).transpose()?.map(|cred| cred.uid))
}

/// A device.
#[derive(Debug)]
pub(super) struct Device {
    name: String,
    c_name: CString,
    /// For questions about the device that need some socket.
    probe: OwnedFd,
    /// Says that the device is taken, to all daemons of the network namespace, for as long as this one lives. `None` where
    /// somebody who may run no daemon keeps it from saying so.
    _claim: Option<UnixListener>,
    /// `None` while there is no such device.
    socket: Option<PacketSocket>,
    /// What frames are sent by: there is nothing left to do on them. It is there when the other one is.
    sender: Option<PacketSender>,
    rate: Option<Rate>,
    /// Whether the device's carrier counts.
    carrier_counts: bool,
    pub(super) mtu: usize,
    pub(super) mac: Option<Mac>,
    pub(super) condition: Condition,
    /// Frames for the next batch.
    waiting: Vec<PacketBuf>,
    scratch: Box<[u8]>,
    pub(super) stats: Stats,
    poller: Poller,
    turn: Turn,
    /// What its socket is waited for under.
    token: Option<Token>,
    /// It has another address than it was to have, as it did not take that.
    untaken: bool,
    /// What was complained of last, not to be said again.
    complaint: Option<String>,
}

impl Device {
    /// The device `name`, which need not exist. `rate`: what it carries, where its own word does not count.
    /// `carrier_counts`: whether a device that is switched on and has no carrier is down. `turn`: when its frames are read.
    ///
    /// # Errors
    /// `AddrInUse` when another daemon has the device: each would take the other's frames.
    pub(super) fn new(
        name: &str,
        rate: Option<Rate>,
        carrier_counts: bool,
        poller: &Poller,
        turn: Turn,
    ) -> io::Result<Device> {
        let c_name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
        let probe = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let claim = claim(name)?;
        Ok(Device {
            name: name.to_owned(),
            c_name,
            probe,
            _claim: claim,
            socket: None,
            sender: None,
            rate,
            carrier_counts,
            mtu: 0,
            mac: None,
            condition: Condition { carrier: false, rate, full_duplex: true },
            waiting: Vec::with_capacity(SEND_BATCH),
            scratch: vec![0; 66_000].into_boxed_slice(),
            stats: Stats::default(),
            poller: poller.clone(),
            turn,
            token: None,
            untaken: false,
            complaint: None,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Whether `token` is that of its socket.
    pub(super) fn is(&self, token: Token) -> bool {
        self.token == Some(token)
    }

    /// Waits for its frames, or for errors alone.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn set_interest(&self, interest: Interest) -> Result<(), Errno> {
        match self.token.zip(self.fd()) {
            Some((token, fd)) => self.poller.set_interest(token, fd, interest),
            None => Ok(()),
        }
    }

    /// Waits for its frames from now on, or no longer where its socket is closed.
    pub(super) fn watch(&mut self) {
        if let Some(token) = self.token.take() {
            self.poller.forget(token);
        }
        let Some(fd) = self.fd() else { return };
        match self.poller.watch(fd, self.turn) {
            Ok(token) => self.token = Some(token),
            Err(error) => tracing::warn!(device = self.name, %error, "the device's frames are not waited for"),
        }
    }

    /// Switches the device on, sets the host's own stack apart from it, and gives it another address where it has `taken`.
    ///
    /// # Errors
    /// What the system refuses of a device that is there.
    pub(super) fn prepare(&mut self, guard: &mut Guard, taken: Option<Mac>) -> Result<(), DaemonError> {
        let device = self.name.clone();
        if let Err(source) = self.look() {
            return Err(DaemonError::Device { device, source });
        }
        let Some(mac) = self.mac.filter(|_| self.is_open()) else { return Ok(()) };
        self.untaken = false;
        if taken == Some(mac) {
            guard.set_mac(&device, frame::derived(mac, VARIANT).0)?;
        }
        guard.set_apart(&device);
        guard.set_up(&device, true)?;
        let addresses = guard.netlink().addresses(&device)?;
        if !addresses.is_empty() {
            tracing::warn!(
                device,
                "a device whose frames are the daemon's should have no IP address of its own: the host answers there by itself"
            );
        }
        self.look().map(drop).map_err(|source| DaemonError::Device { device, source })
    }

    /// The address that it has; `None` while it keeps one that it was not to have.
    pub(super) fn address(&self) -> Option<Mac> {
        self.mac.filter(|_| !self.untaken)
    }

    /// Gives the device the address `mac`, for as long as the guard lives. A device that takes no other one while it is
    /// switched on keeps its own.
    pub(super) fn set_mac(&mut self, guard: &mut Guard, mac: Mac) {
        if !self.is_open() {
            return;
        }
        match guard.set_mac_running(&self.name, mac.0) {
            Ok(()) => (self.mac, self.untaken) = (Some(mac), false),
            Err(error) => {
                tracing::warn!(device = self.name, %mac, %error, "the device does not take this address");
                self.untaken = true;
            }
        }
    }

    /// Looks at the device, and begins or ends to use one that came or went. Gives whether the socket is a new one.
    pub(super) fn follow(&mut self, guard: &mut Guard, taken: Option<Mac>) -> bool {
        let was_open = self.is_open();
        let looked = self.look();
        if was_open && !self.is_open() {
            tracing::warn!(device = self.name, "interface is gone");
            if let Some(token) = self.token.take() {
                self.poller.forget(token);
            }
        }
        match looked {
            Ok(new) => {
                self.complaint = None;
                if new {
                    if !was_open {
                        tracing::info!(device = self.name, "interface is there");
                        if let Err(error) = self.prepare(guard, taken) {
                            tracing::warn!(device = self.name, %error, "the device cannot be prepared");
                        }
                    }
                    self.watch();
                }
                new
            }
            Err(error) => {
                let error = error.to_string();
                if self.complaint.as_ref() != Some(&error) {
                    tracing::warn!(device = self.name, error, "the socket cannot be opened; tried every second");
                    self.complaint = Some(error);
                }
                false
            }
        }
    }

    /// Looks at the device: opens the socket on one that came, closes that of one that went, renews the condition. Gives
    /// whether the socket is a new one.
    ///
    /// # Errors
    /// What the system says of a device that is there.
    fn look(&mut self) -> io::Result<bool> {
        if let Some(socket) = &self.socket {
            // The pending error (ENETDOWN) would make poll report the socket for ever.
            let _ = socket.take_error();
            if !socket.device_exists() {
                self.close();
            }
        }
        let device = match packet::device(self.probe.as_fd(), &self.c_name) {
            Ok(device) => device,
            // Gone, or renamed: the name is what the configuration means.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => {
                self.close();
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        if !device.ethernet {
            self.close();
            return Err(io::Error::other("it is no Ethernet device"));
        }
        // A larger MTU needs larger slots.
        let fits = self.socket.is_some() && device.mtu <= self.mtu;
        let mut new = false;
        if !fits {
            let options = Options {
                promiscuous: true,
                vnet_header: true,
                ether_types: &[],
                slots: RING_SLOTS,
                frame: device.mtu + HEADER + VNET_HEADER,
                buffer: SEND_BUFFER,
            };
            self.stats.reopened += u64::from(self.socket.is_some());
            let socket = PacketSocket::open(&self.c_name, &options)?;
            self.sender = Some(PacketSender::open(socket.index(), device.mtu + HEADER, SEND_BUFFER)?);
            self.socket = Some(socket);
            new = true;
        }
        let (speed, full_duplex) = packet::speed(self.probe.as_fd(), &self.c_name);
        if let Some(sender) = &mut self.sender {
            sender.set_most(device.mtu + HEADER);
        }
        self.mtu = device.mtu;
        self.mac = Some(Mac(device.mac));
        self.condition = Condition {
            carrier: if self.carrier_counts { device.running } else { device.up },
            rate: self.rate.or(speed.map(|mbit| Rate::from_mbit(u64::from(mbit)))),
            full_duplex: full_duplex.unwrap_or(true),
        };
        Ok(new)
    }

    fn close(&mut self) {
        self.stats.send_down += self.waiting.len() as u64;
        self.waiting.clear();
        self.condition.carrier = false;
        (self.socket, self.sender) = (None, None);
    }

    /// Whether nothing waits for the next batch.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Puts `frame` into the next batch, from `source` where that is not what it says.
    pub(super) fn push(&mut self, source: Option<Mac>, mut frame: PacketBuf) {
        if self.waiting.len() == SEND_BATCH {
            self.flush();
        }
        let Some(addresses) = frame.as_mut_slice().first_chunk_mut::<ADDRESSES>() else { return };
        if let Some(source) = source {
            addresses[6..].copy_from_slice(&source.0);
        }
        self.waiting.push(frame);
    }

    /// Sends what waits; what the device does not take is dropped and counted.
    pub(super) fn flush(&mut self) {
        let mut done = 0;
        while let Some(rest) = self.waiting.get(done..).filter(|rest| !rest.is_empty()) {
            let Some(sender) = &mut self.sender else {
                self.stats.send_down += rest.len() as u64;
                break;
            };
            match sender.send(rest.iter().map(PacketBuf::as_slice)) {
                Ok(sent) => done += sent.max(1),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN | libc::ENOBUFS) => {
                        self.stats.send_full += rest.len() as u64;
                        break;
                    }
                    Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                        self.stats.send_down += rest.len() as u64;
                        break;
                    }
                    Some(libc::EMSGSIZE) => {
                        self.stats.send_too_big += 1;
                        done += 1;
                    }
                    _ => {
                        self.stats.send_refused += 1;
                        done += 1;
                    }
                },
            }
        }
        self.waiting.clear();
    }

    /// Hands up to `limit` received frames to `sink`; how many there were.
    pub(super) fn receive(&mut self, limit: usize, mut sink: impl FnMut(Arrival<'_>)) -> usize {
        let Some(socket) = &mut self.socket else { return 0 };
        for taken in 0..limit {
            let mut whole = true;
            let mut tag = None;
            let received = socket.recv(|frame| {
                tag = frame.vlan.map(|(tpid, tci)| {
                    let [[t0, t1], [c0, c1]] = [tpid.to_be_bytes(), tci.to_be_bytes()];
                    [t0, t1, c0, c1]
                });
                whole = !frame.copied && frame.data.len() == VNET_HEADER + frame.wire_len;
                if whole && let Some((vnet, bytes)) = frame.data.split_first_chunk() {
                    sink(Arrival { vnet: *vnet, frame: bytes, tag });
                }
                frame.copied
            });
            match received {
                None => {
                    self.stats.ring_full += socket.ring_drops();
                    return taken;
                }
                // Longer than a slot: segments that the device joined.
                Some(true) => match socket.recv_copy(&mut self.scratch) {
                    Ok(len) => match self.scratch.get(..len).and_then(|bytes| bytes.split_first_chunk()) {
                        Some((vnet, frame)) => sink(Arrival { vnet: *vnet, frame, tag }),
                        None => self.stats.receive_cut += 1,
                    },
                    Err(_) => self.stats.receive_cut += 1,
                },
                Some(false) if !whole => self.stats.receive_cut += 1,
                Some(false) => {}
            }
        }
        limit
    }
}

/// The header of a frame whose tag stands in it again: positions behind the tag are four bytes later.
pub(super) fn behind_tag(vnet: [u8; VNET_HEADER]) -> [u8; VNET_HEADER] {
    let mut moved = vnet;
    let mut shift = |at: usize| {
        let word = u16::from_ne_bytes([vnet[at], vnet[at + 1]]);
        moved[at..at + 2].copy_from_slice(&word.wrapping_add(4).to_ne_bytes());
    };
    // The length of the headers, and where the checksum's bytes begin.
    if vnet[1] != 0 {
        shift(2);
    }
    if vnet[0] & 1 != 0 {
        shift(6);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_ethernet_headers_is_refused() {
        let poller = Poller::new().expect("epoll");
        let mut device = Device::new("lo", None, true, &poller, Turn::Links).expect("a socket to ask with");
        let error = device.look().expect_err("the loopback device");
        assert!(error.to_string().contains("no Ethernet device"), "{error}");
        assert!(!device.is_open() && !device.condition.carrier);
    }
}
