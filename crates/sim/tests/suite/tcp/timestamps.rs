//! Timestamps: RFC 7323, 3.2, 4.1, 4.3 and 5.3 (PAWS).

use super::script::*;
use fairspan_sim::tcp::{Config, State};

fn stamped(changes: &[(&str, &str)]) -> Config {
    let mut all = vec![("timestamps", "true")];
    all.extend_from_slice(changes);
    config("rfc", &all)
}

/// Accepted with timestamps; the peer's clock stood at 1000 and 1001.
fn accepted(config: &Config) -> Script {
    let mut s = Script::new(config);
    s.listen();
    s.peer("S 0 mss 1000 sackok ts 1000:0");
    let answer = s.expect("S. 0 ack 1 sackok");
    assert_eq!(answer.options.timestamps.unwrap().1, 1000);
    s.at(100);
    let value = answer.options.timestamps.unwrap().0;
    s.peer(&format!(". 1 ack 1 ts 1001:{value}"));
    s
}

fn echo_of(s: &mut Script, text: &str) -> u32 {
    s.expect(text).options.timestamps.expect("a timestamp").1
}

// 3.2: once agreed, on every segment but resets.
#[test]
fn once_agreed_every_segment_has_a_timestamp() {
    let mut s = accepted(&stamped(&[("delayed_ack", "0s"), ("delayed_ack_maximum", "0s")]));
    s.write(2000);
    for (_, segment) in s.take() {
        assert!(segment.options.timestamps.is_some());
        assert!(segment.length <= 988, "the option takes its place");
    }
    s.peer(". 1:989 ack 1 ts 1002:0");
    assert!(s.take()[0].1.options.timestamps.is_some());
    s.close();
    s.end();
}

#[test]
fn an_active_open_offers_and_without_an_answer_goes_without() {
    let mut s = Script::new(&stamped(&[]));
    s.open();
    let syn = s.expect("S 0");
    assert_eq!(syn.options.timestamps.unwrap().1, 0, "the echo of a SYN is zero");
    s.peer("S. 0 ack 1 mss 1000");
    s.expect(". 1 ack 1 no-ts");
    s.write(1000);
    s.expect(". 1:1001 ack 1 no-ts");
}

// 3.2: once agreed, a segment without is dropped, a reset is not.
#[test]
fn once_agreed_a_segment_without_is_dropped() {
    let mut s = accepted(&stamped(&[]));
    s.peer(". 1:989 ack 1");
    assert_eq!(s.connection.readable(), 0);
    s.skip();
    s.peer("R 1");
    assert_eq!(s.state(), State::Closed);
}

// The value is a clock of milliseconds.
#[test]
fn the_clock_ticks_every_millisecond() {
    let mut s = accepted(&stamped(&[]));
    s.write(988);
    let first = s.expect(". 1:989 ack 1").options.timestamps.unwrap().0;
    s.at(350);
    s.peer(&format!(". 1 ack 989 ts 1250:{first}"));
    s.write(988);
    let second = s.expect(". 989:1977 ack 1").options.timestamps.unwrap().0;
    assert_eq!(second.wrapping_sub(first), 250);
    s.end();
}

// 4.1: a round trip from the echo, also of what was sent twice.
#[test]
fn the_echo_measures_even_a_segment_sent_twice() {
    let mut s = accepted(&stamped(&[("rto_minimum", "1ms")]));
    let before = s.connection.smoothed_rtt();
    assert_eq!(before, span(100));
    s.write(988);
    s.expect(". 1:989 ack 1");
    s.at(400);
    let again = s.expect(". 1:989 ack 1").options.timestamps.unwrap().0;
    s.at(450);
    s.peer(&format!(". 1 ack 989 ts 1400:{again}"));
    // R' = 50: 7/8 * 100 + 1/8 * 50.
    assert_eq!(s.connection.smoothed_rtt().as_nanos(), 93_750_000);
}

// 4.3, (A): delayed ACKs echo the first segment that waits.
#[test]
fn a_delayed_ack_echoes_the_earliest_segment_it_covers() {
    let mut s = accepted(&stamped(&[]));
    s.peer(". 1:989 ack 1 ts 2000:0");
    s.peer(". 989:1977 ack 1 ts 2050:0");
    assert_eq!(echo_of(&mut s, ". 1 ack 1977"), 2000);
}

// 4.3, (B): a hole: the last segment that advanced the window.
#[test]
fn an_ack_for_a_segment_out_of_order_echoes_the_last_in_order() {
    let mut s = accepted(&stamped(&[]));
    s.peer(". 1:989 ack 1 ts 2000:0");
    s.peer(". 989:1977 ack 1 ts 2010:0");
    assert_eq!(echo_of(&mut s, ". 1 ack 1977"), 2000);
    s.peer(". 2965:3953 ack 1 ts 2030:0");
    let echo = echo_of(&mut s, ". 1 ack 1977 sack any");
    assert!(echo == 2000 || echo == 2010, "{echo}: of a segment before the hole");
    // (C): the segment that fills the hole.
    s.peer(". 1977:2965 ack 1 ts 2040:0");
    assert_eq!(echo_of(&mut s, ". 1 ack 3953"), 2040);
}

// 5.3, R1: an old timestamp: an ACK, and dropped.
#[test]
fn a_segment_with_an_old_timestamp_is_acknowledged_and_dropped() {
    let mut s = accepted(&stamped(&[("delayed_ack", "0s"), ("delayed_ack_maximum", "0s")]));
    s.peer(". 1:989 ack 1 ts 5000:0");
    s.expect(". 1 ack 989");
    s.at(1000);
    s.peer(". 989:1977 ack 1 ts 4999:0");
    s.expect(". 1 ack 989 sack any");
    assert_eq!(s.connection.readable(), 988);
    s.peer(". 989:1977 ack 1 ts 5000:0");
    s.expect(". 1 ack 1977");
}

// 5.2: before and after are taken modulo 2^32.
#[test]
fn timestamps_wrap() {
    let mut s = Script::new(&stamped(&[("delayed_ack", "0s"), ("delayed_ack_maximum", "0s")]));
    s.listen();
    s.peer("S 0 mss 1000 ts 4294967290:0");
    s.skip();
    s.peer(". 1 ack 1 ts 4294967295:0");
    s.peer(". 1:989 ack 1 ts 3:0");
    s.expect(". 1 ack 989");
    s.peer(". 989:1977 ack 1 ts 4294967291:0");
    s.skip();
    assert_eq!(s.connection.readable(), 988);
}

// 5.2: a reset is not subject to PAWS.
#[test]
fn a_reset_with_an_old_timestamp_counts() {
    let mut s = accepted(&stamped(&[]));
    s.peer("R 1 ts 1:0");
    assert_eq!(s.state(), State::Closed);
}
