//! Recovery by the scoreboard: RFC 6675, sections 3 to 5; RFC 2018, 5 and 8.

use super::script::*;
use fairspan_sim::tcp::Config;

fn sack(changes: &[(&str, &str)]) -> Config {
    let mut all = vec![("loss", "sack"), ("limited_transmit", "true")];
    all.extend_from_slice(changes);
    config("rfc", &all)
}

/// The peer holds these full segments, numbered from 0, beyond the first `acked`.
fn report(s: &mut Script, acked: u64, blocks: &[(u64, u64)]) {
    let blocks: Vec<String> = blocks.iter().map(|(a, b)| format!("{}:{}", a * 1000 + 1, b * 1000 + 1)).collect();
    let sack = if blocks.is_empty() { String::new() } else { format!("sack {}", blocks.join(",")) };
    s.peer(&format!(". 1 ack {} {sack}", acked * 1000 + 1));
}

// RFC 6675, 5, step 4.3: the first missing segment goes at once, threshold and window halve the flight.
#[test]
fn the_third_duplicate_ack_starts_recovery_with_the_first_missing_segment() {
    let mut s = Script::sending(&sack(&[]), 10);
    s.at(200);
    report(&mut s, 0, &[(1, 2)]);
    report(&mut s, 0, &[(1, 3)]);
    s.expect_nothing();
    report(&mut s, 0, &[(1, 4)]);
    s.expect_data(0, 1);
    assert_eq!((s.connection.window(), s.connection.threshold()), (5000, 5000));
    assert_eq!(s.connection.stats().recoveries, 1);
}

// RFC 6675, 5, step 2 (IsLost (HighACK + 1)): one ACK that reports three segments is enough.
#[test]
fn one_ack_that_reports_enough_starts_recovery_without_three_duplicates() {
    let mut s = Script::sending(&sack(&[]), 10);
    s.at(200);
    report(&mut s, 0, &[(1, 4)]);
    s.expect_data(0, 1);
    s.end();
}

// RFC 6675, 4, IsLost: more than (DupThresh - 1) * SMSS bytes above, or DupThresh discontiguous sequences.
#[test]
fn two_segments_above_do_not_make_a_hole_lost_and_three_separate_ones_do() {
    let mut s = Script::sending(&sack(&[]), 10);
    s.at(200);
    report(&mut s, 0, &[(1, 3)]);
    s.expect_nothing();
    // Three sequences of a hundred bytes each.
    let mut s = Script::established(&sack(&[("nagle", "off")]));
    for n in 0..6 {
        s.write(100);
        s.expect(&format!(". {}:{} ack 1", n * 100 + 1, n * 100 + 101));
    }
    s.at(200);
    s.peer(". 1 ack 1 sack 301:401,101:201");
    s.expect_nothing();
    s.peer(". 1 ack 1 sack 501:601,301:401,101:201");
    s.expect(". 1:101 ack 1");
    s.end();
}

// RFC 6675, 5, step 1 and (C): NextSeg, rule 1: lost ones first, lowest first, as the pipe allows.
#[test]
fn holes_are_filled_from_the_lowest_while_the_pipe_allows() {
    let mut s = Script::sending(&sack(&[]), 10);
    s.at(200);
    // 0, 2 and 4 are missing.
    report(&mut s, 0, &[(1, 2)]);
    report(&mut s, 0, &[(3, 4), (1, 2)]);
    report(&mut s, 0, &[(5, 6), (3, 4), (1, 2)]);
    s.expect_data(0, 1);
    // Window 5; under way: 0 again, 2 and 4 (2 with two reported above: not lost), 6, 7, 8, 9.
    report(&mut s, 0, &[(5, 7), (3, 4), (1, 2)]);
    // Of 2, three above are reported now (3, 5, 6): lost. Pipe: 0 again, 4, 7, 8, 9 = 5.
    s.expect_nothing();
    report(&mut s, 0, &[(5, 8), (3, 4), (1, 2)]);
    // 4 is lost now; pipe: 0 again, 8, 9 = 3: two may go.
    s.expect_data(2, 1);
    s.expect_data(4, 1);
    report(&mut s, 0, &[(5, 9), (3, 4), (1, 2)]);
    // Rule 4, the rescue: no hole is left to fill, and the last segment may be lost with nothing above to show it.
    s.expect_data(9, 1);
    report(&mut s, 0, &[(5, 9), (3, 5), (1, 3)]);
    s.expect_nothing();
    assert_eq!(s.connection.stats().retransmitted, 4);
}

// NextSeg, rule 2: when no hole is lost, new data goes.
#[test]
fn new_data_goes_when_no_hole_is_lost() {
    let mut s = Script::sending(&sack(&[]), 10);
    s.write(10_000);
    s.at(200);
    report(&mut s, 0, &[(1, 2)]);
    s.expect_data(10, 1);
    report(&mut s, 0, &[(1, 3)]);
    s.expect_data(11, 1);
    report(&mut s, 0, &[(1, 4)]);
    s.expect_data(0, 1);
    // Limited transmit's two: do they count as the flight? RFC 6675, 5, (4.2) halves FlightSize.
    let threshold = s.connection.threshold();
    assert!((5000..=6000).contains(&threshold), "{threshold}");
    // Pipe: 12 - 3 = 9 with the retransmission; each report takes one out, until the window has room.
    let mut upto = 4;
    while s.take().is_empty() {
        upto += 1;
        assert!(upto < 12, "no new data in recovery");
        report(&mut s, 0, &[(1, upto)]);
    }
    assert!(upto >= 7, "{upto}");
    s.end();
}

// NextSeg, rule 3: a hole that is not known to be lost goes when there is no new data.
#[test]
fn a_hole_not_yet_lost_goes_when_there_is_nothing_else() {
    let mut s = Script::sending(&sack(&[]), 10);
    s.at(200);
    report(&mut s, 0, &[(1, 6)]);
    // 0 lost: window 5000; pipe before: 6, 7, 8, 9 = 4, with 0 again: 5.
    s.expect_data(0, 1);
    report(&mut s, 0, &[(1, 6), (7, 8)]);
    // 6 has one above it: not lost. Pipe: 0, 6, 8, 9 = 4; no new data: rule 3 sends 6.
    s.expect_data(6, 1);
    s.end();
}

// Section 5: recovery ends when all that was sent before it is acknowledged; then the window is the threshold.
#[test]
fn recovery_ends_at_the_recovery_point() {
    let mut s = Script::sending(&sack(&[]), 10);
    s.at(200);
    report(&mut s, 0, &[(1, 10)]);
    s.expect_data(0, 1);
    s.at(300);
    report(&mut s, 10, &[]);
    assert_eq!(s.connection.window(), 5000);
    s.write(10_000);
    for n in 10..15 {
        s.expect_data(n, 1);
    }
    s.end();
}

// Section 5, (B): a partial ACK neither ends recovery nor reduces again.
#[test]
fn a_partial_ack_goes_on_with_the_holes() {
    let mut s = Script::sending(&sack(&[]), 10);
    s.at(200);
    report(&mut s, 0, &[(1, 4), (5, 10)]);
    s.expect_data(0, 1);
    s.expect_data(4, 1);
    s.at(300);
    report(&mut s, 4, &[(5, 10)]);
    s.expect_nothing();
    assert_eq!((s.connection.window(), s.connection.stats().recoveries), (5000, 1));
    report(&mut s, 10, &[]);
    assert_eq!(s.connection.stats().retransmitted, 2);
}

// RFC 2018, 5.1 and RFC 6675, 5.1: after a timeout the reports are forgotten or kept, but the first segment goes in any
// case, since the peer may have reneged.
#[test]
fn a_timeout_sends_the_first_segment_even_if_it_was_reported() {
    let mut s = Script::sending(&sack(&[]), 10);
    s.at(200);
    report(&mut s, 0, &[(1, 3)]);
    // The peer acknowledges 0 and reneges on the rest.
    s.at(300);
    s.peer(". 1 ack 1001");
    let rto = 1300;
    s.at(rto);
    s.expect_data(1, 1);
    assert_eq!(s.connection.window(), 1000);
    s.at(rto + 100);
    s.ack(2000);
    s.expect_data(2, 1);
    s.expect_data(3, 1);
    s.end();
}

// Section 5.1: no second recovery from the data that was under way at the timeout.
#[test]
fn after_a_timeout_old_reports_start_no_recovery() {
    let mut s = Script::sending(&sack(&[]), 10);
    s.at(1100);
    s.expect_data(0, 1);
    s.at(1200);
    report(&mut s, 0, &[(1, 2)]);
    report(&mut s, 0, &[(1, 3)]);
    report(&mut s, 0, &[(1, 4)]);
    report(&mut s, 0, &[(1, 5)]);
    assert_eq!(s.connection.stats().recoveries, 0);
    s.end();
}

// Section 4, Update(): blocks that lie are not believed.
#[test]
fn blocks_beyond_what_was_sent_or_below_what_is_acknowledged_are_ignored() {
    let mut s = Script::sending(&sack(&[]), 10);
    s.at(200);
    s.ack(2000);
    s.skip();
    s.peer(". 1 ack 2001 sack 20001:23001");
    s.peer(". 1 ack 2001 sack 1:1001");
    s.peer(". 1 ack 2001 sack 9001:8001");
    assert_eq!(s.connection.stats().retransmitted, 0);
    assert_eq!(s.connection.in_flight(), 8000);
    s.end();
}

// Section 3, pipe: bytes that left the network do not count as under way.
#[test]
fn what_is_reported_is_not_under_way() {
    let mut s = Script::sending(&sack(&[("limited_transmit", "false")]), 10);
    s.at(200);
    report(&mut s, 0, &[(1, 3)]);
    assert_eq!(s.connection.in_flight(), 8000);
    report(&mut s, 0, &[(1, 3), (5, 10)]);
    // 0, 3 and 4 are lost; 0 is under way again, and what the window of 5 allows of 3 and 4.
    s.expect_data(0, 1);
    s.expect_data(3, 1);
    s.expect_data(4, 1);
    assert_eq!(s.connection.in_flight(), 3000);
}

// A peer that does not permit SACK gets NewReno.
#[test]
fn without_permission_recovery_is_newreno() {
    let mut s = Script::new(&sack(&[("limited_transmit", "false")]));
    s.open();
    s.expect("S 0 sackok");
    s.at(100);
    s.peer("S. 0 ack 1 mss 1000");
    s.expect(". 1 ack 1");
    s.write(10_000);
    s.skip();
    s.at(200);
    for _ in 0..3 {
        s.ack(0);
    }
    s.expect_data(0, 1);
    s.at(300);
    s.ack(4000);
    s.expect_data(4, 1);
    s.end();
}
