//! The TUN interface: the host's side of the bond.
//!
//! With offloads, the kernel hands over TCP (and UDP) in units of up to 64 kB and takes it back the same way, ten
//! times cheaper than packet by packet; [`offload`](crate::offload) splits and joins them. Sources: Linux
//! `Documentation/networking/tuntap.rst`, `drivers/net/tun.c`.

use crate::netlink::{Netlink, NetlinkError};
use crate::offload::{Head, Joiner, MAX_SEGMENTS, Offloads, VnetHeader, complete_checksum, split};
use crate::pool::PacketBuf;
use crate::privilege::lacking;
use crate::system::system;
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What to open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The interface's name; at most 15 bytes. A `%d` in it becomes the first free number.
    pub name: String,
    /// Ask the kernel for units of segments. Default true; what the kernel refuses is done without.
    pub offload: bool,
    /// Leave checksums that the kernel left partial as they are
    /// ([`checksum_partial`](PacketBuf::checksum_partial)). Default false. Needs `offload`.
    pub keep_partial: bool,
}

impl Config {
    /// An interface named `name` with the defaults.
    pub fn new(name: impl Into<String>) -> Config {
        Config { name: name.into(), offload: true, keep_partial: false }
    }
}

/// Why there is no TUN, or no more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TunError {
    /// The name is taken.
    #[error("interface {name} exists already: another daemon uses the name; stop it, or choose another name")]
    NameInUse {
        /// The name that was asked for.
        name: String,
    },
    /// The name cannot be an interface's.
    #[error("{name:?} is not an interface name: 1 to 15 characters without '/' and spaces are")]
    BadName {
        /// The name that was asked for.
        name: String,
    },
    /// Not allowed.
    #[error("cannot open TUN interface {name}{}", lacking(&io::Error::from_raw_os_error(libc::EPERM), "CAP_NET_ADMIN"))]
    NotPermitted {
        /// The name that was asked for.
        name: String,
    },
    /// The device is not for this user.
    #[error(
        "/dev/net/tun: this user may not open it: `chmod 666 /dev/net/tun`, which is safe, as it takes CAP_NET_ADMIN to use it"
    )]
    NoAccess,
    /// The kernel has no TUN.
    #[error("this system has no /dev/net/tun: load the kernel module tun (in a container, pass the device in)")]
    NoDriver,
    /// The interface was deleted while it was in use.
    #[error("interface {name} was deleted by someone else")]
    Gone {
        /// The interface.
        name: String,
    },
    /// The kernel refused something else.
    #[error("interface {name}: {action}: {}", io::Error::from_raw_os_error(*.errno))]
    Refused {
        /// The interface.
        name: String,
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        errno: i32,
    },
    /// Netlink failed.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

/// What happened on a TUN since it was opened. Packets are IP packets, units are reads or writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Units that were read.
    pub read_units: u64,
    /// Packets that they were split into.
    pub read_packets: u64,
    /// Bytes of those packets.
    pub read_bytes: u64,
    /// Units that were read and could not be split, because they are malformed.
    pub read_malformed: u64,
    /// Units that were written.
    pub written_units: u64,
    /// Packets that they were joined from.
    pub written_packets: u64,
    /// Bytes of those packets.
    pub written_bytes: u64,
    /// Units that the kernel refused and whose packets were then written one by one.
    pub retried_units: u64,
    /// Packets lost because the interface is down (EIO).
    pub lost_down: u64,
    /// Packets lost because the kernel calls them invalid (EINVAL): no IP packet, say.
    pub lost_invalid: u64,
    /// Packets lost for want of kernel memory (ENOBUFS, ENOMEM, EAGAIN).
    pub lost_memory: u64,
    /// Packets lost for another error.
    pub lost_other: u64,
    /// Packets not written because they are malformed: a partial checksum where none can be.
    pub malformed: u64,
}

impl Stats {
    /// Every counter with its name.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("read_units", self.read_units),
            ("read_packets", self.read_packets),
            ("read_bytes", self.read_bytes),
            ("read_malformed", self.read_malformed),
            ("written_units", self.written_units),
            ("written_packets", self.written_packets),
            ("written_bytes", self.written_bytes),
            ("retried_units", self.retried_units),
            ("lost_down", self.lost_down),
            ("lost_invalid", self.lost_invalid),
            ("lost_memory", self.lost_memory),
            ("lost_other", self.lost_other),
            ("malformed", self.malformed),
        ]
        .into_iter()
    }

    /// Packets from the peer that did not reach the host, for whatever reason.
    pub fn lost(&self) -> u64 {
        self.lost_down + self.lost_invalid + self.lost_memory + self.lost_other + self.malformed
    }
}

/// An open TUN interface. It disappears, with its addresses and routes, when this is dropped or the process ends.
#[derive(Debug)]
pub struct Tun {
    fd: OwnedFd,
    name: String,
    index: u32,
    /// Each packet has a vnet header.
    vnet_header: bool,
    offloads: Offloads,
    keep_partial: bool,
    buffer: Box<[u8]>,
    joiner: Joiner,
    stats: Stats,
}

/// The longest read: a vnet header and the largest unit.
const READ_LEN: usize = VnetHeader::LEN + 65_536 + 512;

/// Slices of the longest write: the head, and the segments.
const MAX_SLICES: usize = MAX_SEGMENTS + 1;

impl Tun {
    /// Opens a new TUN interface. It is down and has no address yet.
    ///
    /// # Errors
    /// [`TunError`]; an existing name is one of them.
    pub fn open(config: &Config) -> Result<Tun, TunError> {
        let open = |vnet_header| system().open_tun(&config.name, vnet_header);
        let opened = match config.offload {
            true => match open(true) {
                // A kernel without vnet headers.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    open(false).map(|(fd, name)| (fd, name, false))
                }
                other => other.map(|(fd, name)| (fd, name, true)),
            },
            false => open(false).map(|(fd, name)| (fd, name, false)),
        };
        let (fd, name, vnet_header) = opened.map_err(|error| open_error(config, &error))?;
        let offloads = if vnet_header { agree_offloads(fd.as_fd()) } else { Offloads::default() };
        let mut netlink = Netlink::open()?;
        let index = netlink.interface(&name)?.index;
        // Otherwise the host's own router solicitations would be the tunnel's first packets. A host without IPv6
        // refuses, and has none.
        if let Err(error) = netlink.disable_link_local(&name) {
            tracing::debug!(%error, "the TUN may get a link-local address");
        }
        Ok(Tun {
            fd,
            name,
            index,
            vnet_header,
            offloads,
            keep_partial: config.keep_partial,
            buffer: vec![0; READ_LEN].into_boxed_slice(),
            joiner: Joiner::new(),
            stats: Stats::default(),
        })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's index.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// What the kernel agreed to exchange in units.
    pub fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Sets the interface's MTU.
    ///
    /// # Errors
    /// What the kernel says: an MTU below 68 (1280 with IPv6 addresses) or above 65535 is refused.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), TunError> {
        Ok(Netlink::open()?.set_mtu(&self.name, mtu)?)
    }

    /// Reads one unit, if there is one, and gives its packets to `sink`. `None` when there is nothing to read now;
    /// otherwise the number of packets, 0 for a malformed unit.
    ///
    /// # Errors
    /// [`TunError::Gone`] when the interface was deleted; other failures are returned as they are.
    pub fn recv(&mut self, sink: &mut impl FnMut(PacketBuf)) -> Result<Option<usize>, TunError> {
        let len = loop {
            match system().read_tun(self.fd.as_fd(), &mut self.buffer) {
                Ok(len) => break len,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(errno) if is_gone(errno) => return Err(TunError::Gone { name: self.name.clone() }),
                Err(errno) => {
                    let (name, errno) = (self.name.clone(), errno.raw_os_error());
                    return Err(TunError::Refused { name, action: "read", errno });
                }
            }
        };
        self.stats.read_units += 1;
        let read = &self.buffer[..len];
        let (vnet, unit) = match read.split_first_chunk() {
            Some((header, unit)) if self.vnet_header => (VnetHeader::from_bytes(header), unit),
            None if self.vnet_header => {
                self.stats.read_malformed += 1;
                return Ok(Some(0));
            }
            _ => (VnetHeader::default(), read),
        };
        let (mut packets, mut bytes) = (0, 0);
        let result = split(&vnet, unit, self.keep_partial, &mut |packet: PacketBuf| {
            packets += 1;
            bytes += packet.len() as u64;
            sink(packet);
        });
        if let Err(error) = result {
            tracing::debug!(interface = self.name, %error, "malformed unit from the host");
            self.stats.read_malformed += 1;
        }
        self.stats.read_packets += packets as u64;
        self.stats.read_bytes += bytes;
        Ok(Some(packets))
    }

    /// Writes all of `packets` to the host, consecutive segments of a flow together, and leaves `packets` empty.
    /// What the kernel does not take is counted and dropped.
    ///
    /// # Errors
    /// Only [`TunError::Gone`]: the interface was deleted.
    pub fn send(&mut self, packets: &mut Vec<PacketBuf>) -> Result<(), TunError> {
        let mut joiner = std::mem::take(&mut self.joiner);
        let result = self.send_planned(&mut joiner, packets);
        self.joiner = joiner;
        packets.clear();
        result
    }

    fn send_planned(&mut self, joiner: &mut Joiner, packets: &mut [PacketBuf]) -> Result<(), TunError> {
        if !self.vnet_header {
            return packets.iter_mut().try_for_each(|packet| self.send_bare(packet));
        }
        joiner.plan(packets, self.offloads);
        for unit in joiner.units() {
            let Some(head) = unit.head(packets) else {
                joiner.packets(unit).try_for_each(|index| self.send_single(&packets[index]))?;
                continue;
            };
            let skip = head.packet_headers();
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            slices[0] = IoSlice::new(head.as_slice());
            let mut bytes = 0;
            for (slice, index) in slices[1..].iter_mut().zip(joiner.packets(unit)) {
                let packet = packets[index].as_slice();
                *slice = IoSlice::new(&packet[skip..]);
                bytes += packet.len() as u64;
            }
            match self.write(&slices[..=unit.count()]) {
                Ok(()) => self.count_written(unit.count() as u64, bytes),
                // An interface that is down takes the parts no better than the whole.
                Err(Errno::IO) => self.count_lost(Errno::IO, unit.count() as u64)?,
                Err(_) => {
                    self.stats.retried_units += 1;
                    joiner.packets(unit).try_for_each(|index| self.send_single(&packets[index]))?;
                }
            }
        }
        Ok(())
    }

    /// Writes one packet with its vnet header.
    fn send_single(&mut self, packet: &PacketBuf) -> Result<(), TunError> {
        let head = match Head::single(packet) {
            Ok(head) => head,
            Err(error) => {
                tracing::debug!(interface = self.name, %error, "malformed packet for the host");
                self.stats.malformed += 1;
                return Ok(());
            }
        };
        match self.write(&[IoSlice::new(head.as_slice()), IoSlice::new(packet.as_slice())]) {
            Ok(()) => self.count_written(1, packet.len() as u64),
            Err(errno) => self.count_lost(errno, 1)?,
        }
        Ok(())
    }

    /// Writes one packet to a TUN without vnet headers: its checksum must be complete.
    fn send_bare(&mut self, packet: &mut PacketBuf) -> Result<(), TunError> {
        if !complete_checksum(packet) {
            self.stats.malformed += 1;
            return Ok(());
        }
        if packet.is_empty() {
            // The kernel would call it written without having looked.
            return self.count_lost(Errno::INVAL, 1);
        }
        match self.write(&[IoSlice::new(packet.as_slice())]) {
            Ok(()) => self.count_written(1, packet.len() as u64),
            Err(errno) => self.count_lost(errno, 1)?,
        }
        Ok(())
    }

    fn write(&self, slices: &[IoSlice<'_>]) -> Result<(), Errno> {
        loop {
            match system().write_tun(self.fd.as_fd(), slices) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    fn count_written(&mut self, packets: u64, bytes: u64) {
        self.stats.written_units += 1;
        self.stats.written_packets += packets;
        self.stats.written_bytes += bytes;
    }

    fn count_lost(&mut self, errno: Errno, packets: u64) -> Result<(), TunError> {
        let counter = match errno {
            Errno::IO => &mut self.stats.lost_down,
            Errno::INVAL => &mut self.stats.lost_invalid,
            Errno::NOBUFS | Errno::NOMEM | Errno::AGAIN => &mut self.stats.lost_memory,
            _ => &mut self.stats.lost_other,
        };
        *counter += packets;
        if is_gone(errno) { Err(TunError::Gone { name: self.name.clone() }) } else { Ok(()) }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Asks for every offload, then for fewer, until the kernel agrees.
fn agree_offloads(tun: BorrowedFd<'_>) -> Offloads {
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let udp = libc::TUN_F_USO4 | libc::TUN_F_USO6;
    for (flags, offloads) in [
        (tcp | udp, Offloads { tcp: true, udp: true }),
        (tcp, Offloads { tcp: true, udp: false }),
        (libc::TUN_F_CSUM, Offloads::default()),
    ] {
        match system().set_tun_offload(tun, flags) {
            Ok(()) => return offloads,
            Err(error) => tracing::debug!(flags, %error, "the kernel refuses these TUN offloads"),
        }
    }
    Offloads::default()
}

pub(crate) fn open_error(config: &Config, error: &io::Error) -> TunError {
    let name = config.name.clone();
    match error.raw_os_error() {
        Some(libc::EBUSY) => TunError::NameInUse { name },
        Some(libc::EPERM) => TunError::NotPermitted { name },
        Some(libc::EACCES) => TunError::NoAccess,
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => TunError::NoDriver,
        Some(libc::EINVAL) => TunError::BadName { name },
        errno => TunError::Refused { name, action: "open", errno: errno.unwrap_or(0) },
    }
}

/// Whether the error says that the interface no longer exists.
fn is_gone(errno: Errno) -> bool {
    // A read that slept while the interface was deleted ends with EFAULT, all later calls with EBADFD.
    matches!(errno, Errno::BADFD | Errno::FAULT | Errno::NODEV)
}
