//! Windows between applications: RFC 9293, 3.8.6.1 (zero-window probes), 3.8.6.2 (silly windows), 3.7.4 (Nagle).

use super::script::*;

/// Sent and acknowledged `segments`, and the peer closed its window at 200 ms.
fn closed_window(changes: &[(&str, &str)]) -> Script {
    let mut s = Script::sending(&config("rfc", changes), 2);
    s.write(5000);
    s.skip();
    s.at(200);
    s.peer(". 1 ack 7001 win 0");
    s.write(5000);
    s.expect_nothing();
    s
}

// 3.8.6.1: the first probe after a timeout, then at growing distances; the connection lives.
#[test]
fn a_zero_window_is_probed_after_the_timeout_and_then_at_doubling_distances() {
    let mut s = closed_window(&[]);
    let rto = s.connection.retransmission_timeout().as_nanos() / 1_000_000;
    let mut at = 200;
    for n in 0..8 {
        at += (rto << n).min(60_000);
        s.at(at);
        let probe = s.take();
        assert_eq!(probe.len(), 1, "probe {n} at {at} ms");
        let (time, segment) = probe[0];
        assert!(at_most_a_byte(&segment), "{segment:?}");
        assert_eq!(time, ms(at));
        s.more(". 1 ack 7001 win 0");
        s.expect_nothing();
    }
    assert!(s.connection.is_established());
    assert!(s.connection.stats().window_probes >= 8);
    s.end();
}

fn at_most_a_byte(segment: &fairspan_sim::tcp::segment::Segment) -> bool {
    segment.length <= 1
}

// 3.8.6.1: probing goes on for as long as the peer answers.
#[test]
fn a_peer_that_answers_with_a_closed_window_is_never_given_up() {
    let mut s = closed_window(&[("retries", "3")]);
    for _ in 0..7200 {
        s.after(500);
        for _ in s.take() {
            s.more(". 1 ack 7001 win 0");
        }
    }
    assert!(s.connection.is_established());
    assert!(s.connection.stats().window_probes > 30);
    s.end();
}

#[test]
fn an_opened_window_is_used_at_once() {
    let mut s = closed_window(&[]);
    s.at(700);
    s.peer(". 1 ack 7001 win 3000");
    let sent: u64 = s.take().iter().map(|(_, segment)| u64::from(segment.length)).sum();
    assert_eq!(sent, 3000);
    s.end();
}

#[test]
fn a_probe_finds_the_window_open_when_the_update_was_lost() {
    let mut s = closed_window(&[("nagle", "off")]);
    let rto = s.connection.retransmission_timeout().as_nanos() / 1_000_000;
    s.at(200 + rto);
    let probe = s.take()[0].1;
    let taken = 7001 + u64::from(probe.length);
    s.peer(&format!(". 1 ack {taken} win 10000"));
    let sent: u64 = s.take().iter().map(|(_, segment)| u64::from(segment.length)).sum();
    assert!(sent >= 4999, "{sent}");
    s.end();
}

// 3.8.6.1 at the receiver: a probe of a closed window is answered and changes nothing.
#[test]
fn a_probe_into_a_closed_window_is_answered_with_zero() {
    let mut s =
        Script::accepted(&config("rfc", &[("receive_buffer", "2000B"), ("receive_buffer_maximum", "2000B")]), "");
    s.peer(". 1:1001 ack 1");
    s.peer(". 1001:2001 ack 1");
    s.expect(". 1 ack 2001 win 0");
    s.at(2000);
    s.peer(". 2001:2002 ack 1");
    s.expect(". 1 ack 2001 win 0");
    assert_eq!(s.connection.readable(), 2000);
    s.read(2000);
    s.expect(". 1 ack 2001 win 2000");
    s.peer(". 2001:2002 ack 1");
    s.at(3000);
    assert_eq!(s.connection.readable(), 1);
    s.end();
}

// 3.8.6.2.2: an update waits for a segment or half of the buffer.
#[test]
fn the_window_opens_by_a_segment_or_half_of_the_buffer_and_not_by_less() {
    let mut s =
        Script::accepted(&config("rfc", &[("receive_buffer", "8000B"), ("receive_buffer_maximum", "8000B")]), "");
    for n in 0..8 {
        s.more(&format!(". {n}001:{}001 ack 1", n + 1));
    }
    s.skip();
    s.read(400);
    s.expect_nothing();
    s.read(500);
    s.expect_nothing();
    s.read(100);
    s.expect(". 1 ack 8001 win 1000");

    let mut s =
        Script::accepted(&config("rfc", &[("receive_buffer", "1200B"), ("receive_buffer_maximum", "1200B")]), "");
    s.more(". 1:1001 ack 1");
    s.more(". 1001:1201 ack 1");
    s.at(1000);
    s.skip();
    s.read(500);
    s.expect_nothing();
    s.read(150);
    let update = s.expect(". 1 ack 1201");
    assert!(update.window >= 600, "{}", update.window);
}

// 3.8.6.2.1: (1) a full segment goes; less waits, until (2) all is acknowledged, (3) half of the largest window, (4) the
// override.
#[test]
fn a_small_window_is_not_filled_with_small_segments() {
    let mut s = Script::established(&config("rfc", &[]));
    s.window = 5000;
    s.peer(". 1 ack 1");
    s.write(20_000);
    assert_eq!(s.take().len(), 5);
    s.at(200);
    // 4000 are under way in a window of 4400: 400 would be a small segment.
    s.peer(". 1 ack 1001 win 4400");
    s.expect_nothing();
    s.peer(". 1 ack 2001 win 4400");
    s.expect_data(5, 1);
    s.end();
}

#[test]
fn the_last_small_segment_goes_when_nothing_is_under_way() {
    let mut s = Script::established(&config("rfc", &[]));
    s.write(300);
    s.expect(". 1:301 ack 1");
}

// Rule 4: after the override, what fits goes.
#[test]
fn what_fits_a_small_window_goes_at_last() {
    let mut s = Script::established(&config("rfc", &[("silly_window_override", "300ms"), ("nagle", "off")]));
    s.window = 5000;
    s.peer(". 1 ack 1");
    s.write(20_000);
    s.skip();
    s.at(200);
    s.peer(". 1 ack 5001 win 400");
    s.expect_nothing();
    s.at(500);
    s.expect(". 5001:5401 ack 1");
    s.end();
}

// 3.7.4: Nagle.
#[test]
fn nagle_holds_a_small_segment_while_anything_is_unacknowledged() {
    let mut s = Script::established(&config("rfc", &[("nagle", "on")]));
    s.write(100);
    s.expect(". 1:101 ack 1");
    s.write(100);
    s.write(100);
    s.expect_nothing();
    s.write(900);
    s.expect(". 101:1101 ack 1");
    s.at(200);
    s.ack(1100);
    s.expect(". 1101:1201 ack 1");
    s.end();
}

#[test]
fn without_nagle_small_segments_go_at_once() {
    let mut s = Script::established(&config("rfc", &[("nagle", "off")]));
    for n in 0..4 {
        s.write(100);
        s.expect(&format!(". {}:{} ack 1", n * 100 + 1, n * 100 + 101));
    }
    s.end();
}

#[test]
fn minshall_lets_one_small_segment_follow_full_ones() {
    let mut s = Script::established(&config("rfc", &[("nagle", "minshall")]));
    s.write(1100);
    s.expect(". 1:1001 ack 1");
    s.expect(". 1001:1101 ack 1");
    s.write(100);
    s.expect_nothing();
    s.at(200);
    s.ack(1100);
    s.expect(". 1101:1201 ack 1");
    s.end();
}

// RFC 9293, 3.10.7.4: an old segment must not bring back an old window (SND.WL1, SND.WL2).
#[test]
fn an_old_segment_does_not_change_the_window() {
    let mut s = Script::established(&config("rfc", &[]));
    s.write(3000);
    s.skip();
    s.at(200);
    s.peer(". 1 ack 3001 win 9000");
    s.peer(". 1 ack 2001 win 1000");
    s.write(20_000);
    assert_eq!(s.take().len(), 9);
    s.end();
}

// The same, by the order of numbers: a segment that is old but for its last bytes was sent with an old window.
#[test]
fn a_segment_that_began_earlier_does_not_bring_back_an_old_window() {
    let mut s = Script::established(&config("rfc", &[]));
    s.peer(". 1:501 ack 1 win 5000");
    s.peer(". 501 ack 1 win 9000");
    s.peer(". 1:601 ack 1 win 2000");
    s.skip();
    s.write(20_000);
    assert_eq!(s.take().len(), 9);
    s.end();
}

// And yet what acknowledges new data has a new window: the old one would reach beyond what was offered.
#[test]
fn a_retransmission_that_acknowledges_new_data_brings_its_window() {
    let mut s = Script::established(&config("rfc", &[]));
    s.peer(". 1:501 ack 1 win 3000");
    s.peer(". 501 ack 1 win 3000");
    s.write(20_000);
    assert_eq!(s.take().len(), 3);
    s.at(300);
    s.more(". 1:601 ack 3001 win 0");
    assert!(s.take().iter().all(|(_, segment)| segment.length == 0));
    s.end();
}

// RFC 9293, 3.8.6: a peer that shrinks its window is obeyed for new data.
#[test]
fn a_shrunk_window_stops_new_data() {
    let mut s = Script::sending(&config("rfc", &[]), 5);
    s.at(200);
    s.peer(". 1 ack 1001 win 2000");
    s.write(5000);
    s.expect_nothing();
    s.peer(". 1 ack 4001 win 2000");
    s.expect_data(5, 1);
    s.end();
}

#[test]
fn the_send_buffer_takes_what_fits_and_empties_with_acks() {
    let mut s = Script::established(&config("rfc", &[("send_buffer", "3000B")]));
    assert_eq!(s.write(5000), 3000);
    s.skip();
    assert_eq!(s.write(1), 0);
    s.at(200);
    s.ack(2000);
    assert_eq!(s.write(5000), 2000);
    s.end();
}
