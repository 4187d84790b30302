//! A call: small packets of class EF at a steady pace, and when each arrives.
//!
//! Both ends are threads of this process, so that one clock tells the time under way.

use crate::testbed::{Interrupt, Namespace};
use anyhow::{Context, Result};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two packets: 50 a second, as telephony has it (RFC 3551, 20 ms of sound each).
pub(crate) const EVERY: Duration = Duration::from_millis(20);
/// Bytes of a packet beyond UDP's header: RTP's header and 160 bytes of sound.
const PAYLOAD: usize = 172;
/// EF (RFC 3246) as a type of service.
const EXPEDITED: u32 = 46 << 2;
/// How long the last packets may take.
const LAST: Duration = Duration::from_secs(2);
/// How often the receiver looks whether the call is over.
const LOOK: Duration = Duration::from_millis(100);

/// What became of a call's packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Call {
    /// How many were sent.
    pub(crate) sent: usize,
    /// How long each took that arrived, in milliseconds; the first copy counts.
    pub(crate) delays_ms: Vec<f64>,
}

impl Call {
    /// The packets that took at most `ms` milliseconds.
    pub(crate) fn within(&self, ms: f64) -> usize {
        self.delays_ms.iter().filter(|delay| **delay <= ms).count()
    }
}

/// A packet of a call that arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Packet {
    /// When it left, since the call began.
    pub(crate) left: Duration,
    /// How long its first copy took.
    pub(crate) took: Duration,
}

/// A call, packet by packet.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) start: Instant,
    /// What was sent, in order; `None` did not arrive.
    pub(crate) packets: Vec<Option<Packet>>,
}

/// The two ends of a call.
pub(crate) struct Line {
    sender: Socket,
    receiver: Socket,
}

impl Line {
    /// From `from` to `to`, which has `address` at `port`.
    pub(crate) fn new(from: &Namespace, to: &Namespace, address: Ipv4Addr, port: u16) -> Result<Line> {
        let socket = |namespace: &Namespace| namespace.enter(|| Ok(Socket::new(Domain::IPV4, Type::DGRAM, None)?));
        let target: SocketAddr = SocketAddrV4::new(address, port).into();
        let receiver = socket(to)?;
        receiver.bind(&target.into()).with_context(|| format!("cannot listen to {target}"))?;
        receiver.set_read_timeout(Some(LOOK))?;
        let sender = socket(from)?;
        sender.set_tos_v4(EXPEDITED)?;
        sender.connect(&target.into()).with_context(|| format!("cannot send to {target}"))?;
        Ok(Line { sender, receiver })
    }

    /// Packets until `over`, and what became of them.
    pub(crate) fn talk(&self, interrupt: &Interrupt, over: &AtomicBool) -> Result<Call> {
        let heard = self.record(interrupt, over)?;
        let delays_ms = heard.packets.iter().flatten().map(|packet| packet.took.as_secs_f64() * 1e3).collect();
        Ok(Call { sent: heard.packets.len(), delays_ms })
    }

    /// Packets until `over`, and when each left and arrived.
    pub(crate) fn record(&self, interrupt: &Interrupt, over: &AtomicBool) -> Result<Recording> {
        let start = Instant::now();
        let hung_up = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let listening = scope.spawn(|| self.listen(start, &hung_up));
            let mut sent = 0u64;
            let said = (|| {
                while !over.load(Ordering::Relaxed) {
                    let mut payload = [0; PAYLOAD];
                    payload[..8].copy_from_slice(&sent.to_be_bytes());
                    payload[8..16].copy_from_slice(&(start.elapsed().as_nanos() as u64).to_be_bytes());
                    // A refused packet counts as one that did not arrive.
                    let _ = self.sender.send(&payload);
                    sent += 1;
                    let next = start + EVERY * u32::try_from(sent).unwrap_or(u32::MAX);
                    interrupt.sleep(next.saturating_duration_since(Instant::now()))?;
                }
                interrupt.sleep(LAST)
            })();
            hung_up.store(true, Ordering::Relaxed);
            let heard = listening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            said?;
            let packets = (0..sent).map(|number| heard.get(number as usize).copied().flatten()).collect();
            Ok(Recording { start, packets })
        })
    }

    /// The first copy of each number.
    fn listen(&self, start: Instant, hung_up: &AtomicBool) -> Vec<Option<Packet>> {
        let mut heard = Vec::new();
        let mut buffer = [0; PAYLOAD];
        while !hung_up.load(Ordering::Relaxed) {
            match (&self.receiver).read(&mut buffer) {
                Ok(PAYLOAD) => {
                    let field = |at: usize| buffer[at..at + 8].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
                    let (number, at) = (field(0) as usize, Duration::from_nanos(field(8)));
                    if heard.len() <= number {
                        heard.resize(number + 1, None);
                    }
                    let took = start.elapsed().saturating_sub(at);
                    heard[number].get_or_insert(Packet { left: at, took });
                }
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {
                }
                Err(_) => break,
            }
        }
        heard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_arrive_is_not_in_time() {
        let call = Call { sent: 4, delays_ms: vec![10.0, 30.0, 30.1] };
        assert_eq!((call.within(30.0), call.within(9.9), call.sent), (2, 0, 4));
    }
}
