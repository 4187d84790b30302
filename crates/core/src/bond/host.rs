//! From the host into the queue: what is checked and changed before a channel is chosen.

use super::Bond;
use super::ack_line::AckLine;
use super::config::{Config, ConfigError};
use super::express::{Haste, Prompt};
use super::ledger::Ledger;
use super::lines::{BACK_PRESSURE, Note};
use super::queue::{ChannelQueue, HostQueue, Queued};
use super::sparse::Sparse;
use super::treatment::Treatment;
use crate::buffer::PolicyConfig;
use crate::ip::{Header, Version, fragment, icmp, mss};
use crate::link::pacing::Pacer;
use crate::packet::Packet;
use crate::units::{Bytes, Rate, Time};

/// What every link of IPv6 carries.
const IPV6_MTU: usize = 1280;

/// What a packet from the host meets first.
#[derive(Debug)]
pub(super) struct Ingress<P> {
    /// Packets that are made to wait before they wait for a channel ([`ramp`](super::ramp)).
    pub(super) line: ChannelQueue<P, ()>,
    /// Packets that wait for a channel.
    pub(super) queue: HostQueue<P>,
    /// Those that go before them.
    pub(super) prompt: Prompt<P>,
    /// Acknowledgements that go next, if there are not too many of them ([`acks`](super::acks)).
    pub(super) acks: AckLine<P>,
    /// Which flows are to.
    pub(super) sparse: Sparse,
    /// What became of each flow's packets.
    pub(super) ledger: Ledger,
    /// Bytes that it may hold where all channels that drain it have a rate.
    limit: Option<usize>,
    /// The largest packet that fits all channels.
    pub(super) mtu: usize,
    /// Paces ICMP errors.
    icmp: Pacer,
}

impl<P: Packet> Ingress<P> {
    pub(super) fn new(config: &Config, seed: u64) -> Result<Ingress<P>, ConfigError> {
        // One "byte" is one ICMP error; ten may go at once.
        let rate = Rate::from_bits_per_sec(u64::from(config.icmp_rate) * 8_000);
        let icmp = Pacer::new(rate, Bytes::new(9_000));
        let queue = HostQueue::new(config.discipline, config.buffer, seed).map_err(ConfigError::Queue)?;
        let (prompt, buckets) = (Prompt::new(config.all_buckets()), config.metered_buckets());
        let acks = AckLine::new(buckets);
        let (queue, sparse) = (queue.counted(buckets), Sparse::new(buckets));
        let line = ChannelQueue::fifo(PolicyConfig::DropTail, seed).counted(buckets);
        let ledger = Ledger::new(config);
        let mut ingress = Ingress { line, queue, prompt, acks, sparse, ledger, limit: None, mtu: 0, icmp };
        ingress.set_limit(None, config.queue_bytes);
        Ok(ingress)
    }

    /// Whether a packet of this flow bucket waits.
    #[inline]
    pub(super) fn has(&self, bucket: u16) -> bool {
        self.queue.has(bucket) || self.line.has(bucket)
    }

    /// Bytes that wait.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.queue.bytes() + self.line.bytes()
    }

    /// Drops what came before `oldest`, and says how many packets that were.
    pub(super) fn drop_before(&mut self, oldest: Time) -> u64 {
        self.line.drop_before(oldest, &mut self.ledger) + self.queue.drop_before(oldest, &mut self.ledger)
    }

    /// From the next packet on, at most so many bytes may wait, and so much memory be taken.
    pub(super) fn set_limit(&mut self, bytes: Option<usize>, memory: usize) {
        self.limit = bytes;
        self.queue.set_bounds(bytes, memory);
    }
}

impl<P: Packet> Bond<P> {
    /// Takes an IP packet from the host.
    pub fn handle_host(&mut self, now: Time, mut packet: P) {
        let size = packet.size().as_u64() as usize;
        let header = match Header::parse(packet.bytes(), size) {
            Ok(header) if header.total <= size => header,
            _ => {
                self.stats.host_not_ip += 1;
                return;
            }
        };
        self.stats.host_packets += 1;
        self.stats.host_bytes += size as u64;
        if header.total < packet.bytes().len() {
            packet.truncate(header.total);
        }
        if header.total > self.ingress.mtu && !self.must_carry(&header) {
            // It is no traffic: the peer would not hear of it, and stay silent.
            self.on_too_big(now, &header, packet);
            return;
        }
        self.on_traffic(now);
        if self.config.clamp_mss && mss::is_syn(&header, packet.bytes()) {
            self.clamp(&header, &mut packet);
        }
        let bucket = self.bucket(&header, packet.bytes());
        let account = self.ingress.ledger.on_arrival(now, bucket, &packet);
        if let Some(class) = self.classed.of(&header, packet.bytes()) {
            self.ingress.ledger.on_treated(now, account, Treatment::Class(class as u8), header.total);
            return self.enqueue_class(class, &header, Queued::new(now, packet, bucket, header.tos, account));
        }
        let queued = Queued::new(now, packet, bucket, header.tos, account);
        let haste = self.haste(now, &header, queued.packet.bytes(), bucket);
        let treatment = haste.map_or(Treatment::Usual, |(_, treatment)| treatment);
        self.ingress.ledger.on_treated(now, account, treatment, header.total);
        match haste {
            Some((haste, Treatment::Acknowledges)) => self.acknowledge(&header, queued.noted(haste)),
            Some((haste, _)) => self.go_first(queued.noted(haste)),
            None => self.enqueue(queued),
        }
    }

    /// Whether the driver should read more packets from the host. `false`: the queue is long enough.
    pub fn wants_host(&self) -> bool {
        if self.assigns() {
            return self.lines_want_host();
        }
        match self.ingress.limit {
            // Paced: what is too much is dropped here, early, instead of standing in the interface's queue.
            Some(_) => self.ingress.queue.memory() + self.ingress.line.memory() < self.config.queue_bytes,
            None => self.ingress.queue.bytes() < BACK_PRESSURE.min(self.config.queue_bytes / 2),
        }
    }

    /// Whether any channel is usable. While none is, a driver that waits for [`wants_host`](Self::wants_host) would keep
    /// packets that nobody waits for by the time there is one.
    pub fn has_channel(&self) -> bool {
        self.channels.usable != 0
    }

    /// Whether a packet that does not fit is carried all the same: what is no longer than the least MTU of IPv6 is to be
    /// fragmented below (RFC 8200 section 5).
    #[inline(never)]
    fn must_carry(&self, header: &Header) -> bool {
        header.version == Version::V6 && header.total <= IPV6_MTU.min(self.stripe_limit())
    }

    /// Lowers the maximum segment size in a SYN. Its checksum is made complete first.
    pub(super) fn clamp(&mut self, header: &Header, packet: &mut P) {
        packet.complete_checksum();
        if mss::clamp(header, packet.bytes_mut(), self.ingress.mtu) {
            self.stats.mss_clamped += 1;
        }
    }

    #[inline]
    fn enqueue(&mut self, queued: Queued<P>) {
        if self.assigns() {
            return self.assign(queued.since, queued.noted(Note::default()));
        }
        if self.makes_wait() {
            return self.ingress.line.push(queued);
        }
        let dropped = self.ingress.queue.offer(queued, &mut self.ingress.ledger);
        self.on_no_room(dropped);
    }

    /// A packet that goes before the others, if there is room for it.
    #[inline]
    pub(super) fn go_first(&mut self, queued: Queued<P, Haste>) {
        let account = queued.account;
        if !self.ingress.prompt.push(queued) {
            self.stats.queue_full += 1;
            self.ingress.ledger.on_dropped(account);
        }
    }

    /// There was no room for so many packets.
    #[inline]
    pub(super) fn on_no_room(&mut self, dropped: u64) {
        if dropped == 0 {
            return;
        }
        if self.channels.usable != 0 {
            self.stats.queue_full += dropped;
        } else {
            self.stats.no_channel += dropped;
        }
    }

    #[inline(never)]
    fn on_too_big(&mut self, now: Time, header: &Header, mut packet: P) {
        if fragment::allowed(header, packet.bytes()) {
            packet.complete_checksum();
            let mut refused = 0;
            let mtu = self.ingress.mtu;
            let done = fragment::split(header, packet.bytes(), mtu, |bytes| match P::from_bytes(bytes) {
                Some(part) => {
                    if let Ok(header) = Header::parse(part.bytes(), bytes.len()) {
                        let bucket = self.bucket(&header, part.bytes());
                        let class = self.classed.of(&header, part.bytes());
                        let account = self.ingress.ledger.on_arrival(now, bucket, &part);
                        let treatment = class.map_or(Treatment::Usual, |class| Treatment::Class(class as u8));
                        self.ingress.ledger.on_treated(now, account, treatment, header.total);
                        let queued = Queued::new(now, part, bucket, header.tos, account);
                        match class {
                            Some(class) => self.enqueue_class(class, &header, queued),
                            // Behind those of its flow that wait there.
                            None if self.ingress.prompt.has(bucket) => self.go_first(queued.noted(Haste::Steady)),
                            None => self.enqueue(queued),
                        }
                    }
                }
                None => refused += 1,
            });
            self.stats.memory_refused += refused;
            if done {
                self.stats.fragmented += 1;
                return;
            }
        }
        self.stats.host_too_big += 1;
        let (v4, v6) = (self.config.icmp_source_v4, self.config.icmp_source_v6);
        let fits = match header.version {
            Version::V4 => self.ingress.mtu,
            Version::V6 => self.ingress.mtu.max(IPV6_MTU),
        };
        let answer = icmp::too_big(header, packet.bytes(), fits, v4, v6);
        match answer {
            Some(answer) if self.config.icmp_rate > 0 && self.ingress.icmp.ready_at() <= now => {
                self.ingress.icmp.on_sent(now, 1_000);
                match P::from_bytes(&answer) {
                    Some(answer) => {
                        self.stats.icmp_sent += 1;
                        self.resequence.push(answer);
                    }
                    None => self.stats.memory_refused += 1,
                }
            }
            _ => self.stats.icmp_withheld += 1,
        }
    }
}
