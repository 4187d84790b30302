//! A link emulator: joins two network devices, each possibly in another network namespace, by a link with a rate,
//! a delay, jitter, loss, a queue and outages, each direction separately.
//!
//! It forwards whole Ethernet frames from AF_PACKET sockets in promiscuous mode. The devices should have no address
//! of their own: their only job is to be the two ends of the link. Their segmentation and aggregation offloads are
//! switched off while the emulator runs and put back at its end; the *sending hosts'* devices (the other ends of the
//! veth pairs) need the same, see [`switch_offloads_off`], because what they join arrives here as one frame.
//! Unfinished checksums (a sender's checksum offload) pass through as such.
//!
//! ```no_run
//! use fairspan_core::units::{Rate, Span};
//! use fairspan_live::emulate::{Emulator, Link, Options, Profile};
//!
//! let profile = Profile::new(Rate::from_mbit(100), Span::from_millis(10));
//! let link = Link::new("dsl", "site:dsl-port".parse()?, "hub:dsl-port".parse()?, profile);
//! let emulator = Emulator::start(vec![link], Options::default())?;
//! // ... traffic ...
//! let summary = emulator.stop();
//! println!("{} frames", summary.links[0].forward.sent_frames);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
mod counters;
mod direction;
mod forwarder;
mod grammar;
mod port;
mod worker;

pub use config::{ConfigError, DirectionConfig, EmulateConfig, LinkConfig, TraceError};
pub use counters::{DirectionStats, Drops, Lateness};
pub use fairspan_core::link::{
    Capacity, CapacityError, DropReason, DuringOutage, Limit, Loss, OPPORTUNITY, Outage, Profile, ProfileError,
    Schedule, Series, Spell, Trace, Verdict,
};
pub use forwarder::Forwarder;
pub use port::{PortError, PortName, switch_offloads_off};

use crate::sys::packet::set_realtime;
use counters::Counters;
use direction::{Direction, Memory};
use fairspan_core::flow::FlowHash;
use fairspan_core::link::Server;
use fairspan_core::units::Span;
use port::Port;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use worker::{Clock, Worker};

/// A link between two ports.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name in counters and messages.
    pub name: String,
    /// One end.
    pub a: PortName,
    /// The other end.
    pub b: PortName,
    /// From `a` to `b`.
    pub forward: Profile,
    /// From `b` to `a`.
    pub backward: Profile,
}

impl Link {
    /// A link that is the same in both directions.
    pub fn new(name: impl Into<String>, a: PortName, b: PortName, both: Profile) -> Link {
        Link { name: name.into(), a, b, forward: both.clone(), backward: both }
    }
}

/// How an emulator runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// Determines loss and jitter of every link and direction. Default 1.
    pub seed: u64,
    /// Real-time priority (`SCHED_FIFO`, 1 to 99), where the system allows it; `None` stays in the normal class.
    /// Default 10.
    pub realtime: Option<u8>,
    /// The least time between two wake-ups while frames are under way: frames may be late by as much. Default 50 us.
    pub tick: Span,
    /// One thread per link instead of one for all. Default false.
    pub thread_per_link: bool,
    /// Most bytes of buffers for frames under way, per thread. Default 256 MB.
    pub memory: usize,
    /// Slots of each port's receive ring (2 kB each at an MTU of 1500). Default 4096.
    pub ring_slots: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seed: 1,
            realtime: Some(10),
            tick: Span::from_micros(50),
            thread_per_link: false,
            memory: 256_000_000,
            ring_slots: 4096,
        }
    }
}

/// Why an emulator cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulateError {
    /// A setting cannot work.
    #[error("link {link}, {direction}: {error}")]
    Profile {
        /// The link.
        link: String,
        /// `forward` or `backward`.
        direction: &'static str,
        /// What is wrong.
        error: ProfileError,
    },
    /// A port cannot be opened.
    #[error("link {link}: {error}")]
    Port {
        /// The link.
        link: String,
        /// What is wrong.
        error: PortError,
    },
    /// No link was given.
    #[error("no link was given; at least one is needed")]
    NoLink,
    /// Two links, or both ends of one, use the same device.
    #[error("port {port} is used twice; each port joins one link")]
    PortTwice {
        /// The port.
        port: PortName,
    },
    /// The system refused something else.
    #[error("{step}: {error}")]
    System {
        /// What was tried.
        step: &'static str,
        /// What the system said.
        error: std::io::Error,
    },
}

/// A running emulator. Dropping it stops it.
#[derive(Debug)]
pub struct Emulator {
    links: Vec<(Link, [Arc<Counters>; 2])>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    wake: OwnedFd,
    clock: Clock,
    realtime: Arc<AtomicBool>,
    seed: u64,
    warnings: Vec<String>,
}

/// Counters of a link at one moment.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct LinkStats {
    /// The link's name.
    pub name: String,
    /// One end.
    pub a: String,
    /// The other end.
    pub b: String,
    /// From `a` to `b`.
    pub forward: DirectionStats,
    /// From `b` to `a`.
    pub backward: DirectionStats,
}

/// What an emulator did.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The seed of loss and jitter.
    pub seed: u64,
    /// Seconds since the start.
    pub seconds: f64,
    /// Whether every thread ran in the real-time class.
    pub realtime: bool,
    /// By link, in the order given.
    pub links: Vec<LinkStats>,
}

impl Emulator {
    /// Opens the ports and starts to forward.
    ///
    /// # Errors
    /// [`EmulateError`] when a setting cannot work, a port cannot be opened or privileges are missing; then nothing
    /// is left running.
    pub fn start(links: Vec<Link>, options: Options) -> Result<Emulator, EmulateError> {
        if links.is_empty() {
            return Err(EmulateError::NoLink);
        }
        let mut names: Vec<&PortName> = Vec::new();
        for port in links.iter().flat_map(|link| [&link.a, &link.b]) {
            if names.contains(&port) {
                return Err(EmulateError::PortTwice { port: port.clone() });
            }
            names.push(port);
        }
        let system = |step| move |error: rustix::io::Errno| EmulateError::System { step, error: error.into() };
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system("making an eventfd"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let realtime = Arc::new(AtomicBool::new(options.realtime.is_some()));
        let clock = Clock::start();
        let mut workers: Vec<Worker> = Vec::new();
        let mut counted = Vec::new();
        let mut warnings = Vec::new();
        for (number, link) in links.into_iter().enumerate() {
            if options.thread_per_link || workers.is_empty() {
                workers.push(Worker {
                    ports: Vec::new(),
                    directions: Vec::new(),
                    memory: Memory::new(options.memory),
                    clock,
                    tick: options.tick,
                    stop: stop.clone(),
                    wake: wake
                        .try_clone()
                        .map_err(|error| EmulateError::System { step: "copying an eventfd", error })?,
                    gone: Vec::new(),
                    doubtful: false,
                });
            }
            let index = workers.len() - 1;
            let worker = &mut workers[index];
            let first = worker.ports.len();
            let counters: [Arc<Counters>; 2] = Default::default();
            let directions = [(first, first + 1, &link.forward), (first + 1, first, &link.backward)];
            for (side, (from, to, profile)) in directions.into_iter().enumerate() {
                let direction = ["forward", "backward"][side];
                // Every direction draws from a sequence of its own.
                let seed = options.seed.wrapping_add((number as u64 * 2 + side as u64) << 32);
                let server = Server::new(profile.clone(), seed, seed).map_err(|error| EmulateError::Profile {
                    link: link.name.clone(),
                    direction,
                    error,
                })?;
                worker.directions.push(Direction {
                    from,
                    to,
                    server,
                    hash: FlowHash::new(seed),
                    counters: counters[side].clone(),
                    line: VecDeque::new(),
                    unordered: BinaryHeap::new(),
                    accepted: 0,
                });
            }
            for name in [&link.a, &link.b] {
                let port = Port::open(name, options.ring_slots)
                    .map_err(|error| EmulateError::Port { link: link.name.clone(), error })?;
                if let Err(error) = &port.offloads {
                    warnings.push(format!("{name}: its segmentation offloads could not be switched off: {error}"));
                }
                worker.ports.push(port);
            }
            worker.gone.push(false);
            counted.push((link, counters));
        }
        let mut emulator = Emulator {
            links: counted,
            threads: Vec::new(),
            stop,
            wake,
            clock,
            realtime: realtime.clone(),
            seed: options.seed,
            warnings,
        };
        for mut worker in workers {
            let realtime = realtime.clone();
            let priority = options.realtime;
            let thread = std::thread::Builder::new().name("fs-emulate".into()).spawn(move || {
                if priority.is_some_and(|priority| set_realtime(priority.into()).is_err()) {
                    realtime.store(false, Relaxed);
                }
                // The normal class would otherwise round sleeps up by 50 us.
                let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
                if let Err(error) = worker.run() {
                    tracing::error!(%error, "the emulator's thread ended");
                }
            });
            // On an error the emulator is dropped here, which stops the threads that run already.
            emulator.threads.push(thread.map_err(|error| EmulateError::System { step: "starting a thread", error })?);
        }
        Ok(emulator)
    }

    /// What did not work at the start and makes the emulation less true, in words.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// False once every link has lost one of its devices.
    pub fn is_running(&self) -> bool {
        self.threads.iter().any(|thread| !thread.is_finished())
    }

    /// The counters now.
    pub fn stats(&self) -> Summary {
        let links = self.links.iter().map(|(link, [forward, backward])| LinkStats {
            name: link.name.clone(),
            a: link.a.to_string(),
            b: link.b.to_string(),
            forward: forward.snapshot(),
            backward: backward.snapshot(),
        });
        Summary {
            seed: self.seed,
            seconds: self.clock.now().as_secs_f64(),
            realtime: self.realtime.load(Relaxed),
            links: links.collect(),
        }
    }

    /// Stops forwarding, puts the ports back as they were, and gives the final counters.
    pub fn stop(mut self) -> Summary {
        self.halt();
        self.stats()
    }

    fn halt(&mut self) {
        self.stop.store(true, Relaxed);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        for thread in self.threads.drain(..) {
            // A panic in the thread has been printed by the panic hook; there is nothing to undo here.
            let _ = thread.join();
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.halt();
    }
}
