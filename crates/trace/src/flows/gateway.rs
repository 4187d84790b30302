//! The gateway that packets pass: how long each of them is inside.
//!
//! What it is: the trace simulator of the hybrid-gateways paper, ASQG (2.5.2, Figure 2.2): many inputs and one output. A packet
//! is routed, classified and switched, one after the other where the gateway is input-queued, and waits for the line at an
//! output with a queue discipline. A flow is active while it has a packet inside, from its arrival until its last bit is
//! sent, and for the timeout after that.
//!
//! | symbol | setting |
//! |---|---|
//! | routing latency | `routing` |
//! | flow classification latency, F = a log2(2 n_i) | a is `classification`, n_i is `entries` |
//! | switching fabric latency | `switching` |
//! | scheduling latency, in proportion to log2(2 N) | `scheduling`; N is the number of active flows |
//! | transmission latency | `line` |
//!
//! Departures: transmission takes what the packet's length takes at the line's rate, where the paper has a constant delay. Where
//! none of the first three latencies is given they are, together, the longest with which no packet waits longer than `wait` to be
//! routed: the lowest stable rate of processing ([`Stable`]). An output-queued gateway has no input queue: every packet is
//! processed at once, and takes as long.
//!
//! With FIFO and no scheduling latency it is known when a packet leaves as soon as it comes.
//!
//! Cost: O(log n) or what the discipline costs, for each packet; O(1) in that case. Memory: 24 to 64 bytes for each packet inside, of which there are at
//! most `limit`. Events of one instant happen in this order: a transmission ends, a packet is switched, one arrives.

use fairspan_core::buffer::Limit;
use fairspan_core::flow::Activity;
use fairspan_core::quantity::{self, QuantityError};
use fairspan_core::queue::{self, Admit, DisciplineConfig, Opaque, Queue};
use fairspan_core::units::{Bytes, FlowNumber, Rate, Span, Time};
use std::collections::VecDeque;
use std::str::FromStr;

/// How fast the gateway is.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Latency of the routing decision. These three are `None` where they follow from `wait`.
    pub routing: Option<Span>,
    /// Latency of flow classification with one entry in a chain.
    pub classification: Option<Span>,
    /// Latency of the switching fabric.
    pub switching: Option<Span>,
    /// Entries of a chain, by which classification takes longer. Default 1.
    pub entries: f64,
    /// Latency of scheduling, for one active flow. Default none.
    pub scheduling: Span,
    /// The output line. Default 1 Gbit/s.
    pub line: Rate,
    /// Whether packets wait to be processed. Default yes.
    pub input_queued: bool,
    /// Who goes first at the output. Default FIFO.
    pub discipline: DisciplineConfig,
    /// How long a packet may wait to be processed, where the latencies follow from that. Default 100 ms.
    pub wait: Span,
    /// Most packets inside; those that come beyond are dropped. Default 1,048,576.
    pub limit: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            routing: None,
            classification: None,
            switching: None,
            entries: 1.0,
            scheduling: Span::ZERO,
            line: Rate::from_mbit(1000),
            input_queued: true,
            discipline: DisciplineConfig::Fifo,
            wait: Span::from_millis(100),
            limit: 1 << 20,
        }
    }
}

/// No setting of a gateway, or none of its values.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GatewayError {
    /// Another name.
    #[error(
        "`{0}` is no setting of the gateway; there are routing, classification, entries, switching, scheduling, line, queued, discipline, wait and limit"
    )]
    Name(String),
    /// A value that is none.
    #[error("{name}: {problem}")]
    Value {
        /// The setting.
        name: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

impl FromStr for Config {
    type Err = GatewayError;

    /// `name=value`, several with commas between them.
    fn from_str(text: &str) -> Result<Config, GatewayError> {
        let mut config = Config::default();
        for setting in text.split(',').filter(|setting| !setting.is_empty()) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let wrong = |problem: String| GatewayError::Value { name: name.to_owned(), problem };
            let not = |error: QuantityError| wrong(error.to_string());
            let span = || quantity::parse_span(value).map_err(not);
            match name {
                "routing" => config.routing = Some(span()?),
                "classification" => config.classification = Some(span()?),
                "switching" => config.switching = Some(span()?),
                "scheduling" => config.scheduling = span()?,
                "wait" => config.wait = span()?,
                "line" => config.line = quantity::parse_rate(value).map_err(not)?,
                "entries" => match value.parse() {
                    Ok(entries @ 1.0..=1e9) => config.entries = entries,
                    _ => return Err(wrong("a number of entries is needed, from 1 on".into())),
                },
                "queued" => match value {
                    "input" => config.input_queued = true,
                    "output" => config.input_queued = false,
                    _ => return Err(wrong("input or output is needed".into())),
                },
                "discipline" => {
                    config.discipline = value.parse().map_err(|error| wrong(format!("{error}")))?;
                    config.discipline.check().map_err(|error| wrong(error.to_string()))?;
                }
                "limit" => match value.parse() {
                    Ok(limit @ 1..=67_108_864) => config.limit = limit,
                    _ => return Err(wrong("a number of packets is needed, from 1 to 67108864".into())),
                },
                _ => return Err(GatewayError::Name(name.to_owned())),
            }
        }
        if config.line.as_bits_per_sec() == 0 {
            return Err(GatewayError::Value { name: "line".into(), problem: "a rate above zero is needed".into() });
        }
        Ok(config)
    }
}

impl Config {
    /// How long a packet is routed, classified and switched; `None` where that follows from the packets.
    pub fn processing(&self) -> Option<Span> {
        if self.routing.is_none() && self.classification.is_none() && self.switching.is_none() {
            return None;
        }
        let [routing, classification, switching] =
            [self.routing, self.classification, self.switching].map(|span| span.unwrap_or(Span::ZERO).as_nanos());
        let classification = (classification as f64 * (2.0 * self.entries).log2()).round() as u64;
        Some(Span::from_nanos(routing.saturating_add(classification).saturating_add(switching)))
    }
}

/// The lowest rate of processing at which no packet waits too long, among rates a tenth apart: all are tried in one pass.
///
/// At a faster rate less is left of the work before a packet. So a packet is looked at only at the rates between the slowest
/// that may still do and the first at which nothing is left.
#[derive(Clone, Debug)]
pub struct Stable {
    wait: f64,
    last: Option<i64>,
    /// For each rate, slowest first: nanoseconds that a packet takes, what the next one would wait, and the longest wait.
    tried: Vec<[f64; 3]>,
    /// At the rates before this one some packet waited too long.
    slowest: usize,
    /// From this rate on the last packet found nothing to wait for.
    idle: usize,
}

impl Stable {
    /// Rates between one packet in 10 s and 10^9 packets/s.
    pub fn new(wait: Span) -> Stable {
        let tried = (0..=242).map(|step| [1e10 / 1.1_f64.powi(step), 0.0, 0.0]).collect();
        Stable { wait: wait.as_nanos() as f64, last: None, tried, slowest: 0, idle: 0 }
    }

    /// A packet comes.
    #[inline]
    pub fn packet(&mut self, time: i64) {
        let Some(last) = self.last.replace(time) else { return };
        let gap = time.saturating_sub(last).max(0) as f64;
        let idle = core::mem::replace(&mut self.idle, self.tried.len());
        for (rate, [takes, left, worst]) in self.tried.iter_mut().enumerate().skip(self.slowest) {
            // Lindley's recursion: what is left of the work before it.
            let before = if rate < idle { *left } else { *takes };
            if before <= gap {
                self.idle = rate;
                break;
            }
            *worst = worst.max(before - gap);
            *left = before - gap + *takes;
        }
        while self.tried.get(self.slowest).is_some_and(|[_, _, worst]| *worst > self.wait) {
            self.slowest += 1;
        }
    }

    /// How long a packet takes at the lowest rate; the shortest that was tried where all are too slow.
    pub fn processing(&self) -> Span {
        let found = self.tried.get(self.slowest).or(self.tried.last());
        Span::from_nanos(found.map_or(1, |[takes, ..]| takes.round() as u64))
    }
}

/// A packet that is processed.
#[derive(Clone, Copy, Debug)]
struct Processed {
    ready: Time,
    slot: u32,
    length: u32,
}

/// A gateway at work, and the flows of one definition in it.
#[derive(Debug)]
pub(crate) struct Gateway {
    processing: Span,
    scheduling: Span,
    line: Rate,
    input_queued: bool,
    limit: usize,
    pub(crate) activity: Activity,
    input: VecDeque<Processed>,
    /// When the processor is free.
    free: Time,
    output: Queue<Opaque<u32>>,
    waiting: usize,
    /// When the transmission ends, and whose packet it is.
    sending: Option<(Time, u32)>,
    /// Nothing changes the order of packets, nor does anything that comes later change when one leaves.
    straight: bool,
    /// Then all packets inside: when each leaves, and whose it is; and when the last of them does.
    leaving: VecDeque<(Time, u32)>,
    sent: Time,
    pub(crate) dropped: u64,
    /// Flows that were active when the last packet came, its own among them, and those of them in its chain.
    pub(crate) active: u32,
    pub(crate) chained: u32,
}

impl Gateway {
    /// An empty one, which takes `processing` for each packet.
    ///
    /// # Errors
    /// Names the setting of its queue that cannot work.
    pub(crate) fn new(config: &Config, processing: Span, activity: Activity) -> Result<Gateway, queue::ConfigError> {
        let mut queue = queue::Config::default();
        (queue.discipline, queue.limit) = (config.discipline, Limit::Packets(config.limit));
        Ok(Gateway {
            processing,
            scheduling: config.scheduling,
            line: config.line,
            input_queued: config.input_queued,
            limit: config.limit as usize,
            activity,
            input: VecDeque::new(),
            free: Time::ZERO,
            output: Queue::new(&queue, 1)?,
            waiting: 0,
            sending: None,
            straight: config.discipline == DisciplineConfig::Fifo && config.scheduling == Span::ZERO,
            leaving: VecDeque::new(),
            sent: Time::ZERO,
            dropped: 0,
            active: 0,
            chained: 0,
        })
    }

    /// A packet of `length` bytes comes, of the flow `hash`, which belongs to the chain that `chain` tells.
    pub(crate) fn handle_packet(&mut self, now: Time, length: u32, hash: u64, chain: impl FnOnce() -> u32) {
        self.handle_timeout(now);
        let inside = self.leaving.len() + self.input.len() + self.waiting + usize::from(self.sending.is_some());
        if inside >= self.limit {
            self.dropped += 1;
            return;
        }
        let slot = self.activity.handle_arrival(now, hash, chain);
        let begins = if self.input_queued { now.max(self.free) } else { now };
        let ready = begins + self.processing;
        self.free = ready;
        if self.straight {
            self.sent = ready.max(self.sent) + self.line.transmit_time(Bytes::new(length.max(1).into()));
            self.leaving.push_back((self.sent, slot));
        } else {
            self.input.push_back(Processed { ready, slot, length });
        }
        (self.active, self.chained) = (self.activity.counts(0).active, self.activity.chained(slot, 0));
        self.handle_timeout(now);
    }

    /// Lets everything happen that happens until `now`.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        while let Some((end, slot)) = self.leaving.front().copied().filter(|(end, _)| *end <= now) {
            self.leaving.pop_front();
            self.activity.handle_departure(end, slot);
        }
        while let Some(next) = self.next().filter(|next| *next <= now) {
            if let Some((_, slot)) = self.sending.take_if(|(end, _)| *end == next) {
                self.activity.handle_departure(next, slot);
            } else if let Some(Processed { slot, length, .. }) = self.input.pop_front() {
                match self.output.enqueue(next, FlowNumber(slot), Opaque { packet: slot, size: length }) {
                    Admit::Queued => self.waiting += 1,
                    Admit::Refused(packet, _) => self.drop(next, packet.packet),
                }
                self.drain(next);
            }
            if self.sending.is_none() {
                self.send(next);
            }
        }
        self.activity.handle_timeout(now);
    }

    /// When the next packet leaves or is switched.
    pub(crate) fn next(&self) -> Option<Time> {
        let sent = self.sending.map(|(end, _)| end);
        let leaving = self.leaving.front().map(|(end, _)| *end);
        leaving.into_iter().chain(sent).chain(self.input.front().map(|packet| packet.ready)).min()
    }

    /// Begins the next transmission.
    fn send(&mut self, now: Time) {
        let entry = self.output.dequeue(now);
        if let Some(entry) = entry {
            self.waiting -= 1;
            let active = f64::from(self.activity.counts(0).active.max(1));
            let scheduling = (self.scheduling.as_nanos() as f64 * (2.0 * active).log2()).round() as u64;
            let transmission = self.line.transmit_time(Bytes::new(u64::from(entry.size)));
            let end = now + Span::from_nanos(scheduling.saturating_add(transmission.as_nanos()));
            self.sending = Some((end, entry.packet.packet));
        }
        self.drain(now);
    }

    /// Takes what the queue dropped out of the gateway.
    fn drain(&mut self, now: Time) {
        while let Some(dropped) = self.output.poll_dropped() {
            self.waiting -= 1;
            self.drop(now, dropped.packet.packet);
        }
    }

    fn drop(&mut self, now: Time, slot: u32) {
        self.dropped += 1;
        self.activity.handle_departure(now, slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(text: &str, timeouts: &[u64]) -> Gateway {
        let config: Config = text.parse().expect("settings");
        let timeouts: Vec<_> = timeouts.iter().map(|timeout| Some(Span::from_micros(*timeout))).collect();
        let activity = Activity::new(&timeouts, 1, 100);
        Gateway::new(&config, config.processing().expect("given"), activity).expect("settings that work")
    }

    /// The number of active flows at each of these instants.
    fn active(gateway: &mut Gateway, instants: &[u64]) -> Vec<u32> {
        let count = |at: &u64| {
            gateway.handle_timeout(Time::from_nanos(at * 1000));
            gateway.activity.counts(0).active
        };
        instants.iter().map(count).collect()
    }

    #[test]
    fn a_flow_is_active_while_it_has_a_packet_inside() {
        // 2 us of processing each, one behind the other, and 8 us for 1000 bytes at 1 Gbit/s.
        let mut gateway = gateway("routing=1us,switching=1us", &[0]);
        gateway.handle_packet(Time::ZERO, 1000, 1, || 0);
        gateway.handle_packet(Time::ZERO, 1000, 2, || 0);
        // Sent from 2 to 10 us, and from 10 to 18 us.
        assert_eq!(active(&mut gateway, &[0, 9, 10, 17, 18]), [2, 2, 1, 1, 0]);
        let counts = gateway.activity.counts(0);
        assert_eq!((counts.created, counts.expired, counts.most), (2, 2, 2));
    }

    #[test]
    fn an_input_queued_gateway_processes_one_after_the_other_and_an_output_queued_one_does_not() {
        let last = |queued: &str| {
            let mut gateway = gateway(&format!("routing=100us,queued={queued}"), &[0]);
            (0..3).for_each(|flow| gateway.handle_packet(Time::ZERO, 125, flow, || 0));
            active(&mut gateway, &[101, 102, 103, 104, 200, 202, 300, 301])
        };
        assert_eq!(last("input"), [2, 2, 2, 2, 2, 1, 1, 0]);
        assert_eq!(last("output"), [2, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn latencies_grow_with_entries_of_a_chain_and_with_active_flows() {
        let config: Config = "routing=1us,classification=2us,switching=4us,entries=8".parse().expect("settings");
        assert_eq!(config.processing(), Some(Span::from_micros(1 + 2 * 4 + 4)));
        let mut gateway = gateway("routing=0ns,scheduling=1us,line=8Mbit", &[0]);
        (0..4).for_each(|flow| gateway.handle_packet(Time::ZERO, 1, flow, || 0));
        // 1 us each on the line, and log2(2 N) before that: the first was alone, then there are 3, 2 and 1.
        assert_eq!(active(&mut gateway, &[1, 2, 5, 6, 8, 9, 10, 11]), [4, 3, 3, 2, 2, 1, 1, 0]);
    }

    #[test]
    fn the_discipline_decides_who_leaves_first() {
        let until = |discipline: &str| {
            let mut gateway = gateway(&format!("routing=0ns,discipline={discipline}"), &[0]);
            (0..9).for_each(|_| gateway.handle_packet(Time::ZERO, 1000, 1, || 0));
            gateway.handle_packet(Time::ZERO, 1000, 2, || 0);
            (0..).find(|at| active(&mut gateway, &[*at]) == [1])
        };
        // Flow 1 takes nine times 8 us; flow 2 goes last, or second.
        assert_eq!(until("fifo"), Some(72));
        assert!(until("drr").is_some_and(|at| at <= 24), "{:?}", until("drr"));
    }

    #[test]
    fn a_timeout_counts_from_when_the_last_packet_left() {
        let mut gateway = gateway("routing=2us", &[5]);
        gateway.handle_packet(Time::ZERO, 1000, 1, || 0);
        assert_eq!(active(&mut gateway, &[5, 10, 14, 15]), [1, 1, 1, 0]);
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let mut gateway = gateway("routing=1us,limit=3", &[0]);
        (0..5).for_each(|flow| gateway.handle_packet(Time::ZERO, 1000, flow, || 0));
        assert_eq!((gateway.dropped, gateway.activity.counts(0).created), (2, 3));
        assert_eq!(active(&mut gateway, &[1000]), [0]);
    }

    #[test]
    fn the_lowest_stable_rate_keeps_the_longest_wait_within_its_bound() {
        // Ten packets at once each second: the last one waits for nine.
        let mut stable = Stable::new(Span::from_millis(90));
        (0..1000).for_each(|n: i64| stable.packet(n / 10 * 1_000_000_000));
        let found = stable.processing().as_nanos() as f64;
        assert!((10e6 / 1.1..=10e6).contains(&found), "{found}");
        assert_eq!(Stable::new(Span::ZERO).processing(), Span::from_secs(10), "without packets the slowest will do");
    }

    #[test]
    fn every_rate_is_judged_as_if_it_were_the_only_one() {
        let mut rng = fairspan_core::rng::Rng::new(5);
        for round in 0..40 {
            let wait = 1 << (round % 30);
            let (mut stable, mut times) = (Stable::new(Span::from_nanos(wait)), vec![0_i64]);
            for _ in 0..rng.below(300) {
                let (most, again) = (1 << rng.below(30), rng.below(3) == 0);
                let gap = rng.below(most) as i64;
                times.push(times.last().expect("the first") + if again { 0 } else { gap });
            }
            times.iter().for_each(|time| stable.packet(*time));
            let does = |takes: &f64| {
                let (mut free, mut worst) = (0.0_f64, 0.0_f64);
                for time in times.iter().map(|time| *time as f64) {
                    worst = worst.max(free - time);
                    free = free.max(time) + takes;
                }
                worst <= wait as f64
            };
            let rates = || (0..=242).map(|step| 1e10 / 1.1_f64.powi(step));
            let expected = rates().find(does).or(rates().next_back()).expect("a rate");
            assert_eq!(stable.processing(), Span::from_nanos(expected.round() as u64), "{wait} {times:?}");
        }
    }

    #[test]
    fn packets_leave_when_they_would_if_each_event_were_played() {
        let mut rng = fairspan_core::rng::Rng::new(7);
        for queued in ["input", "output"] {
            let make = || gateway(&format!("routing=3us,line=800Mbit,limit=20,queued={queued}"), &[0, 10]);
            let (mut direct, mut played) = (make(), make());
            played.straight = false;
            let mut now = 0;
            for _ in 0..5000 {
                now += rng.below(12_000);
                let (flow, length) = (rng.below(6), rng.below(1500) as u32);
                for gateway in [&mut direct, &mut played] {
                    gateway.handle_packet(Time::from_nanos(now), length, flow, || flow as u32 / 2);
                }
                assert_eq!((direct.active, direct.chained), (played.active, played.chained));
                assert_eq!(direct.dropped, played.dropped);
                for line in [0, 1] {
                    assert_eq!(direct.activity.counts(line), played.activity.counts(line));
                }
            }
            assert!(direct.dropped > 10 && direct.activity.counts(0).created > 100);
        }
    }

    #[test]
    fn settings_that_cannot_be_are_refused_with_what_can() {
        let told = |text: &str| text.parse::<Config>().expect_err(text).to_string();
        for (text, says) in [
            ("speed=1", "routing, classification"),
            ("routing=1", "routing:"),
            ("queued=both", "input or output"),
            ("entries=0", "from 1"),
            ("line=0bit", "line:"),
            ("discipline=best", "discipline:"),
            ("limit=0", "67108864"),
        ] {
            assert!(told(text).contains(says), "{text}: {}", told(text));
        }
        assert_eq!("".parse(), Ok(Config::default()));
    }
}
