//! Clients that ask the gateway for a connection themselves, by SOCKS5 or HTTP CONNECT, until they have asked.
//!
//! A client has [`ASKS_WITHIN`] to ask, and there are as many at once as may be half open. What it sends behind its request, before
//! it has an answer, is for the far end.

use super::headers::traffic_class;
use super::request::{Host, Request, Step};
use super::socket::{Sockets, accept};
use crate::config::{Gateway, Login};
use crate::shell::poller::{Interest, Poller, Token, Turn};
use crate::sys::tcp::{Setting, saved_syn, set};
use fairspan_core::units::{Span, Time};
use rustix::io::Errno;
use socket2::Socket;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

/// How long a client may take to ask.
const ASKS_WITHIN: Span = Span::from_secs(30);
/// Bytes that are read at once.
const ROOM: usize = 4096;
/// Clients accepted before others get their turn.
const AT_ONCE: usize = 64;

/// Someone who asks.
#[derive(Debug)]
struct Client {
    socket: Socket,
    remote: SocketAddr,
    request: Request,
    since: Time,
}

/// A connection that somebody wants.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) socket: Socket,
    pub(super) remote: SocketAddr,
    /// To be answered by it.
    pub(super) request: Request,
    pub(super) host: Host,
    pub(super) port: u16,
    /// That of the client's SYN.
    pub(super) dscp: u8,
    /// What is for the far end already.
    pub(super) early: Vec<u8>,
}

/// Where clients ask.
#[derive(Debug)]
pub(super) struct Proxy {
    listener: Socket,
    token: Token,
    poller: Poller,
    clients: HashMap<Token, Client>,
    most: usize,
    /// What they have to know.
    login: Option<Arc<Login>>,
    pub(super) wanted: Vec<Wanted>,
    /// Clients who asked for nothing that there is, or were too many.
    pub(super) turned_away: u64,
    /// Clients without the right login.
    pub(super) denied: u64,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.clients.keys().chain([&self.token]).for_each(|token| self.poller.forget(*token));
    }
}

impl Proxy {
    /// Listens at an address.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn open(
        address: SocketAddr,
        sockets: &Sockets,
        settings: &Gateway,
        poller: &Poller,
    ) -> io::Result<Proxy> {
        let listener = sockets.listen(address, false, None)?;
        if let Err(error) = set(listener.as_fd(), Setting::SaveSyn, 1) {
            tracing::debug!(%error, "the DSCP of the proxy's clients is not known");
        }
        let token = poller.watch(listener.as_fd(), Turn::Others)?;
        Ok(Proxy {
            listener,
            token,
            poller: poller.clone(),
            clients: HashMap::new(),
            most: settings.half_open as usize,
            login: settings.proxy_login.clone().map(Arc::new),
            wanted: Vec::new(),
            turned_away: 0,
            denied: 0,
        })
    }

    /// Other settings, for those who come.
    pub(super) fn change(&mut self, settings: &Gateway) {
        self.most = settings.half_open as usize;
        self.login = settings.proxy_login.clone().map(Arc::new);
    }

    /// A socket is ready; whether it is one of these. An error is that no more can be accepted for now.
    ///
    /// # Errors
    /// `EMFILE` and its like.
    pub(super) fn on_readable(&mut self, now: Time, token: Token) -> Result<bool, Errno> {
        if token == self.token {
            self.accept(now)?;
            return Ok(true);
        }
        let Some(client) = self.clients.get_mut(&token) else { return Ok(false) };
        if let Some(done) = read(client) {
            let client = self.clients.remove(&token);
            if let Some(Client { socket, remote, request, .. }) = client {
                self.poller.unwatch(token, socket.as_fd());
                match done {
                    Some((host, port, early)) => {
                        let dscp = saved_syn(socket.as_fd()).map_or(0, |syn| traffic_class(&syn) >> 2);
                        self.wanted.push(Wanted { socket, remote, request, host, port, dscp, early });
                    }
                    None if request.is_denied() => self.denied += 1,
                    None => self.turned_away += 1,
                }
            }
        }
        Ok(true)
    }

    fn accept(&mut self, now: Time) -> Result<(), Errno> {
        for _ in 0..AT_ONCE {
            match accept(&self.listener) {
                Ok(Some((socket, way))) => {
                    if self.clients.len() >= self.most {
                        self.turned_away += 1;
                        continue;
                    }
                    let Ok(token) = self.poller.watch(socket.as_fd(), Turn::Others) else { continue };
                    let client =
                        Client { socket, remote: way.source, request: Request::new(self.login.clone()), since: now };
                    self.clients.insert(token, client);
                }
                Ok(None) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Accepts nobody for now, or again.
    pub(super) fn pause(&self, paused: bool) {
        let interest = if paused { Interest::Nothing } else { Interest::Read };
        let _ = self.poller.set_interest(self.token, self.listener.as_fd(), interest);
    }

    /// Ends those who have not asked in time.
    pub(super) fn look(&mut self, now: Time) {
        let (poller, turned_away) = (&self.poller, &mut self.turned_away);
        self.clients.retain(|token, client| {
            let is_late = now.since(client.since) > ASKS_WITHIN;
            if is_late {
                poller.unwatch(*token, client.socket.as_fd());
                *turned_away += 1;
            }
            !is_late
        });
    }
}

/// What a client wants, and what it sent behind.
type Target = (Host, u16, Vec<u8>);

/// Reads what has come; `None`: more is needed, and within that: the client is done with.
fn read(client: &mut Client) -> Option<Option<Target>> {
    let mut buffer = [0; ROOM];
    let length = match client.socket.read(&mut buffer) {
        Ok(0) => return Some(None),
        Ok(length) => length,
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => return None,
        Err(_) => return Some(None),
    };
    let mut from = 0;
    while from < length {
        match client.request.handle(&buffer[from..length]) {
            Step::More => return None,
            Step::Answer { bytes, consumed } => {
                from += consumed;
                if !say(&client.socket, &bytes) {
                    return Some(None);
                }
            }
            Step::Connect { host, port, consumed } => {
                return Some(Some((host, port, buffer[from + consumed..length].to_vec())));
            }
            Step::Close(bytes) => {
                say(&client.socket, &bytes);
                // What is unread would turn the end into a reset, which could overtake the answer.
                let _ = client.socket.shutdown(std::net::Shutdown::Write);
                (0..16).any(|_| !client.socket.read(&mut buffer).is_ok_and(|more| more > 0));
                return Some(None);
            }
        }
    }
    None
}

/// Whether all of a short answer was taken; a socket that was never written to takes it.
pub(super) fn say(mut socket: &Socket, bytes: &[u8]) -> bool {
    socket.write_all(bytes).is_ok()
}
