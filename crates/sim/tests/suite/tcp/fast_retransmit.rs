//! Fast retransmit and fast recovery: RFC 5681, 3.2 (Reno, without SACK); limited transmit: RFC 3042.

use super::script::*;

fn reno() -> fairspan_sim::tcp::Config {
    config("rfc", &[("sack", "false"), ("loss", "reno"), ("limited_transmit", "false")])
}

// RFC 5681, 3.2, steps 2 and 3.
#[test]
fn the_third_duplicate_ack_sends_the_missing_segment_again_and_halves() {
    let mut s = Script::sending(&reno(), 10);
    s.at(200);
    s.ack(0);
    s.ack(0);
    s.expect_nothing();
    s.ack(0);
    s.expect_data(0, 1);
    assert_eq!(s.connection.threshold(), 5000);
    assert_eq!(s.connection.window(), 8000);
    assert_eq!((s.connection.stats().recoveries, s.connection.stats().retransmitted), (1, 1));
}

// Steps 4 and 5: inflation, and new data when it allows.
#[test]
fn each_further_duplicate_ack_inflates_by_a_segment_and_new_data_goes_when_it_fits() {
    let mut s = Script::sending(&reno(), 10);
    s.write(10_000);
    s.at(200);
    for _ in 0..3 {
        s.ack(0);
    }
    s.expect_data(0, 1);
    // 10 under way; 8 allowed, then one more for each.
    s.ack(0);
    s.ack(0);
    s.expect_nothing();
    s.ack(0);
    s.expect_data(10, 1);
    s.ack(0);
    s.expect_data(11, 1);
}

// Step 6: deflation.
#[test]
fn the_first_new_ack_takes_the_window_to_the_threshold() {
    let mut s = Script::sending(&reno(), 10);
    s.at(200);
    for _ in 0..9 {
        s.more(". 1 ack 1");
    }
    s.skip();
    s.at(300);
    s.ack(10_000);
    assert_eq!(s.connection.window(), 5000);
    s.write(10_000);
    for n in 10..15 {
        s.expect_data(n, 1);
    }
    s.expect_nothing();
}

// Equation 4: at least two segments.
#[test]
fn the_threshold_is_at_least_two_segments() {
    let mut s = Script::established(&config(
        "rfc",
        &[("sack", "false"), ("loss", "reno"), ("limited_transmit", "false"), ("initial_window", "3")],
    ));
    s.write(3000);
    for n in 0..3 {
        s.expect_data(n, 1);
    }
    s.at(200);
    for _ in 0..3 {
        s.ack(0);
    }
    s.expect_data(0, 1);
    assert_eq!(s.connection.threshold(), 2000);
}

// RFC 5681, 2: what is a duplicate ACK, (a) to (e).
#[test]
fn acks_with_data_or_another_window_or_with_nothing_under_way_are_no_duplicates() {
    let mut s = Script::sending(&reno(), 10);
    s.at(200);
    for n in 0..4 {
        s.more(&format!(". {}:{} ack 1", n * 1000 + 1, n * 1000 + 1001));
    }
    for n in 0..4 {
        s.more(&format!(". 4001 ack 1 win {}", 40_000 + n));
    }
    assert_eq!(s.connection.stats().retransmitted, 0);
    assert_eq!(s.connection.stats().duplicate_acks, 0);
    s.skip();
    s.more(". 4001 ack 10001 win 50000");
    for _ in 0..5 {
        s.more(". 4001 ack 10001 win 50000");
    }
    assert_eq!(s.connection.stats().duplicate_acks, 0);
    s.end();
}

// RFC 6298, 5.3 with Reno's exit: what is still missing after the exit needs a timeout or three more.
#[test]
fn plain_reno_leaves_recovery_at_a_partial_ack() {
    let mut s = Script::sending(&reno(), 10);
    s.at(200);
    for _ in 0..8 {
        s.more(". 1 ack 1");
    }
    s.skip();
    s.at(300);
    s.ack(4000);
    s.expect_nothing();
    assert_eq!(s.connection.window(), 5000);
    s.at(1300);
    s.expect_data(4, 1);
    assert_eq!(s.connection.stats().timeouts, 1);
    s.end();
}

// RFC 3042, 2.
#[test]
fn limited_transmit_sends_new_data_for_the_first_two_duplicates() {
    let limited = config("rfc", &[("sack", "false"), ("loss", "newreno")]);
    let mut s = Script::sending(&limited, 10);
    s.write(10_000);
    s.at(200);
    s.ack(0);
    s.expect_data(10, 1);
    s.ack(0);
    s.expect_data(11, 1);
    s.ack(0);
    s.expect_data(0, 1);
    // RFC 5681, 3.2, step 2: what limited transmit sent does not count.
    assert_eq!((s.connection.threshold(), s.connection.window()), (5000, 8000));
    s.end();
}

// RFC 3042, 2: the window itself must not change.
#[test]
fn what_limited_transmit_sent_is_no_growth_of_the_window() {
    let limited = config("rfc", &[("sack", "false"), ("loss", "newreno")]);
    let mut s = Script::sending(&limited, 10);
    s.write(30_000);
    s.at(200);
    s.more(". 1 ack 1");
    s.more(". 1 ack 1");
    assert_eq!(s.take().len(), 2);
    s.ack(1000);
    // A window of 11 holds 1 to 11, which are under way.
    s.expect_nothing();
    assert_eq!(s.connection.window(), 11_000);
    s.ack(2000);
    assert_eq!(s.take().len(), 2);
    s.end();
}

// RFC 3042, 2, first condition: the peer's window.
#[test]
fn limited_transmit_keeps_to_the_peers_window() {
    let limited = config("rfc", &[("sack", "false"), ("loss", "newreno")]);
    let mut s = Script::established(&limited);
    s.window = 10_500;
    s.peer(". 1 ack 1");
    s.write(20_000);
    s.skip();
    s.at(200);
    s.ack(0);
    s.ack(0);
    s.expect_nothing();
    s.end();
}

// RFC 3042, 2, second condition: at most two segments beyond the window.
#[test]
fn limited_transmit_goes_no_further_than_two_segments_beyond_the_window() {
    let limited = config("rfc", &[("sack", "false"), ("loss", "newreno"), ("duplicate_threshold", "6")]);
    let mut s = Script::sending(&limited, 10);
    s.write(10_000);
    s.at(200);
    for _ in 0..4 {
        s.more(". 1 ack 1");
    }
    assert_eq!(s.take().len(), 2);
    s.end();
}

// RFC 5681, 3.2, step 3, and the preset's own constant.
#[test]
fn tahoe_starts_again_from_one_segment() {
    let mut s =
        Script::sending(&config("rfc", &[("sack", "false"), ("loss", "tahoe"), ("limited_transmit", "false")]), 10);
    s.at(200);
    for _ in 0..3 {
        s.ack(0);
    }
    s.expect_data(0, 1);
    assert_eq!((s.connection.window(), s.connection.threshold()), (1000, 5000));
    s.end();
}
