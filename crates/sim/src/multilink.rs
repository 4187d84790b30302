//! A bundle of slow links that carries bulk packets in fragments and real-time packets ahead of them.
//!
//! Source: striping §7.2: quanta are bandwidth times the fragment delay, fragments are no larger than the smallest
//! quantum, and each link's queue is kept within its quantum. The machines are core's: [`quanta::from_fragment_delay`],
//! [`Srr`] for the choice of links, [`Fragmenter`] and [`Reassembler`]; the links are core's [`Schedule`]. What a
//! real-time packet then waits before its own first bit goes out is bounded by the fragment delay.
//!
//! Bulk traffic is always there. Real-time packets come at a constant distance with a drawn offset, one at a time.
//! Without fragments the same bundle sends bulk packets whole: quanta hold the largest packet, queues too.
//!
//! Departure: no bond setting leads here; the bundle is a world of its own, one direction of it.

use fairspan_core::causal::{Causal, ChannelSet, SetError, Srr};
use fairspan_core::link::{Limit, Profile, ProfileError, Schedule};
use fairspan_core::rng::Rng;
use fairspan_core::stripe::fragment::{Class, Fragmenter, HEADER_LEN, Reassembler, ReassemblerConfig};
use fairspan_core::stripe::quanta::{self, QuantaError};
use fairspan_core::units::{Bytes, ChannelId, Rate, Span, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use thiserror::Error;

/// The least useful fragment.
const LEAST_FRAGMENT: Bytes = Bytes::new(16);
/// Bulk packets that wait at the sender at any time.
const BACKLOG: u64 = 3;

/// A bundle and what it carries.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Rate and one-way delay of each link.
    pub links: Vec<(Rate, Span)>,
    /// What a real-time packet may wait; `None`: bulk packets go whole.
    pub fragment_delay: Option<Span>,
    /// Bytes of a bulk packet, at least 9.
    pub bulk: u32,
    /// Bytes of a real-time packet, at least 9; with its header no more than the smallest quantum.
    pub realtime: u32,
    /// From one real-time packet to the next.
    pub gap: Span,
    /// Simulated time.
    pub duration: Span,
    /// For the offsets of the real-time packets.
    pub seed: u64,
}

/// What a run gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Real-time packets sent, and delivered.
    pub realtime: (u64, u64),
    /// The longest time from a real-time packet's arrival at the sender to the beginning of its transmission.
    pub longest_wait: Span,
    /// The same in the mean, in seconds.
    pub mean_wait_s: f64,
    /// Bulk packets put together again at the far end.
    pub bulk: u64,
    /// Bulk payload in bits a second.
    pub bulk_rate: f64,
    /// Packets that came out of order within their class, or were given up.
    pub faults: u64,
    /// Quantum of each link in bytes.
    pub quanta: Vec<u32>,
    /// The largest fragment in bytes, header included.
    pub fragment: u32,
}

/// Why a bundle cannot work.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum BundleError {
    /// The quanta.
    #[error(transparent)]
    Quanta(#[from] QuantaError),
    /// The links as a set.
    #[error(transparent)]
    Set(#[from] SetError),
    /// A link.
    #[error(transparent)]
    Link(#[from] ProfileError),
    /// Packets of a size that cannot be.
    #[error("{what} packets of {size} bytes; they need {least} to {most}")]
    Size {
        /// `bulk` or `real-time`.
        what: &'static str,
        /// What was asked for.
        size: u32,
        /// The least.
        least: u32,
        /// The most.
        most: u32,
    },
    /// A gap of zero.
    #[error("no time between real-time packets; it must be above zero")]
    Gap,
}

/// What happens at an instant, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A real-time packet comes to the sender.
    RealTime,
    /// A transmission on a link has ended.
    Room,
    /// The first frame under way on a link has arrived.
    Arrived(u8),
}

struct Bundle {
    links: Vec<Line>,
    srr: Srr,
    fragmenter: Fragmenter<Vec<u8>>,
    reassembler: Reassembler<Vec<u8>>,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    outcome: Outcome,
    waits: u128,
    /// When the real-time packets that wait came.
    arrivals: VecDeque<Time>,
    /// Numbers of the last packets delivered, bulk and real-time.
    last: [Option<u64>; 2],
}

struct Line {
    schedule: Schedule,
    quantum: u64,
    /// Ends of the transmissions under way or waiting, and their bytes: what the queue holds.
    queue: VecDeque<(Time, u64)>,
    queued: u64,
    flying: VecDeque<Vec<u8>>,
}

/// Runs a bundle.
///
/// # Errors
/// Names the setting that cannot work.
pub fn run(config: &Config) -> Result<Outcome, BundleError> {
    let (set, fragment) = sizes(config)?;
    let mut links = Vec::with_capacity(config.links.len());
    for (n, (rate, delay)) in config.links.iter().enumerate() {
        let mut profile = Profile::new(*rate, *delay);
        profile.overhead = Some(0);
        profile.queue = Limit::Packets(u32::MAX);
        let schedule = Schedule::new(profile, config.seed)?;
        let quantum = u64::from(set.quantum(ChannelId(n as u8)));
        links.push(Line { schedule, quantum, queue: VecDeque::new(), queued: 0, flying: VecDeque::new() });
    }
    let mut bundle = Bundle {
        links,
        srr: Srr::new(&set)?,
        fragmenter: Fragmenter::new(fragment, Bytes::new(1 << 30)),
        reassembler: Reassembler::new(ReassemblerConfig::default(), set.mask()),
        events: BinaryHeap::new(),
        outcome: Outcome {
            quanta: set.channels().map(|channel| set.quantum(channel)).collect(),
            fragment: fragment.as_u64() as u32,
            ..Outcome::default()
        },
        waits: 0,
        arrivals: VecDeque::new(),
        last: [None; 2],
    };
    bundle.simulate(config);
    let outcome = &mut bundle.outcome;
    let stats = bundle.reassembler.stats();
    outcome.faults += stats.lost + stats.discarded + stats.late + stats.beyond + stats.overflow;
    outcome.mean_wait_s = bundle.waits as f64 / 1e9 / outcome.realtime.0.max(1) as f64;
    outcome.bulk_rate = outcome.bulk as f64 * f64::from(config.bulk) * 8.0 / config.duration.as_secs_f64().max(1e-9);
    Ok(bundle.outcome)
}

/// Quanta, and the largest fragment with its header.
fn sizes(config: &Config) -> Result<(ChannelSet, Bytes), BundleError> {
    if config.gap == Span::ZERO {
        return Err(BundleError::Gap);
    }
    let number = |n: usize| ChannelId(u8::try_from(n).unwrap_or(u8::MAX));
    let rates: Vec<(ChannelId, Rate)> = config.links.iter().enumerate().map(|(n, link)| (number(n), link.0)).collect();
    let size = |what, size: u32, least, most| {
        if (least..=most).contains(&size) { Ok(()) } else { Err(BundleError::Size { what, size, least, most }) }
    };
    size("bulk", config.bulk, 9, 65_000)?;
    let (set, fragment) = match config.fragment_delay {
        Some(delay) => quanta::from_fragment_delay(&rates, delay, LEAST_FRAGMENT)?,
        None => {
            let whole = Bytes::new(u64::from(config.bulk.max(config.realtime)) + HEADER_LEN as u64);
            (quanta::from_rates(&rates, whole, Bytes::new(1 << 30))?, whole)
        }
    };
    let most = fragment.as_u64().min(65_535) as u32 - HEADER_LEN as u32;
    size("real-time", config.realtime, 9, most)?;
    Ok((set, fragment))
}

impl Bundle {
    fn simulate(&mut self, config: &Config) {
        let end = Time::ZERO + config.duration;
        let mut rng = Rng::new(config.seed);
        let (mut bulk, mut waiting, mut period) = (0u64, 0u64, 0u64);
        self.events.push(Reverse((Time::ZERO, Event::Room)));
        self.events.push(Reverse((Time::ZERO + Span::from_nanos(rng.below(config.gap.as_nanos())), Event::RealTime)));
        while let Some(Reverse((now, event))) = self.events.pop().filter(|event| event.0.0 <= end) {
            match event {
                Event::RealTime => {
                    let packet = numbered(self.outcome.realtime.0, 1, config.realtime);
                    self.outcome.realtime.0 += 1;
                    self.outcome.faults += u64::from(self.fragmenter.push(Class::RealTime, packet).is_err());
                    self.arrivals.push_back(now);
                    // Each comes at a drawn instant of its own period.
                    period += 1;
                    let offset = Span::from_nanos(rng.below(config.gap.as_nanos()));
                    let next = Time::ZERO + config.gap.times(period) + offset;
                    self.events.push(Reverse((next.max(now), Event::RealTime)));
                }
                Event::Room => {}
                Event::Arrived(link) => self.arrive(link),
            }
            for line in &mut self.links {
                while let Some((end, bytes)) = line.queue.front().copied()
                    && end <= now
                {
                    line.queue.pop_front();
                    line.queued -= bytes;
                }
            }
            loop {
                while waiting < BACKLOG {
                    let refused = self.fragmenter.push(Class::Bulk, numbered(bulk, 0, config.bulk)).is_err();
                    self.outcome.faults += u64::from(refused);
                    (bulk, waiting) = (bulk + 1, waiting + 1);
                }
                let Some(finished) = self.send(now) else { break };
                waiting -= u64::from(finished);
            }
        }
    }

    /// Sends the next fragment if its link's queue has room for it within the quantum: whether a bulk packet ended.
    fn send(&mut self, now: Time) -> Option<bool> {
        let length = self.fragmenter.next_len()?;
        let channel = self.srr.select();
        let line = self.links.get_mut(channel.index())?;
        if line.queued + length.as_u64() > line.quantum {
            return None;
        }
        let mut frame = Vec::with_capacity(length.as_u64() as usize);
        let class = self.fragmenter.poll(&mut frame)?;
        let ended = frame.first().is_some_and(|flags| flags & 0x40 != 0);
        let passage = line.schedule.transmit(now, frame.len()).ok()?;
        if class == Class::RealTime {
            let wait = passage.start.since(self.arrivals.pop_front()?);
            self.outcome.longest_wait = self.outcome.longest_wait.max(wait);
            self.waits += u128::from(wait.as_nanos());
        }
        line.queue.push_back((passage.end, length.as_u64()));
        line.queued += length.as_u64();
        line.flying.push_back(frame);
        self.events.push(Reverse((passage.end, Event::Room)));
        self.events.push(Reverse((passage.due, Event::Arrived(channel.0))));
        self.srr.update(length);
        Some(class == Class::Bulk && ended)
    }

    fn arrive(&mut self, link: u8) {
        let Some(frame) = self.links.get_mut(usize::from(link)).and_then(|line| line.flying.pop_front()) else {
            return;
        };
        self.outcome.faults += u64::from(self.reassembler.handle(ChannelId(link), &frame).is_err());
        while let Some(packet) = self.reassembler.poll() {
            let number = packet.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
            let realtime = packet.get(8) == Some(&1);
            let last = self.last[usize::from(realtime)].replace(number);
            self.outcome.faults += u64::from(number != last.map_or(0, |last| last + 1));
            if realtime {
                self.outcome.realtime.1 += 1;
            } else {
                self.outcome.bulk += 1;
            }
        }
    }
}

/// A packet that begins with its number and its class.
fn numbered(number: u64, class: u8, size: u32) -> Vec<u8> {
    let mut packet = vec![0; size as usize];
    packet[..8].copy_from_slice(&number.to_be_bytes());
    packet[8] = class;
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(fragment_delay: Option<Span>) -> Config {
        let (t1, slow) = (Rate::from_bits_per_sec(1_544_000), Rate::from_bits_per_sec(384_000));
        Config {
            links: vec![(t1, Span::from_millis(5)), (t1, Span::from_millis(12)), (slow, Span::from_millis(30))],
            fragment_delay,
            bulk: 1500,
            realtime: 60,
            gap: Span::from_millis(97),
            duration: Span::from_secs(60),
            seed: 1,
        }
    }

    #[test]
    fn a_real_time_packet_waits_at_most_the_fragment_delay_and_far_longer_behind_whole_packets() {
        for ms in [10, 30, 60] {
            let delay = Span::from_millis(ms);
            let outcome = run(&config(Some(delay))).unwrap();
            assert!(outcome.realtime.0 > 600 && outcome.realtime.0 - outcome.realtime.1 <= 1, "{outcome:?}");
            assert!(outcome.longest_wait <= delay, "{outcome:?}");
            // Two-sided: the queues are kept full, so some packet waits for most of a quantum.
            assert!(outcome.longest_wait > Span::from_nanos(delay.as_nanos() / 2), "{outcome:?}");
            assert_eq!(outcome.faults, 0, "{outcome:?}");
            // The links stay busy: all but the headers, a fragment's worth of ends, and the real-time packets.
            assert!((3.1e6..3.472e6).contains(&outcome.bulk_rate), "{outcome:?}");
        }
        let whole = run(&config(None)).unwrap();
        // The slow link's queue holds one packet of 1504 bytes: 31 ms; the others four such, in the same time.
        assert!(whole.longest_wait > Span::from_millis(25), "{whole:?}");
        assert_eq!(whole.fragment, 1504);
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let error = |change: &dyn Fn(&mut Config)| {
            let mut config = config(Some(Span::from_millis(30)));
            change(&mut config);
            run(&config).unwrap_err().to_string()
        };
        assert!(error(&|c| c.fragment_delay = Some(Span::from_micros(30))).contains("raise the delay"));
        assert!(error(&|c| c.links.clear()).contains("at least one channel"));
        assert!(error(&|c| c.links[0].0 = Rate::default()).contains("rate 0"));
        assert!(error(&|c| c.realtime = 5000).contains("real-time packets of 5000 bytes"));
        assert!(error(&|c| c.bulk = 0).contains("bulk packets of 0 bytes"));
        assert!(error(&|c| c.gap = Span::ZERO).contains("above zero"));
    }
}
