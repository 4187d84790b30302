//! The retransmission timer: RFC 6298.

use super::script::*;
use fairspan_sim::tcp::Config;

/// The minimum out of the way, so that the formula shows.
fn bare(changes: &[(&str, &str)]) -> Config {
    let mut all = vec![("rto_minimum", "1ms"), ("delayed_ack", "0s"), ("delayed_ack_maximum", "0s")];
    all.extend_from_slice(changes);
    config("rfc", &all)
}

// 2.1.
#[test]
fn before_a_measurement_the_timeout_is_one_second() {
    let mut s = Script::new(&bare(&[]));
    s.open();
    s.expect("S 0");
    assert_eq!(s.connection.retransmission_timeout(), span(1000));
    s.at(999);
    s.expect_nothing();
    s.at(1000);
    s.expect("S 0");
    s.end();
}

// 2.2: SRTT = R, RTTVAR = R/2, RTO = SRTT + 4 RTTVAR.
#[test]
fn the_first_measurement_gives_three_times_itself() {
    let mut s = Script::established(&bare(&[]));
    assert_eq!(s.connection.smoothed_rtt(), span(100));
    assert_eq!(s.connection.retransmission_timeout(), span(300));
    s.write(1000);
    s.expect_data(0, 1);
    s.at(399);
    s.expect_nothing();
    s.at(400);
    s.expect_data(0, 1);
}

// 2.3: RTTVAR = 3/4 RTTVAR + 1/4 |SRTT - R'| first, then SRTT = 7/8 SRTT + 1/8 R'.
#[test]
fn a_later_measurement_is_smoothed() {
    let mut s = Script::established(&bare(&[]));
    s.write(1000);
    s.expect_data(0, 1);
    s.at(300);
    s.ack(1000);
    // R' = 200: RTTVAR = 37.5 + 25 = 62.5, SRTT = 87.5 + 25 = 112.5.
    assert_eq!(s.connection.smoothed_rtt().as_nanos(), 112_500_000);
    assert_eq!(s.connection.retransmission_timeout().as_nanos(), 362_500_000);
}

// 2.2 and 2.3: at least G is added.
#[test]
fn at_least_the_clocks_granularity_is_added() {
    let s = Script::established(&bare(&[("rto_granularity", "500ms")]));
    assert_eq!(s.connection.retransmission_timeout(), span(600));
    s.end();
}

// 2.4.
#[test]
fn the_timeout_is_at_least_one_second() {
    let mut s = Script::sending(&config("rfc", &[]), 1);
    assert_eq!(s.connection.retransmission_timeout(), span(1000));
    s.at(1099);
    s.expect_nothing();
    s.at(1100);
    s.expect_data(0, 1);
}

// 2.5 and 5.5: doubled up to the maximum.
#[test]
fn the_timeout_doubles_up_to_the_maximum() {
    let mut s = Script::sending(&config("rfc", &[]), 1);
    let mut at = 100;
    for wait in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
        at += wait * 1000;
        s.at(at - 1);
        s.expect_nothing();
        s.at(at);
        s.expect_data(0, 1);
    }
    assert_eq!(s.connection.stats().timeouts, 9);
}

// 3, Karn: no measurement from a segment sent twice, and the backed-off timeout stays until there is one.
#[test]
fn a_segment_sent_twice_is_not_measured_and_the_backoff_stays() {
    let mut s = Script::sending(&bare(&[]), 1);
    s.at(400);
    s.expect_data(0, 1);
    s.at(450);
    s.ack(1000);
    assert_eq!(s.connection.smoothed_rtt(), span(100));
    s.write(1000);
    s.expect_data(1, 1);
    s.at(450 + 599);
    s.expect_nothing();
    s.at(450 + 600);
    s.expect_data(1, 1);
}

// 5.7's counterpart: a measurement ends the backoff.
#[test]
fn a_measurement_ends_the_backoff() {
    let mut s = Script::sending(&bare(&[]), 1);
    s.at(400);
    s.expect_data(0, 1);
    s.at(450);
    s.ack(1000);
    s.write(1000);
    s.expect_data(1, 1);
    s.at(550);
    s.ack(2000);
    // R' = 100: RTTVAR = 37.5, SRTT = 100.
    assert_eq!(s.connection.retransmission_timeout(), span(250));
}

// 5.1: started by the first, not restarted by the next.
#[test]
fn sending_more_does_not_restart_the_timer() {
    let mut s = Script::sending(&config("rfc", &[]), 1);
    s.at(600);
    s.write(1000);
    s.expect_data(1, 1);
    s.at(1100);
    s.expect_data(0, 1);
    s.end();
}

// 5.2.
#[test]
fn the_timer_is_off_when_all_is_acknowledged() {
    let mut s = Script::sending(&config("rfc", &[]), 3);
    s.at(200);
    s.ack(3000);
    s.at(100_000);
    s.expect_nothing();
    assert_eq!(s.connection.poll_timeout(), None);
}

// 5.3.
#[test]
fn an_ack_of_new_data_restarts_the_timer() {
    let mut s = Script::sending(&config("rfc", &[]), 3);
    s.at(900);
    s.ack(1000);
    let rto = s.connection.retransmission_timeout().as_nanos() / 1_000_000;
    s.at(900 + rto - 1);
    s.expect_nothing();
    s.at(900 + rto + 1);
    assert_eq!(s.connection.stats().timeouts, 1);
    s.end();
}

#[test]
fn a_duplicate_ack_does_not_restart_the_timer() {
    let mut s = Script::sending(&config("rfc", &[]), 3);
    s.at(900);
    s.ack(0);
    s.at(1100);
    s.expect_data(0, 1);
}

// 5.4 and RFC 5681, 3.1: one segment, window one, threshold half of the flight.
#[test]
fn a_timeout_sends_the_earliest_segment_and_closes_the_window_to_one() {
    let mut s = Script::sending(&config("rfc", &[]), 10);
    s.at(1100);
    s.expect_data(0, 1);
    assert_eq!((s.connection.window(), s.connection.threshold()), (1000, 5000));
    s.at(1200);
    s.ack(1000);
    s.expect_data(1, 1);
    s.expect_data(2, 1);
}

// RFC 5681, 3.1: the threshold is held when the same segment times out again.
#[test]
fn a_second_timeout_of_the_same_segment_leaves_the_threshold() {
    let mut s = Script::sending(&config("rfc", &[]), 10);
    s.at(1100);
    s.expect_data(0, 1);
    s.at(3100);
    s.expect_data(0, 1);
    assert_eq!((s.connection.window(), s.connection.threshold()), (1000, 5000));
}

// 5.6: the timer runs again after a retransmission; acknowledged, all is quiet.
#[test]
fn after_the_last_ack_nothing_is_sent_again() {
    let mut s = Script::sending(&config("rfc", &[]), 2);
    s.at(1100);
    s.expect_data(0, 1);
    s.at(1200);
    s.ack(2000);
    s.at(100_000);
    s.expect_nothing();
}

// RFC 9293, 3.8.3: R2.
#[test]
fn a_bounded_number_of_retries_ends_in_a_failure() {
    let mut s = Script::sending(&config("rfc", &[("retries", "3")]), 1);
    s.at(1100);
    s.skip();
    for _ in 0..20 {
        s.after(5000);
        s.skip();
    }
    assert_eq!(s.connection.failure(), Some(fairspan_sim::tcp::Failure::TimedOut));
    assert_eq!(s.connection.stats().retransmitted, 3);
    assert!(s.connection.is_closed());
}
