//! HTTP/1.1 as far as a page needs it: one request a connection, and an answer or a stream of events.
//!
//! Source: RFC 9110, RFC 9112; the stream of events is that of the HTML standard ("Server-sent events"). Requests come from
//! anybody, so everything has a bound, and what is not understood is refused.

use std::fmt::Write as _;

/// Longest head of a request, in bytes.
pub(super) const HEAD_LIMIT: usize = 8192;
/// Longest body, in bytes.
pub(super) const BODY_LIMIT: usize = 2048;

/// What is done with a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Head,
    Post,
}

/// A request, complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: Method,
    /// Without the query.
    pub(super) path: String,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// How far a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// More is to come.
    Partial,
    /// It is complete.
    Complete(Request),
    /// It is none, or too long: with this status.
    Wrong(Status),
}

/// Statuses of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    SeeOther,
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    Conflict,
    ContentTooLarge,
    Misdirected,
    TooManyRequests,
    HeadTooLarge,
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::SeeOther => "303 See Other",
            Status::BadRequest => "400 Bad Request",
            Status::Unauthorized => "401 Unauthorized",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::Conflict => "409 Conflict",
            Status::ContentTooLarge => "413 Content Too Large",
            Status::Misdirected => "421 Misdirected Request",
            Status::TooManyRequests => "429 Too Many Requests",
            Status::HeadTooLarge => "431 Request Header Fields Too Large",
            Status::Unavailable => "503 Service Unavailable",
        }
    }
}

impl Request {
    /// Reads what has come so far.
    pub(super) fn parse(bytes: &[u8]) -> Parsed {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return if bytes.len() >= HEAD_LIMIT { Parsed::Wrong(Status::HeadTooLarge) } else { Parsed::Partial };
        };
        if end > HEAD_LIMIT {
            return Parsed::Wrong(Status::HeadTooLarge);
        }
        let Some((mut request, length)) = Request::head(&bytes[..end]) else {
            return Parsed::Wrong(Status::BadRequest);
        };
        if request.method == Method::Head && request.path.is_empty() {
            return Parsed::Wrong(Status::MethodNotAllowed);
        }
        if length > BODY_LIMIT {
            return Parsed::Wrong(Status::ContentTooLarge);
        }
        match bytes.get(end + 4..end + 4 + length) {
            Some(body) => {
                request.body = body.to_vec();
                Parsed::Complete(request)
            }
            None => Parsed::Partial,
        }
    }

    /// The head, and how long the body is.
    fn head(head: &[u8]) -> Option<(Request, usize)> {
        let head = std::str::from_utf8(head).ok()?;
        if head.chars().any(|c| c.is_control() && !matches!(c, '\r' | '\n' | '\t')) {
            return None;
        }
        let mut lines = head.split("\r\n");
        let mut first = lines.next()?.split(' ');
        let (method, target, version) = (first.next()?, first.next()?, first.next()?);
        if first.next().is_some() || !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
            return None;
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (method, path) = match method {
            "GET" => (Method::Get, path),
            "HEAD" => (Method::Head, path),
            "POST" => (Method::Post, path),
            // Refused by its caller.
            _ => (Method::Head, ""),
        };
        let mut headers = Vec::new();
        for line in lines {
            let (name, value) = line.split_once(':')?;
            if name.is_empty() || !name.bytes().all(|c| c.is_ascii_graphic()) || value.contains(['\r', '\n']) {
                return None;
            }
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let request = Request { method, path: path.to_owned(), query: pairs(query), headers, body: Vec::new() };
        if request.header("transfer-encoding").is_some() {
            return None;
        }
        let length = match request.header("content-length") {
            Some(length) => length.bytes().all(|c| c.is_ascii_digit()).then(|| length.parse().ok())??,
            None => 0,
        };
        Some((request, length))
    }

    /// A header that is there once; one that is there twice is nobody's.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let first = found.next();
        if found.next().is_some() { Some("") } else { first }
    }

    /// A value of the query.
    pub(super) fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A value of a form.
    pub(super) fn form(&self, name: &str) -> Option<String> {
        let body = std::str::from_utf8(&self.body).ok()?;
        pairs(body).into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// A cookie.
    pub(super) fn cookie(&self, name: &str) -> Option<&str> {
        let cookies = self.header("cookie")?.split(';').filter_map(|cookie| cookie.trim().split_once('='));
        cookies.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// Names and values as forms and queries have them.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty()).take(16);
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(k, v)| (unescaped(k), unescaped(v))).collect()
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let escaped = || {
            let two = rest.as_slice_of_two()?;
            u8::from_str_radix(std::str::from_utf8(&two).ok()?, 16).ok()
        };
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => match escaped() {
                Some(byte) => {
                    bytes.push(byte);
                    rest.nth(1);
                }
                None => bytes.push(b'%'),
            },
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The next two of some bytes, which stay.
trait NextTwo {
    fn as_slice_of_two(&self) -> Option<[u8; 2]>;
}

impl NextTwo for std::str::Bytes<'_> {
    fn as_slice_of_two(&self) -> Option<[u8; 2]> {
        let mut ahead = self.clone();
        Some([ahead.next()?, ahead.next()?])
    }
}

/// An answer, to be sent whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: Status,
    /// `text/html` and the like.
    pub(super) kind: &'static str,
    pub(super) body: String,
    /// Headers beside those that all have.
    pub(super) headers: Vec<(&'static str, String)>,
}

impl Answer {
    pub(super) fn text(status: Status, body: &str) -> Answer {
        Answer { status, kind: "text/plain; charset=utf-8", body: format!("{body}\n"), headers: Vec::new() }
    }

    pub(super) fn json(body: String) -> Answer {
        Answer { status: Status::Ok, kind: "application/json", body, headers: Vec::new() }
    }

    /// All bytes of it; `with_body`: not what HEAD gets.
    pub(super) fn bytes(&self, with_body: bool) -> Vec<u8> {
        let mut text = head(self.status, self.kind, &self.headers);
        let _ = write!(text, "Content-Length: {}\r\nConnection: close\r\n\r\n", self.body.len());
        if with_body {
            text += &self.body;
        }
        text.into_bytes()
    }
}

/// The head of a stream of events.
pub(super) fn stream_head() -> Vec<u8> {
    let mut text = head(Status::Ok, "text/event-stream", &[("X-Accel-Buffering", "no".to_owned())]);
    text += "Connection: close\r\n\r\nretry: 1000\n\n";
    text.into_bytes()
}

/// The status line and what all answers say: nobody shows them in a frame, guesses their kind, keeps them, or is told where from
/// somebody came.
fn head(status: Status, kind: &str, headers: &[(&str, String)]) -> String {
    let mut text = format!(
        "HTTP/1.1 {}\r\nContent-Type: {kind}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\nX-Frame-Options: DENY\r\n",
        status.line()
    );
    for (name, value) in headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    if !headers.iter().any(|(name, _)| *name == "Content-Security-Policy") {
        text += "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn complete(text: &str) -> Request {
        match Request::parse(text.as_bytes()) {
            Parsed::Complete(request) => request,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_request_is_read_as_it_was_written_wherever_it_was_cut() {
        let text = "POST /login?next=%2Fa+b&x HTTP/1.1\r\nHost: h:1\r\nCookie: a=1; fairspan=abc; b=2\r\nContent-Length: 17\r\n\r\npassword=p%26q%C3";
        let request = complete(text);
        assert_eq!((request.method, request.path.as_str()), (Method::Post, "/login"));
        assert_eq!((request.asked("next"), request.asked("x"), request.asked("y")), (Some("/a b"), Some(""), None));
        assert_eq!((request.header("host"), request.cookie("fairspan")), (Some("h:1"), Some("abc")));
        assert_eq!(request.form("password").as_deref(), Some("p&q\u{fffd}"));
        for cut in 0..text.len() {
            assert_eq!(Request::parse(&text.as_bytes()[..cut]), Parsed::Partial, "{cut}");
        }
    }

    #[test]
    fn what_is_no_request_or_too_long_is_refused() {
        for (text, status) in [
            ("GET / HTTP/2\r\n\r\n".to_owned(), Status::BadRequest),
            ("GET /\r\n\r\n".to_owned(), Status::BadRequest),
            ("GET / HTTP/1.1 x\r\n\r\n".to_owned(), Status::BadRequest),
            ("GET / HTTP/1.1\r\nno header\r\n\r\n".to_owned(), Status::BadRequest),
            ("GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n".to_owned(), Status::BadRequest),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), Status::BadRequest),
            ("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n".to_owned(), Status::BadRequest),
            ("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx".to_owned(), Status::BadRequest),
            ("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n".to_owned(), Status::BadRequest),
            (format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", BODY_LIMIT + 1), Status::ContentTooLarge),
            ("BREW / HTTP/1.1\r\n\r\n".to_owned(), Status::MethodNotAllowed),
            ("x".repeat(HEAD_LIMIT), Status::HeadTooLarge),
            (format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(HEAD_LIMIT)), Status::HeadTooLarge),
        ] {
            let shown = text.chars().take(60).collect::<String>();
            assert_eq!(Request::parse(text.as_bytes()), Parsed::Wrong(status), "{shown}");
        }
    }

    #[test]
    fn every_answer_says_that_nobody_frames_it_guesses_its_kind_or_keeps_it() {
        let answer = String::from_utf8(Answer::text(Status::NotFound, "no").bytes(true)).expect("text");
        let stream = String::from_utf8(stream_head()).expect("text");
        for head in [&answer, &stream] {
            for wanted in ["no-store", "nosniff", "DENY", "same-origin", "default-src 'none'"] {
                assert!(head.contains(wanted), "{wanted} is not in {head}");
            }
        }
        assert!(answer.ends_with("Content-Length: 3\r\nConnection: close\r\n\r\nno\n"), "{answer}");
        let head = String::from_utf8(Answer::text(Status::Ok, "body").bytes(false)).expect("text");
        assert!(head.contains("Content-Length: 5") && head.ends_with("\r\n\r\n"), "{head}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic_and_more_of_them_change_no_verdict(
            bytes in prop::collection::vec(any::<u8>(), 0..300), begin in prop::sample::select(vec!["", "GET / HTTP/1.1\r\n", "POST /x?a=%"]),
        ) {
            let all = [begin.as_bytes(), &bytes].concat();
            let verdict = Request::parse(&all);
            if verdict != Parsed::Partial {
                prop_assert_eq!(Request::parse(&[&all[..], b"more"].concat()), verdict);
            }
            let _ = unescaped(&String::from_utf8_lossy(&bytes));
        }
    }
}
