//! Who may see the page, and who may change something.
//!
//! Three things are looked at, each for a way in which somebody else's page in the same browser could ask:
//!
//! - **`Host`** has to be an address, `localhost`, or a name of `interface.web_hosts`. Another name was made to lead here by its
//!   owner (DNS rebinding), whose page would otherwise be of the same origin as ours.
//! - **`Origin` and `Sec-Fetch-Site`** have to say, where they are there, that our own page asks. A link that leads here from
//!   elsewhere may be followed, and nothing more.
//! - **The password**, where there is one: in `Authorization: Bearer`, or once in the form of the login, which begins a session
//!   ([`logins`](super::logins)) whose cookie is random. Wrong ones are counted by address ([`guesses`](super::guesses)).
//!
//! What changes something needs all of these, `web_control`, and an `Origin` that is there.

use super::guesses::Guesses;
use super::http::{Method, Request, Status};
use super::logins::{LONGEST, Logins, Session};
use crate::config::Login;
use fairspan_core::units::Time;
use std::net::IpAddr;
use std::str::FromStr as _;

/// What the configuration says of it.
#[derive(Debug)]
pub(super) struct Access {
    login: Option<Login>,
    hosts: Vec<String>,
    may_control: bool,
    cookie: String,
    guesses: Guesses,
    logins: Logins,
}

/// What somebody may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// Look: who is logged in, as long as that lasts.
    See(Option<Session>),
    /// Log in, and see nothing before.
    Login,
}

/// Why not.
pub(super) type Refusal = (Status, &'static str);

impl Access {
    /// `port`: where the page is, as browsers do not tell cookies of different ports apart.
    pub(super) fn new(login: Option<Login>, hosts: Vec<String>, may_control: bool, port: u16) -> Access {
        let may_control = may_control && login.is_some();
        let (guesses, logins) = (Guesses::new(), Logins::default());
        Access { login, hosts, may_control, cookie: format!("fairspan-{port}"), guesses, logins }
    }

    /// Whether links may be taken out by who is logged in.
    pub(super) fn may_control(&self) -> bool {
        self.may_control
    }

    /// Whether there is a password.
    pub(super) fn has_password(&self) -> bool {
        self.login.is_some()
    }

    /// What who sent `request` from an address may do with it.
    ///
    /// # Errors
    /// Why nothing at all.
    pub(super) fn right(&mut self, now: Time, from: IpAddr, request: &Request) -> Result<Right, Refusal> {
        let host = request.header("host").unwrap_or_default();
        if !self.is_ours(host) {
            return Err((
                Status::Misdirected,
                "this page is not known by that name: ask by its address, or add the name to interface.web_hosts",
            ));
        }
        let origin = request.header("origin");
        if origin.is_some_and(|origin| !is_of(origin, host)) {
            return Err((Status::Forbidden, "another page asks: this one answers its own only"));
        }
        let site = request.header("sec-fetch-site").unwrap_or("none");
        let is_link = request.method != Method::Post
            && request.path == "/"
            && request.header("sec-fetch-mode") == Some("navigate");
        if !matches!(site, "same-origin" | "none") && !is_link {
            return Err((Status::Forbidden, "another page asks: this one answers its own only"));
        }
        if request.method == Method::Post && origin.is_none() {
            return Err((Status::Forbidden, "who wants to change something has to say from where: there is no Origin"));
        }
        if self.login.is_none() {
            return Ok(Right::See(None));
        }
        if let Some(cookie) = request.cookie(&self.cookie) {
            return Ok(match self.logins.of(now, cookie) {
                Some(session) => Right::See(Some(session)),
                None => Right::Login,
            });
        }
        match request.header("authorization").and_then(|value| value.strip_prefix("Bearer ")) {
            Some(password) => self.prove(now, from, password).map(|()| Right::See(None)),
            None => Ok(Right::Login),
        }
    }

    /// The cookie for who knows the password.
    ///
    /// # Errors
    /// It is wrong, or too many were.
    pub(super) fn log_in(&mut self, now: Time, from: IpAddr, password: &str) -> Result<String, Refusal> {
        self.prove(now, from, password)?;
        let (token, seconds) = (self.logins.begin(now), LONGEST.as_nanos() / 1_000_000_000);
        Ok(format!("{}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}", self.cookie))
    }

    fn prove(&mut self, now: Time, from: IpAddr, password: &str) -> Result<(), Refusal> {
        if !self.guesses.may(now, from) {
            return Err((Status::TooManyRequests, "too many wrong passwords: wait for some seconds"));
        }
        if self.login.as_ref().is_some_and(|login| login.admits(b"", password.as_bytes())) {
            self.guesses.right(now, from);
            return Ok(());
        }
        self.guesses.wrong(now, from);
        Err((Status::Unauthorized, "that is not the password"))
    }

    /// Ends a session; a cookie that has the browser forget it.
    pub(super) fn log_out(&mut self, session: Option<Session>) -> String {
        session.into_iter().for_each(|session| self.logins.end(session));
        format!("{}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0", self.cookie)
    }

    /// Whether who looks may go on.
    pub(super) fn goes_on(&mut self, now: Time, session: Option<Session>) -> bool {
        session.is_none_or(|session| self.logins.goes_on(now, session))
    }

    /// Whether we go by this `Host`.
    fn is_ours(&self, host: &str) -> bool {
        let name = name_of(host);
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let is_known = |known: &str| bare.trim_end_matches('.').eq_ignore_ascii_case(known);
        IpAddr::from_str(bare).is_ok() || is_known("localhost") || self.hosts.iter().any(|known| is_known(known))
    }
}

/// Without the port.
fn name_of(host: &str) -> &str {
    match host.rfind(':') {
        Some(colon) if host[colon + 1..].bytes().all(|c| c.is_ascii_digit()) => &host[..colon],
        _ => host,
    }
}

/// Whether an origin is that of `host`; what stands before us may speak TLS.
fn is_of(origin: &str, host: &str) -> bool {
    let stripped = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    stripped.is_some_and(|origin| origin.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::super::guesses::{EVERY, GUESSES};
    use super::super::http::Parsed;
    use super::*;
    use std::net::Ipv4Addr;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    fn request(text: &str) -> Request {
        match Request::parse(format!("{}\r\n\r\n", text.replace('\n', "\r\n")).as_bytes()) {
            Parsed::Complete(request) => request,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn open() -> Access {
        Access::new(None, vec!["router.lan".into()], true, 9320)
    }

    fn locked() -> Access {
        Access::new(Some(Login::new(None, "correct horse".to_owned().into())), Vec::new(), true, 9320)
    }

    #[test]
    fn a_name_that_was_made_to_lead_here_sees_nothing() {
        for host in
            ["127.0.0.1:9320", "[::1]:9320", "localhost:9320", "LOCALHOST", "router.lan:80", "10.0.0.1", "router.lan."]
        {
            let right = open().right(Time::ZERO, HERE, &request(&format!("GET / HTTP/1.1\nHost: {host}")));
            assert_eq!(right, Ok(Right::See(None)), "{host}");
        }
        for host in [
            "evil.example:9320",
            "127.0.0.1.evil.example",
            "evil.example",
            "router.lan.evil.example",
            "",
            "[::1",
            "a@127.0.0.1",
        ] {
            let right = open().right(Time::ZERO, HERE, &request(&format!("GET / HTTP/1.1\nHost: {host}")));
            assert_eq!(right.map_err(|(status, _)| status), Err(Status::Misdirected), "{host}");
        }
        assert!(open().right(Time::ZERO, HERE, &request("GET / HTTP/1.1")).is_err(), "who names none");
        let twice = "GET / HTTP/1.1\nHost: localhost\nHost: localhost";
        assert!(open().right(Time::ZERO, HERE, &request(twice)).is_err());
    }

    #[test]
    fn another_page_gets_nothing_but_a_link_to_this_one() {
        let host = "Host: localhost:9320";
        for (head, may) in [
            (format!("GET /live HTTP/1.1\n{host}\nSec-Fetch-Site: same-origin"), true),
            (format!("GET /live HTTP/1.1\n{host}\nSec-Fetch-Site: cross-site"), false),
            (format!("GET /live HTTP/1.1\n{host}\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate"), false),
            (format!("GET / HTTP/1.1\n{host}\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate"), true),
            (format!("POST / HTTP/1.1\n{host}\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate"), false),
            (format!("GET /live HTTP/1.1\n{host}\nOrigin: http://localhost:9320"), true),
            (format!("GET /live HTTP/1.1\n{host}\nOrigin: https://localhost:9320"), true),
            (format!("GET /live HTTP/1.1\n{host}\nOrigin: http://localhost:8000"), false),
            (format!("GET /live HTTP/1.1\n{host}\nOrigin: null"), false),
            (format!("POST /out HTTP/1.1\n{host}"), false),
            (format!("POST /out HTTP/1.1\n{host}\nOrigin: http://localhost:9320"), true),
        ] {
            assert_eq!(open().right(Time::ZERO, HERE, &request(&head)).is_ok(), may, "{head}");
        }
    }

    #[test]
    fn with_a_password_nothing_is_seen_without_it_and_guesses_are_few() {
        let mut access = locked();
        let ask = |more: &str| request(&format!("GET /live HTTP/1.1\nHost: localhost:9320{more}"));
        assert_eq!(access.right(Time::ZERO, HERE, &ask("")), Ok(Right::Login));
        let bearer = ask("\nAuthorization: Bearer correct horse");
        assert_eq!(access.right(Time::ZERO, HERE, &bearer), Ok(Right::See(None)));
        let cookie = access.log_in(Time::ZERO, HERE, "correct horse").expect("the password");
        assert!(cookie.contains("HttpOnly; SameSite=Strict; Max-Age=2592000"), "{cookie}");
        let given = ask(&format!("\nCookie: {}", cookie.split(';').next().expect("a cookie")));
        let Ok(Right::See(Some(session))) = access.right(Time::ZERO, HERE, &given) else { panic!("it is logged in") };
        assert_eq!(locked().right(Time::ZERO, HERE, &given), Ok(Right::Login), "a cookie follows from no password");
        let other = ask("\nCookie: fairspan-9320=0000");
        assert_eq!(access.right(Time::ZERO, HERE, &other), Ok(Right::Login));
        let mut refused = None;
        for _ in 0..=GUESSES {
            refused = access.right(Time::ZERO, HERE, &ask("\nAuthorization: Bearer wrong")).err();
        }
        assert_eq!(refused.map(|(status, _)| status), Some(Status::TooManyRequests));
        assert!(access.log_in(Time::ZERO, HERE, "correct horse").is_err(), "not even with the right one");
        assert!(access.log_in(Time::ZERO, ELSEWHERE, "correct horse").is_ok(), "nobody else has to wait");
        assert!(access.log_in(Time::ZERO + EVERY, HERE, "correct horse").is_ok());
        assert_eq!(access.right(Time::ZERO, HERE, &given), Ok(Right::See(Some(session))), "who is in stays in");
        assert!(access.goes_on(Time::ZERO, Some(session)));
        assert!(access.log_out(Some(session)).contains("Max-Age=0"));
        assert_eq!(access.right(Time::ZERO, HERE, &given), Ok(Right::Login), "who is out is out");
        assert!(!access.goes_on(Time::ZERO, Some(session)) && access.goes_on(Time::ZERO, None));
    }

    #[test]
    fn nothing_can_be_changed_where_there_is_no_password() {
        assert!(locked().may_control() && !open().may_control());
    }
}
