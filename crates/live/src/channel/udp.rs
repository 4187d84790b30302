//! The UDP socket beneath the secure sessions: batched, bound to its link, never fragmented.
//!
//! - Receiving is `quinn-udp`'s: recvmmsg with GRO, the ECN bits and our address of every datagram.
//! - Sending is one message per [`Batch`] with `UDP_SEGMENT`, and one sendmmsg for several batches. It is our own, because `quinn-udp` sets the traffic class
//!   of every datagram to its ECN bits alone, and its reaction to one datagram above the MTU is to give up GSO for good.
//! - `IP_MTU_DISCOVER` is `PROBE`: datagrams carry DF, and the kernel refuses only what its own interface cannot carry. What
//!   [may be fragmented](Handling::Fragment) goes without, one by one.
//! - `IP_RECVERR` is off unless somebody asks what [came back](UdpSocket::hear): an ICMP error, which anyone can forge, then fails
//!   whatever is called next, also for somebody else. So what fails then is done again, once the errors were read and it is off.
//!
//! Cost: one system call for up to 64 datagrams of one size, and for up to 16 such batches, each way.

mod stats;

pub use stats::UdpStats;

use crate::icmp::Returned;
use crate::sys;
use crate::system::{Outgoing, system};
use fairspan_core::bond::Handling;
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use rustix::io::Errno;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use thiserror::Error;

/// Most bytes of one batch: what fits one UDP datagram over IPv4, as the kernel asks of the unsegmented whole.
pub const BATCH_BYTES: usize = 65_507;
/// Most datagrams of one batch (`UDP_MAX_SEGMENTS` of kernels before 6.9).
pub const BATCH_SEGMENTS: usize = 64;
/// Messages fetched by one receive; with GRO each holds up to 64 datagrams.
pub const RECEIVE_MESSAGES: usize = 32;
/// Most ICMP errors read at once.
const ERRORS_MAX: usize = 32;
/// Room for one message.
const MESSAGE_BYTES: usize = 65_536;

/// The settings of one socket. Fields not named keep their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdpConfig {
    /// The address and port to bind; unspecified address and port 0 leave the choice to the kernel.
    pub bind: SocketAddr,
    /// The interface by which everything leaves and comes (`SO_BINDTODEVICE`). Default: whichever the routes say.
    pub device: Option<String>,
    /// The firewall mark of everything sent (`SO_MARK`), by which rules keep the tunnel out of itself. Default none.
    pub mark: Option<u32>,
    /// Size of the send buffer, in bytes. Default 4 MiB.
    pub send_buffer: usize,
    /// Size of the receive buffer, in bytes. Default 8 MiB.
    pub receive_buffer: usize,
    /// Whether to send whole batches by `UDP_SEGMENT` (default), or one datagram a call.
    pub segmentation: bool,
}

impl UdpConfig {
    /// A socket on `bind` with the defaults.
    pub fn new(bind: SocketAddr) -> UdpConfig {
        UdpConfig { bind, device: None, mark: None, send_buffer: 4 << 20, receive_buffer: 8 << 20, segmentation: true }
    }
}

/// Why a socket was not opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("UDP socket: {setting} {value}: {}", io::Error::from_raw_os_error(*errno))]
pub struct OpenError {
    /// The setting that the kernel refused.
    pub setting: &'static str,
    /// Its value.
    pub value: String,
    /// The kernel's error number.
    pub errno: i32,
}

fn refused(setting: &'static str, value: impl fmt::Display) -> impl FnOnce(io::Error) -> OpenError {
    let value = value.to_string();
    move |error| OpenError { setting, value, errno: error.raw_os_error().unwrap_or(0) }
}

/// Where a batch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The peer's address.
    pub address: SocketAddr,
    /// Our address to send from; `None`: what the socket is bound to, or the kernel's choice.
    pub source: Option<IpAddr>,
    /// The whole traffic class: DSCP and ECN.
    pub tos: u8,
    /// Whether it may leave with others, or be fragmented on its way.
    pub handling: Handling,
}

/// Datagrams of one destination and one size (the last may be shorter), back to back, that leave by one call.
#[derive(Debug)]
pub struct Batch {
    buffer: Box<[u8]>,
    len: usize,
    /// How much of it was sent already, where it goes one by one.
    sent: usize,
    segment: usize,
    count: usize,
    /// A shorter datagram ended it.
    closed: bool,
    destination: Option<Destination>,
}

impl Default for Batch {
    fn default() -> Batch {
        let buffer = vec![0; BATCH_BYTES].into();
        Batch { buffer, len: 0, sent: 0, segment: 0, count: 0, closed: false, destination: None }
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Whether nothing waits in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Datagrams that wait in it.
    pub(crate) fn datagrams(&self) -> usize {
        self.len().div_ceil(self.segment.max(1))
    }

    /// Bytes that wait in it.
    pub fn len(&self) -> usize {
        self.len - self.sent
    }

    /// Room for one more datagram of `len` bytes to `destination`, to be filled and then [committed](Self::commit).
    /// `None`: send the batch first (always `None` for an empty datagram and above [`BATCH_BYTES`]).
    pub fn room(&mut self, destination: Destination, len: usize) -> Option<&mut [u8]> {
        let fits = self.count == 0
            || self.destination == Some(destination)
                && destination.handling != Handling::Alone
                && !self.closed
                && self.sent == 0
                && len <= self.segment
                && self.count < BATCH_SEGMENTS;
        if !fits || len == 0 {
            return None;
        }
        let room = self.buffer.get_mut(self.len..self.len.checked_add(len)?)?;
        self.destination = Some(destination);
        if self.count == 0 {
            self.segment = len;
        }
        Some(room)
    }

    /// Takes the first `len` bytes of the last [`room`](Self::room) into the batch; `len` is at most its length.
    pub fn commit(&mut self, len: usize) {
        let len = len.min(self.segment).min(self.buffer.len() - self.len);
        if len == 0 || self.closed {
            return;
        }
        if self.count == 0 {
            self.segment = len;
        }
        self.closed = len < self.segment;
        self.len += len;
        self.count += 1;
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.len = 0;
        self.sent = 0;
        self.segment = 0;
        self.count = 0;
        self.closed = false;
        self.destination = None;
    }
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// All of it was sent.
    Done,
    /// The socket's buffer is full: the batch keeps what is left, to be sent again once the socket is writable.
    Blocked,
    /// The interface's queue is full (`ENOBUFS`): the batch keeps what is left, to be sent again in about 1 ms, since
    /// no poll tells when.
    Congested,
    /// Datagrams of this size are above what the interface carries. They were dropped, the others sent.
    TooBig {
        /// The smallest that was refused, in bytes of UDP payload.
        size: usize,
    },
    /// The link or its address is gone, or has no route there; the batch was dropped.
    Down,
}

/// What a receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receive {
    /// This many messages, now in the batch.
    Messages(usize),
    /// Nothing waits.
    Empty,
    /// The link is gone.
    Down,
}

/// Whether a socket's interface is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Yes, and the socket is bound to it (or to none).
    Present,
    /// Yes, and the socket was opened anew, because the interface is another one of the same name.
    Reopened,
    /// No.
    Absent,
}

/// A UDP socket.
pub struct UdpSocket {
    config: UdpConfig,
    socket: Socket,
    state: UdpSocketState,
    local: SocketAddr,
    /// The index of the interface it is bound to.
    device: Option<u32>,
    segmentation: bool,
    stats: UdpStats,
    /// `IP_RECVERR` is on: a call may fail for what ICMP told of another.
    hears: bool,
    /// What was read since somebody asked last, oldest first.
    returned: Vec<Returned>,
}

impl UdpSocket {
    /// Opens a socket: non-blocking, DF set, GRO on.
    ///
    /// # Errors
    /// The setting that the kernel refused, and why.
    pub fn open(config: UdpConfig) -> Result<UdpSocket, OpenError> {
        let (socket, state, local, device) = open(&config, config.bind)?;
        let segmentation = config.segmentation;
        let (stats, returned) = (UdpStats::default(), Vec::new());
        Ok(UdpSocket { config, socket, state, local, device, segmentation, stats, hears: false, returned })
    }

    /// Opens it anew with the same settings and the same port.
    ///
    /// # Errors
    /// As [`open`](Self::open). The old socket is closed all the same: nothing is received until one succeeds.
    pub fn reopen(&mut self) -> Result<(), OpenError> {
        let again = SocketAddr::new(self.config.bind.ip(), self.local.port());
        // The port is free only once the old socket is closed: an unbound one takes its place for the moment.
        self.socket = unbound(again)?;
        (self.device, self.hears) = (None, false);
        let (socket, state, local, device) = open(&self.config, again)?;
        self.socket = socket;
        self.state = state;
        self.local = local;
        self.device = device;
        self.segmentation = self.config.segmentation;
        self.stats.reopened += 1;
        Ok(())
    }

    /// Looks whether the interface is there, and opens the socket anew if it is another one than before. For a
    /// [`Sent::Down`], and for news of interfaces.
    ///
    /// # Errors
    /// The socket could not be opened on the new interface.
    pub fn check(&mut self) -> Result<Presence, OpenError> {
        let Some(name) = &self.config.device else { return Ok(Presence::Present) };
        match system().interface_index(&self.socket, name) {
            Ok(index) if self.device == Some(index) => Ok(Presence::Present),
            Ok(_) => self.reopen().map(|()| Presence::Reopened),
            Err(_) => {
                self.device = None;
                Ok(Presence::Absent)
            }
        }
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The counters.
    pub fn stats(&self) -> &UdpStats {
        &self.stats
    }

    /// Whether batches leave by one call; no longer once the kernel refused that for this link.
    pub fn segmentation(&self) -> bool {
        self.segmentation
    }

    /// Whether to hear of datagrams that cannot arrive, from now on and until the next one of which something is heard.
    /// Whoever wants to hear more asks again. So nobody makes this end do more by telling more. What was heard is forgotten.
    pub fn hear(&mut self, wanted: bool) {
        self.returned.clear();
        if self.hears != wanted && system().keep_errors(&self.socket, self.local.is_ipv4(), wanted).is_ok() {
            self.hears = wanted;
        }
    }

    /// What was heard since it was asked for, oldest first.
    pub fn returned(&self) -> &[Returned] {
        &self.returned
    }

    /// Reads the errors that wait, if it hears of them: for a socket that is ready and yet has nothing to receive.
    pub fn read_errors(&mut self) {
        if !self.hears {
            return;
        }
        for _ in 0..ERRORS_MAX {
            match system().take_error(&self.socket) {
                Ok(returned) => self.returned.extend(returned),
                Err(_) => break,
            }
        }
        let _ = system().keep_errors(&self.socket, self.local.is_ipv4(), false);
        self.hears = false;
    }

    /// Sends a batch, and empties it unless it is [`Sent::Blocked`] or [`Sent::Congested`].
    pub fn send(&mut self, batch: &mut Batch) -> Sent {
        let Some(destination) = batch.destination.filter(|_| batch.count > 0) else { return Sent::Done };
        let mut sent = None;
        let mut refused = false;
        if self.segmentation && destination.handling == Handling::Usual && batch.sent == 0 && batch.count > 1 {
            match self.send_bytes(&destination, &batch.buffer[..batch.len], Some(batch.segment)) {
                Ok(()) => {
                    self.stats.sent += batch.count as u64;
                    sent = Some(Sent::Done);
                }
                Err(Failure::Blocked) => sent = Some(Sent::Blocked),
                Err(Failure::Congested) => sent = Some(Sent::Congested),
                Err(Failure::Ignored) => {
                    self.stats.ignored += 1;
                    sent = Some(Sent::Done);
                }
                // Too big, or no segmentation on this link, or no link: one by one it shows which.
                Err(Failure::TooBig | Failure::Invalid | Failure::Down) => refused = true,
            }
        }
        let sent = sent.unwrap_or_else(|| self.send_singly(batch, &destination, refused));
        match sent {
            Sent::Blocked => self.stats.blocked += 1,
            Sent::Congested => self.stats.congested += 1,
            Sent::Done | Sent::TooBig { .. } | Sent::Down => batch.clear(),
        }
        sent
    }

    /// Sends the first of several batches by one call, and empties them: how many. It may be none, and is where there are fewer
    /// than two of the usual handling: the next is for [`send`](Self::send), which says what is wrong.
    pub fn send_several(&mut self, batches: &mut [Batch]) -> usize {
        let nothing =
            Outgoing { destination: self.local, source: None, tos: 0, fragment: false, bytes: &[], segment: None };
        let mut outgoing = [nothing; sys::SEVERAL];
        let mut count = 0;
        for (slot, batch) in outgoing.iter_mut().zip(batches.iter()) {
            let Some(to) = batch.destination.filter(|to| to.handling == Handling::Usual) else { break };
            if batch.sent > 0 || batch.count == 0 || (batch.count > 1 && !self.segmentation) {
                break;
            }
            let segment = (batch.count > 1).then_some(batch.segment);
            let Destination { address: destination, source, tos, .. } = to;
            *slot = Outgoing { destination, source, tos, fragment: false, bytes: &batch.buffer[..batch.len], segment };
            count += 1;
        }
        if count < 2 {
            return 0;
        }
        let Ok(sent) = system().send_several(&self.socket, &outgoing[..count]) else { return 0 };
        self.stats.send_calls += 1;
        for batch in batches.iter_mut().take(sent) {
            self.stats.sent += batch.count as u64;
            self.stats.sent_bytes += batch.len as u64;
            batch.clear();
        }
        sent
    }

    fn send_singly(&mut self, batch: &mut Batch, destination: &Destination, refused: bool) -> Sent {
        let mut result = Sent::Done;
        while batch.sent < batch.len {
            let end = (batch.sent + batch.segment).min(batch.len);
            let size = end - batch.sent;
            match self.send_bytes(destination, &batch.buffer[batch.sent..end], None) {
                Ok(()) => {
                    self.stats.sent += 1;
                    if refused && size == batch.segment && self.segmentation {
                        // A datagram of this size passes, so it was segmentation that was refused.
                        self.segmentation = false;
                        self.stats.segmentation_refused += 1;
                    }
                }
                Err(Failure::Blocked) => return Sent::Blocked,
                Err(Failure::Congested) => return Sent::Congested,
                Err(Failure::Ignored) => self.stats.ignored += 1,
                Err(Failure::TooBig) => {
                    self.stats.too_big += 1;
                    let least = if let Sent::TooBig { size } = result { size } else { usize::MAX };
                    result = Sent::TooBig { size: size.min(least) };
                }
                // EINVAL for one plain datagram: the source address is no longer ours.
                Err(Failure::Invalid | Failure::Down) => {
                    self.stats.down += (batch.len - batch.sent).div_ceil(batch.segment) as u64;
                    return Sent::Down;
                }
            }
            batch.sent = end;
        }
        result
    }

    /// Sends one datagram, such as a handshake message, apart from any batch. What is [`Sent::Blocked`] or
    /// [`Sent::Congested`] was not sent.
    pub fn send_one(&mut self, destination: Destination, bytes: &[u8]) -> Sent {
        let (sent, counter) = match self.send_bytes(&destination, bytes, None) {
            Ok(()) => (Sent::Done, &mut self.stats.sent),
            Err(Failure::Blocked) => (Sent::Blocked, &mut self.stats.blocked),
            Err(Failure::Congested) => (Sent::Congested, &mut self.stats.congested),
            Err(Failure::Ignored) => (Sent::Done, &mut self.stats.ignored),
            Err(Failure::TooBig) => (Sent::TooBig { size: bytes.len() }, &mut self.stats.too_big),
            Err(Failure::Invalid | Failure::Down) => (Sent::Down, &mut self.stats.down),
        };
        *counter += 1;
        sent
    }

    fn send_bytes(&mut self, to: &Destination, bytes: &[u8], segment: Option<usize>) -> Result<(), Failure> {
        let Destination { address: destination, source, tos, handling } = *to;
        let fragment = handling == Handling::Fragment;
        let outgoing = Outgoing { destination, source, tos, fragment, bytes, segment };
        loop {
            match system().send(&self.socket, &outgoing) {
                Ok(()) => {
                    self.stats.send_calls += 1;
                    self.stats.sent_bytes += bytes.len() as u64;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => match Failure::of(&error) {
                    failure @ (Failure::Blocked | Failure::Congested) => return Err(failure),
                    // It may be what ICMP told of another one.
                    _ if self.hears => self.read_errors(),
                    failure => return Err(failure),
                },
            }
        }
    }

    /// Receives what waits, up to [`RECEIVE_MESSAGES`] messages.
    pub fn receive(&mut self, batch: &mut ReceiveBatch) -> Receive {
        batch.count = 0;
        let mut chunks = batch.buffer.chunks_exact_mut(MESSAGE_BYTES);
        let mut slices: [IoSliceMut<'_>; RECEIVE_MESSAGES] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let mut received = system().receive(&self.socket, &self.state, &mut slices, &mut batch.metas);
        if self.hears && received.as_ref().is_err_and(|error| Failure::of(error) != Failure::Blocked) {
            // It may be what ICMP told of something sent.
            self.read_errors();
            received = system().receive(&self.socket, &self.state, &mut slices, &mut batch.metas);
        }
        match received {
            Ok(count) => {
                batch.count = count.min(RECEIVE_MESSAGES);
                self.stats.received += count as u64;
                self.stats.received_bytes += batch.metas[..batch.count].iter().map(|meta| meta.len as u64).sum::<u64>();
                Receive::Messages(batch.count)
            }
            Err(error) => match Failure::of(&error) {
                Failure::Blocked => Receive::Empty,
                Failure::Down => Receive::Down,
                _ => {
                    self.stats.ignored += 1;
                    Receive::Empty
                }
            },
        }
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket").field("local", &self.local).field("config", &self.config).finish_non_exhaustive()
    }
}

type Opened = (Socket, UdpSocketState, SocketAddr, Option<u32>);

fn unbound(bind: SocketAddr) -> Result<Socket, OpenError> {
    Socket::new(Domain::for_address(bind), Type::DGRAM, Some(Protocol::UDP)).map_err(refused("address", bind))
}

fn open(config: &UdpConfig, bind: SocketAddr) -> Result<Opened, OpenError> {
    let socket = unbound(bind)?;
    if bind.is_ipv6() {
        socket.set_only_v6(true).map_err(refused("address", bind))?;
    }
    let mut device = None;
    if let Some(name) = &config.device {
        system().bind_device(&socket, name).map_err(refused("device", name))?;
        device = Some(system().interface_index(&socket, name).map_err(|errno| refused("device", name)(errno.into()))?);
    }
    if let Some(mark) = config.mark {
        system().set_mark(&socket, mark).map_err(refused("mark", mark))?;
    }
    let local = system().bind(&socket, device, bind).map_err(refused("address", bind))?.unwrap_or(bind);
    // The forced sizes need privileges; without them the kernel's limit applies, and that is no error.
    if sockopt::set_socket_recv_buffer_size_force(&socket, config.receive_buffer).is_err() {
        socket.set_recv_buffer_size(config.receive_buffer).map_err(refused("receive_buffer", config.receive_buffer))?;
    }
    if sockopt::set_socket_send_buffer_size_force(&socket, config.send_buffer).is_err() {
        socket.set_send_buffer_size(config.send_buffer).map_err(refused("send_buffer", config.send_buffer))?;
    }
    let state = UdpSocketState::new(UdpSockRef::from(&socket)).map_err(refused("address", bind))?;
    // quinn-udp 0.6.3 asks for time stamps, and its room for control messages then ends before the ECN bits of what GRO
    // coalesced; nobody here reads the stamps.
    sys::stop_timestamps(socket.as_fd()).map_err(refused("address", bind))?;
    if state.may_fragment() {
        return Err(OpenError { setting: "IP_MTU_DISCOVER", value: "PROBE".into(), errno: libc::ENOPROTOOPT });
    }
    Ok((socket, state, local, device))
}

/// What an error number means for a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Blocked,
    Congested,
    TooBig,
    /// `EINVAL` or `EIO`: of a segmented batch it says that segmentation is refused, of a datagram that its source is.
    Invalid,
    Down,
    Ignored,
}

impl Failure {
    fn of(error: &io::Error) -> Failure {
        match Errno::from_io_error(error) {
            Some(Errno::AGAIN) => Failure::Blocked,
            Some(Errno::NOBUFS | Errno::NOMEM) => Failure::Congested,
            Some(Errno::MSGSIZE) => Failure::TooBig,
            Some(Errno::INVAL | Errno::IO) => Failure::Invalid,
            Some(
                Errno::NETUNREACH
                | Errno::HOSTUNREACH
                | Errno::NODEV
                | Errno::NXIO
                | Errno::NETDOWN
                | Errno::ADDRNOTAVAIL
                // A route here prohibits it.
                | Errno::ACCESS,
            ) => Failure::Down,
            _ => Failure::Ignored,
        }
    }
}

/// Where received messages lie. One serves all sockets of a thread: 2 MiB, of which only what arrives is touched.
pub struct ReceiveBatch {
    buffer: Box<[u8]>,
    metas: [RecvMeta; RECEIVE_MESSAGES],
    count: usize,
}

impl Default for ReceiveBatch {
    fn default() -> ReceiveBatch {
        let buffer = vec![0; RECEIVE_MESSAGES * MESSAGE_BYTES].into();
        ReceiveBatch { buffer, metas: [RecvMeta::default(); RECEIVE_MESSAGES], count: 0 }
    }
}

impl fmt::Debug for ReceiveBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReceiveBatch({} messages)", self.count)
    }
}

/// One received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Who sent it, as far as its header says.
    pub source: SocketAddr,
    /// Which of our addresses it was sent to: what to answer from on a socket that is bound to all.
    pub destination: Option<IpAddr>,
    /// The two ECN bits of its outer header, for RFC 6040.
    pub ecn: u8,
    /// The payload.
    pub bytes: &'a [u8],
}

impl ReceiveBatch {
    /// Nothing received yet.
    pub fn new() -> ReceiveBatch {
        ReceiveBatch::default()
    }

    /// Whether the last receive found one datagram and no more.
    pub fn is_single(&self) -> bool {
        self.count == 1 && self.metas[0].len <= self.metas[0].stride
    }

    /// The datagrams of the last receive, in order; coalesced ones taken apart.
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.metas[..self.count].iter().zip(self.buffer.chunks_exact(MESSAGE_BYTES)).flat_map(|(meta, chunk)| {
            let ecn = meta.ecn.map_or(0, |ecn| ecn as u8);
            chunk[..meta.len.min(chunk.len())].chunks(meta.stride.max(1)).map(move |bytes| Datagram {
                source: meta.addr,
                destination: meta.dst_ip,
                ecn,
                bytes,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(port: u16) -> Destination {
        Destination {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            source: None,
            tos: 0,
            handling: Handling::Usual,
        }
    }

    fn add(batch: &mut Batch, destination: Destination, len: usize) -> bool {
        match batch.room(destination, len) {
            Some(room) => {
                assert_eq!(room.len(), len);
                batch.commit(len);
                true
            }
            None => false,
        }
    }

    #[test]
    fn a_batch_takes_one_size_and_one_destination_and_ends_with_a_shorter_one() {
        let mut batch = Batch::new();
        assert!(add(&mut batch, to(1), 1000));
        assert!(!add(&mut batch, to(2), 1000), "another destination");
        assert!(!add(&mut batch, Destination { tos: 1, ..to(1) }, 1000), "another class");
        assert!(!add(&mut batch, Destination { handling: Handling::Fragment, ..to(1) }, 1000), "to be fragmented");
        assert!(!add(&mut batch, to(1), 1001), "longer");
        assert!(add(&mut batch, to(1), 1000));
        assert!(add(&mut batch, to(1), 10));
        assert!(!add(&mut batch, to(1), 10), "after a shorter one");
        assert_eq!(batch.len(), 2010);
        batch.clear();
        assert!(batch.is_empty() && add(&mut batch, to(2), 50));
        batch.clear();
        let alone = Destination { handling: Handling::Alone, ..to(1) };
        assert!(add(&mut batch, alone, 1000) && !add(&mut batch, alone, 1000), "a probe takes no other with it");
    }

    #[test]
    fn a_batch_holds_no_more_than_the_kernel_takes() {
        let mut batch = Batch::new();
        let mut count = 0;
        while add(&mut batch, to(1), 100) {
            count += 1;
        }
        assert_eq!(count, BATCH_SEGMENTS);
        batch.clear();
        count = 0;
        while add(&mut batch, to(1), 1430) {
            count += 1;
        }
        assert_eq!(count, BATCH_BYTES / 1430);
        batch.clear();
        assert!(!add(&mut batch, to(1), BATCH_BYTES + 1));
        assert!(add(&mut batch, to(1), BATCH_BYTES));
    }
}
