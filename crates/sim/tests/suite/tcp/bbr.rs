//! BBR on a connection: draft-ietf-ccwg-bbr, sections 5.3, 5.5 and 5.6, segment by segment.

use super::script::*;
use fairspan_core::units::{Bytes, Rate};
use fairspan_sim::tcp::Config;

fn bbr(changes: &[(&str, &str)]) -> Config {
    let mut all =
        vec![("congestion", "bbr"), ("pacing", "true"), ("limited_transmit", "false"), ("delayed_ack", "0ms")];
    all.extend_from_slice(changes);
    config("rfc", &all)
}

/// A window of ten segments that went out at 100 ms, behind which there is no end of data.
fn begun(changes: &[(&str, &str)]) -> Script {
    let mut script = Script::established(&bbr(changes));
    script.write(1 << 30);
    for n in 0..10 {
        script.expect_data(n, 1);
    }
    script
}

/// When each segment went out, in nanoseconds after `from` milliseconds.
fn times(script: &mut Script, from: u64) -> Vec<u64> {
    script.take().iter().map(|(at, _)| at.since(ms(from)).as_nanos()).collect()
}

/// What a segment takes at this share of a rate in bytes a second, less the margin of one per cent.
fn step(gain: f64, rate: f64) -> u64 {
    Rate::from_bits_per_sec((gain * rate * 0.99 * 8.0) as u64).transmit_time(Bytes::new(MSS)).as_nanos()
}

// 5.3.1, 5.6.2: in Startup 2.77 times the rate that was delivered; 5.6.4.1: the window is twice what that fills.
#[test]
fn after_a_round_trip_startup_paces_at_2_77_times_what_was_delivered_into_a_window_of_twice_its_volume() {
    let mut script = begun(&[]);
    script.at(200);
    script.more(". 1 ack 10001");
    script.run_on(299);
    // 10,000 bytes in 100 ms.
    let expected: Vec<u64> = (0..20).map(|n| n * step(2.77, 100_000.0)).collect();
    assert_eq!(times(&mut script, 200), expected);
    assert_eq!(script.connection.window(), 20_000);
}

// 5.3.1.3: fewer than six losses in a round do not end Startup; 5.5.10: a recovery does not shrink what is under way.
#[test]
fn a_lost_segment_is_sent_again_first_and_costs_nothing_of_the_window() {
    let mut script = begun(&[]);
    script.at(200);
    script.more(". 1 ack 1 sack 1001:10001");
    script.run_on(299);
    let sent = script.take();
    assert_eq!((sent[0].0, sent[0].1.sequence.wrapping_sub(ISS)), (ms(200), 1), "the first segment again");
    // Nine delivered in 100 ms: a window of ten and nine, of which the repair is one.
    assert_eq!(script.connection.window(), 19_000);
    assert_eq!(sent.len(), 19);
    let firsts: Vec<u32> = sent[1..].iter().map(|(_, segment)| segment.sequence.wrapping_sub(ISS)).collect();
    assert_eq!(firsts, (0..18).map(|n| 10_001 + n * 1000).collect::<Vec<u32>>());
    // Reno, told the same, has half.
    let mut script = begun(&[("congestion", "reno")]);
    script.at(200);
    script.more(". 1 ack 1 sack 1001:10001");
    script.run_on(299);
    assert!(script.take().len() <= 6);
}

// 5.6.4.4: after a timeout one segment, and the window as it was once what is sent from then on has come round.
#[test]
fn a_timeout_leaves_one_segment_and_a_round_trip_later_the_window_is_as_it_was() {
    let mut script = begun(&[]);
    script.at(200);
    script.more(". 1 ack 10001");
    script.run_on(299);
    script.skip();
    let before = script.connection.window();
    // Nothing comes for as long as the timer wants: 1 s from the newest ACK.
    script.run_on(1199);
    script.skip();
    script.run_on(1200);
    let sent = script.take();
    assert_eq!(sent.iter().map(|(_, segment)| segment.sequence.wrapping_sub(ISS)).collect::<Vec<_>>(), [10_001]);
    assert_eq!(script.connection.window(), MSS);
    script.at(1300);
    script.more(". 1 ack 30001");
    assert!(script.connection.window() >= before, "{} {before}", script.connection.window());
    script.skip();
}

// 5.3.1.2: three rounds in which the rate grows by less than a quarter end Startup; 5.3.2: Drain takes half the rate.
#[test]
fn three_rounds_at_the_same_rate_end_startup_and_what_follows_is_slower_than_the_path() {
    let mut script = begun(&[]);
    let (mut acked, mut now, mut gaps) = (1_u64, 200_u64, Vec::new());
    // The path delivers a segment every 5 ms: 200 kB/s, and the round trip is what its queue makes it.
    script.at(200);
    let mut sent_to = 10_001;
    for _ in 0..400 {
        if acked < sent_to {
            acked += 1000;
            script.more(&format!(". 1 ack {acked}"));
        }
        now += 5;
        script.run_on(now);
        for (at, segment) in script.take() {
            let end = u64::from(segment.sequence.wrapping_sub(ISS)) + u64::from(segment.length);
            sent_to = sent_to.max(end);
            gaps.push(at);
        }
    }
    // Segments that left in each fifth of a second; the path takes 40.
    let fifth =
        |n: u64| gaps.iter().filter(|at| (200 + 200 * n..400 + 200 * n).contains(&(at.as_nanos() / 1_000_000))).count();
    let rates: Vec<usize> = (0..9).map(fifth).collect();
    let most = rates.iter().copied().max().unwrap_or(0);
    assert!(most > 44, "Startup sends more than the path takes: {rates:?}");
    let peak = rates.iter().position(|rate| *rate == most).unwrap_or(0);
    assert!(rates[peak..].iter().any(|rate| *rate < 36), "and Drain less: {rates:?}");
    assert!(rates[8].abs_diff(40) <= 6, "at last as much: {rates:?}");
}
