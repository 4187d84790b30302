//! A host's processor: one for the node, serving packets in the order of arrival on whatever interface.
//!
//! Source: the striping paper's hosts (section 6), whose throughput was limited by what they spend on packets and
//! interrupts. A packet costs its reception or sending, its bytes, what the network cards by which it comes and goes ask
//! for, and an interrupt if it arrives on an interface of
//! which nothing waits or is in service; what comes while the processor is at that interface's packets is found
//! without one. Departure: the interrupt's cost is spent at its packet's turn; it does not push the packet in service
//! aside, which would move single packets but not the throughput.
//!
//! Interface 0 is the host's own sending; interface i + 1 the i-th link that ends here. Cost: O(1) and one event a
//! packet. Invariant: spans are integer picoseconds until they are added up, so per-byte costs carry no error.

use super::{Here, Next, Node, Output, Tell};
use crate::engine::event::Event;
use crate::engine::pool::Handle;
use crate::engine::streams::{self, Purpose};
use crate::model::{Card, HostCost};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Span, Time};
use std::collections::VecDeque;

/// What a packet needs at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Work {
    /// It came in over a link.
    pub(crate) receive: bool,
    /// It goes out over one.
    pub(crate) send: bool,
}

/// How packets of some path come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Port {
    /// By which interface they come.
    pub(crate) interface: u32,
    pub(crate) work: Work,
    /// What the cards by which they come and go ask for together.
    pub(crate) card: Card,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    /// None: time spent on nothing that moves, after a packet out of order.
    handle: Option<Handle>,
    interface: u32,
    size: u32,
    /// Picoseconds that the cards ask for.
    cards: u64,
    work: Work,
    interrupt: bool,
}

/// The processor of one node.
#[derive(Debug)]
pub(crate) struct Processor {
    /// The number of its node.
    node: u32,
    cost: HostCost,
    ports: Vec<Port>,
    rng: Rng,
    queue: VecDeque<Job>,
    current: Option<Job>,
    /// Packets of each interface that wait, and that wait or are in service.
    waiting: Vec<u32>,
    present: Vec<u32>,
    /// Picoseconds spent beyond the last whole nanosecond.
    carry: u64,
    /// Nanoseconds to be spent before the next job, on packets out of order.
    extra: Span,
    /// Packets dropped for want of room.
    dropped: u64,
}

fn picoseconds(span: Span) -> u64 {
    span.as_nanos().saturating_mul(1000)
}

impl Processor {
    /// Of the node with this number; its ports are places in `ports`.
    pub(crate) fn new(cost: &HostCost, interfaces: usize, ports: Vec<Port>, seed: u64, node: u32) -> Processor {
        Processor {
            node,
            cost: cost.clone(),
            ports,
            rng: streams::stream(seed, Purpose::Processor, u64::from(node)),
            queue: VecDeque::new(),
            current: None,
            waiting: vec![0; interfaces],
            present: vec![0; interfaces],
            carry: 0,
            extra: Span::ZERO,
            dropped: 0,
        }
    }

    /// The number of its node.
    pub(crate) fn node(&self) -> u32 {
        self.node
    }

    /// The transport found the packet that was just served to be out of order.
    pub(crate) fn charge_out_of_order(&mut self) {
        let picoseconds = self.drawn(picoseconds(self.cost.out_of_order));
        self.extra = self.extra + Span::from_nanos(picoseconds / 1000);
    }

    /// Begins the next service: until when, if there is one.
    fn proceed(&mut self, now: Time) -> Option<Time> {
        self.current = None;
        if self.extra > Span::ZERO {
            let end = now + self.extra;
            self.extra = Span::ZERO;
            let work = Work { receive: false, send: false };
            self.current = Some(Job { handle: None, interface: 0, size: 0, cards: 0, work, interrupt: false });
            return Some(end);
        }
        let job = self.queue.pop_front()?;
        self.waiting[job.interface as usize] -= 1;
        Some(self.begin_job(now, job))
    }

    fn begin_job(&mut self, now: Time, job: Job) -> Time {
        let mut total = self.carry.saturating_add(self.drawn(job.cards));
        for (counts, each) in [(job.work.receive, self.cost.receive), (job.work.send, self.cost.send)] {
            if counts {
                let bytes = u64::from(job.size).saturating_mul(self.cost.per_byte_ps);
                total = total.saturating_add(self.drawn(picoseconds(each).saturating_add(bytes)));
            }
        }
        if job.interrupt {
            total = total.saturating_add(self.drawn(picoseconds(self.cost.interrupt)));
        }
        self.carry = total % 1000;
        self.current = Some(job);
        now + Span::from_nanos(total / 1000)
    }

    /// A cost in picoseconds, with its jitter.
    fn drawn(&mut self, picoseconds: u64) -> u64 {
        if self.cost.jitter == 0.0 || picoseconds == 0 {
            return picoseconds;
        }
        let factor = 1.0 + self.cost.jitter * (2.0 * self.rng.unit() - 1.0);
        (picoseconds as f64 * factor.max(0.0)) as u64
    }
}

impl Node for Processor {
    fn handle_packet(&mut self, mut here: Here<'_>, port: u32, handle: Handle) -> Next {
        let Port { interface, work, card } = self.ports[port as usize];
        let size = here.engine.pool[handle].size;
        let place = interface as usize;
        let idle = self.current.is_none();
        if !idle && self.cost.queue > 0 && self.waiting[place] >= self.cost.queue {
            self.dropped += 1;
            return Next::Only(Output::Dropped(handle));
        }
        let interrupt = work.receive && self.present[place] == 0;
        self.present[place] += 1;
        let cards = picoseconds(card.packet).saturating_add(u64::from(size).saturating_mul(card.per_byte_ps));
        let job = Job { handle: Some(handle), interface, size, cards, work, interrupt };
        if idle {
            let end = self.begin_job(here.now(), job);
            here.schedule(0, end);
        } else {
            self.waiting[place] += 1;
            self.queue.push_back(job);
        }
        Next::Nothing
    }

    /// A service is at its end: the packet goes on, and then the next one begins.
    fn handle_timeout(&mut self, _: Here<'_>, _: u32, _: Event) -> Next {
        if let Some(Job { handle: Some(handle), interface, .. }) = self.current {
            self.present[interface as usize] -= 1;
            return Next::Then(Output::Forward(handle), 0);
        }
        Next::Poll(0)
    }

    #[inline(always)]
    fn poll(&mut self, mut here: Here<'_>, _: u32) -> Option<Output> {
        if let Some(end) = self.proceed(here.now()) {
            here.schedule(0, end);
        }
        None
    }

    /// Packets that wait or are in service.
    fn in_flight(&self) -> u64 {
        let serving = self.current.is_some_and(|job| job.handle.is_some());
        self.queue.len() as u64 + u64::from(serving)
    }

    fn dropped(&self, name: &str, tell: Tell<'_>) {
        tell(name, "processor", self.dropped);
    }
}
