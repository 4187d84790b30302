//! NewReno: RFC 6582, 3.2, steps 1 to 6, and section 4.

use super::script::*;
use fairspan_sim::tcp::Config;

fn newreno(changes: &[(&str, &str)]) -> Config {
    let mut all = vec![("sack", "false"), ("loss", "newreno"), ("limited_transmit", "false")];
    all.extend_from_slice(changes);
    config("rfc", &all)
}

/// Ten segments sent; the third duplicate ACK at 200 ms has sent the first again.
fn recovering(config: &Config) -> Script {
    let mut s = Script::sending(config, 10);
    s.at(200);
    for _ in 0..3 {
        s.ack(0);
    }
    s.expect_data(0, 1);
    s
}

// Step 3, partial acknowledgment: the first missing one goes again.
#[test]
fn a_partial_ack_sends_the_next_missing_segment_at_once_and_stays_in_recovery() {
    let mut s = recovering(&newreno(&[]));
    s.at(300);
    s.ack(4000);
    s.expect_data(4, 1);
    s.at(400);
    s.ack(7000);
    s.expect_data(7, 1);
    assert_eq!(s.connection.stats().recoveries, 1);
    assert_eq!(s.connection.threshold(), 5000);
}

// Step 3: deflate by what is acknowledged, and add a segment back.
#[test]
fn a_partial_ack_deflates_by_what_it_acknowledges_less_one_segment() {
    let mut s = recovering(&newreno(&[]));
    for _ in 0..6 {
        s.more(". 1 ack 1");
    }
    s.skip();
    let window = s.connection.window();
    assert_eq!(window, 14_000);
    s.at(300);
    s.ack(4000);
    s.expect_data(4, 1);
    assert_eq!(s.connection.window(), window - 4000 + 1000);
}

// Step 3, full acknowledgment, (1): min (ssthresh, max(FlightSize, SMSS) + SMSS); (2): ssthresh.
#[test]
fn a_full_ack_ends_recovery_without_a_burst_or_at_the_threshold() {
    for (full_ack, window) in [("flight", 2000), ("threshold", 5000)] {
        let mut s = recovering(&newreno(&[("full_ack", full_ack)]));
        s.at(300);
        s.ack(10_000);
        assert_eq!(s.connection.window(), window, "{full_ack}");
        s.write(10_000);
        assert_eq!(s.take().len() as u64, window / 1000);
        s.end();
    }
}

// Section 4, the impatient variant: only the first partial ACK restarts the timer.
#[test]
fn impatient_restarts_the_timer_at_the_first_partial_ack_only() {
    let mut s = recovering(&newreno(&[("partial_ack", "impatient")]));
    s.at(300);
    s.ack(2000);
    s.expect_data(2, 1);
    s.at(900);
    s.ack(4000);
    s.expect_data(4, 1);
    s.at(1299);
    s.expect_nothing();
    s.at(1300);
    assert_eq!(s.connection.stats().timeouts, 1);
    s.expect_data(4, 1);
    s.end();
}

#[test]
fn slow_but_steady_restarts_the_timer_at_every_partial_ack() {
    let mut s = recovering(&newreno(&[("partial_ack", "slow-but-steady")]));
    s.at(300);
    s.ack(2000);
    s.expect_data(2, 1);
    s.at(900);
    s.ack(4000);
    s.expect_data(4, 1);
    s.at(1899);
    s.expect_nothing();
    s.at(1900);
    assert_eq!(s.connection.stats().timeouts, 1);
    s.expect_data(4, 1);
    s.end();
}

// Steps 2 and 4: after a timeout, duplicates below `recover` are of the segments sent again, and set nothing off.
#[test]
fn after_a_timeout_duplicates_of_the_data_before_it_start_no_fast_retransmit() {
    let mut s = Script::sending(&newreno(&[]), 10);
    s.at(1100);
    s.expect_data(0, 1);
    s.at(1200);
    s.ack(1000);
    s.expect_data(1, 1);
    s.expect_data(2, 1);
    s.at(1300);
    for _ in 0..5 {
        s.more(". 1 ack 1001");
    }
    assert_eq!(s.connection.stats().recoveries, 0);
    s.end();
}

// Step 2: after recovery, three duplicates that do not cover more than `recover` start none either.
#[test]
fn three_duplicates_at_the_recovery_point_itself_start_no_second_recovery() {
    let mut s = recovering(&newreno(&[("full_ack", "threshold")]));
    s.at(300);
    s.ack(10_000);
    s.write(5000);
    for n in 10..15 {
        s.expect_data(n, 1);
    }
    s.at(400);
    // They acknowledge 10,000 and no more: it is not beyond `recover`.
    for _ in 0..3 {
        s.ack(10_000);
    }
    s.expect_nothing();
    assert_eq!(s.connection.stats().recoveries, 1);
    s.end();
}

#[test]
fn a_loss_after_recovery_is_a_recovery_of_its_own() {
    let mut s = recovering(&newreno(&[("full_ack", "threshold")]));
    s.at(300);
    s.ack(10_000);
    s.write(5000);
    for n in 10..15 {
        s.expect_data(n, 1);
    }
    s.at(400);
    s.ack(11_000);
    for _ in 0..3 {
        s.ack(11_000);
    }
    s.expect_data(11, 1);
    assert_eq!(s.connection.stats().recoveries, 2);
    assert_eq!(s.connection.threshold(), 2000);
    s.end();
}

// RFC 5681, equation 4, bounds the threshold from above. Of ten segments under way nine have arrived and been told by
// duplicates; FlightSize still counts them all, and what the duplicates let out.
#[test]
fn a_timeout_within_recovery_halves_the_window_of_the_recovery() {
    for (preset, threshold) in [("rfc", 2500), ("linux", 7000)] {
        let mut s = recovering(&config(preset, &[("loss", "newreno"), ("sack", "false")]));
        let before = s.connection.threshold();
        s.at(210);
        s.write(20_000);
        for _ in 0..20 {
            s.skip();
            s.ack(0);
        }
        s.skip();
        s.at(1500);
        s.skip();
        assert!(s.connection.stats().timeouts >= 1, "{preset}");
        assert_eq!(s.connection.threshold(), threshold, "{preset}: {before} in the recovery");
    }
}
