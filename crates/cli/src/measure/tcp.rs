//! One real bulk TCP connection between two namespaces.
//!
//! Goodput is what the receiving application read, in bytes, over the time it took; the warm-up does not count. The
//! congestion control is set per socket, because a machine's default may be BBR, which changes every figure.

use crate::testbed::{Interrupt, Namespace};
use anyhow::{Context, Result, anyhow, bail};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes per read and per write call.
const CHUNK: usize = 256 * 1024;
/// How long a blocked call may take to notice that the transfer is over.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long to wait for the connection.
const CONNECT: Duration = Duration::from_secs(20);
/// No byte for so long during the transfer is a failure and not a slow link.
const STALLED: Duration = Duration::from_secs(20);
/// `IPPROTO_MPTCP` (linux/in.h).
const MPTCP: i32 = 262;

/// Which protocol carries the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Plain TCP.
    Tcp,
    /// The kernel's Multipath TCP (RFC 8684).
    Mptcp,
}

/// A transfer to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer<'a> {
    /// Where the sender stands.
    pub(crate) from: &'a Namespace,
    /// Where the receiver stands.
    pub(crate) to: &'a Namespace,
    /// The sender's address, if the routes do not choose the right one.
    pub(crate) source: Option<IpAddr>,
    /// The receiver's address and port.
    pub(crate) target: SocketAddr,
    /// TCP or MPTCP.
    pub(crate) transport: Transport,
    /// The sender's congestion control, as the kernel calls it.
    pub(crate) congestion: &'static str,
    /// Time that does not count, from the connection on.
    pub(crate) warm_up: Duration,
    /// Time that counts.
    pub(crate) duration: Duration,
    /// A number of bytes whose arrival is timed. For it the transfer goes on behind the time that counts, as long again as
    /// all before.
    pub(crate) download: Option<u64>,
}

/// What a transfer reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Goodput {
    /// Bytes that the receiving application read while it counted.
    pub(crate) bytes: u64,
    /// For how long it counted.
    pub(crate) elapsed: Duration,
    /// Bytes read over the whole connection, warm-up included.
    pub(crate) total: u64,
    /// From the first SYN until [`Transfer::download`] bytes were read, if they were.
    pub(crate) downloaded: Option<Duration>,
}

impl Goodput {
    /// In Mbit/s (10^6 bits a second).
    pub(crate) fn mbit(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.elapsed.as_secs_f64() / 1e6
    }
}

/// Where a running transfer stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Since the connection was made.
    pub(crate) elapsed: Duration,
    /// Goodput over about the last quarter second.
    pub(crate) mbit: f64,
}

/// Whether this kernel can make MPTCP sockets in `namespace`.
pub(crate) fn has_mptcp(namespace: &Namespace) -> bool {
    namespace
        .enter(|| Ok(Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::from(MPTCP))).is_ok()))
        .unwrap_or(false)
}

impl Transfer<'_> {
    /// Makes the transfer; `on_progress` is called about four times a second.
    pub(crate) fn run(&self, interrupt: &Interrupt, mut on_progress: impl FnMut(Progress)) -> Result<Goodput> {
        let (sender, receiver, began, _listener) = self.connect()?;
        let counter = Counter::default();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| receive(receiver, &counter, self.download, began, &over));
            let sending = scope.spawn(|| send(sender, &over));
            let measured = self.watch(interrupt, &counter, &over, &mut on_progress);
            over.store(true, Ordering::Relaxed);
            let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let received = receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // The cause at either end says more than what the watcher saw of it.
            match measured {
                Err(error) if !error.is::<crate::testbed::Interrupted>() => {
                    received.and(sent)?;
                    Err(error)
                }
                other => other,
            }
        })
    }

    /// The sender's socket and the receiver's, when the first SYN went, and the socket that listens.
    fn connect(&self) -> Result<(Socket, Socket, Instant, Socket)> {
        let listener = self.to.enter(|| self.listener()).context("cannot listen for the test transfer")?;
        let sender = self.from.enter(|| self.socket()).context("cannot make the test transfer's socket")?;
        let began = Instant::now();
        sender
            .connect_timeout(&self.target.into(), CONNECT)
            .with_context(|| format!("no TCP connection to {} from namespace {}", self.target, self.from.name()))?;
        let (receiver, _) = listener.accept().context("the test transfer's connection was not accepted")?;
        for socket in [&sender, &receiver] {
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.set_write_timeout(Some(PATIENCE))?;
            // What is still under way at the end is thrown away; it would disturb the next measurement.
            socket.set_linger(Some(Duration::ZERO))?;
        }
        Ok((sender, receiver, began, listener))
    }

    /// Sends until `over`, whatever becomes of it, and tells what the receiving application read, and when. Times that count and do not
    /// are not looked at.
    pub(crate) fn record(&self, over: &AtomicBool) -> Result<Vec<Read>> {
        let (sender, mut receiver, _, _listener) = self.connect()?;
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| send(sender, &ended));
            let (mut reads, mut buffer) = (Vec::new(), vec![0; CHUNK]);
            while !over.load(Ordering::Relaxed) {
                match receiver.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(bytes) => reads.push(Read { at: Instant::now(), bytes }),
                    Err(error) if waits(&error) => {}
                    // The connection broke: no more comes.
                    Err(_) => break,
                }
            }
            ended.store(true, Ordering::Relaxed);
            // What the sender met is seen at the receiver too.
            let _ = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok(reads)
        })
    }

    /// Looks at the byte counter until the time is over.
    fn watch(
        &self,
        interrupt: &Interrupt,
        counter: &Counter,
        over: &AtomicBool,
        on_progress: &mut impl FnMut(Progress),
    ) -> Result<Goodput> {
        let start = Instant::now();
        let mut counting: Option<(Instant, u64)> = None;
        let mut counted: Option<(u64, Duration)> = None;
        let mut recent = (start, 0);
        let mut alive = (start, 0);
        loop {
            let now = Instant::now();
            let bytes = counter.total.load(Ordering::Relaxed);
            if bytes != alive.1 {
                alive = (now, bytes);
            }
            if now - alive.0 > STALLED {
                bail!("the test transfer to {} stalled after {bytes} bytes", self.target);
            }
            if over.load(Ordering::Relaxed) {
                return Err(anyhow!("the test transfer to {} ended early, after {bytes} bytes", self.target));
            }
            match counting {
                None if now - start >= self.warm_up => {
                    counting = Some((now, bytes));
                }
                Some((since, before)) if now - since >= self.duration && counted.is_none() => {
                    counted = Some((bytes - before, now - since));
                }
                _ => {}
            }
            if let Some((counted, elapsed)) = counted {
                let downloaded = counter.downloaded.get().copied();
                let patience = 2 * (self.warm_up + self.duration);
                if self.download.is_none() || downloaded.is_some() || now - start >= patience {
                    return Ok(Goodput { bytes: counted, elapsed, total: bytes, downloaded });
                }
            }
            if now - recent.0 >= Duration::from_millis(250) {
                let mbit = (bytes - recent.1) as f64 * 8.0 / (now - recent.0).as_secs_f64() / 1e6;
                on_progress(Progress { elapsed: now - start, mbit });
                recent = (now, bytes);
            }
            let due = match counting {
                None => start + self.warm_up,
                Some((since, _)) if counted.is_none() => since + self.duration,
                Some(_) => now + PATIENCE,
            };
            interrupt.sleep(due.saturating_duration_since(Instant::now()).min(Duration::from_millis(100)))?;
        }
    }

    fn socket(&self) -> Result<Socket> {
        let protocol = match self.transport {
            Transport::Tcp => Protocol::TCP,
            Transport::Mptcp => Protocol::from(MPTCP),
        };
        let socket = Socket::new(Domain::for_address(self.target), Type::STREAM, Some(protocol))?;
        socket
            .set_tcp_congestion(self.congestion.as_bytes())
            .with_context(|| format!("this kernel refuses the congestion control {}", self.congestion))?;
        if let Some(source) = self.source {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        Ok(socket)
    }

    fn listener(&self) -> Result<Socket> {
        let protocol = match self.transport {
            Transport::Tcp => Protocol::TCP,
            Transport::Mptcp => Protocol::from(MPTCP),
        };
        let socket = Socket::new(Domain::for_address(self.target), Type::STREAM, Some(protocol))?;
        socket.set_reuse_address(true)?;
        // On all addresses, and for as long as the transfer takes: MPTCP's further subflows come to other addresses.
        let any: IpAddr = match self.target {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let port = self.target.port();
        socket.bind(&SocketAddr::new(any, port).into()).with_context(|| format!("cannot listen on port {port}"))?;
        socket.listen(1)?;
        socket.set_read_timeout(Some(CONNECT))?;
        Ok(socket)
    }
}

/// What the receiving application got by one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) at: Instant,
    pub(crate) bytes: usize,
}

/// What the receiver has read.
#[derive(Debug, Default)]
struct Counter {
    total: AtomicU64,
    downloaded: OnceLock<Duration>,
}

/// Reads until the transfer is over.
fn receive(
    mut socket: Socket,
    counter: &Counter,
    download: Option<u64>,
    began: Instant,
    over: &AtomicBool,
) -> Result<()> {
    let mut buffer = vec![0; CHUNK];
    while !over.load(Ordering::Relaxed) {
        match socket.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                let total = counter.total.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
                if download.is_some_and(|bytes| total >= bytes) {
                    // The first time counts.
                    let _ = counter.downloaded.set(began.elapsed());
                }
            }
            Err(error) if waits(&error) => {}
            Err(_) if over.load(Ordering::Relaxed) => break,
            Err(error) => {
                over.store(true, Ordering::Relaxed);
                return Err(error).context("the receiver of the test transfer failed");
            }
        }
    }
    over.store(true, Ordering::Relaxed);
    Ok(())
}

/// Writes until the transfer is over. The bytes do not compress, so a tunnel that tries gains nothing.
fn send(mut socket: Socket, over: &AtomicBool) -> Result<()> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let buffer: Vec<u8> = (0..CHUNK)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect();
    while !over.load(Ordering::Relaxed) {
        match socket.write(&buffer) {
            Ok(_) => {}
            Err(error) if waits(&error) => {}
            Err(_) if over.load(Ordering::Relaxed) => break,
            Err(error) => {
                over.store(true, Ordering::Relaxed);
                return Err(error).context("the sender of the test transfer failed");
            }
        }
    }
    Ok(())
}

/// A timeout or a signal: try again.
fn waits(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
