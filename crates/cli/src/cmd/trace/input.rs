//! Files and standard input, read as captures until their end or until somebody interrupts.

use super::progress::Progress;
use crate::exit::{BadInput, Outcome};
use crate::testbed::Interrupt;
use anyhow::Result;
use fairspan_trace::capture::stream::{Format, Stream};
use fairspan_trace::capture::{CaptureError, Captured};
use fairspan_trace::merged::{Merged, Next};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// How long a source is waited for before it is asked whether somebody interrupted.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Errors of one file that are told one by one.
const TOLD: usize = 3;

/// What is said of a capture that is whole and has no packet.
pub(crate) const WITHOUT_PACKETS: &str =
    "a capture without packets: nothing was captured, or its filter let nothing through";

/// Which captures.
#[derive(clap::Args)]
pub(super) struct Files {
    /// Captures: pcap, pcapng, ERF, TSH or ITA text, also packed (gzip, xz, zstd); - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The format of the captures, where it is not to be found out: pcap, pcapng, erf, tsh or ita
    #[arg(long, value_name = "NAME")]
    format: Option<Format>,
}

/// What takes the packets.
pub(super) trait Sink {
    /// A packet, whose time is not before the last one's.
    fn packet(&mut self, packet: &Captured<'_>);
    /// What cannot be read.
    fn unreadable(&mut self, error: &CaptureError);
    /// Whether it wants no more.
    fn is_done(&self) -> bool {
        false
    }
}

/// How the reading ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Somebody interrupted it.
    interrupted: bool,
    /// Files that could not be read to their end, and why.
    problems: Vec<String>,
}

impl Ended {
    /// Whether somebody interrupted it.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// The outcome of the command, once its result is printed.
    pub(super) fn outcome(self) -> Result<Outcome> {
        if self.interrupted {
            return Ok(Outcome::Interrupted);
        }
        if self.problems.is_empty() {
            Ok(Outcome::Done)
        } else {
            Err(BadInput(self.problems.join("\nfairspan: ")).into())
        }
    }
}

/// A source that an interrupt ends.
struct Watched {
    file: File,
    interrupt: Interrupt,
    progress: Rc<RefCell<Progress>>,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.interrupt.check().map_err(io::Error::other)?;
            let mut ready = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut ready, Some(&PATIENCE)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let read = self.file.read(buffer)?;
        self.progress.borrow_mut().advance(read);
        Ok(read)
    }
}

/// Who hears of what cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tell {
    /// The user.
    User,
    /// Nobody: it is read once more.
    Nobody,
}

impl Files {
    /// Whether all of them can be read more than once.
    pub(super) fn can_be_read_again(&self) -> bool {
        let is_file = |file: &PathBuf| file.metadata().is_ok_and(|about| about.is_file());
        self.files.iter().all(|file| file.as_os_str() != "-" && is_file(file))
    }

    /// Reads all of them as one sequence, by their times.
    ///
    /// # Errors
    /// None of them is a capture, or they are named in a way that cannot be right.
    pub(super) fn read(&self, sink: &mut impl Sink, tell: Tell) -> Result<Ended> {
        if self.files.iter().filter(|file| file.as_os_str() == "-").count() > 1 {
            return Err(BadInput("- is standard input, and can be read only once".into()).into());
        }
        let interrupt = Interrupt::install()?;
        let progress = Rc::new(RefCell::new(Progress::new()));
        let mut ended = Ended::default();
        let mut merged = Merged::default();
        let mut captures = 0;
        for (number, file) in self.files.iter().enumerate() {
            let name = name(file);
            let opened = open(file, &progress).map_err(|error| error.to_string()).and_then(|file| {
                let watched = Watched { file, interrupt: interrupt.clone(), progress: Rc::clone(&progress) };
                Stream::open(watched, &name, self.format).map_err(|error| error.to_string())
            });
            match opened {
                Ok(stream) => merged.add(number, stream),
                Err(_) if interrupt.check().is_err() => break,
                Err(error) => {
                    ended.problems.push(format!("{name}: {error}"));
                    continue;
                }
            }
            captures += 1;
        }
        if captures == 0 && interrupt.check().is_ok() {
            return Err(BadInput(ended.problems.join("\nfairspan: ")).into());
        }
        let mut told = vec![0; self.files.len()];
        while let Some(next) = merged.poll() {
            match next {
                Next::Packet(packet) => {
                    sink.packet(&packet);
                    if sink.is_done() {
                        break;
                    }
                }
                // What an interrupt cuts off is no error of the file.
                Next::Error(..) if interrupt.check().is_err() => break,
                Next::Error(number, error) => {
                    sink.unreadable(&error);
                    let name = name(&self.files[number]);
                    if error.is_last() {
                        ended.problems.push(format!("{name}: {error}"));
                        continue;
                    }
                    told[number] += 1;
                    if told[number] <= TOLD && error.loses_packets() {
                        ended.problems.push(format!("{name}: {error}"));
                    } else if told[number] <= TOLD && tell == Tell::User {
                        eprintln!("fairspan: {name}: {error}");
                    }
                }
            }
        }
        ended.interrupted = interrupt.check().is_err();
        if tell == Tell::Nobody {
            return Ok(ended);
        }
        for number in merged.without_packets() {
            eprintln!("fairspan: {}: {WITHOUT_PACKETS}", name(&self.files[*number]));
        }
        for (file, more) in self.files.iter().zip(&told).filter(|(_, told)| **told > TOLD) {
            eprintln!("fairspan: {}: {} more packets like these", name(file), more - TOLD);
        }
        if merged.backwards() > 0 {
            eprintln!(
                "fairspan: the clock steps back before {} packets; taken are the times before them",
                merged.backwards()
            );
        }
        if ended.interrupted {
            eprintln!("fairspan: interrupted; this is the result so far");
        }
        Ok(ended)
    }
}

fn name(file: &Path) -> String {
    if file.as_os_str() == "-" { "standard input".to_owned() } else { file.display().to_string() }
}

fn open(file: &Path, progress: &RefCell<Progress>) -> io::Result<File> {
    let opened =
        if file.as_os_str() == "-" { File::from(io::stdin().as_fd().try_clone_to_owned()?) } else { File::open(file)? };
    let about = opened.metadata()?;
    if about.is_dir() {
        return Err(io::Error::other("is a directory"));
    }
    progress.borrow_mut().expect(about.is_file().then_some(about.len()));
    Ok(opened)
}
