//! UDP that offers a rate, whatever becomes of it.

use crate::testbed::Namespace;
use anyhow::{Context, Result};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a datagram's content.
const CONTENT: usize = 1200;
/// Bytes of the headers of UDP and IPv4, and of Ethernet.
const HEADERS: usize = 8 + 20 + 14;
/// How long the sender sleeps when it is ahead of its time.
const PAUSE: Duration = Duration::from_micros(500);
/// How often the receiver looks whether it is over.
const LOOK: Duration = Duration::from_millis(50);

/// One flow of datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagrams<'a> {
    pub(crate) from: &'a Namespace,
    pub(crate) to: &'a Namespace,
    pub(crate) target: SocketAddr,
    /// Bits a second, Ethernet headers included, as a link counts them.
    pub(crate) rate: u64,
}

/// What was offered, and what came, in bits a second on the link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Flowed {
    pub(crate) offered: f64,
    pub(crate) came: f64,
}

impl Datagrams<'_> {
    /// Sends while `work` runs; gives its result, and what flowed meanwhile.
    pub(crate) fn beside<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, Flowed)> {
        let receiver = self.to.enter(|| UdpSocket::bind(self.target).context("cannot receive the datagrams"))?;
        receiver.set_read_timeout(Some(LOOK))?;
        let any: SocketAddr = if self.target.is_ipv4() { "0.0.0.0:0".parse()? } else { "[::]:0".parse()? };
        let sender = self.from.enter(|| {
            let socket = UdpSocket::bind(any)?;
            socket.connect(self.target).context("cannot send the datagrams")?;
            Ok(socket)
        })?;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| {
                let mut buffer = [0; CONTENT];
                let mut count = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    count += u64::from(receiver.recv(&mut buffer).is_ok());
                }
                count
            });
            let sending = scope.spawn(|| self.send(&sender, &over));
            let begun = Instant::now();
            let value = work();
            let elapsed = begun.elapsed().as_secs_f64();
            over.store(true, Ordering::Relaxed);
            let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let came = receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let rate = |count: u64| count as f64 * (CONTENT + HEADERS) as f64 * 8.0 / elapsed;
            Ok((value?, Flowed { offered: rate(sent), came: rate(came) }))
        })
    }

    /// In step with the clock; what a busy machine made it miss, it sends later.
    fn send(&self, socket: &UdpSocket, over: &AtomicBool) -> u64 {
        let content = [0x5a; CONTENT];
        let begun = Instant::now();
        let mut sent = 0;
        while !over.load(Ordering::Relaxed) {
            let bits = begun.elapsed().as_secs_f64() * self.rate as f64;
            let due = (bits / ((CONTENT + HEADERS) as f64 * 8.0)) as u64;
            if sent >= due {
                std::thread::sleep(PAUSE);
                continue;
            }
            // A datagram that finds no room in the socket or on the way is one that was offered.
            let _ = socket.send(&content);
            sent += 1;
        }
        sent
    }
}
