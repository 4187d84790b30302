//! How many flows a capture has: every definition under every timeout, in one pass.
//!
//! What it is: the classifier of the core over the packets of captures, as the trace simulator of the hybrid-gateways paper does it
//! (2.5.2 and 2.6). For each definition there is one table of flows, which counts under all timeouts at once
//! ([`Activity`]). Besides the exact counts there are those at fixed instants, which the paper shows (2.6.1).
//!
//! Under a timeout of zero a flow is active while it has a packet inside of a [gateway]; under all timeouts, where
//! [`Through::All`] says so.
//!
//! Time is that of the captures, from the first packet on. Packets are identified by 64 bits of a hash whose key is secret, so
//! that nobody can make a capture in which flows collide; the chains of the imagined hash table, which collisions are counted
//! in, follow a key that is known, so that they are the same in each run.
//!
//! Cost: one walk over a packet's headers, then for each definition one hash, one look-up and a few steps for each timeout.
//! Memory: as [`Activity`] says, for each definition.

pub mod gateway;

use crate::capture::{CaptureError, Captured};
use crate::link_type::network;
use crate::skipped::{Reason, Tally};
use fairspan_core::flow::activity::{Activity, Counts};
use fairspan_core::flow::reading::Reader;
use fairspan_core::flow::{Definition, FlowHash, Key, Reading};
use fairspan_core::queue;
use fairspan_core::units::{Span, Time};
use gateway::Gateway;

/// What is counted, and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// What a flow is.
    pub definitions: Vec<Definition>,
    /// When flows end; `None`: never.
    pub timeouts: Vec<Option<Span>>,
    /// The gateway that packets pass, and how long it processes each.
    pub gateway: (gateway::Config, Span),
    /// Which timeouts it is for.
    pub through: Through,
    /// Chains of the hash table in which collisions are counted.
    pub table_size: u32,
    /// Most flows that are held for one definition.
    pub limit: usize,
    /// Which headers tell the flow.
    pub reading: Reading,
    /// How often flows are counted besides; `None`: not.
    pub interval: Option<Span>,
    /// The key that tells flows apart; it should be secret.
    pub secret: u64,
    /// The key by which flows belong to chains.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            definitions: Vec::new(),
            timeouts: Vec::new(),
            gateway: (gateway::Config::default(), Span::ZERO),
            through: Through::Zero,
            table_size: 65_536,
            limit: 1 << 24,
            reading: Reading::Plain,
            interval: None,
            secret: 0,
            seed: 1,
        }
    }
}

/// For which timeouts packets pass the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// For that of zero.
    Zero,
    /// For all.
    All,
}

/// A definition under a timeout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// What a flow is.
    pub definition: Definition,
    /// When it ends.
    pub timeout: Option<Span>,
    /// What was counted.
    pub counts: Counts,
    /// Most flows that were active at one of the instants.
    pub most_sampled: u32,
}

impl Row {
    /// The share of all packets that had a chain of the hash table for their flow alone; 1 where there were no packets.
    pub fn hash_efficiency(&self, packets: u64) -> f64 {
        1.0 - self.counts.collisions as f64 / packets.max(1) as f64
    }
}

#[derive(Debug)]
struct Table {
    definition: Definition,
    /// Packets that take no time.
    plain: Option<Activity>,
    /// Packets that pass the gateway.
    gateway: Option<Gateway>,
    /// For each timeout whether it is the gateway's, and its number there or in `plain`.
    places: Vec<(bool, usize)>,
    most_sampled: Vec<u32>,
}

impl Table {
    fn new(definition: Definition, config: &Config) -> Result<Table, queue::ConfigError> {
        let mut timeouts = [Vec::new(), Vec::new()];
        let places = config.timeouts.iter().map(|timeout| {
            let inside = config.through == Through::All || *timeout == Some(Span::ZERO);
            let timeouts = &mut timeouts[usize::from(inside)];
            timeouts.push(*timeout);
            (inside, timeouts.len() - 1)
        });
        let places: Vec<(bool, usize)> = places.collect();
        let activity = |timeouts: &[_]| Activity::new(timeouts, config.table_size, config.limit);
        let [plain, inside] = timeouts;
        let (gateway, processing) = &config.gateway;
        let inside = (!inside.is_empty()).then(|| Gateway::new(gateway, *processing, activity(&inside)));
        Ok(Table {
            definition,
            plain: (!plain.is_empty()).then(|| activity(&plain)),
            gateway: inside.transpose()?,
            most_sampled: vec![0; places.len()],
            places,
        })
    }

    fn handle_timeout(&mut self, now: Time) {
        self.plain.iter_mut().for_each(|activity| activity.handle_timeout(now));
        self.gateway.iter_mut().for_each(|gateway| gateway.handle_timeout(now));
    }

    fn activities(&self) -> impl Iterator<Item = &Activity> {
        self.plain.iter().chain(self.gateway.iter().map(|gateway| &gateway.activity))
    }

    fn counts(&self, timeout: usize) -> Counts {
        let (inside, line) = self.places[timeout];
        let activity =
            if inside { self.gateway.as_ref().map(|gateway| &gateway.activity) } else { self.plain.as_ref() };
        activity.map(|activity| activity.counts(line)).unwrap_or_default()
    }

    /// When the next thing happens that may change a count.
    fn next(&self) -> Option<Time> {
        let expiry = self.activities().filter_map(Activity::next_expiry).min();
        expiry.into_iter().chain(self.gateway.as_ref().and_then(Gateway::next)).min()
    }
}

/// The counts so far.
#[derive(Debug)]
pub struct Flows {
    reader: Reader,
    secret: FlowHash,
    chains: FlowHash,
    timeouts: Vec<Option<Span>>,
    tables: Vec<Table>,
    tally: Tally,
    /// The time of the first packet.
    first: Option<i64>,
    now: Time,
    interval: Option<Span>,
    /// When flows are counted next.
    sample: Time,
}

impl Flows {
    /// Nothing counted yet.
    ///
    /// # Errors
    /// Names the setting of the gateway's queue that cannot work.
    pub fn new(config: &Config) -> Result<Flows, queue::ConfigError> {
        let tables = config.definitions.iter().map(|definition| Table::new(*definition, config));
        Ok(Flows {
            reader: Reader::new(config.reading, config.secret),
            secret: FlowHash::new(config.secret),
            chains: FlowHash::new(config.seed),
            timeouts: config.timeouts.clone(),
            tables: tables.collect::<Result<_, _>>()?,
            tally: Tally::default(),
            first: None,
            now: Time::ZERO,
            interval: config.interval.filter(|interval| *interval > Span::ZERO),
            sample: if config.interval.is_some() { Time::ZERO } else { Time::MAX },
        })
    }

    /// Counts a packet, whose time is not before the last one's. `samples` takes what is counted at the instants up to it.
    #[inline]
    pub fn packet(&mut self, packet: &Captured<'_>, samples: &mut impl FnMut(Time, &[u32])) {
        let first = *self.first.get_or_insert(packet.time);
        self.now = Time::from_nanos(packet.time.saturating_sub(first).max(0) as u64).max(self.now);
        if self.now > self.sample {
            // What is to be counted at this very instant may still come.
            self.sample_to(Time::from_nanos(self.now.as_nanos() - 1), samples);
        }
        let start = match network(packet.link_type, packet.bytes) {
            Ok(start) => start,
            Err(why) => return self.tally.skip(why.into()),
        };
        let ip = &packet.bytes[start..];
        match self.reader.read(self.now, ip) {
            Some(key) => self.classify(&key, packet.length),
            None => self.tally.skip(Reason::of_header(ip)),
        }
    }

    #[inline]
    fn classify(&mut self, key: &Key<'_>, length: u32) {
        self.tally.classify();
        for Table { definition, plain, gateway, .. } in &mut self.tables {
            let hash = definition.flow(&self.secret, key);
            let chain = || (definition.flow(&self.chains, key) >> 32) as u32;
            if let Some(activity) = plain {
                activity.handle_packet(self.now, hash, chain);
            }
            if let Some(gateway) = gateway {
                gateway.handle_packet(self.now, length, hash, chain);
            }
        }
    }

    /// Counts what cannot be read.
    pub fn unreadable(&mut self, error: &CaptureError) {
        if let Some(reason) = Reason::of(error) {
            self.tally.skip(reason);
        }
    }

    /// Lets time come to the last packet, so that what expired by then has expired.
    pub fn finish(&mut self, samples: &mut impl FnMut(Time, &[u32])) {
        let now = self.now;
        if self.first.is_some() && self.interval.is_some() {
            self.sample_to(now, samples);
        }
        self.tables.iter_mut().for_each(|table| table.handle_timeout(now));
    }

    /// Counts flows at every instant up to `end`. Where nothing changes it leaves instants out.
    #[cold]
    fn sample_to(&mut self, end: Time, samples: &mut impl FnMut(Time, &[u32])) {
        let Some(interval) = self.interval else { return };
        while self.sample <= end {
            let at = self.sample;
            let mut counts = Vec::with_capacity(self.tables.len() * self.timeouts.len());
            for table in &mut self.tables {
                table.handle_timeout(at);
                for timeout in 0..self.timeouts.len() {
                    let active = table.counts(timeout).active;
                    table.most_sampled[timeout] = active.max(table.most_sampled[timeout]);
                    counts.push(active);
                }
            }
            samples(at, &counts);
            // Until something ends, or the packet comes, all instants are alike.
            let next = self.tables.iter().filter_map(Table::next).min();
            let next = next.map_or(end, |next| next.min(end));
            let steps = next.since(at).as_nanos().div_ceil(interval.as_nanos()).max(1);
            self.sample = Time::from_nanos(at.as_nanos().saturating_add(steps.saturating_mul(interval.as_nanos())));
        }
    }

    /// How many packets there were.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// From the first packet to the last one.
    pub fn span(&self) -> Span {
        self.now.since(Time::ZERO)
    }

    /// Each definition under each timeout, in the order in which they were given.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.tables.iter().flat_map(|table| {
            self.timeouts.iter().enumerate().map(|(number, timeout)| Row {
                definition: table.definition,
                timeout: *timeout,
                counts: table.counts(number),
                most_sampled: table.most_sampled[number],
            })
        })
    }

    /// Flows that were forgotten early because there were more than the limit.
    pub fn forgotten(&self) -> u64 {
        self.tables.iter().flat_map(Table::activities).map(Activity::forgotten).sum()
    }

    /// Packets that the gateway had no room for, of all definitions.
    pub fn dropped(&self) -> u64 {
        self.tables.iter().filter_map(|table| table.gateway.as_ref()).map(|gateway| gateway.dropped).sum()
    }
}
