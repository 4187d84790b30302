//! What TCP sockets can be told and asked beyond what safe crates offer.
//!
//! Source: tcp(7), ip(7), Linux `include/uapi/linux/tcp.h` (`struct tcp_info`: fields are only ever added at its end), `sockios.h`.

use super::check;
use fairspan_core::units::Span;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// From linux/sockios.h: bytes that were never sent.
pub(crate) const SIOCOUTQNSD: u64 = 0x894B;

/// A setting of a socket that is one `int`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// It may have addresses that are not this host's.
    TransparentV4,
    /// The same of IPv6.
    TransparentV6,
    /// Room for what was sent and is not acknowledged, whatever users may have; half of it counts (socket(7)).
    SendBuffer,
    /// Room for what has come and was not read; likewise.
    ReceiveBuffer,
    /// Bytes a second at most, -1 for any.
    PacingRate,
    /// The socket takes no more while so many bytes are still to be sent for the first time.
    NotSentLowWater,
    /// Urgent data stays in its place in the stream.
    UrgentInline,
    /// The DSCP of IPv4, in the upper six bits of eight.
    TypeOfService,
    /// The same of IPv6.
    TrafficClass,
    /// Headers of the SYN are kept for who accepts its connection.
    SaveSyn,
}

/// Changes one.
///
/// # Errors
/// What setsockopt says: `EPERM` without CAP_NET_ADMIN for the first four.
pub(crate) fn set(socket: BorrowedFd<'_>, setting: Setting, value: libc::c_int) -> io::Result<()> {
    let (level, name) = match setting {
        Setting::TransparentV4 => (libc::IPPROTO_IP, libc::IP_TRANSPARENT),
        Setting::TransparentV6 => (libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT),
        Setting::SendBuffer => (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE),
        Setting::ReceiveBuffer => (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE),
        Setting::PacingRate => (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE),
        Setting::NotSentLowWater => (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
        Setting::UrgentInline => (libc::SOL_SOCKET, libc::SO_OOBINLINE),
        Setting::TypeOfService => (libc::IPPROTO_IP, libc::IP_TOS),
        Setting::TrafficClass => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        Setting::SaveSyn => (libc::IPPROTO_TCP, libc::TCP_SAVE_SYN),
    };
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: each of these options reads one `int`, which outlives the call; the descriptor is open.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), size) })
}

/// The first two bytes of the SYN by which an accepted connection began, from its IP header on, where its listener has
/// [`Setting::SaveSyn`]; the kernel gives them once.
pub(crate) fn saved_syn(socket: BorrowedFd<'_>) -> Option<[u8; 2]> {
    let mut bytes = [0u8; 256];
    let mut size = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes to the array, which outlives the call; the descriptor is open.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_SAVED_SYN,
            bytes.as_mut_ptr().cast(),
            &raw mut size,
        )
    })
    .ok()?;
    bytes.get(..size as usize)?.first_chunk().copied()
}

/// Bytes in a connection's send buffer: all, and those that were never sent.
pub(crate) fn send_queue(socket: BorrowedFd<'_>) -> (u64, u64) {
    (number(socket, libc::TIOCOUTQ), number(socket, SIOCOUTQNSD as libc::Ioctl))
}

/// Bytes that have come and were not read.
pub(crate) fn receive_queue(socket: BorrowedFd<'_>) -> u64 {
    number(socket, libc::FIONREAD)
}

/// 0 of what is no connection.
fn number(socket: BorrowedFd<'_>, request: libc::Ioctl) -> u64 {
    let mut number: libc::c_int = 0;
    // SAFETY: all three requests write one `int`, which outlives the call; the descriptor is open.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut number) };
    if result < 0 { 0 } else { u64::try_from(number).unwrap_or(0) }
}

/// What the kernel knows of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Smoothed, and the least of the last minutes; zero while nothing was measured.
    pub(crate) round_trip: Span,
    pub(crate) least_round_trip: Span,
    /// The largest segment that is sent, and the congestion window, in bytes.
    pub(crate) segment: u64,
    pub(crate) window: u64,
    /// The window that the other end offers; zero where the kernel does not tell (before Linux 5.4).
    pub(crate) offered: u64,
    /// What was delivered of late, in bytes a second.
    pub(crate) delivery_rate: u64,
    pub(crate) acknowledged: u64,
    pub(crate) received: u64,
}

/// Asks for it.
///
/// # Errors
/// What getsockopt says of what is no connection.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut bytes = [0u8; 256];
    let mut size = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes to the array, which outlives the call; the descriptor is open.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut size,
        )
    })?;
    // What an older kernel does not write stays zero.
    let word = |at: usize| u64::from(u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
    let long = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    let least = word(148);
    Ok(TcpInfo {
        round_trip: Span::from_micros(word(68)),
        least_round_trip: Span::from_micros(if least == u64::from(u32::MAX) { 0 } else { least }),
        segment: word(16),
        window: word(80) * word(16),
        offered: word(228),
        delivery_rate: long(160),
        acknowledged: long(120),
        received: long(128),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn a_connection_tells_what_is_in_its_buffers_and_what_it_measured() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let mut near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (mut far, _) = listener.accept().expect("accepted");
        near.write_all(&[7; 1000]).expect("sent");
        let mut first = [0; 1];
        far.read_exact(&mut first).expect("read");
        assert_eq!(receive_queue(far.as_fd()), 999);
        far.write_all(&[7; 10]).expect("sent");
        let mut all = [0; 10];
        near.read_exact(&mut all).expect("read");
        // The far end has answered, so all was acknowledged.
        assert_eq!(send_queue(near.as_fd()), (0, 0));
        let info = tcp_info(near.as_fd()).expect("a connection");
        assert_eq!((info.received, info.acknowledged), (10, 1001), "with the SYN");
        assert!(info.round_trip > Span::ZERO && info.window > 0, "{info:?}");
        // What does not fit the far end's window stays unsent.
        near.set_nonblocking(true).expect("set");
        while near.write(&[0; 65536]).is_ok() {}
        let (held, unsent) = send_queue(near.as_fd());
        assert!(unsent > 0 && held >= unsent, "{held} {unsent}");
        set(near.as_fd(), Setting::PacingRate, 1_000_000).expect("a rate");
        set(near.as_fd(), Setting::NotSentLowWater, 100_000).expect("a mark");
    }
}
