//! A flow: what sends and receives at its two ends, where its paths begin, and its meters.
//!
//! Its packets are launched here and come back here. What it is handed at an instant its endpoint handles first; then the
//! world takes the packets that the endpoint sends, one by one, and each goes as far as it gets before the next one leaves.

use super::ideal::ideal;
use super::outbox::Outbox;
use super::timer::Timer;
use super::{Here, Next, Node, Output};
use crate::endpoint::{Endpoint, Outgoing};
use crate::engine::event::Event;
use crate::engine::pool::{Handle, Slot};
use crate::engine::streams::{self, Purpose};
use crate::error::WorldError;
use crate::metrics::{FlowMeter, series};
use crate::model::{self, Scenario, Transport};
use crate::packet::{Body, Packet};
use crate::results::Results;
use crate::traffic::application;
use crate::traffic::clock::Drift;
use crate::traffic::source::Metronome;
use crate::traffic::{self, Source};
use fairspan_core::link::Capacity;
use fairspan_core::rng::Rng;
use fairspan_core::units::{Span, Time};
use std::sync::Arc;

/// Its timers: it sends, begins, ends, or its endpoint's timer runs out; a packet leaves the sender's end, or the
/// receiver's.
const TIMER: u32 = 0;
const LEAVES: u32 = 1;
const ANSWERS: u32 = 2;

/// What is at the ends of a flow.
#[derive(Debug)]
enum Agent {
    /// A source of datagrams, all alike.
    Metronome(Metronome),
    /// Any other source of datagrams.
    Source(Box<Source>),
    /// An application over a transport.
    Endpoint(Box<Attached>),
    /// A source that has no more.
    Done,
}

impl Agent {
    /// The application over a transport, if it is one.
    #[inline]
    fn attached(&mut self) -> Option<&mut Attached> {
        match self {
            Agent::Endpoint(attached) => Some(attached),
            _ => None,
        }
    }

    /// Its endpoint.
    fn endpoint(&self) -> Option<&dyn Endpoint> {
        match self {
            Agent::Endpoint(attached) => Some(&*attached.endpoint),
            _ => None,
        }
    }
}

/// An endpoint, and what its flow has for it.
#[derive(Debug)]
struct Attached {
    endpoint: Box<dyn Endpoint>,
    timer: Timer,
    start: Time,
    stop: Time,
    /// Where hosts take a random time for each packet.
    outbox: Option<Outbox>,
    /// The processors of the sender's and the receiver's node, where these have one.
    processors: [Option<u32>; 2],
    /// First steps of the other paths among which its connections are spread.
    others: Box<[[u32; 2]]>,
    /// The ends that are in this part of the world: the sender's, the receiver's.
    here: [bool; 2],
    /// The other end, once the parts are one again.
    far: Option<Box<dyn Endpoint>>,
    /// The endpoint was told that its time has begun, and that it is over.
    begun: bool,
    stopped: bool,
}

/// A flow. The order of the fields is fixed for the cache's sake, as a link's: two lines for a source to send, then the
/// meter's two for a packet to arrive.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Flow {
    agent: Agent,
    /// A source sends nothing after this.
    stop: Time,
    /// Size of the packet that a source sends next.
    next_size: u32,
    /// Bytes of a datagram that are not its payload.
    header: u16,
    /// Its packets' class of service, both ways.
    dscp: u8,
    wander: Wander,
    /// Numbers of the next packets, each way.
    numbers: [u64; 2],
    /// Packets to the receiver that were sent before the measured time.
    sent_before: u64,
    /// First step of the path to the receiver, and of the path back.
    entry: [u32; 2],
    meter: FlowMeter,
}

impl Flow {
    /// The flow `number` of a scenario, its paths compiled, of which there is at least one; `processors` are those of its sender's and receiver's nodes,
    /// `here` says which of its two ends are in this part of the world, and `outage` is when the first measured one of the scenario begins.
    pub(crate) fn new(
        scenario: &Scenario,
        number: usize,
        entries: &[[u32; 2]],
        processors: [Option<u32>; 2],
        here: [bool; 2],
        outage: Option<Time>,
    ) -> Result<Flow, WorldError> {
        let model = &scenario.flows[number];
        let wrong =
            |error: traffic::ConfigError| WorldError::Flow { flow: model.name.clone(), error: error.to_string() };
        let mut drift = streams::stream(scenario.seed, Purpose::Drift, number as u64);
        let most = f64::from(scenario.drift_ppm);
        let part = drift.unit();
        let ppm = model.drift_ppm.unwrap_or(most * (2.0 * part - 1.0));
        let wander = match &model.traffic {
            traffic::Config::Constant { rate, size } if scenario.drift_ppm > 0 => {
                Wander::new(size.mean() * 8e9 / rate.as_bits_per_sec().max(1) as f64, &mut drift)
            }
            _ => Wander::NONE,
        };
        let rng = streams::stream(scenario.seed, Purpose::Traffic, number as u64);
        let source = Source::new(&model.traffic, Drift::from_ppm(ppm), model.start, model.stop, rng).map_err(wrong)?;
        let header = match &model.transport {
            Transport::Datagram { header } => *header,
            Transport::Tcp(_) => 0,
        };
        let agent = match (source, &model.transport) {
            // A source is where its packets begin; an endpoint is at both ends.
            _ if here == [false; 2] => Agent::Done,
            (Some(_), Transport::Datagram { .. }) if !here[0] => Agent::Done,
            (Some(source), Transport::Datagram { .. }) => match source.metronome() {
                Some(metronome) => Agent::Metronome(metronome.clone()),
                None => Agent::Source(Box::new(source)),
            },
            _ => {
                if model.back.is_empty() {
                    return Err(WorldError::NoPath { what: format!("flow `{}`, back", model.name) });
                }
                check_instant(scenario, model)?;
                let rng = streams::stream(scenario.seed, Purpose::Transport, number as u64);
                let wanted = application::Wanted {
                    ideal: ideal(scenario, model).map(Arc::new),
                    records: scenario.metrics.transfers,
                    ..application::Wanted::default()
                };
                let endpoint =
                    application::tcp::endpoint(&model.traffic, &model.transport, wanted, rng).map_err(wrong)?;
                let attach = |endpoint| Attached::new(endpoint, scenario, number, (processors, here), &entries[1..]);
                endpoint.map_or(Agent::Done, |endpoint| Agent::Endpoint(Box::new(attach(endpoint))))
            }
        };
        let meter = FlowMeter::new(&scenario.metrics, outage);
        let (next_size, numbers, sent_before) = (0, [0; 2], 0);
        Ok(Flow {
            agent,
            stop: model.stop,
            next_size,
            // No datagram is longer.
            header: u16::try_from(header).unwrap_or(u16::MAX),
            dscp: model.dscp,
            wander,
            numbers,
            sent_before,
            entry: entries[0],
            meter,
        })
    }

    /// First step of the path to the receiver.
    #[inline]
    pub(crate) fn entry(&self) -> u32 {
        self.entry[0]
    }

    /// Reads a little of each line that sending needs.
    #[inline]
    pub(crate) fn read(&self) -> u32 {
        self.next_size
    }

    /// The same for receiving.
    #[inline]
    pub(crate) fn read_meter(&self) -> u32 {
        self.meter.bytes() as u32
    }

    fn window(&self) -> Option<u64> {
        match &self.agent {
            Agent::Endpoint(attached) if attached.here[0] => attached.endpoint.window(),
            _ => None,
        }
    }

    /// The parts of the world are one again: takes over what this flow has in another one, where the receiver's end is or only packets were lost.
    pub(crate) fn absorb(&mut self, other: &mut Flow, receives: bool) {
        if receives {
            std::mem::swap(&mut self.meter, &mut other.meter);
            self.numbers[1] = other.numbers[1];
            let far = std::mem::replace(&mut other.agent, Agent::Done);
            if let (Agent::Endpoint(attached), Agent::Endpoint(far)) = (&mut self.agent, far) {
                attached.far = Some(far.endpoint);
            }
        }
        self.meter.absorb_drops(&other.meter);
    }

    #[inline]
    fn arm_source(&mut self, here: &mut Here<'_>) {
        let next = match &mut self.agent {
            Agent::Metronome(source) => source.next(self.stop),
            Agent::Source(source) => source.next(),
            _ => return,
        };
        match next {
            Some((time, size)) => {
                self.next_size = size;
                let time = self.wander.after(time, self.stop);
                here.schedule(TIMER, time);
            }
            None => self.agent = Agent::Done,
        }
    }

    /// The first steps of a connection's paths: the first one has the flow's own, the others any.
    #[inline]
    fn way_of(&self, connection: u32) -> [u32; 2] {
        match &self.agent {
            Agent::Endpoint(attached) if connection > 0 && !attached.others.is_empty() => {
                let place = Rng::new(u64::from(connection)).below(attached.others.len() as u64 + 1) as usize;
                if place == 0 { self.entry } else { attached.others[place - 1] }
            }
            _ => self.entry,
        }
    }

    /// A packet begins its way.
    #[inline]
    fn launch(&mut self, here: &mut Here<'_>, outgoing: Outgoing) -> Output {
        let Outgoing { reverse, connection, size, body } = outgoing;
        let way = usize::from(reverse);
        let number = self.numbers[way];
        self.numbers[way] += 1;
        let (created, step) = (here.now(), self.way_of(connection)[way]);
        let packet =
            Packet { flow: here.number, reverse, number, size, created, connection, step, dscp: self.dscp, body };
        Output::Forward(here.engine.launch(here.mark, packet))
    }
}

impl Attached {
    fn new(
        endpoint: Box<dyn Endpoint>,
        scenario: &Scenario,
        number: usize,
        (processors, here): ([Option<u32>; 2], [bool; 2]),
        others: &[[u32; 2]],
    ) -> Attached {
        let model = &scenario.flows[number];
        let mut endpoint = endpoint;
        for (reverse, here) in [(false, here[0]), (true, here[1])] {
            if !here {
                endpoint.silence(reverse);
            }
        }
        let outbox = (scenario.processing > Span::ZERO).then(|| {
            // Ends that are apart draw apart.
            let number = if here[0] { number as u64 } else { !(number as u64) };
            let rng = streams::stream(scenario.seed, Purpose::Outbox, number);
            Outbox::new(scenario.processing, rng)
        });
        Attached {
            endpoint,
            timer: Timer::IDLE,
            start: model.start,
            stop: model.stop,
            outbox,
            processors,
            others: others.into(),
            here,
            far: None,
            begun: false,
            stopped: false,
        }
    }

    /// The flow's timer has run out.
    fn handle_timeout(&mut self, now: Time) -> Next {
        if !self.timer.fire(now) {
            return Next::Nothing;
        }
        if now >= self.start && !self.begun {
            self.begun = true;
            self.endpoint.start(now);
        }
        if self.endpoint.poll_timeout().is_some_and(|time| time <= now) {
            self.endpoint.handle_timeout(now);
        }
        if now >= self.stop && !self.stopped {
            self.stopped = true;
            self.endpoint.stop(now);
        }
        Next::Poll(0)
    }

    /// The next packet that leaves now; those of an outbox leave later.
    #[inline(always)]
    fn poll_transmit(&mut self, here: &mut Here<'_>) -> Option<Outgoing> {
        let now = here.now();
        loop {
            let outgoing = self.endpoint.poll_transmit(now)?;
            let Some(outbox) = &mut self.outbox else { return Some(outgoing) };
            let timer = if outgoing.reverse { ANSWERS } else { LEAVES };
            let time = outbox.push(now, outgoing, &mut here.engine.waiting);
            here.schedule(timer, time);
        }
    }

    /// Nothing is left to be sent now: sets the timer.
    fn rest(&mut self, here: &mut Here<'_>) {
        let now = here.now();
        let mut wanted = self.endpoint.poll_timeout().unwrap_or(Time::MAX);
        if !self.stopped {
            wanted = wanted.min(self.stop);
        }
        let wanted = wanted.max(now);
        if wanted <= here.engine.end() && self.timer.set(wanted) {
            here.schedule(TIMER, wanted);
        }
    }
}

impl Node for Flow {
    fn begin(&mut self, mut here: Here<'_>) {
        match &mut self.agent {
            Agent::Metronome(_) | Agent::Source(_) => self.arm_source(&mut here),
            Agent::Endpoint(attached) => {
                let start = attached.start;
                if start < attached.stop && start <= here.engine.end() && attached.timer.set(start) {
                    here.schedule(TIMER, start);
                }
            }
            Agent::Done => {}
        }
    }

    /// A packet has come to its receiver.
    #[inline(always)]
    fn handle_packet(&mut self, here: Here<'_>, _: u32, handle: Handle) -> Next {
        let now = here.now();
        here.engine.deliver(here.mark, handle);
        let Slot { reverse, created, number, size, connection, .. } = here.engine.pool[handle];
        if !reverse {
            match here.engine.pool.segment(handle) {
                Some(segment) => self.meter.handle_segment(now, created, number, size, connection, segment),
                None => self.meter.handle_datagram(now, created, number, size),
            }
        }
        let Some(attached) = self.agent.attached() else {
            self.meter.handle_goodput(now, u64::from(size.saturating_sub(u32::from(self.header))));
            here.engine.pool.free(handle);
            return Next::Nothing;
        };
        let packet = here.engine.pool.packet(handle);
        let disordered = attached.endpoint.handle_packet(now, &packet).out_of_order;
        let processor = attached.processors[usize::from(!reverse)].filter(|_| disordered);
        here.engine.pool.free(handle);
        processor.map_or(Next::Poll(0), |processor| Next::Then(Output::OutOfOrder(processor), 0))
    }

    #[inline(always)]
    fn handle_timeout(&mut self, mut here: Here<'_>, timer: u32, _: Event) -> Next {
        if timer != TIMER {
            let outbox = self.agent.attached().and_then(|attached| attached.outbox.as_mut());
            let outgoing = outbox.and_then(|outbox| outbox.pop(timer == ANSWERS, &mut here.engine.waiting));
            return outgoing.map_or(Next::Nothing, |outgoing| Next::Only(self.launch(&mut here, outgoing)));
        }
        match &mut self.agent {
            Agent::Metronome(_) | Agent::Source(_) => {
                let size = self.next_size;
                self.arm_source(&mut here);
                let outgoing = Outgoing { reverse: false, connection: 0, size, body: Body::Datagram };
                Next::Only(self.launch(&mut here, outgoing))
            }
            Agent::Endpoint(attached) => attached.handle_timeout(here.now()),
            Agent::Done => Next::Nothing,
        }
    }

    #[inline(always)]
    fn poll(&mut self, mut here: Here<'_>, _: u32) -> Option<Output> {
        let attached = self.agent.attached()?;
        if let Some(outgoing) = attached.poll_transmit(&mut here) {
            return Some(self.launch(&mut here, outgoing));
        }
        let delivered = attached.endpoint.poll_delivered();
        attached.rest(&mut here);
        if delivered > 0 {
            self.meter.handle_goodput(here.now(), delivered);
        }
        None
    }

    fn handle_lost(&mut self, packet: &Slot) {
        if !packet.reverse {
            self.meter.handle_dropped();
        }
    }

    fn in_flight(&self) -> u64 {
        // What it has sent is elsewhere.
        0
    }

    fn series(&self, name: &str, tell: &mut dyn FnMut(String, &'static str, series::Kind)) {
        tell(format!("flow {name} throughput"), "bit/s", series::Kind::Rate);
        if self.window().is_some() {
            tell(format!("flow {name} window"), "bytes", series::Kind::Level);
        }
    }

    fn sample(&mut self, _: Time, tell: &mut dyn FnMut(f64)) {
        tell(self.meter.bytes() as f64 * 8.0);
        if let Some(window) = self.window() {
            tell(window as f64);
        }
    }

    fn measure(&mut self, now: Time, restart: &mut dyn FnMut(usize, f64)) {
        restart(0, self.meter.bytes() as f64 * 8.0);
        self.meter.begin();
        self.sent_before = self.numbers[0];
        if let Some(attached) = self.agent.attached() {
            attached.endpoint.begin(now);
        }
    }

    fn result(&mut self, here: Here<'_>, name: &str, results: &mut Results) {
        let sent = self.numbers[0] - self.sent_before;
        let far = match &mut self.agent {
            Agent::Endpoint(attached) => attached.far.take(),
            _ => None,
        };
        // Whether it is complete, its receiver knows, and whether it was given up, its sender.
        let sender = self.agent.endpoint().and_then(|endpoint| endpoint.transfers());
        let receiver = far.as_ref().and_then(|far| far.transfers());
        let transfers = match (sender, receiver) {
            (Some(sender), Some(receiver)) if receiver.unfinished == 0 || sender.unfinished > 0 => Some(receiver),
            (sender, _) => sender,
        };
        // Who has nothing left to send waits for nothing.
        if transfers.as_ref().is_none_or(|transfers| transfers.unfinished > 0) {
            self.meter.handle_end(self.stop.min(here.engine.end()));
        }
        let mut result = self.meter.result(name, here.engine.measured().span(), sent);
        if let Some(endpoint) = self.agent.endpoint() {
            let now = here.now();
            let tcp = endpoint.tcp();
            result.tcp = match far.and_then(|far| far.tcp()) {
                Some(far) => tcp.map(|tcp| tcp.with(&far)),
                None => tcp,
            };
            result.transfers = transfers.map(Box::new);
            (result.video, result.call) = (endpoint.video(now).map(Box::new), endpoint.call(now).map(Box::new));
            result.game = endpoint.game(now).map(Box::new);
        }
        // Its place is that of results to come.
        self.agent = Agent::Done;
        results.flows.push(result);
    }
}

/// What answers itself needs something on its way that takes time.
fn check_instant(scenario: &Scenario, flow: &model::Flow) -> Result<(), WorldError> {
    let takes_time = |hop: &model::Hop| match hop {
        model::Hop::Link(link) => {
            let profile = &scenario.links[*link as usize].profile;
            profile.delay > Span::ZERO || profile.capacity != Capacity::Unlimited
        }
        model::Hop::Bond(..) | model::Hop::Ring(..) => true,
    };
    let first = flow.path.iter().chain(&flow.back).any(takes_time);
    let others = flow.others.iter().all(|[there, back]| there.iter().chain(back).any(takes_time));
    if first && others { Ok(()) } else { Err(WorldError::Instant { flow: flow.name.clone() }) }
}

/// What a constant-rate source takes to get a packet out: between nothing and the distance of its packets, slowly to
/// and fro, 96 to 160 packets a turn. A constant drift alone moves two sources past each other in seconds where their
/// clocks happen to be close, and within a run one of them would keep the better place. The rate stays what it is.
#[derive(Clone, Copy, Debug)]
struct Wander {
    /// Nanoseconds from one packet to the next.
    distance: u64,
    /// Where in the turn the next packet is, and how far a packet moves on, as fractions of 2^64.
    phase: u64,
    step: u64,
    last: Time,
}

impl Wander {
    const NONE: Wander = Wander { distance: 0, phase: 0, step: 0, last: Time::ZERO };

    fn new(distance: f64, rng: &mut Rng) -> Wander {
        let step = u64::MAX / 160 + rng.below(u64::MAX / 96 - u64::MAX / 160);
        Wander { distance: distance as u64, step, ..Wander::NONE }
    }

    /// When the packet leaves that its source has made for `time`: the first one at once, none before another, and none
    /// after `stop`.
    #[inline]
    fn after(&mut self, time: Time, stop: Time) -> Time {
        if self.distance == 0 {
            return time;
        }
        // A triangle: up in the first half of the turn, down in the second.
        let part = if self.phase >> 63 == 0 { self.phase << 1 } else { !(self.phase << 1) };
        self.phase = self.phase.wrapping_add(self.step);
        let late = (u128::from(self.distance) * u128::from(part)) >> 64;
        let time = (time + Span::from_nanos(late as u64)).min(stop);
        self.last = self.last.max(time);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::link::Link;

    #[test]
    fn a_flow_takes_four_lines_of_the_cache_and_a_link_five() {
        assert_eq!((size_of::<Flow>(), std::mem::offset_of!(Flow, wander)), (256, 64));
        assert_eq!(std::mem::offset_of!(Flow, meter), 128);
        assert_eq!((size_of::<Link>(), Link::EVERY_FRAMES_LINE), (320, 192));
    }
}
