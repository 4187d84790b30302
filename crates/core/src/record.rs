//! Recording a bond and replaying it.
//!
//! What it is: a [`Recorder`] stands before a [`Bond`] and writes every input - its time, kind, channel and bytes, the
//! settings and the seed - to a [`Sink`], and a digest of every input and output. [`replay`] drives a fresh bond with the same
//! inputs; it must give the same outputs byte for byte, or [`ReplayError::Diverged`] says where it did not. A bond that
//! runs in a gateway and one that runs in a simulator are held together by this.
//!
//! Layout, numbers in LEB128 unless said: `"fairspan record 1\n"`, seed (8 bytes, big-endian), start time, length of
//! the settings, settings; then entries: tag (1 byte), nanoseconds since the entry before, and what the tag says.
//!
//! Departures from "everything": a packet's [`footprint`](Packet::footprint) is recorded, the slot of a pool that it
//! came from is not; packets must have all their bytes ([`Packet::size`] equal to their length); fragments and copies
//! that the bond itself makes count with their length. The digest is 64 bits and no defence against forgery.
//!
//! Cost: without a sink one comparison per call. With one, each input is written once and each output read once.

use crate::bond::{
    Aqm, Bond, ChannelConfig, ChannelReport, Codepoint, Config, ConfigError, Event, Head, Link, MarkerPlace, Mode,
    Scheduler, Transmit,
};
use crate::packet::Packet;
use crate::units::{Bytes, ChannelId, Rate, Span, Time};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Deref;

const MAGIC: &[u8] = b"fairspan record 1\n";
/// A digest is written after this many entries.
const DIGEST_EVERY: u32 = 256;

const HOST: u8 = 1;
const CHANNEL: u8 = 2;
const LINK: u8 = 3;
const BLOCKED: u8 = 4;
const REPORT: u8 = 5;
const TIMEOUT: u8 = 6;
const JOIN: u8 = 7;
const POLL_TRANSMIT: u8 = 8;
const POLL_DELIVER: u8 = 9;
const POLL_EVENT: u8 = 10;
const DIGEST: u8 = 11;

/// Takes the bytes of a recording, in order.
pub trait Sink {
    /// Appends `bytes`. What cannot be written is the sink's to report: the bond goes on.
    fn write(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A bond whose inputs and outputs are recorded, if there is a sink.
///
/// It has the bond's own methods; those that only look are reached through [`Deref`].
#[derive(Debug)]
pub struct Recorder<P, S> {
    bond: Bond<P>,
    log: Option<Log<S>>,
}

#[derive(Debug)]
struct Log<S> {
    sink: S,
    scratch: Vec<u8>,
    digest: Digest,
    last: Time,
    entries: u32,
    /// Polls of one kind and time in a row.
    polls: (u8, Time, u64),
}

impl<P: Packet, S: Sink> Recorder<P, S> {
    /// A bond as [`Bond::new`] makes it, recorded to `sink` if there is one.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn new(config: Config, now: Time, seed: u64, sink: Option<S>) -> Result<Recorder<P, S>, ConfigError> {
        let settings = sink.is_some().then(|| encode_config(&config));
        let bond = Bond::new(config, now, seed)?;
        let log = sink.zip(settings).map(|(mut sink, settings)| {
            sink.write(MAGIC);
            sink.write(&seed.to_be_bytes());
            let mut head = Vec::new();
            put(&mut head, now.as_nanos());
            put(&mut head, settings.len() as u64);
            sink.write(&head);
            sink.write(&settings);
            Log { sink, scratch: Vec::new(), digest: Digest::new(), last: now, entries: 0, polls: (0, now, 0) }
        });
        Ok(Recorder { bond, log })
    }

    /// Ends the recording with a last digest and gives the sink back; the bond goes on unrecorded.
    pub fn finish(&mut self) -> Option<S> {
        let mut log = self.log.take()?;
        log.write_digest();
        Some(log.sink)
    }

    /// See [`Bond::handle_host`].
    #[inline]
    pub fn handle_host(&mut self, now: Time, packet: P) {
        if let Some(log) = &mut self.log {
            log.entry(HOST, now, |out| put_packet(out, &packet));
        }
        self.bond.handle_host(now, packet);
    }

    /// See [`Bond::handle_channel`].
    #[inline]
    pub fn handle_channel(&mut self, now: Time, channel: ChannelId, codepoint: Codepoint, frame: P, tos: u8) {
        if let Some(log) = &mut self.log {
            log.entry(CHANNEL, now, |out| {
                out.extend_from_slice(&[channel.0, u8::from(codepoint == Codepoint::Envelope), tos]);
                put_packet(out, &frame);
            });
        }
        self.bond.handle_channel(now, channel, codepoint, frame, tos);
    }

    /// See [`Bond::set_link`].
    pub fn set_link(&mut self, now: Time, channel: ChannelId, state: Link) {
        if let Some(log) = &mut self.log {
            let state = match state {
                Link::Up => 0,
                Link::Down => 1,
                Link::Removed => 2,
            };
            log.entry(LINK, now, |out| out.extend_from_slice(&[channel.0, state]));
        }
        self.bond.set_link(now, channel, state);
    }

    /// See [`Bond::join`].
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn join(&mut self, now: Time, channel: ChannelId, config: ChannelConfig) -> Result<(), ConfigError> {
        if let Some(log) = &mut self.log {
            log.entry(JOIN, now, |out| {
                out.push(channel.0);
                put_channel(out, &config);
            });
        }
        self.bond.join(now, channel, config)
    }

    /// See [`Bond::set_blocked`].
    pub fn set_blocked(&mut self, now: Time, channel: ChannelId, blocked: bool) {
        if let Some(log) = &mut self.log {
            log.entry(BLOCKED, now, |out| out.extend_from_slice(&[channel.0, u8::from(blocked)]));
        }
        self.bond.set_blocked(now, channel, blocked);
    }

    /// See [`Bond::report`].
    pub fn report(&mut self, now: Time, channel: ChannelId, report: ChannelReport) {
        if let Some(log) = &mut self.log {
            log.entry(REPORT, now, |out| {
                out.push(channel.0);
                put_option(out, report.path_mtu.map(|n| n as u64));
                put_option(out, report.rate.map(Rate::as_bits_per_sec));
                put_option(out, report.rtt.map(Span::as_nanos));
            });
        }
        self.bond.report(now, channel, report);
    }

    /// See [`Bond::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Time) {
        if let Some(log) = &mut self.log {
            log.entry(TIMEOUT, now, |_| ());
        }
        self.bond.handle_timeout(now);
    }

    /// See [`Bond::poll_transmit`].
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit<P>> {
        let frame = self.bond.poll_transmit(now);
        if let Some(log) = &mut self.log {
            log.poll(POLL_TRANSMIT, now);
            if let Some(frame) = &frame {
                let body = frame.packet.as_ref().map(Packet::bytes);
                log.digest.transmit(frame.channel, frame.codepoint, &frame.head, body, frame.tos);
            }
        }
        frame
    }

    /// See [`Bond::poll_deliver`].
    #[inline]
    pub fn poll_deliver(&mut self) -> Option<P> {
        let packet = self.bond.poll_deliver();
        if let Some(log) = &mut self.log {
            log.poll(POLL_DELIVER, log.now());
            if let Some(packet) = &packet {
                log.digest.deliver(packet.bytes());
            }
        }
        packet
    }

    /// See [`Bond::poll_event`].
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.bond.poll_event();
        if let Some(log) = &mut self.log {
            log.poll(POLL_EVENT, log.now());
            if let Some(event) = &event {
                log.digest.event(event);
            }
        }
        event
    }
}

impl<P, S> Deref for Recorder<P, S> {
    type Target = Bond<P>;

    fn deref(&self) -> &Bond<P> {
        &self.bond
    }
}

impl<S: Sink> Log<S> {
    fn entry(&mut self, tag: u8, now: Time, fields: impl FnOnce(&mut Vec<u8>)) {
        self.flush_polls();
        self.write(tag, now, fields);
    }

    fn write(&mut self, tag: u8, now: Time, fields: impl FnOnce(&mut Vec<u8>)) {
        self.scratch.clear();
        self.scratch.push(tag);
        put(&mut self.scratch, now.since(self.last).as_nanos());
        fields(&mut self.scratch);
        self.last = self.last.max(now);
        if tag != DIGEST {
            self.digest.bytes(&self.scratch);
        }
        self.sink.write(&self.scratch);
        self.entries += 1;
    }

    fn poll(&mut self, tag: u8, now: Time) {
        if self.polls.2 > 0 && (self.polls.0, self.polls.1) == (tag, now) {
            self.polls.2 += 1;
            return;
        }
        self.flush_polls();
        // Written once the run is over.
        self.polls = (tag, now, 1);
    }

    /// The time of the last call.
    fn now(&self) -> Time {
        if self.polls.2 > 0 { self.last.max(self.polls.1) } else { self.last }
    }

    fn flush_polls(&mut self) {
        let (tag, at, count) = core::mem::take(&mut self.polls);
        if count > 0 {
            self.write(tag, at, |out| put(out, count));
        }
        if self.entries >= DIGEST_EVERY {
            self.write_digest();
        }
    }

    fn write_digest(&mut self) {
        self.entries = 0;
        self.flush_polls();
        let digest = self.digest.0;
        self.write(DIGEST, self.last, |out| out.extend_from_slice(&digest.to_be_bytes()));
        self.entries = 0;
    }
}

/// What came out of a replayed bond.
#[derive(Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// A frame: its channel, code point, head, what follows the head, and type of service.
    Transmit(ChannelId, Codepoint, &'a [u8], &'a [u8], u8),
    /// A packet for the host.
    Deliver(&'a [u8]),
    /// An event.
    Event(Event),
}

/// What a replay did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Entries in the recording.
    pub entries: u64,
    /// Digests that agreed.
    pub digests: u64,
    /// Frames that came out.
    pub frames: u64,
    /// Packets that came out.
    pub packets: u64,
    /// The digest over all inputs and outputs.
    pub digest: u64,
}

/// Why a recording could not be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// Not a recording, or of another version.
    #[error("not a fairspan recording of version 1")]
    Magic,
    /// It ends in the middle of an entry.
    #[error("the recording is cut short at byte {at}")]
    Truncated {
        /// Where the entry was cut.
        at: usize,
    },
    /// An entry that has no meaning.
    #[error("the recording is damaged at byte {at}")]
    Damaged {
        /// Where the entry started or the field stood.
        at: usize,
    },
    /// Settings that do not work.
    #[error("the recorded settings do not work: {0}")]
    Config(#[from] ConfigError),
    /// The outputs, or the inputs themselves, are not the recorded ones.
    #[error("inputs or outputs differ from the recorded ones before byte {at}, entry {entry}")]
    Diverged {
        /// Where the digest stands that does not agree.
        at: usize,
        /// Its number among the entries.
        entry: u64,
    },
}

/// Drives a fresh bond with the recorded inputs, hands every output to `output`, and compares the digests.
///
/// # Errors
/// [`ReplayError::Diverged`] when an input or output differs from the recorded one; the others when `log` is not a recording.
pub fn replay(log: &[u8], mut output: impl FnMut(Output<'_>)) -> Result<Replayed, ReplayError> {
    let mut r = Reader { bytes: log, at: 0 };
    if r.take(MAGIC.len()).ok() != Some(MAGIC) {
        return Err(ReplayError::Magic);
    }
    let seed = r.u64_fixed()?;
    let mut now = Time::from_nanos(r.number()?);
    let length = r.number()? as usize;
    let mut settings = Reader { bytes: r.take(length)?, at: 0 };
    let config = decode_config(&mut settings)?;
    let mut bond = Bond::<Replay>::new(config, now, seed)?;
    let (mut digest, mut done) = (Digest::new(), Replayed::default());
    while r.at < log.len() {
        let at = r.at;
        let tag = r.byte()?;
        now += Span::from_nanos(r.number()?);
        match tag {
            HOST => bond.handle_host(now, r.packet()?),
            CHANNEL => {
                let [channel, codepoint, tos] = r.array()?;
                let codepoint = if codepoint == 0 { Codepoint::Raw } else { Codepoint::Envelope };
                bond.handle_channel(now, ChannelId(channel), codepoint, r.packet()?, tos);
            }
            LINK => {
                let [channel, state] = r.array()?;
                let state = match state {
                    0 => Link::Up,
                    1 => Link::Down,
                    2 => Link::Removed,
                    _ => return Err(ReplayError::Damaged { at }),
                };
                bond.set_link(now, ChannelId(channel), state);
            }
            BLOCKED => {
                let [channel, blocked] = r.array()?;
                bond.set_blocked(now, ChannelId(channel), blocked != 0);
            }
            REPORT => {
                let channel = ChannelId(r.byte()?);
                let path_mtu = r.option()?.map(|n| n as usize);
                let rate = r.option()?.map(Rate::from_bits_per_sec);
                let rtt = r.option()?.map(Span::from_nanos);
                bond.report(now, channel, ChannelReport { path_mtu, rate, rtt });
            }
            TIMEOUT => bond.handle_timeout(now),
            JOIN => {
                let channel = ChannelId(r.byte()?);
                // What the bond refused then, it refuses now.
                let _ = bond.join(now, channel, get_channel(&mut r)?);
            }
            POLL_TRANSMIT | POLL_DELIVER | POLL_EVENT => {
                let (mut left, mut nothing) = (r.number()?, 0);
                // A second poll in a row that gives nothing changes nothing: however long the run, it is over then.
                while left > 0 && nothing < 2 {
                    let some = poll(&mut bond, tag, now, &mut digest, &mut done, &mut output);
                    nothing = if some { 0 } else { nothing + 1 };
                    left -= 1;
                }
            }
            DIGEST => {
                if r.u64_fixed()? != digest.0 {
                    return Err(ReplayError::Diverged { at, entry: done.entries });
                }
                done.digests += 1;
            }
            _ => return Err(ReplayError::Damaged { at }),
        }
        if tag != DIGEST {
            digest.bytes(log.get(at..r.at).unwrap_or(&[]));
        }
        done.entries += 1;
    }
    done.digest = digest.0;
    Ok(done)
}

/// One poll; whether it gave anything.
fn poll(
    bond: &mut Bond<Replay>,
    tag: u8,
    now: Time,
    digest: &mut Digest,
    done: &mut Replayed,
    output: &mut impl FnMut(Output<'_>),
) -> bool {
    match tag {
        POLL_TRANSMIT => {
            let Some(frame) = bond.poll_transmit(now) else { return false };
            let body = frame.packet.as_ref().map(Packet::bytes);
            digest.transmit(frame.channel, frame.codepoint, &frame.head, body, frame.tos);
            let body = body.unwrap_or(&[]);
            output(Output::Transmit(frame.channel, frame.codepoint, frame.head.as_slice(), body, frame.tos));
            done.frames += 1;
        }
        POLL_DELIVER => {
            let Some(packet) = bond.poll_deliver() else { return false };
            digest.deliver(packet.bytes());
            output(Output::Deliver(packet.bytes()));
            done.packets += 1;
        }
        _ => {
            let Some(event) = bond.poll_event() else { return false };
            digest.event(&event);
            output(Output::Event(event));
        }
    }
    true
}

/// A packet as it was recorded.
#[derive(Clone, Debug)]
struct Replay {
    bytes: Vec<u8>,
    start: usize,
    footprint: usize,
}

impl Packet for Replay {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    fn size(&self) -> Bytes {
        Bytes::from(self.bytes.len() - self.start)
    }

    fn footprint(&self) -> usize {
        self.footprint
    }

    fn strip(&mut self, n: usize) {
        self.start += n;
    }

    fn truncate(&mut self, n: usize) {
        self.bytes.truncate(self.start + n);
    }

    fn duplicate(&self) -> Option<Replay> {
        Some(self.clone())
    }

    fn from_bytes(bytes: &[u8]) -> Option<Replay> {
        Some(Replay { bytes: bytes.to_vec(), start: 0, footprint: bytes.len() })
    }
}

/// A running digest: each word is mixed in by a 64 x 64 -> 128 bit multiplication.
#[derive(Clone, Debug)]
struct Digest(u64);

impl Digest {
    fn new() -> Digest {
        Digest(0x9e37_79b9_7f4a_7c15)
    }

    fn word(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word) * 0xa076_1d64_78bd_642f_u128;
        self.0 = (wide as u64 ^ (wide >> 64) as u64).wrapping_add(0xe703_7ed1_a0b4_28db);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
    }

    fn transmit(&mut self, channel: ChannelId, codepoint: Codepoint, head: &Head, body: Option<&[u8]>, tos: u8) {
        let raw = u64::from(codepoint == Codepoint::Raw);
        self.word(1 | u64::from(channel.0) << 8 | raw << 16 | u64::from(tos) << 24);
        self.bytes(head.as_slice());
        self.bytes(body.unwrap_or(&[]));
    }

    fn deliver(&mut self, bytes: &[u8]) {
        self.word(2);
        self.bytes(bytes);
    }

    fn event(&mut self, event: &Event) {
        self.word(3);
        self.bytes(alloc::format!("{event:?}").as_bytes());
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], ReplayError> {
        let cut = ReplayError::Truncated { at: self.at };
        let end = self.at.checked_add(n).ok_or(cut.clone())?;
        let bytes = self.bytes.get(self.at..end).ok_or(cut)?;
        self.at = end;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReplayError> {
        let at = self.at;
        self.take(N)?.first_chunk::<N>().copied().ok_or(ReplayError::Truncated { at })
    }

    fn byte(&mut self) -> Result<u8, ReplayError> {
        self.array::<1>().map(|[b]| b)
    }

    fn u64_fixed(&mut self) -> Result<u64, ReplayError> {
        self.array::<8>().map(u64::from_be_bytes)
    }

    fn number(&mut self) -> Result<u64, ReplayError> {
        let at = self.at;
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ReplayError::Damaged { at })
    }

    fn option(&mut self) -> Result<Option<u64>, ReplayError> {
        if self.byte()? == 0 { Ok(None) } else { self.number().map(Some) }
    }

    fn packet(&mut self) -> Result<Replay, ReplayError> {
        let footprint = self.number()?.min(1 << 24) as usize;
        let length = self.number()? as usize;
        Ok(Replay { bytes: self.take(length)?.to_vec(), start: 0, footprint })
    }
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_option(out: &mut Vec<u8>, value: Option<u64>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

fn put_packet<P: Packet>(out: &mut Vec<u8>, packet: &P) {
    put(out, packet.footprint() as u64);
    put(out, packet.bytes().len() as u64);
    out.extend_from_slice(packet.bytes());
}

fn put_channel(out: &mut Vec<u8>, c: &ChannelConfig) {
    put(out, c.name.len() as u64);
    out.extend_from_slice(c.name.as_bytes());
    put_option(out, c.rate.map(Rate::as_bits_per_sec));
    for n in [u64::from(c.weight), u64::from(c.priority), c.mtu as u64, c.overhead as u64, c.framing as u64] {
        put(out, n);
    }
    put_option(out, c.burst.map(Bytes::as_u64));
    out.push(u8::from(c.raw));
}

fn get_channel(r: &mut Reader<'_>) -> Result<ChannelConfig, ReplayError> {
    let at = r.at;
    let length = r.number()? as usize;
    let name = core::str::from_utf8(r.take(length)?).map_err(|_| ReplayError::Damaged { at })?;
    // In the order of the recording: fields are evaluated as they are written.
    Ok(ChannelConfig {
        name: String::from(name),
        rate: r.option()?.map(Rate::from_bits_per_sec),
        weight: r.number()? as u32,
        priority: r.number()? as u32,
        mtu: r.number()? as usize,
        overhead: r.number()? as usize,
        framing: r.number()? as usize,
        burst: r.option()?.map(Bytes::new),
        raw: r.byte()? != 0,
    })
}

const MODES: [Mode; 6] = [Mode::Ordered, Mode::Stripe, Mode::Duplicate, Mode::Backup, Mode::Plain, Mode::Flow];
const SCHEDULERS: [Scheduler; 4] = [Scheduler::Srr, Scheduler::Rr, Scheduler::Grr, Scheduler::Rfq];
const PLACES: [MarkerPlace; 3] = [MarkerPlace::End, MarkerPlace::Start, MarkerPlace::Middle];

fn encode_config(c: &Config) -> Vec<u8> {
    let mut out = Vec::new();
    let place = |found: Option<usize>| found.unwrap_or(0) as u8;
    out.push(place(MODES.iter().position(|m| *m == c.mode)));
    out.push(place(SCHEDULERS.iter().position(|s| *s == c.scheduler)));
    put(&mut out, c.channels.len() as u64);
    for channel in &c.channels {
        put_channel(&mut out, channel);
    }
    for n in [c.buckets, c.hold_bytes, c.queue_bytes, c.copies] {
        put(&mut out, n as u64);
    }
    for span in c.spans() {
        put(&mut out, span.as_nanos());
    }
    let (target, interval) = match c.aqm {
        Aqm::DropTail => (None, Span::ZERO),
        Aqm::CoDel { target, interval } => (Some(target.as_nanos()), interval),
    };
    put_option(&mut out, target);
    put(&mut out, interval.as_nanos());
    out.extend_from_slice(&[u8::from(c.probe_mtu), u8::from(c.clamp_mss), u8::from(c.copy_dscp)]);
    out.push(u8::from(c.icmp_source_v4.is_some()));
    out.extend_from_slice(&c.icmp_source_v4.unwrap_or_default());
    out.push(u8::from(c.icmp_source_v6.is_some()));
    out.extend_from_slice(&c.icmp_source_v6.unwrap_or_default());
    put(&mut out, u64::from(c.icmp_rate));
    put(&mut out, u64::from(c.marker_rounds));
    out.extend_from_slice(&[place(PLACES.iter().position(|p| *p == c.marker_place)), u8::from(c.credits)]);
    put_option(&mut out, c.stripe_buffer.map(Bytes::as_u64));
    let policy = c.policy.to_string();
    put(&mut out, policy.len() as u64);
    out.extend_from_slice(policy.as_bytes());
    out
}

fn decode_config(r: &mut Reader<'_>) -> Result<Config, ReplayError> {
    let at = r.at;
    let damaged = ReplayError::Damaged { at };
    let mut c = Config::default();
    let [mode, scheduler] = r.array()?;
    c.mode = *MODES.get(usize::from(mode)).ok_or(damaged.clone())?;
    c.scheduler = *SCHEDULERS.get(usize::from(scheduler)).ok_or(damaged.clone())?;
    let channels = r.number()?;
    if channels > ChannelId::LIMIT as u64 {
        return Err(damaged);
    }
    for _ in 0..channels {
        c.channels.push(get_channel(r)?);
    }
    for n in [&mut c.buckets, &mut c.hold_bytes, &mut c.queue_bytes, &mut c.copies] {
        *n = r.number()? as usize;
    }
    for span in c.spans_mut() {
        *span = Span::from_nanos(r.number()?);
    }
    let (target, interval) = (r.option()?, r.number()?);
    if let Some(target) = target {
        c.aqm = Aqm::CoDel { target: Span::from_nanos(target), interval: Span::from_nanos(interval) };
    }
    let [probe_mtu, clamp_mss, copy_dscp] = r.array()?;
    (c.probe_mtu, c.clamp_mss, c.copy_dscp) = (probe_mtu != 0, clamp_mss != 0, copy_dscp != 0);
    let (v4, source) = (r.byte()?, r.array::<4>()?);
    c.icmp_source_v4 = (v4 != 0).then_some(source);
    let (v6, source) = (r.byte()?, r.array::<16>()?);
    c.icmp_source_v6 = (v6 != 0).then_some(source);
    c.icmp_rate = r.number()? as u32;
    if r.at == r.bytes.len() {
        // Recorded before there was more.
        return Ok(c);
    }
    c.marker_rounds = r.number()? as u32;
    let [place, credits] = r.array()?;
    c.marker_place = *PLACES.get(usize::from(place)).ok_or(damaged)?;
    c.credits = credits != 0;
    c.stripe_buffer = r.option()?.map(Bytes::new);
    if r.at == r.bytes.len() {
        return Ok(c);
    }
    let at = r.at;
    let length = r.number()? as usize;
    let policy = core::str::from_utf8(r.take(length)?).map_err(|_| ReplayError::Damaged { at })?;
    c.policy = policy.parse().map_err(|error| ReplayError::Config(ConfigError::Policy(error)))?;
    Ok(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_setting_survives_the_recording() {
        let channel = |n: u64| ChannelConfig {
            name: String::from("dsl"),
            rate: Some(Rate::from_mbit(7 + n)),
            weight: 2,
            priority: 3,
            mtu: 1400,
            overhead: 60,
            framing: 18,
            burst: Some(Bytes::new(9000)),
            raw: true,
        };
        let channels = (0..3).map(channel).collect();
        let mut c = Config { mode: Mode::Backup, scheduler: Scheduler::Grr, channels, ..Config::default() };
        (c.buckets, c.hold_bytes, c.queue_bytes, c.copies) = (7, 1 << 20, 1 << 21, 2);
        for (n, span) in c.spans_mut().into_iter().enumerate() {
            *span = Span::from_millis(100 + n as u64);
        }
        c.aqm = Aqm::CoDel { target: Span::from_millis(4), interval: Span::from_millis(90) };
        (c.probe_mtu, c.clamp_mss, c.copy_dscp, c.icmp_rate) = (false, false, false, 3);
        (c.icmp_source_v4, c.icmp_source_v6) = (Some([1, 2, 3, 4]), Some([5; 16]));
        (c.marker_rounds, c.marker_place, c.credits) = (3, MarkerPlace::Middle, true);
        c.stripe_buffer = Some(Bytes::new(20_000));
        c.policy = "balance-xor:layer3+4,updelay=2s,flush=on,flush_wait=7ms".parse().unwrap();
        let bytes = encode_config(&c);
        assert_eq!(decode_config(&mut Reader { bytes: &bytes, at: 0 }), Ok(c));
    }

    #[test]
    fn settings_recorded_before_the_newest_existed_are_read_with_their_defaults() {
        let bytes = encode_config(&Config::default());
        // The policy and its length; before them one byte each of rounds, place, credits and buffer.
        let policy = 1 + Config::default().policy.to_string().len();
        for newer in [policy, policy + 4] {
            let before = &bytes[..bytes.len() - newer];
            assert_eq!(decode_config(&mut Reader { bytes: before, at: 0 }), Ok(Config::default()));
        }
    }

    proptest! {
        #[test]
        fn numbers_survive(value: u64) {
            let mut out = Vec::new();
            put(&mut out, value);
            prop_assert_eq!(Reader { bytes: &out, at: 0 }.number(), Ok(value));
        }

        #[test]
        fn any_bytes_replay_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut log = MAGIC.to_vec();
            log.extend_from_slice(&bytes);
            let _ = replay(&log, |_| ());
            let _ = replay(&bytes, |_| ());
        }
    }
}
