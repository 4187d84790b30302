//! What a queue tells of itself and whom it makes pay, whatever its discipline.

use fairspan_core::buffer::{Limit, PolicyConfig, Reason};
use fairspan_core::options::Family;
use fairspan_core::queue::{Admit, Config, DisciplineConfig, Opaque, Queue};
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
