//! Section 3.5: with one path EFL-MP's receiver is TCP's.

use crate::claims::{Answer, Bench};
use fairspan_core::arq::{Config, Header, Kind, Receiver, Seq};
use fairspan_core::rng::Rng;
use fairspan_core::units::{ChannelId, Span, Time};
use std::collections::VecDeque;

const CASES: u32 = 2000;
const PACKETS: u32 = 400;

/// Random streams with gaps, repetitions and wraps through core's receiver of one path and through Figure 8.
pub(crate) fn reduces_to_tcp(bench: &mut Bench) -> anyhow::Result<Answer> {
    Ok(match bench.cases(CASES, |_, rng| compare(rng)) {
        Ok(cases) => Answer::statement(
            true,
            format!(
                "{cases} random streams of {PACKETS} packets: the same deliveries, delayed and immediate ACKs as Figure 8"
            ),
        ),
        Err(problem) => Answer::statement(false, problem),
    })
}

fn compare(rng: &mut Rng) -> Result<(), String> {
    let first = rng.next_u64() as u32;
    let mut config = Config::default();
    config.reorder_packets = PACKETS as usize;
    let mut receiver = Receiver::new(&config, 1, Seq(first));
    // Figure 8: its queue and nextSEQ.
    let (mut queue, mut next) = (VecDeque::new(), first);
    let mut sent = first.wrapping_sub(1);
    for number in 0..PACKETS {
        let now = Time::from_nanos(1000 * u64::from(number + 1));
        sent = match rng.below(10) {
            0 => next,
            1 => next.wrapping_sub(rng.below(5) as u32),
            2 => sent.wrapping_add(2),
            _ => sent.wrapping_add(1),
        };
        let header = Header {
            kind: Kind::Data,
            restart: 0,
            path: ChannelId(0),
            seq: Seq(sent),
            sent: now,
            held: Span::ZERO,
            received: Time::ZERO,
            rtt: Span::ZERO,
            stream: 0,
            opening: true,
            missing: (Seq(0), 0),
            covers: 0,
            row: 0,
        };
        // What it drops, Figure 8 discards.
        let _ = receiver.handle_packet(now, ChannelId(0), &header, sent);
        let picked: Vec<u32> = std::iter::from_fn(|| receiver.poll_deliver()).collect();
        let acks: Vec<Header> = std::iter::from_fn(|| receiver.poll_ack(now)).collect();
        queue.push_back(sent);
        let mut expected = Vec::new();
        while queue.front() == Some(&next) {
            expected.extend(queue.pop_front());
            next = next.wrapping_add(1);
        }
        while queue.front().is_some_and(|head: &u32| (head.wrapping_sub(next) as i32) < 0) {
            queue.pop_front();
        }
        if picked != expected {
            return Err(format!("packet {number}: picked {picked:?}, Figure 8 picks {expected:?}"));
        }
        let last = Seq(next.wrapping_sub(1));
        let immediate = acks.iter().any(|ack| ack.seq == last);
        let delayed = receiver.poll_timeout().is_some() || immediate;
        if (expected.is_empty() && !immediate) || (!expected.is_empty() && !delayed) {
            return Err(format!("packet {number}: Figure 8 picks {expected:?}; the ACKs were {acks:?}"));
        }
        if !expected.is_empty() && acks.iter().any(|ack| ack.kind == Kind::Request) {
            return Err(format!("packet {number}: a retransmission was asked for although packets were picked"));
        }
    }
    Ok(())
}
