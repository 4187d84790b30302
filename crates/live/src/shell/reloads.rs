//! When the configuration file is read again, and what comes of it.
//!
//! The helper reads it ([`crate::helper`]); the daemon waits for that as for anything else.

use crate::config::Config;
use crate::helper::{self, Answer, Helper};
use crate::reloaded::{Notice, Reloaded};
use crate::shell::poller::{Poller, Token, Turn};
use rustix::io::Errno;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

/// Who reads the file, and who asks for it.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    helper: Option<Helper>,
    asked: Option<(UnixStream, Token)>,
    /// How often the helper was asked and has not answered.
    reading: u32,
}

impl Reloads {
    pub(super) fn follow(&mut self, mut helper: Helper, asked: UnixStream, poller: &Poller) -> Result<(), Errno> {
        helper.watch(poller)?;
        let token = poller.watch(asked.as_fd(), Turn::Others)?;
        (self.helper, self.asked) = (Some(helper), Some((asked, token)));
        Ok(())
    }

    /// Whether `token` tells of a wish, or of what was read.
    pub(super) fn is(&self, token: Token) -> bool {
        let helper = self.helper.as_ref().is_some_and(|helper| helper.is(token));
        helper || self.asked.as_ref().is_some_and(|(_, asked)| *asked == token)
    }

    /// Has the file read; why that cannot be, if it cannot. What is being read just now may be older than the wish, so it is read once
    /// more.
    pub(super) fn begin(&mut self) -> Option<Reloaded> {
        if self.helper.as_mut().is_some_and(Helper::ask_configuration) {
            self.reading += 1;
            return None;
        }
        if self.helper.is_none() {
            return Some(Reloaded::impossible(
                "this daemon was started without a file: start it again with other options",
            ));
        }
        let problem = "the process that reads the configuration for this daemon is gone: start the daemon again";
        Some(Reloaded::impossible(problem))
    }

    /// Has a name's addresses asked for.
    pub(super) fn ask_addresses(&mut self, host: &str) {
        if let Some(helper) = &mut self.helper {
            helper.ask_addresses(host);
        }
    }

    /// Whether all has been read that was asked for.
    pub(super) fn is_done(&self) -> bool {
        self.reading == 0
    }

    /// What was read, if `token` told of that.
    pub(super) fn poll(&mut self, token: Token) -> Option<io::Result<Answer>> {
        if let Some((stream, asked)) = &mut self.asked
            && *asked == token
        {
            let mut signals = [0; 64];
            if !matches!(stream.read(&mut signals), Ok(1..)) {
                return None;
            }
            return self.begin().map(|_| Err(io::ErrorKind::BrokenPipe.into()));
        }
        let answer = self.helper.as_mut()?.poll().transpose();
        self.reading = match &answer {
            Some(Ok(Answer::Addresses(..))) => self.reading,
            Some(Ok(_)) => self.reading.saturating_sub(1),
            Some(Err(_)) => 0,
            None => self.reading,
        };
        answer
    }

    /// Has `take_over` take the configuration over that was read.
    pub(super) fn complete(&self, read: io::Result<Answer>, take_over: impl FnOnce(Config) -> Reloaded) -> Reloaded {
        let file = self.helper.as_ref().map(Helper::file).unwrap_or_else(|| "".as_ref());
        let mut reloaded = match read {
            Ok(Answer::Configuration(text, files, notices)) => match helper::parse(file, text, &files) {
                Ok(config) => Reloaded { notices, ..take_over(config) },
                Err(error) => Reloaded::refused(Notice::from(&error)),
            },
            Ok(Answer::Addresses(..)) => return Reloaded::default(),
            Ok(Answer::Wrong(wrong)) => Reloaded::refused(wrong),
            Err(error) => {
                let problem = "the process that reads the configuration for this daemon is gone";
                Reloaded::impossible(format!("{problem} ({error}): start the daemon again"))
            }
        };
        if reloaded.file.is_empty() {
            reloaded.file = crate::config::veiled("", &file.display().to_string());
        }
        reloaded
    }
}
