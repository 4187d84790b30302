//! What a queue tells of itself and whom it makes pay, whatever its discipline.

use fairspan_core::buffer::{Bounds, Limit, PolicyConfig, Reason};
use fairspan_core::options::Family;
use fairspan_core::queue::{Admit, Config, DisciplineConfig, Fifo, Opaque, Parcel, Queue};
use fairspan_core::units::{FlowNumber, Time};

const NOW: Time = Time::ZERO;

fn queue(discipline: DisciplineConfig, limit: u32) -> Queue<Opaque<u32>> {
    let mut config = Config::default();
    (config.discipline, config.buffer, config.limit) = (discipline, PolicyConfig::LongestQueue, Limit::Packets(limit));
    Queue::new(&config, 1).unwrap()
}

fn put(queue: &mut Queue<Opaque<u32>>, flow: u32, size: u32) -> Admit<Opaque<u32>> {
    queue.enqueue(NOW, FlowNumber(flow), Opaque { packet: flow, size })
}

#[test]
fn whoever_waits_is_ready_at_once_and_nobody_is_when_nothing_waits() {
    for member in DisciplineConfig::MEMBERS {
        let mut queue = queue((member.plain)(), 9);
        assert_eq!((queue.next_ready(), queue.active_flows()), (None, 0), "{}", member.name);
        for flow in [1, 1, 2] {
            assert_eq!(put(&mut queue, flow, 100), Admit::Queued);
            assert_eq!(queue.next_ready(), Some(NOW), "{}", member.name);
        }
        let one_for_all = ["fifo", "dual"].contains(&member.name);
        assert_eq!(queue.active_flows(), if one_for_all { 1 } else { 2 }, "{}", member.name);
        while let Some(first) = queue.peek().map(|entry| (entry.flow, entry.packet)) {
            assert_eq!(queue.dequeue(NOW).map(|entry| (entry.flow, entry.packet)), Some(first), "{}", member.name);
        }
        assert_eq!((queue.next_ready(), queue.active_flows()), (None, 0), "{}", member.name);
    }
}

#[test]
fn who_comes_to_a_full_queue_without_flows_is_refused_and_elsewhere_the_longest_pays() {
    for member in DisciplineConfig::MEMBERS {
        let mut queue = queue((member.plain)(), 3);
        for flow in [1, 1, 1] {
            assert_eq!(put(&mut queue, flow, 100), Admit::Queued);
        }
        let admitted = put(&mut queue, 2, 100);
        let paid = queue.poll_dropped().map(|dropped| (dropped.flow.0, dropped.reason));
        if ["fifo", "dual"].contains(&member.name) {
            assert_eq!(
                (admitted, paid),
                (Admit::Refused(Opaque { packet: 2, size: 100 }, Reason::Full), None),
                "{}",
                member.name
            );
        } else {
            assert_eq!((admitted, paid), (Admit::Queued, Some((1, Reason::Longest))), "{}", member.name);
        }
    }
}

#[test]
fn a_flow_with_more_room_does_not_pay_before_others_that_have_less() {
    for name in [
        "round-robin",
        "drr",
        "wrr",
        "srr",
        "flow-queue",
        "rfq",
        "sfq",
        "scfq",
        "wfq",
        "virtual-clock",
        "delay-edd",
        "qfq",
        "hosts",
        "classes",
        "priority",
    ] {
        for (room, pays) in [(1, 1), (4, 2)] {
            let mut queue = queue(name.parse().unwrap(), 5);
            queue.set_room(FlowNumber(1), room);
            for flow in [1, 1, 1, 2, 2, 3] {
                assert_eq!(put(&mut queue, flow, 100), Admit::Queued);
            }
            let paid = queue.poll_dropped().map(|dropped| dropped.flow.0);
            assert_eq!(paid, Some(pays), "{name}, room of {room}");
        }
    }
}

/// A packet that takes three times as much memory as it has bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held(u32);

impl Parcel for Held {
    fn size(&self) -> u32 {
        self.0
    }

    fn memory(&self) -> u64 {
        u64::from(self.0) * 3
    }
}

fn fifo(buffer: PolicyConfig, bounds: Bounds) -> Queue<Held, Fifo<Held>> {
    Queue::fifo(buffer, bounds, 1)
}

#[test]
fn what_waits_is_told_in_packets_bytes_and_memory_however_it_came_and_went() {
    let mut queue = fifo(PolicyConfig::DropTail, Bounds::NONE);
    let told = |queue: &Queue<Held, Fifo<Held>>| (queue.packets(), queue.bytes(), queue.memory());
    for size in [10, 30, 20] {
        queue.insert(NOW, Held(size), |other| other.0 < size);
    }
    assert_eq!(told(&queue), (3, 60, 180));
    assert_eq!(queue.enqueue(NOW, FlowNumber(0), Held(100)), Admit::Queued);
    assert_eq!(told(&queue), (4, 160, 480));
    for (size, left) in [(10, (3, 150, 450)), (20, (2, 130, 390)), (30, (1, 100, 300)), (100, (0, 0, 0))] {
        assert_eq!(queue.dequeue(NOW).map(|entry| entry.packet), Some(Held(size)));
        assert_eq!(told(&queue), left);
    }
}

#[test]
fn a_packet_is_let_in_unasked_while_it_fits_and_the_policy_does_not_want_to_know() {
    let bounds = Bounds { packets: 2, bytes: 100, memory: 240 };
    let mut queue = fifo(PolicyConfig::DropTail, bounds);
    assert!(queue.is_passive());
    assert!(queue.lets_in(&Held(80)) && !queue.lets_in(&Held(81)), "three times 80 bytes of memory");
    assert_eq!(queue.enqueue(NOW, FlowNumber(0), Held(30)), Admit::Queued);
    assert!(queue.lets_in(&Held(50)) && !queue.lets_in(&Held(51)));
    queue.set_bounds(Bounds { memory: u64::MAX, ..bounds });
    assert_eq!(queue.bounds(), Bounds { memory: u64::MAX, ..bounds });
    assert!(queue.lets_in(&Held(70)) && !queue.lets_in(&Held(71)), "100 bytes in all");
    assert_eq!(queue.enqueue(NOW, FlowNumber(0), Held(70)), Admit::Queued);
    assert!(!queue.lets_in(&Held(1)), "two packets");
    assert_eq!(queue.enqueue(NOW, FlowNumber(0), Held(1)), Admit::Refused(Held(1), Reason::Full));

    let asking = fifo("red".parse().unwrap(), bounds);
    assert!(!asking.is_passive() && !asking.lets_in(&Held(1)));
}

#[test]
fn a_policy_that_goes_by_the_clock_hears_how_long_the_first_packet_has_waited() {
    // A millisecond each goes, and two come: the wait grows far beyond the target of 15 ms.
    let mut config = Config::default();
    (config.buffer, config.limit) = ("pi2".parse().unwrap(), Limit::Packets(100_000));
    let mut queue = Queue::new(&config, 1).unwrap();
    let mut refused = 0;
    for millis in 0..1000 {
        let now = Time::from_millis(millis);
        for number in 0..2 {
            refused +=
                u32::from(queue.enqueue(now, FlowNumber(0), Opaque { packet: number, size: 1000 }) != Admit::Queued);
        }
        assert!(queue.dequeue(now).is_some());
        while queue.poll_dropped().is_some() {
            refused += 1;
        }
    }
    assert!(refused > 0);
}
