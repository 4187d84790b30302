//! Segments that no ordinary end sends, made by hand: what a gateway carries of them.

use crate::common::*;
use crate::gateway::{config, connect, lab, number, read, watch};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

const SYN: u8 = 2;
const RST: u8 = 4;
const PUSH: u8 = 8;
const ACK: u8 = 16;
const URGENT: u8 = 32;
/// An address behind the client that no host has: nobody but the test speaks for it.
const CALLER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 97, 7, 7), 4000);
const CALLED: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 97, 2, 2), 5001);

/// What has come.
#[derive(Debug)]
struct Segment {
    flags: u8,
    sequence: u32,
    acknowledged: u32,
    data: Vec<u8>,
}

/// An end of a connection whose every segment is the test's own.
struct Caller {
    raw: Socket,
    watched: Socket,
    /// The numbers of the first byte that it sends, and of the next that it awaits.
    first: u32,
    awaited: u32,
}

impl Caller {
    /// One whose call was answered, and the server's end.
    fn open(lab: &Lab) -> (Caller, TcpStream) {
        lab.ip("gw", &["route", "add", "10.97.7.7/32", "via", "10.97.1.2"]);
        let listener = lab.listen("server", "10.97.2.2:5001");
        let raw =
            lab.run("client", || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).expect("a socket"));
        let mut caller = Caller { raw, watched: watch(lab, "client"), first: 1001, awaited: 0 };
        caller.say(SYN, 1000, 0, &[]);
        let answer = caller.next();
        assert_eq!((answer.flags, answer.acknowledged), (SYN | ACK, 1001));
        caller.awaited = answer.sequence.wrapping_add(1);
        caller.say(ACK, 1001, 0, &[]);
        let far = accept(&listener);
        far.set_read_timeout(Some(PATIENCE)).expect("set");
        assert_eq!(far.peer_addr().expect("an address"), CALLER.into());
        (caller, far)
    }

    /// Bytes from this place of the stream on.
    fn send(&self, place: u32, data: &[u8]) {
        self.say(ACK | PUSH, self.first.wrapping_add(place), 0, data);
    }

    fn say(&self, flags: u8, sequence: u32, urgent: u16, data: &[u8]) {
        let mut tcp = Vec::new();
        tcp.extend(CALLER.port().to_be_bytes());
        tcp.extend(CALLED.port().to_be_bytes());
        tcp.extend(sequence.to_be_bytes());
        tcp.extend(self.awaited.to_be_bytes());
        tcp.extend([0x50, flags, 0xff, 0xff, 0, 0]);
        tcp.extend(urgent.to_be_bytes());
        tcp.extend(data);
        let addresses = [CALLER.ip().octets(), CALLED.ip().octets()].concat();
        let length = (tcp.len() as u16).to_be_bytes();
        let summed = [&addresses[..], &[0, 6], &length, &tcp, &[0][..tcp.len() % 2]].concat();
        let sum: u32 = summed.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
        tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
        let mut packet = vec![0x45, 0];
        packet.extend((20 + tcp.len() as u16).to_be_bytes());
        // The kernel fills in the rest of this header (raw(7)).
        packet.extend([0, 0, 0, 0, 64, 6, 0, 0]);
        packet.extend(addresses);
        packet.extend(tcp);
        self.raw.send_to(&packet, &SocketAddr::from(CALLED).into()).expect("sent");
    }

    /// The next segment that comes.
    fn next(&mut self) -> Segment {
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < end, "nothing comes");
            match segment(&self.watched, *CALLED.ip(), *CALLER.ip()) {
                Some(segment) => return segment,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Waits for the acknowledgment of so much of the stream, without data, behind what may acknowledge less.
    fn acknowledged(&mut self, place: u32) {
        let mut found = self.next();
        while found.acknowledged.wrapping_sub(self.first) < place {
            found = self.next();
        }
        assert_eq!((found.flags, found.data.as_slice()), (ACK, &[][..]), "{found:?}");
        assert_eq!(found.acknowledged, self.first.wrapping_add(place), "{found:?}");
    }
}

/// The next segment that was seen from one address to another.
fn segment(mut watched: &Socket, from: Ipv4Addr, to: Ipv4Addr) -> Option<Segment> {
    let mut packet = [0; 70_000];
    while let Ok(length) = watched.read(&mut packet) {
        let packet = &packet[..length];
        if length < 40 || packet[0] != 0x45 || packet[9] != 6 {
            continue;
        }
        if packet[12..16] == from.octets() && packet[16..20] == to.octets() {
            let number = |at: usize| u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
            // Ethernet may have filled up a short packet.
            let end = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
            let data = packet[20 + usize::from(packet[32] >> 4) * 4..end].to_vec();
            return Some(Segment { flags: packet[33], sequence: number(24), acknowledged: number(28), data });
        }
    }
    None
}

#[test]
fn of_segments_that_overlap_each_byte_is_carried_once_as_it_came_first_in_order() {
    let Some(lab) = lab() else { return };
    let daemon = lab.daemon("gw", "gw", &config("bypass_below = \"0ms\""));
    let (mut caller, mut far) = Caller::open(&lab);
    let at_server = watch(&lab, "server");
    caller.send(0, b"abcd");
    caller.acknowledged(4);
    // Behind a gap; then what fills it, and says other things of what came before.
    caller.send(6, b"ghij");
    caller.acknowledged(4);
    caller.send(2, b"CDefGH");
    caller.acknowledged(10);
    // All of it again, and otherwise.
    caller.send(0, b"ABCDEFGHIJ");
    caller.acknowledged(10);
    caller.send(10, b"k");
    assert_eq!(read(&mut far, 11), b"abcdefGHijk");
    assert_eq!(number(&daemon, "open"), 1);
    // The far end's kernel has not seen any of that: each byte went there in one place.
    let mut went: Vec<(u32, Vec<u8>)> = std::iter::from_fn(|| segment(&at_server, *CALLER.ip(), *CALLED.ip()))
        .map(|segment| (segment.sequence, segment.data))
        .filter(|(_, data)| !data.is_empty())
        .collect();
    went.dedup();
    let sent: Vec<u8> = went.iter().flat_map(|(_, data)| data.clone()).collect();
    assert_eq!(sent, b"abcdefGHijk", "{went:?}");
    caller.say(RST, caller.first.wrapping_add(11), 0, &[]);
    let error = far.read(&mut [0; 1]).expect_err("a reset");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    daemon.stop();
}

#[test]
fn urgent_data_keeps_its_place_in_the_stream_and_holds_up_nothing_in_both_directions() {
    let Some(lab) = lab() else { return };
    let daemon = lab.daemon("gw", "gw", &config("bypass_below = \"0ms\""));
    let (mut caller, mut far) = Caller::open(&lab);
    caller.send(0, b"ab");
    caller.acknowledged(2);
    // The urgent pointer says where urgent data ends.
    caller.say(ACK | URGENT, caller.first.wrapping_add(2), 1, b"cdef");
    // It would be missing here if it were urgent still: this end takes it out of the stream.
    assert_eq!(read(&mut far, 6), b"abcdef");
    caller.acknowledged(6);
    // A pointer to what is still to come.
    caller.say(ACK | URGENT, caller.first.wrapping_add(6), 4, b"gh");
    assert_eq!(read(&mut far, 2), b"gh");
    caller.acknowledged(8);
    caller.send(8, b"ijkl");
    assert_eq!(read(&mut far, 4), b"ijkl");
    caller.acknowledged(12);
    let nothing = socket2::SockRef::from(&far).recv_out_of_band(&mut [std::mem::MaybeUninit::uninit()]);
    assert!(nothing.is_err(), "nothing is urgent");
    // The server's own.
    socket2::SockRef::from(&far).send_out_of_band(b"xyz").expect("sent");
    let mut came = Vec::new();
    while came.len() < 3 {
        let segment = caller.next();
        assert_eq!(segment.flags & URGENT, 0, "{segment:?}");
        came.extend(segment.data);
    }
    assert_eq!(came, b"xyz");
    // And of ordinary ends, again and again, with much between.
    let listener = lab.listen("server", "10.97.2.2:5002");
    let mut near = connect(&lab, "10.97.2.2:5002").expect("connected");
    let mut far = accept(&listener);
    for n in 0..50_u8 {
        socket2::SockRef::from(&near).send_out_of_band(&[n]).expect("sent");
        near.write_all(&[n; 1000]).expect("written");
        assert_eq!(read(&mut far, 1001), [n; 1001]);
    }
    drop(near);
    assert_eq!(far.read(&mut [0; 1]).expect("the end"), 0);
    daemon.stop();
}

#[test]
fn a_keepalive_is_answered_by_the_gateway_and_the_far_end_hears_nothing_of_it() {
    let Some(lab) = lab() else { return };
    let daemon = lab.daemon("gw", "gw", &config("bypass_below = \"0ms\""));
    let (mut caller, mut far) = Caller::open(&lab);
    caller.send(0, b"ab");
    caller.acknowledged(2);
    assert_eq!(read(&mut far, 2), b"ab");
    far.write_all(b"c").expect("written");
    let answer = caller.next();
    assert_eq!((answer.data.as_slice(), answer.sequence), (&b"c"[..], caller.awaited));
    caller.awaited = caller.awaited.wrapping_add(1);
    caller.say(ACK, caller.first.wrapping_add(2), 0, &[]);
    let at_server = watch(&lab, "server");
    // Both forms (RFC 9293, 3.8.4): without data, and with one byte that was acknowledged long ago.
    for byte in [&b""[..], b"?"] {
        caller.send(1, byte);
        caller.acknowledged(2);
    }
    assert!(segment(&at_server, *CALLER.ip(), *CALLED.ip()).is_none_or(|found| found.data.is_empty()));
    caller.send(2, b"d");
    assert_eq!(read(&mut far, 1), b"d");
    let seen: Vec<Segment> = std::iter::from_fn(|| segment(&at_server, *CALLER.ip(), *CALLED.ip())).collect();
    let data: Vec<&Segment> = seen.iter().filter(|segment| !segment.data.is_empty()).collect();
    assert!(data.len() == 1 && data[0].data == b"d", "{seen:?}");
    daemon.stop();
}
