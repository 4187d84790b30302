//! The helper: a process beside the daemon that does for it what it has given up to do itself.
//!
//! The daemon begins it before it gives up its privileges ([`Helper::start`]), and asks it over a pair of sockets, a line of JSON each
//! way. The helper does two things when asked: it reads the configuration file that the daemon was started with, and the key files that
//! this one names, as who started the daemon; and it has the system's resolver look for the addresses of a name that stands in that
//! file. It takes no path from the daemon and no other name, so a daemon that was taken over gains nothing by it but the newest of its
//! own settings. It has no capabilities, writes nothing, and ends with the daemon.

use crate::config::{Config, ConfigError, Files};
use crate::reloaded::Notice;
use crate::shell::poller::{Poller, Token, Turn};
use landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, path_beneath_rules};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, ToSocketAddrs as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use zeroize::Zeroizing;

/// The longest answer; a configuration has a few kilobytes.
const ANSWER_LIMIT: usize = 16 << 20;

/// What the daemon asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Question {
    /// What is in the configuration file.
    Configuration,
    /// Which addresses a name has that stands there.
    Addresses(String),
}

/// What the helper answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// The file is good: its text, the key files, and what is hardly meant.
    Configuration(String, Files, Vec<Notice>),
    /// It is not.
    Wrong(Notice),
    /// The addresses of a name, or why there are none.
    Addresses(String, Result<Vec<IpAddr>, String>),
}

/// The daemon's end.
#[derive(Debug)]
pub struct Helper {
    file: PathBuf,
    stream: UnixStream,
    /// Of an answer that is not complete.
    read: Zeroizing<Vec<u8>>,
    token: Option<Token>,
    poller: Option<Poller>,
}

impl Helper {
    /// Begins the process: `program` with `arguments`, to call [`serve`] with `file`.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(program: &Path, arguments: &[&str], file: &Path) -> io::Result<Helper> {
        let (stream, theirs) = UnixStream::pair()?;
        stream.set_nonblocking(true)?;
        let mut command = Command::new(program);
        command.args(arguments).arg(file);
        // It is never waited for: it ends when this process does, or long after it is of no use.
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).spawn()?;
        Ok(Helper { file: file.to_owned(), stream, read: Zeroizing::default(), token: None, poller: None })
    }

    /// The file that it reads.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Begins to wait for answers.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn watch(&mut self, poller: &Poller) -> Result<(), Errno> {
        self.token = Some(poller.watch(self.stream.as_fd(), Turn::Others)?);
        self.poller = Some(poller.clone());
        Ok(())
    }

    /// Whether `token` tells of an answer.
    pub(crate) fn is(&self, token: Token) -> bool {
        self.token == Some(token)
    }

    /// Asks for the configuration. False when the process is gone.
    pub(crate) fn ask_configuration(&mut self) -> bool {
        self.ask(&Question::Configuration)
    }

    /// Asks for the addresses of a name.
    pub(crate) fn ask_addresses(&mut self, host: &str) -> bool {
        self.ask(&Question::Addresses(host.to_owned()))
    }

    fn ask(&mut self, question: &Question) -> bool {
        let mut line = serde_json::to_string(question).unwrap_or_default();
        line.push('\n');
        self.token.is_some() && self.stream.write_all(line.as_bytes()).is_ok()
    }

    /// The next answer, if there is one; an error where there will be none any more.
    ///
    /// # Errors
    /// The process has ended, or says what cannot be read.
    pub(crate) fn poll(&mut self) -> io::Result<Option<Answer>> {
        if self.token.is_none() {
            // What ended has nothing more to say.
            return Ok(None);
        }
        let answer = self.next();
        if answer.is_err()
            && let (Some(token), Some(poller)) = (self.token.take(), &self.poller)
        {
            poller.unwatch(token, self.stream.as_fd());
        }
        answer
    }

    fn next(&mut self) -> io::Result<Option<Answer>> {
        let mut chunk = Zeroizing::new([0; 4096]);
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let answer = serde_json::from_slice(&self.read[..end])?;
                self.read.drain(..=end);
                return Ok(Some(answer));
            }
            match self.stream.read(&mut chunk[..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) if self.read.len() > ANSWER_LIMIT => return Err(ErrorKind::FileTooLarge.into()),
                Ok(n) => self.read.extend_from_slice(&chunk[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// What the helper's process does, until the daemon ends: answers for `file` what comes from standard input, to the socket that this is.
///
/// # Errors
/// What the system says.
pub fn serve(file: &Path) -> io::Result<()> {
    restrict();
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut questions = BufReader::new(stream.try_clone()?);
    let stream = Mutex::new(stream);
    let stream = &stream;
    thread::scope(|threads| {
        let mut line = String::new();
        while questions.read_line(&mut line)? > 0 {
            match serde_json::from_str(&line)? {
                Question::Configuration => answer(stream, &configuration(file))?,
                // A resolver that does not answer holds up nobody. The daemon asks for a name again when it was answered, or rarely.
                Question::Addresses(host) => {
                    threads.spawn(move || answer(stream, &addresses(file, host)));
                }
            }
            line.clear();
        }
        // The daemon has ended: nobody waits for what is still asked for.
        std::process::exit(0)
    })
}

fn answer(stream: &Mutex<UnixStream>, answer: &Answer) -> io::Result<()> {
    let mut text = Zeroizing::new(serde_json::to_vec(answer)?);
    text.push(b'\n');
    stream.lock().unwrap_or_else(PoisonError::into_inner).write_all(&text)
}

/// The addresses of a name, if it stands in the configuration: a daemon that was taken over asks for no other one. Clients of a gateway's proxy may
/// name anybody.
fn addresses(file: &Path, host: String) -> Answer {
    let stands = Config::load(file).is_ok_and(|config| {
        let serves_clients = config.gateway.as_ref().is_some_and(|gateway| gateway.proxy.is_some());
        let mut channels = config.peers.iter().flat_map(|peer| &peer.channels);
        serves_clients || channels.any(|channel| channel.host.as_ref() == Some(&host))
    });
    let found = match stands {
        true => (host.as_str(), 0).to_socket_addrs().map_err(|error| error.to_string()),
        false => Err("it does not stand in the configuration any more".into()),
    };
    let found = found.map(|found| {
        let mut addresses: Vec<IpAddr> = Vec::new();
        found.map(|address| address.ip()).for_each(|ip| {
            if !addresses.contains(&ip) {
                addresses.push(ip);
            }
        });
        addresses
    });
    Answer::Addresses(host, found)
}

fn configuration(file: &Path) -> Answer {
    match Config::load_with_files(file) {
        Ok((config, text, files)) => {
            Answer::Configuration(text.to_string(), files, config.notices.iter().map(Notice::from).collect())
        }
        Err(error) => Answer::Wrong(Notice::from(&error)),
    }
}

/// The configuration that an answer has, read again by who did not read the files.
///
/// # Errors
/// What is wrong with it here.
pub(crate) fn parse(file: &Path, text: String, files: &Files) -> Result<Config, ConfigError> {
    Config::parse_given(file, &Zeroizing::new(text), files)
}

/// Reading is all that is left. What a kernel cannot hold is left out: nothing comes in but questions without arguments.
fn restrict() {
    let _ = set_no_new_privs(true);
    let none = CapabilitySet::empty();
    let _ = set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none });
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let _ = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V5))
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(["/"], reading)))
        .and_then(|ruleset| ruleset.restrict_self());
}
