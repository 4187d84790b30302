//! The sockets of the gateway: those that call in a caller's name, and the one that listens in everybody's.

use super::headers::Way;
use super::rules::Marks;
use crate::config::Gateway;
use crate::sys::tcp::{Setting, set};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// An end that is silent for the first is asked, then after each of the second; after so many questions without an answer it is gone.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(600), Duration::from_secs(60), 5);
/// What a socket takes that is still to be sent for the first time: what waits does so before the gateway, where it is
/// shared fairly.
const UNSENT: i32 = 256 << 10;

/// What the sockets of a gateway have in common.
#[derive(Clone, Debug)]
pub(super) struct Sockets {
    /// The mark of the gateway's own packets.
    mark: u32,
    /// That of its packets to callers whose connections it has taken.
    near: u32,
    congestion: Option<String>,
}

/// The kernel's limits of one socket's buffers, in bytes of its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Buffers(pub(super) u64);

impl Buffers {
    /// Half of it for each direction. The kernel takes twice what it is told.
    pub(super) fn apply(self, socket: &Socket) {
        let each = i32::try_from(self.0 / 4).unwrap_or(i32::MAX);
        for setting in [Setting::SendBuffer, Setting::ReceiveBuffer] {
            if let Err(error) = set(socket.as_fd(), setting, each) {
                tracing::debug!(%error, "a buffer keeps its size");
            }
        }
    }
}

impl Sockets {
    pub(super) fn new(config: &Gateway, marks: Marks) -> Sockets {
        Sockets { mark: marks.own(), near: marks.near(), congestion: config.congestion.clone() }
    }

    fn open(address: SocketAddr, mark: u32, buffers: Option<Buffers>) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        if mark != 0 {
            socket.set_mark(mark)?;
        }
        // Before the handshake, which settles how far windows can be opened.
        if let Some(buffers) = buffers {
            buffers.apply(&socket);
        }
        Ok(socket)
    }

    /// Tells where the kernel has no such congestion control: then nothing can be called.
    pub(super) fn look_for_congestion_control(&self) {
        let Some(law) = &self.congestion else { return };
        let tried = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))
            .and_then(|socket| socket.set_tcp_congestion(law.as_bytes()));
        if let Err(error) = tried {
            tracing::warn!(
                %error,
                "the kernel has no congestion control named {law}, so all connections pass unsplit: `modprobe tcp_{law}`, or write \
                 another `congestion`"
            );
        }
    }

    /// May have any address.
    fn be_transparent(socket: &Socket, address: SocketAddr) -> io::Result<()> {
        let setting = if address.is_ipv4() { Setting::TransparentV4 } else { Setting::TransparentV6 };
        set(socket.as_fd(), setting, 1)
    }

    /// Settings of an end, whichever it faces.
    pub(super) fn prepare(&self, socket: &Socket, is_long: bool) -> io::Result<()> {
        socket.set_tcp_nodelay(true)?;
        let (idle, each, times) = KEEPALIVE;
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle).with_interval(each).with_retries(times))?;
        set(socket.as_fd(), Setting::NotSentLowWater, UNSENT)?;
        set(socket.as_fd(), Setting::UrgentInline, 1)?;
        match &self.congestion {
            Some(law) if is_long => socket.set_tcp_congestion(law.as_bytes()),
            _ => Ok(()),
        }
    }

    /// Begins to call the destination of `way`; from its source, or from an address of this host where that is `None`.
    ///
    /// # Errors
    /// What the kernel says at once: no route, the caller's address in use, or a privilege that is missing.
    pub(super) fn call(
        &self,
        source: Option<SocketAddr>,
        destination: SocketAddr,
        is_long: bool,
        buffers: Buffers,
    ) -> io::Result<Socket> {
        let socket = Sockets::open(destination, self.mark, Some(buffers))?;
        self.prepare(&socket, is_long)?;
        if let Some(source) = source {
            Sockets::be_transparent(&socket, destination)?;
            socket.bind(&source.into())?;
        }
        match socket.connect(&destination.into()) {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(socket),
            Err(error) => Err(error),
            Ok(()) => Ok(socket),
        }
    }

    /// Listens for what the kernel leads to the loopback addresses, IPv4 and where there is IPv6 too, on one port that is free.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn listen_for_all(&self, buffers: Buffers) -> io::Result<(u16, Vec<Socket>)> {
        let v4 = self.listen((Ipv4Addr::LOCALHOST, 0).into(), true, Some(buffers))?;
        let port = v4.local_addr()?.as_socket().map_or(0, |address| address.port());
        match self.listen((Ipv6Addr::LOCALHOST, port).into(), true, Some(buffers)) {
            Ok(v6) => Ok((port, vec![v4, v6])),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) => {
                Ok((port, vec![v4]))
            }
            Err(error) => Err(error),
        }
    }

    /// Listens at an address.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn listen(
        &self,
        address: SocketAddr,
        transparent: bool,
        buffers: Option<Buffers>,
    ) -> io::Result<Socket> {
        // Who is accepted has the mark of the socket that listened.
        let socket = Sockets::open(address, if transparent { self.near } else { self.mark }, buffers)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if transparent {
            Sockets::be_transparent(&socket, address)?;
        }
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket)
    }
}

/// What a socket sends has this DSCP from now on, whichever IP version it is of.
///
/// # Errors
/// What the kernel refuses.
pub(super) fn set_dscp(socket: &Socket, dscp: u8) -> io::Result<()> {
    let setting = if socket.domain()? == Domain::IPV6 { Setting::TrafficClass } else { Setting::TypeOfService };
    // The bits of ECN stay TCP's own.
    set(socket.as_fd(), setting, i32::from(dscp) << 2)
}

/// Accepts one who waits: the connection, and from where to where it was meant to go. `None`: it is gone already.
///
/// # Errors
/// `EAGAIN` where nobody waits; what the kernel says otherwise.
pub(super) fn accept(listener: &Socket) -> Result<Option<(Socket, Way)>, Errno> {
    match acceptfrom_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        Ok((socket, remote)) => {
            let socket = Socket::from(socket);
            let local = socket.local_addr().ok().and_then(|address| address.as_socket());
            let remote = remote.and_then(|remote| SocketAddr::try_from(remote).ok());
            Ok(remote.zip(local).map(|(source, destination)| (socket, Way { source, destination })))
        }
        Err(Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(errno) => Err(errno),
    }
}
