//! Slow start and congestion avoidance: RFC 5681, 3.1 and 4.1; RFC 3465; RFC 3390; RFC 6928.

use super::script::*;

fn first_flight(changes: &[(&str, &str)], options: &str) -> u64 {
    let mut s = Script::new(&config("rfc", changes));
    s.open();
    s.expect("S 0");
    s.peer(&format!("S. 0 ack 1 {options}"));
    s.expect(". 1 ack 1");
    s.write(60_000);
    s.take().iter().map(|(_, segment)| u64::from(segment.length)).sum()
}

// RFC 6928, 2: min (10*MSS, max (2*MSS, 14600)); RFC 3390: min (4*MSS, max (2*MSS, 4380)); RFC 2581: 1 or 2.
#[test]
fn the_initial_window_is_what_its_rfc_says() {
    assert_eq!(first_flight(&[], "mss 1000"), 10_000);
    assert_eq!(first_flight(&[("mss", "1460")], "mss 1460"), 14_600);
    assert_eq!(first_flight(&[("mss", "4000")], "mss 4000"), 12_000);
    assert_eq!(first_flight(&[("mss", "9000")], "mss 9000"), 18_000);
    assert_eq!(first_flight(&[("initial_window", "rfc3390")], "mss 1000"), 4_000);
    assert_eq!(first_flight(&[("initial_window", "rfc3390"), ("mss", "1460")], "mss 1460"), 3 * 1460);
    assert_eq!(first_flight(&[("initial_window", "rfc3390"), ("mss", "4000")], "mss 4000"), 8_000);
    assert_eq!(first_flight(&[("initial_window", "1")], "mss 1000"), 1_000);
    assert_eq!(first_flight(&[("initial_window", "2")], "mss 1000"), 2_000);
    // The segment that counts is the one in use, not the one offered.
    assert_eq!(first_flight(&[], "mss 500"), 5_000);
}

// RFC 5681, 3.1: the smaller of the two windows.
#[test]
fn no_more_is_sent_than_the_peers_window_takes() {
    let mut s = Script::new(&config("rfc", &[]));
    s.open();
    s.expect("S 0");
    s.peer("S. 0 ack 1 mss 1000 win 3000");
    s.expect(". 1 ack 1");
    s.write(60_000);
    for n in 0..3 {
        s.expect_data(n, 1);
    }
    s.expect_nothing();
    s.at(100);
    s.window = 4000;
    s.ack(1000);
    s.expect_data(3, 1);
    s.expect_data(4, 1);
}

// RFC 5681, 3.1, equation 2: N up to SMSS each.
#[test]
fn slow_start_sends_two_segments_for_each_acknowledged() {
    let mut s = Script::established(&config("rfc", &[("initial_window", "1")]));
    s.write(60_000);
    s.expect_data(0, 1);
    s.at(200);
    s.ack(1000);
    s.expect_data(1, 1);
    s.expect_data(2, 1);
    s.at(300);
    s.ack(2000);
    s.expect_data(3, 1);
    s.expect_data(4, 1);
    s.ack(3000);
    s.expect_data(5, 1);
    s.expect_data(6, 1);
    assert_eq!(s.connection.window(), 4000);
}

// RFC 3465, 2.2 and 2.3: at most L segments an ACK.
#[test]
fn an_ack_of_several_segments_counts_for_at_most_l() {
    for (limit, window) in [("1", 11_000), ("2", 12_000), ("1000", 13_000)] {
        let mut s = Script::sending(&config("rfc", &[("byte_counting_limit", limit)]), 10);
        s.write(60_000);
        s.at(200);
        s.ack(3000);
        assert_eq!(s.connection.window(), window, "L = {limit}");
        s.end();
    }
}

// RFC 3465, 2.1: splitting an ACK gains nothing.
#[test]
fn acks_of_parts_of_a_segment_open_the_window_by_the_bytes_they_acknowledge() {
    let mut s = Script::sending(&config("rfc", &[]), 10);
    s.write(60_000);
    s.at(200);
    for part in 1..=4 {
        s.more(&format!(". 1 ack {}", part * 250 + 1));
    }
    assert_eq!(s.connection.window(), 11_000);
    s.end();
}

#[test]
fn counting_acks_gives_a_segment_for_each_whatever_it_acknowledges() {
    let mut s = Script::sending(&config("rfc", &[("byte_counting_limit", "0")]), 10);
    s.write(60_000);
    s.at(200);
    s.more(". 1 ack 3001");
    s.more(". 1 ack 3251");
    assert_eq!(s.connection.window(), 12_000);
    s.end();
}

// RFC 5681, 3.1: one segment a round trip above the threshold.
#[test]
fn congestion_avoidance_adds_one_segment_for_a_window_acknowledged() {
    let mut s = Script::established(&config("rfc", &[("initial_window", "4"), ("initial_threshold", "4000B")]));
    s.write(60_000);
    for n in 0..4 {
        s.expect_data(n, 1);
    }
    s.at(200);
    for n in 1..=3 {
        s.ack(n * 1000);
        s.expect_data(n + 3, 1);
        assert_eq!(s.connection.window(), 4000);
    }
    s.ack(4000);
    s.expect_data(7, 1);
    s.expect_data(8, 1);
    assert_eq!(s.connection.window(), 5000);
    s.at(300);
    for n in 5..=8 {
        s.ack(n * 1000);
        s.expect_data(n + 4, 1);
    }
    s.ack(9000);
    s.expect_data(13, 1);
    s.expect_data(14, 1);
}

// RFC 5681, equation 3: SMSS*SMSS/cwnd an ACK.
#[test]
fn counting_acks_congestion_avoidance_adds_the_square_over_the_window() {
    let mut s = Script::established(&config(
        "rfc",
        &[("initial_window", "4"), ("initial_threshold", "4000B"), ("byte_counting_limit", "0")],
    ));
    s.write(60_000);
    s.skip();
    s.at(200);
    let mut window = 4000.0;
    for n in 1..=8_u64 {
        s.more(&format!(". 1 ack {}", n * 1000 + 1));
        window += 1e6 / window;
        assert!((s.connection.window() as f64 - window).abs() <= 1.0, "{} {window}", s.connection.window());
    }
    s.end();
}

// RFC 3465, 2.3: in the slow start after a timeout L is 1.
#[test]
fn after_a_timeout_an_ack_of_several_segments_counts_for_one() {
    let mut s = Script::sending(&config("rfc", &[]), 10);
    s.at(1100);
    s.expect_data(0, 1);
    s.at(1200);
    s.ack(3000);
    assert_eq!(s.connection.window(), 2000);
    s.expect_data(3, 1);
    s.expect_data(4, 1);
    s.end();
}

// RFC 5681, 4.1: after more than a timeout without sending, the restart window.
#[test]
fn after_an_idle_time_of_a_timeout_the_window_is_the_initial_one_again() {
    let mut s = Script::sending(&config("rfc", &[]), 10);
    s.at(200);
    for n in 1..=10 {
        s.write(2000);
        s.ack(n * 1000);
        s.skip();
    }
    let window = s.connection.window();
    assert!(window > 15_000, "{window}");
    s.at(300);
    s.ack(30_000);
    s.at(3000);
    s.write(40_000);
    assert_eq!(s.take().len(), 10);
    s.end();
}

#[test]
fn a_short_pause_leaves_the_window() {
    let mut s = Script::sending(&config("rfc", &[]), 10);
    s.at(200);
    for n in 1..=10 {
        s.write(2000);
        s.ack(n * 1000);
        s.skip();
    }
    s.at(300);
    s.ack(30_000);
    let window = s.connection.window();
    s.at(600);
    s.write(60_000);
    assert_eq!(s.take().len() as u64, window / 1000);
    s.end();
}

// RFC 9438, 5.8; RFC 7661: what is not used does not grow.
#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut s = Script::established(&config("rfc", &[]));
    for n in 0..20 {
        s.write(1000);
        s.expect_data(n, 1);
        s.after(100);
        s.ack((n + 1) * 1000);
    }
    assert_eq!(s.connection.window(), 10_000);
}
