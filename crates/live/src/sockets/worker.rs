//! The thread that computes handshakes, so that no flood of them holds up packets.
//!
//! It is given a few steps at a time: what waits stays with the sessions, who know whose turn it is. It runs at the lowest
//! ordinary priority, so that where processors are few the packets go first; the scheduler still gives it its share, about a
//! hundredth of a processor that has nothing to spare.

use crate::secure::{Done, Entropy, Sessions, Work};
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
    pub(crate) fn start(poller: &Poller, entropy: Box<dyn Entropy>) -> Result<Worker, Errno> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let token = poller.watch(event.as_fd(), Turn::Others)?;
        let desk = Arc::new(Desk { steps: Mutex::default(), woken: Condvar::new(), event });
        let theirs = desk.clone();
        let thread = thread::Builder::new().name("handshakes".into()).spawn(move || work(&theirs, entropy));
        let thread = thread.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        Ok(Worker { desk, thread: Some(thread), token })
    }

    /// Whether `token` tells that something is done.
    pub(crate) fn is(&self, token: Token) -> bool {
        self.token == token
    }

    /// Gives the sessions what is done, and takes from them what there is to do.
    pub(crate) fn exchange(&self, now: Time, sessions: &mut Sessions) {
        // A daemon that no peer can call any more is worse than one that is started anew.
        assert!(
            !self.thread.as_ref().is_none_or(JoinHandle::is_finished),
            "the thread that computes handshakes has died"
        );
        let mut steps = self.desk.steps();
        let mut done = std::mem::take(&mut steps.done);
        if !done.is_empty() {
            // While the lock is held: the thread would make it readable only once for what it adds before this.
            let _ = rustix::io::read(&self.desk.event, &mut [0; 8]);
        }
        drop(steps);
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

fn work(desk: &Desk, mut entropy: Box<dyn Entropy>) {
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::warn!(%error, "handshakes are computed at the priority of packets");
    }
    let mut steps = desk.steps();
    while !steps.ended {
        let Some(work) = steps.todo.pop_front() else {
            steps = desk.woken.wait(steps).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(steps);
        let done = work.run(&mut *entropy);
        steps = desk.steps();
        steps.done.push(done);
        if steps.done.len() == 1 {
            // The counter of an eventfd has room for one.
            let _ = rustix::io::write(&desk.event, &1_u64.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::pair::pair;
    use crate::secure::{Received, SocketId};
    use fairspan_core::units::ChannelId;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    /// A generator that has failed.
    struct Broken;

    impl Entropy for Broken {
        fn fill(&mut self, _: &mut [u8]) {
            panic!("no randomness");
        }
    }

    #[test]
    fn a_daemon_whose_thread_for_handshakes_has_died_does_not_go_on() {
        let now = Time::from_millis(1000);
        let (mut a, mut b, peer) = pair(now);
        b.offload();
        let (from, to) = ("192.0.2.1:5".parse().unwrap(), "192.0.2.2:5".parse().unwrap());
        a.connect(now, peer, ChannelId(0), SocketId(0), to, Vec::new()).unwrap();
        let initiation = a.poll_transmit().unwrap().payload;
        assert_eq!(b.handle_datagram(now, SocketId(0), from, &initiation, &mut [0; 2048]), Received::Queued);
        let poller = Poller::new().unwrap();
        let worker = Worker::start(&poller, Box::new(Broken)).unwrap();
        let died = (0..6000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            catch_unwind(AssertUnwindSafe(|| worker.exchange(now, &mut b))).is_err()
        });
        assert!(died, "the daemon goes on, and no peer can ever call");
    }
}
