//! A queue of packets that the kernel holds until it hears what becomes of them (nfnetlink_queue).
//!
//! Source: Linux `include/uapi/linux/netfilter/nfnetlink_queue.h`.

use super::encode::{attribute, attributes, field, message, number};
use super::netfilter::Netfilter;
use super::request::{NetlinkError, messages};
use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::fd::{AsFd, BorrowedFd};

/// The subsystem, in the upper byte of a message's kind.
const QUEUE: u16 = 3 << 8;
const PACKET: u16 = QUEUE;
const VERDICT: u16 = QUEUE | 1;
const CONFIG: u16 = QUEUE | 2;
/// Units of joined segments come whole, and checksums as they are.
const UNITS: u32 = 1 << 2;
/// Bytes of verdicts that are sent at once.
const FULL: usize = 16 << 10;
/// Packets that are taken before others have their turn.
const BATCH: usize = 256;
/// Room for what the kernel tells, in bytes.
const ROOM: i32 = 16 << 20;

/// A packet that the kernel holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued<'a> {
    /// By this it is known until its verdict.
    pub(crate) id: u32,
    /// The number of the device by which it came.
    pub(crate) arrived_by: u32,
    /// Its length, also where `bytes` are less.
    pub(crate) len: u32,
    /// From its IP header on.
    pub(crate) bytes: &'a [u8],
}

/// The queue. The kernel drops what is in it when this is dropped.
#[derive(Debug)]
pub(crate) struct PacketQueue {
    netfilter: Netfilter,
    number: u16,
    verdicts: Vec<u8>,
    buffer: Vec<u8>,
    /// Times that the kernel had no room to tell.
    overruns: u64,
    refused: u64,
}

impl PacketQueue {
    /// Takes what rules send to the queue of this number: `headers` bytes of each packet, of at most `most` packets.
    /// `units`: joined segments stay joined.
    ///
    /// # Errors
    /// What the kernel says: `EBUSY` where another program has it, `EPERM` without CAP_NET_ADMIN.
    pub(crate) fn open(queue: u16, most: u32, headers: u32, units: bool) -> Result<PacketQueue, NetlinkError> {
        let action = format!("take the packets of queue {queue}");
        let mut netfilter = Netfilter::open(&action)?;
        let mut bytes = Vec::new();
        let mut push = |sequence, fill: &dyn Fn(&mut Vec<u8>)| {
            message(&mut bytes, CONFIG, NLM_F_REQUEST | NLM_F_ACK, sequence, |body| {
                head(body, queue);
                fill(body);
            });
        };
        // To bind; what is copied; how many; how.
        push(1, &|body| attribute(body, 1, &[1, 0, 0, 0]));
        push(2, &|body| {
            let [a, b, c, d] = headers.to_be_bytes();
            attribute(body, 2, &[a, b, c, d, 2]);
            number(body, 3, most);
            number(body, 4, UNITS);
            number(body, 5, if units { UNITS } else { 0 });
        });
        netfilter.ask(&bytes, 2, &action, |_, _| false)?;
        let _ = crate::sys::tcp::set(netfilter.socket.as_fd(), crate::sys::tcp::Setting::ReceiveBuffer, ROOM);
        let (verdicts, buffer) = (Vec::with_capacity(2 * FULL), vec![0; 64 << 10]);
        Ok(PacketQueue { netfilter, number: queue, verdicts, buffer, overruns: 0, refused: 0 })
    }

    /// Takes packets that wait, some at most.
    pub(crate) fn receive(&mut self, mut each: impl FnMut(Queued<'_>)) {
        for _ in 0..BATCH {
            match recv(self.netfilter.socket.as_fd(), &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    let bytes = self.buffer.get(..length).unwrap_or_default();
                    messages(bytes).filter_map(read).for_each(&mut each);
                }
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => self.overruns += 1,
                Err(_) => return,
            }
        }
    }

    /// It goes on, with this mark if one is given.
    pub(crate) fn accept(&mut self, id: u32, mark: Option<u32>) {
        self.verdict(id, 1, mark);
    }

    /// It is dropped.
    pub(crate) fn drop(&mut self, id: u32) {
        self.verdict(id, 0, None);
    }

    fn verdict(&mut self, id: u32, verdict: u32, mark: Option<u32>) {
        let queue = self.number;
        message(&mut self.verdicts, VERDICT, NLM_F_REQUEST, 0, |body| {
            head(body, queue);
            let mut value = [0; 8];
            value[..4].copy_from_slice(&verdict.to_be_bytes());
            value[4..].copy_from_slice(&id.to_be_bytes());
            attribute(body, 2, &value);
            if let Some(mark) = mark {
                number(body, 3, mark);
            }
        });
        if self.verdicts.len() >= FULL {
            self.flush();
        }
    }

    /// Tells the kernel all verdicts.
    pub(crate) fn flush(&mut self) {
        if self.verdicts.is_empty() {
            return;
        }
        if send(self.netfilter.socket.as_fd(), &self.verdicts, SendFlags::empty()).is_err() {
            self.refused += 1;
        }
        self.verdicts.clear();
    }
}

impl AsFd for PacketQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netfilter.socket.as_fd()
    }
}

fn head(body: &mut Vec<u8>, queue: u16) {
    body.extend([0, 0]);
    body.extend(queue.to_be_bytes());
}

fn read(bytes: &[u8]) -> Option<Queued<'_>> {
    if field(bytes, 4).map(u16::from_ne_bytes)? != PACKET {
        return None;
    }
    let (mut id, mut arrived_by, mut len, mut payload) = (None, 0, None, None);
    for (kind, value) in attributes(bytes.get(20..)?) {
        match kind {
            1 => id = field(value, 0).map(u32::from_be_bytes),
            5 => arrived_by = field(value, 0).map_or(0, u32::from_be_bytes),
            10 => payload = Some(value),
            13 => len = field(value, 0).map(u32::from_be_bytes),
            _ => {}
        }
    }
    let bytes = payload?;
    Some(Queued { id: id?, arrived_by, len: len.unwrap_or(bytes.len() as u32), bytes })
}
