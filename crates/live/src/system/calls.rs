//! The calls, as one trait.

use crate::icmp::Returned;
use netlink_sys::Socket as NetlinkSocket;
use quinn_udp::{RecvMeta, UdpSocketState};
use rustix::event::Timespec;
use rustix::event::epoll::{Event, EventFlags};
use rustix::io::Errno;
use socket2::Socket;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime};

/// One datagram, or several of one size back to back, to be sent by one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) destination: SocketAddr,
    /// Our address to send from; `None`: what the socket is bound to, or the kernel's choice.
    pub(crate) source: Option<IpAddr>,
    /// The whole traffic class.
    pub(crate) tos: u8,
    /// Whether it may be fragmented; then it is one datagram.
    pub(crate) fragment: bool,
    pub(crate) bytes: &'a [u8],
    /// The size of each, where they are several.
    pub(crate) segment: Option<usize>,
}

/// The calls. Errors are the kernel's; a call that a signal interrupted says so, and is the caller's to repeat.
pub(crate) trait System {
    /// The clock that no one sets, and that counts the time asleep.
    fn monotonic(&self) -> Duration;

    /// The wall clock, since 1970.
    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }

    /// Whether slow work has threads of its own. Where time is not the kernel's, it is done at once.
    fn has_threads(&self) -> bool {
        true
    }

    /// Fills `out` with secret randomness, or panics.
    fn fill(&self, out: &mut [u8]);

    /// Begins to wait for a descriptor, which events then name by `token`.
    fn watch(&self, epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>, token: u64, flags: EventFlags) -> Result<(), Errno>;

    /// Waits for something else of it.
    fn rewatch(&self, epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>, token: u64, flags: EventFlags) -> Result<(), Errno>;

    /// Waits for it no longer.
    fn unwatch(&self, epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> Result<(), Errno>;

    /// Waits until something is ready, and fills the room of `events`.
    fn wait(&self, epoll: BorrowedFd<'_>, events: &mut Vec<Event>, timeout: &Timespec) -> Result<(), Errno>;

    /// As [`open_tun`](crate::sys::open_tun).
    fn open_tun(&self, name: &str, vnet_header: bool) -> io::Result<(OwnedFd, String)>;

    /// As [`set_tun_offload`](crate::sys::set_tun_offload).
    fn set_tun_offload(&self, tun: BorrowedFd<'_>, offloads: libc::c_uint) -> io::Result<()>;

    /// Reads one unit of a TUN interface.
    fn read_tun(&self, tun: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno>;

    /// Writes one unit to a TUN interface.
    fn write_tun(&self, tun: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> Result<usize, Errno>;

    /// Ties a socket to an interface.
    fn bind_device(&self, socket: &Socket, name: &str) -> io::Result<()>;

    /// Sets the firewall mark of what a socket sends.
    fn set_mark(&self, socket: &Socket, mark: u32) -> io::Result<()>;

    /// Binds a socket that is tied to `device`, and tells to what.
    fn bind(&self, socket: &Socket, device: Option<u32>, address: SocketAddr) -> io::Result<Option<SocketAddr>>;

    /// The index of an interface.
    fn interface_index(&self, socket: &Socket, name: &str) -> Result<u32, Errno>;

    /// Sends datagrams.
    fn send(&self, socket: &Socket, outgoing: &Outgoing<'_>) -> io::Result<()>;

    /// Sends several, each as [`send`](Self::send) would, from the first on: how many. None of them may be fragmented. An
    /// error is that of the first.
    fn send_several(&self, socket: &Socket, outgoing: &[Outgoing<'_>]) -> io::Result<usize> {
        for (count, one) in outgoing.iter().enumerate() {
            match self.send(socket, one) {
                Err(error) if count == 0 => return Err(error),
                Err(_) => return Ok(count),
                Ok(()) => {}
            }
        }
        Ok(outgoing.len())
    }

    /// Receives what waits: how many messages.
    fn receive(
        &self,
        socket: &Socket,
        state: &UdpSocketState,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize>;

    /// Has a socket keep what ICMP tells of its datagrams, and fail calls for it, until told otherwise; then nothing stays.
    fn keep_errors(&self, socket: &Socket, is_v4: bool, keep: bool) -> io::Result<()>;

    /// Takes the oldest of what it kept, `None` where that does not tell of a datagram that cannot arrive; `EAGAIN` when it
    /// kept nothing.
    fn take_error(&self, socket: &Socket) -> io::Result<Option<Returned>>;

    /// Sends a request about the host's network.
    fn send_netlink(&self, socket: &NetlinkSocket, request: &[u8]) -> io::Result<usize>;

    /// Receives a datagram of answers or news.
    fn receive_netlink(&self, socket: &NetlinkSocket, buffer: &mut Vec<u8>) -> io::Result<usize>;

    /// Reads a setting of the kernel, by its path under `/proc/sys`.
    fn read_setting(&self, path: &str) -> io::Result<String>;

    /// Writes one.
    fn write_setting(&self, path: &str, value: &str) -> io::Result<()>;
}
