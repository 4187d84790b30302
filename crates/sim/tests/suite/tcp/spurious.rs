//! Recovery paced by deliveries: RFC 6937; what was for nothing: RFC 5682 (F-RTO), RFC 3708 (DSACK).

use super::script::*;
use fairspan_sim::tcp::Config;

fn reports(s: &mut Script, upto: u64) {
    s.peer(&format!(". 1 ack 1 sack 1001:{}", upto * 1000 + 1));
}

// RFC 6937, 3: half of what is delivered while more than the threshold is under way; then as much as is delivered.
#[test]
fn rate_reduction_sends_half_of_what_is_delivered_and_then_all_of_it() {
    let mut s = Script::sending(&config("rfc", &[("rate_reduction", "true"), ("limited_transmit", "false")]), 10);
    s.write(10_000);
    s.at(200);
    // Delivered 3 of RecoverFS 10, threshold 5: ceil(3 * 5 / 10) = 1.5 segments: the lost one.
    reports(&mut s, 4);
    s.expect_data(0, 1);
    // 4 * 5 / 10 = 2, one is sent.
    reports(&mut s, 5);
    s.expect_data(10, 1);
    // 2.5, two are sent.
    reports(&mut s, 6);
    s.expect_nothing();
    // Under way: 0 again, 7, 8, 9, 10: the threshold.
    reports(&mut s, 7);
    s.expect_nothing();
    for (upto, new) in [(8, 11), (9, 12), (10, 13)] {
        reports(&mut s, upto);
        s.expect_data(new, 1);
    }
    // Out of recovery, the window is the threshold.
    s.at(300);
    s.peer(". 1 ack 10001");
    assert_eq!((s.connection.window(), s.connection.threshold()), (5000, 5000));
    s.end();
}

fn frto(changes: &[(&str, &str)]) -> Config {
    let mut all = vec![("frto", "true"), ("sack", "false"), ("loss", "newreno"), ("limited_transmit", "false")];
    all.extend_from_slice(changes);
    config("rfc", &all)
}

// RFC 5682, 2.1, steps 1, 2b and 3b: two ACKs that advance after the timeout: the originals were only late.
#[test]
fn a_timeout_followed_by_two_acks_that_advance_was_for_nothing() {
    let mut s = Script::sending(&frto(&[]), 10);
    s.write(20_000);
    s.at(1100);
    s.expect_data(0, 1);
    s.at(1200);
    s.ack(2000);
    s.expect_data(10, 1);
    s.expect_data(11, 1);
    s.at(1210);
    s.ack(3000);
    s.skip();
    assert_eq!((s.connection.stats().spurious, s.connection.stats().retransmitted), (1, 1));
    assert!(s.connection.window() >= 10_000, "{}", s.connection.window());
    s.end();
}

// Step 3a: the second ACK is a duplicate: the timeout was right, and what was under way goes again.
#[test]
fn a_timeout_followed_by_a_duplicate_was_right() {
    let mut s = Script::sending(&frto(&[]), 10);
    s.write(20_000);
    s.at(1100);
    s.expect_data(0, 1);
    s.at(1200);
    s.ack(1000);
    s.expect_data(10, 1);
    s.expect_data(11, 1);
    s.at(1210);
    s.ack(1000);
    s.expect_data(1, 1);
    s.skip();
    assert_eq!(s.connection.stats().spurious, 0);
    assert!(s.connection.window() <= 3000, "{}", s.connection.window());
    s.end();
}

// RFC 3708, 2: a DSACK for each retransmission of the recovery: none was needed.
#[test]
fn a_recovery_whose_retransmissions_all_were_duplicates_is_undone() {
    let mut s = Script::sending(&config("rfc", &[("undo", "true"), ("limited_transmit", "false")]), 10);
    s.at(200);
    reports(&mut s, 4);
    s.expect_data(0, 1);
    assert_eq!(s.connection.window(), 5000);
    s.at(210);
    s.peer(". 1 ack 4001");
    s.at(300);
    s.peer(". 1 ack 5001 sack 1:1001");
    assert_eq!(s.connection.stats().spurious, 1);
    assert!(s.connection.window() >= 10_000, "{}", s.connection.window());
    s.end();
}

#[test]
fn without_the_setting_nothing_is_undone() {
    let mut s = Script::sending(&config("rfc", &[("limited_transmit", "false")]), 10);
    s.at(200);
    reports(&mut s, 4);
    s.expect_data(0, 1);
    s.at(210);
    s.peer(". 1 ack 4001");
    s.at(300);
    s.peer(". 1 ack 5001 sack 1:1001");
    assert_eq!((s.connection.stats().spurious, s.connection.window()), (0, 5000));
    s.end();
}
