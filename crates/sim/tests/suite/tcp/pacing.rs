//! Pacing: segments at congestion control's rate (Linux's `tcp_update_pacing_rate`).

use super::script::*;
use fairspan_core::units::Time;
use fairspan_sim::tcp::Config;

fn paced(changes: &[(&str, &str)]) -> Config {
    let mut all = vec![("pacing", "true"), ("limited_transmit", "false"), ("delayed_ack", "0ms")];
    all.extend_from_slice(changes);
    config("rfc", &all)
}

/// When each segment went out, in nanoseconds after `from` milliseconds.
fn times(script: &mut Script, from: u64) -> Vec<u64> {
    script.take().iter().map(|(at, _)| at.since(Time::from_millis(from)).as_nanos()).collect()
}

// 200 % of the window a round trip in slow start: 12 segments in 50 ms.
#[test]
fn in_slow_start_a_window_goes_out_over_half_a_round_trip() {
    let mut script = Script::established(&paced(&[]));
    script.write(1 << 30);
    assert_eq!(times(&mut script, 100), [0; 10], "nothing of data was measured: the initial window is a burst");
    script.at(200);
    script.more(". 1 ack 10001");
    script.run_on(245);
    // 12,000 bytes and a round trip of 100 ms: 1000 bytes in 4.166667 ms.
    let step = 4_166_667;
    let expected: Vec<u64> = (0..11).map(|n| n * step).collect();
    assert_eq!(times(&mut script, 200), expected);
    script.run_on(299);
    assert_eq!(times(&mut script, 200), [11 * step], "the window is full");
}

// 120 % from half the threshold on.
#[test]
fn in_congestion_avoidance_a_window_goes_out_over_five_sixths_of_a_round_trip() {
    let mut script = Script::established(&paced(&[("initial_threshold", "5000B")]));
    script.write(1 << 30);
    script.skip();
    script.at(200);
    script.more(". 1 ack 10001");
    script.run_on(299);
    // A window acknowledged adds a segment: 11,000 bytes and 100 ms, 1000 bytes in 7.575758 ms.
    let expected: Vec<u64> = (0..11).map(|n| n * 7_575_758).collect();
    assert_eq!(times(&mut script, 200), expected);
}

// A retransmission that a fast retransmit or a timeout wants does not wait for what was sent before it.
#[test]
fn what_repairs_a_loss_first_does_not_wait() {
    let mut script = Script::established(&paced(&[("loss", "newreno"), ("sack", "false")]));
    script.write(1 << 30);
    script.skip();
    script.at(200);
    script.more(". 1 ack 1001");
    script.run_on(201);
    script.skip();
    for _ in 0..3 {
        script.more(". 1 ack 1001");
    }
    let sent = script.take();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(sent[0].1.sequence, ISS.wrapping_add(1001));
}
