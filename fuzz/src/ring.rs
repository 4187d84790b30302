//! Packet rings: the codecs, and a node whose neighbours and station do as they like.

use fairspan_core::ring::algorithm::ALGORITHMS;
use fairspan_core::ring::control::{Heard, Keepalive, Kind, Message, begin, open, seal};
use fairspan_core::ring::frame::Head;
use fairspan_core::ring::node::{Config, Node};
use fairspan_core::ring::protection::Protection;
use fairspan_core::ring::{Class, NodeId, Ringlet, Side, discovery};
use fairspan_core::units::{FlowNumber, Rate, Span, Time};

/// The heads of data frames and the messages of control frames: what decodes must encode to the same bytes. The bytes are
/// a frame as it is, and a body of each kind that is sealed first.
pub fn ring_control(data: &[u8]) {
    if let Some(Ok(head)) = data.first_chunk().map(|head| Head::decode(*head)) {
        assert_eq!(head.encode(), data[..6]);
    }
    let message = |frame: &[u8]| open(frame).and_then(|(kind, node, body)| Message::decode(kind, node, body));
    let _ = message(data);
    let Some((node, body)) = data.split_first() else { return };
    let Some(node) = NodeId::new(*node) else { return };
    for kind in [Kind::Fairness, Kind::Report, Kind::Keepalive] {
        let mut frame = vec![];
        begin(&mut frame, kind, node);
        frame.extend_from_slice(&body[..body.len().min(2000)]);
        seal(&mut frame);
        assert!(open(&frame).is_ok());
        let mut again = vec![];
        match message(&frame) {
            Ok(Message::Keepalive(message)) => message.encode(&mut again),
            Ok(Message::Report(report)) => report.encode(&mut again),
            Err(_) => continue,
        }
        assert_eq!(again, frame);
    }
}

/// A node of a ring of eight. The first two bytes choose its algorithm and its protection; then steps of a byte: the side in
/// the lowest bit, and what happens there. Packets are counted throughout, and what is due is done.
pub fn ring_node(data: &[u8]) {
    let [algorithm, choice, rest @ ..] = data else { return };
    let (mut rest, nodes) = (rest, 8);
    let mut config = Config::new(NodeId::at(0), nodes, Rate::from_mbit(100));
    config.algorithm = ALGORITHMS[usize::from(*algorithm) % ALGORITHMS.len()].plain();
    config.protection = if choice & 1 == 0 { Protection::Steer } else { Protection::Wrap };
    if choice & 2 == 0 {
        config.discovery = Some(discovery::Config::new(config.node, nodes, config.nominal));
    }
    let (mut now, mut told, mut number) = (Time::ZERO, [None; 2], 1000);
    let mut node: Node<Vec<u8>> = Node::new(config, now, u64::from(*choice)).expect("valid settings");
    for side in Side::BOTH {
        node.set_link(now, side, true);
    }
    while let [step, after @ ..] = rest {
        let side = Side::BOTH[usize::from(step & 1)];
        let mut take = |most: usize| {
            let (taken, after) = rest.split_at(most.min(rest.len()));
            rest = after;
            taken
        };
        take(1);
        let first = after.first().copied().unwrap_or(0);
        let class = [Class::A, Class::B, Class::C][usize::from(first >> 4) % 3];
        match step >> 1 {
            kind @ 0..32 => {
                let [of, length] = *take(2) else { break };
                let Some(of) = NodeId::new(of) else { continue };
                let mut frame = vec![];
                begin(&mut frame, [Kind::Fairness, Kind::Report, Kind::Keepalive][usize::from(kind) % 3], of);
                frame.extend_from_slice(take(usize::from(length)));
                seal(&mut frame);
                node.handle_control(now, side, &frame);
            }
            32..48 => {
                take(1);
                node.handle_control(now, side, take(usize::from(first)));
            }
            48..72 => {
                let Ok(head) = take(6).try_into() else { break };
                node.handle_data(now, side, head, vec![0; 9 * usize::from(step >> 1)]);
            }
            many @ 72..96 => {
                take(1);
                let to = NodeId::at(usize::from(first & 15));
                for _ in 0..many - 71 {
                    if first & 128 == 0 {
                        node.handle_station(now, to, class, FlowNumber::default(), vec![0; 1000]);
                    } else {
                        node.handle_station_by(
                            now,
                            to,
                            Ringlet::BOTH[usize::from(step & 1)],
                            class,
                            FlowNumber::default(),
                            vec![0; 100],
                        );
                    }
                }
            }
            tenths @ 96..112 => {
                let until = now + Span::from_micros(100 * u64::from(tenths - 95) * u64::from(tenths - 95));
                while let Some(due) = node.poll_timeout().filter(|&due| due <= until) {
                    now = now.max(due);
                    node.handle_timeout(now);
                    drain(&mut node, now, &mut told);
                    assert!(node.poll_timeout().is_none_or(|due| due > now), "what is due was done");
                }
                now = until;
            }
            on @ 112..116 => node.set_link(now, side, on % 2 == 0),
            // The neighbour answers as it should.
            116..120 => {
                if let Some(sent) = told[side.index()] {
                    number += 1;
                    let (of, east) = if side == Side::East { (1, false) } else { (7, true) };
                    let (node_there, nominal) = (NodeId::at(of), Rate::from_mbit(100));
                    let heard = Some(Heard { node: NodeId::at(0), instance: sent.instance, number: sent.number });
                    let (nodes, instance, settings) = (8, 7, sent.settings);
                    let mut frame = vec![];
                    let answer =
                        Keepalive { node: node_there, nodes, east, instance, number, heard, settings, nominal };
                    answer.encode(&mut frame);
                    node.handle_control(now, side, &frame);
                }
            }
            blocked @ 120..124 => node.set_blocked(now, side, blocked % 2 == 0),
            _ => {
                take(1);
                node.set_capacity(now, side, Rate::from_mbit(u64::from(first)));
            }
        }
        drain(&mut node, now, &mut told);
        let stats = node.stats();
        let gone = stats.sent + stats.delivered + stats.dropped() + node.held() as u64;
        assert_eq!(stats.station + stats.received, gone, "a packet is somewhere: {stats:?}");
    }
}

/// Takes what the node gives. Its latest keepalives, by side, are kept.
fn drain(node: &mut Node<Vec<u8>>, now: Time, told: &mut [Option<Keepalive>; 2]) {
    while let Some((side, frame)) = node.poll_control(now) {
        let (kind, of, body) = open(frame).expect("a node sends what a node takes");
        if kind != Kind::Fairness {
            match Message::decode(kind, of, body).expect("a node sends what a node takes") {
                Message::Keepalive(message) => told[side.index()] = Some(message),
                Message::Report(report) => assert!(report.ttl <= 8),
            }
        }
    }
    while let Some(sent) = node.poll_transmit(now) {
        let head = Head::decode(sent.head).expect("a node sends what a node takes");
        assert!(head.path.ttl > 0 && head.path.ringlet.way_out() == sent.side);
    }
    while node.poll_deliver().is_some() {}
    while node.poll_event().is_some() {}
}
