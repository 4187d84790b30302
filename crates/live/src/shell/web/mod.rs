//! The page in the daemon: `interface.web`, off by default.
//!
//! It has a thread of its own, at the lowest priority. The daemon's loop hands over what `fairspan status` would show once a second,
//! and sooner when something happened and somebody looks, and never waits: a thread that is busy, a browser that dawdles or a disk that hangs costs
//! the page some samples, and packets nothing.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | the daemon's end: when it tells, and what is wanted of it |
//! | `service` | whether there is a page: an address that cannot be had is tried again |
//! | `sample` | what goes to the thread, and what comes from it |
//! | `server` | the thread: clients, and what they ask for |
//! | `client` | one connection |
//! | `http` | requests and answers |
//! | `access` | who may see and change something |
//! | `guesses`, `logins` | wrong passwords, by address; who is logged in |
//! | `history` | what was, kept across restarts |
//! | `view` | what is shown, as a document |
//! | `page` | the same as HTML; `page/` has the page's script and style |

mod access;
mod client;
mod guesses;
mod history;
mod http;
mod logins;
mod page;
mod sample;
mod server;
mod service;
mod view;

pub(super) use service::Service;

use super::looks;
use super::poller::{Poller, Token, Turn};
use crate::config::Served;
use crate::events;
use crate::status::Status;
use access::Access;
use fairspan_core::units::{Span, Time};
use history::History;
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::setpriority_process;
use sample::{Order, Sample};
use server::Server;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How soon again, when something happened.
const SOON: Span = Span::from_millis(100);
/// A sample that took so long to make is not made again for so many times that.
const SELDOM: u64 = 50;
/// Samples that wait for the thread; further ones are left out.
const SAMPLES: usize = 2;
/// Wishes that wait for the daemon.
const ORDERS: usize = 4;
/// The nice value of the thread.
const NICE: i32 = 19;
/// Bytes of its stack.
const STACK: usize = 512 << 10;
/// How long the daemon's end waits for the thread's.
const END: Duration = Duration::from_secs(2);

/// The daemon's end.
#[derive(Debug)]
struct Web {
    samples: Option<SyncSender<Sample>>,
    wake: Arc<OwnedFd>,
    orders: Receiver<Order>,
    ordered: Arc<OwnedFd>,
    ordering: Token,
    thread: Option<JoinHandle<()>>,
    due: Time,
    /// When it told last, and up to which event.
    told: (Time, u64),
    /// Samples that wait for the thread.
    waiting: Arc<AtomicUsize>,
    /// Whether somebody looks at the page.
    looked_at: Arc<AtomicBool>,
    /// How long it took to make the last sample.
    took: Span,
}

impl Web {
    /// Begins to serve at `address`.
    ///
    /// # Errors
    /// When the address cannot be bound, or the system has no thread.
    fn open(now: Time, address: SocketAddr, served: &Served, poller: &Poller) -> io::Result<Web> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Arc::new);
        let (wake, ordered) = (event()?, event()?);
        let (samples, taken) = sync_channel(SAMPLES);
        let (waiting, looked_at): (Arc<AtomicUsize>, Arc<AtomicBool>) = Default::default();
        let (theirs_wait, theirs_look) = (waiting.clone(), looked_at.clone());
        let (orders, wanted) = sync_channel(ORDERS);
        let file = served.history.clone();
        let access = Access::new(served.password.clone(), served.hosts.clone(), served.may_control, address.port());
        let (woken, theirs) = (wake.clone(), ordered.clone());
        let serve = move || {
            let _ = setpriority_process(None, NICE);
            let history = History::open(&file, events::wall_clock() as u64);
            let (waiting, looked_at) = (theirs_wait, theirs_look);
            Server { listener, samples: taken, woken, orders, ordered: theirs, waiting, looked_at, access, history }
                .run();
        };
        // Before the thread: one whose daemon does not know it would never end.
        let ordering = poller.watch(ordered.as_fd(), Turn::Others)?;
        let thread = thread::Builder::new().name("page".into()).stack_size(STACK).spawn(serve);
        let thread = thread.inspect_err(|_| poller.forget(ordering))?;
        let (samples, thread) = (Some(samples), Some(thread));
        Ok(Web {
            samples,
            wake,
            orders: wanted,
            ordered,
            ordering,
            thread,
            due: now,
            told: (now, 0),
            waiting,
            looked_at,
            took: Span::ZERO,
        })
    }

    /// When it is to tell at the latest.
    fn poll_timeout(&self) -> Time {
        let is_news = events::newest() != self.told.1 && self.looked_at.load(Ordering::Relaxed);
        // What takes long is not done often.
        let soon = SOON.max(Span::from_nanos(self.took.as_nanos().saturating_mul(SELDOM)));
        if is_news { self.due.min(self.told.0 + soon) } else { self.due }
    }

    /// Tells, if that is due.
    fn handle_timeout(&mut self, now: Time, status: impl FnOnce() -> Status) {
        if now < self.poll_timeout() {
            return;
        }
        if self.due <= now {
            self.due = looks::next(now);
        }
        self.told = (now, events::newest());
        let Some(samples) = &self.samples else { return };
        if self.has_ended() || self.waiting.load(Ordering::Acquire) >= SAMPLES {
            return;
        }
        let begun = Instant::now();
        let sample = Sample { at: events::wall_clock(), status: status() };
        self.took = Span::from_nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        self.waiting.fetch_add(1, Ordering::AcqRel);
        if samples.try_send(sample).is_err() {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        self.wake();
    }

    /// Whether there is nobody any more to whom to tell.
    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Whether `token` tells that somebody wants something.
    fn is(&self, token: Token) -> bool {
        self.ordering == token
    }

    /// Does what is wanted.
    fn handle_orders(&self, mut order: impl FnMut(&Order) -> Result<(), String>) {
        let _ = rustix::io::read(&self.ordered, &mut [0; 8]);
        while let Ok(wanted) = self.orders.try_recv() {
            let _ = wanted.answer.try_send(order(&wanted));
        }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.samples = None;
        self.wake();
        let Some(thread) = self.thread.take() else { return };
        // It brings the history to the disk, which may hang.
        looks::join_within(END, thread);
    }
}

#[cfg(test)]
mod tests;
