//! The shaper in virtual time.

use super::*;
use crate::buffer::PolicyConfig;
use crate::options::Family;
use crate::queue::DisciplineConfig;
use crate::rng::Rng;
use crate::units::Rate;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

/// A frame: its flow, its number in it, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packet {
    flow: u32,
    number: u64,
    len: u32,
}

impl Parcel for Packet {
    fn size(&self) -> u32 {
        self.len
    }

    fn memory(&self) -> u64 {
        if self.len <= 256 { 256 } else { 1664 }
    }
}

fn named(packet: &Packet) -> Label {
    let mac = crate::wire::mac::Mac([0; 6]);
    Label::Ethernet { ether_type: packet.flow as u16, source: mac, destination: mac }
}

fn offer(shaper: &mut Shaper<Packet>, now: Time, flow: u32, number: u64, len: u32) {
    shaper.handle_packet(now, FlowNumber(flow), Packet { flow, number, len }, named);
}

fn config(rate: Rate, discipline: &str, buffer: &str) -> Config {
    let mut config = Config::new(rate);
    (config.discipline, config.buffer) = (discipline.parse().expect("a discipline"), buffer.parse().expect("a policy"));
    config
}

#[test]
fn a_packet_counts_what_the_link_makes_of_it() {
    let mut config = Config::new(Rate::from_mbit(1));
    assert_eq!(config.counted(1514), 1514, "on Ethernet a frame as it is");
    // tc-cake(8): docsis is overhead 18, mpu 64.
    (config.overhead, config.min_packet) = (18, 64);
    assert_eq!((config.counted(14 + 40), config.counted(14 + 1500)), (64, 1518));
    // And pppoe-llcsnap is overhead 40 in cells: an acknowledgment takes two of them, a full packet 33.
    (config.overhead, config.min_packet, config.atm) = (40, 0, true);
    assert_eq!((config.counted(14 + 40), config.counted(14 + 1492)), (2 * 53, 32 * 53));
    assert_eq!(config.counted(14 + 1500), 33 * 53);
    assert_eq!(config.counted(3), 53, "what is no frame counts all the same");
}

#[test]
fn an_idle_link_takes_a_packet_at_once_and_saves_up_nothing() {
    let mut shaper = Shaper::new(config(Rate::from_mbit(8), "drr", "pfd-adaptive"), 1).expect("good");
    assert_eq!(shaper.poll_timeout(), None);
    let later = Time::from_millis(60_000);
    for number in 0..3 {
        offer(&mut shaper, later, 1, number, 1000);
    }
    assert!(shaper.poll_transmit(later).is_some() && shaper.poll_transmit(later).is_none());
    assert_eq!(shaper.poll_timeout(), Some(later + Span::from_millis(1)), "a byte takes a microsecond");
    let due = later + Span::from_millis(1);
    assert!(shaper.poll_transmit(due).is_some() && shaper.poll_transmit(due).is_none());
}

#[test]
fn a_driver_that_is_late_finds_what_would_have_gone_up_to_ten_milliseconds() {
    let mut shaper = Shaper::new(config(Rate::from_mbit(8), "fifo", "drop-tail"), 1).expect("good");
    for number in 0..90 {
        offer(&mut shaper, Time::ZERO, 1, number, 1000);
    }
    let mut sent = |now| std::iter::from_fn(|| shaper.poll_transmit(now)).count();
    assert_eq!(sent(Time::ZERO), 1);
    assert_eq!(sent(Time::from_millis(5)), 5, "due at 1, 2, 3, 4 and 5 ms");
    assert_eq!(sent(Time::from_millis(55)), 11, "no more than ten milliseconds' worth, and one");
}

proptest! {
    /// A driver that comes up to 9 ms late: with something waiting all the time, what leaves is the rate.
    #[test]
    fn what_leaves_is_the_rate_however_late_the_driver_comes(
        kbit in 500u64..2_000_000, seed in any::<u64>(), discipline in 0..DisciplineConfig::MEMBERS.len(),
    ) {
        let rate = Rate::from_bits_per_sec(kbit * 1000);
        let config = Config { discipline: (DisciplineConfig::MEMBERS[discipline].plain)(), ..Config::new(rate) };
        let mut shaper = Shaper::new(config, seed).expect("good");
        let mut rng = Rng::new(seed);
        let (mut now, mut number) = (Time::ZERO, 0);
        let mut refill = |shaper: &mut Shaper<Packet>, now| while shaper.waiting().1.as_u64() < 20_000.max(rate.bytes_in(Span::from_millis(12)).as_u64()) {
            number += 1;
            let before = shaper.stats().dropped.iter().sum::<u64>();
            offer(shaper, now, number as u32 % 3, number, 60 + rng.next_u64() as u32 % 1400);
            if shaper.stats().dropped.iter().sum::<u64>() > before + 50 { break }
        };
        refill(&mut shaper, now);
        let mut most: u64 = 0;
        for late in [0, 9, 1, 0, 5, 9, 0, 0, 3, 7, 2, 8] {
            now = shaper.poll_timeout().expect("something waits").max(now) + Span::from_millis(late);
            while let Some(packet) = shaper.poll_transmit(now) {
                most = most.max(u64::from(packet.len));
                refill(&mut shaper, now);
            }
            let (sent, could) = (shaper.stats().sent_bytes, rate.bytes_in(now.since(Time::ZERO)).as_u64());
            // One packet is under way; a tick may have passed before a wake-up, and times are whole nanoseconds.
            prop_assert!(sent <= could + most + 30, "{sent} sent where {could} could be");
            prop_assert!(sent + most + 30 >= could, "{sent} sent where {could} could be");
        }
    }

    #[test]
    fn with_every_discipline_and_policy_what_came_is_what_left_was_dropped_or_waits_and_memory_is_bounded(
        discipline in 0..DisciplineConfig::MEMBERS.len(), policy in 0..PolicyConfig::MEMBERS.len(),
        seed in any::<u64>(), packets in proptest::collection::vec((0u32..40, 60u32..1515, 0u64..400), 1..400),
    ) {
        let mut config = Config::new(Rate::from_mbit(2));
        config.discipline = (DisciplineConfig::MEMBERS[discipline].plain)();
        config.buffer = (PolicyConfig::MEMBERS[policy].plain)();
        let mut shaper = Shaper::new(config, seed).expect("good");
        let (mut now, mut left, mut last) = (Time::ZERO, 0u64, BTreeMap::new());
        for (number, (flow, len, pause)) in packets.iter().enumerate() {
            now += Span::from_micros(*pause);
            offer(&mut shaper, now, *flow, number as u64, *len);
            while let Some(packet) = shaper.poll_transmit(now) {
                left += 1;
                // A flow's packets keep their order.
                prop_assert!(last.insert(packet.flow, packet.number) < Some(packet.number));
            }
            let (waiting, bytes) = shaper.waiting();
            let Stats { received, sent, dropped, .. } = *shaper.stats();
            prop_assert_eq!((received, sent), (number as u64 + 1, left));
            prop_assert_eq!(received, sent + dropped.iter().sum::<u64>() + waiting as u64);
            prop_assert!(bytes.as_u64() <= LEAST_ROOM, "{} bytes wait", bytes.as_u64());
            let flows = shaper.accounts().heaviest(now, usize::MAX);
            let (lost, held) = flows.iter().fold((0, 0), |(lost, held), f| (lost + f.dropped, held + f.waiting as usize));
            prop_assert_eq!((lost, held), (dropped.iter().sum::<u64>(), waiting));
            prop_assert_eq!(flows.iter().map(|flow| flow.bytes).sum::<u64>(), shaper.stats().sent_bytes);
        }
    }
}

/// What a call waited, and what each download got: a link of 10 Mbit/s, ten downloads that always have 60 packets under way (a
/// round trip of 20 ms without queue, what is dropped comes again after one), and a call of 50 packets of 200 bytes a second.
fn beside_downloads(discipline: &str, buffer: &str) -> (Vec<Span>, Vec<u64>, Shaper<Packet>) {
    const DOWNLOADS: u32 = 10;
    let mut shaper = Shaper::new(config(Rate::from_mbit(10), discipline, buffer), 7).expect("good");
    let round_trip = Span::from_millis(20);
    let mut coming: BTreeMap<(Time, u32, u64), u32> = BTreeMap::new();
    let mut number = 0;
    for flow in 1..=DOWNLOADS {
        for n in 0..60 {
            number += 1;
            coming.insert((Time::from_nanos(n * 331_000 + u64::from(flow)), flow, number), 1514);
        }
    }
    let call = |n: u64| (Time::from_millis(3) + Span::from_millis(20).times(n), 0, n);
    coming.extend((0..500).map(|n| (call(n), 200)));
    let (mut waits, mut got) = (Vec::new(), std::vec![0u64; DOWNLOADS as usize]);
    let mut now = Time::ZERO;
    while now < Time::from_millis(10_000) {
        let next = coming.first_key_value().map(|((at, ..), _)| *at);
        now = [next, shaper.poll_timeout()].into_iter().flatten().min().expect("there is always more").max(now);
        while let Some(entry) = coming.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((_, flow, n), len) = entry.remove_entry();
            let before = shaper.stats().dropped.iter().sum::<u64>();
            offer(&mut shaper, now, flow, n, len);
            // Who lost it does not matter to the sum: a download sends another one.
            for _ in before..shaper.stats().dropped.iter().sum::<u64>() {
                number += 1;
                coming.insert((now + round_trip, flow.max(1), number), 1514);
            }
        }
        while let Some(packet) = shaper.poll_transmit(now) {
            if packet.flow == 0 {
                waits.push(now.since(call(packet.number).0));
            } else {
                got[packet.flow as usize - 1] += u64::from(packet.len);
                number += 1;
                coming.insert((now + round_trip, packet.flow, number), 1514);
            }
        }
    }
    waits.sort_unstable();
    (waits, got, shaper)
}

#[test]
fn a_call_beside_ten_downloads_waits_for_a_turn_of_each_at_most_and_not_for_the_whole_queue() {
    let (fifo, ..) = beside_downloads("fifo", "drop-tail");
    let median = fifo[fifo.len() / 2];
    assert!(median > Span::from_millis(90), "first in, first out, the call waits behind the whole queue: {median:?}");
    // A full packet takes 1.2 ms: ten of them, and the one that is being sent.
    let mut wrong = Vec::new();
    for (discipline, most) in [("drr", 15), ("srr", 15), ("sfq", 15), ("flow-queue", 3)] {
        for buffer in ["pfd-adaptive", "longest-queue", "codel"] {
            let (waits, got, shaper) = beside_downloads(discipline, buffer);
            let (heard, worst) = (waits.len(), waits[waits.len() * 99 / 100]);
            let index = crate::flow::accounts::jain(got.iter().map(|bytes| *bytes as f64));
            // What the accounts tell is what was seen. First packets of downloads are sparse too, where a policy has emptied their
            // queues; a full one may need two turns.
            let told = shaper.accounts().summary(Time::from_millis(10_001));
            let sparse = told.sparse.p99.expect("a call");
            let good = worst <= Span::from_millis(most)
                && heard >= 495
                && index > 0.98
                && told.active == 11
                && told.backlogged_jain.is_some_and(|index| index > 0.98)
                && (buffer == "codel" || (told.backlogged == 10 && sparse <= Span::from_millis(30)));
            if !good {
                wrong.push(std::format!("{discipline}, {buffer}: 99 % {worst:?}, {heard} heard, {index}, {told:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_waits_survives_a_change_of_every_setting() {
    let mut shaper = Shaper::new(config(Rate::from_mbit(8), "drr", "pfd-adaptive"), 1).expect("good");
    let now = Time::from_millis(1);
    for number in 0..20 {
        offer(&mut shaper, now, number as u32 % 4, number, 1000);
    }
    let mut other = config(Rate::from_mbit(80), "fifo", "drop-tail");
    (other.queue, other.overhead) = (Span::from_millis(500), 38);
    shaper.reconfigure(now, other).expect("good");
    assert_eq!((shaper.config().rate, shaper.waiting().0), (Rate::from_mbit(80), 20));
    let (mut left, mut at) = (Vec::new(), now);
    while let Some(due) = shaper.poll_timeout() {
        at = due;
        left.extend(std::iter::from_fn(|| shaper.poll_transmit(due)));
    }
    assert_eq!(left.len(), 20);
    for flow in 0..4 {
        let numbers: Vec<u64> = left.iter().filter(|packet| packet.flow == flow).map(|packet| packet.number).collect();
        assert_eq!(numbers.len(), 5);
        assert!(numbers.is_sorted());
    }
    // 20,000 bytes at 10 bytes a microsecond; woken every 100 us at most.
    assert!(at.since(now) <= Span::from_micros(2100), "{at:?}");
    // A discipline that cannot work changes nothing.
    let mut wrong = config(Rate::from_mbit(1), "drr", "drop-tail");
    wrong.discipline = DisciplineConfig::Drr { quantum: Bytes::ZERO };
    assert!(shaper.reconfigure(at, wrong).is_err());
    assert_eq!(shaper.config().rate, Rate::from_mbit(80));
}

#[test]
fn memory_is_bounded_whatever_the_rate_and_the_settings() {
    // Ten seconds at 100 Gbit/s would be 125 GB.
    let mut config = config(Rate::from_mbit(100_000), "drr", "longest-queue");
    config.queue = Span::from_secs(10);
    let mut shaper = Shaper::new(config, 1).expect("settings that work");
    let frames = 2 * MOST_MEMORY / 1664;
    (0..frames).for_each(|n| offer(&mut shaper, Time::ZERO, (n % 7) as u32, n, 1514));
    let (waiting, _) = shaper.waiting();
    let held = waiting as u64 * 1664;
    assert!(held <= MOST_MEMORY && held > MOST_MEMORY - 10_000, "{held} of {MOST_MEMORY}");
    let stats = shaper.stats();
    assert_eq!(stats.received, stats.sent + stats.dropped.iter().sum::<u64>() + waiting as u64);
}
