//! What the terminal page knows: the daemons of the host, what they told last, and what their links did lately.

use fairspan_live::events::EventStatus;
use fairspan_live::links::{self, LinkReading};
use fairspan_live::status::Status;
use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

/// Samples of each link that are kept: as many as a wide terminal shows.
const SAMPLES: usize = 240;

/// What one daemon answered, or why it did not.
pub(super) type Answer = (PathBuf, Result<Box<Status>, String>);

/// A daemon.
#[derive(Debug)]
pub(super) struct Daemon {
    pub(super) socket: PathBuf,
    pub(super) name: String,
    pub(super) status: Option<Box<Status>>,
    /// Why it does not answer now.
    pub(super) problem: Option<String>,
    links: Vec<LinkReading>,
    counted: Vec<LinkReading>,
}

/// What a link did in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) sent: f64,
    pub(super) received: f64,
    pub(super) delay: Option<f64>,
    pub(super) up: bool,
}

/// A link as it is shown.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) daemon: &'a Daemon,
    pub(super) link: &'a LinkReading,
    /// Its share of what its peer, or its daemon, sends.
    pub(super) share: Option<f64>,
}

impl Row<'_> {
    /// What tells it from all others.
    pub(super) fn key(&self) -> Key {
        (self.daemon.name.clone(), self.link.of.clone(), self.link.name.clone())
    }
}

/// Daemon, whose link, its name.
pub(super) type Key = (String, String, String);

/// By what links are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Configured,
    Sends,
    Receives,
    Delay,
    Loss,
    Name,
}

impl Sort {
    pub(super) fn next(self) -> Sort {
        match self {
            Sort::Configured => Sort::Sends,
            Sort::Sends => Sort::Receives,
            Sort::Receives => Sort::Delay,
            Sort::Delay => Sort::Loss,
            Sort::Loss => Sort::Name,
            Sort::Name => Sort::Configured,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Sort::Configured => "as configured",
            Sort::Sends => "by what they send",
            Sort::Receives => "by what they receive",
            Sort::Delay => "by delay",
            Sort::Loss => "by loss",
            Sort::Name => "by name",
        }
    }

    /// The largest first, but names.
    fn order(self, a: &Row<'_>, b: &Row<'_>) -> Ordering {
        let most = |value: fn(&LinkReading) -> Option<f64>| {
            let of = |row: &Row<'_>| value(row.link).unwrap_or(-1.0);
            of(b).total_cmp(&of(a))
        };
        match self {
            Sort::Configured => Ordering::Equal,
            Sort::Sends => most(|link| link.sent_mbit),
            Sort::Receives => most(|link| link.received_mbit),
            Sort::Delay => most(|link| link.delay_ms),
            Sort::Loss => most(|link| link.loss),
            Sort::Name => a.key().cmp(&b.key()),
        }
    }
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) daemons: Vec<Daemon>,
    seen: HashMap<Key, VecDeque<Seen>>,
    pub(super) sort: Sort,
    pub(super) paused: bool,
    /// Whether there was an answer of any kind yet.
    pub(super) has_asked: bool,
}

impl Model {
    /// Takes what all daemons answered. Those that are gone are forgotten once they have not answered twice.
    pub(super) fn take(&mut self, answers: Vec<Answer>) {
        self.has_asked = true;
        self.daemons.retain(|daemon| {
            let is_there = answers.iter().any(|(socket, _)| *socket == daemon.socket);
            is_there || daemon.problem.is_none()
        });
        for daemon in &mut self.daemons {
            if !answers.iter().any(|(socket, _)| *socket == daemon.socket) {
                daemon.lose("its control socket is gone: it has ended");
            }
        }
        for (socket, answer) in answers {
            let place = self.daemons.iter().position(|daemon| daemon.socket == socket).unwrap_or_else(|| {
                self.daemons.push(Daemon::new(&socket));
                self.daemons.len() - 1
            });
            let daemon = &mut self.daemons[place];
            match answer {
                Ok(status) => daemon.take(status),
                Err(problem) => daemon.lose(&problem),
            }
            for link in &daemon.links {
                let key = (daemon.name.clone(), link.of.clone(), link.name.clone());
                let list = self.seen.entry(key).or_default();
                if list.len() == SAMPLES {
                    list.pop_front();
                }
                list.push_back(Seen {
                    sent: link.sent_mbit.unwrap_or(0.0),
                    received: link.received_mbit.unwrap_or(0.0),
                    delay: link.delay_ms,
                    up: link.up && daemon.problem.is_none(),
                });
            }
        }
        let known = |key: &Key| self.daemons.iter().any(|daemon| daemon.name == key.0);
        self.seen.retain(|key, _| known(key));
    }

    /// The links in the order in which they are shown.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let mut rows: Vec<Row<'_>> = self.daemons.iter().flat_map(Daemon::rows).collect();
        rows.sort_by(|a, b| self.sort.order(a, b));
        rows
    }

    /// What a link did lately, the newest last.
    pub(super) fn seen(&self, key: &Key) -> impl DoubleEndedIterator<Item = &Seen> {
        self.seen.get(key).into_iter().flatten()
    }

    /// The events of all daemons, the newest first.
    pub(super) fn events(&self) -> Vec<(&Daemon, &EventStatus)> {
        let of = |daemon: &'_ Daemon| daemon.status.as_ref().map(|status| status.events.len()).unwrap_or_default();
        let mut all = Vec::with_capacity(self.daemons.iter().map(of).sum());
        for daemon in &self.daemons {
            all.extend(daemon.status.iter().flat_map(|status| &status.events).map(|event| (daemon, event)));
        }
        all.sort_by(|(_, a), (_, b)| b.at.total_cmp(&a.at));
        all
    }
}

impl Daemon {
    fn new(socket: &Path) -> Daemon {
        let name = socket.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let socket = socket.to_owned();
        Daemon { socket, name, status: None, problem: None, links: Vec::new(), counted: Vec::new() }
    }

    fn take(&mut self, status: Box<Status>) {
        let counted = links::links(&status);
        let mut links = counted.clone();
        if let Some(before) = &self.status {
            links::measure(&mut links, &self.counted, status.uptime_s - before.uptime_s);
        }
        self.problem = None;
        (self.links, self.counted, self.status) = (links, counted, Some(status));
    }

    /// It did not answer: what it told last stays, and its rates are not known.
    fn lose(&mut self, problem: &str) {
        self.problem = Some(problem.to_owned());
        for link in &mut self.links {
            link.up = false;
            (link.sent_mbit, link.received_mbit) = (None, None);
            "?".clone_into(&mut link.state);
        }
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let sent = |link: &LinkReading| link.sent_mbit.unwrap_or(0.0);
        self.links.iter().map(move |link| {
            let all: f64 = self.links.iter().filter(|other| other.of == link.of).map(sent).sum();
            let share = (all > 0.0).then(|| sent(link) / all);
            Row { daemon: self, link, share }
        })
    }
}
