//! RACK-TLP on a connection: RFC 8985, sections 6 and 7. The first round trip, and so the least, is 100 ms.

use super::script::*;
use fairspan_sim::tcp::Config;

fn rack(changes: &[(&str, &str)]) -> Config {
    let mut all = vec![("loss", "rack"), ("limited_transmit", "false")];
    all.extend_from_slice(changes);
    config("rfc", &all)
}

// 6.2, step 5: the reordering timer.
#[test]
fn one_segment_reported_behind_a_hole_waits_a_quarter_of_a_round_trip() {
    let mut s = Script::sending(&rack(&[]), 5);
    s.at(200);
    s.peer(". 1 ack 1 sack 1001:2001");
    s.expect_nothing();
    // Sent at 100, and RACK.rtt = 100: 25 ms more.
    s.at(224);
    s.expect_nothing();
    s.at(225);
    s.expect_data(0, 1);
    assert_eq!((s.connection.stats().recoveries, s.connection.stats().timeouts), (1, 0));
    s.end();
}

#[test]
fn a_hole_filled_in_time_is_no_loss() {
    let mut s = Script::sending(&rack(&[]), 5);
    s.at(200);
    s.peer(". 1 ack 1 sack 1001:3001");
    s.at(220);
    s.peer(". 1 ack 3001");
    s.at(250);
    s.expect_nothing();
    assert_eq!(s.connection.stats().recoveries, 0);
    s.end();
}

// 6.2, step 4: no reordering seen, and three reported: no waiting.
#[test]
fn three_segments_reported_behind_a_hole_make_it_lost_at_once() {
    let mut s = Script::sending(&rack(&[]), 5);
    s.at(200);
    s.peer(". 1 ack 1 sack 1001:4001");
    s.expect_data(0, 1);
    s.end();
}

// 6.2, steps 3 and 4: once reordering was seen, three are not enough.
#[test]
fn once_reordering_was_seen_three_segments_are_not_enough() {
    let mut s = Script::sending(&rack(&[]), 8);
    s.at(200);
    s.peer(". 1 ack 1 sack 1001:2001");
    s.peer(". 1 ack 2001");
    s.at(210);
    s.peer(". 1 ack 2001 sack 3001:8001");
    s.expect_nothing();
    s.at(235);
    s.expect_data(2, 1);
    s.end();
}

// 3.3 and 6.2: a retransmission that is lost again is found by time, without a timeout.
#[test]
fn a_lost_retransmission_is_found_by_what_was_sent_after_it() {
    let mut s = Script::sending(&rack(&[]), 8);
    s.at(200);
    s.peer(". 1 ack 1 sack 1001:5001");
    s.expect_data(0, 1);
    s.write(10_000);
    s.skip();
    s.at(210);
    // New data goes as the pipe empties.
    s.more(". 1 ack 1 sack 1001:8001");
    let new = s.take();
    assert!(!new.is_empty(), "room for new data");
    let last = new.last().unwrap().1;
    let end = u64::from(last.sequence.wrapping_sub(ISS).wrapping_add(last.length));
    s.at(310);
    s.more(&format!(". 1 ack 1 sack 1001:{end}"));
    let again = s.take();
    assert!(again.iter().any(|(_, segment)| segment.sequence == ISS.wrapping_add(1)), "{again:?}");
    assert_eq!(s.connection.stats().timeouts, 0);
    s.end();
}

// 7.2 and 7.3: after two round trips the last segment goes again.
#[test]
fn a_tail_that_is_not_acknowledged_is_probed_after_two_round_trips() {
    let mut s = Script::sending(&rack(&[]), 3);
    s.at(299);
    s.expect_nothing();
    s.at(300);
    s.expect_data(2, 1);
    assert_eq!((s.connection.stats().probes, s.connection.stats().timeouts), (1, 0));
    s.end();
}

// 7.3: new data is the better probe.
#[test]
fn the_probe_is_new_data_where_there_is_some() {
    let mut s = Script::sending(&rack(&[]), 10);
    s.write(3000);
    s.expect_nothing();
    s.at(300);
    s.expect_data(10, 1);
    s.end();
}

// 7.2: one segment under way: the peer's delay is added.
#[test]
fn a_single_segment_is_probed_later_by_the_delay_of_acks() {
    let mut s = Script::sending(&rack(&[]), 1);
    s.at(300);
    s.expect_nothing();
    let mut at = 300;
    while s.connection.stats().probes + s.connection.stats().timeouts == 0 {
        at += 1;
        assert!(at <= 1100, "neither probe nor timeout");
        s.skip();
        s.at(at);
    }
    assert!((301..=800).contains(&at), "{at}");
    s.end();
}

// 7.3: after the probe the retransmission timer, and one probe only.
#[test]
fn one_probe_is_followed_by_the_timeout() {
    let mut s = Script::sending(&rack(&[]), 3);
    s.at(300);
    s.expect_data(2, 1);
    s.at(1299);
    s.expect_nothing();
    s.at(1300);
    s.expect_data(0, 1);
    assert_eq!(s.connection.stats().timeouts, 1);
    s.end();
}

// 7.3 with 6.2: the probe's report shows the loss of the rest.
#[test]
fn the_report_of_the_probe_starts_recovery_of_the_tail() {
    let mut s = Script::sending(&rack(&[]), 3);
    s.at(300);
    s.expect_data(2, 1);
    s.at(400);
    s.peer(". 1 ack 1 sack 2001:3001");
    // Both were sent 300 ms ago, the probe 100: far beyond the window.
    s.expect_data(0, 1);
    s.skip();
    assert_eq!((s.connection.stats().recoveries, s.connection.stats().timeouts), (1, 0));
    s.end();
}

// 7.4.2: the probe repaired a loss that nobody reported: the window answers.
#[test]
fn a_loss_that_the_probe_repaired_reduces_the_window() {
    let mut s = Script::sending(&rack(&[]), 10);
    s.at(200);
    s.ack(9000);
    // The last segment is lost; one under way.
    let window = s.connection.window();
    let mut at = 200;
    while s.connection.stats().probes == 0 {
        at += 1;
        s.skip();
        s.at(at);
        assert!(at < 1200, "no probe");
    }
    s.skip();
    s.at(at + 100);
    s.ack(10_000);
    s.write(1000);
    s.expect_data(10, 1);
    s.at(at + 200);
    s.ack(11_000);
    assert!(s.connection.window() < window, "{} of {window}", s.connection.window());
    s.end();
}

#[test]
fn a_probe_that_was_not_needed_leaves_the_window() {
    let mut s = Script::sending(&rack(&[]), 10);
    s.at(300);
    s.expect_data(9, 1);
    let window = s.connection.window();
    s.at(310);
    s.ack(10_000);
    // The peer reports the duplicate.
    s.at(400);
    s.peer(". 1 ack 10001 sack 9001:10001");
    s.write(1000);
    s.expect_data(10, 1);
    s.at(500);
    s.ack(11_000);
    assert!(s.connection.window() >= window, "{} of {window}", s.connection.window());
    s.end();
}

// The setting.
#[test]
fn without_the_setting_there_is_no_probe() {
    let mut s = Script::sending(&rack(&[("tail_loss_probe", "false")]), 3);
    s.at(1099);
    s.expect_nothing();
    s.at(1100);
    s.expect_data(0, 1);
    s.end();
}

// 6.3: a timeout does not take what was sent a moment ago for lost.
#[test]
fn a_timeout_sends_again_only_what_is_overdue() {
    let mut s = Script::sending(&rack(&[("tail_loss_probe", "false")]), 2);
    s.at(1050);
    s.write(2000);
    s.expect_data(2, 1);
    s.expect_data(3, 1);
    s.at(1100);
    s.expect_data(0, 1);
    s.at(1150);
    // The two late ones arrive.
    s.peer(". 1 ack 1 sack 2001:4001");
    s.at(1200);
    s.skip();
    s.peer(". 1 ack 4001");
    assert!(s.connection.stats().retransmitted <= 2, "{}", s.connection.stats().retransmitted);
    s.end();
}
