//! A gateway between two hosts, each in a network namespace that ends with the test, and nothing of it has a name outside.
//!
//! | host | device | addresses |
//! |---|---|---|
//! | near | `near0`, towards `lan0` | 10.1.0.2, fd01::2 |
//! | gateway | `lan0` and `sat0`, and forwards | 10.1.0.1, fd01::1; 10.2.0.1, fd02::1 |
//! | far | `far0`, towards `sat0` | 10.2.0.2, fd02::2 |
#![allow(dead_code, missing_docs, unreachable_pub)]

use fairspan_live::enter_new_network_namespace;
use fairspan_live::netlink::Netlink;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_getcpu, sched_setaffinity};
use std::fs::File;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::time::{Duration, Instant};

pub const NEAR: [&str; 2] = ["10.1.0.2", "fd01::2"];
pub const FAR: [&str; 2] = ["10.2.0.2", "fd02::2"];

/// A namespace without a name.
pub struct Host(File);

impl Host {
    pub fn new() -> Host {
        let made = std::thread::spawn(|| {
            enter_new_network_namespace().expect("a namespace");
            File::open("/proc/thread-self/ns/net").expect("it")
        });
        let host = Host(made.join().expect("a thread"));
        host.within(|| Netlink::open().expect("netlink").set_up("lo", true).expect("lo"));
        host
    }

    /// Runs `body` in this namespace; what it opens stays there.
    pub fn within<T>(&self, body: impl FnOnce() -> T) -> T {
        let enter = |namespace: &File| {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("to enter");
        };
        let before = File::open("/proc/thread-self/ns/net").expect("the namespace");
        enter(&self.0);
        let result = body();
        enter(&before);
        result
    }

    pub fn ip(&self, arguments: &str) {
        self.within(|| {
            let status = Command::new("ip").args(arguments.split_whitespace()).status().expect("the `ip` command");
            assert!(status.success(), "ip {arguments}: {status}");
        });
    }

    pub fn set(&self, setting: &str, value: &str) {
        self.within(|| {
            std::fs::write(format!("/proc/sys/net/{setting}"), value).unwrap_or_else(|e| panic!("{setting}: {e}"));
        });
    }

    /// Where other processes find it.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

pub struct Net {
    pub near: Host,
    pub gateway: Host,
    pub far: Host,
}

impl Net {
    /// The thread stays on one processor from here on, so that packets keep the order in which it sends them.
    pub fn new() -> Net {
        let mut processor = CpuSet::new();
        processor.set(sched_getcpu());
        sched_setaffinity(None, &processor).expect("to stay");
        let net = Net { near: Host::new(), gateway: Host::new(), far: Host::new() };
        for (inner, host, outer, number) in [("lan0", &net.near, "near0", 1), ("sat0", &net.far, "far0", 2)] {
            net.gateway.ip(&format!("link add {inner} type veth peer name {outer} netns {}", host.path()));
            for (at, device, last) in [(&net.gateway, inner, 1), (host, outer, 2)] {
                at.ip(&format!("addr add 10.{number}.0.{last}/24 dev {device}"));
                at.ip(&format!("addr add fd0{number}::{last}/64 dev {device} nodad"));
                at.ip(&format!("link set {device} up"));
            }
            host.ip(&format!("route add default via 10.{number}.0.1"));
            host.ip(&format!("route add default via fd0{number}::1"));
        }
        net.gateway.set("ipv4/ip_forward", "1");
        net.gateway.set("ipv6/conf/all/forwarding", "1");
        [0, 1].into_iter().for_each(|version| net.acquaint(version));
        net
    }

    /// Waits until the hosts know each other's addresses. An interface of IPv6 that is up hears of who looks for it only when the
    /// kernel's worker has had its turn: on a busy machine that takes seconds, and what waits for an answer is lost meanwhile.
    fn acquaint(&self, version: usize) {
        const TRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        let (near, far) = (udp(&self.near, at(ANY[version], 0)), udp(&self.far, at(FAR[version], 8)));
        let (mut buffer, begun) = ([0; 16], Instant::now());
        loop {
            assert!(begun.elapsed() < PATIENCE, "{} does not answer", FAR[version]);
            // What is refused or has no way yet goes again.
            let _ = near.send_to(b"who?", at(FAR[version], 8));
            let _ = poll(&mut [PollFd::new(&far, PollFlags::IN)], Some(&TRY));
            while let Ok((length, from)) = far.recv_from(&mut buffer) {
                let _ = far.send_to(&buffer[..length], from);
            }
            let _ = poll(&mut [PollFd::new(&near, PollFlags::IN)], Some(&TRY));
            if near.recv(&mut buffer).is_ok() {
                return;
            }
        }
    }
}

/// An address in quotes.
pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub fn at(text: &str, port: u16) -> SocketAddr {
    (ip(text), port).into()
}

/// How long anything is waited for that has to come.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A socket for datagrams that does not wait.
pub fn udp(host: &Host, address: SocketAddr) -> UdpSocket {
    let socket = host.within(|| UdpSocket::bind(address)).expect("a socket");
    socket.set_nonblocking(true).expect("nonblocking");
    socket
}

/// Waits until there is something to read.
pub fn wait_for(what: &impl AsFd) {
    let timeout = Timespec::try_from(PATIENCE).expect("patience");
    loop {
        match poll(&mut [PollFd::new(what, PollFlags::IN)], Some(&timeout)) {
            Err(Errno::INTR) => {}
            ready => return assert_eq!(ready, Ok(1), "it comes"),
        }
    }
}

/// The next datagram.
pub fn next(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 2000];
    wait_for(socket);
    let length = socket.recv(&mut buffer).expect("a datagram");
    buffer[..length].to_vec()
}

/// Addresses of a version that stand for all of a host.
pub const ANY: [&str; 2] = ["0.0.0.0", "::"];
