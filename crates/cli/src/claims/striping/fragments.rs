//! Quanta from a fragment delay (striping §7.2), and real-time packets between the fragments.

use super::told;
use crate::claims::{Answer, Bench};
use fairspan_core::causal::{Causal, Srr};
use fairspan_core::rng::Rng;
use fairspan_core::stripe::fragment::{Class, Fragmenter, HEADER_LEN, Reassembler, ReassemblerConfig};
use fairspan_core::stripe::quanta::{self, QuantaError};
use fairspan_core::units::{Bytes, ChannelId, Rate, Span, Time};
use std::collections::VecDeque;

/// The arithmetic for random bundles, and the wait of real-time packets in some of them.
pub(crate) fn quantum_from_delay(bench: &mut Bench) -> anyhow::Result<Answer> {
    let printed = as_printed();
    let arithmetic = bench.cases(10_000, |_, rng| quanta_are_what_the_links_carry(rng));
    let (mut longest, mut packets) = (0.0_f64, 0);
    let waits = bench.cases(400, |_, rng| {
        let found = interleaved(rng)?;
        longest = longest.max(found.longest);
        packets += found.packets;
        Ok(())
    });
    let outcome = printed.and(arithmetic).and_then(|a| Ok((a, waits?))).map(|(a, w)| {
        format!(
            "{a} random bundles: a quantum takes no longer than the delay, a byte more would; {w} bundles with bulk \
             fragments and {packets} real-time packets among them: the longest wait was {:.1} % of the fragment delay. \
             The printed default of 30 us gives 5 bytes on a T1, which is refused; 30 ms gives 5790",
            100.0 * longest
        )
    });
    Ok(told(outcome))
}

/// The default as printed holds no fragment; as it is meant it does.
fn as_printed() -> Result<(), String> {
    let t1 = [(ChannelId(0), Rate::from_bits_per_sec(1_544_000))];
    let least = Bytes::new(HEADER_LEN as u64 + 1);
    match quanta::from_fragment_delay(&t1, Span::from_micros(30), Bytes::new(64)) {
        Err(QuantaError::DelayTooShort { quantum: 5, .. }) => {}
        other => return Err(format!("30 us on a T1 gave {other:?}")),
    }
    match quanta::from_fragment_delay(&t1, Span::from_millis(30), least) {
        Ok((_, fragment)) if fragment == Bytes::new(5790) => Ok(()),
        other => Err(format!("30 ms on a T1 gave {other:?}")),
    }
}

fn quanta_are_what_the_links_carry(rng: &mut Rng) -> Result<(), String> {
    let rates: Vec<(ChannelId, Rate)> = (0..1 + rng.below(64))
        .map(|i| (ChannelId(i as u8), Rate::from_bits_per_sec(100_000 + rng.below(10_000_000_000))))
        .collect();
    let delay = Span::from_micros(10_000 + rng.below(90_000));
    let (set, fragment) = quanta::from_fragment_delay(&rates, delay, Bytes::new(64)).map_err(|e| e.to_string())?;
    let mut smallest = Bytes::new(u64::MAX);
    for &(channel, rate) in &rates {
        let quantum = Bytes::new(u64::from(set.quantum(channel)));
        smallest = smallest.min(quantum);
        if !is_carried(rate, quantum, delay) {
            return Err(format!("{} bytes for {rate:?} in {delay:?}", quantum.as_u64()));
        }
    }
    if fragment == smallest { Ok(()) } else { Err(format!("fragments of {fragment:?}, smallest quantum {smallest:?}")) }
}

/// Whether a link carries so much in the delay, and not a byte more.
fn is_carried(rate: Rate, quantum: Bytes, delay: Span) -> bool {
    rate.transmit_time(quantum) <= delay && rate.transmit_time(quantum + Bytes::new(1)) > delay
}

/// Whether a real-time packet waited for more than one fragment.
fn is_too_long(wait: Span, delay: Span) -> bool {
    wait > delay
}

struct Wait {
    /// Of a real-time packet, as a share of the fragment delay.
    longest: f64,
    packets: usize,
}

/// A link whose transmit queue is kept within its quantum.
struct Link {
    rate: Rate,
    delay: Span,
    free: Time,
    /// End of transmission and length of what has not left yet.
    queue: VecDeque<(Time, u64)>,
}

impl Link {
    /// When a frame of `len` bytes fits behind what waits, within `quantum`.
    fn room_at(&mut self, now: Time, len: u64, quantum: u64) -> Time {
        while self.queue.front().is_some_and(|&(end, _)| end <= now) {
            self.queue.pop_front();
        }
        let mut waiting: u64 = self.queue.iter().map(|&(_, len)| len).sum();
        let mut at = now;
        for &(end, bytes) in &self.queue {
            if waiting + len <= quantum {
                break;
            }
            (waiting, at) = (waiting - bytes, end);
        }
        at
    }
}

/// Bulk packets all the time, a real-time packet now and then (never two at once, which would wait for each other).
fn interleaved(rng: &mut Rng) -> Result<Wait, String> {
    let rates: Vec<(ChannelId, Rate)> = (0..1 + rng.below(4))
        .map(|i| (ChannelId(i as u8), Rate::from_bits_per_sec(128_000 + rng.below(3_000_000))))
        .collect();
    let delay = Span::from_micros(10_000 + rng.below(30_000));
    let (set, largest) = quanta::from_fragment_delay(&rates, delay, Bytes::new(64)).map_err(|e| e.to_string())?;
    let mut srr = Srr::new(&set).map_err(|e| e.to_string())?;
    let mut fragmenter: Fragmenter<Vec<u8>> = Fragmenter::new(largest, Bytes::new(1 << 20));
    let mut reassembler: Reassembler<Vec<u8>> = Reassembler::new(ReassemblerConfig::default(), set.mask());
    let mut links: Vec<Link> = rates
        .iter()
        .map(|&(_, rate)| Link {
            rate,
            delay: Span::from_micros(rng.below(40_000)),
            free: Time::ZERO,
            queue: VecDeque::new(),
        })
        .collect();
    let end = Time::ZERO + delay.times(60);
    let mut next_real_time = Time::ZERO + Span::from_nanos(rng.below(delay.as_nanos()));
    let (mut now, mut bulk, mut real_time) = (Time::ZERO, 0_u32, 0_u32);
    let mut since = None;
    let mut longest = Span::ZERO;
    let mut arrivals: Vec<(Time, usize, Vec<u8>)> = Vec::new();
    while now < end {
        if fragmenter.next_len().is_none() {
            fragmenter.push(Class::Bulk, tagged(0, bulk, 200 + rng.below(1300) as usize)).map_err(|_| "no room")?;
            bulk += 1;
        }
        if next_real_time <= now && since.is_none() {
            let len = 6 + rng.below(largest.as_u64().saturating_sub(9)) as usize;
            fragmenter.push(Class::RealTime, tagged(1, real_time, len)).map_err(|_| "no room")?;
            (since, real_time) = (Some(next_real_time), real_time + 1);
        }
        let Some(len) = fragmenter.next_len() else { continue };
        let channel = srr.select();
        let link = &mut links[channel.index()];
        let room = link.room_at(now, len.as_u64(), u64::from(set.quantum(channel)));
        if room > now {
            // A real-time packet that comes meanwhile goes first.
            now = if since.is_none() { room.min(next_real_time.max(now)) } else { room };
            if now < room {
                continue;
            }
        }
        if since.is_none() && next_real_time <= now {
            continue;
        }
        let mut frame = Vec::new();
        let class = fragmenter.poll(&mut frame).ok_or("the fragmenter is empty")?;
        let start = link.free.max(now);
        if class == Class::RealTime {
            let arrived = since.take().ok_or("a real-time packet out of nothing")?;
            longest = longest.max(start.since(arrived));
            next_real_time = start + delay + Span::from_nanos(rng.below(delay.as_nanos()));
        }
        srr.update(len);
        link.free = start + link.rate.transmit_time(len);
        link.queue.push_back((link.free, len.as_u64()));
        arrivals.push((link.free + link.delay, channel.index(), frame));
    }
    if is_too_long(longest, delay) {
        return Err(format!("a real-time packet waited {longest:?}, the fragment delay is {delay:?}"));
    }
    arrivals.sort_by_key(|&(at, link, _)| (at, link));
    let mut came = [0_u32; 2];
    for (_, link, frame) in arrivals {
        reassembler.handle(ChannelId(link as u8), &frame).map_err(|e| e.to_string())?;
        while let Some(packet) = reassembler.poll() {
            let class = usize::from(packet[0] & 1);
            if packet.get(1..5) != Some(&came[class].to_be_bytes()) {
                return Err(format!("{packet:?} came in place of packet {} of class {class}", came[class]));
            }
            came[class] += 1;
        }
    }
    // The last bulk packet, and what waited behind it, may be unsent.
    if came[1] + 1 < real_time || came[0] + 2 < bulk || real_time < 10 {
        return Err(format!("{came:?} packets came of {bulk} bulk and {real_time} real-time ones"));
    }
    Ok(Wait { longest: longest.as_secs_f64() / delay.as_secs_f64(), packets: came[1] as usize })
}

fn tagged(class: u8, number: u32, len: usize) -> Vec<u8> {
    let mut packet = vec![class; len.max(5)];
    packet[1..5].copy_from_slice(&number.to_be_bytes());
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantum_is_what_a_link_carries_in_the_delay_to_the_byte_and_no_wait_is_longer() {
        // 8 Mbit/s: a byte a microsecond.
        let (rate, delay) = (Rate::from_mbit(8), Span::from_micros(5000));
        assert!(is_carried(rate, Bytes::new(5000), delay));
        assert!(!is_carried(rate, Bytes::new(4999), delay) && !is_carried(rate, Bytes::new(5001), delay));
        assert!(!is_too_long(delay, delay) && is_too_long(Span::from_nanos(5_000_001), delay));
        assert_eq!(as_printed(), Ok(()));
    }
}
