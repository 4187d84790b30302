//! The page's thread: it takes what the daemon tells, keeps the history, and answers browsers.

use super::super::poller::{Poller, Ready, Token, Turn};
use super::access::{Access, Right};
use super::client::{Client, Next};
use super::history::History;
use super::http::{Answer, Method, Request, Status as Code};
use super::logins::Session;
use super::page::Page;
use super::sample::{Order, Sample};
use super::view::{Latest, document, event};
use crate::clock::{Clock, until};
use crate::events::wall_clock;
use fairspan_core::units::{Span, Time};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{IpAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

/// Most clients at once.
const CLIENTS: usize = 64;
/// Most streams among them.
const STREAMS: usize = 16;
/// Most clients let in before those that are there have their turn again.
const BURST: usize = 16;
/// Longest sleep.
const SLEEP: Span = Span::from_secs(60);
/// Wait after a browser that could not be let in.
const BREATH: Duration = Duration::from_millis(200);
/// Longest that the daemon takes to do what somebody wants.
const DONE_WITHIN: Duration = Duration::from_secs(1);
/// Points of a history that are given at most, and where nobody says how many.
const POINTS: [u64; 2] = [2000, 300];

/// What the thread has.
pub(super) struct Server {
    pub(super) listener: TcpListener,
    pub(super) samples: Receiver<Sample>,
    /// Readable when there is a sample, or none will come any more.
    pub(super) woken: Arc<OwnedFd>,
    pub(super) orders: SyncSender<Order>,
    pub(super) ordered: Arc<OwnedFd>,
    /// Samples that wait.
    pub(super) waiting: Arc<AtomicUsize>,
    /// Whether somebody looks at the page.
    pub(super) looked_at: Arc<AtomicBool>,
    pub(super) access: Access,
    pub(super) history: History,
}

/// The server while it runs.
struct Running {
    server: Server,
    poller: Poller,
    clock: Clock,
    listening: Token,
    /// In the order in which they came.
    clients: VecDeque<Client>,
    latest: Option<Latest>,
    page: Page,
}

impl Server {
    /// Serves until no more samples come.
    pub(super) fn run(self) {
        match self.serve() {
            Ok(()) => {}
            Err(error) => tracing::error!(%error, "the page is not served any more"),
        }
    }

    fn serve(self) -> Result<(), rustix::io::Errno> {
        let poller = Poller::new()?;
        let listening = poller.watch(self.listener.as_fd(), Turn::Others)?;
        let waking = poller.watch(self.woken.as_fd(), Turn::Others)?;
        let page = Page::new();
        let (clock, clients) = (Clock::start(), VecDeque::new());
        let mut running = Running { server: self, poller, clock, listening, clients, latest: None, page };
        let mut events = Vec::with_capacity(CLIENTS);
        loop {
            let now = running.clock.now();
            let next = running.clients.iter().map(|client| client.until).min().unwrap_or(now + SLEEP);
            running.poller.wait(&mut events, &until(now, next))?;
            let now = running.clock.now();
            for ready in events.iter().map(Ready::from) {
                if running.poller.turn(ready.token).is_none() {
                    continue;
                }
                if ready.token == waking {
                    if !running.take_samples(now) {
                        return Ok(());
                    }
                } else if ready.token == running.listening {
                    running.accept(now);
                } else {
                    running.advance(now, ready);
                }
            }
            while let Some(place) = running.clients.iter().position(|client| client.until <= now) {
                running.close(place);
            }
        }
    }
}

impl Running {
    /// Takes what the daemon told; false when it ends.
    fn take_samples(&mut self, now: Time) -> bool {
        let _ = rustix::io::read(&self.server.woken, &mut [0; 8]);
        loop {
            match self.server.samples.try_recv() {
                Ok(sample) => {
                    self.take(now, sample);
                    self.server.waiting.fetch_sub(1, Ordering::AcqRel);
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => {
                    self.server.history.store(wall_clock() as u64);
                    return false;
                }
            }
        }
    }

    fn take(&mut self, now: Time, sample: Sample) {
        let mut latest = Latest::new(sample, self.latest.as_ref());
        latest.places = self.server.history.add(latest.at as u64, &latest.links);
        self.latest = Some(latest);
        // Who has logged out, or whose session is over, sees nothing more.
        let access = &mut self.server.access;
        let streams = self.clients.iter().filter(|client| client.is_stream);
        let over: Vec<Token> =
            streams.filter(|client| !access.goes_on(now, client.session)).map(|client| client.token).collect();
        over.into_iter().for_each(|token| self.close_by(token));
        let looked_at = self.clients.iter().any(|client| client.is_stream);
        self.server.looked_at.store(looked_at, Ordering::Relaxed);
        if !looked_at {
            return;
        }
        let Some(latest) = &self.latest else { return };
        let next = event(latest, &self.server.history, self.server.access.may_control());
        let poller = &self.poller;
        let gone: Vec<Token> = self
            .clients
            .iter_mut()
            .filter(|client| client.is_stream)
            .filter_map(|client| (!client.push(now, poller, &next)).then_some(client.token))
            .collect();
        gone.into_iter().for_each(|token| self.close_by(token));
    }

    fn accept(&mut self, now: Time) {
        for _ in 0..BURST {
            let caller = match self.server.listener.accept() {
                Ok((stream, from)) => (stream, from.ip()),
                Err(error) => {
                    if error.kind() != ErrorKind::WouldBlock {
                        // As when the process has no descriptor left: who waits is told of at once again.
                        thread::sleep(BREATH);
                    }
                    return;
                }
            };
            if self.clients.len() == CLIENTS {
                // Who only asks gives way, the oldest first.
                let Some(place) = self.clients.iter().position(|client| !client.is_stream) else { return };
                self.close(place);
            }
            match Client::new(now, caller, &self.poller) {
                Ok(client) => self.clients.push_back(client),
                Err(error) => tracing::debug!(%error, "a browser is turned away"),
            }
        }
    }

    fn close(&mut self, place: usize) {
        if let Some(client) = self.clients.remove(place) {
            self.poller.forget(client.token);
        }
    }

    fn close_by(&mut self, token: Token) {
        if let Some(place) = self.clients.iter().position(|client| client.token == token) {
            self.close(place);
        }
    }

    fn advance(&mut self, now: Time, ready: Ready) {
        let Some(place) = self.clients.iter().position(|client| client.token == ready.token) else { return };
        let client = &mut self.clients[place];
        if ready.writable && client.is_answered() && !client.write(now, &self.poller) {
            return self.close(place);
        }
        if !ready.readable {
            return;
        }
        let from = self.clients[place].from;
        let (answer, method) = match self.clients[place].read() {
            Next::Stays => return,
            Next::Done => return self.close(place),
            Next::Wrong(status) => (Answer::text(status, "this is no request that is answered here"), Method::Get),
            Next::Asks(request) => match self.answer(now, from, &request) {
                Wanted::Answer(answer) => (answer, request.method),
                Wanted::Stream(session) => return self.begin_stream(now, ready.token, session),
            },
        };
        // What was asked for may have ended others.
        let Some(place) = self.clients.iter().position(|client| client.token == ready.token) else { return };
        if !self.clients[place].answer(now, &self.poller, &answer, method) {
            self.close(place);
        }
    }

    fn begin_stream(&mut self, now: Time, token: Token, session: Option<Session>) {
        let Some(place) = self.clients.iter().position(|client| client.token == token) else { return };
        let event =
            self.latest.as_ref().map(|latest| event(latest, &self.server.history, self.server.access.may_control()));
        let client = &mut self.clients[place];
        client.session = session;
        let begun =
            client.begin_stream(now, &self.poller) && event.is_none_or(|event| client.push(now, &self.poller, &event));
        match begun {
            true => self.server.looked_at.store(true, Ordering::Relaxed),
            false => self.close(place),
        }
    }

    /// What a request is to have.
    fn answer(&mut self, now: Time, from: IpAddr, request: &Request) -> Wanted {
        let right = match self.server.access.right(now, from, request) {
            Ok(right) => right,
            Err((status, why)) => return Wanted::Answer(Answer::text(status, why)),
        };
        let is_look = request.method != Method::Post;
        Wanted::Answer(match (request.path.as_str(), right) {
            ("/login", _) if !is_look => self.log_in(now, from, request),
            ("/favicon.ico", _) if is_look => Answer::text(Code::NotFound, "there is none"),
            ("/", Right::Login) if is_look => self.page.login(None),
            (_, Right::Login) => Answer::text(Code::Unauthorized, "this needs interface.web_password"),
            ("/live", Right::See(session)) if request.method == Method::Get && self.latest.is_some() => {
                if self.clients.iter().filter(|client| client.is_stream).count() < STREAMS {
                    return Wanted::Stream(session);
                }
                Answer::text(Code::Unavailable, "as many browsers look at this page as may")
            }
            (_, Right::See(_)) if is_look => self.look(request),
            ("/logout", Right::See(session)) => {
                let headers = vec![("Location", "/".to_owned()), ("Set-Cookie", self.server.access.log_out(session))];
                Answer { headers, ..Answer::text(Code::SeeOther, "") }
            }
            ("/take-out", Right::See(_)) => self.order(request, true),
            ("/take-in", Right::See(_)) => self.order(request, false),
            _ => nothing(),
        })
    }

    /// What somebody sees.
    fn look(&self, request: &Request) -> Answer {
        let Some(latest) = &self.latest else {
            return Answer::text(Code::Unavailable, "the daemon has just begun: ask again");
        };
        let (history, access) = (&self.server.history, &self.server.access);
        match request.path.as_str() {
            "/" => self.page.html(latest, history, access),
            "/status.json" => Answer::json(serde_json::to_string(&latest.status).unwrap_or_default()),
            "/view.json" => Answer::json(document(latest, history, access.may_control())),
            "/history.json" => history_of(history, request).unwrap_or_else(nothing),
            _ => nothing(),
        }
    }

    fn log_in(&mut self, now: Time, from: IpAddr, request: &Request) -> Answer {
        if !self.server.access.has_password() {
            return Answer::text(Code::NotFound, "there is no password");
        }
        match self.server.access.log_in(now, from, &request.form("password").unwrap_or_default()) {
            Ok(cookie) => {
                let headers = vec![("Location", "/".to_owned()), ("Set-Cookie", cookie)];
                Answer { headers, ..Answer::text(Code::SeeOther, "") }
            }
            Err((status, why)) => Answer { status, ..self.page.login(Some(why)) },
        }
    }

    /// Has the daemon do what somebody wants.
    fn order(&self, request: &Request, out: bool) -> Answer {
        if !self.server.access.may_control() {
            return Answer::text(Code::Forbidden, "this page shows, and changes nothing: interface.web_control");
        }
        let (Some(of), Some(name)) = (request.form("of"), request.form("name")) else {
            return Answer::text(Code::BadRequest, "say which link: of and name");
        };
        let (answer, answered) = sync_channel(1);
        if self.server.orders.try_send(Order { of, name, out, answer }).is_err() {
            return Answer::text(Code::Unavailable, "the daemon has enough to do: ask again");
        }
        let _ = rustix::io::write(&self.server.ordered, &1_u64.to_ne_bytes());
        match answered.recv_timeout(DONE_WITHIN) {
            Ok(Ok(())) => Answer::json("{\"ok\":true}".to_owned()),
            Ok(Err(why)) => Answer::text(Code::Conflict, &why),
            Err(_) => Answer::text(Code::Unavailable, "the daemon has not done it yet"),
        }
    }
}

/// What becomes of a request.
enum Wanted {
    Answer(Answer),
    /// It is to be told all that happens, while its session lasts.
    Stream(Option<Session>),
}

fn nothing() -> Answer {
    Answer::text(Code::NotFound, "there is nothing here by that name and method")
}

/// The history that is asked for.
fn history_of(history: &History, request: &Request) -> Option<Answer> {
    let place = request.asked("link")?.parse().ok()?;
    let points = match request.asked("points") {
        Some(points) => points.parse::<u64>().ok()?.clamp(1, POINTS[0]),
        None => POINTS[1],
    };
    let document = history.document(place, request.asked("span")?, points, wall_clock() as u64)?;
    Some(Answer::json(document))
}
