//! The queue of packets against the real kernel, in namespaces of their own.

mod gateway_net;
#[path = "privilege/mod.rs"]
mod privilege;

use fairspan_live::netlink::Netlink;
use fairspan_live::netlink::nftables::{Hook, Kind, OwnedTable, PacketRule};
use fairspan_live::netlink::queue::PacketQueue;
use gateway_net::{ANY, FAR, NEAR, Net, PATIENCE, at, next, udp, wait_for};
use privilege::{may_make_namespaces, may_write};
use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};
use std::net::UdpSocket;
use std::time::Instant;

const UDP: u8 = 17;
const QUEUE: u16 = 7;
const PORT: u16 = 9;
/// What the queue gives a packet, and what a rule behind it drops.
const MARK: u32 = 0x0102_0304;
const HEADERS: u32 = 60;

/// A gateway with a queue for all datagrams that arrive by `lan0`, a sender and a receiver.
struct Bench {
    net: Net,
    near: UdpSocket,
    far: UdpSocket,
    version: usize,
    /// Until it is dropped.
    _table: OwnedTable,
}

impl Bench {
    /// `None`: the test is skipped.
    fn new(version: usize) -> Option<Bench> {
        if !(may_make_namespaces() && may_write("/proc/sys/net/ipv4/ip_forward")) {
            return None;
        }
        let net = Net::new();
        let table = net.gateway.within(|| {
            OwnedTable::set("fs-test", |to| {
                to.base_chain("arrives", Kind::Filter, Hook::Prerouting, -160);
                to.base_chain("marked", Kind::Filter, Hook::Prerouting, -150);
                let queued = PacketRule::new().arrives_by("lan0").protocol(UDP);
                to.rule("arrives", &queued.set_mark(5).queue(QUEUE));
                to.rule("marked", &PacketRule::new().marked(MARK).drop());
            })
        });
        let (near, far) = (udp(&net.near, at(ANY[version], 0)), udp(&net.far, at(FAR[version], PORT)));
        Some(Bench { net, near, far, version, _table: table.expect("rules") })
    }

    fn queue(&self, most: u32, units: bool) -> PacketQueue {
        self.net.gateway.within(|| PacketQueue::open(QUEUE, most, HEADERS, units)).expect("a queue")
    }

    fn send(&self, text: &[u8]) {
        self.near.send_to(text, at(FAR[self.version], PORT)).expect("send");
    }

    fn next(&self) -> Vec<u8> {
        next(&self.far)
    }
}

/// The numbers of the next packets, so many.
fn take(queue: &mut PacketQueue, count: usize) -> Vec<u32> {
    let (mut ids, begun) = (Vec::new(), Instant::now());
    while ids.len() < count {
        assert!(begun.elapsed() < PATIENCE, "{} of {count} came", ids.len());
        wait_for(queue);
        queue.receive(|packet| ids.push(packet.id)).expect("receive");
    }
    assert_eq!(ids.len(), count);
    ids
}

#[test]
fn a_packet_waits_for_its_verdict_and_its_headers_are_told() {
    for version in [0, 1] {
        let Some(bench) = Bench::new(version) else { return };
        let mut queue = bench.queue(100, true);
        bench.send(&[b'x'; 500]);
        wait_for(&queue);
        let mut told = Vec::new();
        queue
            .receive(|packet| told.push((packet.mark, packet.arrived_by, packet.len, packet.bytes.to_vec())))
            .expect("ok");
        let lan = bench.net.gateway.within(|| Netlink::open().expect("netlink").interface("lan0")).expect("lan0");
        let [(mark, arrived_by, len, bytes)] = told.try_into().expect("one packet");
        let header = [20, 40][version];
        assert_eq!((mark, arrived_by, len), (5, lan.index, header + 8 + 500));
        assert_eq!((bytes[0] >> 4, bytes.len()), ([4, 6][version], HEADERS as usize));
        let address = if version == 0 { bytes[12..16].to_vec() } else { bytes[8..24].to_vec() };
        let near = match gateway_net::ip(NEAR[version]) {
            std::net::IpAddr::V4(ip) => ip.octets().to_vec(),
            std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        assert_eq!(address, near);
    }
}

#[test]
fn verdicts_pass_drop_and_mark_packets_in_the_order_in_which_they_are_given() {
    for version in [0, 1] {
        let Some(bench) = Bench::new(version) else { return };
        let mut queue = bench.queue(100, true);
        for text in [b"a", b"b", b"c", b"d", b"e"] {
            bench.send(text);
        }
        let [a, b, c, d, e] = take(&mut queue, 5).try_into().expect("five");
        queue.accept(e, None);
        // What is dropped behind the queue shows that it has the mark.
        queue.accept(b, Some(MARK));
        queue.drop(c);
        queue.accept(d, Some(MARK ^ 1));
        queue.accept(a, None);
        queue.flush();
        assert_eq!([bench.next(), bench.next(), bench.next()], [b"e", b"d", b"a"]);
        assert_eq!((queue.missed(), queue.gone()), (0, 0));
        // A second verdict is for a packet that is no more, and does no harm.
        queue.accept(a, None);
        bench.send(b"f");
        queue.flush();
        let [f] = take(&mut queue, 1).try_into().expect("one");
        queue.accept(f, None);
        queue.flush();
        assert_eq!((bench.next(), queue.missed(), queue.gone()), (b"f".to_vec(), 0, 1));
    }
}

#[test]
fn many_verdicts_go_in_one_message() {
    let Some(bench) = Bench::new(0) else { return };
    let mut queue = bench.queue(100, true);
    for i in 0..64 {
        bench.send(&[i]);
    }
    let ids = take(&mut queue, 64);
    for id in ids {
        queue.accept(id, Some(1));
    }
    queue.flush();
    for i in 0..64 {
        assert_eq!(bench.next(), [i]);
    }
    assert_eq!(queue.gone(), 0);
}

#[test]
fn without_a_process_packets_pass_and_one_that_ends_loses_only_what_waits() {
    let Some(bench) = Bench::new(0) else { return };
    bench.send(b"before");
    assert_eq!(bench.next(), b"before");
    let mut queue = bench.queue(100, true);
    bench.send(b"waits");
    take(&mut queue, 1);
    let second = bench.net.gateway.within(|| PacketQueue::open(QUEUE, 1, HEADERS, true)).expect_err("it is taken");
    assert_eq!(second.errno(), Some(libc::EBUSY));
    assert!(second.to_string().contains("another process has it"), "{second}");
    drop(queue);
    bench.send(b"behind");
    assert_eq!(bench.next(), b"behind");
}

#[test]
fn what_does_not_fit_into_the_queue_passes() {
    let Some(bench) = Bench::new(0) else { return };
    let mut queue = bench.queue(10, true);
    for i in 0..15 {
        bench.send(&[i]);
    }
    for i in 10..15 {
        assert_eq!(bench.next(), [i]);
    }
    let ids = take(&mut queue, 10);
    ids.into_iter().for_each(|id| queue.accept(id, None));
    queue.flush();
    for i in 0..10 {
        assert_eq!(bench.next(), [i]);
    }
}

#[test]
fn units_keep_their_order_and_number_whole_or_taken_apart() {
    const SEGMENT: usize = 400;
    const SEGMENTS: usize = 8;
    const AT_ONCE: usize = 8;
    const UNITS: usize = 10_000;
    for version in [0, 1] {
        let Some(bench) = Bench::new(version) else { return };
        let near = UdpSocketState::new(UdpSockRef::from(&bench.near)).expect("a socket");
        if near.max_gso_segments() < SEGMENTS {
            println!("skipped: this kernel joins no datagrams");
            return;
        }
        for (whole, units) in [(true, UNITS), (false, UNITS / 10)] {
            let mut queue = bench.queue(1000, whole);
            let (mut sent, mut received) = (0u32, 0u32);
            for _ in 0..units / AT_ONCE {
                for _ in 0..AT_ONCE {
                    let mut contents = [0; SEGMENT * SEGMENTS];
                    for segment in contents.chunks_mut(SEGMENT) {
                        segment[..4].copy_from_slice(&sent.to_be_bytes());
                        sent += 1;
                    }
                    let destination = at(FAR[version], PORT);
                    let (segment_size, src_ip) = (Some(SEGMENT), None);
                    let unit = Transmit { destination, ecn: None, contents: &contents, segment_size, src_ip };
                    near.try_send(UdpSockRef::from(&bench.near), &unit).expect("send");
                }
                for id in take(&mut queue, if whole { AT_ONCE } else { AT_ONCE * SEGMENTS }) {
                    queue.accept(id, None);
                }
                queue.flush();
                while received < sent {
                    assert_eq!(bench.next()[..4], received.to_be_bytes(), "{version}, {whole}");
                    received += 1;
                }
            }
            assert_eq!((received as usize, queue.missed(), queue.gone()), (units * SEGMENTS, 0, 0));
        }
    }
}
