//! The thread that computes handshakes, so that no flood of them holds up packets.
//!
//! It is given a few steps at a time: what waits stays with the sessions, who know whose turn it is. It is a little nicer than the
//! thread of the packets, so that where processors are few the packets go first, with three quarters at least of what both have. It is not
//! as nice as a thread may be: beside programs that always compute the nicest one waits for seconds each time, so that no handshake is at its
//! end before its caller gives up, and keys expire. That bounds nothing while packets wait for something: the
//! thread would take all that is left of the processors. So what anybody can cause, handshakes of who may be a stranger, has a
//! budget of processor time: a twentieth of one processor. It is a time and no number, so that it means the same on all machines.
//! What peers wait for is not counted, and goes first.
//!
//! Nobody holds the lock of what both threads see over a system call. To wake the thread of the packets under it would be to have that
//! one wait for this one, which may be taken off its processor at once.

use crate::secure::{Done, Entropy, Sessions, Work};
use crate::shell::poller::{Poller, Token, Turn};
use fairspan_core::units::Time;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Steps of each kind that wait at the thread.
const DEPTH: usize = 8;
/// The time between steps of others is so many times what they take.
const SHARE: u32 = 20;
/// Others may be ahead of that by so much: many peers call at once where a host has started anew.
const AHEAD: Duration = Duration::from_secs(2);
/// One turn in so many is that of others, where both wait and their budget allows it.
const TURNS: u32 = 4;
/// So much higher is the nice value of the thread than that of the packets', and no more than the last.
const NICER: i32 = 5;
const NICEST: i32 = 19;

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
    /// What peers wait for.
    peers: VecDeque<Work>,
    /// What may be anybody's.
    others: VecDeque<Work>,
    turn: u32,
    done: Vec<Done>,
    ended: bool,
}

impl Steps {
    fn waiting(&self) -> usize {
        self.peers.len() + self.others.len()
    }

    /// The next step, and whether it is of others, who may have their turn or not.
    fn next(&mut self, others_may: bool) -> Option<(Work, bool)> {
        self.turn = (self.turn + 1) % TURNS;
        let others_first = self.turn == 0;
        if others_may
            && (others_first || self.peers.is_empty())
            && let Some(work) = self.others.pop_front()
        {
            return Some((work, true));
        }
        self.peers.pop_front().map(|work| (work, false))
    }
}

/// The processor time of others.
#[derive(Debug, Default)]
struct Budget {
    /// When all that was taken would have been given in even shares; times are since any beginning.
    even: Duration,
}

impl Budget {
    /// How long others have to wait; zero where they may have their turn.
    fn wait(&self, now: Duration) -> Duration {
        self.even.saturating_sub(now + AHEAD)
    }

    /// A step of others took `cost`.
    fn spend(&mut self, now: Duration, cost: Duration) {
        self.even = self.even.max(now) + cost * SHARE;
    }
}

impl Desk {
    fn steps(&self) -> MutexGuard<'_, Steps> {
        // No step leaves the lists half changed.
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for another step, or until others may have their turn, if one of theirs waits.
    fn sleep<'a>(&self, steps: MutexGuard<'a, Steps>, wait: Duration) -> MutexGuard<'a, Steps> {
        if steps.others.is_empty() {
            return self.woken.wait(steps).unwrap_or_else(PoisonError::into_inner);
        }
        self.woken.wait_timeout(steps, wait).unwrap_or_else(PoisonError::into_inner).0
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
        let nice = (rustix::process::getpriority_process(None)? + NICER).min(NICEST);
        let thread = thread::Builder::new().name("handshakes".into()).spawn(move || work(&theirs, entropy, nice));
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
        // Before what is done is taken: what is added from here on, the thread tells anew or has added to that.
        let _ = rustix::io::read(&self.desk.event, &mut [0; 8]);
        let mut done = std::mem::take(&mut self.desk.steps().done);
        done.drain(..).for_each(|done| sessions.handle_done(now, done));
        let mut steps = self.desk.steps();
        let before = steps.waiting();
        while steps.peers.len() < DEPTH {
            let Some(work) = sessions.poll_work_of_peers() else { break };
            steps.peers.push_back(work);
        }
        while steps.others.len() < DEPTH {
            let Some(work) = sessions.poll_work_of_others() else { break };
            steps.others.push_back(work);
        }
        let more = steps.waiting() > before;
        drop(steps);
        if more {
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

fn work(desk: &Desk, mut entropy: Box<dyn Entropy>, nice: i32) {
    if let Err(error) = rustix::process::setpriority_process(None, nice) {
        tracing::warn!(%error, "handshakes are computed at the priority of packets");
    }
    let (begin, mut budget) = (Instant::now(), Budget::default());
    let mut steps = desk.steps();
    while !steps.ended {
        let wait = budget.wait(begin.elapsed());
        let Some((work, of_others)) = steps.next(wait.is_zero()) else {
            steps = desk.sleep(steps, wait);
            continue;
        };
        drop(steps);
        let before = processor_time();
        let done = work.run(&mut *entropy);
        if of_others {
            budget.spend(begin.elapsed(), processor_time().saturating_sub(before));
        }
        steps = desk.steps();
        steps.done.push(done);
        if steps.done.len() == 1 {
            drop(steps);
            // The counter of an eventfd has room for one.
            let _ = rustix::io::write(&desk.event, &1_u64.to_ne_bytes());
            steps = desk.steps();
        }
    }
}

/// What this thread has computed, in time.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::pair::pair;
    use crate::secure::{Received, SeededEntropy, SocketId};
    use fairspan_core::units::ChannelId;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// A generator that has failed.
    struct Broken;

    impl Entropy for Broken {
        fn fill(&mut self, _: &mut [u8]) {
            panic!("no randomness");
        }
    }

    const NOW: Time = Time::from_millis(1000);

    /// Sessions of which a handshake waits, and the thread that is to compute it.
    fn called(entropy: Box<dyn Entropy>) -> (Sessions, Worker) {
        let (mut a, mut b, peer) = pair(NOW);
        b.offload();
        let (from, to) = ("192.0.2.1:5".parse().unwrap(), "192.0.2.2:5".parse().unwrap());
        a.connect(NOW, peer, ChannelId(0), SocketId(0), to, Vec::new()).unwrap();
        let initiation = a.poll_transmit().unwrap().payload;
        assert_eq!(b.handle_datagram(NOW, SocketId(0), from, &initiation, &mut [0; 2048]), Received::Queued);
        (b, Worker::start(&Poller::new().unwrap(), entropy).unwrap())
    }

    #[test]
    fn a_daemon_whose_thread_for_handshakes_has_died_does_not_go_on() {
        let (mut b, worker) = called(Box::new(Broken));
        let died = (0..6000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            catch_unwind(AssertUnwindSafe(|| worker.exchange(NOW, &mut b))).is_err()
        });
        assert!(died, "the daemon goes on, and no peer can ever call");
    }

    /// The nice values of the threads of this process that compute handshakes.
    fn nice_values() -> Vec<i32> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
        let of = |stat: String| stat.rsplit(')').next()?.split_whitespace().nth(16)?.parse().ok();
        stats.filter(|stat| stat.contains("(handshakes)")).filter_map(of).collect()
    }

    #[test]
    fn packets_go_first_and_yet_a_handshake_is_no_work_for_idle_processors_alone() {
        let (mut b, worker) = called(Box::new(SeededEntropy::new(5)));
        let answered = (0..6000).any(|_| {
            worker.exchange(NOW, &mut b);
            std::thread::sleep(Duration::from_millis(10));
            b.poll_transmit().is_some()
        });
        assert!(answered, "no answer is computed");
        // Beside four programs that always compute, the nicest thread of all gets one part in 274, in pieces that are seconds apart.
        let own = rustix::process::getpriority_process(None).unwrap();
        let values = nice_values();
        assert!(values.contains(&(own + NICER).min(NICEST)), "{values:?}");
        assert!(values.iter().all(|nice| (own..=own + 5).contains(nice)), "{values:?}");
    }

    #[test]
    fn strangers_get_a_twentieth_of_a_processor_and_what_they_have_saved_up() {
        let (cost, ms) = (Duration::from_micros(100), Duration::from_millis);
        let (mut budget, mut now, mut steps) = (Budget::default(), ms(5000), 0_u32);
        while now < ms(15_000) {
            match budget.wait(now) {
                Duration::ZERO => {
                    now += cost;
                    budget.spend(now, cost);
                    steps += 1;
                }
                wait => now += wait,
            }
        }
        // 100 ms that were saved up, and 50 ms in each of ten seconds: no more than a step is lost at the edges.
        assert!((5_990..=6_001).contains(&steps), "{steps}");
        // A machine that is ten times slower computes a tenth of that.
        let (mut budget, mut steps) = (Budget::default(), 0_u32);
        for now in (5000..15_000).map(ms) {
            while budget.wait(now).is_zero() {
                budget.spend(now, 10 * cost);
                steps += 1;
            }
        }
        assert!((590..=602).contains(&steps), "{steps}");
    }

    /// A step of somebody's who calls `sessions`.
    fn step(sessions: &mut Sessions, from: &str) -> Work {
        let now = Time::from_millis(1000);
        let key = crate::secure::PrivateKey::from_bytes([77; 32]);
        let entropy = Box::new(crate::secure::SeededEntropy::new(7));
        let past = crate::secure::Past::forgotten(5);
        let mut caller = Sessions::new(crate::secure::Config::default(), key, entropy, past, now).unwrap();
        let peer = caller.add_peer(crate::secure::PeerConfig::new(sessions.public_key())).unwrap();
        caller.connect(now, peer, ChannelId(0), SocketId(0), "192.0.2.2:5".parse().unwrap(), Vec::new()).unwrap();
        let call = caller.poll_transmit().unwrap().payload;
        sessions.handle_datagram(now, SocketId(0), from.parse().unwrap(), &call, &mut [0; 2048]);
        sessions.poll_work_of_others().expect("a step")
    }

    #[test]
    fn what_peers_wait_for_goes_first_and_does_not_wait_for_the_budget_of_others() {
        let (_, mut b, _) = pair(Time::from_millis(1000));
        b.offload();
        let mut steps = Steps::default();
        for n in 0..8 {
            let work = step(&mut b, &format!("192.0.2.{n}:5"));
            if n < 4 { steps.peers.push_back(work) } else { steps.others.push_back(work) }
        }
        let mut order = Vec::new();
        while let Some((_, of_others)) = steps.next(true) {
            order.push(of_others);
        }
        assert_eq!(order, [false, false, false, true, false, true, true, true]);
        for n in 0..4 {
            let work = step(&mut b, &format!("192.0.2.{n}:5"));
            if n < 2 { steps.peers.push_back(work) } else { steps.others.push_back(work) }
        }
        assert_eq!(
            (0..3).map(|_| steps.next(false).map(|(_, of_others)| of_others)).collect::<Vec<_>>(),
            [Some(false), Some(false), None]
        );
        assert_eq!(steps.others.len(), 2, "they wait for their budget");
    }
}
