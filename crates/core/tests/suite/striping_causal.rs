//! The causal disciplines against slow obvious models: claims striping.theorem-3.1, striping.srr-fairness, striping.fifo.

use fairspan_core::causal::{Causal, ChannelSet, FairQueue, Grr, LoadSharer, Resequencer, Rfq, Rr, Srr};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Bytes, ChannelId};
use proptest::prelude::*;

fn set_of(quanta: &[u64], max: u64) -> ChannelSet {
    ChannelSet::of(quanta, Bytes::new(max)).unwrap()
}

fn packets(lengths: &[usize]) -> Vec<Vec<u8>> {
    lengths
        .iter()
        .enumerate()
        .map(|(i, &len)| {
            let mut p = vec![0; len.max(4)];
            p[..4].copy_from_slice(&(i as u32).to_be_bytes());
            p
        })
        .collect()
}

/// Theorem 3.1: a load-sharing execution, read backwards, is a backlogged fair-queueing execution.
fn reversal<C: Causal + Clone>(discipline: C, packets: &[Vec<u8>]) {
    let mut sharer = LoadSharer::new(discipline.clone());
    let mut queues = FairQueue::new(discipline);
    let mut channels = vec![];
    for packet in packets {
        let channel = sharer.assign(packet);
        channels.push(channel);
        queues.enqueue(channel, packet.clone()).unwrap();
    }
    for (packet, channel) in packets.iter().zip(channels) {
        assert_eq!(queues.dequeue(), Some((channel, packet.clone())));
    }
    assert_eq!(queues.dequeue(), None);
}

/// Theorem 4.1: the same discipline at the receiver restores the order for any skew. Arrivals are any interleaving
/// that keeps each channel's order.
fn resequencing<C: Causal + Clone>(discipline: C, packets: &[Vec<u8>], rng: &mut Rng) {
    let mut sharer = LoadSharer::new(discipline.clone());
    let mut resequencer = Resequencer::new(discipline);
    let mut channels: Vec<std::collections::VecDeque<&Vec<u8>>> = vec![Default::default(); ChannelId::LIMIT];
    for packet in packets {
        channels[sharer.assign(packet).index()].push_back(packet);
    }
    let mut out = vec![];
    let mut weights: Vec<u64> = (0..ChannelId::LIMIT).map(|_| 1 + rng.below(1000)).collect();
    for _ in 0..packets.len() {
        // Channels run at unlike and changing speeds.
        let total: u64 = (0..ChannelId::LIMIT).filter(|&i| !channels[i].is_empty()).map(|i| weights[i]).sum();
        let mut x = rng.below(total);
        let i = (0..ChannelId::LIMIT)
            .filter(|&i| !channels[i].is_empty())
            .find(|&i| {
                let hit = x < weights[i];
                x = x.saturating_sub(weights[i]);
                hit
            })
            .unwrap();
        weights[i] = 1 + rng.below(1000);
        resequencer.handle(ChannelId(i as u8), channels[i].pop_front().unwrap().clone()).unwrap();
        out.extend(std::iter::from_fn(|| resequencer.poll()).map(|(_, p)| p));
    }
    assert_eq!(out, packets);
    assert!(resequencer.is_empty());
}

/// The body's form of the discipline, literally: counters start at 0, a channel that is picked gets its quantum.
struct BodySrr {
    quanta: Vec<i64>,
    deficit: Vec<i64>,
    at: usize,
}

impl BodySrr {
    fn new(quanta: &[u64]) -> BodySrr {
        let quanta: Vec<i64> = quanta.iter().map(|&q| q as i64).collect();
        let mut deficit = vec![0; quanta.len()];
        deficit[0] = quanta[0];
        BodySrr { quanta, deficit, at: 0 }
    }

    fn assign(&mut self, len: i64) -> usize {
        let channel = self.at;
        self.deficit[channel] -= len;
        if self.deficit[channel] <= 0 {
            self.at = (self.at + 1) % self.quanta.len();
            self.deficit[self.at] += self.quanta[self.at];
        }
        channel
    }
}

const MAX: usize = 1500;

fn quanta() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        3 => proptest::collection::vec(MAX as u64..30_000, 2..8),
        1 => proptest::collection::vec(MAX as u64..5000, 8..=64),
    ]
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        proptest::collection::vec(4usize..=MAX, 0..2000),
        proptest::collection::vec(prop_oneof![Just(4usize), Just(MAX)], 0..2000),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn load_sharing_backwards_is_backlogged_fair_queueing(quanta in quanta(), lengths in lengths(), seed: u64) {
        let set = set_of(&quanta, MAX as u64);
        let packets = packets(&lengths);
        reversal(Srr::new(&set).unwrap(), &packets);
        reversal(Rr::new(&set).unwrap(), &packets);
        reversal(Grr::new(&set).unwrap(), &packets);
        reversal(Rfq::new(&set, seed).unwrap(), &packets);
    }

    #[test]
    fn the_same_discipline_restores_the_order_for_any_skew(quanta in quanta(), lengths in lengths(), seed: u64) {
        let set = set_of(&quanta, MAX as u64);
        let packets = packets(&lengths);
        let mut rng = Rng::new(seed);
        resequencing(Srr::new(&set).unwrap(), &packets, &mut rng);
        resequencing(Rr::new(&set).unwrap(), &packets, &mut rng);
        resequencing(Grr::new(&set).unwrap(), &packets, &mut rng);
        resequencing(Rfq::new(&set, seed).unwrap(), &packets, &mut rng);
    }

    #[test]
    fn the_appendix_form_is_the_body_form(quanta in quanta(), lengths in lengths()) {
        let mut srr = Srr::new(&set_of(&quanta, MAX as u64)).unwrap();
        let mut body = BodySrr::new(&quanta);
        for len in lengths {
            prop_assert_eq!(srr.select().index(), body.assign(len as i64));
            srr.update(Bytes::from(len));
        }
    }

    #[test]
    fn after_any_k_rounds_bytes_are_within_one_largest_packet_of_k_quanta(quanta in quanta(), lengths in lengths()) {
        let set = set_of(&quanta, MAX as u64);
        let mut srr = Srr::new(&set).unwrap();
        let mut sent = vec![0i64; quanta.len()];
        let largest = lengths.iter().copied().max().unwrap_or(0) as i64;
        for len in lengths {
            let channel = srr.select();
            sent[channel.index()] += len as i64;
            srr.update(Bytes::from(len));
            if srr.select() != channel {
                // The channel's round has ended: lemma 3.2 in the appendix's form, theorem 3.3.
                let quantum = quanta[channel.index()] as i64;
                let k = i64::from(srr.round_of(channel)) - 1;
                let deficit = srr.deficit(channel);
                prop_assert!(quantum - largest < deficit && deficit <= quantum);
                prop_assert!((k * quantum - sent[channel.index()]).abs() < largest.max(1));
                prop_assert_eq!(sent[channel.index()], k * quantum - (deficit - quantum));
            }
        }
    }

    #[test]
    fn the_set_may_shrink_grow_and_change_quanta_between_rounds(
        sets in proptest::collection::vec(proptest::collection::btree_map(0u8..64, MAX as u64..9000, 1..20), 1..6), seed: u64
    ) {
        let sets: Vec<ChannelSet> = sets.iter().map(|m| {
            let pairs: Vec<_> = m.iter().map(|(&c, &q)| (ChannelId(c), Bytes::new(q))).collect();
            ChannelSet::new(&pairs, Bytes::new(MAX as u64)).unwrap()
        }).collect();
        let mut rng = Rng::new(seed);
        let mut srr = Srr::new(&sets[0]).unwrap();
        // The model keeps what each member has overdrawn; a round is each member in order.
        let mut debt = std::collections::BTreeMap::new();
        for (i, set) in sets.iter().enumerate() {
            if i > 0 {
                srr.adopt(set).unwrap();
                debt.retain(|c, _| set.contains(ChannelId(*c)));
            }
            for _ in 0..3 {
                for channel in set.channels() {
                    let mut used = debt.get(&channel.0).copied().unwrap_or(0);
                    while used < u64::from(set.quantum(channel)) {
                        prop_assert_eq!(srr.select(), channel);
                        let len = 1 + rng.below(MAX as u64);
                        srr.update(Bytes::new(len));
                        used += len;
                    }
                    debt.insert(channel.0, used - u64::from(set.quantum(channel)));
                }
            }
            prop_assert_eq!(srr.round(), 1 + 3 * (i as u32 + 1));
        }
    }
}
