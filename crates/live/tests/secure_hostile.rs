//! What an attacker or a wrongly set up peer can send, and that none of it gets through, disturbs, or is answered.

#[expect(dead_code, reason = "shared with another test program")]
mod secure_net;

use fairspan_core::rng::Rng;
use fairspan_core::units::{ChannelId, Span, Time};
use fairspan_live::secure::*;
use secure_net::{A, B, Net, Weather, sessions};

/// That packets still pass both ways, on the sessions there are.
fn passes(net: &mut Net) {
    let before = net.delivered.each_ref().map(Vec::len);
    for end in [A, B] {
        assert!(net.send(end, b"genuine"));
    }
    net.run(Span::from_millis(50));
    assert_eq!(net.delivered.each_ref().map(Vec::len), before.map(|n| n + 1));
}

/// The four kinds of datagrams that a genuine conversation has, by sender.
fn conversation(net: &mut Net) -> Vec<secure_net::Flying> {
    net.establish();
    for end in [A, B] {
        net.send(end, &[0x5a; 60]);
    }
    net.run(Span::from_millis(50));
    net.recorded.clone()
}

#[test]
fn every_recorded_datagram_replayed_is_rejected_and_disturbs_nothing() {
    let mut config = Config::default();
    config.rekey_after = Span::from_secs(4);
    config.reject_after = Span::from_secs(8);
    let mut net = Net::with(1, [config.clone(), config], [None, None]);
    net.weather = Weather { loss: 0.1, ..Weather::FINE };
    net.connect(A);
    for _ in 0..150 {
        net.run(Span::from_millis(100));
        for end in [A, B] {
            net.send(end, b"packet");
        }
    }
    net.weather = Weather::FINE;
    net.run(Span::from_secs(1));
    let recorded = net.recorded.clone();
    assert!(recorded.len() > 300);
    let delivered = net.delivered.each_ref().map(Vec::len);
    let mut late = 0;
    for old in &recorded {
        for end in [A, B] {
            let received = net.give(end, &old.bytes);
            // What was lost on the way and still lies in the window was never seen before.
            if let Received::Data(_) = received {
                late += 1;
            }
            // Given once more, nothing at all passes.
            assert!(matches!(net.give(end, &old.bytes), Received::Dropped(_)), "{received:?}");
        }
    }
    let lost = recorded.iter().filter(|old| old.bytes.len() == OVERHEAD + 6).count() - delivered[A] - delivered[B];
    assert!(late <= lost, "{late} of {lost}");
    for end in [A, B] {
        assert_eq!(net.ends[end].poll_transmit(), None, "a replay was answered");
        assert_eq!(effect(&mut net, end), None, "a replay had an effect");
    }
    passes(&mut net);
}

/// What an end tells, but that somebody calls with another key, which changes nothing.
fn effect(net: &mut Net, end: usize) -> Option<Event> {
    let other_key = |event: &Event| matches!(event, Event::Rejected { reason: RejectReason::OtherKey, .. });
    std::iter::from_fn(|| net.ends[end].poll_event()).find(|event| !other_key(event))
}

#[test]
fn calls_with_another_key_are_told_once_a_minute() {
    let mut net = Net::new(15);
    net.connect(A);
    let mut forged = net.flying.remove(0).bytes;
    forged[9] ^= 1;
    let start = net.now;
    for second in [0, 1, 30, 59, 60, 61, 200] {
        net.now = start + Span::from_secs(second);
        assert_eq!(net.give(B, &forged), Received::Dropped(DropReason::BadMac));
        let told = net.ends[B].poll_event().is_some();
        assert_eq!(told, [0, 60, 200].contains(&second), "{second}");
    }
}

#[test]
fn reflected_datagrams_are_rejected() {
    let mut net = Net::new(3);
    for old in conversation(&mut net) {
        let received = net.give(old.from, &old.bytes);
        assert!(matches!(received, Received::Dropped(_)), "{received:?}");
    }
    passes(&mut net);
}

#[test]
fn a_flipped_bit_in_any_byte_of_any_kind_of_datagram_is_rejected() {
    let mut net = Net::new(4);
    let mut rng = Rng::new(44);
    // Handshake: each message is given changed before it is given genuine.
    net.connect(A);
    for step in 0..3 {
        assert_eq!(net.flying.len(), 1, "step {step}");
        let genuine = net.flying.remove(0);
        let to = 1 - genuine.from;
        for place in 0..genuine.bytes.len() {
            // A handshake's mac2 means nothing while there is no load.
            let mac2 = step < 2 && place >= genuine.bytes.len() - 16;
            if mac2 {
                continue;
            }
            let mut forged = genuine.bytes.clone();
            forged[place] ^= 1 << rng.below(8);
            let received = net.give(to, &forged);
            assert!(matches!(received, Received::Dropped(_)), "step {step}, byte {place}: {received:?}");
            assert_eq!(effect(&mut net, to), None);
        }
        assert_eq!(net.give(to, &genuine.bytes), Received::Control, "step {step}");
        net.drain(to);
    }
    net.run(Span::from_millis(500));
    // Data.
    let path = net.paths[A].unwrap();
    let mut out = [0; 200];
    let len = net.ends[A].seal(net.now, path, FLAG_CHECKSUM_PARTIAL, b"head", &[1; 100], &mut out).unwrap();
    for place in 0..len {
        for bit in 0..8 {
            let mut forged = out[..len].to_vec();
            forged[place] ^= 1 << bit;
            assert!(matches!(net.give(B, &forged), Received::Dropped(_)), "byte {place} bit {bit}");
        }
    }
    assert!(matches!(net.give(B, &out[..len]), Received::Data(_)));
    passes(&mut net);
}

#[test]
fn every_truncation_and_every_appended_byte_is_rejected() {
    let mut net = Net::new(5);
    for old in conversation(&mut net) {
        let to = 1 - old.from;
        for len in 0..old.bytes.len() {
            assert!(matches!(net.give(to, &old.bytes[..len]), Received::Dropped(_)), "{len}");
        }
        let mut longer = old.bytes.clone();
        for _ in 0..40 {
            longer.push(0);
            assert!(matches!(net.give(to, &longer), Received::Dropped(_)));
        }
        longer.resize(65_507, 0);
        assert!(matches!(net.give(to, &longer), Received::Dropped(_)));
    }
    passes(&mut net);
}

#[test]
fn an_output_buffer_that_is_too_small_is_a_counted_drop() {
    let mut net = Net::new(6);
    net.establish();
    let mut out = [0; 200];
    let len = net.ends[A].seal(net.now, net.paths[A].unwrap(), 0, b"", &[1; 100], &mut out).unwrap();
    let (now, from) = (net.now, net.address[A]);
    let received = net.ends[B].handle_datagram(now, SocketId(0), from, &out[..len], &mut [0; 100]);
    assert_eq!(received, Received::Dropped(DropReason::Oversized));
    // The packet, and the byte behind it.
    let mut exact = [0; 101];
    assert!(matches!(net.ends[B].handle_datagram(now, SocketId(0), from, &out[..len], &mut exact), Received::Data(_)));
    assert_eq!(exact[..100], [1; 100]);
    let mut small = [0; 122];
    assert_eq!(
        net.ends[A].seal(now, net.paths[A].unwrap(), 0, &[], &[1; 100], &mut small),
        Err(SealError::BufferTooSmall { need: 123, have: 122 })
    );
}

#[test]
fn random_and_mutated_datagrams_never_panic_and_are_never_delivered() {
    let mut net = Net::new(7);
    net.establish();
    let mut rng = Rng::new(77);
    let genuine = net.recorded.clone();
    for _ in 0..60_000 {
        let mut bytes: Vec<u8> = match rng.below(3) {
            // Noise, with a genuine first byte or two.
            0 => (0..rng.below(400)).map(|_| rng.next_u64() as u8).collect(),
            // Genuine, with a few bytes changed.
            1 => genuine[rng.below(genuine.len() as u64) as usize].bytes.clone(),
            // Genuine, cut together from two.
            _ => {
                let a = &genuine[rng.below(genuine.len() as u64) as usize].bytes;
                let b = &genuine[rng.below(genuine.len() as u64) as usize].bytes;
                let cut = rng.below(a.len().min(b.len()) as u64) as usize;
                [&a[..cut], &b[cut..]].concat()
            }
        };
        for _ in 0..rng.below(4) {
            let place = rng.below(bytes.len().max(1) as u64) as usize;
            if let Some(byte) = bytes.get_mut(place) {
                *byte = rng.next_u64() as u8;
            }
        }
        if rng.below(2) == 0
            && let Some(first) = bytes.first_mut()
        {
            *first = 1 + rng.below(5) as u8;
        }
        for end in [A, B] {
            let received = net.give(end, &bytes);
            assert!(matches!(received, Received::Dropped(_)), "{received:?} {bytes:?}");
            // A genuine initiation whose mac1 came through is asked for a cookie once the handshakes of a second are
            // used up.
            let asked = received == Received::Dropped(DropReason::CookieDemanded);
            assert_eq!(net.ends[end].poll_transmit().is_some(), asked);
            assert_eq!(effect(&mut net, end), None);
        }
    }
    passes(&mut net);
}

#[test]
fn who_does_not_know_our_public_key_and_who_is_unknown_to_us_meets_silence() {
    let mut net = Net::new(8);
    let stranger = PrivateKey::from_bytes([9; 32]);
    let wrong = PublicKey::from_bytes([4; 32]);
    for (key, reason) in [(wrong, DropReason::BadMac), (net.keys[B].public_key(), DropReason::UnknownPeer)] {
        let mut other = sessions(&Config::default(), &stranger, 5, net.now);
        let peer = other.add_peer(PeerConfig::new(key)).unwrap();
        other.connect(net.now, peer, ChannelId(0), SocketId(0), net.address[B], vec![]).unwrap();
        let initiation = other.poll_transmit().unwrap().payload;
        assert_eq!(net.give(B, &initiation), Received::Dropped(reason));
        assert_eq!(net.ends[B].poll_transmit(), None);
        assert_eq!(net.ends[B].stats().dropped(reason), 1);
    }
    // Of who calls with another key the address is told; only who proved to have a key is named.
    assert!(matches!(net.ends[B].poll_event(), Some(Event::Rejected { reason: RejectReason::OtherKey, .. })));
    let Some(Event::Rejected { reason: RejectReason::UnknownPeer(key), .. }) = net.ends[B].poll_event() else {
        panic!()
    };
    assert_eq!((key, net.ends[B].poll_event()), (stranger.public_key(), None));
}

#[test]
fn preshared_keys_that_differ_give_no_session_and_a_named_reason() {
    let psk = |byte| Some(PresharedKey::from_bytes([byte; 32]));
    for psks in [[psk(1), psk(2)], [None, psk(1)], [psk(1), None]] {
        let mut net = Net::with(9, [Config::default(), Config::default()], psks);
        net.connect(A);
        net.run(Span::from_secs(5));
        assert!(!net.is_up(A) && !net.is_up(B));
        assert!(net.ends[A].stats().dropped(DropReason::Response) > 0);
        assert!(
            net.events[A].iter().all(|event| matches!(event, Event::Rejected { reason: RejectReason::Answer, .. }))
        );
        assert!(!net.events[A].is_empty());
    }
    let mut net = Net::with(9, [Config::default(), Config::default()], [psk(1), psk(1)]);
    net.establish();
    passes(&mut net);
}

#[test]
fn a_peer_of_another_version_is_told_and_named_on_both_ends() {
    let mut net = Net::new(10);
    net.connect(A);
    let mut initiation = net.flying.remove(0).bytes;
    // As a later version would send it: its own number in byte 1, mac1 made the way that all versions share.
    initiation[1] = VERSION + 1;
    assert_eq!(net.give(B, &initiation), Received::Dropped(DropReason::BadMac), "mac1 comes before anything else");
    assert!(matches!(net.ends[B].poll_event(), Some(Event::Rejected { reason: RejectReason::OtherKey, .. })));
    let key = net.keys[B].public_key();
    remac(&mut initiation, &key);
    assert_eq!(net.give(B, &initiation), Received::Dropped(DropReason::OtherVersion));
    assert!(matches!(
        net.ends[B].poll_event(),
        Some(Event::Rejected { reason: RejectReason::OtherVersion(version), .. }) if version == VERSION + 1
    ));
    let reply = net.ends[B].poll_transmit().unwrap().payload;
    assert!(reply.len() < initiation.len());
    assert_eq!(net.ends[B].poll_transmit(), None);
    // The initiator, if it were of that version, would read this; ours refuses it: it names our own version, and does not
    // belong to the initiation we sent.
    assert_eq!(net.give(A, &reply), Received::Dropped(DropReason::BadReply));

    // The other way round: a reply of a later version to the initiation that we sent.
    let mut net = Net::new(11);
    net.connect(A);
    let initiation = net.flying.remove(0).bytes;
    let mac1: [u8; 16] = initiation[initiation.len() - 32..][..16].try_into().unwrap();
    let mut reply = vec![4, VERSION + 1, 0, 0];
    reply.extend_from_slice(&initiation[4..8]);
    let proof = keyed(&hash(b"fairspan mac1\0\0\0", net.keys[B].public_key().as_bytes()), &[&reply, &mac1]);
    reply.extend_from_slice(&proof);
    let mut forged = reply.clone();
    forged[1] += 1;
    assert_eq!(net.give(A, &forged), Received::Dropped(DropReason::BadReply));
    assert_eq!(net.give(A, &reply), Received::Dropped(DropReason::OtherVersion));
    assert!(matches!(
        net.ends[A].poll_event(),
        Some(Event::Rejected { reason: RejectReason::OtherVersion(version), .. }) if version == VERSION + 1
    ));
    // Nothing else came of it: when the peer is updated, the next try succeeds.
    net.run(Span::from_secs(3));
    assert!(net.is_up(A) && net.is_up(B));
}

#[test]
fn time_that_stands_still_or_leaps_disturbs_no_session() {
    let mut net = Net::new(12);
    net.establish();
    for _ in 0..100 {
        for end in [A, B] {
            net.ends[end].handle_timeout(net.now);
            net.drain(end);
        }
    }
    passes(&mut net);
    // The machine slept for a month: the keys are past their time, and new ones are agreed.
    net.now += Span::from_secs(30 * 86_400);
    assert_eq!(
        net.ends[A].seal(net.now, net.paths[A].unwrap(), 0, b"", b"x", &mut [0; 100]),
        Err(SealError::Exhausted)
    );
    net.run(Span::from_secs(1));
    passes(&mut net);
    // At the end of time nothing overflows.
    for end in [A, B] {
        net.ends[end].handle_timeout(Time::MAX);
    }
}

// The macs again, from their description, by another road than the code under test.

fn hash(label: &[u8], key: &[u8]) -> [u8; 32] {
    use blake2::Digest;
    blake2::Blake2s256::new().chain_update(label).chain_update(key).finalize().into()
}

fn keyed(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 16] {
    use blake2::digest::{FixedOutput, KeyInit, Update, consts::U16};
    let mut mac = <blake2::Blake2sMac<U16> as KeyInit>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize_fixed().into()
}

fn remac(message: &mut [u8], key: &PublicKey) {
    let place = message.len() - 32;
    let mac1 = keyed(&hash(b"fairspan mac1\0\0\0", key.as_bytes()), &[&message[..place]]);
    message[place..place + 16].copy_from_slice(&mac1);
}
