//! `fairspan top`: what all daemons of this host do, live, in the terminal.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | the terminal, the keys, and who asks the daemons |
//! | `model` | what is known |
//! | `screen` | how that looks |
//!
//! Threads ask the daemons, one each, by their control sockets, so that one that hangs holds up no key and no other daemon. The terminal is given back as it
//! was, also after a panic and a signal.

mod model;
mod screen;
#[cfg(test)]
mod tests;

use super::status::sockets;
use crate::exit::{BadInput, Outcome};
use anyhow::Context;
use fairspan_live::config::{CONTROL_FOLDER, default_control_socket};
use fairspan_live::control::{self, Request, Taken};
use model::{Answer, Model};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use screen::Choice;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often the daemons are asked.
const EVERY: Duration = Duration::from_secs(1);
/// How long an answer is waited for before the others are shown without it.
const ANSWER: Duration = Duration::from_millis(800);
/// What is said of a daemon that has not answered by then.
const HANGS: &str = "it takes long to answer";
/// Longest wait for a key before signals are looked at.
const KEYS: Duration = Duration::from_millis(100);
/// Lines by which PgUp and PgDn move the lower half.
const PAGE: u16 = 5;

/// Show what running daemons do, live: each link's rates, delay, loss, queue and share, flows, events, and what was decided and why.
/// `?` shows the keys.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The interface's name; default: every daemon on this machine
    name: Option<String>,
    /// Ask at this control socket instead
    #[arg(long, conflicts_with = "name")]
    socket: Option<PathBuf>,
}

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Nothing,
    End(Outcome),
    /// Take this channel of the peer out, or in: the daemon's socket, peer, channel, whether out.
    Take(PathBuf, String, String, bool),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(
            BadInput("`top` needs a terminal: `fairspan status` prints what there is to tell".to_owned()).into()
        );
    }
    let one = args.socket.clone().or_else(|| args.name.as_deref().map(default_control_socket));
    // A named one that is not there is told at once.
    if let Some(path) = &one {
        control::ask(path, &Request::Status).map_err(|error| not_there(path, error))?;
    }
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        signal_hook::flag::register(signal, ended.clone()).context("signals")?;
    }
    let (answers, taken) = channel();
    thread::spawn(move || ask_for_ever(one.as_deref(), &answers));
    let mut terminal = ratatui::try_init().context("the terminal")?;
    let outcome = show(&mut terminal, &taken, &ended);
    // Also where the last words could not be drawn.
    let restored = ratatui::try_restore().context("the terminal");
    outcome.and_then(|outcome| restored.map(|()| outcome))
}

fn not_there(path: &Path, error: std::io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            anyhow::anyhow!("no daemon answers at {}: is `fairspan up` running?", path.display())
        }
        _ => anyhow::Error::from(error).context(path.display().to_string()),
    }
}

/// Asks all daemons once a second, until nobody wants to know.
fn ask_for_ever(one: Option<&Path>, answers: &Sender<Vec<Answer>>) {
    let mut asked = Asked::default();
    loop {
        let began = Instant::now();
        let sockets = match one {
            Some(one) => vec![one.to_owned()],
            None => sockets(Path::new(CONTROL_FOLDER)).unwrap_or_default(),
        };
        if answers.send(asked.round(sockets, began + ANSWER, one.is_some())).is_err() {
            return;
        }
        thread::sleep(EVERY.saturating_sub(began.elapsed()));
    }
}

/// Daemons that were asked and have not answered, each by a thread of its own.
struct Asked {
    waiting: BTreeSet<PathBuf>,
    tell: Sender<(PathBuf, std::io::Result<String>)>,
    told: Receiver<(PathBuf, std::io::Result<String>)>,
}

impl Default for Asked {
    fn default() -> Asked {
        let (tell, told) = channel();
        Asked { waiting: BTreeSet::new(), tell, told }
    }
}

impl Asked {
    /// Asks each daemon, unless it has not answered the last time yet; what they said by `end`, or why not. `is_meant`: one was asked for by name.
    fn round(&mut self, sockets: Vec<PathBuf>, end: Instant, is_meant: bool) -> Vec<Answer> {
        for socket in &sockets {
            if self.waiting.insert(socket.clone()) {
                let (socket, tell) = (socket.clone(), self.tell.clone());
                thread::spawn(move || {
                    let said = control::ask(&socket, &Request::Status);
                    tell.send((socket, said))
                });
            }
        }
        let mut said = BTreeMap::new();
        while sockets.iter().any(|socket| self.waiting.contains(socket)) {
            let Ok((socket, answer)) = self.told.recv_timeout(end.saturating_duration_since(Instant::now())) else {
                break;
            };
            self.waiting.remove(&socket);
            said.insert(socket, answer);
        }
        let all = sockets.into_iter().filter_map(|socket| {
            let answer = match said.remove(&socket) {
                Some(Ok(text)) => serde_json::from_str(&text)
                    .map(Box::new)
                    .map_err(|error| format!("its answer is of another version: {error}")),
                // What a killed daemon left.
                Some(Err(error)) if error.kind() == ErrorKind::ConnectionRefused && !is_meant => return None,
                Some(Err(error)) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    Err(error.to_string())
                }
                // It was asked, and has not answered even in the time that the question has.
                Some(Err(_)) | None => Err(HANGS.to_owned()),
            };
            Some((socket, answer))
        });
        all.collect()
    }
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    answers: &Receiver<Vec<Answer>>,
    ended: &AtomicBool,
) -> anyhow::Result<Outcome> {
    let (mut model, mut choice) = (Model::default(), Choice::default());
    let (tell, told) = channel();
    let mut is_new = true;
    loop {
        if ended.load(Ordering::SeqCst) {
            return Ok(Outcome::Done);
        }
        while let Ok(answer) = answers.try_recv() {
            if !model.paused {
                model.take(answer);
                is_new = true;
            }
        }
        if let Ok(message) = told.try_recv() {
            choice.message = Some(message);
            is_new = true;
        }
        if is_new {
            terminal.draw(|frame| screen::draw(frame, &model, &choice, &clock())).context("the terminal")?;
            is_new = false;
        }
        if !event::poll(KEYS).context("keys")? {
            continue;
        }
        // The terminal's size may have changed.
        is_new = true;
        let Event::Key(key) = event::read().context("keys")? else { continue };
        match pressed(key, &mut model, &mut choice) {
            Wish::Nothing => {}
            Wish::End(outcome) => return Ok(outcome),
            // A daemon that hangs holds up no key.
            Wish::Take(socket, peer, channel, out) => {
                let tell = tell.clone();
                thread::spawn(move || tell.send(take(&socket, peer, channel, out)));
            }
        }
    }
}

/// Does what a key says.
fn pressed(key: KeyEvent, model: &mut Model, choice: &mut Choice) -> Wish {
    if key.kind == KeyEventKind::Release {
        return Wish::Nothing;
    }
    choice.message = None;
    if std::mem::take(&mut choice.help) {
        return Wish::Nothing;
    }
    let rows = model.rows();
    let place = choice.place(&rows);
    let key_at = |place: usize| rows.get(place).map(model::Row::key);
    // What is marked stays marked, wherever it goes.
    choice.marked = key_at(place);
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Wish::End(Outcome::Interrupted),
        KeyCode::Char('q') | KeyCode::Esc => return Wish::End(Outcome::Done),
        KeyCode::Char('p' | ' ') => model.paused = !model.paused,
        KeyCode::Char('s') => {
            drop(rows);
            model.sort = model.sort.next();
        }
        KeyCode::Up | KeyCode::Char('k') => choice.marked = key_at(place.saturating_sub(1)),
        KeyCode::Down | KeyCode::Char('j') => choice.marked = key_at((place + 1).min(rows.len().saturating_sub(1))),
        KeyCode::PageUp => choice.scrolled = choice.scrolled.saturating_sub(PAGE),
        KeyCode::PageDown => choice.scrolled = choice.scrolled.saturating_add(PAGE).min(500),
        KeyCode::Tab => (choice.tab, choice.scrolled) = (choice.tab.next(), 0),
        KeyCode::Char('?' | 'h') => choice.help = true,
        KeyCode::Char('o') => {
            let Some(row) = rows.get(place) else { return Wish::Nothing };
            let Some(is_out) = row.link.taken_out else {
                choice.message =
                    Some("only channels of peers can be taken out, and not in modes flow and stripe".into());
                return Wish::Nothing;
            };
            return Wish::Take(row.daemon.socket.clone(), row.link.of.clone(), row.link.name.clone(), !is_out);
        }
        _ => {}
    }
    Wish::Nothing
}

/// Has a daemon take a channel out or in; what became of it.
fn take(socket: &Path, peer: String, channel: String, out: bool) -> String {
    let name = channel.clone();
    let request = if out { Request::TakeOut { peer, channel } } else { Request::TakeIn { peer, channel } };
    let taken = control::ask(socket, &request).map_err(|error| error.to_string());
    match taken.and_then(|text| serde_json::from_str::<Taken>(&text).map_err(|error| error.to_string())) {
        Ok(Taken { ok: true, .. }) if out => {
            format!("{name} is out of use while there are others; o takes it in again")
        }
        Ok(Taken { ok: true, .. }) => format!("{name} is in use again"),
        Ok(Taken { problem, .. }) => problem.unwrap_or_default(),
        Err(problem) => problem,
    }
}

/// The time of day, UTC, as events have it.
fn clock() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() % 86_400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
