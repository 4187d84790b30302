//! The system calls that no safe crate offers, each behind a safe function.
//!
//! This is the only module of the crate where `unsafe` is allowed; every block says why it is sound.
#![allow(unsafe_code)]

pub(crate) mod heap;
pub(crate) mod instructions;
pub(crate) mod packet;
pub(crate) mod refused;
pub(crate) mod sender;
pub(crate) mod tcp;

use socket2::SockAddr;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// From linux/if_tun.h: `_IOW('T', 226, int)`.
pub(crate) const TUNSETCARRIER: u64 = 0x4004_54e2;

/// Opens `/dev/net/tun`, not blocking, and attaches it to a new interface: TUN, or TAP where `ethernet`.
///
/// `name` may hold a `%d` that the kernel replaces by a number. With `vnet_header` each packet read or written is
/// preceded by a `struct virtio_net_hdr` of ten bytes in native byte order. Returns the descriptor and the name
/// that the interface got.
///
/// # Errors
/// `EBUSY` when an interface of that name exists, `EPERM` without CAP_NET_ADMIN, `ENOENT` without the device node.
pub(crate) fn open_tun(name: &str, ethernet: bool, vnet_header: bool) -> io::Result<(OwnedFd, String)> {
    if name.len() >= libc::IFNAMSIZ || name.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    // SAFETY: all bit patterns, zero among them, are valid for this plain C structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let mut flags = libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
    flags |= if ethernet { libc::IFF_TAP } else { libc::IFF_TUN };
    if vnet_header {
        flags |= libc::IFF_VNET_HDR;
    }
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which outlives the call; the descriptor is open.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    if vnet_header {
        let size: libc::c_int = 10;
        // SAFETY: TUNSETVNETHDRSZ reads one `int`, which outlives the call; the descriptor is open.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const size) })?;
    }
    let name = request.ifr_name.iter().take_while(|&&c| c != 0).map(|&c| char::from(c as u8)).collect();
    Ok((file.into(), name))
}

/// Tells the kernel which offloads (`TUN_F_*`) packets read from the TUN may need; those written may always.
///
/// # Errors
/// `EINVAL` when the kernel does not know one of them.
pub(crate) fn set_tun_offload(tun: BorrowedFd<'_>, offloads: libc::c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value and touches no memory of ours; the descriptor is open.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) })
}

/// Says whether a TUN or TAP interface has carrier.
///
/// # Errors
/// `EINVAL` when the kernel does not know how.
pub(crate) fn set_tun_carrier(tun: BorrowedFd<'_>, carrier: bool) -> io::Result<()> {
    let carrier = libc::c_int::from(carrier);
    // SAFETY: TUNSETCARRIER reads one `int`, which outlives the call; the descriptor is open.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETCARRIER as _, &raw const carrier) })
}

/// Stops the kernel from stamping what arrives on a socket with its time (`SO_TIMESTAMPNS`).
///
/// # Errors
/// What setsockopt says of a descriptor that is no socket.
pub(crate) fn stop_timestamps(socket: BorrowedFd<'_>) -> io::Result<()> {
    let off: libc::c_int = 0;
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: SO_TIMESTAMPNS reads one `int`, which outlives the call; the descriptor is open.
    check(unsafe {
        let value = (&raw const off).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, value, size)
    })
}

/// Lets datagrams of a UDP socket be fragmented, by this host and by routers, or sets "don't fragment" again. Routers fragment no
/// IPv6, so its datagrams become fragments of 1280 bytes here.
///
/// # Errors
/// What setsockopt says of a descriptor that is no UDP socket.
pub(crate) fn allow_fragments(socket: BorrowedFd<'_>, is_v4: bool, allowed: bool) -> io::Result<()> {
    let set = |level: libc::c_int, name: libc::c_int, value: libc::c_int| {
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the options named below read one `int`, which outlives the call; the descriptor is open.
        check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), size) })
    };
    if is_v4 {
        let discover = if allowed { libc::IP_PMTUDISC_DONT } else { libc::IP_PMTUDISC_PROBE };
        return set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, discover);
    }
    let (discover, size) = if allowed { (libc::IPV6_PMTUDISC_DONT, 1280) } else { (libc::IPV6_PMTUDISC_PROBE, 0) };
    set(libc::IPPROTO_IPV6, libc::IPV6_MTU, size)?;
    set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, discover)
}

/// Has a UDP socket keep what ICMP tells of its datagrams (`IP_RECVERR`), or keep nothing, and forget what it kept.
///
/// # Errors
/// What setsockopt says of a descriptor that is no UDP socket.
pub(crate) fn keep_errors(socket: BorrowedFd<'_>, is_v4: bool, keep: bool) -> io::Result<()> {
    let (level, name) =
        if is_v4 { (libc::IPPROTO_IP, libc::IP_RECVERR) } else { (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) };
    let value = libc::c_int::from(keep);
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: both options read one `int`, which outlives the call; the descriptor is open.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), size) })
}

/// Takes the oldest of the errors that a socket kept: the bytes of the address that its datagram was sent to, and of its
/// control messages, of which this gives the lengths.
///
/// # Errors
/// `EAGAIN` when there is none.
pub(crate) fn take_error(socket: BorrowedFd<'_>, name: &mut [u8], control: &mut [u8]) -> io::Result<(usize, usize)> {
    // SAFETY: all bit patterns, zero among them, are valid for this plain C structure.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = name.as_mut_ptr().cast();
    message.msg_namelen = name.len() as libc::socklen_t;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = control.len() as _;
    // SAFETY: the kernel writes within the lengths given of the two slices, which outlive the call, and no data, since
    // there is no room for any; the descriptor is open.
    let result =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // The kernel tells of an address that is longer than its room how long it is.
    Ok((name.len().min(message.msg_namelen as usize), control.len().min(message.msg_controllen as usize)))
}

/// Most messages that one [`send_several`] takes.
pub(crate) const SEVERAL: usize = 16;

/// A message of a datagram socket: whereto, what, and the control messages with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) to: &'a SockAddr,
    pub(crate) bytes: &'a [u8],
    pub(crate) control: &'a [u8],
}

/// Sends up to [`SEVERAL`] messages by one call; how many the kernel took.
///
/// # Errors
/// That of the first message; the kernel took none.
pub(crate) fn send_several<'a>(
    socket: BorrowedFd<'_>,
    messages: impl Iterator<Item = Message<'a>>,
) -> io::Result<usize> {
    let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; SEVERAL];
    // SAFETY: all-zero is a valid mmsghdr (no name, no data, no control).
    let mut headers: [libc::mmsghdr; SEVERAL] = unsafe { std::mem::zeroed() };
    let mut count = 0;
    for ((message, part), header) in messages.zip(&mut parts).zip(&mut headers) {
        *part = libc::iovec { iov_base: message.bytes.as_ptr().cast_mut().cast(), iov_len: message.bytes.len() };
        header.msg_hdr.msg_iov = part;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_name = message.to.as_ptr().cast_mut().cast();
        header.msg_hdr.msg_namelen = message.to.len();
        header.msg_hdr.msg_control = message.control.as_ptr().cast_mut().cast();
        header.msg_hdr.msg_controllen = message.control.len() as _;
        count += 1;
    }
    // SAFETY: the first `count` headers point at `parts`, which point at slices that live for 'a, as the addresses and control
    // messages do. Nothing else of them was set since they were zero.
    unsafe { sendmmsg(socket.as_raw_fd(), &mut headers[..count]) }
}

/// Sends these messages by one call, without waiting; how many the kernel took.
///
/// The kernel is asked, and not the C library: musl's structures have padding where the kernel reads halves of numbers, so that it
/// asks for each message by itself.
///
/// # Errors
/// That of the first message; the kernel took none.
///
/// # Safety
/// All that the headers point at has to be there. They were zero before their fields were set, so that padding still is.
pub(super) unsafe fn sendmmsg(socket: RawFd, headers: &mut [libc::mmsghdr]) -> io::Result<usize> {
    // SAFETY: headers and length belong together, and the caller vouches for what they point at, through which the kernel only
    // reads. It writes how many bytes of each it took, into the headers. A descriptor that is not open is an error.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sendmmsg,
            socket,
            headers.as_mut_ptr(),
            headers.len() as libc::c_uint,
            libc::MSG_DONTWAIT,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as usize) }
}

/// Most messages that one [`receive_several`] takes.
pub(crate) const RECEIVED: usize = 64;

/// Takes messages that wait at a socket, without waiting: each into its place of `place` bytes, of which `buffer` has as many as
/// it has room for. How many; `lengths` says how long each is. What is longer is cut.
///
/// # Errors
/// `EAGAIN` when there is none.
pub(crate) fn receive_several(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    place: usize,
    lengths: &mut [usize; RECEIVED],
) -> io::Result<usize> {
    let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; RECEIVED];
    // SAFETY: all-zero is a valid mmsghdr (no name, no data, no control).
    let mut headers: [libc::mmsghdr; RECEIVED] = unsafe { std::mem::zeroed() };
    let mut count = 0;
    for ((bytes, part), header) in buffer.chunks_exact_mut(place.max(1)).zip(&mut parts).zip(&mut headers) {
        *part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        header.msg_hdr.msg_iov = part;
        header.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    // SAFETY: the first `count` headers point at `parts`, which point at separate places of `buffer`; all outlive the call, and the
    // kernel writes within their lengths. No timeout is given. The descriptor is open.
    let result = unsafe {
        let none = std::ptr::null_mut();
        libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, libc::MSG_DONTWAIT as _, none)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    for (length, header) in lengths.iter_mut().zip(&headers).take(result as usize) {
        *length = header.msg_len as usize;
    }
    Ok(result as usize)
}

/// Moves the calling thread, and only it, into a new network namespace, which ends with the last thread, process and
/// descriptor in it.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN.
pub fn enter_new_network_namespace() -> io::Result<()> {
    // SAFETY: unshare(CLONE_NEWNET) changes the network namespace of this thread and shares no memory differently.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })
}

/// Lets a write to a closed pipe end the process quietly, as every Unix tool does (`fairspan status | head`). Not for
/// daemons: a client that hangs up must not end them.
pub fn default_sigpipe() {
    // SAFETY: SIG_DFL is a valid disposition for SIGPIPE, and no handler of ours is installed for it.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Lets the signals that ask for an end reach this process, also where whoever started it had blocked them: it would
/// never end otherwise. To be called before there is a second thread.
pub fn unblock_signals() {
    // SAFETY: sigemptyset makes the set valid before anything reads it; the set outlives the calls, and no old mask is
    // asked for.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            libc::sigaddset(&raw mut signals, signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const signals, std::ptr::null_mut());
    }
}

/// How a child ended, and what it used.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Most memory that it had resident, in bytes.
    pub peak: u64,
    /// Processor time, its own and the kernel's for it.
    pub cpu: Duration,
}

/// Waits for a child's end.
///
/// Linux counts what the parent had resident at the start as the child's too, so a small parent sees best.
///
/// # Errors
/// `ECHILD` when somebody else has waited for it.
pub fn wait_with_usage(child: Child) -> io::Result<Ended> {
    let pid = child.id() as libc::pid_t;
    let mut status: libc::c_int = 0;
    // SAFETY: all bit patterns, zero among them, are valid for this plain C structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call, which writes one value of its type to each.
    while unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) } != pid {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    Ok(Ended {
        status: ExitStatus::from_raw(status),
        peak: usage.ru_maxrss as u64 * 1024,
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
    })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
