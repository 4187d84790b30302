//! Recorded handshakes, replayed: that nobody gets an answer to them, and that they keep nobody out.

#[expect(dead_code, reason = "shared with another test program")]
mod secure_net;

use fairspan_core::units::{ChannelId, Span};
use fairspan_live::secure::*;
use secure_net::{A, B, Net, Weather, YEAR_2020, sessions};
use std::net::SocketAddr;

const RESPONSE: u8 = 2;
/// Initiations that an attacker has recorded, each given from a network of its own.
const RECORDINGS: usize = 1000;
/// Replays in each step of a millisecond: 10,000 a second.
const REPLAYS_PER_STEP: usize = 10;
/// One ping each way in this many steps.
const PING_EVERY: u64 = 10;

/// Initiations of former processes of A to B, which nobody answered; the newest is the last.
fn recordings(net: &mut Net) -> Vec<Vec<u8>> {
    let mut recorded = Vec::new();
    for process in 0..10 {
        let mut former = sessions(&net.configs[A], &net.keys[A], 500 + process, net.now);
        let peer = former.add_peer(PeerConfig::new(net.keys[B].public_key())).unwrap();
        let path = former.connect(net.now, peer, ChannelId(0), SocketId(0), net.address[B], vec![]).unwrap();
        while recorded.len() < RECORDINGS / 10 * (process as usize + 1) {
            recorded.extend(former.poll_transmit().map(|sent| sent.payload));
            net.now += Span::from_millis(1);
            former.refresh(net.now, path);
        }
    }
    recorded
}

/// Lets B hear the newest of them, as it did when they were recorded, and restart with what it has kept of that.
fn remember(net: &mut Net, recorded: &[Vec<u8>]) {
    assert_eq!(net.give(B, recorded.last().unwrap()), Received::Control);
    let memory = net.ends[B].memory();
    net.restart_with(B, Past::remembered(YEAR_2020 + net.now.as_nanos(), memory));
}

/// What came of a run.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    /// When the ends could first seal, in milliseconds.
    up: [Option<u64>; 2],
    /// Pings sent and received by each end.
    sent: [usize; 2],
    received: [usize; 2],
    rekeyed: usize,
    lost: usize,
    /// Replays that were answered, and that were told their peer's stamps.
    answers: usize,
    behind: u64,
}

/// A connects after 100 ms; then pings pass both ways while keys are made anew each second and a bit. With `replays`, B
/// gets recordings the whole time.
fn run(seed: u64, remembers: bool, replays: bool) -> Outcome {
    let mut config = Config::default();
    config.rekey_after = Span::from_secs(1);
    config.reject_after = Span::from_secs(3);
    let mut net = Net::with(seed, [config.clone(), config], [None, None]);
    net.strays = Some(Vec::new());
    let recorded = recordings(&mut net);
    if remembers {
        remember(&mut net, &recorded);
    }
    let mut outcome = Outcome::default();
    let mut next = 0;
    for step in 0..5000_u64 {
        if step == 100 {
            net.connect(A);
        }
        for _ in 0..if replays { REPLAYS_PER_STEP } else { 0 } {
            let number = next % RECORDINGS;
            let from: SocketAddr = format!("10.{}.{}.7:4000", number / 250, number % 250).parse().unwrap();
            net.give_from(B, from, &recorded[number]);
            net.drain(B);
            next += 1;
        }
        net.run(Span::from_millis(1));
        for end in [A, B] {
            if outcome.up[end].is_none() && net.is_up(end) {
                outcome.up[end] = Some(step);
            }
            if step % PING_EVERY == 0 && net.send(end, b"ping") {
                outcome.sent[end] += 1;
            }
        }
    }
    net.run(Span::from_millis(50));
    outcome.received = net.delivered.each_ref().map(Vec::len);
    outcome.rekeyed = net.count(B, |event| matches!(event, Event::Rekeyed { .. }));
    outcome.lost = net.count(A, |event| matches!(event, Event::Lost { .. }));
    outcome.answers = net.strays.unwrap().iter().filter(|sent| sent.payload[0] == RESPONSE).count();
    outcome.behind = net.ends[B].stats().behind_sent;
    outcome
}

fn cost_no_ping(control: &Outcome, replayed: &Outcome) {
    println!("without: {control:?}");
    println!("with:    {replayed:?}");
    for outcome in [control, replayed] {
        assert!(outcome.rekeyed >= 3 && outcome.lost == 0 && outcome.behind == 0);
        assert_eq!([outcome.sent[A], outcome.sent[B]], [outcome.received[B], outcome.received[A]], "no ping is lost");
    }
    // The peer proves its address first: a round trip of 20 ms.
    for end in [A, B] {
        let late = replayed.up[end].unwrap() - control.up[end].unwrap();
        assert!(late <= 21, "connected {late} ms later");
        assert!(replayed.sent[end] + 3 >= control.sent[end], "a round trip of pings, and no more");
    }
}

#[test]
fn ten_thousand_replays_a_second_get_no_answer_and_cost_no_ping_while_connecting_established_and_rekeying() {
    for seed in 1..=3 {
        let (control, replayed) = (run(seed, true, false), run(seed, true, true));
        cost_no_ping(&control, &replayed);
        assert_eq!(replayed.answers, 0, "replays that were answered");
    }
}

#[test]
fn a_responder_that_has_lost_its_memory_answers_a_recording_once_at_most_and_keeps_nobody_out() {
    let (control, replayed) = (run(4, false, false), run(4, false, true));
    cost_no_ping(&control, &replayed);
    // Before the genuine peer came: the burst of 100 handshakes, and 100 a second.
    assert!((1..=111).contains(&replayed.answers), "{}", replayed.answers);
}

#[test]
fn a_recording_takes_no_place_from_a_handshake_that_waits_for_its_proof() {
    let mut net = Net::new(5);
    net.strays = Some(Vec::new());
    let recorded = recordings(&mut net);
    remember(&mut net, &recorded);
    net.weather = Weather { delay: Span::from_millis(900), ..Weather::FINE };
    net.connect(A);
    // The answer is on its way back, and the proof not here yet.
    net.run(Span::from_millis(950));
    for old in &recorded {
        net.give(B, old);
    }
    net.drain(B);
    net.run(Span::from_secs(2));
    assert!(net.is_up(A) && net.is_up(B));
    assert_eq!(net.ends[B].stats().unconfirmed, 0);
    assert!(net.ends[B].stats().dropped(DropReason::ReplayedInitiation) >= 100);
}

#[test]
fn an_initiation_that_a_newer_one_overtook_gets_no_answer_and_the_newer_one_completes() {
    let mut net = Net::new(6);
    net.connect(A);
    let path = net.paths[A].unwrap();
    net.now += Span::from_millis(1);
    net.ends[A].refresh(net.now, path);
    net.drain(A);
    assert_eq!(net.flying.len(), 2);
    let [older, newer] = [0, 1].map(|n| net.flying[n].bytes.clone());
    net.flying.clear();
    assert_eq!(net.give(B, &newer), Received::Control);
    assert_eq!(net.give(B, &older), Received::Dropped(DropReason::ReplayedInitiation));
    net.drain(B);
    net.run(Span::from_millis(100));
    assert!(net.is_up(A) && net.is_up(B));
    // Another channel, whose link is slower, is not held to the stamps of this one.
    let slow = net.ends[A].connect(net.now, net.peers[A], ChannelId(1), SocketId(0), net.address[B], vec![]).unwrap();
    let slow_initiation = net.ends[A].poll_transmit().unwrap().payload;
    net.now += Span::from_millis(1);
    net.ends[A].refresh(net.now, path);
    while let Some(sent) = net.ends[A].poll_transmit() {
        net.give(B, &sent.payload);
    }
    assert_eq!(net.give(B, &slow_initiation), Received::Control);
    net.drain(B);
    net.run(Span::from_millis(100));
    assert!(net.ends[A].can_seal(slow));
}

#[test]
fn a_peer_comes_in_again_after_any_step_of_its_clock_and_any_loss_of_memory() {
    let second = 1_000_000_000;
    // The wall clock of the new process against that of the last; whether its memory is there.
    for (wall, remembers) in [
        (YEAR_2020 + 100 * second, false),
        (YEAR_2020 - 100_000 * second, true),
        (0, true),
        (0, false),
        (YEAR_2020 - 3600 * second, false),
    ] {
        let mut net = Net::new(7);
        net.establish();
        let memory = net.ends[A].memory();
        let past = if remembers { Past::remembered(wall, memory) } else { Past::forgotten(wall) };
        net.restart_with(A, past);
        net.connect(A);
        let mut waited = 0;
        while !(net.is_up(A) && net.count(B, |event| matches!(event, Event::Established { .. })) == 2) {
            net.run(Span::from_millis(100));
            waited += 100;
            assert!(waited < 20_000, "clock {wall}, memory {remembers}: not in after 20 s");
        }
        let told = net.ends[A].stats().behind;
        println!("clock {wall}, memory {remembers}: {waited} ms, told {told} times");
        assert_eq!(told > 0, !remembers && wall < YEAR_2020, "only who has lost its memory and is behind needs help");
    }
}

#[test]
fn a_peer_that_is_behind_is_told_so_at_most_every_ten_seconds_and_never_while_it_is_heard() {
    let mut net = Net::new(8);
    net.strays = Some(Vec::new());
    let recorded = recordings(&mut net);
    remember(&mut net, &recorded);
    for _ in 0..300 {
        for old in recorded.iter().take(20) {
            let answer = net.give_from(B, "203.0.113.5:5".parse().unwrap(), old);
            assert!(matches!(answer, Received::Dropped(_)), "{answer:?}");
        }
        net.drain(B);
        net.run(Span::from_millis(100));
    }
    let told = net.ends[B].stats().behind_sent;
    assert!((2..=3).contains(&told), "{told} in 30 s");
    assert!(net.strays.as_ref().unwrap().iter().all(|sent| sent.payload.len() < recorded[0].len()), "no amplification");
    // Nobody else can read it, or make the peer believe another.
    let told = net.strays.as_ref().unwrap().iter().find(|sent| sent.payload[0] == 6).unwrap().payload.clone();
    net.connect(A);
    assert_eq!(net.give(A, &told), Received::Dropped(DropReason::UnknownIndex));
    let index = net.flying[0].bytes[4..8].to_vec();
    let mut aimed = told.clone();
    aimed[4..8].copy_from_slice(&index);
    assert_eq!(net.give(A, &aimed), Received::Dropped(DropReason::BadReply));
    net.run(Span::from_millis(500));
    assert!(net.is_up(A) && net.is_up(B));
    let before = net.ends[B].stats().behind_sent;
    for _ in 0..11 {
        assert!(net.send(A, b"still here"));
        net.run(Span::from_secs(1));
    }
    for old in &recorded {
        net.give(B, old);
    }
    assert_eq!(net.ends[B].stats().behind_sent, before);
}
