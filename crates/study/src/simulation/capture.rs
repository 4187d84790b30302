//! What crossed a link, in a file of each run.

use crate::Error;
use crate::report::{nearest, pcapng};
use fairspan_sim::results::Captured;
use fairspan_sim::scenario::Run;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// What to record of each run, and where to.
#[derive(Debug)]
pub struct Captures {
    /// Names of links, of rings too.
    links: Vec<String>,
    /// `FOLDER/NAME`; a run's number and the ending are added.
    stem: PathBuf,
    /// Whether there are several runs, whose numbers then stand in the names.
    numbered: bool,
}

/// One run's capture.
#[derive(Debug)]
pub(super) struct Capture {
    writer: pcapng::Writer<BufWriter<File>>,
    path: PathBuf,
    /// Numbers of the links in the scenario, in the order of the file's interfaces.
    links: Vec<u32>,
}

impl Captures {
    /// Records `links` of each of `runs` runs in files that begin with `stem`.
    pub fn new(links: &[String], stem: &Path, runs: usize) -> Captures {
        Captures { links: links.to_vec(), stem: stem.to_owned(), numbered: runs > 1 }
    }

    /// The file of run `number`.
    fn path(&self, number: usize) -> PathBuf {
        let mut path = self.stem.clone().into_os_string();
        if self.numbered {
            path.push(format!("-{number}"));
        }
        path.push(".pcapng");
        PathBuf::from(path)
    }

    /// Opens the file of `run` and asks the run for its packets.
    pub(super) fn begin(&self, run: &mut Run) -> Result<Capture, Error> {
        let mut numbers = Vec::new();
        for name in &self.links {
            let Some(number) = run.scenario.captured(name) else {
                let known: Vec<String> = run.scenario.capturable().collect();
                let near = nearest(name, known.iter().map(String::as_str));
                return Err(Error::Input(format!("--pcap: there is no link `{name}`; did you mean `{near}`?")));
            };
            numbers.push(number);
        }
        run.scenario.metrics.capture.clone_from(&numbers);
        let path = self.path(run.number);
        let open = || -> std::io::Result<_> {
            let names: Vec<&str> = self.links.iter().map(String::as_str).collect();
            let comment = format!("{}, run {}, seed {}", run.scenario.title, run.number, run.seed);
            pcapng::Writer::new(BufWriter::new(File::create(&path)?), &comment, &names)
        };
        let writer = open().map_err(|error| Error::write(&path, error))?;
        Ok(Capture { writer, path, links: numbers })
    }
}

impl Capture {
    pub(super) fn write(&mut self, packets: &[Captured]) -> Result<(), Error> {
        for packet in packets {
            let Some(interface) = self.links.iter().position(|&link| link == packet.link) else { continue };
            self.writer
                .packet(interface as u32, packet.at.as_nanos(), &packet.bytes, packet.length)
                .map_err(|error| Error::write(&self.path, error))?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), Error> {
        let path = self.path;
        self.writer.finish().map_err(|error| Error::write(&path, error))?;
        Ok(())
    }
}
