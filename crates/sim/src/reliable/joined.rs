//! A reliable flow as a node: its frames go out by its paths and come back to it.
//!
//! Its two parts are its ends, the sender's and the receiver's. Frames are packets of its own making, as a bond's are; what they
//! carry are numbers and times, which need no packets of the simulation. Its results are a flow's, with the counters of its ends.

use super::ends::Ends;
use super::payload::Carried;
use super::reckoned::Reckoned;
use crate::engine::event::Event;
use crate::engine::pool::{Content, Handle, Slot};
use crate::error::WorldError;
use crate::metrics::{FlowMeter, series};
use crate::model::Scenario;
use crate::node::timer::Timer;
use crate::node::{Here, Next, Node, Output};
use crate::packet::{Body, Packet};
use crate::results::{BondResult, Distribution, Percentiles, Results};
use fairspan_core::arq::{Header, OPTIONS};
use fairspan_core::units::Time;

/// Parts and timers: the sender's end, the receiver's.
const SENDER: u32 = 0;
const RECEIVER: u32 = 1;

/// A reliable flow whose paths have their steps.
#[derive(Debug)]
pub(crate) struct Joined {
    ends: Ends,
    /// The number that its frames have for their flow.
    flow: u32,
    size: u32,
    ack_size: u32,
    start: Time,
    stop: Time,
    timers: [Timer; 2],
    /// For each path the first step there and back.
    entry: Vec<[u32; 2]>,
    /// Numbers of the next frames, by end.
    numbers: [u64; 2],
    sent_before: u64,
    /// Bytes sent by each path.
    carried: Vec<u64>,
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    meter: FlowMeter,
    /// The number that the application expects, and how often it got another.
    expected: u64,
    disordered: u64,
    reckoned: Option<Reckoned>,
}

/// A frame under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    head: [u8; Header::REQUEST_LENGTH],
    /// None: an acknowledgment.
    carried: Option<Carried>,
}

impl Joined {
    /// The reliable flow `number` of a scenario. Its paths are still to be given, in order: [`Joined::connect`].
    pub(crate) fn new(scenario: &Scenario, number: usize) -> Result<Joined, WorldError> {
        let model = &scenario.reliable[number];
        let wrong = |error: String| WorldError::Reliable { flow: model.name.clone(), error };
        if let Some(wrong_option) = OPTIONS.out_of_range(&model.config) {
            return Err(wrong(format!("{} is {}, out of its range", wrong_option.option, wrong_option.value)));
        }
        if !(1..=64).contains(&model.paths.len()) {
            return Err(wrong(format!("{} paths; it may have 1 to 64", model.paths.len())));
        }
        Ok(Joined {
            ends: Ends::new(model.scheme, &model.config, model.paths.len()),
            flow: (scenario.flows.len() + scenario.bonds.len() + number) as u32,
            size: model.config.segment.as_u64() as u32,
            ack_size: model.ack_size.as_u64() as u32,
            start: model.start,
            stop: model.stop,
            timers: [Timer::IDLE; 2],
            entry: Vec::with_capacity(model.paths.len()),
            numbers: [0; 2],
            sent_before: 0,
            carried: vec![0; model.paths.len()],
            flights: Vec::new(),
            free: Vec::new(),
            meter: FlowMeter::new(&scenario.metrics, scenario.first_outage()),
            expected: 0,
            disordered: 0,
            reckoned: Reckoned::of(scenario, model),
        })
    }

    /// The port of frames that come to an end over a path.
    pub(crate) fn frame_port(end: usize, path: usize) -> u32 {
        (2 * path + end) as u32
    }

    /// The next path's two directions begin with these steps.
    pub(crate) fn connect(&mut self, entry: [u32; 2]) {
        self.entry.push(entry);
    }

    fn fresh(&self, now: Time) -> bool {
        now >= self.start && now < self.stop && self.reckoned.is_none()
    }

    fn send(&mut self, here: &mut Here<'_>, end: usize, path: usize, size: u32, flight: Flight) -> Output {
        let content = match self.free.pop() {
            Some(at) => {
                self.flights[at as usize] = Some(flight);
                at
            }
            None => {
                self.flights.push(Some(flight));
                (self.flights.len() - 1) as u32
            }
        };
        let number = self.numbers[end];
        self.numbers[end] += 1;
        let packet = Packet {
            flow: self.flow,
            reverse: end == 1,
            number,
            size,
            created: here.now(),
            connection: path as u32,
            step: self.entry[path][end],
            dscp: 0,
            body: Body::Frame(content),
        };
        Output::Forward(here.engine.launch(here.mark, packet))
    }

    fn take_flight(&mut self, content: u32) -> Option<Flight> {
        let flight = self.flights.get_mut(content as usize)?.take()?;
        self.free.push(content);
        Some(flight)
    }

    fn deliver(&mut self, now: Time) {
        while let Some(payload) = self.ends.poll_deliver() {
            self.disordered += u64::from(payload.number != self.expected);
            self.expected = payload.number + 1;
            self.meter.handle_datagram(now, payload.created, payload.number, self.size);
            self.meter.handle_goodput(now, u64::from(self.size));
        }
    }

    /// Nothing is left to be polled at an end: sets its timer.
    fn rest(&mut self, here: &mut Here<'_>, part: u32) {
        let now = here.now();
        let wanted = match part {
            SENDER if now < self.start => Some(self.start),
            SENDER => self.ends.poll_sender(now, self.fresh(now)),
            _ => self.ends.poll_receiver(),
        };
        if let Some(at) = wanted {
            let at = at.max(now);
            if self.timers[part as usize].set(at) {
                here.schedule(part, at);
            }
        }
    }
}

impl Node for Joined {
    fn begin(&mut self, mut here: Here<'_>) {
        if self.reckoned.is_none() {
            self.rest(&mut here, SENDER);
        }
    }

    /// A frame has come to an end.
    fn handle_packet(&mut self, here: Here<'_>, port: u32, handle: Handle) -> Next {
        let now = here.now();
        let (path, end) = ((port / 2) as usize, port % 2);
        let Content::Frame(content) = here.engine.pool[handle].content else {
            return Next::Only(Output::Dropped(handle));
        };
        here.engine.deliver(here.mark, handle);
        here.engine.pool.free(handle);
        let Some(Flight { head, carried }) = self.take_flight(content) else { return Next::Nothing };
        let Ok(header) = Header::decode(&head) else { return Next::Nothing };
        match carried {
            Some(carried) => {
                self.ends.handle_data(now, path, &header, carried);
                self.deliver(now);
            }
            None => self.ends.handle_ack(now, path, &header),
        }
        Next::Poll(end)
    }

    fn handle_timeout(&mut self, here: Here<'_>, timer: u32, _: Event) -> Next {
        let now = here.now();
        if !self.timers[timer as usize].fire(now) {
            return Next::Nothing;
        }
        if timer == SENDER {
            self.ends.handle_timeout(now);
        }
        Next::Poll(timer)
    }

    fn poll(&mut self, mut here: Here<'_>, part: u32) -> Option<Output> {
        let now = here.now();
        let mut head = [0; Header::REQUEST_LENGTH];
        if part == RECEIVER {
            if let Some((path, header)) = self.ends.poll_ack(now) {
                header.encode(&mut head);
                return Some(self.send(&mut here, 1, path, self.ack_size, Flight { head, carried: None }));
            }
        } else if now >= self.start
            && let Some(frame) = self.ends.poll_data(now, self.fresh(now))
        {
            frame.header.encode(&mut head);
            self.carried[frame.path] += u64::from(frame.size);
            let flight = Flight { head, carried: Some(frame.carried) };
            return Some(self.send(&mut here, 0, frame.path, frame.size, flight));
        }
        self.rest(&mut here, part);
        None
    }

    /// A frame was lost.
    fn handle_lost(&mut self, packet: &Slot) {
        if let Content::Frame(content) = packet.content {
            self.meter.handle_dropped();
            self.take_flight(content);
        }
    }

    /// The header.
    fn write_content(&self, packet: &Packet, bytes: &mut Vec<u8>) {
        let Body::Frame(content) = packet.body else { return };
        if let Some(Some(flight)) = self.flights.get(content as usize) {
            bytes.extend_from_slice(&flight.head);
        }
    }

    fn in_flight(&self) -> u64 {
        // What it has sent is elsewhere.
        0
    }

    fn series(&self, name: &str, tell: &mut dyn FnMut(String, &'static str, series::Kind)) {
        tell(format!("flow {name} throughput"), "bit/s", series::Kind::Rate);
        for path in 0..self.carried.len() {
            tell(format!("flow {name} path {path}"), "bit/s", series::Kind::Rate);
        }
    }

    fn sample(&mut self, _: Time, tell: &mut dyn FnMut(f64)) {
        tell(self.meter.bytes() as f64 * 8.0);
        self.carried.iter().for_each(|bytes| tell(*bytes as f64 * 8.0));
    }

    fn measure(&mut self, _: Time, restart: &mut dyn FnMut(usize, f64)) {
        restart(0, self.meter.bytes() as f64 * 8.0);
        self.meter.begin();
        self.sent_before = self.numbers[0];
    }

    fn result(&mut self, here: Here<'_>, name: &str, results: &mut Results) {
        let sent = self.numbers[0] - self.sent_before;
        let mut result = self.meter.result(name, here.engine.measured().span(), sent);
        if let Some(Reckoned { rate, delay }) = self.reckoned {
            let delay = delay.as_secs_f64();
            (result.throughput, result.goodput) = (rate, rate);
            let all = Percentiles { p50: delay, p90: delay, p99: delay, p999: delay };
            let percentiles = self.meter.wants_percentiles().then_some(all);
            let samples = percentiles.iter().map(|_| (delay, 1)).collect();
            let (min, max) = (delay, delay);
            result.delay = Distribution { count: 1, mean: delay, min, max, deviation: 0.0, percentiles, samples };
        }
        results.flows.push(result);
        let [sent, mut received] = self.ends.counters();
        received.push(("disordered", self.disordered));
        for (end, counters) in [sent, received].into_iter().enumerate() {
            let counters = counters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            results.bonds.push(BondResult { name: format!("{name}/{end}"), counters, held_max: 0 });
        }
    }
}
