//! Acknowledging: RFC 5681, 4.2; RFC 9293, 3.8.6.3.

use super::script::*;

// RFC 5681, 4.2: at least every second full segment.
#[test]
fn every_second_full_segment_is_acknowledged_at_once() {
    let mut s = Script::accepted(&config("rfc", &[]), "");
    s.peer(". 1:1001 ack 1");
    s.expect_nothing();
    s.peer(". 1001:2001 ack 1");
    s.expect(". 1 ack 2001");
    s.peer(". 2001:3001 ack 1");
    s.peer(". 3001:4001 ack 1");
    s.expect(". 1 ack 4001");
}

#[test]
fn where_small_segments_count_every_second_one_is_acknowledged_at_once() {
    let mut s = Script::accepted(&config("rfc", &[("ack_small_segments", "true")]), "");
    s.peer(". 1:1001 ack 1");
    s.peer(". 1001:1201 ack 1");
    s.expect(". 1 ack 1201");
    s.peer(". 1201:1401 ack 1");
    s.expect_nothing();
    s.peer(". 1401:1601 ack 1");
    s.expect(". 1 ack 1601");
    // Full segments count where small ones do not.
    let mut s = Script::accepted(&config("rfc", &[]), "");
    s.peer(". 1:1001 ack 1");
    s.peer(". 1001:1201 ack 1");
    s.expect_nothing();
}

// RFC 9293, 3.8.6.3: in less than 0.5 s.
#[test]
fn a_single_segment_is_acknowledged_when_the_delay_is_over() {
    for delay in [40, 100, 200, 500] {
        let mut s = Script::accepted(
            &config("rfc", &[("delayed_ack", &format!("{delay}ms")), ("delayed_ack_maximum", &format!("{delay}ms"))]),
            "",
        );
        s.at(1000);
        s.peer(". 1:1001 ack 1");
        s.at(1000 + delay - 1);
        s.expect_nothing();
        s.at(1000 + delay);
        s.expect(". 1 ack 1001");
        s.at(9000);
    }
}

#[test]
fn the_delay_counts_from_the_first_segment_not_acknowledged() {
    let mut s = Script::accepted(&config("rfc", &[]), "");
    s.at(1000);
    s.peer(". 1:101 ack 1");
    s.at(1150);
    s.peer(". 101:201 ack 1");
    // Two small segments may be acknowledged at once or by the first one's time, never later.
    if s.take().is_empty() {
        s.at(1200);
        s.expect(". 1 ack 201");
    }
    s.at(5000);
}

#[test]
fn without_delay_every_segment_is_acknowledged() {
    let mut s = Script::accepted(&config("rfc", &[("delayed_ack", "0s"), ("delayed_ack_maximum", "0s")]), "");
    for n in 0..3 {
        s.peer(&format!(". {}:{} ack 1", n * 1000 + 1, n * 1000 + 1001));
        s.expect(&format!(". 1 ack {}", n * 1000 + 1001));
    }
}

// RFC 5681, 4.2: out of order, at once.
#[test]
fn a_segment_out_of_order_gets_a_duplicate_ack_at_once() {
    let mut s = Script::accepted(&config("rfc", &[("sack", "false")]), "");
    s.peer(". 1001:2001 ack 1");
    s.expect(". 1 ack 1");
    s.peer(". 2001:3001 ack 1");
    s.expect(". 1 ack 1");
}

// RFC 5681, 4.2: fills in all or part of a gap, at once.
#[test]
fn a_segment_that_fills_a_gap_or_a_part_of_one_is_acknowledged_at_once() {
    let mut s = Script::accepted(&config("rfc", &[("sack", "false")]), "");
    s.peer(". 2001:3001 ack 1");
    s.expect(". 1 ack 1");
    s.peer(". 1:1001 ack 1");
    s.expect(". 1 ack 1001");
    s.peer(". 1001:2001 ack 1");
    s.expect(". 1 ack 3001");
}

// RFC 9293, 3.10.7.4, first: an old segment is answered with an ACK.
#[test]
fn a_segment_that_was_there_already_is_acknowledged_at_once() {
    let mut s = Script::accepted(&config("rfc", &[("sack", "false")]), "");
    s.peer(". 1:1001 ack 1");
    s.peer(". 1001:2001 ack 1");
    s.expect(". 1 ack 2001");
    s.at(2000);
    s.peer(". 1:1001 ack 1");
    s.expect(". 1 ack 2001");
    assert_eq!(s.connection.readable(), 2000);
}

#[test]
fn data_carries_the_acknowledgment_that_waits() {
    let mut s = Script::accepted(&config("rfc", &[]), "");
    s.peer(". 1:1001 ack 1");
    s.write(1000);
    s.expect(". 1:1001 ack 1001");
    s.at(400);
    s.expect_nothing();
    s.end();
}

// What the preset says of itself: the first sixteen at once.
#[test]
fn linux_acknowledges_the_first_segments_at_once() {
    let mut s = Script::accepted(&config("linux", &[]), "");
    for n in 0..8 {
        s.peer(&format!(". {}:{} ack 1", n * 1000 + 1, n * 1000 + 1001));
        s.expect(&format!(". 1 ack {}", n * 1000 + 1001));
    }
}

// A pure ACK is never acknowledged, else two ends would go on for ever.
#[test]
fn an_ack_is_not_acknowledged() {
    let mut s = Script::accepted(&config("rfc", &[]), "");
    s.peer(". 1 ack 1");
    s.peer(". 1 ack 1 win 4000");
    s.at(2000);
    s.expect_nothing();
}
