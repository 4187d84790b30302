//! Plain forwarding: what the one device receives leaves by the other as it is, at once.
//!
//! It is the yardstick for whatever carries frames between devices: input and output by batches as theirs, and nothing besides.

use super::port::{Port, PortError, PortName};
use super::worker::restore_tag;
use crate::sys::packet::{SEND_BATCH, VNET_HEADER};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Slots of each device's receive ring.
const RING_SLOTS: usize = 4096;
/// How long it waits for frames before it looks whether it is to end.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Two devices, each of which may be in another network namespace.
#[derive(Debug)]
pub struct Forwarder {
    ports: [Port; 2],
    /// What is sent next; the buffers are used again.
    batch: Vec<Vec<u8>>,
}

impl Forwarder {
    /// Opens the two devices, with their segmentation offloads off until this is dropped.
    ///
    /// # Errors
    /// There is no such device, or a privilege is missing.
    pub fn open(a: &PortName, b: &PortName) -> Result<Forwarder, PortError> {
        let ports = [Port::open(a, RING_SLOTS)?, Port::open(b, RING_SLOTS)?];
        Ok(Forwarder { ports, batch: vec![Vec::new(); SEND_BATCH] })
    }

    /// Forwards both ways until `stop` is set. What a device does not take is lost.
    ///
    /// # Errors
    /// A device is down or gone.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        while !stop.load(Relaxed) {
            if self.pass(0, 1)? + self.pass(1, 0)? > 0 {
                continue;
            }
            let [a, b] = &self.ports;
            let mut fds = [a, b].map(|port| PollFd::from_borrowed_fd(port.as_fd(), PollFlags::IN));
            match poll(&mut fds, Some(&WAIT)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for port in &self.ports {
                if let Some(error) = port.socket.take_error() {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Passes one batch on; how many frames there were.
    fn pass(&mut self, from: usize, to: usize) -> io::Result<usize> {
        let mut count = 0;
        while let Some(buffer) = self.batch.get_mut(count) {
            let received = self.ports[from].socket.recv(|frame| {
                buffer.clear();
                match frame.vlan {
                    Some(tag) => restore_tag(buffer, frame.data, tag),
                    None => buffer.extend_from_slice(frame.data),
                }
                frame.data.len() == VNET_HEADER + frame.wire_len
            });
            match received {
                None => break,
                Some(whole) => count += usize::from(whole),
            }
        }
        let mut done = 0;
        while done < count {
            match self.ports[to].socket.send(self.batch[done..count].iter().map(|frame| [frame.as_slice()])) {
                Ok(sent) => done += sent,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN | libc::ENOBUFS) => break,
                    Some(libc::EMSGSIZE) => done += 1,
                    _ => return Err(error),
                },
            }
        }
        Ok(count)
    }
}
