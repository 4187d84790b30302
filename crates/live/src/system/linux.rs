//! The kernel's answers.

use super::calls::{Outgoing, System};
use crate::icmp::Returned;
use crate::sys::{self, Message, SEVERAL};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use netlink_sys::Socket as NetlinkSocket;
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::netdevice;
use rustix::time::{ClockId, clock_gettime};
use socket2::{MsgHdr, SockAddr, Socket};
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The kernel, in the network namespace of the thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linux;

impl System for Linux {
    fn monotonic(&self) -> Duration {
        let now = clock_gettime(ClockId::Boottime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }

    fn fill(&self, out: &mut [u8]) {
        SystemRandom::new().fill(out).expect("the operating system's random generator failed");
    }

    fn watch(&self, epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>, token: u64, flags: EventFlags) -> Result<(), Errno> {
        epoll::add(epoll, fd, EventData::new_u64(token), flags)
    }

    fn rewatch(&self, epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>, token: u64, flags: EventFlags) -> Result<(), Errno> {
        epoll::modify(epoll, fd, EventData::new_u64(token), flags)
    }

    fn unwatch(&self, epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        epoll::delete(epoll, fd)
    }

    fn wait(&self, epoll: BorrowedFd<'_>, events: &mut Vec<Event>, timeout: &Timespec) -> Result<(), Errno> {
        epoll::wait(epoll, rustix::buffer::spare_capacity(events), Some(timeout)).map(|_| ())
    }

    fn open_tun(&self, name: &str, vnet_header: bool) -> io::Result<(OwnedFd, String)> {
        sys::open_tun(name, false, vnet_header)
    }

    fn set_tun_offload(&self, tun: BorrowedFd<'_>, offloads: libc::c_uint) -> io::Result<()> {
        sys::set_tun_offload(tun, offloads)
    }

    fn read_tun(&self, tun: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(tun, buffer)
    }

    fn write_tun(&self, tun: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        rustix::io::writev(tun, slices)
    }

    fn bind_device(&self, socket: &Socket, name: &str) -> io::Result<()> {
        socket.bind_device(Some(name.as_bytes()))
    }

    fn set_mark(&self, socket: &Socket, mark: u32) -> io::Result<()> {
        socket.set_mark(mark)
    }

    fn bind(&self, socket: &Socket, _device: Option<u32>, address: SocketAddr) -> io::Result<Option<SocketAddr>> {
        socket.bind(&address.into())?;
        Ok(socket.local_addr()?.as_socket())
    }

    fn interface_index(&self, socket: &Socket, name: &str) -> Result<u32, Errno> {
        netdevice::name_to_index(socket, name)
    }

    fn send(&self, socket: &Socket, outgoing: &Outgoing<'_>) -> io::Result<()> {
        let control = Control::of(outgoing);
        let address = SockAddr::from(outgoing.destination);
        let slices = [IoSlice::new(outgoing.bytes)];
        let message = MsgHdr::new().with_addr(&address).with_buffers(&slices).with_control(control.bytes());
        if !outgoing.fragment {
            return socket.sendmsg(&message, 0).map(|_| ());
        }
        let is_v4 = outgoing.destination.is_ipv4();
        sys::allow_fragments(socket.as_fd(), is_v4, true)?;
        let sent = socket.sendmsg(&message, 0).map(|_| ());
        sys::allow_fragments(socket.as_fd(), is_v4, false)?;
        sent
    }

    fn send_several(&self, socket: &Socket, outgoing: &[Outgoing<'_>]) -> io::Result<usize> {
        let mut about: [Option<(SockAddr, Control)>; SEVERAL] = [const { None }; SEVERAL];
        for (about, one) in about.iter_mut().zip(outgoing) {
            *about = Some((SockAddr::from(one.destination), Control::of(one)));
        }
        let messages = about.iter().flatten().zip(outgoing).map(|((to, control), one)| Message {
            to,
            bytes: one.bytes,
            control: control.bytes(),
        });
        sys::send_several(socket.as_fd(), messages)
    }

    fn receive(
        &self,
        socket: &Socket,
        state: &UdpSocketState,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        state.recv(UdpSockRef::from(socket), buffers, metas)
    }

    fn keep_errors(&self, socket: &Socket, is_v4: bool, keep: bool) -> io::Result<()> {
        sys::keep_errors(socket.as_fd(), is_v4, keep)?;
        if !keep {
            // The next call would fail for it.
            socket.take_error()?;
        }
        Ok(())
    }

    fn take_error(&self, socket: &Socket) -> io::Result<Option<Returned>> {
        let (mut name, mut control) = ([0; 28], [0; 512]);
        let (name_len, control_len) = sys::take_error(socket.as_fd(), &mut name, &mut control)?;
        Ok(Returned::parse(&name[..name_len], &control[..control_len]))
    }

    fn send_netlink(&self, socket: &NetlinkSocket, request: &[u8]) -> io::Result<usize> {
        socket.send(request, 0)
    }

    fn receive_netlink(&self, socket: &NetlinkSocket, buffer: &mut Vec<u8>) -> io::Result<usize> {
        socket.recv(buffer, 0)
    }

    fn read_setting(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(path)
    }

    fn write_setting(&self, path: &str, value: &str) -> io::Result<()> {
        fs::write(path, value)
    }
}

/// Control messages as the kernel reads them: length, level, kind, data, each aligned to the machine word (`cmsg(3)`).
struct Control {
    bytes: [u8; 128],
    len: usize,
}

impl Control {
    const WORD: usize = size_of::<usize>();
    const HEADER: usize = Self::WORD + 8;

    fn new() -> Control {
        Control { bytes: [0; 128], len: 0 }
    }

    /// Those of a datagram or several: its traffic class, our address, the size of each.
    fn of(outgoing: &Outgoing<'_>) -> Control {
        let mut control = Control::new();
        if outgoing.tos != 0 {
            let (level, kind) = if outgoing.destination.is_ipv4() {
                (libc::IPPROTO_IP, libc::IP_TOS)
            } else {
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
            };
            control.push(level, kind, &i32::from(outgoing.tos).to_ne_bytes());
        }
        match outgoing.source {
            // struct in_pktinfo: interface index, source address, (destination address).
            Some(IpAddr::V4(source)) => {
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&source.octets());
                control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            // struct in6_pktinfo: source address, interface index.
            Some(IpAddr::V6(source)) => {
                let mut info = [0; 20];
                info[..16].copy_from_slice(&source.octets());
                control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            None => {}
        }
        if let Some(segment) = outgoing.segment {
            control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &(segment as u16).to_ne_bytes());
        }
        control
    }

    fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let len = Self::HEADER + data.len();
        let place = &mut self.bytes[self.len..self.len + len];
        place[..Self::WORD].copy_from_slice(&len.to_ne_bytes());
        place[Self::WORD..Self::WORD + 4].copy_from_slice(&level.to_ne_bytes());
        place[Self::WORD + 4..Self::HEADER].copy_from_slice(&kind.to_ne_bytes());
        place[Self::HEADER..].copy_from_slice(data);
        self.len += len.next_multiple_of(Self::WORD);
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
