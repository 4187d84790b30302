//! What a client of the proxy asks for: SOCKS5, or CONNECT of HTTP/1, on one port.
//!
//! What it is: bytes in; answers and at last one destination out. It knows neither sockets nor clocks. The first byte
//! tells the protocol: 5 is SOCKS5, 4 is SOCKS4, which is refused in its own words, and a letter begins a request of HTTP.
//! Where a login is asked for, nothing else is done before it was right.
//!
//! Sources: RFC 1928 (SOCKS5; methods "no authentication" and "username/password", command CONNECT); RFC 1929 (the latter);
//! RFC 9110, 9.3.6 and 11.7 and RFC 9112, 2 and 3 (HTTP); RFC 7617 ("Basic");
//! RFC 9209 (`Proxy-Status`, which says why it failed).
//!
//! Cost: O(1) for each byte. Invariants: no more than [`MOST`] bytes are kept; how bytes are cut into pieces changes nothing;
//! what follows a request is not touched, as it is for the far end.

#[cfg(test)]
mod tests;

use crate::config::Login;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::io::Errno;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// Longest request, in bytes: all headers of one of HTTP.
pub(super) const MOST: usize = 8192;
/// Longest request of SOCKS4 that is read before it is refused: longer ones are cut off.
const MOST_SOCKS4: usize = 1024;
/// Longest name of a host (RFC 1035, 2.3.4), and of one of its labels.
const NAME: (usize, usize) = (253, 63);

/// Whom a client wants to reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Ip(IpAddr),
    Name(String),
}

impl Host {
    /// What is written as a name may be an address.
    fn of(text: &str) -> Option<Host> {
        if let Ok(address) = text.parse() {
            return Some(Host::Ip(address));
        }
        let labels = text.strip_suffix('.').unwrap_or(text);
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let label = |label: &str| (1..=NAME.1).contains(&label.len()) && label.bytes().all(letter);
        // What ends in a number is meant as an address, and none that could be read (WHATWG URL, "ends in a number").
        let number = labels.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
        (labels.len() <= NAME.0 && labels.split('.').all(label) && !number).then(|| Host::Name(text.to_owned()))
    }
}

/// As in the authority of a URI.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Host::Ip(IpAddr::V4(address)) => write!(f, "{address}"),
            Host::Name(name) => f.write_str(name),
        }
    }
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// All bytes were taken, and more are needed.
    More,
    /// These bytes are the answer so far. The first `consumed` of those given were taken; the others are to be given again.
    Answer { bytes: Vec<u8>, consumed: usize },
    /// The client wants a connection. Of the bytes given those behind the first `consumed` are for the far end. What becomes
    /// of it is told by [`Request::success`] or [`Request::failure`].
    Connect { host: Host, port: u16, consumed: usize },
    /// These bytes are the last answer, and perhaps none.
    Close(Vec<u8>),
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The gateway cannot: it has no memory or no descriptors.
    General,
    /// The gateway may not: the address is none of another host's, or a firewall says so.
    Forbidden,
    /// There is no address of that name.
    NoName,
    NetworkUnreachable,
    HostUnreachable,
    Refused,
    TimedOut,
}

impl Failure {
    #[cfg(test)]
    const ALL: [Failure; 7] = [
        Failure::General,
        Failure::Forbidden,
        Failure::NoName,
        Failure::NetworkUnreachable,
        Failure::HostUnreachable,
        Failure::Refused,
        Failure::TimedOut,
    ];

    /// What the kernel says of a socket that was to connect.
    pub(super) fn of(errno: Errno) -> Failure {
        match errno {
            Errno::CONNREFUSED | Errno::CONNRESET => Failure::Refused,
            Errno::NETUNREACH | Errno::NETDOWN => Failure::NetworkUnreachable,
            Errno::HOSTUNREACH | Errno::HOSTDOWN => Failure::HostUnreachable,
            Errno::TIMEDOUT => Failure::TimedOut,
            Errno::ACCESS | Errno::PERM => Failure::Forbidden,
            _ => Failure::General,
        }
    }

    /// The reply of SOCKS5 (RFC 1928, 6).
    fn reply(self) -> u8 {
        match self {
            Failure::General => reply::GENERAL,
            Failure::Forbidden => 0x02,
            Failure::NetworkUnreachable => 0x03,
            Failure::NoName | Failure::HostUnreachable => 0x04,
            Failure::Refused => 0x05,
            Failure::TimedOut => 0x06,
        }
    }

    /// The status of HTTP, and the error of RFC 9209, 2.3.
    fn status(self) -> (&'static str, &'static str) {
        match self {
            Failure::General => ("503 Service Unavailable", "connection_limit_reached"),
            Failure::Forbidden => ("403 Forbidden", "destination_ip_prohibited"),
            Failure::NoName => ("502 Bad Gateway", "dns_error"),
            Failure::NetworkUnreachable => ("502 Bad Gateway", "destination_ip_unroutable"),
            Failure::HostUnreachable => ("502 Bad Gateway", "destination_unavailable"),
            Failure::Refused => ("502 Bad Gateway", "connection_refused"),
            Failure::TimedOut => ("504 Gateway Timeout", "connection_timeout"),
        }
    }
}

/// Methods of SOCKS5.
mod method {
    pub(super) const NONE: u8 = 0;
    pub(super) const LOGIN: u8 = 2;
}

/// Replies of SOCKS5 that are no failure of a connection.
mod reply {
    pub(super) const SUCCEEDED: u8 = 0x00;
    pub(super) const GENERAL: u8 = 0x01;
    pub(super) const COMMAND: u8 = 0x07;
    pub(super) const ADDRESS_TYPE: u8 = 0x08;
}

/// What is read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first byte.
    First,
    Socks4,
    Socks5Methods,
    Socks5Login,
    Socks5Request,
    HttpHead,
    /// Nothing any more.
    Over,
}

/// A message is complete.
enum Done {
    Answer(Vec<u8>),
    Connect(Host, u16),
    Close(Vec<u8>),
}

/// One client.
#[derive(Clone, Debug)]
pub(super) struct Request {
    phase: Phase,
    is_http: bool,
    /// Of the message that is read now.
    taken: Vec<u8>,
    /// Empty lines before a request of HTTP.
    skipped: usize,
    /// What the client has to know.
    login: Option<Arc<Login>>,
    is_denied: bool,
}

impl Request {
    /// Of a client who has to know `login`, if that is given.
    pub(super) fn new(login: Option<Arc<Login>>) -> Request {
        Request { phase: Phase::First, is_http: false, taken: Vec::new(), skipped: 0, login, is_denied: false }
    }

    /// Whether it was ended for a login that was wrong, or missing.
    pub(super) fn is_denied(&self) -> bool {
        self.is_denied
    }

    /// The next bytes of the client; any number.
    pub(super) fn handle(&mut self, bytes: &[u8]) -> Step {
        if self.phase == Phase::Over {
            return Step::Close(Vec::new());
        }
        for (byte, consumed) in bytes.iter().zip(1..) {
            let Some(done) = self.take(*byte) else { continue };
            // It may hold a password.
            self.taken.zeroize();
            self.taken = Vec::new();
            return match done {
                Done::Answer(bytes) => Step::Answer { bytes, consumed },
                Done::Connect(host, port) => {
                    self.phase = Phase::Over;
                    Step::Connect { host, port, consumed }
                }
                Done::Close(bytes) => {
                    self.phase = Phase::Over;
                    Step::Close(bytes)
                }
            };
        }
        Step::More
    }

    fn take(&mut self, byte: u8) -> Option<Done> {
        if self.phase == Phase::First {
            self.phase = match byte {
                4 => Phase::Socks4,
                5 => Phase::Socks5Methods,
                b'\r' | b'\n' => Phase::HttpHead,
                byte if is_token(&[byte]) => Phase::HttpHead,
                // Such as TLS, to which there is nothing to say.
                _ => return Some(Done::Close(Vec::new())),
            };
            self.is_http = self.phase == Phase::HttpHead;
        }
        self.taken.push(byte);
        match self.phase {
            Phase::Socks4 => socks4(&self.taken),
            Phase::Socks5Methods => {
                let method = if self.login.is_some() { method::LOGIN } else { method::NONE };
                let done = socks5_methods(&self.taken, method);
                if done.is_some() {
                    self.phase = if self.login.is_some() { Phase::Socks5Login } else { Phase::Socks5Request };
                    self.is_denied = self.login.is_some() && matches!(done, Some(Done::Close(_)));
                }
                done
            }
            Phase::Socks5Login => {
                let is_right = socks5_login(&self.taken, self.login.as_deref())?;
                self.phase = Phase::Socks5Request;
                self.is_denied = !is_right;
                Some(if is_right { Done::Answer(vec![1, 0]) } else { Done::Close(vec![1, 1]) })
            }
            Phase::Socks5Request => socks5_request(&self.taken),
            Phase::HttpHead => self.http(),
            Phase::First | Phase::Over => None,
        }
    }

    fn http(&mut self) -> Option<Done> {
        if matches!(self.taken.as_slice(), b"\n" | b"\r\n") {
            // Empty lines before the request line are ignored (RFC 9112, 2.2).
            self.skipped += self.taken.len();
            self.taken.clear();
        }
        if self.taken.ends_with(b"\n\r\n") || self.taken.ends_with(b"\n\n") {
            return Some(match http_target(&self.taken) {
                Ok(_) if self.login.as_ref().is_some_and(|login| !http_login(&self.taken, login)) => {
                    self.is_denied = true;
                    let challenge = "Proxy-Authenticate: Basic realm=\"fairspan\", charset=\"UTF-8\"\r\n";
                    Done::Close(http_answer("407 Proxy Authentication Required", challenge))
                }
                Ok((host, port)) => Done::Connect(host, port),
                Err((status, more)) => Done::Close(http_answer(status, more)),
            });
        }
        let is_full = self.taken.len() + self.skipped >= MOST;
        is_full.then(|| Done::Close(http_answer("431 Request Header Fields Too Large", "")))
    }

    /// What the client speaks, as status tells it.
    pub(super) fn protocol(&self) -> &'static str {
        if self.is_http { "http" } else { "socks5" }
    }

    /// There is a connection, from `bound`.
    pub(super) fn success(&self, bound: SocketAddr) -> Vec<u8> {
        if self.is_http {
            return b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec();
        }
        socks5_reply(reply::SUCCEEDED, bound)
    }

    /// There is none.
    pub(super) fn failure(&self, why: Failure) -> Vec<u8> {
        if !self.is_http {
            return socks5_failure(why.reply());
        }
        let (status, error) = why.status();
        http_answer(status, &format!("Proxy-Status: fairspan; error={error}\r\n"))
    }
}

/// `VER REP RSV ATYP BND.ADDR BND.PORT`
fn socks5_reply(reply: u8, bound: SocketAddr) -> Vec<u8> {
    let mut bytes = vec![5, reply, 0];
    match bound.ip() {
        IpAddr::V4(address) => {
            bytes.push(1);
            bytes.extend(address.octets());
        }
        IpAddr::V6(address) => {
            bytes.push(4);
            bytes.extend(address.octets());
        }
    }
    bytes.extend(bound.port().to_be_bytes());
    bytes
}

fn socks5_failure(reply: u8) -> Vec<u8> {
    socks5_reply(reply, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
}

/// `VER NMETHODS METHODS`: one has to be there, and 0xff is "none of these".
fn socks5_methods(taken: &[u8], wanted: u8) -> Option<Done> {
    let (_, methods) = taken.split_at_checked(2)?;
    if methods.len() < taken[1].into() {
        return None;
    }
    Some(if methods.contains(&wanted) { Done::Answer(vec![5, wanted]) } else { Done::Close(vec![5, 0xff]) })
}

/// `VER ULEN UNAME PLEN PASSWD`, of version 1 (RFC 1929, 2): whether it is right, once it is all there.
fn socks5_login(taken: &[u8], login: Option<&Login>) -> Option<bool> {
    let &[version, len, ref rest @ ..] = taken else { return None };
    let (name, rest) = rest.split_at_checked(len.into())?;
    let (&len, password) = rest.split_first()?;
    if password.len() < len.into() {
        return None;
    }
    Some(version == 1 && login.is_none_or(|login| login.admits(name, password)))
}

/// Whether the head of a request of HTTP has one field `Proxy-Authorization` (RFC 9110, 11.7.2), and that is right.
fn http_login(head: &[u8], login: &Login) -> bool {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    let mut fields = lines.filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at(colon);
        name.eq_ignore_ascii_case(b"Proxy-Authorization").then(|| value[1..].trim_ascii())
    });
    let (Some(field), None) = (fields.next(), fields.next()) else { return false };
    let Some((scheme, rest)) = field.split_at_checked(5) else { return false };
    if !scheme.eq_ignore_ascii_case(b"Basic") || !rest.starts_with(b" ") {
        return false;
    }
    let Ok(decoded) = STANDARD.decode(rest.trim_ascii()).map(Zeroizing::new) else { return false };
    let Some(colon) = decoded.iter().position(|byte| *byte == b':') else { return false };
    login.admits(&decoded[..colon], &decoded[colon + 1..])
}

/// `VER CMD RSV ATYP DST.ADDR DST.PORT`; an `ATYP` of 3 is a name behind its length.
fn socks5_request(taken: &[u8]) -> Option<Done> {
    let refused = |reply: u8| Some(Done::Close(socks5_failure(reply)));
    let &[version, command, _, kind, ref rest @ ..] = taken else { return None };
    let len = match (version, kind) {
        (5, 1) => 4,
        (5, 3) => 1 + usize::from(*rest.first()?),
        (5, 4) => 16,
        (5, _) => return refused(reply::ADDRESS_TYPE),
        _ => return refused(reply::GENERAL),
    };
    let (address, port) = rest.split_at_checked(len)?;
    let port = u16::from_be_bytes(port.try_into().ok()?);
    if command != 1 {
        return refused(reply::COMMAND);
    }
    let host = match (<[u8; 4]>::try_from(address), <[u8; 16]>::try_from(address)) {
        (Ok(octets), _) if kind == 1 => Some(Host::Ip(Ipv4Addr::from(octets).into())),
        (_, Ok(octets)) if kind == 4 => Some(Host::Ip(Ipv6Addr::from(octets).into())),
        _ => std::str::from_utf8(&address[1..]).ok().and_then(Host::of),
    };
    match host.filter(|_| port != 0) {
        Some(host) => Some(Done::Connect(host, port)),
        None => refused(reply::GENERAL),
    }
}

/// `VN CD DSTPORT DSTIP USERID NULL`, and with an address 0.0.0.x a name and another NULL. It is refused when all of it is there,
/// so that nothing unread makes a reset of the answer.
fn socks4(taken: &[u8]) -> Option<Done> {
    let &[_, _, _, _, a, b, c, d, ref texts @ ..] = taken else { return None };
    let named = [a, b, c] == [0; 3] && d != 0;
    let ends = texts.iter().filter(|byte| **byte == 0).count();
    let complete = ends > usize::from(named) || taken.len() >= MOST_SOCKS4;
    complete.then(|| Done::Close(vec![0, 91, 0, 0, 0, 0, 0, 0]))
}

/// What is wrong with a request of HTTP: the status, and further lines of the answer.
type Wrong = (&'static str, &'static str);

const MALFORMED: Wrong = ("400 Bad Request", "");

/// Whom a request of HTTP is for, from all of its head.
fn http_target(head: &[u8]) -> Result<(Host, u16), Wrong> {
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = lines.next().unwrap_or_default();
    if lines.chain([first]).any(|line| line.iter().any(|byte| matches!(byte, b'\r' | 0))) {
        return Err(MALFORMED);
    }
    let mut words = first.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(MALFORMED);
    };
    match version {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0'..=b'9'] => {}
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
            return Err(("505 HTTP Version Not Supported", ""));
        }
        _ => return Err(MALFORMED),
    }
    if !is_token(method) || target.is_empty() {
        return Err(MALFORMED);
    }
    if method != b"CONNECT" {
        return Err(("405 Method Not Allowed", "Allow: CONNECT\r\n"));
    }
    std::str::from_utf8(target).ok().and_then(authority).ok_or(MALFORMED)
}

/// `uri-host ":" port`, with an address of IPv6 in brackets.
fn authority(text: &str) -> Option<(Host, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let digits = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|port| digits && *port != 0)?;
    let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => Host::Ip(address.parse::<Ipv6Addr>().ok()?.into()),
        None => Host::of(host).filter(|host| !matches!(host, Host::Ip(IpAddr::V6(_))))?,
    };
    Some((host, port))
}

/// Whether bytes are a token of HTTP (RFC 9110, 5.6.2).
fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

fn http_answer(status: &str, more: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{more}Content-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
}
