//! AF_PACKET sockets that only send, by a ring that they share with the kernel (TPACKET_V2).
//!
//! Frames are put into slots of the ring, and one call has the kernel send all of them. The call for a batch of messages,
//! `sendmmsg`, takes each by itself and lets other threads have the processor between any two of them: one that receives
//! on the same core is woken for every frame. On virtual Ethernet that halves the rate.
//!
//! Source: the kernel's Documentation/networking/packet_mmap.rst. Where there is no memory for a ring, frames leave by
//! `sendmmsg`.

use super::packet::{HEADER, Ring, SEND_BATCH, VNET_HEADER, bind, check, send, set, set_buffer, unbound};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};

/// Slots of the ring; a slot is free again when the device has its frame.
const SLOTS: usize = 1024;
/// Where a slot's virtio-net header begins, and where its frame does.
const START: usize = HEADER.next_multiple_of(16);
const FRAME: usize = START + VNET_HEADER;

/// An AF_PACKET socket that sends on one device and receives nothing.
///
/// In a ring each frame has a virtio-net header before it, which says that all of it is to be copied at once. Otherwise the kernel would send
/// from the ring's own pages, and give the slot back too early where something on the way lets go of the socket, as `netem` does.
#[derive(Debug)]
pub(crate) struct PacketSender {
    fd: OwnedFd,
    ring: Option<Ring>,
    /// The longest frame that the device takes: of frames with such a header the kernel does not look.
    most: usize,
}

impl PacketSender {
    /// Opens a socket on the device of that index, for frames of up to `frame` bytes, with a send buffer of `buffer` bytes.
    pub(crate) fn open(index: u32, frame: usize, buffer: usize) -> io::Result<PacketSender> {
        let mut sender = PacketSender::without_ring(index, buffer)?;
        let fd = sender.fd.as_raw_fd();
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        let ring = set(fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version)
            .and_then(|()| set(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1i32))
            .and_then(|()| Ring::map(fd, libc::PACKET_TX_RING, SLOTS, frame + VNET_HEADER));
        match ring {
            Ok(ring) => (sender.ring, sender.most) = (Some(ring), frame),
            Err(error) => {
                tracing::debug!(%error, "no ring to send by");
                sender = PacketSender::without_ring(index, buffer)?;
            }
        }
        Ok(sender)
    }

    fn without_ring(index: u32, buffer: usize) -> io::Result<PacketSender> {
        let fd = unbound()?;
        set_buffer(fd.as_raw_fd(), buffer, (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF))?;
        bind(fd.as_raw_fd(), index, 0)?;
        Ok(PacketSender { fd, ring: None, most: 0 })
    }

    /// The device takes frames of up to `most` bytes now.
    pub(crate) fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Sends up to [`SEND_BATCH`] frames; returns how many the kernel took.
    ///
    /// An error is that of the first frame; the kernel took none.
    pub(crate) fn send<'a>(&mut self, frames: impl Iterator<Item = &'a [u8]>) -> io::Result<usize> {
        let fd = self.fd.as_raw_fd();
        let Some(ring) = &mut self.ring else { return send(fd, frames.map(|frame| [frame])) };
        let mut count = 0;
        for frame in frames.take(SEND_BATCH) {
            if let Err(errno) = ring.put(count, frame, self.most) {
                if count == 0 {
                    return Err(io::Error::from_raw_os_error(errno));
                }
                break;
            }
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        // SAFETY: no bytes and no address are given; the kernel takes the frames from the ring.
        let result = unsafe { libc::sendto(fd, null(), 0, libc::MSG_DONTWAIT, null(), 0) };
        let error = check(result as libc::c_int).err();
        match ring.taken(count) {
            0 => Err(error.unwrap_or_else(|| io::Error::from_raw_os_error(libc::EAGAIN))),
            taken => Ok(taken),
        }
    }
}

impl Ring {
    /// The slot that is `ahead` of the one whose turn it is: its start, and its status.
    fn place(&self, ahead: usize) -> (*mut u8, &AtomicU32) {
        // SAFETY: the remainder is below `slots`, so the slot lies inside the mapping.
        let slot = unsafe { self.base.as_ptr().add((self.next + ahead) % self.slots * self.slot) };
        // SAFETY: tp_status is the first field, 4-byte aligned; it is shared with the kernel, hence atomic.
        (slot, unsafe { &*slot.cast::<AtomicU32>() })
    }

    /// Puts a frame of `most` bytes at most into a slot; why it cannot, as an error number.
    fn put(&mut self, ahead: usize, frame: &[u8], most: usize) -> Result<(), libc::c_int> {
        if frame.len() > most.min(self.slot - FRAME) {
            return Err(libc::EMSGSIZE);
        }
        let (slot, status) = self.place(ahead);
        if status.load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE {
            return Err(libc::EAGAIN);
        }
        // Of its fields only hdr_len says something: how much is copied.
        let mut vnet = [0; VNET_HEADER];
        vnet[2..4].copy_from_slice(&(frame.len() as u16).to_ne_bytes());
        // SAFETY: the slot is ours while it is available, and holds a header, of which tp_len is one field, a virtio-net header from
        // START on, and as many bytes behind it as were compared above.
        unsafe {
            (&raw mut (*slot.cast::<libc::tpacket2_hdr>()).tp_len).write((VNET_HEADER + frame.len()) as u32);
            slot.add(START).copy_from_nonoverlapping(vnet.as_ptr(), VNET_HEADER);
            slot.add(FRAME).copy_from_nonoverlapping(frame.as_ptr(), frame.len());
        }
        status.store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        Ok(())
    }

    /// How many of the `count` frames put there the kernel took: all before the first that it left. The others are taken out again.
    fn taken(&mut self, count: usize) -> usize {
        let left = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT;
        let is_left = |ahead: &usize| self.place(*ahead).1.load(Ordering::Acquire) & left != 0;
        let taken = (0..count).find(is_left).unwrap_or(count);
        for ahead in taken..count {
            self.place(ahead).1.store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        }
        self.next = (self.next + taken) % self.slots;
        taken
    }
}

#[cfg(test)]
mod tests {
    //! On the loopback device of a network namespace of their own; skipped where that is not permitted.

    use super::*;
    use crate::sys::enter_new_network_namespace;
    use crate::sys::packet::{Options, PacketSocket};
    use std::process::Command;

    /// The index of every loopback device.
    const LO: u32 = 1;
    const MOST: usize = 1518;

    fn switch(state: &str) {
        assert!(Command::new("ip").args(["link", "set", "lo", state]).status().expect("ip").success());
    }

    /// Runs `test` with a sender that has a ring and one that has none, and with a socket that receives what they send.
    fn on_loopback(test: impl Fn(PacketSender, PacketSocket) + Send + Sync) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                if let Err(error) = enter_new_network_namespace() {
                    println!("skipped: no network namespace: {error}");
                    return;
                }
                switch("up");
                let with = PacketSender::open(LO, MOST, 1_000_000).expect("a sender");
                assert!(with.ring.is_some());
                for sender in [with, PacketSender::without_ring(LO, 1_000_000).expect("a sender")] {
                    let (promiscuous, vnet_header, ether_types) = (false, false, &[0x88b5][..]);
                    let (slots, frame, buffer) = (4096, MOST, 1_000_000);
                    let options = Options { promiscuous, vnet_header, ether_types, slots, frame, buffer };
                    test(sender, PacketSocket::open(c"lo", &options).expect("a receiver"));
                }
            });
        });
    }

    fn frame(number: usize) -> Vec<u8> {
        let mut frame = vec![number as u8; 60 + number * 7 % 1400];
        frame[..14].copy_from_slice(&[0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
        frame[14..22].copy_from_slice(&(number as u64).to_be_bytes());
        frame
    }

    fn send(sender: &mut PacketSender, frames: &[Vec<u8>]) -> Result<usize, Option<i32>> {
        sender.send(frames.iter().map(Vec::as_slice)).map_err(|error| error.raw_os_error())
    }

    #[test]
    fn frames_leave_whole_and_in_order_many_times_round_the_ring() {
        on_loopback(|mut sender, mut receiver| {
            let mut received = 0;
            for batch in 0..100 {
                let frames: Vec<_> = (0..50).map(|place| frame(batch * 50 + place)).collect();
                assert_eq!(send(&mut sender, &frames), Ok(50));
                while let Some(whole) = receiver.recv(|arrived| arrived.data == frame(received)) {
                    assert!(whole, "frame {received} in batch {batch}");
                    received += 1;
                }
            }
            assert_eq!(received, 5000);
        });
    }

    #[test]
    fn what_a_device_refuses_is_told_and_does_not_leave_later() {
        on_loopback(|mut sender, mut receiver| {
            let frames: Vec<_> = (0..5).map(frame).collect();
            switch("down");
            assert_eq!(send(&mut sender, &frames), Err(Some(libc::ENETDOWN)));
            switch("up");
            assert_eq!(send(&mut sender, &[]), Ok(0));
            assert_eq!(send(&mut sender, &frames[3..]), Ok(2));
            let mut numbers = Vec::new();
            while receiver.recv(|arrived| numbers.push(arrived.data[21])).is_some() {}
            assert_eq!(numbers, [3, 4]);
        });
    }

    #[test]
    fn a_frame_that_is_too_long_stops_the_batch_before_it() {
        on_loopback(|mut sender, _| {
            if sender.ring.is_some() {
                for long in [4000, MOST + 1] {
                    let frames = [frame(1), vec![0; long], frame(2)];
                    assert_eq!(send(&mut sender, &frames), Ok(1));
                    assert_eq!(send(&mut sender, &frames[1..]), Err(Some(libc::EMSGSIZE)));
                    assert_eq!(send(&mut sender, &frames[2..]), Ok(1));
                }
                sender.set_most(1000);
                assert_eq!(send(&mut sender, &[vec![0; 1001]]), Err(Some(libc::EMSGSIZE)));
                assert_eq!(send(&mut sender, &[vec![0; 1000]]), Ok(1));
            }
        });
    }

    #[test]
    fn frames_that_the_kernel_leaves_are_taken_out_and_a_busy_slot_is_not_overwritten() {
        on_loopback(|mut sender, _| {
            let Some(ring) = &mut sender.ring else { return };
            for ahead in 0..5 {
                assert_eq!(ring.put(ahead, &frame(ahead), MOST), Ok(()));
            }
            // The first went, the second is on its way.
            ring.place(0).1.store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
            ring.place(1).1.store(libc::TP_STATUS_SENDING, Ordering::Release);
            assert_eq!((ring.taken(5), ring.next), (2, 2));
            let free = |ring: &Ring, ahead| ring.place(ahead).1.load(Ordering::Acquire) == 0;
            assert!((0..SLOTS - 1).all(|ahead| free(ring, ahead)));
            assert_eq!(ring.put(SLOTS - 1, &frame(9), MOST), Err(libc::EAGAIN));
        });
    }
}
