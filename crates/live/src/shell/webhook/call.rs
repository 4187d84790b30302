//! One alarm goes to its receiver: a request of HTTP/1.1, of whose answer only the first line is read.
//!
//! All of it is bounded in time, whatever the other end does. A redirect is not followed, since it may lead anywhere.

use crate::config::Webhook;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long all of the rest may take.
const EXCHANGE: Duration = Duration::from_secs(10);
/// Bytes that the first line of an answer has at most.
const LINE: usize = 1024;

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was taken.
    Delivered,
    /// It never will be: the receiver does not want it.
    Refused(String),
    /// It may be taken later.
    Failed(String),
}

/// How long the two parts of a call may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) connect: Duration,
    pub(super) exchange: Duration,
}

impl Limits {
    pub(super) const USUAL: Limits = Limits { connect: CONNECT, exchange: EXCHANGE };
}

/// Brings `body`, a JSON document, to its receiver.
pub(super) fn call(hook: &Webhook, body: &[u8], limits: Limits) -> Outcome {
    match exchange(hook, body, limits) {
        Ok(status) => judge(status),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Outcome::Failed("no answer in time".into())
        }
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

/// What the status of an answer says.
fn judge(status: u16) -> Outcome {
    let said = format!("it answers {status}");
    match status {
        200..300 => Outcome::Delivered,
        // Too many, too slow: later it may do.
        408 | 425 | 429 => Outcome::Failed(said),
        300..400 => Outcome::Refused(format!("{said}, which leads elsewhere: write that address")),
        400..500 => Outcome::Refused(said),
        _ => Outcome::Failed(said),
    }
}

fn exchange(hook: &Webhook, body: &[u8], limits: Limits) -> io::Result<u16> {
    let mut stream = TcpStream::connect_timeout(&hook.address, limits.connect)?;
    let until = Instant::now() + limits.exchange;
    let left = || {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::Error::from(ErrorKind::TimedOut)) } else { Ok(left) }
    };
    let mut rest = &request(hook, body)[..];
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left()?))?;
        match stream.write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let (mut line, mut filled) = ([0; LINE], 0);
    loop {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut line[filled..]) {
            Ok(0) => return Err(io::Error::other("it ends the connection without an answer")),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if line[..filled].contains(&b'\n') || filled == LINE {
            return status_of(&line[..filled]).ok_or_else(|| io::Error::other("what answers there is no HTTP server"));
        }
    }
}

fn request(hook: &Webhook, body: &[u8]) -> Vec<u8> {
    let mut head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: fairspan/{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n",
        hook.path.as_str(),
        hook.address,
        env!("CARGO_PKG_VERSION"),
        body.len()
    );
    if let Some(password) = &hook.password {
        head += "Authorization: Bearer ";
        head += password;
        head += "\r\n";
    }
    head += "\r\n";
    let mut all = head.into_bytes();
    all.extend_from_slice(body);
    all
}

/// The number in `HTTP/1.1 204 No Content`.
fn status_of(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let [minor, b' ', digits @ ..] = rest else { return None };
    let (number, rest) = digits.split_first_chunk::<3>()?;
    let ends = rest.first().is_some_and(|c| matches!(c, b' ' | b'\r' | b'\n'));
    let is_number = minor.is_ascii_digit() && number.iter().all(u8::is_ascii_digit) && ends;
    is_number.then(|| number.iter().fold(0, |all, digit| 10 * all + u16::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener};
    use std::thread;
    use zeroize::Zeroizing;

    const SHORT: Limits = Limits { connect: Duration::from_secs(20), exchange: Duration::from_millis(400) };
    const LONG: Limits = Limits { connect: Duration::from_secs(60), exchange: Duration::from_secs(60) };

    fn hook(address: SocketAddr) -> Webhook {
        let password = Some(Zeroizing::new("horse".to_owned()));
        Webhook { address, path: Zeroizing::new("/a?b".into()), password }
    }

    /// What becomes of a call to whom does `answer` with a connection.
    fn against(limits: Limits, answer: impl FnOnce(&mut TcpStream) + Send + 'static) -> Outcome {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let server = thread::spawn(move || answer(&mut listener.accept().expect("a call").0));
        let outcome = call(&hook(address), b"{}", limits);
        server.join().expect("ended");
        outcome
    }

    fn read_request(stream: &mut TcpStream) -> String {
        let mut all = Vec::new();
        let mut byte = [0];
        while !all.ends_with(b"{}") {
            stream.read_exact(&mut byte).expect("more");
            all.push(byte[0]);
        }
        String::from_utf8(all).expect("text")
    }

    fn answers(text: &'static str) -> Outcome {
        against(LONG, move |stream| {
            read_request(stream);
            stream.write_all(text.as_bytes()).expect("taken");
        })
    }

    #[test]
    fn a_request_is_one_post_with_its_length_and_who_calls() {
        let outcome = against(LONG, |stream| {
            let text = read_request(stream);
            assert!(text.starts_with("POST /a?b HTTP/1.1\r\nHost: 127.0.0.1:"), "{text}");
            assert!(text.contains("\r\nContent-Length: 2\r\n") && text.contains("\r\nAuthorization: Bearer horse\r\n"));
            assert!(text.ends_with("\r\n\r\n{}"), "{text}");
            // In pieces, as a slow network brings them.
            for part in ["HTT", "P/1.1 20", "4 No Content\r\n"] {
                stream.write_all(part.as_bytes()).expect("taken");
                stream.flush().expect("taken");
            }
        });
        assert_eq!(outcome, Outcome::Delivered);
    }

    #[test]
    fn what_is_not_wanted_is_not_brought_again_and_no_redirect_is_followed() {
        assert!(matches!(answers("HTTP/1.1 404 Not Found\r\n"), Outcome::Refused(said) if said.contains("404")));
        let moved = answers("HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\n\r\n");
        assert!(matches!(moved, Outcome::Refused(said) if said.contains("elsewhere")));
        for later in ["HTTP/1.1 503 Busy\r\n", "HTTP/1.0 429 Slow down\r\n", "HTTP/1.1 101 Other\r\n"] {
            assert!(matches!(answers(later), Outcome::Failed(_)), "{later}");
        }
    }

    #[test]
    fn whoever_answers_with_something_else_or_for_ever_or_not_at_all_is_left_in_time() {
        let is_no_server = |outcome| matches!(outcome, Outcome::Failed(said) if said.contains("no HTTP server"));
        for text in ["SSH-2.0-x\r\n", "HTTP/2 200 OK\r\n", "HTTP/1.1 2000\r\n", "HTTP/1.1 20\r\n", "\n"] {
            assert!(is_no_server(answers(text)), "{text}");
        }
        // A line without an end.
        assert!(is_no_server(against(LONG, |stream| {
            read_request(stream);
            let _ = stream.write_all(&[b'H'; 100 * LINE]);
        })));
        assert!(matches!(answers(""), Outcome::Failed(said) if said.contains("without an answer")));
        // One that answers nothing, and one that goes on for ever, until it is left.
        let begun = Instant::now();
        let silent = against(SHORT, |stream| {
            read_request(stream);
            let _ = stream.read(&mut [0]);
        });
        assert_eq!(silent, Outcome::Failed("no answer in time".into()));
        let endless = against(SHORT, |stream| {
            read_request(stream);
            while stream.write_all(b"H").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        assert_eq!(endless, Outcome::Failed("no answer in time".into()));
        assert!(begun.elapsed() >= 2 * SHORT.exchange);
        // Nobody there.
        let gone = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
        assert!(matches!(call(&hook(gone), b"{}", LONG), Outcome::Failed(said) if said.contains("refused")));
    }
}
