//! A channel's own connection: when it is made, and made again.
//!
//! When a connection ends, or cannot be made, it is tried again: at once, then after [`FIRST_WAIT`], and then after twice as long each
//! time, up to [`LONGEST_WAIT`]. One that brought something authentic for [`LASTING`] makes all of that forgotten. The daemon looks once
//! a second.

use crate::channel::tcp::{TcpStats, prepare};
use crate::config::{Channel, ChannelKind};
use crate::shell::poller::{Interest, Poller, Token, Turn};
use crate::system::system;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

/// How long a connection may take to be made.
const CALL_WITHIN: Duration = Duration::from_secs(10);
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long a connection must have been of use. Some networks let the first exchange pass, and then end what they do not know.
const LASTING: Duration = Duration::from_secs(10);

/// A connection that is being made.
#[derive(Debug)]
struct Call {
    socket: Socket,
    token: Token,
    since: Duration,
}

/// A channel that connects.
#[derive(Debug)]
pub(super) struct Caller {
    to: SocketAddr,
    source: Option<IpAddr>,
    device: Option<String>,
    /// The device that the last connection was bound to.
    index: Option<u32>,
    mark: u32,
    call: Option<Call>,
    /// No connection is wanted.
    resting: bool,
    /// Not before then, and how long after the next that fails.
    next: Duration,
    wait: Duration,
}

impl Caller {
    pub(super) fn new(channel: &Channel, to: SocketAddr, mark: u32) -> Caller {
        let source = match &channel.kind {
            ChannelKind::Tcp { source, .. } | ChannelKind::Udp { source, .. } => *source,
            ChannelKind::Ethernet { .. } => None,
        };
        let (device, next, wait) = (channel.device.clone(), Duration::ZERO, Duration::ZERO);
        Caller { to, source, device, index: None, mark, call: None, resting: false, next, wait }
    }

    pub(super) fn to(&self) -> SocketAddr {
        self.to
    }

    pub(super) fn set_resting(&mut self, resting: bool, poller: &Poller) {
        self.resting = resting;
        if let Some(call) = self.call.take_if(|_| resting) {
            poller.forget(call.token);
        }
    }

    /// Whether the device of a connection is another one of its name now, or gone.
    pub(super) fn has_lost_device(&self, socket: &Socket) -> bool {
        let device = self.device.as_deref();
        device.is_some_and(|device| system().interface_index(socket, device).ok() != self.index)
    }

    pub(super) fn token(&self) -> Option<Token> {
        self.call.as_ref().map(|call| call.token)
    }

    /// Goes on with a call, or begins one where it is time; gives the connection once it is there.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub(super) fn look(&mut self, poller: &Poller, stats: &mut TcpStats) -> Result<Option<(Socket, Token)>, String> {
        let now = system().monotonic();
        if let Some(call) = self.call.take() {
            match outcome(&call.socket) {
                Ok(true) => {
                    // What comes next is read.
                    let read = poller.set_interest(call.token, call.socket.as_fd(), Interest::Read);
                    read.map_err(|error| format!("cannot be waited for: {error}"))?;
                    return Ok(Some((call.socket, call.token)));
                }
                Ok(false) if now < call.since + CALL_WITHIN => {
                    self.call = Some(call);
                    return Ok(None);
                }
                failed => {
                    poller.forget(call.token);
                    let why = failed.err().map_or_else(|| "it does not answer".to_owned(), |error| error.to_string());
                    return Err(self.put_off(now, stats, why));
                }
            }
        }
        if self.resting || now < self.next {
            return Ok(None);
        }
        match self.begin(poller, now) {
            Ok(call) => {
                self.call = Some(call);
                Ok(None)
            }
            Err(error) => Err(self.put_off(now, stats, error)),
        }
    }

    fn begin(&mut self, poller: &Poller, now: Duration) -> Result<Call, String> {
        let socket = self.connect().map_err(|error| error.to_string())?;
        let token = poller.watch(socket.as_fd(), Turn::Links).map_err(|error| error.to_string())?;
        // That there is room tells that it is connected.
        if let Err(error) = poller.set_interest(token, socket.as_fd(), Interest::ReadAndWrite) {
            poller.forget(token);
            return Err(error.to_string());
        }
        Ok(Call { socket, token, since: now })
    }

    fn connect(&mut self) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(self.to), Type::STREAM, Some(Protocol::TCP))?;
        prepare(&socket)?;
        if let Some(device) = &self.device {
            socket.bind_device(Some(device.as_bytes()))?;
            self.index = Some(system().interface_index(&socket, device)?);
        }
        socket.set_mark(self.mark)?;
        if let Some(source) = self.source {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        match socket.connect(&self.to.into()) {
            Err(error) if Errno::from_io_error(&error) != Some(Errno::INPROGRESS) => Err(error),
            _ => Ok(socket),
        }
    }

    fn put_off(&mut self, now: Duration, stats: &mut TcpStats, why: String) -> String {
        stats.unconnected += 1;
        self.back_off(now);
        why
    }

    fn back_off(&mut self, now: Duration) {
        self.next = now + self.wait;
        self.wait = (2 * self.wait).clamp(FIRST_WAIT, LONGEST_WAIT);
    }

    /// The connection has ended, which was of use for so long.
    pub(super) fn on_ended(&mut self, now: Duration, of_use: Duration) {
        if of_use >= LASTING {
            self.wait = Duration::ZERO;
        }
        self.back_off(now);
    }
}

/// Whether a call has come through.
fn outcome(socket: &Socket) -> io::Result<bool> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    match socket.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTCONN) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::path::Path;

    #[test]
    fn connections_that_end_soon_are_made_ever_more_seldom_until_one_has_lasted() {
        let text = "[interface]\nname = \"fs0\"\nprivate_key = \"iBf4eo2YOYTzWzCYUvBYEk4nXLMZgMbDUBzNGBL0LlE=\"\n[[peer]]\n\
                    public_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n[[peer.channel]]\nkind = \"tcp\"\n\
                    endpoint = \"192.0.2.1:443\"\n";
        let config = Config::parse(Path::new("test.toml"), text).expect("a configuration");
        let to = "192.0.2.1:443".parse().expect("an address");
        let mut caller = Caller::new(&config.peers[0].channels[0], to, 0);
        let mut now = Duration::from_secs(1000);
        // Each ends a second after it was made, which is as soon as it may be.
        let mut ended = |caller: &mut Caller, of_use: Duration| {
            now += of_use;
            caller.on_ended(now, of_use);
            let wait = caller.next.saturating_sub(now);
            now += wait;
            wait.as_secs()
        };
        let short = LASTING - Duration::from_millis(1);
        let waits: Vec<u64> = (0..8).map(|_| ended(&mut caller, short)).collect();
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 30, 30]);
        let waits: Vec<u64> = (0..3).map(|_| ended(&mut caller, LASTING)).collect();
        assert_eq!(waits, [0, 0, 0]);
        assert_eq!((ended(&mut caller, short), ended(&mut caller, short)), (1, 2));
    }
}
