//! What our own queues take, over the packets of a sequence: time, instructions, memory.
//!
//! What it is: packets come at their instants, and leave over one link, one after the other. A queue (discipline and policy) is
//! given each when it comes, and asked for the next whenever the link is free, as a driver does. Everything else is left out: what
//! counts for a packet is to let it in, with all that is dropped for it, and to take it out.
//!
//! - **mean**: processor time of whole runs, divided by packets; the median of several runs, without any look at the clock between.
//!   The loop around the queue is in it.
//! - **median, 99th percentile, worst**: each packet by the clock, less what reading the clock takes. The same run is repeated, and of
//!   each packet the shortest time counts: what the queue does for it is the same each time, and what else the machine does is not.
//! - **instructions**: of whole runs, where the machine counts them.
//! - **bytes of state**: what a queue holds with one packet of each of many flows, less what it holds with as many of one flow.
//!
//! The clock, the counter and the heap come from outside ([`Meter`]): this crate has none.

use super::meter::{Meter, Spread};
use super::sequence::Packet;
use fairspan_core::buffer::Limit;
use fairspan_core::queue::{self, Admit, ConfigError, End, Opaque, Parcel, Queue};
use fairspan_core::units::{Bytes, FlowNumber, Rate, Time};

/// What one queue took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Nanoseconds for each packet.
    pub ns: Spread,
    /// Instructions for each packet, on average.
    pub instructions: Option<f64>,
    /// Bytes of the heap for each flow that has packets waiting.
    pub state: f64,
    /// Most bytes of the heap that were held over the sequence, packets' places included.
    pub heap: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Most packets that waited at once.
    pub most_waiting: u64,
}

/// Fewest and most flows with which the state is measured.
const FLOWS: (u32, u32) = (1 << 10, 1 << 20);

/// Nanoseconds between two readings of the clock, one right after the other: the median.
pub fn clock(meter: &mut impl Meter) -> f64 {
    let mut pairs: Vec<u64> = (0..10_001)
        .map(|_| {
            let begin = meter.now();
            meter.now().saturating_sub(begin)
        })
        .collect();
    *pairs.select_nth_unstable(5000).1 as f64
}

/// What happens at one link.
#[derive(Clone, Debug)]
pub struct Course<'a> {
    packets: &'a [Packet],
    /// How long each is sent.
    sends: Vec<u64>,
}

/// A packet in a queue.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    number: u32,
    size: u32,
    hosts: [u32; 2],
    class: u8,
}

impl Parcel for Waiting {
    #[inline]
    fn size(&self) -> u32 {
        self.size
    }

    fn host(&self, end: End) -> u128 {
        u128::from(self.hosts[usize::from(end == End::Destination)])
    }

    fn class(&self) -> u8 {
        self.class
    }
}

/// What looks on at each step; packets are called by their numbers.
trait Watch {
    fn begin(&mut self);
    fn end(&mut self, packet: usize);
}

/// Nobody does.
struct Unwatched;

impl Watch for Unwatched {
    fn begin(&mut self) {}
    fn end(&mut self, _: usize) {}
}

/// Each packet's time is added up.
struct Stopwatch<'a, M> {
    meter: &'a mut M,
    began: u64,
    /// How often the clock was looked at for a packet, and nanoseconds without what that takes.
    spent: &'a mut [f32],
    clock: f64,
}

impl<M: Meter> Watch for Stopwatch<'_, M> {
    #[inline]
    fn begin(&mut self) {
        self.began = self.meter.now();
    }

    #[inline]
    fn end(&mut self, packet: usize) {
        let took = self.meter.now().saturating_sub(self.began) as f64 - self.clock;
        if let Some(spent) = self.spent.get_mut(packet) {
            *spent += took.max(0.0) as f32;
        }
    }
}

/// What became of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ran {
    dropped: u64,
    most_waiting: u64,
}

impl<'a> Course<'a> {
    /// These packets over this link.
    pub fn new(packets: &'a [Packet], link: Rate) -> Course<'a> {
        let send = |packet: &Packet| link.transmit_time(Bytes::new(u64::from(packet.length))).as_nanos();
        Course { packets, sends: packets.iter().map(send).collect() }
    }

    /// Takes a queue over the course.
    fn run(&self, queue: &mut Queue<Waiting>, watch: &mut impl Watch) -> Ran {
        let mut ran = Ran::default();
        // Until when the link is busy; `None`: nothing waits and nothing is sent.
        let mut free = None;
        let mut sent = 0;
        for (number, packet) in self.packets.iter().enumerate() {
            self.send_until(packet.time, &mut free, &mut sent, queue, &mut ran, watch);
            let &Packet { length: size, hosts, class, .. } = packet;
            let parcel = Waiting { number: number as u32, size, hosts, class };
            watch.begin();
            let admit = queue.enqueue(Time::from_nanos(packet.time), FlowNumber((packet.flow >> 32) as u32), parcel);
            ran.dropped += u64::from(matches!(admit, Admit::Refused(..)));
            while queue.poll_dropped().is_some() {
                ran.dropped += 1;
            }
            watch.end(number);
            ran.most_waiting = ran.most_waiting.max(queue.packets() as u64);
            free = free.or(Some(packet.time));
        }
        self.send_until(u64::MAX, &mut free, &mut sent, queue, &mut ran, watch);
        ran
    }

    /// Sends until `now`, or until nothing waits any more.
    #[inline]
    fn send_until(
        &self,
        now: u64,
        free: &mut Option<u64>,
        sent: &mut usize,
        queue: &mut Queue<Waiting>,
        ran: &mut Ran,
        watch: &mut impl Watch,
    ) {
        while let Some(at) = free.filter(|at| *at <= now) {
            watch.begin();
            let entry = queue.dequeue(Time::from_nanos(at));
            while queue.poll_dropped().is_some() {
                ran.dropped += 1;
            }
            *free = entry.map(|entry| {
                *sent = entry.packet.number as usize;
                at + self.sends[*sent]
            });
            // To find out that nothing waits belongs to the packet that was last.
            watch.end(*sent);
        }
    }

    /// Measures a queue of this configuration, in `rounds` runs of each kind (at least 1). `clock`: see [`clock`]; `flows`: most flows
    /// that are active at once.
    ///
    /// # Errors
    /// Names the setting that cannot work.
    pub fn measure(
        &self,
        config: &queue::Config,
        rounds: u32,
        clock: f64,
        flows: u32,
        meter: &mut impl Meter,
    ) -> Result<Measured, ConfigError> {
        let rounds = rounds.max(1);
        let fresh = || Queue::new(config, 1);
        let (before, _) = meter.heap();
        let mut queue = fresh()?;
        let ran = self.run(&mut queue, &mut Unwatched);
        let heap = (meter.heap().1 - before).max(0) as u64;
        drop(queue);
        let (mut whole, mut instructions) = (Vec::new(), Vec::new());
        let mut least = vec![f32::MAX; self.packets.len()];
        let mut spent = vec![0.0; self.packets.len()];
        for _ in 0..rounds {
            let mut queue = fresh()?;
            let counted = meter.instructions();
            let begin = meter.processor();
            self.run(&mut queue, &mut Unwatched);
            whole.push(meter.processor().saturating_sub(begin));
            instructions.extend(meter.instructions().zip(counted).map(|(after, before)| after.saturating_sub(before)));
            let mut queue = fresh()?;
            spent.fill(0.0);
            self.run(&mut queue, &mut Stopwatch { meter, began: 0, spent: &mut spent, clock });
            least.iter_mut().zip(&spent).for_each(|(least, spent)| *least = least.min(*spent));
        }
        let packets = self.packets.len().max(1) as f64;
        let mut least: Vec<u32> = least.into_iter().map(|ns| ns.round() as u32).collect();
        Ok(Measured {
            ns: Spread::of(middle(&mut whole) / packets, &mut least, 0.0),
            instructions: (!instructions.is_empty()).then(|| middle(&mut instructions) / packets),
            state: state(config, flows, meter)?,
            heap,
            dropped: ran.dropped,
            most_waiting: ran.most_waiting,
        })
    }
}

/// The median; 0 of none.
fn middle(values: &mut [u64]) -> f64 {
    let place = values.len() / 2;
    if values.is_empty() { 0.0 } else { *values.select_nth_unstable(place).1 as f64 }
}

/// Bytes of the heap for each flow that has packets waiting, with about so many of them: the next power of two, from 1024 to 1,048,576.
fn state(config: &queue::Config, flows: u32, meter: &mut impl Meter) -> Result<f64, ConfigError> {
    let flows = flows.clamp(FLOWS.0, FLOWS.1).next_power_of_two();
    // Everything fits, and nothing is dropped early.
    let mut config = *config;
    config.limit = Limit::Packets(queue::Config::MOST_PACKETS);
    let mut held = |spread: u32| {
        let (before, _) = meter.heap();
        let mut queue = Queue::new(&config, 1)?;
        for packet in 0..flows {
            // Numbers of flows are hashes, so they are far apart.
            let flow = FlowNumber((packet * spread).wrapping_mul(0x9e37_79b1));
            let _ = queue.enqueue(Time::ZERO, flow, Opaque { packet, size: 1000 });
        }
        Ok((meter.heap().0 - before) as f64)
    };
    Ok(((held(1)? - held(0)?) / f64::from(flows - 1)).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::buffer::PolicyConfig;

    /// A clock that goes on by 10 ns whenever it is looked at, and counters alike.
    #[derive(Default)]
    struct Steps {
        now: u64,
        processor: u64,
        instructions: u64,
    }

    impl Meter for Steps {
        fn now(&mut self) -> u64 {
            self.now += 10;
            self.now
        }

        fn processor(&mut self) -> u64 {
            self.processor += 60;
            self.processor
        }

        fn instructions(&mut self) -> Option<u64> {
            self.instructions += 900;
            Some(self.instructions)
        }

        fn heap(&mut self) -> (i64, i64) {
            (0, 0)
        }
    }

    fn packets(list: &[(u64, u64, u32)]) -> Vec<Packet> {
        list.iter()
            .map(|&(time, flow, length)| Packet { time, flow: flow << 32, chain: 0, length, hosts: [0; 2], class: 0 })
            .collect()
    }

    /// The order in which packets leave, and when.
    #[derive(Default)]
    struct Order(Vec<usize>);

    impl Watch for Order {
        fn begin(&mut self) {}
        fn end(&mut self, packet: usize) {
            self.0.push(packet);
        }
    }

    #[test]
    fn packets_leave_when_the_link_is_free_in_the_order_of_the_discipline() {
        // 1000 bytes take 8 us at 1 Gbit/s. Flow 2's packet comes after three of flow 1, and goes second or last.
        let packets = packets(&[(0, 1, 1000), (10, 1, 1000), (20, 1, 1000), (30, 2, 1000), (100_000, 1, 1000)]);
        let course = Course::new(&packets, Rate::from_mbit(1000));
        let order = |discipline: &str| {
            let mut config = queue::Config::default();
            config.discipline = discipline.parse().expect("a discipline");
            let mut order = Order::default();
            let ran = course.run(&mut Queue::new(&config, 1).expect("a queue"), &mut order);
            assert_eq!(ran, Ran { dropped: 0, most_waiting: 3 });
            order.0
        };
        // Each comes; each leaves; and twice the link finds nothing.
        assert_eq!(order("fifo"), [0, 0, 1, 2, 3, 1, 2, 3, 3, 4, 4, 4]);
        assert_eq!(order("round-robin"), [0, 0, 1, 2, 3, 1, 3, 2, 2, 4, 4, 4]);
    }

    #[test]
    fn what_is_measured_is_what_the_meter_says_less_what_the_clock_takes() {
        let packets = packets(&[(0, 1, 1000), (0, 2, 1000), (0, 3, 1000)]);
        let course = Course::new(&packets, Rate::from_mbit(1000));
        let mut config = queue::Config::default();
        config.discipline = "drr".parse().expect("a discipline");
        config.buffer = PolicyConfig::LongestQueue;
        config.limit = Limit::Packets(1);
        let mut meter = Steps::default();
        assert_eq!(clock(&mut meter), 10.0);
        let measured = course.measure(&config, 3, 4.0, 3, &mut meter).expect("it works");
        // The first leaves at once; of the others one has room. Coming takes 10 - 4 ns, leaving as well, and the last one's leaving also finds that
        // nothing waits.
        assert_eq!((measured.dropped, measured.most_waiting), (1, 1));
        assert_eq!(measured.ns.worst, 18.0);
        assert_eq!(measured.ns.mean, 20.0);
        assert_eq!(measured.instructions, Some(300.0));
    }
}
