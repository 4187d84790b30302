//! The thread that moves frames: reads the receive rings, asks the link's server, sends what is due.
//!
//! It sleeps on the sockets only when nothing is under way. Otherwise it sleeps until the next frame is due, at most
//! as long as the shortest link's delay allows arrivals to wait unread (their arrival times come from the kernel),
//! and at least [`tick`](super::Options::tick), so that a busy link costs a wake-up per tick and not per frame.

use super::counters::{Fault, add};
use super::direction::{Direction, Memory};
use super::port::Port;
use crate::sys::packet::{RxFrame, SEND_BATCH, VNET_HEADER};
use fairspan_core::units::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Longest that arrivals stay in the ring while frames are under way.
const READ_INTERVAL: Span = Span::from_millis(1);
/// After so long without a sleep the thread sleeps a tick in any case: in the real-time class it would starve others.
const LONGEST_RUN: Span = Span::from_millis(20);
/// A wait for frames that ends sooner did not sleep.
const SHORTEST_SLEEP: Span = Span::from_micros(5);
/// How often the devices are looked after once one of them has been down.
const CHECK_INTERVAL: Span = Span::from_millis(500);
/// Send batches per direction and turn, and frames read per direction and turn.
const BATCHES: usize = 8;
const READ_BATCH: usize = 512;
/// Up to so many frames that are due at one time are sent one by one.
const FEW: usize = 8;

/// Nanoseconds of `CLOCK_MONOTONIC` since `origin`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: u64,
}

impl Clock {
    pub(super) fn start() -> Clock {
        Clock { origin: nanos(ClockId::Monotonic) }
    }

    pub(super) fn now(&self) -> Time {
        Time::from_nanos(nanos(ClockId::Monotonic).saturating_sub(self.origin))
    }
}

fn nanos(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The ports and directions that one thread serves; the directions of link n are 2n and 2n + 1, like its ports.
pub(super) struct Worker {
    pub(super) ports: Vec<Port>,
    pub(super) directions: Vec<Direction>,
    pub(super) memory: Memory,
    pub(super) clock: Clock,
    pub(super) tick: Span,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) wake: OwnedFd,
    /// By link: a port's device has gone away.
    pub(super) gone: Vec<bool>,
    /// A port has been down; its device may vanish without a further word (the kernel reports going down only).
    pub(super) doubtful: bool,
}

impl Worker {
    /// Runs until told to stop, or until every link has lost a device.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let tick = self.tick.max(Span::from_micros(1));
        let least = self.directions.iter().map(|d| d.server.schedule().least_delay()).min().unwrap_or(Span::ZERO);
        let read_interval = Span::from_nanos(least.as_nanos() / 2).max(tick).min(READ_INTERVAL.max(tick));
        let mut slept = self.clock.now();
        let mut checked = slept;
        let mut scratch = vec![0u8; VNET_HEADER + 70_000];
        while !self.stop.load(Relaxed) && !self.gone.iter().all(|gone| *gone) {
            let turn = self.clock.now();
            if self.doubtful && turn.since(checked) >= CHECK_INTERVAL {
                checked = turn;
                self.check_devices();
            }
            let mut more = false;
            for direction in 0..self.directions.len() {
                more |= self.receive(direction, turn, &mut scratch);
            }
            self.release_all();
            let next = self.directions.iter().filter_map(Direction::next_event).min();
            let now = self.clock.now();
            let wake = match next {
                None if !more => None,
                _ if more => Some(now),
                next => Some(next.unwrap_or(Time::MAX).min(turn + read_interval).max(turn + tick)),
            };
            match wake {
                Some(wake) if wake > now => self.sleep(Some(wake.since(now)))?,
                _ if now.since(slept) > LONGEST_RUN => self.sleep(Some(tick))?,
                None => self.sleep(None)?,
                Some(_) => continue,
            }
            // Waiting for what was there already is no sleep.
            let woke = self.clock.now();
            if wake.is_some() || woke.since(now) >= SHORTEST_SLEEP {
                slept = woke;
            }
        }
        Ok(())
    }

    /// Takes what has arrived; whether there may be more.
    fn receive(&mut self, index: usize, now: Time, scratch: &mut [u8]) -> bool {
        let direction = &mut self.directions[index];
        if self.gone[index / 2] {
            return false;
        }
        let memory = &mut self.memory;
        let Port { socket, longest, name, .. } = &mut self.ports[direction.from];
        // Arrival times are of the real-time clock; the pair of readings is fresh on every turn, so a clock step
        // disturbs at most the frames of one turn, and those are bounded by `now` and their predecessors.
        let offset = nanos(ClockId::Realtime);
        for _ in 0..READ_BATCH {
            let mut copied = None;
            let taken = socket.recv(|frame: RxFrame<'_>| {
                let age = offset.saturating_sub(frame.arrival_realtime);
                let arrival = Time::from_nanos(now.as_nanos().saturating_sub(age));
                if frame.copied {
                    copied = Some(arrival);
                    return None;
                }
                let bytes = frame.data.get(VNET_HEADER..)?;
                let tag = if frame.vlan.is_some() { 4 } else { 0 };
                let len = bytes.len() + tag;
                add(&direction.counters.received_frames, 1);
                add(&direction.counters.received_bytes, len as u64);
                direction.arrive(arrival, len, frame.data.len() + tag, memory, |buffer| match frame.vlan {
                    None => buffer.extend_from_slice(frame.data),
                    Some(vlan) => restore_tag(buffer, frame.data, vlan),
                });
                Some(())
            });
            if taken.is_none() {
                let lost = socket.ring_drops();
                if lost > 0 {
                    direction.counters.fault(Fault::Ring, lost);
                }
                direction.advance(now, memory);
                return false;
            }
            let Some(arrival) = copied else { continue };
            let mut whole = socket.recv_copy(scratch);
            if whole.is_err() {
                // That the device went down is told first, and once; the frame left there would match no slot later, and
                // keep the socket readable.
                self.doubtful = true;
                whole = socket.recv_copy(scratch);
            }
            let Ok(len) = whole else { continue };
            let data = &scratch[..len];
            if len <= VNET_HEADER {
                continue;
            }
            let counters = &direction.counters;
            add(&counters.received_frames, 1);
            add(&counters.received_bytes, (len - VNET_HEADER) as u64);
            if counters.oversize.load(Relaxed) == 0 {
                tracing::warn!(
                    port = %name,
                    bytes = len - VNET_HEADER,
                    longest = *longest,
                    "frames longer than the MTU arrive: switch the segmentation offloads of the sending device off"
                );
            }
            add(&counters.oversize, 1);
            direction.arrive(arrival, wire_bytes(data), len, memory, |buffer| buffer.extend_from_slice(data));
        }
        true
    }

    /// Sends what is due on all links. Few frames leave in the order of their times over all of them, so that links which
    /// lead to one place put nothing out of order that their delays do not; many leave link by link, in batches.
    fn release_all(&mut self) {
        let now = self.clock.now();
        let due = |direction: &Direction| {
            direction.line.iter().chain(&direction.unordered).take(FEW + 1).filter(|entry| entry.due <= now).count()
        };
        if self.directions.iter().map(due).sum::<usize>() > FEW {
            for index in 0..self.directions.len() {
                self.release(index, BATCHES, SEND_BATCH);
            }
            return;
        }
        for _ in 0..FEW {
            let times = self.directions.iter().zip(0..).filter_map(|(d, index)| Some((d.next_due()?, index)));
            let Some((_, index)) = times.min().filter(|(due, _)| *due <= now) else { return };
            if !self.release(index, 1, 1) {
                break;
            }
        }
        // A device that is busy holds up no other.
        for index in 0..self.directions.len() {
            self.release(index, BATCHES, SEND_BATCH);
        }
    }

    /// Sends what is due on one link, in up to `batches` batches of `size` frames; whether the device took them.
    fn release(&mut self, index: usize, batches: usize, size: usize) -> bool {
        let direction = &mut self.directions[index];
        let Port { socket, .. } = &self.ports[direction.to];
        let counters = &direction.counters;
        for _ in 0..batches {
            let now = self.clock.now();
            while direction.unordered.peek().is_some_and(|entry| entry.due <= now) {
                direction.line.extend(direction.unordered.pop());
            }
            let due = direction.line.iter().take_while(|entry| entry.due <= now).take(size);
            let count = due.clone().count();
            if count == 0 {
                return true;
            }
            let (done, fault) = match socket.send(due.map(|entry| [entry.bytes.as_slice()])) {
                Ok(sent) => (sent, None),
                Err(error) => match error.raw_os_error() {
                    // The driver is busy: the frames stay, and are late.
                    Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR) => return false,
                    Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                        self.doubtful = true;
                        (count, Some(Fault::PortDown))
                    }
                    Some(libc::EMSGSIZE) => (1, Some(Fault::TooLong)),
                    _ => (1, Some(Fault::Refused)),
                },
            };
            let sent_at = self.clock.now();
            for entry in direction.line.drain(..done) {
                match fault {
                    Some(fault) => counters.fault(fault, 1),
                    None => {
                        add(&counters.sent_frames, 1);
                        add(&counters.sent_bytes, (entry.bytes.len() - VNET_HEADER) as u64);
                        counters.lateness.record(sent_at.since(entry.due));
                    }
                }
                self.memory.give_back(entry.bytes);
            }
        }
        true
    }

    fn check_devices(&mut self) {
        for (port, index) in self.ports.iter().zip(0..) {
            if !self.gone[index / 2] && !port.socket.device_exists() {
                tracing::warn!(port = %port.name, "a port's device has vanished: its link ends");
                self.gone[index / 2] = true;
            }
        }
    }

    /// Sleeps for `span`, or without one until a frame arrives; in both cases until told to stop.
    fn sleep(&mut self, span: Option<Span>) -> io::Result<()> {
        if let Some(span) = span {
            let timeout = Timespec {
                tv_sec: (span.as_nanos() / 1_000_000_000) as i64,
                tv_nsec: (span.as_nanos() % 1_000_000_000) as _,
            };
            return ignore_interrupt(poll(&mut [PollFd::new(&self.wake, PollFlags::IN)], Some(&timeout)));
        }
        let mut fds = Vec::with_capacity(self.ports.len() + 1);
        fds.push(PollFd::new(&self.wake, PollFlags::IN));
        let mut polled = Vec::with_capacity(self.ports.len());
        for (index, port) in self.ports.iter().enumerate() {
            if !self.gone[index / 2] {
                fds.push(PollFd::from_borrowed_fd(port.as_fd(), PollFlags::IN));
                polled.push(index);
            }
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: CHECK_INTERVAL.as_nanos() as _ };
        ignore_interrupt(poll(&mut fds, self.doubtful.then_some(&timeout)))?;
        for (fd, &index) in fds[1..].iter().zip(&polled) {
            if fd.revents().intersects(PollFlags::ERR | PollFlags::HUP) {
                let port = &self.ports[index];
                let error = port.socket.take_error();
                tracing::warn!(port = %port.name, ?error, "a port is down");
                self.doubtful = true;
            }
        }
        Ok(())
    }
}

fn ignore_interrupt<T>(result: rustix::io::Result<T>) -> io::Result<()> {
    match result {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Puts a VLAN tag that the kernel took out back behind the MAC addresses. `data` is a virtio-net header and frame.
pub(super) fn restore_tag(buffer: &mut Vec<u8>, data: &[u8], (tpid, tci): (u16, u16)) {
    let Some((head, rest)) = data.split_at_checked(VNET_HEADER + 12) else {
        return buffer.extend_from_slice(data);
    };
    buffer.extend_from_slice(head);
    buffer.extend_from_slice(&tpid.to_be_bytes());
    buffer.extend_from_slice(&tci.to_be_bytes());
    buffer.extend_from_slice(rest);
    // The checksum's place (csum_start, native order) moves with the tag.
    if head[0] & NEEDS_CHECKSUM != 0 {
        let start = u16::from_ne_bytes([head[6], head[7]]).wrapping_add(4);
        buffer[6..8].copy_from_slice(&start.to_ne_bytes());
    }
}

const NEEDS_CHECKSUM: u8 = 1;

/// Bytes that a frame takes on a wire: those of all the frames that its segmentation would make of it.
fn wire_bytes(data: &[u8]) -> usize {
    let frame = data.len() - VNET_HEADER;
    let word = |at: usize| usize::from(u16::from_ne_bytes([data[at], data[at + 1]]));
    let (kind, segment, transport) = (data[1] & 0x7f, word(4), word(6));
    if kind == 0 || segment == 0 || data[0] & NEEDS_CHECKSUM == 0 {
        return frame;
    }
    const UDP: u8 = 5;
    let transport_header = match kind {
        UDP => 8,
        _ => data.get(VNET_HEADER + transport + 12).map_or(20, |offset| usize::from(offset >> 4) * 4),
    };
    let headers = (transport + transport_header).min(frame);
    let segments = (frame - headers).div_ceil(segment).max(1);
    frame + (segments - 1) * headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vlan_tag_goes_back_behind_the_addresses_and_moves_the_checksum() {
        let mut data = vec![0u8; VNET_HEADER];
        data[0] = NEEDS_CHECKSUM;
        data[6..8].copy_from_slice(&34u16.to_ne_bytes());
        data.extend(1..=12u8);
        data.extend([0x08, 0x00, 0x45]);
        let mut out = Vec::new();
        restore_tag(&mut out, &data, (0x8100, 7));
        assert_eq!(out[6..8], 38u16.to_ne_bytes());
        assert_eq!(out[VNET_HEADER..], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x81, 0, 0, 7, 0x08, 0x00, 0x45]);
        let mut short = Vec::new();
        restore_tag(&mut short, &data[..15], (0x8100, 7));
        assert_eq!(short, &data[..15]);
    }

    #[test]
    fn an_oversize_frame_takes_the_bytes_of_its_segments() {
        // 14 + 20 + 32 bytes of headers, 10 segments of 1448.
        let mut data = vec![0u8; VNET_HEADER + 66 + 14_480];
        assert_eq!(wire_bytes(&data), 66 + 14_480);
        (data[0], data[1]) = (NEEDS_CHECKSUM, 1);
        data[4..6].copy_from_slice(&1448u16.to_ne_bytes());
        data[6..8].copy_from_slice(&34u16.to_ne_bytes());
        data[VNET_HEADER + 34 + 12] = 8 << 4;
        assert_eq!(wire_bytes(&data), 10 * (66 + 1448));
        data[6..8].copy_from_slice(&u16::MAX.to_ne_bytes());
        assert!(wire_bytes(&data) >= 66 + 14_480, "a nonsensical header does no harm");
    }
}
