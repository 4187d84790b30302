//! A shaper: packets wait here, in a queue of choice, and not in the narrower link behind.
//!
//! What it is: any [queue discipline](crate::queue) with any [buffer policy](crate::buffer) before a pacer. A modem behind a fast device has
//! a long queue of its own, first in, first out, in which a call waits behind a download. A shaper lets go of no more than the
//! modem carries; so the modem's queue stays empty, and who waits for whom is decided here. [`Accounts`] tell what became of
//! each flow. One shaper is one direction.
//!
//! Source: ours. Rates by virtual scheduling (ITU-T I.371), as everywhere here; what a packet counts on links of several kinds
//! is Linux's tc-stab(8) and tc-cake(8).
//!
//! | symbol | field |
//! |---|---|
//! | when the link has sent all that was let go | `pacer` |
//! | since when something has waited | `busy_since` |
//! | how much a late driver may make up for | `LATE` |
//!
//! A link that was idle saves up nothing, so nothing leaves faster than the rate. A driver that looks late, though, finds the
//! packets that would have gone meanwhile, up to `LATE`: otherwise each delay of a wake-up would cost throughput.
//!
//! Cost: those of queue and accounts, and one multiplication a packet. Invariants: over any time in which something waits,
//! what leaves is the rate times it, plus `LATE` and one packet at most; what came is what was sent, dropped, and waits.

mod config;

pub use config::{Config, OPTIONS};

use crate::buffer::{Bounds, ConfigError, Limit, Reason};
use crate::flow::accounts::{AccountId, Accounts};
use crate::flow::label::Label;
use crate::link::pacing::Pacer;
use crate::queue::{self, Admit, End, Parcel, Queue};
use crate::units::{Bytes, FlowNumber, Span, Time};

/// How late a driver may come and still send what would have gone meanwhile.
const LATE: Span = Span::from_millis(10);
/// A driver is woken no more often than that, so that a fast link costs it no wake-up for each packet.
const TICK: Span = Span::from_micros(100);
/// There is room for so many bytes, whatever the rate.
const LEAST_ROOM: u64 = 20 * 1514;
/// Memory that packets may take, as a multiple of the bytes that they count: small ones lie in slots that are not full.
const MEMORY_FACTOR: u64 = 8;

/// And at most, whatever the rate and the settings.
const MOST_MEMORY: u64 = 256_000_000;

/// What became of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets that came.
    pub received: u64,
    /// Their bytes, as they came.
    pub received_bytes: u64,
    /// Packets that left.
    pub sent: u64,
    /// Their bytes, as the link counts them.
    pub sent_bytes: u64,
    /// Packets that left with a mark of the policy's, "congestion experienced".
    pub marked: u64,
    /// Packets that were dropped, by [reason](Reason::ALL).
    pub dropped: [u64; Reason::ALL.len()],
}

/// A packet that waits.
#[derive(Debug)]
struct Held<P> {
    packet: P,
    counted: u32,
    account: AccountId,
    is_marked: bool,
}

impl Stats {
    /// Each counter with its name.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let own = [
            ("received", self.received),
            ("received_bytes", self.received_bytes),
            ("sent", self.sent),
            ("sent_bytes", self.sent_bytes),
            ("marked", self.marked),
        ];
        let dropped = Reason::ALL.into_iter().zip(self.dropped).map(|(reason, count)| (reason.counter(), count));
        own.into_iter().chain(dropped)
    }
}

impl<P: Parcel> Parcel for Held<P> {
    #[inline]
    fn size(&self) -> u32 {
        self.counted
    }

    #[inline]
    fn memory(&self) -> u64 {
        self.packet.memory()
    }

    fn mark(&mut self) -> bool {
        let marked = self.packet.mark();
        self.is_marked |= marked;
        marked
    }

    fn host(&self, end: End) -> u128 {
        self.packet.host(end)
    }

    fn class(&self) -> u8 {
        self.packet.class()
    }

    fn is_scalable(&self) -> bool {
        self.packet.is_scalable()
    }
}

/// One direction. After [`handle_packet`](Shaper::handle_packet), and when [`poll_timeout`](Shaper::poll_timeout) is due, drain
/// [`poll_transmit`](Shaper::poll_transmit).
#[derive(Debug)]
pub struct Shaper<P> {
    config: Config,
    queue: Queue<Held<P>>,
    pacer: Pacer,
    busy_since: Time,
    /// When a packet was last let go.
    looked: Time,
    accounts: Accounts,
    stats: Stats,
    seed: u64,
}

impl<P: Parcel> Shaper<P> {
    /// An idle one. `seed` keys the hash of a stochastic discipline, and determines what a policy draws.
    ///
    /// # Errors
    /// Names the first setting of discipline or policy that cannot work.
    pub fn new(config: Config, seed: u64) -> Result<Shaper<P>, ConfigError> {
        Ok(Shaper {
            queue: queue(&config, seed)?,
            pacer: Pacer::new(config.rate, Bytes::ZERO),
            config,
            busy_since: Time::ZERO,
            looked: Time::ZERO,
            accounts: Accounts::default(),
            stats: Stats::default(),
            seed,
        })
    }

    /// Its settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Takes other settings from now on; what waits stays.
    ///
    /// # Errors
    /// As [`new`](Shaper::new); then nothing has changed.
    pub fn reconfigure(&mut self, now: Time, config: Config) -> Result<(), ConfigError> {
        let (was, is) = (&self.config, &config);
        if (was.discipline, was.buffer) != (is.discipline, is.buffer) {
            let mut other = queue(&config, self.seed)?;
            while let Some(entry) = self.queue.take(now) {
                other.readmit(entry.since, entry.flow, entry.packet);
            }
            self.queue = other;
        }
        self.queue.set_bounds(bounds(&config));
        self.pacer.rescale(now, config.rate, Bytes::ZERO);
        self.config = config;
        Ok(())
    }

    /// A packet of `flow` comes, an Ethernet frame; `label` says what the flow is called, where that is not known.
    #[inline]
    pub fn handle_packet(&mut self, now: Time, flow: FlowNumber, packet: P, label: impl FnOnce(&P) -> Label) {
        let len = packet.size();
        self.stats.received += 1;
        self.stats.received_bytes += u64::from(len);
        if self.queue.packets() == 0 {
            self.busy_since = now;
        }
        let account = self.accounts.on_arrival(now, flow, || label(&packet));
        let held = Held { counted: self.config.counted(len as usize), packet, account, is_marked: false };
        if let Admit::Refused(held, reason) = self.queue.enqueue(now, flow, held) {
            self.count_dropped(&held, reason);
        }
        self.drop_evicted();
    }

    /// The next packet that leaves.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<P> {
        if self.pacer.ready_at() > now {
            return None;
        }
        let entry = self.queue.dequeue(now);
        self.drop_evicted();
        let entry = entry?;
        let latest = Time::from_nanos(now.as_nanos().saturating_sub(LATE.as_nanos()));
        self.pacer.on_sent(self.busy_since.max(latest), entry.size as usize);
        self.looked = now;
        let (held, bytes) = (entry.packet, u64::from(entry.size));
        self.stats.sent += 1;
        self.stats.sent_bytes += bytes;
        self.stats.marked += u64::from(held.is_marked);
        self.accounts.on_sent(now, held.account, bytes, now.since(entry.since), held.is_marked);
        Some(held.packet)
    }

    /// When the next packet may leave, if one waits.
    pub fn poll_timeout(&self) -> Option<Time> {
        (self.queue.packets() > 0).then(|| self.pacer.ready_at().max(self.looked + TICK))
    }

    /// What became of packets.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// What became of each flow.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Packets that wait, and their bytes as the link counts them.
    pub fn waiting(&self) -> (usize, Bytes) {
        (self.queue.packets(), Bytes::new(self.queue.bytes()))
    }

    #[inline]
    fn drop_evicted(&mut self) {
        while let Some(dropped) = self.queue.poll_dropped() {
            self.count_dropped(&dropped.packet, dropped.reason);
        }
    }

    #[cold]
    fn count_dropped(&mut self, held: &Held<P>, reason: Reason) {
        self.accounts.on_dropped(held.account);
        if let Some(at) = Reason::ALL.iter().position(|other| *other == reason) {
            self.stats.dropped[at] += 1;
        }
    }
}

fn queue<P: Parcel>(config: &Config, seed: u64) -> Result<Queue<P>, ConfigError> {
    let mut settings = queue::Config::default();
    (settings.discipline, settings.buffer) = (config.discipline, config.buffer);
    let bounds = bounds(config);
    settings.limit = Limit::Bytes(bounds.bytes);
    let mut queue = Queue::new(&settings, seed)?;
    queue.set_bounds(bounds);
    Ok(queue)
}

/// What may wait.
fn bounds(config: &Config) -> Bounds {
    let bytes = config.rate.bytes_in(config.queue).as_u64().max(LEAST_ROOM);
    Bounds { bytes, memory: bytes.saturating_mul(MEMORY_FACTOR).min(MOST_MEMORY), ..Bounds::NONE }
}

#[cfg(test)]
mod tests;
