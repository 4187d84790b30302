//! AF_PACKET sockets, their receive ring (TPACKET_V2), batched sends, and the ethtool feature switches.
//!
//! TPACKET_V2 rather than V3: a V3 block is handed over when it is full or after a whole number of milliseconds,
//! which would delay every frame by more than the emulator's accuracy.

use std::ffi::CStr;
use std::io;
use std::mem::{size_of, zeroed};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

/// Size of `struct virtio_net_hdr`, which precedes each frame on a socket opened with [`Options::vnet_header`].
pub(crate) const VNET_HEADER: usize = 10;

/// Most frames that one [`PacketSocket::send`] hands to the kernel.
pub(crate) const SEND_BATCH: usize = 64;

/// How a packet socket is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    /// See every frame on the wire, whatever its destination.
    pub promiscuous: bool,
    /// Frames carry a virtio-net header (checksum and segmentation state) in both directions.
    pub vnet_header: bool,
    /// Only frames of these EtherTypes are received; all of them when empty. At most 8.
    pub ether_types: &'a [u16],
    /// Slots of the receive ring; rounded up to whole blocks.
    pub slots: usize,
    /// Longest frame that fits a slot whole.
    pub frame: usize,
    /// Send and fallback receive buffer, bytes.
    pub buffer: usize,
}

/// A frame as it lies in the receive ring.
#[derive(Debug)]
pub(crate) struct RxFrame<'a> {
    /// The virtio-net header (when asked for), then the frame from its first MAC address on.
    pub data: &'a [u8],
    /// Length of the frame on the wire, without the virtio-net header and the VLAN tag.
    pub wire_len: usize,
    /// A VLAN tag that the kernel took out: TPID and TCI.
    pub vlan: Option<(u16, u16)>,
    /// Arrival, nanoseconds of `CLOCK_REALTIME`.
    pub arrival_realtime: u64,
    /// The frame was addressed to another host (seen because of promiscuous mode).
    pub other_host: bool,
    /// The slot was too short; the whole frame waits for [`PacketSocket::recv_copy`].
    pub copied: bool,
}

/// An AF_PACKET socket bound to one device, with a receive ring.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    fd: OwnedFd,
    index: u32,
    ring: Ring,
    vnet: usize,
}

/// The ring of a packet socket, for one direction.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) base: NonNull<u8>,
    bytes: usize,
    pub(super) slot: usize,
    pub(super) slots: usize,
    /// The slot whose turn it is.
    pub(super) next: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
unsafe impl Send for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: `base` and `bytes` are what mmap returned; nothing borrows the ring any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

pub(super) const HEADER: usize = size_of::<libc::tpacket2_hdr>();
/// Kernel's TPACKET_ALIGN(TPACKET2_HDRLEN) + alignment of the network header + virtio-net header, generously.
const HEADROOM: usize = 128;

impl Ring {
    /// Gives the socket, whose version is set, a ring of `slots`, rounded up to whole blocks, for frames of up to `frame` bytes.
    pub(super) fn map(fd: RawFd, direction: libc::c_int, slots: usize, frame: usize) -> io::Result<Ring> {
        let slot = (frame + HEADROOM).next_power_of_two().max(2048);
        let block = slot.max(64 * 1024);
        let blocks = (slots.max(1) * slot).div_ceil(block);
        let request = libc::tpacket_req {
            tp_block_size: block as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: slot as u32,
            tp_frame_nr: (blocks * (block / slot)) as u32,
        };
        set(fd, libc::SOL_PACKET, direction, &request)?;
        let bytes = block * blocks;
        // SAFETY: a new shared mapping of the ring just requested, of exactly its size.
        let base =
            unsafe { libc::mmap(null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { base, bytes, slot, slots: blocks * (block / slot), next: 0 })
    }
}

impl PacketSocket {
    /// Opens a socket on the device called `name` in this thread's network namespace.
    pub(crate) fn open(name: &CStr, options: &Options<'_>) -> io::Result<PacketSocket> {
        // SAFETY: `name` is NUL-terminated.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        let Some(index) = NonZeroU32::new(index) else {
            return Err(io::Error::last_os_error());
        };
        let fd = unbound()?;
        let raw = fd.as_raw_fd();

        set(raw, libc::SOL_PACKET, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as libc::c_int))?;
        set(raw, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
        if options.vnet_header {
            set(raw, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1i32)?;
            // Frames longer than a slot are also queued whole on the socket.
            set(raw, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &1i32)?;
        }
        for names in [(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF), (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)] {
            set_buffer(raw, options.buffer, names)?;
        }
        if !options.ether_types.is_empty() {
            attach_filter(raw, options.ether_types)?;
        }

        let ring = Ring::map(raw, libc::PACKET_RX_RING, options.slots, options.frame)?;

        if options.promiscuous {
            let request = libc::packet_mreq {
                mr_ifindex: index.get() as libc::c_int,
                mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            set(raw, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)?;
        }
        bind(raw, index.get(), libc::ETH_P_ALL as u16)?;
        let vnet = if options.vnet_header { VNET_HEADER } else { 0 };
        Ok(PacketSocket { fd, index: index.get(), ring, vnet })
    }

    /// Interface index of the device.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Hands the next received frame to `sink`; `None` when the ring is empty.
    pub(crate) fn recv<R>(&mut self, sink: impl FnOnce(RxFrame<'_>) -> R) -> Option<R> {
        let ring = &mut self.ring;
        // SAFETY: `next < slots`, so the slot lies inside the mapping.
        let slot = unsafe { ring.base.as_ptr().add(ring.next * ring.slot) };
        // SAFETY: tp_status is the first field, 4-byte aligned; it is shared with the kernel, hence atomic.
        let status = unsafe { &*slot.cast::<AtomicU32>() };
        let bits = status.load(Ordering::Acquire);
        if bits & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot is ours while TP_STATUS_USER is set; the header is plain integers at its start.
        let header = unsafe { slot.cast::<libc::tpacket2_hdr>().read() };
        // SAFETY: the kernel puts the sockaddr_ll right behind the aligned header, inside the slot.
        let link = unsafe { slot.add(HEADER.next_multiple_of(16)).cast::<libc::sockaddr_ll>().read_unaligned() };
        let start = usize::from(header.tp_mac).saturating_sub(self.vnet).min(ring.slot);
        let len = (header.tp_snaplen as usize + self.vnet).min(ring.slot - start);
        // SAFETY: `start + len <= slot`, and the kernel does not write to the slot until it is given back below.
        let data = unsafe { std::slice::from_raw_parts(slot.add(start), len) };
        let vlan = (bits & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let tpid = if bits & libc::TP_STATUS_VLAN_TPID_VALID != 0 { header.tp_vlan_tpid } else { 0x8100 };
            (tpid, header.tp_vlan_tci)
        });
        let result = sink(RxFrame {
            data,
            wire_len: header.tp_len as usize,
            vlan,
            arrival_realtime: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
            other_host: link.sll_pkttype == libc::PACKET_OTHERHOST,
            copied: bits & libc::TP_STATUS_COPY != 0,
        });
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        ring.next = if ring.next + 1 == ring.slots { 0 } else { ring.next + 1 };
        Some(result)
    }

    /// Receives a frame that was too long for its slot; `buffer` takes the virtio-net header and the frame.
    pub(crate) fn recv_copy(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: `buffer` is writable for its length.
        let n =
            unsafe { libc::recv(self.fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
    }

    /// Frames that the ring had no room for since the last call.
    pub(crate) fn ring_drops(&self) -> u64 {
        #[repr(C)]
        #[derive(Default)]
        struct Stats {
            packets: u32,
            drops: u32,
        }
        let mut stats = Stats::default();
        let mut len = size_of::<Stats>() as libc::socklen_t;
        // SAFETY: `stats` is writable for `len` bytes and has the kernel's layout (struct tpacket_stats).
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &mut len,
            )
        };
        if result == 0 { u64::from(stats.drops) } else { 0 }
    }

    /// Sends up to [`SEND_BATCH`] frames, each gathered from `PARTS` slices; returns how many the kernel took.
    ///
    /// An error is that of the first frame; the kernel took none.
    pub(crate) fn send<'a, const PARTS: usize>(
        &self,
        frames: impl Iterator<Item = [&'a [u8]; PARTS]>,
    ) -> io::Result<usize> {
        send(self.fd.as_raw_fd(), frames)
    }

    /// The pending error of the socket (`SO_ERROR`), which it clears.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        let mut error: libc::c_int = 0;
        let mut len = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: `error` is writable for `len` bytes.
        let result = unsafe {
            libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut error).cast(), &mut len)
        };
        (result == 0 && error != 0).then(|| io::Error::from_raw_os_error(error))
    }

    /// Whether the device still exists. A device that vanished and came back has another index: open anew.
    pub(crate) fn device_exists(&self) -> bool {
        // SAFETY: all-zero is a valid sockaddr_ll; the call writes at most `len` bytes of it.
        let (result, address) = unsafe {
            let mut address: libc::sockaddr_ll = zeroed();
            let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            let result = libc::getsockname(self.fd.as_raw_fd(), (&raw mut address).cast(), &mut len);
            (result, address)
        };
        result == 0 && address.sll_ifindex > 0
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sends frames by one call; how many the kernel took.
pub(super) fn send<'a, const PARTS: usize>(
    fd: RawFd,
    frames: impl Iterator<Item = [&'a [u8]; PARTS]>,
) -> io::Result<usize> {
    let empty = libc::iovec { iov_base: null_mut(), iov_len: 0 };
    let mut parts = [[empty; PARTS]; SEND_BATCH];
    // SAFETY: all-zero is a valid mmsghdr (no name, no data, no control).
    let mut messages: [libc::mmsghdr; SEND_BATCH] = unsafe { zeroed() };
    let mut count = 0;
    for ((frame, parts), message) in frames.zip(&mut parts).zip(&mut messages) {
        for (bytes, part) in frame.iter().zip(parts.iter_mut()) {
            part.iov_base = bytes.as_ptr().cast_mut().cast();
            part.iov_len = bytes.len();
        }
        message.msg_hdr.msg_iov = parts.as_mut_ptr();
        message.msg_hdr.msg_iovlen = PARTS as _;
        count += 1;
    }
    if count == 0 {
        return Ok(0);
    }
    // SAFETY: the first `count` messages point at `parts`, which point at slices that live for 'a. Nothing else of them was set
    // since they were zero.
    unsafe { super::sendmmsg(fd, &mut messages[..count]) }
}

/// A socket that receives nothing until it is bound.
pub(super) fn unbound() -> io::Result<OwnedFd> {
    // SAFETY: plain system call; the result is checked below.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
    check(fd)?;
    // SAFETY: `fd` was just opened and is owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a buffer's size; the kernel's limit applies where the privilege to exceed it is missing.
pub(super) fn set_buffer(fd: RawFd, bytes: usize, (forced, plain): (libc::c_int, libc::c_int)) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    set(fd, libc::SOL_SOCKET, forced, &bytes).or_else(|_| set(fd, libc::SOL_SOCKET, plain, &bytes))
}

/// Binds a socket to a device; it receives frames of `protocol`, of none where that is 0.
pub(super) fn bind(fd: RawFd, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: all-zero is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as libc::c_int;
    // SAFETY: `address` is a sockaddr_ll of the length given.
    let result =
        unsafe { libc::bind(fd, (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t) };
    check(result).map(drop)
}

/// A classic BPF program that keeps whole frames of the given EtherTypes and drops the rest.
fn attach_filter(fd: RawFd, ether_types: &[u16]) -> io::Result<()> {
    let wanted = &ether_types[..ether_types.len().min(8)];
    let count = wanted.len() as u8;
    let mut program = vec![libc::sock_filter { code: 0x28, jt: 0, jf: 0, k: 12 }]; // ldh [12]
    for (n, &ether_type) in (0u8..).zip(wanted) {
        program.push(libc::sock_filter { code: 0x15, jt: count - n, jf: 0, k: u32::from(ether_type) }); // jeq
    }
    program.push(libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 }); // ret 0
    program.push(libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: u32::MAX }); // ret all
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

pub(super) fn set<T>(fd: RawFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: `value` is readable for its own size.
    let result =
        unsafe { libc::setsockopt(fd, level, option, (&raw const *value).cast(), size_of::<T>() as libc::socklen_t) };
    check(result).map(drop)
}

pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// What [`device`] reports of a network device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// Its frames have Ethernet headers.
    pub(crate) ethernet: bool,
    /// Hardware address.
    pub mac: [u8; 6],
    /// Largest payload of a frame, bytes.
    pub mtu: usize,
    /// Administratively up.
    pub up: bool,
    /// That, and with carrier.
    pub running: bool,
}

/// Asks the kernel about the device `name` in the namespace of `socket` (any socket).
pub(crate) fn device(socket: BorrowedFd<'_>, name: &CStr) -> io::Result<Device> {
    let fd = socket.as_raw_fd();
    let mut request = interface_request(name)?;
    // SAFETY (all three): `request` is a valid ifreq with a NUL-terminated name; the kernel fills the union field
    // that the request code names, and that field alone is read.
    unsafe {
        check(libc::ioctl(fd, libc::SIOCGIFHWADDR as _, &raw mut request))?;
        let ethernet = request.ifr_ifru.ifru_hwaddr.sa_family == libc::ARPHRD_ETHER;
        let hardware = request.ifr_ifru.ifru_hwaddr.sa_data;
        let mut mac = [0u8; 6];
        for (to, from) in mac.iter_mut().zip(hardware) {
            *to = from as u8;
        }
        check(libc::ioctl(fd, libc::SIOCGIFMTU as _, &raw mut request))?;
        let mtu = request.ifr_ifru.ifru_mtu.max(0) as usize;
        check(libc::ioctl(fd, libc::SIOCGIFFLAGS as _, &raw mut request))?;
        let flags = i32::from(request.ifr_ifru.ifru_flags);
        let up = flags & libc::IFF_UP != 0;
        let running = up && flags & libc::IFF_RUNNING != 0;
        Ok(Device { ethernet, mac, mtu, up, running })
    }
}

fn interface_request(name: &CStr) -> io::Result<libc::ifreq> {
    let bytes = name.to_bytes();
    if bytes.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(request)
}

const ETHTOOL_GSET: u32 = 0x01;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
const NAME: usize = 32;

/// The names of the kernel's device features (`ethtool -k`), by bit number.
pub(crate) fn feature_names(socket: BorrowedFd<'_>, device: &CStr) -> io::Result<Vec<String>> {
    // struct ethtool_sset_info { cmd, reserved, u64 mask, u32 data[] }
    let mut info = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0];
    ethtool(socket, device, &mut info)?;
    let count = (info[4] as usize).min(1024);
    // struct ethtool_gstrings { cmd, string_set, len, data[len * 32] }
    let mut strings = vec![0u32; 3 + count * NAME / 4];
    strings[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32]);
    ethtool(socket, device, &mut strings)?;
    let bytes: Vec<u8> = strings[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    Ok(bytes
        .chunks_exact(NAME)
        .map(|name| {
            let end = name.iter().position(|&b| b == 0).unwrap_or(NAME);
            String::from_utf8_lossy(&name[..end]).into_owned()
        })
        .collect())
}

/// What the device says of its speed, in Mbit/s, and whether it is full duplex; `None` where it does not know.
pub(crate) fn speed(socket: BorrowedFd<'_>, device: &CStr) -> (Option<u32>, Option<bool>) {
    // struct ethtool_cmd, 44 bytes: speed at 12, duplex at 14, the speed's upper half at 28.
    let mut data = [0u32; 11];
    data[0] = ETHTOOL_GSET;
    if ethtool(socket, device, &mut data).is_err() {
        return (None, None);
    }
    let bytes = data[3].to_ne_bytes();
    let low = u16::from_ne_bytes([bytes[0], bytes[1]]);
    let upper = data[7].to_ne_bytes();
    let high = u16::from_ne_bytes([upper[0], upper[1]]);
    let speed = u32::from(high) << 16 | u32::from(low);
    // All ones, also in the lower half alone, means that it is not known.
    let known = speed != 0 && speed != u32::MAX && speed != u32::from(u16::MAX);
    (
        known.then_some(speed),
        match bytes[2] {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
    )
}

/// Which of `count` features are active on `device`, as 32-bit blocks.
pub(crate) fn features(socket: BorrowedFd<'_>, device: &CStr, count: usize) -> io::Result<Vec<u32>> {
    feature_words(socket, device, count, 2)
}

/// The features that can be switched on or off at a device, as bits, `count` of them.
pub(crate) fn changeable_features(socket: BorrowedFd<'_>, device: &CStr, count: usize) -> io::Result<Vec<u32>> {
    feature_words(socket, device, count, 0)
}

/// One word of each block of features.
fn feature_words(socket: BorrowedFd<'_>, device: &CStr, count: usize, word: usize) -> io::Result<Vec<u32>> {
    let blocks = count.div_ceil(32);
    // struct ethtool_gfeatures { cmd, size, { available, requested, active, never_changed }[size] }
    let mut data = vec![0u32; 2 + 4 * blocks];
    data[..2].copy_from_slice(&[ETHTOOL_GFEATURES, blocks as u32]);
    ethtool(socket, device, &mut data)?;
    Ok(data[2..].chunks_exact(4).map(|block| block[word]).collect())
}

/// Sets the features of `mask` to `value` (both in 32-bit blocks); those that the device cannot change stay.
pub(crate) fn set_features(socket: BorrowedFd<'_>, device: &CStr, mask: &[u32], value: &[u32]) -> io::Result<()> {
    // struct ethtool_sfeatures { cmd, size, { valid, requested }[size] }
    let mut data = vec![ETHTOOL_SFEATURES, mask.len() as u32];
    for (&mask, &value) in mask.iter().zip(value) {
        data.extend([mask, value & mask]);
    }
    ethtool(socket, device, &mut data)
}

fn ethtool(socket: BorrowedFd<'_>, device: &CStr, data: &mut [u32]) -> io::Result<()> {
    let mut request = interface_request(device)?;
    request.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
    // SAFETY: `data` holds the structure that its first word (the command) names, sized as that structure says,
    // and outlives the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) }).map(drop)
}

/// Puts the calling thread in the real-time class (`SCHED_FIFO`) at `priority`.
pub(crate) fn set_realtime(priority: i32) -> io::Result<()> {
    // SAFETY: all-zero is a valid sched_param; pid 0 is the calling thread.
    let result = unsafe {
        let mut param: libc::sched_param = zeroed();
        param.sched_priority = priority;
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const param)
    };
    check(result).map(drop)
}
