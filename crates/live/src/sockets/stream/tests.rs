//! Connections of strangers and peers, over the loopback.

use super::listener::{IDLE, OF_A_NETWORK, PROOF_WITHIN, STRANGERS};
use super::*;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::Read as _;
use std::net::TcpStream;

fn listener(poller: &Poller) -> (Stream, SocketAddr) {
    let stream = Stream::listen(SocketAddr::from(([127, 0, 0, 1], 0)), 0, poller).expect("a port");
    let Side::Listener(listener) = &stream.side else { unreachable!() };
    let address = listener.socket.local_addr().expect("bound").as_socket().expect("an address");
    (stream, address)
}

/// Connects from an address.
fn connect(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("a socket");
    socket.bind(&SocketAddr::from((from, 0)).into()).expect("an address of the loopback");
    socket.connect(&to.into()).expect("connected");
    socket.into()
}

fn is_open(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).expect("non-blocking");
    matches!(stream.read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

#[test]
fn who_has_many_connections_displaces_his_own_and_nobody_who_has_proven_something() {
    let poller = Poller::new().expect("epoll");
    let (mut stream, to) = listener(&poller);
    let mut peer = connect([127, 0, 1, 1], to);
    let [token] = stream.accept()[..] else { panic!("one is accepted") };
    stream.on_proof(token);
    let mut lonely = connect([127, 0, 2, 1], to);
    let mut crowd = Vec::new();
    for n in 0..200 {
        crowd.push(connect([127, 0, 3, n], to));
        stream.accept();
    }
    assert_eq!(stream.lines.len(), 2 + OF_A_NETWORK);
    let open: Vec<_> = crowd.iter_mut().map(is_open).collect();
    assert!(open[200 - OF_A_NETWORK..].iter().all(|open| *open), "the newest stay: {open:?}");
    // From many networks, two of each.
    for n in 0..240 {
        for host in [1, 2] {
            crowd.push(connect([127, 1, n, host], to));
            stream.accept();
        }
    }
    assert_eq!(stream.lines.len(), 1 + STRANGERS);
    assert_eq!((is_open(&mut peer), is_open(&mut lonely)), (true, true));
    assert_eq!(stream.stats.evicted as usize, 1 + 200 + 480 - STRANGERS);
    assert_eq!(stream.lines.len(), stream.by_remote.len());
}

#[test]
fn who_proves_nothing_in_time_and_who_falls_silent_is_closed() {
    let poller = Poller::new().expect("epoll");
    let (mut stream, to) = listener(&poller);
    let mut clients = [1, 2, 3].map(|n| connect([127, 0, n, 1], to));
    let tokens = stream.accept();
    assert_eq!(tokens.len(), 3);
    stream.on_proof(tokens[0]);
    stream.on_proof(tokens[1]);
    assert_eq!(stream.expire(), []);
    let now = system().monotonic();
    // As if time had passed.
    let silent = stream.lines.get_mut(&tokens[1]).expect("there");
    silent.proven = Some(now.saturating_sub(IDLE));
    let remote = silent.remote;
    stream.lines.get_mut(&tokens[2]).expect("there").since = now.saturating_sub(PROOF_WITHIN);
    assert_eq!(stream.expire(), [remote]);
    assert_eq!(clients.each_mut().map(is_open), [true, false, false]);
    assert_eq!((stream.stats.unproven, stream.stats.idle), (1, 1));
    // A peer that went elsewhere has as long to come back.
    let line = stream.lines.get_mut(&tokens[0]).expect("there");
    line.since = now.saturating_sub(PROOF_WITHIN);
    let remote = line.remote;
    stream.on_moved(remote);
    assert_eq!((stream.expire(), stream.strangers().len()), (Vec::new(), 1));
    stream.lines.get_mut(&tokens[0]).expect("there").since = now.saturating_sub(PROOF_WITHIN);
    assert_eq!((stream.expire(), is_open(&mut clients[0])), (Vec::new(), false));
}

/// Writes runs to `remote` until there is no room.
fn fill(stream: &mut Stream, remote: SocketAddr) {
    loop {
        let mut run = Run::default();
        while let Some(room) = run.room(1000) {
            room.fill(7);
            run.commit(1000);
        }
        match stream.send_run(remote, &mut run) {
            Sent::Done => {}
            stopped => return assert_eq!(stopped, Sent::Blocked),
        }
    }
}

/// Reads until nothing comes for a moment.
fn drain(client: &mut TcpStream) {
    client.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    while client.read(&mut [0; 65_536]).is_ok_and(|count| count > 0) {}
}

#[test]
fn who_was_refused_is_told_of_room_also_where_a_message_found_it_first() {
    let poller = Poller::new().expect("epoll");
    let (mut stream, to) = listener(&poller);
    let mut client = connect([127, 0, 1, 1], to);
    let [token] = stream.accept()[..] else { panic!("one is accepted") };
    let remote = stream.lines[&token].remote;
    fill(&mut stream, remote);
    assert!(stream.lines[&token].wants_write, "it is waited for");
    // Until a message is written, and what was before it.
    while stream.lines[&token].connection.wants_write() {
        drain(&mut client);
        assert_eq!(stream.send_message(remote, &[1; 32]), Sent::Done);
    }
    assert!(stream.lines[&token].wants_write, "the others wait still");
    assert_eq!((stream.on_writable(token), stream.lines[&token].wants_write), (Some(remote), false));
    fill(&mut stream, remote);
    assert!(stream.lines[&token].wants_write, "and wait again");
}
