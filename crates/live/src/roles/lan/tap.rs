//! The TAP interface: the host's side of an Ethernet bond.
//!
//! The kernel segments and sums before it hands a frame over, so that each is chosen for and sent by itself; what links
//! received goes to the host as they gave it, units of segments and unfinished checksums included, with the header that
//! says so. Source: Linux `Documentation/networking/tuntap.rst`.

use crate::netlink::Netlink;
use crate::pool::PacketBuf;
use crate::sys;
use crate::sys::packet::VNET_HEADER;
use crate::tun::{Config, TunError, open_error};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The longest frame that is read: the kernel's largest MTU, a header and two tags.
const READ_LEN: usize = VNET_HEADER + 65_535 + 22;

/// What was lost between daemon and host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stats {
    /// Frames from the host with something left to do on them, which was not agreed to.
    pub(super) read_malformed: u64,
    /// Frames for the host that the kernel did not take: the interface is down, or the frame is nonsense.
    pub(super) lost: u64,
}

/// An open TAP interface. It disappears, with its addresses and routes, when this is dropped or the process ends.
#[derive(Debug)]
pub(super) struct Tap {
    fd: OwnedFd,
    name: String,
    buffer: Box<[u8]>,
    pub(super) stats: Stats,
}

impl Tap {
    /// Opens a new TAP interface. It is down and has no IP address yet.
    ///
    /// # Errors
    /// [`TunError`]; an existing name is one of them.
    pub(super) fn open(name: &str) -> Result<Tap, TunError> {
        let opened = sys::open_tun(name, true, true);
        let (fd, name) = opened.map_err(|error| open_error(&Config::new(name), &error))?;
        if let Err(error) = sys::set_tun_offload(fd.as_fd(), 0) {
            tracing::debug!(%error, "the kernel does not say which offloads are off");
        }
        Netlink::open()?.interface(&name)?;
        Ok(Tap { fd, name, buffer: vec![0; READ_LEN].into_boxed_slice(), stats: Stats::default() })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The next frame of the host; `None` when there is none now.
    ///
    /// # Errors
    /// [`TunError::Gone`] when the interface was deleted; other failures are returned as they are.
    pub(super) fn recv(&mut self) -> Result<Option<PacketBuf>, TunError> {
        loop {
            match rustix::io::read(&self.fd, &mut self.buffer[..]) {
                Ok(len) => {
                    let read = self.buffer.get(..len).unwrap_or_default();
                    match read.split_first_chunk::<VNET_HEADER>() {
                        Some((header, frame)) if header[0] & 1 == 0 && header[1] == 0 => {
                            return Ok(Some(PacketBuf::copy_from(frame)));
                        }
                        _ => self.stats.read_malformed += 1,
                    }
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(Errno::BADFD | Errno::FAULT | Errno::NODEV) => {
                    return Err(TunError::Gone { name: self.name.clone() });
                }
                // The interface is switched off: nothing comes until it is on again.
                Err(Errno::IO) => return Ok(None),
                Err(errno) => {
                    let (name, errno) = (self.name.clone(), errno.raw_os_error());
                    return Err(TunError::Refused { name, action: "read", errno });
                }
            }
        }
    }

    /// Gives the host a frame in parts, the first of which is the header that says what is left to do on it.
    pub(super) fn send(&mut self, parts: &[&[u8]]) {
        let mut slices = [IoSlice::new(&[]); 5];
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        let sent = loop {
            match rustix::io::writev(&self.fd, &slices[..parts.len().min(5)]) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        if let Err(error) = sent {
            tracing::trace!(interface = self.name, %error, "the host takes no frame");
            self.stats.lost += 1;
        }
    }

    /// Says whether the interface has carrier.
    pub(super) fn set_carrier(&self, carrier: bool) {
        if let Err(error) = sys::set_tun_carrier(self.fd.as_fd(), carrier) {
            tracing::debug!(%error, carrier, "the kernel does not take the interface's carrier");
        }
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
