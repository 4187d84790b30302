//! The thread that computes handshakes, so that no flood of them holds up packets.
//!
//! It is given a few steps at a time: what waits stays with the sessions, who know whose turn it is. It runs at the lowest
//! ordinary priority, so that where processors are few the packets go first; the scheduler still gives it its share, about a
//! hundredth of a processor that has nothing to spare.

use crate::secure::{Done, OsEntropy, Sessions, Work};
use crate::shell::poller::{Poller, Token, Turn};
use fairspan_core::units::Time;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Steps that wait at the thread.
const DEPTH: usize = 8;
/// The nice value of the thread.
const NICE: i32 = 19;

/// What both threads see.
struct Desk {
    steps: Mutex<Steps>,
    /// There is something to do, or it is time to end.
    woken: Condvar,
    /// Readable while something is done.
    event: OwnedFd,
}

#[derive(Default)]
struct Steps {
    todo: VecDeque<Work>,
    done: Vec<Done>,
    ended: bool,
}

impl Desk {
    fn steps(&self) -> MutexGuard<'_, Steps> {
        // No step leaves the lists half changed.
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread, as the one that moves packets sees it.
pub(crate) struct Worker {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
    token: Token,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn start(poller: &Poller) -> Result<Worker, Errno> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let token = poller.watch(event.as_fd(), Turn::Others)?;
        let desk = Arc::new(Desk { steps: Mutex::default(), woken: Condvar::new(), event });
        let theirs = desk.clone();
        let thread = thread::Builder::new().name("handshakes".into()).spawn(move || work(&theirs));
        let thread = thread.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        Ok(Worker { desk, thread: Some(thread), token })
    }

    /// Whether `token` tells that something is done.
    pub(crate) fn is(&self, token: Token) -> bool {
        self.token == token
    }

    /// Gives the sessions what is done, and takes from them what there is to do.
    pub(crate) fn exchange(&self, now: Time, sessions: &mut Sessions) {
        let mut done = std::mem::take(&mut self.desk.steps().done);
        if !done.is_empty() {
            // What the thread adds from here on makes it readable again.
            let _ = rustix::io::read(&self.desk.event, &mut [0; 8]);
        }
        done.drain(..).for_each(|done| sessions.handle_done(now, done));
        let mut steps = self.desk.steps();
        let before = steps.todo.len();
        while steps.todo.len() < DEPTH {
            let Some(work) = sessions.poll_work() else { break };
            steps.todo.push_back(work);
        }
        if steps.todo.len() > before {
            self.desk.woken.notify_one();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.desk.steps().ended = true;
        self.desk.woken.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(desk: &Desk) {
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::warn!(%error, "handshakes are computed at the priority of packets");
    }
    let mut entropy = OsEntropy::new();
    let mut steps = desk.steps();
    while !steps.ended {
        let Some(work) = steps.todo.pop_front() else {
            steps = desk.woken.wait(steps).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(steps);
        let done = work.run(&mut entropy);
        steps = desk.steps();
        steps.done.push(done);
        if steps.done.len() == 1 {
            // The counter of an eventfd has room for one.
            let _ = rustix::io::write(&desk.event, &1_u64.to_ne_bytes());
        }
    }
}
