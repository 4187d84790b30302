//! What waits to leave on one channel: sealed datagrams, in batches or in runs of a stream that each leave by one call, or frames.

use super::sealed_frame;
use super::socket::{Kind, Socket};
use crate::channel::ethernet::{self, Codepoint, Mac, Outgoing};
use crate::channel::tcp::run::Run;
use crate::channel::udp::{Batch, Destination, Sent};
use crate::pool::PacketBuf;
use fairspan_core::bond::Head;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Empty batches and runs, 64 kB each, for all channels of a daemon; as many as ever waited at once.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    batches: Vec<Batch>,
    runs: Vec<Run>,
}

impl Pool {
    pub(crate) fn new() -> Pool {
        Pool::default()
    }
}

/// Most batches, most runs, and most frames, that wait on one channel. The bond stops when told that the channel is blocked; what
/// it sends all the same, and more than this holds, is dropped.
const BATCHES: usize = 16;
const FRAMES: usize = 1024;
/// Frames given to the kernel at once.
const FRAMES_AT_ONCE: usize = 64;

/// A frame that waits: `head`, then the packet's bytes.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) codepoint: Codepoint,
    pub(crate) head: Head,
    pub(crate) packet: Option<PacketBuf>,
}

/// What waits on one channel. A channel uses one of the three.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    batches: VecDeque<Batch>,
    runs: VecDeque<Run>,
    frames: VecDeque<Frame>,
}

impl Outbox {
    /// Adds a datagram of `len` bytes that `fill` writes. False when it refuses, or too much waits.
    pub(crate) fn push_datagram(
        &mut self,
        pool: &mut Pool,
        destination: Destination,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> bool {
        if self.batches.back_mut().and_then(|batch| batch.room(destination, len)).is_none() {
            if self.batches.len() >= BATCHES {
                return false;
            }
            self.batches.push_back(pool.batches.pop().unwrap_or_default());
        }
        let Some(batch) = self.batches.back_mut() else { return false };
        match batch.room(destination, len).and_then(fill) {
            Some(len) => {
                batch.commit(len);
                true
            }
            None => false,
        }
    }

    /// Adds a datagram of a stream, of `len` bytes that `fill` writes. False when it refuses, or too much waits.
    pub(crate) fn push_to_stream(
        &mut self,
        pool: &mut Pool,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> bool {
        if self.runs.back_mut().and_then(|run| run.room(len)).is_none() {
            if self.runs.len() >= BATCHES {
                return false;
            }
            self.runs.push_back(pool.runs.pop().unwrap_or_default());
        }
        let Some(run) = self.runs.back_mut() else { return false };
        match run.room(len).and_then(fill) {
            Some(len) => {
                run.commit(len);
                true
            }
            None => false,
        }
    }

    /// Adds what a session seals into `len` bytes: a datagram, or a frame where `destination` is a station. False when it
    /// refuses, or too much waits.
    pub(crate) fn push_sealed(
        &mut self,
        pool: &mut Pool,
        destination: Destination,
        len: usize,
        seal: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> bool {
        if sealed_frame::mac_of(destination.address).is_none() {
            return self.push_datagram(pool, destination, len, seal);
        }
        let mut sealed = PacketBuf::with_len(sealed_frame::LENGTH + len);
        let (before, out) = sealed.as_mut_slice().split_at_mut(sealed_frame::LENGTH);
        let Some(length) = seal(out).and_then(sealed_frame::length) else { return false };
        before.copy_from_slice(&length);
        self.push_frame(Frame { codepoint: Codepoint::Envelope, head: Head::EMPTY, packet: Some(sealed) })
    }

    /// Adds a frame. False when too much waits.
    pub(crate) fn push_frame(&mut self, frame: Frame) -> bool {
        if self.frames.len() >= FRAMES {
            return false;
        }
        self.frames.push_back(frame);
        true
    }

    /// Whether the next datagram or frame might find no room.
    pub(crate) fn is_full(&self) -> bool {
        self.batches.len() >= BATCHES || self.runs.len() >= BATCHES || self.frames.len() >= FRAMES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.runs.is_empty() && self.frames.is_empty()
    }

    /// Sends what waits, as far as the socket takes it. [`Sent::Done`] when nothing waits any more; the worst of the
    /// others is told otherwise, and after [`Sent::Down`] nothing waits either. A stream's datagrams go to `remote`. Frames go to `peer`; to everybody, as long
    /// as that station is not known, only what makes us known to it. What is dropped here, and was not given to the socket,
    /// which counts for itself, is added to `dropped`.
    pub(crate) fn flush(
        &mut self,
        pool: &mut Pool,
        socket: &mut Socket,
        (remote, peer): (Option<SocketAddr>, Mac),
        dropped: &mut u64,
    ) -> Sent {
        self.drop_misplaced(pool, socket, dropped);
        let sent = match &mut socket.kind {
            _ if socket.absent => Sent::Down,
            Kind::Udp(socket) => {
                let mut outcome = Sent::Done;
                loop {
                    let several = socket.send_several(self.batches.make_contiguous());
                    pool.batches.extend(self.batches.drain(..several));
                    let Some(batch) = self.batches.front_mut() else { break outcome };
                    match socket.send(batch) {
                        Sent::Done => {}
                        too_big @ Sent::TooBig { .. } => outcome = too_big,
                        stopped => break stopped,
                    }
                    pool.batches.extend(self.batches.pop_front());
                }
            }
            Kind::Stream(stream) => loop {
                let (Some(run), Some(remote)) = (self.runs.front_mut(), remote) else { break Sent::Done };
                match stream.send_run(remote, run) {
                    Sent::Done => {}
                    stopped => break stopped,
                }
                run.clear();
                pool.runs.extend(self.runs.pop_front());
            },
            Kind::Missing(..) | Kind::Closed => Sent::Down,
            Kind::Ethernet(socket) => loop {
                if peer == Mac::BROADCAST {
                    *dropped += self.frames.len() as u64;
                    self.frames.retain(|frame| frame.codepoint == Codepoint::Envelope && frame.packet.is_none());
                    *dropped -= self.frames.len() as u64;
                }
                if self.frames.is_empty() {
                    break Sent::Done;
                }
                let mut batch = [Outgoing { peer, codepoint: Codepoint::Raw, head: &[], packet: &[] }; FRAMES_AT_ONCE];
                for (slot, frame) in batch.iter_mut().zip(&self.frames) {
                    slot.codepoint = frame.codepoint;
                    slot.head = frame.head.as_slice();
                    slot.packet = frame.packet.as_ref().map_or(&[], PacketBuf::as_slice);
                }
                let count = self.frames.len().min(FRAMES_AT_ONCE);
                let (done, stopped) = match socket.send(&batch[..count]) {
                    ethernet::Sent::Done => (count, None),
                    ethernet::Sent::Blocked(n) => (n, Some(Sent::Blocked)),
                    ethernet::Sent::Congested(n) => (n, Some(Sent::Congested)),
                    ethernet::Sent::Down(_) => (count, Some(Sent::Down)),
                };
                self.frames.drain(..done);
                if let Some(stopped) = stopped {
                    break stopped;
                }
            },
        };
        if sent == Sent::Down {
            *dropped += self.frames.len() as u64;
            self.frames.clear();
            self.drop_batches(pool, dropped);
            self.drop_runs(pool, dropped);
        }
        sent
    }

    /// What waited before the channel went over to, or left, a stream is dropped: its socket is no longer there for it.
    fn drop_misplaced(&mut self, pool: &mut Pool, socket: &Socket, dropped: &mut u64) {
        match &socket.kind {
            Kind::Stream(_) if !self.batches.is_empty() => self.drop_batches(pool, dropped),
            Kind::Udp(_) if !self.runs.is_empty() => self.drop_runs(pool, dropped),
            _ => {}
        }
    }

    fn drop_batches(&mut self, pool: &mut Pool, dropped: &mut u64) {
        for mut batch in self.batches.drain(..) {
            *dropped += batch.datagrams() as u64;
            batch.clear();
            pool.batches.push(batch);
        }
    }

    fn drop_runs(&mut self, pool: &mut Pool, dropped: &mut u64) {
        for mut run in self.runs.drain(..) {
            *dropped += run.datagrams() as u64;
            run.clear();
            pool.runs.push(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::ethernet::{EthernetConfig, EthernetError, EthernetSocket};
    use crate::config::Config;
    use crate::shell::poller::Poller;
    use fairspan_core::bond::Handling;
    use std::path::Path;

    /// A socket whose device is not there.
    fn absent() -> Socket {
        let text = "[interface]\nname = \"fs0\"\n[[peer]]\n[[peer.channel]]\nkind = \"ethernet\"\ndevice = \"nosuchdevice0\"\n";
        let config = Config::parse(Path::new("test.toml"), text).expect("a configuration");
        Socket::open(&config.peers[0].channels[0], 0, &Poller::new().expect("epoll")).expect("it may come")
    }

    fn with_frames(data: usize) -> Outbox {
        let mut outbox = Outbox::default();
        let hello = Frame { codepoint: Codepoint::Envelope, head: Head::EMPTY, packet: None };
        assert!(outbox.push_frame(hello));
        for _ in 0..data {
            let packet = Some(PacketBuf::with_len(60));
            assert!(outbox.push_frame(Frame { codepoint: Codepoint::Envelope, head: Head::EMPTY, packet }));
        }
        outbox
    }

    #[test]
    fn all_that_waits_for_a_link_that_is_gone_is_counted() {
        let mut gone = absent();
        let (mut pool, mut dropped) = (Pool::new(), 0);
        let mut outbox = with_frames(699);
        let address = "192.0.2.1:9".parse().expect("an address");
        let to = Destination { address, source: None, tos: 0, handling: Handling::Usual };
        for size in [100, 100, 40, 100] {
            assert!(outbox.push_datagram(&mut pool, to, size, |out| Some(out.len())));
        }
        assert_eq!(outbox.flush(&mut pool, &mut gone, (None, Mac([2; 6])), &mut dropped), Sent::Down);
        assert_eq!((dropped, outbox.is_empty()), (704, true));
    }

    #[test]
    fn all_that_waits_for_a_station_that_is_not_known_is_counted() {
        let mut socket = absent();
        match EthernetSocket::open(EthernetConfig::new("lo")) {
            Err(EthernetError::Privileges { .. }) => {
                println!("skipped: needs CAP_NET_RAW");
                return;
            }
            opened => socket.kind = Kind::Ethernet(opened.expect("loopback")),
        }
        socket.absent = false;
        let (mut pool, mut dropped) = (Pool::new(), 0);
        let mut outbox = with_frames(1023);
        assert_eq!(outbox.flush(&mut pool, &mut socket, (None, Mac::BROADCAST), &mut dropped), Sent::Done);
        assert_eq!((dropped, outbox.is_empty()), (1023, true));
    }
}
