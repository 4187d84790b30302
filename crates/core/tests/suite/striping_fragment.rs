//! Fragments over a bundle of unlike links: claim striping.quantum-from-delay, and RFC 1990's rules of loss.

use fairspan_core::causal::{Causal, Srr};
use fairspan_core::rng::Rng;
use fairspan_core::stripe::fragment::{Class, Fragmenter, HEADER_LEN, Reassembler, ReassemblerConfig};
use fairspan_core::stripe::quanta;
use fairspan_core::units::{Bytes, ChannelId, Rate, Span, Time};
use proptest::prelude::*;
use std::collections::VecDeque;

/// A FIFO link that serialises, with the frames in its transmit queue and those that have left it.
struct Link {
    rate: Rate,
    delay: Span,
    loss: f64,
    /// End of transmission of each queued frame, its length, its class.
    queue: VecDeque<(Time, u64, Class)>,
    free: Time,
    flying: VecDeque<(Time, Vec<u8>)>,
    /// Fragments with content that were lost.
    lost: u64,
}

impl Link {
    /// Bytes that have not left the queue at `now`.
    fn backlog(&mut self, now: Time) -> u64 {
        while self.queue.front().is_some_and(|&(end, ..)| end <= now) {
            self.queue.pop_front();
        }
        self.queue.iter().map(|&(_, len, _)| len).sum()
    }
}

fn packet(tag: u8, number: u32, len: usize) -> Vec<u8> {
    let mut p = vec![tag; len.max(5)];
    p[1..5].copy_from_slice(&number.to_be_bytes());
    for (i, b) in p.iter_mut().enumerate().skip(5) {
        *b = (i as u32).wrapping_mul(31).wrapping_add(number) as u8;
    }
    p
}

struct Outcome {
    bulk: Vec<u32>,
    real_time: Vec<u32>,
    /// The longest that a real-time packet waited, from its arrival until its first byte left.
    longest_wait: Span,
    discarded: u64,
    /// Fragments with content that the links lost.
    lost: u64,
    left: Bytes,
}

/// Sends bulk packets all the time and a real-time packet every 50 ms (so that none waits for another), over links whose queues are kept within their
/// quanta.
fn run(rates: &[u64], delays_ms: &[u64], fragment_delay: Span, loss: f64, seed: u64) -> Outcome {
    let rates: Vec<_> =
        rates.iter().enumerate().map(|(i, &r)| (ChannelId(i as u8), Rate::from_bits_per_sec(r * 1000))).collect();
    let (set, largest) = quanta::from_fragment_delay(&rates, fragment_delay, Bytes::new(64)).unwrap();
    let mut srr = Srr::new(&set).unwrap();
    let mut fragmenter: Fragmenter<Vec<u8>> = Fragmenter::new(largest, Bytes::new(1 << 20));
    let mut reassembler: Reassembler<Vec<u8>> = Reassembler::new(ReassemblerConfig::default(), set.mask());
    let mut links: Vec<Link> = rates
        .iter()
        .zip(delays_ms)
        .map(|(&(_, rate), &d)| Link {
            rate,
            delay: Span::from_millis(d),
            loss,
            queue: VecDeque::new(),
            free: Time::ZERO,
            flying: VecDeque::new(),
            lost: 0,
        })
        .collect();
    let mut rng = Rng::new(seed);
    let mut out =
        Outcome { bulk: vec![], real_time: vec![], longest_wait: Span::ZERO, discarded: 0, lost: 0, left: Bytes::ZERO };
    let (mut bulk, mut real_time) = (0, 0);
    let mut pushed = VecDeque::new();
    let end = 1500u64;
    for tick in 0..(end + 500) * 4 {
        let now = Time::from_nanos(tick * 250_000);
        let over = tick >= end * 4;
        while !over && fragmenter.next_len().is_none() {
            fragmenter.push(Class::Bulk, packet(0, bulk, 200 + rng.below(1300) as usize)).unwrap();
            bulk += 1;
        }
        if !over && tick % 200 == 0 {
            fragmenter
                .push(Class::RealTime, packet(1, real_time, 40 + rng.below(largest.as_u64() - 44) as usize))
                .unwrap();
            pushed.push_back(now);
            real_time += 1;
        }
        while let Some(len) = fragmenter.next_len() {
            let channel = srr.select();
            let link = &mut links[channel.index()];
            let backlog = link.backlog(now);
            if backlog + len.as_u64() > u64::from(set.quantum(channel)) {
                break;
            }
            let mut frame = vec![];
            let class = fragmenter.poll(&mut frame).unwrap();
            assert_eq!(Bytes::from(frame.len()), len);
            assert!(len <= largest);
            if class == Class::RealTime {
                out.longest_wait = out.longest_wait.max(link.free.max(now).since(pushed.pop_front().unwrap()));
            }
            srr.update(len);
            transmit(link, now, frame, class, &mut rng);
        }
        // Once there is nothing more to say, null fragments tell what was lost.
        if over && tick % 40 == 0 && fragmenter.next_len().is_none() {
            for link in &mut links {
                for class in [Class::Bulk, Class::RealTime] {
                    let mut frame = vec![];
                    assert!(fragmenter.null(class, &mut frame));
                    transmit(link, now, frame, class, &mut rng);
                }
            }
        }
        for (i, link) in links.iter_mut().enumerate() {
            while link.flying.front().is_some_and(|&(t, _)| t <= now) {
                let (_, frame) = link.flying.pop_front().unwrap();
                reassembler.handle(ChannelId(i as u8), &frame).unwrap();
            }
        }
        while let Some(p) = reassembler.poll() {
            let number = u32::from_be_bytes(p[1..5].try_into().unwrap());
            assert_eq!(p, packet(p[0], number, p.len()), "a packet is whole or not there");
            if p[0] == 0 { out.bulk.push(number) } else { out.real_time.push(number) }
        }
    }
    out.discarded = reassembler.stats().lost + reassembler.stats().discarded;
    out.left = reassembler.buffered();
    out.lost = links.iter().map(|link| link.lost).sum();
    if loss == 0.0 {
        assert_eq!((out.bulk.len(), out.real_time.len()), (bulk as usize, real_time as usize));
    }
    out
}

fn transmit(link: &mut Link, now: Time, frame: Vec<u8>, class: Class, rng: &mut Rng) {
    let len = frame.len() as u64;
    link.free = link.free.max(now) + link.rate.transmit_time(Bytes::new(len));
    link.queue.push_back((link.free, len, class));
    if rng.unit() < link.loss {
        link.lost += u64::from(len > HEADER_LEN as u64);
    } else {
        link.flying.push_back((link.free + link.delay, frame));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_real_time_packet_waits_at_most_the_fragment_delay(
        rates in proptest::collection::vec(128u64..3000, 1..5), delays in proptest::collection::vec(0u64..40, 5),
        delay_ms in 10u64..40, seed: u64
    ) {
        let delay = Span::from_millis(delay_ms);
        let out = run(&rates, &delays, delay, 0.0, seed);
        // The tick of the test's clock is 0.25 ms. And the bound is no empty one: links are kept busy.
        prop_assert!(out.longest_wait <= delay + Span::from_micros(250), "{:?} of {delay:?}", out.longest_wait);
        prop_assert!(out.longest_wait.times(4) >= delay, "{:?} of {delay:?}", out.longest_wait);
        prop_assert!(out.bulk.iter().copied().eq(0..out.bulk.len() as u32));
        prop_assert!(out.real_time.iter().copied().eq(0..out.real_time.len() as u32));
        prop_assert_eq!(out.discarded, 0);
    }

    #[test]
    fn losses_cost_their_own_packets_and_never_the_order_or_the_flow(
        rates in proptest::collection::vec(256u64..3000, 1..5), delays in proptest::collection::vec(0u64..40, 5),
        loss in 0.01f64..0.5, seed: u64
    ) {
        let out = run(&rates, &delays, Span::from_millis(30), loss, seed);
        prop_assert!(out.bulk.windows(2).all(|w| w[0] < w[1]));
        prop_assert!(out.real_time.windows(2).all(|w| w[0] < w[1]));
        prop_assert!(out.discarded >= out.lost, "{} of {} lost fragments were noticed", out.discarded, out.lost);
        prop_assert_eq!(out.left, Bytes::ZERO, "nothing waits for ever");
        // A whole packet is one frame in class 1: about 1 - loss of the 30 arrive (within five standard deviations).
        let expected = 30.0 * (1.0 - loss);
        let got = out.real_time.len() as f64;
        prop_assert!((got - expected).abs() <= 5.0 * (30.0 * loss * (1.0 - loss)).sqrt() + 1.0, "{got} of {expected}");
    }
}
