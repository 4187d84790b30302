//! What a service manager is told: that the daemon is ready, is alive, and ends.
//!
//! Source: sd_notify(3), sd_watchdog_enabled(3), systemd.service(5): lines `NAME=VALUE`, one datagram a message, to the socket that `NOTIFY_SOCKET`
//! names. `WATCHDOG_USEC` says within which time the manager wants to hear that the daemon is alive; it is told twice as often. That is said
//! by the loop that moves packets, so a loop that stands still is noticed.
//!
//! The socket is connected before the process gives up what it may open. Nothing waits for the manager: what it has no room for is not told, and
//! is told again the next time. Without the variables nothing is done.

use fairspan_core::units::{Span, Time};
use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager, if there is one that wants to be told.
#[derive(Debug, Default)]
pub struct Manager {
    socket: Option<UnixDatagram>,
    /// How often it is told that the daemon is alive.
    every: Option<Span>,
    due: Time,
}

impl Manager {
    /// The one that the environment names.
    ///
    /// # Errors
    /// A socket that is named and cannot be reached.
    pub fn from_environment() -> io::Result<Manager> {
        let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(Manager::default());
        };
        let number = |name: &str| env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
        let is_ours = number("WATCHDOG_PID").is_none_or(|process| process == u64::from(std::process::id()));
        let watched = number("WATCHDOG_USEC").filter(|period| is_ours && *period > 0).map(Duration::from_micros);
        Manager::at(&name, watched)
    }

    fn at(name: &OsStr, watched: Option<Duration>) -> io::Result<Manager> {
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "neither a path nor an abstract name")),
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        socket.set_nonblocking(true)?;
        let every =
            watched.map(|period| Span::from_nanos((period.as_nanos() / 2).clamp(1, u128::from(u64::MAX)) as u64));
        Ok(Manager { socket: Some(socket), every, due: Time::ZERO })
    }

    /// The daemon does what it is for; `status` is for people.
    pub fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={}", status.replace('\n', " ")));
    }

    /// The daemon is about to end.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// When it is to be told next.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.every.map(|_| self.due)
    }

    /// Tells it that the daemon is alive, when that is due.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        let Some(every) = self.every.filter(|_| self.due <= now) else { return };
        self.due = now + every;
        self.tell("WATCHDOG=1");
    }

    fn tell(&self, message: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(message.as_bytes())
        {
            tracing::debug!(%error, message, "the service manager was not told");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> Option<String> {
        let mut bytes = [0; 200];
        let length = socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    #[test]
    fn it_hears_that_the_daemon_is_ready_alive_twice_a_period_and_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_nonblocking(true).expect("a socket");
        let mut manager = Manager::at(path.as_os_str(), Some(Duration::from_secs(4))).expect("a manager");
        manager.ready("fs0,\nMTU 1420");
        assert_eq!(heard(&socket).as_deref(), Some("READY=1\nSTATUS=fs0, MTU 1420"));
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let mut alive = Vec::new();
        for millis in (0..6000).step_by(500) {
            manager.handle_timeout(at(millis));
            alive.extend(heard(&socket).map(|message| (millis, message)));
        }
        let message = || "WATCHDOG=1".to_owned();
        assert_eq!(alive, [(0, message()), (2000, message()), (4000, message())]);
        assert_eq!(manager.poll_timeout(), Some(at(6000)));
        manager.stopping();
        assert_eq!(heard(&socket).as_deref(), Some("STOPPING=1"));
    }

    #[test]
    fn an_abstract_name_is_reached_and_what_is_neither_that_nor_a_path_is_refused() {
        let name = format!("fairspan-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let socket = UnixDatagram::bind_addr(&address).expect("a socket");
        let manager = Manager::at(OsStr::new(&format!("@{name}")), None).expect("a manager");
        manager.ready("x");
        assert_eq!(heard(&socket).as_deref(), Some("READY=1\nSTATUS=x"));
        assert_eq!(manager.poll_timeout(), None);
        assert!(Manager::at(OsStr::new("vsock:2:1"), None).is_err());
        assert!(Manager::at(OsStr::new("/nowhere/at/all"), None).is_err());
    }

    #[test]
    fn a_manager_that_reads_nothing_holds_nobody_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let _socket = UnixDatagram::bind(&path).expect("a socket");
        let manager = Manager::at(path.as_os_str(), None).expect("a manager");
        (0..100_000).for_each(|_| manager.stopping());
    }
}
