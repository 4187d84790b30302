//! What is to be simulated: the problem of a file in bits, bytes and times.

use super::super::problem::{self, Document, FlowEntry};
use crate::exit::BadInput;
use fairspan_core::ring::problem::Problem;
use fairspan_core::ring::{Class, NodeId, Ringlet, rias};
use fairspan_core::units::Time;
use std::fmt::Write as _;
use std::path::Path;

/// What a file without a capacity, or with one as a share, has: OC-12, as in the paper.
const LINE_RATE: f64 = 622e6;
/// Propagation over one link.
const DELAY_US: f64 = 100.0;
/// Room of each queue.
const BUFFER: u64 = 200_000;
/// Of each packet, headers included.
const PACKET: u64 = 1000;
/// The headers of a datagram: none is shorter.
const LEAST_PACKET: u64 = 28;
/// The headers of a TCP segment, and some content.
const LEAST_SEGMENT: u64 = 100;
const MOST_PACKET: u64 = 65_535;

/// The units of capacity, and the bits a second of one.
const UNITS: [(&str, f64); 5] =
    [("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9), ("share", LINE_RATE)];

/// A unit of the file's rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit {
    /// As it is written.
    pub(super) name: &'static str,
    /// Bits a second.
    pub(super) bits: f64,
}

impl Unit {
    /// The unit called `name`, or else the one in which `capacity` is one of a link.
    fn of(name: Option<&str>, capacity: f64) -> Result<Unit, String> {
        let name = name.unwrap_or(match capacity {
            share if share <= 1.0 => "share",
            mbit if mbit < 1e6 => "Mbit/s",
            _ => "bit/s",
        });
        let found = UNITS.iter().find(|unit| unit.0 == name).map(|&(name, bits)| Unit { name, bits });
        found.ok_or_else(|| {
            let known: Vec<&str> = UNITS.iter().map(|unit| unit.0).collect();
            format!("unit \"{name}\": write one of {}", known.join(", "))
        })
    }
}

/// The times of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phases {
    /// The last start or stop of a flow.
    pub(super) begin: Time,
    /// Rates are measured from here on.
    pub(super) measured: Time,
    /// The end.
    pub(super) end: Time,
}

/// One flow.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Offered {
    /// `FROM-TO`; what has the same ends has a number behind.
    pub(super) name: String,
    /// What its source sends, in bit/s; of TCP the most that it can.
    pub(super) rate: u64,
    /// Whether it is a TCP connection.
    pub(super) tcp: bool,
    /// Bytes of each packet.
    pub(super) packet: u64,
    /// When it begins.
    pub(super) start_ns: u64,
    /// When it ends, if it does.
    pub(super) stop_ns: Option<u64>,
    /// How its packets are served.
    pub(super) class: Class,
    /// The way that the file names.
    pub(super) ringlet: Option<Ringlet>,
}

/// What is to be simulated.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// In the file's unit.
    pub(super) problem: Problem,
    /// What is fair among the flows that send at the end, in the file's unit; `None` where the reference finds nothing.
    pub(super) fair: Option<Vec<f64>>,
    /// What each way carries of which the file says nothing, in bit/s.
    usual: u64,
    /// Of its rates.
    pub(super) unit: Unit,
    /// In the order of the problem's flows.
    pub(super) flows: Vec<Offered>,
    /// Over one link, in one direction.
    pub(super) delay_ns: u64,
    /// Room of each transit queue, and of the station's queue to each egress.
    pub(super) buffer: u64,
    /// Between control messages.
    pub(super) interval_ns: u64,
    /// In all.
    pub(super) duration_ns: u64,
}

impl Setup {
    /// What `document`, read from `file`, asks for over `seconds`.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub(super) fn new(document: &Document, file: &Path, seconds: f64) -> Result<Setup, BadInput> {
        let name = problem::name(file);
        let problem = document.problem(file)?;
        let wrong = |what: String| BadInput(format!("{name}: {what}"));
        let unit = Unit::of(document.unit.as_deref(), document.capacity).map_err(wrong)?;
        let delay = micros("delay_us", document.delay_us.unwrap_or(DELAY_US), 0).map_err(wrong)?;
        let interval = match document.interval_us {
            Some(interval) => micros("interval_us", interval, 1000).map_err(wrong)?,
            None if delay > 0 => delay.saturating_mul(problem.nodes() as u64),
            None => return Err(wrong("delay_us is 0: write an interval_us as well".into())),
        };
        let packet = packet(document.packet_bytes.unwrap_or(PACKET)).map_err(wrong)?;
        let buffer = document.buffer_bytes.unwrap_or(BUFFER);
        let duration_ns = (seconds * 1e9).round() as u64;
        for node in 0..problem.nodes() {
            for ringlet in Ringlet::BOTH {
                bits(problem.capacity(NodeId::at(node), ringlet), unit)
                    .map_err(|what| wrong(format!("capacity {what}")))?;
            }
        }
        let mut flows: Vec<Offered> = Vec::with_capacity(document.flows.len());
        for (index, entry) in document.flows.iter().enumerate() {
            let flow = offered(&problem, unit, index, entry, packet, duration_ns);
            let mut flow = flow.map_err(|what| wrong(format!("flows[{index}]: {what}")))?;
            let before =
                document.flows[..index].iter().filter(|other| (other.from, other.to) == (entry.from, entry.to));
            let before = before.count();
            if before > 0 {
                let _ = write!(flow.name, ":{}", before + 1);
            }
            if flow.packet > buffer {
                return Err(wrong(format!("buffer_bytes {buffer}: write at least a packet's {}", flow.packet)));
            }
            flows.push(flow);
        }
        if flows.is_empty() {
            return Err(wrong("flows is empty: there is nothing to simulate".into()));
        }
        let fair = fair(document, file, &flows)?;
        let usual = bits(document.capacity, unit).map_err(|what| wrong(format!("capacity {what}")))?;
        Ok(Setup { problem, fair, usual, unit, flows, delay_ns: delay, buffer, interval_ns: interval, duration_ns })
    }

    /// What a way carries of which the file says nothing, in bit/s.
    pub(super) fn usual(&self) -> u64 {
        self.usual
    }

    /// What the link at this index carries, by ringlet, in bit/s.
    pub(super) fn ways(&self, link: usize) -> [u64; 2] {
        let east = NodeId::at(link);
        let west = self.problem.topology().next(east, Ringlet::Zero);
        let way = |node, ringlet| (self.problem.capacity(node, ringlet) * self.unit.bits).round() as u64;
        [way(east, Ringlet::Zero), way(west, Ringlet::One)]
    }

    /// The last instant at which a flow starts or stops, half-way from there to the end, and the end.
    pub(super) fn phases(&self) -> Phases {
        let starts = self.flows.iter().map(|flow| flow.start_ns);
        let stops = self.flows.iter().filter_map(|flow| flow.stop_ns);
        let begin = starts.chain(stops).max().unwrap_or(0);
        let measured = begin + (self.duration_ns - begin) / 2;
        let [begin, measured, end] = [begin, measured, self.duration_ns].map(Time::from_nanos);
        Phases { begin, measured, end }
    }

    /// The capacity of the narrowest link that a flow crosses, in bit/s.
    pub(super) fn narrowest(&self, flow: usize) -> f64 {
        let flow = &self.problem.flows()[flow];
        let links = self.problem.along(flow).map(|node| self.problem.capacity(node, flow.route.ringlet));
        links.fold(f64::INFINITY, f64::min) * self.unit.bits
    }

    /// The largest capacity of all links, in bit/s: what shares of the capacity refer to.
    pub(super) fn capacity(&self) -> f64 {
        let ways = (0..self.problem.nodes()).flat_map(|node| Ringlet::BOTH.map(|ringlet| (NodeId::at(node), ringlet)));
        let up = ways.filter(|&(node, ringlet)| self.problem.topology().way(node, ringlet).up);
        up.map(|(node, ringlet)| self.problem.capacity(node, ringlet)).fold(0.0, f64::max) * self.unit.bits
    }
}

/// What is fair among the flows that send at the end; nothing for the others.
fn fair(document: &Document, file: &Path, flows: &[Offered]) -> Result<Option<Vec<f64>>, BadInput> {
    let sends = |flow: &Offered| flow.stop_ns.is_none();
    let mut last = document.clone();
    let mut each = flows.iter();
    last.flows.retain(|_| each.next().is_some_and(sends));
    let Ok(allocation) = rias::allocate(&last.problem(file)?) else { return Ok(None) };
    let mut rates = allocation.rates.into_iter();
    Ok(Some(flows.iter().map(|flow| if sends(flow) { rates.next().unwrap_or(0.0) } else { 0.0 }).collect()))
}

/// One flow of the file.
fn offered(
    problem: &Problem,
    unit: Unit,
    index: usize,
    entry: &FlowEntry,
    usual: u64,
    duration_ns: u64,
) -> Result<Offered, String> {
    let flow = &problem.flows()[index];
    // Without a demand: what its first link carries.
    let demand = flow.demand.unwrap_or_else(|| problem.capacity(flow.from, flow.route.ringlet));
    let rate = if demand == 0.0 { 0 } else { bits(demand, unit).map_err(|what| format!("demand {what}"))? };
    let class = match entry.class.as_deref() {
        None | Some("C" | "c") => Class::C,
        Some("B" | "b") => Class::B,
        Some("A" | "a") => Class::A,
        Some(other) => return Err(format!("class \"{other}\": write A, B or C")),
    };
    let tcp = match entry.kind.as_deref() {
        None | Some("constant" | "udp") => false,
        Some("tcp") if flow.demand.is_some() => {
            return Err("demand: TCP sends what it can; leave the demand out".into());
        }
        Some("tcp") => true,
        Some(other) => return Err(format!("kind \"{other}\": write \"constant\" or \"tcp\"")),
    };
    let start_ns = millis("start_ms", entry.start_ms.unwrap_or(0.0))?;
    let stop_ns = entry.stop_ms.map(|stop| millis("stop_ms", stop)).transpose()?;
    if start_ns >= duration_ns {
        return Err(format!("start_ms {}: that is not before the end", start_ns as f64 / 1e6));
    }
    if stop_ns.is_some_and(|stop| stop <= start_ns) {
        return Err("stop_ms: write a time after start_ms".into());
    }
    // What stops at the end or later does not stop.
    let stop_ns = stop_ns.filter(|stop| *stop < duration_ns);
    let packet = entry.packet_bytes.map_or(Ok(usual), packet)?;
    if tcp && packet < LEAST_SEGMENT {
        return Err(format!("packet_bytes {packet}: TCP needs {LEAST_SEGMENT} at least"));
    }
    let (name, ringlet) = (format!("{}-{}", flow.from, flow.to), entry.ringlet.map(|_| flow.route.ringlet));
    Ok(Offered { name, rate, tcp, packet, start_ns, stop_ns, class, ringlet })
}

fn packet(bytes: u64) -> Result<u64, String> {
    if (LEAST_PACKET..=MOST_PACKET).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("packet_bytes {bytes}: write {LEAST_PACKET} to {MOST_PACKET}"))
    }
}

/// A rate of the file in bit/s.
fn bits(rate: f64, unit: Unit) -> Result<u64, String> {
    let bits = (rate * unit.bits).round();
    if (1.0..=1e12).contains(&bits) {
        Ok(bits as u64)
    } else {
        Err(format!("{rate} {}: write 1 bit/s to 1 Tbit/s", unit.name))
    }
}

fn micros(key: &str, value: f64, least_ns: u64) -> Result<u64, String> {
    span(key, value, 1e3, "microseconds", least_ns)
}

fn millis(key: &str, value: f64) -> Result<u64, String> {
    span(key, value, 1e6, "milliseconds", 0)
}

fn span(key: &str, value: f64, unit: f64, name: &str, least_ns: u64) -> Result<u64, String> {
    let ns = value * unit;
    if ns >= least_ns as f64 && ns <= 1e15 {
        Ok(ns.round() as u64)
    } else {
        Err(format!("{key} {value}: write {name} from {} on", least_ns as f64 / unit))
    }
}
