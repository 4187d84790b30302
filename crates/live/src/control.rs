//! The control socket: a Unix stream socket (mode 0600) on which `fairspan status` asks a running daemon.
//!
//! One request a connection: a line of JSON such as `{"command":"status"}`, answered by one line of JSON. Nothing here
//! ever blocks the daemon: connections are few (`CONNECTIONS`), short (`REQUEST_LIMIT`) and non-blocking.

use crate::folders;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt as _, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Most connections served at once; a further one is closed.
const CONNECTIONS: usize = 8;
/// Longest request in bytes.
const REQUEST_LIMIT: usize = 4096;

/// Longest that a client is served: one that neither asks nor reads would keep the daemon awake.
const PATIENCE: Duration = Duration::from_secs(5);

/// The same for one whose answer takes the daemon some work, which it and the kernel may need seconds for on a busy machine.
const AT_WORK: Duration = Duration::from_secs(60);

/// How long a socket of somebody who says nothing is asked whether a daemon is behind it. One that was killed can be reached until the system
/// has taken it down, which takes it a while on a busy machine: each network interface waits for all processors.
const TAKEN_DOWN: Duration = Duration::from_secs(3);

/// What a client may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Everything that `fairspan status` shows.
    Status,
    /// Read the configuration file again and take over what differs; the answer is a [`Reloaded`](crate::reloaded::Reloaded).
    Reload,
    /// Take a channel out of use while there are others; the answer is a [`Taken`].
    TakeOut {
        /// The peer whose it is.
        peer: String,
        /// Its name.
        channel: String,
    },
    /// Take it in again.
    TakeIn {
        /// The peer whose it is.
        peer: String,
        /// Its name.
        channel: String,
    },
}

impl Request {
    /// How long its answer may take.
    fn patience(&self) -> Duration {
        if matches!(self, Request::Reload) { AT_WORK } else { PATIENCE }
    }
}

/// What became of the wish to take a channel out or in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// It is done.
    pub ok: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Why the control socket cannot be opened.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Another daemon answers on it.
    #[error("{}: another daemon with this interface name is running; end it, or choose another interface.name", .0.display())]
    InUse(PathBuf),
    /// Something that is no socket stands there.
    #[error("{}: is there already and is no socket; choose another interface.control_socket", .0.display())]
    NotASocket(PathBuf),
    /// The system refused.
    #[error("{}: {source}{}", .path.display(), remedy(.path, .source))]
    Io {
        /// The socket.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// Asks the daemon behind `path`; gives its answer, one line of JSON.
///
/// # Errors
/// What the system says: `NotFound` and `ConnectionRefused` mean that no daemon is there, `TimedOut` that it does not answer.
pub fn ask(path: &Path, request: &Request) -> io::Result<String> {
    ask_within(path, request, request.patience())
}

fn ask_within(path: &Path, request: &Request, patience: Duration) -> io::Result<String> {
    let silent = |error: io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            let problem = format!("the daemon does not answer within {} s", patience.as_secs_f32());
            io::Error::new(ErrorKind::TimedOut, problem)
        }
        _ => error,
    };
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    stream.write_all(line.as_bytes()).map_err(silent)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(silent)?;
    if answer.is_empty() {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "the daemon closed without an answer"));
    }
    Ok(answer.trim_end().to_owned())
}

/// Whether a daemon is behind `path`: it answers, or it neither answers nor goes away.
fn is_in_use(path: &Path) -> bool {
    let began = Instant::now();
    while let Ok(mut stream) = UnixStream::connect(path) {
        let Some(left) = TAKEN_DOWN.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) else { return true };
        // What is taken down, and who has no place for one more client, closes without an answer.
        let asked = stream.set_read_timeout(Some(left)).and_then(|()| stream.write_all(b"{\"command\":\"status\"}\n"));
        match asked.and_then(|()| stream.read(&mut [0; 64])) {
            Ok(1..) => return true,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return true,
            Ok(_) | Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    false
}

/// What to do where the folder of a socket is another user's: root is nobody special once it has given up its capabilities.
fn remedy(path: &Path, refusal: &io::Error) -> String {
    let folder = folders::of(path);
    let owner = std::fs::metadata(folder).map(|found| found.uid()).ok().filter(|owner| *owner != geteuid().as_raw());
    match owner.filter(|_| refusal.kind() == ErrorKind::PermissionDenied) {
        Some(owner) => format!(
            "; `{}` is user {owner}'s, as it is after a daemon with that `user`: name that user in interface.user, or a \
             folder of its own in interface.control_socket",
            folder.display()
        ),
        None => String::new(),
    }
}

/// The daemon's end. Removes its socket when dropped.
#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
    listener: UnixListener,
    connections: Vec<Connection>,
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    request: Vec<u8>,
    answer: Vec<u8>,
    /// Its answer is not there yet.
    waits: bool,
    since: Instant,
}

impl Control {
    /// Listens at `path`, replacing a socket that a killed daemon left.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub(crate) fn open(path: &Path) -> Result<Control, ControlError> {
        let io_error = |source| ControlError::Io { path: path.into(), source };
        folders::make(folders::of(path), 0o755).map_err(io_error)?;
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => return Err(ControlError::NotASocket(path.into())),
            Ok(_) if is_in_use(path) => return Err(ControlError::InUse(path.into())),
            Ok(_) => std::fs::remove_file(path).map_err(io_error)?,
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(io_error(e)),
        }
        // Bound under another name and renamed, so that it is never reachable with wider permissions.
        let staging = path.with_extension(format!("{}.tmp", std::process::id()));
        let listener = UnixListener::bind(&staging).map_err(io_error)?;
        std::fs::set_permissions(&staging, std::fs::Permissions::from_mode(0o600))
            .and_then(|()| std::fs::rename(&staging, path))
            .and_then(|()| listener.set_nonblocking(true))
            .map_err(|e| {
                let _ = std::fs::remove_file(&staging);
                io_error(e)
            })?;
        Ok(Control { path: path.into(), listener, connections: Vec::new() })
    }

    /// Whether a client is connected, so that [`serve`](Control::serve) is to be called again soon.
    pub(crate) fn is_busy(&self) -> bool {
        !self.connections.is_empty()
    }

    /// Accepts, reads and answers whatever is ready; `answer` makes the line of JSON for a request, or none where that has to
    /// [wait](Control::answer_waiting).
    pub(crate) fn serve(&mut self, mut answer: impl FnMut(Request) -> Option<String>) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.connections.len() < CONNECTIONS && stream.set_nonblocking(true).is_ok() {
                self.connections.push(Connection {
                    stream,
                    request: Vec::new(),
                    answer: Vec::new(),
                    waits: false,
                    since: Instant::now(),
                });
            }
        }
        self.connections.retain_mut(|c| c.advance(&mut answer) && c.since.elapsed() < c.patience());
    }
}

impl Control {
    /// Answers those whose requests had to wait.
    pub(crate) fn answer_waiting(&mut self, line: &str) {
        for connection in self.connections.iter_mut().filter(|connection| connection.waits) {
            connection.waits = false;
            connection.take(line);
        }
    }
}

impl AsFd for Control {
    /// Readable when a client connects.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Connection {
    fn patience(&self) -> Duration {
        if self.waits { AT_WORK } else { PATIENCE }
    }

    /// This is the answer.
    fn take(&mut self, line: &str) {
        self.answer = format!("{line}\n").into_bytes();
    }

    /// Goes on as far as it can without blocking; false when it is done.
    fn advance(&mut self, answer: &mut impl FnMut(Request) -> Option<String>) -> bool {
        if self.waits {
            return true;
        }
        if self.answer.is_empty() {
            let mut chunk = [0; 512];
            loop {
                match self.stream.read(&mut chunk) {
                    Ok(0) => return false,
                    Ok(n) => self.request.extend_from_slice(&chunk[..n]),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return false,
                }
                if self.request.contains(&b'\n') || self.request.len() > REQUEST_LIMIT {
                    break;
                }
            }
            let Some(end) = self.request.iter().position(|&b| b == b'\n') else {
                return self.request.len() <= REQUEST_LIMIT;
            };
            match serde_json::from_slice(&self.request[..end]) {
                Ok(request) => match answer(request) {
                    Some(line) => self.take(&line),
                    None => {
                        self.waits = true;
                        return true;
                    }
                },
                Err(e) => self.take(&serde_json::json!({ "error": format!("not a request: {e}") }).to_string()),
            }
        }
        loop {
            match self.stream.write(&self.answer) {
                Ok(n) => {
                    self.answer.drain(..n);
                    if self.answer.is_empty() {
                        return false;
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve_until<T>(control: &mut Control, client: std::thread::JoinHandle<T>) -> T {
        let end = Instant::now() + Duration::from_secs(30);
        while !client.is_finished() {
            assert!(Instant::now() < end, "the client has no answer");
            control.serve(|request| Some(format!("{{\"echo\":{}}}", serde_json::to_string(&request).unwrap())));
            std::thread::sleep(Duration::from_millis(1));
        }
        client.join().unwrap()
    }

    #[test]
    fn a_request_is_answered_and_the_socket_is_private_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/fs0.sock");
        let mut control = Control::open(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let asked = path.clone();
        let answer = serve_until(&mut control, std::thread::spawn(move || ask(&asked, &Request::Status)));
        assert_eq!(answer.unwrap(), "{\"echo\":{\"command\":\"status\"}}");
        drop(control);
        assert!(!path.exists());
    }

    #[test]
    fn a_second_daemon_is_refused_and_a_stale_socket_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fs0.sock");
        let first = Control::open(&path).unwrap();
        assert!(matches!(Control::open(&path), Err(ControlError::InUse(_))), "one that says nothing");
        drop(first);
        // One that was killed: it takes no client any more, and its socket closes a little later.
        let (killed, reached) = (UnixListener::bind(&path).unwrap(), std::sync::mpsc::channel());
        let taken_down = std::thread::spawn(move || {
            let client = killed.accept().unwrap();
            reached.0.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            drop((client, killed));
        });
        drop(Control::open(&path).unwrap());
        reached.1.try_recv().expect("it was there when it was asked");
        taken_down.join().unwrap();
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "std leaves the file: a killed daemon's");
        drop(Control::open(&path).unwrap());
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(Control::open(&path), Err(ControlError::NotASocket(_))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_client_that_says_nothing_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fs0.sock");
        let mut control = Control::open(&path).unwrap();
        let mut silent = UnixStream::connect(&path).unwrap();
        control.serve(|_| unreachable!("nothing was asked"));
        assert!(control.is_busy());
        control.connections[0].since -= PATIENCE;
        control.serve(|_| unreachable!("nothing was asked"));
        assert!(!control.is_busy());
        assert_eq!(silent.read(&mut [0; 8]).unwrap(), 0, "closed");
    }

    #[test]
    fn a_client_whose_answer_takes_longer_has_it_all_the_same_and_is_told_where_there_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fs0.sock");
        let mut control = Control::open(&path).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"{\"command\":\"reload\"}\n").unwrap();
        let serve = |control: &mut Control| control.serve(|_| None);
        serve(&mut control);
        control.connections[0].since -= PATIENCE;
        serve(&mut control);
        assert!(control.is_busy(), "the daemon works on it");
        control.answer_waiting("done");
        serve(&mut control);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!((answer.as_str(), control.is_busy()), ("done\n", false));
        // Nobody waits for ever.
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"{\"command\":\"reload\"}\n").unwrap();
        serve(&mut control);
        control.connections[0].since -= AT_WORK;
        serve(&mut control);
        assert!(!control.is_busy());
        let silent = ask_within(&path, &Request::Reload, Duration::from_millis(500)).unwrap_err();
        assert_eq!(silent.kind(), ErrorKind::TimedOut);
        assert_eq!(silent.to_string(), "the daemon does not answer within 0.5 s");
        assert!(Request::Reload.patience() > Request::Status.patience());
    }

    #[test]
    fn nonsense_and_floods_are_answered_or_cut_never_served_forever() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fs0.sock");
        let mut control = Control::open(&path).unwrap();
        let asked = path.clone();
        let client = std::thread::spawn(move || {
            let mut stream = UnixStream::connect(&asked).unwrap();
            stream.write_all(b"{\"command\":\"format-disk\"}\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        assert!(serve_until(&mut control, client).contains("not a request"));
        let flood: Vec<_> = (0..CONNECTIONS + 3).map(|_| UnixStream::connect(&path).unwrap()).collect();
        control.serve(|_| Some(String::new()));
        assert_eq!(control.connections.len(), CONNECTIONS);
        for mut stream in &flood {
            let _ = stream.write_all(&[b'x'; REQUEST_LIMIT + 512]);
        }
        control.serve(|_| unreachable!("no line ended"));
        control.serve(|_| unreachable!("no line ended"));
        assert!(control.connections.is_empty());
    }
}
