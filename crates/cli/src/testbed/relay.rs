//! A translator of addresses (NAT) before one UDP port, which may forget what it knew.
//!
//! It stands in the namespace of the host that it leads to, takes what comes to a port of its own, and passes it on from another one, as
//! a translator in a home router does. When it forgets, what comes next is passed on from a new port. Nothing else is told to either end.

use super::Namespace;
use anyhow::{Context, Result};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often its threads look whether they are to end, or to forget.
const LOOK: Duration = Duration::from_millis(20);
/// The largest datagram.
const LARGEST: usize = 65_536;

/// A running translator; dropped, it ends.
pub(crate) struct Relay {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    outside: UdpSocket,
    /// Where the caller was heard last.
    caller: Mutex<Option<SocketAddr>>,
    /// How often it was made to forget.
    forgotten: AtomicU32,
    over: AtomicBool,
}

impl Relay {
    /// Passes what comes to `address` at `port` on to `address` at `target`, and the answers back.
    pub(crate) fn start(namespace: &Namespace, address: Ipv4Addr, port: u16, target: u16) -> Result<Relay> {
        let outside = namespace.enter(|| UdpSocket::bind((address, port)).context("cannot bind the translator"))?;
        outside.set_read_timeout(Some(LOOK))?;
        let inside = Shared::inside(namespace, address, target)?;
        let later = Shared::inside(namespace, address, target)?;
        let shared = Arc::new(Shared {
            outside,
            caller: Mutex::new(None),
            forgotten: AtomicU32::new(0),
            over: AtomicBool::new(false),
        });
        let sockets = Arc::new([inside, later]);
        let mut threads = Vec::new();
        let (one, own) = (Arc::clone(&shared), Arc::clone(&sockets));
        threads.push(std::thread::spawn(move || one.inward(&own)));
        for index in 0..sockets.len() {
            let (one, own) = (Arc::clone(&shared), Arc::clone(&sockets));
            threads.push(std::thread::spawn(move || one.outward(&own, index)));
        }
        Ok(Relay { shared, threads })
    }

    /// From now on what comes is passed on from another port, and what is sent to the port before is lost. It can forget once.
    pub(crate) fn forget(&self) {
        self.shared.forgotten.store(1, Ordering::Relaxed);
    }
}

impl Shared {
    fn inside(namespace: &Namespace, address: Ipv4Addr, target: u16) -> Result<UdpSocket> {
        namespace.enter(|| {
            let socket = UdpSocket::bind((address, 0)).context("cannot bind the translator")?;
            socket.connect((address, target)).context("cannot reach the end behind the translator")?;
            socket.set_read_timeout(Some(LOOK))?;
            Ok(socket)
        })
    }

    /// The place of the socket in use.
    fn place(&self) -> usize {
        self.forgotten.load(Ordering::Relaxed) as usize
    }

    fn inward(&self, sockets: &[UdpSocket; 2]) {
        let mut buffer = vec![0; LARGEST];
        while !self.over.load(Ordering::Relaxed) {
            let Ok((len, from)) = self.outside.recv_from(&mut buffer) else { continue };
            *self.caller.lock().unwrap_or_else(|error| error.into_inner()) = Some(from);
            if let (Some(socket), Some(datagram)) = (sockets.get(self.place()), buffer.get(..len)) {
                // What finds no room is lost, as on any way.
                let _ = socket.send(datagram);
            }
        }
    }

    fn outward(&self, sockets: &[UdpSocket; 2], index: usize) {
        let mut buffer = vec![0; LARGEST];
        while !self.over.load(Ordering::Relaxed) {
            let Some(Ok(len)) = sockets.get(index).map(|socket| socket.recv(&mut buffer)) else { continue };
            let caller = *self.caller.lock().unwrap_or_else(|error| error.into_inner());
            if index == self.place()
                && let (Some(caller), Some(datagram)) = (caller, buffer.get(..len))
            {
                let _ = self.outside.send_to(datagram, caller);
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::require;

    #[test]
    fn what_comes_after_it_forgot_comes_from_another_port_and_the_port_before_is_dead() {
        if !rustix::process::geteuid().is_root() || require("this test", &[]).is_err() {
            println!("skipped: needs root");
            return;
        }
        let namespace = Namespace::new("relay").unwrap();
        let home = Ipv4Addr::LOCALHOST;
        let socket = |port: u16| {
            let socket = namespace.enter(|| Ok(UdpSocket::bind((home, port))?)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            socket
        };
        let (target, caller) = (socket(700), socket(800));
        let relay = Relay::start(&namespace, home, 701, 700).unwrap();
        let mut buffer = [0; 16];
        let mut heard = |said: &[u8]| {
            caller.send_to(said, (home, 701)).unwrap();
            let (len, from) = target.recv_from(&mut buffer).unwrap();
            assert_eq!(&buffer[..len], said);
            from
        };
        let first = heard(b"one");
        assert_eq!(heard(b"two"), first);
        relay.forget();
        let second = heard(b"three");
        assert_ne!(first, second);
        // An answer to the old port is lost; the one to the new port is the first that comes.
        for (to, said) in [(first, b"old"), (second, b"new")] {
            target.send_to(said, to).unwrap();
        }
        let mut buffer = [0; 16];
        let (len, from) = caller.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..len], from), (&b"new"[..], (home, 701).into()));
    }
}
