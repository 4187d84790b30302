//! Recording a bond and replaying it.
//!
//! What it is: a [`Recorder`] stands before a [`Bond`] and writes every input - its time, kind, channel and bytes, the
//! settings and the seed - to a [`Sink`], and a digest of every input and output. [`replay()`] drives a fresh bond with the same
//! inputs; it must give the same outputs byte for byte, or [`ReplayError::Diverged`] says where it did not. A bond that
//! runs in a gateway and one that runs in a simulator are held together by this.
//!
//! Layout, numbers in LEB128 unless said: `"fairspan record 2\n"`, seed (8 bytes, big-endian), start time, length of
//! the settings, settings (`settings`); then entries: tag (1 byte), nanoseconds since the entry before, and what the tag
//! says. Tags, and the words and numbers of options and events, never change meaning: every recording of this version that was ever made
//! replays as long as the bond does what it did. Another wire format of the bond is another version, since what was received then
//! means nothing now: version 1 had envelopes of version 1.
//!
//! A packet from the host that names its hosts ([`Packet::hosts`]), as in a simulation, is an entry of a kind of its own.
//!
//! Departures from "everything": a packet's [`footprint`](Packet::footprint) is recorded, the slot of a pool that it
//! came from is not; packets must have all their bytes ([`Packet::size`] equal to their length); fragments and copies
//! that the bond itself makes count with their length. The digest is 64 bits and no defence against forgery.
//!
//! Cost: without a sink one comparison per call. With one, each input is written once and each output read once.

mod codec;
mod digest;
mod error;
mod replay;
mod settings;

pub use error::ReplayError;
pub use replay::{Output, Replayed, replay};

use self::codec::{put, put_option, put_packet};
use self::digest::Digest;
use crate::bond::{Bond, ChannelConfig, ChannelReport, Codepoint, Config, ConfigError, Event, Link, Transmit};
use crate::packet::Packet;
use crate::units::{ChannelId, Rate, Span, Time};
use alloc::vec::Vec;
use core::ops::Deref;

/// What each recording begins with.
pub const MAGIC: &[u8] = b"fairspan record 2\n";
/// What those of all versions begin with.
const ANY: &[u8] = b"fairspan record ";
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
const SETTINGS: u8 = 12;
const HOST_NAMED: u8 = 13;

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
        let settings = sink.is_some().then(|| settings::encode(&config));
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
            match packet.hosts() {
                None => log.entry(HOST, now, |out| put_packet(out, &packet)),
                Some(hosts) => log.entry(HOST_NAMED, now, |out| {
                    hosts.iter().for_each(|host| put(out, *host));
                    put_packet(out, &packet);
                }),
            }
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
                Link::Leaving => 3,
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
                settings::put_channel(out, &config);
            });
        }
        self.bond.join(now, channel, config)
    }

    /// See [`Bond::reconfigure`].
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn reconfigure(&mut self, now: Time, config: &Config) -> Result<(), ConfigError> {
        if let Some(log) = &mut self.log {
            let settings = settings::encode(config);
            log.entry(SETTINGS, now, |out| {
                put(out, settings.len() as u64);
                out.extend_from_slice(&settings);
            });
        }
        self.bond.reconfigure(now, config)
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
                let body = frame.packet.as_ref().map(|_| frame.body());
                log.digest.transmit(frame.channel, frame.codepoint, &frame.head, body, frame.tos);
            }
        }
        frame
    }

    /// See [`Bond::give_back`]. A replay gives back at once what is wanted back, so the driver has to.
    #[inline]
    pub fn give_back(&mut self, packet: P) {
        self.bond.give_back(packet);
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
