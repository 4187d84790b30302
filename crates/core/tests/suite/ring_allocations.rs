//! Nodes of a ring allocate nothing for a packet, once their queues have been as long as they get.

use crate::ring_network::{Load, config, node};
use fairspan_core::ring::control::Reservation;
use fairspan_core::ring::node::{Config, HEAD, Node};
use fairspan_core::ring::{Class, Side};
use fairspan_core::units::{FlowNumber, Rate, Span, Time};

/// Three nodes whose links have no delay.
struct Triangle {
    nodes: [Node<Load>; 3],
    now: Time,
    delivered: u64,
    messages: u64,
}

impl Triangle {
    fn new(set: impl Fn(&mut Config)) -> Triangle {
        let nodes = [1, 2, 3].map(|n| {
            let mut config = config(n, 3, Rate::from_mbit(1000));
            set(&mut config);
            Node::new(config, Time::ZERO, n as u64).unwrap()
        });
        Triangle { nodes, now: Time::ZERO, delivered: 0, messages: 0 }
    }

    fn neighbour(n: usize, side: Side) -> usize {
        if side == Side::East { (n + 1) % 3 } else { (n + 2) % 3 }
    }

    fn drain(&mut self) {
        let now = self.now;
        let mut idle = 0;
        let mut n = 0;
        while idle < 3 {
            idle += 1;
            let mut frame = [0u8; 256];
            while let Some((side, bytes)) = self.nodes[n].poll_control(now) {
                let len = bytes.len();
                frame[..len].copy_from_slice(bytes);
                self.nodes[Triangle::neighbour(n, side)].handle_control(now, side.other(), &frame[..len]);
                self.messages += 1;
                idle = 0;
            }
            while let Some(sent) = self.nodes[n].poll_transmit(now) {
                let head: [u8; HEAD] = sent.head;
                self.nodes[Triangle::neighbour(n, sent.side)].handle_data(now, sent.side.other(), head, sent.packet);
                idle = 0;
            }
            while self.nodes[n].poll_deliver().is_some() {
                self.delivered += 1;
            }
            while self.nodes[n].poll_event().is_some() {}
            n = (n + 1) % 3;
        }
    }

    /// Packets of all classes, one each 7 us from every node: more than the ring carries.
    fn run(&mut self, span: Span) {
        let end = self.now + span;
        let mut number = 0;
        while self.now < end {
            self.now += Span::from_micros(1);
            for n in 0..3 {
                if self.nodes[n].poll_timeout().is_some_and(|time| time <= self.now) {
                    self.nodes[n].handle_timeout(self.now);
                }
                if number % 7 == n as u32 {
                    let class = [Class::A, Class::B, Class::C, Class::C][number as usize / 7 % 4];
                    let packet = Load { flow: 0, number, size: 1400 };
                    self.nodes[n].handle_station(self.now, node((n + 1) % 3 + 1), class, FlowNumber::default(), packet);
                    let ringlet = fairspan_core::ring::Ringlet::Zero;
                    self.nodes[n].handle_station_by(
                        self.now,
                        node((n + 2) % 3 + 1),
                        ringlet,
                        class,
                        FlowNumber::default(),
                        packet,
                    );
                }
            }
            number += 1;
            self.drain();
        }
    }
}

#[test]
fn packets_and_control_messages_allocate_nothing() {
    for algorithm in ["fifo", "dvsr", "dvsr:bits=8,suballocation=equal", "dba", "explicit", "rpr-am", "rpr-cm"] {
        let mut ring = Triangle::new(|config| {
            config.algorithm = algorithm.parse().unwrap();
            let reserve = |class, mbit| Reservation { to: None, class, rate: Rate::from_mbit(mbit) };
            config.reservations = vec![reserve(Class::A, 50), reserve(Class::B, 50)];
        });
        ring.run(Span::from_millis(100));
        let (delivered, messages) = (ring.delivered, ring.messages);
        let counted = allocation_counter::measure(|| ring.run(Span::from_millis(100)));
        let (delivered, messages) = (ring.delivered - delivered, ring.messages - messages);
        assert!(delivered > 10_000, "{algorithm}: {delivered}");
        assert_eq!(messages > 300, algorithm != "fifo", "{algorithm}: {messages}");
        assert_eq!(counted.count_total, 0, "{algorithm}: of {delivered} packets and {messages} messages");
    }
}
