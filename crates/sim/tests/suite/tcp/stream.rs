//! The byte stream delivered is the byte stream sent, whatever the channel does, and every connection ends.
//!
//! Two connections talk over a channel that loses, duplicates, delays and reorders; applications write in pieces, read
//! slowly or stop reading for a while, and close in any order. Beside them stands an obvious model that sees what is
//! handed to the channel and what comes out of it: which bytes of each stream have arrived, what was acknowledged, what
//! window was offered. Every run is a seed; a failure prints it, and `FAIRSPAN_SEED=N` runs that one alone.

use fairspan_core::rng::Rng;
use fairspan_core::units::{Span, Time};
use fairspan_sim::tcp::segment::{Flags, Segment};
use fairspan_sim::tcp::{Config, Connection, Failure, State};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Positions of one stream that came out of the channel: [start, end) by start, merged.
#[derive(Default)]
struct Arrived(BTreeMap<u64, u64>);

impl Arrived {
    fn add(&mut self, mut start: u64, mut end: u64) {
        if start == end {
            return;
        }
        let touching: Vec<u64> = self.0.range(..=end).filter(|(_, e)| **e >= start).map(|(s, _)| *s).collect();
        for other in touching {
            let other_end = self.0.remove(&other).unwrap();
            start = start.min(other);
            end = end.max(other_end);
        }
        self.0.insert(start, end);
    }

    fn prefix(&self) -> u64 {
        self.0.get(&0).copied().unwrap_or(0)
    }

    fn holds(&self, start: u64, end: u64) -> bool {
        self.0.range(..=start).next_back().is_some_and(|(_, e)| *e >= end)
    }
}

/// One end, its application, and what the model knows of the stream that it sends.
struct End {
    connection: Connection,
    iss: u32,
    total: u64,
    written: u64,
    largest_write: u64,
    read: u64,
    /// Reads this much at a time, this often; does not read before.
    reads: (u64, Span, Time),
    closes_at: Time,
    closed: bool,
    /// Of this end's stream: what came out at the other end; whether its FIN did.
    arrived: Arrived,
    fin_arrived: bool,
    /// Highest position that the other end allowed this one to send, by what came out of the channel.
    edge: u64,
    /// Highest position seen, to unwrap.
    highest: u64,
    scale_offered: Option<u8>,
}

impl End {
    /// Stream position of a wire number of this end's; the first byte is 0, the SYN -1.
    fn position(&self, wire: u32) -> i64 {
        let near = self.highest as i64;
        let base = self.iss.wrapping_add(1);
        near + i64::from(wire.wrapping_sub(base.wrapping_add(near as u32)) as i32)
    }
}

#[derive(Clone, Copy, Debug)]
struct Channel {
    loss: f64,
    duplication: f64,
    delay: Span,
    jitter: Span,
    outage: Option<(Time, Time)>,
}

struct World {
    now: Time,
    ends: [End; 2],
    channel: Channel,
    rng: Rng,
    order: u64,
    under_way: BinaryHeap<Reverse<(Time, u64, usize)>>,
    segments: Vec<Segment>,
    handshake: bool,
    events: u64,
    /// What happened last, for the report of a failure.
    trace: VecDeque<String>,
}

type Outcome = Result<(), String>;

fn fail<T>(why: String) -> Result<T, String> {
    Err(why)
}

impl World {
    fn both_scale(&self) -> bool {
        self.ends.iter().all(|end| end.scale_offered.is_some())
    }

    fn note(&mut self, what: &str, side: usize, segment: &Segment) {
        if self.trace.len() == 60 {
            self.trace.pop_front();
        }
        let (own, other) = (&self.ends[side], &self.ends[1 - side]);
        let blocks: Vec<_> = segment.options.sack[..usize::from(segment.options.sack_count)]
            .iter()
            .map(|(left, right)| (other.position(*left), other.position(*right)))
            .collect();
        self.trace.push_back(format!(
            "{:.6} {what} by {side}: flags {:#x} at {} length {} ack {} window {} sack {blocks:?}",
            self.now.as_secs_f64(),
            segment.flags.0,
            own.position(segment.sequence),
            segment.length,
            other.position(segment.acknowledgment),
            segment.window,
        ));
    }

    /// Checks a segment that `from` hands to the channel, and sends it.
    fn send(&mut self, from: usize, segment: Segment) -> Outcome {
        self.note("sent", from, &segment);
        if segment.flags.has(Flags::SYN) {
            self.ends[from].scale_offered = segment.options.window_scale;
        }
        let end = &self.ends[from];
        let start = end.position(segment.sequence);
        let stop = start + i64::from(segment.length);
        if segment.length > 0 {
            if start < 0 || stop as u64 > end.written {
                return fail(format!("sent {start}..{stop} of {} written: {segment:?}", end.written));
            }
            if self.handshake && stop as u64 > end.edge && segment.length > 1 {
                return fail(format!("sent {start}..{stop} where the window ends at {}: {segment:?}", end.edge));
            }
        }
        if segment.flags.has(Flags::FIN) && stop as u64 != end.total {
            return fail(format!("FIN after {stop} of {} bytes", end.total));
        }
        self.ends[from].highest = self.ends[from].highest.max(stop.max(0) as u64);
        let peer = &self.ends[1 - from];
        if segment.flags.has(Flags::ACK) && !segment.flags.has(Flags::RST) {
            let acknowledged = peer.position(segment.acknowledgment);
            let limit = peer.arrived.prefix() + u64::from(peer.fin_arrived && peer.arrived.prefix() == peer.total);
            if acknowledged > limit as i64 {
                return fail(format!("acknowledged {acknowledged} where {limit} arrived: {segment:?}"));
            }
            for (left, right) in &segment.options.sack[..usize::from(segment.options.sack_count)] {
                let (left, right) = (peer.position(*left), peer.position(*right));
                // A FIN that arrived out of order may be counted as a byte.
                let right = right.min(peer.total as i64);
                if left < 0 || left > right || (left < right && !peer.arrived.holds(left as u64, right as u64)) {
                    return fail(format!("reported {left}..{right}, which did not arrive: {segment:?}"));
                }
            }
        }
        let copies = if self.rng.unit() < self.channel.duplication { 2 } else { 1 };
        for _ in 0..copies {
            let out = self.channel.outage.is_some_and(|(from, to)| (from..to).contains(&self.now));
            if self.rng.unit() < self.channel.loss || out {
                continue;
            }
            let jitter = Span::from_nanos(self.rng.below(self.channel.jitter.as_nanos() + 1));
            self.segments.push(segment);
            let index = self.segments.len() - 1;
            self.order += 1;
            self.under_way.push(Reverse((self.now + self.channel.delay + jitter, self.order, index << 1 | (1 - from))));
        }
        Ok(())
    }

    /// A segment comes out of the channel at `to`.
    fn receive(&mut self, to: usize, segment: Segment) -> Outcome {
        self.note("arrives, sent", 1 - to, &segment);
        let scaled = self.both_scale() && !segment.flags.has(Flags::SYN);
        let from = &mut self.ends[1 - to];
        let shift = if scaled { from.scale_offered.unwrap_or(0).min(14) } else { 0 };
        let start = from.position(segment.sequence);
        if !segment.flags.has(Flags::RST) && start >= 0 {
            let stop = start as u64 + u64::from(segment.length);
            from.arrived.add(start as u64, stop);
            from.fin_arrived |= segment.flags.has(Flags::FIN);
        }
        let end = &mut self.ends[to];
        if segment.flags.has(Flags::ACK) && !segment.flags.has(Flags::RST) {
            let edge = end.position(segment.acknowledgment) + (i64::from(segment.window) << shift);
            end.edge = end.edge.max(edge.max(0) as u64);
        }
        end.connection.handle_segment(self.now, &segment);
        self.settle(to)
    }

    /// The application's turn, and everything the connection has to send.
    fn settle(&mut self, side: usize) -> Outcome {
        let now = self.now;
        let end = &mut self.ends[side];
        let open = end.connection.is_established() || end.connection.state() == State::SynSent;
        if open && end.written < end.total {
            let most = end.largest_write.min(end.total - end.written);
            let size = 1 + self.rng.below(most);
            let taken = end.connection.write(now, size);
            if taken > size {
                return fail(format!("took {taken} of {size} bytes"));
            }
            end.written += taken;
        }
        if !end.closed && end.connection.is_established() && end.written == end.total && now >= end.closes_at {
            end.closed = true;
            end.connection.close(now);
        }
        while let Some(segment) = self.ends[side].connection.poll_transmit(now) {
            self.events += 1;
            if self.events > 3_000_000 {
                return fail("it never ends".into());
            }
            self.send(side, segment)?;
        }
        let delivered = self.ends[side].connection.delivered();
        let prefix = self.ends[1 - side].arrived.prefix();
        if delivered > prefix {
            return fail(format!("delivered {delivered} where {prefix} arrived"));
        }
        Ok(())
    }

    fn read(&mut self, side: usize) -> Outcome {
        let end = &mut self.ends[side];
        let readable = end.connection.readable();
        let got = end.connection.read(self.now, end.reads.0);
        if got != readable.min(end.reads.0) {
            return fail(format!("read {got} of {readable} readable, {} wanted", end.reads.0));
        }
        end.read += got;
        end.reads.2 = self.now + end.reads.1;
        let total = self.ends[1 - side].total;
        let end = &self.ends[side];
        if end.read > total {
            return fail(format!("read {} bytes of {total}", end.read));
        }
        if end.connection.at_end_of_stream() && end.read < total {
            return fail(format!("the stream ends after {} of {total} bytes", end.read));
        }
        self.settle(side)
    }

    fn done(&self) -> bool {
        self.ends.iter().all(|end| end.connection.is_closed())
    }

    fn run(&mut self) -> Outcome {
        for side in 0..2 {
            self.settle(side)?;
        }
        while !self.done() {
            let arrival = self.under_way.peek().map(|Reverse((time, ..))| *time);
            let mut next = arrival.unwrap_or(Time::MAX);
            for end in &self.ends {
                if let Some(due) = end.connection.poll_timeout() {
                    next = next.min(due);
                }
                if end.connection.readable() > 0 {
                    next = next.min(end.reads.2);
                }
                let writes = end.written < end.total && end.connection.is_established();
                if (writes || !end.closed) && end.connection.is_established() && end.closes_at > self.now {
                    next = next.min(end.closes_at);
                }
            }
            if next == Time::MAX {
                return fail("nothing is left to happen, and it is not over".into());
            }
            self.now = self.now.max(next);
            if self.now > Time::from_millis(10_000_000_000) {
                return fail("115 days did not suffice".into());
            }
            self.events += 1;
            if self.events > 3_000_000 {
                return fail("it never ends".into());
            }
            while let Some(&Reverse((time, _, index))) = self.under_way.peek() {
                if time > self.now {
                    break;
                }
                self.under_way.pop();
                let segment = self.segments[index >> 1];
                self.receive(index & 1, segment)?;
            }
            for side in 0..2 {
                if self.ends[side].connection.poll_timeout().is_some_and(|due| due <= self.now) {
                    self.ends[side].connection.handle_timeout(self.now);
                }
                self.settle(side)?;
                if self.ends[side].connection.readable() > 0 && self.ends[side].reads.2 <= self.now {
                    self.read(side)?;
                }
            }
        }
        for side in 0..2 {
            let total = self.ends[1 - side].total;
            // A connection that is over keeps what was not read.
            while self.ends[side].connection.readable() > 0 {
                self.read(side)?;
            }
            let end = &self.ends[side];
            if end.read != total || end.written != end.total {
                return fail(format!(
                    "end {side} read {} of {total}, wrote {} of {}",
                    end.read, end.written, end.total
                ));
            }
            // Its last ACK lost for longer than the peer waits, an end in LAST-ACK is reset: all was said by then.
            if !matches!(end.connection.failure(), None | Some(Failure::Reset)) {
                return fail(format!("end {side} failed: {:?}", end.connection.failure()));
            }
        }
        Ok(())
    }
}

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

/// The settings of both ends, drawn at random.
fn hostile_configs(rng: &mut Rng, preset: &str, loss: &str, congestion: &str) -> Vec<Config> {
    let mut configs = Vec::new();
    for _ in 0..2 {
        let mut config = Config::preset(preset).unwrap();
        let mut set = |name: &str, value: String| config.set(name, &value).unwrap();
        set("loss", loss.into());
        set("congestion", congestion.into());
        set("slow_start", pick(rng, &["standard", "hystart", "hystart-plus-plus"]).into());
        set("mss", pick(rng, &[64, 536, 1000, 1460]).to_string());
        // No end may give up here: what cannot end must show.
        set("retries", "0".into());
        set("syn_retries", "0".into());
        let buffer = pick(rng, &[70, 500, 3000, 20_000, 200_000]);
        set("receive_buffer", format!("{buffer}B"));
        set("receive_buffer_maximum", format!("{}B", buffer * (1 + rng.below(4))));
        set("send_buffer", format!("{}B", pick(rng, &[1, 100, 5000, 1_000_000])));
        set("sack", (rng.below(4) > 0).to_string());
        set("dsack", (rng.below(2) > 0).to_string());
        set("timestamps", (preset != "ns2-1999" && rng.below(2) > 0).to_string());
        set("window_scaling", (preset != "ns2-1999" && rng.below(3) > 0).to_string());
        set("limited_transmit", (rng.below(2) > 0).to_string());
        set("rate_reduction", (rng.below(2) > 0).to_string());
        set("frto", (rng.below(2) > 0).to_string());
        set("undo", (rng.below(2) > 0).to_string());
        set("tail_loss_probe", (rng.below(2) > 0).to_string());
        set("sack_kept_over_timeout", (rng.below(2) > 0).to_string());
        set("nagle", pick(rng, &["off", "on", "minshall"]).into());
        set("segment_per_write", (rng.below(8) == 0).to_string());
        configs.push(config);
    }
    if preset == "ns2-1999" {
        // Without a handshake both ends must agree by themselves.
        let (first, second) = configs.split_at_mut(1);
        second[0].set("sack", if first[0].sack { "true" } else { "false" }).unwrap();
        let mss = first[0].mss.to_string();
        second[0].set("mss", &mss).unwrap();
    }
    configs
}

/// One end, with a stream and an application of its own.
fn hostile_end(rng: &mut Rng, config: &Config, severity: f64, calm: bool) -> End {
    let handshake = config.handshake;
    let total = match rng.below(8) {
        0 => 0,
        1 => 1,
        2 => 1 + rng.below(300),
        // Small segments and a hard channel: less to carry.
        _ if calm => 40_000 + rng.below(60_000),
        _ => 1 + rng.below(if config.mss < 100 || severity > 0.2 { 6_000 } else { 50_000 }),
    };
    let iss = match (handshake, rng.below(3)) {
        (false, _) => 0,
        (_, 0) => rng.next_u64() as u32,
        // The stream crosses the wrap.
        _ => (u64::from(u32::MAX) - rng.below(total + 2)) as u32,
    };
    let slow = (1 + rng.below(5_000), Span::from_millis(rng.below(300)), Time::from_millis(rng.below(20_000)));
    let reads = if rng.below(2) > 0 { (u64::MAX, Span::ZERO, Time::ZERO) } else { slow };
    End {
        connection: Connection::new(config, Time::ZERO, iss),
        iss,
        total,
        written: 0,
        largest_write: pick(rng, &[10, 2000, 1 << 40]).max(total / 500).max(1),
        read: 0,
        reads,
        closes_at: Time::from_millis(pick(rng, &[0, 0, 5000, 30_000])),
        closed: false,
        arrived: Arrived::default(),
        fin_arrived: false,
        edge: 0,
        highest: 0,
        scale_offered: None,
    }
}

/// What is known of a run that failed.
fn told(world: World, configs: &[Config]) -> String {
    let text = |config: &Config| {
        let constants = config.constants().into_iter().map(|(name, value)| format!("{name} {value}"));
        constants.collect::<Vec<_>>().join(", ")
    };
    let of = |end: &End| {
        format!(
            "{:?}, wrote {} of {}, read {}, in flight {}, window {}, timer {:?}, {:?}",
            end.connection.state(),
            end.written,
            end.total,
            end.read,
            end.connection.in_flight(),
            end.connection.window(),
            end.connection.poll_timeout(),
            end.connection.stats()
        )
    };
    format!(
        "at {:?} on {:?}\nfirst: {}\nsecond: {}\n{}\n{}",
        world.now,
        world.channel,
        of(&world.ends[0]),
        of(&world.ends[1]),
        configs.iter().map(text).collect::<Vec<_>>().join("\n"),
        Vec::from(world.trace).join("\n"),
    )
}

/// One run; every choice from the seed.
fn hostile(seed: u64, preset: &str, loss: &str, congestion: &str, calm: bool) -> Result<World, String> {
    let mut rng = Rng::new(seed);
    let rng = &mut rng;
    let severity = if calm { 0.05 } else { pick(rng, &[0.0, 0.01, 0.1, 0.3, 0.6]) };
    let channel = Channel {
        loss: severity,
        duplication: pick(rng, &[0.0, 0.02, 0.3]),
        delay: Span::from_micros(pick(rng, &[10, 1000, 20_000, 300_000])),
        jitter: Span::from_micros(pick(rng, &[0, 0, 500, 30_000, 400_000])),
        outage: (rng.below(4) == 0)
            .then(|| (Time::from_millis(rng.below(3000)), Time::from_millis(3000 + rng.below(60_000)))),
    };
    let configs = hostile_configs(rng, preset, loss, congestion);
    let handshake = configs[0].handshake;
    let [first, second] = [0, 1].map(|n: usize| hostile_end(rng, &configs[n], severity, calm));
    let simultaneous = rng.below(4) == 0;
    let rng = Rng::new(seed ^ 0x5eed);
    let mut world = World {
        now: Time::ZERO,
        ends: [first, second],
        channel,
        rng,
        order: 0,
        under_way: BinaryHeap::new(),
        segments: Vec::new(),
        handshake,
        events: 0,
        trace: VecDeque::new(),
    };
    if handshake {
        world.ends[0].connection.open(Time::ZERO);
        if simultaneous {
            world.ends[1].connection.open(Time::ZERO);
        } else {
            world.ends[1].connection.listen(Time::ZERO);
        }
    }
    match world.run() {
        Ok(()) => Ok(world),
        Err(why) => {
            let known = told(world, &configs);
            fail(format!("seed {seed}, {preset}, {loss}, {congestion}: {why}\n{known}"))
        }
    }
}

const DETECTIONS: [&str; 5] = ["tahoe", "reno", "newreno", "sack", "rack"];

/// `FAIRSPAN_SEED` runs one seed alone, `FAIRSPAN_SEEDS` as many as it says from the first on.
fn all_survive(preset: &str, first: u64) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match (number("FAIRSPAN_SEED"), number("FAIRSPAN_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => first..first + count.unwrap_or(12),
    };
    for seed in seeds {
        for loss in DETECTIONS {
            for congestion in ["reno", "cubic"] {
                if let Err(why) = hostile(seed, preset, loss, congestion, false) {
                    panic!("FAIRSPAN_SEED={seed} replays this\n{why}");
                }
            }
        }
    }
}

#[test]
fn the_stream_survives_a_hostile_channel_with_the_rfcs_settings() {
    all_survive("rfc", 0);
}

#[test]
fn the_stream_survives_a_hostile_channel_with_linuxs_settings() {
    all_survive("linux", 1000);
}

#[test]
fn the_stream_survives_a_hostile_channel_with_ns2s_settings() {
    all_survive("ns2-1999", 2000);
}

// The model must be able to fail: a channel that invents an acknowledgment is found out.
#[test]
fn the_model_notices_an_acknowledgment_of_what_never_arrived() {
    let mut world = hostile(7, "rfc", "sack", "reno", true).unwrap_or_else(|why| panic!("{why}"));
    let peer = &world.ends[0];
    let invented = Segment {
        sequence: world.ends[1].iss.wrapping_add(1),
        acknowledgment: peer.iss.wrapping_add(1).wrapping_add(peer.total as u32).wrapping_add(5),
        flags: Flags::ACK,
        ..Segment::default()
    };
    assert!(world.send(1, invented).is_err());
}
