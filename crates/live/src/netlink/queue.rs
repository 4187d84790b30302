//! A queue of packets that the kernel holds until it hears what becomes of them (nfnetlink_queue).
//!
//! Where nobody takes them, packets pass: rules say so for a queue that no process has, and the queue itself for what does not
//! fit into it. Packets that wait when the process ends are lost.
//!
//! Source: Linux `include/uapi/linux/netfilter/nfnetlink_queue.h`, `net/netfilter/nfnetlink_queue.c`.

use super::encode::{ERROR, attribute, attributes, field, message, number};
use super::netfilter::Netfilter;
use super::request::{NetlinkError, messages, refused};
use crate::sys::tcp::{Setting, set};
use crate::sys::{RECEIVED, receive_several};
use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST};
use rustix::net::{SendFlags, send};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// The subsystem, in the upper byte of a message's kind.
const QUEUE: u16 = 3 << 8;
const PACKET: u16 = QUEUE;
const VERDICT: u16 = QUEUE | 1;
const CONFIG: u16 = QUEUE | 2;
/// What does not fit passes (NFQA_CFG_F_FAIL_OPEN).
const FAIL_OPEN: u32 = 1;
/// Units of joined segments come whole, and checksums as they are (NFQA_CFG_F_GSO).
const UNITS: u32 = 1 << 2;
/// Bytes of verdicts that are sent at once.
const FULL: usize = 16 << 10;
/// Times that packets are taken, several at a time, before others have their turn.
const TURNS: usize = 4;
/// What a message holds beside the packet's bytes, at most.
const ABOUT: usize = 512;
/// What the kernel counts for a message that waits to be taken, beside the packet's bytes.
const BOOKKEEPING: u32 = 1024;
/// Most room for what waits to be taken, in bytes.
const MOST_ROOM: u32 = 64 << 20;

/// A packet that the kernel holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued<'a> {
    /// By this it is known until its verdict.
    pub id: u32,
    /// Its firewall mark.
    pub mark: u32,
    /// The number of the device by which it came; 0 where this host made it.
    pub arrived_by: u32,
    /// Its length, also where `bytes` are less.
    pub len: u32,
    /// From its IP header on.
    pub bytes: &'a [u8],
}

/// The queue. The kernel drops what is in it when this is dropped.
#[derive(Debug)]
pub struct PacketQueue {
    netfilter: Netfilter,
    number: u16,
    verdicts: Vec<u8>,
    /// Places of `place` bytes each for messages.
    buffer: Vec<u8>,
    place: usize,
    told: Told,
}

/// What the kernel told of, and what not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Told {
    last: u32,
    missed: u64,
    gone: u64,
}

impl PacketQueue {
    /// Takes what rules send to the queue of this number: `headers` bytes of each packet, of at most `most` packets; others
    /// pass. `units`: joined segments stay joined.
    ///
    /// # Errors
    /// What the kernel says: `EBUSY` where another process has it, `EPERM` without CAP_NET_ADMIN.
    pub fn open(queue: u16, most: u32, headers: u32, units: bool) -> Result<PacketQueue, NetlinkError> {
        let action = format!("take the packets of queue {queue}");
        let mut netfilter = Netfilter::open(&action)?;
        let mut request = |fill: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            message(&mut bytes, CONFIG, NLM_F_REQUEST | NLM_F_ACK, 1, |body| {
                head(body, queue);
                fill(body);
            });
            netfilter.ask(&bytes, 1, &action, |_, _| false)
        };
        // An old command that does nothing, and needs the same rights. Who has them and is refused has come too late.
        request(&|body| attribute(body, 1, &[3, 0, 0, 2]))?;
        request(&|body| attribute(body, 1, &[1, 0, 0, 0])).map_err(|error| match error.errno() {
            Some(libc::EPERM) => of_another(&action),
            _ => error,
        })?;
        // What is copied; how many; how.
        request(&|body| {
            let [a, b, c, d] = headers.to_be_bytes();
            attribute(body, 2, &[a, b, c, d, 2]);
            number(body, 3, most);
            number(body, 4, FAIL_OPEN | UNITS);
            number(body, 5, if units { FAIL_OPEN | UNITS } else { FAIL_OPEN });
        })?;
        let room = most.saturating_mul(BOOKKEEPING.saturating_add(headers)).min(MOST_ROOM);
        let io = |error: io::Error| refused(&action, &error);
        set(netfilter.socket.as_fd(), Setting::ReceiveBuffer, room.cast_signed()).map_err(io)?;
        // What there was no room for is counted by the numbers of packets. Else the kernel would tell of nothing more until all that
        // waits is taken.
        netfilter.socket.set_no_enobufs(true).map_err(io)?;
        let (place, told) = (headers as usize + ABOUT, Told::default());
        let (verdicts, buffer) = (Vec::with_capacity(2 * FULL), vec![0; RECEIVED * place]);
        Ok(PacketQueue { netfilter, number: queue, verdicts, buffer, place, told })
    }

    /// Takes packets that wait, some at most.
    ///
    /// # Errors
    /// What the kernel says. That there was no room for packets is none.
    pub fn receive(&mut self, mut each: impl FnMut(Queued<'_>)) -> io::Result<()> {
        for _ in 0..TURNS {
            let mut lengths = [0; RECEIVED];
            let socket = self.netfilter.socket.as_fd();
            let count = match receive_several(socket, &mut self.buffer, self.place, &mut lengths) {
                Ok(count) => count,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(()),
                    Some(libc::EINTR | libc::ENOBUFS) => continue,
                    _ => return Err(error),
                },
            };
            for (place, length) in self.buffer.chunks(self.place).zip(&lengths[..count]) {
                for message in messages(place.get(..*length).unwrap_or_default()) {
                    self.told.of(message).into_iter().for_each(&mut each);
                }
            }
            if count < RECEIVED {
                return Ok(());
            }
        }
        Ok(())
    }

    /// It goes on, with this mark if one is given.
    pub fn accept(&mut self, id: u32, mark: Option<u32>) {
        self.verdict(id, 1, mark);
    }

    /// It is dropped.
    pub fn drop(&mut self, id: u32) {
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

    /// Tells the kernel all verdicts, in their order.
    pub fn flush(&mut self) {
        if self.verdicts.is_empty() {
            return;
        }
        let sent = loop {
            match send(self.netfilter.socket.as_fd(), &self.verdicts, SendFlags::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other,
            }
        };
        if let Err(error) = sent {
            tracing::debug!(%error, "the kernel takes no verdicts");
        }
        self.verdicts.clear();
    }

    /// Packets that passed although they should have come here, since there was no room to tell of them. What did not fit into
    /// the queue itself is not known.
    pub fn missed(&self) -> u64 {
        self.told.missed
    }

    /// Verdicts for packets that the kernel had no more: their device had gone.
    pub fn gone(&self) -> u64 {
        self.told.gone
    }
}

impl Drop for PacketQueue {
    /// A child that this process began meanwhile may hold the socket a little longer.
    fn drop(&mut self) {
        let mut bytes = Vec::new();
        message(&mut bytes, CONFIG, NLM_F_REQUEST, 0, |body| {
            head(body, self.number);
            attribute(body, 1, &[2, 0, 0, 0]);
        });
        // Where this is refused, the queue goes with the socket.
        let _ = send(self.netfilter.socket.as_fd(), &bytes, SendFlags::empty());
    }
}

impl AsFd for PacketQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netfilter.socket.as_fd()
    }
}

impl Told {
    /// The packet that a message tells of.
    fn of<'a>(&mut self, message: &'a [u8]) -> Option<Queued<'a>> {
        match field(message, 4).map(u16::from_ne_bytes)? {
            PACKET => {
                let packet = packet_in(message)?;
                // They are numbered from 1 on.
                let ahead = packet.id.wrapping_sub(self.last);
                match ahead.cast_signed() {
                    1.. => {
                        self.missed += u64::from(ahead - 1);
                        self.last = packet.id;
                    }
                    _ => self.missed = self.missed.saturating_sub(1),
                }
                Some(packet)
            }
            ERROR if field(message, 16).map(i32::from_ne_bytes) != Some(0) => {
                self.gone += 1;
                None
            }
            _ => None,
        }
    }
}

fn head(body: &mut Vec<u8>, queue: u16) {
    body.extend([0, 0]);
    body.extend(queue.to_be_bytes());
}

fn of_another(action: &str) -> NetlinkError {
    let message = "another process has it".to_owned();
    NetlinkError::Refused { action: action.to_owned(), errno: libc::EBUSY, message }
}

fn packet_in(message: &[u8]) -> Option<Queued<'_>> {
    let number = |value: &[u8]| field(value, 0).map(u32::from_be_bytes);
    let (mut id, mut mark, mut arrived_by, mut len, mut bytes) = (None, 0, 0, None, &[][..]);
    for (kind, value) in attributes(message.get(20..)?) {
        match kind {
            1 => id = number(value),
            3 => mark = number(value).unwrap_or(0),
            5 => arrived_by = number(value).unwrap_or(0),
            10 => bytes = value,
            13 => len = number(value),
            _ => {}
        }
    }
    Some(Queued { id: id?, mark, arrived_by, len: len.unwrap_or(bytes.len() as u32), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(id: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        message(&mut bytes, PACKET, 0, 0, |body| {
            head(body, 9);
            attribute(body, 1, &[&id.to_be_bytes()[..], &[8, 0, 0]].concat());
            number(body, 3, 77);
            number(body, 5, 4);
            attribute(body, 9, &[0; 12]);
            attribute(body, 10, &[0x45, 1, 2]);
            number(body, 13, 1500);
        });
        bytes
    }

    #[test]
    fn a_packet_is_read_and_of_a_cut_message_only_what_is_whole() {
        let whole = packet(1);
        let read = Told::default().of(&whole);
        assert_eq!(read, Some(Queued { id: 1, mark: 77, arrived_by: 4, len: 1500, bytes: &[0x45, 1, 2] }));
        for cut in 0..whole.len() {
            let packet = Told::default().of(&whole[..cut]);
            // Numbered first: whoever is told of can have a verdict.
            assert_eq!(packet.map(|packet| packet.id), (cut >= 31).then_some(1), "{cut}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 3, 0x7f, 0xff] {
                let mut bent = whole.clone();
                bent[at] = value;
                let _ = Told::default().of(&bent);
                let _ = messages(&bent).filter_map(|message| Told::default().of(message)).count();
            }
        }
    }

    #[test]
    fn packets_that_were_not_told_of_are_counted_by_their_numbers() {
        let mut told = Told::default();
        for (id, missed) in [(1, 0), (2, 0), (5, 2), (4, 1), (6, 1)] {
            assert_eq!(told.of(&packet(id)).map(|packet| packet.id), Some(id));
            assert_eq!(told.missed, missed, "{id}");
        }
        let mut told = Told { last: u32::MAX - 1, ..Told::default() };
        for id in [u32::MAX, 0, 2] {
            told.of(&packet(id)).expect("a packet");
        }
        assert_eq!(told.missed, 1);
    }

    #[test]
    fn verdicts_that_came_too_late_are_counted_and_other_messages_are_nothing() {
        let mut told = Told::default();
        for (kind, code) in [(ERROR, -libc::ENOENT), (ERROR, 0), (VERDICT, -libc::ENOENT)] {
            let mut bytes = Vec::new();
            message(&mut bytes, kind, 0, 0, |body| body.extend(code.to_ne_bytes()));
            assert_eq!(told.of(&bytes), None);
        }
        assert_eq!(told, Told { gone: 1, ..Told::default() });
    }
}
