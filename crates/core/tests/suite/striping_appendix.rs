//! The receiver against appendix A, written down literally: the same arrivals, the same deliveries.

use fairspan_core::causal::{Causal, ChannelSet, Srr};
use fairspan_core::stripe::{Receiver, ReceiverConfig};
use fairspan_core::units::{Bytes, Time};
use fairspan_core::wire::marker::{Marker, Plan};
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Message {
    Data(Vec<u8>),
    Marker { round: i64, deficit: i64 },
}

/// Appendix A's receiver. Rounds grow without bound; each channel has its own.
struct Appendix {
    queue: Vec<VecDeque<Message>>,
    quantum: Vec<i64>,
    deficit: Vec<i64>,
    round: Vec<i64>,
    saved: Vec<i64>,
    rp: usize,
}

impl Appendix {
    fn advance(&mut self) {
        self.round[self.rp] += 1;
        self.rp = (self.rp + 1) % self.quantum.len();
    }

    fn poll(&mut self) -> Option<Vec<u8>> {
        loop {
            let rp = self.rp;
            match self.queue[rp].front()? {
                Message::Data(_) if self.saved[rp] <= self.round[rp] => {
                    let Some(Message::Data(p)) = self.queue[rp].pop_front() else { unreachable!() };
                    self.deficit[rp] -= p.len() as i64;
                    if self.deficit[rp] <= 0 {
                        self.deficit[rp] += self.quantum[rp];
                        self.advance();
                    }
                    return Some(p);
                }
                Message::Data(_) => self.advance(), // Skipline
                &Message::Marker { round, deficit } => {
                    self.queue[rp].pop_front();
                    self.deficit[rp] = deficit;
                    self.saved[rp] = round;
                    if self.saved[rp] > self.round[rp] {
                        self.advance();
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_receiver_delivers_what_the_appendix_delivers(
        quanta in proptest::collection::vec(1500u64..9000, 2..12),
        // Of each packet: its length, whether it is lost, whether markers follow it, and whether each of those is lost.
        packets in proptest::collection::vec((8usize..1500, 0u8..100, 0u8..100), 1..800),
        loss in 0u8..80, marker_rate in 1u8..20, seed: u64
    ) {
        let set = ChannelSet::of(&quanta, Bytes::new(1500)).unwrap();
        let n = quanta.len();
        let quantum: Vec<i64> = quanta.iter().map(|&q| q as i64).collect();
        let mut rng = fairspan_core::rng::Rng::new(seed);
        let mut appendix = Appendix {
            queue: vec![VecDeque::new(); n], deficit: quantum.clone(), round: vec![1; n], saved: vec![1; n], quantum, rp: 0,
        };
        let mut receiver: Receiver<Vec<u8>> = Receiver::new(ReceiverConfig::default());
        for channel in set.channels() {
            let set = set.clone();
            receiver.handle_plan(Time::ZERO, channel, &Plan { epoch: 1, channel, generation: 1, base: 1, start: 1, set, dead: 0 });
        }
        let mut srr = Srr::new(&set).unwrap();
        let mut sent = vec![(0u32, 0u32); n];
        let (mut ours, mut theirs) = (vec![], vec![]);
        for (number, &(len, dice, marker_dice)) in packets.iter().enumerate() {
            let channel = srr.select();
            let mut packet = vec![0; len];
            packet[..8].copy_from_slice(&(number as u64).to_be_bytes());
            sent[channel.index()].0 += len as u32;
            sent[channel.index()].1 += 1;
            if dice >= loss {
                appendix.queue[channel.index()].push_back(Message::Data(packet.clone()));
                receiver.handle_data(Time::ZERO, channel, packet);
            }
            srr.update(Bytes::from(len));
            for channel in set.channels().filter(|_| marker_dice < marker_rate) {
                if rng.below(100) < u64::from(loss) {
                    continue;
                }
                let (round, deficit) = (srr.round_of(channel), srr.deficit(channel));
                appendix.queue[channel.index()].push_back(Message::Marker { round: i64::from(round), deficit });
                receiver.handle_marker(Time::ZERO, channel, &Marker {
                    epoch: 1, channel, generation: 1, round, deficit: deficit as i32, quantum: set.quantum(channel),
                    passed: srr.passed(channel), ask: false,
                    sent_bytes: sent[channel.index()].0, sent_packets: sent[channel.index()].1, grant: None,
                });
            }
            // Sometimes all that arrived is read at once, sometimes it waits.
            if rng.below(3) == 0 {
                theirs.extend(std::iter::from_fn(|| appendix.poll()));
                ours.extend(std::iter::from_fn(|| receiver.poll_deliver()));
            }
        }
        theirs.extend(std::iter::from_fn(|| appendix.poll()));
        ours.extend(std::iter::from_fn(|| receiver.poll_deliver()));
        // Ours also passes a channel whose saved round is ahead while its queue is empty, so it may be further on; what
        // both delivered is the same.
        prop_assert!(ours.len() >= theirs.len());
        prop_assert!(ours.starts_with(&theirs));
        prop_assert_eq!(receiver.stats().ahead, 0);
        let lost = packets.iter().filter(|p| p.1 < loss).count();
        prop_assert_eq!(ours.len() as u64 + receiver.buffered_packets() + lost as u64, packets.len() as u64);
    }
}
