//! One host in memory: it stands in the kernel's place for the thread that entered it.
//!
//! It has an interface for each link, the TUN interface that a daemon opens, datagram sockets, descriptors that are waited for,
//! and settings. Its descriptors are real ones through which nothing ever passes, so that the daemon's own types hold them.
//! Any call may fail as the kernel's does, and a process may be killed at any call: what the world sees of a process
//! are its calls, so this is to be killed anywhere.

use super::network::{Datagram, device, link_of};
use super::routing::{Interface, Routing, answer};
use crate::icmp::Returned;
use crate::offload::VnetHeader;
use crate::system::{Outgoing, System};
use fairspan_core::rng::Rng;
use netlink_sys::Socket as NetlinkSocket;
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use rustix::event::epoll::{Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};
use socket2::Socket as RealSocket;
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::panic::resume_unwind;
use std::rc::Rc;
use std::time::Duration;

/// What unwinds a process that is killed.
pub(super) struct Killed;

/// The wall clock when time begins, while nobody has set it: some day of 2026.
pub(super) const EPOCH: u64 = 1_790_000_000_000_000_000;
/// Packets that wait for the daemon at its interface, as in Linux.
pub(super) const TUN_QUEUE: usize = 500;
/// Datagrams that wait in a socket.
const SOCKET_QUEUE: usize = 512;
/// Outer headers of a datagram over IPv4, and over IPv6.
const OUTER: [usize; 2] = [28, 48];

/// The daemon's interface.
#[derive(Debug)]
pub(super) struct Tun {
    fd: RawFd,
    vnet_header: bool,
    /// The daemon takes units of UDP datagrams.
    pub(super) segments: bool,
    queue: VecDeque<Unit>,
}

impl Tun {
    /// Packets are preceded by what the device is still to do for them.
    pub(super) fn has_headers(&self) -> bool {
        self.vnet_header
    }
}

/// What the host hands to the daemon at once.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) header: VnetHeader,
    pub(super) bytes: Vec<u8>,
    /// Flow, and the numbers of the packets in it.
    pub(super) flow: usize,
    pub(super) numbers: std::ops::Range<u64>,
}

#[derive(Debug)]
struct Socket {
    fd: RawFd,
    local: SocketAddr,
    device: Option<u32>,
    received: VecDeque<Datagram>,
    /// It takes nothing until then.
    blocked_until: u64,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    epoll: RawFd,
    fd: RawFd,
    token: u64,
    flags: EventFlags,
}

/// What may fail.
#[derive(Clone, Copy, Debug)]
enum Call {
    Wait,
    ReadTun,
    WriteTun,
    OpenTun,
    Send,
    Receive,
    SendNetlink,
    ReceiveNetlink,
    Setting,
    Other,
}

impl Call {
    /// With what it fails.
    fn errors(self) -> &'static [Errno] {
        match self {
            Call::Wait => &[Errno::INTR],
            Call::ReadTun => &[Errno::INTR, Errno::AGAIN],
            Call::WriteTun => &[Errno::INTR, Errno::AGAIN, Errno::NOBUFS, Errno::NOMEM],
            Call::OpenTun => &[Errno::NOMEM, Errno::MFILE],
            Call::Send => &[
                Errno::INTR,
                Errno::AGAIN,
                Errno::NOBUFS,
                Errno::NOMEM,
                Errno::PERM,
                Errno::CONNREFUSED,
                Errno::NETUNREACH,
                Errno::NETDOWN,
                Errno::HOSTUNREACH,
                Errno::INVAL,
                Errno::IO,
                Errno::MSGSIZE,
            ],
            Call::Receive => &[Errno::INTR, Errno::AGAIN, Errno::CONNREFUSED, Errno::NOMEM, Errno::NETDOWN],
            Call::SendNetlink => &[Errno::NOBUFS, Errno::NOMEM],
            Call::ReceiveNetlink => &[Errno::INTR, Errno::NOBUFS],
            Call::Setting => &[Errno::ROFS],
            Call::Other => &[],
        }
    }
}

pub(super) struct State {
    pub(super) now: u64,
    /// The wall clock, when time began.
    pub(super) epoch: u64,
    entropy: Rng,
    chance: Rng,
    /// Calls of a million that fail.
    pub(super) failing_ppm: u64,
    /// How many did.
    pub(super) failed: u64,
    /// The process is killed at the call after so many.
    pub(super) kill_in: Option<u64>,
    /// There is no process, or what is left of one that is torn down.
    pub(super) dead: bool,
    addresses: Vec<IpAddr>,
    pub(super) tun: Option<Tun>,
    sockets: Vec<Socket>,
    next_port: u16,
    watches: Vec<Watch>,
    monitor: Option<RawFd>,
    answers: BTreeMap<RawFd, VecDeque<Vec<u8>>>,
    pub(super) routing: Routing,
    pub(super) settings: BTreeMap<String, String>,
    /// Datagrams, packets and messages that the daemon took or gave.
    pub(super) moved: u64,
    /// What left, by link.
    pub(super) sent: Vec<(usize, Datagram)>,
    /// Flow and numbers of what the daemon read.
    pub(super) read: Vec<(usize, std::ops::Range<u64>)>,
    /// What the daemon wrote to its interface.
    pub(super) written: Vec<(VnetHeader, Vec<u8>)>,
}

/// A host; the daemon's calls and the world's hands share it.
pub(super) struct Host(RefCell<State>);

impl Host {
    /// A host with an interface on each link, whose address there it is.
    pub(super) fn new(seed: u64, addresses: Vec<IpAddr>) -> Rc<Host> {
        let mut routing = Routing::default();
        let mut settings = BTreeMap::new();
        let mut set = |path: String| settings.insert(path.clone(), Host::usual_setting(&path).to_owned());
        set("/proc/sys/net/ipv4/conf/all/src_valid_mark".to_owned());
        set("/proc/sys/net/ipv4/conf/all/rp_filter".to_owned());
        for link in 0..addresses.len() {
            set(format!("/proc/sys/net/ipv4/conf/{}/rp_filter", device(link)));
            routing.add_link(link, device(link));
        }
        Rc::new(Host(RefCell::new(State {
            now: 0,
            epoch: EPOCH,
            entropy: Rng::new(seed),
            chance: Rng::new(seed ^ 0x5eed),
            failing_ppm: 0,
            failed: 0,
            kill_in: None,
            dead: true,
            addresses,
            tun: None,
            sockets: Vec::new(),
            next_port: 32_768,
            watches: Vec::new(),
            monitor: None,
            answers: BTreeMap::new(),
            routing,
            settings,
            moved: 0,
            sent: Vec::new(),
            read: Vec::new(),
            written: Vec::new(),
        })))
    }

    /// What a setting is before anyone changes it: the strict reverse-path filter on links, otherwise nothing.
    pub(super) fn usual_setting(path: &str) -> &'static str {
        if path.contains("/link") { "1" } else { "0" }
    }

    pub(super) fn state(&self) -> RefMut<'_, State> {
        self.0.borrow_mut()
    }

    /// A call of the process: it may fail, or be its last.
    fn call(&self, call: Call) -> Result<RefMut<'_, State>, Errno> {
        let mut state = self.0.borrow_mut();
        if state.dead {
            return Err(Errno::BADF);
        }
        if let Some(left) = state.kill_in {
            if left == 0 {
                state.kill_in = None;
                state.dead = true;
                drop(state);
                resume_unwind(Box::new(Killed));
            }
            state.kill_in = Some(left - 1);
        }
        let errors = call.errors();
        if state.failing_ppm > 0 && !errors.is_empty() {
            let ppm = state.failing_ppm;
            if state.chance.below(1_000_000) < ppm {
                state.failed += 1;
                let which = state.chance.below(errors.len() as u64) as usize;
                if matches!((call, errors[which]), (Call::Send, Errno::AGAIN)) {
                    // The one error that has a consequence; `send` draws it.
                    return Err(Errno::AGAIN);
                }
                return Err(errors[which]);
            }
        }
        Ok(state)
    }
}

impl State {
    /// Everything that the kernel takes back from a process that ended.
    pub(super) fn end_process(&mut self) {
        self.dead = true;
        self.kill_in = None;
        self.tun = None;
        self.routing.remove_tun();
        self.sockets.clear();
        self.watches.clear();
        self.answers.clear();
        self.monitor = None;
        self.routing.news.clear();
    }

    /// The flags that a descriptor has.
    fn ready(&self, watch: &Watch) -> EventFlags {
        let mut flags = EventFlags::empty();
        if let Some(socket) = self.sockets.iter().find(|socket| socket.fd == watch.fd) {
            flags.set(EventFlags::IN, !socket.received.is_empty());
            flags.set(EventFlags::OUT, socket.blocked_until <= self.now);
        } else if let Some(tun) = self.tun.as_ref().filter(|tun| tun.fd == watch.fd) {
            flags.set(EventFlags::IN, !tun.queue.is_empty());
            flags.set(EventFlags::ERR, self.routing.tun.is_none());
        } else if self.monitor == Some(watch.fd) {
            flags.set(EventFlags::IN, !self.routing.news.is_empty());
        }
        flags & (watch.flags | EventFlags::ERR)
    }

    /// Whether the daemon would be woken now.
    pub(super) fn is_ready(&self) -> bool {
        self.watches.iter().any(|watch| !self.ready(watch).is_empty())
    }

    /// When a full socket that is waited for has room again.
    pub(super) fn next_room(&self) -> Option<u64> {
        let waiting = self.watches.iter().filter(|watch| watch.flags.contains(EventFlags::OUT));
        let full = waiting.filter_map(|watch| self.sockets.iter().find(|socket| socket.fd == watch.fd));
        full.map(|socket| socket.blocked_until).filter(|until| *until > self.now).min()
    }

    /// Fills a socket until `until`.
    pub(super) fn block_a_socket(&mut self, which: u64, until: u64) {
        let count = self.sockets.len().max(1);
        if let Some(socket) = self.sockets.get_mut(which as usize % count) {
            socket.blocked_until = until;
        }
    }

    /// Every socket has room.
    pub(super) fn free_sockets(&mut self) {
        self.sockets.iter_mut().for_each(|socket| socket.blocked_until = 0);
    }

    /// A datagram arrives on a link; false when it found no socket, or no room.
    pub(super) fn deliver(&mut self, link: usize, datagram: Datagram) -> bool {
        let Some(interface) = self.routing.link(link).filter(|interface| interface.up) else { return false };
        let (index, to) = (interface.index, datagram.destination);
        let mine = |socket: &&mut Socket| {
            socket.local.port() == to.port()
                && socket.local.is_ipv4() == to.is_ipv4()
                && (socket.local.ip().is_unspecified() || socket.local.ip() == to.ip())
                && socket.device.is_none_or(|device| device == index)
        };
        match self.sockets.iter_mut().find(mine) {
            Some(socket) if socket.received.len() < SOCKET_QUEUE => {
                socket.received.push_back(datagram);
                true
            }
            _ => false,
        }
    }

    /// Something for the daemon to read; false when there is no room, or nobody to read it.
    pub(super) fn offer(&mut self, unit: Unit) -> bool {
        let up = self.routing.tun.as_ref().is_some_and(|tun| tun.up);
        match &mut self.tun {
            Some(tun) if up && tun.queue.len() < TUN_QUEUE => {
                tun.queue.push_back(unit);
                true
            }
            _ => false,
        }
    }

    /// By which link and interface a datagram leaves, and from which address.
    fn route(&self, socket: &Socket, to: IpAddr, source: Option<IpAddr>) -> Result<(usize, &Interface, IpAddr), Errno> {
        let mut links = self.routing.links.iter();
        let (link, interface) = match socket.device {
            Some(index) => links.find(|(_, interface)| interface.index == index).ok_or(Errno::NODEV)?,
            None => links.find(|(link, _)| Some(*link) == link_of(to)).ok_or(Errno::NETUNREACH)?,
        };
        let address = self.addresses[*link];
        if !interface.up || address.is_ipv4() != to.is_ipv4() {
            return Err(Errno::NETUNREACH);
        }
        let bound = Some(socket.local.ip()).filter(|ip| !ip.is_unspecified());
        let source = source.or(bound).unwrap_or(address);
        if self.addresses.contains(&source) { Ok((*link, interface, source)) } else { Err(Errno::INVAL) }
    }

    fn send(&mut self, fd: RawFd, outgoing: &Outgoing<'_>) -> Result<(), Errno> {
        let socket = self.sockets.iter().find(|socket| socket.fd == fd).ok_or(Errno::BADF)?;
        if socket.blocked_until > self.now {
            return Err(Errno::AGAIN);
        }
        let (link, interface, source) = self.route(socket, outgoing.destination.ip(), outgoing.source)?;
        let size = outgoing.segment.unwrap_or(outgoing.bytes.len());
        if !outgoing.fragment && size + OUTER[usize::from(source.is_ipv6())] > interface.mtu as usize {
            return Err(Errno::MSGSIZE);
        }
        let source = SocketAddr::new(source, socket.local.port());
        for bytes in outgoing.bytes.chunks(size.max(1)) {
            let (destination, ecn, fragment) = (outgoing.destination, outgoing.tos & 3, outgoing.fragment);
            self.moved += 1;
            self.sent.push((link, Datagram { source, destination, ecn, fragment, bytes: bytes.into() }));
        }
        Ok(())
    }
}

/// Does what is the kernel's, whose memory is not the daemon's.
fn apart<R>(work: impl FnOnce() -> R) -> R {
    let mut result = None;
    allocation_counter::opt_out(|| result = Some(work()));
    result.expect("it ran")
}

/// As many datagrams of one sender and size as the kernel would coalesce, in `buffer`.
fn coalesce(received: &mut VecDeque<Datagram>, buffer: &mut [u8], meta: &mut RecvMeta) {
    let Some(first) = received.pop_front() else { return };
    let stride = first.bytes.len();
    buffer[..stride].copy_from_slice(&first.bytes);
    let (mut len, mut count, mut last) = (stride, 1, stride);
    while let Some(next) = received.front() {
        let size = next.bytes.len();
        let alike = (next.source, next.destination, next.ecn) == (first.source, first.destination, first.ecn);
        if !alike || last < stride || size > stride || size == 0 || count == 64 || len + size > buffer.len() {
            break;
        }
        buffer[len..len + size].copy_from_slice(&next.bytes);
        (len, count, last) = (len + size, count + 1, size);
        received.pop_front();
    }
    *meta = RecvMeta::default();
    (meta.addr, meta.len, meta.stride) = (first.source, len, stride);
    (meta.ecn, meta.dst_ip) = (EcnCodepoint::from_bits(first.ecn), Some(first.destination.ip()));
}

impl System for Host {
    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.0.borrow().now)
    }

    fn wall(&self) -> Duration {
        let state = self.0.borrow();
        Duration::from_nanos(state.epoch.saturating_add(state.now))
    }

    fn has_threads(&self) -> bool {
        false
    }

    fn fill(&self, out: &mut [u8]) {
        let mut state = self.0.borrow_mut();
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&state.entropy.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    fn watch(&self, epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>, token: u64, flags: EventFlags) -> Result<(), Errno> {
        let mut state = self.call(Call::Other)?;
        if sockopt::socket_domain(fd) == Ok(AddressFamily::NETLINK) {
            state.monitor = Some(fd.as_raw_fd());
        }
        let watch = Watch { epoll: epoll.as_raw_fd(), fd: fd.as_raw_fd(), token, flags };
        // The number may be that of a descriptor that was closed meanwhile.
        apart(|| {
            state.watches.retain(|other| other.fd != watch.fd);
            state.watches.push(watch);
        });
        Ok(())
    }

    fn rewatch(&self, _epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>, token: u64, flags: EventFlags) -> Result<(), Errno> {
        let mut state = self.call(Call::Other)?;
        let watch = state.watches.iter_mut().find(|watch| watch.fd == fd.as_raw_fd()).ok_or(Errno::NOENT)?;
        (watch.token, watch.flags) = (token, flags);
        Ok(())
    }

    fn unwatch(&self, _epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        let mut state = self.call(Call::Other)?;
        state.watches.retain(|watch| watch.fd != fd.as_raw_fd());
        Ok(())
    }

    fn wait(&self, epoll: BorrowedFd<'_>, events: &mut Vec<Event>, _timeout: &Timespec) -> Result<(), Errno> {
        let state = self.call(Call::Wait)?;
        for watch in state.watches.iter().filter(|watch| watch.epoll == epoll.as_raw_fd()) {
            let flags = state.ready(watch);
            if !flags.is_empty() && events.len() < events.capacity() {
                events.push(Event { flags, data: EventData::new_u64(watch.token) });
            }
        }
        Ok(())
    }

    fn open_tun(&self, name: &str, vnet_header: bool) -> io::Result<(OwnedFd, String)> {
        let mut state = self.call(Call::OpenTun)?;
        apart(|| state.routing.add_tun(name.to_owned()))?;
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC)?;
        state.tun = Some(Tun { fd: descriptor.as_raw_fd(), vnet_header, segments: false, queue: VecDeque::new() });
        Ok((descriptor, name.to_owned()))
    }

    fn set_tun_offload(&self, _tun: BorrowedFd<'_>, offloads: libc::c_uint) -> io::Result<()> {
        let mut state = self.call(Call::Other)?;
        let tun = state.tun.as_mut().ok_or(Errno::BADF)?;
        tun.segments = offloads & libc::TUN_F_USO4 != 0;
        Ok(())
    }

    fn read_tun(&self, _tun: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
        let mut state = self.call(Call::ReadTun)?;
        if state.routing.tun.is_none() {
            return Err(Errno::BADFD);
        }
        let tun = state.tun.as_mut().ok_or(Errno::BADF)?;
        let unit = tun.queue.pop_front().ok_or(Errno::AGAIN)?;
        state.moved += 1;
        let tun = state.tun.as_ref().ok_or(Errno::BADF)?;
        let header = if tun.vnet_header { &unit.header.to_bytes()[..] } else { &[] };
        let len = header.len() + unit.bytes.len();
        buffer[..header.len()].copy_from_slice(header);
        buffer[header.len()..len].copy_from_slice(&unit.bytes);
        apart(|| {
            state.read.push((unit.flow, unit.numbers.clone()));
            drop(unit);
        });
        Ok(len)
    }

    fn write_tun(&self, _tun: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let mut state = self.call(Call::WriteTun)?;
        if !state.routing.tun.as_ref().ok_or(Errno::BADFD)?.up {
            return Err(Errno::IO);
        }
        let tun = state.tun.as_ref().ok_or(Errno::BADF)?;
        let with_header = tun.vnet_header;
        apart(|| {
            let mut bytes: Vec<u8> = Vec::with_capacity(slices.iter().map(|slice| slice.len()).sum());
            slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
            let len = bytes.len();
            let mut header = VnetHeader::default();
            if with_header {
                let first = bytes.first_chunk().ok_or(Errno::INVAL)?;
                header = VnetHeader::from_bytes(first);
                bytes.drain(..VnetHeader::LEN);
            }
            state.written.push((header, bytes));
            state.moved += 1;
            Ok(len)
        })
    }

    fn bind_device(&self, _socket: &RealSocket, name: &str) -> io::Result<()> {
        let state = self.call(Call::Other)?;
        if state.routing.links.iter().any(|(_, i)| i.name == name) { Ok(()) } else { Err(Errno::NODEV.into()) }
    }

    fn set_mark(&self, _socket: &RealSocket, _mark: u32) -> io::Result<()> {
        self.call(Call::Other)?;
        Ok(())
    }

    fn bind(&self, socket: &RealSocket, device: Option<u32>, address: SocketAddr) -> io::Result<Option<SocketAddr>> {
        let mut state = self.call(Call::Other)?;
        let any = address.ip().is_unspecified();
        if !any && !state.addresses.contains(&address.ip()) {
            return Err(Errno::ADDRNOTAVAIL.into());
        }
        let mut local = address;
        if address.port() == 0 {
            state.next_port = if state.next_port == 60_999 { 32_768 } else { state.next_port + 1 };
            local.set_port(state.next_port);
        }
        let fd = socket.as_raw_fd();
        // A socket that had the port, or the number of the descriptor, was closed before: nobody else is on this host.
        let same = |other: &Socket| other.fd == fd || other.local == local;
        apart(|| {
            let closed: Vec<RawFd> = state.sockets.iter().filter(|other| same(other)).map(|other| other.fd).collect();
            state.watches.retain(|watch| !closed.contains(&watch.fd));
            state.sockets.retain(|other| !same(other));
            state.sockets.push(Socket { fd, local, device, received: VecDeque::new(), blocked_until: 0 });
        });
        Ok(Some(local))
    }

    fn interface_index(&self, _socket: &RealSocket, name: &str) -> Result<u32, Errno> {
        let state = self.call(Call::Other)?;
        let mut links = state.routing.links.iter();
        links.find(|(_, i)| i.name == name).map(|(_, i)| i.index).ok_or(Errno::NODEV)
    }

    fn send(&self, socket: &RealSocket, outgoing: &Outgoing<'_>) -> io::Result<()> {
        let fd = socket.as_raw_fd();
        match self.call(Call::Send) {
            Ok(mut state) => Ok(apart(|| state.send(fd, outgoing))?),
            Err(Errno::AGAIN) => {
                let mut state = self.0.borrow_mut();
                let until = state.now + state.chance.below(300_000_000);
                if let Some(socket) = state.sockets.iter_mut().find(|socket| socket.fd == fd) {
                    socket.blocked_until = until;
                }
                Err(Errno::AGAIN.into())
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn receive(
        &self,
        socket: &RealSocket,
        _state: &UdpSocketState,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        let mut state = self.call(Call::Receive)?;
        let fd = socket.as_raw_fd();
        let socket = state.sockets.iter_mut().find(|socket| socket.fd == fd).ok_or(Errno::BADF)?;
        let mut count = 0;
        for (buffer, meta) in buffers.iter_mut().zip(metas) {
            if socket.received.is_empty() {
                break;
            }
            apart(|| coalesce(&mut socket.received, buffer, meta));
            count += 1;
        }
        state.moved += count as u64;
        if count == 0 { Err(Errno::AGAIN.into()) } else { Ok(count) }
    }

    fn keep_errors(&self, _socket: &RealSocket, _is_v4: bool, _keep: bool) -> io::Result<()> {
        self.call(Call::Other)?;
        Ok(())
    }

    /// These links lose what does not arrive, and tell nobody; calls fail all the same.
    fn take_error(&self, _socket: &RealSocket) -> io::Result<Option<Returned>> {
        self.call(Call::Other)?;
        Err(Errno::AGAIN.into())
    }

    fn send_netlink(&self, socket: &NetlinkSocket, request: &[u8]) -> io::Result<usize> {
        let mut state = self.call(Call::SendNetlink)?;
        apart(|| {
            let answers = answer(&mut state.routing, request);
            state.answers.insert(socket.as_fd().as_raw_fd(), answers.into());
        });
        Ok(request.len())
    }

    fn receive_netlink(&self, socket: &NetlinkSocket, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let mut state = self.call(Call::ReceiveNetlink)?;
        let fd = socket.as_fd().as_raw_fd();
        let bytes = if state.monitor == Some(fd) {
            state.routing.news.pop_front()
        } else {
            state.answers.get_mut(&fd).and_then(VecDeque::pop_front)
        };
        let bytes = bytes.ok_or(Errno::AGAIN)?;
        buffer.extend_from_slice(&bytes);
        let len = bytes.len();
        apart(|| drop(bytes));
        state.moved += 1;
        Ok(len)
    }

    fn read_setting(&self, path: &str) -> io::Result<String> {
        let state = self.call(Call::Other)?;
        Ok(state.settings.get(path).ok_or(Errno::NOENT)?.clone())
    }

    fn write_setting(&self, path: &str, value: &str) -> io::Result<()> {
        let mut state = self.call(Call::Setting)?;
        let setting = state.settings.get_mut(path).ok_or(Errno::NOENT)?;
        apart(|| *setting = value.to_owned());
        Ok(())
    }
}
