//! Urgent data: RFC 9293, 3.8.5, with the pointer as RFC 6093, 3.1 reads it: behind the last urgent byte.

use super::script::*;

// MUST-30, MUST-62: of any length, and the peer hears where it ends.
#[test]
fn every_segment_before_the_end_of_urgent_data_says_where_that_is() {
    let mut s = Script::sending(&config("rfc", &[("nagle", "off")]), 0);
    s.skip();
    s.urge(1500);
    // At once, before there is any.
    s.expect("U. 1 ack 1 urg 1500");
    s.write(2500);
    s.expect("U. 1:1001 ack 1 urg 1500");
    s.expect("U. 1001:2001 ack 1 urg 500");
    let last = s.expect(". 2001:2501 ack 1");
    assert_eq!(last.urgent, 0);
    s.end();
}

#[test]
fn what_is_further_away_than_the_field_can_say_is_told_again_nearer() {
    let mut s = Script::sending(&config("rfc", &[("initial_window", "1000")]), 0);
    s.skip();
    s.window = u16::MAX;
    s.urge(70_000);
    s.expect("U. 1 ack 1 urg 65535");
    s.end();
}

// A peer that takes nothing hears of it all the same.
#[test]
fn a_closed_window_does_not_hold_back_the_word_of_urgent_data() {
    let mut s = Script::established(&config("rfc", &[]));
    s.peer(". 1 ack 1 win 0");
    s.urge(3);
    s.expect("U. 1 ack 1 urg 3");
    s.write(3);
    s.expect_nothing();
    s.end();
}

// MUST-31, MUST-32: the application hears of it before and while there is some, and no longer.
#[test]
fn the_reader_knows_how_far_urgent_data_goes_until_it_has_read_all_of_it() {
    let mut s = Script::established(&config("rfc", &[("delayed_ack", "0s"), ("delayed_ack_maximum", "0s")]));
    s.peer("U. 1 ack 1 urg 150");
    assert_eq!(s.connection.urgent(), 150);
    s.more("U. 1:101 ack 1 urg 150");
    s.more(". 101:301 ack 1");
    s.skip();
    assert_eq!((s.connection.readable(), s.connection.urgent()), (300, 150));
    s.read(100);
    assert_eq!(s.connection.urgent(), 50);
    s.read(100);
    assert_eq!(s.connection.urgent(), 0);
    // An older pointer takes nothing back, and one without the flag says nothing.
    s.more("U. 301 ack 1 urg 9");
    s.more("U. 301 ack 1 urg 2");
    s.more(". 301 ack 1 urg 700");
    assert_eq!(s.connection.urgent(), 109);
    s.skip();
    s.end();
}
