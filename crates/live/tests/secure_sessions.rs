//! The sessions' life: handshakes under loss, rekeying under traffic, restarts, roaming, limits, load.

mod secure_net;

use fairspan_core::units::{ChannelId, Span, Time};
use fairspan_live::secure::*;
use secure_net::{A, B, Net, Weather, sessions};
use std::net::SocketAddr;

fn established(event: &Event) -> bool {
    matches!(event, Event::Established { .. })
}

#[test]
fn both_ends_learn_each_others_hello_instance_and_address() {
    let mut net = Net::new(1);
    net.establish();
    let Event::Established { hello, instance, restarted, role, endpoint, channel, .. } = &net.events[A][0] else {
        panic!()
    };
    assert_eq!((hello.as_slice(), *restarted, *role), (b"answer".as_slice(), false, Role::Initiator));
    assert_eq!((*instance, endpoint.address, *channel), (net.ends[B].instance(), net.address[B], ChannelId(0)));
    let Event::Established { hello, instance, role, endpoint, .. } = &net.events[B][0] else { panic!() };
    assert_eq!((hello.as_slice(), *role), (b"from a".as_slice(), Role::Responder));
    assert_eq!((*instance, endpoint.address), (net.ends[A].instance(), net.address[A]));
    for end in [A, B] {
        assert!(net.send(end, b"a packet"));
    }
    net.run(Span::from_millis(50));
    assert_eq!(net.delivered, [vec![b"a packet".to_vec()], vec![b"a packet".to_vec()]]);
}

#[test]
fn the_cipher_set_is_the_cipher_used_and_ends_without_a_common_one_say_so() {
    let with = |cipher: CipherChoice| {
        let mut config = Config::default();
        config.cipher = cipher;
        config
    };
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let mut net = Net::with(2, [with(CipherChoice::Auto), with(CipherChoice::Only(cipher))], [None, None]);
        net.establish();
        for end in [A, B] {
            assert!(matches!(net.events[end][0], Event::Established { cipher: used, .. } if used == cipher));
        }
        assert!(net.send(A, &[7; 1400]));
        net.run(Span::from_millis(50));
        assert_eq!(net.delivered[B], [vec![7; 1400]]);
    }
    let configs = [with(CipherChoice::Only(Cipher::Aes256Gcm)), with(CipherChoice::Only(Cipher::ChaCha20Poly1305))];
    let mut net = Net::with(3, configs, [None, None]);
    net.connect(A);
    net.run(Span::from_secs(2));
    assert!(net.ends[B].stats().dropped(DropReason::Cipher) > 0);
    assert!(net.events[B].iter().all(|event| matches!(event, Event::Rejected { reason: RejectReason::Cipher, .. })));
    assert!(!net.events[B].is_empty() && net.events[A].is_empty());
}

#[test]
fn the_handshake_completes_under_half_the_datagrams_lost_some_doubled_and_reordered() {
    for seed in 0..40 {
        let mut net = Net::new(100 + seed);
        net.weather =
            Weather { loss: 0.5, duplicate: 0.2, delay: Span::from_millis(20), jitter: Span::from_millis(200) };
        net.connect(A);
        if seed % 2 == 0 {
            net.connect(B);
        }
        // Each try succeeds with probability 1/4, and tries are at most 6 s apart.
        net.run(Span::from_secs(120));
        for end in [A, B] {
            assert!(net.count(end, established) >= 1, "seed {seed}, end {end}: {:?}", net.ends[end].stats());
            assert!(net.is_up(end));
        }
        net.weather = Weather::FINE;
        net.run(Span::from_secs(1));
        let before = net.delivered.each_ref().map(Vec::len);
        for end in [A, B] {
            assert!(net.send(end, b"through"));
        }
        net.run(Span::from_secs(1));
        assert_eq!(net.delivered.each_ref().map(Vec::len), before.map(|n| n + 1), "seed {seed}");
    }
}

#[test]
fn a_round_trip_longer_than_the_first_retries_still_ends_in_a_session() {
    let mut net = Net::new(4);
    net.weather.delay = Span::from_millis(900);
    net.connect(A);
    net.run(Span::from_secs(6));
    assert!(net.is_up(A) && net.is_up(B));
    assert!(net.ends[A].stats().initiations_sent > 1);
}

#[test]
fn simultaneous_initiation_resolves_and_no_packet_is_lost_meanwhile() {
    for seed in 0..30 {
        let mut net = Net::new(200 + seed);
        net.weather.jitter = Span::from_millis(30);
        net.connect(A);
        net.run(Span::from_millis(seed % 12));
        net.connect(B);
        let mut sent = [0, 0];
        for _ in 0..1000 {
            net.run(Span::from_millis(2));
            for end in [A, B] {
                sent[end] += usize::from(net.send(end, b"packet"));
            }
        }
        net.run(Span::from_millis(100));
        assert!(sent[A] > 900 && sent[B] > 900, "{sent:?}");
        assert_eq!([net.delivered[B].len(), net.delivered[A].len()], sent, "seed {seed}");
        for end in [A, B] {
            assert_eq!(net.count(end, |event| matches!(event, Event::Lost { .. })), 0);
        }
    }
}

#[test]
fn rekeying_by_time_under_traffic_loses_no_packet() {
    let mut config = Config::default();
    config.rekey_after = Span::from_secs(4);
    config.reject_after = Span::from_secs(6);
    for seed in 0..4 {
        let mut net = Net::with(300 + seed, [config.clone(), config.clone()], [None, None]);
        net.weather = Weather { duplicate: 0.05, jitter: Span::from_millis(40), ..Weather::FINE };
        net.establish();
        let mut sent = [0, 0];
        for round in 0..20_000u32 {
            net.run(Span::from_millis(3));
            for end in [A, B] {
                sent[end] += usize::from(net.send(end, &round.to_be_bytes()));
            }
        }
        net.run(Span::from_millis(200));
        assert_eq!(sent, [20_000, 20_000]);
        assert_eq!([net.delivered[B].len(), net.delivered[A].len()], sent, "seed {seed}");
        // 60 s at a rekeying every 4 to 4.6 s.
        let rekeyed = net.count(A, |event| matches!(event, Event::Rekeyed { .. }));
        assert!((12..=16).contains(&rekeyed), "{rekeyed}");
        assert_eq!(net.count(B, established), 1);
    }
}

#[test]
fn rekeying_goes_on_under_loss_without_the_path_being_lost() {
    let mut config = Config::default();
    config.rekey_after = Span::from_secs(20);
    config.reject_after = Span::from_secs(60);
    let mut net = Net::with(5, [config.clone(), config], [None, None]);
    net.establish();
    net.weather = Weather { loss: 0.3, duplicate: 0.1, delay: Span::from_millis(30), jitter: Span::from_millis(300) };
    for _ in 0..6000 {
        net.run(Span::from_millis(50));
        for end in [A, B] {
            assert!(net.send(end, b"packet"));
        }
    }
    let share = net.delivered[B].len() as f64 / 6000.0;
    assert!((0.66..0.74).contains(&share), "{share}");
    for end in [A, B] {
        assert_eq!(net.count(end, |event| matches!(event, Event::Lost { .. })), 0);
        assert!(net.count(end, |event| matches!(event, Event::Rekeyed { .. })) >= 10);
    }
}

#[test]
fn volume_calls_for_new_keys_and_the_hard_limit_stops_the_old_ones() {
    for bytes in [false, true] {
        let mut config = Config::default();
        if bytes {
            config.rekey_after_bytes = 100 * (100 + OVERHEAD as u64);
            config.reject_after_bytes = 200 * (100 + OVERHEAD as u64);
        } else {
            config.rekey_after_packets = 100;
            config.reject_after_packets = 200;
        }
        let mut net = Net::with(6, [config.clone(), config], [None, None]);
        net.establish();
        for _ in 0..1000 {
            net.run(Span::from_millis(5));
            assert!(net.send(A, &[1; 100]));
        }
        net.run(Span::from_millis(100));
        assert_eq!(net.delivered[B].len(), 1000);
        let rekeyed = net.count(A, |event| matches!(event, Event::Rekeyed { .. }));
        assert!((8..=10).contains(&rekeyed), "{rekeyed}");
        // Nobody answers any more.
        net.weather.loss = 1.0;
        let path = net.paths[A].unwrap();
        let mut out = [0; 200];
        let sealed =
            (0..300).take_while(|_| net.ends[A].seal(net.now, path, 0, &[], &[1; 100], &mut out).is_ok()).count();
        assert!(sealed <= 200, "{sealed}");
        assert_eq!(net.ends[A].seal(net.now, path, 0, &[], &[1], &mut out), Err(SealError::Exhausted));
    }
}

#[test]
fn old_keys_are_refused_after_their_time_and_the_path_is_reported_lost() {
    let mut net = Net::new(7);
    net.establish();
    assert!(net.send(A, b"early"));
    let early = net.recorded.last().unwrap().bytes.clone();
    net.flying.clear();
    net.weather.loss = 1.0;
    net.run(Span::from_secs(200));
    for end in [A, B] {
        assert!(!net.is_up(end));
        assert_eq!(net.count(end, |event| matches!(event, Event::Lost { .. })), 1, "{:?}", net.events[end]);
    }
    assert_eq!(net.give(B, &early), Received::Dropped(DropReason::UnknownIndex));
    // The link comes back: the end that was told to connect does so by itself.
    net.weather = Weather::FINE;
    net.run(Span::from_secs(8));
    assert!(net.is_up(A) && net.is_up(B));
    assert_eq!([A, B].map(|end| net.count(end, established)), [2, 2]);
}

#[test]
fn a_short_outage_is_noticed_and_its_end_too_without_new_keys() {
    let mut net = Net::new(8);
    net.establish();
    net.send(A, b"packet");
    net.weather.loss = 1.0;
    for _ in 0..120 {
        net.send(A, b"packet");
        net.send(B, b"packet");
        net.run(Span::from_millis(100));
    }
    for end in [A, B] {
        assert!(
            matches!(net.events[end].last(), Some(Event::Lost { reason: LostReason::Silent, .. })),
            "{:?}",
            net.events[end]
        );
    }
    net.weather = Weather::FINE;
    net.send(A, b"packet");
    net.send(B, b"packet");
    net.run(Span::from_millis(50));
    for end in [A, B] {
        assert!(matches!(net.events[end].last(), Some(Event::Established { restarted: false, .. })));
    }
}

#[test]
fn one_way_traffic_keeps_the_path_up_and_an_idle_path_stays_quiet() {
    let mut net = Net::new(9);
    net.establish();
    for _ in 0..3000 {
        assert!(net.send(A, b"packet"));
        net.run(Span::from_millis(10));
    }
    assert_eq!(net.count(A, |event| !established(event)), 0, "{:?}", net.events[A]);
    net.run(Span::from_secs(5));
    let before = net.recorded.len();
    net.run(Span::from_secs(60));
    assert_eq!(net.recorded.len(), before);
}

#[test]
fn keepalives_are_sent_when_nothing_else_was() {
    let mut net = Net::new(10);
    let mut config = PeerConfig::new(net.keys[B].public_key());
    config.keepalive = Some(Span::from_secs(5));
    net.ends[A].remove_peer(net.peers[A]);
    net.peers[A] = net.ends[A].add_peer(config).unwrap();
    net.establish();
    let before = net.ends[B].stats().keepalives;
    net.run(Span::from_secs(52));
    let keepalives = net.ends[B].stats().keepalives - before;
    assert!((10..=11).contains(&keepalives), "{keepalives}");
    assert!(net.delivered[B].is_empty(), "a keepalive is not handed on");
}

#[test]
fn a_restarted_client_is_known_as_restarted_and_its_old_session_is_gone() {
    let mut net = Net::new(11);
    net.establish();
    assert!(net.send(A, b"before"));
    let old = net.recorded.last().unwrap().bytes.clone();
    net.flying.clear();
    net.restart(A);
    net.connect(A);
    net.run(Span::from_millis(200));
    let Some(Event::Established { restarted: true, instance, .. }) = net.events[B].last() else {
        panic!("{:?}", net.events[B])
    };
    assert_eq!(*instance, net.ends[A].instance());
    assert_eq!(net.give(B, &old), Received::Dropped(DropReason::UnknownIndex));
    assert!(net.send(B, b"after"));
    net.run(Span::from_millis(50));
    assert_eq!(net.delivered[A].last().unwrap(), b"after");
}

#[test]
fn what_a_former_process_sent_by_another_channel_is_taken_no_more_once_the_next_one_is_known() {
    let mut net = Net::new(14);
    net.establish();
    let to = net.address[B];
    let other = net.ends[A].connect(net.now, net.peers[A], ChannelId(1), SocketId(0), to, b"from a".to_vec()).unwrap();
    net.drain(A);
    net.run(Span::from_millis(200));
    net.paths[A] = Some(other);
    assert!(net.send(A, b"at once") && net.send(A, b"much later"));
    let late = net.recorded.last().unwrap().bytes.clone();
    let at_once = net.recorded[net.recorded.len() - 2].bytes.clone();
    net.flying.clear();
    assert!(matches!(net.give(B, &at_once), Received::Data(_)), "the process is alive");
    net.restart(A);
    net.connect(A);
    net.run(Span::from_millis(200));
    assert!(matches!(net.events[B].last(), Some(Event::Established { restarted: true, .. })), "{:?}", net.events[B]);
    assert_eq!(net.give(B, &late), Received::Dropped(DropReason::Expired));
    // The new process has the other channel as well.
    net.ends[A].connect(net.now, net.peers[A], ChannelId(1), SocketId(0), to, b"from a".to_vec()).unwrap();
    net.drain(A);
    net.run(Span::from_millis(200));
    assert!(matches!(net.events[B].last(), Some(Event::Established { restarted: true, .. })), "{:?}", net.events[B]);
}

#[test]
fn a_restarted_server_without_any_state_is_found_again_within_seconds() {
    let mut net = Net::new(12);
    net.establish();
    net.restart(B);
    let mut waited = 0;
    while !net.is_up(B) {
        net.send(A, b"packet");
        net.run(Span::from_millis(100));
        waited += 1;
        assert!(waited < 50, "5 s and no session");
    }
    net.run(Span::from_millis(100));
    assert!(matches!(net.events[A].last(), Some(Event::Established { restarted: true, .. })), "{:?}", net.events[A]);
    assert_eq!(net.count(A, |event| matches!(event, Event::Lost { .. })), 0);
}

#[test]
fn both_ends_follow_a_peer_to_a_new_address_but_not_for_old_or_forged_packets() {
    let mut net = Net::new(13);
    net.establish();
    let elsewhere = "198.51.100.7:4242".parse().unwrap();
    let seal = |net: &mut Net| {
        let mut out = vec![0; 200];
        let len = net.ends[A].seal(net.now, net.paths[A].unwrap(), 0, b"", b"packet", &mut out).unwrap();
        out.truncate(len);
        out
    };
    let (first, second) = (seal(&mut net), seal(&mut net));
    let mut forged = seal(&mut net);
    forged[20] ^= 1;
    assert_eq!(net.give_from(B, elsewhere, &forged), Received::Dropped(DropReason::Authentication));
    assert!(matches!(net.give(B, &second), Received::Data(_)));
    assert!(matches!(net.give_from(B, elsewhere, &first), Received::Data(_)));
    assert_eq!(
        net.ends[B].endpoint(net.paths[B].unwrap()).unwrap().address,
        net.address[A],
        "an older packet moved it"
    );
    let third = seal(&mut net);
    assert!(matches!(net.give_from(B, elsewhere, &third), Received::Data(_)));
    assert_eq!(net.ends[B].endpoint(net.paths[B].unwrap()).unwrap().address, elsewhere);
    let Some(Event::Roamed { from, to, .. }) = net.ends[B].poll_event() else { panic!() };
    assert_eq!((from.address, to.address), (net.address[A], elsewhere));
}

#[test]
fn two_channels_of_a_peer_have_sessions_of_their_own() {
    let mut net = Net::new(14);
    net.establish();
    let other = net.ends[A].connect(net.now, net.peers[A], ChannelId(5), SocketId(3), net.address[B], vec![5]).unwrap();
    net.drain(A);
    net.run(Span::from_millis(100));
    assert!(matches!(net.events[B].last(), Some(Event::Established { channel: ChannelId(5), .. })));
    let mut out = [0; 100];
    let len = net.ends[A].seal(net.now, other, FLAG_CHECKSUM_PARTIAL | 0x80, b"x", b"y", &mut out).unwrap();
    let Received::Data(data) = net.give(B, &out[..len]) else { panic!() };
    assert_eq!((data.channel, data.flags, data.len), (ChannelId(5), FLAG_CHECKSUM_PARTIAL, 2));
    net.ends[A].remove_path(other);
    assert_eq!(net.ends[A].seal(net.now, other, 0, b"", b"", &mut out), Err(SealError::UnknownPath));
    assert_eq!(
        net.ends[A].connect(net.now, net.peers[A], ChannelId(64), SocketId(0), net.address[B], vec![]),
        Err(ConnectError::Channel(ChannelId(64)))
    );
}

#[test]
fn under_a_flood_of_initiations_a_peer_still_gets_in_by_a_cookie() {
    let mut config = Config::default();
    config.handshakes_per_second = 10;
    let mut net = Net::with(15, [Config::default(), config], [None, None]);
    // Initiations that cost a handshake each: made with the right public key by an unknown peer.
    let stranger = PrivateKey::from_bytes([9; 32]);
    let mut flooder = sessions(&Config::default(), &stranger, 99, net.now);
    let peer = flooder.add_peer(PeerConfig::new(net.keys[B].public_key())).unwrap();
    let mut flood = Vec::new();
    for channel in 0..60 {
        flooder.connect(net.now, peer, ChannelId(channel), SocketId(0), net.address[B], vec![]).unwrap();
        flood.push(flooder.poll_transmit().unwrap().payload);
    }
    for step in 0..40 {
        for (number, initiation) in flood.iter().enumerate() {
            let source = format!("203.0.113.{}:{}", number, 1024 + step).parse().unwrap();
            net.give_from(B, source, initiation);
        }
        // The cookie replies go to the flooder's addresses.
        while net.ends[B].poll_transmit().is_some() {}
        if step == 2 {
            net.connect(A);
        }
        net.run(Span::from_millis(25));
        if net.is_up(B) {
            break;
        }
    }
    let stats = net.ends[B].stats();
    assert!(net.is_up(A) && net.is_up(B), "{stats:?}");
    assert!(net.ends[A].stats().cookies >= 1 && stats.dropped(DropReason::CookieDemanded) > 100);
    // The bucket's burst, and 10 a second for at most a second.
    assert!(stats.dropped(DropReason::UnknownPeer) <= 21, "{stats:?}");
    let told = net.count(B, |event| matches!(event, Event::Rejected { .. }));
    assert!((1..=25).contains(&told), "{told}");
}

/// Gives B as much computing as the next `steps` steps of handshakes.
fn compute(net: &mut Net, steps: usize) {
    for _ in 0..steps {
        let Some(work) = net.ends[B].poll_work() else { return };
        let now = net.now;
        net.ends[B].handle_done(now, work.run(&mut SeededEntropy::new(now.as_nanos())));
    }
    net.drain(B);
}

#[test]
fn handshakes_computed_elsewhere_complete_and_a_proven_flood_keeps_neither_peers_nor_newcomers_out() {
    let mut config = Config::default();
    // Proof is asked for, and all of the flood has it: all of it is worth computing, five times as many as B can compute.
    config.handshakes_per_second = 1;
    let mut patient = Config::default();
    patient.rekey_after = Span::from_secs(2);
    let mut net = Net::with(18, [patient, config], [None, None]);
    net.strays = Some(Vec::new());
    net.ends[B].offload();
    net.connect(A);
    net.run(Span::from_millis(15));
    assert!(!net.is_up(B), "nothing is answered before it is computed");
    compute(&mut net, 2);
    net.run(Span::from_millis(50));
    assert!(net.is_up(A) && net.is_up(B));
    // Strangers who know B's key; none of the networks is A's. What B computes makes room for five more of them, so that
    // there is none when A's come.
    const NETWORKS: usize = 300;
    const SOCKETS: usize = 8;
    let from = |n: usize| {
        format!("203.{}.{}.7:{}", n % NETWORKS / 200, n % NETWORKS % 200, 1024 + n / NETWORKS).parse().unwrap()
    };
    let flood: Vec<_> = (0..NETWORKS * SOCKETS).map(|n| (from(n), proven(&mut net, from(n), n as u8))).collect();
    while let Some(work) = net.ends[B].poll_work() {
        net.ends[B].handle_done(net.now, work.run(&mut SeededEntropy::new(7)));
    }
    let mut given = 0;
    let mut step_of_flood = |net: &mut Net, networks: usize| {
        compute(net, 1);
        for _ in 0..5 {
            let (from, initiation) = &flood[given % networks + given / networks % SOCKETS * NETWORKS];
            let received = net.give_from(B, *from, initiation);
            assert!(matches!(received, Received::Queued | Received::Dropped(DropReason::RateLimited)), "{received:?}");
            given += 1;
        }
    };
    // From more networks than have room to wait, of which each turn takes longer than A waits for an answer.
    for _ in 0..400 {
        step_of_flood(&mut net, 300);
        assert!(net.send(A, b"packet"));
        net.run(Span::from_millis(10));
    }
    let stats = net.ends[B].stats();
    assert!(net.count(B, |event| matches!(event, Event::Rekeyed { .. })) >= 1, "{stats:?}");
    assert!(stats.dropped(DropReason::RateLimited) > 1000 && stats.dropped(DropReason::UnknownPeer) > 300);
    let stats = net.ends[A].stats();
    assert_eq!(stats.initiations_sent, stats.handshakes + stats.cookies, "but for the proof none was tried again");
    assert!(stats.cookies <= 1, "a proof is good for two minutes: {stats:?}");
    // A process of the peer's that has no session yet, from where it never was, while the flood is from 20 networks.
    (0..400).for_each(|_| step_of_flood(&mut net, 20));
    net.address[A] = "198.51.100.7:1000".parse().unwrap();
    net.restart(A);
    net.connect(A);
    let mut waited = 0;
    while !(net.is_up(A) && net.is_up(B)) {
        step_of_flood(&mut net, 20);
        net.run(Span::from_millis(1));
        waited += 1;
        // One turn of each of the networks, and of what was given to compute by then.
        assert!(waited < 200, "{waited} ms");
    }
}

/// A peer that B does not know, and his call to it.
fn stranger(net: &Net, key: u8) -> (Sessions, Vec<u8>) {
    let mut stranger = sessions(&Config::default(), &PrivateKey::from_bytes([key.max(101); 32]), 99, net.now);
    let peer = stranger.add_peer(PeerConfig::new(net.keys[B].public_key())).unwrap();
    stranger.connect(net.now, peer, ChannelId(0), SocketId(0), net.address[B], vec![]).unwrap();
    let call = stranger.poll_transmit().unwrap().payload;
    (stranger, call)
}

/// Such a call with proof that it comes from `from`.
fn proven(net: &mut Net, from: SocketAddr, key: u8) -> Vec<u8> {
    let (mut stranger, plain) = stranger(net, key);
    while net.give_from(B, from, &plain) == Received::Queued {}
    net.drain(B);
    let reply = net.strays.as_mut().and_then(Vec::pop).expect("a request for proof");
    assert_eq!(reply.destination, from);
    stranger.handle_datagram(net.now, SocketId(0), net.address[B], &reply.payload, &mut []);
    stranger.handle_timeout(net.now);
    stranger.poll_transmit().expect("a proof").payload
}

/// B has so little time to compute that all that it lets in without proof would keep A waiting for longer than A waits for an answer.
#[test]
fn where_many_wait_a_caller_proves_its_address_and_its_newest_call_is_computed() {
    let mut net = Net::new(21);
    net.strays = Some(Vec::new());
    net.ends[B].offload();
    let calls: Vec<_> = (0..100).map(|n| stranger(&net, 101 + n).1).collect();
    // Of two hundred strangers' calls a second six are computed.
    let step = |net: &mut Net, n: usize| {
        if n.is_multiple_of(33) {
            compute(net, 1);
        }
        let from = format!("198.51.{}.7:9", n % 100).parse().unwrap();
        net.give_from(B, from, &calls[n % 100]);
        net.run(Span::from_millis(5));
    };
    (0..400).for_each(|n| step(&mut net, n));
    net.connect(A);
    let let_in = (400..4_400).find(|&n| {
        step(&mut net, n);
        net.is_up(A) && net.is_up(B)
    });
    assert!(let_in.is_some(), "kept out for twenty seconds: {:?}", net.ends[A].stats());
    assert!(net.ends[A].stats().cookies >= 1);
}

#[test]
fn what_is_removed_while_its_handshake_is_computed_elsewhere_leaves_nothing_behind() {
    let mut config = Config::default();
    config.sessions = 2;
    let mut net = Net::with(19, [Config::default(), config], [None, None]);
    net.ends[B].offload();
    for _ in 0..20 {
        net.restart(A);
        net.connect(A);
        net.run(Span::from_millis(15));
        compute(&mut net, 1);
        let step = net.ends[B].poll_work().expect("the answer");
        let peer = net.peers[B];
        net.ends[B].remove_peer(peer);
        net.ends[B].handle_done(net.now, step.run(&mut SeededEntropy::new(1)));
        assert_eq!(net.ends[B].poll_transmit(), None);
        net.peers[B] = net.ends[B].add_peer(PeerConfig::new(net.keys[A].public_key())).unwrap();
        net.run(Span::from_secs(1));
        while net.ends[B].poll_work().is_some() {}
    }
    assert_eq!(net.ends[B].stats().dropped(DropReason::SessionsFull), 0);
}

#[test]
fn what_a_peer_may_open_is_bounded() {
    let mut config = Config::default();
    config.channels_per_peer = 2;
    config.sessions = 4;
    let mut net = Net::with(16, [Config::default(), config], [None, None]);
    net.establish();
    for channel in 1..3 {
        net.ends[A].connect(net.now, net.peers[A], ChannelId(channel), SocketId(0), net.address[B], vec![]).unwrap();
    }
    net.drain(A);
    net.run(Span::from_millis(100));
    assert_eq!(net.ends[B].stats().dropped(DropReason::Channel), 1);
    let refused = |event: &Event| matches!(event, Event::Rejected { reason: RejectReason::Channel(2), .. });
    assert_eq!(net.count(B, refused), 1);
    // A process of the peer that never confirms what it began fills the slots; the established session stays.
    let mut other = sessions(&Config::default(), &net.keys[A], 77, net.now);
    let peer = other.add_peer(PeerConfig::new(net.keys[B].public_key())).unwrap();
    let path = other.connect(net.now, peer, ChannelId(0), SocketId(0), net.address[B], vec![]).unwrap();
    for _ in 0..10 {
        other.refresh(net.now, path);
        while let Some(sent) = other.poll_transmit() {
            net.give(B, &sent.payload);
        }
        while net.ends[B].poll_transmit().is_some() {}
    }
    assert!(net.ends[B].stats().dropped(DropReason::SessionsFull) > 0);
    assert!(net.send(A, b"still"));
    net.run(Span::from_millis(50));
    assert_eq!(net.delivered[B], [b"still".to_vec()]);
}

#[test]
fn a_peer_or_setting_that_cannot_be_is_refused_by_name() {
    let mut net = Net::new(17);
    let own = net.ends[A].public_key();
    assert_eq!(net.ends[A].add_peer(PeerConfig::new(own)), Err(AddPeerError::OwnKey));
    let known = net.keys[B].public_key();
    assert_eq!(net.ends[A].add_peer(PeerConfig::new(known)), Err(AddPeerError::Exists(known)));
    let mut long = PeerConfig::new(PublicKey::from_bytes([1; 32]));
    long.hello = vec![0; HELLO_MAX + 1];
    assert_eq!(net.ends[A].add_peer(long), Err(AddPeerError::HelloTooLong(HELLO_MAX + 1)));
    net.ends[A].remove_peer(net.peers[A]);
    assert_eq!(
        net.ends[A].connect(Time::ZERO, net.peers[A], ChannelId(0), SocketId(0), net.address[B], vec![]),
        Err(ConnectError::UnknownPeer)
    );
}

#[test]
fn the_longest_hellos_pass() {
    let mut net = Net::new(18);
    let to = net.address[B];
    net.ends[A].connect(net.now, net.peers[A], ChannelId(0), SocketId(0), to, vec![1; HELLO_MAX]).unwrap();
    net.drain(A);
    net.run(Span::from_millis(100));
    let Event::Established { hello, .. } = &net.events[B][0] else { panic!() };
    assert_eq!(hello.len(), HELLO_MAX);
}

/// The datagrams in which an end sends these packets, sealed anew from the same keys and counters each time.
fn sealed(padding: bool, packets: &[(u8, Vec<u8>)]) -> Vec<Vec<u8>> {
    let mut config = Config::default();
    config.padding = padding;
    let mut net = Net::with(21, [config, Config::default()], [None, None]);
    net.establish();
    let path = net.paths[A].unwrap();
    let seal = |(flags, packet): &(u8, Vec<u8>)| {
        let mut out = vec![0; net.ends[A].sealed_len(packet.len())];
        let (head, body) = packet.split_at(packet.len() / 3);
        let len = net.ends[A].seal(net.now, path, *flags, head, body, &mut out).unwrap();
        assert_eq!(len, out.len());
        let mut opened = vec![0; len];
        // The other end pads nothing itself, and takes it.
        match net.ends[B].handle_datagram(net.now, SocketId(0), net.address[A], &out, &mut opened) {
            Received::Data(data) => assert_eq!((&opened[..data.len], data.flags), (&packet[..], *flags)),
            received => assert_eq!((received, packet.len()), (Received::Control, 0)),
        }
        out
    };
    packets.iter().map(seal).collect()
}

#[test]
fn nobody_but_the_peer_sees_that_a_checksum_is_partial() {
    let packet = vec![7; 100];
    let with = sealed(false, &[(FLAG_CHECKSUM_PARTIAL, packet.clone())]).remove(0);
    let without = sealed(false, &[(0, packet.clone())]).remove(0);
    assert_eq!(with.len(), without.len());
    // The same keys and the same counter, so both have one key stream: what differs is the last byte encrypted, and the tag.
    let clear = DATA_HEADER_LEN + packet.len();
    assert_eq!(with[..clear], without[..clear]);
    assert_eq!(with[clear] ^ without[clear], FLAG_CHECKSUM_PARTIAL);
}

#[test]
fn padding_hides_all_of_a_length_but_its_sixteens_and_the_peer_gets_what_was_sent() {
    let packets: Vec<(u8, Vec<u8>)> = (0..1500).map(|len| (0, (0..len).map(|n| n as u8).collect())).collect();
    for (datagram, (_, packet)) in sealed(true, &packets).iter().zip(&packets) {
        assert_eq!(datagram.len(), OVERHEAD - 1 + (packet.len() / 16 + 1) * 16);
        assert!(datagram.len() <= packet.len() + overhead(true));
    }
    for (datagram, (_, packet)) in sealed(false, &packets).iter().zip(&packets) {
        assert_eq!(datagram.len(), packet.len() + OVERHEAD);
    }
}
