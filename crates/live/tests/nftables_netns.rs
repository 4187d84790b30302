//! Packet rules against the real kernel, in namespaces of their own.

mod gateway_net;
#[path = "privilege/mod.rs"]
mod privilege;

use fairspan_live::netlink::NetlinkError;
use fairspan_live::netlink::nftables::{Hook, Kind, OwnedTable, PacketRule, Transaction, tables};
use gateway_net::{ANY, FAR, Host, NEAR, Net, PATIENCE, at, ip, next, udp, wait_for};
use privilege::{may_make_namespaces, may_write};
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSockRef, UdpSocketState};
use rustix::net::sockopt;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

const UDP: u8 = 17;
const LOOPBACK: [&str; 2] = ["127.0.0.1", "::1"];
/// What divides the packets of two users of marks.
const MARK: u32 = 0x0102_0304;

fn may_forward() -> bool {
    may_make_namespaces() && may_write("/proc/sys/net/ipv4/ip_forward")
}

/// A table of one chain that sees what arrives.
fn arriving(rules: &[PacketRule]) -> OwnedTable {
    OwnedTable::set("fs-test", |to| write(to, rules)).expect("a table")
}

fn write(to: &mut Transaction, rules: &[PacketRule]) {
    to.base_chain("arrives", Kind::Filter, Hook::Prerouting, -150);
    for rule in rules {
        to.rule("arrives", rule);
    }
}

/// A socket that may have addresses of others.
fn transparent(host: &Host, address: SocketAddr) -> Socket {
    host.within(|| {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).expect("a socket");
        if address.is_ipv4() { socket.set_ip_transparent_v4(true) } else { socket.set_ip_transparent_v6(true) }
            .expect("IP_TRANSPARENT");
        // For `accept` too.
        socket.set_read_timeout(Some(PATIENCE)).expect("patience");
        socket.set_reuse_address(true).expect("SO_REUSEADDR");
        socket.bind(&address.into()).expect("bind");
        socket
    })
}

fn listen(host: &Host, address: SocketAddr) -> TcpListener {
    let listener = host.within(|| TcpListener::bind(address)).expect("a listener");
    sockopt::set_socket_timeout(&listener, sockopt::Timeout::Recv, Some(PATIENCE)).expect("patience");
    listener
}

fn connect(host: &Host, to: SocketAddr) -> io::Result<TcpStream> {
    let stream = host.within(|| TcpStream::connect_timeout(&to, PATIENCE))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// What is marked is this host's, whatever its address: the routes that a proxy needs.
fn deliver(host: &Host, mark: u32) {
    for family in ["-4", "-6"] {
        host.ip(&format!("{family} rule add fwmark {mark} lookup 100"));
        host.ip(&format!("{family} route add local default dev lo table 100"));
    }
}

/// That what one end of a connection says comes to the other.
fn assert_joined(one: &mut TcpStream, other: &mut TcpStream) {
    one.write_all(b"ping").expect("write");
    let mut heard = [0; 4];
    other.set_read_timeout(Some(PATIENCE)).expect("patience");
    other.read_exact(&mut heard).expect("read");
    assert_eq!(&heard, b"ping");
}

/// Sockets for datagrams from near to far, in one IP version.
struct Probes {
    near: UdpSocket,
    version: usize,
    /// At ports 1, 2 and 3. What is sent to the last always comes, so that nothing is waited for in vain.
    far: [UdpSocket; 3],
}

impl Probes {
    fn new(net: &Net, version: usize) -> Probes {
        let far = [1, 2, 3].map(|port| udp(&net.far, at(FAR[version], port)));
        Probes { near: udp(&net.near, at(ANY[version], 0)), version, far }
    }

    /// The ports at which something comes.
    fn passing(&self) -> Vec<u16> {
        for port in [1, 2, 3] {
            self.near.send_to(b"x", at(FAR[self.version], port)).expect("send");
        }
        // Datagrams do not overtake each other: when the last has come, all that pass have.
        let [first, second, last] = &self.far;
        next(last);
        [(1, first), (2, second)]
            .into_iter()
            .filter(|(_, far)| far.recv(&mut [0]).is_ok())
            .map(|(port, _)| port)
            .collect()
    }
}

#[test]
fn rules_tell_packets_by_device_address_route_mark_and_version() {
    if !may_forward() {
        return;
    }
    let net = Net::new();
    let rule = PacketRule::new;
    for version in [0, 1] {
        let probes = Probes::new(&net, version);
        let (near, far) = (ip(NEAR[version]).into(), ip(FAR[version]).into());
        // Each matches what goes to port 1, and what stands against it does not match.
        let pairs = [
            (rule().arrives_by("lan0"), rule().arrives_by("lan")),
            (rule().not_arriving_by("sat0"), rule().not_arriving_by("lan0")),
            (rule().to_this_host(false), rule().to_this_host(true)),
            (rule().routed_by("sat0"), rule().routed_by("lan0")),
            (rule().from(near), rule().from(far)),
            (rule().towards(far), rule().towards(near)),
            (rule().set_mark(MARK).marked(MARK), rule().set_mark(MARK).marked(MARK ^ 1)),
            (rule().set_mark(MARK).marked_at_all(), rule().set_mark(0).marked_at_all()),
            (rule().protocol(UDP), rule().protocol(UDP).tcp_syn()),
        ];
        for (i, (matching, other)) in pairs.into_iter().enumerate() {
            net.gateway.within(|| {
                let to_port = |rule: PacketRule, port| rule.protocol(UDP).towards_port(port).drop();
                let table = arriving(&[to_port(matching, 1), to_port(other, 2)]);
                assert_eq!(probes.passing(), [2], "pair {i}, version {version}");
                drop(table);
            });
        }
    }
}

#[test]
fn a_set_of_ranges_has_their_first_and_last_addresses_and_none_beside_them() {
    if !may_forward() {
        return;
    }
    let net = Net::new();
    let bits = |text: &str| match ip(text) {
        std::net::IpAddr::V4(v4) => v4.to_bits().into(),
        std::net::IpAddr::V6(v6) => v6.to_bits(),
    };
    for version in [0, 1] {
        let probes = Probes::new(&net, version);
        let (near, far) = (bits(NEAR[version]), bits(FAR[version]));
        let most = if version == 0 { u32::MAX.into() } else { u128::MAX };
        // More ranges than one message takes, and those at both ends of all addresses.
        let many = |from: u128| (0..1000).map(move |n| from + 4 * n..=from + 4 * n + 2);
        let sets = |around: u128| {
            let mut ranges = vec![0..=1];
            ranges.extend(many(1000));
            ranges.extend([around..=around, most - 9..=most]);
            ranges
        };
        let beside = |around: u128| vec![around - 9..=around - 1, around + 1..=most];
        for (rule, inside) in [
            (PacketRule::towards_one_of as fn(PacketRule, &str, bool) -> PacketRule, far),
            (PacketRule::from_one_of, near),
        ] {
            net.gateway.within(|| {
                let table = OwnedTable::set("fs-test", |to| {
                    to.addresses("within", version == 1, &sets(inside));
                    to.addresses("beside", version == 1, &beside(inside));
                    let of =
                        |set, port| rule(PacketRule::new(), set, version == 1).protocol(UDP).towards_port(port).drop();
                    write(to, &[of("within", 1), of("beside", 2)]);
                });
                let table = table.expect("a table");
                assert_eq!(probes.passing(), [2], "version {version}");
                drop(table);
            });
        }
    }
}

#[test]
fn what_is_routed_elsewhere_for_its_mark_is_not_routed_by_the_device_of_the_main_table() {
    if !may_forward() {
        return;
    }
    let net = Net::new();
    for version in [0, 1] {
        let probes = Probes::new(&net, version);
        let family = ["-4", "-6"][version];
        net.gateway.ip(&format!("{family} rule add fwmark {MARK} lookup 77"));
        net.gateway.ip(&format!("{family} route add default dev lan0 table 77"));
        net.gateway.within(|| {
            let by_sat = |port| PacketRule::new().protocol(UDP).towards_port(port).routed_by("sat0").drop();
            let marks = PacketRule::new().protocol(UDP).towards_port(1).set_mark(MARK);
            let unmarks = PacketRule::new().set_mark(0);
            let table = arriving(&[marks, by_sat(1), by_sat(2), unmarks]);
            assert_eq!(probes.passing(), [1], "version {version}");
            drop(table);
        });
    }
}

#[test]
fn an_owned_table_goes_with_its_value_and_keeps_others_away() {
    if !may_make_namespaces() {
        return;
    }
    Host::new().within(|| {
        let names = || tables(None).expect("tables");
        // What a killed process left without an owner.
        let mut left = Transaction::of("fs-test");
        left.create();
        left.chain("old");
        left.commit("leave a table").expect("a table");
        let mut table = arriving(&[PacketRule::new().drop()]);
        assert_eq!(names(), ["fs-test"]);
        assert!(table.is_there().expect("an answer"));
        let goes = table.goes_with_its_process();
        if goes {
            let error = OwnedTable::set("fs-test", |to| write(to, &[])).expect_err("it has an owner");
            assert_eq!(error.errno(), Some(libc::EBUSY));
            assert!(error.to_string().contains("another process owns"), "{error}");
        } else {
            println!("skipped: this kernel has no tables with owners");
        }
        // A failed change leaves the old one, and answers that were not read do not count for the next.
        let error = table.replace(|to| {
            for _ in 0..3 {
                to.rule("no such chain", &PacketRule::new());
            }
        });
        assert_eq!(error.expect_err("no such chain").errno(), Some(libc::ENOENT));
        assert_eq!(table.goes_with_its_process(), goes);
        table.replace(|to| write(to, &[PacketRule::new().accept()])).expect("another");
        assert_eq!(names(), ["fs-test"]);
        drop(table);
        assert_eq!(names(), [""; 0]);
    });
}

#[test]
fn an_attempt_is_refused_what_the_kernel_would_refuse_and_changes_nothing() {
    if !may_make_namespaces() {
        return;
    }
    let host = Host::new();
    host.within(|| {
        let rules = [PacketRule::new().marked(MARK).set_mark(0)];
        let attempt = || OwnedTable::attempt("fs-test", |to| write(to, &rules));
        assert!(attempt().is_ok());
        assert_eq!(tables(None).expect("a list"), Vec::<String>::new(), "it was no more than an attempt");
        // There is no such table.
        let refused = |end: fn(Transaction, &str) -> Result<(), NetlinkError>| {
            let mut transaction = Transaction::of("fs-other");
            transaction.delete();
            end(transaction, "delete").expect_err("nothing is there").errno()
        };
        assert_eq!([Transaction::commit, Transaction::attempt].map(refused), [Some(libc::ENOENT); 2]);
        // Nor a chain.
        let mut transaction = Transaction::of("fs-other");
        transaction.create();
        transaction.rule("arrives", &rules[0]);
        assert!(transaction.attempt("add a rule").is_err());
        let table = arriving(&rules);
        if table.goes_with_its_process() {
            assert_eq!(attempt().expect_err("another's").errno(), Some(libc::EBUSY));
        }
        assert!(table.is_there().expect("an answer"), "the table that is there stays");
        drop(table);
        assert!(attempt().is_ok());
    });
}

#[test]
fn the_kernel_removes_an_owned_table_with_its_socket() {
    if !may_make_namespaces() {
        return;
    }
    let host = Host::new();
    host.within(|| {
        let table = arriving(&[PacketRule::new().drop()]);
        if !table.goes_with_its_process() {
            println!("skipped: this kernel has no tables with owners");
            return;
        }
        // As where the process is killed: nobody who may deletes it.
        let without_rights = std::thread::spawn(move || {
            let none = CapabilitySet::empty();
            set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
                .expect("fewer capabilities");
            drop(table);
        });
        without_rights.join().expect("a thread");
        // Children that other tests begin have all descriptors for a moment.
        let begun = Instant::now();
        while !tables(None).expect("tables").is_empty() {
            assert!(begun.elapsed() < PATIENCE, "it stays");
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

#[test]
fn a_rule_for_syns_leaves_segments_of_connections_alone_and_a_reset_refuses_at_once() {
    if !may_forward() {
        return;
    }
    let net = Net::new();
    for version in [0, 1] {
        let far = at(FAR[version], 81);
        let listener = listen(&net.far, far);
        let syns = || PacketRule::new().tcp_syn();
        net.gateway.within(|| {
            // What answers a SYN is none.
            let table = arriving(&[syns().from(ip(FAR[version]).into()).reset()]);
            let mut before = connect(&net.near, far).expect("a connection");
            let (mut accepted, _) = listener.accept().expect("accept");
            drop(table);
            let table = arriving(&[syns().reset()]);
            assert_joined(&mut before, &mut accepted);
            assert_joined(&mut accepted, &mut before);
            let error = connect(&net.near, far).expect_err("refused");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "version {version}");
            drop(table);
        });
        connect(&net.near, far).expect("a connection, when the table is gone");
    }
}

#[test]
fn a_proxy_takes_connections_to_any_address_and_without_one_the_next_rule_counts() {
    if !may_forward() {
        return;
    }
    let net = Net::new();
    deliver(&net.gateway, MARK);
    for (version, elsewhere) in [(0, "203.0.113.5"), (1, "2001:db8::5")] {
        net.gateway.ip(&format!("route add {elsewhere} dev sat0"));
        net.gateway.within(|| {
            let syns = || PacketRule::new().tcp_syn().routed_by("sat0");
            let table = arriving(&[
                PacketRule::new().has_transparent_socket().set_mark(MARK).accept(),
                syns().to_proxy(false, 1080).set_mark(MARK).accept(),
                syns().to_proxy(true, 1080).set_mark(MARK).accept(),
                syns().reset(),
            ]);
            let error = connect(&net.near, at(elsewhere, 80)).expect_err("no proxy yet");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            let proxy = transparent(&net.gateway, at(LOOPBACK[version], 1080));
            proxy.listen(8).expect("listen");
            let mut near = connect(&net.near, at(elsewhere, 80)).expect("a connection");
            let (taken, from) = proxy.accept().expect("accept");
            let mut taken = TcpStream::from(taken);
            assert_eq!(taken.local_addr().expect("local"), at(elsewhere, 80));
            let near_port = near.local_addr().expect("local").port();
            assert_eq!(from.as_socket(), Some(at(NEAR[version], near_port)));
            assert_joined(&mut near, &mut taken);
            assert_joined(&mut taken, &mut near);
            drop(table);
        });
    }
}

#[test]
fn a_proxy_that_listens_on_the_loopback_address_has_no_part_in_connections_to_its_port_elsewhere() {
    if !may_forward() {
        return;
    }
    let net = Net::new();
    for version in [0, 1] {
        let far = at(FAR[version], 1080);
        let listener = listen(&net.far, far);
        net.gateway.within(|| {
            let table = arriving(&[PacketRule::new().has_transparent_socket().reset()]);
            let everywhere = transparent(&net.gateway, at(ANY[version], 1080));
            everywhere.listen(8).expect("listen");
            connect(&net.near, far).expect_err("a socket for all addresses counts, for it could have this one");
            // It listens no more, whoever has it still.
            everywhere.shutdown(Shutdown::Both).expect("shutdown");
            drop(everywhere);
            let proxy = transparent(&net.gateway, at(LOOPBACK[version], 1080));
            proxy.listen(8).expect("listen");
            let mut near = connect(&net.near, far).expect("a connection past the proxy");
            assert_joined(&mut near, &mut listener.accept().expect("accept").0);
            drop(table);
        });
    }
}

#[test]
fn answers_to_a_socket_with_anothers_address_are_found() {
    if !may_forward() {
        return;
    }
    let net = Net::new();
    deliver(&net.gateway, MARK);
    for version in [0, 1] {
        let far = at(FAR[version], 82);
        let listener = listen(&net.far, far);
        net.gateway.within(|| {
            let table = arriving(&[PacketRule::new().has_transparent_socket().set_mark(MARK).accept()]);
            let spoofing = transparent(&net.gateway, at(NEAR[version], 4321));
            spoofing.connect_timeout(&far.into(), PATIENCE).expect("far answers near's address, and it comes here");
            let (mut accepted, from) = listener.accept().expect("accept");
            assert_eq!(from, at(NEAR[version], 4321));
            assert_joined(&mut accepted, &mut TcpStream::from(spoofing));
            drop(table);
        });
    }
}

#[test]
fn congestion_is_marked_and_the_header_stays_whole() {
    if !may_forward() {
        return;
    }
    let net = Net::new();
    for version in [0, 1] {
        let far = udp(&net.far, at(FAR[version], 7));
        let state = UdpSocketState::new(UdpSockRef::from(&far)).expect("a socket with ECN");
        let near = Socket::from(udp(&net.near, at(ANY[version], 0)));
        if version == 0 { near.set_tos_v4(2) } else { near.set_tclass_v6(2) }.expect("ECT(0)");
        net.gateway.within(|| {
            let marks = |is_v6| PacketRule::new().protocol(UDP).set_ce(is_v6);
            for (rules, expected) in [
                (vec![], EcnCodepoint::Ect0),
                (vec![marks(version == 0)], EcnCodepoint::Ect0),
                (vec![marks(version == 1)], EcnCodepoint::Ce),
            ] {
                let table = arriving(&rules);
                near.send_to(b"x", &at(FAR[version], 7).into()).expect("send");
                assert_eq!(ecn_of_next(&far, &state), Some(expected), "version {version}, {rules:?}");
                drop(table);
            }
        });
    }
}

fn ecn_of_next(socket: &UdpSocket, state: &UdpSocketState) -> Option<EcnCodepoint> {
    wait_for(socket);
    let (mut meta, mut buffer) = ([RecvMeta::default()], [0; 100]);
    let count = state.recv(UdpSockRef::from(socket), &mut [io::IoSliceMut::new(&mut buffer)], &mut meta);
    assert_eq!(count.expect("receive"), 1);
    meta[0].ecn
}
