//! A recording drives a fresh bond, which must do what the recorded one did.

use super::codec::Reader;
use super::digest::Digest;
use super::error::ReplayError;
use super::{
    ANY, BLOCKED, CHANNEL, DIGEST, HOST, HOST_NAMED, JOIN, LINK, MAGIC, POLL_DELIVER, POLL_EVENT, POLL_TRANSMIT,
    REPORT, SETTINGS, TIMEOUT, settings,
};
use crate::bond::{Bond, ChannelReport, Codepoint, Event, Link};
use crate::packet::Packet;
use crate::units::{Bytes, ChannelId, Rate, Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;

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

/// Drives a fresh bond with the recorded inputs, hands every output to `output`, and compares the digests.
///
/// # Errors
/// [`ReplayError::Diverged`] when an input or output differs from the recorded one; the others when `log` is not a recording.
pub fn replay(log: &[u8], mut output: impl FnMut(Output<'_>)) -> Result<Replayed, ReplayError> {
    let mut r = Reader { bytes: log, at: 0 };
    if r.take(MAGIC.len()).ok() != Some(MAGIC) {
        return Err(if log.starts_with(ANY) { ReplayError::Version } else { ReplayError::Magic });
    }
    let seed = r.u64_fixed()?;
    let mut now = Time::from_nanos(r.number()?);
    let length = r.number()? as usize;
    let mut from = Reader { bytes: r.take(length)?, at: 0 };
    let config = settings::decode(&mut from)?;
    let mut bond = Bond::<Replay>::new(config, now, seed)?;
    let (mut digest, mut done) = (Digest::new(), Replayed::default());
    while r.at < log.len() {
        let at = r.at;
        let tag = r.byte()?;
        now += Span::from_nanos(r.number()?);
        match tag {
            HOST => bond.handle_host(now, packet(&mut r)?),
            HOST_NAMED => {
                let hosts = Some(Box::new([r.number()?, r.number()?]));
                bond.handle_host(now, Replay { hosts, ..packet(&mut r)? });
            }
            CHANNEL => {
                let [channel, codepoint, tos] = r.array()?;
                let codepoint = if codepoint == 0 { Codepoint::Raw } else { Codepoint::Envelope };
                bond.handle_channel(now, ChannelId(channel), codepoint, packet(&mut r)?, tos);
            }
            LINK => {
                let [channel, state] = r.array()?;
                let state = match state {
                    0 => Link::Up,
                    1 => Link::Down,
                    2 => Link::Removed,
                    3 => Link::Leaving,
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
                let _ = bond.join(now, channel, settings::get_channel(&mut r)?);
            }
            SETTINGS => {
                let length = r.number()? as usize;
                let config = settings::decode(&mut Reader { bytes: r.take(length)?, at: 0 })?;
                // What the bond refused then, it refuses now.
                let _ = bond.reconfigure(now, &config);
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
            let body = frame.packet.as_ref().map(|_| frame.body());
            digest.transmit(frame.channel, frame.codepoint, &frame.head, body, frame.tos);
            let body = body.unwrap_or(&[]);
            output(Output::Transmit(frame.channel, frame.codepoint, frame.head.as_slice(), body, frame.tos));
            done.frames += 1;
            if let Some(packet) = frame.packet.filter(|_| bond.wants_back()) {
                bond.give_back(packet);
            }
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
    start: u32,
    footprint: u32,
    hosts: Option<Box<[u64; 2]>>,
}

impl Packet for Replay {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start as usize..]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start as usize..]
    }

    fn size(&self) -> Bytes {
        Bytes::from(self.bytes.len() - self.start as usize)
    }

    fn footprint(&self) -> usize {
        self.footprint as usize
    }

    fn hosts(&self) -> Option<[u64; 2]> {
        self.hosts.as_deref().copied()
    }

    fn strip(&mut self, n: usize) {
        self.start += n as u32;
    }

    fn prepend(&mut self, bytes: &[u8]) -> bool {
        self.bytes.splice(..self.start as usize, bytes.iter().copied());
        self.start = 0;
        true
    }

    fn truncate(&mut self, n: usize) {
        self.bytes.truncate(self.start as usize + n);
    }

    fn duplicate(&self) -> Option<Replay> {
        Some(self.clone())
    }

    fn from_bytes(bytes: &[u8]) -> Option<Replay> {
        Some(Replay { bytes: bytes.to_vec(), start: 0, footprint: bytes.len() as u32, hosts: None })
    }
}

fn packet(r: &mut Reader<'_>) -> Result<Replay, ReplayError> {
    let footprint = r.number()?.min(1 << 24) as u32;
    let at = r.at;
    let length = u32::try_from(r.number()?).map_err(|_| ReplayError::Damaged { at })? as usize;
    Ok(Replay { bytes: r.take(length)?.to_vec(), start: 0, footprint, hosts: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_replay_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut log = MAGIC.to_vec();
            log.extend_from_slice(&bytes);
            let _ = replay(&log, |_| ());
            let _ = replay(&bytes, |_| ());
        }
    }
}
